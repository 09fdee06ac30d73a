"""The saved state of several parts as one: that of an operator with the filters and sorts in front of it. No IO.

A table keeps its number from snapshot to snapshot, so that a copy that has it does not receive it again. With ``n``
parts, table ``k`` of part ``i`` has the number ``k n + i``.

Examples
--------
>>> from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput
>>> heads, tables = save_parts([SortedInput([]), SortedInput([])])
>>> restore_parts([SortedInput([]), SortedInput([])], heads, tables)
>>> len(heads), tables
(2, {})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from synergy_nb.dataflow.logic import SavedState

if TYPE_CHECKING:
    import polars as pl

PartHead = tuple[bytes, list[int]]
"""The head of the saved state of a part, and the numbers of its tables."""

T = TypeVar("T", bound=msgspec.Struct)


class LogicPart(Protocol):
    """A part of the logic that has a state: the operator, a filter, or a sorted input."""

    def save(self) -> SavedState:
        """Return the state."""

    def restore(self, saved: SavedState, /) -> None:
        """Resume from a state that ``save`` has returned."""


def save_parts(parts: Sequence[LogicPart]) -> tuple[list[PartHead], dict[int, pl.DataFrame]]:
    """Save the states of parts; return their heads, and their tables by their numbers among those of all parts.

    ``parts``: parts, each time in the same order.
    """
    saved = [part.save() for part in parts]
    tables = {number * len(saved) + at: table for at, each in enumerate(saved) for number, table in each.tables.items()}
    return [(each.head, list(each.tables)) for each in saved], tables


def decoded_head(head: bytes, kind: type[T], of: str) -> T:
    """Decode the head of a combined state.

    ``head``: head as a snapshot has it; ``of``: name of what was saved, for the error.

    Raises ``ValueError`` if it is the head of another kind of state.
    """
    try:
        return msgspec.msgpack.decode(head, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"saved state: {head[:16]!r}; expected that of {of}: {error}") from None


def restore_parts(parts: Sequence[LogicPart], heads: Sequence[PartHead], tables: Mapping[int, pl.DataFrame]) -> None:
    """Restore the states of parts that ``save_parts`` saved.

    ``parts``: parts in the order in which they were saved; ``heads``: heads of their states, each with the numbers of
    its tables; ``tables``: tables by their numbers among those of all parts.

    Raises ``ValueError`` if there were more or fewer parts.
    """
    if len(heads) != len(parts):
        raise ValueError(f"saved state: {len(heads)} parts; expected {len(parts)}")
    for at, (part, (state, numbers)) in enumerate(zip(parts, heads, strict=True)):
        part.restore(SavedState(state, {number: tables[number * len(parts) + at] for number in numbers}))
