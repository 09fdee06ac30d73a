"""Errors of peers on the standard error: once each, with names of peers, at a limited rate, none after closing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from synergy_nb import start_cluster
from synergy_nb.events import Event, HandlerFailed, LinkBroken, LinkClosed, MessageOutdated, decode_events
from synergy_nb.runtime.client.error_notices import GATHERED, MOST, ErrorNotices
from synergy_nb.runtime.process.error_publisher import AGAIN, CHANNEL, ErrorPublisher
from synergy_nb.runtime.transport.link import LinkFull
from tests.waiting import DEADLINE

NAMES = {f"tcp://10.0.0.{number}:1": f"peer-{number}" for number in range(1, 10)}
PEERS = tuple(NAMES)


class Clock:
    """Calls what is due when the test lets time pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, function))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        ready = [each for each in self.due if each[0] <= self.now]
        self.due = [each for each in self.due if each[0] > self.now]
        for _, function in ready:
            function()


def raised(peer: str, error: str = "KeyError: 'x'") -> Event:
    return HandlerFailed(1.0, peer, "Probe", error=error)


def made() -> tuple[Clock, list[str], ErrorNotices]:
    clock, written = Clock(), list[str]()
    return clock, written, ErrorNotices(clock.later, NAMES, written.append)


def test_the_same_error_of_several_peers_is_one_line() -> None:
    clock, written, notices = made()
    for peer in PEERS[:5]:
        notices.add(LinkBroken(1.0, peer, PEERS[8], reason="connection closed"))
    assert not written
    clock.advance(GATHERED)
    assert written == ["synergy: peer-1, peer-2, peer-3 and 2 more: the link to peer-9 broke: connection closed"]
    notices.add(LinkBroken(9.0, PEERS[6], PEERS[8], reason="connection closed"))
    clock.advance(GATHERED)
    assert len(written) == 1


def test_a_broken_link_that_stays_unreachable_is_printed_once() -> None:
    clock, written, notices = made()
    notices.add(LinkBroken(1.0, PEERS[0], PEERS[8], reason="connection closed"))
    notices.add(LinkBroken(1.1, PEERS[1], PEERS[8], reason="no link within 2.5 s"))
    clock.advance(GATHERED)
    notices.add(LinkBroken(4.0, PEERS[0], PEERS[8], reason="no link within 2.5 s"))
    clock.advance(GATHERED)
    assert written == ["synergy: peer-1, peer-2: the link to peer-9 broke: connection closed"]


def test_many_errors_are_a_few_lines_and_a_number() -> None:
    clock, written, notices = made()
    for number in range(20):
        notices.add(raised(PEERS[0], f"error {number}"))
    clock.advance(GATHERED)
    assert len(written) == MOST
    clock.advance(AGAIN)
    assert written[-1] == "synergy: 14 more errors of peers; watch(cluster) and explain() show them"
    notices.add(raised(PEERS[0], "another"))
    clock.advance(GATHERED)
    assert written[-1] == "synergy: peer-1: handling Probe raised another"


def test_links_that_break_while_a_cluster_closes_are_not_printed() -> None:
    clock, written, notices = made()
    notices.add(raised(PEERS[0]))
    notices.close()
    notices.add(raised(PEERS[1], "later"))
    clock.advance(GATHERED)
    assert not written


def test_a_client_that_leaves_and_a_late_message_are_no_errors() -> None:
    clock, written, notices = made()
    notices.add(LinkClosed(1.0, PEERS[0], "client-host-1", reason="closed"))
    notices.add(MessageOutdated(1.0, PEERS[0], "app", reason="stale attempt", message="", sender=""))
    clock.advance(GATHERED)
    assert not written


def test_a_peer_notifies_its_subscribers_of_the_same_error_once_a_minute() -> None:
    sent: list[tuple[str, str, bytes]] = []
    teller = ErrorPublisher(lambda *frame: sent.append(frame))
    teller.publish(raised(PEERS[0]))
    assert not sent
    teller.add("client-1")
    teller.add("client-2")
    event = raised(PEERS[0], "other")
    teller.publish(event)
    teller.publish(event)
    assert [(client, channel) for client, channel, _ in sorted(sent)] == [("client-1", CHANNEL), ("client-2", CHANNEL)]
    assert decode_events(sent[0][2]) == [event]
    teller.lost("client-1")
    teller.publish(msgspec.structs.replace(event, time=event.time + AGAIN))
    assert [client for client, _, _ in sent[2:]] == ["client-2"]


def test_a_client_that_does_not_read_delays_nobody() -> None:
    def full(_client: str, _channel: str, _payload: bytes) -> None:
        raise LinkFull("full")

    teller = ErrorPublisher(full)
    teller.add("client-1")
    teller.publish(raised(PEERS[0]))


@pytest.mark.slow
def test_an_error_of_a_real_peer_reaches_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        cluster = await start_cluster(2, spark=False)
        try:
            heard = asyncio.Event()
            assert cluster.notices is not None
            take = cluster.notices.write

            def write(line: str) -> None:
                take(line)
                heard.set()

            cluster.notices.write = write
            cluster.links.send_data(cluster.peers["peer-2"], "nobody/x", b"no frame")  # a client sends no data
            await asyncio.wait_for(heard.wait(), DEADLINE)
        finally:
            await cluster.close()

    asyncio.run(run())
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "was refused data on the channel 'nobody/x', which is for peer" in said
