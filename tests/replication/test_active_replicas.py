"""Active replicas in virtual time: real operators behind duplicate filters, with crashes, hangs and slow readers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.log.log import Limits, StreamLog
from synergy_nb.dataflow.streams.log.values import ORIGIN, OnLag, Point, Reader, chunks_of
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import START, Batch, Item, Punctuation
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.simulator.scripted_faults import Faults
from tests import replica_schedules
from tests.campaigns import ALL, blocks
from tests.quick_cases import quick_first

PEERS = tuple(f"p{number}" for number in range(8))
COLUMNS = {"k": "int", "v": "int"}


def rows(seed: int, count: int = 200) -> pl.DataFrame:
    rng = random.Random(seed)
    times = pl.Series(sorted(rng.randrange(0, 2_000_000) for _ in range(count)), dtype=pl.Datetime("us"))
    return pl.DataFrame(
        {
            "time": times,
            "k": [rng.randrange(3) for _ in times],
            "v": [rng.randrange(5) for _ in times],
        }
    )


INPUTS = {"a": rows(1), "b": rows(2)}


def query() -> Plan:
    one, other = (source("python", name=name, columns=COLUMNS, rate=100.0, id=name) for name in "ab")
    merged = one.union(other, id="union").filter("v > 0", id="filter")
    sums = merged.aggregate(by=["k"], window="500 ms", id="sums", values={"s": "sum(v)", "c": "count(v)"})
    return sums.sink("out", id="out")


def deployed(
    seed: int,
    degree: int,
    faults: Faults | None = None,
    inputs: Mapping[str, pl.DataFrame] = INPUTS,
    kind: type[StreamWorld] = StreamWorld,
) -> tuple[StreamWorld, dict[str, str]]:
    """Deploy the query: sources and sink at the first peer, the other components one after another at the rest."""
    plan = replicated(query(), degree)
    others = [name for name, each in plan.operators.items() if each.kind not in ("source", "sink")]
    places = dict.fromkeys(plan.operators, PEERS[0])
    places |= {name: PEERS[1 + number % (len(PEERS) - 1)] for number, name in enumerate(others)}
    world = kind(seed=seed, peers=PEERS, faults=faults)
    world.deploy("app", plan, places, inputs)
    return world, places


def results(world: StreamWorld) -> list[tuple[Any, ...]]:
    found = world.results["app", "out"]
    assert found.ended, world.failures()
    return sorted(found.rows.rows())


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    world, _ = deployed(1, 1)
    world.run(20.0)
    return results(world)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_replicas_give_the_rows_of_a_run_without_replicas(
    degree: int, seed: int, expected: list[tuple[Any, ...]]
) -> None:
    world, _ = deployed(seed, degree)
    world.run(20.0)
    assert results(world) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick_first(range(4), 1))
def test_nothing_is_lost_or_doubled_when_one_replica_of_each_operator_dies(
    seed: int, expected: list[tuple[Any, ...]]
) -> None:
    world, places = deployed(seed, 2)
    victims = {places["union"], places["filter~1"], places["sums"]}
    assert not victims & {places["union~1"], places["filter"], places["sums~1"], PEERS[0]}
    for number, victim in enumerate(sorted(victims)):
        world.after(0.5 + 0.3 * number, world.crash, victim)
    world.run(20.0)
    assert results(world) == expected


@pytest.mark.slow
def test_a_replica_that_hangs_and_comes_back_doubles_nothing(expected: list[tuple[Any, ...]]) -> None:
    world, places = deployed(3, 2)
    world.after(0.5, world.hang, places["filter"], 10.0)
    world.run(30.0)
    assert results(world) == expected


class Watched(StreamWorld):
    """A world that retains what each component emitted, in its order."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.emitted: dict[str, list[tuple[Any, ...]]] = {}
        self.received: dict[str, int] = {}

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        name = work.component.operator
        for chunk in outcome.chunks:
            if isinstance(chunk.item, Batch):
                self.emitted.setdefault(name, []).extend(chunk.item.table.rows())
        self.received[name] = self.received.get(name, 0) + work.rows
        super()._measure(work, outcome)


@pytest.mark.slow
def test_replicas_of_a_union_emit_the_same_tuples_in_different_orders() -> None:
    """Otherwise no test of replicas would show that readers need no order."""
    differ = 0
    for seed in range(5):
        world, _ = deployed(seed, 2, Faults(delay=(0.0, 0.3)), kind=Watched)
        world.run(20.0)
        assert isinstance(world, Watched)
        one, other = world.emitted["union"], world.emitted["union~1"]
        assert sorted(one) == sorted(other)
        differ += one != other
    assert differ >= 4


@pytest.mark.slow
@pytest.mark.parametrize("degree", [2, 3])
def test_each_port_has_a_filter_of_its_own(degree: int) -> None:
    """A union of two streams of equal tuples has each tuple twice."""
    same = {"a": INPUTS["a"], "b": INPUTS["a"]}
    world, _ = deployed(1, degree, inputs=same)
    world.run(20.0)
    counts = {(start, k): c for _, start, _, k, _, c in results(world)}
    alone, _ = deployed(1, 1, inputs={"a": INPUTS["a"], "b": INPUTS["a"].clear()})
    alone.run(20.0)
    assert counts == {(start, k): 2 * c for _, start, _, k, _, c in results(alone)}


@pytest.mark.slow
@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_every_replica_sends_to_every_reader(degree: int) -> None:
    """Between operators k² times the tuples travel, and k times from a source and to a sink (oracle 2B.7)."""
    stream = source("python", name="a", columns=COLUMNS, rate=100.0, id="a")
    for number in range(4):
        stream = stream.filter("v >= 0", id=f"f{number}")
    plan = replicated(stream.sink("out", id="out"), degree)
    places = dict.fromkeys(plan.operators, PEERS[0])
    places |= {each: PEERS[1 + int(each.partition("~")[2] or 0)] for each in plan.operators if each[0] == "f"}
    world = Watched(seed=1, peers=PEERS)
    world.deploy("app", plan, places, {"a": INPUTS["a"]})
    world.run(20.0)
    assert len(results(world)) == 200
    reaching = {name: sum(world.received[each] for each in replicas) for name, replicas in replicas_of(plan).items()}
    assert reaching == {"f0": degree * 200} | {f"f{number}": degree**2 * 200 for number in (1, 2, 3)}
    assert world.received["out"] == degree * 200
    dropped = sum(world.received.values()) - sum(len(world.emitted[name]) for name in world.received)
    wanted = {2: (3200, 1400), 3: (6600, 4000), 4: (11200, 7800), 5: (17000, 12800)}  # of 200 tuples a stream
    assert (sum(world.received.values()), dropped) == wanted[degree]


def tree(depth: int, *, joins: bool) -> Plan:
    """A binary tree of operators: of unions, whose rates add up, or of joins one to one, where all are equal."""
    level = [
        source("python", name=f"a{number}", columns={"v": "int"}, rate=100.0, id=f"a{number}")
        for number in range(2**depth)
    ]
    count = 0
    while len(level) > 1:
        merged = []
        for one, other in zip(level[::2], level[1::2], strict=True):
            name = f"n{count}"
            merged.append(one.join(other, on="v", within="1 ms", id=name) if joins else one.union(other, id=name))
            count += 1
        level = merged
    return level[0].sink("out", id="out")


TREES = {  # joins: degree to bandwidth over that of degree 1, and to dropped tuples over those of a source
    False: {1: (1.0, 0), 2: (3.0, 40), 3: (6.0, 112), 4: (10.0, 216), 5: (15.0, 352)},
    True: {1: (1.0, 0), 2: (2.8, 13), 3: (5.4, 38), 4: (8.8, 75), 5: (13.0, 124)},
}


@pytest.mark.slow
@pytest.mark.parametrize("joins", [False, True], ids=["rates add up", "equal rates"])
def test_trees_of_seven_operators_receive_and_drop_as_the_formula_says(joins: bool) -> None:
    """k² of each stream between operators, k of those of sources and to the sink: f k² + (1 - f) k (oracle 2B.7)."""
    count, depth, plain = 6, 3, tree(3, joins=joins)
    times = pl.Series([10_000 * number for number in range(count)], dtype=pl.Datetime("us"))
    inputs = {name: pl.DataFrame([times.alias("time"), pl.Series("v", range(count))]) for name in plain.sources}
    received: dict[int, int] = {}
    for degree, (bandwidth, dropped) in TREES[joins].items():
        plan = replicated(plain, degree)
        places = dict.fromkeys(plan.operators, PEERS[0])
        places |= {each: PEERS[1 + int(each.partition("~")[2] or 0)] for each in plan.operators if each[0] == "n"}
        world = Watched(seed=1, peers=PEERS)
        world.deploy("app", plan, places, inputs)
        world.run(10.0)
        assert len(results(world)) == (count if joins else 2**depth * count)
        received[degree] = sum(world.received.values())
        passed = sum(len(rows) for name, rows in world.emitted.items() if name not in plan.sources)
        passed = passed * 2 - len(world.emitted["out"]) if joins else passed  # a pair is made of two that passed
        assert received[degree] - passed == dropped * count
        assert received[degree] / received[1] == pytest.approx(bandwidth, rel=1e-12)


# -- expansion of plans ----------------------------------------------------------------------------------------------


def test_an_expanded_plan_has_the_rates_names_and_bytes_of_its_operators() -> None:
    plan = query()
    expanded = replicated(plan, 3)
    assert replicas_of(expanded) == {name: (name, f"{name}~1", f"{name}~2") for name in ("union", "filter", "sums")}
    for name in expanded.operators:
        base = name.partition("~")[0]
        assert expanded.rate(name) == plan.rate(base)
        assert expanded.stream_name(name) == plan.stream_name(base)
        assert expanded.load(name) == plan.load(base)
    assert expanded.operators["union~2"].ports == ()
    assert expanded.operators["sums~1"].streams == ("filter",)
    assert Plan.from_bytes(expanded.to_bytes()) == expanded


def test_an_operator_pinned_to_a_peer_is_not_replicated() -> None:
    one = source("python", name="a", columns=COLUMNS, rate=100.0, id="a")
    plan = one.filter("v > 0", id="filter", at="here").project("v", id="project").sink("out")
    assert replicas_of(replicated(plan, 2)) == {"project": ("project", "project~1")}


# -- streams that join -----------------------------------------------------------------------------------------------


def batch(values: Sequence[tuple[int, str]]) -> Batch:
    times = pl.Series([time for time, _ in values], dtype=pl.Datetime("us"))
    return Batch(pl.DataFrame({"time": times, "name": [name for _, name in values]}), 0, 0.0)


def logic(inputs: int) -> MergedLogic:
    stream = source("python", name="n", columns={"name": "str"}, id="n").filter("name <> ''", id="f")
    plan = stream.sink("out")
    return MergedLogic(create(plan.operators["f"], plan), dict.fromkeys(range(inputs), 0))


def emitted(merged: MergedLogic, port: int, item: Item) -> list[Any]:
    made = merged.execute(port, item)
    return [each.time if isinstance(each, Punctuation) else each.table["name"].to_list() for each in made]


def test_the_promise_of_a_stream_that_joins_loses_nothing() -> None:
    merged = logic(1)
    assert emitted(merged, 0, batch([(0, "B")])) == [["B"]]
    assert emitted(merged, 0, Punctuation(1, 1, 0.0)) == [1]
    merged.set_ports({0: 0, 1: 0})  # its producer has sent (1, B) before, and says so: it is complete from 2 on
    assert emitted(merged, 1, Punctuation(2, 0, 0.0)) == []
    assert emitted(merged, 1, batch([(2, "C")])) == [["C"]]
    assert emitted(merged, 1, Punctuation(3, 1, 0.0)) == []  # the promise is withheld
    assert emitted(merged, 0, batch([(1, "B")])) == [["B"]]  # so this one is not lost
    assert emitted(merged, 0, Punctuation(2, 2, 0.0)) == [3]  # which also makes the withheld promise valid


@pytest.mark.parametrize("moment", range(7))
def test_a_saved_state_continues_with_the_counters_of_its_streams(moment: int) -> None:
    steps: list[tuple[int, Item]] = [
        (0, batch([(1, "x"), (1, "x"), (2, "y")])),
        (1, batch([(1, "x")])),
        (1, batch([(2, "y"), (1, "x"), (1, "x")])),
        (0, Punctuation(2, 3, 0.0)),
        (0, batch([(2, "y"), (3, "z")])),
        (1, batch([(2, "y"), (3, "z"), (4, "w")])),
        (1, Punctuation(5, 7, 0.0)),
    ]
    one, other = logic(2), logic(2)
    found: list[Any] = []
    for number, (port, item) in enumerate(steps):
        if number == moment:
            other.restore(one.save())
            one = other
        found += emitted(one, port, item)
    flat = sorted(name for each in found if isinstance(each, list) for name in each)
    assert flat == ["w", "x", "x", "x", "y", "y", "z"]
    assert [each for each in found if isinstance(each, int)] == [2, 5]
    assert one.latest == 4


def test_a_filter_without_tuples_is_saved_and_restored() -> None:
    merged = DuplicateFilter(["a", "b"])
    merged.receive("a", Punctuation(7, 0, 0.0))
    copy = DuplicateFilter(["a", "b"])
    copy.restore(merged.save())
    assert (copy.promise, copy.streams) == (7, ("a", "b"))


# -- readers that lag ------------------------------------------------------------------------------------------------


def held_up(log: StreamLog) -> bool:
    return log.blocked


def test_the_fastest_replica_of_a_reader_sets_the_pace() -> None:
    log = StreamLog(limits=Limits(window=1000, retain=4000))
    group = ("join", 0)
    fast, slow = (Reader("app", name, 0, peer) for name, peer in (("join", "b"), ("join~1", "c")))
    for reader in (fast, slow):
        log.expect(reader, ORIGIN, OnLag.GROUP, group)
        log.subscribe(reader, ORIGIN)
    time = 0

    def grow(chunks: int) -> None:
        nonlocal time
        items = [Punctuation(time + number, 0, 0.0) for number in range(chunks)]
        time += chunks
        log.append(chunks_of(items, log.end))

    grow(20)
    assert held_up(log)  # neither has read anything of more than a window
    log.acknowledge(fast, log.end, log.end, log.end)
    assert not held_up(log)
    for _ in range(6):
        grow(10)
        log.acknowledge(fast, log.end, log.end, log.end)
    assert held_up(log)  # more waits for the slow one than is retained
    cursors = log.cursors
    assert not log.give_up(cursors[fast])
    assert log.give_up(cursors[slow])
    assert not held_up(log)
    assert log.start == log.end
    grow(20)
    assert held_up(log)  # the last one of a group is waited for
    assert not log.give_up(cursors[fast])
    assert Point(0, START) < log.start


# -- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_of_replicas_loses_or_doubles_anything(seed: int) -> None:
    replica_schedules.run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(400, 100))
def test_many_schedules_of_replicas_lose_and_double_nothing(block: int) -> None:
    for seed in range(100 + 10 * block, 110 + 10 * block):  # in half of them some operators have backups instead
        replica_schedules.run(seed, some=bool(seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [31])
def test_whole_peers_rebuild_replicas_and_lose_or_double_nothing(seed: int) -> None:
    assert replica_schedules.run_whole(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20 if ALL else 3))
def test_in_many_schedules_whole_peers_rebuild_replicas_and_lose_or_double_nothing(part: int) -> None:
    seeds = range(13 + 6 * part, 17 + 6 * part)
    assert sum(replica_schedules.run_whole(seed, some=bool(seed % 2)) for seed in seeds) > 4


@pytest.mark.slow
def test_schedules_of_replicas_have_operators_of_all_kinds() -> None:
    found = {
        node.kind
        for seed in range(100, 200)
        for node in replica_schedules.query(random.Random(seed)).operators.values()
    }
    # tested by the contract of replicas (test_replica_agreement) and by tests of their own
    assert found == set(KINDS) - {"asof", "lookup", "over", "unnest", "apply", "apply_windows", "apply_keyed"}
