"""Sinks that write to the outside: each has a task on the loop, and a thread in which its writer may block.

The log of the sink retains what the outside has not committed. A writer that is unavailable is tried again, at growing
intervals, until it can write; meanwhile the log fills, and the stream waits. What can never be written fails the sink,
and so its application.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.sinks.protocol import SinkUnavailable
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import Chunk, Point
from synergy_nb.events import DestinationBroken, DestinationMended, DestinationOpened, Recorder

__all__ = ["OutsideSink"]

T = TypeVar("T")
SOON_S: Final = 0.1  # seconds until a writer that was unavailable is tried again for the first time
LATE_S: Final = 10.0  # longest time between two tries, seconds
MOST_AT_ONCE: Final = 4 << 20  # bytes of chunks that are handed to a writer at a time
SAID: Final = 4  # tries that are said one by one; after that every fourth, eighth, .. one


class OutsideSink:
    """The writing of one sink's results."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Recorder,
        component: Component,  # the sink
        reader: SinkReader,
        *,
        upto: Callable[[], Point | None],  # function that returns the point after which nothing is written, if any
        committed: Callable[[Point], None],  # callback with the point up to which the outside has the results
        complete: Callable[[], None],  # callback when the outside has all results
        failed: Callable[[Component, BaseException], None],
    ) -> None:
        self.complete = False  # whether the outside has all results
        self._loop = loop
        self._clock = clock
        self._record = record
        self._component = component
        self._reader = reader
        self._upto = upto
        self._committed = committed
        self._on_complete = complete
        self._failed = failed
        self._news = asyncio.Event()
        self._flush = False  # whether rows are to be committed although they need not be yet
        self._left = False  # whether the sink was removed
        self._tries = 0  # since it broke
        self._broken_since = 0.0  # time at which it broke, in seconds
        self._known = False  # whether it has ever been opened
        self._durable = component.log.start
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"synergy sink {component.operator}")
        self._flushed: asyncio.Event = asyncio.Event()
        self.task = loop.create_task(self._run(), name=f"sink {component.application}/{component.operator}")

    # -- for the host ------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """There may be more to write."""
        self._news.set()

    async def flush(self) -> None:
        """Return when all results that have arrived are committed, or cannot be."""
        if self._left:
            return
        self._flush = True
        self._flushed.clear()
        self._news.set()
        await self._flushed.wait()

    def leave(self, *, flush: bool) -> None:
        """Let go of the destination; first commit what has arrived, if that is asked for."""
        self._left = True
        self._flush = flush
        self._news.set()

    # -- the task ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._write()
                    break
                except SinkUnavailable as error:
                    if self._left:
                        break
                    await self._wait(error)
        except ANYTHING as error:  # only the sink's own application may fail
            self._failed(self._component, error)
        finally:
            self._left = True
            self._flushed.set()
            await self._in_thread(self._reader.close)
            self._thread.shutdown()  # it is idle

    async def _wait(self, error: SinkUnavailable) -> None:
        """Say that the destination is unavailable, and wait before it is tried again."""
        self._reader.opened = False
        self._broken_since = self._broken_since if self._tries else self._clock()
        self._tries += 1
        wait = min(SOON_S * 2.0 ** min(self._tries - 1, 10), LATE_S)
        if self._tries <= SAID or not self._tries & (self._tries - 1):
            self._record(
                DestinationBroken, self._component.application, operator=self._component.operator,
                reason=str(error), tries=self._tries, wait_s=wait,
            )  # fmt: skip
        self._flushed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while not self._left:
                    await self._news.wait()
                    self._news.clear()

    async def _write(self) -> None:
        """Write until the outside has everything, or the sink is removed."""
        reader, component = self._reader, self._component
        if not reader.opened:
            await self._in_thread(reader.open, component.log.start)
            if not self._known:
                self._known = True
                self._record(
                    DestinationOpened, component.application, operator=component.operator, to=reader.name,
                    rows=reader.committed.position, repeated=reader.repeated,
                )  # fmt: skip
        while not (self._left and not self._flush):
            self._news.clear()
            chunks = self._chunks()
            if chunks:
                await self._in_thread(reader.write, chunks, self._clock())
            if reader.must_commit(self._clock()) or (self._flush and reader.waiting):
                await self._in_thread(reader.commit)
                self._mended()
            if reader.durable > self._durable:
                self._durable = reader.durable
                self._committed(reader.durable)
            if reader.complete:
                self.complete = True
                self._on_complete()
                return
            if self._chunks():
                continue
            if self._flush:
                self._flush = False
                self._flushed.set()
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if reader.due is None else max(reader.due - self._clock(), 0.0)):
                    await self._news.wait()

    def _mended(self) -> None:
        """Say that rows were committed again."""
        if self._tries:
            component, lasted = self._component, self._clock() - self._broken_since
            self._tries = 0
            self._record(DestinationMended, component.application, operator=component.operator, seconds=lasted)

    def _chunks(self) -> list[Chunk]:
        """Return the next chunks: those that all copies have, so that nobody makes others of them after a death."""
        log, upto = self._component.log, self._upto()
        safe = log.confirmed(self._component.copy_holders.confirming)
        end = safe if upto is None else min(safe, upto)
        found: list[Chunk] = []
        size = 0
        for chunk in log.chunks(self._reader.read_to):
            if chunk.end > end or size > MOST_AT_ONCE:
                break
            found.append(chunk)
            size += chunk.size
        return found

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await self._loop.run_in_executor(self._thread, call, *arguments)
