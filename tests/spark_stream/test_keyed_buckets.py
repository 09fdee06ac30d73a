"""Buckets of keys, without Spark: each a new object in each micro-batch, with the state that was kept of it."""

from __future__ import annotations

import msgspec
import polars as pl
import pyarrow as pa
import pytest

from spark_stream._keyed_buckets import BUCKETS, Bucket, packed, unpacked_results
from spark_stream._tables import from_spark, places_in_order
from synergy_nb.dataflow.functions.keyed_states import PLACES
from synergy_nb.dataflow.operators.base import Context
from synergy_nb.dataflow.operators.own import ApplyKeyed
from synergy_nb.dataflow.tuples import END, Batch, Punctuation
from synergy_nb.plan.operators.schemas import Schema
from tests.feeding import micros, rows_of
from tests.operator_cases import built, packets

ORDER = " order"
NAMES = ["apply_keyed", "apply_keyed with timers", "apply_keyed with timers that set others"]


class Kept:
    """What Spark keeps of the buckets of an operator."""

    def __init__(self, context: Context, given: Schema, output: Schema) -> None:
        self.context, self.given, self.output = context, given, output
        self.timers = bool(context.params.get("timers"))
        self.states: dict[int, tuple[bytes, bytes, int]] = {}
        self.tables: dict[int, dict[int, bytes]] = {number: {} for number in range(BUCKETS)}

    def micro_batch(self, rows: pl.DataFrame, low: int) -> list[pa.RecordBatch]:
        """Results of all buckets for rows with their positions and keys' buckets."""
        contents: dict[int, list[tuple[bytes | None, int]]] = {}
        for batch in rows.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches(max_chunksize=70):
            for one in packed(batch, " bucket", told=self.timers):
                for each in one.to_pylist():
                    contents.setdefault(each["bucket"], []).append((each["rows"], each["latest"]))
        found: list[bytes] = []
        for number in sorted({*contents, *(self.states if self.timers else ())}):
            bucket = Bucket(ApplyKeyed(self.context), self.given, ORDER, self.output, timers=self.timers)
            if number in self.states:
                bucket.load(self.states[number], self.tables[number].__getitem__)
            found += [*bucket.take(contents.get(number, [])), *bucket.pass_on(low)]
            head, tables, new, gone = bucket.saved()
            self.states[number] = head, tables, bucket.latest
            for each in gone:
                del self.tables[number][each]
            self.tables[number] |= new
            assert set(msgspec.msgpack.decode(tables, type=dict[int, int]).values()) == set(self.tables[number])
        return list(unpacked_results(pa.RecordBatch.from_pydict({"results": pa.array(found, pa.binary())})))


@pytest.mark.parametrize("name", NAMES)
def test_buckets_give_the_rows_of_one_operator_in_its_order(name: str) -> None:
    it = built(name)
    operator = it.plan.operators[it.operator]
    given, output = it.plan.schema("packets"), it.schema
    table = packets().sort("time")
    table = table.head(200).vstack(table.slice(200).filter(pl.col("link") == "B"))  # the others are told of the latest
    logic = it.fresh()
    items = logic.on_batch(0, Batch(table, 0, 0.0)) + logic.on_punctuation(0, Punctuation(END, table.height, 0.0))
    context = Context(operator.id, operator.kind, operator.params, (given,), {**output, **PLACES}, "")
    kept = Kept(context, given, output)
    number = (pl.col(operator.params["key"][0]).hash() % BUCKETS).cast(pl.Int64).alias(" bucket")
    rows = table.with_columns(pl.int_range(pl.len()).alias(ORDER), number)
    parts = [rows.slice(start, 100).sample(fraction=1.0, shuffle=True, seed=1) for start in range(0, table.height, 100)]
    lows = [min(micros(each)) for each in parts[1:]]
    made = [kept.micro_batch(each, low) for each, low in zip(parts, [*lows, lows[-1]], strict=True)]
    found = [_arranged(batches) for batches in (*made, kept.micro_batch(rows.clear(), END)) if batches]
    assert pl.concat(found).rows() == rows_of(items, it.schema)


def _arranged(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    made = from_spark(batches)
    plain = made.drop(ORDER)
    return plain[places_in_order(plain, made.get_column(ORDER))]
