"""What a job tells of itself: how far it is, what it has made, and why it could not go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.units import counted
from synergy_nb.traces.profiles.trace_profile import TraceProfile, read_profile

__all__ = ["PrepareError", "Prepared", "Progress", "Stage"]


class PrepareError(SynergyError, RuntimeError):
    """A job could not go on: the disk is full, Spark was lost, a file went away. The same call goes on where it was."""


class Progress(NamedTuple):
    """How far a job is.

    Parameters
    ----------
    stage
        Stage at present: ``unpack``, ``parse``, ``write`` or ``profile``; ``follow`` while files are waited for.
    share
        Share of the stage that is done, from 0 to 1; of files whose rows nobody has counted it is an estimate.
    rows
        Number of rows of the stage so far.
    rate
        Rows a second since the stage began.
    left
        Time until the end of the stage, seconds; None: nothing is known yet.
    """

    stage: str
    share: float
    rows: int
    rate: float
    left: float | None


class Stage(msgspec.Struct, frozen=True):
    """One step of a job.

    Parameters
    ----------
    name
        ``parse``, ``judge``, ``order``, ``derive``, ``deduplicate``, ``write`` or ``profile``.
    rows_in, rows_out
        Number of rows that it got, and that it passed on; of ``parse`` and ``judge`` they are lines or objects.
    did
        Words on the others, or on the columns.
    """

    name: str
    rows_in: int
    rows_out: int
    did: str = ""


class Prepared(msgspec.Struct, frozen=True):
    """Clean data in a folder.

    Parameters
    ----------
    folder
        Path of the folder.
    inputs
        Paths of the raw files, in their order.
    format
        Format of the raw files.
    columns
        Column to type of the rows: the event time first, as ``time``, in UTC.
    stages
        Steps of the job, with the number of rows in and out.
    rows
        Number of rows.
    first, last
        Least and greatest event time, ISO 8601; empty if there are no rows.
    files
        Paths of the Parquet files, relative to ``folder``, in the order of their times.
    """

    folder: str
    inputs: list[str]
    format: str
    columns: dict[str, str]
    stages: list[Stage]
    rows: int
    first: str
    last: str
    files: list[str]

    def scan(self) -> pl.LazyFrame:
        """Return all rows as a lazy frame, in the order of their times."""
        return pl.scan_parquet([Path(self.folder) / each for each in self.files], glob=False, hive_partitioning=False)

    @property
    def profile(self) -> TraceProfile:
        """Profile of the rows, as the last stage has measured it."""
        return read_profile(self.folder)

    def __str__(self) -> str:
        made = f"{counted(self.rows, 'row')} in {counted(len(self.files), 'file')}"
        lines = [f"{self.folder}: {made}, {self.first} to {self.last}"]
        width = max(len(each.name) for each in self.stages)
        for each in self.stages:
            note = f"  {each.did}" if each.did else ""
            lines.append(f"  {each.name:<{width}}  {each.rows_in:>13,} -> {each.rows_out:>13,}{note}")
        return "\n".join(lines)

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """Return all facts as values that JSON has."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
