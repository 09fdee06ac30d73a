"""Notices of peers' errors on the standard error of the client: each error once, and at a limited rate.

A peer sends the errors in its journal to subscribed clients (:class:`ErrorPublisher`); a client briefly gathers the
reports of several peers about the same error, and writes one line (:class:`ErrorNotices`). Nothing is sent while there
are no errors.
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

__all__ = ["CHANNEL", "ErrorNotices", "ErrorPublisher", "user_sees_output"]

CHANNEL: Final = "trouble"  # channel of the link for reports to clients
AGAIN: Final = 60.0  # seconds until the same error is reported again
GATHERED: Final = 1.0  # seconds for which the reports of several peers are gathered
MOST: Final = 6  # most lines a minute
KNOWN: Final = 1000  # most reported errors that are remembered

Later = Callable[[float, Callable[[], None]], Any]


class ErrorPublisher:
    """Sends the errors of one peer to clients.

    Parameters
    ----------
    send
        Function (client, channel, payload) that sends a report; it may raise ``LinkFull``.
    """

    def __init__(self, send: Callable[[str, str, bytes], None]) -> None:
        self._send = send
        self._clients: set[str] = set()
        self._reported: dict[str, float] = {}

    def add(self, client: str) -> None:
        """Subscribe a client to errors from now on."""
        self._clients.add(client)

    def lost(self, address: str) -> None:
        """Unsubscribe a client whose link has failed."""
        self._clients.discard(address)

    def publish(self, event: Event) -> None:
        """Send an event to all clients if it is an error that was not reported lately."""
        text = trouble(event) if self._clients else ""
        if not text or event.time - self._reported.get(text, -AGAIN) < AGAIN:
            return
        self._reported[text] = event.time
        if len(self._reported) > KNOWN:
            del self._reported[next(iter(self._reported))]
        for client in tuple(self._clients):
            with contextlib.suppress(LinkFull):  # a client that is so far behind misses it; the journal has the error
                self._send(client, CHANNEL, encode_events([event]))


class ErrorNotices:
    """Writes errors of peers for users.

    Parameters
    ----------
    later
        Function that calls another one after a number of seconds, such as ``loop.call_later``.
    names
        Peer address to a name for users; it may grow.
    write
        Function that writes a line; by default to the standard error.
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
        self._reported: dict[str, None] = {}
        self._waiting: dict[str, Trouble] = {}
        self._left = MOST
        self._suppressed = 0  # errors that were not written, as there were too many
        self._closed = False

    def receive(self, _sender: str, channel: str, payload: bytes) -> None:
        """Receive the report of a peer."""
        if channel == CHANNEL:
            for event in decode_events(payload):
                self.add(event)

    def add(self, event: Event) -> None:
        """Handle an error of a peer."""
        text = trouble(event)
        about = f"link {event.subject}" if isinstance(event, LinkBroken) else text  # one notice for each broken link
        if self._closed or not text or about in self._reported:
            return
        if not self._waiting:
            self._later(GATHERED, self._write_waiting)
        known = self._waiting.get(about)
        self._waiting[about] = joined(known, event, text if known is None else known.text)

    def write_line(self, text: str) -> None:
        """Write a line about another matter."""
        if not self._closed:
            self._write(text)

    def close(self) -> None:
        """Stop writing: later broken links are due to the end of the cluster."""
        self._closed = True
        self._waiting.clear()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        if self._closed:
            return
        for about, each in waiting.items():
            self._reported[about] = None
            if len(self._reported) > KNOWN:
                del self._reported[next(iter(self._reported))]
            if self._left == 0:
                self._suppressed += 1
                continue
            if self._left == MOST:
                self._later(AGAIN, self._refill)
            self._left -= 1
            self._write(f"synergy: {observers(each.peers, self.names)}: {readable(each.text, self.names)}")

    def _refill(self) -> None:
        suppressed, self._suppressed, self._left = self._suppressed, 0, MOST
        if suppressed and not self._closed:
            self._write(f"synergy: {suppressed} more errors of peers; watch(cluster) and explain() show them")


def user_sees_output() -> bool:
    """Whether a user sees the standard error of this process: in a notebook, or at a terminal."""
    python = sys.modules.get("IPython")
    return (python is not None and python.get_ipython() is not None) or sys.stderr.isatty()


def _stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
