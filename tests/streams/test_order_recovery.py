"""Who takes over asks in which order its inputs were read before, and reads in that order."""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.deployments import Assignment, Deployment
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, Determinants, Recall
from synergy_nb.dataflow.streams.log.values import (
    COPY,
    ORIGIN,
    Chunk,
    ComponentStream,
    Determinant,
    OrderRun,
    Output,
    Point,
    Reader,
    chunks_of,
)
from synergy_nb.dataflow.tuples import START
from tests.streams.items import batch, promise
from tests.streams.peers import HEIR2, Peers, interleaved


def test_a_successor_reads_in_the_order_that_its_readers_have_seen() -> None:
    peers = Peers(2).begin()
    peers.lose = lambda frame: (
        isinstance(frame, ComponentState) or (isinstance(frame, Data) and frame.reader.port == COPY)
    )
    interleaved(peers)
    assert peers.rows == [0, 0, 1, 1, 2, 2]
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    peers.later(0.5)
    again = peers.hostings["y"].components["app", "u"]
    order = [run for each in peers.hostings["z"].orders.of(ComponentStream("app", "u")) for run in each.runs]
    assert [run.port for run in order] == [1, 0, 1, 0]
    assert (again.ports[0].consumed, again.ports[1].consumed) == (Point(3, START), Point(3, START))
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3]


def test_a_successor_of_a_rebuilt_replica_reads_in_the_order_of_its_stream_and_not_of_the_lost_one() -> None:
    peers = Peers(2)
    assignments = peers.deployment.assignments
    assignments["u"] = msgspec.structs.replace(assignments["u"], epoch=1, rebuilt=1)
    peers.begin()
    lost = Determinant(
        ComponentStream("app", "u"),
        ORIGIN,
        Point(6, START),
        (OrderRun(0, Point(3, 0)), OrderRun(1, Point(3, 0))),
        ORIGIN,
    )
    peers.hostings["z"].orders.add([lost])
    peers.lose = lambda frame: (
        isinstance(frame, ComponentState) or (isinstance(frame, Data) and frame.reader.port == COPY)
    )
    interleaved(peers)
    assert peers.rows == [0, 0, 1, 1, 2, 2]
    peers.dead.add("x")
    peers.assign("u", msgspec.structs.replace(HEIR2, epoch=2, rebuilt=1))
    again = peers.hostings["y"].components["app", "u"]
    assert not again.reading.free, "it asks before it decides"
    peers.later(0.5)
    order = [run for each in peers.hostings["z"].orders.of(ComponentStream("app", "u", 1)) for run in each.runs]
    assert [run.port for run in order] == [1, 0, 1, 0]
    assert (again.ports[0].consumed, again.ports[1].consumed) == (Point(3, START), Point(3, START))
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3], "nothing twice, and nothing missing"


def test_a_peer_answers_once_it_knows_the_deployment_and_then_refuses_the_replaced() -> None:
    peers = Peers(2).begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    interleaved(peers)
    peers.dead.add("x")
    peers.assign("u", HEIR2, "s", "y", "w")  # not the reader
    peers.later(0.5)
    assert peers.said("taken_over") == []
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"z"}
    peers.tell(peers.deployment, "z")
    component = peers.hostings["z"].components["app", "out"]
    late = Data(Output("app", "u"), component.reader(0), Point(6, START))
    before = component.ports[0].received
    peers.say("x", "z", msgspec.structs.replace(late, start=before._replace(until=99)))
    assert component.ports[0].received == before
    peers.later(0.5)
    assert peers.said("taken_over") == ["y app u"]


def test_a_subscription_before_the_deployment_is_answered_after_it() -> None:
    peers = Peers(2).begin()
    peers.dead.add("x")
    peers.assign("u", HEIR2, "s", "y", "w")
    peers.later(0.05)
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"z"}
    peers.lose = lambda frame: isinstance(frame, Recall)
    peers.tell(peers.deployment, "z")
    peers.deliver()
    assert peers.said("taken_over") == ["y app u"]


def test_a_sharer_that_left_an_earlier_deployment_still_answers() -> None:
    """Seen in a campaign: no later deployment is sent to it, and the component that took over waited for ever."""
    peers = Peers(2).begin()
    interleaved(peers)
    second = Deployment("second", 1, {"g": Assignment("w")}, producer_epochs={"app": {"u": 0}})
    peers.tell(second, "w")
    peers.dead.add("x")
    peers.deployment = msgspec.structs.replace(peers.deployment, witnesses=("w",))
    peers.assign("u", HEIR2, "s", "y", "z")
    peers.later(0.5)
    assert peers.hostings["y"].roles.recoveries["app", "u"].missing == {"w"}, "it may still read from x"
    peers.tell(msgspec.structs.replace(second, version=2, producer_epochs={"app": {"u": 1}}), "w")
    peers.later(0.5)
    assert peers.said("taken_over") == ["y app u"]


def test_answers_of_an_earlier_version_do_not_count() -> None:
    peers = Peers(2).begin()
    peers.dead |= {"x", "z"}
    peers.assign("u", HEIR2)
    peers.later(0.2)
    recovery = peers.hostings["y"].roles.recoveries["app", "u"]
    peers.assign("out", msgspec.structs.replace(peers.deployment.assignments["out"], epoch=1, active="w"))
    peers.lose = lambda frame: isinstance(frame, Recall | Determinants)
    assert "w" in recovery.missing
    for version, missing in ((2, True), (3, False)):
        recovery.missing = {"w", "s"}
        question = recovery.recall(peers.now)[0].question
        peers.say("w", "y", Determinants(ComponentStream("app", "u"), version, (), question))
        assert ("w" in recovery.missing) is missing


def test_a_snapshot_carries_the_order_and_the_causes_that_no_chunk_has_carried() -> None:
    peers = Peers(2).begin()
    peers.emit("m", promise(5, 0))  # a union says nothing before it has promises of all inputs
    peers.later(0.5)
    active = peers.hostings["x"].components["app", "u"]
    assert [run.upto for run in active.reading.runs] == [Point(0, 5)]
    state = peers.hostings["y"].roles.copies["app", "u"].state
    assert state is not None
    assert state.order == tuple(active.reading.runs)
    peers.frames.clear()
    peers.do("y", peers.hostings["y"].receive("w", Recall(Output("app", "u", 1), 1), peers.now))
    (answer,) = [frame for _, to, frame in peers.frames if to == "w" and isinstance(frame, Determinants)]
    assert (answer.found[-1].start, answer.found[-1].runs) == (state.end, state.order)
    peers.frames.clear()
    upper = answer.found[-1]._replace(stream=ComponentStream("app", "n"), end=Point(9, 9))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    copy.state = msgspec.structs.replace(state, causes=(upper,))
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    heir = peers.hostings["y"].components["app", "u"]
    assert heir.reading.runs == list(state.order)
    assert heir.reading.causes == [upper]
    assert heir.reading.known == state.end


def test_reading_orders_received_with_an_input_are_passed_on_with_its_results() -> None:
    peers = Peers().begin()
    cause = Determinant(ComponentStream("app", "upper"), ORIGIN, Point(3, START), (), ORIGIN)
    active = peers.hostings["x"].components["app", "u"]
    (made,) = chunks_of([batch(0, 3)], ORIGIN)
    made.determinants = (cause,)
    peers.say("s", "x", Data(Output("app", "n"), active.reader(0), ORIGIN, (made,)))
    peers.deliver()
    for peer in "xyz":
        assert peers.hostings[peer].orders.of(cause.stream) == (cause,), peer


def test_a_successor_reads_in_order_the_tuples_before_a_punctuation_of_its_copy() -> None:
    peers = Peers(2).begin()
    stream = ComponentStream("app", "u")
    first = Determinant(stream, ORIGIN, Point(0, 10), (OrderRun(1, Point(2, 10)), OrderRun(0, Point(1, 10))), ORIGIN)
    made = Chunk(ORIGIN, Point(0, 10), promise(10, 0), 64, (first,))
    peers.later(0.5)
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), ORIGIN, (made,)))
    assert peers.hostings["y"].roles.copies["app", "u"].log.end == Point(0, 10)
    peers.dead.add("x")
    peers.assign("u", HEIR2)
    peers.later(0.2)
    assert list(peers.hostings["y"].components["app", "u"].reading.prescribed) == list(first.runs)


def test_a_prescribed_run_of_which_a_part_has_come_is_begun() -> None:
    peers = Peers(2).begin()
    orders = (
        Determinant(ComponentStream("app", "u"), ORIGIN, Point(4, START), (OrderRun(0, Point(4, START)),), ORIGIN),
    )
    peers.hostings["z"].orders.add(orders)
    peers.dead.add("x")
    peers.emit("n", batch(0, 2))
    peers.assign("u", HEIR2)
    peers.later(0.5)
    heir = peers.hostings["y"].components["app", "u"]
    assert heir.ports[0].consumed == Point(2, START)
    peers.emit("m", batch(0, 2))
    assert heir.ports[1].consumed == ORIGIN, "it is not its turn"
    peers.emit("n", batch(2, 2))
    peers.later(0.1)
    assert peers.rows == [0, 1, 2, 3, 0, 1]


def test_a_peer_without_a_role_deletes_the_reading_orders_that_it_knew() -> None:
    peers = Peers(2).begin()
    interleaved(peers)
    assert peers.hostings["y"].orders.of(ComponentStream("app", "u"))
    assignment = msgspec.structs.replace(peers.deployment.assignments["u"], backups=("w",))
    peers.assign("u", assignment)
    assert not peers.hostings["y"].orders.of(ComponentStream("app", "u"))
    assert peers.hostings["z"].orders.of(ComponentStream("app", "u"))
