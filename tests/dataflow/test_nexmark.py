"""NEXMark's 23 queries give the rows of DuckDB; what no operator keeps is refused as it is asked."""

from __future__ import annotations

import polars as pl
import pytest

from docs import generate
from synergy_experiments.nexmark import NAMES, SIDE_INPUT, query, sql_text
from synergy_nb import PlanError, QueryError, sql
from synergy_nb.plan.operators.sources import NEXMARK
from tests.nexmark import EVENTS, REFUSED, by_duckdb, events, rows


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    return events()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_query_gives_the_rows_of_duckdb(name: str, tables: dict[str, pl.DataFrame]) -> None:
    wanted = by_duckdb(name, tables)
    assert wanted
    assert rows(query(name, **EVENTS), tables) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if sql_text(name)])
def test_a_text_in_sql_is_the_stream_of_the_plan_file(name: str) -> None:
    text = sql_text(name)
    assert text is not None
    stream = sql(text, tables={"side_input": str(SIDE_INPUT)}).sink()
    plan = query(name)
    assert stream.stream_name(stream.sinks[0]) == plan.stream_name(plan.sinks[0])


@pytest.mark.slow
def test_plan_files_are_those_of_the_texts() -> None:
    for file, text in generate.nexmark_plans().items():
        assert file.read_text("utf-8") == text, f"{file.name}: run python -m docs.generate"


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_query_of_an_endless_table_is_refused(name: str) -> None:
    with pytest.raises(QueryError, match=r"expected (windows for|an interval between the times)"):
        sql(REFUSED[name])


def test_wrong_names_and_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="query: 'q23'; expected one of q0, q1"):
        query("q23")
    with pytest.raises(PlanError, match="operator 'bid', rat: 5; expected a parameter of source of nexmark"):
        query("q1", rat=5)
    assert set(NEXMARK) == {"person", "auction", "bid"}
