"""Uplinks and downlinks of peers: in the ledger, in placements of replicas, and in their exact optimum."""

from __future__ import annotations

import math
from itertools import permutations, product

import pytest

from synergy_experiments.worlds.replica_placements import PlacementCost, Requests, application, placements, world
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    InsufficientCapacity,
    ResidualLimits,
    availability,
    components_of,
    optimum,
)
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan


def test_streams_of_all_links_share_the_downlink() -> None:
    ledger = Ledger(cores=1.0, bandwidth=100.0, downlink=150.0)
    assert ledger.commit("r", "a", 0.1, {("p", "x"): 80.0}) == ""
    assert ledger.residual_bandwidth("other", "p") == 20.0
    assert ledger.residual_bandwidth("other", "q") == 70.0
    assert "the downlink: 80 bytes/s needed, 70 left" in ledger.commit("s", "a", 0.1, {("q", "x"): 80.0})
    ledger.reserve("t", "a", 0.1, ("q", "x"), 60.0)
    assert ledger.residual_bandwidth("other", "w") == 10.0
    assert ledger.overbooked() is None
    ledger.release("r")
    ledger.expire("t")
    assert ledger.residual_bandwidth("other", "q") == 100.0


def test_what_an_operator_sends_is_replaced_and_released_with_it() -> None:
    ledger = Ledger(cores=1.0, bandwidth=100.0, uplink=100.0)
    assert ledger.commit("r", "a", 0.1, {}) == ""
    assert ledger.send("r", "a", 90.0) == ""
    assert "the uplink: 20 bytes/s needed, 10 left" in ledger.send("s", "a", 20.0)
    assert ledger.send("r", "a", 40.0) == ""
    assert ledger.residual_uplink == 60.0
    ledger.drop("r", "a")
    assert (ledger.residual_uplink, ledger.requests) == (100.0, frozenset())
    assert Ledger(cores=1.0, bandwidth=1.0).residual_uplink == math.inf


def admitted(limits: ResidualLimits, plan: Plan, graph: Roles) -> bool:
    try:
        limits.admit(plan, graph)
    except InsufficientCapacity:
        return False
    return True


@pytest.mark.parametrize("streams", [4.0, 8.0])
def test_the_protocol_never_exceeds_an_uplink_or_a_downlink(streams: float) -> None:
    given = Requests(peers=8, components=4, access=streams * 100e3)
    met = world(given, 3)
    found = placements(given, "synergy", 3)
    assert found
    limits = met.limits()
    for name, graph in found.items():
        limits.admit(met.plans[name], graph)  # or raises
    run = PlacementCost(met, 3)
    for name in met.plans:
        run.submit(name, 2)
    run.decide()
    assert all(each.ledger.overbooked() is None for each in run.peers.values())
    free, limits = placements(Requests(peers=8, components=4), "synergy", 3), met.limits()
    assert not all(admitted(limits, met.plans[name], graph) for name, graph in free.items())


@pytest.mark.parametrize("limited", ["both", "uplinks", "downlinks"])
@pytest.mark.parametrize("streams", [1.0, 2.0, 3.0, 5.0])
def test_the_optimum_within_uplinks_is_that_of_all_placements(streams: float, limited: str) -> None:
    peers, stream = ("a", "b", "c", "d"), 1e5
    plan = application(2, 0.1, stream, "a", "b")
    pinned = {each.id: each.at for each in plan.operators.values() if each.at is not None}
    model = ExactlyFailed(peers, 2)

    def limits() -> ResidualLimits:
        access = dict.fromkeys(peers, streams * stream)
        up, down = ({} if limited == free else access for free in ("downlinks", "uplinks"))
        return ResidualLimits(dict.fromkeys(peers, 1.0), lambda _sender, _to: 1e9, up, down)

    best = -1.0
    for one, two in product(permutations(peers, 2), repeat=2):
        (first, second) = components_of(plan)
        graph = Roles({**pinned, first: one[0], second: two[0]}, {first: one[1:], second: two[1:]})
        if admitted(limits(), plan, graph):
            best = max(best, availability(graph, model))
    if best < 0.0:
        with pytest.raises(InsufficientCapacity):
            optimum(plan, 2, model, limits(), pinned=pinned)
    else:
        found = optimum(plan, 2, model, limits(), pinned=pinned)
        limits().admit(plan, found.placed)
        assert found.availability == pytest.approx(best)
