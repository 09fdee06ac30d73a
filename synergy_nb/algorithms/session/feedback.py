"""Reports of an origin to the peers of its applications once a second: measured execution times, and that it lives.

Feedback (section 2.3.4) is also the lease of a session. The feedback of all applications of an origin goes to a peer in
one message, so peers exchange as many messages for a thousand applications as for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from synergy_nb.algorithms.session.messages import Feedback, Measured, SessionConfig
from synergy_nb.algorithms.session.records import Member, Owned
from synergy_nb.peer import Peer, Timer

__all__ = ["Feedbacks"]

PAGE: Final = 256  # applications in one message


class Feedbacks:
    """Feedback of the applications of which a peer is the origin.

    Parameters
    ----------
    peer
        The peer.
    config
        Timing of the sessions, with the seconds between two rounds of feedback.
    owned, members
        Sessions that the peer leads, and in which it takes part, by application.
    """

    def __init__(
        self, peer: Peer, config: SessionConfig, owned: Mapping[str, Owned], members: Mapping[str, Member]
    ) -> None:
        self._peer = peer
        self._config = config
        self._owned = owned
        self._members = members
        self._timer: Timer | None = None

    def begin(self, application: str) -> None:
        """Send the first feedback of an application now, and more as long as it runs."""
        self._send((application,))
        if self._timer is None:
            self._timer = self._peer.after(self._config.feedback, self._round)

    def _round(self) -> None:
        running = [application for application, owned in self._owned.items() if owned.running]
        self._send(running)
        self._timer = self._peer.after(self._config.feedback, self._round) if running else None

    def _send(self, applications: Iterable[str]) -> None:
        news: dict[str, list[Measured]] = {}
        for application in applications:
            graph, member = self._owned[application].graph, self._members.get(application)
            measured = Measured(application, graph.attempt, -1.0 if member is None else member.delay)
            for address in graph.addresses:
                news.setdefault(address, []).append(measured)
        for address, told in news.items():
            for start in range(0, len(told), PAGE):
                self._peer.send(address, Feedback(tuple(told[start : start + PAGE])))
