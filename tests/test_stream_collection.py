"""Streams between active replicas are discarded and revived by whole peers in virtual time."""

from __future__ import annotations

import random
import re
from typing import Any, TypeVar

import msgspec
import pytest

from synergy_nb.algorithms.replication.stream_collection import RevivalRequested, WeightsReported
from synergy_nb.algorithms.replication.stream_graph import StreamUse
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.peer import Message
from synergy_nb.events import Event, RevivalImpossible, StreamsDiscarded
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.active_replicas import replicated
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


class Run:
    """A query with two replicas of each operator, each at a peer of its own."""

    def __init__(self, config: ReplicationConfig, seed: int = 1, rows: int = 120, pace: float = 1.0) -> None:
        rng = random.Random(seed)
        own = PeerConfig(components=(), cores=16.0, placement=None, replication=config)
        self.world = world = PeerWorld(seed, PEERS, Faults(delay=(0.01, 0.05)), config=own)
        world.pace = pace
        self.plan = query()
        self.inputs = {name: table(rng, rows) for name in self.plan.sources}
        expanded = replicated(self.plan, 2)
        where = dict.fromkeys(expanded.operators, "a") | PLACED
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
        assert len(found.streams) == sum(each.count(-1) for each in roles.inputs.values()) >= 2
        world.run(2.0)
        world.crash(victim)
        run.ends()


def test_without_a_target_nothing_is_discarded() -> None:
    run = Run(ReplicationConfig(report=2.0, collect=8.0))
    run.ends()
    assert not run.of(StreamsDiscarded)
    assert not run.of(RevivalImpossible)


@pytest.mark.parametrize(
    "message",
    [
        WeightsReported("r", 1, {"f~1": {0: StreamUse(1.5, 10.0, 0.02), 1: StreamUse(0.5, -1.0, -1.0)}}),
        RevivalRequested("r", 1, 4, "f~1", 0, 12.5),
    ],
    ids=lambda each: type(each).__name__,
)
def test_messages_survive_their_encoding(message: Message) -> None:
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
def test_bad_parameters_are_one_clear_error(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        ReplicationConfig(**settings)
