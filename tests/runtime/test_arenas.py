"""Shared memory of peers of one machine: written once, read in place; references that cannot be read."""

from __future__ import annotations

import gc
import os

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow import tuples
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, Reference
from synergy_nb.runtime.transport.arenas import ALIGNED, LEAST, SPARE, Arenas, StaleReference, Views, machine

pytestmark = pytest.mark.skipif(not machine(), reason="this system has no memory that processes can share by reference")


def table(rows: int) -> pl.DataFrame:
    numbers = pl.int_range(rows, dtype=pl.Int64, eager=True)
    return pl.DataFrame(
        {
            "time": numbers.cast(pl.Datetime("us")),
            "v": numbers,
            "name": pl.select(
                pl.when(numbers % 3 > 0).then(pl.concat_str(pl.lit("a long name "), numbers))
            ).to_series(),
            "yes": numbers % 2 == 0,
        }
    )


def chunk(rows: int, position: int = 0) -> Chunk:
    (made,) = chunks_of([Batch(table(rows), position, 1.5)], ORIGIN._replace(position=position))
    return made


def read(payload: bytes | None, views: Views) -> Item:
    assert payload is not None
    return tuples.decode(payload, views.table)


def reference(payload: bytes | None) -> Reference:
    found: list[Reference] = []

    def take(to: Reference) -> pl.DataFrame:
        found.append(to)
        return table(1)

    assert payload is not None
    tuples.decode(payload, take)
    return found[0]


def test_a_large_batch_is_read_where_it_was_written() -> None:
    arenas, views = Arenas(), Views()
    chunks = [chunk(20_000), chunk(30_000, 20_000), chunk(400_000, 50_000)]
    for each in chunks:
        arenas.encode(each)
        assert each.region is not None
        assert each.payload is not None
        assert len(each.payload) < 300
    assert [read(each.payload, views) for each in chunks] == [each.item for each in chunks]
    places = [reference(each.payload) for each in chunks]
    assert places[0].number == places[1].number, "one arena has room for both"
    assert places[1].start % ALIGNED == 0


def test_small_batches_and_punctuations_are_sent() -> None:
    arenas = Arenas()
    small, promise = chunk(LEAST // 100), chunks_of([Punctuation(5, 0, 0.0)], ORIGIN)[0]
    arenas.encode(small)
    assert small.region is None
    assert small.payload is not None
    assert tuples.decode(small.payload) == small.item
    arenas.encode(promise)
    assert (promise.region, promise.payload) == (None, None), "it is sent as its points"


@pytest.mark.slow
def test_a_read_batch_stays_valid_after_its_producer_released_it() -> None:
    arenas, views = Arenas(), Views()
    one = chunk(20_000)
    arenas.encode(one)
    payload, wanted = one.payload, one.item
    item = read(payload, views)
    file = opened(reference(payload).number)
    one.region = None
    del arenas
    gc.collect()
    assert file is not None
    assert not is_open(file)
    assert item == wanted
    with pytest.raises(StaleReference, match=r"expected an arena|was removed"):  # or its number is another's by now
        read(payload, Views())


def test_references_outside_the_arena_are_refused() -> None:
    arenas, views = Arenas(), Views()
    one = chunk(20_000)
    arenas.encode(one)
    right = reference(one.payload)
    assert isinstance(one.item, Batch)
    file = os.open("/dev/null", os.O_RDONLY)
    try:
        for wrong, error in (
            ({"token": b"0" * 16}, StaleReference),
            ({"number": file}, StaleReference),
            ({"number": 1 << 20}, StaleReference),
            ({"process": 1 << 22}, StaleReference),
            ({"start": 0}, ValueError),
            ({"size": 1 << 40}, ValueError),
            ({"size": -1}, ValueError),
            ({"start": right.start + 8}, ValueError),
        ):
            payload = tuples.encode_reference(one.item, msgspec.structs.replace(right, **wrong))
            with pytest.raises(error, match=r"expected|removed|reference"):
                read(payload, views)
    finally:
        os.close(file)
    assert read(one.payload, views) == one.item
    with pytest.raises(ValueError, match="a reference to memory of another process; expected a table"):
        tuples.decode(one.payload or b"")


def fill(arenas: Arenas) -> tuple[bytes, int]:
    """Write a batch that takes most of an arena, let go of it, and say where it was."""
    one = chunk(200_000)
    arenas.encode(one)
    assert one.payload is not None
    return one.payload, reference(one.payload).number


def test_an_arena_is_reused_once_its_batches_are_released() -> None:
    arenas, views = Arenas(), Views()
    kept = chunk(200_000)
    arenas.encode(kept)  # its log keeps it
    first, number = fill(arenas)
    assert fill(arenas)[1] == number, "nobody needs it"
    with pytest.raises(StaleReference, match="removed"):
        read(first, views)
    assert read(kept.payload, views) == kept.item


@pytest.mark.slow
def test_an_arena_with_readers_is_not_overwritten() -> None:
    arenas, views = Arenas(), Views()
    payload, number = fill(arenas)
    item = read(payload, views)
    column = item.table.get_column("v") if isinstance(item, Batch) else None  # as an operator may keep it
    del item, views
    gc.collect()
    assert number not in {fill(arenas)[1] for _ in range(5)}
    assert column is not None
    assert column.to_list() == list(range(200_000))
    del column
    gc.collect()
    assert number in {fill(arenas)[1] for _ in range(5)}


@pytest.mark.slow
def test_the_number_of_full_arenas_is_bounded() -> None:
    arenas = Arenas()
    held = [chunk(200_000) for _ in range(12)]
    for each in held:
        arenas.encode(each)
    files = {opened(reference(each.payload).number) for each in held}
    assert len(files - {None}) == 12
    held.clear()
    del each
    gc.collect()
    for _ in range(3):
        fill(arenas)
    assert 0 < len([file for file in files if is_open(file)]) <= SPARE + 2
    arenas.release_unused()
    gc.collect()
    assert not any(map(is_open, files))


def opened(number: int) -> tuple[int, int, int] | None:
    """What is open by a number, and that number; another thread may open something else by it once it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return number, found.st_dev, found.st_ino


def is_open(file: tuple[int, int, int] | None) -> bool:
    return file is not None and opened(file[0]) == file
