"""How a component moves to another peer while its application runs.

Theory of operation
-------------------
A move is a take-over without a death. The origin asks the peer that a component goes to, and the one where it is
(:class:`Follow`), with a graph in which the component has a *follower*. The peer that it goes to joins the session,
commits what the component takes there, and has its driver follow; the other one agrees.
Both answer (:class:`Followed`). Then everybody learns the graph with the follower, which executes what the component
executes and sends nothing. When its driver says that it could go on alone, the origin makes it the component: everybody
learns a graph with the component at its new peer, one epoch later, and the old peer gives its share back.

A part on Spark has nobody who follows it, as Spark keeps its state: the peer that it goes to keeps a copy, which says
where that is, and its driver says so when it could go on there.

Questions are asked again every second. Where a peer refuses, does not answer, or the follower is not ready in time, the
follower is taken back, with one more change of the graph, and whoever asked is told why. So it is where a peer dies;
only if that is the peer where the component was, and nobody has a backup of it, the follower is asked whether it is
ready, and takes over if it is.

Others may share the stream of the component. The follower is not ready before it knows their graphs, and so who reads;
their origins hear where it is when it is there (:mod:`~synergy_nb.lifecycle.shared_streams`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from synergy_nb.control.peer import Message, Peer, Timer
from synergy_nb.events import ComponentMoved, MoveBegun, MoveGivenUp
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.graph_changes import AGAIN, GraphChanges
from synergy_nb.lifecycle.members import Member
from synergy_nb.lifecycle.messages import End, Follow, Followed, Graph, Moved, SessionConfig
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import TAP
from synergy_nb.plan.spark_parts import PART, part_of, parts_of

__all__ = ["Migrations"]

UNREPEATABLE = ("python", "peers")  # connectors of sources that give nothing twice


class _Move:
    """A move that is under way."""

    __slots__ = (
        "before",
        "began",
        "following",
        "graph",
        "moved",
        "old",
        "operator",
        "orphaned",
        "timer",
        "to",
        "waiting",
    )

    def __init__(self, before: Graph, operator: str, to: str, began: float, moved: Callable[[str], None]) -> None:
        self.before = before
        self.graph = before.changed(before.roles.followed(operator, to))
        self.operator = operator
        self.old = before.roles.peers[operator]
        self.to = to
        self.began = began
        self.moved = moved
        self.waiting = {self.old, to}  # who has not agreed
        self.following = False  # everybody is told of the follower
        self.orphaned = False  # the component is gone, and its follower is asked whether it is ready
        self.timer: Timer | None = None


class Migrations:
    """Moves in the applications that a peer leads, and in those in which it takes part.

    Parameters
    ----------
    peer, membership, changes
        Parts of the peer that moves work with.
    config
        Times.
    owned
        Applications that it leads.
    joined
        Gives the part of this peer in the application of (sender, graph, name of a message), which may be new; None if
        the message is too late.
    harm
        What an operator of a member would do to applications here that came first; empty if they bear it.
    spark
        Whether this peer has Spark.
    lost
        Called with (application, address) where a peer has died: lets others take over, or ends the application; gives
        whether it goes on.
    sharers
        Gives the applications that share the stream of (application, operator), a component that this peer leads.
    unfit
        Gives the peers whose copy of (application, operator) could not take its place at the moment.
    """

    def __init__(
        self,
        peer: Peer,
        membership: Membership,
        changes: GraphChanges,
        config: SessionConfig,
        owned: Mapping[str, Request],
        joined: Callable[[str, Graph, str], Member | None],
        harm: Callable[[Member, str], str],
        spark: Callable[[], bool],
        lost: Callable[[str, str], bool],
        sharers: Callable[[str, str], tuple[str, ...]],
        unfit: Callable[[str, str], Collection[str]],
    ) -> None:
        self.peer = peer
        self.membership = membership
        self.changes = changes
        self.config = config
        self.owned = owned
        self.joined = joined
        self.harm = harm
        self.spark = spark
        self.lost = lost
        self.sharers = sharers
        self.unfit = unfit
        self._moves: dict[str, _Move] = {}
        changes.on_joined.append(self._shared)
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Follow: self._follow,
            Followed: self._followed,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def move(self, application: str, operator: str, to: str, moved: Callable[[str], None]) -> None:
        """Move a component, see :meth:`~synergy_nb.lifecycle.sessions.Session.move`."""
        owned = self.owned.get(application)
        if owned is None or not owned.running:
            raise ValueError(f"application: {application!r}; expected one that runs and was submitted at this peer")
        if owned.state is State.TAKING_OVER:
            raise ValueError(
                f"application: {application!r}; a peer of it has died; expected that others have taken over"
            )
        graph = owned.graph
        operator = _component(Plan.from_bytes(graph.plan), operator)
        if to == graph.roles.peers[operator]:
            raise ValueError(f"to: {to!r}; {operator} is there already; expected another peer")
        if not to or self.membership.is_dead(to):
            raise ValueError(f"to: {to!r}; expected a peer that lives")
        other = self._moves.get(application)
        if other is not None:
            raise ValueError(
                f"operator: {operator!r}; {other.operator} is moving to {other.to}; expected one at a time"
            )
        owned.to(State.MOVING)
        move = self._moves[application] = _Move(graph, operator, to, self.peer.now, moved)
        self.peer.record(MoveBegun, application, operator=operator, at=move.old, to=to, epoch=move.graph.epoch)
        self.membership.watch(to)
        self._limit(application, move, self.config.setup)
        self._ask(application, move)

    def _limit(self, application: str, move: _Move, seconds: float) -> None:
        """Give up a move that has not come further after so long."""
        if move.timer is not None:
            move.timer.cancel()
        move.timer = self.peer.after(seconds, self._too_late, application, move)

    def _ask(self, application: str, move: _Move) -> None:
        """Ask those who have not agreed, or the follower whether it is ready; now and every so often."""
        if self._moves.get(application) is move:
            for address in sorted(move.waiting or {move.to}):
                self._say(application, move, address)
            self.peer.after(AGAIN, self._ask, application, move)

    def _say(self, application: str, move: _Move, address: str) -> None:
        sharers = () if move.orphaned else self.sharers(application, move.operator)
        self.peer.send(address, Follow(move.graph, move.operator, sharers))

    def _followed(self, sender: str, message: Followed) -> None:
        application = message.application
        owned, move = self.owned.get(application), self._moves.get(application)
        if owned is None:
            if sender != self.peer.address:  # whose results stay
                self.peer.send(sender, End(application, message.attempt, "it has ended"))
        elif move is None or (owned.graph.attempt, move.graph.epoch) != (message.attempt, message.epoch):
            self.peer.send(sender, Moved(owned.graph))  # it may not know that the move has been given up
        elif message.refusal:
            self.give_up(application, f"{move.operator} at {sender}: {message.refusal}")
        elif move.orphaned:
            if sender == move.to:
                self._inherit(application, move, ready=message.ready)
        elif not move.following:
            move.waiting.discard(sender)
            if not move.waiting:
                self._begin(application, move)
        elif sender == move.to and message.ready and sender not in self.unfit(application, move.operator):
            self._finish(application, move)

    def _begin(self, application: str, move: _Move) -> None:
        """Tell everybody of the follower."""
        move.following = True
        self.changes.change(application, move.graph)
        self.changes.publish(application)
        self._limit(application, move, self.config.moving)
        self._say(application, move, move.to)

    def _finish(self, application: str, move: _Move) -> None:
        """The follower is ready: make it the component."""
        self._conclude(application, move)
        graph, operator = move.graph, move.operator
        backups = dict(move.before.roles.backups)
        if operator in backups:  # where it moves to a backup of its own, the two change places
            backups[operator] = tuple(move.old if peer == move.to else peer for peer in backups[operator])
        graph = graph.changed(graph.roles.replaced({operator: move.to}, backups))
        self.changes.change(application, graph)
        self.changes.publish(application, (move.old,))
        self._record_moved(application, move)
        self.peer.instruct(self.owned[application].report())
        move.moved("")
        self.changes.cancel(application)

    def _record_moved(self, application: str, move: _Move) -> None:
        seconds, peers = self.peer.now - move.began, self.owned[application].roles.peers
        self.peer.record(
            ComponentMoved, application, operator=move.operator, at=move.old, to=move.to, seconds=seconds, peers=peers
        )

    def _conclude(self, application: str, move: _Move) -> None:
        """A move has ended, in one way or another, and its application goes on."""
        self.owned[application].to(State.RUNNING)
        self._forget(application, move)

    def _forget(self, application: str, move: _Move) -> None:
        del self._moves[application]
        self.membership.unwatch(move.to)
        if move.timer is not None:
            move.timer.cancel()

    def give_up(self, application: str, reason: str) -> None:
        """Take the follower back: the component stays where it is."""
        move = self._moves[application]
        self._conclude(application, move)
        self.changes.change(application, msgspec.structs.replace(move.before, epoch=move.graph.epoch + 1))
        self.changes.publish(application, (move.to,))
        self.peer.record(MoveGivenUp, application, operator=move.operator, to=move.to, reason=reason)
        move.moved(reason)
        if move.orphaned:
            self.lost(application, move.old)
        self.changes.cancel(application)

    def _too_late(self, application: str, move: _Move) -> None:
        if self._moves.get(application) is move:
            silent = " and ".join(sorted(move.waiting))
            waited = f"{silent} did not answer" if silent else f"{move.operator} at {move.to} was not ready"
            self.give_up(application, f"{waited} in time")

    def died(self, application: str, address: str) -> bool:
        """A peer has died. True if what is to be done about it is decided when the follower has answered."""
        move, graph = self._moves.get(application), self.owned[application].graph
        if move is None or address not in {*graph.addresses, move.to}:
            return False
        dead = self.membership.is_dead
        alone = all(dead(peer) for peer in move.before.roles.backups.get(move.operator, ()))
        if address == move.old and move.following and alone and not dead(move.to):
            move.orphaned = True
            self._limit(application, move, self.config.setup)
            self._say(application, move, move.to)
            return True
        self.give_up(application, f"peer {address} died")
        return application not in self.owned

    def _inherit(self, application: str, move: _Move, *, ready: bool) -> None:
        """Where the component was, the peer has died: let its follower take over, if it can."""
        if not ready:
            self.give_up(application, f"peer {move.old} died before {move.operator} at {move.to} was ready")
            return
        self._conclude(application, move)
        backups = {**move.before.roles.backups, move.operator: (move.to,)}
        roles = msgspec.structs.replace(move.before.roles, backups=backups)
        graph = msgspec.structs.replace(move.before, roles=roles, epoch=move.graph.epoch)
        self.changes.change(application, graph)
        if self.lost(application, move.old):
            self._record_moved(application, move)
            move.moved("")
        else:
            move.moved(f"peer {move.old} died")

    def end(self, application: str) -> None:
        """An application has ended, and with it its move."""
        move = self._moves.get(application)
        if move is not None:
            self._forget(application, move)
            if move.to not in {*move.before.addresses, self.peer.address}:  # who have been told
                self.peer.send(move.to, End(application, move.graph.attempt, "it has ended"))
            move.moved("the application has ended")

    # -- at those who take part --------------------------------------------------------------------------------------

    def _follow(self, sender: str, message: Follow) -> None:
        graph, operator = message.graph, message.operator
        known = self.changes.members.get(graph.application)
        if known is not None and (known.graph.attempt, known.graph.epoch) > (graph.attempt, graph.epoch):
            return  # it is late
        if graph.roles.peers[operator] == self.peer.address:
            member, refusal = known, self._let_go(known, graph, operator)
        else:
            member = self.joined(sender, graph, "Follow")
            if member is not None:
                member.awaited[operator] = message.sharers
            refusal = "it has no part in the application" if member is None else self._take(member, graph, operator)
        self._answer(sender, graph, operator, member, refusal)

    def _answer(self, origin: str, graph: Graph, operator: str, member: Member | None, refusal: str) -> None:
        ready = member is not None and operator in member.ready
        if member is not None:
            ready = ready and all(name in self.changes.members for name in member.awaited.get(operator, ()))
        self.peer.send(origin, Followed(graph.application, graph.attempt, graph.epoch, operator, ready, refusal))

    def _let_go(self, member: Member | None, graph: Graph, operator: str) -> str:
        """Agree that a component here moves; empty, or why it cannot."""
        component = self.changes.components.get((graph.application, operator))
        if member is None or member.ended or component is None:
            return "it is not there"
        reader = self.changes.deploying.owner_has_ended(graph.application, operator)
        if reader:
            return f"its stream is read by {reader}, which has ended and goes on for others"
        self.changes.adopt(member, graph)
        return ""

    def _take(self, member: Member, graph: Graph, operator: str) -> str:
        """Follow a component that is to move here; empty, or why that cannot be."""
        if member.plan.operators[operator].kind == PART and not self.spark():
            return "it has no Spark"
        if operator not in member.deployed:
            refusal = self.harm(member, operator) or self.changes.commit(graph, member.plan, operator)
            if refusal:
                self.changes.keep(member, operator)
                return refusal
            member.deployed.add(operator)
            self.changes.components.add(graph, member.plan, operator)
        member.started = True  # the application runs
        self.changes.adopt(member, graph)
        return member.faults.get(operator, "")

    def ready(self, member: Member, operator: str) -> None:
        """The driver of this peer can go on with what it follows or backs up, should it have to."""
        member.ready.add(operator)
        if member.graph.roles.followers.get(operator) == self.peer.address:
            self._answer(member.graph.origin, member.graph, operator, member, "")

    def _shared(self, application: str) -> None:
        """This peer knows one more of those who share what it follows."""
        for use in self.changes.members[application].graph.uses if application in self.changes.members else ():
            member = self.changes.members.get(use.application)
            if member is not None and member.graph.roles.followers.get(use.operator) == self.peer.address:
                self._answer(member.graph.origin, member.graph, use.operator, member, "")

    def failed(self, member: Member, operator: str, reason: str) -> bool:
        """Tell the origin that a follower here has failed, which harms nobody; False if it is none."""
        if member.graph.roles.followers.get(operator) != self.peer.address:
            return False
        member.faults[operator] = reason
        self._answer(member.graph.origin, member.graph, operator, member, reason)
        return True


def _component(plan: Plan, operator: str) -> str:
    """The component that executes an operator of a plan; raises ValueError, in words for people, unless it can move."""
    what = f"operator: {operator!r}"
    for name, members in parts_of(plan).items():
        if operator in (name, *members):
            inside = part_of(plan.operators[name])[0].operators
            read = [each for each in members if inside[each].kind == "source"]
            if read:
                own = ", ".join(read)
                expected = f"expected another operator, or a plan with engine 'peer' for {own}"
                raise ValueError(f"{what} is executed on Spark, which reads {own} itself; {expected}")
            return name
    asked = plan.operators.get(operator)
    if asked is None:
        may = [name for name, each in plan.operators.items() if each.kind not in ("sink", TAP)]
        raise ValueError(f"{what}; expected one of {', '.join(may)}")
    if asked.kind == "sink":
        raise ValueError(f"{what} is a sink, and stays where its results are collected; expected another operator")
    if asked.kind == TAP:
        raise ValueError(f"{what} is a stream that another application makes; expected an operator of this one")
    connector = asked.params.get("connector")
    if asked.kind == "source" and connector in UNREPEATABLE:
        raise ValueError(f"{what} is a source that cannot be read again ({connector}); expected another operator")
    return operator
