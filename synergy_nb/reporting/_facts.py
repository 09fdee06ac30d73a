"""The facts of one request in a journal, collected event by event; its account is made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from synergy_nb.events import (
    ActiveReplicasLost,
    ApplicationEnded,
    ApplicationRejected,
    ApplicationRunning,
    AttemptFailed,
    BackupRestored,
    CandidatesFound,
    ComponentDeployed,
    ComponentMoved,
    CopiesBehind,
    DeploymentConsidered,
    EnginesChanged,
    EnginesChosen,
    Event,
    GraphEvaluated,
    GraphSelected,
    Handlers,
    LateRows,
    LinesSkipped,
    MoveBegun,
    MoveGivenUp,
    MovePostponed,
    OriginSucceeded,
    PlacementAttemptFailed,
    PlacementBegun,
    PlacementCompleted,
    PlacementComputed,
    PlacementFailed,
    PlacementReleased,
    ProbeAccepted,
    ProbeDropped,
    ProbingEnded,
    ReplicaDecided,
    ReplicaRebuilt,
    ReplicasDeployed,
    RequestPostponed,
    RequestSubmitted,
    SessionExpired,
    SetupFailed,
    SharedStreamMoved,
    SharingFound,
    SharingGivenUp,
    SignaturesFound,
    SinkMeasured,
    SkippedLines,
    StreamsDiscarded,
    StreamsWeighed,
    TakenOver,
    TakeoverBegun,
)
from synergy_nb.events.peer_names import readable
from synergy_nb.reporting.formatting import seconds
from synergy_nb.reporting.hot_spots import HotSpotAccounts, HotSpotEvent
from synergy_nb.reporting.refused_delays import RefusedDelay
from synergy_nb.reporting.replica_streams import StreamEvent, outcome_after
from synergy_nb.reporting.troubles import Trouble, gathered
from synergy_nb.reporting.uncovered import uncovered


class Facts:
    """Facts in the journal about the composition of a request, and about its outcome.

    Parameters
    ----------
    request
        Id of the request.
    events
        Events of all peers about the request, in order, and errors of peers.
    names
        Peer address to a readable name.
    state
        Status and reason by the last report, used where events are missing, as of an origin that died.

    Attributes
    ----------
    names : mapping
        Peer address to a readable name.
    qos : dict
        QoS requirement Q_ξ, in base units.
    scheduling, hotspots : str
        Scheduling discipline, and mode of hot spots, that its plan states; empty if it states none.
    drops : bool
        Whether peers drop tuples whose deadline has passed.
    overdue : dict
        Operator to the number of tuples that it has dropped because their deadline had passed.
    disciplines : dict
        Scheduling discipline to the peers that execute its operators by it.
    candidates : dict
        Operator id to the peers that offer its component.
    accepted : list of ProbeAccepted
        Probes that passed the checks of a peer; here and below, readable names replace the addresses of peers.
    dropped : list of ProbeDropped
        Probes that failed a condition.
    graphs : list of GraphEvaluated
        Complete component graphs.
    selected : GraphSelected or None
        Component graph that was set up.
    signatures : dict
        Source, or operator whose stream runs already, to the origin of its signature and the segments (seconds and
        tuples/s), for streams with a signature.
    sources : dict
        Source to what was known of its rows, in words.
    engines : dict
        Operator id to (engine, reason), for operators that Spark could execute.
    parts : dict
        Operator that replaces a part on Spark to all operators of the part.
    shared : dict
        Operator with a shared stream to the application and operator that provide it.
    sharable : dict
        Maximum sharable points that were found: operator to the peers that provide its stream.
    unshared : str
        Reason why streams that were found are not used.
    postponed : list of str
        Reasons why it waited for a stream that another request composes.
    deployed : list of DeploymentConsidered
        Missing components that were to be deployed, and the stage of the search for a peer.
    placed : str
        Reason of the placement of components, if they were placed and not composed.
    attempts : list of ProbingEnded
        Numbers of probes that returned, were dropped, and made graphs, by round of probing.
    tried : list of str
        Reasons why graphs of earlier attempts could not be set up.
    replicas : list of ReplicaDecided
        Peers of the replicas of its components that placement has decided.
    replicas_deployed : ReplicasDeployed or None
        Present placement of active replicas.
    placed_replicas : dict of str to int
        Operator with backups to the number of its replicas that were placed.
    replicas_lost : list of ActiveReplicasLost
        Active replicas that it has lost, at the time of each loss.
    replicas_ended : set of str
        Active replicas that ended as all of their streams were discarded.
    streams : list of StreamEvent
        Streams between active replicas that were discarded and revived, replicas that were rebuilt, new backups.
    weighed : StreamsWeighed or None
        Latest utilities and costs of these streams.
    rebuilt : dict
        Active replica that was rebuilt to the replica from whose state it began.
    replicated : PlacementCompleted or None
        Present placement of replicas.
    takeovers : list of str
        Components that backups took over.
    moves : list of str
        Moves of components with their durations, and moves that waited or failed, with the reason.
    moving : dict
        Operator that is moving to the names of its old and its new peer.
    hot_spots : HotSpotAccounts
        Hot spots of its components, and the migrations away from them.
    late : dict
        Source to the number of rows that were pushed too late and dropped.
    skipped : dict of str to SkippedLines
        Source to the malformed lines of its trace that it skips.
    left : dict
        Operator to the number of its remaining replicas, for operators with fewer replicas than were placed.
    behind : dict
        Operator to the peers whose copy could not take over, with the reasons.
    uncovered : dict
        Peer to the parts of the application that no other peer could take over; empty without replicas.
    troubles : list of Trouble
        Errors of peers: protocols that raised an exception, links that broke, messages and data that were refused.
    delay : Delay or None
        Parts of the projected delay for which a request was refused, if the caller has computed them.
    began : float or None
        Time at which it began to run, seconds.
    outcome : str
        Outcome of the request, in a sentence.
    """

    #: Types of events in the account, except the errors of peers.
    SHOWN: Final = Handlers()

    def __init__(
        self,
        request: str,
        events: Iterable[Event],
        names: Mapping[str, str],
        state: tuple[str, str] | None = None,
    ) -> None:
        events = list(events)
        self.request = request
        self.names = names
        self.qos: dict[str, float] = {}
        self.scheduling = self.hotspots = self.changed = self.unshared = self.placed = self._orphaned = ""
        self.drops = False
        self.overdue: dict[str, int] = {}
        self.disciplines: dict[str, list[str]] = {}
        self.candidates: dict[str, list[str]] = {}
        self.accepted: list[ProbeAccepted] = []
        self.dropped: list[ProbeDropped] = []
        self.graphs: list[GraphEvaluated] = []
        self.selected: GraphSelected | None = None
        self.signatures: dict[str, tuple[str, list[tuple[float, float]]]] = {}
        self.sources: dict[str, str] = {}
        self.engines: dict[str, tuple[str, str]] = {}
        self.parts: dict[str, list[str]] = {}
        self.shared: dict[str, tuple[str, str]] = {}
        self.sharable: dict[str, list[str]] = {}
        self.postponed: list[str] = []
        self.deployed: list[DeploymentConsidered] = []
        self.takeovers: list[str] = []
        self.moves: list[str] = []
        self._moved: dict[str, str] = {}
        self._from: dict[str, str] = {}  # operators that have moved, to their previous peer
        self._died: dict[str, str] = {}  # operators that a backup took over, to the peer that died last
        self.attempts: list[ProbingEnded] = []
        self.refused: list[str] = []
        self.replicas: list[ReplicaDecided] = []
        self.replicated: PlacementCompleted | None = None
        self.unplaced: list[str] = []
        self.replicas_deployed: ReplicasDeployed | None = None
        self.placed_replicas: dict[str, int] = {}
        self.replicas_lost: list[ActiveReplicasLost] = []
        self.replicas_ended: set[str] = set()
        self.streams: list[StreamEvent] = []
        self.weighed: StreamsWeighed | None = None
        self.rebuilt: dict[str, str] = {}
        self.delay: RefusedDelay | None = None
        self.outcome = "being composed"
        self.setup_s: float | None = None
        self.began: float | None = None
        self.left: dict[str, int] = {}
        self.behind: dict[str, dict[str, str]] = {}
        self.uncovered: dict[str, list[str]] = {}
        self.troubles: list[Trouble] = gathered(events)
        self.tried: list[str] = []
        self.moving: dict[str, tuple[str, str]] = {}
        self.hot_spots = HotSpotAccounts(request, self._name, self.readable)
        self.late: dict[str, int] = {}
        self.skipped: dict[str, SkippedLines] = {}
        self._submitted: float | None = None
        for event in events:
            if (handle := self.SHOWN.get(type(event))) is not None:
                handle(self, event)
        self._conclude(self._orphaned, state)

    # -- handlers of events --------------------------------------------------------------------------------------------

    @SHOWN.add
    def _request_submitted(self, event: RequestSubmitted) -> None:
        self._submitted = event.time
        self.qos, self.scheduling, self.drops = dict(event.qos), event.scheduling, event.overdue == "drop"
        self.hotspots, self.sources = event.hotspots, dict(event.sources)

    @SHOWN.add
    def _signatures_found(self, event: SignaturesFound) -> None:
        stated = {name: ("as the plan states", list(rates)) for name, rates in event.stated.items()}
        measured = {name: ("as measured before", list(rates)) for name, rates in event.measured.items()}
        self.signatures = stated | measured

    @SHOWN.add
    def _engines_chosen(self, event: EnginesChosen) -> None:
        self.engines = {operator: (engine, why) for operator, (engine, why) in event.reasons.items()}
        self.parts = {name: list(part) for name, part in event.parts.items()}

    @SHOWN.add
    def _engines_changed(self, event: EnginesChanged) -> None:
        self.parts = {name: list(part) for name, part in event.parts.items()}
        self.changed = self.readable(event.reason)
        for operator, (engine, _) in self.engines.items():
            if engine == "spark" and not any(operator in part for part in self.parts.values()):
                self.engines[operator] = ("peer", f"on Spark: {self.changed}")

    @SHOWN.add
    def _sharing_found(self, event: SharingFound) -> None:
        self.sharable, self.unshared = self._lists(event.points), ""

    @SHOWN.add
    def _sharing_given_up(self, event: SharingGivenUp) -> None:
        self.unshared = self.readable(event.reason)

    @SHOWN.add
    def _request_postponed(self, event: RequestPostponed) -> None:
        self.postponed.append(self.readable(event.reason))

    @SHOWN.add
    def _placement_computed(self, event: PlacementComputed) -> None:
        self.placed = self.readable(event.text)

    @SHOWN.add
    def _deployment_considered(self, event: DeploymentConsidered) -> None:
        self.deployed.append(event)

    @SHOWN.add
    def _candidates_found(self, event: CandidatesFound) -> None:
        self.candidates = self._lists(event.candidates)

    @SHOWN.add
    def _probe_accepted(self, event: ProbeAccepted) -> None:
        via = [self._name(peer) for peer in event.via]
        self.accepted.append(replace(event, peer=self._name(event.peer), via=via))

    @SHOWN.add
    def _probe_dropped(self, event: ProbeDropped) -> None:
        self.dropped.append(replace(event, at=self._name(event.at)))

    @SHOWN.add
    def _graph_evaluated(self, event: GraphEvaluated) -> None:
        self.graphs.append(replace(event, peers=self._graph(event.peers)))

    @SHOWN.add
    def _probing_ended(self, event: ProbingEnded) -> None:
        self.attempts.append(event)

    @SHOWN.add
    def _attempt_failed(self, event: AttemptFailed | SetupFailed | PlacementAttemptFailed) -> None:
        reasons = {AttemptFailed: self.tried, SetupFailed: self.refused, PlacementAttemptFailed: self.unplaced}
        reasons[type(event)].append(self.readable(event.reason))

    @SHOWN.add
    def _graph_selected(self, event: GraphSelected) -> None:
        self.selected = replace(event, peers=self._graph(event.peers))

    @SHOWN.add
    def _placement_begun(self, _event: PlacementBegun) -> None:
        self.replicas = []

    @SHOWN.add
    def _replica_decided(self, event: ReplicaDecided) -> None:
        passed = [(self._name(peer), self.readable(why)) for peer, why in event.passed]
        order = [self._name(peer) for peer in event.order]
        self.replicas.append(replace(event, at=self._name(event.at), order=order, passed=passed))

    @SHOWN.add
    def _placement_completed(self, event: PlacementCompleted) -> None:
        backups = self._lists(event.backups)
        self.replicated = replace(event, primaries=self._graph(event.primaries), backups=backups)
        self.outcome = "placed"
        self.placed_replicas = {name: 1 + len(peers) for name, peers in backups.items()}
        alone = uncovered(event.primaries, backups)
        self.uncovered = {self._name(peer): what for peer, what in alone.items()}

    @SHOWN.add
    def _replicas_deployed(self, event: ReplicasDeployed) -> None:
        replicas, backups = self._lists(event.replicas), self._lists(event.backups)
        self.replicas_deployed = replace(event, replicas=replicas, backups=backups)
        self.placed_replicas = {name: 1 + len(peers) for name, peers in backups.items()}
        self.replicas = self.replicas[-sum(map(len, backups.values())) :] if backups else []  # the others were tried

    @SHOWN.add
    def _active_replicas_lost(self, event: ActiveReplicasLost) -> None:
        self.replicas_lost.append(replace(event, at=self._name(event.at), reason=self.readable(event.reason)))
        self._end_replicas(event.operators)

    def _end_replicas(self, replicas: Iterable[str]) -> None:
        for name in replicas:
            self._moved.pop(name, None)
            self.rebuilt.pop(name, None)

    @SHOWN.add
    def _stream(self, event: StreamEvent | StreamsWeighed) -> None:
        if isinstance(event, StreamsWeighed):
            self.weighed = event
            return
        self.outcome = outcome_after(event, self.outcome, self.readable)
        if isinstance(event, ReplicaRebuilt | OriginSucceeded):
            self._moved = self._graph(event.peers)
        if isinstance(event, ReplicaRebuilt | BackupRestored):
            event = replace(event, at=self._name(event.at))
        if isinstance(event, ReplicaRebuilt):
            self.rebuilt[event.operator] = event.source
        elif isinstance(event, BackupRestored):
            self._count(event.backups)
        elif isinstance(event, StreamsDiscarded):
            self.replicas_ended.update(event.ended)
            self._end_replicas(event.ended)
        self.streams.append(event)

    @SHOWN.add
    def _placement_failed(self, event: PlacementFailed) -> None:
        self.outcome = f"not placed: {self.readable(event.reason)}"

    @SHOWN.add
    def _placement_released(self, _event: PlacementReleased) -> None:
        if self.outcome == "placed":
            self.replicated = None
            self.uncovered = {}
            self.outcome = "its replicas have been released"

    @SHOWN.add
    def _takeover_begun(self, event: TakeoverBegun) -> None:
        lost = self._name(event.dead)
        moved = [f"{name} from {lost} to {self._name(peer)}" for name, peer in event.operators.items()]
        self.takeovers.append(", ".join(moved) or f"{lost} had backups alone")
        self._died.update(dict.fromkeys(event.operators, lost))
        self._from = {name: at for name, at in self._from.items() if name not in event.operators}

    @SHOWN.add
    def _taken_over(self, event: TakenOver) -> None:
        self._moved = self._graph(event.peers)
        self._count(event.backups)

    @SHOWN.add
    def _copies_behind(self, event: CopiesBehind) -> None:
        operator = event.operator
        self.behind[operator] = {self._name(peer): self.readable(why) for peer, why in event.peers.items()}
        self.left.pop(operator, None)
        if event.left < self.placed_replicas.get(operator, 0):
            self.left[operator] = event.left

    @SHOWN.add
    def _move_postponed(self, event: MovePostponed) -> None:
        waits = f"{event.operator} waited before it moved to {self._name(event.to)}"
        self.moves.append(f"{waits}: {self.readable(event.reason)}")

    @SHOWN.add
    def _move_begun(self, event: MoveBegun) -> None:
        self.moving[event.operator] = self._name(event.at), self._name(event.to)

    @SHOWN.add
    def _component_moved(self, event: ComponentMoved) -> None:
        self._moved = self._graph(event.peers)
        self._from[event.operator] = before = self._name(event.at)
        self.moving.pop(event.operator, None)
        self.moves.append(f"{event.operator} from {before} to {self._name(event.to)} in {seconds(event.seconds)}")

    @SHOWN.add
    def _shared_stream_moved(self, event: SharedStreamMoved) -> None:
        self._moved = self._graph(event.peers)
        before, to = self._name(event.at), self._name(event.to)
        self.moves.append(f"{event.operator} of {event.of}, which it shares, from {before} to {to}")

    @SHOWN.add
    def _move_given_up(self, event: MoveGivenUp) -> None:
        self.moving.pop(event.operator, None)
        self.moves.append(f"{event.operator} did not move to {self._name(event.to)}: {self.readable(event.reason)}")

    @SHOWN.add
    def _hot_spot(self, event: HotSpotEvent) -> None:
        self.hot_spots.add(event)

    @SHOWN.add
    def _rows_lost(self, event: LateRows | LinesSkipped | SinkMeasured) -> None:
        if isinstance(event, LateRows):
            self.late[event.operator] = event.dropped
        elif isinstance(event, LinesSkipped):
            self.skipped[event.operator] = event.lines
        else:
            self.overdue |= {name: max(lost, self.overdue.get(name, 0)) for name, lost in event.dropped.items()}

    @SHOWN.add
    def _session_expired(self, event: SessionExpired) -> None:
        self._orphaned = self._name(event.origin)

    @SHOWN.add
    def _component_deployed(self, event: ComponentDeployed) -> None:
        peers, peer = self.disciplines.setdefault(event.discipline, []), self._name(event.peer)
        peers += [peer] if peer not in peers else []

    @SHOWN.add
    def _application_running(self, event: ApplicationRunning) -> None:
        self.outcome, self.began = "running", event.time
        if self._submitted is not None:
            self.setup_s = event.time - self._submitted
        self.shared = {tap: (of, operator) for tap, (of, operator) in event.shared.items()}

    @SHOWN.add
    def _application_ended(self, event: ApplicationEnded) -> None:
        reason = self.readable(event.reason)
        self.outcome = f"{event.status}: {reason}" if reason else event.status
        self.moving.clear()
        if isinstance(event, ApplicationRejected):
            self.selected = None

    def _conclude(self, orphaned: str, state: tuple[str, str] | None) -> None:
        """Derive the outcome if the journal of the origin lacks it."""
        if self.outcome in ("being composed", "running", "placed") or self.outcome.startswith("paused: "):
            if state is not None and state[0] not in ("composing", self.outcome.partition(":")[0]):
                self.outcome = f"{state[0]}: {self.readable(state[1])}" if state[1] else state[0]
            elif orphaned:
                self.outcome = f"failed: its origin {orphaned} died or does not answer"

    def _count(self, backups: Mapping[str, Sequence[str]]) -> None:
        """Find the operators with fewer remaining replicas than requested."""
        counts = {name: 1 + len(peers) for name, peers in backups.items()}
        self.left = {name: count for name, count in counts.items() if count < self.placed_replicas.get(name, 0)}

    def _name(self, address: str) -> str:
        return self.names.get(address, address)

    def _lists(self, peers: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        return {operator: [self._name(peer) for peer in each] for operator, each in peers.items()}

    def _graph(self, peers: Mapping[str, str]) -> dict[str, str]:
        return {operator: self._name(peer) for operator, peer in peers.items()}

    def readable(self, text: str) -> str:
        """Replace the addresses of peers in a text by their names."""
        return readable(text, self.names)
