"""The files of one application in an object store: each a row of objects, which are never written again.

``ID/NAME~NUMBER`` has what one call of :meth:`ObjectFiles.sync` has written of a file; the next goes on where it ends.
Each is created, and ends with a mark (:mod:`.records`). ``ID/fences/NAME`` are the fences, which are looked for after
each write: the names of all others need not be listed for that.

What is added is in memory until it is synchronized; so a store that fails takes all of it later, or nothing. Of the
files of one component, a later object is there only if the earlier ones are, as they are written one after another. A
file is gone as soon as its first object is.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Executor
from typing import Final, NamedTuple

from synergy_nb.durable._objects import Objects
from synergy_nb.durable.component_files import fence_name, is_fence, latest_fences
from synergy_nb.durable.records import DurableError, mark

__all__ = ["FENCES", "ObjectFiles"]

FENCES: Final = "fences"


class _Added(NamedTuple):
    """An object that is to be written."""

    name: str
    data: bytes


class ObjectFiles:
    """The files of one application. See :class:`~synergy_nb.durable.component_files.Files`."""

    def __init__(self, objects: Objects, folder: str, executor: Executor) -> None:
        """``folder``: folder of the application; ``executor``: threads that write objects of several components."""
        self._objects = objects
        self._folder = folder
        self._executor = executor
        self._coming: dict[str, list[bytes]] = {}  # file to what was added since the last call of `sync`
        self._added: list[_Added] = []  # objects that the store did not take yet, in their order
        self._sizes: dict[str, tuple[int, int]] = {}  # file that was added to here to its objects, and its bytes
        self._listed: dict[str, list[int]] = {}  # files as they were listed last, if nothing was written since

    def names(self) -> list[str]:
        """Return the names of the files of components."""
        self._listed = self._parts()
        return sorted(self._listed)

    def _parts(self) -> dict[str, list[int]]:
        """Return each file with the numbers of its objects; those whose first object is gone are no files."""
        found = defaultdict[str, list[int]](list)
        for each in self._objects.names(f"{self._folder}/"):
            name, part, number = each.removeprefix(f"{self._folder}/").rpartition("~")
            if part and "@" in name:
                found[name].append(int(number))
        return {name: sorted(numbers) for name, numbers in found.items() if 0 in numbers}

    def fences(self) -> dict[str, int]:
        """Return each component that has fences with the latest epoch of one."""
        return latest_fences(self._fence_names())

    def _fence_names(self) -> list[str]:
        begin = f"{self._folder}/{FENCES}/"
        return [name.removeprefix(begin) for name in self._objects.names(begin)]

    def read(self, name: str) -> bytes:
        """Return what a file contains, as it was when the names were listed last.

        Raises ``FileNotFoundError`` if it is not there, or not any more; ``DurableError`` if a part of it is missing.
        """
        numbers = self._listed.get(name) or self._parts().get(name)
        if numbers is None:
            raise FileNotFoundError(name)
        if numbers != list(range(len(numbers))):
            raise DurableError(f"{name}: it has the parts {numbers}; expected all up to the last: a part was removed")
        return b"".join(self._objects.read_all([self._part(name, number) for number in numbers]))

    def _part(self, name: str, number: int) -> str:
        return f"{self._folder}/{name}~{number}"

    def append(self, name: str, data: bytes) -> None:
        """Add bytes to the end of a file, which is made if there is none."""
        self._coming.setdefault(name, []).append(data)

    def sync(self) -> None:
        """Have the store hold all that was added.

        Raises ``OSError`` if it does not; what it lacks is written at the next call.
        """
        self._listed = {}
        for name, data in self._coming.items():
            self._added.append(self._object(name, b"".join(data)))
        self._coming.clear()
        rows = defaultdict[str, list[_Added]](list)
        for each in self._added:
            rows[each.name.rpartition(".")[0]].append(each)  # a component in its epoch
        futures = [self._executor.submit(self._write, row) for row in rows.values()]
        errors = [error for each in futures if (error := each.exception()) is not None]
        self._added = [each for row in rows.values() for each in row]
        if errors:
            raise errors[0]

    def _object(self, name: str, data: bytes) -> _Added:
        if is_fence(name):
            return _Added(f"{self._folder}/{FENCES}/{name}", data)
        number, size = self._sizes.get(name, (0, 0))
        whole = data if number else mark(0) + data
        whole += mark(size + len(whole))
        self._sizes[name] = number + 1, size + len(whole)
        return _Added(self._part(name, number), whole)

    def _write(self, row: list[_Added]) -> None:
        """Write objects of one component in their order; those that are written are not in the row any more."""
        while row:
            if not self._objects.create(*row[0]):
                raise OSError(f"{row[0].name} is there already, and is another one: somebody else writes it")
            del row[0]

    def sync_checkpoints(self) -> None:
        """Do nothing: Spark keeps no checkpoints here."""

    def remove(self, *names: str) -> None:
        """Remove files, if they are there."""
        parts = self._parts()
        there = [name for name in names if name in parts]
        self._objects.remove([self._part(name, 0) for name in there])  # from then on they are no files
        self._objects.remove([self._part(name, number) for name in there for number in parts[name][1:]])
        for name in names:
            self._sizes.pop(name, None)

    def clean(self) -> None:
        """Remove what is left of files that are gone, and fences that a later one of the same component covers."""
        begin, latest = f"{self._folder}/", self.fences()
        whole = self._parts()
        left = [
            each
            for each in self._objects.names(begin)
            if "~" in each and "@" in each and each.removeprefix(begin).rpartition("~")[0] not in whole
        ]
        needed = {fence_name(operator, epoch) for operator, epoch in latest.items()}
        late = [f"{begin}{FENCES}/{name}" for name in self._fence_names() if name not in needed]
        self._objects.remove([*left, *late])
