"""The newest rows as a table: which are shown, what is marked in them, and what a page gets of each column."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb.widgets._row_columns import LONGEST, packed
from synergy_nb.widgets._row_table import DOWN, LINE, NEW, OTHER, STILL, UP, RowMessage, RowTable

ARRAYS = {"i1": np.int8, "i2": np.int16, "i4": np.int32, "f4": np.float32, "f8": np.float64}


def windows(end: int, **values: list[Any]) -> pl.DataFrame:
    """Rows of the window that ends at a second."""
    times = {"time": end * 1_000_000 - 1, "window_start": (end - 1) * 1_000_000, "window_end": end * 1_000_000}
    found = pl.DataFrame(values).with_columns(
        **{name: pl.lit(at).cast(pl.Datetime("us")) for name, at in times.items()}
    )
    return found.select(*times, *values)


def read(message: RowMessage) -> dict[str, dict[str, Any]]:
    """What a page reads of a message, by column; the marks of rows are in the column ""."""
    json.dumps(message.content, allow_nan=False)
    buffers, found = list(message.buffers), {}
    for head in message.content["columns"]:
        values: Any = np.frombuffer(buffers.pop(0), ARRAYS[head["array"]])
        if head["kind"] == "text":
            ends, texts = np.frombuffer(buffers.pop(0), np.int32), buffers.pop(0)
            words = [texts[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]
            assert words == sorted(words) or head["name"] == "large", "so that places sort as the texts do"
            values = [words[code] if words else "" for code in values]
        empty = np.frombuffer(buffers.pop(0), np.uint8) if head["empty"] else np.zeros(len(values))
        marks = np.frombuffer(buffers.pop(0), np.uint8).tolist() if head.get("marked") else []
        shown = [None if none else value for value, none in zip(values, empty, strict=True)]
        found[head["name"]] = {"values": shown, "marks": marks, **head}
    found[""] = {"marks": np.frombuffer(buffers.pop(0), np.uint8).tolist()}
    assert not buffers
    return found


def test_the_newest_window_is_shown_and_each_value_is_compared_with_that_of_its_group_before() -> None:
    first = windows(1, link=["A", "B", "C"], n=[5, 6, 7], best=["x", "y", None])
    second = windows(2, link=["C", "A", "D"], n=[7, 4, 1], best=["z", "x", "x"])
    table = RowTable("busiest", first.clear(), ["link"])
    seen = read(table.take(first, 3))
    assert (seen["link"]["values"], seen[""]["marks"]) == (["A", "B", "C"], [0, 0, 0])
    assert "time" not in seen, "the caption has what is the same in all rows"
    seen = read(table.take(pl.concat([first, second]), 3))
    assert seen["n"]["values"] == [7, 4, 1]
    assert seen["n"]["marks"] == [0, DOWN, 0]
    assert seen["best"]["marks"] == [OTHER, 0, 0]
    assert seen[""]["marks"] == [0, 0, NEW]
    assert table.caption == "3 rows of the newest window, from 1970-01-01 00:00:01 to 1970-01-01 00:00:02"


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
    assert table.caption == "the last 3 rows"


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
    assert seen["small"]["values"] == [1, None, -3]
    assert [seen[name]["array"] for name in ("small", "wide", "wider")] == ["i1", "i4", "f8"]
    assert seen["wider"]["values"] == [2**40, 0, 1]
    assert seen["large"]["values"] == [str(2**63), "5", "40"], "no JavaScript number is as exact"
    assert np.isnan(seen["real"]["values"][1])
    assert (seen["real"]["low"], seen["real"]["high"]) == (0.5, 0.5), "of those that are finite"
    assert seen["yes"]["values"] == ["true", None, "false"]
    assert seen["word"]["values"] == ["<b>b</b>", "", None]
    assert seen["at"]["values"] == [day.replace(tzinfo=dt.UTC).timestamp() * 1e6, None, seen["at"]["values"][0]]
    assert (seen["on"]["kind"], seen["for"]["values"][0], seen["clock"]["values"][0]) == ("date", 2e6, 3.6e9)
    assert seen["list"]["values"] == ["[1, 2]", "[]", None]
    assert seen["bytes"]["values"] == ["01ff", "", None]
    assert seen["one name\n& <more>"]["bars"][0] == 1


def test_large_integers_sort_as_numbers_and_long_texts_are_cut() -> None:
    column = packed(pl.Series("large", [2**63, 5, 40], dtype=pl.UInt64))
    assert np.frombuffer(column.arrays[0], np.int8).tolist() == [2, 0, 1]
    long = packed(pl.Series("long", ["ä" * 10_000, "b"]))
    assert len(long.arrays[2].decode()) == LONGEST + 2


def test_times_of_a_zone_are_those_of_its_clocks_and_of_any_unit() -> None:
    at = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC).replace(tzinfo=None)
    for unit in ("ms", "us", "ns"):
        column = pl.Series("at", [at]).cast(pl.Datetime(unit))
        for given in (column, column.dt.replace_time_zone("Europe/Berlin")):
            (found,) = np.frombuffer(packed(given).arrays[0], np.float64)
            assert found == at.replace(tzinfo=dt.UTC).timestamp() * 1e6


@pytest.mark.parametrize("values", [[], [float("nan")], [None], [1e308, -1e308], [5.0] * 3])
def test_histograms_of_odd_values(values: list[float | None]) -> None:
    head = packed(pl.Series("x", values, dtype=pl.Float64)).head
    assert sum(head["bars"]) == sum(value is not None and not math.isnan(value) for value in values)


def test_an_empty_window_and_no_row_at_all() -> None:
    nothing = windows(1, link=["A"]).clear()
    table = RowTable("none", nothing, ["link"])
    assert read(table.take(nothing, 0, "the peer of the sink does not answer"))["link"]["values"] == []
    assert table.to_text() == "rows of none: no row yet. the peer of the sink does not answer"
    assert "does not answer" in table.to_html()


def test_rows_that_are_not_retained_any_more_are_said_to_be_gone() -> None:
    rows = pl.DataFrame({"n": [1, 2]})
    table = RowTable("all", rows.clear())
    assert table.moment(rows, 0).content["caption"] == "2 rows"
    assert table.moment(rows, 1).content["caption"] == "2 rows; 1 row of that time is not retained any more"
    assert table.moment(rows.clear(), 30).content["caption"] == "0 rows; 30 rows of that time are not retained any more"


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
