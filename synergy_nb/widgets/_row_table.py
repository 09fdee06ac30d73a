"""The newest rows of an application as a table: the newest window, what has changed in it, and how a page gets it.

A stream with windows shows its newest one, and marks each value that differs from that of the same group in the window
before; without groups, of the row at the same place. Of a stream without windows the last rows are shown, and the new
ones are marked.

A page gets the rows around those on its screen, in the order that it asks for. Only of these are there texts and marks,
so that what a hundred thousand rows cost is their order and the charts of their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_nb.drawing.svg import element
from synergy_nb.plan.operators.schemas import WINDOW_COLUMNS
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.tables import as_text
from synergy_nb.widgets._row_columns import cells, head_of, order_of

__all__ = ["RowTable", "ShownRows"]

LINE: Final = 120  # windows of a line
STILL: Final = 20  # rows of a picture
WIDE: Final = 40  # most characters of a cell of a picture
UP, DOWN, OTHER, NEW = 1, 2, 3, 4  # marks of a value or a row
CHART: Final = (96.0, 22.0)  # size of a small chart, pixels
SCREEN: Final = 13  # rows on the screen of a page
AROUND: Final = 100  # rows above and below these that a page gets, too: to scroll without the kernel
END = WINDOW_COLUMNS[1]


class ShownRows:
    """Rows that pages look at, each at a part of them."""

    def __init__(
        self,
        table: pl.DataFrame,
        caption: str = "",
        note: str = "",  # why there are no others
        *,
        lines: pl.DataFrame | None = None,  # earlier values of each column, shown in its head
        before: pl.DataFrame | None = None,  # rows of the window before, with which values are compared
        keys: Sequence[str] = (),  # columns that tell the rows of a window apart; none: rows at the same place are
        came: int = 0,  # number of the last rows that are new
    ) -> None:
        self.table = table
        self.caption = caption
        self.note = note
        self._lines = lines
        self._before = before
        self._keys = keys
        self._came = min(came, table.height)
        self._orders: dict[tuple[str, bool], pl.Series] = {}  # places of the rows, by column and direction

    @cached_property
    def heads(self) -> list[dict[str, Any]]:
        """What the head of each column shows."""
        lines = self._lines if self._lines is not None else pl.DataFrame()
        return [head_of(each, lines.get_column(each.name, default=None)) for each in self.table]

    def page(self, first: int, by: str = "", *, descending: bool = False) -> dict[str, Any]:
        """Return the rows around those on the screen of a page, for JSON.

        ``first``: place of the first row on the screen; ``by``: column whose values are in order, or empty.
        """
        height = self.table.height
        begin = max(min(first, height) - AROUND, 0)
        places = pl.Series(np.arange(begin, min(begin + SCREEN + 2 * AROUND, height), dtype=np.uint32))
        ordered = by in self.table.columns
        if ordered:
            places = self._order(by, descending=descending).gather(places)
        rows = self.table.select(pl.all().gather(places))
        marks, fresh = self._changes(rows, places)
        return {
            "caption": self.caption,
            "note": self.note,
            "rows": height,
            "begin": begin,
            "by": by if ordered else "",
            "descending": descending,
            "columns": self.heads,
            "cells": [cells(each) for each in rows],
            "marks": [marks[name].tolist() if name in marks else None for name in rows.columns],
            "fresh": fresh.tolist(),
        }

    def _order(self, by: str, *, descending: bool) -> pl.Series:
        if (by, descending) not in self._orders:
            self._orders[by, descending] = order_of(self.table[by], descending=descending)
        return self._orders[by, descending]

    def _changes(
        self, rows: pl.DataFrame, places: pl.Series
    ) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
        """Marks of values by column, and of rows, of which ``places`` are in the table."""
        before = self._before
        if before is None or not before.height:
            return {}, np.where(places.to_numpy() >= self.table.height - self._came, NEW, 0)
        place = "\0place"
        if self._keys:
            asked = rows.select(self._keys)
            known = before.join(asked, on=self._keys, how="semi", nulls_equal=True, maintain_order="left")
            known = known.unique(self._keys, keep="last").with_row_index(place)
            found = asked.join(
                known.select(*self._keys, place), on=self._keys, how="left", nulls_equal=True, maintain_order="left"
            )[place]  # fmt: skip
        else:
            known, found = before, places.set(places >= before.height, None)
        missing = found.is_null().to_numpy()
        marks: dict[str, np.ndarray[Any, Any]] = {}
        for name in rows.columns:
            if name in (*self._keys, *WINDOW_COLUMNS, "time") or not known.height:
                continue
            mark = _marks(known[name].gather(found.fill_null(0)), rows[name])
            mark[missing] = 0
            if mark.any():
                marks[name] = mark
        return marks, np.where(missing, NEW, 0)


class RowTable:
    """The rows of one sink."""

    def __init__(self, sink: str, empty: pl.DataFrame, keys: Sequence[str] = ()) -> None:
        self.sink = sink  # label of the sink
        self._keys = [key for key in keys if key in empty.columns and key not in (*WINDOW_COLUMNS, "time")]
        self._windows = END in empty.columns
        self._newest = self._before = empty  # windows, or all rows
        self._taken = False
        self.shown = ShownRows(empty, self._caption(empty))

    def take(self, table: pl.DataFrame, came: int, note: str = "") -> ShownRows:
        """Show other rows, of which the last ``came`` are new; ``note`` says why there are no others."""
        rows = table.filter(pl.col(END) == table[END].max()) if self._windows and table.height else table
        if not self._windows:
            given: dict[str, Any] = {"came": came if self._taken else 0}
        else:
            if not _same_window(rows, self._newest):
                self._before = self._newest
            alone = not self._keys and rows.height == 1 and table.height > 1
            given = {"before": self._before, "keys": self._keys, "lines": self._lines(table) if alone else None}
        self._newest, self._taken = rows, self._taken or bool(table.height)
        self.shown = ShownRows(self._telling(rows), self._caption(rows), note, **given)
        return self.shown

    def moment(self, table: pl.DataFrame, gone: int, note: str = "") -> ShownRows:
        """Return the rows that came in a time; ``gone`` is the number of those that are not retained any more."""
        caption = counted(table.height, "row")
        if gone:
            caption += f"; {counted(gone, 'row')} of that time {'is' if gone == 1 else 'are'} not retained any more"
        return ShownRows(self._telling(table), caption, note)

    def _caption(self, rows: pl.DataFrame) -> str:
        """What is shown, in words."""
        if not rows.height:
            return "no row yet"
        number = counted(rows.height, "row")
        if self._windows:
            start, end = (cells(rows[name].head(1))[0] for name in WINDOW_COLUMNS)
            return f"{number} of the newest window, from {start} to {end}"
        return f"the last {number}"

    def _telling(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table without the columns whose values the caption tells, as they are the same in all rows of a window."""
        same = [name for name in ("time", *WINDOW_COLUMNS) if self._windows and name in table.columns]
        alike = table.height > 0 and all(table[name].n_unique() == 1 for name in same)
        return table.drop(same) if alike and len(same) < table.width else table

    def _lines(self, table: pl.DataFrame) -> pl.DataFrame:
        """Earlier values of columns, where each window is one row."""
        return table.tail(LINE).select(
            each.name for each in table if each.dtype.is_numeric() and each.name not in ("time", *WINDOW_COLUMNS)
        )

    # -- without a page ------------------------------------------------------------------------------------------

    def to_text(self) -> str:
        """The first rows as text for a terminal."""
        heading, rows, more = self._few()
        shown = self.shown
        caption = f"rows of {self.sink}: {shown.caption}{f'. {shown.note}' if shown.note else ''}"
        return as_text(caption, heading, rows) + (f"\nand {more}" if more else "") if rows else caption

    def to_html(self) -> str:
        """The first rows and small charts as HTML, in the colours of the page around it."""
        heading, rows, more = self._few()
        title = f"Rows of {self.sink}: {self.shown.caption}"
        parts = [f"<caption style='text-align:left'>{escape(title)}</caption>"]
        if rows:
            heads = zip(heading, self.shown.heads, strict=True)
            drawn = [f"<th style='text-align:left'>{escape(name)}<br>{_chart(head)}</th>" for name, head in heads]
            parts.append(f"<tr>{''.join(drawn)}</tr>")
        cell = "<td style='text-align:left'>{}</td>".format
        parts += [f"<tr>{''.join(cell(escape(each)) for each in row)}</tr>" for row in rows]
        said = " ".join(filter(None, (f"And {more}." if more else "", self.shown.note)))
        return f"<table>{''.join(parts)}</table>" + (f"<p>{escape(said)}</p>" if said else "")

    def _few(self) -> tuple[list[str], list[list[str]], str]:
        table = self.shown.table
        few = [["" if each is None else _short(each) for each in cells(column)] for column in table.head(STILL)]
        left = table.height - STILL
        rows = [list(row) for row in zip(*few, strict=True)]
        return table.columns, rows, counted(left, "more row") if left > 0 else ""


def _same_window(rows: pl.DataFrame, others: pl.DataFrame) -> bool:
    """Whether rows are of the window of others, of which more have come."""
    return bool(rows.height and others.height) and rows[END][0] == others[END][0]


def _chart(head: dict[str, Any]) -> str:
    """The small chart of a column as SVG."""
    width, height = CHART
    values = [each or 0.0 for each in head.get("line", head["bars"])]
    if not values:
        return ""
    least = min(values) if "line" in head else 0.0
    most = max(values) - least or 1.0
    step = width / len(values)
    bars = [
        element("rect", "", x=at * step, y=height - tall, width=max(step - 1, 1), height=tall)
        for at, value in enumerate(values)
        for tall in [max((value - least) / most * (height - 2), 1.0 if value else 0.0)]
    ]
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "fill": "currentColor", "opacity": ".55"}
    return element("svg", "", *bars, **size)


def _marks(before: pl.Series, now: pl.Series) -> np.ndarray[Any, Any]:
    """How each value differs from the one before."""
    try:
        differs = before.ne_missing(now).to_numpy()
    except pl.exceptions.PolarsError:  # what cannot be compared
        return np.zeros(len(now), np.uint8)
    mark = np.where(differs, OTHER, 0).astype(np.uint8)
    if now.dtype.is_numeric():
        up, down = (now > before).fill_null(value=False).to_numpy(), (now < before).fill_null(value=False).to_numpy()
        mark[up & differs], mark[down & differs] = UP, DOWN
    return mark


def _short(text: str) -> str:
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"
