"""What moves items on a peer and executes operators on them: queues, threads, credits, and the frames on the wire.

All bookkeeping happens on the event loop's thread, in :class:`~synergy_nb.dataflow.hosting.Hosting`; operators run in a
small pool of threads, where Polars releases the GIL. An item of few tuples for an operator that has been taking less
than :data:`LIGHT_SECONDS` is executed on the loop's thread itself: going to another thread and back would take longer.
Items that wait for the same operator are executed together, so whoever is behind has less to do for each of them.

On the wire (see :mod:`synergy_nb.dataflow.addresses`), frames of kind ``data`` carry what goes through a channel, and
those of kind ``credit`` what its reader has consumed of it, as 8 bytes, little-endian, with the cores that the reader's
peer has left, as 4 bytes of a float. So whoever sends data to a peer knows its load and need not ask whether it can
take on more (dissertation, section 2.3.1, step 3; there the load travels with the data, downstream, although it is the
upstream peer that probes).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from synergy_nb.dataflow.addresses import CREDIT, DATA, REPLICA, SETTLED, STATE, kind_of, parts_of, retyped
from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.hosting import TOGETHER_ROWS, Component, Delivery, Hosting, Work
from synergy_nb.dataflow.packing import on_wire, parcel_of
from synergy_nb.dataflow.tuples import decode
from synergy_nb.overheads import HOP, SOURCE, Overheads
from synergy_nb.runtime.execution import Execution, Outcome, Runtime
from synergy_nb.runtime.replicas import Replicas
from synergy_nb.runtime.sinks import Sink
from synergy_nb.runtime.sources import Feed
from synergy_nb.runtime.spark import SparkPart

__all__ = ["DataPath"]

LIGHT_ROWS: Final = 64  # tuples of an item that may be executed on the loop's thread
LIGHT_SECONDS: Final = 0.6e-3  # that such items may have been taking: 60 µs in a row, 450 µs after 10 ms of rest
TURN_SECONDS: Final = 1e-3  # spent on the loop's thread before others get their turn
LEFT: Final = 1000  # applications that are remembered after something of them has gone
HELD_S: Final = 1.0  # until a reader that could not be reached is tried again
GRANT: Final = struct.Struct("<Qf")  # bytes consumed since the channel began, cores left


class DataPath:
    """The data path of one peer: between its components, and between these and other peers.

    Parameters
    ----------
    runtime
        The running peer.
    hosting
        Queues and channels of the components of the peer.
    failed
        Called with an execution that cannot go on, and why.
    ended
        Called with a sink that has got the end of its stream.
    threads
        Operators that are executed at the same time.
    left
        Cores that this peer has left.
    heard
        Told of the cores that another has left.
    overheads
        Overheads of the peer, which take the measured time of items of few tuples beside the processing of these.

    Attributes
    ----------
    executions
        Component to its execution, of those that are at work.
    replicas
        The backups that it keeps, and what it sends to those of its own components.
    feeds
        Execution to feed, of what emits here without being executed.
    routes
        Channel to where it leads: the address of a peer, or a sink.
    """

    def __init__(
        self,
        runtime: Runtime,
        hosting: Hosting,
        *,
        failed: Callable[[Execution, BaseException], None],
        ended: Callable[[Sink], None],
        threads: int,
        left: Callable[[], float],
        heard: Callable[[str, float], None],
        overheads: Overheads,
    ) -> None:
        self.hosting = hosting
        self.replicas = Replicas(runtime, hosting, self._pump_soon)
        self.executions: dict[Component, Execution] = {}
        self.feeds: dict[Execution, Feed] = {}
        self.routes: dict[str, str | Sink] = {}
        self.senders: dict[str, str] = {}  # channel to the address that it comes from
        self._runtime = runtime
        self._clock = runtime.clock
        self._failed = failed
        self._ended = ended
        self._threads = threads
        self._left = left
        self._heard = heard
        self._overheads = overheads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"synergy {runtime.address}")
        self._executing = 0  # in the pool
        self._strangers: set[str] = set()  # channels refused so far, to journal each once
        self._departed: dict[str, None] = {}  # applications that had something here: their data may be late
        self._pumping = self._again = self._called = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, execution: Execution) -> None:
        """Let the items of a component find their way."""
        self.executions[execution.component] = execution
        self.routes.update(execution.routes)
        if execution.sink is not None:
            self.routes[execution.sink.channel] = execution.sink

    def remove(self, execution: Execution) -> None:
        """Take a component out; the results of a sink stay."""
        component = execution.component
        self.leave(component.application)
        self.hosting.remove(component.application, component.operator)
        self.executions.pop(component, None)
        self.feeds.pop(execution, None)
        self.replicas.remove(component)
        for inlet in component.inlets:
            self.senders.pop(inlet.channel, None)
        for channel in execution.routes:
            self.routes.pop(channel, None)

    def leave(self, application: str) -> None:
        """Something of an application goes; what is on its way to it may come yet."""
        self._departed[application] = None
        if len(self._departed) > LEFT:
            del self._departed[next(iter(self._departed))]

    def detach(self, channel: str) -> None:
        """Send nothing more on a channel."""
        self.hosting.detach(channel)
        self.routes.pop(channel, None)

    def beside(self, work: Callable[..., object], *arguments: Any) -> None:
        """Do something in a thread between two executions."""
        self._pool.submit(work, *arguments)

    async def close(self) -> None:
        """Return when nothing is executed any more, and no thread is left."""
        self.replicas.close()
        await self._idle.wait()
        self._pool.shutdown()

    # -- from and to other peers ---------------------------------------------------------------------------------

    def on_data(self, sender: str, channel: str, payload: bytes) -> None:
        """Take a data frame from another peer: items, or what its reader has consumed."""
        kind = kind_of(channel)
        if kind == DATA:
            self._take(sender, channel, payload)
        elif kind == CREDIT:
            self._credit(sender, channel, payload)
        elif kind in (REPLICA, STATE, SETTLED):
            self._replicate(sender, channel, payload)
        else:
            expected = f"{DATA}, {CREDIT}, {REPLICA}, {STATE} or {SETTLED}"
            self._refuse(channel, f"a frame of kind {kind!r:.100}; expected {expected}")

    def _take(self, sender: str, channel: str, payload: bytes) -> None:
        inlet = self.hosting.inlet(channel)
        if inlet is None:
            self._unwanted(channel, "no component on this peer reads it")
            return
        self.senders[channel] = sender
        now = self._clock()
        try:
            parcel = parcel_of(decode(payload), payload)
            self.hosting.offer(channel, parcel, now)
            if 0 < parcel.rows < LIGHT_ROWS:
                self._overheads.observe(HOP, self._clock() - now)
        except ValueError as error:  # damaged, or tuples are missing
            self._failed(self.executions[inlet.component], error)
        self._pump_soon()  # frames that have come together are executed together

    def _credit(self, sender: str, channel: str, payload: bytes) -> None:
        if len(payload) == GRANT.size:
            consumed, left = GRANT.unpack(payload)
            self._heard(sender, left)
            self._dispatch(self.hosting.credit(retyped(channel, DATA), consumed, self._clock()))
        else:
            self._refuse(channel, f"{len(payload)} bytes; expected {GRANT.size}")
        self.pump()

    def _replicate(self, sender: str, channel: str, payload: bytes) -> None:
        try:
            if not self.replicas.on_data(sender, channel, payload):
                self._unwanted(channel, "this peer has no such backup")
        except (ValueError, msgspec.MsgspecError) as error:
            self._refuse(channel, str(error))

    def _unwanted(self, channel: str, reason: str) -> None:
        """Nothing here takes the data; that is an error unless what took them has just gone."""
        parts: tuple[str, ...] = ()
        with contextlib.suppress(ValueError):  # of no address that anybody here composes
            parts = parts_of(channel)
        if len(parts) < 2 or parts[1] not in self._departed:
            self._refuse(channel, reason)

    def _refuse(self, channel: str, reason: str) -> None:
        if channel not in self._strangers and len(self._strangers) < 1000:
            self._strangers.add(channel)
            self._runtime.record("data_refused", channel, reason=reason)

    def _dispatch(self, deliveries: Iterable[Delivery]) -> None:
        for channel, parcel in deliveries:
            route = self.routes.get(channel)
            if isinstance(route, Sink):
                self._keep(route, parcel)
            elif route is not None and parcel.payload is not None:
                self._send(channel, route, channel, parcel.payload)

    def _send(self, own: str | None, to: str, channel: str, payload: bytes) -> None:
        try:
            self._runtime.send_data(to, channel, payload)
        except (OSError, BufferError) as error:  # the link is full or gone: tuples would be missing
            writer = self.hosting.writer(own) if own is not None else None
            outlet = self.hosting.outlet(channel)
            if outlet is not None and outlet.keepers:  # its reader may be dead, and another take its place
                outlet.held = True
                self._runtime.loop.call_later(HELD_S, self._try_again, channel)
            elif writer is not None:
                self._failed(self.executions[writer], error)

    def _try_again(self, channel: str) -> None:
        """The reader of a channel could not be reached; by now another may have taken its place."""
        outlet = self.hosting.outlet(channel)
        if outlet is not None and outlet.held and channel in self.routes:
            self.redirect(channel, outlet.keepers)

    def redirect(self, channel: str, keepers: Iterable[str]) -> None:
        """Send all that the backups of a reader did not cover to where the channel leads now, where it has others."""
        local = self.routes[channel] == self._runtime.address
        prepare = _as_it_is if local else on_wire
        self._dispatch(self.hosting.redirect(channel, prepare, tuple(keepers), self._clock(), local=local))

    def _keep(self, sink: Sink, parcel: Parcel) -> None:
        before = sink.fetched, sink.ended
        sink.keep(parcel)
        if sink.fetched != before[0]:
            self.fetched(sink)
        if sink.ended and not before[1]:
            self._ended(sink)

    def fetched(self, sink: Sink) -> None:
        """Results of a sink have left it: it has room."""
        self._dispatch(self.hosting.credit(sink.channel, sink.fetched, self._clock()))

    # -- execution -----------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Emit, execute and grant until nothing more can be done now."""
        if self._pumping:
            self._again = True
            return
        self._pumping = True
        try:
            self._again = True
            while self._again:
                self._again = False
                self._turn()
                for channel, consumed in self.hosting.grants():
                    sender = self.senders.get(channel)
                    if sender is not None:
                        self._send(None, sender, retyped(channel, CREDIT), GRANT.pack(consumed, self._left()))
        finally:
            self._pumping = False

    def _pump_soon(self) -> None:
        """Pump when what is to be done on the loop now has been done."""
        if not self._called:
            self._called = True
            self._runtime.loop.call_soon(self._pump_now)

    def _pump_now(self) -> None:
        self._called = False
        self.pump()

    def _turn(self) -> None:
        began = self._clock()
        while True:
            self._emit(began)
            now = self._clock()
            if now - began > TURN_SECONDS:
                self._pump_soon()
                return
            if self._executing < self._threads:
                work = self.hosting.next(now, together=TOGETHER_ROWS)
            else:
                work = self.hosting.next(now, self._light, together=LIGHT_ROWS - 1)
            if work is None:
                return
            execution = self.executions[work.component]
            if self._is_light(execution, work):
                self._complete(execution, work, execution.run(work), now)
            else:
                self._executing += 1
                self._idle.clear()
                self._pool.submit(self._in_thread, execution, work, now)

    def _is_light(self, execution: Execution, work: Work) -> bool:
        if work.resumed or work.fresh >= LIGHT_ROWS:
            return False
        return all(self._light(work.component, parcel) for parcel in work.parcels) and execution.light(work)

    def _light(self, component: Component, parcel: Parcel) -> bool:
        execution = self.executions[component]
        expected = execution.light_s if parcel.time is None else execution.light_punctuation_s
        return parcel.rows < LIGHT_ROWS and expected < LIGHT_SECONDS

    def _emit(self, began: float) -> None:
        """Take out of the feeds what has room downstream, a parcel of each in turn: who shares a stream keeps up."""
        busy = True
        while busy:
            busy = False
            for execution, feed in tuple(self.feeds.items()):
                component = execution.component
                if not feed.pending or not self.hosting.may_emit(component):
                    continue
                busy = True
                parcel = feed.pending.popleft()
                now = self._clock()
                deliveries = self.hosting.emit(component, [parcel], now)
                feed.rate = component.departures.per_second(now)
                if feed.timed and parcel.rows and not feed.pending:
                    self._overheads.observe(SOURCE, now - parcel.born)
                feed.emitted(parcel)
                self._dispatch(deliveries)
                if now - began > TURN_SECONDS:
                    return

    def _in_thread(self, execution: Execution, work: Work, taken: float) -> None:
        outcome = execution.run(work)
        try:
            self._runtime.loop.call_soon_threadsafe(self._after_thread, execution, work, outcome, taken)
        except RuntimeError:  # the loop was closed without closing the host: nobody is waiting
            return

    def _after_thread(self, execution: Execution, work: Work, outcome: Outcome, taken: float) -> None:
        self._executing -= 1
        if not self._executing:
            self._idle.set()
        self._complete(execution, work, outcome, taken)
        self.pump()

    def _complete(self, execution: Execution, work: Work, outcome: Outcome, taken: float) -> None:
        last = work.parcels[-1]
        if not outcome.unfinished:
            execution.taken[work.port] = last.position + last.rows
        late = execution.account(outcome, LIGHT_ROWS)
        deliveries = self.hosting.done(
            work, outcome.parcels, outcome.started, outcome.finished, late, unfinished=outcome.unfinished
        )
        if execution.component.removed:
            return
        if isinstance(execution.logic, SparkPart):
            execution.component.paused = execution.logic.full
        if outcome.error is not None:
            self._failed(execution, outcome.error)
            return
        whole = not (work.resumed or outcome.unfinished)
        if outcome.made and whole and work.fresh < LIGHT_ROWS and not execution.component.elsewhere:
            beside = self._clock() - taken - work.fresh * execution.tuple_s
            self._overheads.observe(execution.operator.kind, beside)
        if not outcome.unfinished:
            self.replicas.executed(execution)
        if execution.sink is not None:
            for rows, size, born, now in outcome.arrived:
                execution.sink.measure(rows=rows, size=size, born=born, now=now)
        self._dispatch(deliveries)


def _as_it_is(parcel: Parcel) -> Parcel:
    return parcel
