"""Check of whether Spark can execute an operator; without PySpark, so that peers can choose an engine without it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from spark_stream._expressions import UntranslatableExpression, aggregate, translate
from spark_stream._tables import MARK, POSITION
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.operators.engines import off_spark

if TYPE_CHECKING:
    from synergy_nb.plan import Operator, Plan

__all__ = ["supported", "supported_source"]


def supported(operator: Operator, plan: Plan, inside: Collection[str] = ()) -> str:
    """The reason why Spark cannot execute an operator; empty if it can.

    ``operator``: an operator of ``plan``; ``inside``: operators of the plan that are to be executed in the same query.
    """
    reason = off_spark(operator.kind, operator.params)
    if reason or operator.kind == "source":
        return reason
    schemas = [plan.schema(name) for name in operator.inputs]
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
    try:
        _translated(operator, plan)
    except UntranslatableExpression as error:
        return str(error)
    return ""


def _translated(operator: Operator, plan: Plan) -> None:
    schema = plan.schema(operator.inputs[0])
    for name, parameter in KINDS[operator.kind].parameters.items():
        value: Any = operator.params.get(name)
        match parameter.type.name:
            case "condition":
                translate(value, schema, "bool")
            case "expressions":
                for text in value.values():
                    translate(text, schema)
            case "calls":
                for column, text in value.items():
                    aggregate(text, schema, plan.schema(operator.id)[column])


def supported_source(operator: Operator, local: bool) -> str:
    """The reason why Spark cannot read a source itself; empty if it can.

    ``local``: whether Spark runs on this machine.
    """
    why = off_spark(operator.kind, operator.params)
    return why or ("" if local else "the trace is on this machine, and Spark is on another")
