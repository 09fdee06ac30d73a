"""An operator's instance on a peer: its channels, whether it runs, and what is measured of it. No IO, no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from synergy_nb.dataflow.channels import Inlet, Outlet, Parcel
from synergy_nb.dataflow.measuring import RESOLUTION, Measured
from synergy_nb.dataflow.memory import Share
from synergy_nb.dataflow.tuples import END

__all__ = ["RESOLUTION", "Component", "Reader"]


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


class Component(Measured):
    """An operator's instance on this peer, and what is measured of it; made by ``Hosting.add``.

    Parameters
    ----------
    application, operator
        Application and operator that it executes.
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
        super().__init__(measure_s=measure_s, share=share, now=now)
        self.application = application
        self.operator = operator
        self.limit = math.inf if limit is None else limit
        self.remaining = remaining
        self.inlets: list[Inlet] = []
        self.outlets: list[Outlet] = []
        self.taps: list[Reader] = []
        self.position = 0  # in its stream, of what leaves next
        self.until: int | None = None  # event time of the last punctuation that has left
        self.running = False
        self.unfinished = False  # has not made all that its last items come to
        self.paused = False  # takes nothing more at the moment
        self.removed = False

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

    def stats(self, now: float) -> dict[str, Any]:
        """What was measured, see :meth:`~synergy_nb.dataflow.measuring.Measured.measurements`, and what waits."""
        return {
            "application": self.application,
            "operator": self.operator,
            **self.measurements(now),
            "queue_bytes": sum(inlet.queued for inlet in self.inlets),
            "queue_tuples": sum(parcel.fresh for inlet in self.inlets for _, _, parcel in inlet.queue),
        }
