"""What a plan states about a component: its limit, its scheduling, its cost and its memory."""

from __future__ import annotations

import math

from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.plan import Plan
from synergy_nb.plan.spark_parts import PART

__all__ = ["configure", "downstream_s"]


def configure(component: Component, plan: Plan, deployment: Deployment) -> None:
    """Configure a component by its plan and deployment: limit, scheduling, cost and memory."""
    name = component.operator
    kind = plan.operators[name].kind
    component.kind, component.stream = kind, plan.stream_name(name)
    component.limit = math.inf if plan.qos.delay is None else plan.qos.delay
    component.discipline = plan.qos.scheduling or ""
    component.drops = plan.qos.overdue == "drop" and kind != PART
    component.planned_s, component.remaining = plan.processing_time(name), downstream_s(plan, name)
    component.transit = max(deployment.remaining.get(name, 0.0) - component.remaining, 0.0)
    component.share.kind = kind
    if plan.qos.memory is not None:
        component.share.limit = min(component.share.limit, plan.qos.memory)


def downstream_s(plan: Plan, operator: str) -> float:
    """Return the processing time of the longest path downstream of an operator, in seconds a tuple."""
    known: dict[str, float] = {}
    for name in reversed(list(plan.operators)):
        known[name] = max((plan.processing_time(down) + known[down] for down in plan.downstream(name)), default=0.0)
    return known[operator]
