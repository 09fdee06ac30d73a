"""The input of a query on Spark, retained until Spark has committed it, and cut at punctuations; without IO and clock.

An :class:`Offset` is the progress of a reader. It always belongs to a punctuation. The rows between two offsets are
those that arrived before the second one's position and whose time it covers, without those of the first; so they are
the same each time they are read. Rows that no punctuation covers yet are held back. So the latest time that Spark has
read is always the last punctuation, and Spark's watermark is exact for any order of the rows.

A stream that a part of a plan reads more than once is read by several *taps*, each with its own offset.

A spool that continues one at another peer receives the stream again from :attr:`Spool.committed` on. It leaves out rows
that have been committed there, and cuts at Spark's offset, wherever punctuations are now.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import polars as pl

from spark_stream._tables import POSITION
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

#: Time of a punctuation that says nothing, as no event is older: the first day that can be written, in microseconds.
WARM: Final = -62_135_596_800_000_000

INPUT_BYTES: Final = 32 << 20  # bytes that wait in a spool to be read, from which on it is full
MICRO_BATCH_ROWS: Final = 300_000  # maximum number of rows of one input in a micro-batch
OVERHEAD: Final = 64  # bytes that a punctuation or a batch takes beside its rows


class Offset(NamedTuple):
    """The progress of a reader."""

    position: int  # rows of the stream received so far; of files, files handed out
    time: int  # event time of the last punctuation among them, microseconds; `START` before the first
    turn: int = 0  # counts the times that Spark was asked to go on without anything new


FIRST: Final = Offset(0, START)
_ALL: Final = (END, END)  # place behind every offset


def _place(offset: Offset) -> tuple[int, int]:
    """Where an offset is: of two of one time, the one that comes later in the stream covers more."""
    return offset.time, offset.position


class Inlet(Protocol):
    """An input of a query, on one port."""

    @property
    def low(self) -> int:
        """Time in microseconds below which nothing follows, as far as a reader may know by now."""

    def news(self, tap: int, start: Offset) -> bool:
        """Whether :meth:`latest` would give more than ``start``."""

    def latest(self, tap: int, start: Offset, now: float) -> Offset:
        """How far a reader that has come to ``start`` may go at once; ``start`` itself if there is nothing new."""

    def rows(self, start: Offset, end: Offset) -> int:
        """Rows between two offsets that are read through the endpoint."""

    def born(self, start: Offset, end: Offset) -> float:
        """When the oldest item between two offsets was born; infinite if there is none."""

    def read(self, tap: int, end: Offset) -> None:
        """Note that a tap reads up to ``end`` now."""

    def commit(self, tap: int, end: Offset) -> None:
        """Note that a tap has committed up to ``end``; forget what all taps have committed."""

    def drop(self, tap: int) -> None:
        """Note that a tap will not be read."""


class _OpenRows(NamedTuple):
    """A batch of rows that no punctuation covers yet."""

    table: pl.DataFrame
    born: float
    position: int  # that none of the rows is before
    first: int  # least and greatest time
    last: int


class _Segment(msgspec.Struct, gc=False):
    """The rows that one punctuation has released."""

    offset: Offset
    position: int  # that none of the rows is before
    tables: list[pl.DataFrame]
    rows: int
    size: int
    born: float


def _place_of(segment: _Segment) -> tuple[int, int]:
    return _place(segment.offset)


class Spool:
    """The stream of one input of a part, as it arrives from peers."""

    def __init__(
        self,
        *,
        # bytes that have not been read from which on it is full; it has room again at half of that. What is being read
        # is kept beside that until it is committed
        limit: int = INPUT_BYTES,
        most: int = MICRO_BATCH_ROWS,  # rows that `latest` gives at once, at most, if there is a punctuation to stop at
        taps: int = 1,  # readers
        numbered: bool = False,  # whether rows keep their position in the stream, in a column `_position`
        # start, point: offset up to which the spool that it replaces was committed, and point from which it receives
        # the stream
        start: Offset = FIRST,
        point: Point = ORIGIN,
        # whether it replaces a spool: then Spark may stand between the punctuations that come, and a row of the time of
        # its offset may have come before that or behind it
        continues: bool = False,
    ) -> None:
        # rows that were dropped because they came after a punctuation which had promised that there would be none
        self.late = 0
        self.low = start.time  # time of the last punctuation
        # offset that all taps have committed
        self.freed = start  # all up to here was committed by all taps
        self.committed = point  # place in the stream from which on it holds what has not been committed
        self.loose = 0  # bytes of rows that no punctuation covers yet
        self.retained_bytes = 0  # bytes of rows and punctuations that are kept
        self.unread = 0  # of these, bytes that have not been read by all taps
        self._limit = limit
        self._most = most
        self._numbered = numbered
        self.continues = continues  # whether it replaces one
        self._placed = numbered or continues  # whether rows keep their position here
        self._start = start
        self._position = point.position  # end of what has come
        self._last = start  # offset of the last cut
        self._wanted = _place(FIRST)  # what Spark waits for; it is not full before
        self._open: list[_OpenRows] = []
        self._segments: deque[_Segment] = deque()
        self._marks: list[Offset] = []  # where Spark stands, beyond the last cut
        self._read = [_place(start)] * taps
        self._committed = [_place(start)] * taps
        self._full = False
        self._ignored = False  # nobody reads it

    @property
    def full(self) -> bool:
        """Whether the spool is full, so that no items should be appended.

        Rows that no punctuation covers count, but do not fill the spool alone, since it needs the next punctuation to
        release them.
        """
        if self._full and self.unread <= self._limit // 2:
            self._full = False
        elif not self._full and self.unread >= self._limit:
            self._full = True
        last = _place(self._last)
        return self._full and last > min(self._read) and last >= self._wanted

    def reaches(self, end: Offset) -> bool:
        """Whether all that an offset covers has come, and can be read."""
        return _place(self._last) >= _place(end)

    def append(self, item: Item) -> bool:
        """Append the next item of the stream; return whether there are new rows to read."""
        if self._ignored:
            self._ignore(item)
            return False
        if isinstance(item, Punctuation):
            if item.time <= self.low:
                return False
            self._position = max(self._position, item.position)
            self._cut_marks(item.time, item.born)
            if item.time > self.low:
                self._cut(Offset(self._position, item.time), item.born)
            return True
        self._position = max(self._position, item.end_position)
        self._hold(item)
        return self._cut_marks(self.low, item.born)

    def _cut_marks(self, low: int, born: float) -> bool:
        """Release what marks cover, where all of it has come, as nothing before ``low`` follows.

        A row of the time ``low`` may follow: all that a mark of that time covers has come once its position has, which
        may be before the punctuation or behind it. Returns whether there was such a mark.
        """
        cut = False
        while self._marks and (self._marks[0].time < low or _place(self._marks[0]) <= (low, self._position)):
            self._cut(self._marks.pop(0), born)
            cut = True
        return cut

    def _hold(self, batch: Batch) -> None:
        table = batch.table
        if self._placed:
            numbers = pl.int_range(batch.position, batch.end_position, dtype=pl.Int64, eager=True).alias(POSITION)
            table = table.with_columns(numbers)
        times = table.get_column("time").cast(pl.Int64)
        again = self._start.position - batch.position
        if again > 0:  # of these rows, some were committed before
            known = (times <= self._start.time) & (pl.int_range(table.height, eager=True) < again)
            table, times = table.filter(~known), times.filter(~known)
        first: Any = times.min()
        if first is None:  # no rows
            return
        if first < self.low:
            kept = times >= self.low
            table, times = table.filter(kept), times.filter(kept)
            self.late += kept.len() - table.height
            if not table.height:
                return
            first = times.min()
        last: Any = times.max()
        size = int(table.estimated_size()) + OVERHEAD
        self._open.append(_OpenRows(table, batch.born, batch.position, first, last))
        self.loose += size
        self._add_bytes(size)

    def _covered(self, table: pl.DataFrame, offset: Offset) -> pl.Series:
        """Which rows an offset covers: a row of its time that came after it is behind it."""
        times = table.get_column("time").cast(pl.Int64)
        if not self._placed:
            return times <= offset.time
        return (times < offset.time) | ((times == offset.time) & (table.get_column(POSITION) < offset.position))

    def _cut(self, offset: Offset, born: float) -> None:
        """Release the rows that an offset covers, in the order of arrival."""
        self.low, self._last = offset.time, offset
        tables: list[pl.DataFrame] = []
        rest: list[_OpenRows] = []
        position, size = offset.position, OVERHEAD
        for held in self._open:
            if held.first > offset.time:
                rest.append(held)
                continue
            before = int(held.table.estimated_size()) + OVERHEAD
            covered = held.table
            within = self._covered(held.table, offset) if held.last >= offset.time else None
            if within is not None and not within.all():
                covered, left = held.table.filter(within), held.table.filter(~within)
                first: Any = left.get_column("time").cast(pl.Int64).min()
                rest.append(_OpenRows(left, held.born, held.position, first, held.last))
                remains = int(left.estimated_size()) + OVERHEAD
                self.loose += remains
                self._add_bytes(remains)
            tables.append(covered)
            self.loose -= before
            self._add_bytes(-before)
            size += int(covered.estimated_size())
            born = min(born, held.born)
            position = min(position, held.position)
        self._open = rest
        self._add_bytes(size)
        rows = sum(table.height for table in tables)
        self._segments.append(_Segment(offset, position, tables, rows, size, born))
        if _place(offset) <= min(self._read):  # Spark had it before
            self.unread -= size
        self._free()

    def _add_bytes(self, size: int) -> None:
        self.retained_bytes += size
        self.unread += size

    def mark(self, offset: Offset) -> None:
        """Divide the rows at an offset that Spark has reached: now, or when all that it covers has come."""
        if self._ignored or _place(offset) <= _place(self.freed):
            return
        if not self.reaches(offset):
            if _place(offset) not in map(_place, self._marks):
                insort(self._marks, offset, key=_place)
                self._cut_marks(self.low, math.inf)
            return
        index = bisect_left(self._segments, _place(offset), key=_place_of)
        whole = self._segments[index]
        if _place_of(whole) == _place(offset):
            return
        parts: list[list[pl.DataFrame]] = [[], []]
        for table in whole.tables:
            within = self._covered(table, offset)
            for part, piece in zip(parts, (table.filter(within), table.filter(~within)), strict=True):
                if piece.height:
                    part.append(piece)
        rows = sum(table.height for table in parts[0])
        size = OVERHEAD + sum(int(table.estimated_size()) for table in parts[0])
        first = _Segment(offset, whole.position, parts[0], rows, min(size, whole.size), whole.born)
        rest = _Segment(whole.offset, whole.position, parts[1], whole.rows - rows, whole.size - first.size, whole.born)
        self._segments[index] = first
        self._segments.insert(index + 1, rest)

    def await_until(self, start: Offset, end: Offset) -> None:
        """Divide the rows at two offsets between which Spark reads, and be full no more before these rows have come."""
        self.mark(start)
        self.mark(end)
        self._wanted = max(self._wanted, _place(end))

    def news(self, tap: int, start: Offset) -> bool:
        """Whether there is anything to read behind ``start``."""
        return _place(self._last) > _place(start)

    def latest(self, tap: int, start: Offset, now: float) -> Offset:
        """The last punctuation; if there are too many rows before it, an earlier one."""
        end, rows = start, 0
        for segment in self._between(start, None):
            rows += segment.rows
            if rows > self._most and end is not start:
                break
            end = Offset(*segment.offset[:2], start.turn)
        return end

    def rows(self, start: Offset, end: Offset) -> int:
        """Rows between two offsets."""
        return sum(segment.rows for segment in self._between(start, end))

    def born(self, start: Offset, end: Offset) -> float:
        """When the oldest item between two offsets was born; infinite if there is none."""
        return min((segment.born for segment in self._between(start, end)), default=float("inf"))

    def tables(self, start: Offset, end: Offset, first: int = 0, count: int | None = None) -> list[pl.DataFrame]:
        """Rows between two offsets in order, of these ``count`` from the one numbered ``first``.

        Raises ``LookupError`` if they were committed, and are no longer kept.
        """
        found: list[pl.DataFrame] = []
        left = count
        for segment in self._between(start, end):
            for table in segment.tables:
                if first >= table.height:
                    first -= table.height
                    continue
                piece = table.slice(first, left)
                first = 0
                if left is not None:
                    left -= piece.height
                if piece.height:
                    found.append(piece.drop(POSITION) if self._placed and not self._numbered else piece)
                if left == 0:
                    return found
        return found

    def read(self, tap: int, end: Offset) -> None:
        """Note that a tap reads up to ``end`` now."""
        before = min(self._read)
        self._read[tap] = max(self._read[tap], _place(end))
        after = min(self._read)
        if after > before:
            self.unread -= sum(segment.size for segment in self._segments if before < _place_of(segment) <= after)

    def drop(self, tap: int) -> None:
        """Note that a tap will not be read."""
        low = self.low
        self.commit(tap, Offset(END, END))
        if min(self._committed) == _ALL:
            self._ignored = True
            self._open.clear()
            self.retained_bytes = self.unread = self.loose = 0
            self.low = END
            self.committed = Point(self._position, low)

    def _ignore(self, item: Item) -> None:
        """Discard items that no tap reads."""
        here = item.end_position if isinstance(item, Batch) else item.position
        until = item.time if isinstance(item, Punctuation) else START
        self.committed = self.committed.joined(Point(here, until))

    def commit(self, tap: int, end: Offset) -> None:
        """Forget what all taps have committed."""
        self.read(tap, end)
        self._committed[tap] = max(self._committed[tap], _place(end))
        self._free()

    def _free(self) -> None:
        done, before = min(self._committed), self.freed
        while self._segments and _place_of(self._segments[0]) <= done:
            segment = self._segments.popleft()
            self.retained_bytes -= segment.size
            self.freed = segment.offset
        if self.freed is not before:
            kept = (*(segment.position for segment in self._segments), *(held.position for held in self._open))
            until = START if self.freed.time <= WARM else self.freed.time
            self.committed = Point(min(kept, default=self._position), until)

    def _between(self, start: Offset, end: Offset | None) -> list[_Segment]:
        if _place(start) < _place(self.freed):
            raise LookupError(
                f"offset: position {start.position}; expected at least {self.freed.position}: "
                "what lies before it was committed"
            )
        begin = bisect_right(self._segments, _place(start), key=_place_of)
        stop = len(self._segments) if end is None else bisect_right(self._segments, _place(end), key=_place_of)
        return [self._segments[index] for index in range(begin, stop)]
