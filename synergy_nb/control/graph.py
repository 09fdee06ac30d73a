"""Component graphs, the probed paths that they are merged from, and two values exchanged with drivers about them.

A *component graph* λ (section 2.2.1) maps each operator of a query plan to the peer whose component executes it. A
*replication graph* ρ (section 4.2) maps each component to the peers of its backups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from synergy_nb.models.overheads import exceeding, quantile, together
from synergy_nb.models.queueing import tandem_tail
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import TAP

__all__ = [
    "ComponentGraph",
    "Hop",
    "PlacementRequest",
    "Producer",
    "Report",
    "Roles",
    "late_share",
    "merge",
]


class Roles(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The peer, backups and follower of each operator of a plan: the graphs λ and ρ (section 4.2).

    Parameters
    ----------
    peers
        Component graph λ: operator id to the address of the peer that executes it, its primary. The address of an
        active replica that was lost is empty.
    backups
        Replication graph ρ: replicated operator to the addresses of its backups, in the order in which they were
        placed. The primary sends its output to each of them.
    followers
        Operator that is to move to the address of its follower.
    epochs
        Operator to the number of its moves and take-overs; operators without any are left out.
    inputs
        Operator that reads active replicas to the number of the plan's input that each of its inputs reads, where some
        were discarded or revived: -1 for a discarded one. Revived ones come after all others, whose numbers stay.

    Examples
    --------
    >>> placed = Roles({"source": "a", "o1": "a", "sink": "c"}, {"o1": ("b",)})
    >>> placed.replicas, sorted(placed.hosts), placed.at("a")
    ({'o1': ('a', 'b')}, ['a', 'b'], {'source': 'primary', 'o1': 'primary'})
    >>> taken = placed.replaced({"o1": "b"}, {"o1": ()})
    >>> taken.peers["o1"], taken.backups, taken.epochs
    ('b', {'o1': ()}, {'o1': 1})
    """

    peers: dict[str, str] = {}
    backups: dict[str, tuple[str, ...]] = {}
    followers: dict[str, str] = {}
    epochs: dict[str, int] = {}
    inputs: dict[str, tuple[int, ...]] = {}

    @property
    def replicas(self) -> dict[str, tuple[str, ...]]:
        """Each replicated operator to the peers of all its replicas, the primary first."""
        return {name: (self.peers[name], *peers) for name, peers in self.backups.items()}

    @property
    def hosts(self) -> frozenset[str]:
        """Peers with replicas; peers that only execute operators without backups are not among them."""
        return frozenset(peer for peers in self.replicas.values() for peer in peers)

    @property
    def copies(self) -> frozenset[str]:
        """Peers with backups or followers."""
        return frozenset({*(peer for peers in self.backups.values() for peer in peers), *self.followers.values()})

    @property
    def addresses(self) -> frozenset[str]:
        """All peers that take part."""
        return self.copies | frozenset(filter(None, self.peers.values()))

    def at(self, address: str) -> dict[str, str]:
        """Roles of a peer: operator id to ``primary`` or ``backup``."""
        found = {name: "primary" for name, peer in self.peers.items() if peer == address}
        return found | dict.fromkeys(self.backed_up(address), "backup")

    def backed_up(self, address: str) -> list[str]:
        """Operators with a backup at a peer, sorted."""
        return sorted(operator for operator, peers in self.backups.items() if address in peers)

    def merged(self, other: Roles) -> Roles:
        """The union of two parts of one graph."""
        return Roles({**self.peers, **other.peers}, {**self.backups, **other.backups})

    def with_follower(self, operator: str, peer: str) -> Roles:
        """The same roles with a follower of an operator at a peer; a backup there becomes the follower."""
        backups = self.backups
        if operator in backups:
            backups = {**backups, operator: tuple(each for each in backups[operator] if each != peer)}
        return msgspec.structs.replace(self, backups=backups, followers={operator: peer})

    def replaced(self, successors: Mapping[str, str], backups: Mapping[str, tuple[str, ...]]) -> Roles:
        """The same roles with operators at other peers, each in its next epoch, and without followers."""
        epochs = {**self.epochs, **{name: self.epochs.get(name, 0) + 1 for name in successors}}
        return Roles({**self.peers, **successors}, dict(backups), {}, epochs, self.inputs)

    def without(self, lost: Collection[str]) -> Roles:
        """The same roles after active replicas were lost: nobody executes them."""
        return msgspec.structs.replace(self, peers={**self.peers, **dict.fromkeys(lost, "")})

    def reads(self, plan: Plan, operator: str) -> tuple[str, ...]:
        """What each input of an operator reads; an empty text for a discarded stream and for a lost replica."""
        inputs = plan.operators[operator].inputs
        names = [inputs[number] if number >= 0 else "" for number in self.inputs.get(operator, range(len(inputs)))]
        return tuple(up if up and self.peers[up] else "" for up in names)

    def ports(self, plan: Plan, operator: str) -> tuple[int, ...]:
        """Port of an operator that each of its inputs feeds; empty where each has a port of its own."""
        node = plan.operators[operator]
        revived = self.inputs.get(operator, ())[len(node.inputs) :]
        planned = node.ports or tuple(range(len(node.inputs)))
        return (*planned, *(planned[number] for number in revived)) if revived else node.ports

    def without_stream(self, plan: Plan, reader: str, number: int) -> Roles:
        """The same roles after the stream of an input of the plan was discarded."""
        present = self.inputs.get(reader, range(len(plan.operators[reader].inputs)))
        left = tuple(-1 if each == number else each for each in present)
        return msgspec.structs.replace(self, inputs={**self.inputs, reader: left})

    def with_stream(self, plan: Plan, reader: str, number: int) -> Roles:
        """The same roles after the discarded stream of an input of the plan was revived: it is a further input."""
        present = self.inputs.get(reader, range(len(plan.operators[reader].inputs)))
        return msgspec.structs.replace(self, inputs={**self.inputs, reader: (*present, number)})


class PlacementRequest(msgspec.Struct, frozen=True):
    """An instruction to the driver: compute a resilient placement of a plan, and send a :class:`PlacementDecided`.

    Parameters
    ----------
    request, attempt
        Id of the request, and number of the attempt.
    plan
        Encoded plan (``Plan.to_bytes()``).
    capacities
        Address of a peer to its free processing capacity, cores.
    pinned
        Operator to its only candidate.
    """

    request: str
    attempt: int
    plan: bytes
    capacities: dict[str, float]
    pinned: dict[str, str]


class Report(msgspec.Struct, frozen=True):
    """An instruction to the driver: report the new state of an application to the client that submitted it.

    Parameters
    ----------
    application
        Id of the application.
    status
        New :class:`~synergy_nb.events.application_states.Status` of the application.
    reason
        Sentence that explains the status; empty where no explanation is needed.
    roles
        Peers and backups of each operator; empty before the application runs.
    """

    application: str
    status: str
    reason: str = ""
    roles: Roles = Roles()

    @property
    def peers(self) -> dict[str, str]:
        """The component graph λ: operator id to address."""
        return self.roles.peers

    @property
    def backups(self) -> dict[str, tuple[str, ...]]:
        """The replication graph ρ: operator id to the addresses of its backups."""
        return self.roles.backups


class Hop(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The measurements of a probe at one component (step 2).

    Parameters
    ----------
    operator
        Operator id of the plan.
    peer
        Address of the peer that offers the component.
    capacity
        Residual processing capacity of the peer for this request, in cores: capacity that other requests have neither
        committed nor reserved. The request's own load is not subtracted yet.
    bandwidth
        Residual bandwidth of the virtual link over which the probe arrived, in bytes/s, counted in the same way;
        infinite within a peer.
    processing
        Execution time of a tuple at the component, in seconds: processing, waiting, and the measured overhead.
    transmission
        Time from the upstream peer to this one, in seconds.
    variance
        Variance of processing and transmission together, in seconds squared; 0 where overheads are not measured.
    """

    operator: str
    peer: str
    capacity: float
    bandwidth: float
    processing: float
    transmission: float
    variance: float = 0.0


class Producer(NamedTuple):
    """A component of one application that produces a stream which another application uses.

    Parameters
    ----------
    application, operator
        Application that had it deployed, and id of its operator.
    peer
        Address of the peer that executes it.
    epoch
        Number of its moves and take-overs.
    origin
        Address of the peer that leads the application, and reports moves of the component; empty if that application
        has ended.
    copies
        Addresses of the peers with backups or a follower.
    """

    application: str
    operator: str
    peer: str
    epoch: int = 0
    origin: str = ""
    copies: tuple[str, ...] = ()

    def orphaned(self) -> Producer:
        """The component after the end of its application: without origin and copies."""
        return self._replace(origin="", copies=())


class ComponentGraph(msgspec.Struct, frozen=True):
    """A component graph λ with the measurements of probes, before it is admitted.

    Parameters
    ----------
    hops
        Operator id to the component chosen for it, with the measurements of its probe.
    links
        (upstream operator, operator) edge of the plan to (residual bandwidth in bytes/s, transmission time in seconds)
        of the virtual link that carries it; bandwidth is infinite within a peer.
    """

    hops: dict[str, Hop]
    links: dict[tuple[str, str], tuple[float, float]]

    @property
    def peers(self) -> dict[str, str]:
        """Operator id to address."""
        return {operator: hop.peer for operator, hop in self.hops.items()}

    def delay(self, plan: Plan) -> float:
        """End-to-end execution time of the longest path, in seconds: processing and transmission (section 2.2.2)."""
        reached = self.reached(plan)
        return max(reached[sink] for sink in plan.sinks)

    def reached(self, plan: Plan) -> dict[str, float]:
        """Operator to the time from a source until a tuple leaves it, over the longest path to it, seconds.

        A port that stream replicas feed has a tuple as soon as the fastest of them delivers it.
        """
        return self._fastest(plan)[0]

    def _fastest(self, plan: Plan) -> tuple[dict[str, float], dict[str, list[str]]]:
        """The time until a tuple leaves each operator, and the fastest stream of each port."""
        reached: dict[str, float] = {}
        fastest: dict[str, list[str]] = {}
        for operator, node in plan.operators.items():
            first: dict[int, tuple[float, str]] = {}  # by port
            for number, upstream in enumerate(node.inputs):
                arrived = reached[upstream] + self.links[upstream, operator][1]
                port = node.ports[number] if node.ports else number
                if port not in first or arrived < first[port][0]:
                    first[port] = arrived, upstream
            reached[operator] = self.hops[operator].processing + max((at for at, _ in first.values()), default=0.0)
            fastest[operator] = [upstream for _, upstream in first.values()]
        return reached, fastest

    def routes(self, plan: Plan) -> Sequence[tuple[str, ...]]:
        """Paths from sources to sinks on which results depend: where stream replicas feed a port, over the fastest."""
        if not any(node.ports for node in plan.operators.values()):
            return plan.routes
        fastest = self._fastest(plan)[1]

        def to(operator: str) -> list[tuple[str, ...]]:
            return [(*path, operator) for up in fastest[operator] for path in to(up)] or [(operator,)]

        return [path for sink in plan.sinks for path in to(sink)]

    def delay_quantile(self, plan: Plan, late: float | None) -> float:
        """Delay on the slowest route that at most a share ``late`` of the tuples exceeds, seconds.

        If ``late`` is None, or if no hop has a measured variance, this is the end-to-end execution time.
        """
        slowest = self.delay(plan)
        if late is None:
            return slowest
        for route in self.routes(plan):
            hops = [self.hops[operator] for operator in route]
            mean = sum(hop.processing for hop in hops) + sum(self.links[edge][1] for edge in pairwise(route))
            slowest = max(slowest, quantile(mean, together(hop.variance for hop in hops), 1.0 - late))
        return slowest

    def miss_rate(self, plan: Plan, limit: float) -> float:
        """Projected share of tuples that take longer than ``limit`` seconds, on the route with the largest share.

        See :func:`late_share` for the distribution that is assumed.
        """
        return max(
            late_share(
                [self.hops[operator] for operator in route],
                [self.links[edge][1] for edge in pairwise(route)],
                plan,
                limit,
            )
            for route in self.routes(plan)
        )

    def throughput(self, plan: Plan) -> float:
        """Rate at the slowest sink, tuples/s, if the sources emitted as fast as the bottleneck of the graph allows.

        This is a bottleneck metric: the least ratio, over all peers and links, of the residual resources to those that
        the request needs there (section 2.2.2 has additive metrics only).
        """
        required: dict[str, float] = {}
        left: dict[str, float] = {}
        for operator, hop in self.hops.items():
            required[hop.peer] = required.get(hop.peer, 0.0) + plan.load(operator)
            left[hop.peer] = min(hop.capacity, left.get(hop.peer, math.inf))
        for (upstream, operator), (available, _) in self.links.items():
            pair = f"{self.hops[upstream].peer} {self.hops[operator].peer}"
            if math.isfinite(available):
                required[pair] = required.get(pair, 0.0) + plan.bandwidth(upstream)
                left[pair] = min(available, left.get(pair, math.inf))
        room = min((left[name] / amount for name, amount in required.items() if amount > 0.0), default=math.inf)
        return min(plan.rate(sink) for sink in plan.sinks) * room

    def balance(self, plan: Plan) -> float:
        """Load balancing metric φ (equation 2.5); infinite where condition 2.3 or 2.4 does not hold.

        φ(λ) = Σ p_o / (rp_v + p_o) + Σ b_s / (rb_l + b_s), rp and rb being residual after the graph is admitted.
        """
        required: dict[str, float] = {}
        for operator, hop in self.hops.items():
            required[hop.peer] = required.get(hop.peer, 0.0) + plan.load(operator)
        crossing: list[tuple[tuple[str, str], float, float]] = []  # pair of peers, bandwidth required and available
        wired: dict[tuple[str, str], float] = {}
        for (upstream, operator), (available, _) in self.links.items():
            pair = (self.hops[upstream].peer, self.hops[operator].peer)
            bandwidth = plan.bandwidth(upstream)
            if pair[0] != pair[1] and bandwidth > 0.0:
                crossing.append((pair, bandwidth, available))
                wired[pair] = wired.get(pair, 0.0) + bandwidth
        phi = 0.0
        for operator, hop in self.hops.items():
            load = plan.load(operator)
            residual = hop.capacity - required[hop.peer]
            if residual < -1e-9:
                return float("inf")  # condition 2.3
            if load > 0.0:
                phi += load / (max(residual, 0.0) + load)
        for pair, bandwidth, available in crossing:
            residual = available - wired[pair]
            if residual < -1e-9 * available:
                return float("inf")  # condition 2.4
            phi += bandwidth / (max(residual, 0.0) + bandwidth)
        return phi


def late_share(hops: Sequence[Hop], transmissions: Sequence[float], plan: Plan, limit: float) -> float:
    """Share of tuples that take longer than ``limit`` seconds over a path of consecutive hops.

    Where hops have measured variances, the delay of the path is assumed to be log-normal with their mean and variance;
    otherwise the time at each component is assumed to be exponential, as in M/M/1 queues.
    """
    varies = together(hop.variance for hop in hops)
    if varies > 0.0:
        return exceeding(sum(hop.processing for hop in hops) + sum(transmissions), varies, limit)
    taps = [hop.processing for hop in hops if plan.operators[hop.operator].kind == TAP]  # time before the shared stream
    served = [hop.processing for hop in hops if plan.operators[hop.operator].kind != TAP]
    return tandem_tail(0.0, served, limit - sum(transmissions) - sum(taps))


def merge(plan: Plan, paths: Iterable[tuple[Hop, ...]], limit: int = 4096) -> list[ComponentGraph]:
    """Complete component graphs from probed paths (section 2.3.1, step 4).

    Paths over different routes of the plan can be merged if they have the same component for each operator that they
    share. So the graphs are the natural join of the paths, grouped by route.

    Parameters
    ----------
    plan
        Query plan ξ.
    paths
        Probed paths from a source to a sink, one hop for each operator.
    limit
        Maximum number of partial graphs during the join; those with the least transmission time are retained.

    Returns
    -------
    list of ComponentGraph
        Distinct graphs; empty if some route of the plan has no probed path.
    """
    groups: dict[tuple[str, ...], list[tuple[Hop, ...]]] = {route: [] for route in plan.routes}
    for path in paths:
        route = tuple(hop.operator for hop in path)
        if route in groups:
            groups[route].append(path)
    partial = [ComponentGraph({}, {})]
    covered: set[str] = set()
    for route, found in groups.items():
        shared = [operator for operator in route if operator in covered]
        index: dict[tuple[str, ...], list[tuple[Hop, ...]]] = {}
        for path in found:
            agreed = tuple(hop.peer for hop in path if hop.operator in covered)
            index.setdefault(agreed, []).append(path)
        partial = [
            _extend(graph, path)
            for graph in partial
            for path in index.get(tuple(graph.hops[operator].peer for operator in shared), ())
        ]
        partial.sort(key=lambda graph: sum([transmission for _, transmission in graph.links.values()]))
        del partial[limit:]
        covered.update(route)
    if covered != set(plan.operators):
        return []
    unique: dict[tuple[tuple[str, str], ...], ComponentGraph] = {}
    for graph in partial:
        unique.setdefault(tuple(sorted(graph.peers.items())), graph)
    return list(unique.values())


def _extend(graph: ComponentGraph, path: tuple[Hop, ...]) -> ComponentGraph:
    """The graph extended by one path; of two measurements of the same component or link, the worse counts."""
    hops = dict(graph.hops)
    links = dict(graph.links)
    before: Hop | None = None
    for hop in path:
        known = hops.get(hop.operator)
        if known is None or hop.capacity < known.capacity:
            hops[hop.operator] = hop
        if before is not None:
            edge = (before.operator, hop.operator)
            seen = links.get(edge)
            if seen is None:
                links[edge] = (hop.bandwidth, hop.transmission)
            else:
                links[edge] = (min(seen[0], hop.bandwidth), max(seen[1], hop.transmission))
        before = hop
    return ComponentGraph(hops, links)
