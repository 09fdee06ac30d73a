"""Timers: the next due time of each owner, and the earliest of all. No IO, no clock.

Examples
--------
>>> timers: Timers[str] = Timers()
>>> timers.set("a", 3.0), timers.set("b", 2.0), timers.set("b", 5.0), timers.next
(None, None, None, 3.0)
>>> timers.due(4.0), timers.next, timers.set("b", None), timers.next
(['a'], 5.0, None, None)
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Owner = TypeVar("Owner")


class Timers(Generic[Owner]):
    """The next due time of each owner, in seconds; ``next``: the earliest of all, or None."""

    def __init__(self) -> None:
        self.next: float | None = None
        self.at: dict[Owner, float] = {}  # due time of each owner that has one, seconds
        self._heap: list[tuple[float, int, Owner]] = []  # outdated entries are skipped
        self._sequence = 0

    def set(self, owner: Owner, at: float | None) -> None:
        """Set an owner's next time; None: it has none."""
        if self.at.get(owner) == at:
            return
        if at is None:
            del self.at[owner]
        else:
            self.at[owner] = at
            self._sequence += 1
            heapq.heappush(self._heap, (at, self._sequence, owner))
        if self._heap[0][2] == owner:  # else the earliest of all is what it was
            self._find_next()

    def due(self, now: float) -> list[Owner]:
        """Remove and return the owners whose time has come, the earliest first."""
        found: list[Owner] = []
        while self.next is not None and self.next <= now:
            owner = heapq.heappop(self._heap)[2]
            del self.at[owner]
            found.append(owner)
            self._find_next()
        return found

    def _find_next(self) -> None:
        heap = self._heap
        while heap and self.at.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        self.next = heap[0][0] if heap else None
