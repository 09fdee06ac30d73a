"""Hot spots at peers of different speeds, and at peers where other programs compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from synergy_nb.algorithms.migration import MoveHistory
from synergy_nb.algorithms.migration._target import Target
from synergy_nb.algorithms.migration.messages import Departure
from synergy_nb.events import MigrationProjected
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.network import measured
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.simulator.simulation import Simulation

LIMIT = 0.5


def of_speeds(**speeds: float) -> Simulation:
    """Peers of these speeds, 1 ms from one another."""
    topology = measured(np.full((len(speeds), len(speeds)), 1.0), list(speeds), seed=1)
    topology.cores = speeds
    return Simulation(list(speeds), network=topology, seed=1)


def worker(name: str, rate: float, work: float) -> Plan:
    rows = pl.DataFrame({"time": [float(number) for number in range(9000)], "v": range(9000)})
    stream = source(rows, rate=rate, id="rows").filter("v >= 0", cost=work, id=name)
    return stream.sink(id="out", delay=LIMIT)


def placed(simulation: Simulation, at: str, name: str, rate: float, work: float = 0.04) -> SimulatedApplication:
    """An application whose one operator is at a given peer."""
    application = simulation.submit(worker(name, rate, work), origin="home")
    if application.graph[name] != at:
        simulation.move(application, name, at)
    return application


def answers(simulation: Simulation) -> dict[str, str]:
    """Peers that were asked to take a component, and the reasons of those that refused."""
    return {each.peer: each.reason for each in simulation.events().of(MigrationProjected)}


def missed(simulation: Simulation, *applications: Any, seconds: float = 10.0) -> float:
    """Greatest share of late tuples in the next seconds."""
    before = [each.qos() for each in applications]
    simulation.run(seconds)
    after = [each.qos() for each in applications]
    late: list[int] = [round(each["tuples"] * each["miss_rate"]) for each in (*before, *after)]
    many: list[int] = [now["tuples"] - was["tuples"] for was, now in zip(before, after, strict=True)]
    return max((late[len(many) + number] - late[number]) / each for number, each in enumerate(many))


@pytest.mark.slow
@pytest.mark.parametrize("loaded", ["before", "meanwhile"])
def test_a_hot_spot_by_other_load_is_cured(loaded: str) -> None:
    """Seen: an idle peer refused .23 of a core, as it would need 2.3 at the speed of the loaded one."""
    simulation = of_speeds(home=0.05, hot=1.0, idle=1.0)
    if loaded == "before":
        simulation.load("hot", 0.9)
    application = placed(simulation, "hot", "work", 23.0, 0.01)
    if loaded == "meanwhile":
        simulation.run(20.0)
        assert application.graph["work"] == "hot"
        simulation.load("hot", 0.9)
    assert simulation.until(lambda: application.graph["work"] == "idle", 30.0), answers(simulation)
    simulation.run(10.0)
    assert missed(simulation, application) == 0.0


@pytest.mark.slow
def test_a_slow_peer_refuses_what_a_fast_one_did_easily() -> None:
    """Seen: a target of .5 cores accepted a load of 1.5, as it took the time at a peer of 2 for its own."""
    simulation = of_speeds(home=0.05, hot=2.0, half=0.5, one=1.0)
    rising, steady = placed(simulation, "hot", "rising", 16.25), placed(simulation, "hot", "steady", 18.75)
    simulation.run(10.0)
    assert not answers(simulation)
    simulation.pace(rising, "rows", 2.0)  # 1.3 and .75 for a peer of 2
    assert simulation.until(lambda: {rising.graph["rising"], steady.graph["steady"]} != {"hot"}, 30.0)
    assert (rising.graph["rising"], steady.graph["steady"]) == ("hot", "one"), answers(simulation)
    simulation.run(10.0)
    assert missed(simulation, rising, steady) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_faster_peer_accepts_what_a_slow_one_cannot_do(speed: float) -> None:
    simulation = of_speeds(home=0.05, hot=0.5, fast=speed)
    application = placed(simulation, "hot", "work", 7.5)
    simulation.run(10.0)
    assert not answers(simulation)
    simulation.pace(application, "rows", 2.0)  # .6 of a core
    assert simulation.until(lambda: application.graph["work"] == "fast", 30.0), answers(simulation)
    simulation.run(10.0)
    assert missed(simulation, application) == 0.0


@pytest.mark.slow
def test_a_peer_with_other_load_refuses_what_it_could_do_without() -> None:
    simulation = of_speeds(home=0.05, hot=1.0, busy=1.0, idle=1.0)
    rising, steady = placed(simulation, "hot", "rising", 5.0), placed(simulation, "hot", "steady", 10.0)
    simulation.load("busy", 0.7)
    simulation.run(10.0)
    simulation.pace(rising, "rows", 4.0)
    assert simulation.until(lambda: {rising.graph["rising"], steady.graph["steady"]} != {"hot"}, 30.0)
    assert answers(simulation)["busy"].startswith("its utilisation would be 1.33"), answers(simulation)
    assert {rising.graph["rising"], steady.graph["steady"]} == {"hot", "idle"}


def test_a_target_counts_the_longer_hops_before_and_behind_a_component() -> None:
    """A tuple arrives 20 ms later than at the peer that asks, and has 50 ms less left: .3 s - .1 s - 70 ms remain."""
    plan = source("packets", rate=10, id="before").filter("bytes > 9", id="moved").sink(id="behind")
    peers = {"before": "near", "moved": "asks", "behind": "far"}
    graph: Any = SimpleNamespace(application="app", roles=SimpleNamespace(peers=peers))
    departure = Departure(graph, "moved", 10.0, 0.01, 0.0, -1.0, 0.1, 0.3, {"near": 0.01, "far": 0.02}, 0.5)
    hops = {"near": 0.03, "far": 0.07}
    monitor: Any = SimpleNamespace(
        predictions={}, speed_for=lambda _processor: 1.0, hop=lambda address, _otherwise: hops[address]
    )
    unused: Any = None
    target = Target(unused, monitor, MoveHistory(), HotSpotConfig(), lambda _plan, _operator: True, unused)
    assert target.newcomer(departure, plan).allowed == pytest.approx(0.13)
