"""Operators that bring streams together: union, join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from synergy_nb.dataflow.operators.base import WINDOW, Context, OperatorLogic, implements, positions
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.dataflow.tuples import END, START, Batch, empty

__all__ = ["Join", "Union"]

_POSITION = "@position"
_PIECES = 64  # separate pieces of memory of a side's state, at most
_FEW = 64  # rows of a side's state for each new row, from which on new rows are few


@implements("union")
class Union(OperatorLogic):
    """All tuples of all inputs, in order of arrival.

    The order of tuples of different inputs depends on how these interleave; the set of tuples does not.
    """

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """The rows, with the columns in the order of the first input."""
        return (table.select(self.context.output) if table.columns != list(self.context.output) else table,)


class _Side:
    """One input's rows that a future row of the other may join.

    Parameters
    ----------
    table
        The rows to start with.
    patience
        Microseconds by which rows may be kept longer than needed, so that not every punctuation costs a pass over all.
    """

    def __init__(self, table: pl.DataFrame, patience: int) -> None:
        self.pieces = [table]
        self.rows = table.height
        self.patience = patience
        self.dropped = START

    def add(self, table: pl.DataFrame) -> None:
        """Keep rows."""
        self.pieces.append(table)
        self.rows += table.height

    def table(self) -> pl.DataFrame:
        """All rows kept."""
        if len(self.pieces) > 1:
            table = pl.concat(self.pieces)
            self.pieces = [table.rechunk() if table.n_chunks() > _PIECES else table]
        return self.pieces[0]

    def drop_before(self, time: int) -> None:
        """Forget the rows that are earlier than ``time``."""
        if time != END and time - self.dropped < self.patience:
            return
        self.dropped = time
        if self.rows:
            table = self.table()
            table = table.clear() if time == END else table.filter(pl.col("time").cast(pl.Int64) >= time)
            self.pieces, self.rows = [table], table.height

    def likely(self, keys: pl.Series) -> pl.DataFrame:
        """The rows that may join one of a few others, by one column; a pass over it is cheaper than hashing all."""
        table = self.table()
        if keys.len() * _FEW > table.height:
            return table
        column = table.get_column(keys.name)
        return table.filter(column == keys.item() if keys.len() == 1 else column.is_in(keys.implode()))


@implements("join")
class Join(OperatorLogic):
    """Symmetric join of two streams on equal columns, within a span of event time.

    Rows l and r give a result iff ``l[c] = r[c]`` for all c in ``on`` (NULL equals nothing) and ``|l.time - r.time| <=
    within``; its time is the later of the two. A pair leaves as soon as both rows have come. A side's row is kept until
    the other side's punctuation rules out partners, or an eighth of ``within`` longer.

    Order: the results that one batch triggers are ordered by time, position on the left, position on the right. Which
    batch triggers a pair depends on how the ports interleave, so across interleavings the results are equal as a set,
    and for one given order of arrival at the two ports they are the same rows in every run.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        left, right = context.inputs
        self._on = list(context.params["on"])
        self._within = microseconds(context.params["within"])
        self._right_names = self._renamed(left, right)
        self._sides = [_Side(empty({**schema, _POSITION: "int"}), self._within // 8) for schema in (left, right)]
        latest = pl.max_horizontal("time", "@time").alias("time")
        self._columns = [latest if name == "time" else pl.col(name) for name in context.output]

    def _renamed(self, left: Mapping[str, str], right: Mapping[str, str]) -> dict[str, str]:
        """Right column to output column, by the rule of the plan: clashing names get the suffix, case ignored."""
        implicit = {"time", *WINDOW}
        taken = {name.casefold() for name in left if name not in implicit}
        names = {"time": "@time", _POSITION: "@right"}
        for name in right:
            if name in self._on or name in implicit:
                continue
            names[name] = name if name.casefold() not in taken else name + self.context.params.get("suffix", "_right")
            taken.add(names[name].casefold())
        return names

    @property
    def state_rows(self) -> int:
        """Rows kept on both sides."""
        return self._sides[0].rows + self._sides[1].rows

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """The pairs that the new rows make with those of the other side."""
        rows = table.hstack([positions(batch, kept).alias(_POSITION)])
        mine, other = self._sides[port], self._sides[1 - port]
        if not self._hopeless(port, rows):
            mine.add(rows)
        if not other.rows:
            return ()
        candidates = other.likely(rows.get_column(self._on[0]))
        if not candidates.height:
            return ()
        left, right = (rows, candidates) if port == 0 else (candidates, rows)
        pairs = (
            left.lazy()
            .join(
                right.lazy().select(*self._on, *(pl.col(old).alias(new) for old, new in self._right_names.items())),
                on=self._on,
            )
            .filter((pl.col("time") - pl.col("@time")).dt.total_microseconds().abs() <= self._within)
            .select(*self._columns, pl.col(_POSITION).alias("@left"), pl.col("@right"))
            .sort("time", "@left", "@right")
            .drop("@left", "@right")
        )
        return (pairs.collect(),)

    def _hopeless(self, port: int, rows: pl.DataFrame) -> bool:
        """Whether no future row of the other side can join any of ``rows``."""
        low = self._low[1 - port]
        if low == START:
            return False
        latest: Any = rows.get_column("time").cast(pl.Int64).max()
        return low == END or int(latest) + self._within < low

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Forget the rows that no future row of the other side can join."""
        for side, other in zip(self._sides, reversed(self._low), strict=True):
            if other != START:
                side.drop_before(END if other == END else other - self._within)
        return ()

    def state(self) -> dict[str, pl.DataFrame]:
        """The rows kept on both sides, with their positions."""
        return {"left": self._sides[0].table(), "right": self._sides[1].table()}

    def load(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Replace the rows kept."""
        self._sides = [_Side(tables[name], self._within // 8) for name in ("left", "right")]
