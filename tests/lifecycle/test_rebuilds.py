"""A rebuild step by step, at its origin and at the new peer: each answer late, twice, of another graph, or never."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from synergy_nb.control.driver_messages import CopyReady, InputsReported
from synergy_nb.control.graph import Report
from synergy_nb.control.peer import DRIVER
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.hosting.input_reports import InputReport, StreamsMeasured
from synergy_nb.events import BackupRestored, RebuildGivenUp, ReplicaRebuilt
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import (
    Begin,
    Confirm,
    CopiesLag,
    End,
    Graph,
    GraphChanged,
    Lost,
    ReadersComplete,
    ReadersQuestion,
    Rebuild,
    Rebuilt,
)
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL, SENDS, SessionConfig
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import source
from synergy_nb.plan.derived.active_replicas import replicated
from tests.lifecycle.leading_peer import lead
from tests.one_peer import OnePeer

CONFIG = SessionConfig()
F, G = "f", "f~1"
PLAN = replicated(
    source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out", availability="active 2"), 2
)
BACKED = source("packets", rate=10, id="s").filter("bytes > 1", id="f").sink("out", id="out", availability="degree 2")


class Origin:
    """Peer o, which leads the application r: s at a, replicas of f at b (which has died) and c, its sink at d."""

    def __init__(self, *, backups: bool = False) -> None:
        self.one = OnePeer("o", replication=ReplicationConfig(rebuild=False))
        self.plan = BACKED if backups else PLAN
        peers = {"s": "a", F: "c", "out": "d"} if backups else {"s": "a", F: "b", G: "c", "out": "d"}
        self.request = lead(self.one, self.plan, peers)
        self.rebuilds = self.one.synergy.session.rebuilds
        if not backups:
            self.one.loses("b")
        self.outcome: list[str] = []
        self.read()

    def read(self) -> None:
        """Forget what has been sent so far."""
        self.one.wait(2 * SENDS * RESEND_INTERVAL)
        for kind in (GraphChanged, Rebuild, ReadersQuestion):
            self.one.sent(kind)
        self.one.told(Report)

    @property
    def graph(self) -> Graph:
        found = self.one.synergy.session.graph("r")
        assert found is not None
        return found

    def state(self) -> State:
        return self.request.state

    def begin(self, replica: str = F, at: str = "t", of: str = G) -> Graph:
        """Begin a rebuild; gives the graph that its new peer gets."""
        self.one.call(self.rebuilds.rebuild, "r", replica, of, at, self.outcome.append)
        ((to, message),) = self.one.sent(Rebuild)
        assert (to, message.operator) == (at, replica)
        return message.graph

    def answer(self, graph: Graph, *, ready: bool = False, refusal: str = "", by: str = "t", replica: str = F) -> None:
        self.one.receive(by, Rebuilt("r", graph.attempt, graph.epoch, replica, ready, refusal))

    def published(self) -> dict[str, Graph]:
        return {to: message.graph for to, message in self.one.sent(GraphChanged)}

    def executing(self) -> Graph:
        """A rebuild whose replica executes; gives the graph in which it does."""
        graph = self.begin()
        self.answer(graph)
        self.answer(graph, ready=True)
        found = self.graph
        assert found.roles.peers[F] == "t"
        self.read()
        return found


def test_the_new_peer_is_asked_until_it_agrees_then_all_hear_then_it_executes_then_its_copy_goes() -> None:
    at = Origin()
    before = at.graph
    graph = at.begin()
    assert graph == before.changed(before.roles.rebuilding(F, G, "t"))
    assert at.state() is State.REBUILDING
    at.one.wait(1.5 * RESEND_INTERVAL)
    assert at.one.sent(Rebuild) == [("t", Rebuild(graph, F))]
    at.answer(graph)
    assert at.published() == dict.fromkeys(("a", "c", "d", "t"), graph)
    at.answer(graph)
    assert at.published() == {}, "it has been published"
    at.answer(graph, ready=True)
    executed = at.graph
    assert executed.roles == graph.roles.with_rebuilt(PLAN, F)
    assert at.published() == dict.fromkeys(("a", "c", "d", "t"), executed)
    assert at.one.sent(Rebuild) == [("t", Rebuild(executed, F))]
    assert [each.roles.peers[F] for each in at.one.told(Report)] == ["t"]
    assert (at.outcome, at.state()) == ([], State.REBUILDING)
    at.answer(graph, ready=True)
    assert at.published() == {"t": executed}, "an answer to the graph before: it may not know the present one"
    at.answer(executed)
    assert at.graph is executed
    at.answer(executed, ready=True)
    assert at.graph.roles == executed.roles.released(F)
    assert set(at.published()) == {"a", "c", "d", "t"}
    assert at.state() is State.RUNNING
    assert at.outcome == []
    at.one.wait(0.0)
    assert at.outcome == [""]
    at.one.wait(CONFIG.moving + 1.0)
    assert at.one.sent(Rebuild) == []
    assert at.one.noted(RebuildGivenUp) == []


def test_it_counts_as_rebuilt_once_every_reader_has_what_it_needs_of_it() -> None:
    at = Origin()
    began = at.one.now
    executed = at.executing()
    assert not at.rebuilds.settled("r")
    assert at.rebuilds.streams.incomplete("r") == {F}
    at.answer(executed, ready=True)
    at.one.wait(RESEND_INTERVAL)
    epoch = executed.roles.rebuilt[F]
    assert set(at.one.sent(ReadersQuestion)) == {("d", ReadersQuestion("r", 1, F, epoch))}
    for application, attempt, rebuilt in (("r", 1, epoch - 1), ("r", 2, epoch), ("x", 1, epoch)):
        at.one.receive("d", ReadersComplete(application, attempt, F, rebuilt))
    at.one.receive("c", ReadersComplete("r", 1, F, epoch))
    at.one.wait(RESEND_INTERVAL)
    assert at.one.sent(ReadersQuestion) == [("d", ReadersQuestion("r", 1, F, epoch))]
    assert at.one.noted(ReplicaRebuilt) == []
    at.one.receive("d", ReadersComplete("r", 1, F, epoch), ReadersComplete("r", 1, F, epoch))
    at.one.wait(RESEND_INTERVAL)
    (noted,) = at.one.noted(ReplicaRebuilt)
    assert (noted.operator, noted.source, noted.at, noted.left, noted.peers[F]) == (F, G, "t", 2, "t")
    assert noted.seconds == pytest.approx(noted.time - began)
    assert at.rebuilds.settled("r")
    at.one.wait(5 * RESEND_INTERVAL)
    assert at.one.sent(ReadersQuestion) == []
    assert at.one.noted(ReplicaRebuilt) == []


def test_a_reader_that_is_complete_does_not_end_a_rebuild_whose_copy_is_still_needed() -> None:
    at = Origin()
    executed = at.executing()
    at.one.receive("d", ReadersComplete("r", 1, F, executed.roles.rebuilt[F]))
    at.one.wait(3 * RESEND_INTERVAL)
    assert at.one.noted(ReplicaRebuilt) == []
    assert at.one.sent(ReadersQuestion) == []
    at.answer(executed, ready=True)
    at.one.wait(RESEND_INTERVAL)
    assert len(at.one.noted(ReplicaRebuilt)) == 1


def test_a_refusal_gives_it_up_and_the_new_peer_hears_that_it_has_no_part() -> None:
    at = Origin()
    before = at.graph
    graph = at.begin()
    at.answer(graph, refusal="it is full")
    assert at.graph == msgspec.structs.replace(before, epoch=graph.epoch + 1)
    assert set(at.published()) == {"a", "c", "d", "t"}
    (noted,) = at.one.noted(RebuildGivenUp)
    assert (noted.operator, noted.at, noted.reason) == (F, "t", "f at t: it is full")
    at.one.wait(0.0)
    assert (at.outcome, at.state()) == (["f at t: it is full"], State.RUNNING)
    assert at.rebuilds.settled("r")
    at.read()
    at.answer(graph)
    assert at.published() == {"t": at.graph}, "what it says later shows that it has not heard"


def test_who_does_not_answer_is_given_up_after_the_time_of_a_set_up() -> None:
    at = Origin()
    at.begin()
    at.one.wait(CONFIG.setup - 0.01)
    assert (at.outcome, len(at.one.sent(Rebuild))) == ([], 2)
    at.one.wait(0.02)
    assert at.outcome == ["t did not answer in time"]


def test_a_copy_that_is_not_ready_is_given_up_after_the_time_of_a_move() -> None:
    at = Origin()
    graph = at.begin()
    at.one.wait(CONFIG.setup - 0.1)
    at.answer(graph)
    at.one.wait(CONFIG.moving - 0.01)
    assert at.outcome == []
    at.one.wait(0.02)
    assert at.outcome == ["f at t was not ready in time"]


def test_a_replica_that_executes_loses_only_its_copy_where_it_does_not_say_that_it_is_ready() -> None:
    at = Origin()
    graph = at.begin()
    at.answer(graph, ready=True)
    executed = at.graph
    at.one.wait(CONFIG.moving - 0.01)
    assert at.graph is executed
    at.one.wait(0.02)
    assert at.graph.roles == executed.roles.released(F)
    assert at.outcome == [""]
    assert at.one.noted(RebuildGivenUp) == []


def test_answers_of_others_and_of_other_graphs_are_told_the_present_one_and_do_no_more() -> None:
    at = Origin()
    graph = at.begin()
    at.answer(graph, ready=True, by="c")
    at.answer(msgspec.structs.replace(graph, epoch=graph.epoch - 1), ready=True)
    at.answer(msgspec.structs.replace(graph, attempt=2), refusal="late")
    assert [(to, message.graph.epoch) for to, message in at.one.sent(GraphChanged)] == [
        ("c", graph.epoch - 1), ("t", graph.epoch - 1), ("t", graph.epoch - 1),
    ]  # fmt: skip
    assert at.state() is State.REBUILDING
    assert at.outcome == []


def test_an_answer_about_an_application_that_has_ended_is_answered_with_its_end() -> None:
    at = Origin()
    graph = at.begin()
    at.one.call(at.one.synergy.session.stop, "r")
    ends = at.one.sent(End)
    assert {to for to, _ in ends} == {"a", "c", "d", "t"}
    at.one.wait(0.0)
    assert at.outcome == ["the application has ended"]
    at.answer(graph)
    assert at.one.sent(End) == [("t", End("r", 1, "it has ended"))]
    at.one.wait(3.0)
    assert at.one.sent(Rebuild) == []


def test_a_copy_that_lags_is_no_replica_yet() -> None:
    at = Origin()
    graph = at.begin()
    at.answer(graph)
    at.one.receive("c", lagging(1, {"t": "it is behind"}))
    at.answer(graph, ready=True)
    assert at.graph is not None
    assert at.graph.roles.peers[F] == ""
    at.one.receive("c", lagging(2, {}))
    at.answer(graph, ready=True)
    assert at.graph.roles.peers[F] == "t"


def lagging(number: int, peers: dict[str, str]) -> CopiesLag:
    return CopiesLag("r", 1, G, number, peers)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((F, F, "t"), "source: 'f'; expected another replica of f that executes"),
        ((F, "x", "t"), "source: 'x'; expected another replica"),
        ((G, F, "t"), "replica: 'f~1'; expected a replica that was lost"),
        (("s", G, "t"), "replica: 's'; expected a replica that was lost"),
        ((F, G, "c"), "to: 'c'; expected a peer that lives and has no replica of f"),
        ((F, G, "b"), "to: 'b'; expected a peer that lives"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused_by_name(given: tuple[str, str, str], said: str) -> None:
    at = Origin()
    with pytest.raises(ValueError, match=said):
        at.rebuilds.rebuild("r", *given, at.outcome.append)
    assert at.state() is State.RUNNING


def test_one_at_a_time_and_only_of_what_runs_here() -> None:
    at = Origin()
    with pytest.raises(ValueError, match="application: 'x'; expected one of this peer that runs"):
        at.rebuilds.rebuild("x", F, G, "t", at.outcome.append)
    at.begin()
    with pytest.raises(ValueError, match="application: 'r'; expected one of this peer that runs and does not change"):
        at.rebuilds.rebuild("r", F, G, "u", at.outcome.append)


@pytest.mark.parametrize("dies", ["t", "a", "c"])
def test_a_death_before_the_replica_executes_gives_the_rebuild_up(dies: str) -> None:
    at = Origin()
    at.answer(at.begin())
    at.one.loses(dies)
    assert [each.reason for each in at.one.noted(RebuildGivenUp)] == [f"peer {dies} died"]
    at.one.wait(0.0)
    assert at.outcome == [f"peer {dies} died"]


def test_a_death_elsewhere_is_no_matter() -> None:
    at = Origin()
    at.begin()
    at.one.loses("z")
    assert at.state() is State.REBUILDING
    assert at.one.noted(RebuildGivenUp) == []


def test_the_death_of_a_replica_that_executes_ends_its_rebuild_and_nothing_is_given_up() -> None:
    at = Origin()
    at.executing()
    at.one.loses("t")
    at.one.wait(0.0)
    assert at.outcome == ["peer t died"]
    assert at.graph.roles.peers[F] == ""
    assert at.one.noted(RebuildGivenUp) == []
    at.one.wait(2 * RESEND_INTERVAL)
    assert at.rebuilds.settled("r")
    assert at.one.noted(ReplicaRebuilt) == []


def test_a_replica_that_fails_where_it_was_rebuilt_was_lost_again() -> None:
    at = Origin()
    graph = at.executing()
    at.one.receive("t", Lost("r", 1, "no session at t", graph.epoch))
    at.one.wait(2 * RESEND_INTERVAL)
    assert at.outcome == ["it was lost again"]
    at.read()
    assert at.begin(at="u").roles.rebuilds == {F: (G, "u")}


def test_the_new_peer_is_watched_as_long_as_its_rebuild_goes_on() -> None:
    at = Origin()
    watched = at.one.synergy.membership.watched
    before = dict(watched)
    graph = at.begin()
    assert watched == {**before, "t": 1}
    at.answer(graph)
    at.answer(graph, refusal="it is full")
    assert watched == before
    ended: list[str] = []
    at.one.synergy.session.changes.on_change_ended.append(ended.append)
    at.answer(at.begin(), refusal="it is full")
    assert (watched, ended) == (before, ["r"])
    at.read()
    executed = at.executing()
    assert ended == ["r"]
    at.answer(executed, ready=True)
    assert (watched, ended) == ({**before, "t": 1}, ["r", "r"])


def test_another_change_interrupts_what_does_not_execute_yet_and_lets_the_rest_go_on() -> None:
    at = Origin()
    at.one.call(at.rebuilds.interrupt, "r", "another change")
    graph = at.begin()
    at.one.call(at.rebuilds.interrupt, "r", "another change")
    at.one.wait(0.0)
    assert (at.outcome, at.state()) == (["another change"], State.RUNNING)
    at.read()
    executed = at.executing()
    assert executed.epoch > graph.epoch
    at.one.call(at.rebuilds.interrupt, "r", "another change")
    assert at.state() is State.RUNNING
    at.one.call(at.rebuilds.interrupt, "r", "another change")
    assert at.graph is executed
    at.answer(executed, ready=True)
    at.one.wait(0.0)
    assert at.outcome == ["another change", ""]


def test_the_copy_of_a_replica_stays_while_the_graph_changes_otherwise() -> None:
    at = Origin()
    executed = at.executing()
    at.one.call(at.rebuilds.interrupt, "r", "a move begins")
    at.request.enter(State.MOVING)
    at.answer(executed, ready=True)
    assert at.graph is executed
    at.one.wait(CONFIG.moving + 0.1)
    assert at.graph is executed
    at.request.enter(State.RUNNING)
    at.one.wait(CONFIG.setup + 0.1)
    assert at.graph.roles.rebuilds == {}, "it is tried again in time"


# -- backups -----------------------------------------------------------------------------------------------------------


def test_a_backup_is_named_once_its_copy_could_take_over() -> None:
    at = Origin(backups=True)
    ended: list[str] = []
    at.one.synergy.session.changes.on_change_ended.append(ended.append)
    graph = at.begin(F, "t", F)
    assert graph.roles.rebuilds == {F: (F, "t")}
    at.answer(graph)
    assert set(at.published()) == {"a", "c", "d", "t"}
    began = at.one.now
    at.read()
    at.answer(graph, ready=True)
    assert (at.graph.roles.backups, at.graph.roles.rebuilds) == ({F: ("t",)}, {})
    assert set(at.published()) == {"a", "c", "d", "t"}
    (noted,) = at.one.noted(BackupRestored)
    assert (noted.operator, noted.at, noted.backups) == (F, "t", {F: ("t",)})
    assert noted.seconds == pytest.approx(at.one.now - began)
    assert ended == ["r"]
    assert at.one.told(Report)[-1].backups == {F: ("t",)}
    at.one.wait(0.0)
    assert (at.outcome, at.state()) == ([""], State.RUNNING)
    with pytest.raises(ValueError, match="to: 't'; expected a peer that lives and has no replica of f"):
        at.rebuilds.rebuild("r", F, F, "t", at.outcome.append)
    with pytest.raises(ValueError, match="to: 'c'; expected a peer that lives and has no replica of f"):
        at.rebuilds.rebuild("r", F, F, "c", at.outcome.append)


# -- after another origin ----------------------------------------------------------------------------------------------


def test_who_leads_on_goes_on_with_what_executes_and_records_no_rebuild_of_another() -> None:
    at = Origin()
    executed = at.executing()
    at.one.call(at.rebuilds.end, "r", "another leads")
    at.one.wait(0.0)
    assert at.outcome == ["another leads"]
    assert at.one.sent(End) == []
    at.read()
    at.one.call(at.rebuilds.resume, "r")
    assert at.one.sent(Rebuild) == [("t", Rebuild(executed, F))]
    assert at.one.sent(ReadersQuestion) == [("d", ReadersQuestion("r", 1, F, executed.roles.rebuilt[F]))]
    at.answer(executed, ready=True)
    assert at.graph.roles.rebuilds == {}
    at.one.receive("d", ReadersComplete("r", 1, F, executed.roles.rebuilt[F]))
    at.one.wait(RESEND_INTERVAL)
    assert at.rebuilds.settled("r")
    at.one.call(at.rebuilds.end, "r", "another leads")
    at.one.call(at.rebuilds.resume, "r")
    assert at.one.sent(Rebuild) == [], "its copy is not needed any more"
    assert len(at.one.sent(ReadersQuestion)) == 1


@pytest.mark.parametrize("published", [False, True])
def test_a_copy_that_all_know_is_not_ended_by_an_origin_that_leads_no_more(published: bool) -> None:
    at = Origin()
    graph = at.begin()
    if published:
        at.answer(graph)
    at.one.call(at.rebuilds.end, "r", "another leads")
    assert at.one.sent(End) == ([] if published else [("t", End("r", 1, "another leads"))])


def test_who_leads_on_removes_a_copy_in_time_too() -> None:
    at = Origin()
    at.executing()
    at.one.call(at.rebuilds.end, "r", "another leads")
    at.one.call(at.rebuilds.resume, "r")
    at.one.wait(CONFIG.moving - 0.1)
    assert at.graph.roles.rebuilds == {F: (G, "t")}
    at.one.wait(0.2)
    assert at.graph.roles.rebuilds == {}


# -- at the new peer ---------------------------------------------------------------------------------------------------

ROLES = Roles({"s": "a", F: "", G: "c", "out": "d"})
GRAPH = Graph("r", 1, "o", PLAN.to_bytes(), ROLES, epoch=1)
ASKED = GRAPH.changed(ROLES.rebuilding(F, G, "t"))


def answers(one: OnePeer) -> list[tuple[str, int, bool, str]]:
    return [(to, each.epoch, each.ready, each.refusal) for to, each in one.sent(Rebuilt)]


def asked(graph: Graph = ASKED, **config: Any) -> OnePeer:
    one = OnePeer("t", **config)
    one.receive("o", Rebuild(graph, F))
    return one


def test_the_new_peer_commits_the_replica_has_a_copy_and_says_so_as_often_as_it_is_asked() -> None:
    one = asked()
    assert answers(one) == [("o", 2, False, "")]
    load = one.synergy.ledger.load
    assert load > 0.0
    (told,) = one.told(Deployment)
    assert told.running, "the application runs"
    assert ("r", F) in one.synergy.session.components
    assert told.assignments[G].backups == ("t",)
    one.receive("o", Rebuild(ASKED, F), GraphChanged(ASKED), Rebuild(ASKED, F))
    assert answers(one) == [("o", 2, False, "")] * 2
    assert one.synergy.ledger.load == load
    assert one.told(Deployment) == []


def test_a_peer_without_room_refuses_and_keeps_nothing() -> None:
    one = asked(cores=1e-6)
    ((to, epoch, ready, refusal),) = answers(one)
    assert (to, epoch, ready) == ("o", 2, False)
    assert refusal.startswith("processing capacity")
    assert not one.synergy.ledger.requests


def test_a_peer_without_a_part_in_the_graph_says_so() -> None:
    one = OnePeer("t")
    one.receive("o", End("r", 1, "stopped", "stopped"), Rebuild(ASKED, F))
    assert answers(one) == [("o", 2, False, "it has no part in the application")]


def test_the_new_peer_says_when_its_copy_and_then_its_replica_is_ready() -> None:
    one = asked()
    answers(one)
    one.receive(DRIVER, CopyReady("r", "out"), CopyReady("r", G))
    assert answers(one) == [("o", 2, True, "")]
    executed = ASKED.changed(ASKED.roles.with_rebuilt(PLAN, F))
    one.receive("o", Rebuild(executed, F))
    assert answers(one) == [("o", 3, False, "")]
    assert one.told(Deployment)[-1].assignments[F].state_from == G
    one.receive(DRIVER, CopyReady("r", F))
    assert answers(one) == [("o", 3, True, "")]
    released = executed.changed(executed.roles.released(F))
    one.receive("o", GraphChanged(released), Rebuild(released, F))
    assert answers(one) == [("o", 4, False, "")], "of the copy, that nobody needs, it says nothing"


def test_a_peer_that_executed_it_and_does_not_know_that_it_was_taken_for_dead_begins_anew() -> None:
    one = OnePeer("t")
    before = msgspec.structs.replace(GRAPH, roles=Roles({**ROLES.peers, F: "t"}), epoch=0)
    one.receive("d", Confirm(before, F, "out"))
    one.receive("o", Begin("r", 1))
    load = one.synergy.ledger.load
    one.told(Deployment)
    one.receive("o", Rebuild(ASKED, F))
    assert answers(one) == [("o", 2, False, "")]
    assert one.synergy.ledger.load == load
    told = one.told(Deployment)[-1]
    assert F not in told.assignments
    assert told.assignments[G].backups == ("t",)


def test_an_old_copy_is_dropped_before_a_new_one_begins() -> None:
    """Nothing has been retained for it since: first there is a graph without it."""
    one = asked()
    one.told(Deployment)
    again = ASKED.changed(ASKED.roles).changed(ASKED.roles)
    one.receive("o", Rebuild(again, F))
    without, left, anew = one.told(Deployment)
    assert (without.assignments[G].backups, left.assignments) == ((), {})
    told = [anew.assignments[G].backups]
    assert told == [("t",)]
    assert [each[1] for each in answers(one)] == [2, 4]


def test_a_backup_here_needs_its_link_alone_and_is_made_anew_for_a_later_graph() -> None:
    roles = Roles({"s": "a", F: "c", "out": "d"})
    graph = Graph("r", 1, "o", BACKED.to_bytes(), roles.rebuilding(F, F, "t"), epoch=2)
    one = asked(graph)
    assert answers(one) == [("o", 2, False, "")]
    ledger = one.synergy.ledger
    assert (ledger.load, ledger.requests) == (0.0, frozenset({"r"}))
    assert ledger.residual_bandwidth("other", "c") == pytest.approx(125e6 - BACKED.bandwidth(F))
    assert one.told(Deployment)[-1].assignments[F].backups == ("t",)
    later = graph.changed(graph.roles).changed(graph.roles)
    one.receive("o", Rebuild(later, F))
    without, left, anew = one.told(Deployment)
    assert (without.assignments[F].backups, left.assignments, anew.assignments[F].backups) == ((), {}, ("t",))
    narrow = asked(graph, bandwidth=1.0)
    assert answers(narrow)[0][3].startswith("bandwidth from c")


def test_an_outdated_graph_is_not_answered() -> None:
    one = asked(ASKED.changed(ASKED.roles))
    answers(one)
    one.receive("o", Rebuild(ASKED, F))
    assert answers(one) == []


# -- at the readers ----------------------------------------------------------------------------------------------------


def test_a_reader_answers_once_it_has_all_of_the_rebuilt_stream_and_only_about_this_rebuild() -> None:
    executed = ASKED.changed(ASKED.roles.with_rebuilt(PLAN, F))
    (number,) = (number for number, up in executed.roles.reads(PLAN, "out").items() if up == F)
    one = OnePeer("d")
    one.receive("o", Confirm(executed, "out", ""))
    question = ReadersQuestion("r", 1, F, 1)

    def asked(*questions: ReadersQuestion) -> list[tuple[str, ReadersComplete]]:
        one.receive("o", *questions)
        return one.sent(ReadersComplete)

    def reports(complete: bool) -> None:
        report = InputReport("c", 0, 0.0, 1, 1, complete=complete)
        one.receive(DRIVER, InputsReported((StreamsMeasured("r", "out", {number: report}),)))

    assert asked(question) == []
    reports(complete=False)
    assert asked(question) == []
    reports(complete=True)
    others = [ReadersQuestion("r", 2, F, 1), ReadersQuestion("r", 1, F, 2), ReadersQuestion("x", 1, F, 1)]
    assert asked(*others) == []
    assert asked(question) == [("o", ReadersComplete("r", 1, F, 1))]
    reports(complete=False)
    assert asked(question) == [], "it is asked for what is known now"
