"""``sim``: time and memory of simulations of many peers, from the empty ring to the last tuple."""

from __future__ import annotations

import time
from typing import Any

from synergy_experiments.bench.measurements import machine_load, measurement

__all__ = ["sim"]

ARRIVALS = 9.0 / 500.0  # requests a second, a peer


def sim(*, small: bool = False) -> dict[str, Any]:
    """Protocol events a CPU second while 500 peers compose 500 requests; in the detail, time against peers."""
    sizes = ((20, 5),) if small else ((100, 100), (500, 500), (2000, 500), (10_000, 500))
    before = machine_load()
    runs = [_run(peers, requests) for peers, requests in sizes]
    of = next((run for run in runs if run["peers"] == 500), runs[0])
    detail = {
        "way": "whole Synergy peers on a transit-stub network of 1500 routers compose requests of 2 to 10 operators by "
        "probing, with sharing; then the tuples of 60 s of all that is admitted are executed; CPU seconds of one core, "
        "the same number of requests a second at every peer",
        "sizes": runs,
        "seconds": of["seconds"],
        "target": 500_000,
        "target_seconds": 30.0,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("sim", of["events_a_second"], "events/s", detail)


def _run(peers: int, requests: int) -> dict[str, Any]:
    from synergy_experiments.flows.workload import Parameters  # noqa: PLC0415 - as above
    from synergy_experiments.worlds.composed_requests import Composed  # noqa: PLC0415 - starting the compiler takes a while
    from synergy_experiments.worlds.scenario import Scenario  # noqa: PLC0415 - as above

    workload = Parameters(
        components=2 * peers // 5, requests=requests, arrivals=ARRIVALS * max(peers, 500), costs=(0.002, 0.006)
    )
    took: dict[str, float] = {}
    began = time.process_time()

    def lap(stage: str) -> None:
        nonlocal began
        now = time.process_time()
        took[stage] = round(now - began, 3)
        began = now

    composed = Composed(Scenario(workload, peers=peers, policy="synergy", pings=0.5), seed=1)
    lap("setting_up")
    composed.stabilise()
    lap("settling")
    settled = composed.simulation.events
    composed.serve()
    lap("composing")
    outcome = composed.count()
    lap("executing")
    admitted = sum(each.admitted for each in outcome.served)
    return {
        "peers": peers,
        "requests": requests,
        "admitted": admitted,
        "seconds": round(sum(took.values()), 3),
        **{f"{stage}_s": value for stage, value in took.items()},
        "events": outcome.events,
        "events_a_second": round((outcome.events - settled) / took["composing"], 0) if took["composing"] else 0.0,
        "component_tuples": outcome.component_tuples,
        "virtual_s": round(outcome.virtual, 1),
    }
