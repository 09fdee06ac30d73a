"""Many peers form one ring: waves that double, bounded queues of messages, and progress."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from math import ceil, log2

import pytest

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.driver_messages import JoinRing
from synergy_nb.events import REFUSED
from synergy_nb.overlay.join_waves import JoinWaves
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.runtime.client.progress import Progress, ProgressDeadline
from synergy_nb.runtime.process.requests import ClusterError, FindHosts, HostsFound, JoinCommand, Joined, pack, unpack
from synergy_nb.runtime.process.ring_joining import form_ring
from synergy_nb.runtime.transport.wire import LinkDown
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform

HOP = 0.01  # seconds that a message takes at most


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


# -- waves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 8, 63, 64, 65, 1000])
def test_waves_double_and_no_member_is_asked_by_two_newcomers_of_a_wave(count: int) -> None:
    waves = JoinWaves(names(count))
    number = 0
    while not waves.over:
        wave = waves.next()
        number += 1
        contacts = list(wave.values())
        assert len(set(contacts)) == len(contacts)
        assert set(contacts) <= {None, *waves.members}
        waves.ended(wave, seconds=0.1)
    assert waves.members == names(count)
    assert number == 1 + ceil(log2(count))


def test_waves_shrink_where_peers_do_not_keep_up_and_grow_again() -> None:
    waves = JoinWaves(names(64), soon=1.0)
    sizes = []
    for seconds in [0.1, 0.1, 0.1, 0.1, 2.0, 2.0, 0.1, 0.1]:
        wave = waves.next()
        sizes.append(len(wave))
        waves.ended(wave, seconds)
    assert sizes == [1, 1, 2, 4, 8, 4, 2, 4]


def test_a_peer_that_did_not_join_tries_again_through_another_member() -> None:
    waves = JoinWaves(names(4))
    waves.ended(waves.next(), 0.1)
    waves.ended(waves.next(), 0.1)
    first = waves.next()
    assert first == {"p2": "p0", "p3": "p1"}
    waves.ended(["p3"], 0.1)
    assert waves.missing == ("p2",)
    again = waves.next()
    assert list(again) == ["p2"]
    assert again["p2"] != first["p2"]
    waves.ended([], 0.1)
    assert waves.next()["p2"] != again["p2"]
    waves.ended(["p2"], 0.1)
    assert waves.over


def test_a_ring_is_begun_by_the_next_peer_if_the_first_does_not_answer() -> None:
    waves = JoinWaves(names(2))
    assert waves.next() == {"p0": None}
    waves.ended([], 0.1)
    assert waves.next() == {"p1": None}
    waves.ended(["p1"], 0.1)
    assert waves.next() == {"p0": "p1"}


class Ring:
    """Whole peers that join in waves in virtual time: a wave ends when all of it are in the ring and registered."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.simulation = SimulatedPeers(seed, Uniform(HOP / 4, HOP, seed))
        self.peers = {
            name: SynergyPeer(name, PeerConfig(name=name, seed=number)) for number, name in enumerate(names(count))
        }
        for peer in self.peers.values():
            self.simulation.add(peer.peer)
        for name in self.peers:
            self.simulation.start(name)
        self.waves = 0
        waves = JoinWaves(list(self.peers))
        while not waves.over:
            wave = waves.next()
            for name, contact in wave.items():
                self.simulation.report(name, JoinRing(contact))
            began = self.simulation.now
            self.wait(wave)
            waves.ended(wave, self.simulation.now - began)
            self.waves += 1

    def wait(self, wave: dict[str, str | None]) -> None:
        for _ in range(1000):
            self.simulation.run(until=self.simulation.now + HOP / 4)
            peers = [self.peers[name] for name in wave]
            if all(peer.pastry.joined and peer.directory.confirmed for peer in peers):
                return
        raise AssertionError(f"{wave} have not joined after {self.simulation.now} s")


@pytest.mark.slow
def test_time_to_join_grows_with_the_logarithm_of_the_number_of_peers() -> None:
    found = {}
    for count in (8, 32, 128):
        ring = Ring(count)
        assert ring.waves == 1 + log2(count)
        found[count] = ring.simulation.now / (1 + log2(count)), ring.simulation.messages / count
    a_wave = [seconds for seconds, _ in found.values()]
    assert max(a_wave) < 12 * HOP  # a few messages one after the other, whatever the number of peers
    # messages a peer: by a few for each component with each doubling; what was handed on is confirmed with its host
    for smaller, larger in ((8, 32), (32, 128)):
        assert found[larger][1] - found[smaller][1] < 2 * 4 * len(ALL_COMPONENTS)


# -- how far it is, and when to give up ------------------------------------------------------------------------------


class Peers:
    """Peers that answer as real ones do, but for those that are down."""

    def __init__(self, count: int, down: tuple[str, ...] = (), why: str = "cut") -> None:
        self.why = why
        self.addresses = {name: f"tcp://{name}" for name in names(count)}
        self.down = {self.addresses[name] for name in down}
        self.joined: dict[str, str | None] = {}
        self.asked: Counter[str] = Counter()
        self.hidden: Iterator[str] = iter(())  # of each look-up, the peer that it does not find yet

    async def ask(self, address: str, operation: str, payload: bytes, timeout: float) -> bytes:
        self.asked[operation] += 1
        assert timeout > 0
        if address in self.down:
            raise LinkDown(f"{address}: {self.why}")
        if operation == "joined":
            return address.encode() if address in self.joined else b""
        if operation == "where":
            asked = unpack(payload, FindHosts)
            hidden = next(self.hidden, "")
            return pack(HostsFound({name: [host for host in self.joined if host != hidden] for name in asked.names}))
        contact = unpack(payload, JoinCommand).contact
        assert contact is None or contact in self.joined
        self.joined.setdefault(address, contact)
        return pack(Joined(["filter", "sink"]))


def test_joining_reports_progress_until_all_peers_are_in_the_ring_and_the_directory() -> None:
    peers = Peers(9)
    peers.hidden = iter(["tcp://p4"])
    told: list[Progress] = []
    asyncio.run(form_ring(peers.addresses, peers.ask, 10.0, told.append))
    ring = [each for each in told if each.what == "peers are in the ring"]
    assert [each.done for each in ring] == list(range(10))
    assert str(ring[-2]) == "8 of 9 peers are in the ring"
    assert ring[-2].missing == ("p8",)
    rest = told[len(ring) :]
    assert [str(each) for each in rest] == ["8 of 9 peers are in the directory", "9 of 9 peers are in the directory"]
    assert rest[0].missing == ("p4",)
    assert [contact for contact in peers.joined.values() if contact is None] == [None]
    assert peers.asked == {"joined": 9, "join": 9, "where": 4}


def test_newcomers_join_the_ring_that_is_there_and_begin_none() -> None:
    peers = Peers(4)
    peers.joined["tcp://p2"] = None
    asyncio.run(form_ring(peers.addresses, peers.ask, 10.0))
    assert [address for address, contact in peers.joined.items() if contact is None] == ["tcp://p2"]


def test_joining_without_progress_fails_and_names_the_missing_peers() -> None:
    peers = Peers(5, down=("p2", "p4"))
    with pytest.raises(ClusterError) as refused:
        asyncio.run(form_ring(peers.addresses, peers.ask, 0.05))
    expected = "3 of 5 peers are in the ring, and nothing has changed for 0.05 s; missing: p2, p4"
    assert str(refused.value) == f"the peers have not formed a ring: {expected}"
    assert len(peers.joined) == 3


def test_a_peer_whose_process_has_ended_is_not_waited_for() -> None:
    peers = Peers(5, down=("p2",), why=REFUSED)
    with pytest.raises(ClusterError, match=r"^peer p2 has ended: nobody listens at its address$"):
        asyncio.run(form_ring(peers.addresses, peers.ask, 60.0))


def test_a_single_peer_is_a_ring() -> None:
    peers = Peers(1)
    asyncio.run(form_ring(peers.addresses, peers.ask, 10.0))
    assert peers.joined == {"tcp://p0": None}


def test_patience_is_renewed_by_progress_alone() -> None:
    class Clock(asyncio.SelectorEventLoop):
        seconds = 0.0

        def time(self) -> float:
            return self.seconds

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Clock)
        told: list[Progress] = []
        patience = ProgressDeadline(10.0, told.append)
        patience.note(0, 3, "peers run")
        loop.seconds = 8.0
        patience.note(1, 3, "peers run")
        assert patience.left == 10.0
        loop.seconds = 12.0
        patience.note(1, 3, "peers run")  # no news
        patience.note(0, 3, "peers run")  # a step back
        assert patience.left == 6.0
        loop.seconds = 30.0
        assert patience.left == 0.0
        assert [each.done for each in told] == [0, 1, 0]

    loop = Clock()
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


def test_a_text_names_a_few_of_many_missing_peers() -> None:
    assert Progress(0, 12, "peers run", tuple(names(12))).missing_text == "p0, p1, p2, p3, p4, p5, p6, p7 and 4 more"
    assert Progress(2, 4, "peers run", ("p1", "p3")).missing_text == "p1, p3"
