"""Another engine that runs the query of ``dataflow``: a script for the Python that has that engine installed.

It imports nothing of this project, so that it also runs in an environment where this project is not installed. The
engine reads the file by itself, and its query is written as its users would write it. Imports and the start of a JVM
come before the first answer. Each line of standard input is a path; each answer is a line of JSON: the seconds and the
rows, or an error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

Rows = list[tuple[int, int, int, int]]
"""(start of the window in µs, key, count, sum), in any order."""
Run = Callable[[str], Rows]


def _polars() -> Run:
    pl: Any = importlib.import_module("polars")

    def run(path: str) -> Rows:
        window = pl.col("time").dt.truncate("1s").alias("window")
        sums = (
            pl.scan_parquet(path)
            .filter(pl.col("value") >= 500)
            .select(window, "key", double=pl.col("value") * 2)
            .group_by("window", "key")
            .agg(pl.len().alias("n"), pl.col("double").sum())
            .with_columns(pl.col("window").dt.epoch("us"))
        )
        rows: Rows = sums.collect(engine="streaming").rows()
        return rows

    return run


def _duckdb() -> Run:
    connection: Any = importlib.import_module("duckdb").connect()
    text = """
        SELECT epoch_us(date_trunc('second', time)) AS start, key, count(*), sum(value * 2)
        FROM read_parquet(?) WHERE value >= 500 GROUP BY ALL"""

    def run(path: str) -> Rows:
        return [(start, key, count, int(total)) for start, key, count, total in _fetched(connection, text, path)]

    return run


def _fetched(connection: Any, text: str, path: str) -> Iterable[tuple[Any, ...]]:
    found: Iterable[tuple[Any, ...]] = connection.execute(text, [path]).fetchall()
    return found


def _spark() -> Run:
    sql: Any = importlib.import_module("pyspark.sql")
    f: Any = importlib.import_module("pyspark.sql.functions")
    session = (
        sql.SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )

    def run(path: str) -> Rows:
        sums = (
            session.read.parquet(path)
            .where("value >= 500")
            .selectExpr("time", "key", "value * 2 AS double")
            .groupBy(f.window("time", "1 second").alias("w"), "key")
            .agg(f.count("*").alias("n"), f.sum("double").alias("total"))
            .selectExpr("unix_micros(CAST(w.start AS TIMESTAMP))", "key", "n", "total")
        )
        return [tuple(row) for row in sums.collect()]

    return run


def _flink() -> Run:
    table: Any = importlib.import_module("pyflink.table")
    expressions: Any = importlib.import_module("pyflink.table.expressions")
    window: Any = importlib.import_module("pyflink.table.window")
    col, lit = expressions.col, expressions.lit
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_batch_mode())
    types = table.DataTypes
    schema = (
        table.Schema.new_builder()
        .column("time", types.TIMESTAMP(6))
        .column("key", types.BIGINT())
        .column("value", types.BIGINT())
        .build()
    )

    def run(path: str) -> Rows:
        tuples = environment.from_descriptor(
            table.TableDescriptor.for_connector("filesystem")
            .schema(schema)
            .option("path", path)
            .format("csv")
            .option("csv.ignore-parse-errors", "true")  # of the header, which it cannot leave out
            .build()
        )
        sums = (
            tuples.filter(col("value") >= 500)
            .select(col("time"), col("key"), (col("value") * 2).alias("double"))
            .window(window.Tumble.over(lit(1).seconds).on(col("time")).alias("w"))
            .group_by(col("w"), col("key"))
            .select(col("w").start, col("key"), col("key").count, col("double").sum)
        )
        with sums.execute().collect() as results:
            return [(_micros(start), key, count, total) for start, key, count, total in results]

    return run


def _micros(start: datetime) -> int:
    return (start.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _pathway() -> Run:
    os.environ["PATHWAY_THREADS"] = str(min(os.cpu_count() or 1, 8))  # what it can use without a licence
    pw: Any = importlib.import_module("pathway")
    graph: Any = importlib.import_module("pathway.internals.parse_graph").G
    schema = pw.schema_from_types(time=str, key=int, value=int)
    second = pw.temporal.tumbling(duration=timedelta(seconds=1))

    def run(path: str) -> Rows:
        graph.clear()  # of the run before
        rows: Rows = []

        def take(row: dict[str, Any], **_: Any) -> None:
            rows.append((_micros(row["start"]), row["key"], row["n"], row["total"]))

        kept = pw.io.csv.read(path, schema=schema, mode="static").filter(pw.this.value >= 500)
        doubled = kept.select(
            pw.this.key, double=pw.this.value * 2, time=pw.this.time.dt.strptime("%Y-%m-%d %H:%M:%S%.6f")
        )
        sums = doubled.windowby(pw.this.time, window=second, instance=pw.this.key).reduce(
            start=pw.this._pw_window_start,
            key=pw.this._pw_instance,
            n=pw.reducers.count(),
            total=pw.reducers.sum(pw.this.double),
        )
        pw.io.subscribe(sums, on_change=take)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return rows

    return run


_ENGINES: dict[str, Callable[[], Run]] = {
    "polars": _polars,
    "duckdb": _duckdb,
    "pyspark": _spark,
    "apache-flink": _flink,
    "pathway": _pathway,
}


def main(name: str) -> None:
    """Run the query by engine ``name`` on each file that standard input names."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print goes where errors go

    def answer_line(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        run = _ENGINES[name]()
        answer_line(ready=name)
        for line in sys.stdin:
            began = time.perf_counter()
            rows = run(line.rstrip("\n"))
            answer_line(seconds=time.perf_counter() - began, rows=rows)
    except Exception as error:
        answer_line(error=" ".join(f"{type(error).__name__}: {error}".split())[:500])
        raise


if __name__ == "__main__":
    main(sys.argv[1])
