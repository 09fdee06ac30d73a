"""A cluster of peers and its applications as a coroutine sees them; ``cluster.py`` gives the same to synchronous code.

The client asks peers, over links like any peer's; the Dask scheduler only starts and keeps the workers. Any peer may
be asked: the one at which a plan is submitted is the application's origin, composes it, and keeps its results.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from synergy_nb.explanation import readable
from synergy_nb.journal import Event
from synergy_nb.placements import check_placement
from synergy_nb.plan import Plan
from synergy_nb.runtime.application import AsyncApplication
from synergy_nb.runtime.feeds import Feed
from synergy_nb.runtime.link import LinkDown, LinkFull, Links, RemoteError
from synergy_nb.runtime.requests import (
    ApplicationState,
    ClusterError,
    Hosts,
    Join,
    Name,
    NotAdmitted,
    PeerState,
    SparkNews,
    Submit,
    Where,
    pack,
    unpack,
)
from synergy_nb.runtime.spark import Sparks, unavailable

__all__ = ["AsyncCluster"]

DEPLOYS = 120.0  # seconds that the parts of a plan on Spark may take to get ready
UNREACHABLE = (LinkDown, TimeoutError, OSError)


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
    spark
        The Spark that the peers use: ``local``, a URL, or nothing (:func:`~synergy_nb.runtime.spark.checked`).

    Attributes
    ----------
    before_close : list
        Coroutine functions that :meth:`close` calls when the applications have been stopped and peers still answer.
    """

    def __init__(
        self,
        links: Links,
        peers: Mapping[str, str],
        closing: Callable[[], Awaitable[None]] | None = None,
        local: object = None,
        spark: str = "",
    ) -> None:
        self.local = local
        self.links = links
        self.peers = dict(peers)
        self._names = {address: name for name, address in self.peers.items()}
        self._closing = closing
        self.spark = Sparks(spark, self._tell_spark)
        self.before_close: list[Callable[[], Awaitable[None]]] = []
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
            await asyncio.gather(*(call() for call in tuple(self.before_close)), return_exceptions=True)
        finally:
            try:
                await self.spark.close()
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

    async def spark_session(self) -> Any:
        """A ``SparkSession`` of one's own on the Spark that the peers use, which is started if need be.

        It ends with the cluster.

        Raises
        ------
        ClusterError
            If there is no Spark to be had; the text says why, and what to do.
        """
        return await self.spark.session()

    # -- applications --------------------------------------------------------------------------------------------

    async def submit(
        self,
        plan: Plan,
        *,
        at: str | None = None,
        feeds: Mapping[str, Feed] | None = None,
        placement: str = "composed",
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
        placement
            How components find their peers: ``composed``, by probes that balance the load, or ``resilient``, so that
            they withstand the largest set of rates (ROD).
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
        try:
            check_placement(plan, placement, len(self.peers))
        except ValueError as error:
            raise ClusterError(str(error)) from None
        number = next(self._numbers)
        application = f"{plan.name}-{number}-{uuid.uuid4().hex[:6]}"
        request = pack(Submit(application, plan.to_bytes(), placement))
        state: ApplicationState | None = None
        origin = ""
        for origin in [self.peers[at]] if at is not None else self._in_turn(number):
            try:
                await self.links.request(origin, "ping", b"", 1.0)
            except UNREACHABLE:
                continue
            try:
                state = unpack(await self.ask(origin, "submit", request, timeout), ApplicationState)
                if state.needs_spark and state.status == "composing":
                    await self.spark.ready()
                    name = pack(Name(application))
                    state = unpack(await self.ask(origin, "decision", name, timeout + DEPLOYS), ApplicationState)
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

    async def _tell_spark(self, news: SparkNews) -> None:
        """Tell all peers; one that does not answer has no use for it."""
        asking = (self.links.request(address, "spark", pack(news), 5.0) for address in self.peers.values())
        await asyncio.gather(*asking, return_exceptions=True)

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
            if asked.engine == "spark" and not self.spark.where:
                why = unavailable() or "it was started without"
                raise ClusterError(f"{operator}: engine: 'spark'; this cluster has no Spark: {why}")
            path = asked.params.get("path")
            if self.local is not None and path is not None and not Path(path).is_file():
                raise ClusterError(f"{operator}: path: {path!r}; expected a file that is there")
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


def _complete(offers: Mapping[str, set[str]], directories: Iterable[Mapping[str, list[str]]]) -> bool:
    """Whether each directory names every peer for each component that it offers."""
    return all(
        address in hosts.get(name, ())
        for hosts in directories
        for address, offered in offers.items()
        for name in offered
    )
