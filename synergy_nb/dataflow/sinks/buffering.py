"""Writers whose rows wait in memory from one commit to the next: they begin, carry out commits, and release."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import polars as pl

from synergy_nb.dataflow.sinks.protocol import SinkWriter
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, empty

__all__ = ["BufferedWriter", "one_table"]


class BufferedWriter(SinkWriter):
    """A writer that is given all rows of a commit at once."""

    def __init__(self) -> None:
        self._waiting: list[Batch] = []

    def open(self) -> tuple[int, int] | None:
        """Begin, without the rows that were not committed."""
        self.close()
        return self._begin()

    def write(self, batch: Batch) -> None:
        """Take rows, which wait in memory until the next commit."""
        self._waiting.append(batch)

    def commit(self, point: Point) -> None:
        """Commit the rows that wait."""
        self._carry_out(self._waiting, point)
        self._waiting = []

    def close(self) -> None:
        """Release the destination; what was not committed is discarded."""
        self._waiting = []
        self._release()

    @abc.abstractmethod
    def _begin(self) -> tuple[int, int] | None:
        """Open the destination, and return how far it has the stream, see :meth:`SinkWriter.open`."""

    @abc.abstractmethod
    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Make rows durable, with the point where they end: both or neither."""

    def _release(self) -> None:
        """Let go of what :meth:`_begin` has acquired, if it has; never raises."""


def one_table(batches: Sequence[Batch], columns: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of batches of a stream with these columns."""
    return pl.concat([empty(columns), *(each.table for each in batches)])
