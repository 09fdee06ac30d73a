"""What the parts of hosting give away: effects for the driver, frames, and the components that have changed.

Frames for this very peer do not leave it: they wait here until the present event has been handled, as if they had come
over a link. So a part never handles a frame while another part is in the middle of a change
(``test_exchange``).
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from synergy_nb.dataflow.streams.hosting.effects import Effect, SendFrame
from synergy_nb.dataflow.streams.log.frames import Frame

Key: TypeAlias = tuple[str, str]
"""Application and operator of a component."""


class Outbox:
    """What has to be done outside of the parts of hosting, in the order in which they asked for it."""

    def __init__(self, peer: str) -> None:
        self._peer = peer  # address of the peer
        self.effects: list[Effect] = []  # effects for the driver
        self.inside: deque[Frame] = deque()  # frames of this peer to itself
        # application and operator of each component that has changed; the values mean nothing
        self.touched: dict[Key, None] = {}  # a dict keeps their order

    def effect(self, effect: Effect) -> None:
        """Add an effect for the driver."""
        self.effects.append(effect)

    def send(self, to: str, frame: Frame) -> None:
        """Send a frame; a frame for this peer itself does not leave it."""
        if to == self._peer:
            self.inside.append(frame)
        else:
            self.effects.append(SendFrame(to, frame))

    def touch(self, application: str, operator: str) -> None:
        """Mark a component, its copy or its recovery as changed: what may be executed, and its timers, are updated."""
        self.touched[application, operator] = None
