"""Active replicas in virtual time: real duplicate filters and real operators, links whose delays differ by tuple.

Every replica has a :class:`.replicas.duplicate_filter.DuplicateFilter` for each input in front of
its operator, and sends what that emits to each of its readers. A link delivers each tuple after its own delay, so that
tuples may overtake each other, and a promise after all that was sent before it. Processing takes no time.

Streams can be discarded while the replicas run, and revived. A revived stream begins with what its producer has emitted
since the last promise that the reader's filter knows; a replica that is revived begins as a copy of one that runs.
"""

from __future__ import annotations

import copy
import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np

from synergy_experiments.worlds.replicated_queries import PERIOD, Readings
from synergy_experiments.worlds.varying_delays import Array, DelaysOf
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica
from synergy_nb.dataflow.operators.base import OperatorLogic, create
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import START, Batch, Item, Punctuation

__all__ = ["ActiveReplicas"]

RETAINED: Final = 12  # periods for which a replica retains what it has emitted


@dataclass
class _End:
    """A replica or an application: one filter for each input, the operator behind them, and what it has emitted."""

    filters: dict[str, DuplicateFilter]
    logic: OperatorLogic | None
    retained: deque[Item] = field(default_factory=deque)
    complete_from: int = START


class ActiveReplicas:
    """Replicas that run in virtual time.

    Parameters
    ----------
    readings
        Query.
    graph
        Stream replicas at the beginning.
    delays
        Delay of each tuple on each stream replica.
    periods
        Number of periods in which sources emit.
    promised
        Callback for each promise that arrives on a stream replica.

    Attributes
    ----------
    now : float
        Virtual time, seconds.
    graph : ReplicaGraph
        Stream replicas that run.
    latencies : dict
        Application to the latency of each result, seconds, shape (periods, tuples of a period); NaN before it arrives.
    dropped : int
        Number of tuples that filters dropped.
    """

    def __init__(
        self,
        readings: Readings,
        graph: ReplicaGraph,
        delays: DelaysOf,
        periods: int,
        promised: Callable[[StreamReplica, Punctuation], None] | None = None,
    ) -> None:
        self.now = 0.0
        self.graph = graph
        self.latencies = {name: np.full((periods, readings.width), np.nan) for name in readings.applications}
        self.dropped = 0
        self._readings = readings
        self._delays = delays
        self._drawn: dict[StreamReplica, Array] = {}
        self._promised = promised
        self._period, self._periods = 0, periods
        self._order = count()
        self._due: list[tuple[float, int, StreamReplica, Item]] = []
        self._sent: dict[StreamReplica, float] = {}  # when the last item of a stream arrives
        self._ends = {name: self._begun(name) for name in graph.inputs}
        self._sources = {name: _End({}, None) for name in readings.sources}

    def run(self, until: float) -> None:
        """Execute all events before a time."""
        while True:
            emits = self._period * PERIOD if self._period < self._periods else np.inf
            arrives = self._due[0][0] if self._due else np.inf
            if min(emits, arrives) >= until:
                break
            if emits <= arrives:
                self.now = emits
                self._emit_readings()
            else:
                self.now, _, stream, item = heapq.heappop(self._due)
                self._deliver(stream, item)
        self.now = max(self.now, until) if np.isfinite(until) else self.now

    def weights(self) -> dict[StreamReplica, float]:
        """Return the weight of each stream replica since the last restart."""
        found = {}
        for stream in self.graph.streams:
            found[stream] = self._ends[stream.consumer].filters[stream.stream].weights[stream.producer]
        return found

    def restart_weights(self) -> None:
        """Begin a new period of weights."""
        for end in self._ends.values():
            for each in end.filters.values():
                each.restart_weights()

    def discard(self, streams: Iterable[StreamReplica]) -> None:
        """Discard stream replicas, and the replicas that have none left."""
        gone = tuple(streams)
        self.graph = self.graph.without(gone)
        for stream in gone:
            self._ends[stream.consumer].filters[stream.stream].leave(stream.producer)
        for name in [name for name in self._ends if name not in self.graph.inputs]:
            del self._ends[name]

    def revive(self, streams: Iterable[StreamReplica], replica: str = "") -> None:
        """Revive stream replicas, and the replica that they come from if it has none."""
        new = tuple(streams)
        if replica:
            self._copy(replica)
        self.graph = ReplicaGraph((*self.graph.streams, *new), self.graph.operators)
        for stream in new:
            begun = self._ends[stream.consumer].filters[stream.stream]
            producer = self._ends.get(stream.producer) or self._sources[stream.producer]
            complete_from = max(begun.promise, producer.complete_from)
            begun.join(stream.producer, complete_from)
            self._sent.pop(stream, None)
            for item in producer.retained:
                self._send(stream, item, complete_from)

    def _begun(self, name: str) -> _End:
        operator = self.graph.operators.get(name)
        inputs: dict[str, list[str]] = {}
        for stream in self.graph.inputs[name]:
            inputs.setdefault(stream.stream, []).append(stream.producer)
        logic = None
        if operator is not None:
            logic = create(self._readings.plan.operators[operator], self._readings.plan)
        return _End({stream: DuplicateFilter(producers) for stream, producers in inputs.items()}, logic)

    def _copy(self, replica: str) -> None:
        """Make a replica that has the state of another of its operator, and no inputs yet."""
        operator = self.graph.operators[replica]
        other = self._ends[next(each for each in self.graph.replicas[operator] if each in self._ends)]
        assert other.logic is not None
        logic = create(self._readings.plan.operators[operator], self._readings.plan)
        logic.restore(other.logic.save())
        filters = copy.deepcopy(other.filters)
        for each in filters.values():
            for stream in each.streams:
                each.leave(stream)
        self._ends[replica] = _End(filters, logic, deque(other.retained), other.complete_from)

    def _emit_readings(self) -> None:
        promise = Punctuation(round((self._period + 1) * PERIOD * 1e6), self._period + 1, self.now)
        for name, source in self._sources.items():
            for item in (self._readings.read(name, self._period), promise):
                self._emit(name, source, item)
        self._period += 1

    def _emit(self, name: str, end: _End, item: Item) -> None:
        end.retained.append(item)
        if isinstance(item, Punctuation):
            oldest = item.time - round(RETAINED * PERIOD * 1e6)
            while isinstance(first := end.retained[0], Batch) or first.time < oldest:
                if not isinstance(first, Batch):
                    end.complete_from = first.time
                elif int(first.table.get_column("time").cast(int)[0]) >= oldest:
                    break
                end.retained.popleft()
        for stream in self.graph.outputs.get(name, ()):
            self._send(stream, item)

    def _send(self, stream: StreamReplica, item: Item, since: int = START) -> None:
        """Send an item; of a batch, the tuples from an event time on, each with its own delay."""
        last = self._sent.get(stream, 0.0)
        if isinstance(item, Punctuation):
            if item.time > since:
                self._push(max(self.now + stream.latency, last), stream, item)
            return
        if stream not in self._drawn:
            self._drawn[stream] = self._delays(stream)
        for row in range(item.rows):
            period, server = item.table.item(row, "period"), item.table.item(row, "server")
            if round(period * PERIOD * 1e6) < since:
                continue
            at = self.now + float(self._drawn[stream][period, server])
            self._push(at, stream, item if item.rows == 1 else Batch(item.table.slice(row, 1), 0, item.born))

    def _push(self, at: float, stream: StreamReplica, item: Item) -> None:
        self._sent[stream] = max(at, self._sent.get(stream, 0.0))
        heapq.heappush(self._due, (at, next(self._order), stream, item))

    def _deliver(self, stream: StreamReplica, item: Item) -> None:
        end = self._ends.get(stream.consumer)
        merged = None if end is None else end.filters.get(stream.stream)
        if end is None or merged is None or stream.producer not in merged.streams:
            return  # it was on its way when its stream was discarded
        passed = merged.receive(stream.producer, item)
        if isinstance(item, Punctuation) and self._promised is not None:
            self._promised(stream, item)
        if passed is None:
            self.dropped += isinstance(item, Batch)
        elif end.logic is not None:
            port = self._readings.plan.operators[self.graph.operators[stream.consumer]].inputs.index(stream.stream)
            for each in end.logic.execute(port, passed):
                self._emit(stream.consumer, end, each)
        elif isinstance(passed, Batch):
            self._receive(stream.consumer, passed)

    def _receive(self, application: str, batch: Batch) -> None:
        found = self.latencies[application]
        for period, server in batch.table.select("period", "server").iter_rows():
            if not np.isnan(found[period, server]):
                raise ValueError(f"{application}: result of server {server} in period {period} twice; expected once")
            found[period, server] = self.now - period * PERIOD
