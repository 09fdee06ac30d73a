"""Conversion to typed columns, and the count of malformed lines, for all formats of traces.

A trace is validated block by block. :func:`typed` converts the fields of one block and finds the rows that cannot be
converted; a :class:`Tally` adds up the blocks, so that at the end of the file it holds the numbers of the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES

__all__ = ["BASIC_DATES", "EXPECTED", "Bad", "Malformed", "Tally", "convert", "typed"]

EXPECTED: Final = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "time": "seconds as a finite number, or an ISO 8601 date and time (years 1 to 9999; divide milliseconds by 1000)",
}
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}
#: Seconds from 1970 to the years 1 and 10000; what lies beyond is mostly a number of milliseconds.
EARLIEST: Final = -62_135_596_800
FARTHEST: Final = 253_402_300_800
_BASIC: Final = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"  # a date of ISO 8601 without separators
BASIC_DATES: Final = (19_000_101, 20_991_231)  # these dates as numbers
# Times of one layout are parsed together, by a format: 10 ms for 50,000 rows, where trying all layouts takes 160 ms.
_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_CLOCK: Final = r"\d{2}:\d{2}:\d{2}"
_LAYOUTS: Final = tuple(
    (f"^{_DAY}{mark}{_CLOCK}{fraction}{zone}$", f"%Y-%m-%d{mark}%H:%M:%S{part}{zone}")
    for mark in (" ", "T")
    for zone in ("", "Z")
    for fraction, part in (("", ""), (r"\.\d{1,9}", "%.f"))
)
_TO_THE_MINUTE: Final = rf"^({_DAY} \d{{2}}:\d{{2}})($|[+-])"


class Malformed(msgspec.Struct, frozen=True):
    """The malformed lines of a trace.

    Parameters
    ----------
    count, rows
        Number of malformed lines, and of all lines with data.
    line, text
        Number (from 1) and text of the first malformed line; for Parquet the number of the row.
    field, value, expected
        Name of the invalid field of that line, its value, and what was expected.
    """

    count: int
    rows: int
    line: int
    text: str
    field: str
    value: str
    expected: str

    def __str__(self) -> str:
        value = self.value if len(self.value) <= 120 else self.value[:117] + "..."
        return f"line {self.line}: field {self.field!r}: {value!r}; expected {self.expected}"


class Tally:
    """Counter of the malformed lines of a trace, over its blocks in the order of the file.

    Attributes
    ----------
    rows
        Number of lines with data so far, including malformed ones.
    malformed
        Malformed lines among these; None if there are none.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._count = 0
        self._first: Malformed | None = None

    @property
    def malformed(self) -> Malformed | None:
        """Malformed lines so far."""
        if self._first is None:
            return None
        return msgspec.structs.replace(self._first, count=self._count, rows=self.rows)

    def add(self, rows: int, malformed: Malformed | None = None) -> None:
        """Count a block of ``rows`` lines with its malformed ones."""
        self.rows += rows
        if malformed is not None:
            self._count += malformed.count
            self._first = self._first or malformed


class Bad(NamedTuple):
    """Rows that cannot be converted: index of the first, its field, the field's value; indexes of all of them."""

    row: int
    field: str
    value: str
    where: pl.Series

    @property
    def rows(self) -> int:
        """Number of these rows."""
        return len(self.where)


def typed(raw: pl.DataFrame, kinds: Mapping[str, str], required: Sequence[str]) -> tuple[pl.DataFrame, Bad | None]:
    """Convert columns of ``raw`` to ``kinds``; omit rows that cannot be converted, and return facts about them.

    Parameters
    ----------
    raw
        Table with columns of text, or of the types of a Parquet file.
    kinds
        Columns to convert, with their types.
    required
        Columns in which an absent value is an error.
    """
    table = pl.DataFrame([convert(raw.get_column(name), kind).alias(name) for name, kind in kinds.items()])
    wrong = {}
    for name in kinds:
        nulls = table.get_column(name).null_count()
        if not nulls:
            continue
        column = raw.get_column(name)
        empty = column.is_null() if column.dtype != pl.String() else column.is_null() | (column == "")
        missing = table.get_column(name).is_null()
        wrong[name] = missing if name in required else missing & ~empty
    if not wrong:
        return table, None
    bad = pl.DataFrame(wrong).select(pl.any_horizontal(pl.all())).to_series()
    where = bad.arg_true()
    if where.is_empty():
        return table, None
    index = int(where[0])
    field = next(name for name in wrong if wrong[name][index])
    return table.filter(~bad), Bad(index, field, str(raw.get_column(field)[index]), where)


def convert(column: pl.Series, kind: str) -> pl.Series:
    """Convert ``column`` to ``kind``; null where a value cannot be converted."""
    if kind == "time":
        return _times(column)
    if column.dtype == TYPES[kind]:
        return column
    if isinstance(column.dtype, pl.String):
        text = column.str.strip_chars()
        if kind == "bool":
            return text.str.to_lowercase().replace_strict(_TRUTHS, default=None, return_dtype=pl.Boolean)
        if kind in ("int", "float"):
            return text.cast(TYPES[kind], strict=False)
    return _lossless(column, kind)


def _lossless(column: pl.Series, kind: str) -> pl.Series:
    """Convert a column of another type than text; null where the value would be another one."""
    dtype = column.dtype
    made = column.cast(TYPES[kind], strict=False)
    plain = dtype.is_numeric() or isinstance(dtype, pl.Boolean)
    if kind in ("int", "bool") and plain:
        return made.zip_with((made.cast(dtype, strict=False) == column).fill_null(value=False), made.clear(len(made)))
    if kind in ("int", "float", "bool") and not plain:
        return made.clear(len(made))
    return made


def _times(column: pl.Series) -> pl.Series:
    target = pl.Datetime("us")
    if isinstance(column.dtype, pl.Datetime):
        if column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(target)
    if isinstance(column.dtype, pl.Date):
        return column.cast(target)
    if isinstance(column.dtype, pl.Time | pl.Duration):
        return pl.Series(column.name, [None] * len(column), dtype=target)
    if not isinstance(column.dtype, pl.String):
        return _instants(column)
    text = column.str.strip_chars()
    for pattern, form in _LAYOUTS:
        if text.head(1).str.contains(pattern).any() and text.str.contains(pattern).all(ignore_nulls=False):
            return text.str.to_datetime(form, strict=False, time_unit="us")
    if text.str.contains(_BASIC).all(ignore_nulls=False):
        return text.str.to_datetime("%Y%m%d", strict=False, time_unit="us")
    found = _instants(text)
    if not found.null_count():
        return found
    return found.zip_with(found.is_not_null(), _dates(text))


def _instants(column: pl.Series) -> pl.Series:
    """Convert seconds since 1970 to times; null where there is no finite number."""
    frame = pl.DataFrame({"seconds": column.cast(pl.Float64, strict=False)})
    seconds = pl.col("seconds")
    known = pl.when((seconds >= EARLIEST) & (seconds < FARTHEST)).then(seconds)
    return frame.select((known * 1_000_000).round().cast(pl.Int64).cast(pl.Datetime("us"))).to_series()


def _dates(column: pl.Series) -> pl.Series:
    """Convert ISO 8601 dates and times, with and without time and zone, to times."""
    text = column.str.replace(f"^({_DAY})[Tt]", "$1 ").str.replace(r"[Zz]$", "").str.replace(_TO_THE_MINUTE, "$1:00$2")
    naive = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    zoned = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%#z", strict=False, time_unit="us").dt.replace_time_zone(None)
    return naive.zip_with(naive.is_not_null(), day.zip_with(day.is_not_null(), zoned))
