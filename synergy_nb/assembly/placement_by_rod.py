"""Computation of resilient placements for drivers, in a module of its own, as it loads SciPy and Numba."""

from __future__ import annotations

from synergy_nb.control.driver_messages import PlacementDecided
from synergy_nb.control.graph import ResilientPlacementRequest
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan, source

__all__ = ["decided", "warm"]


def decided(order: ResilientPlacementRequest) -> PlacementDecided:
    """Compute the requested placement; takes seconds when code is compiled for the first time."""
    from synergy_nb.algorithms.resilience import place  # noqa: PLC0415 - importing SciPy and Numba takes a second or more

    try:
        found = place(Plan.from_bytes(order.plan), order.capacities, order.pinned)
    except ValueError as error:
        return PlacementDecided(order.request, order.attempt, reason=str(error))
    return PlacementDecided(
        order.request, order.attempt, Roles(dict(found.assignment)), float(found.ratio), found.to_text()
    )


def warm() -> None:
    """Load the libraries and compiled functions of resilient placement, by placing a dummy plan."""
    plan = source("packets").filter("bytes > 0").sink("none")
    decided(ResilientPlacementRequest("", 0, plan.to_bytes(), {"a": 1.0, "b": 1.0}, {}))
