"""A unit of work: one raw file, or a part of one, is parsed, and its rows are stored by a process of Spark's.

A unit leaves two files in the folder of work: its rows as Parquet, and then its counts. A unit that has counts is done;
one that was stopped before leaves files that the next attempt writes anew. Nothing here knows Spark.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.terms.naming import internal
from synergy_nb.traces.late_rows import behind
from synergy_nb.traces.profiles.surveys import surveyed, to_bytes
from synergy_nb.traces.raw_files import Malformed, RawLayout, Tally, lines_before, raw_tables
from synergy_nb.traces.text_files import UTF8

KEPT: Final = 1000  # malformed lines of a unit, and late rows, that are described each
HOUR: Final = 3_600_000_000  # microseconds
#: Latenesses of which it is counted how many rows come later than them, seconds.
LATENESSES: Final = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)
_LATE: Final = tuple(round(each * 1e6) for each in LATENESSES)
# columns beside those of the rows: number of the raw file, and of a row among those of its time
_FILE, _FIRST = internal("file"), internal("first")
_FULL: Final = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class Unit(msgspec.Struct, frozen=True):
    """A raw file or a part of it."""

    name: str  # of its files in the folder of work
    path: str
    file: int  # number of the raw file
    part: int = 0  # number of the part of it
    # bytes between which its lines begin, see raw_tables
    begin: int = 0
    end: int | None = None
    size: int = 0  # bytes
    # byte from which on rows are read for the latest event time before it; begin: none are
    before: int = 0
    unpacked: bool = False  # whether the bytes are those of a copy of the file, unpacked and in UTF-8


class Rejected(msgspec.Struct, frozen=True):
    """A malformed line or a late row, as the quarantine has it."""

    path: str
    # number of the line, from 1; of a late row, that of the row among the others, behind the lines before its part
    line: int
    why: str  # `malformed` or `late`
    field: str
    value: str
    expected: str
    text: str


class UnitCounts(msgspec.Struct, frozen=True):
    """What was found in a unit."""

    lines: int  # lines with data
    malformed: int
    late: int
    rows: int  # rows that are stored
    # least and greatest event time, microseconds; None: it has no rows
    first: int | None
    last: int | None
    hours: dict[int, int]  # hour since 1970 to number of rows
    disorder: int  # largest time by which a row is earlier than one before it, microseconds
    rejected: list[Rejected]  # the first of them
    complaint: str  # sentence about the first malformed line; empty: there is none
    doubt: str  # sentence about implausible times; empty: there is none
    later: list[int] = []  # rows that come later than each of LATENESSES; empty: nobody has counted them
    reached: int | None = None  # latest event time of the parts before, as it was known, microseconds


def counts_of(folder: Path, unit: Unit) -> UnitCounts | None:
    """What an earlier attempt has found in a unit; None: it is not done."""
    path = folder / f"{unit.name}.json"
    return msgspec.json.decode(path.read_bytes(), type=UnitCounts) if path.exists() else None


def rows_so_far(folder: Path, unit: Unit) -> int:
    """Number of rows that the process at work has read so far."""
    path = folder / f"{unit.name}.rows"
    text = path.read_bytes() if path.exists() else b""
    return int(text) if text.isdigit() else 0


def stored_rows(folder: Path, unit: Unit) -> Path:
    """Path of the rows of a unit."""
    return folder / f"{unit.name}.parquet"


def source_of(folder: Path, unit: Unit) -> Path:
    """Path of the file of which a unit is a part: the raw file, or its copy in the folder of work."""
    return folder / f"rows-{unit.file:05}.unpacked" if unit.unpacked else Path(unit.path)


def layout_of(unit: Unit, layout: RawLayout) -> RawLayout:
    """Layout of the file of which a unit is a part; ``layout``: of the raw file."""
    return msgspec.structs.replace(layout, encoding=UTF8) if unit.unpacked else layout


def has_no_room(error: OSError) -> bool:
    """Whether a disk is full, or a file may not be as large."""
    return error.errno in _FULL


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either whole or not there."""
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def parse(
    unit: Unit, layout: RawLayout, folder: Path, lateness: float | None, reached: int | None = None
) -> UnitCounts:
    """Parse a unit, and store its rows and counts in the folder of work.

    ``lateness``: seconds by which a row may be earlier than the latest one before it, others are left out; None: no
    row comes too late. ``reached``: latest event time before the unit, microseconds; None: that of the rows just before
    it. Raises ``ValueError`` if the file cannot be read; ``OSError`` if there is no room.
    """
    done, target, source = counts_of(folder, unit), stored_rows(folder, unit), source_of(folder, unit)
    if done is not None and reached in (None, done.reached) and target.exists():  # Spark has begun the unit twice
        return done
    layout = layout_of(unit, layout)
    unfinished = target.with_name(f"{target.name}.part")
    survey = _Survey(unit, lateness, _just_before(unit, layout, source) if reached is None else reached)
    with _writer(unfinished, layout) as writer:
        for table in survey.kept(raw_tables(source, layout, survey.tally, unit.begin, unit.end)):
            writer.write_table(_arrow(table, writer.schema))
            (folder / f"{unit.name}.rows").write_bytes(b"%d" % survey.tally.rows)
    unfinished.replace(target)
    counts = survey.counts()
    if counts.rejected and unit.begin:
        before = lines_before(source, layout, unit.begin)
        rejected = [msgspec.structs.replace(each, line=each.line + before) for each in counts.rejected]
        counts = msgspec.structs.replace(counts, rejected=rejected)
    write_whole(folder / f"{unit.name}.json", msgspec.json.encode(counts))
    return counts


def _just_before(unit: Unit, layout: RawLayout, source: Path) -> int | None:
    """Latest event time of the rows just before a unit, microseconds; None: there are none.

    Mostly it is the latest of all before it, so that the unit is parsed once.
    """
    if unit.before == unit.begin:
        return None
    tables = raw_tables(source, layout, Tally(), unit.before, unit.begin, judged=True)
    return max((int(table.get_column("time").to_physical().max()) for table in tables if table.height), default=None)  # type: ignore[arg-type]


class Sorting(msgspec.Struct, frozen=True):
    """A file of the result that a process of Spark's sorts and writes by itself, with its survey."""

    target: str  # path of the file
    # hours since 1970 from which on, and before which, the rows are that are sorted together, one pair after the other
    slices: list[tuple[int, int]]
    stored: list[tuple[str, int]]  # rows of units: path and number of the raw file, in the order of files and parts
    survey: str  # path of the survey
    step: int  # microseconds of a period by which it counts rows
    duplicates: str = "keep"  # which of equal rows are kept, see without_duplicates


def write_sorted(sorting: Sorting, columns: Mapping[str, str]) -> None:
    """Write a file of the result: rows of units by event time, raw file and place in it.

    ``columns``: column to type. Only the rows of a slice are in memory.
    """
    with pq.ParquetWriter(sorting.target, _schema(columns), compression="zstd") as writer:
        survey = surveyed(_written(sorting, columns, writer), columns, sorting.step)
    write_whole(Path(sorting.survey), to_bytes(survey))


def _written(sorting: Sorting, columns: Mapping[str, str], writer: pq.ParquetWriter) -> Iterator[pl.DataFrame]:
    """Yield slices that were sorted and written."""
    for low, high in sorting.slices:
        bounds = pl.Series([low * HOUR, high * HOUR], dtype=pl.Int64).cast(TYPES["time"])
        each = (
            pl.scan_parquet(path, glob=False, hive_partitioning=False).select(*columns, pl.lit(file).alias(_FILE))
            for path, file in sorting.stored
        )
        rows = pl.concat(each).filter((pl.col("time") >= bounds[0]) & (pl.col("time") < bounds[1]))
        found = without_duplicates(rows.sort("time", maintain_order=True).collect(), sorting.duplicates)
        table = found.drop(_FILE)
        writer.write_table(_arrow(table, writer.schema))
        yield table


def without_duplicates(table: pl.DataFrame, duplicates: str) -> pl.DataFrame:
    """Keep one of rows that are equal in all columns but the number of their file.

    ``table``: rows by time, and those of equal times by file and place, so that the first one is kept; ``duplicates``:
    ``files``: of rows of different files, as many as the file has that has most of them; ``rows``: of all rows, one;
    ``keep``: all are kept.
    """
    if duplicates == "keep" or not table.height:
        return table
    again = (table.get_column("time").diff().cast(pl.Int64) == 0).fill_null(value=False)
    near = (again | again.shift(-1, fill_value=False)).arg_true()  # only rows of one time can be equal
    if near.is_empty():
        return table
    rows = table[near]
    if duplicates == "files":  # the second of a file is equal to the second of another
        rows = rows.with_columns(pl.int_range(pl.len()).over(rows.columns).alias(_FILE))
    else:
        rows = rows.drop(_FILE)
    first = rows.with_row_index(_FIRST).unique(subset=rows.columns, keep="first").get_column(_FIRST)
    kept = np.ones(table.height, np.bool_)
    kept[near.to_numpy()] = False
    kept[near.gather(first).to_numpy()] = True
    return table.filter(pl.Series(kept))


def parsed_or_said(
    unit: Unit, layout: RawLayout, folder: Path, lateness: float | None, reached: int | None = None
) -> None:
    """Parse a unit; what goes wrong is written to a file, by which the owner of the job learns of it at once."""
    try:
        parse(unit, layout, folder, lateness, reached)
    except OSError as error:
        full = has_no_room(error)
        stored_rows(folder, unit).with_name(f"{unit.name}.parquet.part").unlink(missing_ok=True)  # makes room
        reason = os.strerror(error.errno) if error.errno else str(error)
        fault = UnitFault("disk" if full else "input", f"{folder if full else unit.path}: {reason}")
        write_whole(folder / f"{unit.name}.error", msgspec.json.encode(fault))
    except ValueError as error:
        fault = UnitFault("input", str(error).replace(str(source_of(folder, unit)), unit.path))
        write_whole(folder / f"{unit.name}.error", msgspec.json.encode(fault))


class UnitFault(msgspec.Struct, frozen=True):
    """Why a unit could not be parsed: its file is wrong (``input``), or there is no room (``disk``)."""

    kind: str
    text: str


def fault_in(folder: Path) -> UnitFault | None:
    """What went wrong in a unit, the first by name; None: nothing did."""
    found = sorted(folder.glob("*.error"))
    return msgspec.json.decode(found[0].read_bytes(), type=UnitFault) if found else None


class _Survey:
    """Counts rows as they pass."""

    def __init__(self, unit: Unit, lateness: float | None, reached: int | None) -> None:
        self.rows = 0
        self.tally = Tally(KEPT)
        self._unit = unit
        self._allowed = None if lateness is None else round(lateness * 1e6)
        self._late = 0
        self._seen = 0
        self._rejected: list[Rejected] = []
        self._before = self._reached = reached
        self._first: int | None = None
        self._disorder = 0
        self._hours: dict[int, int] = {}
        self._later = np.zeros(len(LATENESSES), np.int64)

    def kept(self, tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the rows that do not come too late."""
        for table in tables:
            times = table.get_column("time").to_physical().to_numpy()
            late, latest = behind(times, self._reached)
            self._disorder = max(self._disorder, int(late.max()))
            if late.max() > 0:
                behind_others = np.sort(late[late > 0])
                self._later += len(behind_others) - np.searchsorted(behind_others, _LATE, side="right")
            self._reached = int(latest[-1])
            seen, self._seen = self._seen, self._seen + table.height
            if self._allowed is not None and (wrong := late > self._allowed).any():
                self._reject(table.filter(pl.Series(wrong)), late[wrong], np.flatnonzero(wrong) + seen)
                table, times = table.filter(pl.Series(~wrong)), times[~wrong]  # noqa: PLW2901 - the rest of it
            if not table.height:
                continue
            least = int(times.min())
            self._first = least if self._first is None else min(self._first, least)
            for hour, rows in zip(*np.unique(times // HOUR, return_counts=True), strict=True):
                self._hours[int(hour)] = self._hours.get(int(hour), 0) + int(rows)
            self.rows += table.height
            yield table

    def _reject(self, table: pl.DataFrame, late: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        for place, row in enumerate(table.head(KEPT - len(self._rejected)).iter_rows()):
            self._rejected.append(
                Rejected(
                    self._unit.path, int(places[place]) + 1, "late", "time", str(row[0]),
                    f"at most {(self._allowed or 0) / 1e6:g} s before the latest row, not {late[place] / 1e6:g} s",
                    str(row),
                )
            )  # fmt: skip
        self._late += table.height

    def counts(self) -> UnitCounts:
        bad = self.tally.malformed
        return UnitCounts(
            lines=self.tally.rows,
            malformed=0 if bad is None else bad.count,
            late=self._late,
            rows=self.rows,
            first=self._first,
            last=self._reached if self.rows else None,
            hours=self._hours,
            disorder=self._disorder,
            rejected=[*(_rejected(self._unit.path, each) for each in self.tally.lines), *self._rejected],
            complaint="" if bad is None else str(bad),
            doubt=self.tally.doubt,
            later=self._later.tolist(),
            reached=self._before,
        )


def _rejected(path: str, line: Malformed) -> Rejected:
    return Rejected(path, line.line, "malformed", line.field, line.value, line.expected, line.text)


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    empty = pl.DataFrame(schema={name: TYPES[kind] for name, kind in columns.items()})
    return empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema


def _writer(path: Path, layout: RawLayout) -> pq.ParquetWriter:
    """A writer of rows that are read once or twice: without dictionaries, which cost more than they save."""
    schema = _schema(layout.schema)
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, use_dictionary=False)


def _arrow(table: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    return table.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)
