"""Signatures: changes are found with the stated speed and false alarms, nothing is lost, aggregation is exact."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.models._change_points import AGES, BLOCK, KEPT, RateChanges
from synergy_nb.models.signatures import PIECES, Segment, Signature, aggregate, constant
from tests.quick_cases import quick_first

Array = npt.NDArray[np.float64]


def bursts(seed: int, high: float, low: float, segment: float, seconds: float) -> Array:
    """ON/OFF arrivals, Poisson within segments of equal length."""
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for number in range(round(seconds / segment)):
        count = rng.poisson((low if number % 2 else high) * segment)
        found.append(np.sort(rng.uniform(number * segment, (number + 1) * segment, count)))
    return np.concatenate(found)


def alarms(times: Array, size: int = 1, **options: float) -> list[tuple[float, float]]:
    """When changes are found, and where; arrivals observed one by one or in batches of a size."""
    watched = RateChanges(**options)
    found: list[tuple[float, float]] = []
    for number, time in enumerate(times[size - 1 :: size].tolist(), start=1):
        watched.observe(time, size, 0.0)
        if watched.changes > len(found):
            found.append((time, watched.start[0]))
        assert watched.now[1] == number * size
    return found


# -- false alarms ------------------------------------------------------------------------------------------------------

GAPS = {
    "poisson": lambda rng, count: rng.exponential(0.05, count),
    "bursty": lambda rng, count: rng.exponential(np.where(rng.random(count) < 0.5, 0.01, 0.09)),  # c_a² = 2.3
    "regular": lambda rng, count: rng.uniform(0.04, 0.06, count),
}


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize(("false_alarm", "size"), [(200.0, 1), (500.0, 1), (500.0, 10), (2000.0, 1)])
def test_mean_tuples_between_false_alarms_are_as_stated(kind: str, false_alarm: float, size: int) -> None:
    count = round(60 * false_alarm)
    gaps = GAPS[kind](np.random.default_rng(7), count)
    found = alarms(np.cumsum(gaps), size, false_alarm=false_alarm)
    # as many as are expected at most, and three standard deviations of their Poisson number
    assert len(found) <= 60 + 3 * math.sqrt(60)
    if kind == "poisson" and size == 1:
        assert len(found) >= 5, "far fewer false alarms than stated: changes would be found late"


@pytest.mark.parametrize("seconds", [2.0, 200.0])
def test_false_alarms_do_not_depend_on_the_memory(seconds: float) -> None:
    """With a long memory a false alarm leaves levels behind, which are watched for."""
    times = np.cumsum(np.random.default_rng(3).exponential(0.05, 60_000))
    assert len(alarms(times, memory=seconds, false_alarm=1000.0)) <= 60 + 3 * math.sqrt(60)


# -- delay of detection ------------------------------------------------------------------------------------------------


def information(before: float, after: float) -> float:
    """Nats a second that tell ``after`` from ``before``."""
    return after * math.log(after / before) - after + before if after else before


@pytest.mark.parametrize(
    ("before", "after"), quick_first([(20.0, 60.0), (60.0, 20.0), (10.0, 100.0), (100.0, 5.0), (50.0, 100.0)], 1)
)
def test_a_change_to_an_unknown_rate_is_found_in_time(before: float, after: float) -> None:
    delays: list[float] = []
    places: list[float] = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 1])
        early = np.cumsum(rng.exponential(1.0 / before, 2000))
        early = early[early < 20.0]
        late = 20.0 + np.cumsum(rng.exponential(1.0 / after, 2000))
        found = [each for each in alarms(np.concatenate([early, late]), false_alarm=500.0) if each[0] > 20.0]
        delays.append(found[0][0] - 20.0)
        places.append(found[0][1] - 20.0)
    stated = 2.5 * math.log(500.0) / information(before, after) + BLOCK / after
    assert np.mean(delays) < stated
    assert np.median(np.abs(places)) < 0.5 * stated
    assert np.quantile(delays, 0.95) < 2.5 * stated


@pytest.mark.parametrize(("high", "low", "segment"), [(30.0, 10.0, 2.5), (300.0, 100.0, 1.25), (40.0, 10.0, 1.25)])
def test_a_return_to_a_known_rate_is_found_in_time(high: float, low: float, segment: float) -> None:
    found = alarms(bursts(5, high, low, segment, 200 * segment), memory=8 * segment, false_alarm=500.0)
    changes = np.arange(40, 200) * segment
    delays: dict[bool, list[float]] = {True: [], False: []}  # upwards, downwards
    for number, change in enumerate(changes.tolist(), start=40):
        own = [at for at, place in found if change < at <= change + segment and abs(place - change) < segment / 2]
        if own:
            delays[number % 2 == 0].append(own[0] - change)
    assert sum(map(len, delays.values())) >= 0.95 * len(changes)
    for upwards, rates in ((True, (low, high)), (False, (high, low))):
        assert np.mean(delays[upwards]) < 1.5 * math.log(500.0) / information(*rates)


def found_share(high: float, low: float, segment: float, false_alarm: float = 300.0) -> float:
    """Share of the changes that are found before the next one comes."""
    found = alarms(bursts(9, high, low, segment, 240 * segment), memory=8 * segment, false_alarm=false_alarm)
    changes = np.arange(40, 240) * segment
    own = [any(c < at <= c + segment and abs(place - c) < segment / 2 for at, place in found) for c in changes]
    return float(np.mean(own))


def test_remembering_levels_finds_short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_share(30.0, 10.0, 1.25) > 0.7
    monkeypatch.setattr(RateChanges, "_watch", lambda self, level=None: None)
    assert found_share(30.0, 10.0, 1.25) < 0.5


def test_a_few_tuples_do_not_tell_their_rate() -> None:
    """At 30 and 10 tuples/s by turns, a quarter of a second each, a segment has 7.5 or 2.5 tuples: 1.3 nats."""
    assert found_share(30.0, 10.0, 0.25) < 0.05
    watched = RateChanges()
    for time in bursts(9, 30.0, 10.0, 0.25, 100.0).tolist():
        watched.observe(time)
    assert 1.2 < watched.scv < 2.0, "what is not found as segments is in the variability"


# -- a slow, obvious twin ----------------------------------------------------------------------------------------------


def likelihood_ratio(times: Array, counts: list[int], start: int, end: int, memory: set[int]) -> tuple[float, int]:
    """Generalised likelihood ratio of a change at any of some observations, and where it is greatest."""

    def score(one: int, two: int) -> float:
        tuples = counts[two] - counts[one]
        return tuples * math.log(tuples / (times[two] - times[one])) if tuples else 0.0

    ratios = [(score(start, k) + score(k, end) - score(start, end), k) for k in memory if start < k < end]
    return max(ratios, default=(0.0, start))


@pytest.mark.parametrize("seed", range(6))
def test_the_first_change_is_where_a_slow_implementation_finds_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps = np.concatenate([rng.exponential(0.05, 200), rng.exponential(0.012, 200)])
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    threshold = math.log(500.0) - 0.3
    counts = list(range(len(times)))
    ends = range(BLOCK, len(times), BLOCK)
    twin = next((k for k in ends if likelihood_ratio(times, counts, 0, k, set(ends))[0] > threshold), 0)
    ((at, place), *_) = alarms(times[1:], false_alarm=500.0)
    # ours keeps fewer of the old candidates, so it may be a block or two later, never earlier
    assert times[twin] <= at <= times[min(twin + 3 * BLOCK, len(times) - 1)]
    assert abs(place - times[likelihood_ratio(times, counts, 0, twin, set(ends))[1]]) < 0.3


def test_an_arrival_costs_the_same_after_a_long_time() -> None:
    watched = RateChanges(false_alarm=1e9)
    for number in range(1, 30_001):
        watched.observe(number * 0.01)
    assert watched.changes == 0
    candidates = [mark for age in watched.ages for mark in age]
    assert len(candidates) <= AGES * KEPT
    assert min(mark[1] for mark in candidates) < 30_000 - 2 * BLOCK * 2 ** (AGES - 4), "old ones are kept too"


# -- signatures --------------------------------------------------------------------------------------------------------

OBSERVATIONS = st.lists(
    st.tuples(st.floats(0.0, 2.0), st.integers(0, 40), st.floats(0.0, 0.5)), min_size=1, max_size=120
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(OBSERVATIONS)
def test_segments_cover_all_observed_tuples_and_work(observations: list[tuple[float, int, float]]) -> None:
    signature = Signature(window=1e6, start=5.0, false_alarm=200.0)
    now, tuples, work = 5.0, 0, 0.0
    for gap, count, seconds in observations:
        now, tuples, work = now + gap, tuples + count, work + seconds
        signature.observe(now, count, seconds)
    segments = signature.segments()
    if now == 5.0:
        assert segments == ()
        return
    assert segments[0].start == 5.0
    assert segments[-1].end == pytest.approx(now)
    assert all(one.end == pytest.approx(two.start) for one, two in pairwise(segments))
    assert all(each.length > 0.0 for each in segments)
    assert sum(each.load * each.length for each in segments) == pytest.approx(work)
    assert sum(each.rate * each.length for each in segments) == pytest.approx(tuples)


def test_segments_older_than_the_window_are_dropped() -> None:
    signature = Signature(window=10.0)
    for time in bursts(1, 60.0, 10.0, 2.0, 100.0).tolist():
        signature.observe(time, 1, 0.005)
    segments = signature.segments(100.0)
    assert segments[-1].end == 100.0
    assert segments[0].start <= 90.0 < segments[0].end
    assert 5 <= len(segments) <= 8
    assert sorted(round(each.load, 1) for each in segments[1:-1])[-2:] == [0.3, 0.3]


def test_bursts_of_a_second_every_five_minutes_are_found() -> None:
    """As of sensors: 40 tuples at once, then silence, which a heartbeat every 10 s tells of."""
    signature = Signature(window=1500.0)
    rng = np.random.default_rng(2)
    for burst in range(6):
        began = 300.0 * burst
        for time in np.sort(rng.uniform(began, began + 1.0, 40)).tolist():
            signature.observe(time, 1, 0.01)
        for beat in range(1, 30):
            signature.observe(began + 10.0 * beat, 0)
    high = [each for each in signature.segments(1800.0) if each.rate > 10.0]
    assert len(high) == 5
    assert all(0.5 < each.length < 1.5 and abs(each.start % 300.0) < 0.5 for each in high)
    assert all(0.2 < each.load < 0.7 for each in high)
    low = [each for each in signature.segments() if each.rate < 1.0]
    assert sum(each.length for each in low) > 0.99 * 1490.0
    assert all(each.load < 0.01 for each in low)


def test_tuples_that_come_together_count_together() -> None:
    """As from a log with whole seconds: several observations at one time are one."""
    one, many = RateChanges(), RateChanges()
    for number, count in enumerate(np.random.default_rng(1).poisson(3.0, 200).tolist(), start=1):
        one.observe(float(number), count)
        for _ in range(count):
            many.observe(float(number), 1)
        many.observe(float(number), 0)
    assert one.changes == many.changes == 0
    assert one.now == many.now


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0.0}, "window: 0.0; expected a positive number of seconds"),
        ({"window": math.nan}, "window: nan"),
        ({"false_alarm": 5.0}, "false_alarm: 5.0; expected a number of tuples from 200"),
    ],
)
def test_a_window_that_cannot_be_is_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Signature(**options)


@pytest.mark.parametrize("wrong", [(0.5, 1, 0.0), (2.0, -1, 0.0), (2.0, 1, -0.1), (math.nan, 1, 0.0)])
def test_wrong_observations_are_refused(wrong: tuple[float, int, float]) -> None:
    signature = Signature()
    signature.observe(1.0)
    with pytest.raises(ValueError, match=r"expected a time from 1\.0 on, and numbers from 0"):
        signature.observe(*wrong)
    assert signature.segments()[-1].end == 1.0


# -- aggregation -------------------------------------------------------------------------------------------------------


def test_aggregated_signatures_equal_those_of_figure_2_9() -> None:
    """Two streams, the shortest segment a third of the window's sixth: the sum in each piece of its length."""
    one = [Segment(0.0, 3.0, 0.2), Segment(3.0, 3.0, 0.4)]
    two = [Segment(0.0, 2.0, 0.1), Segment(2.0, 1.0, 0.3), Segment(3.0, 3.0, 0.1)]
    pieces = aggregate([one, two], 0.0, 6.0, "shortest")
    assert pieces.lengths.tolist() == [1.0] * 6
    assert pieces.total.round(9).tolist() == [0.3, 0.3, 0.5, 0.5, 0.5, 0.5]
    every = aggregate([one, two], 0.0, 6.0)
    assert every.lengths.tolist() == [2.0, 1.0, 3.0]
    assert every.total.round(9).tolist() == [0.3, 0.5, 0.5]


def test_there_are_as_many_pieces_as_w_says() -> None:
    segments = [Segment(0.0, 0.7, 0.1), Segment(0.7, 1.3, 0.5), Segment(2.0, 3.0, 0.2)]
    pieces = aggregate([segments], 0.0, 5.0, "shortest")
    assert len(pieces.lengths) == math.ceil(5.0 / 0.7)
    assert pieces.lengths[:-1] == pytest.approx([0.7] * 7)
    assert pieces.lengths.sum() == pytest.approx(5.0)


def test_a_segment_that_is_still_going_on_sets_no_length() -> None:
    segments = [Segment(-3.0, 5.0, 0.1), Segment(2.0, 2.5, 0.5), Segment(4.5, 0.5, 0.9)]
    assert aggregate([segments], 0.0, 5.0, "shortest").lengths.tolist() == [2.5, 2.5]
    assert aggregate([[Segment(0.0, 5.0, 0.3)]], 0.0, 5.0, "shortest").lengths.tolist() == [5.0]
    assert aggregate([constant(0.3), constant(0.2)], 0.0, 10.0, "shortest").loads.tolist() == [[0.3], [0.2]]


def test_very_short_segments_do_not_make_very_many_pieces() -> None:
    segments = [Segment(0.0, 1e-6, 3.0), Segment(1e-6, 5.0, 0.2)]
    assert len(aggregate([segments], 0.0, 5.0, "shortest").lengths) == PIECES
    many = [Segment(k * 0.001, 0.001, 0.1) for k in range(5000)]
    assert len(aggregate([many], 0.0, 5.0).lengths) == PIECES


@st.composite
def signatures(draw: st.DrawFn) -> list[list[Segment]]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        time = draw(st.floats(-5.0, 5.0))
        segments = []
        for _ in range(draw(st.integers(1, 6))):
            length = draw(st.floats(0.05, 8.0))
            segments.append(Segment(time, length, draw(st.floats(0.0, 2.0))))
            time = segments[-1].end
        found.append(segments)
    return found


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(signatures(), st.sampled_from(["shortest", "every"]))
def test_aggregation_is_the_mean_of_each_piece(streams: list[list[Segment]], cut: str) -> None:
    pieces = aggregate(streams, -1.0, 12.0, cut)  # type: ignore[arg-type]
    assert pieces.lengths.sum() == pytest.approx(12.0)
    edges = pieces.start + np.concatenate([[0.0], np.cumsum(pieces.lengths)])
    for row, segments in zip(pieces.loads, streams, strict=True):
        length = sum(each.length for each in segments)
        mean = sum(each.length * each.load for each in segments) / length
        for (low, high), load in zip(pairwise(edges.tolist()), row.tolist(), strict=True):
            parts = [(max(0.0, min(high, each.end) - max(low, each.start)), each.load) for each in segments]
            covered = sum(seconds for seconds, _ in parts)
            work = sum(seconds * load for seconds, load in parts) + (high - low - covered) * mean
            assert load == pytest.approx(work / (high - low), abs=1e-6)


@pytest.mark.parametrize(("streams", "window"), [([], 1.0), ([[]], 1.0), ([constant(0.1)], 0.0)])
def test_wrong_arguments_of_an_aggregation_are_refused(streams: list[list[Segment]], window: float) -> None:
    with pytest.raises(ValueError, match="expected a positive number of seconds, and segments"):
        aggregate(streams, 0.0, window)


def test_a_profiled_load_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"load: -0\.1; expected a share"):
        constant(-0.1)
