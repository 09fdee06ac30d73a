"""Collection of the stream and operator replicas that are least useful for their cost (algorithm 6 in [1]_).

While the network cost exceeds θ, the group of dependent streams with the least utility per cost is discarded. Each
operator retains at least ``k_min`` replicas, and each application a stream for each of its inputs. That alone does not
survive every crash: all remaining replicas of an operator may read the same replica of another one. So a group also
remains if an application would get no results without it after a failure that it survived before: a crash, or a path
between two servers that delivers nothing in time.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section V-B.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica

__all__ = ["Discarded", "collect", "dependents"]


class Discarded(NamedTuple):
    """A group of stream replicas that is discarded."""

    streams: tuple[StreamReplica, ...]  # stream replicas of the group, in the order in which the recursion found them
    utility: float  # sum of the utilities of the streams
    cost: float  # sum of the network costs of the streams
    left: float  # network cost of the streams that remain


def collect(
    graph: ReplicaGraph,
    weights: Mapping[StreamReplica, float],  # weight of each stream, accumulated in the last period
    theta: float,  # target θ of the network cost, in the unit of rate times latency
    k_min: int = 2,  # number of replicas that each operator retains
    # sets of replicas and of streams that may fail together, such as the replicas of a server, or the streams on one
    # path. A group remains if an application would get no results without it after such a failure. Default: each
    # replica alone if `k_min` is at least 2, else none
    failures: Iterable[Collection[str | StreamReplica]] | None = None,
) -> list[Discarded]:
    """Return the groups to discard, in this order, until the cost is at most θ or nothing may be discarded."""
    if failures is None:
        failures = [{replica} for replica in graph.operators] if k_min > 1 else []
    survived = [frozenset(each) for each in failures if _delivers(graph, each)]
    found: list[Discarded] = []
    needed: set[StreamReplica] = set()  # what a failure needs, it needs also when fewer streams are left
    while graph.cost > theta:  # line 1
        utilities, _ = graph.utilities(weights)
        groups: list[tuple[float, int, tuple[StreamReplica, ...], float, float]] = []
        seen = set[str]()  # readers with a single stream for an input: to discard any such stream gives the same group
        for number, stream in enumerate(graph.streams):  # lines 2 and 3
            if stream in needed:
                continue
            if len(graph.merged[stream.consumer, stream.stream]) == 1:
                if stream.consumer in seen:
                    continue
                seen.add(stream.consumer)
            group = dependents(graph, stream, k_min)
            cost = sum(each.cost for each in group)
            if cost > 0.0:
                utility = sum(utilities[each] for each in group)
                heapq.heappush(groups, (utility / cost, number, group, utility, cost))
        while groups:
            _, number, group, utility, cost = heapq.heappop(groups)
            left = graph.without(group)
            if all(_delivers(left, failed) for failed in survived):
                graph = left  # line 4
                found.append(Discarded(group, utility, cost, left=graph.cost))
                break
            needed.add(graph.streams[number])
        else:
            break
    return found


def dependents(graph: ReplicaGraph, stream: StreamReplica, k_min: int) -> tuple[StreamReplica, ...]:
    """Return the group that is discarded with a stream: the stream, and the streams of replicas that become useless.

    ``k_min``: number of replicas that each operator retains.

    Returns: streams; none if an operator would have fewer than ``k_min`` replicas, or an application no stream for an
    input.
    """
    gone: dict[StreamReplica, None] = {}
    useless: dict[str, set[str]] = {}  # replicas of each operator on the way
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
            if operator not in useless:
                useless[operator] = {other for other in graph.replicas[operator] if other not in graph.outputs}
            if end not in useless[operator] and _useless(graph, end, gone):  # only this end can have become useless
                useless[operator].add(end)
            if len(graph.replicas[operator]) - len(useless[operator]) < k_min:  # lines 20 and 21
                return ()
            if end in useless[operator]:  # line 22
                waiting += [*graph.outputs.get(end, ()), *graph.inputs.get(end, ())]
    return tuple(gone)


def _delivers(graph: ReplicaGraph, failed: Collection[str | StreamReplica]) -> bool:
    """Whether every application gets each of its inputs although some replicas and streams failed."""
    silent = set(failed)
    for end in reversed(graph.readers_first):  # sources first
        inputs = graph.input_groups.get(end, ())
        if any(all(each.producer in silent or each in silent for each in group) for group in inputs):
            if end not in graph.operators:
                return False
            silent.add(end)
    return True


def _lacks_input(graph: ReplicaGraph, end: str, gone: Mapping[StreamReplica, None]) -> bool:
    """Whether all streams of an input are gone."""
    inputs = {stream.stream for stream in gone if stream.consumer == end}
    return any(all(stream in gone for stream in graph.merged[end, each]) for each in inputs)


def _useless(graph: ReplicaGraph, replica: str, gone: Mapping[StreamReplica, None]) -> bool:
    """Whether a replica has no output left, or an input without a stream."""
    outputs = graph.outputs.get(replica, ())
    return all(stream in gone for stream in outputs) or _lacks_input(graph, replica, gone)
