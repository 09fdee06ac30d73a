"""What executes operators on a peer: it carries out instructions, and reports results, failures and measurements.

Components are created, started, detached and removed here; their items move in
:class:`~synergy_nb.runtime.datapath.DataPath`. All of it is on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from synergy_nb.dataflow.hosting import WINDOW_BYTES, Component, Hosting
from synergy_nb.dataflow.logic import reason_of
from synergy_nb.dataflow.memory import Memory, MemoryExceeded, Share
from synergy_nb.graph import Deploy, Detach, Moving, Replicate, Start, Undeploy
from synergy_nb.overheads import Overheads
from synergy_nb.plan import Plan
from synergy_nb.runtime.datapath import DataPath
from synergy_nb.runtime.execution import Execution, Runtime, Surroundings, assemble, read_paced, warm
from synergy_nb.runtime.sinks import Sink, Sinks
from synergy_nb.runtime.sources import Feed, PushFeed, Sample, Stream
from synergy_nb.runtime.spark import SparkHost
from synergy_nb.runtime.taps import TAP_BYTES, Tap
from synergy_nb.signatures import Segment

__all__ = ["Host", "Runtime"]

RESULT_BYTES: Final = 64 << 20  # results that a sink keeps until they are fetched
STANDSTILL_S: Final = 10.0  # that a consumer which takes nothing may hold up those who share its stream


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
    held_up
        Called with (application, operator, reader, reason) when an operator, whose stream others share, has waited for
        one of its own readers for long.
    prepared
        Called with (application, operator) when a part on Spark takes tuples.
    memory
        Bytes that the state of all components may take, with what their next steps need; infinite: no limit.
    discipline, window_bytes
        See :class:`~synergy_nb.dataflow.hosting.Hosting`.
    result_bytes
        Results that a sink keeps until they are fetched; a full sink stops what is upstream of it.
    tap_bytes
        Of a shared stream that may wait for an application that joined it; one that falls behind by more fails.
    standstill_s
        Seconds that a consumer which takes nothing may hold up those who share its stream before that is reported.
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
    left, heard
        Cores that this peer has left, which whoever sends data to it is told; and is told of those of others.
    spark
        What this peer has to do with Spark; None: it takes no parts on Spark.
    overheads
        Overheads of the peer, which take the measured time of items beside the processing of their tuples.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        failed: Callable[[str, str, str], None] | None = None,
        finished: Callable[[str, str], None] | None = None,
        measured: Callable[[str, str, dict[str, Any]], None] | None = None,
        held_up: Callable[[str, str, str, str], None] | None = None,
        prepared: Callable[[str, str], None] | None = None,
        memory: float = math.inf,
        discipline: str = "fcfs",
        window_bytes: int = WINDOW_BYTES,
        result_bytes: int = RESULT_BYTES,
        tap_bytes: int = TAP_BYTES,
        standstill_s: float = STANDSTILL_S,
        threads: int = 1,
        keys: Mapping[str, bytes] | None = None,
        samples: Callable[[], Iterable[Sample]] | None = None,
        read: Callable[[Mapping[str, Any]], tuple[Stream, bool]] = read_paced,
        measure_s: float = 1.0,
        left: Callable[[], float] = lambda: 0.0,
        heard: Callable[[str, float], None] = lambda _address, _cores: None,
        spark: SparkHost | None = None,
        overheads: Overheads | None = None,
    ) -> None:
        self._runtime = runtime
        self.hosting = Hosting(discipline, window_bytes, memory=Memory(memory, self._exceeded))
        self._clock = runtime.clock
        self._failed = failed
        self._finished = finished
        self._held_up = held_up
        self._prepared = prepared
        self._path = DataPath(
            runtime,
            self.hosting,
            failed=self._fail,
            ended=self._ended,
            threads=threads,
            left=left,
            heard=heard,
            overheads=overheads or Overheads(),
        )
        self._around = Surroundings(
            address=runtime.address,
            loop=runtime.loop,
            clock=runtime.clock,
            ready=self._path.pump,
            failed=self._fail,
            result_bytes=max(result_bytes, window_bytes),
            most=max(window_bytes // 2, 1),
            keys=keys or {},
            samples=samples,
            read=read,
            prepared=self._part_prepared,
            shared=self._shared,
            tap_bytes=tap_bytes,
            spark=spark,
        )
        self._warm: set[str] = set()  # kinds of operators that have run
        self._executions: dict[tuple[str, str], Execution] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._sinks = Sinks(runtime.loop, runtime.clock, runtime.record, measured, measure_s)
        self._standstill_s = standstill_s
        self._stands: dict[str, tuple[int, float]] = {}  # channel that has no room: bytes that its reader took, since
        self._watcher: asyncio.TimerHandle | None = None
        self._closed = False

    # -- instructions --------------------------------------------------------------------------------------------

    def carry_out(self, instruction: object) -> None:
        """Deploy, start, detach or undeploy a component; what goes wrong is reported through ``failed``.

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
            case Detach(application, operator, consumers):
                self._detach(application, operator, consumers)
            case Undeploy(application, operator):
                self._undeploy(application, operator)
            case Replicate():
                self._path.replicas.keep(instruction)
            case Moving():
                self._move(instruction)
            case _:
                kind = type(instruction).__name__
                raise TypeError(f"instruction: {kind}; expected an instruction of synergy_nb.graph")

    def _deploy(self, order: Deploy) -> None:
        key = (order.application, order.operator)
        if self._closed or key in self._executions:  # an instruction that came twice has been carried out
            return
        replicas = self._path.replicas
        replica = replicas.kept(*key) if order.resumed else None
        if order.resumed and replica is None:
            self._report(*key, ValueError("there is no backup here that could take over"))
            return
        try:
            self.hosting.discipline = order.discipline
            execution = assemble(order, self.hosting, self._around)
            if replica is not None:
                replica.resume(execution)
        except ValueError as error:
            self.hosting.remove(*key)
            self._report(*key, error)
            return
        self._executions[key] = execution
        self._path.add(execution)
        replicas.replicate(execution, order.backups.get(order.operator, ()), replica)
        execution.refit()
        replicas.drop(*key)
        if execution.sink is not None:
            self._sinks.add(execution.sink)
        kind = execution.operator.kind
        if execution.feed is not None:
            self._fit(execution.feed)
            if execution.operator.inputs:  # a part on Spark: what it makes of what it gets leaves it as of a source
                self._path.feeds[execution] = execution.feed
            execution.feed.prepare()
        elif kind not in self._warm:
            self._warm.add(kind)
            self._path.beside(warm, execution.operator, Plan.from_bytes(order.plan))
        self._runtime.record("component_deployed", order.application, operator=order.operator)
        self._path.pump()

    def _shared(self, application: str, operator: str) -> Component:
        """The component whose stream is that of an operator here: its own, or that which it shares itself.

        Raises
        ------
        ValueError
            If there is none (any more).
        """
        execution = self._executions.get((application, operator))
        where = f"{application}/{operator}, whose stream is to be shared,"
        if execution is None:
            raise ValueError(f"{where} is not on this peer")
        if execution.failure is not None:
            raise ValueError(f"{where} has failed: {execution.failure}")
        source = execution.feed.source if isinstance(execution.feed, Tap) else execution.component
        if source.removed and not source.ended:
            raise ValueError(f"{where} has lost the component that makes it")
        if self._watcher is None:
            self._watcher = self._runtime.loop.call_later(self._standstill_s / 4, self._watch)
        return source

    def _watch(self) -> None:
        """See whether a consumer that takes nothing holds up those who share its stream."""
        now = self._clock()
        before, self._stands = self._stands, {}
        shared = [execution for execution in self._executions.values() if execution.component.taps]
        for execution in shared:
            for outlet in tuple(execution.component.outlets):
                taken, since = before.get(outlet.channel, (-1, now))
                if outlet.open:
                    continue
                if taken != outlet.acknowledged:
                    since = now
                elif now - since >= self._standstill_s:
                    self._stands_still(execution, outlet.channel, now - since)
                    since = now
                self._stands[outlet.channel] = outlet.acknowledged, since
        self._watcher = self._runtime.loop.call_later(self._standstill_s / 4, self._watch) if shared else None

    def _stands_still(self, execution: Execution, channel: str, seconds: float) -> None:
        component = execution.component
        if self._held_up is not None:
            reason = f"took nothing for {seconds:.3g} s of the stream of {component.operator}, which others share"
            self._held_up(component.application, component.operator, execution.readers[channel], reason)

    def _fit(self, feed: Feed) -> None:
        """Have a stream encoded, or no longer, as those who share it want it."""
        if isinstance(feed, Tap) and not feed.source.removed:
            self._path.executions[feed.source].refit()

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
        self._path.feeds[execution] = execution.feed
        shares = {"shares": execution.feed.name} if isinstance(execution.feed, Tap) else {}
        self._runtime.record("source_started", application, operator=operator, **shares)
        execution.feed.start()
        self._path.pump()

    def _detach(self, application: str, operator: str, consumers: Collection[str]) -> None:
        execution = self._executions.get((application, operator))
        if execution is None or execution.failure is not None:
            return
        for channel in [channel for channel, reader in execution.readers.items() if reader in consumers]:
            del execution.readers[channel], execution.routes[channel]
            self._path.detach(channel)
        if execution.sink is not None:  # whom its results were for has gone
            self._path.detach(execution.sink.channel)
            self._sinks.remove(execution.sink)
            execution.sink = None
        feed = execution.feed
        if isinstance(feed, Tap) and not execution.routes:  # whoever shares its stream reads the component behind it
            feed.stop()
            self._fit(feed)
        execution.refit()
        self._runtime.record("component_detached", application, operator=operator, consumers=list(consumers))
        self._path.pump()

    def _move(self, order: Moving) -> None:
        """Send streams where their readers are from now on, what may not have been seen there first."""
        moved: dict[str, tuple[str, ...]] = {}
        for (application, _), execution in self._executions.items():
            if application != order.application or execution.failure is not None:
                continue
            for channel, reader in execution.readers.items():
                outlet, to = self.hosting.outlet(channel), order.peers[reader]
                if outlet is None:
                    continue
                keepers = order.backups.get(reader, ())
                if outlet.held or execution.routes[channel] != to:
                    execution.routes[channel] = self._path.routes[channel] = to
                    moved[channel] = keepers
                else:
                    outlet.guard(keepers)
            for inlet, up in zip(execution.component.inlets, execution.operator.inputs, strict=True):
                if execution.writers[inlet.channel] != order.peers[up]:
                    execution.writers[inlet.channel] = order.peers[up]
                    inlet.rewind()
            execution.refit()
        for channel, keepers in moved.items():
            self._path.redirect(channel, keepers)
        self._path.replicas.move(order.application, order.peers, order.backups)
        self._runtime.record("streams_moved", order.application, channels=list(moved))
        self._path.pump()

    def _undeploy(self, application: str, operator: str) -> None:
        execution = self._executions.pop((application, operator), None)
        if execution is None:
            if self._path.replicas.drop(application, operator):
                self._path.leave(application)
            return
        self._remove(execution, "was undeployed")
        if execution.sink is not None:
            self._path.detach(execution.sink.channel)
            self._sinks.remove(execution.sink)
        self._runtime.record("component_undeployed", application, operator=operator)
        self._path.pump()

    def _remove(self, execution: Execution, why: str) -> None:
        """Take a component out of the data path; the results of a sink stay."""
        self._path.remove(execution)
        for tap in tuple(execution.component.taps):
            tap.lose(why)
        feed, execution.feed, execution.logic = execution.feed, None, None
        if feed is not None:
            feed.stop()
            self._fit(feed)
            task = self._runtime.loop.create_task(feed.closed())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Stop everything: no thread, timer or buffer stays."""
        for application, operator in tuple(self._executions):
            self._undeploy(application, operator)
        self._closed = True
        if self._watcher is not None:
            self._watcher.cancel()
        if self._ending:
            await asyncio.gather(*self._ending)
        await self._path.close()

    # -- data ----------------------------------------------------------------------------------------------------

    def on_data(self, sender: str, channel: str, payload: bytes) -> None:
        """Take a data frame from another peer, see :meth:`DataPath.on_data`."""
        self._path.on_data(sender, channel, payload)

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
        for execution, feed in self._path.feeds.items():
            known = execution.operator.params.get("name") == name
            if known and execution.component.application == application and isinstance(feed, PushFeed):
                return feed
        raise LookupError(f"application {application!r} has no started source {name!r} with connector python here")

    # -- ends and failures ---------------------------------------------------------------------------------------

    def _ended(self, sink: Sink) -> None:
        self._sinks.measure(sink)  # before anybody hears of the end, and may take the sink away
        self._runtime.record("sink_finished", sink.application, operator=sink.operator)
        if self._finished is not None:
            self._finished(sink.application, sink.operator)

    def _exceeded(self, share: Share, error: MemoryExceeded) -> None:
        """Have the component fail that holds most, when another, in any thread, needs what there is not."""
        with contextlib.suppress(RuntimeError):  # the loop was closed: nothing is executed any more
            self._runtime.loop.call_soon_threadsafe(self._fail_largest, share, error)

    def _fail_largest(self, share: Share, error: MemoryExceeded) -> None:
        execution = self._executions.get((share.application, share.operator))
        if execution is not None and execution.component.share is share:
            self._fail(execution, error)

    def _fail(self, execution: Execution, error: BaseException) -> None:
        if execution.failure is not None or execution.component.removed:
            return
        component = execution.component
        execution.failure = reason_of(error)
        self._remove(execution, f"has failed: {execution.failure}")
        self._report(component.application, component.operator, error)

    def _report(self, application: str, operator: str, error: BaseException) -> None:
        reason = reason_of(error)
        self._runtime.record("operator_failed", application, operator=operator, reason=reason)
        if self._failed is not None:
            self._failed(application, operator, reason)

    # -- results and measurements --------------------------------------------------------------------------------

    def fetch(self, application: str, max_bytes: int, operator: str | None = None) -> tuple[list[bytes], bool]:
        """Results of a sink not fetched before: encoded batches, oldest first, and whether these are the last.

        Parameters
        ----------
        application
            Id of the application.
        max_bytes
            At most so many, but at least one batch if there is any.
        operator
            Which sink; None: the only one of the application on this peer.

        Raises
        ------
        LookupError
            If there is no such sink.
        """
        sink = self._sinks.find(application, operator)
        results = sink.fetch(max_bytes)
        self._path.fetched(sink)
        self._path.pump()
        return results

    async def arrival(self, application: str, operator: str | None, seconds: float) -> None:
        """Return when the sink has something to fetch or has ended, at the latest after ``seconds``.

        Raises
        ------
        LookupError
            If there is no such sink.
        """
        await self._sinks.find(application, operator).arrival(seconds)

    def qos(self, application: str, operator: str | None = None) -> dict[str, Any]:
        """Quality of service of a sink since it began, see :meth:`Sink.qos`."""
        return self._sinks.find(application, operator).qos()

    def stats(self) -> list[dict[str, Any]]:
        """What is measured of each component, see :meth:`Component.stats`."""
        return self.hosting.stats(self._clock())

    def signatures(self) -> dict[tuple[str, str], tuple[Segment, ...]]:
        """Loads that come and go, see :meth:`Hosting.signatures <synergy_nb.dataflow.hosting.Hosting.signatures>`."""
        return self.hosting.signatures(self._clock())

    def halt(self, application: str) -> None:
        """Measure the sinks of an application for the last time; what reaches them from here on is dropped."""
        self._sinks.halt(application)

    def measure(self) -> None:
        """Journal and report the quality of service of each sink since the last time."""
        self._sinks.measure()
