"""How bursty a stream is: the index of dispersion of its counts, and its Hurst exponent by two estimators.

The counts of a Poisson process have a dispersion of 1 at every scale. Of self-similar traffic it grows with the scale m
as m^(2H-1), with a Hurst exponent H between .5 and 1: queues are then longer than a mean rate tells. Both estimators
look at a range of scales only, and state an interval:

- *local Whittle* [1]_: the slope of the periodogram near frequency 0, by likelihood;
- *wavelets* [2]_: the slope of the energy of wavelet coefficients over octaves. Wavelets with three vanishing moments
  do not see trends up to a parabola.

Their theory is that of Gaussian series. Counts are near to that where a period has several; a count that is drawn from
a Poisson distribution adds noise of its own, by which H is estimated too low at short scales.

.. [1] P. M. Robinson. Gaussian semiparametric estimation of long range dependence. Annals of Statistics 23(5), 1995.
.. [2] P. Abry, D. Veitch. Wavelet analysis of long-range-dependent traffic. IEEE Transactions on Information Theory
   44(1), 1998.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "dispersion", "local_whittle", "totals", "wavelet_hurst"]

Array = npt.NDArray[np.float64]
_SURE: Final = 1.959964  # standard errors of an interval of 95 %
#: Daubechies' scaling filter with three vanishing moments.
_SCALING: Final = np.array([
    0.3326705529500825, 0.8068915093110924, 0.4598775021184914, -0.1350110200102546, -0.0854412738820267,
    0.0352262918857095,
])  # fmt: skip
_LEAST: Final = 4  # coefficients that an octave has at least
_FREQUENCIES: Final = 16  # that local Whittle needs at least


class Interval(NamedTuple):
    """An estimate with the interval in which the true value is in 95 of 100 cases, if the model holds."""

    value: float
    low: float
    high: float


def totals(counts: Array, scale: int) -> Array:
    """Sums of ``scale`` counts each; those at the end that are fewer are left out.

    >>> totals(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2).tolist()
    [3.0, 7.0]
    """
    whole = len(counts) // scale
    found: Array = counts[: whole * scale].reshape(whole, scale).sum(axis=1)
    return found


def dispersion(counts: Array) -> float:
    """Variance of counts over their mean; of a Poisson process it is 1, of a regular one 0; NaN without any.

    >>> dispersion(np.array([2.0, 2.0, 2.0])), dispersion(np.array([0.0, 4.0]))
    (0.0, 4.0)
    """
    mean = float(counts.mean()) if len(counts) else 0.0
    return float(counts.var(ddof=1)) / mean if len(counts) > 1 and mean > 0.0 else math.nan


def local_whittle(series: Array, shortest: float, longest: float) -> Interval | None:
    """Estimate the Hurst exponent of a series between two scales, in its own steps; None: it is too short, or constant.

    ``shortest``: period of the highest frequency, in steps, at least 2; ``longest``: that of the lowest.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - importing it takes a second

    number = len(series)
    frequencies = np.arange(max(math.ceil(number / longest), 1), math.floor(number / max(shortest, 2.0)) + 1)
    if len(frequencies) < _FREQUENCIES or float(np.ptp(series)) == 0.0:
        return None
    power = np.abs(np.fft.rfft(series - series.mean())[frequencies]) ** 2 / number
    logs = np.log(2.0 * np.pi * frequencies / number)
    if not power.any():
        return None

    def unlikely(d: float) -> float:
        return math.log(float(np.mean(np.exp(2.0 * d * logs) * power))) - 2.0 * d * float(logs.mean())

    found = float(minimize_scalar(unlikely, bounds=(-0.49, 0.99), method="bounded").x)
    error = _SURE / (2.0 * math.sqrt(float(((logs - logs.mean()) ** 2).sum())))
    return Interval(found + 0.5, found + 0.5 - error, found + 0.5 + error)


def wavelet_hurst(series: Array, shortest: float, longest: float) -> Interval | None:
    """Estimate the Hurst exponent of a series between two scales, in its own steps; None: there are too few octaves.

    ``shortest``, ``longest``: scales of the first and the last octave, in steps.
    """
    from scipy.special import digamma, zeta  # noqa: PLC0415 - SciPy is slow to import

    if float(np.ptp(series)) == 0.0:
        return None
    octaves, energies, numbers = _energies(series)
    chosen = (octaves >= math.log2(max(shortest, 1.0)) - 1e-9) & (octaves <= math.log2(longest) + 1e-9)
    chosen &= (numbers >= _LEAST) & (energies > 0.0)
    if chosen.sum() < 3:
        return None
    octave, energy, number = octaves[chosen], energies[chosen], numbers[chosen]
    # E log2 of a mean of n squares is below log2 of its expectation; its variance is that of log of chi-squared.
    heights = np.log2(energy) - (digamma(number / 2.0) / math.log(2.0) - np.log2(number / 2.0))
    weights = math.log(2.0) ** 2 / zeta(2.0, number / 2.0)
    mean = float((weights * octave).sum() / weights.sum())
    spread = float((weights * (octave - mean) ** 2).sum())
    slope = float((weights * (octave - mean) * heights).sum()) / spread
    error = _SURE / math.sqrt(spread) / 2.0
    value = (slope + 1.0) / 2.0
    return Interval(value, value - error, value + error)


def _energies(series: Array) -> tuple[Array, Array, Array]:
    """Octaves, mean energy of the wavelet coefficients in each, and their numbers; those at the ends are left out."""
    wavelet = _SCALING[::-1] * np.where(np.arange(len(_SCALING)) % 2, -1.0, 1.0)
    rest, octave = np.asarray(series, dtype=np.float64), 0
    found: list[tuple[float, float, float]] = []
    while len(rest) >= 2 * len(_SCALING):
        details = np.convolve(rest, wavelet, "valid")[::2]
        rest, octave = np.convolve(rest, _SCALING, "valid")[::2], octave + 1
        found.append((float(octave), float(np.mean(details**2)), float(len(details))))
    octaves, energies, numbers = np.array(found).T if found else np.zeros((3, 0))
    return octaves, energies, numbers
