"""The duplicate filter (algorithm 1): sequences step by step, and beside the literal algorithm, tuple by tuple."""

from __future__ import annotations

import copy
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.streams.replicas import _duplicate_kernel as duplicate_kernel
from synergy_nb.dataflow.streams.replicas import duplicate_code, duplicate_filter
from synergy_nb.dataflow.streams.replicas.duplicate_code import PLAIN
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, empty
from synergy_nb.models.compiled_modules import CompiledModule

Row: TypeAlias = tuple[int, str]
SCHEMA = {"time": "time", "name": "str"}


def batch(rows: Iterable[Sequence[Any]], schema: dict[str, str] = SCHEMA) -> Batch:
    return Batch(pl.DataFrame(list(rows), schema=empty(schema).schema, orient="row"), 0, 1.5)


def promise(p: int) -> Punctuation:
    """Punctuation p of the paper: every later tuple has a time above p, so none before p + 1 follows."""
    return Punctuation(p + 1, 0, 1.5)


def follow(merged: DuplicateFilter, steps: str) -> list[int]:
    """Execute steps such as ``S1(0,a)+`` (passes), ``S2(0,a)-`` (does not), ``S1 P0+``; return counters after each."""
    counters = []
    for step in steps.split("; "):
        stream, rest, expected = step[:2], step[2:-1].strip(), step[-1]
        item: Item
        if rest.startswith("P"):
            item = promise(int(rest[1:]))
        else:
            time, name = rest.strip("()").split(",", 1)
            item = batch([(int(time), name)])
        passed = merged.receive(stream, item)
        assert (passed is not None) == (expected == "+"), step
        if isinstance(passed, Batch):
            assert isinstance(item, Batch)
            assert passed.table.equals(item.table)
            assert passed.born == 1.5
        elif passed is not None:
            assert isinstance(item, Punctuation)
            assert passed.time == item.time
        counters.append(merged.counters)
    return counters


def two() -> DuplicateFilter:
    return DuplicateFilter(["S1", "S2"])


# -- sequences -------------------------------------------------------------------------------------------------------


def test_the_filter_passes_the_tuples_of_figure_1() -> None:
    steps = (
        "S1(0,B,80)+; S2(0,C,50)+; S1(1,B,90)+; S2(1,C,40)+; S1(0,C,50)-; S1 P0+; "
        "S2(0,B,80)-; S1(1,C,40)-; S2(1,B,90)-; S2 P0-; S2 P1+; S1 P1-"
    )
    assert follow(two(), steps) == [1, 2, 3, 4, 5, 2, 2, 3, 4, 4, 0, 0]


def test_a_tuple_that_each_stream_contains_three_times_passes_three_times() -> None:
    follow(two(), "S1(0,a)+; S1(0,a)+; S2(0,a)-; S2(0,a)-; S2(0,a)+; S1(0,a)-")


def test_the_other_stream_delivers_what_a_crashed_one_did_not() -> None:
    follow(two(), "S1(0,a)+; S2(0,a)-; S2(0,a)+")


def test_the_promise_of_a_stream_that_joined_in_mid_stream_does_not_count() -> None:
    merged = DuplicateFilter(["S1"])
    follow(merged, "S1(0,a)+; S1 P0+")
    merged.join("S2", 5)
    follow(merged, "S2(1,C,40)+; S2 P1-; S1(1,B,90)+; S1(1,C,40)-; S1 P1+")
    assert merged.promise == 2
    follow(merged, "S1(2,a)+; S2 P2-; S1 P2+")


@pytest.mark.parametrize("complete_from", [0, 1])
def test_a_stream_that_begins_with_what_followed_the_promise_counts_at_once(complete_from: int) -> None:
    merged = DuplicateFilter(["S1"])
    follow(merged, "S1(0,a)+; S1 P0+")
    merged.join("S2", complete_from)
    follow(merged, "S2(1,B,90)+; S2(1,C,40)+; S2 P1+; S1(1,B,90)-")


def test_a_stream_that_repeats_nothing_counts_once_another_has_promised_what_it_lacks() -> None:
    merged = DuplicateFilter(["S1"])
    merged.join("S2", 5)
    follow(merged, "S2(5,a)+; S2 P5-; S1(4,z)+; S1 P3+; S1(4,y)+")
    assert merged.receive("S1", promise(4)) == Punctuation(6, 3, 1.5)  # S1's 4 makes S2's 5 valid


def test_a_revived_stream_counts_from_zero_and_what_it_delivered_stays_delivered() -> None:
    merged = two()
    follow(merged, "S1(0,a)+; S1(0,a)+")
    merged.leave("S1")
    follow(merged, "S2(0,a)-")
    merged.join("S1", 0)
    assert follow(merged, "S1(0,a)-; S1(0,a)-; S2(0,a)-; S2(0,a)+; S1(0,a)-") == [2, 2, 2, 2, 2]


def test_no_stream_can_fall_behind_so_far_that_it_is_read_twice() -> None:
    steps = (
        "S1(4,a)+; S1 P5+; S2(2,z)-; S2 P3-; S2(4,a)-; S2(5,b)-; S2(6,c)+; S1(6,c)-; S2 P5-; S2 P6+; S1(6,d)-; S1 P6-"
    )
    assert follow(two(), steps)[-1] == 0


SPECIAL = {"time": "time", "f": "float", "i": "int", "b": "bool", "s": "str", "y": "bytes"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, math.nan, 1, True, "x", b"x"), (0, -math.nan, 1, True, "x", b"x")),
        ((0, 0.0, 1, True, "x", b"x"), (0, -0.0, 1, True, "x", b"x")),
        ((0, None, None, None, None, None), (0, None, None, None, None, None)),
        ((-5, 1e300, -(2**63), False, "", b"\0"), (-5, 1e300, -(2**63), False, "", b"\0")),
    ],
    ids=["NaN", "-0.0", "NULL", "extremes"],
)
def test_null_nan_and_signed_zero_are_equal_to_themselves(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    merged = two()
    assert merged.receive("S1", batch([one], SPECIAL)) is not None
    assert merged.receive("S2", batch([other], SPECIAL)) is None
    assert merged.receive("S2", batch([one], SPECIAL)) is not None


def test_null_is_not_zero_or_empty_or_nan_and_bytes_are_not_texts_of_other_columns() -> None:
    rows = [
        (0, None, 0, False, "", b""),
        (0, 0.0, None, False, "", b""),
        (0, 0.0, 0, None, "", b""),
        (0, 0.0, 0, False, None, b""),
        (0, 0.0, 0, False, "", None),
        (0, 0.0, 0, False, "", b""),
        (0, math.nan, 0, False, "", b""),
        (0, 0.0, 0, True, "", b""),
        (0, 0.0, 0, False, "a", b"b"),
        (0, 0.0, 0, False, "b", b"a"),
        (1, 0.0, 0, False, "b", b"a"),
    ]
    merged = two()
    passed = merged.receive("S1", batch(rows, SPECIAL))
    assert isinstance(passed, Batch)
    assert passed.rows == len(rows)
    assert merged.counters == len(rows)
    assert merged.receive("S2", batch(reversed(rows), SPECIAL)) is None


def test_tuples_of_many_columns_differ_in_the_nulls_of_each() -> None:
    schema = {"time": "time"} | {f"c{number}": "int" for number in range(70)}
    rows = [(0, *(None if column == row else 0 for column in range(70))) for row in range(70)]
    merged = two()
    merged.receive("S1", batch(rows, schema))
    assert merged.counters == 70
    assert merged.receive("S2", batch(rows[::-1], schema)) is None


def test_texts_are_the_same_in_large_and_small_tables() -> None:
    rows = [(number, f"server {number % 7}") for number in range(2000)]
    merged = two()
    assert merged.receive("S1", batch(rows)) is not None
    assert all(merged.receive("S2", batch(rows[start : start + 100])) is None for start in range(0, 2000, 100))
    assert merged.texts == 7


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_follow_the_order_of_arrival() -> None:
    merged = DuplicateFilter(["0", "1", "2"])
    for number, order in enumerate(["012", "210", "012", "10"]):
        for stream in order:
            merged.receive(stream, batch([(number, "a")]))
    assert merged.weights == pytest.approx({"0": 17 / 6, "1": 2.5, "2": 5 / 3}, rel=1e-12)
    assert merged.firsts == {"0": 2, "1": 1, "2": 1}
    merged.receive("1", promise(3))
    merged.receive("2", batch([(3, "a")]))  # its counters are gone: the last rank
    assert merged.weights["2"] == pytest.approx(2.0, rel=1e-12)
    merged.restart_weights()
    assert merged.weights == {"0": 0.0, "1": 0.0, "2": 0.0}


# -- beside the literal algorithm --------------------------------------------------------------------------------------


class Literal:
    """Algorithm 1 as it is printed, for one tuple or punctuation at a time."""

    def __init__(self) -> None:
        self.count: dict[Row, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.max_count: dict[Row, int] = defaultdict(int)
        self.max_punctuation = -math.inf

    def tuple(self, stream: str, t: Row) -> bool:
        if t[0] > self.max_punctuation:
            self.count[t][stream] += 1
            if self.count[t][stream] > self.max_count[t]:
                self.max_count[t] = self.count[t][stream]
                return True
        return False

    def punctuation(self, p: float) -> bool:
        if p > self.max_punctuation:
            self.max_punctuation = p
            for t in [t for t in self.count if t[0] <= p]:
                del self.count[t], self.max_count[t]
            return True
        return False


@st.composite
def replicated(draw: st.DrawFn) -> tuple[list[Row], list[tuple[str, list[Row] | int]]]:
    """A stream with its punctuations, and one interleaving of two or three replicas, each with its order and batches.

    A tuple may be delayed behind later ones, but not behind the punctuation that promises that it has come.
    """
    times = st.integers(0, 12)
    rows = draw(st.lists(st.tuples(times, st.sampled_from("abc")), max_size=30))
    ends = sorted(draw(st.sets(times, max_size=4)) | {12})
    replicas: list[list[tuple[str, list[Row] | int]]] = []
    for number in range(draw(st.integers(2, 3))):
        name = f"S{number + 1}"
        waiting = draw(st.permutations(rows))
        items: list[tuple[str, list[Row] | int]] = []
        for p in ends:
            early = draw(st.integers(0, 3))
            due = [row for row in waiting if row[0] <= p] + [row for row in waiting if row[0] > p][:early]
            due = draw(st.permutations(due))
            for row in due:
                waiting.remove(row)
            while due:
                size = draw(st.integers(1, len(due)))
                items.append((name, list(due[:size])))
                due = due[size:]
            items.append((name, p))
        replicas.append(items)
    merged: list[tuple[str, list[Row] | int]] = []
    while any(replicas):
        replica = draw(st.sampled_from([each for each in replicas if each]))
        merged.append(replica.pop(0))
    return rows, merged


@pytest.mark.slow
@given(replicated())
def test_batches_pass_as_tuple_by_tuple(case: tuple[list[Row], list[tuple[str, list[Row] | int]]]) -> None:
    rows, items = case
    merged = DuplicateFilter(sorted({name for name, _ in items}))
    literal, passed, promises = Literal(), list[Row](), list[int]()
    for name, item in items:
        if isinstance(item, int):
            found = merged.receive(name, promise(item))
            assert (found is not None) == literal.punctuation(item)
            if found is not None:
                assert isinstance(found, Punctuation)
                assert found.position == len(passed)
                promises.append(found.time)
        else:
            wanted = [row for row in item if literal.tuple(name, row)]
            got = merged.receive(name, batch(item))
            if got is None:
                assert not wanted
            else:
                assert isinstance(got, Batch)
                assert got.position == len(passed)
                assert list(_rows(got)) == wanted
                assert all(row[0] >= max(promises, default=0) for row in wanted)
                passed += wanted
        assert merged.counters == sum(map(len, literal.count.values()))
    assert Counter(passed) == Counter(rows)  # theorem 1
    assert merged.counters == 0


@pytest.mark.slow
@given(replicated(), st.integers(0, 20))
@settings(max_examples=40)
def test_plain_code_passes_the_same_until_the_compiled_code_is_loaded(
    case: tuple[list[Row], list[tuple[str, list[Row] | int]]], loaded_at: int
) -> None:
    _, items = case
    streams = sorted({name for name, _ in items})
    merged, compiled = DuplicateFilter(streams), DuplicateFilter(streams)
    with pytest.MonkeyPatch.context() as patch:
        for number, (name, item) in enumerate(items):
            given_item = promise(item) if isinstance(item, int) else batch(item)
            wanted = compiled.receive(name, given_item)
            with patch.context() as meanwhile:
                if number < loaded_at:
                    meanwhile.setattr(duplicate_filter, "table_code", lambda: PLAIN)
                got = merged.receive(name, given_item)
            if isinstance(wanted, Batch):
                assert isinstance(got, Batch)
                assert list(_rows(got)) == list(_rows(wanted))
            else:
                assert got == wanted
            assert merged.counters == compiled.counters
    assert merged.weights == compiled.weights
    assert merged.firsts == compiled.firsts


def test_streams_do_not_wait_for_the_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def warm(_kernel: Any) -> None:
        begun.set()
        go_on.wait(60.0)

    module = CompiledModule(duplicate_kernel.__name__, warm)
    monkeypatch.setattr(duplicate_code, "COMPILED", module)
    module.load_in_background()
    assert begun.wait(60.0)
    module.load_in_background()  # a second component of the peer
    merged = two()
    follow(merged, "S1(0,a)+; S2(0,a)-; S2(1,b)+; S1 P0+")
    assert duplicate_code.table_code() is PLAIN
    go_on.set()
    (thread,) = (each for each in threading.enumerate() if each.name == f"synergy {module.name}")
    thread.join(60.0)
    assert module.loaded() is duplicate_kernel
    follow(merged, "S1(1,b)-; S1(2,c)+; S2 P1+")


def _rows(found: Batch) -> Iterator[Row]:
    table = found.table
    return zip(table["time"].to_physical().to_list(), table["name"].to_list(), strict=True)


@pytest.mark.parametrize("joined_at", range(0, 41, 4))
def test_nothing_is_lost_wherever_a_stream_joins(joined_at: int) -> None:
    rng = np.random.default_rng(joined_at)
    rows = [(number // 2, "ab"[number % 2]) for number in range(40)]
    own: list[Row | int] = []
    for start in range(0, 40, 8):
        own += [rows[start + each] for each in rng.permutation(8)] + [start // 2 + 3]
    other = [each for each in own if isinstance(each, int) or each[0] % 3]
    merged, passed = DuplicateFilter(["S1"]), list[Row]()

    def send(stream: str, each: Row | int) -> None:
        found = merged.receive(stream, promise(each) if isinstance(each, int) else batch([each]))
        passed.extend(_rows(found) if isinstance(found, Batch) else ())

    behind = list(own)
    for _ in range(joined_at):
        send("S1", behind.pop(0))
    merged.join("S2", 20)
    for each in other:  # S2 misses a third of the tuples, and is far ahead of S1
        send("S2", each)
    for each in behind:
        send("S1", each)
    assert Counter(passed) == Counter(rows)


def test_a_copy_goes_on_by_itself() -> None:
    merged = two()
    follow(merged, "S1(0,a)+; S2(1,b)+")
    copied = copy.deepcopy(merged)
    for each in (merged, copied):
        follow(each, "S2(0,a)-; S1(1,b)-; S1(2,c)+")


# -- memory ----------------------------------------------------------------------------------------------------------


def test_memory_is_bounded_by_one_interval_though_a_stream_stands_still() -> None:
    merged, largest = DuplicateFilter(["S1", "S2", "S3"]), 0
    for interval in range(300):
        rows = [(interval * 50 + number, f"{interval} {number}") for number in range(50)]
        merged.receive("S1", batch(rows))
        merged.receive("S2", batch(reversed(rows)))
        assert merged.counters == 100
        merged.receive("S1", promise(interval * 50 + 49))
        merged.receive("S3", batch([(interval, f"late {interval}")]))
        assert merged.counters == 0
        largest = max(largest, merged.nbytes)
        assert merged.texts <= 2 * 1024
    assert largest < 200_000


def test_the_end_of_one_stream_is_the_end() -> None:
    merged = two()
    merged.receive("S1", batch([(0, "a")]))
    assert merged.receive("S1", Punctuation(END, 1, 0.0)) == Punctuation(END, 1, 0.0)
    assert merged.receive("S2", batch([(0, "a")])) is None
    assert merged.receive("S2", Punctuation(END, 1, 0.0)) is None


# -- errors ----------------------------------------------------------------------------------------------------------


def test_errors_name_the_stream_or_the_columns() -> None:
    with pytest.raises(ValueError, match="streams: none; expected at least one"):
        DuplicateFilter([])
    merged = two()
    with pytest.raises(ValueError, match="stream: 'S3'; expected one of S1, S2"):
        merged.receive("S3", promise(0))
    with pytest.raises(ValueError, match="stream: 'S1' is one of S1, S2; expected another"):
        merged.join("S1", 0)
    merged.receive("S1", batch([(0, "a")]))
    with pytest.raises(ValueError, match="expected the columns of the stream"):
        merged.receive("S2", batch([(0, 1)], {"time": "time", "name": "int"}))
