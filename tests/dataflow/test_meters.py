"""Meters compared with what a list of all readings says."""

from __future__ import annotations

import math
import random

import pytest

from synergy_nb.dataflow.meters import DelayHistogram, Ewma, Rate, UnitCost


def test_a_rate_is_unbiased_from_the_first_reading_and_forgets_what_is_older_than_its_window() -> None:
    rate = Rate(window=2.0, now=10.0)
    assert rate.per_second(10.0) == 0.0
    for step in range(1, 101):
        rate.add(3.0, now=10.0 + step / 10)
        assert rate.per_second(10.0 + step / 10) == pytest.approx(30.0, rel=0.06)
    assert rate.per_second(22.0) == pytest.approx(30.0 * math.exp(-1.0), rel=0.06)
    before = rate.per_second(20.0)
    rate.add(0.0, now=5.0)  # the clock has stepped back
    assert rate.per_second(20.0) == before


def test_a_moving_mean_begins_with_its_first_reading_and_the_mean_is_over_all_tuples() -> None:
    times = Ewma(weight=0.25)
    assert (times.moving, times.mean, times.count) == (0.0, 0.0, 0)
    times.add(4.0, count=2)
    times.add(8.0)
    assert (times.moving, times.count) == (5.0, 3)
    assert times.mean == pytest.approx(16.0 / 3.0)


@pytest.mark.parametrize("tuples", [16, 1000])
def test_the_cost_of_a_tuple_is_the_lower_quartile_of_the_executions_of_many(tuples: int) -> None:
    cost = UnitCost()
    for number in range(1, 8):
        cost.add(tuples, number * 1e-3 * tuples)
        assert cost.seconds is None, "too few"
    cost.add(tuples, 8e-3 * tuples)
    assert cost.seconds == pytest.approx(3e-3)
    for _ in range(32):
        cost.add(tuples, 5e-3 * tuples)
    assert cost.seconds == pytest.approx(5e-3), "older ones are forgotten"


@pytest.mark.parametrize(("seconds", "known"), [(4.9e-3, False), (5e-3, True)])
def test_executions_of_few_tuples_count_only_where_a_tuple_takes_long(seconds: float, known: bool) -> None:
    cost = UnitCost()
    for _ in range(15):
        cost.add(15, seconds * 15)
        assert cost.seconds is None
    cost.add(15, seconds * 15)
    assert cost.seconds == (pytest.approx(seconds) if known else None)


def test_quantiles_of_delays_are_within_a_percent_of_those_of_a_sorted_list() -> None:
    rng = random.Random(3)
    delays, meter = sorted(rng.lognormvariate(-3.0, 2.0) for _ in range(999)), DelayHistogram(limit=0.2)
    assert (meter.quantile(0.5), meter.mean, meter.miss_rate) == (None, None, None)
    for delay in delays:
        meter.add(delay)
        meter.add(delay, count=0)
    for share in (0.001, 0.25, 0.5, 0.9, 0.999, 1.0):
        assert meter.quantile(share) == pytest.approx(delays[math.ceil(share * 999) - 1], rel=0.0101)
    assert (meter.least, meter.most, meter.count) == (delays[0], delays[-1], 999)
    assert meter.mean == pytest.approx(sum(delays) / 999)
    assert meter.miss_rate == sum(each > 0.2 for each in delays) / 999


def test_delays_are_clipped_and_one_at_its_limit_is_in_time() -> None:
    meter = DelayHistogram(limit=0.5)
    meter.add(-1.0, count=3)
    meter.add(0.5)
    meter.add(1e9)
    assert (meter.least, meter.most, meter.missed, meter.count) == (1e-6, 1e6, 1, 5)
    assert meter.quantiles(0.0, 0.5, 1.0) == [meter.quantile(share) for share in (0.0, 0.5, 1.0)]
    assert meter.quantile(0.5) == pytest.approx(1e-6, rel=0.0101)
    assert meter.quantile(1.0) == pytest.approx(1e6, rel=0.0101)


def test_a_histogram_that_includes_two_others_is_that_of_all_their_delays() -> None:
    rng = random.Random(7)
    delays = [rng.lognormvariate(-3.0, 2.0) for _ in range(200)]
    every, first, second, together = (DelayHistogram(limit=0.2) for _ in range(4))
    for number, delay in enumerate(delays):
        every.add(delay)
        (first if number < 50 else second).add(delay)
    for part in (DelayHistogram(limit=0.2), first, second):
        together.include(part)
    shares = (0.0, 0.5, 0.99, 1.0)
    assert together.quantiles(*shares) == every.quantiles(*shares)
    assert (together.count, together.missed) == (200, every.missed)
    assert together.mean == pytest.approx(every.mean)
