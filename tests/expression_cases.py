"""Expressions of SQL, drawn at random, and a table for them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import polars as pl
from hypothesis import strategies as st

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql.sql_translation import UNITS

SCHEMA = {
    "time": "time",
    "a": "int",
    "b": "int",
    "x": "float",
    "y": "float",
    "s": "str",
    "t": "str",
    "p": "bool",
    "q": "bool",
}


TEXTS = ["", "abc", "ABC", "a%c", "a_c", "12", "-7", " 5 ", "true", "F", "x\ny", "héé", "(a)", None]


EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times carry no zone


def table() -> pl.DataFrame:
    """Rows in which NULLs, zeros, signs, halves and odd texts meet each other."""
    ints = [0, 1, -1, 3, -5, 7, 100, None, 2, -100]
    floats = [0.0, 0.5, -0.5, 1.5, -2.5, 0.125, 8.0, None, -7.375, 2.5]
    bools = [True, False, None]
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for row in range(140):
        columns["time"].append(EPOCH + dt.timedelta(seconds=row * 5003, microseconds=row))
        columns["a"].append(ints[row % 10])
        columns["b"].append(ints[(row // 10 + row) % 10])
        columns["x"].append(floats[row * 3 % 10])
        columns["y"].append(floats[(row // 7 + row) % 10])
        columns["s"].append(TEXTS[row % 14])
        columns["t"].append(TEXTS[(row // 14 + row) % 14])
        columns["p"].append(bools[row % 3])
        columns["q"].append(bools[row // 3 % 3])
    return pl.DataFrame(columns, schema={name: TYPES[kind] for name, kind in SCHEMA.items()})


TABLE = table()


# Each strategy gives pairs: the text in our subset, and the text of the same meaning in DuckDB's dialect.
Pair = tuple[str, str]


def both(pattern: str, *parts: Pair, duck: str | None = None) -> Pair:
    return pattern.format(*(part[0] for part in parts)), (duck or pattern).format(*(part[1] for part in parts))


def number_of(kind: str, inner: Any) -> st.SearchStrategy[Pair]:
    other = inner[kind]
    cast = "BIGINT" if kind == "int" else "DOUBLE"
    parts = [
        st.builds(lambda k, r, o: both(f"({{}} {o} {{}})", k, r), other, other, st.sampled_from("+-*")),
        st.builds(lambda k, r: both("({} % {})", k, r, duck="({} % nullif({}, 0))"), other, other),
        st.builds(lambda v: both("(- {})", v), other),
        st.builds(lambda v: both("abs({})", v), other),
        st.builds(
            lambda v, f: both(f"{f}({{}})", v, duck=f"{f}({{}})::{cast}"),
            other,
            st.sampled_from(["floor", "ceil", "round"]),
        ),
        st.builds(
            lambda v, w, f: both(f"{f}({{}}, {{}})", v, w),
            other,
            other,
            st.sampled_from(["coalesce", "least", "greatest"]),
        ),
        st.builds(lambda p, v, w: both("CASE WHEN {} THEN {} ELSE {} END", p, v, w), inner["bool"], other, other),
        st.builds(lambda p, v: both("CASE WHEN {} THEN {} END", p, v), inner["bool"], other),
        st.builds(lambda p: both(f"CAST({{}} AS {kind})", p, duck=f"CAST({{}} AS {cast})"), inner["bool"]),
        st.builds(lambda v: both(f"CAST({{}} AS {kind})", v, duck=f"TRY_CAST({{}} AS {cast})"), st.just(("s", "s"))),
    ]
    if kind == "int":
        parts += [
            st.builds(lambda v: both("length({})", v), inner["str"]),
            st.builds(lambda f: both(f"{f}(time)"), st.sampled_from(["hour", "minute"])),
            st.builds(lambda v: both("CAST({} AS int)", v, duck="TRY_CAST(trunc({}) AS BIGINT)"), inner["float"]),
        ]
    else:
        parts += [
            st.builds(
                lambda k, r: both("({} / {})", k, r, duck="({} / nullif({}::DOUBLE, 0))"), inner["int"], inner["int"]
            ),
            st.builds(lambda k, r: both("({} / {})", k, r, duck="({} / nullif({}, 0))"), other, other),
            st.builds(lambda k, r: both("({} + {})", k, r), inner["int"], other),
            st.builds(lambda v: both("CAST({} AS float)", v, duck="CAST({} AS DOUBLE)"), inner["int"]),
            st.sampled_from([("round(x, 2)", "round(x, 2)"), ("round(y, 1)", "round(y, 1)")]),
        ]
    return st.one_of(parts)


def text_of(inner: Any) -> st.SearchStrategy[Pair]:
    value = inner["str"]
    return st.one_of(
        st.builds(lambda v, f: both(f"{f}({{}})", v), value, st.sampled_from(["lower", "upper"])),
        st.builds(lambda v, i, n: both(f"substr({{}}, {i}, {n})", v), value, st.integers(1, 4), st.integers(0, 3)),
        st.builds(lambda v, i: both(f"substr({{}}, {i})", v), value, st.integers(1, 4)),
        st.builds(lambda v, w: both("concat({}, {})", v, w, duck="({} || {})"), value, value),
        st.builds(lambda v, w: both("({} || {})", v, w), value, value),
        st.builds(
            lambda v, w, f: both(f"{f}({{}}, {{}})", v, w),
            value,
            value,
            st.sampled_from(["coalesce", "least", "greatest"]),
        ),
        st.builds(lambda p, v, w: both("CASE WHEN {} THEN {} ELSE {} END", p, v, w), inner["bool"], value, value),
        st.builds(
            lambda v: both("CAST({} AS str)", v, duck="CAST({} AS VARCHAR)"), st.one_of(inner["int"], inner["bool"])
        ),
        st.sampled_from([("CAST(x AS str)", "CAST(x AS VARCHAR)")]),
    )


def condition_of(inner: Any) -> st.SearchStrategy[Pair]:
    truth = inner["bool"]
    compared = st.one_of(
        *(st.tuples(inner[kind], inner[kind]) for kind in ("int", "float", "str")),
        st.tuples(inner["int"], inner["float"]),
    )
    patterns = ["a%", "%c", "%b%", "a_c", "%", "", "abc", "_%_", "a%c", "(a)", "%\n%", "_b_", "h__"]
    return st.one_of(
        st.builds(
            lambda v, o: both(f"({{}} {o} {{}})", *v), compared, st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
        ),
        st.builds(
            lambda k, r, o: both(f"({{}} {o} {{}})", k, r), truth, truth, st.sampled_from(["AND", "OR", "=", "<>"])
        ),
        st.builds(lambda v: both("(NOT {})", v), truth),
        st.builds(
            lambda v, n: both(f"({{}} IS {n}NULL)", v),
            st.one_of(inner["int"], inner["str"], truth),
            st.sampled_from(["", "NOT "]),
        ),
        st.builds(lambda v, k, h: both("({} BETWEEN {} AND {})", v, k, h), inner["int"], inner["int"], inner["float"]),
        st.builds(
            lambda v, k, n: both(f"({{}} {n}IN ({', '.join(k)}))", v),
            inner["int"],
            st.lists(st.sampled_from(["0", "1", "7", "NULL", "b"]), min_size=1, max_size=3),
            st.sampled_from(["", "NOT "]),
        ),
        st.builds(
            lambda v, k: both(f"({{}} IN ({', '.join(k)}))", v),
            inner["str"],
            st.lists(st.sampled_from(["'abc'", "''", "NULL"]), min_size=1, max_size=3),
        ),
        st.builds(
            lambda v, p, n: both(f"({{}} {n}LIKE '{p}')", v),
            inner["str"],
            st.sampled_from(patterns),
            st.sampled_from(["", "NOT "]),
        ),
        st.builds(
            lambda v: both("CAST({} AS bool)", v, duck="CAST({} AS BOOLEAN)"), st.one_of(inner["int"], inner["float"])
        ),
        st.sampled_from([("CAST(s AS bool)", "TRY_CAST(s AS BOOLEAN)")]),
    )


def expressions(depth: int) -> dict[str, st.SearchStrategy[Pair]]:
    """Strategies for expressions of each type, nested up to ``depth``."""
    null = st.just(("NULL", "NULL"))
    leaves: dict[str, st.SearchStrategy[Pair]] = {
        "int": st.one_of(
            st.sampled_from([("a", "a"), ("b", "b")]), st.integers(0, 9).map(lambda n: (str(n), f"{n}::BIGINT"))
        ),
        "float": st.one_of(
            st.sampled_from([("x", "x"), ("y", "y")]),
            st.integers(0, 20).map(lambda n: (f"{n / 8:.3f}", f"{n / 8}::DOUBLE")),
        ),
        "str": st.sampled_from([("s", "s"), ("t", "t"), ("'abc'", "'abc'"), ("'a''b'", "'a''b'")]),
        "bool": st.one_of(
            st.sampled_from([("p", "p"), ("q", "q"), ("TRUE", "TRUE")]),
            null.map(lambda _: ("(NULL = 1)", "(NULL = 1)")),
        ),
    }
    for _ in range(depth):
        inner = leaves
        leaves = {
            "int": st.one_of(inner["int"], number_of("int", inner)),
            "float": st.one_of(inner["float"], number_of("float", inner)),
            "str": st.one_of(inner["str"], text_of(inner)),
            "bool": st.one_of(inner["bool"], condition_of(inner)),
        }
    return leaves


# Functions, each over all rows: the same text in DuckDB, or what has the same meaning there.
PARTS_OF_TIME = (
    "year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear", "hour", "minute", "second", "epoch",
    "dayname", "monthname",
)  # fmt: skip


FUNCTIONS = [
    "upper(s)",
    "reverse(s)",
    "length(s)",
    "substr(s,2,1)",
    "trim(s)",
    "trim(s,'ac')",
    "ltrim(s,'a')",
    "rtrim(s)",
    "replace(s,'b','é')",
    "split_part(s,'_',2)",
    "split_part(s,'%',1)",
    "strpos(s,'c')",
    "strpos(s,'é')",
    "starts_with(s,t)",
    "ends_with(s,t)",
    "contains(s,t)",
    "lpad(s,5,'xy')",
    "rpad(s,4,'xyz')",
    "lpad(s,2,'x')",
    "lpad(s,0,'x')",
    "left(s,2)",
    "right(s,2)",
    "left(s,0)",
    "right(s,0)",
    "regexp_matches(s,'^a.c$')",
    "regexp_matches(s,'(?i)ABC')",
    "regexp_matches(s,'\\w+')",
    "regexp_matches(s,'x.y')",
    "regexp_extract(s,'[a-z]+')",
    "regexp_extract(s,'(a)(.)',2)",
    "regexp_extract(s,'(z)?[a-z]',1)",
    "regexp_replace(s,'[abc]','<\\0>')",
    "regexp_replace(s,'[abc]','$\\0','g')",
    "regexp_replace(s,'b*','-','g')",
    "sqrt(x)",
    "exp(x)",
    "ln(x)",
    "log10(x)",
    "log2(x)",
    "power(x,y)",
    "power(a,2)",
    "trunc(x)",
    "isnan(ln(x))",
    "isfinite(ln(x))",
    "sin(x)",
    "cos(x)",
    "tan(y)",
    "nullif(a,b)",
    "ifnull(a,b)",
    "if(p,a,b)",
    "s ILIKE 'AB%'",
    "time + INTERVAL '5' MINUTE",
    "time - INTERVAL '1' MONTH",
    "time + INTERVAL '3 months'",
    "contains('abc', s)",
    "starts_with('a%c', s)",
    "strpos(s, 'abcd')",
    "regexp_matches('abc', 'b')",
    "regexp_extract(s, '(?:a|(b))(.)', 1)",
    "regexp_matches(s, '\\d{1,2}$')",
    "regexp_replace(s, '(a)(.?)', '\\2\\1')",
    "regexp_replace(s, '\\s', '')",
    "regexp_replace(s, '[^a-c]', '_', 'g')",
    "length(trim(s))",
    "s IS NULL OR contains(s, 'b')",
    "time + INTERVAL '26 hours' > TIMESTAMP '1970-01-03'",
    "time - INTERVAL '1 day 2 hours'",
    "INTERVAL 3 WEEK + time",
    "split_part(s, 'abc', 1)",
    *(f"{name}(time)" for name in PARTS_OF_TIME),
    *(f"date_diff('{unit}', {span})" for unit in UNITS
      for span in ("time, TIMESTAMP '1970-01-06 13:01'", "TIMESTAMP '1969-11-30', time")),
]  # fmt: skip


OTHERWISE = [
    ("sign(x)", "sign(x)::BIGINT"),
    ("sign(a)", "sign(a)::BIGINT"),
    ("trunc(a)", "a"),
    ("sign(ln(-1.0*abs(x)-1))", "sign(ln(-1.0*abs(x)-1))::BIGINT"),
    ("a // b", "a // nullif(b,0)"),
    ("a % b", "a % nullif(b,0)"),
    ("mod(a,b)", "a % nullif(b,0)"),
    ("time - INTERVAL '2000 years'", "NULL::TIMESTAMP"),
    ("local_time(time,'Europe/Berlin')", "time AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'"),
    *((f"date_trunc('{unit}', time)", f"date_trunc('{unit}', time)::TIMESTAMP") for unit in UNITS),
]


# Dates, durations and decimals, each over all rows of a table of their own.
DATED_SCHEMA = {
    "time": "time", "d": "date", "e": "date", "u": "duration", "v": "duration", "m": "decimal(9, 2)",
    "k": "decimal(12, 4)", "w": "decimal(38, 2)", "a": "int", "x": "float", "s": "str", "p": "bool",
}  # fmt: skip


def dated() -> pl.DataFrame:
    """Rows in which NULLs, signs, halves and days before 1970 meet each other."""
    days = [dt.date(2026, 1, 31), dt.date(1969, 12, 31), dt.date(2024, 2, 29), None, dt.date(2026, 3, 1)]
    spans = [dt.timedelta(hours=1, microseconds=7), dt.timedelta(0), None, -dt.timedelta(days=2, seconds=3)]
    prices = [Decimal("1.25"), Decimal("-2.50"), Decimal("0.00"), None, Decimal("1234567.89"), Decimal("-0.05")]
    shares = [Decimal("0.0050"), Decimal("-1.2345"), None, Decimal("99999999.9999"), Decimal("2.5000")]
    texts = ["1.255", "x", " 7 ", None, "-0.005"]
    columns: dict[str, list[Any]] = {name: [] for name in DATED_SCHEMA}
    for row in range(60):
        columns["time"].append(EPOCH + dt.timedelta(seconds=(row - 9) * 50_003, microseconds=row))
        columns["d"].append(days[row % 5])
        columns["e"].append(days[(row // 5 + row) % 5])
        columns["u"].append(spans[row % 4])
        columns["v"].append(spans[(row // 4 + row) % 4])
        columns["m"].append(prices[row % 6])
        columns["k"].append(shares[(row // 6 + row) % 5])
        columns["w"].append(prices[row // 2 % 6])
        columns["a"].append([0, 3, -7, None, 100][row % 5])
        columns["x"].append([0.125, -2.5, None, 1.0][row % 4])
        columns["s"].append(texts[row % 5])
        columns["p"].append([True, False, None][row % 3])
    return pl.DataFrame(columns, schema={name: TYPES[kind] for name, kind in DATED_SCHEMA.items()})


DATED = dated()
DATES_AND_DECIMALS = [
    *((text, text) for text in (
        "time - TIMESTAMP '2026-01-31 12:00:00'", "time - d", "d - time", "time + u", "u + time", "time - u", "u + v",
        "u - v", "u * a", "3 * u", "-u", "epoch(u)", "u > INTERVAL '1 hour'", "u + INTERVAL '90 seconds'",
        "u - INTERVAL '1 day'", "CASE WHEN p THEN u ELSE INTERVAL '2 hours' END", "u = v", "greatest(u, v)",
        "coalesce(u, v)", "u IN (INTERVAL '0 seconds', v)", "INTERVAL '10 minutes' * a", "time - time > u",
        "d + 1", "d - e", "d + u", "d - u", "d + INTERVAL '1 month'", "d - INTERVAL '2 hours'",
        "d < e", "d <= time", "d = DATE '2026-01-31'", "d >= '2024-02-29'", "d IN ('2026-01-31', '2026-03-01')",
        "d BETWEEN '1969-12-31' AND e", "time > DATE '1970-01-02'", "DATE '2026-01-31' + 1", "least(d, e)",
        "greatest(d, time)", "coalesce(d, e)", "if(p, d, e)", "nullif(d, e)", "date_trunc('month', d)", "epoch(d)",
        "date_diff('week', d, e)", "date_diff('hour', d, time)", "CAST(time AS DATE)", "CAST(d AS TIMESTAMP)",
        "CAST(d AS VARCHAR)", "d IS NULL",
        *(f"{name}(d)" for name in PARTS_OF_TIME),
        "m + k", "m - k", "m + a", "a - m", "m * a", "m * 1.1", "m + 0.005", "m + x", "m * x", "-m", "abs(m)",
        "w + m", "w * m", "w - a",
        "m > k", "m = 1.25", "m < 0", "m <= a", "m > x", "m IN (1.25, -2.5, 0)", "m BETWEEN -1 AND 1.25", "m <> k",
        "floor(m)", "ceil(m)", "round(m)", "round(m, 1)", "round(k, 2)", "trunc(k)", "round(m, 5)", "least(m, k)",
        "greatest(m, a)", "greatest(m, x)", "coalesce(m, k, 0)", "CASE WHEN p THEN m ELSE k END", "if(p, m, 0.5)",
        "sqrt(abs(m))", "isfinite(m)", "CAST(m AS VARCHAR)", "CAST(m AS DOUBLE)",
        "CAST(x AS DECIMAL(5, 2))", "CAST(a AS DECIMAL(9, 2))", "CAST(k AS DECIMAL(18, 6))",
    )),
    ("sign(m)", "sign(m)::BIGINT"),
    ("a + d", "d + a::INT"),
    ("d - a", "d - a::INT"),
    ("m * k", "m::DECIMAL(38, 2) * k"),
    ("CAST(k AS DECIMAL(9, 2))", "TRY_CAST(k AS DECIMAL(9, 2))"),
    ("m / k", "m / nullif(k, 0)"),
    ("m / a", "m / nullif(a, 0)"),
    ("CAST(k AS int)", "trunc(k)::BIGINT"),  # truncated, as floats are
    ("CAST(s AS DECIMAL(9, 2))", "TRY_CAST(s AS DECIMAL(9, 2))"),
    ("CAST(m AS DECIMAL(4, 2))", "TRY_CAST(m AS DECIMAL(4, 2))"),
    ("d + 100000000 * a", "CASE WHEN a = 0 THEN d END"),  # beyond the years that there are
    ("time + 1000000000000 * u", "CASE WHEN epoch(u) = 0 THEN time END"),
    ("w * 9999999999999999999999999999999999.0", f"CASE WHEN abs(w) < 10 THEN w * {10**34 - 1}.0 END"),
]  # fmt: skip
