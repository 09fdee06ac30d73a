"""The interface of an operator's logic, the exceptions that it may raise, and their text for users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import polars as pl

from synergy_nb.dataflow.tuples import Item

__all__ = ["ANYTHING", "Logic", "SavedState", "Switching", "error_reason"]

#: Exceptions that an operator or a source may raise: any, and Polars' panics, which are no subclass of Exception.
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
    """The logic of an operator: it processes the items of a component; its state is saved, and restored elsewhere."""

    @property
    def late(self) -> int:
        """Tuples dropped so far because they arrived after a punctuation that promised that there would be none."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state between calls."""

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process an item of a port, and produce its output piece by piece."""

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here, without copying it."""

    def restore(self, saved: SavedState, /) -> None:
        """Resume from the state that another instance has saved."""


class Switching(Logic, Protocol):
    """The logic of a sink, which may go on with another plan."""

    @property
    def ready(self) -> bool:
        """Whether it gives nothing any more, and another plan may go on from its state."""

    @property
    def decides(self) -> bool:
        """Whether two plans could go on from the state that was restored: its next one says which one has."""

    def complete_from(self, at: int, /) -> None:
        """Know from which event time on the rows of the new plan are complete, microseconds."""

    def repeat(self, position: int, until: int, /) -> None:
        """Know what earlier instances have given: the number of rows, and the last promise, microseconds."""


def error_reason(error: BaseException) -> str:
    """Return the text of an error for users: the message of a failed check, and the class and message of others."""
    text = (str(error).splitlines() or [""])[0][:500]
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
