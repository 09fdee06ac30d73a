"""Creation of the components of a peer: anew, or from the snapshot and the output of a copy. No IO, no clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind, Restore
from synergy_nb.dataflow.streams.log.values import SnapshotCut

if TYPE_CHECKING:
    from synergy_nb.dataflow.logic import Logic
    from synergy_nb.dataflow.memory_shares import Memory
    from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
    from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
    from synergy_nb.dataflow.streams.hosting._outbox import Key, Outbox
    from synergy_nb.dataflow.streams.hosting.copies import Copy
    from synergy_nb.dataflow.streams.log.log import Limits


class Creation:
    """Creates the components of a peer, and remembers which failures it has reported."""

    def __init__(
        self,
        peer: str,  # address of the peer
        # outbox, known, hosted: effects of the peer, deployments that it knows, and its components
        outbox: Outbox,
        known: KnownDeployments,
        hosted: HostedComponents,
        limits: Limits,  # limits of each log, bytes
        *,
        # function that creates the logic of a component, None for a source
        create: Callable[[Deployment, Component], Logic | None],
        memory: Memory,  # memory that all components of the peer share
        speed: Callable[[], float],  # function that returns the present speed of the peer
    ) -> None:
        self._peer = peer
        self._outbox = outbox
        self._known = known
        self._hosted = hosted
        self._limits = limits
        self._create = create
        self._memory = memory
        self._speed = speed
        self._failed: dict[Key, tuple[int, Role]] = {}  # epoch and role of the last failure that was reported

    def forget(self, application: str, operators: dict[str, Assignment]) -> None:
        """Forget the failures of an application, except those of these operators."""
        for key in [key for key in self._failed if key[0] == application and key[1] not in operators]:
            del self._failed[key]

    def make(self, key: Key, assignment: Assignment, role: Role, copy: Copy | None) -> Component | None:
        """Create a component, from a copy if there is one; if that fails, report it once and return None."""
        if self._failed.get(key) == (assignment.epoch, role):
            return None
        share = self._memory.share(*key)
        component = Component(*key, self._peer, assignment, role, None, self._limits, share=share, speed=self._speed())
        state = copy.state if copy is not None else None
        try:
            if assignment.state_from and state is None and role is Role.ACTIVE:
                raise ValueError(f"{assignment.state_from}, from whose state it starts, has no copy on this peer")
            component.set_logic(self._create(self._known.found[key[0]], component))
            if copy is not None:
                component.repeat(copy.log.end)
            # Before the cut: that ends the log where the snapshot was made, and drops output that will be made again
            if copy is not None and copy.merge.joined and (state is not None or component.logic is None):
                component.adopt_log(copy.take_log(self._limits))
            if copy is not None and state is not None and component.logic is not None:
                pieces = copy.pieces
                tables = {part.table: tuple(pieces[number] for number in part.pieces) for part in state.parts}
                self._outbox.effect(Restore(component, state.head, tables))
                counts = {"consumed": state.consumed, "dropped": state.dropped}
                component.restore(SnapshotCut(state.inputs, state.end, state.order, state.causes, **counts))
            elif state is not None and component.logic is None:
                component.go_on(state.head)
        except ValueError as error:
            share.release()
            self._failed[key] = assignment.epoch, role
            self._outbox.effect(Fact(FactKind.COMPONENT_FAILED, *key, str(error)))
            return None
        self._hosted.add(component)
        return component
