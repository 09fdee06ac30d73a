"""Succession: an application whose origin dies is led on by its successor.

Theory of operation
-------------------
*Who.* The successor is the peer of the first sink of the plan, if that is not the origin. Without this sink the
application ends anyway, so it depends on no further peer; and every member finds the successor in its graph
(``Graph.successor``), so nobody has to be elected. If the origin has that sink, its death ends the application.

*What it knows.* During set-up the origin sends it what is not in the graph: the submitted plan, and how it was decided
(:class:`~.messages.Entrust`). The application runs only after the successor has confirmed that. From then on
the origin changes the graph without asking it.

*Succession.* When the failure detector of the successor S declares the origin O dead, S sends
:class:`~.messages.Claim` to all peers of the graph that it knows, once a second until each has answered or
is declared dead. A member answers with the latest graph that it has adopted, and with what it executes
(:class:`~.messages.Claimed`). By this answer it promises to adopt no graph of O any more: it refuses every
message with one, by name. So the graph with the highest epoch among the answers is the last one of O that any of these
peers adopts. Peers that it names and S did not know are asked as well. Then S leads: its first graph has the epoch
:data:`.TERM`, or a later one. So the epoch orders all graphs of an application, as a term and a number within it would.

*Who waits.* As long as the application could not go on with the peers that have answered, and one that is missing is
only silent, S waits for it: O may have only been cut off with that one, or S itself.

*What O had begun.* From the answers S completes or undoes it:

===============  ====================================================================================================
take-over        completed: peers that have not taken over are asked again
move             undone if the new peer does not execute the component alone; but if the component died with O, and
                 has no backup, its follower takes over if it is ready
rebuild          undone if the replica does not execute yet; else completed
collection, ...  a single graph: it is the last one, or no member knows it
===============  ====================================================================================================

Components that died with O are taken over or lost like those of any dead peer. Sharers of the application, and the
owners of streams that it shares, learn who leads it (:mod:`~synergy_nb.lifecycle.changes.shared_streams`).

*An attempt that has not begun.* If no member was told that the application runs, O died during set-up, and S ends the
application by name. But O may live, and set it up again in a later attempt: an application that S had ended would come
back. So while O is only silent, S waits for it, as long as for any silent peer, and asks the members again: O may have
begun it after all. Where O says that it has given up this attempt, S and the members leave it without a word.

*If O lives*, because it hung, or was cut off from S: no member that has promised adopts its graphs. It answers the
feedback of O with the graph of S; then O leads no more, and takes part, or leaves, like any other peer. If O counts S
as dead, it waits for it, as it has no sink without S. If a user has stopped the application at O meanwhile, S ends it;
if O had ended it, and the user has discarded its results there, S discards its own.

A member that hears neither of O nor of S leaves after some time (``SessionConfig.silence``), or at once if the
processes of both have ended; and so do peers that only O knew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from synergy_nb.control.peer import Message
from synergy_nb.control.roles import Roles
from synergy_nb.events import LeadershipLost, MessageOutdated, OriginSucceeded, SuccessionBegun
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.grants import Grants
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.changes.lagging_copies import LaggingCopies
from synergy_nb.lifecycle.changes.rebuilds import Rebuilds
from synergy_nb.lifecycle.changes.shared_streams import SharedStreams
from synergy_nb.lifecycle.changes.succeeded_graphs import TERM, ending, first_graph, known_sharers, not_executed
from synergy_nb.lifecycle.changes.takeover import TakeOvers
from synergy_nb.lifecycle.records.members import NEVER_ENDED, Member
from synergy_nb.lifecycle.records.messages import Claim, Claimed, Confirmed, End, Entrust, Entrusted, Graph, Sharer
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.lifecycle.sessions.feedback import Feedbacks
from synergy_nb.lifecycle.sessions.leases import Leases
from synergy_nb.lifecycle.sessions.sink_reports import SinkReports
from synergy_nb.plan import Plan

__all__ = ["Leading", "Succession", "successor_of"]


def successor_of(origin: str, plan: Plan, roles: Roles) -> str:
    """Return the address of the peer that leads an application after the death of its origin; empty without one.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan, roles = source("packets", id="s").sink(id="out"), Roles({"s": "a", "out": "b"})
    >>> successor_of("c", plan, roles), successor_of("b", plan, roles)
    ('b', '')
    """
    peer = roles.peers[plan.sinks[0]]
    return "" if peer == origin else peer


class Leading(NamedTuple):
    """The parts of a session that lead an application, or follow who leads it.

    ``give_up`` ends the changes of a request for a reason; ``leave`` ends its attempt at all peers; ``fail`` and
    ``end`` end an application that this peer leads, ``lose`` composes it anew or fails it, as its plan says, and
    ``discard`` discards its results.
    """

    agreements: Agreements
    copies: LaggingCopies
    feedbacks: Feedbacks
    grants: Grants
    leases: Leases
    rebuilds: Rebuilds
    sharers: SharedStreams
    sinks: SinkReports
    takeovers: TakeOvers
    give_up: Callable[[Request, str], None]
    leave: Callable[[Request, str], None]
    fail: Callable[[str, int, str], None]
    lose: Callable[[str, int, str], None]
    end: Callable[[str, State, str], None]
    discard: Callable[[str], bool]


class _Claim:
    """A claim of this peer that members are being asked about."""

    __slots__ = ("answers", "asked", "entrusted", "given_up", "graph", "stopped", "until")

    def __init__(self, graph: Graph, entrusted: Entrust, until: float) -> None:
        self.graph = graph  # graph that this peer knew when it began
        self.entrusted = entrusted  # message by which the origin has entrusted the application to it
        # time until which it waits for silent peers without which the application could not go on, seconds
        self.until = until
        # asked, answers: addresses of the peers that were asked, and the answers
        self.asked = set(graph.addresses)
        self.answers: dict[str, Claimed] = {}
        # what the origin, which lives, has said meanwhile: that a user has stopped the application there; and that
        # it has ended this attempt, of which nobody needs results
        self.stopped: End | None = None
        self.given_up: End | None = None

    @property
    def ends(self) -> list[End | None]:
        """The ends of the application of which anybody was told."""
        return [self.stopped, *(answer.ended for _, answer in sorted(self.answers.items())), self.given_up]

    @property
    def begun(self) -> bool:
        """Whether any member was told that the application runs, or how it has ended."""
        return any(each.runs for each in self.answers.values()) or any(end and end.status for end in self.ends)

    @property
    def latest(self) -> Graph:
        """The graph with the highest epoch that a member has adopted."""
        return max((each.graph for each in self.answers.values() if each.graph), key=lambda graph: graph.epoch)


class Succession(GraphChanger):
    """Leads applications whose origin has died, and follows the successors of others."""

    def __init__(
        self,
        changes: GraphChanges,  # the protocol for changed graphs
        leading: Leading,  # parts of the session that lead an application
        # function that returns the number of the attempt by which the replicas of a request were placed; 0 for none
        placed: Callable[[Request], int],
    ) -> None:
        super().__init__(changes)
        self._leading = leading
        self._placed = placed
        # listeners, called with each application that this peer leads instead of its origin
        self.on_succeeded: list[Callable[[Request, Entrusted], None]] = []
        # listeners, called after that with each one of whose end nobody was told; one may compose it anew
        self.on_going_on: list[Callable[[Request], None]] = []
        # listeners, called with each application of this peer that another one leads now
        self.on_superseded: list[Callable[[Request], None]] = []
        self.entrusted: dict[str, Entrust] = {}  # by application
        self.claims: dict[str, _Claim] = {}
        changes.participation.on_received.append(self._received)
        changes.participation.on_left.append(self.forget)
        changes.on_led_anew.append(self._led_anew)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Entrust: self._entrust,
            Claim: self._claimed,
            Claimed: self._answered,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def entrust(self, request: Request) -> None:
        """Send the record of an application that is set up to its successor, which has to confirm it, if it has one."""
        graph = request.graph
        if graph.successor:
            placed = self._placed(request)
            record = Entrusted(
                request.plan.to_bytes(), request.decided_by, request.spread, request.submitted, placed, request.lease
            )
            self.peer.send(graph.successor, Entrust(graph, record))

    def _received(self, graph: Graph) -> None:
        """Give up the lead of an application if a graph shows that another peer leads it."""
        request = self.led.get(graph.application)
        if request is None or graph.origin == self.peer.address:
            return
        if request.outdated_by(graph):
            self._leading.leave(request, f"{graph.origin} leads the application now")
            self.outdated(request, graph)
        elif request.graph.attempt == graph.attempt and graph.epoch > request.graph.epoch:
            self.superseded(request, graph.origin, graph.epoch)

    def superseded(self, request: Request, to: str, epoch: int) -> None:
        """Give up the lead of an application that another peer leads now, or has led to its end."""
        self._leading.give_up(request, f"{to} leads the application now")
        self._leading.sharers.hand_over(request.name)
        self._lost(request, to, epoch)

    def outdated(self, request: Request, graph: Graph) -> None:
        """Give up a request of which the other peer that may lead it has begun a later attempt.

        Both may set it up again: the successor after it has led on, and its origin, which was cut off from it.
        """
        self._lost(request, graph.origin, graph.epoch)

    def _lost(self, request: Request, to: str, epoch: int) -> None:
        self.peer.record(LeadershipLost, request.name, to=to, epoch=epoch)
        for listener in self.on_superseded:
            listener(request)

    # -- at members --------------------------------------------------------------------------------------------------

    def continues(self, member: Member, dead: str) -> bool:
        """Whether this peer stays in an application after a death: its leader is silent, or a successor may lead."""
        graph, ended = member.graph, self.membership.has_ended
        if dead not in (member.leader, graph.successor) or not ended(member.leader):
            return True
        if member.leader != graph.origin or not graph.successor or ended(graph.successor):
            return False
        return graph.successor != self.peer.address or self._entrusted_with(member) is not None

    def _entrusted_with(self, member: Member) -> Entrust | None:
        """Return the message by which its origin has entrusted an application to this peer; None if there is none."""
        entrusted = self.entrusted.get(member.graph.application)
        return entrusted if entrusted is not None and entrusted.graph.attempt == member.graph.attempt else None

    def forget(self, application: str) -> None:
        """Forget the record of an application that this peer leaves."""
        self.entrusted.pop(application, None)
        self.claims.pop(application, None)

    def _claimed(self, sender: str, message: Claim) -> None:
        """Promise to adopt no graph of the origin any more, and say what this peer knows."""
        application, attempt = message.application, message.attempt
        member = self.changes.members.get(application)
        if member is None or member.graph.attempt != attempt:
            self.peer.send(sender, Claimed(application, attempt, None, ended=self._end_of(application, attempt)))
            return
        if sender not in (member.graph.successor, member.leader):
            reason = f"{member.leader} leads the application"
            self.peer.record(MessageOutdated, application, message="Claim", sender=sender, reason=reason)
            return
        if sender == member.graph.successor:
            # every graph of the origin has a lower epoch than this promise, so from here on it is refused by name: the
            # latest of the answers is the last graph that anybody has adopted from it
            # (test_members_refuse_an_origin_that_was_succeeded_by_name)
            member.promise(sender, TERM)
        self._leading.leases.heard(member, at_least=True)
        sharers = {name: self.changes.members[name].graph for name in self.changes.deploying.sharers(application)}
        answer = Claimed(
            application,
            attempt,
            member.graph,
            tuple(member.components.executing),
            tuple(sorted(member.ready)),
            runs=member.started,
            ended=self._end_of(application, attempt),
            lagging=self._leading.copies.reports(application),
            sharers=tuple((name, Sharer.of(graph, application)) for name, graph in sharers.items()),
        )
        self.peer.send(sender, answer)

    def _end_of(self, application: str, attempt: int) -> End | None:
        """What this peer was told of the end of an attempt; None if it knows of none."""
        known = self.participation.ended.get(application, NEVER_ENDED)
        over = known >= (attempt, math.inf)
        return End(application, known.attempt, known.reason, known.status) if over else None

    def _led_anew(self, member: Member) -> None:
        """Tell the new leader of an application what the earlier one knew from this peer."""
        self._leading.agreements.tell(member)
        self._leading.copies.repeat(member.graph.application)

    # -- at the successor --------------------------------------------------------------------------------------------

    def _entrust(self, sender: str, message: Entrust) -> None:
        graph = message.graph
        known = self.entrusted.get(graph.application)
        # the attempt has ended here, the message is late: nothing is to be led any more
        if (graph.attempt, graph.epoch) <= self.participation.ended.get(graph.application, NEVER_ENDED):
            return
        member = self.changes.members.get(graph.application)
        if member is not None and member.graph.attempt > graph.attempt:
            return
        if known is None or known.graph.attempt <= graph.attempt:
            self.entrusted[graph.application] = message
            self.peer.send(sender, Confirmed(graph.application, graph.attempt, ""))

    def told(self, sender: str, message: End) -> None:
        """Note an end of which a peer tells this one while it claims the application."""
        claim = self.claims.get(message.application)
        if claim is None or message.attempt != claim.graph.attempt:
            return
        if message.status == State.STOPPED:
            claim.stopped = End(message.application, message.attempt, "", State.STOPPED)
        elif not message.status and sender == claim.graph.origin:
            claim.given_up = message
        self._lead_if_answered(message.application, claim)

    def died(self, address: str) -> None:
        """Claim the applications that a dead peer has led; other claims do not wait for its answers any more."""
        for application, entrusted in list(self.entrusted.items()):
            member = self.changes.members.get(application)
            if member is None and entrusted.graph.origin == address:
                del self.entrusted[application]  # it died during set-up
            elif member is not None and member.leader == address and self._entrusted_with(member) is entrusted:
                self._begin(member, entrusted)
        for application, claim in list(self.claims.items()):
            if address in claim.asked:
                self._lead_if_answered(application, claim)

    def _begin(self, member: Member, entrusted: Entrust) -> None:
        """Claim an application whose origin has died; if it has ended, only become the origin of its results."""
        application, graph = member.graph.application, member.graph
        if member.ended:
            rights = self._leading.grants.latest(application, graph.rights)
            led = msgspec.structs.replace(graph.led_by(self.peer.address), rights=rights)
            request = Request.entrusted(entrusted, led, member.former, self.peer.now)
            state, reason = ending(
                (self._end_of(application, graph.attempt),), graph.origin, sinks_ended=member.sinks_ended
            )
            request.enter(state, reason)
            self._lead_own(member)
            self._leading.sinks.retain(request.graph, request.status.value, reason)
            self._succeeded(request, entrusted)
        else:
            self.peer.record(SuccessionBegun, application, origin=graph.origin, epoch=graph.epoch)
            claim = self.claims[application] = _Claim(graph, entrusted, self.peer.now + self.config.patience)
            self._ask(application, claim)

    def _ask(self, application: str, claim: _Claim) -> None:
        """Send the claim to all peers that have not answered, now and once every interval."""
        if self.claims.get(application) is claim:
            if not self._waiting(claim) and not claim.begun:
                claim.answers.clear()  # the origin lived, and has begun it meanwhile, or has given it up
            self._send(application, claim)
            self.peer.after(RESEND_INTERVAL, self._ask, application, claim)
            self._lead_if_answered(application, claim)

    def _send(self, application: str, claim: _Claim) -> None:
        for address in self._waiting(claim):
            self.membership.suspect(address)  # it may have died, too
            self.peer.send(address, Claim(application, claim.graph.attempt))

    def _waiting(self, claim: _Claim) -> list[str]:
        """Peers that have not answered and are not known to be dead, sorted."""
        return sorted(each for each in claim.asked - claim.answers.keys() if not self.membership.is_dead(each))

    def _answered(self, sender: str, message: Claimed) -> None:
        claim = self.claims.get(message.application)
        if claim is not None and sender in claim.asked and message.attempt == claim.graph.attempt:
            claim.answers[sender] = message
            self._lead_if_answered(message.application, claim)

    def _lead_if_answered(self, application: str, claim: _Claim) -> None:
        """Lead an application once every living peer of its last graph has answered."""
        if self._waiting(claim) or self.peer.address not in claim.answers:
            return
        # this peer may be the one that is cut off: then leading would make two leaders
        # (test_a_successor_that_is_cut_off_does_not_lead)
        if self.peer.now < claim.until and self._awaits(claim):
            return
        # the last graph of the origin may name peers that this one has never heard of, and they may execute already
        more = set(claim.latest.addresses) - claim.asked
        if more:
            claim.asked |= more
            self._send(application, claim)
            self._lead_if_answered(application, claim)
            return
        if not claim.begun:
            origin = claim.graph.origin
            if claim.given_up is not None or (any(claim.ends) and not self.membership.is_dead(origin)):
                self._leave_attempt(application, claim)
                return
            if self.peer.now < claim.until and not self.membership.has_ended(origin):
                return
        del self.claims[application]
        self._lead(application, claim)

    def _leave_attempt(self, application: str, claim: _Claim) -> None:
        """Leave an attempt that has not begun, and that its origin has given up; so do all who have promised."""
        attempt, why = claim.graph.attempt, "its origin has given up this attempt"
        for address in sorted(claim.asked - {self.peer.address}):
            self.peer.send(address, End(application, attempt, why))
        self.participation.leave(application, why)

    def _awaits(self, claim: _Claim) -> bool:
        """Whether a component has neither its peer nor a backup among those that answered, but one that is only silent.

        This peer may be the one that is cut off; then nobody else has promised anything, and the origin goes on.
        """
        roles = claim.latest.roles
        for operator, peer in roles.peers.items():
            may = {peer, *roles.backups.get(operator, ())} - {""}
            if may and may.isdisjoint(claim.answers) and not all(map(self.membership.has_ended, may)):
                return True
        return False

    def _lead_own(self, member: Member) -> None:
        """Name this peer as origin in its own record; the first graph is adopted once all take-overs are asked for."""
        self.membership.unwatch(member.graph.origin)
        member.lead()

    def _succeeded(self, request: Request, entrusted: Entrust) -> None:
        """Record that this peer leads an application now, and notify the listeners."""
        graph, origin = request.graph, entrusted.graph.origin
        self.peer.record(OriginSucceeded, request.name, origin=origin, epoch=graph.epoch, peers=request.roles.peers)
        for listener in self.on_succeeded:
            listener(request, entrusted.record)
        self.peer.instruct(request.report())

    def _lead(self, application: str, claim: _Claim) -> None:
        """Lead an application from the graph that its members know, or end it."""
        origin, leading, answers = claim.graph.origin, self._leading, claim.answers
        latest, placed = claim.latest.led_by(self.peer.address), claim.entrusted.graph.roles.backups
        graph = first_graph(latest, placed, answers, self.membership.is_dead)
        known = (answer.graph.rights for answer in answers.values() if answer.graph is not None)
        graph = msgspec.structs.replace(graph, rights=leading.grants.latest(application, *known))
        former = self.changes.members[application].former.difference(graph.addresses)
        request = self.led[application] = Request.entrusted(claim.entrusted, graph, former, self.peer.now)
        for address in graph.watched:
            self.membership.watch(address)
        leading.agreements.open(graph)
        self._lead_own(self.changes.members[application])
        self._led_anew(self.changes.members[application])
        self._succeeded(request, claim.entrusted)
        without_part = sorted(claim.asked.difference(graph.addresses))
        for listener in self.on_going_on if not any(end and end.status for end in claim.ends) else ():
            listener(request)
        if self.led.get(application) is not request:
            pass  # it is composed anew, of whatever the graph has left
        elif not claim.begun:
            leading.fail(application, graph.attempt, f"its origin {origin} died before it ran")
            leading.discard(application)
        elif any(claim.ends):
            ended = self.changes.members[application].sinks_ended
            leading.end(application, *ending(claim.ends, origin, sinks_ended=ended))
            if claim.given_up is not None:
                leading.discard(application)
        else:
            for sender, answer in sorted(answers.items()):
                for report in answer.lagging:
                    leading.copies.behind_reported(sender, report)
            leading.sharers.lead(application, known_sharers(answers.values()))
            leading.feedbacks.begin(application)
            self._go_on(request, origin, answers)
            if self.led.get(application) is request:
                self.changes.dismiss(application, without_part)
        if application not in self.led:
            for address in without_part:
                self.peer.send(address, End(application, graph.attempt, "it has ended"))

    def _go_on(self, request: Request, origin: str, answers: Mapping[str, Claimed]) -> None:
        """Complete or undo what the origin had begun, and replace what has died with it."""
        application, graph, leading = request.name, request.graph, self._leading
        coming, lost = not_executed(graph, answers, self.membership.is_dead)
        if coming:
            leading.takeovers.resume(application, coming)
        dead = sorted(filter(self.membership.is_dead, graph.addresses), key=lambda peer: (peer != origin, peer))
        why = f"{', '.join(sorted(lost))}: nobody executes it" if lost else ""
        if not leading.takeovers.begin(application, dead[0] if dead else origin, why, lost):
            with_it = [f"{peer} ({', '.join(graph.components_at(peer))})" for peer in dead]
            leading.lose(
                application, graph.attempt, why or f"its origin {origin} died, and with it {', '.join(with_it)}"
            )
            return
        if request.graph is graph and not coming:
            self.changes.publish(application)
        leading.rebuilds.resume(application)
