"""Items whose table is in memory that peers share: only where it is goes over the wire."""

from __future__ import annotations

import polars as pl
import pytest

from synergy_nb.dataflow.tuples import Batch, Punctuation, Reference, decode, encode, encode_reference

THERE = Reference(7, 3, b"token", 128, 64)


def batch() -> Batch:
    return Batch(pl.DataFrame({"time": pl.Series([1, 2], dtype=pl.Datetime("us")), "v": [3, 4]}), 5, 0.25)


def test_a_reference_is_decoded_to_the_table_that_is_there() -> None:
    asked: list[Reference] = []

    def table_of(to: Reference) -> pl.DataFrame:
        asked.append(to)
        return batch().table

    found = decode(encode_reference(batch(), THERE), table_of)
    assert asked == [THERE]
    assert isinstance(found, Batch)
    assert (found.position, found.born) == (5, 0.25)
    assert found.table.equals(batch().table)


def test_a_reference_is_refused_where_memory_is_not_shared_or_bytes_follow_it() -> None:
    encoded = encode_reference(batch(), THERE)
    with pytest.raises(ValueError, match="a reference to memory of another process; expected a table"):
        decode(encoded)
    with pytest.raises(ValueError, match=r"item: checksum|reference: 1 bytes after its header"):
        decode(encoded + b"x", lambda _: batch().table)


@pytest.mark.parametrize("flipped", [0, 1, 4, -1])
def test_a_damaged_punctuation_is_refused_and_a_whole_one_is_equal(flipped: int) -> None:
    item = Punctuation(9, 4, 0.5)
    encoded = bytearray(encode(item))
    assert decode(encoded) == item
    encoded[flipped] ^= 0xFF
    with pytest.raises(ValueError, match="item"):
        decode(encoded)
