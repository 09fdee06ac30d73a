"""How long tuples take at a peer of a given load: the projectors of section 2.3.4, on one interface.

A peer serves the tuples of all its components first come first served. Whatever the projector, the mean execution time
of a component with processing time τ there is ``stretch * τ + waiting`` (:class:`SojournTimes`), both being the same
for all components of the peer; so the impact on an application follows from the longest path of its local components.

=============  ===========================  ===========================================================================
projector      of a load p                  what it knows
=============  ===========================  ===========================================================================
``mm1``        τ / (1 - p)                  the load alone (equations 2.6 and 2.10): as if a component waited for its
                                            like only
``mg1``        τ + W, by Pollaczek and      the processing times of all components and how they vary: a quick component
               Khinchine                    waits for slow ones as long as these do
``gg1``        τ + W, by Kingman            also how arrivals vary, superposed over all streams, each for the work
                                            that it brings
``transient``  τ + W(t)                     also how long the load has been what it is: a queue takes time to fill and
                                            to empty. Without segments, as ``gg1``
=============  ===========================  ===========================================================================

Superposed streams are weighed by work rather than by tuples (Whitt's average,
:func:`synergy_nb.models.queueing.superposed`): variances of independent work add up, W = Σ λ τ² (c_a² + c_s²) / 2 / (1
- p). It is Kingman's formula for one stream and Pollaczek's and Khinchine's for Poisson ones; and one more stream never
lowers it, as it may lower the average c_a².

The transient projector follows the unfinished work of the peer through the segments by the pointwise stationary fluid
flow approximation [1]_. Work comes in at p seconds a second and is done while the server is busy; how often it is busy
when W seconds of work are left is taken from the steady state that has that W, W = K p / (1 - p):

    dW/dt = p - W / (W + K)

with K from Kingman's formula. The equation is solved exactly in each segment. The window is taken to repeat itself, as
signatures do, so it begins with what it ends with.

References
----------
.. [1] W.-P. Wang, D. Tipper, S. Banerjee, "A simple approximation for modeling nonstationary queues", *Proceedings of
   IEEE INFOCOM*, 1996.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from synergy_nb.models.queueing import execution_time, waiting_time

__all__ = ["PROJECTORS", "Amount", "SojournTimes", "Traffic", "execution", "sojourn_times", "through"]

PROJECTORS: Final = ("mm1", "mg1", "gg1", "transient")
CLOSE: Final = 1e-4  # loads so close to 1 are taken for that far from it: nothing else is in the way of exact formulas
ROUNDS: Final = 8  # of the window, at most, until it ends as it began

Array = npt.NDArray[np.float64]
Amount: TypeAlias = float | Array


class Traffic(NamedTuple):
    """What a peer has to do: sums over its components, each a number, or an array with one a segment.

    Parameters
    ----------
    load
        Share of its capacity, p = Σ λ τ.
    residual
        Σ λ τ² (1 + c_s²) / 2, seconds: service that is still to be done on the tuple in service, as a new one finds it.
    varied
        Σ λ τ² (c_a² + c_s²) / 2, seconds: the same where arrivals are not Poisson; how much the work that comes in
        varies in the long run.

    Examples
    --------
    >>> Traffic.of(load=0.5, tau=0.1, scv_arrivals=4.0)
    Traffic(load=0.5, residual=0.05, varied=0.125)
    """

    load: Amount = 0.0
    residual: Amount = 0.0
    varied: Amount = 0.0

    @classmethod
    def of(cls, load: Amount, tau: float, scv: float = 1.0, scv_arrivals: float = 1.0) -> Traffic:
        """Of one component: its load, and processing time τ in seconds at this peer.

        Parameters
        ----------
        load
            Share of the peer's capacity; a number, or one a segment.
        tau
            Seconds.
        scv, scv_arrivals
            c_s² of the processing time, c_a² of the times between arrivals.
        """
        work = load * (tau / 2.0)
        return cls(load, work * (1.0 + scv), work * (scv_arrivals + scv))

    def plus(self, other: Traffic) -> Traffic:
        """Both together."""
        return Traffic(self.load + other.load, self.residual + other.residual, self.varied + other.varied)

    @classmethod
    def together(cls, parts: Iterable[Traffic]) -> Traffic:
        """All of them together."""
        load: Amount = 0.0
        residual: Amount = 0.0
        varied: Amount = 0.0
        for more_load, more_residual, more_varied in parts:
            load = load + more_load  # not in place: an array may be somebody's
            residual = residual + more_residual
            varied = varied + more_varied
        return cls(load, residual, varied)


class SojournTimes(NamedTuple):
    """Mean execution times at a peer: ``stretch * τ + waiting`` for a component of processing time τ, in seconds."""

    stretch: Amount
    waiting: Amount


def sojourn_times(
    projector: str,
    traffic: Traffic,
    lengths: Array | float | None = None,
    confidence: float = 0.0,
    over: float = math.inf,
) -> SojournTimes:
    """What tuples meet at a peer.

    Parameters
    ----------
    projector
        Name of the projector, an element of :data:`PROJECTORS`.
    traffic
        Traffic at the peer; of components with processing times, where the projector needs more than the load.
    lengths
        Seconds of the segments, one for each where the load is one a segment; ``transient`` needs them, and confidence.
    confidence
        0 for the mean. Otherwise the probability with which the mean over a segment, as it turns out, is not above what
        is returned.
    over
        Seconds for which the mean is taken, where a segment is longer.

    Returns
    -------
    SojournTimes
        Infinite where the load is 1 or more; for ``transient`` where it is so on average over the window.

    Notes
    -----
    With confidence, unfinished work is taken to be exponential while there is some. A mean over T seconds varies less:
    by f(u) = 2 (u - 1 + exp(-u)) / u² of the variance, u = T / T', for work that is forgotten as exp(-t / T'). T' is
    twice what the equation above has for small deviations, (W + K)² / K.

    Examples
    --------
    Two components, of 1 ms and 100 ms, as a tuple of the quick one meets them:

    >>> both = Traffic.of(0.01, 0.001).plus(Traffic.of(0.49, 0.1))
    >>> [round(execution(each, 0.001, both), 4) for each in PROJECTORS]
    [0.002, 0.099, 0.099, 0.099]

    Over one second the mean of what it waits may be four times as long, over an hour hardly longer:

    >>> [round(float(sojourn_times("mg1", both, seconds, 0.95).waiting), 3) for seconds in (1.0, 3600.0)]
    [0.39, 0.105]
    """
    found = _mean(projector, traffic, lengths)
    if not confidence:
        return found
    if lengths is None:
        raise ValueError("lengths: None; expected the seconds over which the mean is taken")
    lengths = np.minimum(lengths, over)
    if projector != "mm1":
        return SojournTimes(1.0, _exceeded(found.waiting, kernel(projector, traffic), lengths, confidence))
    # a component waits for its like: in units of their processing time, of which the mean over all components is known
    unit = np.asarray(kernel("mg1", traffic))
    spans = np.divide(lengths, unit, out=np.zeros(np.broadcast_shapes(np.shape(lengths), unit.shape)), where=unit > 0.0)
    return SojournTimes(1.0 + _exceeded(found.stretch - 1.0, 1.0, spans, confidence), 0.0)


def _mean(projector: str, traffic: Traffic, lengths: Array | float | None) -> SojournTimes:
    if projector == "mm1":
        return SojournTimes(execution_time(1.0, traffic.load), 0.0)
    scale = kernel(projector, traffic)
    if not isinstance(traffic.load, np.ndarray):
        return SojournTimes(1.0, waiting_time(float(scale), traffic.load))
    if projector == "transient":
        if not isinstance(lengths, np.ndarray) or lengths.shape != traffic.load.shape:
            raise ValueError(f"lengths: {lengths}; expected one for each of {len(traffic.load)} segments")
        return SojournTimes(1.0, through(traffic.load, np.broadcast_to(scale, traffic.load.shape), lengths))
    return SojournTimes(1.0, scale * waiting_time(1.0, traffic.load))


def _exceeded(waiting: Amount, scale: Amount, lengths: Array | float, confidence: float) -> Amount:
    """What the mean waiting time over a segment exceeds with probability 1 - confidence, from its expectation."""
    expected, k, seconds = np.broadcast_arrays(np.asarray(waiting, dtype=np.float64), scale, lengths)
    some = np.isfinite(expected) & (expected > 0.0)
    held = expected[some] + k[some]  # work, while there is some
    moment = held * np.log(np.maximum(expected[some] / held / (1.0 - confidence), 1.0))
    u = np.maximum(seconds[some] * k[some] / (2.0 * held * held), 1e-4)
    share = 2.0 * (u + np.expm1(-u)) / (u * u)
    most = expected.copy()
    most[some] += np.sqrt(share) * np.maximum(moment - expected[some], 0.0)
    return most if most.ndim else float(most)


def kernel(projector: str, traffic: Traffic) -> Amount:
    """K of W = K p / (1 - p): seconds, the mean service of a second of work times (c_a² + c_s²) / 2."""
    if projector not in PROJECTORS:
        raise ValueError(f"projector: {projector!r}; expected {', '.join(PROJECTORS)}")
    load, work = traffic.load, traffic.residual if projector == "mg1" else traffic.varied
    if isinstance(load, np.ndarray):
        return np.asarray(np.divide(work, load, out=np.zeros(load.shape), where=load > 0.0), dtype=np.float64)
    return work / load if load > 0.0 else 0.0


def execution(
    projector: str,
    tau: float,
    traffic: Traffic,
    lengths: Array | float | None = None,
    confidence: float = 0.0,
    over: float = math.inf,
) -> Amount:
    """Execution time x of a component at a peer, in seconds: :func:`stay` for its processing time τ."""
    stretch, waiting = sojourn_times(projector, traffic, lengths, confidence, over)
    return stretch * tau + waiting


# -- through segments --------------------------------------------------------------------------------------------------


def through(load: Array, scale: Array, lengths: Array, start: float | None = None) -> Array:
    """Mean waiting time in each segment of a window, by the fluid flow approximation.

    Parameters
    ----------
    load, scale, lengths
        p, K in seconds, and seconds of each segment, shape (segments,).
    start
        Unfinished work at the start, seconds; if not given, the window repeats itself.

    Returns
    -------
    ndarray
        Seconds, shape (segments,); infinite if the window repeats itself and its mean load is 1 or more.

    Examples
    --------
    Short segments see the mean of both loads, long ones each its own steady state:

    >>> loads, scale = np.array([0.75, 0.25]), np.full(2, 0.1)
    >>> through(loads, scale, np.full(2, 0.001)).round(3).tolist(), (loads / (1.0 - loads) * 0.1).round(3).tolist()
    ([0.1, 0.1], [0.3, 0.033])
    >>> through(loads, scale, np.full(2, 1000.0)).round(3).tolist()
    [0.3, 0.033]
    """
    segments = list(zip(load.tolist(), np.maximum(scale, 1e-12).tolist(), lengths.tolist(), strict=True))
    means = np.empty(len(segments))
    work = start
    if work is None:
        mean = float(np.dot(load, lengths) / lengths.sum())
        if mean >= 1.0:
            return np.full(len(segments), math.inf)
        work = float(scale.mean()) * mean / (1.0 - mean)
    for _ in range(ROUNDS):
        begun = work
        for number, (p, k, seconds) in enumerate(segments):
            work, means[number] = _segment(work, p, k, seconds)
        if start is not None or abs(work - begun) <= 1e-3 * max(work, begun):
            break
    return means


def _segment(work: float, p: float, k: float, seconds: float) -> tuple[float, float]:
    """Unfinished work at the end of a segment of constant load, and its mean over the segment.

    With q = 1 - p and the steady state W* = K p / q, the equation has the solution
    q t = (K / q) y - (W* - W0) (1 - exp(-y)), where W = W* - (W* - W0) exp(-y); y is found by Newton's method, from the
    side from which it converges steadily.
    """
    q = 1.0 - p
    if abs(q) < CLOSE:
        q = CLOSE if q >= 0.0 else -CLOSE
        p = 1.0 - q
    steady = k * p / q
    gap = steady - work
    if q > 0.0:
        y = max((q * seconds + max(gap, 0.0)) * q / k if gap > 0.0 else (q * seconds + gap) * q / k, 0.0)
    else:
        y = -math.log1p(p * seconds / -gap)
    for _ in range(60):
        left = math.exp(-y)
        step = (k / q * y - gap * (1.0 - left) - q * seconds) / (k / q - gap * left)
        y -= step
        if abs(step) <= 1e-12 * max(abs(y), 1e-12):
            break
    end = steady - gap * math.exp(-y)
    moved = end - work
    area = (steady * (steady + k) * y - (steady + k) * moved - (end + work) / 2.0 * moved) / q
    low, high = (work, end) if work < end else (end, work)
    return max(end, 0.0), min(max(area / seconds, low), high)
