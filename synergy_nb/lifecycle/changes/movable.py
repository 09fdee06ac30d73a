"""Which components of a plan can move to another peer."""

from __future__ import annotations

from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import UNREPEATABLE, degrees
from synergy_nb.plan.derived.spark_parts import PART, part_of, parts_of
from synergy_nb.plan.operators.catalogue import TAP

__all__ = ["component_to_move", "movable"]


def component_to_move(plan: Plan, operator: str, *, durable: bool = False) -> str:
    """Return the component that executes an operator of a plan; raise ValueError if it cannot move, with the reason.

    ``durable``: whether it has a copy in a folder.
    """
    what = f"operator: {operator!r}"
    for name, members in parts_of(plan).items():
        if operator in (name, *members):
            inside = part_of(plan.operators[name])[0].operators
            read = [each for each in members if inside[each].kind == "source"]
            if read:
                own = ", ".join(read)
                expected = f"expected another operator, or a plan with engine 'peer' for {own}"
                raise ValueError(f"{what}: Spark executes it and reads {own} itself; {expected}")
            return name
    if operator not in plan.operators:
        may = [name for name, each in plan.operators.items() if each.kind not in ("sink", TAP)]
        raise ValueError(f"{what}; expected one of {', '.join(may)}")
    reason = movable(plan, operator, durable=durable)
    if reason:
        raise ValueError(f"{what} {reason}; expected another operator")
    return operator


def movable(plan: Plan, operator: str, *, durable: bool = False) -> str:
    """Return the reason why a component of a plan can never move; empty if it can.

    ``durable``: whether it has a copy in a folder.
    """
    node = plan.operators[operator]
    if durable and (node.replica_of or node.ports):  # it would be aligned meanwhile, and no copy says until when
        return "is an active replica or reads some, and the cluster is durable"
    if node.kind == "sink":
        return "is a sink, which stays at its peer"
    if node.kind == TAP:
        return "is a stream of another application"
    connector = node.params.get("connector")
    if node.kind == "source" and connector in UNREPEATABLE and degrees(node, plan.qos).passive == 1:
        return f"is a source that cannot be read again ({connector})"
    if node.kind == PART:
        inside = part_of(node)[0].operators
        read = [name for name in parts_of(plan)[operator] if inside[name].kind == "source"]
        if read:
            return f"is executed by Spark, which reads {', '.join(read)} itself"
    return ""
