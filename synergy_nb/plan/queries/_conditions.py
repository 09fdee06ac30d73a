"""Conditions of joins: which tables they name, and what they say of the times of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from synergy_nb.plan.queries._grammar import Select
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.queries._relations import TIME_NAMES, Age, Relation
from synergy_nb.plan.queries._windows import microseconds

_NEVER: Final = float("-inf")
_EVER: Final = float("inf")


class Side(NamedTuple):
    """A table of FROM."""

    how: str  # how it is joined with those before it: inner, left, anti, asof or asof left
    relation: Relation  # of a table that is looked up, only the names of its columns
    span: Span
    table: Mapping[str, Any] | None = None  # terms of a table that is looked up; None: a stream


class Condition(NamedTuple):
    """An operand of AND, of ON or WHERE."""

    tree: Any
    span: Span
    tables: frozenset[int]  # numbers of the tables that it names
    join: int  # number of the table whose ON has it; 0 for WHERE


class TimeDifference(NamedTuple):
    """Bounds of the time of the rows on the left less that of a row on the right, in microseconds."""

    least: float
    most: float
    exact: bool  # whether they say as much as the condition


class _Moment(NamedTuple):
    """A column of times, plus an interval."""

    is_right: bool
    age: Age
    offset: int  # microseconds


def conjuncts(tree: Any) -> list[Any]:
    """The operands of AND."""
    if tree.key == "paren":
        return conjuncts(tree.this)
    return [*conjuncts(tree.this), *conjuncts(tree.expression)] if tree.key == "and" else [tree]


class TablesOfQuery:
    """The tables of one SELECT, by their numbers from left to right, and where their columns are used."""

    def __init__(self, text: QueryText, select: Select, sides: Sequence[Side]) -> None:
        self._text = text
        self._select = select
        self._sides = sides
        self._names = [side.relation.columns[0].table for side in sides]  # aliases
        for at, side in enumerate(sides):
            if self._names[at] in self._names[:at]:
                text.refuse(side.span, "an alias that no other table has, as in FROM packets AS a JOIN packets AS b")
        self.used = self._values()  # numbers of tables, and names, of the columns that SELECT, GROUP BY, ... name
        self.has_stars = any(item.star for item in select.items)

    def conditions(self) -> Iterator[Condition]:
        """The conditions of ON, USING and WHERE."""
        first = len(self._sides) - len(self._select.joins)
        for at, join in enumerate(self._select.joins, first):
            for name in join.using:
                yield self._same_name(name.name, name.span, at)
            if join.on is not None:
                yield from self._parts(join.on, at)
        if self._select.where is not None:
            yield from self._parts(self._select.where, 0)

    def _parts(self, span: Span, join: int) -> Iterator[Condition]:
        for part in conjuncts(self._text.tree(span)):
            yield Condition(part, span, self.of(part, span), join)

    def _same_name(self, name: str, span: Span, at: int) -> Condition:
        """The condition that a column of USING states."""
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        lefts = [other for other in range(at) if self._has(other, name)]
        if len(lefts) != 1 or not self._has(at, name):
            self._text.refuse(span, "a column of both tables")
        left, right = (exp.column(name, table=self._names[number], quoted=True) for number in (lefts[0], at))
        return Condition(exp.EQ(this=left, expression=right), span, frozenset({lefts[0], at}), at)

    def of(self, tree: Any, span: Span) -> frozenset[int]:
        """Numbers of the tables of an expression; of all of them, if it names the time of the joined rows."""
        from sqlglot import exp  # noqa: PLC0415 - as above

        found: set[int] = set()
        for node in tree.find_all(exp.Column):
            found |= set(range(len(self._sides))) if is_joined_time(node) else {self.number(node, span)}
        return frozenset(found)

    def number(self, node: Any, span: Span) -> int:
        """Number of the table of a column."""
        place = self._text.place(node, span)
        if node.table:
            if node.table not in self._names:
                self._text.refuse(place, f"a table of FROM ({', '.join(filter(None, self._names))})", self._names)
            at = self._names.index(node.table)
            self._sides[at].relation.column(node, span)  # which refuses one that it has not
            return at
        found = [at for at in range(len(self._sides)) if self._has(at, node.name)]
        if not found:
            known = [each.name for side in self._sides for each in side.relation.columns]
            known = list(dict.fromkeys(known))
            listed = [name for name in known if name not in TIME_NAMES[1:]]
            self._text.refuse(place, f"a column ({', '.join(listed)})", known)
        if len(found) > 1:
            written = " or ".join(f"{self._names[at]}.{node.name}" for at in found)
            self._text.refuse(place, f"{written}: both tables have a column {node.name}")
        return found[0]

    def number_of(self, table: str) -> int:
        """Number of a table by its alias."""
        return self._names.index(table)

    def _has(self, at: int, name: str) -> bool:
        return any(each.name == name for each in self._sides[at].relation.columns)

    def _values(self) -> set[tuple[int, str]]:
        from sqlglot import exp  # noqa: PLC0415 - as above

        select = self._select
        spans = [item.span for item in select.items if not item.star]
        spans += [other.span for item in select.items for other in item.replace]
        spans += [span for span in (*select.groups, select.having, select.qualify) if span is not None]
        found: set[tuple[int, str]] = set()
        for span in spans:
            if self._text.of(span).upper() == "ALL":
                continue
            for node in self._text.tree(span).find_all(exp.Column):
                holders = [at for at in range(len(self._sides)) if self._has(at, node.name)]
                if node.table in self._names:
                    holders = [self._names.index(node.table)]
                if node.table or len(holders) == 1:
                    found |= {(at, node.name) for at in holders}
        return found

    def suffix(self, at: int, columns: Sequence[str], usual: str) -> str:
        """The suffix by which SELECT tells columns of a table from others, or else the usual one."""
        found = set()
        for item in self._select.items:
            tree = None if item.star or item.alias is None else self._text.tree(item.span)
            if tree is None or tree.key != "column" or tree.table != self._names[at] or tree.name not in columns:
                continue
            alias = item.alias.name if item.alias is not None else ""
            found.add(alias[len(tree.name) :] if alias.startswith(tree.name) else "")
        return found.pop() if len(found) == 1 and "" not in found else usual


def is_joined_time(node: Any) -> bool:
    """Whether a column is the time of the joined rows, which belongs to no table."""
    return not node.table and node.name in TIME_NAMES


def difference_of(
    text: QueryText, condition: Condition, side: Callable[[Any, Span], tuple[bool, Age | None]]
) -> TimeDifference | None:
    """What a condition says of the times of both sides of a join; None if it compares something else.

    ``side``: of a column, whether it is of the right side, and its age if it is one of times.
    """
    tree, span = condition.tree, condition.span

    def moment(node: Any) -> _Moment | None:
        if node.key == "paren":
            return moment(node.this)
        if node.key in ("add", "sub") and node.expression.key == "interval":
            found = moment(node.this)
            if found is None:
                return None
            length = microseconds(text, node.expression, span)
            return found._replace(offset=found.offset + (length if node.key == "add" else -length))
        if node.key != "column" or is_joined_time(node):
            return None
        is_right, age = side(node, span)
        return None if age is None else _Moment(is_right, age, 0)

    def compared(sign: str, one: Any, other: Any) -> TimeDifference | None:
        first, second = moment(one), moment(other)
        if first is None or second is None or first.is_right == second.is_right:
            return None
        bound = second.offset - first.offset  # with which the first column less the second one is compared
        least, most = {
            "eq": (bound, bound), "lt": (_NEVER, bound - 1), "lte": (_NEVER, bound), "gt": (bound + 1, _EVER),
            "gte": (bound, _EVER),
        }[sign]  # fmt: skip
        if first.is_right:
            least, most, first, second = -most, -least, second, first
        left, right = first.age, second.age
        exact = left.least == left.most and right.least == right.most
        return TimeDifference(least + left.least - right.most, most + left.most - right.least, exact)

    if tree.key == "between":
        low, high = compared("gte", tree.this, tree.args["low"]), compared("lte", tree.this, tree.args["high"])
        if low is None or high is None:  # one bound may be a value, such as the end that a row states
            found = low or high
            return None if found is None else found._replace(exact=False)
        return TimeDifference(max(low.least, high.least), min(low.most, high.most), low.exact and high.exact)
    return compared(tree.key, tree.this, tree.expression) if tree.key in ("eq", "lt", "lte", "gt", "gte") else None
