"""Feeding operators: rows cut into batches, punctuations between them, interleaving ports, and what must always hold.

A feed is a list of ``(port, item)``. Which rows of it are late is decided here too, by a literal reading of the rule,
so that the operators' own count is checked against another's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

import polars as pl

from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

__all__ = ["Feed", "accepted", "drive", "feed", "micros"]

Feed: TypeAlias = list[tuple[int, Item]]


def micros(table: pl.DataFrame, column: str = "time") -> list[int]:
    """Times of a table in microseconds."""
    return table.get_column(column).cast(pl.Int64).to_list()


def feed(tables: Sequence[pl.DataFrame], seed: int, batch: int = 40, eager: float = 0.0) -> Feed:
    """Cut tables into what an operator receives: batches, punctuations between them, and the end.

    Parameters
    ----------
    tables
        Rows of each port, in their order of arrival.
    seed
        Seed of the cuts, of the order in which ports are read, and of the punctuations.
    batch
        Largest number of rows of a batch.
    eager
        Probability of a punctuation that comes too early, so that later rows are late.

    Returns
    -------
    list of (int, Batch or Punctuation)
        Port and item.

    Examples
    --------
    >>> table = pl.DataFrame({"time": range(5)}, schema={"time": pl.Datetime("us")})
    >>> [item.rows for _, item in feed([table], seed=1, batch=3) if isinstance(item, Batch)]
    [3, 2]
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


def accepted(tables: Sequence[pl.DataFrame], items: Feed) -> tuple[list[pl.DataFrame], int]:
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
    """Pass a feed to the logic of an operator, and return what it emits.

    Parameters
    ----------
    logic
        Logic of an operator, as :func:`synergy_nb.dataflow.operators.base.create` makes it.
    items
        Ports and items, as :func:`feed` makes them.

    Returns
    -------
    list of Batch or Punctuation
        Batches and punctuations that the operator emits, in order.

    Raises
    ------
    AssertionError
        If it breaks a rule that holds for all operators: the text says which.

    Examples
    --------
    >>> from synergy_nb import source
    >>> from synergy_nb.dataflow.operators import create
    >>> table = pl.DataFrame({"time": range(5), "v": range(5)}, schema_overrides={"time": pl.Datetime("us")})
    >>> plan = source(table).filter("v > 2").sink()
    >>> given = drive(create(plan.operators["filter"], plan), feed([table], seed=1))
    >>> sum(item.rows for item in given if isinstance(item, Batch))
    2
    """
    given: list[Item] = []
    position, low = logic.position, logic.watermark
    for port, item in items:
        new = logic.on_batch(port, item) if isinstance(item, Batch) else logic.on_punctuation(port, item)
        for each in new:
            _holds(low != END, "it emits an item after the end")
            _holds(
                each.position == position, f"position {each.position} follows; expected {position}: consecutive ones"
            )
            _holds(each.born == item.born, "born is not that of the item that triggered it")
            if isinstance(each, Batch):
                _holds(each.rows > 0, "it emits an empty batch")
                _holds(min(micros(each.table)) >= low, "it emits a tuple earlier than a punctuation before it")
                position = each.end_position
            else:
                _holds(each.time > low, "a punctuation is not later than the one before it")
                low = each.time
        given += new
    return given


def _holds(condition: bool, words: str) -> None:
    if not condition:
        raise AssertionError(words)
