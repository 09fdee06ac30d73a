"""Stream replicas between active replicas, and the utility of each (V-B in [1]_).

Each duplicate filter gives the streams that it merges weights by order of arrival: 1 for the first that delivers a
tuple, 1/2 for the second, 1/3 for the third
(:attr:`~synergy_nb.dataflow.streams.replicas.duplicate_filter.DuplicateFilter.weights`). Utilities are computed
from these weights, from the applications up to the sources.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

__all__ = ["ReplicaGraph", "StreamReplica", "ranked_weights"]


class StreamReplica(msgspec.Struct, frozen=True, order=True):
    """The stream from one replica to one reader."""

    # producer, consumer: names of the replica, source or application at either end
    producer: str
    consumer: str
    # name of the stream of the query of which this is a replica; those that the consumer merges have the same
    stream: str
    rate: float  # data rate, such as tuples/s
    latency: float  # network latency, such as seconds

    @property
    def cost(self) -> float:
        """Network cost: rate times latency, the data that are on their way."""
        return self.rate * self.latency

    def __str__(self) -> str:
        return f"{self.producer}>{self.consumer}"


def ranked_weights(arrivals: Iterable[Iterable[str]]) -> dict[str, float]:
    """Compute the weights of streams from the order in which each tuple arrived on them.

    >>> {name: round(weight, 6) for name, weight in ranked_weights(["012", "210", "012", "10"]).items()}
    {'0': 2.833333, '1': 2.5, '2': 1.666667}
    """
    found: dict[str, float] = {}
    for order in arrivals:
        for rank, stream in enumerate(order, start=1):
            found[stream] = found.get(stream, 0.0) + 1.0 / rank
    return found


@dataclass(frozen=True)
class ReplicaGraph:
    """The stream replicas of a query that run."""

    streams: tuple[StreamReplica, ...]
    # operator of each replica. All other ends of streams are sources and applications
    operators: Mapping[str, str]

    @property
    def cost(self) -> float:
        """Network cost of all stream replicas."""
        return sum(stream.cost for stream in self.streams)

    @cached_property
    def inputs(self) -> dict[str, tuple[StreamReplica, ...]]:
        """Streams into each replica and application."""
        return _grouped((stream.consumer, stream) for stream in self.streams)

    @cached_property
    def outputs(self) -> dict[str, tuple[StreamReplica, ...]]:
        """Streams out of each replica and source."""
        return _grouped((stream.producer, stream) for stream in self.streams)

    @cached_property
    def merged(self) -> dict[tuple[str, str], tuple[StreamReplica, ...]]:
        """Streams that each replica or application merges for each of its inputs."""
        found: dict[tuple[str, str], list[StreamReplica]] = {}
        for stream in self.streams:
            found.setdefault((stream.consumer, stream.stream), []).append(stream)
        return {key: tuple(streams) for key, streams in found.items()}

    @cached_property
    def input_groups(self) -> dict[str, list[tuple[StreamReplica, ...]]]:
        """Replica or application to its inputs; each input is the group of the streams that are merged for it."""
        found: dict[str, list[tuple[StreamReplica, ...]]] = {}
        for (consumer, _), streams in self.merged.items():
            found.setdefault(consumer, []).append(streams)
        return found

    @cached_property
    def readers_first(self) -> tuple[str, ...]:
        """Names of all ends of streams (sources, replicas, applications), each after all that read from it."""
        left = {end: len(self.outputs.get(end, ())) for end in dict.fromkeys((*self.outputs, *self.inputs))}
        ready = [end for end, count in left.items() if not count]
        found: list[str] = []
        while ready:
            found.append(ready.pop())
            for stream in self.inputs.get(found[-1], ()):
                left[stream.producer] -= 1
                if not left[stream.producer]:
                    ready.append(stream.producer)
        return tuple(found)

    @cached_property
    def replicas(self) -> dict[str, tuple[str, ...]]:
        """Replicas of each operator that have a stream."""
        found: dict[str, list[str]] = {}
        for replica, operator in self.operators.items():
            if replica in self.inputs or replica in self.outputs:
                found.setdefault(operator, []).append(replica)
        return {operator: tuple(each) for operator, each in found.items()}

    def without(self, streams: Iterable[StreamReplica]) -> ReplicaGraph:
        """Return the graph without some streams."""
        gone = set(streams)
        return ReplicaGraph(tuple(stream for stream in self.streams if stream not in gone), self.operators)

    def utilities(self, weights: Mapping[StreamReplica, float]) -> tuple[dict[StreamReplica, float], dict[str, float]]:
        """Compute the utility of each stream replica, and of each operator replica, source and application.

        The utility of an application is 1, that of a replica the sum of the utilities of its outputs. The streams that
        a replica merges for one input share the utility of the replica by their weights; each input shares all of it.

        ``weights``: accumulated weight of each stream replica; 0 where there is none. If all of an input are 0, they
        have equal shares.

        Returns: utilities of the streams, and of their ends.
        """
        streams: dict[StreamReplica, float] = {}
        ends: dict[str, float] = {}
        for end in self.readers_first:
            outputs = self.outputs.get(end, ())
            is_application = end not in self.operators and not outputs
            ends[end] = 1.0 if is_application else sum(streams[stream] for stream in outputs)
            for group in _grouped((stream.stream, stream) for stream in self.inputs.get(end, ())).values():
                total = sum(weights.get(stream, 0.0) for stream in group)
                for stream in group:
                    share = weights.get(stream, 0.0) / total if total else 1.0 / len(group)
                    streams[stream] = share * ends[end]
        return streams, ends


def _grouped(pairs: Iterable[tuple[str, StreamReplica]]) -> dict[str, tuple[StreamReplica, ...]]:
    found: dict[str, list[StreamReplica]] = {}
    for key, stream in pairs:
        found.setdefault(key, []).append(stream)
    return {key: tuple(streams) for key, streams in found.items()}
