"""``peaks``: how many windows need more memory than is estimated by the profile of earlier rows.

What sorts and aggregates keep of each window of later rows of a trace, tuples or groups, is compared with what plans
expect: that of a mean window, and that of a busy one, by which memory is estimated. An estimate by the quantile .99 is
right if one window of 100 needs more; ``most`` is what is kept of the largest one as a multiple of it. That window is
executed, and the bytes of its state are compared with the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_experiments.bench.measurements import measurement
from synergy_experiments.bench.profiled_admissions import Judged, judged
from synergy_nb.dataflow.operators.base import create
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, source
from synergy_nb.plan.checks.memory_estimates import held
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.trace_facts import PEAK

__all__ = ["peaks"]

Array = npt.NDArray[np.float64]
WINDOWS: Final = (60, 600, 3600)  # seconds of event time


class Windows(NamedTuple):
    """What an operator keeps at the end of each window."""

    kept: Array  # tuples or groups of each window, the least first
    nbytes: float  # bytes of the state at the end of the window with most of these


def peaks(*, small: bool = False) -> dict[str, Any]:
    """Share of the windows that need more than the estimate for a busy one, over all traces, columns and lengths."""
    traces = judged(small=small)
    if not traces:
        return measurement("peaks", 0.0, "of the windows", {"note": "no real trace was found on this machine"})
    cases: dict[str, dict[str, Any]] = {}
    for trace in traces:
        for length in WINDOWS[:2] if small else WINDOWS:
            for name, plan, operator in _plans(trace, length):
                found = _measured(plan, operator, trace.parts, length)
                cases[f"{trace.name}, {name}, {length} s"] = _compared(plan, operator, found)
    beyond = {way: float(np.mean([each[way]["beyond"] for each in cases.values()])) for way in ("mean", "busy")}
    detail = {"quantile": PEAK, "cases": cases, "beyond": {way: round(each, 4) for way, each in beyond.items()},
              "traces": [each.name for each in traces]}  # fmt: skip
    return measurement("peaks", round(beyond["busy"], 4), "of the windows", detail)


def _plans(trace: Judged, length: int) -> Iterator[tuple[str, Plan, str]]:
    table = trace.parts[0]
    columns = {name: "int" if dtype.is_integer() else "str" for name, dtype in table.schema.items() if name != "time"}
    widths = {name: float(table[name].str.len_bytes().mean() or 0.0) for name in columns if columns[name] == "str"}  # type: ignore[arg-type]
    known = {"source": SourceSize(widths=widths, facts=trace.facts)}
    stream = source("trace", path="later", format="csv", columns=columns, speed=60)
    window = f"{length} s"
    yield "sort", stream.sort("time", window=window, id="it").sink("out").sized(known), "it"
    for column in [each for each in ("host", "file", "directory", "number") if each in columns]:
        yield f"by {column}", stream.aggregate(column, window, n="count(*)", id="it").sink("out").sized(known), "it"


def _measured(plan: Plan, operator: str, parts: list[pl.DataFrame], length: int) -> Windows:
    """Count what is kept of each window, and execute the one with most of it."""
    node, step = plan.operators[operator], length * 1_000_000
    rows = pl.concat(parts).with_columns((pl.col("time").to_physical() // step).alias("window"))
    kept = pl.len() if node.kind == "sort" else pl.col(node.params["by"][0]).n_unique()
    counts = rows.group_by("window").agg(kept.alias("kept")).sort("kept", "window")
    busiest = rows.filter(pl.col("window") == counts["window"][-1]).drop("window")
    logic = create(node, plan)
    list(logic.execute(0, Batch(busiest, 0, 0.0)))
    return Windows(counts["kept"].to_numpy().astype(np.float64), float(logic.state_bytes))


def _compared(plan: Plan, operator: str, found: Windows) -> dict[str, Any]:
    cases: dict[str, Any] = {"windows": len(found.kept)}
    for way, kept in (("mean", held(plan, operator, mean=True)), ("busy", held(plan, operator))):
        cases[way] = {
            "tuples": math.ceil(kept.tuples),
            "beyond": round(float((found.kept > math.ceil(kept.tuples)).mean()), 4),
            "most": round(float(found.kept.max() / kept.tuples), 2),
            "bytes_of_most": round(found.nbytes / kept.nbytes, 2),
        }
    return cases
