"""Rings whose peers have all joined from the start, for simulations of many peers.

Theory of operation
-------------------
To join thousands of peers one after the other through messages takes longer than most experiments. :func:`assemble`
fills leaf sets and routing tables as they would be after all joins: the leaf sets exactly, and each routing slot with a
peer that fits it. If delays are given, that is the nearest of a few such peers, which approximates Pastry's proximity
heuristic (section 2.5).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from synergy_nb.control.identity import peer_id_of
from synergy_nb.control.peer import key_of
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.ring import ring_position

__all__ = ["assemble"]

LOOKED_AT: Final = 6  # number of candidates for a slot whose delays are compared


def assemble(peers: Sequence[Pastry], rtt: Callable[[str, str], float] | None = None, seed: int = 0) -> None:
    """Fill the state of peers that are not started yet, as if all had joined.

    ``peers``: Pastry protocols of all peers of the ring; ``rtt``: function of two addresses that returns the round-trip
    time, seconds; None for a random choice of candidates; ``seed``: seed of the choice among candidates.

    Raises ``ValueError`` if a peer has been started or has joined already.
    """
    for pastry in peers:
        if pastry.started or pastry.joined:
            raise ValueError(f"peer {pastry.address!r}: already started; expected one that is not")
    rng = random.Random(seed)
    ring = sorted((pastry.address for pastry in peers), key=ring_position)
    where = {address: index for index, address in enumerate(ring)}
    groups: dict[str, list[str]] = {"": ring}
    _split(groups, "", ring)
    count = len(ring)
    for pastry in peers:
        index = where[pastry.address]
        for step in range(1, min(pastry.leaves.half, count - 1) + 1):
            pastry.leaves.add(ring[(index + step) % count])
            pastry.leaves.add(ring[index - step])
        key = pastry.peer.key
        row = 0
        while len(groups.get(key[:row], ())) > 1:
            for column, digit in enumerate("0123456789abcdef"):
                fitting = groups.get(key[:row] + digit)
                if fitting and digit != key[row]:
                    pastry.table.entries[row << 4 | column] = _choose(pastry.address, fitting, rtt, rng)
            row += 1
        pastry.join_prebuilt()


def _split(groups: dict[str, list[str]], prefix: str, members: list[str]) -> None:
    depth = len(prefix)
    for address in members:
        groups.setdefault(key_of(peer_id_of(address))[: depth + 1], []).append(address)
    for digit in "0123456789abcdef":
        longer = prefix + digit
        if len(groups.get(longer, ())) > 1:
            _split(groups, longer, groups[longer])


def _choose(address: str, fitting: list[str], rtt: Callable[[str, str], float] | None, rng: random.Random) -> str:
    if len(fitting) == 1:
        return fitting[0]
    if rtt is None:
        return fitting[int(rng.random() * len(fitting))]
    looked_at = fitting if len(fitting) <= LOOKED_AT else rng.sample(fitting, LOOKED_AT)
    return min(looked_at, key=lambda other: rtt(address, other))
