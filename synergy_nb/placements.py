"""How components can find their peers, and what decides it where they are not composed."""

from __future__ import annotations

from typing import Final

from synergy_nb.graph import Place, Placed
from synergy_nb.plan import Plan

__all__ = ["PLACEMENTS", "decided"]

#: By probes that balance the load, or so that they withstand the largest set of rates of the sources (ROD).
PLACEMENTS: Final = ("composed", "resilient")


def decided(order: Place) -> Placed:
    """Place a plan as composition wants it placed; takes seconds where code is compiled for the first time."""
    from synergy_nb.algorithms.resilience import place  # noqa: PLC0415 - importing SciPy and Numba takes a second or more

    try:
        found = place(Plan.from_bytes(order.plan), order.capacities, order.pinned)
    except ValueError as error:
        return Placed(order.request, order.attempt, reason=str(error))
    return Placed(order.request, order.attempt, dict(found.assignment), float(found.ratio), found.to_text())
