"""Application sessions: from a chosen component graph to a running application, and to its end.

Theory of operation
-------------------
*Set-up* (section 2.3.1, step 5). The origin v_s confirms the sinks; each peer that has been confirmed by all consumers
of an operator commits its reservation, has it deployed, and confirms the operator's own inputs, so no tuple can meet a
component that is not there. A source that has been confirmed says so to the origin; when all have, the origin starts
them. A peer that cannot keep its promise refuses, and the origin takes the whole graph back.

*Sharing* (section 2.3.3). A tap of the plan stands for a stream of another application. Its producers on all peers are
told that one more application uses them (:class:`Share`) before anything starts; a component goes when its last user
has gone (:mod:`synergy_nb.lifecycle.hosted_components`), whoever had it deployed. Streams are offered once they run.

*Keeping* (section 2.3.4). The origin, where the sinks are, sends the measured end-to-end execution time t̂ to all
peers of the graph once a second (:mod:`synergy_nb.lifecycle.feedback`), and watches them through the failure detector.
This feedback is also the lease of the session: a peer that hears none for a while gives its share back.

*End.* An application that has ended is taken back everywhere, but for the results at the sinks of one that was not
stopped; a late message of it is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from synergy_nb import events
from synergy_nb.control.graph import Roles
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.commitments import Commitments
from synergy_nb.lifecycle.deploying import Deploying, needed_by
from synergy_nb.lifecycle.engine_choice import Offer
from synergy_nb.lifecycle.feedback import Feedbacks
from synergy_nb.lifecycle.graph_changes import GraphChanges
from synergy_nb.lifecycle.hosted_components import Components
from synergy_nb.lifecycle.impact import Impacts
from synergy_nb.lifecycle.lagging_copies import LaggingCopies
from synergy_nb.lifecycle.members import Member, plan_of
from synergy_nb.lifecycle.messages import (
    Begin,
    Confirm,
    Confirmed,
    End,
    Graph,
    Lost,
    Refused,
    SessionConfig,
    Share,
)
from synergy_nb.lifecycle.migration import Migrations
from synergy_nb.lifecycle.request import Request
from synergy_nb.lifecycle.shared_streams import SharedStreams
from synergy_nb.lifecycle.takeover import TakeOvers
from synergy_nb.models.projection import ProjectionConfig
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.overlay.recently_seen import Latest
from synergy_nb.plan import Plan
from synergy_nb.plan.stream_sharing import provider

__all__ = ["Session"]

MEMORY = 4096  # ended sessions that a peer remembers, to refuse their late messages by name


class Session(Protocol):
    """The sessions in which a peer takes part, and those that it leads.

    Parameters
    ----------
    peer
        The peer.
    ledger
        Ledger of the peer's resources.
    membership
        Failure detector: the origin watches its peers, they watch the origin.
    config
        Times.
    streams
        Where streams are offered to others; None where they are not.
    spark
        Gives what this peer knows of the Spark that it can use; None: it has none.
    projection, processing, server
        How impact is projected, see :class:`~synergy_nb.lifecycle.impact.Impacts`.

    Attributes
    ----------
    components : Components
        What this peer executes, and for whom.
    impacts : Impacts
        Projects what more would do to applications here.
    copies : Copies
        What this peer knows of copies of components, for the driver to report.
    commitments : Commitments
        What this peer commits of applications that are set up.
    on_established : list of callables (request, refusal)
        Told of each request that runs, with an empty text, or that could not be set up, with the reason.
    on_ended : list of callables (request)
        Told of each application of this origin that has run, or was about to, and has ended.
    """

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        membership: Membership,
        config: SessionConfig | None = None,
        streams: PublishedStreams | None = None,
        spark: Callable[[], Offer | None] = lambda: None,
        projection: ProjectionConfig | None = None,
        processing: Callable[[Plan, str], float] = Plan.processing_time,
        server: float | None = None,
    ) -> None:
        super().__init__(peer)
        self.ledger = ledger
        self.membership = membership
        self.config = config or SessionConfig()
        self.components = Components(peer, ledger, streams)
        self.on_established: list[Callable[[Request, str], None]] = []
        self.on_ended: list[Callable[[Request], None]] = []
        self._members: dict[str, Member] = {}
        self._owned: dict[str, Request] = {}
        self._over: Latest[tuple[int, float]] = Latest(MEMORY)  # by application, attempt and epoch that are over here
        self.feedbacks = Feedbacks(
            peer, self.config, self._owned, self._members, self.components, self._start, self._expire
        )
        membership.on_dead.append(self._peer_died)
        self.impacts = Impacts(self.components, self._members, ledger, projection, spark, processing, server)
        self.deploying = Deploying(peer, self.components, self._members)
        self.changes = GraphChanges(
            peer, ledger, membership, self.deploying, self._owned, self._members, self._joined, self._depart
        )
        self.copies = LaggingCopies(peer, self._owned, self._members)
        common = peer, membership, self.changes, self.config, self._owned
        self.takeovers = TakeOvers(*common, self._cannot_go_on, awaits=self._awaits, unfit=self.copies.cannot_take_over)
        self.moves = Migrations(
            *common,
            self._joined,
            self.impacts.refusal,
            lambda: spark() is not None,
            self._peer_lost,
            sharers=self._shared_by,
            unfit=self.copies.cannot_take_over,
        )
        self.copies.on_ready.append(self.moves.ready)
        self.copies.on_failed.append(self.moves.failed)
        self.sharers = SharedStreams(*common, self.moves, self._cannot_go_on)
        self.commitments = Commitments(peer, self.changes, self.impacts, self._joined, self.sharers.admit)
        self.handlers = {
            Confirmed: self._source_confirmed,
            Refused: lambda _, message: self._setup_failed(message.application, message.attempt, message.reason),
            Begin: self._begin,
            End: self._end,
            Lost: self._lost,
            **self.feedbacks.handlers,
            **self.commitments.handlers,
            **self.changes.handlers,
            **self.takeovers.handlers,
            **self.moves.handlers,
            **self.copies.handlers,
            **self.sharers.handlers,
        }

    def _awaits(self, application: str) -> bool:
        return self.sharers.awaits(application)

    def _shared_by(self, application: str, operator: str) -> tuple[str, ...]:
        return self.sharers.of(application, operator)

    # -- for requests and the driver ---------------------------------------------------------------------------------

    def establish(self, request: Request, roles: Roles, reached: dict[str, float]) -> None:
        """Set the session of a request up, from this peer as its origin.

        Parameters
        ----------
        request
            Request that was decided.
        roles
            Who executes what of ``request.way``, and who backs it up.
        reached
            Operator to the seconds from a source until a tuple is done, as probes found it.
        """
        application, plan = request.name, request.way.plan
        attempt = self._over.get(application, (0, 0.0))[0] + 1
        shared = {tap: hosts[roles.peers[tap]] for tap, hosts in request.way.shared.items()}
        graph = request.graph = Graph(
            application, attempt, self.peer.address, plan.to_bytes(), roles, shared=shared, reached=reached
        )
        self._owned[application] = request
        request.unconfirmed = {*plan.sources, *graph.beside, *graph.shared_owners}
        seconds = self.config.setup + self.config.preparation(plan)
        request.timer = self.peer.after(
            seconds, self._setup_failed, application, attempt, "no answer from every source in time"
        )
        for address in graph.watched:
            self.membership.watch(address)
        for address in sorted(graph.beside | graph.shared_owners):
            self.peer.send(address, Share(graph))
        for sink in plan.sinks:
            self.peer.send(roles.peers[sink], Confirm(graph, sink, ""))

    def measured(self, application: str, delay: float) -> None:
        """The driver's report of the end-to-end execution time at the sinks, in seconds."""
        member = self._members.get(application)
        if member is not None:
            member.delay = delay

    def finished(self, application: str) -> None:
        """The driver's report that every sink of an application has seen the end of its streams."""
        owned = self._owned.get(application)
        if owned is not None and owned.running:
            self._close(application, State.FINISHED, "", keep_sinks=True)

    def component_ready(self, application: str, operator: str) -> None:
        """The driver's report that a part on Spark takes tuples."""
        member = self._members.get(application)
        if member is not None:
            self.commitments.ready(member, operator)

    def move(self, application: str, operator: str, to: str, moved: Callable[[str], None]) -> None:
        """Move a component of a running application of this origin to another peer, without a pause.

        Parameters
        ----------
        application, operator
            Component that moves.
        to
            Address of the peer that it moves to.
        moved
            Called once with what came of it: an empty text, or the reason why the component stays where it is.

        Raises
        ------
        ValueError
            If the component cannot move, or not there, or not now.
        """
        self.moves.move(application, operator, to, moved)

    def component_failed(self, application: str, operator: str, reason: str) -> None:
        """The driver's report that an operator cannot go on at this peer."""
        member = self._members.get(application)
        if member is not None and self.moves.failed(member, operator, reason):
            return
        component = self.components.get((application, operator))
        users = {application} if component is None else component.users
        known = [self._members[user].graph for user in sorted(users) if user in self._members]
        if known:
            self.peer.record(events.ComponentFailed, application, operator=operator, reason=reason)
        for graph in known:
            whose = "" if graph.application == application else f" of {application}"
            text = f"{operator}{whose} at {self.peer.address}: {reason}"
            self.peer.send(graph.origin, Lost(graph.application, graph.attempt, text))

    def reader_failed(self, application: str, operator: str, reader: str, reason: str) -> None:
        """The driver's report that a consumer holds up those who share its component's stream."""
        others = self.components[application, operator].users - {application}
        needed = {each for user in others for each in needed_by(self._members[user].graph)}
        if others and (application, reader) not in needed:
            self.component_failed(application, reader, reason)

    def stop(self, application: str) -> bool:
        """End an application of this origin, or forget the results of one that has finished; False if unknown."""
        if application in self._owned:
            self._close(application, State.STOPPED, "")
            return True
        member = self._members.get(application)
        if member is not None and member.graph.origin == self.peer.address:
            self._leave(application, "stopped")
            return True
        return False

    @property
    def applications(self) -> frozenset[str]:
        """Applications in which this peer takes part."""
        return frozenset(self._members)

    @property
    def led(self) -> frozenset[str]:
        """Applications of which this peer is the origin."""
        return frozenset(self._owned)

    def graph(self, application: str) -> Graph | None:
        """The component graph of an application in which this peer takes part."""
        member = self._members.get(application)
        return None if member is None else member.graph

    def delay(self, application: str) -> float | None:
        """Last known end-to-end execution time t̂ of an application, in seconds."""
        member = self._members.get(application)
        return None if member is None or member.delay < 0 else member.delay

    # -- set-up ------------------------------------------------------------------------------------------------------

    def _refuse(self, application: str, what: str, sender: str, reason: str) -> None:
        self.peer.record(events.MessageOutdated, application, message=what, sender=sender, reason=reason)

    def _joined(self, sender: str, graph: Graph, what: str) -> Member | None:
        """This peer's part of the application that a message is about; None if it is refused."""
        application = graph.application
        member = self._members.get(application)
        over = self._over.get(application, (0, 0.0))
        if (graph.attempt, graph.epoch) <= over or (member is not None and graph.attempt < member.graph.attempt):
            self._refuse(application, what, sender, "stale attempt")
            return None
        if graph.origin == self.peer.address and application not in self._owned:  # it has ended, or this peer restarted
            self._refuse(application, what, sender, "this peer does not lead the application")
            return None
        if member is None or member.graph.attempt < graph.attempt:
            try:
                plan = plan_of(graph)
            except ValueError as error:
                self._refuse(application, what, sender, str(error))
                return None
            if member is not None:
                self._leave(application, "a later attempt")
            heard = self.peer.now + self.config.preparation(plan)
            member = self._members[application] = Member(graph, plan, self.peer.address, heard)
            self.feedbacks.expect(member)
            if graph.origin != self.peer.address:
                self.membership.watch(graph.origin)
        return member

    def _source_confirmed(self, sender: str, message: Confirmed) -> None:
        owned = self._owned.get(message.application)
        if owned is None or owned.running or owned.graph.attempt != message.attempt:
            return
        owned.unconfirmed.discard(message.operator)
        if owned.unconfirmed:
            return
        if owned.timer is not None:
            owned.timer.cancel()
        owned.to(State.RUNNING)
        owned.began = self.peer.now
        graph = owned.graph
        plan = Plan.from_bytes(graph.plan)
        for address in sorted({graph.roles.peers[source] for source in plan.sources}):
            self.peer.send(address, Begin(graph.application, graph.attempt))
        self.feedbacks.begin(graph.application)  # from it, all know that the application runs
        peers = owned.roles.peers
        shared = {tap: list(provider(plan.operators[tap], graph.roles.peers[tap]) or ()) for tap in graph.shared}
        uses = {tap: [use[:3] for use in made] for tap, made in graph.shared.items()}
        self.peer.record(events.ApplicationRunning, graph.application, peers=peers, shared=shared, uses=uses)
        self.peer.instruct(owned.report())
        for listener in self.on_established:
            listener(owned, "")
        self.sharers.resume(graph.application)

    def _begin(self, sender: str, message: Begin) -> None:
        member = self._members.get(message.application)
        if member is None or member.graph.attempt != message.attempt:
            self._refuse(message.application, "Begin", sender, "no such session")
            self.peer.send(sender, Lost(message.application, message.attempt, f"no session at {self.peer.address}"))
            return
        self._start(member)

    def _start(self, member: Member) -> None:
        """Start the sources here, and give those who share streams theirs, once."""
        if not member.started:
            member.started = True
            self.deploying.deploy(member.graph.application)

    def _setup_failed(self, application: str, attempt: int, reason: str) -> None:
        owned = self._owned.get(application)
        if owned is None or owned.graph.attempt != attempt or owned.running:
            return
        self.peer.record(events.SetupFailed, application, attempt=attempt, reason=reason)
        self._take_back(owned, reason)
        owned.to(State.DECIDING)
        for listener in self.on_established:
            listener(owned, reason)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _lost(self, sender: str, message: Lost) -> None:
        owned = self._owned.get(message.application)
        if owned is None or 0 <= message.epoch < owned.graph.epoch or sender not in owned.graph.addresses:
            return  # what was there has moved elsewhere
        self._cannot_go_on(message.application, message.attempt, message.reason)

    def _cannot_go_on(self, application: str, attempt: int, reason: str) -> None:
        owned = self._owned.get(application)
        if owned is None or owned.graph.attempt != attempt:
            return
        if owned.running:
            self._close(application, State.FAILED, reason, keep_sinks=True)
        else:
            self._setup_failed(application, attempt, reason)

    def _peer_died(self, address: str) -> None:
        for application in list(self._owned):
            if not self.moves.died(application, address):
                self._peer_lost(application, address)
            if application in self._owned:
                self.sharers.died(application, address)
        for application, member in list(self._members.items()):
            if member.graph.origin == address:
                self.peer.record(events.SessionExpired, application, origin=address)
                self._leave(application, "its origin died")

    def _peer_lost(self, application: str, address: str) -> bool:
        """Let others take over what of an application was on a dead peer, or end it; gives whether it goes on."""
        graph = self._owned[application].graph
        if address in graph.addresses and not self.takeovers.begin(application, address):
            self._cannot_go_on(application, graph.attempt, f"peer {address} died ({', '.join(graph.at(address))})")
        return application in self._owned

    # -- end ---------------------------------------------------------------------------------------------------------

    def _close(self, application: str, state: State, reason: str, *, keep_sinks: bool = False) -> None:
        owned = self._owned[application]
        owned.to(state, reason)
        self.peer.record(events.ENDINGS[owned.status], application, reason=reason)
        self._take_back(owned, reason or owned.status, keep_sinks=keep_sinks)
        self.peer.instruct(owned.report())
        for listener in self.on_ended:
            listener(owned)

    def _take_back(self, owned: Request, reason: str, *, keep_sinks: bool = False) -> None:
        graph = owned.graph
        application = graph.application
        if owned.timer is not None:
            owned.timer.cancel()
        del self._owned[application]
        self.takeovers.end(application)
        self.moves.end(application)
        for address in graph.watched:
            self.membership.unwatch(address)
        for address in graph.addresses:
            if address != self.peer.address:
                self.peer.send(address, End(application, graph.attempt, reason))
        if application in self._members:
            self._leave(application, reason, keep_sinks=keep_sinks)
        else:
            self._over.raise_to(application, (graph.attempt, math.inf))
        self.sharers.ended(graph)

    def _end(self, sender: str, message: End) -> None:
        self.sharers.gone(message.application, message.attempt)
        member = self._members.get(message.application)
        if member is None:
            self._over.raise_to(message.application, (message.attempt, math.inf))
            self.ledger.expire(message.application)
        elif member.graph.attempt <= message.attempt:
            self._leave(message.application, message.reason)

    def _expire(self, application: str, reason: str) -> None:
        """The origin of an application is not there any more; what is heard of a later graph is news again."""
        member = self._members[application]
        self.peer.record(events.SessionExpired, application, origin=member.graph.origin)
        self._leave(application, reason, until=member.graph.epoch)

    def _depart(self, application: str) -> None:
        """Nothing of an application is here any more; it may come back."""
        self._leave(application, "what was here of it has moved", until=self._members[application].graph.epoch)

    def _leave(self, application: str, reason: str, *, keep_sinks: bool = False, until: float = math.inf) -> None:
        """Give back all that this peer holds for an application; results may stay at its sinks.

        Messages about the epochs ``until`` this one are refused from then on.
        """
        member = self._members[application]
        sinks = frozenset(member.plan.sinks) if keep_sinks else frozenset()
        owners = self.components.leave(application, sinks)
        for operator in set(member.graph.roles.backed_up(self.peer.address)) - member.deployed:
            self.ledger.drop(application, operator)
        member.deployed &= sinks
        member.ended = True
        self.ledger.expire(application)
        if not keep_sinks:
            if member.timer is not None:
                member.timer.cancel()
            if member.graph.origin != self.peer.address:
                self.membership.unwatch(member.graph.origin)
            del self._members[application]
            self._over.raise_to(application, (member.graph.attempt, until))
        for owner in sorted(owners):
            self.deploying.deploy(owner)
        self.peer.record(events.SessionLeft, application, reason=reason)
