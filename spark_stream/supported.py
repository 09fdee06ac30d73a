"""Check of whether Spark can execute an operator; without PySpark, so that peers can choose an engine without it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spark_stream._expressions import UntranslatableExpression, aggregate, translate
from spark_stream._tables import MARK, POSITION
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.engines import off_spark
from synergy_nb.plan.operators.schemas import is_windowed
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import PLAIN, family

if TYPE_CHECKING:
    from synergy_nb.plan import Operator, Plan

__all__ = ["supported", "supported_source", "translations"]


def supported(operator: Operator, plan: Plan, inside: Collection[str] = ()) -> str:
    """The reason why Spark cannot execute an operator; empty if it can.

    ``operator``: an operator of ``plan``; ``inside``: operators of the plan that are to be executed in the same query.
    """
    reason = off_spark(operator.kind, operator.params)
    if reason or operator.kind == "source":
        return reason or _unknown(plan.schema(operator.id))
    schemas = [plan.schema(name) for name in operator.inputs]
    for schema in (*schemas, plan.schema(operator.id)):
        if reason := _unknown(schema):
            return reason
    taken = {name for schema in schemas for name in schema if name in (MARK, POSITION)}
    if taken:
        return f"column {min(taken)!r} has a name that is needed for what goes to Spark"
    window = operator.params.get("window") or {}
    if window.get("kind") == "session" and microseconds(window["gap"]) < 2:
        return "sessions in Spark have gaps of at least 2 us"
    if operator.kind == "sample" and operator.params["fraction"] < 1.0:
        upstream = plan.operators[operator.inputs[0]]
        if upstream.id in inside and upstream.kind != "source":
            return "it selects tuples by their positions, which Spark knows only for streams from peers"
    if operator.kind == "apply_keyed" and not operator.params.get("timers"):
        why = out_of_order(operator.inputs[0], plan, inside)
        if why:
            return f"its class has no on_time, so it takes tuples as they arrive, and {why}"
    try:
        list(translations(operator, plan))
    except UntranslatableExpression as error:
        return str(error)
    return ""


def out_of_order(stream: str, plan: Plan, inside: Collection[str]) -> str:
    """Why the tuples of a stream may arrive in another order than that of their times; empty if they do not.

    Spark gets tuples as punctuations release them, by their times, and in their order within each of them.
    """
    operator = plan.operators[stream]
    if operator.kind == "source":
        late = operator.params.get("lateness")
        return "" if late is None else f"source {stream!r} has a lateness: Spark gets its tuples by their times"
    if KINDS[operator.kind].waits and is_windowed(plan.schema(stream)):
        return ""
    if operator.kind == "apply" and stream in inside:
        return f"Spark does not know which tuple each result of {stream!r} (apply) comes from"
    if KINDS[operator.kind].preserves_order:
        return out_of_order(operator.inputs[0], plan, inside)
    return f"the tuples of {stream!r} ({operator.kind}) are in no order of their times"


def _unknown(columns: Mapping[str, str]) -> str:
    """The reason why Spark does not get some columns; empty if it may."""
    nested = [name for name, kind in columns.items() if family(kind) not in PLAIN]
    return f"lists and structs such as column {nested[0]!r} stay on peers" if nested else ""


def translations(operator: Operator, plan: Plan) -> Iterator[str]:
    """The Spark SQL of each expression of an operator.

    Raises ``UntranslatableExpression`` at one that Spark sees differently.
    """
    schema = plan.schema(operator.inputs[0])
    for name, parameter in KINDS[operator.kind].parameters.items():
        value: Any = operator.params.get(name)
        match parameter.type.name:
            case "condition":
                if value is not None:
                    yield translate(value, plan.schema(operator.id) if name == "having" else schema, "bool")
            case "expressions":
                for text in value.values():
                    yield translate(text, schema)
            case "calls":
                for text in value.values():
                    left, calls = sql.calls(sql.parse(text, schema, aggregate=True))
                    types = sql.call_types(calls, schema, half_life=operator.params.get("half_life") is not None)
                    for column, call in calls.items():
                        yield aggregate(call, schema, types[column])
                    yield translate(sql.canonical(left), types)


def supported_source(operator: Operator, local: bool) -> str:
    """The reason why Spark cannot read a source itself; empty if it can.

    ``local``: whether Spark runs on this machine.
    """
    why = off_spark(operator.kind, operator.params)
    return why or ("" if local else "the trace is on this machine, and Spark is on another")
