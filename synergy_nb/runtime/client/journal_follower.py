"""The merged journals of a cluster's peers, updated several times a second for displays.

The follower asks every peer for the events after the last one received. It merges them into one
:class:`~synergy_nb.events.journal.Journal`, in order of time, and notifies its listeners. It asks a peer that does not
answer less and less often, and records the silence and its end as separate events
(:class:`~synergy_nb.events.PeerSilent`, :class:`~synergy_nb.events.PeerAnswers`); the journal of a restarted peer is
read from its beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from synergy_nb.events import ClusterClosed, Event, PeerAnswers, PeerSilent, decode_events
from synergy_nb.events.journal import Journal
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import (
    ClosedClusterError,
    FollowJournal,
    JournalPart,
    pack,
    unpack,
)
from synergy_nb.runtime.transport.link import LinkDown, LinkFull, RemoteError

__all__ = ["JournalFollower", "follower_of"]

EVERY: Final = 0.2  # seconds between two requests to a peer
# seconds between two requests to a peer, for each peer of the cluster: the more peers, the less often
A_PEER: Final = 0.01
PATIENCE: Final = 2.0  # longest time to wait for an answer, seconds
SLOWEST: Final = 3.0  # longest time between two requests to a peer that does not answer, seconds
FIRST: Final = 0.02  # seconds between two publications while events from before the start are read
LAST: Final = 0.5  # longest time to wait for the last answers when the cluster closes, seconds
SILENT: Final = (LinkDown, LinkFull, TimeoutError, OSError)


class PeerLinks(Protocol):
    """Links of a client, for requests to peers."""

    async def request(self, to: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Return the answer of a peer."""


class FollowedCluster(Protocol):
    """The cluster to follow: its present peers by name, and the links to them."""

    @property
    def peers(self) -> Mapping[str, str]:
        """Peer name to address."""

    @property
    def links(self) -> PeerLinks:
        """Links of a client."""


class JournalFollower:
    """Maintains the journal of a whole cluster; created and used on the event loop of its client."""

    def __init__(
        self,
        # cluster to follow. Its peers may change
        cluster: FollowedCluster,
        *,
        capacity: int = 100_000,  # number of events to retain
        every: float = EVERY,  # seconds between two requests to a peer
        ended: Callable[[JournalFollower], None] | None = None,  # callback with this follower, once, when it ends
    ) -> None:
        self.cluster = cluster
        # the events of all peers. Hold `reading` while you read it from another thread
        self.journal = Journal(capacity)
        self.reading = threading.RLock()
        self.names: dict[str, str] = {}  # peer address to name; it grows with the cluster
        # event that is set when every peer has sent all earlier events, or has not answered
        self.caught_up = asyncio.Event()
        self._every = every
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._wall = time.time() - self._loop.time()  # seconds to add to the loop's time for wall-clock time
        self._listeners: list[Callable[[], None]] = []
        self._arrived: list[Event] = []
        self._following: dict[str, asyncio.Task[None]] = {}
        self._reached: dict[str, tuple[str, int]] = {}  # peer to the name of its journal and the next event's number
        self._silent: set[str] = set()
        self._behind: set[str] = set()  # peers that have not sent all earlier events yet
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Start to follow."""
        if self._task is None and not self._closed:
            self._behind.update(self.cluster.peers.values())
            self._task = self._loop.create_task(self._follow(), name="follow a cluster")

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` on the loop after new events; return a thread-safe function that removes it.

        The follower ends with its last listener.
        """
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)
                if not self._listeners:
                    self._end()

        def leave_threadsafe() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, with all its tasks
                self._loop.call_soon_threadsafe(leave)

        return leave_threadsafe

    async def close(self) -> None:
        """Ask once more, notify the listeners, and stop."""
        if self._closed:
            return
        await asyncio.gather(*self._end(), return_exceptions=True)
        answering = [address for address in self._following if address not in self._silent]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST):
                await asyncio.gather(*map(self._fetch_events, answering), return_exceptions=True)
        self._arrived.append(ClusterClosed(*self._here, ""))
        self._publish()
        self._listeners.clear()

    def _end(self) -> list[asyncio.Task[None]]:
        self._closed = True
        tasks = [*self._following.values(), *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        self.caught_up.set()
        if self._ended is not None:
            self._ended(self)
        return tasks

    # -- on the loop ---------------------------------------------------------------------------------------------

    @property
    def _pace(self) -> float:
        return max(self._every, A_PEER * len(self._following))

    async def _follow(self) -> None:
        while True:
            self._update_peers()
            self._publish()
            if not self._behind:
                self.caught_up.set()
            await asyncio.sleep(self._pace if self.caught_up.is_set() else FIRST)

    def _update_peers(self) -> None:
        """Start to ask new peers, and stop asking peers that have left the cluster."""
        peers = self.cluster.peers
        self.names.update((address, name) for name, address in peers.items())
        for address in peers.values():
            if address not in self._following:
                self._following[address] = self._loop.create_task(self._follow_peer(address), name=f"follow {address}")
        for address in [address for address in self._following if address not in peers.values()]:
            self._following.pop(address).cancel()
            self._behind.discard(address)

    def _publish(self) -> None:
        """Append the received events to the journal, in order of time, and notify the listeners."""
        if not self._arrived:
            return
        arrived, self._arrived = self._arrived, []
        arrived.sort(key=lambda event: (event.time, event.peer, event.sequence))
        with self.reading:
            for event in arrived:
                self.journal.append(event)
        for listener in tuple(self._listeners):
            try:
                listener()
            except Exception as error:  # noqa: BLE001 - one listener must not end it for the others
                self._loop.call_exception_handler({"message": "a listener to a cluster's journal", "exception": error})

    async def _follow_peer(self, address: str) -> None:
        """Ask one peer repeatedly."""
        failures, wait = 0, self._every
        while True:
            try:
                more = await self._fetch_events(address)
            except (*SILENT, RemoteError, ValueError) as error:
                failures += 1
                self._behind.discard(address)
                # a link may fail once and work again; a peer that does not answer for two seconds is silent
                if (failures > 1 or isinstance(error, TimeoutError)) and address not in self._silent:
                    self._silent.add(address)
                    self._arrived.append(PeerSilent(*self._here, address, f"{type(error).__name__}: {error}"[:200]))
                await asyncio.sleep(wait)
                wait = min(2 * wait, SLOWEST)
                continue
            failures, wait = 0, self._every
            if not more:
                self._behind.discard(address)
                await asyncio.sleep(self._pace)

    async def _fetch_events(self, address: str) -> bool:
        """Fetch the next events of a peer; return whether it has more already."""
        request = FollowJournal(*self._reached.get(address, ("", 0)))
        answer = unpack(await self.cluster.links.request(address, "follow", pack(request), PATIENCE), JournalPart)
        self._reached[address] = answer.journal, answer.next
        if address in self._silent:
            self._silent.discard(address)
            self._arrived.append(PeerAnswers(*self._here, address))
        self._arrived += decode_events(answer.events)
        return answer.more

    @property
    def _here(self) -> tuple[float, str]:
        """Return the time and the (empty) peer of events that this follower records itself."""
        return self._wall + self._loop.time(), ""


_FOLLOWERS: weakref.WeakKeyDictionary[AsyncCluster, JournalFollower] = weakref.WeakKeyDictionary()


def follower_of(cluster: AsyncCluster) -> JournalFollower:
    """Return the follower of a cluster, on its event loop: the existing one, or a new one.

    Raises ``ClosedClusterError`` if the cluster is closed.
    """
    follower = _FOLLOWERS.get(cluster)
    if follower is None:
        if cluster.closed:
            raise ClosedClusterError

        def ended(gone: JournalFollower) -> None:
            _FOLLOWERS.pop(cluster, None)
            cluster.before_close.remove(gone.close)

        follower = _FOLLOWERS[cluster] = JournalFollower(cluster, ended=ended)
        cluster.before_close.append(follower.close)
        follower.start()
    return follower
