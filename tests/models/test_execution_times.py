"""Execution times by rate: the regression beside statsmodels, and when it is trusted."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_experiments.worlds.total_rates import TotalRate
from synergy_nb.models._moments import PairedMoments
from synergy_nb.models.execution_times import ExecutionTimes, confidence_level

RATES = (100.0, 140.0, 180.0, 220.0, 260.0, 300.0, 340.0, 380.0)
STEADY = (0.0110, 0.0124, 0.0151, 0.0160, 0.0193, 0.0202, 0.0237, 0.0249)
NOISY = (0.012, 0.031, 0.011, 0.040, 0.013, 0.012, 0.055, 0.014)


def regressed(times: Iterable[float], rates: Iterable[float] = RATES, window: int = 128) -> ExecutionTimes:
    return ExecutionTimes.of(zip(rates, times, strict=True), window=window)


# -- the worked examples -----------------------------------------------------------------------------------------------


def test_a_line_through_eight_pairs_has_the_fitted_numbers() -> None:
    line = regressed(STEADY).line()
    assert line is not None
    assert line.intercept == pytest.approx(0.005510714, abs=5e-10)
    assert line.slope == pytest.approx(5.130952381e-5, rel=1e-10)
    assert line.error == pytest.approx(2.356897334e-6, rel=1e-9)
    assert (line.pairs, line.mean_rate, line.lowest_rate, line.highest_rate) == (8, 240.0, 100.0, 380.0)
    assert [round(line.at(rate), 9) for rate in (90.0, 300.0, 450.0)] == [0.010128571, 0.020903571, 0.0286]


def test_a_line_through_the_last_five_pairs() -> None:
    line = regressed(STEADY, window=5).line()
    assert line is not None
    assert line.intercept == pytest.approx(0.00417, abs=1e-12)
    assert line.slope == pytest.approx(5.55e-5, rel=1e-10)
    assert line.error == pytest.approx(5.744562647e-6, rel=1e-9)


def test_a_line_through_noise_has_the_fitted_numbers() -> None:
    line = regressed(NOISY).line()
    assert line is not None
    assert line.intercept == pytest.approx(0.015642857, abs=5e-10)
    assert line.slope == pytest.approx(3.273809524e-5, rel=1e-9)
    assert line.error == pytest.approx(6.810167233e-5, rel=1e-9)


@pytest.mark.parametrize(
    ("level", "steady", "noisy"),
    [
        (1e-6, ("last measurement", 0.0249), ("last measurement", 0.014)),
        (1e-5, ("line", 0.020903571), ("last measurement", 0.014)),
        (5e-5, ("line", 0.020903571), ("last measurement", 0.014)),
        (1e-4, ("line", 0.020903571), ("line", 0.025464286)),
    ],
)
def test_a_line_is_trusted_up_to_the_confidence_level(
    level: float, steady: tuple[str, float], noisy: tuple[str, float]
) -> None:
    for times, expected in ((STEADY, steady), (NOISY, noisy)):
        found = regressed(times).predict(300.0, level)
        assert (found.basis, round(found.seconds, 9)) == expected
        assert found.line is not None, "what was not trusted can be explained"


def test_without_a_line_the_last_measurement_is_reported() -> None:
    two = regressed((0.010, 0.020), (100.0, 200.0))
    assert two.line() is None
    assert two.predict(300.0, math.inf)[:2] == (0.020, "last measurement")
    equal = regressed((0.010, 0.020, 0.030, 0.012), (150.1,) * 4)
    assert equal.line() is None
    assert equal.predict(300.0, math.inf)[:2] == (0.012, "last measurement")
    assert ExecutionTimes(floor=0.002).predict(300.0, math.inf) == (0.002, "profile", False, None, 0.0)


def test_equal_rates_are_recognised_after_others_have_left_the_window() -> None:
    times = regressed([*STEADY, *NOISY], [*RATES, *[1000.0 / 3.0] * 8], window=8)
    assert times.line() is None
    assert times.predict(300.0, math.inf).seconds == NOISY[-1]


def test_no_prediction_is_below_the_processing_time() -> None:
    light = ExecutionTimes.of(zip(RATES, STEADY, strict=True), floor=0.009)
    assert light.predict(10.0, math.inf)[:3] == (0.009, "line", True)
    assert ExecutionTimes.of([(1.0, 0.004)], floor=0.009).predict(1.0, 1.0).seconds == 0.009


def test_a_prediction_outside_the_measured_rates_is_marked_as_extrapolated() -> None:
    times = regressed(STEADY)
    assert [times.predict(rate, 1.0).extrapolated for rate in (99.0, 100.0, 380.0, 380.5)] == [True, False, False, True]


def test_the_time_of_one_application_rises_with_the_rate_of_another() -> None:
    """The regressor is the rate of the node, not that of the application."""
    total, times = TotalRate(), ExecutionTimes()
    for number in range(40):
        total.processed("other", 100.0 + 5.0 * number)
        times.observe(total.processed("own", 50.0), 0.01 + 1e-5 * (150.0 + 5.0 * number))
    assert times.predict(50.0 + 295.0, 1e-6).seconds == pytest.approx(0.01345, rel=1e-9)
    assert times.predict(50.0 + 500.0, 1e-6).seconds == pytest.approx(0.0155, rel=1e-9)


def test_times_at_another_node_are_scaled_by_capacity() -> None:
    twice = regressed(STEADY).scaled(2.0)
    assert twice.predict(300.0, 1e-4).seconds == pytest.approx(2 * 0.020903571, abs=1e-8)
    assert twice.pairs == tuple((rate, 2.0 * seconds) for rate, seconds in zip(RATES, STEADY, strict=True))


def test_the_default_level_lets_the_slope_move_a_prediction_by_a_share_of_the_limit() -> None:
    level = confidence_level(0.5, 250.0, 0.05)
    assert level * 250.0 == 0.05 * 0.5
    assert confidence_level(0.5, 0.0) == math.inf


@pytest.mark.parametrize(("rate", "seconds"), [(-1.0, 0.1), (1.0, -0.1), (math.nan, 0.1), (1.0, math.inf)])
def test_measurements_that_make_no_sense_are_refused(rate: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="expected finite numbers from 0"):
        ExecutionTimes().observe(rate, seconds)


def test_parameters_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="window: 2; expected at least 3 pairs"):
        ExecutionTimes(2)
    with pytest.raises(ValueError, match=r"floor: -1\.0; expected seconds from 0"):
        ExecutionTimes(floor=-1.0)
    with pytest.raises(ValueError, match="window: 0; expected at least 1 pair"):
        PairedMoments(0)


# -- beside statsmodels ------------------------------------------------------------------------------------------------

values = st.floats(0.0, 1000.0, allow_subnormal=False).map(lambda value: round(value, 4))


def fit(rates: npt.ArrayLike, times: npt.ArrayLike) -> Any:
    """The least-squares line of times against rates."""
    import statsmodels.api as sm  # importing it takes a second

    return sm.OLS(np.array(times), sm.add_constant(np.array(rates), has_constant="add")).fit()


def equals_statsmodels(found: ExecutionTimes, rates: Sequence[float], times: Sequence[float]) -> None:
    line = found.line()
    if len(rates) < 3 or min(rates) == max(rates):
        assert line is None
        return
    assert line is not None
    fitted = fit(rates, times)
    spread = max(times) - min(times)
    reach = max(rates) - min(rates)
    scale = spread / reach + 1e-12 * max(times)
    assert line.slope == pytest.approx(fitted.params[1], rel=1e-8, abs=1e-8 * scale)
    assert line.error == pytest.approx(fitted.bse[1], rel=1e-6, abs=1e-6 * scale)
    assert line.at(sum(rates) / len(rates)) == pytest.approx(sum(times) / len(times), rel=1e-9, abs=1e-12)


@pytest.mark.slow
@given(st.lists(st.tuples(values, values), min_size=1, max_size=60), st.integers(3, 20))
def test_lines_equal_those_of_statsmodels(pairs: list[tuple[float, float]], window: int) -> None:
    found = ExecutionTimes.of(pairs, window=window)
    rates, times = zip(*pairs[-window:], strict=True)
    assert found.pairs == tuple(pairs[-window:])
    equals_statsmodels(found, rates, times)


@pytest.mark.slow
def test_digits_are_not_lost_in_a_hundred_thousand_pairs() -> None:
    rng = np.random.default_rng(3)
    rates = 1e6 + rng.normal(0.0, 1.0, 100_000)  # far from 0, so that sums of squares would cancel
    times = 0.01 + 1e-4 * (rates - 1e6 + 5.0) + rng.exponential(0.001, 100_000)
    found = regressed(times, rates)
    equals_statsmodels(found, rates[-128:].tolist(), times[-128:].tolist())
    line = found.line()
    fitted = fit(rates[-128:] - rates[-128:].mean(), times[-128:])
    assert line is not None
    assert line.slope == pytest.approx(fitted.params[1], rel=1e-10)
    assert line.error == pytest.approx(fitted.bse[1], rel=1e-10)


@pytest.mark.slow
def test_an_outlier_that_has_left_the_window_leaves_no_trace() -> None:
    rng = np.random.default_rng(4)
    rates, times = rng.uniform(100, 400, 400), rng.uniform(0.01, 0.02, 400)
    rates[100], times[100] = 1e9, 1e6
    equals_statsmodels(regressed(times, rates), rates[-128:].tolist(), times[-128:].tolist())


@pytest.mark.slow
@given(st.lists(st.tuples(values, values), min_size=2, max_size=60), st.integers(2, 20))
def test_moments_equal_those_of_numpy(pairs: list[tuple[float, float]], window: int) -> None:
    moments, everything = PairedMoments(window), PairedMoments()
    moments.extend(pairs)
    everything.extend(pairs)
    for found, own in ((moments, pairs[-window:]), (everything, pairs)):
        x, y = np.array(own).T
        assert found.count == len(own)
        assert (found.least_x, found.most_x) == (x.min(), x.max())
        assert found.mean_x == pytest.approx(x.mean(), abs=1e-9)
        assert found.mean_y == pytest.approx(y.mean(), abs=1e-9)
        assert found.xx == pytest.approx(((x - x.mean()) ** 2).sum(), abs=1e-6)
        assert found.xy == pytest.approx(((x - x.mean()) * (y - y.mean())).sum(), abs=1e-6)
        if min(np.ptp(x), np.ptp(y)) > 0.01:
            assert found.correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-6)
        if np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
            assert found.correlation is None
    assert everything.pairs == (), "what is not bounded is not stored"


# -- the total rate ----------------------------------------------------------------------------------------------------

processed = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=30)


@pytest.mark.slow
@given(processed)
def test_total_rates_equal_a_literal_count(items: list[tuple[str, int]]) -> None:
    present, literal = TotalRate(), TotalRate(literal=True)
    for number, (application, rate) in enumerate(items):
        latest = dict(items[: number + 1])
        before = [k for k, (other, _) in enumerate(items[:number]) if other == application]
        since = {other for other, _ in items[(before[-1] + 1 if before else 0) : number + 1]}
        assert present.processed(application, rate) == sum(latest.values())
        assert literal.processed(application, rate) == sum(latest[each] for each in since)


def test_an_application_that_left_has_no_rate() -> None:
    for literal in (False, True):
        total = TotalRate(literal=literal)
        total.processed("a", 10.0)
        total.processed("b", 20.0)
        total.forget("b")
        total.forget("unknown")
        assert total.processed("a", 10.0) == 10.0


# -- cost --------------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_by_the_window() -> None:
    times = ExecutionTimes(64)
    for number in range(1000):
        times.observe(number % 37, number % 11)
    assert len(times.pairs) == 64
    assert sys.getsizeof(times.pairs) < 1000


# -- beyond capacity ---------------------------------------------------------------------------------------------------


def test_beyond_the_capacity_the_backlog_grows() -> None:
    times = regressed(STEADY)
    grown = times.predict(300.0, 1e-5, load=1.2, horizon=2.0)
    assert grown.basis == "growing backlog"
    assert grown.seconds == pytest.approx(0.0249 + 0.4)
    assert grown.line == times.line()
    assert times.predict(300.0, 1e-5, load=1.0) == times.predict(300.0, 1e-5)
    assert times.predict(400.0, 1e-5, load=1.0 + 1e-6, horizon=1.0).basis == "line", "which says more"
    assert ExecutionTimes(floor=0.01).predict(1.0, 1.0, load=9.0).basis == "profile"
