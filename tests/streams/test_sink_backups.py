"""The peer of a sink dies with all that it executes: who reads its results at another peer reads each row once."""

from __future__ import annotations

import random

import pytest

from synergy_nb import csv
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.cuts import Cut
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.quick_cases import quick_first
from tests.replica_schedules import ideal

PEERS = tuple("abcdef")


@pytest.mark.parametrize("seed", quick_first(range(20), 2))
def test_a_sink_that_is_taken_over_gives_no_other_rows_at_the_positions_that_were_read(seed: int) -> None:
    rng = random.Random(seed)
    own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
    world = PeerWorld(seed, PEERS, Faults(delay=(0.002, 0.02)), config=own)
    for peer in PEERS:
        world.control.report(peer, OfferComponents())
    world.run(2.0)
    world.pace = 0.2
    merged = packets("s", 1).union(packets("t", 2), id="u")
    plan = merged.filter("bytes > 100", id="f").sink("out", id="out", to=csv("a.csv"), availability="degree 2")
    inputs = {name: table(rng, 300) for name in plan.sources}
    where = {"s": "d", "t": "e", "u": "b", "f": "b", "out": "b"}
    backups = dict.fromkeys(("u", "f", "out"), ("c",))
    world.deploy("app", plan, where, inputs, origin="a", backups=backups)
    assert world.until(lambda: world.status("app") == "running")
    assert world.deployments["app"].assignments["out"].synchronized == ("c",)
    results = world.results["app", "out"]
    enough = rng.randrange(1, 150)
    assert world.until(lambda: results.height >= enough, 60.0)
    # the backup lacks what is made from here on: rows that the reader got of it would come in another order
    world.cut("b", "c", 5.0, Cut.LOSE)
    world.run(rng.uniform(0.05, 0.4))
    world.crash("b")
    assert world.until(lambda: world.where("app")["out"] == "c", 20.0), world.failures()
    assert world.until(lambda: results.ended, 300.0), world.failures()
    positions = [item.position for item in results.items if hasattr(item, "table")]
    assert positions == sorted(positions)
    assert sorted(results.rows.rows(), key=repr) == ideal(plan, inputs)
