"""Where recorded and generated streams come from.

``reading`` turns a source's parameters into batches and punctuations and paces them, ``tracefiles`` and ``tabular``
read the formats, ``packets`` generates self-similar traffic, ``datasets`` knows the traces that the papers and the
tests use.
"""

from __future__ import annotations

from synergy_nb.traces.reading import BATCH_ROWS, Info, info, open_trace, paced, read, schema_of, sniff, table

__all__ = ["BATCH_ROWS", "Info", "info", "open_trace", "paced", "read", "schema_of", "sniff", "table"]
