"""Waiting on an event loop: until something holds, or for some turns of it. Nothing here depends on a clock.

No other module of the tests gives way to the loop by itself, so what each of them waits for has a name.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

__all__ = ["DEADLINE", "asked_until", "first_of", "run_loop", "turns", "until"]

DEADLINE: Final = 60.0  # seconds that what has to happen may take on a machine that has much else to do

ASKED_S: Final = 0.05  # seconds between two questions that nobody answers by himself

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Where a loop sleeps: before it does, those who wait for a condition look whether it holds.

    So they look after all that happens on the loop, and take no processor time from the threads that it waits for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[asyncio.Future[None]] = []
        self._alone = False  # whether in the last turn nobody did anything but look

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        idle = timeout != 0.0  # nothing is to be done in this turn
        if not self.waiting or (idle and self._alone):
            self._alone = False
            return super().select(timeout)
        for waiting in self.waiting:
            if not waiting.done():
                waiting.set_result(None)
        self.waiting.clear()
        events = super().select(0.0)
        self._alone = idle and not events
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` on a loop of its own, which sleeps while :func:`until` waits."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)


async def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` holds; in virtual time, let the event loop turn until it does."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(DEADLINE):
        while not condition():
            if isinstance(loop, _Loop):
                happened = loop.create_future()
                loop.selector.waiting.append(happened)
                await happened
            else:
                await turns()


async def first_of(*awaited: Coroutine[Any, Any, None]) -> None:
    """Wait until one of several has ended, and cancel the others; raise its error if it failed."""
    tasks = [asyncio.create_task(each) for each in awaited]
    ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.gather(*ended)


def asked_until(
    condition: Callable[[], object],
    otherwise: Callable[[], str] = lambda: "the condition has not become true",
    seconds: float = DEADLINE,  # limit of the wait
) -> None:
    """Ask again and again until ``condition`` holds, of what other processes do and nobody tells.

    Between two questions it waits a little: who asks without a pause takes the processor from what is waited for.
    ``otherwise``: function that says what is wrong if that never comes.
    """
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        pause.wait(ASKED_S)


async def turns(number: int = 1) -> None:
    """Let the event loop turn so many times: everything else on it that can go on does so."""
    for _ in range(number):
        await asyncio.sleep(0)
