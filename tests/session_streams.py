"""Sessions and data paths of simulated peers together: streams follow what sessions deploy."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import polars as pl

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.assembly import PeerConfig
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.hosting.effects import FactKind
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.simulator.collected_results import CollectedResults
from tests import moving_schedules
from tests.simulated import Ring
from tests.stream_schedules import sorted_rows

STEP = 0.01  # seconds by which the two worlds go on in turn


ROWS = 800


def table(seed: int, rows: int = ROWS) -> pl.DataFrame:
    return moving_schedules.table(random.Random(seed), rows, 2_000_000)


class Deployed(StreamWorld):
    """Streams that are deployed by the sessions of a ring of peers."""

    ring: Ring
    inputs: Mapping[str, pl.DataFrame]
    told_plans: dict[str, bytes]

    def told(self, address: str, deployment: Deployment) -> None:
        """A peer's driver carries out an instruction."""
        application = deployment.application
        if deployment.plan != self.told_plans.get(application):  # what it shares, it may have to make itself
            self.told_plans[application] = deployment.plan
            self.plans[application] = Plan.from_bytes(deployment.plan)
        if application not in self._inputs:
            plan = self.plans[application]
            self._inputs[application] = self.inputs
            for sink in plan.sinks:
                self.results[application, sink] = CollectedResults(application, sink, plan.qos.delay)
                self.clients[application, sink] = 0.05
                self.after(0.05, self._collect, application, sink)
        if any(assignment.sink and assignment.active == address for assignment in deployment.assignments.values()):
            self.deployments[application] = deployment  # what whoever collects goes by
        self._at(address, lambda hosting: hosting.converge(deployment, self.now))

    def tell(self, since: int) -> int:
        """Tell sessions of facts, from a number on; gives the number of the next."""
        for _, address, fact in self.facts[since:]:
            if address not in self.ring.synergy:
                continue
            session = self.ring.synergy[address].session
            match fact.kind:
                case FactKind.COPY_READY:
                    self.ring.simulation.call(address, session.copies.ready, fact.application, fact.operator)
                case FactKind.COPIES_BEHIND:
                    peers = dict.fromkeys(fact.peers, fact.reason)
                    self.ring.simulation.call(address, session.copies.behind, fact.application, fact.operator, peers)
                case FactKind.COMPONENT_FAILED:
                    failed = session.component_failed
                    self.ring.simulation.call(address, failed, fact.application, fact.operator, fact.reason)
        return len(self.facts)

    def crash(self, peer: str) -> None:
        self.nodes[peer].crashed = True
        for other in self.nodes:
            if other != peer:
                self.after(self.rng.uniform(0.0, 0.1), self._link_down, other, peer)


class Streams(Deployed):
    """Such streams of given rows."""

    def __init__(self, ring: Both, seed: int, peers: tuple[str, ...], inputs: Mapping[str, pl.DataFrame]) -> None:
        super().__init__(seed, peers)
        self.ring = ring
        self.inputs = inputs
        self.told_plans = {}


class Both(Ring):
    """Peers with sessions, and the streams that they deploy."""

    def __init__(self, peers: int, seed: int, sources: int = 3, rows: int = ROWS, **settings: Any) -> None:
        addresses = tuple(f"peer-{number}" for number in range(peers))
        inputs = {f"s{number}": table(100 * seed + number, rows) for number in range(sources)}
        self.streams = Streams(self, seed, addresses, inputs)
        self._heard = 0
        super().__init__(peers, seed, config=lambda n: PeerConfig(name=f"peer-{n}", cores=4.0, seed=n), **settings)
        self.streams.now = self.simulation.now

    def _carry_out(self, address: str, instruction: object) -> None:
        super()._carry_out(address, instruction)
        if isinstance(instruction, Deployment):
            self.streams.told(address, instruction)

    def run(self, seconds: float) -> None:
        """Let virtual time pass in both worlds."""
        for _ in range(round(seconds / STEP)):
            super().run(STEP)
            self.streams.run(self.simulation.now - self.streams.now)
            self._heard = self.streams.tell(self._heard)

    def until_running(self, name: str) -> dict[str, str]:
        """Run until an application does."""
        for _ in range(1000):
            if self.status(name) != "composing":
                break
            self.run(STEP)
        assert self.status(name) == "running", self.reports[name][-1].reason
        return self.reports[name][-1].peers

    def until_ended(self, name: str, seconds: float = 60.0) -> list[tuple[object, ...]]:
        """Run until the end of an application's results; gives them, sorted."""
        for _ in range(round(seconds / 0.1)):
            if self.streams.results[name, "sink"].ended:
                break
            self.run(0.1)
        assert self.streams.failures() == []
        assert self.streams.results[name, "sink"].ended, f"{name} stands still"
        return sorted_rows(self.streams.results[name, "sink"].rows)

    def crash(self, address: str) -> None:
        self.streams.crash(address)
        super().crash(address)

    def move(self, at: str, name: str, operator: str, to: str) -> list[str]:
        """Ask for a move."""
        outcome: list[str] = []
        self.simulation.call(at, self.synergy[at].session.moves.move, name, operator, to, outcome.append)
        return outcome


def packets(number: int, at: str | None = None) -> Stream:
    return source("packets", rate=100.0, id=f"s{number}", seed=number, at=at)
