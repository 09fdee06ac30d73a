"""SQL expressions on Spark mean exactly what they mean on peers, which mean what they mean in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_stream._expressions import (
    _SPARK,
    MEANING,
    TYPES,
    UntranslatableExpression,
    aggregate,
    literal,
    quote,
    translate,
)
from synergy_nb.dataflow._expressions import _POLARS, compile_expression
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import EXAMPLES, PLAIN, family
from tests.expression_cases import (
    DATED,
    DATED_SCHEMA,
    DATES_AND_DECIMALS,
    FUNCTIONS,
    OTHERWISE,
    SCHEMA,
    TABLE,
    expressions,
)
from tests.spark_server import COMPILED

if TYPE_CHECKING:
    from pathlib import Path

    from spark_stream.server import Server

Evaluate = Callable[[Sequence[str]], list[list[Any]]]

NAN, MAX, MIN = math.nan, 2**63 - 1, -(2**63)
WORDS = [
    "5.", "+.5", ".5", "1e5", "1E5", "inf", "-inf", "+inf", "Infinity", "INF", "nan", "NaN", "-nan", "+NAN", "1_000",
    "0x10", "1f", "1d", "1e", "1e+5", "", "+", "-", "5", "+5", str(MAX), str(MAX + 1), str(MIN), str(MIN - 1), "1.0",
    "00012", "--5", "1e400", "-1e400", "1e-400", "\u00a05", "\u20035", "\v5", "\x1c5", "5\x85", "e5", ".", " 5 5",
    "5\n", "\n5", "a\\b", "a\\%", "${HOME}", "$", "'", "ẞßİıΣς ΑΣ", "\U0001f4a1x", "TRUE", " t ", "Yes", "nO", "0",
    "\x011", None,
]  # fmt: skip
NUMBERS = [
    9.3e18, float(2**63), float(MIN), -9.3e18, 1e30, NAN, math.inf, -math.inf, 2.675, 1.005, 0.285, 2.5, -2.5,
    0.49999999999999994, 1e300, -0.4, -0.0, 1e15 + 0.5, 123456789.987654321, 4503599627370497.5, 1.7e308, -1e-20,
    1e-320, None,
]  # fmt: skip
# Functions that the engines' libraries of mathematics may round differently in the last bit.
ROUNDED = ["exp(y)", "power(f, y)", "ln(f)", "log10(f)", "log2(f)", "sin(y)", "cos(y)", "tan(y)"]
EDGES = {"t": "str", "f": "float", "g": "float", "y": "float", "m": "int", "k": "int", "b": "bytes"}
ODD = [
    "CAST(t AS int)", "CAST(t AS float)", "CAST(t AS bool)", "lower(t)", "upper(t)", "length(t)", "substr(t, 2, 1)",
    "substr(t, 3)", "t LIKE 'a\\%'", "t LIKE '%\\%'", "t LIKE '%\\_'", "t LIKE '${HOME}'", "t = '${HOME}'",
    "concat(t, '$\\''')", "t LIKE '_'", "t LIKE '%$%'", "CAST(f AS int)", "CAST(f AS bool)", "floor(f)", "ceil(f)",
    "round(f)", "round(f, 1)", "round(f, 2)", "round(f, 15)", "abs(f)", "-f", "f + g", "f * y", "f - y", "f / y",
    "f / g", "f % y", "f % g", "y % f", "least(f, g)", "greatest(f, g)", "greatest(f, g, y)", "least(f, g, y, 1.0)",
    "greatest(m, g)", "f > g", "f = g", "f <> g", "f <= g", "f IN (1.0, 2.5)", "f BETWEEN g AND y", "m + 1", "m - 1",
    "m * k", "m + k", "-m", "abs(m)", "m / k", "m % k", "k % m", "m % -1", "CAST(m AS float)", "CAST(m AS bool)",
    "CAST(m AS str)", "m + 0.5", "m = f", "m > f", "t < 'a'", "t >= 'ß'", "t BETWEEN 'A' AND 'z'", "t IN ('5', '''')",
    "least(t, 'a')", "greatest(t, 'a')", "b IS NULL", "b = b", "coalesce(t, '\\n')", "CAST(CAST(t AS float) AS int)",
    "CASE WHEN f > 0 THEN f WHEN g > 0 THEN g ELSE k END", "1e-05 * k", "(0.0 - 1e300 * 1e300) * f", "3 - -2",
    "trim(t)", "ltrim(t, ' 5')", "rtrim(t)", "reverse(t)", "left(t, 1)", "right(t, 2)", "right(t, 0)",
    "lpad(t, 3, 'é')", "rpad(t, 4, '\U0001f4a1')", "strpos(t, '5')", "split_part(t, '5', 2)", "replace(t, '\\', '/')",
    "regexp_matches(t, '\\bnan\\b')", "regexp_matches(t, '(?i)NAN')", "regexp_matches(t, '\\s')",
    "regexp_matches(t, '5$')", "regexp_matches(t, '^.$')", "regexp_extract(t, '[^0-9]+')",
    "regexp_replace(t, '([0-9])', '<\\1>0')", "regexp_replace(t, '([0-9])', '\\10', 'g')",
    "regexp_replace(t, '(?i)[a-z]', '[\\0]')", "regexp_replace(t, '\\$', '\\\\$')",
    "regexp_replace(t, '\\D', '$', 'g')",
    "t LIKE '%5%0%'", "t LIKE '%_\\%_'", "t LIKE '%\n%\x1c%'", "t ILIKE '%N%n'",
    "contains(t, '\\')", "starts_with(t, '$')", "ends_with(t, t)", "sqrt(f)", "sign(f)", "sign(m)", "trunc(f)",
    "isnan(f)",
    "isfinite(f)", "m // k", "k // m", "m // -1", "- - k", "-(-k)",
    "k - -9223372036854775807", "NULL OR f > 0", "NULL = t", "CASE WHEN t = 'x' THEN NULL END",
]  # fmt: skip


def edges() -> pl.DataFrame:
    """Values at which engines part."""
    rows = max(len(WORDS), len(NUMBERS))
    columns: dict[str, list[Any]] = {
        "t": WORDS,
        "f": NUMBERS,
        "g": [NAN, 1.0, None, -0.0, 0.0],
        "y": [0.0, math.inf, -1.5, NAN, None, 1e308],
        "m": [MIN, MAX, 0, 1, -1, None],
        "k": [0, -1, 3, None, 7],
        "b": [None if word is None else word.encode() for word in WORDS],
    }
    return pl.DataFrame({name: [values[row % len(values)] for row in range(rows)] for name, values in columns.items()})


SPANS = cs.duration().cast(pl.Int64)  # in Spark they are numbers of microseconds


@pytest.fixture(scope="module")
def evaluators(spark_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Evaluate]]:
    """The values of Spark SQL over a table of a name."""
    from pyspark.sql.connect import functions as sf

    from spark_stream.operators import patterns
    from spark_stream.session import connect, disconnect

    folder: Path = tmp_path_factory.mktemp("tables")
    session = connect(spark_server.ready(), settings={**MEANING, **COMPILED})
    patterns.register(session)
    for name, table in (("usual", TABLE), ("edges", edges()), ("dated", DATED.with_columns(SPANS))):
        times = [column for column, kind in table.schema.items() if kind == pl.Datetime("us")]
        zoned = table.with_columns(pl.col(times).dt.replace_time_zone("UTC"), pl.int_range(pl.len()).alias(" row"))
        zoned.write_parquet(folder / f"{name}.parquet")

    def of(name: str) -> Evaluate:
        frame = session.read.parquet(str(folder / f"{name}.parquet"))

        def evaluate(texts: Sequence[str]) -> list[list[Any]]:
            columns = [sf.expr(text).alias(f"c{number}") for number, text in enumerate(texts)]
            found: Any = pl.from_arrow(frame.select(sf.col("` row`"), *columns).toArrow())
            found = found.sort(" row").with_columns(cs.datetime().dt.replace_time_zone(None))
            return [found[f"c{number}"].to_list() for number in range(len(texts))]

        return evaluate

    yield of
    disconnect(session)


def same(left: Any, right: Any) -> bool:
    """Equal, to the last bit of a float; NaN is NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and bool(left == right)


def close(left: Any, right: Any) -> bool:
    """Equal, or floats that differ by rounding."""
    return same(left, right) or (isinstance(left, float) and math.isclose(left, right, rel_tol=1e-14, abs_tol=1e-300))


def hold(
    texts: Sequence[str],
    schema: dict[str, str],
    table: pl.DataFrame,
    evaluate: Evaluate,
    equal: Callable[[Any, Any], bool] = same,
) -> None:
    """Compare Spark and Polars."""
    kinds = [sql.infer_type(text, schema) for text in texts]
    written = [
        translate(text, schema, None if kind == "null" else kind) for text, kind in zip(texts, kinds, strict=True)
    ]
    first = next(iter(schema))
    for text, spark, found in zip(texts, written, evaluate(written), strict=True):
        made = table.select(pl.col(first).alias("@"), compile_expression(text, schema).alias("v")).with_columns(SPANS)
        wanted = made["v"].to_list()
        wrong = [(i, f, w) for i, (f, w) in enumerate(zip(found, wanted, strict=True)) if not equal(f, w)]
        assert not wrong, f"{text}\n  in Spark {spark}\n  row, Spark's, ours: {wrong[:3]}"


def translatable(text: str) -> bool:
    try:
        translate(text, SCHEMA)
    except UntranslatableExpression:
        return False
    return True


@pytest.mark.slow
def test_expressions_mean_what_they_mean_on_peers(evaluators: Callable[[str], Evaluate]) -> None:
    evaluate = evaluators("usual")

    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.one_of(*expressions(3).values()), min_size=40, max_size=60))
    def compare(pairs: list[tuple[str, str]]) -> None:
        hold([text for text, _ in pairs if translatable(text)], SCHEMA, TABLE, evaluate)

    compare()


@pytest.mark.slow
def test_peers_and_spark_agree_where_engines_usually_differ(evaluators: Callable[[str], Evaluate]) -> None:
    long = ["k" + " - 1" * 250, " OR ".join(f"m = {number}" for number in range(250)), "NOT " * 80 + "f > g"]
    hold([*ODD, *long], EDGES, edges(), evaluators("edges"))
    hold(ROUNDED, EDGES, edges(), evaluators("edges"), close)
    functions = [text for text in (*FUNCTIONS, *(text for text, _ in OTHERWISE)) if translatable(text)]
    hold(functions, SCHEMA, TABLE, evaluators("usual"), close)
    hold([text for text, _ in DATES_AND_DECIMALS], DATED_SCHEMA, DATED, evaluators("dated"), close)


@pytest.mark.slow
def test_names_are_never_read_as_anything_else(spark_server: Server) -> None:
    from spark_stream.session import connect, disconnect

    names = ["Source IP", "a.b", "a`b", "${HOME}", "count(*)", "time -- x", "select", "A", "a", "\u00e9"]
    session = connect(spark_server.ready(), settings={**MEANING, **COMPILED})
    frame = session.range(1).selectExpr(*(f"{number}L AS {quote(name)}" for number, name in enumerate(names)))
    schema = dict.fromkeys(names, "int")
    text = " + ".join(f"{10**place} * {sql.quoted(name)}" for place, name in enumerate(names))
    assert frame.selectExpr(translate(text, schema)).toArrow().column(0).to_pylist() == [9876543210]
    disconnect(session)


@pytest.mark.parametrize(
    ("text", "kind", "written"),
    [
        ("count(*)", "int", "count(1L)"),
        ("sum(x)", "float", "sum(`x`)"),
        ("count(distinct s)", "int", "CAST(size(collect_set(`s`)) AS BIGINT)"),
        ("max(a + 1)", "int", "max((`a` + 1L))"),
        (
            "sum(NULL)",
            "int",
            (
                "CASE WHEN (sum(shiftright(CAST(NULL AS BIGINT), 32)) + "
                "shiftright(sum(CAST(NULL AS BIGINT) & 4294967295L), 32)) BETWEEN -2147483648L AND 2147483647L THEN "
                "(sum(shiftright(CAST(NULL AS BIGINT), 32)) + shiftright(sum(CAST(NULL AS BIGINT) & 4294967295L), 32)) "
                "* 4294967296L + (sum(CAST(NULL AS BIGINT) & 4294967295L) & 4294967295L) END"
            ),
        ),
    ],
)
def test_aggregate_calls_are_written_for_spark(text: str, kind: str, written: str) -> None:
    assert aggregate(sql.parse(text, SCHEMA, aggregate=True), SCHEMA, kind) == written


def test_an_integer_sum_that_64_bits_hold_is_one_sum() -> None:
    def written(text: str, totals: dict[str, int] | None) -> str:
        return aggregate(sql.parse(text, SCHEMA, aggregate=True), SCHEMA, "int", totals=totals)

    assert written("sum(a)", {"a": 2**63 - 1}) == "sum(`a`)"
    assert written("avg(a)", {"a": 2**63 - 1}) == "(CAST(sum(`a`) AS DOUBLE) / nullif(count(`a`), 0L))"
    for text, totals in (("sum(a)", {"a": 2**63}), ("sum(a)", {}), ("sum(a)", None), ("sum(a * 2)", {"a": 1})):
        assert "shiftright" in written(text, totals)
    assert "shiftright" in written("avg(a)", {"a": 2**63})


def test_texts_and_names_are_escaped_for_spark() -> None:
    assert literal("it's \\ $x") == "'it\\'s \\\\ \\u0024x'"
    assert quote("a`b") == "`a``b`"


def test_functions_that_spark_writes_otherwise_are_refused() -> None:
    with pytest.raises(UntranslatableExpression, match=r"Spark writes floats differently, as in CAST\(x AS STRING\)"):
        translate("lower(CAST(x AS str)) = 'a'", SCHEMA)
    with pytest.raises(UntranslatableExpression, match="RE2, which Spark has, finds other matches of nothing"):
        translate("regexp_replace(s, 'b*', '-', 'g')", SCHEMA)
    with pytest.raises(UntranslatableExpression, match="characters of Spark SQL"):
        translate("floor(" * 12 + "x" + ")" * 12, SCHEMA)
    with pytest.raises(sql.SqlError, match="bytez"):
        translate("bytez > 1", {"bytes": "int"})
    with pytest.raises(UntranslatableExpression, match=r"values of type decimal\(9, 7\) differently"):
        translate("CAST(CAST(a AS decimal(9, 7)) AS str)", SCHEMA)
    assert {kind for kind in TYPES if family(kind) != "decimal"} == {*EXAMPLES} & {*PLAIN}


def test_both_engines_have_every_operation() -> None:
    assert _SPARK.keys() == _POLARS.keys()


def test_an_approximate_number_of_floats_stays_on_peers() -> None:
    call = sql.parse("approx_count_distinct(x)", SCHEMA, aggregate=True)
    with pytest.raises(UntranslatableExpression, match="Spark has no bits of floats"):
        aggregate(call, SCHEMA, "int")
