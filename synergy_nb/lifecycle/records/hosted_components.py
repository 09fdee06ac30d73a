"""The components of a peer, and the applications that use each: directly, or through a stream that they share.

A component is identified by the application that had it deployed and by the operator's id in the plan of that
application. When this application ends, the component stays while another application uses its stream, or a stream
derived from it further downstream. It is removed with its last user, so no producer outlives its consumers (section
2.3.3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

import msgspec

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer
from synergy_nb.lifecycle.records.members import Member, producers_of
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.models.signatures import Segment
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import needed_bytes
from synergy_nb.plan.derived.coarser_windows import stated_windows
from synergy_nb.plan.derived.stream_containment import stated_part
from synergy_nb.plan.derived.wider_projections import stated_columns

__all__ = ["ComponentId", "Components", "HostedComponent"]

ComponentId: TypeAlias = tuple[str, str]
"""Application that had it deployed, and operator."""


class HostedComponent:
    """A component of this peer."""

    __slots__ = ("epoch", "load", "offered", "operator", "plan", "producers", "promised", "reached", "users")

    def __init__(self, graph: Graph, plan: Plan, operator: str) -> None:
        self.plan = plan
        self.operator = operator  # id of the component's operator in that plan
        # projected time from a source until a tuple leaves the component, seconds
        self.reached = graph.reached.get(operator, 0.0)
        # execution time that was promised to its application, seconds; None if none was
        self.promised = graph.promised.get(operator)
        self.users: set[str] = set()  # applications that use its stream
        self.offered = False  # whether its stream is in the directory
        # measured load as a signature of the input stream, in shares of the peer's capacity; None before the driver has
        # measured one
        self.load: tuple[Segment, ...] | None = None
        # number of moves and take-overs of the component before this one
        self.epoch = graph.roles.epochs.get(operator, 0)
        # all components that produce its stream, at any peer: those upstream of it, and itself
        self.producers = producers_of(graph, plan, operator)

    @property
    def complete(self) -> bool:
        """Whether its stream has every tuple that its name promises; else it is not shared.

        A component that drops overdue tuples, or reads from one, lacks some.
        """
        return self.plan.qos.overdue != "drop" or not self.plan.upstream(self.operator)


class Components:
    """The components of a peer, the applications that use each, and the streams that the directory offers."""

    def __init__(self, peer: Peer, ledger: Ledger, streams: PublishedStreams | None) -> None:
        self.peer = peer
        self.ledger = ledger  # resources of the peer; a component holds its share until it is removed
        self.streams = streams  # directory of running streams; None where this peer offers none
        # applications of which the components at this peer, their users or their loads have changed since the
        # projection of impact last emptied this dictionary; in the order of the changes
        self.touched: dict[str, None] = {}
        self._components: dict[ComponentId, HostedComponent] = {}
        self._used: dict[str, set[ComponentId]] = {}  # by application that uses them

    def __contains__(self, component: object) -> bool:
        return component in self._components

    def __getitem__(self, component: ComponentId) -> HostedComponent:
        return self._components[component]

    def __len__(self) -> int:
        return len(self._components)

    def get(self, component: ComponentId) -> HostedComponent | None:
        """The component, or None."""
        return self._components.get(component)

    def items(self) -> Iterable[tuple[ComponentId, HostedComponent]]:
        """All components by their ids."""
        return self._components.items()

    def deploy(self, member: Member, graph: Graph, operator: str, *, prepares: bool = False) -> None:
        """Deploy a component of an application at this peer.

        ``graph``: graph by which it is here, which the member may adopt only afterwards; ``prepares``: whether it takes
        no tuples until its driver says so.
        """
        member.components.deploy(operator, prepares=prepares)
        component = HostedComponent(graph, member.plan, operator)
        name = graph.application, operator
        before = self._components.get(name)
        for user in () if before is None else before.users:
            self._used[user].discard(name)
        self._components[name] = component
        self._add_user(name, graph.application)

    # -- resources ----------------------------------------------------------------------------------------------------

    def commit(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Commit the resources of a component, replacing those of its backup or of an earlier graph."""
        read = [up for up in graph.roles.reads(plan, operator).values() if up]
        links = {(graph.roles.peers[up], up): plan.bandwidth(up) for up in read}
        remote = {link: bandwidth for link, bandwidth in links.items() if link[0] != self.peer.address}
        self.ledger.drop(graph.application, operator)
        load, external = plan.load(operator), plan.on_spark(operator)
        memory = needed_bytes(plan, operator)
        return self.ledger.commit(graph.application, operator, load, remote, external=external, memory=memory)

    def commit_backups(self, member: Member) -> str:
        """Commit the links of an application's backups at this peer; return an empty text, or why that is refused."""
        graph, address = member.graph, self.peer.address
        for operator in graph.roles.backed_up(address):
            refusal = self.commit_backup_link(graph, member.plan, operator)
            if refusal:
                return f"backup of {operator} at {address}: {refusal}"
        member.commit_backups()
        return ""

    def commit_backup(self, member: Member, operator: str) -> None:
        """Commit the link of the backup of an operator at this peer; release the resources if it has no backup here."""
        self.ledger.drop(member.graph.application, operator)
        if operator in member.graph.roles.backed_up(self.peer.address):
            self.commit_backup_link(member.graph, member.plan, operator)

    def commit_backup_link(self, graph: Graph, plan: Plan, operator: str) -> str:
        """Commit the link from the primary to a backup at this peer; return an empty text, or why that is refused."""
        link = graph.roles.peers[operator], operator
        return self.ledger.commit(graph.application, operator, 0.0, {link: plan.bandwidth(operator)})

    # -- users ----------------------------------------------------------------------------------------------------

    def use(self, component: ComponentId, application: str) -> bool:
        """Register an application as a user of a component; return False if the component is not at this peer."""
        found = self._components.get(component)
        if found is None:
            return False
        self._add_user(component, application)
        return True

    def _add_user(self, name: ComponentId, application: str) -> None:
        component = self._components[name]
        if application in component.users:
            return
        component.users.add(application)
        self._used.setdefault(application, set()).add(name)
        self._touch(component)

    def _touch(self, component: HostedComponent) -> None:
        """Mark all users of a component as changed: of users that share a component, only one counts its load."""
        self.touched.update(dict.fromkeys(sorted(component.users)))

    def owners(self, plan: Plan, operator: str) -> list[str]:
        """Applications whose components here make the stream of an operator."""
        name = plan.stream_name(operator)
        return [owner for (owner, its), each in self._components.items() if each.plan.stream_name(its) == name]

    def of(self, application: str) -> list[tuple[ComponentId, HostedComponent]]:
        """Components at this peer that an application uses, with their ids."""
        return [(name, self._components[name]) for name in self.used_by(application)]

    def used_by(self, application: str) -> list[ComponentId]:
        """Ids of the components at this peer that an application uses, sorted."""
        return sorted(self._used.get(application, ()))

    def load_measured(self, component: ComponentId, load: tuple[Segment, ...]) -> None:
        """Handle the driver's report of a component's load as a signature; an empty one if the load is as planned."""
        found = self._components.get(component)
        if found is not None and (load or found.load):
            found.load = load or None
            self._touch(found)

    def offer(self, application: str, operators: Iterable[str]) -> None:
        """Publish streams of a running application in the directory."""
        if self.streams is None:
            return
        for operator in sorted(operators):
            component = self._components.get((application, operator))
            if component is not None and component.complete and not component.offered:
                component.offered = True
                producers = msgspec.json.encode(component.producers).decode()
                name = component.plan.stream_name(operator)
                attributes: dict[str, str | float | int] = {"producers": producers, "reached": component.reached}
                stated = (each(component.plan, operator) for each in (stated_part, stated_windows, stated_columns))
                self.streams.offer(name, application, operator, attributes, next(filter(None, stated), None))

    def update_producers(self, graph: Graph) -> None:
        """Update the producers of the components of an application whose graph has changed."""
        for (owner, operator), component in self.of(graph.application):
            if owner == graph.application:
                component.epoch = graph.roles.epochs.get(operator, 0)
                producers = producers_of(graph, component.plan, operator)
                if producers != component.producers:
                    component.producers = producers
                    component.offered = False  # so that it is published again, with its new producers

    def discard(self, member: Member, operator: str) -> set[str]:
        """Remove a component that has moved to another peer; return the applications that used it."""
        member.components.leave(operator)
        name = member.graph.application, operator
        component = self._components.get(name)
        if component is None:
            return set()
        for user in component.users:
            self._used[user].discard(name)
        self._touch(component)
        self._remove(name)
        return component.users

    def leave(self, application: str, retained: Collection[str]) -> set[str]:
        """Unregister an application that has ended, and remove the components without further users.

        ``retained``: ids of its sinks that stay because of their results, without their share of resources.

        Returns: applications that had deployed the components that it used at this peer.
        """
        self.touched[application] = None
        owners = {application}
        for name in self.used_by(application):
            owner, operator = name
            owners.add(owner)
            if owner == application and operator in retained:
                self.ledger.drop(*name)
                continue
            component = self._components[name]
            component.users.discard(application)
            self._used[application].discard(name)
            if component.users:
                self._touch(component)
                if owner == application:
                    self._orphan(application, component)
            else:
                self._remove(name)
        if not self._used.get(application):
            self._used.pop(application, None)
        return owners

    def _orphan(self, application: str, component: HostedComponent) -> None:
        """Remove the origin from a component whose application has ended while others use it."""
        producers = (
            producer.orphaned() if producer.application == application else producer for producer in component.producers
        )
        component.producers = tuple(sorted(producers))
        if component.offered:
            component.offered = False
            self.offer(application, (component.operator,))

    def _remove(self, name: ComponentId) -> None:
        component = self._components.pop(name)
        if component.offered and self.streams is not None:
            self.streams.withdraw(component.plan.stream_name(component.operator), *name)
        self.ledger.drop(*name)
