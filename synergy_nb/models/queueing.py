"""Queueing formulas, for projection and for tests of the simulator.

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
come first served: x is the waiting time of the :func:`pooled` work plus the component's own τ.

References
----------
.. [1] L. Kleinrock, *Queueing Systems, volume 1: Theory*, Wiley, 1975.
.. [2] J. F. C. Kingman, "The single server queue in heavy traffic", *Mathematical Proceedings of the Cambridge
   Philosophical Society* 57(4), 1961.
.. [3] J. R. Jackson, "Networks of waiting lines", *Operations Research* 5(4), 1957.
.. [4] W. Whitt, "The queueing network analyzer", *Bell System Technical Journal* 62(9), 1983.
.. [5] E. Reich, "Waiting times when queues are in tandem", *Annals of Mathematical Statistics* 28(3), 1957.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

__all__ = [
    "JacksonNetwork",
    "Steady",
    "Work",
    "execution_time",
    "gg1",
    "jackson",
    "md1",
    "mg1",
    "mm1",
    "number_tail",
    "pooled",
    "superposed",
    "tandem_quantile",
    "tandem_tail",
    "tandem_time",
    "time_quantile",
    "time_tail",
    "waiting_quantile",
    "waiting_time",
]

Array = npt.NDArray[np.float64]


class Steady(NamedTuple):
    """Means of a queue in its steady state.

    Parameters
    ----------
    load
        Load p, the share of the time in which the server works; 1 or more where there is no steady state.
    waiting
        Mean time that a tuple waits before it is served, seconds.
    time
        Mean execution time x from arrival to the end of service, seconds.
    queue
        Mean number of tuples that wait.
    number
        Mean number of tuples that wait or are served.
    """

    load: float
    waiting: float
    time: float
    queue: float
    number: float


class Work(NamedTuple):
    """A stream of work for one server: tuples/s, mean processing time τ in seconds, and its c_s²."""

    rate: float
    tau: float
    scv: float = 1.0

    @property
    def load(self) -> float:
        """Load of this work, as a share of the server's time."""
        return self.rate * self.tau


# -- one queue ---------------------------------------------------------------------------------------------------------


def mm1(rate: float, tau: float) -> Steady:
    """Queue with Poisson arrivals and exponential processing times.

    >>> mm1(rate=4.0, tau=0.125)
    Steady(load=0.5, waiting=0.125, time=0.25, queue=0.5, number=1.0)
    >>> mm1(rate=10.0, tau=0.1).time
    inf
    """
    return gg1(rate, tau)


def md1(rate: float, tau: float) -> Steady:
    """Queue with Poisson arrivals and constant processing times.

    >>> round(md1(rate=8.0, tau=0.1).waiting, 9)
    0.2
    """
    return gg1(rate, tau, 1.0, 0.0)


def mg1(rate: float, tau: float, scv: float) -> Steady:
    """Queue with Poisson arrivals and processing times of any distribution, by Pollaczek and Khinchine: exact.

    Parameters
    ----------
    rate
        Tuples/s.
    tau
        Mean processing time, seconds.
    scv
        Squared coefficient of variation of the processing time.
    """
    return gg1(rate, tau, 1.0, scv)


def gg1(rate: float, tau: float, scv_arrivals: float = 1.0, scv: float = 1.0) -> Steady:
    """Queue with independent times between arrivals and any processing times, by Kingman: good at high load.

    Parameters
    ----------
    rate
        Tuples/s.
    tau
        Mean processing time, seconds.
    scv_arrivals
        Squared coefficient of variation of the times between arrivals.
    scv
        Squared coefficient of variation of the processing time.
    """
    _not_negative("rate", rate, "a number of tuples/s from 0")
    load = rate * tau
    waiting = waiting_time(tau, load, scv, scv_arrivals)
    return Steady(load, waiting, tau + waiting, rate * waiting if rate else 0.0, load + rate * waiting if rate else 0.0)


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

    Parameters
    ----------
    tau
        Mean processing time of all tuples of the server, seconds (see :func:`pooled`).
    load
        Load p; a number, or one per segment.
    scv, scv_arrivals
        Squared coefficients of variation c² of processing times, and of times between arrivals.

    Returns
    -------
    float or ndarray
        Seconds; infinite where the load is 1 or more.
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


def pooled(works: Iterable[Work]) -> Work:
    """Combine all work of one server to one stream of work.

    The processing time of a tuple drawn from all has mean Σ λ τ / Σ λ and second moment Σ λ τ² (1 + c²) / Σ λ.

    Examples
    --------
    A component that takes 1 ms waits for one that takes 100 ms, where equation 2.6 would give it 2 ms in all:

    >>> work = pooled([Work(10.0, 0.001), Work(5.0, 0.099)])
    >>> round(work.load, 3)
    0.505
    >>> round(0.001 + waiting_time(work.tau, work.load, work.scv), 4)
    0.1
    """
    rate = load = second = 0.0
    for work in works:
        for field, value in zip(Work._fields, work, strict=True):
            _not_negative(field, value, "a number from 0")
        rate += work.rate
        load += work.rate * work.tau
        second += work.rate * work.tau**2 * (1.0 + work.scv)
    if not load:
        return Work(rate, 0.0, 0.0)
    return Work(rate, load / rate, max(second * rate / load**2 - 1.0, 0.0))


def superposed(streams: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Rate and c_a² of the arrivals of several streams together, from the (rate, c_a²) of each.

    This is Whitt's asymptotic method [4]_: over long times the variances of independent counts add up. So it describes
    the load by bursts; over short times the superposition of many streams is closer to Poisson (1).

    >>> superposed([(10.0, 1.0), (30.0, 5.0)])
    (40.0, 4.0)
    """
    total = weighted = 0.0
    for rate, scv in streams:
        _not_negative("rate", rate, "a number of tuples/s from 0")
        _not_negative("scv", scv, "a squared coefficient of variation from 0")
        total += rate
        weighted += rate * scv
    return total, weighted / total if total else 0.0


# -- distributions of the M/M/1 queue ----------------------------------------------------------------------------------


def time_tail(rate: float, tau: float, seconds: float) -> float:
    """Share of the tuples of an M/M/1 queue that take longer than ``seconds``; 1 without steady state.

    >>> round(time_tail(8.0, 0.1, 0.5), 4)
    0.3679
    """
    return tandem_tail(rate, [tau], seconds)


def time_quantile(rate: float, tau: float, fraction: float) -> float:
    """Quantile of the execution time in an M/M/1 queue, seconds: it is exponential with mean x.

    >>> round(time_quantile(8.0, 0.1, 0.95), 4)
    1.4979
    """
    _fraction(fraction)
    return mm1(rate, tau).time * -math.log1p(-fraction)


def waiting_quantile(rate: float, tau: float, fraction: float) -> float:
    """Quantile of the waiting time in an M/M/1 queue, seconds.

    A tuple does not wait with probability 1 - p, so it is 0 for fractions up to 1 - p.

    >>> waiting_quantile(5.0, 0.1, 0.5), round(waiting_quantile(5.0, 0.1, 0.95), 4)
    (0.0, 0.4605)
    """
    _fraction(fraction)
    steady = mm1(rate, tau)
    if fraction <= 1.0 - steady.load:
        return 0.0
    return steady.time * (math.log(steady.load) - math.log1p(-fraction))


def number_tail(load: float, number: int) -> float:
    """Share of the time in which an M/M/1 queue holds at least ``number`` tuples, the one in service included.

    >>> number_tail(0.5, 3)
    0.125
    """
    _not_negative("load", load, "a share of the capacity from 0")
    return load**number if load < 1.0 else 1.0


# -- tandem queues, and networks ---------------------------------------------------------------------------------------


def tandem_time(rate: float, taus: Iterable[float]) -> float:
    """Mean end-to-end time of M/M/1 queues in tandem, seconds: Poisson streams leave them (Burke), so means add up.

    >>> round(tandem_time(5.0, [0.1, 0.1, 0.02]), 4)
    0.4222
    """
    return sum(mm1(rate, tau).time for tau in taus)


def tandem_tail(rate: float, taus: Sequence[float], seconds: float) -> float:
    """Share of the tuples that take longer than ``seconds`` through M/M/1 queues in tandem.

    The times in the queues are independent and exponential [5]_, so their sum is hypoexponential; it is computed by
    uniformisation and doubling, which is accurate for equal and nearly equal queues, and for very unequal ones too.

    Examples
    --------
    Two equal queues give an Erlang distribution, (1 + t / x) exp(-t / x):

    >>> round(tandem_tail(5.0, [0.1, 0.1], 0.6), 6) == round(4 * math.exp(-3), 6)
    True
    """
    if math.isnan(seconds):
        raise ValueError("seconds: nan; expected a number")
    means = [time for tau in taus if (time := mm1(rate, tau).time) > 0.0]
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


def tandem_quantile(rate: float, taus: Sequence[float], fraction: float) -> float:
    """Quantile of the time through M/M/1 queues in tandem, seconds, to 9 digits.

    >>> round(tandem_quantile(8.0, [0.1], 0.95), 4)
    1.4979
    """
    _fraction(fraction)
    mean = tandem_time(rate, taus)
    if math.isinf(mean) or not mean:
        return mean
    low, high = 0.0, mean
    while tandem_tail(rate, taus, high) > 1.0 - fraction:
        low, high = high, 2.0 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if tandem_tail(rate, taus, middle) > 1.0 - fraction else (low, middle)
    return high


class JacksonNetwork(NamedTuple):
    """Steady state of an open network of M/M/1 queues, arrays of shape (queues,).

    Parameters
    ----------
    rate
        Rate through each queue, from outside and from other queues, tuples/s.
    load
        Load p of each queue.
    time
        Mean time of one visit including waiting, seconds.
    number
        Mean number of tuples at each queue.
    passage
        Mean time from a tuple's arrival from outside until it leaves the network, seconds.
    """

    rate: Array
    load: Array
    time: Array
    number: Array
    passage: float


def jackson(external: npt.ArrayLike, routing: npt.ArrayLike, taus: npt.ArrayLike) -> JacksonNetwork:
    """Steady state of an open Jackson network [3]_: each queue behaves like an M/M/1 queue.

    Parameters
    ----------
    external
        Rate of the Poisson arrivals at each queue from outside, tuples/s; shape (queues,).
    routing
        Probability that a tuple goes from queue i to queue j next, shape (queues, queues); the rest of each row to 1
        leaves the network.
    taus
        Mean processing times, exponential, in seconds; shape (queues,).

    Raises
    ------
    ValueError
        If shapes do not fit, or tuples would never leave.

    Examples
    --------
    Half of the tuples that leave a queue return to it:

    >>> network = jackson([4.0], [[0.5]], [0.1])
    >>> network.rate.tolist(), round(float(network.time[0]), 9), round(network.passage, 9)
    ([8.0], 0.5, 1.0)
    """
    gamma = np.asarray(external, dtype=np.float64)
    matrix = np.asarray(routing, dtype=np.float64)
    tau = np.asarray(taus, dtype=np.float64)
    queues = len(gamma) if gamma.ndim == 1 else 0
    if not queues or tau.shape != (queues,) or matrix.shape != (queues, queues):
        shapes = f"{gamma.shape}, {matrix.shape}, {tau.shape}"
        raise ValueError(f"external, routing, taus: shapes {shapes}; expected (queues,), (queues, queues), (queues,)")
    for field, values in (("external", gamma), ("routing", matrix), ("taus", tau)):
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise ValueError(f"{field}: {values.tolist()}; expected finite numbers from 0")
    if matrix.sum(axis=1).max() > 1.0 + 1e-12:
        raise ValueError(f"routing: rows sum up to {matrix.sum(axis=1).max():g}; expected at most 1")
    try:
        rate = np.asarray(np.linalg.solve(np.eye(queues) - matrix.T, gamma), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ValueError("routing: some tuples never leave; expected a path out of every queue") from None
    load = rate * tau
    stable = load < 1.0
    time = np.full(queues, math.inf)
    np.divide(tau, 1.0 - load, out=time, where=stable)
    number = np.where(rate > 0.0, np.where(stable, load / np.where(stable, 1.0 - load, 1.0), math.inf), 0.0)
    total = float(gamma.sum())
    return JacksonNetwork(rate, load, time, number, float(number.sum()) / total if total else 0.0)


def _not_negative(field: str, value: float, expected: str) -> None:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{field}: {value}; expected {expected}")


def _fraction(fraction: float) -> None:
    if not 0.0 <= fraction < 1.0:
        raise ValueError(f"fraction: {fraction}; expected a share from 0 to below 1")
