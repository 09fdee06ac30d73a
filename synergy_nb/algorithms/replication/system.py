"""Queries and servers for the deployment of active replicas, and the network cost of a deployment (V-A in [1]_).

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Placement", "Query", "QueryEdge", "Servers", "network_cost", "stream_costs"]

Placement: TypeAlias = Mapping[str, Sequence[int]]  # numbers of the servers that run each operator


class QueryEdge(NamedTuple):
    """A stream of a query."""

    # producer, consumer: names of the operator, source or application at either end
    producer: str
    consumer: str
    rate: float  # data rate; its unit is that of costs, such as tuples/s


@dataclass(frozen=True)
class Query:
    """A query of which the operators are to be deployed."""

    loads: Mapping[str, float]  # load of a replica of each operator, in the unit of the servers' capacities
    edges: Sequence[QueryEdge]  # streams between sources, operators and applications; without cycles
    # number of the server of each source and application. These are not replicated
    pinned: Mapping[str, int]
    # numbers of the servers that may run an operator, where these are not all
    eligible: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for edge in self.edges:
            for name in edge[:2]:
                if name not in self.loads and name not in self.pinned:
                    raise ValueError(f"edges: {name!r}; expected an operator, or a source or application with a server")

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the operators in topological order, otherwise in the order of ``loads``."""
        waiting, found = list(self.loads), list[str]()
        while waiting:
            ready = [
                name for name in waiting if not any(e.consumer == name and e.producer in waiting for e in self.edges)
            ]
            if not ready:
                raise ValueError(f"edges: a cycle through {', '.join(waiting)}; expected none")
            found.append(ready[0])
            waiting.remove(ready[0])
        return tuple(found)

    def neighbours(self, operator: str) -> list[tuple[str, float]]:
        """Return the other end and the rate of each input and output stream of an operator."""
        return [(e.producer, e.rate) for e in self.edges if e.consumer == operator] + [
            (e.consumer, e.rate) for e in self.edges if e.producer == operator
        ]


@dataclass(frozen=True)
class Servers:
    """Servers of a logical cluster."""

    # network latency between any two servers, shape (servers, servers); zero diagonal. Its unit is also that of `d_min`
    # and of costs, such as ms
    latency: npt.NDArray[np.float64]
    capacity: npt.NDArray[np.float64]  # processing capacity of each server
    load: npt.NDArray[np.float64] | None = None  # load of each server by other work; 0 by default

    def __post_init__(self) -> None:
        count = len(self.capacity)
        if self.latency.shape != (count, count):
            raise ValueError(f"latency: shape {self.latency.shape}; expected {(count, count)}, as capacity has {count}")

    def loads(self, query: Query, placement: Placement) -> npt.NDArray[np.float64]:
        """Return the load of each server with a deployment."""
        found = np.zeros(len(self.capacity)) if self.load is None else np.array(self.load, dtype=np.float64)
        for operator, servers in placement.items():
            for server in servers:
                found[server] += query.loads[operator]
        return found


def stream_costs(query: Query, servers: Servers, placement: Placement, operator: str) -> npt.NDArray[np.float64]:
    """Compute the cost of the streams of one more replica of an operator at each server (line 9 of algorithm 5).

    The streams are those from every existing upstream replica and to every existing downstream replica.
    """
    found = np.zeros(len(servers.capacity))
    for other, rate in query.neighbours(operator):
        for server in _servers_of(query, placement, other):
            found += rate * servers.latency[server]
    return found


def network_cost(query: Query, servers: Servers, placement: Placement) -> float:
    """Compute the network cost: the sum of rate times latency over all stream replicas.

    Examples
    --------
    >>> edges = [QueryEdge("s", "filter", 10.0), QueryEdge("filter", "app", 2.0)]
    >>> query = Query({"filter": 0.1}, edges, {"s": 0, "app": 1})
    >>> network_cost(query, Servers(np.array([[0.0, 7.0], [7.0, 0.0]]), np.ones(2)), {"filter": [0, 1]})
    84.0
    """
    return sum(
        edge.rate * float(servers.latency[one, other])
        for edge in query.edges
        for one in _servers_of(query, placement, edge.producer)
        for other in _servers_of(query, placement, edge.consumer)
    )


def _servers_of(query: Query, placement: Placement, name: str) -> Sequence[int]:
    return (query.pinned[name],) if name in query.pinned else placement.get(name, ())
