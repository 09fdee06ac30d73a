"""Following a cluster's journals: each event once, in order of time, through deaths, joins and restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from synergy_nb import Cluster, source, start_cluster
from synergy_nb.events import ApplicationFinished, ApplicationStopped, Event, PeerMeasured, PeerSilent, encode_events
from synergy_nb.events.journal import Journal
from synergy_nb.runtime.client import journal_follower
from synergy_nb.runtime.client.following import follow_journals
from synergy_nb.runtime.client.journal_follower import JournalFollower
from synergy_nb.runtime.process.requests import FollowJournal, JournalPart, pack, unpack
from synergy_nb.runtime.transport.link import LinkDown
from tests.following import heard
from tests.waiting import DEADLINE, run_loop, turns, until


class Noted(Event, frozen=True, gc=False):
    """Something that a test says."""

    what: str


class Peers:
    """Peers that answer as real ones do; some may be down."""

    def __init__(self, *names: str) -> None:
        self.peers = {name: f"mem://{name}" for name in names}
        self.journals = {address: (f"{address} 1", Journal()) for address in self.peers.values()}
        self.down: dict[str, type[Exception]] = {}
        self.asked: list[tuple[str, FollowJournal]] = []
        self.portion = 3
        self.links = self

    def write(self, name: str, time: float, what: str) -> None:
        address = self.peers[name]
        self.journals[address][1].append(Noted(time, address, "", what))

    def restart(self, name: str) -> None:
        self.journals[self.peers[name]] = (f"{self.peers[name]} 2", Journal())

    async def request(self, to: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        await turns()
        if to in self.down:
            raise self.down[to]("gone")
        assert operation == "follow"
        asked = unpack(payload, FollowJournal)
        self.asked.append((to, asked))
        name, journal = self.journals[to]
        since = asked.since if asked.journal == name else 0
        events = journal.since(since, self.portion)
        reached = events[-1].sequence + 1 if events else since
        return pack(JournalPart(name, reached, reached < journal.next_sequence, msgspec.Raw(encode_events(events))))


async def told(follower: JournalFollower, condition: Callable[[], object]) -> None:
    """Wait for news until ``condition`` holds."""
    news = asyncio.Event()
    leave = follower.listen(news.set)
    follower.listen(lambda: None)  # the last one would end it
    async with asyncio.timeout(DEADLINE):
        while not condition():
            news.clear()
            await news.wait()
    leave()


def kinds(follower: JournalFollower) -> list[str]:
    """Kinds of the events, and of those that a test wrote what it noted."""
    return [event.what if isinstance(event, Noted) else event.kind for event in follower.journal]


async def followed(peers: Peers) -> JournalFollower:
    follower = JournalFollower(peers, every=0.001)
    follower.start()
    async with asyncio.timeout(DEADLINE):
        await follower.caught_up.wait()
    return follower


async def test_earlier_events_are_read_in_portions_and_later_ones_once() -> None:
    peers = Peers("a", "b")
    for number in range(10):
        peers.write("a" if number % 2 else "b", float(number), f"k{number}")
    follower = await followed(peers)
    assert sorted(kinds(follower)) == [f"k{number}" for number in range(10)]
    assert follower.names == {"mem://a": "a", "mem://b": "b"}
    peers.write("b", 11.0, "later")
    peers.write("a", 10.5, "earlier")
    await told(follower, lambda: len(follower.journal) == 12)
    assert [event.sequence for event in follower.journal] == list(range(12))
    await follower.close()
    assert len(kinds(follower)) == 13
    assert kinds(follower)[-1] == "cluster_closed"


async def test_events_that_come_together_are_in_order_of_time() -> None:
    peers = Peers("a", "b", "c")
    peers.portion = 100
    for number in (3, 1, 2):
        peers.write("abc"[number - 1], float(number), f"k{number}")
    follower = await followed(peers)
    assert kinds(follower) == ["k1", "k2", "k3"]
    await follower.close()


async def test_requests_to_peers_without_new_events_are_small() -> None:
    peers = Peers("a")
    for number in range(5):
        peers.write("a", float(number), "k")
    follower = await followed(peers)
    await until(lambda: len(peers.asked) >= 10)
    assert {asked.since for _, asked in peers.asked[-3:]} == {5}
    assert all(len(pack(asked)) < 40 for _, asked in peers.asked)
    await follower.close()


@pytest.mark.parametrize("fault", [LinkDown, TimeoutError, OSError])
async def test_a_peer_that_dies_is_silent_once_and_answers_again(fault: type[Exception]) -> None:
    peers = Peers("a", "b")
    follower = await followed(peers)
    peers.down["mem://a"] = fault
    await told(follower, lambda: "peer_silent" in kinds(follower))
    peers.write("b", 1.0, "alive")
    await told(follower, lambda: "alive" in kinds(follower))
    peers.write("a", 2.0, "back")
    del peers.down["mem://a"]
    await told(follower, lambda: "back" in kinds(follower))
    assert kinds(follower).count("peer_silent") == kinds(follower).count("peer_answers") == 1
    silent = next(event for event in follower.journal if isinstance(event, PeerSilent))
    assert (silent.subject, silent.peer) == ("mem://a", "")
    await follower.close()


async def test_a_peer_that_starts_again_is_read_from_its_beginning() -> None:
    peers = Peers("a")
    for number in range(4):
        peers.write("a", float(number), f"old{number}")
    follower = await followed(peers)
    peers.restart("a")
    peers.write("a", 9.0, "new")
    await told(follower, lambda: "new" in kinds(follower))
    assert kinds(follower).count("new") == 1
    await follower.close()


async def test_peers_that_join_and_leave_are_followed() -> None:
    peers = Peers("a")
    follower = await followed(peers)
    peers.peers["b"] = "mem://b"
    peers.journals["mem://b"] = ("mem://b 1", Journal())
    peers.write("b", 1.0, "new")
    await told(follower, lambda: "new" in kinds(follower))
    assert follower.names["mem://b"] == "b"
    del peers.peers["a"]
    await until(lambda: not any(to == "mem://a" for to, _ in peers.asked[-4:]))
    await follower.close()


async def test_the_number_of_stored_events_is_bounded() -> None:
    peers = Peers("a")
    for number in range(100):
        peers.write("a", float(number), "k")
    follower = JournalFollower(peers, capacity=10, every=0.001)
    follower.start()
    await follower.caught_up.wait()
    assert [event.time for event in follower.journal] == [float(number) for number in range(90, 100)]
    await follower.close()


async def test_a_listener_that_raises_does_not_end_the_follower() -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    peers = Peers("a")
    follower = await followed(peers)
    follower.listen(lambda: 1 // 0)  # type: ignore[arg-type]
    peers.write("a", 1.0, "k")
    await told(follower, lambda: "k" in kinds(follower))
    assert isinstance(faults[0]["exception"], ZeroDivisionError)
    await follower.close()


async def test_the_follower_ends_with_its_last_listener() -> None:
    peers = Peers("a")
    ended: list[JournalFollower] = []
    follower = JournalFollower(peers, every=0.001, ended=ended.append)
    follower.start()
    leave = follower.listen(lambda: None)
    thread = threading.Thread(target=leave)  # from any thread
    thread.start()
    await until(lambda: follower.closed)
    thread.join()
    assert ended == [follower]
    leave()  # once more does nothing
    await follower.close()
    assert kinds(follower) == []


# -- on real peers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=2) as started:
        yield started


@pytest.mark.slow
def test_peers_measure_themselves_while_they_are_followed(cluster: Cluster) -> None:
    follower = follow_journals(cluster)
    stay = follower.listen(lambda: None)
    assert follow_journals(cluster) is follower
    assert {event.kind for event in follower.journal} >= {"peer_started"}  # what had been before is there at once
    heard(follower, lambda events: len({event.peer for event in events if isinstance(event, PeerMeasured)}) == 2)
    measured = next(event for event in follower.journal if isinstance(event, PeerMeasured))
    assert measured.subject == ""
    assert measured.components == []
    assert measured.cpu >= 0
    assert measured.memory > 1 << 20
    assert measured.promised == 0
    assert measured.cores > 0
    packets = source("packets", rate="100 tuples/s", duration="5 min")
    application = cluster.submit(packets.filter("bytes > 100").sink("few", delay="5 s"))

    def at_work(events: list[Event]) -> bool:
        measured = [part for event in events if isinstance(event, PeerMeasured) for part in event.components]
        return {part.operator for part in measured if part.output_rate > 0} >= {"source", "filter"}

    heard(follower, at_work)
    cluster.pace(application, "source", 1000)  # the rest comes at once
    application.results()
    heard(follower, lambda events: any(isinstance(event, ApplicationFinished) for event in events))
    promised = [event.promised for event in follower.journal if isinstance(event, PeerMeasured)]
    assert max(promised) > 0
    times = [
        event.time for event in follower.journal if isinstance(event, PeerMeasured) and event.peer == measured.peer
    ]
    assert all(later - earlier > 0.9 for earlier, later in pairwise(times))
    stay()


@pytest.mark.slow
def test_a_follower_ends_with_its_cluster_and_tells_of_the_last_events() -> None:
    async def main() -> tuple[JournalFollower, int]:
        cluster = await start_cluster(2)
        try:
            follower = follow_journals(cluster)
            assert follow_journals(cluster) is follower
            plan = source("packets", rate="10 tuples/s").sink("all", delay="5 s")
            application = await cluster.submit(plan)
            await told(follower, lambda: "application_running" in kinds(follower))
            silent = kinds(follower).count("peer_silent")  # on a busy machine
        finally:
            await cluster.close()
        assert [event.subject for event in follower.journal if isinstance(event, ApplicationStopped)] == [
            application.id
        ]
        assert cluster.before_close == []
        return follower, silent

    follower, silent = run_loop(main())
    assert follower.closed
    assert kinds(follower)[-1] == "cluster_closed"
    assert kinds(follower).count("peer_silent") == silent


@pytest.mark.slow
def test_a_killed_peer_is_recorded_as_silent_and_dead() -> None:
    with Cluster(2, spark=False) as cluster:
        follower = follow_journals(cluster)
        stay = follower.listen(lambda: None)
        name, address = list(cluster.peers.items())[1]
        cluster.kill(name)
        heard(follower, lambda events: any((e.kind, e.subject) == ("peer_silent", address) for e in events))
        heard(follower, lambda events: any((e.kind, e.subject) == ("peer_declared_dead", address) for e in events))
        stay()
    assert journal_follower.EVERY <= 0.2
