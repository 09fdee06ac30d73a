"""Functions of users' own for batches, rows, windows and keyed states, in the Python processes of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from msgspec import structs
from pyspark.sql import Row, types
from pyspark.sql.connect import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from spark_stream._expressions import TYPES, quote
from spark_stream._keyed_buckets import BUCKETS, PACKED, STATE, TABLES, Bucket, packed, unpacked_results
from spark_stream._tables import from_spark, table_to_spark
from spark_stream.operators._registry import implements
from spark_stream.operators.arrow_functions import of_rows, spark_type
from spark_stream.operators.frames import (
    CLOCK,
    END_TIME,
    ORDER,
    SHIFT,
    Work,
    columns_of,
    event_time,
    moved,
    named,
    struct,
)
from spark_stream.operators.ordered import for_groups
from spark_stream.operators.windows import WINDOW_COLUMN
from synergy_nb.dataflow.functions.calls import FunctionTask, LocalCalls, columns_needed, task_of, unpacked
from synergy_nb.dataflow.functions.keyed_states import PLACES
from synergy_nb.dataflow.operators.base import Context
from synergy_nb.dataflow.operators.own import ApplyKeyed, in_order
from synergy_nb.dataflow.tuples import END, START
from synergy_nb.plan.terms.known_functions import payload_of
from synergy_nb.plan.terms.naming import internal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["apply", "apply_keyed", "apply_windows"]


@implements("apply")
def apply(work: Work) -> DataFrame:
    """What the function makes of each batch of tuples; the order of tuples stays where it makes one of each."""
    operator, given, output = work.operator, dict(work.schemas[0]), dict(work.output)
    payload = payload_of(operator.params["function"])
    task = FunctionTask(operator.id, operator.params["function"], dict(operator.params), given, output)
    made = {**output, ORDER: "int"}

    def applied(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls: Any = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if calls is None:
                calls = LocalCalls(unpacked(task.function, payload), task)
            table: pl.DataFrame = calls.call("batch", from_spark([batch], given), START).table
            yield from table_to_spark(table, made).to_batches()

    rows = work.inputs[0].select(*(sf.col(quote(name)) for name in given), sf.col(quote(ORDER)))
    schema = ", ".join(f"{quote(name)} {TYPES[kind]}" for name, kind in made.items())
    columns = [sf.col(quote(name)) for name in output]
    result = rows.mapInArrow(applied, schema)
    clock = event_time(moved("`time`", work.shift), CLOCK, finite=work.finite)
    return result.select(*columns, clock, sf.col(quote(ORDER)))


@implements("apply_windows")
def apply_windows(work: Work) -> DataFrame:
    """What the function makes of the tuples of each window and group, which it gets as on peers."""
    operator, given, output = work.operator, dict(work.schemas[0]), dict(work.output)
    by = list(work.params.get("by") or ())
    payload = payload_of(operator.params["function"])
    task = FunctionTask(operator.id, operator.params["function"], dict(operator.params), given, output)
    sent = columns_needed(work.params, given) or list(given)
    group, new = internal("group 0"), {name: output[name] for name in work.params["columns"]}

    def calls() -> Callable[[pl.DataFrame], pl.DataFrame]:
        own = LocalCalls(unpacked(task.function, payload), task)

        def called(rows: pl.DataFrame) -> pl.DataFrame:
            rows = in_order(rows, [group], given)
            return own.call("windows", rows.select(group, *sent), START).table

        return called

    windows = for_groups(work, by, list(given))
    groups = windows.by([named(quote(name), f" by {name}") for name in by])
    rows = groups.agg(named(f"collect_list({struct(map(quote, given))})", " rows"))
    kept = [sf.col(quote(name)) for name in (WINDOW_COLUMN, *(f" by {name}" for name in by))]
    fields = {name: number for number, name in enumerate(given)}
    rows = rows.select(*kept, of_rows(calls, " rows", fields, given, new, group).alias(" made"))
    rows = rows.select(*kept, sf.expr("posexplode(` made`)").alias(" place", " row"))
    found = {name: quote(f" by {name}") for name in by} | {name: f"` row`.c{n}" for n, name in enumerate(new)}
    keys = [part for name in by for part in (f"{found[name]} IS NULL", found[name])]
    order = struct([*keys, "CAST(` place` AS BIGINT)"])
    return windows.finished(rows, {name: found[name] for name in columns_of(output)}, order)


@implements("apply_keyed")
def apply_keyed(work: Work) -> DataFrame:
    """What the objects of keys make of their tuples, which they get in the order in which they get them on peers."""
    operator, given, output = work.operator, dict(work.schemas[0]), dict(work.output)
    reference, timers = operator.params["function"], bool(operator.params.get("timers"))
    payload = payload_of(reference)
    context = Context(operator.id, operator.kind, dict(operator.params), (given,), {**output, **PLACES}, "")

    def made() -> Bucket:
        def calls(context: Context) -> LocalCalls:
            return LocalCalls(unpacked(reference, payload), task_of(context))

        own = structs.replace(context, functions=calls)
        return Bucket(ApplyKeyed(own), given, ORDER, output, timers=timers)

    class Processor(StatefulProcessor):
        """A few calls of Spark for each bucket and micro-batch; it is made anew for each micro-batch."""

        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = handle.getValueState("state", STATE)
            self._tables = handle.getMapState("tables", *TABLES)
            self._done: set[int] = set()

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            yield from self._pass(int(key[0]), [(each.rows, each.latest) for each in rows], timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
            yield from self._pass(int(key[0]), [], timerValues)

        def close(self) -> None:
            pass

        def _pass(self, number: int, contents: Any, times: Any) -> Iterator[Row]:
            if number in self._done:  # its rows came in the micro-batch in which its timer is due
                return
            self._done.add(number)
            bucket, saved = made(), self._state.get()
            if saved is not None:
                bucket.load(saved, lambda each: self._tables.getValue((each,))[0])
            mark = times.getCurrentWatermarkInMs()
            low = START if mark <= 0 else END if mark * 1000 - SHIFT >= END_TIME else mark * 1000 - SHIFT
            for content in (*bucket.take(contents), *bucket.pass_on(low)):
                yield Row(results=content)
            head, tables, new, gone = bucket.saved()
            for each in gone:
                self._tables.removeKey((each,))
            for each, content in new.items():
                self._tables.updateValue((each,), (content,))
            self._state.update((head, tables, bucket.latest))
            if timers and low != END:
                self._handle.registerTimer(mark + 1)

    keys = ", ".join(f"{quote(name)} + 0.0D" if given[name] == "float" else quote(name) for name in work.params["key"])
    bucket = named(f"pmod(xxhash64({keys}), {BUCKETS}L)", " bucket")
    rows = work.inputs[0].select(*(sf.col(quote(name)) for name in (*given, ORDER)), bucket)

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from packed(batch, " bucket", told=timers)

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from unpacked_results(batch)

    def pass_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all rows of some buckets, whose state ends with them."""
        contents: dict[int, list[tuple[bytes | None, int]]] = {}
        for batch in batches:
            for number, content, latest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                contents.setdefault(number, []).append((content, latest))
        for number in list(contents):
            bucket = made()
            for content in (*bucket.take(contents.pop(number)), *bucket.pass_on(END)):
                yield pa.RecordBatch.from_arrays([pa.array([content], pa.binary())], ["results"])

    buckets = rows.mapInArrow(pack, PACKED)
    if work.finite:
        results = buckets.repartition(BUCKETS, "bucket").mapInArrow(pass_all, "results BINARY")
    else:
        groups = buckets.groupBy("bucket")
        results = groups.transformWithState(Processor(), "results BINARY", "Append", "EventTime")
    if timers:
        places: list[types.DataType] = [spark_type(kind) for kind in PLACES.values()]
    else:
        places = [rows.select(sf.col(quote(ORDER))).schema[0].dataType, types.LongType()]
    order = types.StructType([types.StructField(f"c{number}", kind) for number, kind in enumerate(places)])
    columns = [types.StructField(name, spark_type(kind)) for name, kind in output.items()]
    result = results.mapInArrow(unpack, types.StructType([*columns, types.StructField(ORDER, order)]))
    clock = event_time(moved("`time`", work.shift), CLOCK, finite=work.finite)
    return result.select(*(sf.col(quote(name)) for name in output), clock, sf.col(quote(ORDER)))
