"""``profiles``: whether admission is right more often where a trace of earlier days has a profile.

Plans over days that no profile has seen are decided on by a simulated peer: a filter with a random condition, and an
operator of random cost behind it. Each is decided on four times:

- *assumed*: nothing is known of the rows;
- *rows*: their number and time span are known, as of a file, but nothing of their values and bursts;
- *profile*: as *rows*, with the profile of the earlier days;
- *wrong*: with a profile whose rates, values and bursts are of something else. It has to be worse: otherwise a profile
  would have no effect.

What is right is found by the rows themselves: a server executes those for which the condition holds, at their times, in
batches as replays have them. Simulated peers, and live ones, execute some of the plans, too (:mod:`.profiled_truth`). A
decision is wrong if the plan was admitted and more than the promised share of its tuples came late, or if it was
refused and would have kept its limit. The trace is that of NASA's requests, by two weeks of which those of the next two
are judged, and that of SDSC's, by the morning of which its afternoon is: it has one day.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_experiments.bench.admissions_simulated import PlannedPeers
from synergy_experiments.bench.answers import LONGEST, SHORTEST, Answer, summarised
from synergy_experiments.bench.measurements import measurement
from synergy_experiments.bench.profiled_truth import COMPARED, LIVE, ROWS, Stretch, agreements, chosen, delays
from synergy_nb.assembly.peer_options import LATE
from synergy_nb.plan import Plan, source
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import TraceFacts
from synergy_nb.traces import datasets
from synergy_nb.traces.profiles.facts import facts_of
from synergy_nb.traces.profiles.profiling import profile_of
from synergy_nb.traces.profiles.surveys import step_for, surveyed
from synergy_nb.traces.profiles.trace_profile import TraceProfile
from synergy_nb.traces.raw_files import Tally, raw_layout, raw_tables

__all__ = ["DAY", "Judged", "conditions", "judged", "nasa_days", "of_something_else", "profiles"]

Array = npt.NDArray[np.float64]
PLANS: Final = 200
ARMS: Final = ("assumed", "rows", "profile", "wrong")
DAY: Final = 86_400.0
NASA_START: Final = 804_571_200_000_000  # microseconds since 1970 of 1 July 1995 in Florida
NASA_DAYS: Final = 27  # days before the log has a gap
NASA_KNOWN: Final = 14  # days of which there is a profile
PEER: Final = "peer"


class Judged(NamedTuple):
    """Rows of a trace that are judged by the profile of earlier ones."""

    name: str
    facts: TraceFacts
    parts: list[pl.DataFrame]  # later rows, by day
    speeds: tuple[float, float]  # seconds of event time per second, between which plans replay them


def profiles(*, small: bool = False, seed: int = 1) -> dict[str, Any]:
    """Share of wrong decisions of admission with the profile of earlier days.

    Parameters
    ----------
    small
        Whether few plans over generated rows are decided on, as a check.
    seed
        Seed of plans and limits.
    """
    traces = judged(small=small)
    if not traces:
        return measurement("profiles", 0.0, "of the decisions", {"note": "no real trace was found on this machine"})
    rng, world = random.Random(seed), PlannedPeers({}, [PEER], 1.0)
    answers: dict[str, list[Answer]] = {arm: [] for arm in ARMS}
    cases: list[Case] = []
    for number in range(32 if small else PLANS):
        trace = traces[number % len(traces)]
        case = _case(rng, number, trace)
        for arm, size in case.sizes.items():
            answers[arm].append(_decided(world, f"{arm}-{number}", case.plan.sized({"source": size}), case.measured))
        cases.append(case)
    distances = [math.log(each.measured / each.limit) for each in answers["profile"] if each.measured]
    compared = chosen(distances, [not each.reason for each in answers["profile"]], 2 if small else COMPARED)
    count = 500 if small else ROWS
    stretches = [
        Stretch.of(f"plan {number}", it.plan, it.rows, it.at, it.kept, it.cost, count)
        for number, it in ((number, cases[number]) for number in compared)
    ]
    detail = {arm: {"wrong": _wrong(each), **summarised(each)} for arm, each in answers.items()}
    value = float(detail["profile"]["wrong"])
    return measurement("profiles", value, "of the decisions", {**detail, "late": LATE, "seed": seed,
                                                               "peers": agreements(stretches, 0 if small else LIVE),
                                                               "traces": [each.name for each in traces]})  # fmt: skip


def _wrong(answers: list[Answer]) -> float:
    """Share of the decisions that were wrong."""
    return round(sum(bool(each.reason) == each.kept for each in answers) / max(len(answers), 1), 4)


def _decided(world: PlannedPeers, name: str, plan: Plan, measured: float) -> Answer:
    limit = plan.qos.delay or math.inf
    report, projected = world.submit(name, plan, PEER)
    reason = "" if report.status == "running" else report.reason
    if reason:
        free = Plan(plan.operators.values(), msgspec.structs.replace(plan.qos, delay=None), plan.name)
        report, projected = world.submit(f"{name} again", free.sized(plan.sizes), PEER)
    return Answer(limit, reason, projected if report.status == "running" else None, measured)


# -- plans and their truth ---------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A plan over later rows, and what is known of these.

    ``sizes``: what each arm knows; ``rows``, ``at``, ``kept``: rows, the seconds at which the replay gives each, and
    whether the condition holds for it; ``cost``: seconds of each of those for which it does.
    """

    plan: Plan
    sizes: dict[str, SourceSize]
    rows: pl.DataFrame
    at: Array
    kept: npt.NDArray[np.bool_]
    cost: float

    @property
    def measured(self) -> float:
        """Delay that all but the promised share of the tuples have, seconds."""
        return float(np.quantile(delays(self.at, self.kept, self.cost), 1.0 - LATE))


def _case(rng: random.Random, number: int, trace: Judged) -> Case:
    table = rng.choice(trace.parts)
    condition = rng.choice(list(conditions(table)))
    speed = _even(rng, *trace.speeds)
    draws = np.random.default_rng(number)
    micros = table["time"].to_physical().to_numpy()
    span = float(micros[-1] - micros[0]) / 1e6
    at = np.sort((micros - micros[0]) / 1e6 + draws.random(len(micros))) / speed  # clocks of logs tell whole seconds
    rows = table
    query = f"SELECT coalesce({condition}, false) AS kept FROM rows"  # noqa: S608 - a condition of our own
    kept = cast("duckdb.DuckDBPyRelation", duckdb.sql(query)).pl()["kept"].to_numpy().astype(np.bool_)
    cost = _even(rng, 0.03, 0.6) * float(at[-1]) / int(kept.sum())
    columns = {name: "int" if dtype.is_integer() else "str" for name, dtype in table.schema.items() if name != "time"}
    stream = source("trace", path="later", format="csv", columns=columns, speed=speed)
    stream = stream.filter(condition, cost="0.1 us").delay(f"{cost * 1e6:.6g} us")
    plan = stream.sink("out", delay=f"{_even(rng, SHORTEST, LONGEST) * 1e6:.0f} us")
    known = SourceSize(float(len(at)), span, True)
    sizes = {
        "assumed": SourceSize(),
        "rows": known,
        "profile": msgspec.structs.replace(known, facts=trace.facts),
        "wrong": SourceSize(facts=of_something_else(trace.facts)),
    }
    return Case(plan, sizes, rows, at, kept, cost)


def conditions(table: pl.DataFrame) -> Iterator[str]:
    """Conditions that hold for a part of the rows."""
    if "number" in table.columns:
        yield from (f"number {sign} {value}" for sign in ("<=", ">") for value in (1, 2, 3))
        return
    for column in ("operation", "directory"):
        values = table[column].value_counts(sort=True).head(6)[column].to_list()
        yield from (f"{column} {sign} '{value}'" for sign in ("=", "<>") for value in values)


def of_something_else(facts: TraceFacts) -> TraceFacts:
    """A profile with a quarter of the rate, other values, and no bursts."""
    columns = {
        name: msgspec.structs.replace(each, frequent={}, other=0.001, quantiles=())
        for name, each in facts.columns.items()
    }  # fmt: skip
    return msgspec.structs.replace(facts, rate=facts.rate / 4.0, scales=(), columns=columns)


def _even(rng: random.Random, low: float, high: float) -> float:
    """A random number between two, uniform on a logarithmic scale."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


# -- traces ------------------------------------------------------------------------------------------------------------


def judged(*, small: bool) -> list[Judged]:
    """The traces that are found on this machine, or with ``small`` a generated one."""
    return [_generated()] if small else [each for each in (_nasa(), _sdsc()) if each is not None]


def nasa_days() -> tuple[TraceProfile, list[pl.DataFrame]] | None:
    """Profile of the first two weeks of NASA's requests, and the rows of the days after them; None: it is not here."""
    found = datasets.find("nasa-http-rate").path
    if found is None:
        return None
    table, schema = _rows(Path(found), format="counts", start=NASA_START, step=1_000_000)
    seconds = (table["time"].to_physical() - NASA_START).to_numpy() // 1_000_000
    days = [table.filter(pl.Series(seconds // int(DAY) == day)) for day in range(NASA_KNOWN, NASA_DAYS)]
    return _profile(table.filter(pl.Series(seconds < NASA_KNOWN * DAY)), schema), days


def _nasa() -> Judged | None:
    found = nasa_days()
    return None if found is None else Judged("nasa-http-rate", _facts(found[0]), found[1], (120, 2400))


def _sdsc() -> Judged | None:
    found = datasets.find("sdsc-http").path
    if found is None:
        return None
    table, schema = _rows(Path(found))
    morning = pl.col("time").dt.hour() < 12
    return Judged("sdsc-http", _facts(_profile(table.filter(morning), schema)), [table.filter(~morning)], (300, 4800))


def _generated() -> Judged:
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 4 * 3_600_000_000, 4000))
    table = pl.DataFrame({"time": pl.Series(times).cast(pl.Datetime("us")), "number": rng.integers(1, 6, len(times))})
    half = table.height // 2
    facts = _facts(_profile(table.head(half), {"time": "time", "number": "int"}))
    return Judged("generated", facts, [table.tail(half)], (300, 600))


def _rows(path: Path, **options: Any) -> tuple[pl.DataFrame, Mapping[str, str]]:
    layout = raw_layout(path, **options)
    return pl.concat(list(raw_tables(path, layout, Tally()))).sort("time", maintain_order=True), layout.schema


def _profile(table: pl.DataFrame, schema: Mapping[str, str]) -> TraceProfile:
    times = table["time"].to_physical()
    blocks = (table.slice(begin, 500_000) for begin in range(0, table.height, 500_000))
    return profile_of("earlier days", surveyed(blocks, schema, step_for(times[0], times[-1])), None)


def _facts(profile: TraceProfile) -> TraceFacts:
    found = facts_of(profile)
    assert found is not None
    return found
