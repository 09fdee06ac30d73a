"""Whole tuples as rows of 64-bit words, such that two tuples are equal exactly if their words are.

Each column is one word, and one bit for each column states whether it is NULL. Two NULLs are equal, as are two NaNs of
any bits, and 0.0 and -0.0 are equal; otherwise each replica's NaN would be a new tuple to a duplicate filter. Texts and
bytes are numbered in the order in which they are first seen; the numbers are valid in one :class:`TupleWords` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Words: TypeAlias = npt.NDArray[np.int64]
_NAN: Final = float("nan")
_NAN_BITS, _MINUS_ZERO = np.array([_NAN, -0.0]).view(np.int64)

_FEW: Final = 512  # number of texts up to which a loop is faster than Arrow's dictionary


_TEXTS: Final = (pl.String, pl.Binary)
_WRITTEN: Final = (pl.Decimal, pl.List, pl.Struct)  # types of values that 64 bits do not hold


class TupleWords:
    """Words of the tuples of one stream.

    Examples
    --------
    >>> table = pl.DataFrame({"time": [0, 0], "value": [0.0, -0.0]}, schema_overrides={"time": pl.Datetime("us")})
    >>> TupleWords(table.schema).words(table).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema  # names and types of the columns, one of which is `time`
        self.width = len(schema) + -(-len(schema) // 64)
        self.time = schema.names().index("time")
        self._names, self._kinds = schema.names(), schema.dtypes()
        self._numbers: dict[int, dict[object, int]] = {
            column: {} for column, kind in enumerate(self._kinds) if isinstance(kind, _TEXTS + _WRITTEN)
        }
        self._as_float = [kind == pl.Float64 for kind in self._kinds]

    @property
    def named(self) -> int:
        """Number of distinct texts and byte strings that have a number."""
        return sum(map(len, self._numbers.values()))

    def texts(self) -> list[pl.DataFrame]:
        """Return a table for each column of texts or bytes: its values in the order of their numbers."""
        kinds = [pl.Binary if kind == pl.Binary else pl.String for kind in self._kinds]
        return [pl.DataFrame({"value": pl.Series(list(each), dtype=kinds[at])}) for at, each in self._numbers.items()]

    def restore(self, texts: Sequence[pl.DataFrame]) -> None:
        """Give texts and bytes the numbers that they had where :meth:`texts` returned them."""
        for column, table in zip(self._numbers, texts, strict=True):
            self._numbers[column] = {value: number for number, value in enumerate(table.get_column("value").to_list())}

    def check(self, table: pl.DataFrame) -> None:
        """Raise ValueError if a table has other columns."""
        if table.columns != self._names or table.dtypes != self._kinds:
            raise ValueError(f"table: {dict(table.schema)}; expected the columns of the stream, {dict(self.schema)}")

    def words(self, table: pl.DataFrame) -> Words:
        """Return the words of all tuples of a table, shape (tuples, ``width``)."""
        found = np.zeros((table.height, self.width), dtype=np.int64)
        for column, series in enumerate(table.get_columns()):
            if series.null_count():
                nulls = series.is_null().to_numpy().astype(np.int64)
                found[:, len(self._kinds) + column // 64] |= nulls << column % 64
            if column in self._numbers:
                found[:, column] = self._numbered(column, series)
            elif self._as_float[column]:
                found[:, column] = _bits_of_floats(series)
            else:
                found[:, column] = _integers(series)
        return found

    def renumber(self, words: Words) -> None:
        """Forget the texts and bytes that do not occur in some words, and number the others anew in these words."""
        for column, numbers in self._numbers.items():
            used, words[:, column] = np.unique(words[:, column], return_inverse=True)
            values = list(numbers)
            self._numbers[column] = {values[number]: new for new, number in enumerate(used.tolist())}

    def _numbered(self, column: int, series: pl.Series) -> Words:
        numbers = self._numbers[column]
        if isinstance(series.dtype, _WRITTEN):
            series = _written(series)
        if series.null_count():
            series = series.fill_null("" if series.dtype == pl.String else b"")
        if series.len() <= _FEW:
            return np.array([numbers.setdefault(value, len(numbers)) for value in series.to_list()], dtype=np.int64)
        coded = series.to_arrow().dictionary_encode()
        local = [numbers.setdefault(value, len(numbers)) for value in coded.dictionary.to_pylist()]
        found: Words = np.array(local, dtype=np.int64).take(coded.indices.to_numpy())
        return found


def _written(series: pl.Series) -> pl.Series:
    """Texts that are equal where the values are."""
    if isinstance(series.dtype, pl.Decimal):
        return series.cast(pl.String)
    return pl.Series(series.name, [repr(value) for value in series.to_list()], dtype=pl.String)


def canonical(table: pl.DataFrame) -> pl.DataFrame:
    """Return the same tuples with one form of each value: 0.0 for -0.0, and one NaN for those of any bits.

    Equal tuples are then equal in their bytes, too, and no expression can tell them apart, such as one that casts a
    float to text.

    >>> canonical(pl.DataFrame({"value": [-0.0, 1.0]}))["value"].to_list()
    [0.0, 1.0]
    """
    odd = [pl.col(each.name) for each in table if each.dtype == pl.Float64 and _has_other_forms(each)]
    if not odd:
        return table
    return table.with_columns(
        pl.when(each == 0.0).then(0.0).when(each.is_nan()).then(_NAN).otherwise(each).alias(each.meta.output_name())
        for each in odd
    )


def _has_other_forms(series: pl.Series) -> bool:
    """Whether a column of floats has a zero with a sign or a NaN with other bits."""
    values = np.ascontiguousarray(series.to_numpy())  # NULL is an ordinary NaN here
    bits = values.view(np.int64)
    return bool(np.any((bits == _MINUS_ZERO) | (np.isnan(values) & (bits != _NAN_BITS))))


def _bits_of_floats(series: pl.Series) -> Words:
    values = (series.fill_null(0.0) if series.null_count() else series).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    found: Words = values.view(np.int64)
    return found


def _integers(series: pl.Series) -> Words:
    if series.dtype != pl.Int64:
        series = series.cast(pl.Int64)  # 1 µs a batch; to_physical() takes 30
    found: Words = (series.fill_null(0) if series.null_count() else series).to_numpy()
    return found
