"""Seasons of streams: which sources they follow from, and what they say of the seconds ahead."""

from __future__ import annotations

import math
from typing import Any

import pytest

from synergy_nb import source
from synergy_nb.plan import Plan, plan
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import TraceFacts
from synergy_nb.plan.derived.stream_seasons import Season, season_of

HOUR = 3_600_000_000
NIGHT_AND_DAY = (0.5,) * 12 + (1.5,) * 12
DAY_AND_NIGHT = NIGHT_AND_DAY[::-1]


def trace(name: str = "trace", **more: Any) -> Stream:
    return source("trace", path=f"{name}.csv", format="csv", columns={"v": "int"}, id=name, **{"speed": 600, **more})


def known(query: Plan, **hours: tuple[float, ...]) -> Plan:
    """A plan whose sources have a profile with these levels of the hours."""
    facts = {name: TraceFacts("log", 1.0, (), {}, (), levels) for name, levels in hours.items()}
    return query.sized({name: SourceSize(facts=each) for name, each in facts.items()})


def test_the_seconds_ahead_are_the_mean_of_their_levels() -> None:
    season = Season((1.0,) * 6 + (3.0,) * 18, 3600.0)
    assert season.rise(3 * HOUR, 1.0) == 1.0
    assert season.rise(12 * HOUR, 5.0) == 1.0
    # from 5:30 to 6:30 the level rises from 1 to 3 and is 2 in the mean, until 9:30 it is 3
    assert season.rise(5 * HOUR + HOUR // 2, 4.0) == pytest.approx((2.0 + 3 * 3.0) / 4)
    assert season.rise(5 * HOUR + HOUR // 2 + 7 * 24 * HOUR, 4.0) == season.rise(5 * HOUR + HOUR // 2, 4.0)
    assert season.rise(-HOUR // 2 - 18 * HOUR, 4.0) == season.rise(5 * HOUR + HOUR // 2, 4.0), "a day before 1970"
    assert season.rise(12 * HOUR, 24.0) == pytest.approx((6 * 1.0 + 18 * 3.0) / 24 / 3.0), "a whole day is its mean"


def test_nothing_is_said_where_there_are_no_rows_now() -> None:
    assert Season((0.0,) * 12 + (2.0,) * 12, 3600.0).rise(5 * HOUR, 3600.0) == 1.0


def test_what_passes_tuples_on_has_the_season_of_its_source() -> None:
    query = known(trace().filter("v > 1").delay("1 ms").sink("out"), trace=NIGHT_AND_DAY)
    assert [season_of(query, each) for each in ("filter", "delay", "sink")] == [Season(NIGHT_AND_DAY, 600.0)] * 3
    assert season_of(query, "trace") is None, "it takes nothing"


def test_the_end_of_a_window_has_none() -> None:
    query = known(trace().aggregate(None, "1 min", n="count(*)").sink("out"), trace=NIGHT_AND_DAY)
    assert season_of(query, "aggregate") == Season(NIGHT_AND_DAY, 600.0)
    assert season_of(query, "sink") is None


def joined(**more: Any) -> Plan:
    other = trace("other", **more)
    return trace(rate=30.0).union(other).delay("1 ms").sink("out")


def test_several_sources_count_by_their_rates() -> None:
    both = joined(rate=10.0)
    found = season_of(known(both, trace=NIGHT_AND_DAY, other=DAY_AND_NIGHT), "union")
    assert found is not None
    assert found.levels == pytest.approx((0.75,) * 12 + (1.25,) * 12)
    even = season_of(known(both, trace=NIGHT_AND_DAY), "union")
    assert even is not None
    assert even.levels == pytest.approx((0.625,) * 12 + (1.375,) * 12), "a source without a profile has an even rate"


def test_sources_at_different_speeds_have_none_together() -> None:
    query = known(joined(rate=10.0, speed=60), trace=NIGHT_AND_DAY, other=NIGHT_AND_DAY)
    assert season_of(query, "union") is None


def test_without_a_profile_or_a_pace_there_is_none() -> None:
    assert season_of(trace().filter("v > 1").sink("out"), "filter") is None
    unpaced = source("trace", path="a.csv", format="csv", columns={"v": "int"}, id="trace").filter("v > 1").sink("out")
    assert season_of(known(unpaced, trace=NIGHT_AND_DAY), "filter") is None


def test_levels_travel_with_the_plan_and_wrong_ones_are_refused() -> None:
    query = known(plan(trace().filter("v > 1").sink("out")), trace=NIGHT_AND_DAY)
    assert season_of(Plan.from_bytes(query.to_bytes()), "filter") == Season(NIGHT_AND_DAY, 600.0)
    assert not TraceFacts("log", 1.0, (), {}, (), (1.0,) * 23).is_valid()
    assert not TraceFacts("log", 1.0, (), {}, (), (math.nan,) * 24).is_valid()
