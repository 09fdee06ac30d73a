"""Applications whose components are replicated: placed for availability (section 4.4), then run as a session.

The placement protocol decides on the component graph λ and the replication graph ρ and promises what they take; the
session finds that promised already under the application's name, sets the graph up, has the backups kept, and lets
them take over. The placement is given back when the session has ended.
"""

from __future__ import annotations

import math

import msgspec

from synergy_nb.algorithms.availability import Placement
from synergy_nb.algorithms.session import Session
from synergy_nb.events import ApplicationRejected, RequestSubmitted
from synergy_nb.graph import ComponentGraph, Hop, ReplicaGraph, Report
from synergy_nb.peer import Peer
from synergy_nb.plan import Plan

__all__ = ["Replicated"]


class Replicated:
    """Replicated applications of one origin.

    Parameters
    ----------
    peer, placement, session
        The peer, and its protocols.
    """

    def __init__(self, peer: Peer, placement: Placement, session: Session) -> None:
        self.peer = peer
        self.placement = placement
        self.session = session
        self._placed: set[str] = set()
        session.on_end = self._ended

    def submit(self, request: str, plan: Plan) -> None:
        """Place and start the application that ``plan`` asks for; what comes of it is reported to the driver."""
        qos = plan.qos
        asked = {name: value for name, value in msgspec.structs.asdict(qos).items() if value is not None}
        self.peer.record(RequestSubmitted, request, plan=plan.name, operators=list(plan.operators), qos=asked)

        def placed(graph: ReplicaGraph | None, reason: str) -> None:
            if graph is None:
                self._reject(request, reason)
            else:
                self._establish(request, plan, graph)

        try:
            self.placement.submit(
                request, plan, placed, degree=qos.degree, target=qos.availability if qos.degree is None else None
            )
        except ValueError as error:
            self._reject(request, str(error))

    def cancel(self, request: str) -> bool:
        """Give up a request that is being placed; False if it is not."""
        return request in self.placement.pending and self.placement.release(request)

    def _establish(self, request: str, plan: Plan, graph: ReplicaGraph) -> None:
        """Set up what was placed; transmission times are not known here until results are measured."""
        hops = {
            name: Hop(name, peer, 0.0, math.inf, plan.processing_time(name), 0.0)
            for name, peer in graph.primaries.items()
        }
        edges = [(up, name) for name in plan.operators for up in plan.upstream(name)]
        chosen = ComponentGraph(hops, dict.fromkeys(edges, (math.inf, 0.0)))
        backups = {name: peers for name, peers in graph.backups.items() if peers}
        self._placed.add(request)

        def established(refusal: str) -> None:
            if refusal:
                self._reject(request, refusal)

        self.session.establish(request, plan, chosen, {}, established, backups=backups)

    def _ended(self, application: str) -> None:
        if application in self._placed:
            self._placed.discard(application)
            self.placement.release(application)

    def _reject(self, request: str, reason: str) -> None:
        self.peer.record(ApplicationRejected, request, reason=reason)
        self.peer.instruct(Report(request, "rejected", reason))
