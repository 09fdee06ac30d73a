"""What peers give a query: it waits until the query knows how it reads its inputs, and then goes to its exchange."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from synergy_nb.dataflow.tuples import Batch, Item

if TYPE_CHECKING:
    from spark_stream._exchange import Exchange
    from spark_stream._spool import Offset
    from synergy_nb.dataflow.streams.log.values import Point


class QueryInput:
    """The streams from peers that a query reads. Its methods may be called from any thread."""

    def __init__(self, committed: tuple[tuple[Offset, Point], ...]) -> None:
        # for each stream, the offset that Spark has committed at another peer, and the position from which it is needed
        self._committed = committed
        self._lock = threading.Lock()
        self._early: list[tuple[int, Item]] = []  # items that came before there was an exchange
        self.exchange: Exchange | None = None  # None until the query knows how it reads its inputs

    def open(self, exchange: Exchange) -> None:
        """Give all items to an exchange from now on, first those that have come."""
        with self._lock:
            early, self._early = self._early, []
            for port, item in early:
                exchange.append(port, item)
            self.exchange = exchange  # later items are appended to it

    def append(self, port: int, item: Item) -> None:
        """Append the next item of an input; it is accepted even if the query is :attr:`full`."""
        if self.exchange is None:
            with self._lock:
                if self.exchange is None:
                    self._early.append((port, item))
                    return
        self.exchange.append(port, item)

    @property
    def full(self) -> bool:
        """Whether the query should receive no items at present."""
        return self.exchange is not None and self.exchange.full

    @property
    def retained_bytes(self) -> int:
        """Bytes of tuples that the query has not committed."""
        if self.exchange is None:
            return sum(item.nbytes for _, item in tuple(self._early) if isinstance(item, Batch))
        return self.exchange.retained_bytes

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of rows that no punctuation covers yet."""
        return self.exchange.uncovered_bytes if self.exchange is not None else 0

    @property
    def late(self) -> int:
        """Number of rows that arrived after a punctuation with a later time."""
        return self.exchange.late if self.exchange is not None else 0

    @property
    def committed(self) -> tuple[tuple[Offset, Point], ...]:
        """For each stream, the offset that Spark has committed, and the position from which it is still needed."""
        return self._committed if self.exchange is None else tuple(self.exchange.committed)
