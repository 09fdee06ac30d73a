"""Rates and delays in constant memory, against exact ones, and waiting times against queueing theory."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.dataflow.meters import DelayHistogram, Rate
from tests.stream_bench import Bench, work_of


def test_a_rate_follows_a_change_and_survives_a_clock_that_steps_back() -> None:
    rate = Rate(window=1.0, now=100.0)
    assert rate.per_second(100.0) == 0.0
    for step in range(1, 501):
        rate.add(1.0, 100.0 + step / 100)
    assert rate.per_second(105.0) == pytest.approx(100, rel=0.02)
    rate.add(1.0, 50.0)
    assert rate.per_second(105.0) == pytest.approx(101, rel=0.02)
    assert rate.per_second(115.0) < 0.01


@pytest.mark.slow
@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_of_delays_are_exact_within_one_percent(delays: list[float], share: float) -> None:
    histogram = DelayHistogram(limit=1.0)
    for delay in delays:
        histogram.add(delay)
    exact = sorted(delays)[max(math.ceil(Fraction(str(share)) * len(delays)), 1) - 1]
    assert histogram.quantile(share) == pytest.approx(exact, rel=0.0101)
    assert histogram.mean == pytest.approx(statistics.fmean(delays))
    assert histogram.missed == sum(delay > 1.0 for delay in delays)


def test_a_quantile_has_the_rank_that_it_says() -> None:
    """Of ten delays nine tenths do not exceed the ninth, so only the tenth is one that 99 % do not exceed."""
    histogram = DelayHistogram()
    for delay in range(1, 11):
        histogram.add(float(delay))
    found = [histogram.quantile(share) for share in (0.5, 0.9, 0.91, 0.99)]
    assert found == pytest.approx([5.0, 9.0, 10.0, 10.0], rel=0.0101)


def test_an_empty_histogram_has_no_quantiles() -> None:
    histogram = DelayHistogram()
    histogram.add(1.0, count=0)
    assert (histogram.quantile(0.5), histogram.mean, histogram.miss_rate) == (None, None, None)


@pytest.mark.slow(5)
@pytest.mark.parametrize(("load", "per_batch"), [(0.5, 300), (0.8, 1100)])
def test_waiting_times_of_poisson_arrivals_agree_with_the_m_m_1_queue(load: float, per_batch: int) -> None:
    """Mean waiting time W_q = ρ / (μ - λ); 99.9 % interval of 40 batch means, long against the correlation time.

    That is about 2 (1 + ρ) / (1 - ρ)² services: 12 and 90.
    """
    rng = random.Random(7)
    service = 1.0
    rate = load / service
    bench = Bench({"o": ["s"]})
    component = bench["o"]
    arrival = free = last = 0.0
    means: list[float] = []
    waiting: deque[float] = deque()
    served = 0
    while served < 41 * per_batch:
        while arrival <= free or not waiting:
            bench.offer("o", size=24, born=arrival, now=arrival)
            waiting.append(arrival)
            arrival += rng.expovariate(rate)
        start = max(free, waiting.popleft())
        work = work_of(bench.hosting, start)
        free = start + rng.expovariate(1.0 / service)
        bench.done(work, (), start, free)
        served += 1
        if served % per_batch == 0:
            total = component.stats(free)["queueing_s"] * served
            means.append((total - last) / per_batch)
            last = total
    means = means[1:]  # without the warm-up
    expected = load * service / (1.0 - load)
    half_width = 3.55 * statistics.stdev(means) / math.sqrt(len(means))  # Student's t, 39 degrees of freedom
    assert abs(statistics.fmean(means) - expected) < half_width
    assert half_width < 0.25 * expected, "an interval this wide would prove nothing"
    assert component.stats(free)["processing_s"] == pytest.approx(service, rel=0.02)
    assert component.stats(free)["batch_s"] * served / free == pytest.approx(load, rel=0.03)
