"""The door by which peers of another host get certificates: who gets in, and who is refused."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from synergy_nb.control.identity import SCHEDULER
from synergy_nb.runtime.identity import joining
from synergy_nb.runtime.identity.authority import Authority
from synergy_nb.runtime.identity.joining import JoiningDoor, JoinRefused, JoinToken, ask_to_join
from synergy_nb.runtime.process._admission import HostAdmission

HERE = "127.0.0.1"
SETTINGS = {"cores": 2.0, "secrets": {"a": b"k"}}


@dataclasses.dataclass
class World:
    """A cluster with a door, and its time."""

    authority: Authority = dataclasses.field(default_factory=Authority)
    now: float = 1000.0
    given: dict[str, str] = dataclasses.field(default_factory=dict)

    @asynccontextmanager
    async def door(self) -> Any:
        door = JoiningDoor(
            self.authority, "tls://127.0.0.1:1", SETTINGS, {"peer-1"}.__contains__, self.given.update, lambda: self.now
        )
        await door.open(HERE)
        try:
            yield door
        finally:
            await door.close()


async def refused(token: JoinToken, name: str = "b", peers: int = 1, host: str = "") -> str:
    with pytest.raises(JoinRefused) as error:
        await ask_to_join(token, name, peers, host)
    return str(error.value)


async def test_a_host_with_a_token_gets_certificates_for_keys_of_its_own() -> None:
    world = World()
    async with world.door() as door:
        token = door.token(60.0, 1)
        got = await ask_to_join(JoinToken.of(str(token)), "b", 2)
    assert list(got.peers) == ["b-1", "b-2"]
    assert [each.identity.id for each in got.peers.values()] == [
        f"spiffe://{world.authority.cluster}/peer/{name}" for name in got.peers
    ]
    assert {name: each.certificate for name, each in got.peers.items()} == world.given
    assert len({each.key for each in got.peers.values()}) == 2
    assert all(each.authority == world.authority.certificate for each in got.peers.values())
    assert (got.scheduler, got.host, got.settings) == ("tls://127.0.0.1:1", HERE, SETTINGS)
    assert token.secret not in repr(token)


async def test_a_token_counts_for_some_hosts_and_some_time() -> None:
    world = World()
    async with world.door() as door:
        token = door.token(60.0, 2)
        for name in ("b", "c"):
            await ask_to_join(token, name, 1)
        assert "used up, or has expired" in await refused(token, "d")
        later = door.token(60.0, 2)
        await ask_to_join(later, "e", 1)
        world.now += 60.0
        assert "used up, or has expired" in await refused(later, "f")
        wrong = msgspec.structs.replace(door.token(60.0, 1), secret="s" * 22)
        assert "it is of another cluster" in await refused(wrong)
    assert len(world.given) == 3


async def test_a_refused_host_uses_nothing_up() -> None:
    world = World()
    async with world.door() as door:
        token = door.token(60.0, 1)
        for name, peers, said in (
            ("peer", 1, "'peer-1' is the name of an existing peer"),
            ("b/c", 1, "expected at most 60 of letters"),
            ("b", 65, "peers: 65; expected 1 to 64 of one host"),
        ):
            assert said in await refused(token, name, peers)
        await ask_to_join(token, "b", 1)


async def test_a_host_that_has_ended_comes_back_under_its_name() -> None:
    """It was told for ever that its name is that of an existing peer."""
    started: Any = SimpleNamespace(peers={}, elsewhere={}, on_elsewhere=[], scheduler_address="tls://127.0.0.1:1")
    authority = Authority()
    renewals: Any = SimpleNamespace(authority=authority, admit=lambda _: None, address=_nothing, address_of=str)
    admission = HostAdmission(started, renewals, _nothing, SETTINGS, HERE)
    token = await admission.token(60.0, 9)
    try:
        first = await ask_to_join(token, "b", 1)
        assert "the name of an existing peer" in await refused(token), "it is about to come"
        started.elsewhere["b-1"] = "tls://127.0.0.1:2"
        for come in started.on_elsewhere:
            come("b-1")
        assert "the name of an existing peer" in await refused(token)
        started.elsewhere.clear()
        again = await ask_to_join(token, "b", 1)
        ids = [each.peers["b-1"].identity for each in (first, again)]
        assert ids[0].id == ids[1].id
        assert ids[0].peer_id != ids[1].peer_id, "whoever means the first one does not reach the second"
    finally:
        await admission.close()


async def _nothing(*_: object) -> bytes:
    return b""


async def test_a_host_whose_address_is_translated_is_refused_by_a_sentence() -> None:
    world = World()
    async with world.door() as door:
        token = door.token(60.0, 1)
        answer = door.answer(joining.HostRequest(token.secret, "192.168.1.7", "b", []), "203.0.113.9")
        assert answer.refused.startswith(
            "the peers would listen at '192.168.1.7', but their host connects from 203.0.113.9: it is behind network "
            "address translation (NAT), so other peers could not connect to it; "
        )
        for stated, seen in ((HERE, f"::ffff:{HERE}"), ("fe80::1%eth0", "fe80::1")):
            assert joining.same_address(stated, seen)
        assert not joining.same_address("laptop", HERE)


async def _told(certified: Callable[[Authority], Any], shown: Authority, token_of: Authority) -> tuple[str, bytes]:
    """What is refused of a door whose certificate is made so, which shows an authority; and what it was sent."""
    sent = b""
    world = World(shown)

    class Other(Authority):
        def issue(self, role: str, name: str = "", address: str = "") -> Any:
            return certified(self)

    world.authority.__class__ = Other
    async with world.door() as door:

        def received(request: Any, seen: str) -> Any:
            nonlocal sent
            sent += request.secret.encode()
            return joining.HostAnswer("it was sent")

        door.answer = received
        token = msgspec.structs.replace(door.token(60.0, 1), fingerprint=joining.fingerprint_of(token_of.certificate))
        return await refused(token), sent


@pytest.mark.parametrize(
    ("certified", "shows", "said"),
    [
        (lambda it: Authority.issue(it, SCHEDULER), "other", "belongs to another cluster than the token"),
        (lambda it: Authority().issue(SCHEDULER), "own", "has no certificate of the cluster that the token names"),
        (lambda it: Authority.issue(it, "peer", "liar"), "own", "/peer/liar; expected a scheduler"),
    ],
)
async def test_a_false_door_is_refused_before_it_learns_the_secret(
    certified: Callable[[Authority], Any], shows: str, said: str
) -> None:
    shown = Authority()
    text, sent = await _told(certified, shown, shown if shows == "own" else Authority())
    assert said in text
    assert sent == b""


async def test_who_says_nothing_or_nonsense_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    async with world.door() as door:
        token = door.token(60.0, 1)
        real = joining.send

        async def nonsense(writer: asyncio.StreamWriter, message: object) -> None:
            if isinstance(message, joining.HostRequest):
                writer.write(joining.LENGTH.pack(joining.LARGEST + 1))
            else:
                await real(writer, message)

        monkeypatch.setattr(joining, "send", nonsense)
        assert "is not a port where hosts join: " in await refused(token)
        monkeypatch.setattr(joining, "send", real)
        await ask_to_join(token, "b", 1)
    assert "nobody answers at" in await refused(token)


@pytest.mark.parametrize(
    "text", ["", "10.0.0.1:1", f"10.0.0.1:70000/{'f' * 43}/{'s' * 22}", f"a/{'f' * 43}/{'s' * 22}"]
)
def test_a_text_that_is_no_token_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^join: not a token; expected ADDRESS:PORT/FINGERPRINT/SECRET"):
        JoinToken.of(text)


def test_a_request_that_is_signed_with_another_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cryptography.x509.load_pem_x509_csr", lambda data: _Unsigned())
    with pytest.raises(ValueError, match="not signed with its own key"):
        joining.requested_key("")


class _Unsigned:
    is_signature_valid = False
