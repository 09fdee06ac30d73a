"""Bounded memories of recent ids, by which duplicates and late messages are refused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, KeysView
from typing import Any, Generic, TypeVar

__all__ = ["Latest", "Recent"]

Value = TypeVar("Value", bound=int | tuple[Any, ...])


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
        """Remember ``item``; return whether it is new."""
        if item in self:
            return False
        self._new.add(item)
        if len(self._new) >= self.size:
            self._old, self._new = self._new, set()
        return True


class Latest(Generic[Value]):
    """Remembers the largest value of each of the last ``size`` names.

    Examples
    --------
    >>> latest = Latest(2)
    >>> for name, value in (("a", 1), ("b", 2), ("b", 1), ("c", 3)):
    ...     latest.raise_to(name, value)
    >>> latest.get("a", 0), latest.get("b", 0), latest.get("c", 0)
    (0, 2, 3)
    """

    __slots__ = ("_values", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, name: str, otherwise: Value) -> Value:
        """The largest value of a name; ``otherwise`` if none is remembered."""
        return self._values.get(name, otherwise)

    @property
    def names(self) -> KeysView[str]:
        """The names that are remembered."""
        return self._values.keys()

    def raise_to(self, name: str, value: Value) -> None:
        """Remember a value of a name, unless a larger one is remembered."""
        self._values[name] = max(value, self._values.get(name, value))
        self._values.move_to_end(name)
        while len(self._values) > self.size:
            self._values.popitem(last=False)
