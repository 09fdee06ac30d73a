"""Application sessions: from a chosen component graph to a running application, and to its end.

Theory of operation
-------------------
*Set-up* (section 2.3.1, step 5). The origin v_s confirms the sinks; each peer that has been confirmed by all consumers
of an operator commits its reservation, deploys the component, and confirms the operator's own inputs. So no tuple can
arrive at a component that does not exist yet. The peer of a confirmed source reports to the origin
(:class:`Confirmed`); when all sources are confirmed, the origin starts them (:class:`Begin`). A peer that cannot commit
refuses (:class:`Refused`), and the origin ends the session at all peers.

*Sharing* (section 2.3.3). A tap of the plan stands for a stream of another application. Before anything starts, the
origin informs the peers of all producers of that stream that one more application uses them (:class:`Share`). A
component is removed when its last user has ended (:mod:`synergy_nb.lifecycle.records.hosted_components`), even if the
application that had it deployed ended earlier. The directory offers a stream from when its application runs.

*Lease* (section 2.3.4). The origin sends the measured end-to-end execution time t̂ to all peers of the graph once a
second (:mod:`synergy_nb.lifecycle.sessions.feedback`), and watches them. This feedback is also the lease of the
session: a peer that receives none for long releases what it holds (:mod:`synergy_nb.lifecycle.sessions.leases`). If the
origin dies, a successor leads the application on (:mod:`synergy_nb.lifecycle.changes.succession`), or else all peers
leave it.

*End.* The origin ends a session at all peers (:class:`End`), which release what they hold. Results stay at the sinks
until they are fetched, unless a user stopped the application. Late messages of an ended attempt are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from synergy_nb import events
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Protocol
from synergy_nb.control.rights import Admission
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.awaited_peers import AwaitedPeers
from synergy_nb.lifecycle.changes.grants import Grants
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.changes.holds import Holds
from synergy_nb.lifecycle.changes.lagging_copies import LaggingCopies
from synergy_nb.lifecycle.changes.lost_components import LostComponents
from synergy_nb.lifecycle.changes.migration import Migrations
from synergy_nb.lifecycle.changes.rebuilds import Rebuilds
from synergy_nb.lifecycle.changes.shared_streams import SharedStreams
from synergy_nb.lifecycle.changes.succeeded_graphs import TERM
from synergy_nb.lifecycle.changes.succession import Leading, Succession, successor_of
from synergy_nb.lifecycle.changes.takeover import TakeOvers
from synergy_nb.lifecycle.changes.verdicts import Verdicts
from synergy_nb.lifecycle.records.attempts import EPOCHS_OF_ATTEMPT, first_epoch, next_attempt, start_of
from synergy_nb.lifecycle.records.hosted_components import Components
from synergy_nb.lifecycle.records.members import NEVER_ENDED, Ended, Member
from synergy_nb.lifecycle.records.messages import Begin, Confirm, Confirmed, End, Graph, GraphAsked, Refused, Share
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests.decider import Decision
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.lifecycle.sessions.commitments import Commitments
from synergy_nb.lifecycle.sessions.deploying import Deploying
from synergy_nb.lifecycle.sessions.feedback import Feedbacks
from synergy_nb.lifecycle.sessions.impact import Impacts
from synergy_nb.lifecycle.sessions.leases import Leases
from synergy_nb.lifecycle.sessions.participation import Participation
from synergy_nb.lifecycle.sessions.sink_reports import RETAINING, SinkReports, sink_peers
from synergy_nb.models.projection import ProjectionConfig
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.lost_rows import lost_rows, restarts
from synergy_nb.plan.derived.stream_sharing import provider

__all__ = ["Session"]


class Session(Protocol):
    """The protocol of all sessions in which a peer takes part, and of those that it leads."""

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        membership: Membership,  # failure detector, by which the origin watches its peers, and they watch the origin
        config: SessionConfig | None = None,
        # directory of running streams that others may share; None where this peer offers none
        streams: PublishedStreams | None = None,
        # function that returns the properties of the Spark server of this peer, or None where it has none
        spark: Callable[[], SparkOffer | None] = lambda: None,
        # projection, processing: parameters of the projection of impact, see `Impacts`
        projection: ProjectionConfig | None = None,
        processing: Callable[[Plan, str], float] = Plan.processing_time,
        # function that is called with each component that this peer is to execute
        deployed: Callable[[Plan, str], None] = lambda _plan, _operator: None,
        # function that returns the number of the attempt by which the replicas of a request were placed; 0 for none
        placed: Callable[[Request], int] = lambda _request: 0,
        # function of (plan, operator, peer that executes it) that returns what this peer lacks for it; empty: nothing
        lacks: Callable[[Plan, str, str], str] = lambda _plan, _operator, _at: "",
        admission: Admission | None = None,  # what this peer accepts of users; None: everything
    ) -> None:
        super().__init__(peer)
        self.ledger = ledger
        self.membership = membership
        self.config = config or SessionConfig()
        # components of this peer, and the applications that use each
        self.components = Components(peer, ledger, streams)
        # listeners, called when the set-up of a request has ended: with an empty text if its application runs, else
        # with the reason why the set-up has failed
        self.on_setup_ended: list[Callable[[Request, str], None]] = []
        # listeners, called with each application that is to be composed anew, as a peer has died, and with the reason
        self.on_restart: list[Callable[[Request, str], None]] = []
        # listeners, called with each application of this origin that has ended after its set-up
        self.on_ended: list[Callable[[Request], None]] = []
        self.members: dict[str, Member] = {}  # records of the applications in which this peer takes part, by id
        self._led: dict[str, Request] = {}
        # projection of the impact of one more component on the applications at this peer
        self.impacts = Impacts(self.components, self.members, ledger, projection, spark, processing)
        # agreements of origins to what components add to the delays of their applications
        self.agreements = Agreements(peer, self.impacts, self.members, membership.answers)
        self.sinks = SinkReports(peer, self._led, self.members, self._end_application)  # reports of sinks to the origin
        self.deploying = Deploying(
            peer, self.components, self.members, compares=self.config.compares, durable=self.config.durable
        )
        # applications that the peer joins and leaves
        self.participation = Participation(
            peer, membership, self.config, self._led, self.members, self.deploying, self.agreements,
            admission or Admission(ledger),
        )  # fmt: skip
        self.changes = GraphChanges(self.participation)
        self.grants = Grants(self.changes)  # rights that owners grant to other users
        self.leases = Leases(self.participation, self.sinks, self.changes.tell)
        self.feedbacks = Feedbacks(self.participation, self.leases, self.agreements.delay, self.sinks.delay)
        # copies of components that cannot take over, as drivers have reported them
        self.copies = LaggingCopies(peer, self._led, self.members)
        self.takeovers = TakeOvers(
            self.changes,
            self._fail,
            AwaitedPeers(peer, self._led, self.config.patience, self._lose),
            shared=lambda name: self.sharers.awaited(name),  # noqa: PLW0108 - made below
            cannot_take_over=self.copies.cannot_take_over,
            incomplete=lambda name: self.rebuilds.streams.incomplete(name),  # noqa: PLW0108 - likewise
            sharers=lambda *component: self.sharers.sharers_of(*component),  # noqa: PLW0108 - likewise
        )
        self.moves = Migrations(
            self.changes,
            self.impacts.refusal,
            lacks,
            lambda *lost: self.verdicts.lost(*lost),  # noqa: PLW0108 - likewise
            sharers=lambda *component: self.sharers.sharers_of(*component),  # noqa: PLW0108 - likewise
            cannot_take_over=self.copies.cannot_take_over,
        )
        # rebuilds of lost active replicas
        self.rebuilds = Rebuilds(self.changes, self.impacts.refusal, self.copies.cannot_take_over, self.takeovers.lost)
        self.copies.on_ready.extend((self.moves.ready, self.rebuilds.ready))
        self.copies.on_failed.append(self.moves.failed)
        self.lost = LostComponents(
            self.changes, self.moves, self.rebuilds, self.takeovers, self._fail, self._lose, self._said_ended,
        )  # fmt: skip
        self.sharers = SharedStreams(self.changes, self.moves, lambda *lost: self.verdicts.lost(*lost))  # noqa: PLW0108 - made below
        self.holds = Holds(self.changes, self.sharers.sharers)  # applications that users have paused
        # components that this peer commits during set-up
        self.commitments = Commitments(
            self.participation, self.impacts, self.sharers.admit, self.agreements, deployed, self.changes.tell
        )
        leading = Leading(
            self.agreements, self.copies, self.feedbacks, self.grants, self.leases, self.rebuilds, self.sharers,
            self.sinks, self.takeovers, self._end_leading, self._end_session, self._fail, self._lose,
            self._end_application, self.stop,
        )  # fmt: skip
        self.succession = Succession(self.changes, leading, placed)  # leadership after the death of an origin
        self.verdicts = Verdicts(
            self.changes, self.takeovers, self.moves, self.rebuilds, self.sharers, self.succession, self._lose,
        )  # fmt: skip
        self.handlers = {
            Confirmed: self._source_confirmed,
            Refused: self._refused,
            End: self._end,
            **self.participation.handlers,
            **self.feedbacks.handlers,
            **self.leases.handlers,
            **self.agreements.handlers,
            **self.commitments.handlers,
            **self.changes.handlers,
            **self.grants.handlers,
            **self.holds.handlers,
            **self.takeovers.handlers,
            **self.lost.handlers,
            **self.moves.handlers,
            **self.rebuilds.handlers,
            **self.copies.handlers,
            **self.sharers.handlers,
            **self.sinks.handlers,
            **self.succession.handlers,
        }

    # -- for requests and the driver ---------------------------------------------------------------------------------

    def establish(self, request: Request, decision: Decision) -> None:
        """Set up the session of a request as it was decided, with this peer as its origin."""
        application, plan = request.name, request.alternative.plan
        member = self.members.get(application)
        if member is not None and request.outdated_by(member.graph):
            self.succession.outdated(request, member.graph)  # the other one of its two leaders was first
            return
        last, roles = self.participation.ended.get(application, NEVER_ENDED).attempt, decision.roles
        attempt = next_attempt(last, succeeded=request.succeeded)
        if self.config.durable:  # no two attempts have an epoch in common: a folder tells them apart
            first = first_epoch(attempt, request.next_epoch, request.epoch)
            roles = msgspec.structs.replace(roles, epochs=dict.fromkeys(roles.peers, first))
        shared = {tap: hosts[roles.peers[tap]] for tap, hosts in request.alternative.shared.items()}
        graph = Graph(
            application, attempt, self.peer.address, plan.to_bytes(), roles, shared, decision.reached,
            promised=dict(decision.promised), known=tuple(sorted(request.owners)) if decision.promised else (),
            successor=successor_of(self.peer.address, plan, roles), rights=request.rights, beside=request.beside,
        )  # fmt: skip
        self.agreements.open(graph)
        self._led[application] = request
        seconds = self.config.setup + self.config.preparation(plan)
        limit = self.membership.answers.after(seconds, graph.watched, self._setup_late, application, attempt)
        request.set_up(graph, limit)
        for address in graph.watched:
            self.membership.watch(address)
        for address in sorted(graph.helpers | graph.owner_origins):
            self.peer.send(address, Share(graph))
        # the set-up goes from the sinks to the sources: a peer confirms its inputs when it has deployed, so that no
        # tuple arrives where nothing is deployed
        for sink in plan.sinks:
            self.peer.send(roles.peers[sink], Confirm(graph, sink, ""))
        self.succession.entrust(request)

    def component_ready(self, application: str, operator: str) -> None:
        """The driver's report that a part on Spark takes tuples."""
        member = self.members.get(application)
        if member is not None:
            self.commitments.ready(member, operator)

    def component_failed(self, application: str, operator: str, reason: str) -> None:
        """The driver's report that a component has failed at this peer."""
        member = self.members.get(application)
        if member is not None and self.moves.failed(member, operator, reason):
            return
        self.lost.failed(application, operator, reason)

    def outdated(self, application: str, operator: str, epoch: int) -> None:
        """The driver's report that a later attempt, in which a component has this epoch, reads what it has written.

        It is as if a message of that attempt had come: this one has ended, and this peer is late. If it is one of a
        later start, the application goes on in another cluster, and has no attempt here any more.
        """
        member = self.members.get(application)
        if member is None or member.ended:
            return
        epochs = member.graph.roles.epochs
        if start_of(max(epochs.values(), default=0)) < start_of(epoch):
            self.component_failed(application, operator, "another cluster goes on with it from the durable folder")
            self.participation.leave(application, "another cluster")  # nobody answers what its sinks wait for
            return
        of_this = epoch < min(epochs.values(), default=0) + EPOCHS_OF_ATTEMPT
        if member.plan.operators[operator].replica_of and of_this:
            return  # a lost replica goes on from the folder, as the next graph says; all else here stays
        if epochs.get(operator, 0) < epoch:
            self.participation.leave(application, "a later attempt")

    def stop(self, application: str, reason: str = "") -> bool:
        """End an application of this origin, or discard the results of a finished one; return False if unknown."""
        if application in self._led:
            self._end_application(application, State.STOPPED, reason)
            return True
        known = self.sinks.discard(application)
        member = self.members.get(application)
        if member is not None and member.graph.origin == self.peer.address:
            self.participation.leave(application, "stopped")
            return True
        return known

    @property
    def applications(self) -> frozenset[str]:
        """Applications in which this peer takes part."""
        return frozenset(self.members)

    @property
    def led(self) -> frozenset[str]:
        """Applications of which this peer is the origin."""
        return frozenset(self._led)

    def graph(self, application: str) -> Graph | None:
        """The component graph of an application in which this peer takes part, or which it leads."""
        known = self._led.get(application, self.members.get(application))
        return None if known is None else known.graph

    def led_graph(self, application: str) -> Graph | None:
        """The component graph of an application that this peer leads."""
        request = self._led.get(application)
        return None if request is None else request.graph

    def taking_part(self, graph: Graph) -> set[str]:
        """Peers that have a part in an application that this peer leads, or will have one by what changes now."""
        application = graph.application
        return {*graph.watched, self.moves.target(application), self.rebuilds.target(application)}

    # -- set-up ------------------------------------------------------------------------------------------------------

    def _source_confirmed(self, sender: str, message: Confirmed) -> None:
        request = self._led.get(message.application)
        # a source of an earlier attempt says nothing of this one: its peer may have refused meanwhile
        if request is None or request.running or request.graph.attempt != message.attempt:
            return
        if not request.confirm(message.operator):
            return
        request.begin(self.peer.now)
        graph = request.graph
        plan = Plan.from_bytes(graph.plan)
        for address in sorted({graph.roles.peers[source] for source in plan.sources}):
            self.peer.send(address, Begin(graph.application, graph.attempt))
        self.feedbacks.begin(graph.application)  # the first feedback informs all peers that the application runs
        peers = request.roles.peers
        shared = {tap: list(provider(plan.operators[tap], graph.roles.peers[tap]) or ()) for tap in graph.shared}
        producers = {tap: [producer[:3] for producer in made] for tap, made in graph.shared.items()}
        self.peer.record(events.ApplicationRunning, graph.application, peers=peers, shared=shared, producers=producers)
        if request.epoch or request.restarts:
            lost = lost_rows(request.plan)
            self.peer.record(events.ApplicationRestarted, graph.application, kept=self.config.durable, lost=lost)
        self.peer.instruct(request.report())
        for listener in self.on_setup_ended:
            listener(request, "")
        self.sharers.resume(graph.application)
        self.grants.publish(request)

    def _refused(self, sender: str, message: Refused) -> None:
        request = self._led.get(message.application)
        if request is not None and request.graph.attempt == message.attempt:
            request.refuse(sender, message.owner)
            self._setup_failed(message.application, message.attempt, message.reason)

    def _setup_late(self, application: str, attempt: int) -> None:
        """Give up a set-up that not all peers have confirmed in time."""
        request = self._led.get(application)
        if request is not None and request.graph.attempt == attempt:
            request.time_out()
            self._setup_failed(application, attempt, "no answer from every source in time")

    def _setup_failed(self, application: str, attempt: int, reason: str) -> None:
        request = self._led.get(application)
        if request is None or request.graph.attempt != attempt or request.running:
            return
        self.peer.record(events.SetupFailed, application, attempt=attempt, reason=reason)
        self._end_session(request, reason)
        request.enter(State.DECIDING)
        for listener in self.on_setup_ended:
            listener(request, reason)

    # -- while it runs -----------------------------------------------------------------------------------------------

    def _fail(self, application: str, attempt: int, reason: str) -> None:
        request = self._led.get(application)
        if request is None or request.graph.attempt != attempt:
            return
        if request.running and request.changing is not None:  # its own plan may go on
            self._compose_anew(request, reason)
        elif request.running:
            self._end_application(application, State.FAILED, reason)
        else:
            self._setup_failed(application, attempt, reason)

    def _lose(self, application: str, attempt: int, reason: str) -> None:
        """Restart an application that cannot go on after a death, or fail it, as its plan says."""
        request = self._led.get(application)
        if request is None or request.graph.attempt != attempt:
            return
        if not request.running or not restarts(request.plan, durable=self.config.durable):
            self._fail(application, attempt, reason)
            return
        self._compose_anew(request, reason)

    def _compose_anew(self, request: Request, reason: str) -> None:
        self.interrupt(request, reason)
        for listener in self.on_restart:
            listener(request, reason)

    def interrupt(self, request: Request, reason: str) -> None:
        """End the session of an application that is to be composed anew."""
        self.peer.record(events.RestartBegun, request.name, reason=reason)
        self._end_session(request, reason)
        request.restart(self.peer.now)
        self.peer.instruct(request.report())

    # -- end ---------------------------------------------------------------------------------------------------------

    def _said_ended(self, application: str, sender: str) -> None:
        """A member says that the successor has ended an application: ask that one, unless it is dead or says so."""
        graph = self._led[application].graph
        if sender == graph.successor or self.membership.is_dead(graph.successor):
            self._ended_elsewhere(application)
        else:
            self.peer.send(graph.successor, GraphAsked(application, graph.attempt))

    def _ended_elsewhere(self, application: str) -> None:
        """Give up the lead of an application that its successor has ended while this peer was late or cut off."""
        request = self._led[application]
        graph = request.graph
        self.succession.superseded(request, graph.successor, TERM)
        if application in self.members:
            self.participation.leave(application, "it has ended", retain_sinks=self.peer.address in sink_peers(graph))
        else:
            self.participation.ended.raise_to(application, Ended(graph.attempt, math.inf))

    def _end_application(self, application: str, state: State, reason: str = "") -> None:
        request = self._led[application]
        request.enter(state, reason)
        self.peer.record(events.ENDINGS[request.status], application, reason=reason)
        self._end_session(request, reason or request.status, request.status.value)
        self.grants.publish(request)
        self.peer.instruct(request.report())
        for listener in self.on_ended:
            listener(request)

    def _end_leading(self, request: Request, reason: str) -> None:
        """Stop leading an application: end its changes, and watch its peers no more."""
        application = request.name
        request.end_set_up()
        del self._led[application]
        self.agreements.close(application)
        self.takeovers.end(application)
        self.moves.end(application, reason)
        self.rebuilds.end(application, reason)
        self.holds.end(application, reason)
        for address in request.graph.watched:
            self.membership.unwatch(address)

    def _end_session(self, request: Request, reason: str, status: str = "") -> None:
        graph = request.graph
        application = graph.application
        self._end_leading(request, "the application has ended")
        retaining = sink_peers(graph) if status in RETAINING else set()
        # peers with results are told with the status, so that they keep them; all others leave with End
        if retaining - {self.peer.address}:
            self.sinks.retain(graph, status, reason)
        for address in graph.addresses:
            if address != self.peer.address and address not in retaining:
                self.peer.send(address, End(application, graph.attempt, reason, status))
        if application in self.members:
            self.participation.leave(application, reason, status, retain_sinks=self.peer.address in retaining)
        else:
            self.participation.ended.raise_to(application, Ended(graph.attempt, math.inf, status, reason))
        self.sharers.ended(graph)

    def _end(self, sender: str, message: End) -> None:
        application, attempt = message.application, message.attempt
        self.sharers.sharer_ended(application, attempt, sender)
        member, request = self.members.get(application), self._led.get(application)
        led = request.graph if request is not None and request.running else None
        if led is not None and message.status != State.STOPPED and (sender, attempt) == (led.successor, led.attempt):
            self._ended_elsewhere(application)  # what a member has said of it is true
        elif member is None:
            over = Ended(attempt, math.inf, message.status, message.reason, sender)
            self.participation.ended.raise_to(application, over)
            self.ledger.expire(application)
            self.succession.forget(application)
        elif member.graph.attempt <= attempt and sender == member.leader:
            retain = message.status in RETAINING and self.peer.address in sink_peers(member.graph)
            if not (retain and member.ended):
                self.participation.leave(application, message.reason, message.status, retain_sinks=retain)
        elif member.graph.attempt == attempt and member.ended and not message.status:
            self.participation.leave(
                application, message.reason
            )  # an earlier origin has ended it, too, and has its results discarded
        elif member.graph.attempt == attempt and request is not None and message.status == State.STOPPED:
            self._end_application(application, State.STOPPED)  # at the peer that has led it, and does not know more
        else:
            self.succession.told(sender, message)
            self.participation.record_outdated(application, "End", sender, f"{member.leader} leads the application")
