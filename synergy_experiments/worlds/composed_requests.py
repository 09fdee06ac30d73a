"""Requests composed by simulated peers, and executed tuple by tuple, as in the dissertation's simulations.

Theory of operation
-------------------
:func:`compose` puts whole Synergy peers on the kernel, all in the ring and their components in the directory, and
submits every request of a scenario at its origin when it arrives. An application that is admitted begins at that moment
in the flow simulator, which runs on the same virtual clock, so tuples of all admitted applications queue at the same
peers. When all requests are decided, earlier measurements are discarded, and the tuples of a stated period are
counted.

*Feedback.* Projection needs the end-to-end time t̂ of running applications, "measured by the receiver of a stream
processing session and communicated to all nodes participating in it" (section 2.3.4). So once per virtual second each
origin receives the smoothed mean delay of the tuples that have arrived at its sinks since, as its own sink would
measure it. Queueing formulas at the current loads would have no noise and no lag of a second, so they are better than
the knowledge of a peer; and they do not hold for shared streams, nor for arrivals that are not Poisson. The flow
simulator takes a few per cent of the time of a run.

*Delays between peers* are known to all peers for policies that choose the nearest: a perfect "delay monitoring
service". A peer of capacity 2 needs half the processing time, both in its answers to probes and in the flow simulator.

Counted quantities
------------------
``delay`` is the mean over admitted applications of the mean delay of an application's tuples: processing, transmission
and queueing, from the source to the sink; ``tuple_delay`` is the mean over all of these tuples. ``own_delay`` is the
part that the application does not share: if it shares a stream, it begins where the stream is shared. The papers seem
to count so, for "some of the requests (fully or partially) only transmission and no processing time is required"
(Middleware 2006, section 4.1).

A request succeeds if it is admitted and the mean delay of its tuples, from the source, is within its QoS requirement;
``success`` is the share of all requests that do. ``on_time`` is the share of all tuples that were within theirs.

Set-up time is virtual, from submission to the confirmation of the last source; ``discovery`` is the part of it that
waits for the directory, ``probing`` the rest.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Final

import msgspec

from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Component, Tap, from_plan
from synergy_experiments.flows.workload import Request, Workload
from synergy_experiments.worlds.scenario import Outcome, Scenario, Served
from synergy_nb.assembly import Machine, PeerConfig, SynergyPeer
from synergy_nb.control.driver_messages import CoresAdvertised, DelayMeasured, OfferComponents, SubmitPlan
from synergy_nb.control.graph import Report
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.meters import Ewma
from synergy_nb.events import Event
from synergy_nb.events.journal import Journal
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.stream_sharing import provider, taps_of
from synergy_nb.simulator.kernel import SimulatedPeers, collector_at_rest
from synergy_nb.simulator.network import KnownDelays, Topology

__all__ = ["Composed", "compose", "executed"]

STABLE: Final = 12.0  # virtual seconds after which the directory knows all components of a fresh ring
IDLE: Final = 2.0  # virtual seconds of the overlay without requests, to measure its own messages
FEEDBACK: Final = 1.0  # virtual seconds between two measurements of t̂, as sessions send them
SMOOTHING: Final = 0.5  # weight of a new measurement
DECIDED: Final = 60.0  # virtual seconds after the last request until all must be decided
NEAREST: Final = 8  # number of nearest peers that a peer knows, for deployment by delay
WARM_UP: Final = 10.0  # virtual seconds of tuples before the counted ones


class _Story(Journal):
    """A journal that records only the stages of each request, since the other events of many peers would fill it.

    Parameters
    ----------
    requests
        Request to its record.
    """

    def __init__(self, requests: dict[str, Served]) -> None:
        super().__init__(capacity=1)
        self._requests = requests

    def append(self, event: Event) -> Event:
        """Store an event if it is a stage of a request."""
        served = self._requests.get(event.subject)
        if served is not None:
            served.note(event)
        return event


class Composed:
    """A running scenario.

    Parameters
    ----------
    scenario
        Scenario that is simulated.
    seed
        Seed of the network, the requests, the peers and the tuples. All policies get the same ones.

    Attributes
    ----------
    simulation, flow : Simulation, Flow
        Messages and tuples, on one virtual clock.
    peers : dict
        Address to peer.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.topology, self.workload = scenario.world(seed)
        self.served = {request.name: Served(request) for request in self.workload.requests}
        self.simulation = SimulatedPeers(seed, self.topology, keep_instructions=False, journal=_Story(self.served))
        self.simulation.on_instruction.append(self._carry_out)
        self.flow = Flow(
            self.topology, bandwidth=self.topology.bandwidth, speeds=self.topology.cores, seed=seed, keep=2
        )
        self.peers = _peers(self.topology, self.workload, scenario, seed)
        self._plans: dict[str, tuple[int, bytes]] = {}  # application to (version of the deployment, encoded plan)
        self._delays: dict[str, Ewma] = {}  # t̂ of running applications
        self._taps: dict[str, list[Tap]] = {}  # application to the streams that it shares
        self._watched: dict[Tap, str] = {}
        self._undecided = set(self.served)
        self._next = 0.0  # time of the next feedback
        self._sent = 0  # messages before the first request
        self._at_rest = 0.0  # messages per virtual second without requests
        for each in self.peers.values():
            self.simulation.add(each.peer)
        assemble([each.pastry for each in self.peers.values()], rtt=self._round_trip, seed=seed)
        for address in self.peers:
            self.simulation.start(address)
            self.simulation.report(address, OfferComponents())

    def _round_trip(self, one: str, other: str) -> float:
        return 2.0 * self.topology.delay(one, other)

    def _carry_out(self, address: str, instruction: msgspec.Struct) -> None:
        if isinstance(instruction, Deployment):
            latest = instruction.version, instruction.plan
            self._plans[instruction.application] = max(self._plans.get(instruction.application, latest), latest)
        elif isinstance(instruction, Report):
            served = self.served[instruction.application]
            served.status, served.reason = instruction.status, instruction.reason
            self._undecided.discard(instruction.application)
            if instruction.status == "running":
                self._begin(served, instruction.peers)
            elif instruction.application in self._delays:
                del self._delays[instruction.application]
                self.flow.remove(instruction.application)

    def _begin(self, served: Served, peers: dict[str, str]) -> None:
        """Start the flow of an application's tuples."""
        served.plan, served.peers = Plan.from_bytes(self._plans[served.request.name][1]), peers
        self.flow.run(self.simulation.now)
        application = executed(served.request.name, served.plan, served.peers)
        self.flow.add(application)
        self._delays[served.request.name] = Ewma(SMOOTHING)
        for tap in {tap for each in application.components.values() for tap in each.inputs if not isinstance(tap, str)}:
            self._watch(tap)
            self._taps.setdefault(served.request.name, []).append(tap)

    def _watch(self, tap: Tap) -> None:
        """Measure the age of the tuples of a shared stream at the point from which it is shared."""
        if tap not in self._watched:
            self._watched[tap] = name = f"age of {tap[1]} of {tap[0]}"
            self.flow.add(Application(name, {"seen": Component(inputs=[tap])}))

    def _feed_back(self) -> None:
        """Report to each origin the t̂ that its sinks have measured."""
        self.flow.run(self.simulation.now)
        for name, smoothed in self._delays.items():
            delay = self.flow.recent(name)
            if not math.isnan(delay):
                smoothed.add(delay)
            if smoothed.count:
                origin = self.served[name].request.origin
                self.simulation.report(origin, DelayMeasured(name, smoothed.moving))
        if self.scenario.choice == "balanced":
            self._piggyback()

    def _piggyback(self) -> None:
        """Report to each peer the residual capacity of its downstream peers, as credits do on real peers."""
        left = {address: each.ledger.residual_cores("") for address, each in self.peers.items()}
        for name in self._delays:
            served = self.served[name]
            if served.plan is not None:
                for operator, peer in served.peers.items():
                    for up in served.plan.upstream(operator):
                        self.simulation.report(served.peers[up], CoresAdvertised(peer, left[peer]))

    def advance(self, until: float) -> None:
        """Advance virtual time, with feedback to the origins."""
        while self._next <= until:
            self.simulation.run(self._next)
            self._feed_back()
            self._next += FEEDBACK
        self.simulation.run(until)

    def submit(self, request: Request) -> None:
        """Submit a request at its origin now."""
        plan = self.workload.plan(request).to_bytes()
        self.simulation.report(request.origin, SubmitPlan(request.name, plan))

    def stabilise(self) -> None:
        """Register all components in the directory, and count the messages of the overlay without requests."""
        simulation = self.simulation
        simulation.run(STABLE - IDLE)
        sent = simulation.messages
        simulation.run(STABLE)
        self._at_rest = (simulation.messages - sent) / IDLE
        self._sent, self._next = simulation.messages, STABLE

    def serve(self) -> None:
        """Submit all requests, and wait until each is decided.

        Raises
        ------
        RuntimeError
            If a request is not decided in time.
        """
        simulation = self.simulation
        for request in self.workload.requests:
            self.advance(STABLE + request.arrival)
            self.submit(request)
        limit = simulation.now + DECIDED
        while self._undecided and simulation.now < limit:
            self.advance(simulation.now + FEEDBACK)
        if self._undecided:
            raise RuntimeError(f"{len(self._undecided)} requests are not decided {DECIDED:g} s after the last one")

    def count(self) -> Outcome:
        """Discard the measurements made during composition, and execute the admitted applications."""
        simulation, flow = self.simulation, self.flow
        flow.run(simulation.now + WARM_UP)
        flow.clear()
        flow.run(flow.now + self.scenario.window)
        for name in self._delays:
            found, served = flow.delays(name), self.served[name]
            served.delay, served.tuples, served.late = found.mean, found.tuples, found.late
            ages = [flow.delays(self._watched[tap]).mean for tap in self._taps.get(name, ())]
            served.own_delay = found.mean - max(ages, default=0.0)
        virtual = simulation.now - STABLE
        return Outcome(
            served=list(self.served.values()),
            probes=sum(each.probing.probes for each in self.peers.values()),
            messages=round(simulation.messages - self._sent - self._at_rest * virtual),
            events=simulation.events,
            component_tuples=flow.served,
            loads=[flow.load(peer) for peer in self.topology.peers],
            virtual=virtual,
        )


def compose(scenario: Scenario, seed: int) -> Outcome:
    """Run a scenario.

    Examples
    --------
    >>> from synergy_experiments.flows.workload import Parameters
    >>> outcome = compose(Scenario(Parameters(components=20, requests=5), peers=20), seed=1)
    >>> [each.status for each in outcome.served]
    ['running', 'running', 'running', 'running', 'running']
    """
    with collector_at_rest():
        composed = Composed(scenario, seed)
        composed.stabilise()
        composed.serve()
        return composed.count()


def executed(name: str, plan: Plan, peers: Mapping[str, str]) -> Application:
    """Return an application for the flow simulator; other applications execute the operators of its shared streams."""
    shared = {tap: provider(plan.operators[tap], peers[tap]) for tap in taps_of(plan)}
    taps = {tap: found for tap, found in shared.items() if found is not None}
    own = {operator: peer for operator, peer in peers.items() if operator not in shared}
    return from_plan(name, plan, own, taps=taps)


def _peers(topology: Topology, workload: Workload, scenario: Scenario, seed: int) -> dict[str, SynergyPeer]:
    config = scenario.config()
    peers: dict[str, SynergyPeer] = {}
    for number, (address, cores) in enumerate(topology.cores.items()):
        offers = workload.offers(address)
        own = seed * 1_000_003 + number
        settings = PeerConfig(address, offers, cores, seed=own, pings=scenario.pings, composition=config)
        peers[address] = SynergyPeer(address, settings, _machine(topology, address, cores, settings))
    return peers


def _machine(topology: Topology, address: str, cores: float, settings: PeerConfig) -> Machine:
    """Return the delays and bandwidths of a peer's links, and its speed."""

    def bandwidth_from(upstream: str) -> float:
        return topology.bandwidth(upstream, address)

    def processing(plan: Plan, operator: str) -> float:
        return plan.processing_time(operator) / cores

    def nearest() -> list[str]:
        others = [peer for peer in topology.peers if peer != address]
        return heapq.nsmallest(NEAREST, others, key=lambda peer: topology.delay(address, peer))

    known = nearest if settings.composition.deployment == "nearest" else None
    return Machine(bandwidth_from, processing, latency=KnownDelays(topology, address), nearest=known)
