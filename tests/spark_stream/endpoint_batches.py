"""Batches that a query on Spark reads and writes."""

from __future__ import annotations

import polars as pl

from synergy_nb.dataflow.tuples import Batch

COLUMNS = {"time": "time", "n": "int", "text": "str"}


END_TIME = 10**15


def batch(times: list[int], position: int = 0, born: float = 0.0) -> Batch:
    """Rows that are numbered by their position."""
    numbers = range(position, position + len(times))
    table = pl.DataFrame(
        {"time": times, "n": numbers, "text": [f"row {number}" for number in numbers]},
        schema={"time": pl.Datetime("us"), "n": pl.Int64(), "text": pl.String()},
    )
    return Batch(table, position, born)


def numbers(tables: list[pl.DataFrame]) -> list[int]:
    return [number for table in tables for number in table["n"]]
