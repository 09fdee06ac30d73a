"""The beginning of a trace: its format and its columns with the types that they seem to have, without an event time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from synergy_nb.plan.operators.sources import TRACE_SCHEMAS
from synergy_nb.traces._parquet import columns_of_parquet
from synergy_nb.traces._tabular import columns_of_csv
from synergy_nb.traces.text_files import UTF8, head, likely_encoding
from synergy_nb.traces.trace_files import sniff

__all__ = ["Header", "header_of"]


class Header(NamedTuple):
    """The beginning of a trace."""

    format: str
    columns: dict[str, str]  # column to type, in the order of the file
    fixed: bool  # whether all files of this format have these columns
    encoding: str  # encoding of the text, as likely_encoding finds it


def header_of(path: Path, encoding: str = UTF8) -> Header:
    """Read the format and the columns of a file from its beginning.

    ``encoding``: encoding that is stated for it. Raises ValueError if the file cannot be read, or has no known format.
    """
    if head(path)[:4] == b"PAR1":
        return Header("parquet", columns_of_parquet(path), fixed=False, encoding=UTF8)
    encoding = likely_encoding(path, encoding)
    kind = sniff(path, encoding)
    if kind == "csv":
        return Header(kind, columns_of_csv(path, encoding), fixed=False, encoding=encoding)
    return Header(kind, dict(TRACE_SCHEMAS[kind]), fixed=True, encoding=encoding)
