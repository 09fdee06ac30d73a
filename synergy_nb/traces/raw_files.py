"""Raw files of any format as typed tables: recognised by their beginnings, read whole or from one byte to another.

A raw file is read once, to be stored in a better form. So all of its columns are taken, and each malformed line is
described, as far as the :class:`Tally` keeps them. How many are too many is a matter of the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import pyarrow.parquet as pq

from synergy_nb.plan.operators.sources import FORMATS, TRACE_SCHEMAS
from synergy_nb.plan.tables.column_kinds import column_kind
from synergy_nb.plan.terms.naming import NO_PATTERN, is_pattern
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.traces._captures import (
    CAPTURE_COLUMNS,
    capture_begins,
    capture_tables,
    is_capture,
    mean_record,
    packets_before,
)
from synergy_nb.traces._columns import clock_of, inferred, stream_schema, text_kinds
from synergy_nb.traces._local_times import states_zone, tables_in_utc, zone_of
from synergy_nb.traces._parquet import group_begins, parquet_blocks, rows_before, stored
from synergy_nb.traces._raw_lines import (
    COUNT_COLUMNS,
    LINE_FORMATS,
    count_tables,
    line_block,
    recognised_lines,
    zeek_columns,
    zeek_format,
)
from synergy_nb.traces._tabular import CsvLayout, csv_blocks, csv_layout, first_fields, row_begins, tcp_blocks
from synergy_nb.traces._typed_columns import Malformed, Tally, exactly
from synergy_nb.traces.first_lines import BOM
from synergy_nb.traces.line_tables import LineTables
from synergy_nb.traces.logs import log_block
from synergy_nb.traces.text_files import (
    LONGEST,
    UTF8,
    beginning,
    check_encoding,
    head,
    is_packed,
    is_utf8,
    lines_up_to,
    too_long,
    whole_lines,
)
from synergy_nb.traces.trace_files import sniff
from synergy_nb.traces.trace_sizes import unpacking

__all__ = [
    "RAW_FORMATS",
    "Malformed",
    "RawLayout",
    "Tally",
    "likely_rows",
    "lines_before",
    "may_be_divided",
    "part_begins",
    "raw_layout",
    "raw_tables",
]

#: Formats of plans, and others.
RAW_FORMATS: Final = tuple(sorted({*FORMATS, *LINE_FORMATS, "counts", "jsonl", "pcap", "zeek"}))
_SAMPLE: Final = 1000  # number of objects from which columns of JSON lines are inferred if none are stated
_SAMPLED: Final = 1 << 20  # bytes of the beginning in which these are searched
_FIRST: Final = 1 << 16  # bytes of the beginning from which the number of rows is estimated
_BLOCK: Final = 2 << 20  # bytes of a part of a file that are parsed at once


class RawLayout(msgspec.Struct, frozen=True):
    """What is known of a raw file before it is read, as a value that other processes get."""

    format: str
    # column to type: of the file, and of its tables, where the event time is the first column and named `time`
    columns: dict[str, str]
    schema: dict[str, str]
    clock: str  # column of the file with the event time
    encoding: str = UTF8
    quotes: bool | None = None
    unit: str | None = None  # unit of times that are numbers; None: seconds
    zone: str | None = None  # time zone of the event times; None: they state it, or are in UTC
    # of counts: time at which the period of the first line begins, and length of a period, microseconds
    start: int = 0
    step: int = 0


def raw_layout(
    path: Path,
    format: str | None = None,  # noqa: A002 - the parameter's name in plans
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    encoding: str = UTF8,
    quotes: bool | None = None,
    unit: str | None = None,
    zone: str | None = None,
    start: int | None = None,
    step: int | None = None,
) -> RawLayout:
    """Find the layout of a raw file by its beginning, as :func:`synergy_nb.traces.trace_files.opened` does.

    ``zone``: time zone of event times that state none; ``start``, ``step``: time of the first line of counts and length
    of a period, microseconds. Raises ``ValueError`` if it cannot be read, has none of :data:`RAW_FORMATS`, or lacks a
    stated column, or its times state their zone.
    """
    layout = _layout(path, format, columns, time, encoding, quotes, unit)
    if (wrong := next(filter(is_pattern, layout.schema), None)) is not None:
        raise ValueError(f"{path}: column {wrong!r}; expected {NO_PATTERN}: state columns=... without it, or rename it")
    if layout.format == "counts":
        if start is None or step is None:
            raise ValueError(
                f"{path}: format 'counts' without start and step; expected the time of its first line, and the length "
                "of a period"
            )
        layout = msgspec.structs.replace(layout, start=start, step=step)
    elif start is not None or step is not None:
        raise ValueError(
            f"{path}: start and step with format {layout.format!r}; expected them with format 'counts' only"
        )
    if zone is None:
        return layout
    zone = zone_of(zone)
    first = _first_times(path, layout)
    if first is None or states_zone(first):
        raise ValueError(f"{path}: time_zone: {zone!r}, but its times say which instants they are; expected None")
    return msgspec.structs.replace(layout, zone=zone)


def _first_times(path: Path, layout: RawLayout) -> pl.Series | None:
    """The first event times of a file as texts; None: they are instants."""
    if layout.format in ("combined", "counts", "ncsa", "pcap", "tcp", "zeek"):
        return None
    if layout.format == "parquet":
        dtype = pl.scan_parquet(path, glob=False, hive_partitioning=False).collect_schema()[layout.clock]
        local = isinstance(dtype, pl.Date) or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)
        return pl.Series([""]) if local else None
    text = beginning(path, _FIRST, layout.encoding)[0]
    if layout.format == "csv":
        return first_fields(path, layout.clock, layout.encoding, layout.quotes)
    if layout.format == "jsonl":
        return _texts(_columns_of_objects(path, layout.encoding)).get_column(layout.clock)
    lines = pl.Series(text.decode("utf-8", "replace").splitlines()[:100])
    return lines.str.extract(r"^(\S+)") if layout.format == "tcpdump" else lines.clear()


def _layout(
    path: Path,
    format: str | None,  # noqa: A002 - the parameter's name in plans
    columns: Mapping[str, str] | None,
    time: str | None,
    encoding: str,
    quotes: bool | None,
    unit: str | None,
) -> RawLayout:
    check_encoding(encoding)
    kind = format if format is not None else _recognised(path, encoding)
    if kind not in RAW_FORMATS:
        raise ValueError(f"format: {kind!r}; expected one of {', '.join(RAW_FORMATS)}{did_you_mean(kind, RAW_FORMATS)}")
    if kind == "parquet":
        if head(path)[:4] != b"PAR1":
            raise ValueError(f"{path}: not a Parquet file; expected one, or another format")
        table = stored(path, columns, time, unit)
        return RawLayout(kind, table.kinds, table.schema, table.clock, unit=unit)
    if kind == "csv":
        text = csv_layout(path, columns, time, encoding=encoding, quotes=quotes, unit=unit)
        return RawLayout(kind, text.kinds, text.schema, text.clock, encoding, text.quotes, unit)
    if kind == "jsonl":
        found = _columns_of_objects(path, encoding)
        names = list(found.columns) or list(columns or {})
        clock = clock_of(path, names, columns, time, lambda: inferred(_texts(found)))
        kinds = _kinds_of_objects(path, found, columns, clock)
        return RawLayout(kind, kinds, stream_schema(path, kinds, clock), clock, encoding, unit=unit)
    if kind == "pcap":
        head(path)  # raises an error if the file does not exist or is empty
        if not is_capture(path):
            raise ValueError(f"{path}: not a capture of packets; expected pcap or pcapng, or another format")
        return RawLayout(kind, dict(CAPTURE_COLUMNS), dict(CAPTURE_COLUMNS), "time")
    start = beginning(path, _FIRST, encoding)[0]  # raises an error if the file does not exist or is no text
    if kind == "zeek":
        try:
            kinds, clock = zeek_columns(start.decode("utf-8", "replace"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return RawLayout(kind, kinds, stream_schema(path, kinds, clock), clock, encoding)
    if kind == "counts":
        return RawLayout(kind, dict(COUNT_COLUMNS), dict(COUNT_COLUMNS), "time", encoding)
    if kind in LINE_FORMATS:
        fixed = dict(LINE_FORMATS[kind].columns)
        return RawLayout(kind, fixed, fixed, "time", encoding)
    schema = dict(TRACE_SCHEMAS[kind])
    return RawLayout(kind, schema, schema, "time", encoding)


def raw_tables(
    path: Path, layout: RawLayout, tally: Tally, begin: int = 0, end: int | None = None, *, judged: bool = False
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a raw file as tables, in the order of the file; count malformed lines in ``tally``.

    ``begin``, ``end``: bytes between which lines begin that are read, see :func:`part_begins`; lines are then counted
    from the first of these. None: up to the end. ``judged``: whether only the event time is wanted; of Parquet, other
    columns are then read only if they may be malformed. Raises ``ValueError`` if the file cannot be read.
    """
    tables = _tables(path, layout, tally, begin, end, judged=judged)
    return tables if layout.zone is None else tables_in_utc(tables, layout.zone)


def _tables(
    path: Path, layout: RawLayout, tally: Tally, begin: int, end: int | None, *, judged: bool
) -> Iterator[pl.DataFrame]:
    if layout.format == "parquet":
        kept = stored(path, layout.columns, layout.clock, layout.unit)
        return parquet_blocks(path, kept, tally, begin, end, judged=judged)
    if layout.format == "csv":
        return csv_blocks(path, _of_csv(path, layout), tally, layout.encoding, begin, end)
    if layout.format == "pcap":
        return _counted(capture_tables(path, begin, end), tally)
    blocks = whole_lines(path, layout.encoding) if end is None and not begin else _lines_between(path, begin, end)
    if layout.format == "tcp":
        return tcp_blocks(blocks, tally)
    if layout.format == "counts":
        return count_tables(blocks, layout.start, layout.step, tally)
    parse = _parser(path, layout, tally)
    return (table for number, data in blocks if (table := parse(data, number)).height)


def _counted(tables: Iterator[pl.DataFrame], tally: Tally) -> Iterator[pl.DataFrame]:
    for table in tables:
        tally.add(table.height)
        yield table


def _of_csv(path: Path, layout: RawLayout) -> CsvLayout:
    return csv_layout(
        path, layout.columns, layout.clock, encoding=layout.encoding, quotes=layout.quotes, unit=layout.unit
    )


def may_be_divided(layout: RawLayout) -> bool:
    """Whether a raw file may be read in parts, if it is not packed.

    A text has to be in UTF-8 for that, or copied to it.
    """
    return layout.format != "counts"


def part_begins(path: Path, layout: RawLayout, size: int) -> list[int]:
    """Bytes of a raw file, not packed, from which on it may be read in parts of about ``size`` bytes; 0: as a whole.

    A CSV file is read once for that, as its quoted fields may have line ends; of a capture, where its packets begin. A
    part of a Parquet file has whole row groups, however large they are.
    """
    if path.stat().st_size <= size or not may_be_divided(layout):
        return [0]
    if layout.format == "pcap":
        return capture_begins(path, size)
    if layout.format == "parquet":
        return group_begins(path, size)
    if layout.format == "csv":
        return row_begins(path, _of_csv(path, layout), size)
    return list(range(0, path.stat().st_size, size))


def lines_before(path: Path, layout: RawLayout, begin: int) -> int:
    """Number of lines, packets or rows of Parquet, of a raw file before those that begin from a byte on."""
    if layout.format == "pcap":
        return packets_before(path, begin)
    if layout.format == "parquet":
        return rows_before(path, begin)
    return lines_up_to(path, begin)


def likely_rows(path: Path, layout: RawLayout) -> float:
    """Number of rows that a raw file seems to have, from its size and its beginning."""
    if layout.format == "parquet":
        return float(pq.read_metadata(path).num_rows)
    size = path.stat().st_size * (unpacking(path) if is_packed(path) else 1.0)
    if layout.format == "pcap":
        return size / mean_record(path)
    text, whole = beginning(path, _FIRST, layout.encoding)
    lines = text.count(b"\n") + 1
    if whole:
        return float(lines)
    if not is_utf8(layout.encoding):
        text = text.decode(errors="replace").encode(layout.encoding, "replace")
    return size * lines / len(text)


def _parser(path: Path, layout: RawLayout, tally: Tally) -> Callable[[bytes, int], pl.DataFrame]:
    """Make the function of lines, and the number of the first of them, to a table."""
    if layout.format == "jsonl":
        others = {name: kind for name, kind in layout.schema.items() if name != "time"}
        params: dict[str, Any] = {
            "format": "jsonl", "columns": others, "time": layout.clock, "time_unit": layout.unit, "tolerance": 1.0,
        }  # fmt: skip
        lines = LineTables(str(path), layout.schema, params, tally)
        return lambda data, number: lines.take(data, number, last=True).table
    if layout.format == "zeek" or layout.format in LINE_FORMATS:
        zeek = layout.format == "zeek"
        form = zeek_format(layout.columns, layout.clock) if zeek else LINE_FORMATS[layout.format]
        return lambda data, number: exactly(
            line_block(data.removeprefix(BOM) if number == 1 else data, number, form, tally), layout.schema
        )
    return lambda data, number: log_block(data.removeprefix(BOM) if number == 1 else data, number, layout.format, tally)


def _lines_between(path: Path, begin: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin at a byte from ``begin`` on and before ``end``, in blocks, each with its first number.

    The line at which ``begin`` falls belongs to the part before, but for one that begins there.
    """
    number, rest = 1, b""
    with path.open("rb") as file:
        at = max(begin - 1, 0)
        file.seek(at)
        if begin:
            at += len(file.readline())
        while piece := file.read(_BLOCK):
            data = rest + piece
            if end is not None and at + len(data) >= end:
                last = data.find(b"\n", max(end - at - 1, 0)) + 1
                if end <= at or last:
                    if end > at and last:
                        yield number, data[:last]
                    return
            stop = data.rfind(b"\n") + 1
            if stop:
                yield number, data[:stop]
                number += data.count(b"\n", 0, stop)
            elif len(data) > LONGEST:
                raise too_long(path, number, begin)
            rest, at = data[stop:], at + stop
    if rest and (end is None or at < end):
        yield number, rest


# -- the beginning -----------------------------------------------------------------------------------------------------


def _recognised(path: Path, encoding: str) -> str:
    """Format of a file, by its beginning."""
    if is_capture(path):
        return "pcap"
    if head(path)[:4] != b"PAR1":
        lines = beginning(path, 1 << 16, encoding, RAW_FORMATS)[0].removeprefix(BOM).split(b"\n")
        first = [line.decode("utf-8", "replace").rstrip("\r") for line in lines[:50] if line.strip()]
        if sum(re.match(r"\s*\{.*\}\s*$", line) is not None for line in first) * 2 > len(first):
            return "jsonl"
        if (kind := recognised_lines(first)) is not None:
            return kind
    return sniff(path, encoding, RAW_FORMATS)


def _columns_of_objects(path: Path, encoding: str) -> pl.DataFrame:
    """The first objects of JSON lines as a table, of the columns that tables can have."""
    data, whole = beginning(path, _SAMPLED, encoding)
    lines = data.removeprefix(BOM).split(b"\n")[:_SAMPLE]
    if not whole and len(lines) < _SAMPLE:
        lines = lines[:-1]  # it may be cut off
    objects: list[dict[str, Any]] = []
    for line in lines:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    if not objects:
        raise ValueError(f"{path}: none of the first lines is an object in JSON; expected one a line")
    names = list(dict.fromkeys(name for each in objects for name in each))
    return pl.DataFrame({name: _column([each.get(name) for each in objects]) for name in names})


def _column(values: list[Any]) -> pl.Series:
    """A column of values; texts, if they have no type in common."""
    try:
        return pl.Series(values, strict=True) if any(value is not None for value in values) else _written(values)
    except (pl.exceptions.PolarsError, TypeError, OverflowError):
        pass
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return pl.Series(values, dtype=pl.Float64)
    return _written(values)


def _written(values: list[Any]) -> pl.Series:
    texts = [None if value is None else value if isinstance(value, str) else str(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


def _texts(table: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame({name: _written(table.get_column(name).to_list()).fill_null("") for name in table.columns})


def _kinds_of_objects(path: Path, found: pl.DataFrame, columns: Mapping[str, str] | None, clock: str) -> dict[str, str]:
    """Types of the columns of JSON lines: as stated, or as the first objects have them; texts may be dates or times."""
    if columns is not None:
        return text_kinds(path, list(dict.fromkeys([*found.columns, *columns])), columns, clock, pl.DataFrame())
    kinds: dict[str, str] = {}
    for name in found.columns:
        column = found.get_column(name)
        kind = column_kind(column.dtype)
        if kind is None:
            raise ValueError(f"{path}: column {name!r} of type {column.dtype}; state its type in columns")
        if kind == "str":
            guess = inferred(_texts(exactly(found, [name], name)))[name]
            kind = guess if guess in ("date", "time") else "str"
        kinds[name] = "time" if name == clock else kind
    return kinds
