"""What a durable folder needs of the place where it is: a folder of the system, or one in an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from synergy_nb.durable.component_files import Files

__all__ = ["Claimant", "DurablePlace"]


class DurablePlace(Protocol):
    """Files, and folders of files one level below; names are relative to the place.

    All methods raise ``OSError`` if the place refuses. What was put is there after a power failure.
    """

    @property
    def where(self) -> str:
        """The place, as users write it."""

    @property
    def formats(self) -> tuple[str, ...]:
        """What it may say of its format, the earliest first; it is made with the last one."""

    @property
    def least_write(self) -> int:
        """Bytes for which each write to a file of a component counts at least, when files are cut."""

    @property
    def waits_for_peers(self) -> bool:
        """Whether no cluster starts before all peers of an earlier one have ended; else these have to be fenced."""

    def make(self) -> None:
        """Make the place, unless it is there."""

    def is_empty(self, but: str) -> bool:
        """Whether it has nothing, except that a file ``but`` was begun."""

    def folders(self) -> list[str]:
        """Return the names of its folders."""

    def has(self, name: str) -> bool:
        """Whether there is a file, or anything in a folder."""

    def read(self, name: str) -> bytes:
        """Return what a file contains. Raises ``FileNotFoundError`` if there is none."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file as a whole: whoever reads it finds the one before or this one."""

    def make_folder(self, folder: str) -> None:
        """Make a folder, unless it is there."""

    def remove_folder(self, folder: str, first: str = "") -> None:
        """Remove a folder; the file ``first`` goes before all others, and never comes back without them."""

    def files(self, folder: str) -> Files:
        """Return the files of the components in a folder."""

    def checkpoints(self, folder: str) -> Path | None:
        """Return where Spark keeps its checkpoints of a folder; None if it can keep none here."""

    def clean(self, folder: str) -> None:
        """Remove fences of which nobody has to hear any more, and what is not whole, before this cluster writes."""

    def lock(self) -> bool:
        """Be the only program with a cluster here, until it ends or lets go; False if another one is."""

    def is_quiet(self) -> bool:
        """Whether no peer of an earlier cluster writes, as far as the place tells."""

    def lock_as_peer(self) -> bool:
        """Note that this process writes here until it ends; False if another cluster begins to."""

    def is_ours(self) -> bool:
        """Whether no later cluster has begun to write here since this process does."""

    def unlock(self) -> None:
        """Let go of the place."""


class Claimant(Protocol):
    """The program that starts a cluster, as those who start another one see it."""

    @property
    def token(self) -> str:
        """Tells it from all others."""

    @property
    def machine(self) -> str:
        """Tells the machine on which it is, since that was started, from all others."""

    @property
    def process(self) -> str:
        """Tells its process from all others that this machine has had since."""

    def lives(self, process: str) -> bool:
        """Whether a process of this machine lives."""

    def wait(self, seconds: float) -> None:
        """Wait for a while."""

    def every(self, seconds: float, step: Callable[[], bool]) -> Callable[[], None]:
        """Take a step again and again, on a thread, until it returns False; return what ends that, and waits for it."""
