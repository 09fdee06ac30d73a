"""Profiles of traces: what is known of rows whose truth is known, what is not, and how it is kept and shown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from synergy_nb.traces.profiles.facts import facts_of
from synergy_nb.traces.profiles.profiling import RawOrder, profile_of
from synergy_nb.traces.profiles.surveys import step_for, surveyed
from synergy_nb.traces.profiles.trace_profile import NotAProfile, TraceProfile, read_profile

pytestmark = pytest.mark.slow

Seconds = npt.NDArray[np.int64]
DAY = 86_400
MICROS = 1_000_000
EVIL = "<script>alert(1)</script>\x1b[31m"


def traffic(days: int, mean: float = 0.05, season: float = 0.8, seed: int = 3) -> Seconds:
    """Seconds of random arrivals whose rate has a daily season, with a maximum at 18:00."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(days * DAY)
    rate = mean * (1.0 - season * np.sin(2 * np.pi * seconds / DAY))
    return np.repeat(seconds, rng.poisson(rate))


def profiled(seconds: Seconds, order: RawOrder | None = None, **columns: pl.Series) -> TraceProfile:
    schema = {"time": "time", **{name: "str" if each.dtype == pl.String else "int" for name, each in columns.items()}}
    table = pl.DataFrame({"time": pl.Series(seconds * MICROS).cast(pl.Datetime("us")), **columns})
    step = step_for(int(seconds[0]) * MICROS, int(seconds[-1]) * MICROS)
    return profile_of("trace", surveyed([table], schema, step), order)


@pytest.fixture(scope="module")
def weeks() -> TraceProfile:
    """Sixteen days, of which the last has other keys, and a gap."""
    seconds = traffic(16)
    seconds = seconds[(seconds < 5 * DAY) | (seconds >= 5 * DAY + 7200)]
    rng = np.random.default_rng(4)
    ranks = rng.choice(500, size=len(seconds), p=(np.arange(1, 501) ** -1.1) / (np.arange(1, 501) ** -1.1).sum())
    keys = pl.Series([f"k{rank}" if at < 15 * DAY else f"n{rank}" for rank, at in zip(ranks, seconds, strict=True)])
    sizes = pl.Series((100.0 * (rng.pareto(1.5, len(seconds)) + 1.0)).astype(int))
    return profiled(seconds, RawOrder({0.0: 40, 1.0: 4, 10.0: 0}, 3.0), key=keys, size=sizes)


def test_arrivals_at_equal_distances_are_more_even_than_random_ones() -> None:
    assert "Rows come more evenly than random arrivals do" in str(profiled(np.arange(0, 20_000, 2)))


def test_rates_are_those_of_the_rows_at_the_clock_of_the_trace(weeks: TraceProfile) -> None:
    assert weeks.resolution == 1.0
    assert weeks.rates[0].seconds == 1.0  # no scale below the clock
    assert weeks.rate == pytest.approx(weeks.rows / weeks.seconds)
    assert weeks.rate == pytest.approx(0.05, rel=0.03)
    assert weeks.rates[0].dispersion == pytest.approx(1.02, abs=0.03)
    day = next(each for each in weeks.rates if each.seconds == DAY)
    assert day.periods == 16
    assert sum(weeks.series) == weeks.rows


def test_the_season_of_the_day_is_found_in_its_place(weeks: TraceProfile) -> None:
    found = weeks.season
    assert found is not None
    assert found.daily is not None
    assert found.daily > 0.9
    assert found.hours.index(max(found.hours)) in (16, 17, 18, 19)
    assert found.hours[18] == pytest.approx(0.09, rel=0.05)
    assert found.weekly is not None
    assert found.acf[23] > 0.7
    assert found.forecast is not None
    assert len(found.forecast.mean) == 24
    assert found.trend is not None
    assert found.trend.low < 0.0 < found.trend.high


def test_columns_have_tails_skew_and_selectivities(weeks: TraceProfile) -> None:
    key, size = weeks.columns["key"], weeks.columns["size"]
    assert key.skew is not None
    assert key.skew.zipf is not None
    assert key.skew.zipf.value == pytest.approx(1.1, abs=0.05)
    assert key.skew.basis == "exact"
    assert size.tail is not None
    assert size.tail.alpha.value == pytest.approx(1.5, rel=0.1)
    assert size.quantiles["0.5"] == pytest.approx(100 * 2 ** (1 / 1.5), rel=0.03)
    chosen = {each.predicate: each.selectivity for each in (*key.predicates, *size.predicates)}
    top, share = key.skew.top[0]
    assert chosen[f"key = '{top}'"] == share
    over = next(each for predicate, each in chosen.items() if predicate.startswith("size > "))
    assert over == pytest.approx(0.5, abs=0.01)


def test_windows_gaps_disorder_and_drift(weeks: TraceProfile) -> None:
    hour = next(each for each in weeks.windows if each.seconds == 3600.0)
    assert hour.rows.mean == pytest.approx(180.0, rel=0.03)
    assert 60 < hour.groups["key"].mean < 120
    assert hour.nbytes.most == pytest.approx(hour.rows.most * weeks.row_bytes)
    assert weeks.gaps[0].start.startswith("1970-01-0")
    assert weeks.gaps[0].seconds == pytest.approx(7200, abs=200)
    assert [(each.seconds, each.lost) for each in weeks.lateness] == [(0.0, 40), (1.0, 4), (10.0, 0)]
    *others, last = weeks.days
    assert last.shifts["key"] > 0.25 > max(day.shifts["key"] for day in others)
    assert all(day.ratio is None or 0.8 < day.ratio < 1.25 for day in weeks.days)


def test_what_needs_more_days_is_not_guessed() -> None:
    short = profiled(traffic(1))
    assert short.season is not None
    assert (short.season.daily, short.season.hours, short.season.trend) == (None, [], None)
    assert short.unknown["daily season"] == "needs more than two days; there are 24 h"
    assert short.unknown["drift"] == "needs two days; there is 1 day"
    assert "disorder" in short.unknown
    text = str(short)
    assert "not known: daily season and trend: needs more than two days" in text
    assert "Hurst exponent" not in short.unknown or "needs" in short.unknown["Hurst exponent"]
    few = profiled(np.array([5, 5, 6]))
    assert few.hurst == []
    assert "needs" in few.unknown["Hurst exponent"]
    assert few.season is None
    assert "<section>" in few.to_page()


@pytest.mark.parametrize(("days", "daily", "weekly"), [(2, False, False), (3, True, False), (14, True, False)])
def test_spans_at_the_bounds_of_what_is_known(days: int, daily: bool, weekly: bool) -> None:
    found = profiled(traffic(days, 0.01)).season
    assert found is not None
    assert (found.daily is not None, found.weekly is not None) == (daily, weekly)


def test_plans_get_the_hours_as_far_as_the_season_explains_the_rates(weeks: TraceProfile) -> None:
    facts, season = facts_of(weeks), weeks.season
    assert facts is not None
    assert season is not None
    assert season.daily is not None
    mean = sum(season.hours) / 24
    assert facts.hours == pytest.approx([1.0 + season.daily * (each - mean) / mean for each in season.hours])
    assert max(facts.hours) > 1.2
    assert min(facts.hours) < 0.8


def test_a_span_of_centuries_is_counted_by_hours() -> None:
    """As of a log with one row whose clock was never set."""
    found = profiled(np.array([0, *(200 * 365 * 86_400 + np.arange(50))]))
    assert found.rates[0].seconds == 3600.0
    assert found.to_page()


def test_no_rows_and_one_row() -> None:
    empty = profile_of("trace", surveyed([], {"time": "time", "key": "str"}, 1000), None)
    assert (empty.rows, empty.rate, empty.seconds) == (0, 0.0, 0.0)
    assert "no rows" in str(empty)
    one = profiled(np.array([7]))
    assert one.rows == 1
    assert "1 row" in str(one)
    assert one.to_page()


# -- kept and shown ----------------------------------------------------------------------------------------------------


def test_a_profile_is_read_as_it_was_written(weeks: TraceProfile, tmp_path: Path) -> None:
    weeks.save(tmp_path / "_profile.json")
    assert read_profile(tmp_path) == weeks
    assert read_profile(tmp_path / "_profile.json") == weeks


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"version": 1', '"version": 7'), "a profile of version 7; expected 1: remove it"),
        (lambda text: text[:-200], "expected the profile of a trace: remove it, and let"),
        (lambda text: text.replace('"rows"', '"lines"', 1), "missing required field `rows`; expected the profile"),
        (lambda _: '{"rows": 4}', "missing required field `version`; expected the profile"),
    ],
)
def test_other_versions_and_damaged_files_are_refused(
    change: object, said: str, weeks: TraceProfile, tmp_path: Path
) -> None:
    assert callable(change)
    path = tmp_path / "_profile.json"
    path.write_text(change(weeks.to_json().decode()))
    with pytest.raises(NotAProfile, match=re.escape(said)) as refused:
        read_profile(tmp_path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_the_page_has_a_sentence_for_each_part_and_no_markup_of_others(weeks: TraceProfile) -> None:
    page = weeks.to_page()
    titles = re.findall("<h2>(.*?)</h2><p>", page)
    assert titles == [
        "Rates", "Bursts", "Season and trend", "Heavy tails", "Key skew", "Selectivities", "Windows and groups",
        "Gaps and disorder", "Drift between days",
    ]  # fmt: skip
    assert all(title in str(weeks) for title in titles)
    assert page.count("<svg") >= 8
    assert "prefers-color-scheme:dark" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")  # it needs nothing else
    seconds = traffic(1)
    evil = profiled(seconds, key=pl.Series([EVIL if at % 2 else "b" for at in seconds]))
    assert "<script" not in evil.to_page()
    assert "\x1b" not in evil.to_page() + str(evil)
    assert "&lt;script" in evil.to_page()
