"""Requests to peers that are silent for a while: repeated while other peers consider them to be alive."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client import peer_requests
from synergy_nb.runtime.client.peer_requests import PeerRequests
from synergy_nb.runtime.process.requests import ClusterError, PeerUnreachable, pack
from synergy_nb.runtime.transport.link import LinkDown, RemoteError

ADDRESSES = {"peer-1": "tcp://1", "peer-2": "tcp://2", "peer-3": "tcp://3"}


class Scripted:
    """Links on which the first answers to "ask" are lost, and peers whose leaf sets are given."""

    def __init__(self, lost: int, leaf_sets: Mapping[str, tuple[str, ...]], error: Exception | None = None) -> None:
        self.lost = lost
        self.leaf_sets = leaf_sets
        self.error = error or TimeoutError()
        self.asked: list[tuple[str, str]] = []

    async def request(self, to: str, operation: str, payload: bytes, timeout: float) -> bytes:
        self.asked.append((to, operation))
        if operation == "state":
            if to not in self.leaf_sets:
                raise TimeoutError
            return state(to, self.leaf_sets[to])
        if self.asked.count((to, operation)) <= self.lost:
            raise self.error
        return b"answer"


def state(address: str, neighbours: tuple[str, ...]) -> bytes:
    """What a peer says of itself."""
    return pack(PeerState("", address, 1, 0.0, 1.0, 0.0, [], [], [], list(neighbours), 0, 0))


class Client(PeerRequests):
    """A client of three peers."""

    def __init__(self, links: Scripted) -> None:
        self.peers = ADDRESSES
        self.links = links  # type: ignore[assignment]
        self.closed = False
        self._names = {address: name for name, address in ADDRESSES.items()}


async def test_a_request_is_repeated_while_one_other_peer_counts_the_silent_one_as_alive() -> None:
    links = Scripted(2, {"tcp://3": ("tcp://1",)})
    assert await Client(links).request_while_alive("peer-1", "ask") == b"answer"
    assert [operation for to, operation in links.asked if to == "tcp://1"] == ["ask"] * 3, "it is not asked of itself"


@pytest.mark.parametrize("leaf_sets", [{"tcp://2": ("tcp://3",), "tcp://3": ("tcp://2",)}, {}])
async def test_a_silent_peer_that_nobody_counts_as_alive_is_unreachable(leaf_sets: dict[str, tuple[str, ...]]) -> None:
    links = Scripted(1, leaf_sets)
    with pytest.raises(PeerUnreachable, match=r"^peer-1 does not answer: no answer within 5 s$"):
        await Client(links).request_while_alive("peer-1", "ask")
    assert links.asked.count(("tcp://1", "ask")) == 1


async def test_a_broken_connection_is_not_waited_for() -> None:
    links = Scripted(1, {"tcp://2": ("tcp://1",)}, LinkDown("gone"))
    with pytest.raises(PeerUnreachable, match="its process has ended, or the connection to it is broken"):
        await Client(links).request_while_alive("peer-1", "ask")
    assert len(links.asked) == 1


async def test_an_error_of_the_peer_is_not_repeated() -> None:
    links = Scripted(1, {"tcp://2": ("tcp://1",)}, RemoteError("no such thing"))
    with pytest.raises(ClusterError, match="peer-1: no such thing"):
        await Client(links).request_while_alive("peer-1", "ask")
    assert len(links.asked) == 1


async def test_a_peer_that_stays_silent_is_unreachable_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_requests, "SILENT_FOR", 0.0)
    links = Scripted(9, {"tcp://2": ("tcp://1",)})
    with pytest.raises(PeerUnreachable):
        await Client(links).request_while_alive("peer-1", "ask")
    assert links.asked.count(("tcp://1", "ask")) == 1
