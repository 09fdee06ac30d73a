"""The kernel: a peer as a value that takes messages and the time and gives effects and timers.

Theory of operation
-------------------
A :class:`Peer` is a set of :class:`Protocol` objects that share one address, one seeded random generator, one heap of
timers and one list of effects. A driver calls ``receive(sender, message, now)`` when a message has arrived and
``tick(now)`` when ``next_timer`` is due, and carries out what these return:

* :class:`Send`: send a message to another peer; it may be lost, duplicated, delayed or reordered.
* :class:`Instruct`: do something on this machine that a protocol may not do itself (deploy an operator, start a
  source). The driver reports the result as a message.
* :class:`Record`: append an event to the journal.

Nothing here or in a protocol reads a clock, opens a socket or draws from global randomness; ``peer.now`` is the time
that the driver passed in. A message from a peer to itself never reaches the driver: it is handled at the end of the
same call.

A driver speaks to its own peer by messages, too (:class:`DriverMessage`, from the sender :data:`DRIVER`), and never
calls into a protocol. So what a peer is made from, and the calls of ``start``, ``receive`` and ``tick``, are all that
decides what it does: a run that was recorded is replayed with the same effects (:mod:`synergy_nb.recording`). For that
no protocol may depend on the order of a set or on hashes of texts, which differ from process to process.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeAlias, Union

import msgspec

from synergy_nb.control.identity import peer_id_of
from synergy_nb.control.shedding import Allowance, Allowances, Sheds
from synergy_nb.errors import SynergyError
from synergy_nb.events import Event, FloodShed, MessageRefused

__all__ = [
    "DRIVER",
    "Codec",
    "DriverMessage",
    "Effect",
    "Instruct",
    "MalformedMessage",
    "Message",
    "Peer",
    "Protocol",
    "Record",
    "Send",
    "Timer",
    "UnknownMessage",
    "key_of",
]

P = ParamSpec("P")
# errors that msgspec raises for damaged bytes; the last two: text that is not UTF-8, and endless nesting
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
DRIVER: Final = "driver"  # sender of what a peer's own driver sends to it; no peer has such an address
KEY_DIGITS: Final = 32  # 128 bits in base 16 (section 2.3.3: keys by SHA-1; Pastry's ids have 128 bits)


@lru_cache(maxsize=1 << 15)
def key_of(name: str) -> str:
    """The 128-bit key of a peer's address, an operator's or a stream's name: the leading 32 hex digits of its SHA-1.

    >>> key_of("peer-1")
    '168971365491a27a2cc8f93f90b90788'
    """
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:KEY_DIGITS]


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Base of all messages. Subclasses are typed values; the class name is the name on the wire.

    ``gc=False``: messages never refer to themselves, so the collector need not look at them. ``routed``: whether peers
    may hand it on for others; then its receiver has only the word of the last of them for who has sent it.
    """

    routed: ClassVar[bool] = False


class DriverMessage(Message, frozen=True, gc=False):
    """Base of the messages that only a peer's own driver sends to it: commands of its users, and reports.

    Codecs of links do not know them, and a peer refuses them from any sender but :data:`DRIVER`.
    """


class Send(msgspec.Struct, frozen=True, gc=False):
    """Effect: send ``message`` to the peer at address ``to``."""

    to: str
    message: Message


class Instruct(msgspec.Struct, frozen=True, gc=False):
    """Effect: have the driver carry out ``instruction`` (such as a deployment) on this peer's machine."""

    instruction: msgspec.Struct


class Record(msgspec.Struct, frozen=True, gc=False):
    """Effect: append ``event`` to the journal."""

    event: Event


Effect: TypeAlias = Send | Instruct | Record


class UnknownMessage(SynergyError, ValueError):
    """No protocol of this peer handles messages of this name."""


class MalformedMessage(SynergyError, ValueError):
    """The fields of a message do not have the declared types."""


class Codec:
    """Encodes messages as bytes, and decodes them, without pickle.

    Parameters
    ----------
    types
        All message types that may arrive.

    Notes
    -----
    A field annotated ``Any`` and named ``payload`` may hold another message of the same codec (a routed message).
    """

    def __init__(self, types: Sequence[type[Message]]) -> None:
        names = [kind.__name__ for kind in types]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"types: {', '.join(sorted(doubled))}; expected types with different names")
        self._types = {kind.__name__: kind for kind in types}
        self._union: Any = Union[tuple(types)]  # noqa: UP007 - built at run time
        self._decoder = msgspec.msgpack.Decoder(self._union)
        self._encoder = msgspec.msgpack.Encoder()

    @property
    def types(self) -> Mapping[str, type[Message]]:
        """The message types by name."""
        return self._types

    def encode(self, message: Message) -> bytes:
        """MessagePack bytes of ``message``: an array of the type's name and its fields."""
        return self._encoder.encode(message)

    def decode(self, data: bytes | memoryview) -> Message:
        """The message in ``data``.

        Raises
        ------
        UnknownMessage
            If no protocol knows the name of the message.
        MalformedMessage
            If the bytes or the fields do not have the declared types; the text names the message and the field.
        """
        try:
            message: Message = self._decoder.decode(data)
            payload = getattr(message, "payload", None)
            if payload is not None and not isinstance(payload, Message):
                message = msgspec.structs.replace(message, payload=msgspec.convert(payload, self._union))
            return message
        except UNDECODABLE as error:
            raise self._refusal(data, error) from None

    def _refusal(self, data: bytes | memoryview, error: Exception) -> ValueError:
        try:
            raw = msgspec.msgpack.decode(data)
        except UNDECODABLE:
            return MalformedMessage(f"not MessagePack: {error}")
        name = raw[0] if isinstance(raw, list) and raw else raw
        while isinstance(name, str) and name in self._types and "payload" in self._types[name].__struct_fields__:
            inner = raw[1 + self._types[name].__struct_fields__.index("payload")] if len(raw) > 1 else None
            if not (isinstance(inner, list) and inner and isinstance(inner[0], str)):
                break
            raw, name = inner, inner[0]
        if not isinstance(name, str) or name not in self._types:
            return UnknownMessage(f"message {str(name)[:80]!r}; known: {', '.join(sorted(self._types))}")
        return MalformedMessage(f"message {name!r}: {error}")


class Timer:
    """A pending call of a function; ``cancel()`` prevents it."""

    __slots__ = ("arguments", "callback", "when")

    def __init__(self, when: float, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.when = when
        self.callback: Callable[..., None] | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        """Prevent the call; no effect if it has already been made."""
        self.callback = None


class Protocol:
    """Base of the protocols of a peer: state, and handlers of messages.

    A subclass sets ``handlers`` in its ``__init__``: message type to bound method ``(sender, message) -> None``.
    ``payloads`` are types that only arrive inside its other messages. Protocols call each other only through objects
    that their constructors received.
    """

    handlers: Mapping[type[Message], Callable[[str, Any], None]]
    payloads: tuple[type[Message], ...] = ()
    # what a sender may send of messages that cost much; more of it is shed
    allowances: Mapping[type[Message], Allowance] = {}

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.handlers = {}

    def start(self) -> None:
        """Start the protocol; called once, with ``peer.now`` set, when the peer starts."""


class Peer:
    """A peer: its protocols, its heap of timers, and the effects of the present call.

    Parameters
    ----------
    address
        Address at which other peers reach it, and its identity. Its key on the ring follows from its id.
    seed
        Seed of its random generator.

    Attributes
    ----------
    timers : list
        Heap of (due time in seconds, sequence number, timer), including cancelled timers. Drivers use
        :attr:`next_timer`, and read this list only to see whether it is empty.

    Examples
    --------
    >>> class Hello(Message):
    ...     text: str
    >>> class Echo(Protocol):
    ...     def __init__(self, peer):
    ...         super().__init__(peer)
    ...         self.handlers = {Hello: lambda sender, message: peer.send(sender, message)}
    >>> peer = Peer("b", seed=1)
    >>> _ = peer.add(Echo(peer))
    >>> peer.receive("a", Hello("hi"), now=0.0)
    [Send(to='a', message=Hello(text='hi'))]
    """

    __slots__ = (
        "_effects",
        "_handlers",
        "_local",
        "_sequence",
        "address",
        "key",
        "now",
        "protocols",
        "rng",
        "sheds",
        "timers",
    )

    def __init__(self, address: str, seed: int) -> None:
        self.address = address
        self.key = key_of(peer_id_of(address))
        self.rng = random.Random(seed)
        self.now = 0.0
        self.protocols: list[Protocol] = []
        self.sheds = Sheds()
        self._handlers: dict[type[Message], Callable[[str, Any], None]] = {}
        self.timers: list[tuple[float, int, Timer]] = []
        self._sequence = 0
        self._effects: list[Effect] = []
        self._local: deque[Message] = deque()

    # -- for drivers ---------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        """Start all protocols in the order in which they were added."""
        self._begin(now)
        for protocol in self.protocols:
            protocol.start()
        return self._end()

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Handle one message; if no protocol knows its type, refuse it and record its name in the journal."""
        if now > self.now:  # _begin and _end written out: this is the simulator's innermost call
            self.now = now
        effects: list[Effect] = []
        self._effects = effects
        handler = self._handlers.get(type(message))
        if handler is None:
            self.record(MessageRefused, sender, message=type(message).__name__, reason="unknown message")
        else:
            handler(sender, message)
        if self._local:
            self._end()
        return effects

    def tick(self, now: float) -> list[Effect]:
        """Call the functions of all timers that are due."""
        self._begin(now)
        timers = self.timers
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback(*timer.arguments)
        return self._end()

    def call(self, now: float, function: Callable[..., Any], *arguments: Any) -> list[Effect]:
        """Call a method of a protocol, as another protocol of the peer does: for tests only. Drivers send messages."""
        self._begin(now)
        function(*arguments)
        return self._end()

    @property
    def next_timer(self) -> float | None:
        """Time at which ``tick`` is due, seconds; None if no timer is set."""
        timers = self.timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    @property
    def message_types(self) -> tuple[type[Message], ...]:
        """All message types that this peer understands from other peers."""
        own = (kind for kind in self._handlers if not issubclass(kind, DriverMessage))
        return (*own, *(kind for protocol in self.protocols for kind in protocol.payloads))

    @property
    def driver_message_types(self) -> tuple[type[Message], ...]:
        """All message types that this peer understands from its own driver."""
        return tuple(kind for kind in self._handlers if issubclass(kind, DriverMessage))

    def guard(self, rules: Mapping[type[Message], Callable[[str, Any], str]]) -> None:
        """Refuse messages that their senders may not send: functions of sender and message return the reason, or "".

        What this peer sends to itself is not asked about.
        """
        for kind, rule in rules.items():
            self._handlers[kind] = _spoken(self, rule, self._handlers[kind])

    # -- for protocols -------------------------------------------------------------------------------------------

    def add(self, protocol: Protocol) -> Protocol:
        """Add a protocol; each message type may belong to one protocol only."""
        for kind, handler in protocol.handlers.items():
            if kind in self._handlers:
                raise ValueError(f"handlers: {kind.__name__} belongs to another protocol; expected one for each")
            if issubclass(kind, DriverMessage):
                self._handlers[kind] = _from_driver(self, handler)
            elif kind in protocol.allowances:
                self._handlers[kind] = _allowed(self, handler, Allowances(protocol.allowances[kind]))
            else:
                self._handlers[kind] = handler
        self.protocols.append(protocol)
        return protocol

    def send(self, to: str, message: Message) -> None:
        """Send ``message`` to the peer at ``to``; a message to this peer is handled at the end of the current call."""
        if to == self.address:
            # not handled at once: its handler would see half of what the present one changes
            self._local.append(message)
        else:
            self._effects.append(Send(to, message))

    def deliver(self, sender: str, message: Message) -> None:
        """Handle at once a message that another protocol has unwrapped (a routed message)."""
        handler = self._handlers.get(type(message))
        if handler is None:
            self.record(MessageRefused, sender, message=type(message).__name__, reason="unknown message")
        else:
            handler(sender, message)

    def instruct(self, instruction: msgspec.Struct) -> None:
        """Instruct the driver to do something on this machine."""
        self._effects.append(Instruct(instruction))

    def record(self, kind: Callable[Concatenate[float, str, P], Event], /, *fields: P.args, **named: P.kwargs) -> None:
        """Record an event in the journal, given its type, subject and own fields; time and peer are added."""
        self._effects.append(Record(kind(self.now, self.address, *fields, **named)))

    def shed(self, sender: str, what: str, limit: str) -> None:
        """Count what is not done for a sender that is beyond its ``limit``, and record it now and then."""
        number = self.sheds.note(sender, what, self.now)
        if number:
            self.record(FloodShed, sender, what=what, shed=number, limit=limit)

    def after(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        """Call ``callback(*arguments)`` in ``delay`` seconds; timers due together run in the order of setting."""
        timer = Timer(self.now + delay, callback, arguments)
        # ties in time are broken by it: timers run in the order in which they were set, and runs can be repeated
        # (test_timers_fire_in_order_and_ties_as_they_were_set)
        self._sequence += 1
        heapq.heappush(self.timers, (timer.when, self._sequence, timer))
        return timer

    # -- inside --------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        if now > self.now:  # a driver's clock may step back; a peer's time does not
            self.now = now
        self._effects = []

    def _end(self) -> list[Effect]:
        local = self._local
        while local:
            # what the handler sends to this peer itself comes last in the same queue
            message = local.popleft()
            self.deliver(self.address, message)
        return self._effects


def _spoken(peer: Peer, rule: Callable[[str, Any], str], handler: Callable[[str, Any], None]) -> Callable[..., None]:
    """Wrap a handler so that it refuses, and records, what a sender may not say."""

    def handle(sender: str, message: Message) -> None:
        reason = "" if sender == peer.address else rule(sender, message)
        if reason:
            peer.record(MessageRefused, sender, message=type(message).__name__, reason=reason)
        else:
            handler(sender, message)

    return handle


def _from_driver(peer: Peer, handler: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """Wrap a handler so that it refuses, and records, what another sender than the peer's driver has sent."""

    def handle(sender: str, message: Message) -> None:
        if sender == DRIVER:
            handler(sender, message)
        else:
            peer.record(MessageRefused, sender, message=type(message).__name__, reason="only its driver may send it")

    return handle


def _allowed(peer: Peer, handler: Callable[[str, Any], None], allowances: Allowances) -> Callable[[str, Any], None]:
    """Wrap a handler so that it sheds what a sender sends beyond its allowance; the peer itself has none."""
    limit = f"{allowances.allowance.burst:g} at once and {allowances.allowance.rate:g} a second"

    def handle(sender: str, message: Message) -> None:
        if sender == peer.address or allowances.take(sender, peer.now):
            handler(sender, message)
        else:
            peer.shed(sender, f"messages {type(message).__name__}", limit)

    return handle
