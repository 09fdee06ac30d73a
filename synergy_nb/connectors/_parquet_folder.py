"""A folder of Parquet files as the destination of a stream.

Theory of operation
-------------------
A commit writes its rows to one file, or to one file for each period of event time that they belong to. A file has
``synergy`` in the metadata of its footer: the stream, the positions of the commit, and the number of its files. It is
written under a name that readers of such folders pass over, and gets its own name once the disk holds it. So a file
that is there is whole. A commit counts once all of its files are there: what a commit has left that does not count is
removed when the folder is opened, and written again.

The positions are in the names of files, too, so that only the footer of the last commits need to be read.

The writer before may have ended before the disk held what it named or removed last. So a folder that is opened has the
disk hold its names before it says how far it has the stream: the peers forget what it has.

The folder is locked while a writer has it open; the lock ends with the process.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from synergy_nb.connectors._disk_errors import explained
from synergy_nb.dataflow.sinks.buffering import BufferedWriter, one_table
from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import END, EPOCH, Batch
from synergy_nb.durable.disk import Disk
from synergy_nb.plan.operators.destinations import PERIOD

__all__ = ["ParquetFolder"]

_KEY: Final = b"synergy"
_VERSION: Final = 1
_NAME: Final = re.compile(r"rows-(\d{15})-(\d{15})\.parquet")
_DAY: Final = 86_400.0


class _File(NamedTuple):
    """A file of the folder, by its name."""

    # first, last: positions of the first row of its commit, and after the last one
    first: int
    last: int
    path: Path


class ParquetFolder(BufferedWriter):
    """Writes a stream to a folder of Parquet files."""

    def __init__(
        self,
        path: str,
        columns: Mapping[str, str],  # columns of the stream, with their types
        # what the rows are, and what those before them may be: rows of other streams are not mixed with them
        streams: Sequence[str],
        partition: float | None = None,  # length of a period, seconds; None: rows of all times are together
        disk: Disk | None = None,
    ) -> None:
        super().__init__()
        self._path = Path(path)
        self._columns = columns
        self._stream = streams[0]
        self._streams = streams
        self._partition = partition
        self._disk = Disk() if disk is None else disk
        self._opened: int | None = None  # the folder, which is locked
        self._committed: Point | None = None

    def _begin(self) -> Point | None:
        """Return how far the folder has the stream, and remove what does not count."""
        with explained(self._path):
            self._disk.make_folder(self._path)
            self._opened = self._disk.lock(self._path, os.O_RDONLY | os.O_DIRECTORY)
            self._committed = self._found()
        return self._committed

    def _found(self) -> Point | None:
        """Return the point where the last commit ended that counts; remove the files of others."""
        files, found = sorted(self._files()), None
        changed = {each.path.parent for each in files if each[:2] == files[-1][:2]}
        while files:
            *rest, last = files
            commit = [each for each in files if each[:2] == last[:2]]
            known = [self._footer(each.path) for each in commit]
            if all(len(commit) == each["files"] for each in known):
                found = Point(last.last, known[0]["until"])
                break
            for each in commit:
                self._disk.remove(each.path)
            files = [each for each in rest if each not in commit]
            changed |= {each.path.parent for each in files if each[:2] == files[-1][:2]}
        for folder in sorted(changed):
            self._disk.sync_folder(folder)
        if files:
            self._footer(files[0].path)
        return found

    def _files(self) -> Iterator[_File]:
        """Yield the files of commits; remove those that were being written.

        Raises ``SinkFailed`` if there is anything else.
        """
        for path in sorted(self._path.rglob("*")):
            if path.is_dir():
                continue
            named = _NAME.fullmatch(path.name)
            folders = path.relative_to(self._path).parts[:-1]
            known = not folders or (len(folders) == 1 and folders[0].startswith(f"{PERIOD}="))
            if known and path.name.startswith(".rows-"):
                self._disk.remove(path)
            elif known and named is not None:
                yield _File(int(named[1]), int(named[2]), path)
            else:
                raise SinkFailed(
                    f"{str(self._path)!r}: it has {str(path.relative_to(self._path))!r}; expected a folder of its own, "
                    "which is empty or has rows of this stream"
                )

    def _footer(self, path: Path) -> dict[str, Any]:
        """Return what the footer of a file says of its commit.

        Raises ``SinkFailed`` if it is damaged, or has rows of another stream.
        """
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only peers with such sinks need it

        try:
            metadata = parquet.read_metadata(path).metadata or {}
            found = json.loads(metadata.get(_KEY, b"{}"))
        except (ArrowException, ValueError) as error:
            raise SinkFailed(f"{str(path)!r}: {error}; expected a Parquet file of this stream") from None
        if found.get("version") != _VERSION:
            said = found.get("version", "no position of a stream")
            raise SinkFailed(f"{str(path)!r}: {said}; expected a file of format {_VERSION}, by a sink of such a plan")
        if found["stream"] not in self._streams:
            raise SinkFailed(
                f"{str(self._path)!r}: it has rows of {found['stream']}; expected rows of {self._stream}, or an empty "
                "folder"
            )
        return dict(found)

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Write rows to files, and give these their names."""
        begins = 0 if self._committed is None else self._committed.position
        # an empty stream has one file, with its columns
        if not batches and not (self._committed is None and point.until == END):
            return
        table = one_table(batches, self._columns)
        with explained(self._path):
            if self._opened is None or not self._disk.is_at(self._opened, self._path):
                raise SinkFailed(f"{str(self._path)!r}: it was removed while it was written; expected that it stays")
            parts = self._parts(table)
            footer = {
                "version": _VERSION,
                "stream": self._stream,
                "first": begins,
                "last": point.position,
                "until": point.until,
                "files": len(parts),
            }
            names = []
            for folder, rows in parts.items():
                self._disk.make_folder(folder)
                name = f"rows-{begins:015d}-{point.position:015d}.parquet"
                self._disk.create(folder / f".{name}.part", _encoded(rows, footer))
                names.append((folder, name))
            for folder, name in names:
                self._disk.rename(folder / f".{name}.part", folder / name)
            for folder, _ in names:
                self._disk.sync_folder(folder)
        self._committed = point

    def _parts(self, table: pl.DataFrame) -> dict[Path, pl.DataFrame]:
        """Return the folder of each part of the rows."""
        if self._partition is None or not table.height:
            return {self._path: table}
        length = round(self._partition * 1e6)
        # floor division, so that times before 1970 are in periods of the same length
        keyed = table.with_columns((pl.col("time").to_physical() // length).alias(PERIOD))
        parts = keyed.partition_by(PERIOD, maintain_order=True, include_key=True)
        return {self._folder(each.item(0, PERIOD) * length): each.drop(PERIOD) for each in parts}

    def _folder(self, begins: int) -> Path:
        """Return the folder of the period that begins so many microseconds after 1970."""
        assert self._partition is not None
        at = EPOCH + dt.timedelta(microseconds=begins)
        text = at.date().isoformat() if self._partition >= _DAY else at.isoformat(timespec="seconds").replace(":", "-")
        return self._path / f"{PERIOD}={text}"

    def _release(self) -> None:
        """Let go of the folder."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            os.close(opened)


def _encoded(table: pl.DataFrame, footer: Mapping[str, Any]) -> memoryview:
    """Return the bytes of a Parquet file."""
    from pyarrow import parquet  # noqa: PLC0415 - only peers with such sinks need it

    rows = table.to_arrow()
    metadata = {**(rows.schema.metadata or {}), _KEY: json.dumps(footer).encode()}
    file = io.BytesIO()
    with parquet.ParquetWriter(file, rows.schema.with_metadata(metadata)) as writer:
        writer.write_table(rows)
    return file.getbuffer()
