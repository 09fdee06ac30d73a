"""Tables that a peer and Spark exchange: names, types, and the rows that carry punctuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.operators.schemas import is_windowed
from synergy_nb.plan.terms.column_types import digits_of

MARK: Final = "_mark"  # column that tells the rows that only carry a punctuation, in ``time``
POSITION: Final = "_position"  # column with the position of a row in its stream, where that is asked for

_ARROW: Final[Mapping[str, pa.DataType]] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "duration": pa.int64(),
}


def _arrow(kind: str) -> pa.DataType:
    """Type of a column of a type as Spark reads it."""
    return _ARROW[kind] if kind in _ARROW else pa.decimal128(*digits_of(kind))


def arrow_schema(columns: Mapping[str, str], *, numbered: bool = False) -> pa.Schema:
    """Columns as Spark reads them: those of the stream, the position if asked for, and whether a row is a marker.

    >>> arrow_schema({"time": "time", "n": "int"}).names
    ['time', 'n', '_mark']
    """
    fields = [(name, _arrow(kind)) for name, kind in columns.items()]
    if numbered:
        fields.append((POSITION, pa.int64()))
    return pa.schema([*fields, (MARK, pa.bool_())])


def to_spark(tables: Sequence[pl.DataFrame], schema: pa.Schema) -> pa.Table:
    """Convert rows of a stream for Spark."""
    table = pl.concat(tables, rechunk=True).to_arrow(compat_level=pl.CompatLevel.oldest())
    table = table.append_column(MARK, pa.repeat(pa.scalar(value=False), table.num_rows))
    return table.select(schema.names).cast(schema)


def table_to_spark(table: pl.DataFrame, columns: Mapping[str, str]) -> pa.Table:
    """Convert a table that is no stream, whose columns have these types."""
    schema = pa.schema([(name, _arrow(kind)) for name, kind in columns.items()])
    return table.to_arrow(compat_level=pl.CompatLevel.oldest()).select(schema.names).cast(schema)


def in_order(rows: pl.DataFrame, order: pl.Series) -> bool:
    """Whether rows of a stream are certainly in the order of peers, as the positions of all of them rise.

    ``order``: what :data:`.frames.ORDER` has of each row.
    """
    if is_windowed(dict.fromkeys(rows.columns, "")) or not order.dtype.is_integer() or order.has_nulls():
        return False
    positions = order.to_numpy()
    return bool((positions[1:] > positions[:-1]).all())


def places_in_order(rows: pl.DataFrame, order: pl.Series) -> pl.Series:
    """Places of the rows of a stream in the order of peers.

    Rows of windows are ordered by the ends of their windows, others by position, or by time if they have no positions.

    ``order``: what :data:`.frames.ORDER` has of each row.
    """
    keys = order.to_frame()
    while pl.Struct in keys.dtypes:  # an order may contain that of its input
        parts = (part for each in keys for part in (each.struct.unnest() if each.dtype == pl.Struct else (each,)))
        keys = pl.DataFrame([part.alias(f" {number}") for number, part in enumerate(parts)])
    keys = keys.rename({name: f" {number}" for number, name in enumerate(keys.columns)})
    ahead = ["time", "window_start"] if is_windowed(dict.fromkeys(rows.columns, "")) else []
    by = [*ahead, *keys.columns, *(name for name in rows.columns if name not in ahead)]
    return pl.concat([rows, keys], how="horizontal").select(pl.arg_sort_by(by, nulls_last=True)).to_series()


def from_lists(lists: pa.ListArray, fields: Mapping[str, int], schema: Mapping[str, str], group: str) -> pl.DataFrame:
    """Convert lists of structs to one table, with the number of the list of each row in ``group``.

    ``fields``: column of the table to the number of its field; ``schema``: to its type.
    """
    rows = lists.flatten()
    counts = lists.value_lengths().fill_null(0).to_numpy()
    columns = [rows.field(number) for number in fields.values()]
    table = from_spark([pa.RecordBatch.from_arrays(columns, list(fields))], schema)
    number = pl.Series(group, np.repeat(np.arange(len(counts)), counts), dtype=pl.Int64)
    return table.with_columns(number)


def to_lists(table: pl.DataFrame, lists: int, columns: Mapping[str, str], group: str) -> pa.ListArray:
    """Convert rows, in the order of the numbers in ``group``, to that many lists of structs."""
    made = table_to_spark(table, columns)
    structs = [made.column(name).combine_chunks() for name in columns]
    names = [f"c{number}" for number in range(len(columns))]
    counts = np.bincount(table.get_column(group).to_numpy(), minlength=lists)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(structs, names))


def marker(time: int, schema: pa.Schema) -> pa.Table:
    """The row that carries a punctuation with a time in microseconds; its other columns are NULL."""
    values = {"time": pa.array([time], pa.int64()), MARK: pa.array([True])}
    columns = [values.get(field.name, pa.nulls(1, field.type)) for field in schema]
    return pa.table(columns, names=schema.names).cast(schema)


def from_spark(batches: Sequence[pa.RecordBatch], columns: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Convert rows from Spark to a stream's: times lose their zone, and durations of ``columns`` are no numbers."""
    table = pa.Table.from_batches(batches)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.timestamp("us")))
    frame: Any = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    spans = [name for name, kind in (columns or {}).items() if kind == "duration"]
    return frame.with_columns(frame.get_column(name).cast(TYPES["duration"]) for name in spans) if spans else frame
