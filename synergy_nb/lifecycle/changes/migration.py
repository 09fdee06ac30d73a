"""Migration: a component moves to another peer while its application runs.

Theory of operation
-------------------
A move is a take-over without a death. O is the origin, S the old peer, T the new one, U a peer upstream.

1. O sends :class:`Follow`, with a graph in which the component has a *follower*, to S and T. T joins the session,
   commits the resources of the component, and has its driver start a follower. S agrees, sends T a snapshot and the
   output at once, and has each U send T what comes after it; T subscribes to all of them, too. Both answer
   :class:`Followed`.
2. O publishes this graph to all members. The follower restores the snapshot, subscribes at each U to the tuples after
   it, executes what the component executes, and sends nothing.
3. When its driver reports that the follower has caught up, T answers :class:`Followed` with ``ready``: it has received
   all that each U had emitted when that answered its subscription, and executed it. O then publishes a graph, one epoch
   later, in which T executes the component, and S releases its resources. If T is ready before S and T have both
   agreed, the publication of step 2 is left out.

If S has a component migrate, it asks T at the same time as O. Then Follow has the number of that question, and T waits
with step 1 until it has answered S (:mod:`~synergy_nb.lifecycle.changes.approvals`). If it has refused, it refuses
Follow, too, and O journals no move. If O is another peer, S and T do not wait for Follow: T follows once it has
accepted, and says when it is ready, and S agrees when it asks (:mod:`~synergy_nb.lifecycle.changes._early_followers`).
If T has a backup, S gets it in exchange. It keeps a snapshot for that, and O completes the move when S has one, too.

The origin sends unanswered messages again every second. If a peer refuses, does not answer, or the follower has not
caught up in time, the origin gives the move up: it publishes a graph without the follower, and returns the reason to
whoever asked for the move. It does the same if a peer dies, with one exception: if the old peer dies and no backup of
the component lives, the origin asks the follower whether it is ready, and has it take over if it is.

The phases of section 3.4.4
---------------------------
=====  =====================================  ==========================================================================
phase  dissertation                           here
=====  =====================================  ==========================================================================
1, 2   request to the target; it projects     the decider asks T as the move begins; :class:`Follow` has T project and
       the limits and instantiates            commit once more, and starts the follower
3      reply of the target                    its reply to S, and :class:`Followed`, with a reason if it refuses
4      update request to each upstream peer   subscription of the follower at each U (``Subscribe``), from S and from T
5      reply with the last number sent to S   answer of each U (``Data``): the point from which it sends, and its end
6      S ends after the last numbers          :class:`GraphChanged`: S ends at once, as T has executed the same tuples
=====  =====================================  ==========================================================================

Until phase 6 S is active and T executes beside it; from the new epoch on T is active. No source, log or queue waits:
each U sends to S and T at once, each reader accepts what S had sent, and T sends to each reader before that subscribes.
Results are late once, by the time by which the way from O over T to the reader is longer than that from O over S.

Positions keep the order: T emits the tuples of S at the positions of S, and a reader accepts each position once. A
component with several inputs reads them in the order that S recorded. In phase 6 S sends T the last part of that order,
and its readers too, which pass it on (``LastOrder``); then T reads on in an order of its own. Its readers accept what
is on its way from S meanwhile. So T begins later than S ends by the way from S to T, or over a reader: an order of
inputs cannot be decided at two places at once. Results are late by that way at most, and by no round trip. If the order
does not arrive, as S dies, T asks all peers for it (:mod:`.hosting._order_recovery`). A component
that reads active replicas needs no such order (:mod:`~synergy_nb.dataflow.streams.component._alignment`).

No queue is drained. From the command to the release a move takes d(O, S) + max(d(S, T), d(S, U) + d(U, T)) + d(T, O) +
d(O, S), with the one-way delays d. S sends the snapshot before T has asked for it, and subscribes T at each U. T asks
nevertheless until they have answered, as nobody knows what the others have received; so what is lost, or comes before
Follow, T has a round trip later.

A migration takes, from the request of S to the release, with all six phases:

===========  =======================================================================================================
O is S       max(d(S, T), d(S, U) + d(U, T)) + d(T, S): less than the dissertation's RTT(S, T) + max RTT(S, U)
O elsewhere  max(d(S, T), d(S, U) + d(U, T)) + d(T, O) + d(O, S)
===========  =======================================================================================================

Less is impossible as long as O alone changes the graph: U has to hear from S, T has to receive what U sends, O has to
hear that T has, and S has to hear of the graph.

If S is far from O, a component of several inputs would pause: its producers leave S before that knows. So T and each U
pass the graph of phase 6 on to S. S ends when the first of these copies arrives.

Components without a follower
-----------------------------
A part on Spark has no follower that executes it, as Spark holds its state. The new peer has a copy instead, which holds
the location of that state; its driver reports when the part could go on there. A source has no state: the new peer
opens it at the position at which the old one ended.

Other applications may share the stream of the component. The follower is not ready before it knows their graphs, which
name its readers. So T sends to these readers at once, too, and they read from T from then on. The origins of these
applications learn the new peer after the move (:mod:`~synergy_nb.lifecycle.changes.shared_streams`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

import msgspec

from synergy_nb.control.peer import Message
from synergy_nb.events import ComponentMoved, MoveBegun, MoveGivenUp, MovePostponed
from synergy_nb.events.application_states import CHANGING, State
from synergy_nb.lifecycle.changes._early_followers import EarlyFollowers
from synergy_nb.lifecycle.changes._led_moves import LedMove, MoveState
from synergy_nb.lifecycle.changes.approvals import Approvals, Asked
from synergy_nb.lifecycle.changes.graph_changes import GraphChanger, GraphChanges
from synergy_nb.lifecycle.changes.movable import component_to_move
from synergy_nb.lifecycle.records.members import Member, other_replicas
from synergy_nb.lifecycle.records.messages import End, Follow, Followed, Graph
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.derived.spark_parts import PART

__all__ = ["Migrations"]


class _Command(NamedTuple):
    """A command to move a component, which waits until another change has ended."""

    operator: str
    to: str
    moved: Callable[[str], None]


class Migrations(GraphChanger):
    """Leads the moves in applications of this peer, and runs followers at this peer."""

    def __init__(
        self,
        changes: GraphChanges,
        # function of (member, operator) that returns the reason why the operator would harm an application at this
        # peer; empty if it harms none
        impact_refusal: Callable[[Member, str], str],
        # function of (plan, operator, peer that executes it) that returns what this peer lacks to execute it; empty for
        # nothing
        lacks: Callable[[Plan, str, str], str],
        # function of (application, address of a dead peer) that has backups take over or ends the application; returns
        # whether the application goes on
        handle_death: Callable[[str, str], bool],
        # function of (application, operator) that returns the applications that share the operator's stream
        sharers: Callable[[str, str], tuple[str, ...]],
        # function of (application, operator) that returns the peers whose copy cannot take over at present
        cannot_take_over: Callable[[str, str], Collection[str]],
    ) -> None:
        super().__init__(changes)
        self.impact_refusal = impact_refusal
        self.lacks = lacks
        self.handle_death = handle_death
        self.sharers = sharers
        self.cannot_take_over = cannot_take_over
        self.approvals = Approvals()
        self.early = EarlyFollowers(changes, self._start_follower)
        self._moves: dict[str, LedMove] = {}  # by application
        self._commands: dict[str, list[_Command]] = {}  # those that wait, by application, in the order of arrival
        changes.on_change_ended.append(self._change_ended)
        changes.on_adopted.append(self._answer_origins)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Follow: self._follow,
            Followed: self._followed,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def move(self, application: str, operator: str, to: str, moved: Callable[[str], None], asked: int = 0) -> None:
        """Move a component of a running application of this peer to another peer, without a pause.

        ``application``, ``operator``, ``to``: component that moves, and address of the peer that it moves to;
        ``moved``: callback for the result: an empty text after the move, or the reason why the component was not moved;
        ``asked``: number of the question by which the component's peer asks the other one, which has to accept; 0:
        none.

        Raises ``ValueError`` if the component cannot move at all, to that peer, or at present.
        """
        request, operator = self._checked(application, operator, to)
        if request.state in CHANGING:
            raise ValueError(f"operator: {operator!r}; {self.present_change(request)}; expected one change at a time")
        graph = request.graph
        if to == graph.roles.peers[operator]:
            raise ValueError(f"to: {to!r}; {operator} is there already; expected another peer")
        if to in other_replicas(graph, Plan.from_bytes(graph.plan), operator):
            raise ValueError(f"to: {to!r}; another replica of {original(operator)} is there; expected another peer")
        request.enter(State.MOVING)
        move = self._moves[application] = LedMove(graph, operator, to, self.peer.now, moved, asked)
        if move.state is not MoveState.DOUBTFUL:
            self._record_begun(move)
        self.membership.watch(to)
        self._set_timeout(move, self.config.setup)
        self._resend(move)

    def command(self, application: str, operator: str, to: str, moved: Callable[[str], None]) -> None:
        """Move a component as a user asks for it: at once, or when the present change of the application has ended.

        What could not be carried out later either is refused at once. If the component is at that peer when its turn
        comes, the command has been carried out.

        ``application``, ``operator``, ``to``, ``moved``: component, address of its new peer, and callback for the
        result, as for :meth:`move`.

        Raises ``ValueError`` if the component cannot move at all, or to that peer.
        """
        request, operator = self._checked(application, operator, to)
        if request.state not in CHANGING:
            self.move(application, operator, to, moved)
            return
        reason = self.present_change(request)
        self._commands.setdefault(application, []).append(_Command(operator, to, moved))
        self.peer.record(MovePostponed, application, operator=operator, to=to, reason=reason)

    def target(self, application: str) -> str:
        """New peer of the component that moves in an application that this peer leads; empty if none moves."""
        move = self._moves.get(application)
        return "" if move is None else move.to

    def present_change(self, request: Request) -> str:
        """Say which change of its graph an application undergoes."""
        if request.state is State.MOVING:
            return f"{self._moves[request.name].operator} is moving to {self._moves[request.name].to}"
        changes = {State.REBUILDING: "a lost replica is being rebuilt", State.PAUSED: f"it is {request.reason}"}
        return changes.get(request.state, "backups take over")

    def _checked(self, application: str, operator: str, to: str) -> tuple[Request, str]:
        """Return the request and the component of a move; raise ValueError if no change can make it possible."""
        request = self.led.get(application)
        if request is None or not request.running:
            raise ValueError(f"application: {application!r}; expected one that runs and was submitted at this peer")
        operator = component_to_move(Plan.from_bytes(request.graph.plan), operator, durable=self.config.durable)
        if not request.graph.roles.peers[operator]:
            raise ValueError(f"operator: {operator!r}; it was lost; expected a replica that some peer executes")
        if not to or self.membership.is_dead(to):
            raise ValueError(f"to: {to!r}; expected a peer that lives")
        return request, operator

    def _change_ended(self, application: str) -> None:
        """Carry out the commands that wait, after all others have been told of the end of the change."""
        if application in self._commands:
            # not at once: listeners that are called after this one would take the next move for the one that has ended
            self.peer.after(0.0, self._next_command, application)

    def _next_command(self, application: str) -> None:
        waiting, request = self._commands.get(application), self.led.get(application)
        while waiting and request is not None and request.state is State.RUNNING:
            operator, to, moved = waiting.pop(0)
            if request.graph.roles.peers[operator] == to:
                moved("")
                continue
            try:
                self.move(application, operator, to, moved)
            except ValueError as error:
                moved(str(error))
        if not waiting:
            self._commands.pop(application, None)

    def _set_timeout(self, move: LedMove, seconds: float) -> None:
        """Limit the present step of a move to that many seconds."""
        move.limit(self.membership.answers.after(seconds, (move.old, move.to), self._timed_out, move))

    def _resend(self, move: LedMove) -> None:
        """Send Follow to the peers that have not agreed or are not ready, now and once every interval."""
        if not move.over:
            for address in move.unanswered:
                self._send_follow(move, address)
            self.peer.after(RESEND_INTERVAL, self._resend, move)

    def _send_follow(self, move: LedMove, address: str) -> None:
        sharers = () if move.state is MoveState.ORPHANED else self.sharers(move.application, move.operator)
        self.peer.send(address, Follow(move.graph, move.operator, sharers, move.request, move.swaps))

    def _followed(self, sender: str, message: Followed) -> None:
        application = message.application
        request, move = self.led.get(application), self._moves.get(application)
        if request is None:
            if sender != self.peer.address:  # at the origin itself, the sinks retain their results
                self.peer.send(sender, End(application, message.attempt, "it has ended"))
        # an answer counts for the graph that it names: one to an earlier move would pass for the agreement to this one
        # (test_answers_before_the_graph_of_a_move_count_for_that_move_alone)
        elif move is None or (request.graph.attempt, move.graph.epoch) != (message.attempt, message.epoch):
            self.changes.tell(application, sender)  # it may not know that the move has been given up
        elif message.early and (not move.is_of(sender, message.operator) or self.sharers(application, move.operator)):
            return  # of another move; or the new peer has still to know the graphs of those that share the stream
        elif sender not in (move.old, move.to):
            self.changes.tell(application, sender)  # it has no part in the move
        elif message.refusal:
            self.abort(application, f"{move.operator} at {sender}: {message.refusal}")
        elif move.state is MoveState.ORPHANED:
            if sender == move.to:
                self._take_over(move, ready=message.ready)
        else:
            if move.state is MoveState.DOUBTFUL and sender == move.to:
                move.accept()
                self._record_begun(move)
            move.hear(sender, ready=message.ready)
            if not move.silent:
                self._advance(move)

    def _advance(self, move: LedMove) -> None:
        """Complete a move whose follower is ready, or publish the follower; both peers have agreed."""
        # a follower that lags lacks inputs which readers still need: it has to catch up first
        # (test_a_lagging_follower_does_not_become_the_primary_before_it_has_caught_up)
        if move.both_ready and move.to not in self.cannot_take_over(move.application, move.operator):
            self._complete(move)
        elif not move.published:
            self._publish_follower(move)

    def _publish_follower(self, move: LedMove) -> None:
        """Publish the graph with the follower."""
        move.publish()
        self.changes.change(move.application, move.graph)
        self.changes.publish(move.application)
        self._set_timeout(move, self.config.moving)
        self._send_follow(move, move.to)

    def _complete(self, move: LedMove) -> None:
        """Complete a move: publish the graph in which the new peer executes the component."""
        application = move.application
        self._conclude(move, MoveState.COMPLETED)
        graph, operator = move.graph, move.operator
        backups = dict(move.before.roles.backups)
        # without this swap the component would have a backup at its own peer, and one replica less than was asked for
        # (test_a_component_moves_to_the_peer_of_its_backup)
        if operator in backups:  # if it moves to the peer of one of its backups, the old peer gets that backup
            backups[operator] = tuple(move.old if peer == move.to else peer for peer in backups[operator])
        graph = graph.changed(graph.roles.replaced({operator: move.to}, backups))
        self.changes.change(application, graph)
        # the old peer is told, too: with no other role it is not in the graph, and would hear late that it has ended,
        # from those that pass the graph on
        self.changes.publish(application, (move.old,))
        self._record_moved(move)
        self.peer.instruct(self.led[application].report())
        move.moved("")
        self.changes.change_ended(application)

    def _record_begun(self, move: LedMove) -> None:
        application, epoch = move.application, move.graph.epoch
        self.peer.record(MoveBegun, application, operator=move.operator, at=move.old, to=move.to, epoch=epoch)

    def _record_moved(self, move: LedMove) -> None:
        application, seconds = move.application, self.peer.now - move.began
        peers = self.led[application].roles.peers
        self.peer.record(
            ComponentMoved, application, operator=move.operator, at=move.old, to=move.to, seconds=seconds, peers=peers
        )

    def _conclude(self, move: LedMove, state: MoveState) -> None:
        """Remove a move that is completed or given up; its application runs on."""
        self.led[move.application].enter(State.RUNNING)
        self._forget(move, state)

    def _forget(self, move: LedMove, state: MoveState) -> None:
        del self._moves[move.application]
        self.membership.unwatch(move.to)
        move.end(state)

    def abort(self, application: str, reason: str) -> None:
        """Give a move up: publish a graph without the follower; the component stays at its peer."""
        move = self._moves[application]
        was = move.state
        self._conclude(move, MoveState.GIVEN_UP)
        # a later epoch than that of the graph with the follower, or whoever has adopted that would take this one for a
        # repetition
        self.changes.change(application, msgspec.structs.replace(move.before, epoch=move.graph.epoch + 1))
        self.changes.publish(application, (move.to,))
        if was is not MoveState.DOUBTFUL:
            self.peer.record(MoveGivenUp, application, operator=move.operator, to=move.to, reason=reason)
        move.moved(reason)
        if was is MoveState.ORPHANED:
            self.handle_death(application, move.old)
        self.changes.change_ended(application)

    def interrupt(self, application: str, reason: str) -> None:
        """Give up the move of an application, if there is one, as another component of it was lost."""
        if application in self._moves:
            self.abort(application, reason)

    def _timed_out(self, move: LedMove) -> None:
        if not move.over:
            silent = " and ".join(move.silent)
            unready = (
                f"{move.operator} at {move.to} was not ready" if move.snapshot_kept else f"{move.old} kept no snapshot"
            )
            waited = f"{silent} did not answer" if silent else unready
            self.abort(move.application, f"{waited} in time")

    def died(self, application: str, address: str) -> bool:
        """Handle the death of a peer during a move; return False if backups have still to take over."""
        move, graph = self._moves.get(application), self.led[application].graph
        if move is None or address not in {*graph.addresses, move.to}:
            return False
        dead = self.membership.is_dead
        alone = all(dead(peer) for peer in move.before.roles.backups.get(move.operator, ()))
        if address == move.old and move.published and alone and not dead(move.to):
            move.orphan()
            self._set_timeout(move, self.config.setup)
            self._send_follow(move, move.to)
            return True
        self.abort(application, f"peer {address} died")
        return application not in self.led

    def _take_over(self, move: LedMove, *, ready: bool) -> None:
        """Have the follower take over from its dead primary if it is ready; else give the move up."""
        application = move.application
        if not ready:
            self.abort(application, f"peer {move.old} died before {move.operator} at {move.to} was ready")
            return
        self._conclude(move, MoveState.COMPLETED)
        backups = {**move.before.roles.backups, move.operator: (move.to,)}
        roles = msgspec.structs.replace(move.before.roles, backups=backups)
        graph = msgspec.structs.replace(move.before, roles=roles, epoch=move.graph.epoch)
        self.changes.change(application, graph)
        if self.handle_death(application, move.old):
            self._record_moved(move)
            move.moved("")
        else:
            move.moved(f"peer {move.old} died")

    def end(self, application: str, reason: str) -> None:
        """Cancel the move of an application that has ended, or that this peer leads no more."""
        if (move := self._moves.get(application)) is not None:
            # where all know the follower, the session tells it the end; and another peer that leads the application now
            # may have it take over: an End would have it leave for good
            # (test_a_follower_that_all_know_is_not_ended_by_an_origin_that_leads_no_more)
            unknown = not move.published
            self._forget(move, MoveState.GIVEN_UP)
            if unknown and move.to not in {*move.before.addresses, self.peer.address}:
                self.peer.send(move.to, End(application, move.graph.attempt, reason))
            move.moved(reason)
        for command in self._commands.pop(application, ()):
            command.moved(reason)

    # -- at members --------------------------------------------------------------------------------------------------

    def _follow(self, sender: str, message: Follow) -> None:
        old = message.graph.roles.peers[message.operator]
        if message.request and old != self.peer.address:
            asked = Asked(old, message.request, message.graph.application, message.operator)
            self.approvals.when_answered(asked, partial(self._begin, sender, message))
        else:
            self._begin(sender, message)

    def _begin(self, sender: str, message: Follow, refusal: str = "") -> None:
        """Agree to a move, or start a follower, unless this peer has refused the component."""
        graph, operator = message.graph, message.operator
        known = self.changes.members.get(graph.application)
        if self.participation.refuses(sender, graph, "Follow"):
            return
        member = None
        if graph.roles.peers[operator] == self.peer.address:
            member, refusal = known, self._agree(known, message)
        elif not refusal:
            member = self.participation.join(sender, graph, "Follow")
            if member is not None:
                member.moves.wait_for(operator, message.sharers)
            refusal = (
                "it has no part in the application" if member is None else self._start_follower(member, graph, operator)
            )
        self._answer(sender, graph, operator, member, refusal)

    def _answer(self, origin: str, graph: Graph, operator: str, member: Member | None, refusal: str) -> None:
        ready = member is not None and operator in member.ready
        if member is not None and graph.roles.peers[operator] == self.peer.address:
            ready = ready or not member.moves.keeps(operator)
        elif member is not None:
            ready = ready and member.moves.knows_sharers(operator, self.changes.members)
        self.peer.send(origin, Followed(graph.application, graph.attempt, graph.epoch, operator, ready, refusal))

    def _agree(self, member: Member | None, message: Follow) -> str:
        """Agree to the move of a component at this peer; return an empty text, or the reason of a refusal."""
        graph, operator = message.graph, message.operator
        component = self.changes.components.get((graph.application, operator))
        if member is None or member.ended or component is None:
            return "this peer does not execute it"
        reader = self.changes.deploying.ended_reader(graph.application, operator)
        if reader:
            return f"{reader} reads its stream; {reader} has ended, and its components run on for other applications"
        if message.backup and member.plan.upstream(operator) and member.plan.operators[operator].kind != PART:
            member.moves.keep(operator)
        self.changes.adopt(member, graph)
        return ""

    def _start_follower(self, member: Member, graph: Graph, operator: str) -> str:
        """Start a follower of a component that is to move here; return an empty text, or the reason of a refusal."""
        if operator not in member.deployed:
            lacks = self.lacks(member.plan, operator, graph.roles.peers[operator])
            if lacks:
                return f"it has no {lacks}"
            refusal = self.impact_refusal(member, operator) or self.changes.components.commit(
                graph, member.plan, operator
            )
            if refusal:
                self.changes.components.commit_backup(member, operator)
                return refusal
            self.changes.components.deploy(member, graph, operator)
        member.start()  # the application runs
        self.changes.adopt(member, graph)
        return member.moves.failure(operator)

    def ready(self, member: Member, operator: str) -> None:
        """The driver's report that its follower or backup of a component could take over, or would after a move."""
        member.copy_ready(operator)
        if member.moves.keeps(operator) or member.graph.roles.followers.get(operator) == self.peer.address:
            self._answer(member.graph.origin, member.graph, operator, member, "")
        else:
            self.early.answer(member, operator, self.peer.address)

    def _answer_origins(self, application: str) -> None:
        """Answer for followers here whose readiness has waited for the graph of a sharer, which is known now."""
        sharer = self.changes.members.get(application)
        for producer in () if sharer is None else sharer.graph.producers:
            member = self.changes.members.get(producer.application)
            if member is not None and member.graph.roles.followers.get(producer.operator) == self.peer.address:
                self._answer(member.graph.origin, member.graph, producer.operator, member, "")

    def failed(self, member: Member, operator: str, reason: str) -> bool:
        """Report to the origin that a follower here has failed; return False if the operator has no follower here."""
        if self.peer.address not in (member.graph.roles.followers.get(operator), member.moves.early(operator)):
            return False
        member.moves.fail(operator, reason)
        self._answer(member.graph.origin, member.graph, operator, member, reason)
        return True
