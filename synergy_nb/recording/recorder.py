"""A kernel that records its inputs from the driver, and their effects.

A recorded peer is made with :class:`RecordedPeer` in place of :class:`~synergy_nb.control.peer.Peer`; drivers see no
difference, on Dask workers and in the simulator alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from synergy_nb.control.peer import Effect, Message, Peer, Record, Send
from synergy_nb.recording.recording_file import Beginning, Input, Received, Started, Ticked

__all__ = ["RecordedPeer", "decode_effects", "encode_effects", "encode_message", "text_of"]

SEND: Final = 0
INSTRUCT: Final = 1
RECORD: Final = 2

_plain: Final = msgspec.msgpack.Encoder()
#: Sets and dicts of effects are equal in any order; those of inputs keep the order that they have.
_sorted: Final = msgspec.msgpack.Encoder(order="deterministic")


def encode_effects(effects: Sequence[Effect]) -> bytes:
    """Effects in MessagePack, equal for equal effects.

    Each is an array: 0, receiver and message; 1, name and fields of an instruction; or 2 and an event.
    """
    values: list[tuple[Any, ...]] = []
    for effect in effects:
        if type(effect) is Send:
            values.append((SEND, effect.to, effect.message))
        elif isinstance(effect, Record):
            values.append((RECORD, effect.event))
        else:
            values.append((INSTRUCT, type(effect.instruction).__name__, effect.instruction))  # type: ignore[union-attr]
    return _in_order(values)


def encode_message(message: Message) -> bytes:
    """A message in MessagePack, equal for equal messages."""
    return _in_order(message)


def _in_order(value: Any) -> bytes:
    """A value in MessagePack, with sets and dicts in one order; numbers that are keys become text."""
    try:
        return _sorted.encode(value)
    except TypeError:  # it has no order for other keys than text, such as the inputs of a rebuilt replica
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), str_keys=True, order="deterministic")
        return _sorted.encode(plain)


def decode_effects(data: bytes | msgspec.Raw) -> list[list[Any]]:
    """What :func:`encode_effects` gave, as plain values."""
    found: list[list[Any]] = msgspec.msgpack.decode(data)
    return found


def text_of(error: BaseException) -> str:
    """The text of an exception in a recording."""
    return f"{type(error).__name__}: {error}"


class RecordedPeer(Peer):
    """A kernel that records its inputs and their effects.

    ``address``, ``seed``: see :class:`~synergy_nb.control.peer.Peer`; ``beginning``: construction of the peer, the
    first record.
    """

    __slots__ = ("_add",)

    def __init__(self, address: str, seed: int, beginning: Beginning, add: Callable[[Beginning | Input], None]) -> None:
        super().__init__(address, seed)
        self._add = add  # function that receives each record
        add(beginning)

    def start(self, now: float) -> list[Effect]:
        """Start all protocols, and record it."""
        return self._recorded(Started, (now,), super().start, now)

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Handle one message, and record it."""
        given = now, sender, msgspec.Raw(_plain.encode(message))
        return self._recorded(Received, given, super().receive, sender, message, now)

    def tick(self, now: float) -> list[Effect]:
        """Fire the timers that are due, and record it."""
        return self._recorded(Ticked, (now,), super().tick, now)

    def call(self, now: float, function: Callable[..., Any], *arguments: Any) -> list[Effect]:
        """Refuse the call, which could not be replayed."""
        raise ValueError(
            f"call: {getattr(function, '__qualname__', function)}; a peer that is recorded takes messages only"
        )

    def _recorded(
        self, kind: Callable[..., Input], given: tuple[Any, ...], function: Callable[..., list[Effect]], *arguments: Any
    ) -> list[Effect]:
        try:
            effects = function(*arguments)
        except Exception as error:
            self._add(kind(*given, msgspec.Raw(encode_effects(())), text_of(error)))
            raise
        self._add(kind(*given, msgspec.Raw(encode_effects(effects))))
        return effects
