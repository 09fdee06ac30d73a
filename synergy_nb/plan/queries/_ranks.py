"""The first rows of windows: ORDER BY with LIMIT, and conditions on ``row_number()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.queries._grammar import OrderKey
from synergy_nb.plan.queries._query_text import Span
from synergy_nb.plan.queries._relations import Ranking, Relation
from synergy_nb.plan.queries._windows import refuse_unwindowed
from synergy_nb.plan.sql.sql import call_name

_NUMBERING = "row_number() OVER (PARTITION BY window_start, window_end, ... ORDER BY ...)"


class Numbering(NamedTuple):
    """The key and the order of ``row_number() OVER (...)``, by columns of the stream."""

    per: tuple[str, ...]
    order: tuple[str, ...]


def numbering_of(relation: Relation, node: Any, within: Span) -> Numbering:
    """Read ``row_number() OVER (...)``."""
    text = relation.text
    if not is_numbering(node) or node.args.get("spec") is not None:
        text.refuse(within, _NUMBERING, near="row_number" if call_name(node.this) in ("rank", "dense_rank") else None)
    return Numbering(tuple(partition_of(relation, node, within)), tuple(order_of(relation, node, within)))


def is_numbering(tree: Any) -> bool:
    """Whether an expression is the number of a row and nothing more."""
    return tree.key == "window" and call_name(tree.this) == "row_number"


def partition_of(relation: Relation, node: Any, within: Span) -> list[str]:
    """The columns of PARTITION BY but the bounds of windows, of which it needs one."""
    text = relation.text
    if not relation.is_windowed:
        refuse_unwindowed(text, within, f"{call_name(node.this)}()")
    windowed, per = False, []
    for each in node.args.get("partition_by") or ():
        column = relation.column(each, within) if each.key == "column" else None
        if column is None:
            text.refuse(text.place(each, within), "a column in PARTITION BY")
        elif column.name in WINDOW_COLUMNS or column.own in WINDOW_COLUMNS:
            windowed = True
        else:
            per.append(relation.own(each, within))
    if not windowed:
        numbering = _NUMBERING.replace("row_number()", f"{call_name(node.this)}(...)")
        text.refuse(within, f"window_start or window_end in PARTITION BY: {numbering}")
    return per


def order_of(relation: Relation, node: Any, within: Span) -> list[str]:
    """The columns of ORDER BY."""
    from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

    text, order = relation.text, []
    if "NULLS FIRST" in " ".join(text.of(within).upper().split()):
        text.refuse(text.found("NULLS FIRST", within), "NULLS LAST: NULL is behind all values")
    for each in node.args["order"].expressions if node.args.get("order") else ():
        ordered = each if isinstance(each, exp.Ordered) else exp.Ordered(this=each)
        if ordered.this.key != "column":
            text.refuse(text.place(each, within), "a column in ORDER BY")
        order.append(relation.own(ordered.this, within) + " desc" * bool(ordered.args.get("desc")))
    if not order:
        text.refuse(within, "ORDER BY: the rows of a window need an order")
    return order


def most(node: Any, is_rank: Any) -> int | None:
    """Number of rows that a condition on a rank selects; None if it is no such condition."""
    key = node.key
    if key in ("gt", "gte") and is_rank(node.expression):
        return _count(node.this, strict=key == "gt")
    if key in ("lt", "lte") and is_rank(node.this):
        return _count(node.expression, strict=key == "lt")
    if key == "eq" and is_rank(node.this) and _count(node.expression, strict=False) == 1:
        return 1
    return None


def _count(node: Any, *, strict: bool) -> int | None:
    if node.key != "literal" or node.is_string or not node.name.isdigit():
        return None
    return int(node.name) - strict


def first_rows(relation: Relation, ranking: Numbering | Ranking, number: int, span: Span) -> Relation:
    """Select the first rows of each window, or of each combination of some columns in it."""
    if number < 1:
        relation.text.refuse(span, "a number of rows of at least 1")
    window = own_window(relation)
    found = relation.then(
        lambda stream: stream.top(number, *ranking.order, per=list(ranking.per) or None, window=window), span
    )
    return windowed(found)


def qualified(relation: Relation, span: Span) -> Relation:
    """Select the rows that QUALIFY states."""
    node = relation.text.tree(span)
    number = most(node, lambda each: each.key == "window")
    inner = next((each for each in (node.this, node.args.get("expression")) if getattr(each, "key", "") == "window"), 0)
    if number is None or not inner:
        relation.text.refuse(span, f"{_NUMBERING} <= 3")
    return first_rows(relation, numbering_of(relation, inner, span), number, span)


def ordered(relation: Relation, keys: Sequence[OrderKey], limit: Span | None) -> Relation:
    """Order the rows of each window, or select the first ones."""
    text = relation.text
    if not keys:
        assert limit is not None
        text.refuse(limit, "ORDER BY before LIMIT: which rows would be the first ones?")
    span = Span(keys[0].span.start, keys[-1].span.end)
    if not relation.is_windowed:
        refuse_unwindowed(text, span, "ORDER BY")
    by: list[str] = []
    for key in keys:
        own = _ordered_by(relation, key)
        if own in IMPLICIT:
            if key.descending or by:
                text.refuse(key.span, "no time after another key, or descending: windows come one after another")
            continue
        by.append(own + " desc" * key.descending)
    if limit is None and not by:
        return relation
    if not by:
        text.refuse(span, "a column other than the time, whose values order the rows of a window")
    if limit is None:
        window = own_window(relation)
        return windowed(relation.then(lambda stream: stream.sort(*by, window=window), span))
    node = text.tree(limit)
    number = _count(node, strict=False)
    if number is None:
        text.refuse(limit, "a number of rows of each window")
    return first_rows(relation, Numbering((), tuple(by)), number, limit)


def _ordered_by(relation: Relation, key: OrderKey) -> str:
    """The column of the stream that orders."""
    node = relation.text.tree(key.span)
    if node.key == "column":
        found = relation.column(node, key.span)
        return found.own or found.name
    if node.key == "literal" and not node.is_string and node.name.isdigit():
        at = int(node.name)
        if 1 <= at <= len(relation.visible):
            return relation.visible[at - 1]
        relation.text.refuse(key.span, f"a column of the result, from 1 to {len(relation.visible)}")
    written = relation.text.of(key.span)
    if written in relation.visible:
        return written
    return relation.text.refuse(key.span, "a column of the result: select the expression under a name")


def own_window(relation: Relation) -> Any:
    """The window that an operator is to state; None if the rows have windows already."""
    if relation.assigned is None:
        return None
    if relation.assigned.partition:
        relation.text.refuse(
            relation.assigned.span, "GROUP BY of these columns: only groups have sessions of their own"
        )
    return dict(relation.assigned.window)


def windowed(relation: Relation) -> Relation:
    """The relation after an operator that has made the windows that were assigned."""
    if relation.assigned is None:
        return relation
    tables = {each.table for each in relation.columns}
    return relation.copy(assigned=None).named(tables.pop() if len(tables) == 1 else "")
