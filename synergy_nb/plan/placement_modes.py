"""How the components of a plan can find their peers, and which plans can be placed in which way."""

from __future__ import annotations

from typing import Final

from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.units import WrongValue, nearest

__all__ = ["PLACEMENTS", "check_placement", "replicates"]

#: By probes that balance the load, or so that they withstand the largest set of rates of the sources (ROD).
PLACEMENTS: Final = ("composed", "resilient")


def replicates(plan: Plan) -> bool:
    """Whether a plan asks for replicas, which are placed in a way of their own."""
    return plan.qos.degree is not None or plan.qos.availability is not None


def check_placement(plan: Plan, placement: str, peers: int | None = None) -> None:
    """Raise ValueError if a plan cannot be placed in a way.

    Parameters
    ----------
    plan
        Query plan to place.
    placement
        Placement mode, an element of :data:`PLACEMENTS`.
    peers
        Number of peers, if it is known.

    Raises
    ------
    ValueError
        If there is no such placement, replicas are to be placed otherwise or are more than there can be, or operators
        are bound to Spark, where only composition brings them.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement: {WrongValue(placement, ' or '.join(PLACEMENTS), nearest(placement, PLACEMENTS))}")
    if replicates(plan) and placement != "composed":
        raise ValueError(f"placement: {placement!r}; expected 'composed' where qos.availability places replicas")
    qos = plan.qos
    if peers is not None and qos.degree is not None and qos.degree > peers:
        raise ValueError(f"qos.availability: 'degree {qos.degree}'; expected at most {peers}, a peer for each replica")
    bound = sorted(name for name, operator in plan.operators.items() if operator.engine == "spark")
    if bound and placement != "composed":
        raise ValueError(f"operator {bound[0]!r}: engine: 'spark'; expected peer or auto with placement {placement!r}")
