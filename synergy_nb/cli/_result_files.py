"""Files of results, for ``synergy run --out``: Parquet, CSV or JSON lines, written while the results arrive.

Rows are written to a new file beside the one that was asked for, with ``.part`` after its name, which takes the place
of it when all rows are in it. So the file itself is complete at any time, or is still the one of before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import polars as pl

from synergy_nb.dataflow.tuples import empty
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import did_you_mean

FORMATS: Final = (".parquet", ".csv", ".jsonl", ".ndjson")
GROUP_ROWS: Final = 100_000  # rows that are written to a file together, at most
GROUP_BYTES: Final = 16 << 20


def chosen_files(given: Sequence[str], plan: Plan) -> dict[str, Path]:
    """Return the file of each sink, from texts ``FILE`` or, if there are several sinks, ``SINK=FILE``.

    Raises ``ValueError`` if a text names no sink, or has another suffix than :data:`FORMATS`, or a sink or file is
    named twice.
    """
    files: dict[str, Path] = {}
    for text in given:
        sink, equals, file = text.partition("=")
        if not (equals and sink in plan.sinks):
            if len(plan.sinks) > 1:
                raise ValueError(f"{text!r}; expected SINK=FILE with one of the sinks {', '.join(plan.sinks)}")
            sink, file = plan.sinks[0], text
        path = Path(file)
        if path.suffix.lower() not in FORMATS:
            expected = f"a file {', '.join(f'NAME{each}' for each in FORMATS[:-1])} or NAME{FORMATS[-1]}"
            raise ValueError(f"{text!r}; expected {expected}{did_you_mean(path.suffix, FORMATS)}")
        if sink in files:
            raise ValueError(f"{text!r}; expected one file for each sink, and {sink} has {str(files[sink])!r} already")
        if path.absolute() in {each.absolute() for each in files.values()}:
            raise ValueError(f"{text!r}; expected another file than that of another sink")
        files[sink] = path
    return files


class ResultFile:
    """A file of the results of a sink.

    ``schema``: column to type of the results.

    Raises ``OSError`` if it cannot be written.
    """

    def __init__(self, path: Path, schema: Mapping[str, str]) -> None:
        self.path = path  # file to write
        self.part = path.with_name(f"{path.name}.part")  # file that holds the rows until `close`
        self.rows = 0  # number of rows that were written to it
        self.complete = False  # whether it has its name
        self._empty = empty(schema)
        self._waiting: list[pl.DataFrame] = []
        self._size = 0.0
        self._file: IO[bytes] = self.part.open("wb")
        self._parquet: Any = None
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet

            self._parquet = parquet.ParquetWriter(self._file, self._empty.to_arrow().schema)
        elif path.suffix.lower() == ".csv":
            self._file.write(_as_text(self._empty).write_csv().encode())

    def add(self, table: pl.DataFrame) -> None:
        """Add rows."""
        self._waiting.append(table)
        self._size += table.estimated_size()
        if self._size >= GROUP_BYTES or sum(each.height for each in self._waiting) >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0.0
        if not waiting:
            return
        table = pl.concat([self._empty, *waiting])
        if self._parquet is not None:
            self._parquet.write_table(table.to_arrow())
        elif self.path.suffix.lower() == ".csv":
            self._file.write(_as_text(table).write_csv(include_header=False).encode())
        else:
            self._file.write(_as_text(table).write_ndjson().encode())
        self._file.flush()
        self.rows += table.height

    def close(self, *, complete: bool) -> None:
        """Write what waits; if the rows are ``complete``, give the file its name."""
        try:
            self._write()
            if self._parquet is not None:
                self._parquet.close()
        finally:
            self._file.close()
        if complete:
            self.part.replace(self.path)
        self.complete = complete

    def abandon(self) -> None:
        """Close the file after an error, and remove it if it has no rows."""
        with contextlib.suppress(OSError):
            self.close(complete=False)
        if not self.rows:
            self.part.unlink(missing_ok=True)


def _as_text(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with times and bytes as text, as the command prints them."""
    return table.with_columns(
        pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f"), pl.col(pl.Binary).bin.encode("hex")
    )
