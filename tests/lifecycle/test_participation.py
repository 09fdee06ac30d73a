"""Which applications a peer joins and leaves, and which messages about them it refuses, and says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.control.peer import Send
from synergy_nb.events import MessageOutdated, SessionLeft
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import Graph, Lost
from synergy_nb.lifecycle.sessions.participation import Participation
from synergy_nb.plan import source
from tests.simulated import Ring

PLAN = source("packets", rate=10, id="s", at="peer-1").filter("bytes > 9", id="f", at="peer-2").sink("out", id="out")


class Joined:
    """A peer that executes a filter of an application of another one."""

    def __init__(self) -> None:
        self.ring = Ring(4, seed=5)
        self.ring.submit("peer-0", "r", PLAN)
        assert self.ring.until_decided("r").status == "running"
        self.ring.run(2.0)

    @property
    def participation(self) -> Participation:
        return self.ring.synergy["peer-2"].session.participation

    @property
    def member(self) -> Member:
        return self.participation.members["r"]

    def call(self, function: Any, *given: Any, **options: Any) -> Any:
        """What a function of the peer returns, with all its effects."""
        found: list[Any] = []
        self.ring.simulation.call("peer-2", lambda: found.append(function(*given, **options)))
        return found[0]

    def join(self, graph: Graph, sender: str = "peer-0") -> Any:
        return self.call(self.participation.join, sender, graph, "Confirm")

    @property
    def refused(self) -> list[str]:
        return [each.reason for each in self.ring.events("r", MessageOutdated) if each.peer == "peer-2"]


def test_a_graph_that_a_peer_knows_makes_no_other_member() -> None:
    made = Joined()
    member = made.member
    assert made.join(member.graph) is member
    assert not made.refused


def test_a_member_watches_the_peer_that_leads_and_no_other_and_nobody_once_it_has_left() -> None:
    made = Joined()
    watched, member = made.ring.synergy["peer-2"].membership.watched, made.member
    assert set(watched) == {"peer-0"}
    led_anew = msgspec.structs.replace(member.graph, origin="peer-3", epoch=member.graph.epoch + 1)
    made.call(made.ring.synergy["peer-2"].session.changes.adopt, member, led_anew)
    assert set(watched) == {"peer-3"}
    assert member.leader == "peer-3"
    made.call(made.participation.leave, "r", "stopped")
    assert not watched


def test_a_later_attempt_replaces_the_member_and_an_earlier_one_is_refused() -> None:
    made = Joined()
    before = made.member
    later = msgspec.structs.replace(before.graph, attempt=before.graph.attempt + 1)
    member = made.join(later)
    assert member is made.member is not before
    assert [each.reason for each in made.ring.events("r", SessionLeft)] == ["a later attempt"]
    assert made.join(before.graph) is None
    assert made.refused == ["stale attempt"]


def test_after_the_end_no_graph_of_the_attempt_makes_a_peer_join() -> None:
    made = Joined()
    graph = made.member.graph
    made.call(made.participation.leave, "r", "stopped")
    assert "r" not in made.participation.members
    assert not [each for each in made.ring.deployed if each[:2] == ("peer-2", "r")]
    assert made.join(graph.changed(graph.roles)) is None
    assert made.refused == ["stale attempt"]


@pytest.mark.parametrize("way", ["depart", "expire"])
def test_who_leaves_an_application_that_goes_on_joins_by_a_later_graph(way: str) -> None:
    made = Joined()
    graph = made.member.graph
    made.call(getattr(made.participation, way), *(("r",) if way == "depart" else ("r", "nobody leads it")))
    assert made.join(graph) is None
    assert made.join(graph.changed(graph.roles)) is made.member


def test_what_has_been_promised_to_a_successor_is_kept() -> None:
    made = Joined()
    graph = made.member.graph
    made.member.promise("peer-0", 5)
    assert made.join(graph.changed(graph.roles)) is None
    assert made.call(made.participation.member_of, graph) is None
    assert made.call(made.participation.refuses, "peer-0", graph, "GraphChanged")
    assert made.join(msgspec.structs.replace(graph, epoch=5)) is made.member


def test_a_graph_of_a_peer_that_leads_no_more_is_refused_by_name() -> None:
    made = Joined()
    graph = made.member.graph
    made.member.promise("peer-3", 5)
    assert made.call(made.participation.refuses, "peer-0", graph, "GraphChanged")
    assert made.refused == ["peer-3 leads the application now"]


def test_a_graph_with_this_peer_as_the_origin_of_what_it_does_not_lead_is_refused() -> None:
    made = Joined()
    graph = msgspec.structs.replace(made.member.graph, application="other", origin="peer-2")
    assert made.join(graph, "peer-3") is None
    assert "other" not in made.participation.members


def test_a_peer_without_a_session_says_whether_the_application_has_ended() -> None:
    made = Joined()
    peer, now, attempt = made.ring.synergy["peer-2"].peer, made.ring.simulation.now, made.member.graph.attempt
    effects = peer.call(now, made.participation.absent, "peer-0", "unknown", 1)
    made.call(made.participation.leave, "r", "stopped")
    effects += peer.call(now, made.participation.absent, "peer-0", "r", attempt)
    sent = [each.message for each in effects if isinstance(each, Send)]
    assert [(each.application, each.ended) for each in sent if isinstance(each, Lost)] == [
        ("unknown", False),
        ("r", True),
    ]


def test_results_at_a_sink_outlive_the_session() -> None:
    ring = Ring(4, seed=5)
    ring.submit("peer-0", "r", source("packets", rate=10, id="s", at="peer-1").sink("out", id="out", at="peer-2"))
    assert ring.until_decided("r").status == "running"
    participation = ring.synergy["peer-2"].session.participation
    ring.simulation.call("peer-2", lambda: participation.leave("r", "finished", "finished", retain_sinks=True))
    assert participation.members["r"].ended
    assert [key for key in ring.deployed if key[0] == "peer-2"] == [("peer-2", "r", "out")]
    ring.simulation.call("peer-2", lambda: participation.leave("r", "its results have been discarded"))
    assert "r" not in participation.members
    assert not [key for key in ring.deployed if key[0] == "peer-2"]
