"""H4 and H5: bandwidth by hand, costs of random and of least-cost deployment, and their verdicts."""

from __future__ import annotations

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.wide_area_replicas import LEAST, RANDOM, SEARCHED, bandwidth, query_of
from synergy_experiments.framework import runner
from synergy_experiments.framework.parameters import Value

SMALL: dict[str, Value] = {"clusters": 2, "servers": 20, "network": "transit-stub", "d_min": 5.0, "degrees": (1, 2, 3)}


@pytest.mark.parametrize(("k", "expected"), [(2, 29 / 9), (3, 20 / 3), (4, 34 / 3), (5, 155 / 9)])
def test_bandwidth_grows_as_the_shape_says(k: int, expected: float) -> None:
    """The share f of the bandwidth between operators is 11/18, and k² f + k (1 - f) the bandwidth of degree k."""
    query = query_of((0, 1), 30)

    def of(degree: int) -> float:
        return bandwidth(query, dict.fromkeys(query.loads, range(degree)))

    assert of(k) / of(1) == pytest.approx(expected, rel=1e-12)


def test_least_cost_is_cheaper_than_random_and_verdicts_are_complete() -> None:
    claims = find(["H4", "H5"])
    results = list(runner.reproduce([(claim, SMALL) for claim in claims]))
    costs = {(row.x, row.algorithm): row.value for result in results for row in result.rows if row.metric == "cost"}
    for k in (2, 3):
        assert costs[k, SEARCHED] <= costs[k, LEAST] < costs[k, RANDOM]
    for name in (RANDOM, LEAST, SEARCHED):
        assert costs[1, name] == pytest.approx(1.0)
    verdicts = {check.name: check.verdict for result in results for check in result.checks}
    assert verdicts["least cost is cheaper than random"] == "holds"
    assert verdicts[f"bandwidth at degree 3, {RANDOM} (fitted shape)"] == "holds"
    assert verdicts["latency at degree 3 below 1 s"] == "not comparable"
