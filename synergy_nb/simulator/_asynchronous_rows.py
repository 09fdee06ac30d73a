"""Rows of an asynchronous iterable in a simulation: virtual time waits for them, as for those of any iterable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

TOGETHER: Final = 256  # rows that are read in one turn of the thread


def in_turn(rows: AsyncIterable[Any]) -> Iterator[Any]:
    """Yield what an asynchronous iterable yields; close it at the end, or when nobody reads it any more.

    Its coroutines run on an event loop of a thread of their own, as the simulation may run within a notebook's loop.

    >>> async def numbers():
    ...     for number in range(3):
    ...         await asyncio.sleep(0)
    ...         yield number
    >>> list(in_turn(numbers()))
    [0, 1, 2]
    """
    iterator = aiter(rows)
    ended: list[Exception] = []

    async def following() -> list[Any]:
        found: list[Any] = []
        try:
            while len(found) < TOGETHER:
                found.append(await anext(iterator))
        except Exception as error:  # noqa: BLE001 - raised below, after the rows before it
            ended.append(error)
        return found

    async def closing() -> None:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()

    with ThreadPoolExecutor(1, thread_name_prefix="synergy asynchronous rows") as thread:
        loop = asyncio.new_event_loop()
        try:
            while not ended:
                yield from thread.submit(lambda: loop.run_until_complete(following())).result()
            if not isinstance(ended[0], StopAsyncIteration):
                raise ended[0]
        finally:
            with contextlib.suppress(RuntimeError):  # at the end of the program no thread is given work any more
                thread.submit(lambda: loop.run_until_complete(closing())).result()
            loop.close()
