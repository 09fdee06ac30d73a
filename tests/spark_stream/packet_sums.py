"""A plan with a part on Spark, and its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from synergy_nb import Plan, keyed, source, traces
from synergy_nb.plan import Stream

PACKETS = {"connector": "packets", "seed": 4, "rate": 500.0, "duration": 8.0}


def sums(engine: str, *, speed: float, delay: str | None = None, availability: str | None = None) -> Plan:
    """Bytes by source of link B in every second."""
    stream = source("packets", seed=4, rate="500 tuples/s", duration="8 s", speed=speed)
    kept = stream.filter("link = 'B'", engine="peer")
    return kept.aggregate("source", "1 s", total="sum(bytes)", engine=engine).sink(
        "sums", delay=delay, availability=availability
    )


@keyed(columns={"so_far": "int"}, deterministic=True)
class SoFar:
    """Running total of the bytes of a source."""

    def __init__(self) -> None:
        self.total = 0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The total up to each window."""
        for row in rows:
            self.total += row["total"]
            yield {"so_far": self.total}


def running(stream: Stream) -> Plan:
    """Bytes by source of link B up to every second, by an object for each source, of a stream of packets."""
    kept = stream.filter("link = 'B'", engine="peer").aggregate("source", "1 s", total="sum(bytes)", engine="spark")
    return kept.apply_keyed(SoFar, key="source", engine="spark").sink("running")


def expected_running() -> pl.DataFrame:
    """The same of all packets, by Polars."""
    total = pl.col("total").cum_sum().over("source").alias("so_far")
    last = (pl.col("window_start") + pl.duration(seconds=1, microseconds=-1)).alias("time")
    return expected().select(last, "source", total)


def expected() -> pl.DataFrame:
    """The same by Polars at once."""
    rows = traces.table(PACKETS).filter(pl.col("link") == "B")
    start = pl.col("time").dt.truncate("1s").alias("window_start")
    return ordered(rows.group_by(start, "source").agg(pl.col("bytes").sum().alias("total")))


def ordered(table: pl.DataFrame) -> pl.DataFrame:
    return table.select("window_start", "source", "total").sort("window_start", "source")
