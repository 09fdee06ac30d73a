"""Delays through active replicas: each result of a random DAG takes the shortest path over replicas, tuple by tuple."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl
import pytest

from synergy_experiments.flows.timed_world import Promises, TimedWorld
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated

PEERS = tuple(f"p{number}" for number in range(6))
ROUND_S = 2.0  # a tuple of each source; longer than any path
ROUNDS = 3
MOST_CODES = 8  # results of a stream in a round
HOP_S = 0.05  # of a link


class Varying:
    """Delays of links that are others in each round, and in each direction."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world: Recorded | None = None

    def at(self, number: int, sender: str, to: str) -> float:
        if sender == to:
            return 0.0
        return random.Random(f"{self.seed}/{number}/{sender}/{to}").uniform(0.0, 0.2)

    def delay(self, sender: str, to: str) -> float:
        assert self.world is not None
        return self.at(int((self.world.now + 0.1) // ROUND_S), sender, to)


class Even:
    """Delays of links that are all one hop."""

    def delay(self, sender: str, to: str) -> float:
        return 0.0 if sender == to else HOP_S


class Recorded(TimedWorld):
    """Peers that execute without delay, and the arrivals of results: round, code and time."""

    def __init__(self, network: Varying | Even, promises: Promises) -> None:
        super().__init__(PEERS, {}, network=network, promises=promises)
        self.arrivals: list[tuple[int, int, float]] = []

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink":
            for chunk in outcome.chunks:
                if isinstance(chunk.item, Batch):
                    rows = chunk.item.table.select("v", "o").rows()
                    self.arrivals += [(v, code, self.now) for v, code in rows]


class Made(NamedTuple):
    """A random plan, and the codes that each of its streams has in a round."""

    plan: Plan
    codes: dict[str, list[int]]


def random_plan(rng: random.Random) -> Made:
    """Filters, projections, unions and joins; a code in column ``o`` tells which way a tuple has taken."""
    streams: dict[str, Any] = {}
    codes: dict[str, list[int]] = {}
    for number in range(rng.randint(2, 3)):
        name = f"s{number}"
        streams[name] = source("python", name=name, columns={"v": "int", "o": "int"}, rate=1.0, id=name)
        codes[name] = [number + 1]
    unread = list(streams)
    fresh = 10  # no code is as great yet

    def add(name: str, stream: Any, made: list[int], *read: str) -> None:
        nonlocal fresh
        streams[name], codes[name] = stream, made
        unread[:] = [each for each in unread if each not in read] + [name]
        fresh = max([fresh, *(code + 1 for code in made)])

    while len(unread) > 1 or len(streams) < 6:
        name = f"x{len(streams)}"
        one, other = rng.choice(unread), rng.choice(list(streams))
        if len(unread) > 1 and rng.random() < 0.7:
            one, other = rng.sample(unread, 2)
        kind = rng.choice(("filter", "project", "union", "join", "union", "join"))
        mine, theirs = codes[one], codes[other]
        if kind == "union" and one != other and not set(mine) & set(theirs):
            add(name, streams[one].union(streams[other], id=name), mine + theirs, one, other)
        elif kind == "join" and one != other and len(mine) * len(theirs) <= MOST_CODES:
            base = fresh
            pairs = streams[one].join(streams[other], on="v", within="1 ms", id=name)
            add(name, pairs, [], one, other)
            coded = pairs.project(v="v", o=f"(o + 1) * {base} + o_right", id=f"{name}c")
            add(f"{name}c", coded, [(left + 1) * base + right for left in mine for right in theirs], name)
            codes[name] = codes[f"{name}c"]
            streams.pop(name)  # nothing else reads it: it has other columns
        elif kind == "filter":
            add(name, streams[one].filter("v >= 0", id=name), mine, one)
        elif kind == "project":
            add(name, streams[one].project(v="v", o=f"o + {fresh}", id=name), [code + fresh for code in mine], one)
    return Made(streams[unread[0]].sink("out", id="out"), codes)


def shortest(
    made: Made, plan: Plan, places: Mapping[str, str], network: Varying, number: int, dead: str = ""
) -> dict[int, float]:
    """Seconds of each result by the recursion: the first of several replicas at a port, the last of several ports."""
    replicas = replicas_of(plan)
    ready: dict[str, dict[int, float]] = {}  # operator to code to the time at which a tuple leaves it
    for name, operator in plan.operators.items():
        base = operator.replica_of or name
        if places[name] == dead:
            ready[name] = {}
            continue
        if operator.kind == "source":
            ready[name] = {made.codes[name][0]: 0.0}
            continue
        ports: list[dict[int, float]] = []
        for up in made.plan.operators[base].inputs:
            arrived: dict[int, float] = {}
            for each in replicas.get(up, (up,)):
                for code, at in ready[each].items():
                    here = at + network.at(number, places[each], places[name])
                    arrived[code] = min(here, arrived.get(code, here))
            ports.append(arrived)
        if operator.kind == "join":
            pairs = [max(left, right) for left in ports[0].values() for right in ports[1].values()]
            ready[name] = dict(zip(made.codes[base], pairs, strict=True))
        elif operator.kind == "project" and set(ports[0]) != set(made.codes[base]):
            ready[name] = dict(zip(made.codes[base], ports[0].values(), strict=True))
        else:
            ready[name] = {code: at for arrived in ports for code, at in arrived.items()}
    return ready["out"]


@pytest.mark.parametrize(
    ("seed", "fault"), [*((seed, "") for seed in range(8)), (8, "crash"), (9, "hang"), (10, "hang")]
)
def test_every_result_takes_the_shortest_path_over_replicas(seed: int, fault: str) -> None:
    """After a fault, which nobody is told of, it is the shortest one over the others, from the next tuple on."""
    rng = random.Random(seed)
    made, degree = random_plan(rng), rng.randint(2, 3)
    plan, network = replicated(made.plan, degree), Varying(seed)
    places: dict[str, str] = {name: rng.choice(PEERS) for name in plan.operators}
    for several in replicas_of(plan).values():
        places |= dict(zip(several, rng.sample(PEERS, degree), strict=True))
    network.world = world = Recorded(network, rng.choice(list(Promises)))
    times = pl.Series("time", [round(1e6 * ROUND_S * number) for number in range(ROUNDS)]).cast(pl.Datetime("us"))
    inputs = {
        name: pl.DataFrame([times, pl.Series("v", range(ROUNDS)), pl.Series("o", made.codes[name] * ROUNDS)])
        for name in made.plan.sources
    }
    needed = {places[name] for name in ("out", *made.plan.sources)}
    used = {place for name, place in places.items() if name not in ("out", *made.plan.sources)}
    victim = rng.choice(sorted(used - needed)) if fault else ""
    world.deploy("app", plan, places, inputs)
    world.run(1.0 + ROUND_S - 0.3)
    if fault == "crash":
        world.crash(victim)
    elif fault == "hang":
        world.hang(victim, 2 * ROUNDS * ROUND_S)
    world.run(ROUNDS * ROUND_S - ROUND_S + 0.3)
    assert not world.failures()
    found = {(v, code): at - ROUND_S * v for v, code, at in world.arrivals}
    expected = {
        (number, code): at
        for number in range(ROUNDS)
        for code, at in shortest(made, plan, places, network, number, victim if number else "").items()
    }
    assert len(world.arrivals) == len(found)
    assert found == pytest.approx(expected, abs=1e-9)


def test_of_three_replicas_two_end_unnoticed_and_no_result_is_later_than_by_one_hop() -> None:
    """A crash and a hang that nobody finds: results go the way of what is left, which is a hop longer at last."""
    stream = source("python", name="s", columns={"v": "int", "o": "int"}, rate=1.0, id="s")
    plan = replicated(stream.filter("v >= 0", id="x").project(v="v", o="o", id="y").sink("out", id="out"), 3)
    places = {"s": "p0", "x": "p1", "x~1": "p2", "x~2": "p3", "y": "p1", "y~1": "p2", "y~2": "p4", "out": "p0"}
    rounds = 6
    times = pl.Series("time", [round(1e6 * ROUND_S * number) for number in range(rounds)]).cast(pl.Datetime("us"))
    world = Recorded(Even(), Promises.AT_THE_END)
    world.detection = 1e6
    rows = pl.DataFrame([times, pl.Series("v", range(rounds)), pl.Series("o", [1] * rounds)])
    world.deploy("app", plan, places, {"s": rows})
    world.run(1.0 + 2 * ROUND_S - 0.3)
    world.crash("p1")
    world.run(2 * ROUND_S)
    world.hang("p2", 100.0)
    world.run(2 * ROUND_S + 0.3)
    assert not world.failures()
    assert [v for v, _, _ in world.arrivals] == list(range(rounds)), "none is lost or doubled"
    delays = [at - ROUND_S * v for v, _, at in world.arrivals]
    assert delays == pytest.approx([2 * HOP_S] * 4 + [3 * HOP_S] * 2, abs=1e-9)
    assert max(delays) <= delays[0] + HOP_S + 1e-9
