"""Messages in words: the request of each, and its contents, for people who step through a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from synergy_nb.algorithms.availability import messages as replicas
from synergy_nb.algorithms.composition import messages as composition
from synergy_nb.algorithms.migration import messages as migration
from synergy_nb.algorithms.replication import candidate_survey as candidates
from synergy_nb.algorithms.replication import stream_collection as streams
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Hop
from synergy_nb.control.peer import Message
from synergy_nb.lifecycle.records import messages as lifecycle
from synergy_nb.overlay import directory_messages as directory
from synergy_nb.overlay import gossip, held_contents, pastry, routing
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds, share

__all__ = ["DESCRIPTIONS", "HOUSEKEEPING", "describe", "dropped", "subject"]


SHORT: Final = 40  # maximum number of characters of a stream's name


def subject(message: Message) -> str:
    """The request or application that a message is about; empty if it is about none, or about several."""
    for field in ("application", "request"):
        found = getattr(message, field, None)
        if isinstance(found, str):
            return found
    try:
        match message:
            case composition.Probe():
                return composition.decode_request(message.request)[0].request
            case replicas.PlacementRequest() | replicas.PlacementNegotiation() | replicas.PlacementDecision():
                return replicas.decode_task(message.task)[0].request
    except (msgspec.MsgspecError, ValueError):
        return ""  # the peer refuses it
    graph = getattr(message, "graph", None)
    return graph.application if isinstance(graph, lifecycle.Graph) else ""


def describe(message: Message) -> str:
    """Describe a message in words, with addresses of peers; empty without a description."""
    found = DESCRIPTIONS.get(type(message), "")
    return found.format(m=message) if isinstance(found, str) else found(message)


def dropped(message: composition.Dropped) -> str:
    """Why a probe was dropped."""
    required, available = _amount(message.condition, message.required), _amount(message.condition, message.available)
    if message.condition == "acknowledgement":
        return f"{message.operator} at {message.at}: it has not acknowledged the probe in time"
    text = f"{message.operator} at {message.at}: {message.condition}"
    if message.condition in ("processing capacity", "bandwidth", "delay", "miss rate", "QoS impact"):
        bound = "at most" if message.condition in ("delay", "miss rate", "QoS impact") else "needs"
        text += f": {bound} {required}, there {'is' if bound == 'needs' else 'would be'} {available}"
    return f"{text}: {message.detail}" if message.detail else text


def _amount(condition: str, value: float) -> str:
    if condition in ("delay", "QoS impact"):
        return seconds(value)
    if condition == "miss rate":
        return share(value)
    return f"{value:.3g} {'bytes/s' if condition == 'bandwidth' else 'cores'}"


def _path(path: Iterable[Hop]) -> str:
    return ", ".join(f"{hop.operator} at {hop.peer}" for hop in path)


def _peers(peers: Mapping[str, str]) -> str:
    return ", ".join(f"{operator} at {address}" for operator, address in peers.items())


def _several(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"


def _short(name: str) -> str:
    """The name of a component or a stream; a stream's holds all that it is made by."""
    return name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def _probe(message: composition.Probe) -> str:
    after = f" after {_path(message.path)}" if message.path else ""
    return f"check {message.operator}{after}; budget {message.budget}"


def _confirm(message: lifecycle.Confirm) -> str:
    return f"commit {message.operator}" + (f", which {message.consumer} reads" if message.consumer else "")


def _followed(message: lifecycle.Followed) -> str:
    if message.refusal:
        return f"cannot follow {message.operator}: {message.refusal}"
    return f"{'is ready for the move of' if message.ready else 'follows, or lets others follow,'} {message.operator}"


def _behind(message: lifecycle.CopiesLag) -> str:
    if not message.peers:
        return f"all copies of {message.operator} could take over again"
    return f"copies of {message.operator} could not take over: " + "; ".join(
        f"{address}: {reason}" for address, reason in message.peers.items()
    )


def _reason(outcome: str, reason: str) -> str:
    return f"{outcome}: {reason}" if reason else outcome


Say: TypeAlias = str | Callable[[Any], str]

#: Type of a message ``m`` to its description: a template, or a function that returns the text.
DESCRIPTIONS: Final[Mapping[type[Message], Say]] = {
    # the driver
    driver.JoinRing: lambda m: f"join the ring through {m.contact}" if m.contact else "begin a new ring",
    driver.OfferComponents: lambda m: (
        f"offer {_several(map(_short, m.more)) if m.more else 'the components of this peer'}"
    ),
    driver.WithdrawComponents: lambda m: f"offer {_several(map(_short, m.components))} no more",
    driver.LeaveRing: "leave the ring",
    driver.LookUpHosts: lambda m: f"look up the hosts of {_several(map(_short, m.names))}",
    driver.SubmitPlan: lambda m: (
        f"{'try' if m.trial else 'submit'} a plan of {counted(len(m.plan), 'byte')}, {m.placement}"
    ),
    driver.ShareApplication: "grant {m.user} the right {m.right!r}",
    driver.HoldApplication: lambda m: "pause the application" if m.on else "resume the application",
    driver.ChangePlan: "change the plan of the application: {m.step}",
    driver.StopApplication: "stop the application",
    driver.LeaseRenewed: "its client lives",
    driver.ReleaseResults: "discard the results, which have been fetched",
    driver.MoveComponent: "move {m.operator} to {m.to}",
    driver.DelayMeasured: lambda m: f"the sinks measured a delay of {seconds(m.seconds)}",
    driver.SinksEnded: "the streams of all sinks here have ended",
    driver.PartReady: "{m.operator} takes tuples on Spark",
    driver.OperatorStopped: "{m.operator} cannot go on: {m.reason}",
    driver.AttemptOutdated: "a later attempt goes on from the files of {m.operator}",
    driver.LinesMalformed: "{m.source} {m.lines.clause}",
    driver.ReaderStalled: "{m.reader} holds up the readers of {m.operator}: {m.reason}",
    driver.CopyReady: "the copy of {m.operator} could go on",
    driver.CopyUnusable: "the copy of {m.operator} could not go on: {m.reason}",
    driver.CopiesLagging: lambda m: (
        f"copies of {m.operator} that lag: {_several(f'{address} ({why})' for address, why in m.peers.items())}"
    ),
    driver.LoadsMeasured: lambda m: (
        f"measured loads of {_several(f'{each.operator} of {each.application}' for each in m.loads)}"
    ),
    driver.PredictionsMade: lambda m: (
        f"measured and predicted times of {counted(len(m.report.components), 'component')}"
    ),
    driver.InputsReported: lambda m: f"what came on the inputs of {_several(each.operator for each in m.components)}",
    driver.SlackLost: lambda m: (
        f"tuples at {m.violation.prediction.operator} have a slack of {seconds(m.violation.slack)}"
    ),
    driver.StreamProfiled: lambda m: f"measured the operator of a stream: {_several(m.measured)}",
    driver.ProfileExpired: "withdraw what was measured of a stream",
    driver.LinkFailed: "the link to {m.address} has failed",
    driver.SpeedMeasured: lambda m: f"this peer has a speed of {m.speed:.3g}",
    driver.CoresAdvertised: lambda m: f"{m.address} has {counted(m.cores, 'core')} left",
    driver.OverheadsMeasured: lambda m: f"measured overheads of {_several(sorted({*m.stages, *m.calls}))}",
    driver.BandwidthMeasured: "the link from {m.address} carries {m.rate:.4g} bytes/s",
    driver.BandwidthsLimited: "bandwidths of the wide area",
    driver.SparkOffered: lambda m: f"Spark is there; a micro-batch takes {seconds(m.micro_batch)}",
    driver.PlacementDecided: lambda m: m.reason or f"placed: {_peers(m.roles.peers)}",
    # the ring and the directory
    routing.Routed: lambda m: f"on its way: {type(m.payload).__name__} {_inner(m.payload)}".rstrip(),
    routing.RouteAck: "a routed message has arrived",
    pastry.JoinRequest: "{m.joiner} asks to join the ring",
    pastry.JoinReply: "the peers that the newcomer has to know",
    pastry.Leaves: lambda m: f"the sender is in the ring, beside {counted(len(m.leaves), 'peer')}",
    pastry.RowRequest: "asks for row {m.row} of the routing table",
    pastry.RowReply: lambda m: f"{counted(len(m.learned), 'peer')} for the routing table",
    pastry.Leaving: "the sender leaves the ring",
    held_contents.ContentsHeld: lambda m: f"the sender has the contents of {_several(map(_short, m.components))}",
    gossip.Ping: "are you there?",
    gossip.PingAck: "I am",
    gossip.PingFor: "ping {m.target} for me",
    gossip.PingForAck: "{m.target} has answered",
    directory.Register: lambda m: f"register {counted(len(m.copies), 'entry')}",
    directory.Registered: lambda m: f"holds {counted(len(m.held), 'entry')}, and {len(m.missing)} not",
    directory.Renew: lambda m: f"renew {counted(len(m.items), 'entry')}",
    directory.LoadUpdate: lambda m: f"the load of the sender is {m.load.load:.3g}, {share(m.load.promised)} promised",
    directory.Copies: lambda m: f"copies of {counted(len(m.copies), 'entry')} and {counted(len(m.loads), 'load')}",
    directory.CopiesStored: "has the copies",
    directory.RenewCopies: lambda m: f"{counted(len(m.items), 'entry', 'lives', 'live')} on",
    directory.EntriesRequested: lambda m: f"lacks {counted(len(m.items), 'entry')}",
    directory.Lookup: lambda m: f"who hosts {_several(map(_short, m.names))}?",
    directory.Found: lambda m: "; ".join(
        f"{_short(entry)}: {_several(each.host for each in hosts)}" for entry, hosts in m.found.items()
    ),
    directory.Pull: "asks for the entries that it has to hold",
    directory.Pulled: "entries to hold",
    # composition
    composition.Probe: _probe,
    composition.Acknowledged: lambda m: f"has the probes for {_several(sorted(m.weights))}",
    composition.Returned: lambda m: f"a whole path: {_path(m.path)}",
    composition.Merged: lambda m: f"a path that meets a better one: {_path(m.path)}",
    composition.Dropped: dropped,
    composition.Release: "give back what is reserved",
    # sessions
    lifecycle.Confirm: _confirm,
    lifecycle.Share: "keep what the application shares or backs up there",
    lifecycle.Confirmed: "{m.operator} is set up",
    lifecycle.Refused: "cannot set up {m.operator}: {m.reason}",
    lifecycle.GrowthAsked: lambda m: f"may {m.application} take {seconds(m.seconds)} longer here than was projected",
    lifecycle.GrowthAnswered: lambda m: (
        _reason("refuses", m.reason) if m.reason else f"agrees that {m.application} takes {seconds(m.seconds)} longer"
    ),
    lifecycle.GrowthChanged: lambda m: f"{m.application} takes {seconds(m.seconds)} longer here than was projected",
    lifecycle.Begin: "let the sources begin",
    lifecycle.Feedback: lambda m: f"lease and measurements of {_several(each.application for each in m.measured)}",
    lifecycle.TimesReported: lambda m: f"predicted times of {_several(each.application for each in m.times)}",
    lifecycle.End: lambda m: _reason("end the application", m.reason),
    lifecycle.SkippedReported: "{m.source} {m.lines.clause}",
    lifecycle.SinksReported: lambda m: (
        "the streams of all sinks here have ended" if m.ended else f"the sinks here measured {seconds(m.delay)}"
    ),
    lifecycle.GraphAsked: "does {m.application} go on, and with which graph?",
    lifecycle.SharerLed: "leads {m.graph.application}, which shares streams, from now on",
    lifecycle.Entrust: "lead the application if I die",
    lifecycle.Claim: "I lead the application, as its origin has died",
    lifecycle.Claimed: lambda m: f"follows; executes {_several(m.executes)}" if m.graph else "takes no part",
    lifecycle.Granted: "learn who may read and control the application",
    lifecycle.Lost: "lost: {m.reason}",
    lifecycle.TakeOver: "take {m.operator} over",
    lifecycle.TookOver: lambda m: _reason(f"{'cannot take' if m.refusal else 'takes'} {m.operator} over", m.refusal),
    lifecycle.Follow: lambda m: (
        f"follow {m.operator}, or let it be followed" + ("; the new peer first has to accept it" if m.request else "")
    ),
    lifecycle.Followed: _followed,
    lifecycle.Rebuild: "rebuild {m.operator} from a copy, or confirm that it executes",
    lifecycle.Rebuilt: lambda m: (
        _reason(f"cannot rebuild {m.operator}", m.refusal)
        if m.refusal
        else f"{m.operator} {'is ready for the next step' if m.ready else 'is prepared'}"
    ),
    lifecycle.ReadersQuestion: "can the readers do without the replicas other than {m.operator}?",
    lifecycle.ReadersComplete: "the readers have all of {m.operator}",
    lifecycle.GraphChanged: lambda m: f"the components are: {_peers(m.graph.roles.peers)}",
    lifecycle.CopiesLag: _behind,
    lifecycle.HoldAnswered: lambda m: (
        f"cannot stop the streams here: {_several(m.users)} use them" if m.users else "its sources here stand still"
    ),
    lifecycle.ProducersMoved: lambda m: f"{m.owner} has {'ended' if m.ended else 'its components elsewhere'}",
    lifecycle.ProducersFollowed: "knows where the components of {m.owner} are",
    # migration
    migration.MigrationRequest: "can you execute {m.departure.operator}, with {m.departure.rate:.3g} tuples/s?",
    migration.MigrationReply: lambda m: f"refused: {m.refusal}" if m.refusal else "accepted",
    migration.Relocate: lambda m: (
        f"move {m.operator} to {m.to}, {'which has been asked' if m.unanswered else 'which has accepted it'}"
    ),
    migration.MigrationEndReported: lambda m: (
        "the move has begun" if m.pending else f"not moved: {m.failure}" if m.failure else "moved"
    ),
    migration.NoTargetFound: "no peer takes {m.operator}",
    migration.MeasureHop: "how long does a round trip take?",
    migration.HopMeasured: "the end of a round trip",
    # placement of replicas
    replicas.PlacementRequest: "host {m.operator}, and place what follows",
    replicas.PlacementReply: lambda m: _reason(
        "denied" if not m.accepted else f"accepted, with {counted(m.takes - 1, 'more')}" if m.takes > 1 else "accepted",
        m.reason,
    ),
    replicas.PlacementNegotiation: lambda m: f"place {m.operator} on one of {_several(m.candidates)}",
    replicas.PlacementDecision: lambda m: f"have {'a backup' if m.backup else 'the primary'} of {m.operator}",
    replicas.PlacementReport: lambda m: _reason(f"has placed {m.operator or 'what comes first'}", m.reason),
    replicas.PlacementRenewal: lambda m: f"the placement stands: {_several(m.operators)}",
    replicas.PlacementWithdrawn: lambda m: f"give back {m.operator or 'all'}",
    replicas.Survey: "how good is the link?",
    replicas.Surveyed: lambda m: f"{counted(m.cores, 'core')} and {m.bandwidth:.3g} bytes/s are left",
    # active replicas
    streams.WeightsReported: lambda m: f"which streams came first at {_several(m.inputs)}",
    streams.RevivalRequested: "all streams of input {m.port} of {m.operator} are {m.delay:.3g} s late",
    candidates.CandidateQuestion: lambda m: (
        f"what could you execute, and how far are {_several(m.peers)}?" if m.plan else "how long does an answer take?"
    ),
    candidates.CandidateAnswer: lambda m: (
        f"{_several(m.hops)}, with {m.free:.3g} of {counted(m.cores, 'core')}" if m.hops else "an answer"
    ),
}

#: Messages that keep the ring, the directory and links in order, whatever requests there are.
HOUSEKEEPING: Final[frozenset[type[Message]]] = frozenset(
    {
        routing.RouteAck,
        lifecycle.Feedback,
        lifecycle.TimesReported,
        driver.PredictionsMade,
        driver.InputsReported,
        streams.WeightsReported,
        *(kind for kind in DESCRIPTIONS if kind.__module__ in (pastry.__name__, gossip.__name__)),
        directory.Renew,
        directory.LoadUpdate,
        directory.Copies,
        directory.CopiesStored,
        directory.RenewCopies,
        directory.EntriesRequested,
        directory.Pull,
        directory.Pulled,
    }
)


def _inner(message: Any) -> str:
    return f"({describe(message)})" if isinstance(message, Message) else ""
