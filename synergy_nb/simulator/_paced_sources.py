"""Sources in virtual time: traces, generated packets, tables and the samples of peers, each item when it is due.

A :class:`PacedSource` has the items of a stream with their due times, in seconds since its start. Its pace can change
while it is read: with a factor of 2 the rest of the stream comes twice as fast. The tuples of a source without a pace
enter as fast as its readers take them.

Examples
--------
>>> import polars as pl
>>> table = pl.DataFrame({"time": pl.Series([0, 1, 2, 3], dtype=pl.Datetime("us")), "v": [1, 2, 3, 4]})
>>> source = PacedSource(timed(table, rate=2.0), paced=True, now=10.0)
>>> source.due
10.0
>>> [item.rows for item, _ in source.take(10.6) if isinstance(item, Batch)], source.due
([1, 1], 11.0)
>>> source.speed_up(4.0, now=10.8)
>>> round(source.due, 3)
10.85
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from synergy_nb import traces
from synergy_nb.connectors.patient_polls import items_to_end
from synergy_nb.dataflow.sources import Source
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.log import LIMITS
from synergy_nb.dataflow.streams.log.pushes import PushWindow, rest_of
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation
from synergy_nb.plan.data_frames import is_frame, rate_of_events
from synergy_nb.plan.operators.sources import DEFAULT_RATE, heartbeat_of, pace_of
from synergy_nb.traces.late_rows import EventOrder
from synergy_nb.traces.replayed import ReplayedSource, items
from synergy_nb.traces.rows import FeedError, RowReader

Entry = tuple[float, Item | Callable[[], Item]]
"""An item, or a function that makes it when it is due, with the seconds since the start of its stream until then."""
SPAN: Final = 0.005  # seconds of a stream in one batch, as in live peers
UNPACED: Final = 2048  # tuples in a batch of a stream without a pace
TOGETHER: Final = 8192  # number of rows of an iterable that are converted together
SLOW: Final = 3600.0  # seconds between the rows of a table from which on their event times are no pace to wait for
QUICK: Final = 60.0  # seconds in which its rows enter instead
Samples = Callable[[], Iterable[tuple[str, str, float]]]


def opened(params: Mapping[str, Any], skipped: traces.Skipped | None = None) -> tuple[Iterator[Entry], bool]:
    """Open a trace or generated packets: the items with their due times, and whether these count.

    ``params``: parameters of the source; ``skipped``: callback for malformed lines of a trace, see
    :func:`synergy_nb.traces.read`.
    """
    speed = pace_of(params)
    found = params if speed > 0.0 or "batch" in params else {**params, "batch": UNPACED}
    read = items(ReplayedSource(found), skipped)
    return iter(traces.paced(read, speed, SPAN, heartbeat_of(params))), speed > 0.0


def timed(
    table: pl.DataFrame, rate: float, position: int = 0, promises: NDArray[np.int64] | None = None
) -> Iterator[Entry]:
    """Yield the rows of a table at a rate in tuples/s, each batch with a promise that nothing older follows.

    ``table``: rows of the source; ``rate``: rate at which they enter, tuples/s; ``position``: number of rows that have
    entered before; ``promises``: event time that may be promised after each row, microseconds; by default that of the
    row.
    """
    together = max(int(rate * SPAN), 1)
    times = table.get_column("time").cast(pl.Int64).to_numpy() if promises is None else promises
    for start in range(0, table.height, together):
        piece = table.slice(start, together)
        position += piece.height
        due = (position - 1) / rate
        yield due, Batch(piece, position - piece.height, 0.0)
        yield due, Punctuation(int(times[start + piece.height - 1]), position, 0.0)


def tabled(
    rows: Any,  # rows of a source, as `synergy_nb.traces.rows.check_rows` returns them
    reader: RowReader,
    # rate at which they enter, tuples/s. A table that enters at the rate of its own event times, which nobody need have
    # stated, enters faster if that would take more than an hour
    rate: float,
    # seconds by which a row may be older than the latest row before it; older rows are dropped. None: a row that is
    # older than the latest one ends the stream
    lateness: float | None = None,
    # callback with the number of rows that were dropped so far, whenever it has grown
    dropped: Callable[[int], object] = lambda _: None,
) -> Iterator[Entry]:
    """Yield the rows of a table, or of an iterable of dictionaries or tables, at a rate in tuples/s, and their end.

    Raises ``FeedError`` if a row is not as declared, or, without ``lateness``, older than a row before it; or the
    iterable raises one.
    """
    if isinstance(rows, pl.DataFrame) and rows.height > SLOW * rate and rate == rate_of_events(rows, "time"):
        rate = min(rows.height / QUICK, DEFAULT_RATE)
    order = EventOrder(reader.source, lateness)
    position = 0
    for table in _tables(rows, reader):
        if not table.height:
            continue
        known = order.dropped
        kept, latest = order.keep(table)
        if order.dropped > known:
            dropped(order.dropped)
        yield from timed(kept, rate, position, latest - order.allowed)
        position += kept.height
        if order.error is not None:
            raise order.error
    yield max(position - 1, 0) / rate, Punctuation(END, position, 0.0)


def _tables(rows: Any, reader: RowReader) -> Iterator[pl.DataFrame]:
    """Yield the rows as tables: single rows in their order, those of a table by their event times."""
    if isinstance(rows, pl.DataFrame):  # it has been converted
        yield rows
        return
    if is_frame(rows):
        yield reader.table(rows)
        return
    waiting: list[Any] = []
    failure: FeedError | None = None
    for row in _read(rows, reader.source):
        if isinstance(row, FeedError):  # the rows before it come first
            failure = row
            break
        if not reader.is_row(row) and (is_frame(row) or not isinstance(row, Mapping)):
            if waiting:
                yield reader.of_rows(waiting)
                waiting = []
            yield reader.table(row)
            continue
        waiting.append(dict(row))  # a generator may reuse the same dictionary
        if len(waiting) >= TOGETHER:
            yield reader.of_rows(waiting)
            waiting = []
    if waiting:
        yield reader.of_rows(waiting)
    if failure is not None:
        raise failure


def _read(rows: Iterable[Any], source: str) -> Iterator[Any]:
    """Yield rows; an error of the program that makes them is raised last, as one of their source."""
    try:
        yield from rows
    except Exception as error:  # noqa: BLE001 - any error is the feed's
        failure = FeedError(f"{source}: its feed raised {type(error).__name__}: {error}")
        failure.__cause__ = error
        yield failure


def read_to_end(
    source: Source, reader: RowReader, lateness: float | None, dropped: Callable[[int], object] = lambda _: None
) -> Iterator[Entry]:
    """Yield the rows of a source that ends, each batch with a promise, as fast as its readers take them.

    Virtual time stands still while the source has nothing yet, see :func:`.items_to_end`; ``lateness``, ``dropped``: as
    of ``tabled``.
    """
    return ((0.0, item) for item in items_to_end(source, reader, lateness, dropped))


def sampled(address: str, interval: float, samples: Samples, now: Callable[[], float]) -> Iterator[Entry]:
    """Yield samples of a peer's load and delays, without an end.

    ``interval``: time between two samples, seconds; ``samples``: function that returns metric, target and value of each
    sample; ``now``: function that returns the virtual time in seconds.
    """
    position, latest, number = 0, -1, 0

    def sample() -> Item:
        nonlocal position, latest
        latest = max(latest + 1, round(now() * 1e6))
        found = list(samples())
        columns = {
            "time": [latest] * len(found),
            "peer": [address] * len(found),
            "metric": [metric for metric, _, _ in found],
            "target": [target for _, target, _ in found],
            "value": [float(value) for _, _, value in found],
        }
        position += len(found)
        table = pl.DataFrame(columns, schema_overrides={"time": TYPES["time"]})
        return Batch(table, position - len(found), 0.0)

    while True:
        yield number * interval, sample
        yield number * interval, lambda: Punctuation(latest + 1, position, 0.0)
        number += 1


class PacedSource:
    """A stream that is read in virtual time.

    ``now``: virtual time at which it is opened, seconds; ``since``: point in the stream after which it starts; the pace
    counts from the first item that is emitted.
    """

    def __init__(
        self, entries: Iterable[Entry], *, paced: bool, now: float, since: Point = ORIGIN, factor: float = 1.0
    ) -> None:
        self._entries = iter(entries) if since == ORIGIN else _after(entries, since)  # items with their due times
        self.turn = 0  # number of the present pace: wake-ups that were planned for an earlier one do not count
        self._paced = paced  # whether the due times count; otherwise each batch is due at once
        self._factor = factor  # pace at which it is read: 2 is twice as fast as the stream itself
        self._on_hold = False  # whether it stands still, as a user has paused its application
        self._next = next(self._entries, None)
        self._error: ValueError | None = None  # error that ends the stream
        self._from = self._next[0] if self._next is not None else 0.0  # due time in the stream at which `_at` is now
        self._at = now

    @property
    def due(self) -> float:
        """Virtual time at which the next item is due, seconds; infinite after the last one."""
        if self._on_hold:
            return math.inf
        if self._next is None:
            return math.inf if self._error is None else self._at
        return self._when(self._next[0]) if self._paced else self._at

    def _when(self, due: float) -> float:
        return self._at + (due - self._from) / self._factor if self._factor > 0.0 else math.inf

    def speed_up(self, factor: float, now: float) -> None:
        """Read at another pace from now on; 0 stops the stream until the next change."""
        self._come_to(now)
        self._factor = factor

    def hold(self, now: float, *, on: bool) -> None:
        """Stand still, or go on: what is due later is due as long after the hold as it was after its beginning."""
        if on != self._on_hold:
            self._come_to(now)
            self._on_hold = on

    def _come_to(self, now: float) -> None:
        """Have the pace change now."""
        if self._paced:
            self._from += 0.0 if self._on_hold else max(now - self._at, 0.0) * self._factor
            self._at = max(now, self._at)
        self.turn += 1

    def take(self, now: float) -> list[tuple[Item, float]]:
        """Return the items that are due, each with the time at which it was due; of a stream without a pace, one batch.

        Raises ``ValueError`` if the stream has an error after the items that were taken before.
        """
        if self._error is not None:
            raise self._error
        found: list[tuple[Item, float]] = []
        while self._next is not None:
            due, item = self._next
            if self._paced and self._when(due) > now:
                break
            if not self._paced and found and isinstance(item, Batch):
                break
            made = item() if callable(item) else item
            found.append((made, self._when(due) if self._paced else now))
            try:
                self._next = next(self._entries, None)
            except ValueError as error:  # what came before it comes first
                self._next, self._error = None, error
        return found

    def wait(self, now: float) -> None:
        """Begin again at a time: a stream without a pace has its next batch then."""
        if not self._paced:
            self._at = now

    def progressed(self, component: Component) -> None:
        """Handle that the component of the source has emitted more, or that its copies have more of its output."""


class RetainedSource(PacedSource):
    """A stream that a program makes: it can be read once, and what copies of its source may lack is retained.

    ``entries``, ``paced``, ``now``, ``factor``: arguments of :class:`PacedSource`; ``most``: bytes of retained items
    from which on no more are taken.
    """

    def __init__(
        self, entries: Iterable[Entry], *, paced: bool, now: float, factor: float = 1.0, most: int = LIMITS.retain
    ) -> None:
        self._window = PushWindow[tuple[Item, float]](most)
        super().__init__(entries, paced=paced, now=now, factor=factor)

    @property
    def due(self) -> float:
        """Virtual time at which the next item is due, seconds: now if the source's peer lacks an earlier one."""
        return self._at if self._window.next is not None and not self._on_hold else super().due

    def take(self, now: float) -> list[tuple[Item, float]]:
        """Return all items that the source's peer lacks, each with the time at which it was due."""
        if self._window.next is None and not self._window.full:
            for item, born in super().take(now):
                self._window.add(item, (item, born))
        rest = [(rest_of(item, self._window.there), born) for item, born in self._window.lacking]
        return [(item, born) for item, born in rest if item is not None]

    def close(self) -> None:
        """Take nothing more from the program; a generator runs its ``finally``."""
        self._next = None
        if isinstance(self._entries, Generator):
            with contextlib.suppress(Exception):  # of its clean-up: the stream has ended, and time goes on
                self._entries.close()

    def progressed(self, component: Component) -> None:
        """Let go of what all copies of the source have.

        Raises ``ValueError`` if its peer, which has taken it over, lacks items that are not retained any more.
        """
        end, copied = component.log.end, component.log.copied(component.copy_holders.behind)
        if not self._window.answered(component.epoch, end, copied):
            rows = f"rows {end.position} to {self._window.start.position - 1}"
            raise ValueError(f"{rows} are lost: its peer, which has taken it over, did not answer for long before")


def _after(entries: Iterable[Entry], since: Point) -> Iterator[Entry]:
    """Yield what follows a point of a stream."""
    for due, item in entries:
        if callable(item):
            yield due, item
        elif (rest := rest_of(item, since)) is not None:
            yield due, rest
