"""B3: rates that real peers bear, beside those that the load model allows."""

from __future__ import annotations

import numpy as np
import pytest

from synergy_experiments.chapters import measured_sets
from synergy_experiments.chapters.measured_sets import measured_set
from synergy_experiments.worlds.measured_feasibility import Forest, borne, forest


def test_every_operator_loads_by_the_stream_of_its_tree() -> None:
    trees = forest(2, 3, 0.03, np.random.default_rng(1))
    assert trees.inputs == (0, 0, 0, 1, 1, 1)
    assert [before < 0 for before in trees.upstream] == [True, False, False, True, False, False]
    assert all(
        trees.inputs[before] == trees.inputs[number] for number, before in enumerate(trees.upstream) if before >= 0
    )
    assert trees.load.sum(axis=1).tolist() == list(trees.costs)
    assert all(0.003 <= cost <= 0.03 for cost in trees.costs)


@pytest.mark.slow
def test_the_measured_share_is_compared_with_the_computed_one_at_the_same_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def as_computed(trees: Forest, placed: list[int], nodes: int, points: list[list[float]], *_: float) -> list[bool]:
        loads = [np.bincount(placed, trees.load @ np.array(rates), nodes).max() for rates in points]
        return [bool(load <= 1.0) for load in loads]

    monkeypatch.setattr(measured_sets, "borne", as_computed)
    given = (2, 4, 2, 0.03, 200, 1.0, 0.05, 0.1)
    found = measured_set("rod", *given, seed=1)
    assert found["measured"] == found["computed"] == pytest.approx(found["exact"], abs=0.1)
    assert found["agree"] == 1.0
    monkeypatch.setattr(measured_sets, "borne", lambda *given: [not each for each in as_computed(*given)])
    assert measured_set("rod", *given, seed=1)["agree"] == 0.0
    assert measured_set("llf", *given, seed=1)["computed"] <= found["computed"]


@pytest.mark.slow
def test_real_peers_bear_half_of_their_capacity_and_not_three_times_as_much() -> None:
    trees = Forest(costs=(0.02, 0.02), inputs=(0, 1), upstream=(-1, -1))
    assert borne(trees, [0, 1], 2, [[25.0, 25.0], [25.0, 150.0]], seconds=1.5, share=0.25) == [True, False]
