"""Input of the demo: a trace that the user names, one on this machine, or generated packets; and the query over it.

The query is the top-k network-monitoring application of figure 1.1 of the dissertation: over windows of 20 minutes, the
pairs whose traffic is larger than that of more than 95 % of the pairs.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import polars as pl

from synergy_nb import traces
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, source
from synergy_nb.plan.operators.sources import TIME_NAMES
from synergy_nb.traces import datasets
from synergy_nb.traces.first_lines import separator_of

__all__ = ["GENERATED", "PACED_SECONDS", "WINDOW_SECONDS", "Input", "choose", "generated", "query", "watch"]

WINDOW: Final = "20 min"
WINDOW_SECONDS: Final = 1200
FRACTION: Final = "95 %"
LIMIT: Final = "5 s"  # limit of the delay, which a busy laptop meets, too; results are of windows of 20 minutes
MISSES: Final = "5 %"
PACED_SECONDS: Final = 6.0
#: Rate that admission assumes for a source that is as fast as possible, tuples/s. On Spark the sums then need half of
#: the share that one of 8 peers has of two cores; with all of it they would be refused, as nothing would be left.
FAST_RATE: Final = 50_000.0
PAIRS: Final = (("source", "destination"), ("host", "directory"))
GENERATED: Final[Mapping[str, Any]] = {"seed": 2008, "rate": 10.0, "duration": 4 * 3600.0, "hosts": 200}


class Input(msgspec.Struct, frozen=True):
    """A finite stream of traffic between pairs."""

    name: str  # name of the input for people
    # connector, params: connector and parameters of the source
    connector: Literal["trace", "packets"]
    params: dict[str, Any]
    # tuples, start, seconds: number of tuples of the whole stream, event time of the first in seconds since 1970, and
    # seconds of event time from first to last
    tuples: int
    start: float
    seconds: float
    real: bool  # whether it was measured rather than generated
    pair: tuple[str, str]  # columns that make the pair
    where: str  # SQL condition of the tuples that are counted
    value: str  # aggregate call that gives a pair's traffic
    unit: str

    @property
    def path(self) -> str:
        """The trace; empty for generated packets."""
        return str(self.params.get("path", ""))

    @property
    def format(self) -> str:
        """Format of the trace, or ``packets``."""
        return str(self.params.get("format", "packets"))


def choose(trace: str | Path | None) -> Input:
    """The trace at ``trace``, else the SDSC trace if it is on this machine, else generated packets.

    Raises ``ValueError`` if ``trace`` is no trace or has no columns that make a pair; the text names file, field, value
    and what was expected.
    """
    if trace is not None:
        return _trace(Path(trace))
    found = datasets.find("sdsc-http").path
    return generated() if found is None else _trace(Path(found))


def generated(params: Mapping[str, Any] = GENERATED) -> Input:
    """Generated packets."""
    tables = [item.table for item in traces.read({"connector": "packets", **params}) if isinstance(item, Batch)]
    times = pl.concat([table["time"] for table in tables]).to_physical()
    first, last = times[0] / 1e6, times[-1] / 1e6
    return Input(
        name="generated packets",
        connector="packets",
        params=dict(params),
        tuples=len(times),
        start=first,
        seconds=last - first,
        real=False,
        pair=PAIRS[0],
        where="link = 'B'",
        value="sum(bytes)",
        unit="bytes",
    )


def _trace(path: Path) -> Input:
    found = traces.info(path)
    columns = found.columns
    pair = next((pair for pair in PAIRS if set(pair) <= columns.keys()), None)
    if pair is None:
        raise ValueError(
            f"{path}: columns: {', '.join(columns)}; expected source and destination, or host and directory"
        )
    params: dict[str, Any] = {"path": str(path.resolve()), "format": found.format}
    if found.format in ("csv", "parquet"):
        clock = next(name for name in TIME_NAMES if name in _header(path, found.format))
        used = {*pair, "bytes", "link", "operation", "status"}
        params["columns"] = {clock: "time"} | {name: kind for name, kind in columns.items() if name in used}
        params["time"] = clock
    sized = columns.get("bytes") == "int"
    if columns.get("link") == "str":
        where = "link = 'B'"
    elif columns.get("operation") == "str":
        where = "operation LIKE 'Sent%'"  # requests that were served, not those refused or not found
    elif columns.get("status") == "int":
        where = "status = 200"
    else:
        where = "bytes > 0" if sized else f"{pair[0]} IS NOT NULL"
    counted = "requests" if pair[0] == "host" else "tuples"
    return Input(
        name=path.name,
        connector="trace",
        params=params,
        tuples=found.rows,
        start=datetime.fromisoformat(found.first).replace(tzinfo=UTC).timestamp(),
        seconds=found.duration,
        real=True,
        pair=pair,
        where=where,
        value="sum(bytes)" if sized else "count(*)",
        unit="bytes" if sized else counted,
    )


def _header(path: Path, kind: str) -> list[str]:
    """Names of the columns in the file."""
    if kind == "parquet":
        return list(pl.read_parquet_schema(path))
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as text:
        head = text.readline().decode("utf-8-sig", "replace").strip()
    return [name.strip() for name in next(csv.reader([head], delimiter=separator_of(head) or ","))]


def query(given: Input, speed: float, engine: str = "peer") -> Plan:
    """The query over ``given``, replayed at ``speed`` seconds of event time a second; 0: as fast as possible.

    ``engine`` executes the sums of the windows. Spark adds micro-batches, so a plan on Spark states no limit.
    """
    rate = given.tuples / given.seconds * speed if speed and given.seconds else FAST_RATE
    params = dict(given.params)
    if given.connector == "trace":
        params["rate"] = rate
    stream = source(given.connector, **params, speed=speed)
    first, second = given.pair
    traffic = (
        stream.filter(given.where, engine="peer")
        .project(*([first, second, "bytes"] if given.value != "count(*)" else [first, second]), engine="peer")
        .aggregate(by=[first, second], window=WINDOW, total=given.value, engine=engine)
    )
    top = traffic.sort("total desc", first, second).compare("total", FRACTION, count=traffic.count())
    if engine == "spark":
        return top.sink("top pairs")
    return top.sink("top pairs", delay=LIMIT, miss_rate=MISSES)


def watch(peers: Iterable[str]) -> Plan:
    """A plan over the measurements of all ``peers``: their share of the processor and their ping times, by second."""
    first, *others = [source("peers", interval="250 ms", at=peer, id=f"load of {peer}") for peer in peers]
    everything = first.union(*others) if others else first
    return (
        everything.filter("metric = 'ping' OR (metric = 'cpu' AND target = 'process')")
        .aggregate(by=["peer", "metric"], window="1 s", samples="count(*)", mean="avg(value)", largest="max(value)")
        .sort("metric", "peer")
        .sink("peers", delay=LIMIT)
    )
