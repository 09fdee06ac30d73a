"""Keyed states of query 6, which no operator and no word of SQL has: the last ten rows of a key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from synergy_nb import Wake, keyed

__all__ = ["Closing", "LastTen"]

_Row = dict[str, Any]


@keyed(columns={"seller": "int", "final": "int"}, expires="10 s", deterministic=True)
class Closing:
    """An auction by its bids: when it expires, its greatest one; an auction without bids closes without a price."""

    def __init__(self) -> None:
        self.seller = 0
        self.final: int | None = None

    def on_rows(self, key: int, rows: list[_Row]) -> Iterator[Wake]:
        """Take bids with their auction."""
        for row in rows:
            if self.final is None:
                yield Wake(row["expires"])
            self.seller, self.final = row["seller"], max(row["price"], self.final or 0)

    def on_time(self, key: int, time: dt.datetime) -> Iterator[_Row]:
        """Close the auction."""
        yield {"seller": self.seller, "final": self.final}


@keyed(columns={"average": "float"}, deterministic=True)
class LastTen:
    """A seller by the prices of closed auctions: the average of the last ten with each of them."""

    def __init__(self) -> None:
        self.finals: list[int] = []

    def on_rows(self, key: int, rows: list[_Row]) -> Iterator[_Row]:
        """Take the prices of auctions in the order in which these closed."""
        for row in rows:
            self.finals = [*self.finals, row["final"]][-10:]
            yield {"average": sum(self.finals) / len(self.finals)}
