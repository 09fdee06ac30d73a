"""Text that comes piece by piece, in CSV, JSON or a log, and files that come one by one, as tables of typed columns.

A piece may end anywhere: what no row ends in is left, and comes again with what follows. Malformed lines are counted,
and left out as long as they are few: what is few is asked of all lines so far, and of a hundred at least, since nobody
knows how many will come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import empty
from synergy_nb.events import SkippedLines
from synergy_nb.plan.terms.units import counted, did_you_mean, ratio_of
from synergy_nb.traces._columns import text_kinds
from synergy_nb.traces._tabular import CsvFields, CsvParser
from synergy_nb.traces._typed_columns import Malformed, Tally, exactly
from synergy_nb.traces.first_lines import BOM, names_of, separator_of
from synergy_nb.traces.logs import log_block
from synergy_nb.traces.reading import open_trace
from synergy_nb.traces.rows import FeedError, RowReader
from synergy_nb.traces.text_files import LONGEST, UTF8, whole_lines

__all__ = ["LineTables", "TableOfLines", "tables_of_file"]

_SEVERAL: Final = 100  # least number of lines by which the share of malformed ones is judged


class TableOfLines(NamedTuple):
    """Rows of a piece of text."""

    table: pl.DataFrame
    used: int  # bytes of the piece that were read; the others are the beginning of a row
    lines: int  # line ends in them


class LineTables:
    """Converts pieces of one text to tables, and counts its malformed lines."""

    def __init__(
        self,
        name: str,  # name of the text in messages, such as a path
        schema: Mapping[str, str],  # columns of the stream with their types, the event time as `time`
        # parameters of the source: format, columns, time, time_unit, quotes, strict, tolerance
        params: Mapping[str, Any],
        tally: Tally | None = None,  # counter of its malformed lines; None: one of its own
    ) -> None:
        self.name = name
        self.header = ""  # header of a text in CSV; empty: it is not known yet
        self._schema = dict(schema)
        self._params = params
        self._format: str = params.get("format", "json")
        self._clock = str(params.get("time") or "time")
        self._unit: str | None = params.get("time_unit")
        self._tally = tally or Tally()
        self._parser: CsvParser | None = None
        self._objects: _Objects | None = None
        # columns that no object has had yet, where each line is one; and the number of objects
        self._unseen = {each for each in schema if each != "time"} if "json" in self._format else set()
        self._objects_seen = 0
        self._said: list[str] = []
        self._rows = RowReader(
            name, {each: kind for each, kind in schema.items() if each != "time"}, self._clock, self._unit
        )

    @property
    def needs_header(self) -> bool:
        """Whether the next line has to be the header."""
        return self._format == "csv" and not self.header

    @property
    def _expected(self) -> str:
        """What is expected in place of a value that is no object."""
        return "one by the schema" if "avro" in self._format else f'one in JSON, such as {{"{self._clock}": 0}}'

    @property
    def skipped(self) -> SkippedLines | None:
        """All malformed lines so far; None if there are none."""
        bad = self._tally.malformed
        return None if bad is None else SkippedLines(self.name, bad.count, str(bad), self._tally.doubt)

    def said(self) -> tuple[str, ...]:
        """Return what a user should know of the lines that were read since this was asked last."""
        said, self._said = tuple(self._said), []
        return said

    def _look_for_columns(self, table: pl.DataFrame, last: Mapping[str, Any]) -> None:
        """Say once which columns no object has: at once where a name was misspelt, else after a hundred objects.

        ``table``: rows of the objects that have come; ``last``: the last of these.
        """
        self._unseen = {name for name in self._unseen if table.get_column(name).null_count() == table.height}
        self._objects_seen += table.height
        others = sorted(map(str, last.keys() - self._rows.columns.keys() - {self._clock}))
        for name in sorted(self._unseen):
            meant = did_you_mean(name, others)
            if meant or self._objects_seen >= _SEVERAL:
                self._unseen.discard(name)
                self._said.append(
                    f"column {name!r}: NULL in all of the first {counted(self._objects_seen, 'object')}; expected one "
                    f"of the fields {', '.join(map(str, last))}{meant}"
                )

    def begin(self, header: str = "") -> None:
        """Begin a text: with its header in CSV, or, where that is empty, without one as it comes first.

        Raises ``ValueError`` if the header lacks a column.
        """
        self.header = header
        self._parser = None
        if self._format != "csv" or not header:
            return
        quotes: bool | None = self._params.get("quotes")
        separator = separator_of(header) or ","
        names = names_of(Path(self.name), header, separator, quotes=quotes)
        kinds = text_kinds(Path(self.name), names, self._params["columns"], self._clock, pl.DataFrame())
        quoted = separator != "\t" if quotes is None else quotes
        self._parser = CsvParser(CsvFields(separator, names, kinds, [self._clock], quoted, self._unit))

    def headed_by(self, line: bytes) -> None:
        """Begin a text in CSV whose first line is its header."""
        self.begin(line.removeprefix(BOM).strip(b"\r\n").decode("utf-8", "replace"))

    def take(self, data: bytes, number: int, *, last: bool = False) -> TableOfLines:
        """Return the rows of a piece, whose first line has a ``number``; none are used if no row ends in it.

        ``last``: whether the text ends with the piece. Raises ``ValueError`` if too many lines are malformed.
        """
        if not data:
            return TableOfLines(empty(self._schema), 0, 0)
        if self._format == "csv":
            found = self._of_csv(data, number, last=last)
        else:
            end = len(data) if last else data.rfind(b"\n") + 1
            found = TableOfLines(self._of_lines(data[:end], number), end, data.count(b"\n", 0, end))
        if not found.used and len(data) > LONGEST:
            raise ValueError(f"{self.name}: line {number}: more than {LONGEST >> 20} MB; expected shorter lines")
        self._judge()
        return found

    def of_values(self, values: Iterable[Any], number: int = 1) -> pl.DataFrame:
        """Return the rows of values that JSON has, of which each should be an object; count others as malformed."""
        table = self._of_objects([(number + index, value, None) for index, value in enumerate(values)])
        self._judge()
        return table

    def of_messages(
        self, messages: Sequence[bytes], number_of: Callable[[int], int]
    ) -> tuple[pl.DataFrame, list[int] | None]:
        """Return the rows of messages, each an object in JSON, and the places of those that are not malformed.

        None: none is. ``number_of``: number of the message at a place, by which an error names it.
        """
        if self._objects is None:
            self._objects = _Objects(self._rows)
        table = self._objects.table(messages)
        if table is not None:
            self._tally.add(table.height)
            if self._unseen and messages:
                self._look_for_columns(table, msgspec.json.decode(messages[-1]))
            return table, None
        values: list[Any] = []
        for message in messages:
            try:
                values.append(msgspec.json.decode(message))
            except (msgspec.DecodeError, UnicodeDecodeError):
                values.append(_Unreadable)
        return self.of_records(values, number_of, messages)

    def of_records(
        self, records: Sequence[Any], number_of: Callable[[int], int], texts: Sequence[bytes] = ()
    ) -> tuple[pl.DataFrame, list[int] | None]:
        """Return the rows of values as :meth:`of_messages` does; what is no dictionary is malformed."""
        kept: list[int] = []
        numbers = list(map(number_of, range(len(records))))
        shown: Sequence[bytes | None] = texts or [None] * len(records)
        table = self._of_objects(list(zip(numbers, records, shown, strict=True)), kept)
        self._judge()
        return table, None if len(kept) == len(records) else kept

    def _of_csv(self, data: bytes, number: int, *, last: bool) -> TableOfLines:
        assert self._parser is not None
        tables, used, lines = list[pl.DataFrame](), 0, 0
        while used < len(data):
            block = self._parser.block(data[used:], number + lines, last=last, cut=len(data) - used > LONGEST)
            if not block.used:
                break
            self._tally.add(block.rows, block.malformed, block.doubt)
            used, lines = used + block.used, lines + block.lines
            if block.table.height:
                tables.append(exactly(block.table, self._schema, self._clock))
        return TableOfLines(pl.concat(tables) if tables else empty(self._schema), used, lines)

    def _of_lines(self, data: bytes, number: int) -> pl.DataFrame:
        if self._format != "jsonl":
            return log_block(data, number, self._format, self._tally)
        found: list[tuple[int, Any, bytes | None]] = []
        for index, line in enumerate(data.removeprefix(BOM).split(b"\n")):
            if not line.strip():
                continue
            try:
                found.append((number + index, msgspec.json.decode(line), line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                found.append((number + index, _Unreadable, line))
        return self._of_objects(found)

    def _of_objects(self, found: list[tuple[int, Any, bytes | None]], kept: list[int] | None = None) -> pl.DataFrame:
        """Rows of numbered values, each with its text where there is one; the places of rows go to ``kept``."""
        kept = [] if kept is None else kept
        absent = dict.fromkeys(name for name in self._rows.columns if name != "time")
        good = [{**absent, **value} for _, value, _ in found if isinstance(value, dict)]
        if len(good) == len(found):
            try:
                table = self._rows.of_rows(good)
            except FeedError:
                pass
            else:
                self._tally.add(table.height)
                kept += range(len(found))
                if self._unseen and found:
                    self._look_for_columns(table, found[-1][1])
                return table
        tables: list[pl.DataFrame] = []
        for place, (number, value, text) in enumerate(found):
            try:
                if not isinstance(value, dict):
                    raise FeedError(f"{self.name}: no object; expected {self._expected}")
                tables.append(self._rows.of_rows([{**absent, **value}]))
                self._tally.add(1)
                kept.append(place)
            except FeedError as error:
                seen = value if text is None and isinstance(value, bytes) else text
                shown = repr(value) if seen is None else seen.decode("utf-8", "replace").strip()
                wrong, _, expected = str(error).removeprefix(f"{self.name}: ").partition("; expected ")
                field = wrong.partition("'")[2].partition("'")[0] or "line"
                self._tally.add(1, Malformed(1, 1, number, shown, field, shown, expected))
        return pl.concat(tables) if tables else empty(self._schema)

    def _judge(self) -> None:
        bad = self._tally.malformed
        if bad is None:
            return
        if self._params.get("strict"):
            raise ValueError(f"{self.name}: {bad}")
        part, whole = ratio_of(float(self._params.get("tolerance", 0.01)))
        if bad.count * whole > part * max(bad.rows, _SEVERAL):
            lines = counted(bad.rows, "line", "is", "are")
            share = 100.0 * part / whole
            raise ValueError(
                f"{self.name}: {bad.count:,} of {lines} not of format {self._format!r} (up to {share:g} % are skipped, "
                f"or {_SEVERAL * part // whole} of the first {_SEVERAL}); {bad}"
            )


class _Objects:
    """Converts many messages at once, each an object in JSON, where all of them have rows."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows
        self._columns = {f"column_{place}": name for place, name in enumerate(rows.columns)}
        keys = {field: rows.clock if name == "time" else name for field, name in self._columns.items()}
        kind = msgspec.defstruct("Row", [(field, Any, None) for field in keys], rename=keys, gc=False)
        self._decode = msgspec.json.Decoder(kind).decode

    def table(self, messages: Iterable[bytes]) -> pl.DataFrame | None:
        """Return their rows; None if any is malformed."""
        try:
            found = list(map(self._decode, messages))
            return self._rows.of_values(
                {name: list(map(attrgetter(field), found)) for field, name in self._columns.items()}
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, FeedError):
            return None


class _Unreadable:
    """Stands for a line that is no JSON."""


def tables_of_file(
    path: Path, schema: Mapping[str, str], params: Mapping[str, Any]
) -> Iterator[tuple[pl.DataFrame, SkippedLines | None, tuple[str, ...]]]:
    """Yield the rows of a whole file in blocks, in its order, each with all malformed lines so far, and what is said.

    ``schema``: columns of the stream with their types; ``params``: parameters of the source. Raises ``ValueError`` if
    it cannot be read, is not as declared, or too many lines are malformed.
    """
    if params["format"] == "jsonl":
        lines = LineTables(str(path), schema, params)
        for number, data in whole_lines(path, params.get("encoding") or UTF8):
            yield lines.take(data, number, last=True).table, lines.skipped, lines.said()
        return
    trace, tally = open_trace({**params, "path": path}), Tally()
    for table in trace.rows() if trace.again else trace.judged(tally, bare=True):
        bad = tally.malformed
        yield table, None if bad is None else SkippedLines(str(path), bad.count, str(bad), tally.doubt), ()
