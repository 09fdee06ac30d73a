"""Placement of replicas: a protocol proposes primaries and backups (section 4.4), and probes find out about the former.

The protocol promises what the replicas take as it goes, under the id of the application. Probes find that as the
application's own, so they tell what it would have beside others, what its tuples would take from end to end, and what
it would do to the applications that run. If a peer refuses, all that was promised is given back, and the replicas are
placed once more, without that peer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from synergy_nb.control.graph import Roles
from synergy_nb.lifecycle.alternatives import Found
from synergy_nb.lifecycle.decider import Answer, Decided, Prober, Refusal, component_name
from synergy_nb.lifecycle.request import Request
from synergy_nb.overlay.directory_entries import Entry
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
        self._refused: dict[str, Refusal] = {}  # by request, why its first placement was not admitted, and where

    def decide(self, request: Request, found: Found, decided: Decided) -> None:
        """Place the replicas of a request, unless they are, and probe the primaries."""
        plan = request.way.plan
        standing = self._placements.graph(request.name)
        if standing is not None:  # probes were lost, or its own limit is exceeded: this is one more round of them
            self._probe(request, standing, decided)
            return
        before = self._refused.get(request.name)

        def placed(graph: Roles | None, reason: str) -> None:
            if graph is not None:
                self._probe(request, graph, decided)
            else:
                decided(request, Refusal(reason if before is None else f"{before.reason}; elsewhere: {reason}"))

        qos = plan.qos
        target = qos.availability if qos.degree is None else None
        offered = found if before is None else _elsewhere(plan, found, before.at)
        try:
            self._placements.submit(request.name, plan, placed, degree=qos.degree, target=target, found=offered)
        except ValueError as error:
            decided(request, Refusal(str(error)))

    def _probe(self, request: Request, placed: Roles, decided: Decided) -> None:
        backups = {name: peers for name, peers in placed.backups.items() if peers}

        def probed(request: Request, answer: Answer) -> None:
            if isinstance(answer, Refusal) and answer.again and answer.at:  # it may be admitted elsewhere
                self._refused[request.name] = answer
                self._placements.release(request.name)
            decided(request, answer)

        self._probes.probe(request, Roles(placed.peers, backups), probed)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Refuse what could not be set up: its peers have given back what was promised."""
        decided(request, Refusal(reason))

    def established(self, request: Request) -> None:
        """What was placed runs; the placement stands until it has ended."""
        self._probes.established(request)

    def release(self, request: Request) -> None:
        """Give the placement back, and what probes have reserved."""
        self._refused.pop(request.name, None)
        self._probes.release(request)
        self._placements.release(request.name)


def _elsewhere(plan: Plan, found: Found, avoided: Collection[str]) -> Found:
    """What the directory has, without peers that are avoided, unless an operator has to be there or nobody else can."""
    pinned: dict[str, set[Any]] = {}
    for name, operator in plan.operators.items():
        pinned.setdefault(component_name(plan, name), set()).add(operator.at)

    def stays(name: str, entry: Entry) -> bool:
        bound = pinned.get(name, set())
        return entry.host not in avoided or entry.host in bound or entry.attributes.get("peer") in bound - {None}

    return {name: tuple(entry for entry in entries if stays(name, entry)) or entries for name, entries in found.items()}
