"""A schedule of faults for one application of any shape."""

from __future__ import annotations

import random

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.streams.log.log import Limits
from tests.campaigns import CUTS
from tests.moving_schedules import undisturbed
from tests.stream_schedules import (
    PEERS,
    SAFE,
    drawn_faults,
    finish,
    inputs_of,
    movable,
    piece,
    placed,
    query,
    sorted_rows,
    survives,
)


class WeighedWorld(StreamWorld):
    """A world that looks at the size of each log after each event.

    ``most_bytes``: bytes that a log held at most, of a component or a copy.
    """

    most_bytes = 0

    def _work(self, peer: str) -> None:
        super()._work(peer)
        hosting, most = self.nodes[peer].hosting, self.most_bytes  # no calls in these loops: each event comes by
        for component in hosting.components.values():
            if component.log.size > most:
                most = component.log.size
        for role in hosting.roles.found.values():
            if role.copy is not None and role.copy.log.size > most:
                most = role.copy.log.size
        self.most_bytes = most


def run(seed: int) -> None:
    """One application of any shape."""
    rng = random.Random(seed)
    plan = query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((2, 3)))
    inputs = inputs_of(rng, plan)

    wanted = undisturbed(plan, inputs)

    world = WeighedWorld(seed, PEERS, drawn_faults(rng), codec=seed % 4 == 0, limits=Limits(piece=piece(seed)))
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    crashes = 0
    for _ in range(rng.randint(1, 8)):
        world.run(rng.uniform(0.05, 0.8))
        match rng.choice(("crash", "hang", "cut", "move", "move", "calm")):
            case "crash" if crashes < len(PEERS) - 4:
                victim = rng.choice([peer for peer in PEERS if peer not in SAFE])
                if not world.dead(victim) and survives(world, (victim,)):
                    world.crash(victim)
                    crashes += 1
            case "hang":
                world.hang(rng.choice(PEERS), rng.uniform(0.05, 1.0))
            case "cut":
                one, other = rng.sample(PEERS, 2)
                world.cut(one, other, rng.uniform(0.01, 0.5), rng.choice(CUTS))
            case "move":
                world.move("app", rng.choice(movable(world, "app")), rng.choice(PEERS), rng.uniform(0.05, 0.5))
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    assert sorted_rows(world.results["app", "out"].rows) == sorted_rows(wanted)
    assert world.most_bytes < 1 << 20
