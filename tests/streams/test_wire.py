"""The wire form of frames: what is written is read again, and nothing else is."""

from __future__ import annotations

import zlib

import polars as pl
import pytest

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
    ORIGIN,
    CarriedRate,
    Chunk,
    Determinant,
    OnLag,
    OrderRun,
    Output,
    Point,
    Reader,
    chunks_of,
)
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.dataflow.tuples import END, Batch, Punctuation

OUTPUT = Output("an/app > x", "join:é", 3)
READER = Reader("other", "sink", 1, "tcp://127.0.0.1:1", 2)
DETERMINANT = Determinant(
    OUTPUT.stream, ORIGIN, Point(3, 9), (OrderRun(0, Point(2, 5)), OrderRun(1, Point(7, 9))), ORIGIN
)


def chunks() -> tuple[Chunk, ...]:
    times = pl.Series("time", [1, 2, 3], dtype=pl.Int64).cast(pl.Datetime("us"))
    table = pl.DataFrame([times, pl.Series("text", ["a", "", "é"])])
    found = chunks_of([Batch(table, 0, 1.5), Punctuation(9, 3, 1.5), Punctuation(END, 3, 2.0)], ORIGIN)
    found[0].determinants = (DETERMINANT,)
    found[0].rates = (CarriedRate("an/app > x/join:é", 41.0, 0), CarriedRate("other/n", 0.0, 7))
    return tuple(found)


FRAMES: list[Frame] = [
    Data(OUTPUT, READER, ORIGIN),
    Data(OUTPUT, READER, Point(5, 7), (), True),
    Ack(OUTPUT, READER, Point(5, END), Point(4, 7), ORIGIN, 12, 0.25),
    Subscribe(OUTPUT, READER, None, OnLag.FAIL),
    Subscribe(OUTPUT, READER._replace(port=COPY), Point(3, 4), OnLag.RESYNC),
    Unsubscribe(OUTPUT, READER, "it reads too slowly"),
    ComponentState(
        output=OUTPUT,
        reader=READER,
        number=4,
        inputs={0: Point(1, 2), 3: Point(3, 4)},
        end=Point(5, 6),
        trimmed=ORIGIN,
        head=b"head",
        parts=(Part(3, (7, 8)), Part(0, ())),
        enclosed=(Piece(7, b"seven", zlib.crc32(b"seven")), Piece(8, b"", 0)),
        order=DETERMINANT.runs,
        causes=(DETERMINANT,),
    ),
    ComponentState(OUTPUT, READER, 0, {}, ORIGIN, ORIGIN, b""),
    PieceRequest(OUTPUT, READER, 4, (8, 7)),
    PieceReply(OUTPUT, READER, Piece(8, b"eight", zlib.crc32(b"eight"))),
    Recall(OUTPUT, 7),
    Determinants(OUTPUT.stream, 7, (DETERMINANT,)),
    LastOrder(OUTPUT, "tcp://127.0.0.1:2", Point(3, 9), (DETERMINANT,)),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_encoded_items_are_decoded_equally(frame: Frame) -> None:
    found = decode(encode(frame))
    if isinstance(frame, Data):
        assert isinstance(found, Data)
        assert (found.output, found.reader, found.start, found.began) == (OUTPUT, READER, frame.start, frame.began)
    else:
        assert found == frame


def test_chunks_keep_positions_and_determinants_of_their_tuples() -> None:
    sent = chunks()
    found = decode(encode(Data(OUTPUT, READER, ORIGIN, sent)))
    assert isinstance(found, Data)
    for one, other in zip(sent, found.chunks, strict=True):
        assert (one.start, one.end, one.size) == (other.start, other.end, other.size)
        assert (one.determinants, one.rates) == (other.determinants, other.rates)
        assert one.item == other.item


def test_a_chunk_is_encoded_once_for_all_its_readers() -> None:
    sent = chunks()
    encode(Data(OUTPUT, READER, ORIGIN, sent))
    payloads = [chunk.payload for chunk in sent]
    encode(Data(OUTPUT, READER._replace(port=0), ORIGIN, sent))
    assert all(one is chunk.payload for one, chunk in zip(payloads, sent, strict=True))
    assert [payload is None for payload in payloads] == [False, True, True], "a punctuation is sent as its points"


@pytest.mark.parametrize("frame", [*FRAMES, Data(OUTPUT, READER, ORIGIN, chunks())], ids=lambda one: type(one).__name__)
def test_every_damaged_byte_is_detected(frame: Frame) -> None:
    data = encode(frame)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with pytest.raises(ValueError, match=r"frame|item"):
            decode(damaged)


@pytest.mark.parametrize("frame", [*FRAMES, Data(OUTPUT, READER, ORIGIN, chunks())], ids=lambda one: type(one).__name__)
def test_truncated_and_extended_chunks_are_refused(frame: Frame) -> None:
    data = encode(frame)
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"frame|item"):
            decode(data[:length])
    with pytest.raises(ValueError, match="payload"):
        decode(data + b"x")


def test_an_item_at_another_position_than_its_chunk_states_is_refused() -> None:
    batch = chunks()[0]
    elsewhere = Chunk(Point(4, 0), Point(7, 0), batch.item, batch.size)
    with pytest.raises(ValueError, match="item of 3 tuples from position 0; expected one from 4 to 7"):
        decode(encode(Data(OUTPUT, READER, ORIGIN, (elsewhere,))))
