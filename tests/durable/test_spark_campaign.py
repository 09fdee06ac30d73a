"""All peers and Spark are killed at once, again and again: a part on Spark goes on, and no row is lost or doubled."""

from __future__ import annotations

import random

import pytest

from synergy_nb.plan import Plan
from tests.campaigns import blocks
from tests.durable.engine_world import ON_SPARK, EngineWorld
from tests.moving_schedules import undisturbed
from tests.stream_schedules import drawn_faults, finish, in_blocks, inputs_of, sorted_rows, stage, stream


def plan_of(rng: random.Random) -> Plan:
    """A part between operators of peers."""
    one = stream("n")
    if rng.random() < 0.3:
        one = one.union(stream("m"), id="u")
    if rng.random() < 0.5:
        one = stage(rng, one, 1)
    one = one.filter("v >= 0", id=ON_SPARK)
    if rng.random() < 0.5:
        one = stage(rng, one, 2)
    if rng.random() < 0.3:
        one = one.union(stream("k"), id="all")
    return one.sink("out", id="out")


def run(seed: int) -> None:
    rng = random.Random(seed)
    plan = plan_of(rng)
    inputs = inputs_of(rng, plan, rows=60)
    wanted = undisturbed(plan, inputs)
    world = EngineWorld(
        seed, "abcd", faults=drawn_faults(rng), codec=seed % 4 == 0,
        segment=rng.choice((300, 4_000, 1 << 20)), small=rng.choice((0, 300, 1 << 16)),
        slow=rng.choice((0.0, 0.05, 0.5)),
    )  # fmt: skip
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, {name: rng.choice("abcd") for name in plan.operators}, inputs)
    for number in range(rng.randint(1, 5)):
        world.run(rng.choice((0.1, 0.5, 1.0, 3.0)) * rng.random())
        names = [f"{number}{name}" for name in "abcd"[: rng.randint(1, 4)]]
        world.kill_all(names)
        assert not world.forgotten(), world.forgotten()
        world.forget_unnamed("app")
        world.restart("app", {name: rng.choice(names) for name in plan.operators}, rng)
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)


@pytest.mark.slow(10)
@pytest.mark.parametrize("block", blocks(40, 40))
def test_a_part_on_spark_has_the_rows_of_an_undisturbed_run_wherever_everything_is_killed(block: int) -> None:
    in_blocks(run, block, 10)
