"""Surveys of files of clean rows, as a process of Spark's makes them; nothing here knows Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow.parquet as pq

from synergy_nb.traces.profiles.surveys import RowSurvey, added, surveyed

_BLOCK: Final = 500_000  # rows that are looked at at once


def divided(files: Sequence[Path], most: int) -> list[list[Path]]:
    """Divide files, in their order, into at most so many parts.

    >>> [[path.name for path in part] for part in divided([Path(each) for each in "abcde"], 2)]
    [['a', 'b', 'c'], ['d', 'e']]
    """
    size = -(-len(files) // most)
    return [list(files[begin : begin + size]) for begin in range(0, len(files), size)]


def survey_of(files: Sequence[Path], columns: Mapping[str, str], step: int) -> RowSurvey:
    """Survey files, at least one, that follow one another in time."""
    found = added(surveyed(_blocks(path, list(columns)), columns, step) for path in files)
    assert found is not None
    return found


def _blocks(path: Path, names: list[str]) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BLOCK, columns=names):
            yield pl.DataFrame(pl.from_arrow(batch)).with_columns(pl.col("time").cast(pl.Datetime("us")))
