"""Simulated peers that place replicas, and a check of their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synergy_nb.algorithms.availability import PlacementOrigin, ResidualLimits
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan
from tests.simulated import Ring

__all__ = ["Placements"]


class Placements(Ring):
    """A ring whose peers place replicas; what became of each request is in ``outcomes``."""

    def __init__(self, peers: int, seed: int, **settings: Any) -> None:
        self.outcomes: dict[str, tuple[Roles | None, str]] = {}
        self.plans: dict[str, Plan] = {}
        self.origins: dict[str, str] = {}
        super().__init__(peers, seed, **settings)

    def placement(self, address: str) -> PlacementOrigin:
        """The protocol of a peer."""
        found = self.synergy[address].placement
        assert found is not None
        return found

    def place(self, at: str, request: str, plan: Plan, **asked: Any) -> None:
        """Ask a peer to place an application."""
        self.plans[request], self.origins[request] = plan, at

        def placed(graph: Roles | None, reason: str) -> None:
            assert request not in self.outcomes, "told twice"
            self.outcomes[request] = graph, reason

        self.simulation.call(at, lambda: self.placement(at).submit(request, plan, placed, **asked))

    def decided(self, *requests: str, seconds: float = 120.0) -> list[tuple[Roles | None, str]]:
        """What became of requests, once all are decided."""
        until = self.simulation.now + seconds
        self.simulation.run(until=until, stop=lambda: all(request in self.outcomes for request in requests))
        return [self.outcomes[request] for request in requests]

    def placed(self, at: str, plan: Plan, request: str = "r1", **asked: Any) -> Roles:
        """Place an application, which has to succeed."""
        self.place(at, request, plan, **asked)
        ((graph, reason),) = self.decided(request)
        assert graph is not None, reason
        return graph

    def refused(self, at: str, plan: Plan, request: str = "r1", **asked: Any) -> str:
        """Place an application, which has to fail; the reason."""
        self.place(at, request, plan, **asked)
        ((graph, reason),) = self.decided(request)
        assert graph is None
        return reason

    def release(self, request: str) -> None:
        """Give a placement back."""
        at = self.origins[request]
        self.simulation.call(at, self.placement(at).release, request)

    def standing(self) -> dict[str, Roles]:
        """Placements that stand at peers that are there."""
        found = {
            request: self.placement(at).graph(request) for request, at in self.origins.items() if at in self.synergy
        }
        return {request: graph for request, graph in found.items() if graph is not None}

    def wrong_books(self, standing: Mapping[str, Roles] | None = None) -> list[str]:
        """What peers hold that the placements that stand do not say, and the other way round; asked in quiet."""
        graphs = self.standing() if standing is None else standing
        wrong: list[str] = []
        for address, each in self.synergy.items():
            expected = {request: graph.at(address) for request, graph in graphs.items() if graph.at(address)}
            held = {name: dict(self.placement(address).replica_host.roles(name)) for name in each.ledger.requests}
            if held != expected:
                wrong.append(f"{address} holds {held}, expected {expected}")
            if each.ledger.reservations:
                wrong.append(f"{address} still reserves for {sorted(each.ledger.reservations)}")
        alive = sorted(self.synergy)
        limits = ResidualLimits({address: each.ledger.cores for address, each in self.synergy.items()}, self._bandwidth)
        whole = {request: graph for request, graph in graphs.items() if graph.addresses <= set(alive)}
        for request, graph in whole.items():
            limits.admit(self.plans[request], graph)
        if len(whole) < len(graphs):
            return wrong  # what dead peers had is not in any books
        for address, each in self.synergy.items():
            if abs(each.ledger.residual_cores("") - limits.cores[address]) > 1e-9:
                wrong.append(f"{address} has {each.ledger.residual_cores('')} cores left, not {limits.cores[address]}")
            for sender in alive:
                left = each.ledger.residual_bandwidth("", sender)
                if sender != address and abs(left - limits.left(sender, address)) > 1e-3:
                    wrong.append(f"{sender} to {address}: {left} bytes/s left, not {limits.left(sender, address)}")
        return wrong

    def _bandwidth(self, sender: str, to: str) -> float:
        return self.synergy[to].ledger.bandwidth_from(sender)

    def doubled(self) -> list[str]:
        """Components with two replicas on one peer."""
        return [
            f"{name} of {request}"
            for request, graph in self.standing().items()
            for name, peers in graph.replicas.items()
            if len(set(peers)) < len(peers)
        ]
