"""Fault schedules over small rings, each a function of its seed, and what must hold when all is quiet again.

Replay a schedule that fails: ``mixed(seed)`` or ``two_crashes(seed)`` runs it and returns what is wrong with it.
"""

from __future__ import annotations

import random

import pytest

from synergy_nb.control.peer import key_of
from synergy_nb.overlay.directory import Entry
from tests.campaigns import CUTS, blocks
from tests.overlay_world import World

NAMES = [f"op{number}" for number in range(10)]
LEASE = 8.0  # s
QUIET = 22.0  # s after the last fault: a suspicion, retries of the dead, exchanges of leaf sets, and more than a lease

JUDGED = 4.0  # s from the ping of a peer that has died to the end of all that others were asked about it


def mixed(seed: int) -> list[str]:
    """Crashes, restarts, hangs, partitions, leaves, loss, duplication, reordering; what is wrong at the end."""
    rng = random.Random(f"schedule/{seed}")
    world = World(rng.randint(12, 30), seed, assembled=rng.random() < 0.3, lease=LEASE)
    simulation = world.simulation
    simulation.loss = rng.choice((0.0, 0.0, 0.02, 0.1))
    simulation.duplication = rng.choice((0.0, 0.05))
    simulation.reordering = rng.choice((0.0, 0.1))
    world.run(rng.choice((2.0, 4.0)))
    for address in world.live[::2]:
        _register(world, address, rng)
    world.run(1.0)
    crashed: list[str] = []
    for _ in range(rng.randint(2, 6)):
        fault = rng.choice(("crash", "crash two", "restart", "hang", "partition", "leave"))
        live = world.live
        if fault.startswith("crash") and len(live) > 8:
            victims = rng.sample(live, 2 if fault == "crash two" else 1)
            world.crash(*victims)
            crashed += victims
        elif fault == "restart" and crashed:
            back = crashed.pop(rng.randrange(len(crashed)))
            contacts = [address for address in live if world.pastry[address].joined]
            world.restart(back, rng.choice(contacts or live))
            if rng.random() < 0.5:
                _register(world, back, rng)
        elif fault == "hang":
            simulation.hang(rng.choice(live), rng.uniform(0.3, 8.0))
        elif fault == "partition":
            simulation.partition([rng.sample(live, rng.randint(1, len(live) // 2))], rng.choice(CUTS))
            world.run(rng.uniform(1.0, 10.0))
            simulation.heal()
        elif fault == "leave" and len(live) > 8:
            gone = rng.choice(live)
            world.call(gone, world.pastry[gone].leave)
            world.run(0.5)
            world.crash(gone)
        world.run(rng.choice((0.1, 1.0, 3.0)))
    simulation.loss = simulation.duplication = simulation.reordering = 0.0
    world.run(QUIET)
    return _complaints(world, rng)


def _register(world: World, address: str, rng: random.Random) -> None:
    for name in rng.sample(NAMES, 3):
        world.call(address, world.directory[address].register, name, "component", {"load": rng.random()})


def _complaints(world: World, rng: random.Random) -> list[str]:
    if any(each.suspects or each.relayed for each in world.membership.values()):
        world.run(JUDGED)  # a peer that missed the news of a death has just found it by its own turns
    now = world.simulation.now
    wrong = [f"not joined: {address}" for address, pastry in world.pastry.items() if not pastry.joined]
    wrong += [f"leaf set of {address}: {leaves}" for address, leaves in world.wrong_leaf_sets().items()]
    wrong += [f"{who} holds {whom} for dead" for who, whom in world.false_deaths()]
    wrong += [
        f"{address} holds an entry of dead {copy.entry.host}"
        for address, directory in world.directory.items()
        for name in directory.store.names()
        for copy in directory.store.copies(name, now)
        if copy.entry.host not in world.pastry
    ]
    for address in world.pastry:
        membership, directory = world.membership[address], world.directory[address]
        left = (membership.suspects, membership.relayed, directory.pending, directory.copying, directory.waiting)
        wrong += [f"{address} still has {state}" for state in left if state]
    keys = [key_of(f"key {number}") for number in range(20)]
    places = world.arrivals_of(keys, wait=1.5)
    wrong += [
        f"{key} at {place}, not {world.root(key)}"
        for key, place in zip(keys, places, strict=True)
        if place != world.root(key)
    ]
    found = world.lookup(rng.choice(world.live), NAMES, deadline=2.0)
    for name in NAMES:
        hosts = None if found is None else {entry.host for entry in found[name]}
        right = {
            address for address in world.live if name in {entry.name for entry in world.directory[address].registered}
        }
        if hosts != right:
            wrong.append(f"{name}: found {hosts}, registered {right}")
    return wrong


def two_crashes(seed: int) -> list[str]:
    """Two peers near the root crash at once; everybody finds the entries, whenever it asks."""
    rng = random.Random(f"two/{seed}")
    count = rng.randint(5, 24)
    world = World(count, seed, assembled=True, lease=600.0)  # so that no renewal mends anything
    world.run(0.5)
    world.simulation.loss = rng.choice((0.0, 0.1))
    host = rng.choice(world.live)
    for name in NAMES[:5]:
        world.call(host, world.directory[host].register, name, "component")
    world.run(5.0)
    world.simulation.loss = 0.0
    ring = world.live
    root = ring.index(world.root(key_of(NAMES[0])))
    near = dict.fromkeys(ring[(root + step) % count] for step in (-3, -2, -1, 0, 1, 2, 3))
    near.pop(host, None)
    world.crash(*rng.sample(list(near), 2))
    world.run(rng.choice((0.0, 0.0, 0.3, 1.0, 2.0, 3.0, 6.0)))
    wrong: list[str] = []
    answers: list[dict[str, tuple[Entry, ...]] | None] = []
    for asker in rng.sample(world.live, 3):
        world.call(asker, world.directory[asker].lookup, NAMES[:5], answers.append, 5.0)
    world.run(5.1)
    for found in answers:
        if found is None:
            wrong.append("no answer")
        else:
            wrong += [f"{name}: {found[name]}" for name in NAMES[:5] if [entry.host for entry in found[name]] != [host]]
    return wrong if len(answers) == 3 else [*wrong, f"{len(answers)} answers"]


def failing(schedule: object, seeds: range) -> dict[int, list[str]]:
    """Seeds whose schedules went wrong, and how."""
    assert callable(schedule)
    return {seed: wrong for seed in seeds if (wrong := schedule(seed))}


@pytest.mark.slow
def test_a_few_mixed_schedules_lose_no_entry() -> None:
    assert failing(mixed, range(12)) == {}


@pytest.mark.slow
def test_a_peer_that_missed_the_news_of_a_death_finds_it_by_its_own_turns() -> None:
    """It pinged the dead peer 2 s before the end of the schedule, and three others did so for it."""
    assert mixed(292) == []


@pytest.mark.slow
def test_a_few_schedules_of_two_crashes_lose_no_entry() -> None:
    assert failing(two_crashes, range(30)) == {}


def test_a_schedule_replays_from_its_seed() -> None:
    def run() -> tuple[int, int, list[str]]:
        world = World(12, 7, lease=LEASE)
        world.simulation.loss = world.simulation.reordering = 0.1
        world.run(5.0)
        world.crash("p3")
        world.simulation.hang("p4", 5.0)
        world.run(10.0)
        return world.simulation.messages, world.simulation.events, [str(event) for event in world.simulation.journal]

    assert run() == run()


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(6, 6))
def test_many_mixed_schedules_lose_no_entry(block: int) -> None:
    assert failing(mixed, range(100 + 50 * block, 150 + 50 * block)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(3, 3))
def test_many_schedules_of_two_crashes_lose_no_entry(block: int) -> None:
    assert failing(two_crashes, range(100 + 100 * block, 200 + 100 * block)) == {}
