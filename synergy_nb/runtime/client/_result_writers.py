"""What writes the results of a sink for a program that reads them, as a sink of a peer writes to its destination."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import polars as pl

from synergy_nb.dataflow.sinks.buffering import BufferedWriter
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable, SinkWriter
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.runtime.client.feeds import Feed

__all__ = ["ResultWriter", "writer_for"]


class ResultWriter:
    """Results on their way to a writer, which has a thread of its own."""

    def __init__(
        self,
        writer: SinkWriter,
        name: str,  # name of the destination, for errors
        begins: int,  # position of the first row that follows
        every: float = 0.0,  # longest time for which a row waits for a commit while others follow, seconds
    ) -> None:
        self._lock = threading.Lock()
        self._read_to = Point(begins, ORIGIN.until)
        self._reader = SinkReader(writer, name, every)
        self._waits = every > 0.0  # whether rows may wait for a commit
        self._broken = False  # whether it was unavailable

    def open(self) -> None:
        """Open the destination."""
        with self._lock:
            self._reader.open(self._read_to)

    def add(self, table: pl.DataFrame, position: int | None = None) -> None:
        """Add the rows that follow.

        ``position``: position of the first one in the stream, if it is known. Raises ``SinkFailed`` if rows before it
        are lacking.
        """
        with self._opened():
            if position is not None and position != self._read_to.position:
                raise SinkFailed(
                    f"rows {self._read_to.position} to {position - 1} of the stream are not retained any more, or went "
                    "to a loop; expected a call before any of them"
                )
            chunks = chunks_of([Batch(table, self._read_to.position, 0.0)], self._read_to)
            while chunks:
                self._reader.write(chunks, time.monotonic())
                if self._reader.must_commit(time.monotonic()):
                    self._reader.commit()
                chunks = [each for each in chunks if each.end > self._reader.read_to]
            self._read_to = self._reader.read_to

    def end(self) -> None:
        """Commit the end of the stream."""
        with self._opened():
            self._commit(end=True)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Open the destination again if it was unavailable."""
        with self._lock:
            if self._broken:
                self._reader.open(self._read_to)
                self._broken = False
            try:
                yield
            except SinkUnavailable:
                self._broken = True
                raise

    @property
    def rows(self) -> int:
        """Number of rows of the stream that the destination has."""
        return self._reader.committed.position

    def close(self, *, complete: bool, ended: bool = False) -> None:
        """Write what waits if rows may wait, and close the destination.

        ``complete``: whether the rows are all; ``ended``: whether the stream has ended with them. Raises ``SinkFailed``
        if an earlier run has written more rows of it.
        """
        with self._lock:
            try:
                if self._waits:
                    self._commit(end=ended or (complete and not self.rows))
                if complete:
                    self._finish()
            finally:
                self._reader.close()

    def _commit(self, *, end: bool) -> None:
        self._reader.commit()
        if end:
            self._reader.write(
                chunks_of([Punctuation(END, self._read_to.position, 0.0)], self._read_to), time.monotonic()
            )
            self._reader.commit()

    def _finish(self) -> None:
        """Do what follows the last row."""


class _Callback(BufferedWriter):
    """Calls a function with the rows of each commit."""

    remembers: ClassVar[bool] = False

    def __init__(self, call: Callable[[pl.DataFrame], object]) -> None:
        super().__init__()
        self._call = call

    def _begin(self) -> None:
        """There is nothing to open."""

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        if batches:
            self._call(pl.concat([each.table for each in batches]))


def writer_for(to: SinkWriter | Feed | Callable[[pl.DataFrame], object]) -> SinkWriter:
    """Return the writer of what a program names as a destination; TypeError if it is none."""
    if isinstance(to, SinkWriter):
        return to
    if isinstance(to, Feed):
        return _Callback(to.push)
    if not callable(to):
        raise TypeError(f"to: {to!r}; expected a SinkWriter, a Feed, or a function of a table")
    return _Callback(to)
