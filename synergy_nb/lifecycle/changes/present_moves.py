"""A move that is under way, and a command to move that waits, as the origin of an application knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.overlay.answer_limits import AnswerLimit

__all__ = ["Command", "Move"]


class Move:
    """A move that is under way."""

    __slots__ = (
        "before",
        "began",
        "following",
        "graph",
        "kept",
        "moved",
        "old",
        "operator",
        "orphaned",
        "ready",
        "request",
        "timer",
        "to",
        "waiting",
    )

    def __init__(
        self, before: Graph, operator: str, to: str, began: float, moved: Callable[[str], None], request: int
    ) -> None:
        self.before = before
        self.graph = before.changed(before.roles.with_follower(operator, to))
        self.operator = operator
        self.old = before.roles.peers[operator]
        self.to = to
        self.began = began
        self.moved = moved
        self.waiting = {self.old, to}  # peers that have not agreed
        self.ready = False  # whether the follower could replace the component now
        self.kept = False  # whether the old peer has what it needs for the backup that it gets, if it gets one
        self.following = False  # whether the graph with the follower has been published
        self.orphaned = False  # whether the old peer has died, so that the follower is asked whether it is ready
        self.request = request  # number of the old peer's request, which the new peer has to accept; 0: none
        self.timer: AnswerLimit | None = None

    @property
    def swaps(self) -> bool:
        """Whether the new peer has a backup of the component, which the old one gets in exchange."""
        return self.to in self.before.roles.backups.get(self.operator, ())

    @property
    def unanswered(self) -> set[str]:
        """Peers that have not agreed; or else those that are not ready for the new graph."""
        return self.waiting or {self.to, *(() if self.kept else (self.old,))}

    def is_of(self, peer: str, operator: str) -> bool:
        """Whether a component moves to or from a peer."""
        return operator == self.operator and peer in (self.old, self.to)

    @property
    def doubtful(self) -> bool:
        """Whether the new peer may still refuse the request of the old one."""
        return bool(self.request) and self.to in self.waiting


class Command(NamedTuple):
    """A command to move a component, which waits until another change has ended."""

    operator: str
    to: str
    moved: Callable[[str], None]
