"""Requests that need an answer: they are sent again until it arrives, a limited number of times.

"Failures of nodes during the protocol execution result to message timeouts, causing the sender of the corresponding
message to try the next available candidate" (section 4.4). The sender's callback receives the answer, or learns that
there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synergy_nb.algorithms.availability.messages import PlacementConfig, PlacementReply
from synergy_nb.control.peer import Message, Peer, Protocol, Timer

__all__ = ["AcknowledgedRequests", "Answered"]

Answered = Callable[[PlacementReply | None], None]
"""Callback for the answer; None if there is none."""


class _Unacknowledged(NamedTuple):
    to: str
    message: Message
    answered: Answered
    left: int
    timer: Timer


class AcknowledgedRequests(Protocol):
    """Messages of this peer that wait for a :class:`~synergy_nb.algorithms.availability.messages.PlacementReply`.

    Parameters
    ----------
    peer
        The peer.
    is_dead
        Whether a peer is known to have died; it is not waited for.
    config
        Times.
    """

    def __init__(self, peer: Peer, is_dead: Callable[[str], bool], config: PlacementConfig) -> None:
        super().__init__(peer)
        self.is_dead = is_dead
        self.config = config
        self._posted: dict[int, _Unacknowledged] = {}
        self._number = 0
        self.handlers = {PlacementReply: self._replied}

    def start(self) -> None:
        """Start with numbers that this peer has not used before a restart."""
        self._number = int(self.peer.now * 1000)

    def post(self, to: str, make: Callable[[int], Message], answered: Answered) -> None:
        """Send the message that ``make`` returns for a new number."""
        self._number += 1
        self._send(self._number, to, make(self._number), answered, self.config.sends)

    def reply(self, to: str, number: int, reason: str = "") -> None:
        """Answer a message: accepted, unless there is a reason why not."""
        self.peer.send(to, PlacementReply(number, not reason, reason))

    def _send(self, number: int, to: str, message: Message, answered: Answered, left: int) -> None:
        timer = self.peer.after(self.config.answer, self._silent, number)
        self._posted[number] = _Unacknowledged(to, message, answered, left - 1, timer)
        self.peer.send(to, message)

    def _silent(self, number: int) -> None:
        posted = self._posted.pop(number)
        if posted.left and not self.is_dead(posted.to):
            self._send(number, posted.to, posted.message, posted.answered, posted.left)
        else:
            posted.answered(None)

    def _replied(self, sender: str, message: PlacementReply) -> None:
        posted = self._posted.get(message.number)
        if posted is None or posted.to != sender:
            return  # a duplicate answer, or one that arrived after the last timeout
        del self._posted[message.number]
        posted.timer.cancel()
        posted.answered(message)
