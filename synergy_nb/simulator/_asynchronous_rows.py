"""Rows of an asynchronous iterable in a simulation: virtual time waits for them, as for those of any iterable."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

TOGETHER: Final = 256  # rows that are read in one turn of the thread


class InTurn(Iterator[Any]):
    """Yields what an asynchronous iterable yields; closes it at the end, or when nobody reads it any more.

    Its coroutines run on an event loop of a thread of their own, as the simulation may run within a notebook's loop.
    The loop and the thread belong to the finalizer. A generator that owned them hung for ever when it was collected as
    part of a reference cycle: its executor had ended by then, and it waited for a last call.

    >>> async def numbers():
    ...     for number in range(3):
    ...         await asyncio.sleep(0)
    ...         yield number
    >>> list(InTurn(numbers()))
    [0, 1, 2]
    """

    def __init__(self, rows: AsyncIterable[Any]) -> None:
        self._iterator = aiter(rows)
        self._read: deque[Any] = deque()
        self._ended: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="synergy asynchronous rows")
        #: Closes the iterable; also called where it is forgotten.
        self.close = weakref.finalize(self, _close, self._iterator, self._loop, self._thread)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return the next row; an exception of the iterable comes after the rows before it."""
        if not self._read and self._ended is None:
            self._thread.submit(self._loop.run_until_complete, self._read_on()).result()
        if self._read:
            return self._read.popleft()
        self.close()
        if self._ended is None or isinstance(self._ended, StopAsyncIteration):
            raise StopIteration
        error, self._ended = self._ended, StopAsyncIteration()
        raise error

    async def _read_on(self) -> None:
        try:
            while len(self._read) < TOGETHER:
                self._read.append(await anext(self._iterator))
        except Exception as error:  # noqa: BLE001 - raised by `__next__`
            self._ended = error


def _close(iterator: AsyncIterator[Any], loop: asyncio.AbstractEventLoop, thread: ThreadPoolExecutor) -> None:
    async def closed() -> None:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()

    with contextlib.suppress(RuntimeError):  # at the end of the program no thread is given work any more
        thread.submit(lambda: loop.run_until_complete(closed())).result()
    thread.shutdown()
    loop.close()
