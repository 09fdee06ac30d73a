"""Aggregate and count: the results of windows.

The rows of event-time windows are not stored. They are reduced at once to partial results for each pane and group
(sums, counts, least and greatest values), where a pane is the greatest common part of all windows' lengths and slides;
the result of a window is combined from its panes when it is final (Li et al. [1]_). ``avg`` is a sum and a count;
``count(distinct x)``, quantiles, ``first``, ``last`` and ``string_agg`` store values of each pane
(:mod:`~synergy_nb.dataflow.operators.kept_values`). Exact sums have rows of their own for each pane and group.
The partial results of sessions are those of runs of rows without a gap; a row that closes the gap between two runs
merges them. Small batches are gathered first, since a call into Polars takes as long as thousands of rows.

.. [1] J. Li, D. Maier, K. Tufte, V. Papadimos, P. Tucker. No pane, no gain: efficient evaluation of sliding-window
   aggregates over data streams. SIGMOD Record 34(1), 2005.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow._expressions import compile_expression
from synergy_nb.dataflow.operators import _exact_sums as exact_sums
from synergy_nb.dataflow.operators._merged_slices import MergedSlices, Run, Tables
from synergy_nb.dataflow.operators._values import compiled_values
from synergy_nb.dataflow.operators.base import (
    WINDOW,
    Context,
    OperatorLogic,
    computed,
    implements,
    positions,
    retained_bytes,
    value_bytes,
)
from synergy_nb.dataflow.operators.kept_values import POSITION
from synergy_nb.dataflow.operators.windows import (
    BOUND,
    BOUNDS_BYTES,
    ORDINAL,
    Buffered,
    SessionWindows,
    TimeWindows,
    Windows,
    window_of,
)
from synergy_nb.dataflow.tuples import END, START, Batch, concatenated, empty
from synergy_nb.plan.terms.naming import internal

__all__ = ["SessionAggregate", "WindowAggregate", "aggregate", "count"]

PANE: Final = internal("pane")
FIRST: Final = internal("first")
LAST: Final = internal("last")
_REACHED: Final = internal("reached")
_SESSION: Final = internal("session")
#: Time of a result: the last microsecond of its window.
RESULT: Final = pl.col("window_end").cast(pl.Int64) - 1
REDUCING: Final = 3.0  # memory that reducing needs, bytes for each byte of rows
MERGING: Final = 3.0  # memory that merging needs, bytes for each byte of partial results
GATHERED: Final = 32_768  # number of rows of small batches that are gathered, and reduced in one call


class WindowAggregate(OperatorLogic):
    """Aggregates over windows that the watermark closes; the output is ordered by window and group."""

    _sessions = False

    def __init__(self, context: Context, windows: Windows, by: Sequence[str], values: Mapping[str, str]) -> None:
        super().__init__(context)
        schema = context.inputs[0]
        self._windows = windows  # event-time windows, of its own or of the input
        self._overlap = windows.overlap
        self._by = list(by)  # columns to group by
        # output column to aggregate call
        self._values = compiled_values(values, schema, context.output, _half_life(context), exact=context.exact)
        self._parts: list[str] = []  # column of the panes of which the result of a window is made
        self._moment = pl.col(LAST) if self._sessions else RESULT
        bounds = dict.fromkeys((FIRST, LAST), "int") if self._sessions else dict.fromkeys(WINDOW, "time")
        if isinstance(windows, TimeWindows):
            self._divide(windows.pane)
            bounds = {PANE: "int"}
        elif self._sessions and self._values.exact_decay is not None:
            self._divide(self._values.exact_decay)
            bounds[PANE] = "int"
        self._keys = [*bounds, *self._by]
        kinds = {**bounds, **{name: schema[name] for name in self._by}}
        self._empty = {"partials": empty({**kinds, **self._values.columns})}
        for name, kept in self._values.kept.items():
            self._empty[name] = empty({**kinds, **kept.columns})
        for name in self._values.exact:
            self._empty[f"sum {name}"] = empty({**kinds, **exact_sums.COLUMNS})
        self._overhead = sum(map(retained_bytes, self._empty.values()))  # bytes of tables beside their rows
        # Sessions of a group have no bounds that stay
        self._merged = MergedSlices(self._empty, self._by if self._sessions else self._keys, self._merge)
        self._load({name: [table] for name, table in self._empty.items()})

    def _divide(self, pane: int) -> None:
        """Reduce rows separately for each pane of a number of microseconds."""
        self._parts = [PANE]
        self._pane = (pl.col("time").cast(pl.Int64) // pane * pane).alias(PANE)
        self._moment = pl.col(PANE) + (pane - 1)

    def _load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        self._small: list[pl.DataFrame] = []
        self._small_rows = self._small_bytes = 0
        self._fresh: dict[str, list[Run]] = self._merged.resume(tables)
        self._fresh_rows = self._fresh_bytes = 0
        self._count_fresh()
        self._values.resume(tables["partials"])
        if self._values.wide:
            self._widen()
        self._doubled = False  # whether the merged tables may have several rows for a pane and group
        self._due = END

    @property
    def state_rows(self) -> int:
        """Gathered rows, partial results and members of sets in the state."""
        return self._small_rows + self._fresh_rows + self._merged.rows + self._merged.waiting_rows

    @property
    def state_bytes(self) -> int:
        """Bytes of gathered rows, partial results and members of sets."""
        return self._small_bytes + self._fresh_bytes + self._merged.size + self._merged.waiting_size

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: to gather and reduce rows and, if partial results have doubled, to merge these."""
        rows = self._small_rows + batch.rows
        if rows < GATHERED:
            return 3.0 * value_bytes(batch.table)
        reducing = REDUCING * (self._small_bytes + value_bytes(batch.table)) * len(self._empty)
        reducing += exact_sums.SPLITTING * rows * len(self._values.exact)
        fresh = self._fresh_rows + rows * len(self._empty)
        if self._merged.merging:
            return reducing + MERGING * self._merged.step_bytes(rows * len(self._empty))
        if self._merged.sliced or fresh < GATHERED or not self._merged.due(fresh):
            return reducing
        return reducing + MERGING * (self._fresh_bytes + self._merged.size)

    def close_needs(self, low: int) -> float:
        """Bytes that a close needs: to merge partial results, copy what stays, and spread the rest over windows."""
        if low < self._due:
            return 0.0
        behind = self._merged.behind  # what slices have already is not merged again
        size = self.state_bytes - behind * self._merged.waiting_size
        spread = size + BOUNDS_BYTES * (self.state_rows - behind * self._merged.waiting_rows)
        spread = min(spread * self._overlap, max(self.piece_bytes, spread))
        return size + self._overhead + MERGING * max(size, spread)

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Reduce the rows to partial results; there is no output yet."""
        self._due = min(self._due, self._first_end(table))
        if self._values.ordered:
            table = table.with_columns(positions(batch, kept).alias(POSITION))
        if table.height >= GATHERED:
            self._reduce(table)
            return ()
        self._small.append(table)
        self._small_rows += table.height
        self._small_bytes += retained_bytes(table)
        if self._small_rows >= GATHERED:
            self._gather()
        return ()

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Return the results of windows that end by ``low``."""
        if low < self._due:
            return ()
        self._gather()
        if self._fresh_rows + self._merged.rows < GATHERED and not self._merged.sliced:
            self._together()  # they are merged below
        else:
            self._consolidate()
        return self._closed(low)

    def _closed(self, low: int) -> Iterable[pl.DataFrame]:
        windows, keys, values = self._windows, [*WINDOW, *self._by], self._values
        whole = self._merged.whole()
        for tables, after, until in windows.portions(whole, PANE, self._forwarded, low, self.piece_bytes):
            closed = {name: windows.assign(table, PANE, after, until) for name, table in tables.items()}
            merged = values.merge(values.aged(closed["partials"], RESULT - self._moment), keys)
            finished = self._finished(merged, closed, keys, whole)
            ordered = _ordered(finished, self.context, ["window_end", "window_start", *self._by])
            yield computed(ordered, tables["partials"].height)
        self._merged.keep(lambda table: windows.retained_rows(table, PANE, low))
        self._due = self._next_due(low)

    def _finished(
        self, merged: pl.LazyFrame, closed: Mapping[str, pl.LazyFrame], keys: Sequence[str], whole: Tables
    ) -> pl.LazyFrame:
        """Return the results of windows, from their partial results and the other tables."""
        values = self._values
        kept = {name: each.merge(closed[name].select(*keys, *each.columns), keys) for name, each in values.kept.items()}
        limbs = {name: computed(closed[f"sum {name}"], whole[f"sum {name}"].height) for name in values.exact}
        return values.finish(merged, kept, limbs, keys, whole["partials"].height, RESULT - self._moment, self._parts)

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Partial results, exact sums and sets of values: the merged ones, and those since the last merge."""
        self._gather()
        if self._doubled:  # few rows
            self._consolidate()
        self._fresh = {name: self._merged.compacted(fresh) for name, fresh in self._fresh.items()}
        self._count_fresh()
        return {name: [*merged, *_tables(self._fresh[name])] for name, merged in self._merged.tables().items()}

    def skipped(self) -> Mapping[int, int]:
        """Rows of tables that are being merged which others have already."""
        return self._merged.skipped()

    def state_schemas(self) -> dict[str, list[pl.Schema]]:
        """Schemas of partial results: with the upper bits of sums, and without."""
        schemas = {name: [table.schema] for name, table in self._empty.items()}
        schemas["partials"].append(self._values.completed(self._empty["partials"]).schema)
        return schemas

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace the state."""
        self._load(tables)
        self._due = self._next_due(self._forwarded)

    def _first_end(self, table: pl.DataFrame) -> int:
        """Return a time before which no window of the rows of ``table`` ends."""
        return self._windows.first_end(table, "time")

    def _next_due(self, low: int) -> int:
        parts = self._partials()
        if not parts:
            return END
        first = min(self._windows.first_end(part, PANE) for part in parts)
        return first if low == START else max(first, self._windows.next_end(low))

    def _partials(self) -> list[pl.DataFrame]:
        parts = [*self._merged.tables()["partials"], *_tables(self._fresh["partials"])]
        return [part for part in parts if part.height]

    def _gather(self) -> None:
        if self._small:
            rows = concatenated(self._small)
            self._small, self._small_rows, self._small_bytes = [], 0, 0
            self._reduce(rows)

    def _reduce(self, rows: pl.DataFrame) -> None:
        arguments, rows = self._values.prepare(rows)
        prepared = self._values.weighed(self._located(arguments), self._moment)
        limbs: list[pl.DataFrame] = []
        if self._values.exact:
            whole = computed(prepared, rows.height)
            limbs = [self._values.limbs(whole, self._keys, name) for name in self._values.exact]
            prepared = whole.lazy()
        wide = self._values.wide
        frames = [self._values.reduce(prepared, self._keys, rows)]
        frames += [kept.reduce(prepared, self._keys) for kept in self._values.kept.values()]
        tables = [*(computed(frame, rows.height) for frame in frames), *limbs]
        if self._values.wide and not wide:
            self._widen()
        before = self._fresh_rows
        for fresh, table in zip(self._fresh.values(), tables, strict=True):
            fresh.append(self._merged.run(table))
            self._fresh_rows += table.height
            self._fresh_bytes += retained_bytes(table)
        self._merged.advance(self._fresh_rows - before)
        if self._fresh_rows >= GATHERED and self._merged.due(self._fresh_rows):
            self._begin()

    def _located(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Add the columns that identify each row's part of the stream."""
        return rows.with_columns(self._pane) if self._parts else rows

    def _begin(self) -> None:
        """Begin to merge partial results to one row for each pane and group; few are merged at once."""
        self._merged.begin(self._fresh)
        self._fresh = {name: [] for name in self._fresh}
        self._fresh_rows = self._fresh_bytes = 0
        self._doubled = False

    def _consolidate(self) -> None:
        """Merge all partial results to one row for each pane and group."""
        self._merged.finish()
        if self._fresh_rows or self._doubled:
            self._begin()
            self._merged.finish()

    def _merge(self, tables: Tables) -> Tables:
        """Return tables with one row for each pane and group, or what it keeps of one."""
        found: dict[str, pl.DataFrame] = {}
        for name, rows in tables.items():
            lazy = rows.lazy()
            if name == "partials":
                lazy = self._values.merge(lazy, self._keys)
            else:
                lazy = self._united(name, lazy).select(self._empty[name].columns)
            found[name] = computed(lazy, rows.height)
        return found

    def _united(self, name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Merge kept values, or limbs of sums, by pane and group."""
        kept = self._values.kept.get(name)
        return exact_sums.merged_limbs(rows, self._keys) if kept is None else kept.merge(rows, self._keys)

    def _together(self) -> None:
        """Put all partial results together; a pane and group may have several rows."""
        if self._fresh_rows:
            self._merged.append(self._fresh)
            self._fresh = {name: [] for name in self._fresh}
            self._fresh_rows = self._fresh_bytes = 0
            self._doubled = True

    def _widen(self) -> None:
        """Add the columns for upper bits to partial results from before these were needed."""
        completed = self._values.completed
        self._fresh["partials"] = [run._replace(table=completed(run.table)) for run in self._fresh["partials"]]
        self._merged.change("partials", completed)
        self._count_fresh()

    def _count_fresh(self) -> None:
        fresh = [table for runs in self._fresh.values() for table in _tables(runs)]
        self._fresh_rows = sum(table.height for table in fresh)
        self._fresh_bytes = sum(retained_bytes(table) for table in fresh)


class SessionAggregate(WindowAggregate):
    """Aggregates over sessions, separately for each group; the output is ordered by session and group.

    ``context``: context of the operator; ``by``: columns to group by; ``values``: output column to aggregate call.
    """

    _sessions = True

    def __init__(self, context: Context, windows: SessionWindows, by: Sequence[str], values: Mapping[str, str]) -> None:
        super().__init__(context, windows, by, values)
        self._gap = windows.gap

    def _closed(self, low: int) -> Iterable[pl.DataFrame]:
        self._consolidate()
        ends = pl.col(LAST) + self._gap
        over = pl.lit(value=True) if low == END else ends <= low
        bounds = [pl.col(FIRST).cast(BOUND).alias("window_start"), ends.cast(BOUND).alias("window_end")]
        whole = self._merged.whole()
        closed = {name: rows.lazy().filter(over).with_columns(bounds) for name, rows in whole.items()}
        partials = whole["partials"].height
        keys = [*WINDOW, *self._by]
        found = self._values.aged(closed["partials"], RESULT - self._moment)
        if self._parts:  # of a session
            found = self._values.merge(found, keys)
        finished = self._finished(found, closed, keys, whole)
        self._merged.keep(lambda rows: rows.filter(~over))
        self._due = self._next_due(low)
        ordered = _ordered(finished, self.context, ["window_end", "window_start", *self._by])
        return (computed(ordered, partials),)

    def _first_end(self, table: pl.DataFrame) -> int:
        first: Any = table.get_column("time").cast(pl.Int64).min()
        return int(first) + self._gap  # gaps within a group are ignored until the rows are reduced

    def _next_due(self, low: int) -> int:
        lasts: list[Any] = [part.get_column(LAST).min() for part in self._partials()]
        return min(lasts) + self._gap if lasts else END

    def _located(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        time = pl.col("time").cast(pl.Int64)
        return _joined(super()._located(rows).with_columns(time.alias(FIRST), time.alias(LAST)), self._by, self._gap)

    def _merge(self, tables: Tables) -> Tables:
        """Return tables with one row for each session and group, where new rows have closed gaps."""
        now, was = [FIRST, LAST], [internal("first before"), internal("last before")]
        before = [pl.col(bound).alias(name) for bound, name in zip(now, was, strict=True)]
        partials = tables["partials"]
        joined = _joined(partials.lazy().with_columns(before), self._by, self._gap)
        runs = computed(joined, partials.height).lazy()
        sessions = runs.select(*self._by, *was, *now).unique()
        found: dict[str, pl.DataFrame] = {}
        for name, rows in tables.items():
            if name == "partials":
                lazy = self._values.merge(self._values.aged(runs, pl.col(LAST) - pl.col(was[1])), self._keys)
            else:
                lazy = rows.lazy().rename(dict(zip(now, was, strict=True)))
                lazy = lazy.join(sessions, on=[*self._by, *was], nulls_equal=True).select(self._empty[name].columns)
                lazy = self._united(name, lazy).select(self._empty[name].columns)
            found[name] = computed(lazy, rows.height)
        return found


def _tables(runs: Iterable[Run]) -> list[pl.DataFrame]:
    return [run.table for run in runs]


def _joined(runs: pl.LazyFrame, by: Sequence[str], gap: int) -> pl.LazyFrame:
    """Merge runs of rows to sessions: add ``FIRST`` and ``LAST`` of the group's session that each run is part of."""
    apart = pl.col(FIRST) - pl.col(_REACHED) >= gap
    runs = runs.sort(FIRST).with_columns(_over(pl.col(LAST).cum_max().shift(1), by).alias(_REACHED))
    runs = runs.with_columns(_over(apart.fill_null(value=False).cum_sum(), by).alias(_SESSION))
    session = [*by, _SESSION]
    return runs.with_columns(pl.col(FIRST).min().over(session), pl.col(LAST).max().over(session)).drop(
        _REACHED, _SESSION
    )


def _over(values: pl.Expr, by: Sequence[str]) -> pl.Expr:
    return values.over(by) if by else values


class CountWindowAggregate(Buffered):
    """Aggregates over every n rows in order of arrival; the output of a full window is ordered by group."""

    def __init__(self, context: Context, by: Sequence[str], values: Mapping[str, str]) -> None:
        super().__init__(context)
        self._by = list(by)
        self._values = compiled_values(
            values, context.inputs[0], context.output, _half_life(context), exact=context.exact
        )

    def prepare(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the arguments of all calls to the rows."""
        return computed(self._values.prepare(rows)[0], rows.height)

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return one row for each window and group."""
        keys = [ORDINAL, *WINDOW, *self._by]
        values = self._values
        if values.ordered:
            rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(POSITION))
        prepared = values.weighed(rows.lazy(), RESULT)
        kept = {name: each.reduce(prepared, keys) for name, each in values.kept.items()}
        whole = computed(prepared, rows.height) if values.exact else rows
        limbs = {name: values.limbs(whole, keys, name) for name in values.exact}
        finished = values.finish(values.reduce(prepared, keys, rows), kept, limbs, keys, rows.height)
        return computed(_ordered(finished, self.context, [ORDINAL, *self._by]), rows.height)


def _ordered(rows: pl.LazyFrame, context: Context, order: Sequence[str]) -> pl.LazyFrame:
    """Return results in order, without those of groups that have none by the plan."""
    time = (pl.col("window_end") - pl.duration(microseconds=1)).alias("time")
    made = rows.sort(order, nulls_last=True).select(time, *(name for name in context.output if name != "time"))
    having = context.params.get("having")
    return made if having is None else made.filter(compile_expression(having, context.output, "bool"))


def _half_life(context: Context) -> float | None:
    """Return the microseconds in which the weight of a tuple is halved; None if weights stay."""
    half_life = context.params.get("half_life")
    return None if half_life is None else 1e6 * half_life


def _over_windows(context: Context, by: Sequence[str], values: Mapping[str, str]) -> OperatorLogic:
    windows = window_of(context)
    if isinstance(windows, int):
        return CountWindowAggregate(context, by, values)
    if isinstance(windows, SessionWindows):
        return SessionAggregate(context, windows, by, values)
    return WindowAggregate(context, windows, by, values)


@implements("aggregate")
def aggregate(context: Context) -> OperatorLogic:
    """Create the logic of an aggregate: by groups, over its windows."""
    return _over_windows(context, context.params["by"], context.params["values"])


@implements("count")
def count(context: Context) -> OperatorLogic:
    """Create the logic of a count: the rows of each window that has any."""
    return _over_windows(context, (), {context.params["name"]: "count(*)"})
