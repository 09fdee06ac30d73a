"""Columns of a table for a page: numbers as they are, all else as places in a sorted list of texts, in binary.

A page draws, sorts and scrolls a hundred thousand rows without a kernel, so it gets the columns as typed arrays: a
place in a sorted list of texts sorts as a number does. Only texts that are on the screen are ever decoded. Each column
also has what its head shows: a small chart, and a few words.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from synergy_nb.traces.times import readable

__all__ = ["BARS", "PackedColumn", "packed", "worded"]

BARS: Final = 24  # bars of a small chart
LONGEST: Final = 500  # most characters of a text that a page gets
EXACT: Final = 2**53  # JavaScript has all integers up to this one
_ARRAYS: Final[tuple[tuple[str, np.dtype[Any]], ...]] = (
    ("i1", np.dtype(np.int8)),
    ("i2", np.dtype(np.int16)),
    ("i4", np.dtype(np.int32)),
)


class PackedColumn(NamedTuple):
    """One column for a page."""

    head: dict[str, Any]  # its name, its kind, the arrays that follow, and the small chart with its words
    arrays: list[bytes]  # values; of texts also their ends in bytes, and the texts; whether each is empty, if any is


def packed(values: pl.Series, line: pl.Series | None = None) -> PackedColumn:
    """Pack a column; its chart is a histogram, or a ``line`` of earlier values."""
    kind, numbers = _numbers(values)
    if numbers is None:
        return _texts(values)
    empty = values.is_null().to_numpy()
    dense = numbers.fill_null(0).to_numpy()
    name: str = "f8"
    array: np.dtype[Any] = np.dtype(np.float64)
    if values.dtype.is_integer() or kind == "date":
        low, high = (int(dense.min()), int(dense.max())) if len(dense) else (0, 0)
        fits = (each for each in _ARRAYS if np.iinfo(each[1]).min <= low and high <= np.iinfo(each[1]).max)
        name, array = next(fits, (name, array))
    elif values.dtype == pl.Float32:
        name, array = "f4", np.dtype(np.float32)
    shown = dense[~empty].astype(np.float64)
    finite = shown[np.isfinite(shown)]
    head: dict[str, Any] = {"name": values.name, "kind": kind, "array": name, "bars": _histogram(finite)}
    if len(finite):
        head["low"], head["high"] = float(finite.min()), float(finite.max())
    if line is not None:
        head["line"] = [None if each is None or not np.isfinite(each) else each for each in line.cast(pl.Float64)]
    return _with_empty(head, [dense.astype(array).tobytes()], empty)


def _numbers(values: pl.Series) -> tuple[str, pl.Series | None]:
    """The kind of a column that is shown as numbers or times, and these numbers; None for texts."""
    kind = values.dtype
    if kind.is_integer():
        low: Any = values.min()
        high: Any = values.max()
        return "integer", values if low is None or (low >= -EXACT and high <= EXACT) else None
    if kind.is_float():
        return "number", values
    if kind.is_decimal():
        return "number", values.cast(pl.Float64)
    if isinstance(kind, pl.Datetime):
        local = values.dt.replace_time_zone(None) if kind.time_zone else values
        return "time", _microseconds(local, kind.time_unit)
    if isinstance(kind, pl.Duration):
        return "span", _microseconds(values, kind.time_unit)
    if kind == pl.Date:
        return "date", values.to_physical()
    if kind == pl.Time:
        return "clock", values.to_physical() // 1000
    return "text", None


def _microseconds(values: pl.Series, unit: str) -> pl.Series:
    physical = values.to_physical()
    return physical * 1000 if unit == "ms" else physical // 1000 if unit == "ns" else physical


def _texts(values: pl.Series) -> PackedColumn:
    """A column of anything else: places in the sorted list of its texts."""
    orderable = values.dtype.is_integer() or values.dtype in (pl.Boolean, pl.String)
    order = values if orderable else worded(values)
    rank = order.rank("dense")
    distinct = order.drop_nulls().unique().sort()
    words = _cut(worded(distinct))
    empty = rank.is_null().to_numpy()
    codes = (rank.cast(pl.Int64) - 1).fill_null(0).to_numpy()
    name, array = next(each for each in _ARRAYS if len(words) <= np.iinfo(each[1]).max)
    ends = words.str.len_bytes().cum_sum().cast(pl.Int32).to_numpy()
    often = np.sort(np.bincount(codes[~empty], minlength=1))[::-1]
    head = {"name": values.name, "kind": "text", "array": name, "words": len(words), "bars": often[:BARS].tolist()}
    head["longest"] = int(words.str.len_chars().max() or 0)  # type: ignore[arg-type]
    return _with_empty(head, [codes.astype(array).tobytes(), ends.tobytes(), words.str.join("").item().encode()], empty)


def _with_empty(head: dict[str, Any], arrays: list[bytes], empty: np.ndarray[Any, Any]) -> PackedColumn:
    """Add which values are empty, if any are."""
    head["empty"] = int(empty.sum())
    return PackedColumn(head, [*arrays, empty.astype(np.uint8).tobytes()] if head["empty"] else arrays)


def worded(values: pl.Series) -> pl.Series:
    """The values of a column as texts for people."""
    if values.dtype == pl.String:
        return values
    if values.dtype == pl.Binary:
        return values.bin.encode("hex")
    if isinstance(values.dtype, pl.List | pl.Array | pl.Struct | pl.Object):
        return pl.Series(values.name, [None if each is None else str(each) for each in values.to_list()], pl.String)
    return readable(values.to_frame()).to_series().cast(pl.String)


def _cut(words: pl.Series) -> pl.Series:
    """Texts without what no cell shows."""
    if not len(words) or int(words.str.len_chars().max() or 0) <= LONGEST:  # type: ignore[arg-type]
        return words
    long = words.str.len_chars() > LONGEST
    return words.to_frame("w").select(
        pl.when(long).then(pl.col("w").str.slice(0, LONGEST) + "…").otherwise(pl.col("w"))
    )["w"]  # fmt: skip


def _histogram(values: np.ndarray[Any, Any]) -> list[int]:
    """Number of values in each of equal parts of their range."""
    if not len(values):
        return []
    low, high = values.min(), values.max()
    if low == high:
        return [len(values)]
    with np.errstate(over="ignore"):
        share = (values / 2 - low / 2) / (high / 2 - low / 2)  # half of each, as the whole range may be no number
    places = np.clip((share * BARS).astype(np.int64), 0, BARS - 1)
    return [int(each) for each in np.bincount(places, minlength=BARS)]
