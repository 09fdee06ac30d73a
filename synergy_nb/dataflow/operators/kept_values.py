"""What aggregates keep of the rows of a group beside partial results: values, their copies, texts, one end, registers.

Each is a table of rows by the keys of a group. Rows of two tables are merged by concatenating them and merging what is
equal, so a window's table is that of its panes; what it says does not depend on how the rows came. ``finish`` makes the
results of calls of it, and groups without a row have none.

Approximate numbers are those of HyperLogLog [1]_: a register has the longest run of zeros that hashes of its values
begin with. They are integers up to the last step, so they are the same in any order, and on Spark.

.. [1] P. Flajolet, E. Fusy, O. Gandouet, F. Meunier. HyperLogLog: the analysis of a near-optimal cardinality estimation
   algorithm. AofA 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import numpy as np
import polars as pl

from synergy_nb.dataflow.operators.rows import splitmix64
from synergy_nb.plan.terms.naming import internal
from synergy_nb.plan.terms.units import ratio_of

__all__ = [
    "POSITION",
    "CountedValues",
    "DifferentValues",
    "EndValue",
    "EstimatedNumber",
    "JoinedTexts",
    "KeptValues",
    "share_of",
]

MEMBER: Final = internal("member")
POSITION: Final = internal("position")  # of a row in the input, so that the order of arrival is known later
_COPIES: Final = internal("copies")
_TIME: Final = internal("time")
_REGISTER: Final = internal("register")
_RUN: Final = internal("run")
REGISTERS: Final = 4096
LONGEST_RUN: Final = 49  # so that 64 bits hold the sum of 2**(49 - run) over all registers
#: Square of the number of registers by the constant of their mean (Flajolet et al., figure 3).
SCALE: Final = 0.7213 / (1.0 + 1.079 / REGISTERS) * REGISTERS**2 * 2.0**LONGEST_RUN


def share_of(fraction: float, number: pl.Expr, *, up: bool = False) -> pl.Expr:
    """Return the fraction of a number of rows, rounded down or up exactly."""
    part, whole = (pl.lit(each, dtype=pl.Int128) for each in ratio_of(fraction))
    product = number.cast(pl.Int128) * part
    return ((product + (whole - 1) if up else product) // whole).cast(pl.Int64)


class KeptValues:
    """A table of the values of one column: here each value once, for ``count(distinct x)``."""

    ordered = False  # whether rows need their positions

    def __init__(self, column: str, kind: str) -> None:
        self._value = pl.col(column)
        if kind == "float":
            self._value = self._value + 0.0  # 0.0 and -0.0 are equal: one of them is kept
        self.columns = {MEMBER: kind}  # beside the keys of a group
        self.results: dict[str, pl.Expr] = {}  # column of a result to its aggregation of a group's rows

    def reduce(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the table of rows that have the column."""
        return self.merge(rows.filter(self._value.is_not_null()).select(*keys, self._value.alias(MEMBER)), keys)

    def merge(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Merge rows that are equal."""
        return rows.unique()

    def finish(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the results of merged rows."""
        return rows.group_by(keys).agg(result.alias(name) for name, result in self.results.items())


class DifferentValues(KeptValues):
    """The different values."""

    def count(self, name: str) -> None:
        """Have their number as a result."""
        self.results[name] = pl.len().cast(pl.Int64)


class CountedValues(KeptValues):
    """The different values, each with how often it occurs, for quantiles."""

    def __init__(self, column: str, kind: str) -> None:
        super().__init__(column, kind)
        self.columns |= {_COPIES: "int"}
        self._number = pl.col(_COPIES).sum()
        self._until = pl.col(_COPIES).cum_sum()  # number of values that are no greater

    def reduce(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        rows = rows.filter(self._value.is_not_null()).select(*keys, self._value.alias(MEMBER))
        return rows.group_by(*keys, MEMBER).agg(pl.len().cast(pl.Int64).alias(_COPIES))

    def merge(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        return rows.group_by(*keys, MEMBER).agg(pl.col(_COPIES).sum())

    def quantile(self, name: str, fraction: float, *, between: bool) -> None:
        """Have a quantile as a result: one of the values, or interpolated ``between`` two of them."""
        if not between:
            rank = share_of(fraction, self._number, up=True)
            self.results[name] = self._at(pl.max_horizontal(rank, pl.lit(1)))
            return
        place = fraction * (self._number - 1).cast(pl.Float64)
        below = place.floor()
        least, rest = self._at(below.cast(pl.Int64) + 1).cast(pl.Float64), place - below
        more = self._at(place.ceil().cast(pl.Int64) + 1).cast(pl.Float64)
        self.results[name] = pl.when(rest == 0.0).then(least).otherwise(least * (1.0 - rest) + more * rest)

    def _at(self, rank: pl.Expr) -> pl.Expr:
        """Return the value of a rank, from 1."""
        return pl.col(MEMBER).get((self._until < rank).sum())

    def finish(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        results = [result.alias(name) for name, result in self.results.items()]
        return rows.sort(MEMBER).group_by(keys, maintain_order=True).agg(results)


class JoinedTexts(KeptValues):
    """All texts with their positions, for ``string_agg``."""

    ordered = True

    def __init__(self, column: str, kind: str) -> None:
        super().__init__(column, kind)
        self.columns |= {POSITION: "int"}

    def reduce(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        return rows.filter(self._value.is_not_null()).select(*keys, self._value.alias(MEMBER), POSITION)

    def merge(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        return rows

    def joined(self, name: str, separator: str) -> None:
        """Have the texts in order of arrival, with a separator between them, as a result."""
        self.results[name] = pl.col(MEMBER).sort_by(POSITION).str.join(separator)


class EndValue(KeptValues):
    """The first or the last row by event time; of equal times, by arrival. Its value may be NULL."""

    ordered = True

    def __init__(self, column: str, kind: str, *, last: bool) -> None:
        super().__init__(column, kind)
        self._value = pl.col(column)
        self._last = last
        self.columns |= {_TIME: "int", POSITION: "int"}

    def reduce(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        time = pl.col("time").cast(pl.Int64).alias(_TIME)
        return self.merge(rows.select(*keys, self._value.alias(MEMBER), time, POSITION), keys)

    def merge(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        ordered = rows.sort(_TIME, POSITION)
        return ordered.unique(list(keys), keep="last" if self._last else "first", maintain_order=True)

    def value(self, name: str) -> None:
        """Have its value as a result."""
        self.results[name] = pl.col(MEMBER).first()


class EstimatedNumber(KeptValues):
    """The registers that estimate the number of different values."""

    def __init__(self, column: str, kind: str) -> None:
        super().__init__(column, kind)
        self.columns = {_REGISTER: "int", _RUN: "int"}

    def reduce(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        values = rows.filter(self._value.is_not_null()).select(*keys, self._value.alias(MEMBER)).unique()
        bits = pl.col(MEMBER).map_batches(_hashed, return_dtype=pl.Int64)
        found = values.select(*keys, bits.alias(_REGISTER))
        found = found.select(*keys, pl.col(_REGISTER) // 64, (pl.col(_REGISTER) % 64).alias(_RUN))
        return self.merge(found, keys)

    def merge(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """See :class:`KeptValues`."""
        return rows.group_by(*keys, _REGISTER).agg(pl.col(_RUN).max())

    def estimate(self, name: str) -> None:
        """Have the estimate as a result."""
        empty = REGISTERS - pl.len().cast(pl.Int64)
        total = pl.lit(2, pl.Int64).pow(LONGEST_RUN - pl.col(_RUN)).sum() + empty * 2**LONGEST_RUN
        raw = SCALE / total.cast(pl.Float64)
        few = REGISTERS * (float(REGISTERS) / empty.cast(pl.Float64)).log()
        number = pl.when((raw <= 2.5 * REGISTERS) & (empty > 0)).then(few).otherwise(raw)
        self.results[name] = number.round().cast(pl.Int64)


def _hashed(values: pl.Series) -> pl.Series:
    """Return 64 times the register of each value, plus its run."""
    if isinstance(values.dtype, pl.Decimal):  # 64 bits may not hold it
        values = values.cast(pl.String)
    if values.dtype in (pl.String, pl.Binary):
        numbers = np.fromiter(map(crc32, values.cast(pl.Binary)), dtype=np.uint64, count=values.len())
    else:
        exact = values if values.dtype.is_float() else values.cast(pl.Int64)
        numbers = exact.to_numpy().view(np.uint64)
    hashes = splitmix64(numbers)
    rest = (hashes & np.uint64(2**52 - 1)).astype(np.float64)  # exactly
    run = np.minimum(53 - np.frexp(rest)[1], LONGEST_RUN)
    return pl.Series((hashes >> np.uint64(52)).astype(np.int64) * 64 + run)
