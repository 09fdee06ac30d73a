"""Forecasters of statsmodels for comparison with the prediction of rates.

They are fitted once, to the first part of a series, and forecast each following rate from all rates before it.
``AutoReg with ancestors`` receives the carried rates of the same tuple, as our predictors do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["FORECASTERS", "forecast"]

Array = npt.NDArray[np.float64]
LAGS: Final = 5  # greatest order of autoregressions


def forecast(name: str, rates: Array, carried: Mapping[str, Array], fitted: int) -> Array:
    """One-step forecasts of all rates from number ``fitted`` on.

    Parameters
    ----------
    name
        Name of the forecaster, an element of :data:`FORECASTERS`.
    rates
        Own rates, tuples/s.
    carried
        Ancestor to its rates, paired with the own ones.
    fitted
        Number of the first rates that the forecaster is fitted to.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of fits at a bound, which do not matter here
        found = FORECASTERS[name](rates, carried, fitted)
    found = np.where(np.isfinite(found), found, rates[fitted - 1 : -1])
    return np.maximum(found, 0.0)


def _smoothing(rates: Array, _: Mapping[str, Array], fitted: int) -> Array:
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing  # noqa: PLC0415 - importing it takes a second

    level = SimpleExpSmoothing(rates[:fitted], initialization_method="estimated").fit().params["smoothing_level"]
    own = SimpleExpSmoothing(rates, initialization_method="known", initial_level=rates[0])
    return np.asarray(own.fit(smoothing_level=level, optimized=False).fittedvalues[fitted:])


def _holt(rates: Array, _: Mapping[str, Array], fitted: int) -> Array:
    from statsmodels.tsa.holtwinters import Holt  # noqa: PLC0415 - as above

    params = Holt(rates[:fitted], damped_trend=True, initialization_method="estimated").fit().params
    own = Holt(rates, damped_trend=True, initialization_method="known", initial_level=rates[0], initial_trend=0.0)
    names = ("smoothing_level", "smoothing_trend", "damping_trend")
    return np.asarray(own.fit(**{each: params[each] for each in names}, optimized=False).fittedvalues[fitted:])


def _autoregression(rates: Array, carried: Mapping[str, Array], fitted: int, *, ancestors: bool) -> Array:
    from statsmodels.tsa.ar_model import AutoReg  # noqa: PLC0415 - as above

    beside = np.column_stack(list(carried.values())) if ancestors and carried else None
    own = AutoReg(rates[:fitted], LAGS, exog=None if beside is None else beside[:fitted]).fit()
    whole = AutoReg(rates, LAGS, exog=beside)
    return np.asarray(whole.predict(own.params, start=fitted, end=len(rates) - 1))


def _alone(rates: Array, carried: Mapping[str, Array], fitted: int) -> Array:
    return _autoregression(rates, carried, fitted, ancestors=False)


def _beside(rates: Array, carried: Mapping[str, Array], fitted: int) -> Array:
    return _autoregression(rates, carried, fitted, ancestors=True)


#: Name to a function of the rates, the carried rates, and the number of fitted rates.
FORECASTERS: Final[Mapping[str, Callable[[Array, Mapping[str, Array], int], Array]]] = {
    "exponential smoothing": _smoothing,
    "Holt, damped": _holt,
    "AutoReg": _alone,
    "AutoReg with ancestors": _beside,
}
