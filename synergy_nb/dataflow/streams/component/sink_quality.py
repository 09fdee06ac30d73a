"""Quality of service at a sink: delays, misses and rates of its tuples, so far and since the last measurement.

No IO and no clock: drivers say when a tuple has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from synergy_nb.dataflow.meters import DelayHistogram
from synergy_nb.dataflow.streams.log.values import Chunk, Loss
from synergy_nb.dataflow.tuples import END

__all__ = ["SinkQuality"]


class SinkQuality:
    """Quality of service at one sink of an application."""

    def __init__(
        self,
        operator: str,  # operator id of the sink
        *,
        limit: float | None,  # delay limit in seconds, or None
        now: float,  # time at which it starts, in seconds
        # function that returns the number of results lost because of dropped tuples
        lost: Callable[[Iterable[Loss]], float] = lambda _: 0.0,
    ) -> None:
        self.operator = operator
        self.limit = limit
        self.ended = False  # whether the end of the stream has arrived
        self.halted = False  # whether it accepts no more tuples
        self.reported = False  # whether the record with the end was reported
        # past, recent: delays and bytes of tuples before the present interval, and in it
        self._past, self._past_bytes = DelayHistogram(limit), 0
        self._recent, self._recent_bytes = DelayHistogram(limit), 0
        self._lost_of = lost
        self._losses: tuple[Loss, ...] = ()
        self._lost_before = 0.0  # lost results before the last interval
        self._first: float | None = None  # time at which its first tuple entered the system
        self._last = now
        self._since = now

    @property
    def unmeasured(self) -> bool:
        """Whether, since the last interval, tuples or the end of the stream arrived, or tuples were dropped."""
        return self._recent.count > 0 or self._lost > self._lost_before or (self.ended and not self.reported)

    @property
    def _lost(self) -> float:
        """Return the number of results lost because of dropped tuples."""
        return self._lost_of(self._losses) if self._losses else 0.0

    def measure(self, *, rows: int, size: int, born: float, now: float) -> None:
        """Count the arrival of ``rows`` tuples of ``size`` bytes that entered the system at ``born``."""
        if self.halted:
            return
        self._recent.add(now - born, rows)
        self._recent_bytes += size
        self._first = born if self._first is None else min(self._first, born)
        self._last = now

    def arrived(self, chunks: list[Chunk], now: float, losses: tuple[Loss, ...] = ()) -> bool:
        """Count chunks that arrived, or were dropped; True if the end of the stream is among them.

        ``chunks``: chunks in the sink's output; ``losses``: tuples dropped so far, here and upstream.
        """
        ends = False
        if losses and not self.halted:
            self._losses = losses
        for chunk in chunks:
            if chunk.rows:
                self.measure(rows=chunk.rows, size=chunk.item.nbytes, born=chunk.born, now=now)  # type: ignore[union-attr]
            elif chunk.end.until == END and not self.halted and not self.ended:
                self.ended = ends = True
        return ends

    @property
    def mean_delay(self) -> float | None:
        """Mean delay of the tuples so far, seconds; None before the first."""
        count = self._past.count + self._recent.count
        return (self._past.total + self._recent.total) / count if count else None

    def qos(self) -> dict[str, Any]:
        """Return the quality of service so far, as :class:`~synergy_nb.events.SinkMeasured` describes it."""
        seconds = 0.0 if self._first is None else self._last - self._first
        every = DelayHistogram(self.limit)
        every.include(self._past)
        every.include(self._recent)
        return self._record(every, self._past_bytes + self._recent_bytes, seconds, self._lost)

    def interval(self, now: float) -> dict[str, Any]:
        """Return the quality of service since the last call; delays are None if no tuple has arrived."""
        self.reported = self.ended
        lost = self._lost
        record = self._record(self._recent, self._recent_bytes, now - self._since, lost - self._lost_before)
        self._lost_before = lost
        self._past.include(self._recent)
        self._past_bytes += self._recent_bytes
        self._recent, self._recent_bytes = DelayHistogram(self.limit), 0
        self._since = now
        return record

    def _record(self, delays: DelayHistogram, size: int, seconds: float, lost: float) -> dict[str, Any]:
        lost, all_lost = max(lost, 0.0), self._lost
        every = delays.count + lost
        p50, p95, p99 = delays.quantiles(0.50, 0.95, 0.99)
        return {
            "operator": self.operator,
            "delay_p50_s": p50,
            "delay_p95_s": p95,
            "delay_p99_s": p99,
            "delay_mean_s": delays.mean,
            "delay_max_s": delays.most,
            "miss_rate": (delays.missed + lost) / every if self.limit is not None and every else None,
            "limit_s": self.limit,
            "tuples_per_s": delays.count / seconds if seconds > 0.0 else 0.0,
            "bytes_per_s": size / seconds if seconds > 0.0 else 0.0,
            "tuples": self._past.count + self._recent.count,
            "finished": self.ended,
            "dropped": {loss.operator: loss.dropped for loss in self._losses if loss.dropped},
            "lost": all_lost,
        }
