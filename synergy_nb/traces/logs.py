"""Parser of web server logs to typed columns, block by block, with one regular expression per format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.traces.text_files import whole_lines
from synergy_nb.traces.typed_columns import Malformed, Tally

__all__ = ["LOGS", "log_blocks"]

# Hosts are N+H, or "UNR name" where the archive kept a name: all text up to the first ": " before the date.
HTTP: Final = (
    r"^(?P<host>.+?): \w{3} (?P<time>\w{3} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}) "
    r"\((?P<file>.*?)\): (?P<operation>[^:]*): ?(?P<request>.*)$"
)
NCSA: Final = (
    r"^(?P<host>\S+) .*?\[(?P<time>\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] "
    r'"(?P<request>.*)" (?P<status>\d{3}) (?P<bytes>\d+|-)(?: .*)?$'
)
#: Format to the expression, the layout of its dates, and an example for messages.
LOGS: Final = {
    "http": (HTTP, "%b %d %H:%M:%S %Y", "'N+H: Tue Aug 22 00:00:00 1995 (/file): operation: request'"),
    "ncsa": (NCSA, "%d/%b/%Y:%H:%M:%S %z", "'host - - [01/Jul/1995:00:00:01 -0400] \"GET /x HTTP/1.0\" 200 6245'"),
}


def log_blocks(path: Path, kind: str, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the lines of a log as typed blocks in the order of the file; count malformed lines in ``tally``.

    Bytes that are not UTF-8 (old logs hold Latin-1) become replacement characters.

    Raises
    ------
    ValueError
        If the file cannot be read, see :func:`synergy_nb.traces.text_files.whole_lines`.
    """
    pattern, date, example = LOGS[kind]
    for number, data in whole_lines(path):
        text = data.decode("utf-8", "replace")
        lines = pl.Series("line", [text.removeprefix("\ufeff") if number == 1 else text])
        lines = lines.str.split("\n").explode().str.strip_chars_end("\r")
        frame = pl.DataFrame({"line": lines}).with_row_index("number", offset=number).filter(pl.col("line") != "")
        parsed = frame.with_columns(pl.col("line").str.extract_groups(pattern).alias("groups")).unnest("groups")
        when = pl.col("time").str.to_datetime(date, strict=False, time_unit="us")
        if "%z" in date:
            when = when.dt.replace_time_zone(None)  # polars has converted it to UTC
        parsed = parsed.with_columns(when)
        bad = parsed.filter(pl.col("time").is_null())
        tally.add(parsed.height, _malformed(bad, parsed.height, pattern, example) if bad.height else None)
        table = _columns(parsed.filter(pl.col("time").is_not_null()), kind)
        if table.height:
            yield table


def _malformed(bad: pl.DataFrame, rows: int, pattern: str, example: str) -> Malformed:
    number, text = int(bad["number"][0]), str(bad["line"][0])
    match = re.match(pattern, text)
    field, value, expected = ("time", match["time"], "a date") if match else ("line", text, example)
    return Malformed(bad.height, rows, number, text, field, value, expected)


def _columns(parsed: pl.DataFrame, kind: str) -> pl.DataFrame:
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
