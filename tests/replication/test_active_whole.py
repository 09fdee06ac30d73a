"""Active replicas on whole peers in virtual time: peers crash, and no result waits for the failure detector."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TypeVar

import polars as pl
import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.events import ActiveReplicasLost, Event, RebuildImpossible, ReplicaRebuilt
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults

PEERS = tuple(f"p{number}" for number in range(7))
COLUMNS = {"k": "int", "v": "int"}
WINDOW_S = 0.05  # a result for each
HOP_S = 0.012  # longest delay of a link
HOPS = 4  # links from the sources to the sink
LOST = {"union": "union", "filter": "filter", "sums": "aggregate"}  # replicas at the second peer, and their kinds

E = TypeVar("E", bound=Event)


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

    def __init__(self, seed: int, components: tuple[str, ...] = ()) -> None:
        own = PeerConfig(components=components, cores=16.0, placement=None)
        super().__init__(seed, PEERS, Faults(delay=(0.002, HOP_S)), config=own)
        self.arrived: list[float] = []

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink" and any(chunk.rows for chunk in work.chunks):
            self.arrived.append(self.now)

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.control.journal.about("app") if isinstance(each, kind)]

    @property
    def lost(self) -> list[ActiveReplicasLost]:
        return self.of(ActiveReplicasLost)


def running(seed: int, degree: int, components: tuple[str, ...] = (), since: float = 0.0) -> Timed:
    """A world with the query: sources and sink at the first peer, replicas in columns at the others."""
    world, plan = Timed(seed, components), replicated(query(), degree)
    for peer in PEERS if components else ():
        world.control.report(peer, OfferComponents())
    world.run(since)
    peers = dict.fromkeys(plan.operators, PEERS[0])
    for name in plan.operators:
        base, _, number = name.partition("~")
        if base in ("union", "filter", "sums"):
            peers[name] = PEERS[1 + int(number or 0)]
    world.deploy("app", plan, peers, {"a": rows(1), "b": rows(2)})
    assert world.until(lambda: world.status("app") == "running")
    return world


def gap(world: Timed, since: float, until: float) -> float:
    """Longest time without a result in a part of a run, seconds; what was waited before it is not of that part."""
    times = [since or world.arrived[0], *(time for time in world.arrived if since < time <= until)]
    return max(after - before for before, after in pairwise([*times, until]))


def results(world: Timed) -> list[tuple[object, ...]]:
    found = world.results["app", "out"]
    assert world.until(lambda: found.ended), world.failures()
    return sorted(found.rows.rows())


@pytest.fixture(scope="module")
def expected() -> list[tuple[object, ...]]:
    return results(running(1, 1))


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_replica_that_hangs_until_it_counts_as_dead_leaves_when_it_comes_back_and_is_rebuilt_there(
    expected: list[tuple[object, ...]],
) -> None:
    world = running(3, 2)
    world.run(1.0)
    world.hang(PEERS[1], 9.0)
    assert world.until(lambda: bool(world.lost))
    assert results(world) == expected

    def left() -> bool:
        return not [key for key in world.nodes[PEERS[1]].hosting.components if key[0] == "app"]

    assert world.until(left), "it has left"
    assert "app" not in world.synergy[PEERS[1]].session.applications
    impossible = {each.operator: each.reason for each in world.of(RebuildImpossible)}
    assert impossible == {name: f"no other peer offers {kind!r}" for name, kind in LOST.items()}
    assert world.until(lambda: len(world.of(ReplicaRebuilt)) == len(LOST)), "there is a place once it is alive again"
    assert {name: world.where("app")[name] for name in LOST} == dict.fromkeys(LOST, PEERS[1])
    assert len(world.of(RebuildImpossible)) == len(LOST), "once for each, however often it was tried"


@pytest.mark.slow
def test_a_lost_replica_is_rebuilt_so_that_the_death_of_the_other_one_delays_no_result() -> None:
    world = running(4, 2, ALL_COMPONENTS, since=2.0)
    world.pace *= 4.0  # so that the sources last
    world.run(1.0)
    world.crash(PEERS[1])
    assert world.until(lambda: len(world.of(ReplicaRebuilt)) == len(LOST))
    assert {each.operator for each in world.of(ReplicaRebuilt)} == set(LOST)
    where, crashed = world.where("app"), world.now
    assert PEERS[1] not in where.values()
    assert all(where[name] not in (PEERS[0], where[f"{name}~1"]) for name in LOST), "not where all depends on one peer"
    world.crash(PEERS[2])
    assert world.until(lambda: len(world.lost) == 2)
    found_at = world.now
    undisturbed = running(4, 2, ALL_COMPONENTS, since=2.0)
    undisturbed.pace *= 4.0
    undisturbed.run(found_at - undisturbed.now)
    assert gap(world, crashed, found_at) <= gap(undisturbed, 0.0, found_at) + HOPS * HOP_S
    assert results(world) == results(undisturbed)
