"""Reports of a driver to its peer that are worth sending only when something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from synergy_nb.control.driver_messages import (
    BandwidthMeasured,
    CoresAdvertised,
    LoadsMeasured,
    MeasuredLoad,
    OverheadsMeasured,
    SparkOffered,
)
from synergy_nb.control.peer import DriverMessage
from synergy_nb.models.link_bandwidth import BandwidthEstimate
from synergy_nb.models.overheads import Overhead, Overheads
from synergy_nb.models.signatures import Segment

__all__ = ["Advertised", "LinkBandwidths", "LoadReports", "MeasuredOverheads", "SparkReports"]

Report = Callable[[DriverMessage], None]

SOON: Final = 0.1  # seconds from a measurement of an overhead until the peer is sent it, with others
REPEATED: Final = 1.0  # seconds after which cores that another peer has left are reported though they are the same
CHANGED: Final = 0.1  # share by which a measured bandwidth differs from the one that was sent last
MOST: Final = 4096  # peers of which it is remembered what was reported


class MeasuredOverheads(Overheads):
    """Overheads as the driver measures them; the peer is sent those that have changed.

    Parameters
    ----------
    together
        Length of the stream, in seconds, that a source hands over in one batch.
    loop
        Event loop of the peer, on whose thread everything is measured.
    report
        Sends a message of the driver to the peer.
    """

    def __init__(self, together: float, loop: asyncio.AbstractEventLoop, report: Report) -> None:
        super().__init__(together)
        self._loop = loop
        self._report = report
        self._sent: tuple[dict[str, Overhead], dict[str, Overhead]] = {}, {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def observe(self, stage: str, seconds: float) -> None:
        """Count one measurement of a stage, and have it sent soon."""
        super().observe(stage, seconds)
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(SOON, self.publish)

    def publish(self) -> None:
        """Send the peer what has changed."""
        self._cancel()
        stages, calls = (
            {name: value for name, value in measured.items() if sent.get(name) != value}
            for measured, sent in zip((self.measured(), self.calls()), self._sent, strict=True)
        )
        if stages or calls:
            self._sent[0].update(stages)
            self._sent[1].update(calls)
            self._report(OverheadsMeasured(dict(stages), dict(calls)))

    def close(self) -> None:
        """Send nothing any more."""
        self._closed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Advertised:
    """Cores that other peers have left, which they say with every acknowledgement of data.

    Parameters
    ----------
    clock
        Gives the time in seconds.
    report
        Sends a message of the driver to the peer: a number that has changed at once, others once a second.
    """

    def __init__(self, clock: Callable[[], float], report: Report) -> None:
        self._clock = clock
        self._report = report
        self._sent: dict[str, tuple[float, float]] = {}

    def receive(self, address: str, cores: float) -> None:
        """Take the cores that the peer at an address has left."""
        now = self._clock()
        known, since = self._sent.get(address, (-1.0, 0.0))
        if cores != known or now - since >= REPEATED:
            self._sent.pop(address, None)
            self._sent[address] = cores, now
            if len(self._sent) > MOST:
                del self._sent[next(iter(self._sent))]
            self._report(CoresAdvertised(address, cores))


class LinkBandwidths:
    """Measured bandwidths of the links from other peers; one is sent when it has changed by a tenth.

    Parameters
    ----------
    clock
        Gives the time in seconds.
    report
        Sends a message of the driver to the peer.
    """

    def __init__(self, clock: Callable[[], float], report: Report) -> None:
        self._clock = clock
        self._report = report
        self._links: dict[str, tuple[BandwidthEstimate, float]] = {}  # with what was sent last, bytes/s

    def mark(self, address: str, size: int, contiguous: bool) -> None:
        """Take a mark of what a peer has sent: bytes, and whether each frame of them had to wait for another one."""
        estimate, sent = self._links.get(address) or (BandwidthEstimate(), 0.0)
        estimate.mark(size, contiguous, self._clock())
        value = estimate.value
        if value is not None and abs(value - sent) > CHANGED * sent:
            sent = value
            self._report(BandwidthMeasured(address, value))
        self._links[address] = estimate, sent
        if len(self._links) > MOST:
            del self._links[next(iter(self._links))]


class LoadReports:
    """Loads of components that come and go; nothing is sent while there are none.

    Parameters
    ----------
    report
        Sends a message of the driver to the peer.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._any = False

    def measured(self, signatures: Mapping[tuple[str, str], tuple[Segment, ...]]) -> None:
        """Take the loads as they are measured now: segments by application and operator."""
        if signatures or self._any:
            self._any = bool(signatures)
            loads = (MeasuredLoad(*name, segments) for name, segments in sorted(signatures.items()))
            self._report(LoadsMeasured(tuple(loads)))


class SparkReports:
    """What the driver knows of Spark; the peer is sent what has changed.

    Parameters
    ----------
    offer
        Gives what is known of Spark.
    report
        Sends a message of the driver to the peer.
    """

    def __init__(self, offer: Callable[[], SparkOffered], report: Report) -> None:
        self._offer = offer
        self._report = report
        self._sent: SparkOffered | None = None

    def publish(self) -> None:
        """Send the peer what is known of Spark, if that has changed."""
        offered = self._offer()
        if offered != self._sent:
            self._sent = offered
            self._report(offered)
