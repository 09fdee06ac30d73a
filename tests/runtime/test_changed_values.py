"""Costs and paces that users have changed hold wherever an operator is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from synergy_nb import Simulation, source
from synergy_nb.runtime.data.changed_values import MOST, ChangedValues
from synergy_nb.runtime.data.sources import Stream
from synergy_nb.traces import Skipped
from tests.two_hosts import Pair, items, numbers, play, trace

on_loop = play  # how the tests that are coroutines run

HOURLY = 3600.0  # seconds between two items


def slow(_params: Mapping[str, Any], _skipped: Skipped) -> tuple[Stream, bool]:
    """A paced stream that would take an hour."""

    def stream() -> Iterator[tuple[float, Any]]:
        for number, item in enumerate(items(2, 3)):
            yield number // 2 * HOURLY, item

    return stream(), True


@pytest.mark.parametrize("first", ["a", "b"])
async def test_an_operator_has_its_changed_cost_and_pace_at_a_new_peer(first: str) -> None:
    pair = Pair(read=slow)
    plan = trace().delay(cost="1 h", id="work").sink()
    where = {"source": first, "work": first, "sink": "b"}
    changed = {address: host.context.changed for address, host in pair.net.items()}
    assert not any(each.change_cost("app", "work", 0.0) for each in changed.values())  # nobody executes it yet
    assert not any(each.change_pace("app", "source", 1e9) for each in changed.values())
    pair.deploy("app", plan, where)
    here = {address: each.change_cost("app", "work", 0.0) for address, each in changed.items()}
    assert here == {"a": first == "a", "b": first == "b"}
    assert changed[first].change_pace("app", "source", 1e9)
    assert numbers(await pair.results("b", "app")) == list(range(6))


def test_the_oldest_changes_are_forgotten() -> None:
    values = ChangedValues()
    for number in range(MOST + 2):
        values.change_cost(f"app-{number}", "work", 1.0)
    assert len(values.costs) == MOST
    assert ("app-1", "work") not in values.costs


@pytest.mark.slow
def test_a_cost_and_a_pace_hold_after_moves_in_a_simulation() -> None:
    simulation = Simulation(5, network="local", cores=1, hotspots="off", overload=True, seed=3)
    packets = source("packets", rate="40/s", seed=1, id="packets")
    application = simulation.submit(packets.delay(cost="1 ms", id="work").sink(), origin="peer-1")
    simulation.pace(application, "packets", 0.5)
    simulation.cost(application, "work", "20 ms")

    def moved(operator: str, to: str) -> tuple[int, float]:
        """Tuples of two seconds, and the load of the peer of the work, after a move."""
        simulation.move(application, operator, to)
        before: int = application.qos()["tuples"]
        simulation.run(2)
        here = simulation.world.nodes[application.graph["work"]].hosting.components[application.id, "work"]
        return application.qos()["tuples"] - before, here.stats(simulation.now)["processing_s"]

    tuples, seconds = moved("work", "peer-4")
    assert tuples == pytest.approx(40, abs=15)  # arrivals are random; at the pace of the plan there were 80
    assert seconds == pytest.approx(0.02)
    assert moved("packets", "peer-5")[0] == pytest.approx(40, abs=15)


@pytest.mark.slow
def test_a_cost_holds_for_all_replicas_in_a_simulation() -> None:
    simulation = Simulation(5, network="local", cores=1, hotspots="off", seed=3)
    packets = source("packets", rate="20/s", seed=1, id="packets")
    plan = packets.delay(cost="1 ms", id="work").sink(availability="active 2")
    application = simulation.submit(plan, origin="peer-1")
    simulation.cost(application, "work", "20 ms")
    simulation.run(2)
    measured = [
        component.stats(simulation.now)["processing_s"]
        for node in simulation.world.nodes.values()
        for (_, name), component in node.hosting.components.items()
        if name.startswith("work")
    ]
    assert measured == [pytest.approx(0.02)] * 2
