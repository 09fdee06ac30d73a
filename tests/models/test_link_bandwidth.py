"""Measured bandwidth of links (section 2.2.2): by hand, on simulated links, promised, and live."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from synergy_nb import Cluster, WideArea, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import BandwidthMeasured
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import DriverMessage
from synergy_nb.events import LinkMeasured, ProbeDropped
from synergy_nb.models.link_bandwidth import MARKED, SPAN, WINDOW, Backlog, BandwidthEstimate
from synergy_nb.plan import Plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.process._peer_reports import CHANGED, LinkBandwidths
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.process.starting import start_cluster
from synergy_nb.simulator.network import TransitStub, transit_stub
from tests.memory_comm import Net, run
from tests.peer_states import state_of
from tests.simulated import Ring

A, B = "mem://a", "mem://b"

# -- estimates ---------------------------------------------------------------------------------------------------------


def test_only_frames_that_waited_for_the_link_are_measured() -> None:
    backlog = Backlog()
    marks = [backlog.sent(size, behind) for size, behind in ((10_000, True), (10_000, False), (20_000, True))]
    assert marks == [None, None, (40_000, False)]
    assert backlog.sent(MARKED, True) == (MARKED, True)
    assert backlog.sent(MARKED - 1, True) is None


def test_the_greatest_sample_of_a_window_counts_and_moves_the_estimate_by_a_quarter() -> None:
    estimate = BandwidthEstimate()
    estimate.mark(50_000, False, 0.0)
    estimate.mark(100_000, True, SPAN / 2)
    assert estimate.value is None, "too short a sample"
    estimate.mark(100_000, True, 1.0)
    assert estimate.value == pytest.approx(200_000.0)
    estimate.mark(100_000, True, 2.0)
    assert estimate.value == pytest.approx(200_000.0), "a sample may be too low"
    estimate.mark(400_000, True, 3.0)
    assert estimate.value == pytest.approx(250_000.0)
    for second in (4.0, 5.0, 6.0):
        estimate.mark(400_000, True, second)
    assert estimate.value == pytest.approx(400_000.0)
    estimate.mark(1, False, 7.0 + WINDOW)
    estimate.mark(100_000, True, 8.0 + WINDOW)
    assert estimate.value == pytest.approx(300_000.0), "what was greater is out of the window"


def sent_over(bandwidth: float, delay: float, frames: list[tuple[float, int]], jitter: float) -> BandwidthEstimate:
    """Frames, with the times at which they are put on a simulated link, and what its reader makes of their marks."""
    backlog, estimate, rng = Backlog(), BandwidthEstimate(), np.random.default_rng(1)
    free_at = arrived = 0.0
    for put, size in frames:
        mark = backlog.sent(size, free_at > put)
        free_at = max(free_at, put) + size / bandwidth
        arrived = max(arrived, free_at + delay + float(rng.exponential(jitter)))
        if mark is not None:
            estimate.mark(*mark, arrived)
    return estimate


def test_the_bandwidth_of_simulated_links_is_found_while_they_are_busy() -> None:
    """On links of a transit-stub network, between phases in which the sender has little to send."""
    topology = transit_stub(12, TransitStub(transit_domains=2), seed=3)
    for number in range(11):
        one, other = f"peer-{number}", f"peer-{number + 1}"
        bandwidth, delay = topology.bandwidth(one, other), topology.delay(one, other)
        frames: list[tuple[float, int]] = []
        for start in range(0, 20, 4):
            trickle = [(start + 0.1 * k, int(bandwidth * 0.05)) for k in range(10)]  # half of what it bears
            burst = [(start + 1.0, int(bandwidth * 0.02)) for _ in range(100)]  # two seconds of it, at once
            frames += trickle + burst
        found = sent_over(bandwidth, delay, frames, jitter=0.002).value
        assert found is not None
        assert found == pytest.approx(bandwidth, rel=0.05)


def test_a_sender_that_never_waits_yields_no_estimate() -> None:
    frames = [(0.1 * number, 50_000) for number in range(1000)]
    assert sent_over(1e6, 0.15, frames, jitter=0.01).value is None


def test_the_links_of_peers_find_the_bandwidth_that_is_laid_over_them() -> None:
    """Both ends as they are, over comms in memory and in virtual time: bursts, and less than the link takes between."""

    async def main() -> None:
        area = WideArea([[0, 20], [20, 0]], bandwidth=5e6)
        area.set_sites([A, B])
        loop, net, said = asyncio.get_running_loop(), Net(), list[DriverMessage]()
        sender, _ = net.join(A, shape=area.shape(A))
        _, arrived = net.join(B, on_mark=LinkBandwidths(loop.time, said.append).mark)
        trickle = [0.025 * number for number in range(40)]  # 2 MB in a second
        for at in (*trickle, *[1.0] * 100, *[2.5 + each for each in trickle], *[3.5] * 100):
            loop.call_later(at, sender.send_data, B, "a stream", b"x" * 50_000)
        loop.call_later(3.6, sender.send, B, b"all")
        await arrived["message"].reaches(1)
        assert said
        assert all(isinstance(each, BandwidthMeasured) and each.address == A for each in said)
        assert [each.rate for each in said if isinstance(each, BandwidthMeasured)] == pytest.approx([5e6], rel=0.02)
        await net.close()

    run(main())


# -- reported and promised ---------------------------------------------------------------------------------------------


def test_an_estimate_is_reported_when_it_has_changed_by_a_tenth() -> None:
    now, said = [0.0], list[DriverMessage]()
    bandwidths = LinkBandwidths(lambda: now[0], said.append)
    bandwidths.mark("a", 1000, False)
    for rate in (1000, 1000, 1000 * (1 + CHANGED / 2), 1000 * (1 + 2 * CHANGED)):
        now[0] += 1.0
        bandwidths.mark("a", round(rate), True)
    assert said == [BandwidthMeasured("a", 1000.0), BandwidthMeasured("a", 1200.0)]


def test_the_configured_bandwidth_is_promised_unless_the_measured_one_is_chosen() -> None:
    configured, measured = Ledger(1.0, 1e6), Ledger(1.0, 1e6, promise_measured=True)
    for ledger in (configured, measured):
        ledger.measure("a", 2e5)
        assert ledger.residual_bandwidth("r", "b") == 1e6
    assert configured.residual_bandwidth("r", "a") == 1e6
    assert measured.residual_bandwidth("r", "a") == 2e5


def test_commitments_remain_when_a_link_is_measured_to_be_slower() -> None:
    ledger = Ledger(1.0, 1e6, promise_measured=True)
    assert ledger.commit("one", "o", 0.1, {("a", "source"): 4e5}) == ""
    ledger.reserve("two", "o", 0.1, ("a", "source"), 3e5)
    ledger.measure("a", 1e5)
    assert ledger.overbooked() is None
    assert ledger.residual_bandwidth("three", "a") == pytest.approx(0.0)
    assert "bandwidth from a" in ledger.commit("three", "o", 0.1, {("a", "source"): 1e3})
    assert ledger.commit("two", "o", 0.1, {("a", "source"): 3e5}) == "", "it held that"
    assert ledger.overbooked() is None
    ledger.release("one")
    assert ledger.residual_bandwidth("three", "a") == pytest.approx(0.0), "two needs all that it carries, and more"
    assert ledger.overbooked() is None
    ledger.release("two")
    assert ledger.residual_bandwidth("three", "a") == 1e5


def crossing(rate: float) -> Plan:
    packets = source("packets", rate=rate, seed=1, at="peer-0")
    return packets.filter("bytes > 0", id="work", at="peer-1").sink("out")


def test_a_probe_dropped_for_a_slow_link_reports_configured_and_measured_bandwidth() -> None:
    for promised, status in ((True, "rejected"), (False, "running")):
        config = PeerConfig(bandwidth=1e6, promise_measured=promised)
        ring = Ring(4, seed=3, config=config)
        ring.simulation.report("peer-1", BandwidthMeasured("peer-0", 5e3))
        ring.submit("peer-2", "r", crossing(100.0))  # 8 kB/s
        report = ring.until_decided("r")
        assert report.status == status
        measured = [event for event in ring.simulation.journal if isinstance(event, LinkMeasured)]
        assert [(each.peer, each.subject, each.bandwidth, each.configured) for each in measured] == [
            ("peer-1", "peer-0", 5e3, 1e6)
        ]
        if promised:
            told = "configured for 1e+06 bytes/s, measured to carry 5000; the measured one counts"
            assert told in report.reason
            assert told in str(Explanation("r", ring.events("r"), {}))
            assert {event.condition for event in ring.events("r", ProbeDropped)} == {"bandwidth"}


@pytest.mark.parametrize("bandwidth", ["fast", 0.0, None])
def test_a_bandwidth_that_cannot_be_is_refused(bandwidth: Any) -> None:
    with pytest.raises((ValueError, ClusterError), match="bandwidth: "):
        Cluster(peers=1, bandwidth=bandwidth)
    assert start_cluster is not None


# -- live --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_live_a_busy_link_is_measured_by_its_own_traffic() -> None:
    """A source that is read as fast as the link takes it; nothing else is sent to find out.

    How near the measurement comes depends on what else the machine does; in virtual time, above, it does not.
    """
    area = WideArea([[0, 20, 20], [20, 0, 20], [20, 20, 0]], bandwidth=5e6)
    with Cluster(peers=3, wide_area=area, bandwidth="measured") as cluster:  # of which one has an idle link to each
        packets = source("packets", seed=1, count=200_000, speed=0, at="peer-1")
        application = cluster.submit(packets.sink("all"), origin="peer-2")
        assert application.results().height == 200_000
        configured, measured = state_of(cluster, "peer-2").links[cluster.peers["peer-1"]]
        assert configured == 5e6
        recorded = cluster.events().of(LinkMeasured)
        assert [(each.peer, each.subject, each.configured) for each in recorded[-1:]] == [
            (cluster.peers["peer-2"], cluster.peers["peer-1"], 5e6)
        ]
        assert measured == recorded[-1].bandwidth > 0.0
        assert "peer-1 " in repr(cluster)
        assert "of 5 MB/s" in repr(cluster)
