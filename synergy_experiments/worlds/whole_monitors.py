"""Peers as users run them, in virtual time, that execute the monitors of P4 to P6 (dissertation, section 3.5).

The flow simulator has the decisions of the peers on queues of numbers. Here whole peers execute: their sessions, the
data path with its measured times and carried rates, the directory, and moves as they are made for users. Network,
speeds, placement, arrivals and mean processing times are those of :mod:`.monitors_under_load` at the same seed, so the
two are compared run by run.

In both a tuple takes the mean processing time. What differs: the new peer of a component executes what waits at the old
one, too, where in the flow simulator, as in the dissertation, the old one does; and the operators of whole peers are
filters, of which one passes 31 of 100 tuples as the monitor's does. *Compare* is a union, which passes all that it
reads, so there are twice as many results, each of which takes half the time at the sink. A source takes no time itself:
that of the flow model is taken by an operator behind it, which stays at its peer. Peers admit in spite of limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import polars as pl

from synergy_experiments.flows.flow_applications import Application, Service
from synergy_experiments.framework.measurements import Point
from synergy_experiments.worlds.monitors_under_load import (
    POLICIES,
    applications_of,
    measured_flow,
    speeds_of,
)
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.assembly.peer_options import peer_config
from synergy_nb.control.driver_messages import ReleaseResults
from synergy_nb.control.peer import DriverMessage
from synergy_nb.events import ApplicationRunning, MigrationEnded
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.composed_world import STABLE, ComposedWorld
from synergy_nb.simulator.network import transit_stub
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["FLOW", "WHOLE", "whole_monitored"]

WHOLE: Final = "whole peers"
FLOW: Final = "flow model"
SETTLED: Final = 5.0  # seconds in which all applications are set up, before the load
HEARTBEAT: Final = "1 s"  # time between the punctuations of a source, as nothing here waits for them
PASSED: Final = 31  # of a hundred tuples that the filter passes


class _Placed(ComposedWorld):
    """Whole peers that execute given graphs: nothing is composed, and none is refused."""

    def _make_peer(self, address: str, seed: int, config: PeerConfig) -> SynergyPeer:
        made = super()._make_peer(address, seed, config)
        made.session.on_setup_ended.clear()
        made.session.on_ended.clear()
        return made

    def _report(self, peer: str, message: DriverMessage) -> None:
        if not isinstance(message, ReleaseResults):  # no engine of requests knows what was given
            super()._report(peer, message)

    def place(self, name: str, plan: Plan, peers: Mapping[str, str]) -> None:
        """Run an application with each operator at a given peer."""
        self.plans[name], self.rows[name] = plan, {}
        self.deploy(name, plan, peers, {})


def whole_monitored(
    per_peer: int,
    policies: tuple[str, ...],
    peers: int,
    rate: float,
    share: float,
    spread: float,
    limit: float,
    duration: float,
    seed: int,
) -> list[Point]:
    """Misses, delays and migrations under each policy: of whole peers, and in the flow simulator at the same load.

    Parameters
    ----------
    per_peer
        Applications that each peer requests.
    policies
        Names of policies.
    peers
        Number of peers.
    rate
        Mean rate of a source, tuples/s.
    share
        Share of the capacity that ten applications a peer take.
    spread
        Speed of the fastest peer over that of the slowest one.
    limit
        Limit q_t of the delay, seconds.
    duration
        Duration of the load, seconds.
    seed
        Seed of the network, the placement and the load.
    """
    applications = applications_of(per_peer, peers, "packets", rate, share, limit, duration, seed, Service.constant)
    found: list[Point] = []
    with TemporaryDirectory() as folder:
        for policy in policies:
            ours = _whole(applications, peers, POLICIES[policy].config, spread, duration, seed, Path(folder))
            theirs = measured_flow(applications, peers, policy, spread, duration, seed)
            for model, measures in ((WHOLE, ours), (FLOW, theirs)):
                found += (Point(per_peer, f"{policy}, {model}", metric, value) for metric, value in measures.items())
    return found


def _whole(
    applications: Sequence[Application],
    peers: int,
    hotspots: HotSpotConfig | None,
    spread: float,
    duration: float,
    seed: int,
    folder: Path,
) -> dict[str, float]:
    network = transit_stub(peers, seed=seed, capacities={1.0: 1.0})
    network.cores = speeds_of(network.peers, spread, seed)
    config = peer_config(125e6, None, HotSpotConfig(mode="off") if hotspots is None else hotspots, None, True)
    world = _Placed(seed, network, config, Faults(delay=(0.0, 0.0), deployment=0.0))
    world.run(STABLE)
    expected = 0
    for each in applications:
        plan, results = _plan(each, folder)
        expected += results
        peer_of = {name: str(component.peer) for name, component in each.components.items()}
        world.place(each.name, plan, {**peer_of, "read": peer_of["source"]})
    world.run(SETTLED + duration + 2.0 * applications[0].limit)  # by then what waits is executed or dropped
    late = arrived = 0
    seconds = 0.0
    for each in applications:
        delays = world.results[each.name, "sink"].delays
        late, arrived, seconds = late + delays.missed, arrived + delays.count, seconds + delays.total
    in_time = arrived - late
    moved = [each for each in world.control.journal if isinstance(each, MigrationEnded) and not each.failure]
    return {
        "miss rate": 1.0 - in_time / expected,
        "delay": seconds / arrived if arrived else math.nan,
        "delay with misses": (seconds + (expected - arrived) * applications[0].limit) / expected,
        "applications": float(len(applications)),
        "ran": float(sum(isinstance(each, ApplicationRunning) for each in world.control.journal)),
        "migrations": float(len(moved)),
        "applications with a migration": float(len({each.subject for each in moved})),
    }


def _plan(application: Application, folder: Path) -> tuple[Plan, int]:
    """The plan of a monitor, and the number of its results."""
    times = np.asarray(application.sources["source"].times)
    drawn = np.random.default_rng(int(application.name[1:])).integers(0, 100, len(times))  # whether a tuple passes
    file = folder / f"{application.name}.parquet"
    if not file.exists():
        moments = pl.Series("time", np.round((times + SETTLED) * 1e6).astype(np.int64)).cast(pl.Datetime("us"))
        first = pl.Series("time", [0], dtype=pl.Int64).cast(pl.Datetime("us"))
        table = pl.DataFrame({"time": pl.concat([first, moments]), "v": np.concatenate([[PASSED], drawn])})
        table.write_parquet(file)
    cost = {name: component.service.mean for name, component in application.components.items()}
    rate = max(len(times) / max(float(times[-1]), 1.0), 0.1) if len(times) else 0.1
    stream = source(
        "trace",
        path=str(file),
        format="parquet",
        columns={"v": "int"},
        speed=1.0,
        rate=rate,
        heartbeat=HEARTBEAT,
        id="source",
    ).filter("v >= 0", cost=cost["source"], selectivity=1.0, id="read", at=str(application.components["source"].peer))
    stream = stream.filter(f"v < {PASSED}", cost=cost["filter"], selectivity=PASSED / 100, id="filter")
    for name in ("project", "aggregate"):
        stream = stream.filter("v >= 0", cost=cost[name], selectivity=1.0, id=name)
    branches = [stream.filter("v >= 0", cost=cost[name], selectivity=1.0, id=name) for name in ("sort", "count")]
    both = branches[0].union(branches[1], cost=cost["compare"], id="compare")
    plan = both.sink(id="sink", cost=cost["sink"] / 2.0, delay=application.limit, overdue="drop")
    return plan, 2 * int((drawn < PASSED).sum())
