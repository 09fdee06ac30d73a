"""Schedules of streams under faults: queries, where their operators are, and what happens to the peers.

Everything is drawn from a seed. Times in schedules are virtual.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

import polars as pl

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.scripted_faults import Faults
from tests.campaigns import CUTS

PEERS = tuple("abcdefg")
SAFE = ("a", "b")  # peers of sinks, which do not die: sinks have no backups
ROWS = 120
END_S = 120.0  # seconds within which every run ends
AFTER_S = 10.0  # seconds after the end in which what is on its way, and what timers do, has to do no harm

Row = tuple[object, ...]


def table(rng: random.Random, rows: int, groups: int = 10) -> pl.DataFrame:
    """Tuples of two seconds; ``w`` tells them apart."""
    times = sorted(rng.randrange(2_000_000) for _ in range(rows))
    return pl.DataFrame(
        {
            "time": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")),
            "v": [rng.randrange(groups) for _ in range(rows)],
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


def deep_query(rng: random.Random) -> Plan:
    """Components with several inputs in a row, and between them filters that drop most, or nothing."""
    left = [stream(name) for name in "nmkl"[: rng.choice((2, 3, 3, 4))]]
    for number in range(rng.choice((2, 3, 3, 4))):
        one = left.pop(rng.randrange(len(left)))
        other = left.pop(rng.randrange(len(left))) if left else one.filter("w < 0.5", id=f"h{number}")
        if rng.random() < 0.5:
            one = one.join(other, on="v", within="40 ms", id=f"j{number}").project("v", "w", id=f"p{number}")
        else:
            one = one.union(other, id=f"u{number}")
        if rng.random() < 0.5:
            one = one.filter(f"v = {rng.randrange(3)} or w < 0.2", id=f"f{number}")
        left.append(one)
    one = left[0]
    for number, other in enumerate(left[1:], 7):
        one = one.union(other, id=f"u{number}")
    return one.sink("out", id="out")


def shared_query(rng: random.Random) -> Plan:
    """Tuples of one or several sources, all of them, and an operator whose stream others read, too."""
    one = stream("a")
    for number in range(rng.randint(0, 2)):
        one = one.union(stream("bc"[number]), id=f"u{number}")
    return one.filter("v >= 0", id="end").sink("out", id="out")


def reading_query(rng: random.Random) -> Plan:
    """All tuples of a stream that it may share, alone or with those of a source of its own."""
    one = stream("n")
    if rng.random() < 0.5:
        one = one.filter("v >= 0", id="g")
    if rng.random() < 0.5:
        one = one.union(stream("m"), id="u")
    return one.filter("v >= 0", id="end").sink("out", id="out")


Placement = tuple[dict[str, str], dict[str, tuple[str, ...]]]


def placed(rng: random.Random, plan: Plan, degree: int, lost: Collection[str] = ()) -> Placement:
    """Where operators go; often few peers have them all, so that one death takes several; none is on a lost peer."""
    alive = [peer for peer in PEERS if peer not in lost]
    peers: dict[str, str] = {}
    backups: dict[str, tuple[str, ...]] = {}
    mortal = [peer for peer in alive if peer not in SAFE]
    busy = rng.sample(mortal, min(rng.choice((1, 2, 5)), len(mortal)))
    for name, operator in plan.operators.items():
        peers[name] = rng.choice(SAFE if operator.kind == "sink" else busy)
        if operator.kind != "sink":
            backups[name] = tuple(rng.sample([peer for peer in alive if peer != peers[name]], degree - 1))
    return peers, backups


def inputs_of(rng: random.Random, plan: Plan, groups: int = 10, rows: int = ROWS) -> Mapping[str, pl.DataFrame]:
    return {name: table(rng, rows, groups) for name, operator in plan.operators.items() if operator.kind == "source"}


def sorted_rows(rows: pl.DataFrame) -> list[Row]:
    return sorted(rows.rows(), key=repr)


def drawn_faults(rng: random.Random) -> Faults:
    return Faults(
        loss=rng.choice((0.0, 0.0, 0.02, 0.1)),
        duplication=rng.choice((0.0, 0.1)),
        reordering=rng.choice((0.0, 0.0, 0.1)),
        slow=rng.choice((0.0, 0.3, 0.6)),
    )


def hostile_faults(rng: random.Random) -> Faults:
    """Much is lost, copies are behind, snapshots and deployments come late."""
    return Faults(
        loss=rng.choice((0.0, 0.1, 0.25)),
        duplication=rng.choice((0.0, 0.2)),
        reordering=rng.choice((0.0, 0.1, 0.3)),
        slow=rng.choice((0.0, 0.3, 0.6)),
        late=rng.choice((0.0, 0.2)),
        capture=rng.choice((0.01, 0.3)),
    )


def survives(world: StreamWorld, victims: Collection[str]) -> bool:
    """Whether each component on these peers has a copy elsewhere that can take over now."""
    lost = world.doubted.union(victims)
    for application, deployment in world.deployments.items():
        for name, assignment in deployment.assignments.items():
            if assignment.active in lost:
                able = [peer for peer in (*assignment.backups, assignment.follower) if peer and peer not in lost]
                if not any(world.ready(application, name, peer) and not world.dead(peer) for peer in able):
                    return False
    return True


def movable(world: StreamWorld, application: str) -> list[str]:
    """The operators of an application that may move: all but sinks."""
    return [name for name, assignment in world.deployments[application].assignments.items() if not assignment.sink]


KINDS = ("crash", "crash", "two", "hang", "zombie", "cut", "move", "move", "calm")


def disturb(
    world: StreamWorld,
    rng: random.Random,
    events: int,
    longest: float = 0.8,
    most_deaths: int = 3,
    kinds: Sequence[str] = KINDS,
) -> None:
    """Let things happen: deaths of one or two, peers that hang or come back when they are replaced, cuts and moves."""
    deaths = 0
    mortal = [peer for peer in PEERS if peer not in SAFE]
    for _ in range(events):
        world.run(rng.uniform(0.02, longest))
        match rng.choice(kinds):
            case "crash" | "two" as kind:
                alive = [peer for peer in mortal if not world.dead(peer)]
                victims = rng.sample(alive, min(1 + (kind == "two"), len(alive)))
                if victims and deaths + len(victims) <= most_deaths and survives(world, victims):
                    deaths += len(victims)
                    for victim in victims:
                        if not survives(world, (victim,)):
                            continue  # a component has moved to it since the other one died
                        world.crash(victim)
                        if rng.random() < 0.5:
                            world.run(rng.uniform(0.0, 0.1))
            case "hang":
                world.hang(rng.choice(PEERS), rng.uniform(0.05, 1.0))
            case "zombie":
                peer = rng.choice([peer for peer in mortal if not world.dead(peer)])
                if survives(world, (peer,)):
                    world.suspect(peer, rng.uniform(0.3, 1.5))
            case "cut":
                one, other = rng.sample(PEERS, 2)
                world.cut(one, other, rng.uniform(0.01, 0.5), rng.choice(CUTS))
            case "move":
                application = rng.choice(sorted(world.deployments))
                operator = rng.choice(movable(world, application))
                world.move(application, operator, rng.choice(PEERS), rng.uniform(0.05, 0.5))


def finish(world: StreamWorld, seconds: float = END_S) -> None:
    """Run until all applications have ended, and a while longer; for so many seconds at most if some do not end."""
    until = world.now + seconds
    while world.now < until and not all(each.ended for each in world.results.values()):
        world.run(1.0)
    world.run(AFTER_S)


def piece(seed: int) -> int:
    """Bytes of a piece of a snapshot: in two of three seeds so few that copies have to ask for what they lack."""
    return (1 << 20, 200, 4_000)[seed % 3]


def in_blocks(run_one: Callable[[int], None], block: int, size: int = 50) -> None:
    for seed in range(1000 + size * block, 1000 + size * (block + 1)):
        try:
            run_one(seed)
        except AssertionError as error:
            raise AssertionError(f"{run_one.__name__}({seed}): {error}") from error
