"""Every operator of the data path in a small plan, with its inputs and its meaning in SQL.

Windows in the SQL are written as literally as can be: a table of all windows, joined to the rows by their times.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pytest

from synergy_nb import Wake, aggregate, function, keyed
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import TYPES, Batch
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.traces import read
from tests.feeding import fresh, rows_of, through

PACKETS = {"link": "str", "source": "str", "port": "int", "bytes": "int", "weight": "float", "ok": "bool"}
ORDERS = {
    "source": "str", "items": "struct(name str, price decimal(9, 2))[]", "place": "struct(city str, zip int)",
    "tags": "str[]",
}  # fmt: skip
REPLIES = {"source": "str", "Bytes": "int", "status": "int"}
SECOND = 1_000_000


@cache
def packets(rows: int = 300, seed: int = 7) -> pl.DataFrame:
    """Rows of about two minutes, out of order by up to five seconds, with NULLs, ties and whole-second times."""
    rng = random.Random(seed)
    start = -30 * SECOND  # some of them before 1970
    columns: dict[str, list[Any]] = {name: [] for name in ("time", *PACKETS)}
    for row in range(rows):
        time = start + row * 300_000 + rng.randint(-5 * SECOND, 0)
        columns["time"].append(time // SECOND * SECOND if row % 3 else time)
        columns["link"].append(rng.choice(["A", "B", "B", None]))
        columns["source"].append(rng.choice(["alpha", "beta", "gamma", "delta", "héé", ""]))
        columns["port"].append(rng.choice([80, 443, 22, None]))
        columns["bytes"].append(rng.choice([None, 0, 40, 576, 1500, rng.randint(-50, 50)]))
        columns["weight"].append(rng.choice([None, rng.randint(-64, 64) / 8]))
        columns["ok"].append(rng.choice([True, False, None]))
    return _typed(columns, PACKETS)


@cache
def replies(rows: int = 120, seed: int = 8) -> pl.DataFrame:
    """The second input of joins: other columns, one of which clashes but for its case."""
    rng = random.Random(seed)
    times = [-30 * SECOND + row * 800_000 + rng.randint(-3 * SECOND, 0) for row in range(rows)]
    columns: dict[str, list[Any]] = {"time": times}
    columns["source"] = [rng.choice(["alpha", "beta", "gamma", None]) for _ in range(rows)]
    columns["Bytes"] = [rng.randint(0, 9) for _ in range(rows)]
    columns["status"] = [rng.choice([200, 404, None]) for _ in range(rows)]
    return _typed(columns, REPLIES)


@cache
def orders(rows: int = 120, seed: int = 9) -> pl.DataFrame:
    """Rows with lists and structs, some of them empty or NULL."""
    rng = random.Random(seed)
    times = [(row * 2 // 3 + rng.randint(-3, 0) - 30) * SECOND for row in range(rows)]
    columns: dict[str, list[Any]] = {"time": times, **{name: [] for name in ORDERS}}
    for _ in range(rows):
        columns["source"].append(rng.choice(["alpha", "beta", None]))
        items = [{"name": rng.choice("xyz"), "price": Decimal(rng.randint(-500, 500)) / 100} for _ in range(3)]
        columns["items"].append(rng.choice([None, [], items[:1], items]))
        columns["place"].append(rng.choice([None, {"city": rng.choice(["Bonn", None]), "zip": rng.randint(0, 9)}]))
        columns["tags"].append(rng.choice([None, [], ["a"], ["b", None, "a"]]))
    return _typed(columns, ORDERS)


def _typed(columns: dict[str, list[Any]], kinds_of: dict[str, str]) -> pl.DataFrame:
    table = pl.DataFrame(columns, schema={"time": pl.Int64(), **{name: TYPES[kind] for name, kind in kinds_of.items()}})
    return table.with_columns(pl.col("time").cast(TYPES["time"]))


HOSTS = pl.DataFrame(
    {"source": ["héé", "alpha", None, "beta", "none"], "site": ["Bonn", None, "Rome", "Oslo", "Nice"], "rank": range(5)}
)
VERSIONS = _typed(
    {
        "time": [time * SECOND for time in (0, -20, 10, 5, -60, 0, 7)],
        "number": [80, 80, 80, 443, 443, None, 25],
        "name": ["b", "a", "c", None, "a", "d", "e"],
    },
    {"number": "int", "name": "str"},
).rename({"time": "since"})
PORTS = pl.DataFrame(
    {"link": ["A", "B", "B", None, "A"], "number": [80, 80, 22, 443, None], "name": ["web", "web B", "ssh", "tls", "?"]}
)


def python(name: str, columns: dict[str, str], **params: Any) -> Stream:
    return source("python", name=name, columns=columns, id=name, **params)


class Case(NamedTuple):
    """An operator in a plan, and its stream in SQL over ``in0`` and ``in1``: its inputs, with ``pos``."""

    build: Callable[[], Stream]
    sql: str
    windows: tuple[int, int] | None = None  # length, slide in seconds, of the table ``w`` (s, e)
    ordered: bool = True  # whether the order of rows depends on nothing but the inputs
    stateful: bool = False
    lasting: bool = False  # whether it keeps a state for each key until the stream ends, and no rows
    exact: bool = False  # whether sums of floats are exact, as those of active replicas are
    digits: int | None = None  # digits to which floats are compared; None: all


def P() -> Stream:  # noqa: N802 - a constant that is made anew
    return python("packets", PACKETS)


def R() -> Stream:  # noqa: N802
    return python("replies", REPLIES)


def sums(packets: Stream | None = None) -> Stream:
    """A windowed stream, with up to 24 rows a window."""
    return (packets or P()).aggregate(by=["source", "link"], window="10 s", total="sum(bytes)", most="max(weight)")


def ties() -> Stream:
    """A windowed stream of many rows a window."""
    return P().sort("bytes", window="20 s")


def O() -> Stream:  # noqa: E743, N802
    return python("orders", ORDERS)


def sales() -> Stream:
    """Rows with a date, a duration and a decimal."""
    return P().project(
        {
            "source": "source", "day": "CAST(time AS date) + port % 3", "lasts": "time - TIMESTAMP '1969-12-31'",
            "price": "CAST(weight AS decimal(9, 2)) * 1.5",
        }
    )  # fmt: skip


def counted() -> Stream:
    rows = sums()
    return rows.compare("total", "75 %", count=rows.filter("total > 100").count("m"))


def joined(how: str = "inner") -> Stream:
    packets = P()
    some = packets if how == "inner" else packets.filter("bytes > 600")
    other = some.aggregate(by=["source"], window="10 s", n="count(*)", total="min(bytes)")
    return sums(packets).join(other, on=["source", "window_start", "window_end"], within="0 s", how=how)


def odd() -> Stream:
    """A windowed stream whose columns are called like what operators once added for themselves."""
    columns = {"bytes": "bytes", "weight": "weight", "@first": "source", "@window": "link"}
    values = {"@n": "sum(bytes)", "@pane": "max(weight)", "@row": "count(*)"}
    rows = P().operator("project", columns=columns)
    return rows.aggregate(by=["@first", "@window"], window="10 s", values=values)


VALUES = {
    "n": "count(*)", "k": "count(bytes)", "total": "sum(bytes)", "low": "min(weight)", "high": "max(weight)",
    "mean": "avg(bytes)", "first": "min(source)", "last": "max(time)", "ports": "count(distinct port)",
    "twice": "sum(weight * 2)", "ones": "sum(1)", "none": "avg(CAST(NULL AS int))",
    "sources": "count(distinct lower(source))",
}  # fmt: skip
VALUES_SQL = (
    "count(*), count(bytes), sum(bytes)::BIGINT, min(weight), max(weight), avg(bytes), min(source), max(time), "
    "count(DISTINCT port), sum(weight * 2), sum(1)::BIGINT, avg(NULL::BIGINT), count(DISTINCT lower(source))"
)
#: Aggregates of the distribution of values, of order, and expressions over several.
SPREAD = {
    "middle": "median(weight)", "most": "quantile_cont(bytes, 0.9)", "third": "quantile_disc(weight, 0.33)",
    "name": "quantile_disc(source, 0.6)", "newest": "last(port)", "oldest": "first(bytes)", "some": "last(source)",
    "links": "string_agg(left(link, 1), '') FILTER (WHERE ok AND bytes > 40)",
    "big": "string_agg(left(source, 1)) FILTER (WHERE ok AND bytes > 600)",
    "share": "count_if(ok) * 100.0 / count(*)", "each": "sum(bytes) / count(distinct port)",
    "about": "approx_count_distinct(source) + approx_count_distinct(time) * 1000",
    "range": "max(weight) - min(weight)", "distance": "quantile_disc(port, 1) - quantile_disc(port, 0.0)",
    "ranked": "CASE WHEN sum(bytes) > 1000 THEN 'much' ELSE 'little' END",
}  # fmt: skip
SPREAD_SQL = (
    "median(weight), quantile_cont(bytes::DOUBLE, 0.9), quantile_disc(weight, 0.33), quantile_disc(source, 0.6), "
    "last(port ORDER BY {order}), first(bytes ORDER BY {order}), last(source ORDER BY {order}), "
    "string_agg(link, '' ORDER BY pos) FILTER (ok AND bytes > 40), "
    "string_agg(source[1], ',' ORDER BY pos) FILTER (ok AND bytes > 600), "
    "count(*) FILTER (ok) * 100.0::DOUBLE / count(*), sum(bytes) / nullif(count(DISTINCT port), 0), "
    "count(DISTINCT source) + count(DISTINCT time) * 1000, max(weight) - min(weight), max(port) - min(port), "
    "CASE WHEN sum(bytes) > 1000 THEN 'much' ELSE 'little' END"
).format(order="time, pos")
#: Aggregates of dates, durations and decimals.
EXACTLY = {
    "n": "count(price)", "total": "sum(price)", "low": "min(price)", "high": "max(price)", "mean": "avg(price)",
    "early": "min(day)", "late": "max(day)", "longest": "max(lasts)", "middle": "quantile_disc(price, 0.5)",
    "half": "quantile_disc(lasts, 0.5)", "prices": "count(distinct price)",
    "days": "count(distinct day)", "begin": "first(price)", "end": "last(day)", "at": "last(lasts)",
    "off": "stddev_pop(price)", "quarter": "quantile_cont(price, 0.25)", "range": "max(price) - min(price)",
    "span": "max(day) - min(day)", "about": "approx_count_distinct(price)",
    "more": "sum(price) FILTER (WHERE day > '1970-01-01')",
}  # fmt: skip
EXACTLY_SQL = (
    "count(price), sum(price), min(price), max(price), avg(price), min(day), max(day), max(lasts), "
    "quantile_disc(price, 0.5), quantile_disc(lasts, 0.5), count(DISTINCT price), count(DISTINCT day), "
    "first(price ORDER BY time, pos), last(day ORDER BY time, pos), last(lasts ORDER BY time, pos), stddev_pop(price), "
    "quantile_cont(price::DOUBLE, 0.25), max(price) - min(price), max(day) - min(day), count(DISTINCT price), "
    "sum(price) FILTER (day > '1970-01-01')"
)
DEVIATIONS = {
    "a": "stddev(weight)", "b": "stddev_pop(bytes)", "c": "variance(weight)", "d": "var_pop(bytes + 1000)",
    "e": "stddev(bytes) / avg(bytes)", "f": "var_samp(bytes * CAST(NULL AS int))",
}  # fmt: skip
DEVIATIONS_SQL = (
    "stddev_samp(weight), stddev_pop(bytes), var_samp(weight), var_pop(bytes), stddev_samp(bytes) / "
    "nullif(avg(bytes), 0), NULL::DOUBLE"
)
RUNNING = {
    "before": "lag(weight)", "later": "lead(source, 2)", "third": "lag(time, 3)", "total": "sum(bytes)",
    "load": "sum(weight * 2)", "mean": "avg(bytes)", "low": "min(weight)", "high": "max(source)", "n": "count(port)",
    "of": "count(*) FILTER (WHERE ok)", "one": "sum(1)", "at": "rank()", "k": "dense_rank()", "a": "bytes - lag(bytes)",
}  # fmt: skip
RUNNING_SQL = (
    "lag(weight) OVER k, lead(source, 2) OVER k, lag(r.time, 3) OVER k, (sum(bytes) OVER u)::BIGINT, "
    "sum(weight * 2) OVER u, avg(bytes) OVER u, min(weight) OVER u, max(source) OVER u, count(port) OVER u, "
    "count(*) FILTER (ok) OVER u, row_number() OVER k, rank() OVER t, dense_rank() OVER t, bytes - lag(bytes) OVER k"
)
FAR = "bytes * 6000000000000000"  # of which few exceed 64 bits together
LARGE = {"mean": f"avg({FAR})", "total": f"sum({FAR})", "@sum": f"sum(-{FAR})", "@member": "count(distinct bytes)"}
LARGE_SQL = (
    "avg(bytes * 6000000000000000::HUGEINT), try_cast(sum(bytes * 6000000000000000::HUGEINT) AS BIGINT), "
    "try_cast(sum(bytes * -6000000000000000::HUGEINT) AS BIGINT), count(DISTINCT bytes)"
)
# Values that hardly any two rows share: 7 % of 100 is more than 7 in floats, and so are 29 % and 57 %.
APART = "coalesce(bytes, 7) * 1000 + coalesce(weight, 0.1) + coalesce(port, 5) / 1e5 + length(source) / 1e7"
NEAR = "a.source = b.source AND abs(epoch_us(a.time) - epoch_us(b.time)) <= 1000000"
LATEST = (
    'FROM (SELECT a.* EXCLUDE pos, b."Bytes" AS "Bytes_right", b.status, '
    "epoch_us(a.time) - epoch_us(b.time) <= 2000000 AS near FROM in0 a ASOF LEFT JOIN (SELECT * FROM in1 QUALIFY "
    'row_number() OVER (PARTITION BY source, time ORDER BY "Bytes" DESC NULLS LAST, status DESC NULLS LAST) = 1) b '
    "ON a.source = b.source AND a.time >= b.time)"
)
WINDOWED = "e - INTERVAL 1 MICROSECOND AS time, s, e"
IN_WINDOW = "FROM in0 JOIN w ON time >= s AND time < e"
COUNTED = (
    "(SELECT *, (row_number() OVER (ORDER BY pos) - 1) // {n} AS g FROM in0 "
    "QUALIFY g < (SELECT count(*) FROM in0) // {n})"
)
GAP = 1_500_000  # microseconds; of sessions
SESSIONS = (
    "(SELECT *, min(time) OVER (PARTITION BY {by}k) AS s, max(time) OVER (PARTITION BY {by}k) + INTERVAL 1500 "
    "MILLISECOND AS e FROM (SELECT *, sum(CASE WHEN pause < {gap} THEN 0 ELSE 1 END) OVER "
    "({part}ORDER BY time, pos ROWS UNBOUNDED PRECEDING) AS k FROM (SELECT *, "
    "epoch_us(time) - lag(epoch_us(time)) OVER ({part}ORDER BY time, pos) AS pause FROM in0)))"
)
SESSION = SESSIONS.format(by="", part="", gap=GAP)


def sessions_by(*columns: str) -> str:
    """The rows of ``in0`` with the bounds of their groups' sessions."""
    by = ", ".join(columns) + ", "
    return SESSIONS.format(by=by, part=f"PARTITION BY {by[:-2]} ", gap=GAP)


BOUNDED = (
    f"(SELECT *, min(time) OVER (PARTITION BY g) AS s, max(time) OVER (PARTITION BY g) + INTERVAL 1 MICROSECOND AS e "
    f"FROM {COUNTED})"
)

DECAYED = {
    "n": "count(*)", "k": "count(most)", "load": "sum(total)", "mean": "avg(total)", "heavy": "sum(most)",
    "high": "max(total)", "sources": "count(distinct source)",
}  # fmt: skip
#: A tuple of age a, by the time of the result, counts for half of what it would count 10 s later.
SHARE = "pow(2.0, (epoch_us(time) - epoch_us(e) + 1) / 10000000.0)"
DECAYED_SQL = (
    f"sum({SHARE}), coalesce(sum({SHARE}) FILTER (most IS NOT NULL), 0.0), sum({SHARE} * total), "
    f"sum({SHARE} * total) / sum({SHARE}) FILTER (total IS NOT NULL), sum({SHARE} * most), max(total), "
    "count(DISTINCT source)"
)


@function(columns={"twice": "int", "none": "bool"}, deterministic=True)
def _doubled(batch: pl.DataFrame) -> pl.DataFrame:
    """Twice the bytes of rows that have some, or none at all."""
    chosen = batch.filter((pl.col("bytes") > 0) | pl.col("bytes").is_null())
    return chosen.select("time", twice=pl.col("bytes") * 2, none=pl.col("bytes").is_null())


@function(columns={"twice": "int", "none": "bool"}, needs="bytes", form="row", deterministic=True)
def _doubled_row(row: dict[str, Any]) -> dict[str, Any] | None:
    """The same, row by row."""
    size = row["bytes"]
    if size is not None and size <= 0:
        return None
    return {"twice": None if size is None else size * 2, "none": size is None}


@aggregate(columns={"spread": "int", "n": "int"}, needs=["bytes"])
def _spread(rows: pl.DataFrame) -> dict[str, Any]:
    """Difference of the largest and the least bytes, and the number of rows."""
    most: Any = rows["bytes"].max()
    least: Any = rows["bytes"].min()
    return {"spread": None if most is None else most - least, "n": rows.height}


@keyed(columns={"total": "int"}, needs=["bytes"], deterministic=True)
class Totals:
    """Sum of all bytes of a key up to a row."""

    def __init__(self) -> None:
        self.total = 0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The sum at each row."""
        for row in rows:
            self.total += row["bytes"] or 0
            yield {"total": self.total}


@keyed(columns={"n": "int"}, deterministic=True)
class _Quiet:
    """Number of rows of a key, each time when none has come for a second."""

    def __init__(self) -> None:
        self.rows = 0
        self.due: dt.datetime | None = None

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[Wake]:
        """Wait for a second after each row."""
        for row in rows:
            self.rows += 1
            self.due = row["time"] + dt.timedelta(seconds=1)
            yield Wake(self.due)

    def on_time(self, _key: Any, time: dt.datetime) -> Iterator[dict[str, Any]]:
        """The number of rows, if no other has come."""
        if time == self.due:
            yield {"n": self.rows}


@keyed(columns={"n": "int"}, deterministic=True)
class _Ticks:
    """Seconds since the first row of a key, each when it has passed."""

    def __init__(self) -> None:
        self.n = 0
        self.begun = False

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[Wake]:
        """Begin with the first row."""
        for row in rows:
            if not self.begun:
                self.begun = True
                yield Wake(row["time"] + dt.timedelta(seconds=1))

    def on_time(self, _key: Any, time: dt.datetime) -> Iterator[dict[str, Any] | Wake]:
        """One more second."""
        self.n += 1
        yield {"n": self.n}
        yield Wake(time + dt.timedelta(seconds=1))


CASES = {
    "filter": Case(
        lambda: P().filter("bytes % 2 = 0 AND (link = 'B' OR port IN (80, 22))"),
        "SELECT * EXCLUDE pos FROM in0 WHERE bytes % 2 = 0 AND (link = 'B' OR port IN (80, 22)) ORDER BY pos",
    ),
    "project": Case(
        lambda: P().project({"kb": "bytes / 1000", "name": "upper(source)", "one": "1", "none": "CAST(NULL AS str)"}),
        "SELECT time, bytes / 1000, upper(source), 1::BIGINT, NULL FROM in0 ORDER BY pos",
    ),
    "project of windows": Case(
        lambda: sums().project({"half": "total / 2"}),
        "SELECT time, window_start, window_end, total / 2 FROM in0 ORDER BY pos",
    ),
    "union": Case(
        lambda: P().project("source", "bytes").union(R().project(source="source", bytes="Bytes")),
        "SELECT * EXCLUDE pos FROM in0 UNION ALL SELECT * EXCLUDE pos FROM in1",
        ordered=False,
    ),
    "aggregate tumbling": Case(
        lambda: P().aggregate(by=["link"], window="10 s", values=VALUES),
        f"SELECT {WINDOWED}, link, {VALUES_SQL} {IN_WINDOW} GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (10, 10), stateful=True,
    ),
    "aggregate of dates and decimals": Case(
        lambda: sales().aggregate(by="day", window="20 s", values=EXACTLY),
        f"SELECT {WINDOWED}, day, {EXACTLY_SQL} {IN_WINDOW} GROUP BY s, e, day ORDER BY e, day NULLS LAST",
        (20, 20), stateful=True, digits=12,
    ),
    "aggregate of given windows": Case(
        lambda: P().aggregate(["link", "source"], "20 s every 5 s", total="sum(bytes)").aggregate(
            "link", values={"n": "count(*)", "load": "sum(total)", "mean": "avg(total)", "last": "max(source)"}
        ),
        "SELECT time, window_start, window_end, link, count(*), sum(total)::BIGINT, avg(total), max(source) FROM in0 "
        "GROUP BY time, window_start, window_end, link ORDER BY window_end, link NULLS LAST",
        stateful=True,
    ),
    "aggregate of given sessions": Case(
        lambda: P().aggregate("source", "1500 ms gap", total="sum(bytes)").aggregate(most="max(total)", n="count(*)"),
        "SELECT time, window_start, window_end, max(total), count(*) FROM in0 GROUP BY time, window_start, window_end "
        "ORDER BY window_end, window_start",
        stateful=True,
    ),
    "aggregate sliding": Case(
        lambda: P().aggregate(by=["port", "source"], window="20 s every 5 s", values=VALUES),
        f"SELECT {WINDOWED}, port, source, {VALUES_SQL} {IN_WINDOW} GROUP BY s, e, port, source "
        "ORDER BY e, port NULLS LAST, source NULLS LAST",
        (20, 5), stateful=True,
    ),
    "aggregate sliding by no divisor": Case(
        lambda: P().aggregate(window="17 s every 7 s", values=VALUES),
        f"SELECT {WINDOWED}, {VALUES_SQL} {IN_WINDOW} GROUP BY s, e ORDER BY e",
        (17, 7), stateful=True,
    ),
    "aggregate of sessions": Case(
        lambda: P().aggregate(by=["link", "source"], window="1500 ms gap", values=VALUES),
        f"SELECT {WINDOWED}, link, source, {VALUES_SQL} FROM {sessions_by('link', 'source')} "
        "GROUP BY s, e, link, source ORDER BY e, s, link NULLS LAST, source",
        stateful=True,
    ),
    "aggregate of sessions of all": Case(
        lambda: P().filter("bytes > 0").aggregate(window="1500 ms gap", values=VALUES),
        f"SELECT {WINDOWED}, {VALUES_SQL} FROM {SESSION} GROUP BY s, e ORDER BY e",
        stateful=True,
    ),
    "aggregate of rows": Case(
        lambda: P().aggregate(by=["link"], window="30 rows", values=VALUES),
        f"SELECT e - INTERVAL 1 MICROSECOND, s, e, link, {VALUES_SQL} FROM {BOUNDED.format(n=30)} "
        "GROUP BY g, s, e, link ORDER BY g, link NULLS LAST",
        stateful=True,
    ),
    "aggregate with having": Case(
        lambda: P().aggregate(
            by=["link"], window="20 s every 5 s", n="count(*)", total="sum(bytes)", having="n > 10 AND total / n > 400"
        ),
        f"SELECT {WINDOWED}, link, count(*) AS n, sum(bytes)::BIGINT AS total {IN_WINDOW} GROUP BY s, e, link "
        "HAVING count(*) > 10 AND sum(bytes) / count(*) > 400 ORDER BY e, link NULLS LAST",
        (20, 5), stateful=True,
    ),
    "aggregate of spread": Case(
        lambda: P().aggregate(by=["link"], window="20 s every 5 s", values=SPREAD),
        f"SELECT {WINDOWED}, link, {SPREAD_SQL} {IN_WINDOW} GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (20, 5), stateful=True, digits=14,
    ),
    "aggregate of spread of sessions": Case(
        lambda: P().aggregate(by=["source"], window="1500 ms gap", values=SPREAD),
        f"SELECT {WINDOWED}, source, {SPREAD_SQL} FROM {sessions_by('source')} GROUP BY s, e, source "
        "ORDER BY e, s, source",
        stateful=True, digits=14,
    ),
    "aggregate of spread of rows": Case(
        lambda: P().aggregate(by=["link"], window="30 rows", values=SPREAD),
        f"SELECT {WINDOWED}, link, {SPREAD_SQL} FROM {BOUNDED.format(n=30)} GROUP BY g, s, e, link "
        "ORDER BY g, link NULLS LAST",
        stateful=True, digits=14,
    ),
    "aggregate of deviations": Case(
        lambda: P().aggregate(by=["link"], window="20 s every 5 s", values=DEVIATIONS),
        f"SELECT {WINDOWED}, link, {DEVIATIONS_SQL} {IN_WINDOW} GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (20, 5), stateful=True, digits=12,
    ),
    "aggregate of deviations of sessions": Case(
        lambda: P().aggregate(by=["source"], window="1500 ms gap", values=DEVIATIONS),
        f"SELECT {WINDOWED}, source, {DEVIATIONS_SQL} FROM {sessions_by('source')} GROUP BY s, e, source "
        "ORDER BY e, s, source",
        stateful=True, digits=12,
    ),
    "aggregate of deviations of rows": Case(
        lambda: P().aggregate(window="30 rows", values=DEVIATIONS),
        f"SELECT {WINDOWED}, {DEVIATIONS_SQL} FROM {BOUNDED.format(n=30)} GROUP BY g, s, e ORDER BY g",
        stateful=True, digits=12,
    ),
    "aggregate of windows": Case(
        lambda: sums().aggregate(window="30 s", total="sum(total)", pairs="count(*)", ends="max(window_end)",
                                 starts="count(distinct window_start)"),
        f"SELECT {WINDOWED}, sum(total)::BIGINT, count(*), max(window_end), count(DISTINCT window_start) {IN_WINDOW} "
        "GROUP BY s, e ORDER BY e",
        (30, 30), stateful=True,
    ),
    "aggregate of rows of windows": Case(
        lambda: sums().aggregate(window="7 rows", ends="max(window_end)", last="max(time)"),
        "SELECT e - INTERVAL 1 MICROSECOND, s, e, max(window_end), max(time) "
        f"FROM {BOUNDED.format(n=7)} GROUP BY g, s, e ORDER BY g",
        stateful=True,
    ),
    "aggregate of large integers": Case(
        lambda: P().aggregate(by=["link"], window="20 s every 5 s", values=LARGE),
        f"SELECT {WINDOWED}, link, {LARGE_SQL} {IN_WINDOW} GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (20, 5), stateful=True,
    ),
    "aggregate of large integers of sessions": Case(
        lambda: P().aggregate(by=["source"], window="1500 ms gap", values=LARGE),
        f"SELECT {WINDOWED}, source, {LARGE_SQL} FROM {sessions_by('source')} GROUP BY s, e, source "
        "ORDER BY e, s, source",
        stateful=True,
    ),
    "aggregate of large integers of rows": Case(
        lambda: P().aggregate(window="30 rows", values=LARGE),
        f"SELECT {WINDOWED}, {LARGE_SQL} FROM {BOUNDED.format(n=30)} GROUP BY g, s, e ORDER BY g",
        stateful=True,
    ),
    "aggregate that decays": Case(
        lambda: sums().aggregate(by=["link"], window="30 s every 10 s", values=DECAYED, half_life="10 s"),
        f"SELECT {WINDOWED}, link, {DECAYED_SQL} {IN_WINDOW} GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (30, 10), stateful=True,
    ),
    "aggregate of sessions that decays": Case(
        lambda: sums().aggregate(by=["link", "source"], window="10000001 us gap", values=DECAYED, half_life="10 s"),
        f"SELECT {WINDOWED}, link, source, {DECAYED_SQL} FROM "
        + sessions_by("link", "source").replace("1500 MILLI", "10000001 MICRO").replace("1500000", "10000001")
        + " GROUP BY s, e, link, source ORDER BY e, s, link NULLS LAST, source",
        stateful=True,
    ),
    "aggregate of rows that decays": Case(
        lambda: sums().aggregate(by=["link"], window="30 rows", values=DECAYED, half_life="10 s"),
        f"SELECT e - INTERVAL 1 MICROSECOND, s, e, link, {DECAYED_SQL} FROM {BOUNDED.format(n=30)} "
        "GROUP BY g, s, e, link ORDER BY g, link NULLS LAST",
        stateful=True,
    ),
    "sort": Case(
        lambda: P().sort("bytes desc", "port", window="20 s"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok {IN_WINDOW} ORDER BY e, bytes DESC NULLS LAST, "
        "port NULLS LAST, link NULLS LAST, source, weight NULLS LAST, ok NULLS LAST",
        (20, 20), stateful=True,
    ),
    "sort of sessions": Case(
        lambda: P().filter("bytes > 0").sort("weight desc", "link", window="1500 ms gap"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {SESSION} ORDER BY e, weight DESC NULLS LAST, "
        "link NULLS LAST, source, port NULLS LAST, bytes, ok NULLS LAST",
        stateful=True,
    ),
    "sort of rows": Case(
        lambda: P().sort("source", window="25 rows"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {BOUNDED.format(n=25)} ORDER BY g, source, "
        "link NULLS LAST, port NULLS LAST, bytes NULLS LAST, weight NULLS LAST, ok NULLS LAST",
        stateful=True,
    ),
    "sort of windows": Case(
        lambda: sums().sort("total desc"),
        "SELECT * EXCLUDE pos FROM in0 ORDER BY window_end, total DESC NULLS LAST, link NULLS LAST, source",
        stateful=True,
    ),
    "count": Case(
        lambda: P().count(window="10 s every 2 s"),
        f"SELECT {WINDOWED}, count(*) {IN_WINDOW} GROUP BY s, e ORDER BY e",
        (10, 2), stateful=True,
    ),
    "count of sessions": Case(
        lambda: P().filter("bytes > 0").count(window="1500 ms gap"),
        f"SELECT {WINDOWED}, count(*) FROM {SESSION} GROUP BY s, e ORDER BY e",
        stateful=True,
    ),
    "count of windows": Case(
        lambda: sums().count("pairs"),
        "SELECT time, window_start, window_end, count(*) FROM in0 GROUP BY ALL ORDER BY window_end",
        stateful=True,
    ),
    "compare": Case(
        lambda: ties().compare("bytes", 0.6),
        "SELECT * EXCLUDE pos FROM in0 AS r WHERE (SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end "
        "AND o.bytes < r.bytes) > 0.6::DOUBLE * (SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end) "
        "ORDER BY window_end, pos",
        stateful=True,
    ),
    "compare by groups": Case(
        lambda: ties().compare("weight", 0.3, by=["link", "ok"]),
        "SELECT * EXCLUDE (pos, k, n) FROM (SELECT *, "
        "(SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end AND o.link IS NOT DISTINCT FROM r.link AND "
        "o.ok IS NOT DISTINCT FROM r.ok AND o.weight < r.weight) AS k, "
        "count(*) OVER (PARTITION BY window_end, link, ok) AS n FROM in0 AS r) WHERE k > 0.3::DOUBLE * n "
        "ORDER BY window_end, pos",
        stateful=True,
    ),
    "compare with count": Case(
        counted,
        "SELECT * EXCLUDE pos FROM in0 AS r WHERE (SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end AND "
        "o.total < r.total) > 0.75::DOUBLE * (SELECT m FROM in1 WHERE in1.window_end = r.window_end) "
        "ORDER BY window_end, pos",
        stateful=True,
    ),
    "join": Case(
        lambda: P().join(R(), on=["source"], within="3 s"),
        "SELECT greatest(a.time, b.time), a.source, a.link, a.port, a.bytes, a.weight, a.ok, b.Bytes, b.status "
        "FROM in0 AS a JOIN in1 AS b ON a.source = b.source AND abs(epoch_us(a.time) - epoch_us(b.time)) <= 3000000",
        ordered=False, stateful=True,
    ),
    "join by dates and decimals": Case(
        lambda: (rows := sales()).filter("price < 9").join(
            rows.project("day", "price", other="lasts"), on=["day", "price"],
            within="5 s"
        ),
        "SELECT greatest(a.time, b.time), a.day, a.price, a.source, a.lasts, b.other FROM in0 a JOIN in1 b ON "
        "a.day = b.day AND a.price = b.price AND abs(epoch_us(a.time) - epoch_us(b.time)) <= 5000000",
        ordered=False, stateful=True,
    ),
    "join of windows": Case(
        joined,
        "SELECT a.time, window_start, window_end, source, a.link, a.total, most, b.n, b.total FROM in0 AS a "
        "JOIN in1 AS b USING (source, window_start, window_end)",
        ordered=False, stateful=True,
    ),
    "join with those left alone": Case(
        lambda: P().join(R(), on=["source"], within="1 s", how="left"),
        "SELECT greatest(a.time, b.time), a.source, a.link, a.port, a.bytes, a.weight, a.ok, b.Bytes, b.status "
        f"FROM in0 AS a JOIN in1 AS b ON {NEAR} UNION ALL SELECT a.time + INTERVAL 1 SECOND, a.source, a.link, a.port, "
        f"a.bytes, a.weight, a.ok, NULL, NULL FROM in0 AS a WHERE NOT EXISTS (FROM in1 AS b WHERE {NEAR})",
        ordered=False, stateful=True,
    ),
    "join of those left alone": Case(
        lambda: P().join(R(), on=["source"], within="1 s", how="anti"),
        "SELECT a.time + INTERVAL 1 SECOND, a.source, a.link, a.port, a.bytes, a.weight, a.ok FROM in0 AS a "
        f"WHERE NOT EXISTS (FROM in1 AS b WHERE {NEAR})",
        ordered=False, stateful=True,
    ),
    "join of windows with those left alone": Case(
        lambda: joined(how="left"),
        "SELECT a.time, window_start, window_end, source, a.link, a.total, most, b.n, b.total FROM in0 AS a "
        "LEFT JOIN in1 AS b USING (source, window_start, window_end)",
        ordered=False, stateful=True,
    ),
    "join of windows left alone": Case(
        lambda: joined(how="anti"),
        "SELECT a.time, window_start, window_end, source, a.link, a.total, most FROM in0 AS a "
        "ANTI JOIN in1 AS b USING (source, window_start, window_end)",
        ordered=False, stateful=True,
    ),
    "distinct": Case(
        lambda: P().distinct("link", "port", window="15 s every 5 s"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok {IN_WINDOW} "
        "QUALIFY row_number() OVER (PARTITION BY e, link, port ORDER BY pos) = 1 ORDER BY e, pos",
        (15, 5), stateful=True,
    ),
    "distinct of sessions": Case(
        lambda: P().filter("bytes > 0").distinct("link", "port", window="1500 ms gap"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {SESSION} "
        "QUALIFY row_number() OVER (PARTITION BY e, link, port ORDER BY pos) = 1 ORDER BY e, pos",
        stateful=True,
    ),
    "distinct of rows": Case(
        lambda: P().distinct("ok", window="40 rows"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {BOUNDED.format(n=40)} "
        "QUALIFY row_number() OVER (PARTITION BY g, ok ORDER BY pos) = 1 ORDER BY g, pos",
        stateful=True,
    ),
    "distinct of windows": Case(
        lambda: ties().project("link", "port").distinct(),
        "SELECT * EXCLUDE pos FROM in0 "
        "QUALIFY row_number() OVER (PARTITION BY window_end, link, port ORDER BY pos) = 1 ORDER BY window_end, pos",
        stateful=True,
    ),
    "top of sessions": Case(
        lambda: P().filter("bytes > 0").top(2, "bytes desc", "link", per=["link", "ok"], window="1500 ms gap"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {SESSION} QUALIFY row_number() OVER "
        "(PARTITION BY e, link, ok ORDER BY bytes DESC, source, port NULLS LAST, weight NULLS LAST) <= 2 "
        "ORDER BY e, bytes DESC, link NULLS LAST, source, port NULLS LAST, weight NULLS LAST, ok NULLS LAST",
        stateful=True,
    ),
    "top of rows": Case(
        lambda: P().top(3, "source", window="25 rows"),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok FROM {BOUNDED.format(n=25)} QUALIFY row_number() "
        "OVER (PARTITION BY g ORDER BY source, link NULLS LAST, port NULLS LAST, bytes NULLS LAST, weight NULLS LAST, "
        "ok NULLS LAST) <= 3 "
        "ORDER BY g, source, link NULLS LAST, port NULLS LAST, bytes NULLS LAST, weight NULLS LAST, "
        "ok NULLS LAST",
        stateful=True,
    ),
    "top of windows": Case(
        lambda: sums().top(2, "total desc", "source desc"),
        "SELECT * EXCLUDE pos FROM in0 QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY total DESC "
        "NULLS LAST, source DESC, link NULLS LAST) <= 2 "
        "ORDER BY window_end, total DESC NULLS LAST, source DESC, link NULLS LAST",
        stateful=True,
    ),
    "compare, exactly": Case(
        lambda: P().project(v=APART).sort("v", window="100 rows").compare("v", "29 %"),
        "SELECT * EXCLUDE pos FROM in0 AS r WHERE 100 * (SELECT count(*) FROM in0 AS o WHERE o.v < r.v AND "
        "o.window_end = r.window_end) > 29 * (SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end) "
        "ORDER BY window_end, pos",
        stateful=True,
    ),
    "compare columns with odd names": Case(
        lambda: (rows := odd()).compare("@n", "50 %", count=rows.count("@number")),
        'SELECT * EXCLUDE pos FROM in0 AS r WHERE (SELECT count(*) FROM in0 AS o WHERE o.window_end = r.window_end AND '
        'o."@n" < r."@n") > 0.5::DOUBLE * (SELECT "@number" FROM in1 WHERE in1.window_end = r.window_end) '
        "ORDER BY window_end, pos",
        stateful=True,
    ),
    "percentile of rows, exactly": Case(
        lambda: P().filter("bytes >= 0").project(v=APART).percentile("v", "7 %", window="100 rows"),
        f"SELECT {WINDOWED}, list_sort(list(v))[7] FROM {BOUNDED.format(n=100)} GROUP BY g, s, e ORDER BY g",
        stateful=True,
    ),
    "percentile of sessions": Case(
        lambda: P().filter("bytes > 0").percentile("weight", 0.5, by=["link", "ok"], window="1500 ms gap", name="half"),
        f"SELECT {WINDOWED}, link, ok, quantile_disc(weight, 0.5) FROM {SESSION} GROUP BY s, e, link, ok "
        "ORDER BY e, link NULLS LAST, ok NULLS LAST",
        stateful=True,
    ),
    "percentile of rows": Case(
        lambda: P().percentile("source", 0.25, window="40 rows"),
        f"SELECT {WINDOWED}, quantile_disc(source, 0.25) FROM {BOUNDED.format(n=40)} GROUP BY g, s, e ORDER BY g",
        stateful=True,
    ),
    "asof": Case(
        lambda: P().asof(R(), on="source", within="2 s"),
        f"SELECT * EXCLUDE near {LATEST} WHERE near",
        ordered=False, stateful=True,
    ),
    "asof of all": Case(
        lambda: P().asof(R(), on="source", within="700 ms", how="left"),
        'SELECT * EXCLUDE (near, "Bytes_right", status), CASE WHEN near THEN "Bytes_right" END, '
        f"CASE WHEN near THEN status END {LATEST.replace('2000000', '700000')}",
        ordered=False, stateful=True,
    ),
    "asof of windows": Case(
        lambda: sums().asof(R(), on="source", within="2 s"),
        f"SELECT * EXCLUDE near {LATEST.replace('Bytes_right', 'Bytes')} WHERE near",
        ordered=False, stateful=True,
    ),
    "lookup": Case(
        lambda: P().lookup(HOSTS, on="source"),
        "SELECT in0.* EXCLUDE pos, site, rank FROM in0 JOIN hosts USING (source) ORDER BY pos",
    ),
    "lookup of all": Case(
        lambda: P().lookup(HOSTS, on={"source": "source"}, how="left", prefix="its_"),
        "SELECT in0.* EXCLUDE pos, site, rank FROM in0 LEFT JOIN hosts USING (source) ORDER BY pos",
    ),
    "lookup by two columns": Case(
        lambda: P().lookup(PORTS, on={"link": "link", "port": "number"}, how="left"),
        "SELECT in0.* EXCLUDE pos, name FROM in0 LEFT JOIN ports p ON in0.link = p.link AND port = number "
        "ORDER BY pos",
    ),
    "lookup of windows": Case(
        lambda: sums().lookup(HOSTS, on="source"),
        "SELECT in0.* EXCLUDE pos, site, rank FROM in0 JOIN hosts USING (source) ORDER BY pos",
    ),
    "lookup of versions": Case(
        lambda: P().lookup(VERSIONS, on={"port": "number"}, how="left", valid_from="since"),
        "SELECT in0.* EXCLUDE pos, since, name FROM in0 ASOF LEFT JOIN versions ON port = number AND time >= since "
        "ORDER BY pos",
    ),
    "lookup of versions that are": Case(
        lambda: P().lookup(VERSIONS, on={"port": "number"}, valid_from="since"),
        "SELECT in0.* EXCLUDE pos, since, name FROM in0 ASOF JOIN versions ON port = number AND time >= since "
        "ORDER BY pos",
    ),
    "lookup of nothing": Case(
        lambda: P().lookup(HOSTS.clear(), on="source", how="left"),
        "SELECT * EXCLUDE pos, NULL, NULL FROM in0 ORDER BY pos",
    ),
    "percentile of windows": Case(
        lambda: sums().percentile("total", 1.0, by="source"),
        "SELECT time, window_start, window_end, source, max(total) FROM in0 GROUP BY ALL ORDER BY window_end, source",
        stateful=True,
    ),
    "apply": Case(
        lambda: P().apply(_doubled),
        "SELECT time, bytes * 2, bytes IS NULL FROM in0 WHERE bytes > 0 OR bytes IS NULL ORDER BY pos",
    ),
    "apply, row by row": Case(
        lambda: P().apply(_doubled_row, keep=True, errors="keep"),
        "SELECT * EXCLUDE pos, bytes * 2, bytes IS NULL, NULL FROM in0 WHERE bytes > 0 OR bytes IS NULL ORDER BY pos",
    ),
    "apply_windows": Case(
        lambda: P().apply_windows(_spread, window="10 s every 5 s", by=["link", "ok"]),
        "SELECT e - INTERVAL 1 MICROSECOND, s, e, link, ok, max(bytes) - min(bytes), count(*) FROM in0 JOIN w ON "
        "time >= s AND time < e GROUP BY s, e, link, ok ORDER BY e, link NULLS LAST, ok NULLS LAST",
        windows=(10, 5),
        stateful=True,
    ),
    "apply_windows of sessions": Case(
        lambda: P().filter("bytes > 0").apply_windows(_spread, window="1500 ms gap", by="link"),
        f"SELECT {WINDOWED}, link, max(bytes) - min(bytes), count(*) FROM {SESSION} GROUP BY s, e, link "
        "ORDER BY e, link NULLS LAST",
        stateful=True,
    ),
    "apply_windows of rows": Case(
        lambda: P().filter("bytes >= 0").apply_windows(_spread, window="100 rows"),
        f"SELECT {WINDOWED}, max(bytes) - min(bytes), count(*) FROM {BOUNDED.format(n=100)} GROUP BY g, s, e "
        "ORDER BY g",
        stateful=True,
    ),
    "apply_keyed": Case(
        lambda: P().apply_keyed(Totals, key=["link", "ok"]),
        "SELECT time, link, ok, coalesce(sum(bytes) OVER (PARTITION BY link, ok ORDER BY pos), 0)::BIGINT FROM in0 "
        "ORDER BY pos",
        stateful=True,
        lasting=True,
    ),
    "apply_keyed with timers": Case(
        lambda: P().apply_keyed(_Quiet, key="link"),
        "SELECT time + INTERVAL 1 SECOND, link, count(*) OVER (PARTITION BY link ORDER BY time, pos) FROM in0 QUALIFY "
        "lead(time) OVER (PARTITION BY link ORDER BY time, pos) IS NULL OR lead(time) OVER (PARTITION BY link ORDER BY "
        "time, pos) >= time + INTERVAL 1 SECOND",
        ordered=False,
        stateful=True,
        lasting=True,
    ),
    "apply_keyed with timers that set others": Case(
        lambda: P().apply_keyed(_Ticks, key="link"),
        "SELECT first + n * INTERVAL 1 SECOND, link, n FROM (SELECT link, min(time) AS first FROM in0 GROUP BY link), "
        "range(1, 1000) AS r(n) WHERE n = 1 OR first + (n - 1) * INTERVAL 1 SECOND <= (SELECT max(time) FROM in0)",
        ordered=False,
        stateful=True,
        lasting=True,
    ),
    "over dates and decimals": Case(
        lambda: sales().over("price", "20 s", values={
            "total": "sum(price)", "mean": "avg(price)", "low": "min(price)", "high": "max(lasts)",
            "before": "lag(day)", "more": "price - lag(price)", "wait": "lasts - lag(lasts)",
        }),
        "SELECT e - INTERVAL 1 MICROSECOND, s, e, source, day, lasts, price, sum(price) OVER u, avg(price) OVER u, "
        "min(price) OVER u, max(lasts) OVER u, lag(day) OVER k, price - lag(price) OVER k, lasts - lag(lasts) OVER k "
        f"{IN_WINDOW} WINDOW k AS (PARTITION BY e, price ORDER BY time, pos), u AS (k ROWS UNBOUNDED PRECEDING)",
        (20, 20), ordered=False, stateful=True, digits=12,
    ),
    "over sessions": Case(
        lambda: P().filter("bytes > 0").over(["link", "ok"], "1500 ms gap", values=RUNNING),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok, {RUNNING_SQL} FROM {SESSION} AS r WINDOW k AS "
        "(PARTITION BY e, link, ok ORDER BY r.time, pos), u AS (k ROWS UNBOUNDED PRECEDING), "
        "t AS (PARTITION BY e, link, ok ORDER BY r.time) ORDER BY e, r.time, pos",
        stateful=True,
    ),
    "over a number of rows": Case(
        lambda: P().over("link", "40 rows", values=RUNNING),
        f"SELECT {WINDOWED}, link, source, port, bytes, weight, ok, {RUNNING_SQL} FROM {BOUNDED.format(n=40)} AS r "
        "WINDOW k AS (PARTITION BY g, link ORDER BY r.time, pos), u AS (k ROWS UNBOUNDED PRECEDING), "
        "t AS (PARTITION BY g, link ORDER BY r.time) "
        "ORDER BY g, r.time, pos",
        stateful=True,
    ),
    "over windows": Case(
        lambda: sums().over(order=["total desc", "link"], place="rank()", each="dense_rank()", n="row_number()",
                            part="sum(total) * 100.0 / count(*)", best="max(total) - total"),
        "SELECT * EXCLUDE pos, rank() OVER k, dense_rank() OVER k, row_number() OVER u, "
        "sum(total) OVER u * 100.0::DOUBLE / count(*) OVER u, (max(total) OVER u) - total FROM in0 WINDOW k AS "
        "(PARTITION BY window_end ORDER BY total DESC NULLS LAST, link NULLS LAST), u AS (PARTITION BY window_end "
        "ORDER BY total DESC NULLS LAST, link NULLS LAST, pos ROWS UNBOUNDED PRECEDING) "
        "ORDER BY window_end, total DESC NULLS LAST, link NULLS LAST, pos",
        stateful=True,
    ),
    "unnest": Case(
        lambda: O().unnest("items"),
        "SELECT time, source, items[i], place, tags FROM in0, LATERAL (SELECT unnest(range(1, len(items) + 1)) AS i) "
        "ORDER BY pos, i",
    ),
    "unnest structs": Case(
        lambda: O().unnest("place"),
        "SELECT time, source, items, place.city, place.zip, tags FROM in0 ORDER BY pos",
    ),
    "project of parts": Case(
        lambda: O().project(
            {"one": "items[1].name", "n": "len(tags)", "last": "tags[-1]", "twice": "items[2].price * 2",
             "all": "items", "found": "list_contains(tags, 'b')",
             "city": "upper(place.city)", "at": "if(place.zip > 4, place, NULL)"}
        ),
        "SELECT time, items[1].name, len(tags), tags[-1], items[2].price * 2, items, list_contains(tags, 'b'), "
        "upper(place.city), CASE WHEN place.zip > 4 THEN place END FROM in0 ORDER BY pos",
    ),
    "aggregate of lists": Case(
        lambda: O().aggregate("source", "10 s", one="first(items)", home="last(place)", n="count(tags)",
                              total="sum(items[1].price)"),
        f"SELECT {WINDOWED}, source, first(items ORDER BY time, pos), last(place ORDER BY time, pos), count(tags), "
        f"sum(items[1].price) {IN_WINDOW} GROUP BY s, e, source ORDER BY e, source NULLS LAST",
        (10, 10), stateful=True,
    ),
    "join of lists": Case(
        lambda: O().join(R().project("source", "status"), on="source", within="1 s"),
        "SELECT greatest(a.time, b.time), a.source, a.items, a.place, a.tags, b.status FROM in0 a JOIN in1 b ON "
        "a.source = b.source AND abs(epoch_us(a.time) - epoch_us(b.time)) <= 1000000",
        ordered=False, stateful=True,
    ),
    "sample": Case(
        lambda: P().sample("30 %", seed=5),
        "SELECT * EXCLUDE pos FROM in0 WHERE pos IN (SELECT pos FROM drawn) ORDER BY pos",
    ),
    "sample of all": Case(lambda: P().sample(1.0), "SELECT * EXCLUDE pos FROM in0 ORDER BY pos"),
    "encrypt": Case(
        lambda: P().project("source", "port", "ok", "weight", when="time")
        .encrypt("source", "port", "when", key="alpha"),
        "SELECT time, '?', '?', ok, weight, '?' FROM in0 ORDER BY pos",
    ),
    "decrypt": Case(
        lambda: P().project("source", "port", "weight", "ok", when="time")
        .encrypt("source", "port", "weight", "ok", "when", key="alpha")
        .decrypt({"source": "str", "port": "int", "weight": "float", "ok": "bool", "when": "time"}, key="alpha"),
        "SELECT time, source, port, weight, ok, time FROM origin WHERE pos IN (SELECT pos FROM in0) ORDER BY pos",
    ),
    "delay": Case(lambda: P().delay("1 ms"), "SELECT * EXCLUDE pos FROM in0 ORDER BY pos"),
    "sink": Case(P, "SELECT * EXCLUDE pos FROM in0 ORDER BY pos"),
}  # fmt: skip


def _of_declarations() -> Iterator[tuple[str, Case]]:
    """The examples of declarations that say what they mean."""
    for kind, declaration in KINDS.items():
        example = declaration.example
        if example is not None and example.sql:
            others = R().project("source", link="'B'", bytes="Bytes", id="others")
            build = partial(example.make, P(), others)
            stateful = declaration.state != ""
            yield f"{kind} as declared", Case(build, example.sql, example.windows, example.ordered, stateful)


CASES |= dict(_of_declarations())
EXACT = {
    f"{name}, exactly": CASES[name]._replace(exact=True)
    for name in (
        "aggregate sliding by no divisor", "aggregate of sessions", "aggregate that decays",
        "aggregate of sessions that decays", "aggregate of rows that decays", "aggregate of deviations",
    )
}  # fmt: skip


class Built(NamedTuple):
    """A case with its plan, the operator that it is about, and the rows of that operator's inputs."""

    case: Case
    plan: Plan
    operator: str
    tables: list[pl.DataFrame]

    @property
    def schema(self) -> dict[str, str]:
        return self.plan.schema(self.operator)

    def fresh(self) -> OperatorLogic:
        """A new instance of the operator."""
        return fresh(self.plan, self.operator, exact=self.case.exact)


@cache
def built(name: str) -> Built:
    case = CASES.get(name) or EXACT[name]
    plan = case.build().sink(name="result")
    (sink,) = plan.sinks
    operator = sink if name == "sink" else plan.upstream(sink)[0]
    sources = {"packets": packets(), "replies": replies(), "orders": orders()}
    tables = [through(plan, upstream, sources) for upstream in plan.upstream(operator)]
    return Built(case, plan, operator, tables)


@cache
def database() -> duckdb.DuckDBPyConnection:
    """A database that knows what is the same for all cases: the rows of the first source, and which a sample takes."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register(
        "origin", packets().with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("pos")).to_arrow()
    )
    for name, table in {"hosts": HOSTS, "versions": VERSIONS, "ports": PORTS}.items():
        connection.register(name, table.to_arrow())
    connection.register(
        "drawn", pl.DataFrame({"pos": [i for i in range(1000) if split_mix(i ^ split_mix(5)) < 0.3 * 2**64]}).to_arrow()
    )
    return connection


def by_duckdb(it: Built, tables: list[pl.DataFrame]) -> list[tuple[Any, ...]]:
    """The rows that the SQL of a case gives for the rows of its inputs."""
    given = {f"in{port}": table for port, table in enumerate(tables)}
    if it.case.windows is not None:
        length, slide = (seconds * SECOND for seconds in it.case.windows)
        starts = range(-200 * slide, 200 * slide, slide)
        windows = pl.DataFrame({"s": starts, "e": [start + length for start in starts]})
        given["w"] = windows.cast(TYPES["time"])
    connection = database()
    for name, table in given.items():
        connection.register(name, table.to_arrow())
    try:
        return connection.execute(it.case.sql).fetchall()
    finally:
        for name in given:
            connection.unregister(name)


def split_mix(number: int) -> int:
    """SplitMix64's output function, as it is printed."""
    z = (number + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def results(it: Built, items: Any) -> list[tuple[Any, ...]]:
    """Rows as they left, in a fixed order where the order is not part of the contract; ciphertext as ``?``."""
    rows = rows_of(items, it.schema)
    if it.operator == "encrypt":
        rows = [tuple("?" if isinstance(value, bytes) else value for value in row) for row in rows]
    return comparable(it, rows)


def comparable(it: Built, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in a fixed order where theirs means nothing, and floats with the digits that are compared."""
    digits = it.case.digits
    if digits is not None:
        rows = [tuple(float(f"{each:.{digits}e}") if isinstance(each, float) else each for each in row) for row in rows]
    return rows if it.case.ordered else sorted(rows, key=repr)


def expected(it: Built, tables: list[pl.DataFrame]) -> list[tuple[Any, ...]]:
    return comparable(it, by_duckdb(it, tables))


@cache
def wanted(name: str) -> list[tuple[Any, ...]]:
    """The rows that DuckDB gives for all rows of the inputs of a case."""
    it = built(name)
    rows = expected(it, [numbered(table) for table in it.tables])
    assert rows, "the case gives rows, or it would show nothing"
    return rows


def numbered(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.int_range(table.height, dtype=pl.Int64).alias("pos"))


def top_pairs(requests: pl.DataFrame) -> tuple[Plan, list[tuple[Any, ...]]]:
    """The busiest pairs of host and directory among real requests: the plan, and the rows that DuckDB gives for it."""
    served = source("trace", path="sdsc-http.txt.gz", format="http").filter("operation LIKE 'Sent%'")
    pairs = served.aggregate(by=["host", "directory"], window="2 h every 30 min", n="count(*)")
    plan = pairs.sort("n desc").compare("n", "95 %", count=pairs.count("pairs")).sink(name="top")
    first: Any = requests["time"].min()
    connection = duckdb.connect(config={"threads": 1})
    connection.register("http", requests.to_arrow())
    rows = connection.execute(
        "WITH w AS (SELECT s, s + INTERVAL 2 HOUR AS e FROM range(?::TIMESTAMP - INTERVAL 3 HOUR, "
        "(SELECT max(time) FROM http) + INTERVAL 1 HOUR, INTERVAL 30 MINUTE) AS r(s)), "
        "pairs AS (SELECT e - INTERVAL 1 MICROSECOND AS time, s, e, directory, host, count(*) AS n "
        "FROM http JOIN w ON time >= s AND time < e WHERE operation LIKE 'Sent%' GROUP BY s, e, host, directory) "
        "SELECT * FROM pairs AS p WHERE (SELECT count(*) FROM pairs AS o WHERE o.e = p.e AND o.n < p.n) > "
        "0.95::DOUBLE * (SELECT count(*) FROM pairs AS o WHERE o.e = p.e) "
        "ORDER BY e, n DESC, directory NULLS LAST, host",
        [first.replace(minute=0, second=0, microsecond=0)],
    ).fetchall()
    return plan, rows


def http_requests(real_data: Path) -> pl.DataFrame:
    """The first requests of the San Diego Supercomputer Center's web server; skips where there are none."""
    path = real_data / "sdsc-http.txt.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} among the real data")
    items = read({"connector": "trace", "path": str(path), "format": "http"})
    return next(item.table for item in items if isinstance(item, Batch)).head(12_000)
