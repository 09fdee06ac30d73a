"""A quantity over time in bounded memory: its recent points, and a thinned history of all older ones."""

from __future__ import annotations

import math
from array import array
from typing import Final

RECENT: Final = 1024  # number of recent points of a line, which are not thinned
COARSE: Final = 2048  # number of thinned points of the older history
# seconds without a point that interrupt a line; or five times the usual distance of its points, if that is longer
SILENCE: Final = 5.0


class Line:
    """Points of one quantity over time: the recent ones, and a thinned history of all older ones.

    The newest :data:`RECENT` points are retained unchanged. Older ones form groups, of which the least and the greatest
    point are retained, so no peak is lost; the groups grow with the number of points. A point that is not a number
    interrupts the line.

    Examples
    --------
    >>> line = Line()
    >>> for second in range(100_000):
    ...     line.append(float(second), 1.0 if second == 500 else 0.0)
    >>> times, values = line.points()
    >>> len(times) <= RECENT + COARSE + RECENT, times[0], times[-1], max(values)
    (True, 0.0, 99999.0, 1.0)
    """

    __slots__ = ("_coarse", "_fresh", "_last", "_recent", "_spacing", "_stride", "_whole", "count")

    def __init__(self) -> None:
        self._recent = array("d"), array("d")
        self._coarse = array("d"), array("d")
        self._stride = 2  # points of the line in a group, which has two coarse points
        self._fresh = 0  # points at the end that have not been read
        self._whole = True  # whether the reader must read all points again
        self._last: float | None = None
        self._spacing = 0.0
        self.count = 0

    def __len__(self) -> int:
        return len(self._coarse[0]) + len(self._recent[0])

    def append(self, time: float, value: float) -> None:
        """Add a point; if it is not later than the last point, it is moved to just after it."""
        last = self._last
        if last is not None:
            if time <= last:
                time = math.nextafter(last, math.inf)
            apart = time - last
            if apart > max(SILENCE, 5 * self._spacing):
                self._put((last + time) / 2, math.nan)
            usual = min(apart, 3 * max(self._spacing, 1.0))
            self._spacing = usual if not self._spacing else self._spacing + 0.2 * (usual - self._spacing)
        self._last = time
        self._put(time, value)

    def _put(self, time: float, value: float) -> None:
        times, values = self._recent
        times.append(time)
        values.append(value)
        self.count += 1
        self._fresh += 1
        if len(times) >= RECENT + max(RECENT, self._stride):
            self._age()

    def _age(self) -> None:
        """Move the older of the recent points to the coarse ones."""
        chunk = max(RECENT, self._stride)
        times, values = self._recent
        for old, new in zip(self._coarse, _extremes(times[:chunk], values[:chunk], self._stride), strict=True):
            old.extend(new)
        del times[:chunk]
        del values[:chunk]
        if len(self._coarse[0]) > COARSE:
            self._coarse = _extremes(*self._coarse, 4)
            self._stride *= 2
        if self._fresh > len(times):
            self._whole = True

    def points(self) -> tuple[array[float], array[float]]:
        """Times in seconds and values of all retained points."""
        return self._coarse[0] + self._recent[0], self._coarse[1] + self._recent[1]

    def drain(self) -> tuple[bool, array[float], array[float]]:
        """Return the points since the last call: whether they replace all earlier ones, their times and values."""
        whole, fresh = self._whole, self._fresh
        self._whole, self._fresh = False, 0
        if whole:
            return (True, *self.points())
        times, values = self._recent
        return False, times[len(times) - fresh :], values[len(values) - fresh :]

    @property
    def fresh(self) -> bool:
        """Whether there are unread points."""
        return self._fresh > 0


def _extremes(times: array[float], values: array[float], group: int) -> tuple[array[float], array[float]]:
    """Two points for each ``group`` of points: the least and the greatest, or an interruption and the greatest."""
    if group <= 2:
        return times, values
    kept_times, kept_values = array("d"), array("d")
    for start in range(0, len(times), group):
        indices = range(start, min(start + group, len(times)))
        known = [index for index in indices if not math.isnan(values[index])]
        low = next((index for index in indices if math.isnan(values[index])), None)
        high = max(known, key=values.__getitem__, default=indices[-1])
        if low is None:
            low = min(known, key=values.__getitem__)
        if low == high:
            low, high = indices[0], indices[-1]
        for index in sorted({low, high}):
            kept_times.append(times[index])
            kept_values.append(values[index])
    return kept_times, kept_values
