"""Parser of text tables to typed columns: CSV files and 6-column TCP traces, block by block.

There are two parsers. The fast parser gives a block to Polars' CSV reader, and accepts the result only if every line
has all fields, every quote is valid and every number can be parsed. Any other block goes to the line parser, which
splits it line by line and so can name the invalid line; it alone decides which lines are malformed. Where the fast
parser accepts a block, both return the same rows.

A line ends with a line feed and the carriage returns before it. A quoted field may contain line ends, so a block
ends where a row ends.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.plan.units import counted
from synergy_nb.traces.columns import clock_of, inferred, stream_schema, text_kinds
from synergy_nb.traces.quoting import Quoting, quoting
from synergy_nb.traces.text_files import LONGEST, beginning, pieces, too_long, whole_lines
from synergy_nb.traces.typed_columns import EXPECTED, Malformed, Tally, typed

__all__ = ["Layout", "columns_of_csv", "csv_blocks", "csv_layout", "separator_of", "tcp_blocks"]

SAMPLE: Final = 1000  # rows from which the types of CSV columns are inferred when none are stated
_SAMPLED: Final = (1 << 18, 8 << 20)  # bytes in which these rows are searched; the first number mostly suffices
_BOM: Final = b"\xef\xbb\xbf"
_PARSED: Final = {"int": TYPES["int"], "float": TYPES["float"]}  # types that the CSV reader parses with the same result
_LONE_RETURN: Final = re.compile("\r(?!\r*(?:\n|\\Z))")  # a carriage return that is no part of a line end
_TCP_EXPECTED: Final = "6 fields: timestamp source destination source-port destination-port bytes"


class Layout(NamedTuple):
    """Layout of a CSV file.

    Parameters
    ----------
    separator
        Character between fields.
    names
        Names of the columns in the file.
    kinds
        Columns to read, with their types.
    clock
        Name of the column with the event time.
    schema
        Columns of the tuples with their types: the event time first, as ``time``.
    """

    separator: str
    names: list[str]
    kinds: dict[str, str]
    clock: str
    schema: dict[str, str]


class _Rows(NamedTuple):
    """Lines split into fields.

    Parameters
    ----------
    raw
        Fields, as text, of the lines with the right number of fields.
    numbers
        Line numbers of these lines in the file.
    odd, first_odd
        Number of lines with another number of fields; line number and text of the first of them.
    used, lines
        Number of bytes that were split, and of line ends in them.
    """

    raw: pl.DataFrame
    numbers: Sequence[int] | pl.Series
    odd: int
    first_odd: tuple[int, str]
    used: int
    lines: int


class _Block(NamedTuple):
    """Result for a block: its typed table, numbers of lines with data and of malformed ones, of bytes and line ends."""

    table: pl.DataFrame
    rows: int
    malformed: Malformed | None
    used: int
    lines: int


# -- files ---------------------------------------------------------------------------------------------------------


def csv_layout(path: Path, columns: Mapping[str, str] | None, time: str | None) -> Layout:
    """Read the layout of a CSV file with a header; ``columns`` and ``time`` as in
    :func:`synergy_nb.traces.trace_files.load`.

    Types that are not stated are inferred from the first 1,000 rows.

    Raises
    ------
    ValueError
        If the header or a stated column is invalid.
    """
    separator, names, sample = _sampled(path, SAMPLE if columns is None else 0)
    clock = clock_of(path, names, columns, time, lambda: inferred(sample))
    kinds = text_kinds(path, names, columns, clock, sample)
    return Layout(separator, names, kinds, clock, stream_schema(path, kinds, clock))


def columns_of_csv(path: Path) -> dict[str, str]:
    """Column to type, inferred from the first 1,000 rows."""
    return inferred(_sampled(path, SAMPLE)[2])


def _sampled(path: Path, rows: int) -> tuple[str, list[str], pl.DataFrame]:
    """Separator and names of the columns of a CSV file, and its first rows as texts."""
    for size in _SAMPLED:
        data, whole = beginning(path, size)
        header, body = _header(data)
        separator = separator_of(header) or ","
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
        names = [name or f"column_{place}" for place, name in enumerate(names)]  # such as the index of pandas
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled or not names:
            raise ValueError(f"{path}: line 1: columns {names}; expected a header of distinct names")
        line_parser = _LineParser(path, separator, names, {}, [])
        sample = line_parser.split(data[body:], 2, last=whole).raw.head(rows)
        if whole or sample.height >= rows:
            break
    return separator, names, sample


def csv_blocks(path: Path, layout: Layout, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows of a CSV file as typed blocks in the order of the file; count malformed lines in ``tally``.

    Raises
    ------
    ValueError
        If the file cannot be read, see :func:`synergy_nb.traces.text_files.pieces`, or if a row does not fit into
        memory.
    """
    wanted = [pl.col(layout.clock).alias("time"), *(name for name in layout.schema if name != "time")]
    line_parser = _LineParser(path, layout.separator, layout.names, layout.kinds, [layout.clock])
    fast = _FastParser(layout.separator, layout.names, layout.kinds, [layout.clock])
    data, number = b"", 1
    last = False
    source = pieces(path)
    while not last:
        piece = next(source, None)
        last = piece is None
        data += piece or b""
        if number == 1 and (last or b"\n" in data):
            data, number = data[_header(data)[1] :], 2
        block = (
            (fast.block(data, last=last) or line_parser.block(data, number, last=last)) if number > 1 and data else None
        )
        if block is not None and block.used:
            tally.add(block.rows, block.malformed)
            if block.table.height:
                yield block.table.select(wanted)
            data, number = data[block.used :], number + block.lines
        if len(data) > LONGEST:
            raise too_long(path, number)


def tcp_blocks(path: Path, tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows of a 6-column TCP trace like :func:`csv_blocks`; any run of blanks separates fields."""
    kinds = TRACE_SCHEMAS["tcp"]
    names = list(kinds)
    line_parser = _LineParser(path, " ", names, kinds, names)
    fast = _FastParser(" ", names, kinds, names)
    for number, data in whole_lines(path):
        # Blanks of other kinds also separate fields, which the CSV reader does not know.
        plain = data.isascii() and not any(mark in data for mark in b'"\t\v\f')
        block = (fast.block(data, last=True) if plain else None) or line_parser.block(data, number, last=True)
        tally.add(block.rows, block.malformed)
        if block.table.height:
            yield block.table


def separator_of(line: str) -> str | None:
    """Find the separator of the columns of a header, if there is one."""
    counts = {mark: line.count(mark) for mark in (",", "\t", ";", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else None


def _header(data: bytes) -> tuple[str, int]:
    """Return the first line, and the offset of the next one."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    body = data.find(b"\n", start) + 1 or len(data)
    return data[start:body].decode("utf-8", "replace").strip("\r\n"), body


# -- the fast parser -----------------------------------------------------------------------------------------------


class _FastParser:
    """Parser of blocks with the CSV reader, used if the result is certain to be right.

    Parameters
    ----------
    separator, names, kinds, required
        The same as in :class:`Layout` and :func:`synergy_nb.traces.typed_columns.typed`.
    """

    def __init__(self, separator: str, names: list[str], kinds: Mapping[str, str], required: Sequence[str]) -> None:
        self._separator = separator
        self._names = names
        self._kinds = kinds
        self._required = required
        self._seconds = True  # whether event times have been numbers so far

    def block(self, data: bytes, *, last: bool) -> _Block | None:
        """Parse the rows of ``data`` up to the last that ends in it (all, if it is the ``last`` of the file).

        Return None if the line parser is needed. No bytes are used if no row ends in ``data`` and its quotes are valid.
        """
        quotes = quoting(data, self._separator, last=last) if b'"' in data else None
        if quotes is None:
            end = len(data) if last else data.rfind(b"\n") + 1
        else:
            end = quotes.end
            if not quotes.right or (last and not end):
                return None
        if not end:
            return _Block(pl.DataFrame(), 0, None, 0, 0)
        if data.startswith(_BOM):  # after the beginning of the file it is part of a field, but the reader drops it
            return None
        returns = data.count(b"\r", 0, end) if b"\r" in data else 0
        if returns and (returns != data.count(b"\r\n", 0, end) or data.endswith(b"\r")):
            return None
        text = data if end == len(data) else data[:end]
        raw = self._parsed(text, quoted=quotes is not None)
        if raw is None or not self._as_wide(raw, text, quotes):
            return None
        wanted = raw.select(list(self._kinds)).with_columns(pl.col(pl.String).fill_null(""))  # absent is empty
        table, bad = typed(wanted, self._kinds, self._required)
        lines = raw.height + (quotes.line_feeds if quotes is not None else 0)
        return None if bad is not None else _Block(table, raw.height, None, end, lines)

    def _parsed(self, text: bytes, *, quoted: bool) -> pl.DataFrame | None:
        """Parse the columns of ``text``: numbers, and times in seconds, as numbers; all others as text.

        The CSV reader parses numbers in an eighth of the time of a conversion from text.
        """
        plain = text.isascii()
        for seconds in (True, False) if self._seconds else (False,):
            parsed = {**_PARSED, "time": TYPES["float"]} if seconds else _PARSED
            try:
                raw = pl.read_csv(
                    text,
                    separator=self._separator,
                    has_header=False,
                    schema={name: parsed.get(self._kinds.get(name, ""), pl.String()) for name in self._names},
                    quote_char='"' if quoted else None,
                    encoding="utf8" if plain else "utf8-lossy",
                )
            except pl.exceptions.PolarsError:
                continue
            self._seconds = seconds
            return raw
        return None

    def _as_wide(self, raw: pl.DataFrame, text: bytes, quotes: Quoting | None) -> bool:
        """Whether no line was too short: the CSV reader refuses longer lines, but fills up shorter ones."""
        if not raw.get_column(self._names[-1]).null_count():
            return True
        if len(self._names) == 1:  # an empty line, which is no row, looks like an empty value
            return False
        marks = text.count(self._separator.encode()) - (quotes.separators if quotes is not None else 0)
        return marks == (len(self._names) - 1) * raw.height


# -- the line parser -----------------------------------------------------------------------------------------------


class _LineParser:
    """Parser of blocks line by line.

    Parameters
    ----------
    path
        File that errors name.
    separator, names, kinds, required
        The same as in :class:`_FastParser`.
    """

    def __init__(
        self, path: Path, separator: str, names: list[str], kinds: Mapping[str, str], required: Sequence[str]
    ) -> None:
        self._path = path
        self._separator = separator
        self._names = names
        self._kinds = kinds
        self._required = required
        self._expected = _TCP_EXPECTED if separator == " " else f"{counted(len(names), 'field')} as in the header"

    def block(self, data: bytes, number: int, *, last: bool) -> _Block:
        """Parse the rows of ``data``, whose first line has the ``number``; no bytes are used if no row ends in it."""
        rows = self.split(data, number, last=last)
        table, bad = typed(rows.raw.select(list(self._kinds)), self._kinds, self._required)
        found = rows.raw.height + rows.odd
        if bad is None and not rows.odd:
            return _Block(table, found, None, rows.used, rows.lines)
        count = rows.odd + (bad.rows if bad is not None else 0)
        line, text = rows.first_odd
        field, value, expected = "line", text, self._expected
        if bad is not None and (not rows.odd or rows.numbers[bad.row] < line):
            line, text = int(rows.numbers[bad.row]), self._separator.join(rows.raw.row(bad.row))
            field, value, expected = bad.field, bad.value, EXPECTED.get(self._kinds[bad.field], "a value")
        malformed = Malformed(count, found, line, text, field, value, expected)
        return _Block(table, found, malformed, rows.used, rows.lines)

    def split(self, data: bytes, number: int, *, last: bool) -> _Rows:
        """Split ``data`` into fields, up to the last row that ends in it, or all if it is the ``last``."""
        if self._separator != " " and b'"' in data:
            return self._quoted(data, number, last=last)
        end = len(data) if last else data.rfind(b"\n") + 1
        return self._plain(data[:end], number)

    def _plain(self, data: bytes, number: int) -> _Rows:
        """Split lines without quotes."""
        text = data.decode("utf-8", "replace")
        frame = pl.DataFrame({"line": pl.Series([text]).str.split("\n").explode()})
        frame = frame.with_row_index("number", offset=number)
        line = pl.col("line").str.strip_chars_end("\r")
        if self._separator == " ":  # any run of blanks separates
            line = line.str.strip_chars().str.replace_all(r"\s+", " ")
        frame = frame.with_columns(line).filter(pl.col("line") != "")
        width = len(self._names)
        fits = frame["line"].str.count_matches(self._separator, literal=True) == width - 1
        good, odd = frame.filter(fits), frame.filter(~fits)
        fields = good["line"].str.split_exact(self._separator, width - 1).struct.unnest()
        first = (int(odd["number"][0]), str(odd["line"][0])) if odd.height else (0, "")
        raw = fields.rename(dict(zip(fields.columns, self._names, strict=True)))
        return _Rows(raw, good["number"], odd.height, first, len(data), data.count(b"\n"))

    def _quoted(self, data: bytes, number: int, *, last: bool) -> _Rows:
        """Split lines with quotes, separators and line ends in fields, by Python's reader: about 1 million a second."""
        source = _Lines(data, last=last)
        reader = csv.reader(source, delimiter=self._separator)
        fields: list[list[str]] = []
        numbers: list[int] = []
        odd = used = lines = 0
        first = (0, "")
        try:
            for row in reader:
                if source.ended and not last:
                    break  # a later block may close the open quote
                used, lines = source.used, reader.line_num
                if len(row) == len(self._names):
                    fields.append(row)
                    numbers.append(number + lines - 1)
                elif row:
                    odd += 1
                    first = first if odd > 1 else (number + lines - 1, source.restored(self._separator.join(row)))
        except csv.Error as error:
            raise ValueError(
                f"{self._path}: line {number + lines}: {error}; expected a row of fields: is a quote closed?"
            ) from None
        raw = pl.DataFrame(fields, schema=dict.fromkeys(self._names, pl.String()), orient="row")
        if source.stand_in:
            raw = raw.with_columns(pl.col(pl.String).str.replace_all(source.stand_in, "\r", literal=True))
        return _Rows(raw, numbers, odd, first, used, data.count(b"\n", 0, used))


class _Lines:
    """Iterator over the decoded lines of a block.

    Parameters
    ----------
    data
        Bytes of the block.
    last
        Whether a last line without a line end is whole, because the file ends there.

    Attributes
    ----------
    used
        Number of bytes of the lines so far.
    ended
        Whether the reader has asked for a line after the last one.
    stand_in
        Character that replaces carriage returns within a line, which Python's reader would refuse; empty for none.
    """

    def __init__(self, data: bytes, *, last: bool) -> None:
        self.used = 0
        self.ended = False
        self.stand_in = ""
        text = data.decode("utf-8", "replace") if b"\r" in data else ""
        if _LONE_RETURN.search(text):
            self.stand_in = next(chr(code) for code in range(0xE000, 0xF900) if chr(code) not in text)
        *whole, rest = data.split(b"\n")
        self._lines = iter([*(line + b"\n" for line in whole), *([rest] if last and rest else [])])

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        if line is None:
            self.ended = True
            raise StopIteration
        self.used += len(line)
        text = line.decode("utf-8", "replace")
        return _LONE_RETURN.sub(self.stand_in, text) if self.stand_in else text

    def restored(self, text: str) -> str:
        """Restore the carriage returns of ``text``."""
        return text.replace(self.stand_in, "\r") if self.stand_in else text
