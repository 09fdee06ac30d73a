"""``spark-...``: the start of a server, a part on Spark compared with plain Spark and Polars, its delay and recovery.

The top-k query over generated packets is measured in four ways on the same Parquet file: by peers with all but the sink
on Spark, with its window alone on Spark, as a plain streaming query of Spark on the same server, and by Polars in one
batch, which is the limit. All must give the same rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import polars as pl
import psutil

from spark_stream.server import Server, SparkUnavailable
from spark_stream.whole_plans import run_on_spark
from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_nb import traces
from synergy_nb.events import SinkFinished, SourceStarted
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.runtime.client.cluster import Application, Cluster

__all__ = ["cold_run", "delay", "kill", "ready", "sessions", "topk", "whole"]

Made = TypeVar("Made")
_Way: TypeAlias = Callable[[Any, Path, str], pl.DataFrame]
COLUMNS: Final = {
    "link": "str",
    "source": "str",
    "destination": "str",
    "source_port": "int",
    "destination_port": "int",
    "bytes": "int",
}
WINDOW: Final = "20 min"
FRACTION: Final = 0.95
SECONDS: Final = 240.0  # time for the queries of whole plans; under load, there are fewer runs of each
COLD: Final = ("ours", "classic", "connect")  # ways to run a query in a fresh process
ALL_OF_TOP: Final = ("source", "filter", "project", "aggregate", "sort", "compare")


def packets(folder: Path, count: int) -> Path:
    """Write ``count`` generated packets, about three windows, to a Parquet file."""
    rate = count / 3600.0
    params = {"connector": "packets", "seed": 3, "count": count, "rate": rate, "hosts": 300, "speed": 0.0}
    path = folder / "packets.parquet"
    traces.table(params).write_parquet(path)
    return path


def top(path: Path, *, spark: tuple[str, ...], others: str = "peer", form: str = "parquet") -> Plan:
    """The top-k query; operators named in ``spark`` are for Spark, all others for another engine."""

    def engine(name: str) -> str:
        return "spark" if name in spark else others

    stream = source("trace", path=str(path), format=form, columns={"time": "time", **COLUMNS}, engine=engine("source"))
    kept = stream.filter("link = 'B'", engine=engine("filter"))
    sums = kept.project("source", "destination", "bytes", engine=engine("project")).aggregate(
        ["source", "destination"], WINDOW, total="sum(bytes)", engine=engine("aggregate")
    )
    ranked = sums.sort("total desc", "source", "destination", engine=engine("sort"))
    return ranked.compare("total", FRACTION, engine=engine("compare")).sink("top")


def in_one_batch(path: Path) -> pl.DataFrame:
    """The same query by Polars, in one batch."""
    sums = (
        pl.scan_parquet(path)
        .filter(pl.col("link") == "B")
        .group_by(pl.col("time").dt.truncate("20m").alias("window_start"), "source", "destination")
        .agg(pl.col("bytes").sum().alias("total"))
        .collect()
    )
    floor = (FRACTION * pl.len()).floor().cast(pl.Int64)
    threshold = pl.col("total").sort().get(floor).over("window_start")
    return _ordered(sums.filter(pl.col("total") > threshold))


def _ordered(table: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("window_start").dt.replace_time_zone(None).cast(pl.Datetime("us"))
    return table.select(start, "source", "destination", pl.col("total").cast(pl.Int64)).sort(
        "window_start", "total", "source", "destination", descending=[False, True, False, False]
    )


def plain(session: Any, path: Path, folder: Path) -> pl.DataFrame:
    """The same query in plain Spark: a streaming query writes sums to files, and a batch query compares them."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - importing it takes a second

    schema = "time timestamp, link string, source string, destination string, source_port long, destination_port long"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "packets.parquet").symlink_to(path)
    stream = session.readStream.schema(f"{schema}, bytes long").parquet(str(folder / "in"))
    sums = (
        stream.where("link = 'B'")
        .groupBy(f.window("time", "20 minutes"), "source", "destination")
        .agg(f.sum("bytes").alias("total"))
        .selectExpr("window.start AS window_start", "source", "destination", "total")
    )
    name = f"sums_{folder.name}"
    query = (
        sums.writeStream.format("memory")
        .queryName(name)
        .outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = session.sql(
        f"""WITH ranked AS (SELECT window_start, sort_array(collect_list(total)) AS totals FROM {name} GROUP BY 1)
        SELECT s.window_start, source, destination, total FROM {name} s JOIN ranked r ON s.window_start = r.window_start
        WHERE total > totals[CAST(floor({FRACTION} * size(totals)) AS INT)]"""  # noqa: S608 - our own names
    )
    return _ordered(pl.from_arrow(found.toArrow()))  # type: ignore[arg-type] # of a table it makes a table


@contextlib.contextmanager
def _cluster(peers: int, spark: bool | str = True) -> Iterator[Cluster]:
    with Cluster(peers, cores=4.0, spark=spark) as cluster:
        yield cluster


def _run(cluster: Cluster, plan: Plan) -> tuple[float, pl.DataFrame]:
    """Seconds from the start of the sources to the end at the sink, and the rows; set-up is before, as of any plan."""
    application = cluster.submit(plan, timeout=120.0)
    table = application.results()
    seconds = _span(application)
    application.stop()
    return seconds, _ordered(table)


def _span(application: Application) -> float:
    times = {type(event): event.time for event in application.events()}
    return max(times[SinkFinished] - times[SourceStarted], 1e-6)


def ready(*, small: bool = False) -> dict[str, Any]:
    """Time from the start of a server until it accepts sessions, and until a session is open, seconds."""
    repeats = 1 if small else 3
    server: list[float] = []
    session: list[float] = []
    before = machine_load()
    for _ in range(repeats):
        with _cluster(1) as cluster:
            began = time.perf_counter()
            cluster.spark_session().range(3).count()
            server.append(time.perf_counter() - began)
            for _ in range(repeats):
                began = time.perf_counter()
                cluster.spark_session()
                session.append(time.perf_counter() - began)
    took = spread(server)
    detail = {
        "way": "embedded server, local[2]: started, a session opened, and a first count of three rows",
        "server_s": took,
        "session_s": spread(session),
        "target": {"server_s": 15.0, "session_s": 1.0},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("spark-ready", took["median"], "s", detail)


def topk(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s of the top-k query over generated packets, in four ways on the same file."""
    count, repeats = (20_000, 1) if small else (2_000_000, 3)
    before = machine_load()
    taken: dict[str, list[float]] = {"whole": [], "window": [], "plain": [], "polars": []}
    with tempfile.TemporaryDirectory() as name, _cluster(2) as cluster:
        folder = Path(name)
        path = packets(folder, count)
        expected = in_one_batch(path)
        session = cluster.spark_session()
        ways: dict[str, Callable[[int], tuple[float, pl.DataFrame]]] = {
            "whole": lambda _: _run(cluster, top(path, spark=ALL_OF_TOP)),
            "window": lambda _: _run(cluster, top(path, spark=("aggregate",))),
            "plain": lambda number: _timed(lambda: plain(session, path, folder / f"plain_{number}")),
            "polars": lambda _: _timed(lambda: in_one_batch(path)),
        }
        for repeat in range(repeats + (not small)):  # the first warms up
            for way, take in ways.items():
                seconds, rows = take(repeat)
                if not rows.equals(expected):
                    raise AssertionError(f"spark-topk ({way}): rows differ from those of Polars in one batch")
                if repeat or small:
                    taken[way].append(count / seconds)
    rates = {way: spread(values, digits=0) for way, values in taken.items()}
    ours = rates["whole"]["median"]
    detail = {
        "query": "pairs with more bytes than 95 % of the pairs of link B, in windows of 20 minutes",
        "way": "all but the sink as one part on Spark, which reads the file; results by two peer processes",
        "tuples": count,
        "rows": expected.height,
        "equal": True,
        "rate": rates["whole"],
        "window_alone_on_spark": rates["window"],
        "to_plain": round(ours / rates["plain"]["median"], 3),
        "target": {"to_plain": 0.9},
        "load": {"before": before, "after": machine_load()},
    }
    peers = [
        measurement("plain Spark", rates["plain"]["median"], "tuples/s", {"rate": rates["plain"]}),
        measurement("Polars, one batch", rates["polars"]["median"], "tuples/s", {"rate": rates["polars"]}),
    ]
    return {**measurement("spark-topk", ours, "tuples/s", detail), "peers": peers}


def in_plain_batch(session: Any, path: Path, form: str) -> pl.DataFrame:
    """The same query as its users would write it in PySpark, as one batch job."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - importing it takes a second

    sums = (
        _read(session, path, form)
        .where("link = 'B'")
        .groupBy(f.window("time", "20 minutes"), "source", "destination")
        .agg(f.sum("bytes").alias("total"))
    )
    ranked = sums.groupBy("window").agg(f.sort_array(f.collect_list("total")).alias("totals"))
    found = sums.join(ranked, "window").where(f"total > totals[CAST(floor({FRACTION} * size(totals)) AS INT)]")
    return _ordered(
        pl.from_arrow(  # type: ignore[arg-type] # of a table it makes a table
            found.selectExpr("window.start AS window_start", "source", "destination", "total").toArrow()
        )
    )


def _read(session: Any, path: Path, form: str) -> Any:
    schema = "time timestamp, link string, source string, destination string, source_port long, destination_port long"
    reader = session.read.schema(f"{schema}, bytes long")
    return reader.parquet(str(path)) if form == "parquet" else reader.option("header", "true").csv(str(path))


def selected(path: Path, form: str) -> Plan:
    """Large packets, of which there are many, with one more column: no state."""
    stream = source("trace", path=str(path), format=form, columns={"time": "time", **COLUMNS})
    return stream.filter("bytes > 1000").project("link", "source", kilo="bytes / 1000").sink("large")


def in_plain_selection(session: Any, path: Path, form: str) -> pl.DataFrame:
    """The same in PySpark."""
    rows = _read(session, path, form).where("bytes > 1000")
    found: Any = pl.from_arrow(rows.selectExpr("time", "link", "source", "bytes / 1000 AS kilo").toArrow())
    return _zoneless(found)


def _zoneless(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.col("time").dt.replace_time_zone(None).cast(pl.Datetime("us")))


def joined(path: Path, form: str) -> Plan:
    """Bytes that a source sends on each link, by window."""
    stream = source("trace", path=str(path), format=form, columns={"time": "time", **COLUMNS})

    def sums(link: str) -> Stream:
        return stream.filter(f"link = '{link}'").aggregate(
            "source", WINDOW, values={f"on_{link.lower()}": "sum(bytes)"}
        )

    return sums("A").join(sums("B"), on=["source", "window_start", "window_end"], within="0 s").sink("both")


def in_plain_join(session: Any, path: Path, form: str) -> pl.DataFrame:
    """The same in PySpark."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - importing it takes a second

    def sums(link: str) -> Any:
        rows = _read(session, path, form).where(f"link = '{link}'").groupBy(f.window("time", "20 minutes"), "source")
        return rows.agg(f.sum("bytes").alias(f"on_{link.lower()}"))

    found = sums("A").join(sums("B"), ["window", "source"])
    return _by_window(
        pl.from_arrow(  # type: ignore[arg-type] # of a table it makes a table
            found.selectExpr("window.start AS window_start", "source", "on_a", "on_b").toArrow()
        )
    )


def _by_window(table: pl.DataFrame) -> pl.DataFrame:
    start = pl.col("window_start").dt.replace_time_zone(None).cast(pl.Datetime("us"))
    return table.select(start, "source", "on_a", "on_b").sort("window_start", "source")


#: Query to the function that runs its plan as one job, the one that runs it as users of PySpark would write it, and the
#: forms of files that both read.
_WHOLE: Final[dict[str, tuple[_Way, _Way, tuple[str, ...]]]] = {
    "topk": (
        lambda session, path, form: _ordered(_job(session, top(path, spark=(), others="auto", form=form))),
        in_plain_batch,
        ("parquet", "csv"),
    ),
    "select": (
        lambda session, path, form: _job(session, selected(path, form)),
        in_plain_selection,
        ("parquet", "csv"),
    ),
    "join": (
        lambda session, path, form: _by_window(_job(session, joined(path, form))),
        in_plain_join,
        ("parquet",),
    ),
}


def _job(session: Any, plan: Plan) -> pl.DataFrame:
    return run_on_spark(plan, spark=session).results()


def whole(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s of plans over files as one batch job without peers, beside plain PySpark on the same server, in turn."""
    count, repeats = (20_000, 1) if small else (2_000_000, 5)
    before = machine_load()
    ratios: dict[str, dict[str, Any]] = {}
    tried = [(query, form) for query, (_, _, forms) in _WHOLE.items() for form in forms[-small:]]
    with tempfile.TemporaryDirectory() as name:
        paths = {"parquet": packets(Path(name), count)}
        paths["csv"] = Path(name, "packets.csv")
        pl.read_parquet(paths["parquet"]).write_csv(paths["csv"], datetime_format="%Y-%m-%dT%H:%M:%S%.6f")
        with _cluster(1) as cluster:
            session = cluster.spark_session()
            session.conf.set("spark.sql.session.timeZone", "UTC")
            for query, form in tried:
                ratios[f"{query} on {form}"] = _beside_plain(
                    partial(_WHOLE[query][0], session, paths[form], form),
                    partial(_WHOLE[query][1], session, paths[form], form),
                    count,
                    0 if small else 3,
                    repeats,
                    SECONDS / len(tried),
                )
        cold = None if small else _cold_starts(paths)
    detail = {
        "way": "whole plans as batch jobs on a warm embedded server, and the same queries by hand, in turn",
        "tuples": count,
        "equal": True,
        "least_processor_to_plain": min(each["processor_to_plain"] for each in ratios.values()),
        "queries": ratios,
        "cold": cold,
        "target": {"processor_to_plain": 0.95},
        "load": {"before": before, "after": machine_load()},
    }
    theirs = [
        measurement(
            f"plain Spark, {query}",
            found["plain"]["median"],
            "tuples/s",
            {
                "ours_to_theirs": found["to_plain"],
                "cpu_s_a_million": round(found["processor_s_plain"]["median"] / count * 1e6, 3),
                "processor_to_plain": found["processor_to_plain"],
            },
        )
        for query, found in ratios.items()
    ]
    return {
        **measurement("spark-whole", ratios["{} on {}".format(*tried[0])]["rate"]["median"], "tuples/s", detail),
        "peers": theirs,
    }


def _beside_plain(
    ours: Callable[[], pl.DataFrame],
    plain: Callable[[], pl.DataFrame],
    count: int,  # tuples that each reads
    warm: int,  # runs of each that are not counted
    repeats: int,  # other runs of each, if there is time
    seconds: float,  # time from which on nothing is repeated
) -> dict[str, Any]:
    """Run a query in two ways in turn, and compare their rates and processor times."""
    taken: dict[str, list[float]] = {"ours": [], "plain": []}
    used: dict[str, list[float]] = {"ours": [], "plain": []}
    began = time.perf_counter()
    for repeat in range(warm + repeats):
        if repeat > warm and time.perf_counter() - began > seconds:
            break
        found = {}
        ways = (("ours", ours), ("plain", plain))
        for way, take in ways if repeat % 2 else reversed(ways):  # Java is still compiling for the first
            busy = _busy()
            took, found[way] = _timed(take)
            if repeat >= warm:
                taken[way].append(count / took)
                used[way].append(max(_busy() - busy, 0.01))
        if not found["ours"].equals(found["plain"]):
            raise AssertionError("spark-whole: rows differ from those of plain Spark")
    rate, rate_of_plain = (spread(taken[way], digits=0) for way in ("ours", "plain"))
    processor, processor_of_plain = (spread(used[way], digits=3) for way in ("ours", "plain"))
    return {
        "rate": rate,
        "plain": rate_of_plain,
        "to_plain": round(rate["median"] / rate_of_plain["median"], 3),
        "processor_s": processor,
        "processor_s_plain": processor_of_plain,
        "processor_to_plain": round(processor_of_plain["median"] / processor["median"], 3),
    }


def _busy() -> float:
    """Processor seconds that this process and those below it, as the server, have taken so far."""
    this, total = psutil.Process(), 0.0
    for each in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended
            times = each.cpu_times()
            total += times.user + times.system
    return total


def _cold_starts(paths: dict[str, Path]) -> dict[str, Any]:
    """Seconds of the start of a server, and of runs in processes of their own; or why that could not be done."""
    try:
        runs = {form: {way: cold_run(way, path, form) for way in COLD} for form, path in paths.items()}
        for form, found in runs.items():
            if len({run["rows"] for run in found.values()}) > 1:
                raise AssertionError(f"spark-whole: cold runs over {form} give different numbers of rows")
        return {"start_s": _started(), **runs}
    except (SparkUnavailable, RuntimeError, subprocess.TimeoutExpired) as error:  # what was measured is not lost
        return {"note": str(error)}


def cold_run(way: str, path: Path, form: str) -> dict[str, Any]:
    """Run the top pairs in a process of its own (:mod:`synergy_experiments.bench.cold_spark`), and return what it says.

    Raises ``RuntimeError`` if it fails, such as for lack of the shell that PySpark's own sessions need.
    """
    command = [sys.executable, "-m", "synergy_experiments.bench.cold_spark", way, str(path), form]
    # This process may have had sessions of Spark Connect, which set it; a classic one refuses it
    variables = {name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{way}: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _started() -> float:
    """Time from the start of a server until a session is open, seconds."""
    from spark_stream.session import connect, disconnect  # noqa: PLC0415 - imports Spark

    began = time.perf_counter()
    with Server() as server:
        server.start()
        session = connect(server.ready(), timeout=60.0)
        took = time.perf_counter() - began
        disconnect(session)  # or PySpark asks it what it is to do in others
    return round(took, 3)


def _timed(work: Callable[[], Made]) -> tuple[float, Made]:
    began = time.perf_counter()
    rows = work()
    return time.perf_counter() - began, rows


def delay(*, small: bool = False) -> dict[str, Any]:
    """Delay that parts on Spark add at 1000 tuples/s: one without state, and one with windows of a second."""
    seconds = 2 if small else 20
    found: dict[str, dict[str, float]] = {}
    before = machine_load()
    with _cluster(2) as cluster:
        for engine in ("peer", "spark"):
            for kind in ("filter", "window"):
                qos = _delays(cluster, engine, kind, seconds)
                found[f"{kind} on {engine}"] = {name: qos[name] for name in ("delay_p50_s", "delay_p99_s")}
    added = found["filter on spark"]["delay_p50_s"] - found["filter on peer"]["delay_p50_s"]
    detail = {
        "way": "packets at 1000 tuples/s through one filter, or sums of windows of 1 s, at two peer processes",
        "delays": found,
        "window_added_s": found["window on spark"]["delay_p50_s"] - found["window on peer"]["delay_p50_s"],
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("spark-delay", added, "s", detail)


def _delays(cluster: Cluster, engine: str, kind: str, seconds: int) -> dict[str, Any]:
    stream = source("packets", seed=5, rate="1000 tuples/s", duration=f"{seconds} s")
    if kind == "filter":
        plan = stream.filter("bytes >= 0", engine=engine).sink()
    else:
        plan = stream.aggregate("link", "1 s", n="count(*)", engine=engine).sink()
    application = cluster.submit(plan, timeout=120.0)
    application.results()
    qos = application.qos()
    application.stop()
    return qos


def sessions(*, small: bool = False) -> dict[str, Any]:
    """Seconds until eight parts run at once, each of another peer with a session of its own; all must be right."""
    number, rate, seconds = (2, 200, 3) if small else (8, 1000, 10)
    before = machine_load()
    plans = [
        source("packets", seed=seed, rate=rate, duration=f"{seconds} s", id="packets")
        .aggregate("link", "1 s", n="count(*)", bytes="sum(bytes)", engine="spark", at=f"peer-{seed + 1}")
        .sink()
        for seed in range(number)
    ]
    took: dict[int, float] = {}
    equal: list[bool] = []
    with _cluster(number) as cluster:
        cluster.spark_session()
        began = time.perf_counter()

        def take(index: int) -> None:
            application = cluster.submit(plans[index], timeout=240.0)
            took[index] = time.perf_counter() - began
            table = application.results().sort("window_start", "link").select("window_start", "link", "n", "bytes")
            equal.append(table.equals(_windows(plans[index])))

        threads = [threading.Thread(target=take, args=(index,)) for index in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not all(equal) or len(equal) < number:
        raise AssertionError("spark-sessions: rows differ from those of Polars in one batch")
    detail = {
        "way": f"{number} applications submitted at once, each with a part on another peer",
        "ready_s": spread(list(took.values())),
        "equal": True,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("spark-sessions", max(took.values()), "s", detail)


def _windows(plan: Plan) -> pl.DataFrame:
    """Counts and sums by link and second of the packets that a plan reads."""
    return (
        traces.table(plan.operators["packets"].params)
        .group_by(pl.col("time").dt.truncate("1s").alias("window_start"), "link")
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("bytes").sum())
        .sort("window_start", "link")
    )


def kill(*, small: bool = False) -> dict[str, Any]:
    """Seconds until results come again after the server was killed, and rows that were lost or doubled."""
    seconds = 4 if small else 30
    before = machine_load()
    plan = (
        source("packets", seed=11, rate="1000 tuples/s", duration=f"{seconds} s", id="packets")
        .aggregate("link", "1 s", n="count(*)", bytes="sum(bytes)", engine="spark")
        .sink()
    )
    expected = _windows(plan)
    with _cluster(2) as cluster:
        application = cluster.submit(plan, timeout=120.0)
        tables: list[pl.DataFrame] = []
        killed = resumed = 0.0
        for table in application:
            now = time.perf_counter()
            tables.append(table)
            if not killed and sum(map(len, tables)) > expected.height // 3:
                cluster.kill_spark()
                killed = time.perf_counter()
            elif killed and not resumed and now - killed > 0.5:
                resumed = now - killed
        rows = pl.concat(tables).select("window_start", "link", "n", "bytes").sort("window_start", "link")
    keys = rows.select("window_start", "link")
    lost = expected.join(rows, on=["window_start", "link", "n", "bytes"], how="anti").height
    doubled = keys.height - keys.unique().height
    detail = {
        "way": "packets at 1000 tuples/s, sums of windows of 1 s on Spark; SIGKILL to the server after a third",
        "rows": expected.height,
        "lost": lost,
        "doubled": doubled,
        "equal": rows.equals(expected),
        "target": {"lost": 0, "doubled": 0},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("spark-kill", resumed, "s", detail)
