"""A component that repeats the order of one before it is replaced itself before it has read all of that order."""

from __future__ import annotations

import random

import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import Role
from synergy_nb.simulator.scripted_faults import Faults
from tests.stream_schedules import finish, sorted_rows, stream, table

SERVICE_S = 0.01  # a tuple, so that the second peer repeats for about a second what the first one had read


@pytest.mark.parametrize("seed", range(3))
def test_who_replaces_a_component_that_still_repeats_another_one_asks_all_peers_for_the_order(seed: int) -> None:
    """The second peer of a union stops when it hears of the third; its reader depends on more than it has read.

    It must not state its order as the whole one: the third would read on in an order of its own, and emit other tuples
    at positions that the reader has.
    """
    rng = random.Random(seed)
    plan = stream("n").union(stream("m"), id="u").filter("v >= 0", id="f").sink("out", id="out")
    inputs = {name: table(rng, 150) for name in "nm"}
    world = StreamWorld(seed, "abcde", Faults(), service=SERVICE_S)
    peers = {"n": "a", "m": "b", "u": "c", "f": "b", "out": "a"}
    world.deploy("app", plan, peers, inputs, backups={"u": ("d", "e")})
    world.run(1.0)
    world.crash("c")
    world.run(0.5)
    second = world.nodes["d" if world.deployments["app"].assignments["u"].active == "d" else "e"].hosting.components
    component = second["app", "u"]
    assert component.role is Role.ACTIVE
    world.suspect(component.peer, 0.05)
    world.run(0.35)
    assert component.reading.prescribed, "it still repeats"
    assert component.failed == "it was removed", "but has been replaced"
    finish(world)
    assert not world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    found = world.results["app", "out"].rows
    assert sorted_rows(found) == sorted_rows(inputs["n"].vstack(inputs["m"]).select(found.columns))
