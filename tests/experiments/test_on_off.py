"""The ON/OFF model: two rates that alternate, found over several windows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from synergy_experiments.flows.on_off import PENALTY, binned, expected_rates, recurrence, segments_of, two_levels


def alternating(windows: int, bins: int, high: float, low: float, half: int, seed: int) -> np.ndarray:
    """Counts of Poisson arrivals whose mean is high and low by turns, ``half`` bins each."""
    means = np.where(np.arange(bins) // half % 2 == 0, high, low)
    return np.random.default_rng(seed).poisson(means, (windows, bins)).astype(np.float64)


def test_the_sequence_of_states_is_the_likeliest_of_all() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        counts = rng.poisson(rng.choice([1.0, 9.0], 7)).astype(np.float64)
        fitted = two_levels(counts, 1.0)
        levels = sorted(set(fitted.tolist()))
        if len(levels) < 2:
            continue
        means = [max(level, 1e-9) for level in levels]

        def score(states: tuple[int, ...], given: np.ndarray = counts, of: list[float] = means) -> float:
            likely = sum(count * math.log(of[state]) - of[state] for count, state in zip(given, states, strict=True))
            return float(likely) - PENALTY * sum(one != two for one, two in itertools.pairwise(states))

        best = max(map(score, itertools.product((0, 1), repeat=7)))
        assert score(tuple((fitted == levels[1]).astype(int).tolist())) == pytest.approx(best, abs=0.7)


def test_short_segments_are_found_over_several_windows_and_not_in_one() -> None:
    """Segments of 7.5 and 2.5 tuples: 30 and 10 a second in a period of half a second."""
    counts = alternating(8, 200, 1.5, 0.5, 5, seed=1)
    rates = expected_rates(counts, 0.05)
    true = np.where(np.arange(200) // 5 % 2 == 0, 30.0, 10.0)
    assert np.mean(np.abs(rates - true) < 5.0) > 0.9
    alone = expected_rates(counts[:2], 0.05)
    assert np.mean(np.abs(alone - true) < 5.0) < 0.9


def test_regular_traffic_has_one_rate() -> None:
    constant = [
        len(set(expected_rates(alternating(8, 200, 1.0, 1.0, 5, seed), 0.05).tolist())) == 1 for seed in range(20)
    ]
    assert sum(constant) >= 16


def test_what_does_not_repeat_is_expected_as_the_last_signature_has_it() -> None:
    rng = np.random.default_rng(5)
    counts = rng.poisson(10.0, (6, 50)).astype(np.float64)
    counts[-2:, :25] += 40.0  # a burst that began in the window before the last
    last = np.where(np.arange(50) < 25, 500.0, 100.0)
    assert expected_rates(counts, 0.1, last) is last
    assert expected_rates(alternating(6, 50, 9.0, 3.0, 5, seed=2), 0.1, np.full(50, 60.0)) is not last


def test_bins_count_each_arrival_once() -> None:
    times = np.array([0.0, 0.1, 0.49, 0.5, 1.2, 2.9])
    assert binned(times, 0.0, 1.0, 3, 2).tolist() == [[3.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert binned(times, 1.0, 1.0, 1, 1).tolist() == [[1.0]]


def test_segments_have_the_work_of_their_bins() -> None:
    rates = np.array([5.0, 5.0, 0.0, 7.0])
    found = segments_of(rates, 3.0, 0.25, 0.02)
    assert [(each.start, each.length, each.rate) for each in found] == [
        (3.0, 0.5, 5.0),
        (3.5, 0.25, 0.0),
        (3.75, 0.25, 7.0),
    ]
    assert sum(each.length * each.load for each in found) == pytest.approx(0.25 * 0.02 * rates.sum())


def test_what_comes_again_is_the_slope_over_what_was_expected() -> None:
    rng = np.random.default_rng(3)
    before = list(rng.poisson(20.0, (6, 100)).astype(np.float64))
    assert recurrence(before, [7.0 + 0.4 * each for each in before]) == pytest.approx(0.4)
    assert recurrence(before, list(rng.poisson(20.0, (6, 100)).astype(np.float64))) < 0.15
    assert recurrence(before, [3.0 * each for each in before]) == 1.0
    assert recurrence(before, [30.0 - each for each in before]) == 0.0
    assert recurrence([np.full(100, 5.0)], before[:1]) == 0.0, "nothing varies, so nothing can come again"
