"""``move``: duration of moves of components while their query runs, and the tuples that are late because of them."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, quantile, spread
from synergy_experiments.bench.takeovers import differing
from synergy_nb.events import SourceStarted
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Application, Cluster

__all__ = ["Case", "expected", "move", "query", "written"]

HOSTS: Final = 300  # a pair is two of so many
FRACTION: Final = 0.95  # a pair is summary if its total is larger than that of so many
BEFORE: Final = 1.0  # seconds before a move whose results are compared with those during it
PEERS: Final = ("peer-3", "peer-4")  # that the components move between
MOVED: Final = ("traffic", "large", "traffic", "ranked")  # in turn, the last one with the least state


class Case(NamedTuple):
    """A query that is moved while it runs.

    Parameters
    ----------
    name
        Name of the case, which says what is special about the query.
    window
        Length of the aggregate's windows in ms.
    every
        Interval between two moves, seconds.
    collected
        Whether results are collected as they come, or only when all moves are done.
    """

    name: str
    window: int
    every: float
    collected: bool = True


CASES: Final = (
    Case("short windows", 100, 1.5),
    Case("windows half full", 10_000, 5.0),
    Case("nothing collected", 100, 1.5, collected=False),
)


def written(path: Path, rate: float, seconds: float, seed: int = 1) -> None:
    """Write tuples (time, source, destination, bytes) to a Parquet file, ``rate`` a second for ``seconds``."""
    rng = np.random.default_rng(seed)
    count = int(rate * seconds)
    times = (np.arange(count) * (1e6 / rate)).astype(np.int64)
    pl.DataFrame(
        {
            "time": pl.Series(times).cast(pl.Datetime("us")),
            "source": rng.integers(0, HOSTS, count),
            "destination": rng.integers(0, HOSTS, count),
            "bytes": rng.integers(40, 1500, count),
        }
    ).write_parquet(path, compression="uncompressed")


def query(path: Path, window: int) -> Plan:
    """The pairs with the largest totals of each window; each operator is on its own peer, except the last ones.

    Parameters
    ----------
    path
        Path of the file of tuples.
    window
        Length of a window in ms.
    """
    columns = dict.fromkeys(("source", "destination", "bytes"), "int")
    packets = source("trace", path=str(path), format="parquet", columns=columns, speed=1, id="packets", at="peer-2")
    large = packets.filter("bytes > 100", id="large", at=PEERS[0])
    traffic = large.aggregate(
        ["source", "destination"], f"{window} ms", total="sum(bytes)", n="count(*)", id="traffic", at=PEERS[0]
    )
    ranked = traffic.sort("total desc", id="ranked", at=PEERS[0])
    pairs = traffic.count(id="pairs", at="peer-1")
    return ranked.compare("total", FRACTION, count=pairs, id="top", at="peer-1").sink("out", id="out")


def expected(path: Path, window: int) -> pl.DataFrame:
    """The rows of the query by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        found = connection.sql(
            f"""
            WITH totals AS (
                SELECT time_bucket(INTERVAL {window} MILLISECOND, time, TIMESTAMP '1970-01-01') AS window_start,
                       source, destination, sum(bytes)::BIGINT AS total, count(*)::BIGINT AS n
                FROM read_parquet('{path}') WHERE bytes > 100 GROUP BY ALL
            ),
            ranked AS (
                SELECT *, rank() OVER (PARTITION BY window_start ORDER BY total) - 1 AS smaller,
                       count(*) OVER (PARTITION BY window_start) AS pairs
                FROM totals
            )
            SELECT window_start, source, destination, total, n FROM ranked WHERE smaller > {FRACTION}::DOUBLE * pairs
            """  # noqa: S608 - made of numbers, and a path of our own
        )
        return pl.DataFrame(found.to_arrow_table())


def move(*, small: bool = False) -> dict[str, Any]:
    """Duration of a move in seconds, and the delay of results before and during it."""
    rate, seconds, repeats = (5_000.0, 2.5, 1) if small else (200_000.0, 30.0, 2)
    before = machine_load()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, Cluster(4, cores=2.0, spark=False) as cluster:
        path = Path(folder) / "tuples.parquet"
        written(path, rate, seconds)
        for case in CASES:
            runs = [_run(cluster, path, case, seconds) for _ in range(repeats if case.every < BEFORE * 2 else 1)]
            found[case.name] = _summary(case, runs)
    first = found[CASES[0].name]
    detail = {
        "way": f"totals of pairs and the largest of them, of {rate:g} tuples/s of 32 bytes; the aggregate, the filter "
        "before and the sort behind it move to and fro between two peers; a move ends when the new peer has executed "
        "all that had arrived there; delays from the end of a window to the client, of the results that came while a "
        "component moved or one window later, and in the second before; rows as DuckDB's",
        "tuples": int(rate * seconds),
        "cases": found,
        "delay_ratio": first["delay_ratio"],
        "lost": sum(each["lost"] for each in found.values()),
        "doubled": sum(each["doubled"] for each in found.values()),
        "target": {"delay_ratio": 2.0, "lost": 0, "doubled": 0},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("move", first["seconds"]["median"], "s", detail)


class _Run(NamedTuple):
    """One run of a query: its moves (operator, beginning, end, bytes of its state), its results and its errors."""

    moves: list[tuple[str, float, float, int]]
    came: list[tuple[float, pl.DataFrame]]
    started: float
    load: float
    lost: int
    doubled: int


def _run(cluster: Cluster, path: Path, case: Case, seconds: float) -> _Run:
    application = cluster.submit(query(path, case.window), origin="peer-1")
    moves: list[tuple[str, float, float, int]] = []
    loads: list[float] = []
    came: list[tuple[float, pl.DataFrame]] = []
    done = threading.Event()

    def collect() -> None:
        if not case.collected:
            done.wait()
        came.extend((time.time(), table) for table in application)

    collecting = threading.Thread(target=collect)
    collecting.start()
    ends = time.monotonic() + seconds - case.every
    try:
        while time.monotonic() < ends or not moves:
            threading.Event().wait(min(case.every, seconds / 3))
            operator = MOVED[len(moves) % len(MOVED)]
            to = PEERS[application.graph[operator] == PEERS[0]]
            held, load = _held(cluster, application, operator)
            loads.append(load)
            began = time.time()
            cluster.move(application.id, operator, to)
            moves.append((operator, began, time.time(), held))
    finally:
        done.set()
        collecting.join()
    started = next(event.time for event in application.events() if isinstance(event, SourceStarted))
    application.stop()
    right = expected(path, case.window)
    lost, doubled = differing(pl.concat([table for _, table in came]), right)
    return _Run(moves, came, started, max(loads), lost, doubled)


def _held(cluster: Cluster, application: Application, operator: str) -> tuple[int, float]:
    """Bytes of the state of a component, and the cores that all components of its peer use."""
    for state in cluster.states().values():
        for each in state.components if state is not None else ():
            if state is not None and (each["application"], each["operator"]) == (application.id, operator):
                return int(each["memory_bytes"]), sum(other["load"] for other in state.components)
    return 0, 0.0


def _summary(case: Case, runs: list[_Run]) -> dict[str, Any]:
    """The result of a case."""
    delays: dict[str, list[float]] = {"before": [], "during": []}
    for run in runs:
        for arrived, table in run.came:
            times = table.get_column("time").cast(pl.Int64)
            some = (arrived - run.started - times / 1e6).to_list()
            for _, began, ended, _ in run.moves:
                if began - BEFORE <= arrived < began:
                    delays["before"] += some
                elif began <= arrived <= ended + case.window / 1000:
                    delays["during"] += some
    moves = [each for run in runs for each in run.moves]
    states: dict[str, int] = {}
    for name, _, _, held in moves:
        states[name] = max(held, states.get(name, 0))
    summary = {
        "window_s": case.window / 1000,
        "moves": len(moves),
        "seconds": spread([ended - began for _, began, ended, _ in moves], digits=4),
        "state_bytes": states,
        "cores_used_at_the_peer": round(max(run.load for run in runs), 3),
        "rows": sum(table.height for run in runs for _, table in run.came),
        "lost": sum(run.lost for run in runs),
        "doubled": sum(run.doubled for run in runs),
    }
    if case.collected:
        p99 = {name: round(quantile(some, 0.99), 4) if some else None for name, some in delays.items()}
        p50 = {name: round(quantile(some, 0.5), 4) if some else None for name, some in delays.items()}
        summary |= {"delay_p99_s": p99, "delay_p50_s": p50, "delay_ratio": None}
        if p99["before"] and p99["during"]:
            summary["delay_ratio"] = round(p99["during"] / p99["before"], 3)
    return summary
