"""Formulas of queues equal slow, obvious computations of the same thing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synergy_nb.models.queueing import (
    Work,
    execution_time,
    gg1,
    jackson,
    md1,
    mg1,
    mm1,
    number_tail,
    pooled,
    superposed,
    tandem_quantile,
    tandem_tail,
    tandem_time,
    time_quantile,
    time_tail,
    waiting_quantile,
    waiting_time,
)


@pytest.mark.parametrize("load", [0.05, 0.5, 0.9])
def test_mm1_is_the_birth_death_chain(load: float) -> None:
    shares = np.cumprod([1.0, *[load] * 2000])
    shares /= shares.sum()
    held = np.arange(len(shares))
    steady = mm1(rate=load / 0.2, tau=0.2)
    assert steady.number == pytest.approx((shares * held).sum())
    assert steady.queue == pytest.approx((shares * np.maximum(held - 1, 0)).sum())
    assert steady.time == pytest.approx(steady.number / (load / 0.2))  # Little
    assert steady.time == pytest.approx(execution_time(0.2, load))
    assert number_tail(load, 4) == pytest.approx(shares[4:].sum())


def test_mg1_contains_mm1_and_md1_and_is_contained_in_gg1() -> None:
    assert mg1(3.0, 0.2, 1.0) == mm1(3.0, 0.2)
    assert mg1(3.0, 0.2, 0.0) == md1(3.0, 0.2)
    assert gg1(3.0, 0.2, 1.0, 2.5) == mg1(3.0, 0.2, 2.5)
    assert md1(3.0, 0.2).waiting == pytest.approx(mm1(3.0, 0.2).waiting / 2)
    assert gg1(3.0, 0.2, 4.0, 0.0).waiting == pytest.approx(2 * mm1(3.0, 0.2).waiting)


def test_mg1_waiting_equals_the_residual_time_of_work_found() -> None:
    """A tuple waits for the queue that it finds (Little) and for the rest of the service in progress (PASTA)."""
    rate, times, chances = 2.0, np.array([0.1, 0.9]), np.array([0.7, 0.3])
    mean = float((times * chances).sum())
    second = float((times**2 * chances).sum())
    waiting = mg1(rate, mean, second / mean**2 - 1).waiting
    assert waiting == pytest.approx(rate * waiting * mean + rate * second / 2)


def test_pooled_work_has_the_moments_of_the_mixture() -> None:
    works = [Work(10.0, 0.01, 0.0), Work(5.0, 0.05, 1.0), Work(0.0, 9.0)]
    both = pooled(works)
    second = (10.0 * 0.01**2 + 5.0 * 2 * 0.05**2) / 15.0
    assert both.rate == 15.0
    assert both.load == pytest.approx(0.35)
    assert both.tau**2 * (1 + both.scv) == pytest.approx(second)
    assert waiting_time(both.tau, both.load, both.scv) == pytest.approx(15.0 * second / 2 / (1 - 0.35))
    assert pooled([]) == Work(0.0, 0.0, 0.0)
    assert pooled([Work(4.0, 0.1, 0.0)] * 2) == pytest.approx(Work(8.0, 0.1, 0.0))


def test_variability_of_streams_is_weighted_by_their_rates() -> None:
    assert superposed([(1.0, 1.0)] * 7) == pytest.approx((7.0, 1.0))
    assert superposed([(1.0, 0.0), (3.0, 4.0)]) == (4.0, 3.0)
    assert superposed([]) == (0.0, 0.0)


def test_delays_for_all_segments_equal_those_one_by_one() -> None:
    loads = np.array([0.0, 0.3, 0.999, 1.0, 1.7])
    assert execution_time(0.01, loads).tolist() == [execution_time(0.01, float(load)) for load in loads]
    assert waiting_time(0.01, loads, 0.5, 3.0).tolist() == [waiting_time(0.01, float(p), 0.5, 3.0) for p in loads]


def test_the_time_of_a_queue_is_exponential() -> None:
    for fraction in (0.0, 0.5, 0.99):
        seconds = time_quantile(7.0, 0.1, fraction)
        assert time_tail(7.0, 0.1, seconds) == pytest.approx(1.0 - fraction)
    mean = mm1(7.0, 0.1).time
    assert time_tail(7.0, 0.1, 2 * mean) == pytest.approx(math.exp(-2))
    assert waiting_quantile(7.0, 0.1, 0.25) == 0.0
    waits = waiting_quantile(7.0, 0.1, 0.9)
    assert 0.7 * math.exp(-waits / mean) == pytest.approx(0.1)  # P(W > t) = p exp(-t / x)


def test_the_time_of_a_row_of_queues_is_hypoexponential() -> None:
    rate, taus = 4.0, [0.1, 0.05, 0.2]
    means = [mm1(rate, tau).time for tau in taus]
    for seconds in (0.0, 0.3, 2.0, 6.0):
        tail = 0.0
        for one in means:  # partial fractions, for they differ
            others = [other for other in means if other != one]
            tail += math.prod(one / (one - other) for other in others) * math.exp(-seconds / one)
        assert tandem_tail(rate, taus, seconds) == pytest.approx(tail, abs=1e-12)
    assert tandem_time(rate, taus) == pytest.approx(sum(means))
    assert tandem_tail(rate, taus, tandem_quantile(rate, taus, 0.95)) == pytest.approx(0.05)
    assert tandem_tail(rate, [*taus, 0.0], 0.7) == pytest.approx(tandem_tail(rate, taus, 0.7))


def test_a_very_uneven_row_is_as_its_slowest_queue() -> None:
    assert tandem_tail(1.0, [0.5, 1e-5], 3.0) == pytest.approx(time_tail(1.0, 0.5, 3.0), rel=1e-4)


def test_nearly_equal_queues_are_as_equal_ones() -> None:
    near = tandem_tail(4.0, [0.1, 0.1 + 1e-12, 0.1 - 1e-12], 0.8)
    assert near == pytest.approx(tandem_tail(4.0, [0.1] * 3, 0.8), rel=1e-9)


def test_a_jackson_network_without_branches_is_a_row() -> None:
    network = jackson([4.0, 0.0, 0.0], [[0, 1, 0], [0, 0, 1], [0, 0, 0]], [0.1, 0.05, 0.2])
    assert network.rate.tolist() == [4.0] * 3
    assert network.passage == pytest.approx(tandem_time(4.0, [0.1, 0.05, 0.2]))


def test_rates_of_a_jackson_network_balance() -> None:
    gamma, routing = np.array([1.0, 2.0]), np.array([[0.1, 0.6], [0.5, 0.0]])
    network = jackson(gamma, routing, [0.05, 0.1])
    assert network.rate == pytest.approx(gamma + network.rate @ routing)
    for rate, tau, time, number in zip(network.rate, [0.05, 0.1], network.time, network.number, strict=True):
        assert (time, number) == pytest.approx((mm1(rate, tau).time, mm1(rate, tau).number))
    assert network.passage == pytest.approx(network.number.sum() / 3.0)


def test_without_a_steady_state_all_is_infinite() -> None:
    for steady in (mm1(10.0, 0.1), md1(20.0, 0.1), gg1(11.0, 0.1, 0.0, 0.5)):
        assert steady[1:] == (math.inf,) * 4
    assert time_quantile(10.0, 0.1, 0.5) == tandem_quantile(10.0, [0.01, 0.1], 0.5) == math.inf
    assert waiting_quantile(10.0, 0.1, 0.5) == tandem_time(10.0, [0.01, 0.1]) == math.inf
    assert time_tail(10.0, 0.1, 1e6) == number_tail(1.2, 99) == 1.0
    network = jackson([10.0, 0.0], [[0, 1], [0, 0]], [0.1, 0.01])
    assert network.time[0] == network.number[0] == network.passage == math.inf
    assert math.isfinite(network.time[1])


def test_an_empty_queue_has_no_load_and_no_wait() -> None:
    assert mm1(0.0, 0.3) == (0.0, 0.0, 0.3, 0.0, 0.0)
    assert jackson([0.0], [[0.0]], [0.3]).passage == 0.0
    assert tandem_tail(1.0, [], 0.0) == 0.0


def test_meaningless_rates_and_times_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"rate: -1.0; expected a number of tuples/s from 0"):
        mm1(-1.0, 0.1)
    with pytest.raises(ValueError, match=r"tau: nan; expected seconds from 0"):
        waiting_time(math.nan, 0.5)
    with pytest.raises(ValueError, match=r"scv_arrivals: -0.5; expected a squared coefficient"):
        gg1(1.0, 0.1, -0.5)
    with pytest.raises(ValueError, match=r"load: -0.1; expected shares of the capacity from 0"):
        execution_time(0.1, np.array([0.5, -0.1]))
    with pytest.raises(ValueError, match=r"fraction: 1.0; expected a share from 0 to below 1"):
        time_quantile(1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"shapes \(2,\), \(1, 1\), \(2,\); expected \(queues,\)"):
        jackson([1.0, 0.0], [[0.0]], [0.1, 0.1])
    with pytest.raises(ValueError, match=r"routing: rows sum up to 1.5; expected at most 1"):
        jackson([1.0, 0.0], [[0.5, 1.0], [0.0, 0.0]], [0.1, 0.1])
    with pytest.raises(ValueError, match=r"routing: some tuples never leave"):
        jackson([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], [0.1, 0.1])
