"""The moves of an application in which one of its peers has a part, beside what the graph says of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from synergy_nb.lifecycle.records.messages import Graph


class AdoptedMoves(NamedTuple):
    """What the next graph of an application says of its moves, to one of its peers."""

    followers: dict[str, str]  # operator to the peer that follows it, also before a graph says so
    here: set[str]  # operators that this peer follows, or of which it keeps a snapshot as they leave it
    anew: set[str]  # operators that this peer followed in an earlier move, whose end it has not heard


class MovesHere:
    """What a peer knows of these moves: as the old peer, as the new one, or before a graph names a follower."""

    __slots__ = ("_early", "_failures", "_kept", "_sharers")

    def __init__(self) -> None:
        self._early: dict[str, str] = {}  # operator to the peer that follows it before a graph says so
        self._kept: set[str] = set()  # operators that leave this peer, which will hold a backup of them
        self._failures: dict[str, str] = {}  # operator whose follower at this peer has failed to the reason
        # operator with a follower at this peer to the applications that share its stream
        self._sharers: dict[str, tuple[str, ...]] = {}

    def adopt(self, before: Graph, graph: Graph, address: str) -> AdoptedMoves:
        """Forget what the next graph ends: followers that it does not name, and those of an earlier move."""
        if graph.epoch > before.epoch:
            self._early.clear()
        named, former = graph.roles.followers, before.roles.followers
        followers = {**self._early, **named}
        later = before.epoch < graph.epoch
        anew = {name for name, to in named.items() if to == address == former.get(name) and later}
        self._kept &= named.keys()
        known = followers.keys() - anew
        self._failures = {name: why for name, why in self._failures.items() if name in known}
        here = {name for name, to in followers.items() if to == address} | self._kept
        return AdoptedMoves(followers, here, anew)

    # -- at the old peer ---------------------------------------------------------------------------------------------

    def keep(self, operator: str) -> None:
        """Keep a snapshot of an operator that leaves this peer, for the backup that it will be."""
        self._kept.add(operator)

    def keeps(self, operator: str) -> bool:
        """Whether this peer keeps a snapshot of an operator that leaves it."""
        return operator in self._kept

    # -- at the new peer ---------------------------------------------------------------------------------------------

    def wait_for(self, operator: str, sharers: tuple[str, ...]) -> None:
        """Let a follower be ready no sooner than the graphs of the applications that share its stream are known."""
        self._sharers[operator] = sharers

    def knows_sharers(self, operator: str, known: Collection[str]) -> bool:
        """Whether the applications that share the stream of a follower are among those known."""
        return all(name in known for name in self._sharers.get(operator, ()))

    def fail(self, operator: str, reason: str) -> None:
        """The follower here has failed."""
        self._failures[operator] = reason

    def failure(self, operator: str) -> str:
        """Return why the follower here has failed; empty if it has not."""
        return self._failures.get(operator, "")

    # -- before a graph names a follower -----------------------------------------------------------------------------

    def begin_early(self, operator: str, to: str) -> None:
        """Have a peer follow an operator, this one or another."""
        self._early[operator] = to

    def end_early(self, operator: str) -> bool:
        """End a follower that no graph has named; return whether there is one."""
        return bool(self._early.pop(operator, ""))

    def early(self, operator: str) -> str:
        """Return the peer that follows an operator although no graph says so; empty if none does."""
        return self._early.get(operator, "")

    def follows_early(self, address: str) -> bool:
        """Whether a peer follows anything although no graph says so."""
        return address in self._early.values()
