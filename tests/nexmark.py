"""NEXMark's queries, with their twins in DuckDB over the same events, and those that are refused as they are asked."""

from __future__ import annotations

from typing import Any, Final

import duckdb
import polars as pl

from synergy_experiments.nexmark import SIDE_INPUT, sql_text
from synergy_nb import traces
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.operators.sources import NEXMARK
from tests.feeding import through

#: Parameters of the sources: 30 s of event time around eight o'clock, when query 14 changes its mind.
EVENTS: Final = {"seed": 5, "rate": 200.0, "count": 6000, "start": 1767254385.0, "speed": 0.0}

_WITHIN = "B.time <= A.time + INTERVAL '8' SECOND"
_HOPS = "(SELECT s, s + INTERVAL 10 SECOND AS e FROM range(TIMESTAMP '2026-01-01 07:58:00', TIMESTAMP '2026-01-01 08:02:00', INTERVAL 2 SECOND) AS r(s))"  # noqa: E501
_CLOSED = "SELECT max(B.price) AS final, A.category, A.id FROM auction A, bid B WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires GROUP BY A.id, A.category"  # noqa: E501
_WINNING = "SELECT A.id, B.price, ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.time) AS rownum FROM auction A, bid B WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires"  # noqa: E501

#: The same in DuckDB, where our text has words that it has not.
TWINS: Final = {
    "q4": f"""
        SELECT category, avg(final) FROM (
            SELECT max(B.price) AS final, A.category, A.id, tumble(B.time, INTERVAL 10 SECOND) AS w
            FROM auction A, bid B WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires AND {_WITHIN}
            GROUP BY A.id, A.category, w)
        GROUP BY category, w""",
    "q5": f"""
        SELECT auction, count(*) FROM bid JOIN {_HOPS} AS w ON time >= s AND time < e GROUP BY auction, s
        QUALIFY rank() OVER (PARTITION BY s ORDER BY count(*) DESC) = 1""",
    "q6": f"""
        SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY expires, id ROWS 9 PRECEDING) FROM (
            SELECT A.id, A.seller, A.expires, max(B.price) AS final FROM auction A, bid B
            WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires AND {_WITHIN} GROUP BY ALL)""",
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.time, B.extra FROM bid B JOIN (
            SELECT max(price) AS maxprice, tumble(time, INTERVAL 10 SECOND) + INTERVAL 10 SECOND AS e
            FROM bid GROUP BY 2) ON B.price = maxprice
        WHERE B.time BETWEEN e - INTERVAL '10' SECOND AND e""",
    "q8": """
        SELECT P.id, P.name, P.w
        FROM (SELECT DISTINCT id, name, tumble(time, INTERVAL 10 SECOND) AS w FROM person) P
        JOIN (SELECT DISTINCT seller, tumble(time, INTERVAL 10 SECOND) AS w FROM auction) A
        ON P.id = A.seller AND P.w = A.w""",
    "q9": f"""
        SELECT A.id, A.itemName, A.seller, B.bidder, B.price, B.time, B.extra FROM auction A, bid B
        WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires AND {_WITHIN}
        QUALIFY row_number() OVER (
            PARTITION BY tumble(B.time, INTERVAL 10 SECOND), A.id ORDER BY B.price DESC, B.time) = 1""",
    "q10": """
        SELECT auction, bidder, price, time, extra, strftime(time, '%Y-%m-%d'), strftime(time, '%H:%M') FROM bid""",
    "q11": """
        SELECT bidder, count(*), min(time), max(time) + INTERVAL 10 SECOND FROM (
            SELECT *, sum((pause IS NULL OR pause >= 10000000)::INT)
                OVER (PARTITION BY bidder ORDER BY time ROWS UNBOUNDED PRECEDING) AS run
            FROM (SELECT *, epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY bidder ORDER BY time) AS pause
                FROM bid))
        GROUP BY bidder, run""",
    "q12": """
        SELECT bidder, count(*), tumble(time, INTERVAL 10 SECOND) AS s, s + INTERVAL 10 SECOND
        FROM bid GROUP BY bidder, s""",
    "q13": """
        SELECT B.auction, B.bidder, B.price, B.time, S.value
        FROM bid B JOIN side_input AS S ON mod(B.auction, 100) = S.key""",
    "q18": """
        SELECT auction, bidder, price, channel, url, time, extra FROM bid
        QUALIFY row_number() OVER (
            PARTITION BY tumble(time, INTERVAL 10 SECOND), bidder, auction ORDER BY time DESC) = 1""",
    "q19": """
        SELECT * EXCLUDE (time) FROM bid
        QUALIFY row_number() OVER (
            PARTITION BY tumble(time, INTERVAL 10 SECOND), auction ORDER BY price DESC) <= 10""",
}
#: Queries of an endless table, which no operator keeps.
REFUSED: Final = {
    "q3": "SELECT P.name, P.city, P.state, A.id FROM auction AS A JOIN person AS P ON A.seller = P.id",
    "q4": f"SELECT Q.category, avg(Q.final) AS average FROM ({_CLOSED}) AS Q GROUP BY Q.category",
    "q9": f"SELECT * EXCLUDE (rownum) FROM ({_WINNING}) WHERE rownum <= 1",
    "q18": "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY time DESC) AS rank_number FROM bid) WHERE rank_number <= 1",  # noqa: E501
    "q19": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid) WHERE rank_number <= 10",  # noqa: E501
    "q20": "SELECT auction, bidder, price, itemName FROM bid AS B JOIN auction AS A ON B.auction = A.id",
}


def events(**params: Any) -> dict[str, pl.DataFrame]:
    """The tables of persons, auctions and bids; ``params`` in place of those of :data:`EVENTS`."""
    return {table: traces.table({"connector": "nexmark", "table": table, **EVENTS, **params}) for table in NEXMARK}


def rows(plan: Plan, tables: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    """The rows of a plan over tables, without the columns that every stream has, sorted."""
    given = {name: tables[str(plan.operators[name].params["table"])] for name in plan.sources}
    return comparable(through(plan, plan.sinks[0], given))


def by_duckdb(name: str, tables: dict[str, pl.DataFrame]) -> list[tuple[Any, ...]]:
    """The rows of a query in DuckDB, sorted."""
    connection = duckdb.connect(config={"threads": 1})
    for each, table in tables.items():
        connection.register(each, table.to_arrow())
    connection.execute(f"CREATE TABLE side_input AS FROM read_csv('{SIDE_INPUT}')")
    connection.execute("CREATE MACRO tumble(t, width) AS time_bucket(width, t, TIMESTAMP '1970-01-01')")
    text = TWINS.get(name) or sql_text(name)
    assert text is not None
    return _sorted(connection.execute(text).fetchall())


def comparable(found: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows of a stream without the columns that every stream has, sorted."""
    return _sorted(found.drop([name for name in IMPLICIT if name in found.columns]).rows())


def _sorted(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in one order, with nine digits of each float; a decimal is a float, and so is DuckDB's sum of integers."""
    rounded = [
        tuple(
            float(f"{float(each):.9g}") if isinstance(each, int | float) or type(each).__name__ == "Decimal" else each
            for each in row
        )
        for row in found
    ]
    return sorted(rounded, key=repr)
