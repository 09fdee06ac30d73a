"""The tables of docs/plans.md on NULL, NaN, overflow, division and remainder are what peers and DuckDB compute."""

from __future__ import annotations

import datetime as dt
import math
import re
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest

from synergy_nb.dataflow._expressions import compile_expression
from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan import source
from tests.conftest import ROOT
from tests.feeding import through

PAGE = (ROOT / "docs" / "plans.md").read_text(encoding="utf-8")
(PART,) = re.findall(r"^### Values at the edges\n(.*?)(?=^#{2,3} )", PAGE, re.MULTILINE | re.DOTALL)
ROWS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|$", PART, re.MULTILINE)
SCHEMA = {
    "seven": "int", "zero": "int", "most": "int", "none": "int", "half": "float", "nan": "float", "inf": "float",
    "text": "str",
}  # fmt: skip
VALUES = (7, 0, 2**63 - 1, None, 0.5, math.nan, math.inf, "x")
ONE = pl.DataFrame([VALUES], schema={name: TYPES[kind] for name, kind in SCHEMA.items()}, orient="row")
KINDS = {"n": "int", "x": "float", "big": "int", "no": "int", "p": "bool"}
GROUP = {"n": [1, None, 3], "x": [1.0, math.nan, None], "big": [2**62, 2**62, 0], "no": [None] * 3, "p": [None] * 3}
CALL = re.compile(r"(?:sum|avg|min|max|count|count_if|stddev|var_pop|median|first|last|string_agg|quantile_disc)\(")


def written(value: Any) -> str:
    """A value as the page writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return f"'{value}'" if isinstance(value, str) else str(value)


def ours(text: str) -> str:
    if not CALL.match(text):
        return written(ONE.select(v=compile_expression(text, SCHEMA))["v"].item())
    rows = source("python", name="rows", columns=KINDS, id="rows")
    plan = rows.aggregate(window="1 s", v=text).sink()
    return written(through(plan, "aggregate", {"rows": group()})["v"].item())


def test_a_day_beyond_the_years_that_there_are_is_null() -> None:
    days = pl.DataFrame({"d": [dt.date(1, 1, 1), dt.date(9999, 12, 31)], "n": [1, -1]})

    def moved(text: str) -> list[Any]:
        kinds = {"d": "date", "n": "int"}
        return list(days.select(v=compile_expression(text, kinds))["v"])

    assert moved("d + n") == moved("n + d") == [dt.date(1, 1, 2), dt.date(9999, 12, 30)]
    assert moved("d - n") == [None, None]
    assert moved("d + n * 3652058") == [dt.date(9999, 12, 31), dt.date(1, 1, 1)]
    assert moved("d + n * 3652059") == [None, None]
    assert moved("d + n * 9223372036854775807") == [None, None]


def group() -> pl.DataFrame:
    """Tuples of one moment."""
    kinds = {name: TYPES[kind] for name, kind in KINDS.items()}
    moment = dt.datetime(2026, 1, 31)  # noqa: DTZ001 - event times carry no zone
    return pl.DataFrame(GROUP, schema=kinds).select(pl.lit(moment).alias("time"), *GROUP)


@cache
def database() -> duckdb.DuckDBPyConnection:
    """A database with both tables."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("rows", group().to_arrow())
    connection.register("one", ONE.to_arrow())
    return connection


def theirs(text: str) -> str:
    kind = "::DOUBLE" if re.match(r"(avg|median)", text) else ""
    translated = text.replace(" AS int)", " AS BIGINT)").replace(" AS str)", " AS VARCHAR)")
    table = "rows" if CALL.match(text) else "one"
    try:
        value = database().execute(f"SELECT ({translated}){kind} FROM {table}").fetchall()[0][0]
    except duckdb.Error:
        return "an error"
    return written(value)


@pytest.mark.parametrize(("text", "value", "other"), ROWS, ids=[text for text, *_ in ROWS])
def test_the_page_says_what_is_computed(text: str, value: str, other: str) -> None:
    assert ours(text) == value
    assert theirs(text) == (value if other == "the same" else other.strip("`"))


def test_the_tables_have_each_case() -> None:
    assert len(ROWS) > 60
    stated = " ".join(text for text, *_ in ROWS)
    for case in ("none", "nan", "inf", "most", "/ zero", "// zero", "% zero", "CAST", "sum(", "count("):
        assert case in stated
