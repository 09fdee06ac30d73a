"""Tables as destinations: upserts, types, tables of others, and what their errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb as duck
import polars as pl
import pytest

from synergy_nb import PlanError, delta, duckdb, source, sqlite
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, conform

COLUMNS = {"time": "time", "k": "str", "v": "float"}
FORMS = pytest.mark.parametrize("form", [duckdb, sqlite])


def batch(*rows: tuple[int, str | None, float], position: int = 0) -> Batch:
    table = pl.DataFrame(rows, {"time": pl.Int64, "k": pl.String, "v": pl.Float64}, orient="row")
    return Batch(conform(table.with_columns(pl.col("time").cast(pl.Datetime("us"))), COLUMNS), position, 0.0)


def asked(to: dict[str, Any], query: str) -> list[tuple[Any, ...]]:
    connect: Callable[[str], Any] = duck.connect if to["format"] == "duckdb" else sqlite3.connect
    with closing(connect(to["path"])) as database:
        found: list[tuple[Any, ...]] = database.execute(query).fetchall()
        return found


@FORMS
def test_a_row_replaces_the_one_with_its_key(form: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    to = form(tmp_path / "made" / "rows.db", "sums", key="k")
    writer = writer_of(to, COLUMNS, "s")
    assert writer.open() is None
    writer.write(batch((0, "a", 1.0), (0, "b", 2.0), (1, "a", 3.0)))
    writer.commit(Point(3, 1))
    assert asked(to, "SELECT k, v FROM sums ORDER BY k") == [("a", 3.0), ("b", 2.0)]
    writer.write(batch((2, "b", 4.0), (2, "c", 5.0), position=3))
    writer.commit(Point(5, 2))
    assert asked(to, "SELECT k, v FROM sums ORDER BY k") == [("a", 3.0), ("b", 4.0), ("c", 5.0)]
    again = writer_of(to, COLUMNS, "s")
    assert again.open() == (5, 2)
    writer.write(batch((3, "a", 0.0), position=5))
    with pytest.raises(SinkUnavailable, match="table 'sums': another writer writes to it"):
        writer.commit(Point(6, 3))
    other = writer_of(to, COLUMNS, "another")
    with pytest.raises(SinkFailed, match="it has rows of s; expected rows of another, or a new table"):
        other.open()
    beside = writer_of({**to, "table": "others"}, COLUMNS, "another")
    assert beside.open() is None, "a file has several tables"


@FORMS
def test_a_table_that_is_there_is_used_if_it_takes_the_rows(
    form: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    to = form(tmp_path / "rows.db", "sums", key="k")
    connect: Callable[[str], Any] = duck.connect if form is duckdb else sqlite3.connect
    with closing(connect(to["path"])) as database:
        database.execute("CREATE TABLE sums (k TEXT, v DOUBLE, time TIMESTAMP, more INTEGER)")
        database.execute("CREATE TABLE few (k TEXT)")
        database.commit()
    writer = writer_of(to, COLUMNS, "s")
    writer.open()
    writer.write(batch((0, "a", 1.0)))
    with pytest.raises(SinkFailed, match=r"'sums': .*(?i:unique).*; expected a table that has a primary key of k"):
        writer.commit(Point(1, 0))
    without = {name: each for name, each in to.items() if name != "key"}
    again = writer_of(without, COLUMNS, "s")
    assert (again.open() or (0, 0))[0] == 0
    again.write(batch((1_000_000, "a", 1.0)))
    again.commit(Point(1, 0))
    assert asked(to, "SELECT k, CAST(time AS TEXT), more FROM sums")[0][1].startswith("1970-01-01 00:00:01")
    with pytest.raises(SinkFailed, match="table 'few': it has no column 'time'; expected time, k, v"):
        writer_of({**to, "table": "few"}, COLUMNS, "s").open()
    (tmp_path / "text").write_text("this is a text, which no database has written. " * 100)
    with pytest.raises(SinkFailed, match="text': it holds something else; expected a file of "):
        writer_of({**to, "path": str(tmp_path / "text")}, COLUMNS, "s").open()


@FORMS
def test_a_table_that_was_dropped_is_written_anew(form: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    to = form(tmp_path / "rows.db", "sums")
    writer, earlier = writer_of(to, COLUMNS, "s"), writer_of(to, COLUMNS, "s")
    for each in (earlier, writer):
        each.open()
    writer.write(batch((0, "a", 1.0)))
    writer.commit(Point(1, 0))
    connect: Callable[[str], Any] = duck.connect if form is duckdb else sqlite3.connect
    with closing(connect(to["path"])) as database:
        database.execute("DROP TABLE sums")
        database.commit()
    writer = writer_of(to, COLUMNS, "s")
    assert writer.open() is None
    with pytest.raises(SinkUnavailable, match="another writer"):
        earlier.commit(Point(1, 0))
    writer.write(batch((0, "a", 1.0)))
    writer.commit(Point(1, 0))
    assert asked(to, "SELECT k FROM sums") == [("a",)]


def test_a_file_that_another_program_has_locked_is_waited_for(tmp_path: Path) -> None:
    to = sqlite(tmp_path / "rows.db", "rows")
    writer = writer_of(to, COLUMNS, "s")
    writer.open()
    writer.write(batch((0, "a", 1.0)))
    with closing(sqlite3.connect(to["path"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkUnavailable, match="database is locked"):
            writer.commit(Point(1, 0))
        other.execute("COMMIT")
    assert (writer.open() or (0, 0))[0] == 0
    writer.write(batch((0, "a", 1.0)))
    writer.commit(Point(1, 0))
    Path(to["path"]).unlink()
    writer.write(batch((0, "a", 1.0), position=1))
    with pytest.raises(SinkFailed, match="it was removed while it was written"):
        writer.commit(Point(2, 0))


def test_a_delta_table_is_read_by_others_and_takes_rows_of_one_stream(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    to = delta(tmp_path / "rows")
    writer, other = writer_of(to, COLUMNS, "s"), writer_of(to, COLUMNS, "s")
    writer.open()
    other.open()
    writer.write(batch((0, "a", 1.0), (1, "b", 2.0)))
    writer.commit(Point(2, 1))
    other.write(batch((0, "a", 1.0)))
    with pytest.raises(SinkUnavailable, match="another writer has written to it"):
        other.commit(Point(1, 0))
    assert other.open() == (2, 1)
    writer.write(batch((2, "c", 3.0), position=2))
    writer.commit(Point(3, 2))
    assert deltalake.DeltaTable(to["path"]).version() == 2
    with pytest.raises(SinkFailed, match="it has rows of s; expected rows of another, or a new folder"):
        writer_of(to, COLUMNS, "another").open()
    after = writer_of(to, COLUMNS, "another", former=["t", "s"])
    assert after.open() == (3, 2)
    after.write(batch((3, "d", 4.0), position=3))
    after.commit(Point(4, 3))
    assert after.open() == (4, 3)
    assert sorted(deltalake.DeltaTable(to["path"]).to_pyarrow_table()["v"].to_pylist()) == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(SinkFailed, match="it has rows of another; expected rows of s, or a new folder"):
        writer.open()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(SinkFailed, match=r"it has 'notes.txt'; expected a folder of its own, which is empty"):
        writer_of(delta(tmp_path / "other"), COLUMNS, "s").open()


def test_wrong_options_are_one_error() -> None:
    columns = {"time": "time", "k": "str", "all": "int[]"}
    rows = source("trace", path="rows.parquet", format="parquet", columns=columns)
    for to, said in (
        ({"format": "sqlite", "path": "x"}, "to.table: missing; expected a table, as in sqlite('results.sqlite', "),
        (sqlite("x", "t"), "to: 'all'; expected columns of type"),
        (duckdb("x", "t", key="no"), "to.key: 'no'; expected columns of the stream as the key: "),
    ):
        with pytest.raises(PlanError) as raised:
            rows.sink(to=to)
        assert said in str(raised.value), raised.value
