"""Batches and punctuations: what they are, their bytes, and what is refused."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import zlib
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.tuples import (
    END,
    TYPES,
    Batch,
    Item,
    Punctuation,
    conform,
    decode,
    decode_table,
    empty,
    encode,
    encode_table,
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(),
    "str": st.text(max_size=30),
    "bool": st.booleans(),
    "time": st.integers(-(2**62), 2**62),
    "bytes": st.binary(max_size=30),
}


@st.composite
def tables(draw: Any) -> pl.DataFrame:
    """Tables of any columns beside ``time``."""
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(st.text(min_size=1, max_size=5).filter(lambda name: name != "time"), unique=True, max_size=4))
    columns = {"time": ("time", draw(st.lists(VALUES["time"], min_size=rows, max_size=rows)))}
    for name in names:
        kind = draw(st.sampled_from(sorted(VALUES)))
        columns[name] = (kind, draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)))
    return pl.DataFrame(
        [
            pl.Series(name, values, dtype=pl.Int64() if kind == "time" else TYPES[kind]).cast(TYPES[kind])
            for name, (kind, values) in columns.items()
        ]
    )


numbers = st.floats(allow_nan=False)
batches = st.builds(Batch, tables(), st.integers(0, 2**63 - 1), numbers)
punctuations = st.builds(Punctuation, st.integers(-(2**63), END), st.integers(0, 2**63 - 1), numbers)


@pytest.mark.slow
@settings(max_examples=80)
@given(batches | punctuations)
def test_an_encoded_item_is_decoded_to_an_equal_one(item: Item) -> None:
    data = encode(item)
    assert decode(data) == item
    assert decode(memoryview(data)) == item
    assert decode(bytearray(data)) == item


@pytest.mark.parametrize("rows", [0, 1, 1000, 30_000])
def test_small_and_large_tables_take_different_writers_to_one_format(rows: int) -> None:
    """30,000 rows are more than the 512 KiB from which pyarrow writes."""
    table = sample(rows)
    batch = Batch(table, 7, 1.5)
    assert decode(encode(batch)) == batch
    assert decode_table(encode_table(table)).equals(table)
    assert pl.DataFrame(pa.ipc.open_stream(encode_table(table)).read_all()).equals(table), (
        "any Arrow reader can read it"
    )


def sample(rows: int) -> pl.DataFrame:
    rng = random.Random(rows)
    return pl.DataFrame(
        {
            "time": [rng.randrange(10**15) for _ in range(rows)],
            "n": [rng.choice([None, rng.randrange(1000)]) for _ in range(rows)],
            "x": [rng.random() for _ in range(rows)],
            "s": ["text longer than twelve bytes " + str(index % 97) for index in range(rows)],
        },
        schema={"time": pl.Int64(), "n": pl.Int64(), "x": pl.Float64(), "s": pl.String()},
    ).with_columns(pl.col("time").cast(TYPES["time"]))


def test_a_part_of_a_table_does_not_carry_the_rest() -> None:
    table = sample(5000)
    for part in (table.slice(100, 1), table.filter(pl.col("n") == 5).head(1)):
        assert len(encode(Batch(part, 0, 0.0))) < 2000


def test_a_batch_knows_its_size() -> None:
    batch = Batch(sample(10), 5, 1.0)
    assert (batch.rows, batch.position, batch.end_position) == (10, 5, 15)
    assert 10 * 8 * 3 <= batch.nbytes < 2000
    assert repr(batch) == "Batch(10 tuples from position 5, born 1.000000, time: time, n: int, x: float, s: str)"
    with pytest.raises(AttributeError):
        batch.position = 6  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(batch)


def test_batches_that_differ_in_one_field_are_not_equal() -> None:
    batch = Batch(sample(3), 5, 1.0)
    for other in (
        Batch(sample(3), 6, 1.0),
        Batch(sample(3), 5, 2.0),
        Batch(sample(2), 5, 1.0),
        Batch(sample(3).rename({"n": "m"}), 5, 1.0),
        Punctuation(5, 5, 1.0),
    ):
        assert batch != other
    assert batch == Batch(sample(3), 5, 1.0)
    assert Punctuation(END, 0, 0.0).ends
    assert not Punctuation(0, 0, 0.0).ends


def framed(header: Any, payload: bytes = b"", magic: int = 0x5E, version: int = 2) -> bytes:
    """Bytes of an item with a right checksum."""
    head = header if isinstance(header, bytes) else msgspec.msgpack.encode(header)
    return struct.pack("<BBHI", magic, version, len(head), zlib.crc32(payload, zlib.crc32(head))) + head + payload


def arrow(table: pl.DataFrame) -> bytes:
    return encode_table(table)


BATCH = ["batch", 0, 0.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "item: 0 bytes; expected at least 8"),
        (b"12345", "item: 5 bytes"),
        (b"HTTP/1.1 200 OK\r\n", "item: first byte 0x48; expected 0x5e"),
        (framed(BATCH, version=9), "item: format version 9; expected 2"),
        (framed(BATCH)[:10], "item: header of .* it was cut off"),
        (framed(["punctuation", 1, 2, 3.0]) + b"x", "item: checksum .* damaged or cut off"),
        (framed(b"\xc1"), "item: header: "),
        (framed(["message", 1]), "item: header: Invalid value 'message'"),
        (framed(["punctuation", "now", 2, 3.0]), r"item: header: Expected `int`, got `str`"),
        (framed(["punctuation", 1, -2, 3.0]), "item: position -2; expected at least 0"),
        (framed(["punctuation", 1, 2, 3.0], b"more"), "punctuation: 4 bytes after its header; expected none"),
        (framed(BATCH), "table: no Arrow IPC stream"),
        (framed(BATCH, b"garbage" * 10), "table: no Arrow IPC stream"),
        (framed(BATCH, arrow(pl.DataFrame({"n": [1]}))), "batch: column 'time': no such column; expected Datetime"),
        (framed(BATCH, arrow(pl.DataFrame({"time": [1]}))), "batch: column 'time': Int64; expected Datetime"),
        (
            framed(BATCH, arrow(pl.DataFrame({"time": pl.Series([1, None]).cast(TYPES["time"])}))),
            "column 'time': 1 of 2 tuples have none; expected an event time in each",
        ),
        (
            framed(BATCH, arrow(empty({"time": "time"}).with_columns(n=pl.lit(1, pl.Int32)))),
            "table: column 'n': type Int32; expected one of int, float, str, bool, time, bytes",
        ),
    ],
)
def test_bytes_that_are_no_item_are_refused_by_their_fault(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(data)


def test_only_items_are_encoded() -> None:
    with pytest.raises(TypeError, match="item: DataFrame; expected Batch or Punctuation"):
        encode(sample(1))  # type: ignore[arg-type]


def test_a_damaged_item_is_refused_whichever_byte_changed() -> None:
    """Any change of any byte and any cut is refused: the checksum sees it before Arrow does."""
    data = encode(Batch(sample(3), 1, 2.0))
    rng = random.Random(3)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match=r"item:|table:"):
            decode(damaged)
        with pytest.raises(ValueError, match="item:"):
            decode(data[:position])


def test_crafted_tables_with_a_right_checksum_are_refused_or_read_but_never_crash(
    capfd: pytest.CaptureFixture[str],
) -> None:
    payload = encode_table(sample(4))
    rng = random.Random(4)
    refused = 0
    for _ in range(400):
        crafted = bytearray(payload)
        for _ in range(rng.randint(1, 3)):
            crafted[rng.randrange(len(crafted))] = rng.randrange(256)
        try:
            decode(framed(BATCH, bytes(crafted)))
        except ValueError:
            refused += 1
    assert refused > 100
    capfd.readouterr()  # the reader's own assertions write to stderr before they are caught


def test_conform_casts_without_loss_and_names_other_columns() -> None:
    schema = {"time": "time", "n": "int", "x": "float"}
    table = pl.DataFrame({"x": [1, 2], "n": pl.Series([1, 2], dtype=pl.Int8), "time": [5, 6], "more": [0, 0]})
    fitted = conform(table, schema)
    assert fitted.schema == empty(schema).schema
    assert fitted.select("n", "x").rows() == [(1, 1.0), (2, 2.0)]
    assert conform(fitted, schema) is fitted
    with pytest.raises(ValueError, match="column 'n': missing; expected int, found x, time, more"):
        conform(table.drop("n"), schema)
    with pytest.raises(ValueError, match="column 'time': 2 of 2 tuples have none"):
        conform(table.with_columns(time=pl.lit(None, pl.Int64())), schema)
    with pytest.raises(ValueError, match="column 'n': String; expected int: conversion"):
        conform(table.with_columns(n=pl.lit("one")), schema)


WRITTEN_AND_READ = """
import sys, threading
import polars as pl
from synergy_nb.dataflow.tuples import encode_table

table = pl.DataFrame({"a": range(50), "b": [str(number) for number in range(50)]})
reading = True

def write():
    while reading:
        encode_table(table)

thread = threading.Thread(target=write)
thread.start()
sys.setswitchinterval(1e-5)
for _ in range(100_000):
    table.height
reading = False
thread.join()
"""


@pytest.mark.slow
def test_a_batch_may_be_encoded_while_another_thread_looks_at_it() -> None:
    """In a process of its own: two threads that wait for one another also hold up whoever would tell."""
    subprocess.run([sys.executable, "-c", WRITTEN_AND_READ], check=True, timeout=200.0)
