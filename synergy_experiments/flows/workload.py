"""Workloads of requests, as in the dissertation's experiments (sections 2.4.1 and 2.4.2).

A given number of unique components is placed on random peers, each on as many peers as the replication degree says.
A query consists of 2 to 10 random components, in a chain between a source and a sink, or in two branches that a union
joins. Requests arrive as a Poisson process, each at a random peer. The query of a request follows Zipf's law; or it is
new, except for a given share of repetitions. The delay limit of a request is a factor times its delay in isolation.

The dissertation does not say which items Zipf's law ranks, nor how many queries there are. Here it ranks whole queries
of a given population, "expecting stream processing applications to follow trends similar to media streaming and web
content". Requests for the same query share streams, and so do requests whose queries begin alike: the fewer sources and
components there are, the more is shared. The dissertation does not define the placement "in isolation" either: see
``isolated`` of :class:`Parameters`. A peer of capacity 2 takes half the processing time, as in the flow simulator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.models.queueing import execution_time
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.simulator.network import Topology

__all__ = [
    "TUPLE_BYTES",
    "Feed",
    "Isolated",
    "Parameters",
    "Query",
    "Request",
    "Step",
    "Unique",
    "Workload",
    "generate",
]

PeerNumbers = npt.NDArray[np.int64]  # numbers of peers
Isolated = Literal["mean", "least", "projected"]

#: Bytes of a tuple of every stream of a workload: of packets, for streams without a beginning can be shared.
TUPLE_BYTES: Final = 80.0
MOST: Final = 0.99  # largest load for which a time is projected
SOURCE: Final = "source"


@dataclass(frozen=True)
class Parameters:
    """Parameters of a workload; the defaults are those of the dissertation's simulations, where it states them.

    Parameters
    ----------
    components, replication
        Unique components, and peers that offer each.
    requests, arrivals
        Requests, and their mean number a second.
    operators
        Least and greatest number of operators of a query, between its source and its sink; uniform.
    population
        Number of different queries.
    zipf
        Exponent of Zipf's law: the probability of the query of rank r is proportional to r ** -zipf; 0: all are
        equally probable.
    repetitions
        Probability that a request repeats an earlier one, chosen uniformly; it replaces Zipf's law. The others ask for
        a query that has not been submitted before.
    sources
        Different source streams, each at a random peer; a query has one of them at random.
    rates
        Least and greatest tuples/s of a source; uniform.
    costs
        Least and greatest processing time of a component, seconds; uniform.
    branching
        Share of the queries of three operators and more that have two branches.
    missing
        Operators of each query that no peer offers a component for, instead of ones that are offered.
    slack
        Delay that a request allows beyond its delay in isolation, as a share of that.
    isolated
        Placement that this time is taken for, on peers that do nothing else: ``least``, the one that takes least;
        ``mean``, the mean over all; or ``projected``, the least time as it is projected (equation 2.6), in which tuples
        also wait for earlier ones of the same request.
    """

    components: int = 200
    replication: int = 5
    requests: int = 100
    arrivals: float = 9.0
    operators: tuple[int, int] = (2, 10)
    population: int = 500
    zipf: float = 1.6
    repetitions: float | None = None
    sources: int = 20
    rates: tuple[float, float] = (5.0, 15.0)
    costs: tuple[float, float] = (0.005, 0.015)
    branching: float = 0.0
    missing: int = 0
    slack: float = 0.3
    isolated: Isolated = "mean"

    def __post_init__(self) -> None:
        for name in ("components", "replication", "requests", "population", "sources", "missing"):
            least = 0 if name in ("requests", "missing") else 1
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)}; expected at least {least}")
        for name in ("operators", "rates", "costs"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise ValueError(f"{name}: {(low, high)}; expected the least and the greatest, from above 0")
        for name in ("branching", "repetitions"):
            share = getattr(self, name)
            if share is not None and not 0.0 <= share <= 1.0:
                raise ValueError(f"{name}: {share}; expected a share from 0 to 1")
        if not self.arrivals > 0.0 or not self.zipf >= 0.0 or not self.slack >= 0.0:
            values = f"{self.arrivals}, {self.zipf}, {self.slack}"
            raise ValueError(f"arrivals, zipf, slack: {values}; expected a rate above 0, and numbers from 0")
        if self.isolated not in get_args(Isolated):
            raise ValueError(f"isolated: {self.isolated!r}; expected {' or '.join(map(repr, get_args(Isolated)))}")
        if self.missing > self.operators[0]:
            raise ValueError(f"missing: {self.missing}; expected at most {self.operators[0]}, for queries may be short")


@dataclass(frozen=True)
class Unique:
    """A unique component: its processing time τ in seconds, and the peers that offer it."""

    name: str
    cost: float
    peers: tuple[str, ...]


@dataclass(frozen=True)
class Feed:
    """A source stream: the peer that it is at, its tuples/s, and a seed of its own."""

    name: str
    peer: str
    rate: float
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """An operator of a query: its component, ``union``, or ``source``; and the steps that it reads."""

    name: str
    component: str
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A query: a source, and steps in order; the sink reads the last one."""

    source: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Request:
    """A request for a query, submitted at a peer.

    Parameters
    ----------
    name
        Name of the request.
    arrival
        Arrival time, seconds from the first moment.
    origin
        Peer at which it is submitted, and to which its sink is pinned.
    query
        Number of the query.
    isolated
        Seconds that a tuple takes in isolation.
    limit
        Seconds q_t that it may take.
    """

    name: str
    arrival: float
    origin: str
    query: int
    isolated: float
    limit: float


@dataclass(frozen=True)
class Workload:
    """Components on peers, and requests for them.

    Examples
    --------
    >>> from synergy_nb.simulator.network import TransitStub, transit_stub
    >>> topology = transit_stub(50, TransitStub(transit_domains=2), seed=1)
    >>> workload = generate(topology, Parameters(components=20, requests=3), seed=1)
    >>> [len(unique.peers) for unique in workload.components.values()] == [5] * 20
    True
    >>> plan = workload.plan(workload.requests[0])
    >>> plan.sources, plan.sinks, plan.qos.delay == workload.requests[0].limit
    (('source',), ('sink',), True)
    """

    parameters: Parameters
    components: Mapping[str, Unique]
    feeds: Mapping[str, Feed]
    queries: tuple[Query, ...]
    requests: tuple[Request, ...]
    _offers: Mapping[str, tuple[str, ...]] = field(repr=False)

    def offers(self, peer: str) -> tuple[str, ...]:
        """Directory names of the components of a peer, for the configuration of a simulated or real one."""
        return self._offers[peer]

    def plan(self, request: Request) -> Plan:
        """The request as a query plan ξ with its QoS requirement."""
        query = self.queries[request.query]
        feed = self.feeds[query.source]
        pinned = source("packets", seed=feed.seed, rate=feed.rate, at=feed.peer, id=SOURCE)
        streams: dict[str, Stream] = {SOURCE: pinned}
        for step in query.steps:
            first, *others = (streams[each] for each in step.inputs)
            if others:
                streams[step.name] = first.union(*others, id=step.name)
            else:
                cost = self.components[step.component].cost
                streams[step.name] = first.delay(cost, component=step.component, id=step.name)
        last = streams[query.steps[-1].name]
        return last.sink(request.name, delay=request.limit, at=request.origin, id="sink")


def generate(topology: Topology, parameters: Parameters | None = None, *, seed: int = 0) -> Workload:
    """A workload for the peers of a topology.

    Parameters
    ----------
    topology
        Peers, their capacities, and how far apart they are; delays in isolation follow from these.
    parameters
        The dissertation's by default.
    seed
        Seed of all random choices. Components, sources, queries, requests and sites have generators of their own, so
        that more requests begin with the same ones, and another replication degree leaves the requests unchanged.

    Raises
    ------
    ValueError
        If there are fewer peers than the replication degree.
    """
    given = parameters or Parameters()
    peers = topology.peers
    if given.replication > len(peers):
        raise ValueError(f"replication: {given.replication}; expected at most {len(peers)}, the number of peers")
    for_costs, for_places, for_feeds, for_queries, for_requests, for_choices = (
        np.random.default_rng([seed, part]) for part in range(6)
    )
    components: dict[str, Unique] = {}
    for number in range(given.components):
        hosts = for_places.choice(len(peers), size=given.replication, replace=False)
        name, cost = f"c{number}", _cost(given, for_costs)
        components[name] = Unique(name, cost, tuple(peers[host] for host in hosts.tolist()))
    feeds: dict[str, Feed] = {}
    for number in range(given.sources):
        place, rate = int(for_feeds.integers(len(peers))), round(float(for_feeds.uniform(*given.rates)), 3)
        feeds[f"s{number}"] = Feed(f"s{number}", peers[place], rate, number)
    chosen = _choices(given, for_choices)
    offered = tuple(components)
    queries: list[Query] = []
    for number in range(max(chosen, default=-1) + 1):
        queries.append(_query(given, offered, feeds, number, for_queries))
        for step in queries[-1].steps:
            if step.component not in components and step.component != "union":
                components[step.component] = Unique(step.component, _cost(given, for_costs), ())
    distances = _Distances(topology, given.isolated)
    requests: list[Request] = []
    when = 0.0
    for number, query in enumerate(chosen):
        when += float(for_requests.exponential(1.0 / given.arrivals))
        origin = peers[int(for_requests.integers(len(peers)))]
        isolated = distances.isolated(queries[query], feeds, components, origin)
        limit = round(isolated * (1.0 + given.slack), 9)
        requests.append(Request(f"r{number}", when, origin, query, isolated, limit))
    return Workload(given, components, feeds, tuple(queries), tuple(requests), _offered(peers, components, feeds))


def _cost(given: Parameters, rng: np.random.Generator) -> float:
    return round(float(rng.uniform(*given.costs)), 6)


def _offered(
    peers: Sequence[str], components: Mapping[str, Unique], feeds: Mapping[str, Feed]
) -> dict[str, tuple[str, ...]]:
    offers: dict[str, list[str]] = {peer: ["sink", "union"] for peer in peers}
    for unique in components.values():
        for peer in unique.peers:
            offers[peer].append(f"delay:{unique.name}")
    for peer in {feed.peer for feed in feeds.values()}:
        offers[peer].append("source:packets")
    return {peer: tuple(sorted(names)) for peer, names in offers.items()}


def _choices(given: Parameters, rng: np.random.Generator) -> list[int]:
    """Number of the query that each request is for."""
    if given.repetitions is not None:
        chosen: list[int] = []
        for _ in range(given.requests):
            repeats, which = rng.random() < given.repetitions, rng.random()  # both, whatever the first says
            chosen.append(chosen[int(which * len(chosen))] if repeats and chosen else max(chosen, default=-1) + 1)
        return chosen
    weights = np.arange(1, given.population + 1, dtype=np.float64) ** -given.zipf
    found = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(given.requests), side="right")
    return [min(int(query), given.population - 1) for query in found]


def _query(
    given: Parameters, offered: Sequence[str], feeds: Mapping[str, Feed], number: int, rng: np.random.Generator
) -> Query:
    """A query of random components; components that no peer offers have names of their own."""
    feed = tuple(feeds)[int(rng.integers(len(feeds)))]
    size = int(rng.integers(given.operators[0], given.operators[1] + 1))
    branches = size >= 3 and rng.random() < given.branching
    work = size - 1 if branches else size  # the union is an operator too
    names = [offered[which] for which in rng.choice(len(offered), size=work, replace=work > len(offered)).tolist()]
    for place in rng.permutation(work)[: given.missing].tolist():
        names[place] = f"new{number}/{place}"
    if not branches:
        return Query(feed, tuple(_row(names, SOURCE, 1)))
    cuts = np.sort(rng.choice(work - 1, size=1) + 1).tolist()
    left, right = cuts[0], int(rng.integers(cuts[0] + 1, work + 1))  # where the second branch begins, and ends
    one, other = list(_row(names[:left], SOURCE, 1)), list(_row(names[left:right], SOURCE, left + 1))
    joined = Step("union", "union", (one[-1].name, other[-1].name))
    return Query(feed, (*one, *other, joined, *_row(names[right:], joined.name, right + 1)))


def _row(components: Iterable[str], upstream: str, first: int) -> Iterable[Step]:
    for number, component in enumerate(components, start=first):
        yield Step(f"o{number}", component, (upstream,))
        upstream = f"o{number}"


class _Distances:
    """Times of placements on idle peers."""

    def __init__(self, topology: Topology, isolated: str) -> None:
        self._number = {peer: number for number, peer in enumerate(topology.peers)}
        self._everywhere = np.arange(len(topology))
        sent = topology.delays()
        sent += TUPLE_BYTES / topology.bandwidths()  # transmission of a tuple
        self._sent: Matrix = sent
        self._cores = np.array([topology.cores[peer] for peer in topology.peers])
        self._least = isolated != "mean"
        self._projected = isolated == "projected"
        self._ends: dict[Query, tuple[PeerNumbers, Matrix]] = {}  # possible peers of the last step, and its end there

    def isolated(self, query: Query, feeds: Mapping[str, Feed], components: Mapping[str, Unique], origin: str) -> float:
        """Delay in isolation, seconds: of the longest path in the fastest placement, or of the longest mean path.

        Forwards along the steps, the time until a tuple is done at each peer that a step may be on. Branches only meet
        in the source, which is pinned, so the least is exact.
        """
        if query not in self._ends:
            at: dict[str, PeerNumbers] = {SOURCE: np.array([self._number[feeds[query.source].peer]])}
            done: dict[str, Matrix] = {SOURCE: np.zeros(1)}
            for step in query.steps:
                unique = components.get(step.component)
                hosts = unique.peers if unique is not None else ()
                at[step.name] = np.array([self._number[peer] for peer in hosts]) if hosts else self._everywhere
                reached = np.maximum.reduce([self._reached(at[up], done[up], at[step.name]) for up in step.inputs])
                work = (unique.cost if unique is not None else 0.0) / self._cores[at[step.name]]
                if self._projected:
                    work = work * execution_time(1.0, np.minimum(work * feeds[query.source].rate, MOST))
                done[step.name] = np.asarray(reached + work)
            last = query.steps[-1].name
            self._ends[query] = at[last], done[last]
        return float(self._reached(*self._ends[query], np.array([self._number[origin]]))[0])

    def _reached(self, at: PeerNumbers, done: Matrix, to: PeerNumbers) -> Matrix:
        """Earliest arrival of results from the peers ``at`` at each of the peers ``to``, seconds."""
        arrivals = done[:, None] + self._sent[np.ix_(at, to)]
        return np.asarray(arrivals.min(axis=0) if self._least else arrivals.mean(axis=0))
