"""Resilient placement: the driver computes a placement by ROD (chapter 3), and probes check it.

ROD can take seconds, since compiled code may have to be loaded first. So the driver computes it in the background and
calls :meth:`ResilientPlacement.placed` with the result.
"""

from __future__ import annotations

from collections.abc import Callable

from synergy_nb.control.driver_messages import PlacementDecided
from synergy_nb.control.graph import ResilientPlacementRequest
from synergy_nb.control.peer import Peer
from synergy_nb.events import PlacementComputed
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import Decided, Prober, Refusal, find_candidates

__all__ = ["ResilientPlacement"]


class ResilientPlacement:
    """The decider that chooses peers so that they can process as large a set of source rates as possible (ROD)."""

    def __init__(self, peer: Peer, is_dead: Callable[[str], bool], probes: Prober) -> None:
        self._peer = peer
        self._is_dead = is_dead  # function from an address to whether that peer is known to have died
        self._probes = probes
        self._asked: dict[str, tuple[int, Request, Decided]] = {}
        self._number = 0

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        """Have the driver compute a placement on the peers that can execute every operator that is not pinned."""
        known = find_candidates(self._peer, request, found, self._is_dead)
        if known.missing:
            decided(request, Refusal("; ".join(known.missing.values()), missing=True))
            return
        pinned = {operator: peers[0] for operator, peers in known.candidates.items() if len(peers) == 1}
        offering = [set(peers) for operator, peers in known.candidates.items() if operator not in pinned]
        able = set.intersection(*offering) if offering else set()
        if offering and not able:
            decided(request, Refusal("no peer offers all of the operators that are to be placed"))
            return
        free = known.free
        capacities = {peer: free[peer] for peer in sorted({*able, *pinned.values()}) if free.get(peer, 0.0) > 0.0}
        self._number += 1
        self._asked[request.name] = self._number, request, decided
        self._peer.instruct(
            ResilientPlacementRequest(
                request.name, self._number, request.alternative.plan.to_bytes(), capacities, pinned
            )
        )

    def placed(self, answer: PlacementDecided) -> None:
        """Have probes check the placement that the driver has computed."""
        number, request, decided = self._asked.get(answer.request, (0, None, None))
        if request is None or decided is None or number != answer.attempt:
            return  # the request has ended meanwhile
        del self._asked[answer.request]
        if answer.reason:
            decided(request, Refusal(answer.reason))
            return
        self._peer.record(
            PlacementComputed, request.name, peers=answer.roles.peers, ratio=answer.ratio, text=answer.text
        )
        self._probes.probe(request, answer.roles, decided)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Ask the prober for its next graph, because set-up of the last one failed for that reason."""
        self._probes.next(request, reason, decided)

    def established(self, request: Request) -> None:
        """The request runs: have the prober release what it holds for graphs that were not chosen."""
        self._probes.established(request)

    def release(self, request: Request) -> None:
        """Release the reservations of probes, and ignore a placement that is still being computed."""
        self._asked.pop(request.name, None)
        self._probes.release(request)
