"""Regular expressions on Spark: what they find is what peers find, and none takes longer than its text is long."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_stream._expressions import MEANING, UntranslatableExpression, literal, translate
from spark_stream.operators.patterns import FUNCTIONS
from synergy_nb.dataflow._expressions import compile_expression
from synergy_nb.plan.sql.patterns import read_pattern
from tests.pattern_cases import PATTERNS, TEXTS

if TYPE_CHECKING:
    from spark_stream.server import Server

SCHEMA = {"t": "str"}
VALUES = [*TEXTS, None, "(", "\\", "a\\b", "é a", "$1", "aa b"]
#: Patterns that keep an engine which backtracks busy for minutes or years, with texts of this kind.
ENDLESS = [
    *("(a*)*b", "((a+)+)+b", "(a|aa)+b", "a*a*a*a*a*b", "(?:a?){30}a{30}b", "(a|b|ab)*c", "^(a+)+$", "(?:.*,){9}b"),
    *(r"\w+\w+\w+x", "(a{0,40}){20}b"),
]


def quoted_text(text: str) -> str:
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def executed(written: str, values: list[str | None]) -> list[Any]:
    """What a call of a function in Spark SQL gives, by the function that Spark gets."""
    name, arguments = re.fullmatch(r"(\w+)\(`t`, (.*)\)", written, re.DOTALL).groups()  # type: ignore[union-attr]
    texts = re.findall(r"'((?:[^'\\]|\\.)*)'", arguments, re.DOTALL)
    plain = [
        re.sub(r"\\(u0024|.)", lambda found: found[1].replace("u0024", "$"), each, flags=re.DOTALL) for each in texts
    ]
    assert ", ".join(map(literal, plain)) == arguments
    made = FUNCTIONS[name][0](pa.array(values, pa.string()), *([each] * len(values) for each in map(pa.scalar, plain)))
    found: list[Any] = made.to_pylist()
    return found


def on_peers(text: str) -> list[Any]:
    return pl.DataFrame({"t": VALUES}).select(v=compile_expression(text, SCHEMA))["v"].to_list()


@pytest.mark.slow
@settings(max_examples=150)
@given(PATTERNS)
def test_a_pattern_finds_what_it_finds_on_peers(pattern: str) -> None:
    said, read = quoted_text(pattern), read_pattern(pattern)
    asked = [f"regexp_matches(t, {said})", f"regexp_replace(t, {said}, '<\\0>\\\\$1')"]
    asked += [f"regexp_extract(t, {said}, {group})" for group in range(read.groups + 1)]
    if read.groups:
        asked.append(f"regexp_replace(t, {said}, '\\10[\\1]')")
    if not read.empty:
        asked.append(f"regexp_replace(t, {said}, '<\\0>1\\\\$', 'g')")
    for text in asked:
        assert executed(translate(text, SCHEMA), VALUES) == on_peers(text), text


@settings(max_examples=50)
@given(st.text("ab%_é.\\(\n", max_size=6))
def test_like_finds_what_it_finds_on_peers(pattern: str) -> None:
    text = f"t LIKE {quoted_text(f'{pattern}%b%{pattern}')}"
    written = translate(text, SCHEMA)
    if written.startswith("synergy"):
        assert executed(written, VALUES) == on_peers(text)
    else:
        assert "%" not in f"{pattern}%b%{pattern}".strip("%")


@pytest.mark.parametrize("pattern", ENDLESS)
def test_no_pattern_is_endless(pattern: str) -> None:
    """Each of these is over at once."""
    text = "a" * 5000
    found = read_pattern(pattern)
    for asked in ("regexp_matches(t, {})", "regexp_extract(t, {})", "regexp_replace(t, {}, 'x')"):
        executed(translate(asked.format(quoted_text(pattern)), SCHEMA), [text])
    assert found.re2


def test_a_pattern_that_spark_cannot_have_stays_on_peers() -> None:
    with pytest.raises(UntranslatableExpression, match=r"has 1001 characters, and Spark takes 1000"):
        translate(f"regexp_matches(t, '{'a' * 1001}')", SCHEMA)
    with pytest.raises(UntranslatableExpression, match=r"RE2, which Spark has, does not take the pattern"):
        translate("regexp_matches(t, '(a{100}){100}')", SCHEMA)


@pytest.mark.slow
def test_a_pattern_that_would_keep_java_busy_is_over_on_spark(spark_server: Server) -> None:
    """Also in aggregates of windows, which a stream has."""
    from pyspark.sql.connect import functions as sf

    from spark_stream.operators import patterns
    from spark_stream.session import connect, disconnect

    session = connect(spark_server.ready(), settings=dict(MEANING))
    try:
        patterns.register(session)
        rows = session.range(3).select(sf.expr("concat(repeat('a', 5000), id)").alias("t"), sf.col("id"))
        asked = [translate(f"regexp_matches(t, {quoted_text(pattern)})", SCHEMA) for pattern in ENDLESS]
        found = rows.select(*map(sf.expr, asked)).toArrow()
        assert [column.to_pylist() for column in found.columns] == [[False] * 3] * len(ENDLESS)
        ends = translate("regexp_extract(t, '(a*)*(1|2)', 2)", SCHEMA)
        counted = rows.groupBy(sf.expr(ends)).agg(sf.expr(f"sum(CASE WHEN {asked[0]} THEN 1 ELSE id END)"))
        assert sorted(tuple(row.values()) for row in counted.toArrow().rename_columns(["a", "b"]).to_pylist()) == [
            ("", 0), ("1", 1), ("2", 2),
        ]  # fmt: skip
    finally:
        disconnect(session)
