"""Simulated peers: when what arrives and when they wake up, and what faults do to it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from synergy_nb.control.cuts import Cut
from synergy_nb.control.peer import DriverMessage, Message, Peer, Protocol, Timer
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform


class Count(Message, frozen=True):
    number: int


class Told(DriverMessage, frozen=True):
    number: int


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


def world(seed: int, *, codec: bool = False) -> tuple[SimulatedPeers, dict[str, Pinger]]:
    simulation = SimulatedPeers(seed, Uniform(0.1, 0.5, seed), codec=codec)
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


# -- waking up -------------------------------------------------------------------------------------------------------


class Sleeper(Protocol):
    """Records at which times it wakes up, and sets timers when it is told to."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.woken: list[tuple[float, str]] = []
        self.heard: list[tuple[float, int]] = []
        self.once_heard: Callable[[], None] = lambda: None  # called with each message
        self.handlers = {Count: self.count, Told: self.count}

    def count(self, sender: str, message: Count | Told) -> None:
        self.heard.append((self.peer.now, message.number))
        self.once_heard()

    def set(self, delay: float, name: str, then: Callable[[], None] = lambda: None) -> None:
        def wake() -> None:
            self.woken.append((self.peer.now, name))
            then()

        self.peer.after(delay, wake)


def sleepers(*names: str, codec: bool = False) -> tuple[SimulatedPeers, list[Sleeper]]:
    simulation = SimulatedPeers(1, Uniform(0.5, 0.5), codec=codec)
    found = []
    for name in names:
        peer = Peer(name, seed=1)
        found.append(Sleeper(peer))
        peer.add(found[-1])
        simulation.add(peer)
    return simulation, found


@pytest.mark.parametrize("codec", [False, True], ids=["as they are", "encoded"])
def test_a_peer_wakes_up_at_each_of_its_timers_and_at_no_other_time(codec: bool) -> None:
    simulation, (sleeper,) = sleepers("a", codec=codec)
    simulation.call("a", sleeper.set, 2.0, "second", lambda: sleeper.set(1.0, "fourth"))
    simulation.call("a", sleeper.set, 1.0, "first")
    simulation.call("a", sleeper.set, 2.5, "third")
    assert simulation.next_event == 1.0
    assert simulation.run(until=1.5) == 1
    assert (simulation.now, simulation.last_event) == (1.5, 1.0)
    assert simulation.run(until=9.0) == 3, "the wake-up that was planned before an earlier one is none any more"
    assert sleeper.woken == [(1.0, "first"), (2.0, "second"), (2.5, "third"), (3.0, "fourth")]
    assert (simulation.now, simulation.last_event, simulation.events) == (9.0, 3.0, 4)


@pytest.mark.parametrize("codec", [False, True], ids=["as they are", "encoded"])
def test_a_message_that_sets_an_earlier_timer_wakes_its_peer_earlier(codec: bool) -> None:
    simulation, (one, other) = sleepers("a", "b", codec=codec)
    other.once_heard = lambda: other.set(0.25, "early")
    simulation.call("b", other.set, 3.0, "late")
    simulation.call("a", one.set, 1.0, "sends", lambda: one.peer.send("b", Count(1)))
    simulation.run(until=9.0)
    assert other.woken == [(1.75, "early"), (3.0, "late")]


def test_a_cancelled_timer_wakes_nobody() -> None:
    simulation, (sleeper,) = sleepers("a")
    timers: list[Timer] = []
    simulation.call("a", lambda: timers.append(sleeper.peer.after(2.0, sleeper.woken.append, (0.0, "never"))))
    simulation.call("a", sleeper.set, 1.0, "first", timers[0].cancel)
    assert simulation.run(until=9.0) == 1
    assert sleeper.woken == [(1.0, "first")]


@pytest.mark.parametrize("codec", [False, True], ids=["as they are", "encoded"])
def test_what_is_overdue_when_a_peer_stops_hanging_happens_then_and_in_its_order(codec: bool) -> None:
    simulation, (one, hung) = sleepers("a", "b", codec=codec)
    simulation.call("b", hung.set, 1.0, "first", lambda: hung.peer.send("a", Count(7)))
    simulation.call("b", hung.set, 6.0, "last")
    for number in range(3):
        simulation.call("a", one.peer.send, "b", Count(number))
        simulation.run(until=simulation.now + 0.1)
    simulation.hang("b", 4.7)
    simulation.report("b", Told(9))
    assert hung.heard == []
    simulation.run(until=9.0)
    assert [number for _, number in hung.heard] == [9, 0, 1, 2]
    assert {when for when, _ in hung.heard} == {5.0}
    assert hung.woken == [(5.0, "first"), (6.0, "last")]
    assert one.heard == [(5.5, 7)], "it is sent when it happens, not when it was due"
    simulation.report("b", Told(10))
    assert hung.heard[-1] == (9.0, 10), "it hangs no longer"


def test_a_run_ends_at_its_limit_or_when_it_is_told_to_and_goes_on_from_there() -> None:
    simulation, (sleeper,) = sleepers("a")
    for delay in (1.0, 2.0, 3.0, 4.0):
        simulation.call("a", sleeper.set, delay, str(delay))
    assert (simulation.run(until=9.0, limit=1), simulation.now) == (1, 1.0)
    assert (simulation.run(until=9.0, stop=lambda: len(sleeper.woken) == 3), simulation.now) == (2, 3.0)
    assert (simulation.run(until=3.0), simulation.now) == (0, 3.0)
    assert (simulation.run(until=2.0), simulation.now) == (0, 3.0), "time does not go back"
    assert (simulation.run(until=9.0), simulation.now, simulation.events) == (1, 9.0, 4)


def test_a_fault_that_is_set_while_a_run_goes_on_holds_from_then_on() -> None:
    simulation, pingers = world(1)

    def lose() -> bool:
        simulation.loss = 1.0
        return False

    assert simulation.run(until=20.0, stop=lose) == 2, "what was sent before arrives"
    assert sum(len(pinger.heard) for pinger in pingers.values()) == 2


def test_what_a_partition_holds_up_is_lost_with_the_next_one_and_arrives_otherwise() -> None:
    for again in (False, True):
        simulation, (one, other) = sleepers("a", "b")
        simulation.partition([["a"]], Cut.DELAY)
        simulation.call("a", one.peer.send, "b", Count(1))
        simulation.run(until=1.0)
        if again:
            simulation.partition([["b"]], Cut.DELAY)
        simulation.heal()
        simulation.run(until=2.0)
        assert other.heard == ([] if again else [(1.5, 1)])
        simulation.heal()
        simulation.run(until=3.0)
        assert len(other.heard) == (not again), "once"


def test_a_peer_that_starts_again_has_no_timers_of_the_one_that_crashed() -> None:
    simulation, (sleeper,) = sleepers("a")
    simulation.call("a", sleeper.set, 1.0, "before")
    simulation.hang("a", 5.0)
    anew = Peer("a", seed=2)
    after = Sleeper(anew)
    anew.add(after)
    simulation.restart(anew)
    simulation.call("a", after.set, 2.0, "after")
    assert simulation.run(until=9.0) == 1
    assert sleeper.woken == []
    assert after.woken == [(2.0, "after")], "nor does it hang"


def test_a_sender_hears_that_nobody_listens_any_more_unless_they_are_parted() -> None:
    simulation, (one, _) = sleepers("a", "b")
    told: list[tuple[float, str, str]] = []
    simulation.on_refused.append(lambda sender, to: told.append((simulation.now, sender, to)))
    simulation.crash("b")
    simulation.call("a", one.peer.send, "b", Count(1))
    simulation.run(until=1.0)
    assert told == [(0.5, "a", "b")]
    simulation.call("a", one.peer.send, "b", Count(1))
    simulation.partition([["b"]])
    simulation.run(until=2.0)
    assert len(told) == 1


def test_messages_arrive_alike_whether_or_not_they_are_encoded_on_their_way() -> None:
    def heard(codec: bool) -> list[list[float]]:
        simulation, pingers = world(5, codec=codec)
        simulation.run(until=20.0)
        return [pinger.heard for pinger in pingers.values()] + [[float(simulation.messages)]]

    assert heard(False) == heard(True)


def test_the_collector_is_as_it_was_after_a_run() -> None:
    simulation, (sleeper,) = sleepers("a")
    states = []
    simulation.call("a", sleeper.set, 1.0, "first", lambda: states.append(gc.isenabled()))
    before = gc.isenabled()
    gc.enable()
    try:
        simulation.run(until=2.0)
        states.append(gc.isenabled())
        gc.disable()
        simulation.run(until=3.0)
        states.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [False, True, False]
