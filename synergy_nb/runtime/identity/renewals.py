"""Certificates of the peers of a cluster are renewed while it runs, and identities are revoked.

Who has the authority sends each peer its next certificate, with the list of what was revoked, in one request
(:class:`NextCredentials`): first the certificate with the address at which it listens, then one at half of each life. A
peer that did not answer is asked again sooner. Nothing stops: the same contexts of TLS load the new certificate, and
open connections go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from synergy_nb.control.identity import OWNER, PEER, SPARK, USER, Identity, WrongIdentity, endpoint_of, with_peer_id
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.authority import Authority, half_life, identity_in

__all__ = ["INVITE", "OPERATION", "REVOKE", "NextCredentials", "Renewals", "Renewed"]

OPERATION: Final = "credentials"  # operation by which a peer takes its next certificate
# operations of the scheduler by which another notebook of the owner revokes, and invites
REVOKE: Final = "synergy_revoke"
INVITE: Final = "synergy_invite"
ANSWER: Final = 10.0  # seconds within which a peer takes it
SOON: Final = 0.05  # seconds before a peer that starts is asked again
TOGETHER: Final = 8  # peers that get one at a time: were it all of 64, none would be served in time on a busy machine
AGAIN: Final = 60.0  # seconds after which a peer that did not answer is asked again, and least time between two rounds

Request = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Request to a peer: its address, the operation, the payload and the seconds until an answer is overdue."""


class NextCredentials(msgspec.Struct, frozen=True):
    """What a peer gets from the authority of its cluster."""

    certificate: str  # its next certificate, PEM; empty if the present one goes on
    revocations: bytes  # the list of the ids whose certificates no longer count, which the authority has signed


class Renewed(Protocol):
    """What has a certificate in this process."""

    @property
    def credentials(self) -> Any:
        """Its credentials."""

    def renew(self, certificate: str) -> None:
        """Use another certificate from the next connection on."""

    def take_revocations(self, revocations: bytes) -> None:
        """Refuse what has one of the ids in a list of the authority."""


class Renewals:
    """Renews the certificates of one cluster; it belongs to who has the authority."""

    def __init__(
        self,
        authority: Authority,
        own: Sequence[Renewed],  # what has a certificate in this process
        certificates: Mapping[str, str],  # peer name to its present certificate, PEM
        # function that returns peer name to where it listens, or to its address, of living peers
        peers: Callable[[], Mapping[str, str]],
        request: Request,
        renewed: Callable[[], object] = lambda: None,  # called after those of this process were renewed
        clock: Callable[[], float] = time.time,  # function that returns the time, seconds since 1970
    ) -> None:
        self.authority = authority
        self._own = own
        self.certificates = dict(certificates)
        self._peers = peers
        self._request = request
        self._renewed = renewed
        self.clock = clock
        self._task: asyncio.Task[None] | None = None
        self._behind: set[str] = set()  # peers that have not answered that they know what was revoked last
        self.telling: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Renew from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="renew certificates")

    async def close(self) -> None:
        """Renew nothing any more."""
        tasks = [task for task in (self._task, self.telling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def address(self, patience: float) -> None:
        """Give each peer a certificate with the address at which it listens: without one no other peer speaks to it.

        Raises ``ClusterError`` if no living peer has taken one for ``patience`` seconds, and some have not.
        """
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + patience, SOON
        missing = self._without_address()
        while missing:
            await self._deliver_to(missing)
            before, missing = len(missing), self._without_address()
            if len(missing) < before:
                deadline, pause = clock() + patience, SOON
            elif clock() > deadline:
                raise ClusterError(
                    f"peers have not taken their certificates, and no other has for {patience:g} s: "
                    f"{', '.join(missing)}"
                )
            if missing:
                await asyncio.sleep(pause)  # a busy peer accepts connections late
                pause = min(2 * pause, 1.0)

    def admit(self, certificates: Mapping[str, str]) -> None:
        """Renew the certificates of more peers, too: peer name to its certificate."""
        self.certificates.update(certificates)

    async def revoke(self, name: str) -> Identity:
        """Refuse a peer, a user or a session from now on, at this process and at all peers, which tell their clients.

        A peer that does not answer is told again. ``name``: ``user/ada``, or that of a peer alone. Raises
        ``WrongIdentity`` if it is none, or is the owner.
        """
        identity = self._named(name)
        self.authority.revoke(identity)
        for each in self._own:
            each.take_revocations(self.authority.revocations())
        self._behind = set(self._peers())
        await self._tell_behind()
        if self._behind and (self.telling is None or self.telling.done()):
            self.telling = asyncio.get_running_loop().create_task(self._tell_again(), name="tell what was revoked")
        return identity

    async def revoke_for(self, name: str) -> dict[str, bytes | str]:
        """Revoke for another notebook of the owner, who has asked the scheduler (:data:`REVOKE`); return the list."""
        try:
            await self.revoke(name)
        except WrongIdentity as error:
            return {"wrong": str(error)}
        return {"revocations": self.authority.revocations()}

    async def invite(self, user: str, public_key: str) -> str:
        """Return a certificate for a guest whose public key is given; raises ``WrongIdentity`` if he can have none."""
        return self.authority.certify(Identity(self.authority.cluster, USER, user), public_key)

    async def invite_for(self, user: str, public_key: str) -> dict[str, str]:
        """Invite for another notebook of the owner, who has asked the scheduler (:data:`INVITE`)."""
        try:
            return {"certificate": await self.invite(user, public_key)}
        except WrongIdentity as error:
            return {"wrong": str(error)}

    def address_of(self, name: str) -> str:
        """Return the address of a peer, with the id that its certificate states."""
        listens = endpoint_of(self._peers()[name])
        return (
            with_peer_id(listens, identity_in(self.certificates[name]).peer_id)
            if name in self.certificates
            else listens
        )

    async def round(self) -> float:
        """Renew what is at half of its life; return the seconds until the next round."""
        now = self.clock()
        due = [each for each in self._own if half_life(each.credentials.certificate) <= now]
        for each in due:
            each.renew(self.authority.renewed(each.credentials.certificate))
        if due:
            self._renewed()
        late = set(self._without_address())
        late |= {name for name in self._certified() if half_life(self.certificates[name]) <= now}
        await self._deliver_to(sorted(late))
        waiting = [half_life(each.credentials.certificate) for each in self._own]
        waiting += [half_life(self.certificates[name]) for name in self._certified()]
        return max(AGAIN, min(waiting) - self.clock())

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            pause = await self.round()
            await asyncio.sleep(pause)

    def _certified(self) -> list[str]:
        """Return the names of the living peers whose certificates are renewed here."""
        return [name for name in self._peers() if name in self.certificates and not self._gone(name)]

    def _without_address(self) -> list[str]:
        return [
            name for name in self._certified() if identity_in(self.certificates[name]).address != self.address_of(name)
        ]

    async def _deliver_to(self, names: Sequence[str]) -> None:
        """Give peers their next certificates, a few at a time."""
        waiting = iter(names)

        async def deliver() -> None:
            for name in waiting:
                await self._deliver(name)

        await asyncio.gather(*(deliver() for _ in range(min(TOGETHER, len(names)))))

    async def _deliver(self, name: str) -> None:
        if name not in self._peers():
            return  # it has left meanwhile
        address = self.address_of(name)
        certificate = self.authority.renewed(self.certificates[name], address)
        if await self._tell(address, NextCredentials(certificate, self.authority.revocations())):
            self.certificates[name] = certificate

    async def _tell_behind(self) -> None:
        """Tell those that may not know it which ids were revoked."""
        told = NextCredentials("", self.authority.revocations())

        async def tell(name: str) -> None:
            if name not in self._peers() or await self._tell(self.address_of(name), told):
                self._behind.discard(name)

        self._behind = {name for name in self._behind & set(self._peers()) if not self._gone(name)}
        await asyncio.gather(*map(tell, sorted(self._behind)))

    async def _tell_again(self) -> None:
        while self._behind:
            await asyncio.sleep(AGAIN)
            await self._tell_behind()

    async def _tell(self, address: str, told: NextCredentials) -> bool:
        try:
            await self._request(address, OPERATION, msgspec.msgpack.encode(told), ANSWER)
        except (OSError, RuntimeError, TimeoutError, BufferError):  # a silent peer gets it later
            return False
        return True

    def _gone(self, name: str) -> bool:
        return Identity(self.authority.cluster, PEER, name).id in self.authority.revoked

    def _named(self, name: str) -> Identity:
        role, _, rest = name.rpartition("/")
        if role == OWNER:
            raise WrongIdentity(f"name: {name!r} is the owner of the cluster; expected a peer, a user or a session")
        if not role and rest not in self.certificates:  # a wrong name would be revoked, and its holder stay
            known = ", ".join(sorted(self.certificates))
            raise WrongIdentity(f"name: {name!r:.100}; expected a peer, one of {known}, or one such as 'user/ada'")
        role = role or PEER
        if role not in (PEER, USER, SPARK):
            raise WrongIdentity(f"name: {name!r}; expected one such as 'peer-3', 'user/ada' or 'spark/ada'")
        return Identity(self.authority.cluster, role, rest)
