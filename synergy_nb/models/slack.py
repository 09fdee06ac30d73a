"""Slack of tuples at the components of an application (dissertation, section 3.3.1, equation 3.1).

The slack of a tuple at component i is its limit q_t minus the times that were measured on its path to i and those that
are predicted from i on:

    t_s(i) = q_t - ( Σ_{j<i} t_c(j→j+1) + Σ_{j<i} t_e(j) + Σ_{j>=i} t̂_c(j) + Σ_{j>=i} t̂_e(j) )

The measured part is different for each tuple and is carried with it; the predicted part is the same for all tuples
until the next feedback. So :class:`PredictedPaths` computes the predicted part once for all components, and the slack
of a batch of tuples is one subtraction.

Decisions that the dissertation leaves open:

=============================  =========================================================================================
slack of exactly zero          a violation: "the slack time t_s needs to be positive"
several paths downstream       the least slack over them: "identify a hot-spot in the path where it exists"; the longest
                               path counts as in equation 2.8. Each sink has its own limit
active replicas                the first of them counts, as their readers wait for none of the others: among the
                               readers of a component the replica that leaves most, among its producers the fastest
several paths upstream         the time of the tuple that made the component give its output (t_e + t_c along the
                               path that this tuple took): what a sink measures as the delay
t̂_c of the last component      0: the last component of a path is its sink, where the delay is measured
windows                        t_e leaves out how long a tuple waits for its window to close: a
                               window of 20 minutes would exceed any limit
"persistently fails"           :class:`Persistence`: at least 5 tuples in a row, over at least 1 s. A single late tuple
                               is no hot spot; at low rates 5 tuples alone would take too long to tell
who acts                       only the component that exceeds its profiled time τ by most, on the violated path
                               (:meth:`PredictedPaths.excesses`); the most upstream of equals. Every component of the
                               path sees the violation, and each would migrate otherwise
=============================  =========================================================================================

*Taps.* Where applications share a stream, their components and hops form one graph whose sinks have their own limits:
the slack of a shared component is the least one over all of its readers. The caller chooses the keys of components,
such as pairs of application and operator. *Parts on Spark* are one component, whose times include the latency of
micro-batches.

Examples
--------
Figure 3.2, where component C is overloaded:

>>> paths = PredictedPaths(
...     hops={("A", "B"): 0.062, ("A", "C"): 0.068, ("B", "D"): 0.075, ("C", "D"): 0.058},
...     times={"A": 0.022, "B": 0.055, "C": 0.340, "D": 0.040},
...     limits={"D": 0.5},
... )
>>> [round(float(paths.slack(component, 0.0)), 3) for component in "ABCD"]
[-0.028, 0.33, 0.062, 0.46]
>>> paths.through("A"), round(float(paths.slack("B", 0.020 + 0.060)), 3)
(('A', 'C', 'D'), 0.25)
>>> paths.excesses("A", {"A": 0.018, "B": 0.045, "C": 0.050, "D": 0.025})[0][0]
'C'
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Persistence", "PredictedPaths"]

TUPLES: Final = 5  # number of consecutive tuples without slack that make a hot spot
SECONDS: Final = 1.0  # least time from the first of them to the last

Component = TypeVar("Component", bound=Hashable)
Array = npt.NDArray[np.float64]


class PredictedPaths(Generic[Component]):
    """Predicted times from each component of an application to its sinks.

    Raises ``ValueError`` if a time is out of range, if a component of a hop or a limit has no predicted time, or if the
    graph has a cycle.
    """

    __slots__ = ("_after", "_before", "_downstream", "_headroom", "_hops", "_limits", "_upstream", "times")

    def __init__(
        self,
        # mean communication time t̂_c of each (producer, consumer), seconds. The hops define the component graph
        hops: Mapping[tuple[Component, Component], float],
        times: Mapping[Component, float],  # component to its predicted execution time t̂_e, seconds
        # sink to the limit q_t of its end-to-end execution time, seconds. Sinks without a limit are omitted
        limits: Mapping[Component, float],
        # active replica to its operator; components without replicas are omitted
        replica_of: Mapping[Component, Hashable] = MappingProxyType({}),
    ) -> None:
        for name, given in (("hops", hops), ("times", times), ("limits", limits)):
            for key, seconds in given.items():
                if not 0.0 <= seconds < math.inf:
                    raise ValueError(f"{name}: {seconds} of {key!r}; expected seconds from 0")
        self.times = times
        self._hops = hops
        self._limits = limits
        self._downstream: dict[Component, list[Component]] = {each: [] for each in times}
        self._upstream: dict[Component, list[Component]] = {each: [] for each in times}
        for producer, consumer in hops:
            for each in (producer, consumer):
                if each not in times:
                    raise ValueError(f"times: none of {each!r}, which has a hop; expected a predicted execution time")
            self._downstream[producer].append(consumer)
            self._upstream[consumer].append(producer)
        for each in limits:
            if each not in times:
                raise ValueError(f"times: none of {each!r}, which has a limit; expected a predicted execution time")
        order = self._sorted()
        self._headroom: dict[Component, float] = {}
        self._after: dict[Component, Component | None] = {}
        for each in reversed(order):
            least, after = limits.get(each, math.inf), None
            readers: dict[Hashable, tuple[float, Component]] = {}  # of active replicas the one whose results are first
            for consumer in self._downstream[each]:
                left, of = self._headroom[consumer] - hops[each, consumer], replica_of.get(consumer, consumer)
                if of not in readers or left > readers[of][0]:
                    readers[of] = left, consumer
            for left, consumer in readers.values():
                if left < least:
                    least, after = left, consumer
            self._headroom[each] = least - times[each]
            self._after[each] = after
        spent: dict[Component, float] = {}
        self._before: dict[Component, Component | None] = {}
        for each in order:
            most, before = 0.0, None
            fastest: dict[Hashable, tuple[float, Component]] = {}  # likewise
            for producer in self._upstream[each]:
                taken = spent[producer] + times[producer] + hops[producer, each]
                of = replica_of.get(producer, producer)
                if of not in fastest or taken < fastest[of][0]:
                    fastest[of] = taken, producer
            for taken, producer in fastest.values():
                if before is None or taken > most:
                    most, before = taken, producer
            spent[each] = most
            self._before[each] = before

    def _sorted(self) -> list[Component]:
        """All components, producers before their consumers."""
        missing = {each: len(producers) for each, producers in self._upstream.items()}
        order = [each for each, count in missing.items() if not count]
        for each in order:
            for consumer in self._downstream[each]:
                missing[consumer] -= 1
                if not missing[consumer]:
                    order.append(consumer)
        if len(order) < len(missing):
            cyclic = next(each for each, count in missing.items() if count)
            raise ValueError(f"hops: {cyclic!r} is downstream of itself or of such a component; expected no cycles")
        return order

    def headroom(self, component: Component) -> float:
        """Largest age of a tuple on arrival at a component that leaves slack 0, seconds; infinite without a limit."""
        return self._headroom[component]

    def departure_limit(self, component: Component) -> float:
        """Largest age of a tuple on departure from a component that leaves slack 0, seconds; infinite without a limit.

        Slack is this age, less the age of the tuple on its arrival, less the execution time t̂_e of the component.
        """
        return self._headroom[component] + self.times[component]

    def slack(self, component: Component, elapsed: npt.ArrayLike) -> Array:
        """Slack t_s of tuples at a component (equation 3.1), seconds.

        ``elapsed``: measured time from the birth of each tuple to its arrival there, seconds; any shape.

        Returns: slack in seconds, of the shape of ``elapsed``: the least over all paths from the component to a sink
        with a limit.
        """
        return np.asarray(self._headroom[component] - np.asarray(elapsed, dtype=np.float64))

    def allowed(self, component: Component, elapsed: npt.ArrayLike) -> Array:
        """Longest execution time of tuples at a component that their limit allows, t_s + t̂_e, seconds."""
        return np.asarray(self.slack(component, elapsed) + self.times[component])

    def violated(self, component: Component, elapsed: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Mask of the tuples that are predicted to miss their limit: their slack is not positive."""
        return np.asarray(self.slack(component, elapsed) <= 0.0)

    def through(self, component: Component) -> tuple[Component, ...]:
        """Find the path with the least predicted slack from a source through a component to a sink."""
        path = [component]
        while (before := self._before[path[0]]) is not None:
            path.insert(0, before)
        while (after := self._after[path[-1]]) is not None:
            path.append(after)
        return tuple(path)

    def excesses(self, component: Component, profiled: Mapping[Component, float]) -> list[tuple[Component, float]]:
        """List components of the worst path through a component by excess over their profiled times, greatest first.

        The first component acts on a violation; if it answers that it cannot help, the next one does.

        ``component``: component that detects the violation; ``profiled``: component to its processing time τ without
        queueing, seconds.

        Returns: components with t̂_e - τ in seconds; of equal ones the most upstream is first.
        """
        found = [(each, self.times[each] - profiled[each]) for each in self.through(component)]
        return sorted(found, key=lambda pair: -pair[1])


class Persistence:
    """Detector of a hot spot: tuples that persistently have no slack (section 3.2).

    Examples
    --------
    >>> persistence = Persistence(tuples=3, seconds=0.5)
    >>> [persistence.observe(time, [slack]) for time, slack in [(0.0, -1), (0.3, 0.0), (0.4, -1), (0.6, -1), (0.7, 1)]]
    [False, False, False, True, False]
    """

    __slots__ = ("_count", "_since", "seconds", "tuples")

    def __init__(self, tuples: int = TUPLES, seconds: float = SECONDS) -> None:
        if tuples < 1 or not 0.0 <= seconds < math.inf:
            raise ValueError(f"tuples, seconds: {tuples}, {seconds}; expected at least 1 tuple, and seconds from 0")
        self.tuples = tuples  # least number of consecutive tuples without slack
        self.seconds = seconds  # least time from the first of them to the last, seconds
        self._count = 0
        self._since = 0.0

    @property
    def count(self) -> int:
        """Number of consecutive tuples without slack up to the last one."""
        return self._count

    def lasted(self, time: float) -> float:
        """Time from the first of these tuples to ``time``, seconds; 0 if there are none."""
        return time - self._since if self._count else 0.0

    def add(self, time: float, slack: float) -> bool:
        """Count one tuple, as :meth:`observe` does."""
        if slack > 0.0:
            self._count = 0
            return False
        if not self._count:
            self._since = time
        self._count += 1
        return self._count >= self.tuples and time - self._since >= self.seconds

    def observe(self, time: float, slacks: npt.ArrayLike) -> bool:
        """Count tuples that were evaluated at ``time``, in their order; return whether they make a hot spot.

        ``time``: time of the evaluation, seconds; not before the last one; ``slacks``: slack of each tuple, seconds.
        """
        kept = np.flatnonzero(np.atleast_1d(np.asarray(slacks, dtype=np.float64)) > 0.0)
        count = np.size(slacks)
        last = int(kept[-1]) + 1 if len(kept) else 0
        if last:
            self._count = 0
        if count > last:
            if not self._count:
                self._since = time
            self._count += count - last
        return self._count >= self.tuples and time - self._since >= self.seconds
