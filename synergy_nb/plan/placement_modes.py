"""Placement modes: the algorithms that find peers for components, and the plans that each can place."""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.active_replicas import degrees_of
from synergy_nb.plan.availability import Availability
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.replica_degrees import technique
from synergy_nb.plan.units import WrongValue, nearest

__all__ = ["PLACEMENTS", "SPREAD", "check_placement", "placement_of", "replicates"]

#: Composition by probes that balance the load, or placement that withstands the largest set of source rates (ROD).
PLACEMENTS: Final = ("composed", "resilient")
#: Composition that prefers the graphs with the most peers, as ``submit(plan, spread=True)`` asks for it.
SPREAD: Final = "spread"


def replicates(plan: Plan) -> bool:
    """Whether a plan asks for replicas, active ones or backups, of all its operators or of some."""
    qos = plan.qos
    whole = any(each is not None for each in (qos.degree, qos.availability, qos.active, qos.synchronized, qos.ordered))
    return whole or any(max(each) > 1 for each in degrees_of(plan).values())


def placement_of(plan: Plan, placement: str, *, spread: bool, peers: int | None = None) -> str:
    """Return the placement mode of a submission.

    Parameters
    ----------
    plan
        Query plan to place.
    placement
        Placement mode that was asked for, an element of :data:`PLACEMENTS`.
    spread
        Whether the graphs with the most peers are preferred.
    peers
        Number of peers, if it is known.

    Raises
    ------
    ValueError
        If the mode cannot place the plan, see :func:`check_placement`, or is not composition and the peers are to be
        spread.
    """
    if not isinstance(spread, bool):
        raise ValueError(f"spread: {spread!r}; expected True or False")
    check_placement(plan, placement, peers)
    if not spread:
        return placement
    if placement != "composed":
        raise ValueError(f"spread: True; expected False with placement {placement!r}, which selects peers otherwise")
    check_placement(plan, SPREAD, peers)
    return SPREAD


def check_placement(plan: Plan, placement: str, peers: int | None = None) -> None:
    """Raise ValueError if a placement mode cannot place a plan.

    Parameters
    ----------
    plan
        Query plan to place.
    placement
        Placement mode, an element of :data:`PLACEMENTS`, or :data:`SPREAD`.
    peers
        Number of peers, if it is known.

    Raises
    ------
    ValueError
        If the mode does not exist, cannot place replicas or the number of them, or cannot place operators that are
        bound to Spark, which only composition can.
    """
    if placement == SPREAD:
        if replicates(plan):
            raise ValueError("spread: True; expected False where availability places replicas on different peers")
        placement = "composed"
    if placement not in PLACEMENTS:
        raise ValueError(f"placement: {WrongValue(placement, ' or '.join(PLACEMENTS), nearest(placement, PLACEMENTS))}")
    if replicates(plan) and placement != "composed":
        raise ValueError(f"placement: {placement!r}; expected 'composed' where availability places replicas")
    qos = plan.qos
    asked = [("qos.", name, getattr(qos, name) or 1) for name in Availability._fields[1:]]
    for name, each in degrees_of(plan).items():
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
