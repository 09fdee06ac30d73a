"""The files of one component in a durable folder, as names.

``OPERATOR@EPOCH.NUMBER`` has its output and its snapshots, in the order in which they came; a higher number goes on
where a lower one ends. ``OPERATOR@EPOCH.pNUMBER`` has pieces of its state that are too large to be written with each
snapshot. ``OPERATOR@EPOCH.fence`` has nothing: it is there once somebody has read, or reads, what the component has
written in earlier epochs (:mod:`.writing`); ``@EPOCH.fence``, what any component of the application has.

Examples
--------
>>> log_name("f/1", 3, 0), piece_name("f/1", 3, 7)
('f%2F1@3.0', 'f%2F1@3.p7')
>>> files_of("f/1", ["f%2F1@3.p7", "f%2F1@10.0", "f%2F1@3.1", "f%2F1@3.0", "g@3.0"])
[(3, ['f%2F1@3.0', 'f%2F1@3.1'], ['f%2F1@3.p7']), (10, ['f%2F1@10.0'], [])]
>>> latest_fences([fence_name("f/1", 9), "f%2F1@3.0", fence_name("f/1", 10)])
{'f/1': 10}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from urllib.parse import quote, unquote

__all__ = [
    "EVERY",
    "Files",
    "fence_name",
    "files_of",
    "is_fence",
    "latest_fences",
    "log_name",
    "operators_of",
    "piece_name",
]

EVERY: Final = ""  # in place of a component: all of an application
_FENCE: Final = ".fence"


class Files(Protocol):
    """The files of one application, by name: in a folder on a disk, or in memory."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return what a file contains."""

    def append(self, name: str, data: bytes) -> None:
        """Add bytes to the end of a file, which is made if there is none."""

    def sync(self) -> None:
        """Have the disk hold all that was added, also if the power fails."""

    def sync_checkpoints(self) -> None:
        """Have the disk hold what Spark has written beside them."""

    def fences(self) -> dict[str, int]:
        """Return each component that has fences with the latest epoch of one."""

    def remove(self, *names: str) -> None:
        """Remove files, if they are there."""


def _stem(operator: str, epoch: int) -> str:
    return f"{quote(operator, safe='')}@{epoch}"


def log_name(operator: str, epoch: int, number: int) -> str:
    """Return the name of a file with output and snapshots."""
    return f"{_stem(operator, epoch)}.{number}"


def piece_name(operator: str, epoch: int, number: int) -> str:
    """Return the name of a file with pieces of a state."""
    return f"{_stem(operator, epoch)}.p{number}"


def fence_name(operator: str, epoch: int) -> str:
    """Return the name of the file that says that an epoch of a component reads what earlier ones have written."""
    return f"{_stem(operator, epoch)}{_FENCE}"


def is_fence(name: str) -> bool:
    """Whether a file is a fence."""
    return name.endswith(_FENCE)


def latest_fences(names: Iterable[str]) -> dict[str, int]:
    """Return each component that has fences with the latest epoch of one."""
    found: dict[str, int] = {}
    for name in names:
        if name.endswith(_FENCE):  # no call: a busy folder is looked through after each write
            who, _, epoch = name.removesuffix(_FENCE).rpartition("@")
            operator = unquote(who)
            found[operator] = max(int(epoch), found.get(operator, 0))
    return found


def operators_of(names: Iterable[str]) -> set[str]:
    """Return the components that have files, or have had some.

    >>> sorted(operators_of(["f%2F1@3.p7", "g@10.0", "g@3.fence"]))
    ['f/1', 'g']
    """
    return {unquote(name.rpartition(".")[0].rpartition("@")[0]) for name in names}


def files_of(operator: str, names: Iterable[str]) -> list[tuple[int, list[str], list[str]]]:
    """Return each epoch of a component with the files of its output, in order, and those of its pieces."""
    found: dict[int, tuple[list[tuple[int, str]], list[str]]] = {}
    for name in names:
        stem, _, last = name.rpartition(".")
        who, _, epoch = stem.rpartition("@")
        if who != quote(operator, safe="") or not epoch.isdigit() or is_fence(name):
            continue
        logs, pieces = found.setdefault(int(epoch), ([], []))
        if last.isdigit():
            logs.append((int(last), name))
        elif last.startswith("p"):
            pieces.append(name)
    return [
        (epoch, [name for _, name in sorted(logs)], sorted(pieces)) for epoch, (logs, pieces) in sorted(found.items())
    ]
