"""Synergy peers in the simulator, for tests of composition and sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.assembly.placement_by_rod import decided
from synergy_nb.control.driver_messages import Answer, LinkFailed, OfferComponents, SubmitPlan
from synergy_nb.control.graph import ComponentGraph, Report, ResilientPlacementRequest
from synergy_nb.control.peer import Effect, Peer, Record, Send
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Assignment as Where
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.events import Event, MessageOutdated, MessageRefused
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import Decided, Decision, Refusal
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.plan import Plan
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.simulator.kernel import Network, SimulatedPeers, Uniform

E = TypeVar("E", bound=Event)
#: Components of peers that are to offer all: one more changes which message comes when, and so what a seed leads to.
#: A new kind of operator is none that these simulations are about.
OFFERED = (
    "aggregate", "compare", "count", "decrypt", "delay", "distinct", "encrypt", "filter", "join", "project", "sample",
    "sink", "sort", "source:packets", "source:peers", "source:python", "source:trace", "union",
)  # fmt: skip
STABLE = 12.0  # virtual seconds after which the directory knows all components of a fresh ring


class Given:
    """Decides nothing: what is to be set up was given, and what came of that is noted."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    def decide(self, request: Request, found: DirectoryEntries, decided: Decided) -> None:
        raise AssertionError("it is decided")

    def next(self, request: Request, reason: str, decided: Decided) -> None:
        self.answers.append(reason)
        decided(request, Refusal(reason))

    def established(self, request: Request) -> None:
        self.answers.append("")

    def release(self, request: Request) -> None:
        pass


class Ring:
    """Simulated peers, and what they asked their drivers to do."""

    def __init__(
        self,
        peers: int,
        seed: int,
        *,
        config: Callable[[int], PeerConfig] | PeerConfig | None = None,
        network: Network | None = None,
        codec: bool = False,
    ) -> None:
        self.simulation = SimulatedPeers(seed, network or Uniform(0.005, 0.05, seed), codec=codec)
        self.simulation.on_instruction.append(self._carry_out)
        self.simulation.on_link_failed.append(lambda at, other: self.simulation.report(at, LinkFailed(other)))
        self.simulation.on_refused.append(lambda at, other: self.simulation.report(at, LinkFailed(other, refused=True)))
        self.refusal = ""
        self.seed = seed
        self.config = config
        self.synergy: dict[str, SynergyPeer] = {}
        self.reports: dict[str, list[Report]] = {}
        self.deployments: dict[tuple[str, str], Deployment] = {}
        for number in range(peers):
            peer = self.make(number)
            self.simulation.add(peer)
        assemble([each.pastry for each in self.synergy.values()], seed=seed)
        for address in self.synergy:
            self.simulation.start(address)
            self.simulation.report(address, OfferComponents())
        self.simulation.run(until=STABLE)

    def make(self, number: int) -> Peer:
        """A new peer, number ``number``; it replaces an earlier one of that number."""
        address = f"peer-{number}"
        chosen = self.config(number) if callable(self.config) else self.config
        settings = chosen or PeerConfig(name=address, seed=self.seed * 1000 + number)
        if settings.components == ALL_COMPONENTS:
            settings = msgspec.structs.replace(settings, components=OFFERED)
        self.synergy[address] = SynergyPeer(address, settings)
        return self.synergy[address].peer

    def crash(self, address: str) -> None:
        """End a peer, and with it what it executed."""
        self.simulation.crash(address)
        self.synergy.pop(address, None)
        self.deployments = {key: known for key, known in self.deployments.items() if key[0] != address}
        for other in self.synergy:
            self.simulation.report(other, LinkFailed(address, refused=True))

    @property
    def deployed(self) -> dict[tuple[str, str, str], Where]:
        """What peers execute: peer, application and operator to where the peer believes it is."""
        return {
            (address, application, operator): assignment
            for (address, application), known in self.deployments.items()
            for operator, assignment in known.assignments.items()
            if assignment.active == address
        }

    @property
    def started(self) -> set[tuple[str, str, str]]:
        """Sources that emit: peer, application and operator."""
        return {
            key
            for key, assignment in self.deployed.items()
            if not assignment.inputs and not assignment.sink and self._runs(key)
        }

    def _runs(self, key: tuple[str, str, str]) -> bool:
        return self.deployments[key[:2]].running

    def _carry_out(self, address: str, instruction: object) -> None:
        match instruction:
            case ResilientPlacementRequest():
                self.simulation.report(address, decided(instruction))
            case Report():
                self.reports.setdefault(instruction.application, []).append(instruction)
            case Deployment():
                self._converge(address, instruction)
            case Answer():
                self.refusal = instruction.refusal

    def _converge(self, address: str, told: Deployment) -> None:
        """Hold what every instruction must be, and remember it."""
        known = self.deployments.get((address, told.application))
        assert known is not None or told.assignments, "an application ends that was never there"
        assert known is None or known.version <= told.version, "an earlier deployment comes later"
        for operator, assignment in told.assignments.items():
            assert all(assignment.active != peer for peer in assignment.copies), f"{operator} has a copy where it is"
        if told.assignments:
            self.deployments[address, told.application] = told
        else:
            del self.deployments[address, told.application]

    def submit(self, at: str, request: str, plan: Plan, placement: str = "composed", user: str = "") -> None:
        """Submit a plan at a peer now; ``user``: guest who does."""
        self.refusal = ""
        self.simulation.report(at, SubmitPlan(request, plan.to_bytes(), placement, number=1, user=user))
        if self.refusal:
            raise ValueError(self.refusal)

    def establish(
        self,
        at: str,
        name: str,
        plan: Plan,
        chosen: ComponentGraph,
        backups: Mapping[str, tuple[str, ...]] | None = None,
    ) -> list[str]:
        """Set a graph up that nobody has decided on; what comes of that will be in the list."""
        synergy, given = self.synergy[at], Given()
        request = Request(name, plan, "given", self.simulation.now)
        request.enter(State.DECIDING)
        request.enter(State.ESTABLISHING)
        synergy.requests._requests[name] = request
        synergy.requests._deciders["given"] = given
        decision = Decision(Roles(chosen.peers, dict(backups or {})), chosen.reached(plan))
        self.simulation.call(at, synergy.session.establish, request, decision)
        return given.answers

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.simulation.run(until=self.simulation.now + seconds)

    def until_decided(self, request: str, seconds: float = 90.0) -> Report:
        """Run until a request is decided; a client waits as long."""
        self.simulation.run(until=self.simulation.now + seconds, stop=lambda: request in self.reports)
        return self.reports[request][0]

    def status(self, request: str) -> str:
        """Last status reported; ``composing`` before the first."""
        found = self.reports.get(request)
        return found[-1].status if found else "composing"

    @overload
    def events(self, request: str) -> list[Event]: ...
    @overload
    def events(self, request: str, kind: type[E]) -> list[E]: ...
    def events(self, request: str, kind: type[Any] = Event) -> list[Any]:
        """What the journal holds about a request."""
        return self.simulation.journal.about(request, kind)

    def overbooked(self) -> Mapping[str, str]:
        """Peers that promised more than they have."""
        found = {address: each.ledger.overbooked() for address, each in self.synergy.items()}
        return {address: text for address, text in found.items() if text is not None}


def refusals(effects: list[Effect]) -> list[str]:
    """Reasons of refused messages; there must be no other effect of any."""
    events = [effect.event for effect in effects if isinstance(effect, Record)]
    found = [event.reason for event in events if isinstance(event, MessageRefused | MessageOutdated)]
    assert not found or not any(isinstance(effect, Send) for effect in effects)
    return found
