"""Recent moves of components; they prevent moves to and fro between peers (section 3.4.4).

The dissertation prevents the ping-pong phenomenon by projection: a peer that would violate a limit refuses. That
suffices if predictions are exact. If peers are equally loaded and predictions vary, one peer may be above its limit
while the other is projected below it, and a moment later the reverse holds. So a component moves at most once in
``rest`` seconds, and for ``memory`` seconds it does not return to a peer that it has left. If it still has no slack
meanwhile, other components move, or its limit is missed and reported: a second move so soon after the first would more
likely follow noise than load.
"""

from __future__ import annotations

import math
from typing import Final

RETURN_BAN: Final = 1800.0  # seconds for which a component does not return to a peer that it has left
REST: Final = 600.0  # least seconds between two moves of a component


class MoveHistory:
    """The recent moves of components.

    Parameters
    ----------
    memory
        Time for which a component does not return to a peer that it has left, seconds.
    rest
        Least time between two moves of a component, seconds.

    Examples
    --------
    >>> history = MoveHistory(memory=600.0, rest=60.0)
    >>> history.moved("app/sort", "p", "q", now=0.0)
    >>> history.resting("app/sort", 59.0), history.resting("app/sort", 60.0), history.left("app/sort", 60.0)
    (True, False, {'p'})
    """

    __slots__ = ("_moves", "memory", "rest")

    def __init__(self, memory: float = RETURN_BAN, rest: float = REST) -> None:
        if not (0.0 <= rest < math.inf and 0.0 <= memory < math.inf):
            raise ValueError(f"memory, rest: {memory}, {rest}; expected seconds from 0")
        self.memory = memory
        self.rest = rest
        self._moves: dict[str, list[tuple[float, str]]] = {}  # component to times, and peers that it left

    def moved(self, component: str, source: str, target: str, now: float) -> None:
        """Record that a component has moved.

        ``component``: name of the application and component; ``source``, ``target``: addresses of the peers.
        """
        for other in [name for name, moves in self._moves.items() if now - moves[-1][0] >= self.memory]:
            del self._moves[other]
        kept = [each for each in self._moves.get(component, []) if now - each[0] < self.memory and each[1] != target]
        self._moves[component] = [*kept, (now, source)]

    def resting(self, component: str, now: float) -> bool:
        """Whether the last move of a component is so recent that it must not move again."""
        moves = self._moves.get(component, [])
        return bool(moves) and now - moves[-1][0] < self.rest

    def left(self, component: str, now: float) -> set[str]:
        """Addresses of the peers to which a component must not return."""
        moves = [each for each in self._moves.get(component, []) if now - each[0] < self.memory]
        if not moves:
            self._moves.pop(component, None)
        return {peer for _, peer in moves}

    def of(self, component: str) -> tuple[tuple[float, str], ...]:
        """Times of the remembered moves of a component in seconds, each with the address of the peer that it left."""
        return tuple(self._moves.get(component, ()))

    def forget(self, component: str) -> None:
        """Forget the moves of a component whose application has ended."""
        self._moves.pop(component, None)
