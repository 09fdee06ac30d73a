"""Inputs of readers whose producers die and are rebuilt again and again: forgotten, and mistaken for no other."""

from __future__ import annotations

import random

import polars as pl
import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import InputFeed, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import SendFrame
from synergy_nb.dataflow.streams.log.frames import Data, Unsubscribe
from synergy_nb.dataflow.streams.log.merge import CLOSED
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output, Point, SnapshotCut, chunks_of
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import START, Batch, Punctuation
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.simulator.scripted_faults import Faults
from tests.replica_schedules import ideal
from tests.replica_world import ReplicaWorld

PEERS = tuple("abcdef")
COLUMNS = {"v": "int"}


def query() -> Plan:
    one, other = (source("python", name=name, columns=COLUMNS, rate=100.0, id=name) for name in "st")
    return one.union(other, id="u").filter("v > 0", id="f").sink("out", id="out")


def table(seed: int, rows: int) -> pl.DataFrame:
    rng = random.Random(seed)
    times = pl.Series(sorted(rng.randrange(rows * 10_000) for _ in range(rows)), dtype=pl.Datetime("us"))
    return pl.DataFrame({"time": times, "v": [rng.randrange(5) for _ in times]})


class Rebuilding:
    """A query with two replicas of each operator, of which one of the union is rebuilt and the oldest dies."""

    def __init__(self, rows: int, seed: int = 1, faults: Faults | None = None) -> None:
        self.plan = query()
        self.inputs = {name: table(seed + number, rows) for number, name in enumerate("st")}
        self.world = world = ReplicaWorld(seed, PEERS, faults or Faults(delay=(0.0, 0.01)), detection=1000.0)
        world.pace = 0.1
        expanded = replicated(self.plan, 2)
        where = {name: "b" if "~" in name else "c" for name in expanded.operators} | dict.fromkeys(
            ("s", "t", "out"), "a"
        )
        world.deploy("app", expanded, where, self.inputs)
        world.run(0.2)

    @property
    def unions(self) -> list[str]:
        return self.world.replicas("app", "u")

    def step(self) -> None:
        """Have another replica of the union, and the oldest end."""
        world, before = self.world, self.unions
        used = {world.deployments["app"].assignments[name].active for name in before}
        world.rebuild("app", "u", next(peer for peer in PEERS[3:] + PEERS[1:3] if peer not in used))
        for _ in range(200):
            world.run(0.05)
            if len(self.unions) > len(before) and self.complete(self.unions[-1]):
                break
        assert self.complete(self.unions[-1])
        world.remove("app", before[0])

    def complete(self, union: str) -> bool:
        """Whether its readers, the sink apart, need no other union any more."""
        found = []
        for reader in self.readers():
            assert isinstance(reader.logic, MergedLogic)
            found += [number for number, feed in reader.feeds.items() if feed.operator == union]
            if not reader.logic.complete.issuperset(found[-1:]):
                return False
        return len(found) == 2

    def readers(self) -> list[Component]:
        found = [
            node.hosting.components.get(("app", name)) for node in self.world.nodes.values() for name in ("f", "f~1")
        ]
        return [each for each in found if each is not None]

    def ends(self) -> None:
        results = self.world.results["app", "out"]
        self.world.run(200.0)
        assert results.ended, self.world.failures()
        assert sorted(results.rows.rows(), key=repr) == ideal(self.plan, self.inputs)


@pytest.mark.slow
def test_inputs_and_counters_of_a_reader_stay_bounded_however_often_its_producers_are_rebuilt() -> None:
    run, most, columns, numbers = Rebuilding(rows=2100), 0, 0, 0
    for _ in range(50):
        run.step()
        for reader in run.readers():
            assert isinstance(reader.logic, MergedLogic)
            most, columns = max(most, len(reader.ports)), max(columns, reader.logic.columns)
            numbers = max(numbers, *reader.ports)
            assert reader.ports.keys() == reader.feeds.keys() == reader.feed_ports.keys()
    assert numbers >= 51, "each stream has a number of its own"
    assert most <= 5
    assert columns <= 5
    assert not run.world.results["app", "out"].ended, "and all of that while tuples came"
    run.ends()


@pytest.mark.slow
def test_a_late_frame_for_an_input_that_is_forgotten_is_refused_and_reaches_no_later_stream() -> None:
    run = Rebuilding(rows=150)
    world, reader = run.world, run.readers()[0]
    first = next(number for number, feed in reader.feeds.items() if feed.operator == "u")
    run.step()
    run.step()
    assert first not in reader.ports
    hosting = world.nodes[reader.peer].hosting
    late = Batch(table(9, 3), 0, 0.0)
    chunks = tuple(chunks_of([late, Punctuation(10**9, 3, 0.0)], Point(0, 0)))
    before = {number: port.received for number, port in reader.ports.items()}
    frame = Data(Output("app", "u"), reader.reader(first), Point(0, 0), chunks)
    answers = [
        each for each in hosting.receive("z", frame, world.now) if isinstance(each, SendFrame) and each.to == "z"
    ]
    assert [each.frame for each in answers] == [Unsubscribe(Output("app", "u"), reader.reader(first))]
    assert {number: port.received for number, port in reader.ports.items()} == before
    run.ends()


def test_a_revived_stream_is_another_input_so_that_frames_of_before_are_not_taken_for_its_own() -> None:
    plan, peers = replicated(query(), 2), {"s": "a", "t": "a", "out": "a", "u": "b", "u~1": "c", "f": "b", "f~1": "c"}
    roles, seen = Roles(peers), set[int]()
    for _ in range(50):
        roles = roles.without_stream(plan, "f", 1)
        assert "u~1" not in roles.reads(plan, "f").values()
        roles = roles.with_stream(plan, "f", 1)
        (number,) = (each for each, up in roles.reads(plan, "f").items() if up == "u~1")
        assert number not in seen
        seen.add(number)
        assert len(roles.inputs["f"]) == 2
    assert roles.ports(plan, "f") == (0, 0)


def test_roles_name_no_more_inputs_however_often_replicas_are_rebuilt() -> None:
    plan, peers = replicated(query(), 2), {"s": "a", "t": "a", "out": "a", "u": "b", "u~1": "c", "f": "b", "f~1": "c"}
    roles = Roles(peers)
    for turn in range(50):
        for lost, other in (("u", "u~1"), ("f", "f~1"), ("u~1", "u"), ("f~1", "f")):
            roles = (
                roles.without([lost]).rebuilding(lost, other, "defg"[turn % 4]).with_rebuilt(plan, lost).released(lost)
            )
            assert all(len(each) <= 3 for each in roles.inputs.values())
            for reader in ("f", "f~1", "out"):
                wanted = ["f", "f~1"] if reader == "out" else ["u", "u~1"]
                assert sorted(filter(None, roles.reads(plan, reader).values())) == wanted


def test_a_stream_that_joins_gets_the_counters_of_one_that_left_and_none_of_its_counts() -> None:
    merged = DuplicateFilter(["a", "b"])
    twice = Batch(table(1, 3), 0, 0.0)
    for turn in range(50):
        name = f"s{turn}"
        merged.join(name, 0)
        assert merged.receive("a", twice) is not None or turn
        found = merged.receive(name, twice)
        assert found is None, "they have passed, from a"
        assert merged.counters <= 3 * 3
        merged.leave(name)
    assert merged.columns == 3
    assert merged.receive("b", twice) is None


def test_a_copy_knows_to_which_streams_the_points_of_a_snapshot_belong() -> None:
    """The component may have left a stream by then, and read others: positions in one mean nothing in another."""
    run = Rebuilding(rows=150)
    run.step()
    reader = run.readers()[0]
    world, name = run.world, reader.operator
    assignment = world.deployments["app"].assignments[name]
    gone, left = (number for number, feed in assignment.feeds.items() if feed.operator)
    stale = SnapshotCut({gone: Point(7, 7), 99: Point(5, 5)}, Point(0, 0), (), ())
    copy = Component("app", name, "x", assignment, Role.ACTIVE, None)
    copy.begin(stale)
    assert (copy.ports[gone].consumed, copy.ports[gone].joined) == (Point(7, 7), True)
    assert (copy.ports[left].consumed, copy.ports[left].late) == (ORIGIN, True)
    assert copy.ports[99].state is CLOSED, "its order of inputs may name it"
    assert copy.feeds[99] == InputFeed("app", "")


def test_a_snapshot_names_a_stream_only_after_the_promise_from_when_it_is_complete() -> None:
    """A copy that went on before that promise would take the stream for complete from its first tuple on."""
    run = Rebuilding(rows=150)
    run.step()
    reader = run.readers()[0]
    assignment = run.world.deployments["app"].assignments[reader.operator]
    known, joining = (number for number, feed in assignment.feeds.items() if feed.operator)
    component = Component("app", reader.operator, "x", assignment, Role.ACTIVE, None)
    component.begin(SnapshotCut({known: Point(7, 7)}, Point(0, 0), (), ()))
    port = component.ports[joining]
    assert port.begin(Point(4, START), latest=90)
    component.capture()
    assert joining not in component.cuts.of(component.cuts.number).inputs
    port.consume(port.first(None))
    component.capture()
    assert component.cuts.of(component.cuts.number).inputs[joining] == Point(4, 91)
