"""The clauses of a query, from its tokens; expressions stay parts of the text.

sqlglot finds the tokens and reads the expressions. The clauses between them are read here, so that each part knows its
place, and a clause that no operator has is refused where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.terms.units import nearest

T = TypeVar("T")
#: Words that begin a clause, so that an expression before them ends.
_CLAUSES: Final = frozenset(
    {"FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "OFFSET", "FETCH", "WINDOW", "UNION",
     "EXCEPT", "INTERSECT", "ON", "USING", "AS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI"}
)  # fmt: skip
#: Words that are no alias of a table.
_NO_ALIAS: Final = _CLAUSES | {"SEMI", "ASOF", "TABLESAMPLE", "LATERAL", "PIVOT", "UNPIVOT", "POSITIONAL", "FOR"}
_FUNCTIONS: Final = frozenset({"LEFT", "RIGHT"})  # of these, the ones that are functions before a parenthesis
_ENDS: Final = frozenset(
    {"VAR", "IDENTIFIER", "NUMBER", "STRING", "R_PAREN", "END", "NULL", "TRUE", "FALSE", "TIME", "DATE"}
)  # tokens with which an expression ends, so that a name behind them is its alias
#: Functions that make a table with windows of another table.
WINDOWED: Final = ("TUMBLE", "HOP", "SESSION")
_SURPLUS: Final = {
    "WINDOW": "OVER with its parts in it", "FETCH": "LIMIT", "OFFSET": "the end: a window has no OFFSET",
    "EXCEPT": "UNION ALL", "INTERSECT": "UNION ALL or JOIN",
    **dict.fromkeys(("PIVOT", "UNPIVOT", "LATERAL", "TABLESAMPLE"), "a table, a stream or a subquery alone"),
}  # fmt: skip


class NameAt(NamedTuple):
    """A name of a table or a column."""

    name: str
    span: Span


class Item(NamedTuple):
    """A column of SELECT: an expression with its alias, or all columns."""

    span: Span
    alias: NameAt | None = None
    star: bool = False
    table: NameAt | None = None  # of which all columns
    exclude: tuple[NameAt, ...] = ()  # but these
    replace: tuple[Item, ...] = ()  # these with other expressions


class Argument(NamedTuple):
    """An argument of a function that makes a table."""

    name: str  # empty if it is stated by its position
    span: Span


class TableName(NamedTuple):
    """A stream, a common table expression or a source."""

    name: NameAt


class TextFile(NamedTuple):
    """A file that is read."""

    path: str
    span: Span


class TableFunction(NamedTuple):
    """A source with parameters, or ``read_csv`` and ``read_parquet``."""

    name: NameAt
    arguments: tuple[Argument, ...]


class Windowed(NamedTuple):
    """A table to whose rows windows are assigned."""

    kind: NameAt
    table: FromItem
    partition: tuple[NameAt, ...]
    time: NameAt
    lengths: tuple[Span, ...]


class FromItem(NamedTuple):
    """A table with its alias."""

    table: TableName | TextFile | TableFunction | Windowed | QueryClauses
    alias: NameAt | None
    span: Span
    version: Span | None = None  # the time of FOR SYSTEM_TIME AS OF


class JoinClause(NamedTuple):
    """A table that is joined with those before it."""

    how: str  # inner, left, anti, asof or asof left
    item: FromItem
    on: Span | None
    using: tuple[NameAt, ...]


class OrderKey(NamedTuple):
    """A key of ORDER BY."""

    span: Span
    descending: bool


class Select(NamedTuple):
    """SELECT without ORDER BY and LIMIT."""

    span: Span
    items: tuple[Item, ...]
    distinct: tuple[NameAt, ...] | None  # columns of DISTINCT ON; empty: DISTINCT; None: neither
    tables: tuple[FromItem, ...]
    joins: tuple[JoinClause, ...]
    where: Span | None
    groups: tuple[Span, ...]
    having: Span | None
    qualify: Span | None


class QueryClauses(NamedTuple):
    """A query: one SELECT, or several that UNION ALL connects."""

    span: Span
    tables: tuple[tuple[NameAt, QueryClauses], ...]  # common table expressions
    selects: tuple[Select | QueryClauses, ...]
    order: tuple[OrderKey, ...]
    limit: Span | None


def parsed(text: QueryText) -> QueryClauses:
    """Read the clauses of a text that holds one query."""
    import sqlglot  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

    try:
        tokens = sqlglot.tokenize(text.text)
    except sqlglot.errors.SqlglotError:
        text.refuse(Span(0, len(text.text)), "SQL with each quote and comment closed")
    reader = _Reader(text, tokens)
    query = reader.query()
    reader.take(";")
    reader.finish()
    return query


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: QueryText, tokens: list[Any]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _word(self, ahead: int = 0) -> str:
        """The token as a word in upper case or a sign; empty for names and text in quotes, and at the end."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type.name in ("IDENTIFIER", "STRING"):
            return ""
        return " ".join(self._tokens[at].text.upper().split())

    def _kind(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].token_type.name if 0 <= at < len(self._tokens) else ""

    def _span(self, first: int | None = None) -> Span:
        """Place of the token; from that of number ``first`` to the one before, if it is stated."""
        end = len(self._text.text)
        if first is not None and self._at > first:
            return Span(self._tokens[first].start, self._tokens[self._at - 1].end + 1)
        if self._at < len(self._tokens):
            return Span(self._tokens[self._at].start, self._tokens[self._at].end + 1)
        return Span(end, end)

    def take(self, *words: str) -> bool:
        """Read these words if they come next."""
        if any(self._word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def _need(self, word: str, after: str) -> None:
        if not self.take(word):
            self._text.refuse(self._span(), f"{word} {after}", [word])

    def _name(self, what: str) -> NameAt:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        named = token is not None and (
            token.token_type.name in ("VAR", "IDENTIFIER") or (token.text[:1].isalpha() and self._kind() != "STRING")
        )
        if not named or token is None:
            self._text.refuse(self._span(), what)
        span = self._span()
        self._at += 1
        return NameAt(token.text, span)

    def _names(self, what: str) -> tuple[NameAt, ...]:
        """Read names in parentheses, or one."""
        if not self.take("("):
            return (self._name(what),)
        found = self._listed(lambda: self._name(what))
        self._need(")", "after the names")
        return found

    def _listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        found = [read()]
        while self.take(","):
            found.append(read())
        return tuple(found)

    def _expression(self, what: str, stop: Iterable[str] = ()) -> Span:
        """Read over an expression: up to a comma, the end of the parentheses around it, or a clause."""
        first, depth = self._at, 0
        stops = {*_CLAUSES, *stop}
        while self._at < len(self._tokens):
            word = self._word()
            if word in ("(", "[", "{", "CASE"):
                depth += 1
            elif depth and word in (")", "]", "}", "END"):
                depth -= 1
            elif not depth:
                called = word in _FUNCTIONS and self._word(1) == "("
                distinct = word == "FROM" and self._word(-1) == "DISTINCT"
                if word in (",", ")", "]", "}", ";") or (word in stops and not called and not distinct):
                    break
            self._at += 1
        if self._at == first:
            self._text.refuse(self._span(), what)
        return self._span(first)

    def finish(self) -> None:
        """Refuse what follows the query."""
        if self._at < len(self._tokens):
            word = self._word()
            if self._word(-1) == ";":
                self._text.refuse(self._span(), "one query")
            words = ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "UNION ALL", "JOIN")
            alias = Span(self._tokens[self._at - 1].start, self._tokens[self._at - 1].end + 1)
            if self._at and nearest(self._word(-1), words) is not None:  # what has been read as an alias
                self._text.refuse(alias, f"one of {', '.join(words)}", near=nearest(self._word(-1), words))
            self._text.refuse(self._span(), _SURPLUS.get(word, f"the end, or one of {', '.join(words)}"), words)

    # -- clauses -------------------------------------------------------------------------------------------------------

    def query(self) -> QueryClauses:
        """Read a query, up to what cannot belong to it."""
        first = self._at
        tables: list[tuple[NameAt, QueryClauses]] = []
        if self.take("WITH"):
            if self._word() == "RECURSIVE":
                self._text.refuse(self._span(), "WITH without RECURSIVE: a plan has no cycles")
            tables = list(self._listed(self._common_table))
        selects: list[Select | QueryClauses] = [self._branch()]
        while self._word() == "UNION":
            start = self._at
            self._at += 1
            if not self.take("ALL"):
                self._text.refuse(
                    self._span(start), "UNION ALL: DISTINCT needs windows, so select from it", ["UNION ALL"]
                )
            if self._word() == "BY":
                self._text.refuse(self._span(), "a query: columns are those of the first one, by their order")
            selects.append(self._branch())
        order: tuple[OrderKey, ...] = ()
        if self.take("ORDER BY"):
            order = self._listed(self._key)
        limit = self._expression("a number of rows of each window") if self.take("LIMIT") else None
        if self._word() in ("OFFSET", "FETCH", "EXCEPT", "INTERSECT", "WINDOW"):
            self._text.refuse(self._span(), _SURPLUS[self._word()])
        return QueryClauses(self._span(first), tuple(tables), tuple(selects), order, limit)

    def _common_table(self) -> tuple[NameAt, QueryClauses]:
        name = self._name("the name of a common table expression")
        self._need("AS", "and a query in parentheses")
        return name, self._in_parentheses()

    def _in_parentheses(self) -> QueryClauses:
        self._need("(", "and a query")
        found = self.query()
        if not self.take(")"):
            self.finish()
            self._text.refuse(self._span(), ") after the query")
        return found

    def _branch(self) -> Select | QueryClauses:
        return self._in_parentheses() if self._word() == "(" else self._select()

    def _select(self) -> Select:
        first = self._at
        if not self.take("SELECT"):
            self._text.refuse(self._span(), "SELECT", ["SELECT", "WITH"])
        distinct: tuple[NameAt, ...] | None = None
        if self.take("DISTINCT"):
            distinct = self._names("columns in parentheses") if self.take("ON") else ()
        else:
            self.take("ALL")
        items = self._listed(self._item)
        if not self.take("FROM"):
            after = self._word()
            self._text.refuse(self._span(), f"FROM and a stream{', before ' + after if after else ''}", ["FROM"])
        tables, joins = [self._from_item()], []
        while self.take(","):
            tables.append(self._from_item())
        while (join := self._join()) is not None:
            joins.append(join)
        where = self._expression("a condition") if self.take("WHERE") else None
        groups = self._listed(lambda: self._expression("a column, or a window")) if self.take("GROUP BY") else ()
        having = self._expression("a condition") if self.take("HAVING") else None
        qualify = self._expression("a condition") if self.take("QUALIFY") else None
        return Select(self._span(first), items, distinct, tuple(tables), tuple(joins), where, groups, having, qualify)

    def _item(self) -> Item:
        first = self._at
        table = None
        if self._kind() in ("VAR", "IDENTIFIER") and self._word(1) == "." and self._word(2) == "*":
            table = self._name("a table")
            self._at += 1
        if self._word() == "*":
            self._at += 1
            exclude: tuple[NameAt, ...] = ()
            replace: tuple[Item, ...] = ()
            if self.take("EXCLUDE") or (self._word() == "EXCEPT" and self._word(1) == "(" and self.take("EXCEPT")):
                exclude = self._names("columns to leave out")
            if self.take("REPLACE"):
                self._need("(", "and expressions with the names of columns")
                replace = self._listed(self._item)
                self._need(")", "after the expressions")
            return Item(self._span(first), None, True, table, exclude, replace)
        span = self._expression("a column, or an expression")
        if self.take("AS"):
            return Item(span, self._name("the name of a column"))
        last, before = self._at - 1, self._at - 2
        if before >= first and self._is_alias(last, before, first):
            token = self._tokens[last]
            alias = NameAt(token.text, Span(token.start, token.end + 1))
            return Item(Span(span.start, self._tokens[before].end + 1), alias)
        return Item(span)

    def _is_alias(self, last: int, before: int, first: int) -> bool:
        """Whether the last word of an expression is the name of its column."""
        kinds = [self._tokens[at].token_type.name for at in (last, before)]
        in_interval = before > first and self._tokens[before - 1].text.upper() == "INTERVAL"
        return kinds[0] in ("VAR", "IDENTIFIER") and kinds[1] in _ENDS and not in_interval

    def _key(self) -> OrderKey:
        span = self._expression("a column to order by", stop=("ASC", "DESC", "NULLS"))
        descending = self.take("DESC")
        if not descending:
            self.take("ASC")
        if self.take("NULLS") and not self.take("LAST"):
            self._text.refuse(self._span(), "LAST: NULL is behind all values", ["LAST"])
        return OrderKey(span, descending)

    def _join(self) -> JoinClause | None:
        first, how = self._at, "inner"
        if self.take("ASOF"):
            how = "asof left" if self.take("LEFT") else "asof"
        elif self._word() in ("LEFT", "ANTI"):
            how = self._word().lower()
            self._at += 1
            self.take("OUTER")
        elif self._word() == "INNER" or self._word() == "CROSS":
            self._at += 1
        elif self._word() in ("RIGHT", "FULL", "NATURAL", "SEMI"):
            self._text.refuse(self._span(), "JOIN, LEFT JOIN, ANTI JOIN or ASOF JOIN", ["JOIN"])
        if not self.take("JOIN"):
            if self._at > first:
                self._text.refuse(self._span(), "JOIN", ["JOIN"])
            return None
        item = self._from_item()
        using = self._names("columns in parentheses") if self.take("USING") else ()
        on = self._expression("a condition") if self.take("ON") else None
        return JoinClause(how, item, on, using)

    # -- tables --------------------------------------------------------------------------------------------------------

    def _from_item(self) -> FromItem:
        first = self._at
        table = self._table()
        version = None
        if self.take("FOR", "SYSTEM_TIME", "AS", "OF"):
            version = self._expression("a time of the table before it")
        alias = None
        if self.take("AS") or (self._kind() in ("VAR", "IDENTIFIER") and self._word() not in _NO_ALIAS):
            alias = self._name("the name of a table")
            if self._word() == "(":
                self._text.refuse(self._span(), "aliases of columns in SELECT")
        return FromItem(table, alias, self._span(first), version)

    def _table(self) -> TableName | TextFile | TableFunction | Windowed | QueryClauses:
        if self._kind() == "STRING":
            token, span = self._tokens[self._at], self._span()
            self._at += 1
            return TextFile(token.text, span)
        if self._word() == "(":
            return self._in_parentheses()
        if self.take("TABLE"):
            if not self.take("("):
                return TableName(self._name("a table"))
            found = self._table()
            self._need(")", "after the table")
            return found
        name = self._name("a stream, a file in single quotes, or a subquery in parentheses")
        if self._word() == ".":
            self._text.refuse(self._span(), "a name alone: streams have no schemas")
        if not self.take("("):
            return TableName(name)
        if name.name.upper() == "CUMULATE":
            self._text.refuse(name.span, "one of TUMBLE, HOP, SESSION")
        if name.name.upper() in WINDOWED:
            return self._windowed(name)
        arguments = () if self._word() == ")" else self._listed(self._argument)
        self._need(")", "after the arguments")
        return TableFunction(name, arguments)

    def _windowed(self, kind: NameAt) -> Windowed:
        """Read the arguments of a function of windows."""
        self._keyword()
        first = self._at
        self.take("TABLE")
        table = FromItem(self._table(), None, self._span(first))
        partition = self._names("columns") if self.take("PARTITION BY") else ()
        self._need(",", "and DESCRIPTOR(time)")
        self._keyword()
        if self.take("DESCRIPTOR"):
            self._need("(", "and the column with the event time")
            time = self._name("the column with the event time")
            self._need(")", "after the column")
        else:
            time = self._name("DESCRIPTOR(time)")
        lengths = []
        while self.take(","):
            self._keyword()
            lengths.append(self._expression("an interval, such as INTERVAL '10 seconds'"))
        self._need(")", "after the intervals")
        return Windowed(kind, table, partition, time, tuple(lengths))

    def _keyword(self) -> str:
        """Read the name of an argument and its arrow, if there is one."""
        if self._word(1) in ("=>", ":=", "="):
            name = self._tokens[self._at].text
            self._at += 2
            return str(name)
        return ""

    def _argument(self) -> Argument:
        name = self._keyword()
        return Argument(name, self._expression("a value"))
