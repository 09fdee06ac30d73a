"""Sources whose rows a program pushes: whatever is lost, doubled or dies, each row comes once, and all do."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from synergy_nb.dataflow.streams.log import LIMITS, Limits
from synergy_nb.simulator.stream_world import StreamWorld
from tests.campaigns import blocks
from tests.moving_schedules import undisturbed
from tests.stream_schedules import (
    END_S,
    KINDS,
    PEERS,
    deep_query,
    disturb,
    drawn_faults,
    finish,
    hostile_faults,
    inputs_of,
    placed,
    query,
    sorted_rows,
)


def run(seed: int, kinds: tuple[str, ...] = KINDS) -> StreamWorld:
    """An application of any shape whose rows are pushed, with backups of all but its sink."""
    rng = random.Random(seed)
    deep = rng.random() < 0.5
    plan = deep_query(rng) if deep else query(rng)
    degree = rng.choice((2, 3))
    peers, backups = placed(rng, plan, degree)
    inputs = inputs_of(rng, plan, groups=3 if deep else 10, rows=60)
    wanted = undisturbed(plan, inputs)
    small = not deep and rng.random() < 0.5
    limits = Limits(1_500, 4_000, 1_500) if small else LIMITS
    world = StreamWorld(
        seed, PEERS, hostile_faults(rng) if deep else drawn_faults(rng), codec=seed % 8 == 0, limits=limits
    )
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    most = rng.choice((600, 4_000, LIMITS.retain))
    programs = [world.push("app", name, table, most) for name, table in inputs.items()]
    world.deploy("app", plan, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.5)), kinds=kinds)
    finish(world, END_S / 4)
    world.clients["app", "out"] = 0.02  # joins make many tuples, which a slow client would collect for hours
    finish(world)
    assert not world.failures(), world.failures()
    assert not any(each.lost for each in programs), "rows that nobody retains are lacking"
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)
    assert all(each.done for each in programs), "a program retains rows that all copies have"
    assert all(each.most_bytes <= most + world.most_made for each in programs), "a program retains too much"
    return world


def in_blocks(run_one: Callable[[int], object], block: int, size: int = 50) -> None:
    for seed in range(size * block, size * (block + 1)):
        try:
            run_one(seed)
        except AssertionError as error:
            raise AssertionError(f"{run_one.__name__}({seed}): {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(20, 10))
def test_each_row_that_was_pushed_comes_once_whoever_dies_at_any_moment(block: int) -> None:
    in_blocks(run, block)
