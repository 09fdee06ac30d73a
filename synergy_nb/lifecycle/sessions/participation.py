"""The applications in which a peer takes part: it joins them by a graph, and leaves them in the end.

A peer joins by the first message with a graph in which it has a role. It refuses messages of attempts that have ended
here, and graphs that are older than the one that it knows or than what it has promised to a successor: messages may be
late, and a peer that leads an application no more may not have heard of that. What it holds is released when it leaves,
except results at its sinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from synergy_nb import events
from synergy_nb.control.peer import Message, Peer
from synergy_nb.control.rights import Admission
from synergy_nb.lifecycle.records.members import NEVER_ENDED, Ended, Member, plan_of
from synergy_nb.lifecycle.records.messages import Begin, Graph, Lost, no_session
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.lifecycle.sessions.deploying import Deploying
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.recently_seen import Latest

__all__ = ["Participation"]

ENDED_SESSIONS: Final = 4096  # ended sessions that a peer remembers, so as to refuse their late messages


class Participation:
    """Joins and leaves applications, and knows which messages about them are outdated here."""

    def __init__(
        self,
        # peer, membership, config: the peer, its failure detector, and the time limits of sessions
        peer: Peer,
        membership: Membership,
        config: SessionConfig,
        # led, members: applications that the peer leads, and member records of those in which it takes part, by id
        led: dict[str, Request],
        members: dict[str, Member],
        deploying: Deploying,
        agreements: Agreements,  # agreements of origins to what components add to the delays of their applications
        admission: Admission,  # what the peer accepts of users
    ) -> None:
        self.peer = peer
        self.membership = membership
        self.config = config
        self.led = led
        self.members = members
        self.deploying = deploying
        self.components = deploying.components
        self.ledger = deploying.components.ledger
        self._agreements = agreements
        self._admission = admission
        self.ended: Latest[Ended] = Latest(ENDED_SESSIONS)  # application to the latest attempt that has ended here
        self.on_joined: list[Callable[[Member], None]] = []  # listeners, called with each new member record
        # listeners, called with each graph of a message that changes one or begins an attempt, before it is adopted
        self.on_received: list[Callable[[Graph], None]] = []
        # listeners, called with each application of which the peer retains nothing
        self.on_left: list[Callable[[str], None]] = []
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Begin: self._begin}

    def refusal(self, graph: Graph) -> str:
        """Why this peer takes no part in an application, for its user; empty if it may."""
        return self._admission.refusal(graph.application, graph.rights.owner)

    # -- joining -----------------------------------------------------------------------------------------------------

    def join(self, sender: str, graph: Graph, what: str) -> Member | None:
        """The member record for the graph of a message, created if it is new; None if the message is refused."""
        application = graph.application
        member = self.members.get(application)
        over = self.ended.get(application, NEVER_ENDED)
        ended = (graph.attempt, graph.epoch) <= over and over.by in ("", graph.origin)
        if ended or (member is not None and graph.attempt < member.graph.attempt):
            self.record_outdated(application, what, sender, "stale attempt")
            return None
        if member is not None and graph.epoch < member.promised and self.refuses(sender, graph, what):
            return None
        if graph.origin == self.peer.address and application not in self.led:  # it has ended, or this peer restarted
            self.record_outdated(application, what, sender, "this peer does not lead the application")
            return None
        if member is None or member.graph.attempt < graph.attempt:
            try:
                plan = plan_of(graph)
            except ValueError as error:
                self.record_outdated(application, what, sender, str(error))
                return None
            if refusal := self.refusal(graph):
                self.record_outdated(application, what, sender, refusal)
                return None
            for received in self.on_received:  # this peer may have led the attempt before
                received(graph)
            if application in self.members:
                self.leave(application, "a later attempt")
            member = self.members[application] = Member(graph, plan, self.peer.address)
            for listener in self.on_joined:
                listener(member)
            if graph.origin != self.peer.address:
                self.membership.watch(graph.origin)
        return member

    def _begin(self, sender: str, message: Begin) -> None:
        member = self.members.get(message.application)
        if member is None or member.graph.attempt != message.attempt:
            self.record_outdated(message.application, "Begin", sender, "no such session")
            self.absent(sender, message.application, message.attempt)
            return
        self.start(member)

    def start(self, member: Member) -> None:
        """Start the sources at this peer, and the streams that it shares; later calls have no effect."""
        if member.start():
            self.deploying.deploy(member.graph.application)

    # -- outdated messages -------------------------------------------------------------------------------------------

    def absent(self, sender: str, application: str, attempt: int) -> None:
        """Tell a peer that leads an application that this one has no session of it."""
        ended = self.ended.get(application, NEVER_ENDED) >= (attempt, math.inf)
        self.peer.send(sender, Lost(application, attempt, no_session(self.peer.address, sender), ended=ended))

    def member_of(self, graph: Graph) -> Member | None:
        """The member record of the graph's application; None if there is none or if it knows a later graph."""
        member = self.members.get(graph.application)
        if member is None or member.graph.attempt != graph.attempt or member.outdates(graph):
            return None
        return member

    def refuses(self, sender: str, graph: Graph, what: str) -> bool:
        """Whether the graph of a message is outdated here; it is recorded if this peer follows another leader."""
        for received in self.on_received:
            received(graph)
        member = self.members.get(graph.application)
        if member is None or not member.outdates(graph):
            return False
        if graph.attempt == member.graph.attempt and graph.origin != member.leader:
            reason = f"{member.leader} leads the application now"
            self.record_outdated(graph.application, what, sender, reason)
        return True

    def record_outdated(self, application: str, what: str, sender: str, reason: str) -> None:
        """Record a message that this peer ignores, and why."""
        self.peer.record(events.MessageOutdated, application, message=what, sender=sender, reason=reason)

    # -- leaving -----------------------------------------------------------------------------------------------------

    def expire(self, application: str, reason: str) -> None:
        """Leave an application that nobody leads any more; a message with a later graph makes this peer join again."""
        member = self.members[application]
        self.peer.record(events.SessionExpired, application, origin=member.graph.origin)
        self.leave(application, reason, until=member.graph.epoch)

    def depart(self, application: str) -> None:
        """Leave an application whose components have all moved away; a later graph makes this peer join again."""
        self.leave(application, "its components here have moved", until=self.members[application].graph.epoch)

    def leave(
        self, application: str, reason: str, status: str = "", *, retain_sinks: bool = False, until: float = math.inf
    ) -> None:
        """Release all that this peer holds for an application, except the results at its sinks if ``retain_sinks``.

        From then on, messages about this attempt are refused up to and including the epoch ``until``.
        """
        member = self.members[application]
        sinks = frozenset(member.plan.sinks) if retain_sinks else frozenset()
        owners = self.components.leave(application, sinks)
        for operator in set(member.graph.roles.backed_up(self.peer.address)) - member.deployed:
            self.ledger.drop(application, operator)
        member.end(sinks)
        self.ledger.expire(application)
        self.ended.raise_to(application, Ended(member.graph.attempt, until, status, reason))
        if not retain_sinks:
            if member.graph.origin != self.peer.address:
                self.membership.unwatch(member.graph.origin)
            for listener in self.on_left:
                listener(application)
            del self.members[application]
        for owner in sorted(owners):
            self.deploying.deploy(owner)
        self._agreements.correct()
        self.peer.record(events.SessionLeft, application, reason=reason)
