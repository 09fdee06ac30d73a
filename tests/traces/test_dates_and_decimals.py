"""Dates, durations and decimals come into streams from files, rows and functions, exactly or not at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb import Plan, function
from synergy_nb.dataflow.streams.replicas._tuple_words import TupleWords
from synergy_nb.dataflow.tuples import TYPES, Batch, decode, encode
from synergy_nb.plan import PlanError, source
from synergy_nb.testing import run
from synergy_nb.traces import read
from synergy_nb.traces._columns import inferred, stored_kinds
from synergy_nb.traces._typed_columns import convert
from synergy_nb.traces.rows import FeedError, RowReader

DAY, HOUR, PRICE = dt.date(2026, 1, 31), dt.timedelta(hours=1), Decimal("1.25")
KINDS = {"day": "date", "wait": "duration", "price": "decimal(9, 2)"}
NOON = dt.datetime(2026, 1, 31, 12)  # noqa: DTZ001 - times of streams have no zone


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        (["2026-01-31", " 2026-01-31 ", "2026-1-31", "2026-02-30", "2026-01-31 12:00"], "date",
         [DAY, DAY, None, None, None]),
        ([NOON, NOON.replace(hour=0)], "date", [None, DAY]),
        ([20260131], "date", [None]),
        (["01:00:00", "-2 days 01:30:00.5", "3600", "1.5", "1:60", "soon"], "duration",
         [HOUR, -dt.timedelta(days=2, hours=1, minutes=30, seconds=0.5), HOUR, dt.timedelta(seconds=1.5), None, None]),
        ([3600.0, float("nan"), 1e300], "duration", [HOUR, None, None]),
        (pl.Series([1, 1_000_001]).cast(pl.Duration("ns")), "duration", [None, None]),
        (["1.25", "1.250", "+1.25", "1.255", "12345678.25", "1e3", ".5", ""], "decimal(9, 2)",
         [PRICE, PRICE, PRICE, None, None, None, Decimal("0.50"), None]),
        ([1.25, 1.255, 0.1], "decimal(9, 2)", [PRICE, None, Decimal("0.10")]),
        ([1, 10**8], "decimal(9, 2)", [Decimal(1), None]),
        ([PRICE, Decimal("1.255")], "decimal(9, 2)", [PRICE, None]),
        ([PRICE, Decimal(2)], "float", [1.25, 2.0]),
        ([DAY], "str", ["2026-01-31"]),
        ([DAY], "time", [NOON.replace(hour=0)]),
    ],
)  # fmt: skip
def test_a_value_is_converted_without_loss_or_is_malformed(values: Any, kind: str, found: list[Any]) -> None:
    made = convert(pl.Series(values), kind)
    assert (made.dtype, made.to_list()) == (TYPES[kind], found)


def test_files_have_the_types_that_are_stated_or_found(tmp_path: Path) -> None:
    rows = pl.DataFrame({"time": [NOON], "day": [DAY], "wait": [HOUR], "price": [PRICE]})
    rows.with_columns(pl.col("price").cast(TYPES["decimal(9, 2)"])).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("time,day,wait,price\n2026-01-31 12:00,2026-01-31,01:00:00,1.25\n")
    for name in ("csv", "parquet"):
        plan = source(
            "trace", path=str(tmp_path / f"rows.{name}"), format=name, columns={"time": "time", **KINDS}
        ).sink()
        (batch,) = (item for item in read(plan.operators["source"].params) if isinstance(item, Batch))
        assert batch.table.schema == {name: TYPES[kind] for name, kind in plan.schema("source").items()}
        assert batch.table.rows() == [(NOON, DAY, HOUR, PRICE)]
        assert decode(encode(batch)) == batch
        assert Plan.from_bytes(plan.to_bytes()).schema("source") == plan.schema("source") == {"time": "time", **KINDS}
        assert Plan.from_yaml(plan.to_yaml()) == plan
    assert stored_kinds(pl.read_parquet_schema(tmp_path / "rows.parquet")) == {"time": "time", **KINDS}
    found = inferred(pl.read_csv(tmp_path / "rows.csv", infer_schema=False))
    assert found == {"time": "time", "day": "date", "wait": "str", "price": "float"}


def test_rows_of_a_program_are_checked() -> None:
    reader = RowReader("rows", KINDS)
    good = {"time": NOON, "day": DAY, "wait": HOUR, "price": PRICE}
    others = [
        {"time": NOON, "day": "2026-01-31", "wait": 3600, "price": 1.25},
        {"time": NOON, "day": np.datetime64("2026-01-31"), "wait": np.timedelta64(1, "h"), "price": "1.25"},
        {"time": NOON, "day": NOON.replace(hour=0), "wait": "01:00:00", "price": PRICE},
    ]
    for rows in (good, [good], pl.DataFrame([good]), *others, [good, *others]):
        assert set(reader.table(rows).rows()) == {(NOON, DAY, HOUR, PRICE)}
    for field, value, wanted in (
        ("day", NOON, "a date, such as 2026-01-31, without a time within the day"),
        ("wait", "soon", "a duration, as HH:MM:SS or seconds"),
        ("wait", True, "a duration, as HH:MM:SS or seconds"),
        ("price", Decimal("1.255"), "a number of at most 9 digits, of which at most 2 are behind the point"),
    ):
        with pytest.raises(FeedError, match=f"column '{field}': .* in row 0; expected {wanted}"):
            reader.table({**good, field: value})


@function(columns={"due": "date", "wait": "duration", "price": "decimal(9, 2)"})
def _doubled(batch: pl.DataFrame) -> pl.DataFrame:
    return batch.select(due=pl.col("day").dt.offset_by("1d"), wait=pl.col("wait") * 2, price=pl.col("price") * 2)


@function(columns={"price": "decimal(9, 2)"}, form="row")
def _share(row: dict[str, Any]) -> dict[str, Any]:
    return {"price": row["price"] / 3 if row["price"] > 1 else row["price"]}


def test_functions_get_and_return_them() -> None:
    rows = pl.DataFrame({"time": [NOON], "day": [DAY], "wait": [HOUR], "price": [PRICE]})
    assert run(_doubled, rows).rows() == [(NOON, dt.date(2026, 2, 1), 2 * HOUR, 2 * PRICE)]
    assert run(_share, rows.with_columns(price=Decimal("0.25"))).rows() == [(NOON, Decimal("0.25"))]
    with pytest.raises(ValueError, match=r"column 'price': Decimal\('0.41.*; expected decimal\(9, 2\)"):
        run(_share, rows)
    with pytest.raises(ValueError, match=r"columns.price: 'decimal\(40, 2\)'; expected one of .*decimal\(18, 2\)"):
        function(columns={"price": "decimal(40, 2)"})(_share)


def test_lists_and_structs_come_from_rows_files_and_functions(tmp_path: Path) -> None:
    kinds = {"tags": "str[]", "place": "struct(city str, zip int)", "sizes": "float[]"}
    good = {"time": NOON, "tags": ["a", None], "place": {"city": "Bonn", "zip": 5}, "sizes": [1.0]}
    reader = RowReader("rows", kinds)
    rows = pl.DataFrame([good], schema={name: TYPES[kind] for name, kind in reader.columns.items()})
    for given in (good, [good], rows, {**good, "sizes": [1]}, {**good, "place": {"zip": 5, "city": "Bonn"}}):
        assert reader.table(given).rows() == rows.rows()
    assert reader.table({**good, "tags": [], "place": None}).row(0) == (NOON, [], None, [1.0])
    for field, value in (("tags", "a"), ("tags", [[1]]), ("place", {"city": "Bonn", "zip": 1.5}), ("sizes", ["x"])):
        with pytest.raises(FeedError, match=f"column '{field}': .* in row 0; expected a value of type"):
            reader.table({**good, field: value})
    rows.write_parquet(tmp_path / "rows.parquet")
    params = {"path": str(tmp_path / "rows.parquet"), "format": "parquet"}
    plan = source("trace", **params, columns={"time": "time", **kinds}).unnest("tags").sink()
    (batch,) = (item for item in read(plan.operators["source"].params) if isinstance(item, Batch))
    assert batch.table.equals(rows)
    assert decode(encode(batch)) == batch
    assert plan.schema("unnest") == {**reader.columns, "tags": "str"}
    assert stored_kinds(rows.schema) == reader.columns
    with pytest.raises(PlanError, match=r"columns.tags: 'str\[\]'; expected a type that text has"):
        source("trace", path="rows.csv", format="csv", columns={"time": "time", **kinds}).sink()
    assert run(_tagged, rows).rows() == [(NOON, ["Bonn", "5"], {"n": 2})]


@function(columns={"tags": "str[]", "made": "struct(n int)"}, form="row")
def _tagged(row: dict[str, Any]) -> dict[str, Any]:
    return {"tags": [row["place"]["city"], str(row["place"]["zip"])], "made": {"n": len(row["tags"])}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rows: rows.aggregate("tags", "1 s", n="count(*)"), "by: 'tags'; expected a column of type .*not str"),
        (
            lambda rows: rows.join(rows.filter("n > 1"), on="tags", within="1 s"),
            "on: 'tags'; expected a column of type",
        ),
        (lambda rows: rows.unnest("n"), "column: 'n'; expected a column of type list or struct, not int"),
        (lambda rows: rows.unnest("place"), "column: 'place'; .*other names than columns: n is both"),
        (lambda rows: rows.encrypt("tags", key="k"), "columns: 'tags'; expected a column of type int or float"),
        (
            lambda rows: rows.lookup(pl.DataFrame({"n": [1], "v": [[1]]}), on="n"),
            "'v' of type List.*convert the column",
        ),
        (lambda rows: rows.filter("tags = tags"), "a value without parts, not str"),
    ],
)
def test_what_lists_and_structs_cannot_do_is_refused_by_name(make: Any, message: str) -> None:
    rows = source("python", name="rows", columns={"tags": "str[]", "place": "struct(n int)", "n": "int"})
    with pytest.raises(ValueError, match=message):
        make(rows).sink()


def test_tuples_that_differ_in_a_fraction_or_in_a_part_are_no_duplicates() -> None:
    columns = {"price": [Decimal("1.25"), Decimal("1.75")], "tags": [["a"], ["b"]]}
    table = pl.DataFrame({"time": [NOON] * 2, **columns})
    for name in columns:
        some = table.select("time", name)
        first, second = TupleWords(some.schema).words(some).tolist()
        assert first != second


def test_a_plan_states_types_in_one_spelling() -> None:
    plans = [source("python", name="rows", columns={"price": kind}) for kind in ("decimal(9,2)", "DECIMAL(9, 2)")]
    first, second = (plan.filter("price > 1.10").sink() for plan in plans)
    assert first == second
    assert first.schema("filter")["price"] == "decimal(9, 2)"
    assert first.operators["filter"].params["where"] == "price > 1.1"
