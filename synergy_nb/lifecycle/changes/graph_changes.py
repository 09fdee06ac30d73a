"""Changes of the graph of a running application: the origin publishes the new graph, and all peers in it adopt it.

The *epoch* of a graph counts its changes. The origin sends the latest graph several times (:class:`GraphChanged`); a
repetition has no effect. A peer that adopts a graph commits the links of its components again if their inputs have
moved, releases components that have moved away, and instructs its driver. A peer without a role in the graph leaves.

By this message, a peer with a copy of a shared component joins the applications that share it. A peer that had a shared
component stays a member of these applications until the graph of the component's own application shows that it has
moved: until then it may still be the peer that others copy from, and has to retain what the sharing applications have
not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Message
from synergy_nb.lifecycle.records.members import Member, producer_of
from synergy_nb.lifecycle.records.messages import Graph, GraphAsked, GraphChanged, Lost
from synergy_nb.lifecycle.records.session_config import RESEND_INTERVAL, SENDS
from synergy_nb.lifecycle.sessions.participation import Participation
from synergy_nb.plan import Plan

__all__ = ["GraphChanger", "GraphChanges"]

#: Seconds that a peer waits before it reports that a shared component, which is here by its graph, has ended: if it has
#: moved, the origin of its owner says so within this time.
OWNER_REPORTS: Final = 5.0


class GraphChanges:
    """Publishes changed graphs of the applications that a peer leads, and adopts those of other origins."""

    def __init__(self, participation: Participation) -> None:
        self.participation = participation
        self.peer = participation.peer
        self.ledger = participation.ledger
        self.membership = participation.membership
        self.components = participation.components
        self.deploying = participation.deploying
        self.members = participation.members
        self.led = participation.led
        # application of this peer to the operators whose backups have not taken over yet. Its graph is not told until
        # they have: a backup that learned from it that it has a component would discard the copy that it needs for that
        self.taking_over: dict[str, set[str]] = {}
        # listeners, called after each published graph of an application that this peer leads
        self.on_published: list[Callable[[str], None]] = []
        # listeners, called when a move (completed or given up) or a take-over in an application of this peer has ended
        self.on_change_ended: list[Callable[[str], None]] = []
        # listeners, called with each application whose new graph this peer has adopted
        self.on_adopted: list[Callable[[str], None]] = []
        # listeners, called with each record whose application another peer leads now than before
        self.on_led_anew: list[Callable[[Member], None]] = []
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {GraphChanged: self._graph_changed}

    # -- at the origin -----------------------------------------------------------------------------------------------

    def change(self, application: str, graph: Graph) -> None:
        """Replace the graph of an application that this peer leads, and watch the peers of the new graph."""
        request = self.led[application]
        before, after = set(request.graph.watched), set(graph.watched)
        request.change(graph)
        for address in sorted(after - before):
            self.membership.watch(address)
        for address in sorted(before - after):
            self.membership.unwatch(address)

    def publish(self, application: str, also: Collection[str] = ()) -> None:
        """Send the graph of an application to all its peers, and to the peers ``also``."""
        graph = self.led[application].graph
        self._publish(application, graph, sorted({*graph.addresses, *also}), SENDS)
        self.search(application)

    def search(self, application: str) -> None:
        """Notify the listeners that an application has lost replicas, or that its graph was published."""
        for listener in self.on_published:
            listener(application)

    def remind(self, application: str, address: str) -> None:
        """Send the graph of an application to one of its peers, which may not have heard of it, a few times."""
        if application not in self.taking_over:
            self._publish(application, self.led[application].graph, (address,), SENDS)

    def tell(self, application: str, address: str) -> None:
        """Send the graph of an application to a peer that asks for it, or that seems not to know it."""
        if application not in self.taking_over:
            self.peer.send(address, GraphChanged(self.led[application].graph))

    def dismiss(self, application: str, addresses: Collection[str]) -> None:
        """Send the graph of an application to those of these peers that have no part in it, so that they leave."""
        request = self.led.get(application)
        if request is not None:
            graph = request.graph
            self._publish(application, graph, sorted(set(addresses).difference(graph.addresses)), SENDS)

    def change_ended(self, application: str) -> None:
        """Notify the listeners that a move or a take-over in an application of this peer has ended."""
        for listener in self.on_change_ended:
            listener(application)

    def _publish(self, application: str, graph: Graph, addresses: Collection[str], times: int) -> None:
        request = self.led.get(application)
        if not times or request is None or request.graph.attempt != graph.attempt:
            return
        if request.graph is not graph:  # a later graph is sent to its own peers: it may not name a peer that was left
            addresses = sorted(set(addresses).difference(request.graph.addresses))
            if addresses and application in self.taking_over:  # nor may that peer know yet: it may have to go on
                self.peer.after(RESEND_INTERVAL, self._publish, application, graph, addresses, times)
                return
        for address in addresses:
            self.peer.send(address, GraphChanged(request.graph))
        if addresses:
            self.peer.after(RESEND_INTERVAL, self._publish, application, graph, addresses, times - 1)

    # -- at members --------------------------------------------------------------------------------------------------

    def adopt(self, member: Member, graph: Graph) -> None:
        """Adopt a graph of an application in which this peer takes part."""
        before, application, address = member.graph, graph.application, self.peer.address
        leaving = member.adopt(graph)
        if before.origin != graph.origin:
            self._follow_leader(member, before.origin)
        users: set[str] = set()
        for operator in sorted(member.deployed):
            if operator in leaving:
                users |= self.components.discard(member, operator)
            elif _links(before, member.plan, operator) != _links(graph, member.plan, operator):
                self._recommit(member, operator)
        backed_up = before.roles.backed_up(address)
        for operator in graph.roles.backed_up(address):
            if operator not in backed_up or before.roles.peers[operator] != graph.roles.peers[operator]:
                self.components.commit_backup(member, operator)
        for operator in backed_up:
            if operator not in member.deployed and operator not in graph.roles.backed_up(address):
                self.components.commit_backup(member, operator)
        self.components.update_producers(graph)
        if member.running:
            self.components.offer(application, member.sharable_operators)
        self._share(member, anew=graph.epoch > before.epoch)
        self.deploying.update_sharers(application)
        self.deploying.deploy(application)  # before leaving: the driver learns the new peers of moved components
        for user in sorted({application, *users}):
            if user in self.members and self._has_no_role(self.members[user]):
                self.participation.depart(user)

    def _follow_leader(self, member: Member, before: str) -> None:
        """Watch the peer that leads an application instead of the one ``before``."""
        if before != self.peer.address:
            self.membership.unwatch(before)
        if member.leader != self.peer.address:
            self.membership.watch(member.leader)
        for listener in self.on_led_anew:
            listener(member)

    def _has_no_role(self, member: Member) -> bool:
        """Whether this peer has no role in an application any more, and no component that the application reads."""
        graph, address = member.graph, self.peer.address
        if address in graph.addresses or address == graph.origin or member.moves.follows_early(address):
            return False
        for owner, operator in self.components.used_by(graph.application):
            known = self.members.get(owner)
            if owner == graph.application or known is None or known.ended:
                continue
            if known.graph.roles.peers.get(operator) == address:
                return False
        return True

    def _share(self, member: Member, *, anew: bool) -> None:
        """Add the taps at this peer, and register the application as user of the shared components at this peer.

        A shared component that has ended is reported to the origin, if the graph is new to this peer (``anew``).
        """
        graph, address = member.graph, self.peer.address
        for tap in graph.shared:
            producer = producer_of(graph, member.plan, tap) if tap in member.operators else None
            if producer is not None and tap not in member.deployed:
                self.ledger.commit(graph.application, tap, 0.0, {})
                self.components.deploy(member, graph, tap)
        for producer in graph.producers:
            if producer.peer == address and not self.components.use(producer[:2], graph.application) and anew:
                self.peer.after(OWNER_REPORTS, self._report_ended, graph, producer)

    def _report_ended(self, graph: Graph, producer: Producer) -> None:
        """Report that a shared component has ended here, unless a later graph has it at another peer."""
        member = self.members.get(graph.application)
        if member is not None and member.graph is graph and not self.components.use(producer[:2], graph.application):
            reason = f"{producer.operator} of {producer.application} at {self.peer.address} has ended"
            self.peer.send(graph.origin, Lost(graph.application, graph.attempt, reason, graph.epoch))

    def _recommit(self, member: Member, operator: str) -> None:
        """Commit a component's links again, because its inputs have moved."""
        graph = member.graph
        refusal = self.components.commit(graph, member.plan, operator)
        if refusal:
            reason = f"{operator} at {self.peer.address}: {refusal}"
            self.peer.send(graph.origin, Lost(graph.application, graph.attempt, reason))

    def _graph_changed(self, sender: str, message: GraphChanged) -> None:
        graph, address = message.graph, self.peer.address
        if sender not in (graph.origin, address) and graph.origin != address:
            # who tells a graph of another peer may have made it: that peer is asked, unless the graph has to follow
            # (test_a_graph_that_others_tell_is_a_reason_to_ask)
            known = self.members.get(graph.application)
            if known is None or not (known.outdates(graph) or _follows(known.graph, graph)):
                self.peer.send(graph.origin, GraphAsked(graph.application, graph.attempt))
                return
        if self.participation.refuses(sender, graph, "GraphChanged"):
            return
        member = self.participation.member_of(graph)
        if (
            member is None
            and graph.application not in self.members
            and address in graph.producer_copies | graph.producer_peers
        ):
            member = self.participation.join(sender, graph, "GraphChanged")
            if member is not None:
                member.start()  # the application runs
        if member is not None and not member.ended:
            before = member.graph
            self.adopt(member, graph)
            self._pass_on(member, before)
            for listener in self.on_adopted:
                listener(graph.application)

    def _pass_on(self, member: Member, before: Graph) -> None:
        """Send the graph to the old peer of a component of several inputs that began here, or that this peer feeds.

        It begins here when it has ended there, and what this peer feeds it goes to the new peer from now on; the origin
        may be farther from the old peer than this one is.
        """
        graph, address = member.graph, self.peer.address
        for operator, old in before.roles.peers.items():
            new = graph.roles.peers.get(operator, "")
            if not (new and old) or new == old or address in (old, graph.origin) or self.membership.is_dead(old):
                continue  # a rebuilt replica has no old peer
            feeds = graph.roles.reads(member.plan, operator).values()
            if len(feeds) > 1 and address in {new, *(graph.roles.peers[up] for up in feeds if up)}:
                self.peer.send(old, GraphChanged(graph))


class GraphChanger:
    """Base of the protocols that change the graphs of running applications."""

    def __init__(self, changes: GraphChanges) -> None:
        self.peer = changes.peer
        self.membership = changes.membership
        self.changes = changes
        self.config = changes.participation.config
        self.led = changes.led
        self.participation = changes.participation


def _follows(known: Graph, graph: Graph) -> bool:
    """Whether a graph is what a known one becomes when the move that it names is completed."""
    roles, told = known.roles, graph.roles.backups
    for operator, to in roles.followers.items():
        backups = dict(roles.backups)
        if operator in backups and set(told.get(operator, ())) - {roles.peers[operator]} == set(backups[operator]):
            backups[operator] = told[operator]  # with the old peer, if the new one had a backup
        if graph == known.changed(roles.replaced({operator: to}, backups)):
            return True
    return False


def _links(graph: Graph, plan: Plan, operator: str) -> list[tuple[str, str]]:
    """Return, for each input of an operator, the operator that it reads and its peer."""
    return [(up, graph.roles.peers.get(up, "")) for up in graph.roles.reads(plan, operator).values()]
