"""Peers of other hosts join a cluster that was started here, by tokens of its owner.

The door gives a host certificates (:mod:`~synergy_nb.runtime.identity.joining`). Its workers register at the scheduler;
then each gets the certificate with its address, and its peer enters the ring at once, through a peer of this host.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.identity.joining import JoiningDoor, JoinToken
from synergy_nb.runtime.identity.renewals import Renewals
from synergy_nb.runtime.process.processes import PeerCluster
from synergy_nb.runtime.process.requests import JoinCommand, pack
from synergy_nb.runtime.transport.wire import LinkDown, LinkFull, RemoteError

ADDRESSED: Final = 60.0  # seconds within which a new peer takes the certificate with its address
ANSWER: Final = 30.0  # seconds within which it answers that it has joined
TRIES: Final = 5  # peers through which it tries to join; after that it looks for one by itself
OF_THE_HOST: Final = ("cores", "memory", "of", "record")  # settings that each host makes of its own
FAILURES: Final = (LinkDown, LinkFull, RemoteError, TimeoutError, OSError, ClusterError)


def settings_for_others(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the peers of another host are made with: all but what belongs to a host."""
    return {name: value for name, value in config.items() if name not in OF_THE_HOST}


class HostAdmission:
    """Lets hosts join one cluster."""

    def __init__(
        self,
        started: PeerCluster,
        renewals: Renewals,
        request: Callable[[str, str, bytes, float], Awaitable[bytes]],  # function that sends a request to a peer
        settings: Mapping[str, Any],
        host: str,  # address at which the scheduler listens, and the door
    ) -> None:
        self._started = started
        self._renewals = renewals
        self._request = request
        self._host = host
        self._given: set[str] = set()  # names of the peers that were let in
        self._awaited: set[str] = set()  # of those, the ones that have not come yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False
        self._door = JoiningDoor(renewals.authority, started.scheduler_address, settings, self._taken, self._admitted)
        started.on_elsewhere.append(self._came)

    async def token(self, within: float, hosts: int) -> JoinToken:
        """Return a token that counts for so many seconds and hosts."""
        if not self._open:
            await self._door.open(self._host)
            self._open = True
        return self._door.token(within, hosts)

    async def close(self) -> None:
        """Let nobody in any more."""
        self._started.on_elsewhere.remove(self._came)
        await self._door.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _taken(self, name: str) -> bool:
        return name in self._started.peers or name in self._started.elsewhere or name in self._awaited

    def _admitted(self, certificates: Mapping[str, str]) -> None:
        self._given.update(certificates)
        self._awaited.update(certificates)
        self._renewals.admit(certificates)

    def _came(self, name: str) -> None:
        """Let the peer of a worker that has registered enter the ring."""
        self._awaited.discard(name)
        if name in self._given:
            task = asyncio.get_running_loop().create_task(self._let_join(name), name=f"{name} joins")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _let_join(self, name: str) -> None:
        with contextlib.suppress(*FAILURES, KeyError):  # it may have left again
            await self._renewals.address(ADDRESSED)
            address = self._renewals.address_of(name)
            for contact in tuple(self._started.peers.values())[:TRIES]:
                with contextlib.suppress(*FAILURES):
                    await self._request(address, "join", pack(JoinCommand(contact)), ANSWER)
                    return
