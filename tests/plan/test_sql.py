"""The SQL subset: what is taken, what is refused by name, one text for all spellings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql._sql_precedence import with_parentheses

SCHEMA = {
    "i": "int", "j": "int", "f": "float", "g": "float", "s": "str", "u": "str", "p": "bool", "q": "bool",
    "time": "time", "Source IP": "str", "order": "int", "secret": "bytes",
    "day": "date", "last": "duration", "m": "decimal(9, 2)", "items": "int[]",
    "place": 'struct(city str, "at " float[])',
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "canonical", "kind"),
    [
        ("i", "i", "int"),
        ("( ( i ) )", "i", "int"),
        ("link_is ( 1 )".replace("link_is ( 1 )", "i+1"), "i + 1", "int"),
        ("1+i", "i + 1", "int"),
        ("j*i+1", "i * j + 1", "int"),
        ("j + (1 + i)", "i + j + 1", "int"),
        ("g + f + 1", "f + g + 1", "float"),
        ("i / j", "i / j", "float"),
        ("mod(i, 2)", "i % 2", "int"),
        ("i - (j - 1)", "i - (j - 1)", "int"),
        ("- - i", "-(-i)", "int"),
        ("5 < i", "i > 5", "bool"),
        ("'B'=s", "s = 'B'", "bool"),
        ("u != s", "s <> u", "bool"),
        ("not (s = u)", "s <> u", "bool"),
        ("not not p", "p", "bool"),
        ("p = q is null", "(p = q) IS NULL", "bool"),
        ("p = (q is null)", "p = (q IS NULL)", "bool"),
        ("not s = u is not null and p", "(s = u) IS NULL AND p", "bool"),
        ("i between 1 and 2 = p is null", "((i <= 2 AND i >= 1) = p) IS NULL", "bool"),
        ("case when p = q is null then 1 end", "CASE WHEN (p = q) IS NULL THEN 1 END", "int"),
        ("i > -9223372036854775808", "i > -9223372036854775808", "bool"),
        ("time >= '2026-01-31'", "time >= CAST('2026-01-31 00:00:00' AS TIMESTAMP)", "bool"),
        ("'2026-01-31T12:00:00+02:00' < time", "time > CAST('2026-01-31 10:00:00' AS TIMESTAMP)", "bool"),
        ("time = timestamp '2026-01-31 10:00:00.5'", "time = CAST('2026-01-31 10:00:00.500000' AS TIMESTAMP)", "bool"),
        (
            "time between '20260131' and date '2026-02-01'",
            "time <= CAST('2026-02-01 00:00:00' AS TIMESTAMP) AND time >= CAST('2026-01-31 00:00:00' AS TIMESTAMP)",
            "bool",
        ),
        ("q and p and q", "p AND q", "bool"),
        ("q or (p and i>1)", "i > 1 AND p OR q", "bool"),
        ("(q or p) and i>1", "i > 1 AND (p OR q)", "bool"),
        ("i in (3, 1, 1)", "i IN (1, 3)", "bool"),
        ("i not in (1)", "i <> 1", "bool"),
        ("i between 1 and j+1", "i <= j + 1 AND i >= 1", "bool"),
        ("s is not null", "s IS NOT NULL", "bool"),
        ("s not like 'a%'", "s NOT LIKE 'a%'", "bool"),
        ("case i when 1 then 2 else 2.5 end", "CASE WHEN i = 1 THEN 2 ELSE 2.5 END", "float"),
        ("cast(i as varchar)", "CAST(i AS STRING)", "str"),
        ("try_cast(s as integer)", "CAST(s AS BIGINT)", "int"),
        ("s::double", "CAST(s AS DOUBLE)", "float"),
        ("cast(p as str)", "CAST(p AS STRING)", "str"),
        ("s || 'x' || u", "concat(s, 'x', u)", "str"),
        ("substring(s from 2 for 3)", "substr(s, 2, 3)", "str"),
        ("ceiling(f)", "ceil(f)", "float"),
        ("Round(f, 2)", "round(f, 2)", "float"),
        ("greatest(j, 1, i)", "greatest(i, j, 1)", "int"),
        ("coalesce(j, i, 0)", "coalesce(j, i, 0)", "int"),
        ("extract(hour from time)", "hour(time)", "int"),
        ("EXTRACT(dow FROM time)", "dayofweek(time)", "int"),
        ("date_part('doy', time)", "dayofyear(time)", "int"),
        ("LEN(s)", "length(s)", "int"),
        ("trim(both 'x' from s)", "trim(s, 'x')", "str"),
        ("trim(leading from s)", "ltrim(s)", "str"),
        ("position('x' in s)", "strpos(s, 'x')", "int"),
        ("instr(s, 'x')", "strpos(s, 'x')", "int"),
        ("pow(f, 2)", "power(f, 2)", "float"),
        ("regexp_like(s, 'a')", "regexp_matches(s, 'a')", "bool"),
        ("regexp_replace(s, '(a)', '<\\1>', 'g')", "regexp_replace(s, '(a)', '<\\1>', 'g')", "str"),
        ("s ilike 'A%'", "lower(s) LIKE 'a%'", "bool"),
        ("s not ilike 'A%'", "lower(s) NOT LIKE 'a%'", "bool"),
        ("if(p, i, f)", "CASE WHEN p THEN i ELSE f END", "float"),
        ("nullif(i, 0)", "CASE WHEN i = 0 THEN NULL ELSE i END", "int"),
        ("ifnull(i, 0)", "coalesce(i, 0)", "int"),
        ("i//2*3", "i // 2 * 3", "int"),
        ("i * (j // 2)", "i * (j // 2)", "int"),
        ("trunc(f)", "trunc(f)", "float"),
        ("date_trunc('Hours', time)", "date_trunc('hour', time)", "time"),
        (
            "date_diff('day', '2026-01-31', time)",
            "date_diff('day', CAST('2026-01-31 00:00:00' AS TIMESTAMP), time)", "int",
        ),
        ("interval '1 hour' + time", "time + INTERVAL '1' HOUR", "time"),
        ("time + interval '60 minutes'", "time + INTERVAL '1' HOUR", "time"),
        ("time + interval '1 day 2 hours'", "time + INTERVAL '26' HOUR", "time"),
        ("time + interval '-2 days'", "time - INTERVAL '2' DAY", "time"),
        ("NULL + interval 1 day", "NULL + INTERVAL '1' DAY", "time"),
        ("time - interval 1 year", "time - INTERVAL '12' MONTH", "time"),
        ('"Source IP" = \'::1\'', "\"Source IP\" = '::1'", "bool"),
        ('"order" > 0', '"order" > 0', "bool"),
        ("'it''s' = s", "s = 'it''s'", "bool"),
        ("1e3 < f", "f > 1000", "bool"),
        ("i > 9.0", "i > 9", "bool"),
        ("9.0 < i", "i > 9", "bool"),
        ("i > -0.0", "i > 0", "bool"),
        ("i IN (9.00, -2e0, 2.5)", "i IN (-2, 2.5, 9)", "bool"),
        ("f BETWEEN 1.0 AND 2.5", "f <= 2.5 AND f >= 1", "bool"),
        ("i + 1.0 > 9.5", "i + 1.0 > 9.5", "bool"),
        ("i > 9007199254740992.0", "i > 9007199254740992.0", "bool"),
        ("f > 1.50 -- a comment", "f > 1.5", "bool"),
        ("null", "NULL", "null"),
        ("count(*)", "count(*)", "int"),
        ("COUNT(DISTINCT s)", "count(DISTINCT s)", "int"),
        ("sum(i+1)", "sum(i + 1)", "int"),
        ("Avg(i)", "avg(i)", "float"),
        ("max(time)", "max(time)", "time"),
        ("count_if(i > 2)", "count(CASE WHEN i > 2 THEN 1 END)", "int"),
        ("any_value(s)", "min(s)", "str"),
        ("count(*) filter (where p)", "count(CASE WHEN p THEN 1 END)", "int"),
        ("Avg(f) FILTER (WHERE i > 0 AND p)", "avg(CASE WHEN i > 0 AND p THEN f END)", "float"),
        ("count(distinct s) filter (where p)", "count(DISTINCT CASE WHEN p THEN s END)", "int"),
    ],
)  # fmt: skip
def test_the_canonical_text_is_stable_and_has_the_inferred_type(text: str, canonical: str, kind: str) -> None:
    assert sql.canonical(text, SCHEMA) == canonical
    assert sql.canonical(canonical, SCHEMA) == canonical
    assert sql.infer_type(text, SCHEMA) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("User Name = 'ann'", 'the column User Name takes double quotes: "User Name"'),
        ("`User Name` = 'ann'", 'the column User Name takes double quotes: "User Name"'),
        ("sum (€) > 3", 'the column sum (€) takes double quotes: "sum (€)"'),
        ("a.b = 2", 'the column a.b takes double quotes: "a.b"'),
        ("from = 'x'", 'the column from takes double quotes: "from"'),
        ("sum = 2", "did you mean '\"sum (€)\"'?"),
        ("sum = 'User Name'", "did you mean '\"sum (€)\"'?"),
    ],
)
def test_an_odd_name_without_quotes_is_shown_with_them(text: str, said: str) -> None:
    odd = {"User Name": "str", "sum (€)": "float", "a.b": "int", "from": "str"}
    with pytest.raises(sql.SqlError) as caught:
        sql.parse(text, odd)
    assert str(caught.value).endswith(said) or f"{said};" in str(caught.value)


@pytest.mark.parametrize(
    "spellings",
    [
        ("i BETWEEN 1 AND 5", "i >= 1 AND i <= 5", "5 >= i AND NOT i < 1", "NOT (i < 1 OR i > 5)"),
        ("i IN (2, 1)", "i = 1 OR i = 2", "1 = i OR i IN (2)", "NOT (i <> 1 AND i <> 2)", "NOT i NOT IN (1, 2)"),
        ("i NOT IN (1, 2)", "i <> 1 AND i <> 2", "NOT (i = 2 OR i = 1)", "i <> 1 AND i NOT IN (2)"),
        ("NOT (p AND i > 3)", "NOT p OR i <= 3", "i <= 3 OR NOT p"),
        ("NOT (p OR q AND i > 3)", "NOT p AND (NOT q OR i <= 3)"),
        ("s IN ('a', 'b', NULL)", "s = 'b' OR s IN (NULL, 'a')"),
        ("p AND (q AND i = 1)", "(p AND i IN (1)) AND q", "p AND NOT (NOT q OR i <> 1)"),
        ("NOT (i IS NULL)", "i IS NOT NULL"),
        ("CASE WHEN NOT i < 1 THEN p END", "CASE WHEN i >= 1 THEN p END"),
    ],
)
def test_equal_conditions_have_one_text(spellings: tuple[str, ...]) -> None:
    assert len({sql.canonical(text, SCHEMA | {"q": "bool"}) for text in spellings}) == 1


def test_literals_of_two_types_are_not_compared_as_one() -> None:
    """An integer above 2^53 equals others as a float, so an integer and a float are not members of one list."""
    assert sql.canonical("i = 9007199254740993 OR i = 2.5", SCHEMA) == "i = 2.5 OR i = 9007199254740993"


def test_floating_point_sums_keep_their_grouping() -> None:
    """(a + b) + c and a + (b + c) may differ in the last bit, so they are different work."""
    assert sql.canonical("(f + g) + 1.5", SCHEMA) != sql.canonical("f + (g + 1.5)", SCHEMA)
    assert sql.canonical("(g + f) + 1.5", SCHEMA) == sql.canonical("1.5 + (f + g)", SCHEMA)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(select 1)", "no subquery"),
        ("i in (select 1)", "not a subquery"),
        ("exists(select 1)", "no subquery"),
        ("sum(i) over (partition by s)", "no window function"),
        ("i filter (where p)", "cannot be read at column"),
        ("lower(s) filter (where p)", "no FILTER (WHERE ...) but of an aggregate call"),
        ("count_if(p) > 1", "() only in a value of an aggregate"),
        ("sqrd(f)", "did you mean 'sqrt'"),
        ("erf(f)", "not erf()"),
        ("lowr(s)", "did you mean 'lower'"),
        ("sqrt(f, 2)", "expected sqrt(number)"),
        ("sqrt(s)", "a number, not str"),
        ("contains(s)", "contains(text, part)"),
        ("lpad(s, i, '0')", "an integer literal from 0 to 10000 where i stands, as in lpad(text, length, 'filling')"),
        ("lpad(s, 5, '')", "a literal text where '' stands"),
        ("split_part(s, ',', 0)", "an integer literal from 1"),
        ("replace(s, u, 'a')", "a literal text where u stands"),
        ("regexp_matches(s, 'a(')", "a closing parenthesis for '(' at character 2"),
        ("regexp_extract(s, '(a)', 2)", "at most 1, the number of groups"),
        ("regexp_replace(s, 'a', '\\1')", "at most \\0, the last group"),
        ("regexp_replace(s, 'a', 'b', 'x')", "'g', for all matches where 'x' stands"),
        ("regexp_matches(u, s)", "a literal text where s stands"),
        ("date_trunc('eon', time)", "one of the units 'microsecond'"),
        ("date_trunc(u, time)", "one of the units 'microsecond'"),
        ("date_diff('day', time, 'soon')", "a time as ISO 8601 text"),
        ("local_time(time, 'Mars')", "a time zone by its name, such as 'Europe/Berlin' where 'Mars' stands"),
        ("time at time zone 'UTC'", "local_time(time, 'zone') is the time there"),
        ("extract(century from time)", "not extract century()"),
        ("time + interval '1 month 2 hours'", "an interval of months, or else of other units"),
        ("time + interval '10001' year", "of at most 10000 years"),
        ("time - interval '3660001 days'", "of at most 10000 years"),
        ("time + interval '5 parsecs'", "in one of the units microsecond"),
        ("time + interval ''", "such as INTERVAL '90 minutes'"),
        ("i + interval '1' day", "a time, a date or a duration, not int"),
        (
            "interval '2' second - time",
            "two times, two dates, a date and an int, or a duration and an int as factor, not duration",
        ),
        ("time + time", "not time and time"),
        ("day * 2", "not date and int"),
        ("day + f", "not date and float"),
        ("day + s", "not date and str"),
        ("last / 2", "not duration and int"),
        ("last > 3", "operands of one type, not duration and int"),
        ("day > 3", "not date and int; a date is written as ISO 8601 text, such as '2026-01-31'"),
        ("day > '2026-01-31 12:00'", "a date as ISO 8601 text"),
        ("m % 2", "float or int, not decimal(9, 2)"),
        ("m // 2", "expected int, not decimal(9, 2)"),
        ("m * cast(m as decimal(38, 37))", "factors of at most 38 digits behind the point in all"),
        ("cast(s as date)", "CAST of a time or a date, not of text; a date is written as ISO 8601 text"),
        ("cast(i as decimal(39, 2))", "expected CAST to bool, date, decimal(18, 2), float, int, str, time"),
        ("cast(last as str)", "expected bool or date or decimal or float or int or str, not duration"),
        ("hour(last)", "a time or a date, not duration"),
        ("current_timestamp", "not current_timestamp()"),
        ("interval '2' month", "an interval of months only after '+' or '-' and a time or a date"),
        ("s ilike u", "no ILIKE but with a literal pattern"),
        ("s like 'a' escape '!'", "no ESCAPE"),
        ("s like u", "a literal pattern"),
        ("i & 1", "no '&'"),
        ("f // 2", "expected int, not float"),
        ("i is distinct from j", "NULLSAFENEQ"),
        ("p is true", "IS NULL or IS NOT NULL"),
        ("[1, 2]", "no array"),
        ("items = items", "a value without parts, not int[]"),
        ("place.zip", "'zip'; expected a field of struct(city str, \"at \" float[])"),
        ("place.city.a", "a struct, not str"),
        ("items[1:2]", "no slice of a list"),
        ("items['a']", "a struct, not int[]"),
        ("list_contains(items, 'a')", "an element of type int, not str"),
        ("length(i)", "text or a list, not int"),
        ("upper(items)", "text (str), not int[]"),
        ("cast(items as str)", "not int[]"),
        ("?", "no parameter"),
        ("*", "no '*'"),
        ("t.i", "'t'; expected a column of its input"),
        ("i as k", "cannot be read"),
        ("i; drop table x", "expected SQL of the documented subset"),
        ("select i", "cannot be read"),
        ("i =", "cannot be read"),
        ("'abc", "expected SQL of the documented subset"),
        ("", "a SQL expression, as text"),
        ("   ", "a SQL expression, as text"),
        ("cast(i as date)", "a time or a date, not int"),
        ("cast(i as uuid)", "CAST to bool, date, decimal(18, 2), float, int, str, time"),
        ("cast(time as int)", "not time"),
        ("9223372036854775808", "an integer of 64 bits"),
        ("2 - 9223372036854775808", "an integer of 64 bits"),
        ("time > 'yesterday'", "a time as ISO 8601 text"),
        ("time > s", "not time and str; a time is written as ISO 8601 text"),
        ("time > 0", "not time and int; a time is written as ISO 8601 text"),
        ("i < j < 3", "connected by AND"),
        ("p = i < j", "connected by AND"),
        ("1e999", "a finite number"),
        ("count(*) + 1", "() only in a value of an aggregate"),
        ("ii = 1", "expected a column of its input"),
        ("time + 1", "not time and int"),
        ("s + 1", "a number, not str"),
        ("s = 1", "operands of one type, not str and int"),
        ("p and i", "a condition, not int"),
        ("coalesce(i, 'x')", "operands of one type"),
        ("hour(i)", "expected a time or a date, not int"),
        ("substr(s, i)", "an integer literal from 1"),
        ("secret < secret", "not bytes"),
        ("(" * 4000 + "i" + ")" * 4000, "nested less deeply"),
        ("i" + " + i" * 4000, "at most 10000 characters"),
    ],
)
def test_refused_expressions_are_named_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(sql.SqlError) as caught:
        sql.parse(text, SCHEMA)
    assert said in str(caught.value)


def test_the_place_of_each_character_in_the_given_text_is_known_where_parentheses_are_added() -> None:
    text = "a = b IS NULL"
    assert with_parentheses(text) == "(a = b) IS NULL"
    assert sql.aligned(text) == [0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12]
    assert sql.aligned("a = b") == [0, 1, 2, 3, 4]


def test_every_fault_of_an_expression_is_reported() -> None:
    with pytest.raises(sql.SqlError) as caught:
        sql.parse("ii = 1 AND erf(f) > 2 AND s > 3", SCHEMA)
    assert [wrong.value for wrong in caught.value.wrongs] == ["ii", "ERF(f)", "s > 3"]
    assert caught.value.wrongs[0].nearest == "i"


@pytest.mark.parametrize(
    "text",
    [
        "sum(s)",
        "count_if(i)",
        "any_value(p)",
        "sum(i) filter (where j)",
        "sum(count(*))",
        "sum(distinct i)",
        "count(distinct i, j)",
        "i",
        "i + sum(i)",
        "sum(i + max(i))",
        "max(p)",
        "stddev(s)",
        "quantile_cont(s, 0.5)",
        "quantile_cont(i, 1.1)",
        "quantile_disc(i, j)",
        "quantile_disc(p, 0.5)",
        "string_agg(i, ',')",
        "string_agg(s, t)",
        "string_agg(distinct s)",
        "string_agg(s order by i)",
        "first(i) filter (where p)",
        "first(i, j)",
        "lag(i)",
    ],
)
def test_aggregate_calls_outside_the_subset_are_refused(text: str) -> None:
    with pytest.raises(sql.SqlError):
        sql.parse(text, SCHEMA, aggregate=True)


def test_who_counts_nothing_is_told_how_tuples_are_counted() -> None:
    with pytest.raises(sql.SqlError, match=re.escape("expected count(*), or count of one expression")):
        sql.parse("count()", SCHEMA, aggregate=True)


@pytest.mark.parametrize(
    ("text", "written", "kind"),
    [
        ("stddev(i)", "stddev_samp(i)", "float"),
        ("variance(f) filter (where p)", "var_samp(CASE WHEN p THEN f END)", "float"),
        ("median(i)", "quantile_cont(i, 0.5)", "float"),
        ("quantile(s, .9)", "quantile_disc(s, 0.9)", "str"),
        ("percentile_cont(0.5) within group (order by i)", "quantile_cont(i, 0.5)", "float"),
        ("string_agg(s)", "string_agg(s, ',')", "str"),
        ("string_agg(lower(s), '; ')", "string_agg(lower(s), '; ')", "str"),
        ("first(p)", "first(p)", "bool"),
        ("approx_distinct(s)", "approx_count_distinct(s)", "int"),
        ("100.0 * count_if(p) / count(*)", "count(CASE WHEN p THEN 1 END) * 100.0 / count(*)", "float"),
        ("max(i) - min(i) > 9", "max(i) - min(i) > 9", "bool"),
    ],
)
def test_expressions_over_aggregate_calls_have_a_canonical_text_and_a_type(text: str, written: str, kind: str) -> None:
    tree = sql.parse(text, SCHEMA, aggregate=True)
    assert (sql.canonical(tree), sql.infer_type(tree, SCHEMA)) == (written, kind)
    assert sql.canonical(sql.parse(written, SCHEMA, aggregate=True)) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lag(i, 0)", "a number of rows, from 1 where 0 stands"),
        ("lag(i, j)", "a number of rows, from 1 where j stands"),
        ("lag()", "lag(x) or lag(x, rows)"),
        ("rank(i)", "rank()"),
        ("lag(lag(i))", "not within another such call"),
        ("lag(i) filter (where p)", "no FILTER (WHERE ...) but of an aggregate call"),
        ("first(i)", "a call of avg, count"),
        ("median(i)", "a call of avg, count"),
    ],
)
def test_calls_over_rows_in_order_outside_the_subset_are_refused(text: str, said: str) -> None:
    with pytest.raises(sql.SqlError) as caught:
        sql.parse(text, SCHEMA, over=True)
    assert said in str(caught.value)
    assert sql.canonical(sql.parse("i - LAG( i )", SCHEMA, over=True)) == "i - lag(i)"


def test_the_columns_of_an_expression_are_found() -> None:
    assert sql.columns('CASE WHEN "Source IP" = s THEN i ELSE j + i END') == ("Source IP", "i", "j", "s")
    assert sql.columns(sql.parse("count(*)", SCHEMA, aggregate=True)) == ()


def test_without_a_schema_only_the_subset_is_checked() -> None:
    assert sql.canonical("B = a and c") == "B = a AND c"
    with pytest.raises(sql.SqlError):
        sql.canonical("erf(a)")


def test_the_tree_is_the_callers_own() -> None:
    tree = sql.parse("i + 1", SCHEMA)
    tree.set("expression", None)
    assert sql.canonical(sql.parse("i + 1", SCHEMA)) == "i + 1"


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the rows of TABLE as ``trace``."""
    with duckdb.connect() as connection:
        connection.register("trace", TABLE.to_arrow())
        yield connection


NAMES = """
time source destination bytes host file directory operation request link value metric peer target n count sum min max
avg total hour minute date timestamp interval end order group key first last left right position index type user any set
row rows window select from case cast true null lower replace with window_start port status name language level map
struct array offset filter values schema database table view pragma show describe current_date x-y ä 1st q"q
"""


@pytest.mark.parametrize("word", [*NAMES.split(), "a b"])
def test_every_column_name_can_be_written(engine: duckdb.DuckDBPyConnection, word: str) -> None:
    """Whatever a column is called, its quoted form is that column, for us and for DuckDB."""
    text = f"{sql.quoted(word)} > 1 AND {sql.quoted(word)} < 5"
    assert sql.columns(text) == (word,)
    canonical = sql.canonical(text, {word: "int"})
    assert sql.canonical(canonical, {word: "int"}) == canonical
    assert engine.execute(f"SELECT {canonical} FROM (SELECT 3 AS {sql.quoted(word)})").fetchall() == [(True,)]


@pytest.mark.slow
def test_operators_bind_as_in_duckdb(engine: duckdb.DuckDBPyConnection) -> None:
    """Conditions without parentheses mean the same, or are refused where DuckDB refuses them."""
    rows = "(SELECT * FROM (VALUES (TRUE), (FALSE), (NULL)) b(b), (VALUES (TRUE), (FALSE), (NULL)) c(c))"
    tests, links = ("", " IS NULL", " IS NOT NULL", " ISNULL"), (" = ", " <> ", " AND ", " OR ", " AND NOT ")
    for negation, first, test, second, last in product(("", "NOT "), links, tests, links, tests[:2]):
        text = f"{negation}b{first}c{test}{second}b{last}"
        query = f"SELECT b, c FROM {rows} WHERE {{}} ORDER BY ALL"
        try:
            expected = engine.execute(query.format(text)).fetchall()
        except duckdb.ParserException:
            with pytest.raises(sql.SqlError, match="connected by AND"):
                sql.canonical(text, {"b": "bool", "c": "bool"})
            continue
        found = engine.execute(query.format(sql.canonical(text, {"b": "bool", "c": "bool"}))).fetchall()
        assert found == expected, text


# -- random expressions ----------------------------------------------------------------------------------------------


def _numbers(inner: st.SearchStrategy[str], words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.flatmap(lambda two: st.sampled_from([f"({two[0]} {sign} {two[1]})" for sign in "+-*"])),
        pair.map(lambda two: f"coalesce({two[0]}, {two[1]})"),
        pair.map(lambda two: f"greatest({two[0]}, {two[1]})"),
        inner.map(lambda one: f"abs({one})"),
        inner.map(lambda one: f"- {one}"),
        words.map(lambda one: f"length({one})"),
    )


WORDS = st.one_of(
    st.sampled_from(["s", "u", "'a'", "'it''s'", "upper(s)", "concat(s, u)", "s || 'x' || u", "substr(s, 1, 2)"])
)
INTS = st.recursive(st.sampled_from(["i", "j", "0", "7", "order_"]), lambda inner: _numbers(inner, WORDS), max_leaves=5)
FLOATS = st.recursive(
    st.sampled_from(["f", "g", "0.5", "1e2"]), lambda inner: st.one_of(_numbers(inner, WORDS), INTS), max_leaves=5
)
CONDITIONS = st.recursive(
    st.one_of(
        st.sampled_from(["p", "q", "TRUE", "s IS NULL", "f is not null"]),
        st.tuples(INTS, st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]), FLOATS).map(" ".join),
        st.tuples(WORDS, st.sampled_from(["=", "<>", "<", ">="]), WORDS).map(" ".join),
        st.tuples(INTS, INTS, INTS).map(lambda three: f"{three[0]} between {three[1]} and {three[2]}"),
        st.tuples(INTS, INTS, INTS).map(lambda three: f"{three[0]} not in ({three[1]}, {three[2]})"),
        WORDS.map(lambda one: f"{one} LIKE 'a%'"),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "OR"]), inner).map(lambda three: f"({' '.join(three)})"),
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, inner, inner).map(lambda three: f"case when {three[0]} then {three[1]} else {three[2]} end"),
    ),
    max_leaves=6,
)
RANDOM_SCHEMA = {
    "i": "int",
    "j": "int",
    "order_": "int",
    "f": "float",
    "g": "float",
    "s": "str",
    "u": "str",
    "p": "bool",
    "q": "bool",
}
TABLE = pl.DataFrame(
    {
        "i": [1, -3, None, 0],
        "j": [2, -3, 4, None],
        "order_": [5, 6, 7, 8],
        "f": [0.5, -1.25, None, 100.0],
        "g": [2.0, 0.5, 7.75, None],
        "s": ["a", "B", None, "it's"],
        "u": ["ab", "", "x", None],
        "p": [True, False, None, True],
        "q": [None, False, True, True],
    }
)


@pytest.mark.slow
@given(text=st.one_of(CONDITIONS, INTS, WORDS))
@settings(max_examples=100)
def test_the_canonical_text_means_the_same_and_is_its_own_canonical_text(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    canonical = sql.canonical(text, RANDOM_SCHEMA)
    assert sql.canonical(canonical, RANDOM_SCHEMA) == canonical
    assert sql.infer_type(canonical, RANDOM_SCHEMA) == sql.infer_type(text, RANDOM_SCHEMA)
    # concat() skips NULL in DuckDB, `||` does not; the subset's meaning is the latter's, and not at issue here
    rows = [engine.execute(f"SELECT {_with_pipes(one)} FROM trace").fetchall() for one in (text, canonical)]
    assert rows[0] == rows[1]


def _with_pipes(text: str) -> str:
    return text.replace("s || 'x' || u", "concat(s, 'x', u)")


@pytest.mark.slow
@given(CONDITIONS, CONDITIONS, INTS, INTS)
@settings(max_examples=60)
def test_canonical_texts_ignore_the_order_of_commutative_operands(p: str, q: str, a: str, b: str) -> None:
    def same(left: str, right: str) -> None:
        assert sql.canonical(left, RANDOM_SCHEMA) == sql.canonical(right, RANDOM_SCHEMA)

    same(f"({p}) AND ({q})", f"({q})  and ({p})")
    same(f"({p}) OR ({q})", f"({q}) or ({p})")
    same(f"({a}) + ({b})", f"({b})+({a})")
    same(f"({a}) * ({b})", f"({b})*({a})")
    same(f"({a}) = ({b})", f"({b}) = ({a})")
    same(f"({a}) < ({b})", f"({b}) > ({a})")
    same(f"({a}) IN (({b}), 3)", f"({a}) in (3, ({b}))")


@pytest.mark.slow
@given(CONDITIONS)
@settings(max_examples=60)
def test_polars_reads_the_canonical_text(text: str) -> None:
    pl.sql_expr(sql.canonical(text, RANDOM_SCHEMA))


@pytest.mark.slow
@given(st.text(max_size=40))
@settings(max_examples=200)
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        canonical = sql.canonical(sql.parse(text, SCHEMA))
    except sql.SqlError as error:
        assert error.wrongs  # noqa: PT017 - either outcome is right
    else:
        assert sql.canonical(canonical, SCHEMA) == canonical
