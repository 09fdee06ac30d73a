"""How many items each table of an object holds: of the object itself, and of the objects of this package in it.

A peer lives for months, so each of its tables has a bound, and a soak run has to see all of them, also one that was
added yesterday. So tables are found by looking, and no list of them has to be kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import msgspec

__all__ = ["tables"]

TABLES: Final = (dict, set, list, deque)
PACKAGE: Final = __name__.partition(".")[0]


def tables(owner: object) -> dict[str, int]:
    """Path of each table that is not empty to the number of its items, the first path in the order of attributes.

    What a table holds is not looked at, nor are values (plans, messages), which do not change.

    >>> class Memory:
    ...     def __init__(self) -> None:
    ...         self.seen, self.names = {"a", "b"}, {}
    >>> tables(Memory())
    {'seen': 2}
    """
    found: dict[str, int] = {}
    known = {id(owner)}
    waiting: deque[tuple[str, object]] = deque([("", owner)])
    while waiting:
        path, it = waiting.popleft()
        for name, value in _attributes(it):
            if isinstance(value, TABLES):
                if value and id(value) not in known:
                    known.add(id(value))
                    found[path + name] = len(value)
            elif _ours(value) and id(value) not in known:
                known.add(id(value))
                waiting.append((f"{path}{name}.", value))
    return found


def _ours(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == PACKAGE and not isinstance(value, msgspec.Struct | type)


def _attributes(it: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(it, "__dict__", {}).items())
    for kind in type(it).__mro__:
        for name in (slots,) if isinstance(slots := kind.__dict__.get("__slots__", ()), str) else slots:
            if not name.startswith("__") and hasattr(it, name):
                yield name, getattr(it, name)
