"""The kernel: effects, timers, and messages that are refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.cuts import Cut
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
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform


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


def test_a_message_to_oneself_is_handled_in_the_same_call() -> None:
    assert peer()[0].receive("b", Count(0), 1.0) == []


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


# -- the simulator ---------------------------------------------------------------------------------------------------


class Pinger(Protocol):
    """Sends itself from peer to peer forever."""

    def __init__(self, peer: Peer, others: list[str]) -> None:
        super().__init__(peer)
        self.others = others
        self.heard: list[float] = []
        self.handlers = {Count: self.count}

    def count(self, sender: str, message: Count) -> None:
        self.heard.append(self.peer.now)
        self.peer.send(self.others[self.peer.rng.randrange(len(self.others))], Count(message.number + 1))


def world(seed: int) -> tuple[SimulatedPeers, dict[str, Pinger]]:
    simulation = SimulatedPeers(seed, Uniform(0.1, 0.5, seed))
    names = [f"p{number}" for number in range(5)]
    pingers = {}
    for number, name in enumerate(names):
        made = Peer(name, seed=number)
        pingers[name] = Pinger(made, [other for other in names if other != name])
        made.add(pingers[name])
        simulation.add(made)
    simulation.call("p0", simulation.peers["p0"].send, "p1", Count(0))
    return simulation, pingers


def test_the_same_seed_gives_the_same_run_with_every_fault() -> None:
    def run() -> list[list[float]]:
        simulation, pingers = world(3)
        simulation.loss, simulation.duplication, simulation.reordering = 0.01, 0.02, 0.3
        simulation.hang("p2", 3.0)
        simulation.run(until=40.0)
        return [pinger.heard for pinger in pingers.values()]

    assert run() == run()


def test_nothing_reaches_a_crashed_peer_and_all_of_it_a_hung_one() -> None:
    simulation, pingers = world(1)
    simulation.hang("p1", 2.0)
    simulation.run(until=1.9)
    assert pingers["p1"].heard == []
    simulation.run(until=2.1)
    assert pingers["p1"].heard == [2.0]
    for name in pingers:
        simulation.crash(name)
    assert simulation.run(until=100.0) == 0


def test_a_partition_separates_and_heals() -> None:
    simulation, pingers = world(1)
    simulation.partition([["p1"]])
    simulation.run(until=5.0)
    sent = len(pingers["p1"].heard)
    simulation.heal()
    simulation.call("p0", simulation.peers["p0"].send, "p1", Count(0))
    simulation.run(until=6.0)
    assert len(pingers["p1"].heard) > sent


@pytest.mark.parametrize("how", list(Cut))
def test_a_partition_resets_delays_or_loses(how: Cut) -> None:
    simulation, pingers = world(1)
    told: list[tuple[str, str]] = []
    simulation.on_link_failed.append(lambda address, other: told.append((address, other)))
    simulation.run(until=0.05)
    for name, pinger in pingers.items():
        pinger.others = ["p0" if name == "p1" else "p1"]
    simulation.partition([["p1"]], how)
    simulation.run(until=5.0)
    before = sum(len(pinger.heard) for pinger in pingers.values())
    simulation.heal()
    simulation.run(until=6.0)
    assert (sum(len(pinger.heard) for pinger in pingers.values()) > before) == (how is Cut.DELAY)
    ends = [(one, other) for one in pingers for other in pingers if (one == "p1") != (other == "p1")]
    assert sorted(told) == (sorted(ends) if how is Cut.RESET else [])


def test_everything_is_lost_at_loss_one_and_doubled_at_duplication_one() -> None:
    simulation, pingers = world(1)
    simulation.run(until=0.05)
    simulation.loss = 1.0
    simulation.run(until=10.0)
    assert sum(len(pinger.heard) for pinger in pingers.values()) == 1
    again, doubled = world(1)
    again.duplication = 1.0
    again.run(until=0.9, limit=60)
    assert sum(len(pinger.heard) for pinger in doubled.values()) > 3


def test_delays_are_symmetric_and_within_bounds() -> None:
    network = Uniform(0.1, 0.2, seed=4)
    assert network.delay("a", "b") == network.delay("b", "a")
    assert all(0.1 <= network.delay("a", f"p{number}") <= 0.2 for number in range(100))
    with pytest.raises(ValueError, match="expected 0 <= low <= high"):
        Uniform(0.2, 0.1)


def test_keys_have_32_hexadecimal_digits() -> None:
    assert len(key_of("x")) == 32
    assert set(key_of("x")) <= set("0123456789abcdef")
