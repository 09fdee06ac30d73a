"""One line about what a call is waiting for, if a user can see it.

The line appears when a call has taken longer than :data:`FIRST`, shows its duration, and disappears when the call
returns. Where it appears is the business of :mod:`synergy_nb.notebook.waiting_lines`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar, cast

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import brief

__all__ = [
    "Display",
    "WaitingDisplay",
    "displaying",
    "displays_waiting",
    "waiting",
]

F = TypeVar("F", bound=Callable[..., Any])

FIRST: Final = 1.0  # seconds that a call may take before the line appears
EVERY: Final = 0.5  # seconds between two updates of the line
TICK: Final = 0.1  # seconds between two checks whether the line is due
#: Whether a caller of the running coroutine already displays what it waits for.
displaying: ContextVar[bool] = ContextVar("displaying", default=False)


class Display(Protocol):
    """An output for the line."""

    def show(self, line: str) -> None:
        """Replace the line."""

    def clear(self) -> None:
        """Remove the line."""


class WaitingDisplay:
    """Displays what a call is waiting for.

    Examples
    --------
    >>> WaitingDisplay(lambda: "composing", None).tick()
    """

    def __init__(
        self, text: Callable[[], str], display: Display | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # function that returns a text about the present state, such as `48 of 64 peers are in the ring`; empty: no line
        self._text = text
        self._display = display  # output for the line; None: it is not displayed
        self._clock = clock  # function that returns seconds that never step back
        self._began = self._last = clock()
        self._shown = False

    @property
    def shows(self) -> bool:
        """Whether the line is displayed."""
        return self._display is not None

    def tick(self) -> None:
        """Display the line if it is due; call this several times a second."""
        now = self._clock()
        if self._display is None or now - self._began < FIRST or (self._shown and now - self._last < EVERY):
            return
        text = self._text()
        if text:
            self._display.show(f"{text} … {now - self._began:.0f} s")
            self._shown, self._last = True, now

    def close(self) -> None:
        """Remove the line."""
        if self._display is not None and self._shown:
            self._display.clear()
            self._shown = False


@contextlib.asynccontextmanager
async def waiting(text: Callable[[], str]) -> AsyncIterator[None]:
    """Display what a coroutine waits for within this context, unless its caller does so already.

    Errors are shown in brief, as those of blocking calls.
    """
    line = WaitingDisplay(text, None if displaying.get() else view_of("waiting", text))
    token = displaying.set(True)
    ticking = asyncio.get_running_loop().create_task(_tick(line)) if line.shows else None
    try:
        yield
    except Exception as error:
        brief(error)
        raise
    finally:
        displaying.reset(token)
        if ticking is not None:
            ticking.cancel()
        line.close()


def displays_waiting(text: Callable[..., str]) -> Callable[[F], F]:
    """Let a coroutine method display what it waits for, see :func:`waiting`; ``text`` receives its arguments."""

    def wrapped(method: F) -> F:
        @functools.wraps(method)
        async def wrapper(*arguments: Any, **options: Any) -> Any:
            async with waiting(lambda: text(*arguments, **options)):
                return await method(*arguments, **options)

        return cast("F", wrapper)

    return wrapped


async def _tick(line: WaitingDisplay) -> None:
    while True:
        line.tick()
        await asyncio.sleep(TICK)
