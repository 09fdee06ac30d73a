"""The truth of ``profiles``: a queue, and whether peers find of a plan what the queue finds.

A replay gives the rows of 5 ms at once, with the last of them. The server takes all rows that wait, and gives their
results together: so does an operator on a peer. A queue that serves tuple by tuple, which was the truth before, is of
another opinion in 5 of the 20 plans.

Simulated peers execute the whole plan on a stretch of the same rows at the same times, live ones a few of these: their
data paths have batches, credits and hops of their own. Each says whether at most the promised share of the tuples was
late. Half of the plans were admitted by the profile, and half of each half are those whose delay is nearest to the
limit, where a difference is found first.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_nb import Cluster, Simulation
from synergy_nb.assembly.peer_options import LATE
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.instances import SPAN

__all__ = ["COMPARED", "LIVE", "ROWS", "Stretch", "agreements", "chosen", "delays"]

Array = npt.NDArray[np.float64]
ROWS: Final = 2000  # rows of a stretch
COMPARED: Final = 20  # plans that simulated peers execute
LIVE: Final = 6  # of these, that live peers execute


def delays(times: Array, kept: npt.NDArray[np.bool_], cost: float) -> Array:
    """Delays of the tuples that are kept, seconds, at a server that takes all batches that wait.

    ``times``: seconds at which the rows come; ``kept``: whether a row is executed; ``cost``: seconds that each takes.

    >>> delays(np.array([0.0, 0.004, 0.006, 0.02]), np.array([True, True, True, False]), 0.01).round(3).tolist()
    [0.02, 0.02, 0.028]
    """
    batches: list[tuple[float, int]] = []  # due time and tuples
    begin = 0
    while begin < len(times):
        end = int(np.searchsorted(times, times[begin] + SPAN))
        if tuples := int(kept[begin:end].sum()):
            batches.append((float(times[end - 1]), tuples))
        begin = end
    found: list[Array] = []
    free, at = 0.0, 0
    while at < len(batches):
        started, first = max(free, batches[at][0]), at
        while at < len(batches) and batches[at][0] <= started:
            at += 1
        taken = batches[first:at]
        free = started + cost * sum(tuples for _, tuples in taken)
        found += [np.full(tuples, free - due) for due, tuples in taken]
    return np.concatenate(found) if found else np.empty(0)


class Stretch(NamedTuple):
    """Rows in the middle of a plan's rows.

    ``at``: seconds from the first one at which they come; ``late``: share of the tuples that are late in the queue.
    """

    name: str
    plan: Plan
    rows: pl.DataFrame
    at: Array
    late: float

    @classmethod
    def of(
        cls,
        name: str,
        plan: Plan,
        rows: pl.DataFrame,
        at: Array,
        kept: npt.NDArray[np.bool_],
        cost: float,
        count: int = ROWS,
    ) -> Stretch:
        """Cut ``count`` rows in the middle; the other values are those of a case of ``profiles``."""
        begin = max((len(at) - count) // 2, 0)
        part = slice(begin, begin + count)
        times = at[part] - at[begin]
        found = delays(times, kept[part], cost)
        late = float((found > (plan.qos.delay or math.inf)).mean()) if len(found) else 0.0
        return cls(name, plan, rows[part], times, late)


def chosen(distances: Sequence[float], admitted: Sequence[bool], count: int = COMPARED) -> list[int]:
    """Numbers of plans to compare: of those admitted and of those refused, the nearest ones and some far ones.

    ``distances``: logarithm of delay over limit.

    >>> chosen([0.1, -2.0, 0.01, 1.0, 3.0, -0.2], [True, True, True, False, False, False], 4)
    [2, 1, 5, 4]
    """
    found: list[int] = []
    for side in (True, False):
        ranked = sorted((abs(each), number) for number, each in enumerate(distances) if admitted[number] is side)
        near, far = count // 4, count // 2 - count // 4
        rest = ranked[near:]
        step = max(len(rest) // max(far, 1), 1)
        found += [number for _, number in [*ranked[:near], *rest[::-1][::step][:far]]]
    return found


def agreements(stretches: Sequence[Stretch], live: int = LIVE) -> dict[str, Any]:
    """Compare the queue with simulated peers, and for those with the longest limits with live ones."""
    with tempfile.TemporaryDirectory() as folder:
        plans = [_replayed(Path(folder) / f"{number}.parquet", each) for number, each in enumerate(stretches)]
        simulated = [_simulated(plan) for plan in plans]
        longest = sorted(range(len(plans)), key=lambda number: plans[number].qos.delay or 0.0)[len(plans) - live :]
        found = {"simulated": _compared(stretches, dict(enumerate(simulated)))}
        if live:
            with Cluster(1, cores=1.0, hotspots="off", overload=True, spark=False) as cluster:
                measured = {}
                for number in longest:
                    application = cluster.submit(plans[number])
                    application.results()
                    measured[number] = float(application.qos()["miss_rate"] or 0.0)
            found["live"] = _compared(stretches, measured)
    return found


def _replayed(path: Path, stretch: Stretch) -> Plan:
    """The plan over a file with the stretch; its event times are those at which the replay gives the rows."""
    speed = next(each.params["speed"] for each in stretch.plan.operators.values() if not each.inputs)
    times = pl.Series((stretch.at * speed * 1e6).astype(np.int64)).cast(pl.Datetime("us"))
    stretch.rows.with_columns(times.alias("time")).write_parquet(path)
    operators = [
        each
        if each.inputs
        else msgspec.structs.replace(each, params={**each.params, "path": str(path), "format": "parquet"})
        for each in stretch.plan.operators.values()
    ]
    return Plan(operators, stretch.plan.qos, stretch.plan.name)


def _simulated(plan: Plan) -> float:
    """Share of the tuples that are late at a simulated peer."""
    with Simulation(1, network="local", cores=1.0, seed=1, hotspots="off", overload=True) as simulation:
        application = simulation.submit(plan)
        application.results()
        return float(application.qos()["miss_rate"] or 0.0)


def _compared(stretches: Sequence[Stretch], late: dict[int, float]) -> dict[str, Any]:
    differ = [
        {"plan": stretches[number].name, "limit_s": stretches[number].plan.qos.delay,
         "queue": round(stretches[number].late, 4), "peers": round(share, 4)}
        for number, share in late.items() if (share <= LATE) != (stretches[number].late <= LATE)
    ]  # fmt: skip
    off = [abs(share - stretches[number].late) for number, share in late.items()]
    return {
        "plans": len(late),
        "agree": len(late) - len(differ),
        "kept": sum(stretches[number].late <= LATE for number in late),
        "late_off": round(float(np.mean(off)), 4) if off else 0.0,
        "differ": differ,
    }
