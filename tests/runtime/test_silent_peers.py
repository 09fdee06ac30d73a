"""Requests to peers that are silent for a while: repeated for a minute, unless the process of the peer has ended."""

from __future__ import annotations

import pytest

from synergy_nb.control.roles import Roles
from synergy_nb.events import REFUSED, ApplicationStopped, LinkBroken, encode_events
from synergy_nb.plan import source
from synergy_nb.runtime.client import _peer_requests as peer_requests
from synergy_nb.runtime.client._led_application import LedApplication
from synergy_nb.runtime.client._peer_requests import PeerRequests
from synergy_nb.runtime.process.requests import ApplicationState, ClusterError, PeerUnreachable
from synergy_nb.runtime.transport.link import LinkDown, RemoteError

ADDRESSES = {"peer-1": "tcp://1", "peer-2": "tcp://2", "peer-3": "tcp://3"}


class Scripted:
    """Links on which the first answers to "ask" are lost."""

    def __init__(self, lost: int, error: Exception | None = None) -> None:
        self.lost = lost
        self.error = error or TimeoutError()
        self.asked: list[tuple[str, str]] = []

    async def request(self, to: str, operation: str, payload: bytes, timeout: float) -> bytes:
        self.asked.append((to, operation))
        if self.asked.count((to, operation)) <= self.lost:
            raise self.error
        return b"answer"


class Client(PeerRequests):
    """A client of three peers."""

    def __init__(self, links: Scripted) -> None:
        self.peers = ADDRESSES
        self.links = links  # type: ignore[assignment]
        self.closed = False
        self._names = {address: name for name, address in ADDRESSES.items()}


async def test_a_request_is_repeated_while_the_peer_is_silent() -> None:
    links = Scripted(2)
    assert await Client(links).request_while_alive("peer-1", "ask") == b"answer"
    assert links.asked == [("tcp://1", "ask")] * 3


class Journals(Scripted):
    """Links to peers of which one never answers; the others have an event of an application, and an error each."""

    async def request(self, to: str, operation: str, payload: bytes, timeout: float) -> bytes:
        self.asked.append((to, operation))
        if to == "tcp://2":
            raise TimeoutError
        event = ApplicationStopped(5.0, to, "a") if operation == "events" else LinkBroken(7.0, to, "x", reason="broken")
        return encode_events([event])


async def test_an_account_waits_for_a_silent_peer_once() -> None:
    """Its errors are not asked for, which would take as long once more."""
    links = Journals(0)
    found = await Client(links).account("a")
    assert [(type(event), event.peer) for event in found] == [
        (ApplicationStopped, "tcp://1"),
        (ApplicationStopped, "tcp://3"),
        (LinkBroken, "tcp://1"),
        (LinkBroken, "tcp://3"),
    ]
    assert [to for to, _ in links.asked].count("tcp://2") == 1


async def test_a_connection_that_broke_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset does not say that the process has ended."""
    monkeypatch.setattr(peer_requests, "ASK_AGAIN", 0.0)
    links = Scripted(2, LinkDown("tcp://1: connection closed"))
    assert await Client(links).request_while_alive("peer-1", "ask") == b"answer"


async def test_a_process_that_has_ended_is_not_asked_again() -> None:
    links = Scripted(1, LinkDown(f"tcp://1: {REFUSED}"))
    with pytest.raises(PeerUnreachable, match="its process has ended, as nobody listens at its address") as raised:
        await Client(links).request_while_alive("peer-1", "ask")
    assert raised.value.ended
    assert len(links.asked) == 1


async def test_an_error_of_the_peer_is_not_repeated() -> None:
    links = Scripted(1, RemoteError("no such thing"))
    with pytest.raises(ClusterError, match="peer-1: no such thing"):
        await Client(links).request_while_alive("peer-1", "ask")
    assert len(links.asked) == 1


async def test_a_peer_that_stays_silent_is_unreachable_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_requests, "SILENT_FOR", 0.0)
    links = Scripted(9)
    with pytest.raises(PeerUnreachable, match=r"^peer-1 does not answer: no answer within 5 s$") as raised:
        await Client(links).request_while_alive("peer-1", "ask")
    assert not raised.value.ended
    assert links.asked.count(("tcp://1", "ask")) == 1


class Led(LedApplication):
    """An application of the silent peer 1, with a clock that the test sets, and nobody who leads it instead."""

    def __init__(self, links: Scripted) -> None:
        plan = source("packets", id="s").sink("out", id="out")
        state = ApplicationState("a", "running", roles=Roles({"s": "tcp://1", "out": "tcp://1"}))
        super().__init__(Client(links), plan, "tcp://1", state)  # type: ignore[arg-type]  # what it asks is there
        self.now = 0.0
        self._clock = lambda: self.now


async def test_an_application_waits_for_an_origin_that_is_silent_and_fails_after_a_minute() -> None:
    led = Led(Scripted(9))
    for now in (0.0, 59.0):
        led.now = now
        state = await led.state()
        assert (state.status, state.reason) == ("paused", "waiting for peer-1, which leads it and does not answer")
    led.now = 60.0
    state = await led.state()
    assert (state.status, state.reason) == ("failed", "peer-1, which leads it, has not answered for 60 s")


async def test_an_application_whose_origin_has_ended_fails_at_once() -> None:
    state = await Led(Scripted(9, LinkDown(f"tcp://1: {REFUSED}"))).state()
    assert (state.status, state.reason) == (
        "failed",
        "peer-1 does not answer: its process has ended, as nobody listens at its address",
    )
