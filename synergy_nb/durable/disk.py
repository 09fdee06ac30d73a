"""What is done with files that have to outlast a process and a power failure, one step at a time.

Each method but :meth:`Disk.make_folder`, :meth:`Disk.create` and :meth:`Disk.replace`, which are made of the others, is
one step: a test ends the process before or after any of them, or has it fail, and so knows each state in which files
may be found.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

__all__ = ["Disk"]


class Disk:
    """The steps of whoever writes such files. All of them raise ``OSError`` if the system refuses."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, unless they are there, and have the disk hold all of them."""
        if path.is_dir():
            # it may be of a process that ended before the disk held it; those above it were held before it was made
            with contextlib.suppress(PermissionError):  # a folder that this one cannot read is not of its making
                self.sync_folder(path.parent)
            return
        if path.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        self.make_folder(path.parent)
        path.mkdir(exist_ok=True)
        self.sync_folder(path.parent)

    def lock(self, path: Path, flags: int, *, shared: bool = False, mode: int = 0o666) -> int:
        """Open a file or a folder for this process alone, until it is closed or the process ends.

        ``shared``: other processes may have it that have opened it so, too.

        Raises ``BlockingIOError`` if another process has it, ``OSError`` where the system has no locks of files.
        """
        try:
            import fcntl  # noqa: PLC0415 - Windows has none
        except ModuleNotFoundError:
            raise OSError(errno.ENOTSUP, "this system has no locks of files", str(path)) from None
        opened = os.open(path, flags | os.O_CLOEXEC, mode)
        try:
            fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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

    def create(self, path: Path, data: bytes | memoryview, mode: int = 0o666) -> None:
        """Write a new file, and have the disk hold it."""
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            self.write(opened, data, 0)
            self.sync(opened)
        finally:
            os.close(opened)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file a name, in place of the file that has it."""
        path.replace(to)

    def replace(self, path: Path, data: bytes | memoryview, mode: int = 0o666) -> None:
        """Write a file as a whole: whoever reads it finds the one before or this one, which the disk then holds."""
        beside = path.with_name(f".{path.name}")
        self.create(beside, data, mode)
        self.rename(beside, path)
        self.sync_folder(path.parent)

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
