"""Trace files: recognised, parsed into typed columns, and what is malformed in them named.

A file is read whole and parsed by columns. ``http`` and ``ncsa`` logs go through one regular expression a format,
``csv`` and ``tcp`` through the CSV reader; only a file whose lines do not all have the same number of fields is split
again line by line, so that the complaint can give the number of the line. There are no streams in this module:
:mod:`synergy_nb.traces` makes batches of the tables.
"""

from __future__ import annotations

import difflib
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from synergy_nb.plan.catalogue import FORMATS, TRACE_SCHEMAS
from synergy_nb.traces.tabular import Malformed, hint, read_csv, read_parquet, read_tcp, separator_of

__all__ = ["Malformed", "Trace", "load", "sniff"]

# Hosts are N+H, or "UNR name" where the archive left a name as it was: all up to the first ": " before the date.
HTTP: Final = (
    r"^(?P<host>.+?): \w{3} (?P<time>\w{3} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}) "
    r"\((?P<file>.*?)\): (?P<operation>[^:]*): ?(?P<request>.*)$"
)
NCSA: Final = (
    r"^(?P<host>\S+) .*?\[(?P<time>\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] "
    r'"(?P<request>.*)" (?P<status>\d{3}) (?P<bytes>\d+|-)(?: .*)?$'
)
TCP_LINE: Final = r"^\s*\d+(\.\d+)?\s+\S+\s+\S+\s+\d+\s+\d+\s+\d+\s*$"
LOGS: Final = {
    "http": (HTTP, "%b %d %H:%M:%S %Y", "'N+H: Tue Aug 22 00:00:00 1995 (/file): operation: request'"),
    "ncsa": (NCSA, "%d/%b/%Y:%H:%M:%S %z", "'host - - [01/Jul/1995:00:00:01 -0400] \"GET /x HTTP/1.0\" 200 6245'"),
}
PACKED: Final = {b"\x1f\x9d": "compress (.Z)", b"PK": "zip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}
BLOCK: Final = 32 << 20  # bytes of a log parsed at once: bounds the memory of intermediate columns


class Trace(msgspec.Struct, frozen=True):
    """A parsed trace: its ``table`` in the order of the file, its ``schema`` (column to type), and what was skipped."""

    path: str
    format: str
    table: pl.DataFrame
    schema: dict[str, str]
    malformed: Malformed | None


def load(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the parameter's name in plans
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    strict: bool = False,
    tolerance: float = 0.01,
) -> Trace:
    """Parse the trace at ``path``.

    Parameters
    ----------
    format
        One of ``csv``, ``http`` (Internet Traffic Archive, SDSC), ``ncsa`` (common log format), ``parquet``, ``tcp``
        (6 columns); recognised if None. Text may be gzipped.
    columns
        For CSV and Parquet: the columns to keep, name to type (int, float, str, bool, time, bytes). None: all, with
        types taken from the file.
    time
        The column that holds the event time; it becomes ``time``. Numbers are seconds. None: ``time`` or, failing
        that, ``timestamp``, ``ts``, ``datetime``, ``date``.
    strict
        Refuse any malformed line.
    tolerance
        The share of lines that may be malformed and are skipped if not ``strict``.

    Raises
    ------
    ValueError
        If there is no such file, or it is empty, cut off, of another format, or malformed beyond ``tolerance``: one
        message that names path, line, field, value and what was expected.
    """
    path = Path(path)
    kind = format if format is not None else sniff(path)
    if kind not in FORMATS:
        raise ValueError(f"format: {kind!r}; expected one of {', '.join(FORMATS)}{hint(kind, FORMATS)}")
    if kind == "parquet":
        if _head(path)[:4] != b"PAR1":
            raise ValueError(f"{path}: not a Parquet file{_other_format(path, kind)}")
        table, schema, malformed = read_parquet(path, columns, time)
    else:
        content = _content(path)
        if kind in LOGS:
            table, malformed = _log(content, kind)
            schema = dict(TRACE_SCHEMAS[kind])
        elif kind == "tcp":
            table, malformed = read_tcp(content)
            schema = dict(TRACE_SCHEMAS[kind])
        else:
            table, schema, malformed = read_csv(path, content, columns, time)
    if malformed is not None:
        if strict:
            raise ValueError(f"{path}: {malformed}")
        if malformed.count > tolerance * malformed.rows:
            raise ValueError(
                f"{path}: {malformed.count} of {malformed.rows} lines are not of format {kind!r} "
                f"(up to {tolerance * 100:g} % are skipped); {malformed}{_other_format(path, kind)}"
            )
    if table.is_empty():
        raise ValueError(f"{path}: no tuples; expected at least one line of format {kind!r}")
    return Trace(str(path), kind, table, schema, malformed)


def sniff(path: str | Path) -> str:
    """The format of the trace at ``path``, from its first lines.

    Raises
    ------
    ValueError
        If the file cannot be read or is of none of the known formats.
    """
    path = Path(path)
    if _head(path)[:4] == b"PAR1":
        return "parquet"
    lines = [line for line in _text(_content(path, 1 << 16)).split("\n")[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[: max(len(lines) - 1, 1)]  # the last one may be cut off
    for kind, (pattern, _, _) in LOGS.items():
        if sum(re.match(pattern, line) is not None for line in lines) * 2 > len(lines):
            return kind
    if sum(re.match(TCP_LINE, line) is not None for line in lines) * 2 > len(lines):
        return "tcp"
    if lines and re.match(r'^\s*["\w]', lines[0]) and separator_of(lines[0]) is not None:
        return "csv"
    first = lines[0][:80] if lines else ""
    raise ValueError(f"{path}: format not recognised (first line {first!r}); expected one of {', '.join(FORMATS)}")


# -- bytes ---------------------------------------------------------------------------------------------------------


def _head(path: Path) -> bytes:
    if path.is_dir():
        raise ValueError(f"{path}: a directory; expected a trace file")
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*")], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{path}: no such file; expected a trace file{hint}") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if not head:
        raise ValueError(f"{path}: empty; expected a trace")
    return head


def _content(path: Path, limit: int = -1) -> bytes:
    """The bytes of a text trace, unpacked; at most ``limit`` of them if that is not negative."""
    head = _head(path)
    packed = PACKED.get(head[:2])
    if packed is None and head[257:262] == b"ustar":
        packed = "tar"
    if packed is not None:
        raise ValueError(f"{path}: packed by {packed}; expected a plain or gzipped trace, so unpack it first")
    if head[:4] == b"PAR1":
        raise ValueError(f"{path}: a Parquet file; expected text, or format 'parquet'")
    if head[:2] != b"\x1f\x8b":
        with path.open("rb") as file:
            data = file.read(limit)
    else:
        pieces = []
        size = 0
        try:
            with gzip.open(path) as unpacked:
                while (limit < 0 or size < limit) and (piece := unpacked.read(1 << 20)):
                    pieces.append(piece)
                    size += len(piece)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}: damaged or cut-off gzip file after {size} bytes of text ({error}); expected a whole one"
            ) from None
        data = b"".join(pieces)
    if not data.strip():
        raise ValueError(f"{path}: empty; expected a trace")
    if b"\0" in data[:512]:
        raise ValueError(f"{path}: binary data; expected one of the formats {', '.join(FORMATS)}")
    return data


def _text(data: bytes) -> str:
    """Text of a log: bytes that are not UTF-8 (old logs hold Latin-1) become replacement characters."""
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


# -- logs ----------------------------------------------------------------------------------------------------------


def _blocks(data: bytes) -> Iterator[tuple[int, str]]:
    """Blocks of whole lines, each with the number of its first line."""
    start, number = 0, 1
    while start < len(data):
        stop = len(data) if len(data) - start <= BLOCK else data.rfind(b"\n", start, start + BLOCK) + 1
        if stop <= start:  # one line longer than a block
            stop = data.find(b"\n", start) + 1 or len(data)
        block = data[start:stop]
        yield number, _text(block)
        start, number = stop, number + block.count(b"\n")


def _log(data: bytes, kind: str) -> tuple[pl.DataFrame, Malformed | None]:
    pattern, date, example = LOGS[kind]
    tables = []
    rows = count = 0
    first: tuple[int, str] | None = None
    for number, text in _blocks(data):
        lines = pl.Series("line", [text]).str.split("\n").explode().str.strip_chars_end("\r")
        frame = pl.DataFrame({"line": lines}).with_row_index("number", offset=number).filter(pl.col("line") != "")
        parsed = frame.with_columns(pl.col("line").str.extract_groups(pattern).alias("groups")).unnest("groups")
        when = pl.col("time").str.to_datetime(date, strict=False, time_unit="us")
        if "%z" in date:
            when = when.dt.replace_time_zone(None)  # polars has converted it to UTC
        parsed = parsed.with_columns(when)
        bad = parsed.filter(pl.col("time").is_null())
        rows += parsed.height
        count += bad.height
        if first is None and bad.height:
            first = (bad["number"][0], bad["line"][0])
        tables.append(_log_columns(parsed.filter(pl.col("time").is_not_null()), kind))
    table = pl.concat(tables) if len(tables) > 1 else tables[0]
    if first is None:
        return table, None
    match = re.match(pattern, first[1])
    field, value, expected = ("time", match["time"], "a date") if match else ("line", first[1], example)
    return table, Malformed(count, rows, first[0], first[1], field, value, expected)


def _log_columns(parsed: pl.DataFrame, kind: str) -> pl.DataFrame:
    if kind == "ncsa":
        # "GET /x?q HTTP/1.0", and "/x" of HTTP 0.9 clients that left out the method
        path = pl.col("request").str.extract(r"^(?:[A-Za-z]+\s+)?([^\s?]+)").fill_null("")
        size = pl.col("bytes").replace("-", "0").cast(pl.Int64)
        parsed = parsed.with_columns(path.alias("file"), pl.col("status").cast(pl.Int64), size)
    # The first directory; a name directly under the root counts as one unless it has an extension.
    directory = pl.col("file").str.extract(r"^(/[^/]+)/")
    bare = pl.col("file").str.extract(r"^(/[^/.]+)$")
    root = pl.when(pl.col("file") == "").then(pl.lit("")).otherwise(pl.lit("/"))
    return parsed.with_columns(pl.coalesce(directory, bare, root).alias("directory")).select(list(TRACE_SCHEMAS[kind]))


def _other_format(path: Path, kind: str) -> str:
    try:
        found = sniff(path)
    except ValueError:
        return ""
    return f"; it looks like format {found!r}" if found != kind else ""
