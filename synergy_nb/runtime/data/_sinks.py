"""Sinks: the delays of their tuples, and the delivery of their results to clients.

Results are retained in the log of the sink's component until every reader has acknowledged them. A full log stops the
sink, and so everything upstream of it: nothing is dropped. Each reader has its own place in the log, from its first
request on. Results that all readers have are retained while they take a quarter of the log at most, for readers that
come later. A reader that has not asked for ten seconds, while half of the log is retained for it alone, is passed over:
it blocks no other, and misses results if it comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.dataflow.streams.component.sink_quality import SinkQuality
from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.dataflow.streams.log.values import ORIGIN, Loss, Point, encoded
from synergy_nb.dataflow.tuples import Batch, encode
from synergy_nb.events import Recorder, SinkMeasured
from synergy_nb.runtime.data._outside_sinks import OutsideSink

SILENT: Final = 10.0  # seconds without a request after which a reader may be passed over
# most readers of a sink; if there is one more, the reader that has been silent longest is passed over
READERS: Final = 100
MOMENTS: Final = 3600  # number of measurements for which a sink knows which rows had come


class Portion(NamedTuple):
    """Results of a sink for one reader."""

    items: list[bytes]  # encoded batches, the oldest first
    # start, end: points in the sink's stream between which the results are
    start: Point
    end: Point
    finished: bool  # whether nothing follows
    missed: int = 0  # number of tuples before `start` that the reader lacks, as they are not retained any more


class _Place:
    """How far a reader is."""

    __slots__ = ("asked", "upto")

    def __init__(self, upto: Point, asked: float) -> None:
        self.upto = upto  # point up to which it has everything
        self.asked = asked  # time of its last request, in seconds


class DeliveredSink(SinkQuality):
    """One sink of an application: its quality of service, and the delivery of its results."""

    def __init__(
        self,
        application: str,
        operator: str,
        *,
        limit: float | None,  # delay limit in seconds, or None
        now: float,  # time at which it starts, in seconds
        began: Point = ORIGIN,  # point at which its results begin
        # function that returns the number of results lost because of dropped tuples
        lost: Callable[[Iterable[Loss]], float] = lambda _: 0.0,
        # function that returns the point up to which its results have come; None: there is no log of them any more
        reached: Callable[[], Point] | None = None,
    ) -> None:
        super().__init__(operator, limit=limit, now=now, lost=lost)
        self.application = application
        self.reached = reached
        # time of each measurement, in seconds, and the position up to which results had come then
        self._moments: deque[tuple[float, int]] = deque([(now, began.position)], MOMENTS)
        self.upto: Point | None = None  # point after which nothing is delivered
        self.outside: OutsideSink | None = None  # what writes its results to the outside, if it has a destination
        self._outside_has: Point | None = None  # point up to which the outside has them
        self._began = began
        self._places: dict[str, _Place] = {}  # of each reader
        self._news = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing of its stream is missing here, nor in its destination."""
        return self.ended and (self.outside is None or self.outside.complete)

    def write_to(self, outside: OutsideSink, start: Point) -> None:
        """Have its results written to the outside, from a point on: that is a reader which is never passed over."""
        self.outside, self._outside_has = outside, start

    def committed(self, upto: Point) -> None:
        """Record that the outside has its results up to a point."""
        self._outside_has = upto

    def notify_readers(self) -> None:
        """Wake requests that wait for results."""
        self._news.set()
        if self.outside is not None:
            self.outside.notify()

    async def arrival(self, there: Callable[[], bool], seconds: float) -> None:
        """Return when ``there`` is true, at the latest after ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not there():
                    self._news.clear()
                    await self._news.wait()

    def place(self, reader: str, since: Point | None, first: Point, now: float) -> tuple[Point, int, bool]:
        """Record the progress of a reader, which asks for results.

        ``reader``: name of the reader; ``since``: point up to which it has everything; None: it has nothing yet;
        ``first``: point from which results are retained.

        Returns: point from which the reader reads on.

        Returns: number of tuples that it misses, as they are not retained any more.

        Returns whether it is a new reader, or one that was passed over.
        """
        wanted = self._began if since is None else since
        begins = max(wanted, first)
        known = self._places.pop(reader, None)  # the places are in the order of the last requests
        self._places[reader] = _Place(begins if known is None else max(begins, known.upto), now)
        if len(self._places) > READERS:
            del self._places[next(iter(self._places))]
        return begins, begins.position - wanted.position, known is None

    def read(self, now: float, held: Callable[[Point], bool]) -> Point:
        """Return the point up to which all readers have everything, and pass over silent ones that hold up others.

        ``held``: function that tells whether too much is retained for a reader at a point.
        """
        for name, place in list(self._places.items()):
            if now - place.asked > SILENT and held(place.upto):
                del self._places[name]
        points = [place.upto for place in self._places.values()]
        return min(points if self._outside_has is None else [*points, self._outside_has])

    def portion(self, log: StreamLog, start: Point, missed: int, most: float) -> Portion:
        """Return results of its log from a point on: at most ``most`` bytes, but one batch if there is any."""
        upto, items, size = start, list[bytes](), 0
        for chunk in log.chunks(start):
            size += chunk.size
            if (upto > start and size > most) or (self.upto is not None and chunk.end > self.upto):
                break
            upto = chunk.end
            new = chunk.unread(start.position)
            if new is not None and isinstance(new.item, Batch):
                if new.payload is None:
                    encoded(new)
                assert new.payload is not None
                items.append(new.payload)
        return Portion(items, start, upto, self.ended and upto >= log.end, missed)

    def latest(self, log: StreamLog, rows: int, since: Point | None = None) -> Portion:
        """Return the last results of its log, at most ``rows``, after a point; no reader's place changes."""
        start = log.start if since is None else max(since, log.start)
        items: list[bytes] = []
        left = rows
        for chunk in reversed(log.chunks(start)):
            if left <= 0:
                break
            new = chunk.unread(start.position)
            item = None if new is None else new.item
            if isinstance(item, Batch) and (self.upto is None or chunk.end <= self.upto):
                items.insert(0, encode(msgspec.structs.replace(item, table=item.table.tail(left))))
                left -= item.rows
        return Portion(items, start, log.end, self.ended, 0 if since is None else start.position - since.position)

    def interval(self, now: float) -> dict[str, Any]:
        """Note which results have come until now, and return the quality of service since the last call."""
        if self.reached is not None:
            self._moments.append((now, self.reached().position))
        return super().interval(now)

    def moment(self, log: StreamLog, between: tuple[float, float], rows: int) -> Portion:
        """Return results that came between two times, at most ``rows``, the first ones; no reader's place changes.

        Measurements divide the times: results of one interval come together.
        """
        since, until = between
        begin = max((at for time, at in self._moments if time <= since), default=self._moments[0][1])
        end = min((at for time, at in self._moments if time >= until), default=log.end.position)
        items: list[bytes] = []
        left = rows
        for chunk in log.chunks(log.start):
            if left <= 0 or chunk.start.position >= end or (self.upto is not None and chunk.end > self.upto):
                break
            item = chunk.since(begin).before(end).item
            if isinstance(item, Batch) and chunk.end.position > begin:
                items.append(encode(msgspec.structs.replace(item, table=item.table.head(left))))
                left -= item.rows
        gone = min(max(log.start.position - begin, 0), max(end - begin, 0))
        return Portion(items, Point(begin, log.start.until), Point(end, log.end.until), self.ended, gone)


class Sinks:
    """The sinks of one peer; their quality of service is journaled and reported regularly."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        record: Recorder,
        # callback (application, operator, record) for each sink, see `DeliveredSink.interval`
        measured: Callable[[str, str, dict[str, Any]], None] | None,
        every: float,  # seconds between two measurements
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._record = record
        self._measured = measured
        self._every = every
        self.found: dict[tuple[str, str], DeliveredSink] = {}  # by application and operator
        self.timer: asyncio.TimerHandle | None = None

    def add(self, sink: DeliveredSink) -> None:
        """Add a sink."""
        self.found[sink.application, sink.operator] = sink
        if self.timer is None:
            self.timer = self._loop.call_later(self._every, self._tick)

    def remove(self, sink: DeliveredSink) -> None:
        """Remove a sink with its results; requests that wait for these end.

        The tuples that have reached it since the last measurement are journaled first, since a fast stream may end
        before its first measurement.
        """
        if sink.unmeasured:
            self._record(SinkMeasured, sink.application, **sink.interval(self._clock()))
        del self.found[sink.application, sink.operator]
        sink.reached = None  # what is retained of it needs no component
        sink.notify_readers()
        if not self.found and self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def of(self, application: str) -> list[DeliveredSink]:
        """Return the sinks of an application here."""
        return [sink for (owner, _), sink in self.found.items() if owner == application]

    def find(self, application: str, operator: str | None) -> DeliveredSink:
        """Return the sink of an application; None: its only one here.

        Raises ``LookupError`` if there is no such sink.
        """
        if operator is None:
            sinks = self.of(application)
        else:  # each measurement asks: without a look at all others
            named = self.found.get((application, operator))
            sinks = [] if named is None else [named]
        if len(sinks) != 1:
            found = ", ".join(sink.operator for sink in sinks) or "none"
            raise LookupError(f"application {application!r}: sink {operator!r}: found {found}; expected exactly one")
        return sinks[0]

    def halt(self, application: str, ends: Callable[[DeliveredSink], Point]) -> None:
        """Measure the sinks of an application for the last time; later arrivals are not delivered.

        ``ends``: function that returns the point up to which a sink's results are delivered.
        """
        halted = [sink for (owner, _), sink in self.found.items() if owner == application and not sink.halted]
        for sink in halted:
            sink.halted, sink.upto = True, ends(sink)
        if halted:
            self.measure(*halted)

    def measure(self, *sinks: DeliveredSink) -> None:
        """Journal and report the measurements of sinks since the last time; by default of all sinks."""
        now = self._clock()
        for sink in sinks or tuple(self.found.values()):
            if sink.reported:
                continue
            record = sink.interval(now)
            self._record(SinkMeasured, sink.application, **record)
            if self._measured is not None:
                self._measured(sink.application, sink.operator, record)

    def _tick(self) -> None:
        self.timer = self._loop.call_later(self._every, self._tick)
        self.measure()
