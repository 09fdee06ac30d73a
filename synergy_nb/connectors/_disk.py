"""What writers do with files, one step at a time, and what the errors of the system mean to a sink.

Each method is one step: a test ends the process before or after any of them, or has it fail, and so knows each state
in which a destination may be found.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable

__all__ = ["Disk", "explained"]

#: Errors after which nobody could write, however long they wait.
_FOR_GOOD: Final = {
    errno.EACCES: "a place where this peer may write",
    errno.EPERM: "a place where this peer may write",
    errno.EROFS: "a place where this peer may write",
    errno.ENOTDIR: "a path whose folders are folders",
    errno.EISDIR: "the path of a file",
    errno.EEXIST: "the path of a folder",
    errno.ENAMETOOLONG: "a shorter path",
    errno.ELOOP: "a path without links in a circle",
}


class Disk:
    """The steps of a writer."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, unless they are there, and have the disk hold all of them."""
        if path.is_dir():
            # it may be of a process that ended before the disk held it; those above it were held before it was made
            with contextlib.suppress(PermissionError):  # a folder that this one cannot read is not of its making
                self.sync_folder(path.parent)
            return
        self.make_folder(path.parent)
        path.mkdir(exist_ok=True)
        self.sync_folder(path.parent)

    def lock(self, path: Path, flags: int) -> int:
        """Open a file or a folder for this process alone, until it is closed or the process ends.

        Raises ``BlockingIOError`` if another process has it, ``SinkFailed`` where the system has no locks of files.
        """
        try:
            import fcntl  # noqa: PLC0415 - Windows has none
        except ModuleNotFoundError:
            raise SinkFailed(f"{path}: this system has no locks of files; expected Linux or macOS") from None
        opened = os.open(path, flags | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(opened)
            raise
        return opened

    def write(self, opened: int, data: bytes | memoryview, offset: int) -> None:
        """Write bytes at a place of an open file."""
        left = memoryview(data)
        while left:
            done = os.pwrite(opened, left, offset)
            left, offset = left[done:], offset + done

    def truncate(self, opened: int, size: int) -> None:
        """Cut an open file off."""
        os.ftruncate(opened, size)

    def sync(self, opened: int) -> None:
        """Have the disk hold what was written to an open file."""
        os.fsync(opened)

    def create(self, path: Path, data: bytes | memoryview) -> None:
        """Write a new file, and have the disk hold it."""
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            self.write(opened, data, 0)
            self.sync(opened)
        finally:
            os.close(opened)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file a name, in place of the file that has it."""
        path.replace(to)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Have the disk hold the names in a folder."""
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def is_at(self, opened: int, path: Path) -> bool:
        """Whether an open file or folder still has this path."""
        try:
            here, there = os.fstat(opened), path.stat()
        except FileNotFoundError:
            return False
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what an error of the system means to the sink that writes to a path."""
    try:
        yield
    except (SinkFailed, SinkUnavailable):
        raise
    except BlockingIOError:
        raise SinkUnavailable(f"{str(path)!r}: another process writes to it") from None
    except OSError as error:
        said = f"{str(path)!r}: {error.strerror or error}"
        expected = _FOR_GOOD.get(error.errno or 0)
        if expected is not None:
            raise SinkFailed(f"{said}; expected {expected}") from None
        raise SinkUnavailable(said) from None
