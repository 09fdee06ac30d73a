"""The host of a peer's components: it carries out deployments, and reports results, failures and measurements.

:class:`~synergy_nb.runtime.data.stream_driver.StreamDriver` moves the items; the host creates and owns the operators,
feeds and sinks of the components that a deployment assigns to this peer. All of it runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from synergy_nb import events
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.control.driver_messages import DepartureLimits, InputsReported, PredictionsMade, SlackLost
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.logic import Logic, Switching
from synergy_nb.dataflow.memory_shares import Memory, MemoryExceeded, MemoryShare
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_settings import configure
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.component.losses import lost_results
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.hosting.input_reports import InputsMeasured, first_counts
from synergy_nb.dataflow.streams.log.frames import Frame
from synergy_nb.dataflow.streams.log.log import LIMITS, Limits, StreamLog
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.overheads import Overheads
from synergy_nb.models.signatures import Segment
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.plan.derived.repeatable_results import results_name
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.operators.destinations import place_of
from synergy_nb.runtime.data._durable_copies import DurableCopies
from synergy_nb.runtime.data._ended_sinks import EndedSink, EndedSinks
from synergy_nb.runtime.data._outside_sinks import OutsideSink, why_not_followed
from synergy_nb.runtime.data._pushed_sources import PushedSources
from synergy_nb.runtime.data._sinks import DeliveredSink, Portion, Sinks
from synergy_nb.runtime.data._spark_part import SparkPart
from synergy_nb.runtime.data._standstill import STANDSTILL_S, Standstills
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.data.instances import (
    ExecutionContext,
    feed_of,
    logic_of,
    part_of,
    read_paced,
    warm,
)
from synergy_nb.runtime.data.sources import PushFeed, Sample, SourceFeed, Stream
from synergy_nb.runtime.data.spark_servers import SparkHost
from synergy_nb.runtime.data.stream_driver import StreamDriver
from synergy_nb.runtime.process.processor_share import ProcessorShare
from synergy_nb.runtime.process.running_peer import Runtime
from synergy_nb.traces import Skipped

__all__ = ["Host", "Runtime"]

WRITES: Final = "what it writes to takes less than comes"
SEVERAL: Final = 16  # number of decoded plans that are cached


class Host:
    """Executes the components of one peer."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        # callback (application, operator, reason) for an operator or a source that fails; all others continue
        failed: Callable[[str, str, str], None] = lambda _application, _operator, _reason: None,
        # callback (application, operator, epoch) for a component from whose files a later attempt goes on
        outdated: Callable[[str, str, int], None] = lambda _application, _operator, _epoch: None,
        # callback (application, operator) for a sink that has received the end of its stream
        finished: Callable[[str, str], None] = lambda _application, _operator: None,
        # callback (application, operator, record) for each sink every `measure_s`; the record is also journaled
        measured: Callable[[str, str, dict[str, Any]], None] | None = None,
        # callback (application, operator, reader, reason) for an operator with a shared stream that has waited too long
        # for one of its own readers
        on_slow_reader: Callable[[str, str, str, str], None] = lambda _application, _operator, _reader, _reason: None,
        # callback (application, operator) for a part on Spark that accepts tuples
        prepared: Callable[[str, str], None] = lambda _application, _operator: None,
        # callback (application, component, source, lines) for malformed lines that a source skips
        skipped: Callable[[str, str, str, events.SkippedLines], None] = lambda *_found: None,
        # callback for facts about copies of components, with the hosting that states them
        copies: Callable[[Fact, Hosting], None] = lambda _fact, _hosting: None,
        # limit of the state of all components, including their next steps, bytes; infinite: no limit
        memory: float = math.inf,
        limits: Limits = LIMITS,  # limits of each log, bytes
        # seconds that an idle consumer may block sharers of its stream before that is reported
        standstill_s: float = STANDSTILL_S,
        secrets: Mapping[str, bytes] | None = None,  # by the name that plans use for them
        # function that returns this peer's load and ping times, for sources with connector `peers`; None: without
        samples: Callable[[], Iterable[Sample]] | None = None,
        # function that opens the stream of a source with connector `trace`, `packets` or `nexmark`, see `read_paced`
        read: Callable[[Mapping[str, Any], Skipped], tuple[Stream, bool]] = read_paced,
        measure_s: float = 1.0,  # seconds between two measurements of the sinks
        # unused_cores, on_unused_cores: function that returns the unused cores of this peer, for its producers;
        # callback for those of other peers
        unused_cores: Callable[[], float] = float,
        on_unused_cores: Callable[[str, float], None] = lambda _address, _cores: None,
        # function that returns the machine whose memory this peer can read, see `machine`; empty where it reads only
        # its own
        machine: Callable[[], str] = str,
        spark: SparkHost | None = None,  # Spark servers of this peer; None if it executes no parts on Spark
        functions: FunctionProcesses | None = None,  # functions of users' own; None: it gets some without a policy
        # overheads of the peer, which record the measured time of items beside the processing of their tuples
        overheads: Overheads | None = None,
        share: ProcessorShare | None = None,  # share of a processor that this process gets; None: a whole one
        hotspots: HotSpotConfig | None = None,
        # function that returns the folders from which an application may read files; None: from all
        folders: Callable[[str], Sequence[str] | None] = lambda _application: None,
        hosts: Callable[[], Sequence[str]] = tuple,  # function that returns the hosts that sources of guests may reach
        # callback with the measurements and predictions of the components once a second, and with each component whose
        # tuples persistently have no slack
        predicted: Callable[[DriverMessage], None] = lambda _message: None,
        durable: DurableFolder | None = None,  # folder that has copies of the components; None: there is none
    ) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._failed = failed
        self._finished = finished
        self._prepared = prepared
        self._copies = copies
        self._folders = folders
        self._hosts = hosts
        self._driver = StreamDriver(
            runtime,
            self._create,
            self._read,
            on_fact=self._on_fact,
            arrived=self._arrived,
            executed=self._executed,
            limits=limits,
            memory=Memory(memory, self._exceeded),
            unused_cores=unused_cores,
            on_unused_cores=on_unused_cores,
            machine=machine,
            overheads=overheads,
            share=share,
            hotspots=hotspots,
            predicted=lambda effect: predicted(_report_of(effect)),
            to_folder=self._to_folder,
        )
        self.hosting = self._driver.hosting
        self._durable: DurableCopies | None = None
        if durable is not None:
            self._durable = DurableCopies(
                durable,
                self.hosting,
                runtime.loop,
                runtime.clock,
                runtime.record,
                deliver=self._driver.hear,
                converge=self._converge,
                failed=failed,
                outdated=outdated,
            )
        self.context = ExecutionContext(
            address=runtime.address,
            loop=runtime.loop,
            clock=runtime.clock,
            limits=limits,
            failed=self._abort_soon,
            skipped=lambda component, *found: skipped(component.application, component.operator, *found),
            secrets=secrets or {},
            samples=samples,
            read=read,
            prepared=self._part_prepared,
            room=self._make_room,
            committed=self._driver.committed,
            ready=self._driver.given,
            spark=spark,
            functions=FunctionProcesses() if functions is None else functions,
            record=runtime.record,
        )
        #: Sources into which clients push rows.
        self.pushed = PushedSources(self._driver.feeds, self._deployed_plan)
        self._plans: dict[bytes, Plan] = {}
        self._started: set[Component] = set()  # parts with sources that were started
        self._warm: set[str] = set()  # kinds of operators that have run once
        self.ended = EndedSinks(limits.results)
        self._sinks = Sinks(runtime.loop, runtime.clock, runtime.record, measured, measure_s)
        components = self.hosting.components.values
        self._standstills = Standstills(runtime.loop, runtime.clock, components, on_slow_reader, standstill_s)
        self._writing: set[asyncio.Task[None]] = set()  # of sinks that write to the outside, also removed ones
        self._closed = False

    # -- deployments ---------------------------------------------------------------------------------------------

    def carry_out(self, instruction: object) -> None:
        """Carry out a deployment, whose failures are reported through ``failed``, or set departure limits.

        Raises ``TypeError`` if the instruction is of another kind.
        """
        if isinstance(instruction, DepartureLimits):
            self.hosting.predictions.set_limits(instruction.application, instruction.limits)
            return
        if not isinstance(instruction, Deployment):
            kind = type(instruction).__name__
            raise TypeError(f"instruction: {kind}; expected a Deployment or DepartureLimits")
        if self._durable is None or not self._durable.defers(instruction):
            self._converge(instruction)

    def restores(self, application: str) -> bool:
        """Whether components of an application are being read from the durable folder, and come then."""
        return self._durable is not None and self._durable.reads(application)

    def _to_folder(self, frame: Frame) -> None:
        if self._durable is not None:
            self._durable.take(frame)

    def _converge(self, instruction: Deployment) -> None:
        if self._closed:
            return
        before = self._at_work(instruction.application)
        self._driver.converge(instruction)
        if self._durable is not None:
            self._durable.converged(instruction)
        after = self._at_work(instruction.application)
        for operator, component in before.items():
            if after.get(operator) is not component:
                self._gone(component)
        for operator, component in after.items():
            if before.get(operator) is not component:
                self._begun(component)
            if instruction.running and component.external and not component.feeds and component not in self._started:
                self._started.add(component)  # a part with a source that Spark reads
                self._runtime.record(events.SourceStarted, component.application, operator=operator)
        if any(assignment.shared_readers for assignment in instruction.assignments.values()):
            self._standstills.watch()

    def _at_work(self, application: str) -> dict[str, Component]:
        return {name: each for (owner, name), each in self.hosting.components.items() if owner == application}

    def _plan(self, data: bytes) -> Plan:
        plan = self._plans.get(data)
        if plan is None:
            plan = self._plans[data] = Plan.from_bytes(data)
            if len(self._plans) > SEVERAL:
                del self._plans[next(iter(self._plans))]
        return plan

    def _deployed_plan(self, application: str) -> Plan | None:
        deployment = self.hosting.deployments.get(application)
        return None if deployment is None else self._plan(deployment.plan)

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        """Create the logic of a new component, and set what the plan states about it."""
        plan = self._plan(deployment.plan)
        name = component.operator
        operator = plan.operators.get(name)
        if operator is None:
            raise ValueError(f"operator: {name!r}; expected one of {', '.join(plan.operators)}")
        folders = self._folders(deployment.application)
        if folders is not None and (refusal := refused_paths(plan, folders, name, self._hosts())):
            raise ValueError(refusal)
        configure(component, plan, deployment)
        if operator.kind == PART:
            return part_of(operator, component, self.context)
        if operator.kind == "source":
            return None
        logic = logic_of(operator, plan, component, self.context, compares=deployment.compares)
        if not component.apart and operator.kind not in self._warm:
            self._warm.add(operator.kind)
            self._driver.beside(warm, operator, plan)
        return logic

    def _begun(self, component: Component) -> None:
        if component.kind == "sink":
            limit = None if component.terms.limit == math.inf else component.terms.limit
            plan = self._plan(self.hosting.deployments[component.application].plan)
            lost = partial(lost_results, plan=plan, sink=component.operator)
            of, now = (component.application, component.operator), self._clock()
            self.ended.discard(component.application)
            began, reached = component.log.start, lambda: component.log.end
            sink = DeliveredSink(*of, limit=limit, now=now, began=began, lost=lost, reached=reached)
            self._sinks.add(sink)
            if "to" in plan.operators[component.operator].params:
                self._write(sink, component, plan, self.hosting.deployments[component.application].beside)
        if isinstance(component.logic, SparkPart) and not component.failed:
            self._driver.feeds[component] = component.logic
            component.logic.prepare(component.log.end)
        discipline = component.terms.discipline or self.hosting.discipline
        self._runtime.record(
            events.ComponentDeployed, component.application, operator=component.operator, discipline=discipline
        )

    def _write(self, sink: DeliveredSink, component: Component, plan: Plan, beside: str) -> None:
        """Have the results of a sink written to its destination.

        ``beside``: application whose sink of that name writes there, until this one takes its place; empty: none.
        """
        to = plan.operators[sink.operator].params["to"]
        stream = results_name(plan, sink.operator, sink.application)
        switch = plan.transition.switches.get(sink.operator)
        before = self._sinks.found.get((beside, sink.operator))
        former = None if before is None else before.outside
        try:
            if beside and former is None:
                raise SinkFailed(why_not_followed(place_of(to), beside))
            had = () if switch is None else switch.former
            streams = had if former is None else former.streams
            writer = writer_of(to, plan.schema(sink.operator), stream, secrets=self.context.secrets, former=streams)
        except ValueError as error:  # nothing may end as if it were written
            self._abort_soon(component, error)
            return

        def committed(point: Point) -> None:
            sink.committed(point)
            if self.hosting.hosts(component):
                self._collected(sink, component.log)

        def complete() -> None:
            sink.ended = True  # also where the end had arrived before this peer has taken over
            self._end_sink(sink)

        outside = OutsideSink(
            self._runtime.loop,
            self._clock,
            self._runtime.record,
            component,
            SinkReader(writer, place_of(to), to["every"], self.hosting.limits.results // 4),
            upto=lambda: sink.upto,
            committed=committed,
            complete=complete,
            failed=self._abort_soon,
            stream=stream,
            former=former,
        )
        sink.write_to(outside, component.log.start)
        self._writing.add(outside.task)
        outside.task.add_done_callback(self._writing.discard)

    def _gone(self, component: Component) -> None:
        self._started.discard(component)
        self.context.functions.end(component)
        self._driver.drop(component)
        sink = self._sinks.found.get(component.key)
        if sink is not None:
            self._sinks.remove(sink)
            self.ended.add(sink, component.log)
            if sink.outside is not None:
                # a sink that was not stopped goes on at another peer, which writes what this one has not
                sink.outside.leave(flush=sink.halted)
        self._runtime.record(events.ComponentUndeployed, component.application, operator=component.operator)

    def _read(self, component: Component, since: Point, _ready: Callable[[], None]) -> SourceFeed | None:
        """Open a source on the peer of its component."""
        plan = self._plan(self.hosting.deployments[component.application].plan)
        try:
            feed = feed_of(plan.operators[component.operator], plan, component, since, self.context)
        except ValueError as error:
            self._abort_soon(component, error)
            return None
        self._runtime.record(events.SourceStarted, component.application, operator=component.operator)
        return feed

    def _part_prepared(self, component: Component) -> None:
        if self.hosting.hosts(component):
            self._runtime.record(events.PartPrepared, component.application, operator=component.operator)
            self._prepared(component.application, component.operator)

    def _make_room(self, component: Component) -> None:
        """Pause or resume a part on Spark, depending on its queue."""
        if isinstance(component.logic, SparkPart) and self.hosting.hosts(component):
            self._driver.pause(component, component.logic.full)

    async def close(self) -> None:
        """Stop everything: no thread, timer or buffer remains."""
        self._closed = True
        self._standstills.close()
        for component in tuple(self.hosting.components.values()):
            self._gone(component)
        self.context.functions.close()
        await asyncio.gather(*self._writing)
        await self._driver.close()
        if self._durable is not None:
            await self._durable.close()

    # -- data ----------------------------------------------------------------------------------------------------

    @property
    def occupied(self) -> bool:
        """Whether an operator runs for long in a thread."""
        return self._driver.occupied

    def link_down(self, peer: str) -> None:
        """Handle a broken link: frames to or from a peer may be lost."""
        self._driver.link_down(peer)

    # -- ends and failures ---------------------------------------------------------------------------------------

    def _executed(self, work: Work, outcome: ExecutionOutcome) -> None:
        component = work.component
        if isinstance(component.logic, SparkPart):
            self._make_room(component)
        if component.kind != "sink":
            return
        sink = self._sinks.found.get(component.key)
        thinned = component.losses.thinned
        losses = component.losses.carried(component.log.end.position) if thinned else ()
        if sink is None or not sink.arrived(outcome.chunks, outcome.finished, losses):
            return
        self._sinks.measure(sink)  # before the end is reported and the sink may be removed
        if sink.outside is None:
            self._end_sink(sink)

    def _end_sink(self, sink: DeliveredSink) -> None:
        """Report that nothing of a sink's stream is missing any more."""
        self._runtime.record(events.SinkFinished, sink.application, operator=sink.operator)
        self._finished(sink.application, sink.operator)

    def _arrived(self, application: str, operator: str) -> None:
        sink = self._sinks.found.get((application, operator))
        if sink is not None:
            sink.notify_readers()

    def _exceeded(self, share: MemoryShare, error: MemoryExceeded) -> None:
        """Fail the largest component, as another one, in any thread, needs more memory than there is."""
        with contextlib.suppress(RuntimeError):  # the loop was closed: nothing is executed any more
            self._runtime.loop.call_soon_threadsafe(self._fail_largest, share, error)

    def _fail_largest(self, share: MemoryShare, error: MemoryExceeded) -> None:
        component = self.hosting.components.get((share.application, share.operator))
        if component is not None and component.share is share:
            self._abort(component, error)

    def _abort(self, component: Component, error: BaseException) -> None:
        if self.hosting.hosts(component) and not self._closed:
            self._driver.abort(component.application, component.operator, error)

    def _abort_soon(self, component: Component, error: BaseException) -> None:
        """Fail a component when its present execution has ended."""
        self._runtime.loop.call_soon(self._abort, component, error)

    def _on_fact(self, fact: Fact) -> None:
        application, operator = fact.application, fact.operator
        match fact.kind:
            case FactKind.COMPONENT_FAILED:
                component = self.hosting.components.get((application, operator))
                if component is not None:
                    self.context.functions.end(component)
                    self._driver.drop(component)
                    sink = self._sinks.found.get((application, operator))
                    if sink is not None and sink.outside is not None:
                        sink.outside.leave(flush=False)
                self._runtime.record(events.OperatorFailed, application, operator=operator, reason=fact.reason)
                self._failed(application, operator, fact.reason)
            case FactKind.INPUT_LOST:
                self._runtime.record(events.StreamReplicaLost, application, operator=operator, reason=fact.reason)
            case FactKind.COPY_READY | FactKind.COPIES_BEHIND:
                self._copies(fact, self.hosting)
            case FactKind.FRAME_REFUSED:
                self._runtime.record(events.DataRefused, fact.peers[0], reason=fact.reason)
            case FactKind.TAKEN_OVER:
                self._runtime.record(events.ComponentTakenOver, application, operator=operator)

    # -- results and measurements --------------------------------------------------------------------------------

    def fetch(
        self, application: str, operator: str | None, reader: str, since: Point | None, max_bytes: int
    ) -> Portion:
        """Return results of a sink from the place of a reader on.

        ``operator``: operator id of the sink; None: the only one of the application on this peer; ``reader``: name of
        the reader: each has its own place; ``since``: point up to which the reader has everything; None: it has nothing
        yet, and begins with the oldest result that is retained; ``max_bytes``: limit of the results, bytes, but at
        least one batch if there is any.

        Raises ``LookupError`` if there is no such sink.
        """
        now = self._clock()
        if (ended := self._ended(application, operator)) is not None:
            sink, log = ended
            start, missed, _ = sink.place(reader, since, log.start, now)
            return sink.portion(log, start, missed, max_bytes)
        sink = self._sinks.find(application, operator)
        log = self.hosting.components[application, sink.operator].log
        start, missed, new = sink.place(reader, since, log.start, now)
        if missed and new:
            self._runtime.record(events.ResultsMissed, application, operator=sink.operator, rows=missed)
        self._collected(sink, log, start)
        return sink.portion(log, start, missed, max_bytes)

    def _collected(self, sink: DeliveredSink, log: StreamLog, start: Point | None = None) -> None:
        """Discard results that all readers of a sink have; one of them has just read up to ``start``."""
        most, ahead = self.hosting.limits.results, log.end if start is None else start
        read = sink.read(self._clock(), lambda point: log.between(point, ahead) > most // 2)
        self._driver.collected(sink.application, sink.operator, read, log.behind(read, most // 4))

    def look(
        self,
        application: str,
        operator: str | None,
        rows: int,
        since: Point | None = None,
        between: tuple[float, float] | None = None,
    ) -> Portion:
        """Return the last results of a sink that are retained, at most ``rows``; no reader's place changes.

        ``since``: point after which they are; ``between``: times between which they came, seconds: the first ones of
        these.
        """
        if (ended := self._ended(application, operator)) is not None:
            sink, log = ended
        else:
            sink = self._sinks.find(application, operator)
            log = self.hosting.components[application, sink.operator].log
        return sink.latest(log, rows, since) if between is None else sink.moment(log, between, rows)

    def _ended(self, application: str, operator: str | None) -> EndedSink | None:
        return None if self._sinks.of(application) else self.ended.find(application, operator)

    async def arrival(self, application: str, operator: str | None, since: Point, seconds: float) -> None:
        """Return when the sink has something after a point or has ended, at the latest after ``seconds``.

        Raises ``LookupError`` if there is no such sink.
        """
        sink = self._sinks.find(application, operator)

        def there() -> bool:
            component = self.hosting.components.get((application, sink.operator))
            return component is None or sink.ended or (component.log.end > since and not sink.halted)

        await sink.arrival(there, seconds)

    def qos(self, application: str, operator: str | None = None) -> dict[str, Any]:
        """Return the quality of service of a sink since it began, see :meth:`DeliveredSink.qos`."""
        return dict(self._sinks.find(application, operator).qos())

    def mean_delay(self, application: str, operator: str) -> float | None:
        """Return the mean delay of the tuples of a sink since it began, seconds; None before the first."""
        return self._sinks.find(application, operator).mean_delay

    def sinks(self, application: str) -> list[DeliveredSink]:
        """Return the sinks of an application at this peer."""
        return self._sinks.of(application)

    @property
    def feeds(self) -> Mapping[Component, SourceFeed]:
        """Feeds of the sources that are read here."""
        return self._driver.feeds

    def stats(self) -> list[dict[str, Any]]:
        """Return the measurements of each component, see :meth:`Component.stats`."""
        now = self._clock()
        return [{**each.stats(now), "firsts": first_counts(each)} for each in self.hosting.components.values()]

    def signatures(self) -> dict[tuple[str, str], tuple[tuple[Segment, ...], tuple[Segment, ...]]]:
        """Application and operator to the signatures of a component's load, in cores, and of its stream."""
        now = self._clock()
        components = self.hosting.components.items()
        return {key: (each.segments(now) if each.feeds else (), each.stream_segments(now)) for key, each in components}

    def note_waits(self, silent: Callable[[str], bool]) -> None:
        """Journal which components have begun to wait, or wait no more; ``silent``: whether a peer does not answer."""
        self.hosting.waits.look(self._clock(), self._runtime.record, silent, self._known)

    def _known(self, component: Component) -> str:
        """Return what is known of a source that has no rows, or of a sink that is full."""
        if (sink := self._sinks.found.get(component.key)) is not None:
            return "" if sink.outside is None else WRITES
        if self.context.changed.paces.get(component.key) == 0.0:
            return "its pace was set to 0"
        pushed = isinstance(self._driver.feeds.get(component), PushFeed)
        return "no row is pushed to it" if pushed else "what it reads has no more yet"

    def halt(self, application: str) -> None:
        """Measure the sinks of an application for the last time; later arrivals are dropped."""

        def end(sink: DeliveredSink) -> Point:
            return self.hosting.components[application, sink.operator].log.end

        self._sinks.halt(application, end)

    def change_sinks(self, application: str, new: str, at: int) -> int:
        """Have the sinks of an application write nothing after an event time for a minute.

        When it ends meanwhile, and has all rows up to that time, those of ``new`` go on in their destinations. Returns
        the event time of the latest row that was written, microseconds. If that is later, nothing of this holds.

        Raises ``LookupError`` if there are no such sinks.
        """
        followers = [each.outside for each in self._sinks.of(new) if each.outside is not None]
        if not followers:
            raise LookupError(f"application {new!r}: no sink with a destination; expected one beside {application!r}")
        return max(each.take_place(at) for each in followers)

    def unprepared(self, application: str, complete: int | None) -> str:
        """Return why another plan may not go on from the sinks of an application here yet; nothing if it may.

        ``complete``: event time from which the rows of that plan are complete, microseconds; None: not known yet.
        """
        plan = self._deployed_plan(application)
        for sink in self._sinks.of(application) if plan is not None else ():
            switch = None if plan is None else plan.transition.switches.get(sink.operator)
            component = self.hosting.components.get((application, sink.operator))
            if switch is None or len(switch.inputs) == 1 or component is None:
                continue
            if complete is not None:
                cast("Switching", component.logic).complete_from(complete)
            if not component.settled:
                return f"{sink.operator}: the new plan has not caught up"
        return ""

    async def flush(self, application: str) -> None:
        """Return when what has arrived at the sinks of an application is in their destinations, or cannot be."""
        outside = [sink.outside for sink in self._sinks.of(application) if sink.outside is not None]
        await asyncio.gather(*(each.flush() for each in outside))

    def measure(self) -> None:
        """Journal and report the quality of service of each sink since the last measurement."""
        self._sinks.measure()


def _report_of(effect: PeerPrediction | SlackViolation | InputsMeasured) -> DriverMessage:
    """Return the message that reports an effect of hosting to the peer."""
    if isinstance(effect, InputsMeasured):
        return InputsReported(effect.components)
    return SlackLost(effect) if isinstance(effect, SlackViolation) else PredictionsMade(effect)
