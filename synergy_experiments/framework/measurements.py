"""Measurements of a claim: points of all repetitions, their means and intervals, and comparisons within repetitions.

Intervals hold 95 % of the chance that is in the seeds: the mean over repetitions, by Student's t. Two policies are
compared within a repetition, where both met the same network and the same requests, and then over repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from scipy.stats import t as student

__all__ = ["Measured", "Place", "Point", "Row", "interval"]

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
    """Mean of independent values, and both ends of its 95 % interval by Student's t; None for a single value.

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
    half = float(student.ppf((1.0 + CONFIDENCE) / 2.0, count - 1)) * math.sqrt(variance / count)
    return mean, mean - half, mean + half


class Measured:
    """Points of all repetitions.

    Parameters
    ----------
    repetitions
        Points of each. A value that is not a number stands for nothing measured, and is left out.

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
        """All points over repetitions, in the order in which they were first measured."""
        return [Row(*key, *interval(list(values.values()))) for key, values in self._found.items()]

    def xs(self, metric: str, algorithm: str | None = None) -> list[Place]:
        """Places at which a metric was measured, in their order."""
        return list(dict.fromkeys(x for x, of, what in self._found if what == metric and algorithm in (None, of)))

    def algorithms(self, metric: str) -> list[str]:
        """Algorithms of which a metric was measured, in their order."""
        return list(dict.fromkeys(of for _, of, what in self._found if what == metric))

    def values(self, x: Place, algorithm: str, metric: str) -> dict[int, float]:
        """Number of the repetition to its value; empty if nothing was measured."""
        return self._found.get((x, algorithm, metric), {})

    def mean(self, x: Place, algorithm: str, metric: str) -> float | None:
        """Over repetitions; None if nothing was measured."""
        values = self.values(x, algorithm, metric)
        return math.fsum(values.values()) / len(values) if values else None

    def course(self, algorithm: str, metric: str) -> list[tuple[float, float]]:
        """Places, which are numbers, with the means there, in the order of places."""
        means = ((x, self.mean(x, algorithm, metric)) for x in self.xs(metric, algorithm))
        return sorted((float(x), mean) for x, mean in means if mean is not None)

    def paired(self, x: Place, one: str, other: str, metric: str, how: Callable[[float, float], float]) -> float | None:
        """Mean of ``how(one, other)`` over the repetitions that measured both; None if none did."""
        ours, theirs = self.values(x, one, metric), self.values(x, other, metric)
        both = [how(ours[number], theirs[number]) for number in ours if number in theirs]
        return math.fsum(both) / len(both) if both else None

    def gain(self, x: Place, one: str, other: str, metric: str) -> float | None:
        """By which share ``one`` is below ``other``, within repetitions: 0.25 for a quarter less."""
        return self.paired(x, one, other, metric, lambda ours, theirs: 1.0 - ours / theirs if theirs else 0.0)

    def ahead(self, x: Place, one: str, other: str, metric: str) -> float | None:
        """Mean excess of ``one`` over ``other``, within repetitions."""
        return self.paired(x, one, other, metric, lambda ours, theirs: ours - theirs)
