"""Names of peers in place of their addresses: events hold addresses, and people read names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

__all__ = ["peer_phrase", "readable", "readable_value"]


def readable(text: str, names: Mapping[str, str]) -> str:
    """Replace addresses in a text by names, the longest first, as one address may begin with another.

    The word "peer" before an address is left out where the name begins with it.

    >>> readable("a/1 and a/10", {"a/1": "one", "a/10": "ten"})
    'one and ten'
    >>> readable("peer a/1 died", {"a/1": "peer-1"})
    'peer-1 died'
    """
    pattern = _pattern(tuple(names))
    if pattern is None:
        return text

    def named(found: re.Match[str]) -> str:
        name = names[found["address"]]
        return peer_phrase(name) if found["word"] else name

    return pattern.sub(named, text)


def peer_phrase(name: str) -> str:
    """Return the name of a peer as a sentence has it: with the word "peer", unless the name begins with that.

    >>> peer_phrase("peer-1"), peer_phrase("tcp://127.0.0.1:8786")
    ('peer-1', 'peer tcp://127.0.0.1:8786')
    """
    return name if name.startswith("peer") else f"peer {name}"


def readable_value(value: Any, names: Mapping[str, str]) -> Any:
    """Replace addresses by names in all texts of a plain value, those of keys among them.

    >>> readable_value({"a/1": ["filter", ("a/10", 0.5)]}, {"a/1": "one", "a/10": "ten"})
    {'one': ['filter', ['ten', 0.5]]}
    """
    if isinstance(value, str):
        return readable(value, names)
    if isinstance(value, Mapping):
        return {readable_value(key, names): readable_value(each, names) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [readable_value(each, names) for each in value]
    return value


@lru_cache(maxsize=16)
def _pattern(addresses: tuple[str, ...]) -> re.Pattern[str] | None:
    """Pattern of all addresses; None if there are none."""
    longest_first = sorted(filter(None, addresses), key=len, reverse=True)
    return (
        re.compile(rf"(?P<word>\bpeer )?(?P<address>{'|'.join(map(re.escape, longest_first))})")
        if longest_first
        else None
    )
