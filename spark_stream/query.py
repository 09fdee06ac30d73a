"""A part of a plan as one streaming query on Spark, which is restarted when its server has been restarted.

A :class:`PartQuery` has one thread, which opens a session, starts the query, and checks it periodically; and one thread
for each source that Spark reads itself. Spark and gRPC are imported in these threads only, since the processes of peers
are forked.

What has a state of its own is a part of it: how far the query is in its life (:class:`~._query_states.QueryLife`), what
peers have given it (:class:`~._query_input.QueryInput`), its ports with the threads that stage files for them
(:class:`~._inputs.QueryPorts`), and its checkpoint (:class:`~.checkpoints.Checkpoint`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_stream._exchange import Exchange
from spark_stream._inputs import ANYTHING, QueryPorts
from spark_stream._progress import Progress, progress_of
from spark_stream._query_input import QueryInput
from spark_stream._query_states import QueryLife, QueryState
from spark_stream._settings import SHARED_CLASSES
from spark_stream._spool import FIRST
from spark_stream.callbacks import QueryCallbacks
from spark_stream.checkpoints import Checkpoint
from spark_stream.java import SparkUnavailable
from spark_stream.part import Part, named
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.resumption import Resumption
from spark_stream.spark_errors import SparkQueryEnded, cause, is_lost, is_passing
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.plan.derived.spark_parts import has_state
from synergy_nb.plan.operators.schemas import is_windowed

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PartQuery", "Progress", "SparkAccess"]

CONNECTS_WITHIN: Final = 120.0  # time limit for a server to start or restart, seconds
PAUSE: Final = 0.5  # seconds between attempts to connect
TRIES: Final = 4  # maximum number of starts without a micro-batch, where an error may pass (`is_passing`)
#: Maximum number of starts without a micro-batch where the server or the session was lost, or Spark ended the query
#: without an error. A start after which the query ran for a while begins the count anew: a query whose input is quiet
#: for weeks makes no micro-batch, and its server may die now and then.
RETURNS: Final = 16
RAN: Final = 60.0  # seconds that are a while
CHECK_INTERVAL: Final = 1  # seconds between two checks of a query
STOPS_WITHIN: Final = 15.0  # time limit for a query to end, seconds
RECENT: Final = 64  # number of micro-batches whose progress Spark remembers

#: Settings of a session that queries require.
_SESSION: Final[Mapping[str, str]] = {
    **SHARED_CLASSES,
    "spark.sql.streaming.numRecentProgressUpdates": str(RECENT),
    "spark.sql.streaming.stopTimeout": "5s",
}


def _disconnected(session: SparkSession, _lost: bool) -> None:
    """End a session, whether it was lost or not."""
    from spark_stream.session import disconnect  # noqa: PLC0415 - imports Spark

    with contextlib.suppress(Exception):  # the server may have gone
        disconnect(session)


class SparkAccess(NamedTuple):
    """How the queries of a peer reach Spark."""

    # function that opens a session for a query; it may wait, and raises `SparkUnavailable` without a server
    connect: Callable[[], SparkSession]
    endpoint: PeerEndpoint  # endpoint of this peer, which serves the tuples of its queries
    # function that returns a query's own folder by its name, once `connect` has returned; None if Spark is on another
    # machine
    folder: Callable[[str], Path | None]
    server: Callable[[], str] = str  # function that returns the name of the server, once `connect` has returned
    # function that receives a session back, and whether it was lost; by default it ends the session
    leave: Callable[[SparkSession, bool], None] = _disconnected
    ended: Callable[[], None] = lambda: None  # function that is called when a query is over, also if its folder stays


class PartQuery:
    """A part as a streaming query. Start it once, and always stop it. Callbacks may be called on any thread."""

    def __init__(
        self,
        part: Part,
        spark: SparkAccess,
        callbacks: QueryCallbacks,
        *,
        secrets: Mapping[str, bytes],  # secrets by the name that plans use for them
        # progress of the query at another peer, from which this one continues; None for a new query
        since: Resumption | None = None,
        epoch: int = 0,  # number of peers that had the query before
    ) -> None:
        since = Resumption(named(part)) if since is None else since
        self.part = part
        self.name = name = since.name
        self.restarts = 0  # number of restarts
        self.input = QueryInput(since.inputs or ((FIRST, ORIGIN),) * len(part.inputs))
        # under a name of its own, as an earlier one here may not have ended yet
        self.checkpoint = Checkpoint(f"{name}-{epoch}" if epoch else name, since, epoch)
        self._spark = spark
        self._callbacks = callbacks
        self._secrets = secrets
        self._life = QueryLife(name)
        self._ports = QueryPorts(part, name, callbacks.on_skipped, self._fail)
        self._thread = threading.Thread(target=self._work, name=f"spark {name}", daemon=True)
        self._query: StreamingQuery | None = None  # None while Spark runs none
        self._last = -1  # last micro-batch whose progress was reported

    # -- for the peer ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the query, without waiting for it."""
        self._life.start(self._thread)

    def abandon(self, *, left: bool) -> None:
        """Announce that the query will be stopped; if ``left``, its folder stays for a peer that may continue it."""
        if left:
            self._life.leave()
        else:
            self._life.stop()

    def stop(self) -> None:
        """End the query with its session and threads. This does not fail, and takes a few seconds at most."""
        self._life.stop()
        # after that: what its thread makes meanwhile it ends itself
        query, exchange = self._query, self.input.exchange
        if exchange is not None:
            exchange.close()
        if query is not None:
            with contextlib.suppress(Exception):  # it ends with its session, if not now
                query.stop()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(STOPS_WITHIN)
        self._ports.join(STOPS_WITHIN)

    # -- on its thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._run()
        except ANYTHING as error:  # the application has to fail with it
            self._fail(error)
        finally:
            if self.input.exchange is not None:
                self._spark.endpoint.dismiss(self.input.exchange)
            self._ports.join()
            if not self._stays:
                self.checkpoint.clear(None)
            self._spark.ended()

    @property
    def _stays(self) -> bool:
        """Whether its checkpoint and folder stay for another peer."""
        return self._life.left and not (self.input.exchange is not None and self.input.exchange.ended)

    def _run(self) -> None:
        """Execute the query, and again if its server is lost, until it ends, but not for ever without a micro-batch."""
        reported, tries = -2, 0
        while not self._life.ended():
            session = self._session()
            if session is None:
                return
            lost, began = False, time.monotonic()
            try:
                self._execute(session)
            except Exception as error:
                lost = is_lost(error)
                if self._life.ended():
                    return
                away = lost or isinstance(error, SparkQueryEnded)
                ran = away and time.monotonic() - began > RAN
                tries = tries + 1 if self._last == reported and not ran else 1
                reported = self._last
                if tries >= (RETURNS if away else TRIES) or not (away or is_passing(error)):
                    raise
                self.restarts += 1
            finally:
                self._end_run(session, lost=lost)

    def _end_run(self, session: SparkSession, *, lost: bool) -> None:
        """Leave nothing of a run behind; of the query neither, if it has ended."""
        query, self._query = self._query, None
        if query is not None and not lost:  # the session may live on
            with contextlib.suppress(Exception):
                query.stop()
        if self._life.ended() and not (lost or self._stays):
            self.checkpoint.clear(session)
        self._spark.leave(session, lost)

    def _session(self) -> SparkSession | None:
        """Open a session as soon as a server accepts one; None if the query is stopped before."""
        deadline = time.monotonic() + CONNECTS_WITHIN
        while not self._life.ended():
            try:
                return self._spark.connect()
            except SparkUnavailable:
                if time.monotonic() > deadline:
                    raise
            self._life.pause(PAUSE)
        return None

    def _execute(self, session: SparkSession) -> None:
        """Run the query until it is over, stopped, or fails."""
        exchange = self.input.exchange or self._prepare()
        if exchange.ended:  # there are no further inputs
            is_new = self._life.become_ready()
            self._life.finish()
            if is_new:
                self._callbacks.on_ready()
        if self._life.ended() or not exchange.staged():
            return
        if self.checkpoint.is_claimed:  # another peer has it now
            self._life.finish()
            return
        self._query = query = self._begin(session, exchange)
        self._watch(query, exchange)

    def _prepare(self) -> Exchange:
        """Make the exchange of the query, and start to stage the sources that Spark reads itself."""
        from spark_stream import operators  # noqa: PLC0415 - imports Spark

        part, plan, name = self.part, self.part.plan, self.checkpoint.name
        stateful = any(has_state(plan.operators[each]) for each in part.members)
        exchange = Exchange(
            name,
            plan.schema(part.operator),
            self._callbacks,
            windowed=is_windowed(plan.schema(part.operator)),
            lag=operators.lag(plan, part.members, part.operator) if stateful else None,
            arrange=operators.arrange,
            since=self.checkpoint.since.handed,
        )
        self.checkpoint.place(self._spark.server(), self._spark.folder(name))
        continues = bool(self.checkpoint.since.checkpoint)
        self._ports.attach(exchange, self.input.committed, self.checkpoint.folder, continues=continues)
        exchange.warm()
        self._spark.endpoint.admit(exchange)
        self.input.open(exchange)
        self._ports.stage(exchange)
        if self._life.ended():  # who has stopped it did not see the exchange
            exchange.close()
        return exchange

    def _begin(self, session: SparkSession, exchange: Exchange) -> StreamingQuery:
        """Start a run of the query in a session."""
        from pyspark.sql.connect.proto.base_pb2 import ConfigRequest, KeyValue  # noqa: PLC0415 - imports Spark

        from spark_stream import operators  # noqa: PLC0415
        from spark_stream._expressions import MEANING  # noqa: PLC0415
        from spark_stream._sources import FORMAT, register  # noqa: PLC0415

        part, name, endpoint = self.part, self.checkpoint.name, self._spark.endpoint
        needed = {**MEANING, **_SESSION, **operators.settings(part.plan, part.members)}
        pairs = [KeyValue(key=key, value=value) for key, value in needed.items()]
        session.client.config(ConfigRequest.Operation(set=ConfigRequest.Set(pairs=pairs)))
        register(session)
        run = str(exchange.begin(operators.END_TIME))
        reached = {"endpoint": endpoint.address, "token": endpoint.token, "certificate": endpoint.certificate}
        options = {**reached, "query": name, "run": run}
        frames = self._ports.frames(session, options)
        result = operators.build(part.plan, part.members, part.operator, frames, secrets=self._secrets, ordered=True)
        writer = result.writeStream.format(FORMAT).options(**options).queryName(name).outputMode("append")
        writer = writer.option("checkpointLocation", self.checkpoint.open(session))
        return writer.trigger(processingTime="0 seconds").start()

    def _watch(self, query: StreamingQuery, exchange: Exchange) -> None:
        """Monitor a query until it ends."""
        waited = False
        while not self._life.ended():
            is_ready = self._life.state is QueryState.READY
            if not is_ready and exchange.begun(3.0 * CHECK_INTERVAL) and self._life.become_ready():
                self._callbacks.on_ready()
            ended = query.awaitTermination(CHECK_INTERVAL)  # raises the error of the query
            if not ended and exchange.batch > self._last:
                self._report_progress(query.recentProgress)
            if exchange.ended and (self._last >= exchange.batch or waited):  # Spark reports the last one a little later
                self._life.finish()
                return
            waited = exchange.ended
            if ended and not self._life.ended():
                raise SparkQueryEnded(f"query {self.name} was stopped by another program")

    def _report_progress(self, recent: Sequence[Any]) -> None:
        for event in recent:
            progress = progress_of(event)
            if progress is not None and progress.batch > self._last:
                self._last = progress.batch
                self._callbacks.on_progress(progress)

    def _fail(self, error: BaseException) -> None:
        """Fail the query, unless it has ended; on any of its threads."""
        if self._life.fail():
            if self.input.exchange is not None:
                self.input.exchange.close()
            self._callbacks.on_failed(cause(error))
