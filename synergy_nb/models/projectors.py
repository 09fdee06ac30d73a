"""Projectors of section 2.3.4: the execution times of tuples at a peer of a given load, on one interface.

A peer serves the tuples of all its components first come first served. In all projectors, the mean execution time of a
component with processing time τ is ``stretch * τ + waiting`` (:class:`SojournTimes`), both being the same
for all components of the peer; so the impact on an application follows from the longest path of its local components.

=============  ===========================  ===========================================================================
projector      time at load p               parameters
=============  ===========================  ===========================================================================
``mm1``        τ / (1 - p)                  the load alone (equations 2.6 and 2.10): as if all components of the peer
                                            had this one's processing time
``mg1``        τ + W, by Pollaczek and      the processing times of all components and their variability: a fast
               Khinchine                    component waits as long as slow ones
``gg1``        τ + W, by Kingman            also the variability of arrivals, superposed over all streams, weighted by
                                            their work
``transient``  τ + W(t)                     also the time since the load changed: a queue takes time to fill and to
                                            empty. Without segments, as ``gg1``
=============  ===========================  ===========================================================================

Superposed streams are weighted by work rather than by tuples (as in Whitt's average): variances of independent work add
up, W = Σ λ τ² (c_a² + c_s²) / 2 / (1 - p). It is Kingman's formula for one stream and Pollaczek's and Khinchine's for
Poisson ones; and one more stream never lowers it, as it may lower the average c_a².

The transient projector follows the unfinished work of the peer through the segments by the pointwise stationary fluid
flow approximation [1]_. Work arrives at p seconds per second and is done while the server is busy; the probability that
it is busy with W seconds of unfinished work is that of the steady state with this W, W = K p / (1 - p):

    dW/dt = p - W / (W + K)

with K from Kingman's formula. The equation is solved exactly in each segment. The window is assumed to repeat, as
signatures do, so it begins with the work with which it ends.

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
CLOSE: Final = 1e-4  # least distance of a load from 1: the formulas are singular at 1
ROUNDS: Final = 8  # largest number of passes through the window until it ends as it began

Array = npt.NDArray[np.float64]
Amount: TypeAlias = float | Array


class Traffic(NamedTuple):
    """Traffic at a peer: sums over its components, each a number, or an array with one number per segment.

    Examples
    --------
    >>> Traffic.of(load=0.5, tau=0.1, scv_arrivals=4.0)
    Traffic(load=0.5, residual=0.05, varied=0.125)
    """

    load: Amount = 0.0  # load p = Σ λ τ, a share of the peer's capacity
    # residual service Σ λ τ² (1 + c_s²) / 2 of the tuple in service when another one arrives, seconds
    residual: Amount = 0.0
    # variability Σ λ τ² (c_a² + c_s²) / 2 of the arriving work in the long run, seconds: `residual` for arrivals that
    # are not Poisson
    varied: Amount = 0.0

    @classmethod
    def of(cls, load: Amount, tau: float, scv: float = 1.0, scv_arrivals: float = 1.0) -> Traffic:
        """Make the traffic of one component from its load and its processing time at this peer.

        ``load``: share of the peer's capacity; a number, or one per segment; ``tau``: processing time τ at this peer,
        seconds; ``scv``, ``scv_arrivals``: variabilities c_s² of the processing time and c_a² of the times between
        arrivals.
        """
        work = load * (tau / 2.0)
        return cls(load, work * (1.0 + scv), work * (scv_arrivals + scv))

    def plus(self, other: Traffic) -> Traffic:
        """Add the traffic of two sets of components."""
        return Traffic(self.load + other.load, self.residual + other.residual, self.varied + other.varied)

    @classmethod
    def together(cls, parts: Iterable[Traffic]) -> Traffic:
        """Add the traffic of several sets of components."""
        load: Amount = 0.0
        residual: Amount = 0.0
        varied: Amount = 0.0
        for more_load, more_residual, more_varied in parts:
            load = load + more_load  # not in place: the caller may own the array
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
    """Compute the mean execution times at a peer.

    Parameters
    ----------
    projector
        Name of the projector, an element of :data:`PROJECTORS`.
    traffic
        Traffic at the peer. Projectors other than ``mm1`` need components with processing times.
    lengths
        Lengths of the segments in seconds, if loads are given per segment; ``transient`` and ``confidence`` need them.
    confidence
        Probability with which the mean over a segment does not exceed the result; 0 for the expected mean.
    over
        Time over which the mean is taken in longer segments, seconds.

    Returns
    -------
    SojournTimes
        Execution times, infinite where the load is 1 or more; for ``transient`` where its mean over the window is.

    Notes
    -----
    With ``confidence``, the model of positive unfinished work is exponential. A mean over T seconds has a smaller
    variance, by the factor f(u) = 2 (u - 1 + exp(-u)) / u², u = T / T', for work with the autocorrelation exp(-t / T').
    T' is twice the value of the equation above for small deviations, (W + K)² / K.

    Examples
    --------
    The execution time of a tuple of 1 ms at a peer with another component of 100 ms:

    >>> both = Traffic.of(0.01, 0.001).plus(Traffic.of(0.49, 0.1))
    >>> [round(execution(each, 0.001, both), 4) for each in PROJECTORS]
    [0.002, 0.099, 0.099, 0.099]

    Over one second its mean waiting may be four times as long, over an hour hardly longer:

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
    # mm1: waiting in units of the component's own processing time; the mean over all components is known
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
    """Quantile of the mean waiting time over a segment: it is exceeded with probability 1 - confidence."""
    expected, k, seconds = np.broadcast_arrays(np.asarray(waiting, dtype=np.float64), scale, lengths)
    some = np.isfinite(expected) & (expected > 0.0)
    held = expected[some] + k[some]  # mean work, given that there is some
    moment = held * np.log(np.maximum(expected[some] / held / (1.0 - confidence), 1.0))
    u = np.maximum(seconds[some] * k[some] / (2.0 * held * held), 1e-4)
    share = 2.0 * (u + np.expm1(-u)) / (u * u)
    most = expected.copy()
    most[some] += np.sqrt(share) * np.maximum(moment - expected[some], 0.0)
    return most if most.ndim else float(most)


def kernel(projector: str, traffic: Traffic) -> Amount:
    """Factor K of W = K p / (1 - p), seconds: the work-weighted mean service time times (c_a² + c_s²) / 2."""
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
    """Execution time x of a component with processing time τ at a peer, seconds."""
    stretch, waiting = sojourn_times(projector, traffic, lengths, confidence, over)
    return stretch * tau + waiting


# -- through segments --------------------------------------------------------------------------------------------------


def through(load: Array, scale: Array, lengths: Array, start: float | None = None) -> Array:
    """Mean waiting time in each segment of a window, by the fluid flow approximation.

    Parameters
    ----------
    load, scale, lengths
        Load p, factor K in seconds, and length in seconds of each segment, shape (segments,).
    start
        Unfinished work at the start, seconds; by default the window repeats.

    Returns
    -------
    ndarray
        Mean waiting times in seconds, shape (segments,); infinite if the window repeats and its mean load is 1 or more.

    Examples
    --------
    In short segments the mean load decides, in long ones the steady state of each:

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
    q t = (K / q) y - (W* - W0) (1 - exp(-y)), where W = W* - (W* - W0) exp(-y). Newton's method finds y, from the side
    with monotone convergence.
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
