"""A part of a plan on Spark as a component of a peer: its logic, and its feed.

One streaming query executes the part instead of the host's threads: input is stored for the query to read
(:class:`SparkPart` as logic), and output that the query has handed over is emitted, like that of a source
(:class:`SparkPart` as feed).

A part resumes on another peer from the checkpoint that Spark stores. A snapshot of its component therefore states where
the checkpoint is, and how far the query was (:class:`~spark_stream.resumption.Resumption`). While there are copies,
Spark commits a micro-batch only when all of them have its results and know of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.events import SkippedLines
from synergy_nb.plan import Operator
from synergy_nb.plan.derived.spark_parts import part_of
from synergy_nb.runtime.data.sources import SourceFeed
from synergy_nb.runtime.data.spark_servers import SparkHost

if TYPE_CHECKING:
    from spark_stream.part import Part
    from spark_stream.query import PartQuery, Progress
    from spark_stream.results import DeliveryProgress
    from spark_stream.resumption import Resumption

OUTPUT_BYTES: Final = 32 << 20  # limit of the results that wait for room downstream; beyond it, commits wait


class _Step(NamedTuple):
    """A micro-batch that was handed over, and the point where its results end."""

    handed: DeliveryProgress | None
    end: Point


class SparkPart(SourceFeed):
    """One part of a plan on Spark as a component: it executes items on ports, and emits."""

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        most: int,
        since: Point = ORIGIN,  # point in its stream after which its results begin
        host: SparkHost,
        # application, operator: id of the application, and the operator that stands for the part
        application: str,
        operator: Operator,
        keys: Mapping[str, bytes],  # name to secret
        failed: Callable[[BaseException], None],  # callback on the loop with the reason of a failure
        # callback on the loop with a source of the part and the malformed lines that it skips
        skipped: Callable[[str, SkippedLines], None] = lambda _source, _lines: None,
        prepared: Callable[[], None],  # callback on the loop when the query runs
        # callback on the loop after each micro-batch with its tuples and seconds
        executed: Callable[[int, float], None],
        room: Callable[[], None],  # callback on the loop when it accepts tuples again
        # callback on the loop when Spark has committed, or the peer has emitted, more than before
        committed: Callable[[], None] = lambda: None,
        epoch: int = 0,  # number of peers that executed the part before
    ) -> None:
        super().__init__(ready, clock, most=most, since=since)
        self._host = host
        self._application = application
        self._operator = operator
        self._keys = keys
        self._failed = failed
        self._skipped = skipped
        self._prepared = prepared
        self._executed = executed
        self._made_room = room
        self._query: PartQuery | None = None
        self._space = threading.Condition()
        self._waiting = 0  # pending bytes
        self._stopping: asyncio.Task[None] | None = None
        self._committed = committed
        self._epoch = epoch
        self._since: Resumption | None = None  # progress of the part at another peer
        self._copies = False  # whether there are copies
        self._waits = False  # whether all copies have to have a micro-batch before Spark commits it
        self._replicated = (
            self._released
        ) = -1  # last micro-batch that all copies have, and that Spark may have committed
        self._emitted_to = since  # point up to which results were emitted
        self._step = _Step(None, since)  # the last micro-batch that was emitted
        self._steps: deque[_Step] = deque()  # micro-batches handed over since then

    # -- as logic ------------------------------------------------------------------------------------------------

    @property
    def late(self) -> int:
        """Tuples that arrived after a punctuation that promised that there would be none."""
        return self._query.input.late if self._query is not None else 0

    @property
    def full(self) -> bool:
        """Whether it accepts no input at the moment."""
        return self._query is not None and self._query.input.full

    @property
    def state_bytes(self) -> int:
        """Bytes of tuples that the query has not committed, and of results that were not emitted."""
        return self._waiting + (self._query.input.retained_bytes if self._query is not None else 0)

    def needs(self, port: int, item: Item) -> float:
        """Bytes that are needed to store tuples, which are copied where a punctuation separates them."""
        return 2.0 * item.nbytes if isinstance(item, Batch) else 0.0

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        """Store tuples until the query has read and committed them; let its watermark follow punctuations."""
        if self._query is not None:
            self._query.input.append(port, item)
        return iter(())

    def save(self) -> SavedState:
        """Return the location and the progress of its query."""
        return self.committed.state()

    def restore(self, saved: SavedState, /) -> None:
        """Resume a query of another peer, on the same server of Spark or on another one.

        Whether that is possible is known when the query starts, which needs a session.
        """
        self._since = resumed = resumption_of(saved.head)
        self._replicated = self._released = resumed.handed.batch

    # -- for its copies ------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Committed:
        """Return its progress."""
        if self._query is None:
            inputs = self._since.inputs if self._since is not None else ()
            points = tuple(point for _, point in inputs) or (ORIGIN,) * len(self._operator.inputs)
            return Committed(points, self._step.end, self._released, False, SavedState)
        from spark_stream.results import NONE  # noqa: PLC0415 - only who uses Spark needs it

        query, inputs, step = self._query, self._query.input.committed, self._step
        handed = step.handed or (NONE if self._since is None else self._since.handed)
        batch = handed.batch

        def state() -> SavedState:
            return SavedState(msgspec.msgpack.encode(query.checkpoint.resumption(handed, inputs)))

        with self._space:
            whole = batch >= self._released and query.checkpoint.is_known
            return Committed(tuple(point for _, point in inputs), step.end, batch, whole, state)

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of tuples that no punctuation covers yet, so that Spark does not read them."""
        return self._query.input.uncovered_bytes if self._query is not None else 0

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        """Set whether it has copies, and whether these must have a micro-batch before Spark commits it."""
        if (copies, copies and safe) != (self._copies, self._waits):
            with self._space:
                self._copies, self._waits = copies, copies and safe
                self._space.notify_all()

    def replicated(self, step: int) -> None:
        """Record that all copies have the output of the micro-batches up to this one."""
        with self._space:
            self._replicated = max(self._replicated, step)
            self._space.notify_all()

    def _handed(self, handed: DeliveryProgress) -> None:
        """Handle a micro-batch that was handed over, on a thread; Spark commits it when this returns."""
        from spark_stream.results import ExchangeRefused  # noqa: PLC0415 - only who uses Spark needs it

        self._on_loop(self._stepped, _Step(handed, self.point))
        with self._space:
            self._space.wait_for(lambda: self.stopped or not self._waits or self._replicated >= handed.batch)
            if self.stopped and self._replicated < handed.batch:
                raise ExchangeRefused(f"micro-batch {handed.batch}: the part has left this peer")
            self._released = max(self._released, handed.batch)
        self._on_loop(self._changed)

    def _stepped(self, step: _Step) -> None:
        self._steps.append(step)
        self._advance()

    def _advance(self) -> None:
        """Find the micro-batches that were emitted completely."""
        before = self._step
        while self._steps and self._emitted_to >= self._steps[0].end:
            self._step = self._steps.popleft()
        if self._step is not before:
            self._changed()

    def _changed(self) -> None:
        if not self.stopped:
            self._committed()

    # -- as feed -------------------------------------------------------------------------------------------------

    def prepare(self, since: Point = ORIGIN) -> None:
        """Start the query; its results follow a point in the stream."""
        from spark_stream.callbacks import QueryCallbacks  # noqa: PLC0415 - only who uses Spark needs it
        from spark_stream.query import PartQuery  # noqa: PLC0415

        self.point = self._emitted_to = since
        self._step = _Step(None, since)
        callbacks = QueryCallbacks(
            on_items=self._arrived,
            on_ready=lambda: self._on_loop(self._runs),
            on_failed=lambda reason: self._on_loop(self.fail, reason),
            on_skipped=lambda *found: self._on_loop(self._skipped, *found),
            on_progress=lambda progress: self._on_loop(self._progress, progress),
            on_room=lambda: self._on_loop(self._made_room),
            on_handed=self._handed,
            on_committed=lambda: self._on_loop(self._changed),
        )
        part = part_to_execute(self._application, self._operator)
        query = self._query = PartQuery(
            part, self._host.access(), callbacks, keys=self._keys, since=self._since, epoch=self._epoch
        )
        self._host.parts.add(self)
        query.start()

    def _runs(self) -> None:
        self._prepared()
        self._changed()

    def emitted(self, chunk: Chunk) -> None:
        """Allow the query to commit more."""
        with self._space:
            self._waiting -= chunk.size
            self._space.notify_all()
        self._emitted_to = chunk.end
        self._advance()

    def stop(self) -> None:
        """End the query and stop emitting."""
        super().stop()
        self._host.parts.discard(self)
        if self._query is not None:
            self._query.abandon(left=self._copies)
        with self._space:
            self._space.notify_all()
        if self._query is not None and self._stopping is None:
            self._stopping = self._host.loop.create_task(asyncio.to_thread(self._query.stop))

    async def closed(self) -> None:
        """Return when the query has ended."""
        if self._stopping is not None:
            await self._stopping

    def fail(self, reason: str) -> None:
        """Fail the application."""
        if not self.stopped:
            self._failed(ValueError(reason))

    def _arrived(self, items: list[Item]) -> None:
        """Queue results of the query; its thread waits here while too many are pending."""
        for item in items:
            chunks = self._cut(item, item.born)
            size = sum(chunk.size for chunk in chunks)
            with self._space:
                self._space.wait_for(lambda: self.stopped or self._waiting < OUTPUT_BYTES)
                self._waiting += size
            self._on_loop(self._put, chunks)

    def _put(self, chunks: list[Chunk]) -> None:
        if not self.stopped:
            self.pending.extend(chunks)
            self.ready()

    def _progress(self, progress: Progress) -> None:
        if not self.stopped:
            self._host.measured(progress.seconds)
            self._executed(progress.rows, progress.seconds)

    def _on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._host.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed without closing the host
            return


def part_to_execute(application: str, operator: Operator) -> Part:
    """Return the part that a query has to execute."""
    from spark_stream.part import Part  # noqa: PLC0415 - only who uses Spark needs it

    plan, members = part_of(operator)
    return Part(application, operator.id, plan, members, operator.inputs)


def resumption_of(head: bytes) -> Resumption:
    """Return the progress of a part that a snapshot of its component contains."""
    from spark_stream.resumption import Resumption  # noqa: PLC0415 - only who uses Spark needs it

    return msgspec.msgpack.decode(head, type=Resumption)
