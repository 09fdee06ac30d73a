"""The state of a peer that relieves itself: components leave it one after the other."""

from __future__ import annotations

from synergy_nb.algorithms.migration.selection import Selection
from synergy_nb.control.peer import Timer
from synergy_nb.lifecycle.hosted_components import ComponentId

__all__ = ["Relief"]


class Relief:
    """Components that are to leave a peer, and the progress with the one for which a target is sought.

    Parameters
    ----------
    cause
        Application and operator of the component without slack.
    selection
        Components that are to leave.
    now
        Time, seconds.
    act
        Whether components migrate; otherwise decisions are journaled only.
    """

    __slots__ = ("act", "asked", "began", "candidates", "cause", "number", "operator", "selection", "timer", "waiting")

    def __init__(self, cause: ComponentId, selection: Selection, now: float, *, act: bool) -> None:
        self.act = act
        self.cause = cause
        self.selection = selection
        self.waiting = [_split(name) for name in selection.moved]  # components that have still to leave
        self.operator: ComponentId | None = None  # the one for which a target is sought
        self.candidates: list[str] = []  # peers that have not been asked
        self.asked = ""  # peer that was asked, or that has accepted
        self.number = 0
        self.began = now
        self.timer: Timer | None = None


def _split(name: str) -> ComponentId:
    application, _, operator = name.rpartition("/")
    return application, operator
