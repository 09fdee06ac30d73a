"""A submitted plan as a coroutine sees it: its state, its results, its feeds."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES, Batch, decode, encode
from synergy_nb.journal import Event
from synergy_nb.plan import Plan
from synergy_nb.runtime.feeds import Feed, FeedError, items
from synergy_nb.runtime.requests import (
    ApplicationState,
    ClusterError,
    Fetch,
    Fetched,
    Name,
    Push,
    Pushed,
    pack,
    unpack,
)

__all__ = ["AsyncApplication"]


class Door(Protocol):
    """What an application needs of its cluster."""

    async def ask(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Answer of a peer."""

    async def events(self, subject: str = "") -> list[Event]:
        """What the peers' journals hold."""

    def name(self, address: str) -> str:
        """Name of a peer."""

    def readable(self, text: str) -> str:
        """A text with names for addresses."""

    def forget(self, application: str) -> None:
        """The application needs not be stopped any more."""


class AsyncApplication:
    """A submitted plan.

    Attributes
    ----------
    id : str
        Identifies it at all peers.
    plan : Plan
        What was asked.
    origin : str
        Address of the peer that composed it and keeps its results.
    """

    def __init__(self, cluster: Door, plan: Plan, origin: str, state: ApplicationState) -> None:
        self.cluster = cluster
        self.id = state.application
        self.plan = plan
        self.origin = origin
        self.last = state
        self._feeds: set[asyncio.Task[None]] = set()
        # by sink: answers that have come, tables that no reader has been given, those that results() gives again
        self._answers = dict.fromkeys(plan.sinks, 0)
        self._arrived: dict[str, deque[pl.DataFrame]] = {sink: deque() for sink in plan.sinks}
        self._kept: dict[str, list[pl.DataFrame]] = {sink: [] for sink in plan.sinks}
        self._fetching = {sink: asyncio.Lock() for sink in plan.sinks}
        self._ended: set[str] = set()
        self.broken: ClusterError | None = None  # why one of its feeds could not go on

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ: operator id to the name of its peer."""
        return {operator: self.cluster.name(address) for operator, address in self.last.peers.items()}

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: of what is replicated, operator id to the names of its backups' peers."""
        name = self.cluster.name
        return {operator: [name(address) for address in peers] for operator, peers in self.last.backups.items()}

    async def state(self) -> ApplicationState:
        """What the origin knows of it now; ``failed`` where the origin itself does not answer."""
        try:
            answer = await self.cluster.ask(self.origin, "application", pack(Name(self.id)))
        except ClusterError as error:
            self.last = msgspec.structs.replace(self.last, status="failed", reason=str(error))
        else:
            self.last = unpack(answer, ApplicationState)
        if self.broken is not None:
            self.last = msgspec.structs.replace(self.last, status="failed", reason=str(self.broken))
        return self.last

    async def wait(self, timeout: float | None = None) -> ApplicationState:
        """Wait until it no longer runs: every stream has ended, or it failed or was stopped.

        Raises
        ------
        TimeoutError
            If it still runs after ``timeout`` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while (state := await self._news()).status in {"composing", "running"}:
                    pass
                return state
        except TimeoutError:
            raise TimeoutError(f"{self.id} still runs after {timeout:g} s") from None

    async def _news(self) -> ApplicationState:
        """The state as soon as it has changed, or after some seconds as it is."""
        try:
            answer = await self.cluster.ask(self.origin, "wait", pack(Name(self.id)), 10.0)
        except ClusterError:
            return await self.state()
        self.last = unpack(answer, ApplicationState)
        return self.last if self.broken is None else await self.state()

    async def qos(self) -> dict[str, dict[str, Any]]:
        """What each sink measured: delays in seconds, miss rate, tuples/s, against the limit of the plan."""
        return (await self.state()).qos

    # -- results -------------------------------------------------------------------------------------------------

    def sink(self, sink: str | None) -> str:
        """A sink of the plan by its operator id; None means the only one."""
        sinks = self.plan.sinks
        if sink is None:
            if len(sinks) > 1:
                raise ClusterError(f"sink: not given; expected one of {', '.join(sinks)}")
            return sinks[0]
        if sink not in sinks:
            raise ClusterError(f"sink: {sink!r}; expected one of {', '.join(sinks)}")
        return sink

    async def stream(self, sink: str | None = None) -> AsyncIterator[pl.DataFrame]:
        """Results as they come, one table a batch, until the stream ends.

        Raises
        ------
        ClusterError
            If the application has failed or was stopped, and all that had arrived has been taken.
        """
        name = self.sink(sink)
        arrived = self._arrived[name]
        while True:
            while arrived:
                yield arrived.popleft()
            if name in self._ended:
                return
            await self._fetch(name, 1.0)
            if not arrived and name not in self._ended:
                await self._still_wanted()

    async def _fetch(self, sink: str, wait: float) -> None:
        """Have what is at a sink join what has arrived, unless another reader has seen to that.

        A fetch that was interrupted is repeated under its number, and answered as it was: nothing is lost or doubled.
        """
        async with self._fetching[sink]:
            if self._arrived[sink] or sink in self._ended:
                return
            if self.broken is not None:
                raise self.broken
            request = pack(Fetch(self.id, sink, self._answers[sink] + 1, wait=wait))
            answer = unpack(await self.cluster.ask(self.origin, "fetch", request, wait + 10.0), Fetched)
            self._answers[sink] += 1
            found = [decode(item) for item in answer.items]
            self._arrived[sink].extend(item.table for item in found if isinstance(item, Batch))
            if answer.finished:
                self._ended.add(sink)
                if len(self._ended) == len(self.plan.sinks):
                    await self._release()

    async def _release(self) -> None:
        """Give back what the origin keeps for an application that has finished and whose results have all come."""
        with contextlib.suppress(ClusterError, TimeoutError):
            if (await self.wait(2.0)).status == "finished":
                await self.cluster.ask(self.origin, "release", pack(Name(self.id)))
                self.cluster.forget(self.id)

    async def results(self, sink: str | None = None, *, wait: bool = True) -> pl.DataFrame:
        """All results so far as one table; with ``wait``, after the stream has ended.

        Calls add up: what was fetched by an earlier call is in the table again, but not what ``stream`` has given.
        """
        name = self.sink(sink)
        kept, arrived = self._kept[name], self._arrived[name]
        while True:
            kept.extend(arrived)
            arrived.clear()
            if name in self._ended:
                break
            await self._fetch(name, 1.0 if wait else 0.0)
            if arrived or name in self._ended:
                continue
            if not wait:
                break
            await self._still_wanted()
        if kept:
            return pl.concat(kept)
        return pl.DataFrame(schema={column: TYPES[kind] for column, kind in self.plan.schema(name).items()})

    async def _still_wanted(self) -> None:
        """Raise where no result can follow although the stream has not ended."""
        state = await self.state()
        if state.status in {"failed", "rejected", "stopped"}:
            had = sum(table.height for kept in self._kept.values() for table in kept)
            rest = f" ({had} rows had arrived: results(wait=False) gives them)" if had else ""
            why = self.cluster.readable(state.reason) or "on request"
            cause = self.broken.__cause__ if self.broken is not None else None
            raise ClusterError(f"{self.id}: {state.status}: {why}{rest}") from cause

    # -- inputs and end ------------------------------------------------------------------------------------------

    def feed(self, operator: str, feed: Feed) -> None:
        """Send what an iterable yields to a ``python`` source, as fast as the stream takes it."""
        task = asyncio.get_running_loop().create_task(self._feed(operator, feed), name=f"feed {operator}")
        self._feeds.add(task)
        task.add_done_callback(self._fed)

    def _fed(self, task: asyncio.Task[None]) -> None:
        """A feed has ended; what it raised is the application's failure."""
        self._feeds.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self.broken is None:
            ending = asyncio.get_running_loop().create_task(self._break_off(error))
            self._feeds.add(ending)
            ending.add_done_callback(self._feeds.discard)

    async def _break_off(self, error: BaseException) -> None:
        """End the application for a feed that cannot go on, unless that is because the application has ended."""
        if (await self.state()).status not in {"composing", "running"}:
            return
        if isinstance(error, ClusterError):
            self.broken = error
        else:
            what = str(error) if isinstance(error, FeedError) else f"its feed raised {type(error).__name__}: {error}"
            self.broken = ClusterError(what)
            self.broken.__cause__ = error  # with the line of the user's own code
        with contextlib.suppress(ClusterError):
            await self.cluster.ask(self.origin, "stop", pack(Name(self.id)))

    async def _feed(self, operator: str, feed: Feed) -> None:
        host, name = self.last.peers[operator], self.plan.operators[operator].params["name"]
        async for item in items(feed, self.plan.schema(operator), operator):
            request = pack(Push(self.id, name, encode(item)))
            while not unpack(await self.cluster.ask(host, "push", request, 60.0), Pushed).taken:
                pass  # what is downstream has no room: a reader may take its time

    async def stop(self) -> None:
        """End it everywhere; its results go with it."""
        for task in list(self._feeds):
            task.cancel()
        self.cluster.forget(self.id)
        await self.cluster.ask(self.origin, "stop", pack(Name(self.id)))
        self.last = msgspec.structs.replace(self.last, status="stopped")

    async def events(self) -> list[Event]:
        """All that the peers' journals hold about it, by time."""
        return await self.cluster.events(self.id)
