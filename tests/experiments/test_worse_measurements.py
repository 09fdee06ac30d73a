"""Statements about placements and availability: a measurement that is worse does not hold, and a good one does."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework.measurements import Measured, Point

SIZES = (10, 20, 30)
SETUPS: dict[str, dict[str, Any]] = {
    "A1": {"algorithms": ("synergy", "optimal"), "failed": 3, "peers": 20, "components": 9, "limits": "off",
           "shared": ()},
    "A4": {"degree": 2},
    "A5": {"algorithms": ("synergy", "random")},
    "R5": {"operators": (50, 100), "ratios": (0.0, 0.5, 1.0)},
}  # fmt: skip


def ratios(ours: float, random: float) -> list[Point]:
    """Ratios of failed replicas with one failure."""
    return [Point(1, "synergy", "ratio by failures", 0.0), Point(1, "synergy", "ratio of all by failures", ours),
            Point(1, "random", "ratio of all by failures", random)]  # fmt: skip


def delays(ours: float) -> list[Point]:
    return [
        Point(10, name, metric, value)
        for name, value in (("synergy", ours), ("random", 0.06))
        for metric in ("inter", "intra")
    ]


def improved(few: float, many: float) -> list[Point]:
    """Another's feasible set over ROD's, with few and with many operators."""
    return [
        *(Point(x, "rod", "ratio", 1.0) for x in (25, 200)),
        Point(25, "connected", "relative", few),
        Point(200, "connected", "relative", many),
    ]


def clustered(*gains: float) -> list[Point]:
    return [Point(ratio, "50 operators", "over rod", gain) for ratio, gain in zip((0.0, 0.5, 1.0), gains, strict=True)]


def gathered(last: float) -> list[Point]:
    return [Point(x, "synergy", "in turn", value) for x, value in zip(SIZES, (1.0, 2.0, last), strict=True)]


@pytest.mark.parametrize(
    ("claim", "name", "good", "worse"),
    [
        ("A1", "Synergy below Optimal without limits, degree 2",
         [Point(2, "optimal", "availability", 0.98), Point(2, "synergy", "availability", 0.98)],
         [Point(2, "optimal", "availability", 0.98), Point(2, "synergy", "availability", 0.9)]),
        ("A3", "Synergy is above random where any placement fails, against peers",
         [Point(10, "synergy", "by peers", 0.9), Point(10, "random", "by peers", 0.8)],
         [Point(10, "synergy", "by peers", 0.9), Point(10, "random", "by peers", 0.901)]),
        ("A4", "Synergy's ratio of failed replicas is 0.005 below random's, of all applications, by failures",
         ratios(0.04, 0.05), ratios(0.05, 0.05)),
        ("A5", "both delays are at most half of those of random", delays(0.02), delays(0.04)),
        ("A6", "time with 30 peers over that with 10, one peer after the other", gathered(3.03), gathered(6.0)),
        ("R2", "ROD's improvement over connected with 25 operators, over that with 200",
         improved(0.5, 0.5), improved(0.25, 0.06)),
        ("R5", "gain over ROD without clusters rises with every cost, 50 operators",
         clustered(1.0, 1.5, 2.0), clustered(1.0, 1.5, 1.4)),
    ],
)  # fmt: skip
def test_a_worse_measurement_does_not_hold(claim: str, name: str, good: list[Point], worse: list[Point]) -> None:
    found = []
    for points in (good, worse):
        checks = find([claim])[0].checks(Measured([points, points]), SETUPS.get(claim, {}))
        found.append(next(check.verdict for check in checks if check.name == name))
    assert found == ["holds", "does not hold"]
