"""The form of frames on the wire.

A frame is

    magic (1 byte) | version (1) | length of the header (4) | CRC-32 of the header (4) | header | payloads

The header is MessagePack: the frame, with the length of each payload in the place of the payload. Payloads are items as
:func:`synergy_nb.dataflow.tuples.encode` writes them, each with a checksum of its own, so a chunk is encoded once for
all its readers. States of operators are payloads, too. Nothing is decoded before its checksum is right, and no
length is believed before it is compared with what is there.

Examples
--------
>>> from synergy_nb.dataflow.streams.frames import Recall
>>> from synergy_nb.dataflow.streams.values import Output
>>> frame = Recall(Output("app", "join", 0, 1), 7)
>>> decode(encode(frame)) == frame
True
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from synergy_nb.dataflow import tuples
from synergy_nb.dataflow.streams.frames import (
    Ack,
    Data,
    Determinants,
    Frame,
    Recall,
    State,
    Subscribe,
    Unsubscribe,
)
from synergy_nb.dataflow.streams.values import Chunk, Determinant, Output, Point, Reader, Run

__all__ = ["decode", "encode"]

_PREFIX: Final = struct.Struct("<BBII")
_MAGIC: Final = 0x5F
_VERSION: Final = 1


class _Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk without its item: where it begins and ends, its size, its determinants, and the bytes of the item."""

    start: Point
    end: Point
    size: int
    determinants: tuple[Determinant, ...]
    length: int


class _Data(msgspec.Struct, frozen=True, tag="data"):
    output: Output
    reader: Reader
    start: Point
    pieces: tuple[_Piece, ...]
    began: bool
    trimmed: Point


class _State(msgspec.Struct, frozen=True, tag="state"):
    output: Output
    reader: Reader
    number: int
    inputs: tuple[Point, ...]
    end: Point
    trimmed: Point
    length: int
    check: int
    order: tuple[Run, ...]
    causes: tuple[Determinant, ...]


_Header = _Data | _State | Ack | Subscribe | Unsubscribe | Recall | Determinants
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Header).decode


def encode(frame: Frame) -> bytes:
    """The bytes of a frame; items that have not been encoded yet are, and stay so."""
    return b"".join(parts(frame))


def parts(frame: Frame) -> Iterator[bytes]:
    """The bytes of a frame in several pieces, none of which is copied."""
    payloads: list[bytes] = []
    header: _Header
    match frame:
        case Data():
            payloads = [_payload(chunk) for chunk in frame.chunks]
            pieces = tuple(
                _Piece(chunk.start, chunk.end, chunk.size, chunk.determinants, len(payload))
                for chunk, payload in zip(frame.chunks, payloads, strict=True)
            )
            header = _Data(frame.output, frame.reader, frame.start, pieces, frame.began, frame.trimmed)
        case State():
            payloads = [frame.logic]
            header = _State(
                output=frame.output,
                reader=frame.reader,
                number=frame.number,
                inputs=frame.inputs,
                end=frame.end,
                trimmed=frame.trimmed,
                length=len(frame.logic),
                check=zlib.crc32(frame.logic),
                order=frame.order,
                causes=frame.causes,
            )
        case _:
            header = frame
    data = _encode(header)
    yield _PREFIX.pack(_MAGIC, _VERSION, len(data), zlib.crc32(data))
    yield data
    yield from payloads


def _payload(chunk: Chunk) -> bytes:
    if chunk.payload is None:
        chunk.payload = tuples.encode(chunk.item)
    return chunk.payload


def decode(data: bytes | bytearray | memoryview) -> Frame:
    """The frame that :func:`encode` wrote.

    Raises
    ------
    ValueError
        If ``data`` is anything else; the text says which part was wrong.
    """
    view = memoryview(data)
    begin, check = tuples.header_of(view, "frame", _PREFIX, _MAGIC, _VERSION)
    found = zlib.crc32(view[_PREFIX.size : begin])
    if found != check:
        raise ValueError(f"frame: checksum {found:#010x}; expected {check:#010x}: it was damaged")
    try:
        header = _decode(view[_PREFIX.size : begin])
    except msgspec.MsgspecError as error:
        raise ValueError(f"frame: {error}") from None
    rest = view[begin:]
    match header:
        case _Data():
            lengths = [piece.length for piece in header.pieces]
            chunks = tuple(
                _chunk(piece, payload) for piece, payload in zip(header.pieces, _cut(rest, lengths), strict=True)
            )
            return Data(header.output, header.reader, header.start, chunks, header.began, header.trimmed)
        case _State():
            (logic,) = _cut(rest, [header.length])
            if (found := zlib.crc32(logic)) != header.check:
                raise ValueError(
                    f"frame: checksum {found:#010x} of a state; expected {header.check:#010x}: it was damaged"
                )
            return State(
                output=header.output,
                reader=header.reader,
                number=header.number,
                inputs=header.inputs,
                end=header.end,
                trimmed=header.trimmed,
                logic=bytes(logic),
                order=header.order,
                causes=header.causes,
            )
        case Ack() | Subscribe() | Unsubscribe() | Recall() | Determinants():
            list(_cut(rest, []))
            return header
    raise TypeError(f"header: {type(header).__name__}; expected one of the frames")


def _cut(view: memoryview, lengths: list[int]) -> Iterator[memoryview]:
    """The payloads, which have to take all bytes that are there."""
    expected = sum(lengths)
    if min(lengths, default=0) < 0 or expected != len(view):
        raise ValueError(f"frame: {len(view)} bytes of payload; expected {expected}")
    for length in lengths:
        yield view[:length]
        view = view[length:]


def _chunk(piece: _Piece, payload: memoryview) -> Chunk:
    item = tuples.decode(payload)
    rows = item.rows if isinstance(item, tuples.Batch) else 0
    if item.position != piece.start.position or piece.end.position - piece.start.position != rows:
        place = f"{piece.start.position} to {piece.end.position}"
        raise ValueError(f"frame: item of {rows} tuples from position {item.position}; expected one from {place}")
    return Chunk(piece.start, piece.end, item, piece.size, piece.determinants)
