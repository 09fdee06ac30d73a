"""The time that an item takes at a peer beside the processing of its tuples: measured, and kept up to date.

The processing time τ of a plan's operator (section 2.2.2) is what one tuple costs among many. At low rates tuples come
alone, and then other things decide how long they take: the wake-up of a thread that has slept, the call of an operator
on a batch of one tuple, the frame on the wire. A projection without them promises microseconds where milliseconds pass.

:class:`Overheads` keeps, for each *stage* on a tuple's way, the mean and the variance of the measured seconds. Stages
are the kinds of operators, ``source`` (from when a tuple is due until it leaves its source) and ``hop`` (what the
reader does with a frame; the way to it is measured by pings). An operator's stage has two parts: what any item costs,
as queues, threads and bookkeeping have it, and the call of the operator. Calls alone are measured by calibration, of
every kind, before a plan runs. A kind that has not run here yet is expected to take what the reference takes, and as
much more or less as its call takes more or less than that of the reference.

:func:`quantile` turns the mean and the variance of a whole path into the time that a given share of its tuples keeps:
the path's delay is taken for log-normal, whose tail is as long as that of measured delays. :func:`together` is the
variance of a path: its stages are slow at the same times, as they share a machine.

A pure data structure: no messages, no clock, bounded by the number of kinds. Where nothing is measured, as in a
simulation of the papers' model, all overheads are zero.

Examples
--------
>>> overheads = Overheads()
>>> overheads.expected("filter")
Overhead(mean=0.0, variance=0.0)
>>> for seconds in (0.0004, 0.0005, 0.0006):
...     overheads.observe("filter", seconds)
>>> for kind, seconds in (("filter", 0.0002), ("aggregate", 0.0032)):
...     overheads.calibrate(kind, seconds)
>>> round(overheads.expected("filter").mean, 6), round(overheads.expected("aggregate").mean, 6)
(0.0005, 0.0035)
>>> round(quantile(0.010, 0.000025, 0.95), 4), quantile(0.010, 0.0, 0.95)
(0.0195, 0.01)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Final, NamedTuple

from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import KINDS
from synergy_nb.plan.spark_parts import PART, pace

__all__ = [
    "HOP",
    "LINK",
    "MEMORY",
    "REFERENCE",
    "SOURCE",
    "ExponentialMoments",
    "Overhead",
    "Overheads",
    "exceeding",
    "quantile",
    "together",
]

SOURCE: Final = "source"
HOP: Final = "hop"
LINK: Final = "link"
REFERENCE: Final = "filter"
MEMORY: Final = 100  # observations that the fading mean and variance are about
OUTLIER: Final = 5.0  # standard deviations beyond which an observation counts as so far away and no further
EARLY: Final = 9  # observations of which none counts as much more than their median
LEAST: Final = 0.25  # share of what the reference takes that any other kind takes at least
#: Correlation of the times that two stages of one path take. Of 40 plans on a machine at rest and 20 on a busy one, all
#: with tuples followed through each stage, it was .19 (quartiles .15 and .24) and .17 (.11 and .23).
CORRELATION: Final = 0.2


class Overhead(NamedTuple):
    """The time of one stage: ``mean`` in seconds, ``variance`` in seconds squared."""

    mean: float
    variance: float


class ExponentialMoments:
    """Mean and variance with exponentially fading weights; the first observations are weighted equally.

    Of the first :data:`EARLY` none counts as more than :data:`OUTLIER` times their median, whichever comes first: a
    peer that starts is held up by its own start.

    Parameters
    ----------
    memory
        Number of observations that count.

    Examples
    --------
    >>> fading = ExponentialMoments()
    >>> for seconds in (2.0, 0.001, 0.001):
    ...     fading.add(seconds)
    >>> round(fading.mean, 6)
    0.002333
    """

    __slots__ = ("_first", "_memory", "count", "mean", "variance")

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._first: list[float] = []
        self.count = 0
        self.mean = 0.0
        self.variance = 0.0

    def add(self, value: float) -> None:
        """Count one observation; an outlier counts as less extreme than it is."""
        if self.count < EARLY:
            self._first.append(value)
            most = OUTLIER * sorted(self._first)[(len(self._first) - 1) // 2]
            bounded = [min(each, most) for each in self._first]
            self.count = len(bounded)
            self.mean = math.fsum(bounded) / self.count
            self.variance = math.fsum((each - self.mean) ** 2 for each in bounded) / self.count
            return
        value = min(value, self.mean + OUTLIER * max(math.sqrt(self.variance), 0.5 * self.mean))
        self.count = min(self.count + 1, self._memory)
        gain = 1.0 / self.count
        error = value - self.mean
        self.mean += gain * error
        self.variance = (1.0 - gain) * (self.variance + gain * error * error)

    def discount(self) -> None:
        """Let all that was observed so far count as one observation."""
        self._first = [self.mean]
        self.count = 1


class Overheads:
    """Measured overheads of one peer, by stage.

    Parameters
    ----------
    together
        Length of the stream, in seconds, that a source hands over in one batch; 0: tuples come one by one.
    """

    def __init__(self, together: float = 0.0) -> None:
        self.together = together
        self._stages: dict[str, ExponentialMoments] = {}
        self._calls: dict[str, ExponentialMoments] = {}

    @classmethod
    def known(cls, stages: Mapping[str, Overhead], together: float = 0.0) -> Overheads:
        """Overheads as they were measured elsewhere, for instance by live peers for simulated ones."""
        overheads = cls(together)
        overheads.assume(stages, {})
        return overheads

    def assume(self, stages: Mapping[str, tuple[float, float]], calls: Mapping[str, tuple[float, float]]) -> None:
        """Take over what was measured elsewhere: means and variances of stages, and of calls that nobody waits for."""
        for known, given in ((self._stages, stages), (self._calls, calls)):
            for name, (mean, variance) in given.items():
                fading = known[name] = ExponentialMoments()
                fading.count, fading.mean, fading.variance = MEMORY, mean, variance

    def observe(self, stage: str, seconds: float) -> None:
        """Count one measurement of a stage.

        Parameters
        ----------
        stage
            A kind of operator, :data:`SOURCE` or :data:`HOP`.
        seconds
            Seconds that it took without the processing time that the plan states. A negative number counts as zero.
        """
        stages = self._stages
        if stage not in stages:
            stages[stage] = ExponentialMoments()
        stages[stage].add(max(seconds, 0.0))

    def calibrate(self, kind: str, seconds: float) -> None:
        """Count one call of an operator that nobody waits for, in seconds."""
        if kind not in self._calls:
            self._calls[kind] = ExponentialMoments()
        self._calls[kind].add(seconds)

    def discount(self) -> None:
        """Let all that was measured so far count as one observation: it was while the peer started."""
        for each in (*self._stages.values(), *self._calls.values()):
            each.discount()

    @property
    def empty(self) -> bool:
        """Whether nothing has been measured."""
        return not self._stages

    def expected(self, stage: str) -> Overhead:
        """Mean and variance that the next item is expected to take at a stage."""
        measured = self._stages.get(stage)
        if measured is not None:
            return Overhead(measured.mean, measured.variance)
        reference, call, shown = self._stages.get(REFERENCE), self._calls.get(stage), self._calls.get(REFERENCE)
        if reference is None or stage == SOURCE or stage not in KINDS:
            return Overhead(0.0, 0.0)
        if call is None or shown is None:
            return Overhead(reference.mean, reference.variance)
        mean = max(reference.mean + call.mean - shown.mean, LEAST * reference.mean)
        return Overhead(mean, reference.variance * (mean / reference.mean) ** 2 if reference.mean else call.variance)

    def component(self, plan: Plan, operator: str) -> Overhead:
        """The time that a tuple takes at a component beside processing and waiting for other components.

        It also waits for the tuples that it comes with: those of a source's batch, or of the window that has closed.
        Windows are lengths of event time, of which a replay may go through thousands of seconds in one.
        For a part on Spark all of that is contained in the time of its micro-batches.
        """
        asked = plan.operators[operator]
        if asked.kind == PART:
            return Overhead(0.0, 0.0)
        expected = self.expected(asked.kind)
        if not self.together or not asked.inputs:
            return expected
        span = self.together
        for upstream in asked.inputs:
            window, speed = plan.window(upstream) or {}, pace(plan, upstream)
            if speed > 0.0:  # else nobody knows how many tuples a window will hold
                span = max(span, float(window.get("slide") or window.get("length") or 0.0) / speed)
        beside = plan.input_rate(operator) * span * plan.processing_time(operator)
        return Overhead(expected.mean + beside, expected.variance + beside * beside / 4.0)

    def measured(self) -> dict[str, Overhead]:
        """The stages that have been measured here."""
        return {stage: Overhead(each.mean, each.variance) for stage, each in sorted(self._stages.items())}

    def calls(self) -> dict[str, Overhead]:
        """The calls that nobody waits for, by kind of operator."""
        return {kind: Overhead(each.mean, each.variance) for kind, each in sorted(self._calls.items())}


def together(variances: Iterable[float]) -> float:
    """Variance of the sum of times that are correlated as those of the stages of a path are, in seconds squared.

    With standard deviations σ and the correlation ρ of any two, Var Σ X = Σ σ² + ρ Σ_{i≠j} σ_i σ_j, where the last sum
    is (Σ σ)² - Σ σ².

    >>> together([4.0]), together([]), round(together([4.0, 9.0]), 2)
    (4.0, 0.0, 15.4)
    """
    each = tuple(variances)
    alone = math.fsum(each)
    if len(each) < 2 or not 0.0 < alone < math.inf:
        return alone
    return alone + CORRELATION * max(math.fsum(map(math.sqrt, each)) ** 2 - alone, 0.0)


def quantile(mean: float, variance: float, share: float) -> float:
    """Seconds that a share of the tuples does not exceed.

    Parameters
    ----------
    mean, variance
        Mean delay in seconds and its variance in seconds squared.
    share
        Share of the tuples, in (0, 1).

    Returns
    -------
    float
        The quantile of the log-normal distribution with this mean and variance, but not less than the mean, which has
        to be within a limit as well (equation 2.9); infinite where the mean is.
    """
    if not (variance > 0.0 and 0.0 < mean < math.inf):
        return mean
    located, spread = _lognormal(mean, variance)
    return max(mean, math.exp(located + NormalDist().inv_cdf(share) * spread))


def exceeding(mean: float, variance: float, limit: float) -> float:
    """Share of the tuples that take longer than ``limit`` seconds, by the distribution of :func:`quantile`.

    >>> round(exceeding(0.010, 0.000025, 0.0195), 2), exceeding(0.010, 0.0, 0.02), exceeding(math.inf, 0.0, 1.0)
    (0.05, 0.0, 1.0)
    """
    if not (variance > 0.0 and 0.0 < mean < math.inf):
        return float(mean > limit)
    if limit <= 0.0:
        return 1.0
    located, spread = _lognormal(mean, variance)
    return 1.0 - NormalDist().cdf((math.log(limit) - located) / spread)


def _lognormal(mean: float, variance: float) -> tuple[float, float]:
    """Parameters μ and σ of the log-normal distribution with a mean and a variance."""
    squared = math.log1p(variance / (mean * mean))
    return math.log(mean) - squared / 2.0, math.sqrt(squared)
