"""Batches in shared memory of one machine: written once by their producer, read in place by other peers.

Theory of operation
-------------------
A peer writes the tables of large batches as Arrow IPC streams into *arenas*: anonymous files in memory, which the
system removes with the last process that has them open, however that process ends. The peer sends a *reference*: an
item like any other (:func:`synergy_nb.dataflow.tuples.encode_reference`), with the arena and the offset in it instead
of the table. The reader maps the arena read-only, and its columns are that memory: nothing is copied, and there is no
checksum, as there is no wire. An arena stays open as long as the log of its producer retains one of its batches; a
reader that has mapped it retains its memory beyond that.

An arena is reused, as the system needs longer to provide fresh memory than a copy takes, once nobody needs its content:
the producer's log retains none of its batches, and no reader has mapped it. Readers hold a lock on the file while any
of their columns is in it; the system releases the lock when they die. An arena gets a new token before it is reused, so
an old reference to it is invalid.

Only processes of the owner can open it: it has no name but that in ``/proc`` of its process, and is the owner's alone.
Peers can share memory if they run on the same machine, under the same user, in the same namespace of process ids:
:func:`machine` identifies these. It is empty where the system has no such files.
"""

from __future__ import annotations

import functools
import mmap
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

from synergy_nb.dataflow.streams.log.values import Chunk
from synergy_nb.dataflow.tuples import Batch, Item, Reference, decode, encode, encode_reference
from synergy_nb.errors import SynergyError

try:
    import fcntl
except ModuleNotFoundError:  # Windows: `machine` says that there are no arenas, so nothing here needs it
    fcntl = None  # type: ignore[assignment]

__all__ = ["LEAST", "Arenas", "Shared", "StaleReference", "Views", "grows", "machine"]

LEAST: Final = 1 << 16  # least bytes of a shared batch; sending a smaller one takes less time
ARENA: Final = 8 << 20  # size of an arena, bytes
TOKEN: Final = 16  # bytes at the beginning of a file that distinguish it from a later one with the same number
ALIGNED: Final = 64  # bytes that columns are aligned to
NAME: Final = "synergy"
SPARE: Final = 3  # most unused arenas that are retained for reuse
FAILURES: Final = 8  # invalid references after which a peer requests batches over the link only
VIEWS: Final = pl.CompatLevel.newest()


@functools.cache
def machine() -> str:
    """Identify the peers that can read one another's arenas, by equal names; empty where there are none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        processes = Path("/proc/self/ns/pid").stat().st_ino
        os.close(os.memfd_create(NAME))
        return f"{boot} {processes} {os.geteuid()}"
    except (OSError, AttributeError):
        return ""


class _Arena:
    """One file in memory; it is closed when nobody on this peer needs it any more."""

    def __init__(self, size: int) -> None:
        self.number = os.memfd_create(NAME)
        os.fchmod(self.number, 0o600)  # the system makes it for everybody, and hides only where it is
        os.ftruncate(self.number, size)
        self.memory = mmap.mmap(self.number, size)
        self.size = size
        self.regions: weakref.WeakSet[_Region] = weakref.WeakSet()  # parts that a log retains
        self.begin()
        weakref.finalize(self, os.close, self.number)

    def begin(self) -> None:
        """Write from the beginning; the former content is lost."""
        self.token = secrets.token_bytes(TOKEN)
        self.memory[:TOKEN] = self.token
        self.used = ALIGNED

    def reclaim(self) -> bool:
        """Invalidate old references; False if a log here needs the content, or a reader holds a lock."""
        if self.regions:
            return False
        try:
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self.memory[:TOKEN] = bytes(TOKEN)
        fcntl.flock(self.number, fcntl.LOCK_UN)
        return True


class _Region:
    """The part of an arena that contains one chunk."""

    __slots__ = ("__weakref__", "arena")

    def __init__(self, arena: _Arena) -> None:
        self.arena = arena
        arena.regions.add(self)


class Arenas:
    """The arenas that a peer writes to; thread-safe."""

    def __init__(self) -> None:
        self._arena: _Arena | None = None
        self._full: list[_Arena] = []  # full arenas, to be reused
        self._lock = threading.Lock()

    def encode(self, chunk: Chunk) -> None:
        """Encode a chunk: as a reference if it is a large batch, and completely otherwise."""
        item = chunk.item
        if not isinstance(item, Batch):
            return  # it is sent as its points
        if item.nbytes < LEAST:
            chunk.payload = encode(item)
            return
        table = item.table.to_arrow(compat_level=VIEWS)
        probe = pa.MockOutputStream()
        with pa.ipc.new_stream(probe, table.schema) as writer:
            writer.write_table(table)
        size = probe.size()
        region, start = self._room(size)
        arena = region.arena
        buffer = pa.py_buffer(memoryview(arena.memory)[start : start + size])
        with pa.FixedSizeBufferWriter(buffer) as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        chunk.region = region
        chunk.payload = encode_reference(item, Reference(os.getpid(), arena.number, arena.token, start, size))

    def _room(self, size: int) -> tuple[_Region, int]:
        """Reserve ``size`` bytes: a part of an arena, and the offset in it."""
        with self._lock:
            arena = self._arena
            if arena is None or arena.used + size > arena.size:
                arena = self._next(size + ALIGNED)
            start = arena.used
            arena.used = -(-(start + size) // ALIGNED) * ALIGNED
            return _Region(arena), start

    def _next(self, size: int) -> _Arena:
        """Return another arena with room for ``size`` bytes."""
        if self._arena is not None:
            self._full.append(self._arena)
        free = [arena for arena in self._full if arena.reclaim()]
        found = next((arena for arena in free if arena.size >= size), None)
        if found is None:
            found = _Arena(max(ARENA, size))
        else:
            self._full.remove(found)
            found.begin()
        for arena in free[SPARE:]:  # less is on its way than before
            if arena is not found:
                self._full.remove(arena)
        self._arena = found
        return found

    def release_unused(self) -> None:
        """Release the memory of arenas that no log needs, after the end of a stream."""
        with self._lock:
            self._full = [arena for arena in self._full if arena.regions]
            if self._arena is not None and not self._arena.regions:
                self._arena = None


def grows(chunk: Chunk) -> bool:
    """Whether the time to read a chunk from shared memory grows with its size: text has to be scanned."""
    item = chunk.item
    return chunk.region is not None and isinstance(item, Batch) and any(map(_is_text, item.table.dtypes))


def _is_text(kind: pl.DataType) -> bool:
    return kind in (pl.String, pl.Binary)


class StaleReference(SynergyError, ValueError):
    """The memory that a reference names cannot be read: it has been freed, or this peer has no access to it."""


class _View:
    """An arena of another peer, mapped read-only."""

    def __init__(self, reference: Reference) -> None:
        path = f"/proc/{reference.process}/fd/{reference.number}"
        try:
            if not str(Path(path).readlink()).startswith(f"/memfd:{NAME}"):
                raise StaleReference(f"{path}: expected an arena")
            number = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StaleReference(f"{path}: {error.strerror}; expected an arena") from None
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as long as the memory is mapped
            self.memory = mmap.mmap(number, 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise StaleReference(f"{path}: {error}; expected an arena") from None
        finally:
            os.close(number)


class Views:
    """The arenas of other peers that a peer reads; thread-safe."""

    def __init__(self) -> None:
        self._views: weakref.WeakValueDictionary[tuple[int, int, bytes], _View] = weakref.WeakValueDictionary()
        self._last: dict[int, _View] = {}  # by process, so that an arena is not mapped anew for each of its batches

    def table(self, reference: Reference) -> pl.DataFrame:
        """Return the table of a reference.

        Raises ``StaleReference`` if its memory cannot be read here; ``ValueError`` if it is not a table.
        """
        key = (reference.process, reference.number, reference.token)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._last[reference.process] = _View(reference)
        memory = view.memory
        if memory[:TOKEN] != reference.token:
            del self._views[key]
            self._last.pop(reference.process, None)
            raise StaleReference(f"arena {reference.number} of process {reference.process}: it was removed")
        if reference.start < ALIGNED or reference.size < 0 or reference.start + reference.size > len(memory):
            raise ValueError(
                f"reference: bytes {reference.start} to {reference.start + reference.size}; expected some of {ALIGNED} "
                f"to {len(memory)}"
            )
        buffer = pa.py_buffer(memoryview(memory)[reference.start : reference.start + reference.size])
        try:
            table = pl.DataFrame(pa.ipc.open_stream(buffer))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(f"reference: no Arrow IPC stream: {str(error).splitlines()[0][:200]}") from None
        assert isinstance(table, pl.DataFrame)
        return table


class Shared:
    """The memory that a peer shares with others on its machine."""

    def __init__(self, own: Callable[[], str]) -> None:
        self.arenas = Arenas()  # memory that it writes to
        # function that returns the machine whose memory this peer can read, see `machine`; empty where it reads only
        # its own
        self._own = own
        self._views = Views()
        self._near: set[str] = set()  # peers that can read the memory of this one
        self.shares_memory: Callable[[str], bool] = self._near.__contains__  # whether a peer can
        self._failures = 0

    def machine(self) -> str:
        """Name of the machine for other peers; empty after too many failed references."""
        return self._own() if self._failures < FAILURES else ""

    def note_machine(self, peer: str, machine: str) -> None:
        """Record the machine whose memory a peer can read."""
        if machine and machine == self._own():
            self._near.add(peer)
        else:
            self._near.discard(peer)

    def failed(self) -> None:
        """Count a reference that could not be read."""
        self._failures += 1

    def item(self, payload: memoryview) -> Item:
        """Decode an item, whose table may be in memory of another peer; thread-safe."""
        return decode(payload, self._views.table)
