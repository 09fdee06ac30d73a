"""The origin's part of a migration: it has components moved on behalf of the peers that execute them.

Only the origin of an application changes its component graph, so a migration and a take-over never run at the same
time. A peer repeats its request until it is answered; a repeated request gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from synergy_nb.algorithms.migration.messages import MigrationEndReported, NoTargetFound, Relocate
from synergy_nb.control.peer import Message, Peer
from synergy_nb.lifecycle.session import Session

ENDED: Final = 256  # ended migrations whose answer an origin remembers


class Relocations:
    """Has components of the applications of this origin moved to the peers that accept them."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.peer = peer
        self.session = session
        self._answers: dict[tuple[str, int], MigrationEndReported] = {}  # by the sender of a request and its number
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Relocate: self._relocate,
            NoTargetFound: self._no_target_found,
        }

    def _no_target_found(self, sender: str, message: NoTargetFound) -> None:
        graph = self.session.graph(message.application)
        if graph is not None and graph.attempt == message.attempt and graph.roles.peers.get(message.operator) == sender:
            self.session.feedbacks.note_helpless(message.application, message.operator)

    def _relocate(self, sender: str, message: Relocate) -> None:
        known = self._answers.get((sender, message.number))
        if known is not None:
            self.peer.send(sender, known)
            return
        graph = self.session.graph(message.application)
        if graph is None or graph.attempt != message.attempt or graph.roles.peers.get(message.operator) != sender:
            self._reply(sender, message.number, "the sender does not execute the component")
            return

        def moved(failure: str) -> None:
            self._reply(sender, message.number, failure)

        try:
            asked = message.number if message.unanswered else 0
            self.session.moves.move(message.application, message.operator, message.to, moved, asked)
        except ValueError as error:
            self._reply(sender, message.number, str(error))
        else:
            self._answers.setdefault((sender, message.number), MigrationEndReported(message.number, "", pending=True))
            self.peer.send(sender, self._answers[sender, message.number])

    def _reply(self, to: str, number: int, failure: str) -> None:
        answer = self._answers[to, number] = MigrationEndReported(number, failure)
        while len(self._answers) > ENDED:
            del self._answers[next(iter(self._answers))]
        self.peer.send(to, answer)
