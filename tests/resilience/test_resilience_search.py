"""Searches for placements: refinement and the optimum against slow implementations, clusters, baselines."""

from __future__ import annotations

import importlib
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from synergy_nb.algorithms.resilience import (
    Arcs,
    cluster,
    clustered_rod,
    connected,
    correlation_based,
    feasible_ratio,
    largest_load_first,
    linearised,
    max_rate,
    node_load,
    optimum,
    plane_distance,
    random_placement,
    random_trees,
    refine,
    rod,
    weights,
)
from synergy_nb.algorithms.resilience import _baselines as baselines
from synergy_nb.algorithms.resilience import _refinement as refinement
from synergy_nb.algorithms.resilience._refinement import POINTS
from synergy_nb.algorithms.resilience.feasible import directions
from tests.quick_cases import quick_first

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def slow_value(load: Array, capacity: Array, placed: Ints, bound: Array, arcs: Arcs | None) -> float:
    """Feasible over ideal on the sample that refinement has, one direction after the other."""
    total = load.sum(axis=0)
    matrix = node_load(load, placed, len(capacity), arcs) / total / (capacity / capacity.sum())[:, None]
    place = bound * total / capacity.sum()
    values = []
    for u in directions(load.shape[1], POINTS)[0]:
        reach = min((1.0 - row @ place) / (row @ u) for row in matrix if row @ u > 0.0)
        values.append(max(reach / (1.0 - place.sum()), 0.0) ** load.shape[1])
    return float(np.mean(values))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_move_and_no_swap_improves_a_refined_placement(seed: int) -> None:
    """Nor does it when communication costs something, there is a lower bound, and capacities differ."""
    rng = np.random.default_rng(seed)
    model = linearised(random_trees(10, 2, rng), transfer=1e-4 * (seed % 2))
    load, capacity = model.load, rng.uniform(0.5, 1.5, 3)
    bound = (seed % 3 == 0) * np.full(2, 0.15) * capacity.sum() / load.sum(axis=0)
    pinned = np.full(10, -1)
    pinned[0] = 1
    start = rod(load, capacity, bound, pinned=pinned)
    found = refine(load, capacity, start, bound, arcs=model.arcs, pinned=pinned, kicks=0)
    assert found[0] == 1
    value = slow_value(load, capacity, found, bound, model.arcs)
    assert value >= slow_value(load, capacity, start, bound, model.arcs)
    others = []
    for unit, node in product(range(1, 10), range(3)):
        others.append(found.copy())
        others[-1][unit] = node
    for one, other in combinations(range(1, 10), 2):
        others.append(found.copy())
        others[-1][[one, other]] = found[[other, one]]
    assert max(slow_value(load, capacity, each, bound, model.arcs) for each in others) <= value + 2e-9


@pytest.mark.slow
def test_refinement_is_verified_on_a_fresh_sample_and_never_worse() -> None:
    for seed in range(8):
        load, capacity = linearised(random_trees(20, 4, seed)).load, np.ones(4)
        start = rod(load, capacity)
        found = refine(load, capacity, start, seed=seed)
        fresh = [feasible_ratio(load, capacity, each, seed=seed + 1) for each in (start, found)]
        assert fresh[1] >= fresh[0]
        assert found.tolist() == refine(load, capacity, start, seed=seed).tolist()
    perfect = np.repeat([0, 1], 2)
    assert refine(np.tile(np.eye(2), (2, 1)), [1, 1], perfect).tolist() == perfect.tolist()


@pytest.mark.slow
def test_a_refinement_does_not_depend_on_the_last_digits_of_its_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """These differ between kinds of processors, and many placements are equally good."""
    load, capacity = linearised(random_trees(25, 5, 1)).load, np.ones(10)
    start = rod(load, capacity)
    found = refine(load, capacity, start).tolist()
    for seed in range(4):
        last = 1.0 + np.finfo(float).eps * np.random.default_rng(seed).integers(-1, 2, (POINTS, 5))
        monkeypatch.setattr(
            refinement, "directions", lambda *given, last=last, **named: directions(*given, **named) * last
        )
        assert refine(load, capacity, start).tolist() == found


def test_refinement_begins_where_nothing_is_feasible() -> None:
    load = np.array([[1.0], [1.0], [1.0], [1.0]])
    bound = [1.9 / 4.0]
    assert feasible_ratio(load, [1.0, 1.0], [0, 0, 0, 0], bound) == 0.0
    found = refine(load, [1.0, 1.0], [0, 0, 0, 0], bound, kicks=0)
    assert sorted(found.tolist()) == [0, 0, 1, 1]


def test_operators_of_a_group_stay_together_in_a_refinement() -> None:
    load = linearised(random_trees(24, 2, seed=4)).load
    groups = np.arange(24) // 2
    start = rod(load, np.ones(4), groups=groups)
    found = refine(load, np.ones(4), start, groups=groups)
    assert (found[::2] == found[1::2]).all()
    assert feasible_ratio(load, np.ones(4), found) > feasible_ratio(load, np.ones(4), start)


@pytest.mark.slow
def test_rates_that_are_known_weigh_in_place_of_volume() -> None:
    """Two streams that are never busy together may share a node; over all rates they should not."""
    rng = np.random.default_rng(5)
    load = np.eye(2)[[0, 0, 1, 1]]
    busy = rng.uniform(0.0, 0.95, 400)
    rates = np.stack([busy * (np.arange(400) % 4 < 2), busy * (np.arange(400) % 4 >= 2)], axis=1)
    together = [0, 0, 0, 0]
    assert feasible_ratio(load, [1.9, 0.1], together, rates=rates) == 1.0
    found = refine(load, [1.9, 0.1], rod(load, [1.9, 0.1]), rates=rates)
    assert feasible_ratio(load, [1.9, 0.1], found, rates=rates) == 1.0
    model = linearised(random_trees(40, 3, seed=6))
    trace = rng.gamma(2.0, 1.0, (2000, 3)) * 0.3 * 5.0 / model.load.sum(axis=0)
    start = rod(model.load, np.ones(5))
    weighed, whole = (refine(model.load, np.ones(5), start, rates=each) for each in (trace, None))
    by_trace = [feasible_ratio(model.load, np.ones(5), each, rates=trace) for each in (weighed, whole, start)]
    assert by_trace[0] >= max(by_trace[1:]) - 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pinned": [1, -1]}, "assignment: 0 of operator 0; expected 1, the node to which it is pinned"),
        ({"groups": [5, 5]}, "assignment: 0 of operator 0; expected 1"),
        ({"rates": [[1.0]]}, "rates: 1 point; expected at least 2"),
    ],
)
def test_a_start_that_is_not_in_keeping_is_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        refine([[1.0], [1.0]], [1, 1], [0, 1], **arguments)


# -- the optimum -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("seed", quick_first(range(6), 2))
def test_the_optimum_is_the_best_of_all_placements(seed: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        monkeypatch.setattr(importlib.import_module("synergy_nb.algorithms.resilience._best_placement"), "FEW", 0)
    rng = np.random.default_rng(seed)
    load = linearised(random_trees(6, 2, rng)).load
    capacity = np.ones(3) if seed % 2 else rng.uniform(0.5, 1.5, 3)
    pinned = np.array([2, *[-1] * 5]) if seed == 2 else None
    bound = np.full(2, 0.1) * capacity.sum() / load.sum(axis=0) if seed > 3 else None
    found = feasible_ratio(load, capacity, optimum(load, capacity, bound, pinned=pinned), bound, "exact")
    all_of_them = [
        feasible_ratio(load, capacity, each, bound, "exact")
        for each in product(range(3), repeat=6)
        if pinned is None or each[0] == 2
    ]
    assert found == pytest.approx(max(all_of_them), abs=1e-7)


def test_few_placements_need_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes up to a minute on a busy machine, and an explorer has four operators on two nodes."""
    module = importlib.import_module("synergy_nb.algorithms.resilience._best_placement")
    for name in ("best_placements", "refine"):
        monkeypatch.setattr(module, name, None)
    assert optimum([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1]).tolist() == [0, 1, 1, 0]


def test_fourteen_operators_on_two_nodes_are_enumerated() -> None:
    load = linearised(random_trees(14, 2, seed=11)).load
    best = optimum(load, [1, 1])
    size = feasible_ratio(load, [1, 1], best, method="exact")
    for seed in range(30):
        assert feasible_ratio(load, [1, 1], random_placement(14, 2, seed), method="exact") <= size + 1e-7
    with pytest.raises(ValueError, match="load: 40 operators on 2 nodes; expected at most 28 operators"):
        optimum(np.ones((40, 1)), [1, 1])


@pytest.mark.slow
def test_rod_and_refinement_come_near_the_optimum() -> None:
    """The 20 first of the graphs of R1, for which see the claims."""
    ratios: dict[str, list[float]] = {"rod": [], "refined": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        streams = int(rng.integers(2, 6))
        load = linearised(random_trees(int(rng.integers(streams, 21)), streams, rng)).load
        greedy = rod(load, [1, 1])
        sizes = [
            feasible_ratio(load, [1, 1], each, method="exact")
            for each in (optimum(load, [1, 1]), greedy, refine(load, [1, 1], greedy))
        ]
        ratios["rod"].append(sizes[1] / sizes[0])
        ratios["refined"].append(sizes[2] / sizes[0])
    assert np.mean(ratios["rod"]) > 0.93
    assert np.mean(ratios["refined"]) > 0.99
    assert min(ratios["refined"]) > 0.9
    assert max(ratios["refined"]) <= 1.0 + 1e-7


# -- clusters ----------------------------------------------------------------------------------------------------------


def chain(*costs: float) -> Arcs:
    return Arcs(np.array([[number, number + 1] for number in range(len(costs))]), np.array(costs)[:, None])


def test_ends_of_the_costliest_streams_are_merged_first() -> None:
    load = np.full((4, 1), 2.0)
    arcs = chain(1.0, 5.0, 3.0)
    ratio = {threshold: cluster(load, [1, 1], arcs, threshold, 2.0).tolist() for threshold in (3.0, 2.5, 1.0, 0.5)}
    # once 1 and 2 are one, its load is twice as large, but 3's is not: the ratio of the last stays 1.5
    assert ratio == {3.0: [0, 1, 2, 3], 2.5: [0, 1, 1, 3], 1.0: [0, 1, 1, 1], 0.5: [0, 0, 0, 0]}
    assert cluster(load, [1, 1], arcs, 0.5, 1.0).tolist() == [0, 1, 1, 3]  # no cluster of more than an even share
    light = np.array([[3.0], [3.0], [1.0], [1.0]])
    assert cluster(light, [1, 1], chain(9.0, 0.0, 3.0), 1.0, 1.5, "weight").tolist() == [0, 0, 2, 2]
    assert cluster(light, [1, 1], chain(9.0, 9.0, 3.0), 1.0, 1.0, "weight").tolist() == [0, 1, 2, 2]
    assert cluster(light, [1, 1], chain(9.0, 9.0, 3.0), 1.0, 1.0, "ratio").tolist() == [0, 1, 1, 3]
    apart = cluster(load, [1, 1], chain(9.0, 9.0, 9.0), 0.1, 9.0, pinned=[0, -1, -1, 1])
    assert apart[0] != apart[3]
    with pytest.raises(ValueError, match="method: 'least'; expected one of ratio, weight"):
        cluster(load, [1, 1], arcs, 1.0, 1.0, "least")  # type: ignore[arg-type]


@pytest.mark.slow
def test_clusters_with_the_greatest_plane_distance_are_placed() -> None:
    gains = []
    for seed in range(4):
        model = linearised(random_trees(40, 2, seed), transfer=3e-4)
        found = clustered_rod(model.load, np.ones(4), model.arcs)
        assert found.distance == plane_distance(model.load, np.ones(4), found.assignment, arcs=model.arcs)
        assert len(set(found.groups)) < 40
        assert all(len(set(found.assignment[found.groups == label])) == 1 for label in found.groups)
        plain = rod(model.load, np.ones(4))
        assert found.distance >= plane_distance(model.load, np.ones(4), plain, arcs=model.arcs)
        sizes = [feasible_ratio(model.load, np.ones(4), each, arcs=model.arcs) for each in (found.assignment, plain)]
        gains.append(sizes[0] / sizes[1])
    assert np.mean(gains) > 1.3
    free = linearised(random_trees(20, 2, seed=1))
    assert clustered_rod(free.load, np.ones(4), free.arcs).assignment.tolist() == rod(free.load, np.ones(4)).tolist()


# -- placements compared -----------------------------------------------------------------------------------------------


def test_random_has_equal_counts_and_a_seed() -> None:
    placed = random_placement(23, 5, seed=4)
    assert sorted(np.bincount(placed)) == [4, 4, 5, 5, 5]
    assert placed.tolist() == random_placement(23, 5, seed=4).tolist() != random_placement(23, 5, seed=5).tolist()


def test_load_balancing_follows_the_given_rates() -> None:
    load = np.eye(2)[[0, 1, 0, 1]]
    rates = [[4.0, 1.0], [0.0, 1.0]]  # 2 and 1 on average, 4 and 1 at most
    assert largest_load_first(load, [1, 1], rates).tolist() == [0, 0, 1, 1]
    lopsided = largest_load_first(load, [3.0, 1.0], rates)
    assert np.bincount(lopsided, weights=[2.0, 1.0, 2.0, 1.0]).tolist() == [4.0, 2.0]
    uneven = [[4.0, 0.0], [0.0, 1.0]]  # the first is heavier on average, and still more at most
    heavy = np.array([[1.0, 0.0], [0.0, 3.5], [0.0, 0.5]])
    assert max_rate(heavy, [1, 1], uneven).tolist() == [0, 1, 1]
    assert largest_load_first(heavy, [1, 1], uneven).tolist() == [0, 1, 1]
    steady = [[2.0, 1.0], [0.0, 1.0]]
    assert max_rate(np.eye(2)[[0, 1, 1]], [1, 1], steady).tolist() == [0, 1, 1]
    assert largest_load_first(np.eye(2)[[0, 1, 1]], [1, 1], steady).tolist() == [0, 1, 0]


def test_connected_keeps_neighbours_together_up_to_an_even_share() -> None:
    model = linearised(random_trees(40, 4, seed=3))
    rates = np.ones((1, 4)) / model.load.sum(axis=0)
    placed = connected(model.load, np.ones(4), rates, model.arcs)
    spread = largest_load_first(model.load, np.ones(4), rates)
    ends = model.arcs.ends
    assert (placed[ends[:, 0]] != placed[ends[:, 1]]).sum() < 0.4 * (spread[ends[:, 0]] != spread[ends[:, 1]]).sum()
    loads = np.bincount(placed, weights=model.load @ rates[0])
    assert loads.max() < 1.3 * loads.mean()


def test_correlated_loads_are_separated() -> None:
    """Two streams that take turns: one operator of each on every node."""
    load = np.eye(2)[[0, 0, 0, 1, 1, 1]]
    turns = np.tile([[2.0, 0.0], [0.0, 2.0]], (10, 1))
    placed = correlation_based(load, np.ones(3), turns)
    assert sorted(placed[:3]) == sorted(placed[3:]) == [0, 1, 2]
    model = linearised(random_trees(60, 3, seed=9))
    series = np.random.default_rng(1).random((50, 3)) / model.load.sum(axis=0)
    balanced = np.bincount(correlation_based(model.load, np.ones(5), series), weights=model.load @ series.mean(axis=0))
    assert balanced.max() < (1.0 + baselines.SLACK) * balanced.mean() * 1.1


def test_every_algorithm_uses_unequal_capacities() -> None:
    model = linearised(random_trees(100, 2, seed=7))
    capacity, rates = np.array([1.0, 3.0]), np.random.default_rng(2).random((20, 2)) / model.load.sum(axis=0)
    for placed in (
        rod(model.load, capacity),
        largest_load_first(model.load, capacity, rates),
        max_rate(model.load, capacity, rates),
        correlation_based(model.load, capacity, rates),
    ):
        loads = np.bincount(placed, weights=model.load @ rates.mean(axis=0))
        assert loads[1] / loads[0] == pytest.approx(3.0, rel=0.3)
    assert weights(model.load, capacity, rod(model.load, capacity)).max() < 1.1


def test_operators_that_are_pinned_are_not_searched_whatever_their_node() -> None:
    for node in (0, 1):
        load = [[1.0, 0.0]] * 40 + [[0.0, 5.0], [0.0, 5.0]]
        found = optimum(load, [1.0, 1.0], pinned=[node] * 40 + [-1, -1])
        assert found.tolist() == [node] * 40 + [1 - node, 1 - node]
