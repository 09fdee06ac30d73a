"""The exchange between a peer and one query on Spark: the rows of its inputs and of its result. It does no IO.

Spark's Python workers fetch the rows of the query's inputs, and deliver the rows of its result, through
:mod:`spark_stream._flight_server`. An exchange outlives the runs of its query: when a server has died, the next run
continues from the last offset in its checkpoint and reads the same rows again; a micro-batch whose results have been
handed to the peer is not handed over again.

When results are complete
-------------------------
Rows are read between two commits of the sink, and belong to the micro-batch of the second. After it, a part without
state has emitted all results of these rows. In a part with state they only raise Spark's watermark, which takes effect
in the next micro-batch; after the commit of that, all results have been emitted. Spark runs such a micro-batch by
itself, without new rows, except in a query that has just been restarted. That query gets an offset with a new *turn*,
which contains only a marker.

What has a state of its own
---------------------------
An exchange is the door to these parts, and has their lock. They know neither threads nor callbacks:

==================  ===================================================================================================
``ExchangeInputs``  the inputs by port: spools and files, and whether a peer has been told that they are full
``SparkReaders``    where each of Spark's readers stands: what it has asked, and up to which time it reads
``Runs``            which run of the query may call, and how far all runs have come (``ExchangeState``)
``Results``         what its tasks bring, and how far that was handed over: the state that another peer continues from
``BirthTimes``      how old results are
==================  ===================================================================================================

At another peer
---------------
The state of an exchange, besides Spark's own, is a :class:`DeliveryProgress` and the committed offsets. With these,
another exchange continues at another peer, with the same checkpoint. Spark commits a micro-batch when
:meth:`Exchange.finish` returns; so the peers with copies must have its results, and know of it, by then. A micro-batch
that Spark has not committed is computed again from the same rows, with the same results at the same positions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl
import pyarrow as pa

from spark_stream._birth_times import BirthTimes
from spark_stream._exchange_inputs import ExchangeInputs
from spark_stream._readers import SparkReader, SparkReaders
from spark_stream._runs import ExchangeState, Runs
from spark_stream._spool import FIRST, WARM, Inlet, Offset, Spool
from spark_stream._staging import AHEAD, Files, Staged
from spark_stream._tables import marker, to_spark
from spark_stream.callbacks import QueryCallbacks
from spark_stream.results import NONE, DeliveryProgress, ExchangeRefused, Results, Slice
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import END, START, Item, Punctuation

SPLIT_ROWS: Final = 100_000  # number of rows from which on two tasks read a micro-batch
PATIENCE: Final = 1.0  # seconds for which a query without new input waits before it asks again


class Exchange:
    """The state of one query at the endpoint of a peer. Its methods may be called from any thread."""

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],  # columns of its result with their types
        callbacks: QueryCallbacks,  # it calls `on_items`, `on_handed`, `on_committed` and `on_room`
        *,
        windowed: bool,  # whether its result is a stream of windows
        # microseconds by which the slowest operator with state is behind the watermark of the inputs; None: none has
        # any
        lag: int | None = None,
        # puts the rows of a micro-batch in order; by default they are put in the order of their event times
        arrange: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
        clock: Callable[[], float] = time.time,  # wall-clock seconds
        since: DeliveryProgress = NONE,  # deliveries of the exchange that this one replaces
    ) -> None:
        self._callbacks = callbacks
        self._clock = clock
        self._changed = threading.Condition()  # its lock is that of all parts
        self._handing = threading.Lock()  # one micro-batch is handed over at a time
        self._inputs = ExchangeInputs()
        self._readers = SparkReaders(since.readers)
        self._runs = Runs(name, ended=since.emitted == END)
        self._results = Results(columns, windowed=windowed, lag=lag, arrange=arrange, since=since)
        self._ages = BirthTimes(clock())

    # -- for the peer ------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the query."""
        return self._runs.name

    @property
    def inlets(self) -> Sequence[Inlet]:
        """Inputs by port."""
        return self._inputs.inlets

    def attach(self, inlet: Inlet, schema: pa.Schema, taps: int) -> int:
        """Add the input of the next port, before the query runs; return the number of the port.

        ``inlet``: input of the part that the query reads on this port; ``schema``: see :func:`arrow_schema`; ``taps``:
        readers.
        """
        with self._changed:
            port = self._inputs.attach(inlet, schema)
            self._readers.attach(port, inlet, taps)
            return port

    @property
    def full(self) -> bool:
        """Whether the inputs are full, so that no items should be appended; ``on_room`` is called afterwards."""
        with self._changed:
            return self._inputs.tell_full()

    @property
    def retained_bytes(self) -> int:
        """Bytes of items from peers that have not been committed."""
        return self._inputs.retained_bytes

    @property
    def committed(self) -> list[tuple[Offset, Point]]:
        """For each input from peers, the committed offset, and the position from which on it is still needed."""
        with self._changed:
            return self._inputs.committed

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of rows that no punctuation covers yet."""
        return self._inputs.uncovered_bytes

    @property
    def late(self) -> int:
        """Number of rows that arrived after a punctuation which had promised that none would follow."""
        return self._inputs.late

    @property
    def batch(self) -> int:
        """Number of the last micro-batch that was handed over; -1 before the first."""
        return self._results.batch

    @property
    def ended(self) -> bool:
        """Whether the end of the result has been handed over and acknowledged."""
        return self._runs.state is ExchangeState.ENDED

    def append(self, port: int, item: Item) -> None:
        """Append the next item of an input."""
        spool = self._inputs.spool(port)
        with self._changed:
            if spool.append(item):
                self._ages.passed(self._inputs.low, item.born)
                self._changed.notify_all()

    def warm(self) -> None:
        """Let the first micro-batch, which is by far the slowest, run before any input has arrived."""
        with self._changed:
            for spool in self._inputs.spools:
                spool.append(Punctuation(WARM, 0, self._clock()))
            self._changed.notify_all()

    def begun(self, seconds: float) -> bool:
        """Wait until Spark has started working; return False if it has not within the time limit.

        That is when a micro-batch has been handed over. For a query that reads only files, or that continues from
        another peer, it is when Spark has asked for its first input, since its Python processes have started then.
        """
        asks = self._inputs.are_files or any(spool.continues for spool in self._inputs.spools)

        def begun() -> bool:
            return self._results.handed_any or (asks and self._runs.state is not ExchangeState.WAITING)

        with self._changed:
            self._changed.wait_for(lambda: begun() or self._runs.closed, seconds)
            return begun()

    def stage(self, port: int, file: Staged) -> bool:
        """Add the next file of a source, and wait until another one is needed; return False if none will be."""
        files = self._inputs.file_source(port)
        with self._changed:
            files.stage(file)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._runs.closed or files.waiting < AHEAD)
            return not self._runs.closed

    def staged(self) -> bool:
        """Wait until each source that Spark reads itself has its first file; return False if the exchange closes."""
        with self._changed:
            sources = self._inputs.file_sources
            self._changed.wait_for(lambda: self._runs.closed or all(files.begun for files in sources))
            return not self._runs.closed

    def begin(self, end_time: int) -> int:
        """Start a run and return its number; calls of earlier runs are refused from now on.

        ``end_time``: event time that stands for the end of a stream in Spark, in microseconds.
        """
        with self._changed:
            run = self._runs.begin(end_time)
            self._results.forget()
            self._readers.rest()
            for files in self._inputs.file_sources:
                files.begin(self._clock())
            self._changed.notify_all()
            return run

    def close(self) -> None:
        """Refuse all further calls, and those that wait."""
        with self._changed:
            self._runs.close()
            self._results.forget()
            self._changed.notify_all()

    # -- for Spark's source ------------------------------------------------------------------------------------------

    def initial(self, run: int, port: int, tap: int) -> Offset:
        """Where a reader begins."""
        with self._changed:
            self._runs.check(run)
            inlet = self.inlets[port]
            return inlet.first if isinstance(inlet, Files) else FIRST

    def latest(self, run: int, port: int, tap: int, start: Offset, patience: float = PATIENCE) -> Offset:
        """The offset up to which a reader at ``start`` may read; waits a while if no port has new input.

        Spark asks once after each micro-batch whether to run another. That is answered at once, since windows that the
        watermark has closed wait for it. If Spark asks again, it had no reason to run a micro-batch by itself.
        """
        deadline = time.monotonic() + patience
        with self._changed:
            self._runs.check(run)
            self._wake()
            reader, inlet = self._readers.of(port, tap), self.inlets[port]
            reader.ask(start)
            freed = isinstance(inlet, Spool) and self._reached(inlet, tap, start)
        if freed:
            self._callbacks.on_committed()
        with self._changed:
            self._runs.check(run)
            while (end := self._offered(reader, start)) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return start
                self._changed.wait(left)
                self._runs.check(run)
            return end

    def _offered(self, reader: SparkReader, start: Offset) -> Offset | None:
        """The offset up to which a reader may read now, ``start`` if it should ask again; None if it should wait."""
        end = reader.inlet.latest(reader.tap, start, self._clock())
        if isinstance(reader.inlet, Files):
            self._ages.passed(self._inputs.low, self._clock())
            self._changed.notify_all()  # the next one can be staged
        if end != start or reader.rounds <= 1 or self._readers.have_news:
            return end
        if self._results.is_due(self._readers.covered):
            return start._replace(turn=start.turn + 1)
        return None

    def partitions(self, run: int, port: int, tap: int, start: Offset, end: Offset) -> list[Slice]:
        """The slices of the rows between two offsets, one for each task."""
        self._await(run, port, start, end)
        with self._changed:
            self._runs.check(run)
            inlet = self.inlets[port]
            try:
                rows = inlet.rows(start, end)
            except LookupError as error:
                raise ExchangeRefused(str(error)) from None
            self._readers.of(port, tap).plan(end)
            self._ages.read(inlet.born(start, end))
            inlet.read(tap, end)
            has_room = self._inputs.take_room()
        if has_room:
            self._callbacks.on_room()
        mark = end.time > START and (end.time > start.time or end.turn > start.turn)
        if rows <= SPLIT_ROWS:
            return [Slice(0, rows, mark)] if rows or mark else []
        half = rows // 2
        return [Slice(0, half, mark), Slice(half, rows - half, False)]

    def read(self, run: int, port: int, start: Offset, end: Offset, part: Slice) -> pa.Table:
        """The rows of a slice, in order, and its marker."""
        schema = self._inputs.schemas[port]
        with self._changed:
            self._runs.check(run)
            inlet = self.inlets[port]
            try:
                found = inlet.tables(start, end, part.first, part.rows) if isinstance(inlet, Spool) else []
            except LookupError as error:
                raise ExchangeRefused(str(error)) from None
        tables = [to_spark(found, schema)] if found and part.rows else []
        if part.mark:
            tables.append(marker(min(end.time, self._runs.end_time), schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def commit(self, run: int, port: int, tap: int, end: Offset) -> None:
        """Note that Spark has committed the input up to ``end``."""
        with self._changed:
            self._runs.check(run)
            freed = self._reached(self.inlets[port], tap, end)
            has_room = self._inputs.take_room()
        if has_room:
            self._callbacks.on_room()
        if freed:
            self._callbacks.on_committed()

    # -- for Spark's sink --------------------------------------------------------------------------------------------

    def put(self, run: int, put: str, batches: list[pa.RecordBatch]) -> None:
        """Store the rows that a task has written, until :meth:`finish` or :meth:`abort`."""
        with self._changed:
            self._runs.check(run)
            self._results.put(put, batches)

    def finish(self, run: int, batch: int, puts: Sequence[str]) -> None:
        """Hand over a micro-batch: the rows stored under ``puts``, and the punctuations that it completes."""
        with self._handing:
            with self._changed:
                self._runs.check(run)
                covered = self._readers.covered
                written = self._results.take(batch, puts)  # None if the run before had come so far
                ages = None if written is None else self._ages.of_read()
            # without the lock, as the peer may wait for room here, and Spark's other calls go on meanwhile
            if written is not None and ages is not None:
                items = self._results.items(written, covered, ages)
                if items:
                    self._callbacks.on_items(items)
            with self._changed:
                if written is not None:
                    self._readers.drop_unasked()
                    self._results.hand_over(batch, covered)
                    self._ages.forget(self._results.emitted)
                self._ages.read_anew()
                self._readers.rest()
                self._changed.notify_all()
                handed = self._results.progress(self._readers.progress)
            self._callbacks.on_handed(handed)
            if handed.emitted == END:
                with self._changed:
                    self._runs.end()

    def abort(self, run: int, puts: Sequence[str]) -> None:
        """Discard the rows of a micro-batch that has failed."""
        with self._changed:
            self._runs.check(run)
            self._results.forget(puts)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._runs.wake():
            self._changed.notify_all()

    def _reached(self, inlet: Inlet, tap: int, end: Offset) -> bool:
        """Note that Spark will not ask again for what is before an offset; return whether nobody needs it."""
        if isinstance(inlet, Files):
            inlet.commit(tap, end)
            return False
        assert isinstance(inlet, Spool)
        before = inlet.committed
        inlet.mark(end)
        inlet.commit(tap, end)
        return inlet.committed != before

    def _await(self, run: int, port: int, start: Offset, end: Offset) -> None:
        """Wait until the input between two offsets has arrived, which a continued query receives again."""
        with self._changed:
            self._runs.check(run)
            self._wake()
            inlet = self.inlets[port]
            if not isinstance(inlet, Spool) or start == end:
                return
            inlet.await_until(start, end)
            has_room = self._inputs.take_room()
        if has_room:
            self._callbacks.on_room()
        with self._changed:
            self._changed.wait_for(lambda: inlet.reaches(end) or not self._runs.accepts(run))
