"""Measurements of a claim: points of all repetitions, their means and intervals, and comparisons within repetitions.

Intervals are 95 % confidence intervals of the mean over repetitions, by Student's t. Two policies are compared within a
repetition, in which both had the same network and the same requests, and then over repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from scipy.special import stdtrit

__all__ = ["Measured", "Place", "Point", "Row", "interval", "mean_of_known"]

Place: TypeAlias = float | str
"""Position of a point on the horizontal axis: a number, or the name of a group."""

CONFIDENCE: Final = 0.95


class Point(NamedTuple):
    """A measured value of one metric in one cell."""

    x: Place
    algorithm: str
    metric: str
    value: float


class Row(NamedTuple):
    """A point over all repetitions: mean, and ends of the 95 % interval (None with one repetition)."""

    x: Place
    algorithm: str
    metric: str
    value: float
    low: float | None
    high: float | None


def interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean of independent values, and the ends of its 95 % interval by Student's t; None for a single one.

    >>> [round(end, 3) for end in interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    >>> interval([5.0])
    (5.0, None, None)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, None, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(stdtrit(count - 1, (1.0 + CONFIDENCE) / 2.0)) * math.sqrt(variance / count)  # Student's t
    return mean, mean - half, mean + half


class Measured:
    """Points of all repetitions.

    Parameters
    ----------
    repetitions
        Points of each repetition. NaN stands for a missing measurement.

    Examples
    --------
    >>> points = [[Point(1, "a", "delay", 2.0), Point(1, "b", "delay", 4.0)], [Point(1, "a", "delay", 3.0)]]
    >>> measured = Measured(points)
    >>> measured.mean(1, "a", "delay"), measured.gain(1, "a", "b", "delay")
    (2.5, 0.5)
    """

    def __init__(self, repetitions: Iterable[Iterable[Point]]) -> None:
        self._found: dict[tuple[Place, str, str], dict[int, float]] = {}
        for number, points in enumerate(repetitions):
            for x, algorithm, metric, value in points:
                if not math.isnan(value):
                    self._found.setdefault((x, algorithm, metric), {})[number] = value

    def rows(self) -> list[Row]:
        """Return all points over repetitions, in the order of their first measurement."""
        return [Row(*key, *interval(list(values.values()))) for key, values in self._found.items()]

    def xs(self, metric: str, algorithm: str | None = None) -> list[Place]:
        """Return the coordinates at which a metric was measured, in order."""
        return list(dict.fromkeys(x for x, of, what in self._found if what == metric and algorithm in (None, of)))

    def algorithms(self, metric: str) -> list[str]:
        """Return the algorithms of which a metric was measured, in order."""
        return list(dict.fromkeys(of for _, of, what in self._found if what == metric))

    def values(self, x: Place, algorithm: str, metric: str) -> dict[int, float]:
        """Return number of the repetition to its value; empty without measurements."""
        return self._found.get((x, algorithm, metric), {})

    def mean(self, x: Place, algorithm: str, metric: str) -> float | None:
        """Return the mean over repetitions; None without measurements."""
        values = self.values(x, algorithm, metric)
        return math.fsum(values.values()) / len(values) if values else None

    def course(self, algorithm: str, metric: str) -> list[tuple[float, float]]:
        """Return numeric coordinates with the means there, in order."""
        means = ((x, self.mean(x, algorithm, metric)) for x in self.xs(metric, algorithm))
        return sorted((float(x), mean) for x, mean in means if mean is not None)

    def paired(self, x: Place, one: str, other: str, metric: str, how: Callable[[float, float], float]) -> float | None:
        """Return the mean of ``how(one, other)`` over the repetitions that measured both; None if none did."""
        ours, theirs = self.values(x, one, metric), self.values(x, other, metric)
        both = [how(ours[number], theirs[number]) for number in ours if number in theirs]
        return math.fsum(both) / len(both) if both else None

    def gain(self, x: Place, one: str, other: str, metric: str) -> float | None:
        """Return the share by which ``one`` is below ``other``, within repetitions: 0.25 for a quarter less."""
        return self.paired(x, one, other, metric, lambda ours, theirs: 1.0 - ours / theirs if theirs else 0.0)

    def ahead(self, x: Place, one: str, other: str, metric: str) -> float | None:
        """Return the mean excess of ``one`` over ``other``, within repetitions."""
        return self.paired(x, one, other, metric, lambda ours, theirs: ours - theirs)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    known = [each for each in values if each is not None]
    return math.fsum(known) / len(known) if known else None
