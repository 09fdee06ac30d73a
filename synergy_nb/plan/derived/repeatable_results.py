"""Whether a later run of a plan has the same results at the same positions, and what the results are called by that.

A sink to the outside finds there how far the stream is that it writes. Within one application a row has its position
for good. In a later run it has the same one if each of its operators reads one input, and its source can be read again:
the order in which an operator reads several inputs is decided while it runs.
"""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.operators.catalogue import PART, TAP
from synergy_nb.plan.query_plan import Plan

__all__ = ["results_name", "unrepeatable"]

#: Connectors of sources whose rows are the same, in the same order, whenever they are read.
_REPEATABLE: Final = ("trace", "packets", "nexmark")


def unrepeatable(plan: Plan, sink: str) -> str:
    """Say why a later run of a plan may have other results at a position; empty if it has the same.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> unrepeatable(source("packets").filter("bytes > 9").sink(), "sink")
    ''
    >>> unrepeatable(source("packets").union(source("packets")).sink(), "sink")
    'union reads several streams, in an order that is decided while it runs'
    """
    if plan.qos.overdue == "drop":
        return "tuples past their deadline are dropped"
    at = sink
    while (operator := plan.operators[at]).inputs:
        if len(operator.inputs) > 1:
            return f"{at} reads several streams, in an order that is decided while it runs"
        if operator.kind == PART:
            return f"Spark executes {at}, whose order of rows may be another one each time"
        if operator.replica_of:
            return f"{at} is one of several active replicas"
        if operator.params.get("deterministic") is False:
            return f"the function of {at} is not deterministic"
        at = operator.inputs[0]
    if operator.kind in (TAP, PART):
        return f"{at} is a stream that began before this one"
    connector = str(operator.params["connector"])
    return "" if connector in _REPEATABLE else f"the source {at} ({connector}) cannot be read again"


def results_name(plan: Plan, sink: str, application: str) -> str:
    """Return what the results of a sink are: equal results at equal positions have equal names.

    ``plan``: plan as it is executed; ``sink``: operator id of the sink; ``application``: id of the application.
    """
    name = plan.stream_name(sink)
    return f"{name} of {application}" if unrepeatable(plan, sink) else name
