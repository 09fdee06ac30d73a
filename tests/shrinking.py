"""Schedules that fail are cut down to their least: delta debugging over the list of faults of a schedule.

A schedule is a value: what is there, and a list of faults with their times. So a run of some of its faults is a run of
another schedule, and the least one that still fails says what the fault of the program is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["least"]

T = TypeVar("T")


def least(parts: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """Return parts, in their order, that fail together, and of which none can be left out.

    Those of Zeller's ``ddmin``: chunks of the parts, ever smaller ones, are tried alone and left out. No list is tried
    twice. ``fails`` is true for all ``parts``; the empty list is tried first, as most of a schedule may be innocent.
    """
    tried: dict[tuple[int, ...], bool] = {}

    def fail(numbers: Sequence[int]) -> bool:
        key = tuple(numbers)
        if key not in tried:
            tried[key] = fails([parts[number] for number in key])
        return tried[key]

    kept = list(range(len(parts)))
    if not kept or fail([]):
        return []
    chunks = 2
    while len(kept) > 1:
        size = -(-len(kept) // chunks)
        pieces = [kept[first : first + size] for first in range(0, len(kept), size)]
        others = [[each for each in kept if each not in piece] for piece in pieces]
        if (found := next((each for each in pieces if fail(each)), None)) is not None:
            kept, chunks = found, 2
        elif (found := next((each for each in others if fail(each)), None)) is not None:
            kept, chunks = found, max(chunks - 1, 2)
        elif size == 1:
            break
        else:
            chunks = min(2 * chunks, len(kept))
    return [parts[number] for number in kept]
