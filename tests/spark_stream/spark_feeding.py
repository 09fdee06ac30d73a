"""Feeding operators on Spark: the micro-batches of a feed as files, a query over them, and its rows.

A peer gives Spark only rows that are not late, and only those that a punctuation covers; the same is done
here, literally. Each punctuation makes a file, which is one micro-batch: the rows that it covers, and its marker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from spark_stream._expressions import TYPES, quote
from spark_stream.operators import END_TIME, MARK, POSITION, arrange
from synergy_nb.dataflow.tuples import END, START, Batch, Punctuation, conform
from tests.feeding import Feed, micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SECONDS = 240  # that a query may take


def in_two(tables: list[pl.DataFrame], *, eager: bool = True) -> Feed:
    """A feed of two batches a port, with a punctuation between them: few micro-batches, and all that matters in them.

    The punctuation holds some rows of the first batch back. If it is eager, a sixth of the second batch is late.
    """
    items: Feed = []
    for port, table in enumerate(tables):
        half = table.height * 3 // 5
        rest = sorted(micros(table.slice(half)))
        low = rest[len(rest) // 6] + 1 if eager else rest[0]
        items += [(port, Batch(table.head(half), 0, 0.0)), (port, Punctuation(low, half, 0.0))]
    for port, table in enumerate(tables):
        half = table.height * 3 // 5
        items += [(port, Batch(table.slice(half), half, 0.0)), (port, Punctuation(END, table.height, 0.0))]
    return items


def micro_batches(table: pl.DataFrame, port: int, items: Feed) -> list[pl.DataFrame]:
    """What Spark is given of one port's rows, a table a punctuation."""
    numbered = table.with_columns(
        pl.int_range(table.height, dtype=pl.Int64).alias(POSITION), pl.lit(value=False).alias(MARK)
    )
    held, low, found = numbered.clear(), START, []
    for of, item in items:
        if of != port:
            continue
        if not isinstance(item, Punctuation):
            rows = numbered.slice(item.position, item.rows)
            held = pl.concat([held, rows.filter(pl.Series([time >= low for time in micros(rows)], dtype=pl.Boolean))])
        elif item.time > low:
            low = item.time
            covered = held.filter(pl.col("time").cast(pl.Int64) <= low)
            held = held.filter(pl.col("time").cast(pl.Int64) > low)
            mark = dict.fromkeys(numbered.columns) | {"time": END_TIME if low == END else low, MARK: True}
            schema = {**numbered.schema, "time": pl.Int64()}
            marker = pl.DataFrame([mark], schema=schema).with_columns(pl.col("time").cast(pl.Datetime("us")))
            found.append(pl.concat([covered, marker]))
    return found


class Folder:
    """A folder that Spark reads file by file, each a micro-batch."""

    def __init__(self, path: Path, schema: Mapping[str, str]) -> None:
        self.path = path
        self.schema = {**schema, POSITION: "int", MARK: "bool"}
        self.files = 0
        path.mkdir(parents=True)

    def add(self, batches: Iterable[pl.DataFrame]) -> Folder:
        """More micro-batches."""
        for batch in batches:
            times = [name for name, kind in self.schema.items() if kind == "time"]
            zoned = batch.select(*self.schema).with_columns(pl.col(times).dt.replace_time_zone("UTC"))
            whole, written = self.path / f".{self.files}", self.path / f"{self.files:04}.parquet"
            zoned.write_parquet(whole)
            os.utime(whole, (1e9 + self.files,) * 2)  # Spark takes files in the order of their times
            whole.rename(written)
            self.files += 1
        return self

    def read(self, spark: SparkSession) -> DataFrame:
        """A stream of the files."""
        columns = ", ".join(f"{quote(name)} {TYPES[kind]}" for name, kind in self.schema.items())
        return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self.path))


def start(result: DataFrame, name: str, checkpoint: Path | None = None) -> StreamingQuery:
    """Run a query over all files that are there, into a table of memory."""
    writer = result.writeStream.format("memory").queryName(name).outputMode("append").trigger(availableNow=True)
    return (writer if checkpoint is None else writer.option("checkpointLocation", str(checkpoint))).start()


def rows(spark: SparkSession, query: StreamingQuery, schema: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """The rows that a query has given when it has read everything, in the order of peers."""
    assert query.awaitTermination(SECONDS), "the query takes too long"
    found: Any = pl.from_arrow(spark.table(str(query.name)).toArrow())
    table = arrange(found).with_columns(pl.col(pl.Datetime("us", "UTC")).dt.replace_time_zone(None))
    assert table.columns == list(schema)
    return conform(table, schema).rows()  # durations are numbers in Spark
