"""Operators that execute functions of one's own: apply, apply_windows, apply_keyed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.operators.declaration import OWN_WINDOW, Declaration, Parameter
from synergy_nb.plan.operators.parameter_types import COLUMN_TYPES, FLAG, POSITIVE, SIZE, ValueType, choice, columns
from synergy_nb.plan.operators.schemas import IMPLICIT, Derivation, Schema, grouping_columns, is_windowed, own_window
from synergy_nb.plan.terms.function_references import name_of, parse_reference

__all__ = ["APPLY", "APPLY_KEYED", "APPLY_WINDOWS", "ERROR", "FUNCTION", "FUNCTION_MEMORY", "MEMORY", "TIMEOUT"]

#: Column with the reason why the function has failed for a row.
ERROR: Final = "error"
#: Most memory of the process of a function that states none, bytes.
FUNCTION_MEMORY: Final = 1e9
FUNCTION: Final = Parameter(
    ValueType("function", parse_reference, annotation="Any"),
    "function, as its decorator returns it; in a file `package.module:name`, installed at the peers",
)
_NEEDS: Final = Parameter(
    columns(1), "columns of the input that it gets, beside `time`; fewer are faster", None,
    "as its declaration says, or else all", spelling="keyword",
)  # fmt: skip
TIMEOUT: Final = Parameter(
    POSITIVE, "longest time of one call; then the application fails", 60.0, named=False, spelling="keyword"
)
MEMORY: Final = Parameter(
    SIZE,
    "most memory of its process, beside that of the platform; it is part of the memory of the operator",
    None,
    named=False,
    absent="1 GB, or what the operator may use if that is less",
    spelling="keyword",
)
_OWN: Final[Mapping[str, Any]] = {
    "component": "function",
    "shipped": True,
    "shaping": frozenset({"columns", "by", "key", "keep", "errors"}),
    "guessed": True,
    "remedy": "let its function use less",
    "brief": lambda params: name_of(params["function"]),
}


def _new(it: Derivation, before: Mapping[str, str]) -> dict[str, str]:
    """Columns that the function makes, after others."""
    made = dict(before)
    for name in it.params.get("needs", ()):
        it.column("needs", name, it.input, None)
    if "columns" not in it.params and "columns" not in it.faulty:
        it.wrong("columns", None, "the columns that the function returns, with their types")
    for name, kind in it.params.get("columns", {}).items():
        if name in before:
            it.wrong("columns", name, "a column that the stream does not have without the function")
        made[name] = kind
    return made


def _apply(it: Derivation) -> Schema:
    kept = {name: kind for name, kind in it.input.items() if name not in IMPLICIT} if it.params.get("keep") else {}
    made = _new(it, kept)
    if it.params.get("errors") == "keep":
        if ERROR in made:
            it.wrong("errors", "keep", f"columns without {ERROR!r}, which has the reason of each row that failed")
        made[ERROR] = "str"
    return it.output("columns", made, windowed=is_windowed(it.input))


APPLY: Final = Declaration(
    kind="apply",
    help="Applies a function of your own to batches of tuples, or a coroutine function to each tuple.",
    note="The function runs in a process of its own at the peer. `@function` declares it; see [functions of your own]"
    "(functions.md).",
    python=('scored = packets.apply("fares.models:score", columns={"score": "float"})',),
    yaml=("scored: {kind: apply, input: packets, function: 'fares.models:score', columns: {score: float}}",),
    parameters={
        "function": FUNCTION,
        "columns": Parameter(
            COLUMN_TYPES,
            "columns that it returns, with their types; needed in a file",
            None,
            "those of its declaration",
            spelling="keyword",
        ),
        "needs": _NEEDS,
        "keep": Parameter(
            FLAG, "whether the columns of the input stay, before the new ones", False, spelling="keyword"
        ),
        "errors": Parameter(
            choice("fail", "keep"),
            "effect of an exception: the application fails, or the tuple goes on with NULL in all its new columns, "
            f"and the reason in the column `{ERROR}`, which is NULL for others",
            "fail",
            spelling="keyword",
        ),
        "deterministic": Parameter(
            FLAG,
            "whether equal tuples give equal results; active replicas need that",
            False,
            named=False,
            absent="as its declaration says",
            spelling="keyword",
        ),
        "timeout": TIMEOUT,
        "memory": MEMORY,
    },
    columns=_apply,
    off_spark="",
    cost=5e-6,
    preserves_order=True,
    needs_order="nothing states that its function is deterministic",
    needs_no_order=lambda params: "it processes each tuple alone" if params.get("deterministic") else "",
    **_OWN,
)


def _windows(it: Derivation) -> Schema:
    own_window(it)
    return it.output("columns", _new(it, grouping_columns(it)), windowed=True)


APPLY_WINDOWS: Final = Declaration(
    kind="apply_windows",
    help="Applies a function of your own to the tuples of each window, or of each group within it.",
    note="It gets the tuples in the order of their times, as a table. `@aggregate` declares it.",
    python=('spreads = packets.apply_windows("fares:spread", window="10 s", by="link", columns={"spread": "int"})',),
    yaml=("spreads: {kind: apply_windows, input: packets, function: 'fares:spread', columns: {n: int}, window: 10 s}",),
    parameters={
        "function": FUNCTION,
        "window": OWN_WINDOW,
        "by": Parameter(columns(0), "columns to group by", [], "none: one group", spelling="keyword"),
        "columns": APPLY.parameters["columns"],
        "needs": _NEEDS,
        "deterministic": APPLY.parameters["deterministic"]._replace(default=True),
        "timeout": TIMEOUT,
        "memory": MEMORY,
    },
    columns=_windows,
    off_spark="",
    cost=1e-5,
    selectivity=0.1,
    keys="by",
    state="tuples",
    waits=True,
    agrees="",
    needs_order="nothing states that its function is deterministic",
    needs_no_order=lambda params: (
        "the tuples of a window are the same in any order of arrival" if params.get("deterministic") else ""
    ),
    **_OWN,
)


def _keyed(it: Derivation) -> Schema:
    keys = {name: it.input[name] for name in it.params.get("key", ()) if it.column("key", name, it.input)}
    return it.output(
        "columns", _new(it, {name: kind for name, kind in keys.items() if name not in IMPLICIT}), windowed=False
    )


APPLY_KEYED: Final = Declaration(
    kind="apply_keyed",
    help="Passes the tuples of each key to an object of a class of your own, which keeps the state of that key.",
    note="`@keyed` declares the class. With `timers` tuples wait for the watermark, in the order of their times.",
    python=('totals = packets.apply_keyed("fares.models:Totals", key="link", columns={"total": "int"})',),
    yaml=(
        "totals: {kind: apply_keyed, input: packets, function: 'fares:Totals', columns: {total: int}, key: [link]}",
    ),
    parameters={
        "function": FUNCTION,
        "key": Parameter(columns(1), "columns of the key"),
        "columns": APPLY.parameters["columns"],
        "needs": _NEEDS,
        "expires": Parameter(
            POSITIVE, "event time without tuples after which the state of a key ends", None,
            "as its declaration says, or else with the stream", spelling="keyword",
        ),
        "timers": Parameter(
            FLAG, "whether its class has `on_time`", False, absent="as its declaration says", spelling="keyword"
        ),
        "deterministic": APPLY.parameters["deterministic"],
        "timeout": TIMEOUT,
        "memory": MEMORY,
    },
    columns=_keyed,
    off_spark="",
    cost=1e-5,
    state="groups",
    needs_order="the state of a key depends on the order of its tuples",
    needs_no_order=lambda params: (
        "its tuples wait until they can be passed on in the order of their times, and of all columns among equal times"
        if params.get("timers") and params.get("deterministic")
        else ""
    ),
    **_OWN,
)  # fmt: skip
