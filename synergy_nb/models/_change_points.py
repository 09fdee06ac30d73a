"""Online detection of changes of the mean rate of a stream.

The model of arrivals between changes is Poisson. Two tests run side by side; the first one that raises an alarm places
the change where its likelihood is greatest:

* *Change to an unknown rate.* The generalised likelihood ratio of "one rate" against "one rate up to s, another from s
on",
  both estimated, largest over s [3]_. Candidates for s are ends of blocks of at least 4 tuples, and starts of
  silences. The older candidates are, the fewer are retained, so that the cost of an arrival does not grow with the time
  since the last change.
* *Return to a known rate.* Bursty traffic alternates (the ON/OFF model), so the high and the low rates of the recent
  past form two levels. A CUSUM chart [1]_ from the present rate to each level sums up the log likelihood ratio of every
  observation. Two known rates about double the information of an arrival: at alternating 30 and 10 tuples/s, 1.25 s
  each, the first test finds two changes in five before the next one, both tests together four in five.

Both have thresholds of about ln(A), A being ``false_alarm``. On a stream of constant rate the mean number of tuples
from one false alarm to the next is at least A (Lorden [2]_ bounds it so for a chart whose rates are known). A change
from r to r' with the information I = r' ln(r' / r) - r' + r nats a second is found after 1.5 ln(A) / I seconds on
average at most, if r' is a known level, and otherwise after 2.5 ln(A) / I and the 4 tuples of a block. No test finds a
change that ends before that: a few tuples of Poisson arrivals say little about their rate.

Thresholds are multiplied by the variability of the stream from one block to the next, 1 for Poisson arrivals. So a
stream with bursts of few tuples has no more false alarms, and changes of a regular one are found faster.

References
----------
.. [1] E. S. Page, "Continuous inspection schemes", *Biometrika* 41, 1954.
.. [2] G. Lorden, "Procedures for reacting to a change in distribution", *Annals of Mathematical Statistics* 42(6),
   1971.
.. [3] T. L. Lai, "Sequential changepoint detection in quality control and dynamical systems", *Journal of the Royal
   Statistical Society B* 57(4), 1995.
"""

from __future__ import annotations

import math
from collections import deque
from math import log
from typing import Final

BLOCK: Final = 4  # least number of tuples between two candidates for a change
AGES: Final = 14  # number of ages of candidates: 2**k blocks for each k below it
KEPT: Final = 3  # candidates that are retained of each age
APART: Final = 1.3  # least ratio of the rates of two levels
BELIEF: Final = 16.0  # weight of a known level in the estimate of the present rate, tuples
VARIABILITY: Final = 256.0  # blocks over which the variability is averaged
# ratio to the variability of a Poisson process up to which a difference may be an error of measurement
DOUBT: Final = 1.2

Mark = tuple[float, int, float]
"""Time, and the tuples and seconds of work that have arrived by then. A plain tuple, as each arrival makes one."""


class _Chart:
    """CUSUM from the present rate to a known level [1]_, for counts over gaps of any length."""

    __slots__ = ("drift", "gain", "level", "rate", "reviewed", "since", "threshold", "upwards", "value")

    def __init__(self, level: float, rate: float, threshold: float, since: Mark, *, upwards: bool) -> None:
        self.level = level
        self.upwards = upwards
        self.threshold = threshold
        self.value = 0.0
        self.since = since  # time at which the value was last 0, the estimated time of a change
        self.reviewed = since[1]
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        self.rate = rate
        apart = self.level > APART * rate if self.upwards else rate > APART * self.level
        self.gain = log(self.level / rate) if apart else 0.0  # the present rate is this level
        self.drift = self.level - rate if apart else 0.0


class RateChanges:
    """Detector of changes of the mean rate of one stream.

    Examples
    --------
    >>> watched = RateChanges()
    >>> for number in range(1, 101):
    ...     watched.observe(number / 10, 1)
    >>> while not watched.changes:
    ...     watched.observe(watched.now[0] + 0.01, 1)
    >>> round(watched.start[0], 2), round(watched.now[0] - watched.start[0], 2)
    (10.0, 0.04)
    """

    __slots__ = (
        "_block",
        "_blocks",
        "_charts",
        "_high",
        "_known",
        "_last",
        "_low",
        "_scatter",
        "_weight",
        "ages",
        "changes",
        "false_alarm",
        "memory",
        "now",
        "start",
    )

    def __init__(self, memory: float = 10.0, *, start: float = 0.0, false_alarm: float = 300.0) -> None:
        if not 0.0 < memory < math.inf:
            raise ValueError(f"memory: {memory}; expected a positive number of seconds")
        if not 200.0 <= false_alarm < math.inf:
            raise ValueError(f"false_alarm: {false_alarm}; expected a number of tuples from 200")
        self.memory = memory  # time for which rates are retained as levels, seconds
        # least mean number A of tuples between false alarms on a stream of constant rate
        self.false_alarm = false_alarm
        self.changes = 0  # number of changes found
        self.start: Mark = (start, 0, 0.0)  # mark of the last change of the rate
        self.now: Mark = self.start  # mark of the last observation
        self._high: tuple[float, float] | None = None  # tuples and seconds at the level of high rate, fading
        self._low: tuple[float, float] | None = None
        self._known = 0  # changes since no level was known
        self._charts: tuple[_Chart, ...] = ()
        self._weight = self._scatter = 16.0  # initial values of a Poisson stream
        self._last: tuple[int, float] | None = None  # tuples and seconds of the previous block
        self.ages: list[deque[Mark]] = []
        self._blocks = 0  # number of retained blocks
        self._block = self.start  # end of the last block
        self._restart()

    def observe(self, time: float, count: int = 1, work: float = 0.0) -> None:
        """Observe the tuples that have arrived since the last observation, up to ``time``, with their work.

        Zero tuples are information about the rate, too. Tuples that arrive together are observed together.

        ``time``: time of the observation, seconds; not before the last one; ``count``: number of tuples; ``work``:
        processing time of these tuples together, seconds.
        """
        before = self.now
        then, counted, worked = before
        gap = time - then
        if not (gap >= 0.0 and count >= 0 and work >= 0.0):
            what = f"time, count, work: {time}, {count}, {work}"
            raise ValueError(f"{what}; expected a time from {then} on, and numbers from 0")
        total = counted + count
        self.now = now = (time, total, worked + work)
        if gap > 0.0:
            for chart in self._charts:
                value = chart.value + count * chart.gain - gap * chart.drift
                if value <= 0.0:
                    chart.value = 0.0
                    chart.since = now
                    if total > chart.reviewed:
                        self._review(chart)
                else:
                    chart.value = value
                    if value > chart.threshold * self._caution() and chart.since[0] > self.start[0]:
                        self._change(chart.since, chart.level)
                        return
        ended, filled, _ = self._block
        if total - filled >= BLOCK:
            if time > ended:
                self._scattered(total - filled, time - ended)
                self._end_block()
        elif gap > 0.0:
            began, at_start, _ = self.start
            if (counted - at_start) * gap > 2 * BLOCK * (then - began) > 0.0:  # silence
                if then > ended:
                    self._keep(before)
                self._end_block()

    def _end_block(self) -> None:
        """Test for a change at one of the candidates, and add the present as a candidate."""
        time, total, _ = self.now
        began, at_start, _ = self.start
        count, seconds = total - at_start, time - began
        if count and seconds > 0.0:
            best, found = 0.0, None
            one_rate = count * log(count / seconds)
            number = self._blocks + 1
            for age, candidates in enumerate(self.ages):
                for mark in candidates:
                    since = time - mark[0]
                    if since > 0.0:
                        earlier, later = mark[1] - at_start, total - mark[1]
                        ratio = earlier * log(earlier / (mark[0] - began)) - one_rate if earlier else -one_rate
                        if later:
                            ratio += later * log(later / since)
                        if ratio > best:
                            best, found = ratio, mark
                if not candidates or number & ((1 << age) - 1):
                    break  # older candidates are tested only as often as they are retained
            if found is not None and best > (log(self.false_alarm) - 0.3) * self._caution():
                self._change(found)
                return
            if seconds > self.memory:  # the levels are outside the memory
                self._high = self._low = None
                self._charts = ()
                self._known = 0
            elif not self._charts:
                self._watch()
        self._keep(self.now)

    def _keep(self, mark: Mark) -> None:
        """Retain a candidate: of those 2^k blocks old, every 2^k-th one."""
        self._blocks = number = self._blocks + 1
        self._block = mark
        for age in range(AGES):
            if age == len(self.ages):  # lists grow with the age of the stream, so a silent stream takes no memory
                self.ages.append(deque(maxlen=KEPT))
            self.ages[age].append(mark)
            if number >> age & 1:
                break

    # -- detected changes ---------------------------------------------------------------------------------------------

    def _change(self, mark: Mark, level: float | None = None) -> None:
        """Record a change of the rate at ``mark``, to a known level or to an unknown rate."""
        time, total, _ = self.now
        began, at_start, _ = self.start
        changed, at_change, _ = mark
        count, seconds = at_change - at_start, changed - began
        self.changes += 1
        levels = self._levels()
        if levels is not None:
            high, low = levels
            upper = count * log(high / low) > (high - low) * seconds if high > low else count > high * seconds
        else:
            upper = count * (time - changed) > (total - at_change) * seconds
        fading = math.exp(-seconds / self.memory)
        tuples, length = (self._high if upper else self._low) or (0.0, 0.0)
        known = max(count, 0.5) + fading * tuples, seconds + fading * length
        if upper:
            self._high = known
        else:
            self._low = known
        self._known += 1
        self.start = mark
        self._watch(level)
        self._restart()

    def _levels(self) -> tuple[float, float] | None:
        """Levels: the mean rates of the segments of high rate and of low rate."""
        if self._high is None or self._low is None:
            return None
        return self._high[0] / self._high[1], self._low[0] / self._low[1]

    def _watch(self, level: float | None = None) -> None:
        """Start charts for a return to either level, once both levels and the segment's own rate are known."""
        self._charts = ()
        levels = self._levels()
        if levels is None or self._known < 2 or levels[0] < APART * levels[1]:
            return
        high, low = levels
        count, seconds = self.now[1] - self.start[1], self.now[0] - self.start[0]
        if level is None:  # the level that the observations so far do not contradict
            rate = max(count, 0.5) / seconds
            near = min((high, low), key=lambda each: abs(log(each / rate)))
            if count * log(rate / near) - count + near * seconds < 2.0:
                level = near
            elif count < BELIEF:
                return
            else:
                level = rate
        rate = (count + BELIEF) / (seconds + BELIEF / level)
        ratio = high / low
        upwards, downwards = ratio - 1.0 - log(ratio), 1.0 / ratio - 1.0 + log(ratio)  # nats per tuple, without change
        self._charts = (
            _Chart(high, rate, max(log(self.false_alarm * upwards), 2.0), self.now, upwards=True),
            _Chart(low, rate, max(log(self.false_alarm * downwards), 2.0), self.now, upwards=False),
        )

    def _review(self, chart: _Chart) -> None:
        """Update the estimate of the segment's rate from the tuples before the chart began to rise."""
        count, seconds = self.now[1] - self.start[1], self.now[0] - self.start[0]
        chart.set_rate((count + BELIEF) / (seconds + BELIEF / chart.rate))
        chart.reviewed = self.now[1] + (count >> 3)

    def _restart(self) -> None:
        """Discard all candidates and begin a new segment."""
        self.ages = []
        self._blocks, self._block = 0, self.now
        self._last = None

    # -- variability --------------------------------------------------------------------------------------------------

    def _scattered(self, count: int, seconds: float) -> None:
        """Compare a block with the previous one: for Poisson arrivals, the log of a rate has variance 1 / (n - 1/2)."""
        last, self._last = self._last, (count, seconds)
        if last is not None:
            difference = log(count * last[1] / (last[0] * seconds))
            expected = 1.0 / (count - 0.5) + 1.0 / (last[0] - 0.5)
            keep = 1.0 - 1.0 / VARIABILITY
            self._scatter = keep * self._scatter + min(difference * difference / expected, 64.0)
            self._weight = keep * self._weight + 1.0

    def _caution(self) -> float:
        """Factor of the thresholds."""
        value = self._scatter / self._weight
        if value > 1.0:
            return max(min(value, 1.0 + 2.0 * (value - DOUBT)), 1.0)
        return max(min(value * DOUBT, 1.0), 0.25)

    @property
    def scv(self) -> float:
        """Variance of short counts over their mean, compared from block to block: c_a² between changes, 1 for Poisson.

        It includes changes that end too soon to be found.
        """
        return self._scatter / self._weight
