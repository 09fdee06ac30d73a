"""Birth times of a query's results: a row of a window is as old as the item that closed the window."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import polars as pl

from synergy_nb.dataflow.streams.log.chunking import mergeable
from synergy_nb.dataflow.tuples import START


class BirthTimes:
    """Records at which birth time all inputs of a query had passed an event time, while results may still need that.

    Rows that were born at about the same time get the birth time of the oldest, see
    :func:`~synergy_nb.dataflow.streams.log.chunking.mergeable`.
    """

    def __init__(self, now: float) -> None:
        self.oldest = now  # birth time of the oldest tuples that were read last; rows without a window have this age
        self._reading = math.inf  # birth time of the oldest tuples that were read since the last micro-batch
        self._low = START  # event time in microseconds that all inputs have passed
        self._times: list[int] = []
        self._born: list[float] = []

    def read(self, born: float) -> None:
        """Record that tuples of this age are read, the oldest of which was born then; infinite if there are none."""
        self._reading = min(self._reading, born)

    def of_read(self) -> BirthTimes:
        """Return the birth times for the results of what was read since the last micro-batch, which do not change."""
        if self._reading < math.inf:
            self.oldest = self._reading
        other = BirthTimes(self.oldest)
        other._times, other._born = self._times.copy(), self._born.copy()
        return other

    def read_anew(self) -> None:
        """A micro-batch is over: the next one begins to read."""
        self._reading = math.inf

    def passed(self, time: int, born: float) -> None:
        """Record that all inputs have passed an event time, by an item with this birth time, if none had before."""
        if time <= self._low:
            return
        self._low = time
        if self._born and mergeable(self._born[-1], born):
            self._times.pop()
            born = min(self._born.pop(), born)
        self._times.append(time)
        self._born.append(born)

    def of(self, moment: int) -> float:
        """Birth time of the first item by which all inputs had passed an event time."""
        index = bisect_left(self._times, moment)
        return self._born[index] if index < len(self._born) else self.oldest

    def forget(self, time: int) -> None:
        """Discard records up to ``time``: no further result was complete by then."""
        done = bisect_left(self._times, time + 1)
        del self._times[:done], self._born[:done]

    def parted(self, table: pl.DataFrame, *, windowed: bool) -> Iterator[tuple[pl.DataFrame, float]]:
        """Split rows in the order of event times into parts that were born at about the same time.

        ``windowed``: whether they are of windows, and so were born with what has closed these.
        """
        if not windowed:
            yield table, self.oldest
            return
        ends: Any = table.get_column("window_end").cast(pl.Int64)
        start = rows = 0
        age = 0.0
        for end, length in ends.rle().struct.unnest().select("value", "len").iter_rows():
            born = self.of(end)
            if rows and not mergeable(age, born):
                yield table.slice(start, rows), age
                start, rows = start + rows, 0
            age = min(age, born) if rows else born
            rows += length
        if rows:
            yield table.slice(start, rows), age
