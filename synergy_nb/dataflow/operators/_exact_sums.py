"""Exact sums of floats: the same in any order, however the terms were divided, and rounded once.

A float is an integer times a power of two. Its integer, shifted to a multiple of 32 bits, is three limbs of about 32
bits; the *scale* says of which power of 2**32 the lowest one is a multiple. Limbs of equal scale are summed as
integers, without rounding, so in any order: that is a small form of a superaccumulator [1]_ for each group, of which
only scales that occur have a row. Values between 6e-5 and 2e5 have one scale, so a group mostly has one row. The sum of
all limbs is rounded to the nearest float at the end, with ties to even, as :func:`math.fsum` does.

So replicas that read their inputs in different orders emit the same bytes.

.. [1] R. M. Neal. Fast exact summation using small and large superaccumulators. arXiv:1505.05571, 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_nb.dataflow.operators.base import computed
from synergy_nb.dataflow.operators.exact_code import ODD, sum_code
from synergy_nb.plan.terms.naming import internal

_SCALE: Final = internal("scale")
_LIMBS: Final = tuple(internal(word) for word in ("low", "middle", "high"))
#: Columns of the limbs of sums, with their types, beside the columns that identify a group.
COLUMNS: Final = {_SCALE: "int", **dict.fromkeys(_LIMBS, "int")}
SPLITTING: Final = 80.0  # memory that splitting floats needs, bytes for each byte of them
_DIGIT: Final = 1 << 32
SPLITTER: Final = 2.0**27 + 1.0  # cuts a float into two of half as many digits


def split(terms: pl.DataFrame, term: str, keys: Sequence[str]) -> pl.DataFrame:
    """Return the limbs of the sum of a column by ``keys``; NULLs are left out."""
    if terms.get_column(term).null_count():
        terms = terms.drop_nulls(term)
    limbs = terms.select(keys).hstack(_limbs(terms.get_column(term)))
    return computed(limbs.lazy().group_by(*keys, _SCALE).agg(pl.col(_LIMBS).sum()), limbs.height)


def merged_limbs(limbs: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Add the limbs of equal ``keys`` and scale, and carry, so that limbs never overflow."""
    low, middle, high = map(pl.col, _LIMBS)
    summed = limbs.group_by(*keys, _SCALE).agg(pl.col(_LIMBS).sum())
    for lower, upper in ((low, middle), (middle, high)):
        carry = pl.when(pl.col(_SCALE) != ODD).then(lower // _DIGIT).otherwise(0)
        summed = summed.with_columns(lower - carry * _DIGIT, upper + carry)
    return summed


def rounded(limbs: pl.LazyFrame, keys: Sequence[str], name: str, rows: int) -> pl.DataFrame:
    """Return the sum of each of ``keys`` as a float, in the column ``name``.

    ``limbs``: limbs by ``keys`` and scale; there may be several for one scale; ``keys``: columns that identify a group;
    ``rows``: number of rows of ``limbs``.
    """
    found, ends, parts = _groups(limbs, keys, rows)
    sums = _sums(ends, parts)
    return found.hstack([pl.Series(name, sums, dtype=pl.Float64)])


def deviations(
    numbers: pl.DataFrame, number: str, totals: pl.DataFrame, squares: pl.DataFrame, keys: Sequence[str], name: str
) -> pl.DataFrame:
    """Return the sum of the squared deviations from the mean for each of ``keys``, in the column ``name``.

    The difference of two large sums is that of pairs of floats, of twice as many digits: the nearest float, and the one
    nearest to what it lacks. ``numbers``: how many values each of ``keys`` has, in the column ``number``; ``totals``,
    ``squares``: limbs of the sums of the values and of their squares.
    """
    found = numbers
    columns = [f"{name} {each}" for each in ("total", "rest of total", "squares", "rest of squares")]
    for limbs, near, lacking in zip((totals, squares), columns[::2], columns[1::2], strict=True):
        groups, ends, parts = _groups(limbs.lazy(), keys, limbs.height)
        sums = _sums(ends, parts)
        less = [np.insert(part, ends, each) for part, each in zip(parts, _split(-sums), strict=True)]
        rests = _sums(ends + np.arange(1, len(ends) + 1), less)
        pair = groups.hstack([pl.Series(near, sums), pl.Series(lacking, rests)])
        found = found.join(pair, on=list(keys), how="left", nulls_equal=True)
    total, rest, square, more = (each.to_numpy() for each in found.select(pl.col(columns).fill_null(0.0)))
    sums = _deviations(found.get_column(number).to_numpy().astype(np.float64), total, rest, square, more)
    return found.select(keys).hstack([pl.Series(name, sums, dtype=pl.Float64)])


def _deviations(number: Any, total: Any, rest: Any, square: Any, more: Any) -> Any:
    """Compute (n * squares - total ** 2) / n of pairs of floats; NaN where a value is no number."""
    with np.errstate(all="ignore"):
        scale = -((np.frexp(square)[1] + np.frexp(number)[1]) // 2 + 1)  # the total's square is at most n * squares
        total, rest = np.ldexp(total, scale), np.ldexp(rest, scale)
        scaled, more = np.ldexp(square, 2 * scale), np.ldexp(more, 2 * scale)
        all_squares, lost = _product(number, scaled)
        of_total, lost_total = _product(total, total)
        apart = all_squares - of_total
        turned = apart - all_squares
        left = (all_squares - (apart - turned)) - (of_total + turned)  # what the difference has lost
        sums = np.ldexp(
            (apart + (left + (lost + number * more) - (lost_total + 2.0 * total * rest))) / number, -2 * scale
        )
    sums = np.where(np.isinf(square), np.inf, np.maximum(sums, 0.0))
    return np.where(np.isfinite(total), sums, np.nan)


def _product(one: Any, other: Any) -> tuple[Any, Any]:
    """Multiply floats: the product, and what it has lost (Dekker)."""
    product = one * other
    (high, low), (top, rest) = ((upper := x * SPLITTER - (x * SPLITTER - x), x - upper) for x in (one, other))
    return product, ((high * top - product) + high * rest + low * top) + low * rest


def _groups(limbs: pl.LazyFrame, keys: Sequence[str], rows: int) -> tuple[pl.DataFrame, Any, list[Any]]:
    """Return the different keys, where the rows of each end, and scale and limbs of the rows, one key after another."""
    found = computed(limbs.group_by(keys).agg(_SCALE, *_LIMBS), rows)
    ends = found.select(pl.col(_SCALE).list.len().cast(pl.Int64).cum_sum()).to_series().to_numpy()
    parts = [np.ascontiguousarray(each.to_numpy()) for each in found.select(pl.col(*COLUMNS).explode())]
    return found.select(keys), np.ascontiguousarray(ends), parts


def _sums(ends: Any, parts: Sequence[Any]) -> Any:
    """Return the float nearest to the sum of each group's limbs."""
    sums = np.zeros(len(ends), dtype=np.int64)
    if len(ends):
        scale, low, middle, high = parts
        sum_code().round_all(ends, scale, low, middle, high, sums)
    return sums.view(np.float64)


def _split(floats: Any) -> list[Any]:
    """Return scale and limbs of each float."""
    bits = np.ascontiguousarray(floats).view(np.int64)
    scale, low, middle, high = found = [np.empty(len(bits), dtype=np.int64) for _ in COLUMNS]
    sum_code().split_all(bits, scale, low, middle, high)
    return found


def _limbs(values: pl.Series) -> list[pl.Series]:
    """Return scale and limbs of each float, as columns."""
    return [pl.Series(name, each) for name, each in zip(COLUMNS, _split(values.to_numpy()), strict=True)]
