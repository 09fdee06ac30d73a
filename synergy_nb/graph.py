"""What is decided: component graphs, the resources they take, and the instructions that carry them out.

A *component graph* λ (section 2.2.1) gives each operator of a query plan the peer whose component executes it. The
:class:`Ledger` of a peer is the only place where its processing capacity and the bandwidth of its incoming virtual
links are taken and given back, so that nothing is promised twice: a *reservation* is transient and expires, a
*commitment* lasts as long as its application (section 2.3.1, step 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from synergy_nb.plan import Plan

__all__ = [
    "ROUNDING",
    "ComponentGraph",
    "Deploy",
    "Detach",
    "Hop",
    "Ledger",
    "Report",
    "Start",
    "Undeploy",
    "Use",
    "merge",
]

ROUNDING: Final = 1e-9  # share of a resource by which sums in different orders may differ


class Deploy(msgspec.Struct, frozen=True):
    """Create the execution of one operator of an application, with its queue and its channels downstream.

    Parameters
    ----------
    application, operator
        What to create.
    plan
        ``Plan.to_bytes()``.
    peers
        Operator id to the address of the peer that executes it: the component graph λ.
    discipline
        Order in which queued tuples are served: ``fcfs``, ``edf`` or ``least_slack``.
    """

    application: str
    operator: str
    plan: bytes
    peers: dict[str, str]
    discipline: str = "fcfs"


class Start(msgspec.Struct, frozen=True):
    """Let a source emit: all components of its application's graph are deployed."""

    application: str
    operator: str


class Undeploy(msgspec.Struct, frozen=True):
    """Stop the execution of one operator of an application and forget it."""

    application: str
    operator: str


class Detach(msgspec.Struct, frozen=True):
    """Let an operator of an application go on for those who share its stream, but send no more to its own consumers.

    Parameters
    ----------
    application, operator
        What goes on.
    consumers
        Operators of the same application that get no more of its stream, even where they were what it waited for.
    """

    application: str
    operator: str
    consumers: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """Tell whoever asked for an application at this peer what has become of it.

    Parameters
    ----------
    application
        Which.
    status
        ``running``, ``finished``, ``failed``, ``rejected`` or ``stopped``.
    reason
        One sentence; empty where nothing is to be explained.
    peers
        The component graph λ, operator id to address; empty where there is none.
    """

    application: str
    status: str
    reason: str = ""
    peers: dict[str, str] = {}


class Hop(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a probe learned at one component (step 2).

    Parameters
    ----------
    operator
        Operator id of the plan.
    peer
        Address of the peer that offers the component.
    capacity
        Residual processing capacity of the peer for this request, in cores: what is neither committed nor reserved by
        other requests. The request's own load is not yet taken off.
    bandwidth
        Residual bandwidth of the virtual link that the probe came over, in bytes/s, likewise; infinite within a peer.
    processing
        Processing time τ of the component, in seconds a tuple.
    transmission
        Time from the upstream peer to this one, in seconds.
    """

    operator: str
    peer: str
    capacity: float
    bandwidth: float
    processing: float
    transmission: float


Use = tuple[str, str, str]
"""A component that a stream is made by: application that had it deployed, operator, and the peer that it is on."""

Link = tuple[str, str]
"""Upstream peer and upstream operator: whose stream comes over the virtual link from that peer."""

CORES: Final = ""  # the resource that is no link; links go by the address of the upstream peer


class _Share:
    """What one request holds on a peer.

    Attributes
    ----------
    reserved, committed
        Operator to amounts by (resource, upstream operator); cores have no upstream operator.
    limit
        Resource to what was left for this request when it last reserved or committed.
    """

    __slots__ = ("committed", "limit", "reserved")

    def __init__(self) -> None:
        self.reserved: dict[str, dict[Link, float]] = {}
        self.committed: dict[str, dict[Link, float]] = {}
        self.limit: dict[str, float] = {}

    def promised(self, resource: str) -> float:
        """Committed amount of a resource."""
        return _sum(self.committed, resource)

    def held(self, resource: str) -> float:
        """Reserved amount of a resource.

        The operators that a request probes on a peer are alternatives as well as parts of one graph, so together they
        may ask for more than there is. The hold is never more than there was, and covers every graph that fits.
        """
        return min(_sum(self.reserved, resource), self.limit.get(resource, 0.0))


def _sum(claims: Mapping[str, Mapping[Link, float]], resource: str) -> float:
    return sum(amount for claim in claims.values() for (of, _), amount in claim.items() if of == resource)


class Ledger:
    """Processing capacity of one peer and bandwidth of its incoming virtual links, and who holds them.

    Parameters
    ----------
    cores
        Processing capacity, in cores.
    bandwidth
        Of each incoming virtual link, in bytes/s.

    Attributes
    ----------
    bandwidth_from : callable (address) -> float
        Bandwidth of the virtual link from an upstream peer; a driver that knows the network sets it.
    enforce : bool
        Whether more than there is can be refused; only policies to compare with go without.

    Notes
    -----
    At all times, and for every resource, commitments and holds together do not exceed the capacity.

    Examples
    --------
    >>> ledger = Ledger(cores=1.0, bandwidth=1e6)
    >>> ledger.reserve("r1", "filter", 0.75, ("peer-2", "packets"), 1000.0)
    >>> ledger.residual_cores("another request")
    0.25
    >>> ledger.commit("r1", "filter", 0.75, {("peer-2", "packets"): 1000.0})
    ''
    >>> ledger.release("r1")
    True
    >>> ledger.residual_cores("another request")
    1.0
    """

    def __init__(self, cores: float, bandwidth: float) -> None:
        for field, value in (("cores", cores), ("bandwidth", bandwidth)):
            if not value > 0:
                raise ValueError(f"{field}: {value}; expected a positive number")
        self.cores = cores
        self.enforce = True
        self.bandwidth_from: Callable[[str], float] = lambda _upstream: bandwidth
        self._shares: dict[str, _Share] = {}

    # -- what is left --------------------------------------------------------------------------------------------

    def _capacity(self, resource: str) -> float:
        return self.cores if resource == CORES else self.bandwidth_from(resource)

    def _residual(self, request: str, resource: str) -> float:
        left = self._capacity(resource)
        for other, share in self._shares.items():
            left -= share.promised(resource)
            if other != request:
                left -= share.held(resource)
        return left

    def residual_cores(self, request: str) -> float:
        """Residual processing capacity rp for ``request``, whose own reservations do not count, in cores."""
        return self._residual(request, CORES)

    def residual_bandwidth(self, request: str, upstream: str) -> float:
        """Residual bandwidth rb of the link from ``upstream`` for ``request``, in bytes/s."""
        return self._residual(request, upstream)

    # -- taking and giving back ------------------------------------------------------------------------------------

    def reserve(self, request: str, operator: str, cores: float, upstream: Link | None, bandwidth: float) -> None:
        """Hold ``cores`` and, from ``upstream`` (peer, operator), ``bandwidth`` for one operator of a request.

        Probes that reach the same component by other paths add their link and take no cores twice.
        """
        share = self._shares.setdefault(request, _Share())
        claim = share.reserved.setdefault(operator, {})
        claim[CORES, ""] = cores
        share.limit[CORES] = max(self._residual(request, CORES), 0.0)
        if upstream is not None:
            claim[upstream] = bandwidth
            share.limit[upstream[0]] = max(self._residual(request, upstream[0]), 0.0)

    def commit(self, request: str, operator: str, cores: float, links: Mapping[Link, float]) -> str:
        """Promise ``cores`` and, by upstream (peer, operator), bytes/s for good; empty, or the reason why not.

        A reservation of the same request and operator is used up. Without one (it has expired, or an earlier graph of
        the request has used it up), what is left decides.
        """
        share = self._shares.setdefault(request, _Share())
        if operator in share.committed:
            return ""
        share.reserved.pop(operator, None)
        asked: dict[str, float] = {CORES: cores}
        for (upstream, _), bandwidth in links.items():
            asked[upstream] = asked.get(upstream, 0.0) + bandwidth
        for resource, amount in asked.items():
            left = self._residual(request, resource)
            if self.enforce and left < amount - ROUNDING * self._capacity(resource):
                self._tidy(request)
                if resource == CORES:
                    return f"processing capacity: {left:.4g} of {amount:.4g} cores left"
                return f"bandwidth from {resource}: {left:.4g} of {amount:.4g} bytes/s left"
        share.committed[operator] = {(CORES, ""): cores, **links}
        for resource in asked:  # of what was not reserved, some was taken from what others left since
            share.limit[resource] = max(self._residual(request, resource), 0.0)
        return ""

    def drop(self, request: str, operator: str) -> None:
        """Give back what was promised to one operator of a request."""
        share = self._shares.get(request)
        if share is not None and share.committed.pop(operator, None) is not None:
            self._tidy(request)

    def expire(self, request: str) -> bool:
        """Drop the reservations of a request; its commitments stay."""
        share = self._shares.get(request)
        if share is None or not share.reserved:
            return False
        share.reserved.clear()
        self._tidy(request)
        return True

    def release(self, request: str) -> bool:
        """Drop all that a request holds."""
        return self._shares.pop(request, None) is not None

    def _tidy(self, request: str) -> None:
        share = self._shares[request]
        if not share.reserved and not share.committed:
            del self._shares[request]

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def load(self) -> float:
        """Committed share of the capacity."""
        return sum(share.promised(CORES) for share in self._shares.values()) / self.cores

    @property
    def requests(self) -> frozenset[str]:
        """Requests that hold anything."""
        return frozenset(self._shares)

    @property
    def reservations(self) -> frozenset[str]:
        """Requests that hold transient reservations."""
        return frozenset(request for request, share in self._shares.items() if share.reserved)

    def overbooked(self) -> str | None:
        """Which resource is promised beyond its capacity, or None: the invariant that tests hold."""
        resources = {CORES} | {of for share in self._shares.values() for of in share.limit}
        for resource in resources:
            capacity = self._capacity(resource)
            taken = sum(share.promised(resource) + share.held(resource) for share in self._shares.values())
            if taken > capacity * (1.0 + 1e-6):
                what = "cores" if resource == CORES else f"bytes/s from {resource}"
                return f"{taken:g} of {capacity:g} {what} promised"
        return None


class ComponentGraph(msgspec.Struct, frozen=True):
    """A component graph λ as probes saw it, before it is admitted.

    Parameters
    ----------
    hops
        Operator id to the component chosen for it, with what its probe found.
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
        return max(self.reached(plan).values())

    def reached(self, plan: Plan) -> dict[str, float]:
        """Seconds from a source until a tuple is done, by operator: the longest path to it."""
        reached: dict[str, float] = {}
        for operator in plan.operators:
            before = 0.0
            for upstream in plan.upstream(operator):
                arrived = reached[upstream] + self.links[upstream, operator][1]
                if arrived > before:
                    before = arrived
            reached[operator] = self.hops[operator].processing + before
        return reached

    def balance(self, plan: Plan) -> float:
        """Load balancing metric φ (equation 2.5); infinite where condition 2.3 or 2.4 does not hold.

        φ(λ) = Σ p_o / (rp_v + p_o) + Σ b_s / (rb_l + b_s), rp and rb being residual after the graph is admitted.
        """
        asked: dict[str, float] = {}
        for operator, hop in self.hops.items():
            asked[hop.peer] = asked.get(hop.peer, 0.0) + plan.load(operator)
        crossing: list[tuple[tuple[str, str], float, float]] = []  # pair of peers, bandwidth asked, and available
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
            residual = hop.capacity - asked[hop.peer]
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


def merge(plan: Plan, paths: Iterable[tuple[Hop, ...]], limit: int = 4096) -> list[ComponentGraph]:
    """Complete component graphs from probed paths (section 2.3.1, step 4).

    Paths over different operators of the plan belong together if they agree on the component of each operator that they
    share, so the graphs are the natural join of the paths, grouped by the operators that they visit.

    Parameters
    ----------
    plan
        Query plan ξ.
    paths
        Each from a source to a sink, one hop an operator.
    limit
        Partial graphs kept while joining, those of least delay so far.

    Returns
    -------
    list of ComponentGraph
        Without duplicates; empty if some path of the plan has not been probed with success.
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
    """The graph with one more path; where two probes saw the same thing, the worse of what they saw counts."""
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
