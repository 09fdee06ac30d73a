"""The ON/OFF model of a bursty stream: two rates that alternate, found over several windows (section 2.3.4).

A signature is found in one pass over the tuples of one window, and a short segment has too few tuples to be found. If
the stream repeats itself in each window, the same segment has several times as many tuples in several windows.
:func:`expected_rates` counts the tuples of several windows in bins, adds the bins of all windows (it *folds* the
windows), and fits a model of two states to the sums: Poisson arrivals with a high or a low rate, and a penalty for each
change of the state. It is fitted by Viterbi training, the hard form of the EM algorithm for Markov-modulated Poisson
processes [1]_.

Not every stream repeats itself. So three models are fitted to the windows before the last, and compared by the
likelihood of the last window: a constant rate, two alternating rates, and the rates of the signature. The most likely
one is used; the others must be more likely than a constant rate by a margin. Between repeating itself in every window
and not at all there is a share, which :func:`recurrence` measures.

References
----------
.. [1] L. R. Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition",
   *Proceedings of the IEEE* 77(2), 1989.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_nb.models.signatures import Segment

__all__ = ["binned", "expected_rates", "recurrence", "segments_of", "two_levels"]

PENALTY: Final = 3.0  # cost of a change of the state, nats of log-likelihood
ROUNDS: Final = 12  # largest number of rounds of training
MARGIN: Final = 1.0  # nats of log-likelihood by which a model must exceed a constant rate
LEAST_TUPLES: Final = 0.5  # number of tuples, in all windows, that a state without any counts as: its rate is positive

Array = npt.NDArray[np.float64]


def two_levels(counts: Array, seconds: float, penalty: float = PENALTY) -> Array:
    """Fit two alternating rates to counts.

    Parameters
    ----------
    counts
        Number of tuples in each bin of all windows together, shape (bins,).
    seconds
        Length of a bin times the number of windows, seconds.
    penalty
        Cost of a change of the state, nats.

    Returns
    -------
    ndarray of float64
        Rate in each bin, tuples/s, shape (bins,); one of two values.

    Examples
    --------
    >>> two_levels(np.array([9.0, 11.0, 10.0, 1.0, 0.0, 2.0]), 0.5).tolist()
    [20.0, 20.0, 20.0, 2.0, 2.0, 2.0]
    """
    smoothed = np.convolve(counts, np.ones(3) / 3.0, mode="same")
    high = smoothed > smoothed.mean()
    rates = np.full(len(counts), counts.sum() / (len(counts) * seconds))
    for _ in range(ROUNDS):
        if high.all() or not high.any():
            return np.full(len(counts), counts.sum() / (len(counts) * seconds))
        levels = [max(float(counts[part].mean()), LEAST_TUPLES / int(part.sum())) for part in (~high, high)]
        rates = np.where(high, levels[1], levels[0]) / seconds
        found = _likeliest(counts, (levels[0], levels[1]), penalty)
        if (found == high).all():
            break
        high = found
    return rates


def _likeliest(counts: Array, levels: tuple[float, float], penalty: float) -> npt.NDArray[np.bool_]:
    """Return whether each bin is in the high state in the most likely sequence of states (Viterbi).

    Parameters
    ----------
    counts
        Number of tuples in each bin, shape (bins,).
    levels
        Mean number of tuples in a bin in the low and in the high state.
    penalty
        Cost of a change of the state, nats.
    """
    low_scores = (counts * math.log(levels[0]) - levels[0]).tolist()  # log-likelihoods, without a common term
    high_scores = (counts * math.log(levels[1]) - levels[1]).tolist()
    came_from_high: list[tuple[bool, bool]] = []  # for the low and the high state: whether the best way comes from high
    low, high = low_scores[0], high_scores[0]  # log-likelihood of the best sequence that ends in each state
    for in_low, in_high in zip(low_scores[1:], high_scores[1:], strict=True):
        came_from_high.append((high - penalty > low, high >= low - penalty))
        low, high = max(low, high - penalty) + in_low, max(high, low - penalty) + in_high
    is_high = high >= low
    states = [is_high]
    for low_and_high in reversed(came_from_high):
        is_high = low_and_high[is_high]
        states.append(is_high)
    return np.array(states[::-1])


def binned(times: Array, start: float, window: float, windows: int, bins: int) -> Array:
    """Count the tuples in each bin of several windows: shape (windows, bins).

    Parameters
    ----------
    times
        Times of arrivals, in ascending order.
    start, window
        Start of the first window, and length of a window, seconds.
    windows, bins
        Number of windows, and number of bins of each window.
    """
    edges = start + window / bins * np.arange(windows * bins + 1)
    return np.diff(np.searchsorted(times, edges)).astype(np.float64).reshape(windows, bins)


def expected_rates(counts: Array, seconds: float, last: Array | None = None) -> Array:
    """Return the rates that are expected in the next window, by the most likely model.

    Parameters
    ----------
    counts
        Number of tuples in each bin of each window, the earliest window first; shape (windows, bins), at least two
        windows.
    seconds
        Length of a bin, seconds.
    last
        Rate in each bin of the window before the last one by its signature, tuples/s, shape (bins,); None if it is
        unknown.

    Returns
    -------
    ndarray of float64
        Rate in each bin, tuples/s, shape (bins,). It is ``last`` itself if the signature is the most likely model: the
        caller then uses the rates of the present signature.
    """
    windows = len(counts)
    held_out, before = counts[-1], counts[:-1].sum(axis=0)
    length = seconds * (windows - 1)
    constant = np.full(len(held_out), before.sum() / (len(before) * length))
    models = [constant, two_levels(before, length), *([] if last is None else [last])]
    scores = [_log_likelihood(held_out, each * seconds, LEAST_TUPLES / windows) for each in models]
    scores[0] += MARGIN
    best = max(range(len(models)), key=lambda number: (scores[number], -number))
    if best == 2:  # the signature
        return models[2]
    every = counts.sum(axis=0)
    if best == 1:  # two levels, now of all windows
        return two_levels(every, seconds * windows)
    return np.full(len(every), every.sum() / (len(every) * seconds * windows))


def recurrence(expected: Sequence[Array], counts: Sequence[Array]) -> float:
    """Return the share of the expected variation over a window that comes: from 0 to 1.

    It is the slope of the counts over what was expected, both less their means over the window.

    Parameters
    ----------
    expected
        Number of tuples that was expected in each bin, for each window.
    counts
        Number of tuples that came in it.

    Examples
    --------
    >>> recurrence([np.array([9.0, 1.0, 9.0, 1.0])], [np.array([7.0, 3.0, 7.0, 3.0])])
    0.5
    """
    together = variation = 0.0
    for before, now in zip(expected, counts, strict=True):
        deviation = before - before.mean()
        together += float(np.dot(deviation, now))
        variation += float(np.dot(deviation, deviation))
    return min(max(together / variation, 0.0), 1.0) if variation > 0.0 else 0.0


def _log_likelihood(counts: Array, means: Array, least: float) -> float:
    """Log-likelihood of Poisson counts with these means, nats; no mean is less than its share of ``least``."""
    floor = np.maximum(means, least / len(means))
    return float(np.sum(counts * np.log(floor) - floor))


def segments_of(rates: Array, start: float, seconds: float, tau: float) -> tuple[Segment, ...]:
    """Join neighbouring bins of equal rates to segments.

    Parameters
    ----------
    rates
        Rate in each bin, tuples/s.
    start, seconds
        Start of the first bin, and length of a bin, seconds.
    tau
        Processing time of a tuple, seconds.

    Examples
    --------
    >>> segments_of(np.array([20.0, 20.0, 2.0]), 0.0, 0.5, 0.01)
    (Segment(start=0.0, length=1.0, load=0.2, rate=20.0), Segment(start=1.0, length=0.5, load=0.02, rate=2.0))
    """
    edges: Sequence[int] = [0, *(np.flatnonzero(np.diff(rates)) + 1).tolist(), len(rates)]
    return tuple(
        Segment(start + one * seconds, (two - one) * seconds, float(rates[one]) * tau, float(rates[one]))
        for one, two in pairwise(edges)
    )
