"""Operators that need all rows of a window at once: sort, compare, distinct, top, percentile, over.

They use the windows of their input, or their own; their output is ordered by window, by ``window_end``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow._expressions import compile_node
from synergy_nb.dataflow.operators.base import WINDOW, Context, implements, retained_bytes, value_bytes
from synergy_nb.dataflow.operators.kept_values import share_of
from synergy_nb.dataflow.operators.windows import Buffered, SessionWindows, TimeWindows
from synergy_nb.dataflow.tuples import END, TYPES, Batch, empty
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import sum_of
from synergy_nb.plan.terms.naming import internal

__all__ = ["Compare", "Distinct", "Over", "OverValues", "Percentile", "Sort", "Top", "sort_keys"]

_PANE: Final = internal("pane")
_NUMBER: Final = internal("number")


def _windowed(rows: pl.DataFrame, output: Mapping[str, str]) -> pl.DataFrame:
    """Give ``rows`` the columns of a windowed stream; ``time`` is the last microsecond of the window."""
    time = (pl.col("window_end") - pl.duration(microseconds=1)).alias("time")
    return rows.select(time, *(name for name in output if name != "time"))


@implements("sort")
class Sort(Buffered):
    """Sort the rows of each window.

    NULLs come last in either direction; rows that are equal in all keys are ordered by their remaining columns,
    ascending.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        schema = context.inputs[0]
        keys = sort_keys(context.params["by"], schema).items()
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
        stay = rows.filter(smaller > share_of(self._fraction, number))
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
        place = share_of(context.params["fraction"], values.len(), up=True) - 1
        found = values.sort().get(pl.max_horizontal(place, pl.lit(0)), null_on_oob=True)
        self._found = found.alias(context.params["name"])

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return one row for each window and group, ordered by group."""
        keys = [*dict.fromkeys([*self.groups, "window_end", "window_start"]), *self._by]
        found = rows.group_by(keys).agg(self._found).sort([*self.groups, *self._by], nulls_last=True)
        return _windowed(found, self.context.output)


@implements("over")
class Over(Buffered):
    """Compute columns over the rows of a key in order, within each window."""

    finishing = 12.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        within = [*self.groups, *context.params["by"]]
        self._values = OverValues(context.params, context.inputs[0], context.output, within)

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the columns of the calls, by window and in their order."""
        keys = sort_keys(self.context.params.get("order") or (), self.context.inputs[0])
        by = [*self.groups, *keys, "time"]
        down = [*(False for _ in self.groups), *keys.values(), False]
        ordered = rows.sort(by, descending=down, nulls_last=True, maintain_order=True)
        return _windowed(self._values.added(ordered), self.context.output)


def sort_keys(order: Sequence[str], schema: Mapping[str, str]) -> dict[str, bool]:
    """Columns of an order, each alone or with ``desc``, and whether each is descending."""
    return {key if key in schema else key.removesuffix(" desc"): key not in schema for key in order}


class OverValues:
    """The values of an operator ``over``, for rows that are in its order."""

    def __init__(
        self,
        params: Mapping[str, Any],
        schema: Mapping[str, str],  # column to type, of its input
        output: Mapping[str, str],  # column to type, of its stream
        within: Sequence[str],  # columns of the rows that tell keys in windows apart
    ) -> None:
        self._order = list(sort_keys(params.get("order") or (), schema)) or ["time"]
        self._called: dict[str, pl.Expr] = {}
        self._values: list[pl.Expr] = []
        for name, text in params["values"].items():
            left, calls = sql.calls(sql.parse(text, schema, over=True))
            types = {column: sql.infer_type(call, schema) for column, call in calls.items()}
            for column, call in calls.items():
                value = self._call(call, schema).over(within)
                self._called[column] = value.cast(TYPES[types[column]], strict=False).alias(column)
            kind = output[name]
            value = compile_node(left, {**schema, **types})[0].cast(TYPES[kind], strict=False)
            self._values.append((value if value.meta.root_names() else value.first()).alias(name))

    def added(self, ordered: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with the columns of the calls and of the values."""
        return ordered.with_columns(self._called.values()).with_columns(self._values)

    def _call(self, call: Any, schema: Mapping[str, str]) -> pl.Expr:
        """Return the values of a call for the rows of one key in order."""
        name = sql.call_name(call)
        if name == "row_number":
            return pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        if name in ("rank", "dense_rank"):
            first = pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift()) for key in self._order)
            first = first | (pl.int_range(pl.len()) == 0)
            number = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
            return first.cum_sum() if name == "dense_rank" else pl.when(first).then(number).forward_fill()
        if call.key == "count" and call.this.key == "star":
            return pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        argument = call.expressions[0] if call.key == "anonymous" else call.this
        value, kind = compile_node(argument, schema)
        if not value.meta.root_names():  # a constant, of which each row has one
            value = pl.when(pl.int_range(pl.len()) >= 0).then(value)
        if name in ("lag", "lead"):
            rows = int(call.expressions[1].name) if len(call.expressions) > 1 else 1
            return value.shift(rows if name == "lag" else -rows)
        if name == "count":
            return value.is_not_null().cum_sum()
        return _running(name, value, kind)


def _running(name: str, value: pl.Expr, kind: str) -> pl.Expr:
    """Return the aggregate of the rows up to each one; NULL before the first that is not NULL."""
    if name in ("sum", "avg"):
        wide = pl.Int128 if kind == "int" else pl.Float64 if kind == "float" else TYPES[sum_of(kind)]
        total = value.cast(wide).cum_sum().forward_fill()
        number = value.is_not_null().cum_sum()
        return total if name == "sum" else pl.when(number > 0).then(total.cast(pl.Float64) / number)
    if kind != "float":
        return (value.cum_min() if name == "min" else value.cum_max()).forward_fill()
    odd = value.is_nan().fill_null(value=False).cum_max()  # NaN is greater than any number
    found = value.fill_nan(None)
    found = (found.cum_min() if name == "min" else found.cum_max()).forward_fill()
    nan = pl.lit(math.nan)
    return pl.when(odd & (found.is_null() if name == "min" else pl.lit(value=True))).then(nan).otherwise(found)
