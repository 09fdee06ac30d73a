"""Plans as SQL: what is written means a stream of the same name, or the operator is named that SQL lacks."""

# ruff: noqa: E501 - queries are easier to compare on one line

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb import Plan, PlanError, plan, sql
from synergy_nb.plan import Stream, source
from tests.conftest import ROOT

CONDITIONS = [
    "bytes > 100",
    "link = 'B'",
    "NOT (link LIKE 'A%' OR bytes < 40)",
    "bytes % 2 = 1 IS NULL",
    "bytes IN (1, 2)",
]
CALLS = [
    "sum(bytes)", "sum(bytes) FILTER (WHERE link = 'B')", "max(bytes)", "max(bytes) - min(bytes) + 1", "median(bytes)",
]  # fmt: skip
OVERS = ["sum(bytes)", "bytes - lag(bytes)", "lead(bytes, 2) * rank()", "count(*) FILTER (WHERE link = 'B')"]
HOSTS = pl.DataFrame({"host": ["h001", "h002"], "site": ["Bonn", "Oslo"], "bytes": [1, 2]})
SINCE = [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 1)]  # noqa: DTZ001 - event times have no zone
VERSIONS = pl.DataFrame({"host": ["h001", "h001"], "site": ["Bonn", "Oslo"], "since": SINCE})
WINDOWS = ["1 s", "20 min", "20 min every 5 min", "90 s gap", "1.5 ms"]
ODD = {"a b": "bytes + 1", "from": "link", 'say "so"': "source", "pivot": "time", "n": "length(link || 'it''s')"}


def name_of(query: Plan) -> str:
    return query.stream_name(query.sinks[0])


def tables_of(text: str, query: Plan) -> dict[str, Any]:
    """The tables that the first line of a query names, by these names."""
    names = re.findall(r"'(\w+)': \.\.\.", text.partition("\n")[0])
    found = {
        each.params["table"]["content"]: each.params["table"]
        for each in query.operators.values()
        if each.kind == "lookup"
    }
    return dict(zip(names, found.values(), strict=True))


def written(stream: Stream) -> str:
    return stream.sink().to_sql()


@st.composite
def queries(draw: st.DrawFn) -> Stream:
    """Streams of operators that SQL has."""
    plain = [source("packets", seed=seed, links=["A", "it's"]) for seed in range(2)]
    windowed: list[Stream] = []
    for _ in range(draw(st.integers(1, 8))):
        window = draw(st.sampled_from(WINDOWS))
        kinds = ["filter", "odd", "project", "aggregate", "distinct", "sort", "top", "join", "union", "asof"]
        kinds += ["over", "lookup"]
        kinds += (
            ["filter_w", "count_w", "sort_w", "top_w", "distinct_w", "project_w", "join_w", "over_w"]
            if windowed
            else []
        )
        kind = draw(st.sampled_from(kinds))
        stream = draw(st.sampled_from(plain if not kind.endswith("_w") else windowed))
        if kind == "filter":
            plain.append(stream.filter(draw(st.sampled_from(CONDITIONS))))
        elif kind == "project":
            plain.append(stream.project("link", "source", "destination", bytes="bytes * 2"))
        elif kind == "odd":
            windowed.append(
                stream.project(dict(ODD)).aggregate(["a b", "from"], window, {"total": "sum(n)", "n": "count(*)"})
            )
        elif kind == "aggregate":
            call = draw(st.sampled_from(CALLS))
            by = draw(st.sampled_from([[], ["link"]]))
            texts = {"all": "string_agg(link, ', ')"} if draw(st.booleans()) else {}
            windowed.append(stream.aggregate(by, window, {"total": call, "n": "count(*)", **texts}))
        elif kind == "distinct":
            on = draw(st.sampled_from([[], ["link"], ["source", "link"]]))
            windowed.append(stream.distinct(*on, window=window).project(total="bytes", n="1"))
        elif kind == "sort":
            windowed.append(stream.sort("bytes desc", window=window).project(total="bytes", n="2"))
        elif kind == "top":
            per = draw(st.sampled_from([None, "link"]))
            windowed.append(stream.top(3, "bytes desc", "source", per=per, window=window).project(n="3", total="bytes"))
        elif kind == "join":
            others = [each for each in plain if each is not stream]
            how = draw(st.sampled_from([None, "left", "anti"]))
            within = draw(st.sampled_from(["0 s", "2 s", "1.5 ms"]))
            other = draw(st.sampled_from(others))
            if draw(st.booleans()) and how != "anti":
                plain.append(stream.join(other, on=["link", "source"], within=within, how=how, suffix="_x"))
            else:
                plain.append(stream.join(other, on="source", within=within, how=how))
        elif kind == "asof":
            other = draw(st.sampled_from([each for each in plain if each is not stream]))
            how = draw(st.sampled_from([None, "left"]))
            plain.append(
                stream.asof(other, on=["link", "source"], within=draw(st.sampled_from(["0 s", "2 s"])), how=how)
            )
        elif kind == "over":
            by = draw(st.sampled_from([None, "link", ["link", "source"]]))
            values = {"n": "row_number()", "total": draw(st.sampled_from(OVERS))}
            values |= {"sent": "time"} if draw(st.booleans()) else {}
            order = draw(st.sampled_from([None, ["bytes desc", "source"]]))
            windowed.append(stream.over(by, window, values, order=order).project("total", "n"))
        elif kind == "lookup":
            how = draw(st.sampled_from([None, "left"]))
            if draw(st.booleans()):
                found = stream.lookup(HOSTS, on={"source": "host"}, how=how, prefix="h_").filter("h_bytes > 1")
                plain.append(found.project("link", "source", "destination", bytes="length(h_site)"))
            else:
                found = stream.lookup(VERSIONS, on={"link": "host"}, valid_from="since", how=how)
                plain.append(found.project("link", "source", "destination", bytes="length(site)"))
        elif kind == "over_w":
            windowed.append(stream.over("n", values={"before": "lag(total)"}).project("n", total="before"))
        elif kind == "union":
            one, other = (each.project("link", "source", "destination", "bytes") for each in (stream, plain[-1]))
            plain.append(one.union(other))
        elif kind == "filter_w":
            windowed.append(
                stream.filter(draw(st.sampled_from(["total > 3 OR n = 1", "n = 2 OR time > window_start"])))
            )
        elif kind == "count_w":
            windowed.append(stream.count("total").project("total", n="CASE WHEN window_start < time THEN 1 END"))
        elif kind == "sort_w":
            windowed.append(stream.sort("total desc", "n"))
        elif kind == "top_w":
            windowed.append(
                stream.top(2, draw(st.sampled_from(["total", "time desc"])), per=draw(st.sampled_from([None, "n"])))
            )
        elif kind == "distinct_w":
            windowed.append(stream.distinct(*draw(st.sampled_from([[], ["n"]]))))
        elif kind == "project_w":
            windowed.append(stream.project(total="total", n="n", s="window_start").filter("s < time"))
        else:
            other = stream.project(m="total", n="n")
            windowed.append(stream.join(other, on=["n", "window_start", "window_end"], within="0 s"))
    return draw(st.sampled_from(plain + windowed))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(queries())
def test_the_query_of_a_plan_is_a_stream_of_the_same_name(stream: Stream) -> None:
    given_plan = stream.sink()
    text = given_plan.to_sql()
    again = sql(text, tables=tables_of(text, given_plan)).sink()
    assert name_of(again) == name_of(given_plan), text
    text = again.to_sql()
    assert name_of(sql(text, tables=tables_of(text, again)).sink()) == name_of(given_plan), text


def test_sql_is_what_a_person_would_write() -> None:
    traffic = source("packets", seed=1).filter("link = 'B'")
    sums = traffic.aggregate(by=["source", "destination"], window="10 s", total="sum(bytes)", n="count(*)")
    assert written(sums.filter("n > 5").top(3, "total desc")) == (
        "SELECT destination, source, sum(bytes) AS total, count(*) AS n\n"
        "FROM packets(seed = 1)\n"
        "WHERE link = 'B'\n"
        "GROUP BY destination, source, TUMBLE(time, INTERVAL '10 seconds')\n"
        "HAVING n > 5\n"
        "ORDER BY total DESC\n"
        "LIMIT 3\n"
    )
    both = sums.project("source", "total").join(sums.project("source", "n"), on="source", within="1 min")
    assert written(both) == (
        "WITH aggregate AS (\n"
        "    SELECT destination, source, sum(bytes) AS total, count(*) AS n\n"
        "    FROM packets(seed = 1)\n"
        "    WHERE link = 'B'\n"
        "    GROUP BY destination, source, TUMBLE(time, INTERVAL '10 seconds')\n"
        ")\n"
        "SELECT l.source, l.total, r.n\n"
        "FROM (\n    SELECT source, total\n    FROM aggregate\n) AS l JOIN (\n    SELECT source, n\n    FROM aggregate\n) AS r "
        "ON l.source = r.source AND l.time BETWEEN r.time - INTERVAL '1 minute' AND r.time + INTERVAL '1 minute'\n"
    )


def test_a_stream_of_the_name_of_a_source_gets_another_one() -> None:
    counts = PACKETS.aggregate("link", "10 s", n="count(*)", id="packets")
    both = counts.join(counts.filter("n > 1"), on=["link", "window_start", "window_end"], within="0 s")
    text = written(both)
    assert text.startswith("WITH packets_ AS (\n")
    assert name_of(sql(text).sink()) == name_of(both.sink())


def test_tables_have_the_names_of_their_files(tmp_path: Path) -> None:
    file = str(tmp_path / "it's.csv")
    HOSTS.write_csv(file)
    VERSIONS.write_csv(tmp_path / "fares.csv")
    both = PACKETS.lookup(file, on={"source": "host"}, prefix="r_").lookup(
        VERSIONS, on={"destination": "host"}, valid_from="since", how="left"
    )
    text = written(both.project("r_site", "site"))
    assert text == (
        f"-- to be read by sql(..., tables={{\"it's\": {file!r}, 'lookup_2': ...}})\n"
        "SELECT r_site, site\n"
        "FROM (\n"
        "    SELECT\n"
        "        l.link,\n        l.source,\n        l.destination,\n        l.source_port,\n"
        "        l.destination_port,\n        l.bytes,\n        l.r_site,\n        l.r_bytes,\n        r.site,\n"
        "        r.since\n"
        "    FROM (\n"
        "        SELECT\n"
        "            l.link,\n            l.source,\n            l.destination,\n            l.source_port,\n"
        "            l.destination_port,\n            l.bytes,\n            r.site AS r_site,\n"
        "            r.bytes AS r_bytes\n"
        '        FROM packets AS l JOIN "it\'s" AS r ON l.source = r.host\n'
        "    ) AS l ASOF LEFT JOIN lookup_2 AS r ON l.destination = r.host AND l.time >= r.since\n"
        ")\n"
    )
    again = sql(text, tables={"it's": file, "lookup_2": VERSIONS}).sink()
    assert name_of(again) == name_of(both.project("r_site", "site").sink())


def test_sources_of_all_kinds_are_written() -> None:
    file = source(
        "trace", path="it's.csv", format="csv", columns={"when": "time", "a b": "str"}, time="when", at="peer-1"
    )
    rows = source("python", name="clicks", columns={"user": "str"}, lateness="2 s", engine="peer")
    slow = source("packets", speed=0.5, links=["A"], signature=[["2 s", "400/s"], ["8 s", "25/s"]], flags=True)
    for stream in (file, rows, slow, source("peers", interval="500 ms")):
        given_plan = stream.sink()
        again = sql(given_plan.to_sql()).sink()
        assert again.operators == given_plan.operators


PACKETS = source("packets")
REFUSED: dict[str, Plan] = {
    "operator 'sample', kind: 'sample'": PACKETS.sample("5 %").sink(),
    "operator 'encrypt', kind: 'encrypt'": PACKETS.encrypt("link", key="k").sink(),
    "operator 'filter', cost": PACKETS.filter("bytes > 1", cost="2 us").sink(),
    "operator 'filter', engine": PACKETS.filter("bytes > 1", engine="peer").sink(),
    "operator 'sink', at": PACKETS.sink(at="peer-1"),
    "operator 'aggregate', half_life": PACKETS.aggregate(window="1 s", n="count(*)", half_life="1 s").sink(),
    "operator 'aggregate', window: '5 rows'": PACKETS.aggregate(window="5 rows", n="count(*)").sink(),
    "operator 'aggregate', values": PACKETS.aggregate(window="1 s", n="count(*)", m="count(*)").sink(),
    "operator 'count', window": PACKETS.count(window="1 s").sink(),
    "operator 'top', window: '5 rows'": PACKETS.top(1, "bytes", window="5 rows").sink(),
    "operator 'sort', by": PACKETS.sort("time", window="1 s").sink(),
    "operator 'over', values.n: 'bytes + 1'": PACKETS.over(None, "1 s", n="bytes + 1", m="rank()").sink(),
    "operator 'lookup', prefix: 'h'": PACKETS.lookup(HOSTS, on={"source": "host"}, prefix="h").sink(),
    "operator 'lookup', prefix: 'h_'": PACKETS.lookup(VERSIONS, on={"source": "host"}, prefix="h_", valid_from="since").sink(),
    "operator 'join', suffix": PACKETS.project("link").join(source("packets", seed=2).project("link", "bytes"), on="link", within="1 s", suffix="_b").sink(),
    "one sink: a query has one result": plan(PACKETS.sink("a"), PACKETS.filter("bytes > 1").sink("b")),
}  # fmt: skip


@pytest.mark.parametrize("place", REFUSED)
def test_what_sql_does_not_say_is_named(place: str) -> None:
    with pytest.raises(PlanError) as caught:
        REFUSED[place].to_sql()
    assert place in str(caught.value)


@pytest.mark.parametrize("name", ["2_customer_share", "3_http_by_source", "5_half_open", "6_flows"])
def test_plan_files_are_queries(name: str) -> None:
    query = Plan.from_yaml(Path(ROOT / "notebooks" / "plans" / f"{name}.yaml").read_text("utf-8"))
    assert name_of(sql(query.to_sql()).sink()) == name_of(query)
