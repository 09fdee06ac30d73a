"""One peer that leads an application; a test is all its other peers."""

from __future__ import annotations

from collections.abc import Mapping

from synergy_nb.control.graph import Producer
from synergy_nb.control.roles import Roles
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import Confirmed, Entrust
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.lifecycle.requests.decider import Decision
from synergy_nb.plan import Plan
from tests.one_peer import OnePeer

__all__ = ["lead", "set_up"]


def set_up(
    one: OnePeer, plan: Plan, peers: dict[str, str], shared: Mapping[str, tuple[Producer, ...]] | None = None
) -> Request:
    """Have a peer set up the application r with these peers; taps read what ``shared`` says."""
    request = Request("r", plan, "active", 0.0)
    by_peer = {tap: {peers[tap]: producers} for tap, producers in (shared or {}).items()}
    request.alternative = Alternative(plan, by_peer)
    request.enter(State.DECIDING)
    request.enter(State.ESTABLISHING)
    one.call(one.synergy.session.establish, request, Decision(Roles(peers), {}))
    return request


def lead(
    one: OnePeer, plan: Plan, peers: dict[str, str], shared: Mapping[str, tuple[Producer, ...]] | None = None
) -> Request:
    """Have a peer lead the application r, which runs: all that have to have confirmed it."""
    request = set_up(one, plan, peers, shared)
    for to, _ in one.sent(Entrust):
        one.receive(to, Confirmed("r", 1, ""))
    graph = request.graph
    for name in sorted({*plan.sources, *graph.helpers, *graph.owner_origins}):
        one.receive(peers.get(name, name), Confirmed("r", 1, name))
    assert request.running
    return request
