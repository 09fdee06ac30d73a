"""Tuples whose deadline has passed: dropped at execution, counted, and dropped again in every replay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb import Cluster, CompositionConfig
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.streams.component.losses import lost_results
from synergy_nb.dataflow.streams.log.frames import Data
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.merge import InOrder
from synergy_nb.dataflow.streams.log.values import (
    ORIGIN,
    Chunk,
    ComponentStream,
    Determinant,
    Loss,
    OrderRun,
    Output,
    Point,
    Reader,
)
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.dataflow.tuples import END, START, Item, Punctuation
from synergy_nb.events import ApplicationRunning, Event, SinkMeasured
from synergy_nb.lifecycle.records.hosted_components import HostedComponent
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.plan import Plan, builder, plan, source
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.widgets._journal_series import JournalSeries
from synergy_nb.widgets._status_text import status_pieces
from tests.campaigns import blocks
from tests.qos_story import qos
from tests.quick_cases import quick_first
from tests.stream_bench import Bench, Idle, made, work_of
from tests.stream_schedules import (
    PEERS,
    deep_query,
    disturb,
    drawn_faults,
    finish,
    hostile_faults,
    in_blocks,
    inputs_of,
    piece,
    placed,
    stream,
    table,
)
from tests.two_hosts import Pair, numbers, play, reading, trace

on_loop = play  # how the tests that are coroutines run


def dropping(**limits: float) -> Bench:
    """A bench of operators that drop what is older than so many seconds."""
    bench = Bench({name: [f"s{name}"] for name in limits}, delays=limits)
    for name in limits:
        bench[name].agree(bench[name].terms._replace(drops=True))
    return bench


# -- what is dropped -------------------------------------------------------------------------------------------------


def test_overdue_tuples_are_dropped_at_their_execution_and_punctuations_pass() -> None:
    bench = dropping(o=1.0)
    component = bench["o"]
    for born, time in ((0.0, 5), (0.5, 6), (3.0, 7)):
        bench.offer("o", 3, born=born)
        bench.promise("o", time)
    work = work_of(bench.hosting, 2.0, together=100)
    assert (work.dropped, work.rows) == (True, 0)
    assert [chunk.end for chunk in work.chunks] == [Point(3, START), Point(3, 5), Point(6, 5), Point(6, 6)]
    assert work.items == [Punctuation(6, 6, 0.0)], "windows close"
    bench.done(work)
    assert (component.dropped, component.losses.consumed) == (6, 6)
    assert component.ports[0].consumed == Point(6, 6)
    work = work_of(bench.hosting, 2.0, together=100)
    assert (work.dropped, work.rows) == (False, 3)
    bench.done(work)
    stats = component.stats(2.0)
    assert (stats["dropped"], stats["tuples_in"], stats["thinned"]) == (6, 9, True)
    bench = Bench({"o": ["s"]}, delays={"o": 1.0})
    bench.offer("o", 3, born=0.0)
    assert not work_of(bench.hosting, 2.0).dropped, "unless the plan asks for it, they are kept"


def test_a_tuple_exactly_at_its_limit_is_not_overdue() -> None:
    bench = dropping(o=1.0)
    bench.offer("o", born=1.0)
    assert not work_of(bench.hosting, 2.0).dropped
    bench = dropping(o=1.0)
    bench.offer("o", born=1.0)
    assert work_of(bench.hosting, 2.0001).dropped


def test_overdue_tuples_are_not_executed_together_with_others() -> None:
    bench = dropping(o=1.0)
    for born in (1.19, 1.01, 1.15):  # two streams that became one
        bench.offer("o", born=born)
    work = work_of(bench.hosting, 2.1, together=100)
    assert (work.dropped, work.rows, len(work.chunks)) == (False, 1, 1)
    bench.done(work)
    assert [(work.dropped, len(work.chunks)) for work in (work_of(bench.hosting, 2.1, together=100),)] == [(True, 1)]


class Pass(Idle):
    """A logic that gives what it takes."""

    def execute(self, _: int, item: Item) -> Iterator[Item]:
        yield item


def test_a_chain_ends_before_an_operator_that_would_drop_something() -> None:
    bench = Bench({"a": ["s"], "b": ["a"]}, {"b": ["reader"]}, delays={"b": 1.0})
    passing: Any = Pass()
    bench["a"].logic, bench["b"].logic = passing, passing
    bench["b"].agree(bench["b"].terms._replace(drops=True))
    for born, dropped in ((1.5, False), (0.5, True)):
        bench.offer("a", 2, born=born)
        work = bench.hosting.chained(work_of(bench.hosting, 1.0))
        assert [link.component.operator for link in work.then] == ["b"]
        outcome = work.run(lambda: 2.0)
        assert (outcome.then is None) is dropped
        bench.do(bench.hosting.finished(work, outcome, 2.0))
    work = work_of(bench.hosting, 2.0)
    assert (work.component.operator, work.dropped) == ("b", True)
    bench.done(work)
    assert bench["b"].losses.carried(2) == (Loss("b", 2, 4, 2),)


# -- the same in every replay ----------------------------------------------------------------------------------------


def test_a_replay_drops_the_same_tuples() -> None:
    bench = dropping(o=1.0)
    runs = (OrderRun(0, Point(5, START), True), OrderRun(0, Point(8, START)), OrderRun(0, Point(9, START), True))
    known = Determinant(ComponentStream("a", "o"), ORIGIN, Point(3, START), runs, ORIGIN)
    assert bench["o"].reading.prescribe([known]) == ""
    bench.offer("o", 4, born=9.0)
    bench.offer("o", 6, born=0.0)
    done: list[tuple[bool, int, int]] = []
    while (work := bench.hosting.next(9.5)) is not None:
        done.append((work.dropped, work.chunks[0].start.position, work.chunks[-1].end.position))
        bench.done(work)
    assert done == [(True, 0, 5), (False, 5, 8), (True, 8, 9), (True, 9, 10)], "the last one by its own decision"
    assert bench["o"].losses.dropped == 7


def test_chunks_carry_the_drops_in_the_reading_order() -> None:
    bench = dropping(o=1.0)
    component = bench["o"]
    for born in (0.0, 0.1, 3.0):
        bench.offer("o", 2, born=born)
    bench.promise("o", 5)
    while (work := bench.hosting.next(2.0)) is not None:
        bench.done(work)
    assert component.reading.runs == [
        OrderRun(0, Point(4, START), True), OrderRun(0, Point(6, START)), OrderRun(0, Point(6, 5))
    ]  # fmt: skip


# -- how many --------------------------------------------------------------------------------------------------------


def test_losses_travel_with_chunks_whatever_becomes_of_these() -> None:
    losses = (Loss("f", 3, 10, 7),)
    chunk = made(ORIGIN, 2, 100, 0.0)
    end = Chunk(Point(2, START), Point(2, END), Punctuation(END, 2, 0.0), 64)
    chunk.losses = end.losses = losses
    decoded = decode(encode(Data(Output("a", "f"), Reader("a", "o", 0, "p"), end.start, (end,))))
    assert isinstance(decoded, Data)
    assert decoded.chunks[0].losses == losses
    for places in ((Point(2, END),), (Point(1, START), Point(2, END))):
        port = InOrder(ORIGIN)
        port.receive(0, chunk)
        port.receive(0, end)
        for place in places:
            *_, last = port.run(place)
            assert last.losses == losses


def test_a_dropped_tuple_counts_as_the_results_that_others_become() -> None:
    packets = source("packets", rate=100.0)
    query = packets.filter("bytes > 5", id="f", selectivity=0.1).project("bytes", id="p").sink("s", id="s")
    assert lost_results((), query, "s") == 0.0
    assert lost_results([Loss("f", 500, 1000, 5), Loss("s", 2, 5, 3)], query, "s") == pytest.approx(500 * 0.01 + 2)
    assert lost_results([Loss("f", 1000, 1000, 0)], query, "s") == pytest.approx(1000 * 0.1), "as the plan expects"
    two = plan(packets.sink("x", id="x"), packets.filter("bytes > 5", id="g", selectivity=0.5).sink("y", id="y"))
    assert lost_results([Loss("g", 10, 10, 0)], two, "x") == 0.0
    assert lost_results([Loss("g", 10, 10, 0)], two, "y") == 5.0


def test_streams_that_have_been_thinned_are_not_shared() -> None:
    query = stream("n").filter("v >= 0", id="f").sink("out", id="out", delay="1 s", overdue="drop")
    graph = Graph("a", 1, "x", query.to_bytes(), Roles(dict.fromkeys(query.operators, "x")))
    assert [HostedComponent(graph, query, name).complete for name in ("n", "f")] == [True, False]
    kept = stream("n").filter("v >= 0", id="f").sink("out", id="out", delay="1 s")
    assert HostedComponent(graph, kept, "f").complete


# -- what dropping is good for ---------------------------------------------------------------------------------------


def overloaded(overdue: str) -> tuple[CollectedResults, CollectedResults]:
    """Results of two applications that together ask for more than a peer can do, of which the first may drop."""
    rng = random.Random(1)
    world = StreamWorld(1, ("a", "b", "c", "d"), service=2.5e-3)
    for name, limit, sink, how in (("first", 0.1, "c", overdue), ("second", 0.5, "d", None)):
        query = stream("n").filter("v >= 0", id="f").sink("out", id="out", delay=limit, overdue=how)
        world.deploy(name, query, {"n": "a", "f": "b", "out": sink}, {"n": table(rng, 2000)})
    world.run(60.0)
    first, second = world.results["first", "out"], world.results["second", "out"]
    assert first.ended
    assert second.ended
    assert sum(loss.dropped for loss in first.losses) == 2000 - first.rows.height
    return first, second


@pytest.mark.slow
def test_dropping_what_is_overdue_keeps_others_from_being_late() -> None:
    first, second = overloaded("keep")
    assert first.rows.height == 2000
    assert second.delays.missed > 1000
    first, second = overloaded("drop")
    assert second.delays.missed == 0
    longest = first.delays.most
    assert longest is not None
    assert longest < 0.15, "what reaches the sink is in time, but for its own execution there"


# -- whatever happens ------------------------------------------------------------------------------------------------


def whole(rng: random.Random, upper: builder.Stream, number: int) -> builder.Stream:
    """An operator that gives each tuple that it takes."""
    return upper.project("v", "w", id=f"p{number}") if rng.random() < 0.5 else upper.filter("v >= 0", id=f"g{number}")


def whole_query(rng: random.Random) -> Plan:
    """Unions of sources, of which each tuple is at the sink unless it is dropped."""
    one = stream("n")
    for number in range(rng.randint(0, 2)):
        one = whole(rng, one, number)
    for number, name in enumerate("mkl"[: rng.randint(0, 3)]):
        other = stream(name)
        one = one.union(whole(rng, other, 10 + number) if rng.random() < 0.5 else other, id=f"u{number}")
        if rng.random() < 0.5:
            one = whole(rng, one, 20 + number)
    return one.sink("out", id="out", delay=rng.choice((0.05, 0.2, 0.5, 1.0, 2.0)), overdue="drop")


def disturbed(seed: int, query: Plan, rng: random.Random) -> tuple[StreamWorld, list[float]]:
    """A run under faults, and what tells the tuples of its inputs apart."""
    peers, backups = placed(rng, query, degree=rng.choice((1, 2, 3)))
    inputs = inputs_of(rng, query)
    faults = rng.choice((drawn_faults, hostile_faults))(rng)
    service, discipline = rng.choice((1e-4, 5e-4, 2e-3)), rng.choice(("fcfs", "edf", "least_slack"))
    limits = Limits(piece=piece(seed))
    world = StreamWorld(seed, PEERS, faults, codec=seed % 4 == 0, limits=limits, service=service, discipline=discipline)
    world.clients["app", "out"] = rng.choice((0.02, 0.5))
    world.deploy("app", query, peers, inputs, backups=backups)
    disturb(world, rng, rng.randint(1, 8), longest=rng.choice((0.2, 0.5)))
    finish(world)
    assert not world.failures(), world.failures()
    assert world.results["app", "out"].ended, "it stands still"
    return world, [each for given in inputs.values() for each in given["w"].to_list()]


def run_dropping(seed: int) -> None:
    """Each tuple is at the sink, once, or has been counted as dropped."""
    rows_and_dropped(seed)


def rows_and_dropped(seed: int) -> tuple[int, int]:
    """How many tuples are at the sink and how many were dropped, which is all of them."""
    rng = random.Random(seed)
    world, given = disturbed(seed, whole_query(rng), rng)
    results = world.results["app", "out"]
    rows = results.rows["w"].to_list() if results.rows.height else []
    dropped = sum(loss.dropped for loss in results.losses)
    assert len(set(rows)) == len(rows), "some came twice"
    assert set(rows) <= set(given)
    assert len(rows) + dropped == len(given), results.losses
    return len(rows), dropped


def run_dropping_deep(seed: int) -> None:
    """Joins and filters of what is left: no result that the whole inputs would not have given, and none twice."""
    rng = random.Random(seed)
    query = deep_query(rng)
    options = {"delay": rng.choice((0.05, 0.2, 1.0)), "overdue": "drop"}
    query = Plan(query.operators.values(), options, query.name)
    disturbed(seed, query, rng)


@pytest.mark.slow
def test_each_tuple_is_at_the_sink_or_counted_as_dropped() -> None:
    found = [rows_and_dropped(seed) for seed in range(30)]
    assert min(sum(rows for rows, _ in found), sum(dropped for _, dropped in found)) > 500, "some of both"


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick_first(range(10), 2))
def test_joins_of_the_remaining_tuples_survive_takeovers_and_moves(seed: int) -> None:
    run_dropping_deep(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(10, 10))
def test_each_tuple_is_at_the_sink_or_counted_as_dropped_in_many_schedules(block: int) -> None:
    in_blocks(run_dropping, block)


@pytest.mark.slow(20)
@pytest.mark.parametrize("block", blocks(6, 6))
def test_joins_of_the_remaining_tuples_survive_takeovers_and_moves_in_many_schedules(block: int) -> None:
    in_blocks(run_dropping_deep, block)


# -- on hosts and live -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "rows"), [("1 us", 0), ("1 h", 3000)])
async def test_hosts_drop_and_tell_the_sink(limit: str, rows: int) -> None:
    pair = Pair(read=reading(30, 100))
    query = trace().filter("bytes >= 0").sink(delay=limit, overdue="drop")
    pair.deploy("app", query, {"source": "a", "filter": "b", "sink": "a"})
    assert numbers(await pair.results("a", "app")) == list(range(rows))
    assert pair.finished == [("app", "sink")]
    measured = pair.net["a"].qos("app")
    assert (measured["tuples"], measured["finished"], measured["limit_s"] is not None) == (rows, True, True)
    assert measured["dropped"] == ({} if rows else {"filter": 3000})
    assert measured["miss_rate"] == (0.0 if rows else 1.0)
    stats = {record["operator"]: record for one in pair.net.values() for record in one.stats()}
    assert stats["filter"]["dropped"] == 3000 - rows
    await pair.close()


def test_views_and_explanations_show_the_drops() -> None:
    packets = source("packets", seed=1, rate="1000 tuples/s", duration="1 s", speed=0)
    query = packets.filter("bytes > 100").sink("late", delay="1 us", miss_rate="5 %", overdue="drop")
    with Cluster(2, composition=CompositionConfig(enforce=False), spark=False) as cluster:
        application = cluster.submit(query)
        assert application.results().height == 0
        measured = application.qos()
        assert (measured["tuples"], measured["miss_rate"], list(measured["dropped"])) == (0, 1.0, ["filter"])
        number = measured["dropped"]["filter"]
        assert f"dropped as their deadline had passed: {number:,} tuples at filter" in str(application.explain())
        assert f"dropped: {number:,} at filter" in repr(application)
        events = application.events()
        readings = JournalSeries(application=application.id)
        readings.add_events(events)
        (flow,) = [piece for name, piece in status_pieces(readings, query).items() if name.startswith("flow:")]
        assert f"{number:,} tuples dropped" in flow["missed"]
        assert events.of(SinkMeasured)[-1].miss_rate in (None, 1.0)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (qos(2.0, 0.5, 0.6, 50), "Within its limit"),
        (qos(2.0, 0.5, 0.6, 50, miss_rate=0.5, dropped={"f": 50}), "Too late: 50 % of the last results took longer"),
        (qos(2.0, 0.5, 0.6, 500, miss_rate=0.002, dropped={"f": 1}), "Within its limit"),
        (qos(2.0, None, None, 0, miss_rate=1.0, dropped={"f": 9}), "No results yet: 9 tuples dropped"),
    ],
)
def test_a_view_does_not_say_that_a_limit_is_kept_by_dropping_half(measured: Event, said: str) -> None:
    readings = JournalSeries(application="top-1")
    readings.add_events([ApplicationRunning(1.0, measured.peer, "top-1", peers={"f": measured.peer}), measured])
    assert status_pieces(readings)["head"]["sentence"].startswith(said)


# -- as plans state it -----------------------------------------------------------------------------------------------


def test_a_plan_states_the_treatment_of_overdue_tuples_in_python_yaml_and_bytes() -> None:
    query = stream("n").sink("out", delay="2 s", overdue="drop")
    assert "overdue: drop" in query.to_yaml()
    assert Plan.from_yaml(query.to_yaml()) == query == Plan.from_bytes(query.to_bytes())
    with pytest.raises(ValueError, match=r"qos\.overdue: 'drp'; expected one of keep, drop; did you mean 'drop'"):
        stream("n").sink("out", delay="2 s", overdue="drp")
    with pytest.raises(ValueError, match=r"qos\.overdue: 'drop'; expected a delay as well: a tuple is overdue when"):
        stream("n").sink("out", overdue="drop")
    assert stream("n").sink("out", overdue="keep").qos.overdue == "keep"
