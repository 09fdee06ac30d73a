"""Roots of directory entries: whom they copy to as the ring changes, and how often they ask as they join."""

from __future__ import annotations

from typing import Any

from synergy_nb.control.peer import Effect, Message, Peer, Send, key_of
from synergy_nb.overlay._directory_roots import COPIES, PULLS
from synergy_nb.overlay.directory import ROOTS, Directory, Entry, EntryCopy
from synergy_nb.overlay.directory_entries import HELD_FRACTION, Store
from synergy_nb.overlay.directory_messages import Copies, CopiesStored, Found, Pull, Register, Registered
from synergy_nb.overlay.pastry import JoinReply, Pastry
from synergy_nb.overlay.routing import RouteAck, Routed


def bench() -> tuple[Peer, Pastry, Directory]:
    """A peer without a failure detector; what it sends is looked at, not carried."""
    peer = Peer("me", seed=1)
    pastry = Pastry(peer)
    directory = Directory(peer, pastry, None, lease=30.0)
    peer.add(pastry)
    peer.add(directory)
    peer.start(0.0)
    return peer, pastry, directory


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[str, Any]]:
    return [(each.to, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def until(peer: Peer, end: float) -> list[Effect]:
    found: list[Effect] = []
    while (due := peer.next_timer) is not None and due <= end:
        found += peer.tick(due)
    return found


def copy(name: str, host: str = "host") -> EntryCopy:
    return EntryCopy(Entry(name, host, "component", {}, 30.0), 1, 25.0)


NAMES = tuple(f"op{number}" for number in range(8))


def holding() -> tuple[Peer, Pastry, Directory]:
    """A peer alone in its ring, root of everything."""
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, None)
    until(peer, 1.0)
    peer.receive("b", Copies(1, tuple(map(copy, NAMES))), 1.0)
    return peer, pastry, directory


def test_a_peer_without_a_failure_detector_takes_copies_and_says_so() -> None:
    peer, _, directory = holding()
    assert {entry.name for name in NAMES for entry in directory.store.get(name, 1.0)} == set(NAMES)
    assert [message.number for _, message in sent(peer.receive("b", Copies(7, ()), 1.1), CopiesStored)] == [7]


def beside_one() -> tuple[Peer, Pastry]:
    """A root with a neighbour that has copies of all."""
    peer, pastry, _ = holding()
    peer.call(1.0, pastry.consider, "old")
    for to, message in sent(until(peer, 2.0), Copies):
        peer.receive(to, CopiesStored(message.number), 2.0)
    assert sent(until(peer, 9.0), Copies) == []
    return peer, pastry


def test_a_newcomer_beside_a_root_gets_copies_until_it_says_so() -> None:
    for answers in (False, True):
        peer, pastry = beside_one()
        mine = {name for name in NAMES if pastry.root_of(key_of(name)) == "me"}
        peer.call(9.0, pastry.consider, "new")
        copies = sent(until(peer, 9.5), Copies)
        assert {to for to, _ in copies} == {"new"}, "the other has them"
        held = {each.entry.name for _, message in copies for each in message.copies}
        assert held == mine != set(NAMES), "the other is root of the rest"
        for to, message in copies if answers else ():
            peer.receive(to, CopiesStored(message.number), 9.5)
        again = sent(until(peer, 30.0), Copies)
        assert len(copies) + len(again) == (len(copies) if answers else COPIES)


def test_a_root_that_leaves_copies_its_entries_to_its_neighbours_before() -> None:
    peer, pastry = beside_one()
    mine = {name for name in NAMES if pastry.root_of(key_of(name)) == "me"}
    copies = sent(peer.call(10.0, pastry.leave), Copies)
    assert {to for to, _ in copies} == {"old"}
    assert {each.entry.name for _, message in copies for each in message.copies} == mine != set()


def test_a_peer_that_comes_back_sends_no_copies_of_its_earlier_time() -> None:
    peer, pastry = beside_one()
    assert sent(peer.call(10.0, pastry.leave), Copies), "nobody says that they have arrived"
    peer.call(10.1, pastry.join, None)
    peer.call(10.1, pastry.consider, "old")
    assert sent(until(peer, 30.0), Copies) == []


def test_a_newcomer_alone_gets_copies_of_what_was_registered_here() -> None:
    peer, pastry, directory = beside_one_with_entries_of_both()
    for to, message in sent(until(peer, 2.0), Copies):
        peer.receive(to, CopiesStored(message.number), 2.0)
    assert directory.copying == {}
    peer.call(9.0, pastry.consider, "new")
    assert {to for to, _ in sent(until(peer, 9.5), Copies)} == {"new"}, "the other has them"


def test_a_root_that_does_not_answer_is_not_asked_directly_again() -> None:
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, None)
    peer.call(0.5, pastry.consider, "old")
    (name, *_) = (name for name in NAMES if pastry.root_of(key_of(name)) == "old")
    directory.known_roots[name] = "gone"
    peer.call(1.0, directory.lookup, [name], lambda found: None, 60.0)
    assert directory.known_roots == {name: "gone"}
    until(peer, 5.0)
    assert directory.known_roots == {}


def test_a_peer_that_leaves_keeps_nothing_of_its_own_entries() -> None:
    """It is the root of some of them, and the removal of these reaches it after it has left."""
    peer, pastry, directory = beside_one_with_entries_of_both()
    peer.call(10.0, pastry.leave)
    assert len(directory.store) == 0
    peer.call(10.1, pastry.join, None)
    peer.call(10.1, pastry.consider, "old")
    assert sent(until(peer, 30.0), Copies) == []


def beside_one_with_entries_of_both() -> tuple[Peer, Pastry, Directory]:
    """A peer that has registered names of which it is the root, and names of which its neighbour is."""
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, None)
    peer.call(0.5, pastry.consider, "old")
    for name in NAMES:
        peer.call(1.0, directory.register, name, "component", {})
    assert registrations(peer, 1.0)
    assert 0 < len(directory.store) < len(NAMES)
    return peer, pastry, directory


def test_a_confirmation_that_comes_too_late_does_not_hide_others_of_its_message() -> None:
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, None)
    peer.call(0.5, pastry.consider, "old")
    names = [f"n{each}" for each in range(20) if pastry.root_of(key_of(f"n{each}")) == "old"]
    for name in names:
        peer.call(1.0, directory.register, name, "component", {})
    first = registrations(peer, 1.0)
    peer.call(1.1, directory.register, names[0], "component", {"changed": 1})
    peer.call(1.1, directory.unregister, names[1])
    second = registrations(peer, 1.1)
    held = [(each.entry.name, each.entry.kind, each.version) for one in first for each in one.copies]
    changed = [(each.entry.name, each.entry.kind, each.version) for one in second for each in one.copies]
    told: list[bool] = []
    directory.on_confirmed.append(lambda: told.append(True))
    peer.receive("old", Registered((("unknown", "component", 1), *held[:1], *changed[1:], *held[2:]), (), -1), 1.2)
    assert told == []
    peer.receive("old", Registered(tuple(changed[:1]), (), -1), 1.2)
    assert told == [True]
    assert [each.name for each in directory.registered] == [names[0], *names[2:]]


def test_a_peer_remembers_the_roots_of_a_bounded_number_of_names() -> None:
    peer, _, directory = bench()
    names = tuple(f"name {number}" for number in range(ROOTS + 2))
    for count in (ROOTS, ROOTS + 2):
        peer.call(1.0, directory.lookup, names[:count], lambda found: None)
        ticket = next(iter(directory.pending))
        peer.receive("b", Found(ticket, dict.fromkeys(names[:count], ())), 1.0)
        assert list(directory.known_roots) == list(names[count - ROOTS : count])


def test_an_entry_that_its_root_lacks_is_registered_again_at_once() -> None:
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, None)
    peer.call(0.5, pastry.consider, "old")
    name = next(name for name in NAMES if pastry.root_of(key_of(name)) == "old")
    peer.call(1.0, directory.register, name, "component", {})
    (registered,) = registrations(peer, 1.0)
    item: Any = (name, "component", registered.copies[0].version)
    peer.receive("old", Registered((item,), (), -1), 1.1)
    assert registrations(peer, 2.0) == [], "it has it"
    peer.receive("old", Registered((), (item,), -1), 2.0)
    assert registrations(peer, 2.0) == [registered]


def registrations(peer: Peer, end: float) -> list[Register]:
    """What a peer registers, and others acknowledge, until a time."""
    routed = [message for _, message in sent(until(peer, end), Routed)]
    for message in routed:
        peer.receive("old", RouteAck(message.sequence), end)
    return [message.payload for message in routed if isinstance(message.payload, Register)]


def test_a_neighbour_that_does_not_answer_is_asked_four_times_for_entries() -> None:
    peer, pastry, directory = bench()
    peer.call(0.0, pastry.join, "b")
    effects = peer.receive("b", JoinReply(1, (), ("b",)), 1.0)
    assert pastry.joined
    asked = sent([*effects, *until(peer, 10.0)], Pull)
    assert [to for to, _ in asked] == ["b"] * PULLS
    assert directory.pull_completed, "it serves with what it has"


def test_a_renewal_extends_a_lease_by_what_remains_of_it_and_never_shortens_it() -> None:
    store = Store()
    store.put(EntryCopy(Entry("n", "h", "component", {}, 30.0), 1, 10.0), 0.0)
    assert store.renew("n", "component", "h", 1, 5.0, 8.0)
    assert store.renewal("n", "component", "h", 5.0) == (1, 8.0)
    assert store.renew("n", "component", "h", 1, 6.0, 1.0)
    assert store.renewal("n", "component", "h", 6.0) == (1, 7.0)
    assert store.renew("n", "component", "h", 1, 6.0, 1000.0), "it is never longer than a whole one"
    assert store.renewal("n", "component", "h", 6.0) == (1, HELD_FRACTION * 30.0)
    assert not store.renew("n", "component", "h", 2, 6.0)
