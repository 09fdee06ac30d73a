"""Traces and generated tuples keep the protocol of sources, and are the items that they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synergy_nb import traces
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.testing import check_source
from synergy_nb.traces.replayed import ReplayedSource, items

COLUMNS = {"time": "time", "n": "int"}


def trace(folder: Path, *, lateness: float | None = None) -> dict[str, Any]:
    """A trace of which some rows are out of order, and one line is malformed."""
    path = folder / "rows.csv"
    order = [0, 1, 3, 2, 4, 6, 5, 7, 8, 9]
    path.write_text("time,n\n" + "".join(f"{n},{n}\n" for n in order) + "never,0\n", encoding="utf-8")
    late = {} if lateness is None else {"lateness": lateness}
    return {"connector": "trace", "path": str(path), "format": "csv", "columns": COLUMNS, "tolerance": 0.2, **late}


SOURCES: dict[str, Any] = {
    "sorted": trace,
    "lateness": lambda folder: trace(folder, lateness=2.0),
    "packets": lambda _: {"connector": "packets", "seed": 1, "count": 40},
    "nexmark": lambda _: {"connector": "nexmark", "table": "bid", "seed": 1, "count": 40},
}
each = pytest.mark.parametrize("name", SOURCES)


@each
def test_they_keep_the_protocol(name: str, tmp_path: Path) -> None:
    params = {**SOURCES[name](tmp_path), "batch": 7}
    missing = {**trace(tmp_path), "path": str(tmp_path / "none.csv")}
    check_source(lambda: ReplayedSource(params), wrong=lambda: ReplayedSource(missing))


def plain(item: Item) -> object:
    return (item.position, item.table.rows()) if isinstance(item, Batch) else (item.position, item.time)


@each
def test_their_items_are_those_of_the_reader(name: str, tmp_path: Path) -> None:
    params = {**SOURCES[name](tmp_path), "batch": 7}
    skipped: list[Any] = []
    found = items(ReplayedSource(params), skipped.append)
    assert len(skipped) == (0 if name in ("packets", "nexmark") else 1)
    assert list(map(plain, found)) == list(map(plain, traces.read(params)))
