"""The same query as one batch in DuckDB, whose rows the peers' rows must equal.

It uses no code of the platform: DuckDB reads the raw file (a text trace line by line, by regular expressions), and
windows, ranks and order are plain SQL. Only generated packets, which are in no file, are passed as Parquet.
"""

from __future__ import annotations

import gzip
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import polars as pl

from synergy_nb.plan.terms.units import counted

COLUMNS: Final = ("window_start", "window_end", "first", "second", "total")
Row = tuple[datetime, datetime, Any, Any, int]

_HTTP: Final = (
    r"^(.+?): [A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4}) \((.*?)\): ([^:]*):",
    "['host', 'month', 'day', 'clock', 'year', 'file', 'operation']",
)
_NCSA: Final = (
    r'^(\S+) .*?\[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d:\d\d:\d\d) ([+-])(\d\d)(\d\d)\] "(.*)" (\d{3}) (\d+|-)',
    "['host', 'day', 'month', 'year', 'clock', 'sign', 'hours', 'minutes', 'request', 'status', 'size']",
)
_TCP: Final = (
    r"^\s*(\d+(?:\.\d*)?)\s+(\S+)\s+(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$",
    "['clock', 'source', 'destination', 'source_port', 'destination_port', 'size']",
)
_DIRECTORY: Final = """
    CASE WHEN regexp_matches(file, '^/[^/]+/') THEN regexp_extract(file, '^/[^/]+')
         WHEN regexp_full_match(file, '/[^/.]+') THEN file
         WHEN file = '' THEN '' ELSE '/' END"""
_FIELDS: Final = {
    "http": f"""
        SELECT strptime(day || ' ' || month || ' ' || year || ' ' || clock, '%d %b %Y %H:%M:%S') AS time,
               host, {_DIRECTORY} AS directory, operation FROM fields""",  # noqa: S608
    "ncsa": f"""
        SELECT strptime(day || ' ' || month || ' ' || year || ' ' || clock, '%d %b %Y %H:%M:%S')
                 - (CASE sign WHEN '-' THEN -1 ELSE 1 END)
                   * (hours::INTEGER * 60 + minutes::INTEGER) * INTERVAL 1 MINUTE AS time,
               host, {_DIRECTORY} AS directory, status::INTEGER AS status,
               CASE size WHEN '-' THEN 0 ELSE size::BIGINT END AS bytes
        FROM (SELECT *, regexp_extract(request, '^(?:[A-Za-z]+\\s+)?([^\\s?]+)', 1) AS file FROM fields)""",  # noqa: S608
    "tcp": """
        SELECT make_timestamp(round(clock::DOUBLE * 1000000)::BIGINT) AS time, source, destination,
               size::BIGINT AS bytes FROM fields""",
}


class Check(NamedTuple):
    """Comparison of two lists of rows: whether they are equal, and if not, the first difference."""

    equal: bool
    rows: int
    difference: str = ""


def expected(
    *,
    # path, format: the trace: `http`, `ncsa`, `tcp`, `csv` or `parquet`; for `packets`, `table` holds the tuples
    path: str,
    format: str,  # noqa: A002 - as in plans
    clock: str = "time",  # column of a CSV or Parquet file that holds the event time
    # pair, where, value: columns that make the pair, condition of the counted tuples, and the aggregate
    pair: tuple[str, str],
    where: str,
    value: str,
    # window, fraction: length of the windows, seconds, and share of the pairs that a pair must exceed
    window: int,
    fraction: float,
    table: pl.DataFrame | None = None,
) -> list[Row]:
    """Rows of the query, in order."""
    with tempfile.TemporaryDirectory(prefix="synergy-check-") as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")  # the bar would be written into the output of the command
        if table is not None:
            path, format = str(Path(folder) / "packets.parquet"), "parquet"  # noqa: A001
            table.write_parquet(path)
        tuples = (
            _files(connection, path, format, clock)
            if format in ("csv", "parquet")
            else _lines(path, format, Path(folder))
        )
        return connection.execute(
            f"""
            WITH tuples AS ({tuples}),
            totals AS (
                SELECT time_bucket(INTERVAL {window} SECOND, time, TIMESTAMP '1970-01-01') AS window_start,
                       {pair[0]} AS first, {pair[1]} AS second, {value} AS total
                FROM tuples WHERE {where} GROUP BY ALL
            ),
            ranked AS (
                SELECT *, rank() OVER (PARTITION BY window_start ORDER BY total) - 1 AS smaller,
                       count(*) OVER (PARTITION BY window_start) AS pairs
                FROM totals
            )
            SELECT window_start, window_start + INTERVAL {window} SECOND, first, second, total::BIGINT
            FROM ranked WHERE smaller > {fraction!r}::DOUBLE * pairs
            ORDER BY window_start, total DESC, first, second
            """  # noqa: S608 - made of constants and of the names of columns that were checked
        ).fetchall()


def _files(connection: duckdb.DuckDBPyConnection, path: str, kind: str, clock: str) -> str:
    """SQL that selects the tuples of a CSV or Parquet file."""
    read = f"read_parquet({_quoted(path)})" if kind == "parquet" else f"read_csv({_quoted(path)}, header = true)"
    column = '"' + clock.replace('"', '""') + '"'
    described = connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()  # noqa: S608
    types = {str(name): str(type_) for name, type_, *_ in described}
    if types[clock].startswith("TIMESTAMP"):
        time = f"{column}::TIMESTAMP"
    else:
        time = f"make_timestamp(round({column}::DOUBLE * 1000000)::BIGINT)"
    # In a text file, absent and empty are the same.
    texts = [name for name, type_ in types.items() if kind == "csv" and type_ == "VARCHAR" and name != clock]
    filled = ", ".join(f'coalesce("{name}", \'\') AS "{name}"' for name in texts)
    return f"SELECT {time} AS time, * EXCLUDE ({column}) {f'REPLACE ({filled})' if filled else ''} FROM {read}"  # noqa: S608


def _lines(path: str, kind: str, folder: Path) -> str:
    """SQL that selects the tuples of a text trace; malformed lines are omitted."""
    pattern, names = {"http": _HTTP, "ncsa": _NCSA, "tcp": _TCP}[kind]
    source = _readable(path, folder)
    lines = (
        f"read_csv({_quoted(source)}, columns = {{'line': 'VARCHAR'}}, delim = '\x1f', quote = '', escape = '', "
        "header = false, auto_detect = false, strict_mode = false)"
    )
    return f"""
        WITH matched AS (SELECT regexp_extract(line, {_quoted(pattern)}, {names}) AS found FROM {lines}
                         WHERE regexp_matches(line, {_quoted(pattern)})),
        fields AS (SELECT unnest(found) FROM matched)
        {_FIELDS[kind]}"""  # noqa: S608


def _readable(path: str, folder: Path) -> str:
    """Return ``path``, or a copy in UTF-8 of a file with another encoding: old logs hold a few bytes of Latin-1."""
    with Path(path).open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else Path(path).open("rb") as text:
        data = text.read()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        copy = folder / "trace.txt"
        copy.write_text(data.decode("utf-8", "replace"), encoding="utf-8", newline="")
        return str(copy)
    return path


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def compare(found: list[Row], wanted: list[Row]) -> Check:
    """Compare the rows and their order."""
    if found == wanted:
        return Check(equal=True, rows=len(wanted))
    for number, (ours, theirs) in enumerate(zip(found, wanted, strict=False), start=1):
        if ours != theirs:
            return Check(False, len(wanted), f"row {number}: the peers give {_written(ours)}, "
                                             f"DuckDB gives {_written(theirs)}")  # fmt: skip
    longer, row = ("the peers give", found) if len(found) > len(wanted) else ("DuckDB gives", wanted)
    number = min(len(found), len(wanted))
    return Check(
        equal=False,
        rows=len(wanted),
        difference=f"{counted(len(found), 'row')} of the peers, {len(wanted)} of DuckDB; "
        f"only {longer} row {number + 1}: "
        f"{_written(row[number])}",
    )


def _written(row: Row) -> str:
    start, end, first, second, total = row
    return f"({start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S}, {first}, {second}, {total})"
