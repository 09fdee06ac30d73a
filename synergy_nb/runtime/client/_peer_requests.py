"""Requests to the peers of a cluster, to one or to all, and what their journals hold."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from synergy_nb.events import REFUSED, Event, decode_events
from synergy_nb.events.peer_names import peer_phrase
from synergy_nb.events.table import Events
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client.waiting_display import displays_waiting
from synergy_nb.runtime.process.requests import (
    AccessRevoked,
    ApplicationId,
    ApplicationState,
    ClosedClusterError,
    ClusterError,
    PeerUnreachable,
    pack,
    unpack,
)
from synergy_nb.runtime.transport.link import DISMISSED, LinkDown, LinkFull, Links, RemoteError

UNREACHABLE = (LinkDown, TimeoutError, OSError)
SILENT_FOR: Final = 60.0  # seconds for which a peer that does not answer may count as alive
STRAGGLING: Final = 1.0  # seconds without another answer after which the peers that have not answered are left out
ASK_AGAIN: Final = 0.5  # seconds until peers are asked again
BROKEN: Final = "its process has ended, or the connection to it is broken"
ENDED: Final = "its process has ended, as nobody listens at its address"


class PeerRequests:
    """Sends requests to peers over the links of a client.

    Attributes
    ----------
    peers : mapping
        Peer name to address.
    links : Links
        Links of the client.
    closed : bool
        Whether no requests are sent any more.
    """

    peers: Mapping[str, str]
    links: Links
    closed: bool
    _names: Mapping[str, str]

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedClusterError

    @property
    def names(self) -> Mapping[str, str]:
        """Peer address to name."""
        return dict(self._names)

    def name(self, address: str) -> str:
        """Return the name of the peer at ``address``."""
        return self._names.get(address, address)

    async def request(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to one peer, by name or address, and return the answer.

        Raises
        ------
        PeerUnreachable
            If it does not answer; the message says after what time, or that the connection was broken.
        AccessRevoked
            If the certificate of this client was revoked.
        ClusterError
            If it answers with an error.
        """
        self._check_open()
        address = self.peers.get(peer, peer)
        try:
            return await self.links.request(address, operation, payload, timeout)
        except UNREACHABLE as error:
            if str(error).endswith(DISMISSED):
                raise AccessRevoked(peer_phrase(self.name(address))) from error
            ended = str(error).endswith(REFUSED)
            broken = ENDED if ended else BROKEN
            why = f"no answer within {seconds(timeout)}" if isinstance(error, TimeoutError) else broken
            raise PeerUnreachable(f"{peer_phrase(self.name(address))} does not answer: {why}", ended=ended) from error
        except (RemoteError, LinkFull) as error:
            raise ClusterError(f"{peer_phrase(self.name(address))}: {error}") from error

    async def request_while_alive(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request that may be repeated, again and again for a minute while its peer may live.

        A peer may be silent for that long because its machine is overloaded, its process was stopped, or it is cut off.
        If its process has ended, nobody listens at its address, and the connection is refused.

        Parameters
        ----------
        peer
            Name or address of the peer.
        operation, payload
            Name of the request, and its argument.
        timeout
            Seconds after which to repeat the request.

        Raises
        ------
        PeerUnreachable
            If its process has ended, or no answer came within a minute.
        ClusterError
            If it answers with an error.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + SILENT_FOR
        while True:
            try:
                return await self.request(peer, operation, payload, timeout)
            except PeerUnreachable as error:
                if error.ended or clock() >= until:
                    raise
                if not isinstance(error.__cause__, TimeoutError):
                    await asyncio.sleep(ASK_AGAIN)

    async def leader(self, application: str, without: str, seconds: float) -> tuple[str, ApplicationState] | None:
        """Return the address of the peer that leads an application, and the state that it knows; None if nobody does.

        Parameters
        ----------
        application
            Id of the application.
        without
            Address of its origin, which is not asked.
        seconds
            Time for which to ask again and again.
        """
        clock = asyncio.get_running_loop().time
        until, request = clock() + seconds, pack(ApplicationId(application))
        while True:
            others = [address for address in self.peers.values() if address != without]
            answers = await self._request_all("leads", request, others, 2.0, STRAGGLING)
            found = next((each for each in answers.items() if each[1]), None)
            if found is not None:
                return found[0], unpack(found[1], ApplicationState)
            if clock() >= until:
                return None
            await asyncio.sleep(ASK_AGAIN)

    async def states(self) -> dict[str, PeerState | None]:
        """Return the state of each peer; None for one that does not answer within a second."""
        answers = await self._request_all("state", b"", self.peers.values(), 1.0)
        found = {address: unpack(answer, PeerState) for address, answer in answers.items()}
        return {name: found.get(address) for name, address in self.peers.items()}

    async def _request_all(
        self, operation: str, payload: bytes, addresses: Iterable[str], timeout: float = 5.0, straggling: float = 5.0
    ) -> dict[str, bytes]:
        """Send a request to peers; return address to answer for those that answer.

        Once a peer has answered, the call ends when no further answer comes for ``straggling`` seconds.

        Raises ``AccessRevoked`` if none answers, and one says that the certificate of this client was revoked.
        """
        self._check_open()
        request = self.links.request
        requests = {asyncio.create_task(request(each, operation, payload, timeout)): each for each in addresses}
        waiting, found = set(requests), dict[str, bytes]()
        dismissed: BaseException | None = None
        try:
            while waiting:
                patience = straggling if found else timeout
                done, waiting = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        found[requests[task]] = task.result()
                    except UNREACHABLE as error:
                        if str(error).endswith(DISMISSED):
                            dismissed = error
                if not done:
                    break
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        if dismissed is not None and not found:
            raise AccessRevoked("no peer answers") from dismissed
        return found

    @displays_waiting(lambda *_: "asking the peers for their journals")
    async def events(self, subject: str = "") -> Events:
        """Return the events in the journals of all peers that answer, by time; ``table()`` makes a table of them.

        With ``subject``, the id of an application or the name of a peer, only the events about it.
        """
        return Events(await self._journaled("events", self.peers.get(subject, subject)), self.names)

    async def account(self, application: str) -> list[Event]:
        """Return the events about an application by time, and then all errors since the first of them.

        A peer that does not answer is waited for once: it is not asked for its errors.
        """
        about = await self._journals("events", application, self.peers.values())
        found = _by_time(about)
        since = min((event.time for event in found), default=-math.inf)
        return [*found, *_by_time(await self._journals("troubles", since, about))]

    async def _journaled(self, operation: str, request: object, peers: Iterable[str] | None = None) -> list[Event]:
        addresses = [self.peers[name] for name in (self.peers if peers is None else peers)]
        return _by_time(await self._journals(operation, request, addresses))

    async def _journals(self, operation: str, request: object, addresses: Iterable[str]) -> dict[str, list[Event]]:
        answers = await self._request_all(operation, msgspec.msgpack.encode(request), addresses)
        return {address: decode_events(answer) for address, answer in answers.items()}


def _by_time(journals: Mapping[str, list[Event]]) -> list[Event]:
    found = itertools.chain.from_iterable(journals.values())
    return sorted(found, key=lambda event: (event.time, event.peer, event.sequence))
