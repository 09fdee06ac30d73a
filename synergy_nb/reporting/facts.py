"""The facts of one application by subject, each folded from its events, one event after the other.

A subject is a small value that takes the events which it knows (``HANDLERS``) and is complete after each of them. An
account has all subjects (:class:`Facts`). A live view has only those that stay small however long an application runs:
:class:`RequestFacts`, :class:`EngineFacts`, :class:`SharingFacts` and :class:`ReplicationFacts`.

The subjects of an account have readable names in place of the addresses of peers; those of a view have addresses, as a
peer may tell its name later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from synergy_nb import events
from synergy_nb.events import Event, Handlers
from synergy_nb.events.peer_names import readable
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.hot_spots import HotSpotAccounts
from synergy_nb.reporting.refused_delays import RefusedDelay
from synergy_nb.reporting.replica_streams import StreamEvent
from synergy_nb.reporting.restarts import restarted
from synergy_nb.reporting.stalls import OpenWaits, Stall, stalls
from synergy_nb.reporting.troubles import Trouble, gathered
from synergy_nb.reporting.uncovered import uncovered

__all__ = ["ADDRESSES", "EngineFacts", "Facts", "PeerNames", "ReplicationFacts", "RequestFacts", "SharingFacts"]


ON_HOLD: Final = "on hold: a user has paused it, and its sources give no rows"


class PeerNames(NamedTuple):
    """Readable names of peers, by address."""

    names: Mapping[str, str]

    def of(self, address: str) -> str:
        """Name of a peer; its address if it has none."""
        return self.names.get(address, address)

    def graph(self, peers: Mapping[str, str]) -> dict[str, str]:
        """Operator to the name of its peer."""
        return {operator: self.of(peer) for operator, peer in peers.items()}

    def lists(self, peers: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        """Operator to the names of several peers."""
        return {operator: [self.of(peer) for peer in each] for operator, each in peers.items()}

    def readable(self, text: str) -> str:
        """Replace the addresses of peers in a text by their names."""
        return readable(text, self.names)


ADDRESSES: Final = PeerNames({})  # every peer keeps its address


class Subject:
    """The facts of one subject; peers have the names that are given."""

    HANDLERS: ClassVar[Handlers]

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        self._names = names

    def add(self, event: Event) -> None:
        """Add the facts of an event; one about other subjects is ignored."""
        if (handle := self.HANDLERS.get(type(event))) is not None:
            handle(self, event)


class RequestFacts(Subject):
    """What was requested: plan, requirements Q_ξ in base units, scheduling discipline, mode of hot spots.

    ``drops`` is whether peers drop tuples whose deadline has passed. ``sources`` says in words what was known of the
    rows of each. ``signatures`` has, by source or by operator whose stream runs already, the origin of its signature
    and the segments (seconds and tuples/s). ``estimates`` has, by operator, what was estimated, the number, and its
    origin; ``held`` the bytes of its state in a busy window and in a mean one, where a profile tells them.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        super().__init__(names)
        self.submitted: float | None = None
        self.plan = self.scheduling = self.hotspots = ""
        self.qos: dict[str, float] = {}
        self.drops = False
        self.sources: dict[str, str] = {}
        self.signatures: dict[str, tuple[str, list[tuple[float, float]]]] = {}
        self.estimates: dict[str, tuple[str, float, str]] = {}
        self.profiles: dict[str, str] = {}
        self.held: dict[str, tuple[float, float]] = {}

    @HANDLERS.add
    def _request_submitted(self, event: events.RequestSubmitted) -> None:
        self.submitted, self.plan = event.time, event.plan
        self.qos, self.scheduling, self.drops = dict(event.qos), event.scheduling, event.overdue == "drop"
        self.hotspots, self.sources = event.hotspots, dict(event.sources)

    @HANDLERS.add
    def _signatures_found(self, event: events.SignaturesFound) -> None:
        stated = {name: ("as the plan states", list(rates)) for name, rates in event.stated.items()}
        measured = {name: ("as measured before", list(rates)) for name, rates in event.measured.items()}
        profiled = {name: ("as its profile has it", list(rates)) for name, rates in event.profiled.items()}
        self.signatures = stated | measured | profiled

    @HANDLERS.add
    def _estimates_found(self, event: events.EstimatesFound) -> None:
        self.estimates, self.profiles, self.held = dict(event.numbers), dict(event.profiles), dict(event.held)


class EngineFacts(Subject):
    """The engine of each operator that Spark could execute, with the reason, and the operators of each part on Spark.

    A part has the name of the operator that represents it in the component graph.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        super().__init__(names)
        self.engines: dict[str, tuple[str, str]] = {}
        self.parts: dict[str, list[str]] = {}

    @HANDLERS.add
    def _engines_chosen(self, event: events.EnginesChosen) -> None:
        self.engines = {operator: (engine, why) for operator, (engine, why) in event.reasons.items()}
        self.parts = {name: list(part) for name, part in event.parts.items()}

    @HANDLERS.add
    def _engines_changed(self, event: events.EnginesChanged) -> None:
        self.parts = {name: list(part) for name, part in event.parts.items()}
        for operator, (engine, _) in self.engines.items():
            if engine == "spark" and not any(operator in part for part in self.parts.values()):
                self.engines[operator] = ("peer", f"on Spark: {self._names.readable(event.reason)}")


class SharingFacts(Subject):
    """Streams of other applications that it could use or uses.

    ``sharable`` has the maximum sharable points that were found: operator to the peers that provide its stream;
    ``rests`` has what operators still do that make their streams of others: operator to the name of that stream and its
    work; ``unfit`` the aggregates that do not read finer ones, with the nearest and the reason; ``unshared`` is why
    they are not used, and ``postponed`` why it waited before it was composed.
    ``shared`` has the application and the operator that provide a stream, by the operator of this plan, and
    ``producers`` all components that produce it: application, operator and peer.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        super().__init__(names)
        self.sharable: dict[str, list[str]] = {}
        self.rests: dict[str, tuple[str, str]] = {}
        self.unfit: dict[str, tuple[str, str]] = {}
        self.unshared = ""
        self.postponed: list[str] = []
        self.shared: dict[str, tuple[str, str]] = {}
        self.producers: dict[str, list[tuple[str, str, str]]] = {}

    @HANDLERS.add
    def _sharing_found(self, event: events.SharingFound) -> None:
        self.sharable, self.unshared = self._names.lists(event.points), ""
        self.rests = {name: (stream, left) for name, (stream, left) in event.rests.items()}
        self.unfit = {name: (stream, why) for name, (stream, why) in event.unfit.items()}

    @HANDLERS.add
    def _sharing_given_up(self, event: events.SharingGivenUp) -> None:
        self.unshared = self._names.readable(event.reason)

    @HANDLERS.add
    def _request_postponed(self, event: events.RequestPostponed) -> None:
        self.postponed.append(self._names.readable(event.reason))

    @HANDLERS.add
    def _application_running(self, event: events.ApplicationRunning) -> None:
        self.shared = {tap: (of, operator) for tap, (of, operator) in event.shared.items()}
        self.producers = {tap: list(made) for tap, made in event.producers.items()}

    @HANDLERS.add
    def _shared_stream_moved(self, event: events.SharedStreamMoved) -> None:
        self.producers = {tap: list(made) for tap, made in event.producers.items()}


class CompositionFacts(Subject):
    """How peers composed it: candidates, probes, complete graphs and the one that was set up, attempts that failed.

    ``placed`` is the reason of the placement of components that were placed and not composed. ``deployed`` has the
    missing components that were to be deployed, with the stage of the search for a peer; ``disciplines`` the peers that
    execute its operators by a scheduling discipline. ``tried`` and ``refused`` have the reasons why earlier attempts
    failed, before and during their set-up.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        super().__init__(names)
        self.candidates: dict[str, list[str]] = {}
        self.accepted: list[events.ProbeAccepted] = []
        self.dropped: list[events.ProbeDropped] = []
        self.graphs: list[events.GraphEvaluated] = []
        self.selected: events.GraphSelected | None = None
        self.attempts: list[events.ProbingEnded] = []
        self.tried: list[str] = []
        self.refused: list[str] = []
        self.deployed: list[events.DeploymentConsidered] = []
        self.placed = ""
        self.disciplines: dict[str, list[str]] = {}

    @HANDLERS.add
    def _placement_computed(self, event: events.PlacementComputed) -> None:
        self.placed = self._names.readable(event.text)

    @HANDLERS.add
    def _deployment_considered(self, event: events.DeploymentConsidered) -> None:
        self.deployed.append(event)

    @HANDLERS.add
    def _candidates_found(self, event: events.CandidatesFound) -> None:
        self.candidates = self._names.lists(event.candidates)

    @HANDLERS.add
    def _probe_accepted(self, event: events.ProbeAccepted) -> None:
        via = [self._names.of(peer) for peer in event.via]
        self.accepted.append(replace(event, peer=self._names.of(event.peer), via=via))

    @HANDLERS.add
    def _probe_dropped(self, event: events.ProbeDropped) -> None:
        self.dropped.append(replace(event, at=self._names.of(event.at)))

    @HANDLERS.add
    def _graph_evaluated(self, event: events.GraphEvaluated) -> None:
        self.graphs.append(replace(event, peers=self._names.graph(event.peers)))

    @HANDLERS.add
    def _probing_ended(self, event: events.ProbingEnded) -> None:
        self.attempts.append(event)

    @HANDLERS.add
    def _attempt_failed(self, event: events.AttemptFailed | events.SetupFailed) -> None:
        reasons = self.tried if isinstance(event, events.AttemptFailed) else self.refused
        reasons.append(self._names.readable(event.reason))

    @HANDLERS.add
    def _graph_selected(self, event: events.GraphSelected) -> None:
        self.selected = replace(event, peers=self._names.graph(event.peers))

    @HANDLERS.add
    def _application_rejected(self, _event: events.ApplicationRejected) -> None:
        self.selected = None

    @HANDLERS.add
    def _component_deployed(self, event: events.ComponentDeployed) -> None:
        peers, peer = self.disciplines.setdefault(event.discipline, []), self._names.of(event.peer)
        peers += [peer] if peer not in peers else []


class ReplicationFacts(Subject):
    """The present placements of its replicas: of backups, of active replicas, and the latest utilities of streams.

    ``placed_replicas`` is the number of replicas that were placed, by operator with backups.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames = ADDRESSES) -> None:
        super().__init__(names)
        self.replicated: events.PlacementCompleted | None = None
        self.replicas_deployed: events.ReplicasDeployed | None = None
        self.placed_replicas: dict[str, int] = {}
        self.weighed: events.StreamsWeighed | None = None

    @HANDLERS.add
    def _placement_completed(self, event: events.PlacementCompleted) -> None:
        primaries, backups = self._names.graph(event.primaries), self._names.lists(event.backups)
        self.replicated = replace(event, primaries=primaries, backups=backups)
        self.placed_replicas = {name: 1 + len(peers) for name, peers in backups.items()}

    @HANDLERS.add
    def _replicas_deployed(self, event: events.ReplicasDeployed) -> None:
        replicas, backups = self._names.lists(event.replicas), self._names.lists(event.backups)
        self.replicas_deployed = replace(event, replicas=replicas, backups=backups)
        self.placed_replicas = {name: 1 + len(peers) for name, peers in backups.items()}

    @HANDLERS.add
    def _streams_weighed(self, event: events.StreamsWeighed) -> None:
        self.weighed = event

    @property
    def active(self) -> dict[str, int]:
        """Operator to the number of its active replicas, where the plan asks for several."""
        deployed = self.replicas_deployed
        return {} if deployed is None else {name: number for name, number in deployed.degrees.items() if number > 1}

    @property
    def times_cost(self) -> float | None:
        """Expected network cost, as a multiple of that without replicas; None if it is not known."""
        deployed = self.replicas_deployed
        return deployed.cost / deployed.cost_alone if deployed is not None and deployed.cost_alone else None


class ReplicaFacts(Subject):
    """What became of its replicas: why they are at their peers, which were lost, rebuilt, or ended with their streams.

    ``left`` has the number of remaining replicas of operators with fewer than were placed; ``behind`` the peers whose
    copy could not take over, with the reasons, by operator; ``uncovered`` what no other peer could take over, by peer;
    ``rebuilt`` the replica from whose state an active replica began. ``streams`` has the events of streams
    between active replicas, of rebuilt replicas and new backups, and of the peer that leads them.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames, placement: ReplicationFacts) -> None:
        super().__init__(names)
        self.replicas: list[events.ReplicaDecided] = []
        self.replicas_lost: list[events.ActiveReplicasLost] = []
        self.replicas_ended: set[str] = set()
        self.streams: list[StreamEvent] = []
        self.rebuilt: dict[str, str] = {}
        self.left: dict[str, int] = {}
        self.behind: dict[str, dict[str, str]] = {}
        self.uncovered: dict[str, list[str]] = {}
        self.unplaced: list[str] = []
        self._placement = placement  # which has the event before this subject

    @HANDLERS.add
    def _placement_begun(self, _event: events.PlacementBegun) -> None:
        self.replicas = []

    @HANDLERS.add
    def _replica_decided(self, event: events.ReplicaDecided) -> None:
        passed = [(self._names.of(peer), self._names.readable(why)) for peer, why in event.passed]
        order = [self._names.of(peer) for peer in event.order]
        self.replicas.append(replace(event, at=self._names.of(event.at), order=order, passed=passed))

    @HANDLERS.add
    def _placement_attempt_failed(self, event: events.PlacementAttemptFailed) -> None:
        self.unplaced.append(self._names.readable(event.reason))

    @HANDLERS.add
    def _placement_completed(self, event: events.PlacementCompleted) -> None:
        alone = uncovered(event.primaries, event.backups)
        self.uncovered = {self._names.of(peer): what for peer, what in alone.items()}

    @HANDLERS.add
    def _replicas_deployed(self, event: events.ReplicasDeployed) -> None:
        placed = sum(map(len, event.backups.values()))
        self.replicas = self.replicas[-placed:] if event.backups else []  # the others were tried

    @HANDLERS.add
    def _active_replicas_lost(self, event: events.ActiveReplicasLost) -> None:
        lost = replace(event, at=self._names.of(event.at), reason=self._names.readable(event.reason))
        self.replicas_lost.append(lost)
        self._end(event.operators)

    def _end(self, replicas: Iterable[str]) -> None:
        self.rebuilt = {name: source for name, source in self.rebuilt.items() if name not in set(replicas)}

    @HANDLERS.add
    def _stream(self, event: StreamEvent) -> None:
        if isinstance(event, events.ReplicaRebuilt | events.BackupRestored):
            event = replace(event, at=self._names.of(event.at))
        if isinstance(event, events.ReplicaRebuilt):
            self.rebuilt[event.operator] = event.begun
        elif isinstance(event, events.BackupRestored):
            self._count(event.backups)
        elif isinstance(event, events.StreamsDiscarded):
            self.replicas_ended.update(event.ended)
            self._end(event.ended)
        self.streams.append(event)

    @HANDLERS.add
    def _taken_over(self, event: events.TakenOver) -> None:
        self._count(event.backups)

    def _count(self, backups: Mapping[str, Sequence[str]]) -> None:
        """Find the operators with fewer remaining replicas than requested."""
        counts = {name: 1 + len(peers) for name, peers in backups.items()}
        placed = self._placement.placed_replicas
        self.left = {name: count for name, count in counts.items() if count < placed.get(name, 0)}

    @HANDLERS.add
    def _copies_behind(self, event: events.CopiesBehind) -> None:
        operator = event.operator
        self.behind[operator] = {self._names.of(peer): self._names.readable(why) for peer, why in event.peers.items()}
        self.left.pop(operator, None)
        if event.left < self._placement.placed_replicas.get(operator, 0):
            self.left[operator] = event.left


class MoveFacts(Subject):
    """Which components have changed their peers, and how: moves and take-overs, in words.

    ``graph`` is the component graph λ after the last of them, empty before the first; ``moving`` has the old and the
    new peer of a component that moves, ``came_from`` the previous peer of one that has moved, and ``died`` the peer
    from which a backup took over.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames) -> None:
        super().__init__(names)
        self.takeovers: list[str] = []
        self.moves: list[str] = []
        self.moving: dict[str, tuple[str, str]] = {}
        self.graph: dict[str, str] = {}
        self.came_from: dict[str, str] = {}
        self.died: dict[str, str] = {}

    @HANDLERS.add
    def _takeover_begun(self, event: events.TakeoverBegun) -> None:
        lost = self._names.of(event.dead)
        moved = [f"{name} from {lost} to {self._names.of(peer)}" for name, peer in event.operators.items()]
        self.takeovers.append(", ".join(moved) or f"{lost} had backups alone")
        self.died.update(dict.fromkeys(event.operators, lost))
        self.came_from = {name: at for name, at in self.came_from.items() if name not in event.operators}

    @HANDLERS.add
    def _graph_changed(self, event: events.TakenOver | events.ReplicaRebuilt | events.OriginSucceeded) -> None:
        self.graph = self._names.graph(event.peers)

    @HANDLERS.add
    def _replicas_ended(self, event: events.ActiveReplicasLost | events.StreamsDiscarded) -> None:
        for name in event.operators if isinstance(event, events.ActiveReplicasLost) else event.ended:
            self.graph.pop(name, None)

    @HANDLERS.add
    def _move_postponed(self, event: events.MovePostponed) -> None:
        waits = f"{event.operator} waited before it moved to {self._names.of(event.to)}"
        self.moves.append(f"{waits}: {self._names.readable(event.reason)}")

    @HANDLERS.add
    def _move_begun(self, event: events.MoveBegun) -> None:
        self.moving[event.operator] = self._names.of(event.at), self._names.of(event.to)

    @HANDLERS.add
    def _component_moved(self, event: events.ComponentMoved) -> None:
        self.graph = self._names.graph(event.peers)
        self.came_from[event.operator] = before = self._names.of(event.at)
        self.moving.pop(event.operator, None)
        self.moves.append(f"{event.operator} from {before} to {self._names.of(event.to)} in {seconds(event.seconds)}")

    @HANDLERS.add
    def _shared_stream_moved(self, event: events.SharedStreamMoved) -> None:
        self.graph = self._names.graph(event.peers)
        before, to = self._names.of(event.at), self._names.of(event.to)
        self.moves.append(f"{event.operator} of {event.of}, which it shares, from {before} to {to}")

    @HANDLERS.add
    def _move_given_up(self, event: events.MoveGivenUp) -> None:
        self.moving.pop(event.operator, None)
        to, why = self._names.of(event.to), self._names.readable(event.reason)
        self.moves.append(f"{event.operator} did not move to {to}: {why}")

    @HANDLERS.add
    def _application_ended(self, _event: events.ApplicationEnded) -> None:
        self.moving.clear()


class LossFacts(Subject):
    """Rows and tuples that it has left out: rows that came too late and malformed lines by source, overdue by operator.

    Overdue tuples are those that an operator has dropped because their deadline had passed.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames) -> None:
        super().__init__(names)
        self.late: dict[str, int] = {}
        self.skipped: dict[str, events.SkippedLines] = {}
        self.remarks: dict[str, str] = {}  # source to what it has said last
        self.restarts: list[str] = []  # what each restart has meant, in a sentence
        self.overdue: dict[str, int] = {}

    @HANDLERS.add
    def _late_rows(self, event: events.LateRows) -> None:
        self.late[event.operator] = event.dropped

    @HANDLERS.add
    def _restart_begun(self, event: events.RestartBegun) -> None:
        self.restarts.append(f"composed anew: {self._names.readable(event.reason)}")

    @HANDLERS.add
    def _restarted(self, event: events.ApplicationRestarted) -> None:
        self.restarts.append(restarted(event.kept, event.lost))

    @HANDLERS.add
    def _source_remarked(self, event: events.SourceRemarked) -> None:
        self.remarks[event.operator] = event.text

    @HANDLERS.add
    def _lines_skipped(self, event: events.LinesSkipped) -> None:
        self.skipped[event.operator] = event.lines

    @HANDLERS.add
    def _sink_measured(self, event: events.SinkMeasured) -> None:
        self.overdue |= {name: max(lost, self.overdue.get(name, 0)) for name, lost in event.dropped.items()}


class WaitFacts(Subject):
    """Which of its components wait at present, and for whom; the names of peers are put in once chains are made."""

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames, now: float) -> None:
        super().__init__(names)
        self._open = OpenWaits()
        self._now = now

    @HANDLERS.add
    def _wait(
        self,
        event: events.WaitBegun | events.WaitEnded | events.SourceBroken | events.SourceMended
        | events.DestinationBroken | events.DestinationMended
        | events.ComponentDeployed | events.ComponentUndeployed | events.ApplicationEnded | events.SinkMeasured,
    ) -> None:  # fmt: skip
        self._open.add(event)
        self._now = max(self._now, event.time)

    def stalls(self, request: str) -> list[Stall]:
        """Return its stalls at present, or, of what is over, up to the last event about it."""
        found = stalls(self._open, self._now, request)
        return [each._replace(text=self._names.readable(each.text)) for each in found]


class OutcomeFacts(Subject):
    """What became of it, in a sentence; when it began to run, and how long its set-up took, seconds.

    ``released`` is whether the replicas of a request to place some, which ran nothing, are released again.
    """

    HANDLERS = Handlers()

    def __init__(self, names: PeerNames, request: RequestFacts) -> None:
        super().__init__(names)
        self.outcome = "being composed"
        self.began: float | None = None
        self.setup_s: float | None = None
        self.released = False
        self._going = "running"  # what it is while it goes on
        self._orphaned = ""
        self._again: float | None = None  # time at which it began to be composed anew, seconds; None: it never did
        self._request = request  # which has the event before this subject

    @HANDLERS.add
    def _placement_completed(self, _event: events.PlacementCompleted) -> None:
        self.outcome, self.released = "placed", False

    @HANDLERS.add
    def _placement_failed(self, event: events.PlacementFailed) -> None:
        if self._request.submitted is None:  # an application may be placed later: it says itself how it ends
            self.outcome = f"not placed: {self._names.readable(event.reason)}"

    @HANDLERS.add
    def _placement_released(self, _event: events.PlacementReleased) -> None:
        if self.outcome == "placed":
            self.outcome, self.released = "its replicas have been released", True

    @HANDLERS.add
    def _application_running(self, event: events.ApplicationRunning) -> None:
        self.outcome, self.began = self._going, event.time
        asked = self._request.submitted if self._again is None else self._again
        if asked is not None:
            self.setup_s = event.time - asked

    @HANDLERS.add
    def _restart_begun(self, event: events.RestartBegun) -> None:
        self.outcome, self._again = "being composed", event.time

    @HANDLERS.add
    def _application_paused(self, event: events.ApplicationPaused) -> None:
        self.outcome = f"paused: {self._names.readable(events.awaited_text(event.awaited))}"

    @HANDLERS.add
    def _application_continued(self, _event: events.ApplicationContinued) -> None:
        self.outcome = self._going

    @HANDLERS.add
    def _hold_begun(self, _event: events.HoldBegun) -> None:
        self._goes_on_as(ON_HOLD)

    @HANDLERS.add
    def _hold_ended(self, _event: events.HoldEnded) -> None:
        self._goes_on_as("running")

    def _goes_on_as(self, what: str) -> None:
        self.outcome, self._going = what if self.outcome == self._going else self.outcome, what

    @HANDLERS.add
    def _session_expired(self, event: events.SessionExpired) -> None:
        self._orphaned = self._names.of(event.origin)

    @HANDLERS.add
    def _application_ended(self, event: events.ApplicationEnded) -> None:
        reason = self._names.readable(event.reason)
        self.outcome = f"{event.status}: {reason}" if reason else event.status

    def conclude(self, state: tuple[str, str] | None) -> None:
        """Derive the outcome if the journal of the origin lacks it, from status and reason by the last report."""
        if self.outcome in ("being composed", "running", ON_HOLD, "placed") or self.outcome.startswith("paused: "):
            if state is not None and state[0] not in ("composing", self.outcome.partition(":")[0]):
                self.outcome = f"{state[0]}: {self._names.readable(state[1])}" if state[1] else state[0]
            elif self._orphaned:
                self.outcome = f"failed: its origin {self._orphaned} died or does not answer"


class Facts:
    """All facts of one application, by subject; a fact of any subject is an attribute as well.

    ``events``: events of all peers about the request, in order, and errors of peers; ``state``: status and reason by
    the last report, used where events are missing, as of an origin that died; ``now``: present time in seconds, None if
    that of the last event counts.
    """

    def __init__(
        self,
        request: str,
        events: Iterable[Event],
        names: Mapping[str, str],
        state: tuple[str, str] | None = None,
        now: float | None = None,
    ) -> None:
        events, named = list(events), PeerNames(names)
        self.request = request  # id of the request
        self.names = names  # peer address to a readable name
        self.asked = RequestFacts(named)
        self.on_engines = EngineFacts(named)
        self.sharing = SharingFacts(named)
        self.composition = CompositionFacts(named)
        self.replication = ReplicationFacts(named)
        self.of_replicas = ReplicaFacts(named, self.replication)
        self.movement = MoveFacts(named)
        self.losses = LossFacts(named)
        self.waits = WaitFacts(named, -math.inf if now is None else now)
        self.course = OutcomeFacts(named, self.asked)
        # hot spots of its components, and the migrations away from them
        self.hot_spots = HotSpotAccounts(request, named.of, named.readable)
        # errors of peers: protocols that raised an exception, links that broke, messages and data that were refused
        self.troubles: list[Trouble] = gathered(events)
        # parts of the projected delay for which a request was refused, if the caller has computed them
        self.delay: RefusedDelay | None = None
        subjects = self._subjects
        for event in events:
            for subject in subjects:
                subject.add(event)
            self.hot_spots.add(event)
        self.course.conclude(state)
        if self.course.released:
            self.replication.replicated, self.of_replicas.uncovered = None, {}

    @property
    def _subjects(self) -> list[Subject]:
        return [each for each in vars(self).values() if isinstance(each, Subject)]

    def __getattr__(self, name: str) -> Any:
        for subject in self._subjects:
            if name in vars(subject) and not name.startswith("_"):
                return getattr(subject, name)
        raise AttributeError(f"an account has no fact {name!r}; expected one of {', '.join(self._facts())}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._facts()]

    def _facts(self) -> list[str]:
        return sorted(name for subject in self._subjects for name in vars(subject) if not name.startswith("_"))

    def readable(self, text: str) -> str:
        """Replace the addresses of peers in a text by their names."""
        return readable(text, self.names)


#: Types of events that accounts show, except the errors of peers.
SHOWN: Final = frozenset(
    HotSpotAccounts.HANDLERS.kinds.union(*(each.HANDLERS.kinds for each in Subject.__subclasses__()))
)
