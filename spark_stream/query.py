"""A part of a plan as one streaming query on Spark, which is restarted when its server has been restarted.

A :class:`PartQuery` has one thread, which opens a session, starts the query, and checks it periodically; and one thread
for each source that Spark reads itself. Spark and gRPC are imported in these threads only, since the processes of peers
are forked.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from spark_stream._exchange import Exchange
from spark_stream._inputs import Port
from spark_stream._progress import Progress, progress_of
from spark_stream._spool import FIRST, Inlet, Offset, Spool
from spark_stream._staging import Files, Layout, Staged, convert, direct
from spark_stream._tables import POSITION, arrow_schema
from spark_stream.checkpoints import Checkpoint
from spark_stream.java import SparkUnavailable
from spark_stream.part import Part, named
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.results import DeliveryProgress
from spark_stream.resumption import Resumption
from spark_stream.spark_errors import SparkQueryEnded, cause, is_lost, is_passing
from spark_stream.supported import supported_source
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.events import SkippedLines
from synergy_nb.plan import Operator
from synergy_nb.plan.derived.spark_parts import has_state

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PartQuery", "Progress"]

ANYTHING: Final = (Exception, pl.exceptions.PanicException)  # exceptions of any kind: a panic of Polars is no Exception
CONNECTS_WITHIN: Final = 120.0  # time limit for a server to start or restart, seconds
PAUSE: Final = 0.5  # seconds between attempts to connect
TRIES: Final = 4  # maximum number of starts without a micro-batch, when Spark cannot start its Python processes
CHECK_INTERVAL: Final = 1  # seconds between two checks of a query
STOPS_WITHIN: Final = 15.0  # time limit for a query to end, seconds
RECENT: Final = 64  # number of micro-batches whose progress Spark remembers

#: Settings of a session that queries require.
_SESSION: Final[Mapping[str, str]] = {
    # Otherwise each session has four Python daemons of its own, 47 MB each, which stay as long as the server does: the
    # first micro-batch of a second query took 18 s on a busy machine, and takes 0.6 s so.
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",  # what one session has compiled serves the others
    "spark.sql.streaming.numRecentProgressUpdates": str(RECENT),
    "spark.sql.streaming.stopTimeout": "5s",
}


class PartQuery:
    """A part as a streaming query. Start it once, and always stop it. Callbacks may be called on any thread."""

    def __init__(
        self,
        part: Part,
        # function that opens a session for the query; it may wait, and raises `SparkUnavailable` without a server
        connect: Callable[[], SparkSession],
        endpoint: PeerEndpoint,  # endpoint of this peer, which serves the tuples of the query
        # function that returns a query's own folder by its name, once `connect` has returned; None if Spark is on
        # another machine
        folder: Callable[[str], Path | None],
        *,
        keys: Mapping[str, bytes],  # secrets by the name that plans use for them
        # function that receives results, in order; Spark waits until it returns
        on_items: Callable[[list[Item]], None],
        # callback for the start of the query; if it reads streams of peers, called after its first micro-batch, which
        # has no tuples
        on_ready: Callable[[], None],
        on_failed: Callable[[str], None],  # callback for the failure of the query, with the reason
        on_progress: Callable[[Progress], None],
        on_room: Callable[[], None],  # callback for the moment when the query is no longer `full`
        # callback for the malformed lines of a trace that Spark reads itself, with the source that skips them
        on_skipped: Callable[[str, SkippedLines], None] = lambda _source, _lines: None,
        # function that receives a session back, and whether it was lost; by default it ends the session
        leave: Callable[[SparkSession, bool], None] | None = None,
        # callback after `on_items` of each micro-batch, which Spark commits when it returns; if it raises, Spark does
        # not commit
        on_handed: Callable[[DeliveryProgress], None] | None = None,
        # callback for an advance of the position from which inputs are still needed
        on_committed: Callable[[], None] | None = None,
        # progress of the query at another peer, from which this one continues; None for a new query
        since: Resumption | None = None,
        epoch: int = 0,
        server: Callable[[], str] = str,  # function that returns the name of the server, once `connect` has returned
    ) -> None:
        self.part = part
        self.name = named(part) if since is None else since.name
        self._run_name = f"{self.name}-{epoch}" if epoch else self.name  # an earlier one here may not have ended yet
        self._since = Resumption(self.name) if since is None else since
        self._epoch = epoch
        self._left = False  # whether another peer may continue the query
        self.restarts = 0  # number of restarts
        self._connect = connect
        self._endpoint = endpoint
        self._find_folder = folder
        self._server = server
        self._keys = keys
        self._on_items = on_items
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._on_progress = on_progress
        self._on_room = on_room
        self._on_skipped = on_skipped
        self._leave = leave or _leave
        self._on_handed = on_handed
        self._on_committed = on_committed
        self._exchange: Exchange | None = None  # None until the inputs of the query are known
        self._early: list[tuple[int, Item]] = []  # items received before that
        self._ports: dict[str, Port] = {}
        self._stopped = threading.Event()
        self._over = False
        self._is_ready = False
        self._state = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stagers: list[threading.Thread] = []
        self._query: StreamingQuery | None = None
        self._checkpoint: Checkpoint | None = None  # None until it has a session
        self._last = -1  # last micro-batch whose progress was reported

    # -- input ---------------------------------------------------------------------------------------------------------

    def append(self, port: int, item: Item) -> None:
        """Append the next item of an input; it is accepted even if the query is :attr:`full`."""
        if self._exchange is None:
            with self._state:
                if self._exchange is None:
                    self._early.append((port, item))
                    return
        self._exchange.append(port, item)

    @property
    def full(self) -> bool:
        """Whether the query should receive no items at present."""
        return self._exchange is not None and self._exchange.full

    @property
    def retained_bytes(self) -> int:
        """Bytes of tuples from peers that the query has not committed."""
        exchange = self._exchange
        if exchange is None:
            return sum(item.nbytes for _, item in tuple(self._early) if isinstance(item, Batch))
        return exchange.retained_bytes

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of rows of its inputs that no punctuation covers yet."""
        return self._exchange.uncovered_bytes if self._exchange is not None else 0

    @property
    def committed(self) -> tuple[tuple[Offset, Point], ...]:
        """For each input, the offset that Spark has committed, and the position from which it is still needed."""
        if self._exchange is not None:
            return tuple(self._exchange.committed)
        return self._since.inputs or ((FIRST, ORIGIN),) * len(self.part.inputs)

    @property
    def resumable(self) -> bool:
        """Whether the location of its checkpoint is known."""
        return bool(self._since.checkpoint) or (self._checkpoint is not None and bool(self._checkpoint.where))

    def resumption(self, handed: DeliveryProgress, inputs: tuple[tuple[Offset, Point], ...]) -> Resumption:
        """Create the state from which another peer continues, given the delivered results and the committed inputs."""
        checkpoint = self._checkpoint
        if checkpoint is None or not checkpoint.where:  # without a new checkpoint, the previous one is valid
            return msgspec.structs.replace(self._since, handed=handed, inputs=inputs)
        where = checkpoint.server, checkpoint.where, checkpoint.former
        return Resumption(self.name, handed, inputs, *where)

    @property
    def late(self) -> int:
        """Number of rows of its inputs that arrived after a punctuation with a later time."""
        return self._exchange.late if self._exchange is not None else 0

    # -- from start to end -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the query, without waiting for it."""
        with self._state:
            if self._thread is not None or self._stopped.is_set():
                return
            self._thread = threading.Thread(target=self._work, name=f"spark {self.name}", daemon=True)
            self._thread.start()

    def abandon(self, *, left: bool) -> None:
        """Announce that the query will be stopped; if ``left``, its folder stays for a peer that may continue it."""
        self._left = left
        self._stopped.set()

    def stop(self) -> None:
        """End the query with its session and threads. This does not fail, and takes a few seconds at most."""
        self._stopped.set()
        with self._state:
            query, exchange, threads = self._query, self._exchange, [self._thread, *self._stagers]
        if exchange is not None:
            exchange.close()
        if query is not None:
            with contextlib.suppress(Exception):  # it ends with its session, if not now
                query.stop()
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(STOPS_WITHIN)

    def _work(self) -> None:
        try:
            self._run()
        except ANYTHING as error:  # the application has to fail with it
            self._fail(error)
        finally:
            if self._exchange is not None:
                self._endpoint.dismiss(self._exchange)
            for stager in self._stagers:
                stager.join()
            if not self._stays:
                self._clear(None)

    @property
    def _stays(self) -> bool:
        """Whether its checkpoint and folder stay for another peer."""
        return self._left and not (self._exchange is not None and self._exchange.ended)

    def _clear(self, session: SparkSession | None) -> None:
        """Remove its checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.clear(session)

    def _run(self) -> None:
        reported = -2
        tries = 0
        while not self._stopped.is_set() and not self._over:
            session = self._session()
            if session is None:
                return
            lost = False
            try:
                self._execute(session)
            except Exception as error:
                lost = is_lost(error)
                if self._stopped.is_set():
                    return
                tries = tries + 1 if self._last == reported else 1
                reported = self._last
                again = lost or isinstance(error, SparkQueryEnded) or (is_passing(error) and tries < TRIES)
                if not again:
                    raise
                self.restarts += 1
            finally:
                with self._state:
                    query, self._query = self._query, None
                if query is not None and not lost:  # the session may live on
                    with contextlib.suppress(Exception):
                        query.stop()
                if (self._over or self._stopped.is_set()) and not (lost or self._stays):
                    self._clear(session)
                self._leave(session, lost)

    def _session(self) -> SparkSession | None:
        """Open a session as soon as a server accepts one; None if the query is stopped before."""
        deadline = time.monotonic() + CONNECTS_WITHIN
        while not self._stopped.is_set():
            try:
                return self._connect()
            except SparkUnavailable:
                if time.monotonic() > deadline:
                    raise
            self._stopped.wait(PAUSE)
        return None

    def _execute(self, session: SparkSession) -> None:
        """Run the query until it is over, stopped, or fails."""
        from pyspark.sql.connect.proto.base_pb2 import ConfigRequest, KeyValue  # noqa: PLC0415 - imports Spark

        from spark_stream import operators  # noqa: PLC0415
        from spark_stream._expressions import MEANING  # noqa: PLC0415
        from spark_stream._sources import FORMAT, register  # noqa: PLC0415

        exchange = self._exchange or self._prepare()
        if exchange.ended:  # there are no further inputs
            self._over = True
            self._on_ready()
        if self._over or not exchange.staged():
            return
        if self._checkpoint is None or self._checkpoint.is_claimed:  # another peer has it now
            self._over = True
            return
        pairs = [KeyValue(key=name, value=value) for name, value in {**MEANING, **_SESSION}.items()]
        session.client.config(ConfigRequest.Operation(set=ConfigRequest.Set(pairs=pairs)))
        register(session)
        options = {
            "endpoint": self._endpoint.address,
            "token": self._endpoint.token,
            "query": self._run_name,
            "run": str(exchange.begin(operators.END_TIME)),
        }
        taps = {name: count() for name in self._ports}
        result = operators.build(
            self.part.plan,
            self.part.members,
            self.part.operator,
            lambda name: self._ports[name].frame(session, next(taps[name]), options),
            keys=self._keys,
            ordered=True,
        )
        writer = result.writeStream.format(FORMAT).options(**options).queryName(self._run_name).outputMode("append")
        writer = writer.option("checkpointLocation", self._checkpoint.open(session))
        query = writer.trigger(processingTime="0 seconds").start()
        with self._state:
            self._query = query
        self._watch(query, exchange)

    def _prepare(self) -> Exchange:
        """Attach the inputs of the query, and start to stage the sources that Spark reads itself."""
        from spark_stream import operators  # noqa: PLC0415 - imports Spark

        part, plan, members = self.part, self.part.plan, [self.part.plan.operators[name] for name in self.part.members]
        stateful = any(has_state(operator) for operator in members)
        exchange = Exchange(
            self._run_name,
            plan.schema(part.operator),
            windowed=plan.window(part.operator) is not None,
            lag=operators.lag(plan, part.members, part.operator) if stateful else None,
            arrange=operators.arrange,
            on_items=self._on_items,
            on_room=self._on_room,
            on_handed=self._on_handed,
            on_committed=self._on_committed,
            since=self._since.handed,
        )
        self._checkpoint = Checkpoint(self._run_name, self._since, self._epoch, self._server(), self._find_folder)
        readings = Counter(operators.readings(plan, part.members, part.operator))
        numbered = operators.numbered(plan, part.members, part.operator)
        for name, (start, point) in zip(part.inputs, self.committed, strict=True):
            inlet = Spool(taps=max(readings[name], 1), numbered=name in numbered, start=start, point=point)
            self._attach(exchange, name, inlet, Layout(), readings[name], numbered=name in numbered)
        staging = [self._source(exchange, each, readings[each.id], numbered=each.id in numbered)
                   for each in members if each.kind == "source" and readings[each.id]]  # fmt: skip
        exchange.warm()
        self._endpoint.admit(exchange)
        with self._state:
            early, self._early = self._early, []
            for port, item in early:
                exchange.append(port, item)
            self._exchange = exchange  # later items are appended to it
            stopped = self._stopped.is_set()
            self._stagers += staging
            for stager in staging:
                stager.start()
        if stopped:
            exchange.close()
        return exchange

    def _source(self, exchange: Exchange, operator: Operator, taps: int, *, numbered: bool) -> threading.Thread:
        """Create the thread that stages a source which Spark reads itself."""
        own = self._checkpoint.folder if self._checkpoint is not None else None
        why = supported_source(operator, own is not None)
        if why or own is None:
            raise ValueError(f"operator {operator.id!r}: {why}")
        folder, columns = own / f"source-{len(self._ports)}", self.part.plan.schema(operator.id)
        files = Files(folder, taps=taps)
        found = None if numbered else direct(operator, columns)
        skipped = partial(self._on_skipped, operator.id)
        ready = iter([found[0]]) if found is not None else convert(operator, folder, skipped, numbered=numbered)
        layout = Layout() if found is None else found[1]
        port = self._attach(exchange, operator.id, files, layout, taps, numbered=numbered)
        name = f"spark {self.name} {operator.id}"
        return threading.Thread(target=self._stage, args=(exchange, port, ready), name=name, daemon=True)

    def _attach(self, exchange: Exchange, name: str, inlet: Inlet, layout: Layout, taps: int, *, numbered: bool) -> int:
        columns = dict(self.part.plan.schema(name))
        port = exchange.attach(inlet, arrow_schema(columns, numbered=numbered), taps)
        if numbered:
            columns[POSITION] = "int"
        self._ports[name] = Port(port, columns, inlet if isinstance(inlet, Files) else None, layout)
        return port

    def _stage(self, exchange: Exchange, port: int, files: Iterator[Staged]) -> None:
        try:
            for file in files:
                if not exchange.stage(port, file):
                    return
        except ANYTHING as error:
            self._fail(error)

    def _watch(self, query: StreamingQuery, exchange: Exchange) -> None:
        """Monitor a query until it ends."""
        waited = False
        while not self._stopped.is_set():
            if not self._is_ready and exchange.begun(3.0 * CHECK_INTERVAL):
                self._is_ready = True
                self._on_ready()
            ended = query.awaitTermination(CHECK_INTERVAL)  # raises the error of the query
            if not ended and exchange.batch > self._last:
                self._report_progress(query.recentProgress)
            if exchange.ended and (self._last >= exchange.batch or waited):  # Spark reports the last one a little later
                self._over = True
                return
            waited = exchange.ended
            if ended and not self._stopped.is_set():
                raise SparkQueryEnded(f"query {self.name} was stopped by another program")

    def _report_progress(self, recent: Sequence[Any]) -> None:
        for event in recent:
            progress = progress_of(event)
            if progress is not None and progress.batch > self._last:
                self._last = progress.batch
                self._on_progress(progress)

    def _fail(self, error: BaseException) -> None:
        with self._state:
            reported, self._over = self._over or self._stopped.is_set(), True
        if reported:
            return
        self._stopped.set()
        if self._exchange is not None:
            self._exchange.close()
        self._on_failed(cause(error))


def _leave(session: SparkSession, _lost: bool) -> None:
    """End a session, whether it was lost or not."""
    from spark_stream.session import disconnect  # noqa: PLC0415 - imports Spark

    with contextlib.suppress(Exception):  # the server may have gone
        disconnect(session)
