"""All peers are killed at once, again and again: others go on from the folder, and no row is lost or doubled."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from synergy_nb.dataflow.streams.log.log import Limits
from tests.campaigns import ALL, blocks
from tests.durable.durable_world import DurableWorld
from tests.moving_schedules import undisturbed
from tests.quick_cases import quick_first
from tests.stream_schedules import (
    deep_query,
    drawn_faults,
    finish,
    in_blocks,
    inputs_of,
    movable,
    piece,
    query,
    sorted_rows,
)


def run(seed: int, path: Path | None = None, *, bucket: bool = False) -> None:
    """An application of any shape, perhaps with backups and moves, whose peers are killed one to five times.

    ``path``: where the folder is on a disk that loses its power, too, now and then; ``bucket``: whether it is in an
    object store.
    """
    rng = random.Random(seed)
    plan = query(rng) if rng.random() < 0.6 else deep_query(rng)
    inputs = inputs_of(rng, plan, rows=60)
    wanted = undisturbed(plan, inputs)
    world = DurableWorld(
        seed, "abcde", drawn_faults(rng), codec=seed % 4 == 0, limits=Limits(piece=piece(seed)),
        segment=rng.choice((300, 4_000, 1 << 20)), small=rng.choice((0, 300, 1 << 16)),
        slow=rng.choice((0.0, 0.05, 0.5)), disks=None if path is None else path / str(seed), bucket=bucket,
    )  # fmt: skip
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    backed = rng.random() < 0.3
    peers = {name: rng.choice("abc") for name in plan.operators}
    backups = {name: (rng.choice("de"),) for name, each in plan.operators.items() if backed and each.kind != "sink"}
    world.deploy("app", plan, peers, inputs, backups=backups)
    for number in range(rng.randint(1, 5)):
        world.run(rng.choice((0.01, 0.1, 0.5, 1.0, 3.0)) * rng.random())
        if rng.random() < 0.3:
            living = [peer for peer in world.nodes if not world.dead(peer)]
            world.move("app", rng.choice(movable(world, "app")), rng.choice(living), rng.uniform(0.05, 0.3))
            world.run(rng.uniform(0.0, 0.6))
        names = [f"{number}{name}" for name in "abcd"[: rng.randint(1, 4)]]
        world.kill_all(names)
        if path is not None and rng.random() < 0.8:
            world.lose_power()
        assert not world.forgotten(), world.forgotten()
        world.restart("app", {name: rng.choice(names) for name in plan.operators}, rng)
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)


@pytest.mark.parametrize("seed", quick_first(range(8), 3))
def test_rows_are_those_of_an_undisturbed_run_wherever_everything_is_killed(seed: int) -> None:
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500 if ALL else 4))
def test_rows_are_those_of_an_undisturbed_run_though_the_power_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path)


@pytest.mark.parametrize("seed", quick_first(range(2_000, 2_500 if ALL else 2_006), 2))
def test_rows_are_those_of_an_undisturbed_run_though_an_object_store_has_the_folder(seed: int) -> None:
    run(seed, bucket=True)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(20, 20))
def test_rows_are_those_of_an_undisturbed_run_in_many_schedules(block: int) -> None:
    in_blocks(run, block)
