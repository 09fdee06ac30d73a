"""``flow``: throughput of the simulation of tuples at peers."""

from __future__ import annotations

import random
import time
from typing import Any

from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_experiments.flows.workload import Parameters, Request, Workload, generate
from synergy_nb.simulator.network import transit_stub

__all__ = ["flow"]


def flow(*, small: bool = False) -> dict[str, Any]:
    """Component-tuples a CPU second at 500 peers; at 10,000 peers, with as many and with more requests, in the detail.

    A component-tuple is a tuple executed by a component on a peer, first come first served, and carried to the next.
    """
    sizes = ((40, 20),) if small else ((500, 500), (10_000, 500), (10_000, 5000))
    tuples, repeats = (2000, 1) if small else (1_000_000, 5)
    before = machine_load()
    runs = [_run(peers, requests, tuples, repeats) for peers, requests in sizes]
    detail = {
        "way": "requests of 2 to 10 operators on random peers of a transit-stub network, Poisson sources, exponential "
        "processing times, links of finite bandwidth; one core, after warming up",
        "sizes": runs,
        "target": 3e6,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("flow", runs[0]["rate"]["median"], "tuples/s", detail)


def _run(peers: int, requests: int, tuples: int, repeats: int) -> dict[str, Any]:
    from synergy_experiments.flows.flow import Flow  # noqa: PLC0415 - starting the compiler takes a while

    topology = transit_stub(peers, seed=1)
    parameters = Parameters(
        components=2 * peers // 5, requests=requests, population=requests, zipf=0.0, costs=(0.001, 0.004)
    )
    workload = generate(topology, parameters, seed=1)
    rng = random.Random(1)
    simulation = Flow(topology, bandwidth=topology.bandwidth, speeds=topology.cores, seed=1, keep=64, backlog=1.0)
    began = time.process_time()
    for request in workload.requests:
        simulation.add(_application(workload, request, rng))
    added = time.process_time() - began
    simulation.run(until=2.0)
    window = tuples * simulation.now / max(simulation.served, 1)
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        served = simulation.run(until=simulation.now + window)
        rates.append(served / (time.process_time() - began))
    loads = [simulation.load(peer) for peer in topology.peers]
    return {
        "peers": peers,
        "requests": requests,
        "rate": spread(rates, digits=0),
        "component_tuples": simulation.served,
        "virtual_s": round(simulation.now, 1),
        "on_their_way": simulation.in_flight,
        "load_mean": round(sum(loads) / len(loads), 3),
        "load_most": round(max(loads), 3),
        "lost": simulation.lost,
        "setup_ms_a_request": round(added / requests * 1e3, 3),
    }


def _application(workload: Workload, request: Request, rng: random.Random) -> Any:
    """The request with a random component for each operator."""
    from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service  # noqa: PLC0415 - as above

    query = workload.queries[request.query]
    feed = workload.feeds[query.source]
    parts = {"source": Component(feed.peer, size=16.0)}
    for step in query.steps:
        unique = workload.components[step.component]
        parts[step.name] = Component(rng.choice(unique.peers), Service.exponential(unique.cost), step.inputs, size=16.0)
    parts["sink"] = Component(request.origin, inputs=[query.steps[-1].name])
    return Application(request.name, parts, {"source": Arrivals.poisson(feed.rate)}, limit=request.limit)
