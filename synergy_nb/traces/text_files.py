"""Reader of text traces as bytes: it unpacks, validates and splits them, so that no file is in memory as a whole.

:func:`pieces` reads one piece ahead in a thread of its own, so that a gzipped file is unpacked while the previous piece
is parsed. A piece may end anywhere; :func:`whole_lines` splits at line ends.
"""

from __future__ import annotations

import codecs
import stat
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.traces._ahead import one_ahead

__all__ = [
    "BLOCK",
    "LONGEST",
    "UTF8",
    "beginning",
    "bytes_between",
    "check_encoding",
    "head",
    "is_packed",
    "is_utf8",
    "likely_encoding",
    "lines_up_to",
    "pieces",
    "too_long",
    "unpacked",
    "whole_lines",
]

BLOCK: Final = 2 << 20  # bytes of a piece: larger ones are not parsed faster, and need more memory
LONGEST: Final = 32 << 20  # maximum number of bytes of a line: lines are not split
UTF8: Final = "utf-8"  # encoding of a text that states none
_WESTERN: Final = "windows-1252"  # encoding of most files that are in neither UTF-8 nor UTF-16
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PACKED: Final = {
    b"\x1f\x9d": "compress (.Z)",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
}
_GZIP: Final = b"\x1f\x8b"  # first bytes of a gzipped file
_READ: Final = 1 << 16  # bytes of a gzipped file that are read at a time


def check_encoding(encoding: str) -> None:
    """Raise ``ValueError`` if there is no encoding of this name."""
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError):
        raise ValueError(f"encoding: {encoding!r}; expected the name of an encoding, such as 'windows-1252'") from None


def is_utf8(encoding: str) -> bool:
    """Whether the name of an encoding is one of UTF-8 without a mark at the beginning."""
    return codecs.lookup(encoding).name == UTF8


def head(path: Path) -> bytes:
    """Read the first bytes of a file.

    Raises ValueError if the file cannot be read or is empty.
    """
    try:
        if kind := kind_of(path):
            raise ValueError(f"{path}: {kind}; expected a trace file")
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


def kind_of(path: Path) -> str:
    """What is at a path that is no regular file, for messages; empty for a regular file.

    Raises OSError if there is nothing, or it cannot be looked at.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "a directory, not a file"
    if stat.S_ISFIFO(mode):
        return "a named pipe, which can be read only once, while a file is read by each peer that may run the source"
    return "a device or socket, which is empty or has no end, and not a file"


def beginning(path: Path, size: int, encoding: str = UTF8, known: Sequence[str] = ()) -> tuple[bytes, bool]:
    """Read the first ``size`` bytes of the text, or fewer if it is shorter, and whether that is the whole text.

    It is in UTF-8, see :func:`pieces`. ``known``: formats that the error names if the file is no text.

    Raises ValueError if the text cannot be read, see :func:`pieces`.
    """
    found = b""
    for piece in _in_utf8(_pieces(path, max(min(size, BLOCK), 512), encoding, known), path, encoding):
        found += piece
        if len(found) >= size:
            return found[:size], False
    return found, True


def bytes_between(path: Path, begin: int, end: int | None) -> Iterator[bytes]:
    """Yield the bytes of a file from one on and before another, as they are, in pieces of about :data:`BLOCK`.

    ``end``: None: up to the end of the file.
    """
    with path.open("rb") as file:
        file.seek(begin)
        at = begin
        while piece := file.read(BLOCK if end is None else min(BLOCK, end - at)):
            at += len(piece)
            yield piece


def likely_encoding(path: Path, stated: str = UTF8) -> str:
    """Return the encoding that a text seems to have by its beginning, for people to check.

    UTF-16 and UTF-8 are recognised. Other encodings cannot be told from each other: the ``stated`` one is taken if it
    reads the beginning, or else that of most such files, Windows-1252. Where all encodings would be the same, it is the
    stated one.

    Raises ValueError if the file cannot be read, or is no text.
    """
    data = next(_pieces(path, BLOCK, _WESTERN))
    if data[:2] in _UTF16:
        return "utf-16"
    if data.isascii():
        return stated if _reads(data, stated) else UTF8
    candidates = (UTF8, *([stated] if _reads(b"a", stated) else []), _WESTERN)
    return next((encoding for encoding in candidates if _reads(data, encoding)), UTF8)


def _reads(data: bytes, encoding: str) -> bool:
    """Whether the beginning of a text can be in an encoding, in which ASCII is as in UTF-8."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
        return b"a".decode(encoding) == "a"
    except (LookupError, UnicodeError):
        return False


def pieces(path: Path, encoding: str = UTF8) -> Iterator[bytes]:
    """Yield the unpacked bytes of a text trace in pieces of about :data:`BLOCK`; only the last may be shorter.

    A text in another ``encoding`` is converted to UTF-8; one that is in UTF-8 is not examined.

    Raises ValueError if the file is empty, packed by another program than gzip, damaged, cut off, or no text in this
    encoding.
    """
    return one_ahead(_in_utf8(_pieces(path, BLOCK, encoding), path, encoding), "trace-bytes")


def whole_lines(path: Path, encoding: str = UTF8) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a text trace in blocks, each with the number of its first line.

    Raises ValueError if the text cannot be read, see :func:`pieces`, or if a line is longer than :data:`LONGEST`.
    """
    number, rest = 1, b""
    for piece in pieces(path, encoding):
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


def is_packed(path: Path) -> bool:
    """Whether a file is gzipped."""
    return head(path)[:2] == _GZIP


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a gzipped file, whatever it is, in pieces of about :data:`BLOCK`.

    Raises ValueError if it is damaged or cut off.
    """
    with path.open("rb") as file:
        yield from _unzipped(file, path, BLOCK)


def too_long(path: Path, number: int, begin: int = 0) -> ValueError:
    """Make the error about a line that does not fit into memory; ``number``: from the byte ``begin`` on."""
    number += lines_up_to(path, begin)
    return ValueError(f"{path}: line {number}: longer than {LONGEST >> 20} MB; expected a text trace, line by line")


def lines_up_to(path: Path, begin: int) -> int:
    """Number of lines of a file, not packed, before those that begin from a byte on."""
    ends, left, last = 0, begin, b"\n"
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(BLOCK, left))):
            ends, left, last = ends + piece.count(b"\n"), left - len(piece), piece
    return ends if last.endswith(b"\n") else ends + 1


def _in_utf8(source: Iterator[bytes], path: Path, encoding: str) -> Iterator[bytes]:
    """Convert pieces of a text to UTF-8."""
    if is_utf8(encoding):
        yield from source
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 1
    final = False
    while not final:
        piece = next(source, b"")
        final = not piece
        try:
            text = decoder.decode(piece, final)
            data = text.encode()
        except UnicodeError as error:
            at = number + piece.count(b"\n", 0, getattr(error, "start", 0))
            raise ValueError(f"{path}: line {at}: {error}; expected text in encoding {encoding!r}") from None
        number += text.count("\n")
        yield data


def _pieces(path: Path, size: int, encoding: str, known: Sequence[str] = ()) -> Iterator[bytes]:
    start = head(path)
    packed = _packed(start)
    if packed:
        raise ValueError(f"{path}: packed by {packed}; expected a plain or gzipped trace, so unpack it first")
    if start[:4] == b"PAR1":
        raise ValueError(f"{path}: a Parquet file; expected text, or format 'parquet'")
    begun = False
    blank = b""  # white space so far: a file with nothing else is empty
    with path.open("rb") as file:
        for piece in _unzipped(file, path, size) if start[:2] == _GZIP else iter(lambda: file.read(size), b""):
            if begun:
                yield piece
                continue
            blank += piece
            if blank.strip():
                begun = True
                _check_text(path, blank, encoding, known)
                yield blank
                blank = b""
            elif len(blank) > LONGEST:
                raise too_long(path, 1)
    if not begun:
        raise ValueError(f"{path}: empty; expected a trace")


def _packed(start: bytes) -> str:
    """Program that has packed a file, by its first bytes; empty if no known program has."""
    if start[257:262] == b"ustar":
        return "tar"
    return next((program for mark, program in PACKED.items() if start.startswith(mark)), "")


def _check_text(path: Path, start: bytes, encoding: str, known: Sequence[str]) -> None:
    """Refuse what is no text, by the first bytes after unpacking."""
    packed = _packed(start[:512])
    if packed or start[:2] == _GZIP:
        program = packed or "gzip"
        raise ValueError(f"{path}: packed twice, first by {program}; expected a gzipped text, so unpack it first")
    if not is_utf8(encoding):
        return
    if start[:2] in _UTF16:
        raise ValueError(f"{path}: text in UTF-16; expected text in UTF-8, or encoding='utf-16'")
    if b"\0" in start[:512]:
        expected = f"one of the formats {', '.join(known)}" if known else "text"
        raise ValueError(f"{path}: binary data; expected {expected}")


def _unzipped(file: BinaryIO, path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a gzip file with one or several members, in pieces of ``size`` bytes or a little more."""
    before = held = 0
    begin, at, number = 0, 0, 1  # of a member: its first byte, that up to which it is read, and its number
    waiting: list[bytes] = []
    member = zlib.decompressobj(31)  # with gzip's header and checksum
    try:
        while packed := file.read(_READ):
            while packed:
                if member.eof:
                    at += len(packed)
                    packed = packed.lstrip(b"\0")  # padding between members
                    at -= len(packed)
                    if not packed:
                        break
                    member, begin, number = zlib.decompressobj(31), at, number + 1
                text = member.decompress(packed, size)
                left = member.unconsumed_tail or member.unused_data
                at, packed = at + len(packed) - len(left), left
                waiting.append(text)
                held += len(text)
                if held >= size:
                    yield b"".join(waiting)
                    before, held, waiting = before + held, 0, []
        if not member.eof:
            raise EOFError("it ends before its end-of-stream mark")
    except (EOFError, zlib.error) as error:
        where = f" in its member {number}, which begins at byte {begin:,}" if number > 1 else ""
        raise ValueError(
            f"{path}: damaged or cut-off gzip file after {before + held} bytes of text{where} ({error}); expected a "
            "whole one"
        ) from None
    if waiting:
        yield b"".join(waiting)
