"""Set-up of an application at the peers that take part: they commit and deploy the components that are confirmed.

When all consumers of a component have confirmed it, its peer commits its resources, deploys it, and confirms its inputs
(:class:`Confirm`); for a part on Spark it confirms the inputs only after the driver has reported that the query runs.
Peers with backups or with streams that the application shares receive :class:`Share` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synergy_nb.control.peer import Message
from synergy_nb.control.rights import READ
from synergy_nb.lifecycle.records.members import Member, producer_of
from synergy_nb.lifecycle.records.messages import Confirm, Confirmed, Graph, Refused, Share
from synergy_nb.lifecycle.sessions.agreements import Agreements
from synergy_nb.lifecycle.sessions.impact import Impacts
from synergy_nb.lifecycle.sessions.participation import Participation
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import needed_bytes
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.operators.catalogue import TAP

__all__ = ["Commitments"]


class Commitments:
    """Commits and deploys components at one peer during set-up."""

    def __init__(
        self,
        # participation, impacts: applications in which the peer takes part, and its projection of impact
        participation: Participation,
        impacts: Impacts,
        # function that registers the graph of a sharer of applications that this peer leads; it returns a tap and the
        # reason of a refusal, or two empty texts
        admit: Callable[[Graph], tuple[str, str]],
        agreements: Agreements,  # agreements of origins to what a component adds to the delays of their applications
        deployed: Callable[
            [Plan, str], None
        ],  # function that is called with each component that this peer is to execute
        # function of (application that this peer leads, peer) that sends the graph to a peer
        tell: Callable[[str, str], None],
    ) -> None:
        self.peer = participation.peer
        self.deploying = participation.deploying
        self.components = participation.components
        self.ledger = participation.ledger
        self.impacts = impacts
        self.participation = participation
        self.admit = admit
        self.agreements = agreements
        self._deployed = deployed
        self._tell = tell
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {Confirm: self._confirm, Share: self._share}

    def _share(self, sender: str, message: Share) -> None:
        graph, address = message.graph, self.peer.address
        if refusal := self.participation.refusal(graph):
            self._confirm_sharing(graph, "", refusal)
            return
        tap, refusal = self.admit(graph) if address in graph.owner_origins else ("", "")
        if not refusal and address in graph.addresses:
            member = self.participation.join(sender, graph, "Share")
            if member is None:
                return
            tap, refusal = self.deploying.add_user(member)
            refusal = refusal or self._back_up(member)
            if not refusal and address in graph.producer_peers and self._asks(graph):
                self.agreements.ask(member, "", lambda refusal: self._confirm_sharing(graph, tap, refusal))
                return
        self._confirm_sharing(graph, tap, refusal)

    def _back_up(self, member: Member) -> str:
        """Commit and deploy the backups at this peer; return an empty text, or the reason of a refusal."""
        refusal = self.components.commit_backups(member)
        if not refusal:
            self.deploying.deploy(member.graph.application)
        return refusal

    def _confirm_sharing(self, graph: Graph, tap: str, refusal: str) -> None:
        if refusal:
            self.peer.send(graph.origin, Refused(graph.application, graph.attempt, tap, refusal))
            return
        self.peer.send(graph.origin, Confirmed(graph.application, graph.attempt, self.peer.address))

    def _confirm(self, sender: str, message: Confirm) -> None:
        operator = message.operator
        if refusal := self.participation.refusal(message.graph):
            self._refuse(message.graph, operator, refusal)
            return
        member = self.participation.join(sender, message.graph, "Confirm")
        if member is None:
            led = self.participation.led.get(message.graph.application)
            if led is not None and message.graph.attempt < led.graph.attempt:
                self._tell(led.name, message.graph.origin)  # that peer was succeeded, and does not know of it
            return
        if operator not in member.operators or operator in member.deployed:
            return  # a duplicate
        if not member.confirm(operator, message.consumer):
            return
        owner = self._unknown_owner(member, operator)
        if owner:
            reason = f"{operator} at {self.peer.address}: its stream runs here for {owner}"
            graph = member.graph
            self.peer.send(graph.origin, Refused(graph.application, graph.attempt, operator, reason, owner))
        elif self._asks(member.graph):
            self.agreements.ask(member, operator, lambda refusal: self._deploy(member, operator, refusal))
        else:
            self._deploy(member, operator)

    def _asks(self, graph: Graph) -> bool:
        """Whether components of a graph need the agreement of origins."""
        return bool(graph.promised) and self.impacts.refuses

    def _unknown_owner(self, member: Member, operator: str) -> str:
        """Return an application whose component here makes the same stream, of which the origin does not know."""
        graph, plan = member.graph, member.plan
        if not graph.promised or not plan.load(operator):
            return ""
        known = {graph.application, *graph.known}
        return next((each for each in self.components.owners(plan, operator) if each not in known), "")

    def _deploy(self, member: Member, operator: str, refusal: str = "") -> None:
        graph, plan, peer = member.graph, member.plan, self.peer
        links = {(graph.roles.peers[up], up): plan.bandwidth(up) for up in plan.upstream(operator)}
        remote = {link: bandwidth for link, bandwidth in links.items() if link[0] != peer.address}
        node = plan.operators[operator]
        tapped = producer_of(graph, plan, operator) if node.kind == TAP else None
        if node.kind == TAP and (tapped is None or tapped[:2] not in self.components):
            refusal = "the stream has ended"
        elif tapped is not None and not self._may_read(graph, tapped.application):
            refusal = "its stream is one of another application, which the user of this one may not read"
        else:
            refusal = refusal or self.impacts.refusal(member, operator, agreed=self._asks(graph))
            refusal = refusal or self.ledger.commit(
                graph.application, operator, plan.load(operator), remote, external=node.kind == PART,
                memory=needed_bytes(plan, operator),
            )  # fmt: skip
        if refusal:
            self._refuse(graph, operator, refusal)
            return
        self.components.deploy(member, graph, operator, prepares=node.kind == PART)
        self._deployed(plan, operator)
        if member.deployed == member.operators:
            self.ledger.expire(graph.application)  # release reservations of graphs that were not chosen
        self.deploying.deploy(graph.application)
        if node.kind != PART:
            self._confirm_upstream(member, operator)

    def _refuse(self, graph: Graph, operator: str, refusal: str) -> None:
        reason = f"{operator} at {self.peer.address}: {refusal}"
        self.peer.send(graph.origin, Refused(graph.application, graph.attempt, operator, reason))

    def _may_read(self, graph: Graph, owner: str) -> bool:
        """Whether the user of a graph may read an application that has components here."""
        member = self.participation.members.get(owner)
        return member is None or member.graph.rights.allow(graph.rights.owner, READ)

    def ready(self, member: Member, operator: str) -> None:
        """Confirm the inputs of a part on Spark, whose query at this peer now takes tuples."""
        if member.components.is_prepared(operator):
            self._confirm_upstream(member, operator)

    def _confirm_upstream(self, member: Member, operator: str) -> None:
        graph = member.graph
        upstream = member.plan.upstream(operator)
        for name in upstream:
            self.peer.send(graph.roles.peers[name], Confirm(graph, name, operator))
        if not upstream:
            self.peer.send(graph.origin, Confirmed(graph.application, graph.attempt, operator))
