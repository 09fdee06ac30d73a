"""Rows that a program pushes into a source: what it retains, and which part of an item is new at the source's peer.

Theory of operation
-------------------
No peer can read such rows again. So the program's end retains each item that it has sent until all copies of the source
have it, in a :class:`PushWindow`. Items are numbered by their positions. Each answer of the source's peer states its
epoch, the point up to which it has the items, and the point up to which all copies have them: the window goes on
sending behind the first, and lets go before the second. If the peer dies, the copy that takes over states where it
ends, in a later epoch, and is sent the rest again: with the same positions, promises and times of entry. What it has
already it discards (:func:`rest_of`). Answers of a peer that has been replaced change nothing.

A window that is full takes no more items, so the program waits until copies have caught up.

Examples
--------
>>> window = PushWindow[str](most=150)
>>> for time, name in ((30, "a"), (50, "b"), (80, "c")):
...     window.add(Punctuation(time, 0, 0.0), name)
>>> window.next, window.full
('a', True)
>>> window.answered(0, Point(0, 80), Point(0, 30)), window.next, window.full
(True, None, False)
>>> window.answered(1, Point(0, 50), Point(0, 30)), window.next  # a copy has taken over, and lacks the last item
(True, 'c')
>>> window.answered(0, Point(0, 80), Point(0, 80)), window.next  # an answer of the peer that it replaces
(True, 'c')
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

import msgspec

from synergy_nb.dataflow.streams.log.values import ORIGIN, OVERHEAD, Point
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation

__all__ = ["PushWindow", "rest_of"]

T = TypeVar("T")


class PushWindow(Generic[T]):
    """The items of a source that copies of it may lack, with a limit in bytes.

    ``start``: point up to which items are no longer retained; ``there``: point up to which the source's peer has the
    items.
    """

    def __init__(self, most: int) -> None:
        self.start = self.there = ORIGIN
        self.epoch = 0  # epoch of the source whose peer has answered last
        self.size = 0  # bytes of the retained items
        self._most = most  # bytes from which on the window is full; items count as in logs
        self._ends: list[Point] = []
        self._items: list[tuple[int, T]] = []  # bytes of each item, and what is retained of it

    def add(self, item: Item, kept: T) -> None:
        """Add the next item of the stream, and the form in which it is retained."""
        if isinstance(item, Punctuation):
            end, size = Point(item.position, item.time), OVERHEAD
        else:
            end, size = Point(item.end_position, self.end.until), OVERHEAD + item.nbytes
        self._ends.append(end)
        self._items.append((size, kept))
        self.size += size

    @property
    def full(self) -> bool:
        """Whether no more items should be added at present."""
        return self.size >= self._most

    @property
    def empty(self) -> bool:
        """Whether all copies have all items."""
        return not self._ends

    @property
    def end(self) -> Point:
        """End of the last item."""
        return self._ends[-1] if self._ends else self.start

    @property
    def next(self) -> T | None:
        """The first item that the source's peer lacks; None if it has all."""
        index = bisect_right(self._ends, self.there)
        return self._items[index][1] if index < len(self._items) else None

    @property
    def lacking(self) -> list[T]:
        """All items that the source's peer lacks."""
        return [item for _, item in self._items[bisect_right(self._ends, self.there) :]]

    def answered(self, epoch: int, end: Point, copied: Point) -> bool:
        """Handle an answer of the source's peer.

        ``end``: point up to which this peer has the items; ``copied``: point up to which all copies have them.

        Returns: whether it can go on; False if it lacks items that are not retained any more.
        """
        if epoch < self.epoch:
            return True
        self.there = end if epoch > self.epoch else max(end, self.there)
        self.epoch = epoch
        gone = bisect_right(self._ends, copied)
        if gone:
            self.start = self._ends[gone - 1]
            self.size -= sum(size for size, _ in self._items[:gone])
            del self._ends[:gone], self._items[:gone]
        return self.there >= self.start


def rest_of(item: Item, end: Point) -> Item | None:
    """Return the part of an item that comes after a point; None if there is none.

    Examples
    --------
    >>> import polars as pl
    >>> rest = rest_of(Batch(pl.DataFrame({"v": [1, 2, 3]}), 10, 0.0), Point(12, 0))
    >>> (rest.position, rest.table["v"].to_list()), rest_of(Batch(pl.DataFrame({"v": [1]}), 10, 0.0), Point(11, 0))
    ((12, [3]), None)
    """
    if not isinstance(item, Batch):
        return item if item.position >= end.position and item.time > end.until else None
    known = end.position - item.position
    if known <= 0:
        return item
    if known >= item.rows:
        return None
    return msgspec.structs.replace(item, table=item.table.slice(known), position=end.position)
