"""Queries in SQL give the rows that DuckDB gives."""

from __future__ import annotations

import polars as pl
import pytest

from tests.sql_examples import QUERIES, by_duckdb, packets, plan_of, rows


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return packets()


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_the_rows_of_duckdb(name: str, frame: pl.DataFrame) -> None:
    query = QUERIES[name]
    wanted = by_duckdb(query.twin or query.text, frame)
    assert wanted
    assert rows(plan_of(query.text), frame) == wanted
