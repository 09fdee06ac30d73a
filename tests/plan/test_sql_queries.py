"""Queries in SQL become the operators that a person would write, or are refused by their place."""

# ruff: noqa: E501 - queries are easier to compare on one line

from __future__ import annotations

import datetime as dt
import pickle
import random
import re
from pathlib import Path

import polars as pl
import pytest

from synergy_experiments import nexmark
from synergy_nb import PlanError, QueryError, sql
from synergy_nb.plan import Stream, source
from tests import sql_examples

TEN = "TUMBLE(time, INTERVAL '10 seconds')"
FROM_TEN = "TABLE(TUMBLE(TABLE packets, DESCRIPTOR(time), INTERVAL '10' SECOND))"
PACKETS = source("packets")
OTHER = source("packets", seed=2)
WITHIN = "a.time BETWEEN b.time - INTERVAL 2 SECOND AND b.time + INTERVAL 2 SECOND"


def name_of(stream: Stream) -> str:
    plan = stream.sink()
    return plan.stream_name(plan.sinks[0])


SAME = {
    "SELECT * FROM packets": PACKETS,
    "select * from packets p;": PACKETS,
    "SELECT link, bytes * 8 AS bits FROM packets WHERE bytes > 100": PACKETS.filter("bytes > 100").project("link", bits="bytes * 8"),
    "SELECT link, bytes * 8 bits FROM (SELECT * FROM packets) WHERE bytes > 100": PACKETS.filter("bytes > 100").project("link", bits="bytes * 8"),
    f"SELECT link, sum(bytes) AS total FROM packets GROUP BY link, {TEN}": PACKETS.aggregate("link", "10 s", total="sum(bytes)"),
    f"SELECT window_end, link, sum(bytes) AS total, window_start FROM {FROM_TEN} GROUP BY link, window_start, window_end": PACKETS.aggregate("link", "10 s", total="sum(bytes)"),
    "SELECT sum(bytes) AS total FROM HOP(packets, time, INTERVAL 5 SECOND, INTERVAL 10 SECOND) GROUP BY window_start": PACKETS.aggregate(window="10 s every 5 s", total="sum(bytes)"),
    "SELECT sum(bytes) AS total FROM packets GROUP BY HOP(time, INTERVAL 10 SECOND, INTERVAL 10 SECOND)": PACKETS.aggregate(window="10 s", total="sum(bytes)"),
    f"SELECT total, link FROM (SELECT link, sum(bytes) AS total FROM packets GROUP BY link, {TEN})": PACKETS.aggregate("link", "10 s", total="sum(bytes)").project("total", "link"),
    f"SELECT link, count(*) AS n FROM packets GROUP BY link, {TEN} HAVING n > 3 ORDER BY n DESC LIMIT 2": PACKETS.aggregate("link", "10 s", n="count(*)").filter("n > 3").top(2, "n desc"),
    f"SELECT link, count(*) AS n FROM packets GROUP BY link, {TEN} ORDER BY window_end, 2 DESC": PACKETS.aggregate("link", "10 s", n="count(*)").sort("n desc"),
    f"SELECT count(*) AS groups FROM (SELECT link FROM packets GROUP BY link, {TEN}) GROUP BY window_start, window_end": PACKETS.aggregate("link", "10 s", {"count(*)": "count(*)"}).project("link").count("groups"),
    f"SELECT link, sum(bytes) / count(*) AS mean, 1 + max(bytes) AS m FROM packets GROUP BY link, {TEN} HAVING sum(bytes) / count(*) > 3": PACKETS.aggregate("link", "10 s", mean="sum(bytes) / count(*)", m="1 + max(bytes)").filter("mean > 3"),
    f"SELECT link || max(source) AS l, count(*) FROM packets GROUP BY link, {TEN}": PACKETS.aggregate("link", "10 s", {"max(source)": "max(source)", "count(*)": "count(*)"}).project({"l": "link || \"max(source)\"", "count(*)": '"count(*)"'}),
    f"SELECT stddev(bytes) AS s, quantile_cont(bytes, 0.95) AS q, percentile_cont(0.5) WITHIN GROUP (ORDER BY bytes) AS m FROM packets GROUP BY {TEN}": PACKETS.aggregate(window="10 s", s="stddev_samp(bytes)", q="quantile_cont(bytes, 0.95)", m="median(bytes)"),
    "SELECT time_bucket(INTERVAL 10 SECOND, time) AS s, count(*) AS n FROM packets GROUP BY 1": PACKETS.aggregate(window="10 s", n="count(*)").project(s="window_start", n="n"),
    "SELECT * REPLACE (bytes * 8 AS bytes) FROM (SELECT link, bytes FROM packets)": PACKETS.project("link", "bytes").project("link", bytes="bytes * 8"),
    f"SELECT DISTINCT * FROM {FROM_TEN}": PACKETS.distinct(window="10 s"),
    f"SELECT DISTINCT ON (link) * FROM {FROM_TEN}": PACKETS.distinct("link", window="10 s"),
    f"SELECT * FROM {FROM_TEN} ORDER BY bytes DESC LIMIT 3": PACKETS.top(3, "bytes desc", window="10 s"),
    f"SELECT * FROM {FROM_TEN} QUALIFY 4 > row_number() OVER (PARTITION BY link, window_end ORDER BY bytes)": PACKETS.top(3, "bytes", per="link", window="10 s"),
    "SELECT source FROM packets UNION ALL SELECT destination FROM packets": PACKETS.project("source").union(PACKETS.project(source="destination")),
    f"SELECT source, bytes, bytes - lag(bytes) OVER (PARTITION BY window_end, source ORDER BY time) AS more, time AS at FROM {FROM_TEN}": PACKETS.over("source", "10 s", {"more": "bytes - lag(bytes)", "at": "time"}).project({"source": "source", "bytes": "bytes", "more": "more", "at": '"at"'}),
    f"SELECT *, rank() OVER (PARTITION BY window_start, link ORDER BY bytes DESC) AS place FROM {FROM_TEN}": PACKETS.over("link", "10 s", {"place": "rank()"}, order="bytes desc"),
    f"SELECT * FROM packets a JOIN other b ON b.source = a.source AND {WITHIN}": PACKETS.join(OTHER, on="source", within="2 s"),
    f"SELECT a.source, a.link, a.destination, b.bytes AS bytes_b FROM packets a JOIN (SELECT source, bytes FROM other) b ON b.source = a.source AND {WITHIN}": PACKETS.join(OTHER.project("source", "bytes"), on="source", within="2 s", suffix="_b").project("source", "link", "destination", "bytes_b"),
    f"SELECT a.source, b.bytes FROM packets a, other b WHERE a.link = 'A' AND b.source = a.source AND {WITHIN} AND b.link = 'B'": PACKETS.filter("link = 'A'").join(OTHER.filter("link = 'B'"), on="source", within="2 s").project("source", bytes="bytes_right"),
    f"SELECT a.source FROM packets a ANTI JOIN other b ON b.source = a.source AND {WITHIN}": PACKETS.join(OTHER, on="source", within="2 s", how="anti").project("source"),
    "SELECT a.source, b.link FROM packets a ASOF JOIN other b ON a.source = b.source AND a.time BETWEEN b.time AND b.time + INTERVAL 1 MINUTE": PACKETS.asof(OTHER, on="source", within="1 min").project("source", link="link_right"),
    "SELECT a.source FROM packets a ASOF LEFT JOIN other b USING (source) ON a.time >= b.time AND a.time <= b.time + INTERVAL 1 MINUTE": PACKETS.asof(OTHER, on="source", within="1 min", how="left").project("source"),
    f"SELECT a.source, b.link FROM packets a LEFT JOIN other b ON b.source = a.source AND {WITHIN}": PACKETS.join(OTHER, on="source", within="2 s", how="left").project("source", link="link_right"),
    "SELECT a.source, b.n FROM packets a JOIN (SELECT source AS s, bytes AS n FROM other) b ON a.source = b.s AND a.time = b.time": PACKETS.join(OTHER.project(s="source", n="bytes").project(n="n", source="s"), on="source", within="0 s").project("source", "n"),
    "SELECT * FROM packets(seed = 3, count => 10, duration := INTERVAL 10 SECOND, links = ['X', 'Y'])": source("packets", seed=3, count=10, duration="10 s", links=["X", "Y"]),
    "SELECT * FROM read_csv('a.csv', columns = {'time': 'TIMESTAMP', 'user': 'VARCHAR', 'n': 'int'})": source("trace", path="a.csv", format="csv", columns={"time": "time", "user": "str", "n": "int"}),
}  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_a_query_is_the_stream_of_operators(text: str) -> None:
    assert name_of(sql(text, sources={"other": OTHER})) == name_of(SAME[text])


def test_streams_and_tables_have_names() -> None:
    large = PACKETS.filter("bytes > 1000")
    rows = {"time": [1.0, 2.0], "user": ["ann", "bob"]}
    assert name_of(sql("SELECT link FROM large", sources={"large": large})) == name_of(large.project("link"))
    assert sql("SELECT user FROM users", sources={"users": rows}).sink().rows.keys() == {"source"}
    both = sql(
        "WITH b AS (SELECT * FROM packets WHERE bytes > 1) SELECT link FROM b WHERE bytes > 2 UNION ALL SELECT source FROM b"
    )
    kinds = [each.kind for each in both.sink().operators.values()]
    assert kinds.count("source") == 1, "what two parts of a query read is made once"


def test_a_file_has_the_columns_of_its_header(tmp_path: Path) -> None:
    file = tmp_path / "sales.csv"
    file.write_text("when,user,amount\n2026-01-01 09:00,ann,12.5\n2026-01-01 09:05,bob,3\n")
    plan = sql(f"SELECT user, amount FROM '{file}' WHERE amount > 5").sink()
    assert plan.schema("source") == {"time": "time", "user": "str", "amount": "float"}
    assert plan.schema("project") == {"time": "time", "user": "str", "amount": "float"}
    with pytest.raises(QueryError, match=r"line 1, column 15: .*expected a file that can be read"):
        sql(f"SELECT * FROM '{tmp_path / 'none.csv'}'")


HOSTS = pl.DataFrame({"host": ["h001", "h002"], "site": ["Bonn", "Oslo"], "bytes": [1, 2]})


def test_the_number_of_a_row_is_a_column_unless_it_selects_the_first_rows() -> None:
    numbered = (
        f"SELECT link, bytes, row_number() OVER (PARTITION BY window_end, link ORDER BY bytes) AS n FROM {FROM_TEN}"
    )
    over = PACKETS.over("link", "10 s", order="bytes", n="row_number()").project("link", "bytes", "n")
    first = PACKETS.project("link", "bytes").top(3, "bytes", per="link", window="10 s")
    same = {
        numbered: over,
        f"SELECT * FROM ({numbered})": over,
        f"SELECT * FROM ({numbered}) WHERE n <= 3": over.filter("n <= 3"),
        f"SELECT link FROM ({numbered}) AS x WHERE n <= 3 AND x.n > 1": over.filter("n <= 3 AND n > 1").project("link"),
        f"SELECT link, n + 1 AS m FROM ({numbered}) WHERE n <= 3": over.filter("n <= 3").project("link", m="n + 1"),
        f"SELECT * EXCLUDE (n) FROM ({numbered}) WHERE n <= 3": first,
        f"WITH x AS ({numbered}) SELECT y.bytes FROM x AS y WHERE 3 >= y.n": first.project("bytes"),
        f"SELECT max(n) AS most FROM ({numbered}) GROUP BY window_start, window_end": over.aggregate(most="max(n)"),
        f"{numbered} ORDER BY n": over.sort("n"),
    }
    for text, stream in same.items():
        assert name_of(sql(text)) == name_of(stream), text


def test_rows_of_tables_are_looked_up() -> None:
    def of(text: str) -> str:
        return name_of(sql(text, tables={"hosts": HOSTS}))

    located = PACKETS.lookup(HOSTS, on={"source": "host"}, prefix="h_")
    plain = "SELECT p.source, h.site, h.bytes AS n FROM packets p JOIN hosts h ON p.source = h.host"
    assert of(plain) == name_of(located.project("source", site="h_site", n="h_bytes"))
    assert of(f"{plain} WHERE h.site = 'Bonn' AND p.bytes > 3") == name_of(
        PACKETS.filter("bytes > 3")
        .lookup(HOSTS, on={"source": "host"}, prefix="h_")
        .filter("h_site = 'Bonn'")
        .project("source", site="h_site", n="h_bytes")
    )
    left = "SELECT a.link, site, a.time AS at FROM packets a LEFT JOIN hosts ON lower(a.source) = hosts.host"
    computed = PACKETS.project(
        "link",
        "source",
        "destination",
        "source_port",
        "destination_port",
        "bytes",
        {"lower(source) = host": "lower(source)"},
    )
    looked_up = computed.lookup(HOSTS, on={"lower(source) = host": "host"}, how="left", prefix="hosts_")
    assert of(left) == name_of(looked_up.project({"link": "link", "site": "hosts_site", "at": "time"}))
    grouped = (
        f"SELECT h.site, count(*) AS n FROM packets AS p JOIN hosts AS h ON h.host = p.source GROUP BY h.site, {TEN}"
    )
    assert of(grouped) == name_of(located.aggregate("h_site", "10 s", n="count(*)").project(site="h_site", n="n"))
    fares = pl.DataFrame({"host": ["h001"], "fare": [3.5], "since": [dt.datetime(2026, 1, 1)]})  # noqa: DTZ001
    for kind, how in (("ASOF JOIN", None), ("ASOF LEFT JOIN", "left")):
        text = f"SELECT p.link, f.fare FROM packets p {kind} fares f ON p.source = f.host AND f.since <= p.time"
        versions = PACKETS.lookup(fares, on={"source": "host"}, valid_from="since", how=how).project("link", "fare")
        assert name_of(sql(text, tables={"fares": fares})) == name_of(versions)
    for text, expected in (
        ("SELECT * FROM hosts", "a stream before it"),
        ("SELECT p.link FROM packets p JOIN hosts h ON p.bytes > h.bytes", "columns that equal columns of the table"),
        (
            "SELECT p.link FROM packets p ANTI JOIN hosts h ON p.source = h.host",
            "JOIN, LEFT JOIN or ASOF JOIN of a table",
        ),
        (
            "SELECT p.link FROM packets p ASOF JOIN hosts h ON p.source = h.host",
            "one condition of ON: a.time >= t.since",
        ),
        (
            "SELECT p.link FROM packets p ASOF JOIN hosts h ON p.source = h.host AND p.time >= h.bytes",
            "a column of the table of type time",
        ),
        (
            "SELECT p.link FROM packets p ASOF JOIN hosts h ON p.source = h.host AND h.bytes >= p.bytes",
            "equal columns in ON of an ASOF join",
        ),
        (
            "SELECT p.link FROM packets p LEFT JOIN hosts h ON p.source = h.host AND h.site = 'Oslo'",
            "equal columns in ON",
        ),
        ("SELECT h.host FROM packets p LEFT JOIN hosts h ON p.source = h.host", "still has"),
        ("SELECT p.link FROM packets p JOIN hosts h ON p.bytes = h.host", "columns of one type"),
        ("SELECT h.sit FROM packets p JOIN hosts h ON p.source = h.host", "a column (host, site, bytes)"),
    ):
        with pytest.raises(QueryError) as caught:
            sql(text, tables={"hosts": HOSTS})
        assert expected in caught.value.expected, str(caught.value)


REFUSED = [
    ("SELECT byts FROM packets", "byts", "a column", "bytes"),
    ("SELECT p.bytes FROM packets AS q", "p.bytes", "a table of FROM (q)", None),
    ("SELECT bytes\nFROM packet", "packet", "a stream (packets, peers, person, auction, bid)", "packets"),
    ('SELECT link FROM packets WHERE link = "B"', '"B"', "text takes single quotes", None),
    ("SELECT link FROM packets WHER bytes > 1", "WHER", "one of WHERE", "WHERE"),
    ("SELEC link FROM packets", "SELEC", "SELECT", "SELECT"),
    ("SELECT link, FROM packets", "FROM", "a column, or an expression", None),
    ("SELECT link", "", "FROM and a stream", None),
    ("SELECT link FROM packets WHERE bytes >", "", "an expression of the documented subset", None),
    ("SELECT link FROM packets WHERE (bytes > 1", "1", "an expression of the documented subset", None),
    ("SELECT 'a FROM packets", "SELECT 'a FROM packets", "each quote and comment closed", None),
    ("SELECT bytes + link FROM packets", "link", "a number, not str", None),
    ("SELECT lowr(link) FROM packets", "lowr(link)", "a function", "lower"),
    ("SELECT link FROM packets WHERE bytes > (SELECT 1)", "SELECT", "a subquery in FROM", None),
    ("SELECT link FROM packets WHERE EXISTS (SELECT 1)", "SELECT", "a subquery in FROM", None),
    ("SELECT sum(bytes) FROM packets", "sum(bytes)", "windows for aggregates", None),
    ("SELECT link, count(*) FROM packets GROUP BY link", "link", "windows for GROUP BY", None),
    (f"SELECT link, count(*) FROM packets GROUP BY source, {TEN}", "link", "a column of GROUP BY (source)", None),
    (f"SELECT time, source FROM packets GROUP BY source, {TEN}", "time", "window_time, or an aggregate such as max(time)", None),
    (f"SELECT source FROM packets GROUP BY source, {TEN} HAVING time > '2026-01-01'", "time > ", "window_time, or an aggregate such as max(time)", None),
    (f"SELECT * FROM packets GROUP BY source, {TEN}", "*", "columns of GROUP BY and aggregates", None),
    (f"SELECT link FROM packets GROUP BY link, {TEN}, TUMBLE(time, INTERVAL 5 SECOND)", "TUMBLE(time, INTERVAL 5 SECOND)", "one window", None),
    (f"SELECT TUMBLE_START(time, INTERVAL 5 SECOND) FROM packets GROUP BY {TEN}", "TUMBLE_START(time, INTERVAL 5 SECOND)", "the window of GROUP BY", None),
    (f"SELECT sum(bytes) + TUMBLE_START() AS x FROM packets GROUP BY {TEN}", "sum(bytes) + TUMBLE_START()", "TUMBLE(time, INTERVAL '10 seconds')", None),
    (f"SELECT {TEN} AS s FROM packets GROUP BY {TEN}", TEN, "window_start or window_end", None),
    ("SELECT time_bucket(INTERVAL 5 SECOND, time) AS s FROM packets GROUP BY time_bucket(INTERVAL 10 SECOND, time)", "time", "window_start, window_end or window_time", None),
    ("SELECT link FROM packets GROUP BY link, TUMBLE(bytes, INTERVAL 5 SECOND)", "bytes", "the event time of the stream", None),
    ("SELECT link FROM packets GROUP BY link, TUMBLE(time, 5)", "TUMBLE(time, 5)", "an interval", None),
    ("SELECT link FROM packets GROUP BY link, TUMBLE(time, INTERVAL 1 MONTH)", "TUMBLE(time, INTERVAL 1 MONTH)", "fixed length", None),
    ("SELECT link FROM packets GROUP BY link, HOP(time, INTERVAL 10 SECOND, INTERVAL 5 SECOND)", "HOP(time, INTERVAL 10 SECOND, INTERVAL 5 SECOND)", "a slide up to the length", None),
    ("SELECT link FROM packets GROUP BY link, time_bucket(INTERVAL 7 DAY, time)", "time_bucket(INTERVAL 7 DAY, time)", "aligned to 1970", None),
    ("SELECT link FROM packets GROUP BY link, date_trunc('week', time)", "date_trunc('week', time)", "a unit of a window", None),
    (f"SELECT * FROM {FROM_TEN}", "TUMBLE", "GROUP BY, DISTINCT, ORDER BY", None),
    ("SELECT link, count(*) FROM TABLE(SESSION(TABLE packets PARTITION BY source, DESCRIPTOR(time), INTERVAL 1 SECOND)) GROUP BY link, window_start, window_end", "SESSION", "PARTITION BY link", None),
    ("SELECT * FROM TABLE(CUMULATE(TABLE packets, DESCRIPTOR(time), INTERVAL 1 SECOND))", "CUMULATE", "one of TUMBLE, HOP, SESSION", None),
    ("SELECT link FROM packets ORDER BY bytes", "bytes", "windows for ORDER BY", None),
    ("SELECT link FROM packets LIMIT 5", "5", "ORDER BY before LIMIT", None),
    (f"SELECT link FROM {FROM_TEN} ORDER BY link LIMIT 5 OFFSET 3", "OFFSET", "no OFFSET", None),
    (f"SELECT link FROM {FROM_TEN} ORDER BY 2", "2", "a column of the result, from 1 to 1", None),
    (f"SELECT link FROM {FROM_TEN} ORDER BY link NULLS FIRST", "FIRST", "LAST", None),
    ("SELECT DISTINCT link FROM packets", "SELECT DISTINCT link FROM packets", "windows for DISTINCT", None),
    ("SELECT link FROM packets UNION SELECT link FROM packets", "UNION", "UNION ALL", "UNION ALL"),
    ("SELECT link FROM packets UNION ALL BY NAME SELECT link FROM packets", "BY", "by their order", None),
    ("SELECT link FROM packets EXCEPT SELECT link FROM packets", "EXCEPT", "UNION ALL", None),
    ("SELECT link FROM packets UNION ALL SELECT link, bytes FROM packets", "SELECT link, bytes FROM packets", "the columns of the first query", None),
    ("SELECT link, lag(bytes) OVER (PARTITION BY link ORDER BY time) FROM packets", "lag(bytes) OVER (PARTITION BY link ORDER BY time)", "windows for lag()", None),
    (f"SELECT sum(bytes) OVER (PARTITION BY window_end ORDER BY time) AS s FROM {FROM_TEN}", "sum(bytes) OVER", "the rows of sum() behind ORDER BY: ROWS UNBOUNDED PRECEDING", None),
    (f"SELECT lag(bytes) OVER (PARTITION BY link ORDER BY time) AS s FROM {FROM_TEN}", "lag(bytes) OVER", "window_start or window_end in PARTITION BY", None),
    (f"SELECT rank() OVER (PARTITION BY window_end) AS s FROM {FROM_TEN}", "rank() OVER", "ORDER BY: the rows of a window", None),
    (f"SELECT link FROM {FROM_TEN} QUALIFY rank() OVER (PARTITION BY window_end ORDER BY link) = 1", "rank() OVER (PARTITION BY window_end ORDER BY link) = 1", "row_number() OVER", "row_number"),
    ("WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a", "RECURSIVE", "without RECURSIVE", None),
    ("SELECT link AS time FROM packets", "link", "a name other than time", None),
    ("SELECT link, source AS link FROM packets", "source", "each column once", None),
    ("SELECT time FROM packets", "SELECT time FROM packets", "a column beside the time", None),
    ("SELECT * FROM packets(rat = 3)", "3", "a parameter", "rate"),
    ("SELECT * FROM packets(rate = '3 foo')", "'3 foo'", "a rate", None),
    ("SELECT * FROM packets(seed = bytes)", "bytes", "a literal", None),
    ("SELECT * FROM packts(seed = 3)", "packts", "one of trace, directory, tail", "packets"),
    ("SELECT * FROM packets; SELECT * FROM packets", "SELECT", "one query", None),
    ("SELECT * FROM db.packets", ".", "a name alone", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = b.source", "a.source = b.source", "an interval between the times", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = b.source AND a.time > b.time", "a.source = b.source AND", "an interval between the times", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.time < b.time AND a.time > b.time", "a.time < b.time", "an interval that some times are in", None),
    ("SELECT link FROM packets a JOIN packets b ON a.source = b.source AND a.time = b.time", "link", "a.link or b.link", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = c.source AND a.time = b.time", "c.source", "a table of FROM (a, b)", None),
    ("SELECT a.link FROM packets a JOIN packets a ON a.source = a.source", "packets a ON", "an alias that no other table has", None),
    ("SELECT a.link FROM packets a JOIN packets b USING (sorce) WHERE a.time = b.time", "sorce", "a column of both tables", None),
    ("SELECT a.link FROM packets a CROSS JOIN packets b", "packets b", "an interval between the times", None),
    ("SELECT a.link FROM packets a ASOF JOIN packets b ON a.source = b.source AND a.time >= b.time", "a.source = b.source", "an interval", None),
    ("SELECT a.link FROM packets a ASOF JOIN packets b ON a.source = b.source AND a.time BETWEEN b.time - INTERVAL 1 SECOND AND b.time", "a.source = b.source", "the age of the other row", None),
    ("SELECT a.link FROM packets a ASOF JOIN packets b ON a.source = b.source AND a.time BETWEEN b.time AND b.time + INTERVAL 1 SECOND AND a.bytes > b.bytes", "a.bytes > b.bytes", "equal columns and an interval", None),
    ("SELECT a.link FROM packets a RIGHT JOIN packets b ON a.time = b.time", "RIGHT", "JOIN, LEFT JOIN, ANTI JOIN or ASOF JOIN", None),
    ("SELECT a.link FROM packets a LEFT JOIN packets b ON a.source = b.source AND a.bytes > b.bytes AND a.time = b.time", "a.bytes > b.bytes", "equal columns and a symmetric interval", None),
    ("SELECT a.link FROM packets a LEFT JOIN packets b ON a.source = b.source AND a.bytes > 3 AND a.time = b.time", "a.bytes", "conditions of both tables", None),
    ("SELECT a.link FROM packets a LEFT JOIN packets b ON a.source = b.source AND a.time BETWEEN b.time AND b.time + INTERVAL 1 SECOND", "a.time BETWEEN", "equal columns and a symmetric interval", None),
    ("SELECT b.link FROM packets a ANTI JOIN packets b ON a.source = b.source AND a.time = b.time", "b.link", "a table of FROM (a)", None),
    (f"SELECT a.link FROM {FROM_TEN} a JOIN packets b ON a.source = b.source AND a.time = b.time", "TUMBLE", "a subquery that groups", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = b.source AND a.time = b.time GROUP BY a.link, TUMBLE(a.time, INTERVAL 1 SECOND)", "a.time, INTERVAL", "the event time of the stream", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = b.source AND a.time = b.time GROUP BY a.link, TUMBLE(greatest(a.time, b.time), INTERVAL 1 SECOND)", "a.time, b.time), INTERVAL", "the event time of the stream", None),
    ("SELECT a.link FROM packets a JOIN packets b ON a.source = b.bytes AND a.time = b.time", "", "", None),
    ("SELECT * EXCLUDE (lnk) FROM packets", "lnk", "a column", "link"),
    ("INSERT INTO x SELECT * FROM packets", "INSERT", "SELECT", None),
    ("", "", "SELECT", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "expected", "near"), REFUSED)
def test_what_no_operator_does_is_refused_by_its_place(text: str, place: str, expected: str, near: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        sql(text)
    error = caught.value
    line = text.split("\n")[error.line - 1]
    at = line[error.column - 1 :]
    assert at.startswith(place), (str(error), place)
    assert expected in error.expected, str(error)
    assert error.nearest == near or near is None, str(error)
    shown, marks = str(error).splitlines()[-2:]
    assert shown == line.rstrip()
    assert marks.index("^") == error.column - 1
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_qos_is_stated_by_sink() -> None:
    plan = sql("SELECT link FROM packets").sink("links", delay="2 s")
    assert (plan.name, plan.qos.delay) == ("links", 2.0)
    with pytest.raises(PlanError):
        sql("SELECT link FROM packets").sink(delay="two")
    with pytest.raises(TypeError, match="expected the text of a query"):
        sql(3)  # type: ignore[arg-type]


WORDS = ["SELECT", "FROM", "(", ")", ",", "*", "AS", "a", "time", "GROUP BY", "NULL", "'x'", "1", TEN, "JOIN", "ON", "-",
         "INTERVAL", "CASE", "END", "OVER", "row_number()", ".", "window_end", "sum(", "DISTINCT", "{", "[", '"', "'", ";", "--"]  # fmt: skip


@pytest.mark.slow
def test_queries_with_words_out_of_place_are_refused_and_never_fail() -> None:
    rng = random.Random(4)
    texts = [query.text for query in sql_examples.QUERIES.values()]
    texts += [text for text in map(nexmark.sql_text, nexmark.NAMES) if text is not None]
    tokens = re.compile(r"'[^']*'|\d+\.\d+|\w+(?:\.\w+)?|<=|>=|<>|\|\||\S")
    refused: list[QueryError] = []
    for _ in range(400):
        words = tokens.findall(rng.choice(texts))
        for _ in range(rng.randint(1, 3)):
            at, other = rng.randrange(len(words)), rng.randrange(len(words))
            words[at : at + rng.randint(0, 1)] = [rng.choice([words[other], *WORDS])] * rng.randint(0, 1)
        try:
            sql(" ".join(words))
        except QueryError as error:
            refused.append(error)
    assert 100 < len(refused) < 400, "some are right nevertheless"
    assert all(error.line == 1 and error.column >= 1 for error in refused)


def test_a_table_with_a_column_of_the_name_of_a_field_is_no_file() -> None:
    owners = {"link": ["A", "B"], "path": ["x", "y"], "query": ["q", "r"], "rows": [1, 2]}
    query = sql("SELECT p.link, t.path FROM packets p JOIN t ON p.link = t.link", tables={"t": owners}).sink()
    assert list(query.schema("sink")) == ["time", "link", "path"]


def test_a_table_without_event_time_among_the_sources_is_told_where_it_goes() -> None:
    with pytest.raises(ValueError, match=r"sources: 'hosts': time: not given; .*; a table that .* goes to tables="):
        sql("SELECT link FROM hosts", sources={"hosts": {"link": ["A"], "owner": ["x"]}})
