"""A Synergy peer, put together: kernel, overlay and algorithms (the modules of figure 2.2).

Both drivers make their peers here, so what is tested in the simulator is what runs on Dask workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from synergy_nb.algorithms import engines
from synergy_nb.algorithms.composition import Composition, CompositionConfig, Probing
from synergy_nb.algorithms.session import Session, SessionConfig
from synergy_nb.graph import Ledger, Report
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.entries import Entry
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.streams import PROFILED, Streams
from synergy_nb.peer import Peer
from synergy_nb.plan import Plan
from synergy_nb.plan.parts import PART, Profile, parts_of

__all__ = ["ALL_COMPONENTS", "PeerConfig", "SynergyPeer"]

ALL_COMPONENTS = (
    "aggregate",
    "compare",
    "count",
    "decrypt",
    "delay",
    "distinct",
    "encrypt",
    "filter",
    "join",
    "project",
    "sample",
    "sink",
    "sort",
    "source:packets",
    "source:peers",
    "source:python",
    "source:trace",
    "union",
)


class PeerConfig(msgspec.Struct, frozen=True):
    """What a peer has and how it behaves.

    Parameters
    ----------
    name
        For people; a plan may pin an operator to it (``at=``).
    components
        Directory names of the components that it offers.
    cores
        Processing capacity that it gives, in cores.
    bandwidth
        Of each incoming virtual link, in bytes/s.
    seed
        Of its random generator.
    composition, session
        Parameters of the algorithms.
    """

    name: str = ""
    components: tuple[str, ...] = ALL_COMPONENTS
    cores: float = 1.0
    bandwidth: float = 125e6
    seed: int = 0
    composition: CompositionConfig = CompositionConfig()
    session: SessionConfig = SessionConfig()


class SynergyPeer:
    """One peer and its protocols.

    Parameters
    ----------
    address
        Where other peers reach it; its identity.
    config
        What it has and how it behaves.

    Attributes
    ----------
    peer : Peer
        The kernel that a driver runs.
    spark : Offer or None
        What the driver knows of the Spark that it can use.
    on_parts : callable (request) or None
        Told of each request that is composed with parts on Spark.
    """

    def __init__(self, address: str, config: PeerConfig) -> None:
        self.config = config
        self.peer = peer = Peer(address, config.seed)
        self.latency = Latency()
        self.ledger = Ledger(config.cores, config.bandwidth)
        self.pastry = Pastry(peer, self.latency)
        self.membership = Membership(peer, self.pastry)
        self.directory = Directory(peer, self.pastry, self.membership)
        self.streams = Streams(self.directory)
        self.session = Session(peer, self.ledger, self.membership, config.session)
        self.probing = Probing(peer, self.ledger, self.latency, config.composition)
        self.composition = Composition(
            peer, self.probing, self.directory, self.membership, self.session.establish, config.composition
        )
        for protocol in (
            self.pastry,
            self.membership,
            self.directory,
            self.session,
            self.probing,
            self.composition,
        ):
            peer.add(protocol)
        self.probing.offers.update(config.components)
        self.probing.processing = self._processing
        self.spark: engines.Offer | None = None
        self.on_parts: Callable[[str], None] | None = None
        self._choosing: set[str] = set()

    def join(self, contact: str | None) -> None:
        """Join the ring through ``contact``, or begin a new one, and register what this peer offers."""
        self.pastry.join(contact)
        for component in self.config.components:
            if component != "sink":  # a sink is always where its application was submitted
                self.directory.register(component, "component", {"peer": self.config.name})

    def leave(self) -> None:
        """Unregister and leave the ring."""
        for component in self.config.components:
            if component != "sink":
                self.directory.unregister(component)
        self.pastry.leave()

    def submit(self, request: str, plan: Plan) -> None:
        """Compose and start an application from this peer, with what is for Spark as parts on Spark."""
        if self.spark is None or all(each.engine == "peer" for each in plan.operators.values()):
            self._compose(request, plan, {})
            return
        self._choosing.add(request)
        names = sorted({plan.stream_name(operator) for operator in plan.operators})

        def found(entries: dict[str, tuple[Entry, ...]] | None) -> None:
            if request in self._choosing:
                self._choosing.discard(request)
                self._compose(request, plan, _profiles(entries or {}))

        self.directory.lookup(names, found, self.config.composition.discovery)

    def _processing(self, plan: Plan, operator: str) -> float:
        """Processing time τ of a component here: of a part on Spark, by the micro-batches that this peer measures."""
        asked = plan.operators[operator]
        profiled = plan.processing_time(operator)
        if asked.kind != PART or self.spark is None:
            return profiled
        batches: int = asked.params["batches"]
        return max(profiled, batches * self.spark.micro_batch)

    def _compose(self, request: str, plan: Plan, profiles: Mapping[str, Profile]) -> None:
        choice = engines.choose(plan, self.spark, profiles)
        if choice.reasons:
            reasons = {operator: list(why) for operator, why in choice.reasons.items()}
            self.peer.record("engines_chosen", request, reasons=reasons, parts=parts_of(choice.plan))
        if self.on_parts is not None and parts_of(choice.plan):
            self.on_parts(request)
        self.composition.submit(request, choice.plan, choice.otherwise)

    def stop(self, application: str) -> bool:
        """End an application of this origin: one that is composed, runs or has finished. False if unknown."""
        cancelled = self.composition.cancel(application) or application in self._choosing
        self._choosing.discard(application)
        stopped = self.session.stop(application)
        if cancelled and not stopped:
            self.peer.record("application_stopped", application, reason="")
            self.peer.instruct(Report(application, "stopped"))
        return cancelled or stopped


def _profiles(entries: Mapping[str, tuple[Entry, ...]]) -> dict[str, Profile]:
    """What hosts have measured of operators, by the names of their streams; where several have, of the busiest."""
    found: dict[str, Profile] = {}
    for name, known in entries.items():
        measured = [entry.attributes for entry in known if "rate" in entry.attributes]
        if measured:
            busiest = max(measured, key=lambda attributes: float(attributes["rate"]))
            found[name] = Profile(**{field: float(busiest[field]) for field in PROFILED if field in busiest})
    return found
