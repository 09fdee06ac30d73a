"""Sorted inputs: what they release is a function of the tuples, and held to a literal sort."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.replicas import _sorted_input as sorted_input
from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput
from synergy_nb.dataflow.tuples import END, TYPES, Batch, Item, Punctuation, decode_table, encode, encode_table
from tests.quick_cases import quick_first

SCHEMA = {"time": "time", "text": "str", "value": "float", "count": "int", "flag": "bool", "data": "bytes"}
NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]  # another NaN than math.nan, and negative
VALUES: dict[str, list[Any]] = {
    "text": ["", "a", "é", "z", None],
    "value": [0.0, -0.0, 1.5, -math.inf, math.inf, math.nan, NAN, None],
    "count": [-1, 0, 7, None],
    "flag": [True, False, None],
    "data": [b"", b"\0", b"\xff", None],
}
Row = tuple[Any, ...]


def rows_at(rng: random.Random, times: Iterable[int]) -> list[Row]:
    return [(time, *(rng.choice(choices) for choices in VALUES.values())) for time in times]


def table_of(rows: list[Row]) -> pl.DataFrame:
    kinds: dict[str, Any] = {name: TYPES[kind] for name, kind in SCHEMA.items()}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def place(value: Any) -> Row:
    """The place of a value in its column: NaN behind all numbers, and NULL behind all."""
    if value is None or value in (True, False):
        return (value is None, False, value or 0)
    nan = isinstance(value, float) and math.isnan(value)
    return (False, nan, 0 if nan else value)


def key(row: Row) -> Row:
    """The order of a row: by time, then column by column."""
    return (row[0], *map(place, row[1:]))


def plain(value: object) -> object:
    """A value in its one form: floats as their bits, 0.0 for -0.0, and one NaN."""
    if not isinstance(value, float):
        return value
    return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)


def bits(row: Row) -> str:
    return repr(tuple(struct.pack("<d", each) if isinstance(each, float) else each for each in row))


def by_hand(rows: list[Row]) -> list[str]:
    return [repr(tuple(map(plain, row))) for row in sorted(rows, key=key)]


def released(items: Iterable[Item]) -> list[str]:
    found = []
    for item in items:
        if isinstance(item, Batch):
            times = item.table["time"].cast(pl.Int64)
            found += [bits((time, *row[1:])) for time, row in zip(times, item.table.rows(), strict=True)]
    return found


def schedule(rng: random.Random, rows: list[Row], batch: int) -> list[Item]:
    """A random order of arrival, random batches, and a random part of the punctuations that it permits."""
    left = list(rows)
    rng.shuffle(left)
    left.sort(key=lambda row: row[0] + rng.randint(0, 4))
    items: list[Item] = []
    while left:
        size = rng.randint(1, batch)
        items.append(Batch(table_of(left[:size]), len(rows) - len(left), float(len(items))))
        left = left[size:]
        if left and rng.random() < 0.4:
            items.append(Punctuation(min(row[0] for row in left), len(rows) - len(left), float(len(items))))
    return [*items, Punctuation(END, len(rows), float(len(items)))]


@pytest.mark.parametrize("seed", range(30))
def test_tuples_leave_in_the_same_order_whatever_the_order_batches_and_punctuations_were(seed: int) -> None:
    rng = random.Random(seed)
    rows = rows_at(rng, (rng.randrange(12) for _ in range(rng.randint(1, 120))))
    wanted = by_hand(rows)
    arrived = set()
    for batch in (1, 7, 200):
        items = schedule(rng, rows, batch)
        arrived.add(tuple(released(items)))
        held = SortedInput()
        given = [each for item in items for each in held.receive(item)]
        assert released(given) == wanted
        position = 0
        for item in given:
            assert item.position == position
            position = item.end_position if isinstance(item, Batch) else position
        assert held.rows == held.nbytes == held.late == 0, "nothing is held after the end"
    assert len(rows) < 20 or len(arrived) > 1, "the orders of arrival differed"


def test_equal_times_are_ordered_by_the_whole_tuple() -> None:
    """Toy 8 of the oracle: equal stamps, arrival reversed in one replica."""
    rows = rows_at(random.Random(3), [5] * 40)
    found = []
    for arrival in (rows, rows[::-1]):
        held = SortedInput()
        for row in arrival:
            assert held.receive(Batch(table_of([row]), 0, 0.0)) == []
        found.append(released(held.receive(Punctuation(6, 40, 0.0))))
    assert found[0] == found[1] == by_hand(rows)


def test_a_punctuation_releases_exactly_the_tuples_before_it() -> None:
    held = SortedInput()
    held.receive(Batch(table_of(rows_at(random.Random(0), [4, 2, 3, 3])), 0, 7.0))
    held.receive(Batch(table_of(rows_at(random.Random(1), [9, 2])), 4, 5.0))
    batch, promise = held.receive(Punctuation(3, 6, 8.0))
    assert isinstance(batch, Batch)
    assert (batch.rows, batch.position, batch.born) == (2, 0, 5.0), "as old as the oldest of them"
    assert promise == Punctuation(3, 2, 8.0)
    assert held.receive(Punctuation(3, 6, 9.0)) == held.receive(Punctuation(2, 6, 9.0)) == []
    batch, promise = held.receive(Punctuation(5, 6, 9.0))
    assert isinstance(batch, Batch)
    assert (batch.rows, batch.position, batch.born, promise.position) == (3, 2, 7.0, 5)
    assert held.receive(Punctuation(6, 6, 9.0)) == [Punctuation(6, 5, 9.0)], "it passes with nothing to release"
    assert (held.rows, held.promise) == (1, 6)


def test_late_tuples_are_dropped_and_counted() -> None:
    held = SortedInput()
    held.receive(Punctuation(5, 0, 0.0))
    held.receive(Batch(table_of(rows_at(random.Random(0), [4, 5, 3, 6])), 0, 0.0))
    held.receive(Batch(table_of(rows_at(random.Random(0), [1])), 4, 0.0))
    assert (held.late, held.rows) == (3, 2)
    assert len(released(held.receive(Punctuation(END, 5, 0.0)))) == 2


def test_an_order_that_the_plan_states_precedes_the_order_of_columns() -> None:
    rows = rows_at(random.Random(4), [1] * 50 + [2] * 50)
    held = SortedInput([("count", True), ("flag", False)])
    held.receive(Batch(table_of(rows[::-1]), 0, 0.0))
    found = held.receive(Punctuation(END, 100, 0.0))[0]
    assert isinstance(found, Batch)

    def wanted(row: Row) -> Row:
        time, text, value, count, flag, data = row
        first = (count is None, -(count or 0), flag is None, flag or False)
        return (time, *first, *key((0, text, value, data)))

    assert released([found]) == [repr(tuple(map(plain, row))) for row in sorted(rows, key=wanted)]


@pytest.mark.parametrize("seed", quick_first(range(6), 1))
def test_a_restored_instance_goes_on_exactly(seed: int) -> None:
    """A copy takes only tables of numbers that it does not have."""
    rng = random.Random(seed)
    rows = rows_at(rng, (rng.randrange(40) for _ in range(300)))
    items = schedule(rng, rows, 9)
    held, given = SortedInput(), []
    tables: dict[int, bytes] = {}
    whole = by_hand(rows)
    for number, item in enumerate(items):
        given += held.receive(item)
        if rng.random() < 0.3:
            saved = held.save()
            tables = {number: tables.get(number) or encode_table(table) for number, table in saved.tables.items()}
            twin = SortedInput()
            twin.restore(SavedState(saved.head, {number: decode_table(data) for number, data in tables.items()}))
            assert (twin.rows, twin.promise, twin.late) == (held.rows, held.promise, held.late)
            rest = [each for item in items[number + 1 :] for each in twin.receive(item)]
            assert released([*given, *rest]) == whole
            if rng.random() < 0.5:
                held = SortedInput()
                held.restore(saved)
    assert released(given) == whole


@pytest.mark.slow
def test_a_tuple_is_saved_a_few_times_however_often_the_state_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_input, "RUN_ROWS", 256)
    monkeypatch.setattr(sorted_input, "TRIMMED", 8)
    held = SortedInput()
    rng = random.Random(5)
    known: set[int] = set()
    sent = 0
    for number in range(400):
        held.receive(Batch(table_of(rows_at(rng, (number + rng.randrange(100) for _ in range(4)))), 4 * number, 0.0))
        if number % 5 == 0:
            held.receive(Punctuation(number, 4 * number + 4, 0.0))
        tables = held.save().tables
        sent += sum(table.height for each, table in tables.items() if each not in known)
        known = set(tables)
        assert sum(table.height for table in tables.values()) <= 2 * held.rows, "released tuples are let go"
    assert sent <= 12 * 1600


def test_bytes_and_needs_are_those_of_the_tables() -> None:
    rng = random.Random(6)
    held = SortedInput()
    for number in range(60):
        batch = Batch(table_of(rows_at(rng, (number * 5 + rng.randrange(50) for _ in range(50)))), 50 * number, 0.0)
        for item in (batch, Punctuation(number * 5, 50 * number + 50, 0.0)):
            before, needs = held.nbytes, held.needs(item)
            made = sum(each.nbytes for each in held.receive(item) if isinstance(each, Batch))
            assert made + max(held.nbytes - before, 0) <= needs + 20_000
            tables = held.save().tables.values()
            assert sum(table.estimated_size() for table in tables) <= held.nbytes
    assert held.needs(Punctuation(1, 0, 0.0)) == 0.0, "nothing that it holds is so early"


def test_what_is_left_of_a_run_that_is_released_for_the_most_part_is_copied_and_leaves_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorted_input, "TRIMMED", 8)
    rows = rows_at(random.Random(8), range(50))
    held = SortedInput()
    held.receive(Batch(table_of(rows), 0, 0.0))
    for until, kept in ((20, 50), (40, 10)):
        held.receive(Punctuation(until, 50, 0.0))
        assert [table.height for table in held.save().tables.values()] == [kept]
    assert released(held.receive(Punctuation(END, 50, 0.0))) == by_hand(rows[40:])


def test_a_large_release_comes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_input, "OUTPUT_ROWS", 16)
    rows = rows_at(random.Random(7), range(50))
    held = SortedInput()
    held.receive(Batch(table_of(rows), 0, 0.0))
    given = held.receive(Punctuation(END, 50, 0.0))
    assert [each.rows for each in given if isinstance(each, Batch)] == [16, 16, 16, 2]
    assert released(given) == by_hand(rows)
    assert all(encode(each) for each in given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: SavedState(b"\xc1", saved.tables), "saved state: b'.xc1'; expected that of a sorted input"),
        (lambda saved: SavedState(saved.head, {}), r"saved state: tables \[\]; expected table 0 among them"),
        (lambda saved: SavedState(saved.head, {0: table_of([])}), "table 0: 0 tuples with time, text"),
    ],
)
def test_another_state_is_refused_by_name(change: Any, message: str) -> None:
    held = SortedInput()
    held.receive(Batch(table_of(rows_at(random.Random(8), [1, 2])), 0, 0.0))
    with pytest.raises(ValueError, match=message):
        SortedInput().restore(change(held.save()))
