"""Requests of one moment: they wait for a stream to share, and add no more to others than origins agree to."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.roles import Roles
from synergy_nb.events import ApplicationRunning, RequestPostponed, SetupFailed, SharingFound
from synergy_nb.lifecycle.records.messages import Graph, GrowthAnswered, GrowthAsked, GrowthChanged
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.models.queueing import execution_time
from synergy_nb.overlay.answer_limits import AnswerLimits
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.explanation import Explanation
from tests.simulated import Ring

RATE = 20.0
AGREED = {"agreed": True, "deployment": "off"}


def pinned(name: str, limit: float, **at: str) -> Plan:
    """A chain of operators of 10 ms, each at its peer, over a stream of its own."""
    stream = source("packets", rate=RATE, seed=hash_of(name), id="packets", at="peer-0")
    for operator, peer in at.items():
        stream = stream.operator("delay", id=operator, at=peer, cost="10 ms")
    return stream.sink("all", delay=f"{limit * 1e3:.3f} ms")


def hash_of(name: str) -> int:
    return sum(map(ord, name))


def ring(**changes: Any) -> Ring:
    config = CompositionConfig(**changes)
    return Ring(6, seed=3, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))


def account(limit: float) -> tuple[Agreements, list[tuple[str, Any]]]:
    """The agreements of an origin, with the account of application ``a``, projected at 100 ms; and what it sends."""
    sent: list[tuple[str, Any]] = []
    peer = SimpleNamespace(send=lambda to, message: sent.append((to, message)))
    origin = Agreements(cast("Any", peer), cast("Any", None), {}, AnswerLimits(cast("Any", peer)))
    plan = source("packets", rate=RATE).sink("all", delay=f"{limit * 1e3} ms")
    roles = Roles(dict.fromkeys(plan.operators, "p"))
    reached, promised = dict.fromkeys(plan.operators, 0.1), dict.fromkeys(plan.operators, 0.0)
    origin.open(Graph("a", 1, "o", plan.to_bytes(), roles, reached=reached, promised=promised))
    return origin, sent


def test_an_origin_agrees_until_the_sum_over_peers_exceeds_the_limit() -> None:
    origin, sent = account(limit=0.11)
    for sender, seconds, agrees in (("p", 0.006, True), ("q", 0.006, False), ("q", 0.004, True), ("p", 0.007, False)):
        origin.handlers[GrowthAsked](sender, GrowthAsked("a", 1, seconds))
        to, answer = sent.pop()
        assert to == sender
        assert isinstance(answer, GrowthAnswered)
        assert (not answer.reason) == agrees, (sender, seconds)
    assert origin.delay("a") == pytest.approx(0.11)
    origin.handlers[GrowthChanged]("p", GrowthChanged("a", 1, 0.0))  # what it had asked for has left
    origin.handlers[GrowthAsked]("q", GrowthAsked("a", 1, 0.009))
    assert sent.pop()[1].reason == ""
    origin.handlers[GrowthAsked]("q", GrowthAsked("a", 2, 1.0))
    assert sent.pop()[1].reason == "", "an attempt that has no account has no limit"
    origin.close("a")
    assert origin.delay("a") < 0.0


def present_delay(on: Ring, name: str) -> float:
    """Delay of an application by equation 2.6 at the present loads, and by the links, seconds."""
    running = on.events(name, ApplicationRunning)[0]
    stops = [running.peers[each] for each in ("packets", "one", "two", "sink")]
    links = sum(on.simulation.network.delay(a, b) for a, b in itertools.pairwise(stops) if a != b)
    loads = (on.synergy[running.peers[each]].ledger.load for each in ("one", "two"))
    return links + sum(execution_time(0.01, load) for load in loads)


@pytest.mark.parametrize("agreed", [False, True])
def test_what_two_peers_add_at_one_moment_keeps_the_limit_only_if_origins_agree(agreed: bool) -> None:
    """Each of two requests adds 6 ms to an application with 8 ms to spare, at a peer of its own."""
    on = ring(agreed=agreed, deployment="off")
    on.submit("peer-5", "probe", pinned("first", 5.0, one="peer-1", two="peer-2"))
    assert on.until_decided("probe").status == "running"
    least = present_delay(on, "probe")
    on.simulation.report("peer-5", StopApplication("probe"))
    on.run(3.0)
    limit = least + 0.006
    on.submit("peer-5", "first", pinned("first", limit, one="peer-1", two="peer-2"))
    assert on.until_decided("first").status == "running"
    on.submit("peer-3", "b", pinned("b", 5.0, other="peer-1"))
    on.submit("peer-4", "c", pinned("c", 5.0, other="peer-2"))
    reports = [on.until_decided(name) for name in ("b", "c")]
    assert sorted(each.status for each in reports) == (["rejected", "running"] if agreed else ["running", "running"])
    assert (present_delay(on, "first") <= limit) == agreed
    if agreed:
        refused = next(each for each in reports if each.status == "rejected")
        assert "first" in refused.reason
        assert "limit" in refused.reason


def query(limit: str = "2 s") -> Plan:
    stream = source("packets", rate=100.0, seed=1, id="packets").filter("bytes > 100", cost="1 ms", id="large")
    return stream.aggregate("link", "1 s", n="count(*)", cost="1 ms", id="by_link").sink("all", delay=limit)


@pytest.mark.parametrize("patience", [0.0, 5.0])
def test_a_request_waits_while_another_one_for_the_same_stream_is_composed(patience: float) -> None:
    on = ring(patience=patience)
    on.submit("peer-1", "a", query())
    on.run(0.15)  # less than a composition takes
    assert on.status("a") == "composing"
    on.submit("peer-2", "b", query())
    reports = [on.until_decided(name) for name in ("a", "b")]
    assert [each.status for each in reports] == ["running", "running"]
    assert (set(reports[1].peers) == {"by_link", "sink"}) == bool(patience), "the second shares the stream of the first"
    postponed = on.events("b", RequestPostponed)
    assert [each.reason.split(",")[0] for each in postponed] == (["a"] if patience else [])
    account = str(Explanation("b", on.events("b"), {}))
    assert ("waited: a, which has the same stream, is being composed" in account) == bool(patience)


def test_the_patience_of_a_request_ends() -> None:
    on = ring(patience=0.4)
    for peer in on.synergy.values():
        peer.streams.offer(query().stream_name("by_link"), "z", "", {"claim": "composing"})
    on.run(1.0)
    on.submit("peer-2", "b", query())
    assert on.until_decided("b").status == "running"
    assert on.events("b", RequestPostponed)


def test_a_peer_refuses_a_second_component_for_a_stream_that_can_be_shared_soon() -> None:
    """Two queries that begin alike claim different streams; but their components meet at the same peers."""
    on = ring(**AGREED, patience=5.0)
    on.submit("peer-3", "a", pinned("same", 5.0, one="peer-1", two="peer-2"))
    on.submit("peer-4", "b", pinned("same", 5.0, one="peer-1", two="peer-2", three="peer-5"))
    reports = [on.until_decided(name) for name in ("a", "b")]
    assert [each.status for each in reports] == ["running", "running"]
    on.run(1.0)
    for peer in ("peer-1", "peer-2"):
        assert on.synergy[peer].ledger.load == pytest.approx(0.2), "the work is done once"
    refused = on.events("a", RequestPostponed) + on.events("b", RequestPostponed)
    assert ["its stream runs here for" in each.reason for each in refused] == [True]


@pytest.mark.parametrize("backtracks", [False, True])
def test_if_the_last_sharable_point_is_too_late_an_earlier_one_is_shared(backtracks: bool) -> None:
    on = ring(backtracks=backtracks)
    on.submit("peer-1", "a", query())
    first = on.until_decided("a").peers
    on.run(2.0)
    on.synergy[first["by_link"]].session.components["a", "by_link"].reached = 5.0  # its stream comes late
    on.submit("peer-2", "b", query())
    second = on.until_decided("b")
    assert second.status == "running"
    points = [set(each.points) for each in on.events("b", SharingFound)]
    assert points == ([{"by_link"}, {"large"}] if backtracks else [{"by_link"}])
    assert set(second.peers) == {"large", "by_link", "sink"} | (set() if backtracks else {"packets"})


def test_a_refused_component_leaves_nothing_booked() -> None:
    on = ring(**AGREED)
    on.submit("peer-5", "first", pinned("first", 5.0, one="peer-1", two="peer-2"))
    assert on.until_decided("first").status == "running"
    origin = on.synergy["peer-5"].session.agreements
    before = origin.delay("first")
    on.submit("peer-3", "b", pinned("b", 5.0, other="peer-1"))
    assert on.until_decided("b").status == "running"
    assert origin.delay("first") == pytest.approx(before + execution_time(0.01, 0.4) - execution_time(0.01, 0.2))
    on.simulation.report("peer-3", StopApplication("b"))
    on.run(2.0)
    assert origin.delay("first") == pytest.approx(before)
    assert not on.events("b", SetupFailed)


def test_patience_is_no_negative_number() -> None:
    with pytest.raises(ValueError, match=r"patience: -1\.0; expected at least 0"):
        CompositionConfig(patience=-1.0)
