"""Peers hold after many applications what they held after few: everything that is reachable from them is counted."""

from __future__ import annotations

import contextlib
import random

import pytest

from synergy_experiments.bench.day import FILLING, application_plan, of_peers
from synergy_nb import ClusterError, Simulation
from synergy_nb.lifecycle import engine

RETAINED = {"ClientLeases._requests", "Requests._requests"}  # of which there are few here
KINDS = 6  # of applications; and peers, so that those of a kind have one origin
EACH = 5  # applications of each kind that come and go between two looks


class Day:
    """Simulated peers, and what they hold after applications have come and gone."""

    def __init__(self) -> None:
        self.simulation = Simulation(KINDS, network="local", cores=2.0, seed=1)
        self.rng = random.Random(1)
        self.number = self.moved = self.refused = 0

    def pass_by(self, applications: int) -> dict[str, int]:
        """Let applications come and go, four at a time; return what peers hold once all have ended."""
        simulation, running = self.simulation, []
        for _ in range(applications):
            self.number += 1
            running.append(simulation.submit(application_plan(self.number, rate=10.0, window=1.0)))
            simulation.run(1.0)
            if self.number % 4 == 0:
                moving = self.rng.choice(running)
                operator = self.rng.choice(sorted(set(moving.plan.operators) - set(moving.plan.sinks)))
                with contextlib.suppress(ClusterError):
                    simulation.move(moving, operator, self.rng.choice(list(simulation.peers)))
                    self.moved += 1
            if len(running) > 3:
                running.pop(0).stop()
        for each in running:
            each.stop()
        simulation.run("5 min")
        return of_peers(simulation, FILLING - RETAINED)


@pytest.mark.slow(20)
def test_what_peers_hold_does_not_grow_with_the_applications_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_RETAINED", 2)
    day = Day()
    first, second, third = (day.pass_by(EACH * KINDS) for _ in range(3))
    assert day.moved > 4
    grown = {
        name: (first.get(name, 0), second[name], found)
        for name, found in third.items()
        # what each application of one kind leaves behind is so many more each time
        if name in second and found - second[name] >= EACH and second[name] - first.get(name, 0) >= EACH
    }
    assert grown == {}
