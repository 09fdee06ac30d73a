"""Placement of replicas: a protocol proposes primaries and backups (section 4.4), and probes find out about the former.

The protocol promises what the replicas take as it goes, under the id of the application. Probes find that as the
application's own, so they tell what it would have beside others, what its tuples would take from end to end, and what
it would do to the applications that run. If that is refused, all that was promised is given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from synergy_nb.graph import Roles
from synergy_nb.lifecycle.deciding import Decided, Prober, Refusal
from synergy_nb.lifecycle.request import Request
from synergy_nb.lifecycle.ways import Found
from synergy_nb.plan import Plan

__all__ = ["Placements", "Replicated"]


class Placements(Protocol):
    """What places replicas."""

    def submit(
        self,
        request: str,
        plan: Plan,
        placed: Callable[[Roles | None, str], None],
        *,
        degree: int | None,
        target: float | None,
        found: Found | None,
    ) -> None:
        """Place the replicas of an application; ``placed`` is given them, or the reason why there are none."""

    def graph(self, request: str) -> Roles | None:
        """A placement that stands."""

    def release(self, request: str) -> bool:
        """Give back a placement, or give it up."""


class Replicated:
    """Decides so that an application stays available.

    Parameters
    ----------
    placements
        Proposes primaries and backups.
    probes
        Find out whether the primaries can execute it.
    """

    def __init__(self, placements: Placements, probes: Prober) -> None:
        self._placements = placements
        self._probes = probes

    def decide(self, request: Request, found: Found, decided: Decided) -> None:
        """Place the replicas of a request, unless they are, and probe the primaries."""
        plan = request.way.plan
        standing = self._placements.graph(request.name)
        if standing is not None:  # this is one more round of probes
            self._probe(request, standing, decided)
            return

        def placed(graph: Roles | None, reason: str) -> None:
            if graph is None:
                decided(request, Refusal(reason))
            else:
                self._probe(request, graph, decided)

        qos = plan.qos
        target = qos.availability if qos.degree is None else None
        try:
            self._placements.submit(request.name, plan, placed, degree=qos.degree, target=target, found=found)
        except ValueError as error:
            decided(request, Refusal(str(error)))

    def _probe(self, request: Request, placed: Roles, decided: Decided) -> None:
        backups = {name: peers for name, peers in placed.backups.items() if peers}
        self._probes.probe(request, Roles(placed.peers, backups), decided)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Refuse what could not be set up: its peers have given back what was promised."""
        decided(request, Refusal(reason))

    def settled(self, request: Request) -> None:
        """What was placed runs; the placement stands until it has ended."""
        self._probes.settled(request)

    def release(self, request: Request) -> None:
        """Give the placement back, and what probes have reserved."""
        self._probes.release(request)
        self._placements.release(request.name)
