"""The state of a peer that relieves itself: components leave it one after the other, and then it rests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from synergy_nb.algorithms.migration._candidates import Candidate
from synergy_nb.algorithms.migration._selection import Selection
from synergy_nb.control.peer import Timer
from synergy_nb.lifecycle.records.hosted_components import ComponentId
from synergy_nb.lifecycle.records.messages import Graph

DRAINING: Final = 10.0  # most seconds that a queue gets to drain


class Relief:
    """Components that are to leave a peer, and the progress with the one for which a target is sought."""

    __slots__ = (
        "_timer",
        "accepted",
        "act",
        "asked",
        "asked_at",
        "began",
        "candidates",
        "cause",
        "graph",
        "moving",
        "number",
        "offered",
        "operator",
        "selection",
        "waiting",
    )

    def __init__(self, cause: ComponentId, selection: Selection, now: float, *, act: bool) -> None:
        self.act = act  # whether components migrate; if not, decisions are only journaled
        self.cause = cause  # application and operator of the component without slack
        self.selection = selection
        self.waiting = [_split(name) for name in selection.moved]  # components that have still to leave
        self.operator: ComponentId | None = None  # the one for which a target is sought
        self.candidates: list[str] = []  # peers that have not been asked
        self.offered: dict[str, Candidate] = {}  # what candidates have published; empty once the first was asked
        self.asked = ""  # peer that was asked, or that has accepted
        self.asked_at = now
        self.accepted: bool | None = None  # its answer; None: it has not answered
        self.moving = False  # whether the origin has been told to begin the move before that answer
        self.graph: Graph | None = None  # of the application that is asked to move it, as last known here
        self.number = 0
        self.began = now
        self._timer: Timer | None = None

    # -- a target for the next component -----------------------------------------------------------------------------

    def next_component(self) -> ComponentId:
        """A target is sought for the next component that waits."""
        self.operator = self.waiting.pop(0)
        return self.operator

    def look_up(self, number: int, now: float) -> None:
        """Candidates for it are looked up; answers have this number."""
        self.number, self.began = number, now

    def offer(self, candidates: list[str], offered: dict[str, Candidate]) -> None:
        """These candidates are there, to be asked in this order, and this is what they have published."""
        self.candidates, self.offered = candidates, offered

    def next_candidate(self, is_dead: Callable[[str], bool]) -> str:
        """Turn to the next candidate that lives; returns its address, empty if there is none."""
        while self.candidates:
            self.asked = self.candidates.pop(0)
            if not is_dead(self.asked):
                return self.asked
        self.asked = ""
        return ""

    def ask_nobody(self) -> None:
        """The component has ended, so no candidate is asked any more."""
        self.candidates, self.asked = [], ""

    def ask(self, number: int, work: float, now: float) -> None:
        """Wait for the answer of the candidate ``asked`` from now on; the first may have the move begin meanwhile.

        It does so if by its published load and speed the candidate has room for ``work``, the seconds of a second that
        the component needs at a peer of speed 1. A move that begins in vain costs two graphs for all
        peers of the application.
        """
        candidate = self.offered.get(self.asked)
        self.moving = candidate is not None and candidate.load + work / candidate.speed < 1.0
        self.offered.clear()
        self.graph = None
        self.number, self.asked_at, self.accepted = number, now, None

    def answered(self, *, accepted: bool) -> None:
        """The candidate has answered."""
        self.accepted = accepted

    def give_up(self) -> None:
        """No target is sought any more for the present component."""
        self.operator = None

    # -- its move ----------------------------------------------------------------------------------------------------

    def move(self, number: int) -> None:
        """The origin is asked to move the component to the candidate that has accepted; its answer has this number."""
        self.number = number

    def note_graph(self, graph: Graph) -> None:
        """The application has this graph at present."""
        self.graph = graph

    def stop_moving(self) -> bool:
        """The move has failed; returns whether it had begun before the candidate has answered."""
        began, self.moving = self.moving, False
        return began

    def wait(self, timer: Timer | None) -> None:
        """Wait for this timer alone, or for none."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


class Rest:
    """The time after a migration, or after a search without a target, in which a peer decides nothing.

    At a utilisation ρ below 1, a queue whose tuples take t seconds is empty after t / (1 - ρ) seconds. Until then its
    tuples have no slack, although enough components have left. If ρ reaches 1 again, the queue grows, and the peer has
    to decide.
    """

    def __init__(self, least: float) -> None:
        self._least = least  # least length of a rest, at any utilisation, seconds
        self._until = self._drained = -math.inf

    def begin(self, now: float, queue: float = 0.0, utilisation: float = 0.0) -> None:
        """Begin a rest; ``queue`` is the time that the waiting tuples take to execute, in seconds."""
        self._until = now + self._least
        if utilisation < 1.0:
            self._drained = max(self._drained, now + min(queue / (1.0 - utilisation), DRAINING))

    def lasts(self, now: float, utilisation: float) -> bool:
        """Whether the peer rests, at its present utilisation."""
        return now < self._until or (now < self._drained and utilisation < 1.0)


def _split(name: str) -> ComponentId:
    application, _, operator = name.rpartition("/")
    return application, operator
