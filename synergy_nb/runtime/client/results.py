"""Results of a sink as one reader has them: read by their places in the sink's stream, so that none is lost or doubled.

A reader tells the sink up to which place it has everything. An answer that never came is asked for again from the same
place, and the sink gives the same; one that has come moves the reader on. What lies between two answers was given to
another reader of the sink.
"""

from __future__ import annotations

import asyncio
from collections import deque

import polars as pl

from synergy_nb.dataflow.tuples import Batch, decode
from synergy_nb.runtime.process.requests import ClusterError, Fetch, Fetched

__all__ = ["Results"]


class Results:
    """What one reader has of the results of a sink.

    Parameters
    ----------
    application, sink
        Id of the application and operator id of its sink.
    reader
        Name that tells this reader from others of the same sink.

    Attributes
    ----------
    arrived
        Tables that nobody has been given yet.
    kept
        Tables that are given again whenever all results are asked for.
    fetching
        Held by whoever asks the sink.
    ended
        Whether all has come.
    """

    def __init__(self, application: str, sink: str, reader: str) -> None:
        self.application = application
        self.sink = sink
        self.reader = reader
        self.arrived: deque[pl.DataFrame] = deque()
        self.kept: list[pl.DataFrame] = []
        self.fetching = asyncio.Lock()
        self.ended = False
        self._place: tuple[int, int] | None = None  # up to which all that was given has come

    def request(self, wait: float) -> Fetch:
        """What to ask the sink for; it may wait so many seconds while it has nothing."""
        return Fetch(self.application, self.sink, self._place, wait=wait, reader=self.reader)

    def take(self, answer: Fetched) -> int:
        """Take an answer to the last request; returns the bytes of its results.

        Raises
        ------
        ClusterError
            If it begins before the place that was asked for: it holds results that have come already.
        """
        if self._place is not None and answer.start < self._place:
            raise ClusterError(
                f"{self.application}: results of {self.sink} from tuple {answer.start[0]} on; "
                f"expected those from {self._place[0]} on: the others have come already"
            )
        found = [decode(item) for item in answer.items]
        self.arrived.extend(item.table for item in found if isinstance(item, Batch))
        self._place = answer.end
        self.ended = self.ended or answer.finished
        return sum(map(len, answer.items))

    def keep(self) -> None:
        """Keep what has arrived."""
        self.kept.extend(self.arrived)
        self.arrived.clear()

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return sum(table.height for table in self.kept)

    @property
    def nbytes(self) -> int:
        """Bytes of all that has come and was not given away."""
        return sum(int(table.estimated_size()) for table in (*self.kept, *self.arrived))

    def table(self) -> pl.DataFrame | None:
        """All that has come and was not given away, as one table; None: nothing has."""
        self.keep()
        if len(self.kept) > 1:
            self.kept[:] = [pl.concat(self.kept)]
        return self.kept[0] if self.kept else None
