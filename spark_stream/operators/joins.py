"""Join of two streams on equal columns, within a span of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from spark_stream._expressions import quote
from spark_stream.operators._registry import implements
from spark_stream.operators.frames import CLOCK, ORDER, UNORDERED, Work, columns_of, event_time, moved, named
from spark_stream.operators.windows import WINDOW_COLUMN, windowed
from synergy_nb.dataflow.operators.base import WINDOW
from synergy_nb.dataflow.operators.windows import microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["join"]


def _within_windows(work: Work) -> bool:
    """Whether windows are joined to windows; then the times of a pair are equal, as they follow from the window."""
    return set(WINDOW) <= set(work.params["on"])


@implements("join")
def join(work: Work) -> DataFrame:
    """Pairs of tuples with equal values (NULL equals nothing) whose times are at most ``within`` apart.

    With ``how="left"``, also the left tuples without a partner; with ``how="anti"``, only these.
    """
    on = [name for name in work.params["on"] if name not in WINDOW or not _within_windows(work)]
    left, right = (_side(work, port, on) for port in (0, 1))
    equal = [f"{_at(0, name)} = {_at(1, name)}" for name in on]
    how = "inner" if work.params["how"] == "inner" else "leftOuter"  # Spark has no anti join of two streams
    if _within_windows(work):
        same = f"{_at(0, WINDOW_COLUMN)} = {_at(1, WINDOW_COLUMN)}"
        pairs, partner = left.join(right, sf.expr(" AND ".join([same, *equal])), how), _at(1, WINDOW_COLUMN)
        window = f"{_at(0, WINDOW_COLUMN)}.{{}}"
        bounds = [moved(window.format("end"), -work.shift - 1)]
        bounds += [moved(window.format(bound), -work.shift) for bound in ("start", "end")]
        times = dict(zip(("time", *WINDOW), bounds, strict=True))
        clock = moved(window.format("end"), -1)
    else:
        span = f"INTERVAL '{_interval(microseconds(work.params['within']))}' DAY TO SECOND"
        mine, other = _at(0, CLOCK), _at(1, CLOCK)
        near = [f"{mine} >= {other} - {span}", f"{mine} <= {other} + {span}"]
        pairs, partner = left.join(right, sf.expr(" AND ".join([*equal, *near])), how), other
        alone = moved(mine, microseconds(work.params["within"]))
        later = f"CASE WHEN {other} IS NULL THEN {alone} ELSE greatest({mine}, {other}) END"  # each a microsecond late
        times = {"time": moved(later, -work.shift - 1)}
        clock = moved(later, -1)
    if work.params["how"] == "anti":
        pairs = pairs.filter(f"{partner} IS NULL")
    columns = [named(times.get(name) or source, name) for name, source in _origins(work, on).items()]
    return pairs.select(*columns, event_time(clock, CLOCK, finite=work.finite), named(UNORDERED, ORDER))


def _at(port: int, name: str) -> str:
    return quote(f" {port} {name}")


def _side(work: Work, port: int, on: list[str]) -> DataFrame:
    """One input, with unique column names and the event time that Spark compares with its watermark."""
    schema, frame = work.schemas[port], work.inputs[port]
    names = dict.fromkeys([*on, *columns_of(schema)])
    columns = [sf.col(quote(name)).alias(f" {port} {name}") for name in names]
    if _within_windows(work):
        windows = windowed(work, frame, port)
        return windows.frame.select(windows.window.alias(f" {port} {WINDOW_COLUMN}"), *columns)
    clock = event_time(moved(quote(CLOCK), 1), f" {port} {CLOCK}", finite=work.finite)
    return frame.select(clock, *columns)


def _interval(span: int) -> str:
    seconds, micros = divmod(span, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    return f"{days} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _origins(work: Work, on: list[str]) -> dict[str, str]:
    """Column of the result to SQL, in the order of the plan: columns of the left input, then of the right."""
    left, right = work.schemas
    sources = [_at(0, name) for name in columns_of(dict.fromkeys([*on, *left], ""))]
    if work.params["how"] != "anti":
        sources += [_at(1, name) for name in columns_of(right) if name not in work.params["on"]]
    names = columns_of(work.output)
    times = [name for name in work.output if name not in names]
    return {**dict.fromkeys(times, ""), **dict(zip(names, sources, strict=True))}
