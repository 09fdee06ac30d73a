"""A stream, and the names by which a query knows its columns.

Each operator that a clause adds is checked at once, so that the columns and the windows of the stream are always known,
and what is wrong with an operator is refused at the place of its clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.validation import PlanError
from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.sql.sql import quoted, written

#: Other names of the event time.
TIME_NAMES: Final = ("time", "window_time", "rowtime")


#: Stands for a table where a column is named as in the stream.
STREAM: Final = " "


class Column(NamedTuple):
    """A column that expressions may use."""

    table: str  # alias of its table; empty if it belongs to none
    name: str
    own: str | None  # column of the stream; None if the stream has lost it, as a join loses the times of its sides


class Age(NamedTuple):
    """Bounds of how much later than a column of times the time of a tuple is, in microseconds."""

    least: int
    most: int


class Assigned(NamedTuple):
    """Windows that FROM has assigned to rows, and that the next operator with windows makes."""

    window: Mapping[str, Any]
    partition: tuple[str, ...]  # columns of which each combination has sessions of its own
    span: Span


class Ranking(NamedTuple):
    """A number of each row in its window, for a condition that selects the first rows."""

    name: str
    per: tuple[str, ...]
    order: tuple[str, ...]
    numbered: Callable[[], Relation]  # makes the same rows with their number as a column


class Relation:
    """A stream with the names of its columns."""

    def __init__(
        self,
        text: QueryText,
        stream: Stream,
        schema: Mapping[str, str],  # columns of the stream
        window: Mapping[str, Any] | None,  # its windows
        columns: Iterable[Column],
        assigned: Assigned | None = None,
        ages: Mapping[tuple[str, str], Age] | None = None,  # by table and name of a column with times
        ranking: Ranking | None = None,
        hidden: Iterable[str] = (),  # columns of the stream that ``*`` does not mean
    ) -> None:
        self.text = text
        self.stream = stream
        self.schema = dict(schema)
        self.window = window
        self.columns = list(columns)
        self.assigned = assigned
        self.ages = dict(ages or {})
        self.ranking = ranking
        self.hidden = frozenset(hidden)

    @classmethod
    def of(cls, text: QueryText, stream: Stream, span: Span) -> Relation:
        """Relation of a stream by itself."""
        schema, window = _derived(text, stream, span)
        plain = cls(text, stream, schema, window, [])
        plain._name_all("")
        return plain

    @property
    def ordinary(self) -> list[str]:
        """Columns of the stream but those that every stream has."""
        return [name for name in self.schema if name not in IMPLICIT]

    @property
    def visible(self) -> list[str]:
        """Columns of the stream that ``*`` means."""
        return [name for name in self.ordinary if name not in self.hidden]

    @property
    def windows(self) -> Mapping[str, Any] | None:
        """Windows that the rows have, or are about to get."""
        return self.assigned.window if self.assigned is not None else self.window

    @property
    def is_windowed(self) -> bool:
        """Whether rows belong to windows."""
        return self.assigned is not None or WINDOW_COLUMNS[1] in self.schema

    def _name_all(self, table: str) -> None:
        """Name all columns as they are in the stream, as columns of one table."""
        ages = {each.own: self.ages.get((each.table, each.name)) for each in self.columns if each.own}
        named = {name: age for name, age in ages.items() if age is not None and name in self.ordinary}
        self.columns = [Column(table, name, name) for name in self.ordinary]
        self.columns += [Column(table, name, "time") for name in TIME_NAMES]
        known = {(table, name): Age(0, 0) for name in TIME_NAMES}
        if self.is_windowed:
            assigned = self.assigned is not None
            self.columns += [Column(table, name, None if assigned else name) for name in WINDOW_COLUMNS]
            known |= {} if assigned else {(table, name): age for name, age in self._bounds().items()}
        self.ages = {**{(table, name): age for name, age in named.items()}, **known}

    def _bounds(self) -> dict[str, Age]:
        """Ages of the bounds of windows."""
        found = {"window_end": Age(-1, -1)}
        if self.window is not None and "length" in self.window:
            late = round(float(self.window["length"]) * 1e6) - 1
            found["window_start"] = Age(late, late)
        return found

    def named(self, table: str) -> Relation:
        """The same relation with all of its columns in one table, as after a subquery, or with an alias."""
        found = self.copy()
        if self.hidden:
            found = found.projected({name: quoted(name) for name in self.visible}, Span(0, 0))
        found._name_all(table)
        return found

    def numbered(self) -> Relation:
        """The same relation with the number of each row as a column, where no condition has selected rows by it."""
        if self.ranking is None:
            return self
        found = self.ranking.numbered()
        return found.named(next((each.table for each in self.columns), ""))

    def copy(self, **changed: Any) -> Relation:
        """A relation that differs in some attributes."""
        state = {**vars(self), **changed}
        return Relation(**state)

    # -- operators -----------------------------------------------------------------------------------------------------

    def then(self, make: Callable[[Stream], Stream], span: Span) -> Relation:
        """Add an operator that keeps the names of columns."""
        stream = make(self.stream)
        schema, window = _derived(self.text, stream, span)
        kept = [each for each in self.columns if each.own is None or each.own in schema]
        return self.copy(stream=stream, schema=schema, window=window, columns=kept)

    def filtered(self, condition: str, span: Span) -> Relation:
        """Select rows by a condition over columns of the stream."""
        return self.then(lambda stream: stream.filter(condition), span)

    def projected(self, columns: Mapping[str, str], span: Span, ages: Mapping[str, Age] | None = None) -> Relation:
        """Compute new columns, which belong to no table; ``ages``: by the name of a new column with times."""
        found = self.then(lambda stream: stream.project(dict(columns)), span)
        found.columns = [Column("", name, name) for name in columns]
        found.ages = {("", name): age for name, age in (ages or {}).items()}
        found.hidden = frozenset()
        found._name_all("")
        return found

    def extended(
        self,
        columns: Mapping[str, str],
        span: Span,
        without: Iterable[str] = (),  # columns to leave out
        names: Iterable[Column] | None = None,  # names of columns; None: as before
    ) -> Relation:
        """Compute further columns; the others stay."""
        kept = {name: quoted(name) for name in self.ordinary if name not in without}
        found = self.then(lambda stream: stream.project({**kept, **columns}), span)
        return found if names is None else found.copy(columns=names)

    # -- names ---------------------------------------------------------------------------------------------------------

    def column(self, node: Any, within: Span) -> Column:
        """Find the column that a node of an expression names."""
        table, name = node.table, node.name
        if table == STREAM:
            return next((each for each in self.columns if each.own == name), Column("", name, name))
        span = self.text.place(node, within)
        if len(node.parts) > 2:
            self.text.refuse(span, "a column, or a table and a column")
        return self.find(table, name, span, quoted=bool(node.this.args.get("quoted")))

    def find(self, table: str, name: str, span: Span, *, quoted: bool = False) -> Column:
        """Find a column by its name, and by that of its table unless that is empty."""
        tables = list(dict.fromkeys(each.table for each in self.columns if each.table))
        if table and table not in tables:
            self.text.refuse(span, f"a table of FROM ({', '.join(tables) or 'without alias'})", tables)
        found = [each for each in self.columns if each.name == name and table in ("", each.table)]
        found = [each for each in found if each.table == table] or found
        if not found:
            known = list(dict.fromkeys(each.name for each in self.columns if table in ("", each.table)))
            listed = [each for each in known if each not in TIME_NAMES[1:]]
            text = f"; text takes single quotes, '{name}'" if quoted else ""
            self.text.refuse(span, f"a column ({', '.join(listed)}){text}", known)
        if len({(each.table, each.own) for each in found}) > 1 and len({each.own for each in found}) > 1:
            written = " or ".join(f"{each.table}.{name}" for each in found)
            self.text.refuse(span, f"{written}: both tables have a column {name}")
        return found[0]

    def own(self, node: Any, within: Span) -> str:
        """Find the column of the stream that a node names."""
        found = self.column(node, within)
        if found.own is not None:
            return found.own
        span = self.text.place(node, within)
        if self.assigned is not None and found.name in WINDOW_COLUMNS:
            self.text.refuse(span, f"{found.name} only in GROUP BY, PARTITION BY or SELECT of what has been grouped")
        return self.text.refuse(span, "a column that the joined stream still has")

    def expression(self, tree: Any, within: Span) -> str:
        """Write an expression over columns of the stream."""
        changed = self.resolved(tree, within)
        return str(self.text.checked(within, lambda: written(changed)))

    def resolved(self, tree: Any, within: Span) -> Any:
        """Replace the names in an expression by columns of the stream; return the changed tree."""
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        return tree.transform(
            lambda node: exp.column(self.own(node, within), quoted=True) if node.key == "column" else node
        )


def _derived(text: QueryText, stream: Stream, span: Span) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Columns and windows of a stream; refuse the part of the text that states a wrong operator."""
    try:
        plan = stream.sink()
    except PlanError as error:
        problem = error.problems[0]
        value = "" if problem.value is None else str(problem.value)
        found = text.found(value, span) if isinstance(problem.value, str) else span
        text.refuse(found, problem.expected, near=problem.nearest, found="" if found != span else repr(value))
    (end,) = plan.upstream(plan.sinks[0])
    return plan.schema(end), plan.window(end)
