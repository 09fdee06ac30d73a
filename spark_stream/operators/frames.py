"""Format of the streaming DataFrames of operators, and the conversion of streams to and from it.

A stream on Spark is a DataFrame with the columns of the plan's schema and two more, whose names no plan can contain:

``CLOCK``
    The event time, with the watermark; later than ``time`` by ``SHIFT``. Spark's watermark starts at 1970 and drops
    older rows; with the shift, it starts before all valid times. In a batch, which has no watermark, it is ``time``.
``ORDER``
    The order of a row in its stream: its position if the input has positions, its number among the rows of its window,
    or NULL if the order of the stream means nothing.

The input contains rows that are only punctuations (``MARK``). They must reach the watermark and nothing else, so a
filter behind the watermark drops them. The optimiser can neither simplify its condition nor move other filters past it:
a filter below the watermark could drop punctuations, and no window would ever close.

An entry in the metadata of a column marks it as event time for Spark. Operators create such columns, so that Spark
compares the same times with its watermark as peers do. On peers a tuple is late if it is older than the watermark;
Spark also drops a tuple of the same time. So where Spark compares the times of single rows, they are a microsecond
later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.connect import functions as sf

from spark_stream._expressions import quote, struct
from spark_stream._tables import MARK, POSITION, in_order, places_in_order
from synergy_nb.dataflow.operators.base import WINDOW

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column, DataFrame

    from synergy_nb.plan import Operator, Plan

__all__ = [
    "CLOCK",
    "END_TIME",
    "MARK",
    "ORDER",
    "POSITION",
    "SHIFT",
    "UNORDERED",
    "Work",
    "arrange",
    "columns_of",
    "enter",
    "event_time",
    "leave",
    "moved",
    "named",
    "struct",
]

CLOCK: Final = " clock"  # clock column; a name in a plan has no blank at its ends, so that this is none
ORDER: Final = " order"
#: Spark SQL for ORDER if the order of a stream means nothing.
UNORDERED: Final = "CAST(NULL AS BIGINT)"
#: Microseconds by which the clock of Spark is ahead: 2000 years, of which every 400 have the same number of days.
SHIFT: Final = 5 * 146_097 * 86_400 * 1_000_000
#: Event time in microseconds (100,000 years after 1970) of the punctuation that ends a stream in Spark: after the end
#: of any window of the year 9999, and within the 64 bits of Spark's clock.
END_TIME: Final = 250 * 146_097 * 86_400 * 1_000_000
#: Metadata that mark a column as event time for Spark.
EVENT_TIME: Final = {"spark.watermarkDelayMs": 0}


class Work(NamedTuple):
    """An operator to be applied, with its inputs."""

    operator: Operator
    plan: Plan
    inputs: tuple[DataFrame, ...]  # input streams of the operator
    inside: frozenset[str]  # operators of the plan that are executed in the same query
    secrets: Mapping[str, bytes]  # secrets by the name that plans use for them
    # columns by which the first input is sorted before the operator is applied; empty: it is not sorted
    order: tuple[str, ...] = ()
    finite: bool = False  # whether its inputs are finite, and all of their rows are there: a batch query
    # column of the first input to the greatest size that a sum of its values can have, where that is known
    totals: Mapping[str, int] | None = None

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the operator."""
        return self.operator.params

    @property
    def schemas(self) -> tuple[Mapping[str, str], ...]:
        """Column to type, of each input."""
        return tuple(self.plan.schema(upstream) for upstream in self.operator.inputs)  # a sort changes no column

    @property
    def shift(self) -> int:
        """Microseconds by which the clock of Spark is ahead."""
        return 0 if self.finite else SHIFT

    @property
    def output(self) -> Mapping[str, str]:
        """Column to type, of the result."""
        return self.plan.schema(self.operator.id)


def columns_of(schema: Mapping[str, str]) -> list[str]:
    """Columns of a stream except its time and the bounds of its windows."""
    return [name for name in schema if name not in ("time", *WINDOW)]


def moved(time: str, by: int) -> str:
    """SQL for ``time``, later by some microseconds."""
    return f"timestamp_micros(unix_micros({time}) + ({by}L))" if by else time


def named(text: str, name: str) -> Column:
    """The column ``name`` with the values of a Spark SQL expression."""
    return sf.expr(text).alias(name)


def event_time(text: str, name: str, *, finite: bool) -> Column:
    """The column ``name`` with the values of a Spark SQL expression, which Spark compares with its watermark if any."""
    return named(text, name) if finite else sf.expr(text).alias(name, metadata=EVENT_TIME)


def enter(source: DataFrame, schema: Mapping[str, str], *, numbered: bool = False, finite: bool = False) -> DataFrame:
    """Convert a stream of rows and punctuations to the format of operators.

    ``source``: a streaming DataFrame with the columns of ``schema``, times as TIMESTAMP, and ``MARK``, which is never
    NULL. No row of a micro-batch may be later than its last punctuation, and none older than the last one before it;
    ``schema``: column to type of the stream; ``numbered``: whether ``source`` has the positions of rows in their stream
    (``POSITION``); ``finite``: whether it has all rows of the stream, and no punctuations, hence no ``MARK``.
    """
    columns = [sf.col(quote(name)) for name in schema]
    order = named(quote(POSITION) if numbered else UNORDERED, ORDER)
    if finite:
        return source.select(*columns, named("`time`", CLOCK), order)
    rows = source.select("*", named(moved("`time`", SHIFT), CLOCK))
    rows = rows.withWatermark(quote(CLOCK), "0 seconds").filter(f"NOT ({quote(MARK)} AND length(uuid()) > 0)")
    return rows.select(*columns, sf.col(CLOCK), order)


def leave(frame: DataFrame, schema: Mapping[str, str], *, ordered: bool = False) -> DataFrame:
    """Convert a stream from the format of operators to the columns of its plan.

    ``schema``: column to type of the stream; ``ordered``: whether to retain ``ORDER``, which :func:`arrange` needs.
    """
    names = [*schema, ORDER] if ordered else list(schema)
    return frame.select(*(sf.col(quote(name)) for name in names))


def arrange(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows of a result into the order of peers, and drop the columns that determine it.

    ``rows``: rows of one or more micro-batches, from a stream that was left with ``ordered=True``.
    """
    plain, order = rows.drop(ORDER), rows.get_column(ORDER)
    return plain if in_order(plain, order) else plain[places_in_order(plain, order)]
