"""Streams under faults: whatever is lost, doubled, overtaken, cut, crashed, hung, slow or moved, results stay the same.

Every schedule is run once without any fault, and once with faults, backups and moves; at each sink the same rows have
to come, and the run has to end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import polars as pl
import pytest

from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.scripted import Faults
from synergy_nb.simulator.streaming import StreamWorld

PEERS = tuple("abcdefg")
SAFE = ("a", "b")  # peers of sinks, which do not die: sinks have no backups
ROWS = 120
END_S = 120.0


def table(rng: random.Random, rows: int) -> pl.DataFrame:
    times = sorted(rng.randrange(2_000_000) for _ in range(rows))
    return pl.DataFrame(
        {
            "time": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")),
            "v": [rng.randrange(10) for _ in range(rows)],
            "w": [rng.random() for _ in range(rows)],
        }
    )


def stream(name: str) -> Stream:
    return source("python", name=name, columns={"v": "int", "w": "float"}, rate=100.0, id=name)


def stage(rng: random.Random, upper: Stream, number: int) -> Stream:
    match rng.choice(("filter", "project", "all")):
        case "filter":
            return upper.filter(f"v <> {rng.randrange(10)}", id=f"f{number}")
        case "project":
            return upper.project("v", w="w * 2", id=f"p{number}")
        case _:
            return upper.filter("v >= 0", id=f"g{number}")


def query(rng: random.Random) -> Plan:
    """A chain, a split, unions, a join or a mixture of them."""
    one = stream("n")
    for number in range(rng.randint(0, 2)):
        one = stage(rng, one, number)
    shape = rng.choice(("chain", "union", "unions", "unions", "join", "diamond", "diamond"))
    if shape == "union":
        one = stage(rng, one.union(stage(rng, stream("m"), 7), id="u"), 8)
    elif shape == "unions":
        one = one.union(stream("m"), id="u1")
        if rng.random() < 0.5:
            one = stage(rng, one, 4)
        one = stage(rng, one.union(stream("k"), id="u2"), 6).union(stream("l"), id="u3")
    elif shape == "join":
        one = one.join(stage(rng, stream("m"), 7), on="v", within="20 ms", id="j")
        return one.sink("out", id="out")
    elif shape == "diamond":
        one = stage(rng, one, 5).union(stage(rng, one, 6), id="u").union(stage(rng, stream("m"), 7), id="u2")
    if rng.random() < 0.3:
        one = one.aggregate(by=["v"], window="100 ms", total="count(*)", id="agg")
    return one.sink("out", id="out")


def placed(rng: random.Random, plan: Plan, degree: int) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Where operators go; often few peers have them all, so that one death takes several."""
    peers: dict[str, str] = {}
    backups: dict[str, tuple[str, ...]] = {}
    busy = rng.sample([peer for peer in PEERS if peer not in SAFE], rng.choice((1, 2, 5)))
    for name, operator in plan.operators.items():
        peers[name] = rng.choice(SAFE if operator.kind == "sink" else busy)
        if operator.kind != "sink":
            backups[name] = tuple(rng.sample([peer for peer in PEERS if peer != peers[name]], degree - 1))
    return peers, backups


def inputs_of(rng: random.Random, plan: Plan) -> Mapping[str, pl.DataFrame]:
    return {name: table(rng, ROWS) for name, operator in plan.operators.items() if operator.kind == "source"}


def sorted_rows(rows: pl.DataFrame) -> list[tuple[object, ...]]:
    return sorted(rows.rows(), key=repr)


def run(seed: int) -> None:
    rng = random.Random(seed)
    plan = query(rng)
    peers, backups = placed(rng, plan, degree=rng.choice((2, 3)))
    inputs = inputs_of(rng, plan)

    calm = StreamWorld(seed, PEERS)
    calm.deploy("app", plan, peers, inputs)
    calm.run(END_S)
    assert calm.ended("app", "out")

    faults = Faults(
        loss=rng.choice((0.0, 0.0, 0.02, 0.1)),
        duplication=rng.choice((0.0, 0.1)),
        reordering=rng.choice((0.0, 0.0, 0.1)),
        slow=rng.choice((0.0, 0.3, 0.6)),
    )
    world = StreamWorld(seed, PEERS, faults, codec=seed % 4 == 0)
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", plan, peers, inputs, backups=backups)
    crashes = 0
    for _ in range(rng.randint(1, 8)):
        world.run(rng.uniform(0.05, 0.8))
        match rng.choice(("crash", "hang", "cut", "move", "move", "calm")):
            case "crash" if crashes < len(PEERS) - 4:
                victim = rng.choice([peer for peer in PEERS if peer not in SAFE])
                if survives(world, victim):
                    world.crash(victim)
                    crashes += 1
            case "hang":
                world.hang(rng.choice(PEERS), rng.uniform(0.05, 1.0))
            case "cut":
                one, other = rng.sample(PEERS, 2)
                world.cut(one, other, rng.uniform(0.01, 0.5))
            case "move":
                movable = [name for name in plan.operators if plan.operators[name].kind != "sink"]
                world.move("app", rng.choice(movable), rng.choice(PEERS), rng.uniform(0.05, 0.5))
    world.run(END_S)
    assert not world.failures(), world.failures()
    assert world.ended("app", "out"), "it stands still"
    assert sorted_rows(world.rows("app", "out")) == sorted_rows(calm.rows("app", "out"))
    assert world.most_bytes < 1 << 20


def survives(world: StreamWorld, victim: str) -> bool:
    """Whether each component on a peer has a backup that can take over now."""
    if world.dead(victim) or world.recovering():
        return False
    for name, place in world.deployments["app"].places.items():
        if place.active == victim:
            able = [peer for peer in (*place.backups, place.follower) if peer and world.ready("app", name, peer)]
            if not any(not world.dead(peer) for peer in able):
                return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_results_are_those_of_the_undisturbed_run(seed: int) -> None:
    run(seed)
