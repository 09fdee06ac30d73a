"""SQL expressions on Polars have the meaning of DuckDB, except for the differences documented in sql.py."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow._expressions import _POLARS, compile_expression, compile_node
from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql import sql
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
DUCK = duckdb.connect()
DUCK.register("rows_in", TABLE.with_row_index("@i").to_arrow())


def ours(text: str) -> list[Any]:
    """The values of ``text`` by Polars."""
    return TABLE.select(pl.col("a").alias("@"), compile_expression(text, SCHEMA).alias("v"))["v"].to_list()


def theirs(text: str) -> list[Any]:
    """The values of ``text`` by DuckDB."""
    return [row[0] for row in DUCK.execute(f'SELECT {text} FROM rows_in ORDER BY "@i"').fetchall()]


def same(left: Any, right: Any) -> bool:
    """Equal, floats within a relative 1e-9."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    return type(left) is type(right) and bool(left == right)


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


@pytest.mark.slow
@settings(max_examples=350)
@given(st.one_of(*expressions(3).values()))
def test_expressions_mean_what_they_mean_in_duckdb(pair: Pair) -> None:
    text, duck = pair
    found, expected = ours(text), theirs(duck)
    if not all(map(same, found, expected)):
        wrong = [(i, f, e) for i, (f, e) in enumerate(zip(found, expected, strict=True)) if not same(f, e)]
        pytest.fail(f"{text}\n  in DuckDB {duck}\n  row, ours, DuckDB's: {wrong[:5]}")


@pytest.mark.parametrize("text", ["0 / 0 = a / (a % a)", "a / (a % a) <> 0 / 0", "0 / 0 BETWEEN a / (a % a) AND 1 / 2"])
@pytest.mark.parametrize("rows", [0, 1, 140])
def test_a_computed_constant_is_compared_with_each_row(text: str, rows: int) -> None:
    found = TABLE.head(rows).select(pl.col("a").alias("@"), v=compile_expression(text, SCHEMA))
    assert found["v"].to_list() == [None] * rows


@pytest.mark.slow
@settings(max_examples=60)
@given(expressions(2)["bool"])
def test_the_canonical_text_means_the_same(pair: Pair) -> None:
    assert ours(sql.canonical(pair[0], SCHEMA)) == ours(pair[0])


@settings(max_examples=60)
@given(st.one_of(*expressions(2).values()))
def test_values_have_the_type_that_is_inferred(pair: Pair) -> None:
    kind = sql.infer_type(pair[0], SCHEMA)
    assert TABLE.select(pl.col("a").alias("@"), v=compile_expression(pair[0], SCHEMA)).schema["v"] == TYPES[kind]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / 2", 0.5),
        ("1 / 0", None),
        ("0.0 / 0", None),
        ("-5 % 3", -2),
        ("5 % -3", 2),
        ("5 % 0", None),
        ("-5.5 % 3", -2.5),
        ("5.5 % 0.0", None),
        ("round(2.5)", 3.0),
        ("round(-2.5)", -3.0),
        ("round(0.125, 2)", 0.13),
        ("round(7)", 7),
        ("CAST(2.9 AS int)", 2),
        ("CAST(-2.9 AS int)", -2),
        ("CAST(1e30 AS int)", None),
        ("CAST('12x' AS int)", None),
        ("CAST(' 12 ' AS int)", 12),
        ("CAST('yes' AS bool)", True),
        ("CAST('N' AS bool)", False),
        ("CAST('maybe' AS bool)", None),
        ("CAST(NULL AS str)", None),
        ("concat('a', NULL)", None),
        ("least(3, NULL, 2.5)", 2.5),
        ("greatest(3, NULL, 2.5)", 3.0),
        ("coalesce(NULL, 1, 2.5)", 1.0),
        ("NULL + 1", None),
        ("NOT (NULL AND FALSE)", True),
        ("NULL OR TRUE", True),
        ("1 IN (2, NULL)", None),
        ("1 IN (1, NULL)", True),
        ("NULL IN (1)", None),
        ("1 IN (1.0, 2.5)", True),
        ("1 IN (NULL)", None),
        ("NULL IS NULL", True),
        ("NULL BETWEEN 1 AND 2", None),
        ("'a.c' LIKE 'a.c'", True),
        ("'abc' LIKE 'a.c'", False),
        ("'a\nb' LIKE 'a_b'", True),
        ("'ab' LIKE 'a%%'", True),
        ("NULL LIKE 'a'", None),
        ("CASE WHEN NULL THEN 1 ELSE 2 END", 2),
        ("CASE WHEN TRUE THEN NULL END", None),
        ("abs(NULL)", None),
        ("- NULL", None),
        ("length('héé')", 3),
        ("substr('héllo', 2, 3)", "éll"),
        ("9223372036854775807 + 1", -(2**63)),
        ("-9223372036854775808", -(2**63)),
        ("time < '1970-01-01'", False),
        ("time IN ('1970-01-01', '2026-01-01')", True),
        ("coalesce(NULL, time) = timestamp '1970-01-01 02:00+02:00'", True),
    ],
)
def test_expressions_on_which_engines_differ_have_their_defined_value(text: str, value: Any) -> None:
    found = (
        pl.DataFrame({"time": [0]}, schema={"time": TYPES["time"]})
        .select("time", v=compile_expression(text, {"time": "time"}))["v"]
        .item()
    )
    assert same(found, value)


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


@pytest.mark.parametrize(("text", "duck"), [*((text, text) for text in FUNCTIONS), *OTHERWISE])
def test_functions_mean_what_they_mean_in_duckdb(text: str, duck: str) -> None:
    found = zip(ours(text), theirs(duck), strict=True)
    wrong = [(row, left, right) for row, (left, right) in enumerate(found) if not same_or_nan(left, right)]
    assert not wrong, wrong[:3]


def test_every_function_is_compared() -> None:
    compared = " ".join([*FUNCTIONS, *(text for text, _ in OTHERWISE)])
    drawn = {"lower", "substr", "hour", "minute"}  # in expressions at random
    assert [name for name in sql.CALLS if f"{name}(" not in compared and name not in drawn] == []
    assert set(sql.CALLS) <= set(_POLARS)


def same_or_nan(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return same(left, right)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(-9223372036854775807 - 1 + 0 * a) // -1", -(2**63)),  # wraps around, as * does
        ("(-7 + 0 * a) // 2", -3),
        ("(7 + 0 * a) // 0", None),
        ("sign(ln(-1 - abs(x)))", 0),
        ("time + INTERVAL '9000' YEAR", None),
        ("time - INTERVAL '719163' DAY", None),
        ("lpad('' || s, 3, 'ab') = 'aba'", True),
        ("regexp_replace('' || s, '$', '\\\\$1')", "\\$1"),
        ("trim('\u2003' || s || '\t ')", "\t"),
        ("local_time(TIMESTAMP '2026-07-01 12:00:00' + INTERVAL '0' DAY, 'Asia/Kathmandu')",
         dt.datetime(2026, 7, 1, 17, 45)),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_functions_at_their_edges(text: str, value: Any) -> None:
    row = TABLE.filter((pl.col("s") == "") & pl.col("a").is_not_null() & pl.col("x").is_not_null()).head(1)
    assert row.select(pl.col("a"), compile_expression(text, SCHEMA).alias("v"))["v"].to_list() == [value]


def test_nan_is_the_greatest_float() -> None:
    nan = "CAST('nan' AS float)"
    for text, value in (
        (f"greatest({nan}, x, 1.0)", "nan"),
        (f"greatest(NULL, {nan})", "nan"),
        ("greatest(x, 0.5)", None),
        (f"least({nan}, 1.0)", "1.0"),
        (f"least({nan}, NULL)", "nan"),
        (f"{nan} > 1e300", "True"),
        (f"{nan} = {nan}", "True"),
    ):
        found = [repr(each) for each in ours(text)]
        assert found == [repr(each) for each in theirs(text.replace("float", "DOUBLE"))], text
        assert value is None or set(found) == {value}


def test_a_condition_without_columns_filters_all_rows() -> None:
    assert TABLE.filter(compile_expression("1 = 1", SCHEMA)).height == TABLE.height
    assert TABLE.filter(compile_expression("1 = 2", SCHEMA)).height == 0
    assert TABLE.filter(compile_expression("0 IN (0) AND s IN (NULL)", SCHEMA)).height == 0
    for text in ("NULL", "CASE WHEN p THEN NULL END", "coalesce(NULL, NULL)", "least(NULL)", "NULL = NULL"):
        assert TABLE.filter(compile_expression(text, SCHEMA, "bool")).height == 0, text


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(sql.SqlError, match="bytez"):
        compile_expression("bytez > 1", {"bytes": "int"})


def test_a_node_outside_the_subset_is_refused() -> None:
    import sqlglot

    for text, named in (("a IN (SELECT 1)", "in"), ("sqrt(a)", "sqrt"), ("CAST(a AS date)", "DATE"), ("c + 1", "'c'")):
        with pytest.raises(ValueError, match="expected") as error:
            compile_node(sqlglot.parse_one(text), {"a": "int"})
        assert named in str(error.value)


def test_deep_nesting_is_refused_or_computed_but_never_a_crash() -> None:
    deep = "NOT " * 60 + "p"
    assert ours(deep) == ours("p")
    with pytest.raises(sql.SqlError, match="nested"):
        compile_expression("NOT " * 2400 + "p", SCHEMA)
