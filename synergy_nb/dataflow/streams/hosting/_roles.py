"""The roles of a peer for components, and how one component replaces another. No IO, no clock.

Theory of operation
-------------------
When a peer receives a deployment in which a component has a later epoch, it reads from the component's new peer. It
refuses frames of earlier epochs, apart from those on their way after a move.

A *backup* holds a copy. A *follower* is a backup that executes: it restores the first snapshot that arrives and reads
the inputs from there on, in the order in which the active component reads them, which each chunk carries. It is ready
once it has executed all that has arrived, or has emitted more than the active component: then a move delays no tuple,
even if the active component has a long queue. A follower that never gets there counts as ready after a second.
Followers are executed when no active component of the peer has anything to do. Where a component reads its inputs in
the order of event times, its backups are followers all the time; they need no record of that order.

A copy that becomes active resumes from what it has: a backup restores its snapshot and reads the inputs after it again;
a follower has already reached the point of the component that it replaces. An active replica that is rebuilt begins
from a copy of another replica, whose output so far becomes its own; from there on it decides for itself, in a stream of
its own. It counts as ready when all of its producers have its subscriptions, so that they retain what it has yet to
read; until then the other replica is not durable beyond the copy. Nobody follows what another engine executes:
its copies know the progress of the engine, and the one that becomes active has the engine resume from there. Where
there are several inputs, a follower first hears their order from the component that it replaces, and a backup asks
every peer that may depend on it, see :mod:`~synergy_nb.dataflow.streams.hosting._order_recovery`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting._copies import Copy, has_caught_up
from synergy_nb.dataflow.streams.hosting._exchange import ACK_S
from synergy_nb.dataflow.streams.hosting._expected_readers import expect_readers
from synergy_nb.dataflow.streams.hosting._order_recovery import LAST_ORDER_S, Recovery, arrived, still_repeats
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind, Restore
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Determinants,
    LastOrder,
    PieceReply,
    Recall,
    Subscribe,
)
from synergy_nb.dataflow.streams.log.merge import RETRY_S
from synergy_nb.dataflow.streams.log.values import (
    COPY,
    ORIGIN,
    ComponentStream,
    Determinant,
    OnLag,
    Output,
    Reader,
    SnapshotCut,
)

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting.hosting import Hosting

Key = tuple[str, str]
LEFT: Final = "it has had no snapshot since the component left it"
CATCH_UP_S: Final = 1.0  # seconds after which a follower counts as ready although it has not caught up
OUTRUN_S: Final = 4.0  # seconds after that until it starts again if its producers retain too little for it


class PeerRoles:
    """The roles of one peer: creates, replaces and removes its components and copies.

    Parameters
    ----------
    hosting
        Components of the peer.

    Attributes
    ----------
    copies : dict
        Application and operator to the copy of its component on this peer.
    recoveries : dict
        Application and operator to the recovery whose answers its component waits for.
    """

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self.copies: dict[Key, Copy] = {}
        self.recoveries: dict[Key, Recovery] = {}
        self._followed: set[Key] = set()  # components that were followers, or copies of sources, before the deployment
        self._subscribing: set[Key] = set()  # rebuilt replicas that are not subscribed to all of their inputs yet
        self._failed: dict[Key, tuple[int, Role]] = {}  # components that could not be created, which was reported
        self._unanswered: dict[ComponentStream, tuple[str, Recall]] = {}  # questions that cannot be answered yet

    # -- deployments ---------------------------------------------------------------------------------------------

    def converge(self, deployment: Deployment, now: float, replaced: Collection[str] = ()) -> None:
        """Carry out a deployment on this peer, in which these components have been replaced.

        What has no role here any more leaves before anything takes its place. Components learn of their producers and
        readers when all of them are here, since they may read each other. Questions are answered last: an answer
        promises that nothing here depends any more on what was replaced.
        """
        hosting, application = self._hosting, deployment.application
        sources = {each.state_from for each in deployment.assignments.values() if each.active == hosting.peer} - {""}
        self._leave(deployment, sources)
        for operator, assignment in deployment.assignments.items():
            role = deployment.role(operator, hosting.peer)
            if role is Role.ACTIVE:
                self._activate((application, operator), assignment)
            elif role is not None and operator not in sources:
                self._update_copy((application, operator), assignment, role, now)
            hosting.exchange.change_inputs((application, operator), assignment)
        for operator in deployment.assignments:
            hosting.touch(application, operator)
        for key, recovery in self.recoveries.items():
            if key[0] == application:
                recovery.begin(deployment, now)
        for component in tuple(hosting.components.values()):
            if component.application == application:
                hosting.exchange.readdress(component, now, replaced)
                self._serve(component, deployment, now)
            elif any(feed.application == application for feed in component.feeds.values()):
                hosting.exchange.readdress(component, now)
        self._followed.clear()
        if hosting.peer not in deployment.peers and not self._uses(application):
            hosting.orders.forget(application)  # it is not asked any more, so its determinants may become wrong
        if not deployment.assignments:
            self._unanswered = {
                stream: question for stream, question in self._unanswered.items() if stream.application != application
            }
        for sender, question in tuple(self._unanswered.values()):
            self.recall(sender, question)

    def _leave(self, deployment: Deployment, sources: Collection[str]) -> None:
        """Remove the components and copies that have no role here any more, except copies that others start from."""
        hosting, application = self._hosting, deployment.application
        for key in [key for key in self._failed if key[0] == application and key[1] not in deployment.assignments]:
            del self._failed[key]
        for key in [key for key in {**hosting.components, **self.copies} if key[0] == application]:
            if not self._stays(key, deployment) and (key[1] not in sources or key in hosting.components):
                if key[1] not in deployment.assignments and key in hosting.components:
                    hosting.exchange.notify_sharers(hosting.components[key], "has ended")
                self._tell_order(key, deployment)
                if key in hosting.components and deployment.role(key[1], hosting.peer) is Role.BACKUP:
                    self._back_up(key, deployment.assignments[key[1]])
                else:
                    self._drop(key)

    def _serve(self, component: Component, deployment: Deployment, now: float) -> None:
        """Set for whom a component of the application works: sharers, and if it is active its readers and copies."""
        hosting, operator = self._hosting, component.operator
        component.set_sharers_limit(deployment.limits.get(operator, math.inf))
        if component.role is not Role.ACTIVE:
            return
        expect_readers(component, deployment, hosting.limits.results)
        if (component.application, operator) in self._followed:
            component.log.send_unasked()
        assignment = deployment.assignments[operator]
        hosting.snapshots.keep(component, now, keeps=assignment.keeps)
        hosting.snapshots.greet(component, assignment.follower, now)
        if component.logic is None and deployment.running:
            hosting.open(component)
        hosting.exchange.flush(component, now)

    def _stays(self, key: Key, deployment: Deployment) -> bool:
        """Whether the component or copy here retains some role."""
        role = deployment.role(key[1], self._hosting.peer)
        component = self._hosting.components.get(key)
        if role is None or component is None or component.role is Role.FOLLOWER:
            return role is not None
        return role is Role.ACTIVE and component.epoch == deployment.assignments[key[1]].epoch

    def _drop(self, key: Key) -> None:
        hosting = self._hosting
        component = hosting.remove(*key)
        hosting.touch(*key)
        self.copies.pop(key, None)
        self.recoveries.pop(key, None)
        self._subscribing.discard(key)
        hosting.close(*key)
        if component is not None:
            component.remove()
            hosting.exchange.leave(component)

    def _back_up(self, key: Key, assignment: Assignment) -> None:
        """Make the backup of a component that leaves this peer, from the snapshot and the output that are here."""
        hosting, component = self._hosting, self._hosting.components[key]
        kept = hosting.snapshots.kept(component)
        ends = component.role is Role.ACTIVE and not component.failed and assignment.epoch == component.epoch + 1
        self._drop(key)
        if not ends or still_repeats(component) or (kept is None and component.feeds):
            hosting.effect(Fact(FactKind.COPIES_BEHIND, *key, LEFT, (hosting.peer,)))
            return
        copy = self.copies[key] = Copy(component.output, hosting.limits)
        component.log.retain_all(retains=True)
        copy.resume(component.log)
        if kept is not None:
            copy.keep(*kept)
        hosting.orders.add(component.reading.made)

    def _tell_order(self, key: Key, deployment: Deployment) -> None:
        """Tell the peer to which a component has moved from here in which order it has read its inputs.

        Not while the component here repeats what one before it had emitted: others depend on more than it has read.
        """
        hosting, assignment = self._hosting, deployment.assignments.get(key[1])
        component = hosting.components.get(key)
        if component is None or assignment is None or assignment.epoch != component.epoch + 1 or component.failed:
            return
        decides = component.ordered or component.alignment.holds
        if component.role is Role.ACTIVE and decides and not still_repeats(component):
            order = LastOrder(component.output, assignment.active, component.log.end, tuple(component.reading.made))
            readers = {cursor.reader.peer for cursor in component.log.cursors.values()}
            for peer in sorted({assignment.active, *readers} - {hosting.peer}):
                hosting.send(peer, order)

    def _activate(self, key: Key, assignment: Assignment) -> None:
        hosting = self._hosting
        component = hosting.components.get(key)
        if component is not None and component.role is Role.ACTIVE:
            component.set_copy_holders(assignment)
            return
        copy = self.copies.pop(key, None)
        rebuilt = component is None and copy is None and bool(assignment.state_from)
        if component is None:
            copy = self.copies.pop((key[0], assignment.state_from), None) if rebuilt else copy
            component = self._made(key, assignment, Role.ACTIVE, copy)
        if component is None:
            return
        followed = component.role is Role.FOLLOWER
        if followed or (assignment.epoch and not assignment.inputs):  # a source has no follower that executes
            self._followed.add(key)
        component.activate(assignment.epoch)
        component.set_copy_holders(assignment)
        hosting.exchange.resubscribe(component)  # what it sent as a follower may be lost or late
        if rebuilt:
            self._subscribing.add(key)
        elif assignment.epoch and component.ordered and not component.reading.complete:
            component.reading.wait()
            self.recoveries[key] = Recovery(component, LAST_ORDER_S if followed else 0.0)
        elif assignment.epoch:
            component.reading.decide()
            if component.alignment.endless:
                self.recoveries[key] = Recovery(component, LAST_ORDER_S)
            hosting.effect(Fact(FactKind.TAKEN_OVER, *key))

    def _made(self, key: Key, assignment: Assignment, role: Role, copy: Copy | None) -> Component | None:
        """Create a component, from a copy if there is one; if that fails, report it once and return None."""
        hosting = self._hosting
        if self._failed.get(key) == (assignment.epoch, role):
            return None
        share = hosting.memory.share(*key)
        component = Component(
            *key, hosting.peer, assignment, role, None, hosting.limits, share=share, speed=hosting.speed()
        )
        state = copy.state if copy is not None else None
        try:
            if assignment.state_from and state is None and role is Role.ACTIVE:
                raise ValueError(f"{assignment.state_from}, from whose state it starts, has no copy on this peer")
            component.set_logic(hosting.create(hosting.deployments[key[0]], component))
            if copy is not None and copy.merge.joined and (state is not None or component.logic is None):
                component.adopt_log(copy.take_log(hosting.limits))
            if copy is not None and state is not None and component.logic is not None:
                pieces = copy.pieces
                tables = {part.table: tuple(pieces[number] for number in part.pieces) for part in state.parts}
                hosting.effect(Restore(component, state.head, tables))
                counts = {"consumed": state.consumed, "dropped": state.dropped}
                component.restore(SnapshotCut(state.inputs, state.end, state.order, state.causes, **counts))
        except ValueError as error:
            share.release()
            self._failed[key] = assignment.epoch, role
            hosting.effect(Fact(FactKind.COMPONENT_FAILED, *key, str(error)))
            return None
        hosting.add(component)
        return component

    # -- copies --------------------------------------------------------------------------------------------------

    def _update_copy(self, key: Key, assignment: Assignment, role: Role, now: float) -> None:
        output = Output(*key, assignment.epoch, assignment.rebuilt)
        copy, move = self.copies.get(key), assignment.move if role is Role.FOLLOWER else 0
        if copy is not None and copy.move and move not in (0, copy.move):
            self._drop(key)  # it has not been a follower all the time, but this peer has not heard of that
            copy = None
        if copy is None:
            copy = self.copies[key] = Copy(output, self._hosting.limits)
            copy.ask_again(now)
        elif copy.output.epoch < assignment.epoch:
            if key in self._hosting.components:  # it followed a component that was replaced
                self._unfollow(key)
            copy.follow(output, now)
        copy.set_move(move)
        if self._hosting.peer not in assignment.followers and key in self._hosting.components:
            self._unfollow(key)
        self._catch_up(key, now)

    def copied(self, data: Data, now: float) -> None:
        """Receive chunks for a copy."""
        key = data.output.application, data.output.operator
        self._hosting.touch(*key)
        copy = self.copies.get(key)
        if copy is None or data.output.epoch != copy.output.epoch:
            return
        follower = self._hosting.components.get(key)
        if follower is not None and copy.log_restarted(data) and not follower.reading.free:
            self._unfollow(key)  # the order of its inputs was in chunks that are not retained any more
            follower = None
        chunks, gap = copy.receive(data, now)
        for chunk in chunks:
            self._hosting.orders.add(chunk.determinants)
        if follower is None:
            copy.append(chunks, data.trimmed)
        else:
            follower.log.trim(data.trimmed)
            own = [each for chunk in chunks for each in chunk.determinants if each.stream == data.output.stream]
            if follower.reading.prescribe(own):
                self._unfollow(key)
        if gap:
            copy.ask_again(min(copy.retry_at, now + RETRY_S))
        copy.acknowledge_at(now + ACK_S, earlier=True)
        self._catch_up(key, now)
        assignment = self._hosting.assignment(*key)
        if assignment is not None and self._hosting.peer in assignment.synchronized:  # readers wait for it
            self._acknowledge(key, copy, assignment)

    def snapshot(self, state: ComponentState, now: float) -> None:
        """Receive the announcement of a snapshot for a copy."""
        key = state.output.application, state.output.operator
        self._hosting.touch(*key)
        copy = self.copies.get(key)
        if copy is None or state.output.epoch != copy.output.epoch:
            return
        follower = self._hosting.components.get(key)
        copy.snapshot(state, follower)
        if follower is not None and now >= copy.ready_by + OUTRUN_S and copy.outruns(follower):
            self._unfollow(key)
        copy.acknowledge_at(now)
        self.request_pieces(key, now)
        self._hosting.orders.add(state.causes)
        self._catch_up(key, now)

    def receive_piece(self, reply: PieceReply, now: float) -> None:
        """Receive a piece of a snapshot for a copy."""
        key = reply.output.application, reply.output.operator
        self._hosting.touch(*key)
        copy = self.copies.get(key)
        if copy is None or reply.output.epoch != copy.output.epoch:
            return
        if copy.receive_piece(reply.piece, self._hosting.components.get(key), now):
            copy.acknowledge_at(now)
            self._catch_up(key, now)
        else:
            self.request_pieces(key, now)

    def request_pieces(self, key: Key, now: float) -> None:
        """Request pieces of a snapshot that a copy lacks."""
        assignment = self._hosting.assignment(*key)
        request = self.copies[key].missing_request(self._hosting.peer, now)
        if assignment is not None and request is not None:
            self._hosting.send(assignment.active, request)

    def _catch_up(self, key: Key, now: float) -> None:
        """Report a copy that is ready to take over, and start a follower where one is deployed."""
        hosting, copy, assignment = self._hosting, self.copies[key], self._hosting.assignment(*key)
        if assignment is None or copy.state is None or copy.state.number < copy.least:
            return
        if key in hosting.components:
            self.report_ready(key, now)
            return
        if hosting.peer in assignment.followers and assignment.inputs and not assignment.external:
            follower = self._made(key, assignment, Role.FOLLOWER, copy)
            if follower is not None:
                if follower.ordered:
                    follower.reading.wait()
                follower.reading.prescribe(hosting.orders.of(follower.output.stream))
                hosting.exchange.readdress(follower, now)
                copy.follows(now + CATCH_UP_S)
        self.report_ready(key, now)

    def report_ready(self, key: Key, now: float) -> None:
        """Report a copy once it is ready to take over: a backup with a snapshot, a follower that has caught up.

        A rebuilt replica is reported once it is subscribed to all of its inputs.
        """
        copy, follower = self.copies.get(key), self._hosting.components.get(key)
        if key in self._subscribing and follower is not None and not follower.failed:
            if all(port.subscribed or port.closed for port in follower.ports.values()):
                self._subscribing.remove(key)
                self._hosting.effect(Fact(FactKind.COPY_READY, *key))
            return
        if copy is None or copy.ready or copy.state is None or not copy.usable:
            return
        if follower is None or follower.drops or now >= copy.ready_by:
            caught_up = True
        else:
            caught_up = has_caught_up(follower, copy.state.end, copy.merge.received)
        if caught_up:
            copy.becomes_ready()
            self._hosting.effect(Fact(FactKind.COPY_READY, *key))

    def _unfollow(self, key: Key) -> None:
        """Make a follower a backup again, as it is no longer wanted or has lost the order; it may restart."""
        follower = self._hosting.components[key]
        self._hosting.remove(*key)
        follower.share.release()
        self._hosting.exchange.leave(follower)
        self.copies[key].resume(follower.log)

    # -- time ----------------------------------------------------------------------------------------------------

    def due(self, key: Key) -> float:
        """Return the time in seconds at which :meth:`tick` has work for the copy or the recovery of a component."""
        copy, recovery = self.copies.get(key), self.recoveries.get(key)
        return min(math.inf if copy is None else copy.due, math.inf if recovery is None else recovery.retry_at)

    def tick(self, key: Key, now: float) -> None:
        """Subscribe, acknowledge and ask again for a copy or a recovery, where that is due."""
        copy = self.copies.get(key)
        if copy is not None:
            self._tick_copy(key, copy, now)
        recovery = self.recoveries.get(key)
        if recovery is not None and recovery.retry_at <= now:
            question, peers = recovery.recall(now)
            for peer in peers:
                self._hosting.send(peer, question)

    def _tick_copy(self, key: Key, copy: Copy, now: float) -> None:
        assignment = self._hosting.assignment(*key)
        if assignment is None:
            return
        reader = Reader(*key, COPY, self._hosting.peer)
        if not copy.merge.subscribed and copy.retry_at <= now:
            copy.asked(now)
            self._hosting.send(
                assignment.active,
                Subscribe(copy.output, reader, copy.merge.since, OnLag.RESYNC, self._hosting.machine()),
            )
        if copy.next_request_time is not None and copy.next_request_time <= now:
            self.request_pieces(key, now)
        if copy.ack_at is not None and copy.ack_at <= now:
            self._acknowledge(key, copy, assignment)

    def _acknowledge(self, key: Key, copy: Copy, assignment: Assignment) -> None:
        """Acknowledge the output and the snapshot that a copy has."""
        copy.acknowledged()
        received, number = copy.merge.received, copy.number(self._hosting.components.get(key))
        reader = Reader(*key, COPY, self._hosting.peer)
        self._hosting.send(assignment.active, Ack(copy.output, reader, received, received, received, number))

    def link_down(self, peer: str, now: float) -> None:
        """Subscribe copies again: frames on their way from a peer may be lost."""
        for key, copy in self.copies.items():
            self._hosting.touch(*key)
            assignment = self._hosting.assignment(*key)
            if assignment is not None and assignment.active == peer:
                copy.ask_again(now + RETRY_S)

    # -- take-over -----------------------------------------------------------------------------------------------

    def recall(self, sender: str, recall: Recall) -> None:
        """Answer a component that takes over with all known determinants of its stream.

        If the deployment is not known here yet, the answer is sent as soon as it is.
        """
        stream, deployments = recall.output.stream, self._hosting.deployments
        known, using = deployments.get(stream.application), self._uses(stream.application)
        left = known is None or (known.version < recall.version and self._hosting.peer not in known.peers)
        if left and (using or recall.requires):  # this peer only shares a stream of it, and may hear no more of it
            known = Deployment(stream.application, recall.version)
        if known is None:
            return  # the question is repeated
        self._unanswered[stream] = sender, recall
        if known.version < recall.version:
            return
        if any(each.get(operator, epoch) < epoch for each in using for operator, epoch in recall.epochs.items()):
            return  # its shared input may still come from a replaced component
        for name, version in (*known.requires.items(), *recall.requires.items()):
            other = deployments.get(name)
            if other is not None and other.version < version:
                return
        del self._unanswered[stream]
        self._hosting.exchange.refuse_older(stream)
        found = self._hosting.orders.of(stream)
        copy = self.copies.get((recall.output.application, recall.output.operator))
        if copy is not None and copy.state is not None:
            start = copy.state.end
            found = (*found, Determinant(stream, start, start, copy.state.order, ORIGIN))
        end = arrived(self._hosting.components.values(), copy, stream)
        self._hosting.send(sender, Determinants(stream, known.version, found, recall.question, end))

    def _uses(self, application: str) -> list[dict[str, int]]:
        """Return the deployed applications that use components of an application: operator to epoch for each."""
        deployments = self._hosting.deployments.values()
        return [known.producer_epochs[application] for known in deployments if application in known.producer_epochs]

    def forget(self, deployment: Deployment) -> None:
        """Forget an application that ended here, and the determinants of the streams that it shared."""
        hosting = self._hosting
        for application in deployment.producer_epochs:
            known = hosting.deployments.get(application)
            if (known is None or hosting.peer not in known.peers) and not self._uses(application):
                hosting.orders.forget(application)

    def last_order(self, told: LastOrder) -> None:
        """Receive the whole order of the component that one of this peer replaces, or pass it on."""
        key = told.output.application, told.output.operator
        if told.to != self._hosting.peer:
            self._hosting.send(told.to, told)
            return
        component = self._hosting.components.get(key)
        if component is None or (component.epoch - 1, component.rebuilt) != (told.output.epoch, told.output.rebuilt):
            return
        if component.alignment.endless:
            component.alignment.repeat(told.end)
            self.recoveries.pop(key, None)
            return
        if component.role is Role.ACTIVE and key not in self.recoveries:
            return
        self._hosting.touch(*key)
        if component.reading.prescribe(told.found) or component.reading.known < told.end:
            return  # something of it has not arrived here; all peers are asked
        component.reading.complete_order()
        if self.recoveries.pop(key, None) is not None:
            self._hosting.effect(Fact(FactKind.TAKEN_OVER, *key))

    def determinants(self, sender: str, answer: Determinants) -> None:
        """Receive an answer about the order of inputs."""
        key = answer.stream.application, answer.stream.operator
        self._hosting.touch(*key)
        recovery = self.recoveries.get(key)
        if recovery is None or not recovery.answer(sender, answer):
            return
        del self.recoveries[key]
        component = recovery.component
        if component.reading.free:  # it did not need the order
            component.alignment.repeat(recovery.end)
            return
        reason = component.reading.prescribe(recovery.found)
        if reason:
            self._hosting.fail(component, reason)
        component.reading.decide()
        self._hosting.effect(Fact(FactKind.TAKEN_OVER, *key))
