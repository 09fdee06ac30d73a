"""Plans with replicas are projected and admitted like all others (sections 2.3.1 and 4.4)."""

from __future__ import annotations

import random

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.events import GraphSelected, PlacementCompleted, ProbeDropped
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.explanation import Explanation
from tests.quick_cases import quick_first
from tests.simulated import Ring


def work(cost: str, *, rate: float = 20.0, delay: str | None = None, replicas: bool = True) -> Plan:
    """One component that is pinned, so that applications meet there."""
    stream = source("python", name="n", columns={"v": "float"}, rate=rate, at="peer-0")
    stream = stream.delay(cost, id="work", at="peer-1")
    return stream.sink("out", delay=delay, availability="degree 2" if replicas else None)


def ring_of(seed: int, peers: int = 5) -> Ring:
    config = CompositionConfig(deployment="off")
    return Ring(peers, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config), codec=True)


def nothing_is_left(ring: Ring, *but: str) -> None:
    """All but these applications have given back what they held."""
    ring.run(15.0)
    for each in ring.synergy.values():
        assert each.ledger.requests <= set(but)
        assert each.placement is not None
        assert each.placement.replica_host.requests <= set(but)
        assert not each.placement.pending
        assert not each.requests.undecided
    assert not ring.overbooked()


def test_transmission_times_between_peers_count() -> None:
    ring = ring_of(1)
    ring.submit("peer-2", "r", work("10 ms", delay="1 s"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert len(report.backups["work"]) == 1
    (chosen,) = ring.events("r", GraphSelected)
    assert chosen.peers == report.peers
    hops = 2  # from the source to the component, and on to the sink
    assert 0.0125 + hops * 0.005 <= chosen.delay_s <= 0.0125 + hops * 0.05 + 0.01
    member = ring.synergy["peer-1"].session.impacts.running()["r"]
    assert member.time == pytest.approx(chosen.delay_s, rel=1e-6)


def test_a_plan_that_would_harm_another_application_is_refused_with_the_numbers() -> None:
    ring = ring_of(2)
    ring.submit("peer-2", "a", work("10 ms", delay="150 ms", replicas=False))
    assert ring.until_decided("a").status == "running"
    ring.run(2.0)
    ring.submit("peer-3", "b", work("37 ms"))  # load 0.74: a would take 10 ms / (1 - 0.94), 167 ms
    report = ring.until_decided("b")
    assert report.status == "rejected"
    assert "operator work: QoS impact at 1 peer: a: " in report.reason
    assert "limit 0.15 s" in report.reason
    drops = ring.events("b", ProbeDropped)
    assert drops
    assert all(drop.available > drop.required == pytest.approx(0.15) for drop in drops)
    account = Explanation("b", ring.events("b"), {})
    assert account.outcome.startswith("rejected: operator work: QoS impact")
    assert not account.coverage
    nothing_is_left(ring, "a")
    assert ring.status("a") == "running"


def test_replicas_are_placed_where_they_harm_no_application() -> None:
    ring = ring_of(2)
    ring.submit("peer-2", "a", work("10 ms", delay="150 ms", replicas=False))
    assert ring.until_decided("a").status == "running"
    ring.run(2.0)
    stream = source("python", name="n", columns={"v": "float"}, rate=20.0, at="peer-1").delay("37 ms", id="work")
    ring.submit("peer-3", "b", stream.sink("out", availability="degree 2"))
    report = ring.until_decided("b")
    first, second = ring.events("b", PlacementCompleted)
    assert first.primaries["work"] == "peer-1", "where its source is nothing is far"
    assert report.status == "running", report.reason
    assert report.peers == second.primaries
    assert report.peers["work"] != "peer-1"
    assert "peer-1" not in report.backups["work"]
    ring.simulation.report("peer-3", StopApplication("b"))
    nothing_is_left(ring, "a")


def test_a_plan_that_would_miss_its_own_limit_is_refused_with_the_numbers() -> None:
    ring = ring_of(3)
    ring.submit("peer-2", "r", work("10 ms", delay="13 ms"))  # 12.5 ms of execution, and the network
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay at 1 peer, at best " in report.reason
    assert "0.013 s is allowed" in report.reason
    nothing_is_left(ring)


def test_running_components_count_in_the_projection_of_a_replicated_plan() -> None:
    ring = ring_of(4)
    ring.submit("peer-2", "a", work("40 ms"))  # load 0.8
    assert ring.until_decided("a").status == "running"
    ring.submit("peer-3", "b", work("8 ms", delay="210 ms"))  # 8 ms alone, 8 / (1 - 0.96) = 200 ms there
    report = ring.until_decided("b")
    assert report.status == "rejected"
    assert "delay" in report.reason
    ring.submit("peer-3", "c", work("2 ms", delay="250 ms"))  # 2 / (1 - 0.84) = 12.5 ms
    assert ring.until_decided("c").status == "running"


def test_reservations_of_its_own_placement_do_not_count_against_a_plan() -> None:
    """It takes most of a core, which is promised before its probes ask for it."""
    ring = ring_of(5)
    ring.submit("peer-2", "r", work("45 ms"))  # load 0.9
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    assert ring.synergy["peer-1"].ledger.load == pytest.approx(0.9)
    ring.submit("peer-2", "s", work("45 ms"))
    assert ring.until_decided("s").status == "rejected"
    ring.simulation.report("peer-2", StopApplication("r"))
    nothing_is_left(ring)


@pytest.mark.parametrize("seed", quick_first(range(16), 3))
def test_every_request_is_decided_and_nothing_leaks_despite_deaths_and_losses(seed: int) -> None:
    rng = random.Random(seed)
    ring = Ring(6, seed=seed, codec=True)
    simulation = ring.simulation
    simulation.loss = simulation.duplication = 0.03
    simulation.reordering = 0.1
    victim = f"peer-{rng.randrange(6)}" if seed % 2 else ""
    origins = {f"r{number}": f"peer-{rng.randrange(6)}" for number in range(5)}
    for name, origin in origins.items():
        stream = source("packets", rate=rng.choice((50.0, 200.0)), seed=rng.randrange(3))
        stream = stream.filter("bytes > 0", cost=f"{rng.choice((1, 2))} ms", id="o0").filter("bytes > 1", id="o1")
        limit = rng.choice((None, "50 ms", "1 s"))
        if origin in ring.synergy:
            ring.submit(origin, name, stream.sink(delay=limit, availability="degree 2"))
        ring.run(rng.uniform(0.0, 1.0))
        assert not ring.overbooked()
        if victim in ring.synergy and rng.random() < 0.4:
            ring.crash(victim)
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    ring.run(120.0)
    lives = [name for name, origin in origins.items() if origin in ring.synergy]
    decided = {name: ring.reports[name][0].status for name in lives}
    assert set(decided.values()) <= {"running", "rejected"}
    for each in ring.synergy.values():
        for name in lives:
            simulation.report(each.peer.address, StopApplication(name))
    ring.run(60.0)
    nothing_is_left(ring)
