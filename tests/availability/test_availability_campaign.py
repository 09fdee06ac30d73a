"""Concurrent placements under faults: seeded schedules of loss, duplication, reordering, crashes, hangs, partitions."""

from __future__ import annotations

import random

import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.availability._primary_host import SPREAD
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import CandidatePassed, PlacementCompleted, PlacementReleased
from synergy_nb.plan import Plan, source
from tests.campaigns import CUTS, blocks
from tests.placing import Placements
from tests.quick_cases import quick_first

PEERS = 9
REQUESTS = 9


def query(rng: random.Random) -> Plan:
    """A chain or a graph with a join, whose components take a good part of a peer."""
    cost = f"{rng.choice([200, 500, 900])} us"
    at = f"peer-{rng.randrange(PEERS)}" if rng.random() < 0.5 else None
    stream = source("python", name="n", columns={"v": "float"}, rate=100.0, at=at)
    if rng.random() < 0.5:
        for number in range(rng.randint(1, 5)):
            stream = stream.delay(cost, id=f"o{number}")
        return stream.sink("out")
    other = source("python", name="m", columns={"v": "float"}, rate=100.0, id="other")
    upper = stream.delay(cost, id="a")
    lower = (other if rng.random() < 0.5 else stream).delay(cost, id="b").delay(cost, id="c")
    return upper.union(lower, id="u").delay(cost, id="z").sink("out")


def run(seed: int) -> Placements:
    """One schedule; at its end the network is whole again, and every lease that is not renewed has run out.

    With odd seeds peers look ahead at links, which carry few streams.
    """
    rng = random.Random(seed)
    ahead = seed % 2 == 1
    world = Placements(
        PEERS,
        seed,
        config=lambda number: PeerConfig(
            name=f"peer-{number}", seed=seed * 100 + number, cores=0.4,
            bandwidth=6_000.0 if ahead else 20_000.0, placement=PlacementConfig(ahead=ahead),
            failure=0.01 * (number % 3), domains={f"rack {number // 3}": 0.01},
        ),
    )  # fmt: skip
    simulation = world.simulation
    simulation.loss = rng.choice([0.0, 0.02, 0.1])
    simulation.duplication = rng.choice([0.0, 0.05, 0.2])
    simulation.reordering = rng.choice([0.0, 0.1, 0.5])
    for number in range(REQUESTS):
        alive = sorted(world.synergy)
        asked = {"target": 0.99} if rng.random() < 0.2 else {"degree": rng.randint(1, 3)}
        world.place(rng.choice(alive), f"r{number}", query(rng), **asked)
        fault = rng.random()
        victim = rng.choice(alive)
        if fault < 0.15 and len(alive) > 6:
            world.crash(victim)
        elif fault < 0.3:
            simulation.hang(victim, rng.uniform(0.1, 5.0))
        elif fault < 0.4:
            simulation.partition([set(rng.sample(alive, len(alive) // 2))], rng.choice(CUTS))
        elif fault < 0.5:
            simulation.heal()
        elif fault < 0.6:
            name = f"r{rng.randrange(number + 1)}"
            if world.origins[name] in world.synergy:
                world.release(name)
        for _ in range(rng.randint(1, 6)):
            world.run(0.1)
            assert not world.overbooked()
    simulation.heal()
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    for _ in range(370):  # the longest way to a decision, and a lease
        world.run(0.5)
        assert not world.overbooked()
    return world


def check(world: Placements) -> None:
    """Nothing is held but what stands, all of that is, every request is decided, no component is doubled."""
    assert world.wrong_books() == []
    assert world.doubled() == []
    standing = world.standing()
    for request, at in world.origins.items():
        if at not in world.synergy:
            continue
        assert not world.placement(at).pending
        graph, _ = world.outcomes.get(request, (None, ""))
        released = bool(world.events(request, PlacementReleased))
        assert released or request in world.outcomes, "a request was never decided"
        assert (request in standing) == (graph is not None and not released)
    for request, graph in standing.items():
        plan = world.plans[request]
        assert graph.peers.keys() == plan.operators.keys()
        assert graph.backups.keys() == {name for name in plan.operators if plan.operators[name].kind not in
                                        ("source", "sink")}  # fmt: skip
        (done, *_) = reversed(world.events(request, PlacementCompleted))
        assert all(len(peers) == done.degree for peers in graph.replicas.values())


@pytest.mark.parametrize("seed", quick_first(range(20), 3))
def test_no_overbooking_no_leak_no_doubled_component(seed: int) -> None:
    check(run(seed))


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(10, 10))
def test_no_overbooking_no_leak_no_doubled_component_in_many_schedules(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        try:
            check(run(seed))
        except AssertionError as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


@pytest.mark.slow
def test_schedules_of_the_campaign_place_refuse_and_fail() -> None:
    worlds = [run(seed) for seed in range(6)]
    outcomes = [graph for world in worlds for graph, _ in world.outcomes.values()]
    events = {event.kind for world in worlds for event in world.simulation.journal}
    assert sum(graph is not None for graph in outcomes) >= 15
    assert sum(graph is None for graph in outcomes) >= 3
    assert {"placement_negotiated", "placement_attempt_failed", "candidate_passed", "replica_denied"} <= events
    passed = {
        event.reason for world in worlds for event in world.simulation.journal if isinstance(event, CandidatePassed)
    }
    assert SPREAD in passed


def test_a_schedule_replays_from_its_seed() -> None:
    first, second = run(7), run(7)
    assert list(first.simulation.journal) == list(second.simulation.journal)
