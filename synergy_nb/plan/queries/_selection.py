"""The clauses of a query as operators of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.queries._conditions import Side, conjuncts
from synergy_nb.plan.queries._grammar import (
    FromItem,
    Item,
    NameAt,
    QueryClauses,
    Select,
    TableFunction,
    TableName,
    TextFile,
    Windowed,
)
from synergy_nb.plan.queries._groups import Groups, Selected, aggregates_in
from synergy_nb.plan.queries._joins import joined
from synergy_nb.plan.queries._overs import is_over, overs
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.queries._ranks import (
    first_rows,
    is_numbering,
    most,
    numbering_of,
    ordered,
    own_window,
    qualified,
    windowed,
)
from synergy_nb.plan.queries._relations import STREAM, Age, Ranking, Relation
from synergy_nb.plan.queries._tables import Tables
from synergy_nb.plan.queries._windows import assigned, refuse_unwindowed
from synergy_nb.plan.sql.sql import quoted, written


def relation_of(text: QueryText, query: QueryClauses, tables: Tables) -> Relation:
    """The relation that a query means."""
    if query.tables:
        tables = tables.within()
    for name, inner in query.tables:
        tables.define(name, relation_of(text, inner, tables))
    parts: list[Relation] = []
    for each in query.selects:
        if isinstance(each, QueryClauses):
            parts.append(relation_of(text, each, tables))
        else:
            parts.append(_selected(text, _renamed_like(parts[0], each) if parts else each, tables))
    found = parts[0] if len(parts) == 1 else _united(text, parts, query)
    if query.order or query.limit is not None:
        found = ordered(found.numbered(), query.order, query.limit)
    return found


def _united(text: QueryText, parts: Sequence[Relation], query: QueryClauses) -> Relation:
    """All rows of several queries, whose columns correspond by their order."""
    first, *others = [each.numbered().named("") for each in parts]
    streams = [first.stream]
    for given, part in zip(others, query.selects[1:], strict=True):
        other = given
        if other.assigned is not None or first.assigned is not None:
            text.refuse(part.span, "GROUP BY, DISTINCT or ORDER BY of the windows that FROM assigns, before UNION ALL")
        if len(other.ordinary) != len(first.ordinary):
            mine, its = ", ".join(first.ordinary), ", ".join(other.ordinary)
            text.refuse(part.span, f"the columns of the first query ({mine})", found=f"columns {its}")
        known = any(other.stream is each for each in streams)
        if other.ordinary != first.ordinary or known:
            columns = {name: quoted(own) for name, own in zip(first.ordinary, other.ordinary, strict=True)}
            other = other.projected(columns, part.span)
        streams.append(other.stream)
    return first.then(lambda stream: stream.union(*streams[1:]), query.span)


def _renamed_like(first: Relation, select: Select) -> Select:
    """A SELECT whose columns have the names of the first query, where nothing but SELECT may name them."""
    named = select.groups or select.having or select.qualify or select.distinct is not None
    names = first.visible
    if named or len(names) != len(select.items) or any(item.star for item in select.items):
        return select
    items = [item._replace(alias=NameAt(name, item.span)) for item, name in zip(select.items, names, strict=True)]
    return select._replace(items=tuple(items))


def _table(text: QueryText, item: FromItem, tables: Tables) -> Relation:
    """The relation of a table of FROM, with its alias."""
    if item.version is not None:
        text.refuse(item.version, "FOR SYSTEM_TIME only of a table whose rows JOIN looks up", found="FOR SYSTEM_TIME")
    match item.table:
        case TableName(name):
            found, alias = tables.named(name), name.name
        case TextFile():
            found, alias = tables.file(item.table), ""
        case TableFunction():
            found, alias = tables.function(item.table), item.table.name.name
        case Windowed():
            found, alias = assigned(_table(text, item.table.table, tables).numbered(), item.table), ""
            inner = item.table.table.table
            alias = inner.name.name if isinstance(inner, TableName) else ""
        case _:
            found, alias = relation_of(text, item.table, tables), ""
    return found.named(item.alias.name if item.alias is not None else alias)


def _selected(text: QueryText, select: Select, tables: Tables) -> Relation:
    """The relation of one SELECT."""
    relation, where = _rows(text, select, tables)
    if where:
        condition = " AND ".join(f"({each})" for _, each in where) if len(where) > 1 else where[0][1]
        relation = relation.filtered(condition, where[0][0])
    outputs = _outputs(relation, select)
    relation = relation.copy(ranking=None)
    over = [output.tree for output in outputs if output.tree.key != "window"]
    if select.having is not None:
        over.append(text.tree(select.having))
    if select.groups or select.having is not None or any(map(aggregates_in, over)):
        return _grouped(relation, select, outputs)
    if select.qualify is not None:
        relation = qualified(relation, select.qualify)
    if select.distinct:
        on = [relation.find("", each.name, each.span).own for each in select.distinct]
        relation = _distinct(relation, select, on)
    computed = bool(select.joins or select.tables[1:])
    if not any(is_over(output.tree) for output in outputs):
        relation = _projected(relation, select, outputs, computed=computed)
        return _distinct(relation, select, []) if select.distinct == () else relation

    def numbered() -> Relation:
        found, changed = overs(relation, outputs)
        return _projected(found, select, changed, computed=True)

    if select.distinct == ():
        return _distinct(numbered(), select, [])
    ranking = _ranking(relation, outputs, numbered)
    if ranking is None:
        return numbered()
    others = [output for output in outputs if not is_numbering(output.tree)]
    return _projected(relation, select, others).copy(ranking=ranking)


def _rows(text: QueryText, select: Select, tables: Tables) -> tuple[Relation, list[tuple[Span, str]]]:
    """The rows of FROM, and what of WHERE is still to be tested, as expressions over their columns."""
    relation = _table(text, select.tables[0], tables)
    if len(select.tables) > 1 or select.joins:
        others = [("inner", each) for each in select.tables[1:]] + [(each.how, each.item) for each in select.joins]
        sides = [Side("inner", relation, select.tables[0].span)]
        sides += [_side(text, how, item, tables) for how, item in others]
        return joined(text, select, [side._replace(relation=side.relation.numbered()) for side in sides])
    if select.where is None:
        return relation.numbered(), []
    tree = text.tree(select.where)
    if relation.ranking is not None:
        return _ranked(relation, relation.ranking, tree, select)
    return relation, [(select.where, relation.expression(tree, select.where))]


def _side(text: QueryText, how: str, item: FromItem, tables: Tables) -> Side:
    """A table that is joined with those before it."""
    if isinstance(item.table, TableName):
        name = item.table.name
        found = tables.looked_up(name, item.alias.name if item.alias is not None else name.name)
        if found is not None:
            return Side(how, found[0], item.span, found[1])
    return Side(how, _table(text, item, tables), item.span)


def _ranked(
    relation: Relation, ranking: Ranking, where: Any, select: Select
) -> tuple[Relation, list[tuple[Span, str]]]:
    """Select the first rows by a condition on their number; return what else is to be tested.

    Where the number is used otherwise, too, it is a column.
    """
    assert select.where is not None

    def is_rank(node: Any) -> bool:
        return bool(node.key == "column" and node.name == ranking.name)

    parts = list(conjuncts(where))
    limits = [(part, number) for part in parts if (number := most(part, is_rank)) is not None]
    rest = [part for part in parts if part is not limits[0][0]] if limits else parts
    spans = [item.span for item in select.items if not item.star]
    spans += [*select.groups, *(each for each in (select.having, select.qualify) if each is not None)]
    used = [*rest, *map(relation.text.tree, spans)]
    starred = any(item.star and ranking.name not in {each.name for each in item.exclude} for item in select.items)
    if not limits or starred or any(is_rank(node) for tree in used for node in tree.walk()):
        relation = relation.numbered()
        return relation, [(select.where, relation.expression(where, select.where))]
    relation = first_rows(relation, ranking, limits[0][1], select.where)
    return relation, [(select.where, relation.expression(part, select.where)) for part in rest]


def _outputs(relation: Relation, select: Select) -> list[Selected]:
    """The columns of SELECT; of ``*`` each one."""
    from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

    found: list[Selected] = []
    for item in select.items:
        if item.star:
            replaced = {each.alias.name: each for each in item.replace if each.alias is not None}
            for name, own in _all_columns(relation, item):
                if name in replaced:
                    other = replaced[name]
                    found.append(Selected(name, relation.text.tree(other.span), other.span, True))
                else:
                    found.append(Selected(name, exp.column(own, table=STREAM, quoted=True), item.span, False))
            continue
        tree = relation.text.tree(item.span)
        name = item.alias.name if item.alias is not None else tree.name if tree.key == "column" else ""
        found.append(Selected(name, tree, item.span, item.alias is not None))
    return found


def _all_columns(relation: Relation, item: Item) -> list[tuple[str, str]]:
    """Names and columns of the stream that ``*`` means."""
    text = relation.text
    visible = [(name, name) for name in relation.visible]
    if item.table is not None:
        tables = {each.table for each in relation.columns}
        if item.table.name not in tables:
            text.refuse(item.table.span, f"a table of FROM ({', '.join(sorted(tables - {''}))})", tables)
        own = [each for each in relation.columns if each.table == item.table.name and each.own not in IMPLICIT]
        visible = [(each.name, each.own) for each in own if each.own is not None and each.name not in IMPLICIT]
    names = [name for name, _ in visible]
    number = relation.ranking.name if relation.ranking is not None else None  # it has selected rows, and is no column
    for each in (*item.exclude, *(replace.alias for replace in item.replace if replace.alias is not None)):
        if each.name not in names and each.name not in IMPLICIT and each.name != number:
            text.refuse(each.span, f"a column ({', '.join(names)})", names)
    excluded = {each.name for each in item.exclude}
    return [(name, own) for name, own in visible if name not in excluded]


def _grouped(relation: Relation, select: Select, outputs: Sequence[Selected]) -> Relation:
    """The relation of a SELECT with groups."""
    text = relation.text
    stars = [item.span for item in select.items if item.star]
    if stars:
        text.refuse(stars[0], "columns of GROUP BY and aggregates")
    if select.distinct is not None:
        text.refuse(select.span, "SELECT without DISTINCT, where GROUP BY makes each row once", found="DISTINCT")
    groups = Groups(relation, select, outputs)
    changed = [
        Selected(each.name, groups.over(each.tree, each.span, each.name if each.alias else ""), each.span, each.alias)
        for each in outputs
    ]
    having = None if select.having is None else groups.over(text.tree(select.having), select.having)
    found = groups.made(select)
    # the names of keys are known only now: another column may have that which SELECT states
    changed = [
        each._replace(tree=groups.over(output.tree, output.span, output.name if output.alias else ""))
        for each, output in zip(changed, outputs, strict=True)
    ]
    if having is not None and select.having is not None:
        having = groups.over(text.tree(select.having), select.having)
        found = found.filtered(text.checked(select.having, lambda: written(having)), select.having)
    if select.qualify is not None:
        found = qualified(found, select.qualify)
    return _projected(found, select, changed, computed=True)


def _distinct(relation: Relation, select: Select, on: Sequence[str | None]) -> Relation:
    """Select different rows of each window."""
    if not relation.is_windowed:
        refuse_unwindowed(relation.text, select.span, "DISTINCT")
    window = own_window(relation)
    columns = [each for each in on if each is not None and each not in IMPLICIT]
    return windowed(relation.then(lambda stream: stream.distinct(*columns, window=window), select.span))


def _projected(relation: Relation, select: Select, outputs: Sequence[Selected], *, computed: bool = False) -> Relation:
    """The columns of SELECT; no operator where they are those of the stream.

    ``computed``: whether operators have made these columns for this SELECT, whose names and order then are the same.
    """
    text = relation.text
    only_all = len(select.items) == 1 and select.items[0].star and not select.items[0].replace
    if only_all and [each.name for each in outputs] == relation.ordinary:
        return relation
    columns: dict[str, str] = {}
    ages: dict[str, Age] = {}
    for output in outputs:
        own = _implicit(relation, output)
        if own is not None and output.name == own:
            continue
        expression = relation.expression(output.tree, output.span)
        name = output.name or (output.tree.name if output.tree.key == "column" else expression)
        if name in columns:
            text.refuse(output.span, f"each column once; another one is called {name}")
        if name in IMPLICIT:
            text.refuse(output.span, f"a name other than {name}, which every stream has", found=repr(name))
        columns[name] = expression
        if output.tree.key == "column" and (age := _age(relation, output)) is not None:
            ages[name] = age
    if not columns:
        text.refuse(select.span, "a column beside the time and the bounds of windows", found="SELECT of these alone")
    if computed and list(columns) == relation.ordinary and all(quoted(name) == it for name, it in columns.items()):
        return relation
    return relation.projected(columns, select.span, ages)


def _ranking(relation: Relation, outputs: Sequence[Selected], numbered: Callable[[], Relation]) -> Ranking | None:
    """The number of each row, by which first rows might be selected; None where SELECT does not allow that."""
    numbers = [output for output in outputs if is_over(output.tree)]
    if len(numbers) != 1 or not is_numbering(numbers[0].tree) or len(outputs) == 1:
        return None
    numbering = numbering_of(relation, numbers[0].tree, numbers[0].span)
    names = {name: name for name in IMPLICIT}  # names in SELECT of columns of the stream
    for output in outputs:
        if output.tree.key == "column" and (own := relation.column(output.tree, output.span).own) is not None:
            names.setdefault(own, output.name)
    keys = [key.removesuffix(" desc") for key in numbering.order]
    if not {*keys, *numbering.per} <= set(names):
        return None
    order = [names[key] + " desc" * (whole != key) for whole, key in zip(numbering.order, keys, strict=True)]
    return Ranking(numbers[0].name, tuple(names[each] for each in numbering.per), tuple(order), numbered)


def _implicit(relation: Relation, output: Selected) -> str | None:
    """The column that every stream has, if the expression is one of these."""
    if output.tree.key != "column":
        return None
    column = relation.column(output.tree, output.span)
    if column.own is None and column.name in WINDOW_COLUMNS and relation.assigned is not None:
        return column.name
    return column.own if column.own in IMPLICIT else None


def _age(relation: Relation, output: Selected) -> Age | None:
    """How old a column with times is, if that is known."""
    column = relation.column(output.tree, output.span)
    return relation.ages.get((column.table, column.name))
