"""Many applications on few peers: all peers are killed at once, also while some restart, and each of them goes on.

Peers are busy now and then, and begin with their components at different moments: so the components of an application
are not saved at the same moments, as they are where nothing disturbs them.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.plan import Plan
from tests.campaigns import ALL
from tests.durable.durable_world import DurableWorld
from tests.moving_schedules import undisturbed
from tests.quick_cases import quick_first
from tests.stream_schedules import drawn_faults, finish, inputs_of, piece, query, sorted_rows, stream

PACE_S = 0.5  # between two batches of a source: so an application has several snapshots before it ends


def counts(rng: random.Random) -> Plan:
    """A filter that lets few tuples through, and windows: between their rows, promises come alone."""
    few = stream("n").filter(f"v = {rng.randrange(4)}", id="f")
    return few.aggregate(by=["v"], window="300 ms", n="count(*)", id="agg").sink("out", id="out")


def run(seed: int, applications: int = 12, path: Path | None = None) -> None:
    """Applications of three shapes, whose peers are all killed one to four times, also before all have restarted.

    ``path``: where the folder is on disks that lose their power, too, now and then.
    """
    rng = random.Random(seed)
    plans = [counts(rng), counts(rng), query(rng)]
    inputs = [inputs_of(rng, plan, groups=5, rows=80) for plan in plans]
    wanted = [sorted_rows(undisturbed(plan, rows)) for plan, rows in zip(plans, inputs, strict=True)]
    shapes = {f"app{number}": number % len(plans) for number in range(applications)}
    faults = drawn_faults(rng)
    faults.deployment = rng.choice((0.05, 1.0, 1.0))
    world = DurableWorld(
        seed, [f"0.{number}" for number in range(rng.randint(4, 8))], faults,
        limits=Limits(piece=piece(seed)), segment=rng.choice((4_000, 1 << 20)), small=rng.choice((300, 1 << 16)),
        slow=rng.choice((0.0, 0.05, 0.3)), disks=None if path is None else path / str(seed),
    )  # fmt: skip
    world.pace = PACE_S
    for name, shape in shapes.items():
        world.clients[name, "out"] = rng.choice((0.1, 1.0))
        peers = {each: rng.choice(sorted(world.nodes)) for each in plans[shape].operators}
        world.deploy(name, plans[shape], peers, inputs[shape])
    for generation in range(1, rng.randint(2, 5)):
        lasts = rng.choice((0.2, 5.0, 8.0)) * rng.random()
        for peer in [each for each in world.nodes if not world.dead(each)]:
            world.after(lasts * rng.random(), world.hang, peer, rng.uniform(0.0, 1.0))
        world.run(lasts)
        living = [f"{generation}.{each}" for each in range(rng.randint(4, 8))]
        world.kill_all(living)
        if path is not None and rng.random() < 0.8:
            world.lose_power()
        assert not world.forgotten(), world.forgotten()
        late = rng.choice((0.0, 0.0, 0.5))  # seconds in which applications restart: others are killed before
        for name, shape in shapes.items():
            peers = {each: rng.choice(living) for each in plans[shape].operators}
            world.after(late * rng.random(), world.restart_in, generation, name, peers, rng)
    finish(world)
    assert not world.failures(), world.failures()
    for name, shape in shapes.items():
        assert world.results[name, "out"].ended, f"{name} stands still"
        assert sorted_rows(world.results[name, "out"].rows) == wanted[shape], name


@pytest.mark.parametrize("seed", quick_first(range(121, 521 if ALL else 122), 1))
def test_of_many_applications_that_are_killed_at_once_each_goes_on(seed: int) -> None:
    run(seed, 50 if seed % 10 == 0 else 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100 if ALL else 1))
def test_each_goes_on_though_the_power_fails(seed: int, tmp_path: Path) -> None:
    run(seed, 6, tmp_path)
