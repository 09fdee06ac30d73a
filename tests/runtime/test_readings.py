"""A table that is read again: which row a tuple gets, and what a reading that fails does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from synergy_nb import ReadingError, readings, source
from synergy_nb.plan.tables.lookup_tables import terms_of
from synergy_nb.runtime.client.readings import Readings
from synergy_nb.testing import run
from tests.waiting import run_loop

START = 1_800_000_000.0


def write(file: Path, **fares: float) -> None:
    file.write_text("city,fare\n" + "".join(f"{city},{fare}\n" for city, fare in fares.items()))


def read(file: Any, interval: float, until: float, changes: dict[float, Callable[[], object]]) -> pl.DataFrame:
    """All rows up to a time, with the times as seconds after the start; ``changes``: what happens at which of these."""
    waited = [0.0]

    async def wait(seconds: float) -> None:
        before = waited[0]
        waited[0] += seconds
        for at, change in changes.items():
            if before < at <= waited[0]:
                change()

    async def main() -> pl.DataFrame:
        made: list[pl.DataFrame] = []
        async for table in Readings(terms_of(file), interval, lambda: START + waited[0], wait):
            made.append(table)
            if waited[0] >= until:
                break
        return pl.concat(made)

    return run_loop(main())


def seconds(table: pl.DataFrame) -> list[float]:
    return [round(each.replace(tzinfo=dt.UTC).timestamp() - START, 3) for each in table["time"]]


def test_a_tuple_gets_the_row_of_the_last_reading_before_it(tmp_path: Path) -> None:
    file = tmp_path / "fares.csv"
    write(file, Bonn=1.0, Oslo=2.0)
    found = read(
        str(file), 1.0, 2.5, {0.5: lambda: write(file, Bonn=5.0), 1.5: lambda: write(file, Bonn=7.5, Rome=1.0)}
    )
    made = found.drop_nulls("city")
    assert list(zip(seconds(made), made["city"], made["fare"], strict=True)) == [
        (0.0, "Bonn", 1.0), (0.0, "Oslo", 2.0), (1.0, "Bonn", 5.0), (2.0, "Bonn", 7.5), (2.0, "Rome", 1.0),
    ]  # fmt: skip
    assert seconds(found.filter(pl.col("city").is_null())) == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1.2, 1.4, 1.6, 1.8, 2.2, 2.4, 2.6]
    )
    clicks = [(0.9, "Bonn"), (1.1, "Bonn"), (1.1, "Oslo"), (2.0, "Bonn"), (2.1, "Oslo"), (2.1, "Rome")]
    times = [dt.datetime.fromtimestamp(START + at, dt.UTC).replace(tzinfo=None) for at, _ in clicks]
    rows = pl.DataFrame({"time": times, "city": [city for _, city in clicks]})
    fares = source(found, id="fares")
    plan = source(rows, id="clicks").asof(fares, on="city", within="2 s", how="left").sink()
    # Oslo is in no reading after the first: its row counts until `within` is over
    assert run(plan)["fare"].to_list() == [1.0, 5.0, 2.0, 7.5, None, 1.0]


def test_a_reading_that_fails_is_tried_again_until_the_next_one_is_due(tmp_path: Path) -> None:
    file = tmp_path / "fares.csv"
    write(file, Bonn=1.0)
    again = read(str(file), 1.0, 2.0, {0.5: file.unlink, 1.5: lambda: write(file, Bonn=3.0)}).drop_nulls("city")
    assert list(zip(seconds(again), again["fare"], strict=True)) == [(0.0, 1.0), (1.6, 3.0)]
    with pytest.raises(
        ReadingError, match=r"fares\.csv'; expected a file that can be read: .*; it could not be read for 1 s"
    ):
        read(str(file), 1.0, 5.0, {0.5: file.unlink})
    write(file, Bonn=1.0)
    with pytest.raises(ReadingError, match=r"'fare'"):
        read(str(file), 1.0, 5.0, {0.5: lambda: file.write_text("city,price\nBonn,2.0\n")})


def test_a_query_is_asked_again(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.duckdb")

    def execute(*statements: str) -> None:
        with duckdb.connect(path) as connection:
            for each in statements:
                connection.execute(each)

    execute("CREATE TABLE items (item INT, price DECIMAL(9, 2))", "INSERT INTO items VALUES (1, 1.50), (2, 9.99)")
    table = {"path": path, "query": "SELECT * FROM items WHERE price < 5"}
    found = read(table, 1.0, 1.2, {0.5: lambda: execute("UPDATE items SET price = 0.5 WHERE item = 2")}).drop_nulls(
        "item"
    )
    prices = [str(price) for price in found["price"]]
    assert list(zip(seconds(found), found["item"], prices, strict=True)) == [
        (0.0, 1, "1.50"), (1.0, 1, "1.50"), (1.0, 2, "0.50"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "every", "wrong"),
    [("none.csv", "1 min", "table: 'none.csv'; expected a file that is there"),
     (pl.DataFrame({"a": [1]}), "1 min", "table: a table in memory; expected the path of a file"),
     ("timed.csv", "1 min", "table: column 'time'; expected a name other than"),
     ("good.csv", "0 s", "every: '0 s'; expected"), ("good.csv", "often", "every: 'often'; expected")],
)  # fmt: skip
def test_wrong_readings_are_refused_at_once(
    table: Any, every: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("good.csv"), Bonn=1.0)
    Path("timed.csv").write_text("time,fare\n2026-01-01,2\n")
    with pytest.raises(ValueError, match=wrong):
        readings(table, every)
