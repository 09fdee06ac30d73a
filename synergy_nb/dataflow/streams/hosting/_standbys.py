"""The copies of a peer, and its followers: how they stay up to date, and when they could take over. No IO, no clock.

Theory of operation
-------------------
A *backup* holds a copy. A *follower* is a backup that executes: it restores the first snapshot that arrives and reads
the inputs from there on, in the order in which the active component reads them, which each chunk carries. It is ready
once it has executed all that has arrived, or has emitted more than the active component: then a move delays no tuple,
even if the active component has a long queue. A follower that never gets there counts as ready after a second: the move
has to end, and a queue that the follower shares with the active component delays nobody more after it than before.
Followers are executed when no active component of the peer has anything to do. Where a component reads its inputs in
the order of event times, its backups are followers all the time; they need no record of that order.

A follower becomes a backup again (*stops following*) where it could go on only by guessing: its copy restarted after a
gap that held orders of inputs, an order does not fit what it has read, or its producers retain too little for it. It
starts anew from a later snapshot, so its log becomes that of the copy again, of which nothing is lost
(``test_silent_copies``, ``test_moving_campaign``).

What arrives is handled in one order: the chunks first, then the orders that they carry, then whether the copy is ready.
A copy that reported itself ready before it had the orders could take over without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from synergy_nb.dataflow.deployments import Assignment, Role
from synergy_nb.dataflow.streams.hosting._exchange import ACK_S
from synergy_nb.dataflow.streams.hosting.copies import Copy, Readiness, has_caught_up
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, PieceReply, Subscribe
from synergy_nb.dataflow.streams.log.merge import ASKING, RETRY_S
from synergy_nb.dataflow.streams.log.values import COPY, OnLag, Output, Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from synergy_nb.dataflow.streams.hosting._creation import Creation
    from synergy_nb.dataflow.streams.hosting._exchange import Exchange
    from synergy_nb.dataflow.streams.hosting._held_roles import HeldRole, HeldRoles
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
    from synergy_nb.dataflow.streams.hosting._known_orders import Orders
    from synergy_nb.dataflow.streams.hosting._outbox import Key, Outbox
    from synergy_nb.dataflow.streams.log.log import Limits

CATCH_UP_S: Final = 1.0  # seconds after which a follower counts as ready although it has not caught up
OUTRUN_S: Final = 4.0  # seconds after that until it starts again if its producers retain too little for it


class Standbys:
    """The copies and followers of one peer."""

    def __init__(
        self,
        peer: str,  # address of the peer
        # outbox, known, hosted, held: effects of the peer, deployments that it knows, its components and its roles
        outbox: Outbox,
        known: KnownDeployments,
        hosted: HostedComponents,
        held: HeldRoles,
        # exchange, orders, creation: subscriptions of the peer, the orders of inputs that it knows, and the creation of
        # components
        exchange: Exchange,
        orders: Orders,
        creation: Creation,
        limits: Limits,  # limits of each log, bytes
        machine: Callable[[], str],  # function that returns the machine whose memory the peer can read
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._known = known
        self._hosted = hosted
        self._held = held
        self._exchange = exchange
        self._orders = orders
        self._creation = creation
        self._limits = limits
        self._machine = machine

    # -- deployments ---------------------------------------------------------------------------------------------

    def update(self, key: Key, assignment: Assignment, role: Role, now: float) -> None:
        """Hold a copy of a component as a deployment says, and follow the component or no longer."""
        held, output = self._held.of(key), Output(*key, assignment.epoch, assignment.rebuilt)
        copy = held.copy
        if copy is None:
            copy = Copy(output, self._limits)
            held.back_up(copy)
            copy.ask_again(now)
        elif copy.output.epoch < assignment.epoch:
            if key in self._hosted.found:  # it followed a component that was replaced
                self._stop_following(key, held, copy)
            copy.follow(output, now)
        copy.set_move(assignment.move if role is Role.FOLLOWER else 0)
        if self._peer not in assignment.followers and key in self._hosted.found:
            self._stop_following(key, held, copy)
        self._catch_up(key, held, copy, now)

    def belongs_to_another_move(self, key: Key, assignment: Assignment, role: Role) -> bool:
        """Whether the copy here follows for an earlier move, of whose end this peer has not heard."""
        copy, move = self._held.copy(key), assignment.move if role is Role.FOLLOWER else 0
        return copy is not None and bool(copy.move) and move not in (0, copy.move)

    def _stop_following(self, key: Key, held: HeldRole, copy: Copy) -> None:
        """Make a follower a backup again, as it is no longer wanted or has lost the order; it may restart."""
        follower = self._hosted.found[key]
        self._hosted.remove(key)
        follower.share.release()
        self._exchange.leave(follower)
        copy.resume(follower.log)
        held.stop_following()

    # -- frames --------------------------------------------------------------------------------------------------

    def copied(self, data: Data, now: float) -> None:
        """Receive chunks for a copy."""
        key = data.output.application, data.output.operator
        found = self._found(key, data.output)
        if found is None:
            return
        held, copy = found
        follower = self._hosted.found.get(key)
        if follower is not None and copy.log_restarted(data) and not follower.reading.free:
            self._stop_following(key, held, copy)  # the order was in chunks that are not retained any more
            follower = None
        chunks, gap = copy.receive(data, now)
        for chunk in chunks:
            self._orders.add(chunk.determinants)
        if follower is None:
            copy.append(chunks, data.trimmed)
        else:
            follower.log.trim(data.trimmed)
            own = [each for chunk in chunks for each in chunk.determinants if each.stream == data.output.stream]
            if follower.reading.prescribe(own):
                self._stop_following(key, held, copy)
        if gap:
            copy.ask_again(min(copy.retry_at, now + RETRY_S))
        copy.acknowledge_at(now + ACK_S, earlier=True)
        self._catch_up(key, held, copy, now)
        assignment = self._known.assignment(*key)
        if assignment is not None and self._peer in assignment.synchronized:  # readers wait for it
            self._acknowledge(key, copy, assignment)

    def snapshot(self, state: ComponentState, now: float) -> None:
        """Receive the announcement of a snapshot for a copy."""
        key = state.output.application, state.output.operator
        found = self._found(key, state.output)
        if found is None:
            return
        held, copy = found
        follower = self._hosted.found.get(key)
        copy.snapshot(state, follower)
        if follower is not None and now >= copy.ready_by + OUTRUN_S and copy.outruns(follower):
            self._stop_following(key, held, copy)
        copy.acknowledge_at(now)
        self._request_pieces(key, copy, now)
        self._orders.add(state.causes)
        self._catch_up(key, held, copy, now)

    def receive_piece(self, reply: PieceReply, now: float) -> None:
        """Receive a piece of a snapshot for a copy."""
        key = reply.output.application, reply.output.operator
        found = self._found(key, reply.output)
        if found is None:
            return
        held, copy = found
        if copy.receive_piece(reply.piece, self._hosted.found.get(key), now):
            copy.acknowledge_at(now)
            self._catch_up(key, held, copy, now)
        else:
            self._request_pieces(key, copy, now)

    def _found(self, key: Key, output: Output) -> tuple[HeldRole, Copy] | None:
        """Return the role and the copy that a frame is for; None if there is none of this epoch."""
        self._outbox.touch(*key)
        held = self._held.found.get(key)
        if held is None or held.copy is None or output.epoch != held.copy.output.epoch:
            return None
        return held, held.copy

    def _request_pieces(self, key: Key, copy: Copy, now: float) -> None:
        """Request pieces of a snapshot that a copy lacks."""
        assignment = self._known.assignment(*key)
        request = copy.missing_request(self._peer, now)
        if assignment is not None and request is not None:
            self._outbox.send(assignment.active, request)

    # -- when it could take over ---------------------------------------------------------------------------------

    def _catch_up(self, key: Key, held: HeldRole, copy: Copy, now: float) -> None:
        """Report a copy that is ready to take over, and start a follower where one is deployed."""
        assignment = self._known.assignment(*key)
        if assignment is None or copy.state is None or copy.state.number < copy.least:
            return
        wanted = self._peer in assignment.followers and assignment.inputs and not assignment.external
        if wanted and key not in self._hosted.found:
            follower = self._creation.make(key, assignment, Role.FOLLOWER, copy)
            if follower is not None:
                held.follow()
                if follower.ordered:
                    follower.reading.wait()
                follower.reading.prescribe(self._orders.of(follower.output.stream))
                self._exchange.readdress(follower, now)
                copy.follows(now + CATCH_UP_S)
        self.report_ready(key, copy, now)

    def report_ready(self, key: Key, copy: Copy, now: float) -> None:
        """Report a copy once it is ready to take over: a backup with a snapshot, a follower that has caught up."""
        if copy.state is None or copy.readiness is not Readiness.CURRENT:
            return
        follower = self._hosted.found.get(key)
        if follower is None or follower.terms.drops or now >= copy.ready_by:
            caught_up = True
        else:
            caught_up = has_caught_up(follower, copy.state.end, copy.merge.received)
        if caught_up:
            copy.becomes_ready()
            self._outbox.effect(Fact(FactKind.COPY_READY, *key))

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, key: Key, copy: Copy, now: float) -> None:
        """Subscribe, request pieces and acknowledge for a copy, where that is due."""
        assignment = self._known.assignment(*key)
        if assignment is None:
            return
        if copy.merge.state is ASKING and copy.retry_at <= now:
            copy.asked(now)
            reader = Reader(*key, COPY, self._peer)
            request = Subscribe(copy.output, reader, copy.merge.since, OnLag.RESYNC, self._machine())
            self._outbox.send(assignment.active, request)
        if copy.next_request_time is not None and copy.next_request_time <= now:
            self._request_pieces(key, copy, now)
        if copy.ack_at is not None and copy.ack_at <= now:
            self._acknowledge(key, copy, assignment)

    def _acknowledge(self, key: Key, copy: Copy, assignment: Assignment) -> None:
        """Acknowledge the output and the snapshot that a copy has."""
        copy.acknowledged()
        received, number = copy.merge.received, copy.number(self._hosted.found.get(key))
        reader = Reader(*key, COPY, self._peer)
        self._outbox.send(assignment.active, Ack(copy.output, reader, received, received, received, number))

    def link_down(self, peer: str, now: float) -> None:
        """Subscribe copies again: frames on their way from a peer may be lost."""
        for key, copy in self._held.copies.items():
            self._outbox.touch(*key)
            assignment = self._known.assignment(*key)
            if assignment is not None and assignment.active == peer:
                copy.ask_again(now + RETRY_S)
