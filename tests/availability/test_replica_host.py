"""A peer that is asked to host replicas: what it accepts, what it denies and why, and when it lets go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.availability.messages import (
    PlacementDecision,
    PlacementRenewal,
    PlacementReply,
    PlacementRequest,
    PlacementWithdrawn,
    Survey,
)
from synergy_nb.assembly._synergy_peer import Machine
from synergy_nb.control.roles import Roles
from synergy_nb.events import (
    MessageOutdated,
    MessageRefused,
    ReplicaAccepted,
    ReplicaDenied,
    ReplicaPlaced,
    ReplicasLeft,
    ReservationExpired,
)
from tests.availability.lines import LOAD as LOAD_TEXT
from tests.availability.lines import begin, diamond
from tests.availability.placement_peer import STREAM, PlacementPeer, task

CONFIG = PlacementConfig()
AHEAD = PlacementConfig(ahead=True)
BEFORE = Roles({"source": "a"})
LOAD = 0.05
FREE, HELD, BOTH = (0.0, frozenset[str]()), (LOAD, frozenset({"r"})), (2 * LOAD, frozenset({"r"}))


def request(number: int = 1, operator: str = "o0", graph: Roles = BEFORE, **changed: Any) -> PlacementRequest:
    return PlacementRequest(number, task(**changed), operator, graph)


def decision(
    number: int = 2, operator: str = "o0", graph: Roles = BEFORE, *, backup: bool = False, also: tuple[str, ...] = (),
    **changed: Any,
) -> PlacementDecision:  # fmt: skip
    return PlacementDecision(number, task(**changed), operator, backup, graph, also)


def accepted(**given: Any) -> PlacementPeer:
    """A peer that has accepted the primary of o0."""
    peer = PlacementPeer(**given)
    peer.receive("a", request())
    peer.surveyed()
    ((to, number, reason),) = peer.replies()
    assert (to, number, reason) == ("a", 1, "")
    return peer


def backed(**given: Any) -> PlacementPeer:
    """A peer that has the backup of o0, whose primary is at x."""
    peer = PlacementPeer(**given)
    peer.receive("x", decision(graph=Roles({"source": "a", "o0": "x"}), backup=True))
    assert peer.replies() == [("x", 2, "")]
    return peer


def primary(**given: Any) -> PlacementPeer:
    """A peer that has the primary of o0."""
    peer = accepted(**given)
    peer.receive("a", decision())
    assert peer.replies() == [("a", 2, "")]
    return peer


def roles(peer: PlacementPeer) -> dict[str, str]:
    return dict(peer.placement.replica_host.roles("r"))


# -- a primary is asked for --------------------------------------------------------------------------------------------


def test_it_reserves_the_primary_once_it_knows_its_links_and_answers_each_repetition() -> None:
    peer = PlacementPeer()
    peer.receive("a", request())
    peer.receive("a", request())
    assert peer.replies() == []
    assert peer.surveyed() == ["x", "y"], "others that can have it; z has to have the sink, and is surveyed, too"
    assert peer.replies() == [("a", 1, "")]
    assert peer.books == HELD
    (noted,) = peer.noted(ReplicaAccepted)
    assert (noted.operator, noted.by) == ("o0", "a")
    assert noted.cores_left == pytest.approx(1.0 - LOAD)
    peer.receive("a", request(7))
    assert [(to, each.number, each.takes, each.groups) for to, each in peer.sent(PlacementReply)] == [("a", 7, 1, 0)]
    assert peer.surveyed() == []
    assert peer.books == HELD
    assert roles(peer) == {"o0": "accepted"}
    assert peer.placement.replica_host.requests == {"r"}


def test_a_peer_without_room_denies_and_holds_nothing() -> None:
    for cores, reason in (
        (0.05, ""),
        (0.049, "processing capacity: 0.049 cores where 0.05 cores are needed, as one thread executes an operator"),
    ):
        peer = PlacementPeer(cores=cores)
        peer.receive("a", request())
        peer.surveyed()
        assert peer.replies() == [("a", 1, reason)]
        assert peer.books == (FREE if reason else HELD)
        assert [(each.operator, each.role, each.reason) for each in peer.noted(ReplicaDenied)] == (
            [("o0", "primary", reason)] if reason else []
        )
        assert roles(peer) == ({} if reason else {"o0": "accepted"})


def test_what_it_reads_needs_a_link_unless_it_is_here() -> None:
    peer = PlacementPeer(bandwidth=None)
    peer.synergy.ledger.bandwidth_from = lambda sender: 1599.0 if sender == "a" else 1e6
    peer.receive("a", request())
    peer.surveyed()
    assert peer.replies() == [("a", 1, "bandwidth from a: 1600 bytes/s needed, 1599 left")]
    here = Roles({"source": "h"})
    peer.receive("v", request(2, graph=here))
    peer.surveyed()
    assert peer.replies() == [("v", 2, "")]


def test_a_peer_that_does_not_offer_the_component_says_so() -> None:
    peer = PlacementPeer(components=("sink", "source:python"))
    peer.receive("a", request())
    peer.surveyed()
    assert peer.replies() == [("a", 1, "it does not offer the component")]


@pytest.mark.parametrize(("carries", "denied"), [(STREAM, False), (STREAM - 1.0, True)])
def test_the_stream_has_to_reach_a_candidate_of_what_reads_it(carries: float, denied: bool) -> None:
    peer = PlacementPeer(bandwidth={"z": carries})
    peer.receive("a", request(operator="o1", graph=Roles({"source": "a", "o0": "x"}), degree=1))
    peer.surveyed()
    why = "bandwidth downstream: no peer for out can be given 1600 bytes/s"
    ((_, _, reason),) = peer.replies()
    assert reason == (why.replace("out", "sink") if denied else "")


@pytest.mark.parametrize(("carries", "denied"), [(STREAM, False), (STREAM - 1.0, True)])
def test_the_stream_has_to_reach_enough_peers_for_the_backups(carries: float, denied: bool) -> None:
    peer = PlacementPeer(bandwidth={"x": carries, "y": 0.0})
    peer.receive("a", request())
    peer.surveyed()
    assert peer.replies() == [
        ("a", 1, "bandwidth to backups: 0 of 1 peers can be given 1600 bytes/s" if denied else "")
    ]


def test_all_that_it_sends_has_to_fit_its_uplink() -> None:
    """One stream to what reads it, and one to the backup."""
    for uplink, reason in ((2 * STREAM, ""), (2 * STREAM - 1, "the uplink: 3200 bytes/s needed, 3199 left")):
        peer = PlacementPeer(machine=Machine(uplink=uplink))
        peer.receive("a", request())
        peer.surveyed()
        assert peer.replies() == [("a", 1, reason)]
        assert peer.books == (FREE if reason else HELD)


def test_a_placement_that_was_withdrawn_while_it_surveyed_is_not_answered() -> None:
    peer = PlacementPeer()
    peer.receive("a", request())
    peer.receive("v", PlacementWithdrawn("r", 5, ""))
    peer.surveyed()
    assert peer.replies() == []
    assert peer.books == FREE
    peer.receive("a", request())
    assert [each.reason for each in peer.noted(MessageOutdated)] == ["stale attempt"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"operator": "o9"}, "operator: 'o9'; expected one of the plan"),
        ({"graph": Roles({})}, "graph: expected the primaries of all operators upstream"),
        ({"graph": Roles({"source": "a", "other": "x"})}, "graph: expected the primaries"),
        ({"degree": 4}, "degree: 4; expected 1 to the number of candidates"),
        ({"degree": 0}, "degree: 0; expected 1"),
    ],
)
def test_what_cannot_be_a_request_is_refused_and_says_why(changed: dict[str, Any], reason: str) -> None:
    peer = PlacementPeer()
    for message in (request(**changed), decision(**changed)):
        peer.receive("v", message)
        (noted,) = peer.noted(MessageRefused)
        assert noted.message == type(message).__name__
        assert noted.reason.startswith(reason)
    peer.receive("a", PlacementRequest(1, b"x", "o0", BEFORE))
    assert len(peer.noted(MessageRefused)) == 1
    assert peer.replies() == []
    assert peer.books == FREE


# -- it is decided -----------------------------------------------------------------------------------------------------


def test_the_decision_commits_what_was_accepted_and_a_repetition_is_answered_again() -> None:
    peer = accepted()
    peer.wait(CONFIG.reservation - 0.1)
    peer.receive("a", decision())
    assert peer.replies() == [("a", 2, "")]
    assert [(each.operator, each.role, each.by) for each in peer.noted(ReplicaPlaced)] == [("o0", "primary", "a")]
    assert roles(peer) == {"o0": "primary"}
    peer.receive("a", decision(3))
    assert peer.replies() == [("a", 3, "")]
    peer.wait(1.0)
    assert peer.noted(ReservationExpired) == []
    assert peer.books == HELD
    assert not peer.synergy.ledger.reservations


def test_the_placement_goes_on_from_a_primary_and_not_from_a_backup() -> None:
    peer = primary()
    peer.surveyed()
    assert roles(peer) == {"o0": "primary", "o1": "accepted"}, "it is the nearest to itself"
    other = backed()
    assert other.surveyed() == []


def test_what_is_not_decided_in_time_is_let_go_and_then_it_is_too_late() -> None:
    peer = accepted()
    peer.wait(CONFIG.reservation - 0.02)
    assert peer.books == HELD
    peer.wait(0.03)
    assert [(each.operator, each.attempt) for each in peer.noted(ReservationExpired)] == [("o0", 5)]
    assert peer.books == FREE
    assert roles(peer) == {}
    peer.receive("a", decision())
    assert peer.replies() == [("a", 2, "it is not reserved any more")]
    assert [(each.role, each.reason) for each in peer.noted(ReplicaDenied)] == [
        ("primary", "it is not reserved any more")
    ]
    assert peer.books == FREE
    assert peer.placement.replica_host.requests == frozenset()


def test_a_backup_needs_a_link_from_its_primary_and_no_cores() -> None:
    peer = backed()
    assert peer.books == (0.0, HELD[1])
    assert peer.sent(PlacementRequest) == []
    assert peer.sent(Survey) == []
    assert peer.synergy.ledger.residual_bandwidth("", "x") == pytest.approx(125e6 - STREAM)
    assert [(each.operator, each.role, each.by) for each in peer.noted(ReplicaPlaced)] == [("o0", "backup", "x")]
    peer.receive("x", decision(3, graph=Roles({"source": "a", "o0": "x"}), backup=True))
    assert peer.replies() == [("x", 3, "")]
    assert peer.synergy.ledger.residual_bandwidth("", "x") == pytest.approx(125e6 - STREAM)
    narrow = PlacementPeer()
    narrow.synergy.ledger.bandwidth_from = lambda _sender: STREAM - 1.0
    narrow.receive("x", decision(graph=Roles({"source": "a", "o0": "x"}), backup=True))
    assert narrow.replies() == [("x", 2, "bandwidth from x: 1600 bytes/s needed, 1599 left")]
    assert narrow.books == FREE
    other = PlacementPeer(components=("sink",))
    other.receive("x", decision(graph=Roles({"source": "a", "o0": "x"}), backup=True))
    assert other.replies() == [("x", 2, "it does not offer the component")]


def test_no_peer_has_two_replicas_of_a_component() -> None:
    peer = primary()
    peer.receive("x", decision(3, graph=Roles({"source": "a", "o0": "x"}), backup=True))
    peer.receive("x", decision(4, operator="o1", graph=Roles({"source": "a", "o0": "x", "o1": "h"}), backup=True))
    assert peer.replies() == [("x", 3, "another replica of it is here"), ("x", 4, "another replica of it is here")]
    other = backed()
    other.receive("a", request(5), decision(6))
    assert other.replies() == [("a", 5, "a backup of it is here"), ("a", 6, "it is not reserved any more")]
    assert roles(other) == {"o0": "backup"}


def test_backups_that_are_asked_for_together_are_all_here_or_none() -> None:
    graph = Roles({"source": "a", "o0": "x", "o1": "x"})
    both = decision(graph=graph, backup=True, also=("o1",))
    peer = PlacementPeer()
    peer.receive("x", both)
    assert peer.replies() == [("x", 2, "")]
    assert roles(peer) == {"o0": "backup", "o1": "backup"}
    peer.receive("x", msgspec.structs.replace(both, number=3))
    assert peer.replies() == [("x", 3, "")]
    assert peer.synergy.ledger.residual_bandwidth("", "x") == pytest.approx(125e6 - 2 * STREAM)
    narrow = PlacementPeer()
    narrow.synergy.ledger.bandwidth_from = lambda _sender: 1.5 * STREAM
    narrow.receive("x", both)
    assert narrow.replies() == [("x", 2, "bandwidth from x: 1600 bytes/s needed, 800 left")]
    assert narrow.books == FREE
    assert roles(narrow) == {}
    assert narrow.noted(ReplicaPlaced) == []
    part = backed()
    part.receive("x", msgspec.structs.replace(both, number=3))
    assert part.replies() == [("x", 3, "")]
    assert [each.operator for each in part.noted(ReplicaPlaced)] == ["o0", "o1"]


# -- it lets go --------------------------------------------------------------------------------------------------------


def test_without_a_renewal_during_a_lease_all_is_released() -> None:
    peer = backed()
    peer.wait(CONFIG.lease - 1.0)
    peer.receive("v", PlacementRenewal("r", 5, ("o0",)))
    peer.wait(CONFIG.lease - 0.01)
    assert roles(peer) == {"o0": "backup"}
    peer.wait(0.02)
    assert [(each.attempt, each.reason) for each in peer.noted(ReplicasLeft)] == [(5, "its origin has sent no renewal")]
    assert peer.books == FREE
    peer.receive("x", decision(9, graph=Roles({"source": "a", "o0": "x"}), backup=True))
    assert [each.message for each in peer.noted(MessageOutdated)] == ["PlacementDecision"]


def test_the_lease_begins_with_the_first_decision_and_not_anew_with_the_second() -> None:
    peer = backed()
    peer.wait(1.0)
    peer.receive("x", decision(3, operator="o1", graph=Roles({"source": "a", "o0": "x", "o1": "x"}), backup=True))
    peer.wait(CONFIG.lease - 0.99)
    assert peer.books == FREE
    assert len(peer.noted(ReplicasLeft)) == 1


def test_a_renewal_of_this_attempt_drops_what_it_does_not_name() -> None:
    peer = backed()
    peer.receive("x", decision(3, operator="o1", graph=Roles({"source": "a", "o0": "x", "o1": "x"}), backup=True))
    for other in (PlacementRenewal("r", 4, ()), PlacementRenewal("r", 6, ()), PlacementRenewal("q", 5, ())):
        peer.receive("v", other)
    assert roles(peer) == {"o0": "backup", "o1": "backup"}
    peer.receive("v", PlacementRenewal("r", 5, ("o1",)))
    assert roles(peer) == {"o1": "backup"}
    assert peer.synergy.ledger.residual_bandwidth("", "x") == pytest.approx(125e6 - STREAM)
    peer.receive("v", PlacementRenewal("r", 5, ()))
    assert roles(peer) == {}
    assert peer.books == FREE


@pytest.mark.parametrize(
    ("attempt", "operator", "only_accepted", "left"),
    [
        (5, "o0", True, ({}, {"o0": "primary"}, {"o0": "backup"})),
        (5, "o0", False, ({}, {"o0": "primary"}, {})),
        (5, "o1", False, ({"o0": "accepted"}, {"o0": "primary"}, {"o0": "backup"})),
        (4, "o0", False, ({"o0": "accepted"}, {"o0": "primary"}, {"o0": "backup"})),
        (6, "o0", False, ({"o0": "accepted"}, {"o0": "primary"}, {"o0": "backup"})),
        (4, "", False, ({"o0": "accepted"}, {"o0": "primary"}, {"o0": "backup"})),
        (5, "", False, ({}, {}, {})),
        (6, "", False, ({}, {}, {})),
    ],
)
def test_what_is_withdrawn(attempt: int, operator: str, only_accepted: bool, left: tuple[dict[str, str], ...]) -> None:
    for make, remains in zip((accepted, primary, backed), left, strict=True):
        peer = make()
        peer.receive("v", PlacementWithdrawn("r", attempt, operator, only_accepted))
        assert roles(peer) == remains
        assert peer.placement.replica_host.requests == (HELD[1] if remains else FREE[1])
        assert (peer.books == FREE) == (not remains)
        whole = not operator and not remains
        assert [each.reason for each in peer.noted(ReplicasLeft)] == (["withdrawn"] if whole else [])


def test_a_later_attempt_replaces_an_earlier_one_of_which_late_messages_are_refused() -> None:
    peer = primary()
    peer.receive("a", request(3, attempt=6, operator="o1", graph=Roles({"source": "a", "o0": "x"})))
    assert [(each.attempt, each.reason) for each in peer.noted(ReplicasLeft)] == [(5, "a later attempt")]
    peer.surveyed()
    assert peer.replies() == [("a", 3, "")]
    peer.receive("a", request(4), decision(5))
    assert peer.replies() == []
    assert [each.message for each in peer.noted(MessageOutdated)] == ["PlacementRequest", "PlacementDecision"]
    assert roles(peer) == {"o1": "accepted"}


def test_an_attempt_that_was_withdrawn_before_it_was_heard_of_is_refused() -> None:
    peer = PlacementPeer()
    peer.receive("v", PlacementWithdrawn("r", 5, ""))
    peer.receive("a", request())
    assert len(peer.noted(MessageOutdated)) == 1
    peer.receive("a", request(attempt=6))
    peer.surveyed()
    assert peer.replies() == [("a", 1, "")]


# -- an offer that looks ahead -----------------------------------------------------------------------------------------


def offered(**given: Any) -> PlacementPeer:
    """A peer that has offered to take o0 and o1."""
    peer = PlacementPeer(placement=AHEAD, **given)
    peer.receive("a", request())
    peer.surveyed()
    ((_, reply),) = peer.sent(PlacementReply)
    assert (reply.number, reply.accepted, reply.takes, reply.groups) == (1, True, 2, 1)
    return peer


def test_an_offer_holds_all_that_it_takes_and_is_repeated_as_it_is() -> None:
    peer = offered()
    assert peer.books == BOTH
    assert roles(peer) == {"o0": "accepted", "o1": "accepted"}
    assert [each.operator for each in peer.noted(ReplicaAccepted)] == ["o0", "o1"]
    peer.receive("a", request(8))
    assert [(each.number, each.takes, each.groups) for _, each in peer.sent(PlacementReply)] == [(8, 2, 1)]
    assert peer.placement.link_survey.holds == {("r", "o0")}


def test_a_peer_offers_no_more_than_it_has_room_for() -> None:
    peer = PlacementPeer(placement=AHEAD, cores=0.07)
    peer.receive("a", request())
    peer.surveyed()
    assert [(each.takes, each.accepted) for _, each in peer.sent(PlacementReply)] == [(1, True)]
    assert peer.books == HELD


def test_an_offer_ends_before_what_this_peer_cannot_have() -> None:
    able, ends = ("h", "x", "y"), {"source": ("a",), "sink": ("z",)}
    elsewhere = {**ends, "o0": able, "o1": ("x", "y"), "o2": able}
    large = begin(None).delay(LOAD_TEXT, id="o0").delay("15 ms", id="o1").delay(LOAD_TEXT, id="o2").sink("out")
    for changed in ({"components": 3, "candidates": elsewhere}, {"plan": large}):
        peer = PlacementPeer(placement=AHEAD)
        peer.receive("a", request(**changed))
        peer.surveyed()
        assert [(each.takes, each.accepted) for _, each in peer.sent(PlacementReply)] == [(1, True)]
        assert peer.books == HELD


def test_an_offer_whose_streams_do_not_fit_the_uplink_is_of_fewer_components_or_none() -> None:
    for streams, takes in ((3, 2), (2, 1), (1, 0)):
        peer = PlacementPeer(placement=AHEAD, machine=Machine(uplink=streams * STREAM))
        peer.receive("a", request())
        peer.surveyed()
        ((_, reply),) = peer.sent(PlacementReply)
        assert (reply.accepted, reply.takes) == (takes > 0, takes)
        assert peer.books == (FREE, HELD, BOTH)[takes]


def test_one_decision_on_an_offer_places_all_of_it() -> None:
    peer = offered()
    peer.receive("a", decision())
    assert peer.replies() == [("a", 2, "")]
    assert roles(peer) == {"o0": "primary", "o1": "primary"}
    assert [each.operator for each in peer.noted(ReplicaPlaced)] == ["o0", "o1"]
    peer.wait(CONFIG.reservation + 1.0)
    assert peer.noted(ReservationExpired) == []
    assert peer.books == BOTH


def test_an_offer_that_is_not_taken_is_let_go_as_a_whole() -> None:
    peer = offered()
    peer.receive("a", PlacementWithdrawn("r", 5, "o0", accepted=True))
    assert roles(peer) == {}
    assert peer.books == FREE
    assert peer.placement.link_survey.holds == frozenset()
    late = offered()
    late.wait(CONFIG.reservation + 0.1)
    assert [each.operator for each in late.noted(ReservationExpired)] == ["o0", "o1"]
    assert late.books == FREE
    assert late.placement.link_survey.holds == frozenset()
    whole = offered()
    whole.receive("v", PlacementWithdrawn("r", 5, ""))
    assert whole.placement.link_survey.holds == frozenset()


def test_what_is_offered_to_one_is_not_offered_to_another() -> None:
    """The links to x and y carry two streams each; the first offer holds those of its backups, on one of them."""
    peer = offered(bandwidth={"x": 2 * STREAM, "y": 2 * STREAM})
    other = msgspec.structs.replace(request(3), task=task().replace(b"\xa1r", b"\xa1q", 1))
    peer.receive("a", other)
    peer.surveyed()
    assert [(each.takes, each.groups) for _, each in peer.sent(PlacementReply)] == [(2, 1)]
    third = msgspec.structs.replace(request(4), task=task().replace(b"\xa1r", b"\xa1p", 1))
    peer.receive("a", third)
    peer.surveyed()
    assert peer.replies() == [("a", 4, "bandwidth to backups: 0 of 1 peers can be given 1600 bytes/s")]


def test_a_component_of_several_inputs_is_asked_for_with_all_of_them() -> None:
    peer = PlacementPeer()
    plan = diamond("a")
    peer.receive("a", PlacementRequest(1, task(plan=plan), "u", Roles({"source": "a", "a": "x", "b": "x", "c": "x"})))
    assert [each.reason for each in peer.noted(MessageRefused)] == [
        "graph: expected the primaries of all operators upstream"
    ]
