"""An operator's instance on a peer: its channels, whether it runs, and what is measured of it. No IO, no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from synergy_nb.dataflow.channels import Inlet, Outlet, Parcel
from synergy_nb.dataflow.measures import Ewma, Rate, UnitCost
from synergy_nb.dataflow.memory import Share
from synergy_nb.dataflow.tuples import END
from synergy_nb.signatures import Segment, Signature

__all__ = ["RESOLUTION", "Component", "Reader"]

#: Seconds between two observations of a signature: tuples come in batches, and of less time no mean load can be told.
RESOLUTION: Final = 0.25


class Reader(Protocol):
    """Who reads a component's stream without a channel of it: it is given all that leaves, and never stops anybody."""

    @property
    def wire(self) -> bool:
        """Whether it wants parcels in their encoded form."""

    @property
    def open(self) -> bool:
        """Whether it keeps up."""

    def take(self, parcels: Sequence[Parcel]) -> None:
        """Take what leaves the component; the parcels are the very ones that others get."""

    def lose(self, why: str) -> None:
        """The component has gone, and with it the stream unless it has ended."""


class Component:
    """An operator's instance on this peer, and what is measured of it; made by ``Hosting.add``.

    Parameters
    ----------
    application, operator
        Whose and which operator it executes.
    limit
        Delay limit of the application in seconds, or None.
    remaining
        Predicted processing time downstream of it, in seconds a tuple.
    measure_s
        Time over which rates and loads are averaged, in seconds.
    share
        Share of the memory of the peer: the bytes that the component may hold.
    now
        Time at which it begins, in seconds.
    """

    def __init__(
        self,
        application: str,
        operator: str,
        *,
        limit: float | None,
        remaining: float,
        measure_s: float,
        share: Share,
        now: float,
    ) -> None:
        self.application = application
        self.operator = operator
        self.limit = math.inf if limit is None else limit
        self.remaining = remaining
        self.share = share
        self.inlets: list[Inlet] = []
        self.outlets: list[Outlet] = []
        self.taps: list[Reader] = []
        self.kind = ""  # of its operator
        self.stream = ""  # name of its stream
        self.position = 0  # in its stream, of what leaves next
        self.until: int | None = None  # event time of the last punctuation that has left
        self.running = False
        self.unfinished = False  # has not made all that its last items come to
        self.paused = False  # takes nothing more at the moment
        self.elsewhere = False  # executed by another engine, which says itself what it took
        self.removed = False
        self.arrivals = Rate(measure_s, now)
        self._signature = Signature(start=now)  # of the load that arrives
        self._signed, self._unsigned = now, 0  # until when, and tuples since
        self.departures = Rate(measure_s, now)
        self.busy = Rate(measure_s, now)
        self.tuple_s = Ewma()
        self.unit = UnitCost()
        self.planned_s = 0.0  # seconds that its plan counts for a tuple
        self.batch_s = Ewma()
        self.queueing = Ewma()
        self.works = 0
        self.spent_s = 0.0
        self.late = 0
        self.tuples_in = 0
        self.tuples_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> bool:
        """Whether everything downstream has room for what this component produces.

        Those who share its stream have no say in that, as long as it has consumers of its own. Once it goes on for them
        alone, the one that is ahead of the others sets the pace: faster than all of them would help nobody.
        """
        if self.outlets or not self.taps:
            return all(outlet.open for outlet in self.outlets)
        return any(tap.open for tap in self.taps)

    @property
    def ended(self) -> bool:
        """Whether the end of its stream has left."""
        return self.until == END

    def produced(self, parcels: Sequence[Parcel], now: float) -> None:
        """``parcels``, the next of its stream, leave it."""
        rows = 0
        for parcel in parcels:
            rows += parcel.rows
            self.bytes_out += parcel.size
            self.position = parcel.position + parcel.rows
            if parcel.time is not None:
                self.until = parcel.time
        self.tuples_out += rows
        self.departures.add(rows, now)
        for tap in tuple(self.taps):  # it leaves when it has all
            tap.take(parcels)

    def arrived(self, tuples: int, now: float) -> None:
        """``tuples`` have come in that were not there before."""
        self.arrivals.add(tuples, now)
        self._unsigned += tuples
        if now >= self._signed + RESOLUTION:
            self._sign(now)

    def segments(self, now: float) -> tuple[Segment, ...]:
        """Its load lately as a signature (section 2.3.4), in cores: segments of constant load, the earliest first."""
        if now >= self._signed + RESOLUTION:
            self._sign(now)
        return self._signature.segments()

    def _sign(self, now: float) -> None:
        cost = self.unit.seconds
        self._signature.observe(now, self._unsigned, self._unsigned * (self.planned_s if cost is None else cost))
        self._signed, self._unsigned = now, 0

    def executed(self, tuples: int, seconds: float, finished: float) -> None:
        """``tuples`` were executed together within ``seconds``, until ``finished``."""
        self.works += 1
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

    def stats(self, now: float) -> dict[str, Any]:
        """What was measured, as plain values: seconds, bytes, tuples/s, cores.

        ``cost`` is what one more tuple takes here, in seconds, see :class:`UnitCost`, with what punctuations took;
        other than in ``processing_s``, what a batch costs beside its tuples is left out. It is None where executions
        do not tell, or another engine executes.
        """
        return {
            "application": self.application,
            "operator": self.operator,
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
            "queue_bytes": sum(inlet.queued for inlet in self.inlets),
            "queue_tuples": sum(parcel.fresh for inlet in self.inlets for _, _, parcel in inlet.queue),
            "late": self.late,
            "cost": self._cost(),
            "selectivity": self.tuples_out / self.tuples_in if self.tuples_in else None,
        }
