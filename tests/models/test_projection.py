"""Projection equals a slow, obvious implementation, is monotone, and names the harmed applications."""

from __future__ import annotations

import math
import timeit
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from synergy_nb.models.projection import LOADS, Local, LocalApplication, Profiled, ProjectionConfig, impacts, refused
from synergy_nb.models.projectors import PROJECTORS, Traffic, execution, kernel, sojourn_times, through
from synergy_nb.models.queueing import execution_time, waiting_time
from synergy_nb.models.signatures import Pattern, Segment, aggregate

Array = npt.NDArray[np.float64]
MEANS = ("mm1", "mg1", "gg1")


# -- numbers by hand ---------------------------------------------------------------------------------------------------


def test_the_impact_equals_the_worked_example_of_constant_loads() -> None:
    """A peer of load 0.6: a runs a filter (20 ms) before a sort (10 ms), b an aggregation (40 ms) beside.

    c asks for 0.15 more. Stretch 1 / (1 - p) goes from 2.5 to 4: a takes 30 (4 - 2.5) = 45 ms more, b 60 ms, c's 5 ms
    become 20.
    """
    a = LocalApplication(
        "a", [Local("filter", 0.02, 0.2), Local("sort", 0.01, 0.1)], {"sort": ["filter"]}, time=0.2, limit=0.25
    )
    b = LocalApplication("b", [Local("aggregate", 0.04, 0.3)], time=0.3, limit=0.35)
    c = LocalApplication("c", [Local("count", 0.005, Profiled(0.15, 0.1, 0.05))], time=0.08, limit=0.2)
    found = impacts([a, b], c)
    assert [each.application for each in found] == ["a", "b", "c"]
    assert [each.before for each in found] == [0.2, 0.3, 0.08]
    assert [each.after for each in found] == pytest.approx([0.245, 0.36, 0.095])
    assert [each.acceptable for each in found] == [True, False, True]
    worst = refused(found)
    assert worst is not None
    assert str(worst) == "b: 0.3 s now, 0.36 s projected, limit 0.35 s"
    # with the mean profiled load the stretch becomes 1 / 0.3, with the minimum 1 / 0.35
    for policy, stretch in (("mean", 1 / 0.3), ("minimum", 1 / 0.35)):
        less = impacts([a, b], c, ProjectionConfig(load=policy))
        assert less[1].after == pytest.approx(0.3 + 0.04 * (stretch - 2.5))
        assert refused(less) is None


def test_the_impact_equals_the_worked_example_of_bursts() -> None:
    """Equation 2.11: loads .2 and .6 by turns, .2 more; x = 10 ms / (1 - p) goes from 12.5 and 25 to 16.7 and 50 ms."""
    signature = tuple(Segment(k * 2.5, 2.5, (0.2, 0.6)[k % 2]) for k in range(4))
    running = LocalApplication("a", [Local("o", 0.01, signature)], time=0.1, limit=0.12)
    asking = LocalApplication("b", [Local("n", 0.02, 0.2)], time=0.05, limit=0.3)
    more = {"every": 0.025, "maximum": 0.025, "mean": (0.025 + 0.01 / 0.6 - 0.0125) / 2, "minimum": 0.01 / 0.6 - 0.0125}
    for policy, delta in more.items():
        a, b = impacts([running], asking, ProjectionConfig(segments=policy))
        assert a.after == pytest.approx(0.1 + delta)
        assert a.acceptable == (a.after <= 0.12)
        assert a.segment == 1
        assert a.worst == pytest.approx(0.125)
        assert b.worst == pytest.approx(0.05 + 0.1 - 0.02)
    assert not impacts([running], asking)[0].acceptable


def test_a_worked_example_of_a_newcomer_with_bursts() -> None:
    """Loads .3 and .1 for 4 and 6 s; the newcomer brings .5 in the last 2 s of ten, .05 before. x = 10 ms / (1 - p):

    ====  ====  ====  =========  =========  ======
    s     runs  asks  before ms  after ms   δ ms
    ====  ====  ====  =========  =========  ======
    4     .3    .05   100 / 7    100 / 6.5   1.099
    4     .1    .05   100 / 9    100 / 8.5   0.654
    2     .1    .5    100 / 9    100 / 4    13.889
    ====  ====  ====  =========  =========  ======
    """
    running = LocalApplication("a", [Local("o", 0.01, (Segment(90.0, 4.0, 0.3), Segment(94.0, 6.0, 0.1)))], time=0.1)
    asking = LocalApplication("b", [Local("n", 0.01, Pattern((8.0, 2.0), (0.05, 0.5)))], time=0.05)
    deltas = [0.1 / 6.5 - 0.1 / 7, 0.1 / 8.5 - 0.1 / 9, 0.1 / 4 - 0.1 / 9]
    a, b = impacts([running], asking)
    assert a.after == pytest.approx(0.1 + deltas[2])
    assert a.segment == 2
    assert b.after == pytest.approx(0.05 + 0.1 / 4 - 0.01)
    a, _ = impacts([running], asking, ProjectionConfig(segments="mean"))
    assert a.after == pytest.approx(0.1 + 0.4 * deltas[0] + 0.4 * deltas[1] + 0.2 * deltas[2])
    # with its maximum load all the time, which is equation 2.11, and with its mean load of .14
    a, _ = impacts([running], asking, ProjectionConfig(load="maximum"))
    assert a.after == pytest.approx(0.1 + 0.1 / 2 - 0.1 / 7)
    a, _ = impacts([running], asking, ProjectionConfig(load="mean"))
    assert a.after == pytest.approx(0.1 + 0.1 / 5.6 - 0.1 / 7)
    # where those who run have a constant load, its bursts count all the same; and so do those of what is beside it
    steady = LocalApplication("a", [Local("o", 0.01, 0.3)], time=0.1)
    assert impacts([steady], asking)[0].after == pytest.approx(0.1 + 0.1 / 2 - 0.1 / 7)
    more = LocalApplication("c", [Local("n", 0.01, 0.2)], time=0.05)
    found = impacts([running], more, background=Pattern((8.0, 2.0), (0.05, 0.5)))[0]
    assert found.after == pytest.approx(0.1 + 0.1 / 2 - 0.1 / 4)
    assert found.segment == 2


def test_a_pattern_repeats_itself_in_the_window_or_makes_it_longer() -> None:
    """Bursts of 30 s are seen though a window has ten seconds; bursts of 2.5 ms count by their mean."""
    running = [LocalApplication("a", [Local("o", 0.01, 0.3)], time=0.1)]
    for seconds, delta in ((1.0, 0.1 / 2 - 0.1 / 7), (60.0, 0.1 / 2 - 0.1 / 7), (0.005, 0.1 / 6 - 0.1 / 7)):
        pattern = Pattern((seconds / 2, seconds / 2), (0.0, 0.2) if seconds < 0.1 else (0.0, 0.5))
        found = impacts(running, LocalApplication("b", [Local("n", 0.01, pattern)], time=0.05))
        assert found[0].after == pytest.approx(0.1 + delta)
    pattern = Pattern((59.0, 1.0), (0.0, 0.5))
    assert pattern.profiled == pytest.approx((0.5, 0.5 / 60, 0.0))


def test_a_new_component_waits_for_all_components_of_its_peer() -> None:
    """Its probe has met processing times only: all of the waiting is more."""
    running = LocalApplication("a", [Local("o", 0.1, 0.5)], time=1.0)
    asking = LocalApplication("b", [Local("n", 0.1, 0.0)], time=0.3, limit=0.35)
    found = impacts([running], asking)[1]
    assert found.before == 0.3
    assert found.after == pytest.approx(0.4)
    assert impacts([running], asking)[0].after == pytest.approx(1.0), "no load does no harm"


# -- a slow, obvious twin ----------------------------------------------------------------------------------------------


def paths(upstream: Mapping[str, Sequence[str]], operator: str) -> list[list[str]]:
    return [[*path, operator] for each in upstream.get(operator, ()) for path in paths(upstream, each)] or [[operator]]


def slow_time(projector: str, tau: float, parts: Sequence[tuple[Local, float]]) -> float:
    """Execution time of a component where some are executed, each with its load now."""
    load = sum(each for _, each in parts)
    if load >= 1.0:
        return math.inf
    if projector == "mm1":
        return tau / (1.0 - load)
    waiting = 0.0
    for local, each in parts:
        arrivals = 1.0 if projector == "mg1" else local.scv_arrivals
        rate = each / local.tau
        waiting += rate * local.tau**2 * (arrivals + local.scv) / 2.0
    return tau + waiting / (1.0 - load)


def signatures_of(running: Sequence[LocalApplication]) -> list[tuple[Segment, ...]]:
    loads = [each.load for one in running for each in one.components]
    return [load for load in loads if isinstance(load, tuple) and not isinstance(load, Profiled)]


def repeated(pattern: Pattern, end: float, window: float) -> tuple[Segment, ...]:
    """The segments of a pattern, one period after another, so that the last one ends at a time."""
    periods = math.ceil(window / sum(pattern.seconds))
    begins = [0.0, *accumulate(pattern.seconds * periods)]
    start = end - begins[-1]
    loads = pattern.loads * periods
    return tuple(
        Segment(start + one, two - one, load) for one, two, load in zip(begins[:-1], begins[1:], loads, strict=True)
    )


def slow_impact(
    running: Sequence[LocalApplication], asking: LocalApplication, upstream: Mapping[str, Any], config: ProjectionConfig
) -> list[float]:
    """Projected times, path by path and segment by segment."""

    def load_of(local: Local, at: float) -> float:
        if isinstance(local.load, float):
            return local.load
        if isinstance(local.load, Profiled):
            return float(getattr(local.load, "maximum" if config.load == "signature" else config.load))
        if isinstance(local.load, Pattern) and local in asking.components and config.load != "signature":
            return float(getattr(Profiled.of(repeated(local.load, 0.0, 1e-3)), config.load))
        if isinstance(local.load, Pattern):
            segments = repeated(local.load, end, window)
        else:
            (segments,) = signatures_of([LocalApplication("", [local], time=0.0)])
        return next(each.load for each in reversed(segments) if each.start <= at)

    signed = signatures_of(running)
    end = max((segments[-1].end for segments in signed), default=0.0)
    counted = [*running, asking] if config.load == "signature" else running
    loads = [each.load for one in counted for each in one.components]
    patterns = [load for load in loads if isinstance(load, Pattern)]
    window = max([config.window, *(sum(each.seconds) for each in patterns)])
    signed = [*signed, *(repeated(each, end, window) for each in patterns)]
    edges = {end - window, end}
    edges |= {s.end for segments in signed for s in segments if end - window < s.end < end}
    spans = list(pairwise(sorted(edges)))
    after: list[float] = []
    for one in (*running, asking):
        deltas = []
        times: list[list[tuple[float, float]]] = []
        for low, high in spans:
            at = (low + high) / 2.0
            old = [(each, load_of(each, at)) for other in running for each in other.components]
            new = old + [(each, load_of(each, at)) for each in asking.components]
            found = []
            for operator in dict.fromkeys((*upstream[one.name], *(each.operator for each in one.components))):
                for path in paths(upstream[one.name], operator):
                    here = [each for each in one.components if each.operator in path]
                    later = sum(slow_time(config.projector, each.tau, new) for each in here)
                    if one is asking:
                        earlier = sum(each.tau for each in here)
                    else:
                        earlier = sum(slow_time(config.projector, each.tau, old) for each in here)
                    found.append((earlier, later) if here else (0.0, 0.0))
            times.append(found)
            deltas.append(max(later - earlier if later < math.inf else math.inf for earlier, later in found))
        if config.segments == "every":
            after.append(one.time + max(deltas))
            continue
        reduced = []
        lengths = [high - low for low, high in spans]
        for path_times in zip(*times, strict=True):
            both = []
            for which in (0, 1):
                values = [each[which] for each in path_times]
                mean = sum(v * w for v, w in zip(values, lengths, strict=True)) / sum(lengths)
                both.append({"mean": mean, "minimum": min(values), "maximum": max(values)}[config.segments])
            reduced.append(both[1] - both[0] if both[1] < math.inf else math.inf)
        after.append(one.time + max(reduced))
    return after


@st.composite
def peers(draw: st.DrawFn, bursty: bool) -> tuple[list[LocalApplication], LocalApplication, dict[str, Any]]:
    """Applications with components at a peer, and one that asks."""
    found, plans = [], {}
    for number in range(draw(st.integers(1, 4))):
        name = f"a{number}"
        size = draw(st.integers(1, 6))
        upstream = {
            f"o{k}": [f"o{j}" for j in range(k) if draw(st.booleans())][:3] for k in range(size)
        }  # acyclic: only earlier ones
        here = draw(st.lists(st.sampled_from(sorted(upstream)), min_size=1, unique=True))
        parts = []
        for operator in here:
            load: Any = draw(st.floats(0.0, 0.1))
            if bursty and number and draw(st.booleans()):
                lengths = draw(st.lists(st.floats(0.5, 8.0), min_size=1, max_size=4))
                ends = [*(-sum(lengths[k:]) for k in range(len(lengths))), 0.0]
                load = tuple(Segment(one, two - one, draw(st.floats(0.0, 0.2))) for one, two in pairwise(ends))
                if draw(st.booleans()):
                    load = Pattern(tuple(each.length for each in load), tuple(each.load for each in load))
            scv, arrivals = draw(st.floats(0.0, 4.0)), draw(st.floats(0.0, 4.0))
            parts.append(Local(operator, draw(st.floats(0.001, 0.1)), load, scv, arrivals))
        if number == 0:
            profiles: list[Any] = [Profiled(0.1, 0.05, 0.02)]
            if bursty:
                profiles.append(Pattern((0.6, 1.1, 0.7), (0.1, 0.02, 0.05)))
            parts = [each._replace(load=draw(st.sampled_from(profiles))) for each in parts]
        found.append(LocalApplication(name, parts, upstream, time=draw(st.floats(0.0, 1.0))))
        plans[name] = upstream
    *running, asking = reversed(found)
    return running, asking, plans


def covers_window(running: Sequence[LocalApplication], window: float) -> bool:
    """Whether no signature is shorter than the window: the twin does not know what to do with the rest."""
    return all(segments[0].start <= -window for segments in signatures_of(running))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(peers(bursty=False), st.sampled_from(MEANS), st.sampled_from(LOADS))
def test_the_impact_of_constant_loads_equals_a_slow_implementation(
    peer: tuple[list[LocalApplication], LocalApplication, dict[str, Any]], projector: str, load: str
) -> None:
    running, asking, plans = peer
    config = ProjectionConfig(projector=projector, load=load)
    found = [each.after for each in impacts(running, asking, config)]
    assert found == pytest.approx(slow_impact(running, asking, plans, config))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    peers(bursty=True),
    st.sampled_from(MEANS),
    st.sampled_from(["every", "mean", "minimum", "maximum"]),
    st.sampled_from(LOADS),
)
def test_the_impact_of_bursty_loads_equals_a_slow_implementation(
    peer: tuple[list[LocalApplication], LocalApplication, dict[str, Any]], projector: str, segments: str, load: str
) -> None:
    running, asking, plans = peer
    config = ProjectionConfig(projector=projector, load=load, segments=segments, window=1.0)
    loads = [each.load for one in (*running, asking) for each in one.components]
    window = max([config.window, *(sum(each.seconds) for each in loads if isinstance(each, Pattern))])
    assume(covers_window(running, window))
    found = [each.after for each in impacts(running, asking, config)]
    expected = slow_impact(running, asking, plans, config)
    assert found == pytest.approx(expected, rel=1e-6)


# -- what must hold ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.1), st.floats(0.0, 0.4), st.floats(0.0, 5.0), st.floats(0.0, 5.0)),
        min_size=1,
        max_size=5,
    ),
    st.tuples(st.floats(0.001, 0.1), st.floats(0.0, 0.4), st.floats(0.0, 5.0), st.floats(0.0, 5.0)),
    st.sampled_from(MEANS),
)
def test_more_load_never_lowers_a_projected_time(
    parts: list[tuple[float, float, float, float]], more: tuple[float, float, float, float], projector: str
) -> None:
    before = Traffic.together([Traffic.of(load, tau, scv, arrivals) for tau, load, scv, arrivals in parts])
    after = before.plus(Traffic.of(more[1], more[0], more[2], more[3]))
    assert execution(projector, 0.01, after) >= execution(projector, 0.01, before) * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 1.3), st.floats(0.01, 5.0)), min_size=1, max_size=6),
    st.floats(0.0, 0.3),
    st.sampled_from([0.0, 0.5, 0.95, 0.999]),
    st.sampled_from(PROJECTORS),
)
def test_more_load_of_the_same_kind_never_lowers_a_projected_time_in_any_segment(
    segments: list[tuple[float, float]], more: float, confidence: float, projector: str
) -> None:
    loads, lengths = (np.array(each) for each in zip(*segments, strict=True))
    before, after = Traffic.of(loads, 0.02), Traffic.of(loads + more, 0.02)
    was = np.broadcast_to(execution(projector, 0.01, before, lengths, confidence), loads.shape)
    will = np.broadcast_to(execution(projector, 0.01, after, lengths, confidence), loads.shape)
    assert (will >= was * (1.0 - 1e-6)).all()
    assert (will >= execution(projector, 0.01, after, lengths) - 1e-9).all(), "confidence adds"


@pytest.mark.parametrize("projector", PROJECTORS)
def test_overload_is_infinite_and_refused(projector: str) -> None:
    running = [
        LocalApplication("a", [Local("o", 0.1, 0.7)], time=0.2, limit=100.0),
        LocalApplication("idle", [Local("tap", 0.0)], time=0.2, limit=100.0),
        LocalApplication("nothing here", [], time=0.2, limit=100.0),
    ]
    asking = LocalApplication("b", [Local("n", 0.01, 0.3)], time=0.1, limit=math.inf)
    found = impacts(running, asking, ProjectionConfig(projector=projector))
    assert [each.after for each in found] == [math.inf, math.inf, 0.2, math.inf]
    assert [each.acceptable for each in found] == [False, False, True, True]
    assert refused(found) == found[0]
    assert [each.after for each in impacts(running, asking, ProjectionConfig(projector=projector), 0.5)][3] == math.inf
    none = LocalApplication("c", [Local("n", 0.01, 0.3)], time=0.1)
    assert impacts(running, none)[3].acceptable, "whoever has no limit bears all"


def test_a_projector_with_segments_tolerates_a_short_overload() -> None:
    """For 0.1 s in ten a peer gets 1.5 s of work a second: 50 ms of work pile up, and go. M/M/1 knows no end."""
    signature = (Segment(0.0, 9.9, 0.2), Segment(9.9, 0.1, 1.3))
    running = [LocalApplication("a", [Local("o", 0.005, signature)], time=0.01, limit=0.1)]
    asking = LocalApplication("b", [Local("n", 0.005, 0.2)], time=0.01, limit=0.1)
    assert impacts(running, asking)[0].after == math.inf
    found = impacts(running, asking, ProjectionConfig(projector="transient"))
    assert refused(found) is None
    assert 0.015 < found[0].after < 0.06
    assert found[0].segment == 1


def test_load_that_belongs_to_no_application_counts() -> None:
    running = [LocalApplication("a", [Local("o", 0.1, 0.2)], time=0.2)]
    asking = LocalApplication("b", [Local("n", 0.1, 0.2)], time=0.1)
    for projector in MEANS:
        config = ProjectionConfig(projector=projector)
        listed = [*running, LocalApplication("c", [Local("x", 0.1, 0.3)], time=0.2)]
        expected = impacts(listed, asking, config)
        found = impacts(running, asking, config, background=0.3)
        assert [each.after for each in found] == pytest.approx([expected[0].after, expected[2].after])
        assert impacts([], asking, config, 0.3)[0].after == pytest.approx(0.1 + 0.1 / 0.5 - 0.1)


def test_a_component_that_several_use_is_counted_once() -> None:
    owner = LocalApplication("a", [Local("o", 0.1, 0.4)], time=0.2)
    tapping = LocalApplication("b", [Local("a/o", 0.1, 0.0)], time=0.3)
    asking = LocalApplication("c", [Local("n", 0.1, 0.1)], time=0.1)
    found = impacts([owner, tapping], asking)
    more = 0.1 / 0.5 - 0.1 / 0.6
    assert [each.after for each in found[:2]] == pytest.approx([0.2 + more, 0.3 + more])


def test_the_path_that_gets_longer_by_most_counts() -> None:
    """Two components on one path wait twice; a longer one beside them waits once."""
    upstream = {"join": ["one", "side"], "one": ["zero"], "zero": [], "side": []}
    parts = [Local("zero", 0.01, 0.1), Local("one", 0.01, 0.1), Local("side", 0.03, 0.1)]
    asking = LocalApplication("b", [Local("n", 0.02, 0.3)], time=0.1)
    for projector, more in (
        ("mm1", 0.03 * (1 / 0.4 - 1 / 0.7)),
        ("mg1", 2 * ((0.1 * 0.05 + 0.3 * 0.02) / 0.4 - 0.1 * 0.05 / 0.7)),
    ):
        running = LocalApplication("a", parts, upstream, time=0.2)
        found = impacts([running], asking, ProjectionConfig(projector=projector))
        assert found[0].after == pytest.approx(0.2 + more)


def test_a_plan_that_goes_round_in_circles_is_refused() -> None:
    parts = [Local("a", 0.1, 0.1), Local("b", 0.1, 0.1)]
    with pytest.raises(ValueError, match="expected an acyclic graph"):
        LocalApplication("x", parts, {"a": ["b"], "b": ["a"]}, time=0.1)


@pytest.mark.parametrize(
    "local",
    [
        Local("o", -0.1, 0.1),
        Local("o", 0.1, -0.1),
        Local("o", 0.0, 0.1),
        Local("o", math.inf, 0.1),
        Local("o", 0.1, math.nan),
        Local("o", 0.1, ()),
        Local("o", 0.1, Profiled(math.inf, 0.1, 0.1)),
    ],
)
def test_components_that_cannot_be_are_refused(local: Local) -> None:
    with pytest.raises(ValueError, match=r"application 'x', 'o': tau .* expected numbers from 0"):
        LocalApplication("x", [local], time=0.1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"projector": "mm2"}, "projector: 'mm2'; expected mm1 or mg1 or gg1 or transient"),
        ({"load": "average"}, "load: 'average'; expected signature or maximum or mean or minimum"),
        ({"segments": "all"}, "segments: 'all'; expected every or mean or minimum or maximum"),
        ({"window": 0.0}, "window: 0.0; expected a positive number of seconds"),
        ({"interval": -1.0}, "interval: -1.0; expected a positive number of seconds"),
        ({"confidence": 0.2}, "confidence: 0.2; expected 0, or a probability from 0.5 to below 1"),
        ({"confidence": 1.0}, "confidence: 1.0"),
    ],
)
def test_a_config_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProjectionConfig(**values)
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(values, ProjectionConfig)


def test_a_projection_of_20_components_takes_microseconds() -> None:
    """Once a probe: 20 components in less than 30 µs where nothing else runs; here three times as long is borne."""
    running = [LocalApplication(f"a{k}", [Local("o", 0.01, 0.03)], time=0.1, limit=1.0) for k in range(20)]
    upstream = {"x": ("a", "b"), "a": (), "b": ()}

    def once() -> None:
        asking = LocalApplication("n", [Local("x", 0.01, Profiled(0.1, 0.05, 0.01))], upstream, time=0.1, limit=2.0)
        impacts(running, asking)

    assert min(timeit.repeat(once, number=20, repeat=200)) / 20 < 90e-6


# -- projectors --------------------------------------------------------------------------------------------------------


def test_projectors_are_the_formulas_of_queues() -> None:
    rate, tau = 6.0, 0.1
    alone = Traffic.of(rate * tau, tau, 0.5, 3.0)
    assert execution("mm1", tau, alone) == pytest.approx(execution_time(tau, rate * tau))
    assert execution("gg1", tau, alone) == pytest.approx(tau + waiting_time(tau, rate * tau, 0.5, 3.0))
    assert execution("transient", tau, alone) == execution("gg1", tau, alone)
    works = [(20.0, 0.005, 0.0), (4.0, 0.12, 2.0), (1.0, 0.02, 1.0)]  # tuples/s, processing time and its c²
    together = Traffic.together([Traffic.of(rate * tau, tau, scv) for rate, tau, scv in works])
    load = sum(rate * tau for rate, tau, _ in works)
    second = sum(rate * tau**2 * (1.0 + scv) for rate, tau, scv in works) / 25.0
    for projector in ("mg1", "gg1"):
        found = execution(projector, 0.005, together)
        assert found == pytest.approx(0.005 + waiting_time(load / 25.0, load, second * (25.0 / load) ** 2 - 1.0))
    with pytest.raises(ValueError, match="projector: 'mm3'; expected mm1, mg1, gg1, transient"):
        sojourn_times("mm3", together)
    with pytest.raises(ValueError, match="expected one for each of 2 segments"):
        sojourn_times("transient", Traffic.of(np.array([0.1, 0.2]), 0.1))
    with pytest.raises(ValueError, match="expected the seconds over which the mean is taken"):
        sojourn_times("mm1", together, None, 0.9)


def slow_through(load: Array, scale: Array, lengths: Array, start: float) -> Array:
    """The fluid equation in small steps."""
    found = []
    work = start
    for p, k, seconds in zip(load.tolist(), scale.tolist(), lengths.tolist(), strict=True):
        steps = 4000
        step, area = seconds / steps, 0.0
        for _ in range(steps):
            middle = max(work + step / 2 * (p - work / (work + k)), 0.0)
            after = max(work + step * (p - middle / (middle + k)), 0.0)
            area, work = area + (work + after) / 2, after
        found.append(area / steps)
    return np.array(found)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 2.5), st.floats(0.005, 2.0), st.floats(0.01, 4.0)), min_size=1, max_size=3),
    st.floats(0.0, 3.0),
)
def test_segments_are_solved_exactly(segments: list[tuple[float, float, float]], start: float) -> None:
    load, scale, lengths = (np.array(each) for each in zip(*segments, strict=True))
    found = through(load, scale, lengths, start)
    assert found == pytest.approx(slow_through(load, scale, lengths, start), rel=2e-3, abs=2e-3)


def test_a_window_that_repeats_itself_ends_as_it_begins() -> None:
    load, scale, lengths = np.array([0.9, 0.3, 0.6]), np.array([0.05, 0.08, 0.05]), np.array([1.0, 2.0, 0.5])
    once = through(load, scale, lengths)
    assert through(np.tile(load, 40), np.tile(scale, 40), np.tile(lengths, 40), 0.0)[-3:] == pytest.approx(
        once, rel=2e-3
    )
    assert through(np.array([1.5, 0.5]), np.full(2, 0.1), np.ones(2)).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("high", "low", "seconds"), [(0.8, 0.3, 1.25), (0.75, 0.35, 0.25), (1.1, 0.3, 1.0), (0.8, 0.3, 5.0)]
)
def test_the_fluid_equation_is_near_the_exact_queue(high: float, low: float, seconds: float) -> None:
    """An M/M/1 queue whose arrival rate goes up and down, by its Kolmogorov equations: within a fifth in a segment."""
    tau, size, pieces = 0.0167, 160, 40

    def generator(load: float) -> Array:
        up, down = load / tau, 1.0 / tau
        found = np.diag(np.full(size - 1, up), 1) + np.diag(np.full(size - 1, down), -1)
        return np.asarray(found - np.diag(found.sum(axis=1)), dtype=np.float64)

    steps = [expm(generator(load) * seconds / pieces) for load in (high, low)]
    share = np.zeros(size)
    share[0] = 1.0
    held = np.arange(size)
    for _ in range(12):
        exact = []
        for step in steps:
            numbers = []
            for _ in range(pieces):
                numbers.append(float(share @ held))
                share = share @ step
            exact.append((np.mean(numbers) + 1.0) * tau)
    loads = np.array([high, low])
    found = execution("transient", tau, Traffic.of(loads, tau), np.full(2, seconds))
    assert found == pytest.approx(exact, rel=0.2)
    steady = execution("mm1", tau, loads_only(loads))
    if seconds < 5.0:
        assert np.abs(np.asarray(found) / exact - 1.0).mean() < 0.5 * np.abs(np.asarray(steady) / exact - 1.0).mean()


def loads_only(loads: Array) -> Traffic:
    return Traffic(loads)


def test_the_confidence_is_the_share_of_tuples_within_it() -> None:
    """Means over 2 s of an M/M/1 queue of load 0.7: not above the projection with at least its probability."""
    rng = np.random.default_rng(4)
    tau, load, seconds = 0.02, 0.7, 2.0
    arrivals = np.cumsum(rng.exponential(tau / load, 300_000))
    service = rng.exponential(tau, len(arrivals))
    drift = np.concatenate([[0.0], np.cumsum(service[:-1] - np.diff(arrivals))])
    waiting = drift - np.minimum.accumulate(drift)
    time = waiting + service
    number = (arrivals // seconds).astype(int)
    means = np.bincount(number, time)[10:-1] / np.bincount(number)[10:-1]
    for projector in PROJECTORS:
        for confidence, most in ((0.9, 2.5), (0.99, 5.0)):
            bound = execution(projector, tau, Traffic.of(load, tau), seconds, confidence)
            assert (means <= bound).mean() >= confidence - 0.005
            assert bound < most * means.mean(), "it is no bound that says nothing"


def test_a_kernel_without_components_returns_nothing() -> None:
    assert kernel("gg1", Traffic()) == 0.0
    assert np.asarray(kernel("mg1", Traffic.of(np.array([0.0, 0.5]), 0.1))).tolist() == [0.0, 0.1]
    assert sojourn_times("transient", Traffic.of(np.zeros(2), 0.1), np.ones(2), 0.9).waiting == pytest.approx(
        [0.0, 0.0]
    )


def test_signatures_of_several_streams_are_laid_over_each_other() -> None:
    one = (Segment(0.0, 5.0, 0.2), Segment(5.0, 5.0, 0.5))
    two = (Segment(0.0, 2.0, 0.3), Segment(2.0, 8.0, 0.1))
    running = [LocalApplication("a", [Local("o", 0.01, one), Local("p", 0.02, two)], {"p": ["o"]}, time=0.1, limit=1.0)]
    asking = LocalApplication("b", [Local("n", 0.01, 0.1)], time=0.0)
    loads = aggregate([one, two], 0.0, 10.0).total
    assert loads.tolist() == pytest.approx([0.5, 0.3, 0.6])
    found = impacts(running, asking)[0]
    assert found.after == pytest.approx(0.1 + 0.03 * (1 / 0.3 - 1 / 0.4))
    assert found.segment == 2
