"""Who may send what: names on the links, and a row for each message of an assembled peer."""

from __future__ import annotations

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control import identity
from synergy_nb.control.identity import OPERATIONS, OWNER, PEER, ROLES, USER, Identity, difference, link_name, role_of
from synergy_nb.control.peer import Peer
from synergy_nb.recording.construction import Construction, construct

A, B = "tls://127.0.0.1:1#peer-1.0a1b2c3d", "tls://127.0.0.1:2#peer-1.0a1b2c3d"
ELSEWHERE = "tls://127.0.0.1:1#peer-1.ffffffff"
PEER_1 = Identity("green", PEER, "peer-1", "tls://127.0.0.1:1", "0a1b2c3d")
ADA = Identity("green", USER, "ada")


@pytest.mark.parametrize(
    ("sender", "holder", "said"),
    [
        (A, PEER_1, ""),
        ("user/ada#laptop-1", ADA, ""),
        (A, None, "it has no certificate of this cluster"),
        (B, PEER_1, f"it says it is {B}; its certificate is of spiffe://green/peer/peer-1 at {A}"),
        (A, ADA, f"it says it is {A}; its certificate is of spiffe://green/user/ada"),
        (ELSEWHERE, PEER_1, f"it says it is {ELSEWHERE}; its certificate is of spiffe://green/peer/peer-1 at {A}"),
        ("tls://127.0.0.1:1", PEER_1, f"tls://127.0.0.1:1; its certificate is of spiffe://green/peer/peer-1 at {A}"),
        ("user/eve#laptop-1", ADA, "it says it is user/eve#laptop-1; its certificate is of spiffe://green/user/ada"),
        ("owner/ada#laptop-1", ADA, "it says it is owner/ada#laptop-1; its certificate is of spiffe://green/user/ada"),
        ("user/ada", ADA, "it says it is user/ada; its certificate is of spiffe://green/user/ada"),
        ("user/ada#x://y", ADA, "it says it is user/ada#x://y; its certificate is of spiffe://green/user/ada"),
        ("owner/x#1", PEER_1, f"it says it is owner/x#1; its certificate is of spiffe://green/peer/peer-1 at {A}"),
        (A, Identity("green", PEER, "new"), "its certificate is of spiffe://green/peer/new at no address"),
    ],
)
def test_a_sender_is_who_its_certificate_says(sender: str, holder: Identity | None, said: str) -> None:
    assert difference(sender, holder).endswith(said)
    assert bool(difference(sender, holder)) == bool(said)


def test_who_starts_peers_reaches_them_before_they_have_a_certificate_with_their_address() -> None:
    early = Identity("green", PEER, "peer-1", "", "0a1b2c3d")
    assert not difference(A, early, listens=False)
    assert difference(A, early)
    assert difference(ELSEWHERE, early, listens=False)
    assert difference("tls://127.0.0.1:1", Identity("green", PEER, "unmarked"), listens=False)
    assert difference(B, PEER_1, listens=False)


@pytest.mark.parametrize("role", [OWNER, USER, PEER])
def test_the_name_on_the_links_states_the_role(role: str) -> None:
    who = Identity("green", role, "ada", A if role == PEER else "")
    assert role_of(link_name(who, "laptop-1")) == role
    assert not difference(link_name(who, "laptop-1"), who)


def test_each_message_of_an_assembled_peer_has_a_row() -> None:
    peer = construct(Construction(A, PeerConfig(name="a")), Peer).peer
    assert {kind.__name__ for kind in peer.message_types} == set(identity.MESSAGES)


def test_the_rows_name_roles_and_no_guest_administers_peers() -> None:
    for table in (identity.MESSAGES, OPERATIONS, identity.CHANNELS):
        assert all(roles and roles <= set(ROLES) for roles in table.values())
    assert not any({USER, OWNER} & roles for roles in identity.MESSAGES.values())
    for operation in ("credentials", "join", "leave", "area", "cut", "load", "spark", "record"):
        assert OPERATIONS[operation] == {OWNER}
