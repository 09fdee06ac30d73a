"""Rows of a table by a column that grows, of DuckDB and SQLite files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from synergy_nb import source
from synergy_nb.dataflow.sources import BrokenForNow, Source
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.testing import check_source
from tests.connectors.declared import declared, numbers

COLUMNS = {"time": "time", "n": "int", "word": "str"}


def put(path: Path, start: int, stop: int) -> None:
    """Add rows to a table."""
    values = ", ".join(f"({n}, {n}, 'w{n}')" for n in range(start, stop))
    text = "CREATE TABLE IF NOT EXISTS rows (n BIGINT, time BIGINT, word VARCHAR)"
    connect: Any = sqlite3.connect if path.suffix == ".sqlite" else duckdb.connect
    with closing(connect(str(path))) as database:
        database.execute(text)
        database.execute(f"INSERT INTO rows VALUES {values}")
        database.commit()


def table(path: Path, **params: Any) -> Source:
    return declared("sql", **{"path": path, "query": "rows", "by": "n", "columns": COLUMNS, "every": "1 us", **params})


@pytest.mark.parametrize("suffix", ["sqlite", "duckdb"])
def test_a_table_keeps_the_protocol(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"shop.{suffix}"
    if suffix == "sqlite":
        put(path, 0, 5)
    else:
        with closing(duckdb.connect(str(path))) as database:
            database.execute("CREATE TABLE rows AS SELECT n, n AS time, 'w' || n AS word FROM range(5) t(n)")
    found = table(path, ends=True)
    check_source(lambda: table(path, ends=True), broken=lambda: table(tmp_path / "none"))
    found.open(None)
    polled = found.poll(0.0)
    assert numbers(polled) == [0, 1, 2, 3, 4]
    assert polled is not None
    waiting = table(path)
    waiting.open(polled.position)
    assert waiting.poll(0.0) is None
    connect: Any = sqlite3.connect if suffix == "sqlite" else duckdb.connect
    with closing(connect(str(path))) as database:
        database.execute("INSERT INTO rows VALUES (5, 5, 'w5')")
        database.commit()
    assert numbers(waiting.poll(0.0)) == [5]
    query = table(path, query="SELECT n, time, upper(word) AS word FROM rows WHERE n % 2 = 1;", ends=True)
    query.open(None)
    made = query.poll(0.0)
    assert made is not None
    assert [row["word"] for row in made.rows.to_dicts()] == ["W1", "W3", "W5"]  # type: ignore[union-attr]
    check_source(lambda: table(path, ends=True), wrong=lambda: table(path, query="nothing"))
    check_source(lambda: table(path, ends=True), wrong=lambda: table(path, by="word2"))


def test_a_column_of_times_may_grow(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with closing(duckdb.connect(str(path))) as database:
        times = "TIMESTAMP '2026-01-01' + to_seconds(n)"
        database.execute(f"CREATE TABLE rows AS SELECT n, {times} AS time, 'w' AS word FROM range(5) t(n)")
    check_source(lambda: table(path, by="time", ends=True))
    found = table(path, by="time", ends=True)
    found.open({"time": "2026-01-01T00:00:02"})
    assert numbers(found.poll(0.0)) == [3, 4]


def test_a_value_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    put(path, 0, 2)
    put(path, 1, 3)
    found = table(path)
    found.open(None)
    with pytest.raises(ValueError, match="by: 'n': 1 is there twice; expected a column that grows with each row"):
        found.poll(0.0)


def test_a_database_that_another_program_writes_to_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    put(path, 0, 2)
    found = table(path)
    found.open(None)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BrokenForNow, match="database is locked"):
            found.poll(0.0)
    assert numbers(found.poll(0.0)) == [0, 1]


def test_a_query_reads_its_file_alone(tmp_path: Path) -> None:
    path, secret = tmp_path / "shop.duckdb", tmp_path / "secret.csv"
    with closing(duckdb.connect(str(path))) as database:
        database.execute("CREATE TABLE rows (n BIGINT, time BIGINT, word VARCHAR)")
    secret.write_text("n,time,word\n1,1,a\n", encoding="utf-8")
    found = table(path, query=f"SELECT * FROM read_csv('{secret}')")
    found.open(None)
    with pytest.raises(ValueError, match="expected a query to this file"):
        found.poll(0.0)
    plan = source("sql", path=path, query="rows", by="n", columns=COLUMNS).sink()
    assert "expected none in a plan of somebody else" in refused_paths(plan, [tmp_path])
