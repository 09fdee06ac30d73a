"""Deployment of active replicas: algorithm 5 by hand, beside all deployments of small systems; spring relaxation."""

from __future__ import annotations

from itertools import combinations, product
from math import inf

import numpy as np
import pytest

from synergy_nb.algorithms.replication.deployment import ReplicaLimits, deploy, deploy_randomly
from synergy_nb.algorithms.replication.local_search import best_deployment, improve
from synergy_nb.algorithms.replication.spring_relaxation import coordinates, equilibrium, first_placement
from synergy_nb.algorithms.replication.system import Query, QueryEdge, Servers, network_cost

NAMES = ("s1", "s2", "s3", "s4", "s5")
FIVE = {(1, 2): 35, (1, 3): 60, (1, 4): 80, (1, 5): 45, (2, 3): 25, (2, 4): 70, (2, 5): 50, (3, 4): 40, (3, 5): 65,
        (4, 5): 30}  # fmt: skip
QUERY = Query(
    {"union": 0.4, "filter": 0.3},
    [
        QueryEdge("a", "union", 100.0),
        QueryEdge("b", "union", 60.0),
        QueryEdge("union", "filter", 160.0),
        QueryEdge("filter", "app", 80.0),
    ],
    {"a": 0, "b": 2, "app": 3},
)


def five(third: float = 0.5) -> Servers:
    latency = np.zeros((5, 5))
    for (one, other), value in FIVE.items():
        latency[one - 1, other - 1] = latency[other - 1, one - 1] = value
    return Servers(latency, np.array([1.0, 1.0, third, 1.0, 1.0]))


def named(servers: tuple[int, ...]) -> str:
    return " ".join(NAMES[server] for server in servers)


def optimum(query: Query, servers: Servers, limits: ReplicaLimits) -> float:
    """Least network cost of all deployments with all replicas."""
    count = len(servers.capacity)
    sets = [
        chosen
        for chosen in combinations(range(count), limits.k_max)
        if all(servers.latency[one, other] > limits.d_min for one, other in combinations(chosen, 2))
    ]
    best = inf
    for each in product(sets, repeat=len(query.loads)):
        placement = dict(zip(query.loads, each, strict=True))
        loads = servers.loads(query, placement)
        if (loads[loads > 0] < limits.alpha * servers.capacity[loads > 0]).all():
            best = min(best, network_cost(query, servers, placement))
    return best


@pytest.mark.parametrize(
    ("limits", "third", "union", "filtered", "costs", "total", "best"),
    [
        (ReplicaLimits(2, 30), 0.5, "s1 s2", "s1 s2", ((3600, 10600), (6400, 11200)), 31800, 31800),
        (ReplicaLimits(2, 45), 0.5, "s1 s3", "s1 s4", ((3600, 15600), (6400, 19200)), 44800, 37400),
        (ReplicaLimits(3, 30), 1.0, "s1 s2 s5", "s1 s2 s5", ((3600, 10600, 23600), (6400, 11200, 17600)), 73000, 73000),
    ],
    ids=["D1", "D2", "D3"],
)
def test_deployments_on_five_servers_equal_those_by_hand(
    limits: ReplicaLimits,
    third: float,
    union: str,
    filtered: str,
    costs: tuple[tuple[float, ...], ...],
    total: float,
    best: float,
) -> None:
    servers = five(third)
    found = deploy(QUERY, servers, limits)
    assert (named(found.replicas["union"]), named(found.replicas["filter"])) == (union, filtered)
    assert (found.costs["union"], found.costs["filter"]) == costs
    assert network_cost(QUERY, servers, found.replicas) == total == sum(map(sum, costs))
    assert found.missing == {}
    assert optimum(QUERY, servers, limits) == best
    assert network_cost(QUERY, servers, best_deployment(QUERY, servers, limits).replicas) == best


def test_where_no_server_qualifies_an_operator_has_fewer_replicas_and_is_named() -> None:
    found = deploy(QUERY, five(), ReplicaLimits(3, 60))
    assert found.missing == {"union": 1, "filter": 1}
    assert str(found).endswith("union lacks 1, filter lacks 1")
    for servers in found.replicas.values():
        assert all(five().latency[one, other] > 60 for one, other in combinations(servers, 2))
    assert str(deploy(QUERY, five(), ReplicaLimits(2, 30))) == "each operator has all of its replicas"


def test_a_load_must_be_less_than_the_share_of_capacity() -> None:
    servers = Servers(np.zeros((1, 1)), np.array([1.0]))
    for load, count in ((0.5, 0), (0.49, 1)):
        query = Query({"o": load}, [QueryEdge("a", "o", 1.0), QueryEdge("o", "app", 1.0)], {"a": 0, "app": 0})
        assert len(deploy(query, servers, ReplicaLimits(1, 0.0, alpha=0.5)).replicas["o"]) == count


def random_system(seed: int, operators: int = 3) -> tuple[Query, Servers]:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.0, 100.0, (5, 2))
    latency = np.linalg.norm(points[:, None] - points[None], axis=2)
    names = [f"o{number}" for number in range(operators)]
    edges = [QueryEdge("a", "o0", float(rng.uniform(20, 200))), QueryEdge("b", "o0", float(rng.uniform(20, 200)))]
    edges += [
        QueryEdge(one, other, float(rng.uniform(20, 200)))
        for one, other in zip(names, [*names[1:], "app"], strict=True)
    ]
    pinned = {name: int(rng.integers(5)) for name in ("a", "b", "app")}
    return Query(dict.fromkeys(names, 0.3), edges, pinned), Servers(latency, np.ones(5))


@pytest.mark.parametrize("seed", range(4))
def test_the_search_begins_at_the_placement_by_springs_too(seed: int) -> None:
    query, servers = random_system(seed)
    limits = ReplicaLimits(1, 0.0)
    by_springs = improve(query, servers, limits, deploy(query, servers, limits, first_placement(query, servers)))
    best = best_deployment(query, servers, limits, starts=0)
    assert network_cost(query, servers, best.replicas) <= network_cost(query, servers, by_springs.replicas)


@pytest.mark.slow
def test_the_local_search_reaches_the_optimum_of_small_systems_within_a_fiftieth() -> None:
    greedy, searched = [], []
    for seed in range(40):
        query, servers = random_system(seed)
        limits = ReplicaLimits(2, 20.0)
        found = deploy(query, servers, limits)
        best = optimum(query, servers, limits)
        if found.missing or best == inf:
            continue
        greedy.append(network_cost(query, servers, found.replicas) / best)
        better = best_deployment(query, servers, limits)
        assert not better.missing
        loads = servers.loads(query, better.replicas)
        assert (loads < 0.9).all()
        searched.append(network_cost(query, servers, better.replicas) / best)
        improved = improve(query, servers, limits, found)
        assert network_cost(query, servers, improved.replicas) <= network_cost(query, servers, found.replicas)
        assert network_cost(query, servers, improved.replicas) == pytest.approx(
            sum(improved.costs[name][at] for name in improved.costs for at in range(2))
            - sum(edge.rate * servers.latency[one, other] for edge in query.edges if edge.producer in improved.replicas
                  and edge.consumer in improved.replicas
                  for one in improved.replicas[edge.producer] for other in improved.replicas[edge.consumer])
        )  # fmt: skip
    assert len(searched) > 30
    assert max(greedy) > 1.1
    assert max(searched) <= 1.02


def test_random_deployments_respect_loads_and_never_use_a_server_twice() -> None:
    servers = five()
    seen = set()
    for seed in range(20):
        found = deploy_randomly(QUERY, servers, ReplicaLimits(3, -1.0), np.random.default_rng(seed))
        seen.add(found.replicas["union"])
        assert all(len(set(each)) == len(each) for each in found.replicas.values())
        assert (servers.loads(QUERY, found.replicas) < 0.9 * servers.capacity).all()
    assert len(seen) > 5


def test_springs_are_in_equilibrium() -> None:
    """Between springs of rates 3 and 1 an operator is at a quarter of the way; a chain divides its way by 1/rate."""
    line = np.arange(5.0)
    servers = Servers(10 * np.abs(line[:, None] - line[None]), np.ones(5))
    one = Query({"o": 0.1}, [QueryEdge("a", "o", 3.0), QueryEdge("o", "app", 1.0)], {"a": 0, "app": 4})
    assert first_placement(one, servers, dimensions=1) == {"o": 1}
    chain = Query(
        {"o": 0.1, "p": 0.1},
        [QueryEdge("a", "o", 2.0), QueryEdge("o", "p", 1.0), QueryEdge("p", "app", 2.0)],
        {"a": 0, "app": 4},
    )
    points = coordinates(servers.latency, 1)
    assert np.abs(points - points[0]).ravel() == pytest.approx([0, 10, 20, 30, 40])
    found = equilibrium(chain, points)
    assert [float(abs(found[name] - points[0])[0]) for name in "op"] == pytest.approx([10, 30])
    full = Servers(servers.latency, np.ones(5), load=np.array([0.0, 0.85, 0.0, 0.0, 0.0]))
    assert first_placement(one, full, dimensions=1)["o"] in (0, 2)


def test_algorithm_5_starts_from_a_placement() -> None:
    found = deploy(QUERY, five(), ReplicaLimits(2, 30), {"union": 1, "filter": 4})
    assert [found.replicas[name][0] for name in ("union", "filter")] == [1, 4]


def test_wrong_queries_and_servers_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="edges: 'x'; expected an operator"):
        Query({"o": 0.1}, [QueryEdge("x", "o", 1.0)], {})
    with pytest.raises(ValueError, match="a cycle through o, p; expected none"):
        deploy(
            Query({"o": 0.1, "p": 0.1}, [QueryEdge("o", "p", 1.0), QueryEdge("p", "o", 1.0)], {}),
            five(),
            ReplicaLimits(),
        )
    with pytest.raises(ValueError, match="expected a server with room"):
        first_placement(Query({"o": 2.0}, [QueryEdge("a", "o", 1.0)], {"a": 0}), five())
    with pytest.raises(ValueError, match="expected streams of positive rate"):
        first_placement(Query({"o": 0.1}, [], {}), five())
    with pytest.raises(ValueError, match="latency: shape"):
        Servers(np.zeros((2, 3)), np.ones(2))


def line(*capacities: float) -> Servers:
    """Servers on a line, 10 ms from one to the next."""
    at = np.arange(len(capacities)) * 10.0
    return Servers(np.abs(at[:, None] - at[None, :]), np.array(capacities))


def chained(first: float, second: float, **eligible: frozenset[int]) -> Query:
    """Two operators from a source at server 0 to an application at the same server."""
    edges = [QueryEdge("s", "one", 10.0), QueryEdge("one", "two", 100.0), QueryEdge("two", "app", 1.0)]
    return Query({"one": first, "two": second}, edges, {"s": 0, "app": 0}, eligible)


def test_an_operator_without_a_server_is_missing_and_the_others_get_theirs() -> None:
    query = chained(0.1, 0.1, one=frozenset())
    found = deploy(query, line(1.0, 1.0), ReplicaLimits(1, 0.0))
    assert found.replicas == {"one": (), "two": (0,)}
    assert found.missing == {"one": 1}
    assert deploy_randomly(query, line(1.0, 1.0), ReplicaLimits(1, 0.0), np.random.default_rng(1)).replicas["two"]


@pytest.mark.parametrize(("room", "together"), [(1.0, True), (0.75, False)])
def test_two_operators_move_to_one_server_only_if_it_has_room_for_both(room: float, together: bool) -> None:
    query, servers = chained(0.4, 0.4), line(0.3, room, 1.0)
    limits = ReplicaLimits(1, 0.0, 1.0)
    found = improve(query, servers, limits, deploy(query, servers, limits, {"one": 1, "two": 2})).replicas
    assert found == ({"one": (1,), "two": (1,)} if together else {"one": (2,), "two": (2,)})
    assert (servers.loads(query, found) < servers.capacity).all()


def test_distances_of_coordinates_are_the_latencies_where_these_are_those_of_points() -> None:
    at = np.array([0.0, 10.0, 30.0, 70.0])
    latency = np.abs(at[:, None] - at[None, :])
    found = coordinates(latency, 1)
    assert np.abs(found - found.T) == pytest.approx(latency)
    assert found.mean() == pytest.approx(0.0), "the middle of all servers is the origin"
