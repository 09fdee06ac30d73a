"""Prediction of a component's next input rate from its last one and upstream rates (dissertation, section 3.3.3).

    r̂_k = r_k(m) / r_{k-1}(m) · r_{k-1}                                                                          (3.6)

m is the preceding component with the greatest R, Pearson's correlation of its rates with the component's own rates so
far (equations 3.7 and 3.8). So the own last rate changes by the same factor as the rate of one predecessor.

Rates travel with the tuples (figure 3.2): a batch carries the rates that the upstream components measured when they
processed it, and they are paired with the own rate at its arrival. Rates that are measured at the same time would
belong to different tuples; where a component lags by an interval, they predict worse than the last value.

Decisions that the dissertation leaves open:

=============================  =========================================================================================
series "so far"                the last 60 pairs (``window``); None for all. A correlation over all pairs follows a
                               change of the traffic late or never
fewest pairs                   3: the correlation of two pairs is always 1 or -1
greatest R or greatest |R|     greatest R, and only R > 0: the ratio of a rate that falls while the own rate rises
                               points the wrong way. R that rounding alone can make (1e-9) is not above 0, nor above
                               another R
r_{k-1}(m) = 0, constant       the last value r_{k-1}
series, no predecessor
equal R                        the nearest predecessor
predecessors                   all ancestors, in the order of their distance; a component with several inputs has the
                               sum of the rates of its ports
what a rate is                 the caller's: the estimator decides every error, so :class:`PredictionErrors` has those
                               of the last value beside it. An error is the mean of abs(r̂ - r) / r over r > 0
=============================  =========================================================================================

:mod:`synergy_nb.models.rate_combination` predicts the same rates better.

Examples
--------
A component that gets a quarter of what its source sends:

>>> rates = CorrelatedRate(["source"])
>>> for source, own in [(20, 5.0), (24, 6.0), (30, 7.5)]:
...     rates.observe(own, {"source": source})
>>> rates.predict({"source": 27})
PredictedRate(rate=6.75, ancestor='source', correlation=1.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from synergy_nb.models._moments import ROUNDING, PairedMoments

__all__ = ["CorrelatedRate", "PredictedRate", "PredictionErrors", "RatePredictor", "predicted_series"]

WINDOW: Final = 60  # number of pairs in the window
FEWEST: Final = 3
LEAST: Final = 1e-9  # tuples/s up to which a rate counts as 0


class PredictedRate(NamedTuple):
    """A predicted rate and its basis."""

    rate: float  # predicted rate r̂_k, tuples/s
    # name of the component m whose change was followed; None if only the own rates were used
    ancestor: str | None = None
    correlation: float | None = None  # correlation R of the prediction; None where no stream was followed


class RatePredictor(Protocol):
    """Predictor of the next own rate, given the rates that the next tuples carry; it observes the rate afterwards."""

    def predict(self, carried: Mapping[str, float]) -> PredictedRate:
        """Predict the own rate that goes with carried rates.

        Parameters
        ----------
        carried
            Ancestor to its k-th rate r_k(i) that the tuples carry, tuples/s. Some may be missing.
        """
        ...

    def observe(self, rate: float, carried: Mapping[str, float]) -> None:
        """Observe the own k-th rate in tuples/s, with the rates that its tuples carried."""
        ...


def checked_rates(rate: float, carried: Mapping[str, float]) -> None:
    """Raise a ValueError that names a rate that is out of range."""
    if not 0.0 <= rate < math.inf:
        raise ValueError(f"rate: {rate}; expected tuples/s from 0")
    for ancestor, value in carried.items():
        if not 0.0 <= value < math.inf:
            raise ValueError(f"carried: {value} of {ancestor!r}; expected tuples/s from 0")


class CorrelatedRate:
    """Predictor of the dissertation, equations 3.6 to 3.8.

    ``ancestors``: names of the preceding components, nearest first.
    """

    __slots__ = ("_carried", "_moments", "_window", "last")

    def __init__(self, ancestors: Iterable[str], window: int | None = WINDOW) -> None:
        if window is not None and window < FEWEST:
            raise ValueError(f"window: {window}; expected at least {FEWEST} pairs, or None for all")
        self._window = window  # number of pairs over which correlations are computed; None for all
        self._moments = {ancestor: PairedMoments(window) for ancestor in ancestors}
        self._carried: dict[str, float] = {}  # ancestor to its rate in the last pair
        self.last = 0.0  # the own last rate r_{k-1}, tuples/s; 0 before there is one

    def set_ancestors(self, ancestors: Iterable[str]) -> None:
        """Follow these ancestors from now on, nearest first; the pairs of those that were followed before remain."""
        known = self._moments
        self._moments = {each: known.get(each) or PairedMoments(self._window) for each in ancestors}

    def correlation(self, ancestor: str) -> float | None:
        """Correlation R of an ancestor over the pairs so far (3.7); None with too few pairs or a constant series."""
        moments = self._moments[ancestor]
        return moments.correlation if moments.count >= FEWEST else None

    def best(self) -> tuple[str, float] | None:
        """Find the ancestor m with the greatest R above 0, with its R; None where there is none."""
        best: str | None = None
        greatest = 0.0
        for ancestor, moments in self._moments.items():
            if moments.count >= FEWEST:
                found = moments.correlation
                if found is not None and found > greatest + ROUNDING:
                    best, greatest = ancestor, found
        return None if best is None else (best, greatest)

    def predict(self, carried: Mapping[str, float]) -> PredictedRate:
        """Predict the own rate that goes with carried rates (equation 3.6); see :class:`RatePredictor`."""
        best = self.best()
        if best is None:
            return PredictedRate(self.last)
        now = carried.get(best[0])
        if now is None or self._carried.get(best[0], 0.0) <= LEAST:
            return PredictedRate(self.last)
        return PredictedRate(self.follow(best[0], now), *best)

    def follow(self, ancestor: str, rate: float) -> float:
        """Scale the own last rate by the change of an ancestor's rate (equation 3.6); the last rate if that was 0."""
        before = self._carried.get(ancestor, 0.0)
        return rate / before * self.last if before > LEAST else self.last

    def observe(self, rate: float, carried: Mapping[str, float]) -> None:
        """Add the next own rate, with the rates that its tuples carried; see :class:`RatePredictor`."""
        checked_rates(rate, carried)
        for ancestor, moments in self._moments.items():
            paired = carried.get(ancestor)
            if paired is not None:
                moments.add(paired, rate)
        self._carried = dict(carried)
        self.last = rate


class PredictionErrors(NamedTuple):
    """Errors of predictions, compared with those of the last value for the same rates.

    Notes
    -----
    If the error of the last value is as small, the rate was smoothed, or the horizon was short; so compare ratios.
    """

    # mape, last_mape: mean of abs(r̂ - r) / r over all r > 0: the "absolute average prediction error"
    mape: float
    # wape, last_wape: sum of abs(r̂ - r) over the sum of r: no single small rate decides it
    wape: float
    last_mape: float
    last_wape: float
    predictions: int  # number of predictions made

    @property
    def ratio(self) -> float:
        """Greater of the two ratios of errors to those of the last value; NaN if the latter are 0."""
        ratios = [own / last for own, last in ((self.mape, self.last_mape), (self.wape, self.last_wape)) if last > 0.0]
        return max(ratios, default=math.nan)

    @classmethod
    def of(cls, predicted: Sequence[float], last: Sequence[float], actual: Sequence[float]) -> PredictionErrors:
        """Compute the errors of predicted rates and of last values for the same actual rates in tuples/s.

        >>> PredictionErrors.of([9.0, 10.0], [5.0, 10.0], [10.0, 10.0])[:4]
        (0.05, 0.05, 0.25, 0.25)
        """
        found: list[float] = []
        for guesses in (predicted, last):
            off = [abs(guess - rate) for guess, rate in zip(guesses, actual, strict=True)]
            relative = [each / rate for each, rate in zip(off, actual, strict=True) if rate > 0.0]
            total = math.fsum(actual)
            found.append(math.fsum(relative) / len(relative) if relative else math.nan)
            found.append(math.fsum(off) / total if total > 0.0 else math.nan)
        mape, wape, last_mape, last_wape = found
        return cls(mape, wape, last_mape, last_wape, len(actual))


def predicted_series(
    predictor: RatePredictor, own: Sequence[float], carried: Mapping[str, Sequence[float]]
) -> list[PredictedRate]:
    """Predict all rates of a series except the first, each from earlier rates and from those that its tuples carry.

    ``predictor``: new predictor, which observes the whole series; ``own``: own rates, tuples/s; ``carried``: ancestor
    to its rates, paired with the own ones, tuples/s.
    """
    found = []
    for k, rate in enumerate(own):
        now = {ancestor: rates[k] for ancestor, rates in carried.items()}
        if k:
            found.append(predictor.predict(now))
        predictor.observe(rate, now)
    return found
