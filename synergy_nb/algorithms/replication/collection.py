"""Collection of the stream and operator replicas that are least useful for their cost (algorithm 6 in [1]_).

While the network cost exceeds θ, the group of dependent streams with the least utility per cost is discarded. Each
operator retains at least ``k_min`` replicas, and each application a stream for each of its inputs.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section V-B.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica

__all__ = ["Discarded", "collect", "dependents"]


class Discarded(NamedTuple):
    """A group of stream replicas that is discarded.

    Parameters
    ----------
    streams
        Stream replicas, in the order in which the recursion found them.
    utility
        Sum of their utilities.
    cost
        Sum of their network costs.
    left
        Network cost of what remains.
    """

    streams: tuple[StreamReplica, ...]
    utility: float
    cost: float
    left: float


def collect(
    graph: ReplicaGraph, weights: Mapping[StreamReplica, float], theta: float, k_min: int = 2
) -> list[Discarded]:
    """Return the groups to discard, in this order, until the cost is at most θ or nothing may be discarded.

    Parameters
    ----------
    graph
        Stream replicas that run.
    weights
        Weights accumulated in the last period.
    theta
        Target θ of the network cost, in the unit of rate times latency.
    k_min
        Number of replicas that each operator retains.
    """
    found: list[Discarded] = []
    while graph.cost > theta:  # line 1
        utilities, _ = graph.utilities(weights)
        best, least = None, math.inf
        for stream in graph.streams:  # lines 2 and 3
            group = dependents(graph, stream, k_min)
            cost = sum(each.cost for each in group)
            utility = sum(utilities[each] for each in group)
            if cost > 0.0 and utility / cost < least:
                best, least = (group, utility, cost), utility / cost
        if best is None:
            break
        graph = graph.without(best[0])  # line 4
        found.append(Discarded(*best, left=graph.cost))
    return found


def dependents(graph: ReplicaGraph, stream: StreamReplica, k_min: int) -> tuple[StreamReplica, ...]:
    """Return the streams that have to be discarded with a stream: itself, and those of replicas that become useless.

    Parameters
    ----------
    graph
        Stream replicas that run.
    stream
        Stream to discard.
    k_min
        Number of replicas that each operator retains.

    Returns
    -------
    tuple
        Streams; none if an operator would have fewer than ``k_min`` replicas, or an application no stream for an input.
    """
    gone: dict[StreamReplica, None] = {}
    waiting = [stream]
    while waiting:  # lines 9 to 28; the order of the recursion does not change the result
        each = waiting.pop()
        if each in gone:
            continue
        gone[each] = None
        for end in (each.producer, each.consumer):
            operator = graph.operators.get(end)
            if operator is None:
                if _lacks_input(graph, end, gone):  # an application
                    return ()
                continue
            remaining = [other for other in graph.replicas[operator] if not _useless(graph, other, gone)]
            if len(remaining) < k_min:  # lines 20 and 21
                return ()
            if end not in remaining:  # line 22
                waiting += [*graph.outputs.get(end, ()), *graph.inputs.get(end, ())]
    return tuple(gone)


def _lacks_input(graph: ReplicaGraph, end: str, gone: Mapping[StreamReplica, None]) -> bool:
    inputs = graph.inputs.get(end, ())
    return {stream.stream for stream in inputs} != {stream.stream for stream in inputs if stream not in gone}


def _useless(graph: ReplicaGraph, replica: str, gone: Mapping[StreamReplica, None]) -> bool:
    """Whether a replica has no output left, or an input without a stream."""
    outputs = graph.outputs.get(replica, ())
    return all(stream in gone for stream in outputs) or _lacks_input(graph, replica, gone)
