"""The registry of the functions that apply operators on Spark, by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from spark_stream.operators.frames import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Applied: TypeAlias = "Callable[[Work], DataFrame]"

#: Kind of operator to the function that applies it.
APPLIED: Final[dict[str, Applied]] = {}


def implements(kind: str) -> Callable[[Applied], Applied]:
    """Decorate the function that applies operators of the kind ``kind``."""

    def register(applied: Applied) -> Applied:
        if kind in APPLIED:
            raise ValueError(f"operator kind {kind!r} is implemented twice")
        APPLIED[kind] = applied
        return applied

    return register
