"""The rows that a sink gives to its destination: those of its log, or first those of a sink whose place it takes.

Theory of operation
-------------------
Chunks are taken from the log of the sink, and retained until the destination has them: what is not durable there is
given again. As long as one plan writes, the positions are those of the log.

When another plan takes its place at an event time, the destination has one stream: the rows of the old sink up to that
time, and then those of the new one after it, numbered one after another. The old sink gives no row after the time
(:meth:`SinkRows.hold`), so the destination has the first rows of the old log, as it would have without a change. Once
its log has promised that time, it is read to its end (:meth:`SinkRows.finish`), and the new sink goes on with what the
destination does not have yet (:meth:`SinkRows.follow`).

Examples
--------
>>> import polars as pl
>>> from synergy_nb.dataflow.streams.log.log import StreamLog
>>> from synergy_nb.dataflow.streams.log.values import CLIENT, Point, Reader, chunks_of
>>> from synergy_nb.dataflow.tuples import Batch
>>> def sink(name, *times):
...     log = StreamLog()
...     log.subscribe(Reader(name, "sink", CLIENT, ""), log.start)
...     log.append(chunks_of([Batch(pl.DataFrame({"time": times}), 0, 0.0)], log.end))
...     return SinkRows(log)
>>> old, new = sink("old", 1, 2, 5), sink("new", 1, 3, 4)
>>> _ = old.hold(2)
>>> everything = Point(9, 9)
>>> [chunk.item.table["time"].to_list() for chunk in old.after(old.start, everything)]
[]
>>> _ = new.skip(2)
>>> old.finish(2)
>>> new.follow(old)
>>> [(chunk.start.position, chunk.item.table["time"].to_list()) for chunk in new.after(new.start, everything)]
[(0, [1, 2]), (2, [3, 4])]
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.dataflow.streams.log.values import OVERHEAD, Chunk, Point
from synergy_nb.dataflow.tuples import END, START, Batch

__all__ = ["MOST_AT_ONCE", "SinkRows"]

#: Bytes of chunks that are taken at a time.
MOST_AT_ONCE = 4 << 20


class _Taken(NamedTuple):
    """A chunk of the stream that the destination has, and where it comes from."""

    chunk: Chunk
    upto: Point  # point of the log before which nothing else is needed once the destination has it


class SinkRows:
    """The rows of one sink for its destination."""

    def __init__(self, log: StreamLog) -> None:
        #: Point of the stream of the destination before which nothing is given again.
        self.start = log.start
        #: Event time of the latest row that was taken, in microseconds.
        self.latest = START
        #: Event time after which rows are withheld, in microseconds; None: none are.
        self.held: int | None = None
        self._log = log
        self._taken: list[_Taken] = []
        self._end = log.start  # where they end in the stream of the destination
        self._read_to = log.start  # where they end in the log
        self._needed = log.start  # point of the log after which chunks are needed
        self._since = START  # event time up to which rows are not of this sink, but of the one before it

    def after(self, point: Point, upto: Point) -> list[Chunk]:
        """Return the next chunks after a point, some megabytes at most; ``upto``: point of the log where they end."""
        first = bisect_right(self._taken, point, key=_end)
        size = sum(each.chunk.size for each in self._taken[first:])
        for chunk in self._log.chunks(self._read_to) if size <= MOST_AT_ONCE else ():
            if chunk.end > upto or size > MOST_AT_ONCE or (self.held is not None and _latest(chunk) > self.held):
                break
            size += chunk.size
            self._take(chunk)
        return [each.chunk for each in self._taken[first:]]

    def _take(self, chunk: Chunk, until: int = END) -> None:
        """Take a chunk of the log; ``until``: event time after which its rows are left out, in microseconds."""
        self._read_to = chunk.end
        numbered = self._numbered(chunk, until)
        if numbered is not None:
            self._taken.append(_Taken(numbered, chunk.end))
            self._end = numbered.end
        elif not self._taken:
            self._needed = chunk.end

    def _numbered(self, chunk: Chunk, until: int) -> Chunk | None:
        """Return a chunk as the destination has it; None if nothing of it is left."""
        item, start, rows = chunk.item, self._end, 0
        if self._since == START and until == END:
            self.latest = max(self.latest, _latest(chunk))
            return chunk
        if isinstance(item, Batch):
            time = item.table["time"].cast(pl.Int64)
            table = item.table.filter((time > self._since) & (time <= until))
            item, rows = msgspec.structs.replace(item, table=table, position=start.position), table.height
        end = Point(start.position + rows, max(start.until, min(chunk.end.until, until)))
        if end == start:
            return None
        found = Chunk(start, end, item, item.nbytes + OVERHEAD if isinstance(item, Batch) else OVERHEAD)
        self.latest = max(self.latest, _latest(found))
        return found

    def release(self, durable: Point) -> Point:
        """Forget what the destination has; return the point of the log before which nothing is needed any more."""
        count = bisect_right(self._taken, durable, key=_end)
        if count:
            self.start, self._needed = self._taken[count - 1].chunk.end, self._taken[count - 1].upto
            del self._taken[:count]
        return self._needed

    # -- a change of the plan ----------------------------------------------------------------------------------------

    def hold(self, at: int) -> int:
        """Withhold rows after an event time; return that of the latest row that was given, in microseconds."""
        self.held = max(at, self.latest)
        return self.latest

    def promised(self, at: int) -> bool:
        """Whether the log has all rows up to an event time, and has not ended."""
        return at < self._log.end.until < END

    def finish(self, at: int) -> None:
        """Take the rest of the log, as far as it is not after an event time: this sink gives nothing more."""
        for chunk in self._log.chunks(self._read_to):
            self._take(chunk, at)

    def skip(self, at: int) -> Point:
        """Give only rows after an event time; return the point of the log before which nothing is needed.

        May be called again, with a later time, as long as nothing was given.
        """
        self._since = self.latest = at
        for chunk in self._log.chunks(self._read_to):
            if _latest(chunk) > at:
                break
            self._read_to = self._needed = chunk.end
        return self._needed

    def follow(self, former: SinkRows) -> None:
        """Give first what the sink before has taken, and the destination does not have yet."""
        self._taken = [_Taken(each.chunk, self._read_to) for each in former._taken]
        self.start, self._end = former.start, former._end


def _end(each: _Taken) -> Point:
    return each.chunk.end


def _latest(chunk: Chunk) -> int:
    """Event time of the latest row of a chunk, in microseconds; ``START`` if it has none."""
    if not isinstance(chunk.item, Batch) or not chunk.item.rows:
        return START
    return int(chunk.item.table["time"].cast(pl.Int64).max())  # type: ignore[arg-type]
