"""Leases of sessions: a peer that hears nothing of an application any more asks about it, and leaves it in the end.

The feedback of whoever leads an application is the lease of its sessions (section 2.3.4). A peer that has received none
for ``SessionConfig.lease`` asks whoever may lead the application (:class:`GraphAsked`), once a second, and so does one
whose graph is older than that of the feedback. The answer is the present graph, or the end of the application. So a
peer that missed either goes on or releases what it holds. It leaves only if nobody has answered for
``SessionConfig.silence``: the others may be late, or this peer is cut off. A peer that was stopped itself could not
hear, and waits for as long as a lease more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synergy_nb.control.peer import Message, Timer
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import End, GraphAsked, GraphChanged
from synergy_nb.lifecycle.sessions.participation import Participation
from synergy_nb.lifecycle.sessions.sink_reports import SinkReports

__all__ = ["Leases"]


class _Lease:
    """The lease of one session."""

    __slots__ = ("heard", "member", "timer")

    def __init__(self, member: Member, heard: float) -> None:
        self.member = member
        # time at which whoever leads the application was heard last, seconds; in the future while a peer may take its
        # time, as it prepares parts on Spark
        self.heard = heard
        self.timer: Timer | None = None


class Leases:
    """Has a peer ask about applications of which it hears nothing, and leave them."""

    def __init__(
        self,
        participation: Participation,  # applications in which the peer takes part: it asks about them, and leaves them
        sinks: SinkReports,  # reports of sinks, which know the results that are retained
        # function of (application, address) that sends a peer the graph of an application that this one leads
        tell: Callable[[str, str], None],
    ) -> None:
        self._participation = participation
        self._peer = participation.peer
        self._membership = participation.membership
        self._config = participation.config
        self._members = participation.members
        self._led = participation.led
        self._sinks = sinks
        self._tell = tell
        self._leases: dict[str, _Lease] = {}  # by application in which the peer takes part
        participation.on_joined.append(self._start)
        participation.on_left.append(self._left)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {GraphAsked: self._asked}

    def _start(self, member: Member) -> None:
        """Start the lease of a session at this peer, which feedback renews once all is prepared."""
        lease = _Lease(member, self._peer.now + self._config.preparation(member.plan))
        self._leases[member.graph.application] = lease
        self._check_after(lease, self._config.lease)

    def heard(self, member: Member, *, at_least: bool = False) -> None:
        """Whoever leads an application has been heard; ``at_least``: what is left for preparation is not shortened."""
        lease, now = self._leases[member.graph.application], self._peer.now
        lease.heard = max(lease.heard, now) if at_least else now

    def _left(self, application: str) -> None:
        lease = self._leases.pop(application, None)
        if lease is not None and lease.timer is not None:
            lease.timer.cancel()

    def _check_after(self, lease: _Lease, seconds: float) -> None:
        lease.timer = self._peer.after(seconds, self._check, lease, self._peer.now + seconds)

    def _check(self, lease: _Lease, due: float) -> None:
        """Ask about an application, or leave it, if the lease is over."""
        member, config, now = lease.member, self._config, self._peer.now
        application = member.graph.application
        if self._members.get(application) is not member or member.ended:
            return  # the results of an application that has ended are retained until they have been fetched
        silent = now - lease.heard
        if application in self._led or member.graph.origin == self._peer.address or silent < config.lease - 1e-9:
            self._check_after(lease, max(config.lease - silent, config.feedback))
        elif silent < config.silence - 1e-9:
            self.ask(member)
            self._check_after(lease, min(config.feedback, config.silence - silent))
        elif now - due > config.feedback:  # this peer was stopped
            lease.heard = now - config.silence + config.lease
            self._check_after(lease, config.feedback)
        else:
            self._participation.expire(application, "no feedback of its origin has arrived")

    def ask(self, member: Member) -> None:
        """Ask whoever leads an application about it."""
        graph, dead = member.graph, self._membership.is_dead
        to = graph.successor if graph.successor and dead(member.leader) else member.leader
        self._peer.send(to, GraphAsked(graph.application, graph.attempt))

    def _asked(self, sender: str, message: GraphAsked) -> None:
        """Answer with the graph of an application, with the peer that leads it now, or with its end."""
        application, attempt = message.application, message.attempt
        request, member = self._led.get(application), self._members.get(application)
        if request is not None and request.graph.attempt == attempt:
            if request.running:
                self._tell(application, sender)
        elif request is None and member is not None and not member.ended and member.graph.attempt == attempt:
            self._peer.send(sender, GraphChanged(member.graph))
        elif not self._sinks.answer(sender, application):
            self._peer.send(sender, End(application, attempt, "it has ended"))
