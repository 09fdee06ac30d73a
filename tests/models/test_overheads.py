"""Overheads of plans: their measurement, and their use in projection."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time

import numpy as np
import pytest

from synergy_experiments.bench.answers import LONGEST, SHORTEST, Answer, over_all_limits, summarised
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OverheadsMeasured, StopApplication
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.peer import DriverMessage
from synergy_nb.events import GraphSelected
from synergy_nb.lifecycle.requests.selection_conditions import violated_condition
from synergy_nb.models.overheads import CORRELATION, HOP, REFERENCE, SOURCE, Overhead, Overheads, together
from synergy_nb.overlay.latency import Latency
from synergy_nb.plan import Plan, source
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.process._calibration import RARELY, Calibration, calibration_cases
from synergy_nb.runtime.process._peer_reports import LATEST, MeasuredOverheads
from tests.simulated import Ring

LATE = CompositionConfig(late=0.05)
#: Are no operators here, need a key or lists, or would run Polars in a fork server (`lookup`) or a user's code.
WITHOUT = {"source", "tap", "spark", "encrypt", "decrypt", "unnest", "lookup", "apply", "apply_windows", "apply_keyed"}


def delayed(cost: str, at: str = "peer-1") -> Plan:
    stream = source("packets", rate="40 tuples/s", speed=1, at=at).delay(cost, at=at)
    return stream.filter("bytes > 0", at=at).sink("out")


# -- calibration -------------------------------------------------------------------------------------------------------


def test_every_kind_has_a_specimen_that_gives_a_result_again_and_again() -> None:
    found = {}
    for specimen in calibration_cases():
        found[specimen.kind] = [specimen.execute(specimen.items()) for _ in range(3)]
    assert found.keys() == KINDS.keys() - WITHOUT
    assert all(rows > 0 for made in found.values() for rows in made), found


def test_calls_are_measured_rarely_once_they_have_taken_as_long_as_before_for_long() -> None:
    seconds, now = 1.0, 0.0
    measured: list[float] = []

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    class Noted(MeasuredOverheads):
        def called(self, seconds: float) -> None:
            measured.append(seconds)

    loop = asyncio.new_event_loop()
    try:
        calibration = Calibration(loop, clock, Noted(0.0, lambda _: None))

        def calls(looks: int) -> int:
            before = len(measured)
            for _ in range(looks):
                calibration.look(now)
            return len(measured) - before

        assert calls(1 + LATEST) == 1 + LATEST
        assert calls(8 * RARELY) == 8
        seconds = 2.0
        assert calls(RARELY) == 1, "so late it is noticed that a call takes twice as long"
        assert calls(LATEST) == LATEST, "then as many calls as a speed is made of follow one another"
        assert calls(8 * RARELY) == 8
        calibration.renew()
        assert calls(LATEST) == LATEST
    finally:
        loop.close()


def test_calibration_measures_all_kinds_before_any_plan_runs() -> None:
    times = itertools.count()
    sent: list[DriverMessage] = []
    loop = asyncio.new_event_loop()
    overheads = MeasuredOverheads(0.0, sent.append)
    try:
        calibration = Calibration(loop, lambda: float(next(times)), overheads)
        for _ in range(2 * len(KINDS)):
            calibration.measure(-1.0)
    finally:
        loop.close()
    assert set(overheads.measured()) == {SOURCE, REFERENCE, HOP}
    for kind in KINDS.keys() - WITHOUT:  # by this clock, each reading takes a second
        assert overheads.expected(kind) == Overhead(1.0, 0.0)
    calibration.close()
    calibration.measure(0.0)
    assert overheads.expected(SOURCE).mean == pytest.approx(overheads.measured()[SOURCE].mean)
    received = Overheads()  # of the peer: it knows as much as its driver, which has sent it what changed
    messages = [message for message in sent if isinstance(message, OverheadsMeasured)]
    for message in messages:
        received.assume(message.stages, message.calls)
    assert sum(REFERENCE in message.stages for message in messages) == 1, "what has not changed is not sent again"
    assert {kind: received.expected(kind) for kind in KINDS} == {kind: overheads.expected(kind) for kind in KINDS}


def test_what_a_stream_has_measured_is_sent_with_the_next_calibration_and_not_before() -> None:
    sent: list[DriverMessage] = []
    loop = asyncio.new_event_loop()
    overheads = MeasuredOverheads(0.0, sent.append)
    calibration = Calibration(loop, time.monotonic, overheads, busy=lambda: True)  # which has nothing to add itself
    loop.close()
    for _ in range(3):
        overheads.observe("aggregate", 2.0)
    assert sent == []
    calibration.measure(0.0)
    assert OverheadsMeasured({"aggregate": Overhead(2.0, 0.0)}, {}) in sent  # beside the speed, if that has changed


def test_a_kind_that_has_not_run_takes_as_much_more_than_the_reference_as_its_call_does() -> None:
    """Seen: guesses, in multiples of the reference, were wrong by a factor of three."""
    overheads = Overheads()
    for kind, call in ((REFERENCE, 0.0003), ("aggregate", 0.004), ("union", 0.00001)):
        overheads.calibrate(kind, call)
    assert overheads.expected("aggregate") == (0.0, 0.0)  # nothing has run
    assert overheads.empty
    for _ in range(3):
        overheads.observe(REFERENCE, 0.0005)
    assert overheads.expected("aggregate").mean == pytest.approx(0.0005 + 0.004 - 0.0003)
    assert overheads.expected("union").mean == pytest.approx(0.0005 + 0.00001 - 0.0003)
    assert overheads.expected("encrypt").mean == pytest.approx(0.0005)
    assert overheads.expected("no such stage") == (0.0, 0.0)
    overheads.observe("aggregate", 0.009)
    assert overheads.expected("aggregate").mean == pytest.approx(0.009)  # what has run counts


def test_measurements_during_a_start_soon_count_little() -> None:
    """Seen: on a busy machine a new cluster refused its first plans, as its threads had waited for its own start."""
    loop = asyncio.new_event_loop()
    overheads = MeasuredOverheads(0.0, lambda _: None)
    times = itertools.count(step=0.0005)
    calibration = Calibration(loop, lambda: next(times), overheads)
    loop.close()
    for held_up in (1.2, 0.8, 1.5, 0.9, 2.0):
        overheads.observe(SOURCE, held_up)
        overheads.observe(REFERENCE, held_up / 10.0)
    calibration.renew()
    for _ in range(3):
        overheads.observe(SOURCE, 0.0005)
        overheads.observe(REFERENCE, 0.0005)
    assert overheads.expected(SOURCE).mean < 0.0015
    assert overheads.expected(REFERENCE).mean < 0.0015
    assert overheads.expected(SOURCE).variance < 0.002**2
    for _ in range(20):
        overheads.observe(SOURCE, 0.3)  # it is as slow all the time
    assert overheads.expected(SOURCE).mean > 0.1


# -- the way of data ---------------------------------------------------------------------------------------------------


def test_the_delay_of_data_is_estimated_from_pings_alone() -> None:
    """Seen: ways were projected at twice what they took, as acknowledgements of control messages come in bursts."""
    latency = Latency()
    assert latency.one_way_overhead("b") is None
    latency.sample("b", 0.5)
    assert latency.one_way_overhead("b") is None
    rng = random.Random(1)
    ways = [rng.lognormvariate(-7.5, 0.3) for _ in range(800)]
    for there, back in zip(ways[::2], ways[1::2], strict=True):
        latency.ping("b", there + back)
        latency.sample("b", 0.5)
    found = latency.one_way_overhead("b")
    assert found is not None
    assert found.mean == pytest.approx(np.mean(ways), rel=0.2)
    assert math.sqrt(found.variance) == pytest.approx(np.std(ways), rel=0.6)
    assert (latency.rtt("b") or 0.0) > 0.2
    latency.forget("b")
    assert latency.one_way_overhead("b") is None


def test_bursts_of_control_messages_do_not_change_what_is_projected() -> None:
    ring = Ring(3, seed=1, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=LATE))
    for synergy in ring.synergy.values():
        for stage in (SOURCE, REFERENCE, HOP):
            synergy.probing.overheads.observe(stage, 1e-4)
    plan = source("packets", speed=1, at="peer-1").filter("bytes > 0", at="peer-2").sink("out")
    delays = []
    for name, burst in (("before", 0), ("after", 50)):
        for synergy in ring.synergy.values():
            for other in ring.synergy:
                for _ in range(burst):
                    synergy.latency.sample(other, 2.0)
        ring.submit("peer-1", name, plan)
        assert ring.until_decided(name).status == "running"
        delays.append(ring.events(name, GraphSelected)[0].delay_s)
    assert 0.0 < delays[1] < 1.3 * delays[0]


# -- putting it together -----------------------------------------------------------------------------------------------


def test_the_variance_of_a_path_is_that_of_correlated_times() -> None:
    rng = np.random.default_rng(1)
    deviations = np.array([0.001, 0.003, 0.002, 0.0005])
    correlations = np.full((4, 4), CORRELATION) + (1.0 - CORRELATION) * np.eye(4)
    covariance = correlations * np.outer(deviations, deviations)
    assert together(deviations**2) == pytest.approx(covariance.sum())
    drawn = rng.multivariate_normal(np.zeros(4), covariance, 100_000).sum(axis=1)
    assert together(deviations**2) == pytest.approx(drawn.var(), rel=0.03)
    assert together([0.0, 0.0]) == 0.0
    assert together([1.0, math.inf]) == math.inf


@pytest.mark.parametrize(("server", "load"), [(None, 0.8), (1.0, 0.2)])
def test_a_tuple_waits_for_the_thread_that_executes_it(server: float | None, load: float) -> None:
    """Seen: peers that promise a quarter of a core were projected to be four times as busy as their threads are."""
    ring = Ring(3, seed=2, config=lambda n: PeerConfig(f"peer-{n}", seed=n, cores=0.25, composition=LATE))
    for synergy in ring.synergy.values():
        synergy.ledger.server = server or synergy.ledger.cores
    ring.submit("peer-1", "r", delayed("5 ms"))
    assert ring.until_decided("r").status == "running"
    delay = ring.events("r", GraphSelected)[0].delay_s
    way = 2 * 0.05  # at most, to the sink where that is another peer's
    assert 0.005 / (1.0 - load) <= delay <= 0.0051 / (1.0 - load) + way


# -- near the limit ----------------------------------------------------------------------------------------------------


def bound(limit: float | None, **more: str) -> Plan:
    stream = source("packets", rate="20 tuples/s", speed=1, at="peer-1").filter("bytes > 0", at="peer-1")
    return stream.sink("out", delay=None if limit is None else f"{limit!r} s", **more)


def projected(ring: Ring) -> float:
    """Seconds that a plan without a limit is projected to take; it is stopped again."""
    ring.submit("peer-1", "free", bound(None))
    assert ring.until_decided("free").status == "running"
    ring.simulation.report("peer-1", StopApplication("free"))
    ring.run(2.0)
    found = ring.events("free", GraphSelected)[0].quantile_s
    assert found is not None
    return found


def ring_of(composition: CompositionConfig, *, measured: bool) -> Ring:
    ring = Ring(3, seed=7, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=composition))
    for synergy in ring.synergy.values() if measured else ():
        for stage in (SOURCE, REFERENCE, HOP):
            for seconds in (0.001, 0.002, 0.004):
                synergy.probing.overheads.observe(stage, seconds)
    return ring


@pytest.mark.parametrize("late", [0.05, None])
def test_a_plan_is_refused_for_its_limit_only_beyond_the_guard_band(late: float | None) -> None:
    ring = ring_of(CompositionConfig(late=late), measured=True)
    takes = projected(ring)
    ring.submit("peer-1", "near", bound(takes / 1.08))
    assert ring.until_decided("near").status == "running"
    assert ring.events("near", GraphSelected)[0].quantile_s == pytest.approx(takes)
    told = str(Explanation("near", ring.events("near"), {}))
    assert "close enough to the limit of" in told
    assert ("95 % of the tuples within" in told) is (late is not None)
    ring.simulation.report("peer-1", StopApplication("near"))
    ring.run(2.0)
    ring.submit("peer-1", "far", bound(takes / 1.12))
    report = ring.until_decided("far")
    assert report.status == "rejected"
    assert f"where {takes / 1.12:.4g} s is allowed, exceeded by more than 10 % (peer-1)" in report.reason
    assert ", more than 10 % over" in str(Explanation("far", ring.events("far"), {}))


def test_a_refusal_tolerates_the_excess_of_the_configuration_only() -> None:
    ring = ring_of(CompositionConfig(late=0.05, guard_band=0.0), measured=True)
    takes = projected(ring)
    ring.submit("peer-1", "r", bound(takes / 1.01))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "more than" not in report.reason


def test_a_limit_is_kept_to_the_letter_where_nothing_is_measured() -> None:
    ring = ring_of(CompositionConfig(), measured=False)
    takes = projected(ring)
    ring.submit("peer-1", "fits", bound(takes * 1.01))
    assert ring.until_decided("fits").status == "running"
    ring.simulation.report("peer-1", StopApplication("fits"))
    ring.run(2.0)
    ring.submit("peer-1", "r", bound(takes / 1.01))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "more than" not in report.reason


def test_a_stated_miss_rate_has_no_guard_band() -> None:
    ring = ring_of(CompositionConfig(late=0.05), measured=True)
    takes = projected(ring)
    ring.submit("peer-1", "stated", bound(takes / 1.05, miss_rate="5 %"))
    report = ring.until_decided("stated")
    assert report.status == "rejected"
    assert "miss rate" in report.reason
    ring.submit("peer-1", "default", bound(takes / 1.05))
    assert ring.until_decided("default").status == "running"


@pytest.mark.parametrize(("share", "reason"), [(1.08, ""), (1.12, "exceeds 0.1 s by more than 10 % (2.2)")])
def test_the_origin_holds_graphs_to_the_same_limit_as_peers_on_the_way(share: float, reason: str) -> None:
    plan = bound(0.1)
    hops = {name: Hop(name, "a", 1.0, math.inf, 0.1 * share / 3.0, 0.0) for name in plan.operators}
    edges = [("source", "filter"), ("filter", "sink")]
    graph = ComponentGraph(hops, dict.fromkeys(edges, (math.inf, 0.0)))
    found = violated_condition(plan, graph, None, graph.balance(plan), 0.1)
    assert found == (f"delay {0.1 * share:.4g} s {reason}" if reason else "")
    assert (
        violated_condition(plan, graph, None, graph.balance(plan)) == f"delay {0.1 * share:.4g} s exceeds 0.1 s (2.2)"
    )


# -- what comes of it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("band", [0.0, 0.5])
def test_shares_over_all_limits_are_those_of_many_random_ones(band: float) -> None:
    rng = random.Random(3)
    pairs = [(math.exp(rng.uniform(-8.0, 0.5)), math.exp(rng.uniform(-8.0, 0.5))) for _ in range(20)]
    answers = []
    for _ in range(20_000):
        projected, measured = rng.choice(pairs)
        limit = math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST)))
        answers.append(Answer(limit, "" if projected <= limit * (1.0 + band) else "too slow", projected, measured))
    counted, found = summarised(answers, band), over_all_limits(pairs, band)
    assert counted["over_all_limits"]["off"] == pytest.approx(found["off"], abs=0.05)
    assert found["admitted_kept"] == pytest.approx(counted["admitted_kept"], abs=0.015)
    assert found["refused_would_have_kept"] == pytest.approx(counted["refused_would_have_kept"], abs=0.015)
    assert over_all_limits([(0.01, 0.01)]) == {"admitted_kept": 1.0, "refused_would_have_kept": 0.0, "off": 0.0}
    assert over_all_limits([])["admitted_kept"] == 1.0
