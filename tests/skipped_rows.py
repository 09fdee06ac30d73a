"""A file with malformed lines, and what has to be told of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from synergy_nb import source
from synergy_nb.events import LinesSkipped, SkippedLines
from tests.waiting import asked_until

ROWS = 400


COLUMNS = {"time": "time", "name": "str", "v": "int"}


def written(path: Path, *accented: int, rows: int = ROWS) -> Path:
    """A file of rows, of which some have a name in Latin-1: a share of the lines that is tolerated, if they are few."""
    lines = [f"{row / 10},{'Müller' if row in accented else 'Miller'},{row}" for row in range(rows)]
    data = "\n".join(["time,name,v", *lines, ""]).encode("latin-1")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows_of(path: Path, speed: float = 0.0, **more: Any) -> Any:
    return source("trace", path=str(path), format="csv", columns=COLUMNS, speed=speed, **more)


def few(path: Path, line: int, count: int = 1) -> SkippedLines:
    row = line - 2
    expected = "text in UTF-8, or another encoding of the file as encoding='windows-1252'"
    return SkippedLines(str(path), count, f"line {line}: field 'line': '{row / 10},M�ller,{row}'; expected {expected}")


def assert_told(application: Any, lines: SkippedLines, by: str = "source") -> None:
    """Everything that tells of late rows tells of these lines, once."""
    asked_until(lambda: application.qos()["malformed"])  # a peer may tell later than its rows are here
    measured = application.qos()
    assert (measured["malformed"], measured["malformed_first"]) == (lines.count, f"{lines.path}: {lines.first}")
    assert [(each.operator, each.lines) for each in application.events().of(LinesSkipped)] == [(by, lines)]
    assert f"skipped by {by}: {lines}" in str(application.explain())
    assert f"skipped by {by}" in repr(application)
    assert application.explain().skipped == {by: lines}
