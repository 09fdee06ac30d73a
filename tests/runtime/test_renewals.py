"""What the authority tells the peers: their next certificates, and what was revoked."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.control.identity import PEER, WrongIdentity, endpoint_of
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity import renewals as renewals_module
from synergy_nb.runtime.identity.authority import Authority, identity_in, revoked_in
from synergy_nb.runtime.identity.renewals import OPERATION, NextCredentials, Renewals
from tests.waiting import turns

A, B, C = "tls://127.0.0.1:1", "tls://127.0.0.1:2", "tls://127.0.0.1:3"


class Told:
    """The peers of an authority: what each was told, and which do not answer how often."""

    def __init__(self, **listens: str) -> None:
        self.authority = Authority("green")
        self.listens = listens
        self.told: list[tuple[str, NextCredentials]] = []
        self.silent: dict[str, int] = {}
        certificates = {name: self.authority.issue(PEER, name).certificate for name in listens}
        self.renewals = Renewals(self.authority, (), certificates, lambda: self.listens, self.request)

    def revoked(self, told: NextCredentials) -> list[str]:
        return revoked_in(told.revocations, self.authority.certificate)

    async def request(self, address: str, operation: str, payload: bytes, timeout: float) -> bytes:
        assert operation == OPERATION
        assert timeout == renewals_module.ANSWER
        if self.silent.get(endpoint_of(address), 0):
            self.silent[endpoint_of(address)] -= 1
            raise TimeoutError
        self.told.append((endpoint_of(address), msgspec.msgpack.decode(payload, type=NextCredentials)))
        return b""


async def test_a_peer_that_was_silent_is_told_again_what_was_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals_module, "AGAIN", 0.0)
    world = Told(a=A, b=B, c=C)
    world.silent[B] = 2
    await world.renewals.revoke("c")
    assert [at for at, _ in world.told] == [A]
    assert world.renewals.telling is not None
    await world.renewals.telling
    assert [(at, world.revoked(told)) for at, told in world.told] == [(at, ["spiffe://green/peer/c"]) for at in (A, B)]
    await world.renewals.close()


async def test_a_peer_that_has_left_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals_module, "AGAIN", 0.0)
    world = Told(a=A, b=B)
    world.silent[B] = 1
    await world.renewals.revoke("user/eve")
    del world.listens["b"]
    assert world.renewals.telling is not None
    await world.renewals.telling
    assert [at for at, _ in world.told] == [A]


async def test_a_peer_that_joins_later_learns_what_was_revoked_and_keeps_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Told(a=A)
    await world.renewals.revoke("user/eve")
    began = world.authority.issue(PEER, "b").certificate
    world.listens["b"] = f"{B}#a.00000000"  # as its worker says, which may say anything
    world.renewals.admit({"b": began})
    await world.renewals.address(1.0)
    at, told = world.told[-1]
    assert (at, world.revoked(told)) == (B, ["spiffe://green/user/eve"])
    assert (
        identity_in(told.certificate).address == f"{B}#{identity_in(began).peer_id}" == world.renewals.address_of("b")
    )


async def test_a_few_peers_at_a_time_get_their_certificates() -> None:
    world = Told(**{f"p{number}": f"tls://127.0.0.1:{number}" for number in range(1, 4 * renewals_module.TOGETHER)})
    asked = most = 0
    ask = world.request

    async def request(address: str, operation: str, payload: bytes, timeout: float) -> bytes:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await turns()  # the others have theirs
        asked -= 1
        return await ask(address, operation, payload, timeout)

    world.renewals = Renewals(world.authority, (), world.renewals.certificates, lambda: world.listens, request)
    await world.renewals.address(1.0)
    assert len(world.told) == len(world.listens)
    assert most == renewals_module.TOGETHER


async def test_peers_are_waited_for_as_long_as_some_take_their_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals_module, "SOON", 0.0)
    world = Told(a=A, b=B, c=C)
    world.silent.update({B: 1, C: 2})
    await world.renewals.address(0.0)  # one takes it each time, the last one long after that
    assert [at for at, _ in world.told] == [A, B, C]
    world = Told(a=A, b=B)
    world.silent[B] = 9
    with pytest.raises(ClusterError, match="have not taken their certificates, and no other has for 0 s: b"):
        await world.renewals.address(0.0)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("c", "name: 'c'; expected a peer, one of a, b, or one such as 'user/ada'"),
        ("", "name: ''; expected a peer"),
        ("owner/ada", "is the owner of the cluster"),
        ("king/ada", "name: 'king/ada'; expected one such as 'peer-3'"),
    ],
)
async def test_a_name_that_nobody_has_revokes_nobody(name: str, wrong: str) -> None:
    world = Told(a=A, b=B)
    with pytest.raises(WrongIdentity, match=wrong):
        await world.renewals.revoke(name)
    assert not world.authority.revoked
