"""Streams under faults: whatever is lost, doubled, overtaken, cut, crashed, hung, slow or moved, results stay the same.

Every schedule is run once without any fault, and once with faults, backups and moves; at each sink the same rows have
to come, and the run has to end.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from synergy_nb.simulator.streaming import StreamWorld
from tests.stream_schedules import (
    END_S,
    PEERS,
    SAFE,
    deep_query,
    disturb,
    drawn_faults,
    hostile_faults,
    inputs_of,
    movable,
    placed,
    query,
    sorted_rows,
    survives,
)


def run(seed: int) -> None:
    """One application of any shape."""
    rng = random.Random(seed)
    plan = query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((2, 3)))
    inputs = inputs_of(rng, plan)

    calm = StreamWorld(seed, PEERS)
    calm.deploy("app", plan, peers, inputs)
    calm.run(END_S)
    assert calm.ended("app", "out")

    world = StreamWorld(seed, PEERS, drawn_faults(rng), codec=seed % 4 == 0)
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    crashes = 0
    for _ in range(rng.randint(1, 8)):
        world.run(rng.uniform(0.05, 0.8))
        match rng.choice(("crash", "hang", "cut", "move", "move", "calm")):
            case "crash" if crashes < len(PEERS) - 4:
                victim = rng.choice([peer for peer in PEERS if peer not in SAFE])
                if not world.dead(victim) and not world.recovering() and survives(world, (victim,)):
                    world.crash(victim)
                    crashes += 1
            case "hang":
                world.hang(rng.choice(PEERS), rng.uniform(0.05, 1.0))
            case "cut":
                one, other = rng.sample(PEERS, 2)
                world.cut(one, other, rng.uniform(0.01, 0.5))
            case "move":
                world.move("app", rng.choice(movable(world, "app")), rng.choice(PEERS), rng.uniform(0.05, 0.5))
    world.run(END_S)
    assert not world.failures(), world.failures()
    assert world.ended("app", "out"), "it stands still"
    assert sorted_rows(world.rows("app", "out")) == sorted_rows(calm.rows("app", "out"))
    assert world.most_bytes < 1 << 20


def run_deep(seed: int) -> None:
    """Several inputs in a row, readers that are ahead of copies, deaths of two at once, peers that come back."""
    rng = random.Random(seed)
    plan = deep_query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((2, 3, 3)))
    inputs = inputs_of(rng, plan, groups=3, rows=60)

    calm = StreamWorld(seed, PEERS)
    calm.deploy("app", plan, peers, inputs)
    calm.run(END_S)
    assert calm.ended("app", "out")

    world = StreamWorld(seed, PEERS, hostile_faults(rng), codec=seed % 8 == 0)
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.5)))
    world.run(END_S)
    assert not world.failures(), world.failures()
    assert world.ended("app", "out"), "it stands still"
    assert sorted_rows(world.rows("app", "out")) == sorted_rows(calm.rows("app", "out"))


def block(run_one: Callable[[int], None], first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            run_one(seed)
        except AssertionError as error:
            raise AssertionError(f"{run_one.__name__}({seed}): {error}") from error


@pytest.mark.parametrize("seed", range(20))
def test_results_are_those_of_the_undisturbed_run(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_takes_over_reads_in_the_order_that_somebody_depends_on(seed: int) -> None:
    run_deep(seed)
