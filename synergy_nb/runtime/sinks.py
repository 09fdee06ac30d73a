"""The end of a stream: how long its tuples took, and the results until the client fetches them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.measures import DelayHistogram
from synergy_nb.dataflow.tuples import END

__all__ = ["Sink", "Sinks"]


class Sink:
    """Results of one sink of an application, and the quality of service that it sees.

    The client is the reader of a channel like any other: what it has not fetched takes from the channel's window, and a
    full window stops the sink, and so all that is upstream of it. Nothing is dropped.

    Parameters
    ----------
    application, operator
        Whose sink it is, and its operator id.
    channel
        Channel of its results, in ``hosting``.
    limit
        Delay limit in seconds, or None.
    now
        Time at which it begins, in seconds.
    """

    def __init__(self, application: str, operator: str, channel: str, *, limit: float | None, now: float) -> None:
        self.application = application
        self.operator = operator
        self.channel = channel
        self.limit = limit
        self.ended = False
        self.halted = False  # whether it takes no more tuples
        self.reported = False  # whether the record with the end was given
        self.fetched = 0  # bytes since it began
        self._results: deque[Parcel] = deque()
        self._news = asyncio.Event()
        self._delays = DelayHistogram(limit)
        self._recent = DelayHistogram(limit)
        self._bytes = 0
        self._recent_bytes = 0
        self._first: float | None = None  # when the first tuple that reached it had entered the system
        self._last = now
        self._since = now

    @property
    def unmeasured(self) -> bool:
        """Whether tuples, or the end of the stream, have come since the last interval."""
        return self._recent.count > 0 or (self.ended and not self.reported)

    def measure(self, *, rows: int, size: int, born: float, now: float) -> None:
        """``rows`` tuples of ``size`` bytes that entered the system at ``born`` have arrived."""
        if self.halted:
            return
        delay = now - born
        self._delays.add(delay, rows)
        self._recent.add(delay, rows)
        self._bytes += size
        self._recent_bytes += size
        self._first = born if self._first is None else min(self._first, born)
        self._last = now

    def keep(self, parcel: Parcel) -> None:
        """Keep a result until it is fetched; punctuations end with the sink, but for the last."""
        if parcel.time is None and not self.halted:
            self._results.append(parcel)
        else:
            self.fetched += parcel.size
            self.ended = self.ended or (parcel.time == END and not self.halted)
        if self._results or self.ended:
            self._news.set()

    async def arrival(self, seconds: float) -> None:
        """Return when there is something to fetch, or the stream has ended; at the latest after ``seconds``."""
        if not self._results and not self.ended:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._news.set()

    def fetch(self, max_bytes: int) -> tuple[list[bytes], bool]:
        """Encoded batches of at most ``max_bytes`` (but at least one), oldest first, and whether these are the last."""
        taken: list[bytes] = []
        size = 0
        while self._results and (not taken or size + self._results[0].size <= max_bytes):
            parcel = self._results.popleft()
            size += parcel.size
            if parcel.payload is not None:
                taken.append(parcel.payload)
        self.fetched += size
        return taken, self.ended and not self._results

    def qos(self) -> dict[str, Any]:
        """Quality of service since it began: delays in seconds (quantiles within 1 %), shares, tuples/s and bytes/s."""
        seconds = 0.0 if self._first is None else self._last - self._first
        return self._record(self._delays, self._bytes, seconds)

    def interval(self, now: float) -> dict[str, Any]:
        """Quality of service since the last call; delays are None if no tuple has arrived."""
        self.reported = self.ended
        record = self._record(self._recent, self._recent_bytes, now - self._since)
        self._recent = DelayHistogram(self.limit)
        self._recent_bytes = 0
        self._since = now
        return record

    def _record(self, delays: DelayHistogram, size: int, seconds: float) -> dict[str, Any]:
        return {
            "operator": self.operator,
            "delay_p50_s": delays.quantile(0.50),
            "delay_p95_s": delays.quantile(0.95),
            "delay_p99_s": delays.quantile(0.99),
            "delay_mean_s": delays.mean,
            "delay_max_s": delays.most,
            "miss_rate": delays.miss_rate if self.limit is not None else None,
            "limit_s": self.limit,
            "tuples_per_s": delays.count / seconds if seconds > 0.0 else 0.0,
            "bytes_per_s": size / seconds if seconds > 0.0 else 0.0,
            "tuples": self._delays.count,
            "finished": self.ended,
        }


class Sinks:
    """The sinks of one peer, whose quality of service is journaled as ``qos`` and reported as long as there are any.

    Parameters
    ----------
    loop, clock, record
        Event loop of the peer, its clock in seconds, and the function that journals an event.
    measured
        Called with (application, operator, record) of each sink, see :meth:`Sink.interval`.
    every
        Seconds between two measurements.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Callable[..., None],
        measured: Callable[[str, str, dict[str, Any]], None] | None,
        every: float,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._record = record
        self._measured = measured
        self._every = every
        self._sinks: dict[tuple[str, str], Sink] = {}
        self.timer: asyncio.TimerHandle | None = None

    def add(self, sink: Sink) -> None:
        """Measure one more."""
        self._sinks[sink.application, sink.operator] = sink
        if self.timer is None:
            self.timer = self._loop.call_later(self._every, self._tick)

    def remove(self, sink: Sink) -> None:
        """Remove a sink with its results; requests that wait for these wait no longer.

        The tuples that have reached it since the last measurement are journaled first, since a fast stream may end
        before its first measurement.
        """
        if sink.unmeasured:
            self._record("qos", sink.application, **sink.interval(self._clock()))
        del self._sinks[sink.application, sink.operator]
        sink.close()
        if not self._sinks and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def find(self, application: str, operator: str | None) -> Sink:
        """The sink of an application; None: the only one that it has here.

        Raises
        ------
        LookupError
            If there is no such sink.
        """
        sinks = [
            sink for (owner, name), sink in self._sinks.items() if owner == application and operator in (None, name)
        ]
        if len(sinks) != 1:
            found = ", ".join(sink.operator for sink in sinks) or "none"
            raise LookupError(f"application {application!r}: sink {operator!r}: found {found}; expected exactly one")
        return sinks[0]

    def halt(self, application: str) -> None:
        """Measure the sinks of an application for the last time; what reaches them from here on is dropped."""
        halted = [sink for (owner, _), sink in self._sinks.items() if owner == application]
        for sink in halted:
            sink.halted = True
        if halted:
            self.measure(*halted)

    def measure(self, *sinks: Sink) -> None:
        """Journal and report what sinks have measured since the last time; by default for all sinks."""
        now = self._clock()
        for sink in sinks or tuple(self._sinks.values()):
            if sink.reported:
                continue
            record = sink.interval(now)
            self._record("qos", sink.application, **record)
            if self._measured is not None:
                self._measured(sink.application, sink.operator, record)

    def _tick(self) -> None:
        self.timer = self._loop.call_later(self._every, self._tick)
        self.measure()
