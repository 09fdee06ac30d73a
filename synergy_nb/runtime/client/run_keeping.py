"""Keeps the runs of a client: follows the journals of its cluster, and writes what concerns each application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from synergy_nb.events import (
    ApplicationEnded,
    ApplicationFinished,
    ClusterClosed,
    Event,
    PeerMeasured,
    RequestEvent,
    RequestSubmitted,
)
from synergy_nb.events.application_states import ENDED, Status
from synergy_nb.recording.kept_runs import RunWriter
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.journal_follower import JournalFollower
from synergy_nb.runtime.process.requests import ClusterError

__all__ = ["RunKeeping"]

LOG: Final = logging.getLogger(__name__)
PART: Final = 5_000  # events of a run after which a part of it is written
OFTEN_S: Final = 10.0  # seconds after which what is known of running applications is written
LAST_S: Final = 5.0  # longest time to wait for the last events as the cluster closes, seconds


class _Run:
    """A run that is being kept."""

    def __init__(self, submitted: float) -> None:
        self.submitted = submitted
        self.ended: float | None = None
        self.finished = False  # whether it has finished, whatever a handle says that stops it afterwards
        self.events: list[Event] = []  # those that are not written yet
        self.application: AsyncApplication | None = None  # handle; None until the submission has returned
        self.writer: RunWriter | None = None


class RunKeeping:
    """The runs of one client, in a folder."""

    def __init__(
        self,
        folder: Path,
        follower: JournalFollower,
        held: Callable[[str], AsyncApplication | None],  # handle of an application that was submitted here, if it was
    ) -> None:
        self._folder = folder
        self._follower = follower
        self._held = held
        self._runs: dict[str, _Run] = {}
        self._handles: dict[str, AsyncApplication] = {}  # handles that runs have from now on
        self._next = 0
        self._over = asyncio.Event()  # set once the last events have come
        self._broken = False
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._leave = follower.listen(self._news)
        self._timer = self._loop.call_later(OFTEN_S, self._often)

    def _news(self) -> None:
        found = self._follower.journal.since(self._next)
        for event in found:
            self._next = event.sequence + 1
            self._take(event)

    def _take(self, event: Event) -> None:
        """Note an event with each run that it concerns."""
        if isinstance(event, ClusterClosed):
            self._over.set()
        if isinstance(event, RequestSubmitted) and not event.trial:
            self._runs.setdefault(event.subject, _Run(event.time))
        if isinstance(event, RequestEvent):
            for subject in event.subjects:
                if (run := self._runs.get(subject)) is not None:
                    self._add(subject, run, event)
            return
        for application, run in self._runs.items():
            if run.ended is None:
                own: Event = event
                if isinstance(event, PeerMeasured):
                    parts = [each for each in event.components if each.application == application]
                    own = replace(event, components=parts)
                self._add(application, run, own)

    def _add(self, application: str, run: _Run, event: Event) -> None:
        run.events.append(event)
        self._handle(application, run)
        if isinstance(event, ApplicationEnded) and run.ended is None:
            run.ended, run.finished = event.time, isinstance(event, ApplicationFinished)
            self._begin(application, run)
        elif len(run.events) >= PART:
            self._begin(application, run)

    def replaced(self, application: AsyncApplication, former: AsyncApplication) -> None:
        """Keep a run by the handle that it has from now on; ``former`` is that of the run whose place it takes."""
        self._handles |= {application.id: application, former.id: former}

    def _handle(self, application: str, run: _Run) -> AsyncApplication | None:
        run.application = self._handles.pop(application, None) or run.application or self._held(application)
        return run.application

    def _often(self) -> None:
        self._timer = self._loop.call_later(OFTEN_S, self._often)
        for application, run in self._runs.items():
            if run.events:
                self._begin(application, run)

    def _begin(self, application: str, run: _Run) -> None:
        task = self._loop.create_task(self._write(application, run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, application: str, run: _Run) -> None:
        """Write what is new of a run; forget it where it is not of this client, or has ended."""
        held = self._handle(application, run)
        if held is None:
            if run.ended is not None:
                self._runs.pop(application, None)
            return
        async with self._writing:
            if self._broken:
                self._runs.clear()
                return
            with contextlib.suppress(ClusterError):
                for sink in held.plan.sinks:
                    await held.qos(sink)
            run.writer = run.writer or RunWriter(self._folder, application, held.plan)
            events, run.events = run.events, []
            last, names, finished = held.last, dict(self._follower.names), run.finished
            try:
                await asyncio.to_thread(
                    run.writer.write,
                    events,
                    names,
                    status=Status.FINISHED.value if finished else last.status,
                    reason="" if finished else held.cluster.readable(last.reason),
                    submitted=run.submitted,
                    ended=run.ended,
                    qos=last.qos,
                    graph=held.graph,
                )
            except OSError as error:
                self._broken = True
                LOG.warning("runs: %s: %s; nothing more is kept", self._folder, error.strerror)
        if last.status in ENDED and run.ended is not None and not run.events:
            self._runs.pop(application, None)

    async def close(self) -> None:
        """Write all that has come until the cluster closed."""
        self._timer.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._over.wait()
        self._leave()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for application, run in list(self._runs.items()):
            if run.events:
                await self._write(application, run)
