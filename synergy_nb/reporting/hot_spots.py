"""Accounts of hot spots and of the migrations away from them, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from synergy_nb.events import (
    Event,
    Handlers,
    HotSpotDetected,
    HotSpotDismissed,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
    MigrationProjected,
)
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.formatting import off, rate, seconds

__all__ = ["HotSpot", "HotSpotAccounts", "HotSpotEvent", "Migration", "basis_text", "component_text", "slack_text"]

HotSpotEvent: TypeAlias = (
    HotSpotDetected | HotSpotDismissed | MigrationDecided | MigrationProjected | MigrationAnswered | MigrationEnded
)
SHOWN: Final = 8  # maximum number of hot spots of an application in the text


class Migration(msgspec.Struct):
    """A component that a peer has selected to leave it, with the decision, the answers of other peers, and the end."""

    decided: MigrationDecided
    answers: list[MigrationAnswered] = []
    projections: dict[str, MigrationProjected] = {}  # by the address of the peer that was asked
    ended: MigrationEnded | None = None


class HotSpot(msgspec.Struct):
    """A component without slack, and what followed: a dismissal, or components that are to leave the peer."""

    peer: str  # address of the peer
    component: tuple[str, str]  # application and operator of the component without slack
    # time, until: times of the first and of the last detection, seconds
    time: float
    until: float
    detected: HotSpotDetected | None = None  # the last detection; None if it is known to another application alone
    dismissed: HotSpotDismissed | None = None  # reason why the peer did not act; None if it did
    times: int = 1  # number of detections with the same consequence, if none of them was acted on
    migrations: list[Migration] = []  # components that were selected to leave the peer


class HotSpotAccounts:
    """The hot spots of one application, and those of others that have made its components migrate."""

    #: Types of events about hot spots, with the methods that add them.
    HANDLERS: Final = Handlers()

    def __init__(self, application: str, name: Callable[[str], str], readable: Callable[[str], str]) -> None:
        self.application = application  # id of the application
        self.found: list[HotSpot] = []  # hot spots in order of their detection
        self._name = name  # function from the address of a peer to its readable name
        self._readable = readable  # function that replaces the addresses in a text by names

    # -- collecting ----------------------------------------------------------------------------------------------------

    def add(self, event: Event) -> None:
        """Add an event of :attr:`HANDLERS`; others are ignored."""
        handle = self.HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    @HANDLERS.add
    def _detected(self, event: HotSpotDetected) -> None:
        """Add a detection."""
        component = event.subject, event.operator
        self.found.append(HotSpot(event.peer, component, event.time, event.time, event))

    @HANDLERS.add
    def _dismissed(self, event: HotSpotDismissed) -> None:
        """Add the reason why a peer did not act; equal reasons for a component are added once."""
        earlier = self._at(event.peer, (event.subject, event.operator))
        if not earlier:
            return
        last, *others = reversed(earlier)
        last.dismissed = event
        for before in others:
            if before.dismissed is None:  # what was acted on separates what is the same
                return
            if before.dismissed.reason == event.reason:
                self._repeat(before, last)
                return

    def _at(self, peer: str, component: tuple[str, str]) -> list[HotSpot]:
        """Hot spots of a component at a peer, the last one last."""
        return [each for each in self.found if (each.peer, each.component) == (peer, component)]

    def _repeat(self, before: HotSpot, last: HotSpot) -> None:
        """Count the last hot spot as one more detection of the one before it."""
        before.detected, before.until = last.detected, last.until
        before.times += 1
        self.found.remove(last)

    @HANDLERS.add
    def _decided(self, event: MigrationDecided) -> None:
        """Add a component that was selected to leave its peer."""
        cause = event.cause[0], event.cause[1]
        spot, before, *_ = (*reversed(self._at(event.peer, cause)), None, None)
        if spot is None or spot.dismissed is not None:
            spot, before = HotSpot(event.peer, cause, event.time, event.time), spot
            self.found.append(spot)
        if before is not None and not event.act and not spot.migrations:
            decided = [each.decided for each in before.migrations]
            if decided and not decided[0].act and decided[0].selected == event.selected:
                before.migrations = [Migration(event)]
                self._repeat(before, spot)
                return
        spot.migrations.append(Migration(event))

    @HANDLERS.add
    def _projected(self, event: MigrationProjected) -> None:
        """Add the projection of a peer that was asked to take over a component."""
        migration = self._open(event.source, event.subject, event.operator)
        if migration is not None:
            migration.projections[event.peer] = event

    @HANDLERS.add
    def _answered(self, event: MigrationAnswered) -> None:
        """Add the answer of a peer that was asked to take over a component."""
        migration = self._open(event.peer, event.subject, event.operator)
        if migration is not None:
            migration.answers.append(event)

    @HANDLERS.add
    def _ended(self, event: MigrationEnded) -> None:
        """Add the end of a migration."""
        migration = self._open(event.peer, event.subject, event.operator)
        if migration is not None:
            migration.ended = event

    def _open(self, peer: str, application: str, operator: str) -> Migration | None:
        """The migration of a component away from a peer that is not over yet."""
        for spot in reversed(self.found):
            for migration in reversed(spot.migrations):
                decided = migration.decided
                if (decided.peer, decided.subject, decided.operator) == (peer, application, operator):
                    return migration if migration.ended is None else None
        return None

    def __str__(self) -> str:
        return "\n".join(self.lines(None)) or "There was no hot spot."

    # -- text ----------------------------------------------------------------------------------------------------------

    def lines(self, since: float | None) -> list[str]:
        """Write the account, line by line.

        ``since``: time from which times are counted, seconds, None: the first detection.
        """
        if not self.found:
            return []
        zero = self.found[0].time if since is None else since
        omitted = len(self.found) - SHOWN
        lines = [f"  {counted(omitted, 'earlier hot spot')} omitted"] if omitted > 0 else []
        for spot in self.found[-SHOWN:]:
            lines += self._spot(spot, zero)
        return lines

    def _spot(self, spot: HotSpot, zero: float) -> list[str]:
        what = component_text(spot.component, self.application)
        when = f"after {seconds(spot.time - zero)}"
        detected = spot.detected
        if detected is None:
            lines = [f"  hot spot {when}: {what} had no slack at {self._name(spot.peer)}"]
        else:
            again = f" ({spot.times} times, last after {seconds(spot.until - zero)})" if spot.times > 1 else ""
            lines = [
                f"  hot spot {when}: {what} at {self._name(spot.peer)} has no slack{again}: {slack_text(detected)}"
            ]
            wrong = off(detected.prediction_off)
            lines.append(
                f"    predicted {basis_text(detected)}; last measured {seconds(detected.measured)}"
                + (f"; predicted times are off here: {wrong}" if wrong else "")
            )
            worst = self._worst(detected)
            lines += [f"    {worst}"] if worst else []
        if spot.dismissed is not None:
            lines.append(f"    {self._name(spot.peer)} does not act: {self._readable(spot.dismissed.reason)}")
        for migration in spot.migrations:
            lines += [f"    {line}" for line in self._migration(migration)]
        return lines

    def _worst(self, detected: HotSpotDetected) -> str:
        """Sentence about the components of the violated path that exceed their processing times."""
        if not detected.excesses:
            return ""
        ranked = sorted(detected.excesses.items(), key=lambda pair: -pair[1])
        first, excess = ranked[0]
        rest = ", ".join(f"{self._named(name)} {seconds(each)}" for name, each in ranked[1:4] if each > 0.0)
        then = f" (then {rest})" if rest else ""
        return f"worst of the path: {self._named(first)}, {seconds(excess)} above its processing time{then}"

    def _migration(self, migration: Migration) -> list[str]:
        decided, ended = migration.decided, migration.ended
        what = component_text((decided.subject, decided.operator), self.application)
        others = [name for name in decided.selected if name != f"{decided.subject}/{decided.operator}"]
        beside = f", with {', '.join(self._named(name) for name in others)}" if others else ""
        would = "" if decided.act else "would "
        lines = [
            f"{what}{beside} {would}{'leave' if would else 'leaves'} {self._name(decided.peer)}: "
            f"{rate(decided.rate)} before, {rate(decided.remaining_rate)} without"
            + (f"; slack of what stays: {self._slacks(decided)}" if _limited(decided.slacks) else "")
        ]
        answers = [self._answer(migration, answer) for answer in migration.answers]
        if not decided.act:
            names = ", ".join(self._candidate(decided, each) for each in decided.candidates)
            lines.append(f"it only observes; it would ask, the least loaded first: {names or 'no peer offers it'}")
        elif answers:
            lines.append(f"peers asked: {'; '.join(answers)}")
        elif not decided.candidates:
            lines.append("no other peer offers it")
        if ended is not None and ended.failure:
            lines.append(f"not moved after {seconds(ended.seconds)}: {self._readable(ended.failure)}")
        elif ended is not None:
            lines.append(f"moved to {self._name(ended.target)} after {seconds(ended.seconds)}")
        elif decided.act:
            lines.append("it is moving" if any(each.accepted for each in migration.answers) else "a peer is sought")
        return lines

    def _slacks(self, decided: MigrationDecided) -> str:
        ranked = _limited(decided.slacks)
        more = f" and {len(ranked) - 3} more" if len(ranked) > 3 else ""
        return ", ".join(f"{self._named(name)} {seconds(slack)}" for name, slack in ranked[:3]) + more

    def _candidate(self, decided: MigrationDecided, address: str) -> str:
        load = decided.loads.get(address)
        return self._name(address) + ("" if load is None else f" (load {load:.2g})")

    def _answer(self, migration: Migration, answer: MigrationAnswered) -> str:
        who = self._candidate(migration.decided, answer.target)
        if not answer.accepted:
            return f"{who} refused: {self._readable(answer.reason)}"
        projection = migration.projections.get(answer.target)
        if projection is None:
            return f"{who} accepted"
        limited = _limited(projection.slacks)
        if not limited:
            return f"{who} accepted: {rate(projection.rate)} with it"
        name, least = limited[0]
        return f"{who} accepted: {rate(projection.rate)} with it, least slack {seconds(least)} of {self._named(name)}"

    def _named(self, name: str) -> str:
        application, _, operator = name.rpartition("/")
        return component_text((application, operator), self.application)

    def to_list(self) -> list[dict[str, Any]]:
        """Convert the account to plain values."""
        return [
            {
                "peer": self._name(spot.peer),
                "component": list(spot.component),
                "times": spot.times,
                "detected": None if spot.detected is None else _plain(spot.detected),
                "dismissed": "" if spot.dismissed is None else self._readable(spot.dismissed.reason),
                "migrations": [
                    {
                        "application": each.decided.subject,
                        **_plain(each.decided),
                        "answers": [_plain(answer) for answer in each.answers],
                        "ended": None if each.ended is None else _plain(each.ended),
                    }
                    for each in spot.migrations
                ],
            }
            for spot in self.found
        ]


def _limited(slacks: Mapping[str, float]) -> list[tuple[str, float]]:
    """Slacks of components with a limit, the least first."""
    return sorted(((name, slack) for name, slack in slacks.items() if slack < math.inf), key=lambda pair: pair[1])


def _plain(event: Event) -> dict[str, Any]:
    """Convert the fields of an event to plain values, without the slack of components that have no limit."""
    fields = event.detail
    if "slacks" in fields:
        fields["slacks"] = dict(_limited(fields["slacks"]))
    return {name: msgspec.to_builtins(value) for name, value in fields.items()}


def component_text(component: tuple[str, str], application: str | None = None) -> str:
    """Name a component: its operator, and its application unless that is ``application``.

    >>> component_text(("a", "f0"), "a"), component_text(("b", "f0"), "a")
    ('f0', 'f0 of b')
    """
    return component[1] if component[0] == application else f"{component[1]} of {component[0]}"


def slack_text(event: HotSpotDetected) -> str:
    """Write equation 3.1 with its values, and for how many tuples it has held."""
    return (
        f"limit {seconds(event.departure_limit)} - age {seconds(event.age)} - predicted {seconds(event.predicted)} = "
        f"{seconds(event.slack)}, for {counted(event.tuples, 'tuple')} in {seconds(event.seconds)}"
    )


def basis_text(event: HotSpotDetected) -> str:
    """Describe what an execution time was predicted from."""
    if event.basis == "line" and event.slope > 0.0:
        total = (event.predicted - event.intercept) / event.slope
        return f"by a line: {seconds(event.intercept)} + {seconds(event.slope)} per tuple/s x {rate(total)} of its peer"
    if event.basis == "growing backlog":
        coming = "" if event.rise == 1.0 else f", and {event.rise:.2f} times that in the next seconds by its profile"
        return f"from a growing backlog, at {rate(event.predicted_rate)} after {rate(event.rate)}{coming}"
    return {"line": "by a level line", "profile": "by the profile of the plan"}.get(
        event.basis, f"by the {event.basis}"
    )
