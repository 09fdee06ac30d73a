"""Event-time order of rows that are fed: a row that comes too late is dropped, or ends its stream.

Examples
--------
>>> rows = pl.DataFrame({"time": pl.Series([3, 9, 5, 7], dtype=pl.Datetime("us"))})
>>> order = EventOrder("orders", lateness=3e-6)
>>> kept, latest = order.keep(rows)
>>> kept["time"].to_physical().to_list(), latest.tolist(), order.dropped
([3, 9, 7], [3, 9, 9], 1)
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from synergy_nb.traces.rows import FeedError

__all__ = ["EventOrder", "behind"]


def behind(times: NDArray[np.int64], reached: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return by how much each row is earlier than the latest one before it, and the latest time up to each row.

    ``times``: event times of rows in their order, at least one, microseconds; ``reached``: latest time before them;
    None: no row is before them. A row that is later than all before it is behind by less than zero.

    >>> late, latest = behind(np.array([3, 9, 5]), None)
    >>> late.tolist(), latest.tolist()
    ([0, -6, 4], [3, 9, 9])
    """
    latest = np.maximum.accumulate(times if reached is None else np.maximum(times, reached))
    before = np.concatenate(([times[0] if reached is None else reached], latest[:-1]))
    return before - times, latest


class EventOrder:
    """The event times that a stream has reached, by which its next rows are kept, dropped or refused.

    ``lateness``: seconds by which a row may be older than the latest row before it, older rows are dropped. None: a row
    that is older than the latest one ends the stream.
    """

    def __init__(self, source: str, lateness: float | None) -> None:
        self.allowed = round((lateness or 0.0) * 1e6)  # lateness in microseconds
        self.dropped = 0  # number of rows that were dropped so far
        self.error: FeedError | None = None  # error that ends the stream after the rows that were kept
        self._source = source  # operator id of the source, for errors
        self._drops = lateness is not None
        self.reached: int | None = None  # latest event time so far, microseconds

    def resume(self, reached: int | None) -> None:
        """Go on behind rows of which the latest has an event time, microseconds; None: behind no rows."""
        self.reached = reached

    def promise(self, until: int) -> None:
        """The source states that no row before a time follows, microseconds: others come too late."""
        self.reached = max(until + self.allowed, until if self.reached is None else self.reached)

    @property
    def promised(self) -> int | None:
        """Event time that no kept row precedes from now on, microseconds; None: none is known."""
        return None if self.reached is None else self.reached - self.allowed

    def keep(self, table: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int64]]:
        """Return the rows that come in time, and the latest event time up to each of them, microseconds.

        ``table``: next rows of the stream, at least one, in their order of arrival.
        """
        times = table.get_column("time").cast(pl.Int64).to_numpy()
        late, latest = behind(times, self.reached)
        wrong = late > self.allowed
        if wrong.any():
            if self._drops:
                self.dropped += int(wrong.sum())
                table, latest = table.filter(pl.Series(~wrong)), latest[~wrong]
            else:
                first = int(wrong.argmax())
                self.error = self._disorder(int(times[first]), int(times[first] + late[first]))
                table, latest = table.head(first), latest[:first]
        if len(latest):
            self.reached = int(latest[-1])
        return table, latest

    def _disorder(self, time: int, before: int) -> FeedError:
        older, newer = pl.Series([time, before]).cast(pl.Datetime("us")).to_list()
        return FeedError(
            f"{self._source}: its feed yielded a tuple of {older} after one of {newer}; expected event times in order "
            "(rows that are given together, as one table, are put in order), or a source with "
            f"lateness='{(before - time) / 1e6:g} s'"
        )
