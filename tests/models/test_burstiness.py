"""Dispersion and Hurst exponents of series whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from synergy_nb.models.burstiness import Interval, dispersion, local_whittle, totals, wavelet_hurst
from tests.models.series import fractional_noise

SERIES = 30
LENGTH = 1 << 12


def test_noise_of_the_tests_has_the_covariances_of_its_exponent() -> None:
    found = np.array([fractional_noise(64, 0.8, seed) for seed in range(4000)])
    lags = [float((found[:, 10] * found[:, 10 + lag]).mean()) for lag in (0, 1, 5)]
    assert lags == pytest.approx([1.0, 0.5 * (2**1.6 - 2), 0.5 * (6**1.6 - 2 * 5**1.6 + 4**1.6)], abs=0.06)


@pytest.mark.parametrize("scale", [1, 10, 100])
def test_random_arrivals_have_a_dispersion_of_one_at_every_scale(scale: int) -> None:
    counts = totals(np.random.default_rng(7).poisson(0.7, 100_000).astype(float), scale)
    assert dispersion(counts) == pytest.approx(1.0, abs=4.0 * math.sqrt(2.0 / len(counts)))


def test_dispersion_of_what_has_none() -> None:
    assert math.isnan(dispersion(np.zeros(5)))
    assert math.isnan(dispersion(np.zeros(0)))
    assert dispersion(np.array([0.0, 10.0] * 50)) > 5.0


@pytest.mark.parametrize("hurst", [0.5, 0.7, 0.85])
@pytest.mark.parametrize("estimate", [local_whittle, wavelet_hurst])
def test_both_estimators_find_the_exponent_and_say_how_surely(
    estimate: Callable[..., Interval | None],
    hurst: float,
) -> None:
    made = [estimate(fractional_noise(LENGTH, hurst, seed), 8.0, LENGTH / 8) for seed in range(SERIES)]
    found = [each for each in made if each is not None]
    assert len(found) == SERIES
    values = [each.value for each in found]
    assert float(np.mean(values)) == pytest.approx(hurst, abs=0.02)
    inside = sum(each.low <= hurst <= each.high for each in found)
    assert inside >= 0.8 * SERIES  # 95 of 100
    widths = [each.high - each.low for each in found]
    assert float(np.std(values)) * 3.92 == pytest.approx(float(np.mean(widths)), rel=0.45)  # neither too wide


def test_a_trend_does_not_deceive_wavelets() -> None:
    noise = fractional_noise(LENGTH, 0.6, 3)
    with_trend = noise + 20.0 * (np.arange(LENGTH) / LENGTH) ** 2
    before, after = (wavelet_hurst(each, 8.0, LENGTH / 8) for each in (noise, with_trend))
    assert before is not None
    assert after is not None
    assert after.value == pytest.approx(before.value, abs=0.02)


@pytest.mark.parametrize("series", [np.ones(4096), np.arange(10.0)])
def test_too_short_or_constant_series_have_no_exponent(series: npt.NDArray[np.float64]) -> None:
    assert local_whittle(series, 8.0, len(series) / 8) is None
    assert wavelet_hurst(series, 8.0, len(series) / 8) is None
