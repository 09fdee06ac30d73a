"""The driver of one peer's streams on an event loop: threads for executions, frames over the link, sources, one timer.

All bookkeeping is done on the loop's thread, by :class:`.hosting.Hosting`. Work that grows
with the data is done elsewhere: operators run in a pool of threads, where Polars releases the GIL, and encode their
output for other peers there; state is saved and restored there, and frames of more than :data:`LARGE` bytes are
decoded, one after another for each sender, so that they stay in order. Large snapshots are encoded in a separate
thread, while their components continue. Chunks of few tuples, for an operator that has been fast, are executed on the
loop's own thread, as a switch to another thread and back would take longer.

A frame that cannot be sent counts as lost: this module reports a broken link to hosting, which sends again what was
not received.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import thread_time
from typing import Any, Final

from synergy_nb.dataflow.deployments import FOLDER, Deployment
from synergy_nb.dataflow.logic import ANYTHING, Logic, SavedState
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.hosting.effects import (
    Arrived,
    Capture,
    Captured,
    Close,
    Copied,
    Effect,
    Fact,
    Hold,
    Open,
    Restore,
    SendFrame,
)
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.hosting.input_reports import InputsMeasured
from synergy_nb.dataflow.streams.log.chunking import TOGETHER_ROWS
from synergy_nb.dataflow.streams.log.frames import Ack, Data, Frame, Subscribe
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits
from synergy_nb.dataflow.streams.log.values import Chunk, Point, rows_of
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.events import DataRefused
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.overheads import HOP, SOURCE, Overheads
from synergy_nb.runtime.data.sources import SourceFeed
from synergy_nb.runtime.process.processor_share import ProcessorShare, note_speeds
from synergy_nb.runtime.process.running_peer import Runtime
from synergy_nb.runtime.transport.arenas import Shared, StaleReference, grows
from synergy_nb.runtime.transport.arrivals import LARGE, Arrivals

__all__ = ["SHARED", "STREAM", "StreamDriver"]

STREAM: Final = "stream"  # channel of the link for frames
SHARED: Final = "shared"  # channel of frames that refer to text in shared memory, which has to be scanned
LIGHT_ROWS: Final = 64  # most tuples of an execution on the loop's thread
# seconds within which an execution has to be expected to end, to take place on the loop's thread
LIGHT_SECONDS: Final = 0.6e-3
LIGHT_BYTES: Final = 1 << 20  # most memory that their execution may need
HEAVY_SECONDS: Final = 0.05  # seconds of an execution from which on the loop's thread must not wait for it
HEAVY_BYTES: Final = 64 << 20  # bytes of an execution from which on it is expected to take so long
MOST_APART: Final = 64  # components that may wait for other processes at a time
TURN_SECONDS: Final = 1e-3  # time on the loop's thread before other tasks run

Key = tuple[str, str]


class StreamDriver:
    """The streams of one peer."""

    def __init__(
        self,
        runtime: Runtime,  # the running peer: its address, loop, clock and link
        # function that creates the logic of a new component of a deployed application; None for a source
        create: Callable[[Deployment, Component], Logic | None],
        # function that opens a source: its component, the point from which it is read, and the callback for pending
        # chunks. It returns None if the source cannot be read and its component has failed
        read: Callable[[Component, Point, Callable[[], None]], SourceFeed | None],
        *,
        on_fact: Callable[[Fact], None],  # callback for each fact
        # callback with application and operator of a sink that has results to collect
        arrived: Callable[[str, str], None] = lambda _application, _operator: None,
        # callback for each execution of a sink, and for what another engine was given
        executed: Callable[[Work, ExecutionOutcome], None] = lambda _work, _outcome: None,
        limits: Limits = LIMITS,  # limits of each log, bytes
        memory: Memory | None = None,  # memory that all components of the peer share; None: no limit
        # unused_cores, on_unused_cores: function that returns the unused cores of this peer, for its producers;
        # callback for those of other peers
        unused_cores: Callable[[], float] = float,
        on_unused_cores: Callable[[str, float], None] = lambda _address, _cores: None,
        machine: Callable[[], str] = str,
        # overheads of the peer, which record the measured time of chunks of few tuples beside the processing of these
        overheads: Overheads | None = None,
        share: ProcessorShare | None = None,  # share of a processor that this process gets; None: a whole one
        hotspots: HotSpotConfig | None = None,
        # callback for each report of predictions, and of tuples without slack
        predicted: Callable[[PeerPrediction | SlackViolation | InputsMeasured], None] = lambda _effect: None,
        # takes frames for the durable folder, which answers by `hear`
        to_folder: Callable[[Frame], None] = lambda _frame: None,
    ) -> None:
        self._to_folder = to_folder
        self._shared = Shared(machine)
        self._share = ProcessorShare(lambda: (0.0, 0.0)) if share is None else share
        self.hosting = Hosting(
            runtime.address,
            create,
            limits,
            memory,
            unused_cores=unused_cores,
            machine=self._shared.machine,
            near=self._shared.shares_memory,
            share=self._shared.arenas.encode,
            hotspots=hotspots,
            speed=lambda: self._share.value,
        )
        # component to the feed that emits for it without an execution here: a source, or a part on another engine
        self.feeds: dict[Component, SourceFeed] = {}
        self._runtime = runtime
        self._clock = runtime.clock
        self._read = read
        self._on_fact = on_fact
        self._arrived = arrived
        self._executed = executed
        self._on_unused_cores = on_unused_cores
        self._predicted = predicted
        self._overheads = Overheads() if overheads is None else overheads
        self._pool = ThreadPoolExecutor(2, thread_name_prefix=f"synergy streams {runtime.address}")
        # for components that wait for other processes: a function that blocks must not block the others
        self._apart = ThreadPoolExecutor(MOST_APART, thread_name_prefix=f"synergy functions {runtime.address}")
        self._waiting: set[Component] = set()  # components whose execution is in such a thread
        self._saving = ThreadPoolExecutor(1, thread_name_prefix=f"synergy snapshots {runtime.address}")
        self._executing: dict[
            Component, float
        ] = {}  # executions in the pool and their start; long ago if they are expected to take long
        self._beside = 0  # snapshots being encoded while their components continue
        self._arrivals = Arrivals(
            runtime.loop,
            self._pool,
            self._clock,
            partial(decode, item_of=self._shared.item),
            self._receive,
            self._refuse,
        )
        runtime.on_channel(STREAM, self._arrivals.add)
        runtime.on_channel(SHARED, self._arrivals.add_slow)
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None  # time of the clock at which it is due, seconds
        self._called = False
        self._given = False  # whether any feed may have something to emit
        self._closed = False
        self._has_apart = False  # whether any component waits for another process
        self._idle = asyncio.Event()

    # -- inputs of the peer --------------------------------------------------------------------------------

    def converge(self, deployment: Deployment) -> None:
        """Carry out a deployment on this peer, after what has happened to the components that it may remove."""
        self._carry_out(self.hosting.settle(self._clock()))
        self._carry_out(self.hosting.converge(deployment, self._clock()))
        self._has_apart = any(each.apart for each in self.hosting.components.values())
        self.soon()
        for feed in self.feeds.values():
            feed.copied()
        if not deployment.assignments:
            self._shared.arenas.release_unused()

    def _receive(self, sender: str, frame: Frame, began: float | None) -> None:
        if self._closed:
            return
        if isinstance(frame, Ack):
            self._on_unused_cores(sender, frame.unused_cores)
        elif isinstance(frame, Subscribe):
            self._shared.note_machine(sender, frame.machine)
        self.hosting.take(sender, frame, self._clock())
        if began is not None and isinstance(frame, Data) and frame.chunks:
            first, last = frame.chunks[0], frame.chunks[-1]
            if 0 < last.end.position - first.start.position < LIGHT_ROWS:
                self._overheads.observe(HOP, self._clock() - began)
        self.soon()

    def _refuse(self, sender: str, error: BaseException) -> None:
        """Ask again for a frame that was damaged, or whose reference is invalid."""
        if isinstance(error, StaleReference):
            self._shared.failed()
        else:
            self._runtime.record(DataRefused, sender, reason=str(error))
        if not self._closed:
            self._carry_out(self.hosting.link_down(sender, self._clock()))
            self.soon()

    def link_down(self, peer: str) -> None:
        """Handle a broken link: frames to or from a peer may be lost."""
        self._shared.note_machine(peer, "")
        if not self._closed:
            self._carry_out(self.hosting.link_down(peer, self._clock()))
            self.soon()

    def collected(self, application: str, operator: str, read: Point, kept: Point) -> None:
        """Record that all clients have the results of a sink up to ``read``; discard those before ``kept``."""
        self._carry_out(self.hosting.collected(application, operator, read, kept, self._clock()))
        self.soon()

    def abort(self, application: str, operator: str, error: BaseException) -> None:
        """Fail a component because of an error outside of its executions."""
        if not self._closed:
            self._carry_out(self.hosting.abort(application, operator, error, self._clock()))
            self.soon()

    def committed(self, component: Component) -> None:
        """Handle that another engine has committed or handed over more of a component."""
        if not self._closed:
            self._carry_out(self.hosting.committed(component, self._clock()))
            self.soon()

    def pause(self, component: Component, paused: bool) -> None:
        """Suspend or resume the execution of a component."""
        if not self._closed and component.paused != paused:
            self._carry_out(self.hosting.pause(component, paused, self._clock()))
            self.soon()

    def drop(self, component: Component) -> None:
        """Stop the feed of a component that was removed."""
        feed = self.feeds.pop(component, None)
        if feed is not None:
            feed.stop()
            task = self._runtime.loop.create_task(feed.closed())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def beside(self, work: Callable[..., object], *arguments: Any) -> None:
        """Run a function in a thread between two executions."""
        self._pool.submit(work, *arguments)

    async def close(self) -> None:
        """Stop everything: no thread, timer or buffer remains."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for component in tuple(self.feeds):
            self.drop(component)
        if self._ending:
            await asyncio.gather(*self._ending)
        self._rest()
        await self._idle.wait()
        self._pool.shutdown()
        self._apart.shutdown()
        self._saving.shutdown()

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(to, frame):
                    self._send(to, frame)
                case Capture():
                    self._begin(effect.component).submit(self._save, effect)
                case Restore():
                    self._restore(effect)
                case Open(application, operator, since):
                    self._open(self.hosting.components[application, operator], since)
                case Hold(application, operator, on):
                    for each in self._feeds((application, operator)).values():
                        each.hold(on=on)
                case Close(application, operator):
                    self._close((application, operator))
                case Arrived(application, operator):
                    self._arrived(application, operator)
                case Copied(application, operator):
                    component = self.hosting.components.get((application, operator))
                    if component is not None and (feed := self.feeds.get(component)) is not None:
                        feed.copied()
                    elif component is not None and component.log.collected:
                        self._arrived(application, operator)
                case Fact():
                    self._on_fact(effect)
                case PeerPrediction() | SlackViolation() | InputsMeasured():
                    self._predicted(effect)

    def hear(self, frame: Frame) -> None:
        """Handle what the durable folder says."""
        if not self._closed:
            self.hosting.take(FOLDER, frame, self._clock())
            self.soon()

    def _send(self, to: str, frame: Frame) -> None:
        if to == FOLDER:
            self._to_folder(frame)
            return
        shares_memory = self._shared.shares_memory(to)
        refers = shares_memory and isinstance(frame, Data) and any(map(grows, frame.chunks))
        try:
            self._runtime.send_data(to, SHARED if refers else STREAM, encode(frame, near=shares_memory))
        except (OSError, BufferError):
            self._runtime.loop.call_soon(self.link_down, to)

    def _open(self, component: Component, since: Point) -> None:
        feed = self._read(component, since, self.given)
        if feed is not None:
            self.feeds[component] = feed
            feed.encode = self.hosting.encoder(component)
            if self.hosting.on_hold(component.application, component.operator):
                feed.hold(on=True)
            feed.start()

    def _close(self, key: Key) -> None:
        for component in self._feeds(key):
            self.drop(component)

    def _feeds(self, key: Key) -> dict[Component, SourceFeed]:
        return {each: feed for each, feed in self.feeds.items() if (each.application, each.operator) == key}

    # -- turns of the loop ---------------------------------------------------------------------------------------

    def given(self) -> None:
        """Emit soon what feeds have."""
        self._given = True
        self.soon()

    def soon(self) -> None:
        """Schedule a turn after the present callbacks of the loop."""
        if not self._called and not self._closed:
            self._called = True
            self._runtime.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._called = False
        if self._closed:
            return
        began = now = self._clock()
        if self._timer_at is not None and self._timer_at <= now:
            self._carry_out(self.hosting.tick(now))
        hosting, changes = self.hosting, self.hosting.changes
        while True:
            emitted = self._given and self._emit(now)
            # what has arrived, was emitted and executed is settled at once
            if changes.touched or changes.effects or changes.inside:
                self._carry_out(hosting.settle(now))
            if now - began >= TURN_SECONDS:
                self.soon()
                break
            executed = bool(hosting.runnable) and self._execute(now)
            if not emitted and not executed:
                break
            now = self._clock()
        at = hosting.next_timer
        if at == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at is not None:
            self._timer = self._runtime.loop.call_later(max(at - self._clock(), 0.0), self._due)

    def _due(self) -> None:
        """Take a turn as the timer is due; it has to be set again, even if the clock has not come so far."""
        self._timer = None
        self._turn()

    def _emit(self, now: float) -> bool:
        """Emit one chunk, with its promise, of each feed that has room downstream: so all sharers keep up."""
        emitted = self._given = False
        for component, feed in tuple(self.feeds.items()):
            if not feed.pending:
                continue
            if self.hosting.emitting(component.application, component.operator) is component:
                chunks = [chunk := feed.pending.popleft()]
                while chunk.rows and feed.pending and not feed.pending[0].rows:
                    chunks.append(feed.pending.popleft())
                self.hosting.append(component, chunks, now)
                feed.encode = self.hosting.encoder(component)
                if feed.timed and not feed.gathers and chunk.rows and not feed.pending and not component.feeds:
                    self._overheads.observe(SOURCE, now - chunk.born)
                for chunk in chunks:
                    feed.emitted(chunk)
                emitted = True
            self._given = self._given or bool(feed.pending)
        return emitted

    # -- execution -----------------------------------------------------------------------------------------------

    def _execute(self, now: float) -> bool:
        """Execute the next work, here or in a thread; False if there is none."""
        if not self._executing:  # one at a time, so that the peer does no more than it promises
            work = self.hosting.next(now, together=TOGETHER_ROWS)
        else:
            work = self.hosting.next(now, self._light, together=LIGHT_ROWS - 1) if not self.occupied else None
            if work is None and self._has_apart:
                work = self.hosting.next(now, _is_apart, together=TOGETHER_ROWS)
        if work is None:
            return False
        if self._is_light(work):
            self._complete(work, work.run(self._clock, self.hosting.limits.window), now)
        else:
            threads = self._begin(work.component, heavy=work.needs >= HEAVY_BYTES)
            threads.submit(self._run, self.hosting.chained(work), now)
        return True

    @property
    def occupied(self) -> bool:
        """Whether an execution runs for long in a thread: other calls of Polars may have to wait until it ends."""
        if not self._executing:
            return False
        now = self._clock()
        return any(now - began >= HEAVY_SECONDS for began in self._executing.values())

    def _is_light(self, work: Work) -> bool:
        if not work.chunks or work.rows >= LIGHT_ROWS:  # without chunks it continues earlier work
            return False
        if work.component.apart or (self._executing and self.occupied):
            return False
        component, dropped = work.component, work.dropped
        tuples, promises = component.light_s < LIGHT_SECONDS, component.light_punctuation_s < LIGHT_SECONDS
        # without state there is nothing to close, however long earlier promises took while the machine was busy
        promises = promises or not (component.share.used or work.rows)
        for chunk in work.chunks:
            if not (dropped or tuples if chunk.rows else promises):
                return False
        return work.needs < LIGHT_BYTES

    def _light(self, component: Component, chunk: Chunk) -> bool:
        if component.apart:
            return False
        if not chunk.rows:
            return component.light_punctuation_s < LIGHT_SECONDS or not component.share.used
        return chunk.rows < LIGHT_ROWS and component.light_s < LIGHT_SECONDS

    def _begin(self, component: Component, *, heavy: bool = False) -> ThreadPoolExecutor:
        """Note that a component executes, and return the threads that do it."""
        if component.apart:
            self._waiting.add(component)
            return self._apart
        self._executing[component] = -math.inf if heavy else self._clock()
        return self._pool

    def _end(self, component: Component) -> None:
        if component.apart:
            self._waiting.remove(component)
        else:
            del self._executing[component]
        if self._closed:
            self._rest()

    def _rest(self) -> None:
        if not self._executing and not self._waiting and not self._beside:
            self._idle.set()

    def _run(self, work: Work, started: float) -> None:
        self._on_loop(self._finish, work, work.run(self._clock, self.hosting.limits.window), started)

    def _finish(self, work: Work, outcome: ExecutionOutcome, started: float) -> None:
        self._end(work.component)
        if not self._closed:
            self._complete(work, outcome, started)
            self._turn()

    def _complete(self, work: Work, outcome: ExecutionOutcome, started: float) -> None:
        component = work.component
        note_speeds(work, outcome, self._share.at(outcome.finished))
        self.hosting.finish(work, outcome, self._clock())
        if outcome.then is None and not component.external and outcome.error is None and not outcome.unfinished:
            rows = work.rows
            if rows < LIGHT_ROWS and work.chunks and rows_of(outcome.chunks):
                self._overheads.observe(component.kind, self._clock() - started - rows * component.planned_s)
        made: tuple[Work, ExecutionOutcome] | None = work, outcome
        while made is not None:
            executed, found = made
            component, made = executed.component, found.then
            reports = component.kind == "sink" or component.external
            if reports and not component.failed and self.hosting.hosts(component):
                self._executed(executed, found)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def _save(self, capture: Capture) -> None:
        began = thread_time()
        try:
            saved = capture.save()
            if capture.size(saved) >= LARGE:
                self._on_loop(self._saved, capture, saved, thread_time() - began)
                return
            made: Captured | BaseException = capture.encode(saved)
        except ANYTHING as error:  # only the operator's own application may fail
            made = error
        self._on_loop(self._captured, capture, made, thread_time() - began)

    def _captured(self, capture: Capture, made: Captured | BaseException, seconds: float) -> None:
        self._end(capture.component)
        if not self._closed:
            self._carry_out(self.hosting.captured(capture, made, self._clock(), seconds))
            self.soon()

    def _saved(self, capture: Capture, saved: SavedState, seconds: float) -> None:
        if not self._closed:
            self._beside += 1
            self._saving.submit(self._encode, capture, saved, seconds)
        self._end(capture.component)
        if not self._closed:
            self._carry_out(self.hosting.saved(capture, self._clock()))
            self.soon()

    def _encode(self, capture: Capture, saved: SavedState, seconds: float) -> None:
        began = thread_time()
        try:
            made: Captured | BaseException = capture.encode(saved)
        except ANYTHING as error:
            made = error
        self._on_loop(self._encoded, capture, made, seconds + thread_time() - began)

    def _encoded(self, capture: Capture, made: Captured | BaseException, seconds: float) -> None:
        self._beside -= 1
        if self._closed:
            self._rest()
        if not self._closed:
            self._carry_out(self.hosting.captured(capture, made, self._clock(), seconds))
            self.soon()

    def _restore(self, restore: Restore) -> None:
        threads = self._begin(restore.component, heavy=restore.size >= HEAVY_BYTES)
        if restore.size < LARGE and not restore.component.apart:
            self._restored(restore, restore.attempt())
        else:
            threads.submit(lambda: self._on_loop(self._restored, restore, restore.attempt()))

    def _restored(self, restore: Restore, error: BaseException | None) -> None:
        self._end(restore.component)
        if not self._closed:
            self._carry_out(self.hosting.restored(restore, error, self._clock()))
            self.soon()

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            self._runtime.loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop was closed without closing the driver
            return


def _is_apart(component: Component, _chunk: Chunk) -> bool:
    """Whether a component is executed beside the others."""
    return component.apart
