"""Reports of an origin to the peers of its applications once a second: measured execution times, and that it lives.

Feedback (section 2.3.4) is also the lease of a session. The feedback of all applications of an origin goes to a peer in
one message, so peers exchange as many messages for a thousand applications as for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from synergy_nb.control.peer import Message, Peer, Timer
from synergy_nb.lifecycle.hosted_components import Components
from synergy_nb.lifecycle.members import Member
from synergy_nb.lifecycle.messages import Feedback, Lost, Measured, SessionConfig
from synergy_nb.lifecycle.request import Request

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
    components
        Components of the peer, whose streams others may use once the application is known to run.
    start
        Called with the peer's part of an application that runs.
    expire
        Called with (application, reason) when an application has not been heard of for the time of its lease.
    """

    def __init__(
        self,
        peer: Peer,
        config: SessionConfig,
        owned: Mapping[str, Request],
        members: Mapping[str, Member],
        components: Components,
        start: Callable[[Member], None],
        expire: Callable[[str, str], None],
    ) -> None:
        self._peer = peer
        self._config = config
        self._owned = owned
        self._members = members
        self._components = components
        self._start = start
        self._expire = expire
        self._timer: Timer | None = None
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Feedback: self._feedback}

    # -- at the origin -----------------------------------------------------------------------------------------------

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

    # -- at those who take part --------------------------------------------------------------------------------------

    def expect(self, member: Member) -> None:
        """Expect to hear of an application from now on."""
        application = member.graph.application
        member.timer = self._peer.after(self._config.lease, self._check_lease, application)

    def _feedback(self, sender: str, message: Feedback) -> None:
        for measured in message.measured:
            member = self._members.get(measured.application)
            if member is None or member.graph.attempt != measured.attempt:
                reason = f"no session at {self._peer.address}"
                self._peer.send(sender, Lost(measured.application, measured.attempt, reason))
                continue
            member.heard = self._peer.now
            self._start(member)  # should the word to begin have been lost
            if not member.running:
                member.running = True
                self._components.offer(measured.application, member.offered)
            if sender != self._peer.address:
                member.delay = measured.delay

    def _check_lease(self, application: str) -> None:
        member = self._members.get(application)
        if member is None:
            return
        leads = application in self._owned or member.graph.origin == self._peer.address
        left = member.heard + self._config.lease - self._peer.now
        if not leads and left <= 1e-9:
            self._expire(application, "its origin has not been heard of")
            return
        member.timer = self._peer.after(self._config.lease if leads else left, self._check_lease, application)
