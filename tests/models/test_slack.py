"""Slack of tuples: the worked example, and every path of random graphs enumerated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.models.slack import Persistence, PredictedPaths

LIMIT = 0.5
EXECUTED = {"A": 0.020, "B": 0.050, "C": 0.310, "D": 0.030}
PREDICTED = {"A": 0.022, "B": 0.055, "C": 0.340, "D": 0.040}
COMMUNICATED = {("A", "B"): 0.060, ("A", "C"): 0.070, ("B", "D"): 0.080, ("C", "D"): 0.055}
MEANS = {("A", "B"): 0.062, ("A", "C"): 0.068, ("B", "D"): 0.075, ("C", "D"): 0.058}
PROFILED = {"A": 0.018, "B": 0.045, "C": 0.050, "D": 0.025}


@pytest.fixture
def diamond() -> PredictedPaths[str]:
    return PredictedPaths(MEANS, PREDICTED, {"D": LIMIT})


def elapsed(path: Sequence[str]) -> float:
    """The time of a tuple from its birth to its arrival at the last component of a path."""
    return sum(EXECUTED[hop[0]] + COMMUNICATED[hop] for hop in pairwise(path))


def slack_at(paths: PredictedPaths[str], *path: str) -> float:
    return round(float(paths.slack(path[-1], elapsed(path))), 9)


# -- the worked example ------------------------------------------------------------------------------------------------


def test_slack_in_a_diamond_is_that_of_its_slowest_path(diamond: PredictedPaths[str]) -> None:
    assert slack_at(diamond, "A") == -0.028
    assert slack_at(diamond, "A", "B") == 0.25
    assert slack_at(diamond, "A", "C") == -0.028
    assert slack_at(diamond, "A", "B", "D") == 0.25
    assert slack_at(diamond, "A", "C", "D") == 0.005


def test_slack_of_a_single_path_ignores_the_other_branch() -> None:
    """The path through B does not see that C is overloaded."""
    for middle, at_first, at_middle in (("B", 0.246, 0.25), ("C", -0.028, -0.028)):
        hops = {hop: seconds for hop, seconds in MEANS.items() if middle in hop}
        paths = PredictedPaths(hops, {each: PREDICTED[each] for each in ("A", middle, "D")}, {"D": LIMIT})
        assert slack_at(paths, "A") == at_first
        assert slack_at(paths, "A", middle) == at_middle


def test_the_allowed_local_time_follows_from_the_limit(diamond: PredictedPaths[str]) -> None:
    at_b, at_c = (elapsed(("A", each)) for each in "BC")
    assert float(diamond.allowed("B", at_b)) == pytest.approx(0.305)
    assert float(diamond.allowed("C", at_c)) == pytest.approx(0.312)
    assert not diamond.violated("B", at_b)
    assert diamond.violated("C", at_c)


def test_only_the_worst_offender_of_the_violated_path_acts(diamond: PredictedPaths[str]) -> None:
    for component in "ACD":
        assert diamond.through(component) == ("A", "C", "D")
        found = diamond.excesses(component, PROFILED)
        assert [(each, round(seconds, 9)) for each, seconds in found] == [("C", 0.29), ("D", 0.015), ("A", 0.004)]
    assert diamond.through("B") == ("A", "B", "D")
    assert diamond.excesses("B", PROFILED)[0][0] == "D"


def test_an_overloaded_last_component_acts_itself() -> None:
    paths = PredictedPaths(MEANS, PREDICTED | {"C": 0.055, "D": 0.5}, {"D": LIMIT})
    assert {paths.excesses(each, PROFILED)[0][0] for each in "ABCD"} == {"D"}


def test_of_equal_excesses_the_most_upstream_acts() -> None:
    paths = PredictedPaths({("a", "b"): 0.0, ("b", "c"): 0.0}, {"a": 0.25, "b": 0.5, "c": 0.5}, {"c": 1.0})
    assert [each for each, _ in paths.excesses("c", {"a": 0.0, "b": 0.25, "c": 0.25})] == ["a", "b", "c"]


def test_a_tuple_without_slack_violates_the_limit() -> None:
    paths = PredictedPaths({("a", "b"): 0.25}, {"a": 0.125, "b": 0.125}, {"b": 1.0})
    assert paths.violated("a", [0.25, 0.5, 0.75]).tolist() == [False, True, True]
    assert paths.violated("b", [0.8, 0.875]).tolist() == [False, True]


# -- taps, several sinks, windows, parts on Spark ----------------------------------------------------------------------


def test_a_shared_component_has_the_least_slack_of_all_that_read_it() -> None:
    """The second application taps b of the first one, further away and with a tighter limit."""
    hops = {("one/a", "one/b"): 0.1, ("one/b", "one/sink"): 0.1, ("one/b", "two/c"): 0.2, ("two/c", "two/sink"): 0.1}
    times = {"one/a": 0.05, "one/b": 0.05, "one/sink": 0.0, "two/c": 0.05, "two/sink": 0.0}
    first = PredictedPaths(dict(list(hops.items())[:2]), times, {"one/sink": 0.5})
    both = PredictedPaths(hops, times, {"one/sink": 0.5, "two/sink": 0.6})
    assert float(first.slack("one/b", 0.15)) == pytest.approx(0.2)
    assert float(both.slack("one/b", 0.15)) == pytest.approx(0.05)
    assert both.through("one/a") == ("one/a", "one/b", "two/c", "two/sink")


def test_a_sink_without_a_limit_bounds_nothing() -> None:
    paths = PredictedPaths({("a", "x"): 0.1, ("a", "y"): 5.0}, {"a": 0.1, "x": 0.0, "y": 9.0}, {"x": 1.0})
    assert float(paths.slack("a", 0.0)) == pytest.approx(0.8)
    assert paths.headroom("y") == math.inf
    assert not paths.violated("y", [1e9]).any()


def test_a_sink_may_be_read_from() -> None:
    """A component with a limit of its own that others read as well, as a tap of the last stream."""
    paths = PredictedPaths({("a", "b"): 0.1}, {"a": 0.1, "b": 0.2}, {"a": 0.15, "b": 1.0})
    assert paths.headroom("a") == pytest.approx(0.05)
    assert paths.through("b") == ("a", "b")
    assert paths.through("a") == ("a",), "its own limit is the tighter one"


def test_a_part_on_spark_is_one_component_with_its_micro_batches() -> None:
    hops = {("source", "part"): 0.01, ("part", "sink"): 0.01}
    paths = PredictedPaths(hops, {"source": 0.0, "part": 2.0, "sink": 0.0}, {"sink": 3.0})
    assert float(paths.slack("part", 0.02)) == pytest.approx(0.97)


def test_tuples_of_a_batch_have_their_own_slack(diamond: PredictedPaths[str]) -> None:
    under_way = np.array([[0.08, 0.09], [0.33, 0.50]])
    slack = diamond.slack("B", under_way)
    assert slack.shape == under_way.shape
    assert slack == pytest.approx(np.array([[0.25, 0.24], [0.0, -0.17]]))
    assert diamond.slack("B", []).tolist() == []


# -- beside an enumeration of all paths --------------------------------------------------------------------------------


@st.composite
def graphs(draw: Any) -> tuple[dict[tuple[int, int], float], dict[int, float], dict[int, float]]:
    count = draw(st.integers(1, 8))
    seconds = st.floats(0.0, 1.0)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    hops = {pair: draw(seconds) for pair in chosen}
    times = {i: draw(seconds) for i in range(count)}
    ends = [i for i in range(count) if not any(a == i for a, _ in hops)]
    limits = {i: draw(st.floats(0.0, 4.0)) for i in draw(st.lists(st.sampled_from(ends), unique=True))}
    return hops, times, limits


def paths_from(hops: dict[tuple[int, int], float], start: int) -> Iterator[tuple[int, ...]]:
    after = [b for a, b in hops if a == start]
    for each in after:
        for rest in paths_from(hops, each):
            yield (start, *rest)
    if not after:
        yield (start,)


@pytest.mark.slow
@given(graphs(), st.floats(0.0, 4.0))
def test_slack_is_the_least_over_all_paths(
    graph: tuple[dict[tuple[int, int], float], dict[int, float], dict[int, float]], under_way: float
) -> None:
    hops, times, limits = graph
    found = PredictedPaths(hops, times, limits)
    for start in times:
        slacks = {
            path: limits[path[-1]]
            - under_way
            - math.fsum([*(times[each] for each in path), *(hops[hop] for hop in pairwise(path))])
            for path in paths_from(hops, start)
            if path[-1] in limits
        }
        least = min(slacks.values(), default=math.inf)
        assert float(found.slack(start, under_way)) == pytest.approx(least, abs=1e-9)
        through = found.through(start)
        assert start in through
        if slacks:
            assert slacks[through[through.index(start) :]] == pytest.approx(least, abs=1e-9)
        assert not [b for a, b in hops if b == through[0]], "it begins at a source"


# -- persistence -------------------------------------------------------------------------------------------------------


def test_a_hot_spot_needs_tuples_in_a_row_and_time() -> None:
    persistence = Persistence()
    found = [persistence.observe(0.25 * number, [-0.1]) for number in range(8)]
    assert found == [False] * 4 + [True] * 4, "the fifth in a row, and one second after the first"
    fast = Persistence()
    assert [fast.observe(time, [-0.1] * 10) for time in (0.0, 0.5, 0.99, 1.0)] == [False, False, False, True]


def test_a_tuple_with_slack_begins_anew() -> None:
    persistence = Persistence(tuples=3, seconds=0.0)
    assert persistence.observe(0.0, [-1.0, 0.0, -1.0])
    assert not persistence.observe(0.1, [-1.0, -1.0, 0.1])
    assert not persistence.observe(0.2, [-1.0, -1.0])
    assert not persistence.observe(0.3, [])
    assert persistence.observe(0.3, [-1.0])
    assert not persistence.observe(0.4, [-1.0, -1.0, 1.0, -1.0, -1.0])


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=6)), max_size=12))
def test_persistence_equals_a_look_at_the_whole_past(batches: list[tuple[float, list[float]]]) -> None:
    persistence, time, past = Persistence(), 0.0, list[tuple[float, float]]()
    for gap, slacks in batches:
        time += gap
        past += [(time, slack) for slack in slacks]
        row: list[float] = []
        for then, slack in reversed(past):
            if slack > 0.0:
                break
            row.append(then)
        expected = len(row) >= 5 and time - row[-1] >= 1.0
        assert persistence.observe(time, slacks) == expected


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hops", "times", "limits", "message"),
    [
        ({("a", "b"): 0.1}, {"a": 0.1}, {}, "times: none of 'b', which has a hop"),
        ({}, {"a": 0.1}, {"z": 1.0}, "times: none of 'z', which has a limit"),
        ({}, {"a": -0.1}, {}, "times: -0.1 of 'a'; expected seconds from 0"),
        ({("a", "b"): math.nan}, {"a": 0.1, "b": 0.1}, {}, r"hops: nan of \('a', 'b'\)"),
        ({("a", "b"): 0.1, ("b", "a"): 0.1}, {"a": 0.1, "b": 0.1}, {}, "hops: 'a' is downstream of itself"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(
    hops: dict[tuple[str, str], float], times: dict[str, float], limits: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PredictedPaths(hops, times, limits)


def test_of_active_replicas_the_first_one_counts() -> None:
    hops = {("s", "f"): 0.01, ("s", "f~1"): 0.2, ("f", "x"): 0.02, ("f", "x~1"): 0.3, ("f~1", "x"): 0.3,
            ("f~1", "x~1"): 0.01, ("x", "out"): 0.01, ("x~1", "out"): 0.4}  # fmt: skip
    times = dict.fromkeys(("s", "f", "f~1", "x", "x~1", "out"), 0.001)
    replica_of = {"f~1": "f", "x~1": "x"}
    paths = PredictedPaths(hops, times, {"out": 0.1}, replica_of)
    alone = PredictedPaths({each: hops[each] for each in (("s", "f"), ("f", "x"), ("x", "out"))}, times, {"out": 0.1})
    for component in ("s", "f", "x", "out"):
        assert paths.headroom(component) == pytest.approx(alone.headroom(component))
    assert paths.through("s") == paths.through("out") == ("s", "f", "x", "out")
    assert paths.slack("s", 0.0) > 0.0 > PredictedPaths(hops, times, {"out": 0.1}).slack("s", 0.0)
    assert paths.slack("f~1", 0.2) < 0.0, "a slow one has no slack itself"


def test_persistence_over_no_tuple_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tuples, seconds: 0, 1\.0; expected at least 1 tuple"):
        Persistence(tuples=0)
