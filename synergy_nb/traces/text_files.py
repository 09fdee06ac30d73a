"""Reader of text traces as bytes: it unpacks, validates and splits them, so that no file is in memory as a whole.

:func:`pieces` reads one piece ahead in a thread of its own, so that a gzipped file is unpacked while the previous piece
is parsed. A piece may end anywhere; :func:`whole_lines` splits at line ends.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from synergy_nb.plan.operators.sources import FORMATS
from synergy_nb.plan.units import did_you_mean

__all__ = ["BLOCK", "LONGEST", "beginning", "head", "pieces", "too_long", "whole_lines"]

BLOCK: Final = 2 << 20  # bytes of a piece: larger ones are not parsed faster, and need more memory
LONGEST: Final = 32 << 20  # largest number of bytes of a line, as lines are not split
PACKED: Final = {b"\x1f\x9d": "compress (.Z)", b"PK": "zip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}
_READ: Final = 1 << 16  # bytes of a gzipped file that are read at once


def head(path: Path) -> bytes:
    """Read the first bytes of a file.

    Raises
    ------
    ValueError
        If the file cannot be read or is empty.
    """
    if path.is_dir():
        raise ValueError(f"{path}: a directory; expected a trace file")
    try:
        with path.open("rb") as file:
            found = file.read(512)
    except FileNotFoundError:
        hint = did_you_mean(path.name, [each.name for each in path.parent.glob("*")])
        raise ValueError(f"{path}: no such file; expected a trace file{hint}") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    if not found:
        raise ValueError(f"{path}: empty; expected a trace")
    return found


def beginning(path: Path, size: int) -> tuple[bytes, bool]:
    """Read the first ``size`` bytes of the text, or fewer if it is shorter, and whether that is the whole text.

    Raises
    ------
    ValueError
        If the text cannot be read, see :func:`pieces`.
    """
    found = b""
    for piece in _pieces(path, max(min(size, BLOCK), 512)):
        found += piece
        if len(found) >= size:
            return found[:size], False
    return found, True


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the unpacked bytes of a text trace in pieces of about :data:`BLOCK`; only the last may be shorter.

    Raises
    ------
    ValueError
        If the file is empty, packed by another program than gzip, damaged, cut off, or no text.
    """
    source = _pieces(path, BLOCK)
    with ThreadPoolExecutor(1, thread_name_prefix="trace-bytes") as ahead:
        coming = ahead.submit(next, source, None)
        while (piece := coming.result()) is not None:
            coming = ahead.submit(next, source, None)
            yield piece


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a text trace in blocks, each with the number of its first line.

    Raises
    ------
    ValueError
        If the text cannot be read, see :func:`pieces`, or if a line is longer than :data:`LONGEST`.
    """
    number, rest = 1, b""
    for piece in pieces(path):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if end:
            yield number, data[:end]
            number += data.count(b"\n", 0, end)
        elif len(data) > LONGEST:
            raise too_long(path, number)
        rest = data[end:]
    if rest:
        yield number, rest


def too_long(path: Path, number: int) -> ValueError:
    """Make the error about a line that does not fit into memory."""
    return ValueError(f"{path}: line {number}: longer than {LONGEST >> 20} MB; expected a text trace, line by line")


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    start = head(path)
    packed = PACKED.get(start[:2])
    if packed is None and start[257:262] == b"ustar":
        packed = "tar"
    if packed is not None:
        raise ValueError(f"{path}: packed by {packed}; expected a plain or gzipped trace, so unpack it first")
    if start[:4] == b"PAR1":
        raise ValueError(f"{path}: a Parquet file; expected text, or format 'parquet'")
    begun = False
    blank = b""  # white space so far: a file with nothing else is empty
    with path.open("rb") as file:
        for piece in _unzipped(file, path, size) if start[:2] == b"\x1f\x8b" else iter(lambda: file.read(size), b""):
            if begun:
                yield piece
                continue
            blank += piece
            if blank.strip():
                begun = True
                if b"\0" in blank[:512]:
                    raise ValueError(f"{path}: binary data; expected one of the formats {', '.join(FORMATS)}")
                yield blank
                blank = b""
            elif len(blank) > LONGEST:
                raise too_long(path, 1)
    if not begun:
        raise ValueError(f"{path}: empty; expected a trace")


def _unzipped(file: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a gzip file with one or several members, in pieces of ``size`` bytes or a little more."""
    before = held = 0
    waiting: list[bytes] = []
    member = zlib.decompressobj(31)  # with gzip's header and checksum
    try:
        while packed := file.read(_READ):
            while packed:
                if member.eof:
                    packed = packed.lstrip(b"\0")  # padding between members
                    if not packed:
                        break
                    member = zlib.decompressobj(31)
                text = member.decompress(packed, size)
                packed = member.unconsumed_tail or member.unused_data
                waiting.append(text)
                held += len(text)
                if held >= size:
                    yield b"".join(waiting)
                    before, held, waiting = before + held, 0, []
        if not member.eof:
            raise EOFError("it ends before its end-of-stream mark")
    except (EOFError, zlib.error) as error:
        raise ValueError(
            f"{path}: damaged or cut-off gzip file after {before + held} bytes of text ({error}); expected a whole one"
        ) from None
    if waiting:
        yield b"".join(waiting)
