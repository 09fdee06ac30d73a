"""A Synergy peer, put together: kernel, overlay and algorithms (the modules of figure 2.2).

Both drivers make their peers here, so what is tested in the simulator is what runs on Dask workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from synergy_nb.algorithms import engines
from synergy_nb.algorithms.availability import Placement, PlacementConfig
from synergy_nb.algorithms.composition import Composition, CompositionConfig, Probing, component_name
from synergy_nb.algorithms.session import Session, SessionConfig
from synergy_nb.events import ApplicationStopped, EnginesChosen
from synergy_nb.graph import Report
from synergy_nb.ledger import Ledger
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.entries import Entry
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.load import Loads
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.streams import PROFILED, Streams
from synergy_nb.peer import Codec, Peer
from synergy_nb.placements import check_placement, replicates
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import ALL_COMPONENTS
from synergy_nb.plan.parts import PART, Profile, credible, parts_of, place, profiled
from synergy_nb.plan.sharing import TAP
from synergy_nb.replicated import Replicated

__all__ = ["PeerConfig", "SynergyPeer", "prepare"]


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
        Seed of the peer's random generator.
    pings
        Seconds between pings of the failure detector; more where many peers share a machine.
    composition, session
        Parameters of the algorithms.
    tracing
        Whether the journal gets every message of a request, to step through a decision.
    placement
        Those of the placement of replicas; None leaves it out.
    failure, domains
        What others may know of how this peer fails: its own probability ϕ, one per cent unless somebody knows better,
        and the domains that it depends on (site, rack; the widest first) with theirs.
    """

    name: str = ""
    components: tuple[str, ...] = ALL_COMPONENTS
    cores: float = 1.0
    bandwidth: float = 125e6
    seed: int = 0
    pings: float = 0.5
    composition: CompositionConfig = CompositionConfig()
    session: SessionConfig = SessionConfig()
    tracing: bool = True
    placement: PlacementConfig | None = PlacementConfig()
    failure: float = 0.01
    domains: dict[str, float] = {}

    def __post_init__(self) -> None:
        for field, value in {"failure": self.failure, **self.domains}.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{field}: {value}; expected a probability from 0 to 1")


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
    placement : Placement or None
        Places replicas, if it is not left out.
    spark : Offer or None
        What the driver knows of the Spark that it can use.
    on_parts : callable (request) or None
        Told of each request that is composed with parts on Spark.
    """

    def __init__(self, address: str, config: PeerConfig) -> None:
        self.config = config
        self.peer = peer = Peer(address, config.seed)
        peer.tracing = config.tracing
        self.latency = Latency()
        self.ledger = Ledger(config.cores, config.bandwidth)
        self.pastry = Pastry(peer, self.latency)
        self.membership = Membership(peer, self.pastry, config.pings)
        self.directory = Directory(peer, self.pastry, self.membership)
        self.streams = Streams(self.directory)
        offered = self.streams if config.composition.sharing != "off" else None
        self.loads = Loads(peer, self.directory, lambda: self.ledger.residual_cores(""))
        if config.composition.choice == "balanced":
            self.ledger.on_change = self.loads.changed
        self.session = Session(peer, self.ledger, self.membership, config.session, offered, self._on_spark)
        self.probing = Probing(peer, self.ledger, self.latency, config.composition)
        self.composition = Composition(
            peer, self.probing, self.directory, self.membership, self.session.establish, config.composition
        )
        self.placement = None if config.placement is None else self._placement(config.placement)
        self.replicated = None if self.placement is None else Replicated(peer, self.placement, self.session)
        for protocol in (
            self.pastry,
            self.membership,
            self.directory,
            self.session,
            self.probing,
            self.composition,
            *(self.placement.protocols if self.placement is not None else ()),
        ):
            peer.add(protocol)
        self.probing.offers.update(config.components)
        self.spark: engines.Offer | None = None
        self.on_parts: Callable[[str], None] | None = None
        self.probing.running = self._running
        self.probing.project = self.session.impacts.project
        self.session.impacts.config = config.composition.projection
        self.session.impacts.processing = self._processing
        self.probing.known = self._known
        self.session.commitments.on_deploy = self._deployed
        self.composition.placed = self._placed
        self.composition.profiles = True
        self.ledger.enforce = config.composition.enforce

    def _placement(self, config: PlacementConfig) -> Placement:
        def offers(plan: Plan, operator: str) -> bool:
            return plan.operators[operator].kind == "sink" or component_name(plan, operator) in self.probing.offers

        return Placement(
            self.peer, self.ledger, self.latency, self.directory, self.membership, component_name, offers, config,
            self.config.failure, self.config.domains,
        )  # fmt: skip

    def join(self, contact: str | None) -> None:
        """Join the ring through ``contact``, or begin a new one, and register what this peer offers."""
        self.pastry.join(contact)
        self.offer()

    def offer(self) -> None:
        """Register the components that this peer offers."""
        for component in self.config.components:
            if component != "sink":  # a sink is always where its application was submitted
                self.loads.offer(component, {"peer": self.config.name})

    def leave(self) -> None:
        """Unregister and leave the ring."""
        self.loads.withdraw()
        self.pastry.leave()

    def submit(self, request: str, plan: Plan, placement: str = "composed") -> None:
        """Start an application from this peer: composed, with what is for Spark as parts on Spark, or placed.

        A plan that asks for availability has its replicas placed for that; of it only what is bound to Spark is there.

        Raises
        ------
        ValueError
            If the plan cannot be placed in that way, or asks for replicas, which this peer does not place.
        """
        check_placement(plan, placement)
        if replicates(plan):
            if self.replicated is None:
                raise ValueError("qos.availability: this peer places no replicas; expected none")
            self.replicated.submit(request, self._bound(request, plan))
            return
        self.composition.also = () if self.spark is None else (PART,)
        self.composition.submit(request, plan, placed=placement != "composed")

    def _placed(self, request: str, plan: Plan, found: Mapping[str, tuple[Entry, ...]]) -> list[Plan]:
        """Plans to compose for one that was asked for: with its parts on Spark, and with less on it."""
        profiles = _profiles({name: found.get(name, ()) for name in map(plan.stream_name, plan.operators)})
        known = _unstated(plan, profiles)
        choice = engines.choose(profiled(plan, known), self.spark, profiles)
        if choice.reasons:
            self.peer.record(EnginesChosen, request, reasons=choice.reasons, parts=parts_of(choice.plan))
        if self.on_parts is not None and parts_of(choice.plan):
            self.on_parts(request)
        return [choice.plan, *([choice.otherwise] if choice.otherwise is not None else [])]

    def _bound(self, request: str, plan: Plan) -> Plan:
        """A plan with what is bound to Spark as parts; everything else is for peers."""
        named = {name for name, operator in plan.operators.items() if operator.engine == "spark"}
        if not named:
            return plan
        placed = place(plan, named, engines.MICRO_BATCH if self.spark is None else self.spark.micro_batch)
        reasons = dict.fromkeys(sorted(named), ("spark", engines.WHY))
        self.peer.record(EnginesChosen, request, reasons=reasons, parts=parts_of(placed))
        if self.on_parts is not None:
            self.on_parts(request)
        return placed

    def _processing(self, plan: Plan, operator: str) -> float:
        """Processing time τ of a component here: of a part on Spark, by the micro-batches that this peer measures."""
        asked = plan.operators[operator]
        profiled = plan.processing_time(operator)
        if asked.kind != PART or self.spark is None:
            return profiled
        batches: int = asked.params["batches"]
        return max(profiled, batches * self.spark.micro_batch)

    def _on_spark(self) -> bool:
        """Whether this peer has Spark."""
        return self.spark is not None

    def _deployed(self, plan: Plan, operator: str) -> None:
        """Offer a component to everybody that was deployed here for want of others (section 2.3.2)."""
        if plan.operators[operator].kind in ("sink", TAP, PART):
            return
        name = component_name(plan, operator)
        if name not in self.probing.offers:
            self.probing.offers.add(name)
            self.loads.offer(name, {"peer": self.config.name})

    def _running(self, component: tuple[str, str]) -> float | None:
        """Seconds from a source until a tuple is done by a component of this peer, if it is there for others to use."""
        found = self.session.components.get(component)
        return found.reached if found is not None and found.offered else None

    def _known(self) -> list[str]:
        """Neighbours in the overlay, the nearest first."""
        alive = [address for address in self.pastry.leaf_set if not self.membership.is_dead(address)]
        return self.latency.nearest(alive, len(alive))

    def stop(self, application: str) -> bool:
        """End an application of this origin: one that is composed, runs or has finished. False if unknown."""
        cancelled = self.composition.cancel(application)
        cancelled = cancelled or (self.replicated is not None and self.replicated.cancel(application))
        stopped = self.session.stop(application)
        if cancelled and not stopped:
            self.peer.record(ApplicationStopped, application, reason="")
            self.peer.instruct(Report(application, "stopped"))
        return cancelled or stopped


def prepare() -> None:
    """Have msgspec look at all message types, which takes longer than all else that makes a peer.

    It remembers what it has seen with each type, so processes that are forked later need not look again.
    """
    Codec(SynergyPeer("", PeerConfig()).peer.message_types)


def _profiles(entries: Mapping[str, tuple[Entry, ...]]) -> dict[str, Profile]:
    """What hosts have measured of operators, by the names of their streams; where several have, of the busiest."""
    found: dict[str, Profile] = {}
    for name, known in entries.items():
        measured = [entry.attributes for entry in known if "rate" in entry.attributes]
        if measured:
            busiest = max(measured, key=lambda attributes: float(attributes["rate"]))
            found[name] = Profile(**{field: float(busiest[field]) for field in PROFILED if field in busiest})
    return found


def _unstated(plan: Plan, profiles: Mapping[str, Profile]) -> dict[str, Profile]:
    """What was measured of those operators whose cost, selectivity or rate a plan does not state, by their ids."""
    known: dict[str, Profile] = {}
    for name, measured in credible(plan, profiles).items():
        operator = plan.operators[name]
        if operator.kind == "sink":
            continue
        stated = operator.kind != "source" or operator.params.get("rate") is not None
        known[name] = Profile(
            rate=None if stated else measured.rate,
            cost=measured.cost if operator.cost is None else None,
            selectivity=measured.selectivity if operator.selectivity is None else None,
        )
    return known
