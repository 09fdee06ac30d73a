"""Components that have failed, or that their peer has forgotten: what becomes of their application."""

from __future__ import annotations

import pytest

from synergy_nb.control.graph import Producer, Report
from synergy_nb.control.roles import Roles
from synergy_nb.events import ComponentFailed, MessageOutdated, SetupFailed, TakenOver
from synergy_nb.lifecycle.records.messages import Confirmed, End, Graph, GraphAsked, GraphChanged, Lost, Refused
from synergy_nb.plan import source
from synergy_nb.plan.derived.stream_sharing import reduced
from tests.lifecycle.backed_chain import BACKUPS, established
from tests.lifecycle.leading_peer import lead, set_up
from tests.one_peer import OnePeer
from tests.simulated import Ring


def running(backups: dict[str, tuple[str, ...]] | None = None) -> Ring:
    """An application ``r`` of peer 0, whose operators are at peer 2."""
    ring = Ring(6, seed=3)
    assert established(ring, backups) == [""]
    return ring


@pytest.mark.parametrize("backups", [{}, BACKUPS], ids=["alone", "with backups"])
def test_a_component_that_has_failed_ends_its_application_as_it_would_fail_at_a_backup_too(
    backups: dict[str, tuple[str, ...]],
) -> None:
    ring = running(backups)
    ring.simulation.call("peer-2", ring.synergy["peer-2"].session.lost.failed, "r", "o0", "it broke")
    ring.run(3.0)
    assert [(each.peer, each.operator) for each in ring.events("r", ComponentFailed)] == [("peer-2", "o0")]
    assert ring.status("r") == "failed"
    assert ring.reports["r"][-1].reason == "o0 at peer-2: it broke"


def test_backups_take_over_what_a_peer_has_forgotten_which_hears_that_it_has_no_part_any_more() -> None:
    ring = running()
    forgetful = ring.synergy["peer-2"].session.participation
    ring.simulation.call("peer-2", forgetful.leave, "r", "forgotten")
    heard: list[Graph] = []
    forgetful.on_received.append(heard.append)
    ring.run(3.0)
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    assert {graph.roles.peers[name] for name in ("o0", "o1")} == {"peer-3"}
    assert {each.subject for each in ring.events("r", TakenOver)} == {"r"}
    assert heard
    assert "peer-2" not in heard[-1].addresses


def test_nothing_can_replace_what_a_peer_without_backups_has_forgotten() -> None:
    ring = running({})
    ring.simulation.call("peer-2", ring.synergy["peer-2"].session.participation.leave, "r", "forgotten")
    ring.run(3.0)
    assert ring.status("r") == "failed"


# -- what the peer that leads makes of reports ------------------------------------------------------------------------

PLAN = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out")
PEERS = {"s": "a", "f": "c", "out": "d"}


def ended(one: OnePeer) -> list[tuple[str, str]]:
    """How the driver hears that the application has ended."""
    return [(each.status, each.reason) for each in one.told(Report) if each.status != "running"]


def test_a_report_about_an_earlier_graph_or_attempt_or_of_a_stranger_is_no_matter() -> None:
    one = OnePeer("o")
    request = lead(one, PLAN, PEERS)
    one.call(one.synergy.session.changes.change, "r", request.graph.changed(Roles(PEERS)))
    one.receive("c", Lost("r", 1, "it broke", 0, "f", failed=True), Lost("r", 2, "it broke", -1, "f", failed=True))
    one.receive("z", Lost("r", 1, "it broke", 1, "f", failed=True))
    one.receive("c", Lost("x", 1, "it broke", 1, "f", failed=True))
    assert ended(one) == []
    one.receive("c", Lost("r", 1, "it broke", 1, "f", failed=True))
    assert ended(one) == [("failed", "it broke")]


def test_who_hears_that_the_application_has_ended_elsewhere_leads_it_no_more_and_ends_nothing() -> None:
    one = OnePeer("o")
    request = lead(one, PLAN, PEERS)
    assert request.graph.successor
    one.receive("c", Lost("r", 1, "no session", ended=True))
    assert one.sent(GraphAsked) == [(request.graph.successor, GraphAsked("r", 1))], "a member may lie about that"
    assert "r" in one.synergy.session.led
    one.receive(request.graph.successor, End("r", 1, "it has ended"))
    assert "r" not in one.synergy.session.led
    assert ended(one) != [("failed", "no session")]


def test_a_peer_with_a_shared_component_that_missed_the_graph_hears_it_and_one_whose_component_ended_ends_all() -> None:
    whole = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out")
    plan = reduced(whole, {"f": {"c": ("q", "f")}})
    made = (Producer("q", "s", "a", 0, "p"), Producer("q", "f", "c", 0, "p"))
    one = OnePeer("o")
    graph = lead(one, plan, {"f": "c", "out": "d"}, {"f": made}).graph
    one.sent(GraphChanged)
    one.receive("c", Lost("r", 1, "no session"))
    assert one.sent(GraphChanged) == [("c", GraphChanged(graph))]
    assert ended(one) == []
    one.receive("c", Lost("r", 1, "f of q at c has ended", graph.epoch))
    assert [status for status, _ in ended(one)] == ["failed"]


def test_who_refuses_to_commit_is_noted_and_only_of_this_attempt() -> None:
    one = OnePeer("o")
    request = set_up(one, PLAN, PEERS)
    one.receive("d", Refused("r", 2, "f", "it is full"))
    assert request.refused_by == set()
    one.receive("c", Refused("r", 1, "f", "it is full", "q"))
    assert (request.refused_by, request.owners, request.sharable_soon) == ({"c"}, {"q"}, True)
    assert [each.reason for each in one.noted(SetupFailed)] == ["it is full"]
    one.receive("a", Confirmed("r", 1, "s"))
    assert not request.running
    assert one.noted(MessageOutdated) == []
