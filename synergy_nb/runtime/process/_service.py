"""The services of one Synergy peer on a Dask worker: its host of operators, and its answers to notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.assembly import SynergyPeer
from synergy_nb.assembly.placement_by_rod import decided, warm
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Report, ResilientPlacementRequest
from synergy_nb.control.rights import RIGHTS
from synergy_nb.control.tables import tables
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.events import REFUSED, FrameRefused, LateRows, PeerTrouble, encode_events
from synergy_nb.events.application_states import LASTING, UNDECIDED, Status
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.models.overheads import LINK
from synergy_nb.overlay.membership import ALIVE
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.memory_estimates import check_memory, on_peers
from synergy_nb.plan.derived.plan_transitions import Transitions
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.data.copy_reports import CopyReports
from synergy_nb.runtime.data.deliveries import POLL, Deliveries
from synergy_nb.runtime.data.function_processes import FunctionProcesses
from synergy_nb.runtime.data.host import Host
from synergy_nb.runtime.data.instances import SPAN
from synergy_nb.runtime.data.spark_servers import SparkHost
from synergy_nb.runtime.process._calibration import Calibration
from synergy_nb.runtime.process._delays import Delays
from synergy_nb.runtime.process._guest_requests import GuestRequests
from synergy_nb.runtime.process._machine_monitor import Counters, Row, read_counters, sample
from synergy_nb.runtime.process._peer_contents import LOOKS, PeerContents
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process._peer_knobs import PeerKnobs
from synergy_nb.runtime.process._peer_metrics import PeerMetrics
from synergy_nb.runtime.process._peer_recorder import PeerRecorder
from synergy_nb.runtime.process._peer_reports import Advertised, LoadReports, MeasuredOverheads, SparkReports
from synergy_nb.runtime.process._profiles import Profiles
from synergy_nb.runtime.process.durable_applications import (
    is_over,
    keep_application,
    keep_change,
    prepare_change,
)
from synergy_nb.runtime.process.error_publisher import ErrorPublisher
from synergy_nb.runtime.process.peer_commands import Commands
from synergy_nb.runtime.process.requests import (
    ApplicationId,
    ApplicationState,
    ChangeSinks,
    FindHosts,
    GrantRight,
    HostsFound,
    JoinCommand,
    Joined,
    ListApplications,
    Listed,
    Newcomer,
    Outcome,
    PreparedSinks,
    ReplacePlan,
    Replacing,
    RowsDropped,
    SinksHeld,
    SinksMeasured,
    SparkState,
    Submit,
    Submitted,
    pack,
    unpack,
)
from synergy_nb.runtime.transport.arenas import machine
from synergy_nb.runtime.transport.link import LinkDown, LinkFull, RemoteError
from synergy_nb.runtime.transport.wide_area import WideArea
from synergy_nb.traces.trace_sizes import sized_by_traces

LEAST_PRIORITY: Final = 19  # priority of a thread, as of nice(1)
MEASURE: Final = 0.5  # seconds between two measurements of a sink
ONE_WORD: Final = re.compile(r"[\w.-]{1,300}")  # form of the id of an application
DECIDED: Final = 130.0  # seconds after which a request that waits for a decision is answered in any case


class _Measured:
    """Measurements of an application that this peer leads."""

    __slots__ = ("late", "qos")

    def __init__(self) -> None:
        self.qos: dict[str, dict[str, Any]] = {}  # sink of this peer to its last measurement
        self.late: dict[str, int] = {}  # source to the number of late rows


class Service:
    """Carries out the instructions of one peer and answers clients."""

    def __init__(
        self,
        runtime: PeerRuntime,
        synergy: SynergyPeer,
        secrets: Mapping[str, bytes],  # by the name that plans use for them
        recorder: PeerRecorder | None = None,
        functions: FunctionProcesses | None = None,  # functions of users' own that it executes
        durable: DurableFolder | None = None,  # folder from which applications are restarted after the death of all
    ) -> None:
        self._durable = durable
        self._recorder = recorder
        self.runtime = runtime
        self.synergy = synergy
        self._measurements: defaultdict[str, _Measured] = defaultdict(_Measured)  # by request of this peer
        self._replacing: dict[str, Transitions] = {}  # application to the plans by which one takes the place of its own
        self._sizing: set[str] = set()  # ids of the plans that are sized by their traces before they are submitted
        self._tasks: set[asyncio.Task[None]] = set()
        self._counters: Counters | None = None
        self.spark = SparkHost(runtime.loop, runtime.clock, runtime.record, durable)
        self._commands = Commands(runtime.request, runtime.loop)
        self._spark_reports = SparkReports(lambda: self.spark.offer, runtime.report)
        self.overheads = MeasuredOverheads(SPAN, runtime.report)
        self._advertised = Advertised(runtime.clock, runtime.report)
        self._loads = LoadReports(runtime.report)
        self._copy_reports = CopyReports(runtime.report_soon, runtime.loop, self.spark, secrets)
        functions = FunctionProcesses() if functions is None else functions
        self._contents = PeerContents(
            functions,
            self._offer,
            runtime.links.request,
            runtime.clock,
            self._needed_contents,
            lambda gone: runtime.report(driver.WithdrawComponents(gone)),
            lambda sender, reason: runtime.record(FrameRefused, sender, reason=reason),
        )
        self._begin(self._look_at_contents())
        self._guests = GuestRequests(synergy, runtime.operations, self._submit_for, self._contents)
        self.host = Host(
            runtime,
            failed=self._failed,
            outdated=lambda *found: runtime.report_soon(driver.AttemptOutdated(*found)),
            finished=self._finished,
            on_slow_reader=lambda *stalled: runtime.report(driver.ReaderStalled(*stalled)),
            measured=self._measured,
            secrets=secrets,
            prepared=self._prepared,
            skipped=lambda *found: runtime.report(driver.LinesMalformed(*found)),
            copies=self._copy_reports.handle,
            samples=self._samples,
            measure_s=MEASURE,
            unused_cores=lambda: synergy.ledger.residual_cores(""),
            on_unused_cores=self._advertised.receive,
            machine=lambda: "" if runtime.links.shape is not None else machine(),
            spark=self.spark,
            functions=functions,
            overheads=self.overheads,
            share=self.overheads.share,
            hotspots=synergy.config.hotspots,
            predicted=runtime.report_soon,
            folders=self._guests.folders,
            hosts=lambda: self._guests.hosts,
            durable=durable,
        )
        self.host.hosting.memory.quota_of = self._guests.memory
        self.calibration = Calibration(runtime.loop, runtime.clock, self.overheads, lambda: self.host.occupied)
        self.calibration.start()
        self._deliveries = Deliveries(self.host, runtime.loop, self._status)
        self._profiles = Profiles(
            lambda name, measured: runtime.report(driver.StreamProfiled(name, dict(measured))),
            lambda name: runtime.report(driver.ProfileExpired(name)),
        )
        self.measuring = PeerMetrics(
            runtime,
            lambda: (synergy.ledger.cores, synergy.ledger.load),
            self._executing_components,
            lambda: synergy.loads.load.predicted,
            lambda: self.host.note_waits(lambda peer: synergy.membership.status(peer) != ALIVE),
        )
        if PART in synergy.config.components:
            runtime.on_start.append(self._spark_reports.publish)
            synergy.alternatives.on_spark_parts.append(lambda _: self._commands.look())  # a Spark server may be needed
        synergy.pastry.on_joined.append(self._commands.look)
        synergy.directory.on_confirmed.append(self._commands.look)
        self._knobs = PeerKnobs(runtime.links, self.host.context.changed)
        operations: dict[str, Callable[[bytes], Any]] = {
            **self._knobs.operations,
            "join": self._join,
            "joined": self._joined,
            "newcomer": self._newcomer,
            "leave": self._leave,
            "where": self._where,
            "contents": self._contents.find,
            "content": self._contents.give,
            "submit": self._submit,
            "decision": self._decision,
            "application": self._application,
            "applications": self._applications,
            "wait": self._wait,
            "halt": self._halt,
            "move": self._commands.move,
            "renew": self._commands.renew,
            "grant": self._grant,
            "hold": self._commands.hold,
            "stop": self._stop,
            "release": self._release,
            "fetch": self._deliveries.fetch,
            "sinks": self._sinks,
            "change sinks": self._change_sinks,
            "replace plan": self._replace_plan,
            "prepared sinks": self._prepared_sinks,
            "leads": self._leads,
            "push": self._deliveries.push,
            "await copies": self._deliveries.await_copies,
            "dropped": self._dropped,
            "state": self._state,
            "tables": self._tables,
            "delays": Delays(runtime.links, synergy.latency, runtime.clock).measure,
            "events": self._events,
            "troubles": self._troubles,
            "spark": self._spark_news,
            "follow": self.measuring.follow,
            "warm": self._warm,
        }
        runtime.operations.update(operations if recorder is None else {**operations, "record": recorder.flush})
        runtime.personal.update({"content sent": self._contents.receive, "errors": self._subscribe_errors})
        runtime.serve_guest = self._guests
        runtime.on_area.append(self._limit_bandwidths)
        runtime.on_down.append(self._link_down)
        self._error_publisher = ErrorPublisher(runtime.send_data)
        runtime.on_trouble.append(self._error_publisher.publish)

    # -- for the driver ------------------------------------------------------------------------------------------

    def carry_out(self, instruction: msgspec.Struct) -> None:
        """Carry out an instruction of the peer's protocols."""
        if isinstance(instruction, Report):
            self._commands.look()
            request = self.synergy.requests.get(instruction.application)
            if self._durable is not None and is_over(instruction, request):
                self._begin(asyncio.to_thread(self._durable.drop, instruction.application))
        elif isinstance(instruction, driver.Answer | driver.HostsLookedUp):
            self._commands.answered(instruction)
        elif isinstance(instruction, ResilientPlacementRequest):
            self._begin(self._decide(instruction))
        elif isinstance(instruction, driver.ObtainContents):
            self._begin(self._contents.obtain(instruction))
        else:
            self.host.carry_out(instruction)
            self.measuring.wake()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.runtime.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop the operators."""
        self.measuring.close()
        self.calibration.close()
        for task in self._tasks:
            task.cancel()
        self._copy_reports.close()
        self._knobs.close()
        await self.host.close()
        await self.spark.close()
        if self._recorder is not None:
            self._recorder.close()

    # -- states of applications ----------------------------------------------------------------------------

    # Reports made during an instruction are sent on a separate turn of the loop: after all other effects.

    def _prepared(self, application: str, operator: str) -> None:
        self.runtime.report_soon(driver.PartReady(application, operator))

    def _failed(self, application: str, operator: str, reason: str) -> None:
        self.runtime.report_soon(driver.OperatorStopped(application, operator, reason))

    def _finished(self, application: str, _operator: str) -> None:
        if all(sink.over for sink in self.host.sinks(application)):
            self.runtime.report_soon(driver.SinksEnded(application))

    def _measured(self, application: str, operator: str, _measured: dict[str, Any]) -> None:
        if application in self.synergy.requests:
            self._measurements[application].qos[operator] = self.host.qos(application, operator)
        if (delay := self.host.mean_delay(application, operator)) is not None:
            self.runtime.report(driver.DelayMeasured(application, delay))

    def _link_down(self, address: str, reason: str) -> None:
        """Send unacknowledged data again after a link has failed, and check whether the other peer lives."""
        self.host.link_down(address)
        self._error_publisher.lost(address)
        self.runtime.report(driver.LinkFailed(address, refused=reason == REFUSED))

    def _limit_bandwidths(self, area: WideArea | None) -> None:
        limits = () if area is None else (area.bandwidths(self.runtime.address), area.sites)
        self.runtime.report(driver.BandwidthsLimited(*limits))

    def _executing_components(self) -> list[dict[str, Any]]:
        """Return the measurements of each component, except sinks of ended applications that only retain results.

        Other components of an ended application are there because their streams are shared.
        """
        found = [
            stats
            for stats in self.host.stats()
            if stats["kind"] != "sink"
            or (request := self.synergy.requests.get(stats["application"])) is None
            or request.status in LASTING
        ]
        signatures = self.host.signatures()
        self._profiles.update(found, {name: made for name, (_, made) in signatures.items()})
        self._loads.measured({name: arriving for name, (arriving, _) in signatures.items() if len(arriving) > 1})
        return found

    def _samples(self) -> list[Row]:
        """Return load and memory of this machine since the last call, and the ping times of the overlay."""
        latency = self.synergy.latency
        measured = {address: latency.rtt(address) for address in self.synergy.pastry.known()}
        pings = {address: rtt for address, rtt in measured.items() if rtt is not None}
        previous, self._counters = self._counters, read_counters()
        return sample(previous, self._counters, pings)

    async def _decide(self, order: ResilientPlacementRequest) -> None:
        self.runtime.report(await asyncio.to_thread(decided, order))

    async def _warm(self, payload: bytes) -> bytes:
        """Load the code of resilient placement, in a thread of the lowest priority, and answer at once."""

        def load() -> None:
            with contextlib.suppress(AttributeError, OSError):  # only Linux has priorities of threads
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LEAST_PRIORITY)
            warm()

        threading.Thread(target=load, name="synergy warming", daemon=True).start()
        return b""

    # -- answers -------------------------------------------------------------------------------------------------

    async def _join(self, payload: bytes) -> bytes:
        request = unpack(payload, JoinCommand)
        self.runtime.request(driver.JoinRing(request.contact))
        pastry, directory = self.synergy.pastry, self.synergy.directory
        await self._commands.until(lambda: pastry.joined and directory.confirmed, POLL)
        if not pastry.joined:
            raise ValueError(
                f"contact: {request.contact!r}; expected a peer through which this one joins in {POLL:g} s"
            )
        self.calibration.renew()
        if request.contact is not None:
            self._begin(self._introduced_by(request.contact))
        return pack(Joined(sorted(self.synergy.probing.offers)))

    async def _joined(self, _payload: bytes) -> bytes:
        """Return the address of this peer if it is in a ring, else nothing."""
        return self.runtime.address.encode() if self.synergy.pastry.joined else b""

    async def _introduced_by(self, contact: str) -> None:
        """Have the clients of another peer learn of this one."""
        itself = pack(Newcomer(self.runtime.name, self.runtime.address))
        with contextlib.suppress(LinkDown, LinkFull, RemoteError, TimeoutError):  # who connects later asks for all
            await self.runtime.links.request(contact, "newcomer", itself, POLL)

    async def _newcomer(self, payload: bytes) -> bytes:
        """Tell the clients of a peer that has joined through this one."""
        unpack(payload, Newcomer)
        self._error_publisher.introduce(payload)
        return b""

    async def _leave(self, payload: bytes) -> bytes:
        self.runtime.request(driver.LeaveRing())
        return b""

    async def _where(self, payload: bytes) -> bytes:
        request = unpack(payload, FindHosts)
        found = await self._commands.hosts(request.names, POLL)
        if found is None:
            raise ValueError(f"names: no answer of the directory; expected one within {POLL:g} s")
        return pack(HostsFound(found))

    async def _offer(self, components: tuple[str, ...], told: bool) -> None:
        """Offer components whose contents are here, and return when the directory knows it; see ``OfferComponents``."""
        self.runtime.request(driver.OfferComponents(components, told))
        await self._commands.until(lambda: self.synergy.directory.confirmed, POLL)

    def _needed_contents(self) -> set[str]:
        """Components with contents that applications need which this peer leads, or in which it takes part."""
        synergy = self.synergy
        plans = [each.plan for each in synergy.session.members.values() if not each.ended]
        plans += [each.plan for each in synergy.requests.values() if each.status in LASTING]
        for plan in tuple(plans):
            parts = (each for each in plan.operators.values() if each.kind == PART)
            plans += [Plan.from_bytes(each.params["plan"]) for each in parts]
        return {component for plan in plans for component in needed_contents(plan)}

    async def _look_at_contents(self) -> None:
        """Drop contents that nobody needs, now and then."""
        while True:
            await asyncio.sleep(LOOKS)
            await self._contents.look()

    async def _submit(self, payload: bytes) -> bytes:
        return await self._submit_for(unpack(payload, Submit), "")

    async def _submit_for(self, request: Submit, user: str) -> bytes:
        """Submit a plan for a guest; ``user`` is empty for an owner."""
        application, requests = request.application, self.synergy.requests
        if application in requests or application in self._sizing:
            raise ValueError(f"application: {application!r}; expected a name that is not in use")
        if not ONE_WORD.fullmatch(application):
            expected = "one word of 1 to 300 letters, digits, '_', '.' and '-'"
            raise ValueError(f"application: {application!r:.100}; expected {expected}")
        self._sizing.add(application)
        try:
            if user and self._durable is not None and await asyncio.to_thread(self._durable.has, application):
                raise ValueError(f"application: {application!r}; expected a name that is not in use")
            plan = await asyncio.to_thread(sized_by_traces, Plan.from_bytes(request.plan))
            if application not in self._sizing:
                raise ValueError(f"application: {application!r} was stopped before it was submitted")
        finally:
            self._sizing.discard(application)
        on_spark = PART in self.synergy.config.components
        check_memory(plan, on_peers(plan, spark=on_spark), self.host.hosting.memory.limit)
        if self._durable is not None:
            self._durable.check_engines(plan)
        if on_spark:
            self._spark_reports.publish()
        folder = None if request.trial or user else self._durable
        if folder is not None:
            await asyncio.to_thread(keep_application, folder, request, plan, self.runtime.clock())
        try:
            await self._commands.submit(msgspec.structs.replace(request, plan=plan.to_bytes()), user)
        except ValueError:  # the peer has refused it, so it never ran
            if folder is not None and not request.epoch:
                await asyncio.to_thread(folder.drop, application)
            raise
        finally:
            for forgotten in self._measurements.keys() - requests.keys():
                del self._measurements[forgotten]
        state = await self._wait_for_decision(application, on_spark=True)
        if folder is not None and state.status != Status.REJECTED:
            with contextlib.suppress(OSError):  # a full disk: it is submitted as at first if it is started again
                await asyncio.to_thread(folder.accept, application)
        return pack(state)

    async def _wait_for_decision(self, application: str, *, on_spark: bool = False) -> ApplicationState:
        """Return the state once it is decided or a Spark server is missing; on request, once Spark is needed at all."""
        request = self.synergy.requests[application]

        def decided() -> bool:
            return request.state not in UNDECIDED or (request.on_spark and (on_spark or not self.spark.ready))

        await self._commands.until(decided, DECIDED)
        return self._state_of(request)

    async def _decision(self, payload: bytes) -> bytes:
        return pack(await self._wait_for_decision(self._named_request(payload).name))

    async def _spark_news(self, payload: bytes) -> bytes:
        self.spark.receive_state(unpack(payload, SparkState))
        return b""

    def _named_request(self, payload: bytes) -> Request:
        return self._submission(unpack(payload, ApplicationId).application)

    def _submission(self, name: str) -> Request:
        request = self.synergy.requests.get(name)
        if request is None:
            raise ValueError(f"application: {name!r}; expected one that was submitted at {self.runtime.name}")
        return request

    def _status(self, application: str) -> Status:
        """Return the status of an application that this peer leads, or takes part in."""
        request, member = self.synergy.requests.get(application), self.synergy.session.members.get(application)
        if request is None and member is not None:
            return Status.FINISHED if member.ended else Status.RUNNING
        return self._submission(application).status

    def _state_of(self, request: Request) -> ApplicationState:
        """Return what is known of an application."""
        of = self._measurements[request.name]
        return ApplicationState(
            request.name,
            request.status.value,
            request.reason,
            request.roles,
            0.0 if request.began is None else request.began - request.submitted,
            dict(of.qos),
            dict(of.late),
            dict(request.skipped),
            needs_spark=request.on_spark,
            durable=self._durable is not None and not request.rights.owner,
        )

    async def _application(self, payload: bytes) -> bytes:
        return pack(self._state_of(self._named_request(payload)))

    async def _leads(self, payload: bytes) -> bytes:
        """Return the state of an application if this peer leads it, or did at its end; else nothing."""
        request = self.synergy.requests.get(unpack(payload, ApplicationId).application)
        return b"" if request is None else pack(self._state_of(request))

    async def _applications(self, payload: bytes) -> bytes:
        known = set(unpack(payload, ListApplications).plans)
        listed = [
            Submitted(self._state_of(each), b"" if each.name in known else each.plan.to_bytes(), each.submitted)
            for each in self.synergy.requests.values()
            if not each.trial
        ]
        return pack(Listed(listed))

    async def _wait(self, payload: bytes) -> bytes:
        request = self._named_request(payload)
        await self._commands.until(lambda: request.status not in LASTING, POLL)
        return pack(self._state_of(request))

    async def _grant(self, payload: bytes) -> bytes:
        asked = unpack(payload, GrantRight)
        if asked.right not in (*RIGHTS, None):
            raise ValueError(f"right: {asked.right!r}; expected one of {', '.join(RIGHTS)}, or None")
        self.runtime.request(driver.ShareApplication(self._submission(asked.application).name, asked.user, asked.right))
        return b""

    async def _stop(self, payload: bytes) -> bytes:
        self._sizing.discard(unpack(payload, ApplicationId).application)  # a client that gave up waiting stops it
        request = self._named_request(payload)
        self.runtime.request(driver.StopApplication(request.name))
        return pack(self._state_of(request))

    async def _halt(self, payload: bytes) -> bytes:
        """Stop the sinks of an application, so that their last measurement covers exactly the retained results."""
        application = unpack(payload, ApplicationId).application
        self.host.halt(application)
        with contextlib.suppress(TimeoutError):  # what is not written then is written after the answer
            async with asyncio.timeout(POLL):
                await self.host.flush(application)
        return b""

    async def _sinks(self, payload: bytes) -> bytes:
        """Return the last measurements of the sinks of an application at this peer."""
        application = unpack(payload, ApplicationId).application
        sinks = [*self.host.sinks(application), *(each.sink for each in self.host.ended.of(application))]
        return pack(SinksMeasured({sink.operator: sink.qos() for sink in sinks}))

    async def _change_sinks(self, payload: bytes) -> bytes:
        """Prepare the destinations of an application for another one, which is to take its place."""
        asked = unpack(payload, ChangeSinks)
        return pack(SinksHeld(self.host.change_sinks(asked.application, asked.new, asked.at)))

    async def _prepared_sinks(self, payload: bytes) -> bytes:
        asked = unpack(payload, PreparedSinks)
        return pack(Outcome(self.host.unprepared(asked.application, asked.complete)))

    async def _replace_plan(self, payload: bytes) -> bytes:
        """Take a step of the change of the plan of a durable application."""
        asked, folder = unpack(payload, ReplacePlan), self._durable
        request = self._submission(asked.application)
        if folder is None:
            raise ValueError("durable: this cluster has no folder; expected one from which applications go on")
        match asked.step:
            case "begin":
                reason = await self._begin_change(folder, request, Plan.from_bytes(asked.plan))
            case "finish":
                reason = await self._finish_change(folder, request)
            case _:
                reason = await self._commands.change_plan(request.name, asked.step)
        return pack(Replacing(reason, b"" if reason else request.executed.to_bytes()))

    async def _begin_change(self, folder: DurableFolder, request: Request, new: Plan) -> str:
        """Have an application execute another plan, too; return why that is not possible, or nothing."""
        sized = await asyncio.to_thread(sized_by_traces, new)
        folder.check_engines(new)
        found = await asyncio.to_thread(prepare_change, folder, request.name, request.plan, sized)
        check_memory(found.both, on_peers(found.both, spark=False), self.host.hosting.memory.limit)
        if reason := await self._commands.change_plan(request.name, "begin", found.both.to_bytes()):
            return reason
        self._replacing[request.name] = found
        await self._wait_for_decision(request.name)
        return await self._commands.change_plan(request.name, "ask")

    async def _finish_change(self, folder: DurableFolder, request: Request) -> str:
        """Have an application go on with the other plan alone; return why that is not possible, or nothing."""
        change = self._replacing.pop(request.name, None)
        if change is None:
            return f"application: {request.name!r}; expected one whose plan changes"
        if reason := await self._commands.change_plan(request.name, "interrupt"):
            return reason
        kept, problem = change.new.to_bytes(), ""
        try:
            await asyncio.to_thread(keep_change, folder, request.name, request.plan, change)
        except OSError as error:
            kept, problem = b"", f"the folder does not take its new plan: {error.strerror or error}"
        reason = await self._commands.change_plan(request.name, "settle", kept)
        await self._wait_for_decision(request.name)
        return problem or reason

    async def _release(self, payload: bytes) -> bytes:
        """Have a finished application hold nothing: a client has all its results, which are retained for others."""
        self.runtime.request(driver.ReleaseResults(self._named_request(payload).name))
        return b""

    async def _dropped(self, payload: bytes) -> bytes:
        dropped = unpack(payload, RowsDropped)
        self._measurements[self._submission(dropped.application).name].late[dropped.source] = dropped.rows
        self.runtime.record(LateRows, dropped.application, operator=dropped.source, dropped=dropped.rows)
        return b""

    async def _state(self, payload: bytes) -> bytes:
        synergy, ledger = self.synergy, self.synergy.ledger
        state = PeerState(
            name=self.runtime.name,
            address=self.runtime.address,
            pid=os.getpid(),
            load=synergy.ledger.load,
            cores=synergy.ledger.cores,
            cpu_s=time.process_time(),
            offers=sorted(synergy.probing.offers),
            applications=sorted(synergy.session.applications),
            components=self.host.stats(),
            neighbours=sorted(synergy.pastry.leaf_set),
            probes=synergy.probing.probes,
            messages=self.runtime.messages,
            overheads=self._stages(),
            discipline=self.host.hosting.discipline,
            links={each: (ledger.bandwidth_from(each), rate) for each, rate in ledger.measured.items()},
        )
        return pack(state)

    async def _tables(self, _payload: bytes) -> bytes:
        """Return how much each table of this peer holds, and its tasks, for runs that look for growth."""
        held = {**tables(self.runtime), "journal.bytes": self.runtime.journal.packed_bytes}
        return msgspec.msgpack.encode({**held, "tasks": len(asyncio.all_tasks())})

    def _stages(self) -> dict[str, tuple[float, float]]:
        measured = self.overheads.measured()
        found = {stage: (each.mean, each.variance) for stage, each in measured.items()}
        latency = self.synergy.latency
        known = [each for peer in self.synergy.pastry.leaf_set if (each := latency.one_way_overhead(peer)) is not None]
        if known:
            found[LINK] = (
                sum(each.mean for each in known) / len(known),
                sum(each.variance for each in known) / len(known),
            )
        return found

    async def _events(self, payload: bytes) -> bytes:
        subject = msgspec.msgpack.decode(payload, type=str)
        return encode_events(self.runtime.journal.about(subject) if subject else self.runtime.journal.since(0))

    async def _subscribe_errors(self, client: str, _payload: bytes) -> bytes:
        """Send errors of this peer to a client from now on, as long as it has a link."""
        self._error_publisher.add(client)
        return b""

    async def _troubles(self, payload: bytes) -> bytes:
        """Return the events about errors of this peer since a time in seconds."""
        since = msgspec.msgpack.decode(payload, type=float)
        journal = self.runtime.journal
        return encode_events([event for event in journal if isinstance(event, PeerTrouble) and event.time >= since])
