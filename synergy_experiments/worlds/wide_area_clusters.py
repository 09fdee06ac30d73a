"""Clusters of servers with wide-area delays, and the replicas of the paper's query that are deployed in them.

A cluster has a source of either kind at each server, and two applications at random servers. Its first placement, by
spring relaxation and a local search, has one replica of each operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synergy_experiments.worlds.replicated_queries import Readings, correlation, deployed_graph
from synergy_experiments.worlds.varying_delays import Array
from synergy_nb.algorithms.replication.deployment import ReplicaLimits, deploy, deploy_randomly
from synergy_nb.algorithms.replication.local_search import improve
from synergy_nb.algorithms.replication.spring_relaxation import first_placement
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph
from synergy_nb.algorithms.replication.system import Query, Servers
from synergy_nb.models.delay_matrix import one_way, read_rtt
from synergy_nb.simulator.network import transit_stub

__all__ = ["Cluster", "cluster"]


@dataclass(frozen=True)
class Cluster:
    """Servers, a query with its sources and applications at some of them, and its first placement.

    Parameters
    ----------
    readings
        Query of real operators.
    snapshots
        One-way delays, seconds, shape (snapshots, servers, servers).
    pinned
        Server of each source and application.
    query, servers
        Query and servers as deployment sees them; latencies in ms.
    first
        Server of each operator without replicas.
    """

    readings: Readings
    snapshots: Array
    pinned: Mapping[str, int]
    query: Query
    servers: Servers
    first: Mapping[str, int]

    def replicated(
        self, k: int, d_min: float, rng: np.random.Generator | None = None
    ) -> tuple[ReplicaGraph, dict[str, int]]:
        """Return the stream replicas of a deployment at least cost, or at random servers, and the servers of all ends.

        Parameters
        ----------
        k
            Number of replicas of each operator.
        d_min
            One-way latency that two replicas of an operator exceed, ms; random deployment disregards it.
        rng
            Random generator for random servers; None: least cost.
        """
        if rng is None:
            found = deploy(self.query, self.servers, ReplicaLimits(k, d_min), self.first)
        else:
            found = deploy_randomly(self.query, self.servers, ReplicaLimits(k, -1.0), rng, self.first)
        return deployed_graph(self.readings, found.replicas, self.pinned, self.snapshots[0])


def cluster(servers: int, paths: Sequence[str], d_min: float, seed: int) -> Cluster:
    """Draw a cluster.

    Parameters
    ----------
    servers
        Number of servers.
    paths
        Matrices of round-trip times between the same sites, one a snapshot; none: delays of a transit-stub network.
    d_min
        One-way latency that two replicas of an operator exceed, ms.
    seed
        Seed of the servers and of the applications.
    """
    rng = np.random.default_rng([seed, 17])
    snapshots = _snapshots(servers, paths, rng)
    readings = correlation(servers)
    pinned = {name: int(name.rpartition("_")[2]) for name in readings.sources}
    pinned.update(zip(readings.applications, map(int, rng.choice(servers, 2, replace=False)), strict=True))
    query, system = readings.query(pinned), Servers(1e3 * snapshots[0], np.ones(servers))
    alone = ReplicaLimits(1, d_min)
    placed = improve(query, system, alone, deploy(query, system, alone, first_placement(query, system)))
    first = {name: each[0] for name, each in placed.replicas.items()}
    return Cluster(readings, snapshots, pinned, query, system, first)


def _snapshots(servers: int, paths: Sequence[str], rng: np.random.Generator) -> Array:
    if not paths:
        network = transit_stub(servers, seed=int(rng.integers(2**31)))
        return np.asarray([[[network.delay(one, other) for other in network.peers] for one in network.peers]])
    matrices = [one_way(read_rtt(each)) for each in paths]
    chosen = rng.choice(len(matrices[0]), servers, replace=False)
    return np.asarray([each[np.ix_(chosen, chosen)] for each in matrices])
