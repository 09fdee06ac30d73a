"""Sources of recorded and generated streams.

``reading`` turns a source's parameters into batches and punctuations and paces them, ``trace_files`` and ``tabular``
read the formats, ``packets`` generates self-similar traffic, ``datasets`` lists the traces of the papers and the tests.
"""

from __future__ import annotations

from synergy_nb.traces.reading import (
    BATCH_ROWS,
    Info,
    Skipped,
    info,
    open_trace,
    paced,
    read,
    read_once,
    schema_of,
    sniff,
    table,
)

__all__ = [
    "BATCH_ROWS",
    "Info",
    "Skipped",
    "info",
    "open_trace",
    "paced",
    "read",
    "read_once",
    "schema_of",
    "sniff",
    "table",
]
