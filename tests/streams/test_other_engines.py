"""Components that another engine executes: what is kept for it, and how it goes on at another peer."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.logic import Logic, SavedState
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.log.frames import ComponentState
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import START, Batch, Item
from tests.streams.test_hosting import Peers
from tests.streams.test_merge import batch

READS = (InputFeed("app", "n"),)


class Engine:
    """What one peer has of an engine elsewhere: it hands tuples over in steps, which the engine then commits."""

    late, uncovered_bytes = 0, 0

    def __init__(self) -> None:
        self.pending: list[Batch] = []
        self.point = self.end = ORIGIN
        self.step = self.released = -1
        self.copies = self.waits = False

    @property
    def state_bytes(self) -> int:
        return sum(each.nbytes for each in self.pending)

    def needs(self, port: int, item: Item) -> float:
        return 0.0

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        if isinstance(item, Batch):
            self.pending.append(item)
        return iter(())

    def save(self) -> SavedState:
        return self.committed.state()

    def restore(self, saved: SavedState, /) -> None:
        self.step, position = msgspec.msgpack.decode(saved.head, type=tuple[int, int])
        self.released = self.step
        self.point = self.end = Point(position, START)

    @property
    def committed(self) -> Committed:
        state = SavedState(msgspec.msgpack.encode((self.step, self.end.position)))
        return Committed((self.point,), self.end, self.step, self.step >= self.released, lambda: state)

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        self.copies, self.waits = copies, copies and safe

    def replicated(self, step: int) -> None:
        self.released = max(self.released, step)


class Elsewhere(Peers):
    """Peers of which one has the operator ``u`` executed by an engine."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        super().__init__(limits=limits)
        self.engines: dict[str, Engine] = {}
        self.deployment.assignments["u"] = Assignment("x", inputs=READS, external=True)

    def create(self, deployment: Deployment, component: Component) -> Logic | None:
        if component.operator != "u":
            return super().create(deployment, component)
        component.hand_over()
        self.engines[component.peer] = Engine()
        return self.engines[component.peer]

    def step(self, peer: str = "x") -> None:
        """The engine hands over what it has been given, and commits that if it need not wait."""
        engine = self.engines[peer]
        rows, engine.pending = engine.pending, []
        self.emit("u", *rows)
        engine.step += 1
        engine.end = engine.point = Point(rows[-1].end_position, START)
        if not engine.waits:
            engine.released = engine.step
        hosting = self.hostings[peer]
        self.do(peer, hosting.committed(hosting.components["app", "u"], self.now))
        self.deliver()

    @property
    def kept(self) -> int:
        """Position from which on the stream is kept that the engine reads."""
        return self.hostings["s"].components["app", "n"].log.start.position


def test_producers_retain_tuples_that_an_engine_has_not_committed() -> None:
    peers = Elsewhere()
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.2)
    assert peers.kept == 0
    peers.step()
    peers.emit("n", batch(3, 3))
    peers.later(0.2)
    assert peers.kept == 3
    assert peers.rows == [0, 1, 2]


def test_without_copies_a_lagging_engine_delays_nobody() -> None:
    peers = Elsewhere(Limits(1000, 4000))
    peers.begin()
    for number in range(50):
        peers.emit("n", batch(10 * number, 10))
        peers.later(0.1)
    assert peers.hostings["s"].components["app", "n"].log.size < 4000
    assert sum(each.rows for each in peers.engines["x"].pending) == 500


def test_an_engine_continues_at_another_peer_from_its_last_commit() -> None:
    peers = Elsewhere()
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.step()
    peers.emit("n", batch(3, 2))  # is held by the engine
    peers.assign("u", Assignment("x", 0, (), "w", READS, external=True))
    peers.later(0.5)
    assert peers.said("copy_ready") == ["w app u"]
    assert ("app", "u") not in peers.hostings["w"].components, "nobody follows an engine"
    assert peers.engines["x"].waits
    peers.assign("u", Assignment("w", 1, (), "", READS, external=True))
    peers.emit("n", batch(5, 2))
    peers.later(0.5)
    assert [each.position for each in peers.engines["w"].pending] == [3, 5]
    peers.step("w")
    assert peers.rows == list(range(7))
    assert ("app", "u") not in peers.hostings["x"].components


@pytest.mark.parametrize("lost", [False, True])
def test_an_engine_continues_after_its_peer_died(lost: bool) -> None:
    peers = Elsewhere()
    peers.deployment.assignments["u"] = Assignment("x", 0, ("y",), "", READS, external=True)
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.step()
    peers.later(0.5)
    peers.emit("n", batch(3, 2))
    peers.lose = lambda frame: lost and isinstance(frame, ComponentState)
    peers.step()  # its results have been handed over, but nobody may know so
    peers.later(0.2)
    assert peers.engines["x"].released == (0 if lost else 1), "it commits what all copies know of"
    peers.dead.add("x")
    peers.lose = lambda _: False
    peers.assign("u", Assignment("y", 1, (), "", READS, external=True))
    peers.emit("n", batch(5, 1))
    peers.later(0.5)
    engine = peers.engines["y"]
    assert engine.step == (0 if lost else 1)
    assert [each.position for each in engine.pending] == ([3, 5] if lost else [5])
    peers.step("y")
    assert peers.rows == list(range(6))


def test_tuples_without_a_punctuation_are_not_retained_for_ever() -> None:
    """No promise covers it, and who makes the stream would wait before it makes one."""
    peers = Elsewhere(Limits(1000, 4000))
    peers.deployment.assignments["u"] = Assignment("x", 0, ("y",), "", READS, external=True)
    peers.begin()
    peers.later(0.5)
    engine = peers.engines["x"]
    waits = [engine.waits]
    engine.uncovered_bytes = 2001
    peers.emit("n", batch(0, 10))
    peers.later(0.2)
    assert peers.kept == 10
    waits.append(engine.waits)  # whoever took over now could not read what it would be asked for
    engine.uncovered_bytes = 0
    peers.step()
    peers.later(0.5)
    assert [*waits, engine.waits] == [True, False, True]
    assert engine.released == 0
