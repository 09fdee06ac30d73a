"""The order of a trace: surveyed while it is read, and kept or made without the trace ever being in memory as a whole.

What a source may emit first depends on the last line of its file: that line may be the earliest, or the one malformed
line too many. So a trace is read once before anything is emitted. A :class:`Survey` notes what is needed to know; a
:class:`Store` keeps the rows, the first 64 MB of them in memory and all others in a temporary file, which has no name
and goes with the process. Rows that have to be sorted are kept as sorted runs of 32 MB, and :meth:`Store.merged` merges
these: it holds a small piece of each run that has come due, and in an almost sorted trace those are one or two.
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

__all__ = ["Store", "Survey", "sized"]

KEPT: Final = 64 << 20  # bytes of rows that stay in memory
RUN: Final = 32 << 20  # bytes of a run
PIECE: Final = 1 << 19  # bytes of a run that are read at once
WAYS: Final = 64  # runs that are merged at once, at most: their pieces are in memory

Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
_Piece: TypeAlias = "pl.DataFrame | tuple[int, int]"
"""Rows, or where they are in the file: offset and bytes."""


class Survey:
    """Facts about the event times of a stream.

    Parameters
    ----------
    batch
        Number of tuples of a batch.

    Attributes
    ----------
    rows
        Number of tuples so far.
    first, last
        Least and greatest time, in microseconds since 1970; None before there is a tuple.
    disorder
        Greatest number of microseconds by which a tuple is earlier than one before it.
    latest_row
        Index of the first tuple that is earlier by ``disorder``.
    """

    def __init__(self, batch: int) -> None:
        self.rows = 0
        self.first: int | None = None
        self.last: int | None = None
        self.disorder = 0
        self.latest_row = 0
        self._batch = batch
        self._least = array("q")  # of each batch

    def add(self, times: Times) -> None:
        """Note the times of tuples that follow."""
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
        """The least time of each batch and all that follow it."""
        least: Times = np.frombuffer(self._least, dtype=np.int64)
        bounds: Times = np.minimum.accumulate(least[::-1])[::-1]
        return bounds


class Store:
    """Rows in the order in which they came, or sorted by time.

    Parameters
    ----------
    ordered
        Whether to sort the rows by time (rows of equal time keep their order), or to keep the order of arrival.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._runs: list[_Run] = []
        self._waiting: list[pl.DataFrame] = []  # of the run that is being made
        self._size = 0  # of these
        self._file: IO[bytes] | None = None

    def add(self, table: pl.DataFrame) -> None:
        """Keep a table.

        Raises
        ------
        ValueError
            If there is no room for it.
        """
        self._waiting.append(table)
        self._size += int(table.estimated_size())
        if self._size >= (RUN if self._file is not None else KEPT):
            if self._file is None:
                self._file = self._opened()
            self._end_run()

    def tables(self) -> Iterator[pl.DataFrame]:
        """All rows in the order in which they came; may be called once."""
        try:
            for run in self._runs:
                yield from run.tables()
            yield from self._waiting
        finally:
            self.close()

    def merged(self) -> Iterator[pl.DataFrame]:
        """All rows sorted by time; may be called once."""
        self._end_run()
        store, runs = self, self._runs
        while _most_at_once(runs) > WAYS:
            larger = Store(ordered=False)
            larger._file = larger._opened()
            for start in range(0, len(runs), WAYS):
                larger._runs.append(larger._write(_merge(runs[start : start + WAYS])))
            store.close()
            store, runs = larger, larger._runs
        try:
            yield from _merge(runs)
        finally:
            store.close()

    def close(self) -> None:
        """Forget all rows."""
        self._runs, self._waiting, self._size = [], [], 0
        if self._file is not None:
            self._file.close()

    def _opened(self) -> IO[bytes]:
        """A file that goes with this store, read to its end or not."""
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
    """Rows in pieces, on a file or, if there is none, in memory; with their least and greatest time."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.least = self.most = 0
        self._file = file
        self._pieces: list[_Piece] = []

    def add(self, table: pl.DataFrame) -> None:
        times: Times = table.get_column("time").to_physical().to_numpy()
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
        """The rows, piece by piece."""
        for piece in self._pieces:
            if isinstance(piece, pl.DataFrame):
                yield piece
            else:
                assert self._file is not None
                self._file.seek(piece[0])
                yield decode_table(self._file.read(piece[1]))


def sized(tables: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The rows of ``tables`` in tables of ``rows`` each; the last may have fewer."""
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
    """How far a run has been merged: the piece that is in memory, and those to come."""

    def __init__(self, number: int, run: _Run) -> None:
        self.number = number
        self._coming = run.tables()
        self.advance()

    def advance(self) -> bool:
        """Take the next piece; False if there is none."""
        table = next(self._coming, None)
        if table is None:
            return False
        self.table = table
        self.times: Times = table.get_column("time").to_physical().to_numpy()
        self.taken = 0
        return True

    def take(self, until: int, *, inclusive: bool) -> pl.DataFrame:
        """The rows up to a time."""
        stop = int(np.searchsorted(self.times, until, side="right" if inclusive else "left"))
        found = self.table.slice(self.taken, stop - self.taken)
        self.taken = max(stop, self.taken)
        return found


def _merge(runs: list[_Run]) -> Iterator[pl.DataFrame]:
    """The rows of sorted runs, sorted by time, those of equal time in the order of the runs."""
    order = sorted(range(len(runs)), key=lambda number: (runs[number].least, number))
    closed = deque(order)
    active: list[_Cursor] = []
    while active or closed:
        if not active:
            number = closed.popleft()
            active.append(_Cursor(number, runs[number]))
        # All rows up to here are in memory, once the runs that begin before it are open as well.
        until = min((int(cursor.times[-1]), cursor.number) for cursor in active)
        while closed and runs[closed[0]].least <= until[0]:
            number = closed.popleft()
            active.append(_Cursor(number, runs[number]))
            until = min(until, (int(active[-1].times[-1]), number))
        active.sort(key=lambda cursor: cursor.number)
        found = [cursor.take(until[0], inclusive=cursor.number <= until[1]) for cursor in active]
        found = [table for table in found if table.height]
        active = [cursor for cursor in active if cursor.taken < len(cursor.times) or cursor.advance()]
        yield found[0] if len(found) == 1 else _sorted(pl.concat(found))


def _most_at_once(runs: list[_Run]) -> int:
    """How many runs overlap at most."""
    events = sorted([(run.least, 1) for run in runs] + [(run.most + 1, -1) for run in runs])
    deepest = depth = 0
    for _, step in events:
        depth += step
        deepest = max(deepest, depth)
    return deepest


def _sorted(table: pl.DataFrame) -> pl.DataFrame:
    return table if table.get_column("time").is_sorted() else table.sort("time", maintain_order=True)
