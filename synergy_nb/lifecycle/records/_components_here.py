"""The components of an application at one of its peers, each with its state. No IO, no clock.

============  =========================================================================================================
absent        nothing is deployed; of a backup no more is at this peer than its link
preparing     a part on Spark that is deployed, but takes no tuples yet: its inputs are not confirmed before it does
executing     deployed, and it takes tuples; a follower executes, too
failed        deployed, and it has failed; whoever leads the application decides what becomes of it
============  =========================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, KeysView
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from synergy_nb.events import state_tables

if TYPE_CHECKING:
    from synergy_nb.events.state_tables import StateTable


class ComponentPhase(StrEnum):
    """What has become of a component at a peer."""

    ABSENT = "absent"
    PREPARING = "preparing"
    EXECUTING = "executing"
    FAILED = "failed"


#: State to the states that may follow it.
FOLLOWS: Final[StateTable[ComponentPhase]] = {
    ComponentPhase.ABSENT: frozenset({ComponentPhase.PREPARING, ComponentPhase.EXECUTING}),
    ComponentPhase.PREPARING: frozenset({ComponentPhase.EXECUTING, ComponentPhase.FAILED, ComponentPhase.ABSENT}),
    ComponentPhase.EXECUTING: frozenset({ComponentPhase.FAILED, ComponentPhase.ABSENT}),
    ComponentPhase.FAILED: frozenset({ComponentPhase.ABSENT}),
}


class ComponentsHere:
    """The components of one application that a peer has deployed."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[str, ComponentPhase] = {}  # operator to the state of its component, unless that is absent

    @property
    def deployed(self) -> KeysView[str]:
        """Operators whose components are deployed here."""
        return self._states.keys()

    @property
    def executing(self) -> list[str]:
        """Deployed operators whose components have not failed, sorted."""
        return sorted(name for name, state in self._states.items() if state is not ComponentPhase.FAILED)

    def _become(self, operator: str, state: ComponentPhase) -> None:
        before = self._states.get(operator, ComponentPhase.ABSENT)
        if state is not before:
            state_tables.check(f"component {operator}", FOLLOWS, before, state)
            self._states[operator] = state

    def deploy(self, operator: str, *, prepares: bool = False) -> None:
        """A component is deployed; ``prepares``: whether it takes no tuples until it :meth:`is_prepared`."""
        self._become(operator, ComponentPhase.PREPARING if prepares else ComponentPhase.EXECUTING)

    def is_prepared(self, operator: str) -> bool:
        """Note that a component takes tuples; return whether it has been awaited."""
        awaited = self._states.get(operator) is ComponentPhase.PREPARING
        if awaited:
            self._become(operator, ComponentPhase.EXECUTING)
        return awaited

    def fail(self, operator: str) -> None:
        """A component has failed; nothing is noted of one that is not deployed here."""
        if operator in self._states:
            self._become(operator, ComponentPhase.FAILED)

    def leave(self, operator: str) -> None:
        """A component is not deployed any more."""
        self._states.pop(operator, None)  # absent may follow any state

    def end(self, retained: Collection[str]) -> None:
        """Of all components only these are left, as far as they are deployed."""
        self._states = {name: state for name, state in self._states.items() if name in retained}
