"""Whether values are distributed as before: the population stability index, and the distance of Kolmogorov and Smirnov.

By custom an index below .1 is no drift, and one above .25 a large one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["LARGE", "SMALL", "kolmogorov_smirnov", "stability_index"]

Array = npt.NDArray[np.float64]
SMALL: Final = 0.1  # index below which there is no drift
LARGE: Final = 0.25  # index above which it is large
_HALF: Final = 0.5  # rows that a class has at least, so that logarithms are finite


def stability_index(before: Array, now: Array) -> float:
    """Return the population stability index of the numbers of rows in the same classes.

    >>> same = stability_index(np.array([50.0, 50.0]), np.array([500.0, 500.0]))
    >>> same, round(stability_index(np.array([50.0, 50.0]), np.array([90.0, 10.0])), 2)
    (0.0, 0.88)
    """
    first, second = np.maximum(before, _HALF), np.maximum(now, _HALF)
    first, second = first / first.sum(), second / second.sum()
    return float(((second - first) * np.log(second / first)).sum())


def kolmogorov_smirnov(before: Array, now: Array) -> float:
    """Return the largest distance between the distributions of numbers of rows in the same classes, in their order.

    >>> kolmogorov_smirnov(np.array([1.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0]))
    0.5
    """
    if not before.sum() or not now.sum():
        return 0.0
    return float(np.abs(np.cumsum(before) / before.sum() - np.cumsum(now) / now.sum()).max())
