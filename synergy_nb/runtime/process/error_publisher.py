"""Errors and newcomers that a peer reports to clients; nothing is sent while there are none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from synergy_nb.events import Event, encode_events
from synergy_nb.reporting.troubles import trouble
from synergy_nb.runtime.transport.link import LinkFull

__all__ = ["AGAIN", "CHANNEL", "KNOWN", "NEWCOMERS", "ErrorPublisher"]

CHANNEL: Final = "trouble"  # channel of the link for reports to clients
NEWCOMERS: Final = "newcomer"  # channel of the link by which clients learn of peers that came later
AGAIN: Final = 60.0  # seconds until the same error is reported again
KNOWN: Final = 1000  # most reported errors that are remembered


class ErrorPublisher:
    """Sends the errors of one peer to clients."""

    def __init__(self, send: Callable[[str, str, bytes], None]) -> None:
        self._send = send  # function (client, channel, payload) that sends a report; it may raise `LinkFull`
        self._clients: set[str] = set()
        self._reported: dict[str, float] = {}

    def add(self, client: str) -> None:
        """Subscribe a client to errors from now on; there are no more of them than links of clients."""
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
        self._send_all(CHANNEL, encode_events([event]))

    def introduce(self, newcomer: bytes) -> None:
        """Tell all clients of a peer that has joined."""
        self._send_all(NEWCOMERS, newcomer)

    def _send_all(self, channel: str, payload: bytes) -> None:
        for client in tuple(self._clients):
            with contextlib.suppress(LinkFull):  # a client that is so far behind misses it; the journal has the error
                self._send(client, channel, payload)
