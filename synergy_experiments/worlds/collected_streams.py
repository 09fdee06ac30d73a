"""Replicas in virtual time whose least useful streams are collected every 5 minutes, and revived when inputs are late.

What a coordinator of a cluster does: every 30 s it begins a new period of weights, every 5 minutes it discards streams
by the weights of the last period (algorithm 6), and it revives streams for an input of which all streams are late, from
replicas that are not late themselves or, if so chosen, from all that run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from synergy_experiments.worlds.active_replicas import ActiveReplicas
from synergy_experiments.worlds.replicated_queries import PERIOD, Readings
from synergy_experiments.worlds.varying_delays import Array, DelaysOf
from synergy_nb.algorithms.replication.collection import collect
from synergy_nb.algorithms.replication.revival import InputDelays, revival
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica
from synergy_nb.dataflow.tuples import Punctuation

__all__ = ["COLLECTIONS", "WEIGHING", "Coordinated", "coordinated"]

WEIGHING: Final = 30.0  # seconds between computations of utilities (V-B)
COLLECTIONS: Final = 300.0  # seconds between collections (V-B)
CHECKS: Final = 5.0  # seconds between two looks at the delays of inputs


@dataclass(frozen=True)
class Coordinated:
    """What a coordinator did.

    Parameters
    ----------
    latencies
        Application to the latency of each result, seconds, NaN where it did not arrive.
    costs
        Network cost in each period.
    revived, collected
        Numbers of streams that were revived and collected.
    """

    latencies: Mapping[str, Array]
    costs: Array
    revived: int
    collected: int


class _Inputs:
    """Delays of the inputs of all replicas."""

    def __init__(self, graph: ReplicaGraph) -> None:
        self._of: dict[tuple[str, str], InputDelays] = {}
        self._since: dict[StreamReplica, float] = {}
        for stream in graph.streams:
            self.begin(stream, 0.0)

    def begin(self, stream: StreamReplica, now: float) -> None:
        delays = self._of.setdefault((stream.consumer, stream.stream), InputDelays(PERIOD))
        delays.begin(stream.producer, now)
        self._since[stream] = now

    def end(self, stream: StreamReplica) -> None:
        self._of[stream.consumer, stream.stream].end(stream.producer)
        del self._since[stream]

    def promise(self, stream: StreamReplica, time: float, now: float) -> None:
        """Record a promise, unless it was replayed when the stream was revived."""
        if time > self._since[stream]:
            self._of[stream.consumer, stream.stream].promise(stream.producer, now)

    def late(self, now: float) -> dict[tuple[str, str], None]:
        """Return consumer and stream of each input that is late."""
        return {key: None for key, delays in self._of.items() if delays.late(now)}


def coordinated(
    readings: Readings,
    graph: ReplicaGraph,
    delays: DelaysOf,
    periods: int,
    theta: float,
    k_min: int,
    failures: Sequence[Collection[str | StreamReplica]] = (),
    revives: bool = True,
    late_too: bool = False,
) -> Coordinated:
    """Run replicas with a coordinator.

    Parameters
    ----------
    readings, graph
        Query and its stream replicas at the beginning.
    delays
        Delay of each tuple on each stream replica.
    periods
        Number of periods in which sources emit.
    theta
        Target θ of the network cost.
    k_min
        Number of replicas that each operator retains.
    failures
        Sets of replicas and streams that may fail together, which collection leaves survivable.
    revives
        Whether streams are revived when an input is late.
    late_too
        Whether streams are also revived from replicas that wait for a late input themselves.
    """
    inputs = _Inputs(graph)

    def promised(stream: StreamReplica, item: Punctuation) -> None:
        inputs.promise(stream, item.time / 1e6, run.now)

    run = ActiveReplicas(readings, graph, delays, periods, promised)
    collected: dict[StreamReplica, None] = {}
    costs, revived, discarded = np.zeros(periods), 0, 0
    weights: Mapping[StreamReplica, float] = {}
    for check in range(1, round(periods * PERIOD / CHECKS) + 1):
        now = check * CHECKS
        run.run(now)
        if now % WEIGHING == 0.0:
            weights = run.weights()
            run.restart_weights()
        if now % COLLECTIONS == 0.0:
            for group in collect(run.graph, weights, theta, k_min, failures):
                run.discard(group.streams)
                collected.update(dict.fromkeys(group.streams))
                discarded += len(group.streams)
                for stream in group.streams:
                    inputs.end(stream)
        late = inputs.late(now) if revives else {}
        hindered = set() if late_too else {consumer for consumer, _ in late}
        for consumer, name in late:
            found = revival(run.graph, collected, consumer, name, hindered - {consumer})
            if found is None:
                continue
            run.revive(found.streams, found.replica)
            revived += len(found.streams)
            for each in found.streams:
                del collected[each]
                inputs.begin(each, now)
        costs[min(int((now - CHECKS) / PERIOD), periods - 1)] = run.graph.cost
    run.run(np.inf)
    return Coordinated(run.latencies, costs, revived, discarded)
