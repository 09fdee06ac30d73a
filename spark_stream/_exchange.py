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

At another peer
---------------
The state of an exchange, besides Spark's own, is a :class:`DeliveryProgress` and the committed offsets. With these,
another exchange continues at another peer, with the same checkpoint. Spark commits a micro-batch when
:meth:`Exchange.finish` returns; so the peers with copies must have its results, and know of it, by then. A micro-batch
that Spark has not committed is computed again from the same rows, with the same results at the same positions.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl
import pyarrow as pa

from spark_stream._birth_times import BirthTimes
from spark_stream._spool import FIRST, WARM, Inlet, Offset, Spool
from spark_stream._staging import AHEAD, Files, Staged
from spark_stream._tables import marker, to_spark
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
        *,
        windowed: bool,  # whether its result is a stream of windows
        # microseconds by which the slowest operator with state is behind the watermark of the inputs; None: none has
        # any
        lag: int | None = None,
        # puts the rows of a micro-batch in order; by default they are put in the order of their event times
        arrange: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
        on_items: Callable[[list[Item]], None],  # takes results, in order; Spark waits until it returns
        on_room: Callable[[], None] | None = None,  # called when it is no longer full
        clock: Callable[[], float] = time.time,  # wall-clock seconds
        # called behind `on_items` with how far that is. Spark commits the micro-batch when it returns
        on_handed: Callable[[DeliveryProgress], None] | None = None,
        # called when inputs are needed no longer up to a later place than before
        on_committed: Callable[[], None] | None = None,
        since: DeliveryProgress = NONE,  # deliveries of the exchange that this one replaces
    ) -> None:
        self.name = name
        self.inlets: list[Inlet] = []  # by port
        self._schemas: list[pa.Schema] = []
        self._lag = lag
        self._results = Results(columns, windowed=windowed, lag=lag, arrange=arrange, since=since)
        self._end_time = END
        self._on_items = on_items
        self._on_room = on_room
        self._on_handed = on_handed
        self._on_committed = on_committed
        self._clock = clock
        self._changed = threading.Condition()
        self._handing = threading.Lock()
        self._run = 0
        self._closed = False
        self._reported_full = False
        # by (port, tap): where Spark has come, what it has been asked since the last commit, and what it reads
        self._requested: dict[tuple[int, int], Offset] = {}
        self._rounds: dict[tuple[int, int], int] = {}
        self._planned: dict[tuple[int, int], int] = {}
        self._seen: set[tuple[int, int]] = set()  # that Spark has asked for at all
        self._low = START
        self._ages = BirthTimes(clock())
        self.batch = since.batch  # number of the last micro-batch that was handed over; -1 before the first
        self._since = since
        self._before = since.covered  # with it
        self._ended = since.emitted == END
        self._dropped = False  # whether readers that the query has not are forgotten
        self._awake = False  # whether Spark has asked for anything
        self._oldest = math.inf  # born of what was read since

    # -- for the peer ------------------------------------------------------------------------------------------------

    def attach(self, inlet: Inlet, schema: pa.Schema, taps: int) -> int:
        """Add the input of the next port, before the query runs; return the number of the port.

        ``inlet``: input of the part that the query reads on this port; ``schema``: see :func:`arrow_schema`; ``taps``:
        readers.
        """
        with self._changed:
            port = len(self.inlets)
            self.inlets.append(inlet)
            self._schemas.append(schema)
            for tap in range(taps):
                self._requested[port, tap] = FIRST
                self._rounds[port, tap] = 0
                self._planned[port, tap] = START
            for each, tap, time in self._since.readers:
                if each == port:
                    self._planned[port, tap] = time
                    self._seen.add((port, tap))
            return port

    @property
    def full(self) -> bool:
        """Whether the inputs are full, so that no items should be appended; ``on_room`` is called afterwards."""
        with self._changed:
            full = any(isinstance(inlet, Spool) and inlet.full for inlet in self.inlets)
            self._reported_full = self._reported_full or full
            return full

    @property
    def retained_bytes(self) -> int:
        """Bytes of items from peers that have not been committed."""
        return sum(inlet.retained_bytes for inlet in self.inlets if isinstance(inlet, Spool))

    @property
    def committed(self) -> list[tuple[Offset, Point]]:
        """For each input from peers, the committed offset, and the position from which on it is still needed."""
        with self._changed:
            return [(inlet.freed, inlet.committed) for inlet in self.inlets if isinstance(inlet, Spool)]

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of rows that no punctuation covers yet."""
        return sum(inlet.loose for inlet in self.inlets if isinstance(inlet, Spool))

    @property
    def late(self) -> int:
        """Number of rows that arrived after a punctuation which had promised that none would follow."""
        return sum(inlet.late for inlet in self.inlets if isinstance(inlet, Spool))

    @property
    def ended(self) -> bool:
        """Whether the end of the result has been handed over and acknowledged."""
        return self._ended

    def append(self, port: int, item: Item) -> None:
        """Append the next item of an input."""
        inlet = self.inlets[port]
        assert isinstance(inlet, Spool)
        with self._changed:
            if inlet.append(item):
                self._rise(item.born)
                self._changed.notify_all()

    def warm(self) -> None:
        """Let the first micro-batch, which is by far the slowest, run before any input has arrived."""
        with self._changed:
            for inlet in self.inlets:
                if isinstance(inlet, Spool):
                    inlet.append(Punctuation(WARM, 0, self._clock()))
            self._changed.notify_all()

    def begun(self, seconds: float) -> bool:
        """Wait until Spark has started working; return False if it has not within the time limit.

        That is when a micro-batch has been handed over. For a query that reads only files, or that continues from
        another peer, it is when Spark has asked for its first input, since its Python processes have started then.
        """
        asks = self._since.batch >= 0 or all(isinstance(inlet, Files) for inlet in self.inlets)

        def begun() -> bool:
            return self.batch > self._since.batch or (asks and self._awake)

        with self._changed:
            self._changed.wait_for(lambda: begun() or self._closed, seconds)
            return begun()

    def stage(self, port: int, file: Staged) -> bool:
        """Add the next file of a source, and wait until another one is needed; return False if none will be."""
        files = self.inlets[port]
        assert isinstance(files, Files)
        with self._changed:
            files.stage(file)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or files.waiting < AHEAD)
            return not self._closed

    def staged(self) -> bool:
        """Wait until each source that Spark reads itself has its first file; return False if the exchange closes."""
        with self._changed:
            files = [inlet for inlet in self.inlets if isinstance(inlet, Files)]
            self._changed.wait_for(lambda: self._closed or all(inlet.begun for inlet in files))
            return not self._closed

    def begin(self, end_time: int) -> int:
        """Start a run and return its number; calls of earlier runs are refused from now on.

        ``end_time``: event time that stands for the end of a stream in Spark, in microseconds.
        """
        with self._changed:
            self._run += 1
            self._end_time = end_time
            self._results.forget()
            self._rounds = dict.fromkeys(self._rounds, 0)
            for inlet in self.inlets:
                if isinstance(inlet, Files):
                    inlet.begin(self._clock())
            self._changed.notify_all()
            return self._run

    def close(self) -> None:
        """Refuse all further calls, and those that wait."""
        with self._changed:
            self._closed = True
            self._results.forget()
            self._changed.notify_all()

    # -- for Spark's source ------------------------------------------------------------------------------------------

    def initial(self, run: int, port: int, tap: int) -> Offset:
        """Where a reader begins."""
        with self._changed:
            self._check(run)
            inlet = self.inlets[port]
            return inlet.first if isinstance(inlet, Files) else FIRST

    def latest(self, run: int, port: int, tap: int, start: Offset, patience: float = PATIENCE) -> Offset:
        """The offset up to which a reader at ``start`` may read; waits a while if no port has new input.

        Spark asks once after each micro-batch whether to run another. That is answered at once, since windows that the
        watermark has closed wait for it. If Spark asks again, it had no reason to run a micro-batch by itself.
        """
        deadline = time.monotonic() + patience
        with self._changed:
            self._check(run)
            key = port, tap
            self._seen.add(key)
            self._wake()
            self._requested[key] = start
            self._rounds[key] += 1
            self._planned[key] = max(self._planned[key], start.time)
            inlet = self.inlets[port]
            freed = isinstance(inlet, Spool) and self._reached(inlet, tap, start)
        if freed:
            self._report_committed()
        with self._changed:
            self._check(run)
            while True:
                end = inlet.latest(tap, start, self._clock())
                if isinstance(inlet, Files):
                    self._rise(self._clock())
                    self._changed.notify_all()  # the next one can be staged
                if end != start:
                    return end
                again = self._rounds[key] > 1
                if again and self._is_due and not self._has_input():
                    return start._replace(turn=start.turn + 1)
                left = deadline - time.monotonic()
                if not again or left <= 0 or self._has_input():
                    return start
                self._changed.wait(left)
                self._check(run)

    def partitions(self, run: int, port: int, tap: int, start: Offset, end: Offset) -> list[Slice]:
        """The slices of the rows between two offsets, one for each task."""
        self._await(run, port, start, end)
        with self._changed:
            self._check(run)
            inlet = self.inlets[port]
            try:
                rows = inlet.rows(start, end)
            except LookupError as error:
                raise ExchangeRefused(str(error)) from None
            self._planned[port, tap] = max(self._planned[port, tap], end.time)
            self._oldest = min(self._oldest, inlet.born(start, end))
            inlet.read(tap, end)
            has_room = self._room()
        if has_room and self._on_room is not None:
            self._on_room()
        mark = end.time > START and (end.time > start.time or end.turn > start.turn)
        if rows <= SPLIT_ROWS:
            return [Slice(0, rows, mark)] if rows or mark else []
        half = rows // 2
        return [Slice(0, half, mark), Slice(half, rows - half, False)]

    def read(self, run: int, port: int, start: Offset, end: Offset, part: Slice) -> pa.Table:
        """The rows of a slice, in order, and its marker."""
        schema = self._schemas[port]
        with self._changed:
            self._check(run)
            inlet = self.inlets[port]
            try:
                found = inlet.tables(start, end, part.first, part.rows) if isinstance(inlet, Spool) else []
            except LookupError as error:
                raise ExchangeRefused(str(error)) from None
        tables = [to_spark(found, schema)] if found and part.rows else []
        if part.mark:
            tables.append(marker(min(end.time, self._end_time), schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def commit(self, run: int, port: int, tap: int, end: Offset) -> None:
        """Note that Spark has committed the input up to ``end``."""
        with self._changed:
            self._check(run)
            freed = self._reached(self.inlets[port], tap, end)
            has_room = self._room()
        if has_room and self._on_room is not None:
            self._on_room()
        if freed:
            self._report_committed()

    # -- for Spark's sink --------------------------------------------------------------------------------------------

    def put(self, run: int, put: str, batches: list[pa.RecordBatch]) -> None:
        """Store the rows that a task has written, until :meth:`finish` or :meth:`abort`."""
        with self._changed:
            self._check(run)
            self._results.put(put, batches)

    def finish(self, run: int, batch: int, puts: Sequence[str]) -> None:
        """Hand over a micro-batch: the rows stored under ``puts``, and the punctuations that it completes."""
        with self._handing:
            with self._changed:
                self._check(run)
                written = self._results.pop(puts)
                known = batch <= self.batch  # the run before had come so far
                if batch > self.batch + 1:
                    raise ExchangeRefused(f"micro-batch {batch}; expected {self.batch + 1}: some are not known here")
                missing = 0 if known else written.count(None)
                if missing:
                    raise ExchangeRefused(f"micro-batch {batch}: {missing} of {len(puts)} parts of it never came")
                covered = self._covered
                effective = self._results.effective(covered if self._lag is None else self._before)
                if self._oldest < math.inf and not known:
                    self._ages.oldest = self._oldest
                ages = self._ages.copy()
            if not known:
                items = self._results.items([each for part in written if part for each in part], ages)
                if effective > self._results.emitted:
                    items.append(Punctuation(effective, self._results.position, ages.of(effective)))
                if items:
                    self._on_items(items)
            with self._changed:
                if not known:
                    self._drop()
                    self.batch, self._before = batch, covered
                    self._results.emitted = max(self._results.emitted, effective)
                    self._ages.forget(self._results.emitted)
                self._oldest = math.inf
                self._reset_rounds()
                handed = self._handed
            if self._on_handed is not None:
                self._on_handed(handed)
            self._ended = handed.emitted == END

    def abort(self, run: int, puts: Sequence[str]) -> None:
        """Discard the rows of a micro-batch that has failed."""
        with self._changed:
            self._check(run)
            self._results.forget(puts)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check(self, run: int) -> None:
        if self._closed:
            raise ExchangeRefused(f"query {self.name} has been stopped")
        if run != self._run:
            raise ExchangeRefused(f"query {self.name}: run {run}; expected {self._run}, the query has been restarted")

    @property
    def _covered(self) -> int:
        return min((self._planned[key] for key in self._seen), default=START)

    @property
    def _handed(self) -> DeliveryProgress:
        readers = tuple((*key, self._planned[key]) for key in sorted(self._seen))
        return DeliveryProgress(self.batch, self._results.position, self._results.emitted, self._before, readers)

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
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

    def _report_committed(self) -> None:
        if self._on_committed is not None:
            self._on_committed()

    def _await(self, run: int, port: int, start: Offset, end: Offset) -> None:
        """Wait until the input between two offsets has arrived, which a continued query receives again."""
        with self._changed:
            self._check(run)
            self._wake()
            inlet = self.inlets[port]
            if not isinstance(inlet, Spool) or start.time >= end.time:
                return
            inlet.mark(start)
            inlet.mark(end)
            inlet.wanted = max(inlet.wanted, end.time)
            has_room = self._room()
        if has_room and self._on_room is not None:
            self._on_room()
        with self._changed:
            self._changed.wait_for(lambda: inlet.low >= end.time or self._closed or run != self._run)

    @property
    def _is_due(self) -> bool:
        """Whether punctuations are complete that have not been reported yet."""
        return self._results.effective(self._covered) > self._results.emitted

    def _drop(self) -> None:
        """Forget readers that the query does not have: those that it has were asked before its first micro-batch."""
        if self._dropped or not self._seen:
            return
        self._dropped = True
        for port, tap in tuple(self._requested):
            if (port, tap) not in self._seen:
                self.inlets[port].drop(tap)
                del self._requested[port, tap], self._planned[port, tap], self._rounds[port, tap]

    def _has_input(self) -> bool:
        return any(self.inlets[port].news(tap, self._requested[port, tap]) for port, tap in self._requested)

    def _room(self) -> bool:
        """Whether a full input has room again, and nobody has been told yet."""
        if not self._reported_full or any(isinstance(inlet, Spool) and inlet.full for inlet in self.inlets):
            return False
        self._reported_full = False
        return True

    def _reset_rounds(self) -> None:
        self._rounds = dict.fromkeys(self._rounds, 0)
        self._changed.notify_all()

    def _rise(self, born: float) -> None:
        """Remember the birth time with which all inputs have passed a later event time."""
        low = min(inlet.low for inlet in self.inlets)
        if low <= self._low:
            return
        self._low = low
        self._ages.passed(low, born)
