"""Cases of which the first are quick tests: ``pytest -m "not slow"`` takes some of each kind, and the suite all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest

__all__ = ["quick_first", "quick_of_each"]

T = TypeVar("T")


def quick_first(values: Iterable[T], quick: int) -> list[Any]:
    """Return values of a parameter; tests with all but the first ``quick`` of them are slow."""
    return [value if place < quick else _slow(value) for place, value in enumerate(values)]


def quick_of_each(values: Iterable[T], kind: Callable[[T], Hashable]) -> list[Any]:
    """Return values of a parameter; tests with all but the first of each kind are slow."""
    found, seen = [], set()
    for value in values:
        found.append(_slow(value) if kind(value) in seen else value)
        seen.add(kind(value))
    return found


def _slow(value: object) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
