"""What this peer has answered to the peers that asked whether it can execute a component of theirs.

A move may begin while its target still projects itself with the component: the request of the old peer and the
message of the origin that begins the move are under way at the same time, and either may come first. What the origin
asks for waits here until this peer has answered the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

__all__ = ["Approvals", "Asked"]

REMEMBERED: Final = 256  # number of requests of which a peer remembers the answer, or what waits for it


Value = TypeVar("Value")


class Asked(NamedTuple):
    """A request to execute a component."""

    by: str  # address of the peer that executes the component, and asks
    number: int
    application: str
    operator: str


class Approvals:
    """The answers that this peer has given, and what waits for them.

    Examples
    --------
    >>> approvals, asked = Approvals(), Asked("old peer", 1, "app", "count")
    >>> approvals.when_answered(asked, print)
    >>> approvals.answer(asked, "its utilisation would be 1.20")
    its utilisation would be 1.20
    >>> approvals.when_answered(asked, print)
    its utilisation would be 1.20
    """

    def __init__(self) -> None:
        self._refusals: dict[Asked, str] = {}  # an empty text: accepted
        self._waiting: dict[Asked, Callable[[str], None]] = {}

    def answer(self, asked: Asked, refusal: str) -> None:
        """Record the answer to a request (an empty text: it is accepted), and continue with what waits for it."""
        self._refusals.pop(asked, None)
        _remember(self._refusals, asked, refusal)
        waiting = self._waiting.pop(asked, None)
        if waiting is not None:
            waiting(refusal)

    def when_answered(self, asked: Asked, then: Callable[[str], None]) -> None:
        """Call a function with the answer to a request, now or once there is one. A later one replaces it."""
        if asked in self._refusals:
            then(self._refusals[asked])
        else:
            _remember(self._waiting, asked, then)


def _remember(known: dict[Asked, Value], asked: Asked, value: Value) -> None:
    known[asked] = value
    while len(known) > REMEMBERED:
        del known[next(iter(known))]
