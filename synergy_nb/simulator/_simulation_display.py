"""The display of a simulation: the peers that have components, with their loads, as text and for notebooks."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from typing import Final

from synergy_nb.events.application_states import LASTING
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.reporting.formatting import seconds, share
from synergy_nb.reporting.tables import as_html, as_text
from synergy_nb.simulator.composed_world import ComposedWorld
from synergy_nb.simulator.simulated_application import SimulatedApplication

SHOWN_PEERS: Final = 20  # largest number of peers in the display of a simulation
HEADING: Final = ("peer", "other load", "promised", "cores", "components")


def displayed(
    world: ComposedWorld, applications: Collection[SimulatedApplication], *, closed: bool, as_page: bool = False
) -> str:
    """Display a simulation: a caption, and a table of the peers that execute operators if there are any.

    ``as_page``: whether to return HTML rather than text.
    """
    living = [name for name in world.topology.peers if not world.dead(name)]
    running = sum(each.status in LASTING for each in applications)
    state = "closed" if closed else f"{counted(running, 'application')} running"
    caption = f"Simulation of {counted(len(living), 'peer')} at {seconds(world.now)}: {state}"
    rows = _rows(world, applications, living)[:SHOWN_PEERS]
    if as_page:
        return as_html(caption, HEADING, rows) if rows else f"<p>{html.escape(caption)}</p>"
    return as_text(caption, HEADING, rows) if rows else caption


def _rows(
    world: ComposedWorld, applications: Collection[SimulatedApplication], living: Sequence[str]
) -> list[Sequence[str]]:
    """Return a row for each peer that has components."""
    parts: dict[str, list[str]] = {}
    for application in applications:
        for operator, at in application.graph.items() if application.status in LASTING else ():
            parts.setdefault(at, []).append(operator)
    rows: list[Sequence[str]] = []
    for name in (each for each in living if each in parts):
        ledger = world.synergy[name].ledger
        other = world.load_of.get(name, 0.0)
        state = "suspended" if world.suspended(name) else share(other) if other else "-"
        rows.append((name, state, share(ledger.load), amount(ledger.cores), ", ".join(sorted(parts[name]))))
    return rows
