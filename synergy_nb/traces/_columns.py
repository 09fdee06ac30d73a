"""Selection of the columns of a CSV or Parquet file for a stream, with their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from synergy_nb.plan.operators.sources import TIME_NAMES
from synergy_nb.plan.tables.column_kinds import column_kind
from synergy_nb.plan.terms.column_types import EXAMPLES, column_type
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.traces._typed_columns import convert


def clock_of(
    path: Path,
    names: Sequence[str],
    columns: Mapping[str, str] | None,
    time: str | None,
    kinds: Callable[[], Mapping[str, str]] = dict,
) -> str:
    """Find the name of the column with the event time.

    ``path``, ``names``: path of the file, and the names of its columns; ``columns``, ``time``: parameters of
    :func:`synergy_nb.traces.trace_files.opened` with these names; ``kinds``: function that returns the columns with the
    types that they seem to have, for the error. Raises ValueError if the file has no such column, or none is stated and
    none has one of the usual names.
    """
    if time is None:
        stated = [name for name, kind in (columns or {}).items() if kind == "time" and name in names]
        time = next((name for name in (*TIME_NAMES, *stated[:1]) if name in names), None)
    if time is None:
        found = [name for name, kind in kinds().items() if kind in ("time", "date")]
        which = f"those with times are {', '.join(map(repr, found))}" if found else f"one of {', '.join(names)}"
        raise ValueError(
            f"{path}: time: none is stated, and no column is named {', '.join(TIME_NAMES)}; "
            f"expected the column with the event time: {which}"
        )
    if time not in names:
        raise ValueError(
            f"{path}: time: column {time!r} is not there; expected one of {', '.join(names)}{did_you_mean(time, names)}"
        )
    return time


def text_kinds(
    path: Path, names: list[str], columns: Mapping[str, str] | None, clock: str, sample: pl.DataFrame
) -> dict[str, str]:
    """Select columns of a CSV file with their types: as stated, or else inferred from all values of ``sample``.

    Raises ValueError if the file lacks a stated column, or its type is unknown.
    """
    if columns is not None:
        kinds = dict(columns)
        if clock != "time" and "time" in kinds and "time" not in names:
            del kinds["time"]  # the name of the column `clock` in the tuples
        kinds[clock] = "time"
        _check(path, names, kinds)
        return kinds
    return {name: "time" if name == clock else kind for name, kind in inferred(sample).items()}


def inferred(sample: pl.DataFrame) -> dict[str, str]:
    """Infer the type of each column of texts: the first type that fits all values which are not empty."""
    kinds = {}
    for name in sample.columns:
        values = sample.get_column(name)
        values = values.filter(values != "")
        fits = (
            kind
            for kind in ("int", "float", "bool", "date", "time")
            if len(values) and not convert(values, kind).null_count()
        )
        kinds[name] = next(fits, "str")
    return kinds


def stored_kinds(stored: Mapping[str, pl.DataType]) -> dict[str, str]:
    """Types of the columns of a Parquet file, without those that tuples cannot have."""
    return {name: kind for name, dtype in stored.items() if (kind := column_kind(dtype)) is not None}


def parquet_kinds(
    path: Path, stored: Mapping[str, pl.DataType], columns: Mapping[str, str] | None, clock: str
) -> dict[str, str]:
    """Select columns of a Parquet file with their types: as stated, or else as they are ``stored``.

    Raises ValueError if the file lacks a stated column, its type is unknown, or tuples cannot have a stored type.
    """
    kinds = {name: columns[name] for name in columns} if columns is not None else {}
    kinds.setdefault(clock, "time")
    for name, dtype in stored.items() if columns is None else ():
        kind = "time" if name == clock else column_kind(dtype)
        if kind is None:
            raise ValueError(f"{path}: column {name!r} of type {dtype}; expected {', '.join(EXAMPLES)}")
        kinds[name] = kind
    _check(path, list(stored), kinds)
    return kinds


def stream_schema(path: Path, kinds: Mapping[str, str], clock: str) -> dict[str, str]:
    """Derive the columns of the tuples with their types: the event time first, named ``time``.

    Raises ValueError if another column has that name.
    """
    others = {name: kind for name, kind in kinds.items() if name != clock}
    if "time" in others:
        raise ValueError(f"{path}: time: {clock!r}, but another column is named 'time'; expected one of the two")
    return {"time": "time", **others}


def _check(path: Path, names: Sequence[str], kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        if column_type(kind) is None:
            raise ValueError(
                f"columns: {name!r} of type {kind!r}; expected {', '.join(EXAMPLES)}{did_you_mean(kind, EXAMPLES)}"
            )
        if name not in names:
            raise ValueError(
                f"{path}: column {name!r} is not there; expected one of {', '.join(names)}{did_you_mean(name, names)}"
            )
