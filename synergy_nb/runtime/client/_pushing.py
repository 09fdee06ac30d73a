"""The client's end of a source that a program feeds: it sends items to the source's peer, and to one that takes over.

Theory of operation
-------------------
One item is on its way at a time. What was sent is retained in a :class:`.log.pushes.PushWindow`
until the answers of the source's peer say that all copies have it; while there is such an item, and nothing to send, a
second request waits for that. If a source has no backups, nobody could take it over, and what its peer has is not
retained.

Where a source has backups and its peer does not answer, or says that it has no such source, the origin knows who has
taken it over. That peer's answer states where its copy ended, and the window goes on from there. A connection that
breaks is no end of a source without backups either: its peer is asked again over a new one, and has each row once, as
an item is retained until it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from synergy_nb.dataflow.streams.log.log import LIMITS
from synergy_nb.dataflow.streams.log.pushes import PushWindow
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import END, Item, Punctuation, encode
from synergy_nb.events.application_states import LASTING, Status
from synergy_nb.events.peer_names import peer_phrase
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import degrees
from synergy_nb.runtime.process.requests import (
    ApplicationState,
    AwaitCopies,
    ClusterError,
    PeerUnreachable,
    Push,
    Pushed,
    pack,
    unpack,
)

ANSWER_S: Final = 60.0  # longest time for a peer to answer a push, seconds
PATIENCE_S: Final = 1.0  # seconds without an answer after which the origin is asked who has the source
AGAIN_S: Final = 0.1  # seconds until a peer that has just not answered is asked again
NO_EPOCH: Final = -1  # epoch that no source has: a question about copies is then answered at once
GIVES_UP_S: Final = 60.0  # seconds after which a peer that does not answer is given up, if the origin names no other


class PushesRows(Protocol):
    """The part of a cluster that sending needs."""

    async def request(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Send a request to a peer and return its answer."""

    def name(self, address: str) -> str:
        """Return the name of a peer."""


class Fed(Protocol):
    """The application whose source is fed."""

    id: str
    plan: Plan

    @property
    def last(self) -> ApplicationState:
        """The state that the origin has reported last."""

    async def state(self) -> ApplicationState:
        """Return the state of the application as its origin knows it."""


class _Finished(Exception):
    """The application has finished."""


class Sent(msgspec.Struct):
    """An item that is kept until copies have it: encoded, with its start, and the time at which it was first sent."""

    data: bytes
    start: Point
    since: float | None = None


class Pushing:
    """The items of one source on their way to its peers."""

    def __init__(self, cluster: PushesRows, application: Fed, operator: str, most: int = LIMITS.retain) -> None:
        plan = application.plan
        self._cluster = cluster  # cluster of the application
        self._application = application  # the application, which has begun
        self._operator = operator  # operator id of the source
        self._name: str = plan.operators[operator].params["name"]
        self._backed_up = degrees(plan.operators[operator], plan.qos).passive > 1
        self._host = application.last.roles.peers[operator]
        self._window = PushWindow[Sent](most)
        self._clock = asyncio.get_running_loop().time
        self._silent_since: float | None = None

    async def send(self, items: AsyncIterator[Item]) -> None:
        """Send all items; return when the source has them, and all copies of it, or the application has finished.

        Raises ``ClusterError`` if the source's peer does not answer and no other takes the source over; if the one that
        takes it over lacks items that this client does not retain any more; or if the application has ended.
        """
        window = self._window
        following: asyncio.Task[Item | None] | None = None
        asking: asyncio.Task[None] | None = None
        ended = False
        try:
            while True:
                while (sent := window.next) is not None:
                    await self._push(sent)
                if asking is None and not window.empty:
                    asking = asyncio.create_task(self._ask())
                if following is None and not ended and not window.full:
                    following = asyncio.create_task(_next(items))
                waiting = [task for task in (following, asking) if task is not None]
                if not waiting:
                    return
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if asking is not None and asking.done():
                    asking.result()  # its error is that of sending
                    asking = None
                if following is not None and following.done():
                    item, following = following.result(), None
                    ended = item is None
                    if item is not None:
                        self._add(item)
        except _Finished:
            return
        finally:
            for task in (following, asking):
                if task is not None:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await task

    def _add(self, item: Item) -> None:
        self._window.add(item, Sent(encode(item), self._window.end))

    async def _push(self, sent: Sent) -> None:
        """Send an item once."""
        now = self._clock()
        sent.since = now if sent.since is None else sent.since
        push = Push(self._application.id, self._name, sent.data, sent.start, now - sent.since)
        await self._exchange("push", push)

    async def _ask(self) -> None:
        """Ask once whether copies have more."""
        window = self._window
        request = AwaitCopies(self._application.id, self._name, window.epoch, window.start)
        await self._exchange("await copies", request)

    async def _exchange(self, operation: str, request: Push | AwaitCopies) -> None:
        """Send a request, and handle its answer, or that no answer comes."""
        host = self._host
        asked = asyncio.ensure_future(self._cluster.request(host, operation, pack(request), ANSWER_S))
        try:
            while not asked.done():
                await asyncio.wait({asked}, timeout=PATIENCE_S)
                if not asked.done() and self._backed_up and await self._replaced(host):
                    return
            answer = unpack(asked.result(), Pushed)
        except PeerUnreachable as error:
            await self._turn_away(host, error)
            return
        finally:
            asked.cancel()
        if answer.gone:
            where = f"{peer_phrase(self._cluster.name(host))}: name: {self._name!r}"
            await self._turn_away(
                host, ClusterError(f"{where}; expected a python source of {self._application.id} that runs there")
            )
            return
        self._silent_since = None
        end = Point(*answer.end)
        if not self._window.answered(answer.epoch, end, Point(*answer.copied) if self._backed_up else end):
            rows = f"rows {end.position} to {self._window.start.position - 1}"
            raise ClusterError(
                f"{self._operator}: {rows} are lost: {self._cluster.name(host)}, which has taken the source over, "
                "lacks them, as it did not answer for long before"
            )

    async def _replaced(self, host: str) -> bool:
        """Ask the origin whether another peer has the source; raise an error if the application has ended."""
        state = await self._application.state()
        if state.status == Status.FINISHED:
            raise _Finished
        if state.status not in LASTING:
            raise ClusterError(f"{self._application.id} has ended: {state.status}")
        self._host = state.roles.peers.get(self._operator, host)
        return self._host != host

    async def _turn_away(self, host: str, error: ClusterError) -> None:
        """Find the peer to ask next, after one without an answer or without the source.

        Raises ``ClusterError``: the ``error``, if the source has no backups and its peer has not only lost the
        connection, or if nobody takes it over, or nobody answers, for long.
        """
        if not self._backed_up and not _broke(error):
            raise error
        now = self._clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > GIVES_UP_S:
            raise error
        if not await self._replaced(host):
            await asyncio.sleep(AGAIN_S)


async def end_pushed(cluster: PushesRows, application: Fed, operator: str) -> None:
    """End the stream of a source whose program has ended, after the rows that have come from it.

    Raises ``ClusterError`` if its peer does not answer.
    """
    name, host = application.plan.operators[operator].params["name"], application.last.roles.peers[operator]
    while True:
        asked = pack(AwaitCopies(application.id, name, NO_EPOCH, ORIGIN))
        there = unpack(await cluster.request(host, "await copies", asked, ANSWER_S), Pushed)
        if not there.gone:
            end = Punctuation(END, there.end[0], 0.0)
            push = Push(application.id, name, encode(end), Point(*there.end), 0.0)
            if unpack(await cluster.request(host, "push", pack(push), ANSWER_S), Pushed).end[1] == END:
                return
        if (await application.state()).status not in LASTING:
            return
        await asyncio.sleep(AGAIN_S)  # the source has not been opened yet


def _broke(error: ClusterError) -> bool:
    """Whether an error says that a connection broke, while the process at its other end may live and has the source."""
    return isinstance(error, PeerUnreachable) and not error.ended and not isinstance(error.__cause__, TimeoutError)


async def _next(items: AsyncIterator[Item]) -> Item | None:
    """Return the next item; None at the end."""
    return await anext(items, None)
