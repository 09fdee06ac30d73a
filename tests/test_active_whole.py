"""Active replicas on whole peers in virtual time: peers crash, and no result waits for the failure detector."""

from __future__ import annotations

import random
from itertools import pairwise

import polars as pl
import pytest

from synergy_nb.dataflow.streams.execution import Outcome, Work
from synergy_nb.events import ActiveReplicasLost
from synergy_nb.plan import Plan, source
from synergy_nb.plan.active_replicas import replicated
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults

PEERS = tuple(f"p{number}" for number in range(7))
COLUMNS = {"k": "int", "v": "int"}
WINDOW_S = 0.05  # a result for each
HOP_S = 0.012  # longest delay of a link
HOPS = 4  # links from the sources to the sink


def rows(seed: int, count: int = 600) -> pl.DataFrame:
    rng = random.Random(seed)
    times = pl.Series([10_000 * number for number in range(count)], dtype=pl.Datetime("us"))
    return pl.DataFrame({"time": times, "k": [rng.randrange(3) for _ in times], "v": [rng.randrange(5) for _ in times]})


def query() -> Plan:
    one, other = (source("python", name=name, columns=COLUMNS, rate=100.0, id=name) for name in "ab")
    merged = one.union(other, id="union").filter("v > 0", id="filter")
    return merged.aggregate(by=["k"], window="50 ms", id="sums", values={"c": "count(v)"}).sink("out", id="out")


class Timed(PeerWorld):
    """Whole peers, with the times at which results arrive at the sink."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, PEERS, Faults(delay=(0.002, HOP_S)))
        self.arrived: list[float] = []

    def _measure(self, work: Work, outcome: Outcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink" and any(chunk.rows for chunk in work.chunks):
            self.arrived.append(self.now)

    @property
    def lost(self) -> list[ActiveReplicasLost]:
        return [each for each in self.control.journal.about("app") if isinstance(each, ActiveReplicasLost)]


def running(seed: int, degree: int) -> Timed:
    """A world with the query: sources and sink at the first peer, replicas in columns at the others."""
    world, plan = Timed(seed), replicated(query(), degree)
    peers = dict.fromkeys(plan.operators, PEERS[0])
    for name in plan.operators:
        base, _, number = name.partition("~")
        if base in ("union", "filter", "sums"):
            peers[name] = PEERS[1 + int(number or 0)]
    world.deploy("app", plan, peers, {"a": rows(1), "b": rows(2)})
    assert world.until(lambda: world.status("app") == "running")
    return world


def gap(world: Timed, since: float, until: float) -> float:
    """Longest time between two results of a part of a run, seconds."""
    before = max(time for time in world.arrived if time <= since) if since else world.arrived[0]
    times = [before, *(time for time in world.arrived if since < time <= until)]
    return max(after - before for before, after in pairwise([*times, until]))


def results(world: Timed) -> list[tuple[object, ...]]:
    found = world.results["app", "out"]
    assert world.until(lambda: found.ended), world.failures()
    return sorted(found.rows.rows())


@pytest.fixture(scope="module")
def expected() -> list[tuple[object, ...]]:
    return results(running(1, 1))


@pytest.mark.parametrize(("dead", "seed"), [(1, 1), (2, 2)])
def test_results_go_on_before_a_death_is_known(dead: int, seed: int, expected: list[tuple[object, ...]]) -> None:
    world = running(seed, 3)
    world.run(2.0)
    crashed = world.now
    for peer in PEERS[1 : 1 + dead]:
        world.crash(peer)
    assert world.until(lambda: bool(world.lost))
    found_at = world.now
    assert found_at - crashed > 10 * WINDOW_S, "the detector needs far longer than a result"
    undisturbed = running(seed, 3)
    undisturbed.run(found_at - undisturbed.now)
    assert gap(world, crashed, found_at) <= gap(undisturbed, 0.0, found_at) + HOPS * HOP_S
    assert results(world) == expected
    assert world.status("app") in ("running", "finished")


def test_a_replica_that_hangs_until_it_counts_as_dead_leaves_when_it_comes_back(
    expected: list[tuple[object, ...]],
) -> None:
    world = running(3, 2)
    world.run(1.0)
    world.hang(PEERS[1], 9.0)
    assert world.until(lambda: bool(world.lost))
    assert results(world) == expected
    world.run(12.0)
    hosting = world._nodes[PEERS[1]].hosting
    assert not [key for key in hosting.components if key[0] == "app"], "it has left"
    assert "app" not in world.synergy[PEERS[1]].session.applications
