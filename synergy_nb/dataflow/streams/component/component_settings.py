"""What a plan states about a component: its limit, scheduling, cost and memory, and how it reads its inputs."""

from __future__ import annotations

import math

from synergy_nb.dataflow.deployments import FOLDER, Deployment
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_terms import ComponentTerms
from synergy_nb.dataflow.streams.replicas.ordered_inputs import OrderedInputs
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic, Reading
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.derived.replica_agreement import agreement, stated_order
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.derived.stream_seasons import season_of
from synergy_nb.plan.operators.catalogue import KINDS

__all__ = ["configure", "downstream_s", "merged"]


def configure(component: Component, plan: Plan, deployment: Deployment) -> None:
    """Configure a component by its plan and deployment: limit, scheduling, cost and memory."""
    name = component.operator
    kind = plan.operators[name].kind
    remaining = downstream_s(plan, name)
    terms = ComponentTerms(
        limit=math.inf if plan.qos.delay is None else plan.qos.delay,
        discipline=plan.qos.scheduling or "",
        drops=plan.qos.overdue == "drop" and kind != PART,
        remaining=remaining,
        transit=max(deployment.remaining.get(name, 0.0) - remaining, 0.0),
        season=season_of(plan, name),
    )
    component.agree(terms, kind, plan.work_name(name), plan.processing_time(name))
    component.share.restrict(kind, plan.qos.memory)


def downstream_s(plan: Plan, operator: str) -> float:
    """Return the processing time of the longest path downstream of an operator, in seconds a tuple."""
    known: dict[str, float] = {}
    for name in reversed(list(plan.operators)):
        known[name] = max((plan.processing_time(down) + known[down] for down in plan.downstream(name)), default=0.0)
    return known[operator]


def merged(operator: Logic, component: Component, plan: Plan, *, compares: bool = False) -> Logic:
    """Put in front of an operator what merges its inputs, where these are not read one by one as they arrive.

    These are duplicate filters if its component is an active replica or reads active replicas, or a sort if its backups
    execute it in the same order.

    ``plan``: plan of the component, expanded by replicas; ``compares``: whether streams of replicas are compared, which
    are equal unless tuples are dropped.
    """
    if component.in_order and len(component.feeds) > 1:
        node = plan.operators[component.operator]
        return OrderedInputs(
            operator, [stated_order(plan, up) for up in node.inputs], joined=KINDS[node.kind].commutative
        )
    if not component.feed_ports and not component.replica_of:
        return operator
    name = component.operator if component.operator in plan.operators else original(component.operator)
    found, node = agreement(plan, name), plan.operators[name]
    orders = [stated_order(plan, up) for up in node.streams] if found.sorts or component.feed_ports else None
    ports = component.feed_ports or {number: number for number in component.feeds}
    # A component that can be aligned was aligned for its follower, which must know that before its state is restored:
    # otherwise it waits for an order that nobody has recorded (``test_mixed_replicas``). With a folder none moves, and
    # one that goes on from there is told its order
    repeats = orders is not None and component.epoch > component.rebuilt and FOLDER not in component.copies
    how = Reading.ALIGNED if found.alone else Reading.SORTED if found.sorts else Reading.ARRIVING
    joined = found.alone and KINDS[node.kind].commutative  # otherwise it may know more of one port than of others
    return MergedLogic(operator, ports, orders, how, aligned=repeats, joined=joined,
                       compares=compares and plan.qos.overdue != "drop")  # fmt: skip
