"""What comes of a query on Spark: what its tasks bring, how far that was handed over, and its stream. No IO here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl
import pyarrow as pa

from spark_stream._birth_times import BirthTimes
from spark_stream._spool import WARM
from spark_stream._tables import from_spark
from synergy_nb.dataflow.operators.base import OUTPUT_ROWS
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, conform
from synergy_nb.errors import SynergyError

__all__ = ["NONE", "DeliveryProgress", "ExchangeRefused", "Results", "Slice"]


class ExchangeRefused(SynergyError, RuntimeError):
    """A peer refuses a request of a Spark query that has ended, was restarted, or asks for committed data."""


class DeliveryProgress(NamedTuple):
    """How far the results of a query have been handed over."""

    batch: int  # number of the last micro-batch that was; -1 before the first
    position: int  # rows of the result up to it
    emitted: int  # time in microseconds below which the result is complete
    covered: int  # time in microseconds that the inputs had passed with it
    # port and tap of each reader that the query has, and the time in microseconds up to which it had read
    readers: tuple[tuple[int, int, int], ...]


NONE: Final = DeliveryProgress(-1, 0, START, START, ())


class Slice(NamedTuple):
    """What one task reads of what lies between two offsets."""

    # first, rows: number of its first row, and how many
    first: int
    rows: int
    mark: bool  # whether the punctuation goes with it


class Results:
    """The results of one query: what its tasks have brought, and what of it becomes its stream."""

    def __init__(
        self,
        columns: Mapping[str, str],  # columns of the result with their types
        *,
        windowed: bool,
        # microseconds by which the slowest operator with state is behind the watermark of the inputs; None: none has
        # any
        lag: int | None,
        # puts the rows of a micro-batch in order; by default they are put in the order of their event times
        arrange: Callable[[pl.DataFrame], pl.DataFrame] | None,
        since: DeliveryProgress,  # deliveries before this exchange
    ) -> None:
        self.batch = since.batch  # number of the last micro-batch that was handed over; -1 before the first
        self.position = since.position  # rows up to it
        self.emitted = since.emitted  # time in microseconds below which it is complete
        self._covered = since.covered  # time in microseconds that the inputs had passed with it
        self._first = since.batch  # its number when this exchange began
        self._columns = dict(columns)
        self._windowed = windowed
        self._lag = lag
        self._arrange = arrange
        self._puts: dict[str, list[pa.RecordBatch]] = {}

    def put(self, put: str, batches: list[pa.RecordBatch]) -> None:
        """Store the rows of a task."""
        self._puts[put] = batches

    def forget(self, puts: Sequence[str] | None = None) -> None:
        """Discard the rows of these tasks; None: of all tasks."""
        for put in tuple(self._puts) if puts is None else puts:
            self._puts.pop(put, None)

    def take(self, batch: int, puts: Sequence[str]) -> list[pa.RecordBatch] | None:
        """Remove and return the rows of these tasks, and discard those of failed ones; None if they are known.

        Raises ``ExchangeRefused`` if results before them, or some of them, are not here.
        """
        found = [self._puts.pop(put, None) for put in puts]
        self._puts.clear()
        if batch <= self.batch:
            return None
        if batch > self.batch + 1:
            raise ExchangeRefused(f"micro-batch {batch}; expected {self.batch + 1}: some are not known here")
        if missing := found.count(None):
            raise ExchangeRefused(f"micro-batch {batch}: {missing} of {len(puts)} parts of it never came")
        return [each for part in found if part for each in part]

    @property
    def handed_any(self) -> bool:
        """Whether the query has handed a micro-batch over here."""
        return self.batch > self._first

    def is_due(self, covered: int) -> bool:
        """Whether a micro-batch without rows would complete more of the result, as its inputs have passed a time."""
        return self._effective(covered) > self.emitted

    def _completed(self, covered: int) -> int:
        """Before which nothing follows after the next micro-batch, with which the inputs pass a time.

        State takes effect one micro-batch later: what the inputs had passed with the last one counts.
        """
        return self._effective(covered if self._lag is None else self._covered)

    def _effective(self, covered: int) -> int:
        """Before which nothing follows any more when what covers a time has taken effect.

        Spark's watermark counts in milliseconds.
        """
        if covered <= WARM:
            return START
        if self._lag is None or covered == END:
            return covered
        return (covered - self._lag) // 1000 * 1000

    def items(self, written: list[pa.RecordBatch], covered: int, ages: BirthTimes) -> list[Item]:
        """Results as batches in the order of their event times, and the punctuation that they complete.

        The peer goes on with other work meanwhile. ``covered``: time that the inputs pass with this micro-batch.
        """
        items = self._batches(written, ages)
        completed = self._completed(covered)
        if completed > self.emitted:
            items.append(Punctuation(completed, self.position, ages.of(completed)))
        return items

    def hand_over(self, batch: int, covered: int) -> None:
        """The next micro-batch has been handed over, with which the inputs have passed a time."""
        self.emitted = max(self.emitted, self._completed(covered))
        self.batch, self._covered = batch, covered

    def progress(self, readers: tuple[tuple[int, int, int], ...]) -> DeliveryProgress:
        """How far results have been handed over, with these readers."""
        return DeliveryProgress(self.batch, self.position, self.emitted, self._covered, readers)

    def _batches(self, written: list[pa.RecordBatch], ages: BirthTimes) -> list[Item]:
        if not written:
            return []
        table = from_spark(written)
        table = table.sort("time", maintain_order=True) if self._arrange is None else self._arrange(table)
        table = conform(table, self._columns)
        first: Any = table.get_column("time").cast(pl.Int64).min()
        if first is not None and first < self.emitted:
            raise ValueError(f"column 'time': {first} µs since 1970; expected at least {self.emitted}, as promised")
        items: list[Item] = []
        for part, born in ages.parted(table, windowed=self._windowed):
            for rows in part.iter_slices(OUTPUT_ROWS):
                items.append(Batch(rows, self.position, born))
                self.position += rows.height
        return items
