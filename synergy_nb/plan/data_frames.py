"""Data frames as sources: the kinds that are accepted, their columns and types, and their rows as Polars tables.

A data frame is a pandas or Polars table (a ``LazyFrame`` too), an Arrow table, record batch or record batch reader,
anything else that exports an Arrow stream, or a dictionary of columns. A frame of Dask or Spark is not in memory: it is
computed while it is read, that of Dask partition by partition. Values are read as DuckDB reads them: NaN in
pandas is NULL, categories are their text, times with a zone are instants in UTC. The index of a pandas table is
ignored, unless it holds times and the table has no other event time, or ``time`` names it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import numbers
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl
import pyarrow as pa

from synergy_nb.errors import SynergyError
from synergy_nb.plan.operators.sources import DEFAULT_RATE, TIME_NAMES
from synergy_nb.plan.tables.column_kinds import column_kind
from synergy_nb.plan.terms.column_types import MOST_DIGITS
from synergy_nb.plan.terms.units import did_you_mean, type_of

__all__ = [
    "DataFrameError",
    "column_kinds",
    "declared",
    "described",
    "is_frame",
    "normal",
    "rate_of_events",
    "single_use",
    "tables",
]

CLOCKS: Final = ("time", "date", "int", "float", "str")
#: Types of the values of a pandas index that are times, as pandas calls them.
TIMES_OF_PANDAS: Final = ("datetime64", "datetime", "date")
_SAMPLE: Final = 1000  # rows of a frame that is not in memory by which its columns are known
UNNAMED_INDEX: Final = ("time", "index")  # names by which ``time`` means an index without a name
EXPECTED: Final = "a pandas, Polars or Arrow table, a dictionary of columns"
VALUES: Final = "numbers, text, truth values, times, dates, durations or bytes"
#: Errors of libraries at values that they do not convert.
FAULTS: Final = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    TypeError,
    ValueError,
    OverflowError,
)


class DataFrameError(SynergyError, ValueError):
    """A data frame cannot be the rows of a source; the text names the column."""


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a data frame, see above.

    >>> is_frame({"time": [1.0], "v": [2]}), is_frame({"time": 1.0, "v": 2})
    (True, False)
    """
    if _is_column_alone(value):
        return False
    if isinstance(value, pl.DataFrame | pl.LazyFrame | pa.RecordBatch) or _is_pandas(value):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(_is_column(column) for column in value.values())
    return hasattr(value, "__arrow_c_stream__")


def _is_of(value: Any, package: str) -> bool:
    """Whether a value is a data frame of a library that need not be installed."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == package


class _Partitions:
    """The tables of a frame that is not in memory, which are computed while they are iterated over, one at a time."""

    def __init__(self, frame: Any) -> None:
        """Raises ``TypeError`` if it never ends."""
        if getattr(frame, "isStreaming", False):
            raise TypeError(
                "source: a streaming Spark frame, which never ends; expected a frame that ends, the folder that its "
                "writeStream writes, as source('directory', ...), or a connector that reads what the frame reads"
            )
        self._frame = frame
        self._of_spark = _is_of(frame, "pyspark")

    def __iter__(self) -> Iterator[Any]:
        if self._of_spark:
            yield self._frame.toArrow()
            return
        for number in range(self._frame.npartitions):
            yield self._frame.partitions[number].compute(scheduler="threads")

    def sample(self) -> Any:
        """Some of its rows."""
        if self._of_spark:
            return self._frame.limit(_SAMPLE).toArrow()
        return self._frame.head(_SAMPLE, npartitions=-1, compute=False).compute(scheduler="threads")


def single_use(value: Any) -> bool:
    """Whether a data frame can be read only once, batch by batch."""
    return isinstance(value, pa.RecordBatchReader)


def normal(frame: Any, time: str | None = None) -> pl.DataFrame | pl.LazyFrame | pa.RecordBatchReader:
    """Convert a data frame, or a list of dictionaries, to Polars; lazy frames and record batch readers are unchanged.

    ``frame``: data frame as described above, or a list of dictionaries; ``time``: name of the column with the event
    time, which may be the index of a pandas table (``time`` or ``index`` if it has no name); None if it is not known.

    Raises ``DataFrameError`` if it cannot be read; the text names the column.
    """
    if isinstance(frame, pl.LazyFrame) or single_use(frame):
        return frame
    if _is_pandas(frame):
        return _from_pandas(frame, time)
    if isinstance(frame, pa.RecordBatch | pa.Table):
        return _from_arrow(frame)
    try:
        if isinstance(frame, list | tuple):
            found = pl.DataFrame(list(frame), infer_schema_length=None)
        else:
            found = pl.DataFrame(dict(frame) if isinstance(frame, Mapping) else frame)
    except FAULTS as error:
        for name, values in _columns_of(frame).items():
            if (fault := _fault(name, values)) is not None:
                raise fault from error
        raise DataFrameError(f"{type_of(frame)} that cannot be read: {_first_line(error)}") from error
    for name, dtype in found.schema.items():
        if isinstance(dtype, pl.Object) and (fault := _fault(name, found.get_column(name).to_list())) is not None:
            raise fault
    return found


def tables(frame: pl.DataFrame | pl.LazyFrame | pa.RecordBatchReader) -> Iterator[pl.DataFrame]:
    """Yield the rows of a frame from :func:`normal`; those of a record batch reader batch by batch."""
    if isinstance(frame, pl.DataFrame):
        yield frame
    elif isinstance(frame, pl.LazyFrame):
        try:
            yield frame.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataFrameError(f"a LazyFrame that cannot be collected: {_first_line(error)}") from error
    else:
        for batch in frame:
            yield _from_arrow(batch)


def declared(
    frame: Any, columns: Mapping[str, str] | None = None, time: str | None = None, index: str = ""
) -> tuple[dict[str, str], str]:
    """Derive the columns of a source with their types, and the column of its rows that holds the event time.

    ``frame``: data frame from :func:`normal`; ``columns``: column to type, to select columns or change types; by
    default those of the frame; ``time``: column with the event time; by default the first existing one of time,
    timestamp, ts, datetime, date, or else the only one whose values are times; ``index``: clause for errors about the
    index of the pandas table that the frame was made from; empty: it had none.

    Returns: column to type, where the event time is called ``time``; and the name of its column in the rows.

    Raises ``DataFrameError`` if there is no event time, or a column has a type that tuples do not have.
    """
    schema = _schema(frame)
    clock = _clock(schema, time, index)
    if columns is not None:
        for name in columns:
            if name not in schema and name != "time":
                raise DataFrameError(f"columns: {name!r} is no column of the frame; {_found(name, schema)}")
        wanted = {name: kind for name, kind in columns.items() if name not in (clock, "time")}
        if clock != "time" and "time" in columns and "time" in schema:
            raise _two_clocks(clock)
        return {"time": "time", **wanted}, clock
    if clock != "time" and "time" in schema:
        raise _two_clocks(clock)
    kinds = {name: _kind(name, dtype) for name, dtype in schema.items() if name != clock}
    return {"time": "time", **kinds}, clock


def described(rows: Any, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the rows of a source, and its parameters completed by the columns of these rows.

    ``rows``: data frame, feed, or iterable, asynchronous or not, of dictionaries or tables; ``params``: parameters of
    the source that the user has given.

    Raises ``TypeError`` if ``rows`` has another type, or its columns are unknown; ``DataFrameError`` if there is no
    event time, or a column has a type that tuples do not have.
    """

    columns, time = params.get("columns"), params.get("time")
    pushed = getattr(rows, "source_columns", None)
    if isinstance(pushed, Mapping):
        if columns is not None or time is not None or params.get("time_unit") is not None:
            raise TypeError("source: columns, time and time_unit; expected none of them with a Feed, which has its own")
        return rows, {**params, "columns": dict(pushed)}
    if columns is None and _is_column_alone(rows):
        raise DataFrameError(
            f"source: {type_of(rows)}, which is one column; expected a table, with the event time beside it"
        )
    if _is_of(rows, "dask") or _is_of(rows, "pyspark"):
        rows = _Partitions(rows)
        kinds, clock = declared(normal(rows.sample(), time), columns, time)
        own = {"time": clock} if clock != "time" or "time" in params else {}
        return rows, {**params, **own, "columns": kinds}
    sample: Any = rows
    first = rows if is_frame(rows) else _first_of(rows)
    index = _index_clause(first) if _is_pandas(first) else ""
    if is_frame(rows):
        rows = sample = normal(rows, time)
    elif first is not None:
        sample = normal(first, time)
    elif columns is None and isinstance(rows, list | tuple) and rows and all(isinstance(row, Mapping) for row in rows):
        sample = normal(rows, time)
    else:
        if isinstance(rows, str | bytes | Mapping) or not hasattr(type(rows), "__iter__") | hasattr(
            type(rows), "__aiter__"
        ):
            raise TypeError(
                f"source: {type(rows).__name__}; expected the name of a connector, {EXPECTED}, a Feed, "
                "or an iterable of dictionaries or tables"
            )
        if columns is None:
            raise TypeError(
                f"source: columns: not given; expected column to type, as in columns={{'user': 'str'}}: those of a "
                f"{type(rows).__name__} are not known before it runs"
            )
        return rows, dict(params)
    kinds, clock = declared(sample, columns, time, index)
    known = {"rate": rate} if rows is sample and "rate" not in params and (rate := rate_of_events(rows, clock)) else {}
    own = {"time": clock} if clock != "time" or "time" in params else {}
    return rows, {**params, **known, **own, "columns": kinds}


def column_kinds(frame: pl.DataFrame) -> dict[str, str]:
    """Types of the columns of a table, as streams have them.

    Raises ``DataFrameError`` if a column has a type that tuples do not have.
    """
    return {name: _kind(name, dtype) for name, dtype in frame.schema.items()}


def rate_of_events(frame: Any, clock: str) -> float | None:
    """Tuples/s of a table by its event times, at most the expected rate of a source; None where it is unknown.

    The size of windows follows from this rate, at any speed of the replay.
    """
    if not isinstance(frame, pl.DataFrame) or frame.height < 2 or clock not in frame.columns:
        return None
    times = frame.get_column(clock)
    if times.dtype == pl.String:
        try:
            times = times.str.to_datetime(strict=False)
        except pl.exceptions.PolarsError:  # reading the rows raises the error with its message
            return None
    first, last = times.min(), times.max()
    if not isinstance(first, dt.datetime | dt.date) or not isinstance(last, type(first)):
        return None
    seconds = (last - first).total_seconds()
    return min(frame.height / seconds, DEFAULT_RATE) if seconds > 0.0 else None


def _first_of(rows: Any) -> Any:
    """The first frame of a list of frames; None for anything else."""
    return rows[0] if isinstance(rows, list | tuple) and rows and all(is_frame(each) for each in rows) else None


def _schema(frame: Any) -> Mapping[str, pl.DataType]:
    if isinstance(frame, pl.DataFrame):
        return frame.schema
    try:
        if isinstance(frame, pl.LazyFrame):
            return frame.collect_schema()
        _check_names(frame.schema.names)
        empty = pl.from_arrow(frame.schema.empty_table())
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
        raise DataFrameError(f"{type_of(frame)} whose columns cannot be read: {_first_line(error)}") from error
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _clock(schema: Mapping[str, pl.DataType], time: str | None, index: str) -> str:
    if time is not None:
        if time not in schema:
            raise DataFrameError(f"time: {time!r} is no column of the frame; {_found(time, schema)}{index}")
        if _kind(time, schema[time]) not in CLOCKS:
            raise DataFrameError(
                f"time: {time!r} is of type {schema[time]}; expected times, seconds since 1970, or text"
            )
        return time
    named = next((name for name in TIME_NAMES if name in schema), None)
    times = [name for name, dtype in schema.items() if isinstance(dtype, pl.Datetime | pl.Date)]
    if named is not None:
        return named
    if len(times) == 1:
        return times[0]
    known = ", ".join(f"{name} ({_kind_or_type(name, dtype)})" for name, dtype in schema.items())
    found = f"{', '.join(times)} are all times" if times else f"found {known or 'no column'}"
    raise DataFrameError(
        f"time: not given; expected the column that holds the event time, as in time={(times or ['when'])[0]!r}, "
        f"or one called {', '.join(TIME_NAMES)}; {found}{index}"
    )


def _kind(name: str, dtype: pl.DataType) -> str:
    """Type of a stream's column for the type of a frame's column."""
    kind = column_kind(dtype)
    if kind is not None:
        return kind
    raise DataFrameError(f"column {name!r}: type {dtype}; expected {VALUES}: convert the column, or omit it")


def _kind_or_type(name: str, dtype: pl.DataType) -> str:
    try:
        return _kind(name, dtype)
    except DataFrameError:
        return str(dtype)


def _from_pandas(frame: Any, time: str | None) -> pl.DataFrame:
    names = [str(name) for name in frame.columns]
    index = frame.index
    called: tuple[str, ...] = UNNAMED_INDEX if index.name is None else (index.name,)
    own = time if time in called else called[0]
    dated = index.inferred_type in TIMES_OF_PANDAS and not set(names) & {own, *TIME_NAMES}
    if index.nlevels == 1 and own not in names and (time == own or (time is None and dated)):
        frame = frame.reset_index(names=own)
        names = [own, *names]
    _check_names(names)
    for place, name in enumerate(names):
        column = frame.iloc[:, place]
        if column.dtype == object and isinstance(next((each for each in column if each is not None), None), uuid.UUID):
            raise _fault(name, column.tolist()) or AssertionError(name)
    try:
        return pl.from_pandas(frame.set_axis(names, axis=1))
    except FAULTS as error:
        for place, name in enumerate(names):  # find the column that failed
            column = frame.iloc[:, place]
            try:
                pl.from_pandas(column)
            except FAULTS as problem:
                fault = _fault(name, column.tolist()) if column.dtype == object else None
                raise fault or DataFrameError(
                    f"column {name!r}: type {column.dtype}: {_first_line(problem)}; expected {VALUES}"
                ) from error
        raise DataFrameError(f"a pandas table that cannot be read: {_first_line(error)}") from error


def _from_arrow(frame: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    _check_names(frame.schema.names)
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_batches([frame])
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):  # Polars has decimals of 128 bits
            narrow = pa.decimal128(38, min(max(field.type.scale, 0), 38))
            try:
                table = table.set_column(place, field.name, table.column(place).cast(narrow))
            except pa.ArrowException as error:
                raise _fault(field.name, table.column(place).to_pylist()) or _unreadable(field) from error
        elif isinstance(field.type, pa.UuidType):
            raise _unreadable(field)
    try:
        found = pl.from_arrow(table)
    except FAULTS as error:
        for field in table.schema:
            try:
                pl.from_arrow(table.select([field.name]))
            except FAULTS:
                raise _unreadable(field) from error
        raise DataFrameError(f"{type_of(frame)} that cannot be read: {_first_line(error)}") from error
    assert isinstance(found, pl.DataFrame)
    return found


def _unreadable(field: pa.Field) -> DataFrameError:
    return DataFrameError(
        f"column {field.name!r}: type {field.type}; expected {VALUES}: convert the column, or omit it"
    )


def _columns_of(frame: Any) -> dict[str, list[Any]]:
    """Values by column, of a dictionary of columns or a list of dictionaries that have the same keys."""
    if isinstance(frame, Mapping):
        return {str(name): list(column) for name, column in frame.items()}
    rows = frame if isinstance(frame, list | tuple) else []
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): [row.get(name) for row in rows] for name in names}


def _fault(name: str, values: Sequence[Any]) -> DataFrameError | None:
    """Return the error about the first value that is of no type, or of another one than the first; None: all fit.

    Integers, floats and decimals go together, and so do dates and times.
    """
    first: tuple[str, Any] | None = None
    for row, value in enumerate(values):
        if _is_null(value):
            continue
        text = _shown(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return DataFrameError(f"column {name!r}: {text} in row {row}; expected an integer of 64 bits")
        if isinstance(value, decimal.Decimal) and abs(value) >= 10**MOST_DIGITS:
            return DataFrameError(f"column {name!r}: {text} in row {row}; expected a number of {MOST_DIGITS} digits")
        family = next((words for kinds, words in _FAMILIES if isinstance(value, kinds)), None)
        if family is None:
            return DataFrameError(f"column {name!r}: {text} in row {row}; expected {VALUES}")
        if first is not None and first[0] != family:
            return DataFrameError(
                f"column {name!r}: {text} in row {row}, and {_shown(first[1])} before it; expected values of one type"
            )
        first = first or (family, value)
    return None


def _is_null(value: Any) -> bool:
    """Whether a value is that of a NULL in some library."""
    return (
        value is None
        or (isinstance(value, float | decimal.Decimal) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


_FAMILIES: Final = (
    ((bool,), "truth value"),
    ((numbers.Real, decimal.Decimal), "number"),
    ((str,), "text"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((dt.date,), "time"),
    ((dt.timedelta,), "duration"),
)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _index_clause(frame: Any) -> str:
    """Clause about the index of a pandas table, for an error about its event time; empty if it only counts rows."""
    index = frame.index
    if index.nlevels > 1:
        levels = ", ".join(map(str, index.names))
        return f"; its index has the levels {levels}: frame.reset_index() makes columns of them"
    if index.inferred_type == "integer" or not len(index):
        return ""
    kind = {"string": "text"}.get(index.inferred_type, f"values of type {index.inferred_type}")
    found = f"; its index holds {kind} such as {str(index[0])!r}"
    if index.inferred_type not in ("string", "floating", *TIMES_OF_PANDAS):
        return f"{found}; expected times there, as pandas.to_datetime or frame.to_timestamp() makes them"
    return f"{found}; if these are the event times, expected time={index.name or UNNAMED_INDEX[-1]!r}"


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataFrameError(f"column {name!r}: the name occurs twice; expected each name once")
        seen.add(name)


def _is_pandas(value: Any) -> bool:
    """Whether a value is a pandas table, without importing pandas."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def _is_column_alone(value: Any) -> bool:
    """Whether a value is a single column of pandas, Polars or Arrow."""
    if isinstance(value, pl.Series | pa.ChunkedArray | pa.Array):
        return True
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "to_frame")


def _is_column(value: Any) -> bool:
    return not isinstance(value, str | bytes | Mapping) and hasattr(value, "__len__")


def _two_clocks(clock: str) -> DataFrameError:
    return DataFrameError(
        f"time: {clock!r}, but another column is called 'time', as the event time is in every stream; "
        "expected one of the two: rename or omit the other"
    )


def _found(name: str, names: Iterable[str]) -> str:
    known = list(names)
    return f"found {', '.join(known) or 'none'}{did_you_mean(name, known)}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
