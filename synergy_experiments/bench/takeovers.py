"""``takeover``: a backup takes over a join whose peer is killed; tuples that are late, lost and duplicated by that."""

from __future__ import annotations

import random
import threading
import time
from typing import Any, Final

import duckdb
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, quantile, spread
from synergy_nb import traces
from synergy_nb.events import TakeoverBegun
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.client.cluster import Application, Cluster

__all__ = ["WITHIN", "differing", "expected", "pairs_of", "query", "takeover"]

SEED: Final = 1  # of the moments of the kills
WITHIN: Final = 50  # ms that two packets of a pair may be apart
TARGET: Final = 0.2  # seconds by which results may be later than the death is noticed
STAYING: Final = 2  # peers of a cluster that are not killed: that of the origin and the sink, and that of the sources
KILLS: Final = 10  # in a cluster


def pairs_of(number: int, seconds: float, rate: float, home: str, at: str | None = None) -> Stream:
    """Join two paced streams of packets.

    Parameters
    ----------
    number
        Number of the run; each run has different packets.
    seconds, rate
        Duration of the streams in seconds, and packets/s of each.
    home
        Name of the peer of the sources.
    at
        Name of the peer of the join; any by default.
    """
    left, right = (
        source("packets", seed=2 * number + side, rate=rate, duration=f"{seconds:g} s", id=name, at=home)
        for side, name in enumerate(("left", "right"))
    )
    return left.join(right, on="destination", within=f"{WITHIN} ms", id="pairs", at=at)


def query(number: int, seconds: float, rate: float, at: str) -> Plan:
    """A join of two paced streams of packets; ``peer-1`` has its sink, ``peer-2`` its sources.

    Parameters
    ----------
    number
        Number of the run; each run has different packets.
    seconds, rate
        Duration of the streams in seconds, and packets/s of each.
    at
        Name of the peer of the join.
    """
    return pairs_of(number, seconds, rate, "peer-2", at).sink("out", availability="degree 2", id="out")


def expected(plan: Plan) -> pl.DataFrame:
    """The rows of the query by DuckDB."""
    left, right = (traces.table(plan.operators[name].params) for name in ("left", "right"))
    columns = ("link", "source", "source_port", "destination_port", "bytes")
    right_columns = ", ".join(f"r.{name} AS {name}_right" for name in columns)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("l", left)
        connection.register("r", right)
        rows = connection.sql(
            f"""
            SELECT l.* REPLACE (greatest(l.time, r.time) AS time), {right_columns}
            FROM l JOIN r ON l.destination = r.destination
            AND abs(epoch_us(l.time) - epoch_us(r.time)) <= {WITHIN * 1000}
            """  # noqa: S608 - made of constants
        )
        return pl.DataFrame(rows.to_arrow_table())


def differing(found: pl.DataFrame, right: pl.DataFrame) -> tuple[int, int]:
    """Numbers of lost rows of ``right`` and of additional rows; repeated rows count each time."""
    columns = right.columns
    both = [
        table.select(columns).with_columns(pl.lit(side).alias("@side")) for table, side in ((right, 1), (found, -1))
    ]
    balance = pl.concat(both).group_by(columns).agg(pl.col("@side").sum())["@side"]
    return int(balance.clip(lower_bound=0).sum()), int(-balance.clip(upper_bound=0).sum())


def takeover(*, small: bool = False) -> dict[str, Any]:
    """Seconds by which results are later than the death of a join's peer is noticed, in each of many runs."""
    count, seconds, rate = (1, 2.0, 200.0) if small else (50, 5.0, 500.0)
    rng = random.Random(SEED)
    before = machine_load()
    tries: list[dict[str, Any]] = []
    while len(tries) < count:
        kills = min(KILLS, count - len(tries))
        with Cluster(STAYING + kills + 1, cores=1.0, spark=False) as cluster:  # who is killed last needs a backup, too
            for victim in range(STAYING + 1, STAYING + kills + 1):
                plan = query(len(tries), seconds, rate, f"peer-{victim}")
                tries.append(_killed(cluster, plan, f"peer-{victim}", rng.uniform(0.1, 0.6) * seconds))
    beyond = [each["beyond_s"] for each in tries]
    detail = {
        "way": f"a join of two streams of {rate:g} packets/s, degree 2; SIGKILL to its peer after 10 to 60 % of "
        f"{seconds:g} s; later: the largest delay at the client after the kill, less the median before it; detected: "
        "from the kill until the origin has the backup take over",
        "tries": len(tries),
        "rows": sum(each["rows"] for each in tries),
        "lost": sum(each["lost"] for each in tries),
        "doubled": sum(each["doubled"] for each in tries),
        "wrong": [number for number, each in enumerate(tries) if each["lost"] or each["doubled"] or each["status"]],
        "later": spread([each["later_s"] for each in tries], digits=3),
        "detected": spread([each["detected_s"] for each in tries], digits=3),
        "beyond": spread(beyond, digits=3),
        "beyond_p90": round(quantile(beyond, 0.9), 3),
        "within_target": sum(each <= TARGET for each in beyond),
        "target": {"lost": 0, "doubled": 0, "beyond": TARGET},
        "runs": tries,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("takeover", detail["beyond"]["median"], "s", detail)


def _killed(cluster: Cluster, plan: Plan, peer: str, moment: float) -> dict[str, Any]:
    """Run a plan, kill a peer some seconds after the first results, and measure late, lost and repeated rows."""
    application = cluster.submit(plan, origin="peer-1")
    killed: list[float] = []

    def kill() -> None:
        cluster.kill(peer)
        killed.append(time.time())

    killer = threading.Timer(moment, kill)
    came: list[tuple[float, pl.DataFrame]] = []
    status = ""
    try:
        for table in application:
            came.append((time.time(), table))
            if len(came) == 1:
                killer.start()
    except RuntimeError as error:
        status = str(error)
    killer.join()
    tables = [table for _, table in came] or [application.results(wait=False)]
    lost, doubled = differing(pl.concat(tables), expected(plan))
    detected = _noticed(application, killed[0])
    later = _later(came, killed[0])
    application.stop()
    return {
        "moment_s": round(moment, 3),
        "later_s": round(later, 4),
        "detected_s": round(detected, 4),
        "beyond_s": round(later - detected, 4),
        "rows": sum(map(len, tables)),
        "lost": lost,
        "doubled": doubled,
        "status": status,
    }


def _noticed(application: Application, killed: float) -> float:
    """Time from the kill until the origin activated the backup, seconds; 0 if it did not."""
    times = [event.time for event in application.events() if isinstance(event, TakeoverBegun) and event.operators]
    return min(times) - killed if times else 0.0


def _later(came: list[tuple[float, pl.DataFrame]], killed: float) -> float:
    """Greatest delay of results after the kill less the median delay before it, seconds."""
    delays: dict[bool, list[float]] = {False: [], True: []}
    for arrived, table in came:
        times = table.get_column("time").cast(pl.Int64)
        delays[arrived > killed].extend((arrived - times / 1e6).to_list())
    if not delays[True] or not delays[False]:
        return 0.0
    return max(delays[True]) - quantile(delays[False], 0.5)
