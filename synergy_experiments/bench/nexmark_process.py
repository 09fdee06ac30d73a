"""Another system that runs queries of NEXMark: a script for the Python that has that system installed.

It imports nothing of this project. Each query is written as users of the system write it. Each line of standard input
is a task of JSON, each answer a line of JSON: ``{"query": "q5", "files": {"bid": ...}}`` runs a query over whole files
(``seconds`` and ``rows``), ``{"live": port, "seconds": 10}`` runs query 2 over lines from a socket of this machine
(``delays`` of its rows, seconds: from the time in the row, at which it was sent, until it is there). Imports and the
start of a JVM come before the first answer.
"""

# ruff: noqa: S608 - the parts of these queries are ours

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Rows = list[tuple[Any, ...]]
"""Rows in any order; a start of a window is in µs."""
Batch = Callable[[str, dict[str, str]], Rows]
Live = Callable[[int, float], list[float]]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = {
    "person": {"time": "time", "person": "int", "name": "str"},  # in pathway no column is called `id`
    "auction": {"time": "time", "seller": "int"},
    "bid": {"time": "time", "auction": "int", "bidder": "int", "price": "int"},
}


def _micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def _lines(port: int) -> Iterator[list[str]]:
    """The lines of a socket, as they come, as lists of fields."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("r") as lines:
        for line in lines:
            yield line.rstrip("\n").split(",")


# -- Spark -------------------------------------------------------------------------------------------------------------


def _spark() -> tuple[Batch, Live]:
    sql: Any = importlib.import_module("pyspark.sql")
    session = (
        sql.SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(os.cpu_count() or 1))  # 200 by default, for clusters
        .getOrCreate()
    )
    ten = "window(time, '10 seconds')"
    hop = "window(time, '10 seconds', '2 seconds')"
    texts = {
        "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        "q5": f"""
            WITH c AS (SELECT auction, count(*) AS num, {hop} AS w FROM bid GROUP BY auction, {hop})
            SELECT c.auction, c.num FROM c JOIN (SELECT max(num) AS maxn, w FROM c GROUP BY w) AS m
            ON c.w = m.w AND c.num >= m.maxn""",
        "q8": f"""
            SELECT p.person, p.name, unix_micros(CAST(p.w.start AS TIMESTAMP))
            FROM (SELECT DISTINCT person, name, {ten} AS w FROM person) AS p
            JOIN (SELECT DISTINCT seller, {ten} AS w FROM auction) AS a ON p.person = a.seller AND p.w = a.w""",
        "q12": f"""
            SELECT bidder, count(*), unix_micros(CAST({ten}.start AS TIMESTAMP))
            FROM bid GROUP BY bidder, {ten}""",
    }

    def run(query: str, files: dict[str, str]) -> Rows:
        for name, path in files.items():
            session.read.parquet(path).createOrReplaceTempView(name)
        return [tuple(row) for row in session.sql(texts[query]).collect()]

    def live(port: int, seconds: float) -> list[float]:
        delays: list[float] = []

        def take(frame: Any, _: int) -> None:
            rows = frame.collect()
            now = time.time()
            delays.extend(now - row[0] / 1e6 for row in rows)

        lines = session.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
        fields = lines.selectExpr("split(value, ',') AS f")
        bids = fields.selectExpr("CAST(f[0] AS BIGINT) AS time", "CAST(f[1] AS BIGINT) AS auction", "f[3] AS price")
        query = bids.where("auction % 123 = 0").writeStream.foreachBatch(take).start()
        query.awaitTermination(seconds + 5)
        query.stop()
        return delays

    return run, live


# -- PyFlink -----------------------------------------------------------------------------------------------------------


def _flink() -> tuple[Batch, Live]:
    table: Any = importlib.import_module("pyflink.table")
    streams: Any = importlib.import_module("pyflink.datastream")
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_batch_mode())
    kinds = {"time": "TIMESTAMP(3)", "int": "BIGINT", "str": "STRING"}

    def windows(name: str, kind: str) -> str:
        return f"TABLE({kind}(TABLE {name}, DESCRIPTOR(`time`), INTERVAL '10' SECOND))"

    hop = "TABLE(HOP(TABLE bid, DESCRIPTOR(`time`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
    counts = f"SELECT auction, count(*) AS num, window_start, window_end FROM {hop} GROUP BY auction, window_start, window_end"  # noqa: E501
    texts = {
        "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
        "q5": f"""
            SELECT c.auction, c.num FROM ({counts}) AS c
            JOIN (SELECT max(num) AS maxn, window_start, window_end FROM ({counts}) GROUP BY window_start, window_end)
            AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn""",
        "q8": f"""
            SELECT p.person, p.name, p.window_start FROM (
                SELECT person, name, window_start, window_end FROM {windows("person", "TUMBLE")}
                GROUP BY person, name, window_start, window_end) AS p
            JOIN (SELECT seller, window_start, window_end FROM {windows("auction", "TUMBLE")}
                GROUP BY seller, window_start, window_end) AS a
            ON p.person = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
        "q12": f"""
            SELECT bidder, count(*), window_start FROM {windows("bid", "TUMBLE")}
            GROUP BY bidder, window_start, window_end""",
    }

    def run(query: str, files: dict[str, str]) -> Rows:
        for name, path in files.items():
            columns = ", ".join(f"`{column}` {kinds[kind]}" for column, kind in TYPES[name].items())
            environment.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
            environment.execute_sql(
                f"CREATE TEMPORARY TABLE {name} ({columns}, WATERMARK FOR `time` AS `time`) WITH ("
                f"'connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true')"
            )
        with environment.execute_sql(texts[query]).collect() as rows:
            return [tuple(_micros(each) if isinstance(each, datetime) else each for each in row) for row in rows]

    def live(port: int, _: float) -> list[float]:
        runs = streams.StreamExecutionEnvironment.get_execution_environment()
        tables = table.StreamTableEnvironment.create(runs)
        java = runs._j_stream_execution_environment  # Python has no method for its source of sockets
        lines = streams.DataStream(java.socketTextStream("127.0.0.1", port))
        tables.create_temporary_view("lines", tables.from_data_stream(lines).alias("line"))
        text = "SELECT CAST(SPLIT_INDEX(line, ',', 0) AS BIGINT), SPLIT_INDEX(line, ',', 3) FROM lines "
        found = tables.execute_sql(text + "WHERE MOD(CAST(SPLIT_INDEX(line, ',', 1) AS BIGINT), 123) = 0")
        delays: list[float] = []
        with found.collect() as rows:
            delays.extend(time.time() - row[0] / 1e6 for row in rows)
        return delays

    return run, live


# -- pathway -----------------------------------------------------------------------------------------------------------


def _pathway() -> tuple[Batch, Live]:
    os.environ["PATHWAY_THREADS"] = str(min(os.cpu_count() or 1, 8))  # what it can use without a licence
    pw: Any = importlib.import_module("pathway")
    graph: Any = importlib.import_module("pathway.internals.parse_graph").G
    ten = pw.temporal.tumbling(duration=timedelta(seconds=10))
    hop = pw.temporal.sliding(hop=timedelta(seconds=2), duration=timedelta(seconds=10))
    kinds = {"time": str, "int": int, "str": str}

    def read(files: dict[str, str], name: str) -> Any:
        schema = pw.schema_from_types(**{column: kinds[kind] for column, kind in TYPES[name].items()})
        rows = pw.io.csv.read(files[name], schema=schema, mode="static")
        return rows.with_columns(time=pw.this.time.dt.strptime("%Y-%m-%d %H:%M:%S%.3f"))

    def windowed(rows: Any, window: Any, key: str) -> Any:
        return rows.windowby(rows.time, window=window, instance=rows[key])

    def q2(files: dict[str, str]) -> Any:
        return read(files, "bid").filter(pw.this.auction % 123 == 0).select(pw.this.auction, pw.this.price)

    def q5(files: dict[str, str]) -> Any:
        counts = windowed(read(files, "bid"), hop, "auction").reduce(
            auction=pw.this._pw_instance, start=pw.this._pw_window_start, num=pw.reducers.count()
        )
        most = counts.groupby(counts.start).reduce(counts.start, most=pw.reducers.max(counts.num))
        both = counts.join(most, counts.start == most.start).select(counts.auction, counts.num, most.most)
        return both.filter(pw.this.num >= pw.this.most).select(pw.this.auction, pw.this.num)

    def q8(files: dict[str, str]) -> Any:
        people = windowed(read(files, "person"), ten, "person").reduce(
            person=pw.this._pw_instance, name=pw.reducers.any(pw.this.name), start=pw.this._pw_window_start
        )
        sellers = windowed(read(files, "auction"), ten, "seller").reduce(
            seller=pw.this._pw_instance, start=pw.this._pw_window_start
        )
        met = people.join(sellers, people.person == sellers.seller, people.start == sellers.start)
        return met.select(people.person, people.name, people.start)

    def q12(files: dict[str, str]) -> Any:
        return windowed(read(files, "bid"), ten, "bidder").reduce(
            bidder=pw.this._pw_instance, num=pw.reducers.count(), start=pw.this._pw_window_start
        )

    queries = {"q2": q2, "q5": q5, "q8": q8, "q12": q12}

    def run(query: str, files: dict[str, str]) -> Rows:
        graph.clear()  # of the run before
        rows: Rows = []

        def take(row: dict[str, Any], **_: Any) -> None:
            rows.append(tuple(_micros(each) if isinstance(each, datetime) else each for each in row.values()))

        pw.io.subscribe(queries[query](files), on_change=take)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return rows

    def live(port: int, _: float) -> list[float]:
        graph.clear()
        delays: list[float] = []

        class Lines(pw.io.python.ConnectorSubject):  # type: ignore[misc]
            def run(self) -> None:
                for sent, auction, bidder, price in _lines(port):
                    self.next(time=int(sent), auction=int(auction), bidder=int(bidder), price=int(price))

        def take(row: dict[str, Any], **_: Any) -> None:
            delays.append(time.time() - row["time"] / 1e6)

        schema = pw.schema_from_types(time=int, auction=int, bidder=int, price=int)
        bids = pw.io.python.read(Lines(), schema=schema, autocommit_duration_ms=10)  # 1,500 by default
        pw.io.subscribe(bids.filter(bids.auction % 123 == 0), on_change=take)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        return delays

    return run, live


# -- bytewax -----------------------------------------------------------------------------------------------------------


def _bytewax() -> tuple[Batch, Live]:
    op: Any = importlib.import_module("bytewax.operators")
    inputs: Any = importlib.import_module("bytewax.inputs")
    outputs: Any = importlib.import_module("bytewax.outputs")
    windowing: Any = importlib.import_module("bytewax.operators.windowing")
    dataflow: Any = importlib.import_module("bytewax.dataflow")
    testing: Any = importlib.import_module("bytewax.testing")
    files_of: Any = importlib.import_module("bytewax.connectors.files")
    clock = windowing.EventClock(
        ts_getter=lambda item: item[0],
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: EPOCH,  # or its watermark would also follow the wall clock, and tuples would be late
    )
    ten = windowing.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH)
    hop = windowing.SlidingWindower(length=timedelta(seconds=10), offset=timedelta(seconds=2), align_to=EPOCH)

    def typed(row: dict[str, str]) -> tuple[Any, ...]:
        moment, *others = row.values()
        return (datetime.fromisoformat(moment).replace(tzinfo=UTC), *others)

    def read(flow: Any, files: dict[str, str], name: str) -> Any:
        return op.map(f"type {name}", op.input(name, flow, files_of.CSVSource(files[name])), typed)

    def counted(stream: Any, windower: Any, column: int) -> Any:
        keyed = op.map("key", stream, lambda item: (item[column], item))
        return windowing.fold_window(
            "count", keyed, clock, windower, lambda: 0, lambda held, _: held + 1, lambda one, other: one + other
        ).down

    def q2(flow: Any, files: dict[str, str]) -> Any:
        kept = op.filter("filter", read(flow, files, "bid"), lambda item: int(item[1]) % 123 == 0)
        return op.map("row", kept, lambda item: (int(item[1]), int(item[3])))

    def q5(flow: Any, files: dict[str, str]) -> Any:
        counts = op.map(
            "by window", counted(read(flow, files, "bid"), hop, 1),
            lambda item: (str(item[1][0]), [(int(item[0]), item[1][1])]),
        )  # fmt: skip

        def most(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
            return one if one[0][1] > other[0][1] else other if one[0][1] < other[0][1] else one + other

        return op.flat_map("rows", op.reduce_final("most", counts, most), lambda item: item[1])

    def q8(flow: Any, files: dict[str, str]) -> Any:
        people = op.map("person key", read(flow, files, "person"), lambda item: (item[1], (item[0], item[2])))
        sellers = op.map("seller key", read(flow, files, "auction"), lambda item: (item[1], (item[0], "")))
        both = windowing.fold_window(
            "meet", op.merge("merge", people, sellers), clock, ten, lambda: ("", False),
            lambda held, item: (held[0] or item[1], held[1] or not item[1]),
            lambda one, other: (one[0] or other[0], one[1] or other[1]),
        ).down  # fmt: skip
        met = op.filter("met", both, lambda item: bool(item[1][1][0] and item[1][1][1]))
        return op.map("row", met, lambda item: (int(item[0]), item[1][1][0], item[1][0] * 10_000_000))

    def q12(flow: Any, files: dict[str, str]) -> Any:
        counts = counted(read(flow, files, "bid"), ten, 2)
        return op.map("row", counts, lambda item: (int(item[0]), item[1][1], item[1][0] * 10_000_000))

    queries = {"q2": q2, "q5": q5, "q8": q8, "q12": q12}

    def collecting(take: Callable[[list[Any]], None]) -> Any:
        class Taking(outputs.StatelessSinkPartition):  # type: ignore[misc]
            def write_batch(self, items: list[Any]) -> None:
                take(items)

        class Sink(outputs.DynamicSink):  # type: ignore[misc]
            def build(self, *_: Any) -> Taking:
                return Taking()

        return Sink()

    def run(query: str, files: dict[str, str]) -> Rows:
        rows: Rows = []
        flow = dataflow.Dataflow(query)
        op.output("out", queries[query](flow, files), collecting(rows.extend))
        testing.run_main(flow)
        return rows

    def live(port: int, _: float) -> list[float]:
        delays: list[float] = []
        waiting: list[list[str]] = []
        ended = threading.Event()

        def receive() -> None:
            for fields in _lines(port):
                waiting.append(fields)  # noqa: PERF402 - each as it comes
            ended.set()

        threading.Thread(target=receive, daemon=True).start()

        class Partition(inputs.StatelessSourcePartition):  # type: ignore[misc]
            def next_batch(self) -> list[list[str]]:
                over, count = ended.is_set(), len(waiting)
                if over and not count:
                    raise StopIteration
                found, waiting[:count] = waiting[:count], []
                return found

            def next_awake(self) -> Any:
                return None if waiting else datetime.now(UTC) + timedelta(milliseconds=1)

        class Source(inputs.DynamicSource):  # type: ignore[misc]
            def build(self, *_: Any) -> Partition:
                return Partition()

        def take(items: list[list[str]]) -> None:
            now = time.time()
            delays.extend(now - int(fields[0]) / 1e6 for fields in items)

        flow = dataflow.Dataflow("live")
        kept = op.filter("filter", op.input("in", flow, Source()), lambda fields: int(fields[1]) % 123 == 0)
        op.output("out", kept, collecting(take))
        testing.run_main(flow)
        return delays

    return run, live


_SYSTEMS: dict[str, Callable[[], tuple[Batch, Live]]] = {
    "pyspark": _spark,
    "apache-flink": _flink,
    "pathway": _pathway,
    "bytewax": _bytewax,
}


def main(name: str) -> None:
    """Run the tasks that standard input names by system ``name``."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what systems print goes where errors go

    def answer_line(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        run, live = _SYSTEMS[name]()
        answer_line(ready=name)
        for line in sys.stdin:
            task = json.loads(line)
            if "live" in task:
                answer_line(delays=live(task["live"], task["seconds"]))
                continue
            began = time.perf_counter()
            rows = run(task["query"], task["files"])
            answer_line(seconds=time.perf_counter() - began, rows=rows)
    except Exception as error:
        answer_line(error=" ".join(f"{type(error).__name__}: {error}".split())[:500])
        raise


if __name__ == "__main__":
    main(sys.argv[1])
