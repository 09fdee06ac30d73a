"""Windows: which rows belong together, and when a window is final.

There are four kinds, as in the plan: windows of event time (tumbling and sliding, aligned to the epoch), sessions,
which end when no row has arrived for a time, windows of n rows in order of arrival, and the windows that the rows of a
windowed stream carry in ``window_start`` and ``window_end``. A window of event time is final when the watermark has
reached its end; only then is its result emitted, so results depend neither on how the input was cut into batches nor
on the order in which the rows of one window arrived.

Times are integers here: microseconds since 1970.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import polars as pl

from synergy_nb.dataflow.operators.base import (
    WINDOW,
    Context,
    OperatorLogic,
    compacted,
    computed,
    retained_bytes,
    value_bytes,
)
from synergy_nb.dataflow.tuples import END, START, Batch, concatenated, empty, selected
from synergy_nb.plan.terms.naming import internal

__all__ = [
    "BOUND",
    "ORDINAL",
    "Buffered",
    "GivenWindows",
    "SessionWindows",
    "TimeWindows",
    "Windows",
    "microseconds",
    "window_of",
]

ORDINAL: Final = internal("window")  # column with the number of a count window; two windows may have the same bounds
_ROW: Final = internal("row")
_SESSION: Final = internal("session")
SMALL_ROWS: Final = 1024  # average rows of a piece below which pieces take more memory and time than one copy of them
COMPACT_ROWS: Final = 8192  # new rows after which a buffer is copied into one piece
BOUND: Final = pl.Datetime("us")
BOUNDS_BYTES: Final = 16  # bytes of the bounds of a window in a row


def microseconds(seconds: float) -> int:
    """Convert seconds to whole microseconds."""
    return round(seconds * 1_000_000)


Tables: TypeAlias = Mapping[str, pl.DataFrame]
Portion: TypeAlias = tuple[Tables, int, int]
"""Tables, and the bounds between which the windows of a portion end: after the first, not after the second."""


class Windows(Protocol):
    """Windows that the watermark closes."""

    @property
    def overlap(self) -> int:
        """Most windows that contain one row."""

    def portions(self, tables: Tables, at: str, previous: int, low: int, most: int) -> Iterator[Portion]:
        """Cut ``(previous, low]`` into portions, in order, each with the rows of windows that end in it.

        The spread tables of a portion have about ``most`` bytes, unless it is a single window, or no larger than the
        tables themselves.
        """

    def first_end(self, table: pl.DataFrame, at: str) -> int:
        """Return the least end of a window that contains a row of ``table``, whose times are in column ``at``."""

    def next_end(self, low: int) -> int:
        """Return the least end that a window which is open at ``low`` can have."""

    def assign(self, table: pl.DataFrame, at: str, previous: int, low: int) -> pl.LazyFrame:
        """Return each row once for each of its windows that end in ``(previous, low]``, in order of arrival."""

    def retained_rows(self, table: pl.DataFrame, at: str, low: int) -> pl.DataFrame:
        """Return the rows that a window which ends after ``low`` needs."""


class _Single:
    """Windows that never overlap: each row is in one."""

    overlap = 1

    def portions(self, tables: Tables, at: str, previous: int, low: int, most: int) -> Iterator[Portion]:
        """See :class:`Windows`."""
        yield tables, previous, low


class TimeWindows:
    """Windows ``[k * slide, k * slide + length)`` of event time, for all integers k; tumbling if slide = length."""

    def __init__(self, length: int, slide: int) -> None:
        # length, slide: length of a window and distance of two starts, microseconds
        self.length = length
        self.slide = slide
        self.pane = math.gcd(length, slide)  # every window consists of whole panes
        self.overlap = -(-length // slide)

    def portions(self, tables: Tables, at: str, previous: int, low: int, most: int) -> Iterator[Portion]:
        """See :class:`Windows`."""
        if sum(map(_spread_bytes, tables.values())) * self.overlap <= most or self.slide == self.length:
            yield tables, previous, low
            return
        waiting = [(tables, previous, low)]
        while waiting:
            tables, previous, low = waiting.pop()
            tables, size, first, last = self._closing(tables, at, previous, low)
            if size <= most or first == last:
                if size:
                    yield tables, previous, low
                continue
            middle = (first + last) // 2 // self.slide * self.slide + self.length  # the end of a window
            waiting += [(tables, middle, low), (tables, previous, middle)]

    def _closing(self, tables: Tables, at: str, previous: int, low: int) -> tuple[Tables, float, int, int]:
        """Return rows of windows that end in ``(previous, low]``, bytes to spread them, and first and last starts."""
        found: dict[str, pl.DataFrame] = {}
        size, starts, ends = 0.0, END, START
        first, last = (each.alias(name) for each, name in zip(self._starts(at, previous, low), "fl", strict=True))
        for name, table in tables.items():
            bounds = table.select(first, last)
            closing = bounds["f"] <= bounds["l"]
            found[name], bounds = selected(table, closing), selected(bounds, closing)
            if bounds.height:
                copies: Any = ((bounds["l"] - bounds["f"]) // self.slide + 1).sum()
                size += copies * (_spread_bytes(table) / table.height)
                least, most = bounds["f"].min(), bounds["l"].max()
                starts, ends = min(starts, int(least)), max(ends, int(most))  # type: ignore[arg-type]
        return found, size, starts, ends

    def _starts(self, at: str, previous: int, low: int) -> tuple[pl.Expr, pl.Expr]:
        """Return the first and last start of the windows that contain a row and end in ``(previous, low]``."""
        length, slide = self.length, self.slide
        time = pl.col(at).cast(pl.Int64)
        first, last = ((time - length) // slide + 1) * slide, time // slide * slide
        if previous != START:
            first = pl.max_horizontal(first, pl.lit(self.next_end(previous) - length))
        if low != END:
            last = pl.min_horizontal(last, pl.lit((low - length) // slide * slide))
        return first, last

    def first_end(self, table: pl.DataFrame, at: str) -> int:
        """See :class:`Windows`."""
        least: Any = table.get_column(at).cast(pl.Int64).min()
        return self.next_end(int(least))

    def next_end(self, low: int) -> int:
        """See :class:`Windows`."""
        return ((low - self.length) // self.slide + 1) * self.slide + self.length

    def assign(self, table: pl.DataFrame, at: str, previous: int, low: int) -> pl.LazyFrame:
        """See :class:`Windows`."""
        length, slide = self.length, self.slide
        if slide == length:
            time = pl.col(at).cast(pl.Int64)
            lazy = table.lazy().with_columns((time // slide * slide).alias("window_start"))
            if low != END:
                lazy = lazy.filter(pl.col("window_start") <= low - length)
        else:
            first, last = self._starts(at, previous, low)
            lazy = (
                table.lazy()
                .with_columns(pl.int_ranges(first, last + 1, slide).alias("window_start"))
                .filter(pl.col("window_start").list.len() > 0)
                .explode("window_start")
            )
        return lazy.with_columns(
            pl.col("window_start").cast(BOUND), (pl.col("window_start") + length).cast(BOUND).alias("window_end")
        )

    def retained_rows(self, table: pl.DataFrame, at: str, low: int) -> pl.DataFrame:
        """See :class:`Windows`."""
        if low == END:
            return table.clear()
        return table.filter(pl.col(at).cast(pl.Int64) // self.slide * self.slide > low - self.length)


class GivenWindows(_Single):
    """The windows that rows carry in ``window_start`` and ``window_end``."""

    def first_end(self, table: pl.DataFrame, at: str) -> int:
        """See :class:`Windows`."""
        least: Any = table.get_column("window_end").cast(pl.Int64).min()
        return int(least)

    def next_end(self, low: int) -> int:
        """See :class:`Windows`."""
        return low + 1

    def assign(self, table: pl.DataFrame, at: str, previous: int, low: int) -> pl.LazyFrame:
        """See :class:`Windows`."""
        rows = table.lazy()
        return rows if low == END else rows.filter(pl.col("window_end").cast(pl.Int64) <= low)

    def retained_rows(self, table: pl.DataFrame, at: str, low: int) -> pl.DataFrame:
        """See :class:`Windows`."""
        return table.clear() if low == END else table.filter(pl.col("window_end").cast(pl.Int64) > low)


class SessionWindows(_Single):
    """Sessions of all rows: a row belongs to the session of the previous row if less than a gap separates them.

    So a session that has ended never changes: a row at its end, or later, starts another one.
    """

    def __init__(self, gap: int) -> None:
        self.gap = gap  # least time between two sessions, microseconds

    def first_end(self, table: pl.DataFrame, at: str) -> int:
        """See :class:`Windows`."""
        times = table.get_column(at).cast(pl.Int64).sort()
        parted = (times.diff(null_behavior="drop") >= self.gap).arg_true()
        return int(times[int(parted[0]) if parted.len() else -1]) + self.gap

    def next_end(self, low: int) -> int:
        """See :class:`Windows`."""
        return low + 1

    def assign(self, table: pl.DataFrame, at: str, previous: int, low: int) -> pl.LazyFrame:
        """See :class:`Windows`."""
        rows = self._bounded(table, at)
        rows = rows if low == END else rows.filter(pl.col("window_end").cast(pl.Int64) <= low)
        return rows.sort(_ROW).drop(_ROW)

    def retained_rows(self, table: pl.DataFrame, at: str, low: int) -> pl.DataFrame:
        """See :class:`Windows`."""
        if low == END:
            return table.clear()
        open_rows = self._bounded(table, at).filter(pl.col("window_end").cast(pl.Int64) > low)
        return computed(open_rows.sort(_ROW).select(table.columns), table.height)

    def _bounded(self, table: pl.DataFrame, at: str) -> pl.LazyFrame:
        """Return rows with the bounds of their sessions and their indices as ``_ROW``."""
        time = pl.col(at).cast(pl.Int64)
        rows = table.lazy().with_row_index(_ROW).sort(at)
        rows = rows.with_columns((time.diff() >= self.gap).fill_null(value=False).cum_sum().alias(_SESSION))
        return rows.with_columns(
            time.min().over(_SESSION).cast(BOUND).alias("window_start"),
            (time.max().over(_SESSION) + self.gap).cast(BOUND).alias("window_end"),
        ).drop(_SESSION)


def _spread_bytes(table: pl.DataFrame) -> float:
    """Return the bytes of a table's rows, each with the bounds of one window."""
    return value_bytes(table) + BOUNDS_BYTES * table.height


def window_of(context: Context) -> Windows | int:
    """Return the windows of an operator: its parameter ``window``, or those of its windowed input; an int n for n rows.

    Raises ``ValueError`` if it has neither, or the kind of the window is unknown.
    """
    window = context.params.get("window")
    if window is None:
        if not all(bound in context.inputs[0] for bound in WINDOW):
            raise context.error("window", None, "a window, since the input is not windowed")
        return GivenWindows()
    kind = window.get("kind")
    if kind == "count":
        return int(window["rows"])
    if kind not in ("tumbling", "sliding", "session"):
        raise context.error("window", window, "kind tumbling, sliding, session or count")
    if kind == "session":
        return SessionWindows(max(microseconds(window["gap"]), 1))
    length = microseconds(window["length"])
    slide = microseconds(window["slide"]) if kind == "sliding" else length
    if length < 1 or slide < 1:
        raise context.error("window", window, "a length of at least a microsecond")
    return TimeWindows(length, slide)


class Buffered(OperatorLogic):
    """Base of operators that need all rows of a window at once; rows are stored until the window is final.

    A subclass implements :meth:`finish` and may implement :meth:`compact` and :meth:`prepare`. Rows that fill no whole
    count window when the stream ends belong to no window and are dropped.
    """

    finishing = 4.0  # memory that `finish` needs, bytes for each byte of its rows

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        window = window_of(context)
        self._count = window if isinstance(window, int) else 0
        self._windows: Windows = GivenWindows() if isinstance(window, int) else window
        # columns that identify a window in the tables passed to `finish`, in the order of the output
        self.groups: tuple[str, ...] = (ORDINAL,) if self._count else ("window_end", "window_start")
        self._nothing = empty(context.inputs[0])
        self._chunks: list[pl.DataFrame] = []
        self._rows = 0
        self._bytes = 0
        self._compacted = 0  # rows after the last compaction
        self._due = END

    @abstractmethod
    def finish(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the ordered output rows for all rows of some final windows, which are passed in order of arrival.

        ``rows`` has the columns of the input, the bounds of windows, and ``ORDINAL`` for count windows; ``time`` is
        still that of the row.
        """

    def prepare(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add to ``rows`` what has to be computed before the bounds of their windows are set."""
        return rows

    def compact(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that can still affect a result."""
        return rows

    @property
    def state_rows(self) -> int:
        """Rows in the state."""
        return self._rows

    @property
    def state_bytes(self) -> int:
        """Bytes of the rows in the state."""
        return self._bytes

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Bytes that a batch needs: those of all rows, if it fills count windows or the rows are compacted then."""
        rows, size = self._rows + batch.rows, value_bytes(batch.table)
        if rows >= self._count if self._count else rows - self._compacted >= max(COMPACT_ROWS, self._compacted):
            return self.finishing * (self._bytes + size)
        return 3.0 * size

    def close_needs(self, low: int) -> float:
        """Bytes that are needed to copy the rows that stay, and to spread the others over windows, some at a time."""
        if self._count or low < self._due or not self._rows:
            return 0.0
        size = self._bytes + BOUNDS_BYTES * self._rows
        spread = min(size * self._windows.overlap, max(self.piece_bytes, size))
        return self._bytes + self.finishing * spread

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Store the rows; return the results of count windows that are full."""
        self._chunks.append(table)
        self._rows += table.height
        self._bytes += retained_bytes(table)
        if self._count:
            return self._full()
        self._due = min(self._due, self._windows.first_end(table, "time"))
        if self._rows - self._compacted >= max(COMPACT_ROWS, self._compacted):
            self._replace(self.compact(self._table()))
        return ()

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Return the results of windows that end by ``low``."""
        if self._count:
            if low == END:
                self._replace(self._nothing)
            return
        if low < self._due or not self._rows:
            return
        rows = self._table()
        portions = self._windows.portions({"rows": rows}, "time", self._forwarded, low, self.piece_bytes)
        for tables, after, until in portions:
            portion = tables["rows"]
            closed = computed(self._windows.assign(portion, "time", after, until), portion.height)
            if closed.height:
                yield self.finish(closed)
        self._replace(self._windows.retained_rows(rows, "time", low))
        if self._rows:
            self._due = max(self._windows.first_end(self._chunks[0], "time"), self._windows.next_end(low))

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return the rows of the state, in parts as they arrived."""
        self._chunks = compacted(self._chunks)
        self._bytes = sum(map(retained_bytes, self._chunks))
        return {"rows": self._chunks or [self._nothing]}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:
        """Replace the rows of the state."""
        self._replace(concatenated(tables["rows"]))
        if self._rows and not self._count:
            self._due = self._windows.first_end(self._chunks[0], "time")
            if self._forwarded != START:
                self._due = max(self._due, self._windows.next_end(self._forwarded))

    def _table(self) -> pl.DataFrame:
        if not self._chunks:
            return self._nothing
        if len(self._chunks) > 1:
            small = self._rows < len(self._chunks) * SMALL_ROWS
            self._chunks = [concatenated(self._chunks) if small else pl.concat(self._chunks)]
            self._bytes = retained_bytes(self._chunks[0])
        return self._chunks[0]

    def _replace(self, rows: pl.DataFrame) -> None:
        self._chunks = [rows] if rows.height else []
        self._rows = self._compacted = rows.height
        self._bytes = retained_bytes(rows) if rows.height else 0
        if not rows.height:
            self._due = END

    def _full(self) -> Iterable[pl.DataFrame]:
        size = self._count
        if self._rows < size:
            return ()
        rows = self._table()
        whole = rows.height // size * size
        self._replace(rows.slice(whole))
        number = pl.int_range(whole, dtype=pl.Int64, eager=True) // size
        full = self.prepare(rows.head(whole)).with_columns(number.alias(ORDINAL))
        bounds = full.with_columns(
            pl.col("time").min().over(ORDINAL).alias("window_start"),
            (pl.col("time").max().over(ORDINAL) + pl.duration(microseconds=1)).alias("window_end"),
        )
        return (self.finish(bounds),)
