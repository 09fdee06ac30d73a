"""The files of one application on a disk: what is added to them, and what the disk holds of it if the power fails.

A file is made only once the disk holds all that was added to others before: so of the files of a component, the disk
never has a later one without the end of an earlier one (:mod:`.restoring` relies on that).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from synergy_nb.durable.component_files import latest_fences
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.records import mark

__all__ = ["DiskFiles"]

_HOW: Final = os.O_RDWR | os.O_CLOEXEC


class DiskFiles:
    """The files of one application, in a folder that is there as long as the application has not ended."""

    def __init__(self, folder: Path, disk: Disk, checkpoints: Path | None = None) -> None:
        self.folder = folder
        self._checkpoints = checkpoints  # folder in which Spark keeps states of components; None: there is none
        self._held: set[tuple[str, int]] = set()  # path and number of each file of it that the disk holds
        self._disk = disk
        self._added: dict[str, None] = {}  # files with something that the disk may not hold
        self._made = False  # whether there are new ones among them
        # error after which nobody knows what the disk holds: the system may have given up what it did not take
        self._doubt: OSError | None = None

    def names(self) -> list[str]:
        """Return the names of the files of components."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(each.name for each in self.folder.iterdir() if "@" in each.name)
        return []

    def read(self, name: str) -> bytes:
        """Return what a file contains."""
        return (self.folder / name).read_bytes()

    def append(self, name: str, data: bytes) -> None:
        """Add bytes to the end of a file, all or none of them.

        Raises ``FileNotFoundError`` if the application has ended; ``OSError`` if the disk does not take them.
        """
        path = self.folder / name
        if not path.exists() or not path.stat().st_size:  # an empty one is of a try that the disk did not take
            self.sync()
            self._made = True
        self._added[name] = None
        opened = os.open(self.folder / name, _HOW | os.O_CREAT, 0o600)
        try:
            self._add(opened, data)
        finally:
            os.close(opened)

    def _add(self, opened: int, data: bytes) -> None:
        size = os.fstat(opened).st_size
        try:
            self._disk.write(opened, data if size else mark(0) + data, size)
        except OSError:
            self._disk.truncate(opened, size)
            raise

    def sync(self) -> None:
        """Have the disk hold all that was added, and say so in the files.

        Raises ``FileNotFoundError`` if the application has ended; ``OSError`` if the disk may not hold it, and from
        then on always: what the system has given up cannot be asked for again.
        """
        if self._doubt is not None:
            raise self._doubt
        try:
            if self._made:
                self._disk.sync_folder(self.folder)
            for name in self._added:
                self._hold(name)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._doubt = error
            raise
        self._made = False
        self._added.clear()

    def sync_checkpoints(self) -> None:
        """Have the disk hold what Spark has written; it replaces files as a whole, and asks the disk to hold none.

        Raises ``OSError`` as :meth:`sync` does.
        """
        if self._doubt is not None:
            raise self._doubt
        found: set[tuple[str, int]] = set()
        try:
            if self._checkpoints is not None and self._checkpoints.is_dir():
                self._sync_tree(self._checkpoints, found)
                if not self._held:
                    self._disk.sync_folder(self.folder)
        except OSError as error:
            self._doubt = error
            raise
        self._held = found

    def _sync_tree(self, folder: Path, found: set[tuple[str, int]]) -> None:
        """Have the disk hold the files below a folder that are new; those that go meanwhile are not needed."""
        is_new = False
        try:
            with os.scandir(folder) as found_here:
                entries = sorted(found_here, key=lambda each: each.name)
        except FileNotFoundError:
            return
        for each in entries:
            key = each.path, each.inode()
            found.add(key)
            new, is_folder = key not in self._held, each.is_dir(follow_symlinks=False)
            is_new = is_new or new
            if is_folder:
                self._sync_tree(Path(each.path), found)
            elif new:
                with contextlib.suppress(FileNotFoundError):
                    opened = os.open(each.path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        self._disk.sync(opened)
                    finally:
                        os.close(opened)
        if is_new:
            with contextlib.suppress(FileNotFoundError):
                self._disk.sync_folder(folder)

    def _hold(self, name: str) -> None:
        try:
            opened = os.open(self.folder / name, _HOW)
        except FileNotFoundError:
            if self.folder.exists():  # the peer that executes the component now has removed it
                return
            raise
        try:
            self._disk.sync(opened)
            size = os.fstat(opened).st_size
            with contextlib.suppress(OSError):  # on a full disk: without it, damage there is not told from a lost end
                self._add(opened, mark(size) if size else b"")
        finally:
            os.close(opened)

    def close_off(self, name: str, end: int) -> None:
        """Cut off what is behind the whole records of a file, and have the disk hold them and a mark that says so."""
        opened = os.open(self.folder / name, _HOW)
        try:
            self._disk.truncate(opened, end)
            self._disk.write(opened, mark(end), end)
            self._disk.sync(opened)
        finally:
            os.close(opened)

    def fences(self) -> dict[str, int]:
        """Return each component that has fences with the latest epoch of one."""
        return latest_fences(self.names())

    def remove(self, *names: str) -> None:
        """Remove files, if they are there."""
        for name in names:
            self._disk.remove(self.folder / name)
