"""Composition by probes on simulated peers (section 2.3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import GraphEvaluated, GraphSelected, ProbeDropped
from synergy_nb.plan import source
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from tests.composition.plans import chain, diamond
from tests.simulated import Ring


def test_a_chain_is_composed_deployed_and_started() -> None:
    ring = Ring(8, seed=1, codec=True)
    ring.submit("peer-3", "r", chain())
    report = ring.until_decided("r")
    ring.run(1.0)
    assert report.status == "running", report.reason
    assert {operator: peer for peer, _, operator in ring.deployed} == report.peers
    assert report.peers["sink"] == "peer-3"
    assert ring.started == {(report.peers["source"], "r", "source")}


def test_a_dag_with_a_split_and_a_join_is_composed() -> None:
    ring = Ring(8, seed=2)
    query = diamond()
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert set(report.peers) == set(query.operators)


def test_the_graph_of_least_phi_is_chosen() -> None:
    ring = Ring(8, seed=3)
    ring.submit("peer-0", "r", diamond())
    ring.until_decided("r")
    graphs = ring.events("r", GraphEvaluated)
    chosen = ring.events("r", GraphSelected)[0]
    assert len(graphs) > 1
    assert chosen.phi == min(graph.phi for graph in graphs if graph.phi is not None)


def test_reservations_of_graphs_that_were_not_chosen_are_released_at_once() -> None:
    ring = Ring(8, seed=4)
    query = chain()
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    ring.run(1.0)
    for address, each in ring.synergy.items():
        assert not each.ledger.reservations
        load = sum(query.load(operator) for operator, peer in report.peers.items() if peer == address)
        assert each.ledger.residual_cores("") == pytest.approx(1.0 - load)


def test_a_missing_operator_is_rejected_by_name() -> None:
    offers = tuple(name for name in ALL_COMPONENTS if name not in ("delay", "source:python"))
    config = CompositionConfig(deployment="off")
    ring = Ring(5, seed=6, config=lambda n: PeerConfig(f"peer-{n}", offers, seed=n, composition=config))
    ring.submit("peer-0", "r", chain())
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "no component offers 'delay'" in report.reason
    assert "no component offers 'source:python'" in report.reason
    assert not ring.deployed


def test_an_operator_runs_where_it_is_pinned() -> None:
    ring = Ring(8, seed=7)
    query = source("python", name="n", columns={"v": "float"}, at="peer-5").delay("1 us", at="peer-2").sink("out")
    ring.submit("peer-0", "r", query)
    report = ring.until_decided("r")
    assert (report.peers["source"], report.peers["delay"]) == ("peer-5", "peer-2")


def test_too_little_capacity_is_refused_with_the_numbers() -> None:
    ring = Ring(4, seed=8, config=lambda n: PeerConfig(name=f"peer-{n}", cores=0.05, seed=n))
    ring.submit("peer-0", "r", chain(rate=1000.0, cost="100 us"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "processing capacity" in report.reason
    assert "where 0.1 cores are needed" in report.reason
    drops = ring.events("r", ProbeDropped)
    assert {event.condition for event in drops} == {"processing capacity"}
    ring.run(1.0)
    assert not any(each.ledger.requests for each in ring.synergy.values())


def test_too_little_bandwidth_is_refused_with_the_numbers() -> None:
    ring = Ring(4, seed=9, config=lambda n: PeerConfig(name=f"peer-{n}", bandwidth=100.0, seed=n))
    pinned = source("python", name="n", columns={"v": "float"}, rate=1000.0, at="peer-1").delay("1 us", at="peer-2")
    ring.submit("peer-0", "r", pinned.sink("out"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay: bandwidth" in report.reason


def test_a_delay_limit_that_no_path_meets_is_refused_with_the_numbers() -> None:
    ring = Ring(5, seed=10)
    pinned = source("python", name="n", columns={"v": "float"}, at="peer-1").delay("1 us", at="peer-2")
    ring.submit("peer-0", "r", pinned.sink("out", delay="1 ms"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay" in report.reason
    assert "0.001 s is allowed" in report.reason


def test_concurrent_requests_never_overbook() -> None:
    """Sixteen requests of 0.3 cores meet eight peers of one core each, at the same instant."""
    ring = Ring(8, seed=11)
    for number in range(16):
        ring.submit(f"peer-{number % 8}", f"r{number}", chain(rate=1000.0, cost="150 us", operators=2))
    for _ in range(60):
        ring.run(0.25)
        assert not ring.overbooked()
    statuses = {ring.status(f"r{number}") for number in range(16)}
    assert statuses <= {"running", "rejected"}
    assert "running" in statuses
    ring.run(15.0)
    assert not any(each.ledger.reservations for each in ring.synergy.values())


@pytest.mark.slow
def test_requests_are_admitted_until_the_peers_are_full() -> None:
    ring = Ring(4, seed=12, config=lambda n: PeerConfig(name=f"peer-{n}", cores=1.0, seed=n))
    admitted = 0
    for number in range(30):
        ring.submit("peer-0", f"r{number}", chain(rate=1000.0, cost="200 us", operators=2))
        admitted += ring.until_decided(f"r{number}").status == "running"
        ring.run(0.5)
        assert not ring.overbooked()
    assert 8 <= admitted <= 10  # 4 cores hold ten times 0.4 cores; the last ones need the right two peers


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> list[tuple[float, str, str]]:
        ring = Ring(8, seed=15)
        for number in range(4):
            ring.submit(f"peer-{number}", f"r{number}", diamond())
        ring.run(10.0)
        return [(event.time, event.peer, event.kind) for event in ring.simulation.journal]

    assert run() == run()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ratio", 0.0),
        ("ratio", float("nan")),
        ("choice", "neareset"),
        ("objective", "least"),
        ("tolerance", -0.1),
        ("guard_band", -0.1),
        ("guard_band", float("nan")),
        ("at_least", 0),
        ("budget", -1),
        ("attempts", 0),
        ("acknowledgement", 0.0),
        ("probing", float("nan")),
        ("probing", "2 s"),
        ("late", "5 %"),
        ("patience", float("inf")),
        ("budget", 2.5),
        ("tries", True),
        ("agreed", 3),
        ("merged", "no"),
    ],
)
def test_parameters_of_composition_that_make_no_sense_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: .*; expected"):
        CompositionConfig(**{field: value})


def test_limits_are_agreed_on_only_where_delays_are_projected() -> None:
    with pytest.raises(ValueError, match=r"^agreed: True; expected a projection"):
        CompositionConfig(agreed=True, projection=None)


def test_an_explanation_says_each_reason_once() -> None:
    anywhere = CompositionConfig(choice="random")
    ring = Ring(
        5,
        seed=20,
        config=lambda n: PeerConfig(name=f"peer-{n}", cores=1.0 if n else 0.05, seed=n, composition=anywhere),
    )
    ring.submit("peer-1", "r", chain(operators=3))
    assert ring.until_decided("r").status == "running"
    account = Explanation("r", ring.events("r"), {})
    assert account.why("sink") == "its only candidate"
    for operator in ("source", "o0", "o1", "o2"):
        assert account.why(operator).count("peer-0 (processing capacity)") <= 1
    drops = [(drop.operator, drop.at, drop.condition) for drop in account.dropped]
    assert any(drops.count(drop) > 1 for drop in drops)


def test_an_explanation_states_how_each_requirement_is_checked() -> None:
    ring = Ring(5, seed=21)
    asked = {"delay": "2 s", "miss_rate": "5 %", "throughput": "10 tuples/s", "availability": "99 %"}
    ring.submit("peer-0", "r", source("python", name="n", columns={"v": "float"}).filter("v > 0").sink("out", **asked))
    assert ring.until_decided("r").status == "running"
    account = Explanation("r", ring.events("r"), {})
    assert set(account.qos) == {"delay", "miss_rate", "throughput_tuples", "availability"}
    assert "delay at most 2 s, checked by every probe" in str(account)
    assert "availability of 0.99: as many replicas as that takes" in str(account)
    assert {replica.operator for replica in account.replicas} >= {"filter"}
    del asked["availability"]
    ring.submit("peer-0", "s", source("python", name="n", columns={"v": "float"}).sink("out", **asked))
    assert ring.until_decided("s").status == "running"
    account = Explanation("s", ring.events("s"), {})
    assert "delay at most 2 s, checked by every probe" in str(account)
    assert {probe.operator for probe in account.accepted} == {"source", "sink"}
