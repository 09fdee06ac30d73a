"""The simulator's answer to the plans of ``admission``: the same protocols, and queues in virtual time.

The simulated peers have the overheads that live ones have measured, so they decide like live ones on a machine without
other work. Simulated servers then execute the batches of admitted plans: a component takes its overhead, log-normal
with the measured mean and variance, and the processing time of the batch's tuples; a hop takes the latency of a link
and the time for coding. So the difference between the two answers is what the model does not contain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from synergy_experiments.bench.answers import Answer
from synergy_experiments.flows.flow import Flow
from synergy_experiments.flows.flow_applications import Application, Arrivals, Component, Service
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import Machine, PeerConfig, SynergyPeer
from synergy_nb.assembly.peer_options import LATE
from synergy_nb.control.driver_messages import OfferComponents, StopApplication, SubmitPlan
from synergy_nb.control.graph import Report
from synergy_nb.events import GraphSelected
from synergy_nb.models.overheads import HOP, LINK, SOURCE, Overhead, Overheads
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.instances import SPAN
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform

__all__ = ["PlannedPeers", "simulated"]

STABLE: Final = 12.0  # virtual seconds after which the directory knows all components of a fresh ring
RUN: Final = 30.0  # virtual seconds of each plan's streams
DRAWN: Final = 997  # overheads drawn for each component, taken in turn


class PlannedPeers:
    """Simulated peers with measured overheads, and their reports."""

    def __init__(self, stages: Mapping[str, Overhead], names: Sequence[str], cores: float) -> None:
        way = stages.get(LINK, Overhead(0.0, 0.0)).mean
        self.simulation = SimulatedPeers(1, Uniform(way, way, 1), keep_instructions=False)
        self.simulation.on_instruction.append(self._carry_out)
        self.reports: dict[str, Report] = {}
        self.peers: dict[str, SynergyPeer] = {}
        composition = CompositionConfig(late=LATE)
        for number, name in enumerate(names):
            overheads = Overheads.known({stage: each for stage, each in stages.items() if stage != LINK}, SPAN)
            machine = Machine(server=1.0, overheads=overheads)
            peer = SynergyPeer(name, PeerConfig(name, cores=cores, seed=number, composition=composition), machine)
            self.peers[name] = peer
            self.simulation.add(peer.peer)
        assemble([each.pastry for each in self.peers.values()], seed=1)
        for name in self.peers:
            self.simulation.start(name)
            self.simulation.report(name, OfferComponents())
        self.simulation.run(until=STABLE)

    def _carry_out(self, _address: str, instruction: object) -> None:
        if isinstance(instruction, Report):
            self.reports.setdefault(instruction.application, instruction)

    def submit(self, name: str, plan: Plan, origin: str) -> tuple[Report, float]:
        """Submit a plan and release its resources; return the decision, and the projected delay in seconds."""
        simulation = self.simulation
        simulation.report(origin, SubmitPlan(name, plan.to_bytes()))
        simulation.run(until=simulation.now + 60.0, stop=lambda: name in self.reports)
        chosen = simulation.journal.about(name, GraphSelected)
        simulation.report(origin, StopApplication(name))
        simulation.run(until=simulation.now + 2.0)
        kept = chosen[-1].quantile_s if chosen else None
        return self.reports[name], math.nan if kept is None else kept


def simulated(
    plans: Sequence[Plan], stages: Mapping[str, Overhead], names: Sequence[str], cores: float
) -> list[Answer]:
    """Have simulated peers decide on plans, one after the other, and execute them.

    Parameters
    ----------
    plans
        Plans with delay limits, of generated packets.
    stages
        Overheads by stage, with the latency of a link.
    names
        Names of the peers, which plans may bind operators to.
    cores
        Capacity of each peer, in cores.

    Returns
    -------
    list of Answer
        One for each plan, in order.
    """
    world = PlannedPeers(stages, names, cores)
    answers = []
    for number, plan in enumerate(plans):
        origin, limit = names[number % len(names)], plan.qos.delay or math.inf
        report, projected = world.submit(f"plan-{number}", plan, origin)
        reason = "" if report.status == "running" else report.reason
        if reason:
            free = Plan(plan.operators.values(), msgspec.structs.replace(plan.qos, delay=None), plan.name)
            report, projected = world.submit(f"plan-{number} again", free, origin)
            if report.status != "running":
                answers.append(Answer(limit, reason, None, None))
                continue
        answers.append(Answer(limit, reason, projected, _executed(plan, report.peers, stages, number)))
    return answers


def _executed(plan: Plan, peers: Mapping[str, str], stages: Mapping[str, Overhead], seed: int) -> float | None:
    """Delay that all but the promised share of the batches do not exceed, in virtual seconds."""
    rng = np.random.default_rng(seed)
    overheads = Overheads.known({stage: each for stage, each in stages.items() if stage != LINK})
    window = next((each.params["window"] for each in plan.operators.values() if each.kind == "aggregate"), None)
    components: dict[str, Component] = {}
    arrivals: dict[str, Arrivals] = {}
    for name, operator in plan.operators.items():
        if operator.inputs:
            rows = 1.0 if window is not None else 1.0 + plan.input_rate(name) * SPAN
            taken = _drawn(overheads.expected(operator.kind), rng) + rows * plan.processing_time(name)
            components[name] = Component(peers[name], Service.drawn(taken), list(operator.inputs))
            continue
        # the wake-up of a source takes nobody's time; a window's results come with the punctuation that closes it
        rate = plan.rate(name)
        batches = 1.0 / float(window["length"]) if window is not None else rate / (1.0 + rate * SPAN)
        arrivals[f"{name} due"] = Arrivals.poisson(batches, duration=RUN)
        components[f"{name} due"] = Component(None, Service.drawn(_drawn(overheads.expected(SOURCE), rng)))
        components[name] = Component(peers[name], inputs=[f"{name} due"])
    way = stages.get(LINK, Overhead(0.0, 0.0)).mean + overheads.expected(HOP).mean
    flow = Flow(Uniform(way, way), seed=seed)
    flow.add(Application("plan", components, arrivals))
    flow.run(until=2.0 * RUN)
    late = flow.quantile("plan", 1.0 - LATE)
    return None if math.isnan(late) else late


def _drawn(overhead: Overhead, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Overheads, log-normal with a mean and a variance, in seconds; shape (DRAWN,)."""
    mean, variance = overhead
    if mean <= 0.0:
        return np.zeros(DRAWN)
    spread = math.log1p(variance / (mean * mean))
    return rng.lognormal(math.log(mean) - spread / 2.0, math.sqrt(spread), DRAWN)
