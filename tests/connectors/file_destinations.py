"""Destinations in files, and what a stream of some rows has to become there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from synergy_nb import csv, jsonl, parquet

SIZES = (3, 2, 4)
ROWS = sum(SIZES)


def folder(path: Path) -> dict[str, Any]:
    return parquet(path / "made" / "rows")


def periods(path: Path) -> dict[str, Any]:
    return parquet(path / "rows", partition="2 s")


def csv_file(path: Path) -> dict[str, Any]:
    return csv(path / "made" / "rows.csv")


def lines(path: Path) -> dict[str, Any]:
    return jsonl(path / "rows.jsonl")


EACH: tuple[Callable[[Path], dict[str, Any]], ...] = (folder, periods, csv_file, lines)


def found(to: dict[str, Any]) -> list[tuple[int, str]]:
    """The rows of a destination, read as anybody would read it."""
    path = Path(to["path"])
    match to["format"]:
        case "parquet":
            table = pl.read_parquet(path / "**" / "*.parquet", hive_partitioning=False)
        case "csv":
            table = pl.read_csv(path)
        case _:
            table = pl.read_ndjson(path)
    return sorted(table.select("v", "text").rows())


EXPECTED = [(number, f"{number},\n") for number in range(ROWS)]
