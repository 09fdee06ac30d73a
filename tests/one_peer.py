"""One Synergy peer without others: a test gives it messages and the time, and reads what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.assembly._synergy_peer import Machine
from synergy_nb.control.peer import Effect, Instruct, Message, Record, Send
from synergy_nb.events import Event
from synergy_nb.overlay.pastry import Leaving

__all__ = ["OnePeer"]

E = TypeVar("E", bound=Event)
T = TypeVar("T")
M = TypeVar("M", bound=Message)


class OnePeer:
    """A peer that never starts, so that it does nothing of its own accord; ``now``: its time, seconds."""

    def __init__(self, address: str, machine: Machine | None = None, **config: Any) -> None:
        self.synergy = SynergyPeer(address, PeerConfig(name=address, **config), machine or Machine())
        self.now = 1.0
        self._effects: list[Effect] = []

    # -- what happens to it --------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *given: Any, **named: Any) -> None:
        """Call a method of one of its parts, as another part does."""
        self._effects += self.synergy.peer.call(self.now, lambda: function(*given, **named))

    def receive(self, sender: str, *messages: Message) -> None:
        """Give it messages of another peer."""
        for message in messages:
            self._effects += self.synergy.peer.receive(sender, message, self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass: its timers run when they are due."""
        end = self.now + seconds
        while (due := self.synergy.peer.next_timer) is not None and due <= end:
            self.now = max(self.now, due)
            self._effects += self.synergy.peer.tick(self.now)
        self.now = end

    def loses(self, address: str) -> None:
        """Have another peer leave the ring, so that it counts as dead."""
        self.receive(address, Leaving(()))

    # -- what it does: what is read is gone ----------------------------------------------------------------------------

    def _taken(self, kind: type[Any], inner: Callable[[Any], Any], wanted: type[Any]) -> list[Any]:
        found = [each for each in self._effects if isinstance(each, kind) and isinstance(inner(each), wanted)]
        chosen = {id(each) for each in found}
        self._effects = [each for each in self._effects if id(each) not in chosen]
        return found

    def sent(self, kind: type[M]) -> list[tuple[str, M]]:
        """Messages of a kind that it has sent, each with the receiver."""
        return [(each.to, each.message) for each in self._taken(Send, lambda each: each.message, kind)]

    def told(self, kind: type[T]) -> list[T]:
        """Instructions of a kind to its driver."""
        return [each.instruction for each in self._taken(Instruct, lambda each: each.instruction, kind)]

    def noted(self, kind: type[E]) -> list[E]:
        """Events of a kind in its journal."""
        return [each.event for each in self._taken(Record, lambda each: each.event, kind)]
