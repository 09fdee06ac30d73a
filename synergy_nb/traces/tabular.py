"""Typed columns from tables of text (CSV, 6-column TCP traces) and from Parquet, and what is malformed in them.

Text goes through the CSV reader at once; only where lines do not all have the same number of fields, or a field does
not convert, is the text split again line by line, so that the complaint can give the number of the line. The second way
decides alone what is malformed: the first only ever accepts a whole file.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.catalogue import TRACE_SCHEMAS
from synergy_nb.plan.units import nearest

__all__ = ["Malformed", "hint", "read_csv", "read_parquet", "read_tcp", "separator_of"]

EXPECTED: Final = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "time": "seconds as a finite number, or an ISO 8601 date and time",
}
_PARSED: Final = {"int": TYPES["int"], "float": TYPES["float"]}  # what the CSV reader parses as we do
TIME_NAMES: Final = ("time", "timestamp", "ts", "datetime", "date")
SAMPLE: Final = 1000  # rows from which the types of CSV columns are taken when none are stated


class Malformed(msgspec.Struct, frozen=True):
    """What could not be parsed in a trace.

    Parameters
    ----------
    count, rows
        Malformed lines, and all lines that hold data.
    line, text
        Number (from 1) and text of the first malformed line; for Parquet the number of the row.
    field, value, expected
        Which field of that line, what it holds, and what it should hold.
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


# -- tables --------------------------------------------------------------------------------------------------------


def read_tcp(data: bytes) -> tuple[pl.DataFrame, Malformed | None]:
    """The table of a 6-column TCP trace; any run of blanks separates fields."""
    kinds = TRACE_SCHEMAS["tcp"]
    names = list(kinds)
    raw = _regular(data, " ", names, {**kinds, "time": "float"})
    if raw is not None:
        table, _, bad = _typed(raw, kinds, required=names)
        if bad is None:
            return table, None
    expected = "6 fields: timestamp source destination source-port destination-port bytes"
    return _judged(_split(data, " ", names, blanks=b"\t" in data or b"  " in data), kinds, names, expected, " ")


def read_csv(
    path: Path, data: bytes, columns: Mapping[str, str] | None, time: str | None
) -> tuple[pl.DataFrame, dict[str, str], Malformed | None]:
    """The table and schema of a CSV file with a header.

    ``columns`` and ``time`` as in :func:`synergy_nb.traces.tracefiles.load`. Files with quotes are split by Python's
    reader, about 1 million lines a second.

    Raises
    ------
    ValueError
        If the header or a stated column is wrong.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    head = data[: data.find(b"\n") + 1 or len(data)].decode("utf-8", "replace").strip("\r\n")
    separator = separator_of(head) or ","
    names = [name.strip() for name in next(csv.reader([head], delimiter=separator))]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled or not all(names):
        raise ValueError(f"{path}: line 1: columns {names}; expected a header of distinct names")
    clock = _time_column(path, names, columns, time)
    expected = f"{len(names)} fields as in the header"
    sample = _regular(data, separator, names, {}, header=True, rows=SAMPLE)
    if sample is not None:
        kinds = _csv_types(path, names, columns, clock, sample)
        raw = _regular(data, separator, names, kinds, header=True)
        if raw is not None:
            table, _, bad = _typed(raw.select(list(kinds)), kinds, required=[clock])
        if raw is None or bad is not None:
            table, malformed = _judged(_after_header(data, separator, names), kinds, [clock], expected, separator)
        else:
            malformed = None
    else:
        lines = _after_header(data, separator, names)
        kinds = _csv_types(path, names, columns, clock, lines.raw.head(SAMPLE))
        table, malformed = _judged(lines, kinds, [clock], expected, separator)
    table, schema = _clock_first(path, table, kinds, clock)
    return table, schema, malformed


def read_parquet(
    path: Path, columns: Mapping[str, str] | None, time: str | None
) -> tuple[pl.DataFrame, dict[str, str], Malformed | None]:
    """The table and schema of a Parquet file; arguments and errors as of :func:`read_csv`."""
    try:
        raw = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path}: damaged or cut-off Parquet file ({error}); expected a whole one") from None
    clock = _time_column(path, raw.columns, columns, time)
    kinds = {name: columns[name] for name in columns} if columns is not None else {}
    kinds.setdefault(clock, "time")
    for name in raw.columns if columns is None else ():
        dtype = raw.schema[name]
        kind = "time" if name == clock else _kind_of(dtype)
        if kind is None:
            raise ValueError(f"{path}: column {name!r} of type {dtype}; expected {', '.join(TYPES)}")
        kinds[name] = kind
    _check_columns(path, raw.columns, kinds)
    table, rows, bad = _typed(raw.select(list(kinds)), kinds, required=[clock])
    malformed = None
    if bad is not None:
        number, field, value, count = bad
        text = str(raw.row(number))
        malformed = Malformed(count, rows, number + 1, text, field, value, EXPECTED.get(kinds[field], "a value"))
    table, schema = _clock_first(path, table, kinds, clock)
    return table, schema, malformed


def _regular(
    data: bytes,
    separator: str,
    names: list[str],
    kinds: Mapping[str, str],
    *,
    header: bool = False,
    rows: int | None = None,
) -> pl.DataFrame | None:
    """The first ``rows`` lines, or all, by the CSV reader: columns of numbers as numbers, all others as text.

    None if some line has not as many fields as there are names, if a number is none, or if quotes make both uncertain.
    Numbers by the CSV reader cost an eighth of numbers by way of text.
    """
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if b'"' in data or data.count(separator.encode()) != (len(names) - 1) * lines:
        return None
    try:
        raw = pl.read_csv(
            data,
            separator=separator,
            has_header=header,
            schema={name: _PARSED.get(kinds.get(name, ""), pl.String()) for name in names},
            quote_char=None,
            encoding="utf8-lossy",
            n_rows=rows,
        )
    except pl.exceptions.PolarsError:
        return None
    if raw.height != lines - header and rows is None:
        return None
    return raw.with_columns(pl.col(pl.String).fill_null(""))  # absent and empty are the same in a text file


def _after_header(data: bytes, separator: str, names: list[str]) -> _Lines:
    lines = _quoted(data, separator, names) if b'"' in data else _split(data, separator, names, blanks=False)
    return lines._replace(raw=lines.raw.slice(1), numbers=lines.numbers[1:])


class _Lines(NamedTuple):
    """Lines split into fields: the fields as text, the number of each line, and the lines of another width."""

    raw: pl.DataFrame
    numbers: Sequence[int] | pl.Series
    odd: int
    first_odd: tuple[int, str]


def _split(data: bytes, separator: str, names: list[str], *, blanks: bool) -> _Lines:
    """Lines without quotes; ``blanks``: any run of blanks separates."""
    text = data.decode("utf-8", "replace")
    frame = pl.DataFrame({"line": pl.Series([text]).str.split("\n").explode()}).with_row_index("number", offset=1)
    line = pl.col("line").str.strip_chars_end("\r")
    if separator == " ":
        line = line.str.strip_chars()
    if blanks:
        line = line.str.replace_all(r"\s+", " ")
    frame = frame.with_columns(line).filter(pl.col("line") != "")
    fits = frame["line"].str.count_matches(separator, literal=True) == len(names) - 1
    good = frame.filter(fits)
    fields = good["line"].str.split_exact(separator, len(names) - 1).struct.unnest()
    odd = frame.filter(~fits)
    first = (int(odd["number"][0]), str(odd["line"][0])) if odd.height else (0, "")
    return _Lines(fields.rename(dict(zip(fields.columns, names, strict=True))), good["number"], odd.height, first)


def _quoted(data: bytes, separator: str, names: list[str]) -> _Lines:
    """Lines with quotes, which may hold separators and line ends: split one by one, so that each has its number."""
    reader = csv.reader(io.StringIO(data.decode("utf-8", "replace"), newline=""), delimiter=separator)
    schema = dict.fromkeys(names, pl.String())
    tables = []
    numbers: list[int] = []
    odd = 0
    first = (0, "")
    while rows := [(reader.line_num, row) for row in itertools.islice(reader, 100_000) if row]:
        good = [(number, row) for number, row in rows if len(row) == len(names)]
        if len(good) < len(rows) and not odd:
            first = next((number, separator.join(row)) for number, row in rows if len(row) != len(names))
        odd += len(rows) - len(good)
        numbers += [number for number, _ in good]
        tables.append(pl.DataFrame([row for _, row in good], schema=schema, orient="row"))
    return _Lines(pl.concat(tables), numbers, odd, first)


def _judged(
    lines: _Lines, kinds: Mapping[str, str], required: Sequence[str], expected: str, separator: str
) -> tuple[pl.DataFrame, Malformed | None]:
    """The typed table of ``lines`` and the first of what is malformed in them."""
    table, rows, bad = _typed(lines.raw.select(list(kinds)), kinds, required)
    rows += lines.odd
    if bad is None and not lines.odd:
        return table, None
    count = lines.odd + (bad[3] if bad is not None else 0)
    number, text = lines.first_odd
    if bad is not None:
        index, field, value, _ = bad
        if not lines.odd or lines.numbers[index] < number:
            text = separator.join(lines.raw.row(index))
            number = int(lines.numbers[index])
            return table, Malformed(count, rows, number, text, field, value, EXPECTED.get(kinds[field], "a value"))
    return table, Malformed(count, rows, number, text, "line", text, expected)


def _typed(
    raw: pl.DataFrame, kinds: Mapping[str, str], required: Sequence[str]
) -> tuple[pl.DataFrame, int, tuple[int, str, str, int] | None]:
    """Columns of ``raw`` as ``kinds``; rows that do not convert are left out and told.

    Returns
    -------
    table, rows, bad
        ``bad`` is None or (index of the first bad row, its field, its value, number of bad rows).
    """
    table = raw.select(_converted(raw.schema[name], name, kind) for name, kind in kinds.items())
    wrong = {}
    for name in kinds:
        empty = raw[name].is_null() if raw.schema[name] != pl.String() else raw[name].is_null() | (raw[name] == "")
        wrong[name] = table[name].is_null() if name in required else table[name].is_null() & ~empty
    keep = ~pl.DataFrame(wrong).select(pl.any_horizontal(pl.all())).to_series()
    if keep.all():
        return table, raw.height, None
    bad = (~keep).arg_true()
    index = int(bad[0])
    field = next(name for name in kinds if wrong[name][index])
    return table.filter(keep), raw.height, (index, field, str(raw[field][index]), len(bad))


def _converted(dtype: pl.DataType, name: str, kind: str) -> pl.Expr:
    column = pl.col(name)
    if kind == "time":
        return _time(dtype, column)
    if isinstance(dtype, pl.String):
        text = column.str.strip_chars()
        if kind == "bool":
            return text.str.to_lowercase().replace_strict(
                {"true": True, "1": True, "false": False, "0": False}, default=None, return_dtype=pl.Boolean
            )
        if kind in ("int", "float"):
            return text.cast(TYPES[kind], strict=False)
    return column.cast(TYPES[kind], strict=False)


def _time(dtype: pl.DataType, column: pl.Expr) -> pl.Expr:
    target = pl.Datetime("us")
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(target)
    if isinstance(dtype, pl.Date):
        return column.cast(target)
    if isinstance(dtype, pl.String):
        column = column.str.strip_chars()
    seconds = column.cast(pl.Float64, strict=False)
    seconds = pl.when(seconds.is_finite() & (seconds.abs() < 9e12)).then(seconds)
    exact = (seconds * 1_000_000).round().cast(pl.Int64).cast(target)
    if not isinstance(dtype, pl.String):
        return exact
    text = column.str.replace(r"^(\d{4}-\d{2}-\d{2})[Tt]", "$1 ").str.replace(r"[Zz]$", "")
    naive = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    day = text.str.to_date("%Y-%m-%d", strict=False).cast(target)
    zoned = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%#z", strict=False, time_unit="us")
    return pl.coalesce(exact, naive, day, zoned.dt.replace_time_zone(None))


# -- columns -------------------------------------------------------------------------------------------------------


def separator_of(line: str) -> str | None:
    """The mark that separates the columns of a header, if there is one."""
    counts = {mark: line.count(mark) for mark in (",", "\t", ";", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else None


def _time_column(path: Path, names: Sequence[str], columns: Mapping[str, str] | None, time: str | None) -> str:
    if time is None:
        stated = [name for name, kind in (columns or {}).items() if kind == "time" and name in names]
        time = next((name for name in (*TIME_NAMES, *stated[:1]) if name in names), "time")
    if time not in names:
        raise ValueError(
            f"{path}: time: column {time!r} is not there; expected one of {', '.join(names)}{hint(time, names)}"
        )
    return time


def _csv_types(
    path: Path, names: list[str], columns: Mapping[str, str] | None, clock: str, sample: pl.DataFrame
) -> dict[str, str]:
    if columns is not None:
        kinds = dict(columns)
        if clock != "time" and "time" in kinds and "time" not in names:
            del kinds["time"]  # the name under which the tuples will carry the column `clock`
        kinds[clock] = "time"
        _check_columns(path, names, kinds)
        return kinds
    kinds = {}
    for name in names:
        values = sample.select(pl.col(name)).filter(pl.col(name) != "")
        fits = (
            kind
            for kind in ("int", "float", "bool", "time")
            if values.height and not values.select(_converted(pl.String(), name, kind))[name].has_nulls()
        )
        kinds[name] = "time" if name == clock else next(fits, "str")
    return kinds


def _check_columns(path: Path, names: Sequence[str], kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        if kind not in TYPES:
            raise ValueError(
                f"columns: {name!r} of type {kind!r}; expected {', '.join(TYPES)}{hint(kind, tuple(TYPES))}"
            )
        if name not in names:
            raise ValueError(
                f"{path}: column {name!r} is not there; expected one of {', '.join(names)}{hint(name, names)}"
            )


def _clock_first(
    path: Path, table: pl.DataFrame, kinds: Mapping[str, str], clock: str
) -> tuple[pl.DataFrame, dict[str, str]]:
    """``table`` with its event time as first column, named ``time``."""
    others = {name: kind for name, kind in kinds.items() if name != clock}
    if "time" in others:
        raise ValueError(f"{path}: time: {clock!r}, but another column is named 'time'; expected one of the two")
    table = table.select(pl.col(clock).alias("time"), *others)
    return table, {"time": "time", **others}


def _kind_of(dtype: pl.DataType) -> str | None:
    if dtype.is_integer():
        return "int"
    if dtype.is_float() or dtype.is_decimal():
        return "float"
    if isinstance(dtype, pl.Datetime | pl.Date):
        return "time"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return "str"
    return {pl.Boolean(): "bool", pl.Binary(): "bytes"}.get(dtype)


def hint(name: str, known: Sequence[str]) -> str:
    """What to add to a message that refuses ``name``."""
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""
