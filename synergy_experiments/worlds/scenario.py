"""A simulated scenario: peers on a network, requests and a policy; and its outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec
import numpy as np

from synergy_experiments.flows.workload import Parameters, Request, Workload, generate
from synergy_nb.algorithms.composition import POLICIES, CompositionConfig
from synergy_nb.events import (
    ApplicationRunning,
    AttemptFailed,
    CandidatesFound,
    EnginesChanged,
    Event,
    GraphSelected,
    RequestSubmitted,
    SharingGivenUp,
)
from synergy_nb.lifecycle.requests.origins import ends_of, nearest
from synergy_nb.plan import Plan
from synergy_nb.simulator.network import CAPACITIES, Topology, TransitStub, measured, transit_stub

__all__ = ["Outcome", "Scenario", "Served"]


@dataclass(frozen=True)
class Scenario:
    """Peers, a network, requests, and a policy.

    Parameters
    ----------
    workload
        Components and requests.
    peers
        Number of peers.
    delays
        Path of a matrix of measured round-trip times; empty for the transit-stub network of 1500 routers.
    equal
        Whether all peers have one core, instead of capacities from discrete classes.
    policy
        Name of the policy, an element of :data:`~synergy_nb.algorithms.composition.POLICIES`.
    ratio, at_least, budget, choice, merged, summed, agreed, patience, backtracks, tolerance
        Parameters of :class:`~synergy_nb.algorithms.composition.CompositionConfig`, for the policies that probe.
    objective
        Parameter of the same class; empty for the policy's own.
    deployment
        Rule of :class:`~synergy_nb.algorithms.composition.CompositionConfig` for the peers of components that are
        missing or that no candidate can take on, by default none; empty for the policy's own.
    pings
        Seconds between pings of the failure detector. No peer fails here; with the usual half second, two of
        three messages would be pings.
    window
        Virtual seconds of tuples that are counted, after all requests are decided.
    origin
        Rule for the peer at which a request is submitted: ``client``, the peer in the workload; another rule of
        :data:`~synergy_nb.lifecycle.requests.origins.POLICIES`, with a client beside that peer; or ``random``, any
        peer.
    """

    workload: Parameters = field(default_factory=Parameters)
    peers: int = 500
    delays: str = ""
    equal: bool = False
    policy: str = "composition"
    ratio: float = 0.1
    at_least: int = 2
    budget: int = 8
    choice: str = "random"
    merged: bool = False
    summed: bool = False
    agreed: bool = False
    patience: float = 0.0
    backtracks: bool = False
    projector: str = "mm1"
    objective: str = ""
    tolerance: float = 0.0
    deployment: str = "off"
    pings: float = 4.0
    window: float = 60.0
    origin: str = "client"

    def config(self) -> CompositionConfig:
        """Return the parameters of composition at every peer."""
        config = POLICIES[self.policy]
        if self.deployment:
            config = msgspec.structs.replace(config, deployment=self.deployment)
        if not config.enforce and config.choice == "nearest":
            return config  # Greedy uses the nearest candidate of each operator
        return msgspec.structs.replace(
            config,
            ratio=self.ratio,
            at_least=self.at_least,
            budget=self.budget,
            choice=self.choice if config.enforce else config.choice,
            merged=self.merged,
            summed=self.summed,
            agreed=self.agreed,
            patience=self.patience,
            backtracks=self.backtracks,
            projection=config.projection and msgspec.structs.replace(config.projection, projector=self.projector),
            objective=self.objective or config.objective,
            tolerance=self.tolerance,
        )

    def world(self, seed: int) -> tuple[Topology, Workload]:
        """Return network and requests, the same for all policies."""
        topology, workload = _world(self.workload, self.peers, self.delays, self.equal, seed)
        return topology, workload if self.origin == "client" else _submitted(workload, topology, self.origin, seed)


@lru_cache(maxsize=4)
def _world(workload: Parameters, peers: int, delays: str, equal: bool, seed: int) -> tuple[Topology, Workload]:
    names = [f"peer-{number}" for number in range(1, peers + 1)]
    classes = {1.0: 1.0} if equal else CAPACITIES
    if delays:
        topology = measured(delays, names, seed=seed, capacities=classes)
    else:
        topology = transit_stub(names, TransitStub(), seed=seed, capacities=classes)
    return topology, generate(topology, workload, seed=seed)


def _submitted(workload: Workload, topology: Topology, rule: str, seed: int) -> Workload:
    """Return the workload with other origins, which also have the sinks."""
    peers = topology.peers
    rng = np.random.default_rng([seed, 224])
    offers = {peer: workload.offers(peer) for peer in peers}

    def between(one: str, other: str) -> float:
        return 2.0 * topology.delay(one, other)

    def origin(request: Request) -> str:
        if rule == "random":
            return peers[int(rng.integers(len(peers)))]
        plan = workload.plan(request)
        sink = msgspec.structs.replace(plan.operators["sink"], at=None)
        unbound = Plan([*(each for name, each in plan.operators.items() if name != "sink"), sink], plan.qos, plan.name)
        client = {peer: between(request.origin, peer) for peer in peers}
        return nearest(peers, ends_of(unbound, rule, offers, {}), client, between)[0]

    return replace(workload, requests=tuple(replace(each, origin=origin(each)) for each in workload.requests))


@dataclass
class Served:
    """The outcome of one request.

    Parameters
    ----------
    request
        Request that was served.
    status, reason
        Status ``running`` or ``rejected``, and its reason.
    plan, peers
        Plan that was set up, reduced where streams are shared, and its component graph λ.
    discovery, setup
        Virtual seconds that it waited for the directory, in all attempts; and until it ran.
    phi
        φ of the graph that was chosen.
    delay, own_delay, tuples, late
        Mean delay of its tuples in seconds, from the source and from the shared stream on; number of tuples,
        and of late ones.
    """

    request: Request
    status: str = ""
    reason: str = ""
    plan: Plan | None = None
    peers: Mapping[str, str] = field(default_factory=dict)
    discovery: float = 0.0
    setup: float = math.nan
    phi: float = math.nan
    delay: float = math.nan
    own_delay: float = math.nan
    tuples: int = 0
    late: int = 0
    _submitted: float = math.nan
    _asked: float = math.nan  # the last answer of the directory

    def note(self, event: Event) -> None:
        """Record an event of its journal: the times of its submission, discovery, decision and set-up."""
        match event:
            case RequestSubmitted():
                self._submitted = self._asked = event.time
            case AttemptFailed() | SharingGivenUp() | EnginesChanged():
                self._asked = event.time
            case CandidatesFound():
                self.discovery += event.time - self._asked
            case GraphSelected():
                self.phi = event.phi
            case ApplicationRunning():
                self.setup = event.time - self._submitted

    @property
    def admitted(self) -> bool:
        """Whether it runs."""
        return self.status == "running"

    @property
    def success(self) -> bool:
        """Whether it runs and the mean delay of its tuples is within its requirement."""
        return self.admitted and self.delay <= self.request.limit


@dataclass(frozen=True)
class Outcome:
    """The outcome of a scenario.

    Parameters
    ----------
    served
        Each request, in the order of arrival.
    probes
        Number of probes that peers have processed.
    messages
        Number of messages of all kinds, beyond those that the overlay would have sent without requests.
    events
        Messages received and wake-ups in the kernel.
    component_tuples
        Number of tuples that components executed in the flow simulator.
    loads
        Loads of all peers while tuples were counted: arriving work as a share of the time.
    virtual
        Seconds of virtual time from the first request to the end of composition.
    """

    served: Sequence[Served]
    probes: int
    messages: int
    events: int
    component_tuples: int
    loads: Sequence[float]
    virtual: float

    def metrics(self) -> dict[str, float]:
        """Return the means over applications; NaN without values.

        A policy that checks nothing serves the same with other limits, see :meth:`success_within`.
        """
        admitted = [each for each in self.served if each.admitted]
        flowing = [each for each in admitted if each.tuples]
        tuples = sum(each.tuples for each in admitted)
        requests = max(len(self.served), 1)
        return {
            "delay": _mean([each.delay for each in flowing]),
            "tuple_delay": math.fsum(each.delay * each.tuples for each in flowing) / tuples if tuples else math.nan,
            "own_delay": _mean([each.own_delay for each in flowing]),
            "success": sum(each.success for each in self.served) / requests,
            "admitted": len(admitted) / requests,
            "on_time": 1.0 - sum(each.late for each in admitted) / tuples if tuples else math.nan,
            "relative_delay": _mean([each.delay / each.request.isolated for each in flowing]),
            "probes": self.probes / requests,
            "all_probes": float(self.probes),
            "messages": self.messages / requests,
            "setup": _mean([each.setup for each in admitted]),
            "discovery": _mean([each.discovery for each in admitted]),
            "probing": _mean([each.setup - each.discovery for each in admitted]),
            "load": _mean(self.loads),
            "most_load": max(self.loads, default=math.nan),
        }

    def success_within(self, limits: Sequence[float]) -> float:
        """Return the share of requests that are served within other limits, seconds, in the order of the requests."""
        served = (each.admitted and each.delay <= limit for each, limit in zip(self.served, limits, strict=True))
        return sum(served) / max(len(self.served), 1)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
