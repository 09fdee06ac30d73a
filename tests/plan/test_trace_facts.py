"""What a plan takes from the profile of its trace: rates, selectivities, groups; and what it does not."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import polars as pl
import pytest

from synergy_nb.plan import Plan, source
from synergy_nb.plan.checks.memory_estimates import held
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import (
    CLASSES,
    PEAK,
    TraceFacts,
    groups_of,
    known_of,
    pattern_of,
    selectivity_of,
)
from synergy_nb.plan.derived.stream_signatures import mean_rate, signature
from synergy_nb.traces.profiles.facts import facts_of
from synergy_nb.traces.profiles.profiling import profile_of
from synergy_nb.traces.profiles.surveys import step_for, surveyed

COLUMNS = {"host": "str", "status": "int", "size": "int"}


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Four hours; the rate of the last one is four times that of the others."""
    rng = np.random.default_rng(1)
    times = np.sort(np.concatenate([rng.uniform(0, 4 * 3600, 4000), rng.uniform(3 * 3600, 4 * 3600, 3000)]))
    count = len(times)
    return pl.DataFrame({
        "time": pl.Series((times * 1e6).astype(int)).cast(pl.Datetime("us")),
        "host": pl.Series([f"h{each}" for each in rng.zipf(1.5, count).clip(0, 500)]),
        "status": pl.Series(rng.choice([200, 304, 404], count, p=[0.8, 0.15, 0.05])),
        "size": pl.Series([None if each < 0.1 else round(1e4 * each) for each in rng.random(count)]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def facts(rows: pl.DataFrame) -> TraceFacts:
    times = rows["time"].to_physical()
    survey = surveyed([rows], {"time": "time", **COLUMNS}, step_for(times[0], times[-1]))
    found = facts_of(profile_of("log", survey, None))
    assert found is not None
    assert found.hours == (), "four hours have no daily season"
    return found


CONDITIONS = [
    "status = 404", "status <> 200", "status IN (200, 304)", "status NOT IN (200, 304)", "host = 'h1'",
    "host = 'h499'", "size > 5000", "size > 2000 AND size <= 4000", "size BETWEEN 2000 AND 4000", "NOT size > 5000",
    "status >= 300", "status < 300", "size > 9000 OR status = 404", "host = 'h1' AND status = 404", "size IS NULL",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_shares_of_conditions_are_those_of_the_rows(condition: str, rows: pl.DataFrame, facts: TraceFacts) -> None:
    truth = pl.SQLContext(rows=rows).execute(f"SELECT * FROM rows WHERE {condition}").collect().height / rows.height
    known = known_of(facts)
    assert known is not None
    found = selectivity_of(condition, known)
    assert found == pytest.approx(truth, abs=0.012)


def plan_of(facts: TraceFacts | None, **stated: object) -> Plan:
    trace = source("trace", path="log.csv", format="csv", columns=COLUMNS, speed=60, **stated)
    query = trace.filter("status = 404").aggregate("host", "1 min", n="count(*)").sink("out")
    return query if facts is None else query.sized({"source": SourceSize(facts=facts)})


def test_a_plan_takes_what_its_author_does_not_state(facts: TraceFacts, rows: pl.DataFrame) -> None:
    plan = plan_of(facts)
    assert plan.rate("source") == pytest.approx(7000 / (4 * 3600) * 60, rel=0.01)
    assert plan.selectivity("filter") == pytest.approx(0.05, abs=0.01)
    assert [plan.basis(each) for each in ("source", "filter", "aggregate")] == ["profile"] * 3
    groups = (
        rows.filter(status=404).group_by(pl.col("time").dt.truncate("1m")).agg(pl.col("host").n_unique())["host"].sum()
    )
    assert plan.rate("aggregate") == pytest.approx(groups / (4 * 60), rel=0.35)  # per second of the replay, a minute
    assert held(plan, "aggregate").tuples < held(plan_of(None), "aggregate").tuples
    assumed = plan_of(None)
    assert [assumed.basis(each) for each in ("source", "filter", "aggregate")] == ["assumed"] * 3
    assert Plan.from_bytes(plan.to_bytes()).rate("aggregate") == plan.rate("aggregate")


def test_what_is_stated_counts_first(facts: TraceFacts) -> None:
    plan = plan_of(facts, rate=10)
    assert (plan.rate("source"), plan.basis("source")) == (10.0, "stated")
    known = plan_of(facts).sized({"source": SourceSize(720.0, 7200.0, True, facts=facts)})
    assert (known.rate("source"), known.basis("source")) == (6.0, "rows")


def test_bursts_are_a_signature_that_filters_pass_on(facts: TraceFacts) -> None:
    plan = plan_of(facts)
    found = signature(plan, "source")
    assert mean_rate(found) == pytest.approx(plan.rate("source"))
    assert [seconds for seconds, _ in found] == [each * found[0][0] / CLASSES[0] for each in CLASSES]
    assert found[-1][1] > 1.5 * plan.rate("source")
    assert mean_rate(signature(plan, "filter")) == pytest.approx(plan.rate("filter"))
    assert signature(plan, "aggregate") == ()
    assert pattern_of(facts, 0.0) == ()


def test_columns_that_are_computed_have_no_facts(facts: TraceFacts) -> None:
    trace = source("trace", path="log.csv", format="csv", columns=COLUMNS, speed=60)
    named = trace.project(code="status", size="size * 2").filter("code = 404").sink("out")
    plan = named.sized({"source": SourceSize(facts=facts)})
    assert plan.basis("filter") == "profile"
    computed = (
        trace.project(code="status + 1").filter("code = 404").sink("out").sized({"source": SourceSize(facts=facts)})
    )
    assert (computed.basis("filter"), computed.selectivity("filter")) == ("assumed", 0.5)


def test_groups_grow_with_the_tuples_and_never_beyond(facts: TraceFacts) -> None:
    known = known_of(facts)
    assert known is not None
    found = [groups_of(known, ["host"], each) or 0.0 for each in (1.0, 10.0, 100.0, 1e3, 1e6)]
    assert found == sorted(found)
    assert all(groups <= tuples for groups, tuples in zip(found, (1.0, 10.0, 100.0, 1e3, 1e6), strict=True))
    assert groups_of(known, ["other"], 10.0) is None


def busiest(rows: pl.DataFrame, length: str, column: str | None = None) -> float:
    """The quantile .99 of the rows, or values of a column, of windows."""
    kept = pl.len() if column is None else pl.col(column).n_unique()
    counts = rows.group_by(pl.col("time").dt.truncate(length)).agg(kept.alias("kept"))["kept"]
    return float(counts.quantile(PEAK, "linear") or 0.0)


def test_memory_is_that_of_a_busy_window(rows: pl.DataFrame, facts: TraceFacts) -> None:
    stream = source("trace", path="log.csv", format="csv", columns=COLUMNS, speed=60)
    sizes = {"source": SourceSize(facts=facts)}
    tuples = stream.sort("size", window="1 min", id="kept").sink("out").sized(sizes)
    assert held(tuples, "kept").tuples == pytest.approx(busiest(rows, "1m"), rel=0.1)
    assert held(tuples, "kept", mean=True).tuples == pytest.approx(7000 / 240, rel=0.1)
    groups = stream.aggregate("host", "1 min", n="count(*)", id="kept").sink("out").sized(sizes)
    assert held(groups, "kept").tuples == pytest.approx(busiest(rows, "1m", "host"), rel=0.1)
    assert held(groups, "kept", mean=True).tuples < 0.6 * held(groups, "kept").tuples
    unknown = groups.sized({"source": SourceSize(7000.0, 4 * 3600.0)})
    assert held(unknown, "kept") == held(unknown, "kept", mean=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": math.nan},
        {"scales": ((1.0, (1.0,)),)},
        {"windows": ((1.0, {"host": -1.0}),)},
        {"peaks": ((1.0, math.inf),)},
        {"busy": ((-1.0, {}),)},
    ],
)
def test_facts_with_impossible_numbers_are_refused(wrong: dict[str, object], facts: TraceFacts) -> None:
    assert facts.is_valid()
    assert not msgspec.structs.replace(facts, **wrong).is_valid()
