"""Many applications on few peers: peers are killed, one or all, also while some restart, and each of them goes on.

Peers are busy now and then, and begin with their components at different moments: so the components of an application
are not saved at the same moments, as they are where nothing disturbs them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
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


class Run:
    """Applications of three shapes on four to eight peers, as a seed gives them.

    ``path``: where the folder is on disks that lose their power, too, now and then.
    """

    def __init__(self, seed: int, applications: int, path: Path | None = None, deployment: float | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.plans = [counts(rng), counts(rng), query(rng)]
        inputs = [inputs_of(rng, plan, groups=5, rows=80) for plan in self.plans]
        pairs = zip(self.plans, inputs, strict=True)
        self.wanted = [sorted_rows(undisturbed(plan, rows)) for plan, rows in pairs]
        self.shapes = {f"app{number}": number % len(self.plans) for number in range(applications)}
        faults = drawn_faults(rng)
        faults.deployment = rng.choice((0.05, 1.0, 1.0)) if deployment is None else deployment
        self.world = world = DurableWorld(
            seed, [f"0.{number}" for number in range(rng.randint(4, 8))], faults,
            limits=Limits(piece=piece(seed)), segment=rng.choice((4_000, 1 << 20)), small=rng.choice((300, 1 << 16)),
            slow=rng.choice((0.0, 0.05, 0.3)), disks=None if path is None else path / str(seed),
        )  # fmt: skip
        world.pace = PACE_S
        for name, shape in self.shapes.items():
            world.clients[name, "out"] = rng.choice((0.1, 1.0))
            world.deploy(name, self.plans[shape], self.placed(name, sorted(world.nodes)), inputs[shape])

    def placed(self, application: str, living: Sequence[str]) -> dict[str, str]:
        return {each: self.rng.choice(living) for each in self.plans[self.shapes[application]].operators}

    @property
    def living(self) -> list[str]:
        return [each for each in self.world.nodes if not self.world.dead(each)]

    def check(self) -> None:
        """Let all go on, and compare the rows of each with those of an undisturbed run."""
        world = self.world
        finish(world)
        assert not world.failures(), world.failures()
        for name, shape in self.shapes.items():
            assert world.results[name, "out"].ended, f"{name} stands still"
            assert sorted_rows(world.results[name, "out"].rows) == self.wanted[shape], name


def run(seed: int, applications: int = 12, path: Path | None = None) -> None:
    """All peers are killed at once, one to four times, also before all applications have restarted."""
    it = Run(seed, applications, path)
    world, rng = it.world, it.rng
    for generation in range(1, rng.randint(2, 5)):
        lasts = rng.choice((0.2, 5.0, 8.0)) * rng.random()
        for peer in it.living:
            world.after(lasts * rng.random(), world.hang, peer, rng.uniform(0.0, 1.0))
        world.run(lasts)
        living = [f"{generation}.{each}" for each in range(rng.randint(4, 8))]
        world.kill_all(living)
        if path is not None and rng.random() < 0.8:
            world.lose_power()
        assert not world.forgotten(), world.forgotten()
        late = rng.choice((0.0, 0.0, 0.5))  # seconds in which applications restart: others are killed before
        for name in it.shapes:
            peers = it.placed(name, living)
            world.after(late * rng.random(), world.restart_in, generation, name, peers, rng)
    it.check()


def run_late(seed: int, applications: int = 12, path: Path | None = None) -> None:
    """Single peers are killed: what had a part there is restarted, and others hear up to a second late of that.

    Until then they go on with the attempt that has ended, and write. Some attempts are given up at once for another
    one, and in the end all peers may be killed.
    """
    it = Run(seed, applications, path, deployment=1.0)
    world, rng = it.world, it.rng

    def restart(name: str) -> None:
        if not world.generation:  # else all peers were killed meanwhile
            world.restart(name, it.placed(name, it.living), rng)

    for _ in range(rng.randint(1, 3)):
        world.run(rng.uniform(0.5, 4.0))
        world.crash(dead := rng.choice(it.living))
        found = {name: each.assignments.values() for name, each in world.deployments.items()}
        lost = [name for name in it.shapes if dead in {each.active for each in found[name]}]
        for name in lost:
            restart(name)
            if rng.random() < 0.3:
                world.after(rng.random(), restart, name)
    if rng.random() < 0.3:
        world.run(rng.random())
        world.kill_all(living := [f"1.{each}" for each in range(4)])
        if path is not None:
            world.lose_power()
        assert not world.forgotten(), world.forgotten()
        for name in it.shapes:
            world.restart(name, it.placed(name, living), rng)
    it.check()


@pytest.mark.parametrize("seed", quick_first(range(121, 521 if ALL else 122), 1))
def test_of_many_applications_that_are_killed_at_once_each_goes_on(seed: int) -> None:
    run(seed, 50 if seed % 10 == 0 else 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100 if ALL else 1))
def test_each_goes_on_though_the_power_fails(seed: int, tmp_path: Path) -> None:
    run(seed, 6, tmp_path)


# without fences, components of the quick ones lack what their producers have let go of
@pytest.mark.parametrize(
    ("seed", "applications"),
    quick_first([(9, 2), (10, 2), *((each, 12) for each in range(200 if ALL else 2))], 2),
)
def test_an_attempt_that_goes_on_though_it_has_ended_takes_nothing_from_the_next(seed: int, applications: int) -> None:
    run_late(seed, applications)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 300 if ALL else 201))
def test_nor_does_it_though_the_power_fails(seed: int, tmp_path: Path) -> None:
    run_late(seed, 6, tmp_path)
