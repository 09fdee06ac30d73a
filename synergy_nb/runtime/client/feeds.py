"""Rows for a ``python`` source of a notebook: frames, iterables of rows, and rows that it pushes.

All of them pass through a :class:`Feed`, a bounded queue of rows. When the stream is ready for more, all rows in the
queue become one batch. So no row waits for later ones: a fast generator is sent in batches of thousands of rows, a slow
one row by row.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, TypeAlias

import polars as pl

from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.plan.data_frames import is_frame
from synergy_nb.plan.operators.sources import TIME_UNITS
from synergy_nb.plan.terms.column_types import EXAMPLES, column_type
from synergy_nb.plan.terms.units import counted, did_you_mean, duration
from synergy_nb.reporting.formatting import seconds
from synergy_nb.traces.late_rows import EventOrder
from synergy_nb.traces.rows import FeedError, RowReader, check_rows

__all__ = ["Feed", "FeedError", "Rows", "check_rows_or_feed", "items", "supply"]

Rows: TypeAlias = Any
"""A frame, an iterable or asynchronous iterable of dictionaries or frames, or a :class:`Feed`."""
ROOM: Final = 65_536  # most rows in the queue of a feed
BATCH_ROWS: Final = 65_536
BATCH_BYTES: Final = 1 << 20  # limit of a batch on its way to a peer: several feeds share a link
INLINE: Final = 1000  # most rows that are converted to a table on the event loop; more are converted in a thread


class Feed:
    """Rows that a program pushes into a stream, from any thread or coroutine.

    Parameters
    ----------
    columns
        Column to type of the rows, such as ``int``, ``float``, ``str``, ``bool``, ``time``, ``bytes`` or ``date``.
    time
        Column with the event time: times, seconds since 1970, or ISO 8601 text.
    time_unit
        Unit of times that are numbers: ``s``, ``ms``, ``us`` or ``ns`` since 1970, or ``date``, such as 20260101.
        Default: seconds; numbers that would be implausible times are reported or refused.
    room
        Most rows in the queue; a push waits until there are fewer.

    Examples
    --------
    >>> from synergy_nb import Cluster, Feed, source
    >>> feed = Feed({"user": "str", "amount": "float"})
    >>> with Cluster(peers=2) as cluster:
    ...     application = cluster.submit(source(feed).filter("amount > 10").sink("large"))
    ...     with feed:  # the stream ends with it
    ...         feed.push({"time": 0.0, "user": "ann", "amount": 12.5})
    ...         feed.push({"time": 1.0, "user": "bob", "amount": 2.0})
    ...     application.results().select("user", "amount").rows()
    [('ann', 12.5)]
    """

    def __init__(
        self, columns: Mapping[str, str], *, time: str = "time", time_unit: str | None = None, room: int = ROOM
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise FeedError(f"columns: {columns!r}; expected column to type, as in {{'user': 'str'}}")
        for name, kind in columns.items():
            if column_type(kind) is None:
                hint = did_you_mean(kind, EXAMPLES)
                raise FeedError(f"columns: {name!r}: {kind!r}; expected one of {', '.join(EXAMPLES)}{hint}")
        if time_unit is not None and time_unit not in TIME_UNITS:
            hint = did_you_mean(time_unit, TIME_UNITS)
            raise FeedError(f"time_unit: {time_unit!r}; expected one of {', '.join(TIME_UNITS)}{hint}")
        if isinstance(room, bool) or not isinstance(room, int) or room < 1:
            raise FeedError(f"room: {room!r}; expected a number of rows of at least 1")
        #: What :func:`~synergy_nb.plan.builder.source` takes from a feed.
        self.source_columns = {
            "time": "time", **{name: column_type(kind) or kind for name, kind in columns.items() if name != time}
        }  # fmt: skip
        self.reader = RowReader("feed", self.source_columns, time, time_unit)
        self._room = room
        self._pieces: deque[Any] = deque()  # rows as dictionaries, and tables
        self._waiting = 0  # rows in them
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._asleep: asyncio.Future[None] | None = None  # the reader that waits for rows
        self._pushers: list[asyncio.Future[None]] = []  # coroutines that wait for room
        self._application = ""
        self._closed = False
        self._error: BaseException | None = None  # error that ends the rows
        self._refusal = ""  # reason why the feed is no longer read

    # -- for producers --------------------------------------------------------------------------------------------

    def push(self, rows: Any, timeout: float | str | None = None) -> None:
        """Push one row (a dictionary), several (a list of them) or a frame; either all of it is accepted or nothing.

        Parameters
        ----------
        rows
            Rows with the columns of the feed; other columns are left out.
        timeout
            Longest time to wait for room, in seconds or as ``"2 s"``; by default there is no limit.

        Raises
        ------
        FeedError
            If a column or a value is not as declared, the feed was closed, or its application has ended.
        TimeoutError
            If there was no room within ``timeout``.
        """
        patience = _patience(timeout)
        piece, count = self._converted(rows)
        with self._lock:
            if not self._has_room() and not self._changed.wait_for(self._has_room, patience):
                raise self._no_room(patience)
            self._append(piece, count)

    async def push_async(self, rows: Any, timeout: float | str | None = None) -> None:
        """Push like :meth:`push`, for coroutines: the event loop continues while there is no room."""
        patience = _patience(timeout)
        piece, count = self._converted(rows)
        try:
            async with asyncio.timeout(patience):
                await self._append_async(piece, count)
        except TimeoutError:
            raise self._no_room(patience) from None

    def close(self) -> None:
        """End the stream after all rows that were pushed."""
        with self._lock:
            self._closed = True
            self._wake()

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if error is None else self.fail(error)

    def __repr__(self) -> str:
        state = self._refusal or ("closed" if self._closed else "open")
        columns = ", ".join(f"{name} {kind}" for name, kind in self.source_columns.items())
        return f"Feed of {columns}: {state}, {counted(self._waiting, 'row', 'waits', 'wait')}"

    # -- for suppliers and readers -----------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Fail the stream after all rows that were pushed: its application fails with ``error``."""
        with self._lock:
            if not self._closed:
                self._closed, self._error = True, error
            self._wake()

    def refuse(self, why: str) -> None:
        """Discard the queue and refuse all further rows, as the feed is no longer read."""
        with self._lock:
            self._refusal, self._closed = why, True
            self._pieces.clear()
            self._waiting = 0
            self._wake()

    def bind(self, application: str) -> None:
        """Record the application that reads the feed.

        Raises
        ------
        FeedError
            If another application reads it already.
        """
        with self._lock:
            if self._application:
                raise FeedError(f"feed: application {self._application} reads it; expected a feed of its own for each")
            self._application = application

    def queue(self, piece: Any) -> None:
        """Queue a piece of an iterable, on a thread that may wait."""
        made, count = self._converted_piece(piece)
        with self._lock:
            if not self._has_room():
                self._changed.wait_for(self._has_room)
            self._append(made, count)

    async def queue_async(self, piece: Any) -> None:
        """Queue a piece of an asynchronous iterable."""
        await self._append_async(*self._converted_piece(piece))

    async def next_pieces(self) -> list[Any] | None:
        """Return the queued rows and tables, as soon as there are any; None at the end."""
        loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                if self._pieces:
                    pieces = list(self._pieces)
                    self._pieces.clear()
                    self._waiting = 0
                    self._wake()
                    return pieces
                if self._error is not None:
                    raise self._error
                if self._closed or self._refusal:
                    return None
                self._asleep = asleep = loop.create_future()
            await asleep

    def _converted(self, rows: Any) -> tuple[Any, int]:
        """Check and convert the rows of a push, so that errors are raised there; return the rows and their number."""
        if type(rows) is dict and self.reader.accepts(rows):
            return rows.copy(), 1
        table = self.reader.table(rows)
        return table, table.height

    def _converted_piece(self, piece: Any) -> tuple[Any, int]:
        if self.reader.is_row(piece) or (isinstance(piece, Mapping) and not is_frame(piece)):
            return dict(piece), 1  # a generator may reuse the same dictionary
        table = self.reader.table(piece)
        return table, table.height

    def _has_room(self) -> bool:
        """Whether there is room for a push; raise an error if none will ever be accepted."""
        if self._waiting < self._room and not self._closed:
            return True
        if self._refusal:
            raise FeedError(f"feed: {self._refusal}; expected a feed whose application runs")
        if self._closed:
            raise FeedError("feed: it has been closed; expected an open one")
        if not self._application:
            rows = counted(self._waiting, "row", "waits", "wait")
            raise FeedError(f"feed: {rows}, and no application reads them; expected submit() before more rows")
        return False

    def _append(self, piece: Any, count: int) -> None:
        if count:
            self._pieces.append(piece)
            self._waiting += count
            if self._asleep is not None:
                _complete(self._asleep)
                self._asleep = None

    async def _append_async(self, piece: Any, count: int) -> None:
        while True:
            with self._lock:
                if self._has_room():
                    self._append(piece, count)
                    return
                free = asyncio.get_running_loop().create_future()
                self._pushers.append(free)
            await free

    def _wake(self) -> None:
        """Wake all threads and coroutines that wait for rows or for room."""
        self._changed.notify_all()
        if self._asleep is not None:
            _complete(self._asleep)
            self._asleep = None
        while self._pushers:
            _complete(self._pushers.pop())

    def _no_room(self, patience: float | None) -> TimeoutError:
        rows = counted(self._waiting, "row", "waits", "wait")
        return TimeoutError(f"feed: no room within {seconds(patience)}: {rows} for {self._application}")


def _patience(timeout: float | str | None) -> float | None:
    """Return the longest time that a push waits for room, in seconds; None: no limit."""
    return None if timeout is None else duration("timeout", timeout, least=0.0)


def _complete(future: asyncio.Future[None]) -> None:
    """Resume a coroutine, from any thread."""

    def complete() -> None:
        if not future.done():
            future.set_result(None)

    with contextlib.suppress(RuntimeError):  # its loop was closed
        future.get_loop().call_soon_threadsafe(complete)


# -- from rows of any form to a feed ---------------------------------------------------------------------------------


def check_rows_or_feed(rows: Rows, reader: RowReader) -> Rows:
    """Check the rows for a source, or a feed of them, before anything starts; see :func:`.check_rows`.

    Raises ``FeedError`` if these are not rows, or a generator that has been read, or a frame that is not as declared.
    """
    if isinstance(rows, Feed):
        differing = {name for name, kind in reader.columns.items() if rows.source_columns.get(name) != kind}
        if differing or len(rows.source_columns) != len(reader.columns):
            raise FeedError(
                f"{reader.source}: a feed of {_listed(rows.source_columns)}; expected {_listed(reader.columns)}"
            )
        if reader.unit not in (None, rows.reader.unit):
            raise FeedError(
                f"{reader.source}: a feed with time_unit={rows.reader.unit!r}; expected {reader.unit!r}, as in the plan"
            )
        return rows
    return check_rows(rows, reader)


def supply(rows: Rows, reader: RowReader) -> tuple[Feed, asyncio.Task[None] | None]:
    """Return the feed of the checked rows, and the task that fills it, if one is needed."""
    if isinstance(rows, Feed):
        return rows, None
    feed = Feed(reader.columns)
    feed.reader = reader
    feed.bind(reader.source)
    if isinstance(rows, pl.DataFrame):
        with feed._lock:
            feed._append(rows, rows.height)
        feed.close()
    elif isinstance(rows, AsyncIterable):
        return feed, asyncio.get_running_loop().create_task(_read_async(rows, feed), name="synergy feed")
    else:
        # a separate thread: it may wait without limit; in a pool it would use up threads, and block the exit
        threading.Thread(target=_read, args=(rows, feed), name="synergy feed", daemon=True).start()
    return feed, None


def _read(rows: Iterable[Any], feed: Feed) -> None:
    iterator: Iterator[Any] = iter(())
    try:
        iterator = iter(rows)
        for made in iterator:
            feed.queue(made)
        feed.close()
    except BaseException as error:  # noqa: BLE001 - any error is the feed's
        feed.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
    finally:
        if isinstance(iterator, Generator):  # what it holds is released now, and not when it is collected as garbage
            with contextlib.suppress(Exception):
                iterator.close()


async def _read_async(rows: AsyncIterable[Any], feed: Feed) -> None:
    try:
        async for made in rows:
            await feed.queue_async(made)
        feed.close()
    except Exception as error:  # noqa: BLE001 - any error is the feed's
        feed.fail(error)


# -- from a feed to a stream -----------------------------------------------------------------------------------------


async def items(
    feed: Feed, source: str, lateness: float | None, dropped: Callable[[int], Awaitable[None]]
) -> AsyncIterator[Item]:
    """Yield the rows of ``feed`` as batches, each followed by a punctuation, and the end of the stream.

    ``feed``: feed to read until its end; ``source``: operator id of the source, for errors; ``lateness``: seconds by
    which a row may be older than the latest row before it; older rows are left out. None: a row that is older than the
    latest one ends the stream with an error; ``dropped``: callback with the number of rows left out so far, whenever it
    has grown.

    Raises ``FeedError`` if rows are not as declared, or, without ``lateness``, older than rows before them.
    """
    order = EventOrder(source, lateness)
    position = 0
    promised: int | None = None
    while (pieces := await feed.next_pieces()) is not None:
        rows = sum(1 if isinstance(piece, dict) else piece.height for piece in pieces)
        if rows <= INLINE or all(isinstance(piece, pl.DataFrame) for piece in pieces):
            table = _joined(pieces, feed.reader)
        else:
            table = await asyncio.to_thread(_joined, pieces, feed.reader)
        known = order.dropped
        table, latest = order.keep(table)
        if order.dropped > known:
            await dropped(order.dropped)
        for part in _parts(table):
            yield Batch(table.slice(part.start, len(part)), position, 0.0)
            position += len(part)
            reached = int(latest[part.stop - 1]) - order.allowed
            if promised is None or reached > promised:
                promised = reached
                yield Punctuation(promised, position, 0.0)
        if order.error is not None:
            raise order.error
    yield Punctuation(END, position, 0.0)


def _joined(pieces: list[Any], reader: RowReader) -> pl.DataFrame:
    """Concatenate rows and tables, in their order."""
    tables: list[pl.DataFrame] = []
    rows: list[Mapping[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, dict):
            rows.append(piece)
            continue
        if rows:
            tables.append(reader.of_rows(rows))
            rows = []
        tables.append(piece)
    if rows:
        tables.append(reader.of_rows(rows))
    return tables[0] if len(tables) == 1 else pl.concat(tables)


def _parts(table: pl.DataFrame) -> Iterator[range]:
    """Yield ranges of consecutive rows that form one batch."""
    size = table.estimated_size()
    rows = min(BATCH_ROWS, max(int(BATCH_BYTES * table.height / size), 1)) if size else BATCH_ROWS
    for start in range(0, table.height, rows):
        yield range(start, min(start + rows, table.height))


def _listed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
