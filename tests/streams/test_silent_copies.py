"""Copies of which nothing is heard, though they are not dead: nobody waits for them, and it is said what they miss."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, Frame, PieceReply, PieceRequest, Subscribe
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import COPY
from tests.streams.items import batch
from tests.streams.peers import COUNTED, HEIR, Peers

ROWS = 40  # of a batch: 20 of them are more than is kept
LIMITS = Limits(2_000, 8_000, piece=500)


def silent(*peers: str) -> Callable[[Frame], bool]:
    """Loses what these copies say."""

    def lose(frame: Frame) -> bool:
        return (
            isinstance(frame, Ack | PieceRequest | Subscribe)
            and frame.reader.port == COPY
            and frame.reader.peer in peers
        )

    return lose


class Fed(Peers):
    """Peers whose source emits as long as it may."""

    def __init__(self, *backups: str) -> None:
        super().__init__(limits=LIMITS)
        self.ring_position = 0
        self.states = 0
        self.deployment.assignments["u"] = msgspec.structs.replace(
            self.deployment.assignments["u"], backups=backups or ("y",)
        )

    def say(self, sender: str, to: str, frame: Frame) -> None:
        self.states += isinstance(frame, ComponentState)
        super().say(sender, to, frame)

    def feed(self, batches: int) -> None:
        """Emit a batch every 0.1 s, where the log has room for it."""
        for _ in range(batches):
            if self.hostings["s"].may_emit("app", "n"):
                self.emit("n", batch(self.ring_position, ROWS))
                self.ring_position += ROWS
            self.later(0.1)

    @property
    def unfit(self) -> list[tuple[str, ...]]:
        """Which copies were said not to be able to take over, each time that this changed."""
        return [fact.peers for _, fact in self.facts if fact.kind is FactKind.COPIES_BEHIND]

    def take_over(self, peer: str) -> None:
        self.dead.add("x")
        self.assign("u", msgspec.structs.replace(HEIR, active=peer))
        self.later(2.0)


@pytest.mark.parametrize("known", [True, False])
def test_components_do_not_wait_for_a_silent_copy(known: bool) -> None:
    """Be it that it had a snapshot, be it that it never came."""
    peers = Fed()
    if not known:
        peers.lose = silent("y")
    peers.begin()
    peers.feed(5)
    peers.lose = silent("y")
    peers.feed(60)
    assert peers.ring_position > 50 * ROWS, "the stream goes on"
    assert peers.rows == list(range(peers.ring_position))
    assert peers.hostings["s"].components["app", "n"].log.size <= LIMITS.retain
    assert peers.unfit == [("y",)]
    states = peers.states
    peers.feed(20)
    assert peers.states == states, "no snapshot is made for it"


def test_a_copy_that_answers_is_waited_for_however_slow_it_is() -> None:
    peers = Fed()
    peers.plan = COUNTED
    peers.begin()
    peers.feed(5)
    peers.lose = lambda frame: isinstance(frame, PieceReply)  # what it asks for never comes
    peers.feed(60)
    assert peers.unfit == []
    assert peers.ring_position < 30 * ROWS


def test_a_peer_that_was_suspended_gives_copies_time_to_answer_before_they_count_as_silent() -> None:
    """A peer that was suspended: what its copies said waits to be read."""
    peers = Fed()
    peers.begin()
    peers.lose = silent("y")
    while not peers.hostings["s"].components["app", "n"].log.blocked:
        peers.feed(1)
    assert peers.unfit == []
    peers.now += 60.0
    peers.do("x", peers.hostings["x"].tick(peers.now))
    assert peers.unfit == []
    peers.lose = lambda _: False
    peers.later(0.5)
    peers.feed(20)
    assert peers.unfit == []


def test_a_copy_that_comes_back_can_take_over_from_its_next_snapshot() -> None:
    peers = Fed()
    peers.begin()
    peers.lose = silent("y")
    peers.feed(60)
    assert peers.unfit == [("y",)]
    peers.lose = lambda _: False
    peers.feed(20)
    assert peers.unfit == [("y",), ()]
    peers.lose = lambda frame: isinstance(frame, ComponentState)
    peers.feed(3)  # is in no snapshot
    peers.lose = lambda _: False
    peers.take_over("y")
    peers.feed(1)
    assert peers.rows == list(range(peers.ring_position))
    assert peers.said("component_failed") == []


def test_a_late_acknowledgement_of_an_old_snapshot_does_not_make_a_copy_usable() -> None:
    late: list[Frame] = []
    peers = Fed()
    peers.begin()
    peers.feed(3)

    def withhold(frame: Frame) -> bool:
        if silent("y")(frame):
            late.append(frame)
            return True
        return False

    peers.lose = withhold
    peers.feed(60)
    assert peers.unfit == [("y",)]
    peers.lose = lambda frame: isinstance(frame, ComponentState | PieceReply) or silent("y")(frame)
    for frame in late:
        peers.say("y", "x", frame)
    peers.deliver()
    peers.later(1.0)
    assert peers.unfit == [("y",)]


def test_a_lagging_copy_that_has_to_take_over_fails_by_name() -> None:
    peers = Fed()
    peers.begin()
    peers.feed(5)
    peers.lose = silent("y")
    peers.feed(60)
    peers.lose = lambda frame: isinstance(frame, Data) and frame.reader.port == COPY
    peers.take_over("y")
    reasons = [fact.reason for peer, fact in peers.facts if (peer, fact.kind) == ("y", FactKind.COMPONENT_FAILED)]
    assert len(reasons) == 1
    assert "are requested; those from" in reasons[0]


def test_the_other_copies_are_still_waited_for() -> None:
    peers = Fed("y", "w")
    peers.begin()
    peers.lose = silent("y")
    peers.feed(60)
    assert peers.unfit == [("y",)]
    peers.lose = lambda frame: isinstance(frame, ComponentState) or silent("y")(frame)
    peers.feed(3)
    peers.dead.add("y")
    peers.lose = lambda _: False
    peers.take_over("w")
    peers.feed(1)
    assert peers.rows == list(range(peers.ring_position))
