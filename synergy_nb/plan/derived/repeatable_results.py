"""Whether a plan has the same results at the same positions another time, and what the results are called by that.

A sink to the outside finds there how far the stream is that it writes. Within one application a row has its position
for good. In a later run it has the same one if each of its operators reads one input, and its source can be read again:
the order in which an operator reads several inputs is decided while it runs.

Within a run, another peer that executes an operator from an earlier state on makes the same tuples at the same
positions if these follow from its input alone; else it has to be told what the peer before it has decided.
"""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.operators.catalogue import PART, TAP
from synergy_nb.plan.query_plan import Plan

__all__ = ["acts_outside", "decided", "results_name", "unrepeatable"]

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
    at = sink
    while True:
        why = decided(plan, at) or (acts_outside(plan, at) if at != sink else "")
        operator = plan.operators[at]
        if not why and operator.replica_of:
            why = f"{at} is one of several active replicas"
        if why or not operator.inputs:
            return why
        at = operator.inputs[0]


def decided(plan: Plan, operator: str) -> str:
    """Say why the output of an operator does not follow from its only input; empty if it does.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets").union(source("packets")).sink()
    >>> decided(plan, "union"), decided(plan, "sink")
    ('union reads several streams, in an order that is decided while it runs', '')
    """
    node = plan.operators[operator]
    if plan.qos.overdue == "drop":
        return "tuples past their deadline are dropped"
    if len(node.inputs) > 1:
        return f"{operator} reads several streams, in an order that is decided while it runs"
    if node.params.get("deterministic") is False:
        return f"the function of {operator} is not deterministic"
    return ""


def acts_outside(plan: Plan, operator: str) -> str:
    """Say why a peer that executes an operator depends on something outside, or changes it; empty if it does not.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", id="s").filter("bytes > 9", id="f").sink(id="out")
    >>> [acts_outside(plan, name) for name in ("s", "f", "out")]
    ['', '', 'out gives results to the outside']
    """
    node = plan.operators[operator]
    if node.kind == PART:
        return f"Spark executes {operator}, whose order of rows may be another one each time"
    if node.kind == TAP:
        return f"{operator} is a stream that began before this one"
    if node.kind == "sink":
        return f"{operator} gives results to the outside"
    connector = node.params.get("connector")
    return "" if connector in (None, *_REPEATABLE) else f"the source {operator} ({connector}) cannot be read again"


def results_name(plan: Plan, sink: str, application: str) -> str:
    """Return what the results of a sink are: equal results at equal positions have equal names.

    ``plan``: plan as it is executed; ``sink``: operator id of the sink; ``application``: id of the application.
    """
    switch = plan.transition.switches.get(sink)
    if switch is not None:  # another plan has given the rows before, or gives them
        return switch.stream
    name = plan.stream_name(sink)
    return f"{name} of {application}" if unrepeatable(plan, sink) else name
