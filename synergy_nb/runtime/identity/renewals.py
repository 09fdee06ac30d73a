"""Certificates of the peers of a cluster are renewed while it runs, and identities are revoked.

Who has the authority sends each peer its next certificate, with the ids that were revoked, in one request
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

from synergy_nb.control.identity import OWNER, PEER, SPARK, USER, Identity, WrongIdentity
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.authority import Authority, half_life, identity_in

__all__ = ["OPERATION", "NextCredentials", "Renewals", "Renewed"]

OPERATION: Final = "credentials"  # operation by which a peer takes its next certificate
ANSWER: Final = 10.0  # seconds within which a peer takes it
SOON: Final = 0.05  # seconds before a peer that starts is asked again
AGAIN: Final = 60.0  # seconds after which a peer that did not answer is asked again, and least time between two rounds

Request = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Request to a peer: its address, the operation, the payload and the seconds until an answer is overdue."""


class NextCredentials(msgspec.Struct, frozen=True):
    """What a peer gets from the authority of its cluster."""

    certificate: str  # its next certificate, PEM; empty if the present one goes on
    revoked: list[str]  # ids whose certificates no longer count


class Renewed(Protocol):
    """What has a certificate in this process."""

    @property
    def credentials(self) -> Any:
        """Its credentials."""

    def renew(self, certificate: str) -> None:
        """Use another certificate from the next connection on."""

    def revoke(self, ids: Sequence[str]) -> None:
        """Refuse what has one of these ids."""


class Renewals:
    """Renews the certificates of one cluster; it belongs to who has the authority."""

    def __init__(
        self,
        authority: Authority,
        own: Sequence[Renewed],  # what has a certificate in this process
        certificates: Mapping[str, str],  # peer name to its present certificate, PEM
        peers: Callable[[], Mapping[str, str]],  # function that returns peer name to address, of living peers
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

    def begin(self) -> None:
        """Renew from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="renew certificates")

    async def close(self) -> None:
        """Renew nothing any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def address(self, patience: float) -> None:
        """Give each peer a certificate with the address at which it listens: without one no other peer speaks to it.

        Raises ``ClusterError`` if a living peer has not taken it within ``patience`` seconds.
        """
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + patience, SOON
        while missing := self._without_address():
            await asyncio.gather(*(self._deliver(name, address) for name, address in missing.items()))
            missing = self._without_address()
            if missing and clock() > deadline:
                raise ClusterError(
                    f"peers have not taken their certificates within {patience:g} s: {', '.join(missing)}"
                )
            if missing:
                await asyncio.sleep(pause)  # a busy peer accepts connections late
                pause = min(2 * pause, 1.0)

    def admit(self, certificates: Mapping[str, str]) -> None:
        """Renew the certificates of more peers, too: peer name to its certificate."""
        self.certificates.update(certificates)

    async def revoke(self, name: str) -> Identity:
        """Refuse a peer, a user or a session from now on, at this process and at all peers that answer.

        ``name``: ``user/ada``, or the name alone. Raises ``WrongIdentity`` if it is none, or is the owner.
        """
        identity = self._named(name)
        self.authority.revoke(identity)
        for each in self._own:
            each.revoke([identity.id])
        told = NextCredentials("", sorted(self.authority.revoked))
        await asyncio.gather(
            *(self._tell(address, told) for each, address in self._peers().items() if each != identity.name)
        )
        return identity

    async def round(self) -> float:
        """Renew what is at half of its life; return the seconds until the next round."""
        now = self.clock()
        due = [each for each in self._own if half_life(each.credentials.certificate) <= now]
        for each in due:
            each.renew(self.authority.renewed(each.credentials.certificate))
        if due:
            self._renewed()
        late = self._without_address() | {
            name: address
            for name, address in self._peers().items()
            if name in self.certificates and half_life(self.certificates[name]) <= now
        }
        await asyncio.gather(*(self._deliver(name, address) for name, address in late.items()))
        waiting = [half_life(each.credentials.certificate) for each in self._own]
        waiting += [half_life(self.certificates[name]) for name in self._peers() if name in self.certificates]
        return max(AGAIN, min(waiting) - self.clock())

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            pause = await self.round()
            await asyncio.sleep(pause)

    def _without_address(self) -> dict[str, str]:
        return {
            name: address
            for name, address in self._peers().items()
            if name in self.certificates
            and not self._gone(name)
            and identity_in(self.certificates[name]).address != address
        }

    async def _deliver(self, name: str, address: str) -> None:
        if name not in self.certificates or self._gone(name):
            return
        certificate = self.authority.renewed(self.certificates[name], address)
        if await self._tell(address, NextCredentials(certificate, sorted(self.authority.revoked))):
            self.certificates[name] = certificate

    async def _tell(self, address: str, told: NextCredentials) -> bool:
        try:
            await self._request(address, OPERATION, msgspec.msgpack.encode(told), ANSWER)
        except (OSError, RuntimeError, TimeoutError, BufferError):  # a silent peer gets it in the next round
            return False
        return True

    def _gone(self, name: str) -> bool:
        return Identity(self.authority.cluster, PEER, name).id in self.authority.revoked

    def _named(self, name: str) -> Identity:
        role, _, rest = name.rpartition("/")
        if role == OWNER:
            raise WrongIdentity(f"name: {name!r} is the owner of the cluster; expected a peer, a user or a session")
        if not role:
            role = PEER if rest in self.certificates else USER
        if role not in (PEER, USER, SPARK):
            raise WrongIdentity(f"name: {name!r}; expected one such as 'peer-3', 'user/ada' or 'spark/ada'")
        return Identity(self.authority.cluster, role, rest)
