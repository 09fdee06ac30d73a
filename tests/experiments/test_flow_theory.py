"""The flow simulator agrees with queueing theory: formulas lie in its 99 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
from synergy_nb.models.queueing import execution_time, tandem_tail, waiting_time
from synergy_nb.simulator.kernel import Uniform
from tests.experiments.slow_flow import OUTSIDE, chain

REPLICATES = 24
T_99 = 2.807  # of Student's t with 23 degrees of freedom, two-sided 99 %


def replicated(make: Callable[[int], Application], warm: float, seconds: float, **options: Any) -> Flow:
    """Independent copies of an application, each on peers of its own, measured after warming up."""
    flow = Flow(seed=11, **options)
    for number in range(REPLICATES):
        flow.add(make(number))
    flow.run(until=warm)
    flow.clear()
    flow.run(until=warm + seconds)
    return flow


def agrees(found: Sequence[float], theory: float, within: float) -> None:
    """Theory lies in the 99 % confidence interval of independent values, which is narrower than ``within`` of it."""
    mean = float(np.mean(found))
    half = T_99 * float(np.std(found, ddof=1)) / math.sqrt(len(found))
    assert abs(mean - theory) <= half, f"{mean} +- {half}, {theory} in theory"
    assert half < within * theory, f"the interval {mean} +- {half} says little"


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_simulated_queues_agree_with_the_formulas_of_mm1(load: float) -> None:
    rate, tau = load / 0.1, 0.1
    flow = replicated(lambda n: chain(f"a{n}", rate, Component(f"v{n}", Service.exponential(tau))), 400, 12_000)
    mean = execution_time(tau, load)  # the time is exponential
    names = [f"a{n}" for n in range(REPLICATES)]
    agrees([flow.delays(name).mean for name in names], mean, 0.06)
    agrees([flow.executed(name, "c0").waiting for name in names], waiting_time(tau, load), 0.1)
    agrees([flow.load(f"v{n}") for n in range(REPLICATES)], load, 0.01)
    agrees([flow.quantile(name, 0.95) for name in names], -mean * math.log(0.05), 0.1)
    agrees([flow.delays(name).deviation for name in names], mean, 0.1)


def test_simulated_queues_agree_with_the_formulas_of_md1_and_mg1() -> None:
    rate, tau = 7.0, 0.1
    rng = np.random.default_rng(1)
    times = np.where(rng.random(24_000) < 0.1, 0.55, 0.05)
    scv = float(times.var() / times.mean() ** 2)
    shifted = [Service.drawn(np.roll(times, number * 1_000)) for number in range(REPLICATES)]
    constant = [Service.constant(tau)] * REPLICATES

    mean = float(times.mean())
    for services, theory in (
        (constant, waiting_time(tau, rate * tau, 0.0)),
        (shifted, waiting_time(mean, rate * mean, scv)),
    ):

        def make(number: int, services: Sequence[Service] = services) -> Application:
            return chain(f"a{number}", rate, Component(f"v{number}", services[number]))

        flow = replicated(make, 200, 1000)
        agrees([flow.executed(f"a{n}", "c0").waiting for n in range(REPLICATES)], theory, 0.2)


@pytest.mark.slow
def test_a_peer_that_executes_unequal_components_makes_them_wait_equally() -> None:
    def make(number: int) -> Application:
        peer = f"v{number}"
        parts = {"f": OUTSIDE, "g": OUTSIDE}
        parts["quick"] = Component(peer, Service.exponential(0.005), ["f"])
        parts["slow"] = Component(peer, Service.exponential(0.12), ["g"])
        return Application(f"a{number}", parts, {"f": Arrivals.poisson(20.0), "g": Arrivals.poisson(4.0)})

    flow = replicated(make, 100, 3000)
    load = 20.0 * 0.005 + 4.0 * 0.12
    second = (20.0 * 2 * 0.005**2 + 4.0 * 2 * 0.12**2) / 24.0  # moment of the time of a tuple drawn from both
    theory = waiting_time(load / 24.0, load, second * (24.0 / load) ** 2 - 1.0)
    for operator in ("quick", "slow"):
        agrees([flow.executed(f"a{n}", operator).waiting for n in range(REPLICATES)], theory, 0.1)


def test_simulated_queues_agree_with_the_formulas_of_queues_in_tandem() -> None:
    rate, taus = 6.0, [0.1, 0.05, 0.12]
    flow = replicated(
        lambda n: chain(
            f"a{n}", rate, *(Component(f"v{n}/{k}", Service.exponential(tau)) for k, tau in enumerate(taus)), limit=1.0
        ),
        100,
        4000,
    )
    agrees(
        [flow.delays(f"a{n}").mean for n in range(REPLICATES)],
        sum(execution_time(tau, rate * tau) for tau in taus),
        0.05,
    )
    agrees([flow.delays(f"a{n}").miss_rate for n in range(REPLICATES)], tandem_tail(rate, taus, 1.0), 0.1)


def test_simulated_queues_agree_with_the_formulas_of_a_jackson_network() -> None:
    """Tuples leave the first queue by chance, to the second or to the third, which lead back over the first."""
    gamma, taus = 2.0, [0.1, 0.15, 0.2]

    def make(number: int) -> Application:
        first, second, third = (f"v{number}/{k}" for k in range(3))
        at = {name: Service.exponential(tau) for name, tau in zip((first, second, third), taus, strict=True)}
        # The ways that tuples may go, each as often as chance would have it: out at once, or over one of the others.
        parts = {
            "straight": Component(first, at[first], ["f"]),
            "a1": Component(first, at[first], ["g"]),
            "a2": Component(second, at[second], ["a1"]),
            "a3": Component(first, at[first], ["a2"]),
            "b1": Component(first, at[first], ["h"]),
            "b2": Component(third, at[third], ["b1"]),
            "b3": Component(first, at[first], ["b2"]),
        }
        feeds = {name: Arrivals.poisson(gamma / 3) for name in ("f", "g", "h")}
        return Application(f"a{number}", dict.fromkeys(feeds, OUTSIDE) | parts, feeds)

    flow = replicated(make, 300, 12_000)
    visits = gamma * 5 / 3  # at the first queue, a second
    routing = np.zeros((3, 3))
    routing[0, 1] = routing[0, 2] = gamma / 3 / visits
    routing[1, 0] = routing[2, 0] = 1.0
    rates = np.linalg.solve(np.eye(3) - routing.T, [gamma, 0.0, 0.0])  # each queue is as an M/M/1 queue with its rate
    assert rates == pytest.approx([visits, gamma / 3, gamma / 3])
    times = [execution_time(tau, float(rate) * tau) for tau, rate in zip(taus, rates, strict=True)]
    agrees([flow.delays(f"a{n}").mean for n in range(REPLICATES)], float(rates @ times) / gamma, 0.05)
    for place, operator in enumerate(("straight", "a2", "b2")):
        agrees([flow.executed(f"a{n}", operator).time for n in range(REPLICATES)], times[place], 0.05)
        agrees([flow.load(f"v{n}/{place}") for n in range(REPLICATES)], float(rates[place]) * taus[place], 0.02)


def test_a_link_of_finite_bandwidth_is_a_queue_too() -> None:
    """Tuples of one size on a link: M/D/1, and the delay of the link for each."""
    network = Uniform(0.03, 0.03)

    def make(number: int) -> Application:
        return chain(f"a{number}", 80.0, Component(f"u{number}", size=100.0), Component(f"v{number}"))

    flow = replicated(make, 50, 400, network=network, bandwidth=lambda *_: 10_000.0)
    agrees([flow.delays(f"a{n}").mean for n in range(REPLICATES)], 0.03 + 0.01 + waiting_time(0.01, 0.8, 0.0), 0.05)
    agrees([flow.load(f"u{n}", f"v{n}") for n in range(REPLICATES)], 0.8, 0.01)
