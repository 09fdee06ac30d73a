"""The host of a primary goes on from it: whom it asks for what comes next, for backups, and what it reports."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.availability._offers import Offer
from synergy_nb.algorithms.availability._primary_host import SPREAD
from synergy_nb.algorithms.availability.messages import (
    PlacementDecision,
    PlacementNegotiation,
    PlacementReply,
    PlacementReport,
    PlacementRequest,
    PlacementWithdrawn,
)
from synergy_nb.assembly._synergy_peer import Machine
from synergy_nb.control.roles import Roles
from synergy_nb.events import CandidatePassed, MessageRefused, PlacementNegotiated, ReplicaDecided
from tests.availability.lines import begin
from tests.availability.placement_peer import STREAM, PlacementPeer, task

CONFIG = PlacementConfig()
LOAD = "500 us"


def chained(**changed: Any) -> bytes:
    """A task whose o0 can be at h, x and y, and o1 at x and y."""
    candidates = {"source": ("a",), "o0": ("h", "x", "y"), "o1": ("x", "y"), "sink": ("z",)}
    return task(**{"candidates": candidates, **changed})


class Host(PlacementPeer):
    """The host of the primary of o0, at h, in an application of the origin v."""

    def __init__(
        self, *, data: bytes | None = None, operator: str = "o0", graph: Roles | None = None, **given: Any
    ) -> None:
        super().__init__(**given)
        self.data = data or chained()
        known = graph or Roles({"source": "a", operator: "h"})
        self.call(self.placement.primary_host.begin, self.data, operator, known)
        self.surveyed()

    def asked(self, kind: type[PlacementRequest] | type[PlacementDecision] = PlacementRequest) -> tuple[str, Any]:
        """The one peer that it asks now, and its message."""
        self.surveyed()
        ((to, message),) = self.sent(kind)
        return to, message

    def says(self, to: str, message: Any, reason: str = "", **offer: int) -> None:
        """The answer of a peer."""
        self.receive(to, PlacementReply(message.number, not reason, reason, **offer))

    def report(self) -> PlacementReport:
        ((to, message),) = self.sent(PlacementReport)
        assert to == "v"
        return message


def test_first_the_next_primary_then_the_backup_then_the_decision_then_the_report() -> None:
    host = Host()
    to, request = host.asked()
    assert (to, request.task, request.operator, request.graph.peers) == (
        "x",
        host.data,
        "o1",
        {"source": "a", "o0": "h"},
    )
    assert host.sent(PlacementDecision) == []
    host.says(to, request)
    backup_at, backup = host.asked(PlacementDecision)
    assert (backup_at, backup.operator, backup.backup) == ("x", "o0", True), "a peer that is used already"
    assert backup.graph == Roles({"source": "a", "o0": "h", "o1": "x"})
    host.says(backup_at, backup)
    at, decision = host.asked(PlacementDecision)
    whole = Roles({"source": "a", "o0": "h", "o1": "x"}, {"o0": ("x",)})
    assert (at, decision.operator, decision.backup, decision.graph) == ("x", "o1", False, whole)
    assert host.sent(PlacementReport) == []
    host.says(at, decision)
    report = host.report()
    assert (report.request, report.attempt, report.operator, report.graph) == ("r", 5, "o0", whole)
    assert (report.reason, report.silent) == ("", "")
    assert [(each.operator, each.role, each.at, each.used) for each in host.noted(ReplicaDecided)] == [
        ("o1", "primary", "x", False), ("o0", "backup", "x", True),
    ]  # fmt: skip


def test_of_candidates_that_deny_or_are_silent_the_next_is_asked_until_none_is_left() -> None:
    host = Host()
    to, request = host.asked()
    host.says(to, request, "it is full")
    second, again = host.asked()
    assert (to, second) == ("x", "y")
    host.says("x", again)
    assert host.sent(PlacementDecision) == [], "an answer of another peer than was asked"
    host.wait(CONFIG.sends * CONFIG.answer - 0.1)
    assert [each for each, _ in host.sent(PlacementRequest)] == ["y"] * (CONFIG.sends - 1)
    host.wait(0.2)
    assert host.report().reason == "no peer for the primary of o1: x: it is full; y: no answer"
    assert [(each.operator, each.at, each.reason) for each in host.noted(CandidatePassed)] == [
        ("o1", "x", "it is full"), ("o1", "y", "no answer"),
    ]  # fmt: skip
    assert host.sent(PlacementWithdrawn) == [("y", PlacementWithdrawn("r", 5, "o1"))]


@pytest.mark.parametrize(
    ("silent", "said"),
    [(frozenset(), "x: it is full; y: it is full"), (frozenset({"y"}), "x: it is full; y: no answer")],
)
def test_the_report_names_all_that_were_asked(silent: frozenset[str], said: str) -> None:
    candidates = {"source": ("a",), "o0": ("h", "x"), "o1": ("x", "y"), "sink": ("z",)}
    host = Host(data=task(candidates=candidates), silent=silent)
    host.wait(CONFIG.survey)
    for _ in range(2 - len(silent)):
        to, request = host.asked()
        host.says(to, request, "it is full")
        host.wait(CONFIG.survey)
    report = host.report()
    assert (report.reason, report.silent) == (f"no peer for the primary of o1: {said}", "")


def test_a_peer_that_is_silent_after_it_has_accepted_ends_the_attempt_and_is_named() -> None:
    host = Host(data=chained(degree=1))
    to, request = host.asked()
    host.says(to, request)
    at, _ = host.asked(PlacementDecision)
    host.wait(CONFIG.sends * CONFIG.answer + 0.1)
    report = host.report()
    assert report.reason == "x has accepted the primary of o1 and does not answer any more"
    assert (at, report.silent) == ("x", "x")
    other = Host(data=chained(degree=1))
    to, request = other.asked()
    other.says(to, request)
    at, decision = other.asked(PlacementDecision)
    other.says(at, decision, "it is not reserved any more")
    report = other.report()
    assert (report.reason, report.silent) == ("x has accepted the primary of o1, but it is not reserved any more", "")


def test_backups_go_to_the_next_where_one_denies_and_none_is_asked_twice() -> None:
    host = Host()
    to, request = host.asked()
    host.says(to, request)
    first, decision = host.asked(PlacementDecision)
    host.says(first, decision, "bandwidth")
    second, decision = host.asked(PlacementDecision)
    assert (first, second) == ("x", "y")
    host.says(second, decision, "bandwidth, too")
    host.surveyed()
    report = host.report()
    assert report.reason == "no peer for backup 1 of 1 of o0: x: bandwidth; y: bandwidth, too"
    assert report.graph.backups == {}


def test_each_backup_is_at_a_peer_of_its_own_and_all_of_them_are_placed() -> None:
    host = Host(data=chained(degree=3, degrees={"o1": 1}))
    host.says(*host.asked())
    found = []
    for _ in range(2):
        to, decision = host.asked(PlacementDecision)
        found.append((to, decision.backup))
        host.says(to, decision)
    assert found == [("x", True), ("y", True)]
    to, decision = host.asked(PlacementDecision)
    assert (decision.backup, decision.graph.backups) == (False, {"o0": ("x", "y")})


def test_an_operator_without_backups_is_in_the_graph_with_none() -> None:
    host = Host(data=chained(degree=1))
    host.says(*host.asked())
    to, decision = host.asked(PlacementDecision)
    host.says(to, decision)
    assert host.report().graph.backups == {"o0": ()}


def test_the_uplink_is_given_back_for_streams_that_stay_here() -> None:
    """Before it is known where o1 will be, a stream to it and one to the backup were counted, and three more."""
    for able, streams in ((("x", "y"), 2), (("h",), 1)):
        candidates = {"source": ("a",), "o0": ("h", "x", "y"), "o1": able, "sink": ("z",)}
        machine = Machine(uplink=10 * STREAM)
        host = Host(data=task(candidates=candidates, degrees={"o1": 1}), machine=machine)
        ledger = host.synergy.ledger
        if able != ("h",):
            host.says(*host.asked())
        host.says(*host.asked(PlacementDecision))
        if able != ("h",):
            host.says(*host.asked(PlacementDecision))
        sent = STREAM * streams + (STREAM if able == ("h",) else 0.0)  # o1 sends its own to the sink
        assert ledger.residual_uplink == pytest.approx(10 * STREAM - sent)


def test_an_attempt_that_has_ended_goes_on_no_more() -> None:
    host = Host()
    to, request = host.asked()
    host.call(host.placement.primary_host.end, "r", 4)
    host.call(host.placement.primary_host.end, "r", 5)
    host.says(to, request)
    host.surveyed()
    assert host.sent(PlacementDecision) == []
    assert host.sent(PlacementReport) == []


def test_the_host_of_a_sink_reports_at_once() -> None:
    graph = Roles({"source": "a", "o0": "x", "o1": "y", "sink": "h"}, {"o0": ("y",), "o1": ("x",)})
    host = Host(operator="sink", graph=graph)
    assert host.report().graph == graph


# -- offers that look ahead --------------------------------------------------------------------------------------------


def ahead(**given: Any) -> Host:
    """A host of the source, at h: its two components can be at x, y and w."""
    able = ("w", "x", "y")
    candidates = {"source": ("h",), "o0": able, "o1": able, "sink": ("z",)}
    pinned = {"source": "h", "sink": "z"}
    data = task(candidates=candidates, pinned=pinned, **given.pop("task", {}))
    return Host(
        data=data, operator="source", graph=Roles({"source": "h"}), placement=PlacementConfig(ahead=True, **given)
    )


def test_the_offer_of_fewest_groups_is_taken_then_the_one_of_most_components() -> None:
    host = ahead()
    for takes, groups in ((1, 2), (2, 2), (1, 3)):
        to, request = host.asked()
        host.says(to, request, takes=takes, groups=groups)
    to, decision = host.asked(PlacementDecision)
    assert (to, decision.operator, decision.backup) == ("x", "o0", False)
    assert {(each, message.operator, message.accepted) for each, message in host.sent(PlacementWithdrawn)} == {
        ("w", "o0", True), ("y", "o0", True),
    }  # fmt: skip
    assert [(each.at, each.reason) for each in host.noted(CandidatePassed)] == [("w", SPREAD), ("y", SPREAD)]


def test_after_an_attempt_that_failed_offers_of_more_components_come_first() -> None:
    host = ahead(task={"stuck": ("q",)})
    for takes, groups in ((1, 2), (2, 3), (1, 3)):
        to, request = host.asked()
        host.says(to, request, takes=takes, groups=groups)
    assert host.asked(PlacementDecision)[0] == "x"


@pytest.mark.parametrize(("offer", "best"), [((2, 1), True), ((1, 1), False), ((2, 2), False), ((1, 0), True)])
def test_nobody_else_is_asked_where_no_offer_can_be_better(offer: tuple[int, int], best: bool) -> None:
    host = ahead()
    to, request = host.asked()
    host.says(to, request, takes=offer[0], groups=offer[1])
    host.surveyed()
    assert bool(host.sent(PlacementDecision)) is best
    assert bool(host.sent(PlacementRequest)) is not best


def test_no_more_offers_are_compared_than_stated() -> None:
    host = ahead(offers=2)
    for _ in range(2):
        to, request = host.asked()
        host.says(to, request, takes=1, groups=3)
    assert host.asked(PlacementDecision)[0] == "w"
    assert host.sent(PlacementRequest) == []


def having_offered(graph: Roles | None = None) -> Host:
    """A host that has offered o0 and o1, with their backups at x, and got both."""
    host = Host(operator="sink", graph=Roles({"source": "a", "o0": "h", "o1": "h", "sink": "h"}))
    host.report()
    known = graph or Roles({"source": "a", "o0": "h", "o1": "h"})
    offer = Offer({"o0": ("x",), "o1": ("x",)}, 1)
    host.call(host.placement.primary_host.begin, task(), "o0", known, offer)
    return host


def test_backups_that_were_offered_are_decided_on_together_and_then_it_goes_on_from_all() -> None:
    host = having_offered()
    ((to, decision),) = host.sent(PlacementDecision)
    assert (to, decision.operator, decision.also, decision.backup) == ("x", "o0", ("o1",), True)
    host.says(to, decision)
    assert [(each.operator, each.role, each.at) for each in host.noted(ReplicaDecided)] == [
        ("o1", "primary", "h"), ("o0", "backup", "x"), ("o1", "backup", "x"),
    ]  # fmt: skip
    to, request = host.asked()
    assert (to, request.operator, request.graph.backups) == ("z", "sink", {"o0": ("x",), "o1": ("x",)})


def test_backups_that_were_offered_and_are_denied_are_placed_one_after_the_other() -> None:
    host = having_offered()
    ((to, decision),) = host.sent(PlacementDecision)
    host.says(to, decision, "bandwidth")
    assert [(each.operator, each.at) for each in host.noted(CandidatePassed)] == [("o0", "x"), ("o1", "x")]
    host.says(*host.asked())
    for name in ("o0", "o1"):
        to, decision = host.asked(PlacementDecision)
        assert (to, decision.operator, decision.also, decision.backup) == ("x", name, (), True)
        host.says(to, decision)


# -- what reads several operators --------------------------------------------------------------------------------------

JOIN = (
    begin(None, "s1").delay(LOAD, id="a1").union(begin(None, "s2").delay(LOAD, id="b1"), id="u", cost=LOAD).sink("out")
)


def joining(operator: str, **peers: str) -> Host:
    """The host of one of the two inputs of u, which h, x and y can have."""
    data = task(plan=JOIN, degree=1, candidates={
        "s1": ("a",), "s2": ("b",), "a1": ("h", "x"), "b1": ("h", "x"), "u": ("h", "x", "y"), "sink": ("z",),
    }, pinned={"s1": "a", "s2": "b", "sink": "z"})  # fmt: skip
    return Host(data=data, operator=operator, graph=Roles({"s1": "a", "s2": "b", operator: "h", **peers}))


@pytest.mark.parametrize(("known", "to"), [({}, "v"), ({"a1": "x"}, "x")])
def test_the_host_of_a_further_input_sends_its_candidates_to_who_decides_or_by_the_origin(
    known: dict[str, str], to: str
) -> None:
    host = joining("b1", **known)
    ((receiver, message),) = host.sent(PlacementNegotiation)
    assert (receiver, message.operator, message.upstream) == (to, "u", "b1")
    assert set(message.candidates) == {"h", "x", "y"}
    assert message.graph.peers["b1"] == "h"
    assert [(each.operator, each.upstream, each.to) for each in host.noted(PlacementNegotiated)] == [("u", "b1", to)]
    host.says(to, message)
    assert host.report().reason == ""
    silent = joining("b1", **known)
    silent.wait(CONFIG.sends * CONFIG.answer + 0.1)
    assert silent.report().reason == f"{to} does not answer to negotiate on u"


def test_the_host_of_the_first_input_waits_for_the_others_and_takes_whom_all_can_give() -> None:
    host = joining("a1")
    host.surveyed()
    assert host.sent(PlacementRequest) == []
    other = Roles({"s1": "a", "s2": "b", "b1": "x"}, {"b1": ()})
    message = PlacementNegotiation(9, host.data, "u", "b1", other, ("y",))
    host.receive("x", message)
    assert host.replies() == [("x", 9, "")]
    to, request = host.asked()
    assert (to, request.operator, request.graph.peers["b1"]) == ("y", "u", "x")
    host.receive("x", message)
    assert host.sent(PlacementRequest) == []
    host.says(to, request)
    host.says(*host.asked(PlacementDecision))
    report = host.report()
    assert (report.graph.peers["u"], report.graph.backups) == ("y", {"a1": (), "b1": ()})


def test_a_list_that_comes_first_is_kept_for_the_time_of_an_attempt() -> None:
    early = PlacementPeer()
    data = joining("a1").data
    early.receive("x", PlacementNegotiation(9, data, "u", "b1", Roles({"s2": "b", "b1": "x"}, {"b1": ()}), ("y",)))
    early.wait(CONFIG.placement - 1.0)
    early.call(early.placement.primary_host.begin, data, "a1", Roles({"s1": "a", "a1": "h"}))
    early.surveyed()
    assert [(to, each.operator) for to, each in early.sent(PlacementRequest)] == [("y", "u")]
    late = PlacementPeer()
    late.receive("x", PlacementNegotiation(9, data, "u", "b1", Roles({"s2": "b", "b1": "x"}, {"b1": ()}), ("y",)))
    late.wait(CONFIG.placement + 1.0)
    late.call(late.placement.primary_host.begin, data, "a1", Roles({"s1": "a", "a1": "h"}))
    late.surveyed()
    assert late.sent(PlacementRequest) == []


@pytest.mark.parametrize(("operator", "upstream"), [("u", "a1"), ("u", "s1"), ("o9", "b1")])
def test_a_list_of_what_is_no_further_input_is_refused(operator: str, upstream: str) -> None:
    peer = PlacementPeer()
    peer.receive("x", PlacementNegotiation(9, joining("a1").data, operator, upstream, Roles({}), ()))
    assert [each.message for each in peer.noted(MessageRefused)] == ["PlacementNegotiation"]
    assert peer.replies() == []
