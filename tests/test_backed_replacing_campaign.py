"""A plan with backups takes the place of another one while peers die: each row is of one plan, then of the other."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

import polars as pl
import pytest

from synergy_nb import ClusterError, Simulation, source
from synergy_nb.plan import Plan
from synergy_nb.simulator.simulated_application import SimulatedApplication
from tests.campaigns import blocks

KINDS: Final = ("filter", "count", "own", "join", "union")
TECHNIQUES: Final = ("degree 2", "synchronized 2", "ordered 2", "degree 3")


class Change:
    """A schedule: two plans that differ in one number, and peers that may die."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.kind = rng.choice(KINDS)
        # whether source and sink are at peers of their own, so that the origin may die, too
        self.bound = rng.random() < 0.4
        self.numbers = rng.sample((100, 900, 1200) if self.kind == "filter" else (1, 2, 3), 2)
        self.asked = rng.choice((None, *TECHNIQUES)), rng.choice(TECHNIQUES)
        self.simulation = Simulation(peers=rng.randrange(6, 9), seed=seed)

    def plan(self, which: int, *, whole: bool = False) -> Plan:
        """The old plan or the new one; ``whole``: without replicas, of rows that come at once."""
        number, asked = self.numbers[which], None if whole else self.asked[which]
        at = "peer-3" if self.bound else None
        packets = source("packets", seed=3, rate="40 tuples/s", id="packets", at=at)
        if whole:
            packets = source("packets", seed=3, rate="40 tuples/s", id="packets", count=4000, speed=0)
        last: dict[str, Any] = {} if whole or not self.bound else {"at": "peer-2"}
        large = packets.filter("bytes > 100", id="large")
        match self.kind:
            case "filter":
                made = packets.filter(f"bytes > {number}", id="large")
            case "count":
                made = large.count(window=f"{number} s", id="n")
            case "own":
                made = large.aggregate("link", f"{number} s", n="count(*)", id="n", availability=asked)
                asked = None
            case "join":
                few, fewer = (packets.filter(f"bytes > {least}", id=f"over-{least}") for least in (1300, 1450))
                made = few.join(fewer, on="link", within=f"{number}00 ms", id="j")
            case _:
                small = packets.filter("bytes < 200", id="small")
                both = packets.filter("bytes > 1000", id="few").union(small, id="u")
                made = both.aggregate("link", f"{number} s", n="count(*)", id="n")
        return made.sink("r", id="out", delay="5 s", availability=asked, **last)

    def strike(self) -> None:
        """Have a peer die whose death ends no application that has backups."""
        run = [each for each in self.simulation.applications.values() if each.status == "running"]
        needed, may = set[str](), set[str]()
        for each in run:
            needed |= {at for name, at in each.graph.items() if name not in each.backups}
            may |= {at for name, kept in each.backups.items() for at in (each.graph[name], *kept)}
            (may if self.bound and each.origin == "peer-1" else needed).add(each.origin)
        if dies := sorted(may.intersection(self.simulation.peers) - needed):
            self.simulation.world.crash(self.rng.choice(dies))

    def replaced(self, application: SimulatedApplication) -> bool:
        """Replace the plan while a peer dies; returns whether the new one runs then."""
        rng, simulation = self.rng, self.simulation
        simulation.world.after(rng.uniform(0.0, rng.choice((0.5, 12.0))), self.strike)
        try:
            application.replace(self.plan(1), timeout="60 s")
        except ClusterError:
            return False
        return True


def checked(seed: int) -> bool:
    """Check one schedule; returns whether the plan was replaced."""
    change = Change(seed)
    rng, simulation = change.rng, change.simulation
    application = simulation.submit(change.plan(0), origin="peer-1")
    tables = application.stream()
    got = [next(tables)]
    simulation.run(rng.uniform(2.0, 6.0))
    replaced = change.replaced(application)
    simulation.run(20.0)
    if rng.random() < 0.5:
        change.strike()
        simulation.run(20.0)
    simulation.run(3.0)
    assert application.status == "running", f"it is {application.status}: {application.reason}"
    application.stop()
    rows = sorted(pl.concat([*got, *tables]).rows())
    *times, last = sorted({row[0] for row in rows})
    rows = [row for row in rows if row[0] < last]  # of the last time, not all may be there
    before, after = (sorted(simulation.submit(change.plan(which, whole=True)).results().rows()) for which in (0, 1))
    # the time of the change, up to which rows are of the old plan: that of a row, or before one of the new plan
    until = [*times, *(time - timedelta(microseconds=1) for time in times)] if replaced else [last]
    assert any(
        rows
        == [row for row in before if row[0] <= time and row[0] < last] + [row for row in after if time < row[0] < last]
        for time in until
    ), "the rows are not those of both plans"
    return replaced


@pytest.mark.slow(30)
@pytest.mark.parametrize("block", blocks(100, 100))
def test_rows_are_those_of_both_plans_whichever_peers_die(block: int) -> None:
    seeds = range(1000 + 2 * block, 1002 + 2 * block)
    found = set()
    for seed in seeds:
        try:
            found.add(checked(seed))
        except AssertionError as error:
            raise AssertionError(f"checked({seed}): {error}") from error
    assert True in found
