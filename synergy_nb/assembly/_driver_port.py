"""The protocol between a peer and its own driver: it passes each message of the driver to the part that handles it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from synergy_nb.algorithms.composition import Probing
from synergy_nb.algorithms.migration import HotSpots
from synergy_nb.algorithms.replication.stream_collection import StreamCollection
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Protocol, key_of
from synergy_nb.events import LinkMeasured, PeerJoined, PeerLeft
from synergy_nb.lifecycle.engine import Requests
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests.resilient_placement import ResilientPlacement
from synergy_nb.lifecycle.session import Session
from synergy_nb.lifecycle.sessions.skipped_lines import SkippedReports
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.overlay.held_contents import HeldContents
from synergy_nb.overlay.load_levels import LoadLevels
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import paced

SparkSupport = Callable[[Plan, str, Collection[str], bool], str]
"""Function of a plan, an operator, the other operators of its part on Spark, and whether Spark reads local files; it
returns the reason why Spark cannot execute the operator, or an empty text."""


@dataclass(frozen=True)
class Parts:
    """The parts of a peer that handle the messages of its driver."""

    pastry: Pastry
    membership: Membership
    directory: Directory
    loads: LoadLevels
    streams: PublishedStreams
    ledger: Ledger
    session: Session
    requests: Requests
    resilient: ResilientPlacement
    probing: Probing
    hot_spots: HotSpots
    collection: StreamCollection
    skipped: SkippedReports
    contents: HeldContents


class DriverPort(Protocol):
    """Handles the messages that a peer's own driver sends to it."""

    def __init__(
        self,
        peer: Peer,
        parts: Parts,
        components: tuple[str, ...],  # directory names of the components that the peer offers
        name: str,  # readable name of the peer; the directory stores it with the components of the peer
        bandwidth: float,  # bandwidth of each incoming virtual link where no wide area limits it, bytes/s
        # function that returns the reason why Spark cannot execute an operator; None for what the plan alone shows
        supports: SparkSupport | None = None,
    ) -> None:
        super().__init__(peer)
        self._parts = parts
        self._components = components
        self._name = name
        self._bandwidth = bandwidth
        self._supports = supports
        # Spark servers that the peer can use, by the last report of the driver; None if it can use none
        self.spark: SparkOffer | None = None
        self._joining: driver.JoinRing | None = None  # command that is not carried out yet
        parts.pastry.on_joined.append(self._joined)
        session, copies, streams = parts.session, parts.session.copies, parts.streams
        self.handlers = {
            driver.JoinRing: self._join,
            driver.OfferComponents: self._offer_more,
            driver.WithdrawComponents: self._withdraw,
            driver.LeaveRing: self._leave,
            driver.LookUpHosts: self._find_hosts,
            driver.SubmitPlan: self._submit,
            driver.LeaseRenewed: lambda _, message: parts.requests.leases.renew(message.application),
            driver.ShareApplication: self._grant,
            driver.HoldApplication: self._hold,
            driver.ChangePlan: self._change_plan,
            driver.StopApplication: self._stop,
            driver.ReleaseResults: lambda _, message: parts.requests.discard_results(message.application),
            driver.MoveComponent: self._move,
            driver.DelayMeasured: lambda _, message: session.sinks.measured(message.application, message.seconds),
            driver.SinksEnded: lambda _, message: session.sinks.ended(message.application),
            driver.PartReady: lambda _, message: session.component_ready(message.application, message.operator),
            driver.OperatorStopped: lambda _, message: session.component_failed(
                message.application, message.operator, message.reason
            ),
            driver.AttemptOutdated: lambda _, message: session.outdated(
                message.application, message.operator, message.epoch
            ),
            driver.LinesMalformed: lambda _, message: parts.skipped.found(message),
            driver.ReaderStalled: lambda _, message: session.lost.reader_failed(
                message.application, message.operator, message.reader, message.reason
            ),
            driver.CopyReady: lambda _, message: copies.ready(message.application, message.operator),
            driver.CopyUnusable: lambda _, message: copies.failed(
                message.application, message.operator, message.reason
            ),
            driver.CopiesLagging: lambda _, message: copies.behind(
                message.application, message.operator, message.peers
            ),
            driver.LoadsMeasured: self._loads_measured,
            driver.PredictionsMade: self._predictions_made,
            driver.InputsReported: self._inputs_reported,
            driver.SlackLost: lambda _, message: parts.hot_spots.slack_lost(message.violation),
            driver.StreamProfiled: lambda _, message: streams.profile(message.stream, message.measured),
            driver.ProfileExpired: lambda _, message: streams.forget(message.stream),
            driver.LinkFailed: self._link_failed,
            driver.SpeedMeasured: lambda _, message: parts.hot_spots.monitor.speed_measured(message),
            driver.CoresAdvertised: lambda _, message: parts.probing.cores_reported(message.address, message.cores),
            driver.OverheadsMeasured: lambda _, message: parts.probing.overheads.assume(message.stages, message.calls),
            driver.BandwidthsLimited: self._bandwidths_limited,
            driver.BandwidthMeasured: self._bandwidth_measured,
            driver.SparkOffered: self._spark_offered,
            driver.PlacementDecided: lambda _, message: parts.resilient.placed(message),
        }

    # -- the ring ----------------------------------------------------------------------------------------------------

    def _join(self, _driver: str, message: driver.JoinRing) -> None:
        if not self._parts.pastry.joined:
            self._joining = message
        self._parts.pastry.join(message.contact)
        self._offer()

    def _joined(self) -> None:
        if self._joining is not None:
            self.peer.record(PeerJoined, self.peer.address, contact=self._joining.contact or "")
            self._joining = None

    def _offer(self) -> None:
        for component in self._components:
            if component != "sink":  # sinks are at the origin or where a plan binds them, and are not looked up
                self._parts.loads.offer(component, {"peer": self._name})

    def _offer_more(self, _driver: str, message: driver.OfferComponents) -> None:
        """Register components; of ``more`` those that were not known."""
        new = [each for each in message.more if each not in self._components]
        self._components = (*self._components, *new)
        self._parts.probing.offers.update(new)
        if not message.more:
            self._offer()
        for component in new:
            self._parts.loads.offer(component, {"peer": self._name})
        if message.told:
            self._parts.contents.hold(message.more)

    def _withdraw(self, _driver: str, message: driver.WithdrawComponents) -> None:
        """Unregister components of which the contents are gone."""
        self._components = tuple(each for each in self._components if each not in message.components)
        self._parts.probing.offers.difference_update(message.components)
        for component in message.components:
            self._parts.loads.retract(component)
        self._parts.contents.drop(message.components)

    def _leave(self, _driver: str, _message: driver.LeaveRing) -> None:
        self._parts.loads.withdraw()
        if self._parts.pastry.joined:
            self.peer.record(PeerLeft, self.peer.address)
        self._parts.pastry.leave()

    def _find_hosts(self, _driver: str, message: driver.LookUpHosts) -> None:
        def found(entries: Mapping[str, tuple[Entry, ...]] | None) -> None:
            hosts = None
            if entries is not None:
                hosts = {name: sorted(entry.host for entry in entries[name]) for name in sorted(entries)}
            self.peer.instruct(driver.HostsLookedUp(message.number, hosts))

        self._parts.directory.lookup(message.names, found, message.seconds)

    # -- applications ------------------------------------------------------------------------------------------------

    def _answer(self, number: int, refusal: str = "", *, begun: bool = True) -> None:
        if number:
            self.peer.instruct(driver.Answer(number, refusal, begun))

    def _submit(self, _driver: str, message: driver.SubmitPlan) -> None:
        try:
            plan = Plan.from_bytes(message.plan)
            named = message.application, plan, message.placement
            self._parts.requests.submit(
                *named,
                trial=message.trial,
                lease=message.lease,
                user=message.user,
                epoch=message.epoch,
                beside=message.beside,
            )
        except ValueError as error:
            self._answer(message.number, str(error), begun=False)
        else:
            self._answer(message.number)

    def _grant(self, _driver: str, message: driver.ShareApplication) -> None:
        try:
            self._parts.requests.grant(message.application, message.user, message.right)
        except ValueError as error:
            self._answer(message.number, str(error), begun=False)
        else:
            self._answer(message.number)

    def _hold(self, _driver: str, message: driver.HoldApplication) -> None:
        def held(refusal: str) -> None:
            self._answer(message.number, refusal)

        try:
            self._parts.requests.hold(message.application, on=message.on, answer=held)
        except ValueError as error:
            self._answer(message.number, str(error), begun=False)

    def _change_plan(self, _driver: str, message: driver.ChangePlan) -> None:
        changes, name = self._parts.requests.changes, message.application
        plan = Plan.from_bytes(message.plan) if message.plan else None
        try:
            match message.step:
                case "begin" if plan is not None:
                    changes.begin(name, plan)
                case "ask":
                    changes.ask(name)
                case "give up":
                    changes.give_up(name, "another plan does not take the place of its own")
                case "interrupt":
                    changes.interrupt(name)
                case _:
                    changes.settle(name, plan)
        except ValueError as error:
            self._answer(message.number, str(error), begun=False)
        else:
            self._answer(message.number)

    def _stop(self, _driver: str, message: driver.StopApplication) -> None:
        self._parts.requests.stop(message.application)

    def _move(self, _driver: str, message: driver.MoveComponent) -> None:
        def moved(refusal: str) -> None:
            self._answer(message.number, refusal)

        try:
            self._parts.session.moves.command(message.application, message.operator, message.to, moved)
        except ValueError as error:
            self._answer(message.number, str(error), begun=False)

    # -- the machine and the network ---------------------------------------------------------------------------------

    def _predictions_made(self, _driver: str, message: driver.PredictionsMade) -> None:
        report = message.report
        self._parts.loads.report(report.load, report.predicted_load)
        self._parts.hot_spots.predictions_reported(report)

    def _inputs_reported(self, _driver: str, message: driver.InputsReported) -> None:
        self._parts.session.rebuilds.streams.inputs_reported(message)
        self._parts.collection.inputs_reported(message)

    def _link_failed(self, _driver: str, message: driver.LinkFailed) -> None:
        if message.refused:
            self._parts.membership.note_refused(message.address)
        self._parts.membership.suspect(message.address)

    def _loads_measured(self, _driver: str, message: driver.LoadsMeasured) -> None:
        session = self._parts.session
        server = self._parts.ledger.server
        measured = {(load.application, load.operator): load.segments for load in message.loads}
        for name, component in tuple(session.components.items()):
            # an unpaced component uses only the capacity that others leave
            promised = paced(component.plan, component.operator)
            segments = measured.get(name, ()) if promised else ()
            session.components.load_measured(name, tuple(each._replace(load=each.load / server) for each in segments))

    def _bandwidths_limited(self, _driver: str, message: driver.BandwidthsLimited) -> None:
        rates, sites, most = message.rates, message.sites, self._bandwidth

        def bandwidth_from(upstream: str) -> float:
            site = sites.get(upstream)
            return min(most, rates[int(key_of(upstream), 16) % len(rates) if site is None else site])

        self._parts.ledger.bandwidth_from = bandwidth_from if rates else lambda _upstream: most

    def _bandwidth_measured(self, _driver: str, message: driver.BandwidthMeasured) -> None:
        ledger = self._parts.ledger
        ledger.measure(message.address, message.rate)
        configured = ledger.bandwidth_from(message.address)
        self.peer.record(LinkMeasured, message.address, bandwidth=message.rate, configured=configured)

    def _spark_offered(self, _driver: str, message: driver.SparkOffered) -> None:
        supports = self._supports
        if supports is None:
            self.spark = SparkOffer(micro_batch=message.micro_batch)
            return

        def refuses(plan: Plan, operator: str, inside: Collection[str]) -> str:
            return supports(plan, operator, inside, message.local)

        self.spark = SparkOffer(micro_batch=message.micro_batch, refuses=refuses)
