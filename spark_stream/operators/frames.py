"""What the operators' streaming DataFrames are like, how a stream enters them and leaves them.

A stream on Spark is a DataFrame with the columns of the plan's schema and two more, which no plan can name:

``CLOCK``
    The event time, on which the watermark is; later than ``time`` by ``SHIFT``. Spark's watermark starts at 1970, and
    would drop whatever is older; with the shift, it starts before all times that can be written.
``ORDER``
    Where in its stream a row stands: its position in a stream that came in with positions, its place among the rows of
    its window, or NULL where the order of a stream means nothing.

Streams come in with rows that carry nothing but a punctuation (``MARK``). The watermark must see them and nothing else
must, so they are dropped behind it, by a condition that the optimiser can neither simplify nor pass by with another:
what is pushed below a watermark drops the punctuations with the rows, and no window ever closes.

Spark knows columns with event time by an entry in their metadata. Operators make such columns themselves, so that what
Spark compares with its watermark is exactly what a window's end is compared with on peers: a tuple is late if it is
older than the watermark, and Spark would drop one that is as old as that; so where Spark looks at the times of single
rows, they are put a microsecond later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl
from pyspark.sql.connect import functions as sf

from spark_stream.expressions import quote
from spark_stream.tables import MARK, POSITION
from synergy_nb.dataflow.operators.base import WINDOW
from synergy_nb.plan.schemas import is_windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from synergy_nb.plan import Operator, Plan

__all__ = [
    "CLOCK",
    "END_TIME",
    "EVENT_TIME",
    "MARK",
    "ORDER",
    "POSITION",
    "SHIFT",
    "UNORDERED",
    "Work",
    "arrange",
    "columns_of",
    "enter",
    "leave",
    "moved",
    "named",
    "struct",
]

CLOCK: Final = " clock"  # a name in a plan has no blank at its ends
ORDER: Final = " order"
#: ORDER where the order of a stream means nothing, in Spark SQL.
UNORDERED: Final = "CAST(NULL AS BIGINT)"
#: Microseconds by which the clock of Spark is ahead: 2000 years, of which every 400 have the same number of days.
SHIFT: Final = 5 * 146_097 * 86_400 * 1_000_000
#: Event time in microseconds (the year 7999) of the punctuation that ends a stream in Spark.
END_TIME: Final = 190_256_860_800 * 1_000_000
#: Metadata by which Spark knows a column with event time.
EVENT_TIME: Final = {"spark.watermarkDelayMs": 0}


class Work(NamedTuple):
    """What an operator is applied to.

    Parameters
    ----------
    operator, plan
        The operator, and the plan that it belongs to.
    inputs
        Input streams of the operator.
    inside
        Operators of the plan that are executed in the same query.
    keys
        Secrets by the name that plans use for them.
    order
        Columns by which the first input is to be sorted before anything else; none: it is taken as it is.
    """

    operator: Operator
    plan: Plan
    inputs: tuple[DataFrame, ...]
    inside: frozenset[str]
    keys: Mapping[str, bytes]
    order: tuple[str, ...] = ()

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the operator."""
        return self.operator.params

    @property
    def schemas(self) -> tuple[Mapping[str, str], ...]:
        """Column to type, of each input."""
        return tuple(self.plan.schema(upstream) for upstream in self.operator.inputs)  # a sort changes no column

    @property
    def output(self) -> Mapping[str, str]:
        """Column to type, of the result."""
        return self.plan.schema(self.operator.id)


def columns_of(schema: Mapping[str, str]) -> list[str]:
    """The columns of a stream that are no time and no bound of a window."""
    return [name for name in schema if name not in ("time", *WINDOW)]


def moved(time: str, by: int) -> str:
    """SQL for ``time``, later by some microseconds."""
    return f"timestamp_micros(unix_micros({time}) + ({by}L))"


def named(text: str, name: str) -> Column:
    """The column ``name`` with the values of some Spark SQL."""
    return sf.expr(text).alias(name)


def struct(parts: Iterable[str]) -> str:
    """SQL for a struct of some SQL, with the fields c0, c1, ..."""
    return "named_struct({})".format(", ".join(f"'c{number}', {part}" for number, part in enumerate(parts)))


def enter(source: DataFrame, schema: Mapping[str, str], *, numbered: bool = False) -> DataFrame:
    """A stream of rows and punctuations as operators take it.

    Parameters
    ----------
    source
        A streaming DataFrame with the columns of ``schema``, times as TIMESTAMP, and ``MARK``, which is never NULL. No
        row of a micro-batch may be later than its last punctuation, and none older than the last one before it.
    schema
        Column to type of the stream.
    numbered
        Whether ``source`` has the positions of rows in their stream (``POSITION``).
    """
    clocked = source.select("*", named(moved("`time`", SHIFT), CLOCK)).withWatermark(quote(CLOCK), "0 seconds")
    rows = clocked.filter(f"NOT ({quote(MARK)} AND length(uuid()) > 0)")
    order = quote(POSITION) if numbered else UNORDERED
    return rows.select(*(sf.col(quote(name)) for name in schema), sf.col(CLOCK), named(order, ORDER))


def leave(frame: DataFrame, schema: Mapping[str, str], *, ordered: bool = False) -> DataFrame:
    """A stream with the columns of its plan.

    Parameters
    ----------
    frame
        Frame that an operator gave.
    schema
        Column to type of the stream.
    ordered
        Keep what :func:`arrange` needs.
    """
    names = [*schema, ORDER] if ordered else list(schema)
    return frame.select(*(sf.col(quote(name)) for name in names))


def arrange(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a result, in the order of peers, without the columns that determine it.

    Rows of windows are ordered by the ends of these, others by their positions, or by time where they have none.

    Parameters
    ----------
    rows
        Rows of one or more micro-batches, from a stream that was left with ``ordered=True``.
    """
    order = rows.get_column(ORDER)
    plain = rows.drop(ORDER)
    keys = order.struct.unnest() if order.dtype == pl.Struct else order.to_frame()
    keys = keys.rename({name: f" {number}" for number, name in enumerate(keys.columns)})
    ahead = ["time", "window_start"] if is_windowed(dict.fromkeys(plain.columns, "")) else []
    by = [*ahead, *keys.columns, *(name for name in plain.columns if name not in ahead)]
    return pl.concat([plain, keys], how="horizontal").sort(by, nulls_last=True).select(plain.columns)
