"""Sentences about the events of a request, for its replay; ``descriptions`` has those about messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from synergy_nb import events
from synergy_nb.control.peer import Record
from synergy_nb.plan.terms.units import counted
from synergy_nb.recording.stepping import Tone, ending, fact, tone
from synergy_nb.reporting.formatting import seconds, share
from synergy_nb.reporting.restarts import restarted
from synergy_nb.reporting.stalls import wait_text

_MOST_NAMED: Final = 4  # largest number of peers that are named for each operator


def _peers(peers: Mapping[str, Any]) -> str:
    return ", ".join(f"{operator} at {peer}" for operator, peer in peers.items() if peer)


def _several(peers: Iterable[str]) -> str:
    named = list(peers)
    return ", ".join(named[:_MOST_NAMED]) + (
        f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    )


def _each(peers: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(f"{operator}: {_several(several)}" for operator, several in peers.items()) or "none"


def _sharing(event: events.SharingFound) -> str:
    rests = (f"; {name} reads {stream} and {left}" for name, (stream, left) in event.rests.items())
    unfit = (f"; {name} does not read {stream}: {why}" for name, (stream, why) in event.unfit.items())
    return f"streams that run already: {_each(event.points)}{''.join((*rests, *unfit))}"


def _candidates(event: events.CandidatesFound) -> str:
    found = ((operator, list(peers)) for operator, peers in event.candidates.items())
    return "; ".join(f"{counted(len(peers), 'peer')} for {operator} ({_several(peers)})" for operator, peers in found)


def _dropped(event: events.ProbeDropped) -> str:
    numbers = f"{event.required:.3g} required, {event.available:.3g} found"
    text = f"{event.operator} at {event.at}: {event.condition}: {numbers}"
    return f"{text}; {event.explanation}" if event.explanation else text


def _lost(event: events.ReplicasLost) -> str:
    return f"{event.at} died with {', '.join(f'the {role} of {name}' for name, role in event.replicas.items())}"


def _asked(event: events.MigrationProjected) -> str:
    answer = "accepts" if event.accepted else f"refuses: {event.reason}"
    return f"asked by {event.source} to execute {event.operator}: {answer}"


def _answered(event: events.MigrationAnswered) -> str:
    answer = f"accepts {event.operator}" if event.accepted else f"refuses {event.operator}: {event.reason}"
    return f"{event.target} {answer}"


def _migrated(event: events.MigrationEnded) -> str:
    return f"{event.operator} {f'stays: {event.failure}' if event.failure else f'has left for {event.target}'}"


_WORDS: Final[Mapping[type[events.Event], Callable[[Any], str]]] = {
    events.RequestSubmitted: lambda e: f"plan {e.plan} with {', '.join(e.operators)}",
    events.CandidatesFound: _candidates,
    events.SharingFound: _sharing,
    events.RequestPostponed: lambda e: f"waits, and is tried again: {e.reason}",
    events.SharingGivenUp: lambda e: f"running streams are not used: {e.reason}",
    events.EstimatesFound: lambda e: f"estimates by the profiles of {_several([*e.profiles])}",
    events.SignaturesFound: lambda e: f"signatures of {_several([*e.stated, *e.measured])}",
    events.EnginesChosen: lambda e: "; ".join(f"{name} on {engine}" for name, (engine, _) in e.reasons.items()),
    events.EnginesChanged: lambda e: f"less is tried on Spark: {e.reason}",
    events.DeploymentConsidered: lambda e: f"{_several(e.operators)} may be deployed elsewhere, stage {e.stage}",
    events.ProbeAccepted: lambda e: f"{e.operator} could be executed here",
    events.ProbeDropped: _dropped,
    events.GraphEvaluated: lambda e: (
        f"{_peers(e.peers)}, {seconds(e.delay_s)}" + (f": does not qualify: {e.unqualified}" if e.unqualified else "")
    ),
    events.PlacementComputed: lambda e: f"{_peers(e.peers)}; {share(e.ratio)} of the ideal feasible set",
    events.ComponentDeployed: lambda e: f"{e.operator} is deployed",
    events.ComponentUndeployed: lambda e: f"{e.operator} is removed",
    events.SourceStarted: lambda e: f"{e.operator} emits its first rows",
    events.SourceBroken: lambda e: (
        f"{e.operator} cannot be read: {e.reason}; it is tried again in {seconds(e.wait_s)}"
        + (f" (try {e.tries})" if e.tries > 1 else "")
    ),
    events.SourceMended: lambda e: f"{e.operator} is read again, after {seconds(e.seconds)}",
    events.SourceRemarked: lambda e: f"{e.operator}: {e.text}",
    events.DestinationBroken: lambda e: (
        f"{e.operator} cannot write: {e.reason}; it is tried again in {seconds(e.wait_s)}"
        + (f" (try {e.tries})" if e.tries > 1 else "")
    ),
    events.DestinationMended: lambda e: f"{e.operator} writes again, after {seconds(e.seconds)}",
    events.DestinationOpened: lambda e: f"{e.operator} writes to {e.to} after {counted(e.rows, 'row')}",
    events.SinkFinished: lambda e: f"the end of the stream has reached {e.operator}",
    events.OperatorFailed: lambda e: f"{e.operator} failed: {e.reason}",
    events.ComponentFailed: lambda e: f"{e.operator} cannot continue: {e.reason}",
    events.RestartBegun: lambda e: f"is composed anew: {e.reason}",
    events.ApplicationRestarted: lambda e: restarted(e.kept, e.lost),
    events.ApplicationPaused: lambda e: f"paused: {events.awaited_text(e.awaited)}",
    events.ApplicationContinued: lambda e: f"continues after {seconds(e.seconds)} of {events.awaited_text(e.awaited)}",
    events.HoldBegun: lambda _: "a user has paused it: its sources give no rows",
    events.HoldEnded: lambda e: f"a user has resumed it, after {seconds(e.seconds)}",
    events.TakeoverBegun: lambda e: f"{e.dead} has died; backups take over: {_peers(e.operators)}",
    events.TakenOver: lambda e: f"backups have taken over: {_peers(e.peers)}",
    events.CopiesBehind: lambda e: f"copies of {e.operator} that could not take over: {_several(e.peers) or 'none'}",
    events.MovePostponed: lambda e: f"{e.operator} waits before it moves to {e.to}: {e.reason}",
    events.MoveBegun: lambda e: f"{e.operator} begins to move from {e.at} to {e.to}",
    events.ComponentMoved: lambda e: f"{e.operator} has moved from {e.at} to {e.to} in {seconds(e.seconds)}",
    events.MoveGivenUp: lambda e: f"{e.operator} did not move to {e.to}: {e.reason}",
    events.SharedStreamMoved: lambda e: f"{e.operator} of {e.of} has moved from {e.at} to {e.to}",
    events.ResultsMissed: lambda e: f"a reader of {e.operator} came too late for {counted(e.rows, 'row')}",
    events.LateRows: lambda e: f"{counted(e.dropped, 'row')} of {e.operator} came too late",
    events.LinesSkipped: lambda e: f"{e.operator} {e.lines.clause}",
    events.WaitBegun: wait_text,
    events.WaitEnded: lambda e: f"{e.operator} goes on after {seconds(e.seconds)}",
    events.PlacementBegun: lambda e: f"{counted(e.degree, 'replica')} of each operator are placed",
    events.ReplicaDecided: lambda e: f"{e.role} of {e.operator} at {e.at}",
    events.PlacementCompleted: lambda e: f"primaries: {_peers(e.primaries)}; backups: {_each(e.backups)}",
    events.PlacementFailed: lambda e: f"no placement was found: {e.reason}",
    events.PlacementAttemptFailed: lambda e: f"attempt {e.attempt} failed: {e.reason}",
    events.ReplicasDeployed: lambda e: f"active replicas: {_each(e.replicas)}",
    events.ReplicasLost: _lost,
    events.ActiveReplicasLost: lambda e: f"{_several(e.operators)} at {e.at} lost: {e.reason}",
    events.HotSpotDetected: lambda e: f"tuples at {e.operator} have a slack of {seconds(e.slack)}",
    events.HotSpotDismissed: lambda e: f"nothing moves: {e.reason}",
    events.MigrationDecided: lambda e: f"{e.operator} should leave; asked: {_several(e.candidates) or 'no peer'}",
    events.MigrationProjected: _asked,
    events.MigrationAnswered: _answered,
    events.MigrationEnded: _migrated,
}

_MEASUREMENTS: Final = (events.SinkMeasured,)


def said(event: events.Event) -> tuple[str, Tone]:
    """Return an event about a request in words, and what it means; the words are empty for details and measurements.

    ``event``: event to describe.

    Examples
    --------
    >>> said(events.SourceStarted(0.0, "a", "r1", operator="packets"))
    ('packets emits its first rows', <Tone.NOTE: 'note'>)
    """
    if event.severity < events.Severity.NOTE or isinstance(event, _MEASUREMENTS):
        return "", Tone.NOTE
    words = _WORDS.get(type(event))
    text = words(event) if words is not None else ending(event) or fact(event)
    reason = getattr(event, "reason", "")
    if not text:
        text = event.kind.replace("_", " ")
    if words is None and reason and reason not in text:
        text = f"{text}: {reason}"
    return text, _tone(event)


def _tone(event: events.Event) -> Tone:
    match event:
        case events.MigrationAnswered() | events.MigrationProjected():
            return Tone.GOOD if event.accepted else Tone.BAD
        case events.GraphEvaluated():
            return Tone.BAD if event.unqualified else Tone.NOTE
        case events.ProbeDropped() | events.HotSpotDetected():
            return Tone.BAD
        case events.MigrationEnded():
            return Tone.BAD if event.failure else Tone.GOOD
    return tone(Record(event))
