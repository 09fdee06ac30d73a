"""Active replicas with a folder: who dies goes on from there while the others go on without it, and nothing is lost.

Replicas are killed, hang or are cut off, one at a time or several, also while others of them begin from the folder; and
all peers are killed at once. A peer that was only silent for a while goes on meanwhile with what others have begun.
"""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated
from tests.campaigns import ALL, blocks
from tests.durable.durable_world import DurableWorld
from tests.moving_schedules import KEYS, table
from tests.replica_schedules import ideal, query, read_by
from tests.stream_schedules import drawn_faults, finish, in_blocks, piece


class ActiveWorld(DurableWorld):
    """Peers with a folder, from which lost replicas go on at others, one after another."""

    def _without(self, application: str, operator: str, assignment: Assignment, dead: str) -> Assignment:
        return assignment

    def replace_dead(self, dead: str) -> None:
        """Have each replica that was lost go on at another peer; the others of its operator do not wait for it."""
        self.doubted.discard(dead)
        generation = self.generation
        for application, known in self.deployments.items():
            for name, each in known.assignments.items():
                if each.active == dead:
                    after = self.rng.choice((0.0, 0.1, 1.0)) * self.rng.random()
                    self.after(after, self._go_on, application, name, each.epoch, generation)

    def _go_on(self, application: str, operator: str, epoch: int, generation: int) -> None:
        living = [peer for peer in self.nodes if not self.dead(peer) and peer not in self.doubted]
        known = self.deployments[application].assignments[operator]
        if generation == self.generation and known.epoch == epoch and living:
            new = msgspec.structs.replace(known, active=self.rng.choice(living), epoch=epoch + 1)
            self._assign(application, operator, new)


def run(seed: int, path: Path | None = None) -> None:
    """An application with active replicas, of its sources as well or not, of which some or all peers are killed.

    ``path``: where the folder is on a disk that loses its power, too, now and then.
    """
    rng = random.Random(seed)
    plan, degree = query(rng), rng.choice((2, 2, 3))
    if rng.random() < 0.5:
        plan = read_by(plan, degree)
    inputs = {name: table(rng, 60) for name in plan.sources}
    expanded = replicated(plan, degree)
    single = [
        name for name in expanded.operators if name not in {each for a in replicas_of(expanded).values() for each in a}
    ]
    limits = Limits(piece=piece(seed))
    if seed % 3 == 1:  # what a lost replica has yet to read is more than is retained: all wait for it then
        limits = limits._replace(window=500, retain=1_000)
    world = ActiveWorld(
        seed, [f"0{name}" for name in "abcdef"], drawn_faults(rng), codec=seed % 4 == 0,
        limits=limits, segment=rng.choice((300, 4_000, 1 << 20)),
        small=rng.choice((0, 300, 1 << 16)), slow=rng.choice((0.0, 0.05, 0.5)),
        disks=None if path is None else path / str(seed),
    )  # fmt: skip
    world.secrets.update(KEYS)
    world.pace = rng.choice((0.02, 0.06))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))

    def placed(peers: list[str]) -> dict[str, str]:
        return {name: peers[0] if name in single else rng.choice(peers[1:] or peers) for name in expanded.operators}

    world.deploy("app", expanded, placed(list(world.nodes)), inputs)
    for generation in range(1, rng.randint(1, 4) + 1):
        for _ in range(rng.randint(0, 3)):
            world.run(rng.choice((0.01, 0.1, 0.5, 1.0)) * rng.random())
            safe = {world.deployments["app"].assignments[name].active for name in single}
            victims = [peer for peer in world.nodes if not world.dead(peer) and peer not in safe]
            if len(victims) > 1:
                victim = rng.choice(victims)
                match rng.choice(("crash", "crash", "suspect", "hang")):
                    case "crash":
                        world.crash(victim)
                    case "suspect":
                        world.suspect(victim, rng.choice((0.5, 3.0)))
                    case _:
                        world.hang(victim, rng.choice((0.05, 1.0, 8.0)))
        world.run(rng.choice((0.01, 0.1, 0.5, 1.0)) * rng.random())
        if generation > 1 or rng.random() < 0.5:
            names = [f"{generation}{name}" for name in "abcdef"[: rng.randint(2, 6)]]
            world.kill_all(names)
            world.doubted.clear()
            if path is not None and rng.random() < 0.8:
                world.lose_power()
            assert not world.forgotten(), world.forgotten()
            world.restart("app", placed(names), rng)
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    found, wanted = sorted(world.results["app", "out"].rows.rows(), key=repr), ideal(plan, inputs)
    assert found == wanted, f"{len(found)} rows; expected {len(wanted)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_row_is_lost_or_doubled_whichever_replicas_are_killed(seed: int) -> None:
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500 if ALL else 2))
def test_none_is_though_the_power_fails(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(100, 100))
def test_none_is_in_many_schedules(block: int) -> None:
    in_blocks(run, block, 10)
