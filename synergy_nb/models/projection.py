"""QoS impact projection: the effect of a new application on those that run, and of these on it (section 2.3.4).

A peer that processes a probe projects the additional delay δ of every application with a component there, and of the
requesting application, and checks that each stays within its limit, t̂ + δ <= q_t (equations 2.9 and 2.11). A projector
(:mod:`synergy_nb.models.projectors`) stretches the processing time of the local components, or adds waiting. δ is the
largest increase over all paths (equation 2.8), so it is at least the increase of the application's delay, whichever of
its paths was the longest before. Communication is not projected (footnote 4).

For running applications, t̂ is measured at their sinks and includes all waiting. For the requesting application, t̂ is
the sum of the processing and transmission times on its probe's path so far. Profiled processing times exclude waiting,
so its δ is the whole expected waiting at this peer, not the difference to the previous load.

Where streams have signatures, the projection covers each segment of the window: not segments of one length w, as in the
dissertation, but from each change of a stream to the next. For equal segments both are the same; for others, pieces of
length w average the end of a burst with the time after it.

Examples
--------
A peer of load 0.5 runs an application for which it executes 20 ms of work a tuple. With a load of 0.25 more, its tuples
take 80 ms there rather than 40:

>>> running = LocalApplication("a", [Local("filter", 0.02, 0.5)], time=0.1, limit=0.13)
>>> asking = LocalApplication("b", [Local("sort", 0.01, Profiled(0.25, 0.1, 0.0))], time=0.05, limit=1.0)
>>> [(each.application, each.after, each.acceptable) for each in impacts([running], asking)]
[('a', 0.14, False), ('b', 0.08, True)]
>>> impacts([running], asking, ProjectionConfig(load="mean"))[0].after
0.11
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from synergy_nb.models.projectors import PROJECTORS, Amount, SojournTimes, Traffic, sojourn_times
from synergy_nb.models.signatures import Pattern, Profiled, Segment, aggregate

__all__ = ["Impact", "Local", "LocalApplication", "Profiled", "ProjectionConfig", "further", "impacts", "refused"]

LOADS: Final = ("signature", "maximum", "mean", "minimum")
SEGMENTS: Final = ("every", "mean", "minimum", "maximum")
WITHIN: Final = 1.0 + 1e-9  # share of the limit up to which a sum is acceptable: sums have rounding errors

ALONE: Final = SojournTimes(1.0, 0.0)  # sojourn times at an idle peer

Array = npt.NDArray[np.float64]


class ProjectionConfig(msgspec.Struct, frozen=True):
    """Parameters of the projection.

    Raises ``ValueError`` if a value is invalid; the text names the field, the value and what was expected.
    """

    # projector `mm1` (the dissertation's), `mg1`, `gg1` or `transient`, see `synergy_nb.models.projectors`
    projector: str = "mm1"
    # assumed load of the requested components. `signature`: that of each segment of their signatures, added to those of
    # the running components (figure 2.9), where a profiled load counts by its maximum. Otherwise the same load in all
    # segments: their `maximum` (equation 2.11, which errs on the safe side), `mean` or `minimum`
    load: str = "signature"
    # segments of the window whose projected times have to be acceptable: `every` one, or their `mean`, `minimum` or
    # `maximum`
    segments: str = "every"
    window: float = 10.0  # length W of signatures, seconds
    # probability with which the mean execution time over `interval` seconds, or over a shorter segment, does not exceed
    # the projection; 0 projects the expected mean
    confidence: float = 0.0
    # time between two feedback messages, over which execution times are averaged before the comparison with a limit,
    # seconds
    interval: float = 1.0
    # share of its execution time by which an application that misses its limit already may be slowed down further. Such
    # an application cannot meet its limit anyway, so a plan is refused only for the delay that it would add. 0 refuses
    # a plan that adds any delay
    worsening: float = 0.05

    def __post_init__(self) -> None:
        for field, known in (("projector", PROJECTORS), ("load", LOADS), ("segments", SEGMENTS)):
            if getattr(self, field) not in known:
                raise ValueError(f"{field}: {getattr(self, field)!r}; expected {' or '.join(known)}")
        for field in ("window", "interval"):
            if not 0.0 < getattr(self, field) < math.inf:
                raise ValueError(f"{field}: {getattr(self, field)}; expected a positive number of seconds")
        if not 0.0 <= self.worsening < math.inf:
            raise ValueError(f"worsening: {self.worsening}; expected a share of at least 0")
        if not (self.confidence == 0.0 or 0.5 <= self.confidence < 1.0):
            raise ValueError(f"confidence: {self.confidence}; expected 0, or a probability from 0.5 to below 1")


_More: TypeAlias = tuple[float, float]  # additional seconds per second of processing, and per component
Load: TypeAlias = float | Profiled | Pattern | tuple[Segment, ...]
"""Load: a number, a profile, or a signature with or without absolute times."""


class Local(NamedTuple):
    """A component at this peer."""

    operator: str  # id of its operator in the application
    tau: float  # processing time τ of a tuple at this peer, seconds; it takes the peer's capacity into account
    # load as a share of the peer's capacity. A shared component is listed with each application whose delay depends on
    # it, but its load with only one of them
    load: Load = 0.0
    # scv, scv_arrivals: variabilities c_s² of processing times and c_a² of the times between arrivals, for projectors
    # that use them
    scv: float = 1.0
    scv_arrivals: float = 1.0


class LocalApplication:
    """An application with components at this peer; made once, when they are deployed.

    Raises ``ValueError`` if a value is invalid; the text names the component.
    """

    __slots__ = ("_traffic", "components", "limit", "most", "name", "path", "signed", "time")

    def __init__(
        self,
        name: str,  # id of the application
        components: Iterable[Local],  # components at this peer that tuples of the application pass
        # operator to the operators that it reads, for the whole plan or the relevant part of it; by default every
        # component is a path of its own
        upstream: Mapping[str, Sequence[str]] | None = None,
        *,
        # end-to-end execution time t̂ in seconds: the measured time, or for the application that asks the time that its
        # probe has found so far, processing times of these components included
        time: float,
        limit: float | None = None,  # delay limit q_t, seconds; None if it has none
    ) -> None:
        self.name = name
        self.components = tuple(components)
        self.time = time  # end-to-end execution time t̂, seconds; feedback updates it
        self.limit = limit
        self.signed = False
        self._traffic: dict[str, Traffic] = {}
        for each in self.components:
            load = each.load
            if _segments(load) is not None:
                self.signed = True
            most = _most(load)
            if not (0.0 <= most < math.inf and 0.0 <= each.tau < math.inf and (each.tau or not most)):
                what = f"application {name!r}, {each.operator!r}: tau {each.tau} s, load {load}"
                raise ValueError(f"{what}; expected numbers from 0, and a processing time where there is load")
        taus = {each.operator: each.tau for each in self.components}
        self.path = _longest(taus, upstream or {})  # seconds of processing, on the longest path of components here
        self.most = _longest(dict.fromkeys(taus, 1.0), upstream or {})  # components here on one path

    def traffic(self, policy: str) -> Traffic:
        """Traffic of its components at the peer; a policy reduces signatures to their mean, minimum or maximum."""
        known = self._traffic.get(policy)
        if known is None:
            parts = (Traffic.of(_count(c.load, policy), c.tau, c.scv, c.scv_arrivals) for c in self.components)
            known = self._traffic[policy] = Traffic.together(parts)
        return known


def _segments(load: Load) -> Pattern | tuple[Segment, ...] | None:
    """Return the load itself if it is a signature, otherwise None."""
    return load if isinstance(load, Pattern) or (isinstance(load, tuple) and not isinstance(load, Profiled)) else None


def _most(load: Load) -> float:
    if isinstance(load, Pattern):
        return max(load.loads, default=math.nan)
    if isinstance(load, tuple) and not isinstance(load, Profiled):
        return max((each.load for each in load), default=math.nan)
    return load.maximum if isinstance(load, Profiled) else load


def _count(load: Load, policy: str) -> float:
    if not isinstance(load, (Pattern, tuple)):
        return load
    profiled = load.profiled if isinstance(load, Pattern) else load if isinstance(load, Profiled) else Profiled.of(load)
    return profiled.mean if policy == "mean" else profiled.minimum if policy == "minimum" else profiled.maximum


def _longest(weights: Mapping[str, float], upstream: Mapping[str, Sequence[str]]) -> float:
    """Greatest sum of weights on a path of a directed acyclic graph."""
    if len(weights) < 2:
        return max(weights.values(), default=0.0)
    reached: dict[str, float] = {}
    for sink in (*weights, *upstream):
        waiting = [sink]
        while waiting:
            operator = waiting[-1]
            before = upstream.get(operator, ())
            missing = [each for each in before if each not in reached]
            if missing and operator not in reached:
                if len(waiting) > len(upstream) + len(weights):
                    raise ValueError(f"upstream: {operator!r} is upstream of itself; expected an acyclic graph")
                waiting.append(missing[0])
                continue
            waiting.pop()
            reached[operator] = weights.get(operator, 0.0) + max((reached[each] for each in before), default=0.0)
    return max(reached.values())


class Impact(NamedTuple):
    """Projected impact on one application."""

    application: str
    # before, after: end-to-end execution time t̂ in seconds at present, and t̂ + δ
    before: float
    after: float
    limit: float | None  # delay limit q_t, seconds, or None
    # whether `after` is within the limit; for an application that misses its limit already, whether `after` exceeds
    # `before` by no more than the share `worsening` of `ProjectionConfig`
    acceptable: bool
    segment: int  # index of the worst segment of the window; 0 for regular traffic
    worst: float  # execution time t̂ + δ in that segment, seconds; equal to `after` if every segment counts

    def __str__(self) -> str:
        limit = "no limit" if self.limit is None else f"limit {self.limit:.4g} s"
        projected = f"{self.after:.4g} s projected" if self.after < math.inf else "no capacity left with it"
        return f"{self.application}: {self.before:.4g} s now, {projected}, {limit}"


def impacts(
    running: Sequence[LocalApplication],
    asking: LocalApplication,  # requesting application, with the components that it would have at this peer
    config: ProjectionConfig | None = None,
    # load of the peer by other work, as a share of its capacity; the model gives its tuples the distribution of these
    # applications' tuples. A profile or a signature of it counts like that of the requesting application
    background: Load = 0.0,
) -> list[Impact]:
    """Project the impact of executing an application's components at this peer.

    Returns: impact on each running application, in their order, and last on the requesting one. All are infinite if the
    peer would be overloaded.
    """
    config = config or ProjectionConfig()
    lengths: Array | None = None
    by_segment = config.load == "signature"
    signed = True in [each.signed for each in running]  # half the time of a generator; this runs for every probe
    if signed or (by_segment and (asking.signed or _segments(background) is not None)):
        lengths, before, new, beside = _through_window(running, asking, background, config)
    else:
        before = Traffic.together([each.traffic(config.load) for each in running])
        new = asking.traffic(config.load)
        beside = _count(background, config.load)
    if np.any(beside):
        before, new = _with_background(before, new, beside)
    was = sojourn_times(config.projector, before, lengths)
    spans = config.interval if lengths is None else lengths
    will = sojourn_times(config.projector, before.plus(new), spans, config.confidence, config.interval)
    if lengths is None:
        found = _judged(running, _more(will, was), config.worsening)
        return found + _judged((asking,), _more(will, ALONE), None)
    segment = int(np.argmax(np.broadcast_to(np.add(will.stretch, will.waiting), lengths.shape)))
    projected = []
    worsening = config.worsening
    for applications, than, allowed in ((running, was, worsening), ((asking,), ALONE, None)):
        found = _judged(applications, _more(will, than, lengths, config.segments), allowed)
        worst = found if config.segments == "every" else _judged(applications, _more(will, than, lengths), allowed)
        projected += [
            each._replace(segment=segment, worst=there.after) for each, there in zip(found, worst, strict=True)
        ]
    return projected


def further(impact: Impact, seconds: float, worsening: float) -> Impact:
    """Return the impact on an application that other peers of the same path delay by some seconds, too.

    >>> further(Impact("a", 0.1, 0.12, 0.13, True, 0, 0.12), 0.02, 0.05).acceptable
    False
    """
    after = impact.after + seconds
    limit = (impact.limit or 0.0) * WITHIN
    late = impact.before > limit and after <= impact.before * (1.0 + worsening) * WITHIN
    return impact._replace(after=after, acceptable=impact.limit is None or after <= limit or late)


def refused(projected: Iterable[Impact]) -> Impact | None:
    """Impact on the application that would miss its limit by most, or None if all impacts are acceptable."""
    over = [each for each in projected if not each.acceptable]
    return max(over, key=lambda each: each.after - (each.limit or 0.0), default=None)


def _judged(applications: Sequence[LocalApplication], more: _More, worsening: float | None) -> list[Impact]:
    """Impacts on applications; ``worsening`` is the share allowed to late applications, None if none runs."""
    stretch, waiting = more
    found = []
    for each in applications:
        before, limit = each.time, each.limit
        after = before + each.path * stretch + each.most * waiting if each.most else before
        acceptable = limit is None or after <= limit * WITHIN
        if not acceptable and worsening is not None and before > (limit or 0.0) * WITHIN:
            acceptable = after <= before * (1.0 + worsening) * WITHIN
        # Impact(...) in half the time: each probe makes one per application
        found.append(tuple.__new__(Impact, (each.name, before, after, limit, acceptable, 0, after)))
    return found


def _more(will: SojournTimes, was: SojournTimes, lengths: Array | None = None, policy: str = "every") -> _More:
    """Compute the time that is added to tuples, for the segments that a policy chooses."""
    stretch = _longer(will.stretch, was.stretch, lengths, policy)
    if stretch == math.inf:
        return 0.0, math.inf  # a component without processing time waits for ever, too
    return stretch, _longer(will.waiting, was.waiting, lengths, policy)


def _longer(after: float | Array, before: float | Array, lengths: Array | None, policy: str) -> float:
    if lengths is None or not (isinstance(after, np.ndarray) or isinstance(before, np.ndarray)):
        return float(after - before) if after < math.inf else math.inf
    later, earlier = np.broadcast_to(after, lengths.shape), np.broadcast_to(before, lengths.shape)
    if policy == "every":
        return float((later - earlier).max()) if np.isfinite(later).all() else math.inf
    most = _over_segments(later, lengths, policy)
    return most - _over_segments(earlier, lengths, policy) if most < math.inf else math.inf


def _over_segments(values: Array, lengths: Array, policy: str) -> float:
    if policy == "mean":
        return float(np.dot(values, lengths) / lengths.sum())
    return float(values.max() if policy == "maximum" else values.min())


def _through_window(
    running: Sequence[LocalApplication], asking: LocalApplication, background: Load, config: ProjectionConfig
) -> tuple[Array, Traffic, Traffic, Amount]:
    """Return the lengths of the common segments of all signatures in seconds, and for each segment the traffic of
    running applications, that of the requesting one, and the background load.
    """
    by_segment = config.load == "signature"
    steady: list[Traffic] = []  # of running applications
    added: list[Traffic] = []
    bursty: list[Local] = []  # of running applications, and from index ``many`` of the requesting one
    for application in running:
        if not application.signed:
            steady.append(application.traffic(config.load))
            continue
        for each in application.components:
            if _segments(each.load) is not None:
                bursty.append(each)
            else:
                steady.append(Traffic.of(_count(each.load, config.load), each.tau, each.scv, each.scv_arrivals))
    many = len(bursty)
    for each in asking.components:
        if by_segment and _segments(each.load) is not None:
            bursty.append(each)
        else:
            added.append(Traffic.of(_count(each.load, config.load), each.tau, each.scv, each.scv_arrivals))
    loads = [load for each in bursty if (load := _segments(each.load)) is not None]
    last = _segments(background) if by_segment else None
    if last is not None:
        loads.append(last)
    window = max([config.window, *(load.length for load in loads if isinstance(load, Pattern))])
    end = max((load[-1].end for load in loads if not isinstance(load, Pattern)), default=0.0)
    signatures = [load.until(end, window) if isinstance(load, Pattern) else load for load in loads]
    pieces = aggregate(signatures, end - window, window)
    parts = [
        Traffic.of(values, each.tau, each.scv, each.scv_arrivals)
        for values, each in zip(pieces.loads, bursty, strict=False)  # the last may be the background's
    ]
    beside: Amount = pieces.loads[-1] if last is not None else _count(background, config.load)
    before, new = Traffic.together([*steady, *parts[:many]]), Traffic.together([*added, *parts[many:]])
    return pieces.lengths, before, new, beside


def _with_background(before: Traffic, new: Traffic, load: Amount) -> tuple[Traffic, Traffic]:
    """Add background load, with tuples like those of running applications, or else of the requesting one."""
    like = before if np.all(before.load) else new
    if not np.all(like.load):
        return before._replace(load=before.load + load), new
    share = load / like.load
    return before.plus(Traffic(load, like.residual * share, like.varied * share)), new
