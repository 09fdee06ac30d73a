"""Queries over packets in SQL, with what they mean in DuckDB.

Where DuckDB reads the text itself, with TUMBLE as a macro, the twin is the text; elsewhere it states the windows by a
table of all of them, ``w``.
"""

# ruff: noqa: E501 - a query and its twin are easier to compare on one line

from __future__ import annotations

from typing import NamedTuple

import duckdb
import polars as pl

from synergy_nb import sql
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.traces import table
from tests.feeding import through

MACRO = "CREATE MACRO tumble(t, width) AS time_bucket(width, t, TIMESTAMP '1970-01-01')"
PACKETS = "packets(seed = 7, rate = '60 tuples/s', duration = '40 s', hosts = 12, speed = 0, flags = TRUE)"
_W = "WITH w AS (SELECT s, s + INTERVAL {length} SECOND AS e FROM range(TIMESTAMP '1969-12-31 23:59:00', TIMESTAMP '1970-01-01 00:01:00', INTERVAL {slide} SECOND) AS r(s)) "


class Twins(NamedTuple):
    """A query, and the same in DuckDB; empty: the same text."""

    text: str
    twin: str = ""


def _w(length: int, slide: int, rest: str) -> str:
    return _W.format(length=length, slide=slide) + rest


def packets() -> pl.DataFrame:
    """The packets of all queries."""
    plan = sql(f"SELECT * FROM {PACKETS}").sink()
    return table(plan.operators["source"].params)


def rows(plan: Plan, frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """The rows of a plan, whose sources are all these packets, without the columns that every stream has, sorted."""
    (sink,) = plan.sinks
    found = through(plan, sink, dict.fromkeys(plan.sources, frame))
    return comparable(found.drop([name for name in IMPLICIT if name in found.columns]).rows())


def comparable(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows in one order, with nine digits of each float."""
    rounded = [tuple(float(f"{each:.9g}") if isinstance(each, float) else each for each in row) for row in found]
    return sorted(
        rounded, key=lambda row: [(each is None, str(type(each)), each if each is not None else 0) for each in row]
    )


def by_duckdb(text: str, frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """The rows of a text in DuckDB."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("packets", frame.to_arrow())
    connection.execute(MACRO)
    return comparable(connection.execute(text).fetchall())


def plan_of(text: str) -> Plan:
    """The plan of a query over the packets of all queries."""
    return sql(text, sources={"packets": sql(f"SELECT * FROM {PACKETS}")}).sink()


QUERIES = {
    "columns": Twins("SELECT link, bytes * 8 AS bits, source || '>' || destination AS pair FROM packets WHERE bytes > 100"),
    "all columns": Twins("SELECT *, bytes / 1000 AS kB FROM packets AS p WHERE p.link = 'B'", "SELECT * EXCLUDE (time), bytes / 1000 AS kB FROM packets AS p WHERE p.link = 'B'"),
    "exclude": Twins("SELECT p.* EXCLUDE (flags, source_port) FROM packets p", "SELECT * EXCLUDE (flags, source_port, time) FROM packets"),
    "replace": Twins("SELECT * REPLACE (bytes + 1 AS bytes) FROM packets", "SELECT * EXCLUDE (time) REPLACE (bytes + 1 AS bytes) FROM packets"),
    "times": Twins("SELECT time AS at, second(time) AS s FROM packets"),
    "precedence": Twins("SELECT link FROM packets WHERE NOT bytes = 40 IS NULL AND bytes % 2 = 1 OR link = 'A'"),
    "case": Twins("SELECT CASE WHEN bytes > 1000 THEN 'big' WHEN bytes > 100 THEN 'some' ELSE NULL END AS size, bytes BETWEEN 40 AND 99 AS small FROM packets"),
    "tumbling": Twins("SELECT link, sum(bytes) AS total, count(*) AS n FROM packets GROUP BY link, TUMBLE(time, INTERVAL '10 seconds')"),
    "bounds": Twins("SELECT link, TUMBLE_START(time, INTERVAL '10' SECOND) AS s, TUMBLE_END(time, INTERVAL 10 SECOND) AS e, max(bytes) AS m FROM packets GROUP BY link, TUMBLE(time, INTERVAL '10' SECOND)",
                    "SELECT link, tumble(time, INTERVAL 10 SECOND) AS s, s + INTERVAL 10 SECOND, max(bytes) FROM packets GROUP BY ALL"),
    "bucket": Twins("SELECT time_bucket(INTERVAL '10 seconds', time) AS t, lower(link) AS l, min(bytes) AS m FROM packets GROUP BY t, lower(link)"),
    "cut times": Twins("SELECT date_trunc('minute', time) AS t, avg(bytes) AS mean FROM packets GROUP BY 1"),
    "group by all": Twins("SELECT source, time_bucket(INTERVAL 20 SECOND, time) AS t, count(DISTINCT destination) AS others FROM packets GROUP BY ALL"),
    "origin": Twins("SELECT count(*) AS n FROM packets GROUP BY time_bucket(INTERVAL '11 seconds', time, TIMESTAMP '1970-01-01')"),
    "having": Twins("SELECT source, sum(bytes) AS total FROM packets GROUP BY source, TUMBLE(time, INTERVAL '10 seconds') HAVING count(*) > 20 AND total > 5000"),
    "expressions of aggregates": Twins("SELECT source, sum(bytes) / count(*) AS mean, 100.0 * count(*) FILTER (WHERE bytes > 500) / count(*) AS share, count(*) FROM packets GROUP BY source, TUMBLE(time, INTERVAL '10 seconds')"),
    "computed key": Twins("SELECT lower(link) AS link, max(length(link)) AS m, bytes > 500 AS big FROM packets GROUP BY lower(link), bytes > 500, TUMBLE(time, INTERVAL '10 seconds')"),
    "no aggregate": Twins("SELECT source, destination FROM packets GROUP BY source, destination, TUMBLE(time, INTERVAL '10 seconds')"),
    "sliding": Twins("SELECT link, sum(bytes) AS total FROM packets GROUP BY link, HOP(time, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
                     _w(10, 5, "SELECT link, sum(bytes) FROM packets JOIN w ON time >= s AND time < e GROUP BY link, s")),
    "table function": Twins("SELECT window_start AS s, window_end AS e, source, sum(bytes) AS total FROM TABLE(HOP(TABLE packets, DESCRIPTOR(time), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) WHERE link = 'A' GROUP BY window_start, window_end, source",
                            _w(10, 5, "SELECT s, e, source, sum(bytes) FROM packets JOIN w ON time >= s AND time < e WHERE link = 'A' GROUP BY s, e, source")),
    "sessions": Twins("SELECT source, SESSION_START(time, INTERVAL '1' SECOND) AS first, count(*) AS n FROM packets GROUP BY source, SESSION(time, INTERVAL '1' SECOND)",
                      "SELECT source, min(time), count(*) FROM (SELECT *, sum((pause IS NULL OR pause >= 1000000)::INT) OVER (PARTITION BY source ORDER BY time ROWS UNBOUNDED PRECEDING) AS run FROM (SELECT *, epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY source ORDER BY time) AS pause FROM packets)) GROUP BY source, run"),
    "session function": Twins("SELECT source, count(*) AS n FROM TABLE(SESSION(TABLE packets PARTITION BY source, DESCRIPTOR(time), INTERVAL '1' SECOND)) GROUP BY source, window_start, window_end",
                              "SELECT source, count(*) FROM (SELECT *, sum((pause IS NULL OR pause >= 1000000)::INT) OVER (PARTITION BY source ORDER BY time ROWS UNBOUNDED PRECEDING) AS run FROM (SELECT *, epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY source ORDER BY time) AS pause FROM packets)) GROUP BY source, run"),
    "distinct": Twins("SELECT DISTINCT source, link FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND))",
                      "SELECT source, link FROM (SELECT DISTINCT source, link, tumble(time, INTERVAL 10 SECOND) FROM packets)"),
    "first rows": Twins("SELECT source, sum(bytes) AS total FROM packets GROUP BY source, TUMBLE(time, INTERVAL '10 seconds') ORDER BY total DESC, source LIMIT 3",
                        "SELECT source, sum(bytes) AS total FROM packets GROUP BY source, tumble(time, INTERVAL 10 SECOND) QUALIFY row_number() OVER (PARTITION BY tumble(time, INTERVAL 10 SECOND) ORDER BY sum(bytes) DESC, source) <= 3"),
    "first rows of groups": Twins("SELECT * EXCLUDE (r) FROM (SELECT link, source, bytes, time AS at, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, link ORDER BY bytes DESC, source, time) AS r FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND)) AS t) WHERE r <= 3 AND bytes > 10",
                                  "SELECT link, source, bytes, time FROM packets QUALIFY row_number() OVER (PARTITION BY link, tumble(time, INTERVAL 10 SECOND) ORDER BY bytes DESC, source, time) <= 3 AND bytes > 10"),
    "numbers of rows": Twins("SELECT source, n, prior FROM (SELECT source, bytes, row_number() OVER (PARTITION BY window_end, link ORDER BY bytes DESC, source, time) AS n, lag(bytes) OVER (PARTITION BY window_end, link ORDER BY bytes DESC, source, time) AS prior FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND))) WHERE n BETWEEN 2 AND 5",
                             "SELECT source, row_number() OVER k AS n, lag(bytes) OVER k FROM packets WINDOW k AS (PARTITION BY link, tumble(time, INTERVAL 10 SECOND) ORDER BY bytes DESC, source, time) QUALIFY n BETWEEN 2 AND 5"),
    "number as a column": Twins("SELECT link, max(n) AS most, sum(n) AS s FROM (SELECT link, source, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, link ORDER BY source, time) AS n FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND))) WHERE n <= 4 GROUP BY link, window_start, window_end",
                                "SELECT link, max(n), sum(n) FROM (SELECT link, tumble(time, INTERVAL 10 SECOND) AS e, row_number() OVER (PARTITION BY link, tumble(time, INTERVAL 10 SECOND) ORDER BY source, time) AS n FROM packets) WHERE n <= 4 GROUP BY link, e"),
    "qualify": Twins("SELECT source, sum(bytes) AS total FROM packets GROUP BY source, TUMBLE(time, INTERVAL '10 seconds') QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY total DESC, source) = 1",
                     "SELECT source, sum(bytes) AS total FROM packets GROUP BY source, tumble(time, INTERVAL 10 SECOND) QUALIFY row_number() OVER (PARTITION BY tumble(time, INTERVAL 10 SECOND) ORDER BY sum(bytes) DESC, source) = 1"),
    "union": Twins("SELECT source, bytes FROM packets WHERE link = 'A' UNION ALL SELECT destination, bytes * 2 FROM packets UNION ALL (SELECT link, 1 FROM packets)"),
    "common tables": Twins("WITH b AS (SELECT * FROM packets WHERE link = 'B'), s AS (SELECT source, count(*) AS n, TUMBLE_START(time, INTERVAL 10 SECOND) AS t FROM b GROUP BY source, TUMBLE(time, INTERVAL 10 SECOND)) SELECT max(n) AS most, t FROM s GROUP BY t",
                           "WITH b AS (SELECT * FROM packets WHERE link = 'B'), s AS (SELECT source, count(*) AS n, tumble(time, INTERVAL 10 SECOND) AS t FROM b GROUP BY source, t) SELECT max(n) AS most, t FROM s GROUP BY t"),
    "most frequent": Twins("SELECT a.source, a.num FROM (SELECT source, count(*) AS num, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE packets, DESCRIPTOR(time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY source, window_start, window_end) AS a JOIN (SELECT max(c.num) AS most, c.s, c.e FROM (SELECT count(*) AS num, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE packets, DESCRIPTOR(time), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY source, window_start, window_end) AS c GROUP BY c.s, c.e) AS m ON a.s = m.s AND a.e = m.e AND a.num >= m.most",
                           _w(10, 2, "SELECT source, count(*) AS num FROM packets JOIN w ON time >= s AND time < e GROUP BY source, s QUALIFY rank() OVER (PARTITION BY s ORDER BY count(*) DESC) = 1")),
    "groups of sessions": Twins("SELECT max(n) AS most, avg(n) AS mean, count(*) AS sources FROM (SELECT source, count(*) AS n FROM packets GROUP BY source, SESSION(time, INTERVAL '2' SECOND)) GROUP BY window_start, window_end",
                                "SELECT max(n), avg(n), count(*) FROM (SELECT count(*) AS n, min(time) AS s, max(time) AS e FROM (SELECT *, sum((pause IS NULL OR pause >= 2000000)::INT) OVER (PARTITION BY source ORDER BY time ROWS UNBOUNDED PRECEDING) AS run FROM (SELECT *, epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY source ORDER BY time) AS pause FROM packets)) GROUP BY source, run) GROUP BY s, e"),
    "subquery": Twins("SELECT kind, count(*) AS n FROM (SELECT CASE WHEN bytes > 500 THEN 'big' ELSE 'small' END AS kind FROM packets) AS k GROUP BY k.kind, TUMBLE(time, INTERVAL 10 SECOND)",
                      "SELECT kind, count(*) AS n FROM (SELECT CASE WHEN bytes > 500 THEN 'big' ELSE 'small' END AS kind, time FROM packets) AS k GROUP BY k.kind, tumble(time, INTERVAL 10 SECOND)"),
    "join": Twins("SELECT a.source, a.bytes AS asked, b.bytes AS answered FROM packets a JOIN packets AS b ON a.source = b.source AND a.time BETWEEN b.time - INTERVAL '2' SECOND AND b.time + INTERVAL '2' SECOND WHERE a.link = 'A' AND b.link = 'B'"),
    "one-sided interval": Twins("SELECT a.source, a.time AS t, b.time AS u FROM packets a JOIN packets b USING (source) WHERE b.time > a.time AND b.time <= a.time + INTERVAL 1 SECOND"),
    "other names": Twins("SELECT a.source, b.source AS back, a.bytes + b.bytes AS both FROM packets AS a, packets AS b WHERE a.source = b.destination AND a.destination = b.source AND a.time >= b.time - INTERVAL 1 SECOND AND b.time >= a.time - INTERVAL 3 SECOND"),
    "computed keys": Twins("SELECT a.link, b.link AS other FROM packets a JOIN packets b ON upper(a.link) = CASE WHEN b.link = 'A' THEN 'B' ELSE 'A' END AND a.source = b.source AND a.time - INTERVAL 100 MILLISECOND < b.time AND a.time > b.time - INTERVAL 100 MILLISECOND"),
    "times alone": Twins("SELECT a.source, b.source AS s FROM packets a JOIN packets b ON a.time BETWEEN b.time AND b.time + INTERVAL 5 MILLISECOND AND a.bytes > b.bytes"),
    "left join": Twins("SELECT a.source, a.time AS t, b.source AS s, b.bytes FROM packets a LEFT JOIN packets b ON a.destination = b.source AND b.bytes > 1000 AND a.time BETWEEN b.time - INTERVAL 1 SECOND AND b.time + INTERVAL 1 SECOND WHERE a.link = 'A'"),
    "anti join": Twins("SELECT a.source, a.bytes FROM packets a ANTI JOIN packets b ON a.source = b.destination AND a.time BETWEEN b.time - INTERVAL 1 SECOND AND b.time + INTERVAL 1 SECOND"),
    "three tables": Twins("SELECT a.source, b.destination AS d, c.link FROM packets a JOIN packets b ON a.destination = b.source AND b.time BETWEEN a.time AND a.time + INTERVAL 300 MILLISECOND JOIN packets c ON c.source = b.destination AND c.time BETWEEN a.time AND a.time + INTERVAL 400 MILLISECOND AND c.bytes > a.bytes"),
    "windows of two queries": Twins("SELECT a.source, n, m FROM (SELECT source, count(*) AS n FROM packets GROUP BY source, TUMBLE(time, INTERVAL 5 SECOND)) AS a JOIN (SELECT source, max(bytes) AS m FROM packets WHERE link = 'B' GROUP BY source, TUMBLE(time, INTERVAL 5 SECOND)) AS b ON a.source = b.source AND a.window_start = b.window_start AND a.window_end = b.window_end",
                    "SELECT a.source, n, m FROM (SELECT source, count(*) AS n, tumble(time, INTERVAL 5 SECOND) AS w FROM packets GROUP BY ALL) AS a JOIN (SELECT source, max(bytes) AS m, tumble(time, INTERVAL 5 SECOND) AS w FROM packets WHERE link = 'B' GROUP BY ALL) AS b ON a.source = b.source AND a.w = b.w"),
    "greatest of each window": Twins("SELECT p.source, p.bytes, p.time AS t FROM packets AS p JOIN (SELECT max(bytes) AS most, window_end AS e FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) AS w ON p.bytes = w.most WHERE p.time BETWEEN w.e - INTERVAL '10' SECOND AND w.e",
                                     "SELECT p.source, p.bytes, p.time FROM packets AS p JOIN (SELECT max(bytes) AS most, tumble(time, INTERVAL 10 SECOND) + INTERVAL 10 SECOND AS e FROM packets GROUP BY e) AS w ON p.bytes = w.most WHERE p.time BETWEEN w.e - INTERVAL '10' SECOND AND w.e"),
    "groups of a join": Twins("SELECT a.source, count(*) AS n, sum(b.bytes) AS total FROM packets a JOIN packets b ON a.source = b.source AND a.time BETWEEN b.time - INTERVAL 1 SECOND AND b.time + INTERVAL 1 SECOND GROUP BY a.source, TUMBLE(time, INTERVAL 10 SECOND) HAVING count(*) > 10",
                              "SELECT a.source, count(*) AS n, sum(b.bytes) AS total FROM packets a JOIN packets b ON a.source = b.source AND a.time BETWEEN b.time - INTERVAL 1 SECOND AND b.time + INTERVAL 1 SECOND GROUP BY a.source, TUMBLE(greatest(a.time, b.time), INTERVAL 10 SECOND) HAVING count(*) > 10"),
    "spread": Twins("SELECT link, stddev(bytes) AS s, var_pop(bytes) AS v, median(bytes) AS m, quantile_disc(bytes, 0.9) AS q, max(bytes) - min(bytes) AS width, round(100.0 * count(*) FILTER (WHERE bytes > 500) / count(*), 2) AS share FROM packets GROUP BY link, TUMBLE(time, INTERVAL 10 SECOND) HAVING max(bytes) - min(bytes) > 10"),
    "latest": Twins("SELECT a.source, a.bytes, b.destination AS d, a.time AS t, b.time AS u FROM packets a ASOF JOIN packets b ON a.source = b.source AND b.link = 'B' AND a.time BETWEEN b.time AND b.time + INTERVAL '1' SECOND WHERE a.link = 'A'",
                    "SELECT a.source, a.bytes, b.destination, a.time, b.time FROM (FROM packets WHERE link = 'A') a ASOF JOIN (FROM packets WHERE link = 'B') b ON a.source = b.source AND a.time >= b.time WHERE a.time <= b.time + INTERVAL '1' SECOND"),
    "latest or none": Twins("SELECT a.source, a.bytes, b.source AS s, b.bytes AS n FROM packets a ASOF LEFT JOIN packets b ON a.destination = b.source AND a.time BETWEEN b.time AND b.time + INTERVAL '1' SECOND",
                            "SELECT a.source, a.bytes, CASE WHEN a.time <= b.time + INTERVAL 1 SECOND THEN b.source END, CASE WHEN a.time <= b.time + INTERVAL 1 SECOND THEN b.bytes END FROM packets a ASOF LEFT JOIN packets b ON a.destination = b.source AND a.time >= b.time"),
    "before": Twins("SELECT source, bytes, bytes - lag(bytes) OVER (PARTITION BY window_end, source ORDER BY time) AS more, sum(bytes) OVER (PARTITION BY window_end, source ORDER BY time ROWS UNBOUNDED PRECEDING) AS total, time AS t, second(time) FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND)) WHERE link = 'A'",
                    "SELECT source, bytes, bytes - lag(bytes) OVER w, (sum(bytes) OVER (w ROWS UNBOUNDED PRECEDING))::BIGINT, time, second(time) FROM packets WHERE link = 'A' WINDOW w AS (PARTITION BY tumble(time, INTERVAL 10 SECOND), source ORDER BY time)"),
    "ranks": Twins("SELECT link, bytes, rank() OVER (PARTITION BY window_start, window_end, link ORDER BY bytes DESC) AS place, dense_rank() OVER (PARTITION BY window_start, link ORDER BY bytes DESC) AS step FROM TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND))",
                   "SELECT link, bytes, rank() OVER w, dense_rank() OVER w FROM packets WINDOW w AS (PARTITION BY tumble(time, INTERVAL 10 SECOND), link ORDER BY bytes DESC)"),
}  # fmt: skip
