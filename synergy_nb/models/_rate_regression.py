"""Prediction of a component's next input rate by a regression that learns with every rate: recursive least squares.

The change of the own rate, r_k - r_{k-1}, is predicted as a linear function of

- the last five changes of the own rate, which the same tuples cause if rates are counted in windows that overlap;
- the distances of the last rate to two smoothed rates, a slow and a fast one, to which it may return;
- for each of the four nearest ancestors, the change of its rate that the tuples carry, and the distance of the own last
  rate to what its rate before that implied. Both are scaled by the usual share: the own slowly smoothed rate over the
  ancestor's. So two coefficients of 1 give the usual share of the ancestor's rate.

All coefficients begin at 0, which predicts the last rate. They are those of least squares over all rates so far, where
a rate counts .999 times as much with each later one (recursive least squares with forgetting [1]_), so an update takes
the square of the number of coefficients rather than a fit. The regression alone is not safe: a chance of the last rates
may be followed. :mod:`synergy_nb.models.rate_combination` uses it where it has proved better.

References
----------
.. [1] L. Ljung, *System Identification: Theory for the User*, 2nd edition, Prentice Hall, 1999, chapter 11.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

CHANGES: Final = 5  # number of last changes of the own rate on which a prediction rests
NEAREST: Final = 4  # number of ancestors that are followed, the nearest ones
SLOW: Final = 0.05  # weight of a new rate in the smoothed ones
FAST: Final = 0.5
FORGETTING: Final = 0.999  # factor by which the weight of a rate falls with each later rate
PRIOR: Final = 0.01  # number of rates that the initial coefficients weigh as much as
EARLY: Final = 6  # number of first changes, which only give the scale
LARGEST: Final = 1e3  # uncertainty of a coefficient, as a multiple of the initial one
RENEWAL: Final = 64  # rates after which rounding and uncertainty are corrected
LEAST: Final = 1e-9  # tuples/s up to which a rate counts as 0

Array = npt.NDArray[np.float64]


class RateRegression:
    """Linear predictor of the change of a rate, from earlier changes and from carried rates.

    ``ancestors``: names of the preceding components, nearest first.

    Examples
    --------
    A component that gets an eighth of what its source sends, one interval later:

    >>> rates = RateRegression(["source"])
    >>> sent = [800.0, 640.0, 880.0, 960.0, 720.0, 560.0, 800.0, 880.0, 640.0, 720.0, 560.0] * 10
    >>> for before, now in zip(sent, sent[1:]):
    ...     rates.observe(before / 8.0, {"source": now})
    >>> round(rates.predict({"source": 800.0}))
    70
    """

    __slots__ = (
        "_before",
        "_changes",
        "_coefficients",
        "_count",
        "_factor",
        "_fast",
        "_last",
        "_levels",
        "_nearest",
        "_predicted",
        "_slow",
        "_squares",
        "_uncertainty",
    )

    def __init__(self, ancestors: Iterable[str]) -> None:
        self._changes = [0.0] * CHANGES  # latest first
        self._last = self._slow = self._fast = 0.0
        self._count = 0
        self._squares = 0.0  # sum of squared changes
        self._coefficients: Array | None = None  # None until there is a scale
        # the covariance of the coefficients over the variance of errors is this matrix times this factor
        self._uncertainty: Array = np.zeros((0, 0))
        self._factor = 1.0
        self._predicted: tuple[list[float | None], Array, float] | None = None  # carried rates, inputs, next change
        self._follow(tuple(islice(ancestors, NEAREST)))

    def _follow(self, nearest: tuple[str, ...]) -> None:
        self._nearest = nearest
        self._before = [0.0] * len(nearest)  # last rate of each ancestor
        self._levels: list[float | None] = [None] * len(nearest)  # slowly smoothed rate of each ancestor
        self._coefficients = self._predicted = None

    def set_ancestors(self, ancestors: Iterable[str]) -> None:
        """Follow these ancestors from now on, nearest first; if others than before are nearest, learn anew."""
        nearest = tuple(islice(ancestors, NEAREST))
        if nearest == self._nearest:
            return
        known = dict(zip(self._nearest, zip(self._before, self._levels, strict=True), strict=True))
        self._follow(nearest)
        for place, ancestor in enumerate(nearest):
            self._before[place], self._levels[place] = known.get(ancestor, (0.0, None))

    def predict(self, carried: Mapping[str, float]) -> float:
        """Predict the own rate, tuples/s, from carried rates; at first it is the last own rate."""
        if self._coefficients is None:
            return self._last
        _, change = self._change(carried, self._coefficients)
        return max(self._last + change, 0.0) if math.isfinite(change) else self._last

    def observe(self, rate: float, carried: Mapping[str, float]) -> None:
        """Learn from the own next rate in tuples/s and the rates that its tuples carried."""
        if self._count:
            self._learn(rate - self._last, carried)
            self._slow += SLOW * (rate - self._slow)
            self._fast += FAST * (rate - self._fast)
        else:
            self._slow = self._fast = rate
        self._count += 1
        self._last = rate
        self._predicted = None
        before, levels = self._before, self._levels
        for place, ancestor in enumerate(self._nearest):
            now = carried.get(ancestor)
            if now is not None:
                before[place] = now
                level = levels[place]
                levels[place] = now if level is None else level + SLOW * (now - level)

    def _change(self, carried: Mapping[str, float], coefficients: Array) -> tuple[Array, float]:
        """Return what the next change is a function of, and the change; those of a prediction are kept."""
        rates = [carried.get(ancestor) for ancestor in self._nearest]
        known = self._predicted
        if known is not None and known[0] == rates:
            return known[1:]
        inputs = self._inputs(rates)
        change = float(coefficients.dot(inputs))
        self._predicted = rates, inputs, change
        return inputs, change

    def _inputs(self, rates: Iterable[float | None]) -> Array:
        """Return the values from which the next change is predicted."""
        last, slow = self._last, self._slow
        found = [*self._changes, slow - last, self._fast - last]
        for now, before, level in zip(rates, self._before, self._levels, strict=True):
            if level is None or level <= LEAST:
                found += (0.0, 0.0)
                continue
            share = slow / level
            found += (0.0 if now is None else share * (now - before), share * before - last)
        return np.array(found)

    def _learn(self, change: float, carried: Mapping[str, float]) -> None:
        """Update the coefficients by a change of the own rate."""
        self._squares += change * change
        if self._coefficients is None and self._count >= EARLY and self._squares > 0.0:
            number = CHANGES + 2 + 2 * len(self._nearest)
            self._coefficients = np.zeros(number)
            self._uncertainty = np.eye(number)
            self._factor = 1.0 / self._scale()
        if self._coefficients is not None:
            inputs, expected = self._change(carried, self._coefficients)
            direction = self._uncertainty.dot(inputs)
            gain = self._factor / (FORGETTING + self._factor * float(inputs.dot(direction)))
            scaled = direction * gain
            self._coefficients += scaled * (change - expected)
            self._uncertainty -= direction[:, None] * scaled
            self._factor /= FORGETTING
            if self._count % RENEWAL == 0:
                self._renew()
        self._changes = [change, *self._changes[:-1]]

    def _scale(self) -> float:
        """Weight of the initial coefficients: that of a few changes of the usual size."""
        return PRIOR * self._squares / self._count

    def _renew(self) -> None:
        """Correct the uncertainty for rounding and forgetting: it grows for coefficients that no rate tells about."""
        if self._coefficients is None or not np.isfinite(self._coefficients).all():
            self._coefficients = None
            return
        uncertainty = (self._uncertainty + self._uncertainty.T) * (self._factor / 2.0)
        excess = float(uncertainty.diagonal().max()) * self._scale() / LARGEST
        self._uncertainty = uncertainty / excess if excess > 1.0 else uncertainty
        self._factor = 1.0
