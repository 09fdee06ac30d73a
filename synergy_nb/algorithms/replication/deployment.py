"""Deployment of active replicas at least network cost, phase by phase (algorithm 5 in [1]_), and at random.

Each phase adds one replica of each operator, in topological order. Its server must have room for it, must be further
than ``d_min`` from the other replicas of the operator, so that one partition of the network does not separate all of
them, and causes the least cost of streams. Where no server qualifies, the operator has fewer replicas, and the result
names it; ``d_min`` is never relaxed.

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section V-A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.replication.system import Placement, Query, Servers, stream_costs

__all__ = ["ALPHA", "Deployed", "Limits", "candidates", "deploy", "deploy_randomly"]

ALPHA = 0.9  # the paper states only that it is less than 1


@dataclass(frozen=True)
class Limits:
    """Conditions for the servers of replicas.

    Parameters
    ----------
    k_max
        Number of replicas of each operator.
    d_min
        Latency that two replicas of an operator must exceed, in the unit of the servers' latencies; 30 to 70 ms are "a
        good range" in the paper, which does not state whether that is one way.
    alpha
        Share α of a server's capacity below which its load must remain.
    """

    k_max: int = 2
    d_min: float = 30.0
    alpha: float = ALPHA


@dataclass(frozen=True)
class Deployed:
    """A deployment of replicas.

    Parameters
    ----------
    replicas
        Numbers of the servers of each operator, in the order in which they were chosen.
    costs
        Cost of the streams of each replica when it was added.
    missing
        Number of replicas that an operator lacks since no server qualified, where there is such an operator.
    """

    replicas: Mapping[str, tuple[int, ...]]
    costs: Mapping[str, tuple[float, ...]]
    missing: Mapping[str, int]

    def __str__(self) -> str:
        if not self.missing:
            return "each operator has all of its replicas"
        parts = ", ".join(f"{name} lacks {count}" for name, count in self.missing.items())
        return f"fewer replicas, as no server has room and is far enough from the others: {parts}"


def candidates(
    query: Query, servers: Servers, placement: Placement, operator: str, limits: Limits
) -> npt.NDArray[np.bool_]:
    """Return which servers may run one more replica of an operator (lines 6 and 7)."""
    loads = servers.loads(query, placement)
    found = loads + query.loads[operator] < limits.alpha * servers.capacity
    if operator in query.eligible:
        found &= np.isin(np.arange(len(loads)), list(query.eligible[operator]))
    for server in placement.get(operator, ()):
        found &= servers.latency[server] > limits.d_min
        found[server] = False
    return np.asarray(found)


def deploy(query: Query, servers: Servers, limits: Limits, first: Mapping[str, int] | None = None) -> Deployed:
    """Deploy replicas by algorithm 5.

    Parameters
    ----------
    query, servers, limits
        Query, servers and conditions.
    first
        Servers of some or all operators in the first phase, such as those of a placement without replicas; the others
        are chosen.
    """
    return _phases(query, servers, limits, first or {}, None)


def deploy_randomly(
    query: Query, servers: Servers, limits: Limits, rng: np.random.Generator, first: Mapping[str, int] | None = None
) -> Deployed:
    """Deploy replicas at random servers that have room, in the same phases; with ``d_min`` if it is at least 0."""
    return _phases(query, servers, limits, first or {}, rng)


def _phases(
    query: Query, servers: Servers, limits: Limits, first: Mapping[str, int], rng: np.random.Generator | None
) -> Deployed:
    replicas: dict[str, list[int]] = {operator: [] for operator in query.order}
    costs: dict[str, list[float]] = {operator: [] for operator in query.order}
    for phase in range(limits.k_max):
        for operator in query.order:
            possible = candidates(query, servers, replicas, operator, limits)
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
    return Deployed(
        {operator: tuple(found) for operator, found in replicas.items()},
        {operator: tuple(found) for operator, found in costs.items()},
        {operator: limits.k_max - len(found) for operator, found in replicas.items() if len(found) < limits.k_max},
    )
