"""Files that programs have results written to: Parquet, CSV or JSON lines, written while the results arrive.

Rows are written beside the file that was asked for, with ``.part`` after its name, as a sink writes to a destination
(:mod:`synergy_nb.dataflow.sinks`): each commit has the position of its rows. So a program that was killed goes on where
it was, if it has the same results at the same positions. When all rows are there, the file gets its name: it is
complete at any time, or is still the one of before. A Parquet file is made of the parts then, one row group after the
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.durable.disk import Disk
from synergy_nb.runtime.client._result_writers import ResultWriter

__all__ = ["FORMATS", "ResultFile"]

FORMATS: Final = (".parquet", ".csv", ".jsonl", ".ndjson")
EVERY_S: Final = 2.0  # longest time for which a row waits for a commit while others follow, seconds


class ResultFile(ResultWriter):
    """A file of the results of a sink.

    ``columns``: column to type of the results; ``stream``: what they are, see
    :func:`synergy_nb.plan.derived.repeatable_results.results_name`; ``begins``: position of the first row that follows;
    ``suffix``: that of the format, if not as the path ends; ``disk``: its steps.
    What an earlier run has written of another stream is discarded.

    Raises ``OSError`` or ``SinkFailed`` if it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, str],
        stream: str,
        begins: int = 0,
        suffix: str = "",
        disk: Disk | None = None,
    ) -> None:
        self.path = path  # file to write
        self.part = path.with_name(f"{path.name}.part")  # where the rows are until `close`
        self.complete = False  # whether it has its name
        if path.is_dir():
            raise SinkFailed(f"{str(path)!r}: it is a folder; expected the path of a file")
        self._disk = Disk() if disk is None else disk
        suffix = suffix or path.suffix.lower()
        self._parquet = suffix == ".parquet"
        form = "parquet" if self._parquet else "csv" if suffix == ".csv" else "jsonl"
        writer = writer_of({"format": form, "path": str(self.part)}, columns, stream, disk)
        super().__init__(writer, repr(str(self.part)), begins, EVERY_S)
        try:
            self.open()
        except SinkFailed:  # rows of an earlier run
            self._reader.close()
            if not self._written_before():
                raise
            self._discard()
            self._open_new()
        self.repeated = self._reader.repeated  # number of rows that an earlier run has written

    def _open_new(self) -> None:
        try:
            self.open()
        except BaseException:
            self._reader.close()
            self._discard()
            raise

    def _finish(self) -> None:
        """Give the rows the name of the file."""
        if self._parquet:
            self._disk.rename(self._merged(), self.path)
        else:
            self._disk.rename(self.part, self.path)
        self._disk.sync_folder(self.path.parent)  # before the parts go
        self._discard()
        self.complete = True

    def _merged(self) -> Path:
        """Make one Parquet file of all parts, which the disk holds, and return it."""
        from pyarrow import parquet  # noqa: PLC0415 - programs that write no such file need it not

        parts = sorted(self.part.glob("*.parquet"))
        new = self.path.with_name(f".{self.path.name}.new")
        with new.open("wb") as file:
            schema = parquet.read_schema(parts[0]).remove_metadata()
            with parquet.ParquetWriter(file, schema) as writer:
                for part in parts:
                    with parquet.ParquetFile(part) as found:
                        for group in range(found.num_row_groups):
                            writer.write_table(found.read_row_group(group).replace_schema_metadata(None))
            file.flush()
            self._disk.sync(file.fileno())
        return new

    def _written_before(self) -> bool:
        """Whether all that is beside the file is what an earlier run has written."""
        if self._parquet:
            return self.part.is_dir() and all(each.name.startswith("rows-") for each in self.part.iterdir())
        return self.part.is_file() and self.part.with_name(f"{self.part.name}.positions").is_file()

    def _discard(self) -> None:
        """Remove what is beside the file."""
        if self.part.is_dir():
            for each in self.part.iterdir():
                self._disk.remove(each)
            self.part.rmdir()
        else:
            self._disk.remove(self.part)
        self._disk.remove(self.part.with_name(f"{self.part.name}.positions"))

    def abandon(self) -> None:
        """Close the file after an error, and remove what is beside it if it has no rows."""
        try:
            self.close(complete=False)
        except (OSError, SinkFailed):  # the error that is being handled says why
            return
        if not self.rows:
            self._discard()
