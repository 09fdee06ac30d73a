"""``dataflow``: filter, project, aggregate between two peer processes, beside bytewax and streamz on the same data."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from synergy_nb.experiments.measures import Usage, measurement, spread, surroundings
from synergy_nb.experiments.rivals import RIVALS, Rival, Rows, missing, reference
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.cluster import Application, Cluster

__all__ = ["dataflow"]

KEYS = 100
SPACING = 10  # µs between tuples


def tuples(count: int, seed: int = 1) -> pl.DataFrame:
    """``count`` tuples (time, key, value) of 24 bytes, in order of time."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "time": pl.Series(np.arange(count, dtype=np.int64) * SPACING).cast(pl.Datetime("us")),
            "key": rng.integers(0, KEYS, count),
            "value": rng.integers(0, 1000, count),
        }
    )


def query(path: Path, *, early: bool) -> Plan:
    """The query; the source on ``peer-1``, the aggregate on ``peer-2``.

    Parameters
    ----------
    early
        Filter and project before the wire, on ``peer-1``; otherwise all 24 bytes of every tuple cross it.
    """
    at = "peer-1" if early else "peer-2"
    columns = {"key": "int", "value": "int"}
    stream = source("trace", path=str(path), format="parquet", columns=columns, at="peer-1")
    kept = stream.filter("value >= 500", at=at).project("key", double="value * 2", at=at)
    sums = kept.aggregate(by="key", window="1 s", n="count(*)", total="sum(double)", at="peer-2")
    return sums.sink("sums")


def _ours(cluster: Cluster, plan: Plan) -> tuple[float, float, Rows]:
    """Seconds from the start of the source, which reads the file, to the end at the sink; CPU seconds; the rows."""
    with Usage(_processes(cluster)) as usage:
        application = cluster.submit(plan, at="peer-2")
        table = application.results()
    seconds = _time(application)
    application.stop()
    window = pl.col("window_start").cast(pl.Int64).alias("window")
    return seconds, usage.cpu, table.select(window, "key", "n", "total").sort("window", "key").rows()


def _time(application: Application) -> float:
    times = {event.kind: event.time for event in application.events()}
    return times["sink_finished"] - times["source_started"]


def _processes(cluster: Cluster) -> list[int]:
    return [state.pid for state in cluster.states().values() if state is not None]


def dataflow(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s of the query, all tuples crossing from one peer process to another; rows are asserted to be equal."""
    count, repeats = (20_000, 1) if small else (8_000_000, 5)
    table = tuples(count)
    expected = reference(table)
    rates: dict[str, list[float]] = {"late": [], "early": []}
    used: dict[str, list[float]] = {"late": [], "early": []}
    others: dict[str, list[float]] = {rival.name: [] for rival in RIVALS if not missing(rival.system)}
    before = surroundings()
    with tempfile.TemporaryDirectory() as folder, Cluster(2) as cluster:
        path = Path(folder) / "tuples.parquet"
        table.write_parquet(path, compression="uncompressed")
        plans = {"late": query(path, early=False), "early": query(path, early=True)}
        for repeat in range(repeats + 1):  # the first warms up
            for way, plan in plans.items():
                seconds, cpu, rows = _ours(cluster, plan)
                if rows != expected:
                    raise AssertionError(f"dataflow ({way}): rows differ from those of the batch query")
                if repeat or small:
                    rates[way].append(count / seconds)
                    used[way].append(cpu / count * 1e6)
            for rival in RIVALS:
                if rival.name in others and (repeat or small):
                    others[rival.name].append(_theirs(rival, table))
    rate = spread(rates["late"], digits=0)
    peers = [_entry(rival, others.get(rival.name), rate["median"], count) for rival in RIVALS]
    detail = {
        "query": "filter, project and aggregate by key over windows of 1 s of tuples (time, key, value) of 24 bytes",
        "way": "source in one peer process, all operators in another; reading the Parquet file is in the time",
        "tuples": count,
        "rate": rate,
        "cpu_s_a_million": min(used["late"]),
        "filtered_before_the_wire": spread(rates["early"], digits=0),
        "filtered_before_the_wire_cpu_s_a_million": min(used["early"]),
        "rows": len(expected),
        "equal": True,
        "target": 2e6,
        "load": {"before": before, "after": surroundings()},
    }
    return {**measurement("dataflow", rate["median"], "tuples/s", detail), "peers": peers}


def _theirs(rival: Rival, table: pl.DataFrame) -> float:
    part = table.head(max(int(table.height * rival.share), 1000))
    seconds, rows = rival.run(part)
    if rows != reference(part):
        raise AssertionError(f"dataflow: rows of {rival.name} differ from those of the batch query")
    return part.height / seconds


def _entry(rival: Rival, rates: list[float] | None, ours: float, count: int) -> dict[str, Any]:
    detail: dict[str, Any] = {"how": rival.how}
    if rates is None:
        return measurement(rival.name, 0.0, "tuples/s", {**detail, "note": missing(rival.system)})
    rate = spread(rates, digits=0)
    detail |= {
        "rate": rate,
        "tuples": int(count * rival.share),
        "equal": True,
        "processes": 1,
        "ours_to_theirs": round(ours / rate["median"], 3),
    }
    return measurement(rival.name, rate["median"], "tuples/s", detail)
