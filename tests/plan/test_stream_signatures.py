"""Signatures of the streams of a plan: what follows from what is stated, by hand, and what travels with the plan."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb import source
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.validation import PlanError
from synergy_nb.plan.derived.spark_parts import Profile, profiled
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.derived.stream_signatures import (
    Rates,
    arrivals,
    mean_rate,
    read,
    shortened,
    signature,
    together,
    write,
)
from synergy_nb.plan.operators.parameter_types import MOST_SEGMENTS

BURSTS = [["2 s", "400/s"], ["8 s", "25/s"]]
COLUMNS = {"v": "float", "key": "str"}


def bursty(**options: Any) -> Any:
    return source("python", name=options.get("id", "n"), columns=COLUMNS, **options)


rates = st.lists(st.tuples(st.floats(0.1, 20.0), st.floats(0.0, 1000.0)), min_size=1, max_size=6).map(tuple)


def rate_at(pattern: Rates, before: float) -> float:
    """The slow twin: the rate so many seconds before the end of a pattern that repeats itself."""
    before %= sum(seconds for seconds, _ in pattern)
    for seconds, rate in reversed(pattern):
        if before < seconds:
            return rate
        before -= seconds
    return pattern[-1][1]


def test_the_rate_of_a_source_with_a_signature_is_its_mean() -> None:
    plan = bursty(signature=BURSTS).sink()
    assert plan.rate("source") == 100.0
    assert signature(plan, "source") == ((2.0, 400.0), (8.0, 25.0))
    stated = bursty(signature=BURSTS, rate="20/s").sink()
    assert stated.rate("source") == 20.0
    assert signature(stated, "source") == ((2.0, 80.0), (8.0, 5.0))
    assert plan.stream_name("source") == stated.stream_name("source") == bursty().sink().stream_name("source")


def test_operators_pass_segments_on_and_windows_even_them_out() -> None:
    kept = bursty(signature=BURSTS).filter("v > 0", selectivity=0.25)
    plan = kept.aggregate("key", "1 min", n="count(*)").project("n").sink()
    assert arrivals(plan, "filter") == ((2.0, 400.0), (8.0, 25.0))
    assert signature(plan, "filter") == arrivals(plan, "aggregate") == ((2.0, 100.0), (8.0, 6.25))
    assert signature(plan, "aggregate") == arrivals(plan, "project") == arrivals(plan, "sink") == ()


def test_a_union_adds_the_signatures_of_its_inputs() -> None:
    even = bursty(rate="30/s", id="even")
    joined = bursty(signature=BURSTS, id="bursty").union(even).sink()
    assert arrivals(joined, "union") == ((2.0, 430.0), (8.0, 55.0))
    other = bursty(signature=[["5 s", "1/s"], ["5 s", "3/s"]], id="other")
    three = bursty(signature=BURSTS, id="bursty").union(even, other).sink()
    assert arrivals(three, "union") == ((2.0, 431.0), (3.0, 56.0), (5.0, 58.0))


def test_a_signature_travels_with_the_plan_and_with_what_is_left_of_it() -> None:
    plan = bursty(signature=BURSTS).filter("v > 0", selectivity=0.25).project("v").sink()
    for again in (Plan.from_bytes(plan.to_bytes()), Plan.from_yaml(plan.to_yaml())):
        assert again == plan
        assert signature(again, "project") == ((2.0, 100.0), (8.0, 6.25))
    tapped = reduced(plan, {"filter": {"peer-1": ("a", "filter")}})
    assert arrivals(Plan.from_bytes(tapped.to_bytes()), "project") == ((2.0, 100.0), (8.0, 6.25))


def test_a_measured_signature_is_scaled_to_the_stated_rate() -> None:
    measured = {"source": Profile(signature=((1.0, 9.0), (1.0, 1.0)))}
    plan = profiled(bursty(rate="10/s").sink(), measured)
    assert signature(plan, "source") == ((1.0, 18.0), (1.0, 2.0))
    tapped = reduced(bursty(rate="10/s").filter("v > 0").sink(), {"filter": {"peer-1": ("a", "filter")}})
    assert signature(profiled(tapped, {"filter": measured["source"]}), "filter") == ((1.0, 9.0), (1.0, 1.0))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "1 to 32 segments"),
        ("2 s", "1 to 32 segments"),
        ([["2 s"]], "1 to 32 segments"),
        ([["2 s", "400/s"]] * (MOST_SEGMENTS + 1), "1 to 32 segments"),
        ([["2 s", "0/s"]], "at least one rate of them above 0"),
        ([["0 s", "5/s"]], "a duration of at least 1 us"),
        ([["2 s", "fast"]], "a rate such as"),
    ],
)
def test_texts_that_are_no_signature_are_refused(value: Any, expected: str) -> None:
    with pytest.raises(PlanError, match=expected):
        bursty(signature=value).sink()


def test_a_tap_with_a_wrong_signature_is_refused() -> None:
    plan = reduced(bursty(signature=BURSTS).filter("v > 0").sink(), {"filter": {"peer-1": ("a", "filter")}})
    plan.operators["filter"].params["signature"] = [[-1.0, 3.0]]
    with pytest.raises(PlanError, match="signature"):
        Plan.from_bytes(plan.to_bytes())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(rates, min_size=2, max_size=3), st.floats(0.001, 0.999))
def test_the_sum_of_patterns_equals_a_slow_implementation(patterns: list[Rates], where: float) -> None:
    window = max(sum(seconds for seconds, _ in pattern) for pattern in patterns)
    found = together(patterns)
    assert sum(seconds for seconds, _ in found) == pytest.approx(window)
    edges = {0.0}
    for pattern in patterns:
        back = 0.0
        while back < window:
            for seconds, _ in reversed(pattern):
                back += seconds
                edges.add(back)
    if len(edges) <= MOST_SEGMENTS and len(found) > 1:
        before = where * window
        if min(abs(before - edge) for edge in edges) > 1e-6:
            assert rate_at(found, before) == pytest.approx(sum(rate_at(each, before) for each in patterns))


@given(rates, st.integers(1, 6))
def test_a_shorter_pattern_has_the_same_mean(pattern: Rates, most: int) -> None:
    found = shortened(pattern, most)
    assert len(found) == min(len(pattern), most)
    assert sum(seconds for seconds, _ in found) == pytest.approx(sum(seconds for seconds, _ in pattern))
    assert mean_rate(found) == pytest.approx(mean_rate(pattern), abs=1e-9)
    assert max(rate for _, rate in found) <= max(rate for _, rate in pattern) * (1 + 1e-9)


@given(rates)
def test_a_text_is_read_as_it_was_written(pattern: Rates) -> None:
    again = read(write(pattern))
    if any(float(f"{rate:.4g}") > 0.0 for _, rate in pattern):
        assert [pytest.approx(each, rel=1e-3) for each in pattern] == list(again)
    else:
        assert again == ()


@pytest.mark.parametrize("text", ["", "2", "2:x", "nan:3", "2:inf", "2:-1", " ".join(["1:1"] * 33), 5.0, math.inf])
def test_a_malformed_signature_of_another_peer_is_ignored(text: Any) -> None:
    assert read(text) == ()
