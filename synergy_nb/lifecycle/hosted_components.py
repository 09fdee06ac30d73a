"""The components of a peer, and the applications that use each: directly, or through a stream that they share.

A component is known by the application that had it deployed and the operator's id in that one's plan. It stays when
that application ends, as long as another one uses its stream, or a stream that is made of it further downstream; the
last user that goes takes it away, so that no producer outlives its consumers (section 2.3.3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

import msgspec

from synergy_nb.control.graph import Use
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer
from synergy_nb.lifecycle.members import producers_of
from synergy_nb.lifecycle.messages import Graph
from synergy_nb.models.signatures import Segment
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan

__all__ = ["Component", "ComponentId", "Components"]

ComponentId: TypeAlias = tuple[str, str]
"""Application that had it deployed, and operator."""


class Component:
    """A component of this peer.

    Parameters
    ----------
    plan
        Plan of the application that had the component deployed.
    operator
        Id of the component's operator in that plan.
    uses
        All components that make its stream: those upstream of it, wherever they are, and itself.
    reached
        Seconds from a source until a tuple is done here, as probes found it.
    epoch
        Number of components that have been in its place before.

    Attributes
    ----------
    users : set of str
        Applications that use its stream.
    offered : bool
        Whether its stream is in the directory.
    load : tuple of Segment or None
        Its load as a signature of the stream that it takes in, once the driver has measured one; shares of the peer's
        capacity.
    """

    __slots__ = ("epoch", "load", "offered", "operator", "plan", "reached", "users", "uses")

    def __init__(self, plan: Plan, operator: str, uses: tuple[Use, ...], reached: float, epoch: int) -> None:
        self.epoch = epoch
        self.plan = plan
        self.operator = operator
        self.uses = uses
        self.reached = reached
        self.users: set[str] = set()
        self.offered = False
        self.load: tuple[Segment, ...] | None = None

    @property
    def whole(self) -> bool:
        """Whether its stream is all that its name says: what drops overdue tuples gives less, and is not shared."""
        return self.plan.qos.overdue != "drop" or not self.plan.upstream(self.operator)


class Components:
    """Which components a peer has, who uses them, and which of their streams others can find.

    Parameters
    ----------
    peer
        The peer.
    ledger
        Its resources: a component holds its share as long as it is there.
    streams
        Where streams are offered; None where they are not.

    Attributes
    ----------
    touched : dict of str to None
        Applications whose components here, or the users or loads of these, have changed since whoever projects impact
        last took them out; in the order of the changes.
    """

    def __init__(self, peer: Peer, ledger: Ledger, streams: PublishedStreams | None) -> None:
        self.peer = peer
        self.ledger = ledger
        self.streams = streams
        self.touched: dict[str, None] = {}
        self._components: dict[ComponentId, Component] = {}
        self._used: dict[str, set[ComponentId]] = {}  # by application that uses them

    def __contains__(self, component: object) -> bool:
        return component in self._components

    def __getitem__(self, component: ComponentId) -> Component:
        return self._components[component]

    def __len__(self) -> int:
        return len(self._components)

    def get(self, component: ComponentId) -> Component | None:
        """The component, or None."""
        return self._components.get(component)

    def items(self) -> Iterable[tuple[ComponentId, Component]]:
        """All of them."""
        return self._components.items()

    def add(self, graph: Graph, plan: Plan, operator: str) -> None:
        """Take a component that an application has had deployed here."""
        uses, reached = producers_of(graph, plan, operator), graph.reached.get(operator, 0.0)
        component = Component(plan, operator, uses, reached, graph.roles.epochs.get(operator, 0))
        name = graph.application, operator
        before = self._components.get(name)
        for user in () if before is None else before.users:
            self._used[user].discard(name)
        self._components[name] = component
        self._join(name, graph.application)

    def use(self, component: ComponentId, application: str) -> bool:
        """Let an application use a component; False if it is not here."""
        found = self._components.get(component)
        if found is None:
            return False
        self._join(component, application)
        return True

    def _join(self, name: ComponentId, application: str) -> None:
        component = self._components[name]
        if application in component.users:
            return
        component.users.add(application)
        self._used.setdefault(application, set()).add(name)
        self._touch(component)

    def _touch(self, component: Component) -> None:
        """What the users of a component do here has changed; of a stream that they share, one counts the load."""
        self.touched.update(dict.fromkeys(sorted(component.users)))

    def of(self, application: str) -> list[tuple[ComponentId, Component]]:
        """Components here that an application uses, by their names."""
        return [(name, self._components[name]) for name in self.used_by(application)]

    def used_by(self, application: str) -> list[ComponentId]:
        """Components here that an application uses."""
        return sorted(self._used.get(application, ()))

    def observed(self, component: ComponentId, load: tuple[Segment, ...]) -> None:
        """The driver's report of a component's load as a signature; empty where it is as it was promised."""
        found = self._components.get(component)
        if found is not None and (load or found.load):
            found.load = load or None
            self._touch(found)

    def offer(self, application: str, operators: Iterable[str]) -> None:
        """Put streams of an application that runs in the directory."""
        if self.streams is None:
            return
        for operator in sorted(operators):
            component = self._components.get((application, operator))
            if component is not None and component.whole and not component.offered:
                component.offered = True
                uses = msgspec.json.encode(component.uses).decode()
                name = component.plan.stream_name(operator)
                attributes: dict[str, str | float | int] = {"uses": uses, "reached": component.reached}
                self.streams.offer(name, application, operator, attributes)

    def follow(self, graph: Graph) -> None:
        """The graph of an application has changed: its components here say what their streams are made by now."""
        for (owner, operator), component in self.of(graph.application):
            if owner == graph.application:
                component.epoch = graph.roles.epochs.get(operator, 0)
                uses = producers_of(graph, component.plan, operator)
                if uses != component.uses:
                    component.uses = uses
                    component.offered = False  # it is offered anew, as it is now

    def discard(self, application: str, operator: str) -> set[str]:
        """A component of an application that goes on is no longer here; gives the applications that used it."""
        name = application, operator
        component = self._components.get(name)
        if component is None:
            return set()
        for user in component.users:
            self._used[user].discard(name)
        self._touch(component)
        self._remove(name)
        return component.users

    def leave(self, application: str, keep: Collection[str]) -> set[str]:
        """An application has gone: components that nobody uses any more go with it.

        Parameters
        ----------
        application
            Application that has gone.
        keep
            Operators of it that stay, without their share: results at its sinks.

        Returns
        -------
        set of str
            Applications that had the components deployed that it used here.
        """
        self.touched[application] = None
        owners = {application}
        for name in self.used_by(application):
            owner, operator = name
            owners.add(owner)
            if owner == application and operator in keep:
                self.ledger.drop(*name)
                continue
            component = self._components[name]
            component.users.discard(application)
            self._used[application].discard(name)
            if component.users:
                self._touch(component)
                if owner == application:
                    self._leave_alone(application, component)
            else:
                self._remove(name)
        if not self._used.get(application):
            self._used.pop(application, None)
        return owners

    def _leave_alone(self, application: str, component: Component) -> None:
        """The application of a component has ended, and others go on using it: nobody leads it any more."""
        uses = (use.left_alone() if use.application == application else use for use in component.uses)
        component.uses = tuple(sorted(uses))
        if component.offered:
            component.offered = False
            self.offer(application, (component.operator,))

    def _remove(self, name: ComponentId) -> None:
        component = self._components.pop(name)
        if component.offered and self.streams is not None:
            self.streams.withdraw(component.plan.stream_name(component.operator), *name)
        self.ledger.drop(*name)
