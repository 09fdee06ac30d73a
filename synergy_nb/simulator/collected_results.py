"""Results and delays that a simulated client collects from a sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import polars as pl

from synergy_nb.dataflow.meters import DelayHistogram
from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Loss
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

__all__ = ["CollectedResults"]


class CollectedResults:
    """The results of one sink.

    ``limit``: delay limit in seconds, or None.
    """

    def __init__(self, application: str, operator: str, limit: float | None) -> None:
        self.application = application
        self.operator = operator
        self.items: list[Item] = []  # batches and punctuations that were collected
        self.delays = DelayHistogram(limit)  # end-to-end delays of the tuples that have reached the sink
        self.losses: tuple[Loss, ...] = ()  # losses as of the last chunk that was collected
        self.looped = 0  # tuples that went to loops over the application
        self._given = 0  # items that went to a loop or to whoever asked for a table
        self._stored: list[pl.DataFrame] = []  # tables of these that did not go to a loop
        self._upto = ORIGIN
        self._since = START  # event time since which tuples count
        # time of each arrival in seconds, and the number of tuples then; None: those of two plans are mixed
        self._came: list[tuple[float, int]] | None = []

    def arrived(self, chunks: Iterable[Chunk], now: float) -> None:
        """Record the delays of chunks that have arrived at the sink."""
        for chunk in chunks:
            self.delays.add(now - chunk.born, chunk.rows)
        if self._came is not None:
            self._came.append((now, self.delays.count))

    def between(self, since: float, until: float) -> pl.DataFrame | None:
        """Return the tuples that came between two times, seconds; None where that is not known."""
        if self._came is None:
            return None
        begin = max((count for at, count in self._came if at < since), default=0)
        end = max((count for at, count in self._came if at <= until), default=0)
        return self.rows.slice(begin, max(end - begin, 0))

    def collect(self, hosting: Hosting, now: float) -> list[Effect]:
        """Collect the results that a peer retains."""
        chunks = hosting.results(self.application, self.operator, self._upto, float("inf"))
        # the peer that took over may have cut the stream into other chunks
        new = [rest.item for chunk in chunks if (rest := chunk.unread(self._upto.position)) is not None]
        self.items += _within(new, since=self._since)
        if chunks:
            self._upto, self.losses = chunks[-1].end, chunks[-1].losses
        return hosting.collected(self.application, self.operator, self._upto, self._upto, now)

    @property
    def until(self) -> int:
        """Event time up to which everything was collected, microseconds."""
        return self._upto.until

    def go_on_with(self, other: CollectedResults, since: int) -> None:
        """Go on with what another sink gives after an event time, microseconds; the other one goes on with this one."""
        self.items = [*_within(self.items[: self._given]), *_within(self.items[self._given :], until=since)]
        self.items += _within(other.items, since=since)
        self.application, other.application = other.application, self.application
        self._upto, other._upto = other._upto, self._upto
        self._since, self._came = since, None

    @property
    def latest(self) -> int:
        """Event time of the latest tuple that somebody has received, microseconds."""
        tables = [item.table for item in self.items[: self._given] if isinstance(item, Batch) and item.rows]
        return max((_times(table).max() for table in tables), default=START)  # type: ignore[return-value,type-var]

    @property
    def ended(self) -> bool:
        """Whether the end of the stream has been collected."""
        last = self.items[-1] if self.items else None
        return isinstance(last, Punctuation) and last.time == END

    @property
    def height(self) -> int:
        """Number of tuples that were collected."""
        return sum(item.rows for item in self.items if isinstance(item, Batch))

    def has_more_than(self, tuples: int) -> bool:
        """Whether more tuples than this were collected, or no more follow."""
        return self.ended or self.height > tuples

    @property
    def rows(self) -> pl.DataFrame:
        """All tuples that were collected, in their order."""
        tables = [item.table for item in self.items if isinstance(item, Batch)]
        return pl.concat(tables) if tables else pl.DataFrame()

    @property
    def stored(self) -> pl.DataFrame:
        """All tuples that were collected, without those that went to a loop, in their order."""
        self._stored += self._next_tables()
        return pl.concat(self._stored) if self._stored else pl.DataFrame()

    def next_table(self) -> pl.DataFrame | None:
        """Return the next table for a loop: the first one that nobody has received yet; None if there is none."""
        found = next(self._next_tables(), None)
        self.looped += 0 if found is None else found.height
        return found

    def _next_tables(self) -> Iterator[pl.DataFrame]:
        while self._given < len(self.items):
            item = self.items[self._given]
            self._given += 1
            if isinstance(item, Batch):
                yield item.table


def _times(table: pl.DataFrame) -> pl.Series:
    """Event times of a table, microseconds."""
    return table.get_column("time").cast(pl.Int64)


def _within(items: Iterable[Item], since: int = START, until: int = END) -> list[Item]:
    """Items with the tuples after one event time, and up to another one, microseconds."""
    if (since, until) == (START, END):
        return list(items)
    found: list[Item] = []
    for item in items:
        if isinstance(item, Batch):
            times = _times(item.table)
            kept = item.table.filter((times > since) & (times <= until))
            found.append(msgspec.structs.replace(item, table=kept))
        elif item.time > since:
            found.append(item)
    return found
