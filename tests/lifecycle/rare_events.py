"""Which of the rare things that protocols distinguish a run of whole peers has met, as its journal tells.

A campaign that never meets them shows nothing, however many schedules it runs. So each schedule says what it has met
(:func:`met`), and a campaign fails where one of :data:`RARE` was met by none of its schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from synergy_nb.events import (
    ApplicationEnded,
    BackupRestored,
    ComponentMoved,
    Event,
    MoveBegun,
    MoveGivenUp,
    MovePostponed,
    OriginSucceeded,
    PeerDeclaredDead,
    RebuildGivenUp,
    ReplicaRebuilt,
    SuccessionBegun,
    TakenOver,
    TakeoverBegun,
)

__all__ = ["ANSWERS", "RARE", "Rebuilding", "Span", "met"]

#: Answers that a protocol of changes or of the set-up waits for.
ANSWERS: Final = ("Followed", "TookOver", "Rebuilt", "Claimed", "Confirmed")

#: What a campaign has to meet at least once; else it tests less than it says.
RARE: Final = (
    "a take-over during a move",
    "a death of the origin during a move",
    "the old peer of a move died",
    "the new peer of a move died",
    "a follower took over from its dead peer",
    "a move that was refused and retried",
    "a move waited for a take-over",
    "two deaths within one detection interval",
    "a death during a take-over",
    "a death of the origin during a take-over",
    "a death while a replica is rebuilt",
    "a death of the origin while a replica is rebuilt",
    "a death during a succession",
    "a succession",
    "a death during composition",
    "a death during set-up",
    "a partition that heals during a take-over",
    "a partition that heals during a move",
    "a lost copy was rebuilt",
    "an application ended by name",
    *(f"loss of an acknowledgement: {answer}" for answer in ANSWERS),
)


class Span(NamedTuple):
    """A time in which something went on: of an application, from and until, who led it, and all others it is about."""

    application: str
    begun: float
    until: float
    origin: str = ""
    old: str = ""
    new: str = ""


class Rebuilding(NamedTuple):
    """A rebuild that has begun: an application, what is rebuilt, its new peer, and the peer that led it."""

    application: str
    operator: str
    to: str
    origin: str


def met(
    journal: Iterable[Event],  # with the times at which they were recorded, not those of clocks
    killed: Mapping[str, float],  # peer to the time of its death
    heals: Sequence[float],  # times at which links were whole again
    compositions: Sequence[Span],  # from a submission until it was decided; `new` is empty
    setups: Sequence[Span],  # from the first Confirm until the application ran
    rebuilds: Mapping[Rebuilding, float],  # and the time at which each began
) -> set[str]:
    """Which of :data:`RARE` a run has met."""
    events = sorted(journal, key=lambda event: event.sequence)
    moves, takeovers = list(_moves(events)), list(_spans(events, TakeoverBegun, TakenOver))
    successions = list(_spans(events, SuccessionBegun, OriginSucceeded))
    rebuilding = [_rebuild(events, each, begun) for each, begun in rebuilds.items()]
    found = set(_of_moves(events, moves, takeovers, killed))
    deaths = sorted((at, peer) for peer, at in killed.items())
    for (first, victim), (second, _) in pairwise(deaths):
        known = [each.time for each in events if isinstance(each, PeerDeclaredDead) and each.subject == victim]
        if second < min((at for at in known if at >= first), default=math.inf):
            found.add("two deaths within one detection interval")
    for spans, what in (
        (takeovers, "a death during a take-over"),
        (successions, "a death during a succession"),
        (rebuilding, "a death while a replica is rebuilt"),
        (compositions, "a death during composition"),
        (setups, "a death during set-up"),
    ):
        if any(span.begun < at <= span.until for span in spans for at in killed.values()):
            found.add(what)
    for spans, what in ((takeovers, "a take-over"), (moves, "a move")):
        if any(span.begun < at < span.until for span in spans for at in heals):
            found.add(f"a partition that heals during {what}")
    for spans, what in ((takeovers, "during a take-over"), (rebuilding, "while a replica is rebuilt")):
        if any(span.begun < killed.get(span.origin, -1.0) <= span.until for span in spans):
            found.add(f"a death of the origin {what}")
    for kinds, what in (
        ((BackupRestored, ReplicaRebuilt), "a lost copy was rebuilt"),
        ((OriginSucceeded,), "a succession"),
    ):
        if any(isinstance(each, kinds) for each in events):
            found.add(what)
    return found


def _spans(events: Sequence[Event], begin: type[Event], end: type[Event]) -> Iterator[Span]:
    """The times between events of two kinds that are about one application; another begin begins it anew."""
    for number, event in enumerate(events):
        if isinstance(event, begin):
            over = (each for each in events[number + 1 :] if each.subject == event.subject)
            until = next((each.time for each in over if isinstance(each, (begin, end, ApplicationEnded))), math.inf)
            yield Span(event.subject, event.time, until, event.peer)


def _moves(events: Sequence[Event]) -> Iterator[Span]:
    """All moves that have begun."""
    for number, event in enumerate(events):
        if isinstance(event, MoveBegun):
            over = (each for each in events[number + 1 :] if each.subject == event.subject)
            ends = (ComponentMoved, MoveGivenUp, OriginSucceeded, ApplicationEnded, MoveBegun)
            until = next((each.time for each in over if isinstance(each, ends)), math.inf)
            yield Span(event.subject, event.time, until, event.peer, event.at, event.to)


def _rebuild(events: Sequence[Event], rebuild: Rebuilding, begun: float) -> Span:
    """When a rebuild that began at a time was over."""
    over = (each for each in events if each.subject == rebuild.application and each.time >= begun)
    ends = (BackupRestored, ReplicaRebuilt, RebuildGivenUp, ApplicationEnded, OriginSucceeded)
    until = next((each.time for each in over if isinstance(each, ends)), math.inf)
    return Span(rebuild.application, begun, until, rebuild.origin, "", rebuild.to)


def _of_moves(
    events: Sequence[Event], moves: Sequence[Span], takeovers: Sequence[Span], killed: Mapping[str, float]
) -> Iterator[str]:
    for move in moves:
        died = {each: move.begun <= killed.get(each, -1.0) <= move.until for each in (move.origin, move.old, move.new)}
        if died[move.origin]:
            yield "a death of the origin during a move"
        if died[move.old]:
            yield "the old peer of a move died"
            if any(isinstance(each, ComponentMoved) and each.subject == move.application
                   and each.time == move.until and each.at == move.old for each in events):  # fmt: skip
                yield "a follower took over from its dead peer"
        if died[move.new]:
            yield "the new peer of a move died"
        if any(each.application == move.application and move.begun < each.begun <= move.until for each in takeovers):
            yield "a take-over during a move"
    of_moves = [each for each in events if isinstance(each, (ComponentMoved, MoveGivenUp, MovePostponed))]
    for number, event in enumerate(of_moves):
        later = [each for each in of_moves[number + 1 :] if isinstance(each, ComponentMoved)]
        done = any((each.subject, each.operator, each.to) == (event.subject, event.operator, event.to)
                   for each in later)  # fmt: skip
        if done and isinstance(event, MoveGivenUp) and event.reason.startswith(f"{event.operator} at "):
            yield "a move that was refused and retried"
        if done and isinstance(event, MovePostponed) and event.reason == "backups take over":
            yield "a move waited for a take-over"
