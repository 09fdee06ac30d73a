"""Sources that replay or generate: traces and packets as batches with positions and punctuations, and their pacing.

:func:`read` turns the parameters of a source into the items of its stream, as fast as possible and with no clock;
:func:`paced` computes when each item is due at a speed of replay. The driver of the source waits until then and sets
``born``, which is 0 here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import polars as pl

from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.events import SkippedLines
from synergy_nb.plan.operators.sources import GENERATED, HEARTBEAT, TIME_UNITS, TRACE_SCHEMAS
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.traces import nexmark, packets
from synergy_nb.traces._ahead import one_ahead
from synergy_nb.traces._time_order import RowStore, Times, TimeSurvey, sized
from synergy_nb.traces._typed_columns import Tally
from synergy_nb.traces.text_files import UTF8, check_encoding
from synergy_nb.traces.trace_files import Opened, opened, sniff

__all__ = [
    "BATCH_ROWS",
    "Info",
    "Skipped",
    "info",
    "open_trace",
    "paced",
    "read",
    "read_once",
    "schema_of",
    "sniff",
    "table",
]

BATCH_ROWS: Final = 65_536
CONNECTORS: Final = (*GENERATED, "trace")
log = logging.getLogger(__name__)
_Entry = TypeVar("_Entry")
Skipped = Callable[[SkippedLines], None]
"""Callback with the malformed lines of a trace that are skipped."""


class Info(msgspec.Struct, frozen=True):
    """Summary of a trace.

    Parameters
    ----------
    path, format, size
        Path of the file, its format, and its size in bytes.
    rows
        Number of tuples, without malformed lines.
    first, last
        Least and greatest event time, ISO 8601.
    duration
        Time from ``first`` to ``last``, seconds.
    columns
        Column to type.
    disorder
        Largest time by which a tuple is earlier than a previous one in the file, seconds; 0 if the file is in order.
    malformed
        Number of lines that could not be parsed and are skipped.
    complaint
        Message about the first malformed line: number of the line, field, value, what was expected; empty if there is
        none.
    complaint_text
        Text of that line.
    doubt
        Sentence about an event time that is implausible, as its number seems to have another unit; empty: none is.
    """

    path: str
    format: str
    size: int
    rows: int
    first: str
    last: str
    duration: float
    columns: dict[str, str]
    disorder: float
    malformed: int
    complaint: str
    complaint_text: str
    doubt: str = ""


def open_trace(params: Mapping[str, Any]) -> Opened:
    """Open the trace of a source with connector ``trace``, and read its beginning.

    Parameters
    ----------
    params
        Parameters ``path``, and optionally ``format``, ``columns``, ``time``, ``encoding``, ``quotes``, ``time_unit``,
        ``strict``, ``tolerance`` as in
        :func:`synergy_nb.traces.trace_files.opened`.

    Raises
    ------
    ValueError
        If the trace cannot be opened, see :func:`synergy_nb.traces.trace_files.opened`.
    """
    path = params.get("path")
    if not isinstance(path, str | Path) or not str(path):
        raise ValueError(f"path: {path!r}; expected the path of a trace")
    unit = params.get("time_unit")
    if unit is not None and unit not in TIME_UNITS:
        raise ValueError(
            f"time_unit: {unit!r}; expected one of {', '.join(TIME_UNITS)}{did_you_mean(unit, TIME_UNITS)}"
        )
    encoding = params.get("encoding") or UTF8
    check_encoding(encoding)
    return opened(
        path,
        params.get("format"),
        columns=params.get("columns") or None,
        time=params.get("time"),
        encoding=encoding,
        quotes=params.get("quotes"),
        time_unit=unit,
        strict=bool(params.get("strict", False)),
        tolerance=float(params.get("tolerance", 0.01)),
    )


def schema_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Column to type of the stream of :func:`read` for ``params``; it reads only the beginning of a file."""
    if _connector(params) == "packets":
        return packets.schema_of(params)
    if _connector(params) == "nexmark":
        return nexmark.schema_of(params)
    kind = params.get("format")
    if isinstance(kind, str) and kind in ("http", "ncsa", "tcp"):
        return dict(TRACE_SCHEMAS[kind])
    return dict(open_trace(params).schema)


def read(params: Mapping[str, Any], skipped: Skipped | None = None) -> Iterator[Item]:
    """Read the items of a source with connector ``trace``, ``packets`` or ``nexmark``.

    Parameters
    ----------
    params
        Parameters of the source. For a trace, those of :func:`open_trace`, and optionally ``lateness`` (seconds):
        without it, tuples are sorted by event time (ties stay in the order of the file); with it, they stay in the
        order of the file, and a file with more disorder is refused. For packets, those of
        :func:`synergy_nb.traces.packets.parameters`. For both, ``batch`` (tuples per batch; by default 65,536, of
        packets those of ten seconds within bounds, as the first tuple of a slow stream waits for its whole batch).
    skipped
        Callback for malformed lines that were skipped, called at most once, before the first item.

    Returns
    -------
    iterator of Batch and Punctuation
        Items with consecutive positions from 0. After each batch follows a punctuation with the greatest time that no
        later tuple precedes, after the last one ``END``. ``born`` is 0.

    Raises
    ------
    ValueError
        If the parameters are invalid or the trace cannot be read; raised by the call, before the first item.
    """
    rows = params.get("batch", BATCH_ROWS)
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise ValueError(f"batch: {rows!r}; expected a number of tuples of at least 1")
    if _connector(params) == "packets":
        return packets.generate(packets.parameters(params), params.get("batch"))
    if _connector(params) == "nexmark":
        events = nexmark.tables(nexmark.parameters(params))
        return _sorted_batches(piece for each in events for piece in each.iter_slices(rows))
    lateness = _lateness(params)
    trace = open_trace(params)
    survey, tally = TimeSurvey(rows), Tally()
    store = None if trace.again else RowStore(ordered=lateness is None)
    for found in trace.judged(tally):
        survey.add(_micros(found))
        if store is not None:
            store.add(found)
    _tell(trace, tally, skipped)
    if lateness is not None and survey.disorder > round(lateness * 1e6):
        raise ValueError(
            f"{trace.path}: lateness: tuple {survey.latest_row} is {survey.disorder / 1e6:g} s behind an earlier one; "
            f"expected at most {lateness:g} s"
        )
    if lateness is not None or survey.disorder == 0:
        return _batches(sized(trace.rows() if store is None else store.tables(), rows), survey.bounds())
    if store is None:
        store = RowStore(ordered=True)
        for found in trace.rows():
            store.add(found)
    return _sorted_batches(sized(store.merged(), rows))


class _OutOfOrder(Exception):
    """A tuple of a trace is earlier than one before it in the file."""


def read_once(
    params: Mapping[str, Any], take: Callable[[Iterator[pl.DataFrame]], object], skipped: Skipped | None = None
) -> bool:
    """Have the tuples of a trace taken as they are read for the first time; return whether they are in order of time.

    If not, :func:`read` has them in their order. What :func:`read` says before the first tuple is known when the last
    one is there: so this is for who can give back what was taken. Nothing is stored or read twice.

    ``params``, ``skipped``: as for :func:`read`; ``take``: function that is called with all tuples, and ends with them.

    Raises ``ValueError`` as :func:`read`, at the latest at the end.
    """
    rows, _ = params["batch"], _lateness(params)
    trace, tally = open_trace(params), Tally()
    try:
        take(one_ahead(sized(_rising(trace.judged(tally)), rows), "trace-rows"))
    except _OutOfOrder:
        return False
    _tell(trace, tally, skipped)
    return True


def _rising(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    last = START
    for found in tables:
        times = _micros(found)
        if times[0] < last or (times[1:] < times[:-1]).any():
            raise _OutOfOrder
        last = int(times[-1])
        yield found


def table(params: Mapping[str, Any]) -> pl.DataFrame:
    """Read all tuples of a source as one table; ``params`` as for :func:`read`.

    Examples
    --------
    >>> table({"connector": "packets", "seed": 1, "count": 3}).shape
    (3, 7)
    """
    return pl.concat(item.table for item in read(params) if isinstance(item, Batch))


def info(path: str | Path, **options: Any) -> Info:
    """Summarise the trace at ``path``; ``options`` are the parameters of :func:`open_trace`."""
    trace = open_trace({"path": path, **options})
    survey, tally = TimeSurvey(BATCH_ROWS), Tally()
    for found in trace.judged(tally):
        survey.add(_micros(found))
    assert survey.first is not None
    assert survey.last is not None
    ends = pl.Series([survey.first, survey.last]).cast(pl.Datetime("us")).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f")
    bad = tally.malformed
    return Info(
        path=str(trace.path),
        format=trace.format,
        size=trace.path.stat().st_size,
        rows=survey.rows,
        first=ends[0],
        last=ends[1],
        duration=(survey.last - survey.first) / 1e6,
        columns=trace.schema,
        disorder=survey.disorder / 1e6,
        malformed=bad.count if bad is not None else 0,
        complaint=str(bad) if bad is not None else "",
        complaint_text=bad.text if bad is not None else "",
        doubt=tally.doubt,
    )


def paced(
    items: Iterable[Item], speed: float, span: float = 0.001, heartbeat: float = HEARTBEAT
) -> Iterator[tuple[float, Item]]:
    """Compute when each item of a stream is due in a replay at ``speed``, in seconds since its start.

    A tuple of event time t is due at (t - t0) / speed, t0 being the time of the first tuple; a tuple that is out of
    order, with the one before it. Batches are split so that each covers at most ``span``, and are due with their last
    tuple: none leaves before its time. A punctuation is due when the replayed time has reached it, so that a window is
    never closed before it has ended; while nothing is due, and between the pieces of a batch, one is added every
    ``heartbeat``.

    Parameters
    ----------
    items
        Batches and punctuations, such as those of :func:`read`.
    speed
        Speed of the replay, seconds of event time per second; 0: all items are due at once, and are not split.
    span, heartbeat
        Longest time that a batch covers, and longest time between punctuations, seconds of replay.

    Yields
    ------
    due, item
        Due times, which never decrease, with their items.

    Examples
    --------
    >>> table = pl.DataFrame({"time": [0, 500_000, 2_000_000]}, schema={"time": pl.Datetime("us")})
    >>> for due, item in paced([Batch(table, 0, 0.0), Punctuation(END, 3, 0.0)], speed=2, heartbeat=1):
    ...     print(due, item.rows if isinstance(item, Batch) else item.time if item.time < END else "end")
    0.0 1
    0.25 1
    1.0 2000000
    1.0 1
    1.0 end
    """
    for field, value, least in (("speed", speed, 0.0), ("span", span, 0.0), ("heartbeat", heartbeat, 1e-6)):
        if not least <= value < math.inf:
            raise ValueError(f"{field}: {value!r}; expected a finite number of at least {least:g}")
    if speed == 0:
        return ((0.0, item) for item in items)
    return _paced(items, speed, span, heartbeat)


def _lateness(params: Mapping[str, Any]) -> float | None:
    lateness: float | None = params.get("lateness")
    if lateness is not None and (not isinstance(lateness, int | float) or not 0 <= lateness < math.inf):
        raise ValueError(f"lateness: {lateness!r}; expected seconds, at least 0")
    return lateness


def _tell(trace: Opened, tally: Tally, skipped: Skipped | None) -> None:
    """Say which lines were skipped, if any were."""
    if (bad := tally.malformed) is None and not tally.doubt:
        return
    lines = SkippedLines(str(trace.path), 0 if bad is None else bad.count, str(bad or ""), tally.doubt)
    log.warning("skipped %s" if lines.count else "implausible times in %s", lines)
    if skipped is not None:
        skipped(lines)


def _connector(params: Mapping[str, Any]) -> str:
    found = params.get("connector", "trace")
    if found not in CONNECTORS:
        hint = did_you_mean(found, CONNECTORS)
        raise ValueError(f"connector: {found!r}; expected one of {', '.join(CONNECTORS)}{hint}")
    return str(found)


def _micros(table: pl.DataFrame) -> Times:
    """Event times of a table, microseconds."""
    times: Times = table.get_column("time").cast(pl.Int64).to_numpy()
    return times


def _batches(tables: Iterable[pl.DataFrame], bounds: Times) -> Iterator[Item]:
    """Yield each table as a batch with its punctuation; ``bounds``: the least time in it and in all later ones."""
    position = 0
    for index, found in enumerate(tables):
        yield Batch(found, position, 0.0)
        position += found.height
        yield Punctuation(int(bounds[index + 1]) if index + 1 < len(bounds) else END, position, 0.0)


def _sorted_batches(tables: Iterable[pl.DataFrame]) -> Iterator[Item]:
    """Yield each of the tables, sorted by time, as a batch with its punctuation."""
    position = 0
    for found, following in _with_next(tables):
        yield Batch(found, position, 0.0)
        position += found.height
        yield Punctuation(END if following is None else int(_micros(following)[0]), position, 0.0)


def _paced(items: Iterable[Item], speed: float, span: float, heartbeat: float) -> Iterator[tuple[float, Item]]:
    scale = speed * 1e6  # microseconds of event time a second of replay
    step = round(span * scale)
    origin: int | None = None
    last = 0.0  # due time of the latest item
    beat_at = 0.0  # due time of the latest punctuation
    promised = START
    latest = START  # greatest event time so far
    position = 0

    def beats(until: float, bound: int) -> Iterator[tuple[float, Item]]:
        """Yield the punctuations that are due before ``until``, none beyond ``bound``."""
        nonlocal last, beat_at, promised
        if origin is None:
            return
        while beat_at + heartbeat <= until and promised < bound:
            due = max(beat_at + heartbeat, last)
            time = min(bound, origin + math.floor(due * scale))
            last = beat_at = due
            if time > promised:
                promised = time
                yield due, Punctuation(time, position, 0.0)

    for item, follower in _with_next(items):
        if isinstance(item, Punctuation):
            if item.time == END or origin is None:
                yield last, item
            else:
                due = max(last, (item.time - origin) / scale)
                yield from beats(due, item.time)
                if item.time > promised:
                    last = beat_at = max(last, due)
                    promised = item.time
                    yield last, item
            continue
        times = item.table["time"].cast(pl.Int64).to_numpy()
        if not len(times):
            continue
        if origin is None:
            origin = int(times[0])
        running = np.maximum(np.maximum.accumulate(times), latest)
        # No later tuple is below these times: by the batch's own tuples within it, and only by a punctuation after it.
        beyond = follower.time if isinstance(follower, Punctuation) else START
        bounds = np.minimum(np.minimum.accumulate(times[::-1])[::-1], beyond)
        start = 0
        while start < len(times):
            yield from beats((int(running[start]) - origin) / scale, int(bounds[start]))
            stop = int(np.searchsorted(running, running[start] + step, side="right"))
            latest = int(running[stop - 1])
            last = max(last, (latest - origin) / scale)
            piece = msgspec.structs.replace(
                item, table=item.table.slice(start, stop - start), position=item.position + start
            )
            position = piece.end_position
            yield last, piece
            start = stop


def _with_next(items: Iterable[_Entry]) -> Iterator[tuple[_Entry, _Entry | None]]:
    """Yield each item with the next one."""
    previous: _Entry | None = None
    for item in items:
        if previous is not None:
            yield previous, item
        previous = item
    if previous is not None:
        yield previous, None
