"""One execution of a component: what is taken, what the operator makes of it, and how long that took. No IO, no clock.

Work is made on the thread of the peer, run in any thread, and its outcome handed back. What a run makes is a number of
chunks, none of which is larger than half a window; work that comes to more than a window of output is run in
several parts, each of which waits for room downstream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from synergy_nb.dataflow import logic
from synergy_nb.dataflow.chunking import coalesce
from synergy_nb.dataflow.memory_shares import MemoryExceeded
from synergy_nb.dataflow.streams.log import LIMITS
from synergy_nb.dataflow.streams.values import Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component import Component

__all__ = ["Committed", "Encode", "Engine", "Link", "Logic", "Outcome", "Work"]

Encode: TypeAlias = Callable[[Chunk], None]
"""Makes the encoded form of a chunk."""


class Logic(logic.Logic, Protocol):
    """What works on the items of a component, and can go on elsewhere."""

    def save(self) -> logic.SavedState:
        """All that a fresh instance needs to go on from here, without a copy of it."""

    def restore(self, saved: logic.SavedState, /) -> None:
        """Go on where the instance was that saved this."""


class Committed(NamedTuple):
    """How far another engine is with a component that it executes.

    Parameters
    ----------
    inputs
        Places up to which it will not ask for its inputs again.
    end
        Place in the output up to which it has handed over what it made.
    step
        Number of the last of its steps that it has handed over.
    whole
        Whether it cannot have committed more steps than that.
    state
        Makes what another instance needs to go on from here.
    """

    inputs: tuple[Point, ...]
    end: Point
    step: int
    whole: bool
    state: Callable[[], logic.SavedState]


class Engine(Logic, Protocol):
    """Logic of a component that another engine executes, which keeps and commits its state by itself.

    The engine may go on where a peer has died. So it commits a step of a component that has copies only when all of
    them have what came of the step.
    """

    @property
    def committed(self) -> Committed:
        """How far it is."""

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of its inputs that it cannot commit before more of them has come."""

    def copied(self, *, copies: bool, safe: bool) -> None:
        """Whether anybody keeps a copy of the component, and whether it has to wait for them with each step."""

    def kept(self, step: int) -> None:
        """All copies have what came of its steps up to this one."""


class Outcome(msgspec.Struct):
    """The outcome of one execution.

    Parameters
    ----------
    started, finished
        Times at which the execution began and ended, in seconds.
    spent
        Number of tuples (0 for a punctuation) and seconds of each item that was taken.
    chunks
        Chunks that were produced, from the end of the log.
    late
        Number of tuples dropped as late since the operator was created.
    error
        Exception that the operator raised, or None.
    unfinished
        Whether the work has more output to make.
    then
        Work and outcome of the next component of the chain; None if it was not executed.
    """

    started: float
    finished: float = 0.0
    spent: list[tuple[int, float]] = []
    chunks: list[Chunk] = []
    late: int = 0
    error: BaseException | None = None
    unfinished: bool = False
    then: tuple[Work, Outcome] | None = None


class Link(NamedTuple):
    """A component that executes at once what the one before it makes, see :mod:`~synergy_nb.dataflow.streams.chains`.

    Parameters
    ----------
    component
        Component of one input.
    end
        Place at which its log ends.
    encode
        Makes the encoded form of a chunk; None: what is made stays on this peer.
    """

    component: Component
    end: Point
    encode: Encode | None


class Work(NamedTuple):
    """One execution of a component.

    Parameters
    ----------
    component
        Component whose operator works.
    port
        Input at which the chunks came.
    chunks
        Chunks that are taken; none where the output of earlier ones is not complete.
    items
        Items for the operator: batches without a punctuation between them are merged.
    end
        Place at which the component's log ends.
    encode
        Makes the encoded form of a chunk; None: what is made stays on this peer.
    then
        Components that execute at once what is made, one after another.
    dropped
        Whether the tuples of the chunks are dropped, as their deadline has passed: promises alone are executed.
    """

    component: Component
    port: int
    chunks: list[Chunk]
    items: list[Item]
    end: Point
    encode: Encode | None = None
    then: tuple[Link, ...] = ()
    dropped: bool = False

    @property
    def rows(self) -> int:
        """Number of tuples that are executed."""
        return 0 if self.dropped else sum(chunk.rows for chunk in self.chunks)

    @property
    def resumed(self) -> bool:
        """Whether earlier work goes on."""
        return not self.chunks

    def run(self, clock: Callable[[], float], window: int = LIMITS.window) -> Outcome:
        """Execute, with what is chained to it, in any thread, but never twice at the same time.

        Parameters
        ----------
        clock
            Gives the time in seconds.
        window
            Bytes of output from which on the rest is made in another execution.
        """
        outcome = self._run(clock, window)
        if self.then and outcome.chunks and outcome.error is None:
            link, *others = self.then
            if link.component.drops:
                now = clock()
                if any(link.component.overdue(chunk, now) for chunk in outcome.chunks):
                    return outcome  # it takes them from its queue, and drops some
            items = coalesce([chunk.item for chunk in outcome.chunks])
            work = Work(link.component, 0, outcome.chunks, items, link.end, link.encode, tuple(others))
            outcome.then = work, work.run(clock, window)
        return outcome

    def _run(self, clock: Callable[[], float], window: int) -> Outcome:
        component, began = self.component, clock()
        outcome = Outcome(began)
        try:
            operator = component.logic
            if operator is None:
                raise ValueError(f"operator {component.operator!r} is a source, which is read and not executed")
            steps = component.steps if component.steps is not None else self._all(operator)
            component.steps = None
            rate = component.departures.per_second(began)
            made: list[Item] = []
            size = 0
            for step in steps:
                if isinstance(step, int):
                    now = clock()
                    outcome.spent.append((step, now - began))
                    began = now
                elif size >= window:
                    component.steps, outcome.unfinished = itertools.chain((step,), steps), True
                    break
                elif isinstance(step, Batch):
                    made += _slices(msgspec.structs.replace(step, rate=rate), window // 2)
                    size += step.nbytes
                else:
                    made.append(step)
            outcome.late = operator.late
            outcome.chunks = chunks_of(made, self.end)
            if self.encode is not None:
                for chunk in outcome.chunks:
                    self.encode(chunk)
        except MemoryExceeded as error:
            outcome.error = error
        except (MemoryError, pa.ArrowCapacityError) as error:
            outcome.error = component.share.failed(error)
        except logic.ANYTHING as error:  # only the operator's own application may suffer
            overflow = "capacity overflow" in str(error)  # what Rust says of an allocation of more than there can be
            outcome.error = component.share.failed(error) if overflow else error
        outcome.finished = clock()
        return outcome

    def _all(self, operator: Logic) -> Iterator[Item | int]:
        """All output of the work, and behind that of each item the number of its tuples."""
        share = self.component.share
        for item in self.items:
            share.admit(operator.needs(self.port, item))
            yield from operator.take(self.port, item)
            share.hold(operator.state_bytes)
            yield item.rows if isinstance(item, Batch) else 0


def _slices(batch: Batch, most: int) -> Iterable[Batch]:
    """A batch in pieces of at most so many bytes, but of one tuple at least."""
    pieces = min(-(-batch.nbytes // max(most, 1)), batch.rows)
    if pieces <= 1:
        return (batch,)
    rows = -(-batch.rows // pieces)
    return (
        msgspec.structs.replace(batch, table=batch.table.slice(start, rows), position=batch.position + start)
        for start in range(0, batch.rows, rows)
    )
