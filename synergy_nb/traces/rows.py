"""Conversion of a notebook's rows to tables of a source's columns; rows that do not fit these are refused.

Values are converted where that is lossless: an integer to a number, 2.0 to an integer, text to a number or a date. Any
other value is refused with its column, its row and its value. None is NULL; an event time is never NULL.

What numbers in times count is a matter of the stream and not of a batch: without a stated unit they are seconds.
Whether they could be dates, such as 20260101, is asked at its first rows only; one warning tells of implausible years.
"""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import sys
import warnings
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan import Plan
from synergy_nb.plan.data_frames import DataFrameError, is_frame, normal, single_use, tables
from synergy_nb.plan.terms.column_types import UNSURE, family
from synergy_nb.plan.terms.units import did_you_mean, type_of
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.traces._typed_columns import convert, expected, value_at
from synergy_nb.traces.text_files import LONGEST
from synergy_nb.traces.times import BASIC_DATES, EARLIEST, FARTHEST, PER_SECOND, PLAUSIBLE, implausible, instant_of

__all__ = ["FeedError", "RowReader", "check_rows", "row_reader"]

PROBLEMS: Final = (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError)


class FeedError(ClusterError, ValueError):
    """A row, or a table, does not fit the columns that its source declares.

    Examples
    --------
    >>> from synergy_nb import Feed, FeedError
    >>> feed = Feed({"user": "str", "amount": "float"})
    >>> try:
    ...     feed.push({"time": 0.0, "user": "ann", "amount": "much"})
    ... except FeedError as error:
    ...     print(error)
    feed: column 'amount': 'much' in row 0; expected a number
    """


class RowReader:
    """Converts rows of any form to tables of a source's columns."""

    def __init__(self, source: str, columns: Mapping[str, str], clock: str = "time", unit: str | None = None) -> None:
        self.source = source  # name of the source, for errors
        self.unit = unit  # unit of times that are numbers, see times
        self._settled = unit  # without a stated unit, seconds once the first rows are no dates
        self._told = unit is not None  # whether implausible times cause no warning any more
        self._low, self._high = self._bounds()
        self.columns = {"time": "time", **columns}  # column to type of the stream, including time
        self.clock = clock  # column of the rows with the event time
        self._from = {name: clock if name == "time" else name for name in self.columns}
        self._schema = {name: TYPES[kind] for name, kind in self.columns.items()}
        self._plain = [(self._from[name], _PLAIN[family(kind)]) for name, kind in self.columns.items()]
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
            return self._in_order(self._of_frame(rows))
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
        values = {}
        for name, kind in self.columns.items():
            own = self._from[name]
            try:
                values[name] = [row[own] for row in rows]
            except KeyError:
                row = next(row for row in rows if own not in row)
                raise self._missing(own, kind, row, f"row {_shown(row)}") from None
        return self.of_values(values)

    def of_values(self, columns: Mapping[str, list[Any]]) -> pl.DataFrame:
        """Return a table of the values of each column of the stream."""
        made = {}
        for name, kind in self.columns.items():
            own = self._from[name]
            values = self._plain_values(own, kind, columns[name])
            made[name] = self._column(own, kind, _series(values, kind), values)
        return self._checked(pl.DataFrame(made, schema=self._schema))

    def as_given(self, rows: Any) -> pl.DataFrame:
        """Return a table of a Polars table, or of dictionaries, in their order: a batch of a source is no unit to sort.

        Raises ``FeedError`` as :meth:`table` does.
        """
        if isinstance(rows, pl.DataFrame):
            same = self.clock == "time" and rows.schema == self._schema and not rows.get_column("time").null_count()
            return rows if same else self._of_frame(rows)
        wrong = next((row for row in rows if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise FeedError(
                f"{self.source}: {_shown(wrong)}; expected a dictionary with {', '.join(self._from.values())}"
            )
        return self.of_rows(rows)

    def accepts(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is certainly as declared, checked in a microsecond; False where a full check is needed."""
        low, high = self._low, self._high
        try:
            for name, kinds in self._plain:
                if type(row[name]) not in kinds:
                    return False
            for name in self._whole:
                if (value := row[name]) is not None and not -(2**63) <= value < 2**63:
                    return False
            for name in self._texts:
                if (text := row[name]) is not None and (
                    len(text) > LONGEST // 4 or not (text.isascii() or _is_text(text))
                ):
                    return False
            for name in self._floats:
                if type(row[name]) is int and not -(2**53) <= row[name] <= 2**53:
                    return False
            for name in self._instants:
                value = row[name]
                if type(value) is dt.datetime:
                    if value.tzinfo is not None:
                        return False
                elif value is None:
                    if name == self.clock:
                        return False
                elif not low <= value < high or (self._settled is None and BASIC_DATES[0] <= value <= BASIC_DATES[1]):
                    return False
        except KeyError:
            return False
        if self._settled is None:
            self._settled = "s"
        return True

    def _bounds(self) -> tuple[int, int]:
        """Bounds of the numbers that are times for certain, and need no warning."""
        per = PER_SECOND.get(self.unit or "s", 0)  # a date is never certain
        low, high = (EARLIEST, FARTHEST) if self._told else PLAUSIBLE
        return low * per, high * per

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
            own = table.get_column(self._from[name]).alias("")  # the event time's may be a pattern to Polars
            made[name] = self._column(self._from[name], kind, own, own)
        return self._checked(pl.DataFrame(made))

    def _column(self, name: str, kind: str, column: pl.Series | None, values: Any) -> pl.Series:
        """Convert the values of one column to ``kind``; refuse values that do not convert."""
        if column is not None:
            made = _converted(column, kind, self._settled)
            if made.null_count() == column.null_count():
                if name == self.clock and self.unit is None:
                    self._tell(name, column, made)
                return made
            wrong = int((made.is_null() & column.is_not_null()).arg_true()[0])
        else:  # values of several types: each by itself
            singles = [_single(value, kind, self._settled) for value in values]
            bad = (row for row, made in enumerate(singles) if made is None and values[row] is not None)
            wrong = next(bad, -1)
            if wrong < 0:
                return pl.Series(name, singles, dtype=TYPES[kind])
        raise self._wrong(
            name, kind, value_at(values, wrong) if isinstance(values, pl.Series) else values[wrong], wrong
        )

    def _plain_values(self, name: str, kind: str, values: list[Any]) -> list[Any]:
        """Convert NumPy's times, whose units Polars does not see, to Python's.

        Its durations are refused, and so is what Polars would convert with a loss, or to what it does not mean.
        """
        if set(map(type, values)) <= _UNCHANGED[family(kind)]:
            return values
        for row, value in enumerate(values):
            if isinstance(value, int | decimal.Decimal) and kind == "float" and not _is_float(value):
                raise self._wrong(name, kind, value, row)
            unit = getattr(getattr(value, "dtype", None), "kind", "")
            if unit == "m" and kind == "duration":
                values[row] = value.astype("m8[us]").item()
            elif unit == "m" or (kind in ("time", "duration") and (unit == "b" or isinstance(value, bool))):
                raise self._wrong(name, kind, value, row)
            if unit == "M":
                try:
                    values[row] = instant_of(value)
                except OverflowError:
                    raise self._wrong(name, kind, value, row) from None
        return values

    def _wrong(self, name: str, kind: str, value: Any, row: int) -> FeedError:
        wanted = expected(kind, value, self._settled)
        return FeedError(f"{self.source}: column {name!r}: {_shown(value)} in row {row}; expected {wanted}")

    def _tell(self, name: str, column: pl.Series, made: pl.Series) -> None:
        """Warn of implausible event times, once."""
        if not self._told and (text := implausible(column, made)):
            self._told = True
            self._low, self._high = self._bounds()
            warnings.warn(f"{self.source}: column {name!r}: {text}", stacklevel=_callers_level())

    def _checked(self, table: pl.DataFrame) -> pl.DataFrame:
        """Refuse rows without an event time, and those that are too long for a message between peers."""
        times = table.get_column("time")
        if times.null_count():
            row = int(times.is_null().arg_true()[0])
            raise FeedError(
                f"{self.source}: column {self.clock!r}: no value in row {row}; expected an event time in each"
            )
        if table.height:
            self._settled = self._settled or "s"
        if table.estimated_size() > LONGEST:
            self._check_lengths(table)
        return table

    def _check_lengths(self, table: pl.DataFrame) -> None:
        sizes = [
            pl.col(name).str.len_bytes() if kind == "str" else pl.col(name).bin.size()
            for name, kind in self.columns.items()
            if kind in ("str", "bytes")
        ]
        total = table.select(pl.sum_horizontal(sizes)).to_series() if sizes else pl.Series([0])
        most: Any = total.max()
        if most > LONGEST:
            raise FeedError(
                f"{self.source}: {most} bytes in row {total.arg_max()}; expected at most {LONGEST >> 20} MB in a row"
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
        number = pl.Int64() if isinstance(first, int) else pl.Float64()
        wanted = number if isinstance(first, int | float) else pl.String() if isinstance(first, str) else wanted
        if isinstance(first, dt.datetime) and first.tzinfo is not None:
            wanted = pl.Datetime("us", "UTC")
    own = family(kind) in UNSURE
    for options in ({} if own else {"dtype": wanted}, {"dtype": pl.Float64()} if kind in ("int", "time") else {}, {}):
        try:
            column = pl.Series(values, strict=True, **options)
        except PROBLEMS:
            continue
        if not isinstance(column.dtype, pl.Object):
            return column
    return None


def _converted(column: pl.Series, kind: str, unit: str | None) -> pl.Series:
    """Convert a column to ``kind``, as traces are read; null where a value cannot be converted without loss."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if isinstance(column.dtype, pl.Null):
        return pl.Series(column.name, [None] * len(column), dtype=TYPES[kind])
    return convert(column, kind, unit).alias(column.name)


def _single(value: Any, kind: str, unit: str | None) -> Any:
    """Convert one value to ``kind``; None if that is impossible."""
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()  # a NumPy scalar
    if value is None or not isinstance(
        value, str | bytes | bool | int | float | dt.date | dt.timedelta | decimal.Decimal
    ):
        return None
    try:
        return _converted(pl.Series([value]), kind, unit)[0]
    except PROBLEMS:
        return None


def _is_float(value: int | decimal.Decimal) -> bool:
    """Whether a float has the digits of an integer or a decimal."""
    try:
        near = float(value)
    except OverflowError:
        return False
    return int(near) == value if isinstance(value, int) else near != near or decimal.Decimal(repr(near)) == value  # noqa: PLR0124


def _is_text(text: str) -> bool:
    """Whether UTF-8 can write a text: it has no half of a pair of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _callers_level() -> int:
    """Stack level of the user's line that led to a warning of the function that calls this one."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("synergy_nb."):
        frame, level = frame.f_back, level + 1
    return level


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
    "date": frozenset({dt.date, _NONE}),
    "duration": frozenset({dt.timedelta, _NONE}),
    **dict.fromkeys(("decimal", "list", "struct"), frozenset({_NONE})),  # of which parts have to be checked
}
#: Types of values that Polars converts without a loss.
_UNCHANGED: Final = {**_PLAIN, "float": _PLAIN["float"] - {int}}


def row_reader(plan: Plan, operator: str) -> RowReader:
    """Create the row reader of a ``python`` source of a plan."""
    params = plan.operators[operator].params
    return RowReader(operator, plan.schema(operator), params["time"], params.get("time_unit"))


def check_rows(rows: Any, reader: RowReader) -> Any:
    """Check the rows for a source before anything starts; convert a frame to a table of the source's columns.

    Raises FeedError if these are not rows, or a generator that has been read, or a frame that is not as declared.
    """
    if single_use(rows):
        reader.check_columns(rows.schema.names)
        return rows
    if is_frame(rows):
        return reader.table(rows)
    if isinstance(rows, str | bytes | Mapping | pl.Series) or not isinstance(rows, Iterable | AsyncIterable):
        raise FeedError(
            f"{reader.source}: rows: {type_of(rows)}; expected a pandas, Polars or Arrow table, a Feed, or an "
            "iterable of tables or dictionaries"
        )
    ended = (inspect.isgenerator(rows) and inspect.getgeneratorstate(rows) == inspect.GEN_CLOSED) or (
        inspect.isasyncgen(rows) and rows.ag_frame is None
    )
    if ended:
        raise FeedError(f"{reader.source}: rows: a generator that has been read to its end; expected a new one")
    return rows
