"""The first line of a CSV file: its separator, and the names of its columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from synergy_nb.traces._records import fields_of

__all__ = ["BOM", "first_line", "names_of", "separator_of"]

#: Mark at the beginning of a text in UTF-8 that is no part of the text.
BOM: Final = b"\xef\xbb\xbf"
_QUOTED: Final = re.compile('"(?:[^"]|"")*"')
_VALUE: Final = re.compile(r"[+-]?\d[\d.:TtZz+ -]*|[+-]?\d[\d.]*[eE][+-]?\d+")


def separator_of(line: str) -> str | None:
    """Find the separator of the columns of a header, if there is one; text within quotes does not count."""
    bare = _QUOTED.sub("", line) if line.count('"') % 2 == 0 else line
    counts = {mark: bare.count(mark) for mark in (",", "\t", ";", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else None


def first_line(data: bytes) -> tuple[bytes, int]:
    """Return the first line, and the offset of the next one."""
    start = len(BOM) if data.startswith(BOM) else 0
    body = data.find(b"\n", start) + 1 or len(data)
    return data[start:body].strip(b"\r\n"), body


def names_of(path: Path, header: str, separator: str, *, quotes: bool | None) -> list[str]:
    """Names of the columns; a column without a name gets one.

    Raises ValueError if the header is no line of distinct names.
    """
    where = f"{path}: line 1: "
    if "\r" in header:
        raise ValueError(f"{where}it has carriage returns without line feeds; expected lines that end with a line feed")
    plain = header.split(separator)
    if quotes is None and separator == "\t":
        if all(name.startswith('"') and name.endswith('"') for name in plain):
            raise ValueError(f"{where}columns {plain}; expected quotes=True if fields are quoted, or else quotes=False")
        quotes = False
    names = fields_of(header, separator) if quotes is not False else plain
    if names is None:
        raise ValueError(f"{where}{header[:120]!r}; expected a header in which each quote is closed")
    names = [name.strip() for name in names]
    names = [name or f"column_{place}" for place, name in enumerate(names)]  # such as the index of pandas
    if len(set(names)) < len(names) or not header or all(_VALUE.fullmatch(name) for name in names):
        raise ValueError(f"{where}columns {names}; expected a header of distinct names")
    return names
