"""Operators that combine several streams: union, join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow.operators.base import (
    RUN_ROWS,
    WINDOW,
    Context,
    OperatorLogic,
    compacted,
    computed,
    implements,
    positions,
    retained_bytes,
    value_bytes,
)
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.dataflow.tuples import END, START, TYPES, Batch, concatenated, empty, selected
from synergy_nb.plan.terms.naming import internal

__all__ = ["Join", "OuterJoin", "Union", "join"]

_POSITION: Final = internal("position")
_TIME: Final = internal("time")  # column with the time of the right row of a pair
_LEFT: Final = internal("left")  # positions of the rows of a pair
_RIGHT: Final = internal("right")
_PIECES: Final = 64  # maximum number of separate pieces of memory that the state of a side has
_SMALL: Final = 1024  # maximum number of rows of a side's state whose table is one contiguous piece
_FEW: Final = 64  # new rows count as few if the state of a side has more than this many rows for each of them
_COMPARED: Final = (pl.Int64, pl.String)  # types of keys that are compared with each of a few
_FEW_KEYS: Final = 6  # different keys up to which comparing with each takes less time than a search in a list
_CELLS: Final = 1 << 14  # number of counters for the keys of a side
_PAIR: Final = 40  # bytes of a pair beside the values of its rows: times and positions
_JOINING: Final = 3.0  # memory that joining needs, bytes for each byte of pairs


@implements("union")
class Union(OperatorLogic):
    """All tuples of all inputs, in order of arrival.

    The order of tuples of different inputs depends on how these interleave; the set of tuples does not.
    """

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """The rows, with the columns in the order of the first input."""
        return (table.select(self.context.output) if table.columns != list(self.context.output) else table,)


class _Keys:
    """Upper bounds of the number of rows with each key: counters that keys share by their hash.

    ``table``: initial rows.
    """

    def __init__(self, on: Sequence[str], table: pl.DataFrame) -> None:
        self._on = list(on)  # columns of the key
        self._counts: npt.NDArray[np.int64] = np.zeros(_CELLS, dtype=np.int64)
        self.add(table)

    def add(self, table: pl.DataFrame) -> None:
        """Count rows."""
        self._counts += np.bincount(self._cells(table.drop_nulls(self._on)), minlength=_CELLS)

    def drop(self, table: pl.DataFrame) -> None:
        """Stop counting rows."""
        self._counts -= np.bincount(self._cells(table.drop_nulls(self._on)), minlength=_CELLS)

    def most(self, table: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return, for each row of another table, an upper bound of the number of rows here with its key."""
        null = table.select(pl.any_horizontal(pl.col(self._on).is_null())).to_series().to_numpy()
        return np.where(null, 0, self._counts[self._cells(table)])

    def _cells(self, table: pl.DataFrame) -> npt.NDArray[np.int64]:
        return (table.select(self._on).hash_rows().to_numpy() % np.uint64(_CELLS)).astype(np.int64)


def _together(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate tables; a few rows are copied, as queries on many chunks take longer than the copy."""
    if sum(table.height for table in tables) <= _SMALL:
        return concatenated(tables)
    return pl.concat(tables)


def _where(table: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Return the rows that a mask selects; the same object if these are all."""
    count = mask.sum()
    if not count:
        return table.clear()
    return table if count == table.height else selected(table, mask)


def _results(pairs: pl.DataFrame) -> pl.DataFrame:
    """Remove the columns of positions from pairs, in place: a query would take longer than most joins of a batch."""
    for name in (_LEFT, _RIGHT):
        pairs.drop_in_place(name)
    return pairs


class _Side:
    """The rows of one input that a future row of the other may join."""

    def __init__(self, table: pl.DataFrame, patience: int, on: Sequence[str]) -> None:
        # microseconds by which rows may be retained longer than needed, so that not every punctuation scans all rows
        self.patience = patience
        self.dropped = START
        self._on = on  # columns of the join key
        self._keys: _Keys | None = None  # created when pairs may be many for the first time
        self._keep(table, [table] if table.height else [])

    def _keep(self, table: pl.DataFrame, pieces: list[pl.DataFrame]) -> None:
        self._table = table
        self._pieces = pieces  # the same rows, followed by those that are not in the table yet
        self._joined = len(pieces)
        self.rows = table.height
        self.bytes = retained_bytes(table) if table.height else 0

    def add(self, table: pl.DataFrame) -> None:
        """Add rows."""
        table = table.rechunk() if table.n_chunks() > 1 else table
        self._pieces.append(table)
        self.rows += table.height
        self.bytes += retained_bytes(table)
        if self._keys is not None:
            self._keys.add(table)

    def table(self) -> pl.DataFrame:
        """All rows."""
        fresh = self._pieces[self._joined :]
        if fresh:
            if len(self._pieces) > _PIECES + 2 * self.rows // RUN_ROWS:
                fresh = self._pieces = compacted(self._pieces)
                self._table = self._table.clear()
            self._keep(_together([self._table, *fresh] if self._table.height else fresh), self._pieces)
        return self._table

    def parts(self) -> list[pl.DataFrame]:
        """Return all rows, in parts as they arrived."""
        table = self.table()
        pieces = compacted(self._pieces)
        if len(pieces) < len(self._pieces):
            self._keep(_together(pieces), pieces)
        return self._pieces or [table]

    def drop_before(self, time: int) -> None:
        """Drop the rows that are earlier than ``time``."""
        if time != END and time - self.dropped < self.patience:
            return
        self.dropped = time
        if not self.rows:
            return
        table = self.table()
        if time == END:
            self._keys = None
            self._keep(table.clear(), [])
            return
        early = table.get_column("time").cast(pl.Int64) < time
        if not early.any():
            return
        if self._keys is not None:
            self._keys.drop(selected(table, early))
        late, start, kept = ~early, 0, list[pl.DataFrame]()
        for piece in self._pieces:
            rest = _where(piece, late.slice(start, piece.height))
            start += piece.height
            if rest.height:
                kept.append(rest)
        self._keep(_together(kept) if kept else table.clear(), kept)

    def before(self, time: int) -> pl.DataFrame:
        """Return the rows that are earlier than ``time``."""
        return self.table() if time == END else self.table().filter(pl.col("time").cast(pl.Int64) < time)

    def likely(self, keys: pl.Series) -> pl.DataFrame:
        """Return the rows that may join one of a few others, by one column: a scan is cheaper than hashing all rows."""
        table = self.table()
        if keys.len() * _FEW > table.height > _SMALL:
            return table
        if keys.null_count():
            keys = keys.drop_nulls()  # NULL equals nothing
        column = table.get_column(keys.name)
        if keys.len() == 1:
            return _where(table, column == keys.item())
        if keys.dtype in _COMPARED and 0 < len(different := {*keys.to_list()}) <= _FEW_KEYS:
            return _where(table, reduce(or_, (column == each for each in different)))  # a search takes 3 times as long
        either = pl.Series([keys], dtype=pl.List(keys.dtype))  # implode() takes 5 times as long
        return _where(table, column.is_in(either))

    def shares(self, rows: pl.DataFrame, most: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Cut ``rows`` of the other side into shares of at most ``most`` pairs, each with the rows that it may join."""
        candidates = self.likely(rows.get_column(self._on[0]))
        if rows.height * candidates.height <= most:
            yield rows, candidates
            return
        if self._keys is None:
            self._keys = _Keys(self._on, self.table())
        start, pairs = 0, 0
        for end, more in enumerate(self._keys.most(rows).tolist()):
            if pairs + more > most and end > start:
                yield rows.slice(start, end - start), candidates
                start, pairs = end, 0
            pairs += more
            if more > most:  # a single row
                row = rows.slice(end, 1)
                for piece in self.likely(row.get_column(self._on[0])).iter_slices(most):
                    yield row, piece
                start, pairs = end + 1, 0
        if start < rows.height:
            yield rows.slice(start), candidates


class Join(OperatorLogic):
    """Symmetric join of two streams on equal columns, within a span of event time.

    Rows l and r give a result iff ``l[c] = r[c]`` for all c in ``on`` (NULL equals nothing) and ``|l.time - r.time| <=
    within``; its time is the later of the two. A pair is emitted as soon as both rows have arrived. A row is retained
    until the other side's punctuation rules out partners, or an eighth of ``within`` longer.

    Hwang et al. have ``<`` for ``<=``. Times are whole microseconds, so theirs is a ``within`` that is 1 µs less.

    Order: the results of a row are emitted when it arrives, before those of the next row, ordered by the positions of
    the rows that it is joined with. So for one order of arrival at the two ports the results are the same rows in the
    same order, however the input was cut into batches; across orders of arrival they are equal as a set.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        left, right = context.inputs
        self._on = list(context.params["on"])
        windowed = set(WINDOW) <= set(self._on)  # then the times of a pair are equal, as its windows are
        self._within = 0 if windowed else microseconds(context.params["within"])
        self._right_names = self._renamed(left, right)
        self._load([empty({**schema, _POSITION: "int"}) for schema in (left, right)])
        latest = pl.max_horizontal("time", _TIME).alias("time")
        columns = [latest if name == "time" else pl.col(name) for name in context.output]
        self._columns = [*columns, pl.col(_POSITION).alias(_LEFT), pl.col(_RIGHT)]
        self._right_columns = [*self._on, *(pl.col(old).alias(new) for old, new in self._right_names.items())]
        self._near = (pl.col("time") - pl.col(_TIME)).dt.total_microseconds().abs() <= self._within

    def _renamed(self, left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
        """Right column to output column, by the rule of the plan: clashing names get the suffix, case ignored."""
        implicit = {"time", *WINDOW}
        taken = {name.casefold() for name in left if name not in implicit}
        names = {"time": _TIME, _POSITION: _RIGHT}
        for name in right:
            if name in self._on or name in implicit:
                continue
            names[name] = name if name.casefold() not in taken else name + self.context.params.get("suffix", "_right")
            taken.add(names[name].casefold())
        return names

    @property
    def state_rows(self) -> int:
        """Rows of both sides."""
        return self._sides[0].rows + self._sides[1].rows

    @property
    def state_bytes(self) -> int:
        """Bytes of the rows of both sides."""
        return self._sides[0].bytes + self._sides[1].bytes

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: to concatenate the other side, and to make some of the pairs at a time."""
        other = self._sides[1 - port]
        pairs = min(batch.rows * other.rows, self._most_pairs(batch))
        return 3.0 * value_bytes(batch.table) + other.bytes + _JOINING * pairs * self._pair_bytes(batch)

    def close_needs(self, low: int) -> float:
        """Bytes that are needed to copy the rows of a side that stay."""
        return float(max(side.bytes for side in self._sides))

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the pairs of the new rows with rows of the other side."""
        rows = table.hstack([positions(batch, kept).alias(_POSITION)])
        mine, other = self._sides[port], self._sides[1 - port]
        if not self._hopeless(port, rows):
            mine.add(rows)
        if not other.rows:
            return
        for some, candidates in other.shares(rows, self._most_pairs(batch)):
            if candidates.height:
                yield _results(self._pairs(port, some, candidates))

    def _pairs(self, port: int, rows: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
        """Return pairs, with the positions of their rows as ``_LEFT`` and ``_RIGHT``."""
        left, right = (rows, candidates) if port == 0 else (candidates, rows)
        pairs = (
            left.lazy()
            .join(right.lazy().select(self._right_columns), on=self._on)
            .filter(self._near)
            .select(self._columns)
            .sort((_LEFT, _RIGHT) if port == 0 else (_RIGHT, _LEFT))
        )
        return computed(pairs, rows.height + candidates.height)

    def _most_pairs(self, batch: Batch) -> int:
        """Return how many pairs to make at a time with a row of ``batch``: as many as fit the bytes of a piece."""
        return max(int(self.piece_bytes / self._pair_bytes(batch)), 1)

    def _pair_bytes(self, batch: Batch) -> float:
        """Return the bytes of a pair with a row of ``batch``, for rows of average size."""
        mean = sum(side.bytes / side.rows for side in self._sides if side.rows)
        return mean + value_bytes(batch.table) / max(batch.rows, 1) + _PAIR

    def _hopeless(self, port: int, rows: pl.DataFrame) -> bool:
        """Whether no future row of the other side can join any of ``rows``."""
        low = self._low[1 - port]
        if low == START:
            return False
        latest: Any = rows.get_column("time").cast(pl.Int64).max()
        return low == END or int(latest) + self._within < low

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Drop the rows that no future row of the other side can join."""
        for side, other in zip(self._sides, reversed(self._low), strict=True):
            if other != START:
                side.drop_before(END if other == END else other - self._within)
        return ()

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return the rows of both sides, with their positions, in parts as they arrived."""
        return {"left": self._sides[0].parts(), "right": self._sides[1].parts()}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace the rows of both sides."""
        self._load([concatenated(tables[name]) for name in ("left", "right")])

    def _load(self, tables: Sequence[pl.DataFrame]) -> None:
        self._sides = [_Side(table, self._within // 8, self._on) for table in tables]


class OuterJoin(Join):
    """A join that also returns the left rows without a partner, or only these.

    A left row has no partner if none has arrived by the time that the right side's punctuation rules them out. It is
    then emitted with ``time`` later by ``within``: the last time at which a partner could have arrived, so no earlier
    punctuation promised otherwise. Rows emitted together are ordered by time, then by position.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._with_pairs = context.params["how"] == "left"
        left = context.inputs[0]
        later = (pl.col("time") + pl.duration(microseconds=self._within)).alias("time")
        self._alone = [
            later if name == "time" else pl.col(name) if name in left else pl.lit(None, dtype=TYPES[kind]).alias(name)
            for name, kind in context.output.items()
        ]

    @property
    def state_rows(self) -> int:
        """Rows of both sides, and positions of left rows that have a partner."""
        return super().state_rows + len(self._met)

    @property
    def state_bytes(self) -> int:
        """Bytes of these rows and positions."""
        return super().state_bytes + self._met_bytes

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: those of a join, and of the positions of rows with a partner."""
        return super().batch_needs(port, batch) + 3.0 * self._met_bytes + 16.0 * (batch.rows + self._sides[0].rows)

    def close_needs(self, low: int) -> float:
        """Bytes that are needed to copy the left rows that are emitted, with the columns of the right."""
        left = self._sides[0]
        return super().close_needs(low) + 3.0 * left.bytes + 16.0 * left.rows * len(self._alone) + 3.0 * self._met_bytes

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the pairs of the new rows, if requested, and new left rows that can have no partner any more."""
        rows = table.hstack([positions(batch, kept).alias(_POSITION)])
        mine, other = self._sides[port], self._sides[1 - port]
        hopeless = self._hopeless(port, rows)
        if not hopeless:
            mine.add(rows)
        met: set[int] = set()
        for some, candidates in other.shares(rows, self._most_pairs(batch)) if other.rows else ():
            if candidates.height:
                pairs = self._pairs(port, some, candidates)
                met.update(pairs.get_column(_LEFT).unique().to_list())
                if self._with_pairs:
                    yield _results(pairs)
        if port == 0 and hopeless:
            yield from self._leaving(rows, met)
        elif fresh := sorted(met - self._met):
            self._met.update(fresh)
            self._note([*self._met_tables, pl.DataFrame({_POSITION: fresh}, schema={_POSITION: pl.Int64()})])

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Emit the left rows that have no partner and can get none, and drop all rows that can get none."""
        right = self._low[1]
        if right != START and self._sides[0].rows:
            rows = self._sides[0].before(END if right == END else right - self._within)
            if rows.height:
                gone = rows.get_column(_POSITION)
                yield from self._leaving(rows, self._met.intersection(gone.to_list()))
                self._met.difference_update(gone.to_list())
                left = [(each, ~each.get_column(_POSITION).is_in(gone.implode())) for each in self._met_tables]
                self._note([kept for each, stay in left if (kept := _where(each, stay)).height])
        super().close(low)

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return the rows of both sides, and positions of left rows that have a partner."""
        self._note(compacted(self._met_tables))
        return {**super().state(), "met": self._met_tables or [empty({_POSITION: "int"})]}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace the rows of both sides."""
        super().load(tables)
        self._note([table for table in tables["met"] if table.height])
        self._met.update(position for table in self._met_tables for position in table.get_column(_POSITION).to_list())

    def _load(self, tables: Sequence[pl.DataFrame]) -> None:
        super()._load(tables)
        self._sides[0].patience = 0  # an emitted row is removed at once
        self._met: set[int] = set()
        self._note([])

    def _note(self, tables: list[pl.DataFrame]) -> None:
        self._met_tables = tables
        self._met_bytes = sum(map(retained_bytes, tables))

    def _leaving(self, rows: pl.DataFrame, met: set[int]) -> Iterator[pl.DataFrame]:
        """Return the output for left rows that are dropped, some of which have a partner."""
        alone = rows.filter(~pl.col(_POSITION).is_in(sorted(met))) if met else rows
        each = retained_bytes(alone) / max(alone.height, 1) + 16.0 * len(self._alone)
        ordered = alone.sort("time", _POSITION).select(self._alone)
        yield from ordered.iter_slices(max(int(self.piece_bytes / each), 1))


@implements("join")
def join(context: Context) -> OperatorLogic:
    """Create the logic of the requested join."""
    return Join(context) if context.params["how"] == "inner" else OuterJoin(context)
