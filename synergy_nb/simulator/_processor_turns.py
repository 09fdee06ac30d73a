"""When a process has a processor, on a machine that has other work."""

from __future__ import annotations

import math
import random
from typing import Final

HANDLING: Final = 0.0002  # seconds of a processor that a peer takes for a message, a timer or a frame


class Turns:
    """The turns of a process that gets only a share of a processor, because its machine has other work.

    It runs for a turn, and then waits until it has had its share. What arrives meanwhile waits, and its timers fire
    late; what it handles takes time of its turn, and the rest of that waits for the next one.

    Examples
    --------
    >>> turns = Turns(random.Random(1), share=0.1, turn=0.05, begin=10.0, end=20.0)
    >>> turns.resumes(9.0), turns.resumes(10.0)
    (9.0, 10.0)
    >>> round(turns.resumes(10.1), 3)
    10.335
    >>> turns.spend(0.05, 10.335)
    >>> round(turns.resumes(10.335), 3)
    10.992
    >>> turns.resumes(20.0)
    20.0
    """

    def __init__(
        self, rng: random.Random, share: float, turn: float, begin: float = 0.0, end: float = math.inf
    ) -> None:
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share: {share}; expected more than 0 and at most 1")
        if not turn > 0.0:
            raise ValueError(f"turn: {turn} s; expected more than 0")
        self.share = share  # share of a processor that it gets, more than 0 and at most 1
        # random generator that draws the waiting times: from half of the mean to one and a half times that
        self._rng = rng
        self._turn = turn  # duration of a turn, seconds
        # begin, end: time from which on it gets only that share, and until which, seconds
        self._begin = begin
        self._end = end
        self._from = begin  # when the present turn begins, or has begun
        self._left = turn  # of the present turn, seconds

    def resumes(self, now: float) -> float:
        """Time from which on the process can handle something that is there now, seconds."""
        if not self._begin <= now < self._end:
            return now
        while self._left <= 0.0 or now >= self._from + self._turn:
            pause = self._turn * (1.0 / self.share - 1.0)
            self._from += self._turn + pause * self._rng.uniform(0.5, 1.5)
            self._left = self._turn
        return min(max(now, self._from), self._end)

    def spend(self, seconds: float, now: float) -> None:
        """Take time of a processor from the present turn."""
        if self._begin <= now < self._end:
            self._left -= seconds
