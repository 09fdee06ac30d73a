"""Conversion to typed columns, and the count of malformed lines, for all formats of traces.

A trace is validated block by block. :func:`typed` converts the fields of one block and finds the rows that cannot be
converted; a :class:`Tally` adds up the blocks, so that at the end of the file it holds the numbers of the whole file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.terms.column_types import PLAIN, digits_of, family
from synergy_nb.traces.times import expected_time, implausible, in_years, plausible, times

_EXPECTED: Final = {
    "int": "an integer of 64 bits",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "bytes": "bytes",
    "date": "a date, such as 2026-01-31, without a time within the day",
    "duration": "a duration, as HH:MM:SS or seconds",
    "decimal": "a number of at most {} digits, of which at most {} are behind the point",
}
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


class Malformed(msgspec.Struct, frozen=True):
    """The malformed lines of a trace."""

    # count, rows: number of malformed lines, and of all lines with data
    count: int
    rows: int
    # line, text: number (from 1) and text of the first malformed line; for Parquet the number of the row
    line: int
    text: str
    # field, value, expected: name of the invalid field of that line, its value, and what was expected
    field: str
    value: str
    expected: str

    def __str__(self) -> str:
        value = self.value if len(self.value) <= 120 else self.value[:117] + "..."
        return f"line {self.line}: field {self.field!r}: {value!r}; expected {self.expected}"


class Tally:
    """Counter of the malformed lines of a trace, over its blocks in the order of the file.

    ``kept``: how many malformed lines, the first ones, are described each in ``lines``.
    """

    def __init__(self, kept: int = 0) -> None:
        self.rows = 0  # number of lines with data so far, including malformed ones
        self.doubt = ""  # sentence about the first implausible event time, see implausible; empty if there is none
        self.lines: list[Malformed] = []
        self._kept = kept
        self._count = 0
        self._first: Malformed | None = None

    @property
    def malformed(self) -> Malformed | None:
        """Malformed lines so far."""
        if self._first is None:
            return None
        return msgspec.structs.replace(self._first, count=self._count, rows=self.rows)

    def add(
        self, rows: int, malformed: Malformed | None = None, doubt: str = "", lines: Iterable[Malformed] = ()
    ) -> None:
        """Count a block of ``rows`` lines with its malformed ones; ``lines``: each of these, taken as far as kept."""
        self.rows += rows
        self.doubt = self.doubt or doubt
        if malformed is not None:
            self._count += malformed.count
            self._first = self._first or malformed
            self.lines += islice([malformed] if malformed.count == 1 else lines, self._kept - len(self.lines))


class Bad(NamedTuple):
    """Rows that cannot be converted: index of the first, its field, the field's value and what was expected; indexes of
    all of them.
    """

    row: int
    field: str
    value: str
    expected: str
    where: pl.Series

    @property
    def rows(self) -> int:
        """Number of these rows."""
        return len(self.where)


def exactly(table: pl.DataFrame, names: Iterable[str], clock: str = "time") -> pl.DataFrame:
    """Select columns by their names as they are, in this order; ``clock`` is called ``time`` in the result.

    In an expression, Polars would read a name such as ``*`` or ``^x$`` as a pattern.
    """
    return pl.DataFrame({name: table.get_column(clock if name == "time" else name) for name in names})


def typed(
    raw: pl.DataFrame, kinds: Mapping[str, str], required: Sequence[str], unit: str | None = None
) -> tuple[pl.DataFrame, Bad | None]:
    """Convert columns of ``raw`` to ``kinds``; omit rows that cannot be converted, and return facts about them.

    ``raw``: table with columns of text, or of the types of a Parquet file; ``kinds``: columns to convert, with their
    types; ``required``: columns in which an absent value is an error; ``unit``: unit of times that are numbers, see
    :func:`synergy_nb.traces.times.times`.
    """
    table = pl.DataFrame({name: convert(raw.get_column(name), kind, unit) for name, kind in kinds.items()})
    wrong = {}
    for name in kinds:
        nulls = table.get_column(name).null_count()
        if not nulls:
            continue
        column = raw.get_column(name).alias("")
        empty = column.is_null() if column.dtype != pl.String() else column.is_null() | (column == "")
        missing = table.get_column(name).alias("").is_null()
        wrong[name] = missing if name in required else missing & ~empty
    if not wrong:
        return table, None
    bad = pl.DataFrame(wrong).select(pl.any_horizontal(pl.all())).to_series().alias("")  # a name may be a pattern
    where = bad.arg_true()
    if where.is_empty():
        return table, None
    index = int(where[0])
    field = next(name for name in wrong if wrong[name][index])
    value = value_at(raw.get_column(field).alias(""), index)
    return table.filter(~bad), Bad(index, field, str(value), expected(kinds[field], value, unit), where)


def each_bad(
    raw: pl.DataFrame, where: Iterable[int], kinds: Mapping[str, str], required: Sequence[str], unit: str | None
) -> Iterator[tuple[int, Bad]]:
    """Yield the place of each row that :func:`typed` has omitted, ``where``, with what is wrong with it."""
    for place in where:
        bad = typed(raw.slice(place, 1), kinds, required, unit)[1]
        assert bad is not None
        yield place, bad


def doubt_of(raw: pl.DataFrame, table: pl.DataFrame, bad: Bad | None, clock: str) -> str:
    """Return a sentence about an implausible event time of a block, see :func:`synergy_nb.traces.times.implausible`.

    ``raw``, ``table``, ``bad``: table, and what :func:`typed` has made of it, without a stated unit of times;
    ``clock``: column with the event time.
    """
    made, column = table.get_column(clock).alias(""), raw.get_column(clock).alias("")
    if plausible(made):
        return ""
    if bad is not None:
        column = column.filter(~pl.int_range(len(column), eager=True).is_in(bad.where))
    return implausible(column, made)


def value_at(column: pl.Series, row: int) -> Any:
    """Value of a column for a message; a time outside of Python's range is given as its number."""
    number = column.to_physical()[row]
    if isinstance(column.dtype, pl.Duration):
        return f"{number} {column.dtype.time_unit}"
    if isinstance(column.dtype, pl.Datetime | pl.Date) and in_years(column.slice(row, 1)).has_nulls():
        unit = "days" if isinstance(column.dtype, pl.Date) else column.dtype.time_unit
        return f"{number} {unit} since 1970"
    value = column[row]
    return value.to_list() if isinstance(value, pl.Series) else value


def expected(kind: str, value: Any, unit: str | None = None) -> str:
    """Text that says what was expected instead of a value that does not have a type."""
    if kind == "time":
        return expected_time(value, unit)
    if kind == "float" and isinstance(value, int | Decimal):
        return "a number that a float has exactly, of 53 bits; as int or str it keeps its digits"
    return _EXPECTED[family(kind)].format(*digits_of(kind)) if family(kind) in PLAIN else f"a value of type {kind}"


def convert(column: pl.Series, kind: str, unit: str | None = None) -> pl.Series:
    """Convert ``column`` to ``kind``; null where a value cannot be converted without loss.

    A number becomes the nearest float that has its digits: 1.10 of a decimal column does, 2^53 + 1 does not. The result
    has no name.
    """
    column = column.alias("")  # Polars executes much as an expression of the name, which may be a pattern
    if kind == "time":
        return times(column, unit)
    if column.dtype == TYPES[kind]:
        return column
    if isinstance(column.dtype, pl.String):
        text = column.str.strip_chars()
        if kind == "bool":
            return text.str.to_lowercase().replace_strict(_TRUTHS, default=None, return_dtype=pl.Boolean)
        if kind in ("int", "float"):
            return text.cast(TYPES[kind], strict=False)
        if kind == "date":
            return in_years(_where(text, r"^\d{4}-\d\d-\d\d$").str.to_date("%Y-%m-%d", strict=False))
        if kind == "duration":
            return _durations(text)
        if family(kind) == "decimal":
            exact = rf"^[+-]?\d*(?:\.\d{{0,{digits_of(kind)[1]}}}0*)?$"
            return _where(text, exact).cast(TYPES[kind], strict=False)
    if kind == "duration" and column.dtype.is_numeric():
        return _seconds(column)
    if family(kind) not in PLAIN:
        return _nested(column, kind)
    return _lossless(column, kind)


def _nested(column: pl.Series, kind: str) -> pl.Series:
    """Convert lists or structs; null where the conversion would change a part."""
    nothing = pl.Series(column.name, [None] * len(column), dtype=TYPES[kind])
    if not isinstance(column.dtype, pl.List | pl.Array | pl.Struct):
        return nothing
    try:
        made = column.cast(TYPES[kind], strict=False)
        return made.zip_with(~made.cast(column.dtype, strict=False).ne_missing(column), nothing)
    except pl.exceptions.PolarsError:  # other fields
        return nothing


def _where(text: pl.Series, pattern: str) -> pl.Series:
    """Texts that match a pattern; null for others."""
    return text.zip_with(text.str.contains(pattern).fill_null(value=False), text.clear(len(text)))


def _seconds(column: pl.Series) -> pl.Series:
    """Durations of numbers of seconds."""
    exact = column.cast(pl.Float64, strict=False) * 1e6
    known = exact.is_between(-(2.0**62), 2.0**62).fill_null(value=False)
    return exact.zip_with(known, exact.clear(len(exact))).round().cast(pl.Int64).cast(TYPES["duration"])


def _durations(text: pl.Series) -> pl.Series:
    """Durations of texts: HH:MM:SS, with days before it and fractions behind it, or a number of seconds."""
    parts = text.str.extract_groups(r"^([+-]?)(?:(\d{1,8}) days? ?)?(\d{1,8}):(\d\d):(\d\d(?:\.\d{1,6})?)$")
    sign, *lengths = (parts.struct.field(str(number)) for number in range(1, 6))
    days, hours, minutes = (each.fill_null("0").cast(pl.Int64) for each in lengths[:3])
    micros = (lengths[3].cast(pl.Float64) * 1e6).round().cast(pl.Int64)
    whole = ((days * 24 + hours) * 60 + minutes) * 60_000_000 + micros
    found = (whole * sign.replace_strict({"-": -1}, default=1, return_dtype=pl.Int64)).cast(TYPES["duration"])
    return found.zip_with(found.is_not_null(), _seconds(text))


def _lossless(column: pl.Series, kind: str) -> pl.Series:
    """Convert a column of another type than text; null where the conversion would change the value."""
    dtype = column.dtype
    plain = dtype.is_numeric() or isinstance(dtype, pl.Boolean)
    if isinstance(dtype, pl.Datetime | pl.Date):
        column = in_years(column)
    written = plain or isinstance(dtype, pl.Categorical | pl.Enum | pl.Date | pl.Datetime | pl.String)
    fits = {
        "str": written, "bytes": isinstance(dtype, pl.String), "date": isinstance(dtype, pl.Date | pl.Datetime),
        "duration": isinstance(dtype, pl.Duration),
    }  # fmt: skip
    if not fits.get(kind, plain):
        return pl.Series(column.name, [None] * len(column), dtype=TYPES[kind])
    if kind == "float" and isinstance(dtype, pl.Decimal):
        return _rounded(column)
    made = column.cast(TYPES[kind], strict=False)
    if kind in ("str", "bytes") or (kind == "float" and dtype.is_float()):
        return made
    return made.zip_with((made.cast(dtype, strict=False) == column).fill_null(value=False), made.clear(len(made)))


def _rounded(column: pl.Series) -> pl.Series:
    """Convert decimals to the nearest floats; null where the shortest text of the float is another decimal."""
    text = column.cast(pl.String)
    made = text.cast(pl.Float64)
    short = text.str.replace(r"(\.\d*?)0+$", "$1").str.strip_suffix(".")
    odd = (short != made.cast(pl.String).str.strip_suffix(".0")).arg_true().to_list()
    wrong = [row for row in odd if Decimal(repr(made[row])) != column[row]]  # 1e+16 is written in another way
    return made.scatter(wrong, None) if wrong else made
