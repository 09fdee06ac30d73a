"""One execution of a component: its input, the operator's output, and the time that it took. No IO, no clock.

Work is created on the thread of the peer and run in any thread; its outcome is handed back. A run produces a number of
chunks, none larger than half a window; work with more than one window of output is run in several parts, each of
which waits for room downstream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from synergy_nb.dataflow.logic import ANYTHING, Logic, SavedState
from synergy_nb.dataflow.memory_shares import MemoryExceeded
from synergy_nb.dataflow.streams.log.chunking import coalesce, slices
from synergy_nb.dataflow.streams.log.log import LIMITS
from synergy_nb.dataflow.streams.log.values import Chunk, Point, chunks_of, rows_of
from synergy_nb.dataflow.tuples import Batch, Item

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.component import Component

__all__ = ["Committed", "Encode", "Engine", "ExecutionOutcome", "Link", "Unfinished", "Work"]

Encode: TypeAlias = Callable[[Chunk], None]
"""Function that encodes a chunk."""


class Committed(NamedTuple):
    """The progress of another engine with a component that it executes."""

    inputs: tuple[Point, ...]  # points before which it will not request its inputs again
    end: Point
    step: int  # number of the last of its steps that it has handed over
    whole: bool  # whether it cannot have committed more steps than that
    state: Callable[[], SavedState]  # function that returns the state from which another instance resumes


class Engine(Logic, Protocol):
    """Logic of a component that another engine executes; the engine stores and commits its state by itself.

    The engine may resume after the death of a peer. So if a component has copies, the engine commits a step only when
    all of them have the output of the step.
    """

    @property
    def committed(self) -> Committed:
        """Return the progress of the engine."""

    @property
    def uncovered_bytes(self) -> int:
        """Return the bytes of inputs that it cannot commit before more input arrives."""

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        """Set whether the component has copies, and whether each step has to wait for them."""

    def replicated(self, step: int) -> None:
        """Record that all copies have the output of its steps up to this one."""


class ExecutionOutcome(msgspec.Struct):
    """The outcome of one execution."""

    # started, finished: times at which the execution began and ended, in seconds
    started: float
    finished: float = 0.0
    spent: list[tuple[int, float]] = []  # number of tuples (0 for a punctuation) and processing seconds of each item
    chunks: list[Chunk] = []  # chunks that were produced, starting at the end of the log
    late: int = 0  # number of tuples dropped as late since the operator was created
    error: BaseException | None = None  # exception that the operator raised, or None
    unfinished: bool = False  # whether the work has more output to produce
    # work and outcome of the next component of the chain; None if it was not executed
    then: tuple[Work, ExecutionOutcome] | None = None
    # speed of the peer meanwhile: the work, in seconds at a peer of speed 1, that it did in one of these seconds
    speed: float = 1.0


class Link(NamedTuple):
    """A chained component: it executes at once the output of the one before it, see :mod:`.hosting._chains`."""

    component: Component  # component with one input
    end: Point  # point at which its log ends
    encode: Encode | None  # encoder of chunks; None: the output stays on this peer


class Unfinished(NamedTuple):
    """What is left of work with more output than a window has room for."""

    items: Iterator[Item]  # items that the operator has not begun
    item: Item | None  # the item whose output is being produced
    output: Iterator[Item]  # output of it that was not produced yet


class Work(NamedTuple):
    """One execution of a component."""

    component: Component
    port: int
    chunks: list[Chunk]  # chunks to execute; empty where the output of earlier ones is not complete
    items: list[Item]  # items for the operator: batches without a punctuation between them are merged
    end: Point  # point at which the component's log ends
    encode: Encode | None = None  # encoder of chunks; None: they are encoded where they are sent, if they are
    then: tuple[Link, ...] = ()  # chained components that execute the output at once, one after another
    # whether the tuples of the chunks are dropped because their deadline has passed; promises are still executed
    dropped: bool = False
    rows: int = 0  # number of tuples to execute

    @property
    def resumed(self) -> bool:
        """Whether this continues earlier work."""
        return not self.chunks

    @property
    def needs(self) -> float:
        """Bytes that it may need in addition to the state of its operator."""
        logic = self.component.logic
        if logic is None:
            return 0.0
        needs = 0.0
        for item in self.items:
            needs += logic.needs(self.port, item)
        return needs

    def run(self, clock: Callable[[], float], window: int = LIMITS.window) -> ExecutionOutcome:
        """Execute this and the chained components, in any thread, but never twice at the same time.

        ``window``: limit of the output of this execution, bytes; the rest is produced by another execution.
        """
        first = outcome = self._run(clock, window)
        for link in self.then:
            chunks = outcome.chunks
            if not chunks or outcome.error is not None:
                break
            if link.component.terms.drops:
                now = clock()
                if any(link.component.overdue(chunk, now) for chunk in chunks):
                    break  # the next component takes them from its queue, and drops some
            items = [chunks[0].item] if len(chunks) == 1 else coalesce([chunk.item for chunk in chunks])
            rows = chunks[0].rows if len(chunks) == 1 else rows_of(chunks)
            work = Work(link.component, 0, chunks, items, link.end, link.encode, rows=rows)
            before, outcome = outcome, work._run(clock, window)
            before.then = work, outcome
        return first

    def _run(self, clock: Callable[[], float], window: int) -> ExecutionOutcome:
        component, began = self.component, clock()
        component.executing_since = began
        outcome = ExecutionOutcome(began)
        try:
            operator = component.logic
            if operator is None:
                raise ValueError(f"operator: {component.operator!r} is a source; expected one that reads inputs")
            left = component.left if component.left is not None else Unfinished(iter(self.items), None, iter(()))
            component.left = None
            items, item, output = left
            share, size = component.share, 0
            made: list[Item] = []
            while True:
                for step in output:
                    if size >= window:
                        component.left = Unfinished(items, item, itertools.chain((step,), output))
                        outcome.unfinished = True
                        break
                    if isinstance(step, Batch):
                        size += step.nbytes
                        if step.nbytes > window // 2:
                            made += slices(step, window // 2)
                            continue
                    made.append(step)
                if outcome.unfinished:
                    break
                if item is not None:
                    if (used := operator.state_bytes) or share.used:
                        share.use(used)
                    now = clock()
                    outcome.spent.append((item.rows if isinstance(item, Batch) else 0, now - began))
                    began = now
                item = next(items, None)
                if item is None:
                    break
                share.admit(operator.needs(self.port, item))
                output = operator.execute(self.port, item)
            outcome.late = operator.late
            outcome.chunks = chunks_of(made, self.end)
            if self.encode is not None:
                for chunk in outcome.chunks:
                    self.encode(chunk)
        except MemoryExceeded as error:
            outcome.error = error
        except (MemoryError, pa.ArrowCapacityError) as error:
            outcome.error = component.share.failed(error)
        except ANYTHING as error:  # only the operator's own application may fail
            overflow = "capacity overflow" in str(error)  # Rust's message for an allocation that is too large
            outcome.error = component.share.failed(error) if overflow else error
        outcome.finished = clock()
        component.executing_since = None
        return outcome
