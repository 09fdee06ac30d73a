"""Frames of a peer that neither reads nor makes a stream are refused; frames that their sender repeats do no harm."""

from __future__ import annotations

import msgspec

from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, Frame, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output, Reader
from tests.streams.items import batch
from tests.streams.peers import HEIR, Peers

LIAR = "w"


class Heard(Peers):
    """Peers, and each frame that has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, str, Frame]] = []

    def say(self, sender: str, to: str, frame: Frame) -> None:
        self.heard.append((sender, to, frame))
        super().say(sender, to, frame)

    def refused(self) -> list[tuple[str, str]]:
        """Peers that have refused a frame, each with its sender."""
        facts = [(peer, fact) for peer, fact in self.facts if fact.kind == FactKind.FRAME_REFUSED]
        self.facts = [each for each in self.facts if each not in facts]
        return [(peer, fact.peers[0]) for peer, fact in facts]


def running() -> Heard:
    peers = Heard()
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(3.0)
    assert (peers.rows, peers.refused()) == ([0, 1, 2], [])
    return peers


def test_what_readers_and_producers_have_said_is_refused_from_another_peer() -> None:
    peers = running()
    heard, kinds = list(peers.heard), set()
    for _, to, frame in heard:
        if isinstance(frame, Ack | Data | Subscribe | ComponentState) and to != LIAR:
            kinds.add(type(frame))
            peers.say(LIAR, to, frame)
            assert peers.refused() == [(to, LIAR)], frame
    assert kinds == {Ack, Data, Subscribe, ComponentState}
    peers.emit("n", batch(3, 2))
    peers.later(3.0)
    assert (peers.rows, peers.refused()) == ([0, 1, 2, 3, 4], [])


def test_nobody_ends_a_stream_or_takes_it_over_that_it_does_not_make() -> None:
    peers = running()
    output, reader = Output("app", "u"), Reader("app", "out", 0, "z")
    peers.say(LIAR, "z", Unsubscribe(output, reader, "a lie"))
    peers.say(LIAR, "z", Data(Output("app", "u", 1), reader, ORIGIN, unasked=10**9))
    assert peers.refused() == [("z", LIAR)] * 2
    assert not peers.hostings["z"].components["app", "out"].failed
    peers.emit("n", batch(3, 2))
    assert peers.rows == [0, 1, 2, 3, 4]
    peers.dead.add("x")
    peers.assign("u", HEIR)  # its backup replaces the component
    peers.emit("n", batch(5, 2))
    peers.later(3.0)
    assert (peers.rows, peers.refused()) == ([0, 1, 2, 3, 4, 5, 6], [])


def test_frames_that_their_sender_repeats_change_nothing() -> None:
    peers = running()
    for sender, to, frame in list(peers.heard):
        peers.say(sender, to, frame)
        if isinstance(frame, Data) and frame.chunks:
            peers.say(sender, to, msgspec.structs.replace(frame, chunks=frame.chunks[:1]))
    peers.deliver()
    peers.emit("n", batch(3, 2))
    peers.later(5.0)
    assert (peers.rows, peers.refused()) == ([0, 1, 2, 3, 4], [])
