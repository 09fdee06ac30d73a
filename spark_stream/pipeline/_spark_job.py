"""What Spark executes of a job: units are parsed in its Python processes, and groups of files are written by it.

Raw text is parsed by the platform's own readers rather than by Spark's, since they say of each malformed line where it
is and what was expected, and read the same rows as the sources of plans do. What they have stored, Spark reads as
Parquet. Rows of a file of the result are in one task, which sorts them, on disk if need be; so identical rows are too,
and nothing else is exchanged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow.parquet as pq
from pyspark.sql import Window
from pyspark.sql import functions as sf

from spark_stream._expressions import quote, translate
from spark_stream.pipeline._pieces import Group
from spark_stream.pipeline._results import PrepareError
from spark_stream.pipeline._surveying import divided, survey_file
from spark_stream.pipeline._units import HOUR, Sorting, Unit, parsed_or_said, write_sorted
from spark_stream.spark_errors import cause, has_no_room, is_lost
from synergy_nb.plan.sql.sql import infer_type
from synergy_nb.traces.raw_files import RawLayout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.connect.session import SparkSession

Found = TypeVar("Found")
#: Columns beside those of the rows: number of the file of the result, number of the raw file, and place in it.
PIECE: Final = "__piece"
FILE: Final = "__file"
ROW: Final = "__row"
_PART: Final = 1 << 40  # places that each part of a file has
_LOOK: Final = 0.2  # time between two looks at what is done, seconds
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - times of streams have no zone
_TASKS: Final = 64  # most tasks of a job that writes


def executed(session: SparkSession, step: Callable[[], Found], watch: Callable[[], None]) -> Found:
    """Return what a step on Spark gives, and watch meanwhile; if watching raises an error, the step is given up.

    Raises ``PrepareError`` if the step fails.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="spark step") as pool:
        coming = pool.submit(step)
        try:
            while not wait([coming], _LOOK).done:
                watch()
            watch()
        except BaseException:
            with contextlib.suppress(Exception):
                session.interruptAll()
            raise
        try:
            return coming.result()
        except Exception as error:  # noqa: BLE001 - the caller says what it means
            if has_no_room(error):
                raise PrepareError("no space left on the disk") from None
            raise PrepareError("Spark was lost" if is_lost(error) else f"Spark failed: {cause(error)}") from None


def parse_units(
    session: SparkSession,
    units: Sequence[Unit],
    layout: RawLayout,
    folder: Path,
    lateness: float | None,
    reached: Mapping[str, int | None],  # name of a unit to the latest event time before it, as far as that is known
) -> None:
    """Parse units, each in a task of its own; what goes wrong in one is in the folder, see :func:`.fault_in`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                parsed_or_said(units[place], layout, folder, lateness, reached.get(units[place].name))
            yield batch

    session.range(0, len(units), 1, len(units)).mapInArrow(work, "id bigint").collect()


def write_sorted_files(
    session: SparkSession, sortings: Sequence[Sorting], columns: Mapping[str, str]
) -> dict[str, int]:
    """Write files of the result, each in a task of its own; path of each to its number of rows."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                write_sorted(sortings[place], columns)
            yield batch

    session.range(0, len(sortings), 1, len(sortings)).mapInArrow(work, "id bigint").collect()
    return {each.target: pq.read_metadata(each.target).num_rows for each in sortings}


def write_group(
    session: SparkSession,
    group: Group,
    stored: Sequence[Path],  # rows of the units of which some are in the group
    columns: Mapping[str, str],  # column of these rows to type
    target: Path,  # folder for the files of the group, which is made anew
    *,
    derive: Mapping[str, str],  # column to its expression
    duplicates: str,
) -> dict[int, tuple[Path, int]]:
    """Write the files of a group: number of each to its path and number of rows."""
    shutil.rmtree(target, ignore_errors=True)
    low, high = (_EPOCH + dt.timedelta(hours=hour) for hour in group.bounds)
    rows: DataFrame = session.read.parquet(*(f"file://{path}" for path in stored))
    stored_at = rows.metadataColumn("_metadata")
    name = sf.split(stored_at.getField("file_name"), "[-.]")  # "rows-00001-00002.parquet": the file, and the part of it
    place = name[2].cast("bigint") * _PART + stored_at.getField("row_index")
    rows = rows.withColumns({FILE: name[1].cast("int"), ROW: place})
    rows = rows.where(f"time >= TIMESTAMP_NTZ'{low}' AND time < TIMESTAMP_NTZ'{high}'")
    rows = _times_as(rows, columns, "TIMESTAMP")  # as expressions have them
    hour = f"((unix_micros(time) - pmod(unix_micros(time), {HOUR})) DIV {HOUR})"
    rows = rows.withColumn(PIECE, sf.expr(_piece(group, hour)))
    if group.gaps:
        rows = rows.where(sf.col(PIECE).isin([piece.start for piece in group.pieces]))
    rows = rows.repartition(min(len(group.pieces), _TASKS), PIECE)
    rows = without_duplicates(rows, list(columns), duplicates)
    kept = [sf.col(quote(name)) for name in columns]
    made = [sf.expr(translate(text, columns)).alias(name) for name, text in derive.items()]
    rows = rows.sortWithinPartitions(PIECE, "time", FILE, ROW).select(*kept, *made, PIECE)
    rows = _times_as(
        rows, {**columns, **{name: infer_type(text, columns) for name, text in derive.items()}}, "TIMESTAMP_NTZ"
    )
    rows.write.partitionBy(PIECE).option("compression", "zstd").parquet(f"file://{target}")
    found: dict[int, tuple[Path, int]] = {}
    for path in sorted(target.glob(f"{PIECE}=*/*.parquet")):
        number = int(path.parent.name.partition("=")[2])
        assert number not in found, path
        found[number] = path, pq.read_metadata(path).num_rows
    return found


def _times_as(rows: DataFrame, columns: Mapping[str, str], form: str) -> DataFrame:
    return rows.withColumns({name: sf.col(quote(name)).cast(form) for name, kind in columns.items() if kind == "time"})


def _piece(group: Group, hour: str) -> str:
    day = f"{hour} - pmod({hour}, 24)"
    if all(piece.hours == 1 for piece in group.pieces):
        return hour
    if not group.divided:
        return day
    return f"IF({day} IN ({', '.join(map(str, group.divided))}), {hour}, {day})"


def without_duplicates(rows: DataFrame, columns: Sequence[str], duplicates: str) -> DataFrame:
    """Keep one of rows whose columns are all equal.

    ``duplicates``: ``files``: of rows of different files, as many as the file has that has most of them; ``rows``: of
    all rows, the first; ``keep``: all are kept.
    """
    if duplicates == "keep":
        return rows
    same: list[Column | str] = [
        PIECE,
        *(sf.col(quote(name)) for name in columns),
    ]  # the piece first: no other exchange is needed
    order = Window.partitionBy(*same).orderBy(FILE, ROW)
    if duplicates == "rows":
        return rows.withColumn("__number", sf.row_number().over(order)).where("__number = 1")
    within = Window.partitionBy(*same, FILE).orderBy(ROW)
    numbered = rows.withColumn("__number", sf.row_number().over(within))
    again = Window.partitionBy(*same, "__number").orderBy(FILE)
    return numbered.withColumn("__again", sf.row_number().over(again)).where("__again = 1")


def survey_files(
    session: SparkSession, files: Sequence[tuple[Path, Path]], columns: Mapping[str, str], step: int
) -> None:
    """Survey files of clean rows: each is read once, by a task of Spark's.

    ``files``: path of each, and of its survey; ``step``: microseconds of a period by which rows are counted.
    """
    parts = divided(files, _TASKS)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                for path, target in parts[place]:
                    survey_file(path, target, columns, step)
            yield batch

    session.range(0, len(parts), 1, len(parts)).mapInArrow(work, "id bigint").collect()
