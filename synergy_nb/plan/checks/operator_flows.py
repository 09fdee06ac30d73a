"""Rates, widths and loads of the operators of a plan, from its sources downwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from synergy_nb.plan.checks.source_sizes import SourceSize, rate_basis, rate_with
from synergy_nb.plan.checks.trace_facts import Thinned, known_of, measured, thinned
from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import KINDS, PART, TAP
from synergy_nb.plan.operators.declaration import Flow
from synergy_nb.plan.operators.sources import pace_of
from synergy_nb.plan.terms.column_types import column_bytes

__all__ = ["OperatorFlow", "flows", "pause_of"]


class OperatorFlow(NamedTuple):
    """What an operator takes and gives."""

    taken: float  # tuples/s of all inputs; of a source, those of its stream
    given: float  # tuples/s of its stream
    tuple_bytes: float  # mean bytes of a tuple of its stream
    load: float  # processing requirement, cores
    # origin of the rate of a source, or of the selectivity: `stated`, `rows` (of its file), `profile` or `assumed`;
    # empty: it follows from what the operator is
    basis: str = ""


class Inner(Protocol):
    """Interface of the plan of a part on Spark."""

    @property
    def operators(self) -> Mapping[str, Operator]:
        """Operators by id."""

    def input_rate(self, operator: str) -> float:
        """Tuples/s into an operator."""

    def rate(self, operator: str) -> float:
        """Tuples/s of the operator's stream."""


def flows(
    operators: Mapping[str, Operator],  # operators by id, inputs before their readers
    # schemas, windows: columns and window of the stream of each operator
    schemas: Mapping[str, Mapping[str, str]],
    windows: Mapping[str, Mapping[str, Any] | None],
    sizes: Mapping[str, SourceSize],  # known sizes of sources, by operator id
    # function that returns the seconds of a processor that an operator takes for a tuple
    processing_time: Callable[[str], float],
    # function that returns the plan of a part on Spark, and the operators of the part
    part_of: Callable[[Operator], tuple[Inner, tuple[str, ...]]],
) -> dict[str, OperatorFlow]:
    """Compute the flow of each operator."""
    found: dict[str, OperatorFlow] = {}
    closing: dict[str, float] = {}  # windows that close per second
    paces: dict[str, float] = {}  # seconds of event time per second, 1 where the readers determine it
    widths: dict[str, Mapping[str, float]] = {}  # bytes of the values of a column, where they are known
    wide = any(size.widths for size in sizes.values())
    facts: dict[str, Thinned | None] = {}
    for name, operator in operators.items():
        taken = sum(found[up].given for up in operator.streams)
        if operator.kind == "source":
            paces[name] = pace_of(operator.params) or 1.0
        else:
            paces[name] = min([paces[up] for up in operator.inputs], default=1.0)
        own = operator.params.get("window")
        if own is not None:
            rows = own.get("rows")
            closing[name] = taken / rows if rows else paces[name] / pause_of(own)
        elif operator.inputs:
            closing[name] = closing.get(operator.inputs[0], 0.0)
        size = sum(map(column_bytes, schemas[name].values()), 0.0)
        if wide:
            passed = {column: width for up in operator.inputs for column, width in widths[up].items()}
            widths[name] = sizes[name].widths if name in sizes else passed
            size = sum(_width(column, kind, widths[name]) for column, kind in schemas[name].items())
        if operator.kind in (TAP, PART):
            pause = pause_of(windows[name] or {})
            closing[name] = 1 / pause if pause else 0.0
        if operator.kind == TAP:
            given = float(operator.params["rate"])
            found[name] = OperatorFlow(given, given, size, 0.0)
            continue
        if operator.kind == PART:
            inner, members = part_of(operator)
            taken += sum(inner.input_rate(each) for each in members if not inner.operators[each].inputs)
            found[name] = OperatorFlow(taken, inner.rate(name), size, operator.params["load"])
            continue
        if operator.kind == "source":
            taken = rate_with(operator.params, sizes.get(name))
        before = facts.get(operator.inputs[0]) if len(operator.inputs) == 1 else None
        if operator.selectivity is not None:
            given, basis = taken * operator.selectivity, "stated"
        elif (known := measured(operator, before, taken, closing.get(name, 0.0))) is not None:
            given, basis = known, "profile"
        else:
            first = found[operator.inputs[0]].given if operator.inputs else taken
            given = KINDS[operator.kind].tuples(operator.params, Flow(taken, first, closing.get(name, 0.0)))
            basis = "assumed" if KINDS[operator.kind].guessed else ""
        if operator.kind == "source":
            facts[name] = known_of(sizes[name].facts) if name in sizes else None
            basis = rate_basis(operator.params, sizes.get(name))
        else:
            facts[name] = thinned(operator, before, given / taken if taken else 1.0)
        found[name] = OperatorFlow(taken, given, size, taken * processing_time(name), basis)
    return found


def pause_of(window: Mapping[str, Any]) -> float:
    """Event time between the ends of two windows, seconds; 0 for a window of rows, or none."""
    return float(window.get("slide") or window.get("length") or window.get("gap") or 0.0)


def _width(column: str, kind: str, known: Mapping[str, float]) -> float:
    """Mean bytes of the values of a column: those of its type, or more where they are known to be longer."""
    least = column_bytes(kind)
    return max(known.get(column, 0.0), least) if kind in ("str", "bytes") else least
