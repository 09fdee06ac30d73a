"""Replay of a recording: the same peers, made again without Dask, get the same inputs, and the effects are compared.

Each peer is replayed by itself, since all of its inputs are recorded. Its messages are not delivered: those that other
peers received are among the recorded inputs of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from synergy_nb.control.peer import Codec, Effect, MalformedMessage, Message, Peer, UnknownMessage
from synergy_nb.events import declared
from synergy_nb.plan.terms.units import counted
from synergy_nb.recording.construction import construct
from synergy_nb.recording.recorder import INSTRUCT, SEND, decode_effects, encode_effects, text_of
from synergy_nb.recording.recording_file import Input, Life, Received, Recording, Started

__all__ = ["Delivery", "DeliveryNotingPeer", "Difference", "Named", "ReplayOutcome", "Step", "compare", "replay"]


@dataclass
class Delivery:
    """One message that a peer handled in a step: the one that arrived, or one that it unwrapped or sent to itself."""

    # sender, message: address of the sender, and the message
    sender: str
    message: Message
    # first, last: numbers of the first effect that the message caused, also by nested deliveries, and of the one after
    # the last
    first: int
    last: int = 0


@dataclass(frozen=True)
class Difference:
    """First difference between the effects of a replayed peer and the recorded ones."""

    peer: str
    number: int  # number of the input, from 1
    at: float  # time of the input in seconds
    input: str  # name of the message; `start` or `timers` for inputs of other kinds
    text: str  # first part that differs, with both values, in words

    def __str__(self) -> str:
        return f"{self.peer}, input {self.number:,} ({self.input}): {self.text}"


class Named(Protocol):
    """A peer whose inputs are known."""

    @property
    def address(self) -> str:
        """Address of the peer."""

    @property
    def name(self) -> str:
        """Name of the peer for people."""


@dataclass
class Step:
    """One input of one peer with its effects, replayed or noted while it happened."""

    life: Named
    number: int  # number of the input, from 1
    at: float  # time of the input in seconds
    deliveries: list[Delivery]  # messages that were handled, in order; none or more where timers fired
    effects: list[Effect]
    # whether a message came in, which is the first delivery; otherwise the peer started, or timers fired
    arrived: bool = False
    difference: str = ""  # first difference from the recording, in words; empty if there is none

    @property
    def received(self) -> Message | None:
        """The message that came in; None where the peer started or timers fired."""
        return self.deliveries[0].message if self.arrived and self.deliveries else None


class DeliveryNotingPeer(Peer):
    """A kernel that notes the messages that its protocols handle."""

    __slots__ = ("deliveries",)

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed)
        self.deliveries: list[Delivery] = []

    def deliver(self, sender: str, message: Message) -> None:
        """Handle at once a message that another protocol has unwrapped, and note it."""
        delivery = Delivery(sender, message, len(self._effects))
        self.deliveries.append(delivery)
        super().deliver(sender, message)
        delivery.last = len(self._effects)


def replay(life: Life) -> Iterator[Step]:
    """Replay one peer, input by input.

    Where the effects of an input differ from those recorded, or its message is unknown, the replay of this peer ends.
    """
    peer = construct(life.beginning.construction, DeliveryNotingPeer).peer
    assert isinstance(peer, DeliveryNotingPeer)
    codec = Codec((*peer.message_types, *peer.driver_message_types))
    for number, given in enumerate(life.inputs, start=1):
        peer.deliveries = []
        message: Message | None = None
        effects: list[Effect] = []
        error = ""
        if isinstance(given, Received):
            try:
                message = codec.decode(bytes(given.message))
            except (UnknownMessage, MalformedMessage) as unknown:
                yield Step(
                    life, number, given.at, [], [], difference=f"this version cannot read the message: {unknown}"
                )
                return
        try:
            effects = _apply(peer, given, message)
        except Exception as raised:  # noqa: BLE001 - what a handler raised when it was recorded, it raises again
            error = text_of(raised)
        deliveries = peer.deliveries
        if message is not None and isinstance(given, Received):
            deliveries = [Delivery(given.sender, message, 0, len(effects)), *deliveries]
        step = Step(life, number, given.at, deliveries, effects, isinstance(given, Received))
        if error != given.error:
            step.difference = f"recorded {given.error or 'no error'}, replayed {error or 'no error'}"
        elif not error:
            replayed = encode_effects(effects)
            if replayed != bytes(given.effects):
                step.difference = differs(decode_effects(given.effects), decode_effects(replayed), _fields(codec))
        yield step
        if step.difference:
            return


def _apply(peer: Peer, given: Input, message: Message | None) -> list[Effect]:
    if isinstance(given, Received):
        assert message is not None
        return peer.receive(given.sender, message, given.at)
    return peer.start(given.at) if isinstance(given, Started) else peer.tick(given.at)


@dataclass
class ReplayOutcome:
    """What came of a replay."""

    steps: list[Step] = field(default_factory=list)  # replayed inputs of all peers, in the order of their times
    inputs: int = 0
    effects: int = 0
    # first difference of each peer that differs, in the order of their times
    differences: list[Difference] = field(default_factory=list)


def compare(recording: Recording) -> ReplayOutcome:
    """Replay all peers of a recording, and compare their effects with those recorded."""
    found = ReplayOutcome()
    for life in recording.lives:
        for step in replay(life):
            found.steps.append(step)
            found.inputs += 1
            found.effects += len(step.effects)
            if step.difference:
                name = _name(life, step)
                found.differences.append(Difference(life.name, step.number, step.at, name, step.difference))
    found.steps.sort(key=lambda step: step.at)
    found.differences.sort(key=lambda each: each.at)
    return found


def _name(life: Life, step: Step) -> str:
    given = life.inputs[step.number - 1]
    if isinstance(given, Received):
        return str(msgspec.msgpack.decode(given.message)[0])
    return "start" if isinstance(given, Started) else "timers"


# -- differences in words --------------------------------------------------------------------------------------------


def _fields(codec: Codec) -> Mapping[str, Sequence[str]]:
    """Names of the fields of all messages and events."""
    events = {str(kind.__struct_config__.tag): kind.__struct_fields__ for kind in declared()}
    return {**events, **{name: kind.__struct_fields__ for name, kind in codec.types.items()}}


def differs(recorded: list[list[Any]], replayed: list[list[Any]], fields: Mapping[str, Sequence[str]]) -> str:
    """The first difference of two lists of effects, in words; empty if there is none."""
    for number, (one, other) in enumerate(zip(recorded, replayed, strict=False), start=1):
        if one == other:
            continue
        what, same = _title(one), _title(one) == _title(other)
        if not same:
            return f"effect {number}: recorded {what}, replayed {_title(other)}"
        names = ("instruction",) if one[0] == INSTRUCT else fields.get(one[-1][0], ())
        return f"effect {number}, {what}: {_first_difference(one[-1], other[-1], names)}"
    if len(recorded) > len(replayed):
        return f"effect {len(replayed) + 1}: recorded {_title(recorded[len(replayed)])}, replayed none"
    if len(replayed) > len(recorded):
        return f"effect {len(recorded) + 1}: recorded none, replayed {_title(replayed[len(recorded)])}"
    return ""


def _title(effect: list[Any]) -> str:
    if effect[0] == SEND:
        return f"{effect[2][0]} to {effect[1]}"
    return f"instruction {effect[1]}" if effect[0] == INSTRUCT else f"event {effect[1][0]}"


def _first_difference(one: Any, other: Any, names: Sequence[str]) -> str:
    """Path of the first part in which two values differ, and both parts."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                name = names[number - 1] if 0 < number <= len(names) else str(number)
                return f"{name}: {_first_difference(a, b, ())}"
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other or one[key] != other[key]:
                return f"{key}: {_first_difference(one.get(key, 'absent'), other.get(key, 'absent'), ())}"
    return f"recorded {_brief(one)}, replayed {_brief(other)}"


def _brief(value: Any) -> str:
    text = counted(len(value), "byte") if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
