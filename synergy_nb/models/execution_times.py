"""Execution times of a component, predicted from the total rate of its node (dissertation, section 3.3.2).

The execution time t_e of a tuple is the time from its arrival at a component to its departure: queueing and
processing. :class:`ExecutionTimes` is a line through the most recent pairs of t_e and of r_t, the total rate of all
applications at the node (equation 3.2), and predicts t_e at an expected rate (equation 3.4). Where the standard
error of the slope (equation 3.5) is above the confidence level C, the last measurement is reported instead.

Decisions that the dissertation leaves open:

================================  ======================================================================================
k, the length of the window       128 pairs by default: some seconds at 50 tuples/s
C                                 the literal test se(b) > C; :func:`confidence_level` is the default for C. As se(b)
                                  has a unit, s per (tuple/s), no bare number fits all applications: C = ε q_t / r̄_t
                                  lets the error of the slope move a prediction by about the share ε of the limit q_t
fewer than three pairs, or equal  no line: equation 3.5 is not defined. The last measurement is reported
rates
a prediction below the            the profiled time τ (``floor``): a line through the times of a lightly loaded node
processing time                   may cross zero
rates beyond those of the window  allowed and marked: near saturation times grow faster than a line does
more load than the node has       a line through steady times says nothing of it: the backlog grows by load - 1 seconds
capacity                          a second for as long as the load lasts. Where ``predict`` is given the load and a
                                  horizon, t̂_e is that of a tuple that arrives then; without, it is equation 3.4
"the sum of rates of all          the sum of the present rates of *all* applications at the node, itself included. By
applications, data tuples of      the literal reading, a fast application mostly has none but its own rate between two
which were processed since the    of its tuples: r_t would depend on how tuples interleave. Claim B2 measures both
last time"                        readings
tuples in batches                 one pair for each item that was executed, with the time of its oldest tuple
================================  ======================================================================================

What we found
-------------
Equation 3.4 alone predicts no hot spot of a node whose rate rises beyond its capacity. Where a node takes 10 ms a
tuple, its load rises from 0.8 to 1.2 and the limit is 0.5 s, the line is through times that lag behind the queue: the
hot spot is seen 1.5 s after the first tuple that misses, as by the last measurement. With the backlog as it grows over
the next 5 s it is seen 0.25 s before that tuple, and before it in all of 1,000 runs with jitter.

Examples
--------
>>> times = ExecutionTimes()
>>> for rate, seconds in [(100, 0.011), (140, 0.0124), (180, 0.0151), (220, 0.016), (260, 0.0193)]:
...     times.observe(rate, seconds)
>>> predicted = times.predict(300, level=1e-5)
>>> round(predicted.seconds, 6), predicted.basis, predicted.extrapolated
(0.02082, 'line', True)
>>> times.predict(300, level=1e-6).seconds
0.0193
>>> round(times.predict(300, level=1e-5, load=1.2, horizon=5.0).seconds, 4)
1.0193
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from synergy_nb.models._moments import PairedMoments

__all__ = ["HORIZON", "Basis", "Deviations", "ExecutionTimes", "Predicted", "RegressionLine", "confidence_level"]

WINDOW: Final = 128  # number k of pairs in the window
SHARE: Final = 0.05  # share ε of the limit by which the error of the slope may move a prediction
COMPARED: Final = 8  # number of comparisons of predicted and measured times that are kept
ALIKE: Final = 7  # number of these that have to be off in the same direction for the predictions to count as off
# a comparison is off if the measured time is longer, or shorter, than the predicted one by this factor
OFF: Final = 2.0
TELLABLE: Final = 1e-6  # seconds; shorter times cannot be told apart
HORIZON: Final = 5.0  # seconds ahead for which hot spots are predicted: the time to decide and to migrate

Basis: TypeAlias = Literal["line", "last measurement", "profile", "growing backlog"]


class RegressionLine(NamedTuple):
    """t_e = a + b r_t through the pairs of a window."""

    intercept: float  # intercept a, seconds
    slope: float  # slope b, seconds per tuple/s
    error: float  # standard error se(b) of the slope (equation 3.5), seconds per tuple/s
    pairs: int  # number of pairs k
    # mean_rate, lowest_rate, highest_rate: mean, least and greatest r_t of the pairs, tuples/s
    mean_rate: float
    lowest_rate: float
    highest_rate: float

    def at(self, rate: float) -> float:
        """Time at a total rate in tuples/s (equation 3.4), seconds."""
        return self.intercept + self.slope * rate


class Predicted(NamedTuple):
    """A predicted execution time and its basis."""

    seconds: float  # predicted execution time t̂_e, seconds
    # `line`; `last measurement` where the confidence test fails or there is no line; `profile` where nothing was
    # measured yet; `growing backlog` where more work is expected than the node can do
    basis: Basis
    extrapolated: bool  # whether a line was followed beyond the rates of its pairs
    line: RegressionLine | None  # line through the pairs, even if it was not used; None where there is none
    # rise of the time by the total rate of the node where the backlog grows, seconds per tuple/s; otherwise 0
    growth: float = 0.0


def confidence_level(limit: float, rate: float, share: float = SHARE) -> float:
    """Default for the confidence level C of an application, in seconds per tuple/s: ε q_t / r̄_t.

    Parameters
    ----------
    limit
        Limit q_t of the application, seconds.
    rate
        Mean total rate r̄_t of the node, tuples/s.
    share
        Share ε of the limit.

    Examples
    --------
    >>> confidence_level(limit=0.5, rate=250.0)
    0.0001
    """
    return share * limit / rate if rate > 0.0 else math.inf


class ExecutionTimes:
    """Execution times of one application's component at a node, by the total rate of the node.

    ``window``: number k of the most recent pairs that count.

    Raises ``ValueError`` if a parameter or a measurement is out of range.
    """

    __slots__ = ("_moments", "floor", "last")

    def __init__(self, window: int = WINDOW, *, floor: float = 0.0) -> None:
        if window < 3:
            raise ValueError(f"window: {window}; expected at least 3 pairs, as a line with an error needs them")
        if not 0.0 <= floor < math.inf:
            raise ValueError(f"floor: {floor}; expected seconds from 0")
        self._moments = PairedMoments(window)
        # profiled processing time τ of a tuple, seconds, the lower bound of predictions. For a part on Spark it is the
        # latency of its micro-batches
        self.floor = floor
        self.last: float | None = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[float, float]], *, window: int = WINDOW, floor: float = 0.0) -> ExecutionTimes:
        """Make execution times from pairs of r_t and t_e, earliest first, such as those in a migration request."""
        made = cls(window, floor=floor)
        for rate, seconds in pairs:
            made.observe(rate, seconds)
        return made

    def observe(self, rate: float, seconds: float) -> None:
        """Add a measurement.

        ``rate``: total rate r_t of the node when the item was executed, tuples/s; ``seconds``: execution time t_e of
        the item's oldest tuple, seconds.
        """
        if not (0.0 <= rate < math.inf and 0.0 <= seconds < math.inf):
            raise ValueError(f"rate, seconds: {rate}, {seconds}; expected finite numbers from 0")
        self._moments.add(rate, seconds)
        self.last = seconds

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Pairs of r_t (tuples/s) and t_e (seconds) in the window, earliest first."""
        return self._moments.pairs

    @property
    def mean_rate(self) -> float:
        """Mean total rate r̄_t of the pairs in the window, tuples/s; 0 without pairs."""
        return self._moments.mean_x

    def scaled(self, factor: float) -> ExecutionTimes:
        """Execution times at a node where processing takes ``factor`` times as long."""
        pairs = ((rate, seconds * factor) for rate, seconds in self.pairs)
        return ExecutionTimes.of(pairs, window=self._moments.window or WINDOW, floor=self.floor * factor)

    def set_floor(self, floor: float) -> None:
        """Set the profiled processing time τ of a tuple, seconds."""
        self.floor = floor

    def line(self) -> RegressionLine | None:
        """Line through the pairs; None with fewer than three pairs, and where all rates are equal."""
        moments = self._moments
        count = moments.count
        if count < 3 or moments.constant_x:
            return None
        slope = moments.xy / moments.xx
        residual = max(moments.yy - slope * moments.xy, 0.0)  # below 0 by rounding, where the line fits perfectly
        return RegressionLine(
            moments.mean_y - slope * moments.mean_x,
            slope,
            math.sqrt(residual / ((count - 2) * moments.xx)),
            count,
            moments.mean_x,
            moments.least_x,
            moments.most_x,
        )

    def predict(self, rate: float, level: float, *, load: float = 0.0, horizon: float = HORIZON) -> Predicted:
        """Predict the execution time at a total rate.

        ``rate``: expected total rate r̂_t of the node, tuples/s; ``level``: confidence level C: greatest standard error
        of the slope with which the line is trusted, s per (tuple/s); ``load``: expected load of the node at that rate,
        Σ r̂_l τ_l, as a share of its capacity. Above 1 the backlog grows; ``horizon``: seconds for which that load is
        expected to last.
        """
        steady = self._steady(rate, level)
        if load > 1.0 and self.last is not None:
            grown = self.last + (load - 1.0) * horizon
            if grown > steady.seconds:
                growth = load * horizon / rate if rate > 0.0 else 0.0
                return Predicted(grown, "growing backlog", extrapolated=False, line=steady.line, growth=growth)
        return steady

    def _steady(self, rate: float, level: float) -> Predicted:
        """Predict by equation 3.4, or by the last measurement."""
        if self.last is None:
            return Predicted(self.floor, "profile", extrapolated=False, line=None)
        line = self.line()
        if line is None or line.error > level:
            return Predicted(max(self.last, self.floor), "last measurement", extrapolated=False, line=line)
        beyond = not line.lowest_rate <= rate <= line.highest_rate
        return Predicted(max(line.at(rate), self.floor), "line", beyond, line)


class Deviations:
    """Comparisons of predicted execution times with those measured afterwards: whether the predictions are off.

    They are off if at least 7 of the last 8 comparisons have more than twice the predicted time, or less than half of
    it. Waiting times vary: of exponential ones with the predicted mean, a comparison is below half in 39 of 100, so
    right predictions seem off in 7 of 1,000. Times below a microsecond count as one, as clocks do not tell them apart.

    Examples
    --------
    >>> deviations = Deviations()
    >>> for measured in [0.002, 0.07, 0.05, 0.06, 0.08, 0.06, 0.05, 0.04]:
    ...     deviations.add(0.01, measured)
    >>> deviations.ratio
    5.5
    >>> deviations.add(0.01, 0.012)
    >>> deviations.add(0.01, 0.012)
    >>> deviations.ratio is None
    True
    """

    __slots__ = ("_ratios",)

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=COMPARED)

    def add(self, predicted: float, measured: float) -> None:
        """Compare a predicted execution time with the one that was measured, both in seconds."""
        self._ratios.append(max(measured, TELLABLE) / max(predicted, TELLABLE))

    @property
    def ratio(self) -> float | None:
        """Median of measured over predicted times, if the predictions are off; None if they are not, or not yet."""
        if len(self._ratios) < COMPARED:
            return None
        ordered, others = sorted(self._ratios), COMPARED - ALIKE
        off = ordered[others] > OFF or ordered[-1 - others] < 1.0 / OFF
        return statistics.median(ordered) if off else None
