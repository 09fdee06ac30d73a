"""Meters of rates, times and delays, in constant memory and constant time for each reading.

Nothing here reads a clock; each call is passed the time of its reading in seconds.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from synergy_nb.plan.terms.units import rank_of

__all__ = ["DelayHistogram", "Ewma", "Rate", "UnitCost"]


class Rate:
    """Amount a second, averaged over about ``window`` seconds with exponentially decreasing weights.

    An average of this kind lacks weight while it is younger than its window; the result is divided by its present
    weight, so that the first readings are already unbiased.

    ``now``: time at which measuring starts, in seconds.

    Examples
    --------
    >>> rate = Rate(window=5.0, now=0.0)
    >>> for step in range(1, 1001):
    ...     rate.add(2.0, now=step / 100)
    >>> round(rate.per_second(10.0))
    200
    """

    __slots__ = ("_began", "_last", "_value", "_window", "readings")

    def __init__(self, window: float, now: float) -> None:
        # amounts and their times that are counted with the next reading, in the order of their times
        self.readings: list[tuple[float, float]] = []
        self._window = window  # time constant of the decrease, in seconds
        self._began = now
        self._last = now
        self._value = 0.0

    def add(self, amount: float, now: float) -> None:
        """Count ``amount`` at time ``now``; if the clock stepped back, no time has passed."""
        self.readings.append((amount, now))
        self.count()

    def count(self) -> None:
        """Count the readings."""
        value, last, window = self._value, self._last, self._window
        for amount, now in self.readings:
            if now > last:
                value *= math.exp((last - now) / window)
                last = now
            value += amount / window
        self._value, self._last = value, last
        self.readings.clear()

    def per_second(self, now: float) -> float:
        """Return the average at time ``now``; zero before any time has passed."""
        self.count()
        now = max(now, self._last)
        weight = -math.expm1((self._began - now) / self._window)
        if weight <= 0.0:
            return 0.0
        return self._value * math.exp((self._last - now) / self._window) / weight


class Ewma:
    """A mean of all readings, and an exponentially weighted moving mean.

    Examples
    --------
    >>> times = Ewma(weight=0.5)
    >>> times.add(1.0)
    >>> times.add(3.0, count=3)
    >>> times.moving, times.mean
    (2.0, 2.5)
    """

    __slots__ = ("_weight", "count", "moving", "total")

    def __init__(self, weight: float = 0.1) -> None:
        self._weight = weight  # weight of a new reading in the moving mean
        self.moving = 0.0
        self.total = 0.0
        self.count = 0

    def add(self, value: float, count: int = 1) -> None:
        """Count a reading ``value`` that holds for ``count`` tuples."""
        self.moving = value if self.count == 0 else self.moving + self._weight * (value - self.moving)
        self.total += value * count
        self.count += count

    @property
    def mean(self) -> float:
        """Mean over all tuples; zero if there were none."""
        return self.total / self.count if self.count else 0.0


class UnitCost:
    """Seconds that one more tuple costs an operator, estimated from its executions without the fixed cost of a batch.

    An execution of a few tuples measures the cost of a call rather than the cost of a tuple, and an execution that
    other work on the machine delayed measures neither. So the estimate is the lower quartile of the latest executions
    of at least :data:`MANY` tuples. Where an operator only ever gets few tuples, the estimate is the lower quartile of
    its executions, provided that it is so long that the call can only be a small part of it.

    Examples
    --------
    >>> cost = UnitCost()
    >>> for _ in range(20):
    ...     cost.add(1, 0.0004)
    >>> cost.seconds is None
    True
    >>> for held_up in (1, 1, 1, 9, 1, 1, 20, 1):
    ...     cost.add(1000, 0.002 * held_up)
    >>> cost.seconds
    2e-06
    """

    __slots__ = ("_changed", "_few", "_many", "_seconds")

    def __init__(self) -> None:
        self._many: deque[float] = deque(maxlen=_LATEST)
        self._few: deque[float] = deque(maxlen=_LATEST)
        self._seconds: float | None = None  # the estimate, unless there were executions since
        self._changed = False

    def add(self, tuples: int, seconds: float) -> None:
        """Count one execution of ``tuples``, at least one, which took ``seconds``."""
        (self._many if tuples >= MANY else self._few).append(seconds / tuples)
        self._changed = True

    @property
    def seconds(self) -> float | None:
        """Return the estimated seconds for a tuple; None while there are too few executions."""
        if self._changed:  # it is asked for more often than there are executions
            self._seconds, self._changed = self._estimate(), False
        return self._seconds

    def _estimate(self) -> float | None:
        if len(self._many) >= _ENOUGH:
            return sorted(self._many)[len(self._many) // 4]
        if len(self._few) >= 2 * _ENOUGH:
            least = sorted(self._few)[len(self._few) // 4]
            return least if least >= _LONG else None
        return None


MANY: Final = 16  # least number of tuples of an execution whose time per tuple is used
_ENOUGH: Final = 8  # least number of executions for a lower quartile
_LATEST: Final = 32  # number of latest executions that are used
_LONG: Final = 5e-3  # seconds per tuple from which on the overhead of a call does not matter
_ERROR: Final = 0.01
_LOG_GAMMA: Final = math.log((1.0 + _ERROR) / (1.0 - _ERROR))
_LEAST: Final = 1e-6  # seconds; a wall clock cannot resolve shorter delays
_MOST: Final = 1e6


class DelayHistogram:
    """Delays of tuples in logarithmic bins: any quantile within 1 % of the true one, whatever the distribution.

    Bins as in DDSketch [1]_: bin i holds (γ^(i-1), γ^i] with γ = (1 + 0.01) / (1 - 0.01). Delays are clipped to
    1 µs ... 10⁶ s, so that there are never more than 1383 bins.

    References
    ----------
    .. [1] C. Masson, J. E. Rim, H. K. Lee: DDSketch. PVLDB 12(12), 2019.

    Examples
    --------
    >>> delays = DelayHistogram(limit=0.5)
    >>> for millisecond in range(1, 1001):
    ...     delays.add(millisecond / 1000)
    >>> abs(delays.quantile(0.5) - 0.5) <= 0.005, delays.miss_rate, round(delays.mean, 4)
    (True, 0.5, 0.5005)
    """

    __slots__ = ("_bins", "count", "least", "limit", "missed", "most", "total")

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit  # delays above it are misses, in seconds; None: there are none
        self._bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.missed = 0
        self.least: float | None = None  # the shortest delay in seconds, exact; None if there were no tuples
        self.most: float | None = None  # the longest delay in seconds, exact; None if there were no tuples

    def add(self, delay: float, count: int = 1) -> None:
        """Count ``count`` tuples whose delay was ``delay`` seconds."""
        if count <= 0:
            return
        delay = min(max(delay, _LEAST), _MOST)
        self.least = delay if self.least is None else min(self.least, delay)
        self.most = delay if self.most is None else max(self.most, delay)
        index = math.ceil(math.log(delay) / _LOG_GAMMA)
        self._bins[index] = self._bins.get(index, 0) + count
        self.count += count
        self.total += delay * count
        if self.limit is not None and delay > self.limit:
            self.missed += count

    def include(self, other: DelayHistogram) -> None:
        """Count all tuples of another histogram with the same limit."""
        if not other.count:
            return
        for index, count in other._bins.items():
            self._bins[index] = self._bins.get(index, 0) + count
        assert other.least is not None
        assert other.most is not None
        self.least = other.least if self.least is None else min(self.least, other.least)
        self.most = other.most if self.most is None else max(self.most, other.most)
        self.count += other.count
        self.total += other.total
        self.missed += other.missed

    def quantile(self, share: float) -> float | None:
        """Return the least delay that ``share`` of the tuples did not exceed, seconds, within 1 %; None without tuples.

        It is never beyond the shortest and the longest delay, which are exact.
        """
        return self.quantiles(share)[0]

    def quantiles(self, *shares: float) -> list[float | None]:
        """Return the same for several shares, which increase, in one pass."""
        if self.least is None or self.most is None:
            return [None] * len(shares)
        found: list[float | None] = []
        seen = index = 0
        bins = iter(sorted(self._bins.items()))
        for share in shares:
            rank = max(rank_of(share, self.count), 1)
            while seen < rank:
                index, count = next(bins)
                seen += count
            # the point of the bin that is equally far, in relative terms, from both of its ends
            middle = 2.0 * math.exp(index * _LOG_GAMMA) / (1.0 + math.exp(_LOG_GAMMA))
            found.append(min(max(middle, self.least), self.most))
        return found

    @property
    def mean(self) -> float | None:
        """Mean delay in seconds, exact; None if there were no tuples."""
        return self.total / self.count if self.count else None

    @property
    def miss_rate(self) -> float | None:
        """Share of tuples later than the limit; None if there were no tuples."""
        return self.missed / self.count if self.count else None
