"""Sinks that write to the outside: each has a task on the loop, and a thread in which its writer may block.

The log of the sink retains what the outside has not committed. A writer that is unavailable is tried again, at growing
intervals, until it can write; meanwhile the log fills, and the stream waits. What can never be written fails the sink,
and so its application.

A sink whose plan is to take the place of another one has its turn when the sink of the other plan is removed, at the
same peer. Then it opens the same destination, and goes on there (:mod:`synergy_nb.dataflow.sinks.sink_rows`). If the
other sink has not been told that before, or its application ends earlier, it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sinks.sink_rows import SinkRows
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import Chunk, Point
from synergy_nb.events import DestinationBroken, DestinationMended, DestinationOpened, Recorder

__all__ = ["OutsideSink", "why_not_followed"]

T = TypeVar("T")
SOON_S: Final = 0.1  # seconds until a writer that was unavailable is tried again for the first time
LATE_S: Final = 10.0  # longest time between two tries, seconds
HELD_S: Final = 60.0  # seconds for which rows are withheld after each time that this is asked for
SAID: Final = 4  # tries that are said one by one; after that every fourth, eighth, .. one


def why_not_followed(destination: str, application: str) -> str:
    """Say why a sink cannot go on where that of another application was to end."""
    return (
        f"{destination}: {application} has ended before this plan could take the place of its own; expected that it "
        "runs until then"
    )


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
        stream: str = "",  # what the rows are, as the destination knows it
        former: OutsideSink | None = None,  # writing of the sink whose place this one takes
    ) -> None:
        self.complete = False  # whether the outside has all results
        #: What the rows in the destination may be: those of this stream, and of those before it.
        self.streams: tuple[str, ...] = (stream,) if former is None else (stream, *former.streams)
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
        self._rows = SinkRows(component.log)
        self._durable = self._rows.start
        self._former = former
        self._follower: OutsideSink | None = None  # writing of the sink that is to take the place of this one
        self._at: int | None = None  # event time after which rows are of this sink, and not of the former one, in µs
        self._release: asyncio.TimerHandle | None = None
        self._turn = asyncio.Event()  # of the task
        if former is None:
            self._turn.set()
        else:
            former._follower = self
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"synergy sink {component.operator}")
        self._flushed: asyncio.Event = asyncio.Event()
        self.task = loop.create_task(self._run(), name=f"sink {component.application}/{component.operator}")

    # -- for the host ------------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """There may be more to write."""
        self._news.set()

    async def flush(self) -> None:
        """Return when all results that have arrived are committed, or cannot be, or it is not their turn."""
        if self._left or not self._turn.is_set():
            return
        self._flush = True
        self._flushed.clear()
        self._news.set()
        await self._flushed.wait()

    def leave(self, *, flush: bool) -> None:
        """Let go of the destination; first commit what has arrived, if that is asked for."""
        if not self._left and self._former is not None and not self._turn.is_set():  # the other one goes on
            self._former._follower = None
            self._former.go_on()
            self._former = None
        follower, self._follower = self._follower, None
        self._left = True
        self._flush = flush and follower is None
        self._news.set()
        self._turn.set()
        if follower is not None:
            follower._take_over(self)

    # -- a change of the plan ----------------------------------------------------------------------------------------

    def hold(self, at: int) -> int:
        """Write no rows after an event time for a minute; return that of the latest row that was written, microseconds.

        Raises ``LookupError`` if it writes no more.
        """
        if self.complete or self._left:
            raise LookupError(f"{self._reader.name}: all results are there; expected a sink that goes on")
        self._wait_no_longer()
        self._release = self._loop.call_later(HELD_S, self.go_on)
        return self._rows.hold(at)

    def go_on(self) -> None:
        """Withhold nothing any more."""
        self._wait_no_longer()
        self._rows.held = None
        self._news.set()

    def _wait_no_longer(self) -> None:
        if self._release is not None:
            self._release.cancel()
            self._release = None

    def take_place(self, at: int) -> int:
        """Prepare to write rows after an event time, once the sink before ends; return as :meth:`hold` does.

        May be called again, with a later time. Raises ``LookupError`` if there is no such sink any more.
        """
        if self._former is None or self._turn.is_set():
            raise LookupError(f"{self._reader.name}: it is written already; expected a sink that waits for its turn")
        latest = self._former.hold(at)
        if latest <= at:
            self._at = at
            self._committed(self._rows.skip(at))
        return latest

    def _take_over(self, former: OutsideSink) -> None:
        """Have the task begin, as the sink before has ended."""
        at, rows = self._at, former._rows
        former._wait_no_longer()
        if at is None or rows.held != at or not rows.promised(at):
            of = former._component.application
            self._failed(self._component, SinkFailed(why_not_followed(self._reader.name, of)))
            self._left, self._former = True, None
        self._turn.set()

    # -- the task ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._begin()
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

    async def _begin(self) -> None:
        """Wait for the turn of this sink; then go on where the one before has ended."""
        await self._turn.wait()
        former, self._former = self._former, None
        if former is not None and self._at is not None:
            await asyncio.wait([former.task])  # what it was committing is there, or is not
            former._rows.finish(self._at)
            self._rows.follow(former._rows)
            self._durable = self._rows.start

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
        if not reader.opened and not (self._left and not self._flush):
            await self._in_thread(reader.open, self._rows.start)
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
                self._committed(self._rows.release(reader.durable))
            if reader.complete:
                self.complete = True
                self._on_complete()
                return
            if self._chunks():
                continue
            if self._flush and (self._left or not self._waits_for_copies()):
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
        return self._rows.after(self._reader.read_to, min(self._safe(), self._arrived()))

    def _waits_for_copies(self) -> bool:
        """Whether results have arrived that some copy does not have yet."""
        return self._safe() < self._arrived()

    def _safe(self) -> Point:
        """Return the point up to which all copies have the results."""
        return self._component.log.confirmed(self._component.copy_holders.confirming)

    def _arrived(self) -> Point:
        """Return the point up to which results have arrived that are to be written."""
        upto = self._upto()
        return self._component.log.end if upto is None else upto

    async def _in_thread(self, call: Callable[..., T], *arguments: object) -> T:
        return await self._loop.run_in_executor(self._thread, call, *arguments)
