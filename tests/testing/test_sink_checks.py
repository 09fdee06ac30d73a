"""The contract of sinks holds for the sinks of the house, and finds what sinks do wrong."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb as duck
import polars as pl
import pytest

from synergy_nb import SinkUnavailable, SinkWriter, csv, delta, duckdb, jsonl, parquet, sqlite
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.testing import check_sink

COLUMNS = {"time": "time", "v": "int", "text": "str"}


def house(make: Callable[..., dict[str, Any]], name: str, **options: Any) -> Callable[[Path], SinkWriter]:
    return lambda place: writer_of(make(place / name, **options), COLUMNS, "s")


def lines_of(place: Path) -> list[dict[str, Any]]:
    file = place / "rows"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def values(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"v": row["v"], "text": row["text"]} for row in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "read"),
    [
        (house(parquet, "rows"), lambda place: pl.read_parquet(place / "rows" / "*.parquet")),
        (house(parquet, "rows", partition="2 s"), lambda place: pl.read_parquet(
            place / "**" / "*.parquet", hive_partitioning=False)),
        (house(csv, "rows"), lambda place: pl.read_csv(place / "rows").select("v", "text")),
    ],
    ids=["parquet", "partitions", "csv"],
)  # fmt: skip
def test_sinks_of_the_house_keep_the_protocol(
    make: Callable[[Path], SinkWriter], read: Callable[[Path], pl.DataFrame]
) -> None:
    check_sink(make, read, kills=12)


def of_duckdb(place: Path) -> list[dict[str, Any]]:
    with duck.connect(str(place / "rows")) as database:
        found = database.execute("SELECT time, v, text FROM large").fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in found]


def of_sqlite(place: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(place / "rows")) as database:
        return [{"v": v, "text": text} for v, text in database.execute("SELECT v, text FROM large")]


def of_delta(place: Path) -> pl.DataFrame:
    deltalake = pytest.importorskip("deltalake")
    return pl.DataFrame(
        deltalake.QueryBuilder()
        .register("large", deltalake.DeltaTable(str(place / "rows")))
        .execute("SELECT v, text FROM large")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "read", "kills"),
    [
        (house(duckdb, "rows", table="large", key="v"), of_duckdb, 3),  # .1 s to open a file
        (house(sqlite, "rows", table="large"), of_sqlite, 12),
        (house(sqlite, "rows", table="large", key=["text", "v"]), of_sqlite, 12),
        (house(delta, "rows"), of_delta, 12),
    ],
    ids=["duckdb", "sqlite", "sqlite upsert", "delta"],
)
def test_tables_keep_the_protocol(
    make: Callable[[Path], SinkWriter],
    read: Callable[[Path], pl.DataFrame | list[dict[str, Any]]],
    kills: int,
) -> None:
    check_sink(make, read, kills=kills)


def test_a_file_of_json_lines_keeps_the_protocol() -> None:
    check_sink(house(jsonl, "rows"), lambda place: values(lines_of(place)), kills=12)


class Table(SinkWriter):
    """Rows in SQLite, with the point and the number of the writer in the same transaction."""

    def __init__(self, place: Path) -> None:
        self.file = place / "rows.sqlite"
        self.waiting: list[tuple[int, str]] = []

    def database(self) -> closing[sqlite3.Connection]:
        database = sqlite3.connect(self.file, isolation_level=None)
        database.execute("PRAGMA synchronous = OFF")  # no test cuts the power
        return closing(database)

    def open(self) -> tuple[int, int] | None:
        self.waiting = []
        with self.database() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE IF NOT EXISTS rows (v INTEGER, text TEXT)")
            database.execute("CREATE TABLE IF NOT EXISTS points (position INTEGER, until INTEGER, writer INTEGER)")
            found = database.execute("SELECT * FROM points").fetchone()
            self.number = found[2] + 1 if found else 0
            if found is None:
                database.execute("INSERT INTO points VALUES (0, 0, 0)")
            database.execute("UPDATE points SET writer = ?", [self.number])
            database.execute("COMMIT")
        return found and (found[0], found[1])

    def write(self, batch: Batch) -> None:
        self.waiting += batch.table.select("v", "text").rows()

    def commit(self, point: Point) -> None:
        with self.database() as database:
            database.execute("BEGIN IMMEDIATE")
            mine = [*point, self.number]
            if not database.execute("UPDATE points SET position = ?, until = ? WHERE writer = ?", mine).rowcount:
                raise SinkUnavailable("another writer writes to it")
            database.executemany("INSERT INTO rows VALUES (?, ?)", self.waiting)
            database.execute("COMMIT")
        self.waiting = []


def rows_of(place: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(place / "rows.sqlite")) as database:
        return [{"v": v, "text": text} for v, text in database.execute("SELECT v, text FROM rows")]


def test_a_sink_of_transactions_keeps_the_protocol() -> None:
    check_sink(Table, rows_of, kills=40)


class TwoSteps(Table):
    """The rows are committed before the point."""

    def commit(self, point: Point) -> None:
        with self.database() as database:
            database.executemany("INSERT INTO rows VALUES (?, ?)", self.waiting)
        self.waiting = []
        super().commit(point)


class PointFirst(Table):
    """The point is committed before the rows."""

    def commit(self, point: Point) -> None:
        waiting, self.waiting = self.waiting, []
        super().commit(point)
        with self.database() as database:
            database.executemany("INSERT INTO rows VALUES (?, ?)", waiting)


class Keeps(Table):
    """What waits is committed when it is closed."""

    def close(self) -> None:
        if self.waiting:
            with self.database() as database:
                database.executemany("INSERT INTO rows VALUES (?, ?)", self.waiting)


class LetsIn(Table):
    """Two writers have one number."""

    def open(self) -> tuple[int, int] | None:
        found = super().open()
        with self.database() as database:
            database.execute("UPDATE points SET writer = 0")
        self.number = 0
        return found


class Forgets(Table):
    """It does not know where its rows end."""

    def open(self) -> tuple[int, int] | None:
        found = super().open()
        return found and (found[0] - 1, 0)


class Drops(Table):
    """A row of which a column is NULL is dropped."""

    def write(self, batch: Batch) -> None:
        self.waiting += batch.table.select("v", "text").drop_nulls().rows()


class Lists(Table):
    """The point is a list, as in JSON."""

    def open(self) -> Any:
        found = super().open()
        return found and list(found)


class Numbers(Table):
    """The position is stated alone."""

    def open(self) -> Any:
        super().open()
        return 5


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Drops, r"sink, undisturbed: row v=4, text=None is there 0 times; expected once"),
        (Lists, r"sink: open: \[8, \d+\]; expected the pair of integers that commit was given, or None"),
        (Numbers, r"sink: open: 5; expected the pair of integers that commit was given, or None"),
        (TwoSteps, r"sink, killed before line \d+ of .*: row v=.* is there 2 times; expected once"),
        (PointFirst, r"sink, killed before line \d+ of .*: row v=.* is there 0 times; expected once"),
        (Keeps, r"sink, closed with rows that were not committed: row v=2.* is there 1 times; expected 0 times"),
        (LetsIn, r"open: a second writer is let in, and both commit; expected SinkUnavailable"),
        (Forgets, r"open, a new writer: \(7, 0\); expected \(8, \d+\), as it was committed"),
    ],
)
def test_what_a_sink_does_wrong_is_found(kind: type[Table], said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_sink(kind, rows_of, kills=40)
    assert re.search(said, str(raised.value)), raised.value


class Lines(SinkWriter):
    """Lines of a file, whatever it has already."""

    remembers = False

    def __init__(self, place: Path) -> None:
        self.file = place / "rows"
        self.waiting: list[str] = []

    def open(self) -> None:
        self.waiting = []

    def write(self, batch: Batch) -> None:
        self.waiting += [json.dumps(row) for row in batch.table.select("v", "text").to_dicts()]

    def commit(self, point: Point) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in self.waiting)
        self.waiting = []


class Loses(Lines):
    def commit(self, point: Point) -> None:
        self.waiting = self.waiting[1:]
        super().commit(point)


def test_a_sink_that_does_not_remember_has_each_row_at_least_once() -> None:
    check_sink(Lines, lines_of)
    with pytest.raises(AssertionError, match=r"row v=0, .* is there 0 times; expected at least once"):
        check_sink(Loses, lines_of)
