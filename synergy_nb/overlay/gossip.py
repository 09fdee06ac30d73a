"""News that travels on pings and their acknowledgements, and these messages.

Theory of operation
-------------------
Infection-style dissemination (SWIM, section 4.1): each piece of news is put on the next messages a bounded number of
times, those first that were sent least often. A newer piece about the same peer takes the place of the older one.

References
----------
.. [1] A. Das, I. Gupta and A. Motivala, "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership
   Protocol", DSN 2002.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final

import msgspec

from synergy_nb.control.peer import Message

__all__ = ["ALIVE", "DEAD", "LEFT", "SUSPECT", "Gossip", "News", "Ping", "PingAck", "PingFor", "PingForAck"]

ALIVE: Final = 0
SUSPECT: Final = 1
DEAD: Final = 2
LEFT: Final = 3


class News(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That ``address`` was in ``status`` in its ``incarnation``."""

    address: str
    status: int
    incarnation: int


class Ping(Message, frozen=True, gc=False):
    """Are you there? From a peer in ``incarnation``."""

    number: int
    incarnation: int
    news: tuple[News, ...]


class PingAck(Message, frozen=True, gc=False):
    """I am."""

    number: int
    incarnation: int
    news: tuple[News, ...]


class PingFor(Message, frozen=True, gc=False):
    """Please ping ``target`` in my stead."""

    number: int
    target: str
    news: tuple[News, ...]


class PingForAck(Message, frozen=True, gc=False):
    """``target`` answered me, in ``incarnation``."""

    number: int
    target: str
    incarnation: int


class Gossip:
    """What is still to be told.

    Parameters
    ----------
    at_once
        Pieces in a message, at most.
    capacity
        Pieces kept, at most; the oldest go first.

    Examples
    --------
    >>> gossip = Gossip(at_once=1)
    >>> gossip.add(News("a", DEAD, 1), times=2)
    >>> gossip.add(News("b", DEAD, 1), times=1)
    >>> [piece.address for _ in range(4) for piece in gossip.pick()]
    ['a', 'a', 'b']
    """

    __slots__ = ("_left", "at_once", "capacity")

    def __init__(self, at_once: int = 8, capacity: int = 256) -> None:
        self.at_once = at_once
        self.capacity = capacity
        self._left: dict[str, tuple[int, News]] = {}  # address: (times to send it still, what)

    def __len__(self) -> int:
        return len(self._left)

    def add(self, piece: News, times: int) -> None:
        """Send ``piece`` with the next ``times`` messages."""
        self._left.pop(piece.address, None)
        self._left[piece.address] = (times, piece)
        if len(self._left) > self.capacity:
            del self._left[next(iter(self._left))]

    def pick(self) -> tuple[News, ...]:
        """What goes with the next message."""
        left = self._left
        if not left:
            return ()
        picked = list(left)
        if len(picked) > self.at_once:
            picked = nlargest(self.at_once, picked, key=lambda address: left[address][0])
        pieces = []
        for address in picked:
            times, piece = left[address]
            pieces.append(piece)
            if times > 1:
                left[address] = (times - 1, piece)
            else:
                del left[address]
        return tuple(pieces)

    def clear(self) -> None:
        """Forget everything."""
        self._left.clear()
