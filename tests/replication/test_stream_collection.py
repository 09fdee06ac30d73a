"""Streams between active replicas are discarded and revived by whole peers in virtual time."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import pytest

from synergy_nb.algorithms.replication._input_progress import InputProgress
from synergy_nb.algorithms.replication._stream_graph import StreamUse
from synergy_nb.algorithms.replication.stream_collection import RevivalRequested, WeightsReported
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.peer import Message
from synergy_nb.dataflow.streams.hosting.input_reports import InputReport
from synergy_nb.dataflow.tuples import END, START
from synergy_nb.events import Event, RevivalImpossible, StreamRevived, StreamsDiscarded, StreamsWeighed
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal

PEERS = tuple("abcdefg")
PLACED = {"u": "b", "u~1": "c", "f": "d", "f~1": "e", "x": "f", "x~1": "g"}
COLLECTING = ReplicationConfig(theta="60 %", report=2.0, collect=8.0)


def query() -> Plan:
    one = packets("s", 1).union(packets("t", 2), id="u").filter("bytes > 100", id="f")
    counts = one.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x")
    return counts.sink("out", id="out", availability="active 2")


E = TypeVar("E", bound=Event)


class Slowed:
    """A network of which some links become slower by some seconds."""

    def __init__(self) -> None:
        self.links: list[set[str]] = []
        self.seconds = 0.0

    def delay(self, sender: str, to: str) -> float:
        return self.seconds if {sender, to} in self.links else 0.0


class Run:
    """A query with two replicas of each operator, each at a peer of its own."""

    def __init__(
        self, config: ReplicationConfig, seed: int = 1, rows: int = 120, pace: float = 1.0, sources: str = "a"
    ) -> None:
        self.network = Slowed()
        rng = random.Random(seed)
        own = PeerConfig(components=(), cores=16.0, placement=None, replication=config)
        self.world = world = PeerWorld(seed, PEERS, Faults(delay=(0.01, 0.05)), config=own, network=self.network)
        world.pace = pace
        self.plan = query()
        self.inputs = {name: table(rng, rows) for name in self.plan.sources}
        expanded = replicated(self.plan, 2)
        where = dict.fromkeys(expanded.operators, "a") | PLACED | dict.fromkeys(self.plan.sources, sources)
        world.deploy("app", expanded, where, self.inputs)
        assert world.until(lambda: world.status("app") == "running")

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.world.control.journal.about("app") if isinstance(each, kind)]

    def ends(self) -> None:
        """Run to the end; the rows at the sink are those of a run without replicas."""
        results = self.world.results["app", "out"]
        assert self.world.until(lambda: results.ended, 600.0), "it stands still"
        assert sorted(results.rows.rows(), key=repr) == ideal(self.plan, self.inputs)


def collected() -> Run:
    """A run in which streams have been discarded."""
    run = Run(COLLECTING)
    assert run.world.until(lambda: bool(run.of(StreamsDiscarded)), 60.0)
    return run


@pytest.mark.slow
def test_streams_are_discarded_until_the_cost_is_below_its_target_and_every_single_crash_is_survived() -> None:
    for victim in PLACED.values():
        run = collected()
        world = run.world
        (found,) = run.of(StreamsDiscarded)
        assert found.left < found.cost
        assert not found.ended
        roles = world.graph("app").roles
        assert len(found.streams) == sum(at < 0 for each in roles.inputs.values() for at in each.values()) >= 2
        world.run(2.0)
        world.crash(victim)
        run.ends()


@pytest.mark.slow
def test_without_a_target_nothing_is_discarded() -> None:
    run = Run(ReplicationConfig(report=2.0, collect=8.0))
    run.ends()
    assert not run.of(StreamsDiscarded)
    assert not run.of(RevivalImpossible)
    weighed = run.of(StreamsWeighed)
    assert len(weighed) > 1
    for each in weighed:
        assert sum(utility for _, reader, utility, _ in each.streams if reader == "out") == pytest.approx(1.0)
        assert each.cost == pytest.approx(sum(cost for *_, cost in each.streams)) == pytest.approx(each.whole)
        assert each.bound is None


@pytest.mark.slow
def test_a_discarded_stream_is_revived_when_the_other_one_is_late() -> None:
    run = Run(COLLECTING, rows=240)
    world = run.world
    assert world.until(lambda: "f" in world.graph("app").roles.inputs, 60.0)
    (found,) = run.of(StreamsDiscarded)
    (gone,) = (producer for producer, reader in found.streams if reader == "f")
    (left,) = {"u", "u~1"} - {gone}
    run.network.links, run.network.seconds = [{PLACED["f"], PLACED[left]}], 15.0

    def of_f() -> list[StreamRevived]:
        return [each for each in run.of(StreamRevived) if each.reader == "f"]

    assert world.until(lambda: bool(of_f()), 40.0), "its readers, whose inputs are late with it, ask as well"
    (revived,) = of_f()
    assert revived.producer == gone
    assert revived.delay > COLLECTING.late
    roles, expanded = world.graph("app").roles, replicated(run.plan, 2)
    assert [each for each in roles.reads(expanded, "f").values() if each] == [left, gone]
    assert roles.ports(expanded, "f") == (0, 0)
    late = RevivalRequested("app", world.graph("app").attempt, world.graph("app").epoch - 1, "f", 0, revived.delay)
    world.control.call(PLACED["f"], world.synergy[PLACED["f"]].peer.send, "a", late)
    world.run(20.0)
    impossible = [each for each in run.of(RevivalImpossible) if each.reader == "f"]
    assert not impossible, "a repetition that crosses the new graph has no effect"
    assert len(run.of(StreamsDiscarded)) == 1, "and not at once discarded again"
    assert len(of_f()) == 1, "the revived stream makes progress, so nothing else is asked for"
    run.ends()
    account = str(Explanation("app", world.control.journal.about("app"), {}))
    assert f"revived stream: {gone} to f, whose other streams were" in account
    assert "discarded streams: " in account


@pytest.mark.slow
def test_nothing_is_revived_from_a_replica_that_waits_for_a_late_input_itself() -> None:
    run = Run(COLLECTING, rows=240, sources="g")
    world = run.world
    assert world.until(lambda: bool(run.of(StreamsDiscarded)), 60.0)
    run.network.links, run.network.seconds = [{"g", PLACED["u"]}, {"g", PLACED["u~1"]}], 15.0
    assert world.until(lambda: {"u", "u~1"} <= {each.reader for each in run.of(RevivalImpossible)}, 40.0)
    world.run(5.0)
    assert not run.of(StreamRevived), "a replica that is late would send what its readers have already"
    run.ends()


@pytest.mark.slow
def test_where_nothing_can_be_revived_the_journal_says_why_once() -> None:
    run = Run(ReplicationConfig(report=2.0, late=3.0), rows=200)
    world = run.world
    world.run(5.0)
    run.network.links = [{PLACED["f"], PLACED["u"]}, {PLACED["f"], PLACED["u~1"]}, {PLACED["u"], "a"}]
    run.network.seconds = 30.0
    assert world.until(lambda: len(run.of(RevivalImpossible)) > 1, 40.0)
    world.run(12.0)
    found = {(each.reader, each.upstream): each for each in run.of(RevivalImpossible)}
    assert found["f", "u"].reason == "all of its replicas are read already"
    assert found["u", "s"].reason == "it is not replicated"
    assert all(each.delay > 3.0 for each in found.values())
    assert len(run.of(RevivalImpossible)) == len(found), "once for each, although it is asked for every 5 s"
    assert not run.of(StreamRevived)
    run.network.seconds = 0.0
    account = str(Explanation("app", world.control.journal.about("app"), {}))
    assert "nothing was revived: all of its replicas are read already" in account
    run.ends()


# -- values ----------------------------------------------------------------------------------------------------------


def progress_of(promises: Mapping[int, Mapping[int, int]], until: int) -> list[tuple[int, int]]:
    """When a reader asks, and for which port: second to the promises of inputs that are new then; all feed port 0."""
    progress, latest, asked = InputProgress(0.0, 10.0), dict.fromkeys(promises[0], START), []
    for second in range(until):
        latest |= promises.get(second, {})
        reports = {number: InputReport(f"o~{number}", 0, 0.0, 0, time) for number, time in latest.items()}
        progress.update(reports, float(second))
        asked += [(second, port) for port, _ in progress.late(float(second), 5.0)]
    return asked


def test_nothing_is_asked_for_when_tuples_come_every_10_seconds() -> None:
    rare = {second: {0: second, 1: second} for second in range(0, 300, 10)}
    assert progress_of(rare, 300) == []
    assert progress_of(rare, 330)[:2] == [(311, 0), (316, 0)], "20 s after the last one, and again after 5 s"


def test_one_stream_that_makes_progress_suffices_and_an_ended_one_is_not_late() -> None:
    every = {second: {0: second} | ({1: second} if second < 20 else {}) for second in range(100)}
    assert progress_of(every, 100) == []
    assert progress_of({0: {0: 1, 1: 1}, 9: {0: END}}, 100) == []


def test_a_source_that_has_not_begun_is_not_late_but_a_revived_stream_that_never_begins_is() -> None:
    assert progress_of({0: {0: START}}, 100) == []
    assert progress_of({0: {0: 0}, 1: {0: 1}, 2: {0: 2}}, 100)[0] == (14, 0)
    assert progress_of({0: {0: 0}, 1: {0: 1}, 2: {0: 2}, 5: {1: START}}, 100)[0] == (26, 0)


def test_weights_and_rates_are_those_of_the_period() -> None:
    progress = InputProgress(0.0, 10.0)

    def report(weight: float, tuples: int) -> None:
        progress.update({0: InputReport("o", 0, weight, tuples, 1)}, 0.0)

    report(50.0, 1000)
    assert progress.period(10.0) == {0: (50.0, -1.0)}
    report(70.0, 1300)
    assert progress.period(40.0) == {0: (20.0, 10.0)}
    report(5.0, 1400)  # it was created anew at this peer
    assert progress.period(50.0) == {0: (5.0, 10.0)}


@pytest.mark.parametrize(
    "message",
    [
        WeightsReported("r", 1, {"f~1": {0: StreamUse(1.5, 10.0, 0.02), 1: StreamUse(0.5, -1.0, -1.0)}}),
        RevivalRequested("r", 1, 4, "f~1", 0, 12.5),
    ],
    ids=lambda each: type(each).__name__,
)
def test_messages_of_collection_survive_their_encoding(message: Message) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)) == message


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"theta": -0.1},
            "theta: -0.1; expected a share of the cost of all streams from 0 to 1, such as '60 %', or None",
        ),
        ({"theta": "60"}, "theta: '60'; expected a share"),
        ({"theta": True}, "theta: True; expected a share"),
        ({"k_min": 0}, "k_min: 0; expected a whole number from 1, or None"),
        ({"k_min": 1.5}, "k_min: 1.5; expected a whole number"),
        ({"report": 0.0}, "report: 0.0; expected a positive number of seconds"),
        ({"late": float("nan")}, "late: nan; expected a positive number of seconds"),
    ],
)
def test_wrong_parameters_of_collection_are_one_error_each(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        ReplicationConfig(**settings)
