"""The order in which many peers join one ring: in waves that double, each newcomer through a member of its own.

Theory of operation
-------------------
Peers that all join at once through one contact overload it, and each other: links are not opened in time, and peers
that are alive are taken for dead. Peers that join one after the other take a time that grows with their number. So they
join in waves. In a wave every newcomer asks another member of the ring, so a wave may be as large as the ring is, and
the ring doubles: n peers are in it after ⌈log2 n⌉ + 1 waves, and in each no member is the contact of
more than one newcomer.

That holds as long as the machines keep up. Where many peers share a machine, its processors set the pace, and larger
waves would only let every join take longer. So waves grow as a TCP sender's window does: a wave in which all joined
soon is followed by one of twice its size, one that took long or lost somebody by one of half its size.

A pure data structure: no messages, no clock. The runtime and the tests drive it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

__all__ = ["JoinWaves"]

SOON: Final = 1.0  # seconds within which a wave has to have joined for the next to be larger


class JoinWaves:
    """Peers on their way into one ring.

    Parameters
    ----------
    peers
        Addresses of the peers; the first begins the ring.
    soon
        Seconds within which a wave has to have joined for the next to be larger.

    Attributes
    ----------
    members : list of str
        Peers that have joined, in the order in which they did.
    size : int
        Greatest number of peers in the next wave.

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
        self.members: list[str] = []
        self.size = 1
        self._soon = soon
        self._waiting = deque(peers)
        self._wave: list[str] = []
        self._turn = 0  # of the members as contacts, so that one that does not answer is not asked for ever

    @property
    def over(self) -> bool:
        """Whether nobody is left who has not joined."""
        return not self._waiting and not self._wave

    @property
    def missing(self) -> tuple[str, ...]:
        """Peers that have not joined, those of the wave that is under way first."""
        return (*self._wave, *self._waiting)

    def next(self) -> dict[str, str | None]:
        """The next wave: each newcomer's contact, or None for the one that begins the ring."""
        count = min(self.size, len(self.members)) or 1
        self._wave = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        contacts: dict[str, str | None] = {}
        for newcomer in self._wave:
            contacts[newcomer] = self.members[self._turn % len(self.members)] if self.members else None
            self._turn += 1
        return contacts

    def ended(self, joined: Collection[str], seconds: float) -> None:
        """Take the outcome of a wave.

        Parameters
        ----------
        joined
            Peers of the wave that have joined. The others come again in a later wave.
        seconds
            Time that the wave took.
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
