"""Sentences about errors of peers that end no application.

The journal of a peer records handlers that raised an error, links that broke, and messages or data that were refused.
The live view, the report, ``explain()`` and the notices on standard error describe them in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from synergy_nb import events
from synergy_nb.errors import harmless
from synergy_nb.events import Event, Handlers, LinkBroken
from synergy_nb.plan.terms.units import counted

__all__ = ["SENTENCES", "Trouble", "gathered", "joined", "observers", "trouble"]

NAMED: Final = 3  # largest number of peers that a sentence names
#: Type of :class:`~synergy_nb.events.PeerTrouble` to the function that describes it in a sentence.
SENTENCES: Final = Handlers()


class Trouble(NamedTuple):
    """An error at peers: its sentence, the peers, the number of occurrences, the times of the first and the last.

    ``link`` is the address of the peer to which the link broke; empty for another error.
    """

    text: str
    peers: tuple[str, ...]
    times: int
    first: float
    last: float
    link: str = ""


def trouble(event: Event) -> str:
    """Describe an error in a sentence without its peer; empty if the event is no error.

    Examples
    --------
    >>> trouble(events.HandlerFailed(1.0, "a", "Probe", error="KeyError: 'filter'"))
    "handling Probe raised KeyError: 'filter'"
    """
    describe = SENTENCES.get(type(event))
    return "" if describe is None else harmless(str(describe(event)))


@SENTENCES.add
def _handler_failed(event: events.HandlerFailed) -> str:
    return f"handling {event.subject} raised {event.error}"


@SENTENCES.add
def _link_broken(event: LinkBroken) -> str:
    return f"the link to {event.subject} broke: {_broken(event.reason)}"


@SENTENCES.add
def _folder_broken(event: events.FolderBroken) -> str:
    return f"the durable folder takes nothing, so streams wait: {event.reason}"


@SENTENCES.add
def _frame_unhandled(event: events.FrameUnhandled) -> str:
    return f"a message or data from {event.subject} could not be handled: {event.error}"


@SENTENCES.add
def _link_refused(event: events.LinkRefused) -> str:
    return f"a link with {event.subject} was refused: {event.reason}"


@SENTENCES.add
def _sender_refused(event: events.SenderRefused) -> str:
    return f"{event.subject} was refused {event.what}, which is for {event.expected}"


@SENTENCES.add
def _link_overflowed(event: events.LinkOverflowed) -> str:
    return f"messages to {event.subject} were dropped: {counted(event.queued, 'byte')} waited already"


@SENTENCES.add
def _link_resumed(event: events.LinkResumed) -> str:
    return f"messages to {event.subject} are sent again, after {counted(event.dropped, 'message')} had been dropped"


@SENTENCES.add
def _flood_shed(event: events.FloodShed) -> str:
    return f"{event.what} of {event.subject} were shed: it may have {event.limit}"


@SENTENCES.add
def _frame_refused(event: events.FrameRefused) -> str:
    return f"bytes from {event.subject} were refused: {event.reason}"


@SENTENCES.add
def _data_refused(event: events.DataRefused) -> str:
    return f"data from {event.subject} were refused: {event.reason}"


@SENTENCES.add
def _recording_stopped(event: events.RecordingStopped) -> str:
    return f"the recording of {event.subject} ends here: {event.reason}"


@SENTENCES.add
def _message_refused(event: events.MessageRefused) -> str:
    return f"a message of {event.subject} was refused: {event.reason}{event.message and f': {event.message}'}"


@SENTENCES.add
def _peer_distrusted(event: events.PeerDistrusted) -> str:
    broken, kept = counted(event.broken, "application"), event.kept
    return f"{event.subject} is chosen last: it has kept no limit of {broken} that it accepted, and that of {kept}"


@SENTENCES.add
def _route_dropped(event: events.RouteDropped) -> str:
    return f"a message to key {event.subject} was dropped: {event.reason}"


@SENTENCES.add
def _spark_died(event: events.SparkDied) -> str:
    return f"the Spark server died and is restarted: {event.cause}"


@SENTENCES.add
def _spark_failed(event: events.SparkFailed) -> str:
    return f"there is no Spark server: {event.cause}"


def _broken(reason: str) -> str:
    """Reason why a link broke, without addresses, so that equal errors of several peers have the same text.

    >>> _broken("connection closed: in <TCP (closed)  local=a remote=b>: ConnectionResetError: [Errno 104]")
    'connection closed'
    >>> _broken("no link within 2.5 s")
    'it cannot be reached'
    """
    if reason.startswith(("no link within", "Timed out")):
        return "it cannot be reached"
    return "connection closed" if "closed" in reason or "reset" in reason else reason


def gathered(events: Iterable[Event]) -> list[Trouble]:
    """Collect errors in the order of their first occurrence, each once, with all peers at which it occurred.

    That links to a peer broke whose process has ended says no more than its death, and is left out.
    """
    events = list(events)
    ended = {event.subject for event in events if isinstance(event, LinkBroken) and event.refused}
    found: dict[str, Trouble] = {}
    for event in events:
        text = trouble(event)
        if text and not (isinstance(event, LinkBroken) and event.subject in ended):
            found[text] = joined(found.get(text), event, text)
    return list(found.values())


def joined(known: Trouble | None, event: Event, text: str) -> Trouble:
    """Add one occurrence to a trouble."""
    if known is None:
        link = event.subject if isinstance(event, LinkBroken) else ""
        return Trouble(text, (event.peer,), 1, event.time, event.time, link)
    peers = known.peers if event.peer in known.peers else (*known.peers, event.peer)
    first, last = min(known.first, event.time), max(known.last, event.time)
    return known._replace(peers=peers, times=known.times + 1, first=first, last=last)


def observers(peers: Iterable[str], names: Mapping[str, str]) -> str:
    """List the names of the first peers at which a trouble occurred, and the number of the others.

    >>> observers(["a", "b", "c", "d", "e"], {})
    'a, b, c and 2 more'
    """
    named = sorted(names.get(peer, peer) for peer in peers)
    rest = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return ", ".join(named[:NAMED]) + rest
