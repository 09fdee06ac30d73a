"""Cells of a notebook in SQL: ``%%sql name`` makes a stream of the cell and shows its plan.

``%load_ext synergy_nb`` adds them. FROM may name the streams and tables that are variables of the notebook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from synergy_nb.editing.sql_queries import sql
from synergy_nb.errors import user_facing
from synergy_nb.plan import Plan, Stream, source

__all__ = ["register"]


def register(shell: Any) -> None:
    """Add the cells to an IPython."""

    @user_facing
    def cell(line: str, cell: str) -> Plan:
        """Make a stream of a query in SQL, and show its plan: ``%%sql name`` keeps it as a variable."""
        name = line.strip()
        if name and not name.isidentifier():
            raise ValueError(f"%%sql: {name!r}; expected the name of a variable, or nothing")
        sources, tables = _variables(shell.user_ns, cell)
        stream = sql(cell, sources=sources, tables=tables)
        plan = stream.sink(name or None)
        if name:
            shell.user_ns[name] = stream
        return plan

    shell.register_magic_function(cell, "cell", "sql")


def _variables(variables: Mapping[str, Any], text: str) -> tuple[dict[str, Stream], dict[str, Any]]:
    """The variables that a query may name: streams and tables with event times, and other tables, to look up."""
    from synergy_nb.plan.data_frames import DataFrameError, is_frame  # noqa: PLC0415 - plans without rows need no Polars

    words = set(re.findall(r"\w+", text))
    streams: dict[str, Stream] = {}
    tables: dict[str, Any] = {}
    for name, value in variables.items():
        if name not in words or name.startswith("_"):
            continue
        if isinstance(value, Stream):
            streams[name] = value
        elif is_frame(value):
            try:
                streams[name] = source(value)
            except DataFrameError:
                tables[name] = value
    return streams, tables
