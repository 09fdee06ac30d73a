"""Rows of text as a notebook and a terminal show them: aligned columns, and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from synergy_nb.errors import harmless

__all__ = ["as_html", "as_text"]

Row = Sequence[str]


def as_text(caption: str, heading: Row, rows: Sequence[Row]) -> str:
    """A table with aligned columns, below its caption if that is not empty.

    >>> print(as_text("Peers", ("name", "load"), [("peer-1", "5 %")]))
    Peers
    name    load
    peer-1  5 %
    """
    table = [heading, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(heading))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return harmless("\n".join([*([caption] if caption else []), *lines]))


def as_html(caption: str, heading: Row, rows: Sequence[Row]) -> str:
    """The same as an HTML table; every cell is text, never markup."""

    def line(row: Row, tag: str) -> str:
        cells = "".join(f"<{tag} style='text-align: left'>{html.escape(cell)}</{tag}>" for cell in row)
        return f"<tr>{cells}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><caption>{html.escape(caption)}</caption>{line(heading, 'th')}{body}</table>"
