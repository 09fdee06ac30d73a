"""The join of a stream with the latest tuple of another.

Theory of operation
-------------------
The latest tuple of the right input at a time is known once that input has promised that no tuple of this time or an
earlier one will follow. So a left tuple waits for that promise, and the result depends on times and columns alone: not
on batches, on the order of arrival, or on which replica computes it. Of several right tuples of one key and time that
counts as the latest whose columns are the greatest, one after another, as their order of arrival may differ.

Neither input will have a tuple earlier than the least promise of both. Of the right tuples up to that time only the
latest of each key can be found again, and only within the span: the others leave when the state has doubled, or with an
eighth of the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from synergy_nb.dataflow.operators.base import (
    WINDOW,
    Context,
    OperatorLogic,
    compacted,
    implements,
    positions,
    retained_bytes,
)
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.dataflow.tuples import END, START, Batch, concatenated, empty, selected
from synergy_nb.plan.terms.naming import internal

__all__ = ["AsOf"]

_POSITION: Final = internal("position")
_OTHER: Final = internal("other")  # beginning of the names of right columns
_TIME: Final = internal("time")  # time of the right tuple
_FEW: Final = 1024  # rows that may be superseded before any is dropped
_PIECES: Final = 64  # maximum number of tables of a state that are not merged
_MATCHING: Final = 6.0  # memory that matching needs, bytes for each byte of both sides
_EACH: Final = 16.0  # bytes that a value of a result takes at least


class _Rows:
    """Rows of the state, in pieces as they arrived."""

    def __init__(self, tables: Iterable[pl.DataFrame], schema: Mapping[str, str]) -> None:
        self.none = empty(schema)
        self._put([table for table in tables if table.height])

    def _put(self, pieces: list[pl.DataFrame]) -> None:
        self.pieces = pieces
        self.rows = sum(piece.height for piece in pieces)
        self.bytes = sum(map(retained_bytes, pieces))

    def add(self, table: pl.DataFrame) -> None:
        """Add rows."""
        if table.height:
            table = table.rechunk() if table.n_chunks() > 1 else table
            pieces = [*self.pieces, table]
            self._put(compacted(pieces) if len(pieces) > _PIECES else pieces)

    def table(self) -> pl.DataFrame:
        """All rows."""
        return concatenated(self.pieces) if self.pieces else self.none

    def keep(self, mask: pl.Series) -> None:
        """Drop the rows that a mask does not select; pieces that stay whole remain the same objects."""
        start, pieces = 0, []
        for piece in self.pieces:
            own = mask.slice(start, piece.height)
            start += piece.height
            pieces.append(piece if own.all() else selected(piece, own))
        self._put(compacted(piece for piece in pieces if piece.height))

    def parts(self) -> list[pl.DataFrame]:
        """Return all rows for a snapshot."""
        self._put(compacted(self.pieces))
        return self.pieces or [self.none]


@implements("asof")
class AsOf(OperatorLogic):
    """Join each left tuple with the latest right tuple of equal columns that is at most ``within`` older.

    Results have the time of the left tuple; those emitted together are ordered by time, then by position.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        left, right = context.inputs
        self._on = list(context.params["on"])
        self._within = microseconds(context.params["within"])
        self._inner = context.params["how"] == "inner"
        self._left_schema = {**left, _POSITION: "int"}
        self._right_schema = {name: kind for name, kind in right.items() if name not in WINDOW}
        others = [name for name in self._right_schema if name not in (*self._on, "time")]
        self._tied = [*self._on, "time"]
        self._order = ["time", *others]
        self._right_names = [*(pl.col(name) for name in self._on), pl.col("time").alias(_TIME)]
        self._right_names += [pl.col(name).alias(_OTHER + name) for name in others]
        added = list(context.output)[len(context.output) - len(others) :]
        self._columns = [*(pl.col(name) for name in context.output if name not in added)]
        self._columns += [pl.col(_OTHER + name).alias(new) for name, new in zip(others, added, strict=True)]
        self._set([], [])

    def _set(self, left: Sequence[pl.DataFrame], right: Sequence[pl.DataFrame]) -> None:
        self._waiting = _Rows(left, self._left_schema)
        self._latest = _Rows(right, self._right_schema)
        self._ordered: pl.DataFrame | None = None  # the rows of `_latest`, one for each key and time, by time
        self._dropped = START  # the promise up to which superseded rows were dropped
        self._kept = self._latest.rows  # the rows that were left then

    @property
    def state_rows(self) -> int:
        """Left rows that wait, and right rows that may be the latest."""
        return self._waiting.rows + self._latest.rows

    @property
    def state_bytes(self) -> int:
        """Bytes of these rows."""
        return self._waiting.bytes + self._latest.bytes

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: to be kept, and on the left to be matched."""
        own = super().batch_needs(port, batch)
        return own if port else own + self._matching(batch.nbytes, batch.rows)

    def close_needs(self, low: int) -> float:
        """Bytes that are needed to match the left rows that wait, and to copy the right rows that stay."""
        return self._matching(self._waiting.bytes, self._waiting.rows)

    def _matching(self, nbytes: float, rows: int) -> float:
        mean = self._latest.bytes / max(self._latest.rows, 1) + _EACH * len(self._columns)
        return _MATCHING * (nbytes + self._latest.bytes) + 3.0 * rows * mean

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Keep the rows; of left rows for which the right input has promised enough, return the results."""
        if port == 1:
            if self._low[0] != END or self._waiting.rows:
                self._latest.add(table.select(self._latest.none.columns).drop_nulls(self._on))
                self._ordered = None
            return
        rows = table.hstack([positions(batch, kept).alias(_POSITION)])
        early = rows.get_column("time").cast(pl.Int64()) < self._low[1]
        self._waiting.add(selected(rows, ~early))
        yield from self._results(selected(rows, early))

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Return the results of left rows for which the right input has promised enough, and drop superseded rows."""
        if self._waiting.rows and self._low[1] != START:
            rows = self._waiting.table()
            early = rows.get_column("time").cast(pl.Int64()) < self._low[1]
            self._waiting.keep(~early)
            yield from self._results(selected(rows, early))
        if self._latest.rows and (
            low == END
            or low - self._dropped >= max(self._within // 8, 1)
            or self._latest.rows > 2 * self._kept + _FEW
            or (self._low[0] == END and not self._waiting.rows)
        ):
            self._drop(low)

    def _drop(self, low: int) -> None:
        """Drop the right rows that are too old, or not the latest of their key, for any left row from ``low`` on."""
        self._dropped = low
        self._ordered = None
        if low == END or (self._low[0] == END and not self._waiting.rows):
            self._latest = _Rows([], self._right_schema)
        elif low != START:
            time = pl.col("time").cast(pl.Int64())
            latest = time.filter(time <= low).max().over(self._on)
            useful = (time > low) | ((time >= low - self._within) & (time == latest))
            self._latest.keep(self._latest.table().select(useful.fill_null(value=False)).to_series())
        self._kept = self._latest.rows

    def _results(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Match left rows."""
        if not rows.height:
            return
        if self._ordered is None:
            ordered = self._latest.table().sort(self._order, nulls_last=False, maintain_order=True)
            self._ordered = ordered.unique(self._tied, keep="last", maintain_order=True).select(self._right_names)
        rows = rows.sort("time", _POSITION)
        found = rows.join_asof(
            self._ordered, left_on="time", right_on=_TIME, by=self._on, tolerance=f"{self._within}us",
            coalesce=False, check_sortedness=False,
        )  # fmt: skip
        if self._inner:
            found = found.filter(pl.col(_TIME).is_not_null())
        each = retained_bytes(found) / max(found.height, 1)
        yield from found.select(self._columns).iter_slices(max(int(self.piece_bytes / max(each, 1.0)), 1))

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return left rows that wait, with their positions, and right rows, in parts as they arrived."""
        return {"left": self._waiting.parts(), "right": self._latest.parts()}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace the rows of both sides."""
        self._set(tables["left"], tables["right"])
