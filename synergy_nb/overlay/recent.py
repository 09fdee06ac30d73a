"""A bounded memory of what was seen lately, for filtering duplicates."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Recent"]


class Recent:
    """Remembers at least the last ``size`` different items and at most twice as many, in two generations.

    Examples
    --------
    >>> recent = Recent(2)
    >>> [recent.add(item) for item in "abab"]
    [True, True, False, False]
    """

    __slots__ = ("_new", "_old", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._new: set[Hashable] = set()
        self._old: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def __contains__(self, item: object) -> bool:
        return item in self._new or item in self._old

    def add(self, item: Hashable) -> bool:
        """Remember ``item``; whether it is new."""
        if item in self:
            return False
        self._new.add(item)
        if len(self._new) >= self.size:
            self._old, self._new = self._new, set()
        return True
