"""Peers that lie in the overlay: about the entries and loads of others, about who lives, and in others' names."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.control.peer import Message, key_of
from synergy_nb.events import MessageRefused
from synergy_nb.lifecycle.records.messages import End
from synergy_nb.overlay.directory_entries import Entry, EntryCopy, PeerLoad, Store
from synergy_nb.overlay.directory_messages import (
    Copies,
    LoadUpdate,
    Register,
    Registered,
    Renew,
    RenewCopies,
)
from synergy_nb.overlay.gossip import ALIVE, DEAD, LEFT, News, Ping, PingAck, PingFor, PingForAck
from synergy_nb.overlay.pastry import Leaves
from synergy_nb.overlay.routing import RouteAck, Routed
from tests.one_peer import OnePeer

HOST, LIAR, NEAR = "host", "liar", "near"
FUTURE = (1 << 63) - 1  # a version or an incarnation after which there is none


def root() -> OnePeer:
    """A peer of a ring of four, which is root of all names that it is asked about."""
    one = OnePeer("root")
    one.call(one.synergy.membership.start)
    one.call(one.synergy.pastry.join, None)
    for other in (HOST, LIAR, NEAR):
        one.receive(other, Leaves((), False))
    one.wait(1.0)
    return one


def named(one: OnePeer) -> str:
    """A name of which it is the root."""
    return next(name for name in map(str, range(1000)) if one.synergy.pastry.is_root(key_of(name)))


def copy(name: str, version: int, *, removed: bool = False, load: PeerLoad | None = None, at: str = HOST) -> EntryCopy:
    return EntryCopy(Entry(name, at, "component", {}, 30.0, load), version, 27.0, removed)


def routed(one: OnePeer, payload: Message, origin: str, sender: str, number: int = 1) -> None:
    one.receive(sender, Routed(one.synergy.peer.key, payload, origin, number, 1, number))
    one.sent(RouteAck)


def found(one: OnePeer, name: str) -> list[tuple[str, float | None]]:
    """Hosts of a name with their loads, as a look-up gets them."""
    entries = one.synergy.directory.store.get(name, one.now)
    return [(each.host, None if each.load is None else each.load.promised) for each in entries]


def refused(one: OnePeer) -> list[tuple[str, str]]:
    return [(each.subject, each.message) for each in one.noted(MessageRefused)]


def registered() -> tuple[OnePeer, str]:
    """A root at which a host has registered a component itself, with its load."""
    one = root()
    name = named(one)
    routed(one, Register((copy(name, 5, load=PeerLoad(0.5, version=5)),)), HOST, HOST)
    assert one.sent(Registered) == [(HOST, Registered(((name, "component", 5),), (), 5))]
    one.sent(Copies)
    assert found(one, name) == [(HOST, 0.5)]
    return one, name


def test_what_is_routed_in_the_name_of_another_is_no_message_of_that_one() -> None:
    one = root()
    routed(one, End("r", 1, "a lie"), HOST, LIAR)
    assert refused(one) == [(LIAR, "End")]


def test_only_a_host_registers_and_removes_its_entries() -> None:
    one, name = registered()
    for number, lie in enumerate((copy(name, FUTURE, removed=True), copy(name, 9, load=PeerLoad(0.0, version=9)))):
        routed(one, Register((lie,)), HOST, LIAR, number + 2)
        assert found(one, name) == [(HOST, 0.5)]
        assert one.sent(Registered) == [(HOST, Registered((), ((name, "component", lie.version),), 5))], "it is asked"
    routed(one, Register((copy(name, 9, at=NEAR),)), LIAR, LIAR, 4)
    assert found(one, name) == [(HOST, 0.5)]


def test_what_another_peer_has_handed_on_is_confirmed_with_its_host() -> None:
    one = root()
    name = named(one)
    routed(one, Register((copy(name, 5),)), HOST, NEAR)
    assert found(one, name) == []
    assert one.sent(Registered) == [(HOST, Registered((), ((name, "component", 5),), -1))]
    host = OnePeer(HOST)
    host.call(host.synergy.pastry.join, None)
    host.receive("root", Leaves((), False))
    host.call(host.synergy.directory.register, name, "component")
    host.wait(0.0)
    host.call(host.synergy.directory.publish_load, PeerLoad(0.5))
    version = host.sent(Routed)[0][1].payload.copies[0].version
    host.receive("root", Registered((), ((name, "component", version),), -1))
    host.wait(0.0)
    ((to, message),) = host.sent(Routed)
    assert (to, message.hops, message.origin) == ("root", 1, HOST), "directly"
    one.receive(HOST, message)
    assert found(one, name) == [(HOST, 0.5)]


@pytest.mark.parametrize("sender", [LIAR, "stranger"])
def test_nobody_changes_what_a_host_has_said_itself(sender: str) -> None:
    one, name = registered()
    lies: list[Any] = [
        Copies(1, (copy(name, FUTURE, removed=True),)),
        Copies(2, (copy(name, 9, load=PeerLoad(0.0, version=FUTURE)),), ((HOST, PeerLoad(1.0, version=FUTURE)),)),
        RenewCopies(((name, "component", HOST, 5, 1e9),)),
        LoadUpdate(PeerLoad(0.0, version=FUTURE)),
        Renew(((name, "component", 5),)),
    ]
    for lie in lies:
        one.receive(sender, lie)
        assert found(one, name) == [(HOST, 0.5)]
    assert refused(one) == ([] if sender == LIAR else [(sender, "Copies"), (sender, "Copies"), (sender, "RenewCopies")])
    one.receive(HOST, LoadUpdate(PeerLoad(0.7, version=6)))
    assert found(one, name) == [(HOST, 0.7)]
    one.wait(28.0)
    assert found(one, name) == [], "and no longer than it renews it"


def test_what_a_host_says_itself_replaces_every_copy() -> None:
    store = Store()
    entry = copy("n", FUTURE, removed=True, load=PeerLoad(1.0, version=FUTURE))
    assert store.put(entry, 0.0)
    assert store.put(copy("n", 5, load=PeerLoad(0.5, version=5)), 1.0, itself=True)
    assert [(each.host, each.load and each.load.promised) for each in store.get("n", 1.0)] == [(HOST, 0.5)]
    assert not store.put(entry, 2.0)
    assert not store.put(copy("n", 4, load=PeerLoad(0.1, version=4)), 2.0, itself=True), "a late message of its own"
    assert store.load_version(HOST) == 5


def test_a_copy_lasts_no_longer_than_a_lease_here() -> None:
    store = Store(lease=30.0)
    store.put(EntryCopy(Entry("n", HOST, "component", {}, 1e9), 1, 1e9), 0.0)
    assert store.get("n", 26.9)
    assert not store.get("n", 27.1)


# -- who lives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [DEAD, LEFT])
@pytest.mark.parametrize("incarnation", [0, 10**6, FUTURE])
def test_what_others_say_of_a_death_or_a_leave_is_a_reason_to_look(status: int, incarnation: int) -> None:
    one = root()
    one.sent(Ping)
    one.receive(LIAR, Ping(1, 0, (News(HOST, status, incarnation),)))
    assert not one.synergy.membership.is_dead(HOST)
    for _ in range(40):
        for to, ping in one.sent(Ping):
            if to != LIAR:
                one.receive(to, PingAck(ping.number, 0, ()))
        one.wait(0.25)
    assert not one.synergy.membership.is_dead(HOST), "it answers"


def test_a_dead_peer_says_itself_that_it_lives() -> None:
    one = root()
    one.loses(HOST)
    one.sent(Ping)
    one.receive(LIAR, Ping(1, 0, (News(HOST, ALIVE, 10**6),)))
    assert one.synergy.membership.is_dead(HOST)
    ((to, ping),) = one.sent(Ping)
    assert to == HOST
    one.receive(LIAR, PingForAck(ping.number, HOST, 10**6))
    assert one.synergy.membership.is_dead(HOST)
    one.receive(HOST, PingAck(ping.number, 10**6, ()))
    assert not one.synergy.membership.is_dead(HOST)


def test_only_who_was_asked_answers_for_a_peer() -> None:
    one = root()
    one.call(one.synergy.membership.suspect, HOST)
    one.wait(1.1)
    asked = {to for to, _ in one.sent(PingFor)}
    assert asked == {LIAR, NEAR}
    one.receive("stranger", PingForAck(0, HOST, 0, reached=False))
    suspicion = one.synergy.membership.suspects.get(HOST)
    assert suspicion is not None
    assert suspicion.confirmed == set()
    one.receive(NEAR, PingForAck(0, HOST, 0, reached=False))
    assert suspicion.confirmed == {NEAR}


def test_a_lie_about_its_own_incarnation_leaves_a_peer_one_that_others_take() -> None:
    one = root()
    one.receive(LIAR, Ping(1, 0, (News("root", DEAD, FUTURE),)))
    assert one.synergy.membership.incarnation < 1 << 53


def test_a_forged_copy_suppresses_no_message() -> None:
    one = root()
    name = named(one)
    routed(one, Register((copy(name, 5),)), HOST, LIAR, 7)
    routed(one, Register((copy(name, 5),)), HOST, HOST, 7)
    assert found(one, name) == [(HOST, None)]


def test_what_comes_back_in_its_own_name_is_not_its_own_word() -> None:
    one = root()
    name = named(one)
    routed(one, Register((copy(name, 5, at="root"),)), "root", LIAR)
    assert found(one, name) == []
