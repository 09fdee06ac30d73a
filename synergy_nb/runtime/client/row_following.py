"""The newest rows of an application, followed for a view, as long as somebody looks at it.

A follower looks at the results of a sink without a place in them: it takes nothing from other readers, and paces no
source. The peer answers as soon as there is something new, with nothing but that. While nobody watches, nothing is
asked; at the end of the application it looks once more, so that the last picture has the last rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import polars as pl

from synergy_nb.dataflow.tuples import empty
from synergy_nb.events.application_states import ENDED
from synergy_nb.runtime.client._application import Application
from synergy_nb.runtime.client._results import NewestRows
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.process.requests import AccessRevoked, ClosedClusterError, ClusterError

__all__ = ["follow_rows"]

WAIT: Final = 3.0  # longest time that a peer waits for something new, seconds
AGAIN: Final = 1.0  # seconds after which a peer that has not answered is asked again


class TakeRows(Protocol):
    """Shows rows."""

    def __call__(self, table: pl.DataFrame, came: int, note: str) -> float | None:
        """Show the last rows, of which the last ``came`` are new, and why there are no others, in words.

        Returns seconds until the next rows; None if nobody wants any more. It is called in a thread.
        """


class RowFollower:
    """Follows the newest rows of one sink; made on the event loop of its cluster."""

    def __init__(
        self,
        application: AsyncApplication,
        sink: str,
        rows: int,  # number of the last rows that are wanted
        take: TakeRows,
        watched: Callable[[], bool],  # function that tells whether somebody watches
    ) -> None:
        self._application = application
        self._sink = sink
        self._rows = rows
        self._take = take
        self._watched = watched
        self._newest = NewestRows(rows)
        self._empty = empty(application.plan.schema(sink))
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._last = False  # whether the next look is the last one
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """Show what is there, and follow from then on."""
        pause = await self._look(0.0, anyway=True)
        if pause is not None:
            self._start(self._follow(pause))

    def start(self) -> None:
        """Begin in a task of its own."""
        self._start(self.begin())

    def wake(self, *, last: bool = False) -> None:
        """Look again, as somebody watches, or as the application has ended; any thread may call it."""
        self._last = self._last or last
        self._threadsafe(self._woken.set)

    def moment(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        """Have ``answer`` called with the rows that came between two times, seconds; any thread may ask.

        It gets the rows, how many more are not retained any more, and why there are none, in words; in a thread.
        """
        self._threadsafe(lambda: self._start(self._answer(since, until, answer)))

    def close(self) -> None:
        """Follow no longer; any thread may call it."""
        self._threadsafe(lambda: [task.cancel() for task in self._tasks])

    def _threadsafe(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, with all its tasks
            self._loop.call_soon_threadsafe(call)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name=f"rows of {self._application.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, pause: float | None) -> None:
        due = self._loop.time()  # of a look: what a look takes itself makes none of them later
        while pause is not None:
            due = max(due + pause, self._loop.time())
            await asyncio.sleep(due - self._loop.time())
            while not (self._last or self._watched()):
                self._woken.clear()
                await self._woken.wait()
            pause = await self._look(0.0 if self._last else WAIT)

    async def _look(self, wait: float, *, anyway: bool = False) -> float | None:
        """Look once, and show what is new; return seconds until the next look, or None after the last one."""
        last, came, over, note = self._last, 0, False, ""
        try:
            came, over = await self._application.look(self._newest, self._sink, wait)
        except (ClosedClusterError, AccessRevoked):
            over = True
        except ClusterError as error:
            with contextlib.suppress(ClusterError):  # it may have ended, or its sink is elsewhere now
                over = (await self._application.state()).status in ENDED
            note = "" if over else self._application.cluster.readable(str(error))
        pause: float | None = AGAIN if note else 0.0
        if came or note or over or anyway:
            table = self._newest.table(self._empty)
            shown = await asyncio.to_thread(self._take, table, came, note)
            pause = None if shown is None else max(shown, pause or 0.0)
        return None if over or last else pause

    async def _answer(self, since: float, until: float, answer: Callable[[pl.DataFrame, int, str], None]) -> None:
        table, gone, note = self._empty, 0, ""
        try:
            table, gone = await self._application.came_between(since, until, self._rows, self._sink)
        except ClusterError as error:
            note = self._application.cluster.readable(str(error))
        await asyncio.to_thread(answer, table, gone, note)


def follow_rows(
    application: Application | AsyncApplication, sink: str, rows: int, take: TakeRows, watched: Callable[[], bool]
) -> RowFollower:
    """Follow the newest rows of a sink.

    ``application``: for synchronous code, from any thread but its cluster's own: then the present rows are taken before
    this returns. Or one of coroutines, on its event loop. ``rows``: number of the last rows that are wanted; ``take``:
    function that shows them; ``watched``: function that tells whether somebody watches.
    """

    async def begun(asynchronous: AsyncApplication) -> RowFollower:
        follower = RowFollower(asynchronous, sink, rows, take, watched)
        await follower.begin()
        return follower

    if isinstance(application, Application):
        return application._run(begun(application._asynchronous))
    follower = RowFollower(application, sink, rows, take, watched)
    follower.start()
    return follower
