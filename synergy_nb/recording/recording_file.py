"""The file that holds the recording of a run.

Format
------
The file begins with :data:`MAGIC` and the number of the format (2 bytes, big-endian). Chunks follow: a marker, the
length of the payload, its CRC-32 (4 bytes each), and the payload, which is, compressed by zlib, the MessagePack array
[life, number of the chunk in that life, records]. A *life* is one peer from its start to its end; a peer that starts
again at the same address has another life. The first record of a life says what the peer was made from
(:class:`Beginning`); each of the others is one input, with its time and its effects.

All peers of a machine append to one file. A chunk is written by one call to a file that was opened for appending, which
the system does not mix with those of other processes; so nothing has to be merged when a cluster closes, and what a
peer had written before it was killed stays. Refused: a file for each peer, which would have to be collected, also after
a crash; sending records to the client, which loses what is on its way, and the run if the client dies.
"""

from __future__ import annotations

import contextlib
import os
import platform
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.units import counted
from synergy_nb.recording.construction import Construction

__all__ = [
    "VERSION",
    "Beginning",
    "ChunkWriter",
    "Input",
    "Life",
    "NotARecording",
    "Received",
    "Recording",
    "Started",
    "Ticked",
    "beginning_of",
    "create",
    "read",
    "version",
]

PACKAGE: Final = "synergy-nb"
MAGIC: Final = b"synergy recording\n"
VERSION: Final = 1
MARKER: Final = b"\xabREC"
HEAD: Final = Struct(">4sII")  # marker, bytes of the payload, their CRC-32
CHUNK_BYTES: Final = 1 << 16  # bytes of records after which a chunk is written
COMPRESSION: Final = 1  # level of zlib, the fastest: as probes carry their plans, a tenth is left, at 50 MB/s
MOST_BYTES: Final = 1 << 28  # bytes of a payload from which on the file counts as damaged


class NotARecording(SynergyError, ValueError):
    """A file is no recording that this version can read."""


class Beginning(msgspec.Struct, frozen=True, array_like=True, tag="beginning"):
    """The first record of a life."""

    construction: Construction
    # version, python: versions of this package and of Python that ran the peer
    version: str
    python: str


class Started(msgspec.Struct, frozen=True, array_like=True, tag="start", gc=False):
    """Input: the peer started, at a time in seconds."""

    at: float
    effects: msgspec.Raw
    error: str = ""


class Ticked(msgspec.Struct, frozen=True, array_like=True, tag="tick", gc=False):
    """Input: the timers that were due fired, at a time in seconds."""

    at: float
    effects: msgspec.Raw
    error: str = ""


class Received(msgspec.Struct, frozen=True, array_like=True, tag="message", gc=False):
    """Input: a message."""

    at: float  # time in seconds
    # sender, message: address of the sender, and the message as codecs encode it
    sender: str
    message: msgspec.Raw
    effects: msgspec.Raw  # effects of the peer, as `encode_effects` gives them
    error: str = ""  # text of the exception that a handler raised; empty if there was none


Input: TypeAlias = Started | Ticked | Received
_Chunk: TypeAlias = tuple[str, int, list[msgspec.Raw]]

_encoder: Final = msgspec.msgpack.Encoder()
_chunks: Final = msgspec.msgpack.Decoder(_Chunk)
_records: Final = msgspec.msgpack.Decoder(Beginning | Started | Ticked | Received)


def create(path: str | os.PathLike[str]) -> Path:
    """Create the file of a recording that peers append to, for its owner alone, and return its absolute path.

    Raises ``ValueError`` if there is such a file already, or none can be written there.
    """
    made = Path(os.fspath(path)).absolute()
    try:
        with open(made, "xb", opener=partial(os.open, mode=0o600)) as file:
            file.write(MAGIC + VERSION.to_bytes(2, "big"))
    except FileExistsError:
        raise ValueError(f"record: {os.fspath(path)!r} exists already; expected a new file") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ValueError(
            f"record: {os.fspath(path)!r}: {reason}; expected a new file in a folder that exists and can be written to"
        ) from None
    return made


class ChunkWriter:
    """Appends the records of one life to the file of a recording."""

    def __init__(
        self,
        path: str | os.PathLike[str],  # file that `create` has made
        life: str,  # name of the life; no other one of the file has it
        # called when a first record waits to be written; whoever is called calls `flush` some time later
        waiting: Callable[[], object] = lambda: None,
        # called once, with the reason, if nothing more can be written
        failed: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self._life = life
        self._waiting = waiting
        self._failed = failed
        self._records: list[msgspec.Raw] = []
        self._size = 0
        self._number = 0
        self.written = 0  # bytes written so far
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND)

    def add(self, record: Beginning | Input) -> None:
        """Take one record; it is written with others."""
        if self._file is None:
            return
        data = _encoder.encode(record)
        self._records.append(msgspec.Raw(data))
        self._size += len(data)
        if self._size >= CHUNK_BYTES:
            self.flush()
        elif len(self._records) == 1:
            self._waiting()

    def flush(self) -> None:
        """Write what waits."""
        if self._file is None or not self._records:
            return
        payload = zlib.compress(_encoder.encode((self._life, self._number, self._records)), COMPRESSION)
        chunk = HEAD.pack(MARKER, len(payload), zlib.crc32(payload)) + payload
        self._records, self._size, self._number = [], 0, self._number + 1
        try:
            written = os.write(self._file, chunk)
        except OSError as error:
            self._end(error.strerror or type(error).__name__)
        else:
            self.written += written
            if written < len(chunk):
                self._end("the disk took only a part")

    def _end(self, reason: str) -> None:
        self._close()
        self._failed(reason)

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


class Life:
    """One peer from its start to its end, as far as it is recorded."""

    def __init__(self, beginning: Beginning) -> None:
        self.beginning = beginning  # first record: the values that the peer was made from
        self.inputs: list[Input] = []  # inputs of the peer, in order

    @property
    def address(self) -> str:
        """Address of the peer."""
        return self.beginning.construction.address

    @property
    def name(self) -> str:
        """Name of the peer for people."""
        return self.beginning.construction.config.name or self.address


class Recording:
    """What a file holds."""

    def __init__(self) -> None:
        self.lives: list[Life] = []  # peers, in the order in which they began
        self.notes: list[str] = []  # sentences on parts that are missing or damaged


def read(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file. What is damaged or cut is left out, with a note.

    Raises ``NotARecording`` if the file is none, or of another format; ``OSError`` if it cannot be read.
    """
    data = memoryview(Path(path).read_bytes())
    start = len(MAGIC) + 2
    if bytes(data[: len(MAGIC)]) != MAGIC or len(data) < start:
        raise NotARecording(
            f"{os.fspath(path)}: not a recording; expected a file that was written with record=FILE or --record FILE"
        )
    version = int.from_bytes(data[len(MAGIC) : start], "big")
    if version != VERSION:
        raise NotARecording(
            f"{os.fspath(path)}: recording of format {version}; expected format {VERSION}, which this version of "
            "synergy_nb reads: replay it with the version that recorded it"
        )
    found = Recording()
    chunks: dict[str, dict[int, list[msgspec.Raw]]] = defaultdict(dict)
    for life, number, records in _whole_chunks(data, start, found.notes):
        chunks[life][number] = records
    for life, numbered in chunks.items():
        _add_life(found, life, numbered)
    return found


def _whole_chunks(data: memoryview, start: int, notes: list[str]) -> Iterator[_Chunk]:
    """The chunks that are whole; what is not is noted."""
    at = start
    while at < len(data):
        chunk, end = _chunk(data, at)
        if chunk is not None:
            yield chunk
        else:
            end = bytes(data[at + 1 :]).find(MARKER)
            cut = end < 0
            end = len(data) if cut else at + 1 + end
            where = "at its end are incomplete" if cut else f"from byte {at:,} on are damaged"
            notes.append(f"{counted(end - at, 'byte')} {where}: they are left out")
        at = end


def _chunk(data: memoryview, at: int) -> tuple[_Chunk | None, int]:
    """The chunk that begins at a position, or None, and where the next one begins."""
    if at + HEAD.size > len(data):
        return None, at
    marker, length, checksum = HEAD.unpack_from(data, at)
    payload = data[at + HEAD.size : at + HEAD.size + length]
    if marker != MARKER or len(payload) < length or zlib.crc32(payload) != checksum:
        return None, at
    try:
        return _chunks.decode(zlib.decompressobj().decompress(payload, MOST_BYTES)), at + HEAD.size + length
    except (msgspec.MsgspecError, zlib.error):
        return None, at


def _add_life(found: Recording, name: str, numbered: dict[int, list[msgspec.Raw]]) -> None:
    """Add a life up to the first chunk that is missing."""
    whole = [numbered[number] for number in range(len(numbered)) if number in numbered]
    follows = next((number for number in range(len(numbered)) if number not in numbered), len(numbered))
    records = [record for chunk in whole[:follows] for record in chunk]
    try:
        beginning, *inputs = (_records.decode(record) for record in records)
    except ValueError as error:
        what = "its beginning is missing" if not records else f"a record cannot be read: {error}"
        found.notes.append(f"{name}: {what}: this peer is left out")
        return
    if not isinstance(beginning, Beginning):
        found.notes.append(f"{name}: its beginning is missing: this peer is left out")
        return
    life = Life(beginning)
    life.inputs = [each for each in inputs if not isinstance(each, Beginning)]
    found.lives.append(life)
    if follows < len(numbered):
        found.notes.append(f"{life.name}: a part in the middle is missing: what follows it is left out")


def beginning_of(construction: Construction) -> Beginning:
    """The first record of a life that begins now, in this process."""
    return Beginning(construction, version(), platform.python_version())


def version() -> str:
    """Version of this package; empty where it is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return ""
