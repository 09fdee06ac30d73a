"""Leases of clients: an application ends when its client is gone, and only then; in virtual time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from synergy_nb.control.driver_messages import LeaseRenewed, SubmitPlan
from synergy_nb.lifecycle.requests.client_leases import LOOKS
from synergy_nb.plan import Plan, source
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.runtime.client._lease_renewals import LEASE, LeaseRenewals
from synergy_nb.runtime.process.requests import RenewLeases, unpack
from tests.simulated import Ring
from tests.waiting import turns, until

EVERY = LEASE / LOOKS


def endless(sink_at: str | None = None) -> Plan:
    return source("packets", rate="10 tuples/s").filter("bytes > 100").sink("q", at=sink_at)


def submitted(plan: Plan, at: str = "peer-0", lease: float = LEASE, seed: int = 1) -> Ring:
    ring = Ring(4, seed)
    ring.simulation.report(at, SubmitPlan("q", plan.to_bytes(), lease=lease))
    assert ring.until_decided("q").status == "running"
    return ring


def renewed(ring: Ring, at: str, times: int) -> None:
    """Let time pass, with renewals of the lease."""
    for _ in range(times):
        ring.run(EVERY)
        ring.simulation.report(at, LeaseRenewed("q"))


def test_an_application_ends_two_minutes_after_its_client_and_not_before() -> None:
    ring = submitted(endless())
    renewed(ring, "peer-0", 20)
    ring.run(0.75 * LEASE)
    assert ring.status("q") == "running", "the machine of the client was busy"
    renewed(ring, "peer-0", 1)
    ring.run(LEASE - EVERY / 2)
    assert ring.status("q") == "running"
    ring.run(2 * EVERY)
    last = ring.reports["q"][-1]
    assert last.status == "stopped"
    assert last.reason.startswith("nothing was heard of its client for 2 min: its process has ended")
    assert not ring.deployed
    ring.simulation.report("peer-0", LeaseRenewed("q"))  # it comes too late, and changes nothing
    ring.run(LEASE)
    assert ring.status("q") == "stopped"


def test_an_application_without_a_lease_goes_on_without_its_client() -> None:
    ring = submitted(endless(), lease=0.0)
    ring.run(10 * LEASE)
    assert ring.status("q") == "running"


def test_a_peer_that_hung_does_not_take_its_own_silence_for_that_of_the_client() -> None:
    ring = submitted(endless())
    synergy = ring.synergy["peer-0"]
    request = synergy.requests["q"]
    begun = synergy.peer.now
    for _ in range(3):  # a look at a late hour is one look
        synergy.peer.tick(synergy.peer.now + 2 * LEASE)
    assert synergy.peer.now >= begun + 6 * LEASE
    assert request.status == "running"


@pytest.mark.slow
def test_a_successor_takes_the_lease_over() -> None:
    for lease, ends in ((LEASE, "stopped"), (0.0, "running")):
        ring = submitted(endless(sink_at="peer-2"), lease=lease)
        ring.crash("peer-0")
        ring.run(20.0)
        assert "q" in ring.synergy["peer-2"].session.led
        renewed(ring, "peer-2", 2 * LOOKS)
        assert ring.status("q") == "running"
        ring.run(LEASE + 2 * EVERY)
        assert ring.status("q") == ends


class Held:
    """A handle of an application, whose origin may have died."""

    def __init__(self, name: str, origin: str) -> None:
        self.id = name
        self.origin = origin

    async def state(self) -> None:
        self.origin = "successor"


async def test_a_client_renews_all_its_leases_at_each_origin_and_finds_successors() -> None:
    asked: list[tuple[str, list[str]]] = []

    async def request(peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        assert operation == "renew"
        asked.append((peer, unpack(payload, RenewLeases).applications))
        if peer == "dead":
            raise ClusterError("it does not answer")
        return b""

    held: Mapping[str, Held] = {name: Held(name, at) for name, at in (("a", "one"), ("b", "dead"), ("c", "one"))}
    renewals = LeaseRenewals(held, request, 0.0)
    renewals.begin()
    renewals.begin()
    await until(lambda: ("successor", ["b"]) in asked)
    assert asked[:2] == [("one", ["a", "c"]), ("dead", ["b"])]
    dict.clear(held)  # type: ignore[arg-type]  # they have ended
    await turns(5)
    number = len(asked)
    await turns(5)
    assert len(asked) == number
    renewals.close()


async def test_a_client_renews_the_lease_of_what_is_being_decided_until_it_is() -> None:
    asked: list[str] = []

    async def request(peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        asked.extend(unpack(payload, RenewLeases).applications)
        raise ClusterError("it does not answer")

    renewals = LeaseRenewals({}, request, 0.0)
    with renewals.composing("a", "one"):
        await until(lambda: len(asked) > 3)
    await turns(5)
    number = len(asked)
    await turns(5)
    assert set(asked) == {"a"}
    assert len(asked) == number
    renewals.close()
