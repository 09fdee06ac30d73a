"""Probes: how many there are, what each checks and reserves, and which are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.algorithms.composition._adaptive import RoundsHistory, adapted
from synergy_nb.algorithms.composition.messages import Probe, ProbedRequest, Release, encode_request
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.graph import Hop
from synergy_nb.events import ProbeAccepted, ProbeDropped
from synergy_nb.plan import Plan, source
from tests.composition.plans import chain
from tests.simulated import Ring, refusals


def test_messages_are_bounded_by_the_budget() -> None:
    config = CompositionConfig(ratio=1.0, budget=8)
    ring = Ring(12, seed=16, config=lambda n: PeerConfig(name=f"peer-{n}", seed=n, composition=config))
    ring.submit("peer-0", "r", chain(operators=6))
    assert ring.until_decided("r").status == "running"
    probes = sum(each.probing.probes for each in ring.synergy.values())
    assert probes <= 8 * 8


def test_messages_are_bounded_where_routes_meet_before_a_long_chain() -> None:
    """All probers choose alike after the union; each hop of the chain must not double the paths."""
    ring = Ring(8, seed=17)
    left = source("python", name="a", columns={"v": "float"}, rate=10.0)
    stream = left.union(source("python", name="b", columns={"v": "float"}, rate=10.0))
    for number in range(10):
        stream = stream.delay("1 us", id=f"o{number}")
    ring.submit("peer-0", "r", stream.sink("out"))
    assert ring.until_decided("r").status == "running"
    config = CompositionConfig()
    paths = 2 * config.budget * config.at_least
    assert sum(each.probing.probes for each in ring.synergy.values()) <= paths * 13


def test_a_plan_of_too_many_routes_is_refused_at_once() -> None:
    """Nine splits that join again have 2^9 routes."""
    ring = Ring(3, seed=19)
    stream = source("python", name="n", columns={"v": "float"})
    for number in range(9):
        stream = stream.delay("1 us", id=f"l{number}").union(stream.delay("1 us", id=f"r{number}"), id=f"u{number}")
    ring.submit("peer-0", "r", stream.sink("out"))
    assert ring.status("r") == "rejected"
    assert ring.reports["r"][0].reason.startswith("512 routes lead from its sources to its sinks; at most 256")
    assert not ring.synergy["peer-0"].requests.undecided


def probe(query: Plan, attempt: int = 1, **changed: Any) -> Probe:
    """A probe from b to a for the first operator after the source; changed fields are of the probe or its request."""
    before = Hop("source", "b", 1.0, 1e6, 0.0, 0.0)
    request = ProbedRequest(
        "r", attempt, "b", query.to_bytes(), dict.fromkeys(query.operators, ("a",)), 0.5, 2, "random"
    )
    fields = {name: changed.pop(name) for name in tuple(changed) if name in ProbedRequest.__struct_fields__}
    sound = Probe(encode_request(msgspec.structs.replace(request, **fields)), "o0", (before,), 4, 100, 0.0)
    return msgspec.structs.replace(sound, **changed)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"plan": b"no plan"}, "a plan"),
        ({"candidates": {"o0": ("a",)}}, "candidates: expected at least one for each operator"),
        ({"candidates": {"source": ("a",), "o0": ("a",), "sink": ()}}, "candidates: expected at least one"),
        ({"ratio": float("nan")}, "ratio, at_least: nan, 2"),
        ({"at_least": 0}, "ratio, at_least: 0.5, 0"),
        ({"operator": "nonsense"}, "path: source > nonsense"),
        ({"operator": "sink"}, "path: source > sink"),
        ({"path": ()}, "path: o0; expected the beginning of a route of the plan"),
        ({"path": (Hop("nonsense", "b", 1.0, 1.0, 0.0, 0.0),)}, "path: nonsense > o0"),
        ({"request": b"no request"}, ""),
    ],
)
def test_a_malformed_probe_is_refused_and_reserves_nothing(changed: dict[str, Any], reason: str) -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    sound = probe(chain(operators=1))
    if "request" in changed:
        bad = msgspec.structs.replace(sound, request=changed["request"])
    else:
        bad = probe(chain(operators=1), **changed)
    assert any(reason in text for text in refusals(synergy.peer.receive("b", bad, 1.0)))
    assert not synergy.ledger.requests
    assert refusals(synergy.peer.receive("b", sound, 1.0)) == []
    assert synergy.ledger.reservations == {"r"}


def test_a_probe_of_an_earlier_attempt_does_not_end_the_current_one() -> None:
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    synergy.peer.receive("b", probe(chain(operators=1), attempt=2), 1.0)
    assert refusals(synergy.peer.receive("b", probe(chain(operators=1), attempt=1), 1.1)) == ["stale attempt"]
    synergy.peer.receive("b", Release("r", 1), 1.2)
    assert synergy.ledger.reservations == {"r"}
    synergy.peer.receive("b", Release("r", 2), 1.3)
    assert not synergy.ledger.requests


def test_an_adaptive_ratio_follows_what_requests_need() -> None:
    easy, tight = chain(delay="10 s"), chain(operators=3, cost="300 us", delay="1 ms")
    history = RoundsHistory()
    assert adapted(0.1, easy, history) == pytest.approx(0.1, rel=0.01)
    assert adapted(0.1, tight, history) == pytest.approx(0.19, rel=0.02)
    for _ in range(50):
        history.add(2)
    assert adapted(0.1, easy, history) == pytest.approx(0.2, rel=0.01)
    config = CompositionConfig(adaptive=True, ratio=0.2, at_least=1)
    ring = Ring(12, seed=30, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    ring.submit("peer-0", "r", chain())
    assert ring.until_decided("r").status == "running"


def through_one_peer(cores: float = 1.0, bandwidth: float = 125e6) -> Ring:
    """Of two peers, one has the sources and sinks, the other the operators between them."""

    def config(number: int) -> PeerConfig:
        offers = ("filter", "project") if number else ("source:packets", "sink")
        settings = CompositionConfig(sharing="off")
        return PeerConfig(f"peer-{number}", offers, cores=cores, bandwidth=bandwidth, composition=settings)

    return Ring(2, seed=1, config=config)


def test_a_probe_counts_the_load_of_its_own_earlier_operators_at_the_same_peer() -> None:
    ring = through_one_peer()
    stream = source("packets", rate=10, id="packets")
    stream = stream.filter("bytes > 9", cost="60 ms", selectivity=1.0, id="one", at="peer-1")
    ring.submit("peer-0", "r", stream.project("link", cost="60 ms", id="two", at="peer-1").sink("all"))
    assert ring.until_decided("r").status == "rejected"
    first = ring.events("r", ProbeDropped)[0]
    assert (first.operator, first.condition) == ("two", "processing capacity")
    assert (first.required, first.available) == pytest.approx((0.6, 0.4)), "one core, of which it has taken 0.6"


def test_a_probe_reserves_the_bandwidth_of_its_link() -> None:
    stream = source("packets", rate=10, id="packets")
    plan = stream.filter("bytes > 9", selectivity=0.1, id="one", at="peer-1").sink("all")
    ring = through_one_peer(bandwidth=1.5 * plan.bandwidth("packets"))
    ring.submit("peer-0", "r", plan)
    for _ in range(1000):
        if any(each.operator == "one" for each in ring.events("r", ProbeAccepted)):
            break
        ring.run(0.001)
    assert not ring.reports.get("r"), "nothing is committed yet"
    left = ring.synergy["peer-1"].ledger.residual_bandwidth("another request", "peer-0")
    assert left == pytest.approx(0.5 * plan.bandwidth("packets"))
