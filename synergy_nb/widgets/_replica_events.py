"""Changes of the view of an application by events about replicas, their streams, and the peer that leads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from synergy_nb import events
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds, share, size
from synergy_nb.widgets._latest_values import LatestComponent, LatestRun

ReplicaEvent: TypeAlias = (
    events.ReplicasDeployed
    | events.ActiveReplicasLost
    | events.ReplicaRebuilt
    | events.BackupRestored
    | events.RebuildImpossible
    | events.StreamsDiscarded
    | events.StreamsWeighed
    | events.StreamRevived
    | events.RevivalImpossible
    | events.ReplicaDiffers
    | events.SuccessionBegun
    | events.OriginSucceeded
    | events.LeadershipLost
    | events.ApplicationPaused
    | events.ApplicationContinued
    | events.SessionExpired
)


def note(run: LatestRun, event: ReplicaEvent) -> None:
    """Note an event about replicas, or the peer that leads them, in the record of its application, beside its facts."""
    match event:
        case events.SuccessionBegun() | events.OriginSucceeded():
            run.origin = event.peer
            if isinstance(event, events.OriginSucceeded):
                text = f"{event.peer} leads it on, as its origin {event.origin} died"
                run.mark(event.time, "good", "led on", text)
        case events.LeadershipLost():
            run.mark(event.time, "note", "", f"{event.peer} lives, and leads it no more, as {event.to} does")
        case events.ApplicationPaused():
            run.status, run.reason = "paused", events.awaited_text(event.awaited)
            run.mark(event.time, "bad", "paused", f"paused: {run.reason}, for {seconds(event.patience)} at most")
        case events.ApplicationContinued():
            run.status, run.reason = run.going, ""
            run.mark(event.time, "good", "continued", f"continued after a pause of {seconds(event.seconds)}")
        case events.SessionExpired():
            run.orphaned = run.orphaned or event.origin == run.origin
        case events.ReplicasDeployed():
            backups = {name: tuple(peers) for name, peers in event.backups.items()}
            run.roles, run.lost_replicas = replace(run.roles, backups=backups), {}
        case events.ActiveReplicasLost():
            run.lost_replicas = run.lost_replicas | dict.fromkeys(event.operators, (event.at, event.reason))
            run.roles = run.roles.without(event.operators)
            left = ", ".join(
                f"{count} of {run.replication.active.get(name, 1)} left of {name}" for name, count in event.left.items()
            )
            text = f"{', '.join(event.operators)} at {event.at} lost, {event.reason}: {left}"
            run.mark(event.time, "bad", "" if event.at in run.lost else "replica lost", text)
        case events.ReplicaRebuilt():
            run.lost_replicas = {name: lost for name, lost in run.lost_replicas.items() if name != event.operator}
            left = f"{event.left} of {original(event.operator)} run"
            run.discarded = frozenset(each for each in run.discarded if event.operator not in each)
            text = f"{event.operator} rebuilt at {event.at} {event.begun}: {left}"
            run.mark(event.time, "good", "replica rebuilt", text)
        case events.BackupRestored():
            run.roles = replace(run.roles, backups={name: tuple(peers) for name, peers in event.backups.items()})
            run.mark(event.time, "good", "new backup", f"{event.operator} has another backup at {event.at}")
        case events.RebuildImpossible():
            run.mark(event.time, "bad", "", f"{event.operator} is not rebuilt: {event.reason}")
        case events.StreamsDiscarded():
            names = ", ".join(f"{producer} to {reader}" for producer, reader in event.streams)
            cost = f"network cost {size(event.left)} on the way instead of {size(event.cost)}"
            ended = {name: (run.roles.peers.get(name, ""), "all of its streams were discarded") for name in event.ended}
            run.discarded |= {(producer, reader) for producer, reader in event.streams}
            run.lost_replicas, run.roles = run.lost_replicas | ended, run.roles.without(event.ended)
            label = f"{counted(len(event.streams), 'stream')} discarded"
            run.mark(event.time, "note", label, f"discarded, least useful for their cost: {names}; {cost}")
        case events.ReplicaDiffers():
            whom = "most others" if event.outvoted else "another replica"
            text = f"{event.replica} at {event.at} has other tuples than {whom}, for {event.reader}"
            run.mark(event.time, "bad", "replica differs", text)
        case events.StreamRevived():
            run.discarded -= {(event.producer, event.reader)}
            text = f"{event.producer} to {event.reader} revived, as its other streams were {seconds(event.delay)} late"
            run.mark(event.time, "good", "stream revived", text)
        case events.RevivalImpossible():
            text = f"{event.upstream} is {seconds(event.delay)} late at {event.reader}: {event.reason}"
            run.mark(event.time, "bad", "stream late", text)


def stream_pieces(run: LatestRun, components: Mapping[str, LatestComponent]) -> dict[str, dict[str, Any]]:
    """States and texts of the streams between active replicas for the view; a key is ``producer reader``.

    ``run``: application; ``components``: operators with their latest measurements.
    """
    found: dict[str, list[str]] = {}
    for reader, component in components.items():
        for producer, part in component.first_shares().items():
            found[f"{producer} {reader}"] = [f"{producer} to {reader}: first for {share(part)} of the tuples"]
    weighed = run.replication.weighed
    for producer, reader, utility, cost in () if weighed is None else weighed.streams:
        words = found.setdefault(f"{producer} {reader}", [f"{producer} to {reader}"])
        words.append(f"utility {utility:.2g}, {size(cost)} on the way")
    pieces = {name: {"gone": False, "tip": "; ".join(words)} for name, words in found.items()}
    for producer, reader in sorted(run.discarded):
        pieces[f"{producer} {reader}"] = {"gone": True, "tip": f"{producer} to {reader} is discarded"}
    return pieces
