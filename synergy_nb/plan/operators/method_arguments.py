"""Conversions of the arguments of streams' methods, for :mod:`.methods`, which is generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synergy_nb.plan.sql.sql import quoted

__all__ = ["column_names", "columns_with_expressions", "without_none"]


def column_names(names: str | Iterable[str] | None) -> list[str] | None:
    """Return names of columns as a list; one name is a list of one.

    >>> column_names("link"), column_names(("link", "bytes")), column_names(None)
    (['link'], ['link', 'bytes'], None)
    """
    return None if names is None else [names] if isinstance(names, str) else list(names)


def columns_with_expressions(
    columns: Iterable[str | Sequence[str] | Mapping[str, str]], named: Mapping[str, str]
) -> dict[str, Any]:
    """Return column to expression, for names of columns, mappings of columns to expressions, and named expressions.

    >>> columns_with_expressions(["link", {"size": "bytes * 8"}], {"half": "bytes / 2"})
    {'link': 'link', 'size': 'bytes * 8', 'half': 'bytes / 2'}
    """
    result: dict[str, Any] = {}
    for each in columns:
        if isinstance(each, Mapping):
            result.update(each)
            continue
        for name in (each,) if isinstance(each, str) or not isinstance(each, Sequence) else each:
            if not isinstance(name, str):
                raise TypeError(f"columns: {each!r}; expected names of columns, or columns with their expressions")
            result[name] = quoted(name)
    return {**result, **named}


def without_none(**values: Any) -> dict[str, Any]:
    """Return the arguments that are not None.

    >>> without_none(cost="1 ms", at=None)
    {'cost': '1 ms'}
    """
    return {name: value for name, value in values.items() if value is not None}
