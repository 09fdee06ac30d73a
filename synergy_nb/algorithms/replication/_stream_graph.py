"""The stream replicas of a component graph, with what their readers measured."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import msgspec

from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicas_of


class StreamUse(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Measurements of a stream by its reader in one period."""

    weight: float  # weight of the stream by the order of arrival of its tuples (section V-B)
    rate: float  # rate of the stream, tuples/s; negative if it was not measured
    delay: float  # one-way delay from the peer of the producer, seconds; negative if it was never measured


class ReplicaInput(NamedTuple):
    """An input of a plan with replicas."""

    reader: str  # name of the operator that reads it
    number: int  # number of the input among those of the reader, from 0


class StreamGraph:
    """All stream replicas of an application, and those that run."""

    def __init__(
        self,
        plan: Plan,
        roles: Roles,
        measured: Mapping[ReplicaInput, StreamUse],  # each input that runs to the last measurements of its reader
        # each input to the last known one-way delay of its stream, seconds; a stream without one has the cost 0
        delays: Mapping[ReplicaInput, float],
    ) -> None:
        operators = {name: operator for operator, group in replicas_of(plan).items() for name in group}
        rates: dict[str, list[float]] = {}
        for each, use in measured.items():
            if use.rate > 0.0:
                rates.setdefault(original(plan.operators[each.reader].inputs[each.number]), []).append(use.rate)
        self.inputs: dict[StreamReplica, ReplicaInput] = {}
        running: list[StreamReplica] = []
        self.weights: dict[StreamReplica, float] = {}
        for reader, node in plan.operators.items():
            present = roles.present(plan, reader).values()
            for number, up in enumerate(node.inputs):
                if reader not in operators and up not in operators:
                    continue
                known = rates.get(original(up))
                rate = median(known) * plan.tuple_bytes(up) if known else plan.bandwidth(up)
                delay = delays.get(ReplicaInput(reader, number), 0.0)
                port = node.ports[number] if node.ports else number
                stream = StreamReplica(up, reader, f"{original(up)} {port}", rate, delay)
                self.inputs[stream] = ReplicaInput(reader, number)
                if number in present and roles.peers[up] and roles.peers[reader]:
                    running.append(stream)
                    found = measured.get(ReplicaInput(reader, number))
                    self.weights[stream] = 0.0 if found is None else found.weight
        self.running = ReplicaGraph(tuple(running), operators)

    @property
    def functioning(self) -> ReplicaGraph:
        """Streams that run, without those that delivered nothing in a period in which others of the same input did."""
        merged = self.running.merged
        return self.running.without(
            stream
            for stream in self.running.streams
            if not self.weights[stream] and any(self.weights[other] for other in merged[stream.consumer, stream.stream])
        )

    @property
    def cost_of_all(self) -> float:
        """Network cost of all streams, if all of them ran: bytes on the way."""
        return sum(stream.cost for stream in self.inputs)

    @property
    def discarded(self) -> list[StreamReplica]:
        """Streams that do not run."""
        running = set(self.running.streams)
        return [stream for stream in self.inputs if stream not in running]
