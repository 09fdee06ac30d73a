"""Resilient placement: the driver decides by ROD (chapter 3), and probes find out whether the peers can.

It takes seconds where compiled code is loaded first, so the driver does it beside all else, and tells.
"""

from __future__ import annotations

from collections.abc import Callable

from synergy_nb.control.driver_messages import PlacementDecided
from synergy_nb.control.graph import Place
from synergy_nb.control.peer import Peer
from synergy_nb.events import PlacementComputed
from synergy_nb.lifecycle.alternatives import Found
from synergy_nb.lifecycle.decider import Decided, Prober, Refusal, offers
from synergy_nb.lifecycle.request import Request

__all__ = ["Resilient"]


class Resilient:
    """Decides so that an application withstands the largest set of rates of its sources.

    Parameters
    ----------
    peer
        The peer, whose driver places.
    is_dead
        Tells whether a peer is known to have died.
    probes
        Find out whether the peers that were proposed can execute it.
    """

    def __init__(self, peer: Peer, is_dead: Callable[[str], bool], probes: Prober) -> None:
        self._peer = peer
        self._is_dead = is_dead
        self._probes = probes
        self._asked: dict[str, tuple[int, Request, Decided]] = {}
        self._number = 0

    def decide(self, request: Request, found: Found, decided: Decided) -> None:
        """Have the driver place, among the peers that can take on every operator which is not tied to its place."""
        known = offers(self._peer, request, found, self._is_dead)
        if known.missing:
            decided(request, Refusal("; ".join(known.missing.values())))
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
        self._peer.instruct(Place(request.name, self._number, request.way.plan.to_bytes(), capacities, pinned))

    def placed(self, answer: PlacementDecided) -> None:
        """The driver's answer to :class:`~synergy_nb.control.graph.Place`."""
        number, request, decided = self._asked.get(answer.request, (0, None, None))
        if request is None or decided is None or number != answer.attempt:
            return  # given up meanwhile
        del self._asked[answer.request]
        if answer.reason:
            decided(request, Refusal(answer.reason))
            return
        self._peer.record(
            PlacementComputed, request.name, peers=answer.roles.peers, ratio=answer.ratio, text=answer.text
        )
        self._probes.probe(request, answer.roles, decided)

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        """Decide again, as what was placed could not be set up for that reason."""
        self._probes.next(request, reason, decided)

    def established(self, request: Request) -> None:
        """What was placed runs."""
        self._probes.established(request)

    def release(self, request: Request) -> None:
        """Give back what is reserved, and hear no more of it."""
        self._asked.pop(request.name, None)
        self._probes.release(request)
