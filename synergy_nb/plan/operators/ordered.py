"""Operators that see all tuples of a window at once: sort, compare, distinct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.declaration import OWN_WINDOW, Declaration, Example, Parameter
from synergy_nb.plan.schemas import (
    IMPLICIT,
    ORDERED,
    Derivation,
    Schema,
    equal_windows,
    is_windowed,
    own_window,
    with_windows,
)
from synergy_nb.plan.units import format_fraction
from synergy_nb.plan.values import COLUMN, FRACTION, ORDER, columns

__all__ = ["COMPARE", "DISTINCT", "SORT"]


def _sort(it: Derivation) -> Schema:
    own_window(it)
    for key in it.params.get("by", ()):
        name = key.removesuffix(" desc") if key not in it.input else key
        it.column("by", name, it.input)
    return with_windows(it)


def _window_length(params: Mapping[str, Any]) -> float:
    return float((params.get("window") or {}).get("length", 0.0))


SORT: Final = Declaration(
    kind="sort",
    help="Orders the tuples of each window; the remaining columns break ties.",
    python=('ranked = sums.sort("total desc", "source")',),
    yaml=("ranked: {kind: sort, input: sums, by: [total desc, source]}",),
    example=Example(lambda packets, _: packets.sort("bytes", window="1 s")),
    parameters={
        "by": Parameter(ORDER, "columns, each alone (ascending) or with `desc`", spelling="many"),
        "window": OWN_WINDOW,
    },
    columns=_sort,
    cost=2e-6,
    state="tuples",
    span=_window_length,
    waits=True,
    keeps_all=True,
    agrees="the tuples of a window are the same in any order of arrival, and so is their order then",
    remedy="shorten its window, or aggregate before it",
    brief=lambda params: ", ".join(params["by"]),
)


def _compare(it: Derivation) -> Schema:
    by = it.params.get("by", ())
    if "value" in it.params:
        it.column("value", it.params["value"], it.input, ORDERED)
    for name in by:
        it.column("by", name, it.input)
    if not is_windowed(it.input):
        it.wrong("inputs", "an input without windows", "an input with windows, such as that of aggregate or sort")
    if len(it.inputs) == 2:
        if by:
            it.wrong("by", by, "no columns: a count gives the rows of the whole window")
        counts = dict(it.inputs[1] or {})
        counted = [name for name in counts if name not in IMPLICIT]
        if not is_windowed(counts) or [counts[name] for name in counted] != ["int"]:
            it.wrong("inputs", ", ".join(counts), "a count (time, window_start, window_end and one int) as input 2")
        else:
            equal_windows(it)
    return dict(it.input)


COMPARE: Final = Declaration(
    kind="compare",
    help="Keeps the tuples whose column `value` is larger than that of more than `fraction` of all tuples of their window. "
    "The input must have windows; its order is kept. A second input, in Python `count=`, may be a count of the same "
    "windows, so that they need not be counted again.",
    python=('top = sums.compare("total", "95 %")',),
    yaml=("top: {kind: compare, input: sums, value: total, fraction: 95 %}",),
    example=Example(lambda packets, _: _counted(packets)),
    inputs=(1, 2),
    ports=("count",),
    parameters={
        "value": Parameter(COLUMN, "a column of type int, float, str or time"),
        "fraction": Parameter(FRACTION, "`95 %` or 0.95"),
        "by": Parameter(
            columns(0),
            "compare within groups of equal values of these columns; not beside a count",
            [],
            "none: the whole window",
            spelling="keyword",
        ),
    },
    columns=_compare,
    cost=2e-6,
    given=lambda params, flow: flow.first * (1 - float(params["fraction"])),
    state="tuples",
    waits=True,
    keeps_order=True,
    agrees="which tuples of a window stay does not depend on their order",
    remedy="shorten the window of its input",
    brief=lambda params: f"{params['value']} over {format_fraction(params['fraction'])}",
)  # fmt: skip


def _counted(packets: Any) -> Any:
    sums = packets.aggregate(by="source", window="1 s", n="sum(bytes)")
    return sums.compare("n", 0.4, count=sums.count())


def _distinct(it: Derivation) -> Schema:
    own_window(it)
    for name in it.params.get("on", ()):
        it.column("on", name, it.input)
    return with_windows(it)


DISTINCT: Final = Declaration(
    kind="distinct",
    help="The first tuple of each window for each combination of values of some columns.",
    python=('hosts = packets.distinct("source", window="1 min")',),
    yaml=("hosts: {kind: distinct, input: packets, on: [source], window: 1 min}",),
    example=Example(
        lambda packets, _: packets.distinct("source", window="10 s"),
        "SELECT e - INTERVAL 1 MICROSECOND AS time, s, e, in0.* EXCLUDE (time, pos) FROM in0 JOIN w ON time >= s AND "
        "time < e QUALIFY row_number() OVER (PARTITION BY e, source ORDER BY pos) = 1 ORDER BY e, pos",
        (10, 10),
    ),
    parameters={
        "on": Parameter(columns(1), "columns whose values are compared", None, "all but time", spelling="many"),
        "window": OWN_WINDOW,
    },
    columns=_distinct,
    cost=2e-6,
    selectivity=0.5,
    guessed=True,
    state="tuples",
    waits=True,
    keeps_order=True,
    needs_order="of tuples that are alike, the first one stays",
    remedy="shorten its window, or compare fewer columns",
    brief=lambda params: "on " + ", ".join(params["on"]) if params.get("on") else "",
)
