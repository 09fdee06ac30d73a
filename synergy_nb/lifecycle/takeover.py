"""What a session does when a peer dies that executes replicated components: their backups take over (section 4.2).

Theory of operation
-------------------
Every component that has backups is replicated passively: the backups' peers keep what the primary emits and, from time
to time, the state that it had then. When the failure detector declares a peer dead, the origin gives each component
that was there to the first of its backups that lives and is fit (:class:`TakeOver`). That peer commits the resources,
has its driver make the backup active, and says so (:class:`TookOver`). When all have, everybody who takes part learns
the new graph (:mod:`~synergy_nb.lifecycle.graph_changes`). Messages are sent more than once, and do no harm when they
come again.

A component that is replaced begins an epoch of its stream, so readers know whom to listen to. A death while a take-over
is under way begins the next one from the graph that was being set up. An application ends, by name, when a component
has no backup left, when a backup cannot take over, or when that takes too long; sources, sinks and the origin have no
backups. Who shares a stream of another application waits for the origin of that one
(:mod:`~synergy_nb.lifecycle.shared_streams`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from synergy_nb.control.peer import Message, Peer, Timer
from synergy_nb.events import TakenOver, TakeoverBegun
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.graph_changes import AGAIN, GraphChanges
from synergy_nb.lifecycle.messages import Graph, Lost, SessionConfig, TakeOver, TookOver
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.membership import Membership

__all__ = ["TakeOvers"]


class _Pending:
    """A take-over that is under way."""

    __slots__ = ("operators", "timer")

    def __init__(self, operators: set[str], timer: Timer) -> None:
        self.operators = operators
        self.timer = timer


class TakeOvers:
    """Take-overs of the applications that a peer leads, and of those in which it takes part.

    Parameters
    ----------
    peer, membership, changes
        Parts of the peer that take-overs work with.
    config
        Times.
    owned
        Applications that it leads.
    lost
        Called with (application, attempt, reason) when an application that this peer leads cannot go on.
    awaits
        Tells whether all that an application of this peer shares of others is there, or may be taken over by these.
    unfit
        Gives the peers whose copy of (application, operator) could not take over: they do where there is no other.
    """

    def __init__(
        self,
        peer: Peer,
        membership: Membership,
        changes: GraphChanges,
        config: SessionConfig,
        owned: Mapping[str, Request],
        lost: Callable[[str, int, str], None],
        awaits: Callable[[str], bool],
        unfit: Callable[[str, str], Collection[str]],
    ) -> None:
        self.peer = peer
        self.membership = membership
        self.changes = changes
        self.config = config
        self.owned = owned
        self.lost = lost
        self.awaits = awaits
        self.unfit = unfit
        self._pending: dict[str, _Pending] = {}
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            TakeOver: self._take_over,
            TookOver: self._taken,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def begin(self, application: str, address: str) -> bool:
        """Have the backups of what was on a dead peer take over; False if not all of it has any that lives."""
        owned = self.owned[application]
        graph = owned.graph
        if not owned.running or not self.awaits(application):
            return False
        dead = self.membership.is_dead
        alive = {name: tuple(each for each in peers if not dead(each)) for name, peers in graph.roles.backups.items()}
        moved: dict[str, str] = {}
        for operator, peer in graph.roles.peers.items():
            if dead(peer) and operator not in graph.shared:  # those who share it wait for its own origin
                if not alive.get(operator):
                    return False
                unfit = self.unfit(application, operator)
                moved[operator], *rest = sorted(alive[operator], key=unfit.__contains__)
                alive[operator] = tuple(rest)
        if not moved and alive == graph.roles.backups:
            return True
        graph = graph.changed(graph.roles.replaced(moved, alive))
        pending = self._pending.pop(application, None)
        if pending is not None:  # what it was to move is in the graph already, and may have to be asked for again
            pending.timer.cancel()
            moved.update((name, graph.roles.peers[name]) for name in pending.operators if name not in moved)
        owned.to(State.TAKING_OVER)
        self.changes.change(application, graph)
        self.peer.record(TakeoverBegun, application, dead=address, operators=moved, epoch=graph.epoch)
        timer = self.peer.after(self.config.setup, self._too_late, application, graph.epoch)
        self._pending[application] = _Pending(set(moved), timer)
        self._ask(application, graph)
        self._settle(application)
        return True

    def _ask(self, application: str, graph: Graph) -> None:
        """Ask all backups that have not taken over yet, now and every so often."""
        pending, owned = self._pending.get(application), self.owned.get(application)
        if pending is not None and owned is not None and owned.graph.epoch == graph.epoch:
            for operator in sorted(pending.operators):
                self.peer.send(graph.roles.peers[operator], TakeOver(graph, operator))
            self.peer.after(AGAIN, self._ask, application, graph)

    def _taken(self, sender: str, message: TookOver) -> None:
        pending = self._pending.get(message.application)
        owned = self.owned.get(message.application)
        if pending is None or owned is None or owned.graph.epoch != message.epoch:
            return
        if message.refusal:
            self.lost(message.application, owned.graph.attempt, message.refusal)
            return
        pending.operators.discard(message.operator)
        self._settle(message.application)

    def _settle(self, application: str) -> None:
        """Tell everybody, once all backups have taken over."""
        pending = self._pending[application]
        if pending.operators:
            return
        pending.timer.cancel()
        del self._pending[application]
        self.owned[application].to(State.RUNNING)
        graph = self.owned[application].graph
        peers, backups = graph.roles.peers, graph.roles.backups
        self.changes.publish(application)
        self.peer.record(TakenOver, application, peers=peers, backups=backups, epoch=graph.epoch)
        self.peer.instruct(self.owned[application].report())
        self.changes.cancel(application)

    def _too_late(self, application: str, epoch: int) -> None:
        owned, pending = self.owned.get(application), self._pending.get(application)
        if owned is not None and pending is not None and owned.graph.epoch == epoch:
            del self._pending[application]
            silent = ", ".join(f"{name} at {owned.graph.roles.peers[name]}" for name in sorted(pending.operators))
            self.lost(application, owned.graph.attempt, f"backups did not take over in time: {silent}")

    def end(self, application: str) -> None:
        """An application has ended: nobody is to take over anything of it any more."""
        pending = self._pending.pop(application, None)
        if pending is not None:
            pending.timer.cancel()

    # -- at those who take part --------------------------------------------------------------------------------------

    def _take_over(self, sender: str, message: TakeOver) -> None:
        graph, operator, address = message.graph, message.operator, self.peer.address
        known = self.changes.members.get(graph.application)
        if known is not None and (known.graph.attempt, known.graph.epoch) > (graph.attempt, graph.epoch):
            return  # it is late
        member = self.changes.member_of(graph)
        if member is None or member.ended:
            self.peer.send(sender, Lost(graph.application, graph.attempt, f"no session at {address}"))
            return
        refusal = ""
        for name in sorted(
            name for name, peer in graph.roles.peers.items() if peer == address
        ):  # none loses its backup
            if name not in member.deployed and not refusal:
                refusal = self.changes.commit(graph, member.plan, name)
                if refusal:
                    refusal = f"{name} at {address}: {refusal}"
                else:
                    member.deployed.add(name)
                    self.changes.components.add(graph, member.plan, name)
        if not refusal:
            self.changes.adopt(member, graph)
        self.peer.send(sender, TookOver(graph.application, graph.epoch, operator, refusal))
