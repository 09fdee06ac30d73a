"""A component moves to the peer of its backup, and its new peer dies: the old one has the backup from then on."""

from __future__ import annotations

import random

import pytest

from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal

PEERS = tuple("abcde")
S, T = packets("s", 1), packets("t", 2)
MOVED: dict[str, Stream] = {
    "union": S.union(T, id="u").filter("bytes > 50", id="x"),
    "aggregate": S.aggregate("link", "200 ms every 50 ms", n="count(*)", total="sum(bytes)", id="u"),
    "join": S.join(T, on="link", within="60 ms", id="u"),
    "filter": S.filter("bytes > 50", id="u"),
    "source": packets("u", 1).filter("bytes > 50", id="x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rest", [0.0, 0.02, 3.0], ids=lambda rest: f"{rest:g} s later")
@pytest.mark.parametrize("others", [(), ("d",)], ids=["its only backup", "its first backup"])
@pytest.mark.parametrize("moved", MOVED)
def test_the_old_peer_of_a_component_takes_over_from_the_one_to_whose_backup_it_moved(
    moved: str, others: tuple[str, ...], rest: float
) -> None:
    """It had been without a backup until the next snapshot: the application failed, or stood still."""
    plan = MOVED[moved].sink(id="out")
    world = PeerWorld(1, PEERS, Faults(delay=(0.002, 0.02), capture=0.005))
    world.pace = 0.2
    rng = random.Random(1)
    inputs = {name: table(rng, 200) for name in plan.sources}
    peers = {"u": "b", "x": "e"}
    where = {name: peers.get(name, "a") for name in plan.operators}
    world.deploy("app", plan, where, inputs, backups={"u": ("c", *others)})
    assert world.until(lambda: world.status("app") == "running")
    world.run(2.0)
    outcome = world.move("app", "u", "c")
    assert world.until(lambda: bool(outcome))
    assert outcome == [""]
    assert world.graph("app").roles.backups["u"] == ("b", *others)
    assert world.until(lambda: ("app", "u") not in world.nodes["b"].hosting.components)
    world.run(rest)
    assert not world.results["app", "out"].ended
    world.crash("c")
    results = world.results["app", "out"]
    assert world.until(lambda: results.ended or world.status("app") == "failed", 300.0), "it stands still"
    assert world.reports["app"][-1].reason == ""
    assert world.where("app")["u"] == "b"
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
