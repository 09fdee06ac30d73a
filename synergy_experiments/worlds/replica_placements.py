"""Replicas placed by simulated peers, and by the algorithms that the dissertation compares with (section 4.5).

All peers submit one request each at the same time, for an application of n components: a chain with a split and a join.
The request's peer is its destination node, a random peer its source node. The points of Synergy come from the protocol:
complete peers on the kernel, with ring, directory and failure detector, whose messages have the delays of the network.
The other algorithms know everything.

Details that the dissertation does not state
--------------------------------------------
The dissertation does not state the resources of an application. Here all primaries together use a quarter of the
processing capacity, so that a peer has capacity for four applications, and a stream has 100 kB/s, a twelfth of the
slowest links. Both can be set.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from synergy_nb.algorithms.availability import (
    InsufficientCapacity,
    PlacementConfig,
    ResidualLimits,
    groups_of,
    latency_placement,
    on_one_group,
    optimal_placement,
    partition_placement,
    random_placement,
)
from synergy_nb.assembly import Machine, PeerConfig, SynergyPeer
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.control.roles import Roles
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.kernel import SimulatedPeers
from synergy_nb.simulator.network import ACCESS, CAPACITIES, Topology, measured, transit_stub

__all__ = [
    "AHEAD",
    "ALGORITHMS",
    "PlacementCost",
    "Requests",
    "World",
    "application",
    "mean",
    "placements",
    "simulated",
    "world",
]

#: The protocol that looks ahead: peers offer all components that they have room for, with their backups; ours.
AHEAD: Final = "synergy looking ahead"
#: Algorithms to compare. *Optimum* is the best placement under limits, for one request after the other: all components
#: on one group of peers, or *latency* under limits if no group has capacity for them.
ALGORITHMS: Final = ("synergy", AHEAD, "optimum", "optimal", "random", "partition", "latency", "latency apart")
STABLE: Final = 12.0  # virtual seconds after which the directory knows all components of a fresh ring
DECIDED: Final = 120.0  # virtual seconds in which all requests are decided
VALUE: Final = 16.0  # bytes of a tuple
TRIES: Final = 50  # random groups that are tried before the optimum is computed
COMPONENTS: Final = ("delay", "union", "source:python")


@dataclass(frozen=True)
class Requests:
    """Peers, a network, and a request from each peer.

    Parameters
    ----------
    peers, components, degree
        Numbers of peers and of components, and the replication degree ϱ.
    asking
        Number of peers that submit a request; 0 for all.
    load
        Share of all processing capacity that the primaries of all applications use together.
    stream
        Rate of each stream, bytes/s.
    access
        Bandwidth of the uplink and of the downlink of each peer, bytes/s; 0 if they are not limited.
    link
        Bandwidth of each virtual link, bytes/s, where all have the same; 0 for the classes of the network.
    delays
        Path of a matrix of measured round-trip times; empty for the transit-stub network of 1500 routers.
    equal
        Whether all peers have one core, instead of capacities from discrete classes.
    limits
        Whether the algorithms without limits obey these too.
    """

    peers: int = 20
    components: int = 9
    degree: int = 2
    asking: int = 0
    load: float = 0.25
    stream: float = 100e3
    access: float = 0.0
    link: float = 0.0
    delays: str = ""
    equal: bool = True
    limits: bool = False


@dataclass(frozen=True)
class World:
    """The common inputs of all algorithms: a network, and for each application the peer that submits it.

    Parameters
    ----------
    topology
        Peers and the network between them.
    plans
        Submitting peer to the query plan ξ.
    pinned
        Submitting peer to the peers of source and sink.
    access
        Bandwidth of the uplink and of the downlink of each peer, bytes/s.
    """

    topology: Topology
    plans: Mapping[str, Plan]
    pinned: Mapping[str, Mapping[str, str]]
    access: float = math.inf

    def limits(self) -> ResidualLimits:
        """Return the resources of all peers and links."""
        access = dict.fromkeys(self.topology.peers, self.access) if self.access < math.inf else None
        return ResidualLimits(self.topology.cores, self.topology.bandwidth, access, access)


def application(components: int, load: float, stream: float, source_at: str, sink_at: str) -> Plan:
    """Return an application: a chain with a split after the first component and a join two further on, if that long.

    Parameters
    ----------
    components
        Number of components.
    load
        Load of each component, cores.
    stream
        Rate of each stream, bytes/s; each branch has half.
    source_at, sink_at
        Peers of its source and of its sink.
    """
    rate = stream / VALUE
    cost = load / rate
    last = source("python", name="n", columns={"v": "float"}, rate=rate, at=source_at, cost=0.0)

    def step(before: Stream, number: int, selectivity: float = 1.0) -> Stream:
        return before.delay(cost, id=f"o{number}", selectivity=selectivity)

    number = 1
    while number <= components:
        if number == 2 and components >= 4:
            upper, lower = (step(last, each, selectivity=0.5) for each in (2, 3))
            last = upper.union(lower, id="o4", cost=cost)
            number = 5
        else:
            last = step(last, number)
            number += 1
    return last.sink("out", at=sink_at, cost=0.0)


@lru_cache(maxsize=8)
def world(given: Requests, seed: int) -> World:
    """Return network and requests, the same for all algorithms."""
    names = [f"peer-{number}" for number in range(1, given.peers + 1)]
    classes = {1.0: 1.0} if given.equal else CAPACITIES
    access = {given.link: 100.0} if given.link else ACCESS
    if given.delays:
        topology = measured(given.delays, names, seed=seed, capacities=classes, access=access)
    else:
        topology = transit_stub(names, seed=seed, capacities=classes, access=access)
    asking = names[: given.asking or None]
    load = given.load * sum(topology.cores.values()) / (len(asking) * given.components)
    rng = random.Random(f"requests/{seed}")
    plans = {name: application(given.components, load, given.stream, rng.choice(names), name) for name in asking}
    pinned = {
        name: {each.id: each.at for each in plan.operators.values() if each.at is not None}
        for name, plan in plans.items()
    }
    return World(topology, plans, pinned, given.access or math.inf)


@lru_cache(maxsize=64)
def placements(given: Requests, algorithm: str, seed: int) -> Mapping[str, Roles]:
    """Return the placement of each request by an algorithm, without requests that it cannot place.

    Parameters
    ----------
    given
        Peers and requests.
    algorithm
        Name of the algorithm, an element of :data:`ALGORITHMS`.
    seed
        Seed of the network, the requests and all choices. All algorithms get the same requests.

    Examples
    --------
    >>> found = placements(Requests(peers=6, components=4), "synergy", 1)
    >>> len(found), {len(peers) for graph in found.values() for peers in graph.replicas.values()}
    (6, {2})
    """
    met = world(given, seed)
    if algorithm in ("synergy", AHEAD):
        return simulated(met, given.degree, seed, ahead=algorithm == AHEAD)
    return dict(_decided(met, given, algorithm, random.Random(f"{algorithm}/{seed}")))


def _decided(met: World, given: Requests, algorithm: str, rng: random.Random) -> Iterator[tuple[str, Roles]]:
    """Yield placements by an algorithm that knows everything, request by request."""
    peers, degree, delay = met.topology.peers, given.degree, met.topology.delay
    limits = met.limits() if given.limits or algorithm == "optimum" else None
    groups = groups_of(peers, degree, rng)
    for name, plan in met.plans.items():
        pinned = met.pinned[name]
        try:
            match algorithm:
                case "optimum":
                    assert limits is not None
                    graph = _optimum(plan, degree, met, limits, pinned, rng)
                case "optimal":
                    graph = optimal_placement(plan, degree, peers, rng, pinned=pinned, limits=limits)
                case "random":
                    graph = random_placement(plan, degree, peers, rng, pinned=pinned, limits=limits)
                case "partition":
                    graph = partition_placement(plan, groups, rng, pinned=pinned, limits=limits)
                case _:
                    apart = algorithm == "latency apart"
                    graph = latency_placement(plan, degree, peers, delay, pinned=pinned, limits=limits, apart=apart)
        except InsufficientCapacity:
            continue
        yield name, graph


def _optimum(
    plan: Plan, degree: int, met: World, limits: ResidualLimits, pinned: Mapping[str, str], rng: random.Random
) -> Roles:
    """Return an optimal placement on one group; if no group has enough resources, a placement by latency."""
    peers = met.topology.peers
    for _ in range(TRIES):
        try:
            return optimal_placement(plan, degree, peers, rng, pinned=pinned, limits=limits)
        except InsufficientCapacity:
            continue
    found = on_one_group(plan, degree, peers, limits, pinned=pinned)
    if found is None:
        return latency_placement(plan, degree, peers, met.topology.delay, pinned=pinned, limits=limits)
    limits.admit(plan, found)
    return found


def simulated(met: World, degree: int, seed: int, *, ahead: bool = False) -> dict[str, Roles]:
    """Return the placements of the distributed protocol, with all requests submitted at once.

    Parameters
    ----------
    met
        Network and requests.
    degree
        Replication degree ϱ.
    seed
        Seed of the peers.
    ahead
        Whether the protocol looks ahead.
    """
    run = PlacementCost(met, seed, ahead=ahead)
    for name in met.plans:
        run.submit(name, degree)
    run.decide()
    return {name: graph for name, graph in run.found.items() if graph is not None}


class PlacementCost:
    """Simulated peers that place replicas.

    Parameters
    ----------
    met
        Network and requests.
    seed
        Seed of the peers.
    ahead
        Whether the protocol looks ahead.

    Attributes
    ----------
    peers : dict
        Address to peer.
    found : dict
        Placements by the peer that submitted the request; None where it failed.
    """

    def __init__(self, met: World, seed: int, *, ahead: bool = False) -> None:
        topology = met.topology
        self.met = met
        self.simulation = SimulatedPeers(seed, topology, keep_instructions=False)
        self.peers: dict[str, SynergyPeer] = {}
        self.found: dict[str, Roles | None] = {}
        self._asked: set[str] = set()
        for number, (address, cores) in enumerate(topology.cores.items()):
            own = seed * 1_000_003 + number
            config = PeerConfig(address, COMPONENTS, cores, seed=own, pings=4.0, placement=PlacementConfig(ahead=ahead))
            machine = Machine(
                bandwidth_from=partial(topology.bandwidth, to=address), uplink=met.access, downlink=met.access
            )
            self.peers[address] = each = SynergyPeer(address, config, machine)
            self.simulation.add(each.peer)
        rings = [each.pastry for each in self.peers.values()]
        assemble(rings, rtt=lambda one, other: 2.0 * topology.delay(one, other), seed=seed)
        for address in self.peers:
            self.simulation.start(address)
            self.simulation.report(address, OfferComponents())
        self.simulation.run(STABLE)

    def submit(self, name: str, degree: int) -> None:
        """Submit a request at its peer."""
        protocol = self.peers[name].placement
        assert protocol is not None
        self._asked.add(name)

        def placed(graph: Roles | None, _: str) -> None:
            self.found[name] = graph

        plan = self.met.plans[name]
        self.simulation.call(name, lambda: protocol.submit(name, plan, placed, degree=degree))

    def decide(self) -> None:
        """Wait until all submitted requests are decided.

        Raises
        ------
        RuntimeError
            If a request is not decided in time.
        """
        limit = self.simulation.now + DECIDED
        self.simulation.run(limit, stop=lambda: self.found.keys() == self._asked)
        if self.found.keys() != self._asked:
            raise RuntimeError(f"{len(self._asked - self.found.keys())} requests are not decided in {DECIDED:g} s")

    def limits(self) -> ResidualLimits:
        """Return the residual resources of peers and links."""
        cores = {address: each.ledger.residual_cores("") for address, each in self.peers.items()}

        def bandwidth(sender: str, to: str) -> float:
            return self.peers[to].ledger.residual_bandwidth("", sender)

        if self.met.access == math.inf:
            return ResidualLimits(cores, bandwidth)
        uplinks = {address: each.ledger.residual_uplink for address, each in self.peers.items()}
        downlinks = {address: each.ledger.residual_downlink("") for address, each in self.peers.items()}

        return ResidualLimits(cores, bandwidth, uplinks, downlinks)


def mean(values: list[float]) -> float:
    """Return the mean; NaN without values."""
    return math.fsum(values) / len(values) if values else math.nan
