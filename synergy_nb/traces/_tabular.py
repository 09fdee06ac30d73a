"""Parser of text tables to typed columns: CSV files and 6-column TCP traces, block by block.

There are two parsers. The fast parser gives a block to Polars' CSV reader, and accepts the result only if every line
has all fields, every quote is valid and every number can be parsed. Any other block goes to the line parser, which
splits it line by line and so can name the invalid line; it alone decides which lines are malformed. Where the fast
parser accepts a block, both return the same rows.

A line ends with a line feed and the carriage returns before it. A quoted field may contain line ends, so a block
ends where a row ends; :mod:`~synergy_nb.traces._records` states what becomes of quotes that are malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.plan.terms.units import counted
from synergy_nb.traces._columns import clock_of, inferred, stream_schema, text_kinds
from synergy_nb.traces._quoting import Quoting, quoting
from synergy_nb.traces._records import LONE_RETURN, NOT_UTF8, Rejected, decoded, shown, split
from synergy_nb.traces._typed_columns import Bad, Malformed, Tally, doubt_of, each_bad, exactly, typed
from synergy_nb.traces.first_lines import BOM, first_line, names_of, separator_of
from synergy_nb.traces.text_files import LONGEST, UTF8, beginning, bytes_between, pieces, too_long
from synergy_nb.traces.times import BASIC_DATES

SAMPLE: Final = 1000  # number of rows from which the types of CSV columns are inferred if none are stated
# bytes of the beginning in which these rows are searched, one size after another; the first is mostly enough
_SAMPLED: Final = (1 << 16, 1 << 18, 8 << 20)
_PARSED: Final = {"int": TYPES["int"], "float": TYPES["float"]}  # types that the CSV reader parses with the same result
_PART: Final = 1 << 17  # bytes of each part of a block of which some line needs the line parser
_FEW: Final = 1 << 12  # number of characters that the line parser splits at first
_TCP_EXPECTED: Final = "6 fields: timestamp source destination source-port destination-port bytes"


class CsvLayout(NamedTuple):
    """Layout of a CSV file."""

    separator: str  # character between fields
    names: list[str]  # names of the columns in the file
    kinds: dict[str, str]  # columns to read, with their types
    clock: str  # name of the column with the event time
    schema: dict[str, str]  # columns of the tuples with their types: the event time first, as time
    quotes: bool = True  # whether fields may be quoted
    unit: str | None = None  # unit of times that are numbers


class CsvFields(NamedTuple):
    """What the parsers know of the fields of a row, see :class:`CsvLayout` and :func:`._typed_columns.typed`."""

    separator: str
    names: list[str]
    kinds: Mapping[str, str]
    required: Sequence[str]
    quotes: bool
    unit: str | None = None


class _Rows(NamedTuple):
    """Lines split into fields."""

    raw: pl.DataFrame  # fields, as text, of the records with the right number of fields
    numbers: Sequence[int] | pl.Series  # numbers of the lines in the file at which these records begin
    spans: list[int] | None  # number of lines of each of them; None: one
    # odd, others: number of all other lines, and the records that they are
    odd: int
    others: list[Rejected]
    # used, lines: number of bytes that were split, and of line ends in them
    used: int
    lines: int


class _Block(NamedTuple):
    """Result for a block: its typed table, numbers of lines with data and of malformed ones, of bytes and line ends.

    ``doubt`` is a sentence about an implausible event time.
    """

    table: pl.DataFrame
    rows: int
    malformed: Malformed | None
    used: int
    lines: int
    doubt: str = ""
    each: Iterable[Malformed] = ()  # all malformed rows, each with what is wrong with it


# -- files ---------------------------------------------------------------------------------------------------------


def csv_layout(
    path: Path,
    columns: Mapping[str, str] | None,
    time: str | None,
    *,
    encoding: str = UTF8,
    quotes: bool | None = None,
    unit: str | None = None,
) -> CsvLayout:
    """Read the layout of a CSV file with a header; the parameters are those of
    :func:`synergy_nb.traces.trace_files.opened`.

    Types that are not stated are inferred from the first 1,000 rows.

    Raises ValueError if the header or a stated column is invalid.
    """
    separator, names, quoted, sample = _sampled(path, SAMPLE if columns is None else 0, encoding, quotes)
    clock = clock_of(path, names, columns, time, lambda: inferred(sample))
    kinds = text_kinds(path, names, columns, clock, sample)
    return CsvLayout(separator, names, kinds, clock, stream_schema(path, kinds, clock), quoted, unit)


def columns_of_csv(path: Path, encoding: str = UTF8) -> dict[str, str]:
    """Column to type, inferred from the first 1,000 rows."""
    return inferred(_sampled(path, SAMPLE, encoding, None)[3])


def first_fields(path: Path, column: str, encoding: str, quotes: bool | None) -> pl.Series:
    """The first fields of a column, as texts."""
    return _sampled(path, SAMPLE, encoding, quotes)[3].get_column(column)


def _sampled(path: Path, rows: int, encoding: str, quotes: bool | None) -> tuple[str, list[str], bool, pl.DataFrame]:
    """Separator and names of the columns of a CSV file, whether fields may be quoted, and its first rows as texts."""
    for size in _SAMPLED:
        data, whole = beginning(path, size, encoding)
        first, body = first_line(data)
        try:
            header = first.decode()
        except UnicodeDecodeError:
            found = shown(first.decode("utf-8", "surrogateescape"))
            raise ValueError(f"{path}: line 1: {found[:120]!r}; expected {NOT_UTF8}") from None
        separator = separator_of(header) or ","
        names = names_of(path, header, separator, quotes=quotes)
        quoted = separator != "\t" if quotes is None else quotes
        sample = pl.DataFrame(schema=dict.fromkeys(names, pl.String()))
        if rows:
            line_parser = _LineParser(CsvFields(separator, names, {}, [], quoted))
            sample = line_parser.split(data[body:], 2, last=whole).raw.head(rows)
        if whole or sample.height >= rows:
            break
    return separator, names, quoted, sample


def csv_blocks(
    path: Path, layout: CsvLayout, tally: Tally, encoding: str = UTF8, begin: int = 0, end: int | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a CSV file as typed blocks in the order of the file; count malformed lines in ``tally``.

    ``begin``, ``end``: bytes between which the rows are, of a file that is not packed, see :func:`row_begins`; lines
    are then counted from the first of these. None: up to the end.

    Raises ValueError if the file cannot be read, see :func:`synergy_nb.traces.text_files.pieces`, or if a row does not
    fit into memory.
    """
    parser = CsvParser(
        CsvFields(layout.separator, layout.names, layout.kinds, [layout.clock], layout.quotes, layout.unit)
    )
    data, number, last, headed = b"", 1, False, not begin
    source = pieces(path, encoding) if not begin and end is None else bytes_between(path, begin, end)
    while data or not last:
        used = 0
        if not headed and data:
            block = parser.block(data, number, last=last, cut=len(data) > LONGEST)
            tally.add(block.rows, block.malformed, block.doubt, block.each)
            if block.table.height:
                yield exactly(block.table, layout.schema, layout.clock)
            used, number = block.used, number + block.lines
            data = data[used:]
        if not used and len(data) > LONGEST:
            raise too_long(path, number, begin)
        if not used and not last:
            piece = next(source, None)
            last = piece is None
            data += piece or b""
            if headed and (last or b"\n" in data):
                data, number, headed = data[first_line(data)[1] :], 2, False


def row_begins(path: Path, layout: CsvLayout, size: int) -> list[int]:
    """Bytes of a CSV file in UTF-8, not packed, from which on it can be read in parts of about ``size`` bytes.

    At each of them a row begins: no quoted field that has line ends is cut. Where a quote is malformed, nobody knows
    what is within quotes; then the file is one part.
    """
    found, at, rest = [0], 0, b""
    for piece in bytes_between(path, 0, None):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if layout.quotes and b'"' in data:
            quotes = quoting(data, layout.separator, last=False)
            if quotes.clean < quotes.end:
                return [0]
            end = quotes.end
        if not end and len(data) > LONGEST:
            return [0]  # who reads it says what is wrong
        if end and at + end - found[-1] >= size:
            found.append(at + end)
        at, rest = at + end, data[end:]
    return found if found[-1] < at + len(rest) else found[:-1] or [0]


def tcp_blocks(blocks: Iterable[tuple[int, bytes]], tally: Tally) -> Iterator[pl.DataFrame]:
    """Yield the rows of a 6-column TCP trace like :func:`csv_blocks`; any run of blanks separates fields.

    ``blocks``: whole lines, each block with the number of its first one.
    """
    kinds = TRACE_SCHEMAS["tcp"]
    names = list(kinds)
    fields = CsvFields(" ", names, kinds, names, quotes=False, unit="s")
    line_parser, fast = _LineParser(fields), _FastParser(fields)
    for number, data in blocks:
        # Blanks of other kinds also separate fields, which the CSV reader does not know.
        plain = data.isascii() and not any(mark in data for mark in b'"\t\v\f')
        block = (fast.block(data, last=True) if plain else None) or line_parser.block(data, number, last=True)
        tally.add(block.rows, block.malformed, lines=block.each)
        if block.table.height:
            yield block.table


# -- both parsers --------------------------------------------------------------------------------------------------


class CsvParser:
    """Parser of a CSV file, block by block.

    If the fast parser refuses a block, it gets the parts of it that have no malformed quote, and the line parser only
    the others: few lines at first, and more as long as the fast parser refuses what follows.
    """

    def __init__(self, fields: CsvFields) -> None:
        self._fast = _FastParser(fields)
        self._lines = _LineParser(fields)
        self._careful = 0  # bytes that are left of a block that the fast parser has refused
        self._few = _FEW

    def block(self, data: bytes, number: int, *, last: bool, cut: bool) -> _Block:
        """Parse rows at the beginning of ``data``, whose first line has the ``number``.

        No bytes are used if no row ends in ``data``; if ``cut``, such a row is malformed.
        """
        if self._careful <= 0:
            block = self._fast.block(data, last=last)
            if block is not None and (block.used or not cut):
                return block
            self._careful = len(data)
        block = self._parts(data, number, last=last)
        if not block.used and cut:
            block = self._lines.block(data, number, last=last, cut=True)
        self._careful -= block.used
        return block

    def _parts(self, data: bytes, number: int, *, last: bool) -> _Block:
        part, ends = data[:_PART], last and len(data) <= _PART
        block = self._fast.block(part, last=ends)
        if block is None and self._fast.clean > _FEW:
            block = self._fast.block(part[: self._fast.clean], last=False)
        if block is not None and block.used:
            self._few = _FEW
            return block
        few, self._few = self._few, min(2 * self._few, _PART)
        block = self._lines.block(data[: 2 * _PART], number, last=last and len(data) <= 2 * _PART, most=few)
        return block if block.used or len(data) <= 2 * _PART else self._lines.block(data, number, last=last, most=few)


# -- the fast parser -----------------------------------------------------------------------------------------------


class _FastParser:
    """Parser of blocks with the CSV reader, used if the result is certain to be right."""

    def __init__(self, fields: CsvFields) -> None:
        # number of bytes up to the first row with a malformed quote, if that is why a block was refused; otherwise 0
        self.clean = 0
        self._separator, self._names, self._kinds, self._required, self._quotes, self._unit = fields
        self._seconds = True  # whether times have been numbers so far

    def block(self, data: bytes, *, last: bool) -> _Block | None:
        """Parse the rows of ``data`` up to the last that ends in it (all, if it is the ``last`` of the file).

        Return None if the line parser is needed. No bytes are used if no row ends in ``data`` and its quotes are valid.
        """
        self.clean = 0
        quotes = quoting(data, self._separator, last=last) if self._quotes and b'"' in data else None
        if quotes is None:
            end = len(data) if last else data.rfind(b"\n") + 1
        else:
            end = quotes.end
            if quotes.clean < end or (last and not end):
                self.clean = quotes.clean
                return None
        if not end:
            return _Block(pl.DataFrame(), 0, None, 0, 0)
        if data.startswith(BOM):  # after the beginning of the file it is part of a field, but the reader drops it
            return None
        returns = data.count(b"\r", 0, end) if b"\r" in data else 0
        if returns and (returns != data.count(b"\r\n", 0, end) or data.endswith(b"\r")):
            return None
        text = data if end == len(data) else data[:end]
        raw = self._parsed(text, quoted=quotes is not None)
        if raw is None or not self._as_wide(raw, text, quotes):
            return None
        wanted = exactly(raw, self._kinds).with_columns(pl.col(pl.String).fill_null(""))  # absent is empty
        table, bad = typed(wanted, self._kinds, self._required, self._unit)
        lines = raw.height + (quotes.line_feeds if quotes is not None else 0)
        if bad is not None:
            return None
        doubt = "" if self._unit else doubt_of(wanted, table, None, self._required[0])
        return _Block(table, raw.height, None, end, lines, doubt)

    def _parsed(self, text: bytes, *, quoted: bool) -> pl.DataFrame | None:
        """Parse the columns of ``text``: numbers, and times that are numbers, as numbers; all others as text.

        The CSV reader parses numbers in an eighth of the time of a conversion from text.
        """
        for seconds in (True, False) if self._seconds else (False,):
            number = TYPES["float" if self._unit in (None, "s") else "int"]
            parsed = {**_PARSED, "time": number} if seconds else _PARSED
            try:
                raw = pl.read_csv(
                    text,
                    separator=self._separator,
                    has_header=False,
                    schema={name: parsed.get(self._kinds.get(name, ""), pl.String()) for name in self._names},
                    quote_char='"' if quoted else None,
                )
            except pl.exceptions.PolarsError:
                continue
            times = [raw.get_column(name) for name, kind in self._kinds.items() if kind == "time"] if seconds else []
            if self._unit is None and any(column.alias("").is_between(*BASIC_DATES).all() for column in times):
                continue  # they may be dates without separators, which their text tells
            self._seconds = seconds
            return raw
        return None

    def _as_wide(self, raw: pl.DataFrame, text: bytes, quotes: Quoting | None) -> bool:
        """Whether no line was too short: the CSV reader refuses longer lines, but completes shorter ones."""
        if not raw.get_column(self._names[-1]).null_count():
            return True
        if len(self._names) == 1:  # an empty line, which is no row, looks like an empty value
            return False
        marks = text.count(self._separator.encode()) - (quotes.separators if quotes is not None else 0)
        return marks == (len(self._names) - 1) * raw.height


# -- the line parser -----------------------------------------------------------------------------------------------


class _LineParser:
    """Parser of blocks line by line."""

    def __init__(self, fields: CsvFields) -> None:
        self._separator, self._names, self._kinds, self._required, self._quotes, self._unit = fields
        count = counted(len(fields.names), "field")
        self._expected = _TCP_EXPECTED if fields.separator == " " else f"{count} as in the header"

    def block(self, data: bytes, number: int, *, last: bool, cut: bool = False, most: int | None = None) -> _Block:
        """Parse the rows of ``data``, whose first line has the ``number``; no bytes are used if no row ends in it.

        All lines of a malformed row count as malformed. If ``cut``, its first row is malformed if it does not end; rows
        that begin after ``most`` characters are not parsed.
        """
        rows = self.split(data, number, last=last, cut=cut, most=most)
        table, bad = typed(exactly(rows.raw, self._kinds), self._kinds, self._required, self._unit)
        doubt = "" if self._unit else doubt_of(rows.raw, table, bad, self._required[0])
        if bad is None and not rows.odd:
            return _Block(table, table.height, None, rows.used, rows.lines, doubt)
        count = rows.odd
        if bad is not None:
            count += bad.rows if rows.spans is None else sum(rows.spans[row] for row in bad.where)
        each = self._each_malformed(rows, bad)
        first = next(each)
        found = table.height + count
        malformed = msgspec.structs.replace(first, count=count, rows=found)
        return _Block(table, found, malformed, rows.used, rows.lines, doubt, chain([first], each))

    def _each_malformed(self, rows: _Rows, bad: Bad | None) -> Iterator[Malformed]:
        """Describe the malformed rows in their order; ``bad``: those of the right width."""
        odd = (Malformed(1, 1, each.line, each.text, "line", each.text, each.expected) for each in rows.others)
        if bad is None:
            return odd
        wanted, unit = exactly(rows.raw, self._kinds), self._unit
        wide = (
            Malformed(1, 1, int(rows.numbers[place]), self._text(rows, place), one.field, one.value, one.expected)
            for place, one in each_bad(wanted, bad.where, self._kinds, self._required, unit)
        )
        return merge(odd, wide, key=attrgetter("line"))

    def _text(self, rows: _Rows, place: int) -> str:
        return self._separator.join(rows.raw.row(place))

    def split(self, data: bytes, number: int, *, last: bool, cut: bool = False, most: int | None = None) -> _Rows:
        """Split ``data`` into fields, up to the last row that ends in it, or all if it is the ``last``."""
        if self._quotes and b'"' in data:
            found = split(data, self._separator, len(self._names), last=last, number=number, cut=cut, most=most)
            raw = pl.DataFrame(found.rows, schema=dict.fromkeys(self._names, pl.String()), orient="row")
            others = [each if each.expected else each._replace(expected=self._expected) for each in found.others]
            return _Rows(raw, found.numbers, found.spans, found.rejected, others, found.used, found.lines)
        if most is not None and (limit := data.find(b"\n", most) + 1):
            return self._plain(data[:limit], number)
        end = len(data) if last else data.rfind(b"\n") + 1
        return self._plain(data[:end], number)

    def _plain(self, data: bytes, number: int) -> _Rows:
        """Split lines without quotes."""
        text, broken = decoded(data)
        frame = pl.DataFrame({"line": pl.Series([text]).str.split("\n").explode()})
        frame = frame.with_row_index("number", offset=number)
        line = pl.col("line").str.strip_chars_end("\r")
        torn = pl.lit(value=False)
        if self._separator == " ":  # any run of blanks separates, but a carriage return is none
            torn = line.str.contains("\r", literal=True)
            line = line.str.strip_chars().str.replace_all(r"\s+", " ")
        frame = frame.with_columns(line, torn=torn).filter(pl.col("line") != "")
        width = len(self._names)
        fits = frame["line"].str.count_matches(self._separator, literal=True) == width - 1
        fits &= ~frame["torn"]
        if broken:
            fits &= ~frame["number"].is_in([number + index for index, _ in broken])
        good, odd = frame.filter(fits), frame.filter(~fits)
        fields = good["line"].str.split_exact(self._separator, width - 1).struct.unnest()
        undecoded = {number + index: line for index, line in broken}
        others = [
            Rejected(line, undecoded[line], NOT_UTF8)
            if line in undecoded
            else Rejected(line, text, LONE_RETURN if torn else self._expected)
            for line, text, torn in odd.select("number", "line", "torn").iter_rows()
        ]
        raw = fields.rename(dict(zip(fields.columns, self._names, strict=True)))
        return _Rows(raw, good["number"], None, odd.height, others, len(data), data.count(b"\n"))
