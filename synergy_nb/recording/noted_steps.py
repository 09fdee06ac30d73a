"""Steps of simulated peers that are noted while they happen, without a file, so that requests can be replayed.

:class:`NotedPeer` is the kernel of a simulated peer instead of :class:`~synergy_nb.control.peer.Peer`. Messages that
maintain the ring, the directory and the links are not noted, as many peers send very many of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from synergy_nb.control.peer import Effect, Message, Peer, Record, Send
from synergy_nb.recording.descriptions import HOUSEKEEPING
from synergy_nb.recording.replay import Delivery, DeliveryNotingPeer, Step

__all__ = ["NotedPeer", "NotedSteps"]

MOST_STEPS = 200_000  # number of latest steps that are kept


class NotedSteps:
    """The latest steps of all peers of a simulation, in the order of their times.

    ``most``: number of the latest steps that are kept.
    """

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.steps: deque[Step] = deque(maxlen=most)
        self.noting = False  # whether steps are noted at present
        self.messages = 0  # number of noted steps in which a message arrived

    def add(self, step: Step) -> None:
        """Note a step, unless it only maintains the ring, the directory or links."""
        if self.noting and (
            any(map(_may_concern_request, step.deliveries)) or any(map(_effect_may_concern_request, step.effects))
        ):
            self.steps.append(step)
            self.messages += step.arrived

    def kernel(self, name: str) -> Callable[[str, int], Peer]:
        """Return the constructor of the kernel of a peer with that name, from address and seed."""
        return lambda address, seed: NotedPeer(address, seed, name, self)


class NotedPeer(DeliveryNotingPeer):
    """A kernel that notes its inputs and their effects.

    ``address``, ``seed``: see :class:`~synergy_nb.control.peer.Peer`.
    """

    __slots__ = ("_number", "name", "noted")

    def __init__(self, address: str, seed: int, name: str, noted: NotedSteps) -> None:
        super().__init__(address, seed)
        self.name = name  # name of the peer for people
        self.noted = noted  # steps of all peers, to which those of this one are added
        self._number = 0

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Handle one message, and note it."""
        if not self.noted.noting:
            return super().receive(sender, message, now)
        self.deliveries = []
        effects = super().receive(sender, message, now)
        deliveries = [Delivery(sender, message, 0, len(effects)), *self.deliveries]
        self._note(now, deliveries, effects, arrived=True)
        return effects

    def tick(self, now: float) -> list[Effect]:
        """Fire the timers that are due, and note it."""
        if not self.noted.noting:
            return super().tick(now)
        self.deliveries = []
        effects = super().tick(now)
        if effects:
            self._note(now, self.deliveries, effects)
        return effects

    def call(self, now: float, function: Callable[..., Any], *arguments: Any) -> list[Effect]:
        """Call a method of a protocol, and note it."""
        self.deliveries = []
        effects = super().call(now, function, *arguments)
        self._note(now, self.deliveries, effects)
        return effects

    def _note(self, now: float, deliveries: list[Delivery], effects: list[Effect], *, arrived: bool = False) -> None:
        self._number += 1
        self.noted.add(Step(self, self._number, now, deliveries, effects, arrived))


def _may_concern_request(delivery: Delivery) -> bool:
    """Whether a message may belong to a request."""
    return _is_noted(delivery.message)


def _effect_may_concern_request(effect: Effect) -> bool:
    """Whether an effect may belong to a request."""
    if isinstance(effect, Record):
        return True
    return isinstance(effect, Send) and _is_noted(effect.message)


def _is_noted(message: Message) -> bool:
    inner = getattr(message, "payload", None)  # of a routed message
    return type(inner if isinstance(inner, Message) else message) not in HOUSEKEEPING
