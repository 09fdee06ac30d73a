"""Measurements of a claim: points of all repetitions, their means and intervals, and comparisons within repetitions.

Intervals are 95 % confidence intervals of the mean over repetitions (:mod:`.intervals`). Two policies are compared
within a repetition, in which both had the same network and the same requests, and then over repetitions: the result is
an :class:`Estimate`, whose interval decides the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeAlias

from scipy.special import ndtr, ndtri

from synergy_experiments.framework.intervals import TAIL, chance, interval

__all__ = [
    "UNDECIDED",
    "Coordinate",
    "Decision",
    "Estimate",
    "Measured",
    "Point",
    "Row",
    "both",
    "least_runs",
    "less",
    "mean_of_known",
]

Coordinate: TypeAlias = float | str
"""Coordinate of a point on the horizontal axis: a number, or the name of a group of bars."""

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


class Decision(NamedTuple):
    """Whether measurements decide a statement, and how easily chance alone would have them say that it is true.

    Parameters
    ----------
    true
        Whether the statement is true; None if the interval does not decide it.
    p
        Probability of measurements that speak at least as much for the statement, were it false; 0 if chance has no
        part in it.
    runs
        Least number of repetitions that have the values by which it is decided; None: it is computed, or not measured.
    """

    true: bool | None
    p: float = 1.0
    runs: int | None = None

    @classmethod
    def fact(cls, true: bool, runs: int | None = None) -> Decision:
        """Return a statement that every run decides by itself: not for means."""
        return cls(true, 0.0 if true else 1.0, runs)


UNDECIDED: Final = Decision(None)


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions, and its 95 % interval.

    Parameters
    ----------
    value
        Mean over repetitions.
    low, high
        Ends of its interval; None with one repetition.
    values
        Values of the repetitions, by which probabilities are computed; empty: those of a normal distribution with this
        interval.
    missing
        Number of repetitions that have no value, as a policy served nobody.
    """

    value: float
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()
    missing: int = 0

    @classmethod
    def of(
        cls, values: Iterable[float], missing: int = 0, bounds: tuple[float, float] = (-math.inf, math.inf)
    ) -> Estimate | None:
        """Return the estimate of the mean of independent values; None without any.

        Parameters
        ----------
        values
            Value of each repetition.
        missing
            Number of repetitions without a value.
        bounds
            Least and greatest value that the quantity can have, such as 0 and 1 of a share: an interval ends there.

        >>> Estimate.of([]) is None
        True
        >>> Estimate.of([0.5, 0.9], bounds=(0.0, 1.0)).high
        1.0
        """
        found = tuple(values)
        return cls(*_bounded(interval(found), bounds), found, missing) if found else None

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a computed value, whose interval is a point: it does not vary over repetitions."""
        return cls(value, value, value)

    def above(self, null: float = 0.0) -> Decision:
        """Whether the mean is above a number: undecided if the interval contains the number, or there is none.

        >>> [Estimate.of(each).above().true for each in ([1.0, 1.1, 0.9], [1.0, -0.8, 0.4], [1.0])]
        [True, None, None]
        """
        if self.low is None or self.high is None:
            return UNDECIDED._replace(runs=self.runs)
        true = True if self.low > null else False if self.high <= null else None
        return Decision(true, self._chance_above(null), self.runs)

    def at_least(self, null: float) -> Decision:
        """Whether the mean is a number or above it: a computed value may be that number."""
        return Decision.fact(self.value >= null, self.runs) if self._is_point else self.above(null)

    def at_most(self, null: float) -> Decision:
        """Whether the mean is a number or below it: a computed value may be that number."""
        return Decision.fact(self.value <= null, self.runs) if self._is_point else self.below(null)

    def below(self, null: float = 0.0) -> Decision:
        """Whether the mean is below a number: undecided if the interval contains the number, or there is none."""
        return self.opposite().above(-null)

    def between(self, least: float, most: float) -> Decision:
        """Whether the mean is between two numbers: true if the whole interval is (two one-sided tests).

        >>> Estimate(0.1, 0.0, 0.2).between(-0.3, 0.3).true, Estimate(0.1, 0.0, 0.2).between(0.0, 0.1).true
        (True, None)
        """
        return both(self.at_least(least), self.at_most(most))

    def within(self, distance: float) -> Decision:
        """Whether the mean is nearer to zero than a distance."""
        return self.between(-distance, distance)

    @property
    def runs(self) -> int | None:
        """Number of repetitions with a value; None of a computed number."""
        return len(self.values) or None

    @property
    def _is_point(self) -> bool:
        return self.low is not None and self.low == self.high

    def opposite(self) -> Estimate:
        """Return the estimate of the negative mean."""
        low, high = (None, None) if self.low is None or self.high is None else (-self.high, -self.low)
        return Estimate(-self.value, low, high, tuple(-each for each in self.values), self.missing)

    def _chance_above(self, null: float) -> float:
        """Probability of such values if the mean is at most ``null``."""
        if self.low is None or self.high is None:
            return 1.0
        if self._is_point:
            return 0.0 if self.value > null else 1.0
        if not self.values:
            return float(ndtr((null - self.value) * 2.0 * float(ndtri(TAIL)) / (self.low - self.high)))
        return chance(self.values, null)


class Measured:
    """Points of all repetitions.

    Parameters
    ----------
    repetitions
        Points of each repetition. NaN and infinity stand for a missing measurement, such as the delay of a policy that
        serves nobody; an :class:`Estimate` says how many are missing.
    shares
        Patterns of the names of metrics that are shares of a whole, whose intervals stay between 0 and 1.

    Examples
    --------
    >>> points = [[Point(1, "a", "delay", 2.0), Point(1, "b", "delay", 4.0)], [Point(1, "a", "delay", 3.0)]]
    >>> measured = Measured(points)
    >>> measured.mean(1, "a", "delay"), measured.gain(1, "a", "b", "delay").value
    (2.5, 0.5)
    """

    def __init__(self, repetitions: Iterable[Iterable[Point]], shares: Sequence[str] = ()) -> None:
        self._shares = shares
        self._found: dict[tuple[Coordinate, str, str], dict[int, float]] = {}
        self._each: list[Measured] = []
        self._repetitions = 0
        for number, points in enumerate(repetitions):
            self._repetitions += 1
            for x, algorithm, metric, value in points:
                self._found.setdefault((x, algorithm, metric), {})[number] = value
        for key, values in self._found.items():
            self._found[key] = {number: value for number, value in values.items() if math.isfinite(value)}

    def rows(self) -> list[Row]:
        """Return all points over repetitions, in the order of their first measurement."""
        return [
            Row(*key, *_bounded(interval(list(values.values())), self._bounds(key[2])))
            for key, values in self._found.items()
            if values
        ]

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
        return self._over(self.values(x, algorithm, metric).values(), self._bounds(metric))

    def _over(self, values: Iterable[float], bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate | None:
        found = tuple(values)
        return Estimate.of(found, self._repetitions - len(found), bounds)

    def _bounds(self, metric: str) -> tuple[float, float]:
        """Return the least and the greatest value that a metric can have."""
        share = any(fnmatchcase(metric, each) for each in self._shares)
        return (0.0, 1.0) if share else (-math.inf, math.inf)

    def paired(
        self,
        one: tuple[Coordinate, str, str],
        other: tuple[Coordinate, str, str],
        how: Callable[[float, float], float],
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate | None:
        """Return the mean of ``how(one, other)`` over the repetitions that measured both; None if none did.

        Parameters
        ----------
        one, other
            Coordinate, algorithm and metric of each.
        how
            Function of their values in one repetition, such as :func:`less`.
        bounds
            Least and greatest value that it can have.
        """
        ours, theirs = self.values(*one), self.values(*other)
        both_measured = (how(ours[number], theirs[number]) for number in ours if number in theirs)
        return self._over((value for value in both_measured if math.isfinite(value)), bounds)

    def gain(self, x: Coordinate, one: str, other: str, metric: str) -> Estimate | None:
        """Return the share by which ``one`` is below ``other``, within repetitions: 0.25 for a quarter less."""
        positive = all(
            value >= 0.0 for algorithm in (one, other) for value in self.values(x, algorithm, metric).values()
        )
        bounds = (-math.inf, 1.0 if positive else math.inf)  # nothing can be lowered by more than all of it
        return self.paired((x, one, metric), (x, other, metric), less, bounds)

    def difference(self, x: Coordinate, one: str, other: str, metric: str) -> Estimate | None:
        """Return the mean of ``one`` minus ``other``, within repetitions."""
        low, high = self._bounds(metric)
        return self.paired((x, one, metric), (x, other, metric), lambda ours, theirs: ours - theirs, (low - high, high))

    def lower(self, x: Coordinate, one: str, other: str, metric: str) -> Decision:
        """Whether ``one`` is below ``other`` by an interval that excludes zero."""
        found = self.difference(x, one, other, metric)
        return UNDECIDED if found is None else found.below()

    def higher(self, x: Coordinate, one: str, other: str, metric: str, margin: float = 0.0) -> Decision:
        """Whether ``one`` is above ``other`` less a margin, by an interval that excludes that."""
        found = self.difference(x, one, other, metric)
        return UNDECIDED if found is None else found.above(-margin)

    def not_above(
        self,
        one: tuple[Coordinate, str, str],
        other: tuple[Coordinate, str, str],
        factor: float = 1.0,
        more: float = 0.0,
    ) -> Decision:
        """Whether a value is at most ``factor`` times another one and ``more``, within repetitions, by an interval."""
        room = self.paired(one, other, lambda ours, theirs: factor * theirs + more - ours)
        return UNDECIDED if room is None else room.at_least(0.0)

    def always(self, x: Coordinate, algorithm: str, metric: str, true: Callable[[float], bool]) -> Decision:
        """Whether a statement is true of every repetition; undecided without measurements."""
        values = self.values(x, algorithm, metric).values()
        return Decision.fact(all(map(true, values)), len(values)) if values else UNDECIDED

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
        found = (how(one, *given, **named) for one in self.each())
        return self._over(value for value in found if value is not None and math.isfinite(value))

    def each(self) -> list[Measured]:
        """Return the measurements of each repetition by itself."""
        if not self._each:
            numbers = sorted({number for found in self._found.values() for number in found})
            self._each = [
                Measured(
                    [[Point(*key, found[number]) for key, found in self._found.items() if number in found]],
                    self._shares,
                )
                for number in numbers
            ]
        return self._each


def both(*statements: Decision | None) -> Decision:
    """Whether all statements are true; None is one that was not measured.

    >>> both(Decision(True, 0.01), None).true, both(Decision(False), None).true
    (None, False)
    """
    found = [UNDECIDED if each is None else each for each in statements]
    runs = least_runs(found)
    if any(each.true is False for each in found):
        return Decision(False, 1.0, runs)
    return Decision(None if any(each.true is None for each in found) else True, max(each.p for each in found), runs)


def least_runs(found: Iterable[Decision]) -> int | None:
    """Return the least number of repetitions by which one of the statements is decided; None if all are computed."""
    return min((each.runs for each in found if each.runs is not None), default=None)


def _bounded(
    found: tuple[float, float | None, float | None], bounds: tuple[float, float]
) -> tuple[float, float | None, float | None]:
    """Return a mean with its interval, which ends at the least and the greatest value that the quantity can have."""
    mean, low, high = found
    return (mean, None, None) if low is None or high is None else (mean, max(low, bounds[0]), min(high, bounds[1]))


def less(ours: float, theirs: float) -> float:
    """Return the share by which ours is below theirs: 0.25 for a quarter less; NaN if theirs is zero."""
    return 1.0 - ours / theirs if theirs else math.nan


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    known = [each for each in values if each is not None]
    return math.fsum(known) / len(known) if known else None
