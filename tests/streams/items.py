"""Numbered tuples and promises, for tests that say what arrives by hand."""

from __future__ import annotations

import polars as pl

from synergy_nb.dataflow.streams.log.values import Chunk
from synergy_nb.dataflow.tuples import Batch, Punctuation


def batch(first: int, rows: int) -> Batch:
    """Tuples whose values are their positions, and whose times are ten times that."""
    values = list(range(first, first + rows))
    times = pl.Series([10 * value for value in values], dtype=pl.Int64).cast(pl.Datetime("us"))
    return Batch(pl.DataFrame({"time": times, "v": pl.Series(values, dtype=pl.Int64)}), first, 1.0)


def promise(until: int, position: int) -> Punctuation:
    return Punctuation(until, position, 1.0)


def values(chunks: list[Chunk]) -> list[object]:
    """What chunks hold: lists of tuples, and times of promises."""
    return [
        each.item.table.get_column("v").to_list() if isinstance(each.item, Batch) else each.item.time for each in chunks
    ]
