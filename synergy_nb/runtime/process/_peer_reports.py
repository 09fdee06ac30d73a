"""Reports of a driver to its peer that are sent only when a value has changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from synergy_nb.control.driver_messages import (
    BandwidthMeasured,
    CoresAdvertised,
    LoadsMeasured,
    MeasuredLoad,
    OverheadsMeasured,
    SparkOffered,
    SpeedMeasured,
)
from synergy_nb.control.peer import DriverMessage
from synergy_nb.models.link_bandwidth import BandwidthEstimate
from synergy_nb.models.overheads import Overhead, Overheads
from synergy_nb.models.signatures import Segment
from synergy_nb.runtime.process.processor_share import ProcessorShare

Report = Callable[[DriverMessage], None]

REPEATED: Final = 1.0  # seconds after which another peer's unused cores are reported although unchanged
CHANGED: Final = 0.1  # relative change of a measured bandwidth or speed that is sent
LATEST: Final = (
    64  # latest calls of the reference operator, of which the fastest counts: 11 % around 180 µs on a busy machine
)
ENOUGH: Final = 8  # least number of calls of the reference operator for a measured speed
REFERENCE_S: Final = 200e-6  # seconds of a call of it on a processor of speed 1
MOST: Final = 4096  # most peers whose last report is remembered


class MeasuredOverheads(Overheads):
    """Overheads and speed as the driver measures them; what has changed is sent to the peer at each calibration.

    ``together``: length of the stream, in seconds, that a source passes on in one batch.
    """

    def __init__(self, together: float, report: Report) -> None:
        super().__init__(together)
        self._report = report  # function that sends a message of the driver to the peer
        self._sent: tuple[dict[str, Overhead], dict[str, Overhead]] = {}, {}
        self.share = ProcessorShare()  # share of a processor that this process gets
        self._reference: deque[float] = deque(maxlen=LATEST)
        self._speed = SpeedMeasured(1.0)

    def called(self, seconds: float) -> None:
        """Count a call of the reference operator; the fastest one shows the speed of the processor."""
        self._reference.append(seconds)

    def discount(self) -> None:
        """Give all measurements so far little weight: they were taken while the peer started."""
        super().discount()
        self._reference.clear()

    def publish(self) -> None:
        """Send the changed overheads to the peer."""
        stages, calls = (
            {name: value for name, value in measured.items() if sent.get(name) != value}
            for measured, sent in zip((self.measured(), self.calls()), self._sent, strict=True)
        )
        if stages or calls:
            self._sent[0].update(stages)
            self._sent[1].update(calls)
            self._report(OverheadsMeasured(dict(stages), dict(calls)))
        before, processor = self._speed, self._speed.processor
        if len(self._reference) >= ENOUGH:
            processor = REFERENCE_S / min(self._reference)
        share = self.share.value
        if abs(share - before.speed) > CHANGED * before.speed or abs(processor / before.processor - 1.0) > CHANGED:
            self._speed = SpeedMeasured(share, processor)
            self._report(self._speed)


class Advertised:
    """Unused cores of other peers, which they state in every acknowledgement of data."""

    def __init__(self, clock: Callable[[], float], report: Report) -> None:
        self._clock = clock  # function that returns the time in seconds
        # function that sends a message of the driver to the peer: a changed number at once, others once a second
        self._report = report
        self._sent: dict[str, tuple[float, float]] = {}

    def receive(self, address: str, cores: float) -> None:
        """Record the unused cores of the peer at an address."""
        now = self._clock()
        known, since = self._sent.get(address, (-1.0, 0.0))
        if cores != known or now - since >= REPEATED:
            self._sent.pop(address, None)
            self._sent[address] = cores, now
            if len(self._sent) > MOST:
                del self._sent[next(iter(self._sent))]
            self._report(CoresAdvertised(address, cores))


class LinkBandwidths:
    """Measured bandwidths of the links from other peers; one is sent when it has changed by a tenth."""

    def __init__(self, clock: Callable[[], float], report: Report) -> None:
        self._clock = clock  # function that returns the time in seconds
        self._report = report  # function that sends a message of the driver to the peer
        self._links: dict[str, tuple[BandwidthEstimate, float]] = {}  # with the bandwidth sent last, bytes/s

    def mark(self, address: str, size: int, contiguous: bool) -> None:
        """Record the mark of a peer: bytes sent, and whether each frame had to wait for the one before it."""
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
    """Loads of components that start and end; nothing is sent while there are none."""

    def __init__(self, report: Report) -> None:
        self._report = report  # function that sends a message of the driver to the peer
        self._any = False

    def measured(self, signatures: Mapping[tuple[str, str], tuple[Segment, ...]]) -> None:
        """Report the measured loads: segments by application and operator."""
        if signatures or self._any:
            self._any = bool(signatures)
            loads = (MeasuredLoad(*name, segments) for name, segments in sorted(signatures.items()))
            self._report(LoadsMeasured(tuple(loads)))


class SparkReports:
    """The driver's knowledge of Spark; it is sent to the peer when it has changed."""

    def __init__(self, offer: Callable[[], SparkOffered], report: Report) -> None:
        self._offer = offer  # function that returns the present state of Spark
        self._report = report  # function that sends a message of the driver to the peer
        self._sent: SparkOffered | None = None

    def publish(self) -> None:
        """Send the state of Spark to the peer if it has changed."""
        offered = self._offer()
        if offered != self._sent:
            self._sent = offered
            self._report(offered)
