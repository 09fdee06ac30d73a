"""Requests that need an answer: they are sent again until it arrives, a limited number of times.

"Failures of nodes during the protocol execution result to message timeouts, causing the sender of the corresponding
message to try the next available candidate" (section 4.4). The sender's callback receives the answer, or learns that
there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synergy_nb.algorithms.availability.messages import PlacementConfig, PlacementReply
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits

Answered = Callable[[PlacementReply | None], None]
"""Callback for the answer; None if there is none."""


class _Unacknowledged(NamedTuple):
    to: str
    message: Message
    answered: Answered
    left: int
    timer: AnswerLimit


class AcknowledgedRequests(Protocol):
    """Messages of this peer that wait for a :class:`~synergy_nb.algorithms.availability.messages.PlacementReply`."""

    def __init__(
        self, peer: Peer, is_dead: Callable[[str], bool], config: PlacementConfig, answers: AnswerLimits
    ) -> None:
        super().__init__(peer)
        self._answers = answers  # time limits on the answers of other peers, which lateness stretches
        self.is_dead = is_dead  # whether a peer is known to have died; messages to such a peer are not repeated
        self.config = config
        self._unanswered: dict[int, _Unacknowledged] = {}
        self._number = 0
        self.handlers = {PlacementReply: self._replied}

    def start(self) -> None:
        """Start with numbers that this peer has not used before a restart."""
        self._number = int(self.peer.now * 1000)

    def send(self, to: str, make: Callable[[int], Message], answered: Answered) -> None:
        """Send the message that ``make`` returns for a new number."""
        self._number += 1
        self._send(self._number, to, make(self._number), answered, self.config.sends)

    def reply(self, to: str, number: int, reason: str = "", *, takes: int = 0, groups: int = 0) -> None:
        """Answer a message: refuse it if there is a reason, else accept it; a primary may come with an offer."""
        self.peer.send(to, PlacementReply(number, not reason, reason, takes, groups))

    def _send(self, number: int, to: str, message: Message, answered: Answered, left: int) -> None:
        timer = self._answers.after(self.config.answer, (to,), self._silent, number)
        self._unanswered[number] = _Unacknowledged(to, message, answered, left - 1, timer)
        self.peer.send(to, message)

    def _silent(self, number: int) -> None:
        sent = self._unanswered.pop(number)
        if sent.left and not self.is_dead(sent.to):
            self._send(number, sent.to, sent.message, sent.answered, sent.left)
        else:
            sent.answered(None)

    def _replied(self, sender: str, message: PlacementReply) -> None:
        sent = self._unanswered.get(message.number)
        if sent is None or sent.to != sender:
            return  # a duplicate answer, or one that arrived after the last timeout
        del self._unanswered[message.number]
        sent.timer.cancel()
        sent.answered(message)
