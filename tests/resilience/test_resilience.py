"""Resilient placement: the paper's worked examples, ROD beside a literal transcription, and sizes of feasible sets."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.algorithms.resilience import (
    Arcs,
    QueryOperator,
    Ratio,
    feasible_ratio,
    linearised,
    load_model,
    mmad_bound,
    node_load,
    plane_distance,
    plane_distances,
    random_trees,
    rod,
    sphere_bound,
    weights,
)
from synergy_nb.plan import plan, source

Array = npt.NDArray[np.float64]

EXAMPLE = np.array([[14.0, 0.0], [6.0, 0.0], [0.0, 9.0], [0.0, 7.0]])
PLANS = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0]}


def problem(seed: int, most_inputs: int = 6) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Loads, capacities and some placement; every third one is ROD's."""
    rng = np.random.default_rng(seed)
    inputs, nodes, operators = int(rng.integers(1, most_inputs + 1)), int(rng.integers(1, 9)), int(rng.integers(1, 30))
    load = rng.random((operators, inputs)) * (rng.random((operators, inputs)) < 0.6)
    load[0] += 0.1
    capacity = rng.uniform(0.3, 2.0, nodes)
    return load, capacity, rod(load, capacity) if seed % 3 == 0 else rng.integers(0, nodes, operators)


# -- load models -------------------------------------------------------------------------------------------------------


def test_example_1_loads_follow_costs_selectivities_and_rates() -> None:
    c1, c2, c3, c4, s1, s3 = 2.0, 3.0, 5.0, 7.0, 0.5, 0.25
    model = linearised(
        [
            QueryOperator("o1", ("I1",), c1, s1),
            QueryOperator("o2", ("o1",), c2),
            QueryOperator("o3", ("I2",), c3, s3),
            QueryOperator("o4", ("o3",), c4),
        ]
    )
    assert (model.operators, model.variables) == (("o1", "o2", "o3", "o4"), ("I1", "I2"))
    assert model.load.tolist() == [[c1, 0.0], [c2 * s1, 0.0], [0.0, c3], [0.0, c4 * s3]]
    assert model.arcs.ends.tolist() == [[0, 1], [2, 3]]


def test_example_2_has_the_tables_matrices() -> None:
    model = linearised(
        [
            QueryOperator("o1", ("I1",), 14.0),
            QueryOperator("o2", ("o1",), 6.0),
            QueryOperator("o3", ("I2",), 9.0, 0.5),
            QueryOperator("o4", ("o3",), 14.0),
        ]
    )
    assert model.load.tolist() == EXAMPLE.tolist()
    loads = {name: node_load(EXAMPLE, placed, 2).tolist() for name, placed in PLANS.items()}
    assert loads == {"a": [[20, 0], [0, 16]], "b": [[14, 9], [6, 7]], "c": [[14, 7], [6, 9]]}


def test_example_3_is_cut_into_four_variables() -> None:
    """o1 of variable selectivity, o5 a join: r_3 is what o1 gives, r_4 what o5 gives, and its load is c_5 / s_5 r_4."""
    c5, s5, window = 5.0, 0.2, 2.0
    model = linearised(
        [
            QueryOperator("o1", ("I1",), 1.0, 0.5, varies=True),
            QueryOperator("o2", ("o1",), 2.0, 0.5),
            QueryOperator("o3", ("I2",), 3.0, 0.5),
            QueryOperator("o4", ("o3",), 4.0, 0.8),
            QueryOperator("o5", ("o2", "o4"), c5, s5, window=window),
            QueryOperator("o6", ("o5",), 6.0),
        ]
    )
    assert model.variables == ("I1", "I2", "o1", "o5")
    assert model.inputs == 2
    expected = [[1, 0, 0, 0], [0, 0, 2, 0], [0, 3, 0, 0], [0, 2, 0, 0], [0, 0, 0, c5 / s5], [0, 0, 0, 6]]
    np.testing.assert_allclose(model.load, np.array(expected))
    left, right = 0.5 * 0.5 * 10.0, 0.5 * 0.8 * 20.0
    np.testing.assert_allclose(model.rates([[10.0, 20.0]]), [[10.0, 20.0, 5.0, s5 * window * left * right]])


def test_there_are_as_few_variables_as_possible() -> None:
    one = QueryOperator("one", ("a",), 1.0, 0.5, varies=True)
    two = QueryOperator("two", ("b",), 1.0, 0.5, varies=True)
    free = QueryOperator("union", ("one", "two"), 0.0)
    work = QueryOperator("work", ("union",), 3.0)
    together = linearised([one, two, free, work])
    assert together.variables == ("a", "b", "one")  # which stands for both: only their sum is worked on
    np.testing.assert_allclose(together.rates([[4.0, 6.0]]), [[4.0, 6.0, 2.0 + 3.0]])
    assert linearised([one, two, free]).variables == ("a", "b")  # nothing depends on what they give
    apart = linearised([one, two, QueryOperator("union", ("one", "two"), (1.0, 2.0)), work])
    assert apart.variables == ("a", "b", "one", "two")
    paid = linearised([one, two, free, work], transfer=0.1)
    assert paid.variables == ("a", "b", "one", "two")  # they cross nodes one by one
    first = QueryOperator("first", ("a", "b"), 2.0, 0.5, window=1.0)
    second = QueryOperator("second", ("b", "a"), 3.0, 0.1, window=4.0)
    joins = linearised([first, second, QueryOperator("after", ("second",), 1.0)])
    assert joins.variables == ("a", "b", "first")
    np.testing.assert_allclose(joins.load[:, 2], [2.0 / 0.5, 3.0 * 4.0 / 0.5, 0.1 * 4.0 / 0.5])
    wild = linearised([QueryOperator("join", ("a", "b"), 2.0, 0.5, varies=True, window=3.0),
                       QueryOperator("after", ("join",), 1.0)])  # fmt: skip
    assert wild.variables == ("a", "b", "pairs of join", "join")
    np.testing.assert_allclose(wild.rates([[2.0, 5.0]])[0, 2:], [10.0, 0.5 * 3.0 * 10.0])


def test_cones_of_three_streams_on_two_sums_need_two_variables() -> None:
    streams = [QueryOperator(name, ("a",), 0.0, 1.0, varies=True) for name in ("x", "y", "z")]
    sums = [QueryOperator(f"{name}z", (name, "z"), 0.0) for name in ("x", "y")]
    works = [QueryOperator(f"work {name}", (name,), 2.0) for name in ("xz", "yz")]
    model = linearised([*streams, *sums, *works])
    assert model.variables == ("a", "x", "y")
    np.testing.assert_allclose(model.load @ model.rates([[3.0]])[0], [0, 0, 0, 0, 0, 12, 12])


def test_loads_of_a_plan_are_those_that_it_states() -> None:
    readings = source(
        "python", name="readings", columns={"time": "time", "user": "str", "x": "float"}, rate=50, id="in"
    )
    orders = source("python", name="orders", columns={"time": "time", "user": "str", "y": "float"}, rate=20, id="other")
    kept = readings.filter("x > 1", cost="3 ms", selectivity=0.4)
    joined = kept.join(orders, on=["user"], within="5 s", cost="1 ms", selectivity=0.5)
    query = joined.aggregate(by=["user"], window="10 s", n="count(*)", cost="2 ms", selectivity=0.1).sink()
    for model in (load_model(query), load_model(query, variable=["filter"])):
        stated = model.rates([[50.0, 20.0]])[0]
        np.testing.assert_allclose(model.load @ stated, [query.load(name) for name in model.operators])
        assert model.operators == tuple(query.operators)
    assert load_model(query).variables == ("in", "other", "join")
    assert load_model(query, variable=["filter"]).variables == ("in", "other", "join")  # only the join reads it
    doubled = load_model(query)
    work = dict(zip(doubled.operators, doubled.load @ doubled.rates([[100.0, 40.0]])[0], strict=True))
    assert work["join"] == pytest.approx(4.0 * query.load("join"))  # pairs
    assert work["filter"] == pytest.approx(2.0 * query.load("filter"))
    both = plan(kept.delay("1 ms").sink("a"), kept.delay("2 ms").sink("b"))
    assert load_model(both, variable=["filter"]).variables == ("in", "filter")
    ends = load_model(both, transfer=1e-4).arcs
    assert ends.load.sum(axis=0) == pytest.approx([1e-4 * (1.0 + 4 * 0.4)])


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([], "operators: none; expected at least one"),
        (
            [QueryOperator("a", ("b",), 1.0), QueryOperator("b", ("x",), 1.0)],
            "'a', inputs: 'b'; expected operators before",
        ),
        (
            [QueryOperator("a", ("x",), 1.0), QueryOperator("a", ("x",), 1.0)],
            "'a'; expected a name that none before has",
        ),
    ],
)
def test_graphs_that_cannot_be_are_one_clear_error(operators: list[QueryOperator], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linearised(operators)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cost": -1.0}, "operator 'o', cost: -1.0; expected finite numbers from 0"),
        ({"selectivity": math.nan}, "operator 'o', selectivity: nan; expected finite numbers from 0"),
        ({"cost": (1.0, 2.0)}, r"operator 'o', cost: \(1.0, 2.0\); expected one, or one for each input"),
        ({"inputs": ()}, "operator 'o', inputs: none; expected at least one stream"),
        ({"window": 1.0}, "expected two for a join"),
    ],
)
def test_an_operator_that_cannot_be_is_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QueryOperator(**{"name": "o", "inputs": ("a",), "cost": 1.0, **arguments})


def test_trees_are_those_of_section_7_1() -> None:
    graph = random_trees(200, 5, seed=3)
    assert graph == random_trees(200, 5, seed=3) != random_trees(200, 5, seed=4)
    costs = np.array([operator.cost for operator in graph])
    selectivities = np.array([operator.selectivity for operator in graph])
    assert 1e-4 <= costs.min() < 2e-4
    assert 9e-4 < costs.max() <= 1e-3
    assert (selectivities == 1.0).sum() == 100
    assert selectivities.min() >= 0.5
    model = linearised(graph)
    assert ((model.load > 0.0).sum(axis=0) == 40).all()
    assert ((model.load > 0.0).sum(axis=1) == 1).all()
    children = np.bincount(model.arcs.ends[:, 0], minlength=200)
    assert set(children) == {0, 1, 2, 3}
    assert len(model.arcs.ends) == 200 - 5
    with pytest.raises(ValueError, match="inputs: 5 of 4 operators; expected"):
        random_trees(4, 5, seed=1)


# -- feasible sets -----------------------------------------------------------------------------------------------------


def test_plans_of_example_2_have_the_known_sizes() -> None:
    known = {"a": 0.5, "b": 0.6349, "c": 0.7559}
    for name, placed in PLANS.items():
        exact = feasible_ratio(EXAMPLE, [3.0, 3.0], placed, method="exact")
        assert float(exact) == pytest.approx(known[name], abs=5e-5)
        sampled = feasible_ratio(EXAMPLE, [3.0, 3.0], placed)
        assert abs(sampled - exact) <= sampled.error < 1e-3


@pytest.mark.parametrize("seed", range(40))
def test_sampled_and_exact_sizes_agree(seed: int) -> None:
    load, capacity, placed = problem(seed)
    rng = np.random.default_rng(seed)
    bound = None
    if seed % 4 == 0:
        bound = rng.dirichlet(np.ones(load.shape[1] + 1))[:-1] * 0.5 * capacity.sum() / load.sum(axis=0)
    exact = feasible_ratio(load, capacity, placed, bound, "exact")
    sampled = feasible_ratio(load, capacity, placed, bound)
    assert abs(sampled - exact) <= sampled.error + exact.error
    assert 0.0 <= exact <= 1.0 + exact.error
    for lower in (mmad_bound, sphere_bound):
        assert lower(load, capacity, placed, bound) <= exact + exact.error + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_those_that_plain_monte_carlo_finds(seed: int) -> None:
    """Points of the ideal set beyond the bound, each looked at by itself."""
    load, capacity, placed = problem(seed + 100, most_inputs=3)
    rng = np.random.default_rng(seed)
    inputs, points = load.shape[1], 40_000
    unit = capacity.sum() / load.sum(axis=0)
    bound = rng.dirichlet(np.ones(inputs + 1))[:inputs] * 0.3 * (seed % 2)
    rates = (bound + (1.0 - bound.sum()) * rng.dirichlet(np.ones(inputs + 1), points)[:, :inputs]) * unit
    loads = rates @ node_load(load, placed, len(capacity)).T
    share = float((loads <= capacity).all(axis=1).mean())
    found = feasible_ratio(load, capacity, placed, bound * unit)
    assert share == pytest.approx(found, abs=5.0 * math.sqrt(0.25 / points))
    weighed = feasible_ratio(load, capacity, placed, rates=rates)
    assert weighed == pytest.approx(share)
    assert weighed.error < 0.01


def test_degenerate_polytopes_are_measured_too() -> None:
    """Small whole numbers, where many planes meet in a corner, and where Qhull gives up at first."""
    for seed in (72, 2, 226):
        rng = np.random.default_rng(seed)
        load = rng.integers(0, 3, (36, 6)).astype(float)
        placed = rng.integers(0, 21, 36)
        exact = feasible_ratio(load, np.ones(21), placed, method="exact")
        sampled = feasible_ratio(load, np.ones(21), placed)
        assert abs(sampled - exact) <= sampled.error + exact.error


def test_even_loads_reach_the_ideal_set_and_idle_streams_bound_nothing() -> None:
    even = np.tile(np.eye(4), (3, 1))
    placed = np.repeat([0, 1, 2], 4)
    for method in ("sample", "exact"):
        assert float(feasible_ratio(even, np.ones(3), placed, method=method)) == pytest.approx(1.0)
    assert plane_distance(even, np.ones(3), placed) == pytest.approx(1.0 / 2.0)
    idle = np.hstack([EXAMPLE, np.zeros((4, 6))])
    assert feasible_ratio(idle, [1, 1], PLANS["c"], method="exact") == feasible_ratio(
        EXAMPLE, [1, 1], PLANS["c"], method="exact"
    )
    nothing = np.zeros((2, 1))
    assert feasible_ratio(nothing, [1.0], [0, 0]) == feasible_ratio(nothing, [1.0], [0, 0], method="exact") == 1.0
    assert mmad_bound(EXAMPLE, [1.0], [0] * 4) == pytest.approx(1.0)


def test_a_node_overloaded_at_the_lower_bound_leaves_no_feasible_set() -> None:
    bound = [0.6 * 2 / 20, 0.0]
    assert (
        feasible_ratio(EXAMPLE, [1, 1], PLANS["a"], bound)
        == feasible_ratio(EXAMPLE, [1, 1], PLANS["a"], bound, "exact")
        == 0.0
    )
    assert mmad_bound(EXAMPLE, [1, 1], PLANS["a"], bound) == sphere_bound(EXAMPLE, [1, 1], PLANS["a"], bound) == 0.0
    assert plane_distances(EXAMPLE, [1, 1], PLANS["a"], bound).tolist() == pytest.approx([-0.1, 0.5])


def test_communication_takes_from_the_feasible_set() -> None:
    arcs = Arcs(np.array([[0, 1], [2, 3]]), np.array([[2.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(node_load(EXAMPLE, PLANS["c"], 2, arcs), [[16.0, 8.0], [8.0, 10.0]])
    np.testing.assert_allclose(node_load(EXAMPLE, PLANS["a"], 2, arcs), [[20.0, 0.0], [0.0, 16.0]])
    assert feasible_ratio(EXAMPLE, [1, 1], PLANS["c"], arcs=arcs) < feasible_ratio(EXAMPLE, [1, 1], PLANS["c"])


def test_a_size_is_a_number_and_survives_encoding() -> None:
    sampled = feasible_ratio(EXAMPLE, [1, 1], PLANS["b"])
    copied = pickle.loads(pickle.dumps(sampled))
    assert isinstance(copied, Ratio)
    assert (copied, copied.error) == (sampled, sampled.error)
    assert sampled == feasible_ratio(EXAMPLE, [1, 1], PLANS["b"]) != feasible_ratio(EXAMPLE, [1, 1], PLANS["b"], seed=1)


# -- ROD ---------------------------------------------------------------------------------------------------------------


def literal_rod(load: Array, capacity: Array, bound: Array | None = None, *, normalise: bool = False) -> list[int]:
    """Figure 10, line by line; of nodes that lose, that with "the maximum candidate plane distance" (section 5.2).

    With ``normalise``, operators are sorted by the norms of normalised loads (section 3.3).
    """
    operators, inputs = load.shape
    total = [sum(load[j, k] for j in range(operators)) for k in range(inputs)]
    whole = sum(capacity)
    place = [0.0 if bound is None else bound[k] * total[k] / whole for k in range(inputs)]
    unit = total if normalise else [1.0] * inputs
    order = sorted(range(operators), key=lambda j: -math.sqrt(sum((load[j, k] / unit[k]) ** 2 for k in range(inputs))))
    nodes = [[0.0] * inputs for _ in capacity]
    placed = [-1] * operators
    for j in order:
        goodness: list[tuple[bool, float]] = []
        for i, held in enumerate(nodes):
            w = [(held[k] + load[j, k]) / total[k] / (capacity[i] / whole) for k in range(inputs)]
            norm = math.sqrt(sum(each**2 for each in w))
            distance = (1.0 - sum(w[k] * place[k] for k in range(inputs))) / norm if norm else math.inf
            goodness.append((all(each <= 1.0 + 1e-9 for each in w), distance))
        placed[j] = max(range(len(nodes)), key=lambda i: (*goodness[i], -i))
        for k in range(inputs):
            nodes[placed[j]][k] += load[j, k]
    return placed


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_rod_equals_its_pseudocode(seed: int) -> None:
    load, capacity, _ = problem(seed)
    assert rod(load, capacity, order="figure").tolist() == literal_rod(load, capacity)


def test_the_order_of_the_pseudocode_is_another_one() -> None:
    load = np.array([[4.0, 0.0], [0.0, 3.0], [4.0, 0.0], [0.0, 0.5], [4.0, 0.0]])
    assert literal_rod(load, np.ones(2)) != literal_rod(load, np.ones(2), normalise=True)
    with pytest.raises(ValueError, match="order: 'text'; expected one of normalised, figure"):
        rod(load, np.ones(2), order="text")  # type: ignore[arg-type]


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_rod_sorts_by_normalised_loads(seed: int) -> None:
    load, capacity, _ = problem(seed)
    assert rod(load, capacity).tolist() == literal_rod(load, capacity, normalise=True)
    bound = np.random.default_rng(seed).random(load.shape[1]) * 0.9 * capacity.sum() / load.sum(axis=0) / load.shape[1]
    assert rod(load, capacity, bound).tolist() == literal_rod(load, capacity, bound, normalise=True)


def test_rod_finds_plan_c_and_heeds_capacities() -> None:
    assert rod(EXAMPLE, [1, 1]).tolist() == PLANS["c"]
    many = np.tile(np.eye(2), (30, 1))
    placed = rod(many, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(weights(many, [1.0, 2.0, 3.0], placed), np.ones((3, 2)), atol=1e-9)


def test_units_of_streams_do_not_matter() -> None:
    load = linearised(random_trees(30, 3, seed=5)).load
    assert rod(load, np.ones(4)).tolist() == rod(load * [1e-3, 1.0, 1e6], np.ones(4) * 7.0).tolist()


def test_a_known_lower_bound_helps_beyond_it() -> None:
    gains = []
    for seed in range(12):
        load, rng = linearised(random_trees(40, 3, seed)).load, np.random.default_rng(seed)
        bound = rng.dirichlet(np.ones(4))[:3] * 6.0 / load.sum(axis=0)
        aware, unaware = (
            feasible_ratio(load, np.ones(6), rod(load, np.ones(6), each), bound) for each in (bound, None)
        )
        gains.append(aware - unaware)
    assert np.mean(gains) > 0.05


def test_groups_stay_together_and_pinned_operators_at_their_nodes() -> None:
    load = linearised(random_trees(24, 2, seed=2)).load
    groups = np.arange(24) // 3
    placed = rod(load, np.ones(4), groups=groups)
    assert all(len(set(placed[groups == label])) == 1 for label in groups)
    merged = np.add.reduceat(load, np.arange(0, 24, 3))
    assert placed[::3].tolist() == rod(merged, np.ones(4)).tolist()
    pinned = np.full(24, -1)
    pinned[:8] = 3
    held = rod(load, np.ones(4), pinned=pinned)
    assert (held[:8] == 3).all()
    assert (held[8:] != 3).sum() > 12  # what is there counts
    assert (rod(load, np.ones(4), groups=groups, pinned=pinned)[:9] == 3).all()


def test_among_harmless_nodes_the_one_with_the_neighbours_may_be_taken() -> None:
    model = linearised(random_trees(120, 2, seed=8))
    far, near = (rod(model.load, np.ones(4), tie=tie, arcs=model.arcs) for tie in ("distance", "cut"))
    cut = [int((placed[model.arcs.ends[:, 0]] != placed[model.arcs.ends[:, 1]]).sum()) for placed in (far, near)]
    assert cut[1] < 0.8 * cut[0]
    ratios = [feasible_ratio(model.load, np.ones(4), placed) for placed in (far, near)]
    assert ratios[1] > 0.8 * ratios[0]
    fine = np.vstack([[[0.26, 0.0], [0.0, 0.1]], np.tile([0.01, 0.0], (74, 1)), np.tile([0.0, 0.01], (90, 1))])
    beside = Arcs(np.array([[0, 1]]), np.zeros((1, 2)))
    assert rod(fine, [1, 1])[:2].tolist() == [0, 1]
    assert rod(fine, [1, 1], tie="cut", arcs=beside)[:2].tolist() == [0, 0]  # though the other is empty


# -- errors of arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load": [[1.0, -2.0]]}, r"load: -2 at \[0, 1\]; expected finite numbers from 0, operators x input streams"),
        ({"load": [[1.0, math.inf]]}, r"load: inf at \[0, 1\]; expected finite numbers"),
        ({"load": [1.0, 2.0]}, r"load: an array of shape \(2,\) and type float64; expected"),
        ({"load": np.zeros((0, 2))}, r"load: an array of shape \(0, 2\)"),
        ({"load": [["a"]]}, r"load: \[\['a'\]\]; expected finite numbers from 0"),
        ({"capacity": [1.0, 0.0]}, "capacity: 0 of node 1; expected a number above 0"),
        ({"capacity": [[1.0]]}, r"capacity: an array of shape \(1, 1\)"),
        ({"capacity": []}, r"capacity: an array of shape \(0,\)"),
        ({"lower_bound": [0.1]}, r"lower_bound: an array of shape \(1,\) .* expected one rate for each of 2 variables"),
        ({"lower_bound": [-0.1, 0.0]}, r"lower_bound: -0.1 at \[0\]; expected finite numbers from 0"),
        ({"lower_bound": [9.0, 9.0]}, "lower_bound: takes 18 of the capacity of all nodes together; expected less"),
        ({"groups": [0]}, r"groups: an array of shape \(1,\); expected a label for each of 2 operators"),
        ({"tie": "random"}, "tie: 'random'; expected one of distance, cut"),
        ({"tie": "cut"}, "arcs: None; expected the streams between operators, for tie 'cut'"),
        ({"pinned": [0, 5]}, "pinned: 5 of operator 1; expected 2 whole numbers from -1 to 1"),
        ({"pinned": [0, 1], "groups": [4, 4]}, "pinned: 0 of operator 0, and 1 of another of its group"),
        ({"arcs": Arcs(np.array([[0, 2]]), np.zeros((1, 2)))}, "arcs: operators 0 to 2; expected 0 to 1"),
        ({"arcs": Arcs(np.array([[0, 1]]), np.zeros((1, 3)))}, "arcs: .* expected two operators and 2 coefficients"),
        ({"arcs": Arcs(np.array([[0, 1]]), -np.ones((1, 2)))}, "arcs: a coefficient below 0"),
    ],
)
def test_wrong_input_of_rod_is_one_error_each(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"load": [[1.0, 0.0], [0.0, 1.0]], "capacity": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        rod(**{**good, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"assignment": [0]}, r"assignment: an array of shape \(1,\) .* expected 2 whole numbers from 0 to 1"),
        ({"assignment": [0, 2]}, "assignment: 2 of operator 1; expected"),
        ({"assignment": [0.5, 1.0]}, "assignment: an array .* float64; expected"),
        ({"method": "guess"}, "method: 'guess'; expected 'sample' or 'exact'"),
        ({"load": np.ones((2, 7)), "method": "exact"}, "load: 7 input streams; expected at most 6 for method 'exact'"),
        ({"rates": [[1.0]]}, "rates: .* expected a column for each of 2 variables"),
        ({"rates": [[50.0, 50.0]]}, "rates: every point exceeds the capacity of all nodes"),
    ],
)
def test_wrong_input_of_sizes_is_one_error_each(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"load": [[1.0, 0.0], [0.0, 1.0]], "capacity": [1.0, 1.0], "assignment": [0, 1]}
    with pytest.raises(ValueError, match=message):
        feasible_ratio(**{**good, **arguments})
    assert feasible_ratio(np.ones((2, 7)), [1, 1], [0, 1]) == pytest.approx(1.0)
