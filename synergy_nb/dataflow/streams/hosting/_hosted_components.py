"""The components that execute at a peer: what may run next, and which sources are read. No IO, no clock."""

from __future__ import annotations

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.predictions import PeerPredictions
from synergy_nb.dataflow.streams.hosting._outbox import Key, Outbox
from synergy_nb.dataflow.streams.hosting.effects import Close, Hold, Open
from synergy_nb.dataflow.streams.log.merge import WaitingChunk
from synergy_nb.dataflow.streams.log.values import Output


class HostedComponents:
    """The components that execute at a peer, as active ones or as followers."""

    def __init__(self, outbox: Outbox, predictions: PeerPredictions) -> None:
        self._outbox = outbox  # effects and frames of the peer
        self._predictions = predictions  # predictions of the peer, which follow each component here
        self.found: dict[Key, Component] = {}  # application and operator to the component
        # component that may execute to the first entry that it would execute; as of its last change
        self.runnable: dict[Component, WaitingChunk] = {}
        self.opened: set[Key] = set()  # application and operator of each source that is being read

    def has(self, component: Component) -> bool:
        """Whether a component is still on this peer: work on it may end after it has left."""
        return self.found.get((component.application, component.operator)) is component

    def producer(self, output: Output) -> Component | None:
        """Return the component here that makes an output, for readers."""
        component = self.found.get((output.application, output.operator))
        if component is None or component.epoch != output.epoch or component.role is not Role.ACTIVE:
            return None
        return component

    def add(self, component: Component) -> None:
        """Execute a component on this peer."""
        self.found[component.application, component.operator] = component
        self._predictions.add(component)

    def remove(self, key: Key) -> Component | None:
        """Remove a component from this peer; return it if there was one."""
        component = self.found.pop(key, None)
        if component is not None:
            self._predictions.remove(component)
            self.runnable.pop(component, None)
        return component

    def emitting(self, key: Key) -> Component | None:
        """Return a component that emits without being executed here; None if it may not emit."""
        component = self.found.get(key)
        if component is None or component.failed or component.role is not Role.ACTIVE:
            return None
        return component if component.external or key in self.opened else None

    def open(self, component: Component) -> None:
        """Have a source be read from the end of its log, if it is not being read."""
        key = component.application, component.operator
        if key not in self.opened:
            self.opened.add(key)
            self._outbox.effect(Open(*key, component.log.end))

    def hold(self, key: Key, *, on: bool) -> None:
        """Have a source stand still, or go on, if it is being read."""
        if key in self.opened:
            self._outbox.effect(Hold(*key, on))

    def close(self, key: Key) -> None:
        """Have a source be read no more."""
        if key in self.opened:
            self.opened.remove(key)
            self._outbox.effect(Close(*key))
