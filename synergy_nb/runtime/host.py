"""What executes operators on a peer: it carries out instructions, moves items, and reports failures and measurements.

All bookkeeping happens on the event loop's thread, in :class:`~synergy_nb.dataflow.hosting.Hosting`; operators run in a
small pool of threads, where Polars releases the GIL. An item of few tuples for an operator that has been taking less
than :data:`LIGHT_SECONDS` is executed on the loop's thread itself: going to another thread and back would take longer.
Items that wait for the same operator are executed together, so whoever is behind has less to do for each of them.

On the wire, data travel on the channel ``application/upstream>operator:port``, and what the reader has consumed on
``credit:`` + channel, as 8 bytes, little-endian.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.hosting import TOGETHER_ROWS, WINDOW_BYTES, Component, Delivery, Hosting, Work
from synergy_nb.dataflow.tuples import decode
from synergy_nb.graph import Deploy, Start, Undeploy
from synergy_nb.plan import Plan
from synergy_nb.runtime.execution import Execution, Outcome, Runtime, Surroundings, assemble, read_paced, warm
from synergy_nb.runtime.packing import parcel_of
from synergy_nb.runtime.sinks import Sink
from synergy_nb.runtime.sources import Feed, PushFeed, Sample, Stream
from synergy_nb.runtime.spark import SparkHost, SparkPart

__all__ = ["Host", "Runtime"]

LIGHT_ROWS: Final = 64  # tuples of an item that may be executed on the loop's thread
LIGHT_SECONDS: Final = 0.6e-3  # that such items may have been taking: 60 µs in a row, 450 µs after 10 ms of rest
TURN_SECONDS: Final = 1e-3  # spent on the loop's thread before others get their turn
RESULT_BYTES: Final = 64 << 20  # results that a sink keeps until they are fetched
CREDIT: Final = "credit:"


class Host:
    """Executes the components of one peer.

    Parameters
    ----------
    runtime
        The running peer.
    failed
        Called with (application, operator, reason) when an operator or a source fails; the rest goes on.
    finished
        Called with (application, operator) when a sink has got the end of its stream.
    measured
        Called with (application, operator, record) of each sink every ``measure_s``; it is also journaled as ``qos``.
    prepared
        Called with (application, operator) when a part on Spark takes tuples.
    discipline, window_bytes
        See :class:`~synergy_nb.dataflow.hosting.Hosting`.
    result_bytes
        Results that a sink keeps until they are fetched; a full sink stops what is upstream of it.
    threads
        Operators that are executed at the same time.
    keys
        Secrets of ``encrypt`` and ``decrypt`` by name.
    samples
        Gives this peer's load and ping times, for sources with connector ``peers``; None: there are none.
    read
        Opens the stream of a source with connector ``trace`` or ``packets``, see
        :func:`~synergy_nb.runtime.execution.read_paced`.
    measure_s
        Seconds between two measurements of the sinks.
    spark
        What this peer has to do with Spark; None: it takes no parts on Spark.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        failed: Callable[[str, str, str], None] | None = None,
        finished: Callable[[str, str], None] | None = None,
        measured: Callable[[str, str, dict[str, Any]], None] | None = None,
        prepared: Callable[[str, str], None] | None = None,
        discipline: str = "fcfs",
        window_bytes: int = WINDOW_BYTES,
        result_bytes: int = RESULT_BYTES,
        threads: int = 1,
        keys: Mapping[str, bytes] | None = None,
        samples: Callable[[], Iterable[Sample]] | None = None,
        read: Callable[[Mapping[str, Any]], tuple[Stream, bool]] = read_paced,
        measure_s: float = 1.0,
        spark: SparkHost | None = None,
    ) -> None:
        self.hosting = Hosting(discipline, window_bytes)
        self._runtime = runtime
        self._clock = runtime.clock
        self._failed = failed
        self._finished = finished
        self._measured = measured
        self._prepared = prepared
        self._measure_s = measure_s
        self._threads = threads
        self._around = Surroundings(
            address=runtime.address,
            loop=runtime.loop,
            clock=runtime.clock,
            ready=self._pump,
            failed=self._fail,
            result_bytes=max(result_bytes, window_bytes),
            most=max(window_bytes // 2, 1),
            keys=keys or {},
            samples=samples,
            read=read,
            prepared=self._part_prepared,
            spark=spark,
        )
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"synergy {runtime.address}")
        self._executing = 0  # in the pool
        self._warm: set[str] = set()  # kinds of operators that have run
        self._executions: dict[tuple[str, str], Execution] = {}
        self._by_component: dict[Component, Execution] = {}
        self._routes: dict[str, str | Sink] = {}  # channel to where it leads
        self._senders: dict[str, str] = {}  # channel to the address that it comes from
        self._feeds: dict[Execution, Feed] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._strangers: set[str] = set()  # channels refused so far, to journal each once
        self._pumping = self._again = self._called = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # -- instructions --------------------------------------------------------------------------------------------

    def carry_out(self, instruction: object) -> None:
        """Deploy, start or undeploy a component; what goes wrong is reported through ``failed``.

        Raises
        ------
        TypeError
            If the instruction is of another kind.
        """
        match instruction:
            case Deploy():
                self._deploy(instruction)
            case Start(application, operator):
                self._start(application, operator)
            case Undeploy(application, operator):
                self._undeploy(application, operator)
            case _:
                kind = type(instruction).__name__
                raise TypeError(f"instruction: {kind}; expected Deploy, Start or Undeploy")

    def _deploy(self, order: Deploy) -> None:
        key = (order.application, order.operator)
        if self._closed or key in self._executions:  # an instruction that came twice has been carried out
            return
        try:
            self.hosting.discipline = order.discipline
            execution = assemble(order, self.hosting, self._around)
        except ValueError as error:
            self._report(*key, error)
            return
        self._executions[key] = self._by_component[execution.component] = execution
        self._routes.update(execution.routes)
        if execution.sink is not None:
            self._routes[execution.sink.channel] = execution.sink
        kind = execution.operator.kind
        if execution.feed is not None:
            if execution.operator.inputs:  # a part on Spark: what it makes of what it gets leaves it as of a source
                self._feeds[execution] = execution.feed
            execution.feed.prepare()
        elif kind not in self._warm:
            self._warm.add(kind)
            self._pool.submit(warm, execution.operator, Plan.from_bytes(order.plan))
        self._runtime.record("component_deployed", order.application, operator=order.operator)
        if execution.sink is not None and self._timer is None:
            self._timer = self._runtime.loop.call_later(self._measure_s, self._tick)
        self._pump()

    def _part_prepared(self, execution: Execution) -> None:
        component = execution.component
        if not component.removed and self._prepared is not None:
            self._runtime.record("part_prepared", component.application, operator=component.operator)
            self._prepared(component.application, component.operator)

    def _start(self, application: str, operator: str) -> None:
        execution = self._executions.get((application, operator))
        if execution is None or execution.feed is None or execution.failure is not None or execution.started:
            return
        execution.started = True
        self._feeds[execution] = execution.feed
        self._runtime.record("source_started", application, operator=operator)
        execution.feed.start()
        self._pump()

    def _undeploy(self, application: str, operator: str) -> None:
        execution = self._executions.pop((application, operator), None)
        if execution is None:
            return
        self._remove(execution)
        if execution.sink is not None:
            del self._routes[execution.sink.channel]
            execution.sink.close()
        self._runtime.record("component_undeployed", application, operator=operator)
        if not any(other.sink is not None for other in self._executions.values()) and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pump()

    def _remove(self, execution: Execution) -> None:
        """Take a component out of the data path; the results of a sink stay."""
        component = execution.component
        self.hosting.remove(component.application, component.operator)
        self._by_component.pop(component, None)
        self._feeds.pop(execution, None)
        for inlet in component.inlets:
            self._senders.pop(inlet.channel, None)
        for channel in execution.routes:
            self._routes.pop(channel, None)
        feed, execution.feed, execution.logic = execution.feed, None, None
        if feed is not None:
            feed.stop()
            task = self._runtime.loop.create_task(feed.closed())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Stop everything: no thread, timer or buffer stays."""
        for application, operator in tuple(self._executions):
            self._undeploy(application, operator)
        self._closed = True
        if self._ending:
            await asyncio.gather(*self._ending)
        await self._idle.wait()
        self._pool.shutdown()

    # -- data ----------------------------------------------------------------------------------------------------

    def on_data(self, sender: str, channel: str, payload: bytes) -> None:
        """Take a data frame from another peer: items, or what its reader has consumed."""
        now = self._clock()
        if channel.startswith(CREDIT):
            if len(payload) == 8:
                consumed = int.from_bytes(payload, "little")
                self._dispatch(self.hosting.credit(channel.removeprefix(CREDIT), consumed, now))
            else:
                self._refuse(channel, f"{len(payload)} bytes; expected 8")
            self._pump()
            return
        inlet = self.hosting.inlet(channel)
        if inlet is None:
            self._refuse(channel, "no component on this peer reads it")
            return
        self._senders[channel] = sender
        try:
            self.hosting.offer(channel, parcel_of(decode(payload), payload), now)
        except ValueError as error:  # damaged, or tuples are missing
            self._fail(self._by_component[inlet.component], error)
        self._pump_soon()  # frames that have come together are executed together

    def _refuse(self, channel: str, reason: str) -> None:
        if channel not in self._strangers and len(self._strangers) < 1000:
            self._strangers.add(channel)
            self._runtime.record("data_refused", channel, reason=reason)

    def push(self, application: str, name: str, data: bytes) -> bool:
        """Give one encoded item to the source ``name`` (connector ``python``); False, and nothing taken, if it is full.

        Raises
        ------
        LookupError
            If no such source has been started on this peer.
        ValueError
            If the item does not fit the source, see :meth:`PushFeed.push`.
        """
        return self._pushed(application, name).push(data)

    async def room(self, application: str, name: str) -> None:
        """Return when the source ``name`` has room, or has gone."""
        await self._pushed(application, name).room()

    def _pushed(self, application: str, name: str) -> PushFeed:
        for execution, feed in self._feeds.items():
            known = execution.operator.params.get("name") == name
            if known and execution.component.application == application and isinstance(feed, PushFeed):
                return feed
        raise LookupError(f"application {application!r} has no started source {name!r} with connector python here")

    # -- execution -----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
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
                    sender = self._senders.get(channel)
                    if sender is not None:
                        self._send(None, sender, CREDIT + channel, consumed.to_bytes(8, "little"))
        finally:
            self._pumping = False

    def _pump_soon(self) -> None:
        """Pump when what is to be done on the loop now has been done."""
        if not self._called:
            self._called = True
            self._runtime.loop.call_soon(self._pump_now)

    def _pump_now(self) -> None:
        self._called = False
        self._pump()

    def _turn(self) -> None:
        began = self._clock()
        while True:
            self._emit()
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
            execution = self._by_component[work.component]
            if work.fresh < LIGHT_ROWS and all(self._light(work.component, parcel) for parcel in work.parcels):
                self._complete(execution, work, execution.run(work))
            else:
                self._executing += 1
                self._idle.clear()
                self._pool.submit(self._in_thread, execution, work)

    def _light(self, component: Component, parcel: Parcel) -> bool:
        execution = self._by_component[component]
        expected = execution.light_s if parcel.time is None else execution.light_punctuation_s
        return parcel.rows < LIGHT_ROWS and expected < LIGHT_SECONDS

    def _emit(self) -> None:
        """Take out of the feeds what has room downstream."""
        for execution, feed in tuple(self._feeds.items()):
            component = execution.component
            while feed.pending and self.hosting.may_emit(component):
                parcel = feed.pending.popleft()
                now = self._clock()
                deliveries = self.hosting.emit(component, [parcel], now)
                feed.rate = component.departures.per_second(now)
                feed.emitted(parcel)
                self._dispatch(deliveries)

    def _in_thread(self, execution: Execution, work: Work) -> None:
        outcome = execution.run(work)
        try:
            self._runtime.loop.call_soon_threadsafe(self._after_thread, execution, work, outcome)
        except RuntimeError:  # the loop was closed without closing the host: nobody is waiting
            return

    def _after_thread(self, execution: Execution, work: Work, outcome: Outcome) -> None:
        self._executing -= 1
        if not self._executing:
            self._idle.set()
        self._complete(execution, work, outcome)
        self._pump()

    def _complete(self, execution: Execution, work: Work, outcome: Outcome) -> None:
        late = execution.account(outcome, LIGHT_ROWS)
        deliveries = self.hosting.done(work, outcome.parcels, outcome.started, outcome.finished, late)
        if execution.component.removed:
            return
        if isinstance(execution.logic, SparkPart):
            execution.component.paused = execution.logic.full
        if outcome.error is not None:
            self._fail(execution, outcome.error)
            return
        if execution.sink is not None:
            for rows, size, born, now in outcome.arrived:
                execution.sink.measure(rows=rows, size=size, born=born, now=now)
        self._dispatch(deliveries)

    def _dispatch(self, deliveries: Iterable[Delivery]) -> None:
        for channel, parcel in deliveries:
            route = self._routes.get(channel)
            if isinstance(route, Sink):
                self._keep(route, parcel)
            elif route is not None and parcel.payload is not None:
                self._send(channel, route, channel, parcel.payload)

    def _send(self, own: str | None, to: str, channel: str, payload: bytes) -> None:
        try:
            self._runtime.send_data(to, channel, payload)
        except (OSError, BufferError) as error:  # the link is full or gone: tuples would be missing
            writer = self.hosting.writer(own) if own is not None else None
            if writer is not None:
                self._fail(self._by_component[writer], error)

    def _keep(self, sink: Sink, parcel: Parcel) -> None:
        before = sink.fetched, sink.ended
        sink.keep(parcel)
        if sink.fetched != before[0]:
            self._dispatch(self.hosting.credit(sink.channel, sink.fetched, self._clock()))
        if sink.ended and not before[1]:
            self._runtime.record("sink_finished", sink.application, operator=sink.operator)
            if self._finished is not None:
                self._finished(sink.application, sink.operator)

    # -- failures ------------------------------------------------------------------------------------------------

    def _fail(self, execution: Execution, error: BaseException) -> None:
        if execution.failure is not None or execution.component.removed:
            return
        component = execution.component
        execution.failure = str(error)
        self._remove(execution)
        self._report(component.application, component.operator, error)

    def _report(self, application: str, operator: str, error: BaseException) -> None:
        text = (str(error).splitlines() or [""])[0][:500]
        named = isinstance(error, ValueError) and text
        reason = text if named else f"{type(error).__name__}: {text}"
        self._runtime.record("operator_failed", application, operator=operator, reason=reason)
        if self._failed is not None:
            self._failed(application, operator, reason)

    # -- results and measurements --------------------------------------------------------------------------------

    def fetch(self, application: str, max_bytes: int, operator: str | None = None) -> tuple[list[bytes], bool]:
        """Results of a sink not fetched before: encoded batches, oldest first, and whether these are the last.

        Parameters
        ----------
        application
            Whose results.
        max_bytes
            At most so many, but at least one batch if there is any.
        operator
            Which sink; None: the only one of the application on this peer.

        Raises
        ------
        LookupError
            If there is no such sink.
        """
        sink = self._sink(application, operator)
        results = sink.fetch(max_bytes)
        self._dispatch(self.hosting.credit(sink.channel, sink.fetched, self._clock()))
        self._pump()
        return results

    async def arrival(self, application: str, operator: str | None, seconds: float) -> None:
        """Return when the sink has something to fetch or has ended, at the latest after ``seconds``.

        Raises
        ------
        LookupError
            If there is no such sink.
        """
        await self._sink(application, operator).arrival(seconds)

    def qos(self, application: str, operator: str | None = None) -> dict[str, Any]:
        """Quality of service of a sink since it began, see :meth:`Sink.qos`."""
        return self._sink(application, operator).qos()

    def stats(self) -> list[dict[str, Any]]:
        """What is measured of each component, see :meth:`Component.stats`."""
        return self.hosting.stats(self._clock())

    def measure(self) -> None:
        """Journal and report the quality of service of each sink since the last time."""
        now = self._clock()
        for execution in tuple(self._executions.values()):
            sink = execution.sink
            if sink is None or sink.reported:
                continue
            record = sink.interval(now)
            self._runtime.record("qos", sink.application, **record)
            if self._measured is not None:
                self._measured(sink.application, sink.operator, record)

    def _tick(self) -> None:
        self._timer = self._runtime.loop.call_later(self._measure_s, self._tick)
        self.measure()

    def _sink(self, application: str, operator: str | None) -> Sink:
        sinks = [
            execution.sink
            for (owner, name), execution in self._executions.items()
            if owner == application and execution.sink is not None and operator in (None, name)
        ]
        if len(sinks) != 1 or sinks[0] is None:
            found = ", ".join(sink.operator for sink in sinks if sink is not None) or "none"
            raise LookupError(f"application {application!r}: sink {operator!r}: found {found}; expected exactly one")
        return sinks[0]
