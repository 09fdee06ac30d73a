"""Parser of web server logs to typed columns, block by block, with one regular expression per format."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.traces._records import LONE_RETURN, NOT_UTF8, decoded, numbered_lines
from synergy_nb.traces._typed_columns import Malformed, Tally
from synergy_nb.traces.text_files import UTF8, whole_lines

__all__ = ["LOGS", "log_block", "log_blocks"]

# Hosts are N+H, or "UNR name" where the archive kept a name: all text up to the first ": " before the date.
HTTP: Final = (
    r"^(?P<host>.+?): \w{3} (?P<time>\w{3} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}) "
    r"\((?P<file>.*?)\): (?P<operation>[^:]*): ?(?P<request>.*)$"
)
# The request ends with the first quote that status and bytes follow and no backslash precedes: what follows them, such
# as quoted fields and other numbers, is not read, and quotes in old logs, which are not escaped, are text.
NCSA: Final = (
    r"^(?P<host>\S+) .*?\[(?P<time>\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] "
    r'"(?P<request>(?:[^\\]|\\.)*?)" (?P<status>\d{3}) (?P<bytes>\d+|-)(?: .*)?$'
)
_SIZE: Final = "an integer of 64 bits, or -"
#: Format to the expression, the layout of its dates, and an example for messages.
LOGS: Final = {
    "http": (HTTP, "%b %d %H:%M:%S %Y", "'N+H: Tue Aug 22 00:00:00 1995 (/file): operation: request'"),
    "ncsa": (NCSA, "%d/%b/%Y:%H:%M:%S %z", "'host - - [01/Jul/1995:00:00:01 -0400] \"GET /x HTTP/1.0\" 200 6245'"),
}


def log_blocks(path: Path, kind: str, tally: Tally, encoding: str = UTF8) -> Iterator[pl.DataFrame]:
    """Yield the lines of a log as typed blocks in the order of the file; count malformed lines in ``tally``.

    Raises ValueError if the file cannot be read, see :func:`synergy_nb.traces.text_files.whole_lines`.
    """
    for number, block in whole_lines(path, encoding):
        table = log_block(block.removeprefix(codecs.BOM_UTF8) if number == 1 else block, number, kind, tally)
        if table.height:
            yield table


def log_block(data: bytes, number: int, kind: str, tally: Tally) -> pl.DataFrame:
    """Return whole lines of a log, of which the first has a ``number``, typed; count malformed ones in ``tally``."""
    pattern, date, example = LOGS[kind]
    text, broken = decoded(data)
    frame = numbered_lines(text, number)
    parsed = frame.with_columns(pl.col("line").str.extract_groups(pattern).alias("groups")).unnest("groups")
    when = pl.col("time").str.to_datetime(date, strict=False, time_unit="us")
    if "%z" in date:
        when = when.dt.replace_time_zone(None)  # polars has converted it to UTC
    read = parsed.with_columns(when)
    wrong = [pl.col("time").is_null()]
    if kind == "ncsa":
        read = read.with_columns(pl.col("bytes").replace("-", "0").cast(pl.Int64, strict=False))
        wrong.append(pl.col("bytes").is_null())
    if "\r" in text:
        wrong.append(pl.col("line").str.contains("\r", literal=True))
    if broken:
        wrong.append(pl.col("number").is_in([number + index for index, _ in broken]))
    good = ~read.select(pl.any_horizontal(wrong)).to_series()
    if good.all():
        tally.add(parsed.height)
        return _columns(read, kind)
    rejected = _each_malformed(parsed.filter(~good), read["time"].filter(~good), number, dict(broken), example)
    first = next(rejected)
    malformed = msgspec.structs.replace(first, count=int((~good).sum()), rows=parsed.height)
    tally.add(parsed.height, malformed, lines=chain([first], rejected))
    return _columns(read.filter(good), kind)


def _each_malformed(
    lines: pl.DataFrame, times: pl.Series, number: int, undecoded: Mapping[int, str], example: str
) -> Iterator[Malformed]:
    """Describe malformed lines; ``undecoded``: texts of those that are no UTF-8, by their places after ``number``."""
    for place, line in enumerate(lines.iter_rows(named=True)):
        yield _malformed(line, undecoded.get(line["number"] - number), times[place] is None, example)


def _malformed(line: dict[str, Any], undecoded: str | None, untimed: bool, example: str) -> Malformed:
    """Describe a malformed line: ``undecoded`` is its text if it is no UTF-8; if ``untimed``, its time is no date."""
    text = line["line"] if undecoded is None else undecoded
    field, value, expected = "line", text, example if undecoded is None else NOT_UTF8
    if undecoded is None and "\r" in text:
        expected = LONE_RETURN
    elif undecoded is None and line["time"] is not None:
        field, value, expected = ("time", line["time"], "a date") if untimed else ("bytes", line["bytes"], _SIZE)
    return Malformed(1, 1, line["number"], text, field, value, expected)


def _columns(parsed: pl.DataFrame, kind: str) -> pl.DataFrame:
    if kind == "ncsa":
        # "GET /x?q HTTP/1.0", and "/x" of HTTP 0.9 clients that left out the method
        path = pl.col("request").str.extract(r"^(?:[A-Za-z]+\s+)?([^\s?]+)").fill_null("")
        parsed = parsed.with_columns(path.alias("file"), pl.col("status").cast(pl.Int64))
    # The first directory; a name directly under the root counts as one unless it has an extension.
    directory = pl.col("file").str.extract(r"^(/[^/]+)/")
    bare = pl.col("file").str.extract(r"^(/[^/.]+)$")
    root = pl.when(pl.col("file") == "").then(pl.lit("")).otherwise(pl.lit("/"))
    return parsed.with_columns(pl.coalesce(directory, bare, root).alias("directory")).select(list(TRACE_SCHEMAS[kind]))
