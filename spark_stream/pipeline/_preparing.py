"""A job from raw traces to clean data: its arguments are checked, it goes on where it was, and tells how far it is.

Theory of operation
-------------------
The work is divided twice. First into units, which are raw files or parts of them: each is parsed by one task and leaves
its rows, as Parquet, and its counts, with the number of rows in each hour. When all are done, each file is judged, and
the counts say which files the result will have: a file for each day or hour. Then groups of these are written, each by
one job of Spark. A unit or group that is done is not done again; so a job that was stopped, however, goes on.

Rows have a total order, by event time, raw file and place in it, and a file of the result is written by one task. So
the same raw files and settings give the same rows in the same order in the same files.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import polars as pl

from spark_stream._opened_sessions import OpenedSession
from spark_stream.java import SparkUnavailable
from spark_stream.pipeline._dividing import copy_again, divided, likely_lines, remove_copies
from spark_stream.pipeline._inputs import check_fits, common_layout, raw_files
from spark_stream.pipeline._judging import judge, quarantine
from spark_stream.pipeline._pieces import PARTITIONS, Group, Piece, groups_of, pieces_of, slices_of
from spark_stream.pipeline._results import Prepared, PrepareError, Progress, Stage
from spark_stream.pipeline._surveying import Day, days_of, survey_of, survey_path
from spark_stream.pipeline._units import (
    LATENESSES,
    Sorting,
    Unit,
    UnitCounts,
    counts_of,
    fault_in,
    rows_so_far,
    stored_rows,
    write_whole,
)
from spark_stream.pipeline._work_folder import (
    Manifest,
    RawFile,
    WrittenFile,
    begun,
    check_folder,
    finished,
    note_units,
    note_written,
    noted_units,
    numbered,
    owned,
    raw_file,
    renew,
    write_manifest,
    written_files,
)
from spark_stream.server import Endpoint
from synergy_nb.plan.operators.sources import TIME_UNITS
from synergy_nb.plan.sql.sql import infer_type
from synergy_nb.plan.terms.units import counted, did_you_mean, duration, parse_duration
from synergy_nb.traces.profiles.profiling import RawOrder, profile_of
from synergy_nb.traces.profiles.surveys import step_for
from synergy_nb.traces.profiles.trace_profile import PAGE, PROFILE

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["prepare"]

DUPLICATES: Final = ("files", "rows", "keep")
_GOES_ON: Final = "the same call goes on where it was"


def prepare(
    *inputs: str | Path,
    out: str | Path,
    spark: str | Endpoint | SparkSession | None = None,
    format: str | None = None,  # noqa: A002 - the parameter's name in plans
    columns: Mapping[str, str] | None = None,
    time: str | None = None,
    time_unit: str | None = None,
    time_zone: str | None = None,
    encoding: str = "utf-8",
    quotes: bool | None = None,
    tolerance: float = 0.01,
    lateness: float | str | None = None,
    derive: Mapping[str, str] | None = None,
    duplicates: str = "files",
    partition: str = "day",
    follow: bool = False,
    every: float | str = "10 s",
    start: str | dt.datetime | None = None,
    step: float | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Prepared:
    """Prepare raw traces on Spark: clean rows in the order of their times, as Parquet files by day or hour.

    A call that was stopped, or failed, goes on where it was if it is made again. A call that was completed returns what
    it has made. The same raw files and arguments give the same rows in the same order, in the same files of any folder.
    A call with more raw files than the folder has rows of adds theirs, as if all had been prepared at once.

    Parameters
    ----------
    inputs
        Paths of raw traces of one format, of folders of them, or patterns such as ``logs/*.gz``; gzipped or not.
    out
        Path of the folder for the result, new or empty.
    spark
        URL or endpoint of a Spark Connect server, whose Python processes have this package and reach all paths; or a
        session on one, such as ``cluster.spark_session()``. None: a server of this machine, for this call.
    format
        ``combined``, ``counts``, ``csv``, ``http``, ``jsonl``, ``ncsa``, ``parquet``, ``pcap``, ``tcp``, ``tcpdump`` or
        ``zeek``. None: recognised by the beginning, but for ``counts``: a count a line, of which n becomes n rows.
    columns
        Columns of CSV, JSON lines or Parquet files to keep, with their types. None: all columns, with the types that
        their first 1,000 values have.
    time, time_unit, encoding, quotes
        Column with the event time, unit of times that are numbers (seconds), encoding of the text, and whether fields
        of CSV may be quoted, as those of a source with connector ``trace``.
    time_zone
        Name of the time zone of event times that state none, such as ``"America/Los_Angeles"``. None: UTC.
    tolerance
        Share of the lines of a file that may be malformed; these are left out.
    lateness
        Seconds, or text such as ``"5 min"``, by which a row may be earlier than the latest one before it in its file;
        later ones are left out. None: all rows are kept and sorted.
    derive
        Column to the SQL expression of its values, over the columns of the rows.
    duplicates
        Treatment of rows that are equal in all columns. ``"files"``: if they are in several files, as when files
        overlap, only those of the file that has most of them are kept; ``"rows"``: the first is kept; ``"keep"``: all
        are.
    partition
        ``"day"`` or ``"hour"``: what the rows of a file have in common.
    follow
        Whether to wait for more files in the folders and patterns, and to add their rows, until an interrupt.
    every
        Time between two looks for files, seconds or text such as ``"10 s"``. A file counts as whole if it was the same
        at two looks.
    start
        Time at which the period of the first line of ``counts`` begins, ISO 8601, in UTC unless it states its zone.
    step
        Length of a period of ``counts``, seconds or text such as ``"1 s"``.
    progress
        Function that is called with the progress, several times a second, and of ``follow`` at each look.

    Returns
    -------
    Prepared
        Result: folder, columns, stages with numbers of rows, files.

    Raises
    ------
    ValueError
        If an argument is wrong, a file cannot be read, or more of its lines are malformed than ``tolerance`` allows.
        Malformed lines are in the folder ``_quarantine`` of ``out``, the first 1,000 of each file.
    PrepareError
        If the disk is full, or Spark fails or is lost.

    Examples
    --------
    Write ``prepare("logs/*.gz", out="clean", derive={"large": "bytes > 1000000"})``, and read the rows by ``scan()``
    of the result. What is wrong is said before Spark is started:

    >>> prepare("logs of 1995/*.gz", out="clean")
    Traceback (most recent call last):
    ...
    ValueError: logs of 1995/*.gz: no file has such a path; expected a pattern of raw traces
    """
    options = {
        "format": format, "columns": dict(columns) if columns else None, "time": time, "unit": time_unit,
        "zone": time_zone, "encoding": encoding, "quotes": quotes,
        "start": None if start is None else _micros_of(start),
        "step": None if step is None else round(duration("step", step, least=1e-6) * 1e6),
    }  # fmt: skip
    late = None if lateness is None else parse_duration(lateness)
    _one_of("duplicates", duplicates, DUPLICATES)
    _one_of("partition", partition, PARTITIONS)
    if time_unit is not None:
        _one_of("time_unit", time_unit, TIME_UNITS)
    if not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance: {tolerance!r}; expected a share from 0 to less than 1")
    pause = parse_duration(every)
    settings = {**options, "lateness": late, "derive": dict(derive or {}), "duplicates": duplicates,
                "partition": partition}  # fmt: skip
    call = _Call(Path(out).absolute(), options, settings, tolerance, progress)
    check_folder(call.folder)
    found = [] if follow else raw_files(inputs)
    with OpenedSession(spark, brief=not derive) as sessions:  # else Java sorts rows, and compares them
        if follow:
            return _followed(call, inputs, sessions, pause)
        return call.made(found, sessions)


def _followed(call: _Call, inputs: Sequence[str | Path], sessions: OpenedSession, pause: float) -> Prepared:
    """Prepare files as they come, until an interrupt; return what there is then."""
    made: Prepared | None = None
    seen: dict[Path, RawFile | None] = {}
    taken: dict[Path, RawFile | None] = {}
    try:
        while True:
            found = {path: _now(str(path)) for path in raw_files(inputs, coming=True)}
            whole: dict[Path, RawFile | None] = {
                path: now for path, now in found.items() if now and (path in taken or seen.get(path) == now)
            }
            if any(taken.get(path) != now for path, now in whole.items()):
                made = call.made(list(whole), sessions, more=True)
                taken = whole
            seen = found
            if call.progress is not None:
                rows = 0 if made is None else made.rows
                call.progress(Progress("follow", 1.0, rows, 0.0, None))
            sleep(pause)
    except KeyboardInterrupt:
        if made is None:
            raise
        return made


class _Call(NamedTuple):
    """A call, whose arguments are right as far as they can be checked without files."""

    folder: Path
    options: dict[str, Any]  # arguments of `raw_layout`
    settings: dict[str, Any]
    tolerance: float
    progress: Callable[[Progress], None] | None

    def made(self, files: Sequence[Path], sessions: OpenedSession, *, more: bool = False) -> Prepared:
        """Prepare files; ``more``: some beside those that are prepared, which need not be named again."""
        folder = self.folder
        if inside := next((path for path in files if path.is_relative_to(folder.resolve())), None):
            raise ValueError(f"out: {folder} has the raw file {inside}; expected another folder")
        before, manifest, columns = self._wanted(files, more=more)
        if before is not None and before.prepared is not None and before.files == manifest.files:
            return msgspec.structs.replace(before.prepared, folder=str(folder))
        with owned(folder) as work:
            before, manifest, columns = self._wanted(files, more=more)  # another job may have been at work
            renew(folder, before, manifest)
            return _Job(folder, manifest, self.tolerance, columns, self.progress).done(work, sessions)

    def _wanted(self, files: Sequence[Path], *, more: bool) -> tuple[Manifest | None, Manifest, dict[str, str]]:
        """The manifest that the folder has, and the one that it is to have, with the columns of the result."""
        before, given = begun(self.folder, self.settings), [raw_file(path) for path in files]
        named = {each.path for each in (*given, *([] if before is None else before.files))}
        if self.options["format"] == "counts" and len(named) > 1:
            raise ValueError(
                f"inputs: {len(named)} files; expected one of format 'counts', whose first line is at start"
            )
        layout = before.layout if before is not None and before.kept else common_layout(files, self.options)
        derive: dict[str, str] = self.settings["derive"]
        made = {name: _derived(layout.schema, name, text) for name, text in derive.items()}
        _check_names([*layout.schema, *made], self.settings["partition"])
        columns = {**layout.schema, **made}
        if before is None:
            return None, Manifest(given, self.settings, layout), columns
        ordered = numbered(self.folder, before, given, more=more)
        for each in ordered[before.kept :] if before.kept else ():
            check_fits(Path(each.path), layout, Path(before.files[0].path), self.options)
        same = ordered == before.files
        prepared = before.prepared if same else None
        return before, msgspec.structs.replace(before, files=ordered, layout=layout, prepared=prepared), columns


def _micros_of(start: str | dt.datetime) -> int:
    """Microseconds since 1970 of a time."""
    try:
        found = start if isinstance(start, dt.datetime) else dt.datetime.fromisoformat(start)
    except (TypeError, ValueError):
        raise ValueError(f"start: {start!r}; expected a time such as '1995-07-01T00:00:00-04:00'") from None
    known = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
    return (known - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _one_of(field: str, value: str, expected: Sequence[str]) -> None:
    if value not in expected:
        raise ValueError(f"{field}: {value!r}; expected one of {', '.join(expected)}{did_you_mean(value, expected)}")


def _derived(schema: Mapping[str, str], name: str, text: str) -> str:
    """Type of a derived column."""
    if name in schema:
        raise ValueError(f"derive: {name!r} is a column of the rows; expected another name")
    try:
        return infer_type(text, schema)
    except ValueError as error:
        raise ValueError(f"derive: {name}: {error}") from None


def _check_names(names: Sequence[str], partition: str) -> None:
    """Raise ``ValueError`` if a column has a name that the files or the job need."""
    taken = {"day", *([partition] if partition == "hour" else [])}
    for name in names:
        if name in taken or name.startswith("__"):
            raise ValueError(
                f"columns: {name!r} is a name of the pipeline's own; expected other columns, stated by columns="
            )
    seen: dict[str, str] = {}
    for name in names:  # Spark does not tell them apart
        if name.lower() in seen:
            raise ValueError(f"columns: {seen[name.lower()]!r} and {name!r}; expected names that differ in letters")
        seen[name.lower()] = name


class _Job:
    """One job, from its units to its profile."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        tolerance: float,
        columns: Mapping[str, str],  # columns of the result with their types
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._folder = folder
        self._layout = manifest.layout
        self._manifest = manifest
        self._tolerance = tolerance
        self._columns = dict(columns)
        self._derive: dict[str, str] = manifest.settings["derive"]
        self._progress = progress

    def done(self, work: Path, sessions: OpenedSession) -> Prepared:
        """Do what is not done, and return what was made."""
        for left in [*work.glob("*.error"), *work.glob("*.rows")]:
            left.unlink()
        sessions.start()  # it takes seconds, in which files are divided
        try:
            units = self._units(work)
            found = self._parsed(work, sessions, units)
            rejected = quarantine(self._folder, found)
            judge(self._folder, self._layout.format, self._tolerance, found, rejected)
            step = step_of(found)
            files = self._written(work, sessions, found, step)
            self._keep()
            days = days_of(self._folder, work, files, step)
            self._profiled(sessions, found, days, step)
        except OSError as error:
            raise self._stopped(f"{error.filename or self._folder}: {error.strerror or error}") from None
        prepared = self._prepared(found, files)
        write_manifest(self._folder, msgspec.structs.replace(self._manifest, prepared=prepared))
        finished(work, {day.survey for day in days})
        return prepared

    def _stopped(self, why: str) -> PrepareError:
        return PrepareError(f"{self._folder}: not prepared yet: {why}; {_GOES_ON}")

    def _keep(self) -> None:
        """Note that all raw files keep their numbers, as rows of them may be in the result from here on."""
        files = len(self._manifest.files)
        if self._manifest.kept < files:
            self._manifest = msgspec.structs.replace(self._manifest, kept=files)
            write_manifest(self._folder, self._manifest)

    # -- parse ----------------------------------------------------------------------------------------------------

    def _units(self, work: Path) -> list[Unit]:
        """All units, those of files that an earlier job has divided as it has noted."""
        units = noted_units(work)
        known = {unit.file for unit in units}
        new = {number: Path(each.path) for number, each in enumerate(self._manifest.files) if number not in known}
        if new:
            units += divided(new, self._layout, work, self._unpacking())
            note_units(work, units)
        return units

    def _unpacking(self) -> Callable[[float], None]:
        """Make what tells how far the copies of packed files are, by the share that is made."""
        progress = self._progress
        return lambda share: None if progress is None else progress(Progress("unpack", share, 0, 0.0, None))

    def _parsed(self, work: Path, sessions: OpenedSession, units: Sequence[Unit]) -> dict[Unit, UnitCounts]:
        """Parse the units that are not parsed."""
        known = {unit: counts_of(work, unit) for unit in units}
        left = [unit for unit, counts in known.items() if counts is None]
        before = sum(counts.lines for counts in known.values() if counts is not None)
        self._parse(work, sessions, left, {}, before)
        found = {unit: counts_of(work, unit) for unit in units}
        lateness = self._manifest.settings["lateness"]
        if lateness is not None and (behind := late_beside_others(found, lateness)):
            self._parse(work, sessions, list(behind), {unit.name: reached for unit, reached in behind.items()})
            found |= {unit: counts_of(work, unit) for unit in behind}
        if (missing := next((unit.path for unit, counts in found.items() if counts is None), None)) is not None:
            raise self._stopped(
                f"Spark's processes have not stored the rows of {missing}; is {self._folder} the same folder there"
            )
        for each in self._manifest.files[self._manifest.kept :]:
            if _now(each.path) != each:
                raise ValueError(f"{each.path}: it was changed meanwhile; expected a file that stays")
        remove_copies(work)
        return {unit: counts for unit, counts in found.items() if counts is not None}

    def _parse(
        self,
        work: Path,
        sessions: OpenedSession,
        units: Sequence[Unit],
        reached: Mapping[str, int | None],  # name of a unit to the latest event time before it, where it is known
        before: int = 0,  # number of lines of other units that were parsed
    ) -> None:
        """Have units parsed."""
        if not units:
            return
        copy_again(units, self._layout, work, self._unpacking())
        lines = likely_lines(units, self._layout, work)
        told = Told("parse", before, before + sum(lines.values()), self._progress)

        def watch() -> None:
            if (fault := fault_in(work)) is not None:
                raise ValueError(fault.text) if fault.kind == "input" else self._stopped(fault.text)
            told.rows(before + sum(rows_so_far(work, unit) for unit in units))

        watch()
        lateness = self._manifest.settings["lateness"]
        self._on_spark(sessions, "parse", watch, "parse_units", list(lines), self._layout, work, lateness, reached)

    # -- write ----------------------------------------------------------------------------------------------------

    def _written(
        self, work: Path, sessions: OpenedSession, found: Mapping[Unit, UnitCounts], step: int
    ) -> dict[str, WrittenFile]:
        """Write the files that are not written, or lack rows; return all files by their paths."""
        hours: dict[int, int] = {}
        for counts in found.values():
            for hour, rows in counts.hours.items():
                hours[hour] = hours.get(hour, 0) + rows
        partition, done = self._manifest.settings["partition"], written_files(work)
        pieces = list(pieces_of(hours, partition, {each.start for each in done.values() if each.hours > 1}))
        stale = [piece for piece in pieces if not _is_made(piece, done.get(piece.path(partition)))]
        groups = groups_of(stale, gaps=len(stale) < len(pieces))
        units = {group.pieces[0]: [unit for unit in found if group.has(found[unit].hours)] for group in groups}
        needed = {unit: found[unit] for each in units.values() for unit in each}
        self._parse_again(work, sessions, needed)
        told = Told("write", 0, sum(group.rows for group in groups), self._progress)
        rows = 0
        for place, group in enumerate(groups):
            told.rows(rows)
            target = work / f"group-{place:05}"
            watch: Callable[[], None] = lambda rows=rows: told.rows(rows)  # type: ignore[misc] # noqa: E731 - has a type
            done |= self._write(work, sessions, group, units[group.pieces[0]], target, hours, step, watch)
            note_written(work, done)
            rows += group.rows
            told.rows(rows)
        return {path: done[path] for path in (piece.path(partition) for piece in pieces)}

    def _parse_again(self, work: Path, sessions: OpenedSession, units: Mapping[Unit, UnitCounts]) -> None:
        """Parse those of some units that an earlier job has parsed, whose rows are needed beside new ones."""
        left = [unit for unit in units if not stored_rows(work, unit).exists()]
        for unit in left:
            if _now(unit.path) != self._manifest.files[unit.file]:
                raise ValueError(
                    f"{unit.path}: it was removed or changed, and new files have rows of the same days; expected it as "
                    f"it was, or another folder than {self._folder}"
                )
        self._parse(work, sessions, left, {unit.name: units[unit].reached for unit in left})
        remove_copies(work)

    def _write(
        self,
        work: Path,
        sessions: OpenedSession,
        group: Group,
        units: Sequence[Unit],
        target: Path,
        hours: Mapping[int, int],  # hour since 1970 to number of rows
        step: int,  # microseconds of a period by which a survey counts rows
        watch: Callable[[], None],
    ) -> dict[str, WrittenFile]:
        """Write the files of a group of which some units have rows, each in the place of the one before."""
        settings = self._manifest.settings
        alone = settings["duplicates"] == "files" and len({unit.file for unit in units}) == 1
        duplicates = "keep" if alone else settings["duplicates"]
        slices = {piece: slices_of(piece, hours) for piece in group.pieces}
        ordered = sorted(units, key=attrgetter("file", "part"))
        stored = [stored_rows(work, unit) for unit in ordered]
        written: dict[int, tuple[Path, int]] = {}
        if not self._derive and None not in slices.values():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            paths = {piece.start: target / f"{piece.start}.parquet" for piece in group.pieces}
            sortings = [
                Sorting(
                    str(paths[piece.start]), some or [],
                    [(str(path), unit.file) for path, unit in zip(stored, ordered, strict=True)],
                    str(survey_path(work, piece.start, piece.hours, piece.rows, step)), step, duplicates,
                )
                for piece, some in slices.items()
            ]  # fmt: skip
            rows_of = self._on_spark(
                sessions, "write", watch, "write_sorted_files", sortings, self._layout.schema
            )  # fmt: skip
            written = {start: (path, rows_of[str(path)]) for start, path in paths.items()}
        else:
            written = self._on_spark(
                sessions, "write", watch, "write_group", group, stored, self._layout.schema, target,
                derive=self._derive, duplicates=duplicates,
            )  # fmt: skip
        self._keep()
        files = {}
        for piece in group.pieces:
            path, rows = written[piece.start]
            name = piece.path(settings["partition"])
            files[name] = WrittenFile(piece.start, piece.hours, rows, piece.rows)
            final = self._folder / name
            final.parent.mkdir(parents=True, exist_ok=True)
            path.replace(final)
        shutil.rmtree(target, ignore_errors=True)
        return files

    # -- profile and result ------------------------------------------------------------------------------------------

    def _profiled(
        self, sessions: OpenedSession, found: Mapping[Unit, UnitCounts], days: Sequence[Day], step: int
    ) -> None:
        """Write the profile, and survey the files before that have no survey and are of a day without one."""
        told = Told("profile", 0, sum(rows for day in days for _, _, rows in day.files), self._progress)

        def watch() -> None:
            told.rows(sum(
                rows for day in days for _, survey, rows in day.files if survey.exists() or day.survey.exists()
            ))  # fmt: skip

        watch()
        left = [
            (path, survey)
            for day in days if not day.survey.exists()
            for path, survey, _ in day.files if not survey.exists()
        ]  # fmt: skip
        if left:
            self._on_spark(sessions, "profile", watch, "survey_files", left, self._columns, step)
        survey = survey_of(days)
        first, *others = (Path(path.path).name for path in self._manifest.files)
        name = f"{first} and {counted(len(others), 'more file')}" if others else first
        profile = profile_of(name, survey, raw_order(found))
        write_whole(self._folder / PROFILE, profile.to_json())
        write_whole(self._folder / PAGE, profile.to_page().encode())
        told.rows(survey.rows)

    def _prepared(self, found: Mapping[Unit, UnitCounts], files: Mapping[str, WrittenFile]) -> Prepared:
        lines, malformed, late, rows = (
            sum(getattr(counts, name) for counts in found.values()) for name in ("lines", "malformed", "late", "rows")
        )
        kept = sum(each.rows for each in files.values())
        settings = self._manifest.settings
        disorder = max(counts.disorder for counts in found.values()) / 1e6
        ends = pl.Series([min(c.first for c in found.values() if c.first is not None),
                          max(c.last for c in found.values() if c.last is not None)])  # fmt: skip
        first, last = ends.cast(pl.Datetime("us")).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f").to_list()
        doubts = [counts.doubt for counts in found.values() if counts.doubt]
        partition = settings["partition"]
        order = f"{counted(late, 'row')} came too late" if late else f"sorted, up to {disorder:g} s out of order"
        stages = [
            Stage(
                "parse", lines, lines, f"{counted(len(self._manifest.files), 'file')} of format {self._layout.format}"
            ),
            Stage("judge", lines, lines - malformed, "; ".join([*(["malformed"] if malformed else []), *doubts[:1]])),
            Stage("order", rows + late, rows, order if disorder > 0 else "in order"),
            Stage("derive", rows, rows, ", ".join([*self._derive, *dict.fromkeys(["day", partition])])),
            Stage("deduplicate", rows, kept, settings["duplicates"]),
            Stage("write", kept, kept, f"{counted(len(files), 'file')}, by {partition}"),
            Stage("profile", kept, kept, f"{PROFILE}, {PAGE}"),
        ]
        paths = [each.path for each in self._manifest.files]
        return Prepared(
            str(self._folder), paths, self._layout.format, self._columns, stages, kept, first, last, list(files)
        )

    def _on_spark(
        self, sessions: OpenedSession, stage: str, watch: Callable[[], None], name: str, *given: Any, **named: Any
    ) -> Any:
        """Have Spark execute a function of ``_spark_job``, and watch meanwhile."""
        from spark_stream.pipeline import _spark_job as spark_job  # noqa: PLC0415 - imports PySpark

        try:
            session = sessions.session()
        except SparkUnavailable as error:
            raise PrepareError(f"spark: {error}") from None
        step: Callable[..., Any] = getattr(spark_job, name)
        try:
            return spark_job.executed(session, lambda: step(session, *given, **named), watch)
        except PrepareError as error:
            if str(error).startswith(str(self._folder)):
                raise
            raise self._stopped(f"{stage}: {error}") from None


class Told:
    """Tells the progress of a stage."""

    def __init__(self, stage: str, rows: float, total: float, progress: Callable[[Progress], None] | None) -> None:
        self._stage, self._total, self._progress = stage, max(total, 1.0), progress
        self._before, self._since = rows, monotonic()

    def rows(self, rows: int) -> None:
        """Say that so many rows are done."""
        if self._progress is None:
            return
        passed = monotonic() - self._since
        rate = (rows - self._before) / passed if passed > 0 else 0.0
        share = min(rows / self._total, 1.0)
        left = None if rate <= 0 else max(self._total - rows, 0.0) / rate
        self._progress(Progress(self._stage, share, rows, rate, left))


def step_of(found: Mapping[Unit, UnitCounts]) -> int:
    """Microseconds of a period by which rows are counted, which their span determines."""
    ends = [(counts.first, counts.last) for counts in found.values() if counts.rows]
    return step_for(min(first or 0 for first, _ in ends), max(last or 0 for _, last in ends))


def raw_order(found: Mapping[Unit, UnitCounts]) -> RawOrder | None:
    """In which order the rows of the raw files came; None: an earlier version has counted them."""
    if not all(counts.later for counts in found.values()):
        return None
    lost = [sum(rows) for rows in zip(*(counts.later for counts in found.values()), strict=True)]
    disorder = max(counts.disorder for counts in found.values()) / 1e6
    alone = any(counts.reached != before for _, counts, before in _in_turn(found))
    return RawOrder(dict(zip(LATENESSES, lost, strict=True)), max(disorder, 0.0), in_parts=alone)


def late_beside_others(found: Mapping[Unit, UnitCounts | None], lateness: float) -> dict[Unit, int]:
    """The parts of files of which more rows come too late than they themselves tell, by what was before them.

    Each has the latest event time before it, microseconds; of one that was parsed with that, nothing more is to be
    said. ``lateness``: seconds by which a row may be earlier.
    """
    return {
        unit: before
        for unit, counts, before in _in_turn(found)
        if before is not None
        and counts.reached != before
        and counts.first is not None
        and counts.first < before - round(lateness * 1e6)
    }


def _in_turn(found: Mapping[Unit, UnitCounts | None]) -> Iterator[tuple[Unit, UnitCounts, int | None]]:
    """Yield units that have rows, with the latest event time in the parts before each."""
    reached: dict[int, int] = {}
    for unit in sorted(found, key=attrgetter("file", "part")):
        counts, before = found[unit], reached.get(unit.file)
        if counts is not None and counts.last is not None:
            yield unit, counts, before
            reached[unit.file] = counts.last if before is None else max(before, counts.last)


def _now(path: str) -> RawFile | None:
    """A raw file as it is; None: it is not there."""
    try:
        return raw_file(Path(path))
    except OSError:
        return None


def _is_made(piece: Piece, written: WrittenFile | None) -> bool:
    """Whether a file of the result is written, of as many rows as there are for it now."""
    return written is not None and (written.hours, written.of) == (piece.hours, piece.rows)
