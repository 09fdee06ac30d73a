"""Sources of connectors, as plans declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from synergy_nb.connectors import connected
from synergy_nb.dataflow.sources import Polled, Source
from synergy_nb.plan import source

COLUMNS = {"time": "time", "n": "int", "word": "str"}


def declared(connector: str, secrets: Mapping[str, bytes] | None = None, **params: Any) -> Source:
    """A source with the columns of these tests, and the parameters that a checked plan has."""
    plan = source(connector, **{"columns": COLUMNS, **params}, id="s").sink()
    return connected(plan.operators["s"].params, plan.schema("s"), secrets or {})


def numbers(polled: Polled | None) -> list[int]:
    """Column `n` of what a poll has found."""
    if polled is None or not isinstance(polled.rows, pl.DataFrame):
        return []
    return polled.rows["n"].to_list()


def taken(source: Source, rows: int) -> tuple[list[int], Any, list[str]]:
    """Poll until there are so many rows; the values of `n`, the last position, and what was said."""
    found: list[int] = []
    position, said, nothing = None, list[str](), 0
    while len(found) < rows:
        polled = source.poll(0.0)
        if polled is None:
            nothing += 1
            assert nothing < 1000, f"{found} are all that there is; expected {rows} rows"
            continue
        found += numbers(polled)
        position = polled.position
        said += polled.said
    return found, position, said
