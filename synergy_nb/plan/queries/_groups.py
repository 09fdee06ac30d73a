"""GROUP BY, aggregates and HAVING as operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.queries._grammar import Select
from synergy_nb.plan.queries._query_text import Span
from synergy_nb.plan.queries._relations import Column, Relation
from synergy_nb.plan.queries._windows import (
    BOUND_CALLS,
    is_window_call,
    refuse_unwindowed,
    same_window,
    window_of,
)
from synergy_nb.plan.sql.sql import AGGREGATES, call_name, columns, quoted, written

#: Value that is computed where a query groups without an aggregate.
_ROWS = "count(*)"


class Selected(NamedTuple):
    """A column of SELECT."""

    name: str
    tree: Any
    span: Span
    alias: bool  # whether the query states the name


def is_aggregate(node: Any) -> bool:
    """Whether a node is a call of an aggregate function."""
    return call_name(node) in AGGREGATES


def aggregates_in(tree: Any) -> bool:
    """Whether an expression has aggregates."""
    return any(is_aggregate(node) for node in tree.walk())


def _is_value(tree: Any) -> bool:
    """Whether an expression is one of aggregates and literals alone, as a value of an aggregate is."""

    def alone(node: Any) -> bool:
        if is_aggregate(node):
            return True
        bound = node.key == "anonymous" and node.name.lower() in BOUND_CALLS
        return (
            not bound and node.key != "column" and not is_window_call(node) and all(map(alone, node.iter_expressions()))
        )

    return aggregates_in(tree) and alone(tree)


class Groups:
    """The groups of a SELECT: their columns and window, and the aggregates that its expressions need."""

    def __init__(self, relation: Relation, select: Select, outputs: Sequence[Selected]) -> None:
        self._relation = relation
        self._text = relation.text
        self._outputs = outputs
        self._by: list[str] = []  # columns of the stream
        self._keys: dict[str, str] = {}  # text of a computed key to its column
        self._calls: dict[str, str] = {}  # text of an aggregate call to its column
        self._own: Mapping[str, Any] | None = None  # window that the query makes of rows without windows
        self._bounded = False  # whether the rows are grouped by windows that they have, or have been assigned
        self._window_texts: set[str] = set()
        for output in outputs:
            self._check(output.tree, output.span)
        self._group(select)

    def _check(self, tree: Any, span: Span) -> None:
        """Refuse what is no expression of the subset, before it is said which of its columns are no keys."""
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        def simple(node: Any) -> Any:
            known = is_aggregate(node) or is_window_call(node) or node.name.lower() in BOUND_CALLS
            return exp.column("x") if known or node.key in ("column", "window") else node

        self._text.checked(span, lambda: written(tree.transform(simple)))

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _group(self, select: Select) -> None:
        for span in select.groups:
            if self._text.of(span).upper() == "ALL":
                for output in self._outputs:
                    if not aggregates_in(output.tree):
                        self._add_key(output.tree, output.span)
                continue
            tree = self._text.tree(span)
            self._add_key(self._meant(tree, span), span)
        if self._own is None and not self._bounded:
            at = select.groups[0] if select.groups else select.items[0].span
            span = Span(at.start, (select.groups[-1] if select.groups else at).end)
            if self._relation.is_windowed:
                columns = "window_start, window_end, or TUMBLE(time, INTERVAL ...)"
                self._text.refuse(span, f"a window in GROUP BY: {columns}")
            refuse_unwindowed(self._text, span, "GROUP BY" if select.groups else "aggregates")
        given = self._relation.assigned
        if given is None or given.window["kind"] != "session" or sorted(given.partition) == sorted(self._by):
            return
        self._text.refuse(given.span, f"PARTITION BY {', '.join(self._by) or 'nothing'}, the columns of GROUP BY")

    def _meant(self, tree: Any, span: Span) -> Any:
        """What a key means: itself, or the column of SELECT that it names or counts."""
        if tree.key == "literal" and not tree.is_string and tree.name.isdigit():
            at = int(tree.name)
            if not 1 <= at <= len(self._outputs):
                self._text.refuse(span, f"a column of SELECT, from 1 to {len(self._outputs)}")
            return self._outputs[at - 1].tree
        if tree.key == "column" and not tree.table:
            known = {each.name for each in self._relation.columns}
            for output in self._outputs:
                if output.alias and output.name == tree.name and tree.name not in known:
                    return output.tree
        return tree

    def _add_key(self, tree: Any, span: Span) -> None:
        relation = self._relation
        if aggregates_in(tree):
            self._text.refuse(span, "a key without aggregates")
        if is_window_call(tree):
            return self._add_window(tree, span)
        if tree.key == "anonymous" and tree.name.lower() in BOUND_CALLS:
            self._text.refuse(span, "TUMBLE, HOP or SESSION, whose bounds SELECT may name")
        if tree.key == "column":
            column = relation.column(tree, span)
            bound = column.own in WINDOW_COLUMNS or (column.own is None and column.name in WINDOW_COLUMNS)
            if bound or self._is_bound(column.table, column.name):
                self._bounded = True
                if column.own is not None and column.own not in IMPLICIT:
                    self._plain(column.own)
                return None
            own = relation.own(tree, span)
            if own == "time":
                self._text.refuse(span, "a window of the time, such as TUMBLE(time, INTERVAL '10 seconds')")
            return self._plain(own)
        text = relation.expression(tree, span)
        names = [each.name for each in self._outputs if each.alias and self._same(each.tree, text, each.span)]
        self._keys.setdefault(text, names[0] if names else text)
        return None

    def _plain(self, own: str) -> None:
        if own not in self._by:
            self._by.append(own)

    def _is_bound(self, table: str, name: str) -> bool:
        """Whether a column always has the value of a bound of the window of its row."""
        relation = self._relation
        age = relation.ages.get((table, name))
        return WINDOW_COLUMNS[1] in relation.schema and age is not None and name not in ("time", "rowtime")

    def _add_window(self, tree: Any, span: Span) -> None:
        if self._relation.assigned is not None:
            self._text.refuse(span, "window_start and window_end: FROM assigns windows")
        window = window_of(self._relation, tree, span)
        if self._own is not None and not same_window(self._own, window):
            self._text.refuse(span, "one window")
        self._own = window
        self._window_texts.add(tree.sql())

    def _same(self, tree: Any, text: str, span: Span) -> bool:
        if aggregates_in(tree) or is_window_call(tree):
            return False
        return tree.key != "column" and self._relation.expression(tree, span) == text

    # -- expressions over the groups -----------------------------------------------------------------------------------

    def over(self, tree: Any, span: Span, name: str = "") -> Any:
        """Replace aggregates, keys and bounds of windows in an expression by columns of the groups.

        ``name``: of the column, if the expression is one of SELECT that states it.
        """
        from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

        if is_aggregate(tree) or (name and _is_value(tree)) or self._is_known(tree, span):
            return exp.column(self._called(tree, span, name), quoted=True)
        if tree.key == "anonymous" and tree.name.lower() in BOUND_CALLS:
            return exp.column(self._bound(tree, span), quoted=True)
        if is_window_call(tree) and tree.sql() in self._window_texts:
            if tree.name.lower() not in ("time_bucket", "date_trunc"):
                self._text.refuse(span, "window_start or window_end")
            return exp.column("window_start", quoted=True)
        if tree.key == "column":
            return exp.column(self._named(tree, span), quoted=True)
        if self._keys and tree.key not in ("literal", "boolean", "null") and not aggregates_in(tree):
            text = self._written(tree)
            if text in self._keys:
                return exp.column(self._keys[text], quoted=True)
        found = tree.copy()
        for field, value in list(tree.args.items()):
            if isinstance(value, list):
                found.set(
                    field, [self.over(each, span) if isinstance(each, exp.Expression) else each for each in value]
                )
            elif isinstance(value, exp.Expression) and field not in ("to", "unit"):
                found.set(field, self.over(value, span))
        return found

    def _is_known(self, tree: Any, span: Span) -> bool:
        """Whether an expression of aggregates is a column of the groups already."""
        return _is_value(tree) and self._relation.expression(tree, span) in self._calls

    def _written(self, tree: Any) -> str:
        """Text of an expression over the rows; empty if some name is no column of theirs, as an alias is none."""
        from sqlglot import exp  # noqa: PLC0415

        known = {each.name for each in self._relation.columns if each.own is not None}
        if any(each.name not in known for each in tree.find_all(exp.Column)):
            return ""
        return written(self._relation.resolved(tree, Span(0, 0)))

    def _called(self, tree: Any, span: Span, name: str) -> str:
        """The column of an aggregate call, or of an expression of such calls."""
        for call in (node for node in tree.walk() if is_aggregate(node)):
            if any(map(aggregates_in, call.iter_expressions())):
                self._text.refuse(span, "aggregates that are not within each other")
        text = self._relation.expression(tree, span)
        taken = {*self._calls.values(), *self._by, *self._keys.values(), *IMPLICIT}
        if text not in self._calls:
            free = name and name.casefold() not in {each.casefold() for each in taken}
            self._calls[text] = name if free else text
        return self._calls[text]

    def _bound(self, tree: Any, span: Span) -> str:
        from sqlglot import exp  # noqa: PLC0415

        kind = tree.name.lower().partition("_")[0]
        call = exp.Anonymous(this=kind, expressions=tree.expressions)
        if not same_window(window_of(self._relation, call, span), self._own):
            self._text.refuse(span, "the window of GROUP BY")
        return BOUND_CALLS[tree.name.lower()]

    def _named(self, tree: Any, span: Span) -> str:
        relation = self._relation
        known = {each.name for each in relation.columns}
        if not tree.table and tree.name not in known:
            aliases = {output.name: output for output in self._outputs if output.alias}
            if tree.name in aliases:  # HAVING may name columns of SELECT
                output = aliases[tree.name]
                column = self.over(output.tree, output.span, output.name)
                if column.key == "column":
                    return str(column.name)
            if tree.name in WINDOW_COLUMNS:
                return str(tree.name)
        column = relation.column(tree, span)
        if column.name in WINDOW_COLUMNS and (column.own is None or column.own in WINDOW_COLUMNS):
            return column.name
        own = relation.own(tree, span)
        if own == "time" and tree.name == "time":
            expected = "window_start, window_end or window_time, or an aggregate such as max(time)"
            self._text.refuse(self._text.place(tree, span), expected)
        if own not in self._by and own not in self._keys.values() and own not in IMPLICIT:
            place = self._text.place(tree, span)
            keys = [*self._by, *self._keys.values()]
            self._text.refuse(place, f"a column of GROUP BY ({', '.join(keys)}), or an aggregate such as max({own})")
        return own

    # -- the operators -------------------------------------------------------------------------------------------------

    def made(self, select: Select) -> Relation:
        """Add the operators that compute the groups."""
        relation, span = self._relation, select.span
        calls = self._calls or {_ROWS: _ROWS}
        if self._keys:
            relation = self._with_keys(relation, calls, span)
        by = sorted({*self._by, *self._keys.values()})
        values = {name: text for text, name in calls.items()}
        window = self._own if self._own is not None else relation.windows
        if self._own is None and relation.assigned is None:
            relation = self._of_windows(relation, by, values, span)
        else:
            own = dict(window or {})
            relation = relation.then(lambda stream: stream.aggregate(by or None, own, values), span)
        ages = {("", name): age for (_, name), age in self._relation.ages.items() if name in by}
        columns = [Column("", name, name) for name in by]
        return Relation(relation.text, relation.stream, relation.schema, relation.window, columns, None, ages).named("")

    def _of_windows(self, relation: Relation, by: list[str], values: dict[str, str], span: Span) -> Relation:
        """Aggregate the rows of windows that they have."""
        if not by and list(values.values()) == [_ROWS]:
            (name,) = values
            return relation.then(lambda stream: stream.count(name), span)
        return relation.then(lambda stream: stream.aggregate(by or None, None, values), span)

    def _with_keys(self, relation: Relation, calls: Mapping[str, str], span: Span) -> Relation:
        """Compute the keys that are expressions, beside the columns that aggregates need."""
        used = {each for text in calls for each in columns(text)} | set(self._by)
        for text, name in self._keys.items():
            if name in used:
                self._keys[text] = text  # another column has this name
        kept = {name: quoted(name) for name in relation.ordinary if name in used}
        return relation.then(
            lambda stream: stream.project({**kept, **{name: text for text, name in self._keys.items()}}), span
        )
