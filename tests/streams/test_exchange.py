"""Producers and their readers: what is sent again until it arrives, and which subscription counts."""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.streams.log.frames import Ack, Data, Frame, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log.log import EXPECTED, Limits
from synergy_nb.dataflow.streams.log.merge import ASKING, SUBSCRIBED
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, OVERHEAD, OnLag, Output, Point, Reader
from synergy_nb.dataflow.tuples import END, START, Batch, Punctuation
from tests.streams.items import batch
from tests.streams.peers import Peers, moved, once


def test_a_lost_subscription_answer_or_acknowledgement_is_repeated() -> None:
    for kind in (Subscribe, Data, Ack):
        peers = Peers()
        peers.lose = once(kind, 3)
        peers.begin()
        peers.emit("n", batch(0, 3))
        peers.lose = once(kind, 3)
        peers.emit("n", batch(3, 2))
        peers.later(5.0)
        assert peers.rows == [0, 1, 2, 3, 4], kind
        assert len(peers.hostings["s"].components["app", "n"].log) == 0, f"{kind}: its log is not trimmed"


def test_the_last_chunk_is_sent_again_though_nothing_follows() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data) and bool(frame.chunks)
    peers.emit("n", batch(0, 3))
    peers.lose = lambda _: False
    assert peers.rows == []
    peers.later(1.0)
    assert peers.rows == [0, 1, 2]


def test_a_lost_acknowledgement_does_not_hold_the_producer_up_for_ever() -> None:
    peers = Peers(limits=Limits(200, 300))
    peers.deployment.assignments["u"] = msgspec.structs.replace(peers.deployment.assignments["u"], backups=())
    peers.begin()
    peers.lose = lambda frame: isinstance(frame, Ack) and frame.reader.port == 0 and frame.consumed > ORIGIN
    peers.emit("n", batch(0, 20))
    peers.later(0.2)
    end = peers.hostings["s"].components["app", "n"].log.end
    peers.say("x", "s", Ack(Output("app", "n"), Reader("app", "u", 0, "x"), end, ORIGIN, ORIGIN))
    peers.lose = lambda _: False
    assert not peers.hostings["s"].may_emit("app", "n")
    peers.later(2.0)
    assert peers.hostings["s"].may_emit("app", "n")


def test_a_broken_link_loses_nothing() -> None:
    peers = Peers().begin()
    peers.lose = lambda frame: isinstance(frame, Data)
    peers.emit("n", batch(0, 3))
    peers.lose = lambda _: False
    for one, other in ("sx", "xs"):
        peers.do(one, peers.hostings[one].link_down(other, peers.now))
    peers.later(0.1)
    assert peers.rows == [0, 1, 2], "it does not wait until it sends again by itself"


def test_an_outdated_subscription_of_a_follower_does_not_end_it() -> None:
    peers = Peers().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 3))
    peers.later(0.5)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(0.5)
    peers.emit("n", batch(3, 3))
    peers.later(0.5)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))  # both are old, and have been overtaken
    peers.say("y", "s", Subscribe(Output("app", "n"), reader, ORIGIN, OnLag.RESYNC))
    peers.deliver()
    assert peers.said("component_failed") == []
    peers.assign("u", msgspec.structs.replace(assignment, active="y", epoch=1, backups=(), follower=""))
    peers.emit("n", batch(6, 1))
    peers.later(0.5)
    assert peers.rows == [0, 1, 2, 3, 4, 5, 6], "nobody knew that it reads"


def test_a_producer_that_lost_a_subscription_which_its_reader_believes_in_asks_for_it() -> None:
    """An Unsubscribe of y's first follower is overtaken by the subscription of its second, which has replaced x."""
    peers = Peers().begin()
    heir = moved(peers)
    peers.assign("u", heir, "y")
    peers.later(0.1)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.tell(peers.deployment)
    assert peers.hostings["y"].components["app", "u"].ports[0].state is SUBSCRIBED
    assert peers.hostings["s"].components["app", "n"].log.cursors[reader].state is EXPECTED
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert peers.rows == [0, 1, 2, 3, 4, 5]
    assert len(peers.hostings["s"].components["app", "n"].log) == 0


def test_an_old_answer_confirms_no_subscription_for_ever() -> None:
    """What y was sent as a follower arrives after it has replaced x; then it does not subscribe again."""
    peers = Peers().begin()
    heir = moved(peers)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader == reader
    peers.assign("u", heir)
    peers.later(0.1)
    peers.say("s", "y", Data(Output("app", "n"), reader, Point(3, START)))
    peers.lose = lambda _: False
    assert peers.hostings["y"].components["app", "u"].ports[0].state is SUBSCRIBED
    assert peers.hostings["s"].components["app", "n"].log.cursors[reader].state is EXPECTED
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert peers.rows == [0, 1, 2, 3, 4, 5]


def test_a_copy_whose_answer_was_lost_is_told_again_where_it_has_to_begin() -> None:
    """The answer tells it to skip what is no longer retained; an older frame then has it ask no more."""
    peers = Peers().begin()
    peers.emit("n", batch(0, 2))
    (reader,) = (each for each in peers.hostings["x"].components["app", "u"].log.cursors if each.port == COPY)
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader == reader
    peers.emit("n", batch(2, 2), Punctuation(END, 4, 0.0))
    peers.do("y", peers.hostings["y"].link_down("x", peers.now))
    peers.later(0.2)
    peers.say("x", "y", Data(Output("app", "u"), reader, Point(2, START)))
    peers.lose = lambda _: False
    made, copy = peers.hostings["x"].components["app", "u"], peers.hostings["y"].roles.copies["app", "u"]
    assert (made.log.start, copy.log.end.position) == (Point(4, END), 2), "nobody retains what the copy lacks"
    peers.later(5.0)
    assert copy.log.end == made.log.copied() == Point(4, END)


def test_a_follower_whose_answer_was_lost_is_sent_again_the_promise_that_it_lacks() -> None:
    peers = Peers().begin()
    moved(peers)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader == reader
    peers.emit("n", Punctuation(END, 3, 0.0))
    whole = Point(3, END)
    peers.say("x", "s", Ack(Output("app", "n"), Reader("app", "u", 0, "x"), whole, whole, whole))
    assert peers.hostings["s"].components["app", "n"].log.start == whole, "nobody retains what y lacks"
    peers.do("y", peers.hostings["y"].link_down("s", peers.now))
    peers.later(0.2)
    peers.say("s", "y", Data(Output("app", "n"), reader, Point(3, START)))
    peers.lose = lambda _: False
    port = peers.hostings["y"].components["app", "u"].ports[0]
    assert (port.state, port.received) == (SUBSCRIBED, Point(3, START))
    peers.later(5.0)
    assert port.received == whole


def test_an_old_acknowledgement_subscribes_nobody_and_fails_nobody() -> None:
    peers = Peers().begin()
    heir = moved(peers)
    reader = peers.hostings["y"].components["app", "u"].reader(0)
    peers.say("y", "s", Unsubscribe(Output("app", "n"), reader))
    peers.lose = lambda frame: isinstance(frame, Subscribe) and frame.reader == reader
    peers.assign("u", heir)
    peers.say("y", "s", Ack(Output("app", "n"), reader, Point(1, START), ORIGIN, ORIGIN))
    cursor = peers.hostings["s"].components["app", "n"].log.cursors[reader]
    assert cursor.state is EXPECTED
    peers.lose = lambda _: False
    peers.emit("n", batch(3, 3))
    peers.later(2.0)
    assert (peers.said("component_failed"), peers.rows) == ([], [0, 1, 2, 3, 4, 5])


def test_a_reader_that_does_not_answer_is_asked_ever_more_rarely() -> None:
    peers = Peers()
    asked: list[float] = []

    def lose(frame: Frame) -> bool:
        if isinstance(frame, Data) and frame.reader.port >= 0:
            asked.append(peers.now)
        return isinstance(frame, Subscribe | Data)

    peers.lose = lose
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(20.0)
    assert 4 < len(asked) < 16, "two outputs"
    left = [1, 1]  # first chunks of each output

    def lose_first(frame: Frame) -> bool:
        return (
            isinstance(frame, Data)
            and bool(frame.chunks)
            and frame.reader.port >= 0
            and bool(left)
            and bool(left.pop())
        )

    peers.lose = lose_first
    peers.later(3.0)
    assert (left, peers.rows) == ([], [0, 1, 2]), "what is lost is sent again as soon as ever"


def test_a_reader_that_is_sent_chunks_before_it_has_subscribed_subscribes_nevertheless() -> None:
    peers = Peers().begin()
    assignment = moved(peers)
    peers.lose = lambda frame: isinstance(frame, Subscribe)
    peers.assign("u", assignment)
    peers.emit("n", batch(3, 1))
    assert peers.rows == [0, 1, 2, 3]
    port = peers.hostings["z"].components["app", "out"].ports[0]
    before = port.state
    assert before is ASKING, "the new peer need not know of it"
    peers.lose = lambda _: False
    peers.later(1.0)
    assert port.state is SUBSCRIBED


def test_tuples_in_transit_over_a_slow_link_are_not_repeated() -> None:
    peers = Peers().begin()
    held: list[tuple[str, str, Frame]] = []
    peers.emit("n", batch(0, 3), deliver=False)
    sent = 0
    for _ in range(300):  # 15 s, in which nothing arrives
        peers.now += 0.05
        for peer, hosting in peers.hostings.items():
            peers.do(peer, hosting.tick(peers.now))
        while peers.frames:
            frame = peers.frames.popleft()
            sent += isinstance(frame[2], Data) and bool(frame[2].chunks)
            held.append(frame)
    assert 2 <= sent <= 6
    peers.frames.extend(held)
    peers.later(1.0)
    assert peers.rows == [0, 1, 2]


def test_an_output_that_is_larger_than_half_of_a_window_goes_in_parts_that_fit() -> None:
    peers = Peers().begin()
    peers.emit("n", batch(0, 100), deliver=False)  # 1,600 bytes
    _, _, data = peers.frames.popleft()
    peers.do("x", peers.hostings["x"].receive("s", data, peers.now))
    work = peers.hostings["x"].next(peers.now)
    assert work is not None
    made = [chunk.item for chunk in work.run(lambda: peers.now, 1000).chunks]
    assert len(made) == 4
    assert all(isinstance(each, Batch) and each.nbytes + OVERHEAD <= 500 for each in made)
