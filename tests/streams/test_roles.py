"""What a peer does for a component, as backup, follower or successor, and how it goes on where another one ended."""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, Subscribe
from synergy_nb.dataflow.streams.log.merge import ASKING, SUBSCRIBED
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Point, Reader
from synergy_nb.dataflow.tuples import START
from tests.streams.items import batch
from tests.streams.peers import HEIR, Peers, interleaved


def test_a_lost_snapshot_is_sent_again_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    assert len(peers.hostings["s"].components["app", "n"].log) == 1
    peers.lose = lambda _: False
    peers.later(2.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_a_copy_whose_position_was_trimmed_begins_anew_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY
    peers.emit("n", batch(0, 3))
    peers.later(3.0)  # the sink has all, and the log has let go of it
    peers.lose = lambda _: False
    peers.later(3.0)
    assert peers.hostings["y"].roles.copies["app", "u"].merge.received == Point(3, START)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_a_backup_takes_over_and_nothing_is_lost_or_doubled() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    peers.emit("n", batch(3, 3))
    peers.dead.add("x")
    peers.lose = lambda _: False
    peers.assign("u", HEIR)
    peers.emit("n", batch(6, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6]
    assert peers.said("taken_over") == ["y app u"]


def test_inputs_are_kept_until_the_last_of_all_copies_has_a_snapshot() -> None:
    peers = Peers()
    peers.deployment.assignments["u"] = msgspec.structs.replace(peers.deployment.assignments["u"], backups=("y", "w"))
    peers.begin()
    peers.lose = lambda frame: isinstance(frame, ComponentState) and frame.reader.peer == "w"
    peers.emit("n", batch(0, 3))
    peers.later(1.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 1
    peers.lose = lambda _: False
    peers.later(2.0)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_a_copy_that_believes_that_it_is_subscribed_is_asked() -> None:
    """One deployment had it discarded, the next one kept again; its peer knows only the second."""
    peers = Peers().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=()), "s", "x", "z")
    peers.emit("n", batch(3, 3))
    peers.later(0.5)
    peers.assign("u", assignment)
    peers.emit("n", batch(6, 3))
    peers.later(3.0)
    copy = peers.hostings["y"].roles.copies["app", "u"]
    assert copy.merge.received == Point(9, START)
    assert copy.state is not None
    assert copy.state.end == Point(9, START)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_an_outdated_answer_does_not_reset_a_copy() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), ORIGIN, (), True))
    assert copy.log.end == copy.merge.received == Point(3, START)


def test_a_copy_does_not_begin_in_the_middle() -> None:
    peers = Peers()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY and not frame.chunks
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    assert not peers.hostings["y"].roles.copies["app", "u"].merge.joined


def test_an_outdated_answer_to_a_removed_copy_does_not_start_the_new_one() -> None:
    """Seen in a campaign: a peer kept a copy, no longer, and again; the first one's answer came to the second."""
    peers = Peers()
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY
    peers.begin()
    peers.emit("n", batch(0, 3))
    copy = peers.hostings["y"].roles.copies["app", "u"]
    peers.say("x", "y", Data(Output("app", "u"), Reader("app", "u", COPY, "y"), Point(8, 5)))
    assert not copy.merge.joined
    assert not copy.log
    peers.lose = lambda _: False
    peers.later(0.5)
    assert copy.log.end == copy.merge.received == Point(3, START)


def test_a_follower_continues_at_its_position_after_a_move() -> None:
    peers = Peers(2).begin()
    interleaved(peers)
    assignment = peers.deployment.assignments["u"]
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="w"))
    peers.later(1.0)
    peers.emit("m", batch(3, 1))
    peers.emit("n", batch(3, 1))
    peers.later(0.5)
    follower, active = (peers.hostings[peer].components["app", "u"] for peer in "wx")
    assert follower.log.end == active.log.end == Point(8, START)
    peers.assign("u", msgspec.structs.replace(assignment, active="w", epoch=1, backups=(), follower=""))
    peers.emit("n", batch(4, 1))
    peers.later(0.5)
    assert peers.rows == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert ("app", "u") not in peers.hostings["x"].components


def test_a_follower_that_is_not_wanted_any_more_is_a_backup_that_asks_for_nothing_again() -> None:
    peers = Peers().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(0.5)
    peers.emit("n", batch(3, 2))
    peers.later(0.5)
    active, follower = (peers.hostings[peer].components["app", "u"] for peer in "xy")
    assert follower.log.end == active.log.end == Point(5, START)
    peers.assign("u", assignment)
    copy = peers.hostings["y"].roles.copies["app", "u"]
    assert ("app", "u") not in peers.hostings["y"].components
    assert copy.log is follower.log
    assert copy.merge.received == Point(5, START)
    peers.emit("n", batch(5, 1))
    peers.later(0.5)
    assert len(peers.hostings["s"].components["app", "n"].log) == 0, "nothing is kept for the follower"
    assert copy.log.end == copy.merge.received == active.log.end == Point(6, START)
    peers.dead.add("x")
    peers.assign("u", HEIR)
    peers.emit("n", batch(6, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6]


def test_a_follower_that_is_sent_a_snapshot_before_it_has_subscribed_subscribes_nevertheless() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader.port == COPY
    assignment = msgspec.structs.replace(peers.deployment.assignments["u"], backups=(), follower="w")
    peers.assign("u", assignment)
    peers.later(0.05)
    copy = peers.hostings["w"].roles.copies["app", "u"]
    assert ("app", "u") in peers.hostings["w"].components
    before = copy.merge.state
    assert before is ASKING, "the old peer need not know of it"
    peers.lose = lambda _: False
    peers.later(1.0)
    assert copy.merge.state is SUBSCRIBED


def test_a_source_moves_and_is_read_from_where_its_copy_is() -> None:
    peers = Peers()
    peers.deployment.assignments["n"] = Assignment("s", 0, ("y",))
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("n", Assignment("y", 1))
    assert [(peer, each.since) for peer, each in peers.opened] == [("s", ORIGIN), ("y", Point(3, START))]
    peers.emit("n", batch(3, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3]


def test_a_component_goes_on_where_it_is_when_a_take_over_from_it_is_undone() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    component = peers.hostings["x"].components["app", "u"]
    peers.assign("u", HEIR, "y")  # nobody else hears of it
    peers.emit("n", batch(3, 2))
    peers.later(0.5)
    assert peers.hostings["y"].components["app", "u"].log.end.position == 5
    assert peers.rows == [0, 1, 2, 3, 4], "its readers read on from x"
    peers.dead.add("y")
    peers.assign("u", msgspec.structs.replace(HEIR, active="x", epoch=2), "x")
    assert peers.hostings["x"].components["app", "u"] is component
    peers.emit("n", batch(5, 2))
    peers.tell(peers.deployment)
    peers.emit("n", batch(7, 1))
    peers.later(1.0)
    assert (component.epoch, peers.rows) == (2, [0, 1, 2, 3, 4, 5, 6, 7])
    assert {each.reader.epoch for each in peers.hostings["s"].components["app", "n"].log.cursors.values()} == {2}


def test_a_reader_goes_back_from_a_peer_that_a_later_deployment_does_not_know() -> None:
    """The peer has sent to it unasked, and then it and the leader died that alone knew of it."""
    peers = Peers()
    ordered = msgspec.structs.replace(peers.deployment.assignments["u"], in_order=True)
    peers.deployment.assignments["u"] = ordered
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(ordered, active="y", epoch=1, backups=()), "y")
    known = peers.deployment
    peers.emit("n", batch(3, 2))
    port = peers.hostings["z"].components["app", "out"].ports[0]
    assert (port.peer, port.epoch) == ("y", 1)
    before = {**known.assignments, "u": ordered}
    peers.tell(msgspec.structs.replace(known, version=1, assignments=before), "z")
    assert (port.peer, port.epoch) == ("y", 1), "that is an earlier one"
    peers.dead.add("y")
    peers.deployment = msgspec.structs.replace(known, version=8)
    peers.assign("u", msgspec.structs.replace(ordered, backups=()))
    assert (port.peer, port.epoch) == ("x", 0)
    peers.emit("n", batch(5, 2))
    peers.later(1.0)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6]
