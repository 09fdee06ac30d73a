"""Deployment of active replicas at least network cost, phase by phase (algorithm 5 in [1]_), and at random.

Each phase adds one replica of each operator, in topological order. Its server must have room for it, must be further
than ``d_min`` from the other replicas of the operator, so that one partition of the network does not separate all of
them. Of several such servers, the one with the least cost of streams is chosen. Where no server qualifies, the
operator has fewer replicas, and the result names it; ``d_min`` is never relaxed.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section V-A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.replication.system import Placement, Query, Servers, stream_costs
from synergy_nb.plan import Plan

__all__ = ["ALPHA", "ANY_DISTANCE", "Deployed", "ReplicaLimits", "deploy", "deploy_randomly", "eligible_servers"]

ALPHA = 0.9  # the paper states only that α is less than 1
ANY_DISTANCE = -1.0  # a distance that any two servers exceed, even two at the same place


@dataclass(frozen=True)
class ReplicaLimits:
    """Conditions for the servers of replicas.

    :meth:`for_plan` gives those of a plan. A plan states a round trip, and ``d_min`` is compared with one-way delays.
    """

    k_max: int = 2  # number of replicas of each operator
    # latency between two replicas of an operator, which must be exceeded, in the unit of the servers' latencies. The
    # paper calls 30 to 70 ms "a good range", and does not state whether that is one way
    d_min: float = 30.0
    alpha: float = ALPHA  # share α of a server's capacity below which its load must remain
    # number of replicas of operators that are to have fewer than `k_max`
    degrees: Mapping[str, int] = field(default_factory=dict)

    def degree(self, operator: str) -> int:
        """Return the number of replicas that an operator is to have."""
        return self.degrees.get(operator, self.k_max)

    @classmethod
    def for_plan(cls, plan: Plan, degree: int, degrees: Mapping[str, int] | None = None) -> ReplicaLimits:
        """Conditions for replicas of the operators of a plan, with latencies as one-way delays in seconds.

        ``plan``: plan; its ``qos.replica_distance`` is a round trip; ``degree``, ``degrees``: greatest number of
        replicas of an operator, and the number of those that are to have fewer.
        """
        distance = plan.qos.replica_distance
        return cls(degree, ANY_DISTANCE if distance is None else distance / 2.0, degrees=degrees or {})


@dataclass(frozen=True)
class Deployed:
    """A deployment of replicas."""

    # name of each operator to the numbers of the servers of its replicas, in the order of their choice
    replicas: Mapping[str, tuple[int, ...]]
    # name of each operator to the cost of the streams of each of its replicas, rate times latency, at its choice
    costs: Mapping[str, tuple[float, ...]]
    # name of each operator with fewer replicas than wanted to the number of those that it lacks
    missing: Mapping[str, int]

    def __str__(self) -> str:
        if not self.missing:
            return "each operator has all of its replicas"
        parts = ", ".join(f"{name} lacks {count}" for name, count in self.missing.items())
        return f"fewer replicas, as no server has room and is far enough from the others: {parts}"


def eligible_servers(
    query: Query, servers: Servers, placement: Placement, operator: str, limits: ReplicaLimits
) -> npt.NDArray[np.bool_]:
    """Return for each server whether it may run one more replica of an operator (lines 6 and 7)."""
    loads = servers.loads(query, placement)
    found = loads + query.loads[operator] < limits.alpha * servers.capacity
    if operator in query.eligible:
        found &= np.isin(np.arange(len(loads)), list(query.eligible[operator]))
    for server in placement.get(operator, ()):
        found &= servers.latency[server] > limits.d_min
        found[server] = False
    return np.asarray(found)


def deploy(query: Query, servers: Servers, limits: ReplicaLimits, first: Mapping[str, int] | None = None) -> Deployed:
    """Deploy replicas by algorithm 5.

    ``first``: name of an operator to the number of its server in the first phase, such as that of a placement without
    replicas; the servers of other operators are chosen.
    """
    return _phases(query, servers, limits, first or {}, None)


def deploy_randomly(
    query: Query,
    servers: Servers,
    limits: ReplicaLimits,
    rng: np.random.Generator,
    first: Mapping[str, int] | None = None,
) -> Deployed:
    """Deploy replicas at random servers that have room, in the same phases; with ``d_min`` if it is at least 0."""
    return _phases(query, servers, limits, first or {}, rng)


def _phases(
    query: Query, servers: Servers, limits: ReplicaLimits, first: Mapping[str, int], rng: np.random.Generator | None
) -> Deployed:
    """Place one replica of each operator in each phase: at the cheapest server or, with ``rng``, at a random one."""
    replicas: dict[str, list[int]] = {operator: [] for operator in query.order}
    costs: dict[str, list[float]] = {operator: [] for operator in query.order}
    for phase in range(limits.k_max):
        for operator in (each for each in query.order if phase < limits.degree(each)):
            possible = eligible_servers(query, servers, replicas, operator, limits)
            added = stream_costs(query, servers, replicas, operator)
            if phase == 0 and operator in first:
                chosen = first[operator]
            elif not possible.any():
                continue
            elif rng is None:
                chosen = int(np.argmin(np.where(possible, added, np.inf)))
            else:
                chosen = int(rng.choice(np.flatnonzero(possible)))
            replicas[operator].append(chosen)
            costs[operator].append(float(added[chosen]))
    missing = {operator: limits.degree(operator) - len(found) for operator, found in replicas.items()}
    return Deployed(
        {operator: tuple(found) for operator, found in replicas.items()},
        {operator: tuple(found) for operator, found in costs.items()},
        {operator: number for operator, number in missing.items() if number},
    )
