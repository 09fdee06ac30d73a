"""Reader of Parquet files to typed columns, slice by slice, even within large row groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars import selectors

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.traces._columns import clock_of, parquet_kinds, stored_kinds, stream_schema
from synergy_nb.traces._typed_columns import Malformed, Tally, doubt_of, each_bad, exactly, typed, value_at
from synergy_nb.traces.times import dates_in_numbers

#: Errors of damaged files; Polars panics at some of them.
_DAMAGED: Final = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_WHOLE: Final = 32 << 20  # bytes of a row group up to which Polars reads it at once, in half of the time
_SLICE: Final = 8 << 20  # bytes of a slice of a row group that is larger
_BUFFER: Final = 1 << 20  # bytes of a column that are read at once


class Stored(NamedTuple):
    """Layout of a Parquet file."""

    kinds: dict[str, str]  # columns to read, with their types
    clock: str  # name of the column with the event time
    schema: dict[str, str]  # columns of the tuples with their types: the event time first, as time
    doubtful: list[str]  # columns whose values may be malformed: times, and those that are stored with another type
    unit: str | None = None  # unit of times that are numbers


def stored(path: Path, columns: Mapping[str, str] | None, time: str | None, unit: str | None = None) -> Stored:
    """Read the layout of a Parquet file; parameters as in :func:`synergy_nb.traces.trace_files.opened`.

    Raises ValueError if the file is damaged, or a stated column is invalid.
    """
    found = _schema(path)
    clock = clock_of(path, list(found), columns, time, lambda: stored_kinds(found))
    kinds = parquet_kinds(path, found, columns, clock)
    doubtful = [name for name, kind in kinds.items() if kind == "time" or found[name] != TYPES[kind]]
    return Stored(kinds, clock, stream_schema(path, kinds, clock), doubtful, unit)


def columns_of_parquet(path: Path) -> dict[str, str]:
    """Column to type, of those that tuples can have."""
    return stored_kinds(_schema(path))


def _schema(path: Path) -> dict[str, pl.DataType]:
    try:
        return dict(pl.scan_parquet(path, glob=False, hive_partitioning=False).collect_schema())
    except _DAMAGED as error:
        raise _damaged(path, error) from None


def group_begins(path: Path, size: int) -> list[int]:
    """Bytes at which row groups begin, each at least ``size`` after the one before; 0: at the first."""
    found = [0]
    for begin in _begins(path)[1:]:
        if begin >= found[-1] + size:
            found.append(begin)
    return found


def rows_before(path: Path, begin: int) -> int:
    """Number of rows before the row group that begins at a byte, which is one of :func:`group_begins`."""
    kept = pq.read_metadata(path)
    return sum(kept.row_group(number).num_rows for number in _groups(path, 0, begin))


def _begins(path: Path) -> list[int]:
    """Byte at which each row group begins."""
    kept = pq.read_metadata(path)
    groups = [kept.row_group(number) for number in range(kept.num_row_groups)]
    columns = ([group.column(place) for place in range(group.num_columns)] for group in groups)
    return [min(each.dictionary_page_offset or each.data_page_offset for each in some) for some in columns]


def _groups(path: Path, begin: int, end: int | None) -> list[int]:
    """Numbers of the row groups that begin from one byte on, and before another."""
    return [number for number, at in enumerate(_begins(path)) if at >= begin and (end is None or at < end)]


def parquet_blocks(
    path: Path, layout: Stored, tally: Tally, begin: int = 0, end: int | None = None, *, judged: bool = False
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a Parquet file as typed slices in the order of the file; count malformed rows in ``tally``.

    ``begin``, ``end``: bytes between which its row groups begin, of :func:`group_begins`; None: up to the end.
    ``judged``: whether to read only the columns that are needed to judge the rows: the event time and those that may be
    malformed. The slices have the same rows as those of all columns. Raises ValueError if the file is damaged.
    """
    names = layout.doubtful if judged else list(layout.kinds)
    kinds = {name: layout.kinds[name] for name in names}
    wanted = [name for name in layout.schema if name in kinds or name == "time"]
    groups, start, unit = _groups(path, begin, end), 0, layout.unit
    if begin and _are_seconds(next(_slices(path, [layout.clock])).get_column(layout.clock)):
        unit = unit or "s"  # as for who has read the rows before
    for raw in _slices(path, names, groups):
        table, bad = typed(raw, kinds, [layout.clock], unit)
        malformed, each = None, None
        if bad is not None:
            row = start + bad.row
            text = str(_row(path, row, groups)) if tally.malformed is None else ""
            malformed = Malformed(bad.rows, raw.height, row + 1, text, bad.field, bad.value, bad.expected)
            each = (
                Malformed(1, 1, start + place + 1, str(raw.row(place)), one.field, one.value, one.expected)
                for place, one in each_bad(raw, bad.where, kinds, [layout.clock], unit)
            )
        if _are_seconds(raw.get_column(layout.clock)):
            unit = unit or "s"  # of later slices all together could be dates
        doubt = "" if layout.unit else doubt_of(raw, table, bad, layout.clock)
        tally.add(raw.height, malformed, doubt, each or ())
        start += raw.height
        if table.height:
            yield exactly(table, wanted, layout.clock)


def _are_seconds(clock: pl.Series) -> bool:
    """Whether times are integers that are not all dates such as 20260101."""
    return clock.dtype.is_integer() and clock.null_count() < len(clock) and not dates_in_numbers(clock)


def _slices(path: Path, names: list[str] | None, groups: Collection[int] | None = None) -> Iterator[pl.DataFrame]:
    """Yield rows in slices, with the named columns in that order, or with all columns; those of all or some groups."""
    try:
        # Without pre-buffering, which would hold a whole row group.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            start = 0
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if groups is not None and number not in groups:
                    pass
                elif group.total_byte_size <= _WHOLE:
                    part = pl.scan_parquet(path, glob=False, hive_partitioning=False).slice(start, group.num_rows)
                    read = (part if names is None else part.select(selectors.by_name(names))).collect()
                    yield read if names is None else exactly(read, names)
                else:
                    for batch in file.iter_batches(_rows(group), row_groups=[number], columns=names):
                        table = pl.from_arrow(batch)
                        assert isinstance(table, pl.DataFrame)
                        yield table if names is None else exactly(table, names)
                start += group.num_rows
    except _DAMAGED as error:
        raise _damaged(path, error) from None


def _rows(group: pq.RowGroupMetaData) -> int:
    """Number of rows of a slice of moderate size in a large row group."""
    return max(int(group.num_rows) * _SLICE // int(group.total_byte_size), 1)


def _row(path: Path, number: int, groups: Collection[int]) -> tuple[object, ...]:
    """Read one row of all columns, counted from 0 in some groups."""
    for raw in _slices(path, None, groups):
        if number < raw.height:
            return tuple(value_at(raw.get_column(name), number) for name in raw.columns)
        number -= raw.height
    return ()


def _damaged(path: Path, error: BaseException) -> ValueError:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"{path}: damaged or cut-off Parquet file ({text}); expected a whole one")
