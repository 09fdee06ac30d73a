"""The files of a folder, one after another, as they come.

Theory of operation
-------------------
Files are read in the order of their names, or of the times of their last change, one whole before the next. The
position is the key of a file in that order and the number of its rows that were given, or None if these are all. Which
file is next is decided, and said by a position without rows, before the first row of it is given: so a successor that
sees more files reads the same one. A file that comes behind one that has been read is left out, and the journal says
so: to read it would need a list of all files that there ever were.

Of several readers each has the files whose names have its remainder, by a checksum of the name.

In a folder to which a streaming query of Spark writes, only what it has committed is there, in the order of its commits
(:mod:`synergy_nb.connectors._spark_commits`).
"""

from __future__ import annotations

import fnmatch
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import polars as pl

from synergy_nb.connectors._spark_commits import LOG, CommittedFiles
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.events import SkippedLines
from synergy_nb.plan.terms.units import counted
from synergy_nb.traces.line_tables import tables_of_file

MOST_ROWS: Final = 65_536  # rows that are given at a time
_SHOWN: Final = 3  # files that a sentence names


class DirectorySource(Source):
    """The rows of the files of a folder whose names fit a pattern."""

    repeats: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        whole = Path(params["path"])
        self._folder, self._pattern = whole.parent, whole.name
        self._committed = CommittedFiles(self._folder)
        self._params = params
        self._schema = schema
        self._by_time = params.get("order") == "time"
        self._ends = bool(params.get("ends"))
        self._key: list[Any] | None = (
            None  # place of the present file in the order, or of the last one; its name is last
        )
        self._given = 0  # rows of it that were given
        self._tables: Iterator[pl.DataFrame] | None = None  # the rest of it; None: it has been read
        self._settled: set[tuple[Any, ...]] = set()  # keys of files that are not to be read any more
        self._skipped: SkippedLines | None = None  # malformed lines of all files
        self._before = 0  # those of earlier files
        self._said: list[str] = []
        self._has_said = False
        self._reader, self._readers = 0, 1

    def split(self, reader: int, readers: int) -> None:
        """Read the files of one reader: a file has the same reader, by its name, whatever files come later."""
        self._reader, self._readers = reader, readers

    def open(self, position: Any) -> None:
        """Go on within the file of a position, or behind it."""
        self._key, self._tables, self._given = None, None, 0
        self._settled.clear()
        self._committed = CommittedFiles(self._folder)
        found = self._found()
        if position is None:
            return
        key, given = position
        self._key = [self._committed.number_of(key[-1]), key[-1]] if self._committed.keys else key
        if found and len(found[0]) != len(self._key):
            expected = f"what Spark has committed to it, up to {key[-1]!r}, as before"
            raise ValueError(f"path: {str(self._folder)!r}: files without {LOG}; expected {expected}")
        self._settled.update(tuple(key) for key in found if key <= self._key)
        if given is not None:
            self._begin(given)

    def poll(self, seconds: float) -> Polled | None:
        """Return the next rows, all of one file; or that another file was begun or has ended."""
        if self._tables is None:
            said, begun = self._choose()
            ends = self._ends and not begun
            return Polled(position=self._position, ends=ends, said=said) if said or begun or ends else None
        table = next(self._tables, None)
        if table is None:
            self._tables = None
            return Polled(position=self._position, skipped=self._skipped)
        self._given += table.height
        said, self._said = tuple(self._said), []
        return Polled(table, self._position, said=said, skipped=self._skipped)

    def close(self) -> None:
        """Close the present file."""
        self._tables = None

    @property
    def _position(self) -> Any:
        return None if self._key is None else [self._key, None if self._tables is None else self._given]

    def _found(self) -> list[list[Any]]:
        """Keys of the files that are there, in their order; one without content is not there yet."""
        found: list[list[Any]] = []
        try:
            if self._committed.refresh():
                return [key for key in self._committed.keys if self._fits(str(key[-1]))]
            with os.scandir(self._folder) as entries:
                for each in entries:
                    if self._fits(each.name) and each.is_file(follow_symlinks=False):
                        status = each.stat()
                        key = [status.st_mtime_ns, each.name] if self._by_time else [each.name]
                        found += [key] if status.st_size else []
        except FileNotFoundError:
            expected = "a folder whose files are read"
            raise ValueError(f"path: {str(self._folder)!r}: no such folder; expected {expected}") from None
        except OSError as error:
            raise BrokenForNow(f"{self._folder}: cannot be listed: {error.strerror}") from None
        return sorted(found)

    def _fits(self, name: str) -> bool:
        """Whether a file of this name is to be read, by this reader."""
        hidden = name.startswith(".") and not self._pattern.startswith(".")  # it is being written
        fits = fnmatch.fnmatchcase(name, self._pattern) and not hidden
        return fits and zlib.crc32(name.encode()) % self._readers == self._reader

    def _choose(self) -> tuple[tuple[str, ...], bool]:
        """Begin the next file; return a sentence about those that have come too late, and whether there is one."""
        keys = [key for key in self._found() if tuple(key) not in self._settled]
        late = [key for key in keys if self._key is not None and key <= self._key]
        following = next((key for key in keys if self._key is None or key > self._key), None)
        self._settled.update(map(tuple, late))
        said = (_late([key[-1] for key in late], self._key[-1]),) if late and self._key is not None else ()
        if following is not None:
            self._settled.add(tuple(following))
            self._key, self._before = following, 0 if self._skipped is None else self._skipped.count
            self._begin(0)
        return said, following is not None

    def _begin(self, given: int) -> None:
        """Read the present file, of which so many rows were given before."""
        assert self._key is not None
        self._given = given
        path = self._folder / str(self._key[-1])
        if path.is_symlink():  # it may lead out of the folder
            raise ValueError(f"path: {str(path)!r}: a symbolic link; expected a file")
        self._tables = self._rest(path, given)

    def _rest(self, path: Path, given: int) -> Iterator[pl.DataFrame]:
        for table, skipped, said in tables_of_file(path, self._schema, self._params):
            if not self._has_said:  # what is said of one file holds for the others
                self._said, self._has_said = [*said], bool(said)
            if skipped is not None:
                first = skipped if self._skipped is None else self._skipped
                self._skipped = SkippedLines(first.path, self._before + skipped.count, first.first, first.doubt)
            fresh = table.slice(given) if given < table.height else table.clear()
            given = max(given - table.height, 0)
            yield from fresh.iter_slices(MOST_ROWS) if fresh.height else ()


def _late(names: list[str], read: str) -> str:
    """Sentence about files that came too late; ``read``: name of the last file that was read."""
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return (
        f"{counted(len(names), 'file', 'is', 'are')} left out ({shown}): {read}, which is later in the order, was read"
    )
