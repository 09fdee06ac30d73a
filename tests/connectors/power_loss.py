"""A disk that may lose what it was not asked to hold, as one does whose power fails.

:class:`PowerDisk` does all steps in a folder of the real system, and notes beside them what the disk holds for certain:
the bytes of a file as they were when it was last synchronised, and the names in a folder as they were when that was.
:meth:`PowerDisk.lose` is the power failure: of all that has come since, each write of bytes and each change of a name
may be there or not, independently of the order in which they were made, and a write may be there in part. That is more
than most file systems lose, and all that POSIX allows them to.

A process that ends before the power fails loses nothing: the system has what it wrote. So one disk may be used by
several writers in turn, each of which ends at a step of its own (:attr:`PowerDisk.left`).
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synergy_nb.durable.disk import Disk
from tests.connectors.broken_disk import STEPS, Killed


@dataclass
class _File:
    """What a disk holds of a file, and what was done since: the place and bytes of a write, or the size of a cut."""

    held: bytes = b""
    since: list[tuple[int, bytes] | int] = field(default_factory=list)

    def lost(self, rng: random.Random, keeps: float) -> bytes:
        """Its bytes after a power failure."""
        data = bytearray(self.held)
        for each in self.since:
            if rng.random() >= keeps:
                continue
            if isinstance(each, int):
                del data[each:]
                data.extend(bytes(each - len(data)))
                continue
            place, written = each
            written = written[: rng.randint(0, len(written))] if rng.random() < 0.5 else written
            data.extend(bytes(max(place - len(data), 0)))
            data[place : place + len(written)] = written
        return bytes(data)


#: A name in a folder, and what it stands for: the number of a file or folder; None where it is gone.
Change = list[tuple[str, int | None]]


class PowerDisk(Disk):
    """What is done in a folder, with what of it a power failure cannot take."""

    def __init__(self, root: Path) -> None:
        self.left: int | None = None  # steps after which the process ends; None: it does not
        self.done = 0  # number of steps that the process has done
        self._root = root
        self._files: dict[int, _File] = {}
        self._folders: dict[int, dict[str, int]] = {}  # folder to its names, as the disk holds them
        self._changes: dict[int, list[Change]] = {}  # folder to what has changed since, in groups that are one change
        self._names: dict[int, dict[str, int]] = {}  # folder to its names now
        root.mkdir(parents=True)
        self._look()
        self._held(root)

    def lose(self, seed: int) -> None:
        """Lose power: what is in the folder now is what the disk holds then."""
        rng = random.Random(seed)
        keeps = rng.choice((0.0, 0.3, 0.7, 1.0))  # share of what is not held for certain, and is there all the same
        base = self._root.with_name(f"{self._root.name}.after")
        base.mkdir()
        self._restore(self._root.stat().st_ino, base, rng, keeps)
        shutil.rmtree(self._root)
        base.rename(self._root)
        self._files, self._folders, self._changes, self._names = {}, {}, {}, {}
        self.left, self.done = None, 0
        self._look()
        for each in [self._root, *(path for path in self._root.rglob("*") if path.is_dir())]:
            self._held(each)
        for path in self._root.rglob("*"):
            if path.is_file():
                self._files[path.stat().st_ino] = _File(path.read_bytes())

    def _restore(self, folder: int, to: Path, rng: random.Random, keeps: float) -> None:
        names = dict(self._folders.get(folder, {}))
        for change in self._changes.get(folder, []):
            if rng.random() < keeps:
                for name, number in change:
                    if number is None:
                        names.pop(name, None)
                    else:
                        names[name] = number
        for name, number in names.items():
            if number in self._names:
                (to / name).mkdir()
                self._restore(number, to / name, rng, keeps)
            else:
                (to / name).write_bytes(self._files.setdefault(number, _File()).lost(rng, keeps))

    def _look(self) -> None:
        """Note which names have changed."""
        todo = [(self._root.stat().st_ino, str(self._root))]
        while todo:
            number, folder = todo.pop()
            with os.scandir(folder) as entries:
                found = {each.name: each for each in entries}
            todo += [(each.inode(), each.path) for each in found.values() if each.is_dir()]
            now = {name: each.inode() for name, each in found.items()}
            before = self._names.get(number, {})
            change: Change = [(name, each) for name, each in now.items() if before.get(name) != each]
            change += [(name, None) for name in before if name not in now]
            for name, each in change:
                if each is not None and each not in before.values() and not found[name].is_dir():
                    self._files[each] = _File()  # the system may give a new file the number of one that is gone
            if change:
                self._changes.setdefault(number, []).append(change)
            self._names[number] = now

    def _held(self, folder: Path) -> None:
        number = folder.stat().st_ino
        self._folders[number] = dict(self._names[number])
        self._changes.pop(number, None)

    def _do(self, step: str, *arguments: Any) -> Any:
        if self.left is not None and self.done >= self.left:
            raise Killed
        self.done += 1
        try:
            # what the disk holds is known without it
            return None if step in {"sync", "sync_folder"} else getattr(Disk, step)(self, *arguments)
        finally:
            self._look()
            match step:
                case "write":
                    opened, data, place = arguments
                    self._of(opened).since.append((place, bytes(data)))
                case "truncate":
                    self._of(arguments[0]).since.append(arguments[1])
                case "sync":
                    size = os.fstat(arguments[0]).st_size
                    self._files[os.fstat(arguments[0]).st_ino] = _File(_bytes_of(arguments[0], size))
                case "sync_folder":
                    if arguments[0] == self._root or self._root in arguments[0].parents:
                        self._held(arguments[0])

    def _of(self, opened: int) -> _File:
        return self._files.setdefault(os.fstat(opened).st_ino, _File())


def _bytes_of(opened: int, size: int) -> bytes:
    """All bytes of an open file, which may be open for writing only."""
    with open(f"/proc/self/fd/{opened}", "rb") as file:  # noqa: PTH123 - a link of the system
        return file.read(size)


def _add_step(name: str) -> None:
    def step(self: PowerDisk, *arguments: Any) -> Any:
        return self._do(name, *arguments)

    setattr(PowerDisk, name, step)


for _name in STEPS:
    _add_step(_name)
