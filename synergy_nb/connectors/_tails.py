"""A text file that grows: its lines as they are written, over rotations.

Theory of operation
-------------------
The position is the file's number in its file system (inode), the byte after the last line that was read, the number of
the next line, and the header of a CSV. A file that is renamed keeps its number, so it is found again under its new
name. When another file is at the path, the old one is read to its end, then those that were written after it and
renamed as well, oldest first, then the one at the path. A file that has become shorter was emptied: it is read from
its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final

from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.traces.line_tables import LineTables

READ: Final = 1 << 20  # bytes that are read at a time
PACKED: Final = (".gz", ".bz2", ".xz", ".zst")  # endings of files that were packed after they were renamed
LONGEST_HEADER: Final = 1 << 20  # bytes within which the first line of a CSV ends


class TailSource(Source):
    """The lines of a file as they are written to it."""

    repeats: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._path = Path(params["path"])
        self._lines = LineTables(str(self._path), schema, params)
        self._file: BinaryIO | None = None
        self._number = 0  # inode of the file
        self._offset = 0  # bytes of it before the next line
        self._line = 1  # number of that line
        self._rest = b""  # what was read after that offset
        self._said: list[str] = []

    def open(self, position: Any) -> None:
        """Open the file that a position names, under whatever name it has now, or else the one at the path."""
        if position is None:
            self._begin(self._path)
            return
        number, offset, line, header = position
        for path in self._family():
            if _number_of(path) != number:
                continue
            self._begin(path)
            if offset > self._size():
                self._emptied(offset)
                return
            self._go_to(offset, line, header)
            return
        self._begin(self._path)
        self._said.append(
            f"the file that it was reading, up to byte {offset}, is not there any more, under any name beginning with "
            f"{self._path.name}: what was written to it later is lost; it reads {self._path} from its beginning"
        )

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows of the lines that have been written since, or nothing yet."""
        try:
            found = self._next()
        except OSError as error:
            raise BrokenForNow(f"{self._path}: cannot be read: {error.strerror or error}") from None
        said, self._said = (*self._said, *self._lines.said()), []
        if found is None and not said:
            return None
        rows = () if found is None else found
        return Polled(rows, self._position, said=said, skipped=self._lines.skipped)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._rest = b""

    @property
    def _position(self) -> list[Any]:
        return [self._number, self._offset, self._line, self._lines.header]

    def _next(self) -> Any:
        """Rows of what can be read now; None if that is nothing."""
        assert self._file is not None
        rotated = not self._is_current()  # before it is read: what is written to it later is written elsewhere
        if self._size() < self._offset:
            self._emptied(self._offset)
        self._file.seek(self._offset + len(self._rest))
        piece = self._file.read(READ)
        self._rest += piece
        last = rotated and not piece
        if self._lines.needs_header and not self._read_header(last=last):
            return self._follow() if last else None
        taken = self._lines.take(self._rest, self._line, last=last)
        self._go_to(self._offset + taken.used, self._line + taken.lines, self._lines.header, self._rest[taken.used :])
        if last and not taken.used:
            return self._follow()
        return taken.table if taken.used or piece else None

    def _read_header(self, *, last: bool) -> bool:
        """Read the first line of a CSV; return whether it is there."""
        end = self._rest.find(b"\n") + 1
        if not end and not (last and self._rest):
            if len(self._rest) > LONGEST_HEADER:
                raise ValueError(f"{self._path}: line 1: more than {LONGEST_HEADER >> 20} MB; expected a header")
            return False
        end = end or len(self._rest)
        self._lines.headed_by(self._rest[:end])
        self._offset, self._line, self._rest = end, 2, self._rest[end:]
        return True

    def _follow(self) -> Any:
        """Go on with the file that was written after the present one; return no rows."""
        assert self._file is not None
        own = os.fstat(self._file.fileno())
        later: list[tuple[int, Path]] = []
        for each in self._family():
            found = each.stat()
            if each != self._path and found.st_ino != own.st_ino and each.suffix not in PACKED:
                later += [(found.st_mtime_ns, each)] if found.st_mtime_ns > own.st_mtime_ns else []
        following = min(later, default=(0, self._path))[1]
        self.close()
        self._begin(following)
        return ()

    def _is_current(self) -> bool:
        """Whether the file that is open is the one at the path, or there is none."""
        found = _number_of(self._path)
        return found in (self._number, None)

    def _size(self) -> int:
        assert self._file is not None
        return os.fstat(self._file.fileno()).st_size

    def _emptied(self, offset: int) -> None:
        self._said.append(
            f"{self._path} has become shorter than the {offset} bytes that were read: it is read from its beginning, "
            "and lines that were written before and not read are lost"
        )
        self._go_to(0, 1, "")

    def _begin(self, path: Path) -> None:
        """Open a file at its beginning."""
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            raise BrokenForNow(f"{path}: no such file; expected one that grows") from None
        except IsADirectoryError:
            raise ValueError(
                f"path: {str(path)!r}: a folder; expected a file that grows, or connector directory"
            ) from None
        except OSError as error:
            raise BrokenForNow(f"{path}: cannot be opened: {error.strerror}") from None
        self._number = os.fstat(self._file.fileno()).st_ino
        self._go_to(0, 1, "")

    def _go_to(self, offset: int, line: int, header: str, rest: bytes = b"") -> None:
        """Go on at a byte of the file, where a line of this number begins."""
        self._offset, self._line, self._rest = offset, line, rest
        if header != self._lines.header:
            self._lines.begin(header)

    def _family(self) -> list[Path]:
        """The file at the path, and those that were there before, under the names that they have now; no links."""
        try:
            found = [each for each in self._path.parent.iterdir() if each.name.startswith(self._path.name)]
        except OSError as error:
            raise BrokenForNow(f"{self._path.parent}: cannot be listed: {error.strerror}") from None
        files = [each for each in found if each == self._path or (each.is_file() and not each.is_symlink())]
        return sorted(files, key=lambda each: (each != self._path, each.name))


def _number_of(path: Path) -> int | None:
    """Number of a file in its file system; None if there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None
