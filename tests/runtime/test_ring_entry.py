"""A peer that comes later enters the ring by itself, and open clients learn of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from distributed import LocalCluster, Worker

from synergy_nb import connect_cluster
from synergy_nb.runtime.process._ring_entry import SELDOM, SOON, enter
from synergy_nb.runtime.transport.wire import LinkDown
from tests.waiting import until


class Others:
    """Workers of a scheduler, of which some peers are in a ring."""

    def __init__(self, workers: Iterable[str], ring: Iterable[str] = ()) -> None:
        self.workers = set(workers)
        self.ring = set(ring)
        self.pauses: list[float] = []
        self.asked = 0
        self.contacts: list[str] = []
        self.refusals = 0  # times that joining fails
        self.later: dict[int, str] = {}  # number of a pause, and the peer that is in a ring from then on

    async def listed(self) -> set[str]:
        return self.workers

    async def ask(self, address: str, operation: str, payload: bytes, timeout: float) -> bytes:
        assert (operation, payload) == ("joined", b"")
        assert timeout > 0.0
        self.asked += 1
        if address not in self.workers:
            raise LinkDown(address)
        return address.encode() if address in self.ring else b""

    async def joined(self) -> bytes:
        return b"own" if "own" in self.ring else b""

    async def join(self, contact: str) -> None:
        self.contacts.append(contact)
        if len(self.contacts) <= self.refusals:
            raise ValueError(f"contact: {contact!r}")
        self.ring.add("own")

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.ring |= {self.later[len(self.pauses)]} if len(self.pauses) in self.later else set()

    async def enter(self) -> None:
        await enter("own", self.joined, self.join, self.listed, self.ask, self.sleep)


async def test_it_joins_through_a_peer_that_is_in_a_ring() -> None:
    others = Others({"own", "a", "b", "c"}, {"b"})
    await others.enter()
    assert (others.contacts, others.pauses) == (["b"], [SOON])


async def test_it_begins_no_ring_and_waits_longer_and_longer_for_one() -> None:
    others = Others({"own", "a"})
    others.later[9] = "a"
    await others.enter()
    assert others.contacts == ["a"]
    assert others.pauses == [SOON, 2.0, 4.0, 8.0, 16.0, SELDOM, SELDOM, SELDOM, SELDOM]


async def test_it_asks_nobody_once_somebody_else_has_let_it_join() -> None:
    others = Others({"own", "a"}, {"own", "a"})
    await others.enter()
    assert others.asked == 0


async def test_it_asks_a_few_of_many_and_tries_again_where_joining_failed() -> None:
    workers = {f"p{number}" for number in range(100)}
    others = Others(workers, workers)
    others.refusals = 8
    await others.enter()
    assert (len(set(others.contacts[:8])), len(others.contacts)) == (8, 9)
    assert others.pauses == [SOON, 2.0]


@pytest.mark.slow
async def test_a_client_learns_of_a_worker_that_joins_its_dask_cluster_later() -> None:
    options = {"n_workers": 2, "processes": False, "dashboard_address": ":0", "protocol": "tcp"}
    async with (
        LocalCluster(asynchronous=True, silence_logs=50, **options) as existing,  # type: ignore[no-untyped-call]
        await connect_cluster(existing.scheduler_address, spark=False) as one,
        await connect_cluster(existing.scheduler_address, spark=False) as other,
        Worker(existing.scheduler_address, name="late", dashboard=False) as late,
    ):
        await until(lambda: "late" in one.peers and "late" in other.peers)
        assert one.peers["late"] == other.peers["late"] == late.address
        states = await one.states()
        assert states["late"] is not None
