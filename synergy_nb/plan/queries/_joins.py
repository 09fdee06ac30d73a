"""Joins of tables: their conditions as keys, intervals between times, and filters.

A ``join`` pairs rows with equal keys whose times differ by at most ``within``, and keeps the later time. So a condition
of the query that means just this becomes its parameters. Where an interval is not symmetric, or is one of columns of
which the difference to the time of the rows is known only in bounds, a wider ``within`` finds the pairs, and the
condition itself is a filter behind it; the times that it needs are columns then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.queries._conditions import (
    Condition,
    Side,
    TablesOfQuery,
    TimeDifference,
    difference_of,
    is_joined_time,
)
from synergy_nb.plan.queries._grammar import Select
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.queries._relations import TIME_NAMES, Age, Column, Relation
from synergy_nb.plan.sql.sql import quoted

_SUFFIX: Final = "_right"
_INTERVAL: Final = (
    "an interval between the times: a.time BETWEEN b.time - INTERVAL '5 seconds' AND b.time + INTERVAL '5 seconds'"
)


class Pair(NamedTuple):
    """Two expressions that have to be equal: one over the rows on the left, one over those on the right."""

    left: Any
    right: Any
    span: Span


def joined(text: QueryText, select: Select, sides: Sequence[Side]) -> tuple[Relation, list[tuple[Span, str]]]:
    """Join the tables of a SELECT; return what of WHERE is still to be tested, as expressions over the columns."""
    for side in sides:
        if side.relation.assigned is not None:
            text.refuse(side.relation.assigned.span, "a subquery that groups by these windows, whose rows are joined")
    tables = TablesOfQuery(text, select, sides)
    conditions = list(tables.conditions())
    own = [next(iter(each.tables)) if _is_own(each, sides) else -1 for each in conditions]
    relations = [
        _filtered(side.relation, [each for each, table in zip(conditions, own, strict=True) if table == at])
        for at, side in enumerate(sides)
    ]
    rest = [each for each, table in zip(conditions, own, strict=True) if table == -1]
    found = relations[0]
    for at, right in enumerate(relations[1:], 1):
        inner = sides[at].how == "inner"
        mine = [each for each in rest if max(each.tables, default=0) == at and (inner or each.join == at)]
        rest = [each for each in rest if each not in mine]
        stray = [each for each in rest if each.join == at and not inner]
        if stray:
            place = text.place(stray[0].tree, stray[0].span)
            text.refuse(place, f"conditions of both tables, or of the right one, in ON of a {sides[at].how} join")
        join = _Join(found, right, sides[at], tables, at, mine, rest)
        table = sides[at].table
        found = join.made() if table is None else join.looked_up(table)
    return found, [(each.span, found.expression(each.tree, each.span)) for each in rest]


def _is_own(condition: Condition, sides: Sequence[Side]) -> bool:
    """Whether a condition selects rows of one table before they are joined."""
    if len(condition.tables) != 1:
        return False
    (at,) = condition.tables
    if sides[at].table is not None:
        return False
    if condition.join and sides[condition.join].how != "inner":
        return at == condition.join
    return sides[at].how == "inner"


def _filtered(relation: Relation, conditions: Sequence[Condition]) -> Relation:
    if not conditions:
        return relation
    texts = [relation.expression(each.tree, each.span) for each in conditions]
    condition = texts[0] if len(texts) == 1 else " AND ".join(f"({each})" for each in texts)
    return relation.filtered(condition, conditions[0].span)


class _Join:
    """One join: the rows so far on the left, a table on the right."""

    def __init__(
        self,
        left: Relation,
        right: Relation,
        side: Side,
        tables: TablesOfQuery,
        at: int,  # number of the table
        conditions: Sequence[Condition],  # those that it has to meet
        later: Sequence[Condition],  # those that later joins and filters have to meet
    ) -> None:
        self._text = left.text
        self._left = left
        self._right = right
        self._how = side.how
        self._latest = side.how.startswith("asof")
        self._keeps_left = side.how in ("left", "asof left")  # whether rows without a partner have NULL
        self._span = side.span
        self._tables = tables
        self._at = at
        self._conditions = conditions
        self._later = later
        self._hidden = set(left.hidden)  # columns that ``*`` does not mean

    def made(self) -> Relation:
        """Make the join, and the filter behind it."""
        pairs: list[Pair] = []
        timed: list[TimeDifference] = []
        others: list[Condition] = []  # what a filter has to test
        wide: list[Condition] = []  # what it has to test unless the interval says all
        for each in self._conditions:
            pair, difference = self._pair(each), difference_of(self._text, each, self._time_of)
            if pair is not None:
                pairs.append(pair)
            elif difference is not None:
                wide.append(each)
            else:
                others.append(each)
            if difference is not None:
                timed.append(difference)
        least = max((each.least for each in timed), default=float("-inf"))
        most = min((each.most for each in timed), default=float("inf"))
        where = self._conditions[0].span if self._conditions else self._span
        if least == float("-inf") or most == float("inf"):
            self._text.refuse(where, _INTERVAL)
        if least > most:
            self._text.refuse(where, "an interval that some times are in")
        exact = all(each.exact for each in timed)
        if self._latest and (least != 0 or not exact):
            expected = "the age of the other row: a.time BETWEEN b.time AND b.time + INTERVAL '1 minute'"
            self._text.refuse(where, expected)
        if not self._latest and (-least != most or not exact):
            others += wide
        if others and self._how != "inner":
            place = self._text.place(others[0].tree, others[0].span)
            interval = "interval" if self._latest else "symmetric interval"
            self._text.refuse(place, f"equal columns and a{'n' * self._latest} {interval} in ON of a {self._how} join")
        on = [self._key(pair) for pair in pairs] or [self._both("1", "1", "1")]
        within = max(abs(least), abs(most))
        return self._tested(self._paired(sorted(set(on)), within, others), others)

    def looked_up(self, table: Mapping[str, Any]) -> Relation:
        """Look up the rows of a table, and filter what has been found."""
        if self._how == "anti":
            self._text.refuse(self._span, "JOIN, LEFT JOIN or ASOF JOIN of a table")
        keys: dict[str, str] = {}  # column of the stream to column of the table
        others: list[Condition] = []
        versions: list[str] = []  # columns of the table from whose times on rows are valid
        for each in self._conditions:
            pair, version = self._pair(each), self._version(each) if self._latest else ""
            if version:
                versions.append(version)
                continue
            if pair is None or pair.right.key != "column" or pair.right.name in keys.values():
                others.append(each)
                continue
            ours = self._left.own(pair.left, pair.span) if pair.left.key == "column" else ""
            if not ours or ours in keys:
                ours = f"{self._left.expression(pair.left, pair.span)} = {pair.right.name}"
                self._left = self._left.extended({ours: self._left.expression(pair.left, pair.span)}, self._span)
                self._hidden.add(ours)
            keys[ours] = pair.right.name
        if not keys:
            self._text.refuse(self._span, "columns that equal columns of the table, in ON or USING")
        if others and self._how != "inner":
            place = self._text.place(others[0].tree, others[0].span)
            kind = "n ASOF" if self._latest else " left"
            self._text.refuse(place, f"equal columns in ON of a{kind} join")
        if self._latest and len(versions) != 1:
            expected = "the time from which on a row is valid, as one condition of ON: a.time >= t.since"
            self._text.refuse(self._span, expected)
        alias = self._right.columns[0].table
        added = [name for name in table["columns"] if name not in keys.values()]
        prefix = f"{alias}_" if {name.casefold() for name in added} & _folded(self._left) else ""
        options = {"how": "left" if self._keeps_left else None, "valid_from": versions[0] if versions else None}
        found = self._left.then(
            lambda stream: stream.lookup(table, keys, prefix=prefix or None, **options), self._conditions[0].span
        )
        owns = {theirs: None if self._keeps_left else ours for ours, theirs in keys.items()}
        owns |= {name: prefix + name for name in added}
        columns = [*self._left.columns, *(Column(alias, name, own) for name, own in owns.items())]
        return self._tested(found.copy(columns=columns, hidden=self._hidden & set(found.schema)), others)

    def _tested(self, found: Relation, conditions: Sequence[Condition]) -> Relation:
        """Select the rows that meet what the join has not tested."""
        if not conditions:
            return found
        texts = [found.expression(each.tree, each.span) for each in conditions]
        condition = texts[0] if len(texts) == 1 else " AND ".join(f"({each})" for each in texts)
        return found.filtered(condition, conditions[0].span)

    # -- conditions ----------------------------------------------------------------------------------------------------

    def _time_of(self, node: Any, span: Span) -> tuple[bool, Age | None]:
        """Whether a column is of the right side, and its age if it is one of times."""
        is_right = self._tables.number(node, span) == self._at
        relation = self._right if is_right else self._left
        column = relation.column(node, span)
        return is_right, relation.ages.get((column.table, column.name))

    def _pair(self, condition: Condition) -> Pair | None:
        """The two sides of an equality, if each is of one side of the join, and can be a key."""
        tree, span = condition.tree, condition.span
        if tree.key != "eq":
            return None
        parts = [tree.this, tree.expression]
        tables = [self._tables.of(each, span) for each in parts]
        if tables[0] == {self._at}:
            parts.reverse()
            tables.reverse()
        if tables[1] != {self._at} or not tables[0] or self._at in tables[0]:
            return None
        for part, relation in zip(parts, (self._left, self._right), strict=True):
            if part.key == "column" and relation.column(part, span).own in ("time", None):
                return None
        return Pair(parts[0], parts[1], span)

    def _version(self, condition: Condition) -> str:
        """The column of a table before which no row is valid; empty if a condition says something else."""
        tree, span = condition.tree, condition.span
        if tree.key not in ("gte", "lte"):
            return ""
        later, earlier = (tree.this, tree.expression) if tree.key == "gte" else (tree.expression, tree.this)
        if later.key != "column" or earlier.key != "column" or self._tables.of(earlier, span) != {self._at}:
            return ""
        if self._at in self._tables.of(later, span) or self._left.column(later, span).own != "time":
            return ""
        return str(earlier.name)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _key(self, pair: Pair) -> str:
        """One key, under a name that both sides have."""
        sides = ((pair.left, self._left), (pair.right, self._right))
        mine, its = (relation.own(each, pair.span) if each.key == "column" else "" for each, relation in sides)
        if mine and mine == its:
            return mine
        left, right = (relation.expression(each, pair.span) for each, relation in sides)
        if mine and mine not in IMPLICIT and mine.casefold() not in _folded(self._right):
            lost = its if its and its not in IMPLICIT and self._is_unneeded(pair, its) else None
            columns = [each._replace(own=mine) if lost and each.own == lost else each for each in self._right.columns]
            self._right = self._right.extended({mine: right}, pair.span, [lost] if lost else [], columns)
            return mine
        if its and its not in IMPLICIT and its.casefold() not in _folded(self._left):
            self._left = self._left.extended({its: left}, pair.span)
            self._hidden.add(its)
            return its
        return self._both(f"{left} = {right}", left, right)

    def _is_unneeded(self, pair: Pair, own: str) -> bool:
        """Whether a key of the right may have the name of that of the left instead of its own."""
        if self._how != "inner" or self._tables.has_stars:
            return False
        equalities = [each for each in self._conditions if each.tree.key == "eq"]
        named = [
            column
            for each in equalities
            for column in each.tree.find_all(type(pair.right))
            if self._tables.number(column, each.span) == self._at and self._right.column(column, each.span).own == own
        ]
        return len(named) == 1

    def _both(self, name: str, left: str, right: str) -> str:
        """Add a column that the query does not name to both sides."""
        while name.casefold() in _folded(self._left) | _folded(self._right):
            name += "_"
        self._hidden.add(name)
        self._left = self._left.extended({name: left}, self._span)
        self._right = self._right.extended({name: right}, self._span)
        return name

    def _needed(self, others: Sequence[Condition]) -> set[tuple[str, str]]:
        """Tables and names of the columns whose values are needed behind the join."""
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        found: set[tuple[int, str]] = set(self._tables.used)
        for each in (*others, *self._later):
            for node in each.tree.find_all(exp.Column):
                if not is_joined_time(node):
                    found.add((self._tables.number(node, each.span), node.name))
        columns = (*self._left.columns, *self._right.columns)
        return {
            (each.table, each.name)
            for each in columns
            if each.table and (self._tables.number_of(each.table), each.name) in found
        }

    def _kept(self, relation: Relation, lost: set[str], needed: set[tuple[str, str]]) -> Relation:
        """Copy the columns of one side that the join loses, if they are needed behind it."""
        copies: dict[str, str] = {}
        columns: list[Column] = []
        for each in relation.columns:
            if each.own not in lost or not each.table:
                columns.append(each)
            elif (each.table, each.name) in needed:
                name = f"{each.table}.{each.own}"
                copies[name] = quoted(each.own or "")
                columns.append(each._replace(own=name))
            else:
                columns.append(each._replace(own=None))
        if not copies:
            return relation.copy(columns=columns)
        self._hidden |= set(copies)
        return relation.extended(copies, self._span, [], columns)

    def _paired(self, on: list[str], within: float, others: Sequence[Condition]) -> Relation:
        """Make the join; the names of columns are those of both sides."""
        needed = self._needed(others)
        on_windows = set(WINDOW_COLUMNS) <= set(on)
        lost = {"time"} if on_windows else set(IMPLICIT)
        left = self._left if self._latest else self._kept(self._left, lost, needed)
        right = self._kept(self._right, lost | (set(on) if self._keeps_left else set()), needed)
        if right.stream is left.stream:
            right = right.extended({}, self._span)
        names = [name for name in right.ordinary if name not in on]
        equal = [name for name in names if name.casefold() in _folded(left)]
        suffix = self._tables.suffix(self._at, equal, _SUFFIX)
        while (named := _suffixed(names, _folded(left), suffix)) is None:
            suffix += _SUFFIX
        stated = suffix if suffix != _SUFFIX else None
        how = "left" if self._keeps_left else "anti" if self._how == "anti" else None
        options: dict[str, Any] = {"on": on, "within": within / 1e6, "suffix": stated, "how": how}
        if self._latest:
            found = left.then(lambda stream: stream.asof(right.stream, **options), self._span)
        else:
            found = left.then(lambda stream: stream.join(right.stream, **options), self._span)
        hidden = {*self._hidden, *(named.get(name, name) for name in right.hidden)}
        columns = [*left.columns]
        if self._how != "anti":
            columns += [each._replace(own=named.get(each.own or "", each.own)) for each in right.columns]
        columns = [each for each in columns if each.table]
        columns += [Column("", name, "time") for name in TIME_NAMES]
        later = {False: 0 if self._latest else round(within), True: round(within)}  # how much the time may be later
        ages = {
            key: Age(age.least, age.most + later[relation is right])
            for relation in (left, right)
            for key, age in relation.ages.items()
            if key[0]
        }
        ages |= {("", name): Age(0, 0) for name in TIME_NAMES}
        if on_windows:
            columns += [Column("", name, name) for name in WINDOW_COLUMNS]
        return found.copy(columns=columns, ages=ages, hidden=hidden & set(found.schema))


def _suffixed(names: Sequence[str], taken: set[str], suffix: str) -> dict[str, str] | None:
    """Names of columns of the right in the join, as its operator makes them; None if two would be equal."""
    found: dict[str, str] = {}
    for name in names:
        found[name] = name + suffix if name.casefold() in taken else name
        if found[name].casefold() in taken:
            return None
        taken = taken | {found[name].casefold()}
    return found


def _folded(relation: Relation) -> set[str]:
    """The columns of a relation, without the difference of upper and lower case."""
    return {name.casefold() for name in relation.schema}
