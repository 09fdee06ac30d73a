"""What works on the items of a component, what it may raise, and how that is told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import polars as pl

from synergy_nb.dataflow.tuples import Item

__all__ = ["ANYTHING", "Logic", "SavedState", "error_reason"]

#: What an operator or a source may raise: whatever it likes. What Polars panics with is no Exception.
ANYTHING: Final = (Exception, pl.exceptions.PanicException)


class SavedState(NamedTuple):
    """The state of an operator between two items.

    Parameters
    ----------
    head
        Small part of the state, such as positions.
    tables
        Tables of the state, by number. One instance uses a number for the same table in all of its snapshots, so a copy
        that has a table does not receive it again.
    """

    head: bytes = b""
    tables: Mapping[int, pl.DataFrame] = {}


class Logic(Protocol):
    """What works on the items of a component."""

    @property
    def late(self) -> int:
        """Tuples dropped so far because they came after a punctuation that promised there would be none."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that it keeps between calls."""

    def needs(self, port: int, item: Item, /) -> float:
        """Bytes that taking an item may need in addition to the state."""

    def take(self, port: int, item: Item, /) -> Iterator[Item]:
        """Take an item on a port, and make its output piece by piece."""


def error_reason(error: BaseException) -> str:
    """An error for people: what a check says of what it found, and the kind of any other."""
    text = (str(error).splitlines() or [""])[0][:500]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
