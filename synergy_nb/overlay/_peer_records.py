"""What a failure detector remembers of one peer, of one ping, and of one suspicion."""

from __future__ import annotations

from math import log
from typing import Final

VERIFY_EVERY: Final = 4.0  # least seconds between two pings to one dead peer that others still mention
KNOCKS: Final = 4  # pings to a dead peer while the time since its death grows e-fold
LONGEST_PAUSE: Final = 60.0  # most seconds between two pings to a dead peer
UNCONFIRMED: Final = 6.0  # factor by which a suspicion lasts longer if nobody confirms it, as in Lifeguard


class PeerRecord:
    """The status of a peer, as another one believes it."""

    __slots__ = ("incarnation", "since", "status", "stretch", "verified")

    def __init__(self, incarnation: int, status: int, since: float) -> None:
        # incarnation, status, since: latest known incarnation, status in it, and the time since when the peer has that
        # status, seconds
        self.incarnation = incarnation
        self.status = status
        self.since = since
        self.verified = -VERIFY_EVERY  # time of the last ping to it while it was dead, seconds
        self.stretch = 1.0  # factor of the peer's time limits, as it said itself: 1 if it is in time

    def knocks(self, now: float, least: float) -> bool:
        """Whether to ping a dead peer again: after a quarter of the time since its death, within bounds."""
        pause = max(least, min((now - self.since) / KNOCKS, LONGEST_PAUSE))
        if now - self.verified < pause:
            return False
        self.verified = now
        return True


class UnansweredPing:
    """A ping that is not acknowledged yet."""

    __slots__ = ("helpers", "indirect", "number", "sent", "silent")

    def __init__(self, number: int, sent: float) -> None:
        # number, sent: number of the ping, and the time at which it was sent, seconds
        self.number = number
        self.sent = sent
        self.helpers: set[str] = set()  # others that were asked to ping the peer, too: only their answers count
        self.indirect = False  # whether others have been asked to ping the peer, too
        self.silent: frozenset[str] = frozenset()  # helpers that have said that the peer did not answer them either


class Relayed:
    """A ping on behalf of another peer."""

    __slots__ = ("asker", "number", "sent", "target", "told")

    def __init__(self, asker: str, number: int, target: str, sent: float) -> None:
        # asker, number, target: peer that asked, its number of the ping, and the peer to be pinged
        self.asker = asker
        self.number = number
        self.target = target
        self.sent = sent  # time of the ping, seconds
        self.told = False  # whether the asker was told that the target does not answer


class Suspicion:
    """A peer that has not answered, or is said to be dead, and has some time to answer.

    Examples
    --------
    >>> suspicion = Suspicion(100.0, 1, own=True)
    >>> [round(suspicion.deadline(1.0, needed) - 100.0, 2) for needed in (0, 2)]
    [1.0, 6.0]
    >>> suspicion.confirmed |= {"b", "c"}
    >>> suspicion.deadline(1.0, 2) - 100.0
    1.0
    """

    __slots__ = ("began", "confirmed", "helpers", "own", "refused", "status")

    def __init__(self, began: float, status: int, *, own: bool) -> None:
        self.began = began  # time of its beginning, seconds
        self.status = status  # status that the peer has to refute: that it is suspected or dead, or has left
        self.helpers: set[str] = set()  # others that were asked to ping the peer: only their answers count
        # whether this peer has begun it, because the other one did not answer; else another peer has said so
        self.own = own
        self.refused = False  # whether no process listens at the peer's address
        self.confirmed: set[str] = set()  # peers that say that it does not answer them either

    def deadline(self, seconds: float, needed: int) -> float:
        """Time at which the peer is declared dead.

        ``seconds``: time that a suspicion lasts which enough others confirm; ``needed``: number of confirmations that
        are enough.
        """
        least = 0 if self.refused else max(0, needed)
        share = 1.0 if least == 0 else min(1.0, log(len(self.confirmed) + 1) / log(least + 1))
        return self.began + seconds * (UNCONFIRMED - (UNCONFIRMED - 1.0) * share)

    def restart(self, now: float) -> None:
        """Begin again: this peer was stopped, or cut off."""
        self.began = now
        self.confirmed.clear()
