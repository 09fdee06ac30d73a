"""Lost active replicas are rebuilt: where, and what happens if peers die meanwhile, on whole peers in virtual time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import msgspec
import polars as pl
import pytest

from synergy_nb.algorithms.replication.candidate_survey import CandidateAnswer, IncomingLink
from synergy_nb.algorithms.replication.rebuilding import (
    FIRST_WAIT,
    LONGEST_WAIT,
    TARGETS_A_TRY,
    RebuildTarget,
    lost_replicas,
    rebuild_targets,
)
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.control.peer import Message
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Assignment, InputFeed
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.events import ActiveReplicasLost, RebuildGivenUp, RebuildImpossible, ReplicaRebuilt, StreamsDiscarded
from synergy_nb.lifecycle.records.messages import Graph, ReadersComplete, ReadersQuestion, Rebuild, Rebuilt
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of, replicated
from synergy_nb.simulator.scripted_faults import Faults
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces
from tests.moving_schedules import table
from tests.rebuilding_run import PEERS, Run, query
from tests.replica_schedules import ideal
from tests.replica_world import ReplicaWorld

KINDS = {"u": "union", "f": "filter", "x": "aggregate"}


@pytest.mark.slow
def test_a_rebuild_is_given_up_where_its_peer_dies_and_goes_on_elsewhere() -> None:
    run = Run()
    run.world.crash("b")
    _, to = run.begins()
    run.world.crash(to)
    found = run.rebuilt()
    (given_up,) = run.of(RebuildGivenUp)
    assert (given_up.at, given_up.reason) == (to, f"peer {to} died")
    assert {each.at for each in found}.isdisjoint({"b", to})
    run.world.crash("c")
    run.ends()


@pytest.mark.slow
def test_an_application_that_fails_after_a_rebuild_keeps_the_results_so_far() -> None:
    """Its sink has a further input from the rebuild, and none once the application has ended."""
    run = Run()
    world = run.world
    world.crash("b")
    run.rebuilt()
    assert world.until(lambda: bool(world.results["app", "out"].rows.height), 20.0)
    before = world.results["app", "out"].rows.rows()
    for peer in {world.where("app")[name] for name in replicas_of(replicated(run.plan, 2))["x"]}:
        world.crash(peer)
    assert world.until(lambda: world.status("app") == "failed", 60.0)
    world.run(5.0)
    assert world.results["app", "out"].rows.rows()[: len(before)] == before


@pytest.mark.slow
def test_a_replica_is_rebuilt_from_another_one_where_its_source_dies() -> None:
    run = Run(degree=3)
    run.world.crash("b")
    source, _ = run.begins()
    run.world.crash(source)
    found = run.rebuilt(6)
    last = {each.operator: each for each in found}
    assert {original(name) for name in last} == {"u", "f", "x"}
    assert [each.left for each in last.values()][-1] == 3
    (survivor,) = {"c", "d"} - {source}
    run.world.crash(survivor)
    run.ends()


@pytest.mark.slow
def test_a_replica_whose_source_dies_once_it_executes_goes_on_from_the_copy() -> None:
    run = Run(degree=3)
    world = run.world
    world.crash("b")
    source, to = run.begins()
    assert world.until(lambda: to in world.where("app").values())
    world.crash(source)
    (survivor,) = {"c", "d"} - {source}
    assert run.rebuilt(6)
    world.crash(survivor)
    run.ends()


@pytest.mark.slow
def test_explain_and_the_view_say_what_was_rebuilt() -> None:
    run = Run()
    run.world.crash("b")
    found = run.rebuilt()
    account = str(run.account())
    for each in found:
        what = f"rebuilt: {each.operator} at {each.at} from the state of {each.operator}~1"
        assert what in account
        assert f"2 left of {each.operator}" in account
    series = JournalSeries("app")
    series.add_events(run.world.control.journal.about("app"))
    assert not series.run("app").lost_replicas
    assert series.run("app").roles.peers["u"] == found[0].at
    marks = [mark["text"] for mark in status_pieces(series)["marks"]["list"]]
    assert f"u rebuilt at {found[0].at} from the state of u~1: 2 of u run" in marks


@pytest.mark.slow
def test_where_no_peer_is_left_the_journal_says_so_once_and_it_is_tried_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    run = Run(degree=3, peers=PEERS[:3])  # the third replica of each operator is at the first peer
    directory = run.world.synergy["a"].directory
    lookup = directory.lookup

    def counted(names: Sequence[str], done: Callable[..., None], deadline: float = 3.0) -> None:
        looks.append(run.world.control.now)
        lookup(names, done, deadline)

    monkeypatch.setattr(directory, "lookup", counted)
    run.world.crash("b")
    assert run.world.until(lambda: len(run.of(RebuildImpossible)) == 3)
    run.world.run(300.0)
    reasons = {each.operator: each.reason for each in run.of(RebuildImpossible)}
    assert reasons == {name: f"no other peer offers {kind!r}" for name, kind in KINDS.items()}
    assert len(run.of(RebuildImpossible)) == 3, "once for each"
    assert len(looks) <= 3 * (1 + math.log2(LONGEST_WAIT / FIRST_WAIT) + 300.0 / LONGEST_WAIT)
    assert looks[-1] - looks[0] > 200.0, "and it goes on"
    assert "not rebuilt: u: no other peer offers 'union'" in str(run.account())
    run.ends()


@pytest.mark.slow
def test_a_peer_that_joins_later_gets_the_lost_replicas_at_once() -> None:
    run = Run(degree=3, peers=PEERS[:3])
    world = run.world
    world.crash("b")
    assert world.until(lambda: len(run.of(RebuildImpossible)) == 3)
    world.run(LONGEST_WAIT)  # by now it tries once a minute only
    world.join("h", contact="c")
    world.control.report("h", OfferComponents())
    joined = world.now
    assert world.until(lambda: len(run.of(ReplicaRebuilt)) == 3, 3 * FIRST_WAIT), run.of(RebuildImpossible)
    found = run.of(ReplicaRebuilt)
    assert {each.at for each in found} == {"h"}
    assert found[0].time - found[0].seconds - joined < FIRST_WAIT, "the first of them begins before another try is due"
    world.crash("c")
    run.ends()


@pytest.mark.slow
def test_where_every_peer_refuses_the_reason_is_in_the_journal_and_it_is_tried_again() -> None:
    run = Run()
    world, others = run.world, ("d", "e", "f", "g")
    for peer in ("a", *others):
        world.synergy[peer].session.rebuilds.impact_refusal = lambda *_: "QoS impact on r9"
    world.crash("b")
    assert world.until(lambda: bool(run.of(RebuildImpossible)), 30.0)
    (first, *_) = run.of(RebuildImpossible)
    at = first.reason.removeprefix(f"{first.operator} at ").removesuffix(": QoS impact on r9")
    assert at in ("a", *others), first.reason
    given_up = [each for each in run.of(RebuildGivenUp) if each.operator == first.operator]
    assert len({each.at for each in given_up}) == TARGETS_A_TRY, "so many are tried, one after another"
    assert f"not rebuilt: {first.operator}: {first.reason}" in str(run.account())
    assert world.status("app") == "running", "it goes on with the others"
    for peer in ("a", *others):
        world.synergy[peer].session.rebuilds.impact_refusal = lambda *_: ""
    assert {original(each.operator) for each in run.rebuilt()} == {"u", "f", "x"}
    run.ends()


@pytest.mark.slow
def test_nothing_is_rebuilt_where_that_is_turned_off() -> None:
    run = Run(config=ReplicationConfig(rebuild=False))
    run.world.crash("b")
    assert run.world.until(lambda: bool(run.of(ActiveReplicasLost)))
    run.ends()
    assert not run.of(ReplicaRebuilt) + run.of(RebuildImpossible)


@pytest.mark.slow
def test_no_stream_is_discarded_while_readers_of_a_rebuilt_replica_still_need_the_others() -> None:
    run = Run(config=ReplicationConfig(theta="10 %", report=0.2, collect=0.4, late=0.05))
    run.world.crash("b")
    rebuilt = run.rebuilt()
    (lost, *_) = run.of(ActiveReplicasLost)
    assert run.world.until(lambda: run.of(StreamsDiscarded)[-1].time > rebuilt[-1].time, 30.0), (
        "and afterwards they are"
    )
    first = min(each.time - each.seconds for each in rebuilt)
    assert not [each for each in run.of(StreamsDiscarded) if first < each.time < rebuilt[-1].time]
    assert lost.time < first
    run.ends()


# -- the data path -------------------------------------------------------------------------------------------------


def copied(capture: float) -> tuple[ReplicaWorld, Plan, dict[str, pl.DataFrame]]:
    """A world in which a peer has a copy of a replica, so that another one can begin from it."""
    rng, plan = random.Random(5), query()
    world = ReplicaWorld(5, PEERS, Faults(capture=capture), detection=1000.0)
    inputs = {name: table(rng, 200) for name in plan.sources}
    expanded = replicated(plan, 2)
    where = {name: "c" if "~" in name else "b" for name in expanded.operators} | dict.fromkeys(("s", "t", "out"), "a")
    world.deploy("app", expanded, where, inputs)
    world.run(1.0)
    known = world.deployments["app"].assignments
    world.change("app", known | {"x": msgspec.structs.replace(known["x"], backups=("g",))})
    for _ in range(100):
        world.run(0.05)
        if world.ready("app", "x", "g"):
            return world, plan, inputs
    raise AssertionError("the copy is not ready")


def begin_from_copy(world: ReplicaWorld, at: str, lost: str) -> None:
    """Have a peer execute a replica of ``x`` from the state of another one, which is lost in the same deployment."""
    known = dict(world.deployments["app"].assignments)
    gone = known.pop(lost)
    new = Assignment(at, 1, (), "", gone.inputs, ports=gone.ports, replica_of="x", state_from="x", rebuilt=1)
    sink = known["out"]
    inputs = tuple(InputFeed("app", "") if feed.operator == lost else feed for feed in sink.inputs)
    sink = msgspec.structs.replace(sink, inputs=(*inputs, InputFeed("app", "x~2")), ports=(*sink.ports, 0))
    world.change("app", known | {"out": sink, "x~2": new})


@pytest.mark.slow
def test_a_replica_begins_from_its_copy_although_the_source_is_lost_when_the_peer_learns_of_that() -> None:
    world, plan, inputs = copied(0.01)
    begin_from_copy(world, "g", lost="x")
    world.run(60.0)
    assert not world.failures()
    results = world.results["app", "out"]
    assert results.ended
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)


@pytest.mark.slow
def test_a_replica_without_a_copy_fails_by_name_and_emits_nothing() -> None:
    world, plan, inputs = copied(0.01)
    begin_from_copy(world, "f", lost="x")
    world.run(60.0)
    assert world.failures()[0] == "f: app: x~2: x, from whose state it starts, has no copy on this peer"
    results = world.results["app", "out"]
    assert results.ended
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)


@pytest.mark.slow
def test_nobody_joins_the_stream_of_a_replica_before_its_state_is_restored() -> None:
    world, _, _ = copied(1.0)
    begin_from_copy(world, "g", lost="x~1")
    replica, seen = ("app", "x~2"), set()
    for _ in range(400):
        world.run(0.01)
        hosting, reader = world.nodes["g"].hosting, world.nodes["a"].hosting.components["app", "out"]
        found = hosting.components.get(replica)
        if found is not None and isinstance(found.logic, MergedLogic) and len(reader.ports) > 2:
            seen.add((found.logic.restoring, reader.ports[2].joined))
    assert (True, False) in seen
    assert (False, True) in seen
    assert (True, True) not in seen


# -- values ----------------------------------------------------------------------------------------------------------

WHERE = {"s": "a", "t": "a", "u": "b", "u~1": "", "f": "b", "f~1": "d", "x": "b", "x~1": "d", "out": "a"}
DELAYS = {"b": 0.010, "d": 0.040, "e": 0.015, "f": 0.050}  # one way from a, seconds; between others the sum of both


def surveyed(peers: str, busy: str = "") -> dict[str, CandidateAnswer]:
    """Answers of peers, some of which have hardly anything left."""

    def link(one: str, other: str) -> IncomingLink:
        seconds = DELAYS.get(one, 0.0) + DELAYS.get(other, 0.0)
        return IncomingLink(1e9, seconds, seconds, 0.0)

    return {
        peer: CandidateAnswer(1, 1.0, 0.01 if peer in busy else 1.0, {}, {}, {each: link(each, peer) for each in peers})
        for peer in peers
    }


def test_the_target_is_the_cheapest_that_is_far_enough_and_has_room() -> None:
    plan, roles = replicated(query(), 2), Roles(WHERE)
    far, everybody = replicated(query(distance="45 ms"), 2), dict.fromkeys("aef", "")
    found, reason = rebuild_targets(plan, roles, "u~1", "a", everybody, surveyed("abdef"))
    assert (found, reason) == ([RebuildTarget("e", "u"), RebuildTarget("f", "u"), RebuildTarget("a", "u")], "")
    found, _ = rebuild_targets(far, roles, "u~1", "a", everybody, surveyed("abdef"))
    assert found == [RebuildTarget("e", "u"), RebuildTarget("f", "u")], "a is 20 ms from b"
    assert rebuild_targets(plan, roles, "u~1", "a", {"e": "", "f": ""}, surveyed("abdef", busy="e"))[0] == [
        RebuildTarget("f", "u")
    ]
    found, reason = rebuild_targets(far, roles, "u~1", "a", {"a": ""}, surveyed("abdef"))
    assert not found
    assert reason.endswith("cores left, up to 90 % of its capacity, further than 45 ms from the other replicas")
    assert rebuild_targets(plan, roles, "u~1", "a", {}, {}) == ([], "no other peer offers 'union'")
    assert rebuild_targets(plan, roles, "u~1", "a", {"e": "QoS impact on r2"}, {}) == ([], "e: QoS impact on r2")


def test_its_state_is_that_of_the_nearest_other_replica() -> None:
    plan, roles = replicated(query(3), 3), Roles(WHERE | {"u~2": "f", "f~2": "", "x~2": ""})
    found, _ = rebuild_targets(plan, roles, "u~1", "a", {"e": ""}, surveyed("abdef"))
    assert found == [RebuildTarget("e", "u")]
    roles = Roles({**roles.peers, "u": "f", "u~2": "d"})
    assert rebuild_targets(plan, roles, "u~1", "a", {"e": ""}, surveyed("abdef"))[0] == [RebuildTarget("e", "u~2")]


def test_a_replica_that_ended_with_its_streams_is_not_lost() -> None:
    plan, roles = replicated(query(), 2), Roles(WHERE)
    assert lost_replicas(plan, roles) == ["u~1"]
    roles = roles.without_stream(plan, "f", 1)
    assert lost_replicas(plan, roles) == ["u~1"], "the other reader did not have its stream discarded"
    assert lost_replicas(plan, roles.without_stream(plan, "f~1", 1)) == []


def test_the_readers_of_a_rebuilt_replica_get_a_further_input_and_it_reads_what_its_source_reads() -> None:
    plan = replicated(query(), 2)
    roles = Roles({**WHERE, "f~1": ""}).without_stream(plan, "x", 1)
    coming = roles.rebuilding("f~1", "f", "e")
    assert (coming.peers["f~1"], sorted(coming.copies), coming.copied_for("f")) == ("", ["e"], ("e",))
    now = coming.with_rebuilt(plan, "f~1")
    assert (now.peers["f~1"], now.epochs, now.rebuilt) == ("e", {"f~1": 1}, {"f~1": 1})
    assert now.reads(plan, "x") == {0: "f", 2: "f~1"}
    assert now.ports(plan, "x") == (0, 0)
    assert now.reads(plan, "f~1") == now.reads(plan, "f") == {0: "u", 1: ""}
    assert now.released("f~1").copies == frozenset()
    again = now.without(["f~1"])
    assert not again.rebuilds
    both = again.rebuilding("u~1", "u", "e").with_rebuilt(plan, "u~1").released("u~1")
    assert both.rebuilding("f~1", "f", "g").with_rebuilt(plan, "f~1").reads(plan, "f~1") == {0: "u", 2: "u~1"}


GRAPH = Graph("r", 1, "a", b"", Roles(WHERE).rebuilding("u~1", "u", "e"))


@pytest.mark.parametrize(
    "message",
    [
        Rebuild(GRAPH, "u~1"),
        Rebuilt("r", 1, 4, "u~1", True, ""),
        ReadersQuestion("r", 1, "u~1", 2),
        ReadersComplete("r", 1, "u~1", 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_messages_survive_their_encoding(message: Message) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)) == message
