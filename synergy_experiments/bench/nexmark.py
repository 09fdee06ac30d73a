"""``nexmark``: four queries of NEXMark on peers and on other systems: rate, processor time, and delay of results.

Rates are those over whole files, which each system reads by itself; each one's rows are compared with those of DuckDB
before its figure is shown. They count the events of all three tables, of which query 8 reads 8 %, and the others the
bids. Delays are those of query 2 over lines that come from a socket at a steady rate: from the
time at which a line was sent until the row is there, in the program that asked for it. All run in turn in one run.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from synergy_experiments.bench import nexmark_process
from synergy_experiments.bench.engines import ENGINES, Engine, EngineProcess, missing_reason
from synergy_experiments.bench.measurements import Usage, machine_load, measurement, quantile, spread
from synergy_experiments.bench.nexmark_process import TYPES
from synergy_experiments.nexmark import sql_text
from synergy_nb import source, sql, traces
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.sources import NEXMARK
from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["DURATION", "SYSTEMS", "nexmark"]

Rows = list[tuple[Any, ...]]

DURATION: Final = "10 minutes"
HEADLINE: Final = "q5"
QUERIES: Final = {
    "q2": "selection: bids for some auctions",
    "q5": "hot items: sliding windows, joined with their maximum",
    "q8": "new users who sell: a join of windows",
    "q12": "bids of a person: tumbling windows by key",
}
RATE: Final = 2000.0  # events/s of event time
LINES: Final = 2000  # lines/s of the socket
#: The systems, and how they run the queries.
SYSTEMS: Final = {
    "pyspark": "SQL over Parquet, local[*], in batch mode; live: its socket source, a micro-batch after another",
    "apache-flink": "SQL over CSV, its embedded cluster in batch mode, with a job's start; live: its socket source",
    "pathway": "windowby and join over CSV in static mode, a thread a core; live: a Python connector, commits in 10 ms",
    "bytewax": "its windows over CSV, one worker; live: a source of one partition",
}
_BYTEWAX: Final = Engine("bytewax", "bytewax", "csv", "", variable="SYNERGY_BYTEWAX_PYTHON")
_ENGINES: Final = tuple(each for each in (*ENGINES, _BYTEWAX) if each.system in SYSTEMS)
_TWINS: Final = {
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q5": """
        SELECT auction, count(*) FROM (
            SELECT auction, unnest(range(0, 5)) * 2000000 + epoch_us(time) // 2000000 * 2000000 AS e FROM bid)
        GROUP BY auction, e QUALIFY rank() OVER (PARTITION BY e ORDER BY count(*) DESC) = 1""",
    "q8": """
        SELECT p.person, p.name, p.w
        FROM (SELECT DISTINCT person, name, epoch_us(time) // 10000000 * 10000000 AS w FROM person) AS p
        JOIN (SELECT DISTINCT seller, epoch_us(time) // 10000000 * 10000000 AS w FROM auction) AS a
        ON p.person = a.seller AND p.w = a.w""",
    "q12": "SELECT bidder, count(*), epoch_us(time) // 10000000 * 10000000 AS w FROM bid GROUP BY bidder, w",
}


def written(count: int, folder: Path) -> dict[str, str]:
    """Files of the three tables of ``count`` events: as Parquet, or as CSV if the folder's name is so."""
    found = {}
    for table in NEXMARK:
        rows = traces.table({"connector": "nexmark", "table": table, "seed": 1, "rate": RATE, "count": count})
        rows = (rows.rename({"id": "person"}) if table == "person" else rows).select(*TYPES[table])
        path = folder / f"{table}.{folder.name}"
        if folder.name == "csv":
            rows.write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S%.3f")
        else:
            rows.write_parquet(path)
        found[table] = str(path)
    return found


def expected_rows(query: str, files: dict[str, str]) -> Rows:
    """The rows by DuckDB."""
    with duckdb.connect() as connection:
        for table, path in files.items():
            connection.execute(f"CREATE VIEW {table} AS FROM '{path}'")
        return sorted(connection.execute(_TWINS[query]).fetchall())


def query_plan(query: str, files: dict[str, str]) -> Plan:
    """Our plan: the benchmark's text over files."""
    text = sql_text(query)
    assert text is not None
    streams = {}
    for table, path in files.items():
        columns = {name: kind for name, kind in TYPES[table].items() if name != "time"} | {"time": "time"}
        streams[table] = source("trace", path=path, format=Path(path).suffix[1:], columns=columns)
    streams["person"] = streams["person"].project({"id": "person", "name": "name"})
    return sql(text, sources=streams).sink(query)


def _ours(cluster: Cluster, plan: Plan) -> tuple[float, float, Rows]:
    """Seconds from the submission until all rows are there; processor seconds of the peers; the rows."""
    with Usage([state.pid for state in cluster.states().values() if state is not None]) as usage:
        application = cluster.submit(plan)
        table = application.results()
    application.stop()
    names = {"q2": ["auction", "price"], "q5": ["auction", "num"], "q8": ["id", "name", "starttime"]}
    columns = names.get(plan.name) or ["bidder", "bid_count", "starttime"]
    rows = table.select(columns).with_columns(pl.col(pl.Datetime).to_physical()).rows()
    return usage.wall, usage.cpu, sorted(rows)


# -- delays ------------------------------------------------------------------------------------------------------------


@contextmanager
def lines(seconds: float) -> Iterator[int]:
    """The port of a socket that sends lines ``time,auction,bidder,price`` at a steady rate, once somebody connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                began, sent = time.monotonic(), 0
                while (elapsed := time.monotonic() - began) < seconds:
                    due, now = int(elapsed * LINES), time.time_ns() // 1000
                    text = "".join(f"{now},{1000 + each},{each},{each}\n" for each in range(sent, due))
                    connection.sendall(text.encode())
                    sent = due
                    time.sleep(0.005)

        thread = threading.Thread(target=send, name="lines of nexmark", daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(seconds + 10)


def _our_delays(cluster: Cluster, port: int) -> list[float]:
    def bids() -> Iterator[dict[str, int]]:
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("r") as received:
            for line in received:
                sent, auction, bidder, price = map(int, line.split(","))
                yield {"time": sent, "auction": auction, "bidder": bidder, "price": price}

    columns = {"auction": "int", "bidder": "int", "price": "int"}
    stream = source(bids(), columns=columns, time_unit="us", rate=LINES)
    text = sql_text("q2")
    assert text is not None
    delays: list[float] = []
    for table in cluster.submit(sql(text, sources={"bid": stream}).sink("live")):
        now = time.time()
        delays.extend(now - each / 1e6 for each in table["time"].to_physical())
    return delays


# -- the measurement ---------------------------------------------------------------------------------------------------


class _Figures:
    """Rates, processor times and delays of one system."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = {}
        self._cpu: dict[str, list[float]] = {}
        self.delays: list[float] = []

    def add(self, query: str, events: int, seconds: float, cpu: float) -> None:
        """Store a run."""
        self._rates.setdefault(query, []).append(events / seconds)
        self._cpu.setdefault(query, []).append(cpu / events * 1e6)

    def rate(self, query: str) -> float:
        """Events/s, the median of all runs."""
        return float(spread(self._rates[query], digits=0)["median"])

    def told(self, ours: _Figures | None = None) -> dict[str, Any]:
        """All figures; with those of the same work by us, their ratios."""
        queries: dict[str, Any] = {}
        for query, rates in self._rates.items():
            cpu = min(self._cpu[query])
            queries[query] = {"rate": spread(rates, digits=0), "cpu_s_a_million": round(cpu, 3), "equal": True}
            if ours is not None:
                queries[query]["ours_to_theirs"] = round(ours.rate(query) / self.rate(query), 2)
                queries[query]["cpu_ours_to_theirs"] = round(min(ours._cpu[query]) / cpu, 3) if cpu else None
        found: dict[str, Any] = {"queries": queries, "live_rows": len(self.delays)}
        if self.delays:
            found |= {name: round(quantile(self.delays, at), 4) for name, at in (("p50_s", 0.5), ("p99_s", 0.99))}
        return found


def nexmark(*, small: bool = False, progress: Callable[[float], None] = lambda _: None) -> dict[str, Any]:
    """Events/s of queries 2, 5, 8 and 12, processor time, and delays of results; rows are asserted to be equal.

    ``progress``: callback with the share that is done.
    """
    counts = {"parquet": 20_000, "csv": 20_000} if small else {"parquet": 2_000_000, "csv": 100_000}
    repeats, seconds = (0, 1.0) if small else (2, 10.0)
    figures: dict[str, _Figures] = {}
    before = machine_load()
    with tempfile.TemporaryDirectory() as folder, Cluster(2, spark=False) as cluster, ExitStack() as stack:
        files: dict[str, dict[str, str]] = {}
        for form, count in counts.items():
            (Path(folder) / form).mkdir()
            files[form] = written(count, Path(folder) / form)
        script = Path(nexmark_process.__file__)
        running = [
            stack.enter_context(EngineProcess(each, script=script, bench="nexmark"))
            for each in _ENGINES
            if not missing_reason(each)
        ]
        for place, query in enumerate(QUERIES):
            expected = {form: expected_rows(query, each) for form, each in files.items()}
            for repeat in range(repeats + 1):  # the first warms up
                runs: list[tuple[str, str, float, float, Rows]] = []
                for form, each in files.items():
                    runs.append((form, form, *_ours(cluster, query_plan(query, each))))
                for process in running:
                    form = process.engine.form
                    found = process.ask({"query": query, "files": files[form]})
                    runs.append((process.engine.name, form, *found))
                for name, form, used, cpu, rows in runs:
                    if rows != expected[form]:
                        raise AssertionError(f"nexmark: rows of {name} to {query} differ from those of DuckDB")
                    if repeat or small:
                        figures.setdefault(name, _Figures()).add(query, counts[form], used, cpu)
                progress((place + (repeat + 1) / (repeats + 1)) / (len(QUERIES) + 1))
        with lines(seconds) as port:
            figures["parquet"].delays = _our_delays(cluster, port)
        for process in running:
            with lines(seconds) as port:
                figures[process.engine.name].delays = process.delays({"live": port, "seconds": seconds})
    progress(1.0)
    ours = figures["parquet"]
    detail = {
        "queries_text": QUERIES,
        "way": f"two peers, from files; live: query 2 over {LINES} lines/s of a socket, a generator in the notebook",
        "events": counts,
        **ours.told(),
        "from_csv": figures["csv"].told()["queries"],
        "load": {"before": before, "after": machine_load()},
    }
    peers = [_beside(each, figures) for each in _ENGINES]
    return {**measurement("nexmark", ours.rate(HEADLINE), "events/s", detail), "peers": peers}


def _beside(engine: Engine, figures: dict[str, _Figures]) -> dict[str, Any]:
    detail: dict[str, Any] = {"how": SYSTEMS[engine.system]}
    note = missing_reason(engine)
    if note:
        return measurement(engine.name, 0.0, "events/s", {**detail, "note": note})
    theirs = figures[engine.name]
    return measurement(engine.name, theirs.rate(HEADLINE), "events/s", detail | theirs.told(figures[engine.form]))
