"""Merged tables of a large state, cut by groups: what has come since is merged into one slice at a time.

Theory of operation
-------------------
An operator keeps partial results of groups in tables: *merged* ones, which have a row for each group, and those that
have come since. When these have as many rows, they are merged. For millions of groups that takes seconds, in which the
operator does nothing else, and the merged table is new to all copies at once. So large tables are cut: a group belongs
to one of :data:`BUCKETS` buckets, by a hash of its key, and a *slice* has the groups of some neighbouring buckets. The
tables that wait to be merged are in the order of their buckets. A step merges their rows of one slice. The steps of a
merge go from the first slice to the last; one is due after each :data:`PACE_ROWS` new rows, so the last comes before
half as many rows have come as the slices have. A slice that has grown is cut into several.

So a step takes no longer than its slice is large, and a row is merged in half of the time, as a slice stays in the
caches of the processor. A snapshot between two steps has the slices, and the tables that wait, without the rows that
slices have already: as buckets are merged in order, these are the first ones of each table, and their number is all
that has to be saved of it. So no table is saved twice, and what is new to copies after a step is a slice.

The hash is that of Polars, which other versions may change. Nothing saved depends on it: whoever resumes from a large
state has all of its tables wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow.operators.base import compacted, retained_bytes

BUCKETS: Final = 4096  # most slices
SLICE_ROWS: Final = 1 << 16  # least rows of a slice that was cut, in all tables; it is cut again at twice as many
PACE_ROWS: Final = 1 << 15  # new rows for each step of a merge: half of those of a slice, or less
_SEED: Final = 1

Tables: TypeAlias = Mapping[str, pl.DataFrame]


class Run(NamedTuple):
    """A table that waits to be merged."""

    table: pl.DataFrame
    # rows before each bucket, and of all; None: the rows are in any order, as there are no slices
    starts: npt.NDArray[np.int64] | None = None

    def between(self, first: int, end: int) -> pl.DataFrame:
        """Return the rows of buckets from the first to before the end; all if they are in any order."""
        if self.starts is None:
            return self.table
        start = int(self.starts[first])
        return self.table.slice(start, int(self.starts[end]) - start)


class _Slice(NamedTuple):
    first: int  # first bucket
    end: int  # bucket behind the last one
    tables: Tables

    @property
    def rows(self) -> int:
        return sum(table.height for table in self.tables.values())

    @property
    def size(self) -> int:
        return sum(retained_bytes(table) for table in self.tables.values() if table.height)


class MergedSlices:
    """The merged tables of a state, and tables that are being merged into them.

    ``keys``: columns by which rows are cut, of all tables; none: they stay whole; ``merge``: function that merges the
    rows of tables which are of the same group.
    """

    def __init__(self, tables: Tables, keys: Sequence[str], merge: Callable[[Tables], Tables]) -> None:
        self._keys = list(keys)
        self._merge = merge
        self._waiting: dict[str, list[Run]] = {}  # tables that are being merged
        self._next = 0  # index of the slice that is merged next
        self._owed = 0  # new rows since the last step
        self._taken = 0  # rows of the tables that wait which slices have already
        self.replace(tables)

    # -- what is there ---------------------------------------------------------------------------------------------

    @property
    def merging(self) -> bool:
        """Whether tables are being merged."""
        return bool(self._waiting)

    @property
    def sliced(self) -> bool:
        """Whether there are several slices."""
        return len(self._slices) > 1

    def due(self, rows: int) -> bool:
        """Whether so many rows of further tables are to be merged."""
        return not self._waiting and rows >= self.rows

    def tables(self) -> dict[str, list[pl.DataFrame]]:
        """Return all tables: those of the slices, and those that wait, with rows that slices have already."""
        found: dict[str, list[pl.DataFrame]] = {}
        for name in self._slices[0].tables:
            parts = [each.tables[name] for each in self._slices]
            parts = [table for table in parts if table.height] or parts[:1]
            found[name] = parts + [run.table for run in self._waiting.get(name, ())]
        return found

    def skipped(self) -> dict[int, int]:
        """Return how many rows at the beginning of tables that wait are merged already, by the tables' identities."""
        bucket = self._slices[self._next].first
        return {
            id(run.table): int(run.starts[bucket])
            for runs in self._waiting.values()
            for run in runs
            if run.starts is not None and run.starts[bucket]
        }

    def whole(self) -> dict[str, pl.DataFrame]:
        """Return the merged tables, each as one; nothing waits."""
        if not self.sliced:
            return dict(self._slices[0].tables)
        return {name: _united(parts) for name, parts in self.tables().items()}

    @property
    def behind(self) -> float:
        """Share of the tables that wait which slices have already, though it is still in memory; 0 to 1."""
        return self._taken / self.waiting_rows if self.waiting_rows else 0.0

    def step_bytes(self, rows: int) -> float:
        """Return the bytes that are merged while so many rows come, about: those of slices, and of what waits."""
        steps = (self._owed + rows) // PACE_ROWS
        return min(2.0 * steps / len(self._slices), 1.0) * (self.size + self.waiting_size)

    # -- changes ---------------------------------------------------------------------------------------------------

    def replace(self, tables: Tables) -> None:
        """Replace all by merged tables, of few rows."""
        self._slices = [_Slice(0, BUCKETS, dict(tables))]
        self._waiting = {}
        self._next = self._owed = self._taken = 0
        self._count()

    def resume(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> dict[str, list[Run]]:
        """Replace all by the tables of a state; returns those that are still to be merged, if there are few rows."""
        self.replace({name: merged for name, (merged, *_) in tables.items()})
        rows = sum(table.height for parts in tables.values() for table in parts)
        if rows <= 2 * SLICE_ROWS or not self._keys:
            return {name: [Run(table) for table in parts[1:]] for name, parts in tables.items()}
        bounds = np.linspace(0, BUCKETS, min(rows // SLICE_ROWS, BUCKETS) + 1).astype(int).tolist()
        nothing = {name: merged.clear() for name, (merged, *_) in tables.items()}
        self._slices = [_Slice(first, end, nothing) for first, end in pairwise(bounds)]
        self._waiting = {name: [self.run(table) for table in parts] for name, parts in tables.items()}
        self._count()
        return {name: [] for name in tables}

    def run(self, table: pl.DataFrame) -> Run:
        """Order a table as one that waits has to be."""
        return self._ordered(table) if self.sliced else Run(table)

    def compacted(self, runs: Sequence[Run]) -> list[Run]:
        """Merge small neighbouring tables, as :func:`~synergy_nb.dataflow.operators.base.compacted` does."""
        known = {id(run.table): run for run in runs}
        return [known.get(id(table)) or self.run(table) for table in compacted(run.table for run in runs)]

    def begin(self, tables: Mapping[str, Sequence[Run]]) -> None:
        """Begin to merge tables; nothing waits. If there is one slice, this merges them."""
        self._waiting = {name: list(runs) for name, runs in tables.items()}
        self._next = self._owed = self._taken = 0
        if not self.sliced:
            self.step()
        self._count()

    def advance(self, rows: int) -> None:
        """Merge as many slices as are due once so many more rows have come."""
        self._owed += rows
        while self._waiting and self._owed >= PACE_ROWS:
            self._owed -= PACE_ROWS
            self.step()

    def finish(self) -> None:
        """Merge all that waits."""
        while self._waiting:
            self.step()

    def step(self) -> None:
        """Merge what waits into the next slice."""
        old = self._slices[self._next]
        waiting = {name: [run.between(old.first, old.end) for run in runs] for name, runs in self._waiting.items()}
        if not self.sliced or any(table.height for tables in waiting.values() for table in tables):
            self._taken += sum(table.height for tables in waiting.values() for table in tables)
            together = {name: _united([table, *waiting[name]]) for name, table in old.tables.items()}
            made = self._cut(_Slice(old.first, old.end, self._merge(together)))
            self._slices[self._next : self._next + 1] = made
            self._next += len(made)
            self.rows += sum(each.rows for each in made) - old.rows
            self.size += sum(each.size for each in made) - old.size
        else:
            self._next += 1
        if self._next == len(self._slices):
            self._next, self._taken, self._waiting = 0, 0, {}
            self._count()

    def append(self, tables: Mapping[str, Sequence[Run]]) -> None:
        """Add tables to the only slice without merging them."""
        (only,) = self._slices
        self.replace(
            {name: _united([table, *(run.table for run in tables[name])]) for name, table in only.tables.items()}
        )

    def keep(self, kept: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Keep a part of the rows of each table; nothing waits."""

        def reduced(table: pl.DataFrame) -> pl.DataFrame:
            part = kept(table)
            return part if part.height < table.height else table  # an equal table stays the same for copies

        self._slices = [
            each._replace(tables={name: reduced(table) for name, table in each.tables.items()}) for each in self._slices
        ]
        if self.sliced and sum(each.rows for each in self._slices) <= SLICE_ROWS:
            self.replace(self.whole())
        self._count()

    def change(self, name: str, changed: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Replace tables of a name by others, row by row."""
        self._slices = [
            each._replace(tables={**each.tables, name: changed(each.tables[name])}) for each in self._slices
        ]
        if self._waiting:
            self._waiting[name] = [run._replace(table=changed(run.table)) for run in self._waiting[name]]
        self._count()

    def _count(self) -> None:
        waiting = [run.table for runs in self._waiting.values() for run in runs]
        self.rows = sum(each.rows for each in self._slices)  # of slices
        self.size = sum(each.size for each in self._slices)  # bytes of slices
        self.waiting_rows = sum(table.height for table in waiting)
        self.waiting_size = sum(map(retained_bytes, waiting))

    # -- cutting ---------------------------------------------------------------------------------------------------

    def _buckets(self, table: pl.DataFrame) -> npt.NDArray[np.uint16]:
        hashes = table.select(self._keys).hash_rows(seed=_SEED).to_numpy()
        return (hashes // np.uint64(2**64 // BUCKETS)).astype(np.uint16)

    def _ordered(self, table: pl.DataFrame) -> Run:
        buckets = self._buckets(table)
        counts = np.bincount(buckets, minlength=BUCKETS)
        return Run(table[np.argsort(buckets, kind="stable")], np.concatenate([[0], np.cumsum(counts)]))

    def _cut(self, one: _Slice) -> list[_Slice]:
        """Cut a slice that has become large."""
        if one.rows <= 2 * SLICE_ROWS or not self._keys or one.end == one.first + 1:
            return [one]
        runs = {name: self._ordered(table) for name, table in one.tables.items()}
        before: Any = sum(run.starts for run in runs.values() if run.starts is not None)
        wanted = np.linspace(0, one.rows, one.rows // SLICE_ROWS + 1)[1:-1]
        cuts = np.clip(np.searchsorted(before, wanted), one.first, one.end)
        bounds = np.unique([one.first, *cuts, one.end]).tolist()
        return [
            _Slice(first, end, {name: run.between(first, end) for name, run in runs.items()})
            for first, end in pairwise(bounds)
        ]


def _united(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return tables as one; a single one that has rows as it is."""
    filled = [table for table in tables if table.height]
    if len(filled) < 2:
        return (filled or tables)[0]
    # of series: Polars takes a column of one-row tables with equal values for a constant, and multiplies by the
    # reciprocal of such a divisor (test_a_mean_is_divided_exactly_though_slices_have_one_row)
    return pl.DataFrame(pl.concat(filled, rechunk=True).get_columns())
