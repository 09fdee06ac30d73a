"""Smoothed round-trip times to other peers.

Theory of operation
-------------------
Acknowledgements of pings and of routed messages give samples of round-trip times. Each sample updates a smoothed mean
and mean deviation of its peer, with the gains of Jacobson and Karels (RFC 6298: 1/8 and 1/4); both give a
retransmission timeout. Routing tables prefer the nearer of two candidates (Pastry, section 2.5), probes choose near
hosts (dissertation, section 2.3.1, "delay monitoring service"), and a one-way delay is estimated as half the round
trip.

Acknowledgements of routed messages wait until a busy peer handles them, and arrive in bursts while a plan is composed:
half of such a round trip was measured as 1.4 ms, half of a ping's as 0.56 ms, and the delay of a data frame as 0.51 ms.
So the delay of data is estimated from pings alone (:meth:`Latency.one_way_overhead`).

This is a data structure of bounded size, without messages and clock.

References
----------
.. [1] A. Rowstron and P. Druschel, "Pastry: Scalable, decentralized object location and routing for large-scale
   peer-to-peer systems", Middleware 2001.
.. [2] V. Paxson, M. Allman, J. Chu and M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298, 2011.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from synergy_nb.models.overheads import ExponentialMoments, Overhead

__all__ = ["Latency"]

MEAN_GAIN: Final = 1 / 8  # RFC 6298, section 2.3
DEVIATION_GAIN: Final = 1 / 4
INFINITE: Final = float("inf")
PINGS: Final = 16  # latest pings to a peer, of about half a minute, from which the delay of its data is estimated


class Latency:
    """Smoothed round-trip times to other peers.

    Examples
    --------
    >>> latency = Latency()
    >>> latency.sample("b", 0.100)
    >>> latency.sample("b", 0.060)
    >>> round(latency.rtt("b"), 4), round(latency.one_way("b"), 4)
    (0.095, 0.0475)
    >>> latency.rtt("c") is None
    True
    """

    __slots__ = ("_measured", "_pinged", "capacity", "ceiling", "floor", "unknown")

    def __init__(self, capacity: int = 4096, unknown: float = 0.5, floor: float = 0.15, ceiling: float = 3.0) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} peers; expected at least 1")
        if not 0 < floor <= unknown <= ceiling:
            raise ValueError(f"floor, unknown, ceiling: {floor}, {unknown}, {ceiling} s; expected rising and positive")
        # maximum number of peers; beyond it, the peer whose first sample is oldest is discarded
        self.capacity = capacity
        self.unknown = unknown  # retransmission timeout of a peer that was never measured, seconds
        # floor, ceiling: bounds of every retransmission timeout, seconds
        self.floor = floor
        self.ceiling = ceiling
        self._measured: dict[str, list[float]] = {}  # address to [mean, mean deviation], both in seconds
        self._pinged: dict[str, ExponentialMoments] = {}  # half of the round trips of pings, in seconds

    def __len__(self) -> int:
        return len(self._measured)

    def __contains__(self, address: str) -> bool:
        return address in self._measured

    def sample(self, address: str, seconds: float) -> None:
        """Add a round trip to ``address`` of ``seconds``, limited to the ceiling, to its mean and deviation."""
        seconds = max(0.0, min(seconds, self.ceiling))
        measured = self._measured.get(address)
        if measured is None:
            if len(self._measured) >= self.capacity:
                self.forget(next(iter(self._measured)))
            self._measured[address] = [seconds, seconds / 2]
            return
        error = seconds - measured[0]
        measured[0] += MEAN_GAIN * error
        measured[1] += DEVIATION_GAIN * (abs(error) - measured[1])

    def ping(self, address: str, seconds: float) -> None:
        """Add the round trip of a ping, in seconds: a sample like others, which also estimates the delay of data."""
        self.sample(address, seconds)
        pinged = self._pinged.get(address)
        if pinged is None:
            pinged = self._pinged[address] = ExponentialMoments(PINGS)
        pinged.add(min(max(seconds, 0.0), self.ceiling) / 2.0)

    def one_way_overhead(self, address: str) -> Overhead | None:
        """Mean delay of one direction in seconds, and its variance in seconds squared, by pings; None without any.

        Both directions are independent and alike, so a half of their sum has half of the variance of each.
        """
        pinged = self._pinged.get(address)
        return None if pinged is None else Overhead(pinged.mean, 2.0 * pinged.variance)

    def rtt(self, address: str) -> float | None:
        """Smoothed round-trip time in seconds, or None when never measured."""
        measured = self._measured.get(address)
        return None if measured is None else measured[0]

    def one_way(self, address: str) -> float | None:
        """Estimated delay of one direction in seconds: half the round trip; None when never measured."""
        measured = self._measured.get(address)
        return None if measured is None else measured[0] / 2

    def deviation(self, address: str) -> float:
        """Estimated standard deviation of the delay of one direction in seconds; 0 when never measured.

        The mean deviation of a normal distribution is 0.8 of its standard deviation, and those of both directions add
        up as variances do.
        """
        measured = self._measured.get(address)
        return 0.0 if measured is None else measured[1] / 0.8 / math.sqrt(2.0)

    def timeout(self, address: str) -> float:
        """Seconds after which an answer from ``address`` is overdue: mean plus four mean deviations, bounded."""
        measured = self._measured.get(address)
        if measured is None:
            return self.unknown
        seconds = measured[0] + 4 * measured[1]
        return self.floor if seconds < self.floor else min(seconds, self.ceiling)

    def nearest(self, addresses: Iterable[str], limit: int) -> list[str]:
        """At most ``limit`` of ``addresses``, nearest first; unmeasured ones last, in the order given."""
        measured = self._measured
        return sorted(addresses, key=lambda address: measured[address][0] if address in measured else INFINITE)[:limit]

    def forget(self, address: str) -> None:
        """Discard the samples of ``address``; no effect if there are none."""
        self._measured.pop(address, None)
        self._pinged.pop(address, None)
