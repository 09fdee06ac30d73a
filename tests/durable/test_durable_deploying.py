"""What a peer tells its driver of a durable application, what it refuses, and how it starts one again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import (
    AttemptOutdated,
    ChangePlan,
    OperatorStopped,
    StopApplication,
    SubmitPlan,
)
from synergy_nb.control.graph import Report
from synergy_nb.control.peer import DRIVER
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import FOLDER, Deployment
from synergy_nb.events import ActiveReplicasLost, ApplicationRestarted, ReplicaRebuilt, RestartBegun
from synergy_nb.events.application_states import State, Status
from synergy_nb.lifecycle.changes.movable import component_to_move
from synergy_nb.lifecycle.records.attempts import EPOCHS_OF_ATTEMPT, EPOCHS_OF_START
from synergy_nb.lifecycle.records.members import NEVER_ENDED
from synergy_nb.lifecycle.records.messages import Claim, Confirm, Entrust, Entrusted, Graph, Lost
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.derived.active_replicas import replicated as replicated_plan
from synergy_nb.plan.derived.plan_changes import check_replacement
from synergy_nb.plan.derived.plan_transitions import Transitions, transitions
from synergy_nb.plan.derived.spark_parts import replace_parts
from synergy_nb.runtime.process.durable_applications import is_over
from tests.one_peer import OnePeer
from tests.simulated import Ring

CONFIG = SessionConfig(durable=True)


def lines(name: str) -> Any:
    return source("socket", address="127.0.0.1:9", format="csv", columns={"time": "time", "v": "int"}, id=name)


def packets(name: str) -> Any:
    return source("packets", rate="10 tuples/s", id=name)


def told(plan: Plan, session: SessionConfig, backups: dict[str, tuple[str, ...]] | None = None) -> Deployment:
    """What the peer of the sink is told to deploy."""
    peers = {name: "c" if each.kind == "sink" else "a" for name, each in plan.operators.items()}
    one = OnePeer("c", session=session)
    graph = Graph("r", 1, "o", plan.to_bytes(), Roles(peers, backups or {}))
    one.receive("o", Confirm(graph, "out", ""))
    (found,) = one.told(Deployment)
    assert isinstance(found, Deployment)
    return found


@pytest.mark.parametrize(
    ("plan", "waited"),
    [
        (packets("s").filter("bytes > 1", id="f").sink("out", id="out"), {"out"}),
        (lines("s").filter("v > 1", id="f").sink("out", id="out"), {"s", "out"}),
        (packets("s").union(packets("t"), id="u").sink("out", id="out"), {"u", "out"}),
        (replace_parts(packets("s").filter("bytes > 1", id="f").sink("out", id="out"), {"f"}, 0.1), {"f", "out"}),
    ],
    ids=["repeatable", "unrepeatable", "several inputs", "on Spark"],
)
def test_readers_wait_for_the_folder_where_nobody_could_make_the_same_again(plan: Plan, waited: set[str]) -> None:
    assignments = told(plan, CONFIG).assignments
    assert {name for name, each in assignments.items() if FOLDER in each.synchronized} == waited
    assert all(each.backups == (FOLDER,) for each in assignments.values())
    assert all(FOLDER not in told(plan, SessionConfig()).assignments[name].backups for name in assignments)


def test_the_folder_is_no_peer_and_executes_nothing() -> None:
    plan = packets("s").filter("bytes > 1", id="f").sink("out", id="out", availability="ordered 2")
    deployment = told(plan, CONFIG, {"f": ("b",)})
    assert deployment.assignments["f"].backups == ("b", FOLDER)
    assert deployment.assignments["f"].followers == ("b",)
    assert FOLDER not in deployment.peers


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            packets("s")
            .filter("bytes > 1", availability="active 2")
            .filter("bytes > 2", availability="degree 2")
            .sink("out"),
            "active replicas beside backups",
        ),
        (
            source("packets", rate="10 tuples/s", duration="1 s", speed=0, id="s", engine="spark").sink("out"),
            "operator 's': engine: 'spark'; expected 'peer'",
        ),
    ],
    ids=["replicas beside backups", "a source that Spark reads"],
)
def test_what_a_folder_could_not_have_is_refused(plan: Plan, said: str) -> None:
    one = OnePeer("o", session=CONFIG)
    with pytest.raises(ValueError, match=f"{said}.*as this cluster is durable"):
        one.synergy.requests.submit("r", plan)


def test_no_streams_are_shared_in_a_durable_cluster() -> None:
    one = OnePeer("o", session=CONFIG)
    with pytest.raises(ValueError, match=r"application: 'r'; expected none, as no streams are shared"):
        one.synergy.requests.submit("s", packets("s").sink("out"), beside="r")


def test_each_start_has_epochs_of_its_own_and_says_what_is_lost() -> None:
    ring = Ring(2, seed=1, config=PeerConfig(session=CONFIG, components=("filter", "sink", "source:socket")))
    plan = lines("s").filter("v > 1", id="f").sink("out", id="out")
    ring.simulation.report("peer-0", SubmitPlan("r", plan.to_bytes(), epoch=7 << 20))
    assert ring.until_decided("r").status == "running"
    epochs = ring.synergy["peer-0"].requests["r"].graph.roles.epochs
    assert epochs.keys() == plan.operators.keys()
    assert {each - (7 << 20) for each in epochs.values()} < set(range(0, 4 * EPOCHS_OF_ATTEMPT, EPOCHS_OF_ATTEMPT))
    (restarted,) = ring.events("r", ApplicationRestarted)
    assert restarted.kept
    assert restarted.lost == {"s": "lines that were sent until it runs again"}


def on_two_peers() -> Plan:
    return Plan.from_bytes(packets("s").filter("bytes > 1", id="f").sink("out", id="out").to_bytes())


def attempt(number: int, epoch: int, successor: str = "") -> Graph:
    """The graph of an attempt with the sink at ``c`` and all else at ``a``."""
    peers = {"s": "a", "f": "a", "out": "c"}
    roles = Roles(peers, epochs=dict.fromkeys(peers, epoch))
    return Graph("r", number, "o", on_two_peers().to_bytes(), roles, successor=successor)


def test_a_peer_leaves_an_attempt_from_whose_files_a_later_one_goes_on() -> None:
    one = OnePeer("c", session=CONFIG)
    one.receive("o", Confirm(attempt(2, 1 << 10), "out", ""))
    one.told(Deployment)
    one.receive(DRIVER, AttemptOutdated("r", "out", 1 << 10))  # of the one before
    assert one.told(Deployment) == []
    one.receive(DRIVER, AttemptOutdated("r", "out", 2 << 10))
    assert [each.assignments for each in one.told(Deployment)] == [{}]
    one.receive("o", Confirm(attempt(3, 2 << 10), "out", ""))
    (deployed,) = one.told(Deployment)
    assert deployed.assignments["out"].epoch == 2 << 10


def test_an_application_fails_here_once_another_cluster_goes_on_with_it() -> None:
    """It would be composed anew again and again, in attempts that nobody answers."""
    one = OnePeer("c", session=CONFIG)
    one.receive("o", Confirm(attempt(2, 1 << 10), "out", ""))
    one.sent(Lost)
    one.receive(DRIVER, AttemptOutdated("r", "out", EPOCHS_OF_START))
    ((to, lost),) = one.sent(Lost)
    assert (to, lost.failed) == ("o", True)
    assert lost.reason == "out at c: another cluster goes on with it from the durable folder"
    assert [each.assignments for each in one.told(Deployment)][-1] == {}


def test_a_peer_stays_in_an_attempt_in_which_a_replica_goes_on_elsewhere_from_its_files() -> None:
    one = OnePeer("c", session=CONFIG)
    plan = replicated_plan(packets("s").filter("bytes > 1", id="f", availability="active 2").sink("out", id="out"), 2)
    peers = {"s": "a", "f": "b", "f~1": "c", "out": "c"}
    graph = Graph("r", 1, "o", plan.to_bytes(), Roles(peers, epochs=dict.fromkeys(peers, 1 << 10)))
    one.receive("o", Confirm(graph, "out", ""))
    one.told(Deployment)
    one.receive(DRIVER, AttemptOutdated("r", "f~1", (1 << 10) + 1))
    assert one.told(Deployment) == []
    one.receive(DRIVER, AttemptOutdated("r", "f~1", 2 << 10))
    assert [each.assignments for each in one.told(Deployment)] == [{}]


def test_nobody_leads_an_attempt_on_once_components_of_the_next_may_read_its_files() -> None:
    """Set-up goes from the sinks to the sources, and without the origin only the peer of the first sink could lead."""
    record = Entrusted(on_two_peers().to_bytes(), "composed", False, 1.0, 0)
    for later in (False, True):
        one = OnePeer("c", session=CONFIG)
        for number in range(1, 3 if later else 2):
            graph = attempt(number, number << 10, "c")
            one.receive("o", *((Entrust(graph, record),) if number == 1 else ()), Confirm(graph, "out", ""))
        one.loses("o")
        assert bool(one.sent(Claim)) is not later


def running(ring: Ring, sink: str = "peer-0") -> Request:
    plan = packets("s").filter("bytes > 1", id="f").sink("out", id="out", at=sink)
    ring.simulation.report("peer-0", SubmitPlan("r", plan.to_bytes(), placement="spread"))
    assert ring.until_decided("r").status == "running"
    return ring.synergy["peer-0"].requests["r"]


def test_the_next_attempt_begins_once_the_one_before_has_ended_with_epochs_that_none_of_it_had() -> None:
    ring = Ring(3, seed=1, config=PeerConfig(session=CONFIG, components=("filter", "sink", "source:packets")))
    request = running(ring)
    session, graph = ring.synergy["peer-0"].session, request.graph
    moved = {**graph.roles.epochs, "f": 5 << 10}  # more than an attempt has of its own
    changed = graph.changed(Roles(graph.roles.peers, epochs=moved))
    ring.simulation.call("peer-0", session.changes.change, "r", changed)
    ended = []
    session.on_restart.append(lambda *_: ended.append(session.participation.ended.get("r", NEVER_ENDED).attempt))
    ring.crash(next(peer for peer in graph.roles.peers.values() if peer != "peer-0"))
    ring.simulation.run(until=ring.simulation.now + 60.0, stop=lambda: len(ended) > 0)
    assert len(ring.events("r", RestartBegun)) == 1
    assert ended == [graph.attempt]
    ring.simulation.run(until=ring.simulation.now + 60.0, stop=lambda: request.state is State.RUNNING)
    assert request.graph.attempt > graph.attempt
    assert min(request.graph.roles.epochs.values()) > 5 << 10


@pytest.mark.parametrize(("epoch", "restarts", "over"), [(0, 0, True), (1 << 20, 0, False), (0, 1, False)])
def test_what_has_run_is_kept_if_no_peers_are_found_for_it(epoch: int, restarts: int, *, over: bool) -> None:
    """It was forgotten in the cluster in which it was submitted, when a peer had died without another one for it."""
    request = Request("r", on_two_peers(), "composed", 1.0, epoch=epoch)
    for _ in range(restarts):
        request.restart(2.0)
    assert is_over(Report("r", Status.REJECTED.value, "no peer offers filter", Roles()), request) is over


def changing(ring: Ring, sink: str = "peer-0") -> tuple[Request, Transitions]:
    """An application that executes two plans, and these plans; ``sink``: peer of its sink."""
    request = running(ring, sink)
    other = packets("s").filter("bytes > 2", id="g").sink("out", id="out", at=sink)
    found = transitions("r", request.plan, other, 1)
    ring.simulation.report("peer-0", ChangePlan("r", "begin", found.both.to_bytes()))
    assert request.state is State.DISCOVERING
    ring.simulation.run(until=ring.simulation.now + 60.0, stop=lambda: request.state is State.RUNNING)
    assert request.graph.plan == found.both.to_bytes()
    return request, found


def ring_of(peers: int) -> Ring:
    return Ring(peers, seed=1, config=PeerConfig(session=CONFIG, components=("filter", "sink", "source:packets")))


def goes_on_with(ring: Ring, request: Request, plan: Plan) -> None:
    ring.simulation.run(
        until=ring.simulation.now + 100.0,
        stop=lambda: request.state is State.RUNNING and request.graph.plan == plan.to_bytes(),
    )
    assert request.graph.plan == plan.to_bytes()
    assert request.changing is None
    assert request.plan == plan


def test_another_plan_takes_the_place_of_its_own_in_two_steps() -> None:
    ring = ring_of(3)
    request, found = changing(ring)
    before = max(request.graph.roles.epochs.values())
    ring.simulation.report("peer-0", ChangePlan("r", "interrupt"))
    assert request.state is State.DISCOVERING
    ring.simulation.run(until=ring.simulation.now + 100.0)
    assert request.state is State.DISCOVERING  # until the driver has kept the plan
    ring.simulation.report("peer-0", ChangePlan("r", "settle", found.new.to_bytes()))
    goes_on_with(ring, request, found.new)
    assert min(request.graph.roles.epochs.values()) > before


def test_its_own_plan_goes_on_if_the_folder_does_not_take_the_other_one() -> None:
    ring = ring_of(3)
    request, _ = changing(ring)
    own = request.plan
    ring.simulation.report("peer-0", ChangePlan("r", "interrupt"))
    ring.simulation.report("peer-0", ChangePlan("r", "settle"))
    goes_on_with(ring, request, own)


@pytest.mark.parametrize("how", ["nobody asks", "give up", "a death", "a failure"])
def test_a_change_is_given_up(how: str) -> None:
    ring = ring_of(4)
    request, _ = changing(ring)
    own = request.plan
    match how:
        case "give up":
            ring.simulation.report("peer-0", ChangePlan("r", "give up"))
        case "a death":
            ring.crash(next(peer for peer in request.graph.roles.peers.values() if peer != "peer-0"))
        case "a failure":
            at = request.graph.roles.peers["g"]
            ring.simulation.report(at, OperatorStopped("r", "g", "an error"))
    goes_on_with(ring, request, own)


@pytest.mark.parametrize("how", ["while both run", "before the plan is kept", "after it was kept", "it was stopped"])
def test_a_successor_goes_on_with_its_own_plan_unless_that_was_ended(how: str) -> None:
    """The origin dies, and was cut off from its successor before."""
    ring = ring_of(4)
    request, found = changing(ring, "peer-1")
    own = request.plan
    ring.simulation.partition([["peer-1"]])
    match how:
        case "it was stopped":
            ring.simulation.report("peer-0", StopApplication("r"))
        case "before the plan is kept" | "after it was kept":
            ring.simulation.report("peer-0", ChangePlan("r", "interrupt"))
    ring.simulation.run(until=ring.simulation.now + 0.5)
    if how == "after it was kept":
        ring.simulation.report("peer-0", ChangePlan("r", "settle", found.new.to_bytes()))
        ring.simulation.run(until=ring.simulation.now + 1.0)
    ring.crash("peer-0")
    ring.simulation.heal()
    until(ring, lambda: "r" in ring.synergy["peer-1"].requests)
    led = ring.synergy["peer-1"].requests["r"]
    if how == "it was stopped":
        ring.simulation.run(until=ring.simulation.now + 60.0)
        assert led.state is State.STOPPED
    else:
        goes_on_with(ring, led, own)


def test_a_change_that_is_asked_for_goes_on() -> None:
    ring = ring_of(3)
    request, found = changing(ring)
    for _ in range(8):
        ring.simulation.run(until=ring.simulation.now + 20.0)
        ring.simulation.report("peer-0", ChangePlan("r", "ask"))
    assert request.graph.plan == found.both.to_bytes()


def test_its_own_plan_goes_on_if_the_peers_refuse_both() -> None:
    ring = ring_of(3)
    request = running(ring)
    own = request.plan
    other = packets("s").filter("bytes > 2", id="g", at="nowhere").sink("out", id="out", at="peer-0")
    ring.simulation.report("peer-0", ChangePlan("r", "begin", transitions("r", own, other, 1).both.to_bytes()))
    goes_on_with(ring, request, own)
    with pytest.raises(ValueError, match="nowhere"):
        ring.synergy["peer-0"].requests.changes.ask("r")


def replicated(ring: Ring, epoch: int = 0) -> Request:
    plan = packets("s").filter("bytes > 1", id="f", availability="active 2").sink("out", id="out", at="peer-0")
    ring.simulation.report("peer-0", SubmitPlan("r", plan.to_bytes(), epoch=epoch))
    ring.until_decided("r")
    return ring.synergy["peer-0"].requests["r"]


def until(ring: Ring, done: Callable[[], bool]) -> None:
    ring.simulation.run(until=ring.simulation.now + 60.0, stop=done)
    assert done()


def test_a_lost_replica_goes_on_from_the_folder_while_its_graph_is_as_before() -> None:
    ring = ring_of(4)
    request = replicated(ring)
    before = request.graph.roles
    dead = before.peers["f~1"]
    assert dead not in ("peer-0", before.peers["f"])
    ring.crash(dead)
    until(ring, lambda: len(ring.events("r", ActiveReplicasLost)) > 0)
    assert request.graph.roles == before  # so what it has yet to read is retained for it
    until(ring, lambda: request.graph.roles.peers["f~1"] != dead)
    after = request.graph.roles
    assert after.epochs["f~1"] == before.epochs.get("f~1", 0) + 1
    assert (after.rebuilt, after.inputs, after.rebuilds) == ({}, {}, {})  # in the stream that it had
    assert after.peers["f~1"] not in ("", dead, after.peers["f"])
    until(ring, lambda: ("r", "f~1") in ring.synergy[after.peers["f~1"]].session.components)
    (rebuilt,) = ring.events("r", ReplicaRebuilt)
    assert (rebuilt.begun, rebuilt.left) == ("from the durable folder", 2)
    assert ring.events("r", RestartBegun) == []
    assert request.state is State.RUNNING


def few_of(peers: int) -> Ring:
    """Peers of which the first one, which leads, executes no filter."""
    kept = PeerConfig(session=CONFIG, components=("sink", "source:packets"))
    return Ring(
        peers, seed=1, config=lambda n: msgspec.structs.replace(kept, components=("filter",)) if n else kept
    )  # fmt: skip


def test_it_goes_on_beside_the_other_one_if_no_other_peer_executes_it() -> None:
    """What it has yet to read is retained for it, so all would wait for it in the end."""
    ring = few_of(3)
    request = replicated(ring)
    ring.crash(request.graph.roles.peers["f~1"])
    until(ring, lambda: request.graph.roles.peers["f~1"] == request.graph.roles.peers["f"])
    assert request.state is State.RUNNING


def test_all_replicas_go_on_after_a_restart_with_fewer_peers_and_none_is_left_out_at_first() -> None:
    ring = few_of(2)
    assert replicated(ring, 7 << 20).graph.roles.peers["f~1"] == "peer-1"
    ring = few_of(2)
    assert replicated(ring).state is State.REJECTED
    assert "f lacks 1; expected a peer for each of them, as this cluster is durable" in ring.reports["r"][-1].reason


def test_a_replica_that_has_failed_goes_on_at_another_peer_and_the_last_one_ends_it() -> None:
    ring = ring_of(4)
    request = replicated(ring)
    second = request.graph.roles.peers["f~1"]
    ring.simulation.report(second, OperatorStopped("r", "f~1", "no memory"))
    until(ring, lambda: request.graph.roles.peers["f~1"] != second)
    assert request.state is State.RUNNING
    for name in ("f", "f~1"):
        ring.simulation.report(request.graph.roles.peers[name], OperatorStopped("r", name, "an error"))
    until(ring, lambda: request.state is State.FAILED)


def test_a_replica_that_was_only_silent_goes_on_where_it_is() -> None:
    ring = few_of(3)
    request = replicated(ring)
    roles = request.graph.roles
    ring.simulation.hang(roles.peers["f~1"], 600.0)
    until(ring, lambda: len(ring.events("r", ActiveReplicasLost)) > 0)
    ring.simulation.hang(roles.peers["f~1"], 0.0)
    until(ring, lambda: len(ring.events("r", ReplicaRebuilt)) > 0)
    (rebuilt,) = ring.events("r", ReplicaRebuilt)
    assert (rebuilt.begun, rebuilt.at) == ("as its peer was only silent", roles.peers["f~1"])
    assert request.graph.roles == roles


def test_plans_with_active_replicas_are_not_replaced() -> None:
    ring = ring_of(4)
    request = replicated(ring)
    with pytest.raises(ValueError, match="active replicas; expected none or backups"):
        ring.synergy["peer-0"].requests.changes.begin("r", request.plan)
    with pytest.raises(PlanError, match="active replicas'; expected none or backups of r"):
        check_replacement("r", request.plan, on_two_peers(), durable=True)
    with pytest.raises(ValueError, match="operator: 'f~1' is an active replica"):
        component_to_move(Plan.from_bytes(request.graph.plan), "f~1", durable=True)
