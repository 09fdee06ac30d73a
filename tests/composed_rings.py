"""What holds of simulated peers after any composition."""

from __future__ import annotations

from synergy_nb.events import RequestSubmitted
from tests.simulated import Ring


def taps(ring: Ring) -> set[tuple[str, str, str]]:
    """Taps of what runs: peer, application and operator; nobody executes them."""
    graphs = [each.session.graph(request) for each in ring.synergy.values() for request in each.session.led]
    return {
        (graph.roles.peers[tap], graph.application, tap)
        for graph in graphs
        if graph is not None
        for tap in graph.shared
    }


def check(ring: Ring, requests: list[str]) -> None:
    """Nothing is left but what applications that run hold, and these hold all of theirs."""
    led = {request: address for address, each in ring.synergy.items() for request in each.session.led}
    expected: set[tuple[str, str, str]] = set()
    for request, origin in led.items():
        assert ring.status(request) == "running"
        graph = ring.synergy[origin].session.graph(request)
        assert graph is not None
        assert graph.roles.peers == ring.reports[request][-1].peers
        assert graph.roles.peers["sink"] == origin
        expected |= {(peer, request, operator) for operator, peer in graph.roles.peers.items()}
        used = {(producer.peer, *producer[:2]) for producers in graph.shared.values() for producer in producers}
        assert used - taps(ring) <= set(ring.deployed), "a stream is used whose producer has gone"
        expected |= used
    assert set(ring.deployed) == expected - taps(ring), "a producer without a user, or the other way round"
    for address, each in ring.synergy.items():
        assert not each.ledger.reservations, "a reservation has leaked"
        assert each.ledger.requests == {request for peer, request, _ in expected if peer == address}
        assert {(application, operator) for peer, application, operator in expected if peer == address} == {
            name for name, _ in each.session.components.items()
        }
        assert not each.requests.undecided
    for request in requests:
        decided = ring.status(request)
        origin_alive = any(event.peer in ring.synergy for event in ring.events(request, RequestSubmitted))
        assert decided != "composing" or not origin_alive, "a request was never decided"
