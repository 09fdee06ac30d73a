"""The queries of the Stream Query Repository on network traffic: plan files, and what they mean in DuckDB.

The repository: http://infolab.stanford.edu/stream/sqr/netmon.html. Windows in the SQL are written as literally as can
be: a table of all windows, joined to the packets by their times.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import duckdb
import polars as pl

from synergy_nb.plan import Plan
from synergy_nb.traces import table
from tests.conftest import ROOT

PLANS = ROOT / "notebooks" / "plans"

_WINDOWS = (
    "w AS (SELECT s, s + INTERVAL {length} MINUTE AS e FROM range(TIMESTAMP '1969-12-31', (SELECT max(time) FROM "
    "packets) + INTERVAL 10 MINUTE, INTERVAL {slide} MINUTE) AS r(s))"
)
_ANSWERED = (
    "SELECT syn.time AS asked, back.time AS time, syn.source AS client, syn.source_port AS client_port, "
    "syn.destination AS server, syn.destination_port AS server_port, syn.link FROM packets AS syn JOIN packets AS back "
    "ON syn.source = back.destination AND syn.source_port = back.destination_port AND syn.destination = back.source "
    "AND syn.destination_port = back.source_port AND abs(epoch_us(syn.time) - epoch_us(back.time)) <= 120000000 "
    "WHERE syn.flags = 'SYN' AND back.flags = 'SYN-ACK'"
)
_AT = "e - INTERVAL 1 MICROSECOND AS time, s AS window_start, e AS window_end"


class Query(NamedTuple):
    """A plan file and its meaning in SQL, over the table ``packets``."""

    sql: str
    windows: tuple[int, int] = (1, 1)


QUERIES = {
    "1_top_pairs": Query(
        f"SELECT * FROM (SELECT {_AT}, destination, source, sum(bytes)::BIGINT AS traffic FROM packets JOIN w "
        "ON time >= s AND time < e WHERE link = 'B' GROUP BY s, e, source, destination) "
        "QUALIFY rank() OVER (PARTITION BY window_end ORDER BY traffic) - 1 > "
        "0.95::DOUBLE * count(*) OVER (PARTITION BY window_end) ORDER BY time, traffic, destination, source",
        (20, 1),
    ),
    "2_customer_share": Query(
        f"SELECT {_AT}, count(*) FILTER (source LIKE 'h0%') / count(*) AS share, count(*) AS packets FROM packets "
        "JOIN w ON time >= s AND time < e WHERE link = 'B' GROUP BY s, e ORDER BY e",
        (60, 1),
    ),
    "3_http_by_source": Query(
        f"SELECT {_AT}, source, sum(bytes)::BIGINT, count(*) FROM packets JOIN w ON time >= s AND time < e "
        "WHERE destination_port = 80 GROUP BY s, e, source ORDER BY e, source",
        (5, 5),
    ),
    "4_decaying_load": Query(
        "SELECT e - INTERVAL 1 MICROSECOND, e - INTERVAL 10 MINUTE, e, source, sum(packets * share) / sum(share) FROM ("
        "SELECT w.e, m.source, m.packets, pow(0.5, (epoch(w.e) - epoch(m.e)) / 120.0) AS share FROM w JOIN ("
        "SELECT s, e, source, count(*) AS packets FROM packets JOIN w ON time >= s AND time < e GROUP BY s, e, source"
        ") AS m ON m.e <= w.e AND m.s >= w.e - INTERVAL 10 MINUTE) GROUP BY e, source ORDER BY e, source",
        (1, 1),
    ),
    "5_half_open": Query(
        "SELECT greatest(asked, time) + INTERVAL 2 MINUTE AS time, client, client_port, server, server_port, link "
        f"FROM ({_ANSWERED}) AS a WHERE NOT EXISTS (FROM packets AS p WHERE flags = 'ACK' AND p.source = client AND "
        "p.source_port = client_port AND p.destination = server AND p.destination_port = server_port AND "
        "abs(epoch_us(p.time) - epoch_us(greatest(asked, a.time))) <= 120000000) ORDER BY ALL",
    ),
    "6_flows": Query(
        "SELECT max(time) + INTERVAL 2 MINUTE - INTERVAL 1 MICROSECOND AS time, min(time) AS window_start, "
        "max(time) + INTERVAL 2 MINUTE AS window_end, destination, source, count(*), min(time), max(time) FROM ("
        "SELECT *, sum(CASE WHEN pause < 120000000 THEN 0 ELSE 1 END) OVER (PARTITION BY source, destination ORDER BY "
        "time ROWS UNBOUNDED PRECEDING) AS flow FROM (SELECT *, epoch_us(time) - lag(epoch_us(time)) OVER ("
        "PARTITION BY source, destination ORDER BY time) AS pause FROM packets)) GROUP BY source, destination, flow "
        "ORDER BY time, window_start, destination, source",
    ),
}


def plan_of(name: str) -> Plan:
    """The plan in a file."""
    return Plan.from_yaml((PLANS / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def packets_of(name: str, minutes: float) -> pl.DataFrame:
    """The packets of the first minutes of a plan."""
    return table({**plan_of(name).operators["packets"].params, "duration": 60.0 * minutes})


def by_duckdb(name: str, packets: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The rows that a query gives in DuckDB."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("packets", packets.to_arrow())
    length, slide = QUERIES[name].windows
    windows = _WINDOWS.format(length=length, slide=slide)
    return rounded(connection.execute(f"WITH {windows} {QUERIES[name].sql}").fetchall())


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with nine digits of each float: decaying averages are added up in another order."""
    return [tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row) for row in rows]
