"""Operators that need all rows of a window at once: sort, compare, distinct, top, percentile.

They use the windows of their input, or their own; their output is ordered by window, by ``window_end``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from synergy_nb.dataflow.operators.base import WINDOW, Context, implements, retained_bytes, value_bytes
from synergy_nb.dataflow.operators.windows import Buffered, SessionWindows, TimeWindows
from synergy_nb.dataflow.tuples import END, Batch, empty
from synergy_nb.plan.terms.naming import internal
from synergy_nb.plan.terms.units import ratio_of

__all__ = ["Compare", "Distinct", "Percentile", "Sort", "Top"]

_PANE: Final = internal("pane")
_NUMBER: Final = internal("number")


def _windowed(rows: pl.DataFrame, output: Mapping[str, str]) -> pl.DataFrame:
    """Give ``rows`` the columns of a windowed stream; ``time`` is the last microsecond of the window."""
    time = (pl.col("window_end") - pl.duration(microseconds=1)).alias("time")
    return rows.select(time, *(name for name in output if name != "time"))


def _share(fraction: float, number: pl.Expr, *, up: bool = False) -> pl.Expr:
    """Return the fraction of a number of rows, rounded down or up exactly."""
    part, whole = (pl.lit(each, dtype=pl.Int128) for each in ratio_of(fraction))
    product = number.cast(pl.Int128) * part
    return ((product + (whole - 1) if up else product) // whole).cast(pl.Int64)


@implements("sort")
class Sort(Buffered):
    """Sort the rows of each window.

    NULLs come last in either direction; rows that are equal in all keys are ordered by their remaining columns,
    ascending.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        schema = context.inputs[0]
        keys = [(key, False) if key in schema else (key.removesuffix(" desc"), True) for key in context.params["by"]]
        rest = [name for name in schema if name not in {key for key, _ in keys} and name not in ("time", *WINDOW)]
        self._order = [*self.groups, *(name for name, _ in keys), *rest]
        self._descending = [False] * len(self.groups) + [down for _, down in keys] + [False] * len(rest)

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows in order."""
        ordered = rows.sort(self._order, descending=self._descending, nulls_last=True, maintain_order=True)
        return _windowed(ordered, self.context.output)


@implements("distinct")
class Distinct(Buffered):
    """Select the first row of each window, in order of arrival, for all combinations of values in ``on``.

    NULL is a value like any other here, as in SELECT DISTINCT. The state contains first rows only.
    """

    finishing = 5.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        given = context.params.get("on") or list(context.inputs[0])
        self._on = [name for name in given if name not in ("time", *WINDOW)]

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows."""
        first = rows.unique([*self.groups, *self._on], keep="first", maintain_order=True)
        return _windowed(first.sort(self.groups, maintain_order=True), self.context.output)

    def compact(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of each pane, which is all that any window may need."""
        if isinstance(self._windows, TimeWindows):
            pane = (pl.col("time").cast(pl.Int64) // self._windows.pane).alias(_PANE)
            return rows.with_columns(pane).unique([_PANE, *self._on], keep="first", maintain_order=True).drop(_PANE)
        if isinstance(self._windows, SessionWindows):
            return rows  # any of them may connect a session
        return rows.unique([*WINDOW, *self._on], keep="first", maintain_order=True)


@implements("compare")
class Compare(Buffered):
    """Select the rows whose value exceeds those of a given fraction of all rows: the percentile of the traffic monitor.

    A row is selected iff the number of rows of its window, or of its group within the window, that have a smaller
    ``value`` is greater than ``fraction * n``. With one input, n is the number of rows of the window or group; with
    two, port 1 is a ``count`` stream that has n of each window, the greatest if there are several, and a window without
    a count has no result. Rows whose value is NULL are never selected, but count in n. Within a window the order of
    arrival is preserved.
    """

    finishing = 9.0  # ranks within many small groups

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._value = pl.col(context.params["value"])
        self._fraction = context.params["fraction"]
        self._within = [*self.groups, *(context.params.get("by") or ())]
        self._counts: pl.DataFrame | None = None
        if len(context.inputs) == 2:
            columns = context.inputs[1]
            self._number = next(name for name in columns if name not in ("time", *WINDOW))
            self._counts = empty({**dict.fromkeys(WINDOW, "time"), self._number: columns[self._number]})

    @property
    def state_rows(self) -> int:
        """Rows and counts in the state."""
        return super().state_rows + (0 if self._counts is None else self._counts.height)

    @property
    def state_bytes(self) -> int:
        """Bytes of rows and counts in the state."""
        return super().state_bytes + self._counts_bytes

    @property
    def _counts_bytes(self) -> int:
        return retained_bytes(self._counts) if self._counts is not None and self._counts.height else 0

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes for rows; counts are few."""
        return super().batch_needs(port, batch) if port == 0 else 3.0 * (value_bytes(batch.table) + self._counts_bytes)

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Store rows (port 0) or the counts of their windows (port 1)."""
        if self._counts is None or port == 0:
            return super().process(port, table, batch, kept)
        counts = pl.concat([self._counts, table.select(self._counts.columns)])
        self._counts = counts.sort(self._number).unique(list(WINDOW), keep="last", maintain_order=True)
        return ()

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Return the results of windows that end by ``low``."""
        yield from super().close(low)
        if self._counts is not None and self._counts.height:
            ends = pl.col("window_end").cast(pl.Int64)
            self._counts = self._counts.clear() if low == END else self._counts.filter(ends > low)

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that exceed the fraction."""
        smaller = self._value.rank("min").over(self._within).cast(pl.Int64) - 1
        if self._counts is None:
            number = pl.len().over(self._within)
        else:
            counts = self._counts.rename({self._number: _NUMBER})
            rows = rows.join(counts, on=list(WINDOW), how="inner", maintain_order="left")
            number = pl.col(_NUMBER)
        stay = rows.filter(smaller > _share(self._fraction, number))
        return _windowed(stay.sort(self.groups, maintain_order=True), self.context.output)

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return rows and counts."""
        return super().state() if self._counts is None else {**super().state(), "counts": [self._counts]}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace rows and counts."""
        super().load(tables)
        if self._counts is not None:
            (self._counts,) = tables["counts"]


@implements("top")
class Top(Sort):
    """Select the first k rows of each window, or of each of its groups, in the order of a sort."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._k = int(context.params["k"])
        self._per = list(context.params.get("per") or ())
        self._within = [*self.groups, *self._per]

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows in order."""
        return super().finish(self._first(rows, self._within))

    def compact(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of each pane, which is all that any window may need."""
        if isinstance(self._windows, SessionWindows):
            return rows  # any of them may connect a session
        if isinstance(self._windows, TimeWindows):
            pane = (pl.col("time").cast(pl.Int64) // self._windows.pane).alias(_PANE)
            return self._first(rows.with_columns(pane), [_PANE, *self._per]).drop(_PANE)
        return self._first(rows, [*WINDOW, *self._per])

    def _first(self, rows: pl.DataFrame, within: Sequence[str]) -> pl.DataFrame:
        count = len(self.groups)
        order, descending = self._order[count:], self._descending[count:]
        ordered = rows.sort(order, descending=descending, nulls_last=True, maintain_order=True)
        return ordered.filter(pl.int_range(pl.len()).over(within) < self._k)


@implements("percentile")
class Percentile(Buffered):
    """The least value that at least the given fraction of the values do not exceed: one row for each window and group.

    Of n sorted values, that is the one with rank ``ceil(fraction * n)``, from 1.
    """

    finishing = 6.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._by = list(context.params.get("by") or ())
        values = pl.col(context.params["value"]).drop_nulls()
        place = _share(context.params["fraction"], values.len(), up=True) - 1
        found = values.sort().get(pl.max_horizontal(place, pl.lit(0)), null_on_oob=True)
        self._found = found.alias(context.params["name"])

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return one row for each window and group, ordered by group."""
        keys = [*dict.fromkeys([*self.groups, "window_end", "window_start"]), *self._by]
        found = rows.group_by(keys).agg(self._found).sort([*self.groups, *self._by], nulls_last=True)
        return _windowed(found, self.context.output)
