"""Means, sums of squares and sums of products of two paired series, over a sliding window, in constant time per pair.

Both regressions of chapter 3 of the dissertation use the same five numbers: the line of execution times over
rates (equations 3.2 to 3.5) and Pearson's correlation of two rates (equations 3.7 and 3.8). They are updated by the
differences to the means, as Welford [1]_ does it, so that no large sums are subtracted from each other. A pair that
leaves the window is subtracted, which loses digits where it was an outlier; so the sums are recomputed from the
window when they have fallen far below their peak, and otherwise once in a few thousand pairs.

References
----------
.. [1] B. P. Welford, "Note on a method for calculating corrected sums of squares and products", *Technometrics* 4(3),
   1962.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterable
from operator import mul
from typing import Final

FALL: Final = 1e-3  # share of its peak below which a sum of squares is computed anew
RENEWAL: Final = 4096  # number of pairs after which all sums are computed anew
#: Correlation that rounding alone can make: sums of up to ``RENEWAL`` updates, each rounded at the peak of the sum.
ROUNDING: Final = RENEWAL * sys.float_info.epsilon / FALL
FLAT: Final = 1e-12  # relative standard deviation up to which a series counts as constant


class PairedMoments:
    """Moments of the most recent pairs (x, y).

    ``xx``, ``yy``, ``xy``: sums of squares and of products of the differences to the means; ``least_x``, ``most_x``:
    least and greatest x of the window.

    Raises ``ValueError`` if the window is shorter than one pair.

    Examples
    --------
    >>> moments = PairedMoments(window=3)
    >>> for pair in [(9.0, 9.0), (1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]:
    ...     moments.add(*pair)
    >>> moments.mean_x, moments.mean_y, moments.xy, round(moments.correlation, 9)
    (2.0, 4.0, 4.0, 1.0)
    """

    __slots__ = (
        "_peak_xx",
        "_peak_yy",
        "_since",
        "_xs",
        "_ys",
        "count",
        "least_x",
        "mean_x",
        "mean_y",
        "most_x",
        "window",
        "xx",
        "xy",
        "yy",
    )

    def __init__(self, window: int | None = None) -> None:
        if window is not None and window < 1:
            raise ValueError(f"window: {window}; expected at least 1 pair, or None for all")
        self.window = window  # number of pairs; None for all pairs ever added, which are then not stored
        self._xs: deque[float] = deque()
        self._ys: deque[float] = deque()
        self._since = 0
        self._peak_xx = self._peak_yy = 0.0
        self.count = 0  # number of pairs in the window
        self.mean_x = self.mean_y = self.xx = self.yy = self.xy = 0.0
        self.least_x, self.most_x = math.inf, -math.inf

    def add(self, x: float, y: float) -> None:
        """Add a pair; if the window is full, remove the oldest pair."""
        count = self.count
        dx, dy = x - self.mean_x, y - self.mean_y
        if x < self.least_x:
            self.least_x = x
        if x > self.most_x:
            self.most_x = x
        if count != self.window:
            self.count = count = count + 1
            self.mean_x += dx / count
            self.mean_y += dy / count
            self.xx += dx * (x - self.mean_x)
            self.xy += dx * (y - self.mean_y)
            self.yy += dy * (y - self.mean_y)
            if self.window is not None:
                self._xs.append(x)
                self._ys.append(y)
                self._peak_xx, self._peak_yy = max(self._peak_xx, self.xx), max(self._peak_yy, self.yy)
            return
        oldest_x, oldest_y = self._xs.popleft(), self._ys.popleft()
        self._xs.append(x)
        self._ys.append(y)
        if oldest_x <= self.least_x or oldest_x >= self.most_x:
            self.least_x, self.most_x = min(self._xs), max(self._xs)
        gone_x, gone_y = oldest_x - self.mean_x, oldest_y - self.mean_y
        step_x, step_y = x - oldest_x, y - oldest_y
        self.mean_x += step_x / count
        self.mean_y += step_y / count
        self.xx = xx = self.xx + step_x * (dx + gone_x - step_x / count)
        self.yy = yy = self.yy + step_y * (dy + gone_y - step_y / count)
        self.xy += step_x * dy + gone_x * step_y - step_x * step_y / count
        self._since += 1
        if xx > self._peak_xx:
            self._peak_xx = xx
        if yy > self._peak_yy:
            self._peak_yy = yy
        if xx < FALL * self._peak_xx or yy < FALL * self._peak_yy or self._since >= RENEWAL:
            self._renew()

    def extend(self, pairs: Iterable[tuple[float, float]]) -> None:
        """Add pairs, earliest first."""
        for x, y in pairs:
            self.add(x, y)

    def _renew(self) -> None:
        """Compute all sums from the pairs of the window, in two passes."""
        xs, ys = self._xs, self._ys
        self._since = 0
        self.mean_x = mean_x = math.fsum(xs) / self.count
        self.mean_y = mean_y = math.fsum(ys) / self.count
        own_x, own_y = [x - mean_x for x in xs], [y - mean_y for y in ys]
        self.xx = self._peak_xx = math.fsum(map(mul, own_x, own_x))
        self.yy = self._peak_yy = math.fsum(map(mul, own_y, own_y))
        self.xy = math.fsum(map(mul, own_x, own_y))

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Pairs of the window, earliest first; none where the window is unbounded."""
        return tuple(zip(self._xs, self._ys, strict=True))

    @property
    def constant_x(self) -> bool:
        """Whether all x are equal, except for rounding."""
        return self.xx <= self.count * (FLAT * self.mean_x) ** 2

    @property
    def constant_y(self) -> bool:
        """Whether all y are equal, except for rounding."""
        return self.yy <= self.count * (FLAT * self.mean_y) ** 2

    @property
    def correlation(self) -> float | None:
        """Pearson's R (equation 3.7), from -1 to 1; None if a series is constant or has fewer than two pairs."""
        if self.count < 2 or self.constant_x or self.constant_y:
            return None
        return min(max(self.xy / (math.sqrt(self.xx) * math.sqrt(self.yy)), -1.0), 1.0)
