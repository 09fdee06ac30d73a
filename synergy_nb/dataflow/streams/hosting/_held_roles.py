"""What a peer is for a component, as one value with a table of states. No IO, no clock.

Theory of operation
-------------------
A deployment names a role (:class:`~synergy_nb.dataflow.deployments.Role`); what the peer is at a moment says more, as
roles take time to fill. :data:`FOLLOWS` is the whole life:

============  =========================================================================================================
none          nothing of the component is here
backup        a copy is here, and nothing executes; a copy without a snapshot is one, too
follower      the copy is here, and a component executes beside the active one and sends nothing
failed        the component should be active here and could not be created; another epoch tries again
replaying     active: it repeats what the component before it had emitted, and waits for the order in which that read
aligned       active: it reads on by itself, aligned, and asks how far it repeats the one before it
rebuilding    active: it started from the state of another replica, and is not subscribed to all of its inputs yet
active        active, and nothing is left of what it replaced
============  =========================================================================================================

A *move*, as its new peer sees it, is the path backup, follower, then replaying or aligned or at once active; as its old
peer sees it, active, then none or backup. A take-over is the same path without the follower. So there is no value for a
move besides: only the number of the move is remembered, in the copy, to tell one from the next.

Whoever has a copy cannot be active: the copy became the component. This is why taking the copy and becoming active is
one step here (:meth:`HeldRole.lead`); done in two, a frame for the copy that came in between would be appended to a log
that is another one's. ``test_hosting_states`` walks the table; the campaigns fail at any change that is not listed.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from synergy_nb.events import state_tables

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.hosting._order_recovery import Recovery
    from synergy_nb.dataflow.streams.hosting._outbox import Key
    from synergy_nb.dataflow.streams.hosting.copies import Copy
    from synergy_nb.events.state_tables import StateTable


class RoleState(StrEnum):
    """What a peer is for a component at present."""

    NONE = "none"
    BACKUP = "backup"
    FOLLOWER = "follower"
    FAILED = "failed"
    REPLAYING = "replaying"
    ALIGNED = "aligned"
    REBUILDING = "rebuilding"
    ACTIVE = "active"


_NEW = {RoleState.REPLAYING, RoleState.ALIGNED, RoleState.ACTIVE}  # states in which a component may become active
_LEFT = {RoleState.BACKUP, RoleState.NONE}

#: State to the states that may follow it.
FOLLOWS: Final[StateTable[RoleState]] = {
    RoleState.NONE: frozenset(_NEW | {RoleState.BACKUP, RoleState.REBUILDING, RoleState.FAILED}),
    RoleState.BACKUP: frozenset(_NEW | {RoleState.FOLLOWER, RoleState.FAILED, RoleState.NONE}),
    RoleState.FOLLOWER: frozenset(_NEW | _LEFT),  # it exists already, so creating it cannot fail
    RoleState.FAILED: frozenset(_NEW | _LEFT | {RoleState.REBUILDING}),
    RoleState.REPLAYING: frozenset(_LEFT | {RoleState.ACTIVE}),
    RoleState.ALIGNED: frozenset(_LEFT | {RoleState.ACTIVE}),
    RoleState.REBUILDING: frozenset(_LEFT | {RoleState.ACTIVE}),
    RoleState.ACTIVE: frozenset(_LEFT),
}


class HeldRole:
    """What a peer is for one component."""

    __slots__ = ("_key", "copy", "kept", "recovery", "state")

    def __init__(self, key: Key) -> None:
        self._key = key  # application and operator of the component
        self.state = RoleState.NONE  # present state
        self.copy: Copy | None = None  # copy of the component: of a backup and of a follower
        self.kept = False  # whether that copy is from a folder
        # answers about the order of inputs that are collected: of who replays or is aligned
        self.recovery: Recovery | None = None

    def _become(self, state: RoleState) -> None:
        if state is not self.state:
            state_tables.check(f"role for {'/'.join(self._key)}", FOLLOWS, self.state, state)
            self.state = state

    def back_up(self, copy: Copy, *, kept: bool = False) -> None:
        """Hold a copy; ``kept``: whether it is from a folder."""
        self._become(RoleState.BACKUP)
        self.copy, self.recovery, self.kept = copy, None, kept

    def follow(self) -> None:
        """Execute what the active component executes, from the copy on."""
        self._become(RoleState.FOLLOWER)

    def stop_following(self) -> None:
        """Execute nothing any more; the copy stays."""
        self._become(RoleState.BACKUP)

    def lead(self, state: RoleState, recovery: Recovery | None = None) -> None:
        """Be active from now on, in one of the states of an active component; the copy has become the component.

        ``state``: replaying, aligned, rebuilding or active; failed if the component could not be created; ``recovery``:
        answers that are collected, of who replays or is aligned.
        """
        self._become(state)
        self.copy, self.recovery, self.kept = None, recovery, False

    def settle(self) -> None:
        """Be active and nothing else: the order is known, or all inputs are subscribed."""
        self._become(RoleState.ACTIVE)
        self.recovery = None

    def leave(self) -> None:
        """Hold nothing any more."""
        self._become(RoleState.NONE)
        self.copy, self.recovery, self.kept = None, None, False


class HeldRoles:
    """What a peer is for each component of which it holds anything."""

    def __init__(self) -> None:
        self.found: dict[Key, HeldRole] = {}  # application and operator to the role

    def of(self, key: Key) -> HeldRole:
        """Return the role for a component; a new one, of a peer that holds nothing of it, if there is none."""
        role = self.found.get(key)
        if role is None:
            role = self.found[key] = HeldRole(key)
        return role

    def leave(self, key: Key) -> None:
        """Hold nothing of a component any more."""
        role = self.found.pop(key, None)
        if role is not None:
            role.leave()

    def leave_failed(self, application: str, operators: Collection[str]) -> None:
        """Forget the components of an application that could not be created here, except these operators."""
        for key in [key for key, role in self.found.items() if role.state is RoleState.FAILED]:
            if key[0] == application and key[1] not in operators:
                self.leave(key)

    @property
    def copies(self) -> dict[Key, Copy]:
        """Copies of the components at this peer."""
        return {key: role.copy for key, role in self.found.items() if role.copy is not None}

    @property
    def recoveries(self) -> dict[Key, Recovery]:
        """Recoveries of the components at this peer."""
        return {key: role.recovery for key, role in self.found.items() if role.recovery is not None}

    def copy(self, key: Key) -> Copy | None:
        """Return the copy of a component here; None if there is none."""
        role = self.found.get(key)
        return None if role is None else role.copy
