"""Linked charts of the rows of a trace or of runs: what is selected in one filters all others.

A page draws the charts and sends which bars are selected; it sends the next ones after the answer to the last. While
the user rests, it asks the kernel to prepare what the next brush needs. The state is in traits: a page that is opened
later, or a second one, shows the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars as pl
import traitlets

from synergy_nb.explore._crossfilter import Crossfilter
from synergy_nb.explore._opened_traces import OpenedTrace, TraceViewError
from synergy_nb.explore._trace_charts import Brush, ChartOfRange, TraceChart, charts_of
from synergy_nb.explore._trace_picture import drawn_charts
from synergy_nb.plan.terms.units import counted, did_you_mean
from synergy_nb.reporting.formatting import share
from synergy_nb.widgets.bundled_view import BundledView

__all__ = ["LinkedCharts"]


class LinkedCharts(BundledView):
    """Linked charts; a selection in one of them filters all others.

    ``selection``, ``rows``, ``total`` and ``sentence`` are traits: ``observe`` and ``jslink`` know them.
    """

    SCRIPT = "tracecharts"
    title = traitlets.Unicode().tag(sync=True)
    # column to what is selected: {"from": 10, "to": 20} of numbers and times, {"keys": ["a"], "others": True}; both
    # with "missing": True for rows without a value
    selection = traitlets.Dict().tag(sync=True)
    rows = traitlets.Int(0).tag(sync=True)  # number of rows that are selected
    total = traitlets.Int(0).tag(sync=True)  # number of all rows
    sentence = traitlets.Unicode().tag(sync=True)  # the selection in words
    charts: traitlets.List[Any] = traitlets.List().tag(sync=True)
    counts = traitlets.Bytes().tag(sync=True)  # counts of the bars of all charts, one after the other, as float64
    brushes: traitlets.List[Any] = traitlets.List().tag(
        sync=True
    )  # numbers of the selected bars of each chart, or None
    answers = traitlets.Int(0).tag(sync=True)  # number of answers so far: a page waits for the next one

    def __init__(self, trace: OpenedTrace, columns: Sequence[str] | None = None) -> None:
        self._trace = trace
        self.crossfilter = Crossfilter(trace, charts_of(trace, columns))
        self._brushes: list[Brush] = [None] * len(self.crossfilter.charts)
        self._active = 0
        super().__init__(
            title=trace.title, charts=[each.to_page() for each in self.crossfilter.charts], total=self.crossfilter.total
        )
        self._answer()
        self.observe(self._set, "selection")
        self.on_msg(lambda _, content, _buffers: self.on_page_message(content))

    # -- selecting -----------------------------------------------------------------------------------------------------

    def select(self, selection: Mapping[str, Any] | None = None, /, **columns: Any) -> Self:
        """Change what is selected of some columns; the other columns stay as they are.

        ``selection``, ``columns``: column to ``(from, to)`` of numbers or times, where ``to`` is not included and
        either may be None; to a key or a list of keys, where ``...`` stands for the others. None stands for rows
        without a value, and ``[]`` selects all. The bounds of ranges move to the nearest bounds of bars.

        Raises ``ValueError`` if there is no chart of a column, or it does not have the value.
        """
        wanted = {**(selection or {}), **columns}
        brushes = list(self._brushes)
        for name, value in wanted.items():
            place = self._place(name)
            chart = self.crossfilter.charts[place]
            brushes[place] = chart.brush(_given(chart, value)) if value != [] else None
            self._active = place
        self._show(brushes)
        return self

    def clear(self, *columns: str) -> Self:
        """Select all rows again: of the named columns, or of all."""
        places = [self._place(name) for name in columns] or list(range(len(self._brushes)))
        self._show([None if place in places else brush for place, brush in enumerate(self._brushes)])
        return self

    def _place(self, column: str) -> int:
        names = [chart.column for chart in self.crossfilter.charts]
        if column not in names:
            expected = ", ".join(names)
            raise TraceViewError(f"selection: {column!r}; expected some of {expected}{did_you_mean(column, names)}")
        return names.index(column)

    def _set(self, change: Any) -> None:
        """Show a selection that was set from outside; one that is not valid becomes the last valid one."""
        if change["new"] == self._stated():
            return
        brushes: list[Brush] = [None] * len(self._brushes)
        try:
            for name, value in self.selection.items():
                place = self._place(name)
                if not isinstance(value, Mapping):
                    raise TraceViewError(f"selection: {name}: {value!r}; expected a dictionary")
                brushes[place] = self.crossfilter.charts[place].brush(value)
        except TraceViewError:
            self.selection = self._stated()
            raise
        self._show(brushes)

    def _show(self, brushes: list[Brush]) -> None:
        """Count under new brushes, and tell the pages."""
        changed = [place for place, (old, new) in enumerate(zip(self._brushes, brushes, strict=True)) if old != new]
        if changed:
            self._active = changed[-1]
        self._brushes = brushes
        self._answer()
        self.keep_picture()

    def _answer(self) -> None:
        found, rows = self.crossfilter.counts(self._brushes, self._active)
        with self.hold_sync():
            self.counts = np.concatenate(found).astype(np.float64).tobytes()
            self.brushes = [None if brush is None else sorted(brush) for brush in self._brushes]
            self.rows = rows
            self.sentence = self._said(rows)
            self.selection = self._stated()
            self.answers += 1

    def _stated(self) -> dict[str, Any]:
        """The present selection as the value of the trait."""
        found = {chart.column: chart.stated(brush) for chart, brush in self._selected()}
        return {name: value for name, value in found.items() if value is not None}

    def _selected(self) -> list[tuple[Any, frozenset[int]]]:
        """The charts with a brush."""
        pairs = zip(self.crossfilter.charts, self._brushes, strict=True)
        return [(chart, brush) for chart, brush in pairs if brush is not None]

    def _said(self, rows: int) -> str:
        """The selection as a sentence."""
        return " ".join(filter(None, [self._chosen(rows), self._trace.left_out]))

    def _chosen(self, rows: int) -> str:
        total = counted(self.crossfilter.total, "row")
        words = [chart.words(brush) for chart, brush in self._selected()]
        if not words:
            return {0: "No rows.", 1: "One row."}.get(self.crossfilter.total, f"All {total}.")
        listed = words[0] if len(words) == 1 else f"{'; '.join(words[:-1])}; and {words[-1]}"
        part = f" ({share(rows / self.crossfilter.total)})" if self.crossfilter.total else ""
        return f"{rows:,} of {total}{part}: {listed}."

    # -- pages ---------------------------------------------------------------------------------------------------------

    def on_page_message(self, content: Mapping[str, Any]) -> None:
        """Handle a message of a page.

        ``content``: ``bundle`` requests the script; ``brush`` has the number of a chart and those of its selected bars;
        ``clear`` that of a chart, or none for all; ``rest`` asks to prepare the next brush; ``here`` asks whether the
        kernel lives.
        """
        kind, chart = content.get("kind"), content.get("chart")
        place = chart if isinstance(chart, int) and 0 <= chart < len(self._brushes) else None
        if kind == "bundle":
            self.send_bundle()
        elif kind == "here":
            self.send({"kind": "here"})
        elif kind == "rest":
            left = self.crossfilter.prepare(self._brushes, self._active if place is None else place)
            self.send({"kind": "rest", "left": left})
        elif kind == "clear" and chart is None:
            self._show([None] * len(self._brushes))
        elif kind in ("brush", "clear") and place is not None:
            brushes = list(self._brushes)
            brushes[place] = self._bars(place, content.get("bars")) if kind == "brush" else None
            self._show(brushes)

    def _bars(self, place: int, bars: Any) -> Brush:
        """The brush that a page has sent; bars that do not exist are left out, and ranges have no gaps."""
        chart = self.crossfilter.charts[place]
        last = chart.bars
        valid = [each for each in bars if isinstance(each, int) and 0 <= each <= last] if isinstance(bars, list) else []
        if isinstance(chart, ChartOfRange):
            ranged = [each for each in valid if each < last]
            valid += range(min(ranged), max(ranged)) if ranged else []
        return frozenset(valid) if valid else None

    # -- the rows and the picture --------------------------------------------------------------------------------------

    def table(self) -> pl.DataFrame:
        """The selected rows as a Polars frame, with all columns."""
        return self.crossfilter.frame(self._brushes)

    def to_svg(self) -> str:
        """The charts as one self-contained SVG."""
        bounds = np.cumsum([chart.bars + 1 for chart in self.crossfilter.charts])[:-1]
        counts = np.split(np.frombuffer(self.counts).astype(np.int64), bounds)
        return drawn_charts(self.title, self.sentence, self.crossfilter.charts, counts, self._brushes)

    def __repr__(self) -> str:
        return f"{self.title}: {self.sentence}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        note, data, metadata = self._live(options, "The picture shows the present selection.")
        return {**data, "text/plain": repr(self), "text/html": f"<div>{note}{self.to_svg()}</div>"}, metadata


def _given(chart: TraceChart, value: Any) -> dict[str, Any]:
    """The value of the trait for what :meth:`LinkedCharts.select` was given for a chart."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(chart, ChartOfRange):
        if value is None:
            return {"missing": True}
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TraceViewError(f"selection: {chart.column}: {value!r}; expected (from, to), or None for no value")
        return {"from": value[0], "to": value[1]}
    listed = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    keys = [each for each in listed if each is not None and each is not ...]
    return {"keys": keys, "others": ... in listed, "missing": None in listed}
