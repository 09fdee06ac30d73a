"""The beginning of a trace: its format and its columns with the types that they seem to have, without an event time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.traces.parquet import columns_of_parquet
from synergy_nb.traces.tabular import columns_of_csv
from synergy_nb.traces.trace_files import sniff

__all__ = ["Header", "header_of"]


class Header(NamedTuple):
    """The beginning of a trace.

    Parameters
    ----------
    format
        Format of the file.
    columns
        Column to type, in the order of the file.
    fixed
        Whether all files of this format have these columns.
    """

    format: str
    columns: dict[str, str]
    fixed: bool


def header_of(path: Path) -> Header:
    """Read the format and the columns of a file from its beginning.

    Raises
    ------
    ValueError
        If the file cannot be read, or has no known format.
    """
    kind = sniff(path)
    if kind == "csv":
        return Header(kind, columns_of_csv(path), fixed=False)
    if kind == "parquet":
        return Header(kind, columns_of_parquet(path), fixed=False)
    return Header(kind, dict(TRACE_SCHEMAS[kind]), fixed=True)
