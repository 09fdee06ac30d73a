"""A walk of a load, and which of its values are reported."""

from __future__ import annotations

from collections.abc import Sequence

from synergy_nb.models.overlapping_levels import OverlappingLevels

_WALK = """
.2 .9 1.8 2.4 2.6 2.4 2.6 3.6 5.1 5.3 4.9 4.4 6.8 9.6 10.2 9.9 9.6 10.6 12 10.1
9.7 9.3 8.2 4.9 5 5.6 3.1 .4 11.5 .1 3.3 3.4 3.2 1.6 1.7 0 10 9.95 14 0
"""


WALK = [float(load) for load in _WALK.split()]


def reported(loads: Sequence[float], levels: int, overlap: float = 0.2) -> list[int]:
    """Numbers of the loads that are reported after the first."""
    found = OverlappingLevels(levels, overlap=overlap)
    return [number for number, load in enumerate(loads) if found.leaves(load)][1:]
