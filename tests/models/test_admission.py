"""Admission promises only what peers can meet: measured overheads, credible profiles, no veto of late applications."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from synergy_experiments.bench.admissions import _answer, random_plan
from synergy_experiments.bench.admissions_simulated import simulated
from synergy_experiments.bench.answers import Answer, summarised
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.dataflow.deployments import Assignment, Role
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.meters import UnitCost
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.events import GraphSelected
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import choose
from synergy_nb.models.overheads import (
    FADING_COUNT,
    HOP,
    LINK,
    REFERENCE,
    SOURCE,
    Overhead,
    Overheads,
    exceeding,
    quantile,
)
from synergy_nb.models.projection import Local, LocalApplication, ProjectionConfig, impacts, refused
from synergy_nb.models.signatures import Segment
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.spark_parts import Profile, paced, trusted_profiles
from synergy_nb.runtime.process.requests import NotAdmitted
from tests.simulated import Ring

LATE = CompositionConfig(late=0.05)


def filtered(limit: str | None, **more: str) -> Plan:
    stream = source("packets", rate="2000 tuples/s", speed=1, at="peer-1").filter("bytes > 0", at="peer-1")
    return stream.sink("out", delay=limit, **more)


def measured_ring(seed: int, seconds: float, composition: CompositionConfig = LATE) -> Ring:
    """Peers each of which has measured that whatever it does takes so long, sometimes half and sometimes twice."""
    ring = Ring(3, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=composition))
    for synergy in ring.synergy.values():
        for stage in (SOURCE, REFERENCE, HOP):
            for times in (0.5, 1.0, 2.0, 0.5):
                synergy.probing.overheads.observe(stage, seconds * times)
    return ring


# -- what an item takes beside its tuples ------------------------------------------------------------------------------


def test_a_limit_below_what_a_peer_needs_for_any_item_is_refused_with_what_it_needs() -> None:
    """Seen: a limit of 1 ms was admitted, projected .005 ms, where 9 to 12 ms were measured."""
    ring = measured_ring(1, 0.002)
    ring.submit("peer-1", "r", filtered("1 ms"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "delay" in report.reason
    assert "0.001 s is allowed" in report.reason


def test_a_limit_with_room_for_overheads_is_admitted_and_its_projection_contains_them() -> None:
    ring = measured_ring(1, 0.002)
    ring.submit("peer-1", "r", filtered("50 ms"))
    assert ring.until_decided("r").status == "running"
    chosen = ring.events("r", GraphSelected)[0]
    assert chosen.quantile_s is not None
    assert 0.004 < chosen.delay_s < chosen.quantile_s < 0.05
    assert chosen.late == 0.05


def test_peers_that_have_measured_nothing_project_the_papers_model() -> None:
    ring = Ring(3, seed=1)
    ring.submit("peer-1", "r", filtered("1 ms"))
    assert ring.until_decided("r").status == "running"


def test_the_mean_delay_decides_if_no_share_of_late_tuples_is_configured() -> None:
    limit = "8 ms"  # the mean is at about 5 ms, the 95th percentile at about 10 ms
    ring = measured_ring(2, 0.002, CompositionConfig())
    ring.submit("peer-1", "r", filtered(limit))
    assert ring.until_decided("r").status == "running"
    ring = measured_ring(2, 0.002)
    ring.submit("peer-1", "r", filtered(limit))
    assert ring.until_decided("r").status == "rejected"


def test_a_plan_with_a_miss_rate_is_judged_by_it() -> None:
    ring = measured_ring(3, 0.002)
    ring.submit("peer-1", "r", filtered("8 ms", miss_rate="40 %"))
    assert ring.until_decided("r").status == "running"
    ring.submit("peer-1", "s", filtered("8 ms", miss_rate="0.1 %"))
    report = ring.until_decided("s")
    assert report.status == "rejected"
    assert "miss rate" in report.reason


def test_tuples_wait_for_the_others_of_their_batch() -> None:
    ring = measured_ring(4, 1e-6)
    plan = source("packets", rate="2000 tuples/s", speed=1, at="peer-1").delay("100 us", at="peer-1").sink("out")
    delays = []
    for name, together in (("alone", 0.0), ("batches", 0.005)):
        for synergy in ring.synergy.values():
            synergy.probing.overheads.together = together
        ring.submit("peer-1", name, plan)
        assert ring.until_decided(name).status == "running"
        delays.append(ring.events(name, GraphSelected)[0].delay_s)
        ring.simulation.report("peer-1", StopApplication(name))
        ring.run(2.0)
    assert delays[1] - delays[0] == pytest.approx(2000 * 0.005 * 100e-6, rel=0.05)


def test_overheads_follow_the_machine_and_one_outlier_does_not_move_them_far() -> None:
    overheads = Overheads()
    for _ in range(50):
        overheads.observe("filter", 0.001)
    overheads.observe("filter", 10.0)
    assert overheads.expected("filter").mean < 0.0012
    for _ in range(6 * FADING_COUNT):
        overheads.observe("filter", 0.004)
    assert overheads.expected("filter").mean == pytest.approx(0.004, rel=0.02)
    assert overheads.expected("filter").variance < 0.001**2
    assert overheads.expected("no such stage") == (0.0, 0.0)
    assert set(overheads.measured()) == {"filter"}


def test_the_quantile_and_the_share_beyond_it_agree() -> None:
    for mean, deviation in ((0.01, 0.001), (0.01, 0.01), (1.0, 0.3)):
        for share in (0.5, 0.9, 0.95, 0.999):
            at = quantile(mean, deviation**2, share)
            assert at >= mean
            assert exceeding(mean, deviation**2, at) <= 1.0 - share + 1e-9
    rng = random.Random(1)
    drawn = sorted(rng.lognormvariate(-5.0, 0.6) for _ in range(40_000))
    mean = sum(drawn) / len(drawn)
    variance = sum((each - mean) ** 2 for each in drawn) / len(drawn)
    assert quantile(mean, variance, 0.95) == pytest.approx(drawn[38_000], rel=0.05)


# -- who is late already -----------------------------------------------------------------------------------------------


def test_a_late_application_does_not_prevent_admissions_that_do_not_delay_it() -> None:
    """Seen: "0.009909 s now, 0.009909 s projected, limit 0.001 s" refused every new plan."""
    running = LocalApplication("late", [Local("filter", 1e-6, 0.002)], time=0.009909, limit=0.001)
    asking = LocalApplication("new", [Local("filter", 1e-6, 0.001)], time=0.001)
    assert refused(impacts([running], asking)[:1]) is None


@pytest.mark.parametrize(("worsening", "load", "verdict"), [(0.05, 0.02, True), (0.05, 0.3, False), (0.5, 0.3, True)])
def test_the_configured_share_of_worsening_decides_for_late_applications(
    worsening: float, load: float, verdict: bool
) -> None:
    running = LocalApplication("late", [Local("filter", 0.01, 0.2)], time=0.02, limit=0.001)
    asking = LocalApplication("new", [Local("sort", 0.01, load)], time=0.01, limit=1.0)
    found = impacts([running], asking, ProjectionConfig(worsening=worsening))
    assert found[0].acceptable is verdict
    assert found[0].after > found[0].before


def test_a_new_plan_must_keep_its_own_limit_exactly() -> None:
    asking = LocalApplication("new", [Local("sort", 0.01, 0.001)], time=0.02, limit=0.0199)
    assert not impacts([], asking)[0].acceptable


def test_a_late_application_does_not_lock_its_peer() -> None:
    ring = Ring(3, seed=5, config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    ring.submit("peer-1", "late", filtered("100 ms"))
    assert ring.until_decided("late").status == "running"
    ring.simulation.call("peer-1", ring.synergy["peer-1"].session.sinks.measured, "late", 0.3)
    ring.run(3.0)
    ring.submit("peer-1", "next", filtered("100 ms"))
    assert ring.until_decided("next").status == "running"


def test_a_worsening_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"worsening: -1"):
        ProjectionConfig(worsening=-1)
    with pytest.raises(ValueError, match=r"late: 1\.5"):
        CompositionConfig(late=1.5)


# -- measured profiles -------------------------------------------------------------------------------------------------


def replay(speed: float) -> Plan:
    columns = {"key": "int", "value": "int"}
    stream = source("trace", path="t.parquet", format="parquet", columns=columns, speed=speed, at="peer-1")
    return stream.filter("value > 9", at="peer-1").aggregate(by="key", window="1 min", n="count(*)").sink("out")


def profiles(plan: Plan, rate: float) -> dict[str, Profile]:
    """What peers have measured of all operators while the stream came at this rate."""
    kinds = ("source", "filter", "aggregate")
    return {plan.stream_name(kind): Profile(rate=rate, cost=4e-7, selectivity=0.5) for kind in kinds}


def test_the_measured_rate_of_an_unpaced_replay_is_no_commitment() -> None:
    """Seen: the same replay was refused: "at best 1 cores where 6.248 cores is needed"."""
    fast, slow = replay(0.0), replay(1.0)
    assert not any(paced(fast, name) for name in fast.operators)
    assert all(paced(slow, name) for name in slow.operators)
    believed = trusted_profiles(fast, profiles(fast, 4.5e6))
    assert {each.rate for each in believed.values()} == {None}
    assert {(each.cost, each.selectivity) for each in believed.values()} == {(4e-7, 0.5)}
    assert {each.rate for each in trusted_profiles(slow, profiles(slow, 70.0)).values()} == {70.0}


def test_a_replay_is_admitted_again_and_again_whatever_was_measured_of_it() -> None:
    ring = Ring(4, seed=6, config=lambda n: PeerConfig(f"peer-{n}", cores=0.25, seed=n))
    plan = replay(0.0)
    rng = random.Random(2)
    for number in range(6):
        for name, measured in profiles(plan, 4.5e6).items():
            noisy = {"rate": 4.5e6 * rng.uniform(0.1, 3.0), "cost": 4e-7 * rng.uniform(0.5, 2.0), "selectivity": 0.5}
            assert measured.rate is not None
            ring.simulation.call("peer-1", ring.synergy["peer-1"].streams.profile, name, noisy)
        ring.run(3.0)
        ring.submit("peer-1", f"r{number}", plan)
        report = ring.until_decided(f"r{number}")
        assert report.status == "running", report.reason
        ring.simulation.report("peer-1", StopApplication(f"r{number}"))
        ring.run(2.0)


def test_a_replay_does_not_move_to_spark_for_the_speed_that_it_had_on_peers() -> None:
    """Seen: from some repetition on a replay ran at a thirtieth of its speed, as `auto` had chosen Spark."""
    fast, slow = replay(0.0), replay(1.0)
    offer = SparkOffer(state_bytes=256e6, cores=1.0)
    assert choose(fast, offer, profiles(fast, 4.5e6)).reasons["aggregate"][0] == "peer"
    assert choose(slow, offer, profiles(slow, 4.5e6)).reasons["aggregate"][0] == "spark"  # it has to bear that rate


def test_the_cost_of_a_tuple_is_estimated_despite_noise_or_not_reported() -> None:
    rng = random.Random(3)
    cost = UnitCost()
    for _ in range(500):  # calls on single tuples, held up by other work
        cost.add(1, 0.0003 + rng.expovariate(1 / 0.002))
    assert cost.seconds is None
    for _ in range(40):  # 2 µs a tuple, and in every third execution the machine did something else
        held_up = rng.uniform(0.0, 0.2) if rng.random() < 0.33 else 0.0
        cost.add(1000, 0.002 * rng.uniform(0.95, 1.05) + held_up)
    assert cost.seconds == pytest.approx(2e-6, rel=0.05)
    heavy = UnitCost()
    for _ in range(20):
        heavy.add(1, 0.02 + rng.expovariate(1 / 0.001))
    assert heavy.seconds == pytest.approx(0.02, rel=0.1)


def test_a_load_is_not_taken_from_how_long_a_busy_machine_took() -> None:
    """Seen: "at best inf s", admitted on repeat: tuples that waited for a processor counted as load."""
    share = Memory().share("a", "filter")
    component = Component("a", "filter", "p", Assignment("p"), Role.ACTIVE, None, share=share, measure_s=1.0)
    component.planned_s = 1e-6
    now = 0.0
    for rate in (10, 200):
        for _ in range(10 * rate):
            now += 1 / rate
            component.arrived(1, now)
            component.executed(1, 0.003, now)
    assert all(segment.load <= 0.001 for segment in component.segments(now))


def test_missing_capacity_is_reported_as_such() -> None:
    ring = Ring(3, seed=7, config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    ring.submit("peer-1", "burst", filtered("1 s"))
    assert ring.until_decided("burst").status == "running"
    components = ring.synergy["peer-1"].session.components
    bursts = (Segment(0.0, 1.0, 0.1, 10.0), Segment(1.0, 1.0, 1.2, 1000.0))
    ring.simulation.call("peer-1", components.load_measured, ("burst", "filter"), bursts)
    ring.submit("peer-1", "next", filtered("1 s"))
    report = ring.until_decided("next")
    assert report.status == "rejected"
    assert "busy all the time" in report.reason
    assert "inf" not in report.reason


# -- the measurement ---------------------------------------------------------------------------------------------------


def test_a_plan_that_is_refused_when_it_is_to_run_again_counts_as_it_ran_first() -> None:
    chosen = GraphSelected(1.0, "peer-1", "out", {}, 0.5, 0.01, 0.02, 0.05, "least load")
    once = SimpleNamespace(
        qos=lambda: {"delay_p95_s": 0.03}, events=lambda: [chosen], results=lambda: None, stop=lambda: None
    )
    submissions: list[Any] = [once]

    def submit(_plan: Plan) -> Any:
        if not submissions:
            raise NotAdmitted("no capacity")
        return submissions.pop()

    cluster: Any = SimpleNamespace(submit=submit)
    plan = source("packets", seed=1, rate=20.0).sink("out", delay="1 s")
    assert _answer(cluster, plan, 1.0, twice=True) == Answer(1.0, "", 0.02, 0.03)
    assert not submissions


def test_answers_are_counted_by_what_was_promised() -> None:
    answers = [
        Answer(0.1, "", 0.05, 0.06),  # admitted and kept
        Answer(0.1, "", 0.05, 0.2),  # admitted and broken
        Answer(0.1, "too slow", 0.2, 0.15),  # refused rightly
        Answer(0.1, "too slow", 0.2, 0.09),  # refused wrongly
        Answer(0.1, "no room", None, None),  # cannot run at all
        Answer(0.1, "", 0.05, None),  # admitted, and no result ever came
    ]
    found = summarised(answers)
    assert (found["admitted"], found["admitted_kept"]) == (3, 0.3333)
    assert (found["refused"], found["refused_would_have_kept"]) == (3, 0.3333)


def test_simulated_peers_keep_what_they_promise() -> None:
    """Nothing but the model decides there, so the model holds, or its queues do not agree with its projection."""
    stages = {
        SOURCE: Overhead(6e-4, 1e-7), HOP: Overhead(2e-4, 1e-8), LINK: Overhead(1e-3, 1e-7),
        **{kind: Overhead(7e-4, 1e-7) for kind in ("filter", "project", "sample", "sink", "delay", "union")},
        "aggregate": Overhead(4e-3, 1e-6),
    }  # fmt: skip
    rng, names = random.Random(5), ["peer-1", "peer-2", "peer-3", "peer-4"]
    plans = [random_plan(rng, names, limit) for limit in (0.001, 0.002, 0.05, 0.2, 0.5, 0.8, 1.0, 0.1)]
    found = summarised(simulated(plans, stages, names, cores=0.5))
    assert found["refused"] >= 2
    assert found["refused_would_have_kept"] == 0.0
    assert found["admitted_kept"] == 1.0


def test_random_plans_are_valid_and_differ() -> None:
    rng = random.Random(4)
    plans = [random_plan(rng, ["peer-1", "peer-2"], 0.05) for _ in range(50)]
    assert len({plan.to_bytes() for plan in plans}) == 50
    assert {operator.kind for plan in plans for operator in plan.operators.values()} >= {
        "source", "sink", "filter", "project", "sample", "delay", "aggregate", "union",
    }  # fmt: skip
    assert all(plan.qos.delay == pytest.approx(0.05) for plan in plans)
    for plan in plans:  # enough tuples, and windows, to tell 5 % of them
        packets = plan.operators[plan.sources[0]].params
        assert packets["rate"] * packets["duration"] >= 99.9
        assert packets["duration"] >= 6.0 or all(each.kind != "aggregate" for each in plan.operators.values())


@pytest.mark.parametrize("speed", [1.0, 60.0, 40_000.0])
def test_windows_of_a_replay_are_estimated_by_its_speed(speed: float) -> None:
    """Seen: a replay 40,000 times as fast as its trace was refused, as its windows were taken to be 20 minutes long."""
    overheads = Overheads.known({"sink": Overhead(0.001, 0.0)})
    overheads.together = 0.005
    plan = replay(speed)
    seconds = max(60.0 / speed, 0.005)
    beside = plan.input_rate("sink") * seconds * plan.processing_time("sink")
    assert overheads.component(plan, "sink").mean == pytest.approx(0.001 + beside)


def test_windows_of_a_stream_without_a_pace_are_not_projected_to_hold_what_nobody_knows() -> None:
    """Seen: a daily window over a table was refused, "at best 16.82 s where 2 s is allowed"."""
    overheads = Overheads.known({"sink": Overhead(0.001, 0.0)})
    overheads.together = 0.005
    daily = {speed: replay(speed).operators for speed in (0.0, 1.0)}
    plans = {speed: Plan(operators.values()) for speed, operators in daily.items()}
    assert overheads.component(plans[0.0], "sink").mean < 0.01
    assert overheads.component(plans[1.0], "sink").mean > overheads.component(plans[0.0], "sink").mean


@pytest.mark.parametrize(("delay", "kept"), [("1 h", 0.5), ("10 s", 0.2), ("2 s", 0.0)])
def test_a_projection_counts_for_how_long_a_source_keeps_tuples_back(delay: str, kept: float) -> None:
    """As the source of a peer does: :func:`gathering` tells both."""
    plan = source("packets", rate=10.0).filter("bytes > 0").sink("out", delay=delay)
    overheads = Overheads.known({"source": Overhead(0.002, 1e-6), "filter": Overhead(0.001, 1e-6)}, together=0.005)
    assert overheads.component(plan, "source").mean == pytest.approx(0.002 + kept)
    assert overheads.component(plan, "source").variance == 1e-6, "it is kept back for no longer"
    beside = plan.input_rate("filter") * max(kept, 0.005) * plan.processing_time("filter")
    assert overheads.component(plan, "filter").mean == pytest.approx(0.001 + beside)
    assert overheads.expected(SOURCE).mean == 0.002, "what tuples of others take that are not kept back"
    alone = Overheads.known({"source": Overhead(0.002, 1e-6)})  # as of a simulation, whose sources gather nothing
    assert alone.component(plan, "source") == Overhead(0.002, 1e-6)
