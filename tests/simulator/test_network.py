"""Topologies: the same from the same seed, shortest paths as networkx finds them, capacities from their classes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from synergy_nb.models.delay_matrix import one_way, read_rtt
from synergy_nb.simulator import network
from synergy_nb.simulator.kernel import SimulatedPeers
from synergy_nb.simulator.network import ACCESS, CAPACITIES, Topology, TransitStub, measured, of_topohub, transit_stub

SMALL = TransitStub(transit_domains=3, transit_routers=2, stub_domains=2, stub_routers=4)


def test_the_papers_network_has_the_papers_numbers() -> None:
    topology = transit_stub(seed=1)
    assert TransitStub().routers == 1500
    assert len(topology) == 500
    delays = topology.delays()
    assert delays.shape == (500, 500)
    assert np.array_equal(delays, delays.T)
    assert not np.diagonal(delays).any()
    between = delays[~np.eye(500, dtype=bool)]
    assert between.min() >= 2 * network.LAST_HOP
    assert 0.1 < 2 * np.median(between) < 0.2  # round trips about PlanetLab's 135 ms
    assert set(topology.cores.values()) == set(CAPACITIES)


def test_single_values_are_those_of_the_matrices() -> None:
    topology = transit_stub(60, SMALL, seed=2)  # 54 routers, so some have two peers
    delays, bandwidths = topology.delays(), topology.bandwidths()
    for row, one in enumerate(topology.peers):
        for column, other in enumerate(topology.peers):
            assert topology.delay(one, other) == delays[row, column]
            assert topology.bandwidth(one, other) == bandwidths[row, column]
    shared = delays[(delays > 0) & (delays <= 2 * network.LAST_HOP + 1e-12)]
    assert len(shared) == 2 * 6  # of peers on one router, in both directions
    assert set(np.unique(bandwidths)) <= {*ACCESS, *SMALL.stub_bandwidths, *SMALL.transit_bandwidths, np.inf}


@pytest.mark.parametrize("seed", range(3))
def test_paths_are_those_that_networkx_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = list(network.links_of(SMALL, rng))
    ends, delays, bandwidths = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    graph = nx.Graph()
    for (one, other), delay, bandwidth in zip(ends.tolist(), delays, bandwidths, strict=True):
        graph.add_edge(one, other, delay=delay, bandwidth=bandwidth)
    assert nx.is_connected(graph)
    assert len(graph) == SMALL.routers
    assert graph.number_of_edges() == len(ends)
    sources = np.sort(rng.choice(SMALL.routers, size=20, replace=False))
    found, slowest = network.shortest(SMALL.routers, ends, delays, bandwidths, sources)
    for row, one in enumerate(sources.tolist()):
        paths = nx.single_source_dijkstra_path(graph, one, weight="delay")
        for column, other in enumerate(sources.tolist()):
            steps = [graph.edges[step] for step in pairwise(paths[other])]
            assert found[row, column] == pytest.approx(sum(step["delay"] for step in steps))
            assert slowest[row, column] == min((step["bandwidth"] for step in steps), default=np.inf)


def test_stub_domains_hang_on_transit_routers() -> None:
    between, inner, gates, leaves = (part[0] for part in network.links_of(SMALL, np.random.default_rng(7)))
    transit = SMALL.transit_domains * SMALL.transit_routers
    assert max(between.max(), inner.max(), gates[:, 0].max()) < transit
    assert np.bincount(gates[:, 0]).tolist() == [SMALL.stub_domains] * transit
    domain = (leaves - transit) // SMALL.stub_routers
    assert (domain[:, 0] == domain[:, 1]).all()


def test_equal_seeds_make_equal_networks() -> None:
    one, same, other = (transit_stub(40, SMALL, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.delays(), same.delays())
    assert np.array_equal(one.bandwidths(), same.bandwidths())
    assert one.cores == same.cores
    assert not np.array_equal(one.delays(), other.delays())


def test_a_network_of_transit_routers_only() -> None:
    topology = transit_stub(6, TransitStub(transit_domains=3, transit_routers=2, stub_domains=0), seed=1)
    assert np.isfinite(topology.delays()).all()


def test_measured_delays_are_half_the_round_trips() -> None:
    rtt = np.array([[0, 10, 20], [30, 0, 40], [20, 40, 0]])
    topology = measured(rtt, ["a", "b", "c"], seed=1)
    found = sorted(topology.delay(one, other) for one, other in (("a", "b"), ("a", "c"), ("b", "c")))
    assert found == pytest.approx([0.010, 0.010, 0.020])
    crowded = measured(rtt, 5, seed=1)
    assert np.count_nonzero(crowded.delays() == 2 * network.LAST_HOP) == 2 * 2


def test_the_real_matrix_is_laid_under_peers(real_data: Path) -> None:
    path = real_data / "planetlab-rtt-490.npz"
    topology = measured(path, seed=1)
    assert len(topology) == 490
    delays = topology.delays()
    assert np.allclose(np.sort(delays, axis=None), np.sort(one_way(read_rtt(path)), axis=None))
    assert 2e3 * float(np.median(delays)) == pytest.approx(135, abs=1)
    assert len(measured(path, 88, seed=1)) == 88


def test_a_published_network_has_its_sites_and_delays() -> None:
    topology = of_topohub("sndlib/germany50", seed=1)
    assert len(topology) == 50
    delays = topology.delays()
    assert 0.001 < np.median(delays) < 0.01  # Germany is a thousand km across
    assert set(np.unique(topology.bandwidths())) <= {*ACCESS, *TransitStub().transit_bandwidths, np.inf}
    with pytest.raises(ValueError, match=r"key: 'sndlib/germania'; expected a network of topohub"):
        of_topohub("sndlib/germania")


def test_messages_take_their_time_in_the_simulator() -> None:
    from synergy_nb.control.peer import Message, Peer, Protocol

    class Hello(Message, frozen=True):
        pass

    class Listening(Protocol):
        def __init__(self, peer: Peer) -> None:
            super().__init__(peer)
            self.heard: list[float] = []
            self.handlers = {Hello: self._hear}

        def _hear(self, sender: str, message: Hello) -> None:
            self.heard.append(self.peer.now)

    topology = transit_stub(["a", "b"], SMALL, seed=5)
    simulation = SimulatedPeers(1, topology)
    listening = {}
    for address in topology.peers:
        peer = Peer(address, seed=1)
        listening[address] = Listening(peer)
        peer.add(listening[address])
        simulation.add(peer)
    simulation.call("a", simulation.peers["a"].send, "b", Hello())
    simulation.run(until=1.0)
    assert listening["b"].heard == [topology.delay("a", "b")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transit_stub(["a", "a"], SMALL), r"peers: \['a', 'a'\]; expected at least one, each address once"),
        (lambda: transit_stub(0, SMALL), r"peers: 0; expected at least one"),
        (lambda: transit_stub(3, SMALL, capacities={}), r"capacities: \{\}; expected positive capacities"),
        (lambda: transit_stub(3, SMALL, access={-1.0: 1.0}), r"access: \{-1.0: 1.0\}; expected positive capacities"),
        (lambda: measured([[0, 1]]), r"rtt_ms: shape \(1, 2\); expected a square matrix"),
        (lambda: measured("nowhere.npz"), r"rtt_ms: 'nowhere.npz'; expected an .npz file"),
    ],
)
def test_wrong_descriptions_of_networks_are_refused_by_name(make: Callable[[], Topology], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_peer_is_named() -> None:
    with pytest.raises(KeyError, match="peer: 'z'; expected one of the 3 of this topology"):
        transit_stub(3, SMALL).delay("peer-0", "z")


def test_a_network_in_two_parts_is_refused() -> None:
    ends = np.array([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="not connected"):
        network.shortest(4, ends, np.ones(2), np.ones(2), np.arange(4))
