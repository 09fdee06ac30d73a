"""A cluster of peers and its applications as a coroutine sees them; ``cluster.py`` gives the same to synchronous code.

The client asks peers, over links like any peer's; the Dask scheduler only starts and keeps the workers. Any peer may
be asked: the one at which a plan is submitted is the application's origin, composes it, and keeps its results.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES, Batch, decode, encode
from synergy_nb.explanation import readable
from synergy_nb.journal import Event
from synergy_nb.plan import Plan
from synergy_nb.runtime.feeds import Feed, items
from synergy_nb.runtime.link import LinkDown, LinkFull, Links, RemoteError
from synergy_nb.runtime.requests import (
    ApplicationState,
    Fetch,
    Fetched,
    Hosts,
    Join,
    Name,
    PeerState,
    Push,
    Pushed,
    Submit,
    Where,
    pack,
    unpack,
)

__all__ = ["AsyncApplication", "AsyncCluster", "ClusterError", "Feed", "NotAdmitted"]

UNREACHABLE = (LinkDown, TimeoutError, OSError)


class ClusterError(RuntimeError):
    """A cluster or one of its peers cannot do what was asked."""


class NotAdmitted(ClusterError):
    """No composition of the plan was admitted; the text says which condition failed where."""


class AsyncCluster:
    """Peers that are reachable over links.

    Parameters
    ----------
    links
        Links of a client.
    peers
        Peer name to address.
    closing
        Called once by :meth:`close`, after the links have been closed.
    local
        What started the peers on this machine, or None.
    """

    def __init__(
        self,
        links: Links,
        peers: Mapping[str, str],
        closing: Callable[[], Awaitable[None]] | None = None,
        local: object = None,
    ) -> None:
        self.local = local
        self.links = links
        self.peers = dict(peers)
        self._names = {address: name for name, address in self.peers.items()}
        self._closing = closing
        self._numbers = itertools.count(1)
        self._applications: dict[str, AsyncApplication] = {}

    async def join(self, timeout: float = 15.0) -> None:
        """Have all peers join one ring, through the first, and wait until the directory knows the components of all.

        Raises
        ------
        ClusterError
            If that takes longer than ``timeout`` seconds.
        """
        first, *others = self.peers.values()
        try:
            async with asyncio.timeout(timeout):
                await self.links.request(first, "join", pack(Join(None)), timeout)
                await asyncio.gather(
                    *(self.links.request(address, "join", pack(Join(first)), timeout) for address in others)
                )
                offers = {address: set(state.offers) - {"sink"} for address, state in (await self._answers()).items()}
                names = sorted(set().union(*offers.values()))
                while not _complete(offers, await self._directories(names)):  # noqa: ASYNC110 - of other processes
                    await asyncio.sleep(0.01)
        except (TimeoutError, LinkDown, RemoteError) as error:
            raise ClusterError(f"the peers have not formed a ring within {timeout:g} s: {error}") from error

    async def _answers(self) -> dict[str, PeerState]:
        states = await self.states()
        return {state.address: state for state in states.values() if state is not None}

    async def _directories(self, names: list[str]) -> list[dict[str, list[str]]]:
        """Hosts of components as the first and the last peer find them."""
        asked = {next(iter(self.peers.values())), list(self.peers.values())[-1]}
        answers = await asyncio.gather(
            *(self.links.request(address, "where", pack(Where(names)), 10.0) for address in asked)
        )
        return [unpack(answer, Hosts).hosts for answer in answers]

    async def close(self) -> None:
        """Stop applications, close the links and what was started for this cluster."""
        try:  # whatever comes of one step, or whoever interrupts it, the next is taken
            stopping = (application.stop() for application in list(self._applications.values()))
            await asyncio.gather(*stopping, return_exceptions=True)
        finally:
            try:
                await self.links.close()
            finally:
                if self._closing is not None:
                    closing, self._closing = self._closing, None
                    await closing()

    def name(self, address: str) -> str:
        """Name of the peer at ``address``."""
        return self._names.get(address, address)

    # -- peers ---------------------------------------------------------------------------------------------------

    async def ask(self, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        """Request to one peer, by name or address.

        Raises
        ------
        ClusterError
            If it does not answer, or answers with an error.
        """
        address = self.peers.get(peer, peer)
        try:
            return await self.links.request(address, operation, payload, timeout)
        except UNREACHABLE as error:
            raise ClusterError(f"peer {self.name(address)} does not answer: {error}") from error
        except (RemoteError, LinkFull) as error:
            raise ClusterError(f"peer {self.name(address)}: {error}") from error

    async def states(self) -> dict[str, PeerState | None]:
        """What each peer says of itself; None for one that does not answer within a second."""

        async def state(address: str) -> PeerState | None:
            try:
                return unpack(await self.links.request(address, "state", b"", 1.0), PeerState)
            except UNREACHABLE:
                return None

        answers = await asyncio.gather(*(state(address) for address in self.peers.values()))
        return dict(zip(self.peers, answers, strict=True))

    async def events(self, subject: str = "") -> list[Event]:
        """Journal of all peers that answer, by time; only of ``subject`` if given."""

        async def journal(address: str) -> list[Event]:
            try:
                answer = await self.links.request(address, "events", msgspec.msgpack.encode(subject), 5.0)
            except UNREACHABLE:
                return []
            return msgspec.msgpack.decode(answer, type=list[Event])

        found = await asyncio.gather(*(journal(address) for address in self.peers.values()))
        return sorted(itertools.chain.from_iterable(found), key=lambda event: (event.time, event.peer, event.sequence))

    # -- applications --------------------------------------------------------------------------------------------

    async def submit(
        self,
        plan: Plan,
        *,
        at: str | None = None,
        feeds: Mapping[str, Feed] | None = None,
        timeout: float = 30.0,
    ) -> AsyncApplication:
        """Have the peers compose and start a plan.

        Parameters
        ----------
        plan
            What is asked.
        at
            Name of the peer that becomes its origin; by default one that answers, in turn.
        feeds
            For each source with connector ``python``, by operator id or by its name: an iterable of dictionaries, of
            Polars tables, or of anything that ``polars.DataFrame`` takes.
        timeout
            Seconds until composition has to be decided.

        Raises
        ------
        NotAdmitted
            If composition was refused; the text says which condition failed where.
        ClusterError
            If no peer answers, or a name is wrong.
        """
        feeding = self._check(plan, at, feeds or {})
        number = next(self._numbers)
        application = f"{plan.name}-{number}-{uuid.uuid4().hex[:6]}"
        request = pack(Submit(application, plan.to_bytes()))
        state: ApplicationState | None = None
        origin = ""
        for origin in [self.peers[at]] if at is not None else self._in_turn(number):
            try:
                await self.links.request(origin, "ping", b"", 1.0)
            except UNREACHABLE:
                continue
            try:
                state = unpack(await self.ask(origin, "submit", request, timeout), ApplicationState)
            except BaseException:  # it may be admitted yet, and nobody would hold it
                with contextlib.suppress(ClusterError):
                    await self.ask(origin, "stop", pack(Name(application)))
                raise
            break
        if state is None:
            raise ClusterError(f"peer {at} does not answer" if at else "no peer of the cluster answers")
        running = AsyncApplication(self, plan, origin, state)
        if state.status == "rejected":
            raise NotAdmitted(f"{plan.name}: {self.readable(state.reason)}")
        self._applications[application] = running
        for operator, feed in feeding.items():
            running.feed(operator, feed)
        return running

    def forget(self, application: str) -> None:
        """No longer stop an application when the cluster closes."""
        self._applications.pop(application, None)

    def readable(self, text: str) -> str:
        """A peer's text with names for addresses."""
        return readable(text, self._names)

    def _in_turn(self, number: int) -> list[str]:
        addresses = list(self.peers.values())
        start = (number - 1) % len(addresses)
        return addresses[start:] + addresses[:start]

    def _check(self, plan: Plan, at: str | None, feeds: Mapping[str, Feed]) -> dict[str, Feed]:
        """Refuse names that this cluster does not have, before anything is started."""
        if not isinstance(plan, Plan):
            raise ClusterError(
                f"plan: a {type(plan).__name__}; expected a Plan, which .sink() at the end of a stream gives"
            )
        if at is not None and at not in self.peers:
            raise ClusterError(f"at: {at!r}; expected a peer of {', '.join(self.peers)}")
        for operator, asked in plan.operators.items():
            if asked.at is not None and asked.at not in self.peers and asked.at not in self._names:
                raise ClusterError(f"{operator}: at: {asked.at!r}; expected a peer of {', '.join(self.peers)}")
            if asked.kind == "sink" and asked.at is not None and (at is None or asked.at not in (at, self.peers[at])):
                raise ClusterError(
                    f"{operator}: at: {asked.at!r}; expected submit(..., at=...) there: results stay there"
                )
        feeding: dict[str, Feed] = {}
        named: dict[str, str] = {}
        for operator in plan.sources:
            asked = plan.operators[operator]
            if asked.params["connector"] != "python":
                continue
            name = asked.params["name"]
            if name in named:
                raise ClusterError(f"{operator}: name: {name!r}, as of {named[name]}; expected a name of its own")
            named[name] = operator
            if operator not in feeds and name not in feeds:
                raise ClusterError(f"{operator}: feeds has no {name!r}; expected an iterable for this source")
            feed = feeds[operator] if operator in feeds else feeds[name]
            if isinstance(feed, pl.DataFrame | Mapping | str | bytes) or not isinstance(feed, Iterable):
                kind = type(feed).__name__
                raise ClusterError(f"{operator}: feed: a {kind}; expected an iterable of tables, such as [table]")
            feeding[operator] = feed
        known = set(named) | set(feeding)
        for name in feeds:
            if name not in known:
                wanted = ", ".join(sorted(known)) or "none: the plan has no python source"
                raise ClusterError(f"feeds: {name!r} is no source of the plan; expected {wanted}")
        return feeding


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

    def __init__(self, cluster: AsyncCluster, plan: Plan, origin: str, state: ApplicationState) -> None:
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
        """Wait until it no longer runs: every stream has ended, or it failed or was stopped."""
        async with asyncio.timeout(timeout):
            while True:
                try:
                    answer = await self.cluster.ask(self.origin, "wait", pack(Name(self.id)), 10.0)
                except ClusterError:
                    state = await self.state()
                else:
                    self.last = unpack(answer, ApplicationState)
                    state = self.last if self.broken is None else await self.state()
                if state.status not in {"composing", "running"}:
                    return state

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
            raise ClusterError(f"{self.id}: {state.status}: {self.cluster.readable(state.reason) or 'on request'}")

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
        self.broken = error if isinstance(error, ClusterError) else ClusterError(f"{self.id}: feed: {error}")
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


def _complete(offers: Mapping[str, set[str]], directories: Iterable[Mapping[str, list[str]]]) -> bool:
    """Whether each directory names every peer for each component that it offers."""
    return all(
        address in hosts.get(name, ())
        for hosts in directories
        for address, offered in offers.items()
        for name in offered
    )
