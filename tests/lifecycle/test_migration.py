"""Components that move while their application runs: the protocol, in virtual time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.peer import Message
from synergy_nb.dataflow.deployments import Deployment, Role
from synergy_nb.events import ComponentMoved, MoveBegun, MoveGivenUp
from synergy_nb.lifecycle.records.messages import Feedback, Follow, Followed, GraphChanged, MeasuredApplication
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.reporting.explanation import Explanation
from tests.moving import PEERS, Movers, lost, move, roles, running, stopped, where
from tests.quick_cases import quick_first


def test_a_moved_component_releases_the_resources_of_its_old_peer() -> None:
    ring = Movers(6, seed=1, codec=True)
    running(ring)
    before = ring.synergy["peer-2"].ledger.load
    assert before > 0.0
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.25)
    assert outcome == []
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE, "peer-4": Role.FOLLOWER}
    assert ring.synergy["peer-4"].ledger.load == pytest.approx(before)
    ring.run(2.0)
    assert outcome == [""]
    assert where(ring) == PEERS | {"o0": "peer-4"}
    assert ring.synergy["peer-2"].ledger.load == 0.0
    assert not ring.synergy["peer-2"].session.applications
    assert ("peer-2", "r") not in ring.deployments
    for known in ring.deployments.values():
        assert known.assignments["o0"].epoch == 1
        assert known.assignments["o0"].copies == ()
        assert known.version == (1 << 20) + 2
    assert ring.reports["r"][-1].peers == PEERS | {"o0": "peer-4"}
    (done,) = ring.events("r", ComponentMoved)
    assert (done.operator, done.at, done.to) == ("o0", "peer-2", "peer-4")
    assert 0.3 < done.seconds < 1.0
    ring.run(40.0)  # leases are kept
    assert ring.status("r") == "running"
    stopped(ring)


def test_a_move_is_explained_from_its_events() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    move(ring, "o0", "peer-4")
    ring.run(2.0)
    account = Explanation("r", ring.events("r"), {})
    assert account.peers["o0"] == "peer-4"
    assert any("o0 from peer-2 to peer-4 in " in told for told in account.moves)
    assert account.why("o0") == "it was moved there from peer-2"
    move(ring, "o0", "peer-2")
    ring.crash("peer-2")
    ring.run(8.0)
    account = Explanation("r", ring.events("r"), {})
    assert account.peers["o0"] == "peer-4"
    assert any("o0 did not move to peer-2" in told and "peer-2 died" in told for told in account.moves)


def test_a_source_moves_and_its_readers_pay_for_the_new_link() -> None:
    ring = Movers(6, seed=2)
    running(ring)
    outcome = move(ring, "source", "peer-5")
    ring.run(3.0)
    assert outcome == [""]
    assert where(ring) == PEERS | {"source": "peer-5"}
    assert ("peer-5", "r", "source") in ring.started
    ledger = ring.synergy["peer-2"].ledger
    assert ledger.residual_bandwidth("", "peer-1") == ledger.bandwidth_from("peer-1")
    assert ledger.residual_bandwidth("", "peer-5") < ledger.bandwidth_from("peer-5")
    stopped(ring)


def test_a_component_moves_there_and_back_again() -> None:
    ring = Movers(6, seed=3)
    running(ring)
    for number, to in enumerate(("peer-4", "peer-2", "peer-3", "peer-2", "peer-0"), 1):
        outcome = move(ring, "o0", to)
        ring.run(4.0)
        assert outcome == [""]
        assert where(ring) == PEERS | {"o0": to}
        assert ring.deployments["peer-0", "r"].assignments["o0"].epoch == number
    assert not ring.overbooked()
    stopped(ring)


def test_a_component_moves_to_the_peer_of_its_backup() -> None:
    ring = Movers(6, seed=4)
    running(ring, {"o0": ("peer-4", "peer-5"), "o1": ("peer-4",)})
    ring.run(1.0)
    outcome = move(ring, "o0", "peer-4")
    ring.run(3.0)
    assert outcome == [""], "its backup had been ready for long, which is said only once"
    graph = ring.synergy["peer-0"].session.graph("r")
    assert graph is not None
    assert graph.roles.backups == {"o0": ("peer-2", "peer-5"), "o1": ("peer-4",)}, "they change places"
    assert roles(ring, "o0") == {"peer-2": Role.BACKUP, "peer-4": Role.ACTIVE, "peer-5": Role.BACKUP}
    ledger = ring.synergy["peer-2"].ledger
    assert ledger.load == 0.0
    assert ledger.residual_bandwidth("", "peer-4") < ledger.bandwidth_from("peer-4")
    ring.crash("peer-4")
    ring.run(8.0)
    assert where(ring)["o0"] == "peer-2"
    assert ring.deployments["peer-0", "r"].assignments["o0"].epoch == 2
    stopped(ring)


def by(column: str) -> Plan:
    stream = source("packets", rate=100.0, seed=1, id="packets").filter("bytes > 100", cost="1 ms", id="large")
    return stream.aggregate(column, "1 s", n="count(*)", cost="1 ms", id="counts").sink("all")


def sharing() -> tuple[Movers, Mapping[str, str], Mapping[str, str]]:
    """A ring with two applications that share a stream, and the peers of each."""
    ring = Movers(8, seed=1)
    ring.submit("peer-3", "a", by("link"))
    first = ring.until_decided("a").peers
    ring.run(2.0)
    ring.submit("peer-5", "b", by("source"))
    return ring, first, ring.until_decided("b").peers


def test_producers_of_a_shared_stream_know_the_new_peer_of_a_moved_reader() -> None:
    ring, first, second = sharing()
    assert set(second) == {"large", "counts", "all"} or set(second) == {"large", "counts", "sink"}
    ring.run(2.0)
    to = next(peer for peer in sorted(ring.synergy) if peer not in {*first.values(), *second.values()})
    outcome = move(ring, "counts", to, "b", "peer-5")
    ring.run(3.0)
    assert outcome == [""]
    (reader,) = ring.deployments[first["large"], "a"].assignments["large"].shared_readers
    assert (reader.operator, reader.peer, reader.epoch) == ("counts", to, 1)
    (producer,) = ring.deployments[to, "b"].shared_producers
    assert (producer.application, producer.operator, producer.peer) == ("a", "large", first["large"])
    outcome = move(ring, "large", to, "a", "peer-3")
    ring.run(3.0)
    assert outcome == [""]
    (reader,) = ring.deployments[to, "a"].assignments["large"].shared_readers
    assert (reader.operator, reader.peer, reader.epoch) == ("counts", to, 1)
    assert [(each.peer, each.epoch) for each in ring.deployments[to, "b"].shared_producers] == [(to, 1)]
    assert {to, "peer-5"} <= set(ring.deployments[to, "a"].witnesses)
    assert ring.deployments[to, "a"].requires == {"b": ring.deployments[to, "b"].version}
    free = next(peer for peer in sorted(ring.synergy) if peer not in {*first.values(), *second.values(), to})
    outcome = move(ring, "counts", free, "a", "peer-3")
    ring.run(3.0)
    assert outcome == [""]
    ring.submit("peer-6", "c", by("link"))  # what has moved can be shared again, as it is now
    third = ring.until_decided("c").peers
    assert third["counts"] == free
    ring.run(2.0)
    assert [each.epoch for each in ring.deployments["peer-6", "c"].shared_producers] == [1]


@pytest.mark.parametrize("dead", [True, False])
def test_a_move_waits_for_the_origin_of_a_sharer_that_hangs(dead: bool) -> None:
    """Without it the readers of the sharer would not know where to read; both applications go on."""
    ring, first, second = sharing()
    ring.run(2.0)
    assert ring.synergy["peer-3"].session.sharers.sharers_of("a", "large") == ("b",)
    to = next(peer for peer in sorted(ring.synergy) if peer not in {*first.values(), *second.values()})
    ring.simulation.hang("peer-5", 20.0)
    if not dead:  # as far as the origin of the component knows
        ring.synergy["peer-3"].membership.is_dead = lambda address: False  # type: ignore[method-assign]
    outcome = move(ring, "large", to, "a", "peer-3")
    ring.run(SessionConfig().lease + 3.0)
    assert outcome == []
    ring.run(20.0)
    assert outcome == [""]
    assert (ring.status("a"), ring.status("b")) == ("running", "running")


@pytest.mark.parametrize(
    ("application", "operator", "to", "reason"),
    [
        ("q", "o0", "peer-4", "application: 'q'; expected one that runs"),
        ("r", "o9", "peer-4", "operator: 'o9'; expected one of source, o0, o1"),
        ("r", "sink", "peer-4", "operator: 'sink' is a sink"),
        ("r", "o0", "peer-2", "to: 'peer-2'; o0 is there already"),
        ("r", "o0", "peer-5", "to: 'peer-5'; expected a peer that lives"),
        ("r", "o0", "", "to: ''; expected a peer that lives"),
    ],
)
def test_a_component_that_cannot_move_is_refused_at_once(application: str, operator: str, to: str, reason: str) -> None:
    ring = Movers(6, seed=1)
    running(ring)
    ring.crash("peer-5")
    ring.run(8.0)
    with pytest.raises(ValueError, match=reason):
        ring.synergy["peer-0"].session.moves.move(application, operator, to, lambda _: None)
    assert not ring.events("r", MoveBegun)


@pytest.mark.parametrize("connector", ["python", "peers"])
def test_a_source_that_cannot_be_read_again_stays(connector: str) -> None:
    ring = Movers(6, seed=1)
    stream = (
        source("peers", id="s") if connector == "peers" else source("python", name="n", columns={"v": "int"}, id="s")
    )
    running(ring, asked=stream.sink(id="sink"))
    with pytest.raises(ValueError, match=rf"'s' is a source that cannot be read again \({connector}\)"):
        ring.synergy["peer-0"].session.moves.move("r", "s", "peer-4", lambda _: None)


class Sparks(Movers):
    """Peers whose drivers say at once that a part on Spark takes tuples."""

    def _carry_out(self, address: str, instruction: object) -> None:
        super()._carry_out(address, instruction)
        if isinstance(instruction, Deployment) and instruction.role("a", address) is Role.ACTIVE:
            each = self.synergy[address]
            each.peer.after(0.1, each.session.component_ready, "r", "a")


def counting(inside: set[str]) -> Plan:
    """A plan of which some operators are on Spark."""
    stream = source("packets", rate=10.0, count=100, id="s").filter("bytes > 0", id="f")
    return replace_parts(stream.aggregate("link", "1 s", n="count(*)", id="a").sink(id="sink"), inside, 0.1)


@pytest.mark.parametrize("operator", ["a", "f"])
def test_a_part_on_spark_moves_as_a_whole_to_a_peer_that_has_spark(operator: str) -> None:
    ring = Sparks(6, seed=1)
    running(ring, asked=counting({"f", "a"}))
    refused = move(ring, operator, "peer-4")
    ring.run(5.0)
    assert refused == ["a at peer-4: it has no Spark"]
    ring.synergy["peer-4"].driver_port.spark = SparkOffer()
    outcome = move(ring, operator, "peer-4")
    ring.run(5.0)
    assert outcome == [""]
    assert where(ring)["a"] == "peer-4"
    assert roles(ring, "a") == {"peer-4": Role.ACTIVE}
    known = [each.assignments for each in ring.deployments.values()]
    assert all(places["a"].external and not places["sink"].external for places in known)
    stopped(ring)


def test_a_part_whose_source_spark_reads_itself_stays() -> None:
    ring = Sparks(6, seed=1)
    running(ring, asked=counting({"s", "f", "a"}))
    with pytest.raises(ValueError, match="operator: 'f': Spark executes it and reads s itself"):
        ring.synergy["peer-0"].session.moves.move("r", "f", "peer-4", lambda _: None)


def test_an_application_moves_one_component_at_a_time() -> None:
    ring = Movers(6, seed=1)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    with pytest.raises(ValueError, match="operator: 'o1'; o0 is moving to peer-4; expected one change at a time"):
        ring.synergy["peer-0"].session.moves.move("r", "o1", "peer-5", lambda _: None)
    ring.run(2.0)
    assert outcome == [""]
    again = move(ring, "o1", "peer-5")
    ring.run(2.0)
    assert again == [""]
    stopped(ring)


def test_a_peer_without_capacity_refuses() -> None:
    ring = Movers(6, seed=5, config=lambda n: PeerConfig(name=f"peer-{n}", cores=0.05 if n == 4 else 1.0, seed=n))
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(3.0)
    (reason,) = outcome
    assert reason.startswith("o0 at peer-4: processing capacity: 0.05 cores where 0.1 cores are needed")
    assert where(ring) == PEERS
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE}
    assert not ring.synergy["peer-4"].ledger.requests
    assert not ring.synergy["peer-4"].session.applications
    assert [event.reason for event in ring.events("r", MoveGivenUp)] == [reason]
    stopped(ring)


def test_a_backup_that_refuses_to_follow_is_a_backup_still() -> None:
    ring = Movers(6, seed=5, config=lambda n: PeerConfig(name=f"peer-{n}", cores=0.05 if n == 4 else 1.0, seed=n))
    running(ring, {"o0": ("peer-4",)})
    left = ring.synergy["peer-4"].ledger.residual_bandwidth("", "peer-2")
    outcome = move(ring, "o0", "peer-4")
    ring.run(3.0)
    assert len(outcome) == 1
    assert outcome != [""]
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE, "peer-4": Role.BACKUP}
    assert ring.synergy["peer-4"].ledger.residual_bandwidth("", "peer-2") == left < 125e6
    stopped(ring)


def test_a_follower_that_is_never_ready_is_taken_back() -> None:
    config = SessionConfig(moving=5.0)
    ring = Movers(6, seed=6, takes=1e6, config=lambda n: PeerConfig(name=f"peer-{n}", seed=n, session=config))
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(4.0)
    assert outcome == []
    ring.run(3.0)
    assert outcome == ["o0 at peer-4 was not ready in time"]
    assert where(ring) == PEERS
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE}
    assert not ring.synergy["peer-4"].ledger.requests
    stopped(ring)


def test_a_follower_that_fails_fails_its_move_alone() -> None:
    ring = Movers(6, seed=6, takes=1e6)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    ring.simulation.call("peer-4", ring.synergy["peer-4"].session.component_failed, "r", "o0", "no memory")
    ring.run(3.0)
    assert outcome == ["o0 at peer-4: no memory"]
    assert ring.status("r") == "running"
    assert where(ring) == PEERS
    stopped(ring)


@pytest.mark.parametrize("to", ["", "peer-4", "peer-5"], ids=["no graph", "a graph names it", "a graph names another"])
def test_a_follower_begins_before_a_graph_names_it_and_ends_if_none_does(to: str) -> None:
    """The peer that has asked, and the one that has accepted, do not wait for the origin."""
    ring = Movers(6, seed=1, takes=0.2)
    running(ring)
    graph = ring.synergy["peer-0"].session.graph("r")
    old, new = (ring.synergy[each].session.moves.early for each in ("peer-2", "peer-4"))
    ring.simulation.call("peer-2", old.expect, "r", "o0", "peer-4")
    ring.simulation.call("peer-4", new.follow, "peer-2", graph, "o0")
    ring.run(0.5)
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE, "peer-4": Role.FOLLOWER}
    outcome = move(ring, "o0", to) if to else []
    ring.run(0.2)
    assert outcome == ([""] if to == "peer-4" else []), "only this one has caught up already"
    ring.run(5.0)
    assert roles(ring, "o0") == {to or "peer-2": Role.ACTIVE}
    assert outcome == ([""] if to else [])
    if to != "peer-4":
        assert not ring.synergy["peer-4"].session.applications
        assert not ring.synergy["peer-4"].ledger.requests
    stopped(ring)


@pytest.mark.parametrize(
    ("sender", "operator", "later", "shared", "counts"),
    [
        ("peer-4", "o0", 1, False, True),
        ("peer-5", "o0", 1, False, False),
        ("peer-4", "o1", 1, False, False),
        ("peer-4", "o0", 2, False, False),
        ("peer-4", "o0", 1, True, False),
    ],
    ids=["of this move", "of another peer", "of another component", "of a later graph", "of a shared stream"],
)
def test_answers_before_the_graph_of_a_move_count_for_that_move_alone(
    sender: str, operator: str, later: int, shared: bool, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old peer agrees when it asks, the new one says by itself that it is ready."""
    ring = Movers(6, seed=1, takes=1e6)
    running(ring)
    moves = ring.synergy["peer-0"].session.moves
    monkeypatch.setattr(moves, "sharers", lambda *_: ("other",) if shared else ())
    graph = moves.changes.led["r"].graph
    outcome = move(ring, "o0", "peer-4")
    for peer in ("peer-2", sender):
        early = Followed("r", graph.attempt, graph.epoch + later, operator, ready=True, refusal="", early=True)
        ring.simulation.call("peer-0", moves.handlers[Followed], peer, early)
    assert outcome == ([""] if counts else [])


@pytest.mark.parametrize("after", [0.0, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("backup", ["", "peer-4", "peer-5"])
def test_a_follower_that_dies_harms_nobody(after: float, backup: str) -> None:
    ring = Movers(6, seed=7, takes=1e6)
    running(ring, {"o0": (backup,)} if backup else None)
    outcome = move(ring, "o0", "peer-4")
    ring.run(after)
    ring.crash("peer-4")
    ring.run(8.0)
    assert outcome in (["peer peer-4 died"], ["peer-4 did not answer in time"])
    assert ring.status("r") == "running"
    assert where(ring) == PEERS
    further = {"peer-5": Role.BACKUP} if backup else {}  # the backup, or the one that replaces it
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE} | further
    stopped(ring)


@pytest.mark.parametrize("ready", [True, False])
def test_the_ready_follower_takes_over_from_a_component_that_dies_in_a_move(ready: bool) -> None:
    ring = Movers(6, seed=8, takes=1e6)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    assert roles(ring, "o0") == {"peer-2": Role.ACTIVE, "peer-4": Role.FOLLOWER}
    ring.crash("peer-2")
    if ready:  # as it turns out when it is asked: what it says now is lost
        with lost(ring, Followed):
            ring.simulation.call("peer-4", ring.synergy["peer-4"].session.copies.ready, "r", "o0")
            ring.run(0.5)
    ring.run(9.0)
    if ready:
        assert outcome == [""]
        assert ring.status("r") == "running"
        assert where(ring) == PEERS | {"o0": "peer-4"}
        assert {known.assignments["o0"].epoch for known in ring.deployments.values()} == {1}
        assert not any("peer-2" in known.peers for known in ring.deployments.values())
    else:
        assert outcome == ["peer peer-2 died before o0 at peer-4 was ready"]
        assert ring.status("r") == "failed"
        assert "peer peer-2 died (o0)" in ring.reports["r"][-1].reason
    stopped(ring)


def test_a_backup_takes_over_from_a_component_that_dies_in_a_move() -> None:
    ring = Movers(6, seed=8, takes=1e6)
    running(ring, {"o0": ("peer-5",)})
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    ring.crash("peer-2")
    ring.run(9.0)
    assert outcome == ["peer peer-2 died"]
    assert where(ring) == PEERS | {"o0": "peer-5"}
    assert roles(ring, "o0") == {"peer-5": Role.ACTIVE, "peer-4": Role.BACKUP}  # a further one, as peer-5 took over
    assert not ring.synergy["peer-4"].ledger.load
    stopped(ring)


def test_the_deaths_of_both_end_the_application() -> None:
    ring = Movers(6, seed=8, takes=1e6)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(0.5)
    ring.crash("peer-2")
    ring.crash("peer-4")
    ring.run(12.0)
    assert len(outcome) == 1
    assert ring.status("r") == "failed"
    stopped(ring)


@pytest.mark.parametrize("kind", [Follow, Followed, GraphChanged])
def test_lost_messages_of_a_move_are_sent_again(kind: type[Message]) -> None:
    ring = Movers(6, seed=9)
    running(ring)
    with lost(ring, kind):
        outcome = move(ring, "o0", "peer-4")
        ring.run(0.9)
        assert kind is GraphChanged or outcome == []
    ring.run(5.0)
    assert outcome == [""]
    assert where(ring) == PEERS | {"o0": "peer-4"}
    stopped(ring)


def test_a_peer_that_missed_the_end_of_a_move_releases_its_share() -> None:
    ring = Movers(6, seed=9)
    running(ring)
    with lost(ring, Followed, GraphChanged):
        outcome = move(ring, "o0", "peer-4")
        ring.run(8.0)
        assert outcome == ["peer-2 and peer-4 did not answer in time"]
    ring.run(12.0)  # it asks after a lease
    assert where(ring) == PEERS
    assert not ring.synergy["peer-4"].ledger.requests
    again = move(ring, "o0", "peer-4")
    ring.run(3.0)
    assert again == [""]
    stopped(ring)


def test_late_feedback_to_the_old_peer_of_a_component_harms_nothing() -> None:
    ring = Movers(6, seed=9)
    running(ring)
    outcome = move(ring, "o0", "peer-4")
    ring.run(3.0)
    assert outcome == [""]
    late = Feedback((MeasuredApplication("r", 1, 0.1),))
    ring.simulation.call("peer-0", ring.synergy["peer-0"].peer.send, "peer-2", late)
    ring.run(3.0)
    assert ring.status("r") == "running"
    stopped(ring)


@pytest.mark.parametrize("after", [0.0, 0.03, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("end", ["stop", "finish"])
@pytest.mark.parametrize("to", ["peer-4", "peer-3", "peer-0"])
def test_an_application_may_end_in_the_middle(after: float, end: str, to: str) -> None:
    ring = Movers(6, seed=10)
    running(ring)
    outcome = move(ring, "o0", to)
    ring.run(after)
    done = list(outcome)
    session = ring.synergy["peer-0"].session
    if end == "finish":
        ring.simulation.call("peer-0", session.sinks.ended, "r")
        ring.run(5.0)
        assert set(ring.deployed) == {("peer-0", "r", "sink")}
    else:
        ring.simulation.call("peer-0", session.stop, "r")
    ring.run(5.0)
    assert outcome == (done or ["the application has ended"])
    stopped(ring)


def test_a_stream_that_is_about_to_move_is_not_shared_meanwhile() -> None:
    ring = Movers(8, seed=1, takes=20.0)

    def query() -> Plan:
        return source("packets", rate=100.0, seed=1, id="packets").filter("bytes > 100", id="large").sink("all")

    ring.submit("peer-3", "a", query())
    first = ring.until_decided("a").peers
    ring.run(2.0)
    to = next(peer for peer in sorted(ring.synergy) if peer not in first.values())
    outcome = move(ring, "large", to, "a", "peer-3")
    ring.run(1.0)
    ring.submit("peer-5", "b", query())
    assert ring.until_decided("b").status == "running"
    assert not ring.deployments["peer-5", "b"].shared_producers
    ring.run(30.0)
    assert outcome == [""]


@pytest.mark.parametrize("seed", quick_first(range(24), 1))
def test_whatever_happens_each_component_is_at_one_place_and_nothing_is_overbooked(seed: int) -> None:
    rng = random.Random(seed)
    ring = Movers(8, seed=seed, codec=True, takes=rng.choice((0.05, 0.5, 2.0)))
    names = ("source", "o0", "o1", "sink")
    for number in range(3):
        origin, feeds, works = rng.sample(range(8), 3)
        stream = source("packets", rate=50.0, at=f"peer-{feeds}", id="source", count=10**9, seed=seed + number)
        stream = stream.filter("bytes > 0", cost="1 ms", id="o0", at=f"peer-{works}").filter("bytes > 1", id="o1")
        wanted = {"availability": "degree 2"} if rng.random() < 0.5 else {}
        ring.submit(f"peer-{origin}", f"r{number}", stream.sink(id="sink", **wanted))
    ring.run(6.0)
    simulation = ring.simulation
    simulation.loss = rng.choice((0.0, 0.05, 0.2))
    simulation.duplication = rng.choice((0.0, 0.2))
    simulation.reordering = rng.choice((0.0, 0.3))
    asked: list[list[str]] = []
    crashes = 0
    for _ in range(16):
        led = [(at, request) for at, each in sorted(ring.synergy.items()) for request in sorted(each.session.led)]
        if led:
            at, request = rng.choice(led)
            with contextlib.suppress(ValueError):  # it is the sink, is there already, or something moves
                asked.append(move(ring, rng.choice(names), rng.choice(sorted(ring.synergy)), request, at))
        if rng.random() < 0.15 and crashes < 2:
            crashes += 1
            ring.crash(rng.choice(sorted(ring.synergy)))
        ring.run(rng.choice((0.05, 0.3, 2.0)))
        assert not ring.overbooked()
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    ring.run(90.0)
    assert not ring.overbooked()
    if not crashes:
        assert all(len(outcome) == 1 for outcome in asked)
    led = [(at, request) for at, each in sorted(ring.synergy.items()) for request in sorted(each.session.led)]
    for at, request in led:
        graph = ring.synergy[at].session.graph(request)
        assert graph is not None
        assert not graph.roles.followers
        found = {name: [at for at, of, what in ring.deployed if (of, what) == (request, name)] for name in names}
        assert found == {name: [graph.roles.peers[name]] for name in names}, f"{request} of {at}"
        told = {known.version: known.assignments for (_, of), known in ring.deployments.items() if of == request}
        assert len(told) == 1, "all have converged"
    for address, each in list(ring.synergy.items()):
        for request in sorted(each.session.applications):  # those that failed keep their results
            ring.simulation.report(address, StopApplication(request))
    ring.run(45.0)
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())
    assert not ring.deployments
