"""A plan that an editor has submitted: it follows the journal, and gives the editor the state over the canvas."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from synergy_nb.events.journal import Journal
from synergy_nb.plan import Plan
from synergy_nb.reporting.plan_trials import PlanTrial
from synergy_nb.widgets._editor_overlay import overlay
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets.later_calls import LaterCall

__all__ = ["FollowedPlan", "PlanRuns", "RunningPlan"]

OVERLAY_INTERVAL: Final = 0.1  # least time between two overlays, seconds


class FollowedPlan(NamedTuple):
    """An application that was submitted, and the journal by which its state is followed."""

    application: Any  # handle of the application, which has an id, and latest(n, sink) for the last rows of its results
    plan: Plan  # plan that was submitted
    stop: Callable[[], None]  # function that ends the application; its results so far remain readable
    journal: Journal  # journal of its cluster
    names: Mapping[str, str]  # peer address to name
    # function that subscribes a callback to new events, and returns a function that ends the subscription
    listen: Callable[[Callable[[], None]], Callable[[], None]]
    reading: contextlib.AbstractContextManager[Any] | None = None  # lock that is held while the journal is read


class PlanRuns(Protocol):
    """A cluster or simulation as an editor uses it; its functions may be slow."""

    advice: str  # sentence for those who have just submitted a plan; empty for none

    def submit(self, plan: Plan) -> FollowedPlan:
        """Submit a plan, and return when it runs."""

    def cost(self, plan: Plan) -> PlanTrial:
        """Find the graph that composition would choose."""


class RunningPlan:
    """Follows one application."""

    def __init__(
        self,
        followed: FollowedPlan,
        show: Callable[[dict[str, Any]], None],
        lock: contextlib.AbstractContextManager[Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.followed = followed  # the application and its journal
        self._show = show  # function that draws an overlay; it is called at most ten times a second, from any thread
        self._clock = clock  # function that returns seconds that never step back
        self._lock = lock  # lock of the editor, which is held while its state is read and drawn
        self._readings = JournalSeries(str(followed.application.id), followed.names)
        self._reading = followed.reading if followed.reading is not None else contextlib.nullcontext()
        self._last = -OVERLAY_INTERVAL
        self._later = LaterCall(lock)
        self._closed = False
        self._leave: Callable[[], None] | None = followed.listen(self.update)
        self.update()

    @property
    def ended(self) -> bool:
        """Whether the application has ended."""
        return self._readings.run(str(self.followed.application.id)).ended is not None

    def update(self, *, at_once: bool = False) -> None:
        """Draw the present state, at once or as soon as the least time between two overlays has passed."""
        with self._lock:
            if self._closed:
                return
            left = self._last + OVERLAY_INTERVAL - self._clock()
            if left <= 0 or at_once:
                self._draw()
            else:
                self._later.after(left, self.update)

    def _draw(self) -> None:
        with self._reading:
            changed = self._readings.read(self.followed.journal)
        if changed or self._last < 0:
            self._last = self._clock()
            self._show(overlay(self._readings, self.followed.plan))

    def close(self) -> None:
        """Follow the application no longer; it runs on."""
        with self._lock:
            self._closed = True
            self._later.cancel()
            leave, self._leave = self._leave, None
        if leave is not None:
            leave()
