"""What tests do with operators of plans: new instances, all rows of a stream, and the rows of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from synergy_nb.dataflow.operators.base import OperatorLogic, create
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, empty
from synergy_nb.plan import Plan
from synergy_nb.testing import drive, feed
from synergy_nb.testing._feeding import Feed, accepted, micros

__all__ = ["Feed", "accepted", "drive", "feed", "fresh", "micros", "rows_of", "through"]


def rows_of(items: Iterable[Item], schema: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """The tuples of all batches, with columns in the order of ``schema``."""
    tables = [item.table for item in items if isinstance(item, Batch)]
    for table in tables:
        assert table.columns == list(schema), "columns are those of the plan"
    return [row for table in tables for row in table.rows()]


def fresh(
    plan: Plan, operator: str, wait: Callable[[float], None] | None = None, *, exact: bool | None = None
) -> OperatorLogic:
    """A new instance of one operator of ``plan``."""
    keys = {"alpha": b"a" * 32, "beta": b"b" * 32}
    return create(plan.operators[operator], plan, secrets=keys, wait=wait or (lambda _: None), exact=exact)


def through(plan: Plan, operator: str, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """All rows of the stream of ``operator``, whose sources give ``tables``, computed in one piece."""
    node = plan.operators[operator]
    if node.kind == "source":
        return tables[operator]
    logic = fresh(plan, operator)
    inputs = [through(plan, upstream, tables) for upstream in node.inputs]
    given = [item for port, table in enumerate(inputs) for item in logic.on_batch(port, Batch(table, 0, 0.0))]
    for port, table in enumerate(inputs):
        given += logic.on_punctuation(port, Punctuation(END, table.height, 0.0))
    batches = [item.table for item in given if isinstance(item, Batch)]
    return pl.concat(batches) if batches else empty(plan.schema(operator))
