"""The alternatives of a plan: what was measured of its streams counts where the plan states nothing itself."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.control.peer import Peer
from synergy_nb.lifecycle.requests.alternatives import Alternatives
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan, source


def counted(**stated: Any) -> Plan:
    packets = source("packets", id="packets", speed=1).filter("bytes > 9", id="large", **stated)
    return packets.aggregate("link", "1 day", n="count(*)", id="sums").sink("all")


def measured(plan: Plan, *rates: tuple[float, float, float]) -> dict[str, tuple[Entry, ...]]:
    """Directory entries of peers that execute the filter: rate, cost and selectivity that each has measured."""
    name = plan.stream_name("large")
    numbers = [dict(zip(("rate", "cost", "selectivity"), each, strict=True)) for each in rates]
    return {name: tuple(Entry(name, f"p{at}", "stream", {**each}, 60.0) for at, each in enumerate(numbers))}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, (4e-3, 0.25)),
        ({"cost": "1 ms"}, (1e-3, 0.25)),
        ({"selectivity": 0.5}, (4e-3, 0.5)),
        ({"cost": "1 ms", "selectivity": 0.5}, (1e-3, 0.5)),
    ],
)
def test_what_the_plan_states_counts_and_what_was_measured_counts_otherwise(
    stated: dict[str, Any], expected: tuple[float, float]
) -> None:
    plan = counted(**stated)
    found = measured(plan, (5.0, 1.0, 1.0), (50.0, 4e-3, 0.25), (6.0, 1.0, 1.0))
    finder = Alternatives(Peer("a", 1), lambda _: False, "live", lambda: None, backtracks=False)
    (one,) = finder.of("r", plan, found)
    large = one.plan.operators["large"]
    assert (one.plan.processing_time("large"), large.selectivity) == expected, "of the peer with the highest rate"
