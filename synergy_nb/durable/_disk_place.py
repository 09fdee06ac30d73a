"""A durable folder that is a folder of the system: on a disk, with locks that end with their process."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

from synergy_nb.durable._disk_files import DiskFiles
from synergy_nb.durable.component_files import is_fence
from synergy_nb.durable.disk import Disk

__all__ = ["UNMARKED", "DiskPlace"]

CHECKPOINTS: Final = "spark"
UNMARKED: Final = "synergy_nb durable folder, version 1"  # files without marks of what the disk holds


class DiskPlace:
    """A folder of the system. See :class:`~synergy_nb.durable._places.Place`."""

    formats: Final = (UNMARKED, "synergy_nb durable folder, version 2")
    least_write: Final = 0
    waits_for_peers: Final = True

    def __init__(self, path: Path, disk: Disk) -> None:
        self.where = str(path)
        self._path = path
        self._disk = disk
        self._locks: list[int] = []

    def make(self) -> None:
        """Make the folder, for this user alone, and have the disk hold that."""
        self._disk.make_folder(self._path.parent)
        if not self._path.is_dir():
            self._path.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(PermissionError):  # a folder that this one cannot read is not of its making
            self._disk.sync_folder(self._path.parent)

    def is_empty(self, but: str) -> bool:
        """Whether it has nothing, except that a file ``but`` was begun when the power failed."""
        return all(each.name == f".{but}" for each in self._path.iterdir())

    def folders(self) -> list[str]:
        """Return the names of its folders."""
        return [each.name for each in self._path.iterdir() if each.is_dir()]

    def has(self, name: str) -> bool:
        """Whether there is a file or a folder."""
        return (self._path / name).exists()

    def read(self, name: str) -> bytes:
        """Return what a file contains. Raises ``FileNotFoundError`` if there is none."""
        return (self._path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        """Write a file as a whole, which the disk then holds."""
        self._disk.replace(self._path / name, data, 0o600)

    def make_folder(self, folder: str) -> None:
        """Make a folder, unless it is there."""
        (self._path / folder).mkdir(mode=0o700, exist_ok=True)
        self._disk.sync_folder(self._path)

    def remove_folder(self, folder: str, first: str = "") -> None:
        """Remove a folder; the file ``first`` goes before all others, and never comes back without them."""
        at = self._path / folder
        if first:
            self._disk.remove(at / first)
            with contextlib.suppress(FileNotFoundError):
                self._disk.sync_folder(at)
        shutil.rmtree(at, ignore_errors=True)

    def files(self, folder: str) -> DiskFiles:
        """Return the files of the components in a folder."""
        return DiskFiles(self._path / folder, self._disk, self.checkpoints(folder))

    def checkpoints(self, folder: str) -> Path:
        """Return where Spark keeps its checkpoints of a folder."""
        return self._path / folder / CHECKPOINTS

    def clean(self, folder: str) -> None:
        """Remove all fences: nobody else writes to the folder."""
        for name in filter(is_fence, self.files(folder).names()):
            self._disk.remove(self._path / folder / name)

    def lock(self) -> bool:
        """Be the only program with a cluster here, until it ends or lets go; False if another one is."""
        return self._lock("lock", exclusive=True)

    def is_quiet(self) -> bool:
        """Whether no peer writes to the folder, once it is locked; those of a program that has died end soon."""
        quiet = self._lock("writers", exclusive=True)
        if quiet:
            os.close(self._locks.pop())  # the peers that are started now lock it
        return quiet

    def lock_as_peer(self) -> bool:
        """Note that this process writes to the folder until it ends; False if another cluster begins to."""
        return self._lock("writers", exclusive=False)

    def is_ours(self) -> bool:
        """Whether no later cluster writes here: none does before all peers of an earlier one have ended."""
        return True

    def _lock(self, name: str, *, exclusive: bool) -> bool:
        try:
            opened = self._disk.lock(self._path / name, os.O_RDWR | os.O_CREAT, shared=not exclusive, mode=0o600)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror}") from None
        self._locks.append(opened)
        return True

    def unlock(self) -> None:
        """Let go of the folder."""
        while self._locks:
            os.close(self._locks.pop())
