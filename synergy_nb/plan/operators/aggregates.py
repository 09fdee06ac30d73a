"""Operators with a result for each window: aggregate and count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.operators.declaration import OWN_WINDOW, Declaration, Example, Flow, Parameter
from synergy_nb.plan.operators.parameter_types import CALLS, CONDITION, NAME, POSITIVE, WINDOW, columns
from synergy_nb.plan.operators.schemas import UNKNOWN, Derivation, Schema, grouping_columns, is_windowed, own_window
from synergy_nb.plan.sql import sql

__all__ = ["AGGREGATE", "COUNT"]


def _aggregate(it: Derivation) -> Schema:
    columns = grouping_columns(it)
    texts: dict[str, str] = {}
    for name, text in it.params.get("values", {}).items():
        if name in columns:
            it.wrong(f"values.{name}", name, "a name that is not in 'by'")
        found = it.expression(f"values.{name}", text, aggregate=True)
        if found is not None:
            texts[name], columns[name] = found
            if columns[name] == "null":
                it.wrong(f"values.{name}", text, "a value with a type, such as CAST(NULL AS int)")
            elif "half_life" in it.params:
                left, calls = sql.calls(sql.parse(texts[name], it.input, aggregate=True))
                columns[name] = sql.infer_type(left, sql.call_types(calls, it.input, half_life=True))
        elif name not in columns:
            columns[name] = UNKNOWN
    it.rewrite("values", texts)
    if "window" in it.params:
        it.window = it.params["window"]
    elif not is_windowed(it.input) and "window" not in it.faulty:
        it.wrong("window", None, "a window such as '20 min': its input has none")
    schema = it.output("values", columns, windowed=True)
    if "having" in it.params and UNKNOWN not in columns.values():
        found = it.expression("having", it.params["having"], schema=schema)
        if found is not None:
            it.params["having"] = found[0]
            if found[1] not in ("bool", "null"):
                it.wrong("having", found[0], f"a condition, not {found[1]}")
    return schema


_OF_ORDER: Final = re.compile(rf"\b({'|'.join(sql.OF_ORDER)})\(")


def _needs_no_order(params: Mapping[str, Any]) -> str:
    if any(map(_OF_ORDER.search, params.get("values", {}).values())):  # also within a literal: then it sorts in vain
        return ""
    return "the result of a window does not depend on the order of its tuples; replicas add floats exactly"


def _groups(params: Mapping[str, Any], flow: Flow) -> float:
    groups = flow.consumed * AGGREGATE.selectivity
    window = params.get("window") or {}
    return groups * float(window["length"]) / float(window["slide"]) if window.get("kind") == "sliding" else groups


AGGREGATE: Final = Declaration(
    kind="aggregate",
    help="Computes aggregates of each group of each window, as one tuple.",
    note="**Group columns are in alphabetical order** in the result: here `destination`, then `source`. The order of "
    "`by` does not change the groups, and [equal work has equal names](#names-of-streams): if it changed the columns, "
    "two people who group by the same columns could not share a stream. The same holds for `on` of a join. A `project` "
    "after it puts the columns in any order.",
    python=(
        'sums = packets.aggregate(by=["source", "destination"], window="20 min", total="sum(bytes)")',
        'recent = packets.aggregate(window="1 min every 10 s", load="sum(bytes)", half_life="5 s")',
        'busy = packets.aggregate("source", "10 s", n="count(*)", mean="sum(bytes) / count(*)", having="n > 10")',
    ),
    yaml=(
        (
            "sums: {kind: aggregate, input: packets, by: [source, destination], window: 20 min, "
            "values: {total: sum(bytes)}}"
        ),
        (
            "recent: {kind: aggregate, input: packets, window: 1 min every 10 s, values: {load: sum(bytes)}, "
            "half_life: 5 s}"
        ),
        "busy: {kind: aggregate, input: packets, by: [source], window: 10 s, values: {n: count(*)}, having: n > 10}",
    ),
    example=Example(lambda packets, _: packets.aggregate(by="source", window="1 s", n="sum(bytes)")),
    parameters={
        "by": Parameter(columns(0), "columns to group by", [], "none: one group"),
        "window": Parameter(
            WINDOW,
            "`20 min`, `20 min every 5 min`, `2 min gap` or `1000 rows`: see [windows](#windows)",
            None,
            "those of the input, which then needs windows",
            leads=True,
        ),
        "values": Parameter(
            CALLS,
            "new columns, each an expression over [aggregate calls](#aggregate-calls), such as `sum(bytes)` or "
            "`sum(bytes) / count(*)`",
            spelling="values",
        ),
        "half_life": Parameter(
            POSITIVE,
            "time after which a tuple counts half in `sum`, `count` and `avg`: one of age a, by the time of the "
            "result, counts 0.5 ^ (a / `half_life`). Sums and counts are then floats",
            None,
            "none: all tuples of a window have the same weight",
            spelling="keyword",
        ),
        "having": Parameter(
            CONDITION,
            "a condition in [SQL](#expressions) on the columns of the result, such as `n > 10`: other groups have no "
            "result, as with a `filter` behind it, which has the same stream",
            None,
            "all groups",
            spelling="keyword",
        ),
    },
    columns=_aggregate,
    shaping=frozenset({"by", "values", "half_life"}),
    cost=2e-6,
    selectivity=0.1,
    output_rate=_groups,
    guessed=True,
    keys="by",
    state="groups",
    waits=True,
    uses=lambda params: [*map(sql.quoted, params["by"]), *params["values"].values()],
    needs_order="only for `first`, `last` and `string_agg`, which take the tuples in their order",
    needs_no_order=_needs_no_order,
    remedy="shorten its window, or group by columns with fewer values",
    brief=lambda params: ", ".join(params["values"].values()),
    off_spark="",
)


def _count(it: Derivation) -> Schema:
    own_window(it)
    return it.output("name", {it.params["name"]: "int"} if "name" in it.params else {}, windowed=True)


COUNT: Final = Declaration(
    kind="count",
    help="Counts the tuples of each window; the result is one tuple.",
    python=('pairs_seen = sums.count("pairs")',),
    yaml=("pairs_seen: {kind: count, input: sums, name: pairs}",),
    example=Example(lambda packets, _: packets.count(window="1 s")),
    parameters={"name": Parameter(NAME, "name of the column with the count", "n"), "window": OWN_WINDOW},
    columns=_count,
    shaping=frozenset({"name"}),
    cost=5e-7,
    output_rate=lambda _, flow: min(flow.windows, flow.consumed),
    state="groups",
    waits=True,
    uses=lambda _: [],
    agrees="the number of a window's tuples does not depend on their order",
    remedy="shorten its window",
    brief=lambda params: str(params["name"]),
    off_spark="",
)
