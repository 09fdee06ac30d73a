"""Counts rows by pairs of bars, in machine code."""

from __future__ import annotations

from typing import Any

from synergy_nb.models.compiling import compiled

__all__ = ["add_kept_rows", "add_rows"]


@compiled
def add_rows(mine: Any, theirs: Any, square: Any) -> None:
    """Add rows to ``square[bar, bar]``, by the numbers of their bars in two charts: ``mine[row]``, ``theirs[row]``."""
    for row in range(len(mine)):
        square[mine[row], theirs[row]] += 1


@compiled
def add_kept_rows(mine: Any, theirs: Any, kept: Any, square: Any) -> None:
    """Add the rows that have ``kept[row]``; where about half have it, a branch would be guessed wrong too often."""
    for row in range(len(mine)):
        square[mine[row], theirs[row]] += kept[row]
