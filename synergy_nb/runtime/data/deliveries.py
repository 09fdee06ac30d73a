"""The requests of notebooks at a peer: pushed rows and fetched results."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.events.application_states import LASTING, Status
from synergy_nb.runtime.data.host import Host
from synergy_nb.runtime.process.requests import AwaitCopies, Fetch, FetchedResults, Push, Pushed, pack, unpack

__all__ = ["POLL", "Deliveries"]

SOURCE_START: Final = 3.0  # seconds for which tuples may arrive before their source has started
NOT_HERE: Final = Pushed(0, ORIGIN, ORIGIN, gone=True)
PAUSE: Final = 0.02  # seconds between two looks whether what is on its way to this peer is here
POLL: Final = 8.0  # seconds after which a waiting request is answered with the present state


class Deliveries:
    """Answers requests for results and accepts pushed rows."""

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop, status: Callable[[str], Status]) -> None:
        self._host = host  # host of the peer's sinks and sources
        self._loop = loop
        # function that returns the status of an application whose sinks may be here, by its id; ValueError for others
        self._status = status

    async def fetch(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.Fetch`."""
        request = unpack(payload, Fetch)
        if not self._host.ended.of(request.application):  # a peer of a sink remembers nothing else of what has ended
            self._status(request.application)
        since = None if request.since is None else Point(*request.since)
        deadline, missed = self._loop.time() + min(request.wait, POLL), 0
        while True:
            try:
                if request.last:
                    return await self._look(request, since, deadline)
                found = self._host.fetch(request.application, request.sink, request.reader, since, request.max_bytes)
                missed += found.missed
                left = deadline - self._loop.time()
                nothing = found.start == found.end  # otherwise there were only promises, and the request waits on
                over = bool(self._host.ended.of(request.application))
                if found.items or found.finished or (nothing and (over or left <= 0)):
                    return pack(FetchedResults(found.items, found.start, found.end, found.finished, missed=missed))
                since = found.end
                if nothing:
                    await self._host.arrival(request.application, request.sink, since, left)
            except LookupError:
                point = since or ORIGIN
                if self._host.restores(request.application):
                    if self._loop.time() >= deadline:
                        return pack(FetchedResults([], point, point, finished=False))
                    await asyncio.sleep(PAUSE)
                    continue
                if self._status(request.application) in LASTING:
                    raise
                return pack(FetchedResults([], point, point, finished=False, gone=True))

    async def _look(self, request: Fetch, since: Point | None, deadline: float) -> bytes:
        """Answer a request that moves no reader on; with a point it waits for something after that."""
        while True:
            found = self._host.look(request.application, request.sink, request.last, since, request.between)
            over = found.finished or bool(self._host.ended.of(request.application))
            left = deadline - self._loop.time()
            if found.items or found.missed or over or since is None or left <= 0:
                return pack(FetchedResults(found.items, found.start, found.end, over, missed=found.missed))
            since = max(since, found.end)
            await self._host.arrival(request.application, request.sink, since, left)

    async def push(self, payload: bytes) -> bytes:
        """Answer a :class:`~synergy_nb.runtime.process.requests.Push`."""
        request, sources = unpack(payload, Push), self._host.pushed
        of, began = (request.application, request.name), self._loop.time()
        while True:
            waited = self._loop.time() - began
            try:
                taken = sources.push(*of, request.item, Point(*request.start), request.age)
                if taken or waited > POLL or not sources.full(*of):
                    return pack(self._progress(*of))
                await self._patiently(sources.room(*of))
            except LookupError:  # the instruction to start may still be on its way to this peer
                if waited > SOURCE_START:
                    return pack(NOT_HERE)
                await asyncio.sleep(PAUSE)

    async def await_copies(self, payload: bytes) -> bytes:
        """Answer an :class:`~synergy_nb.runtime.process.requests.AwaitCopies`."""
        request = unpack(payload, AwaitCopies)
        try:
            beyond = Point(*request.beyond)
            await self._patiently(self._host.pushed.copied(request.application, request.name, request.epoch, beyond))
            return pack(self._progress(request.application, request.name))
        except LookupError:
            return pack(NOT_HERE)

    def _progress(self, application: str, name: str) -> Pushed:
        return Pushed(*self._host.pushed.progress(application, name))

    @staticmethod
    async def _patiently(waiting: Awaitable[None]) -> None:
        """Wait for something that happens here, but not for longer than a client waits for an answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                await waiting
