"""Errors of peers that end no application by themselves, told from the journal in a sentence.

A protocol that raised an error, a link that broke, and messages or data that were refused are facts of one peer's
journal. The live view, the report, ``explain()`` and the notices on standard error all tell them in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from synergy_nb.journal import Event

__all__ = ["TROUBLES", "Trouble", "gathered", "observers", "trouble"]

#: Kinds of events that may tell of an error.
TROUBLES: Final = frozenset(
    {
        "data_refused",
        "frame_refused",
        "link_down",
        "link_error",
        "link_full",
        "link_refused",
        "message_refused",
        "peer_error",
        "route_dropped",
    }
)
REFUSED: Final = frozenset({"unknown message", "malformed message"})  # others come late, as messages may
NAMED: Final = 3  # peers that a sentence names; of more it gives the number


class Trouble(NamedTuple):
    """An error that peers met: what happened, at which peers, how often, and when first and last (seconds)."""

    said: str
    peers: tuple[str, ...]
    times: int
    first: float
    last: float


def trouble(event: Event) -> str:
    """What went wrong, in a sentence without the peer that it happened to; empty if nothing did.

    Examples
    --------
    >>> trouble(Event(1.0, "a", "peer_error", "Probe", {"error": "KeyError: 'filter'"}))
    "handling Probe raised KeyError: 'filter'"
    """
    subject, detail = event.subject, event.detail
    reason = str(detail.get("reason") or detail.get("error") or "")
    match event.kind:
        case "peer_error":
            return f"handling {subject} raised {reason}"
        case "link_down" if "://" in subject and not reason.startswith("replaced"):  # links of clients come and go
            return f"the link to {subject} broke: {_broken(reason)}"
        case "link_error":
            return f"what {subject} sent could not be handled: {reason}"
        case "link_refused":
            return f"a link with {subject} was refused: {reason}"
        case "link_full":
            return f"messages to {subject} were dropped: {detail.get('queued')} bytes waited already"
        case "frame_refused":
            return f"bytes from {subject} were refused: {reason}"
        case "data_refused":
            return f"data on channel {subject} were refused: {reason}"
        case "message_refused" if reason in REFUSED:
            what = detail.get("message")
            return f"a message of {subject} was refused: {reason}{f': {what}' if what else ''}"
        case "route_dropped":
            return f"a message to key {subject} was dropped: {reason}"
    return ""


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
        said = trouble(event) if event.kind in TROUBLES else ""
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
