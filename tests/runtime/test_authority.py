"""The authority of a cluster, what TLS makes of its certificates, and the folder of credentials."""

from __future__ import annotations

import os
import ssl
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from synergy_nb.control.identity import Identity, WrongIdentity
from synergy_nb.overlay.ring import ring_position
from synergy_nb.runtime.identity import credential_folder
from synergy_nb.runtime.identity.authority import (
    LIFE,
    Authority,
    Credentials,
    half_life,
    identity_in,
    public_key_of,
    revoked_in,
)
from synergy_nb.runtime.identity.credential_folder import CredentialError
from synergy_nb.runtime.identity.security import IdentitySecurity, identity_of

GREEN = Authority("green")
SCHEDULER = "tls://127.0.0.1:8786"


def security(role: str = "peer", name: str = "peer-1", address: str = "", of: Authority = GREEN) -> IdentitySecurity:
    return IdentitySecurity(of.issue(role, name, address))


def met(listens: IdentitySecurity, connects: IdentitySecurity) -> tuple[Identity | None, Identity | None]:
    """Whom each end of a TLS connection sees, of which every byte passes in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = listens.get_listen_args("worker")["ssl_context"].wrap_bio(there, back, server_side=True)
    client = connects.get_connection_args("worker")["ssl_context"].wrap_bio(back, there)
    ends = [client, server]
    while ends:
        for end in tuple(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    comms = (SimpleNamespace(extra_info={"peercert": end.getpeercert()}) for end in (server, client))
    seen = tuple(map(identity_of, comms))
    return seen[0], seen[1]


# -- identities --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (("Green", "peer", "a"), "cluster: 'Green'"),
        (("green", "king", "a"), "role: 'king'; expected one of peer, owner, user, scheduler, spark"),
        (("green", "peer", ""), "name: ''"),
        (("green", "user", "a/b"), "name: 'a/b'"),
        (("green", "user", "a" * 65), "name: 'a"),
    ],
)
def test_an_identity_that_there_cannot_be_is_refused_by_its_field(fields: tuple[str, str, str], wrong: str) -> None:
    with pytest.raises(WrongIdentity, match=wrong):
        Identity(*fields)


@pytest.mark.parametrize("text", ["", "spiffe://green", "https://green/peer/a", "spiffe://green/peer/a/b"])
def test_a_text_that_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(WrongIdentity, match="id: "):
        Identity.of(text)


# -- certificates ------------------------------------------------------------------------------------------------------


def test_both_ends_of_a_connection_see_who_the_other_is() -> None:
    listens = security(address="tls://127.0.0.1:1")
    assert met(listens, security("user", "ada")) == (
        Identity("green", "user", "ada"),
        Identity("green", "peer", "peer-1", "tls://127.0.0.1:1", listens.identity.nonce),
    )


def test_certificates_of_another_authority_do_not_count_at_either_end_whatever_its_name() -> None:
    other = security(of=Authority("green"))
    with pytest.raises(ssl.SSLError):
        met(security(), other)
    with pytest.raises(ssl.SSLError):
        met(other, security())


@pytest.mark.parametrize("skew", [-LIFE - 1.0, 2 * 3600.0], ids=["ended", "not yet valid"])
def test_a_certificate_counts_in_its_time_only(skew: float) -> None:
    authority = Authority.from_bytes(GREEN.to_bytes(), clock=lambda: time.time() + skew)
    with pytest.raises(ssl.SSLError, match=r"certificate (has expired|is not yet valid)"):
        met(security(), security(of=authority))


def test_a_renewed_certificate_is_of_the_same_holder_and_key_and_has_the_address() -> None:
    began = GREEN.issue("peer", "peer-1").certificate
    renewed = GREEN.renewed(GREEN.renewed(began, "tls://127.0.0.1:7"))
    nonce = identity_in(began).nonce
    assert identity_in(renewed) == Identity("green", "peer", "peer-1", "tls://127.0.0.1:7", nonce)
    assert public_key_of(renewed) == public_key_of(began)


def test_the_id_of_a_peer_is_drawn_by_the_authority_and_stays_wherever_it_listens() -> None:
    """Nobody chooses his key on the ring: neither by a name, as the nonce is not known before, nor by a port."""
    one, other = GREEN.issue("peer", "peer-1"), GREEN.issue("peer", "peer-1")
    assert one.identity.peer_id != other.identity.peer_id
    addresses = [identity_in(GREEN.renewed(one.certificate, f"tls://127.0.0.1:{port}")).address for port in (1, 2)]
    assert addresses == [f"tls://127.0.0.1:{port}#{one.identity.peer_id}" for port in (1, 2)]
    assert len({ring_position(each) for each in addresses}) == 1
    moved = f"tls://127.0.0.1:3#{other.identity.peer_id}"  # as a peer may say that it listens
    assert identity_in(GREEN.renewed(one.certificate, moved)).peer_id == one.identity.peer_id
    assert not GREEN.issue("user", "ada").identity.nonce


def test_it_is_renewed_at_half_of_its_life() -> None:
    authority = Authority(life=3600.0, clock=lambda: 10_000.0)
    assert half_life(authority.issue("user", "ada").certificate) == 10_000.0 + 1800.0


def test_only_certificates_of_the_authority_are_renewed() -> None:
    with pytest.raises(WrongIdentity, match="certificate: it is not of green"):
        GREEN.renewed(Authority("green").issue("peer", "peer-1").certificate)


def test_who_keeps_its_key_sends_the_public_one() -> None:
    """As a host does that joins by a token."""
    holder = Authority("green").issue("peer", "far")
    certificate = GREEN.certify(Identity("green", "peer", "far"), public_key_of(holder.certificate))
    joined = IdentitySecurity(Credentials(GREEN.certificate, certificate, holder.key))
    assert met(security(), joined)[0] == joined.identity
    assert joined.identity.id == "spiffe://green/peer/far"
    with pytest.raises(WrongIdentity, match="public_key: "):
        GREEN.certify(Identity("green", "peer", "far"), "nothing")
    with pytest.raises(WrongIdentity, match="expected one of spiffe://green"):
        GREEN.certify(Identity("blue", "peer", "far"), public_key_of(holder.certificate))


def test_what_was_revoked_is_never_certified_again() -> None:
    authority = Authority("green")
    held = authority.issue("user", "eve")
    authority.revoke(held.identity)
    kept = Authority.from_bytes(authority.to_bytes())
    for each in (authority, kept):
        assert each.revoked == {"spiffe://green/user/eve"}
        with pytest.raises(WrongIdentity, match="spiffe://green/user/eve was revoked"):
            each.issue("user", "eve")
        with pytest.raises(WrongIdentity, match="was revoked"):
            each.renewed(held.certificate)
    with pytest.raises(WrongIdentity, match="expected one of spiffe://green"):
        authority.revoke(Identity("blue", "user", "eve"))


def test_only_the_authority_says_what_was_revoked() -> None:
    authority, other = Authority("green"), Authority("green")
    holder = IdentitySecurity(authority.issue("owner", "ada"))
    holder.take_revocations(authority.revocations())
    assert not holder.revoked
    for each in (authority, other):
        each.revoke(Identity("green", "user", "eve"))
    lists = [other.revocations(), b"x", authority.revocations().replace(b"eve", b"bob")]
    for false in lists:
        with pytest.raises(WrongIdentity, match="a list that the authority of this cluster has not signed"):
            holder.take_revocations(false)
    assert not holder.revoked
    first = authority.revocations()
    grown: list[int] = []
    holder.on_revoked.append(lambda: grown.append(len(holder.revoked)))
    authority.revoke(Identity("green", "peer", "peer-1"))
    for told in (first, Authority.from_bytes(authority.to_bytes()).revocations(), first):
        holder.take_revocations(told)
    assert holder.revoked == {"spiffe://green/user/eve", "spiffe://green/peer/peer-1"}
    assert revoked_in(holder.revocations, authority.certificate) == sorted(holder.revoked)
    assert grown == [1, 2]


def test_an_authority_that_was_kept_issues_for_the_same_cluster() -> None:
    kept = Authority.from_bytes(GREEN.to_bytes())
    assert met(security(), security("user", "ada", of=kept))[0] == Identity("green", "user", "ada")
    with pytest.raises(msgspec.ValidationError):
        Authority.from_bytes(b"{}")


def test_nobody_prints_a_key() -> None:
    held = GREEN.issue("user", "ada")
    assert repr(held) == "<credentials of spiffe://green/user/ada>"
    assert "PRIVATE" not in repr(IdentitySecurity(held))


# -- TLS of Dask -------------------------------------------------------------------------------------------------------


def test_a_renewed_certificate_counts_from_the_next_connection_on() -> None:
    listens, connects = security(), security("user", "ada")
    contexts = listens.get_listen_args("worker")["ssl_context"], connects.get_connection_args("client")["ssl_context"]
    listens.renew(GREEN.renewed(listens.credentials.certificate, "tls://127.0.0.1:9"))
    connects.renew(GREEN.renewed(connects.credentials.certificate))
    assert met(listens, connects)[1] == listens.identity
    assert listens.identity.listens == "tls://127.0.0.1:9"
    assert contexts == (
        listens.get_listen_args("scheduler")["ssl_context"],
        connects.get_connection_args("worker")["ssl_context"],
    )


def test_a_certificate_of_another_holder_or_key_is_not_taken() -> None:
    held = security()
    for other in (GREEN.issue("peer", "peer-2"), GREEN.issue("peer", "peer-1")):
        with pytest.raises(WrongIdentity, match="expected one of spiffe://green/peer/peer-1 for the same key"):
            held.renew(other.certificate)
    assert met(held, held)[0] == held.identity


def test_a_comm_without_certificate_or_without_an_id_has_no_identity() -> None:
    for certificate in (None, {}, {"subjectAltName": (("DNS", "dask-internal"),)}):
        assert identity_of(SimpleNamespace(extra_info={"peercert": certificate})) is None


# -- the folder of credentials -----------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SYNERGY_CREDENTIALS", str(tmp_path / "held"))
    return tmp_path / "held"


def test_credentials_are_found_by_the_address_of_the_scheduler_until_they_are_removed(place: Path) -> None:
    held = GREEN.issue("owner", "ada")
    path = credential_folder.keep(SCHEDULER, GREEN.issue("owner", "eve"))
    assert credential_folder.keep(SCHEDULER, held) == path
    assert credential_folder.find(SCHEDULER) == held
    assert credential_folder.find("tls://127.0.0.1:8787") is None
    assert (place.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    credential_folder.remove(SCHEDULER)
    assert credential_folder.find(SCHEDULER) is None
    assert list(place.iterdir()) == []


def test_credentials_that_others_can_read_are_refused(place: Path) -> None:
    path = credential_folder.keep(SCHEDULER, GREEN.issue("owner", "ada"))
    path.chmod(0o640)
    with pytest.raises(CredentialError, match="has mode 0640; expected 0600"):
        credential_folder.find(SCHEDULER)
    path.chmod(0o600)
    place.chmod(0o755)
    with pytest.raises(CredentialError, match="has mode 0755; expected 0700"):
        credential_folder.keep(SCHEDULER, GREEN.issue("owner", "ada"))
    with pytest.raises(CredentialError, match="has mode 0755"):
        credential_folder.find(SCHEDULER)


def test_credentials_of_another_user_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credential_folder.keep(SCHEDULER, GREEN.issue("owner", "ada"))
    monkeypatch.setattr(os, "getuid", lambda: -2)
    with pytest.raises(CredentialError, match="belongs to another user"):
        credential_folder.find(SCHEDULER)


def test_damaged_credentials_are_named(place: Path) -> None:
    credential_folder.keep(SCHEDULER, GREEN.issue("owner", "ada")).write_bytes(b"{}")
    with pytest.raises(CredentialError, match=r"is damaged: .*; remove it"):
        credential_folder.find(SCHEDULER)


def test_the_folder_is_that_of_the_session_or_of_the_users_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SYNERGY_CREDENTIALS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert credential_folder.folder() == tmp_path / "synergy"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert credential_folder.folder() == tmp_path / "state" / "synergy" / "credentials"
