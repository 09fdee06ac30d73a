"""Heavy tails and skew: the exponent of the largest values, and that of the most frequent ones.

- *Hill* [1]_: of the k largest values, the mean logarithm over the least of them is 1/α. With α up to 2 the variance is
  infinite, up to 1 the mean. How many values belong to the tail is chosen by the least distance between the values and
  the fitted law [2]_.
- *Zipf*: the value of rank r is as frequent as r^-s. The exponent s is the most likely one for the counts of the first
  ranks, of which each has several: the order of rare values is chance.

.. [1] B. M. Hill. A simple general approach to inference about the tail of a distribution. Annals of Statistics 3(5),
   1975.
.. [2] A. Clauset, C. R. Shalizi, M. E. J. Newman. Power-law distributions in empirical data. SIAM Review 51(4), 2009.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.models.burstiness import Interval

__all__ = ["Tail", "Zipf", "tail_of", "zipf_of"]

Array = npt.NDArray[np.float64]
_SURE: Final = 1.959964  # standard errors of an interval of 95 %
_LEAST: Final = 50  # values that a tail has at least
_DIFFERENT: Final = 10  # different values that a tail has at least: few that are frequent have no exponent
_TRIED: Final = 40  # lengths of a tail that are tried
_SEVERAL: Final = 10  # rows that a rank has at least
_RANKS: Final = 5  # ranks that a fit needs at least


class Tail(NamedTuple):
    """A power law that was fitted to the largest values."""

    alpha: Interval
    above: float  # value from which on it holds
    values: int  # number of values that it was fitted to
    distance: float  # largest distance between the shares of the values and those of the law, from 0 to 1


class Zipf(NamedTuple):
    """A power law that was fitted to the counts of the most frequent values."""

    exponent: Interval
    ranks: int  # number of ranks that it was fitted to
    fit: float  # share of the variance of the logarithms of counts that it explains, up to 1


def tail_of(largest: Array, rows: int) -> Tail | None:
    """Fit a power law to the largest values of so many; None: too few of them are above 0, or differ.

    ``largest``: the largest values, in any order; ``rows``: number of all values.

    >>> tail_of(np.tile([40.0, 576.0, 1500.0], 1000), 3000) is None
    True
    """
    values = np.sort(largest[largest > 0.0])[::-1]
    most = min(len(values) - 1, max(rows // 4, _LEAST))
    if most < _LEAST:
        return None
    logs = np.log(values)
    sums = np.cumsum(logs)
    different = np.concatenate([[1], 1 + np.cumsum(values[1:] != values[:-1])])
    best: Tail | None = None
    for number in np.unique(np.geomspace(_LEAST, most, _TRIED).astype(int)):
        if different[number] < _DIFFERENT:
            continue
        mean = float(sums[number - 1] / number - logs[number])
        alpha = 1.0 / mean
        shares = 1.0 - np.exp(-alpha * (logs[:number] - logs[number]))  # of the law below each value
        steps = np.arange(number, 0, -1) / number  # of the values up to each
        distance = float(np.maximum(np.abs(shares - steps), np.abs(shares - (steps - 1.0 / number))).max())
        if best is None or distance < best.distance:
            error = _SURE * alpha / math.sqrt(number)
            best = Tail(Interval(alpha, alpha - error, alpha + error), float(values[number]), int(number), distance)
    return best


def zipf_of(counts: Array) -> Zipf | None:
    """Fit Zipf's law to the counts of values; None: too few values have several rows.

    ``counts``: numbers of rows of the most frequent values, in any order.

    >>> found = zipf_of(np.array([1000.0, 500.0, 333.0, 250.0, 200.0, 167.0]))
    >>> round(found.exponent.value, 2), found.ranks
    (1.0, 6)
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - importing it takes a second

    ranked = np.sort(counts)[::-1]
    ranked = ranked[ranked >= _SEVERAL]
    if len(ranked) < _RANKS:
        return None
    logs, total = np.log(np.arange(1, len(ranked) + 1)), float(ranked.sum())
    mean = float((ranked * logs).sum()) / total

    def unlikely(s: float) -> float:
        return s * mean + math.log(float(np.exp(-s * logs).sum()))

    s = float(minimize_scalar(unlikely, bounds=(0.0, 10.0), method="bounded").x)
    weights = np.exp(-s * logs)
    weights /= weights.sum()
    spread = float((weights * logs**2).sum() - (weights * logs).sum() ** 2)
    error = _SURE / math.sqrt(total * spread) if spread > 0.0 else math.inf
    heights = np.log(ranked)
    varied = float(((heights - heights.mean()) ** 2).sum())
    left = heights + s * logs
    fit = 1.0 - float(((left - left.mean()) ** 2).sum()) / varied if varied > 0.0 else 0.0
    return Zipf(Interval(s, s - error, s + error), len(ranked), fit)
