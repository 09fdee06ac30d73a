"""C13 and C14: projections compared with measurements, which literal counts confirm."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from synergy_experiments.chapters import accuracy
from synergy_experiments.chapters.accuracy import (
    BURST,
    EVERY,
    PACKETS,
    PATTERNS,
    SENSORS,
    arrivals_of,
    recorded,
    synthetic,
)
from synergy_experiments.flows.flow_applications import Arrivals
from synergy_experiments.framework import runner
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Value, at_scale
from synergy_experiments.worlds.newcomers import READINGS, impact_of_newcomer
from synergy_experiments.worlds.projected_delays import (
    BOUND,
    FLOOR,
    LEARNT,
    ON_OFF,
    OWN,
    PAPER,
    PROJECTED,
    Found,
    Learnt,
    Run,
    Stream,
    caught,
    compare,
    curves,
    project,
    run,
    scores,
)

C13, C14 = accuracy.CLAIMED


@pytest.fixture(scope="module")
def bursty() -> Run:
    """Streams of 30/10 tuples/s by turns, 1.25 s each, beside a regular one."""
    streams = [
        Stream(Arrivals.on_off(30.0, 10.0, 1.25, 1.25), 0.015),
        Stream(Arrivals.poisson(10.0), 0.02),
    ]
    return run(streams, 10.0, 30, 5, 300.0)


def values(points: list[Point]) -> dict[tuple[str, str], float]:
    return {(point.algorithm, point.metric): point.value for point in points}


# -- what is executed and learnt ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_learnt_signature_is_that_of_the_arrivals(bursty: Run) -> None:
    assert len(bursty.births) == len(bursty.delays) == len(bursty.alone) == pytest.approx(20 * 300, rel=0.05)
    assert (np.diff(bursty.births) >= 0.0).all()
    assert bursty.births[-1] < 300.0
    assert bursty.alone.mean() < bursty.delays.mean(), "alone it waits for less"
    for born, learnt in zip([bursty.births], bursty.learnt, strict=False):
        assert len(learnt.segments) == len(learnt.scv) == 30
        for number, segments in enumerate(learnt.segments, start=1):
            assert segments[-1].end == 10.0 * number
            begun = segments[0].start
            work = sum(each.length * each.load for each in segments)
            assert work == pytest.approx(0.015 * ((born > begun) & (born <= 10.0 * number)).sum(), abs=0.02)


def test_segments_are_compared_with_their_tuples(bursty: Run) -> None:
    found = compare(bursty, same=False, segment=1.25)
    expected = []
    for number in range(LEARNT + 1, 30):
        for k in range(8):
            low = 10.0 * number + 1.25 * k
            own = (bursty.births >= low) & (bursty.births < low + 1.25)
            if own.any():
                expected.append((bursty.delays[own].mean(), own.sum(), k % 2 == 0))
    assert found.actual == pytest.approx([each[0] for each in expected])
    assert found.tuples.tolist() == [each[1] for each in expected]
    assert found.high.tolist() == [each[2] for each in expected]
    assert found.tuples[found.high].mean() > 2.0 * found.tuples[~found.high].mean()


def test_projections_are_of_the_segment_in_whose_middle_they_are(bursty: Run) -> None:
    number = 7
    pieces, projected = project(bursty, number)
    found = compare(bursty, same=True, segment=1.25)
    first = compare(Run(*(*vars(bursty).values(),)), same=True, segment=1.25)
    assert first.actual.tolist() == found.actual.tolist(), "nothing is left to chance"
    starts = np.concatenate([[0.0], np.cumsum(pieces.lengths)])
    offset = sum(
        ((bursty.births >= 1.25 * k) & (bursty.births < 1.25 * (k + 1))).any() for k in range(8 * LEARNT, 8 * number)
    )
    middle = 3 * 1.25 + 0.625
    piece = int(np.searchsorted(starts, middle)) - 1
    for name in (PAPER, "mm1", "transient"):
        assert found.projected[name][offset + 3] == projected[name].at(np.array([middle]))[0]
    assert projected["mm1"].at(np.array([middle]))[0] == projected["mm1"].times[piece]
    shortest = min(each.length for each in bursty.learnt[0].segments[number][1:-1])
    assert projected[PAPER].lengths[0] <= shortest + 1e-9, "the paper cuts by the shortest segment of all streams"
    assert len(set(projected[PAPER].lengths[:-1].round(9))) == 1


def test_found_segments_are_compared_where_the_truth_is_not_known(bursty: Run) -> None:
    found = compare(bursty, same=True)
    assert found.tuples.sum() == pytest.approx(((bursty.births >= 20.0) & (bursty.births < 290.0)).sum(), abs=2)
    mean = found.projected["mm1"][found.high].mean()
    assert np.median(found.projected["mm1"][found.high]) > np.median(found.projected["mm1"][~found.high])
    assert mean > 0.0


def test_of_bursts_that_do_not_come_again_the_time_of_any_tuple_is_projected() -> None:
    """The same number of bursts in each window, but at other times: their own segments project the wrong tuples."""
    rng = np.random.default_rng(3)
    starts = (10.0 * np.arange(24)[:, None] + np.sort(rng.choice(8, (24, 3)) * 1.25, axis=1)).ravel()
    times = np.sort(np.concatenate([rng.uniform(0.0, 240.0, 2000), (starts[:, None] + rng.uniform(0, 1, 40)).ravel()]))
    done = run([Stream(Arrivals.trace(times), 0.02), Stream(Arrivals.poisson(8.0), 0.02)], 10.0, 24, 5, 300.0)
    assert np.mean(done.learnt[0].recurring[8:]) < 0.3
    found = values(list(scores(compare(done, same=False), "x")))
    assert found[ON_OFF, "error of means"] < 0.6 * found["transient", "error of means"]


# -- how it is scored --------------------------------------------------------------------------------------------------


def test_scores_equal_a_calculation_by_hand() -> None:
    """Four segments of 10, 30, 20 and 20 tuples; a projection that is twice the first and right elsewhere."""
    actual, tuples = np.array([1.0, 2.0, 1.0, 3.0]), np.array([10, 30, 20, 20])
    high = np.array([True, True, False, False])
    right = {name: actual.copy() for name in PROJECTED}
    right["mm1"] = np.array([2.0, 1.9, 1.0, 3.0])
    right[PAPER] = np.array([math.inf, 2.0, 1.0, 3.0])
    found = values(list(scores(Found(right, actual, tuples, high), "x", "p: ")))
    assert found["mm1", "p: error"] == pytest.approx((10 * 1.0 + 30 * 0.1) / (10 + 60 + 20 + 60))
    assert found["mm1", "p: at high rate"] == pytest.approx((20 + 57) / 70)
    assert found["mm1", "p: at low rate"] == 1.0
    assert found["mm1", "p: error of means"] == pytest.approx((77 / 70 - 1) / 2)
    assert found["mm1", "p: optimistic"] == 0.5
    assert found["mm1", "p: conservative"] == 1.0
    assert found["mm1", "p: overload"] == 0.0
    assert found[PAPER, "p: overload"] == 10 / 80
    assert found[PAPER, "p: error"] == 0.0
    assert found[PAPER, "p: optimistic"] == 0.0
    assert found["mg1", "p: follows"] == pytest.approx(1.0)
    assert found["mm1", "p: follows"] < 0.9
    known = np.array([70 / 40, 70 / 40, 2.0, 2.0])
    assert found[FLOOR, "p: error"] == pytest.approx(np.dot(tuples, np.abs(known - actual)) / 150)


def test_changes_are_caught_in_time_and_place(bursty: Run) -> None:
    told = [(11.0, 10.1), (21.5, 18.0), (31.0, 30.0), (45.0, 40.0)]
    done = Run(**{**vars(bursty), "learnt": [Learnt([], [], told, [], [])]})
    changes = np.array([10.0, 20.0, 30.0, 40.0])
    assert caught(done, changes, 4.0) == 0.5, "the second is misplaced, the fourth too late"
    assert math.isnan(caught(done, np.array([]), 4.0))
    assert caught(Run(**{**vars(bursty), "learnt": [Learnt([], [], [], [], [])]}), changes, 4.0) == 0.0


def test_curves_show_projected_and_actual_delays_of_one_window(bursty: Run) -> None:
    points = list(curves(bursty, "delay"))
    names = {point.algorithm for point in points}
    assert names == {f"projected, {PAPER}", "projected, mm1", f"projected, {ON_OFF}", "actual", "isolated"}
    assert all(0.0 < float(point.x) < 10.0 for point in points)
    actual = [point for point in points if point.algorithm == "actual"]
    at = float(actual[0].x)
    own = (bursty.births >= 160.0 + at - 0.1) & (bursty.births < 160.0 + at + 0.1)
    assert actual[0].value == pytest.approx(bursty.delays[own].mean())
    short = list(curves(bursty, "delay", 1.0))
    assert max(float(point.x) for point in short) < 1.0


# -- patterns ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_docstring_about_bursts_is_true() -> None:
    found = values(synthetic("30/10, 5 s", 0.45, 0.3, 1.0, 10.0, 60, 300.0, 3))
    assert found["signature", "found"] > 0.9
    assert found[PAPER, "conservative"] > 0.95
    assert found[PAPER, "at high rate"] > 1.0
    assert found[PAPER, "at low rate"] > 1.5
    assert found[PAPER, "same window: follows"] < found["mm1", "same window: follows"]
    assert found["transient", "error of means"] < 0.12
    assert found["transient", "error"] < 0.5 * found[PAPER, "error"]
    assert found[FLOOR, "error"] > 0.5 * found["mm1", "error"], "half of it cannot be reached in single segments"
    assert found[BOUND, "optimistic"] < 0.02
    short = values(synthetic("30/10, 0.5 s", 0.45, 0.3, 1.0, 10.0, 20, 300.0, 3))
    assert short["signature", "found"] < 0.05


@pytest.mark.slow
def test_the_docstring_about_a_newcomer_is_true() -> None:
    found = values(synthetic("30/10, 5 s", 0.45, 0.3, 1.0, 10.0, 40, 300.0, 3))
    error = {reading: found[f"transient, {reading}", "impact error"] for reading in READINGS}
    assert error["signature"] < 0.3
    assert 2.0 * error["signature"] < error["mean"] < error["maximum"]
    assert found["mm1, signature", "impact error"] < found["mm1, mean", "impact error"]
    beside = {reading: found[f"transient, {reading}", "beside bursts: impact error"] for reading in READINGS}
    assert beside["signature"] < beside["mean"] < beside["maximum"]
    assert found["transient, mean", "impact at high rate"] < 0.7, "optimistic, where it matters"
    assert found["transient, maximum", "impact at low rate"] > 3.0


def test_a_regular_newcomer_is_the_same_by_all_readings() -> None:
    streams = [Stream(Arrivals.poisson(20.0), 0.01)] * 2
    found = values(list(impact_of_newcomer(streams, "x", 2.5, 10.0, 6, 1, 1e9)))
    for projector in ("mm1", "transient"):
        ratios = [found[f"{projector}, {reading}", "impact at high rate"] for reading in READINGS]
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-6)


@pytest.mark.slow
def test_the_docstring_about_unequal_components_is_true() -> None:
    found = values(synthetic("300/100, 2.5 s", 0.45, 0.3, 3.0, 10.0, 15, 300.0, 2))
    assert found["mm1", "at high rate"] < 0.9
    assert found["mm1", "at low rate"] < 0.8
    assert found["transient", "error of means"] < 0.5 * found["mm1", "error of means"]


def test_regular_traffic_has_no_changes_to_find() -> None:
    points = synthetic("20/s", 0.45, 0.3, 1.0, 10.0, 20, 300.0, 3)
    assert not [point for point in points if point.metric == "found"]
    assert points == synthetic("20/s", 0.45, 0.3, 1.0, 10.0, 20, 300.0, 3), "same seed, same run"


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_generated_sensors_burst_every_five_minutes() -> None:
    times = arrivals_of(SENSORS, 400, 1)
    assert len(times) == 400
    assert ((times % EVERY) <= 1.0).all()
    assert np.bincount((times // EVERY).astype(int)).tolist() == [BURST] * 10


def test_generated_packets_are_as_many_as_asked_for() -> None:
    times = arrivals_of(PACKETS, 2000, 1)
    assert len(times) == 2000
    assert times[0] == 0.0
    assert len(times) / times[-1] == pytest.approx(250.0, rel=0.5)
    assert (arrivals_of(PACKETS, 2000, 2) != times).any()


def test_requests_logged_to_the_second_arrive_within_it(tmp_path: Path) -> None:
    counts = [0, 3, 0, 2, 5, 1, 0, 4]
    path = tmp_path / "nasa-http-requests-per-second.txt.gz"
    path.write_bytes(gzip.compress("\n".join(map(str, counts)).encode()))
    times = arrivals_of(str(path), 15, 1)
    assert len(times) == 15
    assert times[0] == 0.0
    assert (np.diff(times) > 0.0).all()
    first = np.random.default_rng([1, 13]).uniform(0.0, 1.0, 15)[:3].min()
    seconds = np.floor(times + 1.0 + first + 1e-9).astype(int)
    assert np.bincount(seconds, minlength=8).tolist() == counts


def tcp_trace(path: Path) -> Path:
    """A packet trace: 40 tuples/s for 10 s, 4 for the next 10, and so on."""
    lines, time = [], 0.0
    rng = np.random.default_rng(8)
    while time < 400.0:
        time += rng.exponential(1 / 40.0 if time % 20.0 < 10.0 else 1 / 4.0)
        lines.append(f"{time:.6f} 1 2 1024 80 100")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_trace_of_the_user_is_compared_with_the_paper(tmp_path: Path) -> None:
    path = tcp_trace(tmp_path / "mine.tcp")
    setup: dict[str, Value] = {"traces": (str(path),), "tuples": 6000, "a_window": 440}
    (result,) = runner.reproduce([(C13, setup)], repeat=3)
    assert {row.x for row in result.rows if row.metric == "error"} == {"mine.tcp"}
    assert next(row.metric for row in result.rows if row.metric.startswith("delay")) == "delay, trace 1"
    verdicts = {check.name: check.verdict for check in result.checks}
    judged = [name for name in verdicts if "learnt from" not in name and "knowing" not in name]
    assert {name for name in judged if verdicts[name] == "not comparable"} <= {
        name for name in judged if "twice" in name
    }
    assert [verdicts[name] for name in verdicts if name.startswith("projected mean (2.11)")] == ["holds"] * 2


def test_an_input_that_is_too_short_is_one_clear_error(tmp_path: Path) -> None:
    path = tcp_trace(tmp_path / "short.tcp")
    with pytest.raises(ValueError, match=r"4 windows of short\.tcp; expected at least 5"):
        recorded(str(path), "trace 1", 0.25, 0.2, 1.0, 2000, 450, 300.0, 1)


@pytest.mark.slow
def test_on_substitutes_of_the_papers_traces_orders_are_judged_by_both_equations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accuracy, "AT_HAND", ())
    (result,) = runner.reproduce([(C13, {"tuples": 2000, "a_window": 200})], repeat=1)
    assert {row.x for row in result.rows if row.metric == "error"} == {PACKETS, SENSORS}
    theirs = [check for check in result.checks if not check.name.startswith("beyond")]
    assert len(theirs) == 8
    assert "not comparable" not in {check.verdict for check in theirs}


@pytest.mark.slow
def test_the_log_of_a_real_server_is_projected(real_data: Path) -> None:
    found = values(recorded(str(real_data / "sdsc-http.txt.gz"), "x", 0.25, 0.2, 1.0, 10_000, 1000, 300.0, 1))
    assert found["transient", "same window: error"] < found["mm1", "same window: error"]
    assert found["transient", "same window: error of means"] < 0.2
    assert found[BOUND, "optimistic"] < 0.05


# -- the claims --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_patterns_are_reproduced_and_judged() -> None:
    setup: dict[str, Value] = {"patterns": ("20/s", "40/10, 2.5 s"), "windows": 12}
    (result,) = runner.reproduce([(C14, setup)], repeat=2)
    checks = {check.name: check for check in result.checks}
    assert next(row.value for row in result.rows if row.metric == "found") > 0.8
    assert checks["segments found, at least 80% before they end"].verdict != "not comparable"
    assert len([name for name in checks if name.startswith("beyond the paper")]) == 11
    assert "beyond the paper: transient, on/off at the high rate is not below the actual mean" in checks
    assert {row.metric for row in result.rows if row.metric.startswith("delay")} == {
        "delay, 20/s",
        "delay, 40/10, 2.5 s",
    }
    assert {panel.metric for panel in C14.panels if panel.kind == "curves"} == {f"delay, {name}" for name in PATTERNS}


def test_a_window_that_holds_no_whole_periods_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window: 11 s; expected whole periods of 2\.5 s"):
        list(runner.reproduce([(C14, {"window": 11.0, "patterns": ("30/10, 2.5 s",)})]))


def test_bursts_that_are_found_less_often_are_affected_by_their_length_and_ratio() -> None:
    def verdicts(found: float, error: float) -> set[str]:
        points = [Point(x, algorithm, "at high rate", 1.0) for x in PATTERNS for algorithm in (OWN, PAPER)]
        points += [Point(x, "signature", "found", found if x != accuracy.FIRST else 0.9) for x in PATTERNS]
        points += [Point(x, algorithm, "error", error if x != accuracy.FIRST else 0.5)
                   for x in PATTERNS for algorithm in (OWN, PAPER)]  # fmt: skip
        checks = C14.checks(Measured([points] * 3), at_scale(C14.parameters, "quick"))
        return {each.verdict for each in checks if accuracy.FIRST in each.name and "within" in each.name}

    assert verdicts(0.85, 0.55) == {"holds"}
    assert verdicts(0.2, 0.9) == {"does not hold"}
