"""Local health: how late a peer itself is, by which it waits longer for others, and of which it tells them.

Theory of operation
-------------------
A peer that gets little of a processor takes its own lateness for that of others. So each peer keeps a score, as
Lifeguard does (section 3.1): it rises if an own timer fires late, if helpers that were asked to ping a peer say nothing
at all, and if others suspect this peer; it falls with each timer that fires in time. All time limits of the failure
detector are multiplied by the *stretch*, which is the score plus one.
"""

from __future__ import annotations

from typing import Final

MOST_STRETCH: Final = 8.0  # greatest factor of time limits, as in memberlist
RECOVERY: Final = 0.25  # amount by which the score falls in each period in time: from the worst to 0 in 14 s


class LocalHealth:
    """The lateness of one peer.

    Examples
    --------
    >>> health = LocalHealth()
    >>> health.ticked(late=1.2, period=0.5)
    >>> health.stretch
    3.4
    >>> health.ticked(late=0.0, period=0.5)
    >>> health.stretch
    3.15
    """

    __slots__ = ("stretch",)

    def __init__(self) -> None:
        self.stretch = 1.0  # factor of the peer's time limits: 1 if it is in time, at most `MOST_STRETCH`

    def ticked(self, late: float, period: float) -> None:
        """Note how late, in seconds, a timer fired that fires once a period."""
        if late > 0.2 * period:
            self._rise(late / period)
        elif self.stretch > 1.0:
            self.stretch = max(1.0, self.stretch - RECOVERY)

    def missed(self) -> None:
        """Note that no helper said anything, or that others suspect this peer."""
        self._rise(1.0)

    def _rise(self, by: float) -> None:
        self.stretch = min(MOST_STRETCH, self.stretch + by)
