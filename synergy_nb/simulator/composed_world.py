"""Whole peers that compose what is submitted, and execute it: the drivers of a simulated cluster.

Theory of operation
-------------------
Plans are submitted to the origins as on live peers, probes find their components, and sessions deploy them. The data
paths are those of :class:`~synergy_nb.simulator._paced_world.PacedWorld`. Each driver journals and reports what a live
one does: the quality of service at sinks, the measurements of peers once a second, the predictions of hot spots.

Nothing reads a clock, so a run is a function of its seed and of what is called between two times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from synergy_nb import events
from synergy_nb.assembly import Machine, PeerConfig, SynergyPeer
from synergy_nb.assembly.placement_by_rod import decided
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Report, ResilientPlacementRequest
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_settings import configure, merged
from synergy_nb.dataflow.streams.component.losses import lost_results
from synergy_nb.dataflow.streams.component.sink_quality import SinkQuality
from synergy_nb.dataflow.streams.hosting.effects import Effect, Fact, FactKind
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.hosting.input_reports import first_counts
from synergy_nb.dataflow.streams.log.values import Chunk
from synergy_nb.events.application_states import ENDED, LASTING, Status
from synergy_nb.overlay.membership import ALIVE
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.recording.noted_steps import NotedSteps
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.simulator._paced_world import COLLECT, PacedWorld
from synergy_nb.simulator.collected_results import CollectedResults
from synergy_nb.simulator.network import KnownDelays, Topology
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["STABLE", "ComposedWorld"]

STABLE: Final = 12.0  # virtual seconds after which the directory knows all components of a fresh ring
MEASURE: Final = 0.5  # seconds between two measurements of a sink
STATS: Final = events.ComponentMeasurements.__struct_fields__
Key = tuple[str, str]
"""Application and operator."""


class ComposedWorld(PacedWorld):
    """Whole peers on the sites of a network, which compose, execute and measure what is submitted."""

    def __init__(
        self,
        seed: int,  # seed of all that is drawn
        topology: Topology,  # network, with the capacity of each peer in cores
        config: PeerConfig,  # configuration of the peers; names, seeds and cores are their own
        faults: Faults,
        *,
        discipline: str = "fcfs",
        secrets: Mapping[str, bytes] | None = None,  # by the name that plans use for them
    ) -> None:
        self.noted = NotedSteps()  # messages that peers have handled for requests, and their effects
        self.answers: dict[int, driver.Answer] = {}  # number of a command to the answer of the peer
        self.hosts: dict[int, dict[str, list[str]] | None] = {}  # number of a look-up in the directory to what it found
        self.left: set[str] = set()  # peers that have left the ring
        self._qualities: dict[Key, SinkQuality] = {}
        self.measured: dict[Key, SinkQuality] = {}  # of sinks until they or their applications have ended
        super().__init__(seed, topology, config, faults, discipline=discipline)
        self.secrets = dict(secrets or {})
        for address in topology.peers:
            self._record(address, events.PeerStarted, address, name=address)
            self.control.report(address, driver.OfferComponents())
        self.after(MEASURE, self._measure_sinks)
        self.after(1.0, self._measure_peers)

    def offer(self, components: tuple[str, ...]) -> bool:
        """Have all peers that live offer components; return whether any did not offer them before."""
        lacking = [
            address
            for address, each in self.synergy.items()
            if not self.dead(address) and not each.probing.offers.issuperset(components)
        ]
        for address in lacking:
            self.control.report(address, driver.OfferComponents(components))
        return bool(lacking)

    def all_confirmed(self) -> bool:
        """Whether the directory has confirmed all that the living peers offer."""
        return all(each.directory.confirmed for address, each in self.synergy.items() if not self.dead(address))

    def _make_peer(self, address: str, seed: int, config: PeerConfig) -> SynergyPeer:
        """Create a peer of the kind that runs live, with the true delays of the network."""
        cores = self.topology.cores[address]
        own = msgspec.structs.replace(config, name=address, seed=seed, cores=cores)

        def bandwidth_from(upstream: str) -> float:
            return min(self.topology.bandwidth(upstream, address), config.bandwidth)

        def processing(plan: Plan, operator: str) -> float:
            return plan.processing_time(operator) / cores

        machine = Machine(bandwidth_from, processing, latency=KnownDelays(self.topology, address))
        return SynergyPeer(address, own, machine, self.noted.kernel(address))

    # -- the ring ------------------------------------------------------------------------------------------------

    def join(self, address: str, contact: str) -> None:
        """Start a new peer, which joins the ring through the peer ``contact``."""
        super().join(address, contact)
        self._record(address, events.PeerStarted, address, name=address)

    def joined(self, address: str) -> bool:
        """Whether a peer is in the ring, and the directory has confirmed what it offers."""
        each = self.synergy[address]
        return each.pastry.joined and each.directory.confirmed

    def crash(self, peer: str) -> None:
        """Crash a peer; the others find out, or the journal says it where there is no other one."""
        super().crash(peer)
        if not self.synergy:
            nobody = ""
            self._record(nobody, events.PeerSilent, peer, reason="it has ended, and no other peer lives")

    def leave(self, address: str) -> None:
        """Have a peer announce that it leaves the ring; its components go on until :meth:`crash` ends it."""
        super().leave(address)
        self.left.add(address)

    # -- applications --------------------------------------------------------------------------------------------

    def submit(
        self,
        application: str,
        plan: Plan,
        origin: str,  # address of the peer that decides on it
        rows: Mapping[str, Any],  # rows of sources with connector `python`, by operator
        placement: str,  # algorithm that finds the peers
        number: int,  # number of the command
        *,
        trial: bool = False,  # whether the peers only decide on it
        beside: str = "",  # application of that peer of whose streams it is to be made
    ) -> None:
        """Submit a plan at its origin now; ``number`` is the number of the answer."""
        self.origins[application] = origin
        self.plans[application] = plan
        self.rows[application] = rows
        for sink in plan.sinks:
            self.results[application, sink] = CollectedResults(application, sink, plan.qos.delay)
            self.clients.setdefault((application, sink), COLLECT)
        command = driver.SubmitPlan(application, plan.to_bytes(), placement, number, trial, beside=beside)
        self.control.report(origin, command)

    def origin(self, application: str) -> str:
        """Return the address of the peer that leads an application: at which it was submitted, or its successor."""
        return self.origins[application]

    def successor_lives(self, application: str) -> bool:
        """Return whether another peer would lead a running application if its origin died: that of its first sink."""
        if self.status(application) not in (Status.RUNNING, Status.ON_HOLD):
            return False
        peer = self._sink_peer(application, self.plans[application].sinks[0])
        return peer != self.origins[application] and not self.dead(peer)

    def command(self, application: str, message: DriverMessage) -> None:
        """Have the driver of the origin send it a message now; nothing happens where that peer has crashed."""
        self._report(self.origins[application], message)

    def _collect(self, application: str, sink: str) -> None:
        """Collect the results of a sink again and again, until there can be no more."""
        results = self.results[application, sink]
        if self.dead(self._sink_peer(application, sink)):
            return
        self._collect_once(application, sink)
        status = self.status(application)
        if status in (*LASTING, "") or (status == Status.FINISHED and not results.ended):
            self.after(COLLECT, self._collect, application, sink)
        elif status == Status.FINISHED and all(
            self.results[application, each].ended for each in self.plans[application].sinks
        ):
            self._report(self.origins[application], driver.ReleaseResults(application))

    def end(self, application: str) -> None:
        """End an application after collecting what its sinks retain."""
        if application in self.deployments:
            for sink in self.plans[application].sinks:
                self._collect_once(application, sink)
        self.command(application, driver.StopApplication(application))

    def _collect_once(self, application: str, sink: str) -> None:
        peer, results = self._sink_peer(application, sink), self.results[application, sink]
        if peer not in self._suspended:
            self._at(peer, lambda hosting: results.collect(hosting, self.now))

    def _sink_peer(self, application: str, sink: str) -> str:
        """Return the address of the peer that has a sink."""
        return self.deployments[application].assignments[sink].active

    def quality(self, application: str, sink: str) -> SinkQuality | None:
        """Return the quality of service of a sink; None before it is deployed."""
        return self._qualities.get((application, sink))

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        plan = Plan.from_bytes(deployment.plan)
        configure(component, plan, deployment)
        declared = plan.operators.get(component.operator) or plan.operators[original(component.operator)]
        if declared.kind == "source":
            return None
        logic = create(declared, plan, secrets=self.secrets, wait=lambda _: None)
        return merged(logic, component, plan, compares=deployment.compares)

    # -- instructions of peers -----------------------------------------------------------------------------------

    def _instructed(self, address: str, instruction: object) -> None:
        self.now = max(self.now, self.control.now)
        match instruction:
            case driver.Answer():
                self.answers[instruction.number] = instruction
            case driver.HostsLookedUp():
                self.hosts[instruction.number] = instruction.hosts
            case driver.ObtainContents() if not self.dead(instruction.sender):
                takes = self.topology.delay(address, instruction.sender) + self.topology.delay(
                    instruction.sender, address
                )
                self.after(takes, self._report, address, driver.OfferComponents(instruction.components))
            case driver.DepartureLimits():
                self._at(address, partial(self._limit, instruction))
            case ResilientPlacementRequest():
                self.after(0.0, self._report, address, decided(instruction))
            case Report() | Deployment():
                super()._instructed(address, instruction)

    def _limit(self, instruction: driver.DepartureLimits, hosting: Hosting) -> list[Effect]:
        hosting.predictions.set_limits(instruction.application, instruction.limits)
        return []

    def _deploy_at(self, address: str, deployment: Deployment) -> None:
        application = deployment.application
        if any(each.sink and each.active == address for each in deployment.assignments.values()):
            if application not in self.deployments:
                for sink in self.plans[application].sinks:
                    self.after(COLLECT, self._collect, application, sink)
            self.deployments[application] = deployment
        self._at(address, partial(self._converge, address, deployment))

    def _converge(self, address: str, deployment: Deployment, hosting: Hosting) -> list[Effect]:
        application = deployment.application
        before = _of(hosting, application)
        effects = hosting.converge(deployment, self.now)
        after = _of(hosting, application)
        for operator, component in before.items():
            if after.get(operator) is not component:
                if component.kind == "sink":
                    self._measure_sink(address, application, operator)
                self._record(address, events.ComponentUndeployed, application, operator=operator)
        for operator, component in after.items():
            if before.get(operator) is component:
                continue
            if component.kind == "sink":
                limit = None if component.terms.limit == math.inf else component.terms.limit
                lost = partial(lost_results, plan=Plan.from_bytes(deployment.plan), sink=operator)
                quality = SinkQuality(operator, limit=limit, now=self.now, lost=lost)
                self._qualities[application, operator] = self.measured[application, operator] = quality
            discipline = component.terms.discipline or hosting.discipline
            self._record(address, events.ComponentDeployed, application, operator=operator, discipline=discipline)
        return effects

    # -- measurements --------------------------------------------------------------------------------------------

    def _arrived(self, peer: str, component: Component, chunks: list[Chunk]) -> None:
        """Measure what has arrived at a sink, and report the end of its stream."""
        application, operator = component.application, component.operator
        quality = self._qualities.get((application, operator))
        losses = component.losses.carried(component.log.end.position)
        self.results[application, operator].arrived(chunks, self.now)
        if quality is None or not quality.arrived(chunks, self.now, losses):
            return
        self._measure_sink(peer, application, operator)
        self._record(peer, events.SinkFinished, application, operator=operator)
        here = [sink for sink in self.plans[application].sinks if self._sink_peer(application, sink) == peer]
        if all(self.ended(application, sink) for sink in here):
            self.after(0.0, self._report, peer, driver.SinksEnded(application))

    def ended(self, application: str, sink: str) -> bool:
        """Whether the end of a sink's stream has arrived there."""
        quality = self._qualities.get((application, sink))
        return quality is not None and quality.ended

    def _measure_sinks(self) -> None:
        self.after(MEASURE, self._measure_sinks)
        for (application, sink), quality in list(self.measured.items()):
            status = self.status(application)
            if quality.reported or status in ENDED:
                del self.measured[application, sink]
            elif status:
                peer = self._sink_peer(application, sink)
                if not self.dead(peer) and peer not in self._suspended:
                    self._measure_sink(peer, application, sink)

    def _measure_sink(self, peer: str, application: str, sink: str) -> None:
        quality = self._qualities.get((application, sink))
        if quality is None or quality.reported:
            return
        record = quality.interval(self.now)
        self._record(peer, events.SinkMeasured, application, **record)
        mean = quality.qos()["delay_mean_s"]
        if mean is not None:
            self.after(0.0, self._report, peer, driver.DelayMeasured(application, mean))

    def _measure_peers(self) -> None:
        self.after(1.0, self._measure_peers)
        for address, each in self.synergy.items():
            if address in self._suspended or address in self.left:
                continue
            stats = self._stats(address)
            busy = self._busy.pop(address, 0.0)
            work = [found for found in stats if found["kind"] != "sink" or self.status(found["application"]) in LASTING]
            other = self.load_of.get(address, 0.0) * each.ledger.cores
            if not (work or other or busy):
                continue
            self._record(
                address,
                events.PeerMeasured,
                "",
                cpu=min(busy, 1.0) * self.speed(address) + other,
                memory=sum(found["memory_bytes"] for found in stats),
                cores=each.ledger.cores,
                promised=each.ledger.load,
                components=[events.ComponentMeasurements(**{name: found[name] for name in STATS}) for found in work],
                predicted_load=each.loads.load.predicted,
            )
            self.nodes[address].hosting.waits.look(
                self.now, partial(self._record, address), partial(self._silent, each), self._known
            )

    @staticmethod
    def _silent(peer: SynergyPeer, other: str) -> bool:
        """Whether another peer does not answer a peer."""
        return peer.membership.status(other) != ALIVE

    def _stats(self, address: str) -> list[dict[str, Any]]:
        """Return the measurements of each component of a peer, as a live peer does."""
        here = self.nodes[address].hosting.components.values()
        return [{**component.stats(self.now), "firsts": first_counts(component)} for component in here]

    def peer_state(self, address: str) -> PeerState | None:
        """Return the state of a peer; None if it is suspended."""
        if address in self._suspended:
            return None
        peer, hosting = self.synergy[address], self.nodes[address].hosting
        return PeerState(
            name=address,
            address=address,
            pid=0,
            load=peer.ledger.load,
            cores=peer.ledger.cores,
            cpu_s=0.0,
            offers=sorted(peer.probing.offers),
            applications=sorted(peer.session.applications),
            components=self._stats(address),
            neighbours=sorted(peer.pastry.leaf_set),
            probes=peer.probing.probes,
            messages=0,
            discipline=hosting.discipline,
        )

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, PeerPrediction):
                self.after(0.0, self._report, peer, driver.PredictionsMade(effect))
            elif isinstance(effect, SlackViolation):
                self.after(0.0, self._report, peer, driver.SlackLost(effect))
        super()._carry_out(peer, effects)

    def _stated(self, peer: str, fact: Fact) -> None:
        super()._stated(peer, fact)
        match fact.kind:
            case FactKind.COMPONENT_FAILED:
                self._record(peer, events.OperatorFailed, fact.application, operator=fact.operator, reason=fact.reason)
            case FactKind.INPUT_LOST:
                self._record(
                    peer, events.StreamReplicaLost, fact.application, operator=fact.operator, reason=fact.reason
                )
            case FactKind.FRAME_REFUSED:
                self._record(peer, events.DataRefused, fact.peers[0], reason=fact.reason)
            case FactKind.TAKEN_OVER:
                self._record(peer, events.ComponentTakenOver, fact.application, operator=fact.operator)


def _of(hosting: Hosting, application: str) -> dict[str, Component]:
    return {name: each for (owner, name), each in hosting.components.items() if owner == application}
