"""The Spark server that peers share, and each peer's access to it.

The process that started the peers owns the server (:class:`SparkServers`), starts it when it is first needed, and
reports its status to the peers (:class:`SparkState`). The parts of plans that Spark executes are components of peers,
see :mod:`~synergy_nb.runtime.data._spark_part`.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import msgspec

from synergy_nb.control.driver_messages import SparkOffered
from synergy_nb.dataflow.meters import Ewma
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.events import Recorder, SparkDied, SparkFailed, SparkReady
from synergy_nb.lifecycle.records.spark_offer import MICRO_BATCH
from synergy_nb.runtime.process.requests import ClusterError, SparkState, SparkStatus

if TYPE_CHECKING:
    from spark_stream.part import Part
    from spark_stream.peer_endpoint import PeerEndpoint
    from spark_stream.query import SparkAccess
    from spark_stream.resumption import Resumption
    from spark_stream.server import Server
    from synergy_nb.runtime.data._spark_part import SparkPart

__all__ = ["KeptCheckpoint", "SparkHost", "SparkServers", "checked", "resumption_of", "unavailable"]

T = TypeVar("T")

TRIES: Final = 3  # attempts to reach a server that does not answer
REHEARSAL: Final = 15.0  # longest time of a query without tuples, seconds
STARTS_WITHIN: Final = 120.0  # longest time that a part waits for a server, seconds
CLOSES_WITHIN: Final = 15.0  # longest time to close a server, seconds


def unavailable() -> str:
    """Return why no Spark server can be started on this machine; empty if one can."""
    missing = [name for name in ("pyspark", "grpc", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} cannot be imported; pip install 'pyspark[connect]'"
    from spark_stream import java  # noqa: PLC0415 - only who uses Spark needs it
    from spark_stream.server import SparkUnavailable  # noqa: PLC0415

    try:
        java.find()
    except SparkUnavailable as error:
        return str(error)
    return ""


def checked(spark: bool | str | Sequence[str]) -> tuple[str, ...]:
    """Check the parameter ``spark``: return ``local`` for a server of this machine, or URLs; empty for no Spark.

    Raises ``ValueError`` if ``spark`` is not a truth value, the URL of a Spark Connect server, or a list of URLs.
    """
    if isinstance(spark, bool):
        return ("local",) if spark and not unavailable() else ()
    urls = (spark,) if isinstance(spark, str) else spark
    valid = isinstance(urls, Sequence) and bool(urls) and all(isinstance(url, str) for url in urls)
    if not valid or spark in ("off", "local"):
        expected = "expected True (a server of this machine), False, a URL, sc://host:port, or a list of URLs"
        raise ValueError(f"spark: {spark!r}; {expected}")
    from spark_stream.address import parse_url  # noqa: PLC0415 - only who uses Spark needs it

    for url in urls:
        parse_url(url)
    return tuple(urls)


def named(url: str) -> str:
    """Return the address of a server without the options of its URL, which may contain a token."""
    from spark_stream.address import parse_url  # noqa: PLC0415 - only who uses Spark needs it

    return parse_url(url).name


class SparkServers:
    """The Spark of a cluster: starts a server when it is first needed, and reports its status to the peers."""

    def __init__(self, where: Sequence[str], publish: Callable[[Sequence[SparkState]], Awaitable[None]]) -> None:
        self.where = tuple(where)  # server of this machine (`local`) or URLs, as `checked` returns them
        # function that sends state to all peers; the state of several servers go to the peers in turn
        self._publish = publish
        self._server: Server | None = None
        self._starting: asyncio.Task[list[SparkState]] | None = None
        self._publishing: set[asyncio.Task[None]] = set()
        self._sessions: list[Any] = []

    @property
    def process(self) -> int | None:
        """Process id of the embedded server, if there is one."""
        return self._server.pid if self._server is not None else None

    @property
    def doing(self) -> str:
        """Text of a start that others wait for; empty if there is none."""
        return "starting Spark" if self._starting is not None and not self._starting.done() else ""

    async def session(self) -> Any:
        """Open a session for interactive analysis on the same Spark; it ends with the cluster.

        Raises ``ClusterError`` if no Spark is available; the message says why, and what to do.
        """
        if not self.where:
            raise ClusterError(f"spark: this cluster has none: {unavailable() or 'it was started without'}")
        await self.ready()
        assert self._starting is not None
        try:
            session = await _beside(_connected, self._starting.result()[0])
        except RuntimeError as error:
            raise ClusterError(f"spark: {error}") from error
        self._sessions.append(session)
        return session

    async def ready(self) -> None:
        """Return when all peers know a server that accepts sessions; start one if there is none.

        Raises ``ClusterError`` if no Spark is available; the message says why, and what to do.
        """
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.create_task(self._start())
        try:
            state = await asyncio.shield(self._starting)
        except RuntimeError as error:
            await self._publish([SparkState(SparkStatus.FAILED, str(error))])
            raise ClusterError(f"spark: {error}") from error
        await self._publish(state)

    async def _start(self) -> list[SparkState]:
        if self.where != ("local",):
            return [SparkState(SparkStatus.READY, named(url), url) for url in self.where]
        from spark_stream.server import Event, Server  # noqa: PLC0415 - only who uses Spark needs it

        loop = asyncio.get_running_loop()

        def happened(event: Event) -> None:  # on a thread of the server's
            loop.call_soon_threadsafe(self._happened, SparkStatus(event.kind), event.detail)

        server = self._server = Server(on_event=happened)
        endpoint = await _beside(server.ready)
        return [SparkState(SparkStatus.READY, endpoint.url, endpoint.url, endpoint.token or "", endpoint.folder or "")]

    def _happened(self, status: SparkStatus, detail: str) -> None:
        """Report a change of a server that was ready before."""
        started = self._starting
        if started is None or not started.done() or started.cancelled() or started.exception() is not None:
            return
        state = started.result() if status is SparkStatus.READY else [SparkState(status, detail)]
        task = asyncio.get_running_loop().create_task(self._report(state))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _report(self, state: Sequence[SparkState]) -> None:
        await self._publish(state)

    async def close(self) -> None:
        """End the server, if there is one, with all that it has started."""
        for task in self._publishing:
            task.cancel()
        if self._sessions:
            from spark_stream.session import disconnect  # noqa: PLC0415 - importing it takes a second

            for session in self._sessions:
                await _in_thread(disconnect, session)
            self._sessions.clear()
        if self._server is not None:
            await _in_thread(self._server.close)
        if self._starting is not None and not self._starting.done():
            await asyncio.wait([self._starting], timeout=CLOSES_WITHIN)


async def _beside(work: Callable[..., T], *arguments: Any) -> T:
    """Run a function that waits for Spark in a thread of its own, for which nobody waits at the end of the interpreter.

    Python waits for the threads of ``asyncio.to_thread`` before it closes the cluster, which would end their work.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def set_outcome(result: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(cast("T", result))
        else:
            outcome.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*arguments)
        except BaseException as raised:  # noqa: BLE001 - who waits gets it
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(set_outcome, result, error)

    threading.Thread(target=run, name="synergy waits for Spark", daemon=True).start()
    return await outcome


async def _in_thread(work: Callable[..., object], *arguments: Any) -> None:
    """Run a blocking function in a thread, or here if the interpreter is ending and starts no more threads."""
    try:
        await asyncio.to_thread(work, *arguments)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        work(*arguments)


def _connected(state: SparkState) -> Any:
    """Open a separate session on the server that ``state`` names."""
    from spark_stream.server import Endpoint  # noqa: PLC0415 - only who uses Spark needs it
    from spark_stream.session import connect  # noqa: PLC0415

    return connect(Endpoint(state.url, state.token or None, state.folder or None))


def _ended(session: Any) -> None:
    """End a session, whose server may have died."""
    from spark_stream.session import disconnect  # noqa: PLC0415 - importing it takes a second

    with contextlib.suppress(Exception):
        disconnect(session)


def resumption_of(head: bytes) -> Resumption:
    """Return the progress of a part that a snapshot of its component contains."""
    from spark_stream.resumption import Resumption  # noqa: PLC0415 - only who uses Spark needs it

    return msgspec.msgpack.decode(head, type=Resumption)


class KeptCheckpoint(NamedTuple):
    """The checkpoint of a part in a durable folder."""

    path: Path
    problem: str  # reason why no query can go on from it; empty if none is known

    @classmethod
    def of(cls, head: bytes, location: Path) -> KeptCheckpoint:
        """The checkpoint that a snapshot of a part names, in the folder of the checkpoints of its application."""
        from spark_stream.checkpoints import problem  # noqa: PLC0415 - only who uses Spark needs it

        since = resumption_of(head).within(location)
        return cls(Path(since.checkpoint), problem(since, importlib.metadata.version("pyspark")))


class SparkHost:
    """The access of one peer to Spark."""

    def __init__(
        self,
        # loop, clock, record: event loop of the peer, its clock in seconds, and the function that writes an event to
        # the journal
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Recorder,
        durable: DurableFolder | None = None,  # folder that has the checkpoints of parts; None: the server's own has
    ) -> None:
        self._durable = durable
        self.loop = loop
        self.clock = clock
        self.record = record
        self.parts: set[SparkPart] = set()
        self._state = SparkState(SparkStatus.UNKNOWN)  # the server that accepts sessions
        self._last = self._state  # the state as received
        self._known = threading.Condition()
        self._endpoint: PeerEndpoint | None = None
        self._opening = threading.Lock()
        self._session: Any = None
        self._micro_batch = Ewma()

    @property
    def ready(self) -> bool:
        """Whether this peer knows a server that accepts sessions."""
        return bool(self._state.url)

    @property
    def offer(self) -> SparkOffered:
        """Return what this peer knows of Spark: the measured time of a micro-batch, and whose files Spark reads."""
        micro_batch = self._micro_batch.moving if self._micro_batch.count else MICRO_BATCH
        return SparkOffered(micro_batch, not self.ready or bool(self._state.folder))

    def receive_state(self, state: SparkState) -> None:
        """Handle state of the server."""
        if state != self._last:
            self._last = state
            match state.status:
                case SparkStatus.READY:
                    self.record(SparkReady, "", url=state.url)
                case SparkStatus.DIED:
                    self.record(SparkDied, "", cause=state.detail)
                case SparkStatus.FAILED:
                    self.record(SparkFailed, "", cause=state.detail)
        with self._known:
            if state.status is not SparkStatus.DIED:  # it will return at the same address
                self._state = state
            self._known.notify_all()
        if state.status is SparkStatus.FAILED:
            for part in tuple(self.parts):
                part.fail(f"Spark: {state.detail}")

    def session(self) -> Any:
        """Return the session that the parts of this peer share, once there is a server; on a thread that may wait.

        Each session has its own Python processes on Spark's side, so one for every part would be too many.

        Raises ``SparkUnavailable`` if there is no server.
        """
        from spark_stream.server import SparkUnavailable  # noqa: PLC0415 - only who uses Spark needs it

        with self._known:
            known = self._known.wait_for(
                lambda: self._state.url or self._state.status is SparkStatus.FAILED, STARTS_WITHIN
            )
            state = self._state
        if not known or not state.url:
            raise SparkUnavailable(state.detail or f"no server was reported within {STARTS_WITHIN:g} s")
        with self._opening:
            if self._session is None:
                self._session = _connected(state)
            return self._session

    def leave(self, session: Any, lost: bool) -> None:
        """Release the session for a part; a lost session is opened anew when a part needs one."""
        with self._opening:
            if not lost or session is not self._session:
                return
            self._session = None
        _ended(session)

    @property
    def server(self) -> str:
        """Address of the server that accepts sessions; empty if this peer knows none."""
        return named(self._state.url) if self._state.url else ""

    def folder(self, application: str, name: str) -> Path | None:
        """Return the folder of the checkpoints of query ``name``; None if the server is not on this machine.

        Raises ``ValueError`` if they could not be in the durable folder of the cluster.
        """
        if self._durable is None:
            return Path(self._state.folder) / name if self._state.folder else None
        if not self._state.folder:
            raise ValueError(
                f"spark: {self.server}; expected the server that the cluster starts, as this cluster is durable, and "
                "no other one keeps checkpoints in its folder"
            )
        return self._durable.checkpoints(application) / name

    def here(self, application: str, resumption: Resumption) -> Resumption:
        """Return the progress of a query as it is found here: in a durable folder, which may have been moved."""
        return resumption if self._durable is None else resumption.within(self._durable.checkpoints(application))

    def unreachable(self, application: str, resumption: Resumption) -> str:
        """Return why this peer's server could not resume a query; empty if it could. On a thread that may wait.

        The session of this peer is open afterwards, as it may be needed soon.
        """
        from spark_stream.checkpoints import location_of, refusal, unreachable  # noqa: PLC0415 - only who uses Spark
        from spark_stream.spark_errors import cause, is_lost, is_passing  # noqa: PLC0415 - only who uses Spark needs it

        why = ""
        for _ in range(TRIES):
            session = None
            try:
                session = self.session()
                if not resumption.checkpoint or resumption.server == self.server:
                    return ""
                why = unreachable(session, resumption.checkpoint, location_of(session, self.folder(application, "")))
                break
            except Exception as error:  # noqa: BLE001 - it has to be reported to those that wait for the copy
                why = cause(error)
                if session is None or not (is_lost(error) or is_passing(error)):
                    break
                self.leave(session, is_lost(error))
        return refusal(self.server or "an unknown address", resumption, why) if why else ""

    def rehearse(self, part: Part, secrets: Mapping[str, bytes]) -> None:
        """Let the server execute a part without tuples, before this peer needs it. On a thread that may wait.

        The first execution in Spark and its Python processes takes most of the time until a query has results. The
        outcome is ignored: the real query will report what goes wrong.
        """
        from spark_stream.callbacks import QueryCallbacks  # noqa: PLC0415 - only who uses Spark needs it
        from spark_stream.query import PartQuery  # noqa: PLC0415

        over = threading.Event()
        callbacks = QueryCallbacks(on_ready=over.set, on_failed=lambda _: over.set())
        query = PartQuery(part, self.access(part.application), callbacks, secrets=secrets)
        query.start()
        over.wait(REHEARSAL)
        query.stop()

    def access(self, application: str) -> SparkAccess:
        """How the queries of an application reach Spark from this peer."""
        from spark_stream.query import SparkAccess  # noqa: PLC0415 - only who uses Spark needs it

        folder, server = partial(self.folder, application), lambda: self.server
        ended = (lambda: None) if self._durable is None else partial(self._durable.clear_ended, application)
        return SparkAccess(self.session, self.endpoint(), folder, server, self.leave, ended)

    def endpoint(self) -> PeerEndpoint:
        """Endpoint at which Spark reads and writes the tuples of this peer's parts."""
        if self._endpoint is None:
            from spark_stream.peer_endpoint import PeerEndpoint  # noqa: PLC0415 - only who uses Spark needs it

            self._endpoint = PeerEndpoint(folder=self._server_folder)
        return self._endpoint

    def _server_folder(self) -> Path | None:
        return Path(self._state.folder).parent if self._state.folder else None

    def measured(self, seconds: float) -> None:
        """Record the time of a micro-batch."""
        self._micro_batch.add(seconds)

    async def close(self) -> None:
        """Close the endpoint, after all parts."""
        endpoint, self._endpoint = self._endpoint, None
        session, self._session = self._session, None
        if session is not None:
            await asyncio.to_thread(_ended, session)
        if endpoint is not None:
            await asyncio.to_thread(endpoint.close)
