"""The query of the data-flow measurement on bytewax and streamz, each written as its users would for speed.

The query: of tuples (time, key, value), 64-bit integers, keep those with ``value >= 500``, double the value, and give
the count and the sum by key over windows of one second of event time.

Both run in the process that calls them: nothing is sent to another process, which favours them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import polars as pl

from synergy_experiments.bench.measurements import Usage

__all__ = ["RIVALS", "WINDOW", "Rival", "Rows", "missing", "reference"]

WINDOW: Final = 1_000_000  # µs
ITEMS: Final = 1_000  # a batch of single tuples
TABLE: Final = 65_536  # rows of a table
Rows = list[tuple[int, int, int, int]]
"""(start of the window in µs, key, count, sum), in order."""


class Rival(msgspec.Struct, frozen=True):
    """The query on another system.

    Parameters
    ----------
    name, system
        Name of this system, and the distribution that it needs.
    how
        Remark about the set-up, for readers of the results.
    share
        Leading share of the data that it processes: less than 1 for a slow system.
    run
        Function of the tuples that returns the time, the processor time, both in seconds and without the conversion of
        the tuples to Python objects, and the rows.
    """

    name: str
    system: str
    how: str
    share: float
    run: Callable[[pl.DataFrame], tuple[float, float, Rows]]


def missing(system: str) -> str:
    """Why a system cannot be run here; empty if it can."""
    try:
        importlib.metadata.version(system)
    except importlib.metadata.PackageNotFoundError:
        if system == "bytewax" and sys.version_info >= (3, 13):
            return "not installed: bytewax has no wheel for Python 3.13 and later"
        return f"not installed: pip install {system}, which is in the extra 'experiments'"
    return ""


def reference(table: pl.DataFrame) -> Rows:
    """The rows by one batch query, independent of all measured systems."""
    return _rows(_reduced(table))


def _used() -> Usage:
    return Usage([os.getpid()])


def _of(module: str) -> Any:
    """A module of an optional extra, without type hints."""
    return importlib.import_module(module)


# -- shared by the ways ------------------------------------------------------------------------------------------------


def _reduced(table: pl.DataFrame) -> pl.DataFrame:
    """Partial results of one table, as a user of either system would write it with Polars."""
    window = (pl.col("time").cast(pl.Int64) // WINDOW * WINDOW).alias("window")
    return (
        table.lazy()
        .filter(pl.col("value") >= 500)
        .select(window, "key", (pl.col("value") * 2).alias("double"))
        .group_by("window", "key")
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("double").sum().alias("total"))
        .collect()
    )


def _merged(partials: Iterable[pl.DataFrame]) -> Rows:
    both = pl.concat(list(partials)).group_by("window", "key").agg(pl.col("n").sum(), pl.col("total").sum())
    return _rows(both)


def _rows(table: pl.DataFrame) -> Rows:
    return table.select("window", "key", "n", "total").sort("window", "key").rows()


def _tuples(table: pl.DataFrame) -> list[tuple[int, int, int]]:
    return table.with_columns(pl.col("time").cast(pl.Int64)).rows()


def _in_lists(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _sums(items: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Count and sum by (window, key) of one batch of tuples."""
    counts: defaultdict[tuple[int, int], int] = defaultdict(int)
    totals: defaultdict[tuple[int, int], int] = defaultdict(int)
    for at, key, value in items:
        if value >= 500:
            place = (at // WINDOW * WINDOW, key)
            counts[place] += 1
            totals[place] += value * 2
    return {place: (count, totals[place]) for place, count in counts.items()}


# -- bytewax -----------------------------------------------------------------------------------------------------------


def _bytewax(batches: list[list[Any]], build: Callable[[Any, Any], Any]) -> tuple[Usage, list[Any]]:
    """Time and output of a flow of one worker whose source emits ``batches``."""
    op, inputs, outputs = (_of("bytewax." + module) for module in ("operators", "inputs", "outputs"))
    out: list[Any] = []

    class Partition(inputs.StatelessSourcePartition):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self._batches = iter(batches)

        def next_batch(self) -> Any:
            return next(self._batches)  # StopIteration ends the stream

    class Source(inputs.DynamicSource):  # type: ignore[misc,name-defined]
        def build(self, *_: Any) -> Partition:
            return Partition()

    class Taking(outputs.StatelessSinkPartition):  # type: ignore[misc,name-defined]
        def write_batch(self, items: list[Any]) -> None:
            out.extend(items)

    class Sink(outputs.DynamicSink):  # type: ignore[misc,name-defined]
        def build(self, *_: Any) -> Taking:
            return Taking()

    flow = _of("bytewax.dataflow").Dataflow("bench")
    op.output("out", build(op, op.input("in", flow, Source())), Sink())
    with _used() as usage:
        _of("bytewax.testing").run_main(flow)
    return usage, out


def _windows(stream: Any, builder: Any, folder: Any, merger: Any) -> Any:
    """Its own tumbling windows by event time over (key, (µs, ...))."""
    windowing = _of("bytewax.operators.windowing")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    clock = windowing.EventClock(
        ts_getter=lambda item: epoch + timedelta(microseconds=item[0]),
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: epoch,  # or its watermark would also follow the wall clock, and tuples would be late
    )
    windower = windowing.TumblingWindower(length=timedelta(microseconds=WINDOW), align_to=epoch)
    folded: Any = windowing.fold_window("sums", stream, clock, windower, builder, folder, merger)
    return folded.down


def _add(held: tuple[int, int], count: int, total: int) -> tuple[int, int]:
    return held[0] + count, held[1] + total


def bytewax_items(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Tuple by tuple through its filter, map and window operators; its source hands over batches."""
    batches = _in_lists(_tuples(table), ITEMS)

    def build(op: Any, stream: Any) -> Any:
        kept = op.filter("filter", stream, lambda item: item[2] >= 500)
        doubled = op.map("project", kept, lambda item: (str(item[1]), (item[0], item[2] * 2)))
        return _windows(doubled, lambda: (0, 0), lambda held, item: _add(held, 1, item[1]), lambda a, b: _add(a, *b))

    usage, found = _bytewax(batches, build)
    return usage.wall, usage.cpu, sorted((window * WINDOW, int(key), *sums) for key, (window, sums) in found)


def bytewax_batches(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Whole batches of tuples by flat_map_batch, which also sums within a batch, then its window operator."""
    batches = _in_lists(_tuples(table), 10 * ITEMS)

    def reduce(items: list[tuple[int, int, int]]) -> Iterator[tuple[str, tuple[int, int, int]]]:
        return ((str(key), (window, *sums)) for (window, key), sums in _sums(items).items())

    def build(op: Any, stream: Any) -> Any:
        summed = op.flat_map_batch("reduce", stream, reduce)
        return _windows(summed, lambda: (0, 0), lambda held, item: _add(held, *item[1:]), lambda a, b: _add(a, *b))

    usage, found = _bytewax(batches, build)
    return usage.wall, usage.cpu, sorted((window * WINDOW, int(key), *sums) for key, (window, sums) in found)


def bytewax_tables(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Polars tables as items: bytewax hands them on, Polars does the work."""
    batches = [[piece] for piece in table.iter_slices(TABLE)]
    with _used() as usage:
        _, partials = _bytewax(batches, lambda op, stream: op.map("reduce", stream, _reduced))
        rows = _merged(partials)
    return usage.wall, usage.cpu, rows


# -- streamz -----------------------------------------------------------------------------------------------------------


def streamz_items(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Tuple by tuple through its filter, map and sink."""
    items = _tuples(table)
    counts: defaultdict[tuple[int, int], int] = defaultdict(int)
    totals: defaultdict[tuple[int, int], int] = defaultdict(int)

    def add(item: tuple[int, int, int]) -> None:
        window, key, double = item
        counts[window, key] += 1
        totals[window, key] += double

    stream = _of("streamz").Stream()
    kept = stream.filter(lambda item: item[2] >= 500)
    kept.map(lambda item: (item[0] // WINDOW * WINDOW, item[1], item[2] * 2)).sink(add)
    with _used() as usage:
        for item in items:
            stream.emit(item)
    return usage.wall, usage.cpu, sorted((*place, count, totals[place]) for place, count in counts.items())


def streamz_batches(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Lists of tuples as events, summed in Python."""
    batches = _in_lists(_tuples(table), 10 * ITEMS)
    held: dict[tuple[int, int], tuple[int, int]] = {}

    def add(partial: dict[tuple[int, int], tuple[int, int]]) -> None:
        for place, sums in partial.items():
            held[place] = _add(held.get(place, (0, 0)), *sums)

    stream = _of("streamz").Stream()
    stream.map(_sums).sink(add)
    with _used() as usage:
        for batch in batches:
            stream.emit(batch)
    return usage.wall, usage.cpu, sorted((*place, *sums) for place, sums in held.items())


def streamz_tables(table: pl.DataFrame) -> tuple[float, float, Rows]:
    """Polars tables as events: streamz hands them on, Polars does the work."""
    partials: list[pl.DataFrame] = []
    stream = _of("streamz").Stream()
    stream.map(_reduced).sink(partials.append)
    with _used() as usage:
        for piece in table.iter_slices(TABLE):
            stream.emit(piece)
        rows = _merged(partials)
    return usage.wall, usage.cpu, rows


RIVALS: Final = (
    Rival(
        "bytewax",
        "bytewax",
        "lists of 10,000 tuples by flat_map_batch, summed in Python; its windows",
        0.25,
        bytewax_batches,
    ),
    Rival(
        "bytewax, tuple by tuple",
        "bytewax",
        "its filter, map and windows; 1,000 tuples a source batch",
        0.02,
        bytewax_items,
    ),
    Rival(
        "bytewax, Polars tables as items",
        "bytewax",
        "one process; 65,536 rows an item, summed by Polars",
        1.0,
        bytewax_tables,
    ),
    Rival("streamz", "streamz", "lists of 10,000 tuples as events, summed in Python", 0.25, streamz_batches),
    Rival("streamz, tuple by tuple", "streamz", "its filter, map and sink", 0.1, streamz_items),
    Rival(
        "streamz, Polars tables as events",
        "streamz",
        "one process; 65,536 rows an event, summed by Polars",
        1.0,
        streamz_tables,
    ),
)
