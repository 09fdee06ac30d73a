"""A chain of components with backups on given simulated peers."""

from __future__ import annotations

import math

from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.plan import Plan, source
from tests.simulated import Ring

PEERS = {"source": "peer-1", "o0": "peer-2", "o1": "peer-2", "sink": "peer-0"}


BACKUPS = {"o0": ("peer-3", "peer-4"), "o1": ("peer-3", "peer-4")}


def plan() -> Plan:
    stream = source("packets", rate=100.0, at="peer-1", id="source")
    return stream.filter("bytes > 0", cost="1 ms", id="o0").filter("bytes > 1", cost="1 ms", id="o1").sink(id="sink")


def graph(peers: dict[str, str]) -> ComponentGraph:
    asked = plan()
    hops = {name: Hop(name, peer, 1.0, 1e8, 0.001, 0.01) for name, peer in peers.items()}
    edges = [(up, name) for name in asked.operators for up in asked.upstream(name)]
    return ComponentGraph(hops, dict.fromkeys(edges, (math.inf, 0.01)))


def established(ring: Ring, backups: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    """An application ``r`` of peer 0; gives what its set-up came to."""
    answers = ring.establish("peer-0", "r", plan(), graph(PEERS), BACKUPS if backups is None else backups)
    ring.run(3.0)
    return answers


def stopped(ring: Ring) -> None:
    """Nothing is left of it."""
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(12.0)
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())
    assert not ring.overbooked()


def at(ring: Ring) -> dict[str, str]:
    """Where each operator is deployed."""
    return {operator: address for (address, _, operator) in ring.deployed}
