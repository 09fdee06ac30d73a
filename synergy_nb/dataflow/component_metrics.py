"""What is measured of a component while it works: rates, times, load and its signature. No IO, no clock."""

from __future__ import annotations

import math
from typing import Any, Final

from synergy_nb.dataflow.memory_shares import Share
from synergy_nb.dataflow.meters import Ewma, Rate, UnitCost
from synergy_nb.models.signatures import WINDOW, Segment, Signature

__all__ = ["RESOLUTION", "ComponentMetrics"]

#: Seconds between two observations of a signature: tuples come in batches, and of less time no mean load can be told.
RESOLUTION: Final = 0.25


class _Signed:
    """The signature of what comes in or goes out, with an observation every :data:`RESOLUTION` seconds at most.

    It begins with the first tuples if these come later than a window after the time at which it was made.
    """

    def __init__(self, now: float) -> None:
        self._signature = Signature(start=now)
        self._until, self._tuples = now, 0
        self._begun = False

    def add(self, tuples: int, now: float, tuple_s: float = 0.0) -> None:
        """So many tuples more, each of which takes so many seconds."""
        if not self._begun:
            if not tuples:
                return
            self._begun = True
            if now > self._until + WINDOW:
                self._signature, self._until = Signature(start=now), now
                return
        self._tuples += tuples
        if now >= self._until + RESOLUTION:
            self._signature.observe(now, self._tuples, self._tuples * tuple_s)
            self._until, self._tuples = now, 0

    def segments(self, now: float, tuple_s: float = 0.0) -> tuple[Segment, ...]:
        """Its segments up to now, the earliest first."""
        self.add(0, now, tuple_s)
        return self._signature.segments()


class ComponentMetrics:
    """What is measured of a component.

    Parameters
    ----------
    measure_s
        Seconds over which rates and loads are averaged.
    share
        Share of the memory of the peer: the bytes that the component may hold.
    now
        Time at which it begins, in seconds.
    """

    def __init__(self, *, measure_s: float, share: Share, now: float) -> None:
        self.share = share
        self.kind = ""  # of its operator
        self.stream = ""  # name of its stream
        self.elsewhere = False  # executed by another engine, which says itself what it took
        self.arrivals = Rate(measure_s, now)
        self._taken, self._given = _Signed(now), _Signed(now)
        self.departures = Rate(measure_s, now)
        self.busy = Rate(measure_s, now)
        self.tuple_s = Ewma()
        self.unit = UnitCost()
        self.planned_s = 0.0  # seconds that its plan counts for a tuple
        self.batch_s = Ewma()
        self.queueing = Ewma()
        self.spent_s = 0.0
        self.late = 0
        self.dropped = 0  # tuples whose deadline had passed
        self.tuples_in = 0
        self.tuples_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def arrived(self, tuples: int, now: float) -> None:
        """``tuples`` have come in that were not there before."""
        self.arrivals.add(tuples, now)
        self._taken.add(tuples, now, self._tuple_s)

    def departed(self, tuples: int, now: float) -> None:
        """``tuples`` of its stream have been made."""
        self.departures.add(tuples, now)
        self._given.add(tuples, now)

    def segments(self, now: float) -> tuple[Segment, ...]:
        """Its load lately as a signature (section 2.3.4), in cores: segments of constant load, the earliest first."""
        return self._taken.segments(now, self._tuple_s)

    def stream_segments(self, now: float) -> tuple[Segment, ...]:
        """The signature of its stream, of rates: its loads are nought, as these are the readers'."""
        return self._given.segments(now)

    @property
    def _tuple_s(self) -> float:
        """Seconds that one more tuple takes, as far as executions tell."""
        cost = self.unit.seconds
        return self.planned_s if cost is None else cost

    def executed(self, tuples: int, seconds: float, finished: float) -> None:
        """``tuples`` were executed together within ``seconds``, until ``finished``."""
        self.spent_s += seconds
        self.busy.add(seconds, finished)
        if tuples:
            self.tuple_s.add(seconds / tuples, tuples)
            self.unit.add(tuples, seconds)
            self.batch_s.add(seconds)

    def _cost(self) -> float | None:
        cost = self.unit.seconds
        if cost is None or self.elsewhere:
            return None
        return cost + max(self.spent_s - self.tuple_s.total, 0.0) / self.tuple_s.count

    def measurements(self, now: float) -> dict[str, Any]:
        """What was measured, as plain values: seconds, bytes, tuples/s, cores.

        ``cost`` is what one more tuple takes here, in seconds, see :class:`~synergy_nb.dataflow.meters.UnitCost`,
        with what punctuations took; other than in ``processing_s``, what a batch costs beside its tuples is left out.
        It is None where executions do not tell, or another engine executes.
        """
        executed = self.tuples_in - self.dropped
        return {
            "kind": self.kind,
            "stream": self.stream,
            "tuples_in": self.tuples_in,
            "tuples_out": self.tuples_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "rate": self.arrivals.per_second(now),
            "output_rate": self.departures.per_second(now),
            "processing_s": self.tuple_s.mean,
            "batch_s": self.batch_s.mean,
            "queueing_s": self.queueing.mean,
            "load": self.busy.per_second(now),
            "memory_bytes": self.share.held,
            "memory_share": self.share.limit if self.share.limit < math.inf else None,
            "late": self.late,
            "dropped": self.dropped,
            "cost": self._cost(),
            "selectivity": self.tuples_out / executed if executed > 0 else None,
        }
