"""A cluster of peers and its applications for coroutines; ``cluster.py`` is the same for synchronous code.

The client sends requests to peers, over links like any peer's; the Dask scheduler only starts and monitors the workers.
Any peer may be asked: the one at which a plan is submitted is the application's origin, composes it, and retains its
results.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import uuid
import weakref
from collections import ChainMap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from synergy_nb.control.identity import WrongIdentity
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.durable.records import DurableError
from synergy_nb.events.application_states import LASTING
from synergy_nb.events.peer_names import readable
from synergy_nb.lifecycle.records.attempts import next_start
from synergy_nb.lifecycle.requests.submission import check_detached, check_submission, known_peers_phrase, unknown_peers
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.placement_modes import placement_of
from synergy_nb.plan.derived.source_readers import with_readers_apart
from synergy_nb.plan.terms.units import duration
from synergy_nb.reporting.application_list import Applications, Identified, chosen_id
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.plan_trials import PlanTrial, trial_of
from synergy_nb.runtime.client._content_shipping import ContentShipping
from synergy_nb.runtime.client._lease_renewals import LEASE, LeaseRenewals
from synergy_nb.runtime.client._led_application import SUCCEEDS, LedApplication
from synergy_nb.runtime.client._origins import Origins
from synergy_nb.runtime.client._peer_requests import STRAGGLING, UNREACHABLE, PeerRequests
from synergy_nb.runtime.client._pushing import end_pushed
from synergy_nb.runtime.client._refusals import refusal
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.error_notices import ErrorNotices, user_sees_output
from synergy_nb.runtime.client.feeds import Rows, check_rows_or_feed
from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.client.waiting_display import displays_waiting
from synergy_nb.runtime.data.spark_servers import SparkServers, unavailable
from synergy_nb.runtime.identity.authority import Credentials, new_key
from synergy_nb.runtime.identity.credential_folder import write_new
from synergy_nb.runtime.identity.renewals import Renewals
from synergy_nb.runtime.process.durable_applications import check_parts, decided, provide_contents
from synergy_nb.runtime.process.error_publisher import NEWCOMERS
from synergy_nb.runtime.process.peer_commands import MOVES_WITHIN
from synergy_nb.runtime.process.requests import (
    ApplicationId,
    ApplicationState,
    ClusterError,
    ListApplications,
    Listed,
    Move,
    Newcomer,
    Outcome,
    PeerUnreachable,
    SparkState,
    Submit,
    pack,
    unpack,
)
from synergy_nb.runtime.process.ring_joining import form_ring
from synergy_nb.runtime.transport.link import LinkFull, Links, RemoteError
from synergy_nb.runtime.transport.wide_area import WideArea
from synergy_nb.traces.rows import row_reader
from synergy_nb.traces.trace_sizes import sizes_of_rows

__all__ = ["AsyncCluster"]

NO_OWNER = "expected a client of the owner of a cluster with an authority, such as Cluster(8)"
DEPLOYS = 120.0  # seconds that the parts of a plan on Spark may take until they take tuples
RESTARTS = 90.0  # seconds within which it is decided whether an application of a durable folder goes on
MOST_ENDED = 1000  # ended applications that are retained with their results, so that they can be found again
MOST_BYTES = 256 << 20  # limit of the bytes of their results; those of the applications that ended first are dropped


def _submitting(cluster: AsyncCluster, plan: Plan, *, placement: str = "composed", **_: object) -> str:
    """Describe what the submission of a plan waits for."""
    name = getattr(plan, "name", "the plan")
    placing = f"placing {name}: a peer that does so for the first time loads its solver"
    return cluster.spark.doing or (placing if placement == "resilient" else f"composing {name}")


class Admitting(Protocol):
    """The part that lets other hosts join."""

    async def token(self, within: float, hosts: int, /) -> object:
        """Return a token that is valid for so many seconds and hosts."""


class AsyncCluster(PeerRequests):
    """Peers that are reachable over links.

    Parameters
    ----------
    links
        Links of a client.
    peers
        Peer name to address.
    closing
        Callback for :meth:`close`, called once after the links were closed.
    local
        Object that started the peers on this machine, or None.
    spark
        Spark server of the peers: ``local``, URLs, or none (:func:`~synergy_nb.runtime.data.spark_servers.checked`).
    notices
        Writer of the errors of peers, for users; None: the errors are only in the journals of the peers.
    security
        ``distributed.Security`` with which the scheduler and the peers are reached; None: without TLS.
    renewals
        Renewal and revocation of certificates, if the authority is this client's; else None.
    revoking
        Coroutine function that has the authority elsewhere revoke a name; None: this client may not.
    inviting
        Coroutine function that has it certify a guest, by name and public key; None: this client may not.

    Attributes
    ----------
    before_close : list
        Coroutine functions that :meth:`close` calls after stopping the applications, while peers still answer.
    on_replaced : list
        Functions that are called with the handle of an application that took the place of another one, and with a
        handle of that one.
    on_closed : list
        Functions that it calls at the end, when the peers that were started here have ended.
    closed : bool
        Whether it sends no more requests.
    area : WideArea or None
        Delays that were imposed on the links; None if there are none.
    recording : str
        File to which the peers record; empty if they do not.

    Examples
    --------
    :func:`~synergy_nb.start_cluster` starts peers on this machine, :func:`~synergy_nb.connect_cluster` makes peers of
    the workers of a Dask cluster. Both return one of these, which ``async with`` closes:

    >>> import asyncio
    >>> from synergy_nb import source, start_cluster
    >>> async def counted():
    ...     packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
    ...     async with await start_cluster(2) as cluster:
    ...         application = await cluster.submit(packets.count(window="1 s", name="packets").sink())
    ...         return (await application.results())["packets"].to_list()
    >>> asyncio.run(counted())
    [1150, 1043]
    """

    def __init__(
        self,
        links: Links,
        peers: Mapping[str, str],
        closing: Callable[[], Awaitable[None]] | None = None,
        local: object = None,
        spark: Sequence[str] = (),
        notices: ErrorNotices | None = None,
        security: Any = None,
        renewals: Renewals | None = None,
        revoking: Callable[[str], Awaitable[object]] | None = None,
        inviting: Callable[[str, str], Awaitable[str]] | None = None,
    ) -> None:
        self.closed = False
        self.security = security
        self.renewals = renewals
        self._revoke = revoking if renewals is None else renewals.revoke
        self._invite = inviting if renewals is None else renewals.invite
        self.admission: Admitting | None = None
        self.area: WideArea | None = None
        self.recording = ""
        self.notices = notices
        self.local = local
        self.links = links
        self.peers: dict[str, str] = dict(peers)
        self._names: dict[str, str] = {address: name for name, address in self.peers.items()}
        if notices is not None:
            notices.names = self._names
        self._closing = closing
        self._meeting: set[asyncio.Task[None]] = set()
        self.spark = SparkServers(spark, self._publish_spark)
        self.before_close: list[Callable[[], Awaitable[object]]] = []
        self.on_replaced: list[Callable[[AsyncApplication, AsyncApplication], object]] = []
        self.on_closed: list[Callable[[], object]] = []
        self._numbers = itertools.count(1)
        self._origins = Origins(self._request_all, same_machine=local is not None)
        self._applications: dict[str, AsyncApplication] = {}  # submitted here; stopped when this closes
        self._adopted: dict[str, AsyncApplication] = {}  # found again by application(); they go on when this closes
        leased = ChainMap[str, AsyncApplication](self._applications, self._adopted)
        self._renewals = LeaseRenewals(leased, self.request)
        self._contents = ContentShipping(self._request_all, self.request, self.name)
        self._ended: dict[str, AsyncApplication] = {}
        self._durable = False  # whether the applications submitted here go on in the next cluster of their folder
        self._handles: weakref.WeakValueDictionary[str, AsyncApplication] = weakref.WeakValueDictionary()

    def held(self, application: str) -> AsyncApplication | None:
        """Return the handle of an application that somebody here holds; None if nobody does."""
        return self._handles.get(application)

    async def recorded(self) -> str:
        """Have all peers write their records, and return the file; empty if they do not record."""
        if self.recording and not self.closed:
            requests = (self.request(peer, "record") for peer in self.peers)
            await asyncio.gather(*requests, return_exceptions=True)  # of a dead peer the file has all that it wrote
        return self.recording

    def delays(self) -> tuple[Sequence[str], Matrix] | None:
        """Return the addresses of the peers, and the delays imposed between them in seconds; None without these."""
        addresses = list(self.peers.values())
        return None if self.area is None else (addresses, self.area.delays(addresses))

    async def join(self, patience: float = 15.0, on_progress: Callable[[Progress], object] | None = None) -> None:
        """Let all peers join one ring, and wait until the directory knows the components of all.

        Parameters
        ----------
        patience
            Seconds without progress after which the attempt fails.
        on_progress
            Callback with the progress whenever it has changed; None: no callback.

        Raises
        ------
        ClusterError
            If there was no progress for ``patience`` seconds; the message names the missing peers.
        """
        await form_ring(self.peers, self.links.request, patience, on_progress)

    async def listen(self) -> None:
        """Subscribe to the errors of all peers from now on, and to the peers that come later."""
        self.links.on_channel(NEWCOMERS, self._introduced)
        await asyncio.gather(*(self._subscribe(address) for address in self.peers.values()))

    async def _subscribe(self, address: str) -> None:
        with contextlib.suppress(*UNREACHABLE, RemoteError, LinkFull):  # a peer that does not answer sends no errors
            await self.links.request(address, "errors", b"", 5.0)

    def _introduced(self, sender: str, payload: bytes) -> None:
        """Learn of a peer that has joined."""
        newcomer = unpack(payload, Newcomer)
        if sender in self._names and newcomer.address not in self._names and not self.closed:
            task = asyncio.get_running_loop().create_task(self._meet(newcomer))
            self._meeting.add(task)
            task.add_done_callback(self._meeting.discard)

    async def _meet(self, newcomer: Newcomer) -> None:
        """Add a peer that answers; it replaces none that answers, too, as what a peer says may be false."""
        before = self.peers.get(newcomer.name)
        if before is not None and await self._answers(before):
            return
        if await self._answers(newcomer.address):
            self.peers[newcomer.name] = newcomer.address
            self._names[newcomer.address] = newcomer.name
            await self._subscribe(newcomer.address)

    async def _answers(self, address: str) -> bool:
        try:
            return await self.links.request(address, "joined", b"", 5.0) == address.encode()
        except (*UNREACHABLE, RemoteError, LinkFull):
            return False

    async def warm(self) -> None:
        """Have the peer at which resilient plans are submitted load the code of resilient placement in advance."""
        with contextlib.suppress(*UNREACHABLE):
            await self.links.request(next(iter(self.peers.values())), "warm", b"", 5.0)

    @displays_waiting(lambda _: "closing the cluster")
    async def __aenter__(self) -> AsyncCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the applications, close the links, and end everything that was started for this cluster.

        The applications of a durable cluster go on when a cluster is started with the same folder.
        """
        if self.notices is not None:
            self.notices.close()
        self._renewals.close()
        try:  # if a step fails or is interrupted, the next one still runs
            if not self._durable:
                stopping = (application.stop(collect=False) for application in list(self._applications.values()))
                await asyncio.gather(*stopping, return_exceptions=True)
            await asyncio.gather(*(call() for call in tuple(self.before_close)), return_exceptions=True)
        finally:
            self.closed = True
            try:
                await self.spark.close()
                await self.links.close()
            finally:
                if self._closing is not None:
                    closing, self._closing = self._closing, None
                    await closing()
                while self.on_closed:
                    self.on_closed.pop()()

    async def invite(self, user: str, file: str | os.PathLike[str]) -> None:
        """Give a guest a certificate, with which he may submit plans within what the peers accept (``guests``).

        He connects by ``Cluster(scheduler, security=file)`` or ``synergy run --credentials file``, with the address of
        this cluster's scheduler. The certificate is valid for a day, unless :meth:`revoke` ends it earlier. Any
        notebook of the owner may invite.

        Parameters
        ----------
        user
            Name of the guest.
        file
            New file for his credentials, which only you can read. It is secret: whoever has it can act as that guest.

        Raises
        ------
        ClusterError
            If the name is not valid, or was revoked; if the file exists already, or cannot be written; or if the user
            of this client does not own the cluster, or the cluster has no authority.
        """
        self._check_open()
        if self._invite is None:
            raise ClusterError(f"invite: {NO_OWNER}")
        key, public = new_key()
        try:
            certificate = await self._invite(user, public)
        except WrongIdentity as error:
            raise ClusterError(f"user: {error}") from None
        try:
            credentials = Credentials(self.security.credentials.authority, certificate, key)
            await asyncio.to_thread(write_new, file, credentials)
        except OSError as error:
            raise ClusterError(f"file: {os.fspath(file)!r}: {error.strerror}; expected a new file") from None

    async def join_token(self, within: float | str = "1 h", hosts: int = 1) -> str:
        """Return a token with which ``synergy up --join TOKEN`` on another host adds its peers to this cluster.

        It is secret: whoever has it can add peers, which get parts of plans and see their tuples.

        Parameters
        ----------
        within
            Time for which the token is valid, in seconds or as ``"1 h"``.
        hosts
            Number of hosts that may join with it.

        Raises
        ------
        ClusterError
            If the cluster was started by another program, which has its authority.
        ValueError
            If ``within`` is not a time, or ``hosts`` is not a number of at least 1.
        """
        self._check_open()
        lasts = duration("within", within)
        if isinstance(hosts, bool) or not isinstance(hosts, int) or hosts < 1:
            raise ValueError(f"hosts: {hosts!r}; expected a whole number of at least 1")
        if self.admission is None:
            raise ClusterError(
                "join_token: the program that started the cluster has its authority; expected a call in that program"
            )
        return str(await self.admission.token(lasts, hosts))

    async def revoke(self, name: str) -> None:
        """Refuse a peer, a user or a session of the cluster from now on.

        Its open connections are closed, and new ones are refused by name. The name is never certified again. Any
        notebook of the owner may revoke: the program that started the cluster keeps the revoked names as long as the
        cluster runs, and sends them to peers that join later.

        Parameters
        ----------
        name
            Name of a peer, such as ``"peer-3"``; of a guest, ``"user/ada"``; or of a Spark session, ``"spark/ada"``.

        Raises
        ------
        ClusterError
            If nobody has that name, the user of this client does not own the cluster, or the cluster has no authority.
        """
        self._check_open()
        if self._revoke is None:
            raise ClusterError(f"revoke: {NO_OWNER}")
        try:
            await self._revoke(name)
        except WrongIdentity as error:
            raise ClusterError(str(error)) from None

    # -- peers ---------------------------------------------------------------------------------------------------

    @displays_waiting(lambda it: it.spark.doing or "starting Spark")
    async def spark_session(self) -> Any:
        """Open a separate ``SparkSession`` on the Spark of the peers, which is started if necessary.

        It ends with the cluster.

        Raises
        ------
        ClusterError
            If no Spark is available; the message says why, and what to do.
        """
        self._check_open()
        return await self.spark.session()

    # -- applications --------------------------------------------------------------------------------------------

    @displays_waiting(_submitting)
    async def submit(
        self,
        plan: Plan,
        *,
        origin: str | None = None,
        feeds: Mapping[str, Rows] | None = None,
        placement: str = "composed",
        spread: bool = False,
        detach: bool = False,
        timeout: float | str = 90.0,
    ) -> AsyncApplication:
        """Let the peers compose and start a plan.

        Parameters
        ----------
        plan
            Query plan, as ``.sink(...)`` returns it.
        origin
            Peer at which the plan is submitted, and which has the sinks that are not bound to another one: its name, or
            ``"client"``, ``"source"``, ``"sink"`` or ``"near"`` for the one with the least measured delays to this
            client, to the sources of the plan, to its sinks, or to all of them. By default the peer that a sink is
            bound to, or else the nearest to this client. Equally near peers, such as all peers on the client's machine,
            are used in turn. If the origin dies, the peer of the first sink leads the application on, if that is
            another one.
        feeds
            Rows of each source with connector ``python``, by operator id or by its name: a pandas, Polars or Arrow
            table, a :class:`~synergy_nb.runtime.client.feeds.Feed`, or an iterable, asynchronous or not, of
            dictionaries or tables. Sources created from rows, as in ``source(table)``, need none.
        placement
            Algorithm that selects peers for components: ``composed``, by probes that balance the load, or
            ``resilient``, for the largest set of rates of the plan's sources that the peers withstand (ROD).
        spread
            Whether to prefer graphs with many peers; a light plan is otherwise executed by one or two.
        detach
            Whether the application goes on without this client, until somebody stops it. Otherwise it ends when the
            cluster is closed, or two minutes after the peers have heard of this client for the last time.
        timeout
            Longest time until composition is decided, in seconds or as ``"2 min"``; silent peers have a minute.

        Raises
        ------
        NotAdmitted
            If composition was refused; the message names the failed conditions and peers; ``explain()`` has the rest.
        ClusterError
            If no peer answers, or a name is unknown; if ``detach`` is true although the peers or rows are of this
            client.
        """
        self._check_open()
        plan = with_readers_apart(plan)
        patience = duration("timeout", timeout)
        living = _alive(await self.states()) if unknown_peers(plan, origin, self._names) else list(self.peers)
        local = self.local is not None
        spark = "" if self.spark.where else unavailable() or "it was started without"
        if self._durable and self.spark.where and self.spark.where != ("local",):
            spark = "no other server keeps checkpoints in its durable folder; expected spark=True"
        origin, named = check_submission(plan, origin, feeds or {}, self._names, living, spark, local=local)
        feeding = {
            operator: await asyncio.to_thread(check_rows_or_feed, rows, row_reader(plan, operator))
            for operator, rows in named.items()
        }
        if detach:
            check_detached(named, started_here=local)
        try:
            placement = placement_of(plan, placement, spread=spread, peers=len(self.peers))
        except ValueError as error:
            raise ClusterError(str(error)) from None
        lease = 0.0 if detach else LEASE
        await self._contents.send(plan, self.peers.values())
        sized = plan.sized(sizes_of_rows(plan, feeding))
        address, state = await self._decided(sized, origin, placement, patience, lease=lease)
        running = await self._admitted(plan, address, state)
        self._handles[running.id] = running
        if not detach:
            self._applications[running.id] = running
            self._renewals.begin()
        for notice in running.notices:
            self.tell(f"{plan.name}: {notice}")
        try:
            for operator, feed in feeding.items():
                running.feed(operator, feed)
        except BaseException:  # no handle would exist
            with contextlib.suppress(ClusterError):
                await running.stop()
            raise
        return running

    async def restart(self, folder: DurableFolder) -> None:
        """Have the applications of a durable folder go on; tell the user which cannot.

        Raises ``DurableError`` if one is damaged.
        """
        self._durable = True
        kept = await asyncio.to_thread(folder.applications)
        await asyncio.gather(*(self._restart(folder, each) for each in kept))

    async def _restart(self, folder: DurableFolder, kept: KeptApplication) -> None:
        kept = await asyncio.to_thread(decided, folder, kept)
        plan = Plan.from_bytes(kept.plan)
        await asyncio.to_thread(provide_contents, folder, kept)
        await asyncio.to_thread(folder.forget_others, kept.id, frozenset(plan.operators))
        try:
            await asyncio.to_thread(check_parts, folder, kept)
        except DurableError as error:
            self.tell(f"{kept.id} is not restarted: {error}")
            return
        # what was never accepted, and has emitted nothing, is submitted as at first: a refusal has it forgotten
        epoch = next_start(kept.epoch) if await asyncio.to_thread(folder.has_begun, kept) else 0
        try:
            await self._contents.send(plan, self.peers.values())
            address, state = await self._decided(
                plan, None, kept.placement, RESTARTS, lease=LEASE, application=kept.id, epoch=epoch
            )
        except ClusterError as error:
            self.tell(f"{kept.id} is not restarted: {error}")
            return
        running = self._handles[kept.id] = AsyncApplication(self, plan, address, state)
        if state.status == "rejected":
            self.tell(f"{kept.id} is not restarted: {self.readable(state.reason)}")
            return
        self._applications[running.id] = running
        self._renewals.begin()
        for source in plan.sources:
            if plan.operators[source].params["connector"] == "python":
                with contextlib.suppress(ClusterError):
                    await end_pushed(self, running, source)

    async def _admitted(self, plan: Plan, origin: str, state: ApplicationState) -> AsyncApplication:
        if state.status == "rejected":
            states = await self.states()
            events = await self._journaled("events", state.application, _alive(states))
            raise refusal(plan, state.application, state.reason, events, states, self.names)
        return AsyncApplication(self, plan, origin, state)

    async def run_beside(
        self, plan: Plan, application: LedApplication, patience: float, *, trial: bool = False
    ) -> AsyncApplication:
        """Run a plan that is made of the streams of an application; it goes on as long as that one would.

        ``trial``: whether to find out only whether the peers would run it.

        Raises ``NotAdmitted`` or ``ClusterError`` as :meth:`submit` does.
        """
        self._check_open()
        await self._contents.send(plan, self.peers.values())
        sized, at = plan.sized(sizes_of_rows(plan, {})), self.name(application.origin)
        address, state = await self._decided(sized, at, "composed", patience, trial=trial, beside=application.id)
        running = await self._admitted(plan, address, state)
        for held in () if trial else (self._applications, self._adopted):
            if application.id in held:
                held[running.id] = running
        return running

    async def send_contents(self, plan: Plan) -> None:
        """Have the peers know the functions and tables of a plan."""
        await self._contents.send(plan, self.peers.values())

    def exchange(self, application: AsyncApplication, former: AsyncApplication) -> None:
        """Know the handle of an application by its new id; ``former`` is a handle of the one that it was of."""
        for held in (self._applications, self._adopted):
            if application.id in held:
                held[application.id] = application
        self._handles.pop(former.id, None)
        self._handles[application.id] = application
        for call in self.on_replaced:
            call(application, former)

    @displays_waiting(_submitting)
    async def check(
        self,
        plan: Plan,
        *,
        origin: str | None = None,
        placement: str = "composed",
        spread: bool = False,
        timeout: float | str = 90.0,
    ) -> PlanTrial:
        """Find the graph that composition would choose for a plan, without starting it.

        Probes reserve as for a submission, and all that they have reserved is released.

        Parameters
        ----------
        plan
            Query plan, as ``.sink(...)`` returns it; its sources need no rows.
        origin, placement, spread, timeout
            Origin, algorithm and time limit, see :meth:`submit`.
        """
        self._check_open()
        plan = with_readers_apart(plan)
        placement = placement_of(plan, placement, spread=spread, peers=len(self.peers))
        await self._contents.send(plan, self.peers.values())
        sized = plan.sized(sizes_of_rows(plan, plan.rows))
        _, state = await self._decided(sized, origin, placement, duration("timeout", timeout), trial=True)
        events = await self._journaled("events", state.application, _alive(await self.states()))
        return trial_of(plan, state.roles.peers, state.roles.backups, state.reason, events, self.names)

    async def _decided(
        self, plan: Plan, origin: str | None, placement: str, patience: float, *, trial: bool = False,
        lease: float = 0.0, application: str = "", epoch: int = 0, beside: str = "",
    ) -> tuple[str, ApplicationState]:  # fmt: skip
        """Submit a plan to the first origin that answers; return its address, and the state once it is decided."""
        # an id is one word, so that guests can be told of others without it (`runtime.process._hidden_names`)
        name = re.sub(r"[^\w.-]+", "_", plan.name)
        number = next(self._numbers)
        application = application or f"{name}-{number}-{uuid.uuid4().hex[:6]}"
        named = pack(ApplicationId(application))
        request = pack(Submit(application, plan.to_bytes(), placement, trial, lease, epoch, beside))
        turn = number if placement == "composed" else 1  # one peer has loaded resilient placement, see warm()
        order = await self._origins.order(plan, origin, self.peers, self.states, turn)
        address = await self._origins.first_answering(order)
        if not address:
            if origin not in self.peers:
                raise ClusterError("no peer of the cluster answers; expected at least one")
            living = _alive(await self.states())
            raise ClusterError(f"origin: {origin!r} does not answer; expected {known_peers_phrase(living)}")
        try:
            try:
                state = unpack(await self.request(address, "submit", request, patience), ApplicationState)
            except PeerUnreachable as error:
                address, state = await self._led_on(plan, application, address, error)
            if state.needs_spark and state.status == "composing":
                with self._renewals.composing(application, address):  # without a lease nothing comes of renewals
                    await self.spark.ready()
                    state = unpack(await self.request(address, "decision", named, patience + DEPLOYS), ApplicationState)
        except BaseException:  # it may still be admitted, and no handle would exist
            with contextlib.suppress(ClusterError):
                if not epoch:  # what its user has stopped leaves the durable folder; this one ends with its lease
                    await self.request(address, "stop", named)
            raise
        return address, state

    async def _led_on(
        self, plan: Plan, application: str, origin: str, error: PeerUnreachable
    ) -> tuple[str, ApplicationState]:
        """Return who leads an application whose origin has died while the client waited for its decision.

        Raises ``PeerUnreachable`` if nobody does, since it had not run yet. It is not submitted anew: a peer that is
        silent may live.
        """
        elsewhere = any(plan.operators[sink].at not in (None, self.name(origin), origin) for sink in plan.sinks)
        found = await self.leader(application, origin, SUCCEEDS) if elsewhere else None
        if found is None:
            raise PeerUnreachable(f"{plan.name}: {error}; it had not run yet: submit it again") from error
        return found

    @displays_waiting(lambda _: "asking the peers for their applications")
    async def applications(self) -> Applications[AsyncApplication]:
        """Return all applications of the peers, whoever submitted them: id to application, running ones first.

        An ended application is included while its origin remembers it. Each handle reads all results for itself:
        reading takes them from no other handle; see :meth:`AsyncApplication.results`.
        """
        entries = await self.entries()
        return Applications({name: held.listed for name, held in entries.items()}, entries)

    @displays_waiting(lambda _, application: f"looking for {application}")
    async def application(self, application: str) -> AsyncApplication:
        """Return an application of the peers, whoever submitted it: of an earlier program, for example, that has ended.

        From now on it goes on as long as this cluster is open, also if it was not detached and its program was killed.
        Closing this cluster does not stop it. The handle reads all results for itself, from those on that the peers
        retain; see :meth:`AsyncApplication.results`.

        Parameters
        ----------
        application
            Id of the application, or the name of its plan if exactly one that runs has that name; if none of that name
            runs, the last one that has ended.

        Raises
        ------
        UnknownApplication
            If there is no such application.
        ClusterError
            If several that run have that name; the message names them.
        """
        held = await self._chosen(application, ended=True)
        if held.last.status in LASTING and held.id not in self._applications:
            self._adopted[held.id] = held
            self._renewals.begin()
        return held

    @displays_waiting(lambda _, application: f"stopping {getattr(application, 'id', application)}")
    async def stop(self, application: str | Identified) -> None:
        """End an application, whoever submitted it, whose results stay readable; do nothing if it has ended already.

        Parameters
        ----------
        application
            Application, its id, or the name of its plan if exactly one running application has that name.

        Raises
        ------
        ClusterError
            If there is no such application, or several have that name; the message names them.
        """
        held = await self.handle(application)
        status = (await held.state()).status
        if status in LASTING or status == "finished":
            await held.stop()

    @displays_waiting(lambda it, _, operator, to: f"moving {operator} to {it.name(to)}")
    async def move(self, application: str | Identified, operator: str, to: str) -> None:
        """Move a component to another peer while its application runs; no tuple is lost, duplicated or delayed.

        If another component of the application moves at present, or others take over from a dead peer, the move begins
        when that has ended.

        Parameters
        ----------
        application
            Application, its id, or the name of its plan if exactly one running application has that name.
        operator
            Operator id of the component.
        to
            Name of the peer to move it to.

        Raises
        ------
        ClusterError
            If there is no such application, operator or peer; if the component cannot move, such as a sink; if the peer
            has no room for it, or dies meanwhile. The message says why, and the component remains on its peer.
        """
        held = await self.handle(application)
        if to not in self.peers and to not in self._names:
            raise ClusterError(f"to: {to!r}; expected {known_peers_phrase(_alive(await self.states()))}")
        request = pack(Move(held.id, operator, self.peers.get(to, to)))
        outcome = unpack(await held.ask("move", request, MOVES_WITHIN + 5.0), Outcome)
        status = (await held.state()).status
        if outcome.reason and status not in LASTING:
            raise ClusterError(f"application: {held.id!r} has ended already ({status}); expected one that runs")
        if outcome.reason:
            why = self.readable(outcome.reason)
            raise ClusterError(f"{held.id}: {operator} did not move: {why}" if outcome.begun else why)

    async def handle(self, application: str | Identified) -> AsyncApplication:
        """Return the handle of the application with that id, or of the only running plan of that name."""
        named = application if isinstance(application, str) else application.id
        return self._handles.get(named) or await self._chosen(named)

    async def _chosen(self, named: str, *, ended: bool = False) -> AsyncApplication:
        entries = await self.entries()
        return entries[chosen_id(named, {name: each.listed for name, each in entries.items()}, ended=ended)]

    async def entries(self) -> dict[str, AsyncApplication]:
        """Return id to handle of each application, in the order of submission; each handle knows its present state."""
        request = pack(ListApplications(list(self._handles)))
        answers = await self._request_all("applications", request, self.peers.values(), straggling=STRAGGLING)
        found = ((origin, each) for origin, answer in answers.items() for each in unpack(answer, Listed).applications)
        listed = sorted(found, key=lambda pair: pair[1].since)
        entries: dict[str, AsyncApplication] = {}
        for origin, each in listed:
            known = entries.get(each.state.application)
            if known is not None and (
                each.state.status not in LASTING or origin != known.sink_peer(known.plan.sinks[0])
            ):
                continue  # an earlier origin, which does not know that its successor leads it on
            held = self._handles.get(each.state.application)
            if each.state.status == "rejected" or (held is None and not each.plan):
                continue  # never ran; or its handle was removed since the request
            if held is None:
                held = AsyncApplication(self, Plan.from_bytes(each.plan), origin, each.state)
                self._handles[held.id] = held
            held.origin = origin
            held.record_state(each.state)
            entries[held.id] = held
        unlisted = [held for name, held in self._applications.items() if name not in entries]  # an origin may have died
        await asyncio.gather(*(held.state() for held in unlisted))
        return entries | {held.id: held for held in unlisted}

    async def _publish_spark(self, states: Sequence[SparkState]) -> None:
        """Send the states of Spark servers to all peers, which share them in turn; ignore peers that do not answer."""
        messages = zip(self.peers.values(), itertools.cycle(states), strict=False)
        requests = (self.links.request(address, "spark", pack(each), 5.0) for address, each in messages)
        await asyncio.gather(*requests, return_exceptions=True)

    def tell(self, text: str) -> None:
        """Write a line for the user, if there is one who sees it."""
        if self.notices is not None and user_sees_output():
            self.notices.write_line(f"synergy: {text}")

    def forget(self, application: str) -> None:
        """Do not stop an application when the cluster closes; keep its handle while there is room for its results."""
        self._adopted.pop(application, None)
        held = self._applications.pop(application, None) or self._handles.get(application)
        if held is None:
            return
        self._ended.pop(application, None)
        self._ended[application] = held
        while len(self._ended) > MOST_ENDED or sum(each.collected_bytes for each in self._ended.values()) > MOST_BYTES:
            del self._ended[next(iter(self._ended))]

    def readable(self, text: str) -> str:
        """Replace the addresses in a peer's text by names."""
        return readable(text, self._names)


def _alive(states: Mapping[str, PeerState | None]) -> list[str]:
    """Return the names of the peers that answer."""
    return [name for name, state in states.items() if state is not None]
