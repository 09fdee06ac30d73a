"""The code that a host executes, and the outcome of an execution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.tuples import Item

__all__ = ["Logic", "Outcome"]


class Logic(Protocol):
    """What works on the items of a component."""

    @property
    def late(self) -> int:
        """Tuples dropped so far because they came after a punctuation that promised there would be none."""

    @property
    def state_bytes(self) -> int:
        """Bytes of the state that it keeps between calls."""

    def needs(self, port: int, item: Item, /) -> float:
        """Bytes that taking an item may need in addition to the state."""

    def take(self, port: int, item: Item, /) -> Iterator[Item]:
        """Take an item on a port, and make its output piece by piece."""


class Outcome(msgspec.Struct):
    """The outcome of one execution.

    Parameters
    ----------
    started, finished
        Times at which the execution began and ended, in seconds.
    spent
        Number of tuples (0 for a punctuation) and seconds of each item that it processed.
    made
        Number of output tuples.
    parcels
        Output parcels.
    arrived
        Batches that reached a sink, each as (tuples, bytes, born, now) with times in seconds.
    late
        Number of tuples dropped as late since the operator was created.
    error
        Exception that the operator raised, or None.
    unfinished
        True if the work has more output to make.
    """

    started: float
    finished: float = 0.0
    spent: list[tuple[int, float]] = []
    made: int = 0
    parcels: list[Parcel] = []
    arrived: list[tuple[int, int, float, float]] = []
    late: int = 0
    error: BaseException | None = None
    unfinished: bool = False
