"""Stream signatures Ω: the load of a stream over time (dissertation, section 2.3.4, figure 2.9).

A signature is the recent past of a stream, a sliding window of W seconds, as segments of approximately constant mean
arrival rate, each with the load of its tuples. :class:`Signature` finds the segments online, by the tests of
:mod:`synergy_nb.models._change_points`; :func:`aggregate` adds the signatures of several streams.

No test finds a segment that is too short to estimate a rate from its few tuples. ``scv``, which Kingman's formula uses,
includes such bursts. A queue does not follow them either: the higher its load, the more tuples it takes to fill or
empty.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from synergy_nb.models._change_points import Mark, RateChanges

__all__ = ["WINDOW", "Pattern", "Pieces", "Profiled", "Segment", "Signature", "aggregate", "constant"]

WINDOW: Final = 10.0  # length of the window, seconds
SEGMENTS: Final = 1024  # largest number of past segments
PIECES: Final = 512
SHORTEST: Final = 1e-9  # share of a window: closer changes of two streams count as one

Array = npt.NDArray[np.float64]


class Segment(NamedTuple):
    """A segment z of approximately constant mean arrival rate (section 2.3.4)."""

    # start, length: start and length, seconds
    start: float
    length: float
    load: float  # mean load, seconds of work per second: a share of the peer's capacity
    rate: float = math.nan  # mean rate, tuples/s; not a number if it is unknown

    @property
    def end(self) -> float:
        """End of the segment, seconds."""
        return self.start + self.length


class Signature:
    """The signature of one stream, updated by its arrivals.

    ``start``: start of the stream, seconds; ``false_alarm``: least mean number of tuples between false alarms on a
    stream of constant rate; each adds a segment.

    Raises ``ValueError`` if a parameter is invalid, or an observation is older than the last one.

    Examples
    --------
    Ten seconds at 20 tuples/s, then ten seconds at 100, of 2 ms work each:

    >>> signature = Signature(window=20.0)
    >>> for number in range(1, 1201):
    ...     signature.observe(number / 20 if number <= 200 else 10 + (number - 200) / 100, 1, 0.002)
    >>> [(round(each.start, 1), round(each.length, 1), round(each.load, 2)) for each in signature.segments()]
    [(0.0, 10.0, 0.04), (10.0, 10.0, 0.2)]
    """

    __slots__ = ("_closed", "_rate", "window")

    def __init__(self, window: float = WINDOW, *, start: float = 0.0, false_alarm: float = 300.0) -> None:
        if not 0.0 < window < math.inf:
            raise ValueError(f"window: {window}; expected a positive number of seconds")
        self.window = window  # length W of the sliding window, seconds
        self._rate = RateChanges(window, start=start, false_alarm=false_alarm)
        self._closed: deque[Segment] = deque(maxlen=SEGMENTS)

    def observe(self, time: float, count: int = 1, work: float = 0.0) -> None:
        """Observe the tuples that have arrived since the last observation, as :meth:`.RateChanges.observe` does.

        Their work is the measurement of section 2.3.4.
        """
        rate = self._rate
        before = rate.start
        rate.observe(time, count, work)
        if rate.start is not before:
            self._closed.append(_between(before, rate.start))

    @property
    def changes(self) -> int:
        """Changes found so far."""
        return self._rate.changes

    @property
    def since(self) -> float:
        """Time of the last change of the rate, the start of the current segment, seconds."""
        return self._rate.start[0]

    @property
    def scv(self) -> float:
        """c_a² within segments, as :attr:`~.change_points.RateChanges.scv` measures it; 1 for Poisson."""
        return self._rate.scv

    def segments(self, now: float | None = None) -> tuple[Segment, ...]:
        """Segments of the window up to ``now``, by default the last observation; earliest first.

        The first may begin before the window; the last is the current one.
        """
        rate = self._rate
        if now is not None and now > rate.now[0]:
            self.observe(now, 0)
        while self._closed and self._closed[0].end <= rate.now[0] - self.window:
            self._closed.popleft()
        if rate.now[0] <= rate.start[0]:
            return tuple(self._closed)
        return (*self._closed, _between(rate.start, rate.now))


def _between(start: Mark, end: Mark) -> Segment:
    seconds = end[0] - start[0]
    return Segment(start[0], seconds, (end[2] - start[2]) / seconds, (end[1] - start[1]) / seconds)


def constant(load: float, *, start: float = 0.0, window: float = 10.0, rate: float = math.nan) -> tuple[Segment, ...]:
    """Make the signature of a stream of which only the profiled load is known.

    >>> constant(0.25)
    (Segment(start=0.0, length=10.0, load=0.25, rate=nan),)
    """
    if not 0.0 <= load < math.inf:
        raise ValueError(f"load: {load}; expected a share of the capacity from 0")
    return (Segment(start, window, load, rate),)


class Profiled(NamedTuple):
    """Profiled load of a component, as shares of a peer's capacity."""

    maximum: float
    mean: float
    minimum: float

    @classmethod
    def of(cls, segments: Sequence[Segment], spared: float = 0.05) -> Profiled:
        """Make the profile of a signature.

        The measured rate of a segment of few tuples is inaccurate, especially after a false alarm. So the maximum is
        the load that at most a share ``spared`` of the work exceeds, and the minimum is the load that is higher than
        the actual one for at most that share of the time.

        >>> Profiled.of([Segment(0.0, 1.0, 0.4), Segment(1.0, 3.0, 0.2)])
        Profiled(maximum=0.4, mean=0.25, minimum=0.2)
        >>> Profiled.of([Segment(0.0, 5.0, 0.4), Segment(5.0, 0.01, 0.9), Segment(5.01, 5.0, 0.4)]).maximum
        0.4
        """
        rising = sorted(segments, key=lambda each: each.load)
        seconds = sum(each.length for each in rising)
        work = sum(each.length * each.load for each in rising)
        above = below = 0.0
        for most in reversed(rising):
            above += most.length * most.load
            if above > spared * work:
                break
        for least in rising:
            below += least.length
            if below > spared * seconds:
                break
        return cls(most.load, min(max(work / seconds, least.load), most.load), least.load)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A repeating signature without absolute times, from a plan or a profile.

    Examples
    --------
    >>> pattern = Pattern.of([(2.0, 400.0), (8.0, 25.0)], 0.2)
    >>> pattern
    Pattern(seconds=(2.0, 8.0), loads=(0.8, 0.05))
    >>> [tuple(each)[:3] for each in pattern.until(100.0, 15.0)]
    [(80.0, 2.0, 0.8), (82.0, 8.0, 0.05), (90.0, 2.0, 0.8), (92.0, 8.0, 0.05)]
    """

    seconds: tuple[float, ...]  # lengths of the segments, seconds
    loads: tuple[float, ...]  # load of each segment, as a share of the peer's capacity

    @classmethod
    def of(cls, rates: Iterable[tuple[float, float]], load: float) -> Pattern:
        """Make the pattern of a component with this mean load, whose tuples arrive at these rates.

        ``rates``: length in seconds and rate in tuples/s of each segment; at least one rate is above 0; ``load``: mean
        load, as a share of the peer's capacity.
        """
        seconds, values = zip(*rates, strict=True)
        factor = load * sum(seconds) / sum(length * rate for length, rate in zip(seconds, values, strict=True))
        return cls(seconds, tuple(rate * factor for rate in values))

    @property
    def length(self) -> float:
        """Period of the pattern, seconds."""
        return sum(self.seconds)

    @property
    def profiled(self) -> Profiled:
        """Maximum, mean and minimum load."""
        return Profiled.of(self.until(self.length, self.length))

    def until(self, end: float, window: float) -> tuple[Segment, ...]:
        """Segments in a window of ``window`` seconds that ends at ``end``; the first may begin before the window."""
        if window > SEGMENTS * self.length:  # too short to matter for a queue
            return constant(self.profiled.mean, start=end - window, window=window)
        found: list[Segment] = []
        start, after = end, end - window + SHORTEST * window
        while start > after:
            for seconds, load in zip(reversed(self.seconds), reversed(self.loads), strict=True):
                start -= seconds
                found.append(Segment(start, seconds, load))
        return tuple(reversed(found))


class Pieces(NamedTuple):
    """A window cut into pieces, and the loads of several streams in each."""

    start: float  # start of the first piece, seconds
    lengths: Array  # lengths of the pieces in seconds, shape (pieces,)
    loads: Array  # loads as shares of the peer's capacity, shape (streams, pieces)

    @property
    def total(self) -> Array:
        """Load of all streams together, shape (pieces,): figure 2.9 c."""
        return np.asarray(self.loads.sum(axis=0), dtype=np.float64)


def aggregate(
    signatures: Sequence[Sequence[Segment]],
    start: float,
    window: float,
    cut: Literal["every", "shortest"] = "every",
) -> Pieces:
    """Add signatures (figure 2.9).

    Parameters
    ----------
    signatures
        Segments of each stream, earliest first; at least one per stream. Time that they do not cover has their mean
        load.
    start, window
        Start and length of the window, seconds.
    cut
        Rule for the pieces. ``every``: a new piece wherever a stream changes its rate, so that no burst is averaged
        with its surroundings; peers do so. ``shortest``: ceil(W / w) pieces of the length w of the shortest complete
        segment, as in the dissertation; a piece in which a stream changes its rate gets the mean. Claims C13 and C14
        show it as a reading, and streams that change more than 511 times are cut so.

    Returns
    -------
    Pieces
        Pieces, at most 512: w is at least W / 512.

    Examples
    --------
    >>> one = [Segment(0, 4, 0.2), Segment(4, 4, 0.6)]
    >>> two = [Segment(0, 2, 0.1), Segment(2, 4, 0.3), Segment(6, 2, 0.1)]
    >>> aggregate([one, two], 0.0, 8.0, "shortest").total.round(3).tolist()
    [0.3, 0.5, 0.9, 0.7]
    >>> aggregate([one, [Segment(0, 3, 0.1), Segment(3, 5, 0.3)]], 0.0, 8.0).lengths.tolist()
    [3.0, 1.0, 4.0]
    """
    if not 0.0 < window < math.inf or not signatures or not all(signatures):
        found = f"window, signatures: {window}, {[len(each) for each in signatures]} segments"
        raise ValueError(f"{found}; expected a positive number of seconds, and segments")
    end = start + window
    edges: Array
    if cut == "every":
        inner = np.array(sorted({each.end for segments in signatures for each in segments} | {start}))
        inner = inner[(inner >= start) & (inner < end - SHORTEST * window)]
        edges = np.append(inner[np.diff(inner, prepend=-math.inf) > SHORTEST * window], end)
    if cut != "every" or len(edges) > PIECES + 1:
        whole = [each.length for segments in signatures for each in segments if start < each.end < end]
        shortest = max(min(whole, default=window), window / PIECES)
        count = max(math.ceil(window / shortest - 1e-9), 1)
        edges = np.append(start + shortest * np.arange(count), end)
    lengths = np.diff(edges)
    loads = np.empty((len(signatures), len(lengths)))
    for row, segments in zip(loads, signatures, strict=True):
        seconds = np.array([each.length for each in segments])
        work = np.concatenate([[0.0], np.cumsum([each.length * each.load for each in segments])])
        times = np.append([each.start for each in segments], segments[-1].end)
        covered = np.clip(edges, times[0], times[-1])
        mean = work[-1] / seconds.sum()
        row[:] = (np.diff(np.interp(covered, times, work)) + mean * (lengths - np.diff(covered))) / lengths
    return Pieces(start, lengths, np.maximum(loads, 0.0))
