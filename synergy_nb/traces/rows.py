"""Conversion of a notebook's rows to tables of a source's columns; rows that do not fit these are refused.

Values are converted where that is lossless: an integer to a number, 2.0 to an integer, text to a number or a date. Any
other value is refused with its column, its row and its value. None is NULL; an event time is never NULL.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan import Plan
from synergy_nb.plan.data_frames import DataFrameError, is_frame, normal, single_use, tables
from synergy_nb.plan.units import did_you_mean
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.traces.typed_columns import EARLIEST, FARTHEST, convert

__all__ = ["FeedError", "RowReader", "check_rows", "row_reader"]

EXPECTED: Final = {
    "int": "an integer of 64 bits",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "time": "a time, seconds since 1970, or ISO 8601 text (years 1 to 9999; divide milliseconds by 1000)",
    "bytes": "bytes",
}
PROBLEMS: Final = (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError)


class FeedError(ClusterError, ValueError):
    """A row, or a table, does not fit the columns that its source declares."""


class RowReader:
    """Converts rows of any form to tables of a source's columns.

    Parameters
    ----------
    source
        Name of the source, for errors.
    columns
        Column to type of the stream, including ``time``.
    clock
        Column of the rows with the event time.
    """

    def __init__(self, source: str, columns: Mapping[str, str], clock: str = "time") -> None:
        self.source = source
        self.columns = {"time": "time", **columns}
        self.clock = clock
        self._from = {name: clock if name == "time" else name for name in self.columns}
        self._schema = {name: TYPES[kind] for name, kind in self.columns.items()}
        self._plain = [(self._from[name], _PLAIN[kind]) for name, kind in self.columns.items()]
        self._whole = [name for name, kind in self.columns.items() if kind == "int"]
        self._texts = [self._from[name] for name, kind in self.columns.items() if kind == "str"]
        self._floats = [self._from[name] for name, kind in self.columns.items() if kind == "float"]
        self._instants = [self._from[name] for name, kind in self.columns.items() if kind == "time"]

    def table(self, rows: Any) -> pl.DataFrame:
        """Return a table, ordered by time, of one row (a dictionary), of several (a list of them), or of a frame.

        Raises
        ------
        FeedError
            If these are not rows, or a value or a column is not as declared.
        """
        if isinstance(rows, pl.DataFrame) and rows.schema == self._schema and self.clock == "time":
            self._check_times(rows.get_column("time"))
            return self._in_order(rows)
        if isinstance(rows, Mapping) and not is_frame(rows):
            return self.of_rows([rows])
        if isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows):
            return self._in_order(self.of_rows(rows))
        if not is_frame(rows):
            raise FeedError(
                f"{self.source}: {_shown(rows)}; expected a dictionary with {', '.join(self._from.values())}, "
                "a list of such, or a pandas, Polars or Arrow table"
            )
        try:
            parts = [self._of_frame(part) for part in tables(normal(rows, self.clock))]
        except DataFrameError as error:
            raise FeedError(f"{self.source}: {error}") from error
        return self._in_order(pl.concat(parts) if parts else self.of_rows([]))

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
        """Return a table of dictionaries, in their order."""
        made = {}
        for name, kind in self.columns.items():
            own = self._from[name]
            try:
                values = [row[own] for row in rows]
            except KeyError:
                row = next(row for row in rows if own not in row)
                raise self._missing(own, kind, row, f"row {_shown(row)}") from None
            values = self._without_numpy(own, kind, values)
            made[name] = self._column(own, kind, _series(values, kind), values)
        self._check_times(made["time"])
        return pl.DataFrame(made, schema=self._schema)

    def accepts(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is certainly as declared, checked in a microsecond; False where a full check is needed."""
        try:
            for name, kinds in self._plain:
                if type(row[name]) not in kinds:
                    return False
            for name in self._whole:
                if (value := row[name]) is not None and not -(2**63) <= value < 2**63:
                    return False
            for name in self._texts:
                if (text := row[name]) is not None and not text.isascii() and not _is_text(text):
                    return False
            for name in self._floats:
                if type(row[name]) is int and not -(2**63) <= row[name] < 2**63:
                    return False
            for name in self._instants:
                value = row[name]
                if type(value) is dt.datetime:
                    if value.tzinfo is not None:
                        return False
                elif value is None:
                    if name == self.clock:
                        return False
                elif not EARLIEST <= value < FARTHEST:
                    return False
        except KeyError:
            return False
        return True

    def is_row(self, value: Any) -> bool:
        """Whether a value is certainly one row and not a frame, checked quickly; False where a full check is needed."""
        return (
            type(value) is dict and type(value.get(self.clock)) in _PLAIN["time"] and value.get(self.clock) is not None
        )

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse rows without these columns."""
        known = list(names)
        for name, kind in self.columns.items():
            if self._from[name] not in known:
                raise self._missing(self._from[name], kind, known, "")

    def _of_frame(self, table: pl.DataFrame) -> pl.DataFrame:
        self.check_columns(table.columns)
        made = {}
        for name, kind in self.columns.items():
            own = table.get_column(self._from[name])
            made[name] = self._column(own.name, kind, own, own)
        self._check_times(made["time"])
        return pl.DataFrame(made)

    def _column(self, name: str, kind: str, column: pl.Series | None, values: Any) -> pl.Series:
        """Convert the values of one column to ``kind``; refuse values that do not convert."""
        if column is not None:
            made = _converted(column, kind)
            if made.null_count() == column.null_count():
                return made
            wrong = int((made.is_null() & column.is_not_null()).arg_true()[0])
        else:  # values of several types: each by itself
            singles = [_single(value, kind) for value in values]
            bad = (row for row, made in enumerate(singles) if made is None and values[row] is not None)
            wrong = next(bad, -1)
            if wrong < 0:
                return pl.Series(name, singles, dtype=TYPES[kind])
        raise FeedError(
            f"{self.source}: column {name!r}: {_shown(values[wrong])} in row {wrong}; expected {EXPECTED[kind]}"
        )

    def _without_numpy(self, name: str, kind: str, values: list[Any]) -> list[Any]:
        """Convert NumPy's times, whose units Polars does not see, to Python's; refuse its durations."""
        for row, value in enumerate(values):
            unit = getattr(getattr(value, "dtype", None), "kind", "")
            if unit == "m":
                raise FeedError(
                    f"{self.source}: column {name!r}: {_shown(value)} in row {row}; expected {EXPECTED[kind]}"
                )
            if unit == "M":
                values[row] = value.astype("datetime64[us]").item()
        return values

    def _check_times(self, times: pl.Series) -> None:
        if times.null_count():
            row = int(times.is_null().arg_true()[0])
            raise FeedError(
                f"{self.source}: column {self.clock!r}: no value in row {row}; expected an event time in each"
            )

    def _missing(self, name: str, kind: str, found: Iterable[str], where: str) -> FeedError:
        known = [str(each) for each in found]
        hint = did_you_mean(name, known)
        role = f"{kind}, the event time" if name == self.clock else kind
        within = f" in {where}" if where else ""
        columns = ", ".join(known) or "none"
        return FeedError(f"{self.source}: column {name!r} is missing{within}; expected {role}, found {columns}{hint}")

    @staticmethod
    def _in_order(table: pl.DataFrame) -> pl.DataFrame:
        return table if table.get_column("time").is_sorted() else table.sort("time", maintain_order=True)


def _series(values: list[Any], kind: str) -> pl.Series | None:
    """Return a column of Python values, if need be with a type of their own; None if they have no common type."""
    wanted = TYPES[kind]
    if kind == "time":
        first = next((value for value in values if value is not None), None)
        wanted = pl.Float64() if isinstance(first, int | float) else pl.String() if isinstance(first, str) else wanted
        if isinstance(first, dt.datetime) and first.tzinfo is not None:
            wanted = pl.Datetime("us", "UTC")
    for options in ({"dtype": wanted}, {"dtype": pl.Float64()} if kind == "int" else {}, {}):
        try:
            column = pl.Series(values, strict=True, **options)
        except PROBLEMS:
            continue
        if not isinstance(column.dtype, pl.Object):
            return column
    return None


def _converted(column: pl.Series, kind: str) -> pl.Series:
    """Convert a column to ``kind``; null where a value cannot be converted without loss."""
    wanted = TYPES[kind]
    dtype = column.dtype
    if dtype == wanted:
        return column
    if isinstance(dtype, pl.Categorical | pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    if isinstance(dtype, pl.Decimal) and kind in ("int", "bool"):
        return convert(column, kind)
    if isinstance(dtype, pl.Decimal):
        column, dtype = column.cast(pl.Float64), pl.Float64()
    nothing = pl.Series(column.name, [None] * len(column), dtype=wanted)
    if isinstance(dtype, pl.Null):
        return nothing
    if kind == "time":
        return _times(column)
    plain = dtype.is_numeric() or isinstance(dtype, pl.String | pl.Boolean)
    if kind == "bytes":
        return column.cast(wanted, strict=False) if isinstance(dtype, pl.String) else nothing
    if not plain and not (kind == "str" and isinstance(dtype, pl.Date | pl.Datetime)):
        return nothing
    if isinstance(dtype, pl.String):
        column = column.str.strip_chars()
        if kind == "bool":
            truths = {"true": True, "1": True, "false": False, "0": False}
            return column.str.to_lowercase().replace_strict(truths, default=None, return_dtype=pl.Boolean)
    if kind == "int" and dtype.is_float():
        whole = column == column.round()
        column = column.to_frame("v").select(pl.when(whole).then(pl.col("v"))).to_series()
    if kind == "bool" and dtype.is_numeric():
        column = column.to_frame("v").select(pl.when(pl.col("v").is_in([0, 1])).then(pl.col("v"))).to_series()
    return column.cast(wanted, strict=False)


def _times(column: pl.Series) -> pl.Series:
    """Convert times, seconds since 1970 or ISO 8601 text to times in UTC, as traces are read."""
    dtype = column.dtype
    if not (dtype.is_numeric() or isinstance(dtype, pl.Datetime | pl.Date | pl.String)):
        return pl.Series(column.name, [None] * len(column), dtype=TYPES["time"])
    return convert(column, "time").alias(column.name)


def _single(value: Any, kind: str) -> Any:
    """Convert one value to ``kind``; None if that is impossible."""
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a NumPy scalar
    if value is None or not isinstance(value, str | bytes | bool | int | float | dt.date):
        return None
    try:
        return _converted(pl.Series([value]), kind)[0]
    except PROBLEMS:
        return None


def _is_text(text: str) -> bool:
    """Whether UTF-8 can write a text: it has no half of a pair of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_NONE: Final = type(None)
#: Types of values that need no conversion.
_PLAIN: Final[Mapping[str, frozenset[type]]] = {
    "int": frozenset({int, _NONE}),
    "float": frozenset({float, int, _NONE}),
    "str": frozenset({str, _NONE}),
    "bool": frozenset({bool, _NONE}),
    "time": frozenset({float, int, dt.datetime, _NONE}),
    "bytes": frozenset({bytes, _NONE}),
}


def row_reader(plan: Plan, operator: str) -> RowReader:
    """Create the row reader of a ``python`` source of a plan."""
    return RowReader(operator, plan.schema(operator), plan.operators[operator].params["time"])


def check_rows(rows: Any, reader: RowReader) -> Any:
    """Check the rows for a source before anything starts; convert a frame to a table of the source's columns.

    Raises
    ------
    FeedError
        If these are not rows, or a generator that has been read, or a frame that is not as declared.
    """
    if single_use(rows):
        reader.check_columns(rows.schema.names)
        return rows
    if is_frame(rows):
        return reader.table(rows)
    if isinstance(rows, str | bytes | Mapping | pl.Series) or not isinstance(rows, Iterable | AsyncIterable):
        raise FeedError(
            f"{reader.source}: rows: a {type(rows).__name__}; expected a pandas, Polars or Arrow table, a Feed, or an "
            "iterable of tables or dictionaries"
        )
    ended = (inspect.isgenerator(rows) and inspect.getgeneratorstate(rows) == inspect.GEN_CLOSED) or (
        inspect.isasyncgen(rows) and rows.ag_frame is None
    )
    if ended:
        raise FeedError(f"{reader.source}: rows: a generator that has been read to its end; expected a new one")
    return rows
