"""Records: frames of the data path in a file, each with its length and its checksum; and marks between them.

A file is appended to by one process, which may be killed at any moment: so its last record may lack its end, and is
then left out. The power may fail, too: then anything may be found of what the disk was not yet asked to hold. So a
*mark* follows once the disk holds all that is before it: a record that is wrong behind the last mark was never
acknowledged, and is left out with all that follows. Anything else that is wrong is damage, and the file is refused.

Files of version 1 had no marks: whatever is wrong in them is damage, except a last record that lacks its end. A file of
which the beginning is damaged does not tell its version; the folder does (:func:`check_records`), and gives each of
them a mark at its end as soon as it is one of this version (:func:`unmarked_end`).

Examples
--------
>>> from synergy_nb.dataflow.streams.log.frames import Ack
>>> from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Reader
>>> ack = Ack(Output("app", "f"), Reader("app", "f", COPY, "durable"), ORIGIN, ORIGIN, ORIGIN)
>>> data = packed(ack)
>>> unpacked(data + data[:-1], "f@0.0") == [ack]
True
>>> unpacked(data[:-1] + b"?", "f@0.0")
Traceback (most recent call last):
    ...
synergy_nb.durable.records.DurableError: f@0.0: the record at byte 0 has another checksum than it states; expected a \
file that only Synergy has written: it was damaged
>>> begun = mark(0) + data[:-1] + b"?"  # the disk was not yet asked to hold the record
>>> unpacked(begun, "f@0.0")
[]
>>> unpacked(begun + mark(len(begun)), "f@0.0")
Traceback (most recent call last):
    ...
synergy_nb.durable.records.DurableError: f@0.0: the record at byte 12 has another checksum than it states; expected a \
file that only Synergy has written: it was damaged
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import msgspec

from synergy_nb.dataflow.streams.log.frames import Data, Frame, PieceReply
from synergy_nb.dataflow.streams.log.wire import decode, encoded_parts
from synergy_nb.errors import SynergyError

__all__ = ["DurableError", "check_records", "mark", "packed", "unmarked_end", "unpacked"]

_HEAD: Final = struct.Struct(">III")  # bytes of the frame, their CRC-32, and the CRC-32 of these eight bytes
_CRC: Final = 0xEDB88320  # polynomial of CRC-32 without its highest term
_MARK: Final = 0xFFFFFFFF  # in place of the bytes of a frame; where it is in the file is in place of their CRC-32


class DurableError(SynergyError, ValueError):
    """A durable folder cannot be used."""


def packed(frame: Frame) -> bytes:
    """Return a frame as a record; may be called in any thread."""
    if isinstance(frame, Data):  # encoding notes the bytes in the chunk, which the event loop may be sending at present
        chunks = tuple(msgspec.structs.replace(each, payload=None, region=None) for each in frame.chunks)
        frame = msgspec.structs.replace(frame, chunks=chunks)
    parts, check = encoded_parts(frame), 0
    for part in parts[:-1] if isinstance(frame, PieceReply) else parts:
        check = zlib.crc32(part, check)
    if isinstance(frame, PieceReply):  # the last part is the piece
        check = _followed(check, frame.piece.check, len(frame.piece.data))
    counts = struct.pack(">II", sum(map(len, parts)), check)
    return b"".join((counts, struct.pack(">I", zlib.crc32(counts)), *parts))  # a large piece is copied once


def _followed(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of bytes that are followed by others: from that of each, and the number of the others.

    A CRC-32 is a polynomial modulo :data:`_CRC`: that of the first bytes is multiplied by x once for each bit that
    follows, and that of the others is added.

    >>> _followed(zlib.crc32(b"one"), zlib.crc32(b"other"), 5) == zlib.crc32(b"oneother")
    True
    """
    return _times(_power(8 * size), first) ^ second


def _times(one: int, other: int) -> int:
    """Multiply two polynomials modulo :data:`_CRC`; the highest of 32 bits is that of the constant term."""
    product = 0
    for bit in range(31, -1, -1):
        product ^= other if one >> bit & 1 else 0
        other = other >> 1 ^ (_CRC if other & 1 else 0)
    return product


@lru_cache(256)
def _power(number: int) -> int:
    """Return x to the power of a number."""
    found, power = 1 << 31, 1 << 30
    while number:
        found = _times(found, power) if number & 1 else found
        power, number = _times(power, power), number >> 1
    return found


def mark(at: int) -> bytes:
    """Return what says, at a place in a file, that the disk holds all that is before it."""
    counts = struct.pack(">II", _MARK, at & _MARK)
    return counts + struct.pack(">I", zlib.crc32(counts))


def unpacked(data: bytes, name: str) -> list[Frame]:
    """Return the frames of a file, without a last one whose end is missing.

    Raises ``DurableError`` if the file was damaged; the message begins with ``name``.
    """
    found: list[Frame] = []
    for at, body in _bodies(data, name):
        try:
            found.append(decode(body))
        except ValueError as error:
            raise DurableError(f"{name}: the record at byte {at}: {error}") from None
    return found


def check_records(data: bytes, name: str, *, marked: bool = True) -> int:
    """Return where the whole records of a file end, without decoding them; raise ``DurableError`` if it was damaged.

    ``marked``: whether it may have marks; not if it is of version 1.
    """
    end = 0
    for at, body in _bodies(data, name, marked=marked):
        end = at + _HEAD.size + len(body)
    return end


def unmarked_end(data: bytes, name: str) -> int | None:
    """Return where the whole records of a file of version 1 end; None if it has a mark there, or has nothing.

    Raises ``DurableError`` if it was damaged.
    """
    end = check_records(data, name, marked=False)
    return end if end and not data.startswith(mark(end), end) else None


def _bodies(data: bytes, name: str, *, marked: bool = True) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), 0
    marked = marked and (data.startswith(mark(0)) or not _is_whole(view, 0))
    while len(view) - at >= _HEAD.size:
        (size, check, _), whole = _HEAD.unpack_from(view, at), _is_whole(view, at)
        begin = at + _HEAD.size
        if whole and size == _MARK:
            at = begin
            continue
        body = view[begin : begin + size]
        if not whole or len(body) < size or zlib.crc32(body) != check:
            lacks_end = whole and len(body) < size
            if (marked or lacks_end) and not _is_held(data, at):
                return
            raise _damaged(name, at)
        yield at, body
        at = begin + size


def _is_whole(view: memoryview, at: int) -> bool:
    """Whether a head has the checksum that it states."""
    return len(view) - at >= _HEAD.size and zlib.crc32(view[at : at + 8]) == _HEAD.unpack_from(view, at)[2]


def _is_held(data: bytes, at: int) -> bool:
    """Whether a mark behind a place says that the disk held what is there."""
    begin = struct.pack(">I", _MARK)
    while (at := data.find(begin, at + 1)) >= 0:
        if data.startswith(mark(at), at):
            return True
    return False


def _damaged(name: str, at: int) -> DurableError:
    return DurableError(
        f"{name}: the record at byte {at} has another checksum than it states; expected a file that only Synergy has "
        "written: it was damaged"
    )
