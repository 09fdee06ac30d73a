"""Operators that process one tuple at a time: filter, project, unnest, sample, delay."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow._expressions import compile_expression, direct_condition
from synergy_nb.dataflow.operators.base import Context, OperatorLogic, implements, positions
from synergy_nb.dataflow.tuples import Batch, concatenated, selected
from synergy_nb.plan.sql.sql import growth
from synergy_nb.plan.terms.column_types import family

SLICED_ROWS: Final = 8  # most rows of a table that is cut at its rows faster than its columns are filtered
DIRECT_ROWS: Final = 1024  # rows of a table from which on a query selects faster than column by column
ROUGH: Final = 1 << 20  # bytes of a batch below which each column is estimated to be as large as the whole batch

__all__ = ["Delay", "Filter", "Project", "Sample", "Unnest", "splitmix64"]


@implements("filter")
class Filter(OperatorLogic):
    """Select the tuples for which ``where`` is TRUE; drop those for which it is FALSE or NULL."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._where = compile_expression(context.params["where"], context.inputs[0], "bool")
        self._direct = direct_condition(context.params["where"], context.inputs[0])

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows that fulfil the condition."""
        if self._direct is None or table.height >= DIRECT_ROWS:
            return (table.filter(self._where),)
        mask = self._direct(table)
        chosen = mask.sum()
        if chosen == table.height:
            return (table,)
        if not chosen:
            return ()
        if table.height <= SLICED_ROWS:
            return (concatenated(_slices(table, mask.to_list())),)
        return (selected(table, mask),)


def _slices(table: pl.DataFrame, chosen: Iterable[bool | None]) -> list[pl.DataFrame]:
    """Return the rows of a table that were chosen: those that follow each other together."""
    found: list[pl.DataFrame] = []
    at = 0
    for is_chosen, rows in itertools.groupby(chosen, bool):
        number = sum(1 for _ in rows)
        if is_chosen:
            found.append(table.slice(at, number))
        at += number
    return found


@implements("project")
class Project(OperatorLogic):
    """Compute new columns; ``time`` and the bounds of windows remain."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        schema, given = context.inputs[0], context.params["columns"]
        self._columns = [
            (compile_expression(given[name], schema, kind) if name in given else pl.col(name)).alias(name)
            for name, kind in context.output.items()
        ]
        self._reads = sum(len(column.meta.root_names()) for column in self._columns)
        grown = [growth(text) for text in given.values()]
        self._letters = sum(map(len, given.values())) + sum(characters for _, characters in grown)
        self._times = max((factor for factor, _ in grown), default=1)

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes of the output: concatenated text grows by each column that is read, or as an expression states."""
        whole = float(batch.nbytes)
        if self._reads * whole > ROUGH:
            whole = max(column.estimated_size() for column in batch.table)
        return 2.0 * (batch.nbytes + self._reads * whole * self._times + self._letters * batch.rows)

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the computed rows."""
        return (table.select(self._columns),)


@implements("unnest")
class Unnest(OperatorLogic):
    """Make a tuple of each element of a list, or columns of the fields of a struct."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._column = context.params["column"]
        self._is_list = family(context.inputs[0][self._column]) == "list"

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes of the output: the other columns of a tuple once for each element."""
        if not self._is_list:
            return 2.0 * batch.nbytes
        elements: Any = batch.table.get_column(self._column).list.len().sum()
        return 2.0 * (batch.nbytes + batch.nbytes / max(batch.rows, 1) * float(elements))

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the parts, of lists so many rows at once that they fit a piece."""
        name = self._column
        if not self._is_list:
            fields = table.get_column(name).struct.unnest()
            columns = [fields if each == name else table.get_column(each).to_frame() for each in table.columns]
            yield pl.concat(columns, how="horizontal")
            return
        filled = table.filter(pl.col(name).list.len() > 0)
        lengths = filled.get_column(name).list.len().cast(pl.Int64)
        width = filled.estimated_size() / max(filled.height, 1)
        pieces = (lengths.cum_sum().to_numpy() * width // self.piece_bytes).astype(np.int64)
        bounds = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), filled.height]
        for start, end in itertools.pairwise(bounds):
            if end > start:
                yield filled.slice(start, end - start).explode(name)


def splitmix64(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Map 64-bit integers one-to-one to scattered ones: the output function of SplitMix64 [1]_.

    .. [1] G. Steele, D. Lea, C. Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.

    >>> splitmix64(np.array([0, 1], dtype=np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@implements("sample")
class Sample(OperatorLogic):
    """Select a fraction of the tuples by position and seed, so that equal streams have equal samples.

    The tuple at position i is selected iff ``mix(i xor mix(seed)) < fraction * 2**64``.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._fraction = float(context.params["fraction"])
        seed = np.array([int(context.params.get("seed") or 0) % 2**64], dtype=np.uint64)
        self._seed = splitmix64(seed)
        self._below = np.uint64(min(int(self._fraction * 2.0**64), 2**64 - 1))

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the selected rows."""
        if self._fraction >= 1.0:
            return (table,)
        numbers = positions(batch, kept).to_numpy().astype(np.uint64)
        return (table.filter(pl.Series(splitmix64(numbers ^ self._seed) < self._below)),)


@implements("delay")
class Delay(OperatorLogic):
    """Pass each tuple on after ``cost`` seconds; for experiments."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if context.wait is None:
            raise context.error("wait", None, "a function that waits for the given seconds")
        self._wait: Final = context.wait
        # seconds that a tuple takes; it may be changed between two executions
        self.cost = float(context.params["cost"])

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows after the delay."""
        self._wait(self.cost * table.height)
        return (table,)
