"""Sources that Spark reads itself, from Parquet files: a trace in this format directly, others after conversion.

A query over a part of a plan reads them file after file, as a stream (:class:`Files`); one over a whole plan reads one
file, when it is there (:func:`write_whole`).

The peer reads a source for conversion as for its own use (:func:`synergy_nb.traces.read`), so the stream is the same on
both engines: in order, without malformed lines, with typed columns. It writes about 3 million rows/s, and Spark reads 1
million rows/s from files; through the endpoint it would read 0.3 million. A file is handed out when Spark has begun
with the previous one, so that a long trace becomes several micro-batches, and
deleted when all taps have committed it.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from spark_stream._spool import FIRST, Offset, Spool
from spark_stream._tables import POSITION, table_to_spark
from synergy_nb import traces
from synergy_nb.dataflow.tuples import END, START, Item, Punctuation, empty
from synergy_nb.plan import Operator
from synergy_nb.plan.terms.column_types import digits_of
from synergy_nb.traces.times import in_years

AHEAD: Final = 2  # files that are staged before they are read
FILE_ROWS: Final = 500_000  # number of rows in a converted file
GROUP_ROWS: Final = 250_000  # number of rows in a group of the only file of a stream: a task of Spark takes groups
DIRECT_ROWS: Final = 4_000_000  # most rows of a trace that Spark reads as it is: they are one micro-batch
_FITTING: Final[Mapping[str, tuple[pa.DataType, ...]]] = {
    "int": (pa.int64(),),
    "float": (pa.float64(),),
    "str": (pa.string(), pa.large_string(), pa.string_view()),
    "bool": (pa.bool_(),),
    "time": (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    "bytes": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "date": (pa.date32(),),
    "duration": (),
}


def _fitting(kind: str) -> tuple[pa.DataType, ...]:
    """Types of the columns of files that Spark reads as a column of a type."""
    return _FITTING[kind] if kind in _FITTING else (pa.decimal128(*digits_of(kind)),)


class Staged(NamedTuple):
    """A file for Spark to read."""

    path: Path
    time: int  # event time that no row of a later file precedes, microseconds; `END` for the last
    temporary: bool = True  # whether it is to be deleted when it was read


class Layout(NamedTuple):
    """The mapping of a stream's columns to the columns of files."""

    clock: str = "time"  # column that is called `time` in the stream


def direct(
    operator: Operator,  # the source
    columns: Mapping[str, str],  # columns of the stream with their types
    *,
    most: float = DIRECT_ROWS,  # number of rows up to which it is read as it is
    ordered: bool = True,  # whether the file has to be in the order of its event times
) -> tuple[Staged, Layout] | None:
    """The trace itself, if Spark can read it as it is; None if it has to be converted.

    That takes a Parquet file in the order of its event times, all of which are there, of 4 million rows at most (as it
    is one micro-batch), whose columns have exactly the types of the stream's, and whose times are of the years 1 to
    9999.
    """
    params = operator.params
    if params["connector"] != "trace" or params["format"] != "parquet" or params.get("lateness") is not None:
        return None
    path, clock = Path(params["path"]).absolute(), params.get("time") or "time"
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException):
        return None  # who reads it as always says what is wrong
    if not 0 < rows <= most:
        return None
    for name, kind in columns.items():
        stored = clock if name == "time" else name
        index = schema.get_field_index(stored)
        if index < 0 or schema.field(index).type not in _fitting(kind):
            return None
    stored_times = [clock if name == "time" else name for name, kind in columns.items() if kind == "time"]
    if not _has_good_times(path, stored_times, clock, ordered=ordered):
        return None
    return Staged(path, END, temporary=False), Layout(clock)


def _has_good_times(path: Path, names: Sequence[str], clock: str, *, ordered: bool) -> bool:
    """Whether all event times of a Parquet file are there, and its times of the years 1 to 9999, and in order if so."""
    reached: Any = None
    with pq.ParquetFile(path) as file:
        if not ordered and _has_good_bounds(file.metadata, names, clock):
            return True
        for batch in file.iter_batches(batch_size=FILE_ROWS, columns=list(names)):
            found: Any = pl.from_arrow(batch)
            times = found.get_column(clock)
            if times.null_count() or any(in_years(each) is not each for each in found):
                return False
            if ordered and len(times):
                if not times.is_sorted() or (reached is not None and times[0] < reached):
                    return False
                reached = times[-1]
    return True


def _has_good_bounds(metadata: Any, names: Sequence[str], clock: str) -> bool:
    """Whether the statistics of a Parquet file say that event times are all there, and times of the years 1 to 9999."""
    bounds: list[int] = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = {each.path_in_schema: each.statistics for each in map(group.column, range(group.num_columns))}
        for name in names:
            known = columns.get(name)
            if known is None or not known.has_min_max or not known.has_null_count:
                return False
            if name == clock and known.null_count:
                return False
            bounds += (known.min_raw, known.max_raw)
    times = pl.Series(bounds, dtype=pl.Int64).cast(pl.Datetime("us"))
    return in_years(times) is times


def totals_of(path: Path, names: Collection[str]) -> dict[str, int]:
    """Columns of integers of a Parquet file to the greatest size that a sum of their values can have.

    They are those of which its statistics say the least and the greatest value.
    """
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
    sizes = dict.fromkeys(names, 0)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name, known = column.path_in_schema, column.statistics
            if name not in sizes:
                continue
            if known is None or not known.has_min_max:
                del sizes[name]
            else:
                sizes[name] = max(sizes[name], -known.min_raw, known.max_raw)
    return {name: size * metadata.num_rows for name, size in sizes.items()}


def convert(
    operator: Operator, folder: Path, skipped: traces.Skipped | None = None, *, numbered: bool = False
) -> Iterator[Staged]:
    """Write the stream of a source into files, one each time the next is asked for.

    ``operator``: a source with connector ``trace``, or one that generates; ``skipped``: callback for malformed lines,
    see :func:`synergy_nb.traces.read`; ``numbered``: whether rows keep their position in the stream, in a column
    ``_position``.

    Raises ``ValueError`` if the trace cannot be read.
    """
    return written(traces.read({**operator.params, "batch": FILE_ROWS}, skipped), folder, numbered=numbered)


def written(items: Iterable[Item], folder: Path, *, numbered: bool) -> Iterator[Staged]:
    """Write the items of a stream into files, one for the rows that each punctuation covers, as :func:`convert`."""
    spool = Spool(numbered=numbered)
    reached = FIRST
    number = 0
    for item in items:
        spool.append(item)
        if not isinstance(item, Punctuation):
            continue
        offset = Offset(item.position, item.time)
        tables = spool.tables(reached, offset)
        spool.commit(0, offset)
        reached = offset
        if not tables and not item.ends:
            continue
        table = pl.concat(tables) if tables else pl.DataFrame(schema={"time": pl.Datetime("us")})
        path = folder / f"{number:06}.parquet"
        zoned = pl.col(pl.Datetime("us")).dt.replace_time_zone("UTC")
        spans = pl.col(pl.Duration("us")).cast(pl.Int64)
        table.with_columns(zoned, spans).write_parquet(path, compression="lz4", statistics=False)
        number += 1
        yield Staged(path, item.time)


def write_whole(
    tables: Iterable[pl.DataFrame], path: Path, columns: Mapping[str, str], *, numbered: bool
) -> dict[str, int]:
    """Write all rows of a stream into one file, in their order; a table is encoded while the next one is made.

    Returns the columns of integers with the greatest size that a sum of their values can have.

    ``columns``: columns of the stream with their types; ``numbered``: whether rows keep their position in the stream,
    in a column ``_position``.

    Raises ``OSError`` if there is no room.
    """
    kinds = {**columns, POSITION: "int"} if numbered else dict(columns)
    schema = table_to_spark(empty(kinds), kinds).schema
    texts = [name for name, kind in kinds.items() if kind == "str"]  # tables of values pay for no others
    sizes = {name: 0 for name, kind in columns.items() if kind == "int"}
    with (
        pq.ParquetWriter(path, schema, compression="lz4", write_statistics=False, use_dictionary=texts) as file,
        ThreadPoolExecutor(1, thread_name_prefix="rows-file") as behind,
    ):
        position = 0
        coming: Future[None] | None = None
        for table in tables:
            end = position + table.height
            for name in sizes if table.height else ():
                bounds: Any = table.get_column(name).min(), table.get_column(name).max()
                sizes[name] = max(sizes[name], -(bounds[0] or 0), bounds[1] or 0)
            numbers = [pl.int_range(position, end, dtype=pl.Int64, eager=True).alias(POSITION)] if numbered else []
            made, position = table_to_spark(table.with_columns(numbers), kinds), end
            if coming is not None:
                coming.result()
            coming = behind.submit(file.write_table, made)
        if coming is not None:
            coming.result()
    return {name: size * position for name, size in sizes.items()}


class Files:
    """The files of one source that Spark reads itself, handed out one after another as links in a folder a tap.

    Spark finds a file by itself when it has been handed out, at the latest in the micro-batch after the one that is
    being prepared then. So the time that a file covers is reported one offset later than the file, when it has
    certainly been read.

    ``folder``: folder that holds the folders of the taps; ``taps``: readers.
    """

    def __init__(self, folder: Path, *, taps: int = 1) -> None:
        self.low = START  # time that files cover which have been read for sure, by the tap that has come farthest
        self.first = FIRST  # offset from which readers begin
        self._folders = [folder / f"tap-{tap}" for tap in range(taps)]
        for each in self._folders:
            each.mkdir(parents=True)
        self._files: list[Staged] = []
        self._started: dict[int, float] = {}  # when each file was first handed out
        self._out = [0] * taps  # files that each tap has been handed out
        self._committed = [START] * taps
        self._gone = 0  # files that all have committed

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where each tap finds its files."""
        return tuple(self._folders)

    def stage(self, file: Staged) -> None:
        """Add the next file."""
        self._files.append(file)

    @property
    def begun(self) -> bool:
        """Whether there is a file to begin with."""
        return bool(self._files)

    @property
    def waiting(self) -> int:
        """Files that some tap has not been handed out."""
        return len(self._files) - min(self._out)

    def begin(self, now: float) -> None:
        """Hand out the first file, before the query starts, if it is there."""
        if self._files and self.first == FIRST:
            self.first = Offset(1, START)
            for tap in range(len(self._out)):
                self._hand_out(tap, 1, now)

    def news(self, tap: int, start: Offset) -> bool:
        """Whether there is another file, or the last one handed out has been read."""
        return len(self._files) > start.position or self._covered(start.position) > start.time

    def latest(self, tap: int, start: Offset, now: float) -> Offset:
        """Hand out the next file, and report the time that the previous ones cover."""
        if not self.news(tap, start):
            return start
        position = min(start.position + 1, len(self._files))
        self._hand_out(tap, position, now)
        time = self._covered(start.position)
        self.low = max(self.low, time)
        return Offset(position, time, start.turn)

    def rows(self, start: Offset, end: Offset) -> int:
        """Return None, as Spark reads the files itself."""
        return 0

    def born(self, start: Offset, end: Offset) -> float:
        """When the first of the files between two offsets was handed out."""
        numbers = range(max(start.position - 1, 0), end.position)
        return min((self._started[number] for number in numbers if number in self._started), default=math.inf)

    def read(self, tap: int, end: Offset) -> None:
        """Do nothing, as Spark reads the files itself."""

    def drop(self, tap: int) -> None:
        """Note that a tap will not be read."""
        self._out[tap] = sys.maxsize
        self._committed[tap] = END

    def commit(self, tap: int, end: Offset) -> None:
        """Delete what all taps have committed."""
        self._committed[tap] = max(self._committed[tap], end.time)
        done = min(self._committed)
        while self._gone < len(self._files) and self._files[self._gone].time <= done:
            file = self._files[self._gone]
            for tap_number in range(len(self._folders)):
                self._link(tap_number, self._gone).unlink(missing_ok=True)
            if file.temporary:
                file.path.unlink(missing_ok=True)
            self._gone += 1

    def _covered(self, position: int) -> int:
        return self._files[position - 1].time if position else START

    def _link(self, tap: int, number: int) -> Path:
        return self._folders[tap] / f"{number:06}.parquet"

    def _hand_out(self, tap: int, position: int, now: float) -> None:
        while self._out[tap] < position:
            number = self._out[tap]
            self._started.setdefault(number, now)
            with contextlib.suppress(FileExistsError):
                self._link(tap, number).symlink_to(self._files[number].path)
            self._out[tap] = number + 1
