"""What a table of rows shows of a column: texts of its cells, a small chart with a few words, and an order of its rows.

All of it is made in the kernel: a page gets the texts of the rows around those on its screen, and draws them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_nb.plan.terms.units import amount
from synergy_nb.reporting.formatting import seconds
from synergy_nb.traces.times import readable

__all__ = ["BARS", "cells", "head_of", "order_of"]

BARS: Final = 24  # bars of a small chart
LONGEST: Final = 500  # most characters of a cell
WHOLE: Final = 1e16  # from this number on, a number has an exponent


def cells(values: pl.Series) -> list[str | None]:
    """Return the values of a column as texts for people; None for those that are missing."""
    kind = values.dtype
    if kind.is_float() or kind.is_decimal():
        return [None if each is None else _number(each) for each in values.cast(pl.Float64).to_list()]
    if isinstance(kind, pl.Duration):
        lengths = values.cast(pl.Duration("us")).to_physical().to_list()
        return [None if each is None else seconds(each / 1e6) for each in lengths]
    texts = _worded(values).to_list()
    if isinstance(kind, pl.Datetime | pl.Time):
        return [None if each is None else _without_zeros(each) for each in texts]
    return [each if each is None or len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in texts]


def head_of(values: pl.Series, line: pl.Series | None = None) -> dict[str, Any]:
    """Return what the head of a column shows: its name, its kind, bars or the values of a line, and a few words.

    The bars are a histogram of numbers and times, or how often the most frequent ones of all other values occur;
    ``line``: earlier values, shown in their place.
    """
    empty = values.null_count()
    head: dict[str, Any] = {"name": values.name}
    if _is_ordinal(values.dtype):
        known = values.drop_nulls()
        finite = known.filter(known.is_finite()) if known.dtype.is_float() else known
        ends = cells(pl.Series([finite.min(), finite.max()], dtype=finite.dtype)) if len(finite) else []
        head |= {"kind": "number", "bars": _histogram(finite.to_physical().cast(pl.Float64).to_numpy())}
        words = " to ".join(str(each) for each in dict.fromkeys(ends))
    else:
        often = _times(_comparable(values).drop_nulls())
        head |= {"kind": "text", "bars": [int(each) for each in often[:BARS]]}
        words = f"{amount(len(often))} different"
    if line is not None:
        head["line"] = [None if each is None or not np.isfinite(each) else each for each in line.cast(pl.Float64)]
    head["about"] = ", ".join(filter(None, (words, f"{amount(empty)} empty" if empty else "")))
    return head


def order_of(values: pl.Series, *, descending: bool) -> pl.Series:
    """Return the places of the rows in the order of a column, those without a value last.

    Rows of the same value stay in their order.
    """
    compared = _comparable(values).alias("")
    if compared.dtype.is_float():
        compared = compared.fill_nan(None)
    by = pl.arg_sort_by("", descending=descending, nulls_last=True, maintain_order=True)
    return compared.to_frame().select(by).to_series()


def _is_ordinal(kind: pl.DataType) -> bool:
    """Whether values are shown as numbers or times."""
    return kind.is_numeric() or kind.is_temporal()


def _comparable(values: pl.Series) -> pl.Series:
    """The values of a column, or their texts if these are what is compared."""
    kind = values.dtype
    return values if _is_ordinal(kind) or kind in (pl.Boolean, pl.String) else _worded(values)


def _worded(values: pl.Series) -> pl.Series:
    """The values of a column as texts."""
    kind = values.dtype
    if kind == pl.String:
        return values
    if kind == pl.Binary:
        return values.bin.encode("hex")
    if isinstance(kind, pl.List | pl.Array | pl.Struct | pl.Object):
        return pl.Series(values.name, [None if each is None else str(each) for each in values.to_list()], pl.String)
    if kind == pl.Time:
        return values.dt.to_string("%H:%M:%S%.f")
    if isinstance(kind, pl.Datetime) and kind.time_zone:
        values = values.dt.replace_time_zone(None)
    return readable(values.to_frame()).to_series().cast(pl.String)


def _number(value: float) -> str:
    """A number with six significant digits.

    >>> _number(0.1 + 0.2), _number(12345678.9), _number(1e-7), _number(-3.0), _number(2e20), _number(float("inf"))
    ('0.3', '12345700', '1e-7', '-3', '2e20', '∞')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0.0 else "-∞"
    rounded = float(f"{value:.6g}")
    if rounded.is_integer() and abs(rounded) < WHOLE:
        return str(int(rounded))
    return repr(rounded).replace("e-0", "e-").replace("e+", "e")


def _without_zeros(time: str) -> str:
    """A time without zeros at its end."""
    return time.rstrip("0").rstrip(".") if "." in time else time


def _times(values: pl.Series) -> np.ndarray[Any, Any]:
    """How often each value occurs, the most frequent first.

    By the hashes of the values, which takes a third of the time of counting the values themselves.
    """
    return np.sort(np.unique(values.hash().to_numpy(), return_counts=True)[1])[::-1]


def _histogram(values: np.ndarray[Any, Any]) -> list[int]:
    """Number of values in each of equal parts of their range."""
    if not len(values):
        return []
    low, high = values.min() / 2, values.max() / 2  # half of each, as the whole range may be no number
    if low == high:
        return [len(values)]
    counts = np.bincount(((values / 2 - low) / (high - low) * BARS).astype(np.int8), minlength=BARS + 1)
    counts[BARS - 1] += counts[BARS]  # the largest
    return [int(each) for each in counts[:BARS]]
