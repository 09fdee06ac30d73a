"""Waiting on an event loop: until something holds, or for some turns of it. Nothing here depends on a clock.

No other module of the tests gives way to the loop by itself, so what each of them waits for has a name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["DEADLINE", "asked_until", "turns", "until"]

DEADLINE: Final = 60.0  # seconds that what has to happen may take on a machine that has much else to do


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop turn until ``condition`` holds."""
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await turns()


def asked_until(condition: Callable[[], object]) -> None:
    """Ask again until ``condition`` holds; each question takes a peer's answer."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition has not become true"


async def turns(number: int = 1) -> None:
    """Let the event loop turn so many times: everything else on it that can go on does so."""
    for _ in range(number):
        await asyncio.sleep(0)
