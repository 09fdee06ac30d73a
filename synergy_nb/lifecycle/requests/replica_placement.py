"""Placement of replicas: a protocol proposes primaries and backups (section 4.4), and probes check the primaries.

While the protocol runs, it commits the resources of the replicas under the id of the application. Probes count these
resources as the application's own. So they check the bandwidth and delay that it gets beside others, and its impact on
the applications that run. If a peer refuses, the protocol releases everything and places the replicas once more without
that peer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from synergy_nb.control.roles import Roles
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import Decided, Decision, Prober, Refusal, component_name
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import degrees_of

__all__ = ["Placements", "ReplicaPlacement"]


class Placements(Protocol):
    """The placement protocol, as this decider uses it."""

    def submit(
        self,
        request: str,
        plan: Plan,
        placed: Callable[[Roles | None, str], None],
        *,
        degree: int | None,
        target: float | None,
        degrees: Mapping[str, int] | None,
        found: DirectoryEntries | None,
    ) -> None:
        """Place the replicas of an application; call ``placed`` with them, or with None and the reason."""

    def graph(self, request: str) -> Roles | None:
        """The committed placement of a request; None if there is none."""

    def release(self, request: str) -> bool:
        """Release a committed placement, or abort one that is being negotiated."""


class ReplicaPlacement:
    """The decider that gives an application the availability that its plan asks for."""

    def __init__(self, placements: Placements, probes: Prober) -> None:
        self._placements = placements  # placement protocol, which proposes primaries and backups
        self._probes = probes
        self._refused: dict[str, Refusal] = {}  # request to the refusal of its first placement

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        """Place the replicas of a request, unless they are placed already, and have probes check the primaries."""
        plan = request.alternative.plan
        committed = self._placements.graph(request.name)
        if committed is not None:  # probes failed, but no peer refused the placement: probe it once more
            self._probe(request, committed, decided)
            return
        before = self._refused.get(request.name)

        def placed(graph: Roles | None, reason: str) -> None:
            if graph is not None:
                self._probe(request, graph, decided)
            else:
                why = reason if before is None else f"{before.reason}; elsewhere: {reason}"
                decided(request, Refusal(why, missing=True))

        qos = plan.qos
        asked = qos.degree or qos.synchronized or qos.ordered
        target = qos.availability if asked is None else None
        degree = asked or (1 if target is None else None)
        own = {
            name: each.passive
            for name, each in degrees_of(plan).items()
            if plan.operators[name].availability is not None
        }
        offered = found if before is None else _without_avoided(plan, found, before.refused_by)
        try:
            self._placements.submit(
                request.name, plan, placed, degree=degree, target=target, degrees=own, found=offered
            )
        except ValueError as error:
            decided(request, Refusal(str(error)))

    def _probe(self, request: Request, placed: Roles, decided: Decided) -> None:
        backups = {name: peers for name, peers in placed.backups.items() if peers}

        def probed(request: Request, answer: Decision | Refusal) -> None:
            if isinstance(answer, Refusal) and answer.retry and answer.refused_by:  # other peers may accept it
                self._refused[request.name] = answer
                self._placements.release(request.name)
            decided(request, answer)

        self._probes.probe(request, Roles(placed.peers, backups), probed)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Refuse the request, because set-up failed and its peers have released their commitments."""
        decided(request, Refusal(reason))

    def established(self, request: Request) -> None:
        """The request runs: release what is held for graphs that were not chosen; the placement stays until the end."""
        self._probes.established(request)

    def release(self, request: Request) -> None:
        """Release the placement and the reservations of probes."""
        self._refused.pop(request.name, None)
        self._probes.release(request)
        self._placements.release(request.name)


def _without_avoided(plan: Plan, found: DirectoryEntries, avoided: Collection[str]) -> DirectoryEntries:
    """Directory entries without avoided peers, except where an operator is pinned there or has no other candidate."""
    pinned: dict[str, set[Any]] = {}
    for name, operator in plan.operators.items():
        pinned.setdefault(component_name(plan, name), set()).add(operator.at)

    def stays(name: str, entry: Entry) -> bool:
        bound = pinned.get(name, set())
        return entry.host not in avoided or entry.host in bound or entry.attributes.get("peer") in bound - {None}

    return {name: tuple(entry for entry in entries if stays(name, entry)) or entries for name, entries in found.items()}
