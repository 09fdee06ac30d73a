"""H4 and H5: bandwidth by hand, costs of random and of least-cost deployment, and their verdicts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.wide_area_replicas import (
    APART,
    BEST,
    LEAST,
    QUERIES,
    RANDOM,
    Deployment,
    bandwidth,
    query_of,
)
from synergy_experiments.framework import runner
from synergy_experiments.framework.claim import Check
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Value
from synergy_nb.algorithms.replication.system import Query, QueryEdge

READ = "5 ms, 2 applications"
SMALL: dict[str, Value] = {"clusters": 1, "servers": 20, "network": "transit-stub", "degrees": (1, 2, 3)}
SMALL |= {"d_min": (5.0,), "queries": ("2 applications",)}


@pytest.mark.parametrize(("k", "expected"), [(2, 29 / 9), (3, 20 / 3), (4, 34 / 3), (5, 155 / 9)])
def test_bandwidth_grows_as_the_shape_says(k: int, expected: float) -> None:
    """The share f of the bandwidth between operators is 11/18, and k² f + k (1 - f) the bandwidth of degree k."""
    query = query_of((0, 1), 30)

    def of(degree: int) -> float:
        return bandwidth(query, dict.fromkeys(query.loads, range(degree)))

    assert of(k) / of(1) == pytest.approx(expected, rel=1e-12)


def chain_of(operators: int) -> Query:
    """A chain of operators of equal rates."""
    names = [f"o{number}" for number in range(operators)]
    return Query(
        dict.fromkeys(names, 0.1),
        [QueryEdge(one, other, 1.0) for one, other in pairwise(["a", *names, "app"])],
        {"a": 0, "app": 1},
    )


def joined(joins: int, rate: float, *, shared: bool = True) -> Query:
    """Joins with a filter and an application each, over two unions of rate 1, which they share or not."""
    edges: list[QueryEdge] = []
    pinned = {"a": 0, "b": 0}
    for number in range(joins):
        unions = ("ua", "ub") if shared else (f"ua{number}", f"ub{number}")
        if shared is False or not number:
            edges += [QueryEdge(each, union, 1.0) for each, union in zip("ab", unions, strict=True)]
        edges += [QueryEdge(union, f"j{number}", 1.0) for union in unions]
        edges += [QueryEdge(f"j{number}", f"f{number}", rate), QueryEdge(f"f{number}", f"app{number}", rate)]
        pinned[f"app{number}"] = 1
    loads = {edge.consumer: 0.1 for edge in edges if not edge.consumer.startswith("app")}
    return Query(loads, edges, pinned)


@pytest.mark.parametrize(
    ("query", "f", "expected"),
    [
        (joined(2, 2.0, shared=False), 1 / 2, (3.0, 6.0, 10.0, 15.0)),
        (chain_of(4), 3 / 5, (3.2, 6.6, 11.2, 17.0)),
        (joined(2, 1.0), 3 / 5, (3.2, 6.6, 11.2, 17.0)),
        (joined(2, 0.75), 11 / 18, (29 / 9, 20 / 3, 34 / 3, 155 / 9)),
        (joined(3, 5 / 3), 11 / 18, (29 / 9, 20 / 3, 34 / 3, 155 / 9)),
        (chain_of(5), 2 / 3, (10 / 3, 7.0, 12.0, 55 / 3)),
    ],
    ids=["nothing shared", "chain of 4", "shared", "three quarters", "3 joins", "chain of 5"],
)
def test_bandwidth_of_each_shape_follows_from_the_share_between_operators(
    query: Query, f: float, expected: tuple[float, ...]
) -> None:
    alone = bandwidth(query, dict.fromkeys(query.loads, range(1)))
    for k, wanted in enumerate(expected, 2):
        found = bandwidth(query, dict.fromkeys(query.loads, range(k))) / alone
        assert found == pytest.approx(wanted, rel=1e-12) == pytest.approx(f * k * k + (1 - f) * k, rel=1e-12)


@pytest.mark.parametrize(("joins", "applications"), QUERIES.values())
@pytest.mark.parametrize(("k", "expected"), [(2, 29 / 9), (5, 155 / 9)])
def test_all_readings_of_the_query_have_the_papers_bandwidth(
    joins: int, applications: int, k: int, expected: float
) -> None:
    query = query_of(range(applications), 30, joins)
    alone, replicated = (bandwidth(query, dict.fromkeys(query.loads, range(degree))) for degree in (1, k))
    assert replicated / alone == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_least_cost_is_cheaper_than_random_and_verdicts_are_complete() -> None:
    claims = find(["H4", "H5"])
    results = list(runner.reproduce([(claim, SMALL) for claim in claims if claim.id == "H4"]))
    results += runner.reproduce([(claim, SMALL | {"periods": 40}) for claim in claims if claim.id == "H5"])
    costs = {
        (row.x, row.algorithm): row.value for each in results for row in each.rows if row.metric == f"cost ({READ})"
    }
    for k in (2, 3):
        assert costs[k, LEAST] < costs[k, RANDOM]
    for name in (RANDOM, APART, LEAST):
        assert costs[1, name] == pytest.approx(1.0)
    verdicts = {check.name: check.verdict for each in results for check in each.checks}
    assert verdicts[f"bandwidth at degree 3, {RANDOM}, within 1 %"] == "holds"


def judged(points: list[Point]) -> dict[str, Check]:
    """Verdicts of H5 from twice the same points."""
    setup: dict[str, Value] = {"d_min": (15.0, 30.0), "queries": ("2 applications",), "network": "transit-stub"}
    return {check.name: check for check in find(["H5"])[0].checks(Measured([points, points]), setup)}


def test_one_reading_under_which_random_is_cheaper_decides_the_order() -> None:
    readings = [str(Deployment("2 applications", d_min, BEST)) for d_min in (15.0, 30.0)]
    cheap, dear = (
        [Point(2, LEAST, f"of random ({reading})", share)] for reading, share in zip(readings, (0.5, 1.1), strict=True)
    )
    name = "least cost is cheaper than random, by reading"
    assert judged(cheap)[name].verdict == "holds"
    assert judged(cheap + dear)[name].verdict == "does not hold"
    assert judged(cheap + dear)[name].ours == f"at 1 of 2; not at {readings[1]}, degree 2"


def test_later_results_at_least_cost_decide_the_guarantee() -> None:
    def points(late: float) -> list[Point]:
        return [Point(2, LEAST, "late (15 ms)", late), Point(2, RANDOM, "late (15 ms)", 0.02)]

    (name,) = (name for name in judged([]) if name.startswith("fewer results later"))
    assert [judged(points(late))[name].verdict for late in (0.01, 0.03)] == ["holds", "does not hold"]


def test_one_late_result_at_degree_3_is_not_always_below() -> None:
    name = "no result is later than 1 s at degree 3 (modelled delays), by d_min"
    found = [judged([Point(3, LEAST, "late (15 ms)", late)])[name].verdict for late in (0.0, 0.001)]
    assert found == ["holds", "does not hold"]
