"""Queries of real operators whose replicas all run, and the latency of each tuple as a shortest path over replicas.

Two queries of Hwang et al. (ICDE 2008): a chain of operators, and the paper's own, in which two unions merge readings
of all servers, two joins share both unions, and a filter and an application follow each join. Each source emits a
reading every period; a reading is identified by its server and its period, and so is what the joins make of it.

If processing takes no time, a replica emits a tuple when the first copy has arrived on any of its stream replicas; a
join, when that has happened on both inputs. :func:`shortest` computes this for all tuples at once, and knows nothing of
filters and operators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import polars as pl

from synergy_experiments.worlds.varying_delays import Array, DelaysOf
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica
from synergy_nb.algorithms.replication.system import Query, QueryEdge
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, plan, source
from synergy_nb.plan.builder import Stream

__all__ = ["PERIOD", "Readings", "chain", "correlation", "deployed_graph", "first_choice", "shortest", "survives"]

PERIOD: Final = 10.0  # seconds between two readings of a source (VI-A)
_SILENT: Final = 4  # of so many servers, one has latencies that match no load, so that joins pass three quarters


@dataclass(frozen=True)
class Readings:
    """A query over periodic readings.

    Parameters
    ----------
    plan
        Query plan; the number at the end of a source's id is its server.
    width
        Number of servers with sources, which is the number of tuples of a period.
    matched
        Whether a reading of each server passes the joins.
    """

    plan: Plan
    width: int
    matched: tuple[bool, ...]

    @property
    def sources(self) -> list[str]:
        """Ids of the sources."""
        return [each.id for each in self.plan.operators.values() if each.kind == "source"]

    @property
    def applications(self) -> list[str]:
        """Ids of the sinks."""
        return list(self.plan.sinks)

    @property
    def operators(self) -> list[str]:
        """Ids of the operators that have replicas."""
        return [name for name in self.plan.operators if name not in {*self.sources, *self.applications}]

    def read(self, source: str, period: int) -> Batch:
        """Return the reading of a source in a period."""
        server = int(source.rpartition("_")[2])
        about = server if source.startswith("load") or self.matched[server] else -1 - server
        time = round(period * PERIOD * 1e6)
        rows = {"time": [time], "server": [server], "period": [period], "about": [about], "value": [float(period)]}
        return Batch(pl.DataFrame(rows).with_columns(pl.col("time").cast(pl.Datetime("us"))), period, period * PERIOD)

    def query(self, server_of: Mapping[str, int]) -> Query:
        """Return the query for deployment, with rates in tuples a period.

        Parameters
        ----------
        server_of
            Server of each source and application.
        """
        rates: dict[str, float] = {}
        edges = []
        for name, operator in self.plan.operators.items():
            edges += [QueryEdge(each, name, rates[each]) for each in operator.inputs]
            inputs = [rates[each] for each in operator.inputs]
            joined = float(sum(self.matched))
            rates[name] = 1.0 if not inputs else joined if operator.kind == "join" else sum(inputs)
        return Query(dict.fromkeys(self.operators, 0.1), edges, dict(server_of))


def _reading(kind: str, server: int) -> Stream:
    columns = {"server": "int", "period": "int", "about": "int", "value": "float"}
    return source("python", name=f"{kind} {server}", id=f"{kind}_{server}", columns=columns, rate=1.0 / PERIOD)


def chain(operators: int = 3) -> Readings:
    """Return a chain of filters behind one source."""
    last = _reading("load", 0)
    for number in range(1, operators + 1):
        last = last.filter("value >= 0", id=f"filter {number}")
    return Readings(last.sink("readings"), 1, (True,))


def correlation(servers: int) -> Readings:
    """Return the paper's query: loads and latencies of all servers, two unions that two joins share, two filters.

    Parameters
    ----------
    servers
        Number of servers, each with a source of either kind.
    """
    kinds = []
    for kind in ("load", "latency"):
        first, *others = (_reading(kind, server) for server in range(servers))
        kinds.append(first.union(*others, id=f"union {kind}"))
    drafts = []
    for number in (1, 2):
        both = kinds[0].join(kinds[1], on=["about"], within="5 s", id=f"join {number}")
        drafts.append(both.filter("value >= 0", id=f"filter {number}").sink(f"application {number}"))
    matched = tuple(server % _SILENT != _SILENT - 1 for server in range(servers))
    return Readings(plan(*drafts), servers, matched)


def deployed_graph(
    readings: Readings, replicas: Mapping[str, Sequence[int]], pinned: Mapping[str, int], latency: Array
) -> tuple[ReplicaGraph, dict[str, int]]:
    """Return all stream replicas of a deployment, and the server of each replica, source and application.

    Parameters
    ----------
    readings
        Query.
    replicas
        Servers of the replicas of each operator.
    pinned
        Server of each source and application.
    latency
        One-way latency between servers, seconds.
    """
    names = {name: [f"{name}~{number}" for number in range(len(each))] for name, each in replicas.items()}
    server_of = dict(pinned)
    for name, each in replicas.items():
        server_of.update(zip(names[name], each, strict=True))
    streams = [
        StreamReplica(one, other, edge.producer, edge.rate / PERIOD, float(latency[server_of[one], server_of[other]]))
        for edge in readings.query(pinned).edges
        for one, other in product(names.get(edge.producer, [edge.producer]), names.get(edge.consumer, [edge.consumer]))
    ]
    return ReplicaGraph(tuple(streams), {each: name for name, found in names.items() for each in found}), server_of


def shortest(
    readings: Readings, graph: ReplicaGraph, delays: DelaysOf, shape: tuple[int, int], dead: Collection[str] = ()
) -> dict[str, Array]:
    """Compute the latency of each tuple at each end of a stream, seconds; infinite where it never arrives.

    Parameters
    ----------
    readings, graph
        Query and its stream replicas.
    delays
        Delay of each tuple on each stream replica.
    shape
        Numbers of periods, and of tuples of a period.
    dead
        Replicas that emit nothing.

    Returns
    -------
    dict
        Name of a source, replica or application to its latencies, shape ``shape``.
    """
    found: dict[str, Array] = {}
    replicas: dict[str, list[str]] = {}
    for replica, operator in graph.operators.items():
        replicas.setdefault(operator, []).append(replica)
    for name, declared in readings.plan.operators.items():
        if declared.kind == "source":
            found[name] = np.full(shape, np.inf)
            found[name][:, int(name.rpartition("_")[2])] = 0.0
            continue
        for end in replicas.get(name, [name]):
            ports = []
            for upstream in declared.inputs:
                streams = [each for each in graph.inputs.get(end, ()) if each.stream == upstream]
                arrivals = [found[each.producer] + delays(each) for each in streams]
                ports.append(first_choice(arrivals, shape))
            if declared.kind == "join":
                joined = np.maximum(*ports)
                found[end] = np.where(readings.matched, joined, np.inf)
            else:
                found[end] = first_choice(ports, shape)
            if end in dead:
                found[end] = np.full(shape, np.inf)
    return found


def first_choice(arrivals: Iterable[Array], shape: tuple[int, int]) -> Array:
    """Return the earliest of some arrivals, tuple by tuple; infinite without any."""
    found = np.full(shape, np.inf)
    for each in arrivals:
        found = np.minimum(found, each)
    return found


def survives(readings: Readings, graph: ReplicaGraph, dead: Collection[str]) -> bool:
    """Whether all applications get all results without some replicas.

    Parameters
    ----------
    readings, graph
        Query and its stream replicas.
    dead
        Replicas that crashed.
    """
    shape = (1, readings.width)
    found = shortest(readings, graph, lambda _: np.zeros(shape), shape, dead)
    return all(bool(np.isfinite(found[name][0, list(readings.matched)]).all()) for name in readings.applications)
