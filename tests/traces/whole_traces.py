"""A trace as one table, with what its reader says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from synergy_nb.traces._typed_columns import Malformed, Tally
from synergy_nb.traces.trace_files import opened


class WholeTrace(NamedTuple):
    """A parsed trace: ``table`` in the order of the file, ``schema`` (column to type), and the malformed lines."""

    path: str
    format: str
    table: pl.DataFrame
    schema: dict[str, str]
    malformed: Malformed | None


def load(path: str | Path, format: str | None = None, **options: Any) -> WholeTrace:  # noqa: A002 - as in plans
    """Parse a trace into one table; ``options`` are those of :func:`synergy_nb.traces.trace_files.opened`."""
    trace = opened(path, format, **options)
    tally = Tally()
    tables = list(trace.judged(tally))
    table = pl.concat(trace.rows() if trace.again else tables)
    return WholeTrace(str(trace.path), trace.format, table, trace.schema, tally.malformed)
