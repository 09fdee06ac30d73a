"""Peers of which one has an operator executed by an engine elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.logic import Logic, SavedState
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import START, Batch, Item
from tests.streams.peers import Peers

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
