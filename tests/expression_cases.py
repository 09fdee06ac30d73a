"""Expressions of SQL, drawn at random, and a table for them."""

from __future__ import annotations

import datetime as dt
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
