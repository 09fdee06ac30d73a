"""Order and ids of the operators of a plan that is built in Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

__all__ = ["chosen", "needed"]

N = TypeVar("N")
K = TypeVar("K", bound=Hashable)


def needed(ends: Iterable[N], inputs: Callable[[N], Sequence[N]], key: Callable[[N], Hashable]) -> list[N]:
    """All that ``ends`` need, depth first, inputs before what reads them."""
    order: list[N] = []
    waiting = [(end, False) for end in reversed(list(ends))]
    seen: set[Hashable] = set()
    while waiting:
        each, done = waiting.pop()
        if done:
            order.append(each)
        elif key(each) not in seen:
            seen.add(key(each))
            waiting.append((each, True))
            waiting += [(up, False) for up in reversed(inputs(each))]
    return order


def chosen(streams: Mapping[K, tuple[str, str | None]]) -> dict[K, str]:
    """Choose ids of streams, each of which has a kind and perhaps an id: the kind, numbered if there are several."""
    names = {key: stated for key, (_, stated) in streams.items() if stated}
    taken = set(names.values())
    for key, (kind, _) in streams.items():
        if key not in names:
            number = 1
            while (own := kind if number == 1 else f"{kind}_{number}") in taken:
                number += 1
            taken.add(own)
            names[key] = own
    return names
