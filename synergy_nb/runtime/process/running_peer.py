"""The interface of a running peer for the modules of its data path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from synergy_nb.events import Recorder

__all__ = ["Runtime"]


class Runtime(Protocol):
    """A running peer; everything is called on the loop's thread, ``clock`` from any."""

    @property
    def address(self) -> str:
        """Address of the peer."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Event loop of the peer."""

    def clock(self) -> float:
        """Return wall-clock seconds that never step back."""

    def send_data(self, to: str, channel: str, payload: bytes) -> None:
        """Send ``payload`` to the host of the peer at ``to``."""

    def on_channel(self, channel: str, receive: Callable[[str, bytes], None]) -> None:
        """Have each frame of a channel be passed to a function, with the address of its sender."""

    @property
    def record(self) -> Recorder:
        """Function that writes an event to the journal; called on the loop's thread."""
