"""Splitter of lines with quotes into records, line by line, where a block may have malformed quotes.

A field that begins with a quote ends with one, and a quote within it is doubled; it may contain separators and line
ends. In any other field, quotes are text. If a line begins a record that breaks these rules, only that line is
rejected, and splitting goes on with the next line: so a stray quote costs one line, not all lines up to the next quote.

Examples
--------
>>> found = split(b'1,"5 inch pipe,a' + bytes([10]) + b'2,"5"" pipe",b', ",", width=3, last=True)
>>> found.rows, found.first.line, found.first.expected == AFTER_QUOTE
([['2', '5" pipe', 'b']], 1, True)
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

import polars as pl

_REMEDY: Final = "a quote in a quoted field is doubled, or with quotes=False all quotes are text"
AFTER_QUOTE: Final = f"a separator or a line end after a closing quote: {_REMEDY}"
NOT_CLOSED: Final = f"a closing quote: {_REMEDY}"
NOT_UTF8: Final = "text in UTF-8, or another encoding of the file as encoding='windows-1252'"
LONE_RETURN: Final = "a line that ends with a line feed, without other carriage returns than those before it"
_UNDECODED: Final = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, in the form in which Python decodes them


class Rejected(NamedTuple):
    """A line that is no record: its number, its text, and what was expected (empty: another number of fields)."""

    line: int
    text: str
    expected: str


class Records(NamedTuple):
    """Records of a block."""

    rows: list[list[str]]  # fields of the records with the right number of fields
    # numbers, spans: number of the line at which each of them begins, and of lines that it spans
    numbers: list[int]
    spans: list[int]
    rejected: int  # number of lines of all other records
    others: list[Rejected]  # all other records, each at its first line
    # used, lines: number of bytes that were split, and of line ends in them
    used: int
    lines: int

    @property
    def first(self) -> Rejected | None:
        """The first of the other records; None if there are none."""
        return self.others[0] if self.others else None


class _Grammar(NamedTuple):
    record: re.Pattern[str]
    unfinished: re.Pattern[str]
    field: re.Pattern[str]


@functools.cache
def _grammar(separator: str) -> _Grammar:
    mark = re.escape(separator)
    field = rf'(?:"(?:[^"]++|"")*+"|[^"{mark}\n][^{mark}\n]*+|)'
    return _Grammar(
        re.compile(rf"{field}(?:{mark}{field})*+\r*(?:\n|\Z)"),
        re.compile(rf'(?:{field}{mark})*+(?:"(?:[^"]++|"")*+(?:"\r*)?|[^"{mark}\n][^{mark}\n]*+|)\Z'),
        re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^{mark}\n]*+))(?:({mark})|\r*(?:\n|\Z))'),
    )


def split(
    data: bytes, separator: str, width: int, *, last: bool, number: int = 1, cut: bool = False, most: int | None = None
) -> Records:
    """Split ``data``, which begins with a record, up to the last record that ends in it.

    ``separator``: character between fields; ``width``: number of fields of a record; ``last``: whether ``data`` is the
    end of the text, so that its last record ends there as well; ``number``: number of the first line; ``cut``: whether
    the first record is rejected if it does not end in ``data``, as it is too long; ``most``: number of characters after
    which no other record begins, None: no limit.
    """
    try:
        text, broken = data.decode(), False
    except UnicodeDecodeError:
        text, broken = data.decode("utf-8", "surrogateescape"), True
    grammar = _grammar(separator)
    rows: list[list[str]] = []
    numbers: list[int] = []
    spans: list[int] = []
    rejected = place = 0
    others: list[Rejected] = []
    limit = len(text) if most is None else min(most, len(text))
    line_number = number
    while place < limit:
        end = text.find("\n", place) + 1 or len(text)
        line, expected, span = text[place:end], "", 1
        fields: list[str] | None
        if '"' not in line:
            if end == len(text) and not (last or line.endswith("\n")):
                break
            fields = line.rstrip("\r\n").split(separator)
        elif (found := grammar.record.match(text, place)) is not None and (last or found[0].endswith("\n")):
            line, end = found[0], found.end()
            span = line.count("\n") + (not line.endswith("\n"))
            fields = _fields(line, grammar)
        else:
            unfinished = grammar.unfinished.match(text, place) is not None
            if (unfinished and not (last or (cut and not place))) or not (last or line.endswith("\n")):
                break
            fields, expected = None, NOT_CLOSED if unfinished else AFTER_QUOTE
        if broken and _UNDECODED.search(line):
            fields, expected = None, NOT_UTF8
        if fields is not None and len(fields) == width and (width > 1 or line.strip("\r\n")):
            rows.append(fields)
            numbers.append(line_number)
            spans.append(span)
        elif fields is None or line.strip("\r\n"):
            rejected += span
            others.append(Rejected(line_number, shown(line), expected))
        place, line_number = end, line_number + span
    used = len(data) if place == len(text) else len(text[:place].encode("utf-8", "surrogateescape"))
    return Records(rows, numbers, spans, rejected, others, used, data.count(b"\n", 0, used))


def fields_of(line: str, separator: str) -> list[str] | None:
    """Split one line into fields; None if its quotes are malformed."""
    found = _grammar(separator).record.fullmatch(line)
    return None if found is None else _fields(line, _grammar(separator))


def shown(line: str) -> str:
    """Text of a line for messages: without its end, with replacement characters for bytes that are no UTF-8."""
    return line.rstrip("\r\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def decoded(data: bytes) -> tuple[str, list[tuple[int, str]]]:
    """Decode lines, with replacement characters; also the index, from 0, and the text of each that is no UTF-8."""
    try:
        return data.decode(), []
    except UnicodeDecodeError:
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        broken = [(index, shown(line)) for index, line in enumerate(lines) if _UNDECODED.search(line)]
        return data.decode("utf-8", "replace"), broken


def numbered_lines(text: str, number: int) -> pl.DataFrame:
    """The lines that are not empty, without their ends, in column ``line``; the first line has that ``number``."""
    lines = pl.Series("line", [text]).str.split("\n").explode().str.strip_chars_end("\r")
    return pl.DataFrame({"line": lines}).with_row_index("number", offset=number).filter(pl.col("line") != "")


def _fields(record: str, grammar: _Grammar) -> list[str]:
    fields = []
    for quoted, plain, separator in grammar.field.findall(record):
        fields.append(quoted.replace('""', '"') if quoted else plain if separator else plain.rstrip("\r"))
        if not separator:
            break
    return fields
