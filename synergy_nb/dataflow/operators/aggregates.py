"""Aggregate and count: what a window comes to.

Rows of event-time windows are not kept. They are reduced at once to partial results a pane and group (sums, counts,
least and greatest values), where a pane is the greatest common part of all windows' lengths and slides; a window's
result is combined from its panes when it is final (Li et al. [1]_). ``avg`` is a sum and a count; ``count(distinct x)``
keeps the set of values a pane. Small batches are gathered first, since a call into Polars costs as much as thousands
of rows.

.. [1] J. Li, D. Maier, K. Tufte, V. Papadimos, P. Tucker. No pane, no gain: efficient evaluation of sliding-window
   aggregates over data streams. SIGMOD Record 34(1), 2005.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.expressions import compile_node
from synergy_nb.dataflow.operators.base import WINDOW, Context, OperatorLogic, implements
from synergy_nb.dataflow.operators.windows import ORDINAL, Buffered, TimeWindows, Windows, window_of
from synergy_nb.dataflow.tuples import END, START, TYPES, Batch, empty
from synergy_nb.plan import sql

__all__ = ["Values", "WindowAggregate", "aggregate", "count"]

PANE: Final = "@pane"
MEMBER: Final = "@member"
GATHERED: Final = 32_768  # rows of small batches that are reduced in one call


class Values:
    """The aggregate calls of one operator, in three steps: reduce rows, merge partial results, finish.

    Parameters
    ----------
    values
        Output column to aggregate call in SQL.
    schema
        Of the input.
    kinds
        Types of the output columns.
    """

    def __init__(self, values: Mapping[str, str], schema: Mapping[str, str], kinds: Mapping[str, str]) -> None:
        self._arguments: dict[str, pl.Expr] = {}  # column to what it holds; computed before grouping
        self._types: dict[str, str] = {}
        self._partials: dict[str, tuple[pl.Expr, pl.Expr, str]] = {}  # column: reduce, merge, type
        self._sets: dict[str, str] = {}  # output column of a count(distinct x) to the column that holds x
        self._finals: list[pl.Expr] = []
        for name, text in values.items():
            self._finals.append(
                self._compile(name, sql.parse(text, schema, aggregate=True), schema)
                .alias(name)
                .cast(TYPES[kinds[name]])
            )
        if not self._partials:  # the groups themselves, for the sets to be joined to
            self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")

    def _compile(self, name: str, node: Any, schema: Mapping[str, str]) -> pl.Expr:
        key = node.key
        if key == "count" and node.this.key == "star":
            return self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")
        distinct = node.this.key == "distinct"
        column, kind = self._argument(node.this.expressions[0] if distinct else node.this, schema)
        if distinct:
            self._sets[name] = column
            return pl.col(f"@set {name}").fill_null(0)
        value = pl.col(column)
        if key == "min":
            return self._partial("min", column, value.min(), pl.Expr.min, kind)
        if key == "max":  # NaN is the greatest float, as in DuckDB and Spark
            most = pl.Expr.nan_max if kind == "float" else pl.Expr.max
            return self._partial("max", column, most(value), most, kind)
        number = self._partial("count", column, value.count().cast(pl.Int64), pl.Expr.sum, "int")
        if key == "count":
            return number
        total = self._partial("sum", column, value.sum(), pl.Expr.sum, kind)
        result = total if key == "sum" else total.cast(pl.Float64) / number
        return pl.when(number > 0).then(result)

    def _argument(self, node: Any, schema: Mapping[str, str]) -> tuple[str, str]:
        if node.key == "column" and node.name not in WINDOW:  # the bounds of new windows take the old ones' place
            return node.name, schema[node.name]
        expression, kind = compile_node(node, schema)
        if kind == "null":
            expression, kind = pl.lit(None, dtype=pl.Int64), "int"
        column = f"@{sql.canonical(node)}"
        self._arguments[column] = expression.alias(column)
        self._types[column] = kind
        return column, kind

    def _partial(self, what: str, column: str, reduce: pl.Expr, merge: Any, kind: str) -> pl.Expr:
        name = f"@{what} {column}"
        self._partials[name] = (reduce.alias(name), merge(pl.col(name)), kind)
        return pl.col(name)

    @property
    def columns(self) -> dict[str, str]:
        """Columns of partial results, with their types."""
        return {name: kind for name, (_, _, kind) in self._partials.items()}

    def sets(self, schema: Mapping[str, str]) -> dict[str, str]:
        """For each output column that is a count(distinct x): the type of x."""
        return {name: self._types.get(column) or schema[column] for name, column in self._sets.items()}

    def prepare(self, rows: pl.DataFrame) -> pl.LazyFrame:
        """``rows`` with the arguments of all calls as columns."""
        return rows.lazy().with_columns(*self._arguments.values()) if self._arguments else rows.lazy()

    def reduce(self, prepared: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Partial results by ``keys``."""
        return prepared.group_by(keys).agg(reduce for reduce, _, _ in self._partials.values())

    def merge(self, partials: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Partial results of equal ``keys`` as one."""
        return partials.group_by(keys).agg(merge for _, merge, _ in self._partials.values())

    def members(self, prepared: pl.LazyFrame, keys: Sequence[str], name: str) -> pl.LazyFrame:
        """The set of the values of one count(distinct x) by ``keys``, in the column ``MEMBER``."""
        column = pl.col(self._sets[name])
        return prepared.filter(column.is_not_null()).select(*keys, column.alias(MEMBER)).unique()

    def finish(self, merged: pl.LazyFrame, sets: Mapping[str, pl.LazyFrame], keys: Sequence[str]) -> pl.LazyFrame:
        """Results from merged partial results and sets of values, both by ``keys``."""
        for name, members in sets.items():
            sizes = members.group_by(keys).agg(pl.len().cast(pl.Int64).alias(f"@set {name}"))
            merged = merged.join(sizes, on=list(keys), how="left", nulls_equal=True)
        return merged.with_columns(self._finals)


class WindowAggregate(OperatorLogic):
    """Aggregates over windows that the watermark closes; rows leave by window and group, in order.

    Parameters
    ----------
    context
        Of the operator.
    windows
        Event-time windows, or those of the input.
    by
        Columns to group by.
    values
        Output column to aggregate call.
    """

    def __init__(self, context: Context, windows: Windows, by: Sequence[str], values: Mapping[str, str]) -> None:
        super().__init__(context)
        schema = context.inputs[0]
        self._windows = windows
        self._by = list(by)
        self._values = Values(values, schema, context.output)
        if isinstance(windows, TimeWindows):
            pane = windows.pane
            self._pane: pl.Expr | None = (pl.col("time").cast(pl.Int64) // pane * pane).alias(PANE)
            bounds = {PANE: "int"}
        else:
            self._pane = None
            bounds = dict.fromkeys(WINDOW, "time")
        self._keys = [*bounds, *self._by]
        kinds = {**bounds, **{name: schema[name] for name in self._by}}
        self._empty = {"partials": empty({**kinds, **self._values.columns})}
        self._sets = self._values.sets(schema)
        for name, kind in self._sets.items():
            self._empty[f"set {name}"] = empty({**kinds, MEMBER: kind})
        self._load(self._empty)

    def _load(self, tables: Mapping[str, pl.DataFrame]) -> None:
        self._small: list[pl.DataFrame] = []
        self._small_rows = 0
        self._merged = dict(tables)
        self._fresh: dict[str, list[pl.DataFrame]] = {name: [] for name in self._merged}
        self._fresh_rows = 0
        self._doubled = False  # whether a pane and group may have several rows in what was merged
        self._due = END

    @property
    def state_rows(self) -> int:
        """Rows gathered, partial results and members of sets kept between calls."""
        return self._small_rows + self._fresh_rows + sum(table.height for table in self._merged.values())

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Reduce the rows to partial results; nothing leaves."""
        self._due = min(self._due, self._windows.first_end(table, "time"))
        if table.height >= GATHERED:
            self._reduce(table)
            return ()
        self._small.append(table)
        self._small_rows += table.height
        if self._small_rows >= GATHERED:
            self._gather()
        return ()

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Windows that end by ``low`` leave."""
        if low < self._due:
            return ()
        self._gather()
        if self._fresh_rows + sum(table.height for table in self._merged.values()) < GATHERED:
            self._together()  # they are merged below
        else:
            self._consolidate()
        windows, at, previous = self._windows, PANE, self._forwarded
        closed = {name: windows.spread(table, at, previous, low) for name, table in self._merged.items()}
        self._merged = {name: windows.keep(table, at, low) for name, table in self._merged.items()}
        self._due = self._next_due(low)
        keys = [*WINDOW, *self._by]
        values = self._values
        sets = {name: closed[f"set {name}"].select(*keys, MEMBER).unique() for name in self._sets}
        merged = values.merge(closed["partials"], keys)
        return (
            _ordered(values.finish(merged, sets, keys), self.context.output, ["window_end", "window_start", *self._by]),
        )

    def state(self) -> dict[str, pl.DataFrame]:
        """Partial results and sets of values."""
        self._gather()
        self._consolidate()
        return self._merged

    def load(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Replace the state."""
        self._load(tables)
        self._due = self._next_due(self._forwarded)

    def _next_due(self, low: int) -> int:
        partials = self._merged["partials"]
        if not partials.height:
            return END
        first = self._windows.first_end(partials, PANE)
        return first if low == START else max(first, self._windows.next_end(low))

    def _gather(self) -> None:
        if self._small:
            rows = pl.concat(self._small)
            self._small, self._small_rows = [], 0
            self._reduce(rows)

    def _reduce(self, rows: pl.DataFrame) -> None:
        prepared = self._values.prepare(rows)
        if self._pane is not None:
            prepared = prepared.with_columns(self._pane)
        frames = [self._values.reduce(prepared, self._keys)]
        frames += [self._values.members(prepared, self._keys, name) for name in self._sets]
        tables = [frame.collect() for frame in frames]
        for fresh, table in zip(self._fresh.values(), tables, strict=True):
            fresh.append(table)
            self._fresh_rows += table.height
        if self._fresh_rows >= max(GATHERED, sum(table.height for table in self._merged.values())):
            self._consolidate()

    def _consolidate(self) -> None:
        """One row a pane and group again; done when the rows have doubled, so at constant cost a row."""
        self._together()
        if not self._doubled:
            return
        for name, rows in self._merged.items():
            lazy = rows.lazy()
            lazy = self._values.merge(lazy, self._keys) if name == "partials" else lazy.unique()
            self._merged[name] = lazy.select(self._empty[name].columns).collect()
        self._doubled = False

    def _together(self) -> None:
        """All partial results in one table, where a pane and group may have several rows."""
        if not self._fresh_rows:
            return
        for name, fresh in self._fresh.items():
            self._merged[name] = pl.concat([self._merged[name], *fresh])
            fresh.clear()
        self._fresh_rows = 0
        self._doubled = True


class CountWindowAggregate(Buffered):
    """Aggregates over every n rows in order of arrival; rows leave by window and group, as soon as a window is full."""

    def __init__(self, context: Context, by: Sequence[str], values: Mapping[str, str]) -> None:
        super().__init__(context)
        self._by = list(by)
        self._values = Values(values, context.inputs[0], context.output)
        self._sets = self._values.sets(context.inputs[0])

    def prepare(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the arguments of all calls."""
        return self._values.prepare(rows).collect()

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row a window and group."""
        keys = [ORDINAL, *WINDOW, *self._by]
        prepared = rows.lazy()
        sets = {name: self._values.members(prepared, keys, name) for name in self._sets}
        finished = self._values.finish(self._values.reduce(prepared, keys), sets, keys)
        return _ordered(finished, self.context.output, [ORDINAL, *self._by])


def _ordered(rows: pl.LazyFrame, output: Mapping[str, str], order: Sequence[str]) -> pl.DataFrame:
    time = (pl.col("window_end") - pl.duration(microseconds=1)).alias("time")
    return rows.sort(order, nulls_last=True).select(time, *(name for name in output if name != "time")).collect()


def _over_windows(context: Context, by: Sequence[str], values: Mapping[str, str]) -> OperatorLogic:
    windows = window_of(context)
    if isinstance(windows, int):
        return CountWindowAggregate(context, by, values)
    return WindowAggregate(context, windows, by, values)


@implements("aggregate")
def aggregate(context: Context) -> OperatorLogic:
    """Aggregates by groups over its own windows."""
    return _over_windows(context, context.params["by"], context.params["values"])


@implements("count")
def count(context: Context) -> OperatorLogic:
    """Rows of each window that has any."""
    return _over_windows(context, (), {context.params["name"]: "count(*)"})
