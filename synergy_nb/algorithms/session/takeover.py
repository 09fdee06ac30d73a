"""What a session does when a peer dies that executes replicated components: their backups take over (section 4.2).

Theory of operation
-------------------
Every component that has backups is replicated passively: the backups' peers keep what the primary emits and, from time
to time, the state that it had then. When the failure detector declares a peer dead, the origin gives each component
that was there to the first of its backups that lives (:class:`TakeOver`). That peer commits the resources, has its
driver go on from what was replicated, and says so (:class:`Taken`). When all have, everybody who takes part learns the
new graphs (:class:`Moved`): upstream peers send what the new primary has not seen to it, and it emits from then on.
Both messages are sent more than once, and do no harm when they come again.

A graph's *epoch* counts its changes. A death while a take-over is under way begins the next one from the graph that was
being set up. An application ends, by name, when a component has no backup left, when a backup cannot take over, or when
that takes too long; sources, sinks and the origin have no backups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

import msgspec

from synergy_nb.algorithms.session.components import Components
from synergy_nb.algorithms.session.messages import Graph, Lost, Moved, SessionConfig, Taken, TakeOver
from synergy_nb.algorithms.session.records import Member, Owned
from synergy_nb.graph import Deploy, Moving, Replicate, Report
from synergy_nb.ledger import Ledger
from synergy_nb.overlay.membership import Membership
from synergy_nb.peer import Message, Peer, Timer
from synergy_nb.plan import Plan

__all__ = ["TakeOvers"]

AGAIN: Final = 1.0  # seconds until a message is sent again
TIMES: Final = 3  # that everybody is told where components are


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
    peer, ledger, membership, components
        Parts of the peer that take-overs work with.
    config
        Times.
    owned, members
        Applications that it leads, and in which it takes part.
    lost
        Called with (application, attempt, reason) when an application that this peer leads cannot go on.
    """

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        membership: Membership,
        components: Components,
        config: SessionConfig,
        owned: Mapping[str, Owned],
        members: MutableMapping[str, Member],
        lost: Callable[[str, int, str], None],
    ) -> None:
        self.peer = peer
        self.ledger = ledger
        self.membership = membership
        self.components = components
        self.config = config
        self.owned = owned
        self.members = members
        self.lost = lost
        self._pending: dict[str, _Pending] = {}
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            TakeOver: self._take_over,
            Taken: self._taken,
            Moved: self._moved,
        }

    # -- backups -----------------------------------------------------------------------------------------------------

    def back_up(self, member: Member) -> str:
        """Keep what primaries elsewhere emit, as far as this peer backs them up; empty, or the reason why it cannot."""
        graph, plan, address = member.graph, member.plan, self.peer.address
        for operator in graph.backed_up(address):
            link = graph.peers[operator], operator
            refusal = self.ledger.commit(graph.application, operator, 0.0, {link: plan.bandwidth(operator)})
            if refusal:
                return f"backup of {operator} at {address}: {refusal}"
            self.peer.instruct(Replicate(graph.application, operator, graph.plan, graph.peers, graph.backups))
        return ""

    # -- at the origin -----------------------------------------------------------------------------------------------

    def begin(self, application: str, address: str) -> bool:
        """Have the backups of what was on a dead peer take over; False if not all of it has any that lives."""
        owned = self.owned[application]
        graph = owned.graph
        if not owned.running or address in graph.sharing:
            return False
        dead = self.membership.is_dead
        alive = {name: tuple(each for each in peers if not dead(each)) for name, peers in graph.backups.items()}
        moved: dict[str, str] = {}
        for operator, peer in graph.peers.items():
            if dead(peer):
                if not alive.get(operator):
                    return False
                moved[operator], *rest = alive[operator]
                alive[operator] = tuple(rest)
        pending = self._pending.pop(application, None)
        if pending is not None:  # what it was to move is in the graph already, and may have to be asked for again
            pending.timer.cancel()
            moved.update((name, graph.peers[name]) for name in pending.operators if name not in moved)
        owned.graph = graph = msgspec.structs.replace(
            graph, peers={**graph.peers, **moved}, backups=alive, epoch=graph.epoch + 1
        )
        self.peer.record("taking_over", application, dead=address, operators=moved, epoch=graph.epoch)
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
                self.peer.send(graph.peers[operator], TakeOver(graph, operator))
            self.peer.after(AGAIN, self._ask, application, graph)

    def _taken(self, sender: str, message: Taken) -> None:
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
        graph = self.owned[application].graph
        self._tell(application, graph, TIMES)
        self.peer.record("taken_over", application, peers=graph.peers, backups=graph.backups, epoch=graph.epoch)
        self.peer.instruct(Report(application, "running", "", graph.peers, graph.backups))

    def _tell(self, application: str, graph: Graph, times: int) -> None:
        """Tell everybody where components are, as long as that is true."""
        owned = self.owned.get(application)
        if times and owned is not None and owned.graph is graph:
            for address in graph.addresses:
                self.peer.send(address, Moved(graph))
            self.peer.after(AGAIN, self._tell, application, graph, times - 1)

    def _too_late(self, application: str, epoch: int) -> None:
        owned, pending = self.owned.get(application), self._pending.get(application)
        if owned is not None and pending is not None and owned.graph.epoch == epoch:
            del self._pending[application]
            silent = ", ".join(f"{name} at {owned.graph.peers[name]}" for name in sorted(pending.operators))
            self.lost(application, owned.graph.attempt, f"backups did not take over in time: {silent}")

    # -- at those who take part --------------------------------------------------------------------------------------

    def _member(self, graph: Graph) -> Member | None:
        member = self.members.get(graph.application)
        if member is None or member.graph.attempt != graph.attempt or member.graph.epoch > graph.epoch:
            return None
        return member

    def _take_over(self, sender: str, message: TakeOver) -> None:
        graph, operator, address = message.graph, message.operator, self.peer.address
        member = self._member(graph)
        if member is None:
            self.peer.send(sender, Lost(graph.application, graph.attempt, f"no session at {address}"))
            return
        refusal = ""
        if operator not in member.deployed:
            refusal = self._commit(graph, member.plan, operator)
            if not refusal:
                member.deployed.add(operator)
                self.components.add(graph, member.plan, operator)
                self.peer.instruct(
                    Deploy(
                        graph.application,
                        operator,
                        graph.plan,
                        graph.peers,
                        graph.discipline,
                        graph.backups,
                        resumed=True,
                    )
                )
        member.graph = graph
        member.operators = {name for name, peer in graph.peers.items() if peer == address}
        reason = f"{operator} at {address}: {refusal}" if refusal else ""
        self.peer.send(sender, Taken(graph.application, graph.epoch, operator, reason))

    def _moved(self, sender: str, message: Moved) -> None:
        graph = message.graph
        member = self._member(graph)
        if member is None:
            return
        before, member.graph = member.graph, graph
        for operator in sorted(member.deployed):
            if any(before.peers[up] != graph.peers[up] for up in member.plan.upstream(operator)):
                refusal = self._commit(graph, member.plan, operator)
                if refusal:
                    reason = f"{operator} at {self.peer.address}: {refusal}"
                    self.peer.send(sender, Lost(graph.application, graph.attempt, reason))
        for operator in graph.backed_up(self.peer.address):
            if before.peers[operator] != graph.peers[operator]:
                link = graph.peers[operator], operator
                self.ledger.drop(graph.application, operator)
                self.ledger.commit(graph.application, operator, 0.0, {link: member.plan.bandwidth(operator)})
        self.peer.instruct(Moving(graph.application, graph.peers, graph.backups))

    def _commit(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Promise a component its share, in place of what its backup or an earlier graph took."""
        links = {(graph.peers[up], up): plan.bandwidth(up) for up in plan.upstream(operator)}
        remote = {link: bandwidth for link, bandwidth in links.items() if link[0] != self.peer.address}
        self.ledger.drop(graph.application, operator)
        return self.ledger.commit(graph.application, operator, plan.load(operator), remote)
