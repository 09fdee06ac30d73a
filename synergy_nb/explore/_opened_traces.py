"""Traces as a table of DuckDB: files of any format, folders of Parquet files, and frames.

Theory of operation
-------------------
A trace is a table ``rows`` of a DuckDB database in a temporary folder. Parquet files are scanned where they are, and a
frame in memory is scanned there. Rows of other files are parsed by the readers of :mod:`synergy_nb.traces`, and stored
in the database, block by block. DuckDB gets a limit of memory, and has its folder for what is larger. The folder goes
with the object.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from synergy_nb.errors import SynergyError
from synergy_nb.plan import source
from synergy_nb.plan.data_frames import is_frame, normal, tables
from synergy_nb.plan.operators.sources import FORMATS_OF, TIME_NAMES
from synergy_nb.plan.tables.column_kinds import column_kind
from synergy_nb.plan.terms.units import counted, type_of
from synergy_nb.traces.raw_files import Tally, raw_layout, raw_tables
from synergy_nb.traces.text_files import head

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from synergy_nb.plan.builder import Stream

__all__ = ["MEMORY", "OpenedTrace", "TraceViewError", "open_frame", "open_trace", "quoted"]

MEMORY: Final = "1GB"  # memory that DuckDB may use for a view; what is larger is on disk
EXPECTED: Final = (
    "the path of a trace, a folder of Parquet files, a pandas, Polars or Arrow table, or runs that were kept"
)
TEXTS: Final = (pl.Categorical, pl.Enum, pl.Null)
TIMES: Final = ("DATE", "TIMESTAMP")


class TraceViewError(SynergyError, ValueError):
    """A trace cannot be explored, or a view cannot do what was asked."""


def quoted(name: str) -> str:
    """A name as DuckDB reads it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


class _Origin(NamedTuple):
    """What a trace is, and how a plan reads it."""

    title: str  # name for people
    make: Callable[[OpenedTrace], Stream]  # function that makes the source of a plan


class OpenedTrace:
    """The table ``rows`` of a trace, and what is known of it without reading it."""

    def __init__(self, origin: _Origin, clock: str | None = None) -> None:
        duckdb = _duckdb()
        self.title = origin.title
        self.left_out = ""  # sentence about the malformed lines of a raw file; empty: there are none
        self._make = origin.make
        self.folder = Path(tempfile.mkdtemp(prefix="synergy-trace-"))  # for the database, and for files of a view
        limits = {"memory_limit": MEMORY, "temp_directory": str(self.folder / "spilled")}
        self.database: DuckDBPyConnection = duckdb.connect(self.folder / "trace.duckdb", config=limits)
        self._held: list[Any] = []  # what DuckDB scans in the memory of this process
        self._stated_clock = clock
        weakref.finalize(self, _closed, self.database, self.folder)

    def scan(self, files: Iterable[Path]) -> None:
        """Let the table be that of Parquet files, which are scanned where they are."""
        patterns = [re.sub(r"([*?\[])", r"[\1]", str(file)) for file in files]  # a name is no pattern
        try:
            self.database.read_parquet(patterns, hive_partitioning=False).create_view("rows")
        except Exception as error:
            expected = "Parquet files with the same columns"
            raise TraceViewError(f"{self.title}: {_first(error)}; expected {expected}") from error

    def hold(self, table: pl.DataFrame) -> None:
        """Let the table be a frame in memory."""
        held = _plain(table).to_arrow()
        self._held.append(held)
        self.database.register("held", held)
        self.database.execute("CREATE TEMP VIEW rows AS SELECT * FROM held")

    def store(self, parts: Iterable[pl.DataFrame]) -> None:
        """Store tables with the same columns, one after the other."""
        made = False
        for part in parts:
            self.database.register("part", _plain(part).to_arrow())
            self.database.execute("INSERT INTO rows FROM part" if made else "CREATE TABLE rows AS FROM part")
            self.database.unregister("part")
            made = True

    @property
    def columns(self) -> dict[str, str]:
        """Column to its type in DuckDB."""
        return {name: str(kind) for name, kind, *_ in self.database.execute("DESCRIBE rows").fetchall()}

    @property
    def clock(self) -> str | None:
        """Column with the event time; None: there is none."""
        columns = self.columns
        if self._stated_clock is not None:
            if self._stated_clock not in columns:
                raise TraceViewError(f"time: {self._stated_clock!r}; expected one of {', '.join(columns)}")
            return self._stated_clock
        times = [name for name, kind in columns.items() if kind.startswith(TIMES)]
        return next((name for name in TIME_NAMES if name in times), times[0] if times else None)

    def source(self) -> Stream:
        """The source of a plan that reads this trace."""
        return self._make(self)

    def frame(self, where: str = "true", given: Sequence[Any] = ()) -> pl.DataFrame:
        """The rows for which a condition of DuckDB with parameters is true."""
        spans = [name for name, kind in self.columns.items() if kind == "INTERVAL"]  # which Polars does not import
        numbers = ", ".join(f"epoch_us(rows.{quoted(name)}) AS {quoted(name)}" for name in spans)
        what = f"rows.* REPLACE ({numbers})" if spans else "rows.*"
        text = f"SELECT {what} FROM rows WHERE {where}"  # noqa: S608 - made here
        found: pl.DataFrame = self.database.sql(text, params=list(given)).pl()
        return found.with_columns(pl.col(spans).cast(pl.Duration("us"))) if spans else found

    def schema(self) -> pl.Schema:
        """Columns of the rows with their types in Polars."""
        return self.frame("false").schema


def open_trace(path: str | Path, **options: Any) -> OpenedTrace:
    """Open the trace at a path; ``options`` as those of :func:`synergy_nb.traces.raw_files.raw_layout`."""
    place = Path(path).expanduser()
    if place.is_dir():
        files = sorted(each for each in place.rglob("*.parquet") if _is_data(each.relative_to(place)))
        if not files:
            raise TraceViewError(
                f"{place}: a folder without Parquet files; expected a folder that `synergy data prepare` has written, "
                "a file, or a folder of kept runs"
            )
        if options:
            raise TraceViewError(f"{next(iter(options))}: expected no option of a raw file with a folder")
        return _scanned(place, files, None)
    if not place.is_file():
        raise TraceViewError(f"{place}: no such file or folder; expected {EXPECTED}")
    if head(place)[:4] == b"PAR1" and set(options) <= {"time", "format"}:
        kinds = _stored_kinds(place)
        named = options.get("time", next((name for name in TIME_NAMES if name in kinds), None))
        if named not in kinds or pa.types.is_temporal(kinds[named]):
            return _scanned(place, [place], options.get("time"))
    layout = raw_layout(place, **options)
    given = {name: value for name, value in {
        "format": layout.format, "encoding": options.get("encoding"), "quotes": layout.quotes, "time": layout.clock,
        "time_unit": layout.unit,
    }.items() if value is not None}  # fmt: skip

    def make(_: OpenedTrace) -> Stream:
        if layout.format not in FORMATS_OF["trace"] or layout.zone is not None:
            what = f"format {layout.format!r}" if layout.zone is None else "a time_zone"
            raise TraceViewError(
                f"plan: {place}: {what}; expected one of {', '.join(FORMATS_OF['trace'])}, in UTC: prepare the file "
                "(synergy data prepare), and explore the folder"
            )
        if layout.format in ("http", "ncsa"):
            return source("trace", path=str(place), format=layout.format)
        kinds = dict(layout.columns)
        return source("trace", path=str(place), columns=kinds, **given)

    made = OpenedTrace(_Origin(place.name, make), "time")
    tally = Tally()
    first = raw_tables(place, layout, tally)
    block = next(first, None)
    if block is None:
        block = pl.DataFrame(schema=dict.fromkeys(layout.schema, pl.String) | {"time": pl.Datetime("us")})
    made.store(chain([block], first))
    malformed = tally.malformed
    if malformed is not None:
        lines = f"{malformed.count:,} of {counted(malformed.rows, 'line')}"
        what = f"{lines} {'is' if malformed.count == 1 else 'are'} malformed: {malformed}"
        if malformed.count == malformed.rows:
            raise TraceViewError(f"{place}: {what}")
        made.left_out = f"Left out: {what}."
    return made


def _scanned(place: Path, files: list[Path], clock: str | None) -> OpenedTrace:
    """A trace of Parquet files."""

    def make(trace: OpenedTrace) -> Stream:
        if len(files) > 1:
            return source(pl.scan_parquet(files, hive_partitioning=False, glob=False), **_timed(trace))
        kinds = _kinds(trace)
        time = trace.clock
        return source("trace", path=str(files[0]), format="parquet", columns=kinds, time=time)

    made = OpenedTrace(_Origin(place.name, make), clock)
    made.scan(files)
    return made


def open_frame(frame: Any, title: str = "frame", time: str | None = None) -> OpenedTrace:
    """Open a data frame."""
    if not is_frame(frame):
        raise TraceViewError(f"trace: {type_of(frame)}; expected {EXPECTED}")
    rows = normal(frame, time)
    if isinstance(rows, pl.DataFrame) and not rows.width:
        raise TraceViewError("trace: a table without columns; expected one with a column of times, or of other values")

    def make(trace: OpenedTrace) -> Stream:
        if not isinstance(rows, pl.DataFrame):
            return source(trace.frame(), **_timed(trace))
        return source(rows, **_timed(trace))

    made = OpenedTrace(_Origin(title, make), time)
    if isinstance(rows, pl.DataFrame):
        made.hold(_instants(rows, time))
    else:
        made.store(_instants(part, time) for part in tables(rows))
    return made


def _instants(table: pl.DataFrame, time: str | None) -> pl.DataFrame:
    """A table whose event times are times: numbers are seconds since 1970, as in plans."""
    clock = time if time is not None else next((name for name in TIME_NAMES if name in table.columns), None)
    if clock not in table.columns or table.schema[clock].is_temporal():
        return table
    values = table.get_column(clock)
    if values.dtype == pl.Null:
        return table.with_columns(values.cast(pl.Datetime("us")))
    if values.dtype.is_numeric():
        return table.with_columns((pl.col(clock) * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us")))
    if values.dtype != pl.String:
        return table
    try:
        found = values.str.to_datetime(time_unit="us", strict=False)
    except pl.exceptions.ComputeError:  # no value has a form of a time that Polars knows
        found = pl.Series(clock, [None] * values.len(), pl.Datetime("us"))
    if found.null_count() == values.null_count():
        return table.with_columns(found)
    if time is not None:
        wrong = values.filter(found.is_null() & values.is_not_null())[0]
        raise TraceViewError(f"time: column {time!r}: {wrong!r}; expected times, such as '2026-01-31 09:00:00'")
    return table


def _timed(trace: OpenedTrace) -> Mapping[str, str]:
    """The parameter that names the event time of a trace's rows."""
    return {"time": _needed_clock(trace)}


def _needed_clock(trace: OpenedTrace) -> str:
    if trace.clock is None:
        raise TraceViewError(f"plan: {trace.title} has no column of times; expected one: explore.trace(..., time=...)")
    return trace.clock


def _kinds(trace: OpenedTrace) -> dict[str, str]:
    """Types of the columns of a trace, as plans state them; columns that plans cannot read are left out."""
    found = {name: column_kind(dtype) for name, dtype in trace.schema().items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _is_data(path: Path) -> bool:
    """Whether no part of a path is for the program that wrote it, as ``_quarantine`` and ``.part`` are."""
    return not any(part.startswith(("_", ".")) for part in path.parts)


def _plain(table: pl.DataFrame) -> pl.DataFrame:
    """A table whose categories, and columns of which nothing is known, are texts, as DuckDB compares them."""
    odd = [name for name, dtype in table.schema.items() if isinstance(dtype, TEXTS)]
    return table.with_columns(pl.col(odd).cast(pl.String)) if odd else table


def _duckdb() -> Any:
    """DuckDB, which is installed with this package but may have been removed."""
    try:
        import duckdb  # noqa: PLC0415 - whoever explores no trace need not load it
    except ModuleNotFoundError:
        raise TraceViewError(
            "explore.trace needs the package duckdb; expected it to be installed: pip install duckdb"
        ) from None
    return duckdb


def _stored_kinds(path: Path) -> dict[str, pa.DataType]:
    """Column of a Parquet file to its type."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise TraceViewError(f"{path}: {_first(error)}; expected a Parquet file that is whole") from None
    return dict(zip(schema.names, schema.types, strict=True))


def _first(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _closed(database: Any, folder: Path) -> None:
    """Close a database and remove its folder."""
    database.close()
    shutil.rmtree(folder, ignore_errors=True)
