"""Rates, execution times and slack that the data path measures and predicts, by hand and on simulated peers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from synergy_experiments.flows.timed_world import TimedWorld
from synergy_nb.control.driver_messages import DepartureLimits, PredictionsMade, SlackLost
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_terms import ComponentTerms
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome
from synergy_nb.dataflow.streams.component.predictions import ComponentPredictions, PeerPredictions
from synergy_nb.dataflow.streams.log.values import ORIGIN, CarriedRate, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import Punctuation
from synergy_nb.models.execution_times import Basis, Predicted
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.slack import Persistence
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.stream_seasons import Season
from tests.stream_bench import Bench, component, made, work_of
from tests.streams.items import batch
from tests.streams.other_engine import Elsewhere
from tests.two_hosts import Pair, play, reading, trace
from tests.waiting import until

on_loop = play  # how the test that is a coroutine runs

X1 = dict(zip((100, 140, 180, 220, 260, 300, 340, 380), (110, 124, 151, 160, 193, 202, 237, 249), strict=True))


def measured(*components: Component, config: HotSpotConfig | None = None) -> PeerPredictions:
    peer = PeerPredictions(HotSpotConfig() if config is None else config)
    for each in components:
        peer.add(each)
    return peer


def of(made_of: Component) -> ComponentPredictions:
    assert made_of.prediction is not None
    return made_of.prediction


def chunk(rows: int, born: float = 0.0, rates: tuple[CarriedRate, ...] = ()) -> Chunk:
    found = made(ORIGIN, rows, 100, born)
    found.rates = rates
    return found


def attached(made_of: Component) -> tuple[CarriedRate, ...]:
    """Rates that the last chunk of a component carries."""
    return list(made_of.log.chunks(ORIGIN))[-1].rates


# -- rates -----------------------------------------------------------------------------------------------------------


def test_each_whole_second_is_a_count_except_for_the_first_one() -> None:
    one = component("n")
    peer = measured(one)
    prediction = of(one)
    for time, tuples in [(7.6, 9), (8.0, 20), (8.9, 5), (9.0, 12), (9.25, 3)]:
        prediction.arrived(tuples, time)
    assert prediction.rate == 25.0
    peer.advance(10.0)
    assert prediction.rate == 15.0
    peer.advance(11.0)
    assert prediction.rate == 0.0


def test_the_rest_of_a_second_is_predicted() -> None:
    """40 tuples/s, then 80: after half a second 40 tuples have arrived, and 20 more are expected."""
    one = component("n")
    peer = measured(one)
    for quarter in range(12):
        of(one).arrived(10, 3.0 + quarter / 4)
    for quarter in range(2):
        of(one).arrived(20, 6.0 + quarter / 4)
    peer.renew(6.5)
    assert (peer.rate, peer.predicted_rate) == (60.0, 60.0)


def test_a_load_that_the_season_raises_is_expected_and_none_that_it_lowers() -> None:
    """20 tuples/s of 10 ms, of which the season expects more in the morning, and fewer in the evening."""
    season = Season((1.0,) * 6 + (2.0,) * 12 + (1.0,) * 6, 3600.0)

    def load(hour: int | None, *, predict: bool = True) -> float:
        one = component("n")
        peer = measured(one, config=HotSpotConfig(predict=predict))
        one.agree(ComponentTerms(season=season), planned_s=0.010)
        for quarter in range(12):
            of(one).arrived(5, 3.0 + quarter / 4)
        if hour is not None:
            one.ports[0].received = Point(60, hour * 3_600_000_000)
        peer.renew(6.0)
        assert of(one).prediction().coming_rate == pytest.approx(peer.expected_load / 0.010)
        return peer.expected_load

    assert load(None) == pytest.approx(0.2), "no event time is known yet"
    assert season.rise(4 * 3_600_000_000, 5.0) > 1.5
    assert load(4) == pytest.approx(0.2 * season.rise(4 * 3_600_000_000, 5.0))
    assert load(8) == pytest.approx(0.2)
    assert load(16) == pytest.approx(0.2), "a season that is wrong must not hide an overload"
    assert load(4, predict=False) == pytest.approx(0.2), "who only reacts expects nothing"


def test_a_season_that_has_foretold_rises_that_did_not_come_is_not_believed() -> None:
    """20 tuples/s all day, in a day of 24 s whose morning the season expects to be twice as busy."""
    season = Season((1.0,) * 6 + (2.0,) * 12 + (1.0,) * 6, 3600.0)
    one = component("n")
    peer = measured(one)
    one.agree(ComponentTerms(season=season), planned_s=0.010)
    rises = []
    for second in range(60):
        one.ports[0].received = Point(20 * second, second * 3_600_000_000)
        of(one).arrived(20, second + 0.5)
        peer.advance(second + 1.0)
        rises.append(of(one).rise())
    assert rises[4] == pytest.approx(season.rise(4 * 3_600_000_000, 5.0)), "nothing has been compared yet"
    assert rises[4] > 1.5
    assert 1.0 <= rises[52] < 1.1


def test_rates_that_a_chunk_carries_are_paired_with_the_count_that_has_it() -> None:
    """Series A, at a reader of a quarter of its source's tuples: its rate changes as that of the source does."""
    one = component("n")
    peer = measured(one)
    prediction = of(one)
    prediction.arrived(1, 0.5)
    for second, rate in enumerate((20, 24, 30, 27, 33, 36, 30), start=1):
        peer.advance(float(second))
        prediction.received(chunk(1, rates=(CarriedRate("app/n", 4.0 * rate, 0),)), float(second))
        assert prediction.carried == {"app/n": 4.0 * rate}
        if second == 6:
            found = prediction._rates.literal.predict(prediction.carried)
            assert found == pytest.approx((36.0, "app/n", 1.0)), "exact from the fourth rate on"
        prediction.arrived(rate, second + 0.5)
    assert peer.rate == 0.0
    assert prediction.ancestors == {"app/n": 0}


def test_a_rate_and_those_of_ancestors_are_attached_once_the_tuples_are_executed() -> None:
    bench = Bench({"a": ["source"]}, {"a": ["b"]})
    a = bench["a"]
    bench.offer("a", 3, now=1.5)
    bench.done(work_of(bench.hosting, 1.5), [(3, 100)], 1.5, 1.6)
    bench.offer("a", 5, now=2.5)
    first = bench.offer("a", 2, now=3.5)  # the second from 2 to 3 has ended, with 5 tuples
    assert of(a).rate == 5.0
    work = work_of(bench.hosting, 3.5)
    work.chunks[0].rates = (CarriedRate("a/source", 9.0, 0),)
    bench.done(work, [(5, 100)], 3.5, 3.6)
    assert attached(a) == (CarriedRate("a/a", 5.0, 0), CarriedRate("a/source", 9.0, 1))
    bench.done(work_of(bench.hosting, 3.6), [(2, 100)], 3.6, 3.7)
    assert attached(a) == (), "none of them is new"
    assert first.rows == 2


def test_a_rate_waits_in_the_queue_with_its_tuples() -> None:
    bench = Bench({"a": ["source"]}, {"a": ["b"]})
    a = bench["a"]
    bench.offer("a", 1, now=0.5)
    bench.offer("a", 4, now=1.5)
    bench.offer("a", 1, now=2.5)
    bench.done(work_of(bench.hosting, 2.5), [(1, 100)], 2.5, 2.6)
    assert attached(a) == (), "the four tuples of the count still wait"
    bench.done(work_of(bench.hosting, 2.6), [(4, 100)], 2.6, 2.7)
    assert attached(a) == (CarriedRate("a/a", 4.0, 0),)


# -- execution times -------------------------------------------------------------------------------------------------


def test_an_execution_time_is_predicted_at_the_expected_total_rate() -> None:
    """Series X1 of a regression: t̂_e(300) = 20.903571 ms, where the slope is certain enough."""
    for share, expected, basis in [(0.05, 0.020903571, "line"), (1e-9, 0.0249, "last measurement")]:
        one = component("n")
        one.agree(one.terms._replace(limit=0.5))
        peer = measured(one, config=HotSpotConfig(confidence=share))
        for rate, seconds in X1.items():
            of(one).times.observe(rate, seconds / 1e4)
        peer.predicted_rate = 300.0
        of(one).predict()
        assert of(one).time.seconds == pytest.approx(expected, abs=1e-9)
        assert of(one).time.basis == basis


def test_a_backlog_grows_by_what_exceeds_the_one_thread_at_its_speed() -> None:
    def predicted(speed: float, rates: Sequence[int]) -> float:
        many = [component("n", operator=f"f{number}") for number in range(len(rates))]
        for each in many:
            each.planned_s, each.speed = 0.01, speed
        peer = measured(*many, config=HotSpotConfig(horizon=5.0))
        for second in range(1, 4):
            for each, rate in zip(many, rates, strict=True):
                of(each).arrived(rate, float(second))
        of(many[0]).times.observe(1.0, 0.02)
        peer.renew(4.0)
        of(many[0]).predict()
        return of(many[0]).time.seconds

    assert predicted(1.0, (60, 60)) == pytest.approx(0.02 + 0.2 * 5.0)
    assert predicted(2.0, (60, 60)) == 0.02
    assert predicted(2.0, (120, 120)) == pytest.approx(0.02 + 0.2 * 5.0)
    assert predicted(1.0, (120,)) == pytest.approx(0.02 + 0.2 * 5.0)
    assert predicted(0.5, (60,)) == pytest.approx(0.02 + 0.2 * 5.0)


@pytest.mark.parametrize(("basis", "off"), [("line", 50.0), ("growing backlog", None)])
def test_predictions_are_off_once_measured_times_differ_from_them_for_long(basis: Basis, off: float | None) -> None:
    """A backlog that grows is predicted for later than the next second, so nothing is compared with it."""
    one = component("n")
    measured(one)
    found = []
    for second in range(1, 13):
        of(one).time = Predicted(0.001, basis, extrapolated=False, line=None)
        of(one).arrived(10, float(second))
        of(one).executed(second + 0.1, second + 0.15)
        found.append(of(one).prediction().off)
    assert found[:8] == [None] * 8
    assert found[-1] == (None if off is None else pytest.approx(off))


def test_an_execution_gives_a_pair_of_the_present_rate_and_the_time_since_arrival() -> None:
    bench = Bench({"a": ["source"]})
    a = bench["a"]
    for second in range(1, 4):
        bench.offer("a", 10, now=float(second))
    bench.offer("a", 10, now=4.0)
    for _ in range(3):
        bench.done(work_of(bench.hosting, 4.0), [(10, 100)], 4.0, 4.0)
    before = of(a).times.pairs
    bench.done(work_of(bench.hosting, 4.25), [(10, 100)], 4.25, 4.5)
    assert of(a).times.pairs[len(before) :] == ((15.0, 0.5),), "10 of this second, and half of the 10 of the last one"


def test_executions_of_a_second_give_at_most_50_pairs() -> None:
    """So the window of 128 pairs covers seconds, at any rate."""
    bench = Bench({"a": ["source"]})
    for second in range(1, 4):
        bench.offer("a", 10, now=float(second))
        bench.done(work_of(bench.hosting, second), [(10, 100)], second, second)
    known = len(of(bench["a"]).times.pairs)
    for number in range(100):
        now = 4.0 + number / 100
        bench.offer("a", 10, now=now)
        bench.done(work_of(bench.hosting, now), [(10, 100)], now, now)
    assert len(of(bench["a"]).times.pairs) - known == 50


def test_a_punctuation_that_closes_a_window_gives_a_pair_and_others_give_none() -> None:
    bench = Bench({"a": ["source"]})
    a = bench["a"]
    for second in range(1, 4):
        bench.offer("a", 10, now=float(second))
        bench.done(work_of(bench.hosting, second), (), second, second)
    known = len(of(a).times.pairs)
    bench.promise("a", 5, now=3.5)
    bench.done(work_of(bench.hosting, 3.5), (), 3.5, 3.6)
    assert len(of(a).times.pairs) == known
    bench.promise("a", 6, now=3.7)
    bench.done(work_of(bench.hosting, 3.7), [(1, 100)], 3.7, 3.9)
    assert of(a).times.last == pytest.approx(0.2)


def test_the_time_of_another_engine_ends_when_it_commits() -> None:
    peers = Elsewhere()
    peers.begin()
    engine = peers.hostings["x"].components["app", "u"]
    for second in range(1, 5):
        peers.now = float(second)
        peers.emit("n", batch(4 * (second - 1), 4))
        peers.now = second + 0.75
        peers.step()
    assert of(engine).times.last == pytest.approx(0.75)


# -- slack -----------------------------------------------------------------------------------------------------------


def limited(config: HotSpotConfig | None = None, limit: float = 0.45) -> tuple[PeerPredictions, Component]:
    one = component("n")
    one.planned_s = 0.05
    peer = measured(one, config=config)
    peer.set_limits("app", {"f": limit})
    return peer, one


def test_slack_is_the_rest_of_the_departure_limit() -> None:
    peer, one = limited()
    of(one).received(chunk(1, born=9.9), 10.0)
    assert of(one).slack == pytest.approx(0.45 - 0.1 - 0.05)
    assert one.stats(10.0)["slack"] == of(one).slack
    assert one.stats(10.0)["predicted_s"] == 0.05
    peer.set_limits("app", {"g": 1.0})
    of(one).received(chunk(1, born=9.9), 10.0)
    assert of(one).slack is None


def test_only_tuples_that_persistently_have_no_slack_are_reported_and_once_a_second() -> None:
    peer, one = limited(HotSpotConfig(tuples=3, seconds=0.5), limit=0.15)
    ages = [(10.0, 0.2), (10.2, 0.2), (10.4, 0.1 - 1e-9), (10.5, 0.1 + 1e-9)]
    ages += [(10.7 + number / 10, 0.3) for number in range(20)]
    times = []
    for time, age in ages:
        of(one).received(chunk(1, born=time - age), time)
        times += [round(time, 9) for _ in peer.violations]
        if peer.violations:
            assert peer.violations[0].slack <= 0.0
        peer.violations.clear()
    assert times == [11.0, 12.0], "the first ones did not persist"


def test_a_slack_of_zero_counts_as_lost() -> None:
    slacks = [0.1, 0.0, 0.0, -1.0, 0.1, 0.0, 0.0, 0.0]
    for tuples, seconds in [(1, 0.0), (3, 0.0), (2, 1.5)]:
        fast, slow = Persistence(tuples, seconds), Persistence(tuples, seconds)
        for time, slack in enumerate(slacks):
            assert fast.add(time, slack) == slow.observe(time, [slack])
            assert (fast.count, fast.lasted(time)) == (slow.count, slow.lasted(time))
    assert Persistence(1, 0.0).add(0.0, 0.0)


def test_followers_and_promises_are_not_evaluated() -> None:
    peer, one = limited(limit=-1.0)
    promise = chunks_of([Punctuation(5, 0, 0.0)], ORIGIN)[0]
    of(one).received(promise, 10.0)
    one.role = Role.FOLLOWER
    of(one).received(chunk(1), 10.0)
    assert of(one).slack is None
    assert not peer.violations


def test_nothing_is_measured_where_hot_spots_are_off() -> None:
    one = component("n")
    peer = measured(one, config=HotSpotConfig(mode="off"))
    assert one.prediction is None
    one.arrived(5, 1.0)
    assert peer.due is None
    assert peer.tick(100.0) == []
    assert one.stats(1.0)["slack"] is None


def test_tuples_in_a_chain_count_as_arrived_when_its_execution_began() -> None:
    bench = Bench({"a": ["source"], "b": ["a"]}, delays={"b": 0.5})
    bench.hosting.predictions.set_limits("a", {"b": 0.5})
    bench.offer("a", 5, born=0.8, now=1.0)
    work = bench.hosting.chained(work_of(bench.hosting, 1.0))
    (link,) = work.then
    chunks = [made(ORIGIN, 5, 100, 0.8)]
    following = work._replace(component=link.component, chunks=chunks, end=link.end, then=())
    outcome = _outcome(1.0, 1.1, work.rows, chunks)
    outcome.then = following, _outcome(1.1, 1.4, 5, [made(link.end, 5, 100, 0.8)])
    bench.do(bench.hosting.finished(work, outcome, 1.4))
    assert of(bench["b"]).age == pytest.approx(0.3)
    assert of(bench["b"]).began is None


def _outcome(started: float, finished: float, rows: int, chunks: list[Chunk]) -> ExecutionOutcome:
    return ExecutionOutcome(started, finished, [(rows, finished - started)], chunks)


# -- a hot spot to the tuple -----------------------------------------------------------------------------------------

HOP = 0.050
LIMIT = 0.500
RISE = 10.0
FIRST_MISS = 11.95  # the first tuple that misses the limit is born then


def stream(limit: float = LIMIT, operator: str = "f") -> Plan:
    made_of = source("python", name="n", columns={"v": "int"}, rate=40.0, id="n").filter("v >= 0", id=operator)
    return made_of.sink("out", id="out", delay=limit)


def overloaded(
    interval: float, config: HotSpotConfig | None = None, limits: Mapping[str, float] | None = None, until: float = 14.0
) -> TimedWorld:
    """A peer that takes 10 ms a tuple, with two applications of 40 tuples/s; the second one then is faster."""
    world = TimedWorld(("u1", "u2", "s", "d"), {("one", "f"): 0.01, ("two", "f"): 0.01}, HOP, config)
    earlier = [0.0125 + number / 40 for number in range(400)]
    later = [RISE + 0.0125 + number * interval for number in range(round(10.0 / interval))]
    times = {"one": [number / 40 for number in range(800)], "two": earlier + later}
    for name, peer in (("one", "u1"), ("two", "u2")):
        world.begin(name, stream(), {"n": peer, "f": "s", "out": "d"}, {"n": times[name]})
    world.run(1.0)
    for name in ("one", "two"):
        world.set_limits("s", name, {"f": (limits or {}).get(name, LIMIT - HOP)})
    world.run(until)
    return world


@pytest.mark.slow
def test_a_hot_spot_is_predicted_before_the_first_tuple_that_misses() -> None:
    world = overloaded(0.0125)
    time, peer, first = world.violations[0]
    assert peer == "s"
    assert time == pytest.approx(11.7125)
    assert time < FIRST_MISS
    found = first.prediction
    assert (found.operator, found.basis) == ("f", "growing backlog")
    assert first.age == pytest.approx(HOP)
    assert first.slack == pytest.approx(LIMIT - HOP - HOP - found.predicted)
    assert found.predicted - found.measured == pytest.approx(0.2 * 5.0, abs=0.05), "load 1.2 for 5 s"
    assert first.tuples >= 5
    assert first.seconds >= 1.0


@pytest.mark.slow
def test_the_first_tuple_that_misses_is_the_one_that_arithmetic_says() -> None:
    world = overloaded(0.0125, until=FIRST_MISS + LIMIT - 0.001)
    assert sum(world.results[name, "out"].delays.missed for name in ("one", "two")) == 0
    world.run(0.1)
    assert sum(world.results[name, "out"].delays.missed for name in ("one", "two")) > 0


@pytest.mark.slow
def test_a_hot_spot_is_repeated_once_a_second_as_long_as_it_lasts() -> None:
    world = overloaded(0.0125, until=16.0)
    times = [time for time, _, each in world.violations if each.prediction.application == "two"]
    assert [round(later - earlier, 3) for earlier, later in pairwise(times)] == [1.0] * 4


@pytest.mark.slow
def test_without_prediction_the_hot_spot_is_seen_when_slack_is_gone() -> None:
    world = overloaded(0.0125, HotSpotConfig(predict=False))
    time, _, first = world.violations[0]
    assert time > FIRST_MISS
    assert first.prediction.basis == "last measurement"


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1 / 40, 1 / 50, 1 / 57])
def test_there_is_no_hot_spot_where_the_rates_fit(interval: float) -> None:
    assert overloaded(interval).violations == []


@pytest.mark.slow
def test_only_the_component_without_slack_is_reported() -> None:
    world = overloaded(0.0125, limits={"one": LIMIT - HOP, "two": 60.0})
    assert {(each.prediction.application, each.prediction.operator) for _, _, each in world.violations} == {
        ("one", "f")
    }


@pytest.mark.slow
def test_hot_spots_that_are_off_report_nothing() -> None:
    world = overloaded(0.0125, HotSpotConfig(mode="off"))
    assert not world.violations
    assert not world.predictions
    assert all(not each.rates for each in world.hosting("s").components["one", "f"].log.chunks(ORIGIN))


@pytest.mark.slow
def test_the_time_of_one_application_follows_the_rate_of_another() -> None:
    """Random arrivals at a peer that stays below its capacity: the constant application is predicted to be slower."""
    rng = random.Random(3)

    def arrivals(rate: float, since: float, until: float) -> list[float]:
        found: list[float] = []
        time = since + rng.expovariate(rate)
        while time < until:
            found.append(time)
            time += rng.expovariate(rate)
        return found

    world = TimedWorld(("u1", "u2", "s", "d"), {("one", "f"): 0.01, ("two", "f"): 0.01}, HOP)
    later = sorted(arrivals(10.0, 0.0, 20.0) + arrivals(50.0, 20.0, 40.0))
    for name, peer, times in (("one", "u1", arrivals(20.0, 0.0, 40.0)), ("two", "u2", later)):
        world.begin(name, stream(), {"n": peer, "f": "s", "out": "d"}, {"n": times})
    world.run(41.0)

    def mean(since: float, until: float, field: str) -> float:
        reports = [report for time, peer, report in world.predictions if peer == "s" and since < time < until]
        values = [getattr(each, field) for report in reports for each in report.components if each.application == "one"]
        return math.fsum(values) / len(values)

    assert mean(30.0, 40.0, "rate") == pytest.approx(mean(10.0, 20.0, "rate"), rel=0.15)
    assert mean(30.0, 40.0, "predicted") > 1.3 * mean(10.0, 20.0, "predicted")


@pytest.mark.slow
def test_a_peer_reports_once_a_second_what_it_measures_and_predicts() -> None:
    world = overloaded(1 / 40, until=9.0)
    reports = [(time, report) for time, peer, report in world.predictions if peer == "s"]
    assert [time for time, _ in reports] == [number + 0.5 for number in range(9)]
    last = reports[-1][1]
    assert [(each.application, each.operator, each.rate, each.predicted_rate) for each in last.components] == [
        ("one", "f", 40.0, 40.0),
        ("two", "f", 40.0, 40.0),
    ]
    assert (last.rate, last.predicted_rate) == (80.0, 80.0)
    assert last.load == pytest.approx(0.8, abs=0.01)
    assert last.components[0].processing == pytest.approx(0.01)
    assert last.components[0].age == pytest.approx(HOP)
    assert last.components[0].measured == pytest.approx(0.01)


@pytest.mark.slow
def test_the_load_of_a_peer_counts_the_work_that_waits() -> None:
    """What arrives takes 1.2 s of work a second: the peer works all the time, and a queue grows by .2 s a second."""
    loads = [report.load for _, peer, report in overloaded(0.0125).predictions if peer == "s"]
    assert 1.0 < loads[-2] < loads[-1]
    assert loads[-1] - loads[-2] == pytest.approx(0.2, abs=0.03)


# -- carried rates through streams -----------------------------------------------------------------------------------


def rates_at(world: TimedWorld, peer: str, application: str, operator: str) -> dict[str, int]:
    return of(world.hosting(peer).components[application, operator]).ancestors


def test_rates_travel_through_chains_unions_and_shared_streams() -> None:
    def columns(name: str) -> Any:
        return source("python", name=name, columns={"v": "int"}, rate=20.0, id=name)

    world = TimedWorld(("u", "s", "t", "d"), {}, HOP)
    one = columns("n").filter("v >= 0", id="f").union(columns("m"), id="u").sink("out", id="out")
    times = {name: [number / 20 + 0.001 for number in range(160)] for name in ("n", "m")}
    world.begin("one", one, {"n": "u", "m": "d", "f": "s", "u": "t", "out": "d"}, times)
    world.run(1.5)
    two = columns("n").filter("v >= 0", id="g").sink("out", id="out")
    world.begin("two", two, {"g": "u", "out": "u"}, {}, shares={"n": ("one", "f")})
    world.run(5.0)
    assert rates_at(world, "t", "one", "u") == {"one/f": 0, "one/m": 0, "one/n": 1}
    assert rates_at(world, "d", "one", "out") == {"one/u": 0, "one/f": 1, "one/m": 1, "one/n": 2}
    assert rates_at(world, "u", "two", "g") == {"one/f": 0, "one/n": 1}
    assert rates_at(world, "u", "two", "out") == {"two/g": 0, "one/f": 1, "one/n": 2}
    union = of(world.hosting("t").components["one", "u"])
    assert union.rate == 40.0, "the sum over both inputs"
    assert union.carried == {"one/f": 20.0, "one/m": 20.0, "one/n": 20.0}


def test_a_component_that_takes_over_starts_without_pairs() -> None:
    world = TimedWorld(("u", "s", "t", "d"), {("one", "f"): 0.01}, HOP)
    world.begin("one", stream(), {"n": "u", "f": "s", "out": "d"}, {"n": [number / 40 for number in range(400)]})
    world.run(4.0)
    assert of(world.hosting("s").components["one", "f"]).times.pairs
    world.set_limits("t", "one", {"f": LIMIT})
    world.move("one", "f", "t", 0.5)
    world.run(0.2)
    moved = of(world.hosting("t").components["one", "f"])
    assert not moved.times.pairs
    assert moved.time.basis == "profile"
    world.run(5.0)
    assert world.hosting("t").components["one", "f"].role is Role.ACTIVE
    assert len(moved.times.pairs) > 20
    assert ("one", "f") not in world.hosting("s").components
    assert moved.slack is not None


# -- on live peers ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_host_reports_predictions_and_lost_slack_to_its_peer() -> None:
    said: list[DriverMessage] = []

    def reported() -> set[str]:
        reports = [each for each in said if isinstance(each, PredictionsMade)]
        return {each.operator for report in reports for each in report.report.components}

    config = HotSpotConfig(tuples=1, seconds=0.0)
    pair = Pair(read=reading(30, 100), hotspots=config, predicted=said.append)
    plan = trace().filter("bytes % 2 = 0", id="f").sink(delay="2 s", id="out")
    pair.net["b"].carry_out(DepartureLimits("app", {"f": -1.0}))
    pair.deploy("app", plan, {"source": "a", "f": "b", "out": "a"})
    await pair.results("a", "app")
    await until(lambda: reported() == {"f", "out"} and any(isinstance(each, SlackLost) for each in said))
    pair.undeploy("app", {"source": "a", "f": "b", "out": "a"})
    assert pair.net["b"].hosting.predictions.due is None
    lost = next(each for each in said if isinstance(each, SlackLost))
    assert (lost.violation.prediction.application, lost.violation.prediction.operator) == ("app", "f")
    assert lost.violation.slack < -1.0
