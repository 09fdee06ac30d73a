"""SQL expressions on Polars have the meaning of DuckDB, except for the differences documented in sql.py."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow._expressions import _POLARS, compile_expression, compile_node, direct_condition
from synergy_nb.dataflow.tuples import EPOCH, TYPES
from synergy_nb.plan.sql import sql
from tests.expression_cases import (
    DATED,
    DATED_SCHEMA,
    DATES_AND_DECIMALS,
    FUNCTIONS,
    OTHERWISE,
    SCHEMA,
    TABLE,
    Pair,
    expressions,
)

DUCK = duckdb.connect()
DUCK.register("rows_in", TABLE.with_row_index("@i").to_arrow())
DUCK.register("dated_in", DATED.with_row_index("@i").to_arrow())


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


@pytest.mark.parametrize(("text", "duck"), [*((text, text) for text in FUNCTIONS), *OTHERWISE])
def test_functions_mean_what_they_mean_in_duckdb(text: str, duck: str) -> None:
    found = zip(ours(text), theirs(duck), strict=True)
    wrong = [(row, left, right) for row, (left, right) in enumerate(found) if not same_or_nan(left, right)]
    assert not wrong, wrong[:3]


@pytest.mark.parametrize(("text", "duck"), DATES_AND_DECIMALS, ids=[text for text, _ in DATES_AND_DECIMALS])
def test_dates_durations_and_decimals_mean_what_they_mean_in_duckdb(text: str, duck: str) -> None:
    made = DATED.select(pl.col("a").alias("@"), compile_expression(text, DATED_SCHEMA).alias("v"))["v"]
    assert made.dtype == TYPES[sql.infer_type(text, DATED_SCHEMA)]
    expected = [row[0] for row in DUCK.execute(f'SELECT {duck} FROM dated_in ORDER BY "@i"').fetchall()]
    wrong = [(row, *pair) for row, pair in enumerate(zip(made, expected, strict=True)) if not same_or_nan(*pair)]
    assert not wrong, wrong[:3]
    assert made.null_count() < made.len()
    canonical = sql.canonical(text, DATED_SCHEMA)
    assert sql.canonical(canonical, DATED_SCHEMA) == canonical
    assert DATED.select(pl.col("a").alias("@"), v=compile_expression(canonical, DATED_SCHEMA))["v"].equals(made)


def test_every_function_is_compared() -> None:
    compared = " ".join([*FUNCTIONS, *(text for text, _ in OTHERWISE)])
    drawn = {"lower", "substr", "hour", "minute"}  # in expressions at random
    assert [name for name in sql.CALLS if f"{name}(" not in compared and name not in {*drawn, *OF_PARTS}] == []
    assert set(sql.CALLS) <= set(_POLARS)


@pytest.mark.parametrize(
    "text",
    [
        "count_if(a > b)",
        "count(*) FILTER (WHERE p)",
        "count(s) FILTER (WHERE NOT p)",
        "sum(a) FILTER (WHERE q OR x > 1)",
        "count(DISTINCT s) FILTER (WHERE p)",
        "max(s) FILTER (WHERE s < 'b')",
        "avg(x) FILTER (WHERE FALSE)",
    ],
)
def test_a_filtered_call_means_what_it_means_in_duckdb(text: str) -> None:
    """It is written as a call without FILTER, which all engines have."""
    written = sql.canonical(sql.parse(text, SCHEMA, aggregate=True))
    assert "FILTER" not in written
    assert DUCK.execute(f"SELECT {written} IS NOT DISTINCT FROM {text} FROM rows_in").fetchall() == [(True,)]


# Literals of the functions that need some, in order.
LITERALS = {
    "substr": "2|1", "replace": "'a'|'b'", "split_part": "'_'|1", "strpos": "'a'", "trim": "'a'", "ltrim": "'a'",
    "rtrim": "'a'", "lpad": "5|'xy'", "rpad": "5|'xy'", "left": "1", "right": "1", "regexp_matches": "'b'",
    "regexp_extract": "'(b)'|1", "regexp_replace": "'(b)'|'<\\1>'|'g'", "date_trunc": "'day'", "date_diff": "'day'",
    "local_time": "'Europe/Berlin'",
}  # fmt: skip


#: Functions of lists and structs, which the contract of operators compares.
OF_PARTS = ("list_extract", "list_contains", "struct_extract")


@pytest.mark.parametrize("name", [name for name in sql.CALLS if name not in OF_PARTS])
def test_a_function_of_null_is_null_and_of_no_rows_no_row(name: str) -> None:
    columns = {"str": "s", "time": "time", "number": "x", "moment": "time", "sized": "s"}
    taken = sql.CALLS[name].arguments
    for null in (at for at, kind in enumerate(taken) if isinstance(kind, str)):
        literals = iter(LITERALS.get(name, "").split("|"))
        given = [columns[kind] if isinstance(kind, str) else next(literals) for kind in taken]
        plain = f"{name}({', '.join(given)})"
        given[null] = "NULL"
        empty = f"{name}({', '.join(given)})"
        for table in (TABLE, TABLE.clear()):
            found = table.select(pl.col("a"), compile_expression(plain, SCHEMA).alias("plain"),
                                 compile_expression(empty, SCHEMA).alias("empty"))  # fmt: skip
            assert found.height == table.height
            assert found["empty"].null_count() == table.height


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
        ("local_time(TIMESTAMP '9999-12-31 23:30:00' + INTERVAL '0' DAY, 'Europe/Berlin')", None),
        ("NULL + INTERVAL '1' DAY", None),
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


CONDITION_COLUMNS = {"i": "int", "f": "float", "s": "str", "b": "bool", "t": "time"}
CONDITION_VALUES: dict[str, list[Any]] = {
    "i": [None, -2, 0, 1, 5, 2**62],
    "f": [None, math.nan, -1.5, 0.0, -0.0, 0.1, 2.5, math.inf],
    "s": [None, "", "a", "b", "aé"],
    "b": [None, True, False],
    "t": [None, EPOCH, EPOCH + dt.timedelta(days=18_000)],
}


def test_a_condition_on_the_columns_themselves_selects_what_its_query_does() -> None:
    """All pairs of values, as single rows, too: Polars repeats a single value where it compares it with a column."""
    rows = list(itertools.islice(itertools.product(*CONDITION_VALUES.values()), 0, None, 7))
    schema = {name: TYPES[kind] for name, kind in CONDITION_COLUMNS.items()}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    compared = [f"{each} {sign} {other}" for sign in ("=", "<>", "<", "<=", ">", ">=")
                for each, other in [("i", "1"), ("-2", "i"), ("f", "0.1"), ("f", "1"), ("f", "f"), ("s", "'a'"),
                                    ("s", "s"), ("i", "i"), ("t", "t")]]  # fmt: skip
    joined = ["b", "NOT b", "b = b", "NOT (i > 1 AND f < 2.5)", "i > 1 OR f > 0.1", "b AND s = 'a' OR NOT f > 0.0"]
    for text in compared + joined:
        query, direct = compile_expression(text, CONDITION_COLUMNS, "bool"), direct_condition(text, CONDITION_COLUMNS)
        assert direct is not None, text
        assert direct(table).equals(table.select(mask=query).to_series(), null_equal=True), text
        for row in (0, 1, 40):
            assert direct(table[row]).to_list() == table[row].select(query).to_series().to_list(), text


@pytest.mark.parametrize("text", ["i > 1.5", "i > f", "i / 2 > 1", "s LIKE 'a%'", "1 > 2", "TRUE", "b IS NULL", "NULL"])
def test_other_conditions_need_a_query(text: str) -> None:
    assert direct_condition(text, CONDITION_COLUMNS) is None


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(sql.SqlError, match="bytez"):
        compile_expression("bytez > 1", {"bytes": "int"})


def test_a_node_outside_the_subset_is_refused() -> None:
    import sqlglot

    for text, named in (("a IN (SELECT 1)", "in"), ("sqrt(a)", "sqrt"), ("CAST(a AS uuid)", "UUID"), ("c + 1", "'c'")):
        with pytest.raises(ValueError, match="expected") as error:
            compile_node(sqlglot.parse_one(text), {"a": "int"})
        assert named in str(error.value)


def test_deep_nesting_is_refused_or_computed_but_never_a_crash() -> None:
    deep = "NOT " * 60 + "p"
    assert ours(deep) == ours("p")
    with pytest.raises(sql.SqlError, match="nested"):
        compile_expression("NOT " * 2400 + "p", SCHEMA)
