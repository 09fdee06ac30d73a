"""Collection and revival of streams between active replicas, as a protocol of peers (V-B and V-C in [1]_).

Theory of operation
-------------------
The data path reports once a second what has come on each input of the replicas here and of those that read them
(:class:`~synergy_nb.control.driver_messages.InputsReported`). Each peer sends the weights of the last period, with the
measured rates and delays, to the origins of the applications (:class:`WeightsReported`). While the network cost exceeds
the target θ, an origin discards the streams of least utility for their cost. It retains ``k_min`` replicas of each
operator, and what the application needs to survive each crash, and each slow path between two peers, that it survived
before. A replica whose streams are all discarded ends. The changed graph reaches all peers like any other
(:mod:`synergy_nb.lifecycle.changes.graph_changes`).

A reader whose input is late on all of its streams asks the origin (:class:`RevivalRequested`), and asks again while
that lasts. The origin revives the discarded stream of least cost from a replica that runs and is not late itself: one
that waits for a late input has nothing to send that the reader lacks. If there is none, but a replica that ended, that
one is rebuilt (:mod:`.rebuilding`).

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Final

from synergy_nb.algorithms.replication._input_progress import InputProgress
from synergy_nb.algorithms.replication._stream_graph import ReplicaInput, StreamGraph, StreamUse
from synergy_nb.algorithms.replication.collection import Discarded, collect
from synergy_nb.algorithms.replication.revival import revival
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica
from synergy_nb.control.driver_messages import InputsReported
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.streams.hosting.input_reports import StreamsMeasured
from synergy_nb.events import ReplicaDiffers, RevivalImpossible, StreamRevived, StreamsDiscarded, StreamsWeighed
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.changes.graph_changes import GraphChanges
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.overlay.latency import Latency
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import least_degree, replicas_of

__all__ = ["RevivalRequested", "StreamCollection", "WeightsReported"]

REPORTS_TIME: Final = 1.0  # seconds after the first report of a period within which the others arrive
# seconds after a request within which all readers that are late for the same reason have asked
REQUESTS_TIME: Final = 2.0
ASK_AGAIN: Final = 5.0  # seconds until a reader whose input is late asks again


class WeightsReported(Message, frozen=True, gc=False):
    """Measurements of the inputs of the components of one application at the sender, in the last period."""

    application: str
    attempt: int
    # name of each reader to the numbers of its inputs in the plan, and to the measurements of each
    inputs: dict[str, dict[int, StreamUse]]


class RevivalRequested(Message, frozen=True, gc=False):
    """A request to the origin: all streams of an input of a reader are late, so it should revive one."""

    application: str
    attempt: int
    epoch: int  # epoch of the graph that the sender knows
    # operator, port: name of the reader, and number of its late input in the submitted plan
    operator: str
    port: int
    delay: float  # delay of that of its streams which is the least late, seconds


class _LedStreams:
    """Measurements of the streams of an application, at its origin."""

    __slots__ = ("attempt", "delays", "last_recorded", "late", "measured", "revived_epochs", "unrevivable")

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.measured: dict[ReplicaInput, StreamUse] = {}  # input to the measurements of its reader in the last period
        self.delays: dict[ReplicaInput, float] = {}  # input to the last known delay of its stream, seconds
        self.unrevivable: set[tuple[str, int]] = set()  # readers and ports for which no stream could be revived
        # reader to the epoch of the graph in which a stream was last revived for it
        self.revived_epochs: dict[str, int] = {}
        self.late: dict[str, float] = {}  # reader to the time at which it was last late, seconds
        self.last_recorded = -math.inf  # time at which utilities were last recorded, seconds


def replicas_by_peer(graph: ReplicaGraph, roles: Roles) -> dict[str, set[str]]:
    """Replicas that run at each peer: they end together if it crashes."""
    found: dict[str, set[str]] = {}
    for group in graph.replicas.values():
        for replica in group:
            found.setdefault(roles.peers[replica], set()).add(replica)
    return found


def streams_by_path(graph: ReplicaGraph, roles: Roles) -> list[frozenset[StreamReplica]]:
    """Streams on the path between any two peers: they are late together if it is slow."""
    found: dict[frozenset[str], set[StreamReplica]] = {}
    for stream in graph.streams:
        ends = frozenset((roles.peers[stream.producer], roles.peers[stream.consumer]))
        if len(ends) == 2:
            found.setdefault(ends, set()).add(stream)
    return [frozenset(streams) for streams in found.values()]


class StreamCollection(Protocol):
    """Collects and revives streams between active replicas."""

    def __init__(
        self,
        peer: Peer,
        changes: GraphChanges,
        latency: Latency,
        is_dead: Callable[[str], bool],  # function from an address to whether that peer is known to have died
        config: ReplicationConfig,
        # function of (application, replica) that has this replica rebuilt, which ended when its streams were discarded
        want: Callable[[str, str], None] = lambda _application, _replica: None,
        # function of an application that returns whether none of its replicas is being rebuilt; while one is, its
        # readers need the streams of the others, and nothing is discarded
        settled: Callable[[str], bool] = lambda _application: True,
    ) -> None:
        super().__init__(peer)
        self._changes = changes
        self._latency = latency
        self._is_dead = is_dead
        self._config = config
        self._want = want
        self._no_rebuild = settled
        self._inputs: dict[tuple[str, str], InputProgress] = {}  # by application and operator here
        self._differed: dict[tuple[str, str, int], int] = {}  # application, reader and input to intervals recorded last
        self._reported = 0.0  # time of the last report, seconds
        self._led: dict[str, _LedStreams] = {}
        self.handlers = {WeightsReported: self._weights_reported, RevivalRequested: self._revival_requested}

    def start(self) -> None:
        """Begin to collect, if a target of the cost is set."""
        self._reported = self.peer.now
        if self._config.share is not None:
            self.peer.after(self._config.collect, self._collect_regularly)

    # -- at peers with replicas ----------------------------------------------------------------------------------------

    def inputs_reported(self, report: InputsReported) -> None:
        """Handle the report of the data path, which comes once a second."""
        now = self.peer.now
        found = {(each.application, each.operator): each for each in report.components}
        for key in self._inputs.keys() - found.keys():
            del self._inputs[key]
            self._differed = {each: count for each, count in self._differed.items() if each[:2] != key}
        for key, each in found.items():
            progress = self._inputs.get(key)
            if progress is None:
                progress = self._inputs[key] = InputProgress(now, self._config.late)
            progress.update(each.inputs, now)
            self._record_differing(each)
            self._ask_if_late(*key, progress)
        if now - self._reported >= self._config.report:
            self._reported = now
            self._report()

    def _record_differing(self, measured: StreamsMeasured) -> None:
        """Record replicas whose streams differ from others, at first and whenever the number has doubled."""
        for number, each in measured.inputs.items():
            intervals = each.minority + each.doubtful
            key = measured.application, measured.operator, number
            if not intervals or intervals < 2 * self._differed.get(key, 0):
                continue
            self._differed[key] = intervals
            member = self._changes.members.get(measured.application)
            at = "" if member is None else member.graph.roles.peers.get(each.producer, "")
            self.peer.record(
                ReplicaDiffers, measured.application, reader=measured.operator, replica=each.producer, at=at,
                intervals=intervals, outvoted=each.minority > 0,
            )  # fmt: skip

    def _ask_if_late(self, application: str, operator: str, progress: InputProgress) -> None:
        member = self._changes.members.get(application)
        if member is None or member.ended:
            return
        graph = member.graph
        for port, delay in progress.late(self.peer.now, ASK_AGAIN):
            request = RevivalRequested(application, graph.attempt, graph.epoch, operator, port, delay)
            self.peer.send(graph.origin, request)

    def _report(self) -> None:
        """Send the measurements of the period that ends now to the origins of the applications."""
        reports: dict[str, dict[str, dict[int, StreamUse]]] = {}
        for (application, operator), progress in self._inputs.items():
            member = self._changes.members.get(application)
            measured = progress.period(self.peer.now)
            if member is None or member.ended or operator not in member.operators:
                continue
            roles, node = member.graph.roles, member.plan.operators[operator]
            planned = roles.present(member.plan, operator)
            found: dict[int, StreamUse] = {}
            for number, (weight, rate) in measured.items():
                if planned.get(number, -1) >= 0:
                    at = roles.peers[node.inputs[planned[number]]]
                    delay = 0.0 if at == self.peer.address else self._latency.one_way(at)
                    found[planned[number]] = StreamUse(weight, rate, -1.0 if delay is None else delay)
            reports.setdefault(application, {})[operator] = found
        for application, inputs in reports.items():
            graph = self._changes.members[application].graph
            self.peer.send(graph.origin, WeightsReported(application, graph.attempt, inputs))

    # -- at origins ----------------------------------------------------------------------------------------------------

    def _streams_of(self, application: str, attempt: int) -> _LedStreams:
        """Measurements of an application in this attempt; empty for a new one."""
        for ended in self._led.keys() - self._changes.led.keys():
            del self._led[ended]
        known = self._led.get(application)
        if known is None or known.attempt != attempt:
            known = self._led[application] = _LedStreams(attempt)
        return known

    def _weights_reported(self, sender: str, message: WeightsReported) -> None:
        """Note the measurements of a peer; once in a period, schedule the record of the utilities."""
        request = self._changes.led.get(message.application)
        if request is None or not request.running or request.graph.attempt != message.attempt:
            return
        known = self._streams_of(message.application, message.attempt)
        for reader, inputs in message.inputs.items():
            if request.graph.roles.peers.get(reader) != sender:
                continue
            known.measured = {each: use for each, use in known.measured.items() if each.reader != reader}
            for number, use in inputs.items():
                known.measured[ReplicaInput(reader, number)] = use
                if use.delay >= 0.0:
                    known.delays[ReplicaInput(reader, number)] = use.delay
        if self.peer.now - known.last_recorded >= 0.5 * self._config.report and known.measured:
            known.last_recorded = self.peer.now
            self.peer.after(REPORTS_TIME, self._record_utilities, request, request.graph.attempt)

    def _record_utilities(self, request: Request, attempt: int) -> None:
        """Record the utilities and costs of the streams, once the peers have reported."""
        if self._changes.led.get(request.name) is not request or request.graph.attempt != attempt:
            return
        streams = self._streams(request)
        utilities, _ = streams.running.utilities(streams.weights)
        self.peer.record(
            StreamsWeighed,
            request.name,
            streams=[(each.producer, each.consumer, utilities[each], each.cost) for each in streams.running.streams],
            cost=streams.running.cost,
            whole=streams.cost_of_all,
            bound=None if self._config.share is None else self._config.share * streams.cost_of_all,
        )

    def _collect_regularly(self) -> None:
        self.peer.after(self._config.collect, self._collect_regularly)
        for application, request in tuple(self._changes.led.items()):
            if request.state is State.RUNNING and application in self._led:
                self._collect(request)

    def _streams(self, request: Request) -> StreamGraph:
        graph = request.graph
        known = self._streams_of(graph.application, graph.attempt)
        return StreamGraph(Plan.from_bytes(graph.plan), graph.roles, known.measured, known.delays)

    def _collect(self, request: Request) -> None:
        """Discard the least useful streams of an application until their cost is at most the target."""
        graph, known, streams = (
            request.graph,
            self._streams_of(request.name, request.graph.attempt),
            self._streams(request),
        )
        plan = Plan.from_bytes(graph.plan)
        if not replicas_of(plan) or not known.measured or self._config.share is None:
            return
        if not self._no_rebuild(request.name):
            return
        if self.peer.now - max(known.late.values(), default=-math.inf) < max(
            2.0 * self._config.report, 3.0 * self._config.late
        ):
            return  # weights may be older than a revived stream; a reader that is still late asks within this time
        running, bound = streams.functioning, self._config.share * streams.cost_of_all
        retained = self._config.retained(least_degree(plan))
        hosts = [frozenset(group) for group in replicas_by_peer(running, graph.roles).values()]
        failures: list[frozenset[str | StreamReplica]] = []
        if retained > 1:
            crashes = combinations(hosts, min(retained - 1, len(hosts)))
            failures += [frozenset().union(*each) for each in crashes]
            failures += streams_by_path(running, graph.roles)
        found = collect(running, streams.weights, bound, retained, failures)
        if found:
            known.unrevivable.clear()
            self._discard(request, streams, found, bound)

    def _discard(self, request: Request, streams: StreamGraph, found: list[Discarded], bound: float) -> None:
        """Publish the graph without the discarded streams and without the replicas that have no stream left."""
        graph, running = request.graph, streams.functioning
        plan, roles = Plan.from_bytes(graph.plan), graph.roles
        gone = [stream for each in found for stream in each.streams]
        for stream in gone:
            roles = roles.without_stream(plan, *streams.inputs[stream])
        left = running.without(gone)
        ended = [name for group in running.replicas.values() for name in group if name not in left.inputs]
        self._publish(request, roles.without(ended))
        self.peer.record(
            StreamsDiscarded,
            request.name,
            streams=[(stream.producer, stream.consumer) for stream in gone],
            ended=ended,
            cost=running.cost,
            left=left.cost,
            bound=bound,
            utility=sum(each.utility for each in found),
        )

    def _publish(self, request: Request, roles: Roles) -> None:
        before = request.graph
        self._changes.change(request.name, before.changed(roles))
        self._changes.publish(request.name, tuple(before.roles.addresses))
        self.peer.instruct(request.report())

    def _revival_requested(self, sender: str, message: RevivalRequested) -> None:
        """Note that a reader is late; decide once the readers that are late with it have asked, too."""
        request = self._changes.led.get(message.application)
        if request is None or request.state is not State.RUNNING or request.graph.attempt != message.attempt:
            return  # the reader asks again
        if request.graph.roles.peers.get(message.operator) == sender:
            known = self._streams_of(request.name, message.attempt)
            known.late[message.operator] = self.peer.now
            self.peer.after(REQUESTS_TIME, self._revive, message)

    def _revive(self, message: RevivalRequested) -> None:
        """Revive a stream for a late input, have an ended replica rebuilt, or record why neither is possible."""
        request = self._changes.led.get(message.application)
        if request is None or request.state is not State.RUNNING or request.graph.attempt != message.attempt:
            return
        graph, reader = request.graph, message.operator
        known = self._streams_of(request.name, graph.attempt)
        if message.epoch < known.revived_epochs.get(reader, 0):
            return  # the reader did not know yet that a stream was revived for it
        streams = self._streams(request)
        plan = Plan.from_bytes(graph.plan)
        wanted = {each.stream for each, at in streams.inputs.items() if at.reader == reader}
        stream = next((each for each in wanted if each.endswith(f" {message.port}")), "")
        if not stream:
            return
        failed = {name for name, peer in graph.roles.peers.items() if not peer or self._is_dead(peer)}
        late = {name for name, last in known.late.items() if name != reader and self.peer.now - last < 2 * ASK_AGAIN}
        found = revival(streams.running, streams.discarded, reader, stream, failed | late)
        if found is None and late and revival(streams.running, streams.discarded, reader, stream, failed) is not None:
            return  # all that could help are late, too; the reader asks again
        if found is not None and not found.replica:
            (revived,) = found.streams
            self._publish(request, graph.roles.with_stream(plan, *streams.inputs[revived]))
            known.revived_epochs[reader] = request.graph.epoch
            self.peer.record(StreamRevived, request.name, producer=revived.producer, reader=reader, delay=message.delay)
            return
        if (reader, message.port) in known.unrevivable:
            return
        known.unrevivable.add((reader, message.port))
        upstream = stream.partition(" ")[0]
        lost = [each for each in replicas_of(plan).get(upstream, ()) if not graph.roles.peers[each]]
        gone = [each.producer for each in streams.discarded if (each.consumer, each.stream) == (reader, stream)]
        if lost:
            reason = f"{', '.join(lost)} would have to be rebuilt"
        elif upstream not in replicas_of(plan):
            reason = "it is not replicated"
        else:
            reason = f"the peer of {', '.join(gone)} died" if gone else "all of its replicas are read already"
        self.peer.record(
            RevivalImpossible, request.name, reader=reader, upstream=upstream, delay=message.delay, reason=reason
        )
        if lost:
            self._want(request.name, lost[0] if found is None else found.replica)
