"""What a link really carries, measured from its own traffic: nothing is sent to find out.

The rate at which bytes arrive over a link is the link's bandwidth only while the sender has more to send. So the sender
marks what it sends (:class:`Backlog`): after some bytes it says how many there were, and whether each frame of them was
put on the link while another one was still waiting. The receiver takes the rate between two such marks as a sample
(:class:`BandwidthEstimate`). That is the delivery rate of BBR [1]_, with its samples in which the application was the
limit left out; as there, the greatest sample of a window counts, since a sample can only be too low: by what the
receiver did meanwhile, or by other traffic on the way.

The estimate is made at the receiving end of a link, as that is where its bandwidth is promised. What kernels buffer on
the way makes no sample: a frame is behind another one only once these buffers are full and the sender has to wait.

References
----------
.. [1] N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, "BBR: Congestion-Based Congestion Control", *ACM
   Queue* 14(5), 2016.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

__all__ = ["Backlog", "BandwidthEstimate", "BandwidthMark"]

MARKED: Final = 32 << 10  # least number of bytes between two marks
SPAN: Final = 0.2  # least length of a sample, seconds: frames arrive in lumps
WINDOW: Final = 30.0  # seconds within which the greatest sample counts
STEP: Final = 0.25  # maximum share by which one sample moves the estimate


class BandwidthMark(NamedTuple):
    """Bytes since the last mark, and whether each frame of them had to wait for the one before it."""

    size: int
    contiguous: bool


class Backlog:
    """The sender's side: marks what is put on a link.

    Examples
    --------
    >>> backlog = Backlog()
    >>> backlog.sent(20_000, behind=False)
    >>> backlog.sent(20_000, behind=True)
    BandwidthMark(size=40000, contiguous=False)
    >>> backlog.sent(40_000, behind=True)
    BandwidthMark(size=40000, contiguous=True)
    """

    __slots__ = ("_contiguous", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._contiguous = True

    def sent(self, size: int, behind: bool) -> BandwidthMark | None:
        """Count frames of so many bytes; ``behind``: whether each was put on the link while another one waited.

        Returns: the mark to send after them; None if those that were counted are too few to tell anything.
        """
        self._size += size
        self._contiguous = self._contiguous and behind
        if self._size < MARKED:
            return None
        found = BandwidthMark(self._size, self._contiguous)
        self._size, self._contiguous = 0, True
        return found


class BandwidthEstimate:
    """The receiver's side: the bandwidth of one link, by the marks that arrive over it.

    Examples
    --------
    A link of 1 MB/s, over which a mark comes every 40 ms; then a sender that has less to send:

    >>> estimate = BandwidthEstimate()
    >>> for number in range(11):
    ...     estimate.mark(40_000, number > 0, 0.04 * number)
    >>> round(estimate.value)
    1000000
    >>> for number in range(11):
    ...     estimate.mark(40_000, False, 10.0 + number)
    >>> round(estimate.value)
    1000000
    """

    __slots__ = ("_bytes", "_greatest", "_since", "value")

    def __init__(self) -> None:
        # estimated bandwidth in bytes/s; None before the first sample. It moves by a quarter for each sample, at most
        self.value: float | None = None
        self._since: float | None = None  # time of the mark at which the sample that is going on began
        self._bytes = 0
        self._greatest: deque[tuple[float, float]] = deque()  # samples that no later one exceeds: time, bytes/s

    def mark(self, size: int, contiguous: bool, now: float) -> None:
        """Take a mark.

        ``size``: bytes since the mark before; ``contiguous``: whether each frame of them had to wait for the one before
        it; ``now``: time of its arrival, seconds.
        """
        if not contiguous or self._since is None or now < self._since:
            self._since, self._bytes = now, 0
            return
        self._bytes += size
        seconds = now - self._since
        if seconds < SPAN:
            return
        self._add_sample(self._bytes / seconds, now)
        self._since, self._bytes = now, 0

    def _add_sample(self, sample: float, now: float) -> None:
        greatest = self._greatest
        while greatest and greatest[-1][1] <= sample:
            greatest.pop()
        greatest.append((now, sample))
        while greatest[0][0] < now - WINDOW:
            greatest.popleft()
        most = greatest[0][1]
        if self.value is None:
            self.value = most
        else:
            self.value = min(max(most, self.value * (1.0 - STEP)), self.value * (1.0 + STEP))
