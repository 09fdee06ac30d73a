"""A query with active replicas, and simulated peers for it."""

from __future__ import annotations

from synergy_nb.assembly import PeerConfig
from synergy_nb.plan import Plan, source
from tests.simulated import Ring


def query(availability: str | None = "active 3", **qos: str) -> Plan:
    packets = source("packets", rate=50.0, seed=1, id="packets").filter("bytes > 100", id="large")
    counts = packets.aggregate("source", "500 ms", n="count(*)", id="counts")
    return counts.filter("n > 1", id="several").sink("out", availability=availability, **qos)


def ring_of(peers: int, seed: int, cores: float = 1.0) -> Ring:
    return Ring(peers, seed=seed, config=lambda n: PeerConfig(f"peer-{n}", seed=n, cores=cores), codec=True)
