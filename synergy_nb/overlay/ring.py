"""The state of a Pastry peer: numbers on the ring, leaf set, routing table.

Theory of operation
-------------------
Keys are 32 hexadecimal digits; as numbers modulo 2**128 they lie on a ring. The *root* of a key is the live peer whose
number is nearest, on either side (Pastry, section 2.2). The leaf set holds the nearest peers clockwise and
counter-clockwise; if it is correct, its owner knows the root of every key between its two outermost peers. In a ring of
at most ``2 * half + 1`` peers the two sides meet, and the leaf set covers the whole ring.

The routing table has a row for each number of leading digits shared with the owner and a column for each next digit
(section 2.3, figure 1). It is one dictionary from ``16 * row + column`` to an address, since rows beyond log16 N are
empty.

This module has no messages and no time. :mod:`synergy_nb.overlay.pastry` changes the state.

References
----------
.. [1] A. Rowstron and P. Druschel, "Pastry: Scalable, decentralized object location and routing for large-scale
   peer-to-peer systems", Middleware 2001.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

from synergy_nb.control.identity import peer_id_of
from synergy_nb.control.peer import key_of

__all__ = ["LeafSet", "RoutingTable", "distance", "number_of", "ring_position", "shared_digits"]

BITS: Final = 128
MASK: Final = (1 << BITS) - 1
RING: Final = float(1 << BITS)


@lru_cache(maxsize=1 << 15)
def number_of(key: str) -> int:
    """The number on the ring of a key of 32 hexadecimal digits."""
    return int(key, 16)


@lru_cache(maxsize=1 << 15)
def ring_position(address: str) -> int:
    """The number on the ring of the peer at ``address``: it follows from its id.

    >>> ring_position("tls://10.0.0.1:1#a.1") == ring_position("tls://10.0.0.2:2#a.1") == number_of(key_of("a.1"))
    True
    """
    return int(key_of(peer_id_of(address)), 16)


def distance(one: int, other: int) -> int:
    """Distance of two numbers on the ring, in the shorter direction.

    >>> distance(1, (1 << 128) - 1)
    2
    """
    clockwise = (one - other) & MASK
    counter = (other - one) & MASK
    return min(counter, clockwise)


def shared_digits(one: int, other: int) -> int:
    """Number of leading hexadecimal digits that two numbers share.

    >>> shared_digits(int("ab" + "0" * 30, 16), int("ac" + "0" * 30, 16))
    1
    """
    return (BITS - (one ^ other).bit_length()) >> 2


class LeafSet:
    """The peers nearest to ``address`` on the ring, at most ``half`` on each side.

    Examples
    --------
    >>> leaves = LeafSet("a")
    >>> leaves.add("b"), leaves.add("c"), leaves.add("b")
    (True, True, False)
    >>> sorted(leaves.members)
    ['b', 'c']
    >>> leaves.nearest(ring_position("c"))
    'c'
    """

    __slots__ = (
        "_arc_base", "_arc_offsets", "_arc_peers", "_arc_span", "_left", "_right", "_whole",
        "address", "half", "member_set", "members", "number", "version",
    )  # fmt: skip

    def __init__(self, address: str, half: int = 8) -> None:
        if half < 1:
            raise ValueError(f"half: {half} peers on each side; expected at least 1")
        self.address = address
        self.number = ring_position(address)
        self.half = half
        self.version = 0  # number of changes, by which a change is noticed
        self.members: tuple[str, ...] = ()
        self.member_set: frozenset[str] = frozenset()
        self._left: list[tuple[int, str]] = []  # (how far counter-clockwise, address), nearest first
        self._right: list[tuple[int, str]] = []
        self._rebuild()

    def __contains__(self, address: object) -> bool:
        return address in self.member_set

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    @property
    def whole(self) -> bool:
        """Whether the two sides meet, so that the leaf set covers the ring."""
        return self._whole

    @property
    def left(self) -> tuple[str, ...]:
        """Counter-clockwise members, nearest first."""
        return tuple(address for _, address in self._left)

    @property
    def right(self) -> tuple[str, ...]:
        """Clockwise members, nearest first."""
        return tuple(address for _, address in self._right)

    @property
    def size_estimate(self) -> float:
        """Estimated number of peers in the ring, from their density in the leaf set."""
        if self._whole:
            return float(len(self._arc_peers))
        return (len(self._arc_peers) - 1) * RING / self._arc_span

    def add(self, address: str) -> bool:
        """Add ``address`` if it is near enough; return whether that changed the leaf set."""
        clockwise = (ring_position(address) - self.number) & MASK
        if clockwise == 0:
            return False
        right = self._insert(self._right, clockwise, address)
        left = self._insert(self._left, -clockwise & MASK, address)
        if right or left:
            self._rebuild()
            return True
        return False

    def discard(self, address: str) -> bool:
        """Remove ``address``; return whether it was a member. The caller adds other known peers that now fit."""
        if address not in self.member_set:
            return False
        self._left = [item for item in self._left if item[1] != address]
        self._right = [item for item in self._right if item[1] != address]
        for _, other in (*self._left, *self._right):  # in a small ring a peer of one side now also fits the other
            clockwise = (ring_position(other) - self.number) & MASK
            self._insert(self._right, clockwise, other)
            self._insert(self._left, -clockwise & MASK, other)
        self._rebuild()
        return True

    def clear(self) -> None:
        """Remove all members."""
        self._left, self._right = [], []
        self._rebuild()

    def covers(self, number: int) -> bool:
        """Whether ``number`` lies between the two outermost peers, so that its root is known."""
        return (number - self._arc_base) & MASK <= self._arc_span

    def nearest(self, number: int, avoid: Collection[str] = ()) -> str:
        """The peer, this one included, that is nearest to ``number`` and not in ``avoid``."""
        if avoid:
            return min(
                (address for address in self._arc_peers if address not in avoid),
                key=lambda address: (distance(ring_position(address), number), ring_position(address)),
                default=self.address,
            )
        offsets = self._arc_offsets
        offset = (number - self._arc_base) & MASK
        after = bisect_left(offsets, offset)
        before = after - 1  # -1 is the last: right on a whole ring, and on an arc `after` is then 0 with distance 0
        if after == len(offsets):
            after = 0 if self._whole else before
        to_before = distance(offsets[before], offset)
        to_after = distance(offsets[after], offset)
        if to_after < to_before or (
            to_after == to_before and ring_position(self._arc_peers[after]) < ring_position(self._arc_peers[before])
        ):
            return self._arc_peers[after]
        return self._arc_peers[before]

    def neighbours(self, count: int) -> tuple[str, ...]:
        """The nearest ``count`` members of each side, nearest first, without duplicates."""
        found: dict[str, None] = {}
        for step in range(count):
            for side in (self._left, self._right):
                if step < len(side):
                    found[side[step][1]] = None
        return tuple(found)

    def gap(self, one: str, other: str) -> int | None:
        """Number of steps between two peers of the leaf set, in the shorter direction; None if one is not in it."""
        peers = self._arc_peers
        if one not in peers or other not in peers:
            return None
        steps = abs(peers.index(one) - peers.index(other))
        return min(steps, len(peers) - steps) if self._whole else steps

    def _insert(self, side: list[tuple[int, str]], offset: int, address: str) -> bool:
        if len(side) >= self.half and offset >= side[-1][0]:
            return False
        item = (offset, address)
        position = bisect_left(side, item)
        if position < len(side) and side[position] == item:
            return False
        insort(side, item)
        del side[self.half :]
        return True

    def _rebuild(self) -> None:
        left, right = self._left, self._right
        self.version += 1
        self.members = tuple(dict.fromkeys([item[1] for item in left] + [item[1] for item in right]))
        self.member_set = frozenset(self.members)
        self._whole = len(right) < self.half or left[-1][0] + right[-1][0] > MASK
        if self._whole:
            self._arc_base, self._arc_span = 0, MASK
            self._arc_peers = sorted((*self.members, self.address), key=ring_position)
            self._arc_offsets = [ring_position(address) for address in self._arc_peers]
        else:
            reach = left[-1][0]
            self._arc_base = (self.number - reach) & MASK
            self._arc_span = reach + right[-1][0]
            self._arc_peers = [item[1] for item in reversed(left)] + [self.address] + [item[1] for item in right]
            self._arc_offsets = [reach - item[0] for item in reversed(left)] + [reach]
            self._arc_offsets += [reach + item[0] for item in right]


class RoutingTable:
    """A routing table: one peer for each number of shared digits and each next digit.

    Examples
    --------
    >>> table = RoutingTable("a")
    >>> slot = table.slot(ring_position("b"))
    >>> table.entries[slot] = "b"
    >>> table.row(slot >> 4)
    ['b']
    """

    __slots__ = ("entries", "number")

    def __init__(self, address: str) -> None:
        self.number = ring_position(address)
        self.entries: dict[int, str] = {}

    def slot(self, number: int) -> int:
        """The slot of a peer with ``number``: 16 * shared digits + next digit; -1 for this peer's own number."""
        row = (BITS - (self.number ^ number).bit_length()) >> 2
        return (row << 4) | ((number >> (124 - (row << 2))) & 15) if row < BITS >> 2 else -1

    def row(self, row: int) -> list[str]:
        """The peers of one row, by column."""
        entries = self.entries
        return [entries[slot] for slot in range(row << 4, (row << 4) + 16) if slot in entries]
