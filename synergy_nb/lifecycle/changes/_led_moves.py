"""A move as its origin sees it, as one value with a table of states. No IO, no clock.

Theory of operation
-------------------
Two peers take part in a move: the old one and the new one. What each has said last is a :class:`Said`, which only
rises; what the origin makes of it is the state of the move, and :data:`FOLLOWS` is its whole life:

============  =========================================================================================================
doubtful      the old peer has asked the new one, which may still refuse; to a reader of the journal no move has begun
agreeing      both peers are asked whether they agree
following     both have agreed, and all members know the graph with the follower, which has to catch up
orphaned      the old peer has died since, and the follower is asked whether it can do without
completed     the new peer executes the component
given up      the component stays where it is, or its application has ended
============  =========================================================================================================

A move is completed from any state in which the new peer has accepted: a follower that is ready before both have agreed
saves the publication of its graph. Only a follower that all members know can be orphaned: before that nothing of the
component is at the new peer but what it has committed, and the move is given up with its old peer.

``test_led_moves`` walks the table, and schedules of faults take each of its ways; the campaigns of moves fail at any
change that it does not list.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from synergy_nb.events import state_tables

if TYPE_CHECKING:
    from synergy_nb.events.state_tables import StateTable
    from synergy_nb.lifecycle.records.messages import Graph
    from synergy_nb.overlay.answer_limits import AnswerLimit


class Said(IntEnum):
    """What a peer of a move has said last."""

    NOTHING = 0
    AGREED = 1
    READY = 2  # the new peer: it could replace the component; the old one: it has what its backup needs, if it gets one


class MoveState(StrEnum):
    """How far a move is."""

    DOUBTFUL = "doubtful"
    AGREEING = "agreeing"
    FOLLOWING = "following"
    ORPHANED = "orphaned"
    COMPLETED = "completed"
    GIVEN_UP = "given up"


_ENDS = {MoveState.COMPLETED, MoveState.GIVEN_UP}

#: State to the states that may follow it.
FOLLOWS: Final[StateTable[MoveState]] = {
    MoveState.DOUBTFUL: frozenset({MoveState.AGREEING, MoveState.GIVEN_UP}),
    MoveState.AGREEING: frozenset(_ENDS | {MoveState.FOLLOWING}),
    MoveState.FOLLOWING: frozenset(_ENDS | {MoveState.ORPHANED}),
    MoveState.ORPHANED: frozenset(_ENDS),
    MoveState.COMPLETED: frozenset(),
    MoveState.GIVEN_UP: frozenset(),
}


class LedMove:
    """A move that this peer leads."""

    __slots__ = ("_limit", "_said", "before", "began", "graph", "moved", "old", "operator", "request", "state", "to")

    def __init__(
        self,
        before: Graph,  # graph of the application without the move
        operator: str,  # component that moves
        to: str,  # address of its new peer
        began: float,  # time in seconds
        moved: Callable[[str], None],  # callback for the result: an empty text, or why it was not moved
        request: int,  # number of the question by which the old peer asks the new one, which has to accept; 0: none
    ) -> None:
        self.before = before
        self.graph = before.changed(before.roles.with_follower(operator, to))  # with the follower
        self.operator = operator
        self.old = before.roles.peers[operator]  # address of its present peer
        self.to = to
        self.began = began
        self.moved = moved
        self.request = request
        self.state = MoveState.DOUBTFUL if request else MoveState.AGREEING
        self._said = {self.old: Said.NOTHING, to: Said.NOTHING}
        self._limit: AnswerLimit | None = None  # limit of the present step

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def application(self) -> str:
        """Application of the component."""
        return self.before.application

    @property
    def over(self) -> bool:
        """Whether it is completed or given up."""
        return self.state in _ENDS

    @property
    def published(self) -> bool:
        """Whether all members know the follower."""
        return self.state in (MoveState.FOLLOWING, MoveState.ORPHANED)

    @property
    def swaps(self) -> bool:
        """Whether the new peer has a backup of the component, which the old one gets in exchange."""
        return self.to in self.before.roles.backups.get(self.operator, ())

    @property
    def silent(self) -> list[str]:
        """Peers that have not agreed yet, sorted."""
        return sorted(peer for peer, said in self._said.items() if said is Said.NOTHING)

    @property
    def unanswered(self) -> list[str]:
        """Peers that have not agreed yet; once both have, those that have to say that they are ready. Sorted.

        The new peer is asked again even if it was ready: it may lag since then.
        """
        return self.silent or sorted({self.to, *(() if self.snapshot_kept else (self.old,))})

    @property
    def snapshot_kept(self) -> bool:
        """Whether the old peer has what it needs for the backup that it gets, if it gets one."""
        return self._said[self.old] is Said.READY

    @property
    def both_ready(self) -> bool:
        """Whether the move could be completed, by what both peers have said."""
        return self.snapshot_kept and self._said[self.to] is Said.READY

    def is_of(self, peer: str, operator: str) -> bool:
        """Whether a component moves to or from a peer."""
        return operator == self.operator and peer in (self.old, self.to)

    # -- what happens to it ------------------------------------------------------------------------------------------

    def _become(self, state: MoveState) -> None:
        if state is not self.state:
            state_tables.check(f"move of {self.application}/{self.operator}", FOLLOWS, self.state, state)
            self.state = state

    def hear(self, peer: str, *, ready: bool) -> None:
        """Hear that a peer agrees, and whether it is ready; an answer that was overtaken takes nothing back."""
        if peer in self._said:
            self._said[peer] = max(self._said[peer], Said.READY if ready else Said.AGREED)

    def accept(self) -> None:
        """The new peer has accepted what the old one had asked."""
        self._become(MoveState.AGREEING)

    def publish(self) -> None:
        """All members hear of the follower now."""
        self._become(MoveState.FOLLOWING)

    def orphan(self) -> None:
        """The old peer has died: the follower takes over if it is ready."""
        self._become(MoveState.ORPHANED)

    def limit(self, limit: AnswerLimit) -> None:
        """Let the present step take no longer than that, and the one before as long as it likes."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = limit

    def end(self, state: MoveState) -> None:
        """Be completed or given up; nothing is waited for any more."""
        self._become(state)
        if self._limit is not None:
            self._limit.cancel()
