"""Feeding operators: rows cut into batches, punctuations between them, interleaving ports, and what must always hold.

A feed is a list of ``(port, item)``. Which rows of it are late is decided here too, by a literal reading of the rule,
so that the operators' own count is checked against another's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

import polars as pl

from synergy_nb.dataflow.operators.base import OperatorLogic, create
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, empty
from synergy_nb.plan import Plan

Feed = list[tuple[int, Item]]


def micros(table: pl.DataFrame, column: str = "time") -> list[int]:
    """Times of ``table`` in microseconds."""
    return table[column].cast(pl.Int64).to_list()


def earliest(table: pl.DataFrame) -> int:
    """The least time of a table's tuples in microseconds."""
    found = table.get_column("time").cast(pl.Int64).min()
    assert isinstance(found, int)
    return found


def feed(tables: list[pl.DataFrame], seed: int, batch: int = 40, eager: float = 0.0) -> Feed:
    """A feed of ``tables``, one a port.

    Parameters
    ----------
    tables
        Rows in their order of arrival.
    seed
        Of the cuts, the interleaving and the punctuations.
    batch
        Rows of a batch at most.
    eager
        Probability of a punctuation that comes too early, so that later rows are late.
    """
    rng = random.Random(seed)
    times = [micros(table) for table in tables]
    least = [list(accumulate(reversed(each), min))[::-1] for each in times]  # of a row and all after it
    at = [0] * len(tables)
    low = [START] * len(tables)
    open_ports = list(range(len(tables)))
    result: Feed = []
    while open_ports:
        port = rng.choice(open_ports)
        table = tables[port]
        born = 100.0 + len(result)
        if at[port] == table.height:
            result.append((port, Punctuation(END, at[port], born)))
            open_ports.remove(port)
            continue
        rows = rng.randint(1, batch)
        result.append((port, Batch(table.slice(at[port], rows), at[port], born)))
        at[port] = min(at[port] + rows, table.height)
        rest = range(at[port], table.height)
        if rest and rng.random() < 0.5:
            time = least[port][rest[0]] if rng.random() >= eager else times[port][rng.choice(rest)] + 1
            if time > low[port]:
                low[port] = time
                result.append((port, Punctuation(time, at[port], born)))
    return result


def accepted(tables: list[pl.DataFrame], items: Feed) -> tuple[list[pl.DataFrame], int]:
    """The rows of each port that are not late, with their position as ``pos``, and how many are late."""
    low = [START] * len(tables)
    kept: list[list[int]] = [[] for _ in tables]
    late = 0
    for port, item in items:
        if isinstance(item, Punctuation):
            low[port] = max(low[port], item.time)
            continue
        for row, time in enumerate(micros(item.table), item.position):
            if time >= low[port]:
                kept[port].append(row)
            else:
                late += 1
    numbered = [table.with_columns(pl.int_range(table.height, dtype=pl.Int64).alias("pos")) for table in tables]
    return [table.filter(pl.col("pos").is_in(rows)) for table, rows in zip(numbered, kept, strict=True)], late


def drive(logic: OperatorLogic, items: Feed) -> list[Item]:
    """What ``logic`` gives for ``items``; holds the rules of the interface on the way."""
    given: list[Item] = []
    position, low = logic.position, logic.watermark
    for port, item in items:
        new = logic.on_batch(port, item) if isinstance(item, Batch) else logic.on_punctuation(port, item)
        for each in new:
            assert low != END, "an item after the end"
            assert each.position == position, "positions are consecutive"
            assert each.born == item.born, "born is that of the item that triggered it"
            if isinstance(each, Batch):
                assert each.rows > 0, "no empty batches"
                assert earliest(each.table) >= low, "no tuple earlier than a punctuation before it"
                position = each.end_position
            else:
                assert each.time > low, "punctuations rise"
                low = each.time
        given += new
    return given


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
    return create(plan.operators[operator], plan, keys=keys, wait=wait or (lambda _: None), exact=exact)


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
