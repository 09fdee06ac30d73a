"""The ON/OFF model of a bursty stream: two rates that alternate, found over several windows (section 2.3.4).

A signature finds a segment in one pass, while it arrives; in a segment of a few tuples there is too little to find. The
same segments of several windows together have as many times the tuples. :func:`expected_rates` counts the tuples of
several windows in bins, folds the windows, and fits a two-state model to the sums: Poisson arrivals with a high and a
low rate, and a penalty for every change, fitted by Viterbi training (the hard form of the EM algorithm for
Markov-modulated Poisson processes [1]_). Not every stream repeats itself. So the two-state model is fitted to the
windows before the last and judged by the last one, beside a constant rate and the rates that the last signature had:
the most likely of the three is used, a constant rate in doubt.

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

__all__ = ["binned", "expected_rates", "segments_of", "two_levels"]

PENALTY: Final = 3.0  # nats of a change of the state
ROUNDS: Final = 12  # largest number of rounds of training
MARGIN: Final = 1.0  # nats by which a model has to be more likely than a constant rate
LEAST: Final = 0.5  # tuples of a level without any, over all windows: its rate is not known to be zero

Array = npt.NDArray[np.float64]


def two_levels(counts: Array, seconds: float, penalty: float = PENALTY) -> Array:
    """Fit two alternating rates to counts.

    Parameters
    ----------
    counts
        Tuples in each bin, of all folded windows together.
    seconds
        Length of a bin times the number of windows, seconds.
    penalty
        Nats that a change of the state costs.

    Returns
    -------
    ndarray of float64
        Rate in each bin, tuples/s; one of two.

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
        levels = [max(float(counts[part].mean()), LEAST / int(part.sum())) for part in (~high, high)]
        rates = np.where(high, levels[1], levels[0]) / seconds
        found = _likeliest(counts, (levels[0], levels[1]), penalty)
        if (found == high).all():
            break
        high = found
    return rates


def _likeliest(counts: Array, levels: tuple[float, float], penalty: float) -> npt.NDArray[np.bool_]:
    """Return whether each bin is in the high state, in the most likely sequence of states (Viterbi)."""
    low = (counts * math.log(levels[0]) - levels[0]).tolist()
    up = (counts * math.log(levels[1]) - levels[1]).tolist()
    came: list[tuple[bool, bool]] = []  # whether the best way to each of the states comes from the high one
    one, two = low[0], up[0]
    for below, above in zip(low[1:], up[1:], strict=True):
        changed_down, changed_up = two - penalty > one, two >= one - penalty
        came.append((changed_down, changed_up))
        one, two = max(one, two - penalty) + below, max(two, one - penalty) + above
    state = two >= one
    found = [state]
    for from_high in reversed(came):
        state = from_high[state]
        found.append(state)
    return np.array(found[::-1])


def binned(times: Array, start: float, window: float, windows: int, bins: int) -> Array:
    """Count the tuples in each bin of several windows: shape (windows, bins).

    Parameters
    ----------
    times
        Times of arrivals, in ascending order.
    start, window
        Start of the first window, and length of a window, seconds.
    windows, bins
        Numbers of windows, and of bins of a window.
    """
    edges = start + window / bins * np.arange(windows * bins + 1)
    return np.diff(np.searchsorted(times, edges)).astype(np.float64).reshape(windows, bins)


def expected_rates(counts: Array, seconds: float, last: Array | None = None) -> Array:
    """Return the rates that are expected in the next window, by the most likely model.

    Parameters
    ----------
    counts
        Tuples in each bin of the windows so far, earliest first: shape (windows, bins), at least two windows.
    seconds
        Length of a bin, seconds.
    last
        Rate in each bin of the window before the last, by its signature, tuples/s; None if it is unknown.

    Returns
    -------
    ndarray of float64
        Rate in each bin, tuples/s; those of the last signature where that model is the most likely, so the caller
        replaces them by the present signature's.
    """
    windows = len(counts)
    held_out, before = counts[-1], counts[:-1].sum(axis=0)
    length = seconds * (windows - 1)
    constant = np.full(len(held_out), before.sum() / (len(before) * length))
    models = [constant, two_levels(before, length), *([] if last is None else [last])]
    scores = [_log_likelihood(held_out, each * seconds, LEAST / windows) for each in models]
    scores[0] += MARGIN
    best = max(range(len(models)), key=lambda number: (scores[number], -number))
    if best == 2:
        return models[2]
    every = counts.sum(axis=0)
    if best == 1:
        return two_levels(every, seconds * windows)
    return np.full(len(every), every.sum() / (len(every) * seconds * windows))


def _log_likelihood(counts: Array, means: Array, least: float) -> float:
    floor = np.maximum(means, least / len(means))
    return float(np.sum(counts * np.log(floor) - floor))


def segments_of(rates: Array, start: float, seconds: float, tau: float) -> tuple[Segment, ...]:
    """Return bins of equal rates as segments.

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
