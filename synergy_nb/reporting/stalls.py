"""Stalls: the waits of components, joined to chains from who has nothing to who is the reason, in a sentence each.

Each peer records for whom its own components wait (:mod:`synergy_nb.events.waits`). The waits of all peers are one
graph, whose ends own the waits. Nobody has to be asked, so ``explain()``, views and who reads a journal later say the
same.

Examples
--------
>>> waits = OpenWaits()
>>> late = Awaited("r1", "late", "a")
>>> waits.add(WaitBegun(9.0, "b", "r1", "means", why=Why.INPUT, since=6.0, awaited=[late], ahead_s=63.0))
>>> waits.add(WaitBegun(9.0, "a", "r1", "late", why=Why.SILENT, since=6.0, said="no row is pushed to it"))
>>> (stall,) = stalls(waits, 10.0)
>>> stall.operators, stall.text.partition(", which ")[2]
(('means', 'late'), 'is 63 s behind its other inputs and has given nothing for 4 s: no row is pushed to it')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from synergy_nb.events import (
    ApplicationEnded,
    Awaited,
    ComponentDeployed,
    ComponentUndeployed,
    DestinationBroken,
    DestinationMended,
    Event,
    Handlers,
    SourceBroken,
    SourceMended,
    WaitBegun,
    WaitEnded,
    Why,
)
from synergy_nb.reporting.formatting import rate, seconds

__all__ = ["OpenWaits", "Stall", "stalls", "wait_text"]

Key: TypeAlias = tuple[str, str]
"""Application and operator."""
Path: TypeAlias = tuple[WaitBegun, ...]

#: What joins who waits to the one for whom it waits.
LINKS: Final = {
    Why.INPUT: "waits for",
    Why.ROOM: "waits for room at",
    Why.COPIES: "waits for the copies of",
    Why.TURN: "waits for its turn after",
}
#: What would help, by the reason at the end of a chain.
REMEDIES: Final = {
    Why.SILENT: "see whether what it reads still gives rows",
    Why.UNPROMISED: "see which part of what it reads is silent: what the others give waits for that part",
    Why.FOLDER: "see what slows its disk down, and whether it has space",
    Why.WINDOW: "results come once a window is over",
    Why.UNREACHABLE: "see whether that runs, and can be reached from its peer; it is tried again and again",
    Why.RESULTS: "read them, by results() or a loop, or stop the application",
    Why.EXECUTION: "see what its function waits for: a call that never returns has to be ended",
    Why.BUSY: "make it cheaper, give it more cores or instances, or lower the rate",
}
SILENT_PEER: Final = (
    "see whether its process runs and can be reached; the stream goes on when it answers, "
    "or when a backup takes over if the plan asks for some"
)
SLOW_OUTSIDE: Final = "see what slows that down: its disk, its network, or what else uses it"
UNKNOWN: Final = "see whether its peer is overloaded or cut off"


class Stall(NamedTuple):
    """A chain of waits, with addresses in place of the names of peers."""

    application: str
    operators: tuple[str, ...]  # who waits, each for the next one; the last is the reason
    why: Why  # reason at its end
    moves: bool  # whether all who wait still give something
    text: str  # sentence without a full stop
    remedy: str  # what would help, as the end of that sentence

    def __str__(self) -> str:
        return f"{self.label}: {self.text}; {self.remedy}"

    @property
    def label(self) -> str:
        """How bad it is, in a word or two: most streams wait now and then."""
        if self.moves:
            return "held up"
        return "waiting" if self.why in (Why.SILENT, Why.WINDOW) else "stalled"


class OpenWaits:
    """The waits that have begun and have not ended, folded from events."""

    HANDLERS: Final = Handlers()

    def __init__(self) -> None:
        self._waits: dict[Key, WaitBegun] = {}
        self._outside: dict[Key, WaitBegun] = {}  # those for what is outside, which explain others of the same one

    @property
    def found(self) -> dict[Key, WaitBegun]:
        """Application and operator to its wait."""
        return self._waits | self._outside

    def add(self, event: Event) -> None:
        """Add an event; one about something else is ignored."""
        if (handle := self.HANDLERS.get(type(event))) is not None:
            handle(self, event)

    @HANDLERS.add
    def _begun(self, event: WaitBegun) -> None:
        self._waits[event.subject, event.operator] = event

    @HANDLERS.add
    def _broken(self, event: SourceBroken | DestinationBroken) -> None:
        key = event.subject, event.operator
        since = self._outside[key].since if key in self._outside else event.time
        base = (event.time, event.peer, *key)
        self._outside[key] = WaitBegun(*base, why=Why.UNREACHABLE, since=since, said=event.reason)

    @HANDLERS.add
    def _mended(self, event: SourceMended | DestinationMended) -> None:
        self._outside.pop((event.subject, event.operator), None)

    @HANDLERS.add
    def _over(self, event: WaitEnded | ComponentUndeployed | ComponentDeployed) -> None:
        key = event.subject, event.operator
        for waits in (self._waits,) if isinstance(event, WaitEnded) else (self._waits, self._outside):
            if key in waits and (waits[key].peer == event.peer or isinstance(event, ComponentDeployed)):
                del waits[key]

    @HANDLERS.add
    def _ended(self, event: ApplicationEnded) -> None:
        for waits in (self._waits, self._outside):
            for key in [key for key in waits if key[0] == event.subject]:
                del waits[key]


def stalls(waits: OpenWaits, now: float, application: str = "") -> list[Stall]:
    """Return the stalls of an application, or of all: one for each reason, those without any movement first.

    ``now``: time in seconds up to which they have lasted.
    """
    found = waits.found
    awaited = {_key(each) for wait in found.values() for each in wait.awaited}
    begins = [key for key in found if key not in awaited] or list(found)
    by_reason: dict[tuple[str, ...], list[tuple[Path, Awaited | None]]] = {}
    for key in begins:
        if application in ("", key[0]):
            for path, end in _paths(found, (found[key],)):
                own = ("", end.peer) if end is not None and end.silent else _key(path[-1] if end is None else end)
                by_reason.setdefault((key[0], *own), []).append((path, end))
    return sorted((_stall(each, now) for each in by_reason.values()), key=lambda stall: stall.moves)


def _paths(found: dict[Key, WaitBegun], path: Path) -> Iterator[tuple[Path, Awaited | None]]:
    """Yield the ways from a wait to its reasons: the waits, and who is the reason if that component has none."""
    last = path[-1]
    if not last.awaited:
        yield path, None
    for each in last.awaited:
        following = found.get(_key(each))
        if following is None or each.silent or following in path:
            yield path, each
        else:
            yield from _paths(found, (*path, following))


def _key(of: WaitBegun | Awaited) -> Key:
    return (of.subject if isinstance(of, WaitBegun) else of.application), of.operator


def _stall(ways: list[tuple[Path, Awaited | None]], now: float) -> Stall:
    """Return the stall of one reason, by the longest way to it."""
    path, end = max(ways, key=lambda way: len(way[0]))
    first, last = path[0], path[-1]
    operators = [each.operator for each in path] + ([] if end is None else [end.operator])
    why = last.why
    if end is None:
        clause, remedy = _clause(last, now), REMEDIES.get(why, UNKNOWN)
        remedy = SLOW_OUTSIDE if why is Why.RESULTS and last.said else remedy
    elif end.silent:
        clause, remedy = "does not answer", SILENT_PEER
    elif _key(end) in map(_key, path):
        clause, remedy = "waits for it in turn", UNKNOWN
    elif why is Why.ROOM:
        clause, remedy = "takes less than comes", REMEDIES[Why.BUSY]
    else:
        clause, remedy = "gives nothing, and does not say why", UNKNOWN
    at = last.peer if end is None else end.peer
    place = f" at peer {at}" if at else ""
    text = ""
    for wait, following in zip(path, operators[1:], strict=False):
        joined = "which " if text else f"{wait.operator} "
        text += f"{joined}{LINKS[wait.why]} {following}" + (", " if following != operators[-1] else "")
    if len(operators) == 1:
        text = f"{first.operator}{place} {clause}"
    else:
        before = path[-2] if end is None else last
        behind = f"is {seconds(before.ahead_s)} behind its other inputs and " if before.ahead_s else ""
        who = "and that peer" if end is not None and end.silent else f"which {behind}".rstrip()
        text += f"{place}, {who} {clause}"
    others = sorted({way[0].operator for way, _ in ways} - set(operators))
    if others:
        text += f"; {', '.join(others)} {'waits' if len(others) == 1 else 'wait'} with it"
    return Stall(first.subject, tuple(operators), why, all(each.moves for each in path), text, remedy)


def _clause(wait: WaitBegun, now: float) -> str:
    """Return what the component at the end of a chain does, of which it says so itself."""
    lasts = f"for {seconds(max(now - wait.since, 0.0))}"
    because = f": {wait.said}" if wait.said else ""
    match wait.why:
        case Why.SILENT:
            return f"has given nothing {lasts}{because}"
        case Why.UNPROMISED:
            return f"gives rows, but has not promised {lasts} that no earlier ones follow{because}"
        case Why.FOLDER:
            return f"has rows that the durable folder has not taken {lasts}"
        case Why.WINDOW:
            return f"has had no result {lasts}, as its windows are not over in event time"
        case Why.UNREACHABLE:
            return f"has not reached {lasts} what it needs{because}"
        case Why.RESULTS if wait.moves and not wait.said:
            return f"retains as much as it may: its results have been read more slowly than they come {lasts}"
        case Why.RESULTS:
            return f"has been full {lasts}: {wait.said or 'nobody reads its results'}"
        case Why.EXECUTION:
            return f"has been executing one batch {lasts}"
        case Why.BUSY:
            return f"is busy: it takes {rate(wait.rate)}, {seconds(wait.tuple_s)} each, and more comes"
    return f"{LINKS.get(wait.why, 'waits for')} others {lasts}"


def wait_text(wait: WaitBegun) -> str:
    """Return the sentence of one wait, by the journal of its peer alone."""
    known = OpenWaits()
    known.add(wait)
    found: Iterable[Stall] = stalls(known, wait.time)
    return "; ".join(stall.text for stall in found)
