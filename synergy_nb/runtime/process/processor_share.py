"""The share of a processor that this process gets while it has work, by the statistics of the system's scheduler.

Linux counts for each thread how long it ran, and how long it could have run but waited for a processor
(``/proc/self/task/*/schedstat``). Where other programs compute on all processors, the threads of a peer wait for longer
than they run, and its executions take longer without being more work. A thread that sleeps waits for no processor. On
other systems the share is 1.

A process that does nearly nothing is served at once, whatever else runs. So only seconds count in which it ran for a
fifth at least; after others the share is 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work

__all__ = ["ProcessorShare", "note_speeds", "scheduled"]

EVERY: Final = 1.0  # least seconds between two readings, each of which takes a millisecond at most
BUSY: Final = 0.2  # share of the time that the process has to have run for a reading to count
THREADS: Final = "/proc/self/task"
LONGEST: Final = 128  # bytes of the times of a thread, at most


def scheduled() -> tuple[float, float]:
    """Return the seconds that the present threads of this process ran, and that they waited for a processor."""
    ran = waited = 0
    try:
        with os.scandir(THREADS) as threads:  # one for each source, among others: paths would take twice the time
            for thread in threads:
                file = os.open(f"{thread.path}/schedstat", os.O_RDONLY)
                try:
                    times = os.read(file, LONGEST).split()
                finally:
                    os.close(file)
                ran, waited = ran + int(times[0]), waited + int(times[1])
    except (OSError, ValueError, IndexError):  # a thread has just ended, or the system has no such statistics
        return 0.0, 0.0
    return ran / 1e9, waited / 1e9


class ProcessorShare:
    """The share of a processor that this process gets.

    Examples
    --------
    >>> times = iter([(1.0, 1.0), (1.4, 1.6), (1.41, 1.6)])
    >>> share = ProcessorShare(lambda: next(times))
    >>> [share.at(seconds) for seconds in (0.0, 0.5, 1.0, 2.0)]
    [1.0, 1.0, 0.4, 1.0]
    """

    def __init__(self, read: Callable[[], tuple[float, float]] = scheduled) -> None:
        self.value = 1.0  # share in the last interval that counted, from above 0 to 1
        # function that returns the seconds that the process ran and waited for a processor, see `scheduled`
        self._read = read
        self._last: tuple[float, float, float] | None = None

    def at(self, now: float) -> float:
        """Return the share at a time in seconds; it is measured anew if the last measurement is a second old."""
        if self._last is None or now - self._last[0] >= EVERY:
            ran, waited = self._read()
            if self._last is not None and ran >= self._last[1] and waited >= self._last[2]:
                more, delayed = ran - self._last[1], waited - self._last[2]
                busy = more >= BUSY * (now - self._last[0])
                self.value = round(more / (more + delayed), 3) if busy else 1.0
            self._last = now, ran, waited
        return self.value


def note_speeds(work: Work, outcome: ExecutionOutcome, share: float) -> None:
    """Note in the outcome of an execution, and of those chained to it, at which speed they were executed.

    The time that a component slept, as ``delay`` does, would have been as long with a whole processor.

    ``share``: share of a processor that the process got meanwhile.
    """
    chained: tuple[Work, ExecutionOutcome] | None = work, outcome
    while chained is not None:
        made, found = chained
        component, seconds = made.component, found.finished - found.started
        slept = component.take_slept(seconds) if component.waited_s else 0.0
        found.speed = share if seconds <= 0.0 else share + (1.0 - share) * slept / seconds
        chained = found.then
