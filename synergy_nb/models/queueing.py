"""Queueing formulas of the projection: mean times of one queue, and the distribution of the time through several.

A peer serves the tuples of its components one at a time, first come first served, and so does a virtual link. The
symbols are the dissertation's: τ is the processing time of a tuple (for a link, its transmission time σ) in seconds, p
the load of the peer (for a link, b), which is the share of the time in which it serves, and x the mean execution time
including waiting. Rates are in tuples/s; c² is a squared coefficient of variation, variance over squared mean: 0 for
constant times, 1 for exponential ones.

An overloaded queue, p >= 1, has no steady state: its means and quantiles are infinite, so an admission test can compare
them with a limit. Invalid values (negative, not a number) raise :class:`ValueError`.

========  =========  ==========  =================================================================
queue     arrivals   service     mean waiting time
========  =========  ==========  =================================================================
M/M/1     Poisson    exponential τ p / (1 - p)
M/D/1     Poisson    constant    τ p / (1 - p) / 2
M/G/1     Poisson    c_s²        τ p / (1 - p) (1 + c_s²) / 2   (Pollaczek and Khinchine)
G/G/1     c_a²       c_s²        τ p / (1 - p) (c_a² + c_s²) / 2   (Kingman, an approximation)
========  =========  ==========  =================================================================

Notes
-----
Equation 2.6 of the dissertation, x = τ / (1 - p) with the component's own τ and the load p of its whole peer, is the
M/M/1 queue if all components of the peer have the same exponential τ. If they differ, all wait equally long under first
come first served: x is the waiting time of all their work together plus the component's own τ. Its tuples have the mean
processing time Σ λ τ / Σ λ, and the second moment Σ λ τ² (1 + c²) / Σ λ.

References
----------
.. [1] L. Kleinrock, *Queueing Systems, volume 1: Theory*, Wiley, 1975.
.. [2] J. F. C. Kingman, "The single server queue in heavy traffic", *Mathematical Proceedings of the Cambridge
   Philosophical Society* 57(4), 1961.
.. [3] E. Reich, "Waiting times when queues are in tandem", *Annals of Mathematical Statistics* 28(3), 1957.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

__all__ = ["execution_time", "tandem_tail", "waiting_time"]

Array = npt.NDArray[np.float64]


@overload
def execution_time(tau: float, load: float) -> float: ...
@overload
def execution_time(tau: float, load: Array) -> Array: ...
def execution_time(tau: float, load: float | Array) -> float | Array:
    """Mean execution time x of a component at a peer by M/M/1 (equation 2.6), or y of a stream on a link (2.7).

    Parameters
    ----------
    tau
        Processing time τ (transmission time σ), seconds.
    load
        Load p of the peer (b of the link) as a share of its capacity; a number, or one per segment.

    Returns
    -------
    float or ndarray
        Seconds; infinite where the load is 1 or more.

    Examples
    --------
    >>> execution_time(0.1, 0.75)
    0.4
    >>> execution_time(0.1, np.array([0.0, 0.5, 1.0])).tolist()
    [0.1, 0.2, inf]
    """
    return tau + waiting_time(tau, load)


@overload
def waiting_time(tau: float, load: float, scv: float = 1.0, scv_arrivals: float = 1.0) -> float: ...
@overload
def waiting_time(tau: float, load: Array, scv: float = 1.0, scv_arrivals: float = 1.0) -> Array: ...
def waiting_time(tau: float, load: float | Array, scv: float = 1.0, scv_arrivals: float = 1.0) -> float | Array:
    """Mean time that a tuple waits before it is served, for all queues of the table above.

    ``tau``: mean processing time of all tuples of the server, seconds; ``load``: load p; a number, or one per segment;
    ``scv``, ``scv_arrivals``: squared coefficients of variation c² of processing times, and of times between arrivals.

    Returns: seconds; infinite where the load is 1 or more.
    """
    _not_negative("tau", tau, "seconds from 0")
    _not_negative("scv", scv, "a squared coefficient of variation from 0")
    _not_negative("scv_arrivals", scv_arrivals, "a squared coefficient of variation from 0")
    factor = tau * (scv + scv_arrivals) / 2.0
    if isinstance(load, np.ndarray):
        if not (load >= 0.0).all():
            raise ValueError(f"load: {load.min()}; expected shares of the capacity from 0")
        waiting = np.full(load.shape, math.inf)
        np.divide(load * factor, 1.0 - load, out=waiting, where=load < 1.0)
        return waiting
    _not_negative("load", load, "a share of the capacity from 0")
    return factor * load / (1.0 - load) if load < 1.0 else math.inf


def tandem_tail(rate: float, taus: Sequence[float], seconds: float) -> float:
    """Share of the tuples that take longer than ``seconds`` through M/M/1 queues in tandem.

    The times in the queues are independent and exponential [3]_, so their sum is hypoexponential; it is computed by
    uniformisation and doubling, which is accurate for equal and nearly equal queues, and for very unequal ones too.

    Examples
    --------
    Two equal queues give an Erlang distribution, (1 + t / x) exp(-t / x):

    >>> round(tandem_tail(5.0, [0.1, 0.1], 0.6), 6) == round(4 * math.exp(-3), 6)
    True
    """
    if math.isnan(seconds):
        raise ValueError("seconds: nan; expected a number")
    _not_negative("rate", rate, "a number of tuples/s from 0")
    means = [time for tau in taus if (time := execution_time(tau, rate * tau)) > 0.0]
    if not means or seconds < 0.0:
        return float(seconds < 0.0)
    if math.inf in means:
        return 1.0
    # For a time so short that less than one jump is expected, sum over the jumps of the uniformised chain; then double
    # the time repeatedly. All terms are positive, so there is no cancellation.
    jumps = seconds / min(means)
    doublings = max(math.frexp(jumps)[1], 0)
    jumps /= 2.0**doublings
    step = np.diag([1.0 - min(means) / mean for mean in means])
    step += np.diag([min(means) / mean for mean in means[:-1]], 1)
    term = np.eye(len(means)) * math.exp(-jumps)
    moved = term.copy()  # from one queue to another, by row and column
    for number in range(1, 20):
        term = term @ step * (jumps / number)
        moved += term
    for _ in range(doublings):
        moved = moved @ moved
    return min(float(moved[0].sum()), 1.0)


def _not_negative(field: str, value: float, expected: str) -> None:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{field}: {value}; expected {expected}")
