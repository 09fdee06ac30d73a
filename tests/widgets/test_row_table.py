"""The newest rows as a table: which are shown, what is marked in them, and what a page gets of each column."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import polars as pl
import pytest

from synergy_nb.widgets._row_columns import LONGEST, cells, head_of, order_of
from synergy_nb.widgets._row_table import DOWN, LINE, NEW, OTHER, STILL, UP, RowTable, ShownRows


def windows(end: int, **values: list[Any]) -> pl.DataFrame:
    """Rows of the window that ends at a second."""
    times = {"time": end * 1_000_000 - 1, "window_start": (end - 1) * 1_000_000, "window_end": end * 1_000_000}
    found = pl.DataFrame(values).with_columns(
        **{name: pl.lit(at).cast(pl.Datetime("us")) for name, at in times.items()}
    )
    return found.select(*times, *values)


def read(rows: ShownRows, first: int = 0, by: str = "", *, descending: bool = False) -> dict[str, dict[str, Any]]:
    """What a page reads of a message, by column; the marks of rows are in the column ""."""
    content = json.loads(json.dumps(rows.page(first, by, descending=descending), allow_nan=False))
    parts = zip(content["columns"], content["cells"], content["marks"], strict=True)
    found = {head["name"]: {"cells": texts, "marks": marks, **head} for head, texts, marks in parts}
    return {**found, "": {"marks": content["fresh"], "begin": content["begin"], "rows": content["rows"]}}


def test_the_newest_window_is_shown_and_each_value_is_compared_with_that_of_its_group_before() -> None:
    first = windows(1, link=["A", "B", "C"], n=[5, 6, 7], best=["x", "y", None])
    second = windows(2, link=["C", "A", "D"], n=[7, 4, 1], best=["z", "x", "x"])
    table = RowTable("busiest", first.clear(), ["link"])
    seen = read(table.take(first, 3))
    assert (seen["link"]["cells"], seen[""]["marks"]) == (["A", "B", "C"], [0, 0, 0])
    assert "time" not in seen, "the caption has what is the same in all rows"
    seen = read(table.take(pl.concat([first, second]), 3))
    assert seen["n"]["cells"] == ["7", "4", "1"]
    assert seen["n"]["marks"] == [0, DOWN, 0]
    assert seen["best"]["marks"] == [OTHER, 0, 0]
    assert seen[""]["marks"] == [0, 0, NEW]
    assert table.shown.caption == "3 rows of the newest window, from 1970-01-01 00:00:01 to 1970-01-01 00:00:02"


def test_without_groups_rows_at_the_same_place_are_compared_and_single_rows_have_a_line_of_earlier_windows() -> None:
    table = RowTable("sums", windows(1, n=[0]).clear())
    every = pl.concat([windows(end, n=[end]) for end in range(1, LINE + 5)])
    table.take(every.head(3), 3)
    seen = read(table.take(every, LINE))
    assert seen["n"]["marks"] == [UP]
    assert seen["n"]["line"] == [float(n) for n in range(5, LINE + 5)]


def test_of_a_stream_without_windows_the_rows_that_came_are_marked() -> None:
    rows = pl.DataFrame({"time": [1, 2, 3], "n": [1, 1, 1]})
    table = RowTable("all", rows.clear())
    assert read(table.take(rows, 3))[""]["marks"] == [0, 0, 0], "all are new at first"
    assert read(table.take(rows, 1))[""]["marks"] == [0, 0, NEW]
    assert read(table.take(rows, 7))[""]["marks"] == [NEW] * 3
    assert table.shown.caption == "the last 3 rows"


def test_each_kind_of_column_reaches_a_page_as_it_is() -> None:
    day = dt.datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=dt.UTC).replace(tzinfo=None)  # as a trace has it
    rows = pl.DataFrame(
        {
            "small": pl.Series([1, None, -3], dtype=pl.Int64),
            "wide": [70_000, -70_000, 0],
            "wider": [2**40, 0, 1],
            "large": pl.Series([2**63, 5, 40], dtype=pl.UInt64),
            "real": [0.5, float("nan"), float("inf")],
            "yes": [True, None, False],
            "word": ["<b>b</b>", "", None],
            "at": [day, None, day],
            "on": [day.date()] * 3,
            "for": [dt.timedelta(seconds=2)] * 3,
            "clock": [dt.time(1)] * 3,
            "list": [[1, 2], [], None],
            "bytes": [b"\x01\xff", b"", None],
            "one name\n& <more>": [1, 2, 3],
        }
    )
    seen = read(RowTable("all", rows.clear()).take(rows, 3))
    assert {name: column["cells"] for name, column in seen.items() if name} == {
        "small": ["1", None, "-3"],
        "wide": ["70000", "-70000", "0"],
        "wider": [str(2**40), "0", "1"],
        "large": [str(2**63), "5", "40"],
        "real": ["0.5", "NaN", "∞"],
        "yes": ["true", None, "false"],
        "word": ["<b>b</b>", "", None],
        "at": ["2026-03-01 12:00:00.000005", None, "2026-03-01 12:00:00.000005"],
        "on": ["2026-03-01"] * 3,
        "for": ["2 s"] * 3,
        "clock": ["01:00:00"] * 3,
        "list": ["[1, 2]", "[]", None],
        "bytes": ["01ff", "", None],
        "one name\n& <more>": ["1", "2", "3"],
    }
    about = {name: column["about"] for name, column in seen.items() if name}
    assert about["small"] == "-3 to 1, 1 empty"
    assert about["real"] == "0.5", "of those that are finite"
    assert about["word"] == "2 different, 1 empty"
    assert seen["one name\n& <more>"]["bars"][0] == 1


@pytest.mark.parametrize(
    ("values", "ascending", "descending"),
    [
        ([0.5, float("nan"), -1.0, None, 0.5], [2, 0, 4, 1, 3], [0, 4, 2, 1, 3]),
        (["b", "", None, "ä"], [1, 0, 3, 2], [3, 0, 1, 2]),
        ([2**70, 5, None, 40], [1, 3, 0, 2], [0, 3, 1, 2]),
        ([True, None, False], [2, 0, 1], [0, 2, 1]),
        ([[10], [9], None], [0, 1, 2], [1, 0, 2]),  # by their texts
        ([b"\x10", b"\x09"], [1, 0], [0, 1]),
    ],
)
def test_rows_in_the_order_of_any_column(values: list[Any], ascending: list[int], descending: list[int]) -> None:
    column = pl.Series("x", values, dtype=pl.Int128 if values[0] == 2**70 else None)
    assert order_of(column, descending=False).to_list() == ascending
    assert order_of(column, descending=True).to_list() == descending


def test_a_page_gets_the_rows_around_those_on_its_screen_with_their_marks() -> None:
    many = 1000
    first = windows(1, link=[f"{n:04}" for n in range(many)], n=[0] * many)
    second = windows(2, link=[f"{n:04}" for n in range(1, many + 1)], n=[n % 2 for n in range(many)])
    table = RowTable("busiest", first.clear(), ["link"])
    table.take(first, many)
    rows = table.take(second, many)
    seen = read(rows, 500)
    assert (seen[""]["begin"], seen[""]["rows"], len(seen["link"]["cells"])) == (400, many, 213)
    assert seen["link"]["cells"][0] == "0401"
    assert seen["n"]["marks"][:3] == [0, UP, 0]
    seen = read(rows, 7, "link", descending=True)
    assert (seen[""]["begin"], seen["link"]["cells"][0], seen[""]["marks"][:2]) == (0, "1000", [NEW, 0])
    assert seen["n"]["marks"][:3] == [0, 0, UP], "a new one has no mark of its values"
    assert len(read(rows, 10**9)["link"]["cells"]) == 100, "the last ones"
    assert read(rows, 0, "no column")["link"]["cells"][0] == "0001"


def test_rows_of_a_window_that_come_in_pieces_are_compared_with_the_window_before() -> None:
    table = RowTable("busiest", windows(1, link=["A"], n=[1]).clear(), ["link"])
    table.take(windows(1, link=["A", "B"], n=[1, 1]), 2)
    table.take(windows(2, link=["A"], n=[2]), 1)
    seen = read(table.take(windows(2, link=["A", "B"], n=[2, 1]), 1))
    assert (seen["n"]["marks"], seen[""]["marks"]) == ([UP, 0], [0, 0])


def test_long_texts_are_cut() -> None:
    assert [len(each or "") for each in cells(pl.Series(["ä" * 10_000, "b"]))] == [LONGEST + 1, 1]


def test_times_of_a_zone_are_those_of_its_clocks_and_of_any_unit() -> None:
    at = dt.datetime(2026, 7, 1, 12, 0, 0, 5000, tzinfo=dt.UTC).replace(tzinfo=None)
    for unit in ("ms", "us", "ns"):
        column = pl.Series("at", [at]).cast(pl.Datetime(unit))
        for given in (column, column.dt.replace_time_zone("Europe/Berlin")):
            assert cells(given) == ["2026-07-01 12:00:00.005"]
    assert cells(pl.Series([dt.time(1, 0, 0, 5000)])) == ["01:00:00.005"]


@pytest.mark.parametrize("values", [[], [float("nan")], [None], [1e308, -1e308], [5.0] * 3])
def test_histograms_of_odd_values(values: list[float | None]) -> None:
    head = head_of(pl.Series("x", values, dtype=pl.Float64))
    assert sum(head["bars"]) == sum(value is not None and not math.isnan(value) for value in values)


def test_an_empty_window_and_no_row_at_all() -> None:
    nothing = windows(1, link=["A"]).clear()
    table = RowTable("none", nothing, ["link"])
    assert read(table.take(nothing, 0, "the peer of the sink does not answer"))["link"]["cells"] == []
    assert table.to_text() == "rows of none: no row yet. the peer of the sink does not answer"
    assert "does not answer" in table.to_html()


def test_rows_that_are_not_retained_any_more_are_said_to_be_gone() -> None:
    rows = pl.DataFrame({"n": [1, 2]})
    table = RowTable("all", rows.clear())
    assert table.moment(rows, 0).caption == "2 rows"
    assert table.moment(rows, 1).caption == "2 rows; 1 row of that time is not retained any more"
    assert table.moment(rows.clear(), 30).caption == "0 rows; 30 rows of that time are not retained any more"


def test_what_stays_without_a_page_is_short_and_escaped() -> None:
    rows = pl.DataFrame({"<i>": ["<script>1</script>", "x" * 100] * STILL, "n": range(2 * STILL)})
    table = RowTable("<sink>", rows.clear())
    table.take(rows, 0)
    html = table.to_html()
    assert "<script>" not in html
    assert "&lt;script&gt;1&lt;/script&gt;" in html
    assert "Rows of &lt;sink&gt;: the last 40 rows" in html
    assert html.count("<tr>") == 1 + STILL
    assert f"And {STILL} more rows." in html
    assert html.count("<svg") == 2
    assert max(map(len, table.to_text().splitlines())) < 60
    assert table.to_text().endswith(f"and {STILL} more rows")
