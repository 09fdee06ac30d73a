"""Conversion of columns to times: numbers of a unit, ISO 8601 text, and times of any library, of the years 1 to 9999.

A number does not say what it counts. Without a stated unit it is a count of seconds, and what would be another year
than 1 to 9999 then is refused, with the unit that it seems to have: 1700000000000 counts milliseconds, it seems, but a
stream must not change its meaning with its values. Integers that are all dates, such as 20260101, are refused likewise;
as text they are dates, as ISO 8601 has it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from synergy_nb.dataflow.tuples import TYPES

__all__ = [
    "BASIC_DATES",
    "EARLIEST",
    "FARTHEST",
    "PER_SECOND",
    "dates_in_numbers",
    "expected_time",
    "implausible",
    "in_years",
    "instant_of",
    "plausible",
    "readable",
    "times",
]

#: Numbers of each unit in a second.
PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: Seconds from 1970 to the years 1 and 10000.
EARLIEST: Final = -62_135_596_800
FARTHEST: Final = 253_402_300_800
#: Seconds from 1970 to the years 1800 and 2200: event times beyond are mostly numbers of another unit.
PLAUSIBLE: Final = (-5_364_662_400, 7_258_118_400)
_EIGHT: Final = r"^\d{8}$"
_BASIC: Final = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"  # a date of ISO 8601 without separators
BASIC_DATES: Final = (19_000_101, 20_991_231)  # the first and the last of these dates, as numbers
# Times of one layout are parsed together, by a format: 10 ms for 50,000 rows, where trying all layouts takes 160 ms.
# Where all fractions have as many digits, that takes 2 ms: Polars knows where each part begins. Arrow, which looks at
# blanks and digits itself, needs 2 ms with all checks, and the way by a format 5 ms.
_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_CLOCK: Final = r"\d{2}:\d{2}:\d{2}"
_FRACTIONS: Final = {"": "", r"\.\d{3}": ".%3f", r"\.\d{6}": ".%6f", r"\.\d{9}": ".%9f", r"\.\d{1,9}": "%.f"}
_LAYOUTS: Final = tuple(
    (f"^{_DAY}{mark}{_CLOCK}{fraction}{zone}$", f"%Y-%m-%d{mark}%H:%M:%S{part}{zone}")
    for mark in (" ", "T")
    for zone in ("", "Z")
    for fraction, part in _FRACTIONS.items()
)
_TO_THE_MINUTE: Final = rf"^({_DAY} \d{{2}}:\d{{2}})($|[+-])"
#: Microseconds in a unit of NumPy's times, as a fraction; years and months have no length.
_NUMPY: Final = {
    "W": (604_800_000_000, 1), "D": (86_400_000_000, 1), "h": (3_600_000_000, 1), "m": (60_000_000, 1),
    "s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000), "ps": (1, 10**6), "fs": (1, 10**9),
    "as": (1, 10**12),
}  # fmt: skip
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of streams have no zone


def times(column: pl.Series, unit: str | None = None) -> pl.Series:
    """Convert a column to times in UTC; null where there is no time of the years 1 to 9999.

    ``column``: times, dates, numbers, or text; ``unit``: unit of numbers since 1970: ``s``, ``ms``, ``us`` or ``ns``,
    or ``date``, if they are dates such as 20260101. None: seconds.
    """
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime | pl.Date):
        column = in_years(column)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(TYPES["time"])
    if not isinstance(dtype, pl.String):
        return _instants(column, unit)
    found = _equally_long(column)
    if found is not None:
        return in_years(found)
    text = column.str.strip_chars()
    first = text[0] if len(text) else None
    for pattern, form in _LAYOUTS:
        if first is not None and re.match(pattern, first) and text.str.contains(pattern).all(ignore_nulls=False):
            repeated = not form.rstrip("Z").endswith("f")  # others mostly differ, and looking for them costs more
            return in_years(text.str.to_datetime(form, strict=False, time_unit="us", cache=repeated))
    if unit is None and text.str.contains(_BASIC).all(ignore_nulls=False):
        unit = "date"
    found = _instants(text, unit)
    if not found.null_count():
        return found
    return found.zip_with(found.is_not_null(), in_years(_dates(text)))


def _equally_long(text: pl.Series) -> pl.Series | None:
    """Convert texts of one layout to times; None: they are not all as long as the first, or Arrow refuses one.

    Arrow also reads dates, and times to the minute, but not among others of this length; and it refuses a zone where
    the first has none.
    """
    first = text[0] if len(text) else None
    if first is None or not any(re.match(pattern, first, re.ASCII) for pattern, _ in _LAYOUTS):
        return None
    if not (text.str.len_bytes() == len(first)).all(ignore_nulls=False):
        return None
    kind = pa.timestamp("us", "UTC" if first.endswith("Z") else None)
    try:
        found = pl.Series(text.name, text.to_arrow().cast(kind))
    except pa.ArrowInvalid:
        return None
    return found.dt.replace_time_zone(None).cast(TYPES["time"])


def in_years(column: pl.Series) -> pl.Series:
    """Return a column of times or dates without those that are not of the years 1 to 9999."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        low, high = EARLIEST * PER_SECOND[dtype.time_unit], FARTHEST * PER_SECOND[dtype.time_unit]
    else:
        low, high = EARLIEST // 86_400, FARTHEST // 86_400
    if high >= 2**63 or column.null_count() == len(column):  # all nanoseconds of 64 bits are of these years
        return column
    physical = column.to_physical()
    least: Any = physical.min()
    most: Any = physical.max()
    if low <= least and most < high:
        return column
    return column.zip_with((physical >= low) & (physical < high), column.clear(len(column)))


def readable(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose rows Python can hold: a column of times that are not all of the years 1 to 9999, such as the
    end of the last window, becomes text.

    >>> readable(pl.DataFrame({"end": pl.Series([253_402_300_800_000_000]).cast(pl.Datetime("us"))})).rows()
    [('+10000-01-01 00:00:00.000000',)]
    """
    far = [each.name for each in table if isinstance(each.dtype, pl.Datetime | pl.Date) and in_years(each) is not each]
    return table.with_columns(pl.col(far).cast(pl.String)) if far else table


def dates_in_numbers(column: pl.Series) -> bool:
    """Whether a column of integers holds nothing but dates such as 20260101, which as seconds are days of 1970."""
    if not column.dtype.is_integer() or column.null_count() == len(column):
        return False
    if not column.cast(pl.Float64).is_between(*BASIC_DATES).all():  # 8 bits do not hold these bounds
        return False
    return bool(column.cast(pl.String).str.contains(_BASIC).all())


def plausible(made: pl.Series) -> bool:
    """Whether all times of a column are from 1800 to 2200."""
    physical = made.to_physical()
    least: Any = physical.min()
    most: Any = physical.max()
    return least is None or (PLAUSIBLE[0] * 1_000_000 <= least and most < PLAUSIBLE[1] * 1_000_000)


def implausible(raw: pl.Series, made: pl.Series) -> str:
    """Return a sentence about a number that is a time before 1800 or after 2200, if it counts seconds; empty: none is.

    ``raw``, ``made``: values of a source without a stated unit, and the times that they became.
    """
    physical = made.to_physical()
    for bound, place in ((physical.min(), physical.arg_min), (physical.max(), physical.arg_max)):
        limits = PLAUSIBLE[0] * 1_000_000, PLAUSIBLE[1] * 1_000_000
        if not isinstance(bound, int) or limits[0] <= bound < limits[1] or (at := place()) is None:
            continue
        value = raw[at]
        number = _number(value)
        if number is not None and (unit := _unit_of(number, None)):
            as_seconds, otherwise = (_EPOCH + dt.timedelta(seconds=number / per) for per in (1, PER_SECOND[unit]))
            return (
                f"{number:.15g} is the time {as_seconds:%Y-%m-%d}, as numbers count seconds since 1970; as "
                f"{_NAMES[unit]} it is {otherwise:%Y-%m-%d}: expected time_unit={unit!r}, or time_unit='s' if seconds "
                "are meant"
            )
    return ""


def expected_time(value: Any, unit: str | None = None) -> str:
    """Text about what was expected instead of a value that is no time."""
    if unit == "date":
        return "a date such as 20260101, or ISO 8601 text (years 1 to 9999)"
    name = _NAMES.get(unit or "", "seconds")
    base = f"a time, {name} since 1970, or ISO 8601 text (years 1 to 9999)"
    number = _number(value)
    if number is None or unit == "s":
        return base
    if unit is None and EARLIEST <= number < FARTHEST:
        return f"{base}; {value} may be a date, time_unit='date', or seconds, time_unit='s'"
    guess = _unit_of(number, unit)
    return f"{base}; {value} is of the order of {_NAMES[guess]}: time_unit={guess!r}" if guess else base


def instant_of(value: Any) -> dt.datetime | None:
    """Convert NumPy's time to Python's, of any unit; None for NaT.

    Raises OverflowError if it is not of the years 1 to 9999.
    """
    count = int(value.astype("int64"))
    if count == -(2**63):
        return None
    unit, step = np.datetime_data(value.dtype)
    count *= step
    if unit in ("Y", "M"):
        year, month = divmod(count * 12 if unit == "Y" else count, 12)
        if not 1 <= year + 1970 <= 9999:
            raise OverflowError(f"the year {year + 1970}")
        return dt.datetime(year + 1970, month + 1, 1)  # noqa: DTZ001
    micros, parts = _NUMPY[unit]
    return _EPOCH + dt.timedelta(microseconds=count * micros // parts)


def _instants(column: pl.Series, unit: str | None) -> pl.Series:
    """Convert numbers, or texts of numbers, of a unit to times; null where there is none."""
    dtype = column.dtype
    if not (dtype.is_numeric() or isinstance(dtype, pl.String)) or (unit is None and dates_in_numbers(column)):
        return pl.Series(column.name, dtype=TYPES["time"]).clear(len(column))
    if unit == "date":
        text = column if isinstance(dtype, pl.String) else column.cast(pl.Int64, strict=False).cast(pl.String)
        days = text.to_frame("text").select(pl.when(pl.col("text").str.contains(_EIGHT)).then(pl.col("text")))
        return days.to_series().str.to_datetime("%Y%m%d", strict=False, time_unit="us")
    per = PER_SECOND[unit or "s"]
    if dtype.is_integer() and _within(column, per):
        whole_number = column.cast(pl.Int64)
        return (whole_number // (per // 1_000_000) if per > 1_000_000 else whole_number * (1_000_000 // per)).cast(
            TYPES["time"]
        )
    number = pl.col("number")
    valid = pl.when((number >= float(EARLIEST * per)) & (number < float(FARTHEST * per)))
    rounded: pl.Expr = valid.then((number * 1_000_000 / per).round().cast(pl.Int64, strict=False))
    frame = pl.DataFrame({"number": column.cast(pl.Float64, strict=False)})
    if per > 1 and not dtype.is_float():  # integers of 64 bits, which a float may not hold
        frame = frame.with_columns(whole=column.cast(pl.Int64, strict=False))
        whole = pl.col("whole")
        exact = valid.then(whole // (per // 1_000_000) if per > 1_000_000 else whole * (1_000_000 // per))
        fraction = pl.lit(value=False) if dtype.is_integer() else number != number.floor()
        rounded = pl.when(whole.is_null() | fraction).then(rounded).otherwise(exact)
    return frame.select(rounded.cast(TYPES["time"])).to_series()


def _within(column: pl.Series, per: int) -> bool:
    """Whether all integers of a column are times of the years 1 to 9999, of so many parts of a second each."""
    low: Any = column.min()
    high: Any = column.max()
    return low is not None and low >= EARLIEST * per and high < FARTHEST * per


def _dates(column: pl.Series) -> pl.Series:
    """Convert ISO 8601 dates and times, with and without time and zone, to times."""
    text = column.str.replace(f"^({_DAY})[Tt]", "$1 ").str.replace(r"[Zz]$", "").str.replace(_TO_THE_MINUTE, "$1:00$2")
    naive = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))
    zoned = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%#z", strict=False, time_unit="us").dt.replace_time_zone(None)
    return naive.zip_with(naive.is_not_null(), day.zip_with(day.is_not_null(), zoned))


def _number(value: Any) -> float | None:
    """A finite number: the value itself, or what a text says."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _unit_of(number: float, unit: str | None) -> str:
    """Unit in which a number is a time from 1800 to 2200, as it is not in the stated unit; empty if none is."""
    fitting = (each for each in PER_SECOND if PLAUSIBLE[0] <= number / PER_SECOND[each] < PLAUSIBLE[1])
    return next((each for each in fitting if each != (unit or "s")), "")
