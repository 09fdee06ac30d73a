"""``placements``: whether ROD overloads peers less often by the selectivities that earlier rows had.

Random plans read two replays of later rows; behind each are branches of a filter with a random condition and two
operators of random costs. ROD places each plan by assumed selectivities, by the profile of the earlier rows, and by
that of something else (*wrong*). The rows themselves then tell the load of each peer in each minute, as the conditions
hold for them: a minute is overloaded if any peer has more than a peer can do. *Any* is the share of the minutes that
overload every placement, as all peers together have too much. Beside it is the share of the ideal set of rates that a
placement withstands, by the selectivities of the later rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import duckdb
import numpy as np
import numpy.typing as npt

from synergy_experiments.bench.measurements import measurement
from synergy_experiments.bench.profiled_admissions import Judged, conditions, judged, of_something_else
from synergy_nb.algorithms.resilience import feasible_ratio, load_model, place
from synergy_nb.plan import Plan, plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.source_sizes import SourceSize

__all__ = ["placements"]

Array = npt.NDArray[np.float64]
PLANS: Final = 24
ARMS: Final = ("assumed", "profile", "wrong")
PEERS: Final = {"peer-1": 1.0, "peer-2": 1.0, "peer-3": 1.0}
SOURCES: Final = ("one", "two")
BRANCHES: Final = 4
MINUTE: Final = 60  # seconds of event time
LOADS: Final = (0.3, 0.7)  # of all peers together in a mean minute, of what they can do


class Replay(NamedTuple):
    """Later rows that a source of a plan replays, and for how many of each minute the conditions of its filters hold.

    ``taken``: rows of each minute; ``kept``: minutes x conditions.
    """

    trace: Judged
    conditions: list[str]
    taken: Array
    kept: Array


def placements(*, small: bool = False, seed: int = 1) -> dict[str, Any]:
    """Share of the minutes in which ROD's placement overloads a peer, by the profile of earlier rows.

    Parameters
    ----------
    small
        Whether few plans over generated rows are placed, as a check.
    seed
        Seed of the plans.
    """
    traces = judged(small=small)
    if not traces:
        return measurement("placements", 0.0, "of the minutes", {"note": "no real trace was found on this machine"})
    rng = random.Random(seed)
    found: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    anyhow: list[float] = []
    for number in range(3 if small else PLANS):
        replays = [_replay(rng, traces[(number + each) % len(traces)]) for each in range(len(SOURCES))]
        query, loads = _case(rng, replays)
        anyhow.append(float((loads.sum(axis=1) > sum(PEERS.values())).mean()))
        for arm in ARMS:
            assignment = place(query.sized(_sizes(arm, replays)), PEERS).assignment
            found[arm].append(_withstood(query, loads, replays, assignment))
    detail: dict[str, Any] = {
        arm: {
            "overloaded": round(float(np.mean([share for share, _ in each])), 4),
            "feasible": round(float(np.mean([ratio for _, ratio in each])), 4),
        }
        for arm, each in found.items()
    }
    pairs = list(zip(found["profile"], found["assumed"], strict=True))
    detail |= {
        "better": sum(one[0] < other[0] for one, other in pairs),
        "worse": sum(one[0] > other[0] for one, other in pairs),
        "any": round(float(np.mean(anyhow)), 4), "plans": len(anyhow), "seed": seed,
        "traces": [each.name for each in traces],
    }  # fmt: skip
    return measurement("placements", detail["profile"]["overloaded"], "of the minutes", detail)


def _replay(rng: random.Random, trace: Judged) -> Replay:
    rows = rng.choice(trace.parts)
    chosen = rng.sample(list(conditions(rows)), BRANCHES)
    shares = ", ".join(f"count(*) FILTER ({each})::DOUBLE" for each in chosen)
    minute = f"time_bucket(INTERVAL {MINUTE} SECONDS, time)"
    query = f"SELECT count(*)::DOUBLE, {shares} FROM rows GROUP BY {minute} ORDER BY {minute}"  # noqa: S608 - our own
    counts = cast("duckdb.DuckDBPyRelation", duckdb.sql(query)).pl().to_numpy()
    return Replay(trace, chosen, counts[:, 0], counts[:, 1:])


def _case(rng: random.Random, replays: list[Replay]) -> tuple[Plan, Array]:
    """A plan, and the load of each of its operators in each minute, minutes x operators."""
    minutes = min(len(each.taken) for each in replays)
    costs = [[[rng.uniform(0.1, 1.0) for _ in range(2)] for _ in range(BRANCHES)] for _ in replays]
    whole = sum(
        float(replay.kept[:minutes].mean(axis=0) @ np.array(each).sum(axis=1))
        for replay, each in zip(replays, costs, strict=True)
    )
    unit = rng.uniform(*LOADS) * sum(PEERS.values()) * MINUTE / whole  # seconds of a cost of 1, at one minute a minute
    sinks: list[Plan] = []
    loads: dict[str, Array] = {}
    for name, replay, each in zip(SOURCES, replays, costs, strict=True):
        stream = _source(name, replay.trace)
        for branch, (condition, pair) in enumerate(zip(replay.conditions, each, strict=True)):
            made = stream.filter(condition, cost=0.0, id=f"{name}-{branch}")
            for place_, cost in enumerate(pair):
                operator = f"{name}-{branch}-{place_}"
                made = made.delay(f"{cost * unit!r} s", id=operator)
                loads[operator] = replay.kept[:minutes, branch] * cost * unit / MINUTE
            sinks.append(made.sink(f"out {name} {branch}", cost=0.0, id=f"out-{name}-{branch}"))
    query = plan(*sinks)
    nothing = np.zeros(minutes)
    return query, np.column_stack([loads.get(each, nothing) for each in query.operators])


def _source(name: str, trace: Judged) -> Stream:
    table = trace.parts[0]
    columns = {each: "int" if dtype.is_integer() else "str" for each, dtype in table.schema.items() if each != "time"}
    return source("trace", path=f"{name}.csv", format="csv", columns=columns, speed=1, cost=0.0, id=name)


def _sizes(arm: str, replays: list[Replay]) -> dict[str, SourceSize]:
    if arm == "assumed":
        return {}
    facts = {name: each.trace.facts for name, each in zip(SOURCES, replays, strict=True)}
    return {
        name: SourceSize(facts=each if arm == "profile" else of_something_else(each)) for name, each in facts.items()
    }


def _withstood(query: Plan, loads: Array, replays: list[Replay], assignment: Mapping[str, str]) -> tuple[float, float]:
    """Share of the minutes in which a peer is overloaded, and of the ideal set that is feasible."""
    names = list(query.operators)
    nodes = np.array([list(PEERS).index(assignment[each]) for each in names])
    by_peer = np.column_stack([loads[:, nodes == number].sum(axis=1) for number in range(len(PEERS))])
    model = load_model(query)
    minutes = len(loads)
    rates = [float(each.taken[:minutes].mean()) / MINUTE for each in replays]
    owners = [SOURCES.index(each.removeprefix("out-").partition("-")[0]) for each in names]
    true = np.zeros((len(names), len(SOURCES)))
    true[np.arange(len(names)), owners] = loads.mean(axis=0) / np.array(rates)[owners]
    order = [names.index(each) for each in model.operators]
    ratio = feasible_ratio(true[order], list(PEERS.values()), nodes[order])
    return float((by_peer > 1.0).any(axis=1).mean()), float(ratio)
