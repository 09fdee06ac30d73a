"""Networks for the simulator: peers on the sites of a topology, generated or measured.

A :class:`Topology` contains the one-way delays between sites along shortest paths, the bandwidth of the slowest link of
each path, and the site of each peer; it is a :class:`~synergy_nb.simulator.kernel.Network`. Peers and links have
capacities from discrete classes, as in the dissertation's simulations (section 2.4.2).

============================  ========================================================================================
:func:`transit_stub`          generated; 1500 routers and 500 peers by default, the dissertation's numbers
:func:`measured`              round-trip times between hosts, such as PlanetLab's
:func:`of_topohub`            published networks, if the package ``topohub`` is installed
============================  ========================================================================================

Of its network, the dissertation states only GT-ITM [1]_ and the numbers of routers and peers. The shape here is that of
the generator's own sample of 100 routers, fifteen times: transit domains of four routers, three stub domains of eight
routers at each, edges between two routers of a domain with probabilities .6 and .42. Delays are drawn so that the
median round-trip time is close to that of PlanetLab (135 ms).

A virtual link has the bandwidth of the slowest physical link of its path. The model ignores that several virtual links
may share a physical link.

References
----------
.. [1] E. W. Zegura, K. L. Calvert, S. Bhattacharjee, "How to model an internetwork", INFOCOM 1996.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from synergy_nb.models.delay_matrix import Matrix, one_way, read_rtt
from synergy_nb.overlay.latency import Latency

__all__ = ["ACCESS", "CAPACITIES", "KnownDelays", "Topology", "TransitStub", "measured", "of_topohub", "transit_stub"]

#: Classes of peers: processing capacity in cores to the percentage of the peers.
CAPACITIES: Final[Mapping[float, float]] = {0.5: 25.0, 1.0: 50.0, 2.0: 25.0}
#: Classes of the links of peers to their sites: bandwidth in bytes/s (10, 100 Mbit/s, 1 Gbit/s) to the percentage.
ACCESS: Final[Mapping[float, float]] = {1.25e6: 25.0, 12.5e6: 50.0, 125e6: 25.0}
#: One-way delay from a peer to its site, seconds.
LAST_HOP: Final = 0.0005
LIGHT_IN_FIBRE: Final = 2e5  # speed of light in fibre, km/s

Pairs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TransitStub:
    """Shape and links of a transit-stub network.

    Examples
    --------
    >>> TransitStub().routers
    1500
    """

    transit_domains: int = 15
    transit_routers: int = 4
    stub_domains: int = 3
    stub_routers: int = 8
    # between_domains, in_transit, in_stub: probabilities of an edge between two transit domains, and between two
    # routers of one transit or stub domain, in addition to a random tree that connects all of them
    between_domains: float = 0.2
    in_transit: float = 0.6
    in_stub: float = 0.42
    # between_domains_s, in_transit_s, to_stub_s, in_stub_s: least and greatest delay of a link between transit domains,
    # in a transit domain, from transit to stub routers, and in a stub domain, seconds
    between_domains_s: tuple[float, float] = (0.010, 0.040)
    in_transit_s: tuple[float, float] = (0.005, 0.015)
    to_stub_s: tuple[float, float] = (0.002, 0.008)
    in_stub_s: tuple[float, float] = (0.0005, 0.003)
    # transit_bandwidths, stub_bandwidths: bandwidth classes of links between transit routers, and of all others,
    # bytes/s; equally probable
    transit_bandwidths: tuple[float, ...] = (19.4e6, 77.8e6, 311e6)  # OC-3, OC-12, OC-48
    stub_bandwidths: tuple[float, ...] = (5.6e6, 12.5e6, 125e6)  # DS-3, 100 Mbit/s, 1 Gbit/s

    @property
    def routers(self) -> int:
        """Number of routers; those of transit domains have the lowest numbers."""
        return self.transit_domains * self.transit_routers * (1 + self.stub_domains * self.stub_routers)


class Topology:
    """Peers on the sites of a network.

    Examples
    --------
    >>> topology = measured([[0, 100], [100, 0]], peers=["a", "b"], seed=1)
    >>> topology.delay("a", "b")
    0.05
    >>> topology.delay("a", "a")
    0.0
    """

    def __init__(
        self,
        # one-way delays between sites in seconds, shape (sites, sites); the diagonal contains the delays between two
        # peers of one site
        delays: Matrix,
        bandwidths: Matrix,  # bandwidths between sites in bytes/s, shape (sites, sites)
        site: Mapping[str, int],  # address of a peer to its site
        # address of a peer to the bandwidth of its own link, bytes/s; it limits all virtual links of the peer
        access: Mapping[str, float],
        cores: Mapping[str, float],  # address of a peer to its processing capacity in cores
    ) -> None:
        self.peers = tuple(site)
        self.cores = dict(cores)
        used, places = np.unique(np.fromiter(site.values(), dtype=np.int64, count=len(site)), return_inverse=True)
        self._delays = np.ascontiguousarray(delays[np.ix_(used, used)])
        self._bandwidths = np.ascontiguousarray(bandwidths[np.ix_(used, used)])
        self._access = np.array([access[peer] for peer in self.peers])
        self._places = places
        self._site: dict[str, int] = dict(zip(self.peers, places.tolist(), strict=True))
        rows = [cast("Sequence[float]", memoryview(row)) for row in self._delays]  # indexed faster than an array
        self._row: dict[str, Sequence[float]] = {peer: rows[place] for peer, place in self._site.items()}
        self._number = {peer: number for number, peer in enumerate(self.peers)}

    def __len__(self) -> int:
        return len(self.peers)

    def add(self, peer: str, beside: str, cores: float | None = None) -> None:
        """Add a peer at the site of another one, with the same bandwidth.

        ``peer``, ``beside``: address of the new peer, and of the other one; ``cores``: processing capacity of the new
        peer in cores; None: that of the other one.
        """
        if peer in self._site:
            raise ValueError(f"peer: {peer!r}; expected an address that is not in use")
        place, number = self._site[beside], self._number[beside]
        self._number = {**self._number, peer: len(self.peers)}
        self.peers = (*self.peers, peer)
        self.cores = {**self.cores, peer: self.cores[beside] if cores is None else cores}
        self._access = np.append(self._access, self._access[number])
        self._places = np.append(self._places, place)
        self._site = {**self._site, peer: place}
        self._row = {**self._row, peer: self._row[beside]}

    def delay(self, sender: str, to: str) -> float:
        """One-way delay of a message from ``sender`` to ``to``, seconds; 0 to itself."""
        if sender == to:
            return 0.0
        try:
            return self._row[sender][self._site[to]]
        except KeyError as missing:
            raise KeyError(f"peer: {missing.args[0]!r}; expected one of the {len(self)} of this topology") from None

    def bandwidth(self, sender: str, to: str) -> float:
        """Bytes/s of the virtual link from ``sender`` to ``to``; infinite to itself."""
        if sender == to:
            return float("inf")
        one, other = self._number[sender], self._number[to]
        path = self._bandwidths[self._places[one], self._places[other]]
        return float(min(path, self._access[one], self._access[other]))

    def delays(self) -> Matrix:
        """All one-way delays in seconds, shape (peers, peers), in the order of :attr:`peers`."""
        found = self._delays[np.ix_(self._places, self._places)]
        np.fill_diagonal(found, 0.0)
        return found

    def bandwidths(self) -> Matrix:
        """Bytes/s of all virtual links, shape (peers, peers); infinite on the diagonal."""
        found = self._bandwidths[np.ix_(self._places, self._places)]
        np.minimum(found, np.minimum.outer(self._access, self._access), out=found)
        np.fill_diagonal(found, np.inf)
        return found


class KnownDelays(Latency):
    """The true delays from a peer to all others, as a perfect delay monitoring service gives them."""

    __slots__ = ("_own", "_topology")

    def __init__(self, topology: Topology, own: str) -> None:
        super().__init__()
        self._topology = topology
        self._own = own  # address of the peer

    def one_way(self, address: str) -> float | None:
        """Return the delay of one direction in seconds."""
        return self._topology.delay(self._own, address)


# -- the networks ------------------------------------------------------------------------------------------------------


def transit_stub(
    peers: int | Sequence[str] = 500,  # number of peers, for the addresses `peer-0` and so on, or their addresses
    shape: TransitStub | None = None,  # shape of the network; 1500 routers by default
    *,
    seed: int = 0,  # seed of the network, the sites and the capacities
    # capacities, access: classes of peers, by cores and by bandwidth of their links in bytes/s, with their shares
    capacities: Mapping[float, float] = CAPACITIES,
    access: Mapping[float, float] = ACCESS,
) -> Topology:
    """Place peers on random routers of a transit-stub network; on different ones if there are enough."""
    rng = np.random.default_rng(seed)
    shape = shape or TransitStub()
    ends, delays, bandwidths = (np.concatenate(parts) for parts in zip(*links_of(shape, rng), strict=True))
    return _placed(_names(peers), shape.routers, ends, delays, bandwidths, rng, capacities, access)


def measured(
    # round-trip times in ms, shape (hosts, hosts), or the path of an `.npz` file that holds them as `rtt_ms`
    rtt_ms: npt.ArrayLike | str | Path,
    peers: int | Sequence[str] | None = None,  # number of peers, or their addresses; by default one peer per host
    *,
    seed: int = 0,  # seed of the sites and the capacities
    # capacities, access: arguments of `transit_stub`; the bandwidth of a virtual link is that of the slower end
    capacities: Mapping[float, float] = CAPACITIES,
    access: Mapping[float, float] = ACCESS,
) -> Topology:
    """Place peers on random hosts of a matrix of measured delays; on different ones if there are enough."""
    delays = one_way(read_rtt(rtt_ms, "rtt_ms") if isinstance(rtt_ms, str | Path) else rtt_ms)
    np.fill_diagonal(delays, 2 * LAST_HOP)
    rng = np.random.default_rng(seed)
    names = _names(len(delays) if peers is None else peers)
    return Topology(delays, np.full(delays.shape, np.inf), *_placement(names, len(delays), rng, capacities, access))


def of_topohub(
    # name of the network, such as `"sndlib/germany50"`, `"backbone/africa"`, `"topozoo/Abilene"` or `"gabriel/500/0"`
    key: str,
    peers: int | Sequence[str] | None = None,  # number of peers, or their addresses; by default one peer per node
    *,
    seed: int = 0,  # seed of sites, capacities and bandwidths
    # classes of the network's links in bytes/s, equally probable
    bandwidths: Sequence[float] = TransitStub.transit_bandwidths,
    # capacities, access: arguments of `transit_stub`
    capacities: Mapping[float, float] = CAPACITIES,
    access: Mapping[float, float] = ACCESS,
) -> Topology:
    """Place peers on random nodes of a published network, with the delays of light in fibre.

    Raises ``ModuleNotFoundError`` if ``topohub`` is not installed; ``ValueError`` if topohub has no such network, or
    the network is not connected.
    """
    try:
        import topohub  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ModuleNotFoundError("topohub: not installed; pip install 'synergy-nb[experiments]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file to the collector
            found: dict[str, Any] = topohub.get(key)
    except KeyError:
        raise ValueError(f"key: {key!r}; expected a network of topohub, such as 'sndlib/germany50'") from None
    number = {node["id"]: at for at, node in enumerate(found["nodes"])}
    edges = [(number[edge["source"]], number[edge["target"]], float(edge["dist"])) for edge in found["edges"]]
    rng = np.random.default_rng(seed)
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64).reshape(-1, 2)
    delays = np.array([edge[2] for edge in edges]) / LIGHT_IN_FIBRE
    rates = rng.choice(np.asarray(bandwidths, dtype=np.float64), size=len(edges))
    names = _names(len(number) if peers is None else peers)
    return _placed(names, len(number), ends, delays, rates, rng, capacities, access)


# -- inside ------------------------------------------------------------------------------------------------------------


def links_of(shape: TransitStub, rng: np.random.Generator) -> Iterator[tuple[Pairs, Matrix, Matrix]]:
    """Ends, delays and bandwidths of the links of a transit-stub network."""

    def drawn(ends: Pairs, least_most: tuple[float, float], classes: tuple[float, ...]) -> tuple[Pairs, Matrix, Matrix]:
        return ends, rng.uniform(*least_most, size=len(ends)), rng.choice(np.array(classes), size=len(ends))

    domains, routers = shape.transit_domains, shape.transit_routers
    over = _connected(domains, shape.between_domains, rng)
    gates = over * routers + rng.integers(routers, size=over.shape)  # a random router of each domain
    yield drawn(gates, shape.between_domains_s, shape.transit_bandwidths)
    inner = [_connected(routers, shape.in_transit, rng) + domain * routers for domain in range(domains)]
    yield drawn(np.concatenate(inner), shape.in_transit_s, shape.transit_bandwidths)
    transit, stubs = domains * routers, domains * routers * shape.stub_domains
    if not stubs * shape.stub_routers:
        return
    first = transit + np.arange(stubs) * shape.stub_routers
    gate = first + rng.integers(shape.stub_routers, size=stubs)
    owner = np.repeat(np.arange(transit), shape.stub_domains)
    yield drawn(np.stack([owner, gate], axis=1), shape.to_stub_s, shape.stub_bandwidths)
    leaves = [_connected(shape.stub_routers, shape.in_stub, rng) + start for start in first.tolist()]
    yield drawn(np.concatenate(leaves), shape.in_stub_s, shape.stub_bandwidths)


def _connected(nodes: int, probability: float, rng: np.random.Generator) -> Pairs:
    """Edges of a random connected graph, shape (edges, 2): a random tree, and every other pair with a probability."""
    order = rng.permutation(nodes)
    chosen = np.triu(rng.random((nodes, nodes)) < probability, 1)
    for place in range(1, nodes):
        one, other = order[place], order[rng.integers(place)]
        chosen[min(one, other), max(one, other)] = True
    return np.argwhere(chosen).astype(np.int64)


def _placed(
    names: Sequence[str],
    routers: int,
    ends: Pairs,
    delays: Matrix,
    bandwidths: Matrix,
    rng: np.random.Generator,
    capacities: Mapping[float, float],
    access: Mapping[float, float],
) -> Topology:
    site, links, cores = _placement(names, routers, rng, capacities, access)
    used, places = np.unique(np.array(list(site.values())), return_inverse=True)
    between, slowest = shortest(routers, ends, delays, bandwidths, used)
    between += 2 * LAST_HOP
    return Topology(between, slowest, dict(zip(names, places.tolist(), strict=True)), links, cores)


def _placement(
    names: Sequence[str],
    sites: int,
    rng: np.random.Generator,
    capacities: Mapping[float, float],
    access: Mapping[float, float],
) -> tuple[dict[str, int], dict[str, float], dict[str, float]]:
    """Draw the site, the bandwidth of the own link in bytes/s, and the cores of each peer."""
    rounds = -(-len(names) // sites)
    site = np.concatenate([rng.permutation(sites) for _ in range(rounds)])[: len(names)]
    columns: list[list[float]] = []
    for field, classes in (("access", access), ("capacities", capacities)):
        values, shares = np.array(list(classes)), np.array(list(classes.values()))
        if not len(values) or not (values > 0).all() or not (shares >= 0).all() or not shares.sum() > 0:
            raise ValueError(f"{field}: {dict(classes)}; expected positive capacities with their shares")
        columns.append(rng.choice(values, size=len(names), p=shares / shares.sum()).tolist())
    links, cores = (dict(zip(names, column, strict=True)) for column in columns)
    return dict(zip(names, site.tolist(), strict=True)), links, cores


def shortest(routers: int, ends: Pairs, delays: Matrix, bandwidths: Matrix, sources: Pairs) -> tuple[Matrix, Matrix]:
    """Delays of the shortest paths between ``sources``, and the bandwidth of the slowest link of each path."""
    both = np.concatenate([ends, ends[:, ::-1]])
    key = both[:, 0] * routers + both[:, 1]
    known, first = np.unique(key, return_index=True)  # in order of rows and columns, as a CSR array is
    weight = np.maximum(np.concatenate([delays, delays])[first], 1e-9)  # a link of no length is a link
    rate = np.concatenate([bandwidths, bandwidths])[first]
    bounds = np.searchsorted(known, np.arange(routers + 1) * routers)
    graph = csr_array((weight, known % routers, bounds), shape=(routers, routers))
    distance, before = dijkstra(graph, directed=True, indices=sources, return_predecessors=True)
    if not np.isfinite(distance[:, sources]).all():
        raise ValueError("the network is not connected; expected a path between any two peers")
    # Pointer doubling along all paths: in each round, a router knows the slowest of twice as many links towards it.
    reached = before >= 0
    back = np.where(reached, before, np.arange(routers))
    last = np.searchsorted(known, back * routers + np.arange(routers))
    slowest = np.where(reached, rate[np.minimum(last, len(rate) - 1)], np.inf)
    while (back != sources[:, None]).any():
        slowest = np.minimum(slowest, np.take_along_axis(slowest, back, axis=1))
        further = np.take_along_axis(back, back, axis=1)
        if np.array_equal(further, back):
            break  # only routers without a path remain
        back = further
    between = distance[:, sources]
    return (between + between.T) / 2.0, slowest[:, sources]  # equal in both directions, whatever the order of the sum


def _names(peers: int | Sequence[str]) -> Sequence[str]:
    names = [f"peer-{number}" for number in range(peers)] if isinstance(peers, int) else list(peers)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"peers: {peers!r}; expected at least one, each address once")
    return names
