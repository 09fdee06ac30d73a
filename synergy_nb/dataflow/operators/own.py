"""Operators that execute functions of one's own: apply, apply_windows, apply_keyed.

The function is asked by :class:`synergy_nb.dataflow.functions.calls.Calls`, which the context of the operator makes: a
peer has a process for it, a simulation calls it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from synergy_nb.dataflow.functions.calls import columns_needed, local
from synergy_nb.dataflow.functions.keyed_states import SAVED
from synergy_nb.dataflow.operators.base import Context, OperatorLogic, implements, retained_bytes
from synergy_nb.dataflow.operators.windows import BOUND, Buffered
from synergy_nb.dataflow.tuples import START, Batch, concatenated, empty
from synergy_nb.plan.terms.naming import internal

if TYPE_CHECKING:
    from synergy_nb.dataflow.functions.calls import Calls

__all__ = ["Apply", "ApplyKeyed", "ApplyWindows", "in_order"]


def _calls(context: Context) -> Calls:
    return (context.functions or local)(context)


@implements("apply")
class Apply(OperatorLogic):
    """The function, for each batch."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._calls = _calls(context)
        self._sent = None if context.params.get("keep") else columns_needed(context.params, context.inputs[0])

    @property
    def state_bytes(self) -> int:
        """Bytes of the process of the function."""
        return self._calls.used

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return what the function makes of the rows."""
        sent = table if self._sent is None else table.select(self._sent)
        yield self._calls.call("batch", sent, self._low[0]).table


def in_order(rows: pl.DataFrame, keys: Sequence[str], columns: Iterable[str]) -> pl.DataFrame:
    """Rows by ``keys``, and those with equal ones in the order in which a function of windows gets them.

    Equal times are ordered by all columns, so that replicas, which read in other orders, pass the same tables.
    """
    by = dict.fromkeys([*keys, "time", *columns])
    return rows.sort(list(by), nulls_last=True, maintain_order=True)


@implements("apply_windows")
class ApplyWindows(Buffered):
    """The function, for the rows of each window and group, in the order of their times."""

    finishing = 6.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._by = list(context.params.get("by") or ())
        self._sent = columns_needed(context.params, context.inputs[0]) or list(context.inputs[0])
        self._calls = _calls(context)

    @property
    def state_bytes(self) -> int:
        """Bytes of the rows that wait, and of the process of the function."""
        return super().state_bytes + self._calls.used

    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return what the function makes of each group, ordered by group."""
        keys = [*dict.fromkeys([*self.groups, "window_end", "window_start"]), *self._by]
        rows = in_order(rows, keys, self.context.inputs[0])
        names = {internal(f"group {number}"): name for number, name in enumerate(keys)}
        rows = rows.select(*(pl.col(name).alias(own_name) for own_name, name in names.items()), *self._sent)
        made = self._calls.call("windows", rows, START).table.rename(names)
        end = pl.col("window_end").cast(pl.Int64) - 1
        return made.with_columns(end.cast(BOUND).alias("time")).select(list(self.context.output))


@implements("apply_keyed")
class ApplyKeyed(OperatorLogic):
    """An object of the class for each key.

    The state is saved in parts: all keys once, and then those that have changed since the part before; when these are
    as many as all keys, all of them again.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._calls = _calls(context)
        self._timers = bool(context.params.get("timers"))
        self._nothing = empty(context.inputs[0])
        self._sent = columns_needed(context.params, context.inputs[0])
        # of equal times by all columns, so that replicas, which read in other orders, make the same of them
        self._order = list(dict.fromkeys(["time", *context.inputs[0]]))
        self._waiting: list[pl.DataFrame] = []  # rows that wait for the watermark, if there are timers
        self._parts: list[pl.DataFrame] = []
        self._keys = self._size = 0
        self._parts_bytes = 0  # bytes of the parts

    @property
    def state_rows(self) -> int:
        """Keys, and rows that wait."""
        return self._keys + sum(each.height for each in self._waiting)

    @property
    def state_bytes(self) -> int:
        """Bytes of all states, estimated or as they were saved last, or of their process; and of the rows that wait."""
        used = self._calls.used
        states = used + self._parts_bytes if used else max(self._size, self._parts_bytes)
        return states + sum(map(retained_bytes, self._waiting))

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return what the objects make of the rows; with timers they wait."""
        if self._timers:
            self._waiting.append(table)
            return ()
        return (self._ask("rows", table, self._low[0]),)

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """With timers, return what the objects make of rows and timers before ``low``; end states."""
        due = self._nothing
        if self._waiting:
            rows = concatenated(self._waiting)
            passed = rows.get_column("time").cast(pl.Int64) < low
            due, rest = (
                rows.filter(passed).sort(self._order, nulls_last=True, maintain_order=True),
                rows.filter(~passed),
            )
            self._waiting = [rest] if rest.height else []
        return (self._ask("advance", due, low),)

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return the rows that wait, and the states in parts."""
        before = sum(each.height for each in self._parts[1:])
        if not self._parts or not self._keys or before > max(self._parts[0].height, 1024):
            self._parts = [self._ask("save", self._nothing, START)]
        else:
            changed = self._ask("changed", self._nothing, START)
            if changed.height:
                self._parts = [*self._parts, changed]
        self._parts_bytes = sum(retained_bytes(each) for each in self._parts if each.height)
        return {"waiting": self._waiting or [self._nothing], "states": self._parts}

    def state_schemas(self) -> dict[str, list[pl.Schema]]:
        """Return the columns of both tables."""
        return {"waiting": [self._nothing.schema], "states": [SAVED]}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace all states."""
        self._waiting = [each for each in tables["waiting"] if each.height]
        self._parts = list(tables["states"])
        self._parts_bytes = sum(retained_bytes(each) for each in self._parts if each.height)
        self._ask("load", pl.concat(tables["states"]), START)

    def _ask(self, what: str, table: pl.DataFrame, low: int) -> pl.DataFrame:
        sent = table if self._sent is None or what not in ("rows", "advance") else table.select(self._sent)
        answer = self._calls.call(what, sent, low)
        self._keys, self._size = answer.keys, answer.size
        return answer.table
