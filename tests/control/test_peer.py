"""The kernel: effects, timers, and messages that are refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.peer import (
    Codec,
    MalformedMessage,
    Message,
    Peer,
    Protocol,
    Record,
    Send,
    UnknownMessage,
    key_of,
)


class Count(Message, frozen=True):
    number: int


class Wrapped(Message, frozen=True):
    key: str
    payload: Any


class Counter(Protocol):
    """Counts up to three with whoever begins, and keeps what its timers were told."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.told: list[str] = []
        self.handlers = {Count: self.count}

    def count(self, sender: str, message: Count) -> None:
        if message.number < 3:
            self.peer.send(sender, Count(message.number + 1))


def peer() -> tuple[Peer, Counter]:
    made = Peer("b", seed=1)
    protocol = Counter(made)
    made.add(protocol)
    return made, protocol


def test_a_message_gives_effects_and_touches_nothing_else() -> None:
    assert peer()[0].receive("a", Count(0), 1.0) == [Send("a", Count(1))]


def test_messages_to_oneself_are_handled_in_their_order_once_the_present_one_is_and_in_the_same_call() -> None:
    made, protocol = Peer("b", seed=1), Protocol(Peer("b", seed=1))
    handled: list[object] = []

    def split(sender: str, message: Wrapped) -> None:
        made.send("b", Count(1))
        made.send("b", Count(2))
        handled.append(message)

    protocol.handlers = {Wrapped: split, Count: lambda sender, message: handled.append((sender, message))}
    made.add(protocol)
    expected = [Wrapped("k", None), ("b", Count(1)), ("b", Count(2))]
    assert made.receive("a", Wrapped("k", None), 1.0) == []
    assert handled == expected
    made.call(2.0, made.send, "b", Wrapped("k", None))
    assert handled == expected * 2
    made.call(3.0, made.after, 1.0, made.send, "b", Count(3))
    made.tick(4.0)
    assert handled[-1] == ("b", Count(3))


def test_a_message_of_an_unknown_type_is_refused_by_name() -> None:
    effects = peer()[0].receive("a", Wrapped("k", None), 1.0)
    assert [type(effect) for effect in effects] == [Record]
    event = effects[0].event  # type: ignore[union-attr]
    assert (event.kind, event.subject, event.detail["message"]) == ("message_refused", "a", "Wrapped")


def test_timers_fire_in_order_and_ties_as_they_were_set() -> None:
    made, protocol = peer()
    made.call(0.0, made.after, 2.0, protocol.told.append, "late")
    made.call(0.0, made.after, 1.0, protocol.told.append, "first")
    made.call(0.0, made.after, 1.0, protocol.told.append, "second")
    assert made.next_timer == 1.0
    made.tick(1.0)
    assert protocol.told == ["first", "second"]
    made.tick(5.0)
    assert protocol.told == ["first", "second", "late"]
    assert made.next_timer is None


def test_a_cancelled_timer_never_fires() -> None:
    made, protocol = peer()
    timers: list[Any] = []
    made.call(0.0, lambda: timers.append(made.after(1.0, protocol.told.append, "never")))
    timers[0].cancel()
    assert made.next_timer is None
    made.tick(2.0)
    assert protocol.told == []


def test_cancelled_timers_before_a_pending_one_do_not_hide_it() -> None:
    made, protocol = peer()
    timers: list[Any] = []
    for due in (1.0, 2.0, 3.0):
        made.call(0.0, lambda due=due: timers.append(made.after(due, protocol.told.append, f"{due}")))
    timers[0].cancel()
    timers[1].cancel()
    assert made.next_timer == 3.0
    made.tick(3.0)
    assert protocol.told == ["3.0"]


def test_a_timer_that_is_set_for_now_by_one_that_is_due_fires_in_the_same_turn_and_a_later_one_does_not() -> None:
    made, protocol = peer()

    def again() -> None:
        made.after(0.0, protocol.told.append, "at once")
        made.after(0.5, protocol.told.append, "later")

    made.call(1.0, made.after, 1.0, again)
    assert made.next_timer == 2.0
    made.tick(2.25)
    assert protocol.told == ["at once"]
    assert made.next_timer == 2.75, "counted from the time of the turn, not from that at which the timer was due"


def test_starting_a_peer_starts_its_protocols_at_that_time_in_the_order_in_which_they_were_added() -> None:
    made = Peer("b", seed=1)
    started: list[tuple[str, float]] = []

    class Starting(Protocol):
        def __init__(self, name: str) -> None:
            super().__init__(made)
            self.name = name

        def start(self) -> None:
            started.append((self.name, made.now))
            made.send("a", Count(0))

    made.add(Starting("one"))
    made.add(Starting("two"))
    assert made.start(3.0) == [Send("a", Count(0))] * 2
    assert started == [("one", 3.0), ("two", 3.0)]


def test_the_time_of_a_peer_does_not_step_back() -> None:
    made, _ = peer()
    made.receive("a", Count(0), 5.0)
    made.receive("a", Count(0), 4.0)
    assert made.now == 5.0


def test_a_message_belongs_to_one_protocol() -> None:
    made, _ = peer()
    with pytest.raises(ValueError, match="handlers: Count belongs to another protocol; expected one"):
        made.add(Counter(made))


# -- the codec -------------------------------------------------------------------------------------------------------


def codec() -> Codec:
    return Codec([Count, Wrapped])


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=50))
def test_an_encoded_message_is_decoded_to_an_equal_one(number: int, key: str) -> None:
    message = Wrapped(key, Count(number))
    assert codec().decode(codec().encode(message)) == message


def test_an_unknown_message_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownMessage, match="message 'Explode'; known: Count, Wrapped"):
        codec().decode(msgspec.msgpack.encode(["Explode", 1]))


def test_an_unknown_message_inside_another_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownMessage, match="message 'Explode'"):
        codec().decode(msgspec.msgpack.encode(["Wrapped", "k", ["Explode", 1]]))


def test_a_field_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(MalformedMessage, match=r"message 'Count': Expected `int`, got `str`"):
        codec().decode(msgspec.msgpack.encode(["Count", "three"]))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with suppress(UnknownMessage, MalformedMessage):
        codec().decode(data)


@pytest.mark.slow
@given(st.data())
def test_damaged_messages_of_real_peers_are_refused_and_nothing_else(data: st.DataObject) -> None:
    """Flip bytes of a valid probe: it decodes to something of the declared types, or is refused by name."""
    synergy = SynergyPeer("a", PeerConfig(name="a"))
    real = Codec(synergy.peer.message_types)
    kind = data.draw(st.sampled_from(sorted(synergy.peer.message_types, key=lambda kind: kind.__name__)))
    encoded = bytearray(msgspec.msgpack.encode([kind.__name__, "x", 1, "y", [], {}, 2.0, 3]))
    for _ in range(data.draw(st.integers(0, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = real.decode(bytes(encoded))
    except (UnknownMessage, MalformedMessage):
        return
    synergy.peer.receive("b", message, 1.0)  # whatever it says, the peer goes on


def test_two_types_of_one_name_are_refused() -> None:
    other = type("Count", (Message,), {}, frozen=True)
    with pytest.raises(ValueError, match="types: Count; expected types with different names"):
        Codec([Count, other])


def test_keys_have_32_hexadecimal_digits() -> None:
    assert len(key_of("x")) == 32
    assert set(key_of("x")) <= set("0123456789abcdef")
