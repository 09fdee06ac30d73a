"""How the graph of an application that runs changes: everybody who takes part learns the new one, and adopts it.

A graph's *epoch* counts its changes. The origin says the latest graph more than once (:class:`Moved`), and it does no
harm when it comes again. Who adopts it promises the links of its components anew where what they read has moved, gives
back what is no longer here, and has its driver do what the new graph says. A peer that has no part in it leaves.

A peer that keeps a copy of a shared component joins those who share it by this message. A peer where a shared component
was stays with them until it hears from its own application that the component is elsewhere: until then it may still be
the one that others copy, and has to keep what those who share it have not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Message, Peer
from synergy_nb.lifecycle.deploying import Deploying
from synergy_nb.lifecycle.members import Member, producer_of
from synergy_nb.lifecycle.messages import Graph, Lost, Moved
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan

__all__ = ["AGAIN", "GraphChanges"]

AGAIN: Final = 1.0  # seconds until a message is sent again
TIMES: Final = 3  # times that everybody is told of a graph


class GraphChanges:
    """Changes of the graphs of applications that a peer leads, and of those in which it takes part.

    Parameters
    ----------
    peer, ledger, membership, deploying
        Parts of the peer that changes work with.
    owned, members
        Applications that it leads, and in which it takes part.
    joined
        Gives the part of this peer in the application of (sender, graph, name of a message), which may be new; None if
        the message is refused.
    leave
        Called with an application of which nothing is at this peer any more.

    Attributes
    ----------
    on_published : list of callables (application)
        Told of each change of an application that this peer leads.
    on_settled : list of callables (application)
        Told when a component of an application that this peer leads has moved, has stayed, or has been taken over.
    on_joined : list of callables (application)
        Told of each application that this peer joins because it keeps copies of what that one shares.
    """

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        membership: Membership,
        deploying: Deploying,
        owned: Mapping[str, Request],
        members: Mapping[str, Member],
        joined: Callable[[str, Graph, str], Member | None],
        leave: Callable[[str], None],
    ) -> None:
        self.peer = peer
        self.ledger = ledger
        self.membership = membership
        self.components = deploying.components
        self.deploying = deploying
        self.owned = owned
        self.members = members
        self.joined = joined
        self.leave = leave
        self.on_published: list[Callable[[str], None]] = []
        self.on_settled: list[Callable[[str], None]] = []
        self.on_joined: list[Callable[[str], None]] = []
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Moved: self._moved}

    # -- at the origin -----------------------------------------------------------------------------------------------

    def change(self, application: str, graph: Graph) -> None:
        """Make a graph that of an application which this peer leads, and watch whoever takes part in it."""
        owned = self.owned[application]
        before, after = set(owned.graph.watched), set(graph.watched)
        owned.graph = graph
        for address in sorted(after - before):
            self.membership.watch(address)
        for address in sorted(before - after):
            self.membership.unwatch(address)

    def publish(self, application: str, also: Collection[str] = ()) -> None:
        """Tell everybody who takes part of the graph of an application, and ``also`` others."""
        graph = self.owned[application].graph
        self._publish(application, graph, sorted({*graph.addresses, *also}), TIMES)
        for listener in self.on_published:
            listener(application)

    def cancel(self, application: str) -> None:
        """Nothing of an application that this peer leads is on its way any more."""
        for listener in self.on_settled:
            listener(application)

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
        for operator in graph.roles.backed_up(address):
            refusal = self._take_in(graph, member.plan, operator)
            if refusal:
                return f"backup of {operator} at {address}: {refusal}"
        member.backed = True
        self.deploying.deploy(graph.application)
        return ""

    def commit(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Promise a component its share, in place of what its backup or an earlier graph took."""
        links = {(graph.roles.peers[up], up): plan.bandwidth(up) for up in plan.upstream(operator)}
        remote = {link: bandwidth for link, bandwidth in links.items() if link[0] != self.peer.address}
        self.ledger.drop(graph.application, operator)
        return self.ledger.commit(graph.application, operator, plan.load(operator), remote)

    def adopt(self, member: Member, graph: Graph) -> None:
        """Go over to a graph of an application in which this peer takes part."""
        before, member.graph = member.graph, graph
        application, address = graph.application, self.peer.address
        member.backed = True  # what it backs up from now on is promised below
        member.operators = {name for name, peer in graph.roles.peers.items() if peer == address}
        users: set[str] = set()
        for operator in sorted(member.deployed):
            if operator not in member.operators and graph.roles.followers.get(operator) != address:
                member.deployed.discard(operator)
                users |= self.components.discard(application, operator)
            elif any(before.roles.peers[up] != graph.roles.peers[up] for up in member.plan.upstream(operator)):
                self._recommit(member, operator)
        backed_up = before.roles.backed_up(address)
        for operator in graph.roles.backed_up(address):
            if operator not in backed_up or before.roles.peers[operator] != graph.roles.peers[operator]:
                self.keep(member, operator)
        for operator in backed_up:
            if operator not in member.deployed and address not in graph.roles.backups.get(operator, ()):
                self.keep(member, operator)
        followed = {name for name, peer in graph.roles.followers.items() if peer == address}
        member.ready &= followed.union(graph.roles.backed_up(address))
        member.faults = {name: reason for name, reason in member.faults.items() if name in graph.roles.followers}
        self.components.follow(graph)
        if member.running:
            self.components.offer(application, member.offered)
        self._share(member, anew=graph.epoch > before.epoch)
        self.deploying.update_sharers(application)
        self.deploying.deploy(application)  # what has moved has not ended, so who leaves is told where it is now
        for user in sorted({application, *users}):
            if user in self.members and self._departs(self.members[user]):
                self.leave(user)

    def _departs(self, member: Member) -> bool:
        """Whether a peer has no part in an application any more, nor anything that this one may still read."""
        graph, address = member.graph, self.peer.address
        if address in graph.addresses or address == graph.origin:
            return False
        for owner, operator in self.components.used_by(graph.application):
            known = self.members.get(owner)
            if owner == graph.application or known is None or known.ended:
                continue
            if known.graph.roles.peers.get(operator) == address:
                return False
        return True

    def _share(self, member: Member, *, anew: bool) -> None:
        """Take the taps that are here now, and use what the application shares here; what has ended is lost."""
        graph, address = member.graph, self.peer.address
        for tap in graph.shared:
            maker = producer_of(graph, member.plan, tap) if tap in member.operators else None
            if maker is not None and tap not in member.deployed:
                self.ledger.commit(graph.application, tap, 0.0, {})
                member.deployed.add(tap)
                self.components.add(graph, member.plan, tap)
        for use in graph.uses:
            if use.peer == address and not self.components.use(use[:2], graph.application) and anew:
                reason = f"{use.operator} of {use.application} at {address} has ended"
                self.peer.send(graph.origin, Lost(graph.application, graph.attempt, reason, graph.epoch))

    def keep(self, member: Member, operator: str) -> None:
        """Promise an operator what its backup at this peer takes in, or nothing if it has none."""
        self.ledger.drop(member.graph.application, operator)
        if self.peer.address in member.graph.roles.backups.get(operator, ()):
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
        link = graph.roles.peers[operator], operator
        return self.ledger.commit(graph.application, operator, 0.0, {link: plan.bandwidth(operator)})

    def _moved(self, sender: str, message: Moved) -> None:
        graph, address = message.graph, self.peer.address
        member = self.member_of(graph)
        if member is None and graph.application not in self.members and address in graph.spare | graph.sharing:
            member = self.joined(sender, graph, "Moved")
            if member is not None:
                member.started = True  # the application runs
        if member is not None and not member.ended:
            self.adopt(member, graph)
            for listener in self.on_joined:
                listener(graph.application)
