"""A disk of which a test chooses the step after which nothing happens any more, or that fails."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.sinks.protocol import SinkWriter
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, conform
from synergy_nb.durable.disk import Disk

COLUMNS: Final[Mapping[str, str]] = {"time": "time", "v": "int", "text": "str"}
#: Steps of a writer: each may be the last one.
STEPS: Final = ("make_folder", "lock", "write", "truncate", "sync", "rename", "remove", "sync_folder")


class Killed(BaseException):
    """Stands for the end of the process: nothing handles it."""


def end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raise_killed() -> None:
    raise Killed


class BrokenDisk(Disk):
    """A disk that does so many steps.

    ``halves``: whether of the next step, if it writes, a half is done.
    """

    def __init__(self, steps: int, end: Callable[[], None] = raise_killed, *, halves: bool = False) -> None:
        self.left = steps
        self.done: list[str] = []
        self._end = end
        self._halves = halves

    def do(self, name: str, *arguments: Any) -> Any:
        if self.left <= 0:
            if self._halves and name == "write":
                opened, data, offset = arguments
                Disk.write(self, opened, memoryview(data)[: len(data) // 2], offset)
            self._end()
        self.left -= 1
        self.done.append(name)
        # the end of a process takes nothing of what it wrote: the disk need not be waited for
        return None if name in {"sync", "sync_folder"} else getattr(Disk, name)(self, *arguments)


def _add_step(name: str) -> None:
    def step(self: BrokenDisk, *arguments: Any) -> Any:
        return self.do(name, *arguments)

    setattr(BrokenDisk, name, step)


for _name in STEPS:
    _add_step(_name)


class FailingDisk(Disk):
    """A disk whose steps of a name fail so often with an error."""

    def __init__(self, step: str, error: OSError, times: int) -> None:
        self.times = times
        self._failing, self._error = step, error

    def _fail(self, name: str) -> None:
        if name == self._failing and self.times:
            self.times -= 1
            raise self._error

    def lock(self, *arguments: Any, **options: Any) -> int:
        self._fail("lock")
        return super().lock(*arguments, **options)

    def make_folder(self, path: Path) -> None:
        self._fail("make_folder")
        super().make_folder(path)

    def write(self, *arguments: Any) -> None:
        self._fail("write")
        super().write(*arguments)

    def sync(self, opened: int) -> None:
        self._fail("sync")
        super().sync(opened)


def rows(first: int, last: int) -> pl.DataFrame:
    """Rows of which each tells its position; one a second."""
    numbers = list(range(first, last))
    columns = {"time": [1_000_000 * each for each in numbers], "v": numbers, "text": [f"{each},\n" for each in numbers]}
    return conform(pl.DataFrame(columns).with_columns(pl.col("time").cast(pl.Datetime("us"))), COLUMNS)


def stream(sizes: Sequence[int], *, ends: bool = True) -> list[Chunk]:
    """A stream of batches of these sizes."""
    items: list[Item] = []
    at = 0
    for size in sizes:
        items.append(Batch(rows(at, at + size), at, 0.0))
        at += size
    if ends:
        items.append(Punctuation(END, at, 0.0))
    return chunks_of(items, ORIGIN)


def written(to: Mapping[str, Any], chunks: Sequence[Chunk], disk: Disk | None = None, name: str = "stream") -> int:
    """Write a stream with a commit after each chunk, as a new process does; return the number of rows it skipped.

    Without a ``disk``, on one whose every step is done and which, as that of a process that is killed, is not waited
    for.
    """
    writer = writer_of(to, COLUMNS, name, BrokenDisk(sys.maxsize) if disk is None else disk)
    reader = SinkReader(writer, "it", every=0.0)
    try:
        reader.open(ORIGIN)
        for chunk in chunks:
            reader.write([chunk], 0.0)
            if reader.must_commit(0.0):
                reader.commit()
        return reader.repeated
    finally:
        writer.close()  # as the system does when a process ends


def opened(to: Mapping[str, Any], name: str = "stream") -> SinkWriter:
    return writer_of(to, COLUMNS, name)
