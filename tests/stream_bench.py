"""The hosting of one peer, driven by hand: arriving frames, executions, and their effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_terms import ComponentTerms
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Unfinished, Work
from synergy_nb.dataflow.streams.hosting.effects import Effect, SendFrame
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.frames import Ack, Data, Subscribe
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, OnLag, Output, Point, Reader
from synergy_nb.dataflow.tuples import START, Batch, Item, Punctuation

__all__ = ["BEFORE", "BEHIND", "HERE", "Bench", "Idle", "made", "work_of"]

HERE, BEFORE, BEHIND = "here", "before", "behind"
BLOCK = 1 << 14  # tuples that a chunk has at most


class Idle:
    """A logic that makes nothing: tests say themselves what an execution has made."""

    late = 0
    state_bytes = 0

    def needs(self, _: int, __: Item) -> float:
        return 0.0

    def execute(self, _: int, __: Item) -> Iterator[Item]:
        return iter(())

    def snapshot(self) -> bytes:
        return b""

    def restore(self, _: bytes) -> None:
        return


class Bench:
    """Components of one application on one peer.

    Parameters
    ----------
    operators
        Operator to what it reads: one of the others, or a stream that is made on a peer before.
    readers
        Operator to the names of its readers on a peer behind.
    """

    def __init__(
        self,
        operators: Mapping[str, Sequence[str]],
        readers: Mapping[str, Sequence[str]] | None = None,
        *,
        discipline: str = "fcfs",
        limits: Limits = LIMITS,
        delays: Mapping[str, float] | None = None,
        remaining: Mapping[str, float] | None = None,
    ) -> None:
        delays, remaining = delays or {}, remaining or {}

        def create(_: Deployment, component: Component) -> Any:
            name = component.operator
            component.agree(ComponentTerms(delays.get(name, math.inf), remaining=remaining.get(name, 0.0)))
            return Idle() if operators[component.operator] else None

        self.hosting = Hosting(HERE, create, limits, discipline=discipline)
        self.sent: list[tuple[str, Any]] = []
        self._ends: dict[tuple[str, int], Point] = {}
        outside = {up for inputs in operators.values() for up in inputs if up not in operators}
        assignments = {name: Assignment(BEFORE) for name in outside}
        for name, inputs in operators.items():
            assignments[name] = Assignment(HERE, inputs=tuple(InputFeed("a", up) for up in inputs))
        for name, behind in (readers or {}).items():
            assignments |= {reader: Assignment(BEHIND, inputs=(InputFeed("a", name),)) for reader in behind}
        self.do(self.hosting.converge(Deployment("a", 1, assignments), 0.0))
        self.do(self.hosting.tick(0.0))
        for name, behind in (readers or {}).items():
            for reader in behind:
                asked = Subscribe(self.output(name), self.reader(reader), ORIGIN, OnLag.BLOCK)
                self.do(self.hosting.receive(BEHIND, asked, 0.0))

    def __getitem__(self, operator: str) -> Component:
        return self.hosting.components["a", operator]

    def output(self, operator: str) -> Output:
        return Output("a", operator)

    def reader(self, name: str) -> Reader:
        return Reader("a", name, 0, BEHIND)

    def do(self, effects: Iterable[Effect]) -> None:
        self.sent += [(effect.to, effect.frame) for effect in effects if isinstance(effect, SendFrame)]

    def said(self, kind: type) -> list[Any]:
        """What has been said of a kind since this was asked last."""
        found = [frame for _, frame in self.sent if isinstance(frame, kind)]
        self.sent = [(to, frame) for to, frame in self.sent if not isinstance(frame, kind)]
        return found

    def delivered(self) -> list[tuple[str, int]]:
        """Readers on the peer behind, and the positions of the chunks that they have been sent since this was asked."""
        found = [(data.reader.operator, data.chunks) for data in self.said(Data)]
        return [(name, chunk.start.position) for name, chunks in found for chunk in chunks]

    # -- what arrives ------------------------------------------------------------------------------------------------

    def offer(
        self, operator: str, rows: int = 1, *, port: int = 0, size: int = 100, born: float = 0.0, now: float = 0.0
    ) -> Chunk:
        """Tuples arrive from the peer before."""
        start = self._ends.get((operator, port), ORIGIN)
        return self._arrive(operator, port, made(start, rows, size, born), now)

    def promise(self, operator: str, time: int, *, port: int = 0, now: float = 0.0) -> Chunk:
        """A punctuation arrives from the peer before."""
        start = self._ends.get((operator, port), ORIGIN)
        item = Punctuation(time, start.position, 0.0)
        return self._arrive(operator, port, Chunk(start, Point(start.position, time), item, 20), now)

    def _arrive(self, operator: str, port: int, chunk: Chunk, now: float) -> Chunk:
        component = self[operator]
        self._ends[operator, port] = chunk.end
        data = Data(Output(*component.feeds[port]), component.reader(port), chunk.start, (chunk,))
        self.do(self.hosting.receive(BEFORE, data, now))
        return chunk

    def consumed(self, reader: str, operator: str, position: int, now: float = 0.0) -> None:
        """A reader behind has executed all tuples before a position."""
        upto = Point(position, START)
        self.do(self.hosting.receive(BEHIND, Ack(self.output(operator), self.reader(reader), upto, upto, upto), now))

    # -- what is executed --------------------------------------------------------------------------------------------

    def done(
        self,
        work: Work,
        sizes: Sequence[tuple[int, int]] = (),
        started: float = 0.0,
        finished: float = 0.0,
        *,
        late: int = 0,
        unfinished: bool = False,
    ) -> None:
        """Work has been executed and has made chunks of so many tuples and bytes."""
        chunks: list[Chunk] = []
        for rows, size in sizes:
            chunks.append(made(chunks[-1].end if chunks else work.end, rows, size, 0.0))
        spent = [] if unfinished else [(work.rows, finished - started)]
        if unfinished:
            work.component.left = Unfinished(iter(()), None, iter(()))
        outcome = ExecutionOutcome(started, finished, spent, chunks, late, unfinished=unfinished)
        self.do(self.hosting.finished(work, outcome, finished))


@cache
def positions(block: int) -> pl.DataFrame:
    """The positions of two consecutive blocks, as tuples: a piece of a table costs less than one of its own."""
    return pl.DataFrame({"v": range(BLOCK * block, BLOCK * (block + 2))}, schema={"v": pl.Int64})


def made(start: Point, rows: int, size: int, born: float) -> Chunk:
    """A chunk whose tuples are their own positions."""
    assert rows <= BLOCK
    table = positions(start.position // BLOCK).slice(start.position % BLOCK, rows)
    return Chunk(start, Point(start.position + rows, start.until), Batch(table, start.position, born), size)


def work_of(hosting: Hosting, now: float = 0.0, together: int = 0) -> Work:
    """The work that comes next, of which there has to be some."""
    work = hosting.next(now, together=together)
    assert work is not None
    return work


def component(*inputs: str, operator: str = "f", application: str = "app") -> Component:
    """An active component that reads streams of the same application."""
    place = Assignment("here", inputs=tuple(InputFeed(application, each) for each in inputs))
    return Component(application, operator, "here", place, Role.ACTIVE, None)
