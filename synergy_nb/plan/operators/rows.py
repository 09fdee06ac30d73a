"""Operators that process one tuple at a time: filter, project, unnest, sample, delay."""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.operators.declaration import Declaration, Example, Parameter
from synergy_nb.plan.operators.parameter_types import COLUMN, CONDITION, DURATION, EXPRESSIONS, FRACTION, NAME, integer
from synergy_nb.plan.operators.schemas import IMPLICIT, UNKNOWN, Derivation, Schema, is_windowed
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import element_of, family, fields_of
from synergy_nb.plan.terms.units import format_fraction

__all__ = ["DELAY", "FILTER", "PROJECT", "SAMPLE", "UNNEST"]


def _filter(it: Derivation) -> Schema:
    found = it.expression("where", it.params["where"]) if "where" in it.params else None
    if found is not None:
        it.params["where"], kind = found
        if kind not in ("bool", "null"):
            it.wrong("where", it.params["where"], f"a condition, not {kind}")
    return dict(it.input)


FILTER: Final = Declaration(
    kind="filter",
    help="Selects the tuples for which `where` is true (so not those for which it is NULL).",
    python=("large = packets.filter(\"bytes > 1000 AND link = 'B'\")",),
    yaml=("large: {kind: filter, input: packets, where: bytes > 1000 AND link = 'B'}",),
    # the reference of calibrations: a query, as the columns alone decide "bytes > 0" in a third of the time
    example=Example(lambda packets, _: packets.filter("bytes + 1 > 0")),
    parameters={"where": Parameter(CONDITION, "a condition in [SQL](#expressions)")},
    columns=_filter,
    selectivity=0.5,
    guessed=True,
    bare="where",
    preserves_order=True,
    agrees="it processes each tuple alone",
    brief=lambda params: str(params["where"]),
    off_spark="",
)


def _project(it: Derivation) -> Schema:
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, text in it.params.get("columns", {}).items():
        found = it.expression(f"columns.{name}", text)
        if found is None:
            kinds[name] = UNKNOWN
            continue
        texts[name], kinds[name] = found
        if kinds[name] == "null":
            it.wrong(f"columns.{name}", text, "a value with a type, such as CAST(NULL AS int)")
    it.rewrite("columns", texts)
    return it.output("columns", kinds, windowed=is_windowed(it.input))


PROJECT: Final = Declaration(
    kind="project",
    help="Computes new columns. Other columns are dropped, except `time` and the bounds of windows, which "
    "every stream has without stating them.",
    python=('pairs = packets.project("source", "destination", kB="bytes / 1000")',),
    yaml=(
        "pairs: {kind: project, input: packets, columns: {source: source, destination: destination, kB: bytes / 1000}}",
    ),
    example=Example(lambda packets, _: packets.project("source", bytes="bytes")),
    parameters={
        "columns": Parameter(
            EXPRESSIONS,
            "new columns, each with its expression in [SQL](#expressions); a list of names selects these columns",
            spelling="columns",
        )
    },
    columns=_project,
    shaping=frozenset({"columns"}),
    retains_all=True,
    preserves_order=True,
    agrees="it processes each tuple alone",
    brief=lambda params: ", ".join(params["columns"]),
    off_spark="",
)


def _unnest(it: Derivation) -> Schema:
    name = it.params.get("column")
    if name is None or not it.column("column", name, it.input, ("list", "struct")):
        return dict(it.input)
    columns: dict[str, str] = {}
    for column, kind in it.input.items():
        if column in IMPLICIT:
            continue
        parts = {column: kind}
        if column == name:
            parts = {column: element_of(kind)} if family(kind) == "list" else dict(fields_of(kind))
        for part in parts.keys() & columns.keys():
            it.wrong("column", name, f"a struct whose fields have other names than columns: {part} is both")
        columns |= parts
    return it.output("column", columns, windowed=is_windowed(it.input))


UNNEST: Final = Declaration(
    kind="unnest",
    help="Takes a column of lists or structs apart. Each element of a list becomes a tuple, with the other columns as "
    "they are; a tuple whose list is empty or NULL has none. The fields of a struct become columns in its place; those "
    "of a NULL are NULL.",
    note="Of a list of structs, `unnest` twice makes a tuple of each struct, with its fields as columns. Single parts "
    "are [expressions](#lists-and-structs): `items[1]`, `place.city`.",
    python=('items = source("python", name="orders", columns={"items": "str[]"}).unnest("items")',),
    yaml=("items: {kind: unnest, input: orders, column: items}",),
    parameters={"column": Parameter(COLUMN, "a column of lists or structs")},
    columns=_unnest,
    shaping=frozenset({"column"}),
    selectivity=2.0,
    guessed=True,
    bare="column",
    preserves_order=True,
    agrees="it processes each tuple alone",
    uses=lambda params: [sql.quoted(params["column"])],
    brief=lambda params: str(params["column"]),
    off_spark="lists and structs stay on peers",
)

SAMPLE: Final = Declaration(
    kind="sample",
    help="Selects about a fraction of the tuples by their position: the same stream has the same sample on every peer.",
    python=('some = packets.sample("10 %", seed=7)',),
    yaml=("some: {kind: sample, input: packets, fraction: 10 %, seed: 7}",),
    example=Example(lambda packets, _: packets.sample(0.999)),
    parameters={
        "fraction": Parameter(FRACTION, "share of the tuples to select: `10 %` or 0.1"),
        "seed": Parameter(integer(0), "seed of the selection", 0),
    },
    output_rate=lambda params, flow: flow.consumed * float(params["fraction"]),
    preserves_order=True,
    needs_order="it selects tuples by their positions",
    needs_no_order=lambda params: "it selects all tuples" if float(params["fraction"]) >= 1.0 else "",
    brief=lambda params: format_fraction(params["fraction"]),
    off_spark="",
)

DELAY: Final = Declaration(
    kind="delay",
    help="Spends processing time on every tuple and passes it on unchanged, for experiments.",
    python=('slow = packets.delay("10 us")', 'own = packets.delay("10 us", component="c17")'),
    yaml=(
        "slow: {kind: delay, input: packets, cost: 10 us}",
        "own: {kind: delay, input: packets, cost: 10 us, component: c17}",
    ),
    example=Example(lambda packets, _: packets.delay("1 us")),
    parameters={
        "cost": Parameter(DURATION, "processing time per tuple: `10 us`"),
        "component": Parameter(
            NAME,
            "name of one of several components with different work: only peers that offer the component `delay:` and "
            "this name execute it, and its stream differs from those of other names",
            None,
            "any peer",
        ),
    },
    cost_from="cost",
    component="component",
    retains_all=True,
    agrees="it passes each tuple on",
    off_spark="its purpose is load on a peer",
)
