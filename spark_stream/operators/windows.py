"""The operators aggregate and count, and windows, which other operators use, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.connect import functions as sf

from spark_stream._expressions import aggregate as written
from spark_stream._expressions import decaying, quote, translate
from spark_stream.operators._registry import implements
from spark_stream.operators.frames import (
    CLOCK,
    ORDER,
    UNORDERED,
    Work,
    columns_of,
    event_time,
    moved,
    named,
    struct,
)
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.plan.sql import sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

__all__ = ["WINDOW_COLUMN", "Windowed", "aggregate", "count", "windowed"]

WINDOW_COLUMN: Final = " window"
# windows per row up to which Spark makes one projection for each; for more, a list is exploded
_MOST_COPIES: Final = 16
_END: Final = " end"
# an expression that is FALSE, which the optimiser does not know
_NEVER: Final = f"({quote(CLOCK)} < TIMESTAMP '0001-01-01 00:00:00')"


class Windowed(NamedTuple):
    """A stream with the window of each row; a row is repeated for each of its windows."""

    frame: DataFrame
    window: Column  # column with the window, a struct of start and end on Spark's clock
    shift: int  # microseconds by which the bounds in the struct are ahead of the true ones
    begun: int = 0  # by which the start is even more so
    keys: tuple[Column, ...] = ()  # columns to group by in addition to the window, if Spark requires at least one

    def by(self, columns: Sequence[Column] = ()) -> GroupedData:
        """Group rows by window and ``columns``."""
        return self.frame.groupBy(self.window.alias(WINDOW_COLUMN), *(columns or self.keys))

    def finished(self, rows: DataFrame, columns: Mapping[str, str], order: str) -> DataFrame:
        """Make a stream from the results of groups.

        ``rows``: results of the groups, with their window; ``columns``: column to SQL, for all columns except the time
        and the bounds of windows; ``order``: SQL for ``ORDER``.
        """
        start, end = (f"{quote(WINDOW_COLUMN)}.{bound}" for bound in ("start", "end"))
        bounds = {
            "time": moved(end, -self.shift - 1),
            "window_start": moved(start, -self.shift - self.begun),
            "window_end": moved(end, -self.shift),
        }
        clock = event_time(moved(end, -1), CLOCK, finite=not self.shift)
        visible = [named(text, name) for name, text in {**bounds, **columns}.items()]
        return rows.select(*visible, clock, named(order, ORDER))


def windowed(work: Work, frame: DataFrame | None = None, port: int = 0) -> Windowed:
    """An input of an operator with windows: those of the operator's parameter, or else those of the input."""
    stream, shift = work.inputs[port] if frame is None else frame, work.shift
    window: Mapping[str, Any] | None = work.params.get("window")
    if window is None:
        bounds = f"struct({moved('window_start', shift)} AS start, {moved('window_end', shift)} AS end)"
        return _under(stream, bounds, WINDOW_COLUMN, shift)
    if window["kind"] == "session":
        # In Spark, two tuples exactly one gap apart are in one session; so the gap is shorter and starts later.
        gap = max(microseconds(window["gap"]), 1)
        ends = stream.select("*", event_time(moved(quote(CLOCK), 1), _END, finite=work.finite))
        session = sf.session_window(quote(_END), f"{gap - 1} microseconds")
        return Windowed(ends, session, shift, 1, (named(_NEVER, " all"),))
    length = microseconds(window["length"])
    slide = microseconds(window["slide"]) if window["kind"] == "sliding" else length
    if -(-length // slide) <= _MOST_COPIES:
        units = [f"{number} microseconds" for number in (length, slide, shift % slide)]
        return Windowed(stream, sf.window(quote(CLOCK), *units), shift)
    clock, offset = f"unix_micros({quote(CLOCK)})", shift % slide
    last = f"({clock} - pmod({clock} - {offset}L, {slide}L))"
    first = f"({clock} - {length - slide}L - pmod({clock} - {offset + length}L, {slide}L))"
    starts = stream.select("*", named(f"explode(sequence({first}, {last}, {slide}L))", " start"))
    bounds = f"timestamp_micros(` start`) AS start, timestamp_micros(` start` + {length}L) AS end"
    return _under(starts, f"struct({bounds})", " bounds", shift)


def _under(stream: DataFrame, bounds: str, name: str, shift: int) -> Windowed:
    """Add a column that Spark treats as the window of a row."""
    return Windowed(stream.select("*", event_time(bounds, name, finite=not shift)), sf.col(quote(name)), shift)


@implements("aggregate")
def aggregate(work: Work) -> DataFrame:
    """One tuple per group and window, ordered by group."""
    by, half_life, schema = list(work.params["by"]), work.params.get("half_life"), work.schemas[0]
    windows = windowed(work)
    groups = windows.by([sf.col(quote(name)) for name in by])
    kept: dict[str, Column] = {}  # by the name of a call
    decayed: dict[str, Column] = {}
    values: dict[str, str] = {}
    for name, text in work.params["values"].items():
        left, calls = sql.calls(sql.parse(text, schema, aggregate=True))
        types = sql.call_types(calls, schema, half_life=half_life is not None)
        for each, call in calls.items():
            weighed = None if half_life is None else decaying(call, schema)
            if weighed is None:
                kept[each] = named(written(call, schema, types[each], (quote(ORDER),), work.totals), each)
            else:
                (what, value), column = weighed, f" value{each}"
                pair = struct(["unix_micros(`time`)", value])
                kept[each] = named(f"collect_list(CASE WHEN {value} IS NOT NULL THEN {pair} END)", column)
                decayed[each] = named(_decayed(what, quote(column), windows, 1e6 * (half_life or 1.0)), each)
        values[name] = (
            quote(left.name) if left.name in calls else translate(sql.canonical(left), types, work.output[name])
        )
    rows = groups.agg(*kept.values())
    rows = rows.select("*", *decayed.values()) if decayed else rows
    columns = {name: values.get(name, quote(name)) for name in columns_of(work.output)}
    order = struct(part for name in by for part in (f"{quote(name)} IS NULL", quote(name))) if by else UNORDERED
    made, having = windows.finished(rows, columns, order), work.params.get("having")
    return made if having is None else made.filter(translate(having, work.output, "bool"))


def _decayed(what: str, pairs: str, windows: Windowed, half_life: float) -> str:
    """SQL for a sum, a count or an average of (time, value) pairs, each weighed by its age."""
    result = f"(unix_micros({quote(WINDOW_COLUMN)}.end) - {windows.shift + 1}L)"
    share = f"pow(2.0D, CAST(p.c0 - {result} AS DOUBLE) / {half_life!r}D)"
    weight = f"aggregate({pairs}, 0.0D, (a, p) -> a + {share})"
    if what == "count":
        return weight
    total = f"aggregate({pairs}, 0.0D, (a, p) -> a + p.c1 * {share})"
    return f"CASE WHEN size({pairs}) > 0 THEN {total if what == 'sum' else f'{total} / {weight}'} END"


@implements("count")
def count(work: Work) -> DataFrame:
    """The number of tuples in each window."""
    windows = windowed(work)
    rows = windows.by().agg(named("count(1L)", " value"))
    return windows.finished(rows, {work.params["name"]: "` value`"}, UNORDERED)
