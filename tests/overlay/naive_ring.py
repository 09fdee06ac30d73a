"""A ring of addresses, and who is whose neighbour and root in it, as trying everything finds them."""

from __future__ import annotations

from synergy_nb.overlay.ring import MASK, distance, ring_position

ADDRESSES = [f"a{number}" for number in range(60)]


def naive_leaves(own: str, others: set[str], half: int) -> tuple[list[str], list[str]]:
    """The nearest on both sides, by sorting everything."""
    right = sorted(others, key=lambda other: (ring_position(other) - ring_position(own)) % (MASK + 1))
    left = sorted(others, key=lambda other: (ring_position(own) - ring_position(other)) % (MASK + 1))
    return left[:half], right[:half]


def naive_root(number: int, addresses: list[str]) -> str:
    return min(addresses, key=lambda address: (distance(ring_position(address), number), ring_position(address)))
