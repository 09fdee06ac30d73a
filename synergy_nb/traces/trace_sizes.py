"""What is known of the rows of a source before it runs: of a file from a few kilobytes, of a table from itself.

A text of up to :data:`WHOLE` bytes is read; of a longer one, pieces from its beginning, middle and end are, and its
number of rows follows from its size. Parquet states the number of its rows, and mostly the range of each column. The
pieces become a small file of the same format, which the reader of the format parses: so an estimate sees the rows as
the source will, whatever the format. But for a profile that a plan states, nothing here is an error: of what cannot be
read, nothing is known.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping, Sequence
from operator import length_hint
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import pyarrow.parquet as pq

from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.data_frames import is_frame
from synergy_nb.plan.terms.column_types import column_bytes
from synergy_nb.traces._parquet import stored
from synergy_nb.traces._typed_columns import exactly, typed
from synergy_nb.traces.profiles.facts import known_facts
from synergy_nb.traces.reading import open_trace
from synergy_nb.traces.text_files import UTF8, beginning, is_packed, is_utf8
from synergy_nb.traces.times import in_years
from synergy_nb.traces.trace_files import Opened

__all__ = ["WHOLE", "size_of_rows", "size_of_table", "size_of_trace", "sized_by_traces", "sizes_of_rows", "unpacking"]

WHOLE: Final = 1 << 18  # bytes of a text up to which all of it is read
_PIECE: Final = 1 << 16  # bytes of each piece that is read of a longer text
_SAMPLE: Final = 4000  # maximum number of rows whose values are compared
_INLINE: Final = 12  # bytes of a text up to which a column holds it in place


def sized_by_traces(plan: Plan) -> Plan:
    """Return a plan with what is known of the files of its sources with connector ``trace``, and of their profiles.

    Raises ``NotAProfile`` if a source states a profile that cannot be read.
    """
    params = {name: plan.operators[name].params for name in plan.sources}
    traces = {name: each for name, each in params.items() if each["connector"] == "trace"}
    return plan.sized(
        {name: msgspec.structs.replace(size_of_trace(each), facts=known_facts(each)) for name, each in traces.items()}
    )


def sizes_of_rows(plan: Plan, rows: Mapping[str, Any]) -> dict[str, SourceSize]:
    """Look at the rows of each source that a program gives, by operator id."""
    return {name: size_of_rows(given, plan.operators[name].params["time"]) for name, given in rows.items()}


def size_of_rows(rows: Any, clock: str = "time") -> SourceSize:
    """Look at rows as ``source(rows)`` takes them; of a generator or a feed nothing is known before it runs.

    ``rows``: table, or what gives tables or rows, nothing is taken from it; ``clock``: column with the event time.

    Examples
    --------
    >>> size_of_rows([{"n": 1}, {"n": 2}]).rows, size_of_rows(iter([{"n": 1}])).rows
    (2.0, 1.0)
    """
    if isinstance(rows, pl.DataFrame):
        return size_of_table(rows, clock if clock in rows.columns else "time")
    if is_frame(rows):
        held = getattr(rows, "num_rows", None) if not hasattr(rows, "__len__") else len(rows)
        return SourceSize(None if held is None else float(held), exact=held is not None)
    if isinstance(rows, list | tuple) and any(is_frame(each) for each in rows):
        counts = [size_of_rows(each).rows if is_frame(each) else 1.0 for each in rows]
        known = [each for each in counts if each is not None]
        return SourceSize(sum(known), exact=True) if len(known) == len(counts) else SourceSize()
    try:
        held = length_hint(rows, -1)
    except ANYTHING:
        held = -1
    return SourceSize(float(held), exact=True) if held >= 0 else SourceSize()


def size_of_table(table: pl.DataFrame, clock: str = "time") -> SourceSize:
    """Look at a table that has all rows of a source."""
    widths, distinct = _values(table, table.height)
    return SourceSize(float(table.height), _duration(table, clock), True, widths, distinct)


def size_of_trace(params: Mapping[str, Any]) -> SourceSize:
    """Look at the file of a source with connector ``trace``."""
    try:
        path = Path(params["path"])
        if not path.is_file():
            return SourceSize()
        if params.get("format") == "parquet":
            return _of_parquet(path, params)
        return _of_text(path, params)
    except ANYTHING:  # the source says what is wrong, when it is opened
        return SourceSize()


# -- texts -------------------------------------------------------------------------------------------------------------


def _of_text(path: Path, params: Mapping[str, Any]) -> SourceSize:
    encoding, size = str(params.get("encoding") or UTF8), path.stat().st_size
    text, whole = beginning(path, WHOLE, encoding)
    if whole:
        return size_of_table(_rows(open_trace(params)))
    packed, converted = is_packed(path), not is_utf8(encoding)
    if converted:
        size = round(size * len(text) / len(text.decode(errors="replace").encode(encoding, "replace")))
    if packed:
        size = round(size * unpacking(path))
    pieces = [text[:_PIECE], *([] if packed or converted else _pieces(path, size))]
    begins = [0, *(piece.find(b"\n") + 1 for piece in pieces[1:])]
    lines = [piece[begin : piece.rfind(b"\n") + 1] for begin, piece in zip(begins, pieces, strict=True)]
    with tempfile.NamedTemporaryFile(prefix="synergy-sample-") as file:
        file.write(b"".join(lines))
        file.flush()
        sample = _rows(open_trace({**params, "path": file.name, "encoding": UTF8}))
    if not sample.height:  # its lines are longer than a piece
        return SourceSize()
    rows = sample.height * size / sum(map(len, lines))
    widths, distinct = _values(sample, rows)
    if len(pieces) == 1:  # the beginning alone tells neither when the rows end nor how many values there are
        return SourceSize(rows, None, False, widths)
    return SourceSize(rows, _duration(sample, "time"), False, widths, distinct)


def _pieces(path: Path, size: int) -> list[bytes]:
    """Pieces of a text from its middle and its end."""
    with path.open("rb") as file:
        found = []
        for start in (size // 2, size - _PIECE):
            file.seek(start)
            found.append(file.read(_PIECE))
    return [found[0], found[1] if found[1].endswith(b"\n") else found[1] + b"\n"]


def unpacking(path: Path) -> float:
    """Bytes of text for each byte of a gzipped file, at its beginning."""
    with path.open("rb") as file:
        packed = file.read(_PIECE)
    return len(zlib.decompressobj(31).decompress(packed)) / len(packed)


def _rows(trace: Opened) -> pl.DataFrame:
    """All rows of a small file, without malformed ones."""
    tables = list(trace.rows())
    return (
        pl.concat(tables) if tables else pl.DataFrame(schema={name: TYPES[each] for name, each in trace.schema.items()})
    )


# -- Parquet -----------------------------------------------------------------------------------------------------------


def _of_parquet(path: Path, params: Mapping[str, Any]) -> SourceSize:
    layout = stored(path, params.get("columns") or None, params.get("time"), params.get("time_unit"))
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=_PIECE) as file:
        rows, groups = file.metadata.num_rows, file.num_row_groups
        ends = pl.Series(layout.clock, _ends(file, layout.clock))
        parts = []
        for number in sorted({0, groups // 2, groups - 1}) if rows else ():
            batch = next(file.iter_batches(_SAMPLE, row_groups=[number], columns=list(layout.kinds)), None)
            if batch is not None:
                parts.append(exactly(pl.DataFrame(pl.from_arrow(batch)), layout.kinds))
    if not parts:
        return SourceSize(float(rows), 0.0, True)
    sample = typed(pl.concat(parts), layout.kinds, [layout.clock], layout.unit)[0]
    widths, distinct = _values(sample, rows)
    whole = sample.height == rows
    seconds = _duration(sample, layout.clock) if whole else None
    if ends.len() and not whole:
        seconds = _duration(
            typed(ends.to_frame(), {layout.clock: "time"}, [layout.clock], layout.unit)[0], layout.clock
        )
    return SourceSize(float(rows), seconds, True, widths, distinct)


def _ends(file: pq.ParquetFile, clock: str) -> list[Any]:
    """Least and greatest value of a column in each row group; empty if the file does not state them."""
    places = [place for place in range(file.metadata.num_columns) if file.schema.column(place).path == clock]
    found: list[Any] = []
    if not places:
        return found
    for number in range(file.num_row_groups):
        kept = file.metadata.row_group(number).column(places[0]).statistics
        if kept is None or not kept.has_min_max:
            return []
        found += [kept.min, kept.max]
    return found


# -- values ------------------------------------------------------------------------------------------------------------


def _duration(table: pl.DataFrame, clock: str) -> float | None:
    """Event time from the first row to the last, seconds; None where it is unknown."""
    if clock not in table.columns or not table.height:
        return None
    times = table.get_column(clock).alias("")
    if times.dtype == pl.String:
        times = times.str.to_datetime(strict=False)
    if not isinstance(times.dtype, pl.Datetime | pl.Date):
        return None
    times = in_years(times)
    low, high = times.cast(pl.Datetime("us")).to_physical().min(), times.cast(pl.Datetime("us")).to_physical().max()
    return (high - low) / 1e6 if isinstance(low, int) and isinstance(high, int) else None


def _values(sample: pl.DataFrame, rows: float) -> tuple[dict[str, float], dict[str, float]]:
    """Mean bytes of the values of a sample's columns, and their numbers of different values, among so many rows."""
    widths: dict[str, float] = {}
    distinct: dict[str, float] = {}
    few = sample if sample.height <= _SAMPLE else sample.sample(_SAMPLE, seed=_SAMPLE)  # rows may have a period
    for name in few.columns:
        column = few.get_column(name).alias("")  # a name may be a pattern, or that of a count
        if isinstance(column.dtype, pl.String | pl.Binary):
            lengths = column.str.len_bytes() if isinstance(column.dtype, pl.String) else column.bin.size()
            kind = "str" if isinstance(column.dtype, pl.String) else "bytes"
            mean = lengths.mean()
            if isinstance(mean, float) and mean > _INLINE:
                widths[name] = round(column_bytes("str") + mean, 1) if kind == "str" else round(16.0 + mean, 1)
        if name != "time" and column.len():
            distinct[name] = _distinct(column, rows)
    return widths, distinct


def _distinct(column: pl.Series, rows: float) -> float:
    """Number of different values among so many rows, from a sample of them.

    It is Chao's estimate: as many values were not seen as those that were seen once are to those that were seen twice.
    """
    seen: Sequence[int] = column.value_counts()["count"].to_list()
    if column.len() >= rows:
        return float(len(seen))
    once, twice = seen.count(1), seen.count(2)
    return min(len(seen) + once * (once - 1) / (2.0 * (twice + 1)), rows)
