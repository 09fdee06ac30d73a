"""An operator's instance on a peer: its channels, whether it runs, and what is measured of it. No IO, no clock."""

from __future__ import annotations

import math
from typing import Any

from synergy_nb.dataflow.channels import Inlet, Outlet
from synergy_nb.dataflow.measures import Ewma, Rate

__all__ = ["Component"]


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
    now
        Time at which it begins, in seconds.
    """

    def __init__(
        self, application: str, operator: str, *, limit: float | None, remaining: float, measure_s: float, now: float
    ) -> None:
        self.application = application
        self.operator = operator
        self.limit = math.inf if limit is None else limit
        self.remaining = remaining
        self.inlets: list[Inlet] = []
        self.outlets: list[Outlet] = []
        self.stream = ""  # name of its stream
        self.running = False
        self.paused = False  # takes nothing more at the moment
        self.elsewhere = False  # executed by another engine, which says itself what it took
        self.removed = False
        self.arrivals = Rate(measure_s, now)
        self.departures = Rate(measure_s, now)
        self.busy = Rate(measure_s, now)
        self.tuple_s = Ewma()
        self.batch_s = Ewma()
        self.queueing = Ewma()
        self.works = 0
        self.late = 0
        self.tuples_in = 0
        self.tuples_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> bool:
        """Whether everything downstream has room for what this component produces."""
        return all(outlet.open for outlet in self.outlets)

    def executed(self, tuples: int, seconds: float, finished: float) -> None:
        """``tuples`` were executed together within ``seconds``, until ``finished``."""
        self.works += 1
        self.busy.add(seconds, finished)
        if tuples:
            self.tuple_s.add(seconds / tuples, tuples)
            self.batch_s.add(seconds)

    def stats(self, now: float) -> dict[str, Any]:
        """What was measured, as plain values: seconds, bytes, tuples/s, cores."""
        return {
            "application": self.application,
            "operator": self.operator,
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
            "queue_bytes": sum(inlet.queued for inlet in self.inlets),
            "queue_tuples": sum(parcel.fresh for inlet in self.inlets for _, _, parcel in inlet.queue),
            "late": self.late,
            "selectivity": self.tuples_out / self.tuples_in if self.tuples_in else None,
        }
