"""How the graph of an application that runs changes: everybody who takes part learns the new one, and adopts it.

A graph's *epoch* counts its changes. The origin says the latest graph more than once (:class:`Moved`), and it does no
harm when it comes again. Who adopts it promises the links of its components anew where what they read has moved, gives
back what is no longer here, and has its driver do what the new graph says. A peer that has no part in it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from synergy_nb.algorithms.session.components import Components
from synergy_nb.algorithms.session.deploying import Deploying
from synergy_nb.algorithms.session.messages import Graph, Lost, Moved
from synergy_nb.algorithms.session.records import Member, Owned
from synergy_nb.ledger import Ledger
from synergy_nb.overlay.membership import Membership
from synergy_nb.peer import Message, Peer
from synergy_nb.plan import Plan

__all__ = ["AGAIN", "Changes"]

AGAIN: Final = 1.0  # seconds until a message is sent again
TIMES: Final = 3  # times that everybody is told of a graph


class Changes:
    """Changes of the graphs of applications that a peer leads, and of those in which it takes part.

    Parameters
    ----------
    peer, ledger, membership, components, deploying
        Parts of the peer that changes work with.
    owned, members
        Applications that it leads, and in which it takes part.
    leave
        Called with an application of which nothing is at this peer any more.
    """

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        membership: Membership,
        components: Components,
        deploying: Deploying,
        owned: Mapping[str, Owned],
        members: Mapping[str, Member],
        leave: Callable[[str], None],
    ) -> None:
        self.peer = peer
        self.ledger = ledger
        self.membership = membership
        self.components = components
        self.deploying = deploying
        self.owned = owned
        self.members = members
        self.leave = leave
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Moved: self._moved}

    # -- at the origin -----------------------------------------------------------------------------------------------

    def change(self, application: str, graph: Graph) -> None:
        """Make a graph that of an application which this peer leads, and watch whoever takes part in it."""
        owned = self.owned[application]
        before, after = set(owned.graph.addresses), set(graph.addresses)
        owned.graph = graph
        for address in sorted(after - before):
            self.membership.watch(address)
        for address in sorted(before - after):
            self.membership.unwatch(address)

    def publish(self, application: str, also: Collection[str] = ()) -> None:
        """Tell everybody who takes part of the graph of an application, and ``also`` others."""
        graph = self.owned[application].graph
        self._publish(application, graph, sorted({*graph.addresses, *also}), TIMES)

    def _publish(self, application: str, graph: Graph, addresses: Collection[str], times: int) -> None:
        owned = self.owned.get(application)
        if times and owned is not None and owned.graph is graph:
            for address in addresses:
                self.peer.send(address, Moved(graph))
            self.peer.after(AGAIN, self._publish, application, graph, addresses, times - 1)

    # -- at those who take part --------------------------------------------------------------------------------------

    def member_of(self, graph: Graph) -> Member | None:
        """This peer's part of an application, if the graph is not older than the one that it knows."""
        member = self.members.get(graph.application)
        if member is None or member.graph.attempt != graph.attempt or member.graph.epoch > graph.epoch:
            return None
        return member

    def back_up(self, member: Member) -> str:
        """Promise what backups at this peer take in; empty, or the reason why that cannot be."""
        graph, address = member.graph, self.peer.address
        for operator in graph.backed_up(address):
            refusal = self._take_in(graph, member.plan, operator)
            if refusal:
                return f"backup of {operator} at {address}: {refusal}"
        member.backed = True
        self.deploying.tell(graph.application)
        return ""

    def commit(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Promise a component its share, in place of what its backup or an earlier graph took."""
        links = {(graph.peers[up], up): plan.bandwidth(up) for up in plan.upstream(operator)}
        remote = {link: bandwidth for link, bandwidth in links.items() if link[0] != self.peer.address}
        self.ledger.drop(graph.application, operator)
        return self.ledger.commit(graph.application, operator, plan.load(operator), remote)

    def adopt(self, member: Member, graph: Graph) -> None:
        """Go over to a graph of an application in which this peer takes part."""
        before, member.graph = member.graph, graph
        application, address = graph.application, self.peer.address
        if address not in graph.addresses and address != graph.origin:
            self.leave(application)
            return
        member.backed = True  # what it backs up from now on is promised below
        member.operators = {name for name, peer in graph.peers.items() if peer == address}
        for operator in sorted(member.deployed):
            if operator not in member.operators and graph.followers.get(operator) != address:
                member.deployed.discard(operator)
                self.components.discard(application, operator)
            elif any(before.peers[up] != graph.peers[up] for up in member.plan.upstream(operator)):
                self._recommit(member, operator)
        backed_up = before.backed_up(address)
        for operator in graph.backed_up(address):
            if operator not in backed_up or before.peers[operator] != graph.peers[operator]:
                self.keep(member, operator)
        copied = {*graph.backed_up(address), *(name for name, peer in graph.followers.items() if peer == address)}
        member.ready &= copied
        member.faults = {name: reason for name, reason in member.faults.items() if name in graph.followers}
        self.components.follow(graph)
        if member.running:
            self.components.offer(application, member.offered)
        self.deploying.tell(application)

    def keep(self, member: Member, operator: str) -> None:
        """Promise an operator what its backup at this peer takes in, or nothing if it has none."""
        self.ledger.drop(member.graph.application, operator)
        if self.peer.address in member.graph.backups.get(operator, ()):
            self._take_in(member.graph, member.plan, operator)

    def _recommit(self, member: Member, operator: str) -> None:
        """Promise a component the links from where what it reads now is."""
        graph = member.graph
        refusal = self.commit(graph, member.plan, operator)
        if refusal:
            reason = f"{operator} at {self.peer.address}: {refusal}"
            self.peer.send(graph.origin, Lost(graph.application, graph.attempt, reason))

    def _take_in(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Promise a backup the link over which it hears from what it backs up."""
        link = graph.peers[operator], operator
        return self.ledger.commit(graph.application, operator, 0.0, {link: plan.bandwidth(operator)})

    def _moved(self, sender: str, message: Moved) -> None:
        member = self.member_of(message.graph)
        if member is not None and not member.ended:
            self.adopt(member, message.graph)
