"""Overlapping load levels: a peer reports its load only when it leaves a level (dissertation, section 3.4.3).

Loads are divided into levels. As long as a load stays within its level, nothing is reported; neighbouring levels
overlap, so that a load that goes to and fro between two of them is not reported each time either. What is reported is
the load itself, not the number of its level.

The dissertation leaves open:

======================  ================================================================================================
boundaries              the highest level is that of loads from 10 on, "a severe overload"; the others divide the loads
                        from 0 to 10 equally, each of width w = 10 / (levels - 1)
overlap                 0.2 w: each level reaches 0.1 w beyond its boundaries on either side
the new level           that within whose boundaries the load is; one report however many levels were crossed
======================  ================================================================================================

Examples
--------
>>> levels = OverlappingLevels(levels=3)
>>> [levels.leaves(load) for load in (4.8, 5.2, 4.9, 5.6, 4.8, 12.0, 9.8)]
[True, False, False, True, False, True, False]
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["OverlappingLevels"]

SEVERE: Final = 10.0  # load from which on all loads are in one level, the highest
OVERLAP: Final = 0.2  # share of the width of a level that it has in common with the next one


class OverlappingLevels:
    """The level of a load, and whether it leaves it.

    ``overlap``: share of a level's width that it has in common with its neighbour; 0 for none.

    Raises ``ValueError`` if a parameter or a load is out of range.
    """

    __slots__ = ("_high", "_low", "_reach", "_severe", "_width", "levels", "reported")

    def __init__(self, levels: int = 5, *, overlap: float = OVERLAP, severe: float = SEVERE) -> None:
        if levels < 2:
            raise ValueError(f"levels: {levels}; expected at least 2")
        if not (0.0 <= overlap <= 1.0 and 0.0 < severe < math.inf):
            raise ValueError(f"overlap, severe: {overlap}, {severe}; expected a share from 0 to 1, and a load above 0")
        self.levels = levels  # number of levels, from 2
        self.reported: float | None = None  # the load that was reported last
        self._severe = severe  # load from which on the highest level begins
        self._width = severe / (levels - 1)
        self._reach = overlap * self._width / 2.0
        self._low, self._high = math.inf, -math.inf  # of the level that the reported load is in, with its overlap

    def level(self, load: float) -> int:
        """Number of the level within whose boundaries a load is, from 0."""
        return self.levels - 1 if load >= self._severe else min(int(load / self._width), self.levels - 2)

    def boundaries(self, level: int) -> tuple[float, float]:
        """Least load of a level, and the load from which on the next one begins, both without overlap."""
        high = (level + 1) * self._width if level < self.levels - 1 else math.inf
        return level * self._width, high

    def bounds(self, level: int) -> tuple[float, float]:
        """Loads between which a peer of this level reports nothing: the boundaries with their overlap."""
        low, high = self.boundaries(level)
        return low - self._reach if level else -math.inf, high + self._reach

    @property
    def highest(self) -> bool:
        """Whether the load that was reported last is in the highest level."""
        return self.reported is not None and self.level(self.reported) == self.levels - 1

    def contains(self, load: float) -> bool:
        """Whether a load is within the level of the last report, with its overlap; False before the first report."""
        return self._low <= load < self._high

    def leaves(self, load: float) -> bool:
        """Whether a load is to be reported: the first one is, and each that leaves the level of the last report.

        ``load``: load of the peer, from 0: the predicted one where that is reported.
        """
        if not 0.0 <= load < math.inf:
            raise ValueError(f"load: {load}; expected a finite number from 0")
        if self.contains(load):
            return False
        number = self.level(load)
        self._low, self._high = self.bounds(number)
        self.reported = load
        return True
