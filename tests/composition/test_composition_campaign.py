"""Composition under faults: seeded schedules of loss, duplication, reordering, crashes, hangs and partitions."""

from __future__ import annotations

import random

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.events import ApplicationRunning
from synergy_nb.plan import Plan, source
from tests.campaigns import CUTS, blocks
from tests.composed_rings import check
from tests.quick_cases import quick_first
from tests.simulated import Ring

PEERS = 8
REQUESTS = 8


def query(rng: random.Random) -> Plan:
    """A chain, or the DAG of figure 2.6, that takes a good part of a peer; half of them have streams to share."""
    if rng.random() < 0.5:
        cost = f"{rng.randint(20, 200)} us"
        stream = source("python", name="n", columns={"v": "float"}, rate=1000.0)
    else:
        cost = rng.choice(["50 us", "150 us"])
        stream = source("packets", rate=1000.0, seed=rng.randint(1, 2))
    if rng.random() < 0.5:
        for number in range(rng.randint(1, 4)):
            stream = stream.delay(cost, id=f"o{number}")
        return stream.sink("out", delay="3 s")
    split = stream.delay(cost, id="o1")
    upper = split.delay("10 us", id="o2").delay("10 us", id="o4")
    lower = split.delay("10 us", id="o3").delay("10 us", id="o5")
    return upper.union(lower, id="o6").sink("out", delay="3 s")


def run(seed: int) -> tuple[Ring, list[str]]:
    """One schedule; at its end the network is whole again and everything has had time to settle."""
    rng = random.Random(seed)
    ring = Ring(PEERS, seed, config=lambda n: PeerConfig(name=f"peer-{n}", seed=seed * 100 + n))
    simulation = ring.simulation
    simulation.loss = rng.choice([0.0, 0.02, 0.1])
    simulation.duplication = rng.choice([0.0, 0.05, 0.2])
    simulation.reordering = rng.choice([0.0, 0.1, 0.5])
    requests = []
    for number in range(REQUESTS):
        alive = sorted(ring.synergy)
        origin = rng.choice(alive)
        request = f"r{number}"
        ring.submit(origin, request, query(rng))
        requests.append(request)
        fault = rng.random()
        victim = rng.choice(alive)
        if fault < 0.15 and len(alive) > 5:
            ring.crash(victim)
        elif fault < 0.3:
            simulation.hang(victim, rng.uniform(0.1, 3.0))
        elif fault < 0.4:
            half = set(rng.sample(alive, len(alive) // 2))
            simulation.partition([half], rng.choice(CUTS))
        elif fault < 0.5:
            simulation.heal()
        elif fault < 0.6 and requests[:-1]:
            ended = rng.choice(requests[:-1])
            for address in ring.synergy:
                simulation.report(address, StopApplication(ended))
        for _ in range(rng.randint(1, 6)):
            ring.run(0.25)
            assert not ring.overbooked()
    simulation.heal()
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    for _ in range(120):  # a peer that was stopped keeps reservations up to eight times as long
        ring.run(0.5)
        assert not ring.overbooked()
    for address in ring.synergy:  # whoever asked for them takes what failed ones had found, or not
        for request in requests:
            if ring.status(request) == "failed":
                simulation.report(address, StopApplication(request))
    ring.run(1.0)
    return ring, requests


@pytest.mark.parametrize("seed", quick_first(range(20), 1))
def test_no_overbooking_and_no_leak(seed: int) -> None:
    check(*run(seed))


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(10, 10))
def test_no_overbooking_and_no_leak_in_many_schedules(block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        try:
            check(*run(seed))
        except AssertionError as error:
            raise AssertionError(f"schedule {seed}: {error}") from error


@pytest.mark.slow
def test_schedules_of_the_campaign_share_streams() -> None:
    shared = 0
    for seed in range(6):
        ring, requests = run(seed)
        shared += sum(bool(event.shared) for r in requests for event in ring.events(r, ApplicationRunning))
    assert shared >= 6


@pytest.mark.slow
def test_a_schedule_replays_from_its_seed() -> None:
    first, second = run(7)[0], run(7)[0]
    assert list(first.simulation.journal) == list(second.simulation.journal)
