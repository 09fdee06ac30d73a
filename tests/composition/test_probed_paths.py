"""Probes of one request that meet at a component: the best path goes on, the others end there."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.algorithms.composition._probed_paths import Extended, routes_meet, summed
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.graph import Hop
from synergy_nb.events import GraphSelected, ProbingEnded
from synergy_nb.models.projection import Impact, ProjectionConfig
from synergy_nb.plan import Plan, source
from tests.simulated import Ring

PEERS = 6


def chain(operators: int) -> Plan:
    stream = source("python", name="numbers", columns={"v": "float"}, rate=100.0, at="peer-1")
    for number in range(operators):
        stream = stream.delay("10 us", id=f"o{number}")
    return stream.sink("out", delay="2 s", at="peer-0")


def diamond() -> Plan:
    first = source("python", name="s", columns={"v": "float"}, rate=100.0, at="peer-1").delay("10 us", id="split")
    upper, lower = first.delay("10 us", id="upper"), first.delay("10 us", id="lower")
    return upper.union(lower, id="join").sink("out", delay="2 s", at="peer-0")


def composed(query: Plan, **changes: Any) -> tuple[Ring, str]:
    config = CompositionConfig(choice="random", projection=None, objective="delay", **changes)
    ring = Ring(PEERS, seed=3, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    ring.submit("peer-0", "r", query)
    return ring, ring.until_decided("r").status


def probes(ring: Ring) -> int:
    return sum(each.probing.probes for each in ring.synergy.values())


@pytest.mark.slow
def test_merged_probes_find_the_fastest_of_all_placements() -> None:
    query, operators = chain(3), ["o0", "o1", "o2"]
    ring, status = composed(query, merged=True, at_least=PEERS, budget=PEERS)
    assert status == "running"
    chosen = ring.events("r", GraphSelected)[0]
    peers, delay = list(ring.synergy), ring.simulation.network.delay

    def way(places: tuple[str, ...]) -> float:
        stops = ("peer-1", *places, "peer-0")
        return sum(0.0 if one == two else delay(one, two) for one, two in itertools.pairwise(stops))

    least = min(map(way, itertools.product(peers, repeat=3)))
    assert way(tuple(chosen.peers[operator] for operator in operators)) == pytest.approx(least, rel=0.02)
    assert ring.events("r", ProbingEnded)[0].complete
    assert probes(ring) <= 1 + PEERS + 2 * PEERS * PEERS + 2 * PEERS  # not PEERS ** 3
    ring.run(1.0)
    assert not any(each.ledger.reservations for each in ring.synergy.values())


def test_where_routes_part_paths_are_merged_for_each_component_there() -> None:
    ring, status = composed(diamond(), merged=True, at_least=3, budget=3)
    assert status == "running"
    assert ring.events("r", ProbingEnded)[0].complete
    ring.run(1.0)
    assert not any(each.ledger.reservations for each in ring.synergy.values())


def test_routes_meet_behind_an_operator_of_several_inputs() -> None:
    plan = diamond()
    assert [name for name in plan.operators if routes_meet(plan, name)] == ["join", "sink"]
    assert not any(routes_meet(chain(2), name) for name in chain(2).operators)


def test_a_path_is_extended_if_it_is_faster_or_adds_less_to_phi() -> None:
    query = chain(1)

    def path(seconds: float, cores: float) -> tuple[Hop, ...]:
        return (Hop("source", "peer-1", 1.0, 1e6, 0.0, 0.0), Hop("o0", "b", cores, 1e6, 0.0, seconds))

    extended = Extended("balance")
    assert extended.worthwhile(query, path(0.02, 1.0))
    assert not extended.worthwhile(query, path(0.03, 1.0))
    assert extended.worthwhile(query, path(0.03, 2.0))
    assert extended.worthwhile(query, path(0.01, 0.5))
    by_delay = Extended("delay")
    assert by_delay.worthwhile(query, path(0.02, 1.0))
    assert not by_delay.worthwhile(query, path(0.03, 2.0))


def test_delays_that_a_path_adds_to_an_application_are_summed() -> None:
    here = Impact("a", 0.10, 0.12, 0.13, True, 0, 0.12)
    earlier = Hop("o0", "b", 1.0, 1e6, 0.0, 0.0, 0.0, (("a", 0.02), ("other", 9.0)))
    added, (found,) = summed((earlier,), [here], ProjectionConfig())
    assert [name for name, _ in added] == ["a"]
    assert added[0][1] == pytest.approx(0.02)
    assert found.after == pytest.approx(0.14)
    assert not found.acceptable
    _, (alone,) = summed((), [here], ProjectionConfig())
    assert alone.acceptable
    late = here._replace(before=0.20, after=0.205)
    assert summed((), [late], ProjectionConfig(worsening=0.05))[1][0].acceptable
    assert not summed((earlier,), [late], ProjectionConfig(worsening=0.05))[1][0].acceptable
