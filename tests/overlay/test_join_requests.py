"""One peer of the ring: what it tells a newcomer, what it does as a neighbour leaves, and what it looks for."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.control.peer import Effect, Message, Peer, Send, key_of
from synergy_nb.overlay.pastry import JoinReply, JoinRequest, Leaving, Pastry, RowRequest
from synergy_nb.overlay.ring import ring_position, shared_digits
from synergy_nb.overlay.routing import Routed
from tests.overlay.naive_ring import ADDRESSES


def joined(*known: str) -> tuple[Peer, Pastry]:
    """A peer in the ring that knows some others; what it sends is looked at, not carried."""
    peer = Peer("me", seed=1)
    pastry = Pastry(peer)
    peer.add(pastry)
    peer.start(0.0)
    peer.call(0.0, pastry.join, None)
    for address in known:
        peer.call(0.0, pastry.consider, address)
    return peer, pastry


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Any]]:
    return [(each.to, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def digits(address: str, other: str = "me") -> int:
    return shared_digits(ring_position(other), ring_position(address))


def test_the_root_answers_a_newcomer_with_all_that_was_learned_but_the_newcomer_itself() -> None:
    peer, pastry = joined("a", "b")
    request = JoinRequest("joiner", 3, ("c", "joiner", "d"))
    effects = peer.receive("b", Routed(key_of("me"), request, "joiner", 1, 2, 1), 1.0)
    ((to, reply),) = sent(effects, JoinReply)
    assert (to, reply.attempt) == ("joiner", 3)
    assert {"c", "d"} <= set(reply.learned)
    assert "joiner" not in reply.learned
    assert reply.leaves == ("me", *pastry.leaves.members)


@pytest.mark.parametrize("alike", [1, 2])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_peer_on_the_way_adds_itself_and_the_rows_of_its_table_that_fit_the_newcomer(hops: int, alike: int) -> None:
    _, pastry = joined(*ADDRESSES, *(f"b{number}" for number in range(200)))
    joiner = next(each for each in (f"j{number}" for number in range(2000)) if digits(each) == alike)
    payload, avoided = pastry.passing(JoinRequest(joiner, 1, ()), hops)
    first = 0 if hops == 1 else min(hops - 1, alike)  # the peers before have added the rows before
    expected = {each for row in range(first, alike + 1) for each in pastry.table.row(row)}
    assert set(payload.learned) == {"me", *expected}
    assert avoided == {joiner}
    assert all(pastry.table.row(row) for row in range(3)), "there is something to add, or to leave out"


def test_who_hears_that_a_neighbour_leaves_tells_its_listeners_and_knows_the_neighbours_of_that_one() -> None:
    peer, pastry = joined("a", "b")
    changed: list[set[str]] = []
    left: list[str] = []
    pastry.on_change.append(lambda: changed.append(set(pastry.leaves.members)))
    pastry.on_left.append(left.append)
    peer.receive("a", Leaving(("b", "c")), 1.0)
    assert left == ["a"]
    assert changed[-1] == {"b", "c"}
    before = len(changed)
    peer.receive("stranger", Leaving(()), 2.0)
    assert len(changed) == before, "nothing has changed for who did not know it"


def test_a_message_that_needs_a_peer_in_an_empty_slot_has_one_looked_for_in_its_row() -> None:
    near = [f"n{number}" for number in range(400)]
    close = sorted(near, key=lambda each: abs(ring_position(each) - ring_position("me")))[:40]
    peer, pastry = joined(*close)
    assert not pastry.leaves.whole
    key = next(
        key
        for key in (key_of(f"k{number}") for number in range(1000))
        if pastry.table.slot(int(key, 16)) >> 4 == 0
        and pastry.table.slot(int(key, 16)) not in pastry.table.entries
        and not pastry.leaves.covers(int(key, 16))
    )
    slot = pastry.table.slot(int(key, 16))
    hops: list[str] = []
    asked = sent(peer.call(50.0, lambda: hops.append(pastry.next_hop(key))), RowRequest)
    assert [message for _, message in asked] == [RowRequest(0, slot & 15)]
    assert sent(peer.call(51.0, pastry.next_hop, key), RowRequest) == [], "once a minute"
    number = int(key, 16)

    def apart(address: str) -> int:
        gap = (ring_position(address) - number) % (1 << 128)
        return min(gap, (1 << 128) - gap)

    known = {"me", *pastry.known()}
    assert hops == [min(known, key=apart)], "whoever is nearest of those that share as many digits"
