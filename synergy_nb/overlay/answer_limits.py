"""Time limits on the answers of other peers, which lateness stretches.

Theory of operation
-------------------
A limit states how long an answer may take where all peers are in time. It is multiplied by what this peer knows of
lateness: its own, and what those that are to answer have said of theirs (the *stretch* of
:mod:`~synergy_nb.overlay._local_health`). Both are looked at when the time is over, as they may have become late
meanwhile. A peer that was stopped itself begins the limit again: the answers may have come, and it has not read them.

Such a limit decides how long to wait for one answer, until another peer is asked, or an attempt is given up. Whether
an application or a request ends is no question of these limits: that waits for ``patience``
(:class:`~synergy_nb.lifecycle.records.session_config.SessionConfig`) as long as the process of a silent peer may live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from synergy_nb.control.peer import Peer, Timer

__all__ = ["AnswerLimit", "AnswerLimits"]

STOPPED: Final = 0.5  # a timer that fires so many seconds late shows that its peer was stopped
MOST_RESTARTS: Final = 8  # maximum number of times that a limit begins again


class AnswerLimit:
    """A time limit that runs; ``cancel()`` ends it."""

    __slots__ = ("began", "peers", "restarts", "seconds", "timer")

    def __init__(self, began: float, seconds: float, peers: Collection[str]) -> None:
        # began, seconds: time at which it began, and its length where all peers are in time, seconds
        self.began = began
        self.seconds = seconds
        self.peers = peers  # addresses of the peers that are to answer
        self.restarts = 0  # number of times that it has begun again
        self.timer: Timer | None = None  # the present timer

    def cancel(self) -> None:
        """End the limit; no effect if it is over."""
        if self.timer is not None:
            self.timer.cancel()


class AnswerLimits:
    """Makes the time limits of one peer.

    Examples
    --------
    >>> peer = Peer("a", 1)
    >>> _ = peer.start(0.0)
    >>> limits, over = AnswerLimits(peer, lambda peers: 3.0), []
    >>> limit = limits.after(1.0, ("b",), over.append, "b is silent")
    >>> [(peer.tick(moment), list(over))[1] for moment in (1.0, 2.9, 3.0)]
    [[], [], ['b is silent']]
    """

    def __init__(self, peer: Peer, stretch: Callable[[Collection[str]], float] = lambda _peers: 1.0) -> None:
        self._peer = peer
        # function from the addresses of other peers to the factor of time limits on their answers
        self._stretch = stretch

    def after(
        self, seconds: float, peers: Collection[str], handle: Callable[..., None], *arguments: Any
    ) -> AnswerLimit:
        """Call ``handle(*arguments)`` when these peers have had enough time to answer.

        ``seconds``: time that an answer may take where all peers are in time, seconds; ``peers``: addresses of the
        peers that are to answer; it may change meanwhile; ``handle``, ``arguments``: function that is called, and its
        arguments.
        """
        limit = AnswerLimit(self._peer.now, seconds, peers)
        self._wait(limit, seconds, handle, arguments)
        return limit

    def _wait(self, limit: AnswerLimit, left: float, handle: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        limit.timer = self._peer.after(left, self._over, limit, self._peer.now + left, handle, arguments)

    def _over(self, limit: AnswerLimit, due: float, handle: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        now = self._peer.now
        if now - due > STOPPED and limit.restarts < MOST_RESTARTS:
            limit.restarts += 1
            limit.began = now
        left = limit.began + limit.seconds * self._stretch(limit.peers) - now
        if left > 1e-9:
            self._wait(limit, left, handle, arguments)
        else:
            handle(*arguments)
