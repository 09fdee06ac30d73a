"""Feedback (section 2.3.4): an origin sends the measured execution times of its applications once a second.

Feedback is also the lease of a session. One message carries the feedback of many applications to a peer, so the number
of messages hardly grows with the number of applications.
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

PER_MESSAGE: Final = 256  # applications in one message


class Feedbacks:
    """Sends the feedback of the applications that a peer leads, and expires leases of those in which it takes part.

    Parameters
    ----------
    peer
        The peer.
    config
        Time limits and intervals of sessions.
    led, members
        Applications that the peer leads, and member records of those in which it takes part, by id.
    components
        Components of the peer; their streams are offered from the first feedback on.
    start
        Function that starts the sources of a member, called with each feedback.
    expire
        Callback with (application, reason) when no feedback has arrived during the lease.
    """

    def __init__(
        self,
        peer: Peer,
        config: SessionConfig,
        led: Mapping[str, Request],
        members: Mapping[str, Member],
        components: Components,
        start: Callable[[Member], None],
        expire: Callable[[str, str], None],
    ) -> None:
        self._peer = peer
        self._config = config
        self._led = led
        self._members = members
        self._components = components
        self._start = start
        self._expire = expire
        self._timer: Timer | None = None
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Feedback: self._feedback}

    # -- at the origin -----------------------------------------------------------------------------------------------

    def begin(self, application: str) -> None:
        """Send the first feedback of an application now, and further feedback while it runs."""
        self._send((application,))
        if self._timer is None:
            self._timer = self._peer.after(self._config.feedback, self._round)

    def _round(self) -> None:
        running = [application for application, request in self._led.items() if request.running]
        self._send(running)
        self._timer = self._peer.after(self._config.feedback, self._round) if running else None

    def _send(self, applications: Iterable[str]) -> None:
        measurements: dict[str, list[Measured]] = {}
        for application in applications:
            graph, member = self._led[application].graph, self._members.get(application)
            measured = Measured(application, graph.attempt, -1.0 if member is None else member.delay)
            for address in graph.addresses:
                measurements.setdefault(address, []).append(measured)
        for address, sent in measurements.items():
            for start in range(0, len(sent), PER_MESSAGE):
                self._peer.send(address, Feedback(tuple(sent[start : start + PER_MESSAGE])))

    # -- at those who take part --------------------------------------------------------------------------------------

    def expect(self, member: Member) -> None:
        """Start the lease of a session at this peer."""
        application = member.graph.application
        member.timer = self._peer.after(self._config.lease, self._check_lease, application)

    def _feedback(self, sender: str, message: Feedback) -> None:
        for measured in message.measured:
            member = self._members.get(measured.application)
            if member is None or member.graph.attempt != measured.attempt:
                reason = f"no session at {self._peer.address}"
                self._peer.send(sender, Lost(measured.application, measured.attempt, reason))
                continue
            member.last_feedback = self._peer.now
            self._start(member)  # the Begin message may have been lost
            if not member.running:
                member.running = True
                self._components.offer(measured.application, member.offerable)
            if sender != self._peer.address:
                member.delay = measured.delay

    def _check_lease(self, application: str) -> None:
        member = self._members.get(application)
        if member is None:
            return
        leads = application in self._led or member.graph.origin == self._peer.address
        left = member.last_feedback + self._config.lease - self._peer.now
        if not leads and left <= 1e-9:
            self._expire(application, "no feedback of its origin has arrived")
            return
        member.timer = self._peer.after(self._config.lease if leads else left, self._check_lease, application)
