"""Active replicas of a simulation for notebooks: they are lost again and again, are rebuilt, and no result changes."""

from __future__ import annotations

from functools import partial

import pytest

from synergy_nb import Plan, Simulation, source
from synergy_nb.control.driver_messages import MoveComponent
from synergy_nb.events import ComponentMoved, ReplicaRebuilt
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces

SINGLE = {"a", "b", "sink"}  # operators without replicas


def query(degree: int) -> Plan:
    one, other = (
        source("packets", seed=seed, rate="20 tuples/s", duration="30 s", id=name) for seed, name in enumerate("ab")
    )
    merged = one.union(other, id="union").filter("bytes > 200", id="filter")
    return merged.aggregate(n="count(*)", window="2 s", id="sums").sink(delay="10 s", availability=f"active {degree}")


def expected() -> list[tuple[object, ...]]:
    simulation = Simulation(1, network="local", cores=16, seed=1)
    rows = simulation.submit(query(1)).results()
    return sorted(rows.rows())


def replicas_at(application: SimulatedApplication) -> dict[str, set[str]]:
    """Peers on which nothing but replicas depends, with their replicas."""
    found: dict[str, set[str]] = {}
    for name, peer in application.graph.items():
        if original(name) not in SINGLE and peer:
            found.setdefault(peer, set()).add(name)
    alone = {application.origin, *(application.graph[name] for name in SINGLE)}
    return {peer: names for peer, names in sorted(found.items()) if peer not in alone}


def rebuilt(simulation: Simulation) -> int:
    return sum(isinstance(each, ReplicaRebuilt) for each in simulation.journal)


def rebuilt_again(simulation: Simulation, number: int) -> bool:
    return rebuilt(simulation) >= number


@pytest.mark.slow(25)
def test_replicas_that_are_killed_while_others_move_are_rebuilt_and_results_stay_the_same() -> None:
    simulation = Simulation(8, cores=4, seed=2)
    application = simulation.submit(query(2))
    simulation.run(2.0)
    for _ in range(2):
        found = replicas_at(application)
        dead = min(found)
        whole = rebuilt(simulation) + len(found[dead])
        graph = application.graph  # another replica of the operator with two inputs moves meanwhile
        name = next(name for name, at in graph.items() if original(name) == "union" and at != dead)
        to = next(peer for peer in simulation.peers if peer not in graph.values())
        simulation.world.control.report(application.origin, MoveComponent(application.id, name, to))
        simulation.kill(dead)
        assert simulation.until(partial(rebuilt_again, simulation, whole))
    results = application.results()
    assert application.status == "finished"
    assert sorted(results.rows()) == expected()
    assert any(isinstance(each, ComponentMoved) for each in simulation.journal)


@pytest.mark.slow
def test_the_view_says_that_all_is_well_once_other_peers_do_the_work_of_one_that_died() -> None:
    simulation = Simulation(6, network="local", cores=2, seed=1)
    packets = source("packets", seed=1, rate="50 tuples/s", duration="60 s")
    counts = packets.filter("bytes > 200", id="filter").aggregate(n="count(*)", window="1 s", id="sums")
    application = simulation.submit(counts.sink(delay="5 s", availability="degree 2"))
    simulation.run(3.0)
    dead = application.graph["filter"]
    assert dead != application.origin
    simulation.kill(dead)
    backups = application.backups
    assert simulation.until(lambda: application.backups != backups and all(application.backups.values()))
    simulation.run(1.0)
    for of in (application.id, None):
        readings = JournalSeries(of, simulation.names)
        readings.read(simulation.journal)
        head = status_pieces(readings)["head"]
        assert (head["glyph"], head["status"], head["tone"]) == ("●", "running", "good"), head
        assert "ithin its limit" in head["sentence"]
        assert f"{dead} died" in head["sentence"]
