"""Gossip: news about peers, piggybacked on pings and their acknowledgements; and the messages of the failure detector.

Theory of operation
-------------------
Infection-style dissemination (SWIM, section 4.1): each piece of news is sent with a bounded number of messages, and the
pieces that were sent least often go first. A newer piece about the same peer replaces the older one.

References
----------
.. [1] A. Das, I. Gupta and A. Motivala, "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership
   Protocol", DSN 2002.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Annotated, Final

import msgspec

from synergy_nb.control.peer import Message

__all__ = ["ALIVE", "DEAD", "LEFT", "SUSPECT", "Gossip", "News", "Ping", "PingAck", "PingFor", "PingForAck"]

ALIVE: Final = 0
SUSPECT: Final = 1
DEAD: Final = 2
LEFT: Final = 3


class News(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The status of the peer at ``address`` in one of its incarnations."""

    address: str
    status: int
    incarnation: int


#: Pieces of news in a message; it has at most nine.
MOST: Final = msgspec.Meta(max_length=64)


class Ping(Message, frozen=True, gc=False):
    """A ping of the failure detector, with the sender's incarnation, news, and how late the sender is."""

    number: int
    incarnation: int
    news: Annotated[tuple[News, ...], MOST]
    stretch: float = 1.0


class PingAck(Message, frozen=True, gc=False):
    """The acknowledgement of a ping."""

    number: int
    incarnation: int
    news: Annotated[tuple[News, ...], MOST]
    stretch: float = 1.0


class PingFor(Message, frozen=True, gc=False):
    """A request to ping ``target`` on behalf of the sender."""

    number: int
    target: str
    news: Annotated[tuple[News, ...], MOST]


class PingForAck(Message, frozen=True, gc=False):
    """The answer to :class:`PingFor`: ``target`` has acknowledged a ping, in ``incarnation``, or has not."""

    number: int
    target: str
    incarnation: int
    reached: bool = True


class Gossip:
    """The news that is still to be sent.

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
        self.at_once = at_once  # maximum number of pieces in a message
        self.capacity = capacity  # maximum number of pieces; beyond it, the oldest is discarded
        self._left: dict[str, tuple[int, News]] = {}  # address to (number of sends left, news)

    def __len__(self) -> int:
        return len(self._left)

    def add(self, piece: News, times: int) -> None:
        """Send ``piece`` with the next ``times`` messages."""
        self._left.pop(piece.address, None)
        self._left[piece.address] = (times, piece)
        if len(self._left) > self.capacity:
            del self._left[next(iter(self._left))]

    def pick(self) -> tuple[News, ...]:
        """The pieces for the next message."""
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
        """Discard all news."""
        self._left.clear()
