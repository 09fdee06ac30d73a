"""Resilient placement of query plans on peers, and the explanation of the first overload."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from synergy_nb.algorithms.resilience import explain, feasible_ratio, load_model, node_load, place, rod
from synergy_nb.plan import Plan, plan, source
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import ColumnFacts, TraceFacts

EXAMPLE = [[14.0, 0.0], [6.0, 0.0], [0.0, 9.0], [0.0, 7.0]]
PEERS = {"v1": 1.0, "v2": 1.0}
ENDS = {"one": "v1", "two": "v1", "sink": "v2", "sink_2": "v2"}


def example() -> Plan:
    """Example 2, in milliseconds, between sources and sinks."""
    one = source("packets", id="one", rate=10, cost=0.0)
    two = source("packets", id="two", seed=1, rate=10, cost=0.0)
    first = one.delay("14 ms", id="o1").delay("6 ms", id="o2").sink("a", cost=0.0)
    return plan(first, two.delay("9 ms", id="o3").delay("7 ms", id="o4").sink("b", cost=0.0))


@pytest.mark.slow
def test_a_plan_is_placed_as_its_loads_are() -> None:
    found = place(example(), PEERS, ENDS)
    assert found.assignment == {**ENDS, "o1": found.assignment["o4"], "o2": found.assignment["o3"],
                                "o3": found.assignment["o3"], "o4": found.assignment["o4"]}  # fmt: skip
    assert found.assignment["o1"] != found.assignment["o3"]
    assert float(found.ratio) == pytest.approx(0.7559, abs=found.ratio.error + 1e-4)
    with_o1 = found.assignment["o1"]
    assert found.utilisation[with_o1] == pytest.approx(10 * (0.014 + 0.007))
    assert found.peers[found.explanation.node] == with_o1
    assert set(found.assignment) == set(example().operators)


def test_pinned_operators_stay_and_load_goes_elsewhere() -> None:
    one = source("packets", id="one", rate=10, at="v2")
    heavy = one.delay("50 ms", id="heavy", at="v2").delay("20 ms", id="light").sink("a")
    found = place(heavy, PEERS, {"sink": "v2"})
    assert found.assignment == {"one": "v2", "heavy": "v2", "light": "v1", "sink": "v2"}
    assert "overloaded" not in found.to_text()
    tight = place(heavy, {"v1": 1.0, "v2": 0.4}, {"sink": "v2"})
    assert tight.utilisation["v2"] > 1.0
    assert tight.assignment == found.assignment
    assert tight.utilisation["v2"] == pytest.approx(found.utilisation["v2"] / 0.4)
    assert "overloaded at the plan's rates: v2" in tight.to_text()


def test_communication_keeps_operators_together() -> None:
    apart = place(example(), PEERS)
    assert apart.assignment["o1"] != apart.assignment["o2"]
    costly = place(example(), PEERS, transfer=0.02)
    for route in example().routes:
        assert len({costly.assignment[operator] for operator in route}) == 1
    assert costly.explanation.communication == 0.0
    torn = place(example(), PEERS, ENDS, transfer=0.02)
    assert torn.explanation.communication > 0.3
    assert torn.ratio < costly.ratio < apart.ratio


def test_rates_that_are_known_and_bounds_are_heeded() -> None:
    query = example()
    only_one = np.stack([np.linspace(0.0, 95.0, 40), np.zeros(40)], axis=1)
    found = place(query, PEERS, ENDS, rates=only_one)
    whole = place(query, PEERS, ENDS)
    assert found.ratio >= feasible_ratio(
        whole.model.load, [1, 1], [found.peers.index(peer) for peer in whole.assignment.values()], rates=only_one
    )
    bounded = place(query, PEERS, ENDS, lower_bound={"one": 60.0})
    assert bounded.explanation.rates[0] >= 60.0
    greedy = place(query, PEERS, ENDS, refined=False)
    order = [greedy.peers.index(peer) for peer in greedy.assignment.values()]
    pinned = [greedy.peers.index(ENDS[name]) if name in ENDS else -1 for name in greedy.assignment]
    assert order == rod(greedy.model.load, [1, 1], pinned=pinned).tolist()


def test_joins_and_varying_operators_are_placed() -> None:
    one = source("packets", id="one", rate=40)
    two = source("packets", id="two", seed=1, rate=40)
    kept = one.filter("bytes > 100", cost="2 ms", selectivity=0.5)
    joined = kept.join(two, on=["source"], within="2 s", cost="3 ms", selectivity=1.0)
    query = joined.delay("4 ms").sink("all")
    found = place(query, {"v1": 0.5, "v2": 1.0, "v3": 0.5}, {"sink": "v1"}, variable=["filter"])
    assert found.model.variables == ("one", "two", "join")
    assert found.assignment["sink"] == "v1"
    assert "join" in found.to_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacities": {}}, "capacities: none; expected at least one peer"),
        ({"capacities": {"v1": 0.0}}, "capacities: 0.0 of 'v1'; expected a number of cores above 0"),
        ({"pinned": {"o11": "v1"}}, "pinned: 'o11'; expected an operator of the plan; did you mean 'o1'?"),
        ({"pinned": {"o1": "v9"}}, "pinned: 'o1' to: 'v9'; expected a peer that has a capacity"),
        ({"lower_bound": {"o1": 3.0}}, "lower_bound: 'o1'; expected a source of the plan"),
        ({"lower_bound": {"one": 5e3}}, "lower_bound: takes 50 of the capacity of all nodes"),
        ({"lower_bound": {"one": -1.0}}, "lower_bound: -1 at"),
        ({"variable": ["o9"]}, "variable: 'o9'; expected an operator of the plan"),
        ({"rates": [[1.0]]}, "rates: .* expected a column for each of 2 variables"),
    ],
)
def test_plans_that_cannot_be_placed_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place(**{"plan": example(), "capacities": PEERS, **arguments})


# -- where it fails first ----------------------------------------------------------------------------------------------


def test_the_bottleneck_is_full_where_it_is_said_to_be_and_nobody_before() -> None:
    rng = np.random.default_rng(3)
    for seed in range(12):
        load, capacity = rng.random((12, 3)), rng.uniform(0.5, 2.0, 4)
        placed = rng.integers(0, 4, 12)
        bound = rng.dirichlet(np.ones(4))[:3] * 0.2 * capacity.sum() / load.sum(axis=0) * (seed % 2)
        found = explain(load, capacity, placed, bound)
        nodes = node_load(load, placed, 4)
        used = nodes @ found.rates / capacity
        if found.distance < 0.0:
            assert used[found.node] > 1.0
            assert "overloaded at the lower bound already" in found.to_text()
            continue
        assert used.max() == pytest.approx(used[found.node]) == pytest.approx(1.0)
        np.testing.assert_allclose(bound + found.direction, found.rates)
        assert found.utilisation == pytest.approx((load @ found.rates).sum() / capacity.sum())
        assert sum(share for _, share in found.operators) == pytest.approx(1.0)
        assert [placed[number] for number, _ in found.operators] == [found.node] * len(found.operators)
        assert found.distance == found.distances.min() <= 1.0 + 1e-9
        for each in found.alone:
            rates = bound.copy()
            rates[each.variable] = each.rate
            alone = nodes @ rates / capacity
            assert alone.argmax() == each.node
            assert alone.max() == pytest.approx(1.0)
            assert (load @ rates).sum() / capacity.sum() == pytest.approx(each.utilisation)


def test_idle_placements_have_no_bottleneck_to_speak_of() -> None:
    found = explain([[0.0], [0.0]], [1.0, 1.0], [0, 1])
    assert not found.operators
    assert not found.alone
    assert "nothing" in found.to_text()


@pytest.mark.slow
def test_placing_a_plan_of_one_source_does_without_scipys_statistics() -> None:
    script = """
import sys
from synergy_nb import source
from synergy_nb.algorithms.resilience import place
place(source("packets", rate=10).filter("bytes > 100").filter("bytes > 200").sink(), {"a": 1.0, "b": 1.0})
assert "scipy.stats" not in sys.modules, "it takes a fifth of the time of the first placement"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=200)


@pytest.mark.parametrize(("found", "share"), [(0.05, 0.05), (0.9, 0.9), (None, 0.5)])
def test_loads_follow_from_what_the_profile_of_a_trace_has_measured(found: float | None, share: float) -> None:
    """Without a profile half of the tuples are assumed to pass, and a wrong profile gives a wrong load."""
    trace = source("trace", path="log.csv", format="csv", columns={"status": "int"}, speed=60, rate=10, cost=0.0)
    query = trace.filter("status = 404", cost="2 ms").delay("6 ms").sink("out", cost=0.0)
    if found is not None:
        column = ColumnFacts(0.0, {"404": found}, 1.0 - found)
        query = query.sized({"source": SourceSize(facts=TraceFacts("log", 1.0, (), {"status": column}, ()))})
    assert load_model(query).load.ravel() == pytest.approx([0.0, 0.002, 0.006 * share, 0.0])


def profiled(**shares: float | None) -> Plan:
    """Two traces, and the share of the rows of each that its filter passes by its profile; None: it has none."""
    branches, sizes = [], {}
    for name, share in shares.items():
        file = {"path": f"{name}.csv", "format": "csv", "columns": {"status": "int"}}
        trace = source("trace", **file, speed=60, rate=10, cost=0.0, id=name, at="v1")
        few = trace.filter("status = 404", cost="2 ms", id=f"few_{name}")
        branches.append(few.delay("8 ms", id=f"a_{name}").delay("6 ms", id=f"b_{name}").sink(name, cost=0.0, at="v1"))
        if share is not None:
            column = ColumnFacts(0.0, {"404": share}, 1.0 - share)
            sizes[name] = SourceSize(facts=TraceFacts(name, 1.0, (), {"status": column}, ()))
    return plan(*branches).sized(sizes)


@pytest.mark.slow
def test_a_placement_by_the_right_profile_withstands_most_and_by_a_wrong_one_least() -> None:
    """Of the rates that two peers can process at best, 86 % by the right profile, 66 % by none, 38 % by a wrong one."""
    true = load_model(profiled(one=0.9, two=0.1))

    def withstood(**shares: float | None) -> float:
        found = place(profiled(**shares), PEERS).assignment
        return float(feasible_ratio(true.load, [1.0, 1.0], [list(PEERS).index(found[each]) for each in true.operators]))

    right, without, wrong = withstood(one=0.9, two=0.1), withstood(one=None, two=None), withstood(one=0.1, two=0.9)
    assert right > without + 0.1
    assert without > wrong + 0.1
