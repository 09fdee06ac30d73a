"""The encoding of frames on the wire.

A frame is

    magic (1 byte) | version (1) | length of the header (4) | CRC-32 of the header (4) | header | payloads

The header is MessagePack: the frame, with the length of each payload instead of the payload. Payloads are batches as
:func:`synergy_nb.dataflow.tuples.encode` writes them, each with its own checksum, so a chunk is encoded once for
all its readers. A punctuation has no payload, as the points of its chunk say all but when it was born. Pieces of
snapshots are payloads, too. Nothing is decoded before its checksum has been verified, and no length is used before it
has been compared with the bytes received.

Examples
--------
>>> from synergy_nb.dataflow.streams.log.frames import Recall
>>> from synergy_nb.dataflow.streams.log.values import Output
>>> frame = Recall(Output("app", "join", 1), 7)
>>> decode(encode(frame)) == frame
True
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from synergy_nb.dataflow import tuples
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Determinants,
    Frame,
    LastOrder,
    PieceReply,
    PieceRequest,
    Recall,
    Subscribe,
    Unsubscribe,
)
from synergy_nb.dataflow.streams.log.state_pieces import Part, Piece
from synergy_nb.dataflow.streams.log.values import (
    COPY,
    CarriedRate,
    Chunk,
    Determinant,
    Loss,
    OrderRun,
    Output,
    Point,
    Reader,
    SourcePlace,
    encoded,
)

__all__ = ["decode", "encode", "encoded_parts"]

_PREFIX: Final = struct.Struct("<BBII")
_MAGIC: Final = 0x5F
_VERSION: Final = 7
PROMISE: Final = -1  # stands for the length of the payload that a punctuation does not have


class _Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk without its batch, of which it has the number of bytes, or with all of its punctuation."""

    start: Point
    end: Point
    size: int
    determinants: tuple[Determinant, ...]
    losses: tuple[Loss, ...]
    rates: tuple[CarriedRate, ...]
    length: int  # or `PROMISE`
    born: float  # of a punctuation; a batch has its own
    place: SourcePlace | None  # only for copies


class _Data(msgspec.Struct, frozen=True, tag="data"):
    output: Output
    reader: Reader
    start: Point
    chunks: tuple[_Chunk, ...]
    began: bool
    trimmed: Point
    end: Point
    losses: tuple[Loss, ...]
    latest: int
    unasked: int


class _Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A piece of a snapshot without its bytes: its number, its checksum and its length."""

    number: int
    check: int
    length: int


class _PieceReply(msgspec.Struct, frozen=True, tag="piece_reply"):
    output: Output
    reader: Reader
    piece: _Piece


class _State(msgspec.Struct, frozen=True, tag="state"):
    output: Output
    reader: Reader
    number: int
    inputs: dict[int, Point]
    end: Point
    trimmed: Point
    head: bytes
    parts: tuple[Part, ...]
    enclosed: tuple[_Piece, ...]
    order: tuple[OrderRun, ...]
    causes: tuple[Determinant, ...]
    consumed: int
    dropped: int


_Header = (
    _Data | _State | _PieceReply | Ack | Subscribe | Unsubscribe | PieceRequest | Recall | Determinants | LastOrder
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Header).decode


def encode(frame: Frame, *, near: bool = False) -> bytes:
    """Encode a frame; chunks retain the encoded form of their items.

    ``near``: whether the receiver shares memory with this peer, and can read batches there.
    """
    return b"".join(encoded_parts(frame, near=near))


def encoded_parts(frame: Frame, *, near: bool = False) -> list[bytes]:
    """Encode a frame as :func:`encode` does, in parts that follow one another: payloads are not copied."""
    payloads: list[bytes] = []
    header: _Header
    match frame:
        case Data():
            chunks: list[_Chunk] = []
            copies = frame.reader.port == COPY
            for chunk in frame.chunks:
                place = chunk.place if copies else None
                carried = (chunk.determinants, chunk.losses, chunk.rates)
                if not chunk.rows:
                    chunks.append(_Chunk(chunk.start, chunk.end, chunk.size, *carried, PROMISE, chunk.born, place))
                    continue
                payload = chunk.payload
                if payload is None or (chunk.region is not None and not near):
                    encoded(chunk)
                    payload = chunk.payload
                    assert payload is not None
                payloads.append(payload)
                chunks.append(_Chunk(chunk.start, chunk.end, chunk.size, *carried, len(payload), 0.0, place))
            header = _Data(
                output=frame.output,
                reader=frame.reader,
                start=frame.start,
                chunks=tuple(chunks),
                began=frame.began,
                trimmed=frame.trimmed,
                end=frame.end,
                losses=frame.losses,
                latest=frame.latest,
                unasked=frame.unasked,
            )
        case ComponentState():
            payloads = [piece.data for piece in frame.enclosed]
            header = _State(
                output=frame.output,
                reader=frame.reader,
                number=frame.number,
                inputs=frame.inputs,
                end=frame.end,
                trimmed=frame.trimmed,
                head=frame.head,
                parts=frame.parts,
                enclosed=tuple(map(_outline, frame.enclosed)),
                order=frame.order,
                causes=frame.causes,
                consumed=frame.consumed,
                dropped=frame.dropped,
            )
        case PieceReply():
            payloads = [frame.piece.data]
            header = _PieceReply(frame.output, frame.reader, _outline(frame.piece))
        case _:
            header = frame
    data = _encode(header)
    return [_PREFIX.pack(_MAGIC, _VERSION, len(data), zlib.crc32(data)), data, *payloads]


def _outline(piece: Piece) -> _Piece:
    return _Piece(piece.number, piece.check, len(piece.data))


def decode(
    data: bytes | bytearray | memoryview,
    item_of: Callable[[memoryview], tuples.Item] = tuples.decode,  # decoder of an item
) -> Frame:
    """Decode a frame that :func:`encode` wrote.

    Raises ``ValueError`` if ``data`` is not a valid frame; the message names the wrong part.
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
            chunks: list[Chunk] = []
            payloads = iter(_cut(rest, [each.length for each in header.chunks if each.length != PROMISE]))
            for outline in header.chunks:
                if outline.length == PROMISE:
                    item: tuples.Item = tuples.Punctuation(outline.end.until, outline.start.position, outline.born)
                else:
                    item = item_of(next(payloads))
                chunks.append(_chunk(outline, item))
            return Data(
                header.output,
                header.reader,
                header.start,
                tuple(chunks),
                header.began,
                header.trimmed,
                header.end,
                header.losses,
                header.latest,
                header.unasked,
            )
        case _State():
            enclosed = _pieces(header.enclosed, rest)
            return ComponentState(
                output=header.output,
                reader=header.reader,
                number=header.number,
                inputs=header.inputs,
                end=header.end,
                trimmed=header.trimmed,
                head=header.head,
                parts=header.parts,
                enclosed=enclosed,
                order=header.order,
                causes=header.causes,
                consumed=header.consumed,
                dropped=header.dropped,
            )
        case _PieceReply():
            (piece,) = _pieces((header.piece,), rest)
            return PieceReply(header.output, header.reader, piece)
        case Ack() | Subscribe() | Unsubscribe() | PieceRequest() | Recall() | Determinants() | LastOrder():
            _cut(rest, [])
            return header
    raise TypeError(f"header: {type(header).__name__}; expected one of the frames")


def _cut(view: memoryview, lengths: list[int]) -> list[memoryview]:
    """Cut the payloads apart; together they have to use all bytes."""
    expected = sum(lengths)
    if min(lengths, default=0) < 0 or expected != len(view):
        raise ValueError(f"frame: {len(view)} bytes of payload; expected {expected}")
    payloads: list[memoryview] = []
    for length in lengths:
        payloads.append(view[:length])
        view = view[length:]
    return payloads


def _pieces(outlines: tuple[_Piece, ...], view: memoryview) -> tuple[Piece, ...]:
    """Return the pieces of a snapshot, after verifying their checksums."""
    pieces: list[Piece] = []
    for outline, data in zip(outlines, _cut(view, [outline.length for outline in outlines]), strict=True):
        if (found := zlib.crc32(data)) != outline.check:
            raise ValueError(
                f"frame: checksum {found:#010x} of a piece; expected {outline.check:#010x}: it was damaged"
            )
        pieces.append(Piece(outline.number, bytes(data), outline.check))
    return tuple(pieces)


def _chunk(outline: _Chunk, item: tuples.Item) -> Chunk:
    rows = item.rows if isinstance(item, tuples.Batch) else 0
    if item.position != outline.start.position or outline.end.position - outline.start.position != rows:
        place = f"{outline.start.position} to {outline.end.position}"
        raise ValueError(f"frame: item of {rows} tuples from position {item.position}; expected one from {place}")
    chunk = Chunk(outline.start, outline.end, item, outline.size, outline.determinants, outline.losses, outline.rates)
    if outline.place is not None:
        if outline.place.position > outline.end.position:
            found = f"a source's place at position {outline.place.position}"
            raise ValueError(f"frame: {found} of a chunk; expected at most {outline.end.position}, where it ends")
        chunk.place = outline.place
    return chunk
