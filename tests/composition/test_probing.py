"""Probes: how many there are, what each checks and reserves, which are refused; each counts once at a peer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.algorithms.composition._adaptive import RoundsHistory, adapted
from synergy_nb.algorithms.composition.messages import (
    Acknowledged,
    Dropped,
    Probe,
    ProbedRequest,
    Release,
    Returned,
    encode_request,
)
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.graph import Hop
from synergy_nb.control.peer import Effect, Message, Record, Send
from synergy_nb.events import Event, MessageOutdated, ProbeAccepted, ProbeDropped, ReservationExpired
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
    history.add(2)
    assert adapted(0.1, easy, history) == pytest.approx(0.12, rel=0.01), "each request counts a fifth"
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
    assert first.tolerated == 0.0


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


# -- the probes of a request at one peer ------------------------------------------------------------------------------

UPSTREAM = Hop("source", "b", 1.0, 1e6, 0.0, 0.0)


def filters(operators: int = 1) -> Plan:
    stream = source("packets", rate=100.0, id="source")
    for number in range(operators):
        stream = stream.filter("bytes > 9", cost="1 ms", id=f"o{number}")
    return stream.sink("sink", id="sink", cost="2 ms")


def probed(
    attempt: int = 1, *, sink_at: tuple[str, ...] = ("a",), path: tuple[Hop, ...] = (UPSTREAM,), weight: int = 100
) -> Probe:
    """A probe of request ``r``, whose origin is o, for the filter after a path."""
    plan = filters(len(path))
    candidates = {**dict.fromkeys(plan.operators, ("a",)), "sink": sink_at}
    request = ProbedRequest("r", attempt, "o", plan.to_bytes(), candidates, 1.0, 2, "random")
    return Probe(encode_request(request), f"o{len(path) - 1}", path, 4, weight, 0.0)


def way(*peers: str) -> tuple[Hop, ...]:
    """A path through peers: the source, then filters."""
    return tuple(Hop(f"o{at - 1}" if at else "source", peer, 1.0, 1e6, 0.0, 0.0) for at, peer in enumerate(peers))


def one_peer() -> SynergyPeer:
    return SynergyPeer("a", PeerConfig(name="a"))


def sent(effects: list[Effect], kind: type[Message] = Message) -> list[tuple[str, Any]]:
    return [(each.to, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def events(effects: list[Effect], kind: type[Event]) -> list[Any]:
    return [each.event for each in effects if isinstance(each, Record) and isinstance(each.event, kind)]


def until(at: SynergyPeer, end: float) -> list[Effect]:
    """All effects of the timers of a peer until a time in seconds."""
    found: list[Effect] = []
    while (due := at.peer.next_timer) is not None and due <= end:
        found += at.peer.tick(due)
    return found


def test_a_duplicate_of_a_probe_does_nothing_and_another_way_to_the_same_operator_is_no_duplicate() -> None:
    at = one_peer()
    first = at.peer.receive("b", probed(), 1.0)
    assert [each.operator for each in events(first, ProbeAccepted)] == ["o0", "sink"]
    assert [(to, each.weight) for to, each in sent(first, Returned)] == [("o", 100)]
    assert at.peer.receive("b", probed(), 1.01) == []
    other = at.peer.receive("c", probed(path=way("c"), weight=40), 1.02)
    assert [(to, each.weight) for to, each in sent(other, Returned)] == [("o", 40)]
    told = sent(until(at, 1.2), Acknowledged)
    assert sorted((to, each.weights) for to, each in told) == [("b", {"o0": 100}), ("c", {"o0": 40})]


def test_probes_of_one_upstream_peer_are_acknowledged_together_a_twentieth_of_the_limit_later() -> None:
    at = one_peer()
    at.peer.receive("b", probed(), 1.0)
    busier = msgspec.structs.replace(UPSTREAM, capacity=0.5)
    assert at.peer.receive("b", probed(path=(busier,)), 1.01) == [], "the way is the same, whatever it offers"
    at.peer.receive("b", probed(attempt=2, weight=7), 1.02)
    limit = at.config.composition.acknowledgement
    assert until(at, 1.0 + 0.99 * limit / 20) == []
    told = sent(until(at, 1.0 + limit / 20), Acknowledged)
    assert [(to, each.attempt, each.weights) for to, each in told] == [("b", 1, {"o0": 100}), ("b", 2, {"o0": 7})]
    assert sent(until(at, 1.9), Acknowledged) == []


def test_the_weights_of_several_ways_through_one_peer_are_acknowledged_as_their_sum() -> None:
    at = one_peer()
    limit = at.config.composition.acknowledgement
    for number, (first, weight) in enumerate((("c", 100), ("d", 40), ("e", 5))):
        at.peer.receive("b", probed(path=way(first, "b"), weight=weight), 1.0 + number * 0.4 * limit / 20)
    late = 1.0 + 1.1 * limit / 20
    told = sent(until(at, late), Acknowledged)
    assert [(to, each.weights) for to, each in told] == [("b", {"o1": 145})]
    at.peer.receive("b", probed(path=way("f", "b"), weight=9), late)
    assert until(at, late + 0.9 * limit / 20) == [], "its time begins with it"
    assert [each.weights for _, each in sent(until(at, late + limit / 20), Acknowledged)] == [{"o1": 9}]


def test_a_later_attempt_replaces_the_reservations_of_the_last_and_its_probes_are_no_duplicates() -> None:
    at, fresh = one_peer(), one_peer()
    at.peer.receive("b", probed(), 1.0)
    again = at.peer.receive("b", probed(attempt=2, sink_at=("c",)), 1.1)
    assert [each.operator for each in events(again, ProbeAccepted)] == ["o0"]
    fresh.peer.receive("b", probed(sink_at=("c",)), 1.0)
    assert at.ledger.residual_cores("another") == fresh.ledger.residual_cores("another")


def test_a_budget_is_shared_by_the_next_hops_and_their_silence_is_told_however_late_a_way_comes() -> None:
    at = one_peer()
    for first, when in (("b", 1.0), ("c", 5.0)):
        forwarded = sent(at.peer.receive(first, probed(path=way(first), sink_at=("d", "e")), when), Probe)
        assert sorted((to, each.budget) for to, each in forwarded) == [("d", 2), ("e", 2)]
        silent = sent(until(at, when + 3.0), Dropped)
        assert sorted((each.at, each.weight) for _, each in silent) == [("d", 50), ("e", 50)]


@pytest.mark.parametrize("choice", ["balanced", "apart"])
def test_a_next_hop_that_has_reported_too_few_free_cores_is_not_probed(choice: str) -> None:
    at = one_peer()
    at.peer.call(1.0, lambda: at.probing.cores_reported("d", 0.01))
    plan = filters()
    candidates = {**dict.fromkeys(plan.operators, ("a",)), "sink": ("c", "d", "e")}
    request = ProbedRequest("r", 1, "o", plan.to_bytes(), candidates, 1.0, 3, choice)
    forwarded = sent(at.peer.receive("b", Probe(encode_request(request), "o0", (UPSTREAM,), 6, 100, 0.0), 1.0), Probe)
    assert sorted(to for to, _ in forwarded) == ["c", "e"]


def test_what_a_next_hop_has_not_acknowledged_in_time_is_told_to_the_origin_with_its_weight() -> None:
    at = one_peer()
    forwarded = sent(at.peer.receive("b", probed(sink_at=("c", "d")), 1.0), Probe)
    weights = {to: each.weight for to, each in forwarded}
    assert sum(weights.values()) == 100
    assert set(weights) == {"c", "d"}
    at.peer.receive("c", Acknowledged("r", 1, {"sink": weights["c"]}), 1.1)
    at.peer.receive("d", Acknowledged("r", 1, {"sink": 10}), 1.1)
    at.peer.receive("d", Acknowledged("r", 2, {"sink": weights["d"]}), 1.2)  # of another attempt
    at.peer.receive("d", Acknowledged("q", 1, {"sink": weights["d"]}), 1.2)  # of another request
    silent = sent(until(at, 6.0), Dropped)
    assert [(to, each.operator, each.at, each.condition, each.weight) for to, each in silent] == [
        ("o", "sink", "d", "acknowledgement", weights["d"] - 10)
    ]


def test_nobody_is_silent_who_has_acknowledged_all() -> None:
    at = one_peer()
    for to, each in sent(at.peer.receive("b", probed(sink_at=("c", "d")), 1.0), Probe):
        at.peer.receive(to, Acknowledged("r", 1, {"sink": each.weight}), 1.1)
    assert sent(until(at, 6.0), Dropped) == []


def test_a_reservation_ends_its_time_after_the_last_way_that_needs_it() -> None:
    at = one_peer()
    keeps = at.config.composition.reservation
    free = at.ledger.residual_cores("another")
    at.peer.receive("b", probed(), 1.0)
    later = 1.0 + 0.5 * keeps
    at.peer.receive("c", probed(path=way("c")), later)
    assert events(until(at, 1.0 + 1.1 * keeps), ReservationExpired) == []
    assert at.ledger.residual_cores("another") < free
    (expired,) = events(until(at, later + keeps), ReservationExpired)
    assert (expired.subject, expired.attempt) == ("r", 1)
    assert at.ledger.residual_cores("another") == free
    refused = at.peer.receive("b", probed(), later + keeps + 0.1)
    assert [each.reason for each in events(refused, MessageOutdated)] == ["stale attempt"]
    assert events(at.peer.receive("b", probed(attempt=2), later + keeps + 0.2), ProbeAccepted)


def test_a_release_of_the_present_attempt_or_a_later_one_ends_it_and_one_of_an_earlier_does_not() -> None:
    for released, ends in ((1, False), (2, True), (3, True)):
        at = one_peer()
        at.peer.receive("b", probed(attempt=2), 1.0)
        at.peer.receive("o", Release("r", released), 1.1)
        assert (not at.ledger.reservations) == ends
        again = at.peer.receive("c", probed(attempt=2, path=way("c")), 1.2)
        assert bool(events(again, MessageOutdated)) == ends
        assert (events(until(at, 20.0), ReservationExpired) == []) == ends
