"""The newest rows of a simulated application, given to a view for as long as somebody watches it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import polars as pl

from synergy_nb.dataflow.tuples import empty
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets.later_calls import LaterCall

__all__ = ["SimulatedRows"]

MIXED = "After a plan took the place of another one, a simulation does not know when rows came."


class SimulatedRows:
    """Looks at the rows of a sink while virtual time passes; no time passes by that."""

    def __init__(
        self,
        application: SimulatedApplication,
        sink: str,
        rows: int,  # number of the last rows that are wanted
        # function that shows the last rows, of which the last so many are new, and why there are no others, in words;
        # it returns seconds until the next ones, or None if nobody wants any more
        take: Callable[[pl.DataFrame, int, str], float | None],
        watched: Callable[[], bool],  # function that tells whether somebody watches
    ) -> None:
        self._application = application
        self._sink = sink
        self._rows = rows
        self._take = take
        self._watched = watched
        self._lock = threading.RLock()
        self._seen = 0  # rows that were there at the last look
        self._next = 0.0  # time of the next look, as of a clock that never steps back
        self._later = LaterCall(self._lock)
        self._last = False  # whether the application has ended: what still comes is shown, whoever watches
        self._leave: Callable[[], None] | None = application.simulation.listen(self._news)
        self._look()

    def wake(self, *, last: bool = False) -> None:
        """Look again, as somebody watches, or as the application has ended."""
        self._last = self._last or last
        self._news()

    def moment(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        """Answer with the rows that came between two times, virtual seconds."""
        found = self._results.between(since, until)  # None: that is unknown
        nothing = empty(self._application.plan.schema(self._sink))
        rows = found.head(self._rows) if found is not None and found.width else nothing
        answer(rows, 0, MIXED if found is None else "")

    def close(self) -> None:
        """Look no more."""
        with self._lock:
            self._later.cancel()
            leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    @property
    def _results(self) -> CollectedResults:
        """The rows that have come."""
        return self._application.simulation.world.results[self._application.id, self._sink]

    def _news(self) -> None:
        """Look now, or as soon as it may; unless nobody watches."""
        with self._lock:
            if self._leave is None or not (self._last or self._watched()):
                return
            left = self._next - time.monotonic()
            if left <= 0.0 or self._last:
                self._look()
            else:
                self._later.after(left, self._news)

    def _look(self) -> None:
        # counted first, so that rows that another thread brings meanwhile are seen again by the next look
        # (test_rows_that_come_during_a_look_are_shown_by_the_next_one)
        seen = self._results.height
        if seen == self._seen and seen:
            return
        table = self._application.latest(self._rows, self._sink)
        came, self._seen = max(seen - self._seen, 0), seen
        began = time.monotonic()
        pause = self._take(table, min(came, table.height), "")
        if pause is None:
            self.close()
        else:
            self._next = began + pause
