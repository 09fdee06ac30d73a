"""Trace files: their format is recognised, their rows are read block by block, malformed files are refused.

No file is ever in memory as a whole: :func:`opened` reads its beginning, and :meth:`Opened.rows` yields its rows in
blocks of some megabytes. The formats are in modules of their own: :mod:`~synergy_nb.traces._tabular` (``csv``,
``tcp``), :mod:`~synergy_nb.traces.logs` (``http``, ``ncsa``) and :mod:`~synergy_nb.traces._parquet`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import pyarrow as pa

from synergy_nb.plan.operators.sources import FORMATS, TRACE_SCHEMAS
from synergy_nb.plan.terms.units import counted, did_you_mean, ratio_of
from synergy_nb.traces._parquet import parquet_blocks, stored
from synergy_nb.traces._tabular import csv_blocks, csv_layout, tcp_blocks
from synergy_nb.traces._typed_columns import Malformed, Tally
from synergy_nb.traces.first_lines import separator_of
from synergy_nb.traces.logs import LOGS, log_blocks
from synergy_nb.traces.text_files import UTF8, beginning, head, whole_lines

__all__ = ["Malformed", "Opened", "opened", "sniff"]

TCP_LINE: Final = r"^\s*\d+(\.\d+)?\s+\S+\s+\S+\s+\d+\s+\d+\s+\d+\s*$"


class Opened(msgspec.Struct, frozen=True):
    """A trace with a known layout, to be read block by block."""

    # path, format, schema: path of the file, its format, and its columns with their types
    path: Path
    format: str
    schema: dict[str, str]
    # strict, tolerance: parameters of opened with these names
    strict: bool
    tolerance: float
    _judged: Callable[[Tally], Iterator[pl.DataFrame]]
    _again: Callable[[Tally], Iterator[pl.DataFrame]] | None = None

    @property
    def again(self) -> bool:
        """Whether it costs less to read the file again than to store its rows, as for Parquet."""
        return self._again is not None

    def judged(self, tally: Tally, *, bare: bool = False) -> Iterator[pl.DataFrame]:
        """Read and validate the file: yield its rows in blocks in the order of the file.

        If the rows are read ``again`` later, this reads only the columns that validation needs, such as the event time.
        ``bare``: whether it may be without tuples.

        Raises ValueError if the file is damaged, malformed beyond ``tolerance`` or without tuples; at the latest at its
        end.
        """
        empty = True
        for table in _named(self._judged(tally), self.path, tally):
            if self.strict and tally.malformed is not None:
                raise ValueError(f"{self.path}: {tally.malformed}")
            empty = False
            yield table
        self._decide(tally, empty=empty and not bare)

    def rows(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of a validated file in blocks, in the order of the file."""
        tally = Tally()
        return _named((self._again or self._judged)(tally), self.path, tally)

    def _decide(self, tally: Tally, *, empty: bool) -> None:
        malformed = tally.malformed
        if malformed is not None:
            if self.strict:
                raise ValueError(f"{self.path}: {malformed}")
            part, whole = ratio_of(self.tolerance)
            if malformed.count * whole > part * malformed.rows:
                lines = counted(malformed.rows, "line", "is", "are")
                raise ValueError(
                    f"{self.path}: {malformed.count:,} of {lines} not of format {self.format!r} "
                    f"(up to {self.tolerance * 100:g} % are skipped); {malformed}"
                    f"{_other_format(self.path, self.format)}"
                )
        if empty:
            raise ValueError(f"{self.path}: no tuples; expected at least one row of format {self.format!r}")


def _named(tables: Iterator[pl.DataFrame], path: Path, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the blocks of a file; an error of the libraries that read it names the file and the place."""
    try:
        yield from tables
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path}: cannot be read after {counted(tally.rows, 'row')}: {text}") from None


def opened(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the parameter's name in plans
    *,
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    encoding: str = UTF8,
    quotes: bool | None = None,
    time_unit: str | None = None,
    strict: bool = False,
    tolerance: float = 0.01,
) -> Opened:
    """Open the trace at ``path`` and read its beginning.

    Parameters
    ----------
    format
        Format ``csv``, ``http`` (Internet Traffic Archive, SDSC), ``ncsa`` (common log format), ``parquet`` or ``tcp``
        (6 columns); recognised if None. Text may be gzipped.
    columns
        Columns of a CSV or Parquet file to read, name to type (int, float, str, bool, time, bytes). None reads all,
        with types taken from the file.
    time
        Column that holds the event time, renamed to ``time``. None selects the first existing one
        of ``time``, ``timestamp``, ``ts``, ``datetime``, ``date``.
    encoding
        Encoding of a text, by a name that Python knows. A line that is no text in UTF-8, the default, is malformed; in
        any other encoding it is an error.
    quotes
        Whether the fields of a CSV file may be quoted; None: unless tabs separate them.
    time_unit
        Unit of numbers in columns of times of a CSV or Parquet file, since 1970: ``s``, ``ms``, ``us`` or ``ns``; or
        ``date``, if they are dates such as 20260101. None: seconds.
    strict
        Whether to refuse any malformed line.
    tolerance
        Share of lines that may be malformed and are skipped if not ``strict``.

    Raises
    ------
    ValueError
        If the file does not exist, or its beginning has another format or other columns; the text names path, line,
        field, value and what was expected.
    """
    path = Path(path)
    kind = format if format is not None else sniff(path, encoding)
    if kind not in FORMATS:
        raise ValueError(f"format: {kind!r}; expected one of {', '.join(FORMATS)}{did_you_mean(kind, FORMATS)}")
    if kind == "parquet":
        if head(path)[:4] != b"PAR1":
            raise ValueError(f"{path}: not a Parquet file{_other_format(path, kind)}")
        layout = stored(path, columns, time, time_unit)
        return Opened(
            path, kind, layout.schema, strict, tolerance,
            lambda tally: parquet_blocks(path, layout, tally, judged=True),
            lambda tally: parquet_blocks(path, layout, tally),
        )  # fmt: skip
    if kind == "csv":
        table = csv_layout(path, columns, time, encoding=encoding, quotes=quotes, unit=time_unit)
        return Opened(
            path, kind, table.schema, strict, tolerance, lambda tally: csv_blocks(path, table, tally, encoding)
        )
    beginning(path, 1, encoding)  # raises an error if the file does not exist or is no text
    schema = dict(TRACE_SCHEMAS[kind])
    if kind == "tcp":
        return Opened(
            path, kind, schema, strict, tolerance, lambda tally: tcp_blocks(whole_lines(path, encoding), tally)
        )
    return Opened(path, kind, schema, strict, tolerance, lambda tally: log_blocks(path, kind, tally, encoding))


def sniff(path: str | Path, encoding: str = UTF8, known: Sequence[str] = FORMATS) -> str:
    """Recognise the format of the trace at ``path``, a text in ``encoding`` or Parquet, by its first lines.

    ``known``: formats that the error names.

    Raises
    ------
    ValueError
        If the file cannot be read or has no known format.
    """
    path = Path(path)
    if head(path)[:4] == b"PAR1":
        return "parquet"
    text = beginning(path, 1 << 16, encoding, known)[0].decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line for line in text.split("\n")[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[: max(len(lines) - 1, 1)]  # the last one may be cut off
    for kind, (pattern, _, _) in LOGS.items():
        if sum(re.match(pattern, line) is not None for line in lines) * 2 > len(lines):
            return kind
    if sum(re.match(TCP_LINE, line) is not None for line in lines) * 2 > len(lines):
        return "tcp"
    if lines and re.match(r"^\s*[^\s{\[<#\x00-\x1f\ufffd]", lines[0]) and separator_of(lines[0]) is not None:
        return "csv"
    first = lines[0][:80] if lines else ""
    raise ValueError(f"{path}: format not recognised (first line {first!r}); expected one of {', '.join(known)}")


def _other_format(path: Path, kind: str) -> str:
    try:
        found = sniff(path)
    except ValueError:
        return ""
    return f"; it looks like format {found!r}" if found != kind else ""
