"""A CSV file, or a file of JSON lines, as the destination of a stream.

Theory of operation
-------------------
Rows are appended, and then a small file beside it, with ``.positions`` after its name, is replaced: it says how many
bytes of the file count, and up to which position in the stream. When the file is opened again, what does not count is
cut off, and written again. The file is locked while a writer has it open; the lock ends with the process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from synergy_nb.connectors._disk_errors import explained
from synergy_nb.dataflow.sinks.buffering import BufferedWriter, one_table
from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.durable.disk import Disk

__all__ = ["AppendedFile", "as_text"]

_VERSION: Final = 1


class AppendedFile(BufferedWriter):
    """Writes a stream to a CSV file or to a file of JSON lines."""

    def __init__(
        self,
        path: str,
        columns: Mapping[str, str],  # columns of the stream, with their types
        # what the rows are, and what those before them may be: rows of other streams are not mixed with them
        streams: Sequence[str],
        form: str,  # `csv` or `jsonl`
        disk: Disk | None = None,
    ) -> None:
        super().__init__()
        self._path = Path(path)
        self._positions = self._path.with_name(f"{self._path.name}.positions")
        self._columns = columns
        self._stream = streams[0]
        self._streams = streams
        self._csv = form == "csv"
        self._disk = Disk() if disk is None else disk
        self._opened: int | None = None  # the file, which is locked
        self._size = 0  # bytes of the file that count
        self._committed: Point | None = None

    def _begin(self) -> Point | None:
        """Return how far the file has the stream, and cut off what does not count."""
        with explained(self._path):
            self._disk.make_folder(self._path.parent)
            there = self._path.exists()
            known = self._known()
            if known is not None and known["bytes"] and not there:
                raise SinkFailed(
                    f"{str(self._path)!r}: it is not there, and {self._positions.name!r} beside it is; expected both, "
                    "or none of them"
                )
            self._opened = self._disk.lock(self._path, os.O_RDWR | os.O_CREAT)
            known = self._known()  # as the writer before has left it
            size = os.fstat(self._opened).st_size
            if known is None:
                self._begin_new(size)
                return None
            if size < known["bytes"]:
                raise SinkFailed(
                    f"{str(self._path)!r}: it has {size} bytes; expected at least {known['bytes']}, as "
                    f"{self._positions.name!r} says"
                )
            if size > known["bytes"]:
                self._disk.truncate(self._opened, known["bytes"])
            self._disk.sync_folder(self._path.parent)  # the writer before may have ended before it did
        self._size = known["bytes"]
        self._committed = Point(known["position"], known["until"])
        return self._committed

    def _begin_new(self, size: int) -> None:
        """Begin with an empty file, whose positions are beside it before any byte is in it."""
        if size:
            raise SinkFailed(
                f"{str(self._path)!r}: it has {size} bytes of something else; expected a new file, or one beside which "
                f"{self._positions.name!r} says how far it has the stream"
            )
        self._size, self._committed = 0, None
        self._note(Point(0, ORIGIN.until), 0)
        self._disk.sync_folder(self._path.parent)

    def _known(self) -> dict[str, Any] | None:
        """Return what the positions say; None if there are none."""
        try:
            text = self._positions.read_text()
        except FileNotFoundError:
            return None
        try:
            found = dict(json.loads(text))
            version, stream = found["version"], found["stream"]
        except (KeyError, TypeError, ValueError):
            raise SinkFailed(f"{str(self._positions)!r}: it is damaged; expected positions of a stream") from None
        if version != _VERSION:
            raise SinkFailed(f"{str(self._positions)!r}: format {version}; expected format {_VERSION}")
        if stream not in self._streams:
            raise SinkFailed(
                f"{str(self._path)!r}: it has rows of {stream}; expected rows of {self._stream}, or a new file"
            )
        return found

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Append rows, and then note how far the file has the stream."""
        if not batches and point == self._committed:
            return
        header = self._csv and not self._size
        data = self._encoded(one_table(batches, self._columns), header=header)
        with explained(self._path):
            if self._opened is None or not self._disk.is_at(self._opened, self._path):
                raise SinkFailed(f"{str(self._path)!r}: it was removed while it was written; expected that it stays")
            if data:
                self._disk.write(self._opened, data, self._size)
                self._disk.sync(self._opened)
            self._note(point, self._size + len(data))
        self._size += len(data)
        self._committed = point

    def _note(self, point: Point, size: int) -> None:
        """Replace the positions."""
        found = {"version": _VERSION, "stream": self._stream, "position": point.position, "until": point.until}
        self._disk.replace(self._positions, json.dumps({**found, "bytes": size}).encode())

    def _encoded(self, table: pl.DataFrame, *, header: bool) -> bytes:
        text = as_text(table)
        return (text.write_csv(include_header=header) if self._csv else text.write_ndjson()).encode()

    def _release(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            os.close(opened)


def as_text(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with times and bytes as text, as the command prints them."""
    return table.with_columns(
        pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f"), pl.col(pl.Binary).bin.encode("hex")
    )
