"""Local search from the deployments of algorithm 5, which is greedy: on five servers it is up to twice the optimum.

A step moves all replicas of one operator to the best set of servers while the others stay, or moves one replica of each
of two neighbouring operators. The costs of the replicas of one operator do not depend on each other; only distances and
loads restrict which servers go together. So branch and bound finds the best set. The greedy algorithm is mostly
wrong in its first choice. So the search starts from several servers of the first operator, from the greedy choice, and
from the first placement by spring relaxation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from synergy_nb.algorithms.replication.deployment import Deployed, ReplicaLimits, deploy, eligible_servers
from synergy_nb.algorithms.replication.spring_relaxation import first_placement
from synergy_nb.algorithms.replication.system import Placement, Query, Servers, network_cost, stream_costs

__all__ = ["SEARCH_STARTS", "best_deployment", "improve"]

SEARCH_STARTS: Final = 8  # number of servers of the first operator from which the search begins
_GAIN = 1e-9  # least relative gain of a step


def best_deployment(query: Query, servers: Servers, limits: ReplicaLimits, starts: int | None = None) -> Deployed:
    """Return the best deployment that the search finds: first with the fewest missing replicas, then of least cost.

    ``starts``: number of servers of the first operator to start from, in the order of their costs; all by default.
    """
    first = query.order[0]
    order = np.argsort(stream_costs(query, servers, {}, first), kind="stable")[:starts]
    possible = eligible_servers(query, servers, {}, first, limits)
    start = [deploy(query, servers, limits)]
    start += [deploy(query, servers, limits, {first: int(server)}) for server in order if possible[server]]
    with contextlib.suppress(ValueError):  # there is no equilibrium: no server has room, or a stream has no rate
        start.append(deploy(query, servers, limits, first_placement(query, servers, limits.alpha)))
    found = [improve(query, servers, limits, each) for each in start]
    return min(found, key=lambda each: (sum(each.missing.values()), network_cost(query, servers, each.replicas)))


def improve(query: Query, servers: Servers, limits: ReplicaLimits, start: Deployed) -> Deployed:
    """Take steps from a deployment until none reduces the network cost; no operator has fewer replicas than before."""
    placement = {operator: list(found) for operator, found in start.replicas.items()}
    cost = network_cost(query, servers, placement)
    while True:
        for operator in query.order:
            placement[operator] = _best_set(query, servers, limits, placement, operator)
        for edge in query.edges:
            if edge.producer in placement and edge.consumer in placement:
                _move_two(query, servers, limits, placement, edge.producer, edge.consumer)
        reached = network_cost(query, servers, placement)
        if reached >= cost * (1.0 - _GAIN):
            break
        cost = reached
    costs = {
        operator: tuple(float(each) for each in stream_costs(query, servers, placement, operator)[list(found)])
        for operator, found in placement.items()
    }
    return Deployed({operator: tuple(found) for operator, found in placement.items()}, costs, start.missing)


def _best_set(query: Query, servers: Servers, limits: ReplicaLimits, placement: Placement, operator: str) -> list[int]:
    """Return the servers of least cost for all replicas of an operator, or the present ones if they are as good."""
    present = list(placement[operator])
    rest = {name: found for name, found in placement.items() if name != operator}
    costs = stream_costs(query, servers, rest, operator)
    possible = np.flatnonzero(eligible_servers(query, servers, rest, operator, limits))
    order = [int(each) for each in possible[np.argsort(costs[possible], kind="stable")]]
    best, least = present, float(costs[present].sum()) * (1.0 - _GAIN)
    count = len(present)

    def extend(chosen: list[int], spent: float, start: int) -> None:
        """Add servers from number ``start`` on to the chosen ones; note the cheapest complete set."""
        nonlocal best, least
        if len(chosen) == count:
            best, least = chosen, spent
            return
        left = count - len(chosen)
        for at in range(start, len(order) - left + 1):
            if spent + left * costs[order[at]] >= least:  # later servers cost at least as much
                return
            if all(servers.latency[order[at], other] > limits.d_min for other in chosen):
                extend([*chosen, order[at]], spent + float(costs[order[at]]), at + 1)

    extend([], 0.0, 0)
    return best


def _move_two(
    query: Query, servers: Servers, limits: ReplicaLimits, placement: dict[str, list[int]], one: str, other: str
) -> None:
    """Move one replica of each of two neighbouring operators to the best pair of servers, for each pair of replicas."""
    rate = sum(edge.rate for edge in query.edges if {edge.producer, edge.consumer} == {one, other})
    for at in range(len(placement[one])):
        for to in range(len(placement[other])):
            rest = dict(placement)
            rest[one] = _without(placement[one], at)
            rest[other] = _without(placement[other], to)
            firsts = np.where(
                eligible_servers(query, servers, rest, one, limits), stream_costs(query, servers, rest, one), np.inf
            )
            seconds = np.where(
                eligible_servers(query, servers, rest, other, limits), stream_costs(query, servers, rest, other), np.inf
            )
            total = firsts[:, None] + seconds[None, :] + rate * servers.latency
            room = limits.alpha * servers.capacity - servers.loads(query, rest)
            both = query.loads[one] + query.loads[other]
            np.fill_diagonal(total, np.where(both < room, np.diagonal(total), np.inf))
            best = np.unravel_index(int(np.argmin(total)), total.shape)
            if total[best] < total[placement[one][at], placement[other][to]] * (1.0 - _GAIN):
                placement[one][at], placement[other][to] = int(best[0]), int(best[1])


def _without(servers: Sequence[int], at: int) -> list[int]:
    return [*servers[:at], *servers[at + 1 :]]
