"""What one sender may take of a peer: rates, and entries in bounded tables; and what was shed, by sender.

Theory of operation
-------------------
A peer serves whoever has a certificate, so each of its tables is bounded, and each sender has a share of it. No sender
can take the share of others: a flood costs only its own sender.

* A *rate* (:class:`Allowances`) bounds work that leaves nothing behind, such as checking a probe. It is a token bucket
  for each sender, kept as one number: the time at which the bucket is full again (GCRA, the virtual scheduling
  algorithm of ATM [1]_). A burst is far beyond what an honest peer sends, and the rate is what this peer can serve.
* *Shares* (:class:`Shares`) bound what stays. A sender gets one more entry of a table as long as it holds fewer than
  are free (the dynamic thresholds of Choudhury and Hahne [2]_, with α = 1). So one sender alone gets half of the table,
  two get a third each, and a sender that has none always gets one.

What is beyond that is *shed*: it is not done, but counted, and recorded in the journal (:class:`Sheds`) with its
sender, at most once in :data:`REPORTED_S` seconds for each. Time is passed in, and nothing here sends or waits.

References
----------
.. [1] ITU-T Recommendation I.371, "Traffic control and congestion control in B-ISDN", annex A, 2004.
.. [2] A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM
   Transactions on Networking 6(2), 1998.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["REPORTED_S", "Allowance", "Allowances", "Shares", "Sheds"]

REPORTED_S: Final = 10.0  # seconds until the same is told of the same sender again
SENDERS: Final = 4096  # senders of which something is remembered; those that have taken nothing lately are forgotten


class Allowance(msgspec.Struct, frozen=True):
    """How much a sender may take: ``rate`` a second in the long run, ``burst`` at once."""

    rate: float
    burst: float


class Allowances:
    """Token buckets of one kind, one for each sender.

    Examples
    --------
    >>> probes = Allowances(Allowance(rate=1.0, burst=2.0))
    >>> [probes.take("a", now=0.0) for _ in range(3)], probes.take("b", now=0.0), probes.take("a", now=1.0)
    ([True, True, False], True, True)
    """

    __slots__ = ("_full", "_held", "_senders", "allowance")

    def __init__(self, allowance: Allowance, senders: int = SENDERS) -> None:
        self.allowance = allowance
        self._held = allowance.burst / allowance.rate  # seconds in which an empty bucket fills
        self._senders = senders
        self._full: dict[str, float] = {}  # sender to the time at which its bucket is full

    def take(self, sender: str, now: float, amount: float = 1.0) -> bool:
        """Take an amount from the bucket of a sender; return whether it had as much."""
        full = max(self._full.get(sender, now), now) + amount / self.allowance.rate
        if full - now > self._held:
            return False
        if sender not in self._full and len(self._full) >= self._senders:
            self._forget(now)
        self._full[sender] = full
        return True

    def put_back(self, sender: str, amount: float) -> None:
        """Return an amount that was taken and not used."""
        if sender in self._full:
            self._full[sender] -= amount / self.allowance.rate

    def _forget(self, now: float) -> None:
        """Forget full buckets, which are as new; if there are none, the fullest half."""
        left = sorted((item for item in self._full.items() if item[1] > now), key=lambda item: item[1])
        self._full = dict(left[-(self._senders // 2) :])


class Shares:
    """The places of a bounded table, and how many of them each sender holds.

    Examples
    --------
    >>> places = Shares(8)
    >>> sum(places.take("flood") for _ in range(100)), sum(places.take("b") for _ in range(100))
    (4, 2)
    >>> places.give_back("flood")
    >>> places.take("c"), places.held
    (True, 6)
    """

    __slots__ = ("_by_sender", "held", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self.held = 0  # by all senders
        self._by_sender: dict[str, int] = {}

    def take(self, sender: str, many: int = 1) -> bool:
        """Take places for a sender; return whether it may have them: it then holds no more than were free."""
        own = self._by_sender.get(sender, 0)
        if own + many > self.places - self.held:
            return False
        self._by_sender[sender] = own + many
        self.held += many
        return True

    def give_back(self, sender: str, many: int = 1) -> None:
        """Free places of a sender."""
        left = self._by_sender.get(sender, 0) - many
        if left > 0:
            self._by_sender[sender] = left
        else:
            self._by_sender.pop(sender, None)
        self.held -= many

    def of(self, sender: str) -> int:
        """Number of places that a sender holds."""
        return self._by_sender.get(sender, 0)


class Sheds:
    """What was shed, by sender and kind.

    Examples
    --------
    >>> sheds = Sheds()
    >>> [sheds.note("a", "probes", when) for when in (0.0, 1.0, 2.0, 12.0)], sheds.counts
    ([1, 0, 0, 3], {'probes': 4})
    """

    __slots__ = ("_untold", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # kind to the number that was shed so far
        self._untold: dict[tuple[str, str], tuple[int, float]] = {}  # to the number not told, and when it is told next

    def note(self, sender: str, what: str, now: float) -> int:
        """Count one thing that was shed; return the number to tell, 0 if it is too soon."""
        self.counts[what] = self.counts.get(what, 0) + 1
        untold, due = self._untold.pop((sender, what), (0, now))
        told = now >= due
        self._untold[sender, what] = (0, now + REPORTED_S) if told else (untold + 1, due)
        if len(self._untold) > SENDERS:
            del self._untold[next(iter(self._untold))]
        return untold + 1 if told else 0
