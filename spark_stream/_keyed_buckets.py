"""Keyed states of users' own in Spark's Python processes: buckets of keys, each with the logic of a peer's operator.

Theory of operation
-------------------
Spark keeps state by group. A group for each key would call Python for each key of a micro-batch, with its rows one by
one; so keys are put into a few buckets, and a bucket is one instance of the operator as peers have it. Its rows come
packed, as Arrow, and so do its results. Between micro-batches its saved state (:class:`.SavedState`: a head, and tables
of which most stay the same) is state of Spark.

An operator with timers has to be told when the stream ends how late its latest row was, since timers that others set
fire up to there. That is the latest row of all keys; so with the rows of each bucket comes the latest time of all rows
that were packed together, to all buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from spark_stream._tables import from_spark, places_in_order, table_to_spark
from synergy_nb.dataflow.functions.keyed_states import PLACES
from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

__all__ = ["BUCKETS", "PACKED", "STATE", "TABLES", "Bucket", "packed", "unpacked_results"]

#: Buckets of an operator, and so the most tasks that execute it at once. Checkpoints depend on it.
BUCKETS: Final = 8
#: Columns of packed rows, as a schema of Spark: rows in Arrow's stream format (NULL: none), and the latest time of all.
PACKED: Final = "bucket BIGINT, rows BINARY, latest BIGINT"
#: Columns of the state of a bucket, beside its tables: the head, which tables it names, the latest time of all rows.
STATE: Final = "head BINARY, tables BINARY, latest BIGINT"
#: Key and value of the map of tables.
TABLES: Final = ("id BIGINT", "rows BINARY")


def packed(batch: pa.RecordBatch, bucket: str, *, told: bool) -> Iterator[pa.RecordBatch]:
    """Pack the rows of each bucket.

    ``bucket``: column with the number of the bucket; ``told``: whether buckets without rows are told the latest time.
    """
    if not batch.num_rows:
        return
    numbers = batch.column(bucket).to_numpy()
    latest = int(batch.column("time").cast(pa.int64()).to_numpy().max())
    rows = batch.select([name for name in batch.schema.names if name != bucket])
    found: list[tuple[int, bytes | None]] = []
    for number in range(BUCKETS):
        places = np.flatnonzero(numbers == number)
        if places.size:
            found.append((number, _written(pa.Table.from_batches([rows.take(pa.array(places))]))))
        elif told:
            found.append((number, None))
    buckets, contents = zip(*found, strict=True)
    columns = [pa.array(buckets, pa.int64()), pa.array(contents, pa.binary()), pa.array([latest] * len(found))]
    yield pa.RecordBatch.from_arrays(columns, ["bucket", "rows", "latest"])


def unpacked_results(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Unpack the results of buckets, of which a batch has one in each row."""
    for content in batch.column(0).to_pylist():
        yield from _read(content).to_batches()


class Bucket:
    """The operator for the keys of one bucket, in one micro-batch."""

    def __init__(
        self,
        logic: OperatorLogic,
        given: Mapping[str, str],  # column of its input to type
        order: str,  # column of the rows that has their order
        output: Mapping[str, str],  # column of its stream to type
        *,
        timers: bool,
    ) -> None:
        self._logic, self._given, self._order, self._output, self._timers = logic, given, order, output, timers
        self.latest = START  # time of the latest row of all buckets
        self._stored: dict[int, pl.DataFrame] = {}  # tables that Spark has, by id
        self._next = 0

    def load(self, state: tuple[bytes, bytes, int], table_of: Callable[[int], bytes]) -> None:
        """Continue from a state, see ``STATE``; ``table_of``: function that returns a stored table by its id."""
        head, tables, latest = state
        ids: dict[int, int] = msgspec.msgpack.decode(tables, type=dict[int, int])
        self._stored = {each: pl.DataFrame(_read(table_of(each))) for each in ids.values()}
        self._next = max(self._stored, default=-1) + 1
        self.latest = latest
        self._logic.restore(SavedState(head, {number: self._stored[each] for number, each in ids.items()}))

    def saved(self) -> tuple[bytes, bytes, dict[int, bytes], list[int]]:
        """The head, which tables it names, the new ones of these by id, and the ids of those that are not needed."""
        state = self._logic.save()
        known = {id(table): each for each, table in self._stored.items()}
        ids: dict[int, int] = {}
        new: dict[int, bytes] = {}
        kept: dict[int, pl.DataFrame] = {}
        for number, table in state.tables.items():
            if id(table) not in known:
                known[id(table)] = self._next
                new[self._next] = _written(table.to_arrow(compat_level=pl.CompatLevel.oldest()))
                self._next += 1
            ids[number] = known[id(table)]
            kept[ids[number]] = table
        gone = [each for each in self._stored if each not in kept]
        self._stored = kept
        return state.head, msgspec.msgpack.encode(ids), new, gone

    def take(self, contents: Iterable[tuple[bytes | None, int]]) -> Iterator[bytes]:
        """Process packed rows, and return packed results."""
        tables: list[pa.Table] = []
        for content, latest in contents:
            self.latest = max(self.latest, latest)
            if content is not None:
                tables.append(_read(content))
        if not tables:
            return
        whole = pa.concat_tables(tables)
        rows = from_spark(whole.select(list(self._given)).to_batches(), self._given)
        if self._timers:
            yield from self._results(self._logic.execute(0, Batch(rows, 0, 0.0)))
            return
        order: Any = pl.from_arrow(whole.column(self._order))
        places = places_in_order(rows, order)
        batch = Batch(rows[places], 0, 0.0)
        yield from self._results(self._logic.execute(0, batch), whole.column(self._order).take(places.to_arrow()))

    def pass_on(self, low: int) -> Iterator[bytes]:
        """Tell the operator that no row before a time will come, and return packed results."""
        times = (self.latest, END) if low == END and self._timers else (low,)
        for time in times:
            yield from self._results(self._logic.execute(0, Punctuation(time, 0, 0.0)))

    def _results(self, items: Iterable[Item], order: pa.Array | None = None) -> Iterator[bytes]:
        """Results with their order: where they belong among those of other keys, or the order of their rows."""
        for item in items:
            if not isinstance(item, Batch):
                continue
            table = item.table
            made = table_to_spark(table, self._output)
            cause, is_row, key, row, number = (table.get_column(name).to_arrow() for name in PLACES)
            if order is None:
                parts = [cause, is_row, key.cast(pa.binary()), row, number]
            else:
                parts = [_whole(order.take(row)), number]
            names = [f"c{each}" for each in range(len(parts))]
            yield _written(made.append_column(self._order, pa.StructArray.from_arrays(parts, names)))


def _whole(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _written(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _read(content: bytes) -> pa.Table:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()
