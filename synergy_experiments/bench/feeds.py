"""``feeds``: rows/s from a notebook to a stream, for each kind of source, compared with making a Polars table."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_nb.events import SinkFinished, SourceStarted
from synergy_nb.plan import source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.client.cluster import Cluster
from synergy_nb.runtime.client.feeds import Feed

__all__ = ["feeds"]

COLUMNS = {"key": "int", "value": "float"}
SPACING = 1e-3  # event time between rows, seconds

Method = tuple[Callable[[], Stream], int, Callable[[], None]]
"""Function that returns a source, its number of rows, and the function that pushes them, if the source does not."""


def dictionaries(count: int) -> Iterator[dict[str, Any]]:
    """``count`` rows in order of time."""
    for number in range(count):
        yield {"time": number * SPACING, "key": number % 100, "value": 0.5}


async def awaited(count: int) -> AsyncIterator[dict[str, Any]]:
    """The same rows, asynchronously."""
    for row in dictionaries(count):
        yield row


def table(count: int) -> pl.DataFrame:
    """The same rows as a table."""
    numbers = np.arange(count)
    return pl.DataFrame({"time": numbers * SPACING, "key": numbers % 100, "value": np.full(count, 0.5)})


def methods(rows: int, framed: int) -> dict[str, Method]:
    """Sources of ``rows`` dictionaries or of a frame of ``framed`` rows, by name; each is used once."""
    frame, feed = table(framed), Feed(COLUMNS)

    def nothing() -> None:
        """Push nothing: the source has the rows."""

    def push() -> None:
        with feed:
            for row in dictionaries(rows):
                feed.push(row)

    return {
        "generator": (lambda: source(dictionaries(rows), columns=COLUMNS), rows, nothing),
        "asynchronous generator": (lambda: source(awaited(rows), columns=COLUMNS), rows, nothing),
        "push": (lambda: source(feed), rows, push),
        "polars": (lambda: source(frame), framed, nothing),
        "pandas": (lambda: source(frame.to_pandas()), framed, nothing),
        "arrow": (lambda: source(frame.to_arrow()), framed, nothing),
    }


def _measured(cluster: Cluster, method: Method) -> tuple[float, float]:
    """Rows/s from the start of the source to the end at the sink, and CPU seconds of this process a million rows."""
    made, rows, give = method
    plan = made().aggregate(window="1000000 s", n="count(*)").sink("count")
    before = time.process_time()
    application = cluster.submit(plan)
    give()
    counted = application.results()["n"].sum()
    used = time.process_time() - before
    if counted != rows:
        raise AssertionError(f"feeds: {counted} rows arrived; expected {rows}")
    times = {type(event): event.time for event in application.events()}
    application.stop()
    return rows / (times[SinkFinished] - times[SourceStarted]), used / rows * 1e6


def feeds(*, small: bool = False) -> dict[str, Any]:
    """Rows/s of a generator of dictionaries, and of other sources; all rows are counted at the sink."""
    rows, framed, repeats = (2_000, 20_000, 1) if small else (500_000, 4_000_000, 5)
    rates: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    plain: list[float] = []
    cpu: list[float] = []
    before = machine_load()
    with Cluster(2, spark=False) as cluster:
        for repeat in range(repeats + 1):  # the first warms up
            for name, method in methods(rows, framed).items():
                rate, seconds = _measured(cluster, method)
                if repeat or small:
                    rates.setdefault(name, []).append(rate)
                    used.setdefault(name, []).append(seconds)
            began, working = time.perf_counter(), time.process_time()
            made = pl.DataFrame(list(dictionaries(rows)))
            cpu.append((time.process_time() - working) / made.height * 1e6)
            plain.append(made.height / (time.perf_counter() - began))
    spreads: dict[str, Any] = {name: spread(found, digits=0) for name, found in rates.items()}
    ours: dict[str, Any] = spreads["generator"]
    theirs = spread(plain, digits=0)
    detail = {
        "query": "a count of all rows (time, key, value), from this process through a peer to its sink",
        "rows": {name: framed if name in ("polars", "pandas", "arrow") else rows for name in spreads},
        "rates": spreads,
        "cpu_s_a_million": {name: round(min(found), 3) for name, found in used.items()},
        "equal": True,
        "target": 2e5,
        "load": {"before": before, "after": machine_load()},
    }
    beside = {
        "how": "polars.DataFrame(list(generator)), in this process, without a stream",
        "rate": theirs,
        "cpu_s_a_million": round(min(cpu), 3),
        "ours_to_theirs": round(ours["median"] / theirs["median"], 3),
    }
    entry = measurement("polars.DataFrame of the same dictionaries", theirs["median"], "tuples/s", beside)
    return {**measurement("feeds", ours["median"], "tuples/s", detail), "peers": [entry]}
