"""Formulas of queues equal slow, obvious computations of the same thing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synergy_nb.models.queueing import execution_time, tandem_tail, waiting_time


@pytest.mark.parametrize("load", [0.05, 0.5, 0.9])
def test_mm1_is_the_birth_death_chain(load: float) -> None:
    rate, tau = load / 0.2, 0.2
    shares = np.cumprod([1.0, *[load] * 2000])
    shares /= shares.sum()
    held = np.arange(len(shares))
    assert rate * execution_time(tau, load) == pytest.approx((shares * held).sum())  # Little
    assert rate * waiting_time(tau, load) == pytest.approx((shares * np.maximum(held - 1, 0)).sum())


def test_waiting_is_proportional_to_variability() -> None:
    assert waiting_time(0.2, 0.6, 0.0) == pytest.approx(waiting_time(0.2, 0.6) / 2)
    assert waiting_time(0.2, 0.6, 0.0, 4.0) == pytest.approx(2 * waiting_time(0.2, 0.6))


def test_mg1_waiting_equals_the_residual_time_of_work_found() -> None:
    """A tuple waits for the queue that it finds (Little) and for the rest of the service in progress (PASTA)."""
    rate, times, chances = 2.0, np.array([0.1, 0.9]), np.array([0.7, 0.3])
    mean = float((times * chances).sum())
    second = float((times**2 * chances).sum())
    waiting = waiting_time(mean, rate * mean, second / mean**2 - 1)
    assert waiting == pytest.approx(rate * waiting * mean + rate * second / 2)


def test_delays_for_all_segments_equal_those_one_by_one() -> None:
    loads = np.array([0.0, 0.3, 0.999, 1.0, 1.7])
    assert execution_time(0.01, loads).tolist() == [execution_time(0.01, float(load)) for load in loads]
    assert waiting_time(0.01, loads, 0.5, 3.0).tolist() == [waiting_time(0.01, float(p), 0.5, 3.0) for p in loads]


def test_the_time_of_a_queue_is_exponential() -> None:
    assert tandem_tail(7.0, [0.1], 2 * execution_time(0.1, 0.7)) == pytest.approx(math.exp(-2))


def test_the_time_of_a_row_of_queues_is_hypoexponential() -> None:
    rate, taus = 4.0, [0.1, 0.05, 0.2]
    means = [execution_time(tau, rate * tau) for tau in taus]
    for seconds in (0.0, 0.3, 2.0, 6.0):
        tail = 0.0
        for one in means:  # partial fractions, for they differ
            others = [other for other in means if other != one]
            tail += math.prod(one / (one - other) for other in others) * math.exp(-seconds / one)
        assert tandem_tail(rate, taus, seconds) == pytest.approx(tail, abs=1e-12)
    assert tandem_tail(rate, [*taus, 0.0], 0.7) == pytest.approx(tandem_tail(rate, taus, 0.7))


def test_a_very_uneven_row_is_as_its_slowest_queue() -> None:
    assert tandem_tail(1.0, [0.5, 1e-5], 3.0) == pytest.approx(tandem_tail(1.0, [0.5], 3.0), rel=1e-4)


def test_nearly_equal_queues_are_as_equal_ones() -> None:
    near = tandem_tail(4.0, [0.1, 0.1 + 1e-12, 0.1 - 1e-12], 0.8)
    assert near == pytest.approx(tandem_tail(4.0, [0.1] * 3, 0.8), rel=1e-9)


def test_without_a_steady_state_all_is_infinite() -> None:
    assert execution_time(0.1, 1.0) == waiting_time(0.1, 2.0, 0.0) == waiting_time(0.1, 1.1, 0.5, 0.0) == math.inf
    assert tandem_tail(10.0, [0.01, 0.1], 1e6) == 1.0


def test_an_empty_queue_has_no_wait() -> None:
    assert (waiting_time(0.3, 0.0), execution_time(0.3, 0.0)) == (0.0, 0.3)
    assert tandem_tail(1.0, [], 0.0) == 0.0


def test_meaningless_rates_and_times_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"rate: -1.0; expected a number of tuples/s from 0"):
        tandem_tail(-1.0, [0.1], 1.0)
    with pytest.raises(ValueError, match=r"seconds: nan; expected a number"):
        tandem_tail(1.0, [0.1], math.nan)
    with pytest.raises(ValueError, match=r"tau: nan; expected seconds from 0"):
        waiting_time(math.nan, 0.5)
    with pytest.raises(ValueError, match=r"scv_arrivals: -0.5; expected a squared coefficient"):
        waiting_time(0.1, 0.1, 1.0, -0.5)
    with pytest.raises(ValueError, match=r"load: -0.1; expected shares of the capacity from 0"):
        execution_time(0.1, np.array([0.5, -0.1]))
