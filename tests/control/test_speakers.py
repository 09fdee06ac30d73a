"""A peer may only speak for itself: what a lying peer says of others is refused by name, and has no effect."""

from __future__ import annotations

import pytest

from synergy_nb.algorithms.composition.messages import UNIT, Dropped, Returned
from synergy_nb.assembly._speakers import SPEAKERS, Speakers
from synergy_nb.control.graph import Hop, Producer
from synergy_nb.control.peer import Message
from synergy_nb.control.roles import Roles
from synergy_nb.events import MessageRefused, SkippedLines
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import (
    Begin,
    Confirm,
    Confirmed,
    CopiesLag,
    End,
    Entrust,
    Entrusted,
    Feedback,
    Follow,
    Graph,
    GraphAsked,
    GraphChanged,
    GrowthAsked,
    GrowthChanged,
    Lost,
    MeasuredApplication,
    ProducersMoved,
    ReadersQuestion,
    Rebuild,
    Refused,
    Share,
    SinksReported,
    SkippedReported,
    TakeOver,
    TookOver,
)
from synergy_nb.plan import source
from tests.lifecycle.leading_peer import lead
from tests.one_peer import OnePeer

PLAN = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out")
PEERS = {"s": "a", "f": "m", "out": "d"}
GRAPH = Graph("r", 1, "o", PLAN.to_bytes(), Roles(PEERS), successor="d")
LIAR = "liar"


def member(graph: Graph = GRAPH) -> OnePeer:
    """A peer that executes a component of an application that runs."""
    one = OnePeer("m")
    one.receive("d", Confirm(graph, "f", "out"))
    one.receive("o", Begin("r", 1), Feedback((MeasuredApplication("r", 1, 0.1),)))
    assert one.synergy.session.members["r"].running
    return one


def refused(one: OnePeer) -> list[tuple[str, str]]:
    return [(each.subject, each.message) for each in one.noted(MessageRefused)]


def test_each_message_names_who_may_send_it() -> None:
    one = OnePeer("m")
    assert SPEAKERS.keys() == {kind.__name__ for kind in one.synergy.peer.message_types}
    assert all(each.who and (not each.check or callable(getattr(Speakers, each.check))) for each in SPEAKERS.values())


def forged(**changed: object) -> Graph:
    """A graph that the liar has made of the present one."""
    taken = {"s": "a", "f": LIAR, "out": "d"}
    fields = {"attempt": 1, "origin": "o", "epoch": 9, **changed}
    return Graph("r", plan=PLAN.to_bytes(), roles=Roles(taken), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("origin", ["o", LIAR])
@pytest.mark.parametrize("attempt", [1, 10**9])
def test_nobody_changes_ends_or_replaces_an_application_that_another_leads(origin: str, attempt: int) -> None:
    one = member()
    graph = forged(origin=origin, attempt=attempt)
    follower = Graph("r", attempt, origin, PLAN.to_bytes(), Roles(PEERS).with_follower("f", LIAR), epoch=9)
    lies: list[Message] = [
        End("r", attempt, "a lie", "stopped"),
        End("r", attempt, "a lie"),
        Share(graph),
        TakeOver(graph, "f"),
        Rebuild(graph, "f"),
        Follow(follower, "f"),
        Entrust(graph, Entrusted(PLAN.to_bytes(), "composed", spread=False, submitted=0.0, placement=0)),
        ReadersQuestion("r", attempt, "f", 1),
        Begin("r", attempt),
    ]
    if origin == LIAR:
        lies += [GraphChanged(graph), Confirm(graph, "f", "out")]
    before = one.synergy.session.members["r"].graph
    for lie in lies:
        one.receive(LIAR, lie)
        assert refused(one) == [(LIAR, type(lie).__name__)]
    assert one.synergy.session.members["r"].graph == before == GRAPH
    assert ("r", "f") in one.synergy.session.components
    assert not one.synergy.session.succession.entrusted


def test_a_graph_that_others_tell_is_a_reason_to_ask() -> None:
    one = member()
    one.receive(LIAR, GraphChanged(forged()))
    assert one.synergy.session.members["r"].graph == GRAPH
    assert one.sent(GraphAsked) == [("o", GraphAsked("r", 1))]
    follower = GRAPH.changed(Roles(PEERS).with_follower("f", "n"))
    moved = follower.changed(follower.roles.replaced({"f": "n"}, {}))
    one.receive("n", GraphChanged(moved))
    assert one.synergy.session.members["r"].graph == GRAPH, "nobody has begun that move"
    one.receive("o", GraphChanged(follower))
    one.receive("n", GraphChanged(moved.changed(moved.roles)))
    assert one.synergy.session.members["r"].graph == follower, "it is another graph than that of the move"
    one.receive("n", GraphChanged(moved))
    assert ("r", "f") not in one.synergy.session.components, "it has moved"


def test_a_running_application_has_no_later_attempt_that_a_peer_of_it_invents() -> None:
    one = member()
    one.receive("d", Confirm(forged(attempt=2, epoch=0), "f", "out"))
    assert refused(one) == [("d", "Confirm")]
    assert one.synergy.session.members["r"].graph == GRAPH


def test_the_word_of_a_stranger_before_an_application_comes_keeps_it_from_no_peer() -> None:
    one = OnePeer("m")
    one.receive(LIAR, End("r", 10**9, "a lie"))
    one.receive("d", Confirm(GRAPH, "f", "out"))
    assert "r" in one.synergy.session.members
    other = OnePeer("m")
    other.receive("o", End("r", 1, "it has failed"))
    other.receive("d", Confirm(GRAPH, "f", "out"))
    assert "r" not in other.synergy.session.members, "its origin has ended this attempt before"


def test_who_succeeds_is_believed_and_where_all_leaders_are_dead_a_peer_of_the_application() -> None:
    one = member()
    one.receive("d", GraphChanged(GRAPH.led_by("d").changed(GRAPH.roles)))
    assert one.synergy.session.members["r"].leader == "d"
    one.receive("o", End("r", 1, "", "stopped"))
    assert refused(one) == [], "it has led it, and may not know better"
    assert "r" in one.synergy.session.members
    one.receive("a", End("r", 1, "a lie"))
    assert refused(one) == [("a", "End")]
    one.call(one.synergy.membership.start)
    one.call(one.synergy.pastry.join, None)
    one.call(one.synergy.membership.watch, "o")  # which this peer watched as long as it led
    for leader in "do":
        one.call(one.synergy.membership.suspect, leader)
    one.wait(20.0)  # they are silent, but their processes may live
    assert one.synergy.membership.is_dead("d")
    one.receive(LIAR, Begin("r", 1))
    assert refused(one) == [(LIAR, "Begin")]
    one.receive("a", Begin("r", 1))
    assert refused(one) == []


# -- what is said to who leads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "lie"),
    [
        (LIAR, Refused("r", 1, "f", "a lie")),
        (LIAR, Confirmed("r", 1, "s")),
        ("d", Confirmed("r", 1, "s")),
        (LIAR, GrowthAsked("r", 1, 1.0)),
        (LIAR, GrowthChanged("r", 1, 1.0)),
        (LIAR, SinksReported("r", 1, 9.0, ended=True)),
        ("a", SinksReported("r", 1, 9.0, ended=True)),
        (LIAR, SkippedReported("r", 1, "s", SkippedLines("rows.csv", 1, "a lie"))),
        ("d", CopiesLag("r", 1, "f", 10**9, {"b": "a lie"})),
        (LIAR, CopiesLag("r", 1, "f", 10**9, {"b": "a lie"})),
        (LIAR, TookOver("r", 0, "f", "a lie")),
        ("d", TookOver("r", 0, "f", "a lie")),
    ],
)  # fmt: skip
def test_who_leads_hears_of_each_part_from_whom_has_it(sender: str, lie: Message) -> None:
    one = OnePeer("o")
    request = lead(one, PLAN, PEERS)
    before = request.state, dict(request.delays), request.graph
    one.receive(sender, lie)
    assert refused(one) == [(sender, type(lie).__name__)]
    assert (request.state, dict(request.delays), request.graph) == before


def test_no_member_ends_an_application_by_saying_that_another_has() -> None:
    one = OnePeer("o")
    request = lead(one, PLAN, PEERS)
    one.receive("a", Lost("r", 1, "a lie", ended=True))
    assert request.state is State.RUNNING
    assert one.sent(GraphAsked) == [("d", GraphAsked("r", 1))]


def test_only_who_leads_an_owner_says_where_its_streams_are() -> None:
    made = (Producer("q", "f", "c", 0, "p", (), "w"),)
    graph = Graph("r", 1, "o", PLAN.to_bytes(), Roles(PEERS), {"f": made})
    one = OnePeer("o")
    request = lead(one, PLAN, PEERS)
    request.change(graph)
    moved = ProducersMoved("r", 1, "q", 9, (Producer("q", "f", LIAR, 1, LIAR),), ended=False)
    one.receive(LIAR, moved)
    assert refused(one) == [(LIAR, "ProducersMoved")]
    assert request.graph == graph


# -- composition -------------------------------------------------------------------------------------------------------


def test_a_path_ends_at_who_returns_it_and_only_who_drops_a_probe_says_so() -> None:
    one = OnePeer("o")
    hop = Hop("f", "b", 1.0, 1e6, 0.0, 0.0)
    one.receive(LIAR, Returned("r", 1, (hop,), UNIT), Returned("r", 1, (), UNIT))
    one.receive(LIAR, Dropped("r", 1, "f", "b", "bandwidth", 1.0, 0.0, (), UNIT))
    one.receive(LIAR, Dropped("r", 1, "f", "b", "acknowledgement", 1.0, 0.0, ("a",), UNIT))
    assert refused(one) == [(LIAR, "Returned")] * 2 + [(LIAR, "Dropped")] * 2
    one.receive("b", Returned("r", 1, (hop,), UNIT))
    one.receive("a", Dropped("r", 1, "f", "b", "acknowledgement", 1.0, 0.0, ("a",), UNIT))
    assert refused(one) == []
