"""Errors of peers, written to the standard error of the process that holds the cluster: each once, and few a minute.

A peer tells clients that asked for it (:class:`ErrorPublisher`) of what its journal calls an error; a client gathers
for a moment the reports of several peers about the same error, and writes one line (:class:`ErrorNotices`). Nothing is
sent while nothing goes wrong.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.events import Event, LinkBroken, decode_events, encode_events
from synergy_nb.reporting.formatting import readable
from synergy_nb.reporting.troubles import Trouble, joined, observers, trouble
from synergy_nb.runtime.transport.link import LinkFull

__all__ = ["CHANNEL", "ErrorNotices", "ErrorPublisher", "watched"]

CHANNEL: Final = "trouble"  # on which peers tell clients
AGAIN: Final = 60.0  # seconds until the same is told again
GATHERED: Final = 1.0  # seconds for which what several peers say is gathered
MOST: Final = 6  # lines a minute
KNOWN: Final = 1000  # errors that are remembered as told

Later = Callable[[float, Callable[[], None]], Any]


class ErrorPublisher:
    """Tells clients of the errors of one peer.

    Parameters
    ----------
    send
        Called with (client, channel, payload); it may raise ``LinkFull``.
    """

    def __init__(self, send: Callable[[str, str, bytes], None]) -> None:
        self._send = send
        self._clients: set[str] = set()
        self._told: dict[str, float] = {}

    def add(self, client: str) -> None:
        """Add a client that is told of errors from here on."""
        self._clients.add(client)

    def lost(self, address: str) -> None:
        """The link to a client has gone."""
        self._clients.discard(address)

    def publish(self, event: Event) -> None:
        """Tell all clients of an event, if it is an error that they have not heard of lately."""
        said = trouble(event) if self._clients else ""
        if not said or event.time - self._told.get(said, -AGAIN) < AGAIN:
            return
        self._told[said] = event.time
        if len(self._told) > KNOWN:
            del self._told[next(iter(self._told))]
        for client in tuple(self._clients):
            with contextlib.suppress(LinkFull):  # a client so far behind does without; the journal has the error
                self._send(client, CHANNEL, encode_events([event]))


class ErrorNotices:
    """Writes errors of peers for people.

    Parameters
    ----------
    later
        Calls a function after a number of seconds, as ``loop.call_later`` does.
    names
        Peer address to a name for people; it may grow.
    write
        Writes a line; by default to the standard error.
    """

    def __init__(
        self,
        later: Later,
        names: Mapping[str, str] | None = None,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self.names: Mapping[str, str] = names or {}
        self._later = later
        self._write = write or _stderr
        self._told: dict[str, None] = {}
        self._waiting: dict[str, Trouble] = {}
        self._left = MOST
        self._held = 0  # errors that are not told, as there were too many
        self._closed = False

    def take(self, _sender: str, channel: str, payload: bytes) -> None:
        """Take the report of a peer."""
        if channel == CHANNEL:
            for event in decode_events(payload):
                self.hear(event)

    def hear(self, event: Event) -> None:
        """An error of a peer."""
        said = trouble(event)
        about = (
            f"link {event.subject}" if isinstance(event, LinkBroken) else said
        )  # one that broke cannot be reached later
        if self._closed or not said or about in self._told:
            return
        if not self._waiting:
            self._later(GATHERED, self._tell)
        known = self._waiting.get(about)
        self._waiting[about] = joined(known, event, said if known is None else known.said)

    def say(self, text: str) -> None:
        """Write a line about something else."""
        if not self._closed:
            self._write(text)

    def close(self) -> None:
        """Write nothing more: links that break from here on break because the cluster is closed."""
        self._closed = True
        self._waiting.clear()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if self._closed:
            return
        for about, each in waiting.items():
            self._told[about] = None
            if len(self._told) > KNOWN:
                del self._told[next(iter(self._told))]
            if self._left == 0:
                self._held += 1
                continue
            if self._left == MOST:
                self._later(AGAIN, self._refill)
            self._left -= 1
            self._write(f"synergy: {observers(each.peers, self.names)}: {readable(each.said, self.names)}")

    def _refill(self) -> None:
        held, self._held, self._left = self._held, 0, MOST
        if held and not self._closed:
            self._write(f"synergy: {held} more errors of peers; watch(cluster) and explain() tell them")


def watched() -> bool:
    """Whether somebody sees what is written: in a notebook, or at a terminal."""
    python = sys.modules.get("IPython")
    return (python is not None and python.get_ipython() is not None) or sys.stderr.isatty()


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
