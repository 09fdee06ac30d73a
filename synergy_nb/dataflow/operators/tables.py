"""The operator that looks up rows of a table.

Theory of operation
-------------------
A table does not change, so it is indexed once. Joins of Polars hash the whole table for each batch: for a million rows
that takes fifty times as long as to look up the rows of a batch.

*Index.* The rows are ordered by a hash of 64 bits of their key. Its leading bits number a bucket, of which there are
about two for each key, and ``starts`` has the place at which each bucket begins. A key is compared with the hashes of
its bucket, a few at most, for all rows of a batch at once; then the values themselves are compared. Two keys with the
same hash would hide each other: another seed of the hash is chosen then.

*Versions.* The rows of one key are neighbours, ordered by the time from which on they are valid. The last of them that
is not later than the tuple is found by bisection, again for all rows of a batch at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb.dataflow.operators.base import Context, OperatorLogic, implements
from synergy_nb.dataflow.operators.lookup_code import NONE, lookup_code
from synergy_nb.dataflow.tuples import TYPES, Batch, selected
from synergy_nb.plan.operators.tables import INDEX_BYTES, new_columns
from synergy_nb.plan.tables.lookup_tables import table_of

__all__ = ["RowIndex", "TableLookup"]

_SEEDS: Final = 8
_HASH_BITS: Final = 64
_ROW: Final = 32.0  # bytes that it takes to find the row of a tuple

Rows = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def _micros(times: pl.Series) -> Rows:
    """Microseconds since 1970 of times, or of the beginnings of dates."""
    return times.cast(TYPES["time"]).cast(pl.Int64()).to_numpy()


class RowIndex:
    """Finds the rows of a table by the columns of a key.

    ``table``: rows; NULL in a key is found by nothing; ``keys``: columns of the key; ``valid_from``: column of the
    times from which on rows are valid; None: each key has one row.
    """

    def __init__(self, table: pl.DataFrame, keys: Sequence[str], valid_from: str | None = None) -> None:
        known = table.drop_nulls(keys)
        for seed in range(_SEEDS):
            hashes = known.select(keys).hash_rows(seed=seed).to_numpy()
            place = pl.DataFrame({"hash": hashes, "time": known.get_column(valid_from) if valid_from else 0})
            order = place.select(pl.arg_sort_by("hash", "time")).to_series()
            self.rows = known[order]  # in the order of their hashes
            self._hashes: Hashes = hashes[order.to_numpy()]
            self._seed = seed
            if not self._collide(keys):
                break
        else:
            raise ValueError(f"the keys {', '.join(keys)} of a table have no hash that tells them apart")
        self._keys = [self.rows.get_column(key) for key in keys]
        self._times = None if valid_from is None else _micros(self.rows.get_column(valid_from))
        changes = self._hashes[1:] != self._hashes[:-1]
        first = np.flatnonzero(np.concatenate([[True], changes])) if len(hashes) else np.empty(0, dtype=np.int64)
        self._first: Rows = np.append(first, len(hashes))  # the first row of each key, and the end of the last
        self._each: Hashes = np.ascontiguousarray(self._hashes[first])
        bits = max(len(self._each).bit_length(), 1)
        self._shift = np.uint64(_HASH_BITS - bits)
        sizes = np.bincount((self._each >> self._shift).astype(np.int64), minlength=1 << bits)
        self._starts: Rows = np.concatenate([[0], np.cumsum(sizes)])

    def find(self, keys: Sequence[pl.Series], times: Rows | None = None) -> Rows:
        """Return the number in :attr:`rows` of the row for each key, or ``NONE``.

        ``keys``: columns with the keys to find, in the order of those of the table; ``times``: times at which the rows
        are to be valid, in microseconds, where rows have such times.
        """
        code = lookup_code()
        hashes = pl.DataFrame({str(at): key for at, key in enumerate(keys)}).hash_rows(seed=self._seed).to_numpy()
        found: Rows = np.empty(len(hashes), dtype=np.int64)
        code.find_keys(hashes, self._each, self._starts, self._shift, found)
        if self._times is not None:
            numbers, found = found, np.empty_like(found)
            code.find_versions(numbers, times, self._first, self._times, found)
        elif len(self._each):
            found = np.where(found == NONE, NONE, self._first[found])
        if not self.rows.height:
            return found
        here, same = pl.Series(np.maximum(found, 0)), found != NONE
        for own, given in zip(self._keys, keys, strict=True):
            same &= (own.gather(here) == given).fill_null(value=False).to_numpy()
        return found if same.all() else np.where(same, found, NONE)

    def _collide(self, keys: Sequence[str]) -> bool:
        """Whether neighbours with the same hash have different keys."""
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if not len(same):
            return False
        some = self.rows.select(keys)
        differ = [some[same].get_column(key).ne_missing(some[same + 1].get_column(key)).any() for key in keys]
        return any(differ)


@implements("lookup")
class TableLookup(OperatorLogic):
    """Add the columns of the row of a table whose key equals columns of the tuple; NULL equals nothing.

    With ``valid_from`` the rows of a key are its versions: that one applies which is the latest at the event time.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        terms, keys = context.params["table"], context.params["on"]
        try:
            table = table_of(terms)
        except ValueError as error:
            raise ValueError(f"operator {context.id!r} (lookup): table: {error}") from None
        self._on = list(keys)
        self._left = context.params["how"] == "left"
        self._versions = context.params.get("valid_from")
        self._index = RowIndex(table, list(keys.values()), self._versions)
        self._added = [
            self._index.rows.get_column(theirs).alias(name) for theirs, name in new_columns(context.params).items()
        ]
        self._held = float(terms["bytes"] + terms["rows"] * INDEX_BYTES)
        self._added_bytes = sum(each.estimated_size() for each in self._added) / max(table.height, 1) + _ROW

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes of the table, which is no state as it never changes, and of the output."""
        return self._held + super().batch_needs(port, batch) + 3.0 * batch.rows * self._added_bytes

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows, with the columns of the table."""
        times: Any = table.get_column("time").cast(pl.Int64()).to_numpy() if self._versions is not None else None
        found = self._index.find([table.get_column(name) for name in self._on], times)
        known = found != NONE
        if not self._left and not known.all():
            table, found = selected(table, pl.Series(known)), found[known]
            known = known[known]
        if not self._added:
            return (table,)
        rows = pl.Series(found) if known.all() else pl.Series(found).set(pl.Series(~known), None)
        return (table.hstack([_gathered(column, rows) for column in self._added]),)


def _gathered(column: pl.Series, rows: pl.Series) -> pl.Series:
    """Values of some rows of a column; NULL where there is no row."""
    if not len(column):
        return pl.Series(column.name, [None] * len(rows), dtype=column.dtype)
    return column.gather(rows)
