"""Tables that a peer and Spark exchange: names, types, and the rows that carry punctuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
import pyarrow as pa

MARK: Final = "_mark"  # column that tells the rows that only carry a punctuation, in ``time``
POSITION: Final = "_position"  # column with the position of a row in its stream, where that is asked for

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "bytes": pa.binary(),
}


def arrow_schema(columns: Mapping[str, str], *, numbered: bool = False) -> pa.Schema:
    """Columns as Spark reads them: those of the stream, the position if asked for, and whether a row is a marker.

    >>> arrow_schema({"time": "time", "n": "int"}).names
    ['time', 'n', '_mark']
    """
    fields = [(name, _ARROW[kind]) for name, kind in columns.items()]
    if numbered:
        fields.append((POSITION, pa.int64()))
    return pa.schema([*fields, (MARK, pa.bool_())])


def to_spark(tables: Sequence[pl.DataFrame], schema: pa.Schema) -> pa.Table:
    """Convert rows of a stream for Spark."""
    table = pl.concat(tables, rechunk=True).to_arrow(compat_level=pl.CompatLevel.oldest())
    table = table.append_column(MARK, pa.repeat(pa.scalar(value=False), table.num_rows))
    return table.select(schema.names).cast(schema)


def marker(time: int, schema: pa.Schema) -> pa.Table:
    """The row that carries a punctuation with a time in microseconds; its other columns are NULL."""
    values = {"time": pa.array([time], pa.int64()), MARK: pa.array([True])}
    columns = [values.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def from_spark(batches: Sequence[pa.RecordBatch]) -> pl.DataFrame:
    """Convert rows from Spark to a stream's: times lose their zone."""
    table = pa.Table.from_batches(batches)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.timestamp("us")))
    frame: Any = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
