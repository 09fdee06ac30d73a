"""The newest rows of an application as a table: the newest window, what has changed in it, and how a page gets it.

A stream with windows shows its newest one, and marks each value that differs from that of the same group in the window
before; without groups, of the row at the same place. Of a stream without windows the last rows are shown, and the new
ones are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from synergy_nb.drawing.svg import element
from synergy_nb.plan.operators.schemas import WINDOW_COLUMNS
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.tables import as_text
from synergy_nb.widgets._row_columns import packed, worded

__all__ = ["RowMessage", "RowTable"]

LINE: Final = 120  # windows of a line
STILL: Final = 20  # rows of a picture
WIDE: Final = 40  # most characters of a cell of a picture
UP, DOWN, OTHER, NEW = 1, 2, 3, 4  # marks of a value or a row
CHART: Final = (96.0, 22.0)  # size of a small chart, pixels
END = WINDOW_COLUMNS[1]


class RowMessage(NamedTuple):
    """Rows for a page."""

    content: dict[str, Any]
    buffers: list[bytes]

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(map(len, self.buffers))


class RowTable:
    """The rows of one sink."""

    def __init__(self, sink: str, empty: pl.DataFrame, keys: Sequence[str] = ()) -> None:
        self.sink = sink  # label of the sink
        self._keys = [key for key in keys if key in empty.columns and key not in (*WINDOW_COLUMNS, "time")]
        self._all = self._shown = empty
        self._note = ""
        self._windows = END in empty.columns
        self._taken = False
        self._heads: dict[str, dict[str, Any]] = {}  # of the columns that are shown

    def take(self, table: pl.DataFrame, came: int, note: str = "") -> RowMessage:
        """Show other rows, of which the last ``came`` are new; ``note`` says why there are no others."""
        before, self._all, self._note = self._shown, table, note
        self._shown = self._newest(table)
        marks, new = self._changes(before, came if self._taken else 0)
        self._taken = self._taken or bool(table.height)
        message = self._message(self._shown, self.caption, note, marks, new)
        self._heads = {head["name"]: head for head in message.content["columns"]}
        return message

    def moment(self, table: pl.DataFrame, gone: int, note: str = "") -> RowMessage:
        """Return the rows that came in a time; ``gone`` is the number of those that are not retained any more."""
        caption = counted(table.height, "row")
        if gone:
            caption += f"; {counted(gone, 'row')} of that time {'is' if gone == 1 else 'are'} not retained any more"
        return self._message(table, caption, note, {}, np.zeros(table.height, np.uint8))

    @property
    def caption(self) -> str:
        """What is shown, in words."""
        if not self._shown.height:
            return "no row yet"
        rows = counted(self._shown.height, "row")
        if self._windows:
            start, end = (_plain(*worded(self._shown[name].head(1))) for name in WINDOW_COLUMNS)
            return f"{rows} of the newest window, from {start} to {end}"
        return f"the last {rows}"

    def _newest(self, table: pl.DataFrame) -> pl.DataFrame:
        if not self._windows or not table.height:
            return table
        return table.filter(pl.col(END) == table[END].max())

    def _changes(self, before: pl.DataFrame, came: int) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
        """Marks of values by column, and of rows."""
        now = self._shown
        new = np.zeros(now.height, np.uint8)
        if not before.height or not now.height:
            return {}, new
        if not self._windows:
            new[now.height - min(came, now.height) :] = NEW
            return {}, new
        values = [each for each in now.columns if each not in (*self._keys, *WINDOW_COLUMNS, "time")]
        place = "\0place"
        if self._keys:
            known = before.unique(self._keys, keep="last", maintain_order=True).with_row_index(place)
            found = now.select(self._keys).join(
                known.select(*self._keys, place), on=self._keys, how="left", nulls_equal=True, maintain_order="left"
            )[place]  # fmt: skip
        else:
            known = before
            found = pl.Series(place, np.arange(now.height), pl.UInt32).set(
                pl.Series(np.arange(now.height) >= before.height), None
            )
        missing = found.is_null().to_numpy()
        new[missing] = NEW
        marks: dict[str, np.ndarray[Any, Any]] = {}
        for name in values:
            mark = _marks(known[name].gather(found.fill_null(0)), now[name])
            mark[missing] = 0
            if mark.any():
                marks[name] = mark
        return marks, new

    def _message(
        self,
        table: pl.DataFrame,
        caption: str,
        note: str,
        marks: dict[str, np.ndarray[Any, Any]],
        new: np.ndarray[Any, Any],
    ) -> RowMessage:
        heads, buffers = [], list[bytes]()
        for column in self._telling(table):
            head, arrays = packed(column, self._line(column))
            buffers += arrays
            if column.name in marks:
                head["marked"] = True
                buffers.append(marks[column.name].tobytes())
            heads.append(head)
        buffers.append(new.tobytes())
        content = {"sink": self.sink, "caption": caption, "note": note, "rows": table.height, "columns": heads}
        return RowMessage(content, buffers)

    def _telling(self, table: pl.DataFrame) -> pl.DataFrame:
        """A table without the columns whose values the caption tells, as they are the same in all rows of a window."""
        same = [name for name in ("time", *WINDOW_COLUMNS) if self._windows and name in table.columns]
        alike = table.height > 0 and all(table[name].n_unique() == 1 for name in same)
        return table.drop(same) if alike and len(same) < table.width else table

    def _line(self, column: pl.Series) -> pl.Series | None:
        """Earlier values of a column, where each window is one row."""
        alone = self._windows and not self._keys and self._shown.height == 1
        of_values = column.dtype.is_numeric() and column.name not in ("time", *WINDOW_COLUMNS)
        return self._all[column.name].tail(LINE) if alone and of_values and self._all.height > 1 else None

    # -- without a page ------------------------------------------------------------------------------------------

    def to_text(self) -> str:
        """The first rows as text for a terminal."""
        heading, rows, more = self._few()
        caption = f"rows of {self.sink}: {self.caption}{f'. {self._note}' if self._note else ''}"
        return as_text(caption, heading, rows) + (f"\nand {more}" if more else "") if rows else caption

    def to_html(self) -> str:
        """The first rows and small charts as HTML, in the colours of the page around it."""
        heading, rows, more = self._few()
        title = f"Rows of {self.sink}: {self.caption}"
        parts = [f"<caption style='text-align:left'>{escape(title)}</caption>"]
        if rows:
            drawn = [f"<th style='text-align:left'>{escape(name)}<br>{self._chart(name)}</th>" for name in heading]
            parts.append(f"<tr>{''.join(drawn)}</tr>")
        cell = "<td style='text-align:left'>{}</td>".format
        parts += [f"<tr>{''.join(cell(escape(each)) for each in row)}</tr>" for row in rows]
        said = " ".join(filter(None, (f"And {more}." if more else "", self._note)))
        return f"<table>{''.join(parts)}</table>" + (f"<p>{escape(said)}</p>" if said else "")

    def _few(self) -> tuple[list[str], list[list[str]], str]:
        shown = self._telling(self._shown.head(STILL))
        few = [["" if each is None else _short(each) for each in worded(column)] for column in shown]
        left = self._shown.height - STILL
        rows = [list(row) for row in zip(*few, strict=True)]
        return shown.columns, rows, counted(left, "more row") if left > 0 else ""

    def _chart(self, name: str) -> str:
        head = self._heads.get(name, {"bars": []})
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


def _plain(time: str) -> str:
    """A time without zeros at its end."""
    return time.rstrip("0").rstrip(".") if "." in time else time


def _short(text: str) -> str:
    text = _plain(text) if text.endswith("0") and text[:4].isdigit() and text[10:11] == " " else text
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"
