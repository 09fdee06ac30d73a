"""Window functions of SELECT as the operator ``over``: values over the rows of a key in order, in each window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.queries._groups import Selected
from synergy_nb.plan.queries._query_text import Span
from synergy_nb.plan.queries._ranks import order_of, own_window, partition_of, windowed
from synergy_nb.plan.queries._relations import STREAM, Relation
from synergy_nb.plan.sql.sql import AGGREGATES, call_name

_FRAME = "ROWS UNBOUNDED PRECEDING"


def is_over(tree: Any) -> bool:
    """Whether an expression has window functions."""
    return any(node.key == "window" for node in tree.walk())


def overs(relation: Relation, outputs: Sequence[Selected]) -> tuple[Relation, list[Selected]]:
    """Compute the columns of SELECT with window functions; return SELECT over the columns of the stream then."""
    from sqlglot import exp  # noqa: PLC0415 - takes 0.2 s, and most peers never need it

    text = relation.text
    keys: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    values: dict[str, str] = {}
    changed: list[Selected] = []
    for output in outputs:
        # the time of a row is that of its window behind the operator, so what needs it is computed here, too
        needs_time = any(node.name in ("time", "rowtime") for node in output.tree.find_all(exp.Column))
        if not is_over(output.tree) and not (needs_time and (output.alias or output.tree.key != "column")):
            changed.append(output)
            continue

        def bare(node: Any, span: Span = output.span) -> Any:
            if node.key != "window":
                return node
            keys.add(_parts(relation, node, span))
            return node.this

        expression = relation.expression(output.tree.transform(bare), output.span)
        name = output.name or expression
        while name in (*relation.schema, *IMPLICIT, *values):
            name += "_"
        values[name] = expression
        shown = output.name or expression
        changed.append(Selected(shown, exp.column(name, table=STREAM, quoted=True), output.span, True))
    if len(keys) != 1:
        text.refuse(outputs[-1].span, "window functions with equal PARTITION BY and ORDER BY in one SELECT")
    by, order = keys.pop()
    window = own_window(relation)
    span = Span(outputs[0].span.start, outputs[-1].span.end)
    found = relation.then(lambda stream: stream.over(list(by) or None, window, values, order=list(order) or None), span)
    return windowed(found), changed


def _parts(relation: Relation, node: Any, span: Span) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The key and the order of a window function; its order is that of event times if it is empty."""
    name = call_name(node.this)
    frame = node.args.get("spec")
    is_running = name in AGGREGATES
    rows = frame is not None and (frame.args.get("kind"), frame.args.get("start"), frame.args.get("end")) in (
        ("ROWS", "UNBOUNDED", "CURRENT ROW"), ("ROWS", "UNBOUNDED", None),
    )  # fmt: skip
    if is_running and not rows:
        relation.text.refuse(span, f"the rows of {name}() behind ORDER BY: {_FRAME}")
    if not is_running and frame is not None:
        relation.text.refuse(span, f"{name or 'a function'} without a frame")
    per = partition_of(relation, node, span)
    order = order_of(relation, node, span)
    if order[-1] == "time":
        order = order[:-1]
    if any(key.removesuffix(" desc") in IMPLICIT for key in order):
        relation.text.refuse(span, "no time but as the last key of ORDER BY, ascending")
    return tuple(per), tuple(order)
