"""Random query graphs are as section 7.1 describes them: trees of one size, costs, and half of the selectivities."""

from __future__ import annotations

import pytest

from synergy_nb.algorithms.resilience import random_trees


@pytest.mark.parametrize("seed", range(3))
def test_drawn_trees_have_the_sizes_costs_and_selectivities_of_the_paper(seed: int) -> None:
    graph = random_trees(203, 4, seed)
    assert [each.name for each in graph] == [f"o{number}" for number in range(1, 201)], "50 operators for each stream"
    assert all(1e-4 <= each.cost <= 1e-3 for each in graph if isinstance(each.cost, float))
    ones = [each for each in graph if each.selectivity == 1.0]
    assert len(ones) == 100
    assert all(0.5 <= each.selectivity <= 1.0 for each in graph if isinstance(each.selectivity, float))
    for stream in range(4):
        tree = graph[stream * 50 : (stream + 1) * 50]
        names = {each.name for each in tree}
        inputs = [each.inputs[0] for each in tree]
        assert inputs[0] == f"I{stream + 1}"
        assert set(inputs[1:]) <= names
        children = [inputs.count(each.name) for each in tree]
        assert max(children) <= 3
        assert {1, 2, 3} <= set(children)
