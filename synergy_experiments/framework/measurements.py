"""Measurements of a claim: points of all repetitions, their means and intervals, and comparisons within repetitions.

Intervals are 95 % confidence intervals of the mean over repetitions, by Student's t. Two policies are compared within a
repetition, in which both had the same network and the same requests, and then over repetitions: the result is an
:class:`Estimate`, whose interval decides the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeAlias

from scipy.special import stdtrit

__all__ = ["Coordinate", "Estimate", "Measured", "Point", "Row", "interval", "less", "mean_of_known"]

Coordinate: TypeAlias = float | str
"""Coordinate of a point on the horizontal axis: a number, or the name of a group of bars."""

CONFIDENCE: Final = 0.95  # probability that an interval contains the mean
Given = ParamSpec("Given")


class Point(NamedTuple):
    """A measured value.

    Parameters
    ----------
    x
        Coordinate on the horizontal axis.
    algorithm, metric
        Names of the policy or line, and of the quantity.
    value
        Value, in the unit of the metric.
    """

    x: Coordinate
    algorithm: str
    metric: str
    value: float


class Row(NamedTuple):
    """A point over all repetitions.

    Parameters
    ----------
    x, algorithm, metric
        Coordinate and names of the point.
    value
        Mean over repetitions, in the unit of the metric.
    low, high
        Ends of the 95 % interval of the mean; None with one repetition.
    """

    x: Coordinate
    algorithm: str
    metric: str
    value: float
    low: float | None
    high: float | None


class Estimate(NamedTuple):
    """A mean over repetitions, and the ends of its 95 % interval (None with one repetition).

    Parameters
    ----------
    value
        Mean over repetitions.
    low, high
        Ends of its 95 % interval.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate | None:
        """Return the estimate of the mean of independent values; None without any.

        >>> Estimate.of([]) is None
        True
        """
        found = list(values)
        return cls(*interval(found)) if found else None

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a computed value, whose interval is a point: it does not vary over repetitions."""
        return cls(value, value, value)

    def above(self, null: float = 0.0) -> bool | None:
        """Whether the mean is above a number: None if the interval contains the number, or there is none.

        >>> Estimate.of([1.0, 1.1, 0.9]).above(), Estimate.of([1.0, -0.8, 0.4]).above(), Estimate.of([1.0]).above()
        (True, None, None)
        """
        if self.low is None or self.high is None:
            return None
        return True if self.low > null else False if self.high <= null else None

    def below(self, null: float = 0.0) -> bool | None:
        """Whether the mean is below a number: None if the interval contains the number, or there is none."""
        return None if self.low is None or self.high is None else self.opposite().above(-null)

    def within(self, distance: float) -> bool | None:
        """Whether the mean is nearer to zero than a distance: None if the interval contains both, or there is none.

        >>> Estimate(0.1, 0.0, 0.2).within(0.3), Estimate(0.1, 0.0, 0.2).within(0.1), Estimate(0.5).within(1.0)
        (True, None, None)
        """
        if self.low is None or self.high is None:
            return None
        if -distance < self.low and self.high < distance:
            return True
        return False if self.low >= distance or self.high <= -distance else None

    def opposite(self) -> Estimate:
        """Return the estimate of the negative mean."""
        if self.low is None or self.high is None:
            return Estimate(-self.value)
        return Estimate(-self.value, -self.high, -self.low)


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
    >>> measured.mean(1, "a", "delay"), measured.gain(1, "a", "b", "delay").value
    (2.5, 0.5)
    """

    def __init__(self, repetitions: Iterable[Iterable[Point]]) -> None:
        self._found: dict[tuple[Coordinate, str, str], dict[int, float]] = {}
        for number, points in enumerate(repetitions):
            for x, algorithm, metric, value in points:
                if not math.isnan(value):
                    self._found.setdefault((x, algorithm, metric), {})[number] = value

    def rows(self) -> list[Row]:
        """Return all points over repetitions, in the order of their first measurement."""
        return [Row(*key, *interval(list(values.values()))) for key, values in self._found.items()]

    def xs(self, metric: str, algorithm: str | None = None) -> list[Coordinate]:
        """Return the coordinates at which a metric was measured, in the order of the measurements."""
        return list(dict.fromkeys(x for x, of, what in self._found if what == metric and algorithm in (None, of)))

    def algorithms(self, metric: str) -> list[str]:
        """Return the algorithms for which a metric was measured, in the order of the measurements."""
        return list(dict.fromkeys(of for _, of, what in self._found if what == metric))

    def values(self, x: Coordinate, algorithm: str, metric: str) -> dict[int, float]:
        """Return the value of each repetition by its number; empty without measurements."""
        return self._found.get((x, algorithm, metric), {})

    def mean(self, x: Coordinate, algorithm: str, metric: str) -> float | None:
        """Return the mean over repetitions; None without measurements."""
        values = self.values(x, algorithm, metric)
        return math.fsum(values.values()) / len(values) if values else None

    def course(self, algorithm: str, metric: str) -> list[tuple[float, float]]:
        """Return pairs of a numeric coordinate and the mean there, in ascending order."""
        means = ((x, self.mean(x, algorithm, metric)) for x in self.xs(metric, algorithm))
        return sorted((float(x), mean) for x, mean in means if mean is not None)

    def changes(self, algorithm: str, metric: str) -> list[tuple[float, Estimate | None]]:
        """Return pairs of a numeric coordinate and the change to it from the one before, within repetitions."""
        places = [x for x, _ in self.course(algorithm, metric)]
        return [
            (x, self.paired((x, algorithm, metric), (before, algorithm, metric), lambda value, was: value - was))
            for before, x in pairwise(places)
        ]

    def estimate(self, x: Coordinate, algorithm: str, metric: str) -> Estimate | None:
        """Return the mean over repetitions with its interval; None without measurements."""
        return Estimate.of(self.values(x, algorithm, metric).values())

    def paired(
        self, one: tuple[Coordinate, str, str], other: tuple[Coordinate, str, str], how: Callable[[float, float], float]
    ) -> Estimate | None:
        """Return the mean of ``how(one, other)`` over the repetitions that measured both; None if none did.

        Parameters
        ----------
        one, other
            Coordinate, algorithm and metric of each.
        how
            Function of their values in one repetition, such as :func:`less`.
        """
        ours, theirs = self.values(*one), self.values(*other)
        return Estimate.of(how(ours[number], theirs[number]) for number in ours if number in theirs)

    def gain(self, x: Coordinate, one: str, other: str, metric: str) -> Estimate | None:
        """Return the share by which ``one`` is below ``other``, within repetitions: 0.25 for a quarter less."""
        return self.paired((x, one, metric), (x, other, metric), less)

    def difference(self, x: Coordinate, one: str, other: str, metric: str) -> Estimate | None:
        """Return the mean of ``one`` minus ``other``, within repetitions."""
        return self.paired((x, one, metric), (x, other, metric), lambda ours, theirs: ours - theirs)

    def lower(self, x: Coordinate, one: str, other: str, metric: str) -> bool | None:
        """Whether ``one`` is below ``other`` by an interval that excludes zero; None if that is undecided."""
        found = self.difference(x, one, other, metric)
        return None if found is None else found.below()

    def higher(self, x: Coordinate, one: str, other: str, metric: str, margin: float = 0.0) -> bool | None:
        """Whether ``one`` is above ``other`` less a margin, by an interval that excludes that; None if undecided."""
        found = self.difference(x, one, other, metric)
        return None if found is None else found.above(-margin)

    def over_repetitions(
        self, how: Callable[Concatenate[Measured, Given], float | None], *given: Given.args, **named: Given.kwargs
    ) -> Estimate | None:
        """Return the mean over repetitions of a function of the measurements of one; None where it has no value.

        Parameters
        ----------
        how
            Function of the measurements of one repetition, and of the other arguments.
        given, named
            Other arguments of the function.
        """
        numbers = sorted({number for values in self._found.values() for number in values})
        found = (how(self._only(number), *given, **named) for number in numbers)
        return Estimate.of(value for value in found if value is not None)

    def _only(self, number: int) -> Measured:
        """Return the points of one repetition."""
        points = [Point(*key, values[number]) for key, values in self._found.items() if number in values]
        return Measured([points])


def less(ours: float, theirs: float) -> float:
    """Return the share by which ours is below theirs: 0.25 for a quarter less."""
    return 1.0 - ours / theirs if theirs else 0.0


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    known = [each for each in values if each is not None]
    return math.fsum(known) / len(known) if known else None
