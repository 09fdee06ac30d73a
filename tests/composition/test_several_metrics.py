"""Several QoS metrics at once: delay and misses add up along a path, throughput is that of the bottleneck (2.2.2)."""

from __future__ import annotations

import math

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.plan import Plan, source
from tests.simulated import Ring


def row(rate: float = 20.0, **qos: str) -> Plan:
    stream = source("python", name="n", columns={"v": "float"}, rate=rate)
    return stream.delay("10 ms", id="one").delay("10 ms", id="two").sink("out", **qos)


def graph(plan: Plan, processing: float, capacity: float = 1.0, bandwidth: float = math.inf) -> ComponentGraph:
    peers = {"source": "a", "one": "b", "two": "c", "sink": "a"}
    taken = {"source": 0.0, "one": processing, "two": processing, "sink": 0.0}
    hops = {name: Hop(name, peer, capacity, bandwidth, taken[name], 0.0) for name, peer in peers.items()}
    edges = [("source", "one"), ("one", "two"), ("two", "sink")]
    return ComponentGraph(hops, dict.fromkeys(edges, (bandwidth, 0.01)))


def test_misses_are_those_of_queues_in_a_row() -> None:
    """Two exponential times of mean x: (1 + t / x) exp(-t / x) take longer than t; transmission takes 30 ms."""
    found = graph(row(), 0.05).miss_rate(row(), 0.33)
    assert found == pytest.approx((1 + 6.0) * math.exp(-6.0))
    assert graph(row(), 0.05).miss_rate(row(), 0.02) == 1.0


def test_throughput_is_that_of_the_bottleneck() -> None:
    plan = row()
    assert graph(plan, 0.01).throughput(plan) == pytest.approx(100.0, rel=0.01)  # 10 ms a tuple at one core
    narrow = 5.0 * plan.tuple_bytes("source")
    assert graph(plan, 0.01, bandwidth=narrow).throughput(plan) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("qos", "reason"),
    [
        ({"delay": "300 ms", "miss_rate": "0.0001 %"}, "miss rate"),
        ({"throughput": "200 tuples/s"}, "throughput"),
        ({"throughput": "100 kB/s"}, "throughput"),
    ],
)
def test_a_limit_that_cannot_be_met_is_refused_by_name(qos: dict[str, str], reason: str) -> None:
    ring = Ring(4, seed=1, config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    ring.submit("peer-0", "r", row(rate=60.0, **qos))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert reason in report.reason


def test_a_plan_whose_limits_can_all_be_met_is_admitted() -> None:
    ring = Ring(4, seed=1, config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    ring.submit("peer-0", "r", row(rate=20.0, delay="1 s", miss_rate="1 %", throughput="50 tuples/s"))
    assert ring.until_decided("r").status == "running"
