"""Counts rows by pairs of bars, in machine code."""

from __future__ import annotations

from typing import Any

from synergy_nb.models.compiling import compiled

__all__ = ["add_all_rows", "add_left_out", "add_rows"]


@compiled
def add_all_rows(mine: Any, theirs: Any, square: Any) -> None:
    """Add rows to ``square[bar, bar]``, by the numbers of their bars in two charts: ``mine[row]``, ``theirs[row]``."""
    for row in range(len(mine)):
        square[mine[row], theirs[row]] += 1


@compiled
def add_left_out(bars: Any, failed: Any, left_out: Any) -> None:
    """Add one to ``left_out[row]`` of the rows that the brush of a chart leaves out: those whose bar has ``failed``."""
    for row in range(len(bars)):
        left_out[row] += failed[bars[row]]


@compiled
def add_rows(mine: Any, theirs: Any, failed: Any, failed_there: Any, left_out: Any, square: Any) -> None:
    """Add the rows that no brush of another chart leaves out: as many brushes as those of the two charts do."""
    for row in range(len(mine)):
        first, last = mine[row], theirs[row]
        square[first, last] += left_out[row] == failed[first] + failed_there[last]
