"""Sources: traces and generators read in a thread, the peer's own measurements, items pushed by a notebook.

Every feed passes :class:`~synergy_nb.dataflow.streams.log.values.Chunk` values to the event loop through
:attr:`SourceFeed.pending`; the driver removes them when everything downstream has room, and calls
:meth:`SourceFeed.emitted`. A feed never blocks the event loop, and its queue is bounded.

A feed starts after a point of its stream: a source that replaces another one continues where that has ended.

``born`` is the time at which a tuple entered the system. For a paced stream that is its due time, even if
backpressure delayed it: a live source would not have waited either. A feed that is behind merges overdue items, so that
it catches up. One that gathers is behind on purpose: it leaves its items until they are as late as they may be
(:mod:`synergy_nb.plan.derived.gathering`), and merges them.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.streams.log.chunking import TOGETHER_ROWS, coalesce, cut, mergeable
from synergy_nb.dataflow.streams.log.pushes import rest_of
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation, conform, decode
from synergy_nb.events import SkippedLines
from synergy_nb.plan.derived.gathering import leaving

__all__ = ["FEW_ROWS", "FeedThread", "PeerFeed", "PushFeed", "Sample", "SourceFeed", "Stream", "ThreadFeed"]

AHEAD = 2  # number of items that a reading thread may be ahead of the emitted ones
LOOKS = 0.2  # seconds after which a waiting thread looks whether the pace has changed
# rows below which a batch is encoded on the loop's thread: for each of its writes the thread of a source waits for the
# interpreter
FEW_ROWS = 64
BEHIND = 0.005  # seconds after which an item is overdue and merged with others

Sample: TypeAlias = tuple[str, str, float]
"""Metric ("cpu", "memory", "ping"), target (a peer's address, or empty) and value."""
Entry: TypeAlias = tuple[float, Item]
"""An item with the seconds since the start of its stream at which it is due."""
Stream: TypeAlias = Iterator[Entry]
"""Items with their due times."""


class SourceFeed:
    """Base of all feeds."""

    def __init__(
        self,
        ready: Callable[[], None],  # callback on the event loop when a chunk is pending
        clock: Callable[[], float],  # function that returns wall-clock seconds
        *,
        most: int,  # limit of a chunk, bytes
        since: Point = ORIGIN,  # point in the stream after which the feed starts
    ) -> None:
        self.pending: deque[Chunk] = deque()
        self.ready = ready
        self.clock = clock
        self.timed = True  # whether tuples have due times, instead of being emitted as fast as possible
        self.gathers = 0.0  # seconds for which it keeps tuples back, so that few of them leave together
        self.point = since  # point in the stream at which the next chunk begins
        self.stopped = False
        self.on_hold = False  # whether it gives nothing, as a user has paused its application
        self._released = -math.inf  # when that has ended last, seconds
        # encoder of a chunk; None: chunks are not encoded. It may change while the feed emits
        self.encode: Callable[[Chunk], None] | None = None
        self._most = most
        self.encodes_from = 0  # rows of a batch from which on the feed encodes it; others are encoded as they are sent

    def prepare(self) -> None:
        """Prepare to emit; once, before :meth:`start`."""

    def start(self) -> None:
        """Start to emit; once."""

    def stop(self) -> None:
        """Stop emitting, and discard pending chunks."""
        self.stopped = True
        self.pending.clear()

    def change_pace(self, factor: float) -> None:
        """Emit at a factor of the stream's own pace from now on; 0 stops it until the next change.

        Raises ``ValueError`` if the stream has no pace of its own.
        """
        raise ValueError("its rows come when somebody sends them; expected a trace or generated tuples with a speed")

    def hold(self, *, on: bool) -> None:
        """Read no further, or go on: what waits enters the system when the hold ends, as nobody wanted it before."""
        self.on_hold = on
        if not on:
            self._released = now = self.clock()
            for chunk in self.pending:
                chunk.item, chunk.born = msgspec.structs.replace(chunk.item, born=now), now
                chunk.payload = chunk.region = None  # which have the time, too

    def emitted(self, chunk: Chunk) -> None:
        """Handle that the driver has removed ``chunk`` from :attr:`pending`."""

    def copied(self) -> None:
        """Handle that copies of the source have more of its output, or that other copies hold it now."""

    async def closed(self) -> None:
        """Return when all resources are released, after :meth:`stop`."""

    def _cut(self, item: Item, born: float) -> list[Chunk]:
        """Cut the next item of the stream into chunks; none if it has nothing new."""
        following, position, born = item, self.point.position, max(born, self._released)
        if item.position != position or item.born != born:
            following = msgspec.structs.replace(item, position=position, born=born)
        few = isinstance(following, Batch) and following.rows < self.encodes_from
        chunks = cut(following, self.point, encode=None if few else self.encode, most=self._most)
        if chunks:
            self.point = chunks[-1].end
        return chunks


class _Halt:
    """An event that a thread waits for, once for each item: in one call, where those of ``threading`` take twelve."""

    def __init__(self) -> None:
        self._until = threading.Lock()  # which is released once it is set
        self._until.acquire()
        self._set = False

    def set(self) -> None:
        """Let nobody wait any more."""
        if not self._set:
            self._set = True
            self._until.release()

    def is_set(self) -> bool:
        """Whether nobody waits any more."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds at most; return whether it is set."""
        return self._set or self._until.acquire(timeout=seconds)


class FeedThread(SourceFeed):
    """Base of feeds that a thread of their own reads, at most two items ahead of what has been emitted."""

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        most: int,
        since: Point = ORIGIN,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[BaseException], None],  # callback on the event loop for an exception of the stream
        # callback on the event loop for the malformed lines that are left out
        skipped: Callable[[SkippedLines], None] = lambda _lines: None,
        name: str,
    ) -> None:
        super().__init__(ready, clock, most=most, since=since)
        self._loop = loop
        self._failed = failed
        self._skipped = skipped
        self.encodes_from = FEW_ROWS
        self._permits: SimpleQueue[None] = SimpleQueue()  # one for each item that the thread may read
        for _ in range(AHEAD):
            self._permits.put(None)
        self.halt = _Halt()
        self._last: deque[Chunk] = deque()  # last chunk of each pending group of items
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        if not self._thread.is_alive() and not self.stopped:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread at its next item."""
        super().stop()
        self.halt.set()
        self._permits.put(None)

    def emitted(self, chunk: Chunk) -> None:
        """Resume the thread when all chunks of an item were emitted."""
        if self._last and self._last[0] is chunk:
            self._last.popleft()
            self._permits.put(None)

    async def closed(self) -> None:
        """Join the thread."""
        if self._thread.ident is not None:
            await self._ended.wait()
            self._thread.join()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._read()
        except ANYTHING as problem:  # it fails the application
            error = problem
        self._on_loop(self._end, error)

    def _read(self) -> None:
        """Read the stream in the thread until it ends or the feed is stopped."""
        raise TypeError(f"{type(self).__name__}: it reads nothing; expected a feed that does")

    def _on_loop(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed without closing the host
            self.halt.set()

    def _arrive(self, chunks: list[Chunk]) -> None:
        if self.stopped:
            return
        if not chunks:  # nothing new
            self._permits.put(None)
            return
        self._last.append(chunks[-1])
        self.pending.extend(chunks)
        self.ready()

    def _end(self, error: BaseException | None) -> None:
        self._ended.set()
        if error is not None and not self.stopped:
            self._failed(error)


class ThreadFeed(FeedThread):
    """A stream that a separate thread iterates over, at the stream's own pace.

    If the feed starts after the origin, the stream is read from its beginning, and the tuples and promises before that
    point are skipped as fast as possible. The pace counts from the first item that is emitted: later items are due as
    long after it as in the stream. Where other peers have read on meanwhile, it counts from when the stream was opened,
    and what came while tuples were skipped is overdue.
    """

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        # function that opens the stream: pairs of a due time, in seconds since the start, and an item; and whether the
        # due times count; otherwise the stream is emitted as fast as it is read. In a paced stream each batch has to be
        # followed at once by its punctuation, for which the feed waits. It calls its parameter, at most once, with the
        # malformed lines of a trace
        read: Callable[[Callable[[SkippedLines], None]], tuple[Stream, bool]],
        gathers: float = 0.0,  # seconds for which items may be kept back
        in_step: bool = False,  # whether other peers read the stream, too
        # of `FeedThread`; reading fails if the stream ends before the point after which the feed starts
        **of_thread: Any,
    ) -> None:
        super().__init__(ready, clock, **of_thread)
        self._open = read
        self.gathers = gathers
        self._in_step = in_step
        self._pace = 0.0, 0.0, 1.0  # a due time in the stream, its time of the clock, and the factor from then on
        self._factor = 1.0  # factor while it is not on hold

    def change_pace(self, factor: float) -> None:
        """Emit at a factor of the stream's own pace from now on; 0 stops it until the next change."""
        if not self.timed:
            super().change_pace(factor)
        self._factor = factor
        if not self.on_hold:
            self._go_on_at(factor)

    def hold(self, *, on: bool) -> None:
        """Stand still, or go on: what is due later is due as long after the hold as it was after its beginning."""
        super().hold(on=on)
        self._go_on_at(0.0 if on else self._factor)

    def _go_on_at(self, factor: float) -> None:
        due, at, before = self._pace
        now = self.clock()
        self._pace = due + max(now - at, 0.0) * before, now, factor

    def _when(self, due: float) -> float:
        """Return the time of the clock for a due time in the stream, both in seconds."""
        known, at, factor = self._pace
        return at + (due - known) / factor if factor > 0.0 else math.inf

    def _read(self) -> None:
        items, paced = self._open(partial(self._on_loop, self._skipped))  # parses before the clock of the replay starts
        self.timed, opened = paced, self.clock() if self._in_step else None
        stream = iter(items) if self.point == ORIGIN else self._behind(items)
        entry = next(stream, None)
        if entry is not None:
            self._pace = entry[0], self.clock() if opened is None else opened, self._pace[2]
        gathers, looks = 0.0, max(LOOKS, self.gathers)  # the first item leaves at once: somebody may wait for it
        while entry is not None:
            due, item = entry
            if paced:
                while (wait := leaving(self._when(due), gathers) - self.clock()) > 0.0:
                    if self.halt.wait(min(wait, looks)) or wait <= LOOKS:
                        break
            self._permits.get()
            if self.halt.is_set():
                return
            if paced:
                group, born, entry = self._overdue(stream, entry)
                gathers = self.gathers
            else:
                group, born, entry = self._with_promise(stream, item)
            self._on_loop(self._arrive, [chunk for item in group for chunk in self._cut(item, born)])
            if isinstance(group[-1], Punctuation) and group[-1].ends:
                return
            if entry is None:
                entry = next(stream, None)
        self._permits.get()
        if not self.halt.is_set():
            self._on_loop(self._arrive, self._cut(Punctuation(END, 0, 0.0), self.clock()))

    def _behind(self, stream: Stream) -> Stream:
        """Return the part of a stream after the point at which the feed starts.

        Raises ``ValueError`` if the stream ends before that point.
        """
        since, position = self.point, 0
        promise: Item | None = None  # the last new one among the skipped tuples
        for due, item in stream:
            if self.halt.is_set():
                return
            found = item
            if isinstance(item, Batch):
                position += item.rows
                if position <= since.position:
                    continue
                found = msgspec.structs.replace(item, table=item.table.tail(position - since.position))
            elif position < since.position:
                if item.ends:
                    break
                promise = item if item.time > since.until else promise
                continue
            elif item.time <= since.until:
                continue
            if promise is not None:
                yield due, promise
            yield due, found
            yield from stream
            return
        if position < since.position:
            raise ValueError(f"its stream has {position} tuples; expected at least {since.position}, as it had before")

    def _with_promise(self, stream: Stream, item: Item) -> tuple[list[Item], float, Entry | None]:
        """Return ``item`` and the punctuation that follows it, the present, and the entry that follows instead."""
        born = self.clock()
        if isinstance(item, Punctuation):
            return [item], born, None
        following = next(stream, None)
        if following is None or isinstance(following[1], Batch):
            return [item], born, following
        return [item, following[1]], born, None

    def _overdue(self, stream: Stream, entry: Entry) -> tuple[list[Item], float, Entry | None]:
        """Merge a late ``entry`` with all that is due as well.

        Returns the items, the time of the oldest of them in seconds, and the next entry if it was read.
        """
        due, item = entry
        now = self.clock()
        first = min(self._when(due), now)  # the pace may have changed since it was due: to 0, so that it would never be
        group = [item]
        rows = item.rows if isinstance(item, Batch) else 0
        while now - first > BEHIND:
            following = next(stream, None)
            if following is None:
                break
            due, item = following
            when = self._when(due)
            rows += item.rows if isinstance(item, Batch) else 0
            together = when - first <= self.gathers or mergeable(first, when)
            if when > now or rows > TOGETHER_ROWS or not together:
                return coalesce(group, kept=True), first, following
            group.append(item)
        return coalesce(group, kept=True), first, None


class PeerFeed(SourceFeed):
    """This peer's own load and its ping times, every ``interval`` seconds; it never ends.

    No sample is taken while downstream has no room: an old sample is worthless. If the feed starts after the origin,
    this peer's samples follow those of another one.
    """

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        most: int,
        since: Point = ORIGIN,
        loop: asyncio.AbstractEventLoop,
        address: str,
        interval: float,
        samples: Callable[[], Iterable[Sample]],
    ) -> None:
        super().__init__(ready, clock, most=most, since=since)
        self._loop = loop
        self._address = address
        self._interval = interval
        self._samples = samples
        self._timer: asyncio.TimerHandle | None = None
        self._time = max(since.until - 1, 0)  # event time in µs of the last sample: none may be late

    def start(self) -> None:
        """Take the first sample at once."""
        if self._timer is None and not self.stopped:
            self.tick()

    def stop(self) -> None:
        """Stop sampling."""
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    def tick(self) -> None:
        """Take one sample and set the timer for the next."""
        self._timer = self._loop.call_later(self._interval, self.tick)
        if self.pending or self.on_hold:
            return
        now = self.clock()
        self._time = max(self._time + 1, int(now * 1e6))  # a clock that stepped back would make tuples late
        samples = list(self._samples())
        if samples:
            table = pl.DataFrame(
                {
                    "time": [self._time] * len(samples),
                    "peer": [self._address] * len(samples),
                    "metric": [metric for metric, _, _ in samples],
                    "target": [target for _, target, _ in samples],
                    "value": [float(value) for _, _, value in samples],
                },
                schema_overrides={"time": TYPES["time"]},
            )
            self.pending.extend(self._cut(Batch(table, 0, now), now))
        self.pending.extend(self._cut(Punctuation(self._time + 1, 0, now), now))
        self.ready()


class PushFeed(SourceFeed):
    """Items that a client pushes, in a queue that is bounded in bytes."""

    def __init__(
        self,
        ready: Callable[[], None],
        clock: Callable[[], float],
        *,
        most: int,
        since: Point = ORIGIN,
        schema: Mapping[str, str],  # columns and types that pushed batches must have
        room: int,  # limit of the queue, bytes
    ) -> None:
        super().__init__(ready, clock, most=most, since=since)
        self._schema = schema
        self._room = room
        self._waiting = 0
        self._changed = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether a push would be refused."""
        return self._waiting >= self._room

    def push(self, data: bytes, start: Point = ORIGIN, age: float = 0.0) -> bool:
        """Queue one encoded item; False if it is not queued, as the queue is full or items before it are missing.

        The client counts positions, so an item that it sends again after a lost answer is queued only once.

        ``start``: point of the stream at which the item begins: promises before it may not be missing either; ``age``:
        seconds since the client first sent the item, to this peer or to one that this one replaces.

        Raises ``ValueError`` if it is not an item, has other columns than the source or comes after the end.
        """
        if self.full:
            return False
        item = decode(data)
        if item.position > self.point.position or start > self.point:
            return False
        rest = rest_of(item, self.point)
        if rest is None:
            return True
        if isinstance(rest, Batch):
            rest = msgspec.structs.replace(rest, table=conform(rest.table, self._schema))
            if self.point.until == END:
                raise ValueError("item: a batch after the end of the stream; expected none")
        chunks = self._cut(rest, self.clock() - age)
        self._waiting += sum(chunk.size for chunk in chunks)
        self.pending.extend(chunks)
        self.ready()
        return True

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition on its room or its copies holds, or the feed was stopped."""
        while not condition() and not self.stopped:
            self._changed.clear()
            await self._changed.wait()

    def emitted(self, chunk: Chunk) -> None:
        """Release the room of a chunk."""
        self._waiting -= chunk.size
        self._changed.set()

    def copied(self) -> None:
        """Wake clients that wait until copies have what they have pushed."""
        self._changed.set()

    def stop(self) -> None:
        """Stop the feed, and wake clients that wait."""
        super().stop()
        self._waiting = 0
        self._changed.set()
