"""R6 on Dask workers: aggregates on their planned peers, waiting work, and overload as a result."""

from __future__ import annotations

import time

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework import parameters
from synergy_experiments.worlds.monitored_peers import measured_live, monitored, pinned_plan
from synergy_experiments.worlds.packet_monitoring import AGGREGATES
from synergy_nb.plan import Plan, source


def placed(number: int) -> dict[str, str]:
    """Two peers in turn."""
    names = [f"{value} by {key} {window} {part}" for part in range(number) for window, key, value in AGGREGATES]
    return {name: f"peer-{1 + position % 2}" for position, name in enumerate(names)}


def query(cost: float, seconds: float = 2.0) -> Plan:
    packets = source("packets", rate=30.0, duration=f"{seconds} s", seed=1, id="packets", at="peer-1")
    return pinned_plan(0, packets, [cost] * len(AGGREGATES), placed(1))


def test_every_aggregate_is_where_its_placement_wants_it_and_costs_what_is_stated() -> None:
    plan = query(0.002)
    where = placed(1)
    for name, peer in where.items():
        assert plan.operators[name].at == plan.operators[f"{name} cost"].at == peer
        assert plan.operators[f"{name} cost"].cost == 0.002
    assert sum(operator.kind == "sink" for operator in plan.operators.values()) == 16


def test_the_cells_on_dask_take_their_own_rates() -> None:
    (claim,) = find(["R6"])
    setup = {**parameters.at_scale(claim.parameters, "quick"), "driver": "dask", "dask_rate": 33.0}
    cells = list(claim.cells(setup))
    assert [cell.arguments[0] for cell in cells] == [1.0, 2.0, 3.0, 3.5, 4.0]
    assert all(cell.function is monitored and cell.alone and cell.arguments[2] == 33.0 for cell in cells)


@pytest.mark.slow
def test_overload_is_reported_and_crashes_nobody() -> None:
    """What waits is counted in bytes, so a busy machine changes the delays, and not who is overloaded."""
    began = time.monotonic()
    light = measured_live([query(0.0002)], 2, 2.0, 1e6, seed=1)  # all of its packets together are 0.2 s of work
    assert light["survives"] == 1.0
    assert light["waiting"] <= 0.2
    assert light["queued"] <= 1e6
    assert 0.0 < light["delay"] <= light["greatest delay"] < time.monotonic() - began
    heavy = measured_live([query(0.02)], 2, 2.0, 20e3, seed=1)  # five times what two peers have
    assert heavy["survives"] == 0.0
    assert heavy["queued"] > 20e3


@pytest.mark.slow
def test_placements_are_compared_on_the_same_packets() -> None:
    points = monitored(2.0, "", 20.0, 20.0, 2.0, 1, 2, 0.1, 64e3, ("rod", "llf"), 1)
    assert {point.algorithm for point in points} == {"rod", "llf"}
    assert {point.x for point in points} == {2.0}
    found = {(point.algorithm, point.metric): point.value for point in points}
    assert found["rod", "delay"] > 0.0
