"""Surveys of files of clean rows, and which of them are kept; nothing here knows Spark.

The survey of a file is a file of the folder of work, named after the time of its rows, how many there were before
duplicates went, and how they were surveyed. So a survey that is there is that of the rows that are there. When all
files of a day have theirs, one of the day is made of them, and kept: a later job surveys only the days that get rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import polars as pl
import pyarrow.parquet as pq

from spark_stream.pipeline._units import write_whole
from spark_stream.pipeline._work_folder import SURVEY, WrittenFile
from synergy_nb.traces.profiles.surveys import BLOCK, VERSION, RowSurvey, added, from_bytes, surveyed, to_bytes

Item = TypeVar("Item")
_DAY: Final = 24  # hours


def divided(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Divide items, in their order, into at most so many parts.

    >>> divided("abcde", 2)
    ['abc', 'de']
    """
    size = -(-len(items) // most)
    return [items[begin : begin + size] for begin in range(0, len(items), size)]


def survey_path(work: Path, start: int, hours: int, of: int, step: int) -> Path:
    """Path of the survey of a file, or of a day, of which these are what :class:`.WrittenFile` says.

    ``step``: microseconds of a period by which rows are counted.
    """
    return work / f"{start}-{hours}-{of}-{step}-{VERSION}{SURVEY}"


class Day(NamedTuple):
    """A day, and its files."""

    survey: Path
    files: list[tuple[Path, Path, int]]  # of each: its path, that of its survey, and its number of rows


def days_of(folder: Path, work: Path, files: Mapping[str, WrittenFile], step: int) -> list[Day]:
    """The days of files of the result, in the order of time; ``files``: by their paths in the folder."""
    found: dict[int, list[tuple[str, WrittenFile]]] = {}
    for path, each in sorted(files.items(), key=lambda pair: pair[1].start):
        found.setdefault(each.start - each.start % _DAY, []).append((path, each))
    return [
        Day(
            survey_path(work, start, _DAY, sum(each.of for _, each in within), step),
            [(folder / path, survey_path(work, each.start, each.hours, each.of, step), each.rows)
             for path, each in within],
        )
        for start, within in found.items()
    ]  # fmt: skip


def survey_file(path: Path, target: Path, columns: Mapping[str, str], step: int) -> None:
    """Survey a file of clean rows, and keep that."""
    write_whole(target, to_bytes(surveyed(_blocks(path, list(columns)), columns, step)))


def _blocks(path: Path, names: list[str]) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BLOCK, columns=names):
            yield pl.DataFrame(pl.from_arrow(batch)).with_columns(pl.col("time").cast(pl.Datetime("us")))


def survey_of(days: Sequence[Day]) -> RowSurvey:
    """Add up the surveys of at least one day, each of which is there, or those of its files are; keep those of days."""

    def each_day() -> Iterator[RowSurvey]:
        for day in days:
            if day.survey.exists():
                yield from_bytes(day.survey.read_bytes())
                continue
            survey = added(from_bytes(each.read_bytes()) for _, each, _ in day.files)
            assert survey is not None
            write_whole(day.survey, to_bytes(survey))
            yield survey

    found = added(each_day())
    assert found is not None
    return found
