"""Operators that process all tuples of a window together: sort, compare, distinct, top, percentile, over."""

from __future__ import annotations

from typing import Any, Final

from synergy_nb.plan.operators.declaration import OWN_WINDOW, Declaration, Example, Parameter
from synergy_nb.plan.operators.parameter_types import COLUMN, FRACTION, NAME, ORDER, OVER_VALUES, columns, integer
from synergy_nb.plan.operators.schemas import (
    IMPLICIT,
    ORDERED,
    UNKNOWN,
    Derivation,
    Schema,
    equal_windows,
    grouping_columns,
    is_windowed,
    own_window,
    with_windows,
)
from synergy_nb.plan.sql.sql import quoted
from synergy_nb.plan.terms.units import format_fraction

__all__ = ["COMPARE", "DISTINCT", "OVER", "PERCENTILE", "SORT", "TOP"]


def _sort(it: Derivation) -> Schema:
    own_window(it)
    for key in it.params.get("by", ()):
        name = key.removesuffix(" desc") if key not in it.input else key
        it.column("by", name, it.input)
    return with_windows(it)


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
    waits=True,
    retains_all=True,
    agrees="the tuples of a window are the same in any order of arrival, and so is their order then",
    remedy="shorten its window, or aggregate before it",
    brief=lambda params: ", ".join(params["by"]),
    off_spark="",
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
    help="Selects the tuples whose column `value` is larger than that of more than `fraction` of all tuples of their "
    "window. The input must have windows; its order is preserved. A second input, in Python `count=`, may be a count "
    "of the same windows, so that they need not be counted again.",
    python=('top = sums.compare("total", "95 %")',),
    yaml=("top: {kind: compare, input: sums, value: total, fraction: 95 %}",),
    example=Example(lambda packets, _: _counted(packets)),
    inputs=(1, 2),
    ports=("count",),
    parameters={
        "value": Parameter(COLUMN, "a column of type int, float, str or time"),
        "fraction": Parameter(FRACTION, "share of the tuples of the window: `95 %` or 0.95"),
        "by": Parameter(
            columns(0),
            "columns that form groups: tuples with equal values are compared; not together with a count",
            [],
            "none: the whole window",
            spelling="keyword",
        ),
    },
    columns=_compare,
    cost=2e-6,
    output_rate=lambda params, flow: flow.first * (1 - float(params["fraction"])),
    state="tuples",
    waits=True,
    preserves_order=True,
    agrees="which tuples of a window it selects does not depend on their order",
    remedy="shorten the window of its input",
    brief=lambda params: f"{params['value']} over {format_fraction(params['fraction'])}",
    off_spark="",
)


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
    help="Selects the first tuple of each window for each combination of values of some columns.",
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
    keys="on",
    state="groups",
    waits=True,
    preserves_order=True,
    needs_order="it selects the first of the tuples with equal values",
    needs_no_order=lambda params: "" if params.get("on") else "the tuples from which it selects one are equal",
    remedy="shorten its window, or compare fewer columns",
    brief=lambda params: "on " + ", ".join(params["on"]) if params.get("on") else "",
    off_spark="",
)


def _top(it: Derivation) -> Schema:
    for name in it.params.get("per", ()):
        it.column("per", name, it.input)
    return _sort(it)


TOP: Final = Declaration(
    kind="top",
    help="Selects the first `k` tuples of each window in the order of some columns; the remaining columns break ties.",
    python=('busiest = sums.top(10, "total desc")', 'busiest_by_source = sums.top(1, "total desc", per="source")'),
    yaml=(
        "busiest: {kind: top, input: sums, k: 10, by: [total desc]}",
        "busiest_by_source: {kind: top, input: sums, k: 1, by: [total desc], per: [source]}",
    ),
    example=Example(
        lambda packets, _: packets.top(2, "bytes desc", per="link", window="10 s every 5 s"),
        "SELECT e - INTERVAL 1 MICROSECOND AS time, s, e, in0.* EXCLUDE (time, pos) FROM in0 JOIN w ON time >= s AND "
        "time < e QUALIFY row_number() OVER (PARTITION BY e, link ORDER BY bytes DESC NULLS LAST, source, port NULLS "
        "LAST, weight NULLS LAST, ok NULLS LAST, pos) <= 2 ORDER BY e, bytes DESC NULLS LAST, link NULLS LAST, source, "
        "port NULLS LAST, weight NULLS LAST, ok NULLS LAST",
        (10, 5),
    ),
    parameters={
        "k": Parameter(integer(1), "number of tuples to select"),
        "by": Parameter(ORDER, "columns, each alone (ascending) or with `desc`", spelling="many"),
        "per": Parameter(
            columns(0),
            "columns that form groups: `k` tuples are selected for each combination of their values",
            [],
            "none: `k` tuples of the whole window",
            spelling="keyword",
        ),
        "window": OWN_WINDOW,
    },
    columns=_top,
    cost=2e-6,
    output_rate=lambda params, flow: min(flow.consumed, flow.windows * params["k"]),
    state="tuples",
    waits=True,
    agrees="the tuples of a window are the same in any order of arrival, and so is their order then",
    remedy="shorten its window, or aggregate before it",
    brief=lambda params: f"{params['k']} by {', '.join(params['by'])}",
    off_spark="",
)


def _percentile(it: Derivation) -> Schema:
    own_window(it)
    columns = grouping_columns(it)
    value = it.params.get("value")
    if value is not None and it.column("value", value, it.input, ORDERED) and "name" in it.params:
        if it.params["name"] in columns:
            it.wrong("name", it.params["name"], "a name that is not in 'by'")
        columns[it.params["name"]] = it.input[value]
    return it.output("name", columns, windowed=True)


PERCENTILE: Final = Declaration(
    kind="percentile",
    help="Computes a percentile of each window, or of each group within it, as one tuple: the least value that is not "
    "exceeded by `fraction` of the values. It is one of the values, like `quantile_disc` in SQL; it ignores NULLs.",
    python=('p95 = packets.percentile("bytes", "95 %", by="link", window="1 min")',),
    yaml=("p95: {kind: percentile, input: packets, value: bytes, fraction: 95 %, by: [link], window: 1 min}",),
    example=Example(
        lambda packets, _: packets.percentile("bytes", "60 %", by="link", window="10 s"),
        "SELECT e - INTERVAL 1 MICROSECOND AS time, s, e, link, (list(bytes ORDER BY bytes) FILTER (bytes IS NOT NULL))"
        "[greatest(ceil(0.6::DOUBLE * count(bytes)), 1)::BIGINT] FROM in0 JOIN w ON time >= s AND time < e "
        "GROUP BY s, e, link ORDER BY e, link NULLS LAST",
        (10, 10),
    ),
    parameters={
        "value": Parameter(COLUMN, "a column of type int, float, str or time"),
        "fraction": Parameter(FRACTION, "share of the values: `95 %` or 0.95; 50 % is the median"),
        "by": Parameter(columns(0), "columns to group by", [], "none: one group", spelling="keyword"),
        "name": Parameter(NAME, "column of the percentile", "percentile", spelling="keyword"),
        "window": OWN_WINDOW._replace(spelling="keyword"),
    },
    columns=_percentile,
    shaping=frozenset({"value", "by", "name"}),
    cost=2e-6,
    selectivity=0.1,
    guessed=True,
    keys="by",
    state="tuples",
    waits=True,
    uses=lambda params: map(quoted, [params["value"], *params["by"]]),
    agrees="the values of a window are the same in any order of arrival",
    remedy="shorten its window",
    brief=lambda params: f"{format_fraction(params['fraction'])} of {params['value']}",
    off_spark="",
)


def _over(it: Derivation) -> Schema:
    own_window(it)
    for name in it.params.get("by", ()):
        if name in IMPLICIT:
            it.wrong("by", name, "a column other than time and the bounds of windows, which group by themselves")
        else:
            it.column("by", name, it.input)
    for key in it.params.get("order", ()):
        it.column("order", key.removesuffix(" desc") if key not in it.input else key, it.input, ORDERED)
    columns = {name: kind for name, kind in it.input.items() if name not in IMPLICIT}
    texts: dict[str, str] = {}
    for name, text in it.params.get("values", {}).items():
        if name in columns:
            it.wrong(f"values.{name}", name, "a name that no column of the input has")
        found = it.expression(f"values.{name}", text, over=True)
        if found is None:
            columns.setdefault(name, UNKNOWN)
            continue
        texts[name], columns[name] = found
        if found[1] == "null":
            it.wrong(f"values.{name}", text, "a value with a type, such as CAST(NULL AS int)")
    it.rewrite("values", texts)
    return it.output("values", columns, windowed=True)


OVER: Final = Declaration(
    kind="over",
    help="Adds columns to the tuples of each window that are computed over the tuples of their key in order: the value "
    "before, differences, running totals, numbers and ranks. As window functions of SQL with `PARTITION BY` the key.",
    note="A value begins anew in each window, and so does the memory that it needs. `time` in a value is that of the "
    "tuple, as in `at` below; that of the result is the end of its window.",
    python=(
        'flows = packets.over("source", "1 min", total="sum(bytes)", sent="time", more="bytes - lag(bytes)")',
        'ranks = packets.over("link", "1 min", order="bytes desc", place="rank()")',
    ),
    yaml=(
        "flows: {kind: over, input: packets, by: [source], window: 1 min, values: {more: bytes - lag(bytes)}}",
        "ranks: {kind: over, input: packets, by: [link], window: 1 min, order: [bytes desc], values: {place: rank()}}",
    ),
    example=Example(
        lambda packets, _: packets.over(
            "link",
            "10 s every 5 s",
            before="lag(bytes)",
            total="sum(bytes)",
            n="row_number()",
            delta="bytes - lag(bytes)",
        ),
        "SELECT e - INTERVAL 1 MICROSECOND AS time, s, e, in0.* EXCLUDE (time, pos), lag(bytes) OVER k, "
        "(sum(bytes) OVER (k ROWS UNBOUNDED PRECEDING))::BIGINT, row_number() OVER k, bytes - lag(bytes) OVER k "
        "FROM in0 JOIN w ON time >= s AND time < e WINDOW k AS (PARTITION BY e, link ORDER BY in0.time, pos) "
        "ORDER BY e, in0.time, pos",
        (10, 5),
    ),
    parameters={
        "by": Parameter(columns(0), "columns of the key", [], "none: all tuples of the window have one key"),
        "window": OWN_WINDOW,
        "order": Parameter(
            ORDER,
            "columns, each alone (ascending) or with `desc`, in whose order the tuples of a key are; event time and "
            "arrival break ties",
            None,
            "event time, then arrival",
            spelling="keyword",
        ),
        "values": Parameter(
            OVER_VALUES,
            "new columns, each an expression of columns and of [calls on tuples in order]"
            "(#calls-on-tuples-in-order), "
            "such as `bytes - lag(bytes)`",
            spelling="values",
        ),
    },
    columns=_over,
    shaping=frozenset({"by", "order", "values"}),
    cost=3e-6,
    state="tuples",
    waits=True,
    retains_all=True,
    needs_order="tuples of equal times are in the order of arrival",
    remedy="shorten its window, or filter before it",
    brief=lambda params: ", ".join(params["values"].values()),
    off_spark="",
)
