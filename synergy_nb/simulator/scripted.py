"""What happens to simulated streams from outside: what sources give, and what the network does to frames."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import polars as pl

from synergy_nb.dataflow.streams.values import OVERHEAD, Point
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation

__all__ = ["Faults", "ScriptedSource", "weight"]


class Faults(msgspec.Struct):
    """What the network does to frames.

    Parameters
    ----------
    loss, duplication, reordering : float
        Probabilities that a frame is lost, comes twice, or is held up so that others overtake it.
    delay
        Seconds that a frame takes: least and greatest.
    slow
        Probability that a pair of peers is thirty times as far from one another as others.
    news
        Seconds until a peer hears of a deployment, at most.
    late
        Probability that a peer hears of a deployment up to twenty times as late.
    capture
        Seconds that a snapshot takes, at most.
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay: tuple[float, float] = (0.001, 0.01)
    slow: float = 0.0
    news: float = 0.05
    late: float = 0.0
    capture: float = 0.01


class ScriptedSource:
    """A source that gives the same tuples however often it is read, in other batches each time.

    Parameters
    ----------
    table
        Its tuples, in the order of their event times.
    rng
        Draws the batches.
    since
        Place from which it is read.
    """

    def __init__(self, table: pl.DataFrame, rng: random.Random, since: Point) -> None:
        self._table = table
        self._times = table.get_column("time").cast(pl.Int64)
        self._rng = rng
        self._at = since.position
        self._until = since.until

    @property
    def ended(self) -> bool:
        """Whether it has given its end."""
        return self._until == END

    def next(self, now: float) -> list[Item]:
        """The next batch, and at times a punctuation."""
        items: list[Item] = []
        rows = min(self._rng.randint(1, 8), self._table.height - self._at)
        if rows:
            items.append(Batch(self._table.slice(self._at, rows), self._at, now))
            self._at += rows
        if self._at == self._table.height:
            self._until = END
            items.append(Punctuation(END, self._at, now))
        elif self._rng.random() < 0.7:
            until = int(self._times[self._at])
            if until > self._until:
                self._until = until
                items.append(Punctuation(until, self._at, now))
        return items


def weight(items: Iterable[Item]) -> int:
    """Bytes that items take in a log."""
    return sum(OVERHEAD + (item.nbytes if isinstance(item, Batch) else 0) for item in items)
