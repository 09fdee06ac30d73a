"""What a series of counts does over days and weeks: season, trend, memory, and what comes next, by statsmodels.

A season has a *strength* [1]_ from 0 to 1: the share of the variance of season and rest together that is not the
rest's, after a decomposition by LOESS (STL [2]_, MSTL for several seasons at once).

.. [1] X. Wang, K. Smith, R. Hyndman. Characteristic-based clustering for time series data. Data Mining and Knowledge
   Discovery 13, 2006.
.. [2] R. B. Cleveland, W. S. Cleveland, J. E. McRae, I. Terpenning. STL: a seasonal-trend decomposition procedure based
   on Loess. Journal of Official Statistics 6(1), 1990.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.models.burstiness import Interval

__all__ = [
    "Autocorrelations",
    "Decomposed",
    "Forecast",
    "Stationarity",
    "decomposed",
    "forecast",
    "memory",
    "stationarity",
    "trend_of",
]

Array = npt.NDArray[np.float64]
_LAGS: Final = 48  # most lags of a partial autocorrelation
_ORDER: Final = 3  # order of the autoregression that forecasts


class Decomposed(NamedTuple):
    """A series as the sum of trend, seasons and rest."""

    trend: Array
    seasons: list[Array]  # in the order of the periods
    rest: Array
    strengths: list[float]  # of the seasons, from 0 to 1
    trend_strength: float  # from 0 to 1


class Autocorrelations(NamedTuple):
    """Autocorrelations by lag, from lag 1 on, and the bound beyond which one is no chance."""

    acf: Array
    pacf: Array
    bound: float


class Stationarity(NamedTuple):
    """Two tests: the one takes a random walk for granted (ADF), the other a stationary series (KPSS)."""

    adf_p: float  # probability of such a series if it is a random walk
    kpss_p: float  # probability of such a series if it is stationary, from .01 to .1

    @property
    def verdict(self) -> str:
        """What both say together."""
        if self.adf_p < 0.05:
            return "stationary" if self.kpss_p > 0.05 else "stationary but for its seasons or a trend"
        return "not stationary" if self.kpss_p <= 0.05 else "undecided"


class Forecast(NamedTuple):
    """What comes next, with the bounds between which it is in 95 of 100 cases if the model holds."""

    mean: Array
    low: Array
    high: Array


def decomposed(series: Array, periods: Sequence[int]) -> Decomposed:
    """Decompose a series with seasons of these periods, in its steps; each is to fit in more than twice.

    Raises ``ValueError`` if it is not longer than two of a period.
    """
    if too_long := [period for period in periods if len(series) <= 2 * period]:  # MSTL would leave it out
        raise ValueError(f"periods: {too_long[0]}; expected less than half of the {len(series)} values")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(periods) == 1:
            from statsmodels.tsa.seasonal import STL  # noqa: PLC0415 - importing it takes a second

            one = STL(series, period=periods[0], seasonal=_steady(series, periods[0]), robust=True).fit()
            trend, seasons, rest = np.asarray(one.trend), [np.asarray(one.seasonal)], np.asarray(one.resid)
        else:
            from statsmodels.tsa.seasonal import MSTL  # noqa: PLC0415 - as above

            windows = [_steady(series, period) for period in periods]
            found = MSTL(series, periods=tuple(periods), windows=windows).fit()
            all_of_them = np.asarray(found.seasonal)
            seasons = [all_of_them[:, place] for place in range(len(periods))]
            trend, rest = np.asarray(found.trend), np.asarray(found.resid)
    return Decomposed(trend, seasons, rest, [_strength(each, rest) for each in seasons], _strength(trend, rest))


def _steady(series: Array, period: int) -> int:
    """Smoothing of a season over so many of its cycles that it hardly changes.

    A season that may follow each cycle takes up the noise: it seems stronger than it is, and forecasts too sure.
    """
    return 10 * (len(series) // period) + 1


def _strength(part: Array, rest: Array) -> float:
    whole = float(np.var(part + rest))
    return max(0.0, 1.0 - float(np.var(rest)) / whole) if whole > 0.0 else 0.0


def memory(series: Array, lags: int) -> Autocorrelations | None:
    """Autocorrelations of a series up to a number of lags; None: it is constant, or too short."""
    lags = min(lags, len(series) // 2 - 1)
    if lags < 1 or float(np.ptp(series)) == 0.0:
        return None
    from statsmodels.tsa.stattools import acf, pacf  # noqa: PLC0415 - importing it takes a second

    found = np.asarray(acf(series, nlags=lags, fft=True))[1:]
    partial = np.asarray(pacf(series, nlags=min(lags, _LAGS), method="ywm"))[1:]
    return Autocorrelations(found, partial, 1.959964 / math.sqrt(len(series)))


def stationarity(series: Array) -> Stationarity | None:
    """Test whether a series is stationary; None: it is constant, or too short."""
    if len(series) < 20 or float(np.ptp(series)) == 0.0:
        return None
    from statsmodels.tsa.stattools import adfuller, kpss  # noqa: PLC0415 - importing it takes a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a probability is outside of the table, whose end is then used
        return Stationarity(float(adfuller(series, autolag="AIC")[1]), float(kpss(series, nlags="auto")[1]))


def trend_of(series: Array, per: float) -> Interval | None:
    """Change of a series in ``per`` steps as a share of its mean, with a memory that is taken into account (HAC).

    None: it is too short, or its mean is 0.
    """
    mean = float(series.mean()) if len(series) else 0.0
    if len(series) < 20 or mean <= 0.0:
        return None
    from statsmodels.api import OLS, add_constant  # noqa: PLC0415 - importing it takes a second

    lags = min(len(series) // 4, max(1, round(2.0 * len(series) ** (1.0 / 2.0))))
    fitted = OLS(series, add_constant(np.arange(len(series), dtype=np.float64))).fit(
        cov_type="HAC", cov_kwds={"maxlags": lags}
    )
    slope, (low, high) = float(fitted.params[1]), map(float, fitted.conf_int()[1])
    return Interval(slope * per / mean, low * per / mean, high * per / mean)


def forecast(series: Array, period: int | None, steps: int) -> Forecast | None:
    """Forecast a series by its season of a ``period`` and an autoregression of the rest; None: it is too short.

    The series is decomposed, what is left without its season continued by an autoregression of order 3, and the latest
    season repeated. ``period``: None: it has no season.
    """
    if len(series) < max(2 * (period or 0), 20) or float(np.ptp(series)) == 0.0:
        return None
    from statsmodels.tsa.ar_model import AutoReg  # noqa: PLC0415 - importing it takes a second
    from statsmodels.tsa.forecasting.stl import STLForecast  # noqa: PLC0415 - as above

    end = len(series) + steps - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits at a bound
        if period is None:
            found = AutoReg(series, lags=_ORDER).fit().get_prediction(len(series), end)
        else:
            steady, model = _steady(series, period), {"lags": _ORDER}
            fitted = STLForecast(series, AutoReg, model_kwargs=model, period=period, seasonal=steady).fit()
            found = fitted.get_prediction(start=len(series), end=end)
        bounds = np.asarray(found.conf_int(alpha=0.05))
    return Forecast(np.asarray(found.predicted_mean), bounds[:, 0], bounds[:, 1])
