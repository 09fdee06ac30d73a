"""Season, trend, memory, stationarity and forecast of series whose truth is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from synergy_nb.models.seasons import decomposed, forecast, memory, stationarity, trend_of

pytestmark = pytest.mark.slow

DAY = 24
HOURS = np.arange(12 * DAY)
SEASON = 10.0 * np.sin(2 * np.pi * HOURS / DAY)


def noise(seed: int, number: int = len(HOURS)) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=number)


def test_a_known_season_is_found_with_its_strength() -> None:
    found = decomposed(100.0 + SEASON + noise(1), [DAY])
    assert np.corrcoef(found.seasons[0], SEASON)[0, 1] > 0.99
    assert found.strengths[0] == pytest.approx(50.0 / 51.0, abs=0.02)  # variances of the season and of the noise
    assert found.trend.mean() == pytest.approx(100.0, abs=0.5)
    none = decomposed(100.0 + noise(2), [DAY])
    assert none.strengths[0] < 0.25  # noise is no season


def test_two_seasons_are_told_apart() -> None:
    hours = np.arange(4 * 7 * DAY)
    week = np.where(hours // DAY % 7 >= 5, -8.0, 0.0)
    day = 5.0 * np.sin(2 * np.pi * hours / DAY)
    found = decomposed(50.0 + day + week + 0.5 * noise(3, len(hours)), [DAY, 7 * DAY])
    assert np.corrcoef(found.seasons[0], day)[0, 1] > 0.95
    assert np.corrcoef(found.seasons[1], week)[0, 1] > 0.9
    assert min(found.strengths) > 0.8
    with pytest.raises(ValueError, match="periods: 168; expected less than half of the 336 values"):
        decomposed(np.ones(336), [DAY, 168])


def test_memory_of_an_autoregression() -> None:
    series, shocks = np.zeros(4000), noise(4, 4000)
    for place in range(1, 4000):
        series[place] = 0.7 * series[place - 1] + shocks[place]
    found = memory(series, 10)
    assert found is not None
    assert found.acf[:3] == pytest.approx([0.7, 0.49, 0.343], abs=0.06)
    assert found.pacf[0] == pytest.approx(0.7, abs=0.05)
    assert np.abs(found.pacf[1:]).max() < 2 * found.bound
    assert memory(np.ones(100), 10) is None


def test_stationary_or_not() -> None:
    white, walk = stationarity(noise(5, 1000)), stationarity(np.cumsum(noise(5, 1000)))
    assert white is not None
    assert walk is not None
    assert (white.verdict, walk.verdict) == ("stationary", "not stationary")
    assert stationarity(np.ones(50)) is None


def test_a_trend_with_its_interval() -> None:
    series = 100.0 * (1.0 + 0.02 * HOURS / DAY) + noise(6)
    found = trend_of(series, float(DAY))
    assert found is not None
    assert found.low < 2.0 / series.mean() < found.high
    assert found.low > 0.0
    none = trend_of(100.0 + noise(7), float(DAY))
    assert none is not None
    assert none.low < 0.0 < none.high


@pytest.mark.parametrize("period", [DAY, None])
def test_forecasts_have_the_next_values_between_their_bounds(period: int | None) -> None:
    series = 100.0 + (SEASON if period else 0.0) + noise(8)
    found = forecast(series[:-DAY], period, DAY)
    assert found is not None
    inside = (found.low <= series[-DAY:]) & (series[-DAY:] <= found.high)
    assert inside.mean() >= 0.75
    assert (found.high - found.low).max() < 12.0  # not just anything
    assert forecast(series[:10], period, DAY) is None
