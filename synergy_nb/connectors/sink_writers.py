"""The writer of a destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.connectors._appended_file import AppendedFile
from synergy_nb.connectors._disk import Disk
from synergy_nb.connectors._parquet_folder import ParquetFolder
from synergy_nb.dataflow.sinks.protocol import SinkWriter

__all__ = ["writer_of"]


def writer_of(to: Mapping[str, Any], columns: Mapping[str, str], stream: str, disk: Disk | None = None) -> SinkWriter:
    """Return the writer of a destination.

    ``to``: destination as a plan holds it; ``columns``: columns of the stream with their types; ``stream``: what the
    rows are, see :func:`synergy_nb.plan.derived.repeatable_results.results_name`; ``disk``: steps of the writer.
    """
    if to["format"] == "parquet":
        return ParquetFolder(to["path"], columns, stream, to.get("partition"), disk)
    return AppendedFile(to["path"], columns, stream, to["format"], disk)
