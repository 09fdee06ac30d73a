"""What a running peer gives to those who work on it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from synergy_nb.events import Recorder

__all__ = ["Runtime"]


class Runtime(Protocol):
    """A running peer; everything is called on the loop's thread, ``clock`` from any."""

    @property
    def address(self) -> str:
        """The peer's address."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that the peer runs on."""

    def clock(self) -> float:
        """Wall-clock seconds that never step back."""

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Put ``payload`` on its way to the host of the peer at ``to``."""

    @property
    def record(self) -> Recorder:
        """What writes an event to the journal; called on the loop's thread."""
