"""Exponents of tails and of skew, of samples whose exponent is known."""

from __future__ import annotations

import numpy as np
import pytest

from synergy_nb.models.tails import tail_of, zipf_of


@pytest.mark.parametrize("alpha", [1.1, 1.8, 3.0])
def test_the_exponent_of_a_pareto_tail_is_found(alpha: float) -> None:
    inside = 0
    for seed in range(20):
        values = np.random.default_rng(seed).pareto(alpha, 20_000) + 1.0
        found = tail_of(np.sort(values)[-5000:], len(values))
        assert found is not None
        assert found.alpha.value == pytest.approx(alpha, rel=0.15)
        assert found.distance < 0.05
        inside += found.alpha.low <= alpha <= found.alpha.high
    assert inside >= 16


def test_only_the_tail_need_be_a_power_law() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.uniform(0.0, 10.0, 50_000), 10.0 * (rng.pareto(1.5, 3000) + 1.0)])
    found = tail_of(np.sort(values)[-5000:], len(values))
    assert found is not None
    assert found.alpha.value == pytest.approx(1.5, rel=0.1)
    assert found.above >= 9.5


def test_values_that_are_no_power_law_are_far_from_it() -> None:
    values = np.random.default_rng(1).uniform(1.0, 2.0, 4000)
    found = tail_of(values, len(values))
    assert found is not None
    assert found.alpha.value > 10.0  # no heavy tail
    assert tail_of(np.zeros(1000), 1000) is None
    assert tail_of(np.arange(1.0, 20.0), 19) is None


@pytest.mark.parametrize("exponent", [0.8, 1.2, 1.8])
def test_the_exponent_of_zipf_is_found(exponent: float) -> None:
    shares = np.arange(1, 2001) ** -exponent
    for seed in range(5):
        rows = np.random.default_rng(seed).choice(2000, size=200_000, p=shares / shares.sum())
        found = zipf_of(np.bincount(rows).astype(float))
        assert found is not None
        assert found.exponent.value == pytest.approx(exponent, abs=0.03)
        assert found.exponent.low < found.exponent.value < found.exponent.high
        assert found.fit > 0.95


def test_equal_counts_have_no_skew_and_few_have_no_exponent() -> None:
    found = zipf_of(np.full(100, 50.0))
    assert found is not None
    assert found.exponent.value == pytest.approx(0.0, abs=0.01)
    assert zipf_of(np.array([100.0, 50.0, 9.0, 9.0, 9.0])) is None
