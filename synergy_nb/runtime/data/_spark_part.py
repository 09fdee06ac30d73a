"""A part of a plan on Spark as a component of a peer: its logic, and its feed.

One streaming query executes the part instead of the host's threads: input is stored for the query to read
(:class:`SparkPart` as logic), and output that the query has handed over is emitted, like that of a source
(:class:`SparkPart` as feed).

A part resumes on another peer from the checkpoint that Spark stores. A snapshot of its component therefore states where
the checkpoint is, and how far the query was (:class:`~spark_stream.resumption.Resumption`). While there are copies,
Spark commits a micro-batch only when all of them have its results and know of it.

In a durable cluster one of the copies is in a folder, and so is the checkpoint (``docs/design/durable.md``). No result
leaves before the folder knows that checkpoint: otherwise the next server would divide the input into other
micro-batches. Once it does, the checkpoint from which this one was copied goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.component.execution import Committed
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point
from synergy_nb.dataflow.tuples import END, Batch, Item
from synergy_nb.events import SkippedLines
from synergy_nb.plan import Operator
from synergy_nb.plan.derived.spark_parts import part_of
from synergy_nb.runtime.data._query_results import CommitHold, HandedStep, HandedSteps, OutputRoom
from synergy_nb.runtime.data.sources import SourceFeed
from synergy_nb.runtime.data.spark_servers import SparkHost, resumption_of

if TYPE_CHECKING:
    from spark_stream.part import Part
    from spark_stream.query import PartQuery, Progress
    from spark_stream.results import DeliveryProgress
    from spark_stream.resumption import Resumption

OUTPUT_BYTES: Final = 32 << 20  # limit of the results that wait for room downstream; beyond it, commits wait


class PartCallbacks(NamedTuple):
    """What the driver is told of a part, on the event loop."""

    failed: Callable[[BaseException], None]  # with the reason of a failure
    prepared: Callable[[], None]  # when the query runs
    executed: Callable[[int, float], None]  # after each micro-batch with its tuples and seconds
    room: Callable[[], None]  # when it accepts tuples again
    # with a source of the part and the malformed lines that it skips
    skipped: Callable[[str, SkippedLines], None] = lambda _source, _lines: None
    committed: Callable[[], None] = lambda: None  # when Spark has committed, or the peer has emitted, more than before


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
        secrets: Mapping[str, bytes],  # by the name that plans use for them
        told: PartCallbacks,
        epoch: int = 0,  # number of peers that executed the part before
        # bytes of input that no punctuation covers, beyond which it fails, as nothing more is retained for the durable
        # folder that has a copy of it; None: no folder has one
        most_uncovered: int | None = None,
    ) -> None:
        super().__init__(ready, clock, most=most, since=since)
        self._host = host
        self._application = application
        self._operator = operator
        self._secrets = secrets
        self._told = told
        self._epoch = epoch
        self._since: Resumption | None = None  # progress of the part at another peer
        self._query: PartQuery | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._room = OutputRoom(OUTPUT_BYTES)
        self._steps = HandedSteps(since)
        self._most_uncovered = most_uncovered
        self._hold = CommitHold(kept=self._kept)
        self._leaving: asyncio.Task[None] | None = None  # removes the checkpoints before its own

    @property
    def _kept(self) -> bool:
        """Whether a durable folder has a copy of it."""
        return self._most_uncovered is not None

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
        return self._room.taken + (self._query.input.retained_bytes if self._query is not None else 0)

    def needs(self, port: int, item: Item) -> float:
        """Bytes that are needed to store tuples, which are copied where a punctuation separates them."""
        return 2.0 * item.nbytes if isinstance(item, Batch) else 0.0

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        """Store tuples until the query has read and committed them; let its watermark follow punctuations.

        Raises ``ValueError`` if the durable folder could not go on from here.
        """
        if self._query is not None:
            self._query.input.append(port, item)
            if self._most_uncovered is not None and self.uncovered_bytes > self._most_uncovered:
                raise ValueError(
                    f"{self.uncovered_bytes} bytes of its input have come, and no punctuation covers them; expected at "
                    f"most {self._most_uncovered}, as the durable folder needs them until Spark has committed them: "
                    "state a shorter lateness, or engine: 'peer'"
                )
        return iter(())

    def save(self) -> SavedState:
        """Return the location and the progress of its query."""
        return self.committed.state()

    def restore(self, saved: SavedState, /) -> None:
        """Resume a query of another peer, on the same server of Spark or on another one.

        Whether that is possible is known when the query starts, which needs a session.
        """
        self._since = resumed = self._host.here(self._application, resumption_of(saved.head))
        self._hold.resume(resumed.handed.batch)

    # -- for its copies ------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Committed:
        """Return its progress."""
        if self._query is None:
            inputs = self._since.inputs if self._since is not None else ()
            points = tuple(point for _, point in inputs) or (ORIGIN,) * len(self._operator.inputs)
            return Committed(points, self._steps.last.end, self._hold.released, False, SavedState)
        from spark_stream.results import NONE  # noqa: PLC0415 - only who uses Spark needs it

        checkpoint, inputs, step = self._query.checkpoint, self._query.input.committed, self._steps.last
        handed = step.handed or (NONE if self._since is None else self._since.handed)
        batch = handed.batch

        def state() -> SavedState:
            return SavedState(msgspec.msgpack.encode(checkpoint.resumption(handed, inputs)))

        # a folder has to know the checkpoint of this query itself, if it needs one
        known = checkpoint.is_known if not self._kept else bool(checkpoint.where) or handed.emitted == END
        whole = batch >= self._hold.released and known
        return Committed(tuple(point for _, point in inputs), step.end, batch, whole, state)

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of tuples that no punctuation covers yet, so that Spark does not read them."""
        return self._query.input.uncovered_bytes if self._query is not None else 0

    def set_copies(self, *, copies: bool, safe: bool) -> None:
        """Set whether it has copies, and whether these must have a micro-batch before Spark commits it."""
        self._hold.set_copies(copies=copies, safe=safe)

    def replicated(self, step: int) -> None:
        """Record that all copies have the output of the micro-batches up to this one."""
        self._hold.replicated(step)
        if self._kept and self._leaving is None and self._query is not None:
            self._leaving = self._host.loop.create_task(asyncio.to_thread(self._query.checkpoint.leave_former))

    def _handed(self, handed: DeliveryProgress) -> None:
        """Handle a micro-batch that was handed over, on a thread; Spark commits it when this returns."""
        from spark_stream.results import ExchangeRefused  # noqa: PLC0415 - only who uses Spark needs it

        self._on_loop(self._stepped, HandedStep(handed, self.point))
        if not self._hold.release(handed.batch):
            raise ExchangeRefused(f"micro-batch {handed.batch}: the part has left this peer")
        self._on_loop(self._changed)

    def _stepped(self, step: HandedStep) -> None:
        if self._steps.hand(step):
            self._changed()

    def _changed(self) -> None:
        if not self.stopped:
            self._told.committed()

    # -- as feed -------------------------------------------------------------------------------------------------

    def prepare(self, since: Point = ORIGIN) -> None:
        """Start the query; its results follow a point in the stream."""
        from spark_stream.callbacks import QueryCallbacks  # noqa: PLC0415 - only who uses Spark needs it
        from spark_stream.query import PartQuery  # noqa: PLC0415

        self.point = since
        self._steps = HandedSteps(since)
        callbacks = QueryCallbacks(
            on_items=self._arrived,
            on_ready=lambda: self._on_loop(self._runs),
            on_failed=lambda reason: self._on_loop(self.fail, reason),
            on_skipped=lambda *found: self._on_loop(self._told.skipped, *found),
            on_progress=lambda progress: self._on_loop(self._progress, progress),
            on_room=lambda: self._on_loop(self._told.room),
            on_handed=self._handed,
            on_committed=lambda: self._on_loop(self._changed),
        )
        part = part_to_execute(self._application, self._operator)
        query = self._query = PartQuery(
            part,
            self._host.access(self._application),
            callbacks,
            secrets=self._secrets,
            since=self._since,
            epoch=self._epoch,
        )
        self._host.parts.add(self)
        query.start()

    def _runs(self) -> None:
        self._told.prepared()
        self._changed()

    def emitted(self, chunk: Chunk) -> None:
        """Allow the query to commit more."""
        self._room.free(chunk.size)
        if self._steps.emit(chunk.end):
            self._changed()

    def stop(self) -> None:
        """End the query and stop emitting."""
        super().stop()
        self._host.parts.discard(self)
        if self._query is not None:
            self._query.abandon(left=self._hold.copies)
        self._hold.stop()
        self._room.stop()
        if self._query is not None and self._stopping is None:
            self._stopping = self._host.loop.create_task(asyncio.to_thread(self._query.stop))

    async def closed(self) -> None:
        """Return when the query has ended."""
        for task in (self._leaving, self._stopping):
            if task is not None:
                await task

    def fail(self, reason: str) -> None:
        """Fail the application."""
        if not self.stopped:
            self._told.failed(ValueError(reason))

    def _arrived(self, items: list[Item]) -> None:
        """Queue results of the query; its thread waits here while too many are pending."""
        if self._kept:
            self._on_loop(self._changed)  # it has a checkpoint now
            self._hold.know()
        for item in items:
            chunks = self._cut(item, item.born)
            self._room.take(sum(chunk.size for chunk in chunks))
            self._on_loop(self._put, chunks)

    def _put(self, chunks: list[Chunk]) -> None:
        if not self.stopped:
            self.pending.extend(chunks)
            self.ready()

    def _progress(self, progress: Progress) -> None:
        if not self.stopped:
            self._host.measured(progress.seconds)
            self._told.executed(progress.rows, progress.seconds)

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
