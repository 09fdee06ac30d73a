"""Sentences of reports about active replicas and their streams: measured, discarded, revived, rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from synergy_nb import events
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import seconds, share, size

__all__ = [
    "StreamEvent",
    "cost_sentence",
    "counts",
    "placed_sentence",
    "stream_sentence",
    "streams_sentence",
    "weighed_sentence",
]

StreamEvent: TypeAlias = (
    events.StreamsDiscarded
    | events.StreamRevived
    | events.RevivalImpossible
    | events.ReplicaDiffers
    | events.ReplicaRebuilt
    | events.BackupRestored
    | events.RebuildImpossible
    | events.OriginSucceeded
    | events.LeadershipLost
    | events.ApplicationPaused
    | events.ApplicationContinued
)
MOST_STREAMS: Final = 12  # maximum number of streams whose utilities are listed


def weighed_sentence(event: events.StreamsWeighed) -> str:
    """Sentence with the network cost and its target, and with the utilities of streams, the most useful first."""
    ranked = sorted(event.streams, key=lambda each: (-each[2], each[0], each[1]))
    names = ", ".join(f"{producer} to {reader} {utility:.2g}" for producer, reader, utility, _ in ranked[:MOST_STREAMS])
    more = f" and {counted(len(ranked) - MOST_STREAMS, 'more stream')}" if len(ranked) > MOST_STREAMS else ""
    of = f" of {size(event.whole)} with all streams" if event.cost < event.whole else ""
    target = "" if event.bound is None else f", target θ {share(event.bound / event.whole if event.whole else 1.0)}"
    return f"network cost {size(event.cost)} on the way{of}{target}; utility of streams: {names}{more}"


def stream_sentence(event: StreamEvent, readable: Callable[[str], str]) -> str:
    """Sentence about one event of replicas and their streams, or about the peer that leads them.

    ``event``: event of the journal; ``readable``: function that replaces addresses of peers in a text by their names.
    """
    match event:
        case events.StreamsDiscarded():
            names = ", ".join(f"{producer} to {reader}" for producer, reader in event.streams)
            ended = f"; {', '.join(event.ended)} ended with them" if event.ended else ""
            cost = f"network cost {size(event.cost)} on the way, {size(event.left)} now, target {size(event.bound)}"
            return f"discarded streams: {names}{ended}; {cost}"
        case events.StreamRevived():
            late = seconds(event.delay)
            return f"revived stream: {event.producer} to {event.reader}, whose other streams were {late} late"
        case events.ReplicaDiffers():
            whom = "most others" if event.outvoted else "another replica"
            times = counted(event.intervals, "interval")
            return f"differs: {event.replica} at {readable(event.at)} from {whom}, in {times} at {event.reader}"
        case events.ReplicaRebuilt():
            left = counts({original(event.operator): event.left})
            what = f"{event.operator} at {event.at} {event.begun}"
            return f"rebuilt: {what} in {seconds(event.seconds)}; {left}"
        case events.BackupRestored():
            has = f"{event.operator} has {counted(1 + len(event.backups[event.operator]), 'replica')}"
            return f"new backup: {event.operator} at {event.at} in {seconds(event.seconds)}; {has}"
        case events.RebuildImpossible():
            return f"not rebuilt: {event.operator}: {readable(event.reason)}"
        case events.OriginSucceeded():
            return f"led on: by {readable(event.peer)}, as its origin {readable(event.origin)} died"
        case events.LeadershipLost():
            return f"led on: {readable(event.peer)} lives, and leads it no more, as {readable(event.to)} does"
        case events.ApplicationPaused():
            return f"paused: {readable(events.awaited_text(event.awaited))}, for {seconds(event.patience)} at most"
        case events.ApplicationContinued():
            return f"continued: after {seconds(event.seconds)} of {readable(events.awaited_text(event.awaited))}"
    return f"late: {event.upstream} at {event.reader} by {seconds(event.delay)}; nothing was revived: {event.reason}"


def cost_sentence(event: events.ReplicasDeployed) -> str:
    """The expected bandwidth and network cost of an application with active replicas, and without."""
    times = event.bandwidth / event.bandwidth_alone if event.bandwidth_alone else 1.0
    return (
        f"active replicas: bandwidth {size(event.bandwidth)}/s, {times:.3g} times that without replicas; "
        f"network cost {size(event.cost)} on the way, {size(event.cost_alone)} without"
    )


def streams_sentence(event: events.ReplicasDeployed) -> str:
    """The number of streams between any two operators, and to backups, with their expected bandwidth."""
    several = (
        f"{producer} to {reader} {counted(number, 'stream')}, {size(bandwidth)}/s"
        for producer, reader, number, bandwidth in event.streams
    )
    return "; ".join(several)


def placed_sentence(placed: Mapping[str, int], *, whole: bool = True) -> str:
    """How many replicas of the components with backups were placed; ``whole``: of all components.

    >>> placed_sentence({"filter": 2, "sort": 2}), placed_sentence({"filter": 2, "sort": 3})
    ('2 replicas of each component were placed', '2 replicas of filter, 3 of sort were placed')
    """
    by_number: dict[int, list[str]] = {}
    for name, number in placed.items():
        by_number.setdefault(number, []).append(name)
    if whole and len(by_number) == 1:
        number = next(iter(by_number))
        return f"{counted(number, 'replica')} of each component {'was' if number == 1 else 'were'} placed"
    first, *others = (f"{number} of {', '.join(names)}" for number, names in sorted(by_number.items()))
    return f"{', '.join([first.replace(' of', ' replicas of', 1), *others])} were placed"


def counts(left: Mapping[str, int]) -> str:
    """List the numbers of remaining replicas with the operators that have so many.

    >>> counts({"filter": 1, "sort": 1})
    '1 left of filter, sort'
    """
    by_number: dict[int, list[str]] = {}
    for name, number in left.items():
        by_number.setdefault(number, []).append(name)
    return "; ".join(f"{number} left of {', '.join(names)}" for number, names in sorted(by_number.items()))
