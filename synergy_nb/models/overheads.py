"""Overheads: the measured time of an item at a peer in addition to the processing of its tuples.

The processing time τ of a plan's operator (section 2.2.2) is the mean cost of a tuple in a large batch. At low rates
tuples arrive alone, and other costs dominate: the wake-up of a sleeping thread, the call of an operator on a batch of
one tuple, the frame on the wire. A projection without them predicts microseconds instead of milliseconds.

:class:`Overheads` holds the mean and the variance of the measured seconds of each *stage* on a tuple's path. Stages are
the kinds of operators, ``source`` (from the due time of a tuple until it leaves its source) and ``hop`` (the processing
of a frame by its reader; pings measure its transmission). An operator's stage has two parts: the cost of any item in
queues, threads and bookkeeping, and the call of the operator. Calibration measures the calls of all kinds before a plan
runs. The estimate for a kind that has not run at this peer yet is that of a reference kind, plus the difference of both
calls.

:func:`quantile` computes the delay that a given share of the tuples does not exceed from the mean and the variance of a
whole path: the model of the path's delay is log-normal, with a tail as long as that of measured delays.
:func:`together` is the variance of a path, whose stages are slow at the same times, as they share a machine.

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
from synergy_nb.plan.checks.operator_flows import pause_of
from synergy_nb.plan.derived.gathering import gathering
from synergy_nb.plan.derived.spark_parts import PART, pace
from synergy_nb.plan.operators.catalogue import KINDS

__all__ = [
    "FADING_COUNT",
    "HOP",
    "LINK",
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
FADING_COUNT: Final = 100  # effective number of observations of the fading mean and variance
OUTLIER: Final = 5.0  # standard deviations from the mean to which outliers are clipped
EARLY: Final = 9  # number of first observations, which are clipped to a multiple of their median
LEAST: Final = 0.25  # least overhead of a kind of operator, as a share of that of the reference
#: Correlation of the times of two stages of one path. It was .19 (quartiles .15 and .24) in 40 plans on an idle machine
#: and .17 (.11 and .23) in 20 plans on a busy one, where tuples were followed through each stage.
CORRELATION: Final = 0.2


class Overhead(NamedTuple):
    """The time of one stage: ``mean`` in seconds, ``variance`` in seconds squared."""

    mean: float
    variance: float


class ExponentialMoments:
    """Mean and variance with exponentially fading weights; the first observations are weighted equally.

    The first :data:`EARLY` observations are clipped to :data:`OUTLIER` times their median, as the start of a peer slows
    it down.

    Examples
    --------
    >>> fading = ExponentialMoments()
    >>> for seconds in (2.0, 0.001, 0.001):
    ...     fading.add(seconds)
    >>> round(fading.mean, 6)
    0.002333
    """

    __slots__ = ("_first", "_memory", "count", "mean", "variance")

    def __init__(self, memory: int = FADING_COUNT) -> None:
        self._memory = memory  # effective number of observations
        self._first: list[float] = []
        self.count = 0
        self.mean = 0.0
        self.variance = 0.0

    def add(self, value: float) -> None:
        """Add an observation; outliers are clipped."""
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
        """Reduce the weight of all previous observations to that of one."""
        self._first = [self.mean]
        self.count = 1


class Overheads:
    """Measured overheads of one peer, by stage."""

    def __init__(self, together: float = 0.0) -> None:
        # time span of the tuples that a source emits in one batch, seconds; 0 if it emits tuples one by one and gathers
        # none, as those of a simulation
        self.together = together
        self._stages: dict[str, ExponentialMoments] = {}
        self._calls: dict[str, ExponentialMoments] = {}

    @classmethod
    def known(cls, stages: Mapping[str, Overhead], together: float = 0.0) -> Overheads:
        """Make overheads from measurements of others, for instance of live peers for simulated ones."""
        overheads = cls(together)
        overheads.assume(stages, {})
        return overheads

    def assume(self, stages: Mapping[str, tuple[float, float]], calls: Mapping[str, tuple[float, float]]) -> None:
        """Adopt measurements of others: means and variances of stages, and of calls without queueing."""
        for known, given in ((self._stages, stages), (self._calls, calls)):
            for name, (mean, variance) in given.items():
                fading = known[name] = ExponentialMoments()
                fading.count, fading.mean, fading.variance = FADING_COUNT, mean, variance

    def observe(self, stage: str, seconds: float) -> None:
        """Add a measurement of a stage.

        ``stage``: kind of operator, :data:`SOURCE` or :data:`HOP`; ``seconds``: measured time minus the processing time
        that the plan states, seconds. A negative number counts as zero.
        """
        stages = self._stages
        if stage not in stages:
            stages[stage] = ExponentialMoments()
        stages[stage].add(max(seconds, 0.0))

    def calibrate(self, kind: str, seconds: float) -> None:
        """Add a measurement of an operator's call without queueing, seconds."""
        if kind not in self._calls:
            self._calls[kind] = ExponentialMoments()
        self._calls[kind].add(seconds)

    def discount(self) -> None:
        """Reduce the weight of all previous measurements to that of one, as they were made while the peer started."""
        for each in (*self._stages.values(), *self._calls.values()):
            each.discount()

    @property
    def empty(self) -> bool:
        """Whether nothing has been measured."""
        return not self._stages

    def expected(self, stage: str) -> Overhead:
        """Expected mean and variance of the next item at a stage."""
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
        """Expected time of a tuple at a component in addition to processing and to waiting for other components.

        It includes waiting for the tuples of the same item: those of a source's batch, or of a closed window. Windows
        are lengths of event time, and a replay may pass thousands of seconds of event time per second. For a part on
        Spark the time of its micro-batches includes all of this. A source that gathers tuples keeps each back for the
        whole of its time: what is gathered is as old as its oldest tuple.
        """
        node = plan.operators[operator]
        if node.kind == PART:
            return Overhead(0.0, 0.0)
        expected = self.expected(node.kind)
        if not self.together:
            return expected
        if not node.inputs:
            return Overhead(expected.mean + gathering(plan, operator), expected.variance)
        span = max((self.together, *(gathering(plan, each) for each in plan.sources)))
        for upstream in node.inputs:
            window, speed = plan.window(upstream) or {}, pace(plan, upstream)
            if speed > 0.0:  # otherwise the number of tuples of a window is unknown
                span = max(span, pause_of(window) / speed)
        beside = plan.input_rate(operator) * span * plan.processing_time(operator)
        return Overhead(expected.mean + beside, expected.variance + beside * beside / 4.0)

    def measured(self) -> dict[str, Overhead]:
        """Stages that have been measured at this peer."""
        return {stage: Overhead(each.mean, each.variance) for stage, each in sorted(self._stages.items())}

    def calls(self) -> dict[str, Overhead]:
        """Measured calls without queueing, by kind of operator."""
        return {kind: Overhead(each.mean, each.variance) for kind, each in sorted(self._calls.items())}


def together(variances: Iterable[float]) -> float:
    """Variance of the sum of the correlated times of the stages of a path, seconds squared.

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
    """Delay that a share of the tuples does not exceed, seconds.

    ``mean``, ``variance``: mean delay in seconds and its variance in seconds squared; ``share``: share of the tuples,
    in (0, 1).

    Returns: quantile of the log-normal distribution with this mean and variance, at least the mean, which has to be
    within a limit as well (equation 2.9); infinite where the mean is infinite.
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
