"""The order of a trace by time: analysed while it is read, and sorted without the whole trace in memory.

The first tuple of a source depends on the last line of its file: that line may be the earliest, or the one malformed
line too many. So a trace is read once before anything is emitted. A :class:`TimeSurvey` collects the facts about its
event times; a :class:`RowStore` holds the rows, the first 64 MB of them in memory and all others in a temporary file,
which has no name and disappears with the process. Rows to be sorted are stored as sorted runs of 32 MB, and
:meth:`RowStore.merged` merges these: it holds a small piece of each run that overlaps the present time, one or two runs
in an almost sorted trace.
"""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final, TypeAlias

import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import decode_table, encode_table

IN_MEMORY: Final = 64 << 20  # maximum number of bytes of rows that stay in memory
RUN: Final = 32 << 20  # bytes of rows in a run
PIECE: Final = 1 << 19  # bytes of a run that are read at a time
MERGED_RUNS: Final = 64  # largest number of runs that are merged at once, as their pieces are in memory

Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_Piece: TypeAlias = "pl.DataFrame | tuple[int, int]"
"""Rows, or their position in the file: offset and bytes."""


class TimeSurvey:
    """Facts about the event times of a stream."""

    def __init__(self, batch: int) -> None:
        self.rows = 0  # number of tuples so far
        # first, last: least and greatest time, microseconds since 1970; None before the first tuple
        self.first: int | None = None
        self.last: int | None = None
        self.disorder = 0  # greatest time by which a tuple is earlier than a previous one, microseconds
        self.latest_row = 0  # index of the first tuple that is earlier by disorder
        self._batch = batch  # number of tuples of a batch
        self._least = array("q")  # least time of each batch

    def add(self, times: Times) -> None:
        """Add the times of the next tuples."""
        if not len(times):
            return
        before = int(times[0]) if self.last is None else self.last
        if before > times[0] or not (times[1:] >= times[:-1]).all():
            running = np.maximum(np.maximum.accumulate(times), before)
            behind = running - times
            row = int(np.argmax(behind))
            if behind[row] > self.disorder:
                self.disorder, self.latest_row = int(behind[row]), self.rows + row
        begun = self.rows % self._batch
        starts = np.arange(-begun, len(times), self._batch)
        starts[0] = 0
        least = np.minimum.reduceat(times, starts).tolist()
        if begun:
            self._least[-1] = min(self._least[-1], least.pop(0))
        self._least.extend(least)
        least_of_all = int(times.min())
        self.first = least_of_all if self.first is None else min(self.first, least_of_all)
        self.last = max(before, int(times.max()))
        self.rows += len(times)

    def bounds(self) -> Times:
        """Return, for each batch, the least time in it and in all later ones."""
        least: Times = np.frombuffer(self._least, dtype=np.int64)
        bounds: Times = np.minimum.accumulate(least[::-1])[::-1]
        return bounds


class RowStore:
    """Store of rows, in the order of arrival or sorted by time."""

    def __init__(self, *, ordered: bool) -> None:
        # whether to sort the rows by time (rows of equal time keep their order), or to keep the order of arrival
        self._ordered = ordered
        self._runs: list[_Run] = []
        self._waiting: list[pl.DataFrame] = []  # rows of the next run
        self._size = 0  # bytes of these rows
        self._file: IO[bytes] | None = None

    def add(self, table: pl.DataFrame) -> None:
        """Add a table.

        Raises ValueError if the disk is full.
        """
        self._waiting.append(table)
        self._size += int(table.estimated_size())
        if self._size >= (RUN if self._file is not None else IN_MEMORY):
            if self._file is None:
                self._file = self._opened()
            self._end_run()

    def tables(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in the order of arrival; may be called once."""
        try:
            for run in self._runs:
                yield from run.tables()
            yield from self._waiting
        finally:
            self.close()

    def merged(self) -> Iterator[pl.DataFrame]:
        """Yield all rows sorted by time; may be called once."""
        self._end_run()
        store, runs = self, self._runs
        while _most_at_once(runs) > MERGED_RUNS:
            larger = RowStore(ordered=False)
            larger._file = larger._opened()
            for start in range(0, len(runs), MERGED_RUNS):
                larger._runs.append(larger._write(_merge(runs[start : start + MERGED_RUNS])))
            store.close()
            store, runs = larger, larger._runs
        try:
            yield from _merge(runs)
        finally:
            store.close()

    def close(self) -> None:
        """Discard all rows."""
        self._runs, self._waiting, self._size = [], [], 0
        if self._file is not None:
            self._file.close()

    def _opened(self) -> IO[bytes]:
        """Open a temporary file that is closed with this store."""
        file = tempfile.TemporaryFile(prefix="synergy-trace-")  # noqa: SIM115 - closed with the store
        weakref.finalize(self, file.close)
        return file

    def _end_run(self) -> None:
        if not self._waiting:
            return
        tables = [_sorted(pl.concat(self._waiting))] if self._ordered else self._waiting
        self._waiting, self._size = [], 0
        self._runs.append(self._write(tables))

    def _write(self, tables: Iterable[pl.DataFrame]) -> _Run:
        run = _Run(self._file)
        for table in tables:
            rows = max(table.height * PIECE // max(int(table.estimated_size()), 1), 1)
            for start in range(0, table.height, rows):
                run.add(table.slice(start, rows))
        return run


class _Run:
    """A sorted run of rows, in pieces, in a file or in memory; with its least and greatest time."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.least = self.most = 0
        self._file = file
        self._pieces: list[_Piece] = []

    def add(self, table: pl.DataFrame) -> None:
        times: Times = table.get_column("time").cast(pl.Int64).to_numpy()
        least, most = int(times.min()), int(times.max())
        self.least = min(self.least, least) if self._pieces else least
        self.most = max(self.most, most) if self._pieces else most
        if self._file is None:
            self._pieces.append(table)
            return
        data = encode_table(table)
        try:
            offset = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ValueError(
                f"{tempfile.gettempdir()}: no room left for the rows of a trace; expected a folder with room for all "
                "of them (the environment variable TMPDIR names another)"
            ) from None
        self._pieces.append((offset, len(data)))

    def tables(self) -> Iterator[pl.DataFrame]:
        """Yield the rows, piece by piece."""
        for piece in self._pieces:
            if isinstance(piece, pl.DataFrame):
                yield piece
            else:
                assert self._file is not None
                self._file.seek(piece[0])
                yield decode_table(self._file.read(piece[1]))


def sized(tables: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Regroup ``tables`` to tables of ``rows`` rows each; the last may have fewer."""
    waiting: list[pl.DataFrame] = []
    held = 0
    for table in tables:
        start = 0
        while held + table.height - start >= rows:
            stop = start + rows - held
            waiting.append(table.slice(start, rows - held))
            yield pl.concat(waiting, rechunk=True) if len(waiting) > 1 else waiting[0]
            waiting, held, start = [], 0, stop
        if start < table.height:
            waiting.append(table.slice(start))
            held += table.height - start
    if waiting:
        yield pl.concat(waiting, rechunk=True) if len(waiting) > 1 else waiting[0]


class _Cursor:
    """Progress of the merge in one run: the piece in memory, and the later ones."""

    def __init__(self, number: int, run: _Run) -> None:
        self.number = number
        self._coming = run.tables()
        self.advance()

    def advance(self) -> bool:
        """Load the next piece; return False if there is none."""
        table = next(self._coming, None)
        if table is None:
            return False
        self.table = table
        self.times: Times = table.get_column("time").cast(pl.Int64).to_numpy()
        self.position = 0
        return True

    def pop_until(self, until: int, *, inclusive: bool) -> pl.DataFrame:
        """Remove and return the rows up to a time."""
        stop = int(np.searchsorted(self.times, until, side="right" if inclusive else "left"))
        found = self.table.slice(self.position, stop - self.position)
        self.position = max(stop, self.position)
        return found


def _merge(runs: list[_Run]) -> Iterator[pl.DataFrame]:
    """Merge sorted runs by time, rows of equal time in the order of the runs."""
    order = sorted(range(len(runs)), key=lambda number: (runs[number].least, number))
    closed = deque(order)
    active: list[_Cursor] = []
    while active or closed:
        if not active:
            number = closed.popleft()
            active.append(_Cursor(number, runs[number]))
        # All rows up to this time are in memory, once the runs that begin before it are open as well.
        until = min((int(cursor.times[-1]), cursor.number) for cursor in active)
        while closed and runs[closed[0]].least <= until[0]:
            number = closed.popleft()
            active.append(_Cursor(number, runs[number]))
            until = min(until, (int(active[-1].times[-1]), number))
        active.sort(key=lambda cursor: cursor.number)
        found = [cursor.pop_until(until[0], inclusive=cursor.number <= until[1]) for cursor in active]
        found = [table for table in found if table.height]
        active = [cursor for cursor in active if cursor.position < len(cursor.times) or cursor.advance()]
        yield found[0] if len(found) == 1 else _sorted(pl.concat(found))


def _most_at_once(runs: list[_Run]) -> int:
    """Largest number of runs that overlap."""
    events = sorted([(run.least, 1) for run in runs] + [(run.most + 1, -1) for run in runs])
    deepest = depth = 0
    for _, step in events:
        depth += step
        deepest = max(deepest, depth)
    return deepest


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    return table if table.get_column("time").is_sorted() else table.sort("time", maintain_order=True)
