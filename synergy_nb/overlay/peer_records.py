"""What a failure detector remembers of one peer, and of one ping."""

from __future__ import annotations

from typing import Final

__all__ = ["VERIFY_EVERY", "PeerRecord", "Probe"]

VERIFY_EVERY: Final = 4.0  # seconds between pings to one dead peer that others still mention


class PeerRecord:
    """The status of a peer, as another one believes it.

    Attributes
    ----------
    incarnation, status, since
        Latest known incarnation, status in it, and the time since when the peer has that status, seconds.
    verified
        Time of the last ping to it while it was dead, seconds.
    """

    __slots__ = ("incarnation", "since", "status", "verified")

    def __init__(self, incarnation: int, status: int, since: float) -> None:
        self.incarnation = incarnation
        self.status = status
        self.since = since
        self.verified = -VERIFY_EVERY


class Probe:
    """A ping that is not acknowledged yet.

    Attributes
    ----------
    number, sent
        Number of the ping, and the time at which it was sent, seconds.
    indirect
        Whether others have been asked to ping the peer, too.
    """

    __slots__ = ("indirect", "number", "sent")

    def __init__(self, number: int, sent: float) -> None:
        self.number = number
        self.sent = sent
        self.indirect = False
