"""Operators with several inputs: union, join, asof."""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.operators.declaration import Declaration, Example, Parameter
from synergy_nb.plan.operators.parameter_types import DURATION, NAME, choice, columns
from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS, Derivation, Schema, equal_windows, is_windowed

__all__ = ["ASOF", "JOIN", "UNION"]


def _union(it: Derivation) -> Schema:
    first, *others = [list(schema.items()) for schema in it.inputs if schema is not None]
    for other in others:
        if other != first:
            written = ", ".join(f"{name} {kind}" for name, kind in other)
            wanted = ", ".join(f"{name} {kind}" for name, kind in first)
            it.wrong("inputs", written, f"the columns of the first input in their order ({wanted})")
    equal_windows(it)
    return dict(first)


UNION: Final = Declaration(
    kind="union",
    help="Merges two or more streams with the same columns in the same order, and equal windows.",
    python=('all = pairs.union(packets.filter("link = \'A\'").project("source", "destination", kB="0.5"))',),
    yaml=("all: {kind: union, inputs: [pairs, others]}",),
    example=Example(lambda packets, others: packets.union(others)),
    inputs=(2, None),
    ports=("others",),
    columns=_union,
    shaping=frozenset({"inputs"}),
    cost=5e-7,
    commutative=True,
    agrees="it passes each tuple on; only the order depends on how the inputs interleave",
    off_spark="",
)


def _join(it: Derivation) -> Schema:
    left, right = (dict(schema or {}) for schema in it.inputs)
    on = it.params.get("on", ())
    suffix = it.params.get("suffix", "")
    for name in on:
        if name == "time":
            it.wrong("on", name, "columns other than time, which 'within' compares")
        elif it.column("on", name, left) and it.column("on", name, right) and left[name] != right[name]:
            it.wrong("on", name, f"a column of equal type on both sides, not {left[name]} and {right[name]}")
    windowed = set(WINDOW_COLUMNS) <= set(on)
    if not windowed:
        it.window = None
    columns = {name: left[name] for name in on if name in left and name not in IMPLICIT}
    columns.update({name: kind for name, kind in left.items() if name not in IMPLICIT})
    if it.params.get("how") == "anti":
        return it.output("on", columns, windowed=windowed)
    for name, kind in right.items():
        if name in IMPLICIT or name in on:
            continue
        taken = {column.casefold() for column in columns}
        written = name if name.casefold() not in taken else name + suffix
        if written.casefold() in taken and "suffix" in it.params:
            it.wrong("suffix", suffix, f"a suffix that makes {name} unlike all columns of the left input")
        columns[written] = kind
    return it.output("suffix", columns, windowed=windowed)


JOIN: Final = Declaration(
    kind="join",
    help="Pairs tuples of two streams with equal columns and close times; `time` is the later one. Only a join on "
    "`window_start` and `window_end` preserves windows.",
    python=(
        "asked = packets.filter(\"link = 'A'\")",
        "answered = packets.filter(\"link = 'B'\")",
        'replies = asked.join(answered, on="source", within="2 s")',
        'unanswered = asked.join(answered, on="source", within="2 s", how="anti")',
    ),
    yaml=(
        "replies: {kind: join, inputs: [asked, answered], on: [source], within: 2 s}",
        "unanswered: {kind: join, inputs: [asked, answered], on: [source], within: 2 s, how: anti}",
    ),
    example=Example(lambda packets, others: packets.join(others, on="source", within="1 s")),
    inputs=(2, 2),
    ports=("other",),
    parameters={
        "on": Parameter(columns(1), "columns with equal values on both sides"),
        "within": Parameter(
            DURATION, "largest difference between the times of a pair; a difference of exactly that is one, too: `5 s`"
        ),
        "suffix": Parameter(NAME, "suffix of a right column whose name a left column has", "_right"),
        "how": Parameter(
            choice("inner", "left", "anti"),
            "`inner`: pairs; `left`: also the left tuples without a partner, with NULL in the columns of the right; "
            "`anti`: only these left tuples. The `time` of a tuple without a partner is later by `within`: the last "
            "time of a possible partner",
            "inner",
            spelling="keyword",
        ),
    },
    columns=_join,
    shaping=frozenset({"on", "suffix", "how"}),
    cost=4e-6,
    guessed=True,
    state="tuples",
    span=lambda params: float(params["within"]),
    product=True,
    agrees="the times and columns of two tuples alone decide whether they are a pair",
    remedy="shorten the span within which tuples are joined, or filter its inputs",
    brief=lambda params: "on " + ", ".join(params["on"]),
    off_spark="",
)


def _asof(it: Derivation) -> Schema:
    left, right = (dict(schema or {}) for schema in it.inputs)
    on, suffix = it.params.get("on", ()), it.params.get("suffix", "")
    for name in on:
        if name in IMPLICIT:
            it.wrong("on", name, "columns other than time and the bounds of windows")
        elif it.column("on", name, left) and it.column("on", name, right) and left[name] != right[name]:
            it.wrong("on", name, f"a column of equal type on both sides, not {left[name]} and {right[name]}")
    columns = {name: kind for name, kind in left.items() if name not in IMPLICIT}
    for name, kind in right.items():
        if name in IMPLICIT or name in on:
            continue
        taken = {column.casefold() for column in columns}
        written = name if name.casefold() not in taken else name + suffix
        if written.casefold() in taken and "suffix" in it.params:
            it.wrong("suffix", suffix, f"a suffix that makes {name} unlike all columns of the left input")
        columns[written] = kind
    return it.output("suffix", columns, windowed=is_windowed(left))


ASOF: Final = Declaration(
    kind="asof",
    help="Pairs each tuple with the latest tuple of another stream that has equal columns, at its `time`. It waits "
    "until the other stream has promised that none of this time will follow.",
    note="Of several tuples of the other stream with equal columns and times that is the latest whose further columns "
    "are the greatest, one after another. For a table use [lookup](#lookup).",
    python=(
        "prices = packets.filter(\"link = 'A'\")",
        'priced = packets.filter("link = \'B\'").asof(prices, on="source", within="1 min", how="left")',
    ),
    yaml=("priced: {kind: asof, inputs: [orders, prices], on: [source], within: 1 min, how: left}",),
    example=Example(lambda packets, others: packets.asof(others, on="source", within="1 s", how="left")),
    inputs=(2, 2),
    ports=("other",),
    parameters={
        "on": Parameter(columns(1), "columns with equal values on both sides"),
        "within": Parameter(DURATION, "largest age of the other tuple at the time of the tuple: `1 min`"),
        "suffix": Parameter(NAME, "suffix of a right column whose name a left column has", "_right"),
        "how": Parameter(
            choice("inner", "left"),
            "`inner`: only tuples that have another one; `left`: all tuples, with NULL in the columns of the right",
            "inner",
            spelling="keyword",
        ),
    },
    columns=_asof,
    shaping=frozenset({"on", "suffix"}),
    cost=4e-6,
    output_rate=lambda _, flow: flow.first,
    guessed=True,
    state="tuples",
    span=lambda _: 0.0,  # it keeps the latest tuple of each key, however long the span is
    agrees="the times and columns of the tuples alone decide which one is the latest",
    remedy="shorten the age that the other tuple may have, or filter its inputs",
    brief=lambda params: "on " + ", ".join(params["on"]),
    off_spark="Spark has no join with the latest row of another stream",
)
