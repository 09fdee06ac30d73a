"""What a function of one's own returns, checked and brought into the form of its stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from synergy_nb.dataflow.tuples import EPOCH, TYPES, microseconds_of
from synergy_nb.errors import SynergyError
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.terms.column_types import UNSURE, family

if TYPE_CHECKING:
    from synergy_nb.dataflow.functions.calls import FunctionTask

__all__ = ["FunctionError", "brief", "dictionaries", "fitted", "moment", "of_rows"]

_INTEGERS: Final = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
#: Types of a table's columns that fit a column of a stream without loss.
_FITS: Final[Mapping[str, tuple[type[pl.DataType], ...]]] = {
    "int": _INTEGERS,
    "float": (pl.Float64, pl.Float32, *_INTEGERS),
    "str": (pl.String, pl.Categorical, pl.Enum),
    "bool": (pl.Boolean,),
    "time": (pl.Datetime, pl.Date),
    "bytes": (pl.Binary,),
    "date": (pl.Date,),
    "duration": (pl.Duration,),
    "decimal": (pl.Decimal, *_INTEGERS),
    "list": (pl.List, pl.Array),
    "struct": (pl.Struct,),
}
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "time": (dt.datetime, dt.date),
    "bytes": (bytes,),
    "date": (dt.date,),
    "duration": (dt.timedelta,),
    "decimal": (Decimal, int),
    "list": (list, tuple),
    "struct": (dict,),
}


class FunctionError(SynergyError, ValueError):
    """A function of one's own has failed, or has returned something wrong."""


def brief(error: BaseException) -> str:
    """Class and first line of an exception."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}".rstrip(": ")


def moment(value: Any) -> int | None:
    """Microseconds since 1970 of an event time; None if it is none."""
    return microseconds_of(value) if isinstance(value, dt.datetime) else None


def dictionaries(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, as its ``to_dicts`` gives them, in two thirds of the time."""
    names = table.columns
    return [dict(zip(names, row, strict=True)) for row in zip(*(each.to_list() for each in table), strict=True)]


def of_rows(
    name: str, made: Sequence[Any], new: Mapping[str, str], rows: Sequence[Any], places: Sequence[int] | None
) -> pl.DataFrame:
    """A table of the dictionaries that a function has returned.

    ``new``: columns that the function makes; ``rows``, ``places``: rows that it got, and the one of each result.

    Raises ``FunctionError`` if one is no dictionary of these columns, or has a value of another type.
    """
    try:
        columns = {column: [each[column] for each in made] for column in new}
        longest = max(map(len, made), default=0)
        timed = longest > len(new) and any("time" in each for each in made)
        if longest > len(new) + timed:
            raise KeyError
    except (KeyError, TypeError, IndexError):
        raise _no_row(name, made, new, rows, places) from None
    series = []
    for column, kind in new.items():
        values = columns[column]
        try:
            if kind in ("int", "float") and bool in set(map(type, values)):  # to Polars a truth value is a number
                raise TypeError
            if family(kind) in UNSURE:
                raise TypeError
            series.append(pl.Series(column, values, dtype=TYPES[kind], strict=True))
        except (TypeError, pl.exceptions.PolarsError, OverflowError):
            for number, value in enumerate(values):
                fits = isinstance(value, _PYTHON[family(kind)]) and (kind == "bool" or not isinstance(value, bool))
                fits = fits and not (kind == "date" and isinstance(value, dt.datetime))
                if value is not None and not fits:
                    raise _wrong(name, column, kind, value, _for(rows, places, number)) from None
            try:
                if family(kind) == "decimal":
                    values = [value if value is None else Decimal(value) for value in values]
                given = pl.Series(column, values, strict=False)
                series.append(given.cast(TYPES[kind], strict=True))
                if (lost := _lost(given, series[-1])) is not None:
                    raise _wrong(name, column, kind, values[lost], _for(rows, places, lost)) from None
            except (TypeError, pl.exceptions.PolarsError, OverflowError) as error:
                raise FunctionError(f"function {name}: column {column!r}: {brief(error)}; expected {kind}") from None
    table = pl.DataFrame(series)
    if timed:
        times = [each.get("time") for each in made]
        if any(moment(each) is None for each in times if each is not None):
            wrong = next(each for each in times if each is not None and moment(each) is None)
            raise FunctionError(f"function {name}: time: {wrong!r}; expected a datetime")
        known = pl.Series("time", [None if each is None else moment(each) for each in times], dtype=pl.Int64)
        table = table.with_columns(known.cast(pl.Datetime("us")))
    return table


def _no_row(
    name: str, made: Sequence[Any], new: Mapping[str, str], rows: Sequence[Any], places: Sequence[int] | None
) -> FunctionError:
    """Error about the first result that is no dictionary of the columns."""
    for number, each in enumerate(made):
        if not isinstance(each, Mapping):
            what = f"{type(each).__name__} is returned{_for(rows, places, number)}"
            return FunctionError(f"function {name}: {what}; expected a dictionary of {', '.join(new)}")
        if not new.keys() <= each.keys() <= {*new, "time"}:
            what = f"columns {', '.join(map(str, each)) or 'none'} are returned{_for(rows, places, number)}"
            return FunctionError(f"function {name}: {what}; expected {', '.join(new)}")
    return FunctionError(f"function {name}: something else is returned; expected a dictionary of {', '.join(new)}")


def fitted(
    name: str, made: pl.DataFrame, source: pl.DataFrame | None, task: FunctionTask, new: Mapping[str, str], low: int
) -> pl.DataFrame:
    """The columns of the stream, from the columns that a function has made and those of the rows that it got.

    ``source``: rows that it got, one for each that it has made, if it made as many; None: only ``new`` is wanted.

    Raises ``FunctionError`` if a column is missing or has another type, or a time is earlier than was promised.
    """
    series: list[pl.Series] = []
    for column, kind in new.items():
        if column not in made.columns:
            found = ", ".join(made.columns) or "no column"
            raise FunctionError(f"function {name}: {found} is returned; expected a column {column!r} of type {kind}")
        series.append(_typed(name, made.get_column(column), kind))
    if other := [each for each in made.columns if each not in new and each not in task.input and each not in IMPLICIT]:
        expected = f"{', '.join(new)} alone, or {other[0]!r} among the columns that are declared"
        raise FunctionError(f"function {name}: {', '.join(other)} is returned as well; expected {expected}")
    if source is None:
        return pl.DataFrame(series) if series else pl.DataFrame()
    before: list[pl.Series] = []
    as_many = made.height == source.height
    for column in IMPLICIT:
        if column not in task.output:
            continue
        own = made.get_column(column) if column in made.columns else None
        if own is None and as_many:
            before.append(source.get_column(column))
        elif own is None:
            what = f"{made.height} rows without {column!r} are returned for {source.height}"
            raise FunctionError(f"function {name}: {what}; expected {column!r} as well, or a row for each row")
        else:
            own = _typed(name, own, "time")
            if as_many and own.has_nulls():
                own = own.to_frame().select(pl.col(column).fill_null(source.get_column(column))).to_series()
            before.append(own)
    if task.params.get("keep"):
        if not as_many:
            what = f"{made.height} rows are returned for {source.height}"
            raise FunctionError(
                f"function {name}: {what}; expected a row for each row, as the others' columns are kept"
            )
        before += [source.get_column(each) for each in task.input if each not in IMPLICIT]
    table = pl.DataFrame([*before, *series])
    for column in source.columns:
        if column not in task.input and column not in table.columns:  # what comes with the rows for others
            own = source.get_column(column)
            table = table.with_columns(own if as_many else pl.lit(None, dtype=own.dtype).alias(column))
    times = table.get_column("time").cast(pl.Int64)
    if times.has_nulls() or (table.height and int(times.min()) < low):  # type: ignore[arg-type]
        place = int((times.is_null() | (times < low)).arg_max() or 0)
        promised = EPOCH + dt.timedelta(microseconds=max(low, -(2**55)))
        what = f"time: {table.get_column('time')[place]} in row {place}"
        raise FunctionError(f"function {name}: {what}; expected none before {promised}, as the stream has promised")
    return table


def _typed(name: str, series: pl.Series, kind: str) -> pl.Series:
    """A column with the type of a stream's column."""
    wanted = TYPES[kind]
    if series.dtype == wanted:
        return series
    if not isinstance(series.dtype, (*_FITS[family(kind)], pl.Null)):
        place = int(series.is_not_null().arg_max() or 0)
        value = series[place] if series.len() else None
        raise _wrong(name, series.name, kind, value, f" in row {place}", str(series.dtype))
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    result = series.cast(wanted, strict=False)
    if (at := _lost(series, result)) is not None:
        raise _wrong(name, series.name, kind, series[at], f" in row {at}", str(series.dtype))
    return result


def _lost(before: pl.Series, after: pl.Series) -> int | None:
    """Place of the first value that a conversion has lost, or a decimal whose digits it has changed; None: none."""
    lost = after.is_null() & before.is_not_null()
    if isinstance(after.dtype, pl.Decimal | pl.List | pl.Struct) and before.dtype != pl.Null:
        lost = lost | after.cast(before.dtype, strict=False).ne_missing(before)
    return int(lost.arg_max() or 0) if lost.any() else None


def _wrong(name: str, column: str, kind: str, value: Any, where: str, dtype: str = "") -> FunctionError:
    of = f" of type {dtype}" if dtype else ""
    return FunctionError(f"function {name}: column {column!r}: {value!r}{of}{where}; expected {kind}")


def _for(rows: Sequence[Any], places: Sequence[int] | None, number: int) -> str:
    return "" if places is None or not len(rows) else f" for row {places[number]}"
