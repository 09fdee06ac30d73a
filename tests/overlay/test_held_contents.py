"""Contents that a peer has: neighbours are told of them, and what one lacks is fetched once."""

from __future__ import annotations

from synergy_nb.control.driver_messages import ObtainContents
from synergy_nb.control.peer import Effect, Instruct, Peer, Send
from synergy_nb.overlay.held_contents import AGAIN, TELLS, ContentsHeld, HeldContents
from synergy_nb.overlay.pastry import Pastry


def alone() -> tuple[Peer, Pastry, HeldContents]:
    """A peer alone in its ring; what it sends is looked at, not carried."""
    peer = Peer("me", seed=1)
    pastry = Pastry(peer)
    contents = HeldContents(peer, pastry)
    peer.add(pastry)
    peer.add(contents)
    peer.start(0.0)
    peer.call(0.0, pastry.join, None)
    return peer, pastry, contents


def told(effects: list[Effect]) -> list[tuple[str, tuple[str, ...]]]:
    sends = [each for each in effects if isinstance(each, Send)]
    return [(each.to, each.message.components) for each in sends if isinstance(each.message, ContentsHeld)]


def fetched(effects: list[Effect]) -> list[object]:
    return [each.instruction for each in effects if isinstance(each, Instruct)]


def until(peer: Peer, end: float) -> list[Effect]:
    found: list[Effect] = []
    while (due := peer.next_timer) is not None and due <= end:
        found += peer.tick(due)
    return found


def test_a_new_neighbour_is_told_at_once_of_what_is_there() -> None:
    peer, pastry, contents = alone()
    assert told(peer.call(0.1, pastry.consider, "early")) == [], "nothing is there"
    peer.call(0.2, contents.hold, ["a", "b"])
    assert told(peer.call(0.3, pastry.consider, "late")) == [("late", ("a", "b"))]


def test_neighbours_are_told_in_turn() -> None:
    peer, pastry, contents = alone()
    for each in ("x", "y"):
        peer.call(0.1, pastry.consider, each)
    peer.call(0.2, contents.hold, ["a"])
    peer.call(0.2, contents.hold, ["b"])  # one turn remains one
    assert [to for to, _ in told(until(peer, 0.3 + 3 * TELLS))] == ["x", "y", "x"]


def test_what_is_lacking_is_fetched_once_and_again_where_it_does_not_come() -> None:
    peer, _, contents = alone()
    peer.call(0.1, contents.hold, ["a"])
    assert fetched(peer.receive("x", ContentsHeld(("a", "b")), 1.0)) == [ObtainContents("x", ("b",))]
    assert fetched(peer.receive("y", ContentsHeld(("b",)), 1.0 + AGAIN / 2)) == [], "it is on its way"
    assert fetched(peer.call(1.0 + AGAIN, contents.want, "b", "y")) == [ObtainContents("y", ("b",))]
    peer.call(1.1 + AGAIN, contents.hold, ["b"])
    assert fetched(peer.call(9.0 + 9 * AGAIN, contents.want, "b", "y")) == [], "it is here"


def test_what_was_dropped_is_told_no_more_and_fetched_only_where_it_is_needed() -> None:
    peer, _, contents = alone()
    peer.call(0.0, contents.hold, ["a", "b"])
    peer.call(1.0, contents.drop, ["a", "unknown"])
    assert fetched(peer.receive("x", ContentsHeld(("a", "b", "unknown")), 2.0)) == [ObtainContents("x", ("unknown",))]
    assert fetched(peer.call(3.0, contents.want, "a", "y")) == [ObtainContents("y", ("a",))]
