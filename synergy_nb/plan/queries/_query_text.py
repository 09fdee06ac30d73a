"""The text of a query: its expressions as trees, and errors that show the place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

from synergy_nb.errors import SynergyError
from synergy_nb.plan.sql.sql import SqlError, aligned, read
from synergy_nb.plan.terms.units import nearest

_PLACE = "place"  # key of a node's own data: where its first name stands in the text of the query


class QueryError(SynergyError, ValueError):
    """The text of a query is refused; the error names the place, and shows it.

    Parameters
    ----------
    message
        Text of the error, with the line and a mark below the place.
    line, column
        Place in the text of the query, each from 1.
    expected
        Description of what is valid there, in words.
    nearest
        Valid word with the most similar spelling, if there is one.

    Examples
    --------
    >>> from synergy_nb import sql
    >>> try:
    ...     sql("SELECT byts FROM packets")
    ... except ValueError as error:
    ...     print(str(error).splitlines()[-1], error.nearest)
           ^^^^ bytes
    """

    def __init__(self, message: str, line: int, column: int, expected: str, nearest: str | None = None) -> None:
        super().__init__(message)
        self.line, self.column, self.expected, self.nearest = line, column, expected, nearest

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryError, (str(self), self.line, self.column, self.expected, self.nearest)


class Span(NamedTuple):
    """A part of the text, as numbers of its first character and of the one behind it."""

    start: int
    end: int


class QueryText:
    """The text of a query."""

    def __init__(self, text: str) -> None:
        self.text = text

    def of(self, span: Span) -> str:
        """The words of a part."""
        return self.text[span.start : span.end]

    def refuse(
        self, span: Span, expected: str, names: Iterable[Any] = (), *, near: str | None = None, found: str = ""
    ) -> NoReturn:
        """Raise the error for a part, with the nearest of the names that are valid there.

        ``found``: what the error calls the part; empty: its words.
        """
        line = self.text.count("\n", 0, span.start) + 1
        first = self.text.rfind("\n", 0, span.start) + 1
        column = span.start - first + 1
        words = self.of(span)
        near = near or nearest((found.strip("'") or words).strip('"'), list(names))
        shown = self.text[first:].partition("\n")[0].rstrip()
        marks = max(1, min(len(words.partition("\n")[0].rstrip()), len(shown) - column + 1))
        hint = f"; did you mean {near!r}?" if near is not None else ""
        value = found or (repr(words) if words.strip() else "the end")
        if len(value) > 120:
            value = value[:117] + "..."
        head = " ".join(f"line {line}, column {column}: {value}; expected {expected}{hint}".split())
        blanks = re.sub(r"[^\t]", " ", shown[: column - 1])
        raise QueryError(f"{head}\n{shown}\n{blanks}{'^' * marks}", line, column, expected, near)

    def tree(self, span: Span) -> Any:
        """Read a part as an expression; its columns know their places."""
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        text = self.of(span)
        tree = self.checked(span, lambda: read(text))
        inner = tree.find(exp.Subquery, exp.Select, exp.Exists)
        if inner is not None:
            at = self.found("SELECT", span)
            self.refuse(at, "a subquery in FROM, or a JOIN: an expression has none")
        places = aligned(text)
        for node in tree.find_all(exp.Identifier):
            start, end = node.meta.get("start"), node.meta.get("end")
            if start is not None and end < len(places):
                node.meta[_PLACE] = Span(span.start + places[start], span.start + places[end] + 1)
        return tree

    def place(self, node: Any, within: Span) -> Span:
        """Where a node of an expression stands, as exactly as its names tell."""
        from sqlglot import exp  # noqa: PLC0415

        spans = [each.meta[_PLACE] for each in node.find_all(exp.Identifier) if _PLACE in each.meta]
        if not spans:
            return within
        return Span(min(each.start for each in spans), max(each.end for each in spans))

    def checked(self, span: Span, make: Callable[[], Any]) -> Any:
        """Return what a function makes of a part; refuse the part if it finds mistakes in its expression."""
        try:
            return make()
        except SqlError as error:
            wrong = error.wrongs[0]
            if error.place is not None:
                self._refuse_at(span, *error.place)
            self.refuse(self.found(str(wrong.value), span), wrong.expected, near=wrong.nearest)

    def _refuse_at(self, span: Span, line: int, column: int) -> NoReturn:
        """Refuse what cannot be read at a line and a column of a part."""
        before = "".join(self.of(span).splitlines(keepends=True)[: line - 1])
        start = min(span.start + len(before) + column - 1, span.end)
        end = re.compile(r"\w+|\S|$").search(self.text, start)
        self.refuse(Span(start, end.end() if end else start), "an expression of the documented subset (docs/plans.md)")

    def found(self, words: str, span: Span) -> Span:
        """Where words stand within a part, however they are spelled; the part if they are not found."""
        tokens = re.findall(r"\w+|\S", words)
        pattern = r"[\s\"]*".join(map(re.escape, tokens))
        match = re.search(pattern, self.of(span), re.IGNORECASE) if tokens else None
        if match is None and tokens:
            match = re.search(rf"\b{re.escape(tokens[0])}\b", self.of(span), re.IGNORECASE)
        return span if match is None else Span(span.start + match.start(), span.start + match.end())
