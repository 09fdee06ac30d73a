"""Errors of peers that end no application by themselves, told from the journal in a sentence.

A protocol that raised an error, a link that broke, and messages or data that were refused are facts of one peer's
journal. The live view, the report, ``explain()`` and the notices on standard error all tell them in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from synergy_nb.events import (
    DataRefused,
    Event,
    FrameRefused,
    FrameUnhandled,
    HandlerFailed,
    Handlers,
    LinkBroken,
    LinkOverflowed,
    LinkRefused,
    LinkResumed,
    MessageRefused,
    RecordingStopped,
    RouteDropped,
    SparkDied,
    SparkFailed,
)
from synergy_nb.reporting.formatting import counted

__all__ = ["SENTENCES", "Trouble", "gathered", "joined", "observers", "trouble"]

NAMED: Final = 3  # peers that a sentence names; of more it gives the number
#: Every :class:`~synergy_nb.events.PeerTrouble` to the function that says it in a sentence.
SENTENCES: Final = Handlers()


class Trouble(NamedTuple):
    """An error that peers met: what happened, at which peers, how often, and when first and last (seconds)."""

    said: str
    peers: tuple[str, ...]
    times: int
    first: float
    last: float


def trouble(event: Event) -> str:
    """What went wrong, in a sentence without the peer that it happened to; empty if the event tells of no error.

    Examples
    --------
    >>> trouble(HandlerFailed(1.0, "a", "Probe", error="KeyError: 'filter'"))
    "handling Probe raised KeyError: 'filter'"
    """
    say = SENTENCES.get(type(event))
    return "" if say is None else str(say(event))


@SENTENCES.add
def _handler_failed(event: HandlerFailed) -> str:
    return f"handling {event.subject} raised {event.error}"


@SENTENCES.add
def _link_broken(event: LinkBroken) -> str:
    return f"the link to {event.subject} broke: {_broken(event.reason)}"


@SENTENCES.add
def _frame_unhandled(event: FrameUnhandled) -> str:
    return f"what {event.subject} sent could not be handled: {event.error}"


@SENTENCES.add
def _link_refused(event: LinkRefused) -> str:
    return f"a link with {event.subject} was refused: {event.reason}"


@SENTENCES.add
def _link_overflowed(event: LinkOverflowed) -> str:
    return f"messages to {event.subject} were dropped: {event.queued} bytes waited already"


@SENTENCES.add
def _link_resumed(event: LinkResumed) -> str:
    return f"messages to {event.subject} are sent again, after {counted(event.dropped, 'message')} had been dropped"


@SENTENCES.add
def _frame_refused(event: FrameRefused) -> str:
    return f"bytes from {event.subject} were refused: {event.reason}"


@SENTENCES.add
def _data_refused(event: DataRefused) -> str:
    return f"data from {event.subject} were refused: {event.reason}"


@SENTENCES.add
def _recording_stopped(event: RecordingStopped) -> str:
    return f"the recording of {event.subject} ends here: {event.reason}"


@SENTENCES.add
def _message_refused(event: MessageRefused) -> str:
    return f"a message of {event.subject} was refused: {event.reason}{event.message and f': {event.message}'}"


@SENTENCES.add
def _route_dropped(event: RouteDropped) -> str:
    return f"a message to key {event.subject} was dropped: {event.reason}"


@SENTENCES.add
def _spark_died(event: SparkDied) -> str:
    return f"the Spark server died and is started again: {event.cause}"


@SENTENCES.add
def _spark_failed(event: SparkFailed) -> str:
    return f"there is no Spark server: {event.cause}"


def _broken(reason: str) -> str:
    """Why a link broke, without what differs from peer to peer.

    >>> _broken("connection closed: in <TCP (closed)  local=a remote=b>: ConnectionResetError: [Errno 104]")
    'connection closed'
    >>> _broken("no link within 2.5 s")
    'it cannot be reached'
    """
    if reason.startswith(("no link within", "Timed out")):
        return "it cannot be reached"
    return "connection closed" if "closed" in reason or "reset" in reason else reason


def gathered(events: Iterable[Event]) -> list[Trouble]:
    """Errors in the order of their first occurrence, each once, with all the peers that met it."""
    found: dict[str, Trouble] = {}
    for event in events:
        said = trouble(event)
        if said:
            found[said] = joined(found.get(said), event, said)
    return list(found.values())


def joined(known: Trouble | None, event: Event, said: str) -> Trouble:
    """A trouble with one more occurrence."""
    if known is None:
        return Trouble(said, (event.peer,), 1, event.time, event.time)
    peers = known.peers if event.peer in known.peers else (*known.peers, event.peer)
    return Trouble(said, peers, known.times + 1, min(known.first, event.time), max(known.last, event.time))


def observers(peers: Iterable[str], names: Mapping[str, str]) -> str:
    """Names of the peers that met a trouble, of many the first.

    >>> observers(["a", "b", "c", "d", "e"], {})
    'a, b, c and 2 more'
    """
    named = sorted(names.get(peer, peer) for peer in peers)
    rest = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return ", ".join(named[:NAMED]) + rest
