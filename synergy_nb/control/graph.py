"""Component graphs, the probed paths that they are merged from, and two values exchanged with drivers about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from synergy_nb.control.roles import Roles
from synergy_nb.models.overheads import exceeding, quantile, together
from synergy_nb.models.queueing import tandem_tail
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import TAP

__all__ = [
    "ComponentGraph",
    "Hop",
    "Producer",
    "Report",
    "ResilientPlacementRequest",
    "late_share",
    "merge",
]


class ResilientPlacementRequest(msgspec.Struct, frozen=True):
    """An instruction to the driver: compute a resilient placement of a plan, and send a :class:`PlacementDecided`."""

    # request, attempt: id of the request, and number of the attempt
    request: str
    attempt: int
    plan: bytes  # encoded plan (`Plan.to_bytes()`)
    capacities: dict[str, float]  # address of a peer to its free processing capacity, cores
    pinned: dict[str, str]  # operator to its only candidate


class Report(msgspec.Struct, frozen=True):
    """An instruction to the driver: report the new state of an application to the client that submitted it."""

    application: str
    status: str  # new `Status` of the application
    reason: str = ""  # sentence that explains the status; empty where no explanation is needed
    roles: Roles = Roles()  # peers and backups of each operator; empty before the application runs

    @property
    def peers(self) -> dict[str, str]:
        """The component graph λ: operator id to address."""
        return self.roles.peers

    @property
    def backups(self) -> dict[str, tuple[str, ...]]:
        """The replication graph ρ: operator id to the addresses of its backups."""
        return self.roles.backups


class Hop(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The measurements of a probe at one component (step 2)."""

    operator: str  # operator id of the plan
    peer: str  # address of the peer that offers the component
    # residual processing capacity of the peer for this request, in cores: capacity that other requests have neither
    # committed nor reserved. The request's own load is not subtracted yet
    capacity: float
    # residual bandwidth of the virtual link over which the probe arrived, in bytes/s, counted in the same way; infinite
    # within a peer
    bandwidth: float
    # execution time of a tuple at the component, in seconds: processing, waiting, and the measured overhead
    processing: float
    transmission: float  # time from the upstream peer to this one, in seconds
    # variance of processing and transmission together, in seconds squared; 0 where overheads are not measured
    variance: float = 0.0
    # applications at the peer, and the seconds by which the component would delay each; empty unless a request adds
    # them up over its path
    impacts: tuple[tuple[str, float], ...] = ()


class Producer(NamedTuple):
    """A component of one application that produces a stream which another application uses."""

    # application, operator: application that had it deployed, and id of its operator
    application: str
    operator: str
    peer: str  # address of the peer that executes it
    epoch: int = 0  # number of its moves and take-overs
    # address of the peer that leads the application, and reports moves of the component; empty if that application has
    # ended
    origin: str = ""
    copies: tuple[str, ...] = ()  # addresses of the peers with backups or a follower
    # address of the peer that leads the application after the death of its origin; empty if there is none
    successor: str = ""

    def orphaned(self) -> Producer:
        """This producer after the end of its application: without origin and copies."""
        return self._replace(origin="", copies=(), successor="")


class ComponentGraph(msgspec.Struct, frozen=True):
    """A component graph λ with the measurements of probes, before it is admitted."""

    hops: dict[str, Hop]  # operator id to the component chosen for it, with the measurements of its probe
    # (upstream operator, operator) edge of the plan to (residual bandwidth in bytes/s, transmission time in seconds) of
    # the virtual link that carries it; bandwidth is infinite within a peer
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
        """Paths from sources to sinks on which results depend; of stream replicas at a port, the fastest counts."""
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

    ``paths``: probed paths from a source to a sink, one hop for each operator; ``limit``: maximum number of partial
    graphs during the join; those with the least transmission time are retained.

    Returns: distinct graphs; empty if some route of the plan has no probed path.
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
