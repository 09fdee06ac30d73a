"""The progress of a long operation, and a deadline that moves with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["Progress", "ProgressDeadline"]

NAMED = 8  # most names in the text about missing items


class Progress(NamedTuple):
    """The progress of an operation; converted to text, it is a sentence for users.

    Examples
    --------
    >>> print(Progress(48, 64, "peers are in the ring"))
    48 of 64 peers are in the ring
    """

    # done, of: number of items (such as peers) that are done, and of all
    done: int
    of: int
    what: str  # words that follow the numbers, such as "peers are in the ring"
    missing: tuple[str, ...] = ()  # names of the items that are not done

    def __str__(self) -> str:
        return f"{self.done} of {self.of} {self.what}"

    @property
    def missing_text(self) -> str:
        """Names of some that are missing, and the number of the others.

        >>> Progress(0, 10, "peers run", tuple("abcdefghij")).missing_text
        'a, b, c, d, e, f, g, h and 2 more'
        """
        named = ", ".join(self.missing[:NAMED])
        more = len(self.missing) - NAMED
        return f"{named} and {more} more" if more > 0 else named


class ProgressDeadline:
    """A deadline that is a number of seconds after the last progress."""

    def __init__(self, seconds: float, on_progress: Callable[[Progress], Any] | None = None) -> None:
        self.seconds = seconds  # seconds without progress after which the deadline has passed
        self.last: Progress | None = None
        self._on_progress = on_progress  # callback with each `Progress`; None: no callback
        self._since = asyncio.get_running_loop().time()

    @property
    def left(self) -> float:
        """Return the seconds until the deadline if there is no progress before; 0 when it has passed."""
        return max(self._since + self.seconds - asyncio.get_running_loop().time(), 0.0)

    def note(self, done: int, of: int, what: str, missing: Iterable[str] = ()) -> None:
        """Record the present state; it counts as progress if it differs from the previous one."""
        progress = Progress(done, of, what, tuple(missing))
        if self.last is not None and progress[:3] == self.last[:3]:
            return
        if self.last is None or progress.what != self.last.what or done > self.last.done:
            self._since = asyncio.get_running_loop().time()
        self.last = progress
        if self._on_progress is not None:
            self._on_progress(progress)
