"""Assembly of a Synergy peer from kernel, overlay, lifecycle and algorithms (the modules of figure 2.2).

Both drivers create their peers here, so the simulator tests the same peers that run on Dask workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from synergy_nb.algorithms.availability import PlacementConfig, PlacementOrigin
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.selection import ordered
from synergy_nb.algorithms.composition import Composition, CompositionConfig, Probing
from synergy_nb.algorithms.migration import HotSpots
from synergy_nb.algorithms.replication.backup_peers import CandidateLink
from synergy_nb.algorithms.replication.candidate_survey import CandidateSurvey
from synergy_nb.algorithms.replication.placement import ActivePlacement
from synergy_nb.algorithms.replication.rebuilding import ReplicaRebuilding
from synergy_nb.algorithms.replication.stream_collection import StreamCollection
from synergy_nb.assembly._driver_port import DriverPort, Parts, SparkSupport
from synergy_nb.assembly._speakers import Speakers
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Codec, Peer
from synergy_nb.control.rights import READ, Acceptance, Admission
from synergy_nb.events import PeerOverloaded
from synergy_nb.lifecycle.engine import Requests
from synergy_nb.lifecycle.records.messages import Entrusted
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests.alternatives import Alternatives
from synergy_nb.lifecycle.requests.claims import Claims
from synergy_nb.lifecycle.requests.decider import Decider, component_name, needs_content
from synergy_nb.lifecycle.requests.replica_placement import ReplicaPlacement
from synergy_nb.lifecycle.requests.resilient_placement import ResilientPlacement
from synergy_nb.lifecycle.session import Session
from synergy_nb.lifecycle.sessions.skipped_lines import SkippedReports
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.overheads import Overheads
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.held_contents import HeldContents
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.load_levels import LEVELS, LoadLevels
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.derived.stream_sharing import provider
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS, TAP


class PeerConfig(msgspec.Struct, frozen=True):
    """Configuration of one peer."""

    name: str = ""  # readable name of the peer; a plan may pin an operator to it (`at=`)
    components: tuple[str, ...] = ALL_COMPONENTS  # directory names of the components that it offers
    cores: float = 1.0  # processing capacity that it offers, in cores
    bandwidth: float = 125e6  # bandwidth of each incoming virtual link, in bytes/s
    # whether the measured bandwidth of a link is what may be promised, where there is one
    promise_measured: bool = False
    seed: int = 0  # seed of the peer's random generator
    # interval between pings of the failure detector, seconds; longer where many peers share a machine
    pings: float = 0.5
    # number of levels of the load, from 2: the peer publishes its load when that leaves its level
    load_levels: int = LEVELS
    composition: CompositionConfig = CompositionConfig()
    session: SessionConfig = SessionConfig()
    hotspots: HotSpotConfig = HotSpotConfig()
    # parameters of the placement of replicas; None if this peer places none
    placement: PlacementConfig | None = PlacementConfig()
    replication: ReplicationConfig = ReplicationConfig()
    # failure, domains: probability ϕ that the peer fails on its own, 0.01 unless a better estimate is known; and the
    # failure domains that it depends on (site, rack; the widest first), each with its probability of failure
    failure: float = 0.01
    domains: dict[str, float] = {}
    accepts: Acceptance = Acceptance()  # what it accepts from guests
    memory: float | None = None  # limit of all its operators together, bytes, of which guests have a share; None: none

    def __post_init__(self) -> None:
        for field, value in {"failure": self.failure, **self.domains}.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{field}: {value}; expected a probability from 0 to 1")
        if self.load_levels < 2:
            raise ValueError(f"load_levels: {self.load_levels}; expected at least 2")


@dataclass(frozen=True)
class Machine:
    """Measured properties of a peer's machine and network; the defaults use the values that plans state."""

    # function from an address to the bandwidth of the virtual link from it, bytes/s; None for the bandwidth in the
    # configuration of the peer
    bandwidth_from: Callable[[str], float] | None = None
    # function that returns the processing time τ of (plan, operator) at this peer, seconds
    processing: Callable[[Plan, str], float] = Plan.processing_time
    # cores that the thread which executes the operators can use; None: all cores of the peer, see `Ledger`
    server: float | None = None
    # measured overheads: time of items at this peer beside the processing of their tuples
    overheads: Overheads | None = None
    latency: Latency | None = None  # latencies that probes use; None for those that the overlay measures
    # function that returns the addresses of other peers, the nearest first; None for neighbours in the overlay
    nearest: Callable[[], Sequence[str]] | None = None
    # function that returns the reason why Spark cannot execute an operator; None for what the plan alone shows
    supports: SparkSupport | None = None
    # uplink, downlink: bandwidth of all that the peer sends, and of all that it receives, bytes/s. The placement of
    # replicas obeys both; composition obeys the downlink
    uplink: float = math.inf
    downlink: float = math.inf


class SynergyPeer:
    """One peer and its protocols.

    ``peer``: the kernel that a driver runs.
    """

    def __init__(
        self,
        address: str,
        config: PeerConfig,
        machine: Machine = Machine(),
        # constructor of the kernel from the address and the seed, such as one that records
        kernel: Callable[[str, int], Peer] = Peer,
    ) -> None:
        self.config = config
        self.peer = kernel(address, config.seed)
        self.latency = Latency()
        self.ledger = Ledger(
            config.cores,
            config.bandwidth,
            machine.bandwidth_from,
            promise_measured=config.promise_measured,
            enforce=config.composition.enforce,
            uplink=machine.uplink,
            downlink=machine.downlink,
            server=machine.server,
        )
        self.admission = Admission(self.ledger, config.accepts, config.memory or math.inf)
        # In the order of the house, from below: each step is given what the steps before it have made
        self._make_overlay(self.peer, config)
        self._make_session(self.peer, config, machine)
        self._make_requests(self.peer, config, self._make_deciders(self.peer, config, machine))
        self._follow_leaders()
        self._make_migration(self.peer, config, machine)
        self._make_driver_port(self.peer, config, machine)

    def _make_overlay(self, peer: Peer, config: PeerConfig) -> None:
        """Make what knows other peers: ring, failure detector, directory, and the loads in it."""
        self.pastry = Pastry(peer, self.latency)
        self.membership = Membership(peer, self.pastry, config.pings)
        self.directory = Directory(peer, self.pastry, self.membership)
        self.streams = PublishedStreams(self.directory)
        self.contents = HeldContents(peer, self.pastry)
        self.loads = LoadLevels(peer, self.directory, self.ledger, OverlappingLevels(config.load_levels))
        if config.composition.choice == "balanced":
            self.ledger.on_change.append(self.loads.promises_changed)
        self.loads.on_overload.append(self._overloaded)

    def _make_session(self, peer: Peer, config: PeerConfig, machine: Machine) -> None:
        """Make what takes part in applications, and leads those of this peer."""
        composing = config.composition
        # sessions of the applications in which it takes part
        self.session = Session(
            peer,
            self.ledger,
            self.membership,
            msgspec.structs.replace(config.session, compares=config.replication.compare),
            self.streams if composing.sharing != "off" else None,
            self._offer_of_spark,
            composing.projection,
            machine.processing,
            self._deployed,
            self._placed,
            self._lacks,
            self.admission,
        )

    def _make_deciders(self, peer: Peer, config: PeerConfig, machine: Machine) -> dict[str, Decider]:
        """Make what decides which peers execute a plan; return it by the mode of placement."""
        composing, latency = config.composition, machine.latency or self.latency
        self.probing = Probing(
            peer,
            self.ledger,
            latency,
            composing,
            config.components,
            machine.overheads,
            self.session.impacts.project,
            self._running,
            machine.nearest or self._neighbours,
            self.membership.answers,
            self.admission,
        )
        self.composition = Composition(peer, self.probing, self.membership, composing)
        # decider that has the driver compute placements, and receives the results
        self.resilient = ResilientPlacement(peer, self.membership.is_dead, self.composition)
        # protocol that places replicas; None if this peer places none
        self.placement = None if config.placement is None else self._placement(config.placement)
        self.survey = CandidateSurvey(
            peer,
            self.ledger,
            latency,
            machine.overheads or Overheads(),
            self.session.impacts.project,
            self._offers,
            self.membership.answers,
            config.failure,
            config.domains,
        )
        active = ActivePlacement(
            peer,
            self.survey,
            self.latency,
            self.membership.is_dead,
            composing.late,
            self.probing.tolerated_excess,
            config.replication.retained,
            _preferred,
            durable=config.session.durable,
        )
        deciders: dict[str, Decider] = {
            "composed": self.composition,
            "resilient": self.resilient,
            "active": active,
        }
        if self.placement is not None:
            deciders["replicated"] = ReplicaPlacement(self.placement, self.composition)
        return deciders

    def _make_requests(self, peer: Peer, config: PeerConfig, deciders: dict[str, Decider]) -> None:
        """Make what leads the requests of this peer from their submission to their graph."""
        composing = config.composition
        # finder of the alternatives of plans
        self.alternatives = Alternatives(
            peer, self.membership.is_dead, composing.sharing, self._offer_of_spark, backtracks=composing.backtracks
        )
        # engine of the applications that were submitted at this peer
        self.requests = Requests(
            peer,
            self.directory,
            self.session,
            self.alternatives,
            deciders,
            composing.discovery,
            Claims(peer, self.streams, composing.patience),
            config.name,
        )

    def _make_migration(self, peer: Peer, config: PeerConfig, machine: Machine) -> None:
        """Make what changes the graphs of running applications: hot spots, rebuilding, collection of streams."""
        latency = machine.latency or self.latency
        # protocol that predicts hot spots of this peer, and has components migrate away from them
        self.hot_spots = HotSpots(
            peer,
            self.session,
            self.directory,
            self.membership,
            self.latency,
            config.hotspots,
            self._offers,
            self.ledger.server,
        )
        rebuilding, replication = None, config.replication
        if config.session.durable:  # what a folder has of a reader is of all its streams
            replication = msgspec.structs.replace(replication, theta=None, rebuild=True)
        if replication.rebuild:
            rebuilding = ReplicaRebuilding(
                peer,
                self.session,
                self.directory,
                self.membership,
                self.survey,
                latency,
                _preferred,
            )
        self.collection = StreamCollection(
            peer,
            self.session.changes,
            latency,
            self.membership.is_dead,
            replication,
            (lambda *_: None) if rebuilding is None else rebuilding.want,
            self.session.rebuilds.settled,
        )

    def _make_driver_port(self, peer: Peer, config: PeerConfig, machine: Machine) -> None:
        """Make what handles the messages of the driver, and have the kernel pass messages to all protocols."""
        skipped = SkippedReports(peer, self.session.components, self.session.members, self.requests)
        parts = Parts(
            self.pastry, self.membership, self.directory, self.loads, self.streams, self.ledger, self.session,
            self.requests, self.resilient, self.probing, self.hot_spots, self.collection, skipped,
            self.contents,
        )  # fmt: skip
        # protocol that handles the messages of the driver
        self.driver_port = DriverPort(peer, parts, config.components, config.name, config.bandwidth, machine.supports)
        for protocol in (
            self.pastry,
            self.membership,
            self.directory,
            self.contents,
            self.session,
            self.probing,
            self.composition,
            self.survey,
            self.hot_spots,
            self.collection,
            skipped,
            self.driver_port,
            *(self.placement.protocols if self.placement is not None else ()),
        ):
            peer.add(protocol)
        Speakers(peer, self.pastry, self.session, self.probing, self.placement).guard()

    def _placement(self, config: PlacementConfig) -> PlacementOrigin:
        return PlacementOrigin(
            self.peer, self.ledger, self.latency, self.directory, self.membership, self._offers, config,
            self.config.failure, self.config.domains,
        )  # fmt: skip

    def _follow_leaders(self) -> None:
        """Have the present leader of an application renew the placement of its replicas."""
        placement, succession = self.placement, self.session.succession
        if placement is None:
            return
        succession.on_superseded.append(lambda request: placement.forget(request.name))

        def succeeded(request: Request, record: Entrusted) -> None:
            if record.placement and request.running:
                placement.inherit(request.name, record.placement, request.placed)

        succession.on_succeeded.append(succeeded)

    # -- functions that its parts are given ----------------------------------------------------------------------------

    def _offers(self, plan: Plan, operator: str) -> bool:
        """Whether this peer has the component of an operator."""
        node = plan.operators[operator]
        if node.kind == TAP:
            made = provider(node, self.peer.address)
            return made is not None and self._running(made, "") is not None
        return node.kind == "sink" or component_name(plan, operator) in self.probing.offers

    def _overloaded(self, overloaded: bool) -> None:
        """Record that the load of this peer has entered or left the highest level."""
        load = self.loads.load
        measured = load.load if load.measured is None else load.measured
        self.peer.record(PeerOverloaded, "", load=measured, predicted_load=load.load, overloaded=overloaded)

    def _offer_of_spark(self) -> SparkOffer | None:
        return self.driver_port.spark

    def _deployed(self, plan: Plan, operator: str) -> None:
        """Register a component that was deployed here because no peer offered it (section 2.3.2)."""
        if plan.operators[operator].kind in ("sink", TAP, PART):
            return
        name = component_name(plan, operator)
        if name not in self.probing.offers:
            self.probing.offers.add(name)
            self.loads.offer(name, {"peer": self.config.name})

    def _lacks(self, plan: Plan, operator: str, at: str) -> str:
        """Say what this peer lacks to execute an operator; a content is fetched from the peer that executes it."""
        kind = plan.operators[operator].kind
        if kind == PART:
            return "" if self._offer_of_spark() is not None else "Spark"
        if not needs_content(plan.operators[operator]) or self._offers(plan, operator):
            return ""
        self.contents.want(component_name(plan, operator), at)
        return f"{component_name(plan, operator)} yet"

    def _placed(self, request: Request) -> int:
        """Number of the attempt by which the replicas of a request were placed; 0 for none."""
        return 0 if self.placement is None else self.placement.attempt(request.name)

    def _running(self, component: tuple[str, str], user: str) -> float | None:
        """Time from a source until a tuple leaves a component here, projected, seconds; None if it cannot be shared."""
        found, member = self.session.components.get(component), self.session.members.get(component[0])
        readable = member is None or member.graph.rights.allow(user, READ)
        return found.reached if found is not None and found.offered and readable else None

    def _neighbours(self) -> list[str]:
        """Neighbours in the overlay, the nearest first."""
        alive = [address for address in self.pastry.leaf_set if not self.membership.is_dead(address)]
        return self.latency.nearest(alive, len(alive))


def _preferred(
    candidates: Sequence[str],
    links: Mapping[str, CandidateLink],
    used: Collection[str],
    bandwidth: float,
    *,
    beside: Collection[str],
    needs: float,
    single: Collection[str],
) -> list[str]:
    """Candidates for a backup beside active replicas, in the order of section 4.3."""
    known = {peer: SurveyedLink(*each) for peer, each in links.items()}
    return ordered(candidates, known, used, bandwidth, beside, lambda _peer: needs, single)


def prepare() -> None:
    """Have msgspec analyse all message types, which is the slowest part of creating a peer.

    The result is cached in each type, so processes that are forked later do not repeat the analysis.
    """
    Codec(SynergyPeer("", PeerConfig()).peer.message_types)
