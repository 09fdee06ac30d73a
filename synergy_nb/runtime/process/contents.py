"""Contents that plans only name, as they are sent: the code of a function, or a table, in pieces.

A content is named by the component that needs it, such as ``apply:kilobytes@3dfb8...`` or ``lookup:5f0c...``.
"""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.operators.tables import LOOKUP
from synergy_nb.plan.tables.lookup_tables import piece_of
from synergy_nb.plan.terms.known_functions import payload_of
from synergy_nb.runtime.process.requests import ContentPiece

__all__ = ["is_table", "name_of", "piece"]

PIECE: Final = 1 << 20  # bytes of a piece


def is_table(component: str) -> bool:
    """Whether a component needs a table, which all peers of a machine share, and not a function."""
    return component.startswith(f"{LOOKUP.kind}:")


def name_of(component: str) -> str:
    """The reference of the function, or the hash of the table, that a component needs."""
    return component.partition(":")[2]


def piece(component: str, start: int) -> ContentPiece | None:
    """Return the next piece of a content; None if this process and its machine have not got it."""
    name = name_of(component)
    if is_table(component):
        found = piece_of(name, start, PIECE)
    else:
        try:
            payload = payload_of(name)
        except ValueError:
            return None
        found = len(payload), payload[start : start + PIECE]
    return None if found is None else ContentPiece(component, start, *found)
