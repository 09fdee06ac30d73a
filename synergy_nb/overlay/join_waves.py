"""The order in which many peers join one ring: in waves that double, each newcomer through a member of its own.

Theory of operation
-------------------
Peers that all join at once through one contact overload it and each other: links open too late, and live peers are
declared dead. Peers that join one after the other take a time proportional to their number. So they join in waves. In a
wave every newcomer has a different member of the ring as its contact, so a wave may be as large as the ring, and the
ring doubles: n peers have joined after ⌈log2 n⌉ + 1 waves, and in each wave no member is the contact of more than one
newcomer.

This holds as long as the machines keep up. Where many peers share a machine, its processors limit the speed, and larger
waves would only prolong every join. So waves grow as a TCP sender's window does: a wave in which all peers joined soon
is followed by one of twice its size; a wave that took long, or in which a peer failed to join, by one of half its size.

This is a data structure without messages and clock. The runtime and the tests drive it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

__all__ = ["JoinWaves"]

SOON: Final = 1.0  # seconds; if a wave has joined within this time, the next one is larger


class JoinWaves:
    """Forms the waves in which peers join one ring.

    Examples
    --------
    >>> waves = JoinWaves(["a", "b", "c", "d"])
    >>> while not waves.over:
    ...     wave = waves.next()
    ...     print(wave)
    ...     waves.ended(wave, seconds=0.1)
    {'a': None}
    {'b': 'a'}
    {'c': 'a', 'd': 'b'}
    """

    def __init__(self, peers: Sequence[str], soon: float = SOON) -> None:
        self.members: list[str] = []  # peers that have joined, in the order of joining
        self.size = 1  # maximum number of peers in the next wave
        self._soon = soon  # time within which a wave has to join for the next one to be larger, seconds
        self._waiting = deque(peers)
        self._wave: list[str] = []
        self._turn = 0  # index of the next contact, so that a member that does not answer is not the contact again

    @property
    def over(self) -> bool:
        """Whether all peers have joined."""
        return not self._waiting and not self._wave

    @property
    def missing(self) -> tuple[str, ...]:
        """Peers that have not joined, those of the wave that is under way first."""
        return (*self._wave, *self._waiting)

    def next(self) -> dict[str, str | None]:
        """The next wave: newcomer to its contact, or to None for the peer that begins the ring."""
        count = min(self.size, len(self.members)) or 1
        self._wave = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        contacts: dict[str, str | None] = {}
        for newcomer in self._wave:
            contacts[newcomer] = self.members[self._turn % len(self.members)] if self.members else None
            self._turn += 1
        return contacts

    def ended(self, joined: Collection[str], seconds: float) -> None:
        """Record the result of a wave.

        ``joined``: peers of the wave that have joined; the others are in a later wave again; ``seconds``: duration of
        the wave, seconds.
        """
        wave, self._wave = self._wave, []
        failed = [peer for peer in wave if peer not in joined]
        begun = bool(self.members)
        self.members += [peer for peer in wave if peer in joined]
        self._waiting.extend(failed)
        if failed or seconds > self._soon:
            self.size = max(self.size // 2, 1)
        elif begun:
            self.size *= 2
            self._turn = 0
