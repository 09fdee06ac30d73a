"""When what a query gives was born: what has closed a window, for the rows of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import polars as pl

from synergy_nb.dataflow.batch_merging import mergeable

__all__ = ["BirthTimes"]


class BirthTimes:
    """Remembers when event times were passed by all inputs of a query, as long as that is of use.

    What was born at about the same time is as old as the oldest of it, see
    :func:`~synergy_nb.dataflow.batch_merging.mergeable`.

    Attributes
    ----------
    oldest
        Birth time of the oldest tuples that were read last; rows without a window have this age.
    """

    def __init__(self, now: float) -> None:
        self.oldest = now
        self._times: list[int] = []
        self._born: list[float] = []

    def copy(self) -> BirthTimes:
        """The same, to be asked while this one goes on."""
        other = BirthTimes(self.oldest)
        other._times, other._born = self._times.copy(), self._born.copy()
        return other

    def passed(self, time: int, born: float) -> None:
        """All inputs have passed ``time``, later than all times before, by an item that was born then."""
        if self._born and mergeable(self._born[-1], born):
            self._times.pop()
            born = min(self._born.pop(), born)
        self._times.append(time)
        self._born.append(born)

    def of(self, moment: int) -> float:
        """When the first item was born by which all inputs have passed an event time."""
        index = bisect_left(self._times, moment)
        return self._born[index] if index < len(self._born) else self.oldest

    def forget(self, time: int) -> None:
        """Nothing that follows was complete at ``time`` already."""
        done = bisect_left(self._times, time + 1)
        del self._times[:done], self._born[:done]

    def parted(self, table: pl.DataFrame, *, windowed: bool) -> Iterator[tuple[pl.DataFrame, float]]:
        """Rows in the order of their event times, in parts that were born at about the same time.

        Parameters
        ----------
        table
            The rows.
        windowed
            Whether they are of windows, and so were born with what has closed these.
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
