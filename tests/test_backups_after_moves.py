"""A component moves to the peer of its backup, whose new peer dies before the old one has a snapshot."""

from __future__ import annotations

import random

import pytest

from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal

PEERS = tuple("abcde")


@pytest.mark.parametrize(("later", "heir"), [(0.0, "d"), (3.0, "b")], ids=["at once", "later"])
def test_the_old_peer_of_a_component_does_not_take_over_before_it_has_a_snapshot(later: float, heir: str) -> None:
    """The old peer has the first backup from then on, and nothing in it at first: the other backup takes over."""
    plan = packets("s", 1).union(packets("t", 2), id="u").filter("bytes > 50", id="x").sink(id="out")
    world = PeerWorld(1, PEERS, Faults(delay=(0.002, 0.02)))
    world.pace = 0.2
    rng = random.Random(1)
    inputs = {name: table(rng, 200) for name in plan.sources}
    where = {"s": "a", "t": "a", "u": "b", "x": "e", "out": "a"}
    world.deploy("app", plan, where, inputs, backups={"u": ("c", "d")})
    assert world.until(lambda: world.status("app") == "running")
    world.run(2.0)
    outcome = world.move("app", "u", "c")
    assert world.until(lambda: bool(outcome))
    assert outcome == [""]
    assert world.graph("app").roles.backups["u"] == ("b", "d")
    assert world.until(lambda: ("app", "u") not in world._nodes["b"].hosting.components)
    world.run(later)
    assert not world.results["app", "out"].ended
    world.crash("c")
    results = world.results["app", "out"]
    assert world.until(lambda: results.ended or world.status("app") == "failed", 300.0), "it stands still"
    assert world.reports["app"][-1].reason == ""
    assert world.where("app")["u"] == heir
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
