"""Take-over: when a peer with replicated components dies, their backups become active (section 4.2).

Theory of operation
-------------------
Every component with backups is replicated passively: the peers of its backups retain what the primary emits and
periodic snapshots of its state. When the failure detector declares a peer dead, the origin chooses, for each component
at that peer, the first backup that lives and can take over, and sends its peer :class:`TakeOver`. That peer commits the
resources, has its driver make the backup active, and answers :class:`TookOver`. When all backups have answered, the
origin publishes the new graph to all members (:mod:`~synergy_nb.lifecycle.graph_changes`). Messages are sent several
times; receiving one again has no effect.

The new primary begins a new epoch of its stream, so readers can tell its output from that of the old one. If another
peer dies during a take-over, the next take-over starts from the graph that was being set up. An application fails, with
a reason, when a component has no backup left, when a backup refuses, or when the take-over exceeds its time limit.
Afterwards the component gets another backup (:mod:`~synergy_nb.lifecycle.rebuilds`).
Sinks, the origin, and sources that did not ask for any have no backups. Active replicas have none either: if one is
lost, the other replicas of its operator emit the same tuples already. The new graph has no peer for it, and its readers
discard that input. If the last replica of an operator is lost, the application fails. A sharer waits for the origin of
the owner (:mod:`~synergy_nb.lifecycle.shared_streams`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from synergy_nb.control.peer import Message, Timer
from synergy_nb.events import ActiveReplicasLost, TakenOver, TakeoverBegun
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.graph_changes import RESEND_INTERVAL, GraphChanger, GraphChanges
from synergy_nb.lifecycle.messages import Graph, Lost, SessionConfig, TakeOver, TookOver, no_session
from synergy_nb.plan import Plan
from synergy_nb.plan.active_replicas import original, replicas_of

__all__ = ["TakeOvers"]


class _Pending:
    """A take-over that is under way: the operators whose backups have not answered, and the time limit."""

    __slots__ = ("operators", "timer")

    def __init__(self, operators: set[str], timer: Timer) -> None:
        self.operators = operators
        self.timer = timer


class TakeOvers(GraphChanger):
    """Leads the take-overs in applications of this peer, and makes backups at this peer active.

    Parameters
    ----------
    changes, config
        The protocol for changed graphs, and the time limits and intervals of sessions.
    fail
        Callback with (application, attempt, reason) when an application that this peer leads cannot go on.
    recoverable
        Function of an application that returns whether every component that it shares lives or may be taken over.
    cannot_take_over
        Function of (application, operator) that returns the peers whose copy cannot take over; such a copy is chosen
        only if there is no other.
    """

    def __init__(
        self,
        changes: GraphChanges,
        config: SessionConfig,
        fail: Callable[[str, int, str], None],
        recoverable: Callable[[str], bool],
        cannot_take_over: Callable[[str, str], Collection[str]],
    ) -> None:
        super().__init__(changes, config)
        self.fail = fail
        self.recoverable = recoverable
        self.cannot_take_over = cannot_take_over
        self._pending: dict[str, _Pending] = {}
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            TakeOver: self._take_over,
            TookOver: self._took_over,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def dispensable(self, application: str, operators: Collection[str]) -> bool:
        """Whether all of these are active replicas, and each of their operators has another replica that lives."""
        graph = self.led[application].graph
        left = {name: set(group) for name, group in replicas_of(Plan.from_bytes(graph.plan)).items()}
        for group in left.values():
            group -= {name for name in group if name in operators or not graph.roles.peers[name]}
            group -= {name for name in group if self.membership.is_dead(graph.roles.peers[name])}
        return bool(operators) and all(left.get(original(name)) for name in operators)

    def begin(self, application: str, address: str, reason: str = "", failed: Collection[str] = ()) -> bool:
        """Replace what an application has lost: its backups take over, or its other active replicas go on alone.

        Parameters
        ----------
        application
            Application that this peer leads.
        address
            Address of the peer that died, or at which components have failed.
        reason
            Reason why the components have failed; empty if the peer died.
        failed
            Operators of the components that have failed; empty if the peer died.

        Returns
        -------
        bool
            Whether the application goes on: each lost component has a living backup or another active replica.
        """
        request = self.led[application]
        graph = request.graph
        if not request.running or not self.recoverable(application):
            return False
        dead = self.membership.is_dead
        alive = {name: tuple(each for each in peers if not dead(each)) for name, peers in graph.roles.backups.items()}
        moved: dict[str, str] = {}
        lost: list[str] = []
        for operator, peer in graph.roles.peers.items():
            if (dead(peer) or operator in failed) and operator not in graph.shared:  # owners replace shared components
                if not alive.get(operator):
                    lost.append(operator)
                    continue
                unfit = self.cannot_take_over(application, operator)
                moved[operator], *rest = sorted(alive[operator], key=unfit.__contains__)
                alive[operator] = tuple(rest)
        if lost and not self.dispensable(application, lost):
            return False
        if not moved and not lost and alive == graph.roles.backups:
            return True
        graph = graph.changed(graph.roles.replaced(moved, alive).without(lost))
        if lost:
            self._record_lost(application, graph, address, lost, reason or f"peer {address} died")
        pending = self._pending.pop(application, None)
        if lost and not moved and pending is None:
            self.changes.change(application, graph)
            self.changes.publish(application, (address,))
            self.peer.instruct(request.report())
            return True
        if pending is not None:  # the present graph has the unanswered take-overs already; their peers are asked again
            pending.timer.cancel()
            moved.update((name, graph.roles.peers[name]) for name in pending.operators if name not in moved)
        request.enter(State.TAKING_OVER)
        self.changes.change(application, graph)
        self.peer.record(TakeoverBegun, application, dead=address, operators=moved, epoch=graph.epoch)
        timer = self.peer.after(self.config.setup, self._timed_out, application, graph.epoch)
        self._pending[application] = _Pending(set(moved), timer)
        self._request(application, graph)
        self._complete_if_all(application)
        return True

    def resume(self, application: str, operators: Collection[str]) -> None:
        """Ask the peers of operators again to take over, which they have in the graph and do not execute yet."""
        request = self.led[application]
        graph = request.graph
        request.enter(State.TAKING_OVER)
        timer = self.peer.after(self.config.setup, self._timed_out, application, graph.epoch)
        self._pending[application] = _Pending(set(operators), timer)
        self._request(application, graph)

    def _record_lost(self, application: str, graph: Graph, address: str, lost: Collection[str], reason: str) -> None:
        """Record lost active replicas, and how many are left of their operators."""
        replicas = replicas_of(Plan.from_bytes(graph.plan))
        left = {name: sum(bool(graph.roles.peers[each]) for each in replicas[name]) for name in map(original, lost)}
        self.peer.record(ActiveReplicasLost, application, at=address, operators=sorted(lost), left=left, reason=reason)

    def _request(self, application: str, graph: Graph) -> None:
        """Send TakeOver to all backups that have not answered, now and once every interval."""
        pending, request = self._pending.get(application), self.led.get(application)
        if pending is not None and request is not None and request.graph.epoch == graph.epoch:
            for operator in sorted(pending.operators):
                self.peer.send(graph.roles.peers[operator], TakeOver(graph, operator))
            self.peer.after(RESEND_INTERVAL, self._request, application, graph)

    def _took_over(self, sender: str, message: TookOver) -> None:
        pending = self._pending.get(message.application)
        request = self.led.get(message.application)
        if pending is None or request is None or request.graph.epoch != message.epoch:
            return
        if message.refusal:
            self.fail(message.application, request.graph.attempt, message.refusal)
            return
        pending.operators.discard(message.operator)
        self._complete_if_all(message.application)

    def _complete_if_all(self, application: str) -> None:
        """Publish the new graph if all backups have taken over."""
        pending = self._pending[application]
        if pending.operators:
            return
        pending.timer.cancel()
        del self._pending[application]
        self.led[application].enter(State.RUNNING)
        graph = self.led[application].graph
        peers, backups = graph.roles.peers, graph.roles.backups
        self.changes.publish(application)
        self.peer.record(TakenOver, application, peers=peers, backups=backups, epoch=graph.epoch)
        self.peer.instruct(self.led[application].report())
        self.changes.change_ended(application)

    def _timed_out(self, application: str, epoch: int) -> None:
        request, pending = self.led.get(application), self._pending.get(application)
        if request is not None and pending is not None and request.graph.epoch == epoch:
            del self._pending[application]
            silent = ", ".join(f"{name} at {request.graph.roles.peers[name]}" for name in sorted(pending.operators))
            self.fail(application, request.graph.attempt, f"backups did not take over in time: {silent}")

    def end(self, application: str) -> None:
        """Cancel the take-over of an application that has ended."""
        pending = self._pending.pop(application, None)
        if pending is not None:
            pending.timer.cancel()

    # -- at members --------------------------------------------------------------------------------------------------

    def _take_over(self, sender: str, message: TakeOver) -> None:
        graph, operator, address = message.graph, message.operator, self.peer.address
        if self.changes.refuses(sender, graph, "TakeOver"):
            return
        member = self.changes.member_of(graph)
        if member is None or member.ended:
            self.peer.send(sender, Lost(graph.application, graph.attempt, no_session(address, sender)))
            return
        refusal = ""
        for name in sorted(name for name, peer in graph.roles.peers.items() if peer == address):
            # all operators of the graph at this peer: adopting it would discard the backups of those left out
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
