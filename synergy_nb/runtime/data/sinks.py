"""The end of a stream: how long its tuples took, and which of its results a client has been given.

Results stay in the log of the sink's component until a client is given them. A full log stops the sink, and so all
that is upstream of it: nothing is dropped. What a reader was given last is kept here until it says that it has that: a
reader that is never heard of again stops nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypedDict

from synergy_nb.dataflow.meters import DelayHistogram
from synergy_nb.dataflow.streams.values import ORIGIN, Chunk, Loss, Point
from synergy_nb.dataflow.tuples import END
from synergy_nb.events import Recorder, SinkMeasured

__all__ = ["Portion", "Quality", "Sink", "Sinks"]

READERS: Final = (
    4  # readers whose last portion may be asked for again; what an earlier one was given counts as received
)


class Portion(NamedTuple):
    """Results of a sink that one reader is given.

    Parameters
    ----------
    items
        Encoded batches, the oldest first.
    start, end
        Places in the sink's stream between which they are.
    finished
        Whether nothing follows.
    """

    items: list[bytes]
    start: Point
    end: Point
    finished: bool


class Quality(TypedDict):
    """Quality of service at a sink, with the fields of :class:`~synergy_nb.events.SinkMeasured`."""

    operator: str
    delay_p50_s: float | None
    delay_p95_s: float | None
    delay_p99_s: float | None
    delay_mean_s: float | None
    delay_max_s: float | None
    miss_rate: float | None
    limit_s: float | None
    tuples_per_s: float
    bytes_per_s: float
    tuples: int
    finished: bool
    dropped: dict[str, int]
    lost: float


class Sink:
    """One sink of an application: the quality of service that it sees, and who was given which of its results.

    Parameters
    ----------
    application, operator
        Application and operator of the sink.
    limit
        Delay limit in seconds, or None.
    now
        Time at which it begins, in seconds.
    lost
        Gives the number of results that dropped tuples would have become.

    Attributes
    ----------
    given : Point
        Place up to which results have been given to some reader.
    """

    def __init__(
        self,
        application: str,
        operator: str,
        *,
        limit: float | None,
        now: float,
        lost: Callable[[Iterable[Loss]], float] = lambda _: 0.0,
    ) -> None:
        self.application = application
        self.operator = operator
        self.limit = limit
        self.ended = False
        self.halted = False  # whether it takes no more tuples
        self.reported = False  # whether the record with the end was given
        self.given = ORIGIN
        self.upto: Point | None = None  # place behind which nothing is given
        self._portions: dict[str, Portion] = {}  # reader to what it was given last and has not said to have
        self._news = asyncio.Event()
        self._delays = DelayHistogram(limit)
        self._recent = DelayHistogram(limit)
        self._bytes = 0
        self._recent_bytes = 0
        self._lost_of = lost
        self._losses: tuple[Loss, ...] = ()
        self._lost_before = 0.0  # until the last interval
        self._first: float | None = None  # when the first tuple that reached it had entered the system
        self._last = now
        self._since = now

    @property
    def unmeasured(self) -> bool:
        """Whether tuples, or the end of the stream, have come since the last interval, or tuples were dropped."""
        return self._recent.count > 0 or self._lost > self._lost_before or (self.ended and not self.reported)

    @property
    def _lost(self) -> float:
        """Number of results that dropped tuples would have become."""
        return self._lost_of(self._losses) if self._losses else 0.0

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

    def arrived(self, chunks: list[Chunk], now: float, losses: tuple[Loss, ...] = ()) -> bool:
        """Chunks have reached it, or were dropped; True if the end of the stream is among them.

        Parameters
        ----------
        chunks
            Chunks that the sink has made of them.
        now
            Time in seconds.
        losses
            Tuples dropped by then, here and before.
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

    def notify_readers(self) -> None:
        """Let those who wait for results look for them."""
        self._news.set()

    async def arrival(self, there: Callable[[], bool], seconds: float) -> None:
        """Return when something is there, at the latest after ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not there():
                    self._news.clear()
                    await self._news.wait()

    def redeliver(self, reader: str, since: Point | None) -> Portion | None:
        """What a reader was given last, if it has not got that; what it says to have is forgotten.

        Parameters
        ----------
        reader
            Name of the reader.
        since
            Place up to which it has all that it was given; None: it has nothing yet.
        """
        last = self._portions.get(reader)
        if last is not None and since is not None and since > last.start:
            del self._portions[reader]
            return None
        return last

    def deliver(self, reader: str, portion: Portion) -> None:
        """A reader is given results that nobody was given before."""
        if portion.items:
            self._portions[reader] = portion
        while len(self._portions) > READERS:
            del self._portions[next(iter(self._portions))]
        self.given = max(self.given, portion.end)

    def qos(self) -> Quality:
        """Quality of service since it began: delays in seconds (quantiles within 1 %), shares, tuples/s and bytes/s."""
        seconds = 0.0 if self._first is None else self._last - self._first
        return self._record(self._delays, self._bytes, seconds, self._lost)

    def interval(self, now: float) -> Quality:
        """Quality of service since the last call; delays are None if no tuple has arrived."""
        self.reported = self.ended
        lost = self._lost
        record = self._record(self._recent, self._recent_bytes, now - self._since, lost - self._lost_before)
        self._lost_before = lost
        self._recent = DelayHistogram(self.limit)
        self._recent_bytes = 0
        self._since = now
        return record

    def _record(self, delays: DelayHistogram, size: int, seconds: float, lost: float) -> Quality:
        lost, all_lost = max(lost, 0.0), self._lost
        every = delays.count + lost
        return {
            "operator": self.operator,
            "delay_p50_s": delays.quantile(0.50),
            "delay_p95_s": delays.quantile(0.95),
            "delay_p99_s": delays.quantile(0.99),
            "delay_mean_s": delays.mean,
            "delay_max_s": delays.most,
            "miss_rate": (delays.missed + lost) / every if self.limit is not None and every else None,
            "limit_s": self.limit,
            "tuples_per_s": delays.count / seconds if seconds > 0.0 else 0.0,
            "bytes_per_s": size / seconds if seconds > 0.0 else 0.0,
            "tuples": self._delays.count,
            "finished": self.ended,
            "dropped": {loss.operator: loss.dropped for loss in self._losses if loss.dropped},
            "lost": all_lost,
        }


class Sinks:
    """The sinks of one peer, whose quality of service is journaled and reported as long as there are any.

    Parameters
    ----------
    loop, clock, record
        Event loop of the peer, its clock in seconds, and what writes an event to the journal.
    measured
        Called with (application, operator, record) of each sink, see :meth:`Sink.interval`.
    every
        Seconds between two measurements.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Recorder,
        measured: Callable[[str, str, Quality], None] | None,
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
            self._record(SinkMeasured, sink.application, **sink.interval(self._clock()))
        del self._sinks[sink.application, sink.operator]
        sink.notify_readers()
        if not self._sinks and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def get(self, application: str, operator: str) -> Sink | None:
        """The sink of an application, if it is here."""
        return self._sinks.get((application, operator))

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

    def halt(self, application: str, ends: Callable[[Sink], Point]) -> None:
        """Measure the sinks of an application for the last time; what reaches them from here on is not given.

        Parameters
        ----------
        application
            Id of the application.
        ends
            Gives for a sink the place up to which its results are given.
        """
        halted = [sink for (owner, _), sink in self._sinks.items() if owner == application and not sink.halted]
        for sink in halted:
            sink.halted, sink.upto = True, ends(sink)
        if halted:
            self.measure(*halted)

    def measure(self, *sinks: Sink) -> None:
        """Journal and report what sinks have measured since the last time; by default for all sinks."""
        now = self._clock()
        for sink in sinks or tuple(self._sinks.values()):
            if sink.reported:
                continue
            record = sink.interval(now)
            self._record(SinkMeasured, sink.application, **record)
            if self._measured is not None:
                self._measured(sink.application, sink.operator, record)

    def _tick(self) -> None:
        self.timer = self._loop.call_later(self._every, self._tick)
        self.measure()
