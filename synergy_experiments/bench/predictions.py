"""``prediction``: cost of one update of predicted times, rates and slack at a peer, beside fits by statsmodels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from synergy_experiments.bench.measurements import machine_load, measurement, quantile
from synergy_experiments.worlds.total_rates import TotalRate
from synergy_nb.models.execution_times import ExecutionTimes
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import CorrelatedRate, RatePredictor
from synergy_nb.models.slack import PredictedPaths

__all__ = ["prediction"]

ANCESTORS: Final = ("compare", "sort", "aggregate", "project", "filter")
APPLICATIONS: Final = 10  # at one node
WINDOW: Final = 128  # pairs of a regression
BATCH: Final = 1024  # tuples
TARGET: Final = 20e-6  # seconds of one update


def prediction(*, small: bool = False) -> dict[str, Any]:
    """Seconds of one update of all that a component predicts: the pair, the line, the next rate of five ancestors.

    The value is the median of the whole; in the detail medians and 99th percentiles of each part, in microseconds.
    """
    count = 300 if small else 50_000
    before = machine_load()
    rng = np.random.default_rng(1)
    series = [rng.poisson(1000.0, count)]
    for _ in ANCESTORS:
        series.append(rng.binomial(series[-1], 0.8))
    own = series[-1].astype(np.float64).tolist()
    carried = [dict(zip(ANCESTORS, map(float, rates), strict=True)) for rates in zip(*series[:-1], strict=True)]
    seconds = (0.01 + 1e-5 * series[-1] + rng.exponential(1e-3, count)).tolist()
    names = [f"a{number}" for number in range(APPLICATIONS)]

    def timed(step: Callable[[int], object]) -> list[float]:
        found = []
        for k in range(count):
            began = time.perf_counter()
            step(k)
            found.append(time.perf_counter() - began)
        return found

    times = ExecutionTimes(WINDOW)

    def regression(k: int) -> object:
        times.observe(own[k], seconds[k])
        return times.predict(own[k], 1e-4)

    def rate(predictor: RatePredictor) -> Callable[[int], object]:
        def step(k: int) -> object:
            found = predictor.predict(carried[k])
            predictor.observe(own[k], carried[k])
            return found

        return step

    total, all_times, combined = TotalRate(), ExecutionTimes(WINDOW), CombinedRate(ANCESTORS)

    def whole(k: int) -> object:
        expected = combined.predict(carried[k])
        combined.observe(own[k], carried[k])
        rates = total.processed(names[k % APPLICATIONS], own[k])
        all_times.observe(rates, seconds[k])
        return all_times.predict(rates - own[k] + expected.rate, 1e-4)

    chain = dict.fromkeys(zip(ANCESTORS, (*ANCESTORS[1:], "sink"), strict=True), 0.01)
    predicted = dict.fromkeys((*ANCESTORS, "sink"), 0.02)
    paths = PredictedPaths(chain, predicted, {"sink": 0.5})
    elapsed = rng.uniform(0.0, 0.4, BATCH)
    parts = {
        "execution_time": timed(regression),
        "rate_literal": timed(rate(CorrelatedRate(ANCESTORS))),
        "rate_combined": timed(rate(CombinedRate(ANCESTORS))),
        "slack_of_a_batch": timed(lambda _: paths.slack("project", elapsed)),
        "paths_after_feedback": timed(lambda _: PredictedPaths(chain, predicted, {"sink": 0.5})),
        "all_of_an_update": timed(whole),
    }
    value = quantile(parts["all_of_an_update"], 0.5)
    detail: dict[str, Any] = {
        "updates": count,
        "ancestors": len(ANCESTORS),
        "applications": APPLICATIONS,
        "batch": BATCH,
        "us": {
            name: {"p50": round(1e6 * quantile(found, 0.5), 2), "p99": round(1e6 * quantile(found, 0.99), 2)}
            for name, found in parts.items()
        },
        "target": TARGET,
        "load": {"before": before, "after": machine_load()},
    }
    return {**measurement("prediction", value, "s", detail), "peers": [_fitted(own, seconds, 20 if small else 200)]}


def _fitted(own: list[float], seconds: list[float], fits: int) -> dict[str, Any]:
    """The same line, fitted again by statsmodels from the window for each of some updates."""
    name = "statsmodels OLS"
    import statsmodels.api as sm  # noqa: PLC0415 - importing it takes a second

    found = []
    for k in range(fits):
        rates, times = np.array(own[k : k + WINDOW]), np.array(seconds[k : k + WINDOW])
        began = time.perf_counter()
        fitted = sm.OLS(times, sm.add_constant(rates)).fit()
        _ = fitted.params, fitted.bse
        found.append(time.perf_counter() - began)
    return measurement(name, quantile(found, 0.5), "s", {"fits": fits, "window": WINDOW})
