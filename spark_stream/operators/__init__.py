"""Operators of the data path as functions from streaming DataFrames to a streaming DataFrame.

They have the meaning of the operators of peers (:mod:`synergy_nb.dataflow.operators`); one contract test compares both
with SQL in DuckDB. :func:`build` translates a part of a plan to one DataFrame; :func:`enter` and :func:`leave`
convert its inputs and its result. Sessions need the settings of :data:`spark_stream._expressions.MEANING`.
"""

from spark_stream.operators import (  # noqa: F401 - each registers its kinds
    crypto,
    joins,
    ordered,
    own,
    rows,
    tables,
    windows,
)
from spark_stream.operators._parts import build, kinds, lag, numbered, readings, settings
from spark_stream.operators.frames import END_TIME, MARK, POSITION, arrange, enter, leave

__all__ = [
    "END_TIME",
    "MARK",
    "POSITION",
    "arrange",
    "build",
    "enter",
    "kinds",
    "lag",
    "leave",
    "numbered",
    "readings",
    "settings",
]
