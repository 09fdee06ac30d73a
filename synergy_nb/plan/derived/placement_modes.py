"""Placement modes: what users choose among the algorithms that find peers, and which of these places a plan."""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.checks.replica_degrees import technique
from synergy_nb.plan.derived.active_replicas import degrees_of
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.availability import Availability
from synergy_nb.plan.terms.units import WrongValue, nearest

__all__ = ["PLACEMENTS", "SPREAD", "decider_of", "placement_of"]

#: Composition by probes that balance the load, or placement that withstands the largest set of source rates (ROD).
PLACEMENTS: Final = ("composed", "resilient")
#: Composition that prefers the graphs with the most peers, as ``submit(plan, spread=True)`` asks for it.
SPREAD: Final = "spread"

_NOT_SPREAD: Final = "spread: True; expected False where availability places replicas on different peers"


def placement_of(plan: Plan, placement: str, *, spread: bool, peers: int | None = None) -> str:
    """Return the placement mode of a submission.

    ``placement``: placement mode that was asked for, an element of :data:`PLACEMENTS`; ``spread``: whether the graphs
    with the most peers are preferred; ``peers``: number of peers, if it is known.

    Raises ``ValueError`` if the mode cannot place the plan, see :func:`decider_of`, or is not composition and the peers
    are to be spread.
    """
    if not isinstance(spread, bool):
        raise ValueError(f"spread: {spread!r}; expected True or False")
    decider = decider_of(plan, placement, peers)
    if not spread:
        return placement
    if placement != "composed":
        raise ValueError(f"spread: True; expected False with placement {placement!r}, which selects peers otherwise")
    if decider != placement:
        raise ValueError(_NOT_SPREAD)
    return SPREAD


def decider_of(plan: Plan, placement: str, peers: int | None = None) -> str:
    """Return the name of the decider that places a plan in a placement mode.

    A plan that asks for replicas has a decider of its own: ``active`` if any of them is to be active, ``replicated`` if
    all are backups. Any other is placed as its mode says.

    ``placement``: placement mode, an element of :data:`PLACEMENTS`, or :data:`SPREAD`; ``peers``: number of peers, if
    it is known.

    Raises ``ValueError`` if the mode does not exist, cannot place replicas or the number of them, or cannot place
    operators that are bound to Spark, which only composition can.
    """
    qos, degrees = plan.qos, degrees_of(plan)
    active = qos.active is not None or any(each.active > 1 for each in degrees.values())
    whole = any(each is not None for each in (qos.degree, qos.availability, qos.synchronized, qos.ordered))
    replicated = active or whole or any(each.passive > 1 for each in degrees.values())
    if placement == SPREAD:
        if replicated:
            raise ValueError(_NOT_SPREAD)
        placement = "composed"
    if placement not in PLACEMENTS:
        raise ValueError(f"placement: {WrongValue(placement, ' or '.join(PLACEMENTS), nearest(placement, PLACEMENTS))}")
    if replicated and placement != "composed":
        raise ValueError(f"placement: {placement!r}; expected 'composed' where availability places replicas")
    asked = [("qos.", name, getattr(qos, name) or 1) for name in Availability._fields[1:]]
    for name, each in degrees.items():
        if plan.operators[name].availability is not None:
            passive = technique(plan.operators[name], qos).value
            kind, number = ("active", each.active) if each.active > 1 else (passive, each.passive)
            asked.append((f"operator {name!r}: ", kind, number))
    for where, kind, number in asked:
        if peers is not None and number > peers:
            expected = f"at most {peers}, a peer for each replica"
            raise ValueError(f"{where}availability: '{kind} {number}'; expected {expected}")
    bound = sorted(name for name, operator in plan.operators.items() if operator.engine == "spark")
    if bound and placement != "composed":
        raise ValueError(f"operator {bound[0]!r}: engine: 'spark'; expected peer or auto with placement {placement!r}")
    return "active" if active else "replicated" if replicated else placement
